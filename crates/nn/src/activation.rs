//! Activation functions as layers.

use foldback_graph::Var;

use crate::error::Result;
use crate::layer_path::in_layer;
use crate::module::Module;
use crate::parameters::{Parameters, Visitor};

macro_rules! activations {
    ($($(#[$doc:meta])* $name:ident: |$x:ident| $value:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name;

        without_parameters!($name);

        impl Module for $name {
            #[track_caller]
            fn forward(&self, $x: &Var) -> Result<Var> {
                in_layer(self, $value)
            }
        }
    )*};
}

macro_rules! without_parameters {
    ($name:ident) => {
        impl Parameters for $name {
            fn visit(&self, visitor: &mut Visitor<'_>) {
                visitor.layer(self);
            }
            fn set_training(&mut self, _: bool) {}
        }
    };
}

activations! {
    /// `max(x, 0)`, see [`Var::relu`].
    ///
    /// ```
    /// use foldback_nn::{Module, ReLU};
    /// use foldback_tensor::tensor;
    /// assert_eq!(ReLU.forward(&tensor![-1.0, 2.0].into())?.value(), tensor![0.0, 2.0]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    ReLU: |x| x.relu();
    /// The hyperbolic tangent, see [`Var::tanh`].
    ///
    /// ```
    /// use foldback_nn::{Module, Tanh};
    /// use foldback_tensor::tensor;
    /// assert_eq!(Tanh.forward(&tensor![0.0].into())?.value(), tensor![0.0]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    Tanh: |x| Ok(x.tanh());
    /// `1 / (1 + exp(-x))`, see [`Var::sigmoid`].
    ///
    /// ```
    /// use foldback_nn::{Module, Sigmoid};
    /// use foldback_tensor::tensor;
    /// assert_eq!(Sigmoid.forward(&tensor![0.0].into())?.value(), tensor![0.5]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    Sigmoid: |x| Ok(x.sigmoid());
    /// `x sigmoid(x)`, see [`Var::silu`].
    ///
    /// ```
    /// use foldback_nn::{Module, SiLU};
    /// use foldback_tensor::tensor;
    /// assert_eq!(SiLU.forward(&tensor![0.0].into())?.value(), tensor![0.0]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    SiLU: |x| x.silu();
}

/// `x Phi(x)`, see [`Var::gelu`]; or its approximation by tanh, see [`Var::gelu_tanh`].
///
/// ```
/// use foldback_nn::{GELU, Module};
/// use foldback_tensor::tensor;
/// assert_eq!(GELU::new().forward(&tensor![0.0].into())?.value(), tensor![0.0]);
/// assert_eq!(GELU::tanh().forward(&tensor![0.0].into())?.value(), tensor![0.0]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GELU {
    approximate: bool,
}

impl GELU {
    /// The exact function.
    pub fn new() -> GELU {
        GELU { approximate: false }
    }

    /// The approximation by tanh: PyTorch's `approximate='tanh'`.
    pub fn tanh() -> GELU {
        GELU { approximate: true }
    }
}

without_parameters!(GELU);

impl Module for GELU {
    /// # Errors
    /// `DTypeUnsupported` for integers and `bool`.
    #[track_caller]
    fn forward(&self, x: &Var) -> Result<Var> {
        let y = if self.approximate { x.gelu_tanh() } else { x.gelu() };
        in_layer(self, y)
    }
}

/// `ln(1 + exp(beta x)) / beta`, see [`Var::softplus_with`].
///
/// ```
/// use foldback_nn::{Module, Softplus};
/// use foldback_tensor::tensor;
/// assert_eq!(Softplus::default().forward(&tensor![30.0].into())?.value(), tensor![30.0]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Softplus {
    beta: f64,
    threshold: f64,
}

impl Softplus {
    /// With a steepness, and the value of `beta x` above which the function is taken to be `x` itself.
    pub fn new(beta: f64, threshold: f64) -> Softplus {
        Softplus { beta, threshold }
    }
}

impl Default for Softplus {
    /// `beta` 1 and `threshold` 20, as in PyTorch.
    fn default() -> Softplus {
        Softplus::new(1.0, 20.0)
    }
}

without_parameters!(Softplus);

impl Module for Softplus {
    /// # Errors
    /// `DTypeUnsupported` for integers and `bool`.
    #[track_caller]
    fn forward(&self, x: &Var) -> Result<Var> {
        in_layer(self, x.softplus_with(self.beta, self.threshold))
    }
}

#[cfg(test)]
mod tests {
    use foldback_tensor::{Tensor, assert_close, tensor};

    use super::*;

    fn at(layer: &dyn Module, x: &Tensor) -> Tensor {
        layer.forward(&x.into()).unwrap().value()
    }

    #[test]
    fn values() {
        let x = tensor![-1.0, 0.0, 2.0; f64];
        assert_eq!(at(&ReLU, &x), tensor![0.0, 0.0, 2.0; f64]);
        assert_close!(at(&Tanh, &x), tensor![(-1f64).tanh(), 0.0, 2f64.tanh(); f64]);
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        assert_close!(at(&Sigmoid, &x), tensor![sigmoid(-1.0), 0.5, sigmoid(2.0); f64]);
        assert_close!(at(&SiLU, &x), tensor![-sigmoid(-1.0), 0.0, 2.0 * sigmoid(2.0); f64]);
        // PyTorch 2.15: torch.nn.functional.gelu, with and without approximate='tanh'
        assert_close!(at(&GELU::new(), &x), tensor![-0.15865525393145707, 0.0, 1.9544997361036416; f64]);
        assert_close!(at(&GELU::tanh(), &x), tensor![-0.15880800939172324, 0.0, 1.954597694087775; f64]);
        let softplus = |x: f64| (2.0 * x).exp().ln_1p() / 2.0;
        assert_close!(at(&Softplus::new(2.0, 3.0), &x), tensor![softplus(-1.0), softplus(0.0), 2.0; f64]);
    }

    #[test]
    fn integers_are_refused() {
        let x: Var = tensor![1, 2; i64].into();
        assert!(GELU::new().forward(&x).is_err());
        assert!(SiLU.forward(&x).is_err());
        assert!(Softplus::default().forward(&x).is_err());
        assert!(ReLU.forward(&tensor![true; bool].into()).is_err());
    }
}
