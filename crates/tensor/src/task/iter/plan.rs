//! The plan: a stride per operand and axis, with axes dropped, merged and set aside.

use smallvec::SmallVec;

use super::Operand;
use crate::shape::Dims;

/// Strides of every operand on one axis.
pub(crate) type Steps = Dims<isize>;

/// One axis of the iteration space after planning.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlanAxis {
    pub(crate) size: usize,
    /// how far each operand moves along it, in elements
    pub(crate) steps: Steps,
}

/// How to go through the iteration space.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// outermost first, in the order of the shape
    pub(crate) axes: SmallVec<[PlanAxis; 4]>,
    /// per axis of the original shape, whether it was set aside because no operand moves along it
    pub(crate) still: Dims<bool>,
}

/// The stride of an operand on axis `i` of a larger shape: 0 where it broadcasts.
#[inline]
pub(super) fn broadcast_stride(op: &Operand<'_>, i: usize, rank: usize) -> isize {
    match (i + op.shape.len()).checked_sub(rank) {
        Some(own) if op.shape[own] != 1 => op.stride(own),
        _ => 0,
    }
}

impl Plan {
    /// Plans a walk of `shape` (which every operand broadcasts to). With `set_aside`, axes along which no operand moves
    /// are not walked.
    pub(crate) fn new(shape: &[usize], operands: &[Operand<'_>], set_aside: bool) -> Plan {
        let mut plan = Plan { axes: SmallVec::new(), still: Dims::from_elem(false, shape.len()) };
        for (i, &size) in shape.iter().enumerate() {
            if size == 1 {
                continue;
            }
            let steps: Steps = operands.iter().map(|o| broadcast_stride(o, i, shape.len())).collect();
            if set_aside && steps.iter().all(|&s| s == 0) {
                plan.still[i] = true;
                continue;
            }
            plan.push(PlanAxis { size, steps });
        }
        plan
    }

    /// Axes as few as they can be.
    pub(super) fn merged(axes: &[PlanAxis]) -> SmallVec<[PlanAxis; 4]> {
        let mut plan = Plan { axes: SmallVec::new(), still: Dims::new() };
        axes.iter().for_each(|axis| plan.push(axis.clone()));
        plan.axes
    }

    /// Adds an inner axis, merging it into its neighbour where every operand steps over both alike.
    pub(super) fn push(&mut self, axis: PlanAxis) {
        match self.axes.last_mut() {
            Some(outer) if outer.is_one_with(&axis) => {
                outer.size *= axis.size;
                outer.steps = axis.steps;
            }
            _ => self.axes.push(axis),
        }
    }
}

impl PlanAxis {
    /// Whether everything steps over this axis and an inner one as if they were one.
    #[inline]
    pub(super) fn is_one_with(&self, inner: &PlanAxis) -> bool {
        self.steps.iter().zip(&inner.steps).all(|(&o, &i)| o == i * inner.size as isize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Tensor};

    fn plan(shape: &[usize], tensors: &[&Tensor]) -> Plan {
        let operands: Vec<Operand<'_>> = tensors.iter().map(|t| Operand::new(t, DType::F32)).collect();
        Plan::new(shape, &operands, true)
    }

    #[test]
    fn contiguous_operands_coalesce_to_one_axis() {
        let a = Tensor::zeros([2, 3, 4]);
        let p = plan(&[2, 3, 4], &[&a, &a]);
        assert_eq!(p.axes.len(), 1);
        assert_eq!(p.axes[0].size, 24);
        assert_eq!(&p.axes[0].steps[..], &[1, 1]);
    }

    #[test]
    fn a_broadcast_row_keeps_two_axes() {
        let a = Tensor::zeros([2, 3, 4]);
        let b = Tensor::zeros([4]);
        let p = plan(&[2, 3, 4], &[&a, &b]);
        assert_eq!(p.axes.len(), 2);
        assert_eq!((p.axes[0].size, &p.axes[0].steps[..]), (6, &[4, 0][..]));
        assert_eq!((p.axes[1].size, &p.axes[1].steps[..]), (4, &[1, 1][..]));
    }

    #[test]
    fn size_one_axes_are_dropped() {
        let a = Tensor::zeros([1, 3, 1, 2]);
        assert_eq!(plan(&[1, 3, 1, 2], &[&a]).axes.len(), 1);
    }

    #[test]
    fn axes_that_nobody_moves_along_are_set_aside() {
        let a = Tensor::zeros([3, 1]).expand([3, 5]).unwrap();
        let p = plan(&[3, 5], &[&a]);
        assert_eq!(&p.still[..], &[false, true]);
        assert_eq!(p.axes.len(), 1);
    }
}
