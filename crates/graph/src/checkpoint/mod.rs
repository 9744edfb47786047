//! Checkpoints: a stretch of a program that keeps its operands only, and is run again when its gradients are wanted.
//!
//! Note [Going on in a recomputed graph]
//! A checkpoint is one node, whose edges lead to everything that its function's results depend on: operands, and variables
//! that the function captured, which are found by looking at the graph of the first run before it is dropped. Backward, the node
//! runs the function again and describes no gradients, but hands its own on to the results of the second run
//! (`Work::Onward`). Their nodes have larger numbers than any that wait, so the pass runs them next, in the place where the
//! plain graph's would have run, and what they send to operands is added to what waits there in the plain order. So there is
//! no pass inside the pass: gradients have the same bits, nothing is written to a leaf that the pass would not write to,
//! nesting takes no stack, and the time is linear.

mod draws;
mod sketch;

use foldback_tensor::{
    BroadcastWarning, Generator, Here, Packed, Tensor, broadcast_warning, get_rng_state, refuse,
    set_rng_state,
};
use smallvec::SmallVec;

use crate::error::{GraphFacts, Result};
use crate::functional::{Arguments, Outputs};
use crate::mode::{LineGuard, enable_grad, is_grad_enabled, location};
use crate::node::{Context, Describe, Edge, Flow, Node, NodeKind, Take, Var, VarKind, Work, next_number};
use crate::record::note;
use crate::saved::SavedValues;
use crate::slot::RuleSlot;
pub use draws::draw_from;
use draws::{record, replay};
use sketch::Sketch;

/// `f(inputs)`, of which nothing is kept but the inputs: a backward pass that comes to it runs `f` again
/// (`torch.utils.checkpoint`).
///
/// Values and gradients have the same bits as without the checkpoint. Those of gradients of gradients are right, too, but
/// may be summed in another order: what a recorded pass reads was computed again, and leads to the operands past the
/// results of the first run, so hooks on these do not see that part in a pass of second order. Variables that `f` captures
/// get their gradients, too: capture clones, which are handles. Checkpoints may be nested. `f` draws the same random
/// numbers again: those of this thread's generator, and those that layers draw from generators of their own.
///
/// `f` gets the inputs as variables, arranged as they are ([`Arguments`]), and returns a variable, an array or a `Vec` of
/// them, or a `Result` of that ([`Outputs`]).
///
/// `f` is a function of its inputs, of captured variables and of random numbers: what it changes elsewhere it changes
/// twice, or more often under `retain_graph`. It runs with recording on and draws for its own thread alone: what it hands to
/// other threads draws anew.
///
/// # Errors
/// What `f` returns, now or when it is run again; a backward pass fails with `CheckpointChanged` if `f` then records
/// other operations, or saves values of other shapes, or if a leaf that it captured has been written meanwhile.
///
/// ```
/// use foldback_graph::{RequiresGrad, checkpoint};
/// use foldback_tensor::tensor;
/// let (x, w) = (tensor![1.0, 2.0].requires_grad(), tensor![3.0].requires_grad());
/// let weight = w.clone();
/// let y = checkpoint(move |x| x.mul(&weight)?.exp().sum(..), &x)?;
/// y.backward()?;
/// let plain = tensor![1.0, 2.0].requires_grad();
/// plain.mul(3.0)?.exp().sum(..)?.backward()?;
/// assert_eq!(x.grad(), plain.grad());
/// assert!(w.grad().is_some());
///
/// let [product, quotient] = checkpoint(|[x, w]| Ok([x.mul(w)?, x.div(w)?]), [&x, &w])?;
/// assert_eq!((product.value(), quotient.value()), (x.value() * 3.0, x.value() / 3.0));
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[track_caller]
pub fn checkpoint<A: Arguments, O: Outputs + 'static>(
    f: impl Fn(&A::Seen) -> O + Send + Sync + 'static,
    inputs: A,
) -> Result<O::Of<Var>>
where
    A::Seen: 'static,
{
    apply(listed(f, A::see), inputs.into_vars()).or_here().map(O::gather)
}

type Run = Box<dyn Fn(&[Var]) -> Result<Vec<Var>> + Send + Sync>;

/// A function of lists.
fn listed<T: ?Sized + 'static, O: Outputs + 'static>(
    f: impl Fn(&T) -> O + Send + Sync + 'static,
    see: fn(&[Var]) -> &T,
) -> Run {
    Box::new(move |x| f(see(x)).into_vars())
}

/// The node's backward function: how to run the stretch again.
struct Checkpoint {
    run: Run,
    /// this thread's generator before the first run
    generator: Generator,
    /// the states of other generators that were drawn from
    draws: Vec<Generator>,
    /// the graph of the first run
    sketch: Sketch,
    operands: Vec<Operand>,
}

/// Where an operand's gradient goes.
enum Operand {
    /// nowhere: it requires none
    Constant,
    /// nowhere, since no result depends on it, though the function may ask it for one
    Unused,
    /// along the edge of this input: the same variable may be given twice
    Input(usize),
}

