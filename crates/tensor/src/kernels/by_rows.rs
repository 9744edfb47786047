//! Rows of two inputs that a formula is computed over in one call, where each lies in order along its rows or is one number for each.
//!
//! A call for each row costs as much as twenty vectors do, and what the compiler leaves over of a row, up to eleven steps, as much again:
//! here the last vectors of a row reach back to where they are whole.

use super::doors::door;
use super::each;
use super::formula::{Formula, NumFormula};
use super::lane::{Float, Lane, Words};
use super::level::{Level, level};
use super::real::FloatOps;
use crate::dtype::{Block, Element};

/// Where the rows of an input are.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct RowInput<'a> {
    pub(crate) data: Block<'a>,
    /// the place of the first, and how far it is from one to the next
    pub(crate) start: isize,
    pub(crate) step: isize,
    /// how many follow each other so, and how far it is from these to the next ones
    pub(crate) group: (usize, isize),
    /// whether each is one number
    pub(crate) is_number: bool,
}

/// The same of a type that is known.
#[derive(Clone, Copy)]
pub(super) struct RowsOf<'a, T> {
    data: &'a [T],
    start: isize,
    step: isize,
    group: (usize, isize),
    is_number: bool,
}

impl<'a> RowInput<'a> {
    /// The largest number of rows up to this one that are whole groups; that of one group if it is more.
    pub(crate) fn whole_groups(&self, rows: usize) -> usize {
        match self.group.0 {
            usize::MAX => rows,
            group => (rows / group).max(1) * group,
        }
    }

    /// The rows after so many, which are whole groups.
    pub(crate) fn after(self, rows: usize) -> RowInput<'a> {
        let moved = match self.group {
            (usize::MAX, _) => rows as isize * self.step,
            (group, next) => (rows / group) as isize * next,
        };
        RowInput { start: self.start + moved, ..self }
    }

    #[inline]
    pub(super) fn typed<T: Element>(&self) -> RowsOf<'a, T> {
        let data = T::slice(self.data).expect("the plan hands in elements of the kernel's type");
        RowsOf { data, start: self.start, step: self.step, group: self.group, is_number: self.is_number }
    }
}

impl<'a, T> RowsOf<'a, T> {
    #[inline(always)]
    fn row(&self, i: usize, cols: usize) -> &'a [T] {
        let start = (self.start + i as isize * self.step) as usize;
        &self.data[start..start + cols]
    }

    /// Those of a group.
    #[inline(always)]
    fn of_group(self, nr: usize) -> RowsOf<'a, T> {
        RowsOf { start: self.start + nr as isize * self.group.1, ..self }
    }
}

/// Elements that are computed in one piece: a vector of the widest registers, or two.
const PIECE: usize = 16;

/// Elements of a row of which the compiler makes a loop over several vectors.
const SEVERAL: usize = 4 * PIECE;

/// The least length of a row.
pub(crate) const LEAST_ROW: usize = PIECE;

/// A function of two numbers over rows of so many columns.
#[inline(always)]
fn rows_of<T: Copy>(x: [RowsOf<'_, T>; 2], cols: usize, out: &mut [T], f: impl Fn(T, T) -> T + Copy) {
    assert!(cols >= PIECE);
    for (nr, out) in out.chunks_mut(x[0].group.0.saturating_mul(cols)).enumerate() {
        rows_of_group(x.map(|x| x.of_group(nr)), cols, out, f);
    }
}

#[inline(always)]
fn rows_of_group<T: Copy>(
    [a, b]: [RowsOf<'_, T>; 2],
    cols: usize,
    out: &mut [T],
    f: impl Fn(T, T) -> T + Copy,
) {
    for (i, out) in out.chunks_exact_mut(cols).enumerate() {
        if a.is_number {
            let (number, b) = (a.row(i, 1)[0], b.row(i, cols));
            row_of([b, b], out, |v, _| f(number, v));
        } else if b.is_number {
            let (number, a) = (b.row(i, 1)[0], a.row(i, cols));
            row_of([a, a], out, |v, _| f(v, number));
        } else {
            row_of([a.row(i, cols), b.row(i, cols)], out, f);
        }
    }
}

/// A loop over pieces would become one over several of them at once, element by element: so there is none.
#[inline(always)]
fn row_of<T: Copy>([a, b]: [&[T]; 2], out: &mut [T], f: impl Fn(T, T) -> T + Copy) {
    let n = out.len();
    let mut at = n / SEVERAL * SEVERAL;
    for ((o, &a), &b) in out[..at].iter_mut().zip(&a[..at]).zip(&b[..at]) {
        *o = f(a, b);
    }
    if at + 2 * PIECE <= n {
        piece_of::<T, { 2 * PIECE }>([a, b], out, at, f);
        at += 2 * PIECE;
    }
    if at + PIECE <= n {
        piece_of::<T, PIECE>([a, b], out, at, f);
        at += PIECE;
    }
    if at < n {
        piece_of::<T, PIECE>([a, b], out, n - PIECE, f);
    }
}

#[inline(always)]
fn piece_of<T: Copy, const N: usize>(
    [a, b]: [&[T]; 2],
    out: &mut [T],
    at: usize,
    f: impl Fn(T, T) -> T + Copy,
) {
    let (out, a, b) = (&mut out[at..at + N], &a[at..at + N], &b[at..at + N]);
    for k in 0..N {
        out[k] = f(a[k], b[k]);
    }
}

/// A formula of two inputs as a function of two numbers of one kind.
macro_rules! of_two {
    ($f:ident, $number:expr, $start:expr) => {
        |a, b| $f.eval(each($start, |k| if k == 0 { $number(a) } else { $number(b) })).0
    };
}

door! {
    /// Rows of so many columns, of real numbers.
    pub(super) fn rows_float[T: Float, F: Formula<N>, const N: usize][T, F, N](f: &F, x: [RowsOf<'_, T>; 2], cols: usize, out: &mut [T]);
    body rows_float_body
}
#[inline(always)]
fn rows_float_body<const FMA: bool, T: Float, F: Formula<N>, const N: usize>(
    f: &F,
    x: [RowsOf<'_, T>; 2],
    cols: usize,
    out: &mut [T],
) where
    f64: FloatOps<Lane<T, FMA>>,
{
    rows_of(x, cols, out, of_two!(f, Lane::<T, FMA>, Lane(T::of(0.0))));
}

door! {
    /// The same for functions that integers have too, on real numbers.
    pub(super) fn rows_num_float[T: Float, F: NumFormula<N>, const N: usize][T, F, N](f: &F, x: [RowsOf<'_, T>; 2], cols: usize, out: &mut [T]);
    body rows_num_float_body
}
#[inline(always)]
fn rows_num_float_body<const FMA: bool, T: Float, F: NumFormula<N>, const N: usize>(
    f: &F,
    x: [RowsOf<'_, T>; 2],
    cols: usize,
    out: &mut [T],
) {
    rows_of(x, cols, out, of_two!(f, Lane::<T, FMA>, Lane(T::of(0.0))));
}

door! {
    /// The same on integers.
    pub(super) fn rows_num_i64[F: NumFormula<N>, const N: usize][F, N](f: &F, x: [RowsOf<'_, i64>; 2], cols: usize, out: &mut [i64]);
    body rows_num_i64_body
}
#[inline(always)]
fn rows_num_i64_body<const FMA: bool, F: NumFormula<N>, const N: usize>(
    f: &F,
    x: [RowsOf<'_, i64>; 2],
    cols: usize,
    out: &mut [i64],
) {
    rows_of(x, cols, out, of_two!(f, Words, Words(0)));
}
