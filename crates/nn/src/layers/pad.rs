//! Padding.

use foldback_graph::Var;
use foldback_tensor::{Amounts, Here, Pad, Scalar, refuse};

use crate::error::{NnFacts, Result};
use crate::{Module, forward};

macro_rules! pads {
    ($($(#[$doc:meta])* $layer:ident($($value:ident: $value_ty:ty)?), $op:literal, $axes:literal, $ranks:pat, $pad:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Module)]
        pub struct $layer {
            #[module(skip)]
            padding: Amounts,
            #[module(skip)]
            mode: Pad,
        }

        impl $layer {
            /// One number for all ends, or one for each: both ends of the last axis, then those of the one before it. A negative one
            /// takes elements away.
            pub fn new(padding: impl Into<Amounts>, $($value: $value_ty)?) -> $layer {
                $layer { padding: padding.into(), mode: $pad.into() }
            }
        }

        #[forward]
        impl $layer {
            /// The input with more at its ends.
            ///
            /// # Errors
            /// `InputShape` for another number of axes; for padding that is neither one number nor one for each end, or that the input is
            /// too small for.
            #[track_caller]
            pub fn forward(&self, x: &Var) -> Result<Var> {
                padded($op, x, $axes, matches!(x.rank(), $ranks), &self.padding, self.mode)
            }
        }
    )*};
}

#[track_caller]
fn padded(op: &'static str, x: &Var, axes: usize, fits: bool, padding: &Amounts, mode: Pad) -> Result<Var> {
    if !fits {
        let expected = if axes == 1 { "[n, c, l] or [c, l]" } else { "[n, c, h, w] or [c, h, w]" };
        return refuse(NnFacts::InputShape {
            op,
            name: "an input",
            expected: expected.into(),
            found: x.shape().clone(),
        })
        .here();
    }
    match padding.as_slice() {
        [all] => x.pad_with(vec![*all; 2 * axes], mode),
        ends if ends.len() == 2 * axes => x.pad_with(padding, mode),
        ends => {
            let (name, expected) = ("the number of paddings", "1, or 2 for each axis");
            refuse(NnFacts::Parameter { op, name, value: ends.len() as f64, expected }).here()
        }
    }
}

pads! {
    /// Zeros at the ends of the last axis. PyTorch's
    /// [`ZeroPad1d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.ZeroPad1d.html).
    ///
    /// ```
    /// use foldback_nn::ZeroPad1d;
    /// use foldback_tensor::tensor;
    /// assert_eq!(ZeroPad1d::new([1, 0]).forward(&tensor![[2.0]])?.value(), tensor![[0.0, 2.0]]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    ZeroPad1d(), "zero_pad1d", 1, 1.., 0;
    /// Zeros at the ends of the last two axes. PyTorch's
    /// [`ZeroPad2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.ZeroPad2d.html).
    ///
    /// ```
    /// use foldback_nn::ZeroPad2d;
    /// use foldback_tensor::Tensor;
    /// assert_eq!(ZeroPad2d::new(1).forward(&Tensor::ones([1, 2, 2]))?.shape(), [1, 4, 4]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    ZeroPad2d(), "zero_pad2d", 2, 2.., 0;
    /// One number at the ends of the last axis. PyTorch's
    /// [`ConstantPad1d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.ConstantPad1d.html).
    ///
    /// ```
    /// use foldback_nn::ConstantPad1d;
    /// use foldback_tensor::tensor;
    /// assert_eq!(ConstantPad1d::new([1, 0], 7).forward(&tensor![[2.0]])?.value(), tensor![[7.0, 2.0]]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    ConstantPad1d(value: impl Into<Scalar>), "constant_pad1d", 1, 1.., value.into();
    /// One number at the ends of the last two axes. PyTorch's
    /// [`ConstantPad2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.ConstantPad2d.html).
    ///
    /// ```
    /// use foldback_nn::ConstantPad2d;
    /// use foldback_tensor::Tensor;
    /// assert_eq!(ConstantPad2d::new([1, 2, 0, 0], 0.5).forward(&Tensor::ones([1, 2, 2]))?.shape(), [1, 2, 5]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    ConstantPad2d(value: impl Into<Scalar>), "constant_pad2d", 2, 2.., value.into();
    /// The elements mirrored at the ends of the last axis, `[n, c, l]` or `[c, l]`. PyTorch's
    /// [`ReflectionPad1d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.ReflectionPad1d.html).
    ///
    /// ```
    /// use foldback_nn::ReflectionPad1d;
    /// use foldback_tensor::tensor;
    /// assert_eq!(ReflectionPad1d::new(1).forward(&tensor![[1.0, 2.0]])?.value(), tensor![[2.0, 1.0, 2.0, 1.0]]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    ReflectionPad1d(), "reflection_pad1d", 1, 2 | 3, Pad::Reflect;
    /// The elements mirrored at the ends of the last two axes, `[n, c, h, w]` or `[c, h, w]`. PyTorch's
    /// [`ReflectionPad2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.ReflectionPad2d.html).
    ///
    /// ```
    /// use foldback_nn::ReflectionPad2d;
    /// use foldback_tensor::Tensor;
    /// assert_eq!(ReflectionPad2d::new(1).forward(&Tensor::ones([1, 2, 2]))?.shape(), [1, 4, 4]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    ReflectionPad2d(), "reflection_pad2d", 2, 3 | 4, Pad::Reflect;
    /// The elements at the ends of the last axis, repeated: `[n, c, l]` or `[c, l]`. PyTorch's
    /// [`ReplicationPad1d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.ReplicationPad1d.html).
    ///
    /// ```
    /// use foldback_nn::ReplicationPad1d;
    /// use foldback_tensor::tensor;
    /// assert_eq!(ReplicationPad1d::new(1).forward(&tensor![[1.0, 2.0]])?.value(), tensor![[1.0, 1.0, 2.0, 2.0]]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    ReplicationPad1d(), "replication_pad1d", 1, 2 | 3, Pad::Replicate;
    /// The elements at the ends of the last two axes, repeated: `[n, c, h, w]` or `[c, h, w]`. PyTorch's
    /// [`ReplicationPad2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.ReplicationPad2d.html).
    ///
    /// ```
    /// use foldback_nn::ReplicationPad2d;
    /// use foldback_tensor::Tensor;
    /// assert_eq!(ReplicationPad2d::new(1).forward(&Tensor::ones([1, 2, 2]))?.shape(), [1, 4, 4]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    ReplicationPad2d(), "replication_pad2d", 2, 3 | 4, Pad::Replicate;
    /// The elements of the other end of the last axis, `[n, c, l]` or `[c, l]`. PyTorch's
    /// [`CircularPad1d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.CircularPad1d.html).
    ///
    /// ```
    /// use foldback_nn::CircularPad1d;
    /// use foldback_tensor::tensor;
    /// assert_eq!(CircularPad1d::new(1).forward(&tensor![[1.0, 2.0]])?.value(), tensor![[2.0, 1.0, 2.0, 1.0]]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    CircularPad1d(), "circular_pad1d", 1, 2 | 3, Pad::Circular;
    /// The elements of the other ends of the last two axes, `[n, c, h, w]` or `[c, h, w]`. PyTorch's
    /// [`CircularPad2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.CircularPad2d.html).
    ///
    /// ```
    /// use foldback_nn::CircularPad2d;
    /// use foldback_tensor::Tensor;
    /// assert_eq!(CircularPad2d::new(1).forward(&Tensor::ones([1, 2, 2]))?.shape(), [1, 4, 4]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    CircularPad2d(), "circular_pad2d", 2, 3 | 4, Pad::Circular;
}
