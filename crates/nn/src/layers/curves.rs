//! Activation functions with settings.

use foldback_graph::Var;
use foldback_tensor::{Here, refuse};

use crate::error::{NnFacts, Result};
use crate::init::Init;
use crate::{Module, forward};

macro_rules! curves {
    (@default $layer:ident($($arg:ident),+)) => {};
    (@default $layer:ident()) => {
        impl Default for $layer {
            fn default() -> $layer {
                $layer::new()
            }
        }
    };
    ($(
        $(#[$doc:meta])*
        $layer:ident($($arg:ident: $arg_ty:ty),*) { $($(#[$set_doc:meta])* $set:ident: $set_ty:ty = $default:expr;)* }
        |$own:ident, $x:ident| $value:expr;
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Module)]
        pub struct $layer {
            $(#[module(skip)] $arg: $arg_ty,)*
            $(#[module(skip)] $set: $set_ty,)*
        }

        impl $layer {
            /// With PyTorch's defaults.
            pub fn new($($arg: $arg_ty),*) -> $layer {
                $layer { $($arg,)* $($set: $default,)* }
            }

            $(
                $(#[$set_doc])*
                #[must_use]
                pub fn $set(mut self, $set: $set_ty) -> $layer {
                    self.$set = $set;
                    self
                }
            )*
        }

        curves!(@default $layer($($arg),*));

        #[forward]
        impl $layer {
            /// The function of the input, of the input's shape unless it says otherwise.
            ///
            /// # Errors
            /// `DTypeUnsupported` or `DType` for types that the function has no value for; for an axis that the input does not have;
            /// `Parameter` for a setting outside its domain.
            #[track_caller]
            pub fn forward(&self, $x: &Var) -> Result<Var> {
                let $own = self;
                $value
            }
        }
    )*};
}

curves! {
    /// `ln(1 + exp(beta x)) / beta`, see [`Var::softplus_with`].
    ///
    /// ```
    /// use foldback_nn::Softplus;
    /// use foldback_tensor::tensor;
    /// assert_eq!(Softplus::new().forward(&tensor![30.0])?.value(), tensor![30.0]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    Softplus() {
        /// The steepness. The default is 1.
        beta: f64 = 1.0;
        /// The value of `beta x` above which the function is taken to be `x` itself. The default is 20.
        threshold: f64 = 20.0;
    } |own, x| x.softplus_with(own.beta, own.threshold);
    /// `x`, and `alpha (exp(x) - 1)` below zero, see [`Var::elu_with`].
    ///
    /// ```
    /// use foldback_nn::ELU;
    /// use foldback_tensor::tensor;
    /// assert_eq!(ELU::new().alpha(2.0).forward(&tensor![-100.0, 3.0])?.value(), tensor![-2.0, 3.0]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    ELU() {
        /// What the function falls to, negated. The default is 1.
        alpha: f64 = 1.0;
    } |own, x| x.elu_with(own.alpha);
    /// `x`, and `alpha (exp(x / alpha) - 1)` below zero, see [`Var::celu_with`].
    ///
    /// ```
    /// use foldback_nn::CELU;
    /// use foldback_tensor::tensor;
    /// assert_eq!(CELU::new().alpha(2.0).forward(&tensor![-100.0, 3.0])?.value(), tensor![-2.0, 3.0]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    CELU() {
        /// What the function falls to, negated, not 0. The default is 1.
        alpha: f64 = 1.0;
    } |own, x| x.celu_with(own.alpha);
    /// `x`, and this slope times `x` below zero, see [`Var::leaky_relu_with`].
    ///
    /// ```
    /// use foldback_nn::LeakyReLU;
    /// use foldback_tensor::tensor;
    /// let layer = LeakyReLU::new().negative_slope(0.5);
    /// assert_eq!(layer.forward(&tensor![-2.0, 3.0])?.value(), tensor![-1.0, 3.0]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    LeakyReLU() {
        /// The slope below zero. The default is 0.01.
        negative_slope: f64 = 0.01;
    } |own, x| x.leaky_relu_with(own.negative_slope);
    /// `x` between two bounds, see [`Var::hardtanh_with`].
    ///
    /// ```
    /// use foldback_nn::Hardtanh;
    /// use foldback_tensor::tensor;
    /// assert_eq!(Hardtanh::new().forward(&tensor![-2.0, 0.5])?.value(), tensor![-1.0, 0.5]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    Hardtanh() {
        /// The lower bound. The default is -1.
        min_val: f64 = -1.0;
        /// The upper bound, above the lower one. The default is 1.
        max_val: f64 = 1.0;
    } |own, x| {
        if own.max_val.is_nan() || own.max_val <= own.min_val {
            let (op, name, expected) = ("hardtanh", "max_val", "a number above min_val");
            return refuse(NnFacts::Parameter { op, name, value: own.max_val, expected }).here();
        }
        x.hardtanh_with(own.min_val, own.max_val)
    };
    /// 0 where `|x|` is at most a bound, `x` elsewhere. PyTorch's
    /// [`Hardshrink`](https://docs.pytorch.org/docs/stable/generated/torch.nn.Hardshrink.html).
    ///
    /// ```
    /// use foldback_nn::Hardshrink;
    /// use foldback_tensor::tensor;
    /// assert_eq!(Hardshrink::new().forward(&tensor![0.5, -2.0])?.value(), tensor![0.0, -2.0]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    Hardshrink() {
        /// The bound. The default is 0.5.
        lambd: f64 = 0.5;
    } |own, x| {
        expect_float("hardshrink", x)?;
        // As PyTorch has it, also for a negative bound: within both ends.
        let small = x.ge(-own.lambd)?.logical_and(&x.le(own.lambd)?)?;
        x.masked_fill(&small, 0.0)
    };
    /// `x` moved towards 0 by a bound, and 0 where `|x|` is at most that. PyTorch's
    /// [`Softshrink`](https://docs.pytorch.org/docs/stable/generated/torch.nn.Softshrink.html).
    ///
    /// ```
    /// use foldback_nn::Softshrink;
    /// use foldback_tensor::tensor;
    /// assert_eq!(Softshrink::new().forward(&tensor![0.5, -2.0])?.value(), tensor![0.0, -1.5]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    Softshrink() {
        /// The bound, 0 or more. The default is 0.5.
        lambd: f64 = 0.5;
    } |own, x| {
        expect_float("softshrink", x)?;
        if own.lambd.is_nan() || own.lambd < 0.0 {
            let (op, name, expected) = ("softshrink", "lambd", "0 or more");
            return refuse(NnFacts::Parameter { op, name, value: own.lambd, expected }).here();
        }
        let moved = x.sub(&x.sign().mul(own.lambd)?)?;
        moved.masked_fill(&x.abs().le(own.lambd)?, 0.0)
    };
    /// `x` above a threshold, and a number elsewhere. PyTorch's
    /// [`Threshold`](https://docs.pytorch.org/docs/stable/generated/torch.nn.Threshold.html).
    ///
    /// ```
    /// use foldback_nn::Threshold;
    /// use foldback_tensor::tensor;
    /// assert_eq!(Threshold::new(1.0, 9.0).forward(&tensor![1.0, 2.0])?.value(), tensor![9.0, 2.0]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    Threshold(threshold: f64, value: f64) {} |own, x| x.masked_fill(&x.le(own.threshold)?, own.value);
    /// The first half of an axis times the sigmoid of the second, see [`Var::glu`].
    ///
    /// ```
    /// use foldback_nn::GLU;
    /// use foldback_tensor::tensor;
    /// assert_eq!(GLU::new().forward(&tensor![3.0, 0.0])?.value(), tensor![1.5]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    GLU() {
        /// The axis. The default is the last one.
        dim: isize = -1;
    } |own, x| x.glu(own.dim);
    /// `exp(x) / sum(exp(x))` along an axis, see [`Var::softmax`].
    ///
    /// ```
    /// use foldback_nn::Softmax;
    /// use foldback_tensor::tensor;
    /// assert_eq!(Softmax::new(-1).forward(&tensor![2.0, 2.0])?.value(), tensor![0.5, 0.5]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    Softmax(dim: isize) {} |own, x| x.softmax(own.dim);
    /// The softmax of `-x` along an axis, see [`Var::softmax`].
    ///
    /// ```
    /// use foldback_nn::Softmin;
    /// use foldback_tensor::tensor;
    /// assert_eq!(Softmin::new(-1).forward(&tensor![2.0, 2.0])?.value(), tensor![0.5, 0.5]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    Softmin(dim: isize) {} |own, x| x.try_neg()?.softmax(own.dim);
    /// The logarithm of the softmax along an axis, see [`Var::log_softmax`].
    ///
    /// ```
    /// use foldback_nn::LogSoftmax;
    /// use foldback_tensor::tensor;
    /// assert_eq!(LogSoftmax::new(-1).forward(&tensor![[2.0]])?.value(), tensor![[0.0]]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    LogSoftmax(dim: isize) {} |own, x| x.log_softmax(own.dim);
    /// The softmax over the channels of images, `[n, c, h, w]` or `[c, h, w]`. PyTorch's
    /// [`Softmax2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.Softmax2d.html).
    ///
    /// ```
    /// use foldback_nn::Softmax2d;
    /// use foldback_tensor::Tensor;
    /// assert_eq!(Softmax2d::new().forward(&Tensor::zeros([2, 1, 1]))?.value(), Tensor::full([2, 1, 1], 0.5));
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    Softmax2d() {} |_own, x| {
        if !matches!(x.rank(), 3 | 4) {
            let expected = "[n, c, h, w] or [c, h, w]".into();
            return refuse(NnFacts::InputShape { op: "softmax2d", name: "an input", expected, found: x.shape().clone() }).here();
        }
        x.softmax(-3)
    };
}

