//! A leading axis: what a row names, where a gradient or a tangent has one axis more in front of its own.

use foldback_tensor::{Axes, Axis, Indices, Shape, SliceItem, Slices};

use crate::error::Result;

/// How many gradients or tangents stand along a leading axis; none where there is no such axis, and all stays as it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lead(pub(crate) Option<usize>);

impl Lead {
    /// A shape behind the leading axis.
    pub(crate) fn shape(self, shape: &Shape) -> Shape {
        self.aligned(shape, shape.rank())
    }

    /// The same with axes of size 1 in between, so that it broadcasts with shapes of `rank` axes behind theirs.
    pub(crate) fn aligned(self, shape: &Shape, rank: usize) -> Shape {
        let Some(count) = self.0 else { return shape.clone() };
        let mut dims = vec![count];
        dims.resize(1 + rank.saturating_sub(shape.rank()), 1);
        dims.extend(shape.dims());
        dims.into()
    }

    /// How many axes it is.
    pub(crate) fn axes(self) -> usize {
        usize::from(self.0.is_some())
    }

    /// An axis: one that is counted from the back stays.
    pub(crate) fn axis(self, axis: Axis) -> Axis {
        Axis::from(self.number(axis.get()))
    }

    fn number(self, axis: isize) -> isize {
        if axis < 0 { axis } else { axis.saturating_add_unsigned(self.axes()) }
    }

    /// Some of `rank` axes, or all of them.
    pub(crate) fn list(self, axes: &Axes, rank: usize) -> Axes {
        match (self.0, axes) {
            (None, axes) => axes.clone(),
            (_, Axes::All) => Axes::from((1..=rank).collect::<Vec<_>>()),
            (_, Axes::List(list)) => Axes::List(list.iter().map(|&a| self.number(a)).collect()),
        }
    }

    /// All axes in another order.
    pub(crate) fn order(self, order: &[usize]) -> Vec<usize> {
        (0..self.axes()).chain(order.iter().map(|axis| axis + self.axes())).collect()
    }

    /// The same index for each.
    pub(crate) fn index(self, index: &Indices) -> Result<Indices> {
        match self.0 {
            None => Ok(index.clone()),
            Some(_) => Ok(Indices::from(index.expand(self.shape(index.shape()))?)),
        }
    }

    /// The same part of each.
    pub(crate) fn part(self, slices: &Slices) -> Slices {
        match self.0 {
            None => slices.clone(),
            Some(_) => slices.behind(SliceItem::from(..)),
        }
    }
}
