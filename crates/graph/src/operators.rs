//! `+ - * /` and their assigning forms for variables, tensors and numbers in every combination that makes sense; `& | ^ !`, which
//! have no gradient.
//!
//! Operators panic where the named method returns an error, with the same text, at the caller's line.

use std::iter::Sum;
use std::ops::{
    Add, AddAssign, BitAnd, BitAndAssign, BitOr, BitOrAssign, BitXor, BitXorAssign, Div, DivAssign, Mul,
    MulAssign, Neg, Not, Sub, SubAssign,
};

use foldback_tensor::{Scalar, Tensor, or_panic};

use crate::input::Input;
use crate::node::Var;

/// A Rust number on the right of an operator. On the left, where a type has to be fixed, `f64` and `i32` work.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot stand beside a variable at an operator",
    label = "neither a variable, nor a tensor, nor a number",
    note = "a `Result` wants `?` behind it: `1.0 + x.pow(2)?`"
)]
pub trait VarNumber: Into<Scalar> + Copy {}
macro_rules! numbers {
    ($($t:ty),*) => { $(impl VarNumber for $t {})* };
}
numbers!(i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, f32, f64);

macro_rules! operator {
    ($trait:ident $f:ident $reversed:ident, $assign:ident $f_assign:ident $f_:ident) => {
        operator!(@refs $trait $f; Var, Var, |a, b| Var::$f(a, b));
        operator!(@refs $trait $f; Var, Tensor, |a, b| Var::$f(a, b));
        operator!(@refs $trait $f; Tensor, Var, |a, b| Var::$f(&Var::from(a), b));
        operator!(@numbers $trait $f $reversed $assign $f_assign $f_; i32 f64);
        operator!(@assign $assign $f_assign $f_; &Var, |b| b);
        operator!(@assign $assign $f_assign $f_; Var, |b| &b);
        operator!(@assign $assign $f_assign $f_; &Tensor, |b| b);
        operator!(@assign $assign $f_assign $f_; Tensor, |b| &b);
    };
    (@refs $trait:ident $f:ident; $l:ty, $r:ty, |$a:ident, $b:ident| $body:expr) => {
        operator!(@pair $trait $f; $l, $r, |$a, $b| { let ($a, $b) = (&$a, &$b); $body });
        operator!(@pair $trait $f; &$l, $r, |$a, $b| { let $b = &$b; $body });
        operator!(@pair $trait $f; $l, &$r, |$a, $b| { let $a = &$a; $body });
        operator!(@pair $trait $f; &$l, &$r, |$a, $b| $body);
    };
    (@pair $trait:ident $f:ident; $l:ty, $r:ty, |$a:ident, $b:ident| $body:expr) => {
        impl $trait<$r> for $l {
            type Output = Var;
            #[track_caller]
            fn $f(self, other: $r) -> Var {
                let ($a, $b) = (self, other);
                or_panic($body)
            }
        }
    };
    (@assign $assign:ident $f_assign:ident $f_:ident; $r:ty, |$b:ident| $arg:expr) => {
        impl $assign<$r> for Var {
            #[track_caller]
            fn $f_assign(&mut self, $b: $r) {
                or_panic(self.$f_($arg));
            }
        }
    };
    // One implementation for all numbers on the right, so that a literal there needs no type of its own.
    (@numbers $trait:ident $f:ident $reversed:ident $assign:ident $f_assign:ident $f_:ident; $($n:ty)*) => {
        impl<N: VarNumber> $trait<N> for Var {
            type Output = Var;
            #[track_caller]
            fn $f(self, other: N) -> Var {
                or_panic(Var::$f(&self, Input::Scalar(other.into())))
            }
        }
        impl<N: VarNumber> $trait<N> for &Var {
            type Output = Var;
            #[track_caller]
            fn $f(self, other: N) -> Var {
                or_panic(Var::$f(self, Input::Scalar(other.into())))
            }
        }
        impl<N: VarNumber> $assign<N> for Var {
            #[track_caller]
            fn $f_assign(&mut self, other: N) {
                or_panic(self.$f_(Input::Scalar(other.into())));
            }
        }
        $(
            operator!(@pair $trait $f; $n, Var, |a, b| b.$reversed(a));
            operator!(@pair $trait $f; $n, &Var, |a, b| b.$reversed(a));
        )*
    };
}
operator!(Add add radd, AddAssign add_assign add_);
operator!(Sub sub rsub, SubAssign sub_assign sub_);
operator!(Mul mul rmul, MulAssign mul_assign mul_);
operator!(Div div rdiv, DivAssign div_assign div_);

