//! The doors of a fold: whole blocks of rows, which may lie apart, folded into wide accumulators in one call.

use super::lane::fold_lanes;
use super::level::{Level, level};
use super::short_rows::{fold_rows, fold_rows_body};
use crate::dtype::{Block, DType, Element};
use crate::task::{LANES, Reducer};

/// A table of elements: rows of `cols` contiguous elements, `step` from one row to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table<D> {
    pub(crate) data: D,
    pub(crate) start: isize,
    pub(crate) rows: usize,
    pub(crate) step: isize,
    pub(crate) cols: usize,
}

impl<'a> Table<Block<'a>> {
    /// The same with the elements of this type.
    #[inline]
    pub(crate) fn typed<T: Element>(&self) -> Table<&'a [T]> {
        let data = T::slice(self.data).expect("elements are of the loop's type");
        Table { data, start: self.start, rows: self.rows, step: self.step, cols: self.cols }
    }
}

impl<D> Table<D> {
    /// Whether the rows follow each other without a gap.
    #[inline(always)]
    pub(crate) fn is_run(&self) -> bool {
        self.rows == 1 || self.step == self.cols as isize
    }
}

impl<'a, T> Table<&'a [T]> {
    #[inline(always)]
    pub(crate) fn row(&self, i: usize) -> &'a [T] {
        let start = (self.start + i as isize * self.step) as usize;
        &self.data[start..start + self.cols]
    }

    /// So many elements from row `i` on: those of one row, or of several where these are a run, or repeat each other in the data.
    #[inline(always)]
    pub(super) fn lines(&self, i: usize, n: usize) -> &'a [T] {
        &self.data[(self.start + i as isize * self.step) as usize..][..n]
    }

    /// All elements of a run.
    #[inline(always)]
    pub(super) fn run(&self) -> &'a [T] {
        &self.data[self.start as usize..][..self.rows * self.cols]
    }
}

super::doors::door! {
    /// Folds each row of a table into the accumulator of its own, `step` apart, by leaves of so many elements. If that
    /// is 0, all into the first; if leaves are longer than rows then, the table is a run.
    pub(crate) fn fold_lines[R: Reducer][R](wide: &mut [R::Acc], step: usize, table: Table<&[R::T]>, leaf: usize);
    body fold_lines_body narrow
}
#[inline(always)]
pub(crate) fn fold_lines_body<const FMA: bool, R: Reducer>(
    wide: &mut [R::Acc],
    step: usize,
    mut table: Table<&[R::T]>,
    leaf: usize,
) {
    if step == 0 && leaf > table.cols {
        debug_assert!(table.is_run());
        (table.cols, table.rows) = (table.cols * table.rows, 1);
    }
    if step != 0 && table.cols <= leaf {
        let mut leaves = [R::IDENTITY; LANES];
        for top in (0..table.rows).step_by(LANES) {
            let rows = LANES.min(table.rows - top);
            let start = table.start + top as isize * table.step;
            let some = Table { start, rows, ..table };
            if FMA {
                fold_rows::<R>(&mut leaves, some)
            } else {
                fold_rows_body::<FMA, R>(&mut leaves, some)
            }
            for (k, &leaf) in leaves[..rows].iter().enumerate() {
                let acc = &mut wide[(top + k) * step];
                *acc = R::merge(*acc, R::lift(leaf));
            }
        }
        return;
    }
    for i in 0..table.rows {
        let mut acc = wide[i * step];
        for run in table.row(i).chunks(leaf) {
            acc = R::merge(acc, R::lift(fold_run(run, R::IDENTITY, R::combine)));
        }
        wide[i * step] = acc;
    }
}

/// Elements that no line of the cache divides: sums over rows of 256 take more than twice as long where the stack lies otherwise.
#[repr(align(64))]
pub(super) struct Aligned<T>(pub(super) T);

/// Lanes that are left before the tree.
pub(super) const FEW_LANES: usize = LANES / 4;