#[track_caller]
fn apply(run: Run, inputs: Vec<Var>) -> Result<Vec<Var>> {
    if !is_grad_enabled() {
        return run(&inputs);
    }
    let _span = crate::profile::forward("checkpoint");
    let operands: Vec<Var> = inputs.iter().map(Var::snapshot).collect();
    let (generator, first) = (get_rng_state(), next_number());
    let (outputs, draws) = record(|| run(&operands));
    let outputs = outputs?;
    let (sketch, ends) = Sketch::of(&outputs, first);
    if ends.is_empty() {
        return Ok(outputs);
    }
    let (mut edges, mut places): (SmallVec<[Option<Edge>; 2]>, _) = (SmallVec::new(), Vec::new());
    for (i, operand) in operands.iter().enumerate() {
        let own = operand.edge();
        let is_own = |e: &Edge| own.as_ref().is_some_and(|own| same(own, e));
        let twin = edges.iter().position(|e| e.as_ref().is_some_and(is_own));
        let end = ends.iter().find(|e| is_own(e));
        places.push(match end {
            Some(_) => Operand::Input(twin.unwrap_or(i)),
            None if own.is_some() => Operand::Unused,
            None => Operand::Constant,
        });
        edges.push(if twin.is_some() { None } else { end.cloned() });
    }
    for end in ends {
        if !edges.iter().flatten().any(|e| same(e, &end)) {
            edges.push(Some(end));
        }
    }
    // Operands, and what captured leaves hold: of those, to see whether they change.
    let like = outputs[0].shape().clone();
    let captured = edges[operands.len()..].iter().flatten();
    let values = operands.iter().map(|v| Some(v.value()));
    let values = values.chain(captured.map(|e| e.node.as_leaf().map(|leaf| leaf.value.read())));
    let saved: SavedValues = values.map(|t| t.map(|t| Packed::new(&t, &like))).collect();
    let results: SmallVec<[Tensor; 1]> = outputs.iter().map(Var::value).collect();
    let checkpoint = Box::new(Checkpoint { run, generator, draws, sketch, operands: places });
    let kind = NodeKind::Function("checkpoint", checkpoint);
    let node = Node::of_results(kind, edges, &results, saved, location());
    note(&node, &results);
    // What was not recorded inside, an operand for instance, and what is there twice, is as it is without a checkpoint.
    let inner: Vec<Option<Edge>> =
        outputs.iter().map(|v| v.edge().filter(|e| e.node.sequence >= first)).collect();
    let result = |v: Var| {
        let Some(edge) = v.edge().filter(|e| e.node.sequence >= first) else { return v };
        let nr = inner.iter().position(|e| e.as_ref().is_some_and(|e| same(e, &edge)));
        Var::tracked(v.value(), node.clone(), nr.unwrap_or(0))
    };
    Ok(outputs.into_iter().map(result).collect())
}

pub(crate) fn same(a: &Edge, b: &Edge) -> bool {
    a.node.sequence == b.node.sequence && a.nr == b.nr
}

impl Describe for Checkpoint {
    fn describe(&self, ctx: &Context<'_>, take: &mut Take<'_>) -> Result<()> {
        let node = ctx.node;
        let changed = |what: String| refuse(GraphFacts::CheckpointChanged { what, location: node.location });
        for (place, edge) in node.next_edges.iter().enumerate().skip(self.operands.len()) {
            let Some(leaf) = edge.as_ref().and_then(|e| e.node.as_leaf()) else { continue };
            let (now, then) = (leaf.value.read(), ctx.values.get(RuleSlot::Input(place)));
            if then.is_some_and(|then| !then.has_bits_of(&now)) {
                let what = format!("a leaf of shape {} that it captured has been written since", now.shape());
                return changed(what);
            }
        }
        let operands =
            (0..self.operands.len()).map(|i| self.operand(ctx, i)).collect::<Result<Vec<Var>>>()?;
        let first = next_number();
        let outputs = self.run_again(&operands)?;
        let (sketch, _) = Sketch::of(&outputs, first);
        if let Some(difference) = self.sketch.difference(&sketch) {
            return changed(difference);
        }
        let arrived = outputs.iter().zip(ctx.grads);
        let onward = arrived.filter_map(|(v, g)| Some((v.edge()?, g.clone()?))).collect();
        take(Flow { to: SmallVec::new(), work: Work::Onward(onward) })
    }

    /// What arrives is handed on as it is.
    fn leads(&self) -> bool {
        true
    }
}

impl Checkpoint {
    /// An operand as the first run saw it.
    fn operand(&self, ctx: &Context<'_>, i: usize) -> Result<Var> {
        let value = ctx.values.get(RuleSlot::Input(i)).expect("a checkpoint keeps its operands").clone();
        match self.operands[i] {
            Operand::Constant => Ok(Var::constant(value)),
            Operand::Unused => Var::leaf(value),
            Operand::Input(place) => {
                let edge = ctx.node.next_edges[place].clone().expect("an input that is tracked has an edge");
                Ok(Var { kind: VarKind::Tracked(value, edge) })
            }
        }
    }

    /// Runs the function with recording on, lines of its own, and the random numbers of the first run.
    fn run_again(&self, operands: &[Var]) -> Result<Vec<Var>> {
        /// Puts the generator back, whatever happens.
        struct Restore(Option<Generator>);
        impl Drop for Restore {
            fn drop(&mut self) {
                self.0.take().map(set_rng_state);
            }
        }
        let _generator = Restore(Some(set_rng_state(self.generator.clone())));
        let _lines = LineGuard::none();
        // What it broadcasts has been looked at, by the level that was in force.
        let _meant = broadcast_warning(BroadcastWarning::Off);
        replay(&self.draws, || enable_grad(|| (self.run)(operands)))
    }
}