impl Var {
    /// `number + self`, which is `self + number`.
    #[track_caller]
    fn radd(&self, number: impl Into<Scalar>) -> crate::Result<Var> {
        self.add(Input::Scalar(number.into()))
    }

    /// `number * self`, which is `self * number`.
    #[track_caller]
    fn rmul(&self, number: impl Into<Scalar>) -> crate::Result<Var> {
        self.mul(Input::Scalar(number.into()))
    }
}

impl Neg for &Var {
    type Output = Var;
    #[track_caller]
    fn neg(self) -> Var {
        Var::neg(self)
    }
}

impl Neg for Var {
    type Output = Var;
    #[track_caller]
    fn neg(self) -> Var {
        Var::neg(&self)
    }
}

macro_rules! bits {
    ($($trait:ident $f:ident $assign:ident $f_assign:ident $method:ident $method_:ident;)*) => {$(
        bits!(@of $trait $f $method; Var, Var, &Var, &Tensor, bool, i64);
        bits!(@of $trait $f $method; &Var, Var, &Var, &Tensor, bool, i64);
        bits!(@assign $assign $f_assign $method_; Var, &Var, &Tensor, bool, i64);
    )*};
    (@of $trait:ident $f:ident $method:ident; $l:ty, $($r:ty),*) => {$(
        impl $trait<$r> for $l {
            type Output = Var;
            #[track_caller]
            fn $f(self, other: $r) -> Var {
                or_panic(self.$method(other))
            }
        }
    )*};
    (@assign $assign:ident $f_assign:ident $method_:ident; $($r:ty),*) => {$(
        impl $assign<$r> for Var {
            #[track_caller]
            fn $f_assign(&mut self, other: $r) {
                or_panic(self.$method_(other));
            }
        }
    )*};
}
bits! {
    BitAnd bitand BitAndAssign bitand_assign bitwise_and bitwise_and_;
    BitOr bitor BitOrAssign bitor_assign bitwise_or bitwise_or_;
    BitXor bitxor BitXorAssign bitxor_assign bitwise_xor bitwise_xor_;
}

impl Not for &Var {
    type Output = Var;
    #[track_caller]
    fn not(self) -> Var {
        self.bitwise_not()
    }
}

impl Not for Var {
    type Output = Var;
    #[track_caller]
    fn not(self) -> Var {
        self.bitwise_not()
    }
}

/// The sum of variables of one shape, or of shapes that broadcast, as `+` adds them; of none, the number 0.
///
/// ```
/// use foldback_graph::{RequiresGrad, Var};
/// let x = foldback_tensor::tensor![1.0, 2.0].requires_grad();
/// let losses = [x.sum(..)?, x.square().sum(..)?];
/// losses.iter().sum::<Var>().backward()?;
/// assert_eq!(x.grad().unwrap(), foldback_tensor::tensor![3.0, 5.0]);
/// # Ok::<(), foldback_graph::Error>(())
/// ```
///
/// # Panics
/// Where `+` does.
impl Sum for Var {
    fn sum<I: Iterator<Item = Var>>(vars: I) -> Var {
        vars.reduce(|a, b| a + b).unwrap_or_else(|| Var::from(0.0f32))
    }
}

impl<'a> Sum<&'a Var> for Var {
    fn sum<I: Iterator<Item = &'a Var>>(vars: I) -> Var {
        vars.cloned().sum()
    }
}
