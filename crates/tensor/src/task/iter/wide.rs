//! Wide accumulators: what leaves are lifted to, of whatever type a fold needs.

use smallvec::SmallVec;

/// Accumulators of one type: most small sums, such as losses, have a single one.
type Values<T> = SmallVec<[T; 1]>;

/// Accumulators of their own memory.
pub(crate) enum Wide {
    F32(Values<f32>),
    F64(Values<f64>),
    I64(Values<i64>),
    /// sums of `f64`, each with the sum of its rounding errors
    Pairs(Values<(f64, f64)>),
}

/// Accumulators that somebody else has.
#[derive(Debug)]
pub(crate) enum WideMut<'a> {
    F32(&'a mut [f32]),
    F64(&'a mut [f64]),
    I64(&'a mut [i64]),
    Pairs(&'a mut [(f64, f64)]),
}

/// A type of accumulator: a number, or two, which lie apart in a loop over several accumulators.
pub(crate) trait Accumulator: Copy + Send + Sync + 'static {
    type Part: Copy;
    /// Its numbers; of a single one, that one twice.
    fn parts(self) -> [Self::Part; 2];
    fn of_parts(parts: [Self::Part; 2]) -> Self;
    /// `n` of the same value.
    fn wide(value: Self, n: usize) -> Wide;
    fn slice(wide: &Wide) -> Option<&[Self]>;
    fn slice_mut(wide: WideMut<'_>) -> Option<&mut [Self]>;
}

macro_rules! accumulators {
    ($($t:ty => $variant:ident of $part:ty, |$own:ident| $parts:expr, |$both:ident| $of_parts:expr;)*) => {
        $(impl Accumulator for $t {
            type Part = $part;
            #[inline(always)]
            fn parts(self) -> [$part; 2] {
                let $own = self;
                $parts
            }
            #[inline(always)]
            fn of_parts($both: [$part; 2]) -> $t {
                $of_parts
            }
            fn wide(value: Self, n: usize) -> Wide {
                Wide::$variant(SmallVec::from_elem(value, n))
            }
            fn slice(wide: &Wide) -> Option<&[Self]> {
                if let Wide::$variant(s) = wide { Some(s) } else { None }
            }
            fn slice_mut(wide: WideMut<'_>) -> Option<&mut [Self]> {
                if let WideMut::$variant(s) = wide { Some(s) } else { None }
            }
        })*

        impl Wide {
            pub(crate) fn all(&mut self) -> WideMut<'_> {
                match self {
                    $(Wide::$variant(s) => WideMut::$variant(s),)*
                }
            }
        }

        impl<'a> WideMut<'a> {
            /// Two slices: the accumulators before `mid`, and the rest.
            pub(crate) fn split_at(self, mid: usize) -> (WideMut<'a>, WideMut<'a>) {
                match self {
                    $(WideMut::$variant(s) => {
                        let (a, b) = s.split_at_mut(mid);
                        (WideMut::$variant(a), WideMut::$variant(b))
                    })*
                }
            }

            /// Those from `start` on.
            pub(crate) fn from(&mut self, start: usize) -> WideMut<'_> {
                match self {
                    $(WideMut::$variant(s) => WideMut::$variant(&mut s[start..]),)*
                }
            }
        }
    };
}
accumulators! {
    f32 => F32 of f32, |v| [v; 2], |parts| parts[0];
    f64 => F64 of f64, |v| [v; 2], |parts| parts[0];
    i64 => I64 of i64, |v| [v; 2], |parts| parts[0];
    (f64, f64) => Pairs of f64, |v| v.into(), |parts| parts.into();
}
