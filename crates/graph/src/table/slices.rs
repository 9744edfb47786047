//! Rows of parts: what slices take, and what is written or added there.

use foldback_tensor::{Axis, DType, Here, Position, Shape, Slice, SliceItem, Slices, Tensor, s, tensor};

use super::function_rows::function;
use crate::error::Result;
use crate::input::AsInput;
use crate::lead::Lead;
use crate::node::{Part, Var, Work};

/// A tensor of zeros with `value` in the part that `slices` names, added up where that names a place more than once.
fn embedded(value: &Tensor, slices: &Slices, shape: &Shape) -> Result<Tensor> {
    let mut whole = Tensor::try_zeros_with(shape, value.dtype())?;
    if slices.has_places() {
        whole.slice_add(slices.clone(), value)?;
    } else {
        whole.slice_assign(slices.clone(), value)?;
    }
    Ok(whole)
}

/// The gradient of a whole of this shape, given that of the part that `slices` names.
fn in_zeros(g: &Var, slices: Slices, shape: Shape) -> Result<Work<'static>> {
    Ok(Work::Part(Part { value: g.clone(), slices, shape }))
}

/// `whole` with `value` in the part that `slices` names.
fn assigned(whole: &Tensor, value: &Tensor, slices: &Slices) -> Result<Tensor> {
    let mut whole = whole.clone();
    whole.slice_assign(slices.clone(), value)?;
    Ok(whole)
}

/// `whole` with `value` added to the part that `slices` names.
fn added(whole: &Tensor, value: &Tensor, slices: &Slices) -> Result<Tensor> {
    let mut whole = whole.clone();
    whole.slice_add(slices.clone(), value)?;
    Ok(whole)
}

/// The gradient of a value that was assigned to a part: where several elements went to one place, the last has it all.
fn remaining(g: &Var, slices: &Slices, rank: usize, n: Lead) -> Result<Var> {
    let mut part = g.slice(slices.clone())?;
    if slices.has_places() && part.numel() > 0 {
        let order = Tensor::try_arange(0..part.numel())?.reshape(part.shape())?;
        let mut last = Tensor::try_zeros_with(g.shape(), DType::I64)?;
        last.slice_assign(slices.clone(), &order)?;
        part = Var::constant(last.slice(slices.clone())?.eq(&order)?).where_cond(part, 0.0)?;
    }
    with_rank(part, rank, n)
}

/// `g` with axes of size 1 in front, where it has less than `rank`: a value that was assigned may have had them.
fn with_rank(g: Var, rank: usize, n: Lead) -> Result<Var> {
    (g.rank()..rank + n.axes()).try_fold(g, |g, _| g.unsqueeze(n.axes()))
}

/// What stands around a part that is zero.
fn without_part(v: &Var, slices: Slices) -> Result<Var> {
    v.with_part(Var::constant(Tensor::zeros_with((), v.dtype())), slices)
}

/// The tangent of a value that is written into a part, in a shape that broadcasts to that behind the leading axis; and zeros
/// for the whole.
fn in_nothing(t: &Var, rank: usize, slices: &Slices, full: &Shape, n: Lead) -> Result<(Var, Var)> {
    let whole = Tensor::try_zeros_with(full, t.dtype())?;
    let own = Shape::from(&t.dims()[n.axes()..]);
    let axes = whole.slice(slices.clone())?.rank() - n.axes();
    // Surplus axes in front have size 1.
    let own = Shape::from(&own.dims()[rank.saturating_sub(axes)..]);
    let part = if n.0.is_some() { t.reshape(n.aligned(&own, axes))? } else { t.clone() };
    Ok((part, Var::constant(whole)))
}

/// The number of an axis that there is, counted from the front.
pub(super) fn from_front(axis: Axis, rank: usize) -> usize {
    let axis = axis.get();
    (if axis < 0 { axis + rank as isize } else { axis }) as usize
}

/// The slices that take `item` on one axis and everything of the axes before it.
fn on_axis(axis: Axis, rank: usize, item: impl Into<SliceItem>) -> Slices {
    let mut items: Vec<SliceItem> = (0..from_front(axis, rank)).map(|_| SliceItem::from(..)).collect();
    items.push(item.into());
    Slices::from(items)
}

