//! Numbers at equal distances: `arange` and `linspace`.

use std::ops::Range;

use crate::dtype::{BlockMut, DType, Scalar};
use crate::error::{Here, Result, TensorFacts, or_panic, refuse};
use crate::task::{self, WholeRule};
use crate::tensor::Tensor;

/// A range of numbers: `0..10`, `0.0..1.0`, `10` for `0..10`, or `(10, 0)`, which may lead downwards (an empty range in
/// Rust). A range of integers counts in `I64`, one of floats in `F32`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    start: Scalar,
    end: Scalar,
}

impl Interval {
    /// From `start` up to, not including, `end`.
    pub fn new(start: impl Into<Scalar>, end: impl Into<Scalar>) -> Interval {
        Interval { start: start.into(), end: end.into() }
    }

    /// Both ends, if they are integers.
    pub(crate) fn integers(self) -> Option<Range<i64>> {
        match (self.start, self.end) {
            (Scalar::I64(start), Scalar::I64(end)) => Some(start..end),
            _ => None,
        }
    }

    fn dtype(self) -> DType {
        match (self.start, self.end) {
            (Scalar::F64(_), _) | (_, Scalar::F64(_)) => DType::F32,
            _ => DType::I64,
        }
    }
}

macro_rules! intervals {
    ($($t:ty),*) => {$(
        impl From<Range<$t>> for Interval {
            fn from(r: Range<$t>) -> Interval {
                Interval::new(r.start, r.end)
            }
        }
        impl From<($t, $t)> for Interval {
            fn from((start, end): ($t, $t)) -> Interval {
                Interval::new(start, end)
            }
        }
        impl From<$t> for Interval {
            fn from(end: $t) -> Interval {
                Interval::new(0 as $t, end)
            }
        }
    )*};
}
intervals!(i32, i64, f32, f64);
impl From<Range<usize>> for Interval {
    fn from(r: Range<usize>) -> Interval {
        // What no i64 holds is more than any memory.
        let signed = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        Interval::new(signed(r.start), signed(r.end))
    }
}
impl From<usize> for Interval {
    fn from(end: usize) -> Interval {
        Interval::from(0..end)
    }
}

/// # Sequences
impl Tensor {
    /// The numbers of a range, one after another: `I64` for integers, `f32` for floats. `10` is `0..10`.
    ///
    /// # Panics
    /// Where [`Tensor::try_arange`] returns an error.
    ///
    /// ```
    /// use foldback_tensor::{Tensor, tensor};
    /// assert_eq!(Tensor::arange(3), tensor![0, 1, 2; i64]);
    /// assert_eq!(Tensor::arange(2..5), tensor![2, 3, 4; i64]);
    /// assert_eq!(Tensor::arange(0.5..3.0), tensor![0.5, 1.5, 2.5]);
    /// ```
    #[track_caller]
    pub fn arange(range: impl Into<Interval>) -> Tensor {
        or_panic(Tensor::try_arange(range))
    }

    /// The numbers of a range in steps of `step`: `[ceil((end - start) / step)]`.
    ///
    /// Element `i` is `start + i * step`, for floating-point types computed in `f64` with one rounding. For `I64`, start
    /// and step are rounded towards zero after the count was taken, as in PyTorch.
    ///
    /// # Panics
    /// Where [`Tensor::try_arange_with`] returns an error.
    ///
    /// ```
    /// use foldback_tensor::{DType, Tensor, tensor};
    /// assert_eq!(Tensor::arange_with(0..5, 2, DType::I64), tensor![0, 2, 4; i64]);
    /// assert_eq!(Tensor::arange_with((1, 0), -0.5, DType::F32), tensor![1.0, 0.5]);
    /// ```
    #[track_caller]
    pub fn arange_with(range: impl Into<Interval>, step: impl Into<Scalar>, dtype: DType) -> Tensor {
        or_panic(Tensor::try_arange_with(range, step, dtype))
    }

    /// [`Tensor::arange`] without a panic.
    ///
    /// # Errors
    /// `Parameter` if the range leads downwards, or a bound is not finite; `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::{Tensor, tensor};
    /// assert_eq!(Tensor::try_arange(2)?, tensor![0, 1; i64]);
    /// assert!(Tensor::try_arange(5..0).is_err());
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn try_arange(range: impl Into<Interval>) -> Result<Tensor> {
        let range = range.into();
        arange(range, Scalar::I64(1), range.dtype()).here()
    }

