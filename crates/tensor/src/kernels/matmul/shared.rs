//! Large products, for which threads share what they lay out: each operand once, not once per tile.
//!
//! Note [Shared products]
//! The right operand is laid out in strips (Note [Blocks]), a panel of columns and [`DEPTH`] inner positions at a time, by all
//! threads together; it stays in the second-level caches. Then each thread takes some rows of the left operand, lays them
//! out, and multiplies a group of them, which stays in the first-level cache, with one strip after another: so the result
//! is written along its rows. For the next panel the rows are there already. The order of the additions is that of tiles,
//! and so are the bits.

use super::block::{DEPTH, LARGE, MulAdd, Strip, apart};
use super::pack::{pack, pack_groups};
use super::panels::Form;
use super::registers::POINTERS;
use super::{Matrix, Onto, Out, Product, row_major};
use crate::buffer::Room;
use crate::threads::{num_threads, split_work};

/// Columns of a panel at most: half a mebibyte of `f32`.
const PANEL: usize = 512;

/// Rows that stay laid out for the next panel at most.
const BAND: usize = 4096;

/// Rows that a thread takes at a time: whole groups of them.
const ROWS: usize = 24;

/// Multiplications with a panel, per thread, that are worth bringing threads together for twice.
const PANEL_WORK: usize = 1 << 25;

/// Elements of the right operand that a thread lays out at a time.
const LAID: usize = 32_768;

/// Whether a product is so large that sharing pays.
pub(super) fn is_shared(m: usize, n: usize, k: usize) -> bool {
    let work = m.saturating_mul(n.min(PANEL) * k.min(DEPTH));
    work >= PANEL_WORK.saturating_mul(num_threads()) && n >= PANEL / 2 && k >= LARGE.1
}

/// Computes a product into `out`.
pub(super) fn shared<T: MulAdd>(p: &Product<'_, T>, form: Form, out: &mut [T], onto: Onto<'_, T>) {
    let (rows, cols) = (even(p.m, BAND, ROWS), even(p.n, PANEL, form.span));
    let deepest = p.k.min(DEPTH);
    let mut panel: Room<T> = Room::new(cols / form.span * apart(form.span, deepest));
    let mut groups: Room<T> = Room::new(rows / form.height * apart(form.height, deepest));
    let whole = Out::of(out, p.m, p.n);
    let grouped = form.height > POINTERS || p.a.row_step == 1;
    for top in (0..p.m).step_by(rows) {
        for from in (0..p.k).step_by(DEPTH) {
            for left in (0..p.n).step_by(cols) {
                let (high, wide) = ((p.m - top).min(rows), (p.n - left).min(cols));
                let layout = PanelLayout { wide, depth: (p.k - from).min(DEPTH), form, grouped };
                layout.lay_right(&p.b.moved(0, from, left), panel.as_mut_slice());
                let panel = panel.as_slice();
                let (tasks, size) = (high.div_ceil(ROWS), ROWS / form.height * layout.group_step());
                let groups = &mut groups.as_mut_slice()[..tasks * size];
                split_work(tasks, 1, groups, &|g, at| g.split_at_mut(at * size), &|first, _, groups| {
                    for (task, groups) in (first..).zip(groups.chunks_exact_mut(size)) {
                        let row = top + task * ROWS;
                        let live = (top + high - row).min(ROWS);
                        if left == 0 {
                            layout.lay_left(&p.a.moved(0, row, from), live, groups);
                        }
                        // SAFETY: every task is handed out once, and has rows that no other task has.
                        let mut out = unsafe { whole.part(row, left, live, wide) };
                        let onto = if from > 0 { Onto::Result } else { onto.at_column(left) };
                        layout.multiply(groups, panel, p.scale, &mut out, onto);
                    }
                });
            }
        }
    }
}

/// The size of like parts of at most `most` each, in whole multiples of a step.
fn even(n: usize, most: usize, step: usize) -> usize {
    n.div_ceil(n.div_ceil(most)).next_multiple_of(step)
}

/// Some columns and inner positions of the right operand.
struct PanelLayout {
    wide: usize,
    depth: usize,
    form: Form,
    /// whether the rows of a group are laid out column by column
    grouped: bool,
}

impl PanelLayout {
    /// Elements from one strip to the next.
    fn strip_step(&self) -> usize {
        apart(self.form.span, self.depth)
    }

    /// Elements from one group of rows to the next.
    fn group_step(&self) -> usize {
        apart(self.form.height, self.depth)
    }

    /// Elements from one row of a group to the next, where each is copied: not a power of two either.
    fn row_step(&self) -> usize {
        self.group_step() / self.form.height
    }

    /// Lays out some rows of the left operand, group by group.
    fn lay_left<T: MulAdd>(&self, a: &Matrix<'_, T>, rows: usize, groups: &mut [T]) {
        let (height, step) = (self.form.height, self.group_step());
        if self.grouped {
            return pack_groups(a, rows, self.depth, groups, (height, step));
        }
        for (row, group) in (0..rows).step_by(height).zip(groups.chunks_mut(step)) {
            pack(&a.moved(0, row, 0), (rows - row).min(height), self.depth, group, self.row_step());
        }
    }

    /// Lays out the right operand in strips, by all threads.
    fn lay_right<T: MulAdd>(&self, b: &Matrix<'_, T>, panel: &mut [T]) {
        let (span, step) = (self.form.span, self.strip_step());
        let strips = self.wide.div_ceil(span);
        let panel = &mut panel[..strips * step];
        split_work(
            strips,
            LAID.div_ceil(step),
            panel,
            &|p, at| p.split_at_mut(at * step),
            &|first, count, p| {
                let b = b.moved(0, 0, first * span);
                let wide = (self.wide - first * span).min(count * span);
                if b.col_step == 1 {
                    return pack_groups(&b.transposed(), wide, self.depth, p, (span, step));
                }
                for (col, strip) in (0..wide).step_by(span).zip(p.chunks_exact_mut(step)) {
                    pack(&b.moved(0, 0, col), self.depth, (wide - col).min(span), strip, span);
                }
            },
        );
    }

    /// Multiplies groups of rows, as many as `out` has, with all strips.
    fn multiply<T: MulAdd>(
        &self,
        groups: &[T],
        panel: &[T],
        scale: T,
        out: &mut Out<'_, T>,
        onto: Onto<'_, T>,
    ) {
        let Form { height, span, run, level } = self.form;
        let a = match self.grouped {
            true => row_major(groups, height).transposed(),
            false => row_major(groups, self.row_step()),
        };
        assert!(groups.len() >= out.rows.div_ceil(height) * self.group_step(), "groups are whole");
        for (group, row) in (0..out.rows).step_by(height).enumerate() {
            let a = a.moved((group * self.group_step()) as isize, 0, 0);
            // SAFETY: the only rectangle that is in use.
            let mut out = unsafe { out.part(row, 0, height.min(out.rows - row), self.wide) };
            for (strip, col) in (0..self.wide).step_by(span).enumerate() {
                let wide = (self.wide - col).min(span);
                let registers = wide.div_ceil(run);
                let width = registers * run;
                let b = Matrix { start: strip * self.strip_step(), ..row_major(panel, span) };
                let (m, depth) = (out.rows, self.depth);
                let (places, next) = (None, None);
                let grouped = self.grouped;
                let strip = Strip {
                    m,
                    depth,
                    a,
                    grouped,
                    height,
                    b,
                    places,
                    width,
                    b_apart: 0,
                    cols: wide,
                    registers,
                    scale,
                    level,
                    next,
                };
                strip.run(&mut out, col, onto);
            }
        }
    }
}
