//! `+ - * /`, their assigning forms and negation, for tensors, references and numbers in every combination.
//!
//! Operators panic where the named method returns an error, with the same text, at the caller's line.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use super::arg::Arg;
use super::pointwise::{radd, rdiv, rmul, rsub};
use crate::dtype::Scalar;
use crate::error::or_panic;
use crate::tensor::Tensor;

/// A Rust number on the right of an operator. On the left, where a type has to be fixed, `f64` and `i32` work.
pub trait Number: Into<Scalar> + Copy {}
macro_rules! numbers {
    ($($t:ty),*) => { $(impl Number for $t {})* };
}
numbers!(i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, f32, f64);

macro_rules! operator {
    ($trait:ident $f:ident $reversed:ident, $assign:ident $f_assign:ident $f_:ident, $numbers:tt) => {
        operator!(@pair $trait $f; Tensor, Tensor; |a, b| Tensor::$f(&a, &b));
        operator!(@pair $trait $f; Tensor, &Tensor; |a, b| Tensor::$f(&a, b));
        operator!(@pair $trait $f; &Tensor, Tensor; |a, b| Tensor::$f(a, &b));
        operator!(@pair $trait $f; &Tensor, &Tensor; |a, b| Tensor::$f(a, b));
        operator!(@numbers $trait $f $reversed $assign $f_assign $f_ $numbers);
        impl $assign<&Tensor> for Tensor {
            #[track_caller]
            fn $f_assign(&mut self, other: &Tensor) {
                or_panic(self.$f_(other));
            }
        }
        impl $assign<Tensor> for Tensor {
            #[track_caller]
            fn $f_assign(&mut self, other: Tensor) {
                or_panic(self.$f_(&other));
            }
        }
    };
    (@pair $trait:ident $f:ident; $l:ty, $r:ty; |$a:ident, $b:ident| $body:expr) => {
        impl $trait<$r> for $l {
            type Output = Tensor;
            #[track_caller]
            fn $f(self, other: $r) -> Tensor {
                let ($a, $b) = (self, other);
                or_panic($body)
            }
        }
    };
    // One implementation for all numbers on the right, so that a literal there needs no type of its own.
    (@numbers $trait:ident $f:ident $reversed:ident $assign:ident $f_assign:ident $f_:ident ($($n:ty),*)) => {
        impl<N: Number> $trait<N> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $f(self, other: N) -> Tensor {
                or_panic(Tensor::$f(&self, Arg::Scalar(other.into())))
            }
        }
        impl<N: Number> $trait<N> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $f(self, other: N) -> Tensor {
                or_panic(Tensor::$f(self, Arg::Scalar(other.into())))
            }
        }
        impl<N: Number> $assign<N> for Tensor {
            #[track_caller]
            fn $f_assign(&mut self, other: N) {
                or_panic(self.$f_(Arg::Scalar(other.into())));
            }
        }
        $(
            operator!(@pair $trait $f; $n, Tensor; |a, b| $reversed(a.into(), &b));
            operator!(@pair $trait $f; $n, &Tensor; |a, b| $reversed(a.into(), b));
        )*
    };
}
operator!(Add add radd, AddAssign add_assign add_, (i32, f64));
operator!(Sub sub rsub, SubAssign sub_assign sub_, (i32, f64));
operator!(Mul mul rmul, MulAssign mul_assign mul_, (i32, f64));
operator!(Div div rdiv, DivAssign div_assign div_, (i32, f64));

impl Neg for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        Tensor::neg(self)
    }
}

impl Neg for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        Tensor::neg(&self)
    }
}

/// The sum of tensors of one shape, or of shapes that broadcast, as `+` adds them; of none, the number 0.
///
/// ```
/// use foldback_tensor::{Tensor, tensor};
/// assert_eq!([tensor![1.0, 2.0], tensor![3.0]].iter().sum::<Tensor>(), tensor![4.0, 5.0]);
/// ```
///
/// # Panics
/// Where `+` does.
impl Sum for Tensor {
    fn sum<I: Iterator<Item = Tensor>>(tensors: I) -> Tensor {
        tensors.reduce(|a, b| a + b).unwrap_or_else(|| Tensor::from(0.0f32))
    }
}

impl<'a> Sum<&'a Tensor> for Tensor {
    fn sum<I: Iterator<Item = &'a Tensor>>(tensors: I) -> Tensor {
        tensors.cloned().sum()
    }
}

#[cfg(test)]
mod tests {
    use crate::tensor;

    #[test]
    fn every_combination() {
        let (a, b) = (tensor![6.0, 8.0], tensor![2.0, 4.0]);
        for r in [&a - &b, a.clone() - &b, &a - b.clone(), a.clone() - b.clone()] {
            assert_eq!(r, tensor![4.0, 4.0]);
        }
        assert_eq!(&a / 2.0, tensor![3.0, 4.0]);
        assert_eq!(24.0 / &a, tensor![4.0, 3.0]);
        assert_eq!(1 - a.clone(), tensor![-5.0, -7.0]);
        assert_eq!(-&a + 1, tensor![-5.0, -7.0]);
        let mut c = a.clone();
        c += &b;
        c *= 2.0;
        c -= tensor![1.0];
        c /= 3;
        assert_eq!(c, tensor![5.0, 23.0 / 3.0]);
        assert_eq!(a, tensor![6.0, 8.0]);
    }

    #[test]
    #[should_panic(
        expected = "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0"
    )]
    fn operators_panic_with_the_text_of_the_error() {
        let _ = tensor![1.0, 2.0] + tensor![1.0, 2.0, 3.0];
    }
}
