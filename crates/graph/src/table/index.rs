//! Rows of indexing: what is picked by an index tensor, and what is added or written to the places it names.

use foldback_tensor::kernel::{aligned, check_alpha};
use foldback_tensor::{Along, Axis, DType, Here, Indices, Scalar, Shape, Tensor};

use super::function_rows::function;
use crate::error::Result;
use crate::input::{AsInput, Input};
use crate::lead::Lead;
use crate::mode::{LineGuard, location};
use crate::node::Var;

function! {
    in rows;

    /// The elements that `index` (an `i64` tensor) names along an axis; see [`Tensor::gather`].
    ///
    /// # Errors
    /// If the index does not fit.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 2.0].requires_grad();
    /// x.gather(0, &tensor![1, 1; i64])?.sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![0.0, 2.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn gather(a; axis: Axis, index: Indices) {
        let shape = a.shape().clone();
    } = a.gather(axis, &index);
        d a: |g| nothing(g, &shape, n)?.scatter_add(n.axis(axis), n.index(&index)?, g);
        t: |t| t.gather(n.axis(axis), n.index(&index)?);
        over leading axes (n);
        check {
            "rows": [[3, 2] Any] |x| x[0].gather(0, &foldback_tensor::tensor![[2, 0], [2, 1]; i64]);
            "columns, repeated": [[2, 3] Any] |x| x[0].gather(1, &foldback_tensor::tensor![[1, 1], [0, 2]; i64]);
        }

    fn scattered(a; axis: Axis, index: Indices; source) {
        let shape = source.shape().clone();
    } = a.scatter(axis, &index, source);
        d a: |g| g.scatter(n.axis(axis), n.index(&index)?, 0.0);
        t: |t| t.scatter(n.axis(axis), n.index(&index)?, 0.0);
        d source: |g| last_scattered(g, n.axis(axis), &n.index(&index)?, &n.shape(&shape));
        t: |t; full| nothing(t, full, Lead(None))?.scatter(n.axis(axis), n.index(&index)?, t);
        over leading axes (n);
        check {
            "distinct": [[2, 3] Any, [2, 2] Any]
                |x| x[0].scatter(1, &foldback_tensor::tensor![[1, 0], [0, 2]; i64], &x[1]);
            "repeated": [[3] Any, [4] Any] |x| x[0].scatter(0, &foldback_tensor::tensor![2, 0, 2, 2; i64], &x[1]);
            "longer source": [[3] Any, [4] Any] |x| x[0].scatter(0, &foldback_tensor::tensor![2, 0; i64], &x[1]);
        }

    /// Adds the elements of `source` to the places that `index` names along an axis; duplicates add up.
    ///
    /// # Errors
    /// If index or source do not fit, or if no memory can hold the sum (`TooLarge`).
    ///
    /// ```
    /// use foldback_graph::{RequiresGrad, Var};
    /// use foldback_tensor::tensor;
    /// let source = tensor![1.0, 2.0].requires_grad();
    /// let sum = Var::from(tensor![0.0, 0.0]).scatter_add(0, &tensor![1, 1; i64], &source)?;
    /// assert_eq!(sum.value(), tensor![0.0, 3.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn scatter_add(a; axis: Axis, index: Indices; source) {
        let shape = source.shape().clone();
    } = a.scatter_add(axis, &index, source);
        d a = g;
        t = t;
        d source: |g| padded(&g.gather(n.axis(axis), n.index(&index)?)?, &n.shape(&shape));
        t: |t; full| nothing(t, full, Lead(None))?.scatter_add(n.axis(axis), n.index(&index)?, t);
        over leading axes (n);
        check {
            "repeated": [[2, 3] Any, [2, 2] Any]
                |x| x[0].scatter_add(1, &foldback_tensor::tensor![[1, 1], [0, 2]; i64], &x[1]);
            "longer source": [[3] Any, [4] Any] |x| x[0].scatter_add(0, &foldback_tensor::tensor![2, 0; i64], &x[1]);
        }

    /// The slices of an axis that `index` (1-d, `i64`) names, in its order; see [`Tensor::index_select`].
    ///
    /// # Errors
    /// If the index does not fit.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1.0, 2.0], [3.0, 4.0]].requires_grad();
    /// assert_eq!(x.index_select(0, &tensor![1, 1; i64])?.value(), tensor![[3.0, 4.0], [3.0, 4.0]]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn index_select(a; axis: Axis, index: Indices) {
        let shape = a.shape().clone();
    } = a.index_select(axis, &index);
        d a: |g| nothing(g, &shape, n)?.index_add(n.axis(axis), &index, g);
        t: |t| t.index_select(n.axis(axis), &index);
        over leading axes (n);
        check {
            "rows": [[3, 2] Any] |x| x[0].index_select(0, &foldback_tensor::tensor![2, 0, 2; i64]);
            "columns": [[2, 3] Any] |x| x[0].index_select(-1, &foldback_tensor::tensor![1; i64]);
        }

    /// Adds the slices of `source` to those slices of an axis that `index` names; duplicates add up.
    ///
    /// # Errors
    /// If index or source do not fit, or if no memory can hold the sum (`TooLarge`).
    ///
    /// ```
    /// use foldback_graph::{RequiresGrad, Var};
    /// use foldback_tensor::tensor;
    /// let source = tensor![1.0, 2.0].requires_grad();
    /// let sum = Var::from(tensor![0.0, 0.0]).index_add(0, &tensor![1, 1; i64], &source)?;
    /// assert_eq!(sum.value(), tensor![0.0, 3.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn index_add(a; axis: Axis, index: Indices; source) {
        let shape = source.shape().clone();
    } = a.index_add(axis, &index, source);
        d a = g;
        t = t;
        d source: |g| picked(g, n.axis(axis), &index, &n.shape(&shape));
        t: |t; full| nothing(t, full, Lead(None))?.index_add(n.axis(axis), &index, with_axes(t, full.rank())?);
        over leading axes (n);
        check {
            "repeated rows": [[3, 2] Any, [3, 2] Any]
                |x| x[0].index_add(0, &foldback_tensor::tensor![2, 0, 2; i64], &x[1]);
        }
}

