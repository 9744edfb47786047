//! Rows of views.

use foldback_tensor::{Axes, Axis, Here, NewShape, Shape, Span, or_panic};

use super::function_rows::function;
use super::slices::from_front;
use crate::arrival::{shared, unfolded};
use crate::error::Result;
use crate::node::Var;

fn inverse(order: &[usize]) -> Vec<usize> {
    let mut back = vec![0; order.len()];
    order.iter().enumerate().for_each(|(to, &from)| back[from] = to);
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
        // The engine folds it back, and expands a tangent.
        d a = g;
        t = t;
        over leading axes;
        arrives unfolded;
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
        d a: |g| g.permute(n.order(&back));
        t: |t| t.permute(n.order(&inverse(&back)));
        over leading axes (n);
        arrives shared;
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
        d a: |g| g.transpose(n.axis(first), n.axis(second));
        t: |t| t.transpose(n.axis(first), n.axis(second));
        over leading axes (n);
        arrives shared;
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
    pub fn movedim(a; source: Axes, destination: Axes) { let rank = a.rank(); }
        = a.movedim(&source, &destination);
        d a: |g| g.movedim(n.list(&destination, rank), n.list(&source, rank));
        t: |t| t.movedim(n.list(&source, rank), n.list(&destination, rank));
        over leading axes (n);
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
        d a: |g| g.reshape(n.shape(&own));
        t: |t; full| t.reshape(full);
        over leading axes (n);
        arrives shared;
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
        d a: |g| g.reshape(n.shape(&own));
        t: |t; full| t.reshape(full);
        over leading axes (n);
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
        d a: |g| g.reshape(n.shape(&own));
        t: |t; full| t.reshape(full);
        over leading axes (n);
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
        d a: |g| g.reshape(n.shape(&own));
        t: |t; full| t.reshape(full);
        over leading axes (n);
        arrives shared;
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
        d a: |g| g.reshape(n.shape(&own));
        t: |t; full| t.reshape(full);
        over leading axes (n);
        arrives shared;
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
    pub fn flip(a; axes: Axes) { let rank = a.rank(); } = a.flip(&axes);
        d a: |g| g.flip(n.list(&axes, rank));
        t: |t| t.flip(n.list(&axes, rank));
        over leading axes (n);
        check { "columns": [[2, 3] Any] |x| x[0].flip(1); }
}

pub(super) use rows::ALL;

/// The inverse of a permutation, or of nothing useful if it is none; the tensor operation refuses it afterwards.
fn inverse_checked(axes: &Axes, rank: usize) -> Vec<usize> {
    match axes {
        Axes::List(list) if list.len() != rank => Vec::new(),
        Axes::List(list) if list.iter().any(|&a| !(-(rank as isize)..rank as isize).contains(&a)) => {
            Vec::new()
        }
        Axes::List(list) => inverse(&list.iter().map(|&a| from_front(a.into(), rank)).collect::<Vec<_>>()),
        Axes::All => (0..rank).collect(),
    }
}

impl Var {
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
}
