//! Cross-entropy of class numbers: the logarithm of softmax where it is asked for, on rows in the cache.

use super::expect_shape;
use super::formulas::LogSoftmax;
use super::run::rows_at_once;
use crate::dtype::{BlockMut, DType, Element, typed_mut};
use crate::error::{Here, Result, TensorFacts, refuse};
use crate::kernels::softmax::{RowFloat, loss_of, losses_backward, norms_of_rows};
use crate::ops::reduce::expect_float;
use crate::task::{self, Read, WholeRule};
use crate::tensor::Tensor;
use crate::threads::split_work;

const OP: &str = "cross_entropy";

fn typed<T: Element>(t: &Tensor) -> &[T] {
    t.as_slice().expect("types and layouts have been checked")
}

/// The cross-entropy of scores `[..., c]` and class numbers `[...]`: `-log_softmax(scores)` at each row's class, and
/// what [`cross_entropy_backward`] needs besides (two numbers per row). The log-probabilities are not stored.
///
/// # Errors
/// `DTypeUnsupported` unless the scores are `F32` or `F64`, `DTypeMismatch` unless the classes are `I64`, `Rank` for a
/// single score, `ShapeMismatch` unless the classes have the scores' shape without its last axis, `IndexOutOfRange`,
/// `TooLarge` if scores or classes are expanded views that no memory can hold.
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
#[track_caller]
pub fn cross_entropy(scores: &Tensor, classes: &Tensor) -> Result<(Tensor, Tensor)> {
    let (x, classes, n) = prepared(scores, classes).here()?;
    let (dtype, shape) = (x.dtype(), [classes.numel(), 2].into());
    let own = |t| Read::Tensor(t, dtype);
    let pairs = task::whole(OP, &Norms(n), &[own(&x)], &shape, dtype).here()?;
    let reads = [own(&x), Read::Tensor(&classes, DType::I64), own(&pairs)];
    let losses = task::whole(OP, &RowLosses(n), &reads, classes.shape(), dtype).here()?;
    Ok((losses, pairs))
}

/// For each row of so many scores the largest, and the logarithm of the sum of shifted exponentials.
struct Norms(usize);

impl WholeRule for Norms {
    fn run(&self, _: &'static str, reads: &[&Tensor], out: BlockMut<'_>) -> Result<()> {
        fn run<T: RowFloat>(x: &[T], n: usize, pairs: &mut [[T; 2]]) {
            split_work(
                pairs.len(),
                rows_at_once(n),
                pairs,
                &|p, at| p.split_at_mut(at),
                &|first, count, out| {
                    norms_of_rows(&LogSoftmax, &x[first * n..][..count * n], n, out);
                },
            );
        }
        match out {
            BlockMut::F64(out) => run::<f64>(typed(reads[0]), self.0, out.as_chunks_mut().0),
            out => run::<f32>(typed(reads[0]), self.0, typed_mut(out).as_chunks_mut().0),
        }
        Ok(())
    }
}

/// The loss of each row of so many scores, given its class and what [`Norms`] has for it.
struct RowLosses(usize);

impl WholeRule for RowLosses {
    fn run(&self, _: &'static str, reads: &[&Tensor], out: BlockMut<'_>) -> Result<()> {
        fn run<T: RowFloat>(x: &[T], classes: &[i64], pairs: &[[T; 2]], n: usize, losses: &mut [T]) {
            for (((x, &class), &pair), loss) in x.chunks_exact(n).zip(classes).zip(pairs).zip(losses) {
                *loss = loss_of(&LogSoftmax, x[class as usize], pair);
            }
        }
        let (x, classes, pairs) = (reads[0], typed(reads[1]), reads[2]);
        match out {
            BlockMut::F64(out) => run::<f64>(typed(x), classes, typed(pairs).as_chunks().0, self.0, out),
            out => run::<f32>(typed(x), classes, typed(pairs).as_chunks().0, self.0, typed_mut(out)),
        }
        Ok(())
    }
}

/// The gradient of [`cross_entropy`] for the scores, given that of the losses: `g (softmax(scores) - 1)` at each row's
/// class, `g softmax(scores)` elsewhere.
///
/// # Errors
/// As [`cross_entropy`], and `ShapeMismatch` for `g` or the norms.
#[track_caller]
pub fn cross_entropy_backward(
    g: &Tensor,
    scores: &Tensor,
    classes: &Tensor,
    norms: &Tensor,
) -> Result<Tensor> {
    let (x, classes, n) = prepared(scores, classes).here()?;
    expect_shape(OP, "gradient", classes.dims(), g).here()?;
    expect_shape(OP, "norms", &[classes.numel(), 2], norms).here()?;
    let own = |t: &Tensor| t.cast(OP, x.dtype())?.laid_out(OP);
    let (g, norms) = (own(g).here()?, own(norms).here()?);
    let own = |t| Read::Tensor(t, x.dtype());
    let reads = [own(&g), own(&x), Read::Tensor(&classes, DType::I64), own(&norms)];
    task::whole(OP, &LossesBackward(n), &reads, x.shape(), x.dtype()).here()
}

