//! Operands: whatever a caller writes beside a tensor, and the type promotion of several of them.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::dtype::{Category, DType, Scalar};
use crate::error::Result;
use crate::task::Read;
use crate::tensor::Tensor;

/// An operand as an operation sees it.
#[derive(Clone, Copy)]
pub enum Arg<'a> {
    /// a tensor
    Tensor(&'a Tensor),
    /// a number, which never widens a tensor of its own category
    Scalar(Scalar),
}

/// What can stand beside a tensor in an operation: a tensor or a number, by value or by reference, so that `x.add(&y)`,
/// `x.add(y)`, `x.add(1)` and `x.add(0.5)` work.
///
/// Where only a tensor makes sense, as in a product of matrices, a number counts as one without axes, and is refused as
/// such.
///
/// ```
/// use foldback_tensor::tensor;
/// let (x, y) = (tensor![2.0, 3.0], tensor![3.0, 3.0]);
/// assert_eq!(x.mul(&y)?, x.mul(3)?);
/// assert_eq!(x.eq(y)?, tensor![false, true]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no operand: a tensor or a number is expected",
    note = "a method of a tensor gives a tensor: beside a variable, write `Var::from(&tensor).op(&variable)`"
)]
pub trait AsArg {
    /// The operand.
    fn arg(&self) -> Arg<'_>;
}

impl AsArg for Tensor {
    #[inline]
    fn arg(&self) -> Arg<'_> {
        Arg::Tensor(self)
    }
}
impl AsArg for Arg<'_> {
    #[inline]
    fn arg(&self) -> Arg<'_> {
        *self
    }
}
impl<T: AsArg + ?Sized> AsArg for &T {
    #[inline]
    fn arg(&self) -> Arg<'_> {
        (**self).arg()
    }
}
macro_rules! numbers {
    ($($t:ty),*) => {$(
        impl AsArg for $t {
            #[inline]
            fn arg(&self) -> Arg<'_> {
                Arg::Scalar((*self).into())
            }
        }
    )*};
}
numbers!(bool, i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, f32, f64, Scalar);

/// An operand that may be absent: `None`, `()`, a tensor, or an `Option` of one.
///
/// ```
/// use foldback_tensor::tensor;
/// let (x, w) = (tensor![1.0, 2.0], tensor![[3.0, 4.0]]);
/// assert_eq!(x.linear(&w, None)?, tensor![11.0]);
/// assert_eq!(x.linear(&w, &tensor![0.5])?, tensor![11.5]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no operand of a tensor's method",
    note = "a method of a tensor gives a tensor: beside a variable, write `Var::from(&tensor).op(..)`"
)]
pub trait AsOptionalArg {
    /// The operand, if there is one.
    fn optional_arg(&self) -> Option<&Tensor>;
}

macro_rules! optional {
    ($($t:ty: |$t_:ident| $arg:expr;)*) => {$(
        impl AsOptionalArg for $t {
            fn optional_arg(&self) -> Option<&Tensor> {
                let $t_ = self;
                $arg
            }
        }
    )*};
}
optional! {
    (): |_t| None;
    Option<&Tensor>: |t| *t;
    &Option<Tensor>: |t| t.as_ref();
    Tensor: |t| Some(t);
    &Tensor: |t| Some(t);
}

impl<'a> Arg<'a> {
    /// As a tensor; a number becomes a 0-d one of this type.
    pub(crate) fn tensor(self, dtype: DType) -> Cow<'a, Tensor> {
        match self {
            Arg::Tensor(t) => Cow::Borrowed(t),
            Arg::Scalar(s) if dtype == DType::I64 => Cow::Owned(Tensor::full_with((), s.to_i64(), dtype)),
            Arg::Scalar(s) => Cow::Owned(Tensor::full_with((), s, dtype)),
        }
    }

    /// [`Scalar::expect_fits`] for a number; tensors are cast as they are everywhere.
    pub(crate) fn expect_fits(&self, op: &'static str, dtype: DType) -> Result<()> {
        match *self {
            Arg::Scalar(s) => s.expect_fits(op, dtype),
            Arg::Tensor(_) => Ok(()),
        }
    }

    pub(crate) fn shape(&self) -> &[usize] {
        match self {
            Arg::Tensor(t) => t.dims(),
            Arg::Scalar(_) => &[],
        }
    }

    /// What type rules look at.
    #[inline]
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

/// The operands of a list, which seldom are many.
pub(crate) type List<T> = SmallVec<[T; 4]>;

