//! Rows of diagonals, padding, windows, repetition, rolling and grids.

use foldback_tensor::kernel::{embedding_shape, grids, on_diagonal, padding_sources, repetition, tiling};
use foldback_tensor::{Along, Amounts, Axes, Axis, Here, Pad, Repeats, Shape, Tensor, or_panic};

use super::function_rows::function;
use super::slices::from_front;
use crate::error::Result;
use crate::input::{AsInput, variables_of};
use crate::lead::Lead;
use crate::mode::{LineGuard, location};
use crate::node::Var;

function! {
    in rows;

    /// A diagonal of the matrices in two axes, which are dropped; it becomes the last axis. See [`Tensor::diagonal_with`].
    ///
    /// # Errors
    /// As [`Tensor::diagonal_with`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1.0, 2.0], [3.0, 4.0]].requires_grad();
    /// x.diagonal_with(1, 0, 1)?.sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![[0.0, 1.0], [0.0, 0.0]]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn diagonal_with(a; offset: i64, first: Axis, second: Axis) {
        let own = a.shape().clone();
    } = a.diagonal_with(offset, first, second);
        d a: |g| g.with_diagonal(n.shape(&own), offset, n.axis(first), n.axis(second));
        t: |t| t.diagonal_with(offset, n.axis(first), n.axis(second));
        over leading axes (n);
        check {
            "above": [[3, 4] Any] |x| x[0].diagonal_with(1, 0, 1);
            "a batch, below": [[2, 4, 3] Any] |x| x[0].diagonal_with(-1, -2, -1);
            "turned": [[3, 2, 2] Any] |x| x[0].diagonal_with(1, 2, 0);
        }

    fn with_diagonal(a; shape: Shape, offset: i64, first: Axis, second: Axis)
        = on_diagonal("diag_embed_with", a, &shape, offset, first, second);
        d a: |g| g.diagonal_with(offset, n.axis(first), n.axis(second));
        t: |t; full| t.with_diagonal(full, offset, n.axis(first), n.axis(second));
        over leading axes (n);
        check {
            "embedded": [[3] Any] |x| x[0].diag_embed_with(-1, 0, 1);
            "a batch": [[2, 3] Any] |x| x[0].diag_embed_with(1, 2, 0);
        }

    /// The ends of the last axes padded; see [`Tensor::pad_with`]. What is constant has no gradient, the gradients of elements
    /// that are mirrored or repeated add up.
    ///
    /// # Errors
    /// As [`Tensor::pad_with`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::{Pad, tensor};
    /// let x = tensor![[1.0, 2.0]].requires_grad();
    /// x.pad_with([0, 1], Pad::Replicate)?.sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![[1.0, 2.0]]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn pad_with(a; widths: Amounts, mode: Pad) {
        let widths: Amounts = widths;
        let mode: Pad = mode;
        let own = a.shape().clone();
    } = a.pad_with(&widths, mode);
        d a: |g| unpadded(g, &own, &widths, mode, n);
        t: |t; full| match mode {
            Pad::Constant(_) => t.pad(&widths),
            _ => first_axes_joined(t, n)?.pad_with(&widths, mode)?.reshape(full),
        };
        over leading axes (n);
        check {
            "zeros": [[2, 3] Any] |x| x[0].pad_with([1, 2, 0, 1], 0);
            "cut": [[2, 3] Any] |x| x[0].pad_with([-1, 2], 1.5);
            "mirrored": [[2, 3, 4] Any] |x| x[0].pad_with([2, 3, 1, 2], Pad::Reflect);
            "repeated": [[2, 3] Any] |x| x[0].pad_with([2, -1], Pad::Replicate);
            "circular": [[2, 3] Any] |x| x[0].pad_with([2, 3], Pad::Circular);
        }

    fn windows(a; axis: Axis, size: usize, step: usize) {
        let own = a.shape().clone();
    } = a.unfold(axis, size, step);
        d a: |g| overlapped(g, &n.shape(&own), n.axis(axis), size, step);
        t: |t| t.windows(n.axis(axis), size, step);
        over leading axes (n);
        check {
            "overlapping": [[6] Any] |x| x[0].unfold(0, 3, 1);
            "an inner axis": [[2, 5, 2] Any] |x| x[0].unfold(1, 2, 2);
            "with gaps": [[5] Any] |x| x[0].unfold(0, 1, 3);
        }

    /// The whole variable so many times along each axis; further counts in front are new axes. See [`Tensor::repeat`].
    ///
    /// # Errors
    /// As [`Tensor::repeat`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 2.0].requires_grad();
    /// (x.repeat(2)? * tensor![1.0, 2.0, 3.0, 4.0]).sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![4.0, 6.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn repeat(a; counts: Shape) {
        let counts: Shape = counts;
        let own = a.shape().clone();
        let steps = repetition("repeat", &own, &counts)?;
    } = a.repeat(&counts);
        // Each repetition is an axis of its own, which is summed.
        d a: |g| g.reshape(n.shape(&steps.wide))?.sum_to_size(n.shape(&steps.single))?.reshape(n.shape(&own));
        t: |t; full| t.reshape(n.shape(&steps.single))?.expand(n.shape(&steps.wide))?.reshape(full);
        over leading axes (n);
        check {
            "rows": [[2, 3] Any] |x| x[0].repeat([2, 1]);
            "both and new": [[2, 3] Any] |x| x[0].repeat([2, 1, 3]);
            "nothing": [[2] Any] |x| x[0].repeat([0, 2]);
            "a number": [[] Any] |x| x[0].repeat([2, 2]);
        }

    /// The elements moved along axes, what leaves at one end comes in at the other; see [`Tensor::roll`].
    ///
    /// # Errors
    /// As [`Tensor::roll`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 2.0, 3.0].requires_grad();
    /// (x.roll(1, 0)? * tensor![1.0, 2.0, 3.0]).sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![2.0, 3.0, 1.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn roll(a; shifts: Amounts, axes: Axes) {
        let shifts: Amounts = shifts;
        let axes: Axes = axes;
        let back = Amounts::from(shifts.as_slice().iter().map(|n| n.saturating_neg()).collect::<Vec<_>>());
    } = a.roll(&shifts, &axes);
        d a: |g| rolled(g, &back, &axes, n);
        t: |t| rolled(t, &shifts, &axes, n);
        over leading axes (n);
        check {
            "two": [[2, 3, 2] Any] |x| x[0].roll([1, -2], [0, 1]);
            "twice the same": [[3, 2] Any] |x| x[0].roll([1, 1], [0, 0]);
            "as a row": [[2, 3] Any] |x| x[0].roll(-4, [] as [i32; 0]);
        }
}

