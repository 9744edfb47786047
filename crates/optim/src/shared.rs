//! What all clones of an optimiser share: the parameters, a state of its own for each, and the settings.

use std::fmt;
use std::sync::Arc;

use foldback_graph::Var;
use foldback_tensor::{StateCell, Tensor, refuse};

use crate::error::{OptimFacts, Result};

/// Settings that may not go together, whatever the order of their setters was: a step asks before it changes anything.
pub(crate) trait Together: Copy {
    /// Refuses settings that contradict each other.
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// Parameters in order, what the optimiser keeps for each once it has been changed, and its settings.
pub(crate) struct Shared<O, S> {
    optimizer: &'static str,
    vars: Vec<Var>,
    pub(crate) states: Vec<StateCell<S>>,
    pub(crate) settings: StateCell<O>,
    /// Room for the gradients of a step; whoever has it takes a step, and others wait. Empty between steps: a gradient
    /// that is held here could not be written in place by the next backward pass.
    room: StateCell<Vec<Option<Tensor>>>,
}

impl<O: Together, S: Default> Shared<O, S> {
    pub(crate) fn new(
        optimizer: &'static str,
        vars: impl IntoIterator<Item: AsRef<Var>>,
        settings: O,
    ) -> Result<Arc<Shared<O, S>>> {
        let vars: Vec<Var> = vars.into_iter().map(|var| var.as_ref().clone()).collect();
        if vars.is_empty() {
            return refuse(OptimFacts::NoParameters { optimizer });
        }
        for (second, var) in vars.iter().enumerate() {
            if !var.is_leaf() {
                return refuse(OptimFacts::NotALeaf { optimizer, index: second });
            }
            if let Some(first) = vars[..second].iter().position(|other| other.is_same(var)) {
                return refuse(OptimFacts::Duplicate { optimizer, first, second });
            }
        }
        let states = vars.iter().map(|_| StateCell::default()).collect();
        let room = StateCell::new(Vec::with_capacity(vars.len()));
        Ok(Arc::new(Shared { optimizer, vars, states, settings: StateCell::new(settings), room }))
    }

    pub(crate) fn vars(&self) -> &[Var] {
        &self.vars
    }

    /// Calls `update` with the settings, and the value, the state and the gradient of every parameter that has one, see
    /// Note [A step].
    pub(crate) fn step(
        &self,
        mut update: impl FnMut(&O, &mut Tensor, &mut S, &Tensor) -> Result<()>,
    ) -> Result<()> {
        // Before the room is taken: who has it may be waiting for this very thread to finish its update.
        self.vars.iter().try_for_each(|var| var.expect_not_updating(self.optimizer))?;
        self.room.update(|grads| {
            let settings = self.settings.read();
            settings.check()?;
            // A step that has panicked may have left some.
            grads.clear();
            grads.extend(self.vars.iter().map(Var::grad));
            let done = self.check(grads).and_then(|()| {
                for ((var, state), grad) in self.vars.iter().zip(&self.states).zip(&*grads) {
                    if let Some(g) = grad {
                        var.update_in_place(|value| {
                            state.update(|state| update(&settings, value, state, g))
                        })?;
                    }
                }
                Ok(())
            });
            grads.clear();
            done
        })
    }

    /// Refuses gradients that do not fit their parameters.
    fn check(&self, grads: &[Option<Tensor>]) -> Result<()> {
        for (index, (var, grad)) in self.vars.iter().zip(grads).enumerate() {
            let Some(g) = grad else { continue };
            if *g.shape() != *var.shape() || g.dtype() != var.dtype() {
                return refuse(OptimFacts::Gradient {
                    optimizer: self.optimizer,
                    index,
                    shape: var.shape().clone(),
                    dtype: var.dtype(),
                    grad_shape: g.shape().clone(),
                    grad_dtype: g.dtype(),
                });
            }
        }
        Ok(())
    }
}

impl<O: Clone + fmt::Debug, S: Clone + fmt::Debug> fmt::Debug for Shared<O, S> {
    /// Waits for no step: the room stays out of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct(self.optimizer);
        shown.field("parameters", &self.vars).field("settings", &self.settings.read());
        shown.field("states", &self.states).finish()
    }
}

/// A state tensor of a parameter, made of zeros when it is first needed.
pub(crate) fn zeros_once<'a>(slot: &'a mut Option<Tensor>, like: &Tensor) -> &'a mut Tensor {
    slot.get_or_insert_with(|| Tensor::zeros_with(like.shape(), like.dtype()))
}
