//! What all forms of a constructor share: what is refused, and the task.

use std::ops::Range;

use super::{Law, Reserve};
use crate::create::Interval;
use crate::dtype::DType;
use crate::error::{Result, TensorFacts, refuse};
use crate::shape::Shape;
use crate::task::{self, Does, Space, Task, To};
use crate::tensor::Tensor;

pub(super) fn rand(reserve: Reserve<'_>, shape: impl Into<Shape>, dtype: DType) -> Result<Tensor> {
    uniform_named("rand", reserve, shape.into(), 0.0, 1.0, dtype)
}

pub(super) fn uniform(
    reserve: Reserve<'_>,
    shape: impl Into<Shape>,
    low: f64,
    high: f64,
    dtype: DType,
) -> Result<Tensor> {
    uniform_named("uniform", reserve, shape.into(), low, high, dtype)
}

fn uniform_named(
    op: &'static str,
    reserve: Reserve<'_>,
    shape: Shape,
    low: f64,
    high: f64,
    dtype: DType,
) -> Result<Tensor> {
    expect_float(op, dtype)?;
    let rounded = |v: f64| if dtype == DType::F32 { v as f32 as f64 } else { v };
    if rounded(low).partial_cmp(&rounded(high)) != Some(std::cmp::Ordering::Less) {
        return refuse(parameter(op, "low", low, "less than high"));
    }
    if !rounded(high - low).is_finite() || !rounded(low).is_finite() || !rounded(high).is_finite() {
        return refuse(parameter(op, "high", high, "a finite distance from low"));
    }
    tensor(op, reserve, &shape, dtype, Law::Uniform { low, high })
}

pub(super) fn randn(reserve: Reserve<'_>, shape: impl Into<Shape>, dtype: DType) -> Result<Tensor> {
    normal_named("randn", reserve, shape.into(), 0.0, 1.0, dtype)
}

pub(super) fn normal(
    reserve: Reserve<'_>,
    shape: impl Into<Shape>,
    mean: f64,
    std: f64,
    dtype: DType,
) -> Result<Tensor> {
    normal_named("normal", reserve, shape.into(), mean, std, dtype)
}

fn normal_named(
    op: &'static str,
    reserve: Reserve<'_>,
    shape: Shape,
    mean: f64,
    std: f64,
    dtype: DType,
) -> Result<Tensor> {
    expect_float(op, dtype)?;
    if std.is_nan() || std < 0.0 {
        return refuse(parameter(op, "std", std, "zero or more"));
    }
    tensor(op, reserve, &shape, dtype, Law::Normal { mean, std })
}

pub(super) fn bernoulli(
    reserve: Reserve<'_>,
    shape: impl Into<Shape>,
    p: f64,
    dtype: DType,
) -> Result<Tensor> {
    let op = "bernoulli";
    if !(0.0..=1.0).contains(&p) {
        return refuse(parameter(op, "p", p, "between 0 and 1"));
    }
    tensor(op, reserve, &shape.into(), dtype, Law::Bernoulli { p })
}

pub(super) fn randint(
    reserve: Reserve<'_>,
    range: impl Into<Interval>,
    shape: impl Into<Shape>,
) -> Result<Tensor> {
    let op = "randint";
    let Some(Range { start: low, end: high }) = range.into().integers() else {
        return refuse(parameter(op, "range", "floats", "a range of integers"));
    };
    if low >= high {
        let expected = "a range that is not empty, as the first argument: randint(0..8, shape)";
        return refuse(parameter(op, "range", format!("{low}..{high}"), expected));
    }
    tensor(
        op,
        reserve,
        &shape.into(),
        DType::I64,
        Law::Integers { low, range: high.wrapping_sub(low) as u64 },
    )
}

pub(super) fn randperm(reserve: Reserve<'_>, n: usize) -> Result<Tensor> {
    tensor("randperm", reserve, &Shape::from(n), DType::I64, Law::Order)
}

fn tensor(op: &'static str, reserve: Reserve<'_>, shape: &Shape, dtype: DType, law: Law) -> Result<Tensor> {
    let (space, does) = (Space::Of(shape), Does::Draw(law, reserve));
    task::make(Task { op, reads: &[], space, does, to: &mut [To::Dense(dtype)] })
}

fn expect_float(op: &'static str, dtype: DType) -> Result<()> {
    if dtype.is_float() { Ok(()) } else { refuse(TensorFacts::DTypeUnsupported { op, dtype }) }
}

fn parameter(
    op: &'static str,
    name: &'static str,
    value: impl ToString,
    expected: &'static str,
) -> TensorFacts {
    TensorFacts::Parameter { op, name, value: value.to_string(), expected }
}
