//! Products whose right operand the caller finds himself, strip by strip: convolutions, which gather it.
//!
//! The left operand is laid out in groups, the right one comes in strips of [`Form::span`] columns, laid out or line by
//! line from where it lies ([`Lines`]); see Note [Blocks]. A strip is at most [`DEPTH`] inner positions deep.

use super::block::{MulAdd, Strip, apart};
use super::pack::{pack, pack_groups};
use super::registers::{HIGH, height};
use super::{Matrix, Multiply, Onto, Out, row_major};
use crate::kernels::Ahead;
use crate::kernels::level::{Level, level};

pub(crate) use super::block::{DEPTH, Places};

/// The blocks that a product is computed in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Form {
    /// rows of a group
    pub(super) height: usize,
    /// columns of a strip
    pub(crate) span: usize,
    /// elements that are copied at once, which divide a strip
    pub(crate) run: usize,
    pub(super) level: Level,
}

impl Form {
    /// The blocks of a product of so many rows; `width` numbers fill a register of 64 bytes.
    pub(super) fn new(width: usize, rows: usize, level: Level) -> Form {
        let wide = level == Level::Avx512;
        let height = if wide && rows > height(level) { HIGH } else { height(level) };
        Form { height, span: if wide { 2 * width } else { width }, run: width, level }
    }

    /// Elements between a group of rows and the next, at this depth.
    fn apart(self, depth: usize) -> usize {
        apart(self.height, depth)
    }

    /// Rows of a block.
    pub(crate) fn height(self) -> usize {
        self.height
    }

    /// How many blocks so many rows are.
    pub(crate) fn blocks(self, rows: usize) -> usize {
        rows.div_ceil(self.height)
    }

    /// Elements that so many rows take, at this depth.
    pub(crate) fn room(self, rows: usize, depth: usize) -> usize {
        self.blocks(rows) * self.apart(depth)
    }
}

/// Numbers that such products are made of.
pub(crate) trait Panels: Multiply {
    /// The blocks of a product of so many rows.
    fn form(rows: usize) -> Form;

    /// Lays out columns of the left operand, which is `depth` columns wide, from column `at` on. Columns are laid out
    /// from the first to the last: each call may write some elements beyond its own.
    fn lay_left(
        form: Form,
        a: &Matrix<'_, Self>,
        rows: usize,
        cols: usize,
        out: &mut [Self],
        at: usize,
        depth: usize,
    );

    /// Writes, or adds, the product of the left operand and a strip to columns of `out` from `col` on, whose rows are
    /// `stride` apart.
    fn multiply_strip(
        form: Form,
        left: &[Self],
        strip: Lines<'_, Self>,
        rows: usize,
        depth: usize,
        to: Columns<'_, Self>,
    );

    /// Copies a matrix to `out`, row after row.
    fn lay_rows(a: &Matrix<'_, Self>, rows: usize, cols: usize, out: &mut [Self]);
}

/// The lines of a strip, one for each inner position, as wide as the strip.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lines<'a, T> {
    /// one after another
    Beside(&'a [T]),
    /// each at its place, counted from the first element
    Placed(&'a [T], Places<'a>),
}

/// Where the product with a strip goes.
pub(crate) struct Columns<'a, T> {
    pub(crate) out: &'a mut [T],
    pub(crate) stride: usize,
    pub(crate) col: usize,
    pub(crate) add: bool,
    /// what is asked for meanwhile
    pub(crate) ahead: Option<&'a Ahead>,
}

