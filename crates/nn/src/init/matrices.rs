//! Matrices to start from: the identity, and random ones that keep lengths.

use foldback_tensor::{DType, Shape, Tensor, refuse};

use super::draw::Source;
use crate::error::{NnFacts, Result};

/// Ones on the diagonal of a matrix.
pub(super) fn eye(shape: &Shape, dtype: DType) -> Result<Tensor> {
    match shape.dims() {
        [rows, columns] => Tensor::try_eye_with((*rows, *columns), dtype),
        _ => refuse(NnFacts::MatrixShape { op: "eye", expected: "2 axes", found: shape.clone() }),
    }
}

/// Random matrices with `gain` times orthonormal rows, or columns where these are fewer.
///
/// Gram and Schmidt's way gives the factor Q of a QR decomposition whose R has a positive diagonal, which for normal numbers is
/// distributed evenly over all such matrices (Mezzadri, "How to generate random matrices from the classical compact groups", 2007). It
/// is gone twice, after which nothing but rounding is left of what was not orthogonal (Giraud, Langou and Rozložník, "The
/// loss of orthogonality in the Gram-Schmidt orthogonalization process", 2005).
pub(super) fn orthogonal(source: &mut Source<'_>, shape: &Shape, gain: f64, dtype: DType) -> Result<Tensor> {
    let [rows, _, ..] = shape.dims() else {
        let (op, expected) = ("orthogonal", "at least 2 axes");
        return refuse(NnFacts::MatrixShape { op, expected, found: shape.clone() });
    };
    let mut values: Vec<f64> = source.normal(shape, 0.0, 1.0, DType::F64)?.to_vec()?;
    if values.is_empty() {
        return Tensor::try_zeros_with(shape, dtype);
    }
    let (rows, columns) = (*rows, values.len() / rows);
    let (few, many) = (rows.min(columns), rows.max(columns));
    let mut vectors: Vec<&mut [f64]> = values.chunks_mut(many).collect();
    for i in 0..few {
        let (before, from) = vectors.split_at_mut(i);
        let own = &mut *from[0];
        for _ in 0..2 {
            for other in &*before {
                let along: f64 = own.iter().zip(&**other).map(|(a, b)| a * b).sum();
                own.iter_mut().zip(&**other).for_each(|(a, b)| *a -= along * b);
            }
            let length = own.iter().map(|a| a * a).sum::<f64>().sqrt();
            own.iter_mut().for_each(|a| *a /= length);
        }
    }
    let vectors = Tensor::from_vec(values, [few, many])? * gain;
    let matrix = if rows <= columns { vectors } else { vectors.t().contiguous() };
    matrix.reshape(shape)?.try_to(dtype)
}
