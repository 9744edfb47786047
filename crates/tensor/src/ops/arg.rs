//! What a binary operation accepts on its other side, and the type promotion of several such arguments.

use crate::dtype::{Category, DType, Scalar};
use crate::task::Read;
use crate::tensor::Tensor;

/// A tensor or a number: the other side of an operation.
///
/// Made by `Into` from `&Tensor`, `bool`, integers and floats, so that `x.add(&y)`, `x.add(1)` and `x.add(0.5)` work.
#[derive(Clone, Copy)]
pub enum Arg<'a> {
    /// a tensor
    Tensor(&'a Tensor),
    /// a number, which never widens a tensor of its own category
    Scalar(Scalar),
}

impl<'a> From<&'a Tensor> for Arg<'a> {
    fn from(t: &'a Tensor) -> Arg<'a> {
        Arg::Tensor(t)
    }
}

impl<S: Into<Scalar>> From<S> for Arg<'_> {
    fn from(s: S) -> Self {
        Arg::Scalar(s.into())
    }
}

impl<'a> Arg<'a> {
    /// As a tensor; a number becomes a 0-d one of this type.
    pub(crate) fn into_tensor(self, dtype: DType) -> Tensor {
        match self {
            Arg::Tensor(t) => t.clone(),
            Arg::Scalar(s) => Tensor::full_with((), s, dtype),
        }
    }

    pub(crate) fn shape(&self) -> &[usize] {
        match self {
            Arg::Tensor(t) => t.dims(),
            Arg::Scalar(_) => &[],
        }
    }

    /// What type rules look at.
    pub(crate) fn meta(&self) -> Meta {
        match self {
            Arg::Tensor(t) => Meta { dtype: t.dtype(), zero_dim: t.rank() == 0, scalar: None },
            Arg::Scalar(s) => Meta { dtype: s.dtype(), zero_dim: false, scalar: Some(*s) },
        }
    }

    /// The argument as a task reads it, in the type it is wanted in.
    #[inline(always)]
    pub(crate) fn read(self, want: DType) -> Read<'a> {
        match self {
            Arg::Tensor(t) => Read::Tensor(t, want),
            Arg::Scalar(s) => Read::Number(s, want),
        }
    }
}

/// The facts of an argument that decide types: what a meta step reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meta {
    pub(crate) dtype: DType,
    /// a tensor of rank 0
    pub(crate) zero_dim: bool,
    /// the value, if it is a number
    pub(crate) scalar: Option<Scalar>,
}

/// The common type of several arguments, by PyTorch's rules: tensors with axes decide, unless a 0-d tensor (and after
/// those a number) is of a higher category.
///
/// Source: "Tensor Attributes", section on type promotion, in PyTorch's documentation.
pub(crate) fn result_type(args: &[Meta]) -> DType {
    if let [first, rest @ ..] = args
        && first.scalar.is_none()
        && rest.iter().all(|a| a.scalar.is_none() && a.dtype == first.dtype)
    {
        return first.dtype;
    }
    let mut classes: [Option<DType>; 3] = [None; 3];
    for a in args {
        let class = if a.scalar.is_some() { 2 } else { a.zero_dim as usize };
        classes[class] = Some(classes[class].map_or(a.dtype, |d| d.promote(a.dtype)));
    }
    let combined = combine(classes[0], combine(classes[1], classes[2]));
    combined.expect("at least one argument")
}

/// What a lower class adds to a higher one.
fn combine(higher: Option<DType>, lower: Option<DType>) -> Option<DType> {
    match (higher, lower) {
        (Some(h), Some(l)) => {
            let decided =
                h.category() >= l.category() || (h.category() == Category::Integer && !l.is_float());
            Some(if decided { h } else { h.promote(l) })
        }
        (h, l) => h.or(l),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_promotion() {
        let n = |dtype| Meta { dtype, zero_dim: false, scalar: None };
        let zero = |dtype| Meta { dtype, zero_dim: true, scalar: None };
        let number = |s: Scalar| Meta { dtype: s.dtype(), zero_dim: false, scalar: Some(s) };
        use DType::*;
        assert_eq!(result_type(&[n(F32), zero(F64)]), F32);
        assert_eq!(result_type(&[n(I64), zero(F64)]), F64);
        assert_eq!(result_type(&[n(I64), number(1.5.into())]), F32);
        assert_eq!(result_type(&[n(F64), number(1.5.into())]), F64);
        assert_eq!(result_type(&[n(Bool), number(1.into())]), I64);
        assert_eq!(result_type(&[zero(F32), n(F64)]), F64);
        assert_eq!(result_type(&[zero(F32), number(2.5.into())]), F32);
    }
}
