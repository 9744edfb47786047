//! Methods of `Tensor` that rows are put together for, and those without a gradient.

use foldback_tensor::kernel::StrictProduct;
use foldback_tensor::{Axis, Datum, Here, Over, Scalar, or_panic};

use crate::error::Result;
use crate::input::{AsInput, Input};
use crate::node::Var;

/// # Shapes
impl Var {
    /// Expands to the shape of another variable or tensor.
    ///
    /// # Errors
    /// As [`Var::expand`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0].requires_grad();
    /// assert_eq!(x.expand_as(&tensor![[0.0, 0.0]])?.value(), tensor![[1.0, 1.0]]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn expand_as(&self, other: impl AsInput) -> Result<Var> {
        self.expand(other.to_var().shape()).map_err(|e| e.named("expand_as")).here()
    }
}

macro_rules! products {
    ($($(#[$doc:meta])* $name:ident $which:ident;)*) => {
        /// # Products of given ranks
        impl Var {$(
            $(#[$doc])*
            ///
            /// # Errors
            #[doc = concat!("As [`Tensor::", stringify!($name), "`](foldback_tensor::Tensor::", stringify!($name), ").")]
            #[track_caller]
            pub fn $name(&self, other: impl AsInput) -> Result<Var> {
                let other = other.to_var();
                StrictProduct::$which.check(&self.value_ref(), &other.value_ref()).here()?;
                self.matmul(other).map_err(|e| e.named(stringify!($name))).here()
            }
        )*}
    };
}

products! {
    /// The product of two matrices, `[m, k]` and `[k, n]`.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let a = tensor![[1.0, 2.0]].requires_grad();
    /// assert_eq!(a.mm(&tensor![[3.0], [4.0]])?.value(), tensor![[11.0]]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    mm MM;
    /// The products of two batches of matrices, `[b, m, k]` and `[b, k, n]`; nothing broadcasts.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let a = tensor![[[1.0, 2.0]]].requires_grad();
    /// assert_eq!(a.bmm(&tensor![[[3.0], [4.0]]])?.value(), tensor![[[11.0]]]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    bmm BMM;
    /// A matrix `[m, k]` times a vector `[k]`.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let a = tensor![[1.0, 2.0]].requires_grad();
    /// assert_eq!(a.mv(&tensor![3.0, 4.0])?.value(), tensor![11.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    mv MV;
    /// The dot product of two vectors of equal size.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 2.0].requires_grad();
    /// x.dot(&x)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![2.0, 4.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    dot DOT;
}

macro_rules! without_gradient {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        /// # Reductions without a gradient
        impl Var {$(
            $(#[$doc])*
            ///
            /// # Errors
            #[doc = concat!("As [`Tensor::", stringify!($name), "`](foldback_tensor::Tensor::", stringify!($name), ").")]
            #[track_caller]
            pub fn $name(&self, over: impl Into<Over>) -> Result<Var> {
                self.value_ref().$name(over).map(Var::constant).here()
            }
        )*}
    };
}

without_gradient! {
    /// The index of the largest element, the first of equal ones: an `i64` variable, which requires no gradient.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// assert_eq!(foldback_tensor::tensor![1.0, 3.0].requires_grad().argmax(0)?.item_as::<i64>()?, 1);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    argmax;
    /// The index of the smallest element, the first of equal ones: an `i64` variable, which requires no gradient.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// assert_eq!(foldback_tensor::tensor![1.0, 3.0].requires_grad().argmin(0)?.item_as::<i64>()?, 0);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    argmin;
    /// Whether any element is true (not zero): a `bool` variable, which requires no gradient.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// assert!(foldback_tensor::tensor![0.0, 3.0].requires_grad().any(..)?.item_as::<bool>()?);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    any;
    /// Whether all elements are true (not zero): a `bool` variable, which requires no gradient.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// assert!(!foldback_tensor::tensor![0.0, 3.0].requires_grad().all(..)?.item_as::<bool>()?);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    all;
    /// How many elements are not zero: an `i64` variable, which requires no gradient.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// assert_eq!(foldback_tensor::tensor![0.0, 3.0].requires_grad().count_nonzero(..)?.item()?, 1.0);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    count_nonzero;
}

/// # Values
impl Var {
    /// The only element, as an `f64`.
    ///
    /// # Errors
    /// As [`Tensor::item`](foldback_tensor::Tensor::item).
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// assert_eq!(foldback_tensor::tensor![1.5].requires_grad().sum(..)?.item()?, 1.5);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    #[doc(alias = "to_scalar")]
    pub fn item(&self) -> Result<f64> {
        self.value_ref().item().here()
    }

    /// The only element, cast to `T`.
    ///
    /// # Errors
    /// As [`Tensor::item_as`](foldback_tensor::Tensor::item_as).
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// assert_eq!(foldback_tensor::tensor![1.5].requires_grad().item_as::<f32>()?, 1.5);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn item_as<T: Datum>(&self) -> Result<T> {
        self.value_ref().item_as().here()
    }

    /// Whether an operand has the same shape and type and all of its elements are equal; a NaN differs from everything. PyTorch's
    /// `torch.equal`. Whether two handles stand for one variable says [`Var::is_same`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 2.0].requires_grad();
    /// assert!(x.equal(tensor![1.0, 2.0]) && x.equal(&x * 1.0) && !x.equal(1.0));
    /// ```
    pub fn equal(&self, other: impl AsInput) -> bool {
        let own = self.value_ref();
        match other.input() {
            Input::Var(v) => own.equal(&*v.value_ref()),
            Input::Tensor(t) => own.equal(t),
            Input::Scalar(s) => own.equal(s),
        }
    }

    /// All elements in row-major order, in their own type.
    ///
    /// # Errors
    /// As [`Tensor::to_vec`](foldback_tensor::Tensor::to_vec).
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// assert_eq!(foldback_tensor::tensor![1.0, 2.0].requires_grad().to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn to_vec<T: Datum>(&self) -> Result<Vec<T>> {
        self.value_ref().to_vec().here()
    }

    /// Zeros of this shape and type: a constant, which requires no gradient.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].requires_grad().zeros_like().value(), tensor![0.0, 0.0]);
    /// ```
    #[track_caller]
    pub fn zeros_like(&self) -> Var {
        Var::constant(self.value_ref().zeros_like())
    }

    /// Ones of this shape and type: a constant, which requires no gradient.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].requires_grad().ones_like().value(), tensor![1.0, 1.0]);
    /// ```
    #[track_caller]
    pub fn ones_like(&self) -> Var {
        Var::constant(self.value_ref().ones_like())
    }

    /// A number repeated, of this shape and type: a constant, which requires no gradient.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].requires_grad().full_like(3).value(), tensor![3.0, 3.0]);
    /// ```
    #[track_caller]
    pub fn full_like(&self, value: impl Into<Scalar>) -> Var {
        Var::constant(self.value_ref().full_like(value))
    }

    /// Numbers drawn evenly from 0 to 1, of this shape and type: a constant, which requires no gradient.
    ///
    /// # Panics
    /// As [`Tensor::rand_like`](foldback_tensor::Tensor::rand_like).
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// let r = foldback_tensor::tensor![1.0, 2.0].requires_grad().rand_like();
    /// assert!(r.lt(1.0)?.value().all(..)?.item()? == 1.0 && !r.requires_grad());
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn rand_like(&self) -> Var {
        Var::constant(self.value_ref().rand_like())
    }

    /// Numbers drawn from the standard normal distribution, of this shape and type: a constant, which requires no gradient.
    ///
    /// # Panics
    /// As [`Tensor::randn_like`](foldback_tensor::Tensor::randn_like).
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::{Tensor, manual_seed, tensor};
    /// let (mu, std) = (tensor![1.0, 2.0].requires_grad(), tensor![0.1, 0.1].requires_grad());
    /// manual_seed(1);
    /// let sample = &mu + &std * std.randn_like(); // mu + std * torch.randn_like(std)
    /// manual_seed(1);
    /// assert_eq!(sample.value(), &mu.value() + &std.value() * Tensor::randn(2));
    /// ```
    #[track_caller]
    pub fn randn_like(&self) -> Var {
        Var::constant(self.value_ref().randn_like())
    }

    /// Every bit turned, of integers; whether elements are false, of truth values: a variable that requires no gradient.
    ///
    /// # Panics
    /// For floats.
    ///
    /// ```
    /// use foldback_graph::Var;
    /// use foldback_tensor::tensor;
    /// assert_eq!(Var::from(tensor![6, -1; i64]).bitwise_not().value(), tensor![-7, 0; i64]);
    /// ```
    #[track_caller]
    pub fn bitwise_not(&self) -> Var {
        or_panic(self.try_bitwise_not())
    }

    /// [`Self::bitwise_not`], with an error where that panics.
    ///
    /// # Errors
    /// For floats.
    #[track_caller]
    pub fn try_bitwise_not(&self) -> Result<Var> {
        self.value_ref().try_bitwise_not().map(Var::constant).here()
    }

    /// Whether elements are NaN: a `bool` variable, which requires no gradient.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![f32::NAN, 0.0].requires_grad().isnan().value(), tensor![true, false]);
    /// ```
    #[track_caller]
    pub fn isnan(&self) -> Var {
        Var::constant(self.value_ref().isnan())
    }

    /// Whether elements are infinite: a `bool` variable, which requires no gradient.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![f32::INFINITY, 0.0].requires_grad().isinf().value(), tensor![true, false]);
    /// ```
    #[track_caller]
    pub fn isinf(&self) -> Var {
        Var::constant(self.value_ref().isinf())
    }

    /// Whether elements are neither NaN nor infinite: a `bool` variable, which requires no gradient.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![f32::INFINITY, 0.0].requires_grad().isfinite().value(), tensor![false, true]);
    /// ```
    #[track_caller]
    pub fn isfinite(&self) -> Var {
        Var::constant(self.value_ref().isfinite())
    }

    /// Whether elements are false (zero): a `bool` variable, which requires no gradient.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 0.0].requires_grad().logical_not().value(), tensor![false, true; bool]);
    /// ```
    #[track_caller]
    pub fn logical_not(&self) -> Var {
        Var::constant(self.value_ref().logical_not())
    }

    /// The sizes as a slice.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// assert_eq!(foldback_tensor::tensor![[1.0, 2.0]].requires_grad().dims(), [1, 2]);
    /// ```
    pub fn dims(&self) -> &[usize] {
        self.shape().dims()
    }

    /// The size of one axis; negative axes count from the end.
    ///
    /// # Errors
    /// As [`Tensor::size`](foldback_tensor::Tensor::size).
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// assert_eq!(foldback_tensor::tensor![[1.0, 2.0]].requires_grad().size(-1)?, 2);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn size(&self, axis: impl Into<Axis>) -> Result<usize> {
        self.value_ref().size(axis).here()
    }

    /// The natural logarithm: [`Var::ln`] under PyTorch's name.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0].requires_grad().log().value(), tensor![0.0]);
    /// ```
    #[track_caller]
    pub fn log(&self) -> Var {
        self.ln()
    }

    /// A whole power: [`Var::pow`] as Rust's own numbers spell it.
    ///
    /// # Panics
    /// For a negative power of integers, and for `bool`.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![2.0, 3.0].requires_grad().powi(2).value(), tensor![4.0, 9.0]);
    /// ```
    #[track_caller]
    pub fn powi(&self, power: i32) -> Var {
        or_panic(self.pow(power).map_err(|e| e.named("powi")))
    }

    /// A power of any kind: [`Var::pow`] as Rust's own numbers spell it.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![4.0, 9.0].requires_grad().powf(0.5).value(), tensor![2.0, 3.0]);
    /// ```
    #[track_caller]
    pub fn powf(&self, power: f64) -> Var {
        or_panic(self.pow(power).map_err(|e| e.named("powf")))
    }
}

foldback_tensor::__in_dtype!(Var, "foldback_graph");
