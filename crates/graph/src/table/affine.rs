//! Rows of sums with products, and what is composed of products: `outer`, `einsum`.

use foldback_tensor::{Here, Scalar, expect_vectors};

use super::function_rows::function;
use super::linalg::adjoint;
use crate::arrival::apart;
use crate::error::Result;
use crate::input::{AsInput, variables_of};
use crate::node::{Arrival, Node, Var, Way, Work};

/// What is added has the gradient that came in, scaled.
fn product_and_addend(node: &Node, input: usize) -> Arrival {
    match input {
        0 => Arrival { shape: node.metadata[0].shape.clone(), way: Way::Alike },
        _ => apart(node, input),
    }
}

function! {
    in rows;

    /// `beta * self + alpha * (a @ b)` of matrices; see [`Tensor::addmm_with`](foldback_tensor::Tensor::addmm_with).
    ///
    /// # Errors
    /// If the shapes do not fit or the types differ.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0].requires_grad();
    /// x.addmm_with(&tensor![[1.0, 2.0]], &tensor![[3.0], [4.0]], 0.5, 2)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![0.5]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn addmm_with(c, a, b; beta: Scalar, alpha: Scalar) = c.addmm_with(a, b, beta, alpha);
        d c: |g| scaled(g, beta);
        t: |t| scaled(t, beta);
        d a: |g, b| Ok::<_, crate::Error>(Work::Product(scaled(g, alpha)?, adjoint(b)?));
        t: |t, b| scaled(t, alpha)?.matmul(b);
        d b: |g, a| Ok::<_, crate::Error>(Work::Product(adjoint(a)?, scaled(g, alpha)?));
        t: |t, a| a.matmul(scaled(t, alpha)?);
        over leading axes;
        arrives product_and_addend;
        check {
            "matrices": [[2, 2] Any, [2, 3] Any, [3, 2] Any] |x| x[0].addmm_with(&x[1], &x[2], 1, 1);
            "a row, scaled": [[4] Any, [2, 3] Any, [3, 4] Any] |x| x[0].addmm_with(&x[1], &x[2], 0.5, -2);
            "a number, ignored": [[] Any, [2, 3] Any, [3, 2] Any] |x| x[0].addmm_with(&x[1], &x[2], 0, 1);
            "no inner axis": [[2, 1] Any, [2, 0] Any, [0, 2] Any] |x| x[0].addmm_with(&x[1], &x[2], 1, 1);
        }

    /// `beta * self + alpha * (a @ b)` of batches of matrices; see
    /// [`Tensor::baddbmm_with`](foldback_tensor::Tensor::baddbmm_with).
    ///
    /// # Errors
    /// If the shapes do not fit or the types differ.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let a = tensor![[[1.0, 2.0]]].requires_grad();
    /// let y = tensor![1.0].requires_grad().baddbmm_with(&a, &tensor![[[3.0], [4.0]]], 1, 2)?;
    /// y.backward()?;
    /// assert_eq!(a.grad(), Some(tensor![[[6.0, 8.0]]]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn baddbmm_with(c, a, b; beta: Scalar, alpha: Scalar) = c.baddbmm_with(a, b, beta, alpha);
        d c: |g| scaled(g, beta);
        t: |t| scaled(t, beta);
        d a: |g, b| Ok::<_, crate::Error>(Work::Product(scaled(g, alpha)?, adjoint(b)?));
        t: |t, b| scaled(t, alpha)?.matmul(b);
        d b: |g, a| Ok::<_, crate::Error>(Work::Product(adjoint(a)?, scaled(g, alpha)?));
        t: |t, a| a.matmul(scaled(t, alpha)?);
        over leading axes;
        arrives product_and_addend;
        check {
            "batches": [[2, 2, 2] Any, [2, 2, 3] Any, [2, 3, 2] Any] |x| x[0].baddbmm_with(&x[1], &x[2], 1, 1);
            "a column, scaled": [[2, 1] Any, [3, 2, 1] Any, [3, 1, 2] Any] |x| x[0].baddbmm_with(&x[1], &x[2], 2, 0.5);
        }
}

pub(super) use rows::ALL;

/// A gradient times a number; itself if that is 1.
fn scaled(g: &Var, by: Scalar) -> Result<Var> {
    if by.to_f64() == 1.0 { Ok(g.clone()) } else { g.mul(by) }
}

foldback_tensor::contract_by_methods!(Var);

/// # Sums with products
impl Var {
    /// `self + a @ b` of matrices; see [`Tensor::addmm`](foldback_tensor::Tensor::addmm).
    ///
    /// # Errors
    /// As [`Var::addmm_with`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![0.5].requires_grad();
    /// assert_eq!(x.addmm(tensor![[1.0, 2.0]], tensor![[3.0], [4.0]])?.value(), tensor![[11.5]]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn addmm(&self, a: impl AsInput, b: impl AsInput) -> Result<Var> {
        self.addmm_with(a, b, 1, 1)
    }

    /// `self + a @ b` of batches of matrices; see [`Tensor::baddbmm`](foldback_tensor::Tensor::baddbmm).
    ///
    /// # Errors
    /// As [`Var::baddbmm_with`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![0.5].requires_grad();
    /// assert_eq!(x.baddbmm(tensor![[[1.0, 2.0]]], tensor![[[3.0], [4.0]]])?.value(), tensor![[[11.5]]]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn baddbmm(&self, a: impl AsInput, b: impl AsInput) -> Result<Var> {
        self.baddbmm_with(a, b, 1, 1)
    }

    /// The products of all pairs of elements of two vectors; see [`Tensor::outer`](foldback_tensor::Tensor::outer).
    ///
    /// # Errors
    /// Unless both are vectors.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 2.0].requires_grad();
    /// assert_eq!(x.outer(tensor![3.0, 4.0])?.value(), tensor![[3.0, 4.0], [6.0, 8.0]]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    #[doc(alias = "ger")]
    pub fn outer(&self, other: impl AsInput) -> Result<Var> {
        let other = other.to_var();
        expect_vectors("outer", [&*self.value_ref(), &*other.value_ref()]).here()?;
        self.unsqueeze(-1)?.mul(other).map_err(|e| e.named("outer")).here()
    }

    /// A sum of products, by labels of axes; see [`Tensor::einsum`](foldback_tensor::Tensor::einsum).
    ///
    /// # Errors
    /// If the equation does not fit the operands: the error says which label does not.
    ///
    /// ```
    /// use foldback_graph::{RequiresGrad, Var};
    /// use foldback_tensor::tensor;
    /// let (a, b) = (tensor![[1.0, 2.0], [3.0, 4.0]].requires_grad(), tensor![10.0, 1.0]);
    /// let y = Var::einsum("ij,j->", [&a, &b.into()])?;
    /// y.backward()?;
    /// assert_eq!(y.item()?, 46.0);
    /// assert_eq!(a.grad(), Some(tensor![[10.0, 1.0], [10.0, 1.0]]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn einsum(equation: &str, operands: impl IntoIterator<Item: AsInput>) -> Result<Var> {
        foldback_tensor::einsum(equation, &variables_of(operands)).here()
    }
}
