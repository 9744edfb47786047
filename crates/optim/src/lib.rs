//! Optimisers.
#![forbid(unsafe_code)]
