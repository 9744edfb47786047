//! Softmax and its logarithm, the logarithm of a sum of exponentials, and cross-entropy, with their gradients, each shifted
//! by the largest element.

mod cross_entropy;
mod formulas;
mod run;

pub use cross_entropy::{cross_entropy, cross_entropy_backward};
use formulas::{LogSoftmax, LogSumExp, Softmax};
pub use formulas::{LogSoftmaxGradient, SoftmaxGradient};
use run::{RowRule, in_cache, in_folds, rows_in_cache};

use crate::axes::{Axis, Over, keep};
use crate::error::{Here, Result, TensorFacts, refuse};
use crate::ops::reduce::{Kept, expect_float};
use crate::tensor::Tensor;

impl Tensor {
    /// `exp(x) / sum(exp(x))` along an axis, computed as `exp(x - m) / sum(exp(x - m))` with `m` the largest element.
    ///
    /// The result has the same shape and element type, `F32` or `F64`. A row that holds NaN or +inf, or nothing but -inf,
    /// is NaN, as in PyTorch.
    ///
    /// # Errors
    /// `DTypeUnsupported` for `Bool` and `I64`, `AxisOutOfRange`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![[0.0, 0.0], [1000.0, 1000.0]];
    /// assert_eq!(x.softmax(1)?, tensor![[0.5, 0.5], [0.5, 0.5]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn softmax(&self, axis: impl Into<Axis>) -> Result<Tensor> {
        softmax(self, axis.into()).here()
    }

    /// `ln(softmax(x))` along an axis, computed as `x - m - ln(sum(exp(x - m)))`, which stays finite where the share
    /// itself is too small for a number.
    ///
    /// # Errors
    /// `DTypeUnsupported` for `Bool` and `I64`, `AxisOutOfRange`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![0.0, -1000.0].log_softmax(0)?, tensor![0.0, -1000.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn log_softmax(&self, axis: impl Into<Axis>) -> Result<Tensor> {
        log_softmax(self, axis.into()).here()
    }

    /// `ln(sum(exp(x)))` over `axes`, shifted by the largest element so that it neither overflows nor loses small terms.
    ///
    /// Integers and truth values are taken as `F32`. Nothing but -inf gives -inf, so does an empty axis; +inf gives +inf.
    ///
    /// # Errors
    /// `AxisOutOfRange` or `DuplicateAxis`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1000.0, 1000.0], [0.0, f32::NEG_INFINITY]];
    /// let y = x.logsumexp(1)?;
    /// assert!((y.to_vec::<f32>()?[0] - (1000.0 + 2f32.ln())).abs() < 1e-4);
    /// assert_eq!(y.to_vec::<f32>()?[1], 0.0);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn logsumexp(&self, over: impl Into<Over>) -> Result<Tensor> {
        logsumexp(self, &over.into()).here()
    }
}

fn softmax(x: &Tensor, axis: Axis) -> Result<Tensor> {
    along("softmax", &Softmax, [x, x], axis)
}

fn log_softmax(x: &Tensor, axis: Axis) -> Result<Tensor> {
    along("log_softmax", &LogSoftmax, [x, x], axis)
}

fn logsumexp(x: &Tensor, over: &Over) -> Result<Tensor> {
    let op = "logsumexp";
    let kept = Kept::new(op, x, &keep(over))?;
    let first = kept.flags.iter().position(|kept| !kept).unwrap_or(0);
    let reduced = first..first + kept.flags[first..].iter().take_while(|kept| !**kept).count();
    let operands = [x, x];
    let y = match rows_in_cache(x, &reduced).filter(|&[n, _]| n == kept.count && x.dtype().is_float()) {
        Some(rows) => in_cache(op, &LogSumExp, operands, (rows, reduced), &kept.shape)?,
        None => in_folds(op, &LogSumExp, operands, &kept, x.dtype().to_float())?,
    };
    if over.keepdim() { kept.shaped(op, y) } else { Ok(y.keep_axes(&kept.flags)) }
}

