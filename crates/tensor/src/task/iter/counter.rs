//! The counter: goes through a range of the iteration space in steps over its two innermost axes.

use super::plan::{PlanAxis, Steps};
use crate::shape::Dims;

/// One step: `rows` times `cols` elements, the columns along the innermost axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
}

/// A position in the space of some axes that moves from `at` to `end` in row-major order.
pub(crate) struct Counter<'a> {
    axes: &'a [PlanAxis],
    index: Dims<usize>,
    /// how far each operand is from its start
    pub(crate) offsets: Steps,
    pub(crate) at: usize,
    end: usize,
}

impl<'a> Counter<'a> {
    /// A counter over the elements `at .. end` of the space of `axes`.
    pub(crate) fn new(axes: &'a [PlanAxis], operands: usize, at: usize, end: usize) -> Counter<'a> {
        let mut index: Dims<usize> = Dims::from_elem(0, axes.len());
        let mut offsets: Steps = Dims::from_elem(0, operands);
        let mut rest = at;
        for (i, axis) in axes.iter().enumerate().rev() {
            if rest == 0 {
                break;
            }
            index[i] = rest % axis.size;
            rest /= axis.size;
            for (o, s) in offsets.iter_mut().zip(&axis.steps) {
                *o += index[i] as isize * s;
            }
        }
        Counter { axes, index, offsets, at, end }
    }

    /// The largest step from here with at most `max_cols` columns, and, where whole rows fit, at most `max_block`
    /// elements; `None` at the end.
    pub(crate) fn step(&self, max_cols: usize, max_block: usize) -> Option<Step> {
        let left = self.end - self.at;
        if left == 0 {
            return None;
        }
        let Some(inner) = self.axes.last() else { return Some(Step { rows: 1, cols: 1 }) };
        let k = self.axes.len() - 1;
        let cols = (inner.size - self.index[k]).min(left);
        if k > 0 && cols == inner.size && cols * 2 <= max_block {
            let rows_left = self.axes[k - 1].size - self.index[k - 1];
            let rows = (max_block / cols).min(left / cols).min(rows_left);
            return Some(Step { rows, cols });
        }
        Some(Step { rows: 1, cols: cols.min(max_cols) })
    }

    /// Moves past a step.
    pub(crate) fn advance(&mut self, step: Step) {
        self.at += step.rows * step.cols;
        let Some(k) = self.axes.len().checked_sub(1) else { return };
        let (mut axis, mut by) = if step.rows > 1 { (k - 1, step.rows) } else { (k, step.cols) };
        loop {
            self.index[axis] += by;
            for (o, s) in self.offsets.iter_mut().zip(&self.axes[axis].steps) {
                *o += by as isize * s;
            }
            if self.index[axis] < self.axes[axis].size || axis == 0 {
                return;
            }
            for (o, s) in self.offsets.iter_mut().zip(&self.axes[axis].steps) {
                *o -= self.axes[axis].size as isize * s;
            }
            self.index[axis] = 0;
            axis -= 1;
            by = 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(sizes: &[usize], strides: &[isize]) -> Vec<PlanAxis> {
        let axis = |(&size, &s)| PlanAxis { size, steps: Dims::from_slice(&[s]) };
        sizes.iter().zip(strides).map(axis).collect()
    }

    /// Every element's offset, in the order visited.
    fn visit(axes: &[PlanAxis], from: usize, to: usize, max_cols: usize, max_block: usize) -> Vec<isize> {
        let mut counter = Counter::new(axes, 1, from, to);
        let mut seen = Vec::new();
        while let Some(step) = counter.step(max_cols, max_block) {
            let inner = axes.last().map_or(0, |a| a.steps[0]);
            let outer = if axes.len() > 1 { axes[axes.len() - 2].steps[0] } else { 0 };
            for r in 0..step.rows {
                for c in 0..step.cols {
                    seen.push(counter.offsets[0] + r as isize * outer + c as isize * inner);
                }
            }
            counter.advance(step);
        }
        seen
    }

    #[test]
    fn two_axis_steps_visit_everything_in_order() {
        let a = axes(&[3, 4, 5], &[100, 10, 1]);
        let all: Vec<isize> = (0..3)
            .flat_map(|i| (0..4).flat_map(move |j| (0..5).map(move |k| i * 100 + j * 10 + k)))
            .collect();
        for (from, to) in [(0, 60), (7, 60), (0, 53), (13, 29), (20, 20)] {
            for block in [1, 10, 15, 1000] {
                for cols in [2, 1000] {
                    assert_eq!(
                        visit(&a, from, to, cols, block),
                        all[from..to],
                        "{from}..{to} block {block} cols {cols}"
                    );
                }
            }
        }
    }

    #[test]
    fn whole_rows_make_one_step() {
        let a = axes(&[4, 5], &[5, 1]);
        assert_eq!(Counter::new(&a, 1, 0, 20).step(1000, 1000), Some(Step { rows: 4, cols: 5 }));
        assert_eq!(Counter::new(&a, 1, 2, 20).step(1000, 1000), Some(Step { rows: 1, cols: 3 }));
        assert_eq!(Counter::new(&a, 1, 5, 18).step(1000, 1000), Some(Step { rows: 2, cols: 5 }));
    }

    #[test]
    fn no_axes_is_one_element() {
        assert_eq!(visit(&[], 0, 1, 8, 8), [0]);
    }
}
