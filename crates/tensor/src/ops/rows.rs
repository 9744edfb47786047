//! Softmax along the last axis, its gradient, and cross-entropy: one pass over memory, rows split over threads.
//!
//! A row of up to [`GRAIN`] elements stays in the cache while it is read a second and a third time. Longer rows, other
//! axes and other layouts go through folds and maps.

use crate::create::room;
use crate::dtype::{BlockMut, DType, Element};
use crate::error::{Error, Result};
use crate::kernels::rows::{self, RowFloat, Rows};
use crate::kernels::{FloatKernel, FloatOps, Formula, Real};
use crate::shape::Axes;
use crate::task::{self, Read, Reduce};
use crate::tensor::Tensor;
use crate::threads::{GRAIN, split_work};

use super::formulas::real;
use super::reduce::Kept;

real! {
    pub(crate) formulas;
    Product(g, y) = g * y;
    SoftmaxGradient(g, y, s) = y * (g - s);
    LogSoftmaxGradient(g, y, s) = g - y.exp() * s;
}

/// The function or its logarithm.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Softmax,
    LogSoftmax,
}

/// The length of the rows along `axis`, if the tensor consists of such rows one after another.
fn row_length(t: &Tensor, axis: usize) -> Option<usize> {
    let n = *t.dims().get(axis)?;
    let last = t.dims()[axis + 1..].iter().all(|&size| size == 1);
    (last && n <= GRAIN && t.numel() > 0 && t.is_contiguous()).then_some(n)
}

/// Rows that one thread does at a time.
fn rows_at_once(n: usize) -> usize {
    (GRAIN / n).max(1)
}

/// A tensor like `t`, written in pieces of whole rows of `n`: `f(first row, rows, elements)`.
fn written<T: Element>(
    op: &'static str,
    t: &Tensor,
    n: usize,
    f: impl Fn(usize, usize, &mut [T]) + Sync,
) -> Result<Tensor> {
    let total = t.numel();
    let mut storage = room(op, t.shape(), T::DTYPE)?;
    let out: &mut [T] = typed_mut(storage.block_mut());
    split_work(total, rows_at_once(n) * n, out, &|o: &mut [T], at| o.split_at_mut(at), &|start, len, out| {
        f(start / n, len / n, out);
    });
    Ok(Tensor::from_storage(storage, t.shape().clone()))
}

fn typed_mut<T: Element>(block: BlockMut<'_>) -> &mut [T] {
    T::slice_mut(block).expect("the storage was made for this type")
}

fn typed<T: Element>(t: &Tensor) -> &[T] {
    t.as_slice().expect("types and layouts have been checked")
}

/// Softmax along an axis of rows; none if the tensor does not consist of rows.
pub(super) fn forward(op: &'static str, kind: Kind, x: &Tensor, axis: usize) -> Option<Result<Tensor>> {
    fn run<T: RowFloat>(op: &'static str, kind: Kind, x: &Tensor, n: usize) -> Result<Tensor> {
        let own: &[T] = typed(x);
        written(op, x, n, |first, count, out| {
            let x = &own[first * n..][..count * n];
            match kind {
                Kind::Softmax => rows::softmax(x, n, out),
                Kind::LogSoftmax => rows::log_softmax(x, n, out),
            }
        })
    }
    let n = row_length(x, axis)?;
    match x.dtype() {
        DType::F32 => Some(run::<f32>(op, kind, x, n)),
        DType::F64 => Some(run::<f64>(op, kind, x, n)),
        DType::Bool | DType::I64 => None,
    }
}

/// The gradient of [`Tensor::softmax`], given that of its result and the result `y`: `y (g - sum(g y))`.
///
/// # Errors
/// `DTypeUnsupported` unless `y` is `F32` or `F64`, `ShapeMismatch` unless `g` has its shape, `AxisOutOfRange`.
///
/// ```
/// use foldback_tensor::{kernel, tensor};
/// let y = tensor![0.0, 0.0].softmax(0)?;
/// assert_eq!(kernel::softmax_backward(&tensor![1.0, 0.0], &y, 0)?, tensor![0.25, -0.25]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
pub fn softmax_backward(g: &Tensor, y: &Tensor, axis: isize) -> Result<Tensor> {
    backward("softmax", Kind::Softmax, g, y, axis)
}

