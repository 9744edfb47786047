//! Operands: whatever a caller writes beside a variable.

use std::borrow::Cow;
use std::ops::Deref;

use crate::node::Var;
use foldback_tensor::{DType, Indices, Result, Scalar, SliceItem, Tensor};

/// An operand as an operation sees it.
#[derive(Clone, Copy)]
pub enum Input<'a> {
    /// a variable
    Var(&'a Var),
    /// a tensor, which requires no gradient
    Tensor(&'a Tensor),
    /// a number, which never widens a tensor of its own category
    Scalar(Scalar),
}

/// What can stand beside a variable in an operation: a variable, a tensor or a number, by value or by reference, so that
/// `x.mul(&y)`, `x.mul(y)`, `x.mul(&tensor)` and `x.mul(2.0)` work.
///
/// ```
/// use foldback_graph::RequiresGrad;
/// use foldback_tensor::tensor;
/// let (x, y) = (tensor![2.0].requires_grad(), tensor![3.0].requires_grad());
/// assert_eq!(x.mul(&y)?.value(), x.mul(tensor![3.0])?.value());
/// assert_eq!(x.mul(y)?.value(), x.mul(3)?.value());
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no operand: a variable, a tensor or a number is expected",
    note = "a list of numbers becomes a tensor with `tensor![1, 2; i64]` or `Tensor::from(list)`, a `Buffer` with `value()`"
)]
pub trait AsInput {
    /// The operand.
    fn input(&self) -> Input<'_>;

    /// It as a variable; a number becomes a 0-d one.
    fn to_var(&self) -> Var {
        match self.input() {
            Input::Var(v) => v.clone(),
            Input::Tensor(t) => t.into(),
            Input::Scalar(s) => Tensor::full_with((), s, s.dtype()).into(),
        }
    }
}

impl AsInput for Var {
    #[inline]
    fn input(&self) -> Input<'_> {
        Input::Var(self)
    }
}
impl AsInput for Tensor {
    #[inline]
    fn input(&self) -> Input<'_> {
        Input::Tensor(self)
    }
}
impl AsInput for Input<'_> {
    #[inline]
    fn input(&self) -> Input<'_> {
        *self
    }
}
impl<T: AsInput + ?Sized> AsInput for &T {
    #[inline]
    fn input(&self) -> Input<'_> {
        (**self).input()
    }
}
impl<T: AsInput + ?Sized> AsInput for &mut T {
    #[inline]
    fn input(&self) -> Input<'_> {
        (**self).input()
    }
}
macro_rules! numbers {
    ($($t:ty),*) => {$(
        impl AsInput for $t {
            #[inline]
            fn input(&self) -> Input<'_> {
                Input::Scalar((*self).into())
            }
        }
    )*};
}
numbers!(bool, i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, f32, f64, Scalar);

/// What a model takes: a variable or a tensor, which requires no gradient. `&Var` and `&Tensor` become `&dyn Value` where
/// a function asks for one, so that `model.forward(&batch)` works for both.
///
/// ```
/// use foldback_graph::{Error, RequiresGrad, Value, Var};
/// use foldback_tensor::tensor;
/// fn twice(x: &dyn Value) -> Result<Var, Error> {
///     x.as_var().mul(2)
/// }
/// assert_eq!(twice(&tensor![1.0])?.value(), tensor![2.0]);
/// assert!(twice(&tensor![1.0].requires_grad())?.requires_grad());
/// # Ok::<(), Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a variable nor a tensor",
    label = "expected a `Var` or a `Tensor`"
)]
pub trait Value: AsInput {
    /// It as a variable: a variable is itself, a tensor is held by a new one. No numbers are copied.
    fn as_var(&self) -> Cow<'_, Var>;
}

impl Value for Var {
    #[inline]
    fn as_var(&self) -> Cow<'_, Var> {
        Cow::Borrowed(self)
    }
}
impl Value for Tensor {
    #[inline]
    fn as_var(&self) -> Cow<'_, Var> {
        Cow::Owned(self.into())
    }
}
impl<T: Value + ?Sized> Value for &T {
    #[inline]
    fn as_var(&self) -> Cow<'_, Var> {
        (**self).as_var()
    }
}

impl<T: Value + ?Sized> Value for &mut T {
    #[inline]
    fn as_var(&self) -> Cow<'_, Var> {
        (**self).as_var()
    }
}