/// The gradient of [`Tensor::softmax`], given that of its result and the result `y`: `y (g - sum(g y))`.
///
/// # Errors
/// `DTypeUnsupported` unless `y` is `F32` or `F64`, `ShapeMismatch` unless `g` has its shape, `AxisOutOfRange`.
///
/// ```
/// use foldback_tensor::{kernel, tensor};
/// let y = tensor![0.0, 0.0].softmax(0)?;
/// assert_eq!(kernel::softmax_backward(&tensor![1.0, 0.0], &y, (0).into())?, tensor![0.25, -0.25]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[track_caller]
pub fn softmax_backward(g: &Tensor, y: &Tensor, axis: Axis) -> Result<Tensor> {
    along("softmax", &SoftmaxGradient, [g, y], axis).here()
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
/// assert_eq!(kernel::log_softmax_backward(&tensor![1.0, 0.0], &y, (0).into())?, tensor![0.5, -0.5]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[track_caller]
pub fn log_softmax_backward(g: &Tensor, y: &Tensor, axis: Axis) -> Result<Tensor> {
    along("log_softmax", &LogSoftmaxGradient, [g, y], axis).here()
}

/// Evaluates a rule along one axis, in the type of its last operand, whose axes are taken in the order in which they lie where that needs no copy.
fn along(op: &'static str, rule: &dyn RowRule, [a, b]: [&Tensor; 2], axis: Axis) -> Result<Tensor> {
    expect_float(op, b)?;
    expect_shape(op, "gradient", b.dims(), a)?;
    let axis = b.shape().axis(op, axis)?;
    let rows = rows_along(b, axis);
    if let Some((lying, order)) = b.as_it_lies() {
        let place = order.iter().position(|&own| own == axis).unwrap_or(0);
        let own = rows_along(&lying, place);
        if own.is_some() || rows.is_none() {
            let y = along_rows(op, rule, [&a.reordered(&order), &lying], (place, own))?;
            return Ok(y.put_back(&order));
        }
    }
    along_rows(op, rule, [a, b], (axis, rows))
}

/// [`rows_in_cache`] along one axis.
fn rows_along(t: &Tensor, axis: usize) -> Option<[usize; 2]> {
    rows_in_cache(t, &(axis..t.rank().min(axis + 1)))
}

fn along_rows(
    op: &'static str,
    rule: &dyn RowRule,
    [a, b]: [&Tensor; 2],
    (axis, rows): (usize, Option<[usize; 2]>),
) -> Result<Tensor> {
    match rows {
        Some(rows) => in_cache(op, rule, [a, b], (rows, axis..b.rank().min(axis + 1)), b.shape()),
        None => in_folds(op, rule, [a, b], &Kept::new(op, b, &keep(axis))?, b.dtype()),
    }
}

fn expect_shape(op: &'static str, operand: &'static str, expected: &[usize], found: &Tensor) -> Result<()> {
    if found.dims() == expected {
        return Ok(());
    }
    refuse(TensorFacts::ShapeMismatch {
        op,
        operand,
        expected: expected.into(),
        found: found.shape().clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, ThreadPool, assert_close, refused, tensor};

    const INF: f32 = f32::INFINITY;

    /// Rows around the lengths at which a loop takes several at once, or one.
    pub(super) const SHAPES: [&[usize]; 10] = [
        &[1],
        &[7],
        &[3, 10],
        &[70, 1000],
        &[2, 3, 65],
        &[40, 1],
        &[9, 256],
        &[5, 257],
        &[4, 512],
        &[3, 513],
    ];

    /// So many rows of few elements that results go past the caches, where rows begin with lines of memory and where they do not.
    #[test]
    fn wide_planes_are_those_of_their_parts() {
        crate::kernels::pretend_cache(32 << 20);
        for (lines, cols) in [(9, 400_000), (9, 400_001), (2, 2_000_016)] {
            let numbers = (0..lines * cols).map(|i| (i * 37 % 8191) as f32 / 512.0 - 8.0).collect::<Vec<_>>();
            let x = Tensor::from_vec(numbers, [lines, cols]).unwrap();
            let found = ThreadPool::new(1).install(|| x.softmax(0).unwrap());
            assert!(found == ThreadPool::new(3).install(|| x.softmax(0).unwrap()), "{lines} {cols}");
            for from in [0, 255, cols - 700] {
                let part = |t: &Tensor| t.narrow(1, from as isize, 700).unwrap();
                assert!(part(&found) == part(&x).contiguous().softmax(0).unwrap(), "{lines} {cols} {from}");
            }
        }
    }

    pub(super) fn wave(shape: &[usize], dtype: DType, step: f64) -> Tensor {
        let n: usize = shape.iter().product();
        let values: Vec<f64> = (0..n).map(|i| 20.0 * (i as f64 * step).sin()).collect();
        Tensor::from_vec(values, shape).unwrap().to(dtype)
    }

    /// The definition in f64 for a matrix, along its last axis.
    fn naive(x: &Tensor) -> Vec<f64> {
        let n = *x.dims().last().unwrap();
        let x = x.to(DType::F64).to_vec::<f64>().unwrap();
        let share = |row: &[f64]| -> Vec<f64> {
            let m = row.iter().copied().fold(f64::MIN, f64::max);
            let s: f64 = row.iter().map(|v| (v - m).exp()).sum();
            row.iter().map(|v| (v - m).exp() / s).collect()
        };
        x.chunks(n).flat_map(share).collect()
    }

    fn close(a: &Tensor, b: &[f64], tolerance: f64) {
        let a = a.to(DType::F64).to_vec::<f64>().unwrap();
        assert_eq!(a.len(), b.len());
        for (x, y) in a.iter().zip(b) {
            assert!((x - y).abs() <= tolerance * (1.0 + y.abs()), "{x} against {y}");
        }
    }

    #[test]
    fn shares_follow_the_definition_along_every_axis() {
        for (dtype, tolerance) in [(DType::F32, 2e-6), (DType::F64, 1e-14)] {
            for shape in [&[5][..], &[3, 7], &[4, 100], &[2, 3, 50], &[3, 3000]] {
                let x = wave(shape, dtype, 0.7);
                let want = naive(&x);
                close(&x.softmax(-1).unwrap(), &want, tolerance);
                let logs: Vec<f64> = want.iter().map(|v| v.ln()).collect();
                close(&x.log_softmax(-1).unwrap(), &logs, tolerance);
                if x.rank() > 1 {
                    let turned = x.transpose(0, -1).unwrap().contiguous();
                    close(&turned.softmax(0).unwrap().transpose(0, -1).unwrap(), &want, tolerance);
                    close(
                        &x.transpose(0, -1).unwrap().log_softmax(0).unwrap().transpose(0, -1).unwrap(),
                        &logs,
                        tolerance,
                    );
                }
            }
        }
    }

    /// As it lies where its rows are in the cache then, laid out where they are only so, and by folds.
    #[test]
    fn what_is_turned_is_as_it_is_laid_out() {
        let shapes: [(&[usize], &[isize]); 7] = [
            (&[20, 2, 10, 4], &[0, 1, 3, 2]),
            (&[9, 7, 40], &[0, 2, 1]),
            (&[3, 5, 300], &[0, 2, 1]),
            (&[3, 40, 300], &[2, 1, 0]),
            (&[300, 200], &[1, 0]),
            (&[4, 40, 5, 6], &[3, 1, 0, 2]),
            (&[2, 3, 2, 3], &[2, 3, 0, 1]),
        ];
        for ((shape, order), dtype) in shapes.iter().flat_map(|s| [(s, DType::F32), (s, DType::F64)]) {
            let turned = wave(shape, dtype, 0.7).permute(*order).unwrap();
            let (laid, g) = (turned.contiguous(), wave(turned.dims(), dtype, 0.3).mul(0.01).unwrap());
            for axis in 0..shape.len() {
                for f in [Tensor::softmax, Tensor::log_softmax] {
                    let (found, want) = (f(&turned, axis).unwrap(), f(&laid, axis).unwrap());
                    assert_close!(found, want, atol = 1e-5, rtol = 1e-5);
                    assert_eq!(found, f(&turned, axis).unwrap(), "the same bits each time");
                }
                let y = turned.softmax(axis).unwrap();
                for f in [softmax_backward, log_softmax_backward] {
                    let want = f(&g, &y.contiguous(), axis.into()).unwrap();
                    assert_close!(f(&g, &y, axis.into()).unwrap(), want, atol = 1e-5, rtol = 1e-4);
                    let one = Tensor::ones_with([1], dtype).expand(g.dims()).unwrap();
                    let want = f(&one, &y.contiguous(), axis.into()).unwrap();
                    assert_close!(f(&one, &y, axis.into()).unwrap(), want, atol = 1e-5, rtol = 1e-4);
                }
            }
        }
    }

    /// Several planes at once, one, and those that are left over, against rows that lie one after another.
    #[test]
    fn small_planes_are_as_their_rows() {
        for shape in [
            [300, 7, 9],
            [5, 2, 2],
            [1, 3, 10],
            [70, 64, 8],
            [3, 255, 2],
            [900, 2, 3],
            [41, 2, 250],
            [4, 1, 9],
            [5, 1, 300],
            [3, 2, 256],
            [2, 1, 512],
        ] {
            for dtype in [DType::F32, DType::F64] {
                let (x, g) = (wave(&shape, dtype, 0.7), wave(&shape, dtype, 0.3).mul(0.01).unwrap());
                let rows = |t: &Tensor| t.transpose(1, 2).unwrap().contiguous();
                let all = |x: &Tensor, g: &Tensor, axis: isize| {
                    let y = x.softmax(axis).unwrap();
                    let back =
                        [softmax_backward, log_softmax_backward].map(|f| f(g, &y, axis.into()).unwrap());
                    let sum = x.logsumexp(keep(axis)).unwrap();
                    let [a, b] = back;
                    [x.log_softmax(axis).unwrap(), y, a, b, sum]
                };
                let found = ThreadPool::new(1).install(|| all(&x, &g, 1));
                assert!(ThreadPool::new(3).install(|| all(&x, &g, 1)) == found, "{shape:?}");
                for (found, want) in found.iter().zip(all(&rows(&x), &rows(&g), 2)) {
                    assert_close!(rows(found), want, atol = 1e-5, rtol = 1e-4);
                }
            }
        }
    }

    #[test]
    fn rows_without_a_finite_maximum_are_nan() {
        let x = tensor![[-INF, -INF], [INF, 0.0], [f32::NAN, 0.0], [-INF, 0.0]];
        let y = x.softmax(1).unwrap().to_vec::<f32>().unwrap();
        assert!(y[0].is_nan() && y[1].is_nan() && y[2].is_nan() && y[4].is_nan() && y[5].is_nan());
        assert_eq!(&y[6..], [0.0, 1.0]);
        let l = x.log_softmax(1).unwrap().to_vec::<f32>().unwrap();
        assert!(l[0].is_nan() && l[1].is_nan() && l[4].is_nan());
        assert_eq!(&l[6..], [-INF, 0.0]);
    }

    #[test]
    fn single_numbers_and_empty_tensors() {
        assert_eq!(Tensor::scalar(3.0f32).softmax(0).unwrap(), Tensor::scalar(1.0f32));
        assert_eq!(Tensor::scalar(3.0f32).log_softmax(-1).unwrap(), Tensor::scalar(0.0f32));
        for shape in [[0, 3], [3, 0]] {
            assert_eq!(Tensor::zeros_with(shape, DType::F64).softmax(1).unwrap().dims(), shape);
            assert_eq!(Tensor::zeros_with(shape, DType::F64).log_softmax(0).unwrap().dims(), shape);
        }
        let wide = tensor![[1.0], [2.0]].expand([2, 4]).unwrap();
        assert_eq!(wide.softmax(1).unwrap(), Tensor::full([2, 4], 0.25));
        let empty = Tensor::zeros_with([0, 3], DType::F64);
        assert_eq!(softmax_backward(&empty, &empty, (1).into()).unwrap(), empty);
    }

    #[test]
    fn bad_softmax_is_refused() {
        for dtype in [DType::Bool, DType::I64] {
            assert!(refused!(
                Tensor::ones_with([2], dtype).softmax(0),
                TensorFacts::DTypeUnsupported { op: "softmax", .. }
            ));
            assert!(refused!(
                Tensor::ones_with([2], dtype).log_softmax(0),
                TensorFacts::DTypeUnsupported { .. }
            ));
        }
        assert!(refused!(Tensor::ones([2]).softmax(1), TensorFacts::AxisOutOfRange { axis: 1, .. }));
        assert!(refused!(Tensor::scalar(1.0f32).softmax(1), TensorFacts::AxisOutOfRange { .. }));
        assert!(refused!(Tensor::ones([2]).logsumexp(keep([0, 0])), TensorFacts::DuplicateAxis { .. }));
        let (x, other) = (Tensor::zeros([2, 3]), Tensor::zeros([2]));
        assert!(refused!(softmax_backward(&other, &x, (1).into()), TensorFacts::ShapeMismatch { .. }));
        assert!(refused!(log_softmax_backward(&x, &x, (2).into()), TensorFacts::AxisOutOfRange { .. }));
    }

    /// All axes in the opposite order.
    fn turned(t: &Tensor) -> Tensor {
        t.permute((0..t.rank()).rev().collect::<Vec<_>>()).unwrap()
    }

    /// Each gradient by operations on whole tensors, for gradients of all layouts.
    #[test]
    fn gradients_are_those_of_whole_tensors() {
        type Gradient = fn(&Tensor, &Tensor, Axis) -> Result<Tensor>;
        type Forward = fn(&Tensor, isize) -> Result<Tensor>;
        let rules: [(Forward, Gradient, Gradient); 2] = [
            (
                |x, axis| x.softmax(axis),
                softmax_backward,
                |g, y, axis| y.mul(&g.sub(&g.mul(y)?.sum(keep(axis))?)?),
            ),
            (
                |x, axis| x.log_softmax(axis),
                log_softmax_backward,
                |g, y, axis| g.sub(&y.exp().mul(&g.sum(keep(axis))?)?),
            ),
        ];
        for (dtype, shape) in [DType::F32, DType::F64].iter().flat_map(|&d| SHAPES.map(|s| (d, s))) {
            let (x, dense) = (wave(shape, dtype, 0.7), wave(shape, dtype, 1.3).mul(0.25).unwrap());
            let one = Tensor::full_with((), 0.5, dtype).expand(shape).unwrap();
            let per_row = dense.narrow(-1, 0, 1).unwrap().expand(shape).unwrap();
            for (forward, backward, whole) in rules {
                for axis in 0..shape.len() as isize {
                    let y = forward(&x, axis).unwrap();
                    for g in [&dense, &one, &per_row] {
                        let want = whole(g, &y, axis.into()).unwrap();
                        assert_close!(backward(g, &y, axis.into()).unwrap(), want, atol = 1e-4, rtol = 1e-5);
                        let other_way = backward(&turned(g), &turned(&y), (-1 - axis).into()).unwrap();
                        assert_close!(turned(&other_way), want, atol = 1e-4, rtol = 1e-5);
                    }
                }
            }
        }
    }

    /// Whatever order the axes lie in: rows that are laid out, and rows that are columns of planes in memory.
    #[test]
    fn turned_tensors_have_the_values_of_copies() {
        for (dtype, dims) in
            [DType::F32, DType::F64].iter().flat_map(|&d| [[7, 20, 40], [3, 9, 300]].map(|s| (d, s)))
        {
            let [x, gradient] = [0.7, 1.3].map(|step| wave(&dims, dtype, step).mul(0.05).unwrap());
            for order in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
                let [x, g] = [&x, &gradient].map(|t| t.permute(order).unwrap());
                for axis in 0..3 {
                    let close = |found: Result<Tensor>, want: Result<Tensor>| {
                        assert_close!(found.unwrap(), want.unwrap(), atol = 1e-5, rtol = 1e-5)
                    };
                    let copy = x.contiguous();
                    close(x.softmax(axis), copy.softmax(axis));
                    close(x.logsumexp(keep(axis)), copy.logsumexp(keep(axis)));
                    let back = |g: &Tensor, x: &Tensor| softmax_backward(g, x, axis.into());
                    close(back(&g, &x), back(&g.contiguous(), &copy));
                    // With repeats there is nothing to lay out.
                    let wide =
                        x.unsqueeze(1).unwrap().expand([x.dims()[0], 2, x.dims()[1], x.dims()[2]]).unwrap();
                    let last = wide.softmax(3).unwrap();
                    assert_close!(
                        last.select(1, 1).unwrap(),
                        copy.softmax(2).unwrap(),
                        atol = 1e-5,
                        rtol = 1e-5
                    );
                }
            }
        }
    }

    /// Rows that lie across memory have the values of rows that lie in order: planes that are small, narrow, wide and long.
    #[test]
    fn rows_beside_each_other_are_those_that_they_are_in_order() {
        let planes = [
            [50, 3],
            [2, 64],
            [1, 200],
            [40, 16],
            [10, 100],
            [130, 33],
            [128, 256],
            [129, 256],
            [3, 257],
            [32, 520],
            [33, 300],
            [1, 600],
            [5, 20],
        ];
        for (dtype, [n, cols]) in [DType::F32, DType::F64].iter().flat_map(|&d| planes.map(|p| (d, p))) {
            let x = wave(&[3, n, cols], dtype, 0.7);
            let g = wave(&[3, n, cols], dtype, 1.3).mul(0.25).unwrap();
            let in_order = |t: &Tensor| t.transpose(1, 2).unwrap().contiguous();
            let (across, along) = (in_order(&x), in_order(&g));
            let back = |t: &Tensor| t.transpose(1, 2).unwrap();
            let close = |a: Result<Tensor>, b: Result<Tensor>| {
                assert_close!(a.unwrap(), back(&b.unwrap()), atol = 1e-6, rtol = 2e-6)
            };
            close(x.softmax(1), across.softmax(2));
            close(x.log_softmax(1), across.log_softmax(2));
            close(x.logsumexp(keep(1)), across.logsumexp(keep(2)));
            let (y, l) = (x.softmax(1).unwrap(), x.log_softmax(1).unwrap());
            let same = g.narrow(1, 0, 1).unwrap().expand([3, n, cols]).unwrap();
            for (g, turned) in [(&g, along), (&same, in_order(&same))] {
                close(softmax_backward(g, &y, 1.into()), softmax_backward(&turned, &in_order(&y), 2.into()));
                let down = log_softmax_backward(&turned, &in_order(&l), 2.into());
                assert_close!(
                    log_softmax_backward(g, &l, 1.into()).unwrap(),
                    back(&down.unwrap()),
                    atol = 1e-4,
                    rtol = 1e-5
                );
            }
        }
        // Several neighbouring axes are one; a row of nothing but -inf, one with +inf, and one with NaN.
        let x = wave(&[2, 4, 5, 20], DType::F64, 0.7);
        let rows = x.permute([0, 3, 1, 2]).unwrap().reshape([2, 20, 20]).unwrap();
        assert_close!(x.logsumexp([1, 2]).unwrap(), rows.logsumexp(2).unwrap(), atol = 1e-12);
        let odd = tensor![[-INF, INF, f32::NAN, 0.0], [-INF, 0.0, 0.0, -INF]].repeat([1, 40]).unwrap();
        for (across, along) in [
            (odd.softmax(0), odd.t().contiguous().softmax(1)),
            (odd.logsumexp(keep(0)), odd.t().contiguous().logsumexp(keep(1))),
        ] {
            assert_close!(across.unwrap().t(), along.unwrap(), rtol = 1e-6, equal_nan = true);
        }
    }

    #[test]
    fn logarithms_of_sums() {
        let x = wave(&[3, 40], DType::F64, 0.7);
        let v = x.to_vec::<f64>().unwrap();
        let want: Vec<f64> = v.chunks(40).map(|r| r.iter().map(|v| v.exp()).sum::<f64>().ln()).collect();
        close(&x.logsumexp(1).unwrap(), &want, 1e-13);
        let all = v.iter().map(|v| v.exp()).sum::<f64>().ln();
        let y = x.logsumexp(keep(..)).unwrap();
        assert_eq!(y.dims(), [1, 1]);
        close(&y, &[all], 1e-13);
        let x = tensor![[-INF, -INF], [INF, 0.0], [INF, -INF], [0.0, f32::NAN]];
        let y = x.logsumexp(1).unwrap().to_vec::<f32>().unwrap();
        assert_eq!(y[..3], [-INF, INF, INF]);
        assert!(y[3].is_nan());
        assert_eq!(tensor![0, 0; i64].logsumexp(0).unwrap().dtype(), DType::F32);
        assert_eq!(Tensor::ones_with([2], DType::Bool).logsumexp(keep(0)).unwrap().dims(), [1]);
        assert_eq!(Tensor::zeros([2, 0]).logsumexp(1).unwrap(), Tensor::full([2], -INF));
        assert_eq!(Tensor::zeros([0, 2]).logsumexp(keep(1)).unwrap().dims(), [0, 1]);
        assert_eq!(Tensor::scalar(2.0f32).logsumexp(0).unwrap(), Tensor::scalar(2.0f32));
    }

    #[test]
    fn same_bits_for_any_number_of_threads() {
        for shape in [&[300, 500][..], &[2, 100_000], &[100_000, 2], &[300, 60, 7]] {
            let x = wave(shape, DType::F32, 0.7);
            let classes = Tensor::zeros_with(&shape[..shape.len() - 1], DType::I64);
            let all = || {
                let (y, l) = (x.softmax(1).unwrap(), x.log_softmax(0).unwrap());
                let (up, down) = (softmax_backward(&x, &y, 1.into()), log_softmax_backward(&x, &l, 0.into()));
                let (losses, norms) = cross_entropy(&x, &classes).unwrap();
                let gradient = cross_entropy_backward(&losses, &x, &classes, &norms).unwrap();
                [y, l, up.unwrap(), down.unwrap(), x.logsumexp(1).unwrap(), losses, gradient]
            };
            let one = ThreadPool::new(1).install(all);
            for n in [2, 3, 8] {
                assert_eq!(one, ThreadPool::new(n).install(all));
            }
        }
    }
}