/// Folds a contiguous run into one element: lanes first, then a tree over the lanes.
#[inline(always)]
pub(super) fn fold_run<T: Element>(x: &[T], identity: T, combine: impl Fn(T, T) -> T + Copy) -> T {
    fold_run_of(x, |v| v, identity, combine)
}

/// Folds something of each element of a run, of a few instructions, as they are written out several times.
#[inline(always)]
pub(super) fn fold_run_of<T: Element>(
    x: &[T],
    of: impl Fn(T) -> T + Copy,
    identity: T,
    combine: impl Fn(T, T) -> T + Copy,
) -> T {
    // Integers are folded alike in any order, by a loop that the compiler divides.
    if x.len() < FEW_LANES || T::DTYPE == DType::I64 {
        return x.iter().fold(identity, |a, &v| combine(a, of(v)));
    }
    fold_last(last_lanes(x, of, identity, combine), combine)
}

/// Elements of a run from which on all lanes are filled before they are folded.
pub(super) const MEDIUM: usize = 4 * LANES;

/// The last four lanes of a run that is no shorter than there are lanes.
#[inline(always)]
fn last_lanes<T: Element>(
    x: &[T],
    of: impl Fn(T) -> T + Copy,
    identity: T,
    combine: impl Fn(T, T) -> T + Copy,
) -> [T; 4] {
    let (blocks, rest) = if x.len() < MEDIUM { (&[][..], x) } else { x.as_chunks::<LANES>() };
    let mut lanes = Aligned([identity; FEW_LANES]);
    let lanes = &mut lanes.0;
    if !blocks.is_empty() {
        *lanes = fold_blocks(blocks, of, identity, combine);
    }
    let (fours, rest) = rest.as_chunks::<LANES>();
    for c in fours {
        let c: [T; FEW_LANES] = quarter(c, of, combine);
        for k in 0..FEW_LANES {
            lanes[k] = combine(lanes[k], c[k]);
        }
    }
    lanes_of_rest(lanes, rest, of, combine)
}

/// Folds what is left behind whole blocks of lanes, and the lanes.
#[inline(always)]
pub(super) fn fold_rest<T: Element>(
    lanes: &mut [T; FEW_LANES],
    rest: &[T],
    of: impl Fn(T) -> T + Copy,
    combine: impl Fn(T, T) -> T + Copy,
) -> T {
    fold_last(lanes_of_rest(lanes, rest, of, combine), combine)
}

/// Folds the last lanes: hidden from the compiler, which would else take all lanes in pairs to suit the tree's root, a quarter of a row of 64; and
/// those of either half by themselves, as it would compare two pairs at once, for lack of a smaller vector, and jump to choose the larger of each.
#[inline(always)]
fn fold_last<T: Copy>(lanes: [T; 4], combine: impl Fn(T, T) -> T + Copy) -> T {
    let ([a, _, c, _], [_, b, _, d]) = (std::hint::black_box(lanes), std::hint::black_box(lanes));
    combine(combine(a, c), combine(b, d))
}

#[inline(always)]
fn lanes_of_rest<T: Element>(
    lanes: &mut [T; FEW_LANES],
    rest: &[T],
    of: impl Fn(T) -> T + Copy,
    combine: impl Fn(T, T) -> T + Copy,
) -> [T; 4] {
    let (ones, mut rest) = rest.as_chunks::<FEW_LANES>();
    for c in ones {
        fold_into(lanes, c, of, combine);
    }
    fold_piece::<T, 8>(lanes, &mut rest, of, combine);
    fold_piece::<T, 4>(lanes, &mut rest, of, combine);
    fold_piece::<T, 2>(lanes, &mut rest, of, combine);
    fold_piece::<T, 1>(lanes, &mut rest, of, combine);
    quarter(lanes, |v| v, combine)
}

