//! The bits of integers, which are logic for truth values, and the operators `& | ^ !`.

use std::ops::{BitAnd, BitAndAssign, BitOr, BitOrAssign, BitXor, BitXorAssign, Not};

use super::super::arg::{Arg, AsArg, Meta, result_type};
use super::binary::binary;
use super::elementwise::{AND, Elementwise, NOT, OR, XOR, apply, apply_in_place, unsupported};
use super::unary::unary;
use crate::dtype::DType;
use crate::error::{Here, Result, or_panic};
use crate::kernels::{BitKernel, BlockKernel, NotKernel};
use crate::tensor::Tensor;

fn plan(
    op: &'static str,
    args: &[Meta],
    bits: impl BlockKernel + 'static,
    logic: impl BlockKernel + 'static,
) -> Result<Elementwise> {
    match result_type(args) {
        DType::Bool => Elementwise::same(logic, DType::Bool),
        DType::I64 => Elementwise::same(bits, DType::I64),
        float => unsupported(op, float),
    }
}

binary! {
    /// The bits that both have, of integers; whether both are true, of truth values.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together; `DTypeUnsupported` for floats.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![6, 5].long().bitwise_and(3)?, tensor![2, 1; i64]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    bitwise_and, bitwise_and_ = |a| plan("bitwise_and", a, BitKernel(|a, b| a & b), AND);

    /// The bits that either has, of integers; whether either is true, of truth values.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together; `DTypeUnsupported` for floats.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![6, 5; i64].bitwise_or(3)?, tensor![7, 7; i64]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    bitwise_or, bitwise_or_ = |a| plan("bitwise_or", a, BitKernel(|a, b| a | b), OR);

    /// The bits in which they differ, of integers; whether they differ, of truth values.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together; `DTypeUnsupported` for floats.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![6, 5; i64].bitwise_xor(3)?, tensor![5, 6; i64]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    bitwise_xor, bitwise_xor_ = |a| plan("bitwise_xor", a, BitKernel(|a, b| a ^ b), XOR);
}

unary! {
    /// Every bit turned, of integers, which makes `-1 - x`; [`Self::logical_not`] of truth values.
    ///
    /// # Panics
    /// For floats.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![6, -1; i64].bitwise_not(), tensor![-7, 0; i64]);
    /// assert_eq!(tensor![true].bitwise_not(), tensor![false]);
    /// ```
    bitwise_not, bitwise_not_, try_bitwise_not = |a| plan("bitwise_not", &[a], NotKernel, NOT);
}

macro_rules! operator {
    ($($trait:ident $f:ident $assign:ident $f_assign:ident $method:ident $method_:ident;)*) => {$(
        operator!(@of $trait $f $method; Tensor, Tensor, &Tensor, bool, i64);
        operator!(@of $trait $f $method; &Tensor, Tensor, &Tensor, bool, i64);
        operator!(@assign $assign $f_assign $method_; Tensor, &Tensor, bool, i64);
    )*};
    (@of $trait:ident $f:ident $method:ident; $l:ty, $($r:ty),*) => {$(
        impl $trait<$r> for $l {
            type Output = Tensor;
            #[track_caller]
            fn $f(self, other: $r) -> Tensor {
                or_panic(self.$method(other))
            }
        }
    )*};
    (@assign $assign:ident $f_assign:ident $method_:ident; $($r:ty),*) => {$(
        impl $assign<$r> for Tensor {
            #[track_caller]
            fn $f_assign(&mut self, other: $r) {
                or_panic(self.$method_(other));
            }
        }
    )*};
}
operator! {
    BitAnd bitand BitAndAssign bitand_assign bitwise_and bitwise_and_;
    BitOr bitor BitOrAssign bitor_assign bitwise_or bitwise_or_;
    BitXor bitxor BitXorAssign bitxor_assign bitwise_xor bitwise_xor_;
}

impl Not for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn not(self) -> Tensor {
        self.bitwise_not()
    }
}
impl Not for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn not(self) -> Tensor {
        self.bitwise_not()
    }
}

#[cfg(test)]
mod tests {
    use crate::{TensorFacts, refused, tensor};

    #[test]
    fn operators_are_bits_of_integers_and_logic_of_truth_values() {
        let (a, b) = (tensor![true, true, false], tensor![true, false, false]);
        assert_eq!(
            [&a & &b, &a | &b, &a ^ &b, !&a],
            [b.clone(), a.clone(), tensor![false, true, false], tensor![false, false, true]]
        );
        let i = tensor![6, -1; i64];
        assert_eq!(
            [&i & 3, &i | 1, &i ^ &i, !i.clone()],
            [tensor![2, 3; i64], tensor![7, -1; i64], tensor![0, 0; i64], tensor![-7, 0; i64]]
        );
        // A truth value beside an integer is 0 or 1.
        assert_eq!(&i & tensor![true], tensor![0, 1; i64]);
        let mut m = a.clone();
        m &= &b;
        m |= tensor![false, false, true];
        m ^= true;
        assert_eq!(m, tensor![false, true, false]);
    }

    #[test]
    fn floats_have_no_bits_here() {
        let x = tensor![1.0];
        assert!(refused!(x.bitwise_and(1), TensorFacts::DTypeUnsupported { op: "bitwise_and", .. }));
        assert!(refused!(tensor![1; i64].bitwise_or(0.5), TensorFacts::DTypeUnsupported { .. }));
        let e = x.try_bitwise_not().unwrap_err();
        assert!(e.to_string().contains("use to(DType::I64)"), "{e}");
        assert!(refused!(tensor![true].bitwise_xor_(1), TensorFacts::ResultCast { .. }));
    }
}
