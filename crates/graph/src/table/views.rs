//! Rows of views, parts and casts.

use foldback_tensor::{
    Axes, Axis, DType, Here, NewShape, Position, Shape, Slice, SliceItem, Slices, Span, Tensor, or_panic,
};

use super::macros::function;
use crate::error::Result;
use crate::input::AsInput;
use crate::var::Var;

/// A tensor of zeros with `value` in the part that `slices` names.
fn embedded(value: &Tensor, slices: &Slices, shape: &Shape) -> Result<Tensor> {
    let mut whole = Tensor::try_zeros_with(shape, value.dtype())?;
    whole.slice_assign(slices.clone(), value)?;
    Ok(whole)
}

/// `whole` with `value` in the part that `slices` names.
fn assigned(whole: &Tensor, value: &Tensor, slices: &Slices) -> Result<Tensor> {
    let mut whole = whole.clone();
    whole.slice_assign(slices.clone(), value)?;
    Ok(whole)
}

/// `g` with axes of size 1 in front, where it has less than `rank`: a value that was assigned may have had them.
fn with_rank(g: Var, rank: usize) -> Result<Var> {
    (g.rank()..rank).try_fold(g, |g, _| g.unsqueeze(0))
}

/// The slices that take `item` on one axis and everything of the axes before it.
fn on_axis(axis: Axis, rank: usize, item: impl Into<SliceItem>) -> Slices {
    let axis = axis.get();
    let axis = if axis < 0 { axis + rank as isize } else { axis };
    let mut items: Vec<SliceItem> = (0..axis).map(|_| SliceItem::from(..)).collect();
    items.push(item.into());
    Slices::from(items)
}

fn inverse(axes: &Axes, rank: usize) -> Vec<usize> {
    let mut back = vec![0; rank];
    if let Axes::List(list) = axes {
        for (to, &from) in list.iter().enumerate() {
            back[(if from < 0 { from + rank as isize } else { from }) as usize] = to;
        }
    } else {
        back = (0..rank).collect();
    }
    back
}

