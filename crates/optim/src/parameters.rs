//! The parameters of an optimiser, each with a state of its own.

use foldback_graph::Var;
use foldback_tensor::Tensor;

use crate::error::{Error, Result};

/// Parameters in order, and what the optimiser keeps for each once it has been changed.
#[derive(Clone, Debug)]
pub(crate) struct Parameters<S> {
    optimizer: &'static str,
    vars: Vec<Var>,
    states: Vec<S>,
    /// Room for the gradients of a step. Empty between steps: a gradient that is held here could not be written in place
    /// by the next backward pass.
    grads: Vec<Option<Tensor>>,
}

impl<S: Default> Parameters<S> {
    pub(crate) fn new(optimizer: &'static str, vars: impl IntoIterator<Item = Var>) -> Result<Parameters<S>> {
        let vars: Vec<Var> = vars.into_iter().collect();
        if vars.is_empty() {
            return Err(Error::NoParameters { optimizer });
        }
        for (second, var) in vars.iter().enumerate() {
            if !var.is_leaf() {
                return Err(Error::NotALeaf { optimizer, index: second });
            }
            if let Some(first) = vars[..second].iter().position(|other| other.is_same(var)) {
                return Err(Error::Duplicate { optimizer, first, second });
            }
        }
        let states = vars.iter().map(|_| S::default()).collect();
        let grads = Vec::with_capacity(vars.len());
        Ok(Parameters { optimizer, vars, states, grads })
    }

    pub(crate) fn vars(&self) -> &[Var] {
        &self.vars
    }

    /// Calls `update` with the value, the state and the gradient of every parameter that has one, see Note [A step].
    pub(crate) fn step(
        &mut self,
        update: impl FnMut(&mut Tensor, &mut S, &Tensor) -> foldback_tensor::Result<()>,
    ) -> Result<()> {
        self.grads.extend(self.vars.iter().map(Var::grad));
        let done = self.check().and_then(|()| self.apply(update));
        self.grads.clear();
        done
    }

    /// Refuses gradients that do not fit their parameters.
    fn check(&self) -> Result<()> {
        for (index, (var, grad)) in self.vars.iter().zip(&self.grads).enumerate() {
            if let Some(g) = grad
                && (*g.shape() != var.shape() || g.dtype() != var.dtype())
            {
                return Err(Error::Gradient {
                    optimizer: self.optimizer,
                    index,
                    shape: var.shape(),
                    dtype: var.dtype(),
                    grad_shape: g.shape().clone(),
                    grad_dtype: g.dtype(),
                });
            }
        }
        Ok(())
    }

    fn apply(
        &mut self,
        mut update: impl FnMut(&mut Tensor, &mut S, &Tensor) -> foldback_tensor::Result<()>,
    ) -> Result<()> {
        for ((var, state), grad) in self.vars.iter().zip(&mut self.states).zip(&self.grads) {
            if let Some(g) = grad {
                var.update_in_place(|value| Ok(update(value, state, g)?))?;
            }
        }
        Ok(())
    }
}

/// A state tensor of a parameter, made of zeros when it is first needed.
pub(crate) fn zeros_once<'a>(slot: &'a mut Option<Tensor>, like: &Tensor) -> &'a mut Tensor {
    slot.get_or_insert_with(|| Tensor::zeros_with(like.shape(), like.dtype()))
}
