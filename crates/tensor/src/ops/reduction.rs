//! Formulas behind a pointer: evaluated over broadcast operands, and what a reduction of them is folded to.

use super::kernel::{expect_arity, float_type, reads};
use super::warning::Lists;
use crate::axes::Axes;
use crate::error::{Here, Result};
use crate::kernels::BlockKernel;
use crate::shape::Shape;
use crate::task::{self, Does, Space, Task, To, common_shape};
use crate::tensor::Tensor;

/// Evaluates a kernel with one output over broadcast operands, in their common floating-point type.
///
/// # Errors
/// `Broadcast` if the shapes do not fit together; `BroadcastRefused` where such broadcasting is refused; `Parameter` if
/// the kernel takes another number of operands or has several outputs; `TooLarge` if no memory can hold the result.
///
/// ```
/// use foldback_tensor::{kernel::{self, FloatKernel, FloatOps, Formula, Real}, tensor};
/// #[derive(Clone, Copy)]
/// struct Product;
/// impl Formula<2> for Product {
///     fn eval<R: Real>(&self, [a, b]: [R; 2]) -> R where f64: FloatOps<R> { a * b }
/// }
/// let y = kernel::evaluate("mul", &FloatKernel(Product), &[&tensor![1.0, 2.0], &tensor![3.0]])?;
/// assert_eq!(y, tensor![3.0, 6.0]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[track_caller]
pub fn evaluate(op: &'static str, kernel: &dyn BlockKernel, operands: &[&Tensor]) -> Result<Tensor> {
    expect_arity(op, kernel, operands.len(), 1).here()?;
    let dtype = float_type(operands);
    task::make(Task {
        op,
        reads: &reads(operands, dtype),
        space: Space::Asked(Lists::Idiom),
        does: Does::Blocks(kernel),
        to: &mut [To::New(dtype)],
    })
    .here()
}

/// What a reduction of a formula over some axes is folded to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReducedShapes {
    /// the common shape of the operands
    pub full: Shape,
    /// the same with size 1 on the reduced axes: what to hand to [`fold_to`](super::kernel::fold_to)
    pub kept: Shape,
    /// the same without the reduced axes
    pub dropped: Shape,
    /// how many elements are folded into each result
    pub count: usize,
}

/// The shapes of a reduction of broadcast operands.
///
/// # Errors
/// `Broadcast` if the operands do not fit together; `BroadcastRefused` where such broadcasting is refused;
/// `AxisOutOfRange`, `DuplicateAxis`.
///
/// ```
/// use foldback_tensor::{kernel, tensor};
/// let r = kernel::reduction("mse", &[&tensor![[1.0], [2.0]], &tensor![1.0, 2.0, 3.0]], &1.into())?;
/// assert_eq!((&r.full, &r.kept, &r.dropped, r.count), (&[2, 3].into(), &[2, 1].into(), &[2].into(), 3));
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[track_caller]
pub fn reduction(op: &'static str, operands: &[&Tensor], axes: &Axes) -> Result<ReducedShapes> {
    let full = common_shape(op, &reads(operands, float_type(operands)), Some(Lists::Idiom)).here()?;
    let reduced = axes.flags(op, &full).here()?;
    let sizes = || full.iter().zip(&reduced).map(|(&size, &r)| (size, r));
    let kept = sizes().map(|(size, r)| if r { 1 } else { size });
    let dropped = sizes().filter(|s| !s.1).map(|s| s.0);
    let count = sizes().filter(|s| s.1).map(|s| s.0).product();
    Ok(ReducedShapes { kept: Shape(kept.collect()), dropped: Shape(dropped.collect()), full, count })
}
