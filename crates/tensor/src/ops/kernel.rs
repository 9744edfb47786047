//! Kernels of one's own: formulas over real numbers, evaluated as they are or straight into a reduced shape.
//!
//! What the derivative table is made of. A formula is written once ([`Formula`]); [`evaluate`] broadcasts the operands of
//! its kernel and runs it in one pass, [`fold_to`] sums its result down to a smaller shape without ever storing it, [`update`]
//! changes several tensors in place.

use smallvec::SmallVec;

#[doc(hidden)]
pub use super::direction::{LEAST_LENGTH, LEAST_NORM, cosine_dtype};
pub use super::embedding::embedding_backward;
#[doc(hidden)]
pub use super::embedding::padding_row;
#[doc(hidden)]
pub use super::formulas::SELU;
pub use super::formulas::{Gelu, PRelu, Softsign};
#[doc(hidden)]
pub use super::index::aligned;
#[doc(hidden)]
pub use super::joint::evaluate_each;
pub use super::joint::{JointKernel, Target, fold_jointly};
#[doc(hidden)]
pub use super::mask::{expect_mask, selected};
#[doc(hidden)]
pub use super::matmul::StrictProduct;
pub use super::matmul::matmul_to;
#[doc(hidden)]
pub use super::pad::padding_sources;
#[doc(hidden)]
pub use super::pointwise::prelu_weight;
pub use super::reduction::{ReducedShapes, evaluate, reduction};

#[doc(hidden)]
pub use super::pointwise::check_alpha;
#[doc(hidden)]
pub use super::repeat::{Repetition, grids, repetition, tiling};
#[doc(hidden)]
pub use super::warning::{are_broadcasts_checked, are_pairs, expect_meant};
#[doc(hidden)]
pub use crate::attention::{Attending, GroupedHeads};
#[doc(hidden)]
pub use crate::kernels::RowFormula;
pub use crate::kernels::{
    BlockKernel, Dual, FloatKernel, FloatOps, Formula, GradientKernel, Num, Real, Update, UpdateKernel, slope,
};
#[doc(hidden)]
pub use crate::kernels::{
    CallSet, Called, Calls, GivingKernel, KnownInputs, Lane, MOST_CALLS, Outer, RowInput, SumOfRows,
    stays_in_cache,
};
#[doc(hidden)]
pub use crate::norm::Normalisation;
#[doc(hidden)]
pub use crate::softmax::{LogSoftmaxGradient, SoftmaxGradient};
pub use crate::softmax::{cross_entropy, cross_entropy_backward, log_softmax_backward, softmax_backward};

#[doc(hidden)]
pub use crate::conv::Convolution;
#[doc(hidden)]
pub use crate::views::{embedding_shape, on_diagonal};

use super::arg::{Arg, List, Meta, result_type};
use crate::dtype::DType;
use crate::error::{Here, Result, TensorFacts, refuse};
#[doc(hidden)]
pub use crate::pool::{Blended, Picked};
pub use crate::task::Updates;
use crate::task::{self, Does, Read, Space, Task};
#[doc(hidden)]
pub use crate::task::{added, computed, folded};
use crate::tensor::Tensor;

/// Evaluates a kernel over broadcast operands and sums the result down to a target, adding its prior if it has one.
///
/// The shape of the target must broadcast to the operands' common one; leading axes and axes of size 1 are summed. The
/// kernel computes in the operands' common floating-point type. An unreduced result that does not stay in the cache is not stored, unless an operand of its
/// shape has its axes in an order in which sums would have other bits. Axes of
/// the result along which no operand moves have stride 0.
///
/// # Errors
/// `Broadcast` if the operands do not fit together, `Expand` if the target does not expand to their common shape,
/// `ShapeMismatch` if the prior has another shape than the target, `Parameter` if the kernel takes another number of
/// operands or has several outputs, `TooLarge`.
///
/// ```
/// use foldback_tensor::{kernel::{self, FloatKernel, FloatOps, Formula, Real, Target}, tensor};
/// #[derive(Clone, Copy)]
/// struct Product;
/// impl Formula<2> for Product {
///     fn eval<R: Real>(&self, [a, b]: [R; 2]) -> R where f64: FloatOps<R> { a * b }
/// }
/// let (g, x) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![[5.0], [6.0]]);
/// let sum = kernel::fold_to("mul", &FloatKernel(Product), &[&g, &x], Target::of(&[1, 2].into()))?;
/// assert_eq!(sum, tensor![[23.0, 34.0]]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[track_caller]
pub fn fold_to(
    op: &'static str,
    kernel: &dyn BlockKernel,
    operands: &[&Tensor],
    mut target: Target<'_>,
) -> Result<Tensor> {
    expect_arity(op, kernel, operands.len(), 1).here()?;
    let own = float_type(operands);
    task::make_here(Task {
        op,
        reads: &reads(operands, own),
        space: Space::Common,
        does: Does::Blocks(kernel),
        to: &mut [target.place(own)],
    })
}

