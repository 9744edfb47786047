//! What slices take of a tensor of a given shape: a part of each axis, and index tensors on some of them.

use smallvec::SmallVec;

use super::slices::{Position, Slice, SliceItem, Slices};
use crate::dtype::DType;
use crate::error::{Result, TensorFacts, refuse};
use crate::meant::Meant;
use crate::ops::indices::wrapped;
use crate::ops::mask::coordinates;
use crate::ops::places::{IndexedView, Pick};
use crate::shape::{Dims, Shape};
use crate::tensor::Tensor;

impl Slices {
    /// What is taken of each axis.
    ///
    /// # Errors
    /// `Rank` if there are more items than axes, `IndexOutOfRange`, `Range` for a step that is not positive, `DTypeMismatch`
    /// for a tensor that is neither `I64` nor `Bool`, `MaskShape`, `TooLarge`.
    pub(super) fn resolve(&self, op: &'static str, shape: &Shape) -> Result<Taken> {
        let found = self.0.iter().map(SliceItem::width).sum();
        if found > shape.rank() {
            let expected = "at most one item for each of the tensor's";
            return refuse(TensorFacts::Rank { op, operand: "", expected, found });
        }
        let mut taken = Taken { parts: SmallVec::new(), picks: Vec::new() };
        for item in &self.0 {
            item.resolve(op, shape, &mut taken)?;
        }
        taken.parts.extend(shape[found..].iter().map(|&size| AxisRange::whole(size)));
        Ok(taken)
    }
}

impl Slice {
    /// The first element and how many there are on an axis of the given size.
    fn resolve(&self, op: &'static str, axis: usize, size: usize) -> Result<(usize, usize)> {
        let n = size as isize;
        if self.step <= 0 {
            let (start, end, step) = (self.start, self.end.unwrap_or(n), self.step);
            return refuse(TensorFacts::Range { op, start, end, step, axis, size });
        }
        let clamp = |at: isize| (if at < 0 { at.saturating_add(n) } else { at }).clamp(0, n) as usize;
        let (start, end) = (clamp(self.start), clamp(self.end.unwrap_or(n)));
        Ok((start, end.saturating_sub(start).div_ceil(self.step as usize)))
    }
}

impl SliceItem {
    /// How many axes it stands for.
    fn width(&self) -> usize {
        match self {
            SliceItem::Places(t) if t.dtype() == DType::Bool => t.rank(),
            _ => 1,
        }
    }

    /// Adds what is taken of the next axes.
    fn resolve(&self, op: &'static str, shape: &Shape, taken: &mut Taken) -> Result<()> {
        let axis = taken.parts.len();
        match self {
            SliceItem::Range(s) => {
                let (start, len) = s.resolve(op, axis, shape[axis])?;
                // A step past the end is never taken; 1 keeps the strides small.
                let step = if len > 1 { s.step as usize } else { 1 };
                taken.parts.push(AxisRange { start, len, step, dropped: false });
            }
            SliceItem::Index(at) => taken.parts.push(AxisRange::one(index_on(op, *at, axis, shape[axis])?)),
            SliceItem::Places(t) if t.dtype() == DType::Bool => return mask_on(op, t, shape, taken),
            SliceItem::Places(t) if t.rank() == 0 && t.dtype() == DType::I64 => {
                let at = Position::from(t.item_as::<i64>()?);
                taken.parts.push(AxisRange::one(index_on(op, at, axis, shape[axis])?));
            }
            SliceItem::Places(t) => {
                t.expect_dtype(op, "an index", DType::I64)?;
                taken.picks.push((axis, wrapped(op, t, axis, shape[axis])?));
                taken.parts.push(AxisRange::whole(shape[axis]));
            }
        }
        Ok(())
    }
}

/// A mask as an index tensor for each of its axes.
fn mask_on(op: &'static str, mask: &Tensor, shape: &Shape, taken: &mut Taken) -> Result<()> {
    let axis = taken.parts.len();
    if mask.rank() == 0 || shape[axis..axis + mask.rank()] != *mask.dims() {
        return refuse(TensorFacts::MaskShape { op, mask: mask.shape().clone(), axis, shape: shape.clone() });
    }
    let places = coordinates(op, mask)?;
    for (i, &size) in mask.dims().iter().enumerate() {
        taken.picks.push((axis + i, places.select(1, i)?));
        taken.parts.push(AxisRange::whole(size));
    }
    Ok(())
}

/// What is taken of every axis.
pub(super) struct Taken {
    pub(super) parts: SmallVec<[AxisRange; 4]>,
    /// index tensors on axes that are taken whole
    pub(super) picks: Vec<Pick>,
}

impl Taken {
    /// The sizes of the parts, with the strides that they have in a tensor of these.
    pub(super) fn view(&self, strides: &[isize]) -> (Shape, Dims<isize>) {
        let kept = || self.parts.iter().zip(strides).filter(|(part, _)| !part.dropped);
        let stride = |(part, &stride): (&AxisRange, &isize)| match part.len {
            0 | 1 => stride,
            _ => stride.wrapping_mul(part.step as isize),
        };
        (Shape(kept().map(|(part, _)| part.len).collect()), kept().map(stride).collect())
    }

    /// Which axes of the view are meant, where these ones of the tensor are.
    pub(super) fn meant(&self, of: Meant) -> Meant {
        let kept: Dims<usize> = (0..self.parts.len()).filter(|&i| !self.parts[i].dropped).collect();
        of.reordered(self.parts.len(), &kept)
    }

    /// Where the first element stands, in steps of these strides.
    pub(super) fn start(&self, strides: &[isize]) -> isize {
        let taken = self.parts.iter().zip(strides).filter(|(part, _)| part.len > 0);
        taken.fold(0, |at, (part, &stride)| at.wrapping_add((part.start as isize).wrapping_mul(stride)))
    }

    /// The index tensors on the axes of the view, in which some have been dropped.
    pub(super) fn picks_of_view(&self) -> Vec<Pick> {
        let dropped = |axis: usize| self.parts[..axis].iter().filter(|part| part.dropped).count();
        self.picks.iter().map(|(axis, index)| (axis - dropped(*axis), index.clone())).collect()
    }

    /// The shape of all that is taken.
    pub(super) fn shape(&self, op: &'static str) -> Result<Shape> {
        let strides: Dims<isize> = Dims::from_elem(0, self.parts.len());
        let (view, _) = self.view(&strides);
        if self.picks.is_empty() {
            return Ok(view);
        }
        Ok(IndexedView::of(op, &view, &self.picks_of_view())?.shape().clone())
    }
}

/// What is taken of one axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct AxisRange {
    pub(super) start: usize,
    pub(super) len: usize,
    pub(super) step: usize,
    pub(super) dropped: bool,
}

impl AxisRange {
    fn whole(len: usize) -> AxisRange {
        AxisRange { start: 0, len, step: 1, dropped: false }
    }

    fn one(start: usize) -> AxisRange {
        AxisRange { start, len: 1, step: 1, dropped: true }
    }
}

/// The index counted from the front.
pub(super) fn index_on(op: &'static str, Position(at): Position, axis: usize, size: usize) -> Result<usize> {
    let i = if at < 0 { at.saturating_add(size as isize) } else { at };
    match usize::try_from(i) {
        Ok(i) if i < size => Ok(i),
        _ => refuse(TensorFacts::IndexOutOfRange { op, index: at as i64, axis, size }),
    }
}
