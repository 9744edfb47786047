//! `Names`: which operands a number was made of, so that a node saves what its gradients read and nothing else.

use std::ops::{Add, Div, Mul, Neg, Sub};

use foldback_tensor::kernel::{CallSet, MOST_CALLS, Num, Real};

/// The operands that a number depends on, a bit each, and how it was made of them. A formula evaluated at duals of names tells for each gradient
/// what it is made of, as the `|...|` of a row of the derivative table does. Above the operands' are the bits of what functions give.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Names {
    places: u32,
    /// of numbers that are made in the same way the same
    print: u64,
    /// how many operations it is made by; what is read twice is counted twice
    operations: u32,
    /// how many of them are of few elements
    of_few: u32,
}

/// The place of what the first function gives, behind the incoming gradient and seven operands.
const FIRST_RESULT: usize = 8;
/// Something has been chosen, or made flat: what it was made of may have no influence, however steep it is.
const CHOSEN: u32 = 1 << 31;
/// Of few elements, or of none.
const FEW: u32 = 1 << 30;
const _: () = assert!(FIRST_RESULT + MOST_CALLS < 30);

/// A print of two, in this order.
const fn mixed(a: u64, b: u64) -> u64 {
    let mixed =
        (a ^ b.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b.wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ mixed >> 29
}

/// A print of an operation's name.
const fn print_of(name: &str) -> u64 {
    let (text, mut print, mut at) = (name.as_bytes(), 0, 0);
    while at < text.len() {
        print = mixed(print, text[at] as u64 + 1);
        at += 1;
    }
    print
}

impl Names {
    /// Of no operand.
    pub(super) const NONE: Names = Names { places: 0, print: 0, operations: 0, of_few: 0 };

    /// The operand at this place.
    pub(super) fn operand(place: usize) -> Names {
        Names { places: 1 << place, print: mixed(1, place as u64), ..Names::NONE }
    }

    /// The operand at this place, of few elements: what is made of such operands alone is so, too.
    pub(super) fn few(place: usize) -> Names {
        let operand = Names::operand(place);
        Names { places: operand.places | FEW, ..operand }
    }

    /// What function `nr` gives, where that is known.
    pub(super) fn result(nr: usize) -> Names {
        Names::operand(FIRST_RESULT + nr)
    }

    /// Whether it depends on the operand at this place.
    pub(super) fn has(self, place: usize) -> bool {
        self.places & (1 << place) != 0
    }

    /// Whether it depends on what function `nr` gives.
    pub(super) fn has_result(self, nr: usize) -> bool {
        self.has(FIRST_RESULT + nr)
    }

    /// How many operations it is made by, if nothing is read twice.
    pub(super) fn operations(self) -> u32 {
        self.operations
    }

    /// How many of these operations are not of few elements.
    pub(super) fn operations_of_many(self) -> u32 {
        self.operations - self.of_few
    }

    /// Whether something it depends on may have no influence.
    pub(super) fn is_chosen(self) -> bool {
        self.places & CHOSEN != 0
    }

    /// Whether it is what an elementary function gives of the operand at this place.
    pub(super) fn is_function_of(self, place: usize) -> bool {
        FUNCTIONS.iter().any(|&function| self == Names::operand(place).made(function))
    }

    /// The operands behind the names: in the place of functions that are not known stands what they read, which is stated for each.
    pub(super) fn through(mut self, known: CallSet, read: &[Names]) -> Names {
        for (nr, &names) in read.iter().enumerate().rev().filter(|&(nr, _)| !known.has(nr)) {
            if self.has_result(nr) {
                self.places &= !(1 << (FIRST_RESULT + nr));
                self = self.and_of(names);
            }
        }
        self
    }

    /// The operands of both.
    pub(super) fn and_of(self, o: Names) -> Names {
        let are_few = self.places & o.places & FEW;
        Names { places: (self.places | o.places) & !FEW | are_few, ..self }
    }

    #[inline(always)]
    fn chosen(self) -> Names {
        Names { places: self.places | CHOSEN, ..self }
    }

    /// What an operation makes of it.
    #[inline(always)]
    fn made(self, operation: u64) -> Names {
        Names { print: mixed(operation, self.print), ..self }.counted(0, 0)
    }

    /// What an operation makes of both.
    #[inline(always)]
    fn made_with(self, operation: u64, o: Names) -> Names {
        let print = mixed(mixed(operation, self.print), o.print);
        Names { print, ..self.and_of(o) }.counted(o.operations, o.of_few)
    }

    /// With one operation more, and so many of another operand.
    #[inline(always)]
    fn counted(self, operations: u32, of_few: u32) -> Names {
        let is_few = u32::from(self.places & FEW != 0);
        Names { operations: self.operations + operations + 1, of_few: self.of_few + of_few + is_few, ..self }
    }
}

macro_rules! operator {
    ($($trait:ident $f:ident;)*) => {$(
        impl $trait for Names {
            type Output = Names;
            #[inline(always)]
            fn $f(self, o: Names) -> Names {
                self.made_with(const { print_of(stringify!($f)) }, o)
            }
        }
        impl $trait<f64> for Names {
            type Output = Names;
            #[inline(always)]
            fn $f(self, o: f64) -> Names {
                $trait::$f(self, Names::lit(o))
            }
        }
        impl $trait<Names> for f64 {
            type Output = Names;
            #[inline(always)]
            fn $f(self, o: Names) -> Names {
                $trait::$f(Names::lit(self), o)
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

macro_rules! of_one {
    ($($f:ident),*) => {$(
        #[inline(always)]
        fn $f(self) -> Names {
            self.made(const { print_of(stringify!($f)) })
        }
    )*};
}
macro_rules! flat {
    ($($f:ident),*) => {$(
        #[inline(always)]
        fn $f(self) -> Names {
            self.made(const { print_of(stringify!($f)) }).chosen()
        }
    )*};
}
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident $name_:ident $line:tt;)*) => {
        of_one!($($name),*);
    };
}
macro_rules! prints {
    ($($(#[$doc:meta])* $name:ident $name_:ident $line:tt;)*) => {
        /// The prints of the elementary functions.
        const FUNCTIONS: &[u64] = &[$(print_of(stringify!($name))),*];
    };
}
foldback_tensor::__elementary!(prints);
macro_rules! of_two {
    ($($f:ident),*) => {$(
        #[inline(always)]
        fn $f(self, o: Names) -> Names {
            self.made_with(const { print_of(stringify!($f)) }, o)
        }
    )*};
}

impl Neg for Names {
    type Output = Names;
    of_one!(neg);
}

impl Num for Names {
    type Mask = Names;
    #[inline(always)]
    fn lit(v: f64) -> Names {
        Names { places: FEW, print: mixed(2, v.to_bits()), ..Names::NONE }
    }
    of_two!(lt, le, eq);
    of_one!(abs, square);
    flat!(sign, floor, ceil, round, trunc);
    #[inline(always)]
    fn maximum(self, o: Names) -> Names {
        self.made_with(const { print_of("maximum") }, o).chosen()
    }
    #[inline(always)]
    fn minimum(self, o: Names) -> Names {
        self.made_with(const { print_of("minimum") }, o).chosen()
    }
    #[inline(always)]
    fn and(a: Names, b: Names) -> Names {
        a.made_with(const { print_of("and") }, b)
    }
    #[inline(always)]
    fn or(a: Names, b: Names) -> Names {
        a.made_with(const { print_of("or") }, b)
    }
    #[inline(always)]
    fn not(a: Names) -> Names {
        a.made(const { print_of("not") })
    }
    #[inline(always)]
    fn select(mask: Names, yes: Names, no: Names) -> Names {
        mask.made_with(const { print_of("select") }, yes).made_with(0, no).chosen()
    }
}

impl Real for Names {
    foldback_tensor::__elementary!(functions);
    of_one!(gelu);
    of_two!(pow);
}

#[cfg(test)]
mod tests {
    use foldback_tensor::kernel::{FloatKernel, FloatOps, Formula};

    use super::*;
    use crate::fuse::derived::Named;

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

    /// What functions give is saved where slopes read it. Told by letters: `y` is the value, the others are numbers of calls.
    #[test]
    fn gradients_may_read_what_functions_give() {
        macro_rules! saves {
            ($saved:literal; $($formula:tt)*) => {
                assert_eq!(saved(&FloatKernel(crate::fuse!($($formula)*).formula)), $saved);
            };
        }
        saves!("y"; |x| x.tanh());
        saves!("y"; |x| (-x).exp());
        saves!("y"; |x, w, b| (x * w + b).sigmoid());
        saves!("y"; |x, y| (x.maximum(y) / 2.0).rsqrt());
        saves!("y"; |x| (x.abs() + 0.5).sqrt());
        saves!("y"; |x| x.tan());
        // The value is made of it.
        saves!("0"; |x| -x.tanh());
        saves!("0"; |x| x.tanh().abs());
        saves!("0"; |x| 1.0 / x.sqrt());
        saves!("0"; |x| x.exp() * 2.0);
        saves!("0"; |x, w, b| x.tanh() * w + b);
        saves!("0"; |x| x * x.sigmoid());
        saves!("0"; |x, w| x.gelu() * w);
        saves!("0"; |x| { let t = x.exp(); t / (t + 1.0) });
        saves!("0"; |x, w| R::select(w.gt(R::lit(0.0)), x.exp(), w));
        saves!("0"; |x, w| { let t = x.tanh(); R::select(t.gt(w), t, w) });
        // Several functions: the slope of one reads its argument, that of another what it gives, or what is given is a factor.
        saves!("0y"; |x| x.exp().tanh());
        saves!("01"; |x, w| x.exp() + w.tanh());
        saves!("y"; |x| x.sin().tanh());
        saves!("0"; |x| x.sin().cos());
        saves!("1"; |x, w| x.ln() + w.sigmoid());
        saves!("01"; |x, w| x.sin() * w.cos());
        saves!("01y"; |x, w| (x.tanh() * w.sigmoid()).exp());
        saves!("0y"; |x| x.softplus().sqrt());
        saves!("y"; |x, w| x.pow(w));
        // Slopes read the argument, or nothing.
        saves!(""; |x| x.ln());
        saves!(""; |x| x.sin());
        saves!(""; |x| x.erf() * 2.0);
        saves!(""; |x| x.tanh().floor());
        saves!(""; |x| x.maximum(R::lit(1.0)));
        saves!(""; |x| x.gelu());
        saves!(""; |x| x.pow_number(0.5));
        saves!(""; |x, w| x.ln() + w.sin());
        saves!(""; |x, w| R::lit(2.0).exp() * x * w);
        // It chooses, and is not part of what is chosen.
        saves!("0"; |x, w| R::select(x.tanh().gt(w), x * w, w));
        // Those that are named once and called several times have a loop for the first call.
        saves!("0"; |x, w| { let f = |v: R| v.tanh(); f(x) + f(w) });
        saves!("0"; |x| { let mut y = x; for _ in 0..40 { y = y.tanh() + x } y });
        // Those that only functions of one's own name have none.
        saves!(""; |x| twice(x));
        saves!("0"; |x| x.sigmoid() * twice(x));
        // Neither have formulas that do not say so.
        assert_eq!(saved(&FloatKernel(Normal)), "");
    }

    fn saved(formula: &dyn Named) -> String {
        let Some(saved) = formula.saved_results(|_| true) else { return String::new() };
        let letter = |nr| if saved.value == Some(nr) { "y".to_string() } else { nr.to_string() };
        (0..formula.calls()).filter(|&nr| saved.read.has(nr)).map(letter).collect()
    }

    /// What no gradient reads that is wanted is not saved.
    #[test]
    fn results_are_saved_for_the_gradients_that_are_wanted() {
        let formula = FloatKernel(crate::fuse!(|x, w| x.tanh() * w.sin()).formula);
        let saved = |tracked: &[usize]| {
            let saved = (&formula as &dyn Named).saved_results(|k| tracked.contains(&k));
            saved.map(|saved| [saved.read.has(0), saved.read.has(1)])
        };
        assert_eq!(saved(&[0]), Some([true, true]));
        assert_eq!(saved(&[1]), Some([true, false]));
        assert_eq!(saved(&[]), None);
    }

    fn made_of(formula: &dyn Named) -> Vec<Option<u32>> {
        formula.names().into_iter().map(|names| names.map(|n| n.places & !CHOSEN)).collect()
    }

    #[test]
    fn a_gradient_names_what_it_reads() {
        // Bit 0 is the incoming gradient.
        let expected = [Some(0b01001), Some(0b01001), Some(0b00111), Some(0b00001)];
        assert_eq!(made_of(&FloatKernel(Normal)), expected);
        assert_eq!(made_of(&FloatKernel(Chosen)), [Some(0b0101), None, None]);
    }

    /// Told by numbers: operands with the same one have a gradient that is made in the same way.
    #[test]
    fn gradients_that_are_made_alike_are_found() {
        macro_rules! alike {
            ($expected:expr; $($formula:tt)*) => {
                let names = FloatKernel(crate::fuse!($($formula)*).formula).names();
                let first = |k: usize| (0..=k).find(|&first| names[first] == names[k]).unwrap();
                let found: Vec<usize> = (0..names.len()).map(first).collect();
                assert_eq!(found, $expected, "{}", stringify!($($formula)*));
            };
        }
        alike!([0, 0, 0]; |x, h, b| x + h + b);
        alike!([0, 0, 0]; |x, h, b| (x + h + b).tanh() * 2.0);
        alike!([0, 0, 2]; |x, h, b| (x + h) * b);
        alike!([0, 1, 1]; |x, h, b| R::select(x.gt(h + b), h + b, x * 2.0).relu());
        alike!([0, 1]; |x, h| x - h);
        alike!([0, 1]; |x, h| x * h);
        alike!([0, 1]; |x, h| x * 2.0 + h * 3.0);
        alike!([0, 1]; |x, h| x.exp() + h.exp());
        alike!([0, 1]; |x, h| x / 2.0 + h * 2.0);
        let g = Names::operand(0);
        let of = FloatKernel(crate::fuse!(|x, w, b| x * w + b).formula).names();
        assert_eq!(of.into_iter().map(|names| names == Some(g)).collect::<Vec<_>>(), [false, false, true]);
    }

    /// Of a formula whose second and third operands are of few elements.
    #[test]
    fn operations_of_few_elements_are_told() {
        macro_rules! counts {
            ($all:literal, $of_many:literal; $($formula:tt)*) => {
                let value = FloatKernel(crate::fuse!($($formula)*).formula).value_names(&|k| k > 0);
                let found = (value.operations(), value.operations_of_many());
                assert_eq!(found, ($all, $of_many), "{}", stringify!($($formula)*));
            };
        }
        counts!(1, 1; |x, w| x * w);
        counts!(2, 1; |x, w| x * w.exp());
        counts!(3, 1; |x, w| x / (w.abs() + 1.0));
        counts!(3, 0; |_x, w, b| (w - b).exp() * 2.0);
        counts!(4, 2; |x, w, b| x * w.exp() + (b + 1.0));
        counts!(4, 3; |x, w, b| (x * 2.0 - w / b).exp());
        counts!(2, 2; |x| x.exp() + R::lit(1.0));
    }

    #[test]
    fn what_may_have_no_influence_is_told() {
        macro_rules! chosen {
            ($expected:expr; $($formula:tt)*) => {
                let value = FloatKernel(crate::fuse!($($formula)*).formula).names_knowing().0;
                assert_eq!(value.is_chosen(), $expected, "{}", stringify!($($formula)*));
            };
        }
        chosen!(false; |x, w| x * w.exp() - x.abs());
        chosen!(false; |x, w| x * w.maximum(x).sqrt());
        chosen!(true; |x, w| x.maximum(w.exp()) * 2.0);
        chosen!(true; |x, w| x.minimum(w.exp()));
        chosen!(true; |x, w| (x * w.exp()).relu());
        chosen!(true; |x, w| x * w.exp().floor());
        chosen!(true; |x, w| w.exp() + R::select(x.gt(w), x, w));
    }
}
