//! How an operation of one's own is recorded and run: what both of its forms share.

use std::cell::RefCell;

use foldback_tensor::{Tensor, refuse};
use smallvec::SmallVec;

use crate::arrival::perhaps_unfolded;
use crate::error::{GraphFacts, Result};
use crate::node::{Able, Context, Flow, Mood, Take, Var};
use crate::record::{Reads, record_function};
use crate::slot::RuleSlot;

/// One per input, where there is one.
pub(super) type Given = SmallVec<[Option<Var>; 2]>;

/// What an operation says of itself.
#[derive(Clone)]
pub(super) struct Declared {
    pub(super) name: &'static str,
    pub(super) saves_inputs: bool,
    pub(super) saves_output: bool,
    pub(super) once_differentiable: bool,
    pub(super) non_differentiable: SmallVec<[usize; 2]>,
}

impl Declared {
    /// Nothing but a name.
    pub(super) fn new(name: &'static str) -> Declared {
        Declared {
            name,
            saves_inputs: false,
            saves_output: false,
            once_differentiable: false,
            non_differentiable: SmallVec::new(),
        }
    }
}

/// Its backward function, whichever form it has.
pub(super) trait BackwardFunction: Send + Sync {
    fn run(&self, parts: ContextParts<'_>) -> Result<Given>;
}

impl<F: Fn(ContextParts<'_>) -> Result<Given> + Send + Sync> BackwardFunction for F {
    fn run(&self, parts: ContextParts<'_>) -> Result<Given> {
        self(parts)
    }
}

/// What its context is made of, but for what it keeps beside inputs and outputs.
#[derive(Clone, Copy)]
pub(super) struct ContextParts<'a> {
    pub(super) inner: &'a Context<'a>,
    pub(super) declared: &'a Declared,
    /// takes what is described
    pub(super) take: &'a dyn Fn(Flow<'_>) -> Result<()>,
}

/// Records what was computed; without a tracked input, or a differentiable output, there is nothing to record.
#[track_caller]
pub(super) fn record(
    declared: Declared,
    inputs: &[&Var],
    outputs: SmallVec<[Tensor; 1]>,
    backward: impl FnOnce() -> Box<dyn BackwardFunction>,
) -> SmallVec<[Var; 1]> {
    let saved = if declared.saves_inputs { inputs.len() } else { 0 };
    let mut slots: Vec<RuleSlot> = (0..saved).map(RuleSlot::Input).collect();
    if declared.saves_output {
        slots.push(RuleSlot::Output(0));
    }
    let (name, constants) = (declared.name, declared.non_differentiable.clone());
    let mut vars = record_function(name, inputs, outputs, Reads::All(&slots), || {
        let backward = backward();
        let function = move |ctx: &Context<'_>, take: &mut Take<'_>| run(&declared, &*backward, ctx, take);
        Box::new(Able { leads: false, pushes: false, arrival: perhaps_unfolded, function })
    });
    for k in constants {
        vars[k] = vars[k].detach();
    }
    vars
}

fn run(
    declared: &Declared,
    backward: &dyn BackwardFunction,
    ctx: &Context<'_>,
    take: &mut Take<'_>,
) -> Result<()> {
    let (op, location, expected) = (declared.name, ctx.node.location, ctx.inputs());
    if declared.once_differentiable && ctx.mood == Mood::Recorded {
        return refuse(GraphFacts::OnceDifferentiable { op, location });
    }
    let take = RefCell::new(take);
    let take = |flow: Flow<'_>| (*take.borrow_mut())(flow);
    let parts = ContextParts { inner: ctx, declared, take: &take };
    let mut gradients = backward.run(parts).map_err(|e| ctx.node.in_function(e))?;
    // A surplus of None is forgiven, as in PyTorch.
    while gradients.len() > expected && gradients.last().is_some_and(Option::is_none) {
        gradients.pop();
    }
    if gradients.len() != expected {
        return refuse(GraphFacts::GradientCount { op, expected, found: gradients.len(), location });
    }
    let given = gradients.into_iter().enumerate();
    given.filter_map(|(i, g)| Some(Flow::to(i, g?))).try_for_each(take)
}