/// Sums a tensor down to a target, adding its prior if it has one.
///
/// The shape of the target must broadcast to the tensor's; leading axes and axes of size 1 are summed, in the tensor's
/// floating-point type. Nothing is computed for a tensor that is the target already; two compressed ones (stride 0) have a
/// compressed sum.
///
/// # Errors
/// `DTypeUnsupported` unless the tensor is `F32` or `F64`, `Expand` if the target does not expand to its shape,
/// `ShapeMismatch` if the prior has another shape than the target, `TooLarge`.
///
/// ```
/// use foldback_tensor::{kernel::{self, Target}, tensor};
/// let (shape, prior) = ([2].into(), Some(tensor![1.0, 2.0]));
/// let sum = kernel::sum_onto("sum", &tensor![[1.0, 2.0], [3.0, 4.0]], Target { prior, ..Target::of(&shape) })?;
/// assert_eq!(sum, tensor![5.0, 8.0]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[inline]
#[track_caller]
pub fn sum_onto(op: &'static str, t: &Tensor, mut target: Target<'_>) -> Result<Tensor> {
    let dtype = t.dtype();
    if !dtype.is_float() {
        return refuse(TensorFacts::DTypeUnsupported { op, dtype }).here();
    }
    if t.shape() == target.shape {
        match &target.prior {
            None => return t.cast(op, target.dtype.unwrap_or(dtype)).here(),
            // A compressed tensor has no memory of its own to add into, the other one may have.
            Some(p) if !p.is_contiguous() && p.strides().contains(&0) && p.shape() == t.shape() => {
                let sum = if t.strides().contains(&0) { p.add(t) } else { t.add(p) };
                return sum.map_err(|e| e.named(op))?.cast(op, target.dtype.unwrap_or(dtype)).here();
            }
            Some(_) => {}
        }
    }
    task::make_here(Task {
        op,
        reads: &[Read::Tensor(t, dtype)],
        space: Space::Of(t.shape()),
        does: Does::Same,
        to: &mut [target.place(dtype)],
    })
}

/// Changes `M` tensors of one shape and type in place in one pass, reading `N` others that broadcast to that shape.
///
/// # Errors
/// `ShapeMismatch`, `DTypeMismatch` or `DTypeUnsupported` if the state is not of one shape and one floating-point
/// type; `Broadcast` or `Expand` if an operand does not broadcast to it; `TooLarge`. Nothing is changed then.
///
/// ```
/// use foldback_tensor::{kernel::{self, FloatOps, Real, Update}, tensor};
/// #[derive(Clone, Copy)]
/// struct Momentum { rate: f64 }
/// impl Update<2, 1> for Momentum {
///     fn eval<R: Real>(&self, [p, v]: [R; 2], [g]: [R; 1]) -> [R; 2] where f64: FloatOps<R> {
///         let v = v * 0.9 + g;
///         [p - v * self.rate, v]
///     }
/// }
/// let (mut p, mut v) = (tensor![1.0, 2.0], tensor![0.0, 1.0]);
/// kernel::update("sgd", Momentum { rate: 0.5 }, [&mut p, &mut v], [&tensor![1.0, 0.1]])?;
/// assert_eq!(v, tensor![1.0, 1.0]);
/// assert_eq!(p, tensor![0.5, 1.5]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[track_caller]
pub fn update<F: Update<M, N>, const M: usize, const N: usize>(
    op: &'static str,
    formula: F,
    state: [&mut Tensor; M],
    operands: [&Tensor; N],
) -> Result<()> {
    let kernel = UpdateKernel(formula);
    let mut one = Updates::with_capacity(op, 1);
    one.push(&kernel, state, operands).here()?;
    one.run();
    Ok(())
}