pub(super) use rows::ALL;

impl Var {
    /// The elements of `source`, or a number, written to the places that `index` names along an axis; see
    /// [`Tensor::scatter`]. Of several for one place the last remains, and only that has a gradient.
    ///
    /// # Errors
    /// If index or source do not fit, or if no memory can hold the result (`TooLarge`).
    ///
    /// ```
    /// use foldback_graph::{RequiresGrad, Var};
    /// use foldback_tensor::tensor;
    /// let source = tensor![1.0, 2.0].requires_grad();
    /// let y = Var::from(tensor![0.0, 0.0]).scatter(0, &tensor![1, 1; i64], &source)?;
    /// assert_eq!(y.value(), tensor![0.0, 2.0]);
    /// y.sum(..)?.backward()?;
    /// assert_eq!(source.grad(), Some(tensor![0.0, 1.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn scatter(
        &self,
        axis: impl Into<Axis>,
        index: impl Into<Indices>,
        source: impl AsInput,
    ) -> Result<Var> {
        let _line = LineGuard::set(location());
        let index = index.into();
        let scattered = match source.input() {
            Input::Scalar(s) => Tensor::try_full_with((), s, self.dtype())
                .and_then(|number| number.expand(index.shape()))
                .and_then(|numbers| self.scattered(axis, &index, numbers)),
            source => self.scattered(axis, &index, source),
        };
        scattered.map_err(|e| e.named("scatter")).here()
    }

    /// [`Var::index_add`] of `source * alpha`; see [`Tensor::index_add_with`].
    ///
    /// # Errors
    /// As [`Tensor::index_add_with`].
    ///
    /// ```
    /// use foldback_graph::{RequiresGrad, Var};
    /// use foldback_tensor::tensor;
    /// let source = tensor![2.0].requires_grad();
    /// let y = Var::from(tensor![1.0]).index_add_with(0, &tensor![0; i64], &source, 3)?;
    /// y.backward()?;
    /// assert_eq!((y.value(), source.grad()), (tensor![7.0], Some(tensor![3.0])));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn index_add_with(
        &self,
        axis: impl Into<Axis>,
        index: impl Into<Indices>,
        source: impl AsInput,
        alpha: impl Into<Scalar>,
    ) -> Result<Var> {
        let _line = LineGuard::set(location());
        let (op, alpha, source) = ("index_add_with", alpha.into(), source.input().beside(self));
        check_alpha(op, alpha, self.dtype()).here()?;
        // A scale may change the type of truth values only; what is not of this type is refused below.
        let scaled = source.mul(alpha).map(|scaled| scaled.to(source.dtype()));
        scaled.and_then(|scaled| self.index_add(axis, index, scaled)).map_err(|e| e.named(op)).here()
    }

    /// Elements picked along one axis, where index and variable broadcast on all others; negative indices count from the end.
    /// See [`Tensor::take_along_dim`].
    ///
    /// # Errors
    /// As [`Tensor::take_along_dim`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1.0, 5.0], [4.0, 3.0]].requires_grad();
    /// x.take_along_dim(tensor![[-1]; i64], 1)?.sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![[0.0, 1.0], [0.0, 1.0]]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    #[doc(alias = "take_along_axis")]
    pub fn take_along_dim(&self, index: impl Into<Indices>, along: impl Into<Along>) -> Result<Var> {
        let (_line, index) = (LineGuard::set(location()), index.into());
        let Along::One(axis) = along.into() else {
            let row = self.flatten(..).and_then(|row| row.gather(0, index.flatten(..)?));
            return row.map_err(|e| e.named("take_along_dim")).here();
        };
        let (shape, index) = aligned(self.shape(), &index, axis).here()?;
        let wide = if shape == *self.shape() { Ok(self.clone()) } else { self.expand(shape) };
        wide.and_then(|wide| wide.gather(axis, index)).map_err(|e| e.named("take_along_dim")).here()
    }
}

