//! `Names`: which operands a number was made of, so that a node saves what its gradients read and nothing else; and whether it
//! is what a function gives.

use std::ops::{Add, Div, Mul, Neg, Sub};

use foldback_tensor::kernel::{Num, Real};

/// The operands that a number depends on, a bit each. A formula evaluated at duals of names tells for each gradient
/// what it is made of, as the `|...|` of a row of the derivative table does. Above the operands' are the bits of functions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Names(u16);

/// It is what an elementary function gives, and nothing has been done with that.
const GIVEN: u16 = 1 << 15;
/// It depends on what such a function gives.
const CALLED: u16 = 1 << 14;
/// It depends on what such a function gives of what depends on one.
const CALLED_TWICE: u16 = 1 << 13;

impl Names {
    /// The place of what the formula gives, where that is read: behind the incoming gradient and seven operands.
    pub(super) const RESULT: usize = 8;

    /// The operand at this place.
    pub(super) fn operand(place: usize) -> Names {
        Names(1 << place)
    }

    /// Of no operand.
    pub(super) const NONE: Names = Names(0);

    /// Whether it depends on the operand at this place.
    pub(super) fn has(self, place: usize) -> bool {
        self.0 & (1 << place) != 0
    }

    /// Of the operands of both.
    pub(super) fn and_of(self, o: Names) -> Names {
        Names((self.0 | o.0) & !GIVEN)
    }

    /// What an elementary function of it gives.
    fn called(self) -> Names {
        let twice = if self.0 & CALLED != 0 { CALLED_TWICE } else { 0 };
        Names(self.0 | GIVEN | CALLED | twice)
    }

    /// Whether it is what an elementary function gives, of a number for which none was asked.
    pub(super) fn is_of_one_function(self) -> bool {
        self.0 & (GIVEN | CALLED_TWICE) == GIVEN
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
                self.and_of(self)
            }
        }
        impl $trait<Names> for f64 {
            type Output = Names;
            fn $f(self, o: Names) -> Names {
                o.and_of(o)
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
        self.and_of(self)
    }
}

macro_rules! of_one {
    ($($f:ident),*) => {$(
        fn $f(self) -> Names {
            self.and_of(self)
        }
    )*};
}
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident $name_:ident $line:tt;)*) => {$(
        fn $name(self) -> Names {
            self.called()
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
        Names::NONE
    }
    of_two!(lt, le, eq, maximum, minimum);
    of_one!(abs, sign, floor, ceil, round, trunc);
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
    foldback_tensor::__elementary!(functions);
    of_two!(pow);
}

#[cfg(test)]
mod tests {
    use foldback_tensor::kernel::{FloatKernel, FloatOps, Formula};

    use super::*;
    use crate::fuse::derived::Derived;

    /// `(x - m) * s + b`, as in a normalisation.
    #[derive(Clone, Copy)]
    struct Normal;
    impl Formula<4> for Normal {
        #[inline(always)]
        fn eval<R: Real>(&self, [x, m, s, b]: [R; 4]) -> R
        where
            f64: FloatOps<R>,
        {
            (x - m) * s + b
        }
    }

    /// Only one operand moves, and what it is chosen by is read.
    #[derive(Clone, Copy)]
    struct Chosen;
    impl Formula<3> for Chosen {
        #[inline(always)]
        fn eval<R: Real>(&self, [x, y, z]: [R; 3]) -> R
        where
            f64: FloatOps<R>,
        {
            let _ = z;
            R::select(y.gt(R::lit(0.0)), x * 2.0, R::lit(1.0))
        }
    }

    /// A value is read where it is what the only function gives, untouched, and where slopes read it.
    #[test]
    fn a_gradient_may_read_the_value() {
        macro_rules! reads {
            ($($formula:tt)*) => {
                reads_its_value(&FloatKernel(crate::fuse!($($formula)*).formula))
            };
        }
        assert!(reads!(|x| x.tanh()));
        assert!(reads!(|x| (-x).exp()));
        assert!(reads!(|x, w, b| (x * w + b).sigmoid()));
        assert!(reads!(|x, y| (x.maximum(y) / 2.0).rsqrt()));
        assert!(reads!(|x| (x.abs() + 0.5).sqrt()));
        // Slopes read the argument.
        assert!(!reads!(|x| x.ln()));
        assert!(!reads!(|x| x.sin()));
        assert!(!reads!(|x| x.erf()));
        // The value is something else.
        assert!(!reads!(|x| -x.tanh()));
        assert!(!reads!(|x| x.tanh().floor()));
        assert!(!reads!(|x| 1.0 / x.sqrt()));
        assert!(!reads!(|x| x.exp() * 2.0));
        assert!(!reads!(|x, w| x.tanh() * w));
        assert!(!reads!(|x| x * x.sigmoid()));
        assert!(!reads!(|x| R::select(x.gt(R::lit(0.0)), x.exp(), x.tanh())));
        assert!(!reads!(|x| x.maximum(R::lit(1.0))));
        assert!(!reads!(|x| x.pow_number(0.5)));
        assert!(!reads!(|x| x.gelu()));
        assert!(!reads!(|x| x.softplus()));
        // There are several functions, of which each would give the value.
        assert!(!reads!(|x| x.exp().tanh()));
        assert!(!reads!(|x, w| (x.exp() * w).tanh()));
        assert!(!reads!(|x, y| (x + R::select(y.exp().gt(x), x, y)).tanh()));
        assert!(!reads!(|x| x.softplus().sqrt()));
        // Loops that read it are there for formulas with loops for sums.
        assert!(!reads_its_value(&FloatKernel(Normal)));
    }

    fn reads_its_value(formula: &dyn Derived) -> bool {
        formula.reads_its_value(formula.names(None).0)
    }

    fn made_of(formula: &dyn Derived) -> Vec<Option<u16>> {
        formula.names(None).1.into_iter().map(|names| names.map(|n| n.0)).collect()
    }

    #[test]
    fn a_gradient_names_what_it_reads() {
        // Bit 0 is the incoming gradient.
        let expected = [Some(0b01001), Some(0b01001), Some(0b00111), Some(0b00001)];
        assert_eq!(made_of(&FloatKernel(Normal)), expected);
        assert_eq!(made_of(&FloatKernel(Chosen)), [Some(0b0101), None, None]);
    }
}
