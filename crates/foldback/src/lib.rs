//! Reverse-mode automatic differentiation on the CPU.
#![forbid(unsafe_code)]