/// The gradient of [`Tensor::log_softmax`], given that of its result and the result `y`: `g - exp(y) sum(g)`.
///
/// A gradient that is the same along the axis (stride 0) is not laid out.
///
/// # Errors
/// As [`softmax_backward`].
///
/// ```
/// use foldback_tensor::{kernel, tensor};
/// let y = tensor![0.0, 0.0].log_softmax(0)?;
/// assert_eq!(kernel::log_softmax_backward(&tensor![1.0, 0.0], &y, 0)?, tensor![0.5, -0.5]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
pub fn log_softmax_backward(g: &Tensor, y: &Tensor, axis: isize) -> Result<Tensor> {
    backward("log_softmax", Kind::LogSoftmax, g, y, axis)
}

fn backward(op: &'static str, kind: Kind, g: &Tensor, y: &Tensor, axis: isize) -> Result<Tensor> {
    let (dtype, axis) = (expect_float(op, y)?, y.shape().axis(op, axis)?);
    expect_shape(op, y.dims(), g)?;
    match (row_length(y, axis), dtype) {
        (Some(n), DType::F32) => backward_rows::<f32>(op, kind, g, y, axis, n),
        (Some(n), DType::F64) => backward_rows::<f64>(op, kind, g, y, axis, n),
        _ => backward_any(op, kind, g, y, axis),
    }
}

fn backward_rows<T: RowFloat>(
    op: &'static str,
    kind: Kind,
    g: &Tensor,
    y: &Tensor,
    axis: usize,
    n: usize,
) -> Result<Tensor> {
    let one = g.strides().get(axis) == Some(&0);
    let g = if one { g.narrow(axis as isize, 0, 1)? } else { g.clone() };
    let g = g.cast(op, T::DTYPE)?.laid_out(op)?;
    let (g, own): (_, &[T]) = (if one { Rows::One(typed(&g)) } else { Rows::Full(typed(&g)) }, typed(y));
    written(op, y, n, |first, count, out| {
        let (g, y) = (g.part(first, count, n), &own[first * n..][..count * n]);
        match kind {
            Kind::Softmax => rows::softmax_backward(g, y, n, out),
            Kind::LogSoftmax => rows::log_softmax_backward(g, y, n, out),
        }
    })
}

/// Any axis and layout: a fold, then one pass.
fn backward_any(op: &'static str, kind: Kind, g: &Tensor, y: &Tensor, axis: usize) -> Result<Tensor> {
    let (dtype, shape) = (y.dtype(), y.shape());
    if shape.numel() == 0 {
        return Ok(Tensor::zeros(shape, dtype));
    }
    let kept = Kept::new(op, y, &Axes::from(axis), true)?;
    let [g, y] = [g, y].map(|t| Read::Tensor(t, dtype));
    let map = |sum: &Tensor| {
        let operands = [g, y, Read::Tensor(sum, dtype)];
        match kind {
            Kind::Softmax => task::map(op, &FloatKernel(SoftmaxGradient), &operands, shape, dtype),
            Kind::LogSoftmax => task::map(op, &FloatKernel(LogSoftmaxGradient), &operands, shape, dtype),
        }
    };
    map(&match kind {
        Kind::Softmax => kept.fold(Reduce::Sum, Some(&FloatKernel(Product)), &[g, y], shape, dtype)?,
        Kind::LogSoftmax => kept.fold(Reduce::Sum, None, &[g], shape, dtype)?,
    })
}

const OP: &str = "cross_entropy";

/// The results of [`cross_entropy`] for some rows.
type Cells<'a, T> = (&'a mut [T], &'a mut [[T; 2]]);

fn split_cells<'a, T>((losses, pairs): Cells<'a, T>, at: usize) -> (Cells<'a, T>, Cells<'a, T>) {
    let ((a, c), (b, d)) = (losses.split_at_mut(at), pairs.split_at_mut(at));
    ((a, b), (c, d))
}

