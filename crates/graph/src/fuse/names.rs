//! `Names`: which operands a number was made of, so that a node saves what its gradients read and nothing else; and which calls
//! of elementary functions.

use std::cell::Cell;
use std::ops::{Add, Div, Mul, Neg, Sub};

use foldback_tensor::kernel::{Num, Real};

/// The operands that a number depends on, a bit each. A formula evaluated at duals of names tells for each gradient
/// what it is made of, as the `|...|` of a row of the derivative table does. Above the operands' are the bits of calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Names(u32);

/// It is what a function gives, and nothing has been done with that.
const UNTOUCHED: u32 = 1 << 31;
/// The first call's bit. The last two are those of all calls that come late.
const FIRST_CALL: u32 = 9;
const LATE_CALL: u32 = 29;

thread_local! {
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

impl Names {
    /// The place of what the formula's function gives, where that is read: behind the incoming gradient and seven operands.
    pub(super) const RESULT: usize = 8;

    /// What the function gives, where that is known.
    pub(super) const KNOWN: Names = Names(1 << Names::RESULT | UNTOUCHED);

    /// Counts calls of functions anew, for a formula that is about to be evaluated.
    pub(super) fn forget_calls() {
        CALLS.set(0);
    }

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
        Names((self.0 | o.0) & !UNTOUCHED)
    }

    /// What an elementary function of it gives.
    fn called(self) -> Names {
        let call = FIRST_CALL + CALLS.replace(CALLS.get() + 1);
        let bits = if call < LATE_CALL { 1 << call } else { 0b11 << LATE_CALL };
        self.and_of(Names(bits))
    }

    /// Whether one call of an elementary function is behind it.
    pub(super) fn is_of_one_call(self) -> bool {
        (self.0 & !UNTOUCHED).unbounded_shr(FIRST_CALL).is_power_of_two()
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
    use crate::fuse::derived::{Derived, SavedResult};

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

    /// Functions of one's own may call what the formula does not name.
    fn twice<R: Real>(x: R) -> R {
        x.exp() + x.tanh()
    }

    /// What the only function gives is saved where slopes read it.
    #[test]
    fn a_gradient_may_read_what_a_function_gives() {
        macro_rules! saves {
            ($saved:expr; $($formula:tt)*) => {
                assert_eq!(saved(&FloatKernel(crate::fuse!($($formula)*).formula)), $saved);
            };
        }
        let (value, inner) = (Some(SavedResult::Value), Some(SavedResult::Inner));
        saves!(value; |x| x.tanh());
        saves!(value; |x| (-x).exp());
        saves!(value; |x, w, b| (x * w + b).sigmoid());
        saves!(value; |x, y| (x.maximum(y) / 2.0).rsqrt());
        saves!(value; |x| (x.abs() + 0.5).sqrt());
        saves!(value; |x| x.tan());
        // The value is made of it.
        saves!(inner; |x| -x.tanh());
        saves!(inner; |x| x.tanh().abs());
        saves!(inner; |x| 1.0 / x.sqrt());
        saves!(inner; |x| x.exp() * 2.0);
        saves!(inner; |x, w, b| x.tanh() * w + b);
        saves!(inner; |x| x * x.sigmoid());
        saves!(inner; |x| { let t = x.exp(); t / (t + 1.0) });
        saves!(inner; |x, w| R::select(w.gt(R::lit(0.0)), x.exp(), w));
        saves!(inner; |x, w| { let t = x.tanh(); R::select(t.gt(w), t, w) });
        // Slopes read the argument, or nothing.
        saves!(None; |x| x.ln());
        saves!(None; |x| x.sin());
        saves!(None; |x| x.erf() * 2.0);
        saves!(None; |x| x.tanh().floor());
        saves!(None; |x| x.maximum(R::lit(1.0)));
        saves!(None; |x| x.pow_number(0.5));
        saves!(None; |x| x.gelu());
        saves!(None; |x, w| R::lit(2.0).exp() * x * w);
        // It chooses, and is not part of what is chosen.
        saves!(None; |x, w| R::select(x.tanh().gt(w), x * w, w));
        // There are several functions, of which each would give it.
        saves!(None; |x| x.exp().tanh());
        saves!(None; |x, w| x.exp() + w.tanh());
        saves!(None; |x| x.softplus().sqrt());
        saves!(None; |x, w| { let f = |v: R| v.tanh(); f(x) + f(w) });
        saves!(None; |x| twice(x));
        saves!(None; |x| twice(x) * x.sigmoid());
        saves!(None; |x| { let mut y = x; for _ in 0..40 { y = y.tanh() + x } y });
        saves!(None; |x, w| { let mut y = w; for _ in 0..40 { y = y + (x * y).tanh() } y });
        // Loops that read it are there for formulas that say so.
        assert_eq!(saved(&FloatKernel(Normal)), None);
    }

    fn saved(formula: &dyn Derived) -> Option<SavedResult> {
        formula.saved_result(formula.names(None).0)
    }

    fn made_of(formula: &dyn Derived) -> Vec<Option<u32>> {
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