function! {
    in rows;

    /// Part of the variable: one item per leading axis, a range (with a step), an index, an index tensor or a mask; see
    /// [`Tensor::slice`]. The gradients of an element that is picked several times add up.
    ///
    /// # Errors
    /// If the slices do not fit.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 2.0, 3.0].requires_grad();
    /// x.slice(1..)?.sum(..)?.backward()?;
    /// x.slice(tensor![0, 2, 2; i64])?.sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![1.0, 1.0, 3.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn slice(a; slices: Slices) {
        let slices: Slices = slices;
        let own = a.shape().clone();
    } = a.slice(slices.clone());
        d a: |g| in_zeros(g, n.part(&slices), n.shape(&own));
        t: |t| t.slice(n.part(&slices));
        over leading axes (n if !slices.are_apart());
        check {
            "a row": [[2, 3] Any] |x| x[0].slice(1);
            "a step": [[5] Any] |x| x[0].slice(Slice::new(0, 5, 2));
            "both axes": [[3, 4] Any] |x| x[0].slice((1.., -1));
            "an index tensor": [[4, 3] Any] |x| x[0].slice(s![.., tensor![[2, 0], [0, -1]; i64]]);
            "neighbours": [[2, 3, 4] Any] |x| x[0].slice(s![1.., tensor![2, 2; i64], tensor![[0], [3]; i64]]);
            "apart, and an index": [[2, 3, 4] Any] |x| x[0].slice(s![tensor![1, 1; i64], 0..2, tensor![3, 3; i64]]);
            "a mask": [[2, 3, 2] Any] |x| x[0].slice(tensor![[true, false, true], [false, true, false]]);
        }

    pub(crate) fn embed(a; slices: Slices, shape: Shape) = embedded(a, &slices, &shape);
        d a: |g| g.slice(n.part(&slices));
        t: |t; full| t.embed(n.part(&slices), full);
        over leading axes (n if !slices.are_apart());
        check {
            "a row": [[3] Any] |x| x[0].embed(1, [2, 3]);
            "a step": [[3] Any] |x| x[0].embed(Slices::from(Slice::new(0, 5, 2)), [5]);
            "repeated rows": [[3, 2] Any] |x| x[0].embed(tensor![1, 0, 1; i64], [2, 2]);
        }

    fn with_part(a, value; slices: Slices) {
        let slices: Slices = slices;
        let rank = value.rank();
    } = assigned(a, value, &slices);
        d a: |g| without_part(g, n.part(&slices));
        t: |t| without_part(t, n.part(&slices));
        d value: |g| remaining(g, &n.part(&slices), rank, n);
        t: |t; full| {
            let (part, whole) = in_nothing(t, rank, &n.part(&slices), full, n)?;
            whole.with_part(part, n.part(&slices))
        };
        over leading axes (n if !slices.are_apart());
        check {
            "a row": [[3, 4] Any, [4] Any] |x| x[0].with_part(&x[1], Slices::from(1));
            "broadcast": [[3, 4] Any, [1] Any] |x| x[0].with_part(&x[1], Slices::from((.., 1..3)));
            "surplus axes": [[3] Any, [1, 1, 2] Any] |x| x[0].with_part(&x[1], Slices::from(1..));
            "one of many axes": [[3] Any, [1, 1] Any] |x| x[0].with_part(&x[1], Slices::from(1));
            "repeated rows": [[3, 2] Any, [4, 2] Any] |x| x[0].with_part(&x[1], tensor![2, 0, 2, 2; i64]);
            "places, broadcast": [[3, 4] Any, [2, 1] Any]
                |x| x[0].with_part(&x[1], s![tensor![[2], [0]; i64], tensor![3, 3, 1; i64]]);
            "a mask": [[4] Any, [] Any] |x| x[0].with_part(&x[1], tensor![true, false, true, true]);
        }

    fn with_sum(a, value; slices: Slices) {
        let slices: Slices = slices;
        let rank = value.rank();
    } = added(a, value, &slices);
        d a = g;
        t = t;
        d value: |g| g.slice(n.part(&slices)).and_then(|g| with_rank(g, rank, n));
        t: |t; full| {
            let (part, whole) = in_nothing(t, rank, &n.part(&slices), full, n)?;
            whole.with_sum(part, n.part(&slices))
        };
        over leading axes (n if !slices.are_apart());
        check {
            "a part": [[3, 4] Any, [1, 2] Any] |x| x[0].with_sum(&x[1], Slices::from((.., 1..3)));
            "repeated rows": [[3, 2] Any, [4, 2] Any] |x| x[0].with_sum(&x[1], tensor![2, 0, 2, 2; i64]);
            "apart": [[2, 3, 2] Any, [2, 1] Any]
                |x| x[0].with_sum(&x[1], s![tensor![0, 0; i64], .., tensor![1, 1; i64]]);
        }
}

