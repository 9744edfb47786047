//! Wide accumulators: what leaves are lifted to, of whatever type a fold needs.

/// Accumulators of their own memory.
pub(crate) enum Wide {
    F32(Vec<f32>),
    F64(Vec<f64>),
    I64(Vec<i64>),
    /// sums of `f64`, each with the sum of its rounding errors
    Pairs(Vec<(f64, f64)>),
}

/// Accumulators that somebody else has.
#[derive(Debug)]
pub(crate) enum WideMut<'a> {
    F32(&'a mut [f32]),
    F64(&'a mut [f64]),
    I64(&'a mut [i64]),
    Pairs(&'a mut [(f64, f64)]),
}

/// A type of accumulator.
pub(crate) trait Accumulator: Copy + Send + Sync + 'static {
    fn wide(values: Vec<Self>) -> Wide;
    fn slice(wide: &Wide) -> Option<&[Self]>;
    fn slice_mut(wide: WideMut<'_>) -> Option<&mut [Self]>;
}

macro_rules! accumulators {
    ($($t:ty => $variant:ident),*) => {
        $(impl Accumulator for $t {
            fn wide(values: Vec<Self>) -> Wide {
                Wide::$variant(values)
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
accumulators!(f32 => F32, f64 => F64, i64 => I64, (f64, f64) => Pairs);