/// The cross-entropy of scores `[..., c]` and class numbers `[...]`: `-log_softmax(scores)` at each row's class, and
/// what [`cross_entropy_backward`] needs besides (two numbers per row). The log-probabilities are not stored.
///
/// # Errors
/// `DTypeUnsupported` unless the scores are `F32` or `F64`, `DTypeMismatch` unless the classes are `I64`, `Rank` for a
/// single score, `ShapeMismatch` unless the classes have the scores' shape without its last axis, `IndexOutOfRange`.
///
/// ```
/// use foldback_tensor::{kernel, tensor};
/// let (scores, classes) = (tensor![[0.0, 0.0], [9.0, 9.0]], tensor![0, 1; i64]);
/// let (losses, norms) = kernel::cross_entropy(&scores, &classes)?;
/// assert_eq!(losses, tensor![2f32.ln(), 2f32.ln()]);
/// let gradient = kernel::cross_entropy_backward(&tensor![1.0, 1.0], &scores, &classes, &norms)?;
/// foldback_tensor::assert_close!(gradient, tensor![[-0.5, 0.5], [0.5, -0.5]]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
pub fn cross_entropy(scores: &Tensor, classes: &Tensor) -> Result<(Tensor, Tensor)> {
    fn run<T: RowFloat>(x: &Tensor, classes: &Tensor, n: usize) -> Result<(Tensor, Tensor)> {
        let count = classes.numel();
        let pairs = [count, 2].into();
        let (mut losses, mut norms) = (room(OP, classes.shape(), T::DTYPE)?, room(OP, &pairs, T::DTYPE)?);
        let (out, (cells, _)) =
            (typed_mut::<T>(losses.block_mut()), typed_mut::<T>(norms.block_mut()).as_chunks_mut::<2>());
        let (x, own): (&[T], &[i64]) = (typed(x), typed(classes));
        split_work(count, rows_at_once(n), (out, cells), &split_cells, &|first, count, (losses, pairs)| {
            rows::cross_entropy(&x[first * n..][..count * n], &own[first..][..count], n, losses, pairs);
        });
        let shape = classes.shape().clone();
        Ok((Tensor::from_storage(losses, shape), Tensor::from_storage(norms, pairs)))
    }
    let n = expect_classes(scores, classes)?;
    if classes.numel() == 0 {
        let dtype = scores.dtype();
        return Ok((Tensor::zeros(classes.shape(), dtype), Tensor::zeros([0, 2], dtype)));
    }
    let (x, classes) = (scores.laid_out(OP)?, classes.laid_out(OP)?);
    match x.dtype() {
        DType::F64 => run::<f64>(&x, &classes, n),
        _ => run::<f32>(&x, &classes, n),
    }
}

/// The gradient of [`cross_entropy`] for the scores, given that of the losses: `g (softmax(scores) - 1)` at each row's
/// class, `g softmax(scores)` elsewhere.
///
/// # Errors
/// As [`cross_entropy`], and `ShapeMismatch` for `g` or the norms.
pub fn cross_entropy_backward(
    g: &Tensor,
    scores: &Tensor,
    classes: &Tensor,
    norms: &Tensor,
) -> Result<Tensor> {
    fn run<T: RowFloat>(
        g: &Tensor,
        x: &Tensor,
        classes: &Tensor,
        norms: &Tensor,
        n: usize,
    ) -> Result<Tensor> {
        let own = |t: &Tensor| t.cast(OP, T::DTYPE)?.laid_out(OP);
        let (g, norms) = (own(g)?, own(norms)?);
        let (g, own, (pairs, _)): (&[T], &[T], _) =
            (typed(&g), typed(x), typed::<T>(&norms).as_chunks::<2>());
        let classes: &[i64] = typed(classes);
        written(OP, x, n, |first, count, out| {
            let part = first..first + count;
            let x = &own[first * n..][..count * n];
            let (g, classes, pairs) = (&g[part.clone()], &classes[part.clone()], &pairs[part]);
            rows::cross_entropy_backward(g, x, classes, pairs, n, out);
        })
    }
    let n = expect_classes(scores, classes)?;
    expect_shape(OP, classes.dims(), g)?;
    expect_shape(OP, &[classes.numel(), 2], norms)?;
    if scores.numel() == 0 {
        return Ok(Tensor::zeros(scores.shape(), scores.dtype()));
    }
    let (x, classes) = (scores.laid_out(OP)?, classes.laid_out(OP)?);
    match x.dtype() {
        DType::F64 => run::<f64>(g, &x, &classes, norms, n),
        _ => run::<f32>(g, &x, &classes, norms, n),
    }
}