    /// [`Tensor::arange_with`] without a panic.
    ///
    /// # Errors
    /// `Parameter` if the step is zero, leads away from the end, or a bound is not finite; `DTypeUnsupported` for
    /// `Bool`; `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::{DType, Tensor};
    /// assert!(Tensor::try_arange_with(0..5, 0, DType::F32).is_err());
    /// assert!(Tensor::try_arange_with(0..5, -1, DType::F32).is_err());
    /// ```
    #[track_caller]
    pub fn try_arange_with(
        range: impl Into<Interval>,
        step: impl Into<Scalar>,
        dtype: DType,
    ) -> Result<Tensor> {
        arange(range.into(), step.into(), dtype).here()
    }

    /// `steps` numbers from `start` to `end`, both included, at equal distances: `[steps]`, `f32`.
    ///
    /// The first half counts from `start` and the second half back from `end`, as in PyTorch, so that the ends are
    /// exact. One step gives `start`; integers are rounded towards zero. Products are not rounded before they are added.
    ///
    /// # Panics
    /// Where [`Tensor::try_linspace`] returns an error.
    ///
    /// ```
    /// use foldback_tensor::{Tensor, tensor};
    /// assert_eq!(Tensor::linspace(0, 1, 5), tensor![0.0, 0.25, 0.5, 0.75, 1.0]);
    /// ```
    #[track_caller]
    pub fn linspace(start: impl Into<Scalar>, end: impl Into<Scalar>, steps: usize) -> Tensor {
        or_panic(Tensor::try_linspace(start, end, steps))
    }

    /// [`Tensor::linspace`] of a given element type.
    ///
    /// # Panics
    /// Where [`Tensor::try_linspace_with`] returns an error.
    ///
    /// ```
    /// use foldback_tensor::{DType, Tensor, tensor};
    /// assert_eq!(Tensor::linspace_with(0, 4, 3, DType::I64), tensor![0, 2, 4; i64]);
    /// ```
    #[track_caller]
    pub fn linspace_with(
        start: impl Into<Scalar>,
        end: impl Into<Scalar>,
        steps: usize,
        dtype: DType,
    ) -> Tensor {
        or_panic(Tensor::try_linspace_with(start, end, steps, dtype))
    }

    /// [`Tensor::linspace`] without a panic.
    ///
    /// # Errors
    /// `TooLarge`.
    ///
    /// ```
    /// assert!(foldback_tensor::Tensor::try_linspace(0, 1, usize::MAX).is_err());
    /// ```
    #[track_caller]
    pub fn try_linspace(start: impl Into<Scalar>, end: impl Into<Scalar>, steps: usize) -> Result<Tensor> {
        linspace(start.into(), end.into(), steps, DType::F32).here()
    }

    /// [`Tensor::linspace_with`] without a panic.
    ///
    /// # Errors
    /// `DTypeUnsupported` for `Bool`; `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::{DType, Tensor};
    /// assert!(Tensor::try_linspace_with(0, 1, 3, DType::Bool).is_err());
    /// ```
    #[track_caller]
    pub fn try_linspace_with(
        start: impl Into<Scalar>,
        end: impl Into<Scalar>,
        steps: usize,
        dtype: DType,
    ) -> Result<Tensor> {
        linspace(start.into(), end.into(), steps, dtype).here()
    }
}

fn arange(Interval { start, end }: Interval, step: Scalar, dtype: DType) -> Result<Tensor> {
    for (name, value) in [("start", start), ("end", end), ("step", step)] {
        if !value.to_f64().is_finite() {
            return refuse(parameter("arange", name, value, "a finite number"));
        }
    }
    match dtype {
        DType::Bool => refuse(TensorFacts::DTypeUnsupported { op: "arange", dtype }),
        DType::I64 => {
            let (first, by) = (start.to_i64(), step.to_i64());
            let whole = ![start, end, step].iter().any(|v| matches!(v, Scalar::F64(_)));
            let count = if whole {
                let distance = i128::from(end.to_i64()) - i128::from(first);
                check_step(step, distance as f64)?;
                let by = i128::from(by);
                usize::try_from((distance + by - by.signum()) / by).unwrap_or(usize::MAX)
            } else {
                count(start, end, step)?
            };
            // Whole numbers lie between start and end; fractions rounded towards zero may wrap, but never panic.
            sequence("arange", count, dtype, |_| 0.0, |i| first.wrapping_add((i as i64).wrapping_mul(by)))
        }
        DType::F32 | DType::F64 => {
            let (first, by) = (start.to_f64(), step.to_f64());
            sequence("arange", count(start, end, step)?, dtype, |i| by.mul_add(i as f64, first), |_| 0)
        }
    }
}

