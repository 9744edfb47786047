//! What most programs and the pages of the guide use: `use foldback::prelude::*;`.

pub use crate::data::{DataLoader, Dataset, Normaliser, TensorDataset, random_split};
pub use crate::gradcheck::{Check, gradcheck, gradgradcheck};
pub use crate::graph::{
    Backward, Grad, RequiresGrad, Var, enable_grad, grad, grad_with, hessian, hvp, jacobian, jvp, no_grad,
    vhp, vjp,
};
pub use crate::nn::{
    self, Dropout, GELU, GELUTanh, Layer, Linear, Module, ReLU, Sequential, SiLU, Sigmoid, Softplus, Tanh,
    forward, loss, sequential,
};
pub use crate::optim::{Adam, AdamW, Optimizer, SGD};
pub use crate::tensor::{Attention, Conv, Interpolate, InterpolateMode, Norm, Pad, Padding, Pool};
pub use crate::tensor::{DType, Tensor, keep, manual_seed, s};
pub use crate::train::{EarlyStopping, Fit};
pub use crate::{Error, Result, assert_close, assert_grads, fuse, tensor};
