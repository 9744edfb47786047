//! Matrix products: `matmul` with PyTorch's cases, its strict relatives, and products summed down to a shape.

mod linear;
#[cfg(test)]
mod tests;

use super::arg::AsArg;
use super::joint::Target;
use super::warning;
use crate::error::{Here, Result, TensorFacts, refuse};
use crate::meant::Meant;
use crate::task::{self, Does, Read, Space, Spec, Task, batch_of};
use crate::tensor::Tensor;

impl Tensor {
    /// The matrix product, with PyTorch's cases by rank:
    ///
    /// | `self` | `other` | result |
    /// |---|---|---|
    /// | `[k]` | `[k]` | `[]`, the dot product |
    /// | `[m, k]` | `[k]` | `[m]` |
    /// | `[k]` | `[k, n]` | `[n]` |
    /// | `[m, k]` | `[k, n]` | `[m, n]` |
    /// | `[.., m, k]` | `[.., k, n]` | `[.., m, n]`, the leading axes broadcast |
    ///
    /// Both operands have the same element type, `I64` (wrapping), `F32` or `F64`. Transposed and expanded operands are
    /// read as they are; an inner axis that both are expanded over is a factor. With `k == 0` the result is zero. The result has the same bits for any number of threads.
    ///
    /// # Errors
    /// `Rank` for a 0-d operand, `MixedDTypes` if the types differ, `DTypeUnsupported` for `Bool`, `Matmul` if the
    /// inner sizes differ, `Broadcast` if the leading axes do not fit, `TooLarge` if the result cannot be addressed.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let a = tensor![[1.0, 2.0], [3.0, 4.0]];
    /// assert_eq!(a.matmul(&tensor![10.0, 1.0])?, tensor![12.0, 34.0]);
    /// assert_eq!(a.matmul(&a)?, tensor![[7.0, 10.0], [15.0, 22.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn matmul(&self, other: impl AsArg) -> Result<Tensor> {
        product("matmul", self, &other.arg().tensor(self.dtype())).here()
    }

    /// The product of two matrices, `[m, k]` and `[k, n]`.
    ///
    /// # Errors
    /// As [`matmul`](Self::matmul); `Rank` unless both operands have two axes.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let a = tensor![[1.0, 2.0]];
    /// assert_eq!(a.mm(&tensor![[3.0], [4.0]])?, tensor![[11.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn mm(&self, other: impl AsArg) -> Result<Tensor> {
        StrictProduct::MM.of(self, &other.arg().tensor(self.dtype())).here()
    }

    /// The products of two batches of matrices, `[b, m, k]` and `[b, k, n]`; nothing broadcasts.
    ///
    /// # Errors
    /// As [`matmul`](Self::matmul); `Rank` unless both operands have three axes, `Matmul` if the batches differ in size.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let a = tensor![[[1.0, 2.0]], [[3.0, 4.0]]];
    /// let b = tensor![[[1.0], [1.0]], [[2.0], [0.0]]];
    /// assert_eq!(a.bmm(&b)?, tensor![[[3.0]], [[6.0]]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn bmm(&self, other: impl AsArg) -> Result<Tensor> {
        StrictProduct::BMM.of(self, &other.arg().tensor(self.dtype())).here()
    }

    /// A matrix `[m, k]` times a vector `[k]`.
    ///
    /// # Errors
    /// As [`matmul`](Self::matmul); `Rank` for other ranks.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[1.0, 2.0], [3.0, 4.0]].mv(&tensor![1.0, 1.0])?, tensor![3.0, 7.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn mv(&self, other: impl AsArg) -> Result<Tensor> {
        StrictProduct::MV.of(self, &other.arg().tensor(self.dtype())).here()
    }

    /// The dot product of two vectors of equal size: a 0-d tensor.
    ///
    /// # Errors
    /// As [`matmul`](Self::matmul); `Rank` unless both operands have one axis.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].dot(&tensor![3.0, 4.0])?.item_as::<f32>()?, 11.0);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn dot(&self, other: impl AsArg) -> Result<Tensor> {
        StrictProduct::DOT.of(self, &other.arg().tensor(self.dtype())).here()
    }
}

