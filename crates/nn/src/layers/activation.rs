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
    /// The scaled exponential linear unit, see [`Var::selu`].
    ///
    /// ```
    /// use foldback_nn::SELU;
    /// use foldback_tensor::tensor;
    /// assert_eq!(SELU.forward(&tensor![0.0])?.value(), tensor![0.0]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    SELU: |x| x.try_selu();
    /// `x tanh(ln(1 + exp(x)))`, see [`Var::mish`].
    ///
    /// ```
    /// use foldback_nn::Mish;
    /// use foldback_tensor::tensor;
    /// assert_eq!(Mish.forward(&tensor![0.0])?.value(), tensor![0.0]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    Mish: |x| x.try_mish();
    /// `-ln(1 + exp(-x))`, see [`Var::logsigmoid`].
    ///
    /// ```
    /// use foldback_nn::LogSigmoid;
    /// use foldback_tensor::tensor;
    /// assert_eq!(LogSigmoid.forward(&tensor![200.0])?.value(), tensor![0.0]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    LogSigmoid: |x| x.try_logsigmoid();
    /// `x / (1 + |x|)`, see [`Var::softsign`].
    ///
    /// ```
    /// use foldback_nn::Softsign;
    /// use foldback_tensor::tensor;
    /// assert_eq!(Softsign.forward(&tensor![1.0])?.value(), tensor![0.5]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    Softsign: |x| x.try_softsign();
    /// `x / 6 + 1 / 2` between 0 and 1, see [`Var::hardsigmoid`].
    ///
    /// ```
    /// use foldback_nn::Hardsigmoid;
    /// use foldback_tensor::tensor;
    /// assert_eq!(Hardsigmoid.forward(&tensor![-4.0, 0.0])?.value(), tensor![0.0, 0.5]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    Hardsigmoid: |x| x.try_hardsigmoid();
    /// `x hardsigmoid(x)`, see [`Var::hardswish`].
    ///
    /// ```
    /// use foldback_nn::Hardswish;
    /// use foldback_tensor::tensor;
    /// assert_eq!(Hardswish.forward(&tensor![-4.0, 4.0])?.value(), tensor![0.0, 4.0]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    Hardswish: |x| x.try_hardswish();
    /// `x` between 0 and 6, see [`Var::hardtanh_with`].
    ///
    /// ```
    /// use foldback_nn::ReLU6;
    /// use foldback_tensor::tensor;
    /// assert_eq!(ReLU6.forward(&tensor![-1.0, 2.0, 8.0])?.value(), tensor![0.0, 2.0, 6.0]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    ReLU6: |x| x.hardtanh_with(0, 6);
    /// `x - tanh(x)`.
    ///
    /// ```
    /// use foldback_nn::Tanhshrink;
    /// use foldback_tensor::tensor;
    /// assert_eq!(Tanhshrink.forward(&tensor![0.0])?.value(), tensor![0.0]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    Tanhshrink: |x| x.sub(x.tanh());
}

#[cfg(test)]
mod tests {
    use foldback_tensor::{Tensor, assert_close, tensor};

    use super::*;
    use crate::{Layer, Softplus};

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
