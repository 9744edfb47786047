//! A formula as the description of a gradient: a kernel for the engine to fold now, or a fused sum to be recorded.

use foldback_tensor::kernel::{BlockKernel, FloatKernel, Formula};
use foldback_tensor::{Shape, broadcast_shapes, keep};
use smallvec::smallvec;

use super::derived::PerOperand;
use super::operands::variables;
use super::{Fused, Reduced};
use crate::error::Result;
use crate::input::Input;
use crate::node::{Node, Pointwise, Var, Work};

impl<F: Formula<N> + 'static, const N: usize> Fused<F, N> {
    /// Describes the formula over operands as a gradient.
    #[track_caller]
    pub(crate) fn describe(
        &self,
        operands: &[Input<'_>],
        take: impl FnOnce(Work<'_>) -> Result<()>,
    ) -> Result<()> {
        let operands: PerOperand<Var> = variables(operands).iter().map(|v| (**v).clone()).collect();
        take(Work::Pointwise(self, &operands))
    }
}

/// The formula itself, as the gradient of one input.
impl<F: Formula<N> + 'static, const N: usize> Pointwise for Fused<F, N> {
    fn with_kernel(&self, _: &[usize], take: &mut dyn FnMut(&dyn BlockKernel) -> Result<()>) -> Result<()> {
        take(&FloatKernel::<F, N>(self.formula))
    }

    fn record(&self, node: Option<&Node>, reads: &[Var], inputs: &[usize]) -> Result<PerOperand<Var>> {
        let operands: PerOperand<Input<'_>> = reads.iter().map(Input::Var).collect();
        let shapes: PerOperand<&[usize]> = reads.iter().map(|v| v.dims()).collect();
        let full = broadcast_shapes(&shapes)?;
        let input = node.and_then(|node| node.input_shape(inputs[0])).unwrap_or(&full);
        let axes = folded_axes(&full, input);
        if axes.is_empty() {
            return Ok(smallvec![self.run(&operands, None)?]);
        }
        let sum = self.run(&operands, Some(Reduced { over: keep(&axes[..]), mean: false }))?;
        // Without the axes in front that the input does not have. What does not fit it is the engine's to refuse.
        let extra = full.rank().saturating_sub(input.rank());
        let dims = sum.dims()[extra..].to_vec();
        Ok(smallvec![if extra == 0 { sum } else { sum.reshape(&dims)? }])
    }
}

/// The axes that an input of this shape was broadcast along.
fn folded_axes(full: &Shape, input: &Shape) -> Vec<usize> {
    let extra = full.rank().saturating_sub(input.rank());
    let along =
        |axis: usize| axis < extra || (input.rank() == full.rank() - extra && input[axis - extra] == 1);
    (0..full.rank()).filter(|&axis| full[axis] != 1 || axis < extra).filter(|&axis| along(axis)).collect()
}