/// `x`, and a slope times `x` below zero: in training one for each element, drawn between two bounds, afterwards their mean (Xu,
/// Wang, Chen and Li, 2015). PyTorch's [`RReLU`](https://docs.pytorch.org/docs/stable/generated/torch.nn.RReLU.html).
///
/// ```
/// use foldback_nn::{Module, RReLU};
/// use foldback_tensor::tensor;
/// let mut layer = RReLU::new().lower(0.25).upper(0.75);
/// layer.eval();
/// assert_eq!(layer.forward(&tensor![-2.0, 3.0])?.value(), tensor![-1.0, 3.0]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct RReLU {
    lower: f64,
    upper: f64,
    training: bool,
}

impl RReLU {
    /// Slopes between 1/8 and 1/3.
    pub fn new() -> RReLU {
        RReLU { lower: 1.0 / 8.0, upper: 1.0 / 3.0, training: true }
    }

    /// The lower bound of slopes. The default is 1/8.
    #[must_use]
    pub fn lower(mut self, lower: f64) -> RReLU {
        self.lower = lower;
        self
    }

    /// The upper bound of slopes. The default is 1/3.
    #[must_use]
    pub fn upper(mut self, upper: f64) -> RReLU {
        self.upper = upper;
        self
    }
}

impl Default for RReLU {
    fn default() -> RReLU {
        RReLU::new()
    }
}