/// An operand that may be absent: `None`, `()`, an `Option` of a variable, a variable or a tensor.
///
/// ```
/// use foldback_tensor::tensor;
/// use foldback_graph::Var;
/// let (x, w) = (Var::from(tensor![1.0, 2.0]), tensor![[3.0, 4.0]]);
/// assert_eq!(x.linear(&w, None)?.value(), tensor![11.0]);
/// assert_eq!(x.linear(&w, &tensor![0.5])?.value(), tensor![11.5]);
/// # Ok::<(), foldback_graph::Error>(())
/// ```
pub trait AsOptionalInput {
    /// The operand, if there is one.
    fn optional_input(&self) -> Option<Input<'_>>;
}

macro_rules! optional {
    ($($t:ty: |$v:ident| $input:expr;)*) => {$(
        impl AsOptionalInput for $t {
            fn optional_input(&self) -> Option<Input<'_>> {
                let $v = self;
                $input
            }
        }
    )*};
}
optional! {
    (): |_v| None;
    Option<&Var>: |v| v.map(Input::Var);
    &Option<Var>: |v| v.as_ref().map(Input::Var);
    Var: |v| Some(Input::Var(v));
    &Var: |v| Some(Input::Var(v));
    Tensor: |t| Some(Input::Tensor(t));
    &Tensor: |t| Some(Input::Tensor(t));
}

/// A variable that an operand is or becomes.
pub(crate) enum VarRef<'a> {
    Borrowed(&'a Var),
    Owned(Var),
}

impl Deref for VarRef<'_> {
    type Target = Var;
    #[inline]
    fn deref(&self) -> &Var {
        match self {
            VarRef::Borrowed(v) => v,
            VarRef::Owned(v) => v,
        }
    }
}

impl<'a> Input<'a> {
    /// As a variable; a number becomes a 0-d constant of the type that an operation with one of type `beside` gives it.
    #[inline]
    pub(crate) fn into_var(self, beside: DType) -> VarRef<'a> {
        VarRef::Owned(match self {
            Input::Var(v) => return VarRef::Borrowed(v),
            Input::Tensor(t) => Var::constant(t.clone()),
            Input::Scalar(s) => {
                let dtype = if beside.category() >= s.dtype().category() { beside } else { s.dtype() };
                Var::constant(Tensor::full_with((), s, dtype))
            }
        })
    }

    /// [`Scalar::expect_fits`] for a number.
    pub(crate) fn expect_fits(&self, op: &'static str, dtype: DType) -> Result<()> {
        match self {
            Input::Scalar(s) => s.expect_fits(op, dtype),
            _ => Ok(()),
        }
    }

    /// As a variable beside another.
    #[inline]
    pub(crate) fn beside(self, own: &Var) -> VarRef<'a> {
        match self {
            Input::Var(v) => VarRef::Borrowed(v),
            other => other.into_var(own.dtype()),
        }
    }

    /// The element type, unless it is a number.
    pub(crate) fn dtype(&self) -> Option<DType> {
        match self {
            Input::Var(v) => Some(v.dtype()),
            Input::Tensor(t) => Some(t.dtype()),
            Input::Scalar(_) => None,
        }
    }

    /// How many axes; none for a number.
    pub(crate) fn rank(&self) -> usize {
        match self {
            Input::Var(v) => v.rank(),
            Input::Tensor(t) => t.rank(),
            Input::Scalar(_) => 0,
        }
    }
}

/// The type that a number among these operands stands beside. A condition has no say in it.
pub(crate) fn beside(own: &Var, others: &[Input<'_>]) -> DType {
    match own.dtype() {
        DType::Bool => others.iter().find_map(Input::dtype).unwrap_or(DType::Bool),
        own => own,
    }
}

/// A list of operands as variables; a number in it is of the type of the first that is none.
pub(crate) fn variables_of(list: impl IntoIterator<Item: AsInput>) -> Vec<Var> {
    let list: Vec<_> = list.into_iter().collect();
    let beside = list.iter().find_map(|v| v.input().dtype()).unwrap_or(DType::F32);
    list.iter().map(|v| v.input().into_var(beside).clone()).collect()
}

impl From<&Var> for Indices {
    fn from(v: &Var) -> Indices {
        Indices::from(v.value())
    }
}
impl From<Var> for Indices {
    fn from(v: Var) -> Indices {
        Indices::from(v.value())
    }
}
impl From<&Var> for SliceItem {
    fn from(v: &Var) -> SliceItem {
        SliceItem::from(v.value())
    }
}
impl From<Var> for SliceItem {
    fn from(v: Var) -> SliceItem {
        SliceItem::from(v.value())
    }
}