/// Folds blocks of lanes, a quarter of which are left.
#[inline(always)]
fn fold_blocks<T: Element>(
    blocks: &[[T; LANES]],
    of: impl Fn(T) -> T + Copy,
    identity: T,
    combine: impl Fn(T, T) -> T + Copy,
) -> [T; FEW_LANES] {
    let ([a, b, c, d], _) = fill_lanes::<T, 4>(blocks.as_flattened(), LANES, of, identity, combine);
    let mut few = Aligned([identity; FEW_LANES]);
    for k in 0..FEW_LANES {
        few.0[k] = fold_lanes([a[k], b[k], c[k], d[k]], combine);
    }
    // Hidden as the lanes before the last tree are.
    std::hint::black_box(few).0
}

/// Folds something of each element of blocks that begin `step` apart into lanes, of which `B` quarters are filled, as long as there are
/// whole blocks. Gives the lanes, and where the next block would begin.
///
/// Memory is read from front to back: to a processor that reads ahead, four lines that lie apart are no stream (16 MB in the
/// last-level cache take up to twice as long, f64 beyond huge pages six times). The lanes are four arrays of a few, which the
/// compiler keeps in registers: from memory each block waits for the lanes that the one before has stored.
#[inline(always)]
pub(super) fn fill_lanes<T: Element, const B: usize>(
    x: &[T],
    step: usize,
    of: impl Fn(T) -> T + Copy,
    identity: T,
    combine: impl Fn(T, T) -> T + Copy,
) -> ([[T; FEW_LANES]; 4], usize) {
    const { assert!(B == 3 || B == 4) }
    let mut all = [[identity; FEW_LANES]; 4];
    let [a, b, c, d] = &mut all;
    let mut at = 0;
    while let Some(block) = x.get(at..at + B * FEW_LANES) {
        let (x, _) = block.as_chunks::<FEW_LANES>();
        fold_into(a, &x[0], of, combine);
        fold_into(b, &x[1], of, combine);
        fold_into(c, &x[2], of, combine);
        if B == 4 {
            fold_into(d, &x[B - 1], of, combine);
        }
        at += step;
    }
    (all, at)
}

/// Folds something of each of a few elements into the lane of its own.
#[inline(always)]
pub(super) fn fold_into<T: Copy, const N: usize>(
    lanes: &mut [T; FEW_LANES],
    x: &[T; N],
    of: impl Fn(T) -> T + Copy,
    combine: impl Fn(T, T) -> T + Copy,
) {
    for k in 0..N {
        lanes[k] = combine(lanes[k], of(x[k]));
    }
}

/// Something of each lane, folded into a quarter of them.
#[inline(always)]
pub(super) fn quarter<T: Copy, const N: usize, const M: usize>(
    x: &[T; N],
    of: impl Fn(T) -> T + Copy,
    combine: impl Fn(T, T) -> T + Copy,
) -> [T; M] {
    const { assert!(N == 4 * M) }
    let mut few = [x[0]; M];
    for k in 0..M {
        few[k] = fold_lanes([of(x[k]), of(x[k + M]), of(x[k + 2 * M]), of(x[k + 3 * M])], combine);
    }
    few
}

/// Folds something of the next `N` elements into the first lanes, if there are as many.
#[inline(always)]
fn fold_piece<T: Copy, const N: usize>(
    lanes: &mut [T; FEW_LANES],
    rest: &mut &[T],
    of: impl Fn(T) -> T + Copy,
    combine: impl Fn(T, T) -> T + Copy,
) {
    if let Some((piece, others)) = rest.split_first_chunk::<N>() {
        fold_into(lanes, piece, of, combine);
        *rest = others;
    }
}

super::doors::door! {
    /// Merges the accumulators of one part into those of the whole.
    pub(crate) fn merge_wide[R: Reducer][R](wide: &mut [R::Acc], part: &[R::Acc]);
    body merge_wide_body
}
#[inline(always)]
pub(crate) fn merge_wide_body<const FMA: bool, R: Reducer>(wide: &mut [R::Acc], part: &[R::Acc]) {
    for (w, &p) in wide.iter_mut().zip(part) {
        *w = R::merge(*w, p);
    }
}