#[forward]
impl RReLU {
    /// The function of each element.
    ///
    /// # Errors
    /// `DType` for integers and `bool`, `Parameter` if the upper bound is below the lower one.
    #[track_caller]
    pub fn forward(&self, x: &Var) -> Result<Var> {
        expect_float("rrelu", x)?;
        if self.upper.is_nan() || self.upper < self.lower {
            let (op, name, expected) = ("rrelu", "upper", "lower or more");
            return refuse(NnFacts::Parameter { op, name, value: self.upper, expected }).here();
        }
        if !self.training {
            return x.leaky_relu_with((self.lower + self.upper) / 2.0);
        }
        let slopes = Init::uniform(self.lower, self.upper).sample(x.shape().clone(), x.dtype())?;
        Var::where_cond(&x.gt(0)?, x, &x.mul(&slopes)?)
    }
}

#[track_caller]
pub(super) fn expect_float(op: &'static str, x: &Var) -> Result<()> {
    if x.dtype().is_float() {
        return Ok(());
    }
    let (name, expected) = ("the input", "a floating-point type");
    refuse(NnFacts::DType { op, name, found: x.dtype(), expected }).here()
}

#[cfg(test)]
mod tests {
    use foldback_graph::RequiresGrad;
    use foldback_tensor::{Tensor, tensor};

    use super::*;

    /// Slopes are drawn between the bounds in training, for each element, and the gradient is that slope.
    #[test]
    fn rrelu_draws_slopes() {
        let x = Tensor::full([1000], -1.0).requires_grad();
        let y = RReLU::new().lower(0.2).upper(0.4).forward(&x).unwrap();
        let slopes: Vec<f32> = y.value().neg().to_vec().unwrap();
        assert!(slopes.iter().all(|s| (0.2..=0.4).contains(s)));
        let (min, max) = slopes.iter().fold((1f32, 0f32), |(a, b), &v| (a.min(v), b.max(v)));
        assert!(min < 0.21 && max > 0.39, "{min} {max}");
        y.sum(..).unwrap().backward().unwrap();
        assert_eq!(x.grad().unwrap(), y.value().neg());
        let positive = tensor![1.0, 2.0];
        assert_eq!(RReLU::new().forward(&positive).unwrap().value(), positive);
        assert!(RReLU::new().lower(0.5).upper(0.1).forward(&positive).is_err());
    }

    #[test]
    fn settings_outside_their_domain() {
        let x = tensor![1.0];
        assert!(Hardtanh::new().min_val(2.0).forward(&x).is_err());
        assert!(Softshrink::new().lambd(-1.0).forward(&x).is_err());
        assert!(Softmax2d::new().forward(&x).is_err());
        assert!(Hardshrink::new().forward(&tensor![1; i64]).is_err());
        assert!(RReLU::new().forward(&tensor![1; i64]).is_err());
    }
}