/// Whether the elements of a tensor lie in the order of its shape, close together or not: a sum that it leads adds them in that order.
/// `None` if they are not all in places of their own.
#[doc(hidden)]
pub fn lies_in_order(t: &Tensor) -> Option<bool> {
    task::is_in_order(t.dims().iter().copied().zip(t.strides().iter().copied()))
}

/// Refuses what a kernel that knows its arity cannot be given.
pub(crate) fn expect_arity(
    op: &'static str,
    kernel: &dyn BlockKernel,
    operands: usize,
    outputs: usize,
) -> Result<()> {
    let refused = |name, found: usize, expected| {
        refuse(TensorFacts::Parameter { op, name, value: found.to_string(), expected })
    };
    match kernel.arity() {
        Some((n, _)) if n != operands => {
            refused("the number of operands", operands, "as many as the kernel reads")
        }
        Some((_, n)) if n != outputs => {
            refused("the number of outputs", outputs, "as many as the kernel writes")
        }
        _ => Ok(()),
    }
}

/// The common floating-point type of some tensors, in which tensors of rank 0 have as little to say as in operations.
#[inline]
pub(super) fn float_type(operands: &[&Tensor]) -> DType {
    if let [first, others @ ..] = operands
        && first.dtype().is_float()
        && others.iter().all(|t| t.dtype() == first.dtype())
    {
        return first.dtype();
    }
    let metas: List<Meta> = operands.iter().map(|t| Arg::Tensor(t).meta()).collect();
    if metas.is_empty() { DType::F32 } else { result_type(&metas).to_float() }
}

/// Tensors as a task reads them, all in one type.
#[inline]
pub(super) fn reads<'a>(operands: &[&'a Tensor], dtype: DType) -> SmallVec<[Read<'a>; 4]> {
    let Some(first) = operands.first().filter(|_| operands.len() <= 4) else {
        return operands.iter().map(|t| Read::Tensor(t, dtype)).collect();
    };
    // Not one by one: a list notes its length for each. The backward pass of W8 takes 0.97 of the time.
    let mut reads = [Read::Tensor(first, dtype); 4];
    reads.iter_mut().zip(operands).for_each(|(read, t)| *read = Read::Tensor(t, dtype));
    SmallVec::from_buf_and_len(reads, operands.len())
}

#[cfg(test)]
mod tests {
    use super::super::formulas::real;
    use super::*;
    use crate::kernels::{FloatOps, Formula, Real};
    use crate::shape::Shape;
    use crate::{refused, tensor};

    real! {
        pub(crate) formulas;
        Product(a, b) = a * b;
    }

    #[test]
    fn a_wrong_number_of_operands_or_targets_is_refused() {
        let (kernel, x, shape) = (FloatKernel(Product), tensor![1.0, 2.0], Shape::from([2]));
        for operands in [&[][..], &[&x], &[&x, &x, &x]] {
            let folded = fold_to("t", &kernel, operands, Target::of(&shape));
            assert!(refused!(folded, TensorFacts::Parameter { .. }), "{}", operands.len());
            assert!(refused!(evaluate("t", &kernel, operands), TensorFacts::Parameter { .. }));
            let target = [Target::of(&shape)];
            let jointly = fold_jointly("t", &kernel, operands, target.into_iter().collect());
            assert!(refused!(jointly, TensorFacts::Parameter { .. }));
        }
        let both = [&shape, &shape].map(Target::of);
        let jointly = fold_jointly("t", &kernel, &[&x, &x], both.into_iter().collect());
        assert!(refused!(jointly, TensorFacts::Parameter { .. }));
    }

    #[test]
    fn a_target_that_does_not_expand_names_its_axis() {
        let (kernel, x) = (FloatKernel(Product), Tensor::ones([3, 4]));
        for (target, axis) in [(&[2, 4][..], 0), (&[3, 2], 1), (&[2, 3, 4], 0)] {
            let target = Shape::from(target);
            let folded = fold_to("t", &kernel, &[&x, &x], Target::of(&target));
            assert!(refused!(folded, TensorFacts::Expand { dim, .. } if *dim == axis), "{folded:?}");
            let joint = [Target::of(&target)];
            let jointly = fold_jointly("t", &kernel, &[&x, &x], joint.into_iter().collect());
            assert!(refused!(jointly, TensorFacts::Expand { dim, .. } if *dim == axis));
        }
    }

