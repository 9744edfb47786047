//! Index tensors among slices: which places they name, in PyTorch's order of axes, and reading and writing there.

use smallvec::SmallVec;

use crate::create::checked_len;
use crate::dtype::{BlockMut, DType, with_block};
use crate::error::Result;
use crate::kernels::{Accumulate, NumKernel, put_rows};
use crate::shape::{Dims, Shape, broadcast_two};
use crate::task::{self, Does, Read, Space, Task, To, WholeRule};
use crate::tensor::Tensor;

use super::formulas::Add;
use super::index::{own, reads};
use super::pick::{pick_at, sequence_along};

/// An index tensor and the axis of a view that it picks from. Its indices count from the front and exist.
pub(crate) type Pick = (usize, Tensor);

/// What index tensors pick of a view.
///
/// Note [The axes of what is picked]
/// The index tensors broadcast together. Their common axes stand where the picked axes stood if those are neighbours, and in
/// front of all others if not. An integer is no index tensor: its axis is dropped first (as in PyTorch; NumPy counts it as
/// one).
pub(crate) struct IndexedView<'a> {
    picks: &'a [Pick],
    /// the axes that are kept, of which `at` stand before the common ones
    kept: Dims<usize>,
    at: usize,
    common: Shape,
    shape: Shape,
}

