//! Rows of matrix products.

use super::function_rows::function;
use crate::arrival::{apart, factor, joined, unfolded};
use crate::error::Result;
use crate::lead::Lead;
use crate::node::{Arrival, Node, Var, Way, Work};

/// The last two axes exchanged.
pub(super) fn adjoint(v: &Var) -> Result<Var> {
    v.transpose(-2, -1)
}

/// The gradient of the weight of a linear map: `g^T @ x`, which the engine sums over leading axes.
fn weight_gradient(g: &Var, x: &Var) -> Result<Work<'static>> {
    // A vector is one row.
    if x.rank() == 1 {
        Ok(Work::Product(g.unsqueeze(-1)?, x.unsqueeze(0)?))
    } else {
        Ok(Work::Product(adjoint(g)?, x.clone()))
    }
}

/// The gradient of the input of a linear map: `g @ w`, an outer product where the weight is a vector.
fn input_gradient(g: &Var, w: &Var) -> Result<Work<'static>> {
    if w.rank() == 1 {
        g.unsqueeze(-1)?.mul(w).map(Work::from)
    } else {
        Ok(Work::Product(g.clone(), w.clone()))
    }
}

/// The gradient of a weight that is a vector, which the engine sums over leading axes.
fn vector_gradient(g: &Var, x: &Var) -> Result<Work<'static>> {
    match x.rank() {
        1 => times_number(g, x),
        _ => adjoint(x)?.matmul(&g.unsqueeze(-1)?)?.squeeze(-1).map(Work::from),
    }
}

/// A vector times the gradient of a product of vectors, which is a number, or one for each along leading axes.
fn times_number(g: &Var, x: &Var) -> Result<Work<'static>> {
    let product = if g.rank() == 0 { g.mul(x) } else { g.unsqueeze(-1)?.mul(x) };
    product.map(Work::from)
}

/// The tangent of a left factor, which has `rank` axes, by the right one.
fn tangent_by(t: &Var, b: &Var, rank: usize, n: Lead) -> Result<Var> {
    match (rank, b.rank()) {
        (_, 1) => t.matmul(b),
        (1, right) => beside(&t.unsqueeze(-2)?, right, n)?.matmul(b)?.squeeze(-2),
        (_, right) => beside(t, right, n)?.matmul(b),
    }
}

/// The left factor by the tangent of the right one, which has `rank` axes.
fn by_tangent(a: &Var, t: &Var, rank: usize, n: Lead) -> Result<Var> {
    match (a.rank(), rank) {
        (1, 1) => t.matmul(a),
        (1, _) => a.matmul(t),
        (left, 1) => a.matmul(beside(&t.unsqueeze(-1)?, left, n)?)?.squeeze(-1),
        (left, _) => a.matmul(beside(t, left, n)?),
    }
}

/// Matrices behind a leading axis which stands in front of all batches of a factor of `rank` axes.
pub(super) fn beside(t: &Var, rank: usize, n: Lead) -> Result<Var> {
    match n.0 {
        Some(_) if t.rank() <= rank => t.reshape(n.aligned(&t.dims()[1..].into(), rank)),
        _ => Ok(t.clone()),
    }
}

/// The weight's gradient is a matrix for each but the last two axes of the result, or a vector for each but the last.
fn linear_map(node: &Node, input: usize) -> Arrival {
    let (own, output) = (node.own_shape(input), node.metadata[0].shape.dims());
    let but = |axes: usize| &output[..output.len().saturating_sub(axes)];
    match (input, own.rank()) {
        (0, 0) => apart(node, input),
        (0, _) => Arrival { shape: own, way: Way::Straight },
        (1, 2) => Arrival { shape: joined(but(2), &own), way: Way::Straight },
        (1, _) => Arrival { shape: joined(but(1), &own), way: Way::Apart },
        _ => unfolded(node, input),
    }
}

