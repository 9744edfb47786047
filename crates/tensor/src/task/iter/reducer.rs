//! Reducers: how elements are folded, and the wide accumulators behind long foldings.

use super::wide::Accumulator;
use crate::dtype::{Block, BlockMut, Element};
use crate::kernels::column_folds;
use crate::kernels::folds::Table;

/// Writes the results of the columns of tables of so many rows, which follow each other, by leaves of [`ROWS`](super::ROWS) rows; onto what is there if so.
pub(crate) type OfColumns = fn(out: BlockMut<'_>, tables: Table<Block<'_>>, height: usize, onto: bool);

/// Rows that are few, where columns have accumulators each.
pub(super) const FEW_ROWS: usize = 16;

/// How elements are folded: an identity, a combination of elements, and a wide accumulator behind it.
pub(crate) trait Reducer: Send + Sync + 'static {
    /// the element type
    type T: Element;
    /// what leaves are lifted to
    type Acc: Accumulator;
    const IDENTITY: Self::T;
    const START: Self::Acc;
    /// The most rows whose columns have a loop of their own, and that loop.
    const OF_COLUMNS: Option<(usize, OfColumns)> = None;
    fn combine(a: Self::T, b: Self::T) -> Self::T;
    fn lift(v: Self::T) -> Self::Acc;
    fn merge(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    /// What `n` equal contributions amount to.
    fn repeat(a: Self::Acc, n: usize) -> Self::Acc;
    fn finish(a: Self::Acc) -> Self::T;
}

/// Sums.
pub(crate) struct Sum<T>(std::marker::PhantomData<T>);
/// Products.
pub(crate) struct Prod<T>(std::marker::PhantomData<T>);
/// Largest elements; NaN wins.
pub(crate) struct Max<T>(std::marker::PhantomData<T>);
/// Smallest elements; NaN wins.
pub(crate) struct Min<T>(std::marker::PhantomData<T>);

impl Reducer for Sum<f32> {
    type T = f32;
    type Acc = f64;
    const IDENTITY: f32 = 0.0;
    const START: f64 = 0.0;
    const OF_COLUMNS: Option<(usize, OfColumns)> = Some((FEW_ROWS, column_folds::results_of_columns::<Self>));
    #[inline(always)]
    fn combine(a: f32, b: f32) -> f32 {
        a + b
    }
    #[inline(always)]
    fn lift(v: f32) -> f64 {
        v as f64
    }
    #[inline(always)]
    fn merge(a: f64, b: f64) -> f64 {
        a + b
    }
    fn repeat(a: f64, n: usize) -> f64 {
        a * n as f64
    }
    #[inline(always)]
    fn finish(a: f64) -> f32 {
        a as f32
    }
}

impl Reducer for Sum<f64> {
    type T = f64;
    /// the sum, and the sum of the rounding errors so far
    type Acc = (f64, f64);
    const IDENTITY: f64 = 0.0;
    const START: (f64, f64) = (0.0, 0.0);
    const OF_COLUMNS: Option<(usize, OfColumns)> =
        Some((usize::MAX, column_folds::results_of_columns::<Self>));
    #[inline(always)]
    fn combine(a: f64, b: f64) -> f64 {
        a + b
    }
    #[inline(always)]
    fn lift(v: f64) -> (f64, f64) {
        (v, 0.0)
    }
    /// Knuth's two-sum: the exact error of an addition in six operations.
    #[inline(always)]
    fn merge(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
        let s = a.0 + b.0;
        let t = s - a.0;
        (s, a.1 + b.1 + ((a.0 - (s - t)) + (b.0 - t)))
    }
    fn repeat(a: (f64, f64), n: usize) -> (f64, f64) {
        (a.0 * n as f64, a.1 * n as f64)
    }
    #[inline(always)]
    fn finish(a: (f64, f64)) -> f64 {
        // The error of an infinite or NaN sum is meaningless.
        if a.1.is_finite() { a.0 + a.1 } else { a.0 }
    }
}

/// A reducer whose accumulator is the element type itself.
macro_rules! plain_reducer {
    ($name:ident<$t:ty>, $identity:expr, |$a:ident, $b:ident| $combine:expr, |$v:ident, $n:ident| $repeat:expr, $of_columns:expr) => {
        impl Reducer for $name<$t> {
            type T = $t;
            type Acc = $t;
            const IDENTITY: $t = $identity;
            const START: $t = $identity;
            const OF_COLUMNS: Option<(usize, OfColumns)> = $of_columns;
            #[inline(always)]
            fn combine($a: $t, $b: $t) -> $t {
                $combine
            }
            #[inline(always)]
            fn lift(v: $t) -> $t {
                v
            }
            #[inline(always)]
            fn merge($a: $t, $b: $t) -> $t {
                $combine
            }
            fn repeat($v: $t, $n: usize) -> $t {
                $repeat
            }
            #[inline(always)]
            fn finish(a: $t) -> $t {
                a
            }
        }
    };
}
plain_reducer!(Sum<i64>, 0, |a, b| a.wrapping_add(b), |v, n| v.wrapping_mul(n as i64), None);
plain_reducer!(Prod<i64>, 1, |a, b| a.wrapping_mul(b), |v, n| integer_power(v, n), None);
plain_reducer!(Prod<f32>, 1.0, |a, b| a * b, |v, n| real_power(v as f64, n) as f32, None);
plain_reducer!(Prod<f64>, 1.0, |a, b| a * b, |v, n| real_power(v, n), None);
plain_reducer!(Max<i64>, i64::MIN, |a, b| a.max(b), |v, _n| v, None);
plain_reducer!(Min<i64>, i64::MAX, |a, b| a.min(b), |v, _n| v, None);
macro_rules! float_extremes {
    ($($t:ident),*) => {$(
        plain_reducer!(Max<$t>, $t::NEG_INFINITY, |a, b| { let b = if a != a { a } else { b }; if a > b { a } else { b } }, |v, _n| v, Some((FEW_ROWS, column_folds::results_of_columns::<Self>)));
        plain_reducer!(Min<$t>, $t::INFINITY, |a, b| { let b = if a != a { a } else { b }; if a < b { a } else { b } }, |v, _n| v, Some((FEW_ROWS, column_folds::results_of_columns::<Self>)));
    )*};
}
float_extremes!(f32, f64);

/// A wrapping power by squaring.
fn integer_power(mut v: i64, mut n: usize) -> i64 {
    let mut power = 1i64;
    while n > 0 {
        if n % 2 == 1 {
            power = power.wrapping_mul(v);
        }
        v = v.wrapping_mul(v);
        n /= 2;
    }
    power
}

/// A power whose sign follows from the count itself, which a float may not hold.
fn real_power(v: f64, n: usize) -> f64 {
    let power = v.abs().powf(n as f64);
    if v.is_sign_negative() && n % 2 == 1 { -power } else { power }
}