/// The gradient of [`RowLosses`] for the scores, given that of the losses.
struct LossesBackward(usize);

impl WholeRule for LossesBackward {
    fn run(&self, _: &'static str, reads: &[&Tensor], out: BlockMut<'_>) -> Result<()> {
        fn run<T: RowFloat>(reads: &[&Tensor], n: usize, out: &mut [T]) {
            let (g, x, classes): (&[T], &[T], &[i64]) = (typed(reads[0]), typed(reads[1]), typed(reads[2]));
            let pairs = typed::<T>(reads[3]).as_chunks().0;
            split_work(
                classes.len(),
                rows_at_once(n),
                out,
                &|o: &mut [T], at| o.split_at_mut(at * n),
                &|first, count, out| {
                    let (part, x) = (first..first + count, &x[first * n..][..count * n]);
                    let (g, classes, pairs) = (&g[part.clone()], &classes[part.clone()], &pairs[part]);
                    losses_backward(&LogSoftmax, g, x, classes, pairs, n, out);
                },
            );
        }
        match out {
            BlockMut::F64(out) => run::<f64>(reads, self.0, out),
            out => run::<f32>(reads, self.0, typed_mut(out)),
        }
        Ok(())
    }
}

/// Refuses what [`cross_entropy`] refuses; scores and classes laid out, and the length of a row, which is 1 if there is
/// nothing in it.
fn prepared(scores: &Tensor, classes: &Tensor) -> Result<(Tensor, Tensor, usize)> {
    expect_float(OP, scores)?;
    classes.expect_dtype(OP, "classes", DType::I64)?;
    let Some((&size, outer)) = scores.dims().split_last() else {
        return refuse(TensorFacts::Rank { op: OP, operand: "scores", expected: "at least 1", found: 0 });
    };
    expect_shape(OP, "class numbers", outer, classes)?;
    let classes = classes.laid_out(OP)?;
    if let Some(&index) = typed::<i64>(&classes).iter().find(|&&c| c < 0 || c as u64 >= size as u64) {
        return refuse(TensorFacts::IndexOutOfRange { op: OP, index, axis: outer.len(), size });
    }
    Ok((scores.laid_out(OP)?, classes, size.max(1)))
}

#[cfg(test)]
mod tests {
    use super::super::log_softmax_backward;
    use super::super::tests::{SHAPES, wave};
    use super::*;
    use crate::{assert_close, refused, tensor};

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
                    Tensor::zeros_with(shape, dtype).scatter_add(axis, &index, &-&g.unsqueeze(axis).unwrap());
                let want =
                    log_softmax_backward(&spread.unwrap(), &x.log_softmax(-1).unwrap(), (-1).into()).unwrap();
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
    fn nothing_at_all() {
        let (none, empty) = (Tensor::zeros_with([0], DType::I64), Tensor::zeros_with([0, 3], DType::F64));
        let (losses, norms) = cross_entropy(&empty, &none).unwrap();
        assert_eq!((losses.dims(), norms.dims()), (&[0][..], &[0, 2][..]));
        assert_eq!(cross_entropy_backward(&losses, &empty, &none, &norms).unwrap(), empty);
        assert_eq!(cross_entropy(&Tensor::zeros([0, 0]), &none).unwrap().0.dims(), [0]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let (x, classes) = (Tensor::zeros([2, 3]), tensor![0, 2; i64]);
        for outside in [tensor![0, 3; i64], tensor![-1, 0; i64]] {
            assert!(refused!(
                cross_entropy(&x, &outside),
                TensorFacts::IndexOutOfRange { axis: 1, size: 3, .. }
            ));
        }
        assert!(refused!(cross_entropy(&x, &tensor![0; i64]), TensorFacts::ShapeMismatch { .. }));
        assert!(refused!(cross_entropy(&x, &tensor![0.0, 1.0]), TensorFacts::DTypeMismatch { .. }));
        assert!(refused!(cross_entropy(&classes, &classes), TensorFacts::DTypeUnsupported { .. }));
        assert!(refused!(cross_entropy(&Tensor::scalar(1.0f32), &classes), TensorFacts::Rank { .. }));
        let (losses, norms) = cross_entropy(&x, &classes).unwrap();
        assert!(cross_entropy_backward(&x, &x, &classes, &norms).is_err());
        assert!(cross_entropy_backward(&losses, &x, &classes, &losses).is_err());
    }
}