/// Refuses what [`cross_entropy`] refuses; the number of classes.
fn expect_classes(scores: &Tensor, classes: &Tensor) -> Result<usize> {
    expect_float(OP, scores)?;
    classes.expect_dtype(OP, DType::I64)?;
    let Some((&n, outer)) = scores.dims().split_last() else {
        return Err(Error::Rank { op: OP, expected: "at least 1", found: 0 });
    };
    expect_shape(OP, outer, classes)?;
    let list = classes.laid_out(OP)?;
    let outside = typed::<i64>(&list).iter().find(|&&c| c < 0 || c as u64 >= n as u64);
    match outside {
        Some(&index) => Err(Error::IndexOutOfRange { op: OP, index, axis: outer.len(), size: n }),
        None => Ok(n),
    }
}

fn expect_float(op: &'static str, t: &Tensor) -> Result<DType> {
    let dtype = t.dtype();
    if dtype.is_float() { Ok(dtype) } else { Err(Error::DTypeUnsupported { op, dtype }) }
}

fn expect_shape(op: &'static str, expected: &[usize], found: &Tensor) -> Result<()> {
    if found.dims() == expected {
        return Ok(());
    }
    Err(Error::ShapeMismatch { op, expected: expected.into(), found: found.shape().clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ThreadPool, assert_close, tensor};

    fn wave(shape: &[usize], dtype: DType, step: f64) -> Tensor {
        let n: usize = shape.iter().product();
        let values: Vec<f64> = (0..n).map(|i| 5.0 * (i as f64 * step).sin()).collect();
        Tensor::from_vec(values, shape).unwrap().to_dtype(dtype)
    }

    const SHAPES: [&[usize]; 6] = [&[1], &[7], &[3, 10], &[70, 1000], &[2, 3, 65], &[40, 1]];

    /// The gradients by whole-tensor operations.
    fn composed(kind: Kind, g: &Tensor, y: &Tensor, axis: isize) -> Tensor {
        match kind {
            Kind::Softmax => y * (g - (g * y).sum(axis, true).unwrap()),
            Kind::LogSoftmax => g - y.exp() * g.sum(axis, true).unwrap(),
        }
    }

    #[test]
    fn gradients_are_those_of_whole_tensors() {
        for dtype in [DType::F32, DType::F64] {
            for shape in SHAPES {
                let (x, dense) = (wave(shape, dtype, 0.7), wave(shape, dtype, 1.3));
                let one = Tensor::full((), 0.5, dtype).expand(shape).unwrap();
                let per_row = dense.narrow(-1, 0, 1).unwrap().expand(shape).unwrap();
                for kind in [Kind::Softmax, Kind::LogSoftmax] {
                    for axis in 0..shape.len() as isize {
                        let y = match kind {
                            Kind::Softmax => x.softmax(axis).unwrap(),
                            Kind::LogSoftmax => x.log_softmax(axis).unwrap(),
                        };
                        for g in [&dense, &one, &per_row] {
                            let want = composed(kind, g, &y, axis);
                            let found = backward("test", kind, g, &y, axis).unwrap();
                            assert_close!(found, want, atol = 1e-4, rtol = 1e-5);
                            let turned = backward("test", kind, &g.t_last(), &y.t_last(), -1 - axis).unwrap();
                            assert_close!(
                                turned.t_last(),
                                composed(kind, g, &y, axis),
                                atol = 1e-4,
                                rtol = 1e-5
                            );
                        }
                    }
                }
            }
        }
    }

    impl Tensor {
        /// All axes in the opposite order.
        fn t_last(&self) -> Tensor {
            self.permute((0..self.rank()).rev().collect::<Vec<_>>()).unwrap()
        }
    }

    #[test]
    fn losses_are_the_picked_log_probabilities() {
        for dtype in [DType::F32, DType::F64] {
            for shape in SHAPES {
                let (outer, n) = (&shape[..shape.len() - 1], shape[shape.len() - 1]);
                let x = wave(shape, dtype, 0.7);
                let count: usize = outer.iter().product();
                let classes: Vec<i64> = (0..count).map(|i| (i * 7 % n) as i64).collect();
                let classes = Tensor::from_vec(classes, outer).unwrap();
                let (losses, norms) = cross_entropy(&x, &classes).unwrap();
                let axis = outer.len() as isize;
                let index = classes.unsqueeze(axis).unwrap();
                let picked = x.log_softmax(-1).unwrap().gather(axis, &index).unwrap().squeeze(axis).unwrap();
                assert_eq!(losses, -&picked);
                let g = wave(outer, dtype, 0.3);
                let spread =
                    Tensor::zeros(shape, dtype).scatter_add(axis, &index, &-&g.unsqueeze(axis).unwrap());
                let want = composed(Kind::LogSoftmax, &spread.unwrap(), &x.log_softmax(-1).unwrap(), -1);
                let found = cross_entropy_backward(&g, &x, &classes, &norms).unwrap();
                assert_close!(found, want, atol = 1e-5, rtol = 1e-5);
            }
        }
    }

    #[test]
    fn rows_without_a_finite_maximum_lose_nan() {
        let inf = f32::INFINITY;
        let x = tensor![[-inf, -inf], [inf, 0.0], [f32::NAN, 0.0], [-inf, 0.0]];
        let (losses, _) = cross_entropy(&x, &tensor![0, 1, 1, 0; i64]).unwrap();
        let losses = losses.to_vec::<f32>().unwrap();
        assert!(losses[..3].iter().all(|l| l.is_nan()));
        assert_eq!(losses[3], inf);
    }

    #[test]
    fn same_bits_for_any_number_of_threads() {
        for shape in [&[300, 500][..], &[3, 30_000], &[50_000, 3]] {
            let (x, g) = (wave(shape, DType::F32, 0.7), wave(shape, DType::F32, 1.1));
            let classes = Tensor::zeros([shape[0]], DType::I64);
            let all = || {
                let y = x.softmax(1).unwrap();
                let (losses, norms) = cross_entropy(&x, &classes).unwrap();
                let gradient = cross_entropy_backward(&losses, &x, &classes, &norms).unwrap();
                [softmax_backward(&g, &y, 1).unwrap(), log_softmax_backward(&g, &y, 1).unwrap(), gradient]
            };
            let one = ThreadPool::new(1).install(all);
            for n in [2, 8] {
                assert_eq!(one, ThreadPool::new(n).install(all));
            }
        }
    }

    #[test]
    fn nothing_at_all() {
        let (none, empty) = (Tensor::zeros([0], DType::I64), Tensor::zeros([0, 3], DType::F64));
        let (losses, norms) = cross_entropy(&empty, &none).unwrap();
        assert_eq!((losses.dims(), norms.dims()), (&[0][..], &[0, 2][..]));
        assert_eq!(cross_entropy_backward(&losses, &empty, &none, &norms).unwrap(), empty);
        assert_eq!(cross_entropy(&Tensor::zeros([0, 0], DType::F32), &none).unwrap().0.dims(), [0]);
        assert_eq!(softmax_backward(&empty, &empty, 1).unwrap(), empty);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let (x, classes) = (Tensor::zeros([2, 3], DType::F32), tensor![0, 2; i64]);
        for outside in [tensor![0, 3; i64], tensor![-1, 0; i64]] {
            assert!(matches!(
                cross_entropy(&x, &outside),
                Err(Error::IndexOutOfRange { axis: 1, size: 3, .. })
            ));
        }
        assert!(matches!(cross_entropy(&x, &tensor![0; i64]), Err(Error::ShapeMismatch { .. })));
        assert!(matches!(cross_entropy(&x, &tensor![0.0, 1.0]), Err(Error::DTypeMismatch { .. })));
        assert!(matches!(cross_entropy(&classes, &classes), Err(Error::DTypeUnsupported { .. })));
        assert!(matches!(cross_entropy(&Tensor::scalar(1.0f32), &classes), Err(Error::Rank { .. })));
        let (losses, norms) = cross_entropy(&x, &classes).unwrap();
        assert!(cross_entropy_backward(&x, &x, &classes, &norms).is_err());
        assert!(cross_entropy_backward(&losses, &x, &classes, &losses).is_err());
        assert!(matches!(softmax_backward(&losses, &x, 1), Err(Error::ShapeMismatch { .. })));
        assert!(matches!(log_softmax_backward(&x, &x, 2), Err(Error::AxisOutOfRange { .. })));
    }
}