impl<'a> IndexedView<'a> {
    /// # Errors
    /// `Broadcast` if the index tensors do not fit together.
    pub(crate) fn of(op: &'static str, view: &[usize], picks: &'a [Pick]) -> Result<IndexedView<'a>> {
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
        Ok(IndexedView { picks, kept, at, common, shape })
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
                Some(sum) => sum_of(op, &sum, &term)?,
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
        let terms = self.terms(op, &view.strides(), 0)?;
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
        let sum = terms.try_fold(first, |sum, term| sum_of(op, &sum, &term))?;
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
        pick_at(op, t, &terms, t.layout.offset() as i64, 1, self.0, out)
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

/// The sum of two places; index tensors broadcast as they are.
fn sum_of(op: &'static str, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (reads, does) = (&[a, b].map(|t| Read::Tensor(t, DType::I64)), Does::Blocks(&NumKernel(Add)));
    task::make(Task { op, reads, space: Space::Common, does, to: &mut [To::New(DType::I64)] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Slices, TensorFacts, refused, s, tensor};

    fn grid() -> Tensor {
        Tensor::arange(120).reshape([2, 3, 4, 5]).unwrap()
    }

    /// Slices of a `[2, 3, 4, 5]`, and the shape of what they take in PyTorch.
    fn cases() -> Vec<(Slices, Vec<usize>)> {
        let (two, column) = (tensor![1, 0; i64], tensor![[0], [-1], [1]; i64]);
        let (mask, wide) = (tensor![true, false, true], tensor![[true, true, false], [false, false, true]]);
        vec![
            (s![&two], vec![2, 3, 4, 5]),
            (s![.., .., &column], vec![2, 3, 3, 1, 5]),
            (s![&two, &column], vec![3, 2, 4, 5]),
            (s![.., &two, &column, 1..], vec![2, 3, 2, 4]),
            (s![.., &two, .., &column], vec![3, 2, 2, 4]),
            (s![1, .., &two], vec![3, 2, 5]),
            (s![&two, 1, &two], vec![2, 5]),
            (s![&two, 1.., &two, -1], vec![2, 2]),
            (s![1, &two, ..;2, &two], vec![2, 2]),
            (s![.., &mask], vec![2, 2, 4, 5]),
            (s![&two, &mask], vec![2, 4, 5]),
            (s![&wide], vec![3, 4, 5]),
            (s![&wide, &column, ..2], vec![3, 3, 2]),
            (s![tensor![1, 1, 1; i64], .., .., tensor![4, 4, 4; i64]], vec![3, 3, 4]),
            (s![0..0, &two], vec![0, 2, 4, 5]),
            (s![.., Tensor::zeros_with([0, 2], DType::I64)], vec![2, 0, 2, 4, 5]),
            (s![.., tensor![false, false, false]], vec![2, 0, 4, 5]),
            (s![Tensor::from(-1i64), .., &two], vec![3, 2, 5]),
        ]
    }

    #[test]
    fn shapes_and_elements_in_any_layout() {
        let x = grid();
        for (slices, shape) in cases() {
            let got = x.slice(slices.clone()).unwrap();
            assert_eq!(got.dims(), shape, "{slices:?}");
            for axis in 1..4 {
                let turned = x.transpose(0, axis).unwrap().contiguous().transpose(0, axis).unwrap();
                assert_eq!(turned.slice(slices.clone()).unwrap(), got);
                assert_eq!(
                    x.flip(axis).unwrap().contiguous().flip(axis).unwrap().slice(slices.clone()).unwrap(),
                    got
                );
            }
        }
        let (rows, columns) = (tensor![[1, 0], [1, 1]; i64], tensor![2, -2; i64]);
        let picked = x.slice(s![1, &rows, ..;3, &columns]).unwrap();
        let at = |i: usize, j: usize, k: usize| 60 + [[1, 0], [1, 1]][i][j] * 20 + k as i64 * 15 + [2, 3][j];
        let want: Vec<i64> =
            [0, 1].iter().flat_map(|&i| [0, 1].map(|j| [0, 1].map(|k| at(i, j, k)))).flatten().collect();
        assert_eq!(picked.to_vec::<i64>().unwrap(), want);
        let wide = tensor![[1.0], [2.0]].expand([2, 3]).unwrap();
        assert_eq!(wide.slice(s![&columns.mul(0).unwrap(), &columns]).unwrap(), tensor![1.0, 1.0]);
    }

    /// Writing finds the places that reading finds, in row-major order.
    #[test]
    fn the_last_remains_and_all_are_added() {
        for (slices, shape) in cases() {
            let places = grid().slice(slices.clone()).unwrap().to_vec::<i64>().unwrap();
            let values = Tensor::arange(places.len() as i64).add(1000).unwrap().reshape(shape).unwrap();
            let (mut assigned, mut sums) = (grid().to_vec::<i64>().unwrap(), grid().to_vec::<i64>().unwrap());
            for (i, &at) in places.iter().enumerate() {
                assigned[at as usize] = 1000 + i as i64;
                sums[at as usize] += 1000 + i as i64;
            }
            for own in [grid(), grid().transpose(1, 3).unwrap().contiguous().transpose(1, 3).unwrap()] {
                let (mut x, before) = (own.clone(), own.clone());
                x.slice_assign(slices.clone(), &values).unwrap();
                assert_eq!(x.to_vec::<i64>().unwrap(), assigned, "{slices:?}");
                x = own;
                x.slice_add(slices.clone(), values.float()).unwrap();
                assert_eq!(x.to_vec::<i64>().unwrap(), sums, "{slices:?}");
                assert_eq!(before, grid());
            }
        }
        let mut t = tensor![false, true];
        t.slice_add(tensor![0, 0; i64], tensor![true, false]).unwrap();
        t.slice_add(1.., tensor![[false]]).unwrap();
        assert_eq!(t, tensor![true, true]);
        let mut n = tensor![i64::MAX; i64];
        n.slice_add(.., 1).unwrap();
        n.slice_add(tensor![0, 0; i64], -1).unwrap();
        assert_eq!(n, tensor![i64::MAX - 1; i64]);
    }

    #[test]
    fn what_is_refused_changes_nothing() {
        let mut x = grid();
        let outside = |index, axis, size| TensorFacts::IndexOutOfRange { op: "slice", index, axis, size };
        assert_eq!(x.slice(s![.., tensor![0, 3; i64]]).unwrap_err(), outside(3, 1, 3));
        assert_eq!(x.slice(s![1, .., tensor![[-5]; i64]]).unwrap_err(), outside(-5, 2, 4));
        assert_eq!(x.slice(s![tensor![i64::MIN; i64]]).unwrap_err(), outside(i64::MIN, 0, 2));
        assert_eq!(x.slice(s![Tensor::from(2i64)]).unwrap_err(), outside(2, 0, 2));
        assert_eq!(Tensor::zeros([0, 2]).slice(tensor![0; i64]).unwrap_err(), outside(0, 0, 0));
        let e = x.slice(tensor![true, false, true]).unwrap_err();
        assert!(e.to_string().starts_with(
            "slice: a mask of shape [3] does not fit a tensor of shape [2, 3, 4, 5] from axis 0 on: it must have the sizes"
        ));
        assert!(refused!(x.slice(s![.., tensor![true, true]]), TensorFacts::MaskShape { axis: 1, .. }));
        assert!(refused!(x.slice(Tensor::from(true)), TensorFacts::MaskShape { .. }));
        assert!(refused!(
            x.slice(tensor![1.0]),
            TensorFacts::DTypeMismatch { op: "slice", operand: "an index", .. }
        ));
        assert!(refused!(x.slice(tensor![]), TensorFacts::DTypeMismatch { .. }));
        let (two, three) = (tensor![0, 1; i64], tensor![0, 1, 2; i64]);
        assert!(refused!(x.slice(s![&two, &three]), TensorFacts::Broadcast { op: "slice", .. }));
        assert!(refused!(x.slice(s![&two, &two, &two, &two, &two]), TensorFacts::Rank { found: 5, .. }));
        assert!(refused!(x.slice_assign(&two, Tensor::zeros([3, 3, 4, 5])), TensorFacts::Expand { .. }));
        assert!(refused!(x.slice_add(s![&two, 3], 0), TensorFacts::IndexOutOfRange { op: "slice_add", .. }));
        let huge = Tensor::from(0i64).expand([1usize << 40]).unwrap();
        assert!(refused!(x.slice(s![&huge.unsqueeze(1).unwrap(), &huge]), TensorFacts::TooLarge { .. }));
        assert_eq!(x, grid());
    }
}
