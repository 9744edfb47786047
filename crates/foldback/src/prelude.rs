//! What most programs need: `use foldback::prelude::*;`.

pub use crate::error::{Error, Result};
pub use crate::graph::{RequiresGrad, Var, no_grad};
pub use crate::nn::{
    self, Dropout, Forward, GELU, Linear, Module, Parameters, ReLU, Sequential, SiLU, Sigmoid, Softplus,
    Tanh, loss,
};
pub use crate::optim::{Adam, AdamOptions, AdamW, Optimizer, SGD, SgdOptions};
pub use crate::tensor::{DType, Tensor, manual_seed};
pub use crate::{assert_close, fuse, tensor};
