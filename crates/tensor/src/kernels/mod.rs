//! Kernels: plain loops over contiguous typed blocks, compiled once per instruction-set level.

mod ahead;
pub(crate) mod attention;
mod by_rows;
mod cache;
mod calls;
pub(crate) mod column_folds;
pub(crate) mod conv;
pub(crate) mod doors;
mod dual;
mod elementary;
pub(crate) mod folds;
mod formula;
mod giving;
mod gradients;
mod lane;
pub(crate) mod lay_out;
mod level;
mod matmul;
mod near;
pub(crate) mod norm;
mod order;
mod outer;
mod past_caches;
pub(crate) mod planes;
mod real;
mod remainder;
mod row_sums;
mod scan;
mod scatter;
mod scattered;
pub(crate) mod short_rows;
mod simple;
pub(crate) mod softmax;
mod sums;
mod tagged;
mod transpose;

pub(crate) use ahead::{Ahead, LINE};
pub(crate) use by_rows::LEAST_ROW;
pub use by_rows::RowInput;
#[cfg(test)]
pub(crate) use cache::pretend_cache;
pub use cache::stays_in_cache;
pub(crate) use cache::{last_level_cache, most_in_cache};
pub use calls::{CallSet, Called, Calls, KnownInputs, MOST_CALLS};
pub use dual::{Dual, slope};
pub(crate) use elementary::elementary;
pub(crate) use formula::{Compare, CompareKernel, NumFormula, NumKernel, typed};
pub use formula::{FloatKernel, Formula, Update, UpdateKernel};
pub use giving::GivingKernel;
pub use gradients::GradientKernel;
pub use lane::Lane;
pub use level::{Level, detected_level, force_level, level};
pub(crate) use matmul::{BatchAxis, Matrix, Multiply, Onto, Product, row_major};
pub(crate) use order::{Wanted, order};
pub use outer::Outer;
pub(crate) use past_caches::Stream;
pub use real::{FloatOps, Num, Real};
pub(crate) use remainder::Remainder;
pub(crate) use row_sums::{RowOutput, RowSums};
pub(crate) use scan::scan;
pub(crate) use scatter::{
    Accumulate, Pieces, add_rows, interleave, outside_or_negative, put_rows, scatter, sum_rows, take_rows,
};
pub(crate) use scattered::Scattered;
pub(crate) use simple::{
    BitKernel, CopysignKernel, IntPowKernel, LogicKernel, NotKernel, NumberKind, UnaryLogicKernel,
    WhereKernel,
};
pub use softmax::RowFormula;
pub use sums::SumOfRows;
pub(crate) use sums::are_added;

use crate::dtype::{Block, BlockMut, DType};

/// `[f(0), f(1), ...]`, as a plain loop over an array that held `start` before: `array::from_fn` is five functions to
/// compile for each formula and level, an iterator three.
#[inline(always)]
pub(crate) fn each<T: Copy, const N: usize>(start: T, f: impl Fn(usize) -> T) -> [T; N] {
    let mut all = [start; N];
    let mut k = 0;
    while k < N {
        all[k] = f(k);
        k += 1;
    }
    all
}

/// Calls a loop over rows or pieces of `n` elements that knows how many they are where it is one of some small numbers; else it is
/// told 0.
macro_rules! by_length {
    ($n:expr, [$($known:literal)*], $loop:ident::<$t:ty> $arguments:tt) => {
        match $n {
            $($known => $loop::<$t, $known> $arguments,)*
            _ => $loop::<$t, 0> $arguments,
        }
    };
    ($n:expr, [$($known:literal)*], $loop:ident::<$t:ty, $constant:ident> $arguments:tt) => {
        match $n {
            $($known => $loop::<$t, $constant, $known> $arguments,)*
            _ => $loop::<$t, $constant, 0> $arguments,
        }
    };
}
use by_length;

/// A loop over blocks. Inputs and outputs of one call all have the same length, but for numbers that a kernel takes.
///
/// The iterator hands in blocks of the types that the plan promised; whatever the operands looked like (strides,
/// broadcasting, other element types) has been dealt with before.
pub trait BlockKernel: Send + Sync {
    /// Computes the output blocks from the input blocks, element by element.
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]);

    /// How many inputs it reads and how many outputs it writes, if it knows: other numbers are then refused.
    fn arity(&self) -> Option<(usize, usize)> {
        None
    }

    /// Whether either of its two inputs may be a single element where the other has more: a number that repeats, for which nothing is
    /// laid out then.
    #[doc(hidden)]
    fn takes_a_number(&self) -> bool {
        false
    }

    /// Whether it computes rows of two inputs by [`run_rows`](Self::run_rows).
    #[doc(hidden)]
    fn takes_rows(&self) -> bool {
        false
    }

    /// Computes rows of so many columns, one after another: of no fewer than `LEAST_ROW`.
    #[doc(hidden)]
    fn run_rows(&self, inputs: [RowInput<'_>; 2], cols: usize, out: BlockMut<'_>) {
        let _ = (inputs, cols, out);
        unreachable!("a kernel says beforehand whether it takes rows");
    }

    /// Whether any of its inputs may be a single element where its outputs are so many elements of this type.
    #[doc(hidden)]
    fn takes_numbers(&self, dtype: DType, n: usize) -> bool {
        let _ = (dtype, n);
        false
    }

    /// Whether its results can be added, and those of other outputs stored meanwhile, by [`sum_rows`](Self::sum_rows).
    #[doc(hidden)]
    fn sums(&self) -> bool {
        false
    }

    /// Adds the results of some rows without storing them, or stores them.
    #[doc(hidden)]
    fn sum_rows(&self, rows: SumOfRows<'_>) {
        let _ = rows;
        unreachable!("a kernel says beforehand whether it adds its results");
    }
}
