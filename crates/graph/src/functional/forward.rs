//! Forward mode: the derivatives of everything that was recorded, in a direction of the arguments.
//!
//! Note [Forward mode]
//! A gradient is linear in `g`, and a row's formula is pointwise: with the tangent of an input in the place of `g` it is what
//! that input adds to the tangent of the output. A function row says what that is (`Describe::pushes`). The gradients of a
//! user's function are linear in `g`, too, but nothing else is known of them. Recorded for any `g`, they are a graph whose own
//! gradient for `g`, seeded with the tangents of the inputs, is the tangent of the output: of a linear map applied backward
//! twice nothing is left but the map. All are exact, of any order, and the last is right for every node that has gradients
//! which can be recorded. Nodes are taken in the order of their numbers, so that everything that a node depends on comes
//! first.

use std::cell::RefCell;
use std::sync::Arc;

use foldback_tensor::Tensor;
use foldback_tensor::kernel::{self, Target};
use smallvec::SmallVec;

use super::reverse::{between, pull};
use crate::budget::Recomputed;
#[cfg(test)]
use crate::engine::trace;
use crate::engine::{Job, choose, record_formula};
use crate::error::{Error, GraphFacts, Result};
use crate::gradient::add_to;
use crate::lead::Lead;
use crate::mode::{GradMode, LineGuard};
use crate::node::rule::{Rule, RuleKernel};
use crate::node::{Context, Describe, Edge, Flow, Mood, Node, NodeKind, Var, Work, next_number};
use crate::numbered::Numbered;
use crate::saved::Unpacked;
use crate::slot::RuleSlot;

/// How tangents are computed.
pub(super) struct Forward {
    /// the axis along which there are many of each value
    pub(super) lead: Lead,
    pub(super) recorded: bool,
    /// saved values that were given up: all of them stay, since they are needed in the order in which they are made
    pub(super) again: RefCell<Recomputed>,
}

/// The tangents of a node's inputs or outputs.
type Tangents = SmallVec<[Option<Var>; 2]>;

/// Tangents that were computed, each kept until its last reader has come.
struct Waiting(Numbered<(u64, usize), (Option<Var>, usize)>);

impl Waiting {
    fn new(nodes: &[Arc<Node>], ends: &[Option<Edge>]) -> Waiting {
        let mut places: Numbered<(u64, usize), (Option<Var>, usize)> = Numbered::default();
        let inside = nodes.iter().flat_map(|n| n.next_edges.iter().flatten().cloned());
        for edge in inside.chain(ends.iter().flatten().cloned()) {
            places.entry((edge.node.sequence, edge.nr)).or_default().1 += 1;
        }
        Waiting(places)
    }

    fn put(&mut self, node: &Node, nr: usize, tangent: Option<Var>) {
        if let Some(place) = self.0.get_mut(&(node.sequence, nr)) {
            place.0 = tangent;
        }
    }

    fn take(&mut self, edge: &Edge) -> Option<Var> {
        let (tangent, readers) = self.0.get_mut(&(edge.node.sequence, edge.nr))?;
        *readers -= 1;
        if *readers == 0 { tangent.take() } else { tangent.clone() }
    }
}

impl Forward {
    /// The tangents of some values, made of those at which the nodes start; none where nothing leads to a value.
    pub(super) fn run(
        &self,
        nodes: &[Arc<Node>],
        starts: Vec<(Edge, Var)>,
        ends: &[Option<Edge>],
    ) -> Result<Vec<Option<Var>>> {
        let _mode = GradMode::set(self.recorded);
        let mut waiting = Waiting::new(nodes, ends);
        for (edge, tangent) in starts {
            let tangent = if self.recorded { tangent } else { tangent.detach() };
            waiting.put(&edge.node, edge.nr, Some(tangent));
        }
        for node in nodes {
            let edges = node.next_edges.iter();
            let inputs: Tangents = edges.map(|e| e.as_ref().and_then(|e| waiting.take(e))).collect();
            if inputs.iter().all(Option::is_none) {
                continue;
            }
            for (nr, tangent) in self.node(node, &inputs)?.into_iter().enumerate() {
                waiting.put(node, nr, tangent);
            }
        }
        Ok(ends.iter().map(|end| end.as_ref().and_then(|e| waiting.take(e))).collect())
    }

