//! Rows of triangles of matrices.

use foldback_tensor::or_panic;

use super::function_rows::function;
use crate::node::Var;

function! {
    in rows;

    /// The lower triangle of each matrix in the last two axes, up to a diagonal; see [`Tensor::tril_with`](foldback_tensor::Tensor::tril_with).
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
        t: |t| t.tril_with(diagonal);
        over leading axes;
        check {
            "wide": [[2, 3] Any] |x| x[0].tril_with(0);
            "a batch": [[2, 3, 2] Any] |x| x[0].tril_with(-1);
        }

    /// The upper triangle of each matrix in the last two axes, from a diagonal on; see [`Tensor::triu_with`](foldback_tensor::Tensor::triu_with).
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
        t: |t| t.triu_with(diagonal);
        over leading axes;
        check {
            "tall": [[3, 2] Any] |x| x[0].triu_with(0);
            "a batch": [[2, 3, 2] Any] |x| x[0].triu_with(1);
        }
}

pub(super) use rows::ALL;

impl Var {
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
}