function! {
    in rows;

    /// `self @ weight^T + bias` over the last axis: an input `[.., in]`, a weight `[out, in]` and a bias `[out]` give
    /// `[.., out]`, in one pass and one node; a bias `[]` or `[1]` is that of all outputs. A weight `[in]` and a bias `[]` give `[..]`.
    ///
    /// # Errors
    /// If the weight does not have one or two axes, the shapes do not fit or the types differ.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1.0, 2.0]].requires_grad();
    /// let w = tensor![[3.0, 4.0]].requires_grad();
    /// let b = tensor![0.5].requires_grad();
    /// let y = x.linear(&w, Some(&b))?;
    /// assert_eq!(y.value(), tensor![[11.5]]);
    /// y.backward()?;
    /// assert_eq!(w.grad(), Some(tensor![[1.0, 2.0]]));
    /// assert_eq!(b.grad(), Some(tensor![1.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn linear(x, w, [b]) { let vector = w.rank() == 1; } = x.linear(w, b);
        d x: |g, w| input_gradient(g, w);
        t: |t, w| t.linear(w, ());
        d w: |g, x| if vector { vector_gradient(g, x) } else { weight_gradient(g, x) };
        t: |t, x| if vector { by_tangent(x, t, 1, n) } else { by_tangent(x, &adjoint(t)?, 2, n) };
        d b = g;
        t = t;
        over leading axes (n);
        arrives linear_map;
        check {
            "row": [[3] Any, [2, 3] Any, [2] Any] |x| x[0].linear(&x[1], Some(&x[2]));
            "rows": [[4, 3] Any, [2, 3] Any, [2] Any] |x| x[0].linear(&x[1], Some(&x[2]));
            "batch": [[2, 4, 3] Any, [2, 3] Any, [2] Any] |x| x[0].linear(&x[1], Some(&x[2]));
            "one output": [[4, 3] Any, [1, 3] Any, [1] Any] |x| x[0].linear(&x[1], Some(&x[2]));
            "one bias": [[4, 3] Any, [2, 3] Any, [1] Any] |x| x[0].linear(&x[1], Some(&x[2]));
            "a number as bias": [[2, 4, 3] Any, [2, 3] Any, [] Any] |x| x[0].linear(&x[1], Some(&x[2]));
            "no rows": [[0, 3] Any, [2, 3] Any, [2] Any] |x| x[0].linear(&x[1], Some(&x[2]));
            "no inputs": [[4, 0] Any, [2, 0] Any, [2] Any] |x| x[0].linear(&x[1], Some(&x[2]));
            "row, vector": [[3] Any, [3] Any, [] Any] |x| x[0].linear(&x[1], Some(&x[2]));
            "rows, vector": [[4, 3] Any, [3] Any, [] Any] |x| x[0].linear(&x[1], Some(&x[2]));
            "batch, vector": [[2, 4, 3] Any, [3] Any, [] Any] |x| x[0].linear(&x[1], Some(&x[2]));
            "row, no bias": [[3] Any, [2, 3] Any] |x| x[0].linear(&x[1], None);
            "rows, no bias": [[4, 3] Any, [2, 3] Any] |x| x[0].linear(&x[1], None);
            "batch, no bias": [[2, 4, 3] Any, [2, 3] Any] |x| x[0].linear(&x[1], None);
            "row, vector, no bias": [[3] Any, [3] Any] |x| x[0].linear(&x[1], None);
            "rows, vector, no bias": [[4, 3] Any, [3] Any] |x| x[0].linear(&x[1], None);
            "no rows, vector, no bias": [[0, 3] Any, [3] Any] |x| x[0].linear(&x[1], None);
        }

    /// The matrix product; see [`Tensor::matmul`](foldback_tensor::Tensor::matmul) for vectors and batches.
    ///
    /// # Errors
    /// If the shapes do not multiply or the types differ.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let a = tensor![[1.0, 2.0]].requires_grad();
    /// let b = tensor![[3.0], [4.0]].requires_grad();
    /// a.matmul(&b)?.backward()?;
    /// assert_eq!(a.grad(), Some(tensor![[3.0, 4.0]]));
    /// assert_eq!(b.grad(), Some(tensor![[1.0], [2.0]]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn matmul(a, b) {
        let ranks = (a.rank(), b.rank());
    } = a.matmul(b);
        d a: |g, b| match ranks {
            (1, 1) => times_number(g, b),
            // [k] x [.., k, n]: every batch's row vector
            (1, _) => {
                let columns = g.unsqueeze(-1)?;
                b.matmul(&columns)?.squeeze(-1).map(Work::from)
            }
            // [.., m, k] x [k]: an outer product
            (_, 1) => g.unsqueeze(-1)?.mul(b).map(Work::from),
            _ => Ok(Work::Product(g.clone(), adjoint(b)?)),
        };
        t: |t, b| tangent_by(t, b, ranks.0, n);
        d b: |g, a| match ranks {
            (1, 1) => times_number(g, a),
            (1, _) => a.unsqueeze(-1)?.mul(&g.unsqueeze(-2)?).map(Work::from),
            (_, 1) => adjoint(a)?.matmul(&g.unsqueeze(-1)?)?.squeeze(-1).map(Work::from),
            _ => Ok(Work::Product(adjoint(a)?, g.clone())),
        };
        t: |t, a| by_tangent(a, t, ranks.1, n);
        over leading axes (n);
        arrives factor;
        check {
            "vectors": [[3] Any, [3] Any] |x| x[0].matmul(&x[1]);
            "matrix, vector": [[2, 3] Any, [3] Any] |x| x[0].matmul(&x[1]);
            "vector, matrix": [[3] Any, [3, 2] Any] |x| x[0].matmul(&x[1]);
            "matrices": [[2, 3] Any, [3, 4] Any] |x| x[0].matmul(&x[1]);
            "batch": [[2, 2, 3] Any, [2, 3, 2] Any] |x| x[0].matmul(&x[1]);
            "batch, matrix": [[2, 2, 3] Any, [3, 2] Any] |x| x[0].matmul(&x[1]);
            "matrix, batch": [[2, 3] Any, [2, 3, 2] Any] |x| x[0].matmul(&x[1]);
            "broadcast batches": [[2, 1, 2, 3] Any, [3, 3, 2] Any] |x| x[0].matmul(&x[1]);
            "vector, batch": [[3] Any, [2, 3, 2] Any] |x| x[0].matmul(&x[1]);
            "batch, vector": [[2, 2, 3] Any, [3] Any] |x| x[0].matmul(&x[1]);
            "empty inner": [[2, 0] Any, [0, 3] Any] |x| x[0].matmul(&x[1]);
        }
}

pub(super) use rows::ALL;