    /// The tangents of a node's outputs.
    fn node(&self, node: &Arc<Node>, inputs: &[Option<Var>]) -> Result<Tangents> {
        let _line = LineGuard::set(node.location);
        match &node.kind {
            NodeKind::Rule(rule, params) => {
                self.rule(node, rule, params, inputs).map(|t| smallvec::smallvec![t])
            }
            NodeKind::Function(_, function) => self.function(node, &**function, inputs),
            NodeKind::AccumulateGrad(_) => Ok(Tangents::new()),
        }
        .map_err(|e| without_forward(node, node.in_backward(e)))
    }

    fn rule(
        &self,
        node: &Arc<Node>,
        rule: &'static Rule,
        params: &[f64; 2],
        inputs: &[Option<Var>],
    ) -> Result<Option<Var>> {
        let (meta, mut unpacked) = (&node.metadata[0], Unpacked::default());
        let values = node.unpack(true, &mut self.again.borrow_mut(), &mut unpacked)?;
        let full = self.lead.shape(&meta.shape);
        let mut sum: Option<Var> = None;
        for (tangent, gradient) in inputs.iter().zip(rule.gradients) {
            let (Some(tangent), Some(gradient)) = (tangent, gradient) else { continue };
            let tangent = self.lead.over(tangent, &full)?.try_to(meta.dtype)?;
            let term = match gradient.formula {
                None => tangent,
                Some(formula) if self.recorded => {
                    let grads = [Some(tangent)];
                    let ctx = self.context(node, &grads, values, &|_| true);
                    let term = record_formula(formula, params, gradient.reads, &ctx, None)?;
                    if *term.shape() == full { term } else { term.expand(&full)? }
                }
                Some(formula) => {
                    let g = tangent.value_ref();
                    let read = |slot: &RuleSlot| match slot {
                        RuleSlot::Grad(_) => &*g,
                        _ => values.get(*slot).expect("a row saves what it names"),
                    };
                    let reads: SmallVec<[&Tensor; 4]> = gradient.reads.iter().map(read).collect();
                    let target = Target { dtype: Some(meta.dtype), ..Target::of(&full) };
                    let kernel = RuleKernel { formula, params };
                    Var::constant(kernel::fold_to(node.name(), &kernel, &reads, target)?)
                }
            };
            add_to(&mut sum, term);
        }
        Ok(sum)
    }

