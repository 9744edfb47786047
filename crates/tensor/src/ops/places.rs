//! Index tensors among slices: which places they name, in PyTorch's order of axes, and reading and writing there.

use smallvec::SmallVec;

use crate::create::checked_len;
use crate::dtype::{BlockMut, DType, with_block};
use crate::error::Result;
use crate::kernels::{Accumulate, put_rows};
use crate::shape::{Dims, Shape, broadcast_two};
use crate::task::{self, Does, Read, Space, Task, To, WholeRule};
use crate::tensor::Tensor;

use super::index::{own, pick_at, reads, sequence_along};

/// An index tensor and the axis of a view that it picks from. Its indices count from the front and exist.
pub(crate) type Pick = (usize, Tensor);

/// What index tensors pick of a view.
///
/// Note [The axes of what is picked]
/// The index tensors broadcast together. Their common axes stand where the picked axes stood if those are neighbours, and in
/// front of all others if not. An integer is no index tensor: its axis is dropped first (as in PyTorch; NumPy counts it as
/// one).
pub(crate) struct Picked<'a> {
    picks: &'a [Pick],
    /// the axes that are kept, of which `at` stand before the common ones
    kept: Dims<usize>,
    at: usize,
    common: Shape,
    shape: Shape,
}

impl<'a> Picked<'a> {
    /// # Errors
    /// `Broadcast` if the index tensors do not fit together.
    pub(crate) fn of(op: &'static str, view: &[usize], picks: &'a [Pick]) -> Result<Picked<'a>> {
        let mut common = Shape::scalar();
        for (_, index) in picks {
            common = broadcast_two(op, &common, index.dims())?;
        }
        let kept: Dims<usize> = (0..view.len()).filter(|d| picks.iter().all(|(p, _)| p != d)).collect();
        let neighbours = picks.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0);
        let at = if neighbours { picks[0].0 } else { 0 };
        let sizes = |axes: &[usize]| axes.iter().map(|&d| view[d]).collect::<Dims<usize>>();
        let (before, behind) = (sizes(&kept[..at]), sizes(&kept[at..]));
        let shape = Shape(before.iter().chain(common.iter()).chain(behind.iter()).copied().collect());
        Ok(Picked { picks, kept, at, common, shape })
    }

    /// The shape of what is picked.
    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The place of a kept axis in the result.
    fn place(&self, nth: usize) -> usize {
        if nth < self.at { nth } else { nth + self.common.rank() }
    }

    /// Tensors whose sum, broadcast to the shape, is the place of each element in a buffer that the view has these strides
    /// over. The last `runs` of the kept axes are left out.
    fn terms(&self, op: &'static str, strides: &[isize], runs: usize) -> Result<SmallVec<[Tensor; 4]>> {
        let mut terms: SmallVec<[Tensor; 4]> = SmallVec::new();
        let mut sum: Option<Tensor> = None;
        for (axis, index) in self.picks {
            let term = index.mul(strides[*axis] as i64)?;
            sum = Some(match sum {
                Some(sum) => sum.add(term)?,
                None => term,
            });
        }
        let sum = sum.expect("there is an index tensor");
        let mut wide = Shape(Dims::from_elem(1, self.shape.rank() - runs));
        wide[self.at..self.at + sum.rank()].copy_from_slice(sum.dims());
        terms.push(sum.reshaped(op, wide)?);
        let outer = Shape(Dims::from_slice(&self.shape[..self.shape.rank() - runs]));
        for (nth, &axis) in self.kept[..self.kept.len() - runs].iter().enumerate() {
            let place = self.place(nth);
            if strides[axis] != 0 && outer[place] > 1 {
                terms.push(sequence_along(op, &outer, place, strides[axis] as i64)?);
            }
        }
        Ok(terms)
    }

    /// How many of the last axes, and how many elements, lie in runs.
    fn runs(&self, strides: &[isize]) -> (usize, usize) {
        let (mut axes, mut len) = (0, 1);
        for &axis in self.kept[self.at..].iter().rev() {
            let size = self.shape[self.shape.rank() - 1 - axes];
            if strides[axis] != len as isize {
                break;
            }
            (axes, len) = (axes + 1, len * size);
        }
        (axes, len)
    }

    /// What is picked of a view.
    pub(crate) fn read(&self, op: &'static str, view: &Tensor) -> Result<Tensor> {
        checked_len(op, &self.shape, view.dtype())?;
        if self.shape.contains(&0) {
            return Tensor::try_zeros_with(&self.shape, view.dtype());
        }
        if let [(axis, index)] = self.picks {
            let list = index.reshaped(op, Shape::from(index.numel()))?;
            let rows = view.index_select(*axis, list).map_err(|e| e.named(op))?;
            return rows.reshaped(op, self.shape.clone());
        }
        let terms = self.terms(op, view.strides(), 0)?;
        let tensors: SmallVec<[&Tensor; 8]> = std::iter::once(view).chain(&terms).collect();
        task::whole(op, &PickAt(&self.shape), &reads(&tensors), &self.shape, view.dtype())
    }

    /// Writes a value of the shape to the places, or adds it there, in row-major order. The view has these strides over
    /// the row-major elements of `target`, and starts at `start`.
    pub(crate) fn write(
        &self,
        op: &'static str,
        target: &mut Tensor,
        start: usize,
        strides: &[isize],
        value: &Tensor,
        add: bool,
    ) -> Result<()> {
        let (axes, len) = self.runs(strides);
        let mut terms = self.terms(op, strides, axes)?.into_iter();
        let first = terms.next().expect("the index tensors make a term").add(start)?;
        let sum = terms.try_fold(first, |sum, term| sum.add(term))?;
        let outer = Shape(Dims::from_slice(&self.shape[..self.shape.rank() - axes]));
        let places = sum.expanded(op, outer)?.laid_out(op)?;
        let (value, shape) = (value.laid_out(op)?, target.shape().clone());
        let reads = [Read::Tensor(&value, value.dtype()), Read::Tensor(&places, DType::I64)];
        let does = Does::Whole(&PutAt { len, add });
        let space = Space::Of(&shape);
        task::change(Task { op, reads: &reads, space, does, to: &mut [To::Change(target)] })
    }
}

/// The elements of a buffer at the places that are the sum of the other tensors, which broadcast to this shape.
struct PickAt<'a>(&'a Shape);

impl WholeRule for PickAt<'_> {
    fn run(&self, op: &'static str, reads: &[&Tensor], out: BlockMut<'_>) -> Result<()> {
        let (t, terms) = (reads[0], reads[1..].iter().map(|&t| t.clone()).collect::<SmallVec<[Tensor; 4]>>());
        pick_at(op, t, &terms, t.layout.offset as i64, 1, self.0, out)
    }
}

/// Puts runs of so many elements of a value to the places named, or adds them there, one after another.
struct PutAt {
    len: usize,
    add: bool,
}

impl WholeRule for PutAt {
    fn run(&self, _: &'static str, reads: &[&Tensor], out: BlockMut<'_>) -> Result<()> {
        let &[value, places] = reads else { unreachable!("two tensors are read") };
        let places = own::<i64>(places);
        if !self.add {
            with_block!(BlockMut, out, out => put_rows(out, self.len, places, own(value), |_, new| new));
            return Ok(());
        }
        macro_rules! add {
            ($($v:ident: $t:ty),*) => {
                match out {
                    $(BlockMut::$v(o) => put_rows(o, self.len, places, own::<$t>(value), <$t>::plus),)*
                }
            };
        }
        add!(Bool: bool, I64: i64, F32: f32, F64: f64);
        Ok(())
    }
}