pub(super) use rows::ALL;

/// Elements that have moved around; in the order of a row, if no axes are given.
fn rolled(v: &Var, shifts: &Amounts, axes: &Axes, n: Lead) -> Result<Var> {
    match (n.0, axes) {
        (Some(count), Axes::List(list)) if list.is_empty() => {
            v.reshape((count, v.numel() / count.max(1)))?.roll(shifts, 1)?.reshape(v.shape())
        }
        _ => v.roll(shifts, n.list(axes, v.rank() - n.axes())),
    }
}

/// The leading axis and the one behind it as one.
fn first_axes_joined(v: &Var, n: Lead) -> Result<Var> {
    if n.0.is_some() { v.flatten(0..=1) } else { Ok(v.clone()) }
}

/// The gradient of what was padded: without what was added to constants, added up at the places that elements came from.
fn unpadded(g: &Var, own: &Shape, widths: &Amounts, mode: Pad, n: Lead) -> Result<Var> {
    if let Pad::Constant(_) = mode {
        return g.pad(widths.as_slice().iter().map(|n| -n).collect::<Vec<_>>());
    }
    let sources = padding_sources("pad_with", own, g.dtype(), widths, mode)?;
    sources.into_iter().rev().try_fold(g.clone(), |g, (axis, source)| {
        let (mut shape, place) = (g.shape().clone(), axis + n.axes());
        shape[place] = own[axis];
        Var::constant(Tensor::try_zeros_with(shape, g.dtype())?).index_add(place, source, g)
    })
}

/// The gradient of what was seen as windows: each window is added to where it came from.
fn overlapped(g: &Var, own: &Shape, axis: Axis, size: usize, step: usize) -> Result<Var> {
    if own.rank() == 0 {
        return g.sum(..);
    }
    let axis = from_front(axis, own.rank());
    let starts = Tensor::try_arange(0..g.shape()[axis])?.unsqueeze(-1)?;
    // A step past the end is never taken.
    let starts = if starts.numel() > 1 { starts.mul(step)? } else { starts };
    let places = starts.add(Tensor::try_arange(0..size)?)?.reshape(-1)?;
    let rows = g.movedim(-1, axis + 1)?.flatten(axis..=axis + 1)?;
    Var::constant(Tensor::try_zeros_with(own, g.dtype())?).index_add(axis, places, rows)
}

/// # Diagonals
impl Var {
    /// The main diagonal of each matrix in the first two axes, which becomes the last axis.
    ///
    /// # Panics
    /// For fewer than two axes; [`Var::diagonal_with`] returns an error.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[1.0, 2.0], [3.0, 4.0]].requires_grad().diagonal().value(), tensor![1.0, 4.0]);
    /// ```
    #[track_caller]
    pub fn diagonal(&self) -> Var {
        or_panic(self.diagonal_with(0, 0, 1).map_err(|e| e.named("diagonal")))
    }

    /// The elements of the last axis on the diagonal of a matrix of zeros, in two new last axes.
    ///
    /// # Panics
    /// For a 0-d variable, and where no memory holds the result; [`Var::diag_embed_with`] returns an error.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].requires_grad().diag_embed().value(), tensor![[1.0, 0.0], [0.0, 2.0]]);
    /// ```
    #[track_caller]
    pub fn diag_embed(&self) -> Var {
        or_panic(self.diag_embed_with(0, -2, -1).map_err(|e| e.named("diag_embed")))
    }

