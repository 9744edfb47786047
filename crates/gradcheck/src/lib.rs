//! Numerical checks of gradients.