function! {
    in rows;

    /// The same elements seen in a larger shape: axes of size 1 and missing leading axes repeat (PyTorch's `expand`). An axis
    /// whose size is given as -1 stays as it is.
    ///
    /// # Errors
    /// If this does not broadcast to `shape`.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1.0], [2.0]].requires_grad();
    /// x.expand([2, 3])?.sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![[3.0], [3.0]]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn expand(a; shape: NewShape) = a.expand(shape);
        // The engine folds it back.
        d a = g;
        check {
            "rows": [[3] Any] |x| x[0].expand([2, 3]);
            "size 1": [[2, 1] Any] |x| x[0].expand([2, 3]);
            "a number": [[] Any] |x| x[0].expand([2, 2]);
            "to nothing": [[1] Any] |x| x[0].expand([0]);
            "keeping an axis": [[2, 1] Any] |x| x[0].expand((3usize, -1, 2));
        }

    /// The axes in another order.
    ///
    /// # Errors
    /// If `axes` are not all axes, each once.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1.0, 2.0]].requires_grad();
    /// assert_eq!(x.permute([1, 0])?.value(), tensor![[1.0], [2.0]]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn permute(a; axes: Axes) {
        let back = inverse_checked(&axes, a.rank());
    } = a.permute(&axes);
        d a: |g| g.permute(back.clone());
        check {
            "three": [[2, 3, 4] Any] |x| x[0].permute([2, 0, 1]);
            "negative": [[2, 3] Any] |x| x[0].permute([-1, 0]);
        }

    /// Two axes exchanged.
    ///
    /// # Errors
    /// If an axis does not exist.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1.0, 2.0]].requires_grad();
    /// assert_eq!(x.transpose(0, 1)?.value(), tensor![[1.0], [2.0]]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn transpose(a; first: Axis, second: Axis) = a.transpose(first, second);
        d a: |g| g.transpose(first, second);
        check { "outer": [[2, 3, 4] Any] |x| x[0].transpose(0, -1); }

    /// Axes moved to other places.
    ///
    /// # Errors
    /// If the axes do not exist, repeat, or are not as many as the places.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[1.0, 2.0]].requires_grad().movedim(0, 1)?.value(), tensor![[1.0], [2.0]]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn movedim(a; source: Axes, destination: Axes) {
    } = a.movedim(&source, &destination);
        d a: |g| g.movedim(&destination, &source);
        check { "first to last": [[2, 3, 4] Any] |x| x[0].movedim(0, -1); }

    /// The same elements in another shape; one size may be -1.
    ///
    /// # Errors
    /// If the number of elements is another one.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].requires_grad().reshape([-1, 1])?.value(), tensor![[1.0], [2.0]]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn reshape(a; shape: NewShape) { let own = a.shape().clone(); } = a.reshape(shape);
        d a: |g| g.reshape(&own);
        check {
            "flat": [[2, 3] Any] |x| x[0].reshape([6]);
            "with -1": [[2, 3] Any] |x| x[0].reshape([3, -1]);
            "a number": [[] Any] |x| x[0].reshape([1, 1]);
        }

    /// [`Var::reshape`] that refuses to copy.
    ///
    /// # Errors
    /// If strides cannot express the shape.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert!(tensor![[1.0, 2.0], [3.0, 4.0]].requires_grad().t().view([4]).is_err());
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn view(a; shape: NewShape) { let own = a.shape().clone(); } = a.view(shape);
        d a: |g| g.reshape(&own);
        check { "split": [[6] Any] |x| x[0].view([2, 3]); }

    /// The axes `start ..= end` as one.
    ///
    /// # Errors
    /// If an axis does not exist or `start` is behind `end`.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[1.0], [2.0]].requires_grad().flatten(..)?.value(), tensor![1.0, 2.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn flatten(a; span: Span) { let own = a.shape().clone(); } = a.flatten(span);
        d a: |g| g.reshape(&own);
        check { "last two": [[2, 3, 2] Any] |x| x[0].flatten(1..); }

    /// Without those of `axes` that have size 1 (`..` for all).
    ///
    /// # Errors
    /// If an axis does not exist.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[1.0], [2.0]].requires_grad().squeeze(1)?.value(), tensor![1.0, 2.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn squeeze(a; axes: Axes) { let own = a.shape().clone(); } = a.squeeze(axes);
        d a: |g| g.reshape(&own);
        check { "all": [[1, 3, 1] Any] |x| x[0].squeeze(..); }

    /// With a new axis of size 1 at `axis`.
    ///
    /// # Errors
    /// If there is no such place.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].requires_grad().unsqueeze(-1)?.value(), tensor![[1.0], [2.0]]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn unsqueeze(a; axis: Axis) { let own = a.shape().clone(); } = a.unsqueeze(axis);
        d a: |g| g.reshape(&own);
        check { "middle": [[2, 3] Any] |x| x[0].unsqueeze(1); }

    /// The elements in reverse order along `axes`.
    ///
    /// # Errors
    /// If an axis does not exist or is named twice.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].requires_grad().flip(0)?.value(), tensor![2.0, 1.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn flip(a; axes: Axes) = a.flip(&axes);
        d a: |g| g.flip(&axes);
        check { "columns": [[2, 3] Any] |x| x[0].flip(1); }

    /// The lower triangle of each matrix in the last two axes, up to a diagonal; see [`Tensor::tril_with`].
    ///
    /// # Errors
    /// For fewer than two axes.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1.0, 2.0], [3.0, 4.0]].requires_grad();
    /// x.tril_with(-1)?.sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![[0.0, 0.0], [1.0, 0.0]]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn tril_with(a; diagonal: i64) = a.tril_with(diagonal);
        d a: |g| g.tril_with(diagonal);
        check {
            "wide": [[2, 3] Any] |x| x[0].tril_with(0);
            "a batch": [[2, 3, 2] Any] |x| x[0].tril_with(-1);
        }

    /// The upper triangle of each matrix in the last two axes, from a diagonal on; see [`Tensor::triu_with`].
    ///
    /// # Errors
    /// For fewer than two axes.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1.0, 2.0], [3.0, 4.0]].requires_grad();
    /// x.triu_with(1)?.sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![[0.0, 1.0], [0.0, 0.0]]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn triu_with(a; diagonal: i64) = a.triu_with(diagonal);
        d a: |g| g.triu_with(diagonal);
        check {
            "tall": [[3, 2] Any] |x| x[0].triu_with(0);
            "a batch": [[2, 3, 2] Any] |x| x[0].triu_with(1);
        }

    /// Part of the variable: one item per leading axis, a range (with a step) or an index; see [`Tensor::slice`].
    ///
    /// # Errors
    /// If the slices do not fit.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 2.0, 3.0].requires_grad();
    /// x.slice(1..)?.sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![0.0, 1.0, 1.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn slice(a; slices: Slices) {
        let slices: Slices = slices;
        let own = a.shape().clone();
    } = a.slice(slices.clone());
        d a: |g| g.embed(slices.clone(), own.clone());
        check {
            "a row": [[2, 3] Any] |x| x[0].slice(1);
            "a step": [[5] Any] |x| x[0].slice(Slice::new(0, 5, 2));
            "both axes": [[3, 4] Any] |x| x[0].slice((1.., -1));
        }

    fn embed(a; slices: Slices, shape: Shape) = embedded(a, &slices, &shape);
        d a: |g| g.slice(slices.clone());
        check {
            "a row": [[3] Any] |x| x[0].embed(1, [2, 3]);
            "a step": [[3] Any] |x| x[0].embed(Slices::from(Slice::new(0, 5, 2)), [5]);
        }

    fn with_part(a, value; slices: Slices) {
        let part = a.slice(slices.clone())?.shape().clone();
        let dtype = a.dtype();
        let rank = value.rank();
    } = assigned(a, value, &slices);
        d a: |g| g.with_part(Var::constant(Tensor::try_zeros_with(&part, dtype)?), slices.clone());
        d value: |g| g.slice(slices.clone()).and_then(|g| with_rank(g, rank));
        check {
            "a row": [[3, 4] Any, [4] Any] |x| x[0].with_part(&x[1], Slices::from(1));
            "broadcast": [[3, 4] Any, [1] Any] |x| x[0].with_part(&x[1], Slices::from((.., 1..3)));
            "surplus axes": [[3] Any, [1, 1, 2] Any] |x| x[0].with_part(&x[1], Slices::from(1..));
            "one of many axes": [[3] Any, [1, 1] Any] |x| x[0].with_part(&x[1], Slices::from(1));
        }

    pub(crate) fn cast(a; dtype: DType) = a.try_to(dtype);
        // The engine casts it back.
        d a = g;
        check { "to itself": [[2, 3] Any] |x| x[0].cast(DType::F64); }

    fn laid_out(a) = a.try_contiguous();
        d a = g;
        check { "plain": [[2, 3] Any] |x| x[0].laid_out(); }
}