/// `prior + sum(a @ b)`, the product summed down to a target over leading axes and axes of size 1.
///
/// With the product's own shape as the target it is a product added to the prior.
///
/// What the gradient of a broadcast product needs. The products of the batch are added up where they arise, so the
/// unreduced result is never stored; where the strides allow it a summed axis becomes part of the inner one.
///
/// # Errors
/// As [`Tensor::matmul`]; `Expand` if the target does not expand to the shape of the product, `ShapeMismatch` if the prior
/// is not of the target's shape.
///
/// ```
/// use foldback_tensor::{kernel::{self, Target}, tensor};
/// let a = tensor![[[1.0, 2.0]], [[3.0, 4.0]]];
/// let b = tensor![[[1.0], [1.0]], [[2.0], [0.0]]];
/// assert_eq!(kernel::matmul_to("matmul", &a, &b, Target::of(&[1, 1].into()))?, tensor![[9.0]]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[track_caller]
pub fn matmul_to(op: &'static str, a: &Tensor, b: &Tensor, target: Target<'_>) -> Result<Tensor> {
    multiply(op, &Spec::new(op, a, b).here()?, &[a, b], Some(target)).here()
}

/// The product of two tensors.
#[track_caller]
fn product(op: &'static str, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let spec = Spec::new(op, a, b)?;
    let batches = [a, b].map(|t| (batch_of(t.dims()), t.meant().without_last(2)));
    if batches[0].0 != batches[1].0 {
        warning::check(op, warning::Lists::Idiom, || batches.into_iter().collect())?;
    }
    multiply(op, &spec, &[a, b], None)
}

/// The product of the first two, whose rows are added to the third if there is one; as it is, or for a target.
#[track_caller]
fn multiply<const N: usize>(
    op: &'static str,
    spec: &Spec,
    factors: &[&Tensor; N],
    target: Option<Target<'_>>,
) -> Result<Tensor> {
    let dtype = factors[0].dtype();
    let mut target = target.unwrap_or(Target::of(&spec.shape));
    let made = task::make(Task {
        op,
        reads: &factors.map(|t| Read::Tensor(t, dtype)),
        space: Space::Of(&spec.shape),
        does: Does::Product(spec),
        to: &mut [target.place(dtype)],
    })?;
    let [a, b] = [factors[0].meant(), factors[1].meant()];
    if (a | b).is_none() || factors.iter().any(|t| t.rank() < 2) || *made.shape() != spec.shape {
        return Ok(made);
    }
    Ok(made.with_meant(Meant::of_product(a, b, &spec.shape)))
}

/// A product that says which ranks its operands have, and broadcasts nothing.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct StrictProduct {
    op: &'static str,
    ranks: [(usize, &'static str); 2],
}

#[doc(hidden)]
impl StrictProduct {
    pub const MM: StrictProduct = StrictProduct { op: "mm", ranks: [(2, "2"), (2, "2")] };
    pub const BMM: StrictProduct = StrictProduct { op: "bmm", ranks: [(3, "3"), (3, "3")] };
    pub const MV: StrictProduct = StrictProduct { op: "mv", ranks: [(2, "2"), (1, "1")] };
    pub const DOT: StrictProduct = StrictProduct { op: "dot", ranks: [(1, "1"), (1, "1")] };

    /// Refuses operands of other ranks, and batches that differ in size.
    pub fn check(self, a: &Tensor, b: &Tensor) -> Result<()> {
        let op = self.op;
        for ((t, operand), (rank, expected)) in [(a, "first"), (b, "second")].into_iter().zip(self.ranks) {
            if t.rank() != rank {
                return refuse(TensorFacts::Rank { op, operand, expected, found: t.rank() });
            }
        }
        if a.rank() == 3 && a.dims()[0] != b.dims()[0] {
            return refuse(TensorFacts::Matmul { op, a: a.shape().clone(), b: b.shape().clone() });
        }
        Ok(())
    }

    fn of(self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.check(a, b)?;
        product(self.op, a, b)
    }
}
