//! Layers, losses and initialisers.
#![forbid(unsafe_code)]
