//! What the tests of several crates share.

pub mod conformance;
pub mod formulas;
pub mod guide;
pub mod hostile;
pub mod model;
pub mod optimisers;
pub mod oracle;
pub mod programs;
pub mod steal;
mod training;

pub use training::rewrite_to;