macro_rules! panels {
    ($t:ty, $width:literal) => {
        impl Panels for $t {
            fn form(rows: usize) -> Form {
                Form::new($width, rows, level())
            }
            fn lay_left(
                form: Form,
                a: &Matrix<'_, $t>,
                rows: usize,
                cols: usize,
                out: &mut [$t],
                at: usize,
                depth: usize,
            ) {
                let out = &mut out[at * form.height..];
                pack_groups(a, rows, cols, out, (form.height, form.apart(depth)));
            }
            fn multiply_strip(
                form: Form,
                left: &[$t],
                strip: Lines<'_, $t>,
                rows: usize,
                depth: usize,
                to: Columns<'_, $t>,
            ) {
                multiply_strip(form, left, strip, rows, depth, to);
            }
            fn lay_rows(a: &Matrix<'_, $t>, rows: usize, cols: usize, out: &mut [$t]) {
                pack(a, rows, cols, out, cols);
            }
        }
    };
}
panels!(f32, 16);
panels!(f64, 8);

fn multiply_strip<T: MulAdd>(
    form: Form,
    left: &[T],
    strip: Lines<'_, T>,
    rows: usize,
    depth: usize,
    to: Columns<'_, T>,
) {
    assert!(rows > 0 && depth > 0 && rows * to.stride <= to.out.len());
    let a = row_major(left, form.height).transposed();
    let (b, places) = match strip {
        Lines::Beside(lines) => (lines, None),
        Lines::Placed(elements, places) => (elements, Some(places)),
    };
    let strip = Strip {
        m: rows,
        depth,
        a,
        grouped: true,
        height: form.height,
        b: row_major(b, form.span),
        places,
        width: form.span,
        b_apart: 0,
        cols: form.span,
        registers: form.span / form.run,
        scale: T::of_count(1),
        level: form.level,
        next: None,
    };
    let onto = if to.add { Onto::Result } else { Onto::Nothing };
    strip.run_with(&mut Out::of(to.out, rows, to.stride), to.col, onto, to.ahead, None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strips_follow_the_definition() {
        let number = |i: usize| ((i * 37 + 5) % 17) as f64 - 8.0;
        for (rows, depth, cols) in [(1, 1, 3usize), (5, 40, 20), (13, 33, 40), (30, DEPTH, 7)] {
            let form = f64::form(rows);
            let data: Vec<f64> = (0..rows * depth).map(number).collect();
            let mut left = vec![0.0; form.room(rows, depth)];
            // In two pieces, as convolutions do.
            let half = depth / 2;
            let a = row_major(&data, depth);
            f64::lay_left(form, &a, rows, half, &mut left, 0, depth);
            f64::lay_left(form, &Matrix { start: half, ..a }, rows, depth - half, &mut left, half, depth);
            let stride = cols.next_multiple_of(form.span);
            let b = |p: usize, c: usize| number(p * 7 + c * 3);
            let mut out = vec![3.0; rows * stride];
            for col in (0..stride).step_by(form.span) {
                let strip: Vec<f64> =
                    (0..depth * form.span).map(|i| b(i / form.span, col + i % form.span)).collect();
                let to = Columns { out: &mut out, stride, col, add: col > 0, ahead: None };
                f64::multiply_strip(form, &left, Lines::Beside(&strip), rows, depth, to);
            }
            // The same lines from the last to the first, and found by their places.
            let mut again = vec![3.0; rows * stride];
            let places: Vec<usize> = (0..depth).rev().map(|p| p * form.span).collect();
            for col in (0..stride).step_by(form.span) {
                let line = |i: usize| b(depth - 1 - i / form.span, col + i % form.span);
                let strip: Vec<f64> = (0..depth * form.span).map(line).collect();
                let to = Columns { out: &mut again, stride, col, add: col > 0, ahead: None };
                let lines = Lines::Placed(&strip, Places::new(&places));
                f64::multiply_strip(form, &left, lines, rows, depth, to);
            }
            assert_eq!(out, again);
            for (i, o) in out.iter().enumerate() {
                let (r, c) = (i / stride, i % stride);
                let sum: f64 = (0..depth).map(|p| data[r * depth + p] * b(p, c)).sum();
                assert_eq!(*o, sum + if c < form.span { 0.0 } else { 3.0 }, "{rows} x {depth} at {r}, {c}");
            }
        }
    }
}
