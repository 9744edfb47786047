//! When a tensor counts as equal to the one that PyTorch wrote down.

use foldback_tensor::{DType, Tensor};

/// How closely values must agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Precision {
    /// bit for bit, for what only moves elements
    Exact,
    /// relative to the element
    Each,
    /// relative to the largest element of the tensor, for sums, whose terms may cancel
    Sum,
}

/// Compares shape, dtype and elements; the error says where they part.
pub(crate) fn compare(
    what: &str,
    found: &Tensor,
    expected: &Tensor,
    precision: Precision,
) -> Result<(), String> {
    compare_computed(what, found, expected, precision, found.dtype(), 0.0)
}

/// As [`compare`], for a value that was computed in another type and of terms up to a certain size.
pub(crate) fn compare_computed(
    what: &str,
    found: &Tensor,
    expected: &Tensor,
    precision: Precision,
    computed: DType,
    terms: f64,
) -> Result<(), String> {
    if found.dims() != expected.dims() {
        return Err(format!("{what}: shape {:?}, expected {:?}", found.dims(), expected.dims()));
    }
    if found.dtype() != expected.dtype() {
        return Err(format!("{what}: dtype {}, expected {}", found.dtype(), expected.dtype()));
    }
    let (a, b) = (numbers(found), numbers(expected));
    let scale = largest(expected).max(terms);
    let agrees = |a: f64, b: f64| {
        if precision == Precision::Exact {
            return a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
        }
        let (absolute, relative) = match (found.dtype(), computed) {
            (DType::I64 | DType::Bool, _) => (0.0, 0.0),
            (DType::F32, _) | (_, DType::F32) => (1e-6, 2e-5),
            _ => (1e-10, 1e-9),
        };
        let own = a.abs().max(b.abs());
        let scale = if precision == Precision::Sum { own.max(scale) } else { own };
        a == b
            || (a.is_nan() && b.is_nan())
            || (a.is_finite() && b.is_finite() && (a - b).abs() <= absolute + relative * scale)
    };
    match a.iter().zip(&b).position(|(&a, &b)| !agrees(a, b)) {
        None if found.dtype() != DType::I64 || integers(found) == integers(expected) => Ok(()),
        None => Err(format!("{what}: {:?}, expected {:?}", integers(found), integers(expected))),
        Some(at) => {
            Err(format!("{what}: element {at} is {:?}, expected {:?} (of {:?})", a[at], b[at], found.dims()))
        }
    }
}

/// The largest finite magnitude in a tensor.
pub(crate) fn largest(t: &Tensor) -> f64 {
    numbers(t).iter().map(|v| v.abs()).filter(|v| v.is_finite()).fold(0.0, f64::max)
}

/// Whether two tensors have the same bits, NaN payloads apart.
pub(crate) fn same_bits(a: &Tensor, b: &Tensor) -> bool {
    compare("", a, b, Precision::Exact).is_ok()
}

/// Whether every element is zero.
pub(crate) fn is_zero(t: &Tensor) -> bool {
    numbers(t).iter().all(|&v| v == 0.0)
}

fn numbers(t: &Tensor) -> Vec<f64> {
    t.to(DType::F64).to_vec::<f64>().expect("cast to f64")
}

fn integers(t: &Tensor) -> Vec<i64> {
    t.to_vec::<i64>().expect("checked to be i64")
}