pub(super) use rows::ALL;

impl Var {
    /// `len` elements of one axis from `start` on, which may count from the end.
    ///
    /// # Errors
    /// If the part is not inside the axis.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0, 3.0].requires_grad().narrow(0, 1, 2)?.value(), tensor![2.0, 3.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn narrow(&self, axis: impl Into<Axis>, start: impl Into<Position>, len: usize) -> Result<Var> {
        let (axis, start) = (axis.into(), start.into());
        self.value_ref().narrow(axis, start, len)?;
        let size = self.value_ref().size(axis)? as isize;
        let first = if start.get() < 0 { start.get() + size } else { start.get() };
        self.slice(on_axis(axis, self.rank(), Slice::new(first, first + len as isize, 1)))
    }

    /// One element of an axis, which is dropped.
    ///
    /// # Errors
    /// If the axis or the element does not exist.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[1.0, 2.0], [3.0, 4.0]].requires_grad().select(1, 0)?.value(), tensor![1.0, 3.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn select(&self, axis: impl Into<Axis>, index: impl Into<Position>) -> Result<Var> {
        let (axis, index) = (axis.into(), index.into());
        self.value_ref().select(axis, index)?;
        self.slice(on_axis(axis, self.rank(), index.get()))
    }

    /// Writes `value` into the part of this variable that `slices` names; it broadcasts to the part's shape, and leading
    /// axes of size 1 that the part does not have are dropped. See [`Tensor::slice_assign`].
    ///
    /// A result of an operation is rebound to the new value, and the gradient of `value` has its own shape. A variable
    /// without history becomes tracked if `value` is. Of several elements for one place only the last, which remains, has a
    /// gradient.
    ///
    /// # Errors
    /// `LeafInPlace` for a leaf that requires a gradient, outside [`no_grad`](crate::no_grad); also if the slices
    /// do not fit or the value does not broadcast. Nothing is changed then.
    ///
    /// ```
    /// use foldback_graph::{RequiresGrad, Var};
    /// use foldback_tensor::{DType, Tensor, tensor};
    /// let v = tensor![5.0, 6.0].requires_grad();
    /// let mut x = Var::from(Tensor::zeros([2, 2]));
    /// x.slice_assign(1, &v)?;
    /// x.sum(..)?.backward()?;
    /// assert_eq!(v.grad(), Some(tensor![1.0, 1.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    #[doc(alias = "index_put")]
    #[doc(alias = "index_copy")]
    #[doc(alias = "index_fill")]
    pub fn slice_assign(&mut self, slices: impl Into<Slices>, value: impl AsInput) -> Result<&mut Var> {
        let slices = slices.into();
        let leaf = self.own_leaf();
        let _turn = self.turn_to_rebind("slice_assign", leaf.as_deref()).here()?;
        value.input().expect_fits("slice_assign", self.dtype()).here()?;
        let new = self.with_part(value, slices).map_err(|e| e.named("slice_assign")).here()?;
        self.rebind("slice_assign", new).here()?;
        Ok(self)
    }

    /// Adds `value` to the part of this variable that `slices` names, where every element counts; see
    /// [`Tensor::slice_add`]. The variable is rebound as by [`Var::slice_assign`].
    ///
    /// # Errors
    /// As `slice_assign`.
    ///
    /// ```
    /// use foldback_graph::{RequiresGrad, Var};
    /// use foldback_tensor::tensor;
    /// let v = tensor![5.0, 6.0].requires_grad();
    /// let mut x = Var::from(tensor![1.0, 1.0]);
    /// x.slice_add(tensor![1, 1; i64], &v)?;
    /// assert_eq!(x.value(), tensor![1.0, 12.0]);
    /// x.sum(..)?.backward()?;
    /// assert_eq!(v.grad(), Some(tensor![1.0, 1.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn slice_add(&mut self, slices: impl Into<Slices>, value: impl AsInput) -> Result<&mut Var> {
        let slices = slices.into();
        let leaf = self.own_leaf();
        let _turn = self.turn_to_rebind("slice_add", leaf.as_deref()).here()?;
        value.input().expect_fits("slice_add", self.dtype()).here()?;
        let new = self.with_sum(value, slices).map_err(|e| e.named("slice_add")).here()?;
        self.rebind("slice_add", new).here()?;
        Ok(self)
    }
}
