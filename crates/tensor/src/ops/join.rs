//! Joining tensors: `cat` along an axis that there is, `stack` along a new one.

use std::borrow::Cow;

use super::arg::{AsArg, List, tensors_of};
use crate::axes::Axis;
use crate::dtype::{BlockMut, DType, Element, with_block};
use crate::error::{Here, Result, TensorFacts, refuse};
use crate::kernels::{Pieces, interleave};
use crate::task::{self, Read, WholeRule};
use crate::tensor::Tensor;

impl Tensor {
    /// Joins the tensors of a list along an axis that they have: `[a, n]` and `[b, n]` make `[a + b, n]` along axis 0.
    ///
    /// The shapes agree on all other axes. The result has the promoted element type and is row-major. Tensors of shape
    /// `[0]` are skipped, as in PyTorch.
    ///
    /// # Errors
    /// `NoTensors` for an empty list, `Rank` for a 0-d tensor, `AxisOutOfRange`, `ListShapes` if the shapes differ on
    /// another axis, `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::{Tensor, tensor};
    /// let (a, b) = (tensor![[1.0, 2.0]], tensor![[3.0, 4.0], [5.0, 6.0]]);
    /// assert_eq!(Tensor::cat([&a, &b], 0)?, tensor![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    /// assert_eq!(Tensor::cat([&a, &a], -1)?, tensor![[1.0, 2.0, 1.0, 2.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    #[doc(alias = "concatenate")]
    #[doc(alias = "concat")]
    pub fn cat(tensors: impl IntoIterator<Item: AsArg>, axis: impl Into<Axis>) -> Result<Tensor> {
        let list: List<_> = tensors.into_iter().collect();
        join("cat", &tensors_of(&list), axis.into()).here()
    }

    /// Joins the tensors of a list, all of one shape, along a new axis: `n` of shape `[a, b]` make `[a, n, b]` along axis 1.
    ///
    /// Negative axes count in the result, so that `-1` appends an axis. The result has the promoted element type and is
    /// row-major.
    ///
    /// # Errors
    /// `NoTensors` for an empty list, `ListShapes` if the shapes differ, `AxisOutOfRange`, `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::{Tensor, tensor};
    /// let (a, b) = (tensor![1.0, 2.0], tensor![3.0, 4.0]);
    /// assert_eq!(Tensor::stack([&a, &b], 0)?, tensor![[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(Tensor::stack([&a, &b], 1)?, tensor![[1.0, 3.0], [2.0, 4.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn stack(tensors: impl IntoIterator<Item: AsArg>, axis: impl Into<Axis>) -> Result<Tensor> {
        let list: List<_> = tensors.into_iter().collect();
        stacked(&tensors_of(&list), axis.into()).here()
    }
}

fn stacked(tensors: &[Cow<'_, Tensor>], axis: Axis) -> Result<Tensor> {
    let op = "stack";
    let Some(first) = tensors.first() else { return refuse(TensorFacts::NoTensors { op }) };
    let rank = first.rank() + 1;
    let at = crate::shape::axis_index(op, axis, rank, rank)?;
    if let Some(index) = tensors.iter().position(|t| t.shape() != first.shape()) {
        return refuse(odd_one(op, tensors, index, 0, None));
    }
    let wider = tensors.iter().map(|t| t.unsqueeze(at).map(Cow::Owned)).collect::<Result<List<_>>>()?;
    join(op, &wider, at.into())
}

fn join(op: &'static str, tensors: &[Cow<'_, Tensor>], axis: Axis) -> Result<Tensor> {
    if tensors.is_empty() {
        return refuse(TensorFacts::NoTensors { op });
    }
    if tensors.iter().any(|t| t.rank() == 0) {
        return refuse(TensorFacts::Rank { op, operand: "", expected: "at least 1", found: 0 });
    }
    let dtype = tensors.iter().fold(DType::Bool, |d, t| d.promote(t.dtype()));
    let counts = |t: &Tensor| t.dims() != [0];
    let joined: List<&Tensor> = tensors.iter().map(|t| &**t).filter(|t| counts(t)).collect();
    let Some(first) = joined.first() else {
        tensors[0].shape().axis(op, axis)?;
        return Ok(Tensor::zeros_with([0], dtype));
    };
    let axis = first.shape().axis(op, axis)?;
    let mut shape = first.shape().clone();
    shape[axis] = 0;
    let fits = |t: &Tensor| {
        let mut sizes = t.dims().iter().zip(first.dims()).enumerate();
        t.rank() == first.rank() && sizes.all(|(i, (size, expected))| i == axis || size == expected)
    };
    if let Some(index) = tensors.iter().position(|t| counts(t) && !fits(t)) {
        let first = tensors.iter().position(|t| counts(t)).unwrap_or(0);
        return refuse(odd_one(op, tensors, index, first, Some(axis)));
    }
    for t in &joined {
        shape[axis] = shape[axis].saturating_add(t.dims()[axis]);
    }
    let reads: List<Read<'_>> = joined.iter().map(|t| Read::Tensor(t, dtype)).collect();
    task::whole(op, &Join(axis), &reads, &shape, dtype)
}

