//! Profiling: where an operation's time is taken, if the crate's feature `profile` is on. Without it, these are nothing.

#[cfg(feature = "profile")]
mod report;
#[cfg(feature = "profile")]
mod spans;
#[cfg(all(test, feature = "profile"))]
mod tests;

#[cfg(feature = "profile")]
pub use report::{Profile, ProfileLine};
#[cfg(feature = "profile")]
pub use spans::profile;
#[cfg(feature = "profile")]
pub(crate) use spans::{backward, forward, results};

#[cfg(not(feature = "profile"))]
pub(crate) use off::{backward, forward, results};

#[cfg(not(feature = "profile"))]
mod off {
    use foldback_tensor::Tensor;

    use crate::node::Node;

    /// A stretch of time that nobody takes.
    pub(crate) struct NoSpan;

    #[inline(always)]
    pub(crate) fn forward(_: &'static str) -> NoSpan {
        NoSpan
    }

    #[inline(always)]
    pub(crate) fn backward(_: &Node) -> NoSpan {
        NoSpan
    }

    #[inline(always)]
    pub(crate) fn results(_: &[Tensor]) {}
}