fn linspace(start: Scalar, end: Scalar, steps: usize, dtype: DType) -> Result<Tensor> {
    let half = steps / 2;
    let gaps = steps.saturating_sub(1).max(1);
    match dtype {
        DType::Bool => refuse(TensorFacts::DTypeUnsupported { op: "linspace", dtype }),
        DType::F32 => {
            let (a, b) = (start.to_f64() as f32, end.to_f64() as f32);
            let step = (b - a) / gaps as f32;
            let at = |i: usize| {
                if i < half { step.mul_add(i as f32, a) } else { (-step).mul_add((steps - i - 1) as f32, b) }
            };
            sequence("linspace", steps, dtype, |i| at_ends(i, steps, a, b, at) as f64, |_| 0)
        }
        DType::F64 | DType::I64 => {
            let whole = |s: Scalar| if dtype == DType::I64 { s.to_i64() as f64 } else { s.to_f64() };
            let (a, b) = (whole(start), whole(end));
            let step = (b - a) / gaps as f64;
            let at = |i: usize| {
                if i < half { step.mul_add(i as f64, a) } else { (-step).mul_add((steps - i - 1) as f64, b) }
            };
            let at = |i: usize| at_ends(i, steps, a, b, at);
            sequence("linspace", steps, dtype, at, |i| at(i) as i64)
        }
    }
}

/// The formula's value, but exactly the bounds at the ends; a single step is the start.
fn at_ends<T: Copy>(i: usize, steps: usize, start: T, end: T, at: impl Fn(usize) -> T) -> T {
    match i {
        0 => start,
        _ if i + 1 == steps => end,
        _ => at(i),
    }
}

fn parameter(op: &'static str, name: &'static str, value: Scalar, expected: &'static str) -> TensorFacts {
    TensorFacts::Parameter { op, name, value: value.to_string(), expected }
}

/// How many floating-point numbers there are from start to end; too many saturate.
fn count(start: Scalar, end: Scalar, step: Scalar) -> Result<usize> {
    let distance = end.to_f64() - start.to_f64();
    check_step(step, distance)?;
    Ok((distance / step.to_f64()).ceil() as usize)
}

/// Refuses a step of zero and one that leads away from the end.
fn check_step(step: Scalar, distance: f64) -> Result<()> {
    if step.to_f64() == 0.0 {
        return refuse(parameter("arange", "step", step, "a number other than zero"));
    }
    if step.to_f64().signum() * distance < 0.0 {
        return refuse(parameter("arange", "step", step, "a step that leads from start to end"));
    }
    Ok(())
}

/// A vector of elements computed from their position, as floating-point numbers or as integers.
pub(crate) struct Sequence<F, I> {
    pub(crate) float: F,
    pub(crate) integer: I,
}

impl<F: Fn(usize) -> f64, I: Fn(usize) -> i64> WholeRule for Sequence<F, I> {
    fn run(&self, _: &'static str, _: &[&Tensor], out: BlockMut<'_>) -> Result<()> {
        match out {
            BlockMut::F32(out) => out.iter_mut().enumerate().for_each(|(i, o)| *o = (self.float)(i) as f32),
            BlockMut::F64(out) => out.iter_mut().enumerate().for_each(|(i, o)| *o = (self.float)(i)),
            BlockMut::I64(out) => out.iter_mut().enumerate().for_each(|(i, o)| *o = (self.integer)(i)),
            BlockMut::Bool(_) => unreachable!("sequences of truth values are refused earlier"),
        }
        Ok(())
    }
}