/// The operands of a list as tensors. A number in it is of the type of the first that is none, or of its own if that is of
/// a higher category.
pub(crate) fn tensors_of<T: AsArg>(list: &[T]) -> List<Cow<'_, Tensor>> {
    let dtype = |arg: Arg<'_>| if let Arg::Tensor(t) = arg { Some(t.dtype()) } else { None };
    let beside = list.iter().find_map(|a| dtype(a.arg())).unwrap_or(DType::Bool);
    let own = |arg: Arg<'_>| match arg {
        Arg::Scalar(s) if s.dtype().category() > beside.category() => s.dtype(),
        _ => beside,
    };
    list.iter().map(|a| a.arg().tensor(own(a.arg()))).collect()
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

/// What type rules look at, of each of these.
#[inline]
pub(crate) fn metas_of<const N: usize>(args: &[Arg<'_>; N]) -> [Meta; N] {
    let mut metas = [Meta { dtype: DType::Bool, zero_dim: false, scalar: None }; N];
    for (meta, arg) in metas.iter_mut().zip(args) {
        *meta = arg.meta();
    }
    metas
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
    use crate::{TensorFacts, refused, s, tensor};

    #[test]
    fn operands_come_by_value_by_reference_and_as_numbers() {
        let (x, y) = (tensor![2.0, 3.0], tensor![3.0, 3.0]);
        let sum = tensor![5.0, 6.0];
        let sums =
            [x.add(&y), x.add(y.clone()), x.add(&y), x.add(3), x.add(3usize), x.add(3.0), x.add(y.arg())];
        assert!(sums.into_iter().all(|r| r.unwrap() == sum));
        assert_eq!(*x.clone().add_(y.clone()).unwrap(), sum);
        assert_eq!(x.add_with(y.clone(), 1).unwrap(), sum);
        let mut out = x.zeros_like();
        x.mul_out(y.clone(), &mut out).unwrap();
        assert_eq!(out, tensor![6.0, 9.0]);
        assert_eq!(x.eq(y.clone()).unwrap(), tensor![false, true; bool]);
        assert_eq!(x.ge(&y).unwrap().where_cond(y.clone(), 0).unwrap(), tensor![0, 3]);
        assert_eq!(x.clamp(y.clone(), 4u8).unwrap(), y);
        assert_eq!(x.div_floor(2u64).unwrap(), tensor![1, 1]);
        assert_eq!(x.matmul(y.clone()).unwrap(), x.dot(&y).unwrap());
        assert_eq!(x.expand_as(tensor![[0, 0]]).unwrap(), tensor![[2, 3]]);
        assert_eq!(*out.copy_(y.clone()).unwrap(), y);
        assert_eq!(*out.copy_(2.5).unwrap(), tensor![2.5, 2.5]);
        out.slice_assign(s![1], 7).unwrap();
        out.slice_assign(s![..1], x.clone().sum(..).unwrap()).unwrap();
        assert_eq!(out, tensor![5, 7]);
        assert_eq!((&x * 2usize / 4u16 - 1i8).add(1u32).unwrap(), tensor![1.0, 1.5]);
    }

    #[test]
    fn lists_hold_operands_of_any_kind() {
        let (x, y) = (tensor![1.0], tensor![2.0]);
        let list = vec![x.clone(), y.clone()];
        let both = tensor![1.0, 2.0];
        assert_eq!(Tensor::cat([&x, &y], 0).unwrap(), both);
        assert_eq!(Tensor::cat([x, y], 0).unwrap(), both);
        assert_eq!(Tensor::cat(&list, 0).unwrap(), both);
        assert_eq!(Tensor::cat(list.iter().rev(), 0).unwrap(), both.flip(0).unwrap());
        assert_eq!(Tensor::stack(list, 0).unwrap().flatten(..).unwrap(), both);
        assert_eq!(Tensor::stack([1.0, 2.0], 0).unwrap(), both);
        let numbers = [Arg::Tensor(&tensor![1; i64].sum(..).unwrap()), Arg::Scalar(0.5.into())];
        assert_eq!(Tensor::stack(numbers, 0).unwrap(), tensor![1.0, 0.5]);
    }

    #[test]
    fn a_number_is_refused_where_only_a_tensor_makes_sense() {
        let x = tensor![[1.0]];
        assert!(refused!(x.matmul(2.0), TensorFacts::Rank { op: "matmul", found: 0, .. }));
        assert!(refused!(x.mm(2), TensorFacts::Rank { op: "mm", found: 0, .. }));
        assert!(refused!(x.bmm(2), TensorFacts::Rank { op: "bmm", .. }));
        assert!(refused!(x.mv(2), TensorFacts::Rank { op: "mv", .. }));
        assert!(refused!(x.dot(2), TensorFacts::Rank { op: "dot", .. }));
        assert!(refused!(Tensor::cat([1.0], 0), TensorFacts::Rank { op: "cat", found: 0, .. }));
        assert!(refused!(x.expand_as(2), TensorFacts::Expand { op: "expand_as", .. }));
    }

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
