//! Kernels of one's own: formulas over real numbers, evaluated as they are or straight into a reduced shape.
//!
//! What the derivative table is made of. A formula is written once ([`Formula`]); [`evaluate`] broadcasts its operands
//! and runs it in one pass, [`fold_to`] sums its result down to a smaller shape without ever storing it, [`update`]
//! changes several tensors in place.

use smallvec::SmallVec;

pub use super::formula::{Reduction, reduction, run};
pub use super::formulas::Gelu;
pub use super::joint::{JointKernel, Target, fold_jointly};
pub use super::matmul::{linear, matmul_to};

#[doc(hidden)]
pub use crate::kernels::RowFormula;
pub use crate::kernels::{
    BlockKernel, Compare, Dual, Float, FloatKernel, FloatOps, Formula, GradientKernel, Lane, Num, NumFormula,
    NumKernel, Real, Update, slope,
};
#[doc(hidden)]
pub use crate::softmax::{LogSoftmaxGradient, SoftmaxGradient};
pub use crate::softmax::{cross_entropy, cross_entropy_backward, log_softmax_backward, softmax_backward};

use super::warning;
use crate::buffer::Storage;
use crate::create::checked_len;
use crate::dtype::{Block, DType};
use crate::error::{Error, Result};
use crate::iter::{self, Operand, Reduce};
use crate::kernels::{UpdateKernel, doors};
use crate::shape::{Dims, Shape, broadcast_two, expect_expansion};
use crate::tensor::Tensor;
use crate::threads::GRAIN;

/// Evaluates a formula over broadcast operands, in their common floating-point type.
///
/// # Errors
/// `Broadcast` if the shapes do not fit together; `BroadcastRefused` where such broadcasting is refused; `TooLarge` if no
/// memory can hold the result.
#[track_caller]
pub fn evaluate<F: Formula<N>, const N: usize>(
    op: &'static str,
    formula: F,
    operands: [&Tensor; N],
) -> Result<Tensor> {
    let dtype = float_type(&operands);
    let shape = wanted_shape(op, &operands)?;
    let operands = operands.map(|t| Operand::new(t, dtype));
    iter::map(op, &FloatKernel(formula), &operands, shape, dtype)
}

/// Evaluates a kernel over broadcast operands and sums the result down to `target`, adding `prior` if there is one.
///
/// `target` must be a shape that broadcasts to the operands' common one; leading axes and axes of size 1 are summed.
/// The unreduced result is never stored. `prior` has the shape `target` and the operands' common type; its memory is
/// used for the result if nobody else holds it. Axes of the result along which no operand moves have stride 0.
///
/// # Errors
/// `Broadcast` if the operands do not fit together, `Expand` if the target does not expand to their common shape,
/// `ShapeMismatch` if the prior has another shape than the target, `Parameter` if the kernel takes another number of
/// operands or has several outputs, `TooLarge`.
///
/// ```
/// use foldback_tensor::{kernel::{self, FloatKernel, FloatOps, Formula, Real}, tensor};
/// #[derive(Clone, Copy)]
/// struct Product;
/// impl Formula<2> for Product {
///     fn eval<R: Real>(&self, [a, b]: [R; 2]) -> R where f64: FloatOps<R> { a * b }
/// }
/// let (g, x) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![[5.0], [6.0]]);
/// let sum = kernel::fold_to("mul", &FloatKernel(Product), &[&g, &x], &[1, 2].into(), None)?;
/// assert_eq!(sum, tensor![[23.0, 34.0]]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
pub fn fold_to(
    op: &'static str,
    kernel: &dyn BlockKernel,
    operands: &[&Tensor],
    target: &Shape,
    prior: Option<Tensor>,
) -> Result<Tensor> {
    expect_arity(op, kernel, operands.len(), 1)?;
    let mut prior = prior;
    if let Some(sum) = run_alike(op, kernel, operands, target, &mut prior)? {
        return Ok(sum);
    }
    let dtype = float_type(operands);
    let shape = common_shape(op, operands)?;
    fold_kernel(op, Some(kernel), operands, shape, target, dtype, prior)
}

