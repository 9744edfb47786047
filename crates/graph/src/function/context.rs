//! What the backward function of an operation of one's own sees.

use std::fmt;

use foldback_tensor::kernel::Formula;
use foldback_tensor::{counted, refuse};
use smallvec::smallvec;

use super::own::ContextParts;
use crate::error::{GraphFacts, Result};
use crate::fuse::{Fused, Operands};
use crate::node::{Flow, Var};
use crate::slot::RuleSlot;

/// What the backward function of an operation of one's own sees.
///
/// Asking for what there is not, or for what the function did not declare that it saves, is a mistake in the function:
/// the accessors then panic at the line that asked, and the message names the operation, the line that recorded it and
/// what to declare. A pass that ends so has failed.
///
/// `S` is what the forward function of an [`Operation`](crate::Operation) keeps beside inputs and outputs.
pub struct FunctionContext<'a, S = ()> {
    pub(super) parts: ContextParts<'a>,
    pub(super) saved: &'a S,
}

impl<'a> ContextParts<'a> {
    pub(super) fn context<S>(self, saved: &'a S) -> FunctionContext<'a, S> {
        FunctionContext { parts: self, saved }
    }
}

impl<S> FunctionContext<'_, S> {
    /// The gradient of an output; zeros if nothing depended on it.
    ///
    /// # Panics
    /// If there is no such output.
    #[track_caller]
    pub fn grad(&self, output: usize) -> Var {
        self.expect_output("grad", output);
        self.parts.inner.grad(output)
    }

    /// The gradient of an output, or `None` if nothing depended on it: PyTorch's `set_materialize_grads(False)`.
    ///
    /// # Panics
    /// If there is no such output.
    #[track_caller]
    pub fn grad_if_any(&self, output: usize) -> Option<Var> {
        self.expect_output("grad_if_any", output);
        self.parts.inner.grads[output].clone()
    }

    /// A saved input.
    ///
    /// # Panics
    /// If the operation does not declare `saves_inputs`, or there is no such input.
    #[track_caller]
    pub fn input(&self, index: usize) -> Var {
        self.expect_input("input", index);
        match self.parts.inner.saved(RuleSlot::Input(index)) {
            Some(v) => v,
            None => self.refuse(format_args!(
                "input({index}): the inputs were not saved; declare saves_inputs, of the Operation or the Function"
            )),
        }
    }

    /// The saved first output.
    ///
    /// # Panics
    /// If the operation does not declare `saves_output`.
    #[track_caller]
    pub fn output(&self) -> Var {
        match self.parts.inner.saved(RuleSlot::Output(0)) {
            // What has no derivative has no history.
            Some(v) if self.parts.declared.non_differentiable.contains(&0) => v.detach(),
            Some(v) => v,
            None => self.refuse(format_args!(
                "output(): the output was not saved; declare saves_output, of the Operation or the Function"
            )),
        }
    }

    /// How many inputs the operation has.
    pub fn inputs(&self) -> usize {
        self.parts.inner.inputs()
    }

    /// Whether the gradient of an input is asked for.
    ///
    /// # Panics
    /// If there is no such input.
    #[track_caller]
    pub fn needs(&self, input: usize) -> bool {
        self.expect_input("needs", input);
        self.parts.inner.needs(input)
    }

    /// What the forward function of an [`Operation`](crate::Operation) returned beside its outputs. It has no history: a
    /// derivative of higher order takes it for a constant.
    pub fn saved(&self) -> &S {
        self.saved
    }

    /// Describes the gradient of an input as a formula, element by element over broadcast operands: the engine evaluates it
    /// straight into the input's shape, onto what waits there, as it does for the library's own operations. Nothing of the
    /// broadcast shape is stored, where the pass is recorded neither. Nothing is computed for an input that needs no
    /// gradient.
    ///
    /// What `backward` returns for the same input is added; mostly that is `None`.
    ///
    /// # Errors
    /// If the operands do not broadcast, or their shape is not one that the input broadcasts to.
    ///
    /// # Panics
    /// If there is no such input.
    ///
    /// ```
    /// use foldback_graph::{Operation, RequiresGrad, fuse};
    /// use foldback_tensor::tensor;
    ///
    /// let mul = Operation::new("my_mul", |[a, b]| a.mul(b), |ctx, [g]| {
    ///     let (a, b) = (ctx.input(0), ctx.input(1));
    ///     ctx.fold(0, fuse!(|g, b| g * b), [&g, &b])?;
    ///     ctx.fold(1, fuse!(|g, a| g * a), [&g, &a])
    /// }).saves_inputs();
    ///
    /// let (row, column) = (tensor![[1.0, 2.0]].requires_grad(), tensor![[3.0], [4.0]].requires_grad());
    /// mul.call([&row, &column])?.sum(..)?.backward()?;
    /// assert_eq!(row.grad(), Some(tensor![[7.0, 7.0]]));
    /// assert_eq!(column.grad(), Some(tensor![[3.0], [3.0]]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn fold<F: Formula<N> + 'static, const N: usize>(
        &self,
        input: usize,
        formula: Fused<F, N>,
        operands: impl Operands<N>,
    ) -> Result<()> {
        self.expect_input("fold", input);
        if !self.needs(input) {
            return Ok(());
        }
        formula.describe(&operands.inputs(), |work| (self.parts.take)(Flow { to: smallvec![input], work }))
    }

    /// What the backward function of an operation without a derivative returns.
    pub(super) fn no_derivative<T>(&self) -> Result<T> {
        let node = self.parts.inner.node;
        refuse(GraphFacts::NoDerivative { op: node.name(), location: node.location })
    }

    #[track_caller]
    fn expect_output(&self, asked: &str, index: usize) {
        let outputs = self.parts.inner.node.metadata.len();
        if index >= outputs {
            self.refuse(format_args!("{asked}({index}): there {}", are(outputs, "output")))
        }
    }

    #[track_caller]
    fn expect_input(&self, asked: &str, index: usize) {
        let inputs = self.parts.inner.node.next_edges.len();
        if index >= inputs {
            self.refuse(format_args!("{asked}({index}): there {}", are(inputs, "input")))
        }
    }

    #[track_caller]
    #[cold]
    fn refuse(&self, why: fmt::Arguments<'_>) -> ! {
        let node = self.parts.inner.node;
        panic!("{}: {why} (recorded at {})", node.name(), node.location)
    }
}

/// `is 1 input`, `are 2 inputs`
pub(super) fn are(count: usize, what: &str) -> String {
    format!("{} {}", if count == 1 { "is" } else { "are" }, counted(count, what))
}