/// Says which tensor does not fit to another.
#[cold]
fn odd_one(
    op: &'static str,
    tensors: &[Cow<'_, Tensor>],
    index: usize,
    first: usize,
    axis: Option<usize>,
) -> TensorFacts {
    let (found, expected) = (tensors[index].shape().clone(), tensors[first].shape().clone());
    TensorFacts::ListShapes { op, index, found, first, expected, axis }
}

/// Joins tensors along this axis.
struct Join(usize);

impl WholeRule for Join {
    fn run(&self, op: &'static str, reads: &[&Tensor], mut out: BlockMut<'_>) -> Result<()> {
        if reads[0].dims()[..self.0].iter().all(|&s| s == 1) {
            // Every part is one run of the result.
            let mut at = 0;
            for t in reads {
                t.copy_into(op, out.range(at, t.numel()))?;
                at += t.numel();
            }
            return Ok(());
        }
        with_block!(BlockMut, out, out => rows(op, reads, self.0, out))
    }
}

/// Joins along an axis that is not the first: a piece of every tensor for each position of the axes before it. Parts of tensors are
/// copied from where they lie: a roll along rows of 64 takes 0.41 of the time.
fn rows<T: Element>(op: &'static str, tensors: &[&Tensor], axis: usize, out: &mut [T]) -> Result<()> {
    let in_place = |t: &Tensor| t.dtype() == T::DTYPE && step_of_pieces(t, axis).is_some();
    let whole = |t: &Tensor| if in_place(t) { Ok(t.clone()) } else { t.cast(op, T::DTYPE)?.laid_out(op) };
    let sources: List<Tensor> = tensors.iter().map(|t| whole(t)).collect::<Result<_>>()?;
    let pieces: List<Pieces<'_, T>> = sources.iter().map(|t| pieces_of(t, axis)).collect();
    interleave(&pieces, out);
    Ok(())
}

fn pieces_of<T: Element>(t: &Tensor, axis: usize) -> Pieces<'_, T> {
    Pieces {
        data: T::slice(t.storage.block()).expect("of this type, or cast to it"),
        start: t.layout.offset(),
        step: step_of_pieces(t, axis).expect("where it lies, or laid out"),
        len: t.dims()[axis..].iter().product(),
    }
}

