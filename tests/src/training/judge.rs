//! What a case of training computed, against what PyTorch did.

use foldback_tensor::{DType, Tensor};
use serde_json::Value;

use crate::conformance::build;
use crate::conformance::case::{TensorSpec, tensor};
use crate::conformance::close::same_bits;
use crate::conformance::run::Stop;

/// Everything that one run of a case computed, in a fixed order.
#[derive(Default)]
pub(crate) struct Judge {
    computed: Vec<(String, Tensor)>,
    /// what is printed and not judged
    remarks: Vec<String>,
}

impl Judge {
    /// Notes a tensor and compares it with the written one: shape, type, and every element within
    /// `1e-10 max(|a|, |b|) + 1e-12 S` for `f64` and `2e-5 max(|a|, |b|) + 1e-6 S` for `f32`, where `S` is the sum of the
    /// expected magnitudes, at least 1.
    pub(crate) fn tensor(&mut self, name: &str, found: &Tensor, expected: &Value) -> Result<(), Stop> {
        let expected = written(expected)?;
        self.computed.push((name.to_owned(), found.clone()));
        if found.dims() != expected.dims() || found.dtype() != expected.dtype() {
            let shown = |t: &Tensor| format!("{} {:?}", t.dtype(), t.dims());
            return Err(Stop::Failed(format!("{name}: {}, expected {}", shown(found), shown(&expected))));
        }
        if !found.dtype().is_float() {
            return if same_bits(found, &expected) {
                Ok(())
            } else {
                Err(Stop::Failed(format!("{name}: {found:?}, expected {expected:?}")))
            };
        }
        within(name, &numbers(found), &numbers(&expected), found.dtype())
    }

    /// [`Judge::tensor`] for what is read or moved: every bit is the same.
    pub(crate) fn exact(&mut self, name: &str, found: &Tensor, expected: &Value) -> Result<(), Stop> {
        let expected = written(expected)?;
        self.computed.push((name.to_owned(), found.clone()));
        if same_bits(found, &expected) {
            return Ok(());
        }
        Err(Stop::Failed(format!("{name}: {found:?}, expected {expected:?}")))
    }

    /// [`Judge::tensor`] for something that may be absent: for null, nothing or zeros.
    pub(crate) fn maybe(&mut self, name: &str, found: Option<&Tensor>, expected: &Value) -> Result<(), Stop> {
        match found {
            Some(found) if !expected.is_null() => self.tensor(name, found, expected),
            Some(found) if numbers(found).iter().any(|&v| v != 0.0) => {
                Err(Stop::Failed(format!("{name}: {found:?}, expected none")))
            }
            None if !expected.is_null() => Err(Stop::Failed(format!("{name}: none"))),
            _ => Ok(()),
        }
    }

    /// Notes a list of numbers and compares it with the written one (lists of lists are flattened), within the limits of
    /// a type.
    pub(crate) fn numbers(
        &mut self,
        name: &str,
        found: &[f64],
        expected: &Value,
        dtype: DType,
    ) -> Result<(), Stop> {
        let mut wanted = Vec::new();
        flatten(expected, &mut wanted)?;
        let all = Tensor::from_vec(found.to_vec(), [found.len()]).map_err(|e| e.to_string())?;
        self.computed.push((name.to_owned(), all));
        if found.len() != wanted.len() {
            return Err(Stop::Failed(format!("{name}: {} numbers, expected {}", found.len(), wanted.len())));
        }
        within(name, found, &wanted, dtype)
    }

    /// Notes a tensor that is compared with nothing but its own second run.
    pub(crate) fn note(&mut self, name: &str, found: &Tensor) {
        self.computed.push((name.to_owned(), found.clone()));
    }

    /// Notes what is printed and not judged.
    pub(crate) fn remark(&mut self, text: String) {
        self.remarks.push(text);
    }

    /// What is printed.
    pub(crate) fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// The first thing that another run computed differently.
    pub(crate) fn other_bits(&self, again: &Judge) -> Option<&str> {
        if self.computed.len() != again.computed.len() {
            return Some("the list of results");
        }
        let pairs = self.computed.iter().zip(&again.computed);
        pairs.into_iter().find(|((_, a), (_, b))| !same_bits(a, b)).map(|((name, _), _)| name.as_str())
    }
}

fn within(name: &str, found: &[f64], expected: &[f64], dtype: DType) -> Result<(), Stop> {
    let magnitudes = expected.iter().map(|v| v.abs()).filter(|v| v.is_finite());
    let scale = magnitudes.sum::<f64>().max(1.0);
    let (relative, absolute) = if dtype == DType::F32 { (2e-5, 1e-6) } else { (1e-10, 1e-12) };
    let agrees = |a: f64, b: f64| {
        let finite = a.is_finite() && b.is_finite();
        a == b
            || (a.is_nan() && b.is_nan())
            || (finite && (a - b).abs() <= relative * a.abs().max(b.abs()) + absolute * scale)
    };
    match found.iter().zip(expected).position(|(&a, &b)| !agrees(a, b)) {
        None => Ok(()),
        Some(at) => {
            Err(Stop::Failed(format!("{name}: element {at} is {:?}, expected {:?}", found[at], expected[at])))
        }
    }
}

fn numbers(t: &Tensor) -> Vec<f64> {
    t.to(DType::F64).to_vec().expect("cast to f64")
}

fn flatten(value: &Value, all: &mut Vec<f64>) -> Result<(), Stop> {
    if let Some(list) = value.as_array() {
        return list.iter().try_for_each(|v| flatten(v, all));
    }
    all.push(number(value)?);
    Ok(())
}

/// A tensor as it is written; one of a type that the library lacks is unsupported by that name.
pub(crate) fn written(value: &Value) -> Result<Tensor, Stop> {
    let spec: TensorSpec = tensor(value)?;
    build::dense(&spec).map_err(Stop::Unsupported)
}

/// A number, or one of the words that stand for those that JSON lacks.
pub(crate) fn number(value: &Value) -> Result<f64, Stop> {
    Ok(build::number(value).ok_or_else(|| format!("{value} is no number"))?.to_f64())
}

pub(crate) fn list(value: &Value) -> Result<&Vec<Value>, Stop> {
    Ok(value.as_array().ok_or_else(|| format!("{value} is no list"))?)
}