fn sequence(
    op: &'static str,
    count: usize,
    dtype: DType,
    float: impl Fn(usize) -> f64,
    integer: impl Fn(usize) -> i64,
) -> Result<Tensor> {
    task::whole(op, &Sequence { float, integer }, &[], &count.into(), dtype)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType::*;
    use crate::{assert_close, refused, tensor};

    /// Expected values printed by PyTorch 2.15.
    #[test]
    fn arange_counts_as_pytorch() {
        let at = |a: f64, b: f64, s: f64, d| Tensor::arange_with(a..b, s, d);
        assert_close!(
            at(0.0, 1.0, 0.1, F32),
            Tensor::arange_with(0..10, 1, F32).div(10.0).unwrap(),
            atol = 0.0,
            rtol = 1e-7
        );
        assert_eq!(at(1.0, 0.0, -0.3, F64), tensor![1.0, 0.7, 0.4, 0.10000000000000003; f64]);
        assert_eq!(at(0.5, 3.1, 0.4, F64).numel(), 7);
        assert_eq!(at(0.0, 1.0, 0.1, I64), Tensor::zeros_with([10], I64));
        assert_eq!(at(-3.0, 4.0, 0.7, I64), Tensor::full_with([10], -3, I64));
        let f64s =
            tensor![-3.0, -2.3, -1.6, -0.9000000000000001, -0.20000000000000018, 0.4999999999999998; f64];
        assert_eq!(at(-3.0, 1.0, 0.7, F64), f64s);
        for d in [F32, F64, I64] {
            assert_eq!(Tensor::arange_with(0..5, 2, d), tensor![0, 2, 4].to(d));
            assert_eq!(Tensor::arange_with((0, -7), -3, d), tensor![0, -3, -6].to(d));
            assert_eq!(Tensor::arange_with(2..2, 1, d), tensor![].to(d));
        }
        let ends = Tensor::arange_with(i64::MIN..i64::MAX, i64::MAX, I64);
        assert_eq!(ends, tensor![i64::MIN, -1, i64::MAX - 1; i64]);
    }

    #[test]
    fn arange_refuses() {
        let refused = |a: Scalar, b: Scalar, s: Scalar, d| {
            Tensor::try_arange_with(Interval::new(a, b), s, d).unwrap_err()
        };
        let [zero, one, minus] = [0, 1, -1].map(Scalar::from);
        for d in [F32, F64, I64] {
            for (a, b, s) in
                [(zero, one, zero), (zero, one, minus), (one, zero, one), (zero, Scalar::from(f64::NAN), one)]
            {
                assert!(matches!(
                    refused(a, b, s, d).facts(),
                    Some(TensorFacts::Parameter { op: "arange", .. })
                ));
            }
            assert!(matches!(
                refused(zero, f64::INFINITY.into(), one, d).facts(),
                Some(TensorFacts::Parameter { name: "end", .. })
            ));
        }
        assert!(matches!(refused(zero, one, one, Bool).facts(), Some(TensorFacts::DTypeUnsupported { .. })));
    }

    /// Expected values printed by PyTorch 2.15.
    #[test]
    fn linspace_is_pytorchs() {
        let line = |a: f64, b: f64, n, d| Tensor::linspace_with(a, b, n, d);
        let f32s =
            tensor![-2.5, -1.525, -0.54999995, 0.42500007, 1.4000001, 2.375, 3.35, 4.325, 5.3, 6.275, 7.25];
        assert_eq!(line(-2.5, 7.25, 11, F32), f32s);
        let f64s =
            tensor![-2.5, -1.525, -0.55, 0.42499999999999993, 1.4, 2.375, 3.35, 4.325, 5.3, 6.275, 7.25; f64];
        assert_eq!(line(-2.5, 7.25, 11, F64), f64s);
        assert_eq!(line(-2.5, 7.25, 11, I64), tensor![-2, -1, 0, 0, 1, 2, 3, 4, 5, 6, 7; i64]);
        assert_eq!(line(3.0, -10.0, 6, F32), tensor![3.0, 0.4000001, -2.1999998, -4.8, -7.4, -10.0]);
        assert_eq!(line(3.0, -10.0, 6, I64), tensor![3, 0, -2, -4, -7, -10; i64]);
        assert_eq!(
            line(-7.0, 9.0, 6, F64),
            tensor![-7.0, -3.8, -0.5999999999999996, 2.5999999999999996, 5.8, 9.0; f64]
        );
        assert_eq!(line(0.0, 1.0, 1, F32), tensor![0.0]);
        assert_eq!(line(0.0, 1.0, 2, I64), tensor![0, 1; i64]);
        assert_eq!(line(0.0, 1.0, 0, F32), tensor![]);
        assert!(refused!(Tensor::try_linspace_with(0, 1, 3, Bool), TensorFacts::DTypeUnsupported { .. }));
    }
}
