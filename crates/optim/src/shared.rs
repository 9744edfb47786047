//! What all clones of an optimiser share: the parameters, a state of its own for each, and the settings.

use std::fmt;
use std::sync::Arc;

use foldback_graph::Var;
use foldback_tensor::{StateCell, Tensor, name_matches, refuse};

use crate::error::{OptimFacts, Result};
use crate::group::{AsParameter, Group, Members};
use crate::setting::Setting;
use crate::settings::Settings;
use crate::step::{Before, Step};

/// An optimiser as data: what it can be told, what it keeps for a parameter, and its step.
#[derive(Debug)]
pub(crate) struct Algorithm {
    pub(crate) name: &'static str,
    pub(crate) settings: &'static [Setting],
    /// the names of the tensors that are kept
    pub(crate) tensors: &'static [&'static str],
    /// How many of these, from the first on, every parameter has that has seen a step.
    pub(crate) always: usize,
    /// the numbers that are kept, and what they start with
    pub(crate) numbers: &'static [(&'static str, f64)],
    /// refuses settings that contradict each other, whatever the order of their setters was: a step asks before it
    /// changes anything
    pub(crate) check: fn(&[f64]) -> Result<()>,
    /// the step of parameters that stand alike, given their settings: the same ones give the same step
    pub(crate) step: fn(&[f64], &Before) -> Step,
    /// whether its parameters may be in several groups, and its state has the shapes of its parameters
    pub(crate) by_parameter: bool,
}

/// How many tensors are kept for a parameter at most.
pub(crate) const PLACES: usize = 4;

/// What is kept for a parameter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    /// steps that it has seen
    pub(crate) steps: i64,
    pub(crate) tensors: [Option<Tensor>; PLACES],
    pub(crate) numbers: [f64; 4],
}

/// Parameters in order, what the optimiser keeps for each once it has been changed, and its settings.
pub(crate) struct Shared {
    pub(crate) algorithm: &'static Algorithm,
    vars: Vec<Var>,
    names: Vec<Option<String>>,
    /// locked by a step only while nothing is waited for
    pub(crate) states: StateCell<Vec<Kept>>,
    pub(crate) settings: Settings,
    /// Room for the gradients of a step; whoever has it takes a step, and others wait. Empty between steps: a gradient
    /// that is held here could not be written in place by the next backward pass.
    pub(crate) room: StateCell<Vec<Option<Tensor>>>,
}

impl Shared {
    pub(crate) fn new(
        algorithm: &'static Algorithm,
        parameters: impl IntoIterator<Item: AsParameter>,
        lr: f64,
    ) -> Result<Arc<Shared>> {
        let (mut vars, mut names): (Vec<Var>, Vec<_>) = (Vec::new(), Vec::new());
        for parameter in parameters {
            names.push(parameter.name().map(str::to_owned));
            vars.push(parameter.var().clone());
        }
        let optimizer = algorithm.name;
        let settings = Settings::new(optimizer, algorithm.settings, vars.len());
        settings.set_for_all(&Group::new().lr(lr), |_| Ok(()))?;
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
        let states = StateCell::new(vars.iter().map(|_| algorithm.fresh()).collect());
        let room = StateCell::new(Vec::with_capacity(vars.len()));
        Ok(Arc::new(Shared { algorithm, vars, names, states, settings, room }))
    }

    pub(crate) fn vars(&self) -> &[Var] {
        &self.vars
    }

    /// Makes some parameters a group with settings of its own.
    pub(crate) fn group(&self, members: Members, group: &Group) -> Result<()> {
        let optimizer = self.algorithm.name;
        let refused = |problem: String| refuse(OptimFacts::Members { optimizer, problem });
        if !self.algorithm.by_parameter {
            return refused("all parameters are one group here: give settings to all of them".into());
        }
        let groups = self.settings.read();
        let is_free = |i: &usize| groups.has_rest && groups.of[*i] == 0;
        let found: Vec<usize> = match &members {
            Members::Matching(_) if self.names.iter().all(Option::is_none) => {
                let cure = "a pattern needs names: give model.named_parameters() to the optimiser";
                return refused(cure.into());
            }
            Members::Matching(pattern) => {
                let matches = |i: &usize| self.names[*i].as_ref().is_some_and(|n| name_matches(pattern, n));
                (0..self.vars.len()).filter(matches).filter(is_free).collect()
            }
            Members::These(list) => {
                let mut found = Vec::with_capacity(list.len());
                for (at, var) in list.iter().enumerate() {
                    match self.vars.iter().position(|own| own.is_same(var)) {
                        None => {
                            return refused(format!(
                                "number {at} is not a parameter of the optimiser: give all to `new`, a group is some of them"
                            ));
                        }
                        Some(i) if !is_free(&i) || found.contains(&i) => {
                            return refused(format!("number {at} is in a group already"));
                        }
                        Some(i) => found.push(i),
                    }
                }
                found
            }
        };
        match members {
            Members::Matching(pattern) if found.is_empty() => refused(format!(
                "no parameter that is in no group yet matches {pattern:?}: the names are {}",
                self.known_names()
            )),
            _ if found.is_empty() => {
                let some = match self.names.iter().all(Option::is_none) {
                    true => "give some of those that `new` was given".to_owned(),
                    false => format!("the names are {}", self.known_names()),
                };
                refused(format!(
                    "the list is empty, as that of named_parameters_matching is where nothing matches: {some}"
                ))
            }
            _ => self.settings.split(&found, group),
        }
    }

    /// The names of those that were given with one.
    fn known_names(&self) -> String {
        self.names.iter().flatten().map(String::as_str).collect::<Vec<_>>().join(", ")
    }

    /// Refuses to wait for what this very thread is doing.
    pub(crate) fn expect_not_updating(&self) -> Result<()> {
        self.vars.iter().try_for_each(|var| var.expect_not_updating(self.algorithm.name))
    }

    /// Refuses gradients that do not fit their parameters.
    pub(crate) fn check(&self, grads: &[Option<Tensor>]) -> Result<()> {
        for (index, (var, grad)) in self.vars.iter().zip(grads).enumerate() {
            let Some(g) = grad else { continue };
            if *g.shape() != *var.shape() || g.dtype() != var.dtype() {
                return refuse(OptimFacts::Gradient {
                    optimizer: self.algorithm.name,
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

impl Algorithm {
    /// What is kept for a parameter that has seen no step.
    pub(crate) fn fresh(&self) -> Kept {
        let mut kept = Kept::default();
        for (place, (_, start)) in kept.numbers.iter_mut().zip(self.numbers) {
            *place = *start;
        }
        kept
    }
}

impl fmt::Debug for Shared {
    /// The settings, and how many parameters there are. Waits for no step: the room stays out of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct(self.algorithm.name);
        shown.field("parameters", &self.vars.len()).field("groups", &self.settings).finish()
    }
}

/// Refuses the plain step of an optimiser that computes the loss by itself.
pub(crate) fn expect_own_step(of: &'static str) -> Result<()> {
    let problem = "a step computes the loss several times: use step_with(|| ..)".to_owned();
    refuse(OptimFacts::Refused { of, problem })
}