    #[test]
    fn a_number_that_is_expanded_stands_beside_others_in_either_place() {
        let x = tensor![[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]];
        let (shape, number) = (x.shape().clone(), tensor![3.0].expand([2, 3]).unwrap());
        let folded = |operands: [&Tensor; 2], kernel: &dyn BlockKernel| {
            fold_to("t", kernel, &operands, Target::of(&shape)).unwrap()
        };
        for other in [&x, &x.t().contiguous().reshape([2, 3]).unwrap()] {
            let product = other.mul(3.0).unwrap();
            assert_eq!(folded([&number, other], &FloatKernel(Product)), product);
            assert_eq!(folded([other, &number], &FloatKernel(Product)), product);
            assert_eq!(number.sub(other).unwrap(), other.mul(-1.0).unwrap().add(3.0).unwrap());
            assert_eq!(other.sub(&number).unwrap(), other.sub(3.0).unwrap());
        }
        // Two numbers have a compressed product.
        let both = folded([&number, &number], &FloatKernel(Product));
        assert_eq!((&both.strides()[..], &both), (&[0, 0][..], &number.mul(3.0).unwrap()));
    }

    #[test]
    fn what_lies_alike_is_added_in_place() {
        let t = tensor![3.0, 4.0];
        for other in [tensor![[1.0, 2.0]], tensor![1.0, 2.0; f64], tensor![1.0].expand([2]).unwrap()] {
            let mut sum = other.clone();
            assert!(!added(&mut sum, &t) && sum == other);
            assert!(!added(&mut t.copied("t", t.dtype()).unwrap(), &other));
        }
        assert!(!added(&mut tensor![1; i64], &tensor![2; i64]));
        let mut sum = tensor![1.0, 2.0];
        let held = sum.clone();
        assert!(!added(&mut sum, &t));
        drop(held);
        assert!(added(&mut sum, &t) && sum == tensor![4.0, 6.0]);
    }

    #[test]
    fn a_sum_onto_a_prior() {
        let (t, shape) = (tensor![[1.0, 2.0], [3.0, 4.0]], Shape::from([2]));
        let onto = |prior: Tensor| Target { prior: Some(prior), ..Target::of(&shape) };
        assert_eq!(sum_onto("t", &t, onto(tensor![10.0, 20.0])).unwrap(), tensor![14.0, 26.0]);
        let other = Target { dtype: Some(DType::F64), ..onto(tensor![0.5, 0.25; f64]) };
        assert_eq!(sum_onto("t", &t, other).unwrap(), tensor![4.5, 6.25; f64]);
        assert!(sum_onto("t", &t, Target::of(t.shape())).unwrap().shares_buffer_with(&t));
        assert!(refused!(sum_onto("t", &t, onto(t.clone())), TensorFacts::ShapeMismatch { .. }));
        assert!(refused!(
            sum_onto("t", &tensor![1.0, 2.0, 3.0], onto(tensor![1.0, 2.0])),
            TensorFacts::Expand { .. }
        ));
        assert!(refused!(
            sum_onto("t", &tensor![1; i64], Target::of(&shape)),
            TensorFacts::DTypeUnsupported { .. }
        ));
        // Neither has memory of its own for each element.
        let wide = tensor![1.0].expand([1usize << 50]).unwrap();
        let both =
            sum_onto("t", &wide, Target { prior: Some(wide.clone()), ..Target::of(wide.shape()) }).unwrap();
        assert_eq!((&both.strides()[..], both.narrow(0, 7, 1).unwrap()), (&[0][..], tensor![2.0]));
        // A prior that somebody holds stays as it is.
        let prior = tensor![1.0, 1.0];
        assert_eq!(sum_onto("t", &tensor![2.0, 3.0], onto(prior.clone())).unwrap(), tensor![3.0, 4.0]);
        assert_eq!(prior, tensor![1.0, 1.0]);
    }
}