/// The short way of [`fold_to`] for small operands of the target's shape and one type: nothing is planned, nothing is
/// folded. Takes `prior` if it gives a result.
#[inline]
fn run_alike(
    op: &'static str,
    kernel: &dyn BlockKernel,
    operands: &[&Tensor],
    target: &Shape,
    prior: &mut Option<Tensor>,
) -> Result<Option<Tensor>> {
    let (n, Some(dtype)) = (target.numel(), operands.first().map(|t| t.dtype())) else { return Ok(None) };
    if n == 0 || n > GRAIN || !dtype.is_float() {
        return Ok(None);
    }
    let alike = |t: &Tensor| t.dtype() == dtype && t.shape() == target && t.is_contiguous();
    let mut blocks: SmallVec<[Block<'_>; 4]> = SmallVec::new();
    for t in operands {
        if !alike(t) {
            return Ok(None);
        }
        blocks.push(t.storage.block().range(t.layout.offset, n));
    }
    if prior.as_ref().is_some_and(|sum| !alike(sum)) {
        return Ok(None);
    }
    let mut storage = Storage::scratch(dtype, n);
    kernel.run(&blocks, &mut [storage.block_mut()]);
    let Some(mut sum) = prior.take() else { return Ok(Some(Tensor::from_storage(storage, target.clone()))) };
    sum.make_writable(op)?;
    doors::add_to(sum.block_mut(), storage.block());
    Ok(Some(sum))
}

/// Adds a gradient to what has been added up so far, in the memory of the latter if nobody else holds it.
///
/// # Errors
/// `ShapeMismatch` or `DTypeMismatch` if the two are not of one shape and one floating-point type.
///
/// ```
/// use foldback_tensor::{kernel, tensor};
/// let sum = kernel::accumulate("backward", tensor![1.0, 2.0], &tensor![10.0, 20.0])?;
/// assert_eq!(sum, tensor![11.0, 22.0]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
pub fn accumulate(op: &'static str, mut sum: Tensor, g: &Tensor) -> Result<Tensor> {
    g.expect_dtype(op, sum.dtype())?;
    if sum.shape() != g.shape() {
        return Err(Error::ShapeMismatch { op, expected: sum.shape().clone(), found: g.shape().clone() });
    }
    if !sum.dtype().is_float() {
        return Err(Error::DTypeUnsupported { op, dtype: sum.dtype() });
    }
    if sum.numel() <= GRAIN
        && sum.is_contiguous()
        && let Some(g) = g.as_block()
    {
        sum.make_writable(op)?;
        doors::add_to(sum.block_mut(), g);
        return Ok(sum);
    }
    // A compressed gradient has no memory of its own to add into, the other one may have.
    if sum.strides().contains(&0) {
        let sum = if g.strides().contains(&0) { sum.add(g) } else { g.add(&sum) };
        return sum.map_err(|e| e.named(op));
    }
    sum.make_writable(op)?;
    iter::add_to(&mut sum, g);
    Ok(sum)
}

/// [`fold_to`] once types and the common shape are known; without a kernel it is `sum_to`.
pub(crate) fn fold_kernel(
    op: &'static str,
    kernel: Option<&dyn BlockKernel>,
    operands: &[&Tensor],
    shape: Shape,
    target: &Shape,
    dtype: DType,
    prior: Option<Tensor>,
) -> Result<Tensor> {
    let (kept, mut prior) = reach(op, &shape, target, dtype, prior)?;
    let mut wanted: SmallVec<[Operand<'_>; 4]> = SmallVec::new();
    operands.iter().for_each(|t| wanted.push(Operand::new(t, dtype)));
    let operands = wanted;
    if *target == shape
        && let Some(kernel) = kernel
    {
        let Some(sum) = &mut prior else { return iter::map(op, kernel, &operands, shape, dtype) };
        sum.make_writable(op)?;
        if iter::map_add(kernel, &operands, sum) {
            return Ok(prior.expect("borrowed just now"));
        }
    }
    let sum = iter::Fold { op, reduce: Reduce::Sum, dtype };
    Ok(iter::fold(sum, kernel, &operands, &shape, &kept, prior)?.unsqueeze_to(target))
}

/// Which axes of a shape are kept by a fold to `target`, and the prior, of these axes and of the type of the fold.
pub(super) fn reach(
    op: &'static str,
    shape: &Shape,
    target: &Shape,
    dtype: DType,
    prior: Option<Tensor>,
) -> Result<(Dims<bool>, Option<Tensor>)> {
    expect_expansion(op, target, shape)?;
    if let Some(found) = prior.as_ref().map(|p| p.shape()).filter(|p| *p != target) {
        return Err(Error::ShapeMismatch { op, expected: target.clone(), found: found.clone() });
    }
    let missing = shape.rank() - target.rank();
    let is_kept = |i: usize| i >= missing && !(target[i - missing] == 1 && shape[i] != 1);
    let kept: Dims<bool> = (0..shape.rank()).map(is_kept).collect();
    let prior = prior.map(|p| p.cast(op, dtype)).transpose()?;
    let prior = prior.map(|p| p.keep_axes(&kept[missing..]));
    Ok((kept, prior))
}

/// Changes `M` tensors of one shape and type in place in one pass, reading `N` others that broadcast to that shape.
///
/// # Errors
/// `ShapeMismatch`, `DTypeMismatch` or `DTypeUnsupported` if the state is not of one shape and one floating-point
/// type; `Expand` if an operand does not broadcast to it. Nothing is changed then.
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
pub fn update<F: Update<M, N>, const M: usize, const N: usize>(
    op: &'static str,
    formula: F,
    mut state: [&mut Tensor; M],
    operands: [&Tensor; N],
) -> Result<()> {
    let Some(first) = state.first() else { return Ok(()) };
    let (shape, dtype) = (first.shape().clone(), first.dtype());
    if !dtype.is_float() {
        return Err(Error::DTypeUnsupported { op, dtype });
    }
    for s in &state {
        s.expect_dtype(op, dtype)?;
        if *s.shape() != shape {
            return Err(Error::ShapeMismatch { op, expected: shape, found: s.shape().clone() });
        }
    }
    for t in operands {
        super::pointwise::expect_expands(op, t.dims(), &shape)?;
    }
    for s in &mut state {
        s.make_writable(op)?;
    }
    let operands = operands.map(|t| Operand::new(t, dtype));
    iter::update(&UpdateKernel::<F, M, N>::new(formula), &mut state, &operands);
    Ok(())
}

/// Refuses what a kernel that knows its arity cannot be given.
pub(super) fn expect_arity(
    op: &'static str,
    kernel: &dyn BlockKernel,
    operands: usize,
    outputs: usize,
) -> Result<()> {
    let refused =
        |name, found: usize, expected| Err(Error::Parameter { op, name, value: found.to_string(), expected });
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

/// The common floating-point type of some tensors.
pub(super) fn float_type(operands: &[&Tensor]) -> DType {
    operands.iter().fold(DType::Bool, |d, t| d.promote(t.dtype())).to_float()
}

/// [`common_shape`] of operands that a user has brought together: says or refuses what
/// [`BroadcastWarning`](super::BroadcastWarning) asks for. A gradient's operands are not such.
#[track_caller]
pub(super) fn wanted_shape(op: &'static str, operands: &[&Tensor]) -> Result<Shape> {
    let mut shape = operands.first().map_or_else(Shape::scalar, |t| t.shape().clone());
    for t in operands.iter().skip(1) {
        if *t.shape() != shape {
            let next = common_shape_of_two(op, &shape, t)?;
            warning::check(op, &shape, t.dims())?;
            shape = next;
        }
    }
    Ok(shape)
}

fn common_shape_of_two(op: &'static str, shape: &Shape, t: &Tensor) -> Result<Shape> {
    let next = broadcast_two(op, shape, t.dims())?;
    checked_len(op, &next, DType::F64)?;
    Ok(next)
}

pub(super) fn common_shape(op: &'static str, operands: &[&Tensor]) -> Result<Shape> {
    let mut shape = operands.first().map_or_else(Shape::scalar, |t| t.shape().clone());
    for t in operands.iter().skip(1) {
        if *t.shape() != shape {
            shape = common_shape_of_two(op, &shape, t)?;
        }
    }
    Ok(shape)
}

#[cfg(test)]
mod tests {
    use super::super::formulas::real;
    use super::*;
    use crate::kernels::{FloatOps, Formula, Real};
    use crate::tensor;

    real! {
        pub(crate) formulas;
        Product(a, b) = a * b;
    }

    #[test]
    fn a_wrong_number_of_operands_or_targets_is_refused() {
        let (kernel, x, shape) = (FloatKernel(Product), tensor![1.0, 2.0], Shape::from([2]));
        for operands in [&[][..], &[&x], &[&x, &x, &x]] {
            let folded = fold_to("t", &kernel, operands, &shape, None);
            assert!(matches!(folded, Err(Error::Parameter { .. })), "{}", operands.len());
            assert!(matches!(run("t", &kernel, operands), Err(Error::Parameter { .. })));
            let target = [Target { shape: &shape, prior: None }];
            let jointly = fold_jointly("t", &kernel, operands, target.into_iter().collect());
            assert!(matches!(jointly, Err(Error::Parameter { .. })));
        }
        let both = [&shape, &shape].map(|shape| Target { shape, prior: None });
        let jointly = fold_jointly("t", &kernel, &[&x, &x], both.into_iter().collect());
        assert!(matches!(jointly, Err(Error::Parameter { .. })));
    }

    #[test]
    fn a_target_that_does_not_expand_names_its_axis() {
        let (kernel, x) = (FloatKernel(Product), Tensor::ones([3, 4], DType::F32));
        for (target, axis) in [(&[2, 4][..], 0), (&[3, 2], 1), (&[2, 3, 4], 0)] {
            let target = Shape::from(target);
            let folded = fold_to("t", &kernel, &[&x, &x], &target, None);
            assert!(matches!(folded, Err(Error::Expand { dim, .. }) if dim == axis), "{folded:?}");
            let joint = [Target { shape: &target, prior: None }];
            let jointly = fold_jointly("t", &kernel, &[&x, &x], joint.into_iter().collect());
            assert!(matches!(jointly, Err(Error::Expand { dim, .. }) if dim == axis));
        }
    }
}
