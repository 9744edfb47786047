//! Tensors from their written form, with the strides and the offset that the case names.

use foldback_tensor::{DType, Element, Scalar, Tensor};
use serde_json::Value;

use super::case::{InputSpec, TensorSpec};

/// What stands between the elements of a strided input; a kernel that reads there shows it.
const SENTINEL: i64 = -987_654_321;

/// The element type of that name, if the library has it.
pub(crate) fn dtype(name: &str) -> Option<DType> {
    DType::ALL.into_iter().find(|d| d.name() == name)
}

/// A JSON number, or one of the words that stand for the numbers that JSON lacks. `2` and `2.0` differ.
pub(crate) fn number(value: &Value) -> Option<Scalar> {
    match value {
        Value::Bool(b) => Some(Scalar::Bool(*b)),
        Value::Number(n) => n.as_i64().map(Scalar::I64).or_else(|| n.as_f64().map(Scalar::F64)),
        Value::String(s) => match s.as_str() {
            "nan" => Some(Scalar::F64(f64::NAN)),
            "inf" => Some(Scalar::F64(f64::INFINITY)),
            "-inf" => Some(Scalar::F64(f64::NEG_INFINITY)),
            _ => None,
        },
        _ => None,
    }
}

/// A row-major tensor; the error is the name of a dtype that the library lacks, or says what is broken.
pub(crate) fn dense(spec: &TensorSpec) -> Result<Tensor, String> {
    written(spec, &spec.data)
}

/// A tensor of the shape and dtype of `like` with other elements.
pub(crate) fn written(like: &TensorSpec, data: &[Value]) -> Result<Tensor, String> {
    place(like, data, None)
}

/// An input in its layout.
pub(crate) fn input(spec: &InputSpec) -> Result<Tensor, String> {
    place(&spec.tensor, &spec.tensor.data, spec.layout.as_ref())
}

fn place(spec: &TensorSpec, data: &[Value], layout: Option<&(Vec<isize>, usize)>) -> Result<Tensor, String> {
    match dtype(&spec.dtype) {
        Some(DType::Bool) => typed::<bool>(spec, data, layout, true),
        Some(DType::I64) => typed::<i64>(spec, data, layout, SENTINEL),
        Some(DType::F32) => typed::<f32>(spec, data, layout, f32::NAN),
        Some(DType::F64) => typed::<f64>(spec, data, layout, f64::NAN),
        None => Err(format!("dtype {}", spec.dtype)),
    }
}

fn typed<T: Element>(
    spec: &TensorSpec,
    data: &[Value],
    layout: Option<&(Vec<isize>, usize)>,
    filler: T,
) -> Result<Tensor, String> {
    let values: Option<Vec<T>> = data.iter().map(|v| number(v).map(T::from_scalar)).collect();
    let values = values.ok_or("an element that is not a number")?;
    if values.len() != spec.shape.iter().product::<usize>() {
        return Err(format!("{} elements for the shape {:?}", values.len(), spec.shape));
    }
    let Some((strides, offset)) = layout else {
        return Tensor::from_vec(values, spec.shape.clone()).map_err(|e| e.to_string());
    };
    if strides.len() != spec.shape.len() {
        return Err(format!("strides {strides:?} for the shape {:?}", spec.shape));
    }
    let reach: isize = spec.shape.iter().zip(strides).map(|(&n, &s)| (n as isize - 1) * s).sum();
    let len = (*offset as isize + 1 + reach).max(*offset as isize + 1);
    let mut storage = vec![filler; len as usize];
    let mut at = vec![0usize; spec.shape.len()];
    for value in values {
        let place: isize = at.iter().zip(strides).map(|(&i, &s)| i as isize * s).sum();
        storage[(*offset as isize + place) as usize] = value;
        advance(&mut at, &spec.shape);
    }
    Tensor::from_strided(storage, spec.shape.clone(), strides, *offset).map_err(|e| e.to_string())
}

/// The next index in row-major order.
fn advance(at: &mut [usize], shape: &[usize]) {
    for (i, &n) in at.iter_mut().zip(shape).rev() {
        *i += 1;
        if *i < n {
            return;
        }
        *i = 0;
    }
}