    fn function(
        &self,
        node: &Arc<Node>,
        function: &dyn Describe,
        inputs: &[Option<Var>],
    ) -> Result<Tangents> {
        if function.pushes() && (self.lead.0.is_none() || function.leads()) {
            return self.described(node, function, inputs);
        }
        #[cfg(test)]
        trace::note_long_way("forward", node);
        // The gradients of any `g`, recorded.
        let recording = GradMode::set(true);
        let mut any: Vec<Option<Var>> = Vec::with_capacity(node.metadata.len());
        for meta in &node.metadata {
            let g = Tensor::zeros_with((), meta.dtype).expand(&meta.shape)?;
            any.push(if meta.dtype.is_float() { Some(Var::leaf(g)?) } else { None });
        }
        let mut unpacked = Unpacked::default();
        let values = node.unpack(true, &mut self.again.borrow_mut(), &mut unpacked)?;
        let wanted = |input: usize| inputs.get(input).is_some_and(Option::is_some);
        let ctx =
            Context { mood: Mood::Recorded, lead: Lead(None), ..self.context(node, &any, values, &wanted) };
        let (mut roots, mut of) = (Vec::new(), Vec::new());
        let (mut onward, first) = (None, next_number());
        let mut take = |Flow { to, work }: Flow<'_>| match work {
            Work::Onward(grads) => {
                onward = Some(grads);
                Ok(())
            }
            work => choose(Mood::Recorded, None, &to, work, |to, job| {
                if let (Job::Value(root), true) = (job, wanted(to[0])) {
                    roots.extend(root.take());
                    of.push(to[0]);
                }
                Ok(())
            }),
        };
        function.describe(&ctx, &mut take)?;
        drop(recording);
        if let Some(onward) = onward {
            return self.recomputed(node, first, inputs, &any, &onward);
        }
        // Their gradient for `g`.
        let (mut from, mut seeds) = (Vec::new(), Vec::new());
        for (root, input) in roots.iter().zip(of).filter(|(root, _)| root.requires_grad()) {
            let tangent = inputs[input].as_ref().expect("only what is wanted was taken");
            seeds.push(self.lead.over(tangent, &self.lead.shape(root.shape()))?.try_to(root.dtype())?);
            from.push(root);
        }
        let seeds: Vec<&Var> = seeds.iter().collect();
        let leaves: Vec<Var> = any.iter().flatten().cloned().collect();
        let mut found = pull(&from, &seeds, &leaves, self.lead.0, self.recorded)?.into_iter();
        Ok(any.iter().map(|g| g.as_ref().and_then(|_| found.next())).collect())
    }

    /// The tangents of the outputs of a function that has a rule for them: the sums of what each input adds.
    fn described(
        &self,
        node: &Arc<Node>,
        function: &dyn Describe,
        inputs: &[Option<Var>],
    ) -> Result<Tangents> {
        let mut unpacked = Unpacked::default();
        let values = node.unpack(true, &mut self.again.borrow_mut(), &mut unpacked)?;
        let wanted = |input: usize| inputs.get(input).is_some_and(Option::is_some);
        let ctx = Context { tangents: Some(inputs), ..self.context(node, &[], values, &wanted) };
        let mut sums = Tangents::from_elem(None, node.metadata.len());
        let mut take = |Flow { to, work }: Flow<'_>| {
            choose(ctx.mood, None, &to, work, |to, job| {
                let term = match job {
                    Job::Value(term) => term.take().expect("a value is handed in"),
                    Job::Product(a, b) => Var::constant(a.matmul(b)?),
                    Job::Shared(_) | Job::Part(_) | Job::Kernel(..) => {
                        unreachable!("formulas have no tangents of their own, nor have parts")
                    }
                };
                let (meta, sum) = (&node.metadata[to[0]], &mut sums[to[0]]);
                let term = self.lead.over(&term, &self.lead.shape(&meta.shape))?.try_to(meta.dtype)?;
                add_to(sum, term);
                Ok(())
            })
        };
        function.describe(&ctx, &mut take)?;
        Ok(sums)
    }

    fn context<'a>(
        &self,
        node: &'a Arc<Node>,
        grads: &'a [Option<Var>],
        values: &'a Unpacked,
        wanted: &'a dyn Fn(usize) -> bool,
    ) -> Context<'a> {
        let mood = if self.recorded { Mood::Recorded } else { Mood::Now };
        Context { node, grads, values, wanted, mood, retain: true, lead: self.lead, tangents: None }
    }

    /// The tangents of the outputs of a node that recorded anew what it stands for, from the number `first` on.
    fn recomputed(
        &self,
        node: &Node,
        first: u64,
        inputs: &[Option<Var>],
        any: &[Option<Var>],
        onward: &[(Edge, Var)],
    ) -> Result<Tangents> {
        // What came for an output's gradient is the output.
        let end = |g: &Option<Var>| {
            let of = |(_, given): &&(Edge, Var)| g.as_ref().is_some_and(|g| given.is_same(g));
            onward.iter().find(of).map(|(edge, _)| edge.clone())
        };
        let ends: Vec<Option<Edge>> = any.iter().map(end).collect();
        let edges = node.next_edges.iter().zip(inputs);
        let starts = edges.filter_map(|(edge, t)| Some((edge.clone()?, t.clone()?))).collect();
        let (nodes, _) = between(&ends, first);
        Ok(self.run(&nodes, starts, &ends)?.into())
    }
}

/// Says what is missing where a function cannot be recorded.
#[cold]
fn without_forward(node: &Node, e: Error) -> Error {
    match e.facts() {
        Some(GraphFacts::OnceDifferentiable { op, location }) if *location == node.location => {
            GraphFacts::NoForward { op, location }.into()
        }
        _ => e,
    }
}
