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
    ReLU: |x| x.relu().map_err(Into::into);
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
    SiLU: |x| x.silu().map_err(Into::into);
    /// `x Phi(x)`, see [`Var::gelu`].
    ///
    /// ```
    /// use foldback_nn::{GELU, Module};
    /// use foldback_tensor::tensor;
    /// assert_eq!(GELU.forward(&tensor![0.0].into())?.value(), tensor![0.0]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    GELU: |x| x.gelu().map_err(Into::into);
    /// [`GELU`] by its approximation with tanh: PyTorch's `approximate='tanh'`, see [`Var::gelu_tanh`].
    ///
    /// ```
    /// use foldback_nn::{GELUTanh, Module};
    /// use foldback_tensor::tensor;
    /// assert_eq!(GELUTanh.forward(&tensor![0.0].into())?.value(), tensor![0.0]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    GELUTanh: |x| x.gelu_tanh().map_err(Into::into);
}

/// `ln(1 + exp(beta x)) / beta`, see [`Var::softplus_with`].
///
/// ```
/// use foldback_nn::{Module, Softplus};
/// use foldback_tensor::tensor;
/// assert_eq!(Softplus::new().forward(&tensor![30.0].into())?.value(), tensor![30.0]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Softplus {
    beta: f64,
    threshold: f64,
}

impl Softplus {
    /// `beta` 1 and `threshold` 20, as in PyTorch.
    pub fn new() -> Softplus {
        Softplus { beta: 1.0, threshold: 20.0 }
    }

    /// The steepness. The default is 1.
    #[must_use]
    pub fn beta(mut self, beta: f64) -> Softplus {
        self.beta = beta;
        self
    }

    /// The value of `beta x` above which the function is taken to be `x` itself. The default is 20.
    #[must_use]
    pub fn threshold(mut self, threshold: f64) -> Softplus {
        self.threshold = threshold;
        self
    }
}

impl Default for Softplus {
    fn default() -> Softplus {
        Softplus::new()
    }
}

without_parameters!(Softplus);

impl Module for Softplus {
    /// # Errors
    /// `Graph` for integers and `bool`.
    #[track_caller]
    fn forward(&self, x: &Var) -> Result<Var> {
        in_layer(self, x.softplus_with(self.beta, self.threshold).map_err(Into::into))
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
        assert_close!(at(&GELU, &x), tensor![-0.15865525393145707, 0.0, 1.9544997361036416; f64]);
        assert_close!(at(&GELUTanh, &x), tensor![-0.15880800939172324, 0.0, 1.954597694087775; f64]);
        let softplus = |x: f64| (2.0 * x).exp().ln_1p() / 2.0;
        assert_close!(
            at(&Softplus::new().beta(2.0).threshold(3.0), &x),
            tensor![softplus(-1.0), softplus(0.0), 2.0; f64]
        );
    }

    #[test]
    fn integers_are_refused() {
        let x: Var = tensor![1, 2; i64].into();
        assert!(GELU.forward(&x).is_err());
        assert!(SiLU.forward(&x).is_err());
        assert!(Softplus::new().forward(&x).is_err());
        assert!(ReLU.forward(&tensor![true; bool].into()).is_err());
    }
}
