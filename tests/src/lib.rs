//! What the tests of several crates share.

pub mod conformance;
pub mod steal;