/// How far apart the pieces of a tensor lie that has each of them, the elements for one position of the axes before this one, in order.
fn step_of_pieces(t: &Tensor, axis: usize) -> Option<isize> {
    if t.numel() == 0 {
        return Some(0);
    }
    let (mut next, mut step) = (Some(1), None);
    for (i, (&size, &stride)) in
        t.dims().iter().zip(t.strides().iter()).enumerate().rev().filter(|(_, a)| *a.0 != 1)
    {
        if i < axis && step.is_none() && next.is_some() {
            (step, next) = (Some(stride), Some(stride));
        }
        next = next.filter(|&next| next == stride).map(|next| next * size as isize);
    }
    next.and(step.or(Some(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{refused, tensor};

    #[test]
    fn along_every_axis_and_from_any_strides() {
        let a = Tensor::arange_with(0..24, 1, DType::F32).reshape([2, 3, 4]).unwrap();
        for axis in 0..3 {
            let parts: Vec<Tensor> =
                (0..a.dims()[axis]).map(|i| a.narrow(axis as isize, i, 1).unwrap()).collect();
            let refs: Vec<&Tensor> = parts.iter().collect();
            assert_eq!(Tensor::cat(&refs, axis as isize).unwrap(), a);
            let turned = a.transpose(0, 2).unwrap();
            let twice = Tensor::cat(&[&turned, &turned], axis as isize).unwrap();
            assert_eq!(
                twice.narrow(axis as isize, turned.dims()[axis], turned.dims()[axis]).unwrap(),
                turned
            );
        }
        // Parts that are copied from where they lie, and others.
        let b = Tensor::arange(0..3 * 4 * 6 * 5).reshape([3, 4, 6, 5]).unwrap();
        let part = |axis: i32, start: usize| b.narrow(axis, start, 2).unwrap();
        let single = b.narrow(3, 1, 1).unwrap();
        let views = [
            part(0, 1),
            part(1, 2),
            part(2, 3),
            part(3, 1),
            b.flip(0).unwrap(),
            b.flip([0, 1]).unwrap(),
            b.flip(3).unwrap(),
            b.transpose(0, 1).unwrap(),
            b.transpose(2, 3).unwrap(),
            b.slice(crate::s![..;2, .., ..;3, 1..4]).unwrap(),
            single.expand([3, 4, 6, 2]).unwrap(),
            single.narrow(0, 1, 1).unwrap().expand([5, 4, 6, 1]).unwrap(),
            b.narrow(2, 0, 0).unwrap(),
        ];
        for view in &views {
            let whole = view.contiguous();
            for axis in 0..4 {
                let joined = Tensor::cat([view, &whole, view], axis).unwrap();
                assert_eq!(
                    joined,
                    Tensor::cat([&whole, &whole, &whole], axis).unwrap(),
                    "{:?}",
                    view.shape()
                );
                let cast = Tensor::cat([view, &whole.to(DType::F64)], axis).unwrap();
                assert_eq!(cast, Tensor::cat([&whole, &whole], axis).unwrap().to(DType::F64));
            }
        }
        let wide = tensor![[1.0], [2.0]].expand([2, 3]).unwrap();
        assert_eq!(Tensor::cat(&[&wide, &wide], 1).unwrap().dims(), [2, 6]);
    }

    #[test]
    fn types_are_promoted() {
        let types = DType::ALL;
        for a in types {
            for b in types {
                let (x, y) = (Tensor::ones_with([2, 1], a), Tensor::zeros_with([2, 2], b));
                let joined = Tensor::cat(&[&x, &y], 1).unwrap();
                assert_eq!(joined.dtype(), a.promote(b));
                assert_eq!(joined.to(DType::F64).to_vec::<f64>().unwrap(), [1.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
            }
        }
    }

    #[test]
    fn empty_tensors() {
        let none = Tensor::zeros_with([0], DType::F64);
        let a = tensor![[1.0, 2.0]];
        let joined = Tensor::cat(&[&none, &a, &none], 1).unwrap();
        assert_eq!((joined.dims(), joined.dtype()), (&[1, 2][..], DType::F64));
        assert_eq!(Tensor::cat(&[&none, &none], 0).unwrap().dims(), [0]);
        let flat = Tensor::zeros([2, 0]);
        assert_eq!(Tensor::cat(&[&flat, &Tensor::ones([2, 3])], 1).unwrap().dims(), [2, 3]);
        assert_eq!(Tensor::cat(&[&flat, &flat], 0).unwrap().dims(), [4, 0]);
        assert_eq!(Tensor::stack(&[&none, &none, &none], 1).unwrap().dims(), [0, 3]);
    }

    #[test]
    fn stacking() {
        let n = |v: f32| Tensor::scalar(v);
        assert_eq!(Tensor::stack(&[&n(1.0), &n(2.0)], 0).unwrap(), tensor![1.0, 2.0]);
        let (a, b) = (tensor![[1.0, 2.0]], tensor![[3.0, 4.0]]);
        assert_eq!(Tensor::stack(&[&a, &b], -1).unwrap(), tensor![[[1.0, 3.0], [2.0, 4.0]]]);
        assert_eq!(Tensor::stack(&[&a, &b], 1).unwrap(), tensor![[[1.0, 2.0], [3.0, 4.0]]]);
    }

    #[test]
    fn bad_lists_are_refused() {
        let t = |shape: &[usize]| Tensor::zeros(shape);
        assert!(refused!(Tensor::cat([] as [Tensor; 0], 0), TensorFacts::NoTensors { op: "cat" }));
        assert!(refused!(Tensor::stack([] as [Tensor; 0], 0), TensorFacts::NoTensors { op: "stack" }));
        assert!(refused!(Tensor::cat(&[&t(&[2]), &t(&[])], 0), TensorFacts::Rank { found: 0, .. }));
        assert!(refused!(Tensor::cat(&[&t(&[2, 3]), &t(&[2, 4])], 0), TensorFacts::ListShapes { .. }));
        assert!(refused!(Tensor::cat(&[&t(&[2, 3]), &t(&[2])], 0), TensorFacts::ListShapes { .. }));
        assert!(refused!(Tensor::cat(&[&t(&[2, 3])], 2), TensorFacts::AxisOutOfRange { axis: 2, .. }));
        assert!(refused!(Tensor::cat(&[&t(&[0])], 1), TensorFacts::AxisOutOfRange { .. }));
        assert!(refused!(Tensor::stack(&[&t(&[2]), &t(&[3])], 0), TensorFacts::ListShapes { .. }));
        assert!(refused!(Tensor::stack(&[&t(&[2])], 2), TensorFacts::AxisOutOfRange { .. }));
        let huge = t(&[1]).expand([1usize << 60]).unwrap();
        assert!(refused!(Tensor::cat(&[&huge, &huge, &huge], 0), TensorFacts::TooLarge { .. }));
    }
}