pub(super) use rows::ALL;

/// The inverse of a permutation, or of nothing useful if it is none; the tensor operation refuses it afterwards.
fn inverse_checked(axes: &Axes, rank: usize) -> Vec<usize> {
    match axes {
        Axes::List(list) if list.len() != rank => Vec::new(),
        Axes::List(list) if list.iter().any(|&a| !(-(rank as isize)..rank as isize).contains(&a)) => {
            Vec::new()
        }
        _ => inverse(axes, rank),
    }
}

impl Var {
    /// The same values in another type; the gradient arrives in this variable's own. Integers require none.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::{DType, tensor};
    /// let x = tensor![1.0].requires_grad();
    /// x.to(DType::F64).backward()?;
    /// assert_eq!(x.grad().unwrap().dtype(), DType::F32);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn to(&self, dtype: DType) -> Var {
        or_panic(self.try_to(dtype))
    }

    /// [`Var::to`] without a panic.
    ///
    /// # Errors
    /// `TooLarge` if this is an expanded view that no memory can hold.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::{DType, tensor};
    /// assert_eq!(tensor![1.0].requires_grad().try_to(DType::F64)?.dtype(), DType::F64);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn try_to(&self, dtype: DType) -> Result<Var> {
        if self.dtype() == dtype { Ok(self.clone()) } else { self.cast(dtype).here() }
    }

    /// Cast to `f32`.
    ///
    /// ```
    /// use foldback_tensor::{DType, tensor};
    /// use foldback_graph::RequiresGrad;
    /// assert_eq!(tensor![1.5].requires_grad().float().dtype(), DType::F32);
    /// ```
    #[track_caller]
    pub fn float(&self) -> Var {
        self.to(DType::F32)
    }

    /// Cast to `f64`.
    ///
    /// ```
    /// use foldback_tensor::{DType, tensor};
    /// use foldback_graph::RequiresGrad;
    /// assert_eq!(tensor![1.5].requires_grad().double().dtype(), DType::F64);
    /// ```
    #[track_caller]
    pub fn double(&self) -> Var {
        self.to(DType::F64)
    }

    /// Cast to `i64`; fractions are cut off.
    ///
    /// ```
    /// use foldback_tensor::{DType, tensor};
    /// use foldback_graph::RequiresGrad;
    /// assert_eq!(tensor![1.5].requires_grad().long().dtype(), DType::I64);
    /// ```
    #[track_caller]
    pub fn long(&self) -> Var {
        self.to(DType::I64)
    }

    /// Cast to `bool`: whether elements are not zero.
    ///
    /// ```
    /// use foldback_tensor::{DType, tensor};
    /// use foldback_graph::RequiresGrad;
    /// assert_eq!(tensor![1.5].requires_grad().bool().dtype(), DType::Bool);
    /// ```
    #[track_caller]
    pub fn bool(&self) -> Var {
        self.to(DType::Bool)
    }

    /// The lower triangle of each matrix in the last two axes; zero above the main diagonal.
    ///
    /// # Panics
    /// For fewer than two axes; [`Var::tril_with`] returns an error.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[1.0, 2.0], [3.0, 4.0]].requires_grad().tril().value(), tensor![[1.0, 0.0], [3.0, 4.0]]);
    /// ```
    #[track_caller]
    pub fn tril(&self) -> Var {
        or_panic(self.tril_with(0).map_err(|e| e.named("tril")))
    }

    /// The upper triangle of each matrix in the last two axes; zero below the main diagonal.
    ///
    /// # Panics
    /// For fewer than two axes; [`Var::triu_with`] returns an error.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[1.0, 2.0], [3.0, 4.0]].requires_grad().triu().value(), tensor![[1.0, 2.0], [0.0, 4.0]]);
    /// ```
    #[track_caller]
    pub fn triu(&self) -> Var {
        or_panic(self.triu_with(0).map_err(|e| e.named("triu")))
    }

    /// Itself if it is contiguous, else a row-major copy.
    ///
    /// # Panics
    /// If this is an expanded view too large to store.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// let x = foldback_tensor::tensor![[1.0, 2.0], [3.0, 4.0]].requires_grad();
    /// assert!(x.t().contiguous().value().is_contiguous());
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn contiguous(&self) -> Var {
        or_panic(self.try_contiguous().map_err(|e| e.named("contiguous")))
    }

    /// [`Var::contiguous`] without a panic.
    ///
    /// # Errors
    /// `TooLarge` if this is an expanded view that no memory can hold.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// let x = foldback_tensor::tensor![[1.0, 2.0], [3.0, 4.0]].requires_grad();
    /// assert!(x.t().try_contiguous()?.value().is_contiguous());
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn try_contiguous(&self) -> Result<Var> {
        if self.value_ref().is_contiguous() { Ok(self.clone()) } else { self.laid_out().here() }
    }

    /// The transposed matrix; vectors and numbers stay as they are.
    ///
    /// # Panics
    /// For more than two axes.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[1.0, 2.0]].requires_grad().t().value(), tensor![[1.0], [2.0]]);
    /// ```
    #[track_caller]
    pub fn t(&self) -> Var {
        or_panic(self.try_t())
    }

    /// [`Self::t`], with an error where that panics.
    ///
    /// # Errors
    /// For more than two axes.
    ///
    /// ```
    /// use foldback_graph::Var;
    /// assert!(Var::from(foldback_tensor::Tensor::zeros([2, 3, 4])).try_t().is_err());
    /// ```
    #[track_caller]
    pub fn try_t(&self) -> Result<Var> {
        self.value_ref().try_t().here()?;
        let axes: Vec<usize> = (0..self.rank()).rev().collect();
        self.permute(axes).map_err(|e| e.named("t"))
    }

    /// The same elements seen in a larger shape: [`Var::expand`] to one that is known, without -1.
    ///
    /// # Errors
    /// As [`Var::expand`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// assert_eq!(foldback_tensor::tensor![1.0].requires_grad().broadcast_to([3])?.shape(), [3]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl Into<Shape>) -> Result<Var> {
        self.expand(shape.into()).map_err(|e| e.named("broadcast_to"))
    }

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
    /// axes of size 1 that the part does not have are dropped.
    ///
    /// A result of an operation is rebound to the new value, and the gradient of `value` has its own shape. A variable
    /// without history becomes tracked if `value` is.
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
    pub fn slice_assign(&mut self, slices: impl Into<Slices>, value: impl AsInput) -> Result<&mut Var> {
        let slices = slices.into();
        let leaf = self.own_leaf();
        let _turn = self.turn_to_rebind("slice_assign", leaf.as_deref()).here()?;
        let new = self.with_part(value, slices).map_err(|e| e.named("slice_assign")).here()?;
        self.rebind("slice_assign", new).here()?;
        Ok(self)
    }
}
