//! A folding behind a pointer: what a walk needs of a reducer and its loops, so that no walk is compiled for each.

use std::marker::PhantomData;

use super::Reduce;
use super::reducer::{Max, Min, OfColumns, Prod, Reducer, Sum};
use super::wide::{Accumulator, Wide, WideMut};
use crate::dtype::{Block, BlockMut, DType, Element};
use crate::kernels::folds::{self, Table};
use crate::kernels::{column_folds, short_rows};
use crate::task::LANES;

/// A reducer of some element type, in calls that fold a whole table.
pub(crate) trait Folding: Sync {
    /// `n` accumulators of nothing.
    fn start(&self, n: usize) -> Wide;

    /// Folds each row of a table into the accumulator of its own, `step` apart; all into the first if that is 0.
    fn lines(&self, wide: WideMut<'_>, step: usize, table: Table<Block<'_>>, leaf: usize);

    /// Folds each row of a table, which is one leaf, to the result of its own; onto what is there if so.
    fn rows(&self, out: BlockMut<'_>, table: Table<Block<'_>>, onto: bool);

    /// Folds each column of tables of so many rows, which follow each other, into the accumulator of its own, by leaves of so many rows, so
    /// many of them abreast.
    fn columns(&self, wide: WideMut<'_>, tables: Table<Block<'_>>, height: usize, leaf: [usize; 2]);

    /// What writes the results of columns of so many rows without accumulators for all, if anything does.
    fn of_columns(&self, rows: usize) -> Option<OfColumns>;

    /// Merges `len` others, from `start` on, into the first accumulators.
    fn merge(&self, wide: WideMut<'_>, others: &Wide, start: usize, len: usize);

    /// What the accumulators amount to if each element counts `repeats` times; folded onto what is there if so.
    fn finish(&self, wide: &Wide, repeats: usize, out: BlockMut<'_>, onto: bool);
}

/// The folding of this name for elements of this type; booleans are folded as integers.
pub(crate) fn folding(reduce: Reduce, dtype: DType) -> &'static dyn Folding {
    use Reduce::*;
    match (reduce, dtype) {
        (Sum, DType::F32) => &Leveled::<self::Sum<f32>>(PhantomData),
        (Sum, DType::F64) => &Leveled::<self::Sum<f64>>(PhantomData),
        (Max, DType::F32) => &Leveled::<self::Max<f32>>(PhantomData),
        (Min, DType::F32) => &Leveled::<self::Min<f32>>(PhantomData),
        (Max, DType::F64) => &Leveled::<self::Max<f64>>(PhantomData),
        (Min, DType::F64) => &Leveled::<self::Min<f64>>(PhantomData),
        (Prod, DType::F32) => &PlainFolding::<self::Prod<f32>>(PhantomData),
        (Prod, DType::F64) => &PlainFolding::<self::Prod<f64>>(PhantomData),
        (Sum, _) => &PlainFolding::<self::Sum<i64>>(PhantomData),
        (Prod, _) => &PlainFolding::<self::Prod<i64>>(PhantomData),
        (Max, _) => &PlainFolding::<self::Max<i64>>(PhantomData),
        (Min, _) => &PlainFolding::<self::Min<i64>>(PhantomData),
    }
}

/// A reducer whose loops are compiled for each level of the processor.
struct Leveled<R>(PhantomData<R>);

/// A reducer whose loops are compiled once: what is folded with it is seldom large.
struct PlainFolding<R>(PhantomData<R>);

macro_rules! folding {
    ($name:ident, $lines:path, $rows:path, $columns:path, $merge:path) => {
        impl<R: Reducer> Folding for $name<R> {
            fn start(&self, n: usize) -> Wide {
                R::Acc::wide(R::START, n)
            }

            fn lines(&self, wide: WideMut<'_>, step: usize, table: Table<Block<'_>>, leaf: usize) {
                $lines(own::<R>(wide), step, table.typed(), leaf);
            }

            fn rows(&self, out: BlockMut<'_>, table: Table<Block<'_>>, onto: bool) {
                rows::<R>($rows, out, table.typed(), onto);
            }

            fn columns(&self, wide: WideMut<'_>, tables: Table<Block<'_>>, height: usize, leaf: [usize; 2]) {
                $columns(own::<R>(wide), tables.typed(), height, leaf);
            }

            fn of_columns(&self, rows: usize) -> Option<OfColumns> {
                R::OF_COLUMNS.filter(|&(most, _)| rows <= most).map(|(_, write)| write)
            }

            fn merge(&self, wide: WideMut<'_>, others: &Wide, start: usize, len: usize) {
                $merge(&mut own::<R>(wide)[..len], &all::<R>(others)[start..start + len]);
            }

            fn finish(&self, wide: &Wide, repeats: usize, out: BlockMut<'_>, onto: bool) {
                finish::<R>(all::<R>(wide), repeats, out, onto);
            }
        }
    };
}
folding!(
    Leveled,
    folds::fold_lines::<R>,
    short_rows::fold_rows::<R>,
    column_folds::fold_columns::<R>,
    folds::merge_wide::<R>
);
folding!(
    PlainFolding,
    folds::fold_lines_body::<false, R>,
    short_rows::fold_rows_body::<false, R>,
    column_folds::fold_columns_body::<false, R>,
    folds::merge_wide_body::<false, R>
);

fn finish<R: Reducer>(wide: &[R::Acc], repeats: usize, out: BlockMut<'_>, onto: bool) {
    let out = R::T::slice_mut(out).expect("results are of the folding's type");
    for (&acc, out) in wide.iter().zip(out) {
        let v = R::finish(if repeats == 1 { acc } else { R::repeat(acc, repeats) });
        *out = if onto { R::combine(*out, v) } else { v };
    }
}

/// What a leaf amounts to is the leaf itself: nothing is lifted.
fn rows<R: Reducer>(
    fold: impl Fn(&mut [R::T], Table<&[R::T]>),
    out: BlockMut<'_>,
    table: Table<&[R::T]>,
    onto: bool,
) {
    let out = R::T::slice_mut(out).expect("results are of the folding's type");
    if !onto {
        return fold(out, table);
    }
    let mut leaves = [R::IDENTITY; LANES];
    for (nr, out) in out.chunks_mut(LANES).enumerate() {
        let start = table.start + (nr * LANES) as isize * table.step;
        fold(&mut leaves, Table { start, rows: out.len(), ..table });
        for (out, &leaf) in out.iter_mut().zip(&leaves) {
            *out = R::combine(*out, leaf);
        }
    }
}

fn own<R: Reducer>(wide: WideMut<'_>) -> &mut [R::Acc] {
    R::Acc::slice_mut(wide).expect("accumulators are the folding's own")
}

fn all<R: Reducer>(wide: &Wide) -> &[R::Acc] {
    R::Acc::slice(wide).expect("accumulators are the folding's own")
}
