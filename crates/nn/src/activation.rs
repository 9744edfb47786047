//! Activation functions as layers.

use foldback_graph::Var;

use crate::error::Result;
use crate::{Module, forward};

macro_rules! activations {
    ($($(#[$doc:meta])* $name:ident: |$x:ident| $value:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Module)]
        pub struct $name;

        #[forward]
        impl $name {
            /// The function of each element.
            ///
            /// # Errors
            /// `DTypeUnsupported` for types that the operation has no value for.
            #[track_caller]
            pub fn forward(&self, $x: &Var) -> Result<Var> {
                $value
            }
        }
    )*};
}

activations! {
    /// `max(x, 0)`, see [`Var::relu`].
    ///
    /// ```
    /// use foldback_nn::ReLU;
    /// use foldback_tensor::tensor;
    /// assert_eq!(ReLU.forward(&tensor![-1.0, 2.0])?.value(), tensor![0.0, 2.0]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    ReLU: |x| x.try_relu();
    /// The hyperbolic tangent, see [`Var::tanh`].
    ///
    /// ```
    /// use foldback_nn::Tanh;
    /// use foldback_tensor::tensor;
    /// assert_eq!(Tanh.forward(&tensor![0.0])?.value(), tensor![0.0]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    Tanh: |x| Ok(x.tanh());
    /// `1 / (1 + exp(-x))`, see [`Var::sigmoid`].
    ///
    /// ```
    /// use foldback_nn::Sigmoid;
    /// use foldback_tensor::tensor;
    /// assert_eq!(Sigmoid.forward(&tensor![0.0])?.value(), tensor![0.5]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    Sigmoid: |x| Ok(x.sigmoid());
    /// `x sigmoid(x)`, see [`Var::silu`].
    ///
    /// ```
    /// use foldback_nn::SiLU;
    /// use foldback_tensor::tensor;
    /// assert_eq!(SiLU.forward(&tensor![0.0])?.value(), tensor![0.0]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    SiLU: |x| x.try_silu();
    /// `x Phi(x)`, see [`Var::gelu`].
    ///
    /// ```
    /// use foldback_nn::GELU;
    /// use foldback_tensor::tensor;
    /// assert_eq!(GELU.forward(&tensor![0.0])?.value(), tensor![0.0]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    GELU: |x| x.try_gelu();
    /// [`GELU`] by its approximation with tanh: PyTorch's `approximate='tanh'`, see [`Var::gelu_tanh`].
    ///
    /// ```
    /// use foldback_nn::GELUTanh;
    /// use foldback_tensor::tensor;
    /// assert_eq!(GELUTanh.forward(&tensor![0.0])?.value(), tensor![0.0]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    GELUTanh: |x| x.try_gelu_tanh();
}

/// `ln(1 + exp(beta x)) / beta`, see [`Var::softplus_with`].
///
/// ```
/// use foldback_nn::Softplus;
/// use foldback_tensor::tensor;
/// assert_eq!(Softplus::new().forward(&tensor![30.0])?.value(), tensor![30.0]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Module)]
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

#[forward]
impl Softplus {
    /// The function of each element.
    ///
    /// # Errors
    /// `DTypeUnsupported` for integers and `bool`.
    #[track_caller]
    pub fn forward(&self, x: &Var) -> Result<Var> {
        x.softplus_with(self.beta, self.threshold)
    }
}

#[cfg(test)]
mod tests {
    use foldback_tensor::{Tensor, assert_close, tensor};

    use super::*;
    use crate::Layer;

    fn at(layer: &dyn Layer, x: &Tensor) -> Tensor {
        layer.forward(x).unwrap().value()
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
        let x = tensor![1, 2; i64];
        assert!(GELU.forward(&x).is_err());
        assert!(SiLU.forward(&x).is_err());
        assert!(Softplus::new().forward(&x).is_err());
        assert!(ReLU.forward(&tensor![true; bool]).is_err());
    }
}