    /// [`Var::diag_embed`] on another diagonal, of matrices in other axes of the result; see
    /// [`Tensor::diag_embed_with`].
    ///
    /// # Errors
    /// As [`Tensor::diag_embed_with`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0].requires_grad();
    /// assert_eq!(x.diag_embed_with(-1, 0, 1)?.value(), tensor![[0.0, 0.0], [1.0, 0.0]]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn diag_embed_with(
        &self,
        offset: impl Into<i64>,
        first: impl Into<Axis>,
        second: impl Into<Axis>,
    ) -> Result<Var> {
        let (offset, first, second) = (offset.into(), first.into(), second.into());
        let shape = embedding_shape(self.shape(), offset, first, second).here()?;
        self.with_diagonal(shape, offset, first, second).here()
    }
}

/// # Padding, windows and repetition
impl Var {
    /// Zeros added to the ends of the last axes; see [`Tensor::pad`].
    ///
    /// # Errors
    /// As [`Tensor::pad`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].requires_grad().pad([1, 0])?.value(), tensor![0.0, 1.0, 2.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn pad(&self, widths: impl Into<Amounts>) -> Result<Var> {
        self.pad_with(widths, 0).map_err(|e| e.named("pad")).here()
    }

    /// Windows of `size` neighbours along an axis, one every `step`, in a new last axis; see [`Tensor::unfold`]. The gradients
    /// of elements that windows share add up.
    ///
    /// # Errors
    /// As [`Tensor::unfold`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 2.0, 3.0].requires_grad();
    /// x.unfold(0, 2, 1)?.sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![1.0, 2.0, 1.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn unfold(&self, axis: impl Into<Axis>, size: usize, step: usize) -> Result<Var> {
        self.windows(axis, size, step).map_err(|e| e.named("unfold")).here()
    }

    /// [`Var::repeat`] with counts of the last axes only, where there are fewer than axes; see [`Tensor::tile`].
    ///
    /// # Errors
    /// As [`Tensor::tile`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[1.0], [2.0]].requires_grad().tile(2)?.value(), tensor![[1.0, 1.0], [2.0, 2.0]]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn tile(&self, counts: impl Into<Shape>) -> Result<Var> {
        self.repeat(tiling(self.rank(), counts.into())).map_err(|e| e.named("tile")).here()
    }

    /// Every element of an axis repeated, one number of times for all or a number for each; see
    /// [`Tensor::repeat_interleave`].
    ///
    /// # Errors
    /// As [`Tensor::repeat_interleave`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 2.0].requires_grad();
    /// x.repeat_interleave(tensor![1, 3; i64], 0)?.sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![1.0, 3.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn repeat_interleave(&self, repeats: impl Into<Repeats>, along: impl Into<Along>) -> Result<Var> {
        let (_line, repeats) = (LineGuard::set(location()), repeats.into());
        let Along::One(axis) = along.into() else {
            let row = self.flatten(..).and_then(|row| row.repeat_interleave(repeats, 0));
            return row.map_err(|e| e.named("repeat_interleave")).here();
        };
        let source = repeats.source(self.shape(), axis).here()?;
        self.index_select(axis, source).map_err(|e| e.named("repeat_interleave")).here()
    }

    /// The grids of some vectors; see [`Tensor::meshgrid`].
    ///
    /// # Errors
    /// As [`Tensor::meshgrid`].
    ///
    /// ```
    /// use foldback_graph::{RequiresGrad, Var};
    /// use foldback_tensor::tensor;
    /// let grids = Var::meshgrid([tensor![1.0, 2.0].requires_grad(), tensor![3.0].requires_grad()])?;
    /// assert_eq!(grids[1].value(), tensor![[3.0], [3.0]]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn meshgrid(variables: impl IntoIterator<Item: AsInput>) -> Result<Vec<Var>> {
        grids_of("meshgrid", &variables_of(variables), false).here()
    }

    /// [`Var::meshgrid`] with the first two axes exchanged; see [`Tensor::meshgrid_xy`].
    ///
    /// # Errors
    /// As [`Tensor::meshgrid`].
    ///
    /// ```
    /// use foldback_graph::{RequiresGrad, Var};
    /// use foldback_tensor::tensor;
    /// let grids = Var::meshgrid_xy([tensor![1.0, 2.0].requires_grad(), tensor![3.0].requires_grad()])?;
    /// assert_eq!(grids[1].value(), tensor![[3.0, 3.0]]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn meshgrid_xy(variables: impl IntoIterator<Item: AsInput>) -> Result<Vec<Var>> {
        grids_of("meshgrid_xy", &variables_of(variables), true).here()
    }
}

#[track_caller]
fn grids_of(op: &'static str, vectors: &[Var], xy: bool) -> Result<Vec<Var>> {
    let _line = LineGuard::set(location());
    let values: Vec<Tensor> = vectors.iter().map(Var::value).collect();
    let (singles, shape) = grids(op, &values.iter().collect::<Vec<_>>(), xy)?;
    let each = vectors.iter().zip(singles);
    each.map(|(v, single)| v.reshape(single)?.expand(&shape).map_err(|e| e.named(op))).collect()
}
