//! Division rounded to a whole number, downwards or towards zero, and what remains of it.

use super::arg::{Arg, AsArg, metas_of, result_type};
use super::pointwise::{Elementwise, apply, apply_in_place};
use crate::dtype::{Block, BlockMut, DType};
use crate::error::{Here, Result, TensorFacts, refuse};
use crate::kernels::{BlockKernel, Remainder, typed};
use crate::task::common_shape;
use crate::tensor::Tensor;

/// Which whole number a quotient is rounded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rounding {
    Floor,
    Trunc,
}

/// A rounded quotient; integers are known not to be divided by zero.
struct RoundedDivision(Rounding);

impl BlockKernel for RoundedDivision {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        fn each<T: Copy>(out: &mut [T], [a, b]: [&[T]; 2], f: impl Fn(T, T) -> T) {
            for ((o, &a), &b) in out.iter_mut().zip(a).zip(b) {
                *o = f(a, b);
            }
        }
        match (&mut outputs[0], self.0) {
            (BlockMut::F32(out), Rounding::Floor) => each(out, typed(inputs), floor::f32),
            (BlockMut::F64(out), Rounding::Floor) => each(out, typed(inputs), floor::f64),
            (BlockMut::F32(out), Rounding::Trunc) => each(out, typed(inputs), |a: f32, b| (a / b).trunc()),
            (BlockMut::F64(out), Rounding::Trunc) => each(out, typed(inputs), |a: f64, b| (a / b).trunc()),
            (BlockMut::I64(out), Rounding::Floor) => each(out, typed(inputs), floor::i64),
            (BlockMut::I64(out), Rounding::Trunc) => each(out, typed(inputs), i64::wrapping_div),
            (BlockMut::Bool(_), _) => unreachable!("rounded division of truth values is refused"),
        }
    }
}

/// Division rounded downwards.
mod floor {
    /// As Python's `//`: from the remainder, so that the result is exact where the quotient is not.
    macro_rules! float {
        ($t:ident) => {
            pub(super) fn $t(a: $t, b: $t) -> $t {
                if b == 0.0 {
                    return a / b;
                }
                let remainder = a % b;
                let mut quotient = (a - remainder) / b;
                if remainder != 0.0 && (b < 0.0) != (remainder < 0.0) {
                    quotient -= 1.0;
                }
                if quotient == 0.0 {
                    return (0.0 as $t).copysign(a / b);
                }
                let below = quotient.floor();
                if quotient - below > 0.5 { below + 1.0 } else { below }
            }
        };
    }
    float!(f32);
    float!(f64);

    pub(super) fn i64(a: i64, b: i64) -> i64 {
        let remainder = a.wrapping_rem(b);
        let quotient = a.wrapping_div(b);
        if remainder != 0 && (remainder < 0) != (b < 0) { quotient - 1 } else { quotient }
    }
}

fn plan(op: &'static str, args: &[Arg<'_>; 2], kernel: impl BlockKernel + 'static) -> Result<Elementwise> {
    let dtype = result_type(&metas_of(args));
    if dtype == DType::Bool {
        return refuse(TensorFacts::DTypeUnsupported { op, dtype });
    }
    if dtype == DType::I64 && common_shape(op, &[args[0].read(dtype), args[1].read(dtype)], None)?.numel() > 0
    {
        let zero = match args[1] {
            Arg::Tensor(t) => t.eq(0).map_err(|e| e.named(op))?.any(..)?.item_as()?,
            Arg::Scalar(s) => s.to_i64() == 0,
        };
        if zero {
            return refuse(TensorFacts::DivisionByZero { op });
        }
    }
    Elementwise::same(kernel, dtype).map(Elementwise::of_pairs)
}

macro_rules! divisions {
    ($($(#[$doc:meta])* $name:ident, $name_:ident, $kernel:expr;)*) => {
        /// The meta steps, which no caller compiles again.
        mod plans {
            use super::*;
            $(pub(super) fn $name(op: &'static str, args: &[Arg<'_>; 2]) -> Result<Elementwise> { plan(op, args, $kernel) })*
        }

        impl Tensor {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self, other: impl AsArg) -> Result<Tensor> {
                let args = [Arg::Tensor(self), other.arg()];
                apply(stringify!($name), plans::$name(stringify!($name), &args), &args).here()
            }

            #[doc = concat!("[`Self::", stringify!($name), "`] into this tensor, whose shape and type stay as they are.")]
            ///
            /// # Errors
            /// As the new form; `Expand` or `Broadcast` if the other operand does not expand to this shape,
            /// `ResultCast` if the result is of a higher category than this tensor. Nothing is changed then.
            #[track_caller]
            pub fn $name_(&mut self, other: impl AsArg) -> Result<&mut Tensor> {
                let other = other.arg();
                let plan = plans::$name(stringify!($name_), &[Arg::Tensor(self), other]);
                apply_in_place(stringify!($name_), plan, self, &[other]).here()?;
                Ok(self)
            }
        )*}
    };
}

