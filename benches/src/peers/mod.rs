//! The same work in other Rust libraries; each is compiled with the feature of its name.

#[cfg(feature = "burn")]
mod burn;
#[cfg(feature = "candle")]
mod candle;
#[cfg(feature = "dfdx")]
mod dfdx;
#[cfg(any(feature = "burn", feature = "candle", feature = "dfdx"))]
mod job;

use crate::worker::Making;

/// A library: its name, its version, and its job for a workload if it has one.
type Peer = (&'static str, &'static str, fn(&str) -> Option<Making>);

const PEERS: &[Peer] = &[
    #[cfg(feature = "candle")]
    ("candle", "candle 0.11", candle::job),
    #[cfg(feature = "burn")]
    ("burn", "burn 0.22 (flex)", burn::job),
    #[cfg(feature = "dfdx")]
    ("dfdx", "dfdx 0.13", dfdx::job),
];

/// Whether any peer is compiled in.
pub const ANY: bool = !PEERS.is_empty();

/// The jobs of all libraries that do this work.
pub fn jobs(key: &str) -> impl Iterator<Item = (&'static str, Making)> {
    PEERS.iter().filter_map(move |(name, _, job)| Some((*name, job(key)?)))
}

/// Names with versions.
pub fn versions() -> impl Iterator<Item = &'static str> {
    PEERS.iter().map(|(_, version, _)| *version)
}
