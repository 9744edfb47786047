//! `Names`: which operands a number was made of, so that a node saves what its gradients read and nothing else.

use std::ops::{Add, Div, Mul, Neg, Sub};

use foldback_tensor::kernel::{Num, Real};

/// The operands that a number depends on, a bit each. A formula evaluated at duals of names tells for each gradient
/// what it is made of, as the `|...|` of a row of the derivative table does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Names(pub(super) u8);

impl Names {
    /// The operand at this place.
    pub(super) fn operand(place: usize) -> Names {
        Names(1 << place)
    }

    fn and_of(self, o: Names) -> Names {
        Names(self.0 | o.0)
    }
}

macro_rules! operator {
    ($($trait:ident $f:ident;)*) => {$(
        impl $trait for Names {
            type Output = Names;
            fn $f(self, o: Names) -> Names {
                self.and_of(o)
            }
        }
        impl $trait<f64> for Names {
            type Output = Names;
            fn $f(self, _: f64) -> Names {
                self
            }
        }
        impl $trait<Names> for f64 {
            type Output = Names;
            fn $f(self, o: Names) -> Names {
                o
            }
        }
    )*};
}
operator! {
    Add add;
    Sub sub;
    Mul mul;
    Div div;
}

impl Neg for Names {
    type Output = Names;
    fn neg(self) -> Names {
        self
    }
}

macro_rules! of_one {
    ($($f:ident),*) => {$(
        fn $f(self) -> Names {
            self
        }
    )*};
}
macro_rules! of_two {
    ($($f:ident),*) => {$(
        fn $f(self, o: Names) -> Names {
            self.and_of(o)
        }
    )*};
}

impl Num for Names {
    type Mask = Names;
    fn lit(_: f64) -> Names {
        Names(0)
    }
    of_two!(lt, le, eq, maximum, minimum);
    of_one!(abs, sign);
    fn and(a: Names, b: Names) -> Names {
        a.and_of(b)
    }
    fn or(a: Names, b: Names) -> Names {
        a.and_of(b)
    }
    fn not(a: Names) -> Names {
        a
    }
    fn select(mask: Names, yes: Names, no: Names) -> Names {
        mask.and_of(yes).and_of(no)
    }
}

impl Real for Names {
    of_one!(exp, expm1, ln, log1p, sqrt, sin, cos, tanh, sigmoid, erf);
    of_two!(pow);
}
