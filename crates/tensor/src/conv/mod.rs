//! Convolutions and their transposes, over one axis and two.

mod options;
mod plan;
mod rule;
#[cfg(test)]
mod tests;

pub use options::{Conv, Padding};
pub use plan::Convolution;