divisions! {
    /// `self / other` rounded downwards, with broadcasting; integers stay integers. PyTorch's
    /// `div(rounding_mode="floor")`, Python's `//`.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together, `DivisionByZero` for integers, `DTypeUnsupported` for `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![7, -7; i64].div_floor(2)?, tensor![3, -4; i64]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    div_floor, div_floor_, RoundedDivision(Rounding::Floor);

    /// `self / other` rounded towards zero, with broadcasting; integers stay integers. PyTorch's
    /// `div(rounding_mode="trunc")`, C's `/`.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together, `DivisionByZero` for integers, `DTypeUnsupported` for `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![7, -7; i64].div_trunc(2)?, tensor![3, -3; i64]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    div_trunc, div_trunc_, RoundedDivision(Rounding::Trunc);

    /// What [`Self::div_floor`] leaves, with broadcasting: it has the sign of `other`. Integers stay integers. Python's `%`.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together, `DivisionByZero` for integers, `DTypeUnsupported` for `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![7.5, -7.5].remainder(2)?, tensor![1.5, 0.5]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[doc(alias = "mod")]
    remainder, remainder_, Remainder::Floor;

    /// What [`Self::div_trunc`] leaves, with broadcasting: it has the sign of `self`. Integers stay integers. C's `%` and
    /// `fmod`.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together, `DivisionByZero` for integers, `DTypeUnsupported` for `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![7.5, -7.5].fmod(2)?, tensor![1.5, -1.5]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    fmod, fmod_, Remainder::Trunc;
}

#[cfg(test)]
mod tests {
    use crate::{Tensor, TensorFacts, refused, tensor};

    #[test]
    fn integers_at_their_ends_and_zero() {
        let least = tensor![i64::MIN; i64];
        assert_eq!(least.div_floor(-1).unwrap(), least);
        assert_eq!(least.div_trunc(-1).unwrap(), least);
        let zero = tensor![0; i64];
        assert!(refused!(least.div_floor(&zero), TensorFacts::DivisionByZero { .. }));
        assert!(refused!(least.clone().div_trunc_(0), TensorFacts::DivisionByZero { .. }));
        let nothing = Tensor::zeros_with([0], crate::DType::I64);
        assert_eq!(nothing.div_floor(&zero).unwrap(), nothing);
        assert!(refused!(tensor![true; bool].div_floor(true), TensorFacts::DTypeUnsupported { .. }));
    }

    #[test]
    fn remainders_have_the_sign_of_the_divisor_or_of_the_dividend() {
        let (a, b) = (tensor![7, -7, 7, -7, i64::MIN; i64], tensor![2, 2, -2, -2, -1; i64]);
        assert_eq!(a.remainder(&b).unwrap(), tensor![1, 1, -1, -1, 0; i64]);
        assert_eq!(a.fmod(&b).unwrap(), tensor![1, -1, 1, -1, 0; i64]);
        for r in [a.remainder(0), a.fmod(&tensor![1, 0, 1, 1, 1; i64])] {
            assert!(refused!(r, TensorFacts::DivisionByZero { .. }));
        }
        assert!(refused!(tensor![true].fmod(true), TensorFacts::DTypeUnsupported { op: "fmod", .. }));
        let (x, inf) = (tensor![-2.5, 1.0; f64], f64::INFINITY);
        assert_eq!(x.remainder(inf).unwrap(), tensor![inf, 1.0; f64]);
        assert_eq!(x.fmod(inf).unwrap(), x);
        assert!(x.remainder(0.0).unwrap().isnan().all(..).unwrap().item_as::<bool>().unwrap());
        // 1 / 0.1 is 10 as a number, but 0.1 is a little more than a tenth.
        assert!(tensor![1.0; f64].remainder(0.1).unwrap().item().unwrap() > 0.099);
    }

    #[test]
    fn floats_round_as_python() {
        let a = tensor![1.0, -1.0, 1.0, 3.5, f64::INFINITY, 1.0; f64];
        let b = tensor![f64::INFINITY, f64::INFINITY, 0.0, -2.0, 2.0, 0.1; f64];
        let found = a.div_floor(&b).unwrap().to_vec::<f64>().unwrap();
        assert_eq!(found[..4], [0.0, -1.0, f64::INFINITY, -2.0]);
        assert!(found[4].is_nan());
        // 1 / 0.1 is 10 as a number, but 0.1 is a little more than a tenth.
        assert_eq!(found[5], 9.0);
    }
}