/// Zeros of a shape, in the type of `like`.
pub(super) fn nothing(like: &Var, shape: &Shape, n: Lead) -> Result<Var> {
    Ok(Var::constant(Tensor::try_zeros_with(n.shape(shape), like.dtype())?))
}

/// A number as a vector, where it is written into one.
fn with_axes(v: &Var, rank: usize) -> Result<Var> {
    if v.rank() < rank { v.unsqueeze(-1) } else { Ok(v.clone()) }
}

/// The gradient of what was written to the places that `index` names: of several for one place, the last has it all.
fn last_scattered(g: &Var, axis: Axis, index: &Indices, shape: &Shape) -> Result<Var> {
    let order = Tensor::try_arange(0..index.numel())?.reshape(index.shape())?;
    let last = Tensor::try_zeros_with(g.shape(), DType::I64)?.scatter(axis, index, &order)?;
    let remains = Var::constant(last.gather(axis, index)?.eq(&order)?);
    padded(&remains.where_cond(g.gather(axis, index)?, 0.0)?, shape)
}

/// The gradient of what was added to the places that `index` names; a single number has one place.
fn picked(g: &Var, axis: Axis, index: &Indices, shape: &Shape) -> Result<Var> {
    let places = if g.rank() == 0 { g.reshape(1)? } else { g.clone() };
    padded(&places.index_select(axis, index)?, shape)
}

/// A gradient for the leading part of a larger source: zero for the rest. One without elements may have any rank, and
/// a single number counts as a vector of one.
fn padded(g: &Var, shape: &Shape) -> Result<Var> {
    if *g.shape() == *shape {
        return Ok(g.clone());
    }
    if g.numel() > 0 && g.rank() != shape.rank() {
        return padded(&g.reshape(-1)?, &shape.numel().into())?.reshape(shape);
    }
    let whole: Vec<foldback_tensor::SliceItem> =
        g.shape().iter().map(|&n| foldback_tensor::SliceItem::from(0..n as isize)).collect();
    let mut zeros = Var::constant(Tensor::try_zeros_with(shape, g.dtype())?);
    if g.numel() == 0 {
        return Ok(zeros);
    }
    zeros.slice_assign(foldback_tensor::Slices::from(whole), g)?;
    Ok(zeros)
}
