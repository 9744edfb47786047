//! The engine: takes ready nodes in descending order of their numbers and sends gradients along their edges.
//!
//! Note [Order]
//! A node is numbered when it is recorded, after all nodes it depends on. So the largest number among the nodes that
//! have received a gradient belongs to one that nothing outstanding can still contribute to: a map ordered by number
//! is at once the queue and the place where gradients wait to be added up. No counting pass is needed.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use foldback_tensor::{Shape, Tensor, kernel, set_thread_modes, thread_modes};
use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::gradient::{Gradient, add_gradients, add_in_place, call_function, dense, fit};
use crate::hooks::Hooks;
use crate::levels::deeper;
use crate::locks::lock;
use crate::mode::{GradMode, INHERITS_LINE};
use crate::node::{Edge, InputMetadata, Kind, Node};
use crate::var::{Var, VarKind, expect_fit};

/// Nodes with gradients. Mostly there is one, whose inputs are about to take its place: the one with the largest number
/// is kept apart from the others.
#[derive(Default)]
struct Queue {
    /// its number is larger than all in `others`
    first: Option<Ready>,
    others: BTreeMap<u64, Ready>,
}

impl Queue {
    fn pop(&mut self) -> Option<Ready> {
        self.first.take().or_else(|| self.others.pop_last().map(|(_, ready)| ready))
    }

    fn get_mut(&mut self, sequence: u64) -> Option<&mut Ready> {
        match &mut self.first {
            Some(first) if first.node.sequence == sequence => Some(first),
            _ => self.others.get_mut(&sequence),
        }
    }

    /// Takes what waits for an edge, if it has no history.
    fn take_constant(&mut self, edge: &Edge) -> Option<Tensor> {
        let slot = &mut self.get_mut(edge.node.sequence)?.buffer[edge.nr as usize];
        match slot.take() {
            Some(Var { kind: VarKind::Constant(t) }) => Some(t),
            other => {
                *slot = other;
                None
            }
        }
    }

    /// What waits for a node; nothing yet, if it is new.
    fn entry(&mut self, node: &Arc<Node>) -> &mut Ready {
        let number = node.sequence;
        let new = || Ready { node: node.clone(), buffer: smallvec::smallvec![None; node.metadata.len()] };
        let largest = match &self.first {
            Some(first) => first.node.sequence,
            None => self.others.last_key_value().map_or(0, |(&number, _)| number),
        };
        if number < largest || (number == largest && self.first.is_none() && !self.others.is_empty()) {
            return self.others.entry(number).or_insert_with(new);
        }
        if number > largest
            && let Some(before) = self.first.take()
        {
            self.others.insert(before.node.sequence, before);
        }
        self.first.get_or_insert_with(new)
    }
}

/// The gradients that wait for a node, one per output.
struct Ready {
    node: Arc<Node>,
    buffer: SmallVec<[Option<Var>; 1]>,
}

/// How a backward pass is to run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    pub(crate) retain_graph: bool,
    pub(crate) create_graph: bool,
}

/// One backward pass.
pub(crate) struct GraphTask {
    pub(crate) options: Options,
    ready: Queue,
    /// where gradients are to be caught: node number and output, to the index of the caller's input
    captures: HashMap<(u64, u32), Vec<usize>>,
    /// the nodes that lead to a captured one; all, if there is nothing to capture
    path: Option<HashSet<u64>>,
    /// whether a captured leaf also gets its gradient (a `backward` limited to inputs) or not (`grad`)
    accumulate: bool,
    caught: Vec<Option<Var>>,
    /// gradients of leaves and retained ones, written when everything has succeeded
    staged: Vec<(Arc<Node>, u32, Var)>,
}

thread_local! {
    static LINE: Cell<Option<&'static Location<'static>>> = const { Cell::new(None) };
}

/// The line that operations recorded inside a backward pass belong to.
pub(crate) fn inherited_location() -> Option<&'static Location<'static>> {
    // Another thread has none of this one's modes, nor the line of its node.
    if thread_modes() & INHERITS_LINE == 0 { None } else { LINE.get() }
}

/// Sets the inherited line while a node runs.
pub(crate) struct LineGuard {
    line: Option<&'static Location<'static>>,
    modes: u32,
}
impl LineGuard {
    pub(crate) fn set(line: &'static Location<'static>) -> LineGuard {
        LineGuard { line: LINE.replace(Some(line)), modes: set_thread_modes(thread_modes() | INHERITS_LINE) }
    }
}
impl Drop for LineGuard {
    fn drop(&mut self) {
        LINE.set(self.line);
        set_thread_modes(self.modes);
    }
}

impl GraphTask {
    pub(crate) fn new(options: Options) -> GraphTask {
        GraphTask {
            options,
            ready: Queue::default(),
            captures: HashMap::new(),
            path: None,
            accumulate: true,
            caught: Vec::new(),
            staged: Vec::new(),
        }
    }

    /// Limits the pass to these inputs: only nodes on the way to them run. With `accumulate` the gradients are left
    /// in the variables, else they are returned.
    pub(crate) fn limit_to(&mut self, roots: &[Edge], inputs: &[Edge], accumulate: bool) {
        self.accumulate = accumulate;
        self.caught = vec![None; inputs.len()];
        for (i, edge) in inputs.iter().enumerate() {
            self.captures.entry((edge.node.sequence, edge.nr)).or_default().push(i);
        }
        let targets: HashSet<u64> = inputs.iter().map(|e| e.node.sequence).collect();
        self.path = Some(nodes_towards(roots, &targets));
    }

    /// Adds a gradient to what waits for an edge.
    pub(crate) fn seed(&mut self, edge: &Edge, grad: Var) {
        let grad = self.own(grad);
        let slot = self.slot(edge);
        *slot = Some(match slot.take() {
            Some(waiting) => add_gradients(waiting, grad),
            None => grad,
        });
    }

    pub(crate) fn slot(&mut self, edge: &Edge) -> &mut Option<Var> {
        let ready = self.ready.entry(&edge.node);
        &mut ready.buffer[edge.nr as usize]
    }

    /// Runs all nodes, commits the gradients of leaves and returns what was caught.
    pub(crate) fn run(mut self) -> Result<Vec<Option<Var>>> {
        deeper(move || {
            let _mode = GradMode::set(self.options.create_graph);
            while let Some(ready) = self.ready.pop() {
                self.evaluate(ready)?;
            }
            // What can fail comes before the first gradient changes, and outside its lock.
            for (node, _, grad) in &mut self.staged {
                let Some(leaf) = node.as_leaf() else { continue };
                if matches!(&grad.kind, VarKind::Constant(t) if !t.is_contiguous())
                    && lock(&leaf.grad).is_none()
                {
                    *grad = dense(grad.clone())?;
                }
            }
            for (node, nr, grad) in self.staged.drain(..) {
                match node.as_leaf() {
                    Some(leaf) => {
                        let mut place = lock(&leaf.grad);
                        let grad = if place.is_some() { grad } else { dense(grad)? };
                        let outdated = add_in_place(&mut place, grad);
                        drop(place);
                        drop(outdated);
                    }
                    None => Hooks::store(&node, nr, grad),
                }
            }
            Ok(self.caught)
        })
    }

    /// Hooks, captures, then the node's own function.
    fn evaluate(&mut self, ready: Ready) -> Result<()> {
        let Ready { node, mut buffer } = ready;
        if self.path.as_ref().is_some_and(|p| !p.contains(&node.sequence)) {
            return Ok(());
        }
        if node.hooks.get().is_some() || !self.captures.is_empty() || node.as_leaf().is_some() {
            self.visit(&node, &mut buffer)?;
        }
        if !node.next_edges.iter().flatten().any(|edge| self.is_on_path(edge)) {
            return Ok(());
        }
        // Without recording, a row's formulas need neither a line nor a list of what they return.
        if let (Kind::Rule(rule, params), Some(Var { kind: VarKind::Constant(g) }), false) =
            (&node.kind, &buffer[0], self.options.create_graph)
        {
            return self.run_rule(&node, rule, params, g);
        }
        let _line = LineGuard::set(node.location);
        let saved = node.unpack(self.options.retain_graph)?;
        let queue = RefCell::new(&mut self.ready);
        let waiting = |input: usize| queue.borrow_mut().take_constant(node.next_edges[input].as_ref()?);
        let path = &self.path;
        let wanted = |input: usize| {
            node.next_edges.get(input).and_then(Option::as_ref).is_some_and(|edge| is_on_path(path, edge))
        };
        let gradients =
            call_function(&node, &buffer, &saved, &wanted, &waiting).map_err(|e| in_backward(&node, e))?;
        self.validate_outputs(&node, gradients)
    }

    /// Whether an edge leads to a variable whose gradient is wanted.
    pub(crate) fn is_on_path(&self, edge: &Edge) -> bool {
        is_on_path(&self.path, edge)
    }

    /// Runs the hooks of a node, and keeps its gradients for the caller and for those who will look for them.
    fn visit(&mut self, node: &Arc<Node>, buffer: &mut [Option<Var>]) -> Result<()> {
        for (nr, slot) in buffer.iter_mut().enumerate() {
            let Some(mut grad) = slot.take() else { continue };
            let mut kept = node.as_leaf().is_some_and(|leaf| leaf.requires_grad.load(Ordering::Relaxed));
            if let Some(hooks) = node.hooks.get() {
                let (replaced, retain) = hooks.run(nr as u32, grad);
                expect_fit("a gradient replaced by a hook", &node.metadata[nr], &replaced.value_ref())?;
                (grad, kept) = (self.own(replaced), kept || retain);
            }
            let inputs = self.captures.get(&(node.sequence, nr as u32));
            inputs.into_iter().flatten().for_each(|&i| self.caught[i] = Some(grad.clone()));
            // A pass that is limited leaves gradients in the leaves that it is limited to.
            kept &= self.path.is_none() || node.as_leaf().is_none();
            let staged = self.accumulate && (kept || inputs.is_some());
            // Nothing comes after a leaf.
            if node.as_leaf().is_none() {
                *slot = Some(grad.clone());
            }
            if staged {
                self.staged.push((node.clone(), nr as u32, grad));
            }
        }
        Ok(())
    }

    /// A gradient that was handed in, by a hook for instance, as a value of its own: it may be a leaf, which changes, or
    /// have a history that nobody asked for.
    fn own(&self, grad: Var) -> Var {
        match &grad.kind {
            VarKind::Constant(_) => grad,
            _ if self.options.create_graph => grad.snapshot(),
            _ => grad.detach(),
        }
    }

    /// Makes each gradient fit the input it belongs to, and adds it to what waits there:
    ///
    /// 1. the right shape passes;
    /// 2. a shape that the input could have broadcast to is folded with `sum_to`;
    /// 3. a deferred one is evaluated straight into the wanted shape, together with what waits;
    /// 4. anything else is an error;
    /// 5. the type is cast to the input's.
    fn validate_outputs(&mut self, node: &Arc<Node>, gradients: SmallVec<[Gradient; 2]>) -> Result<()> {
        if gradients.len() != node.next_edges.len() {
            let (expected, found) = (node.next_edges.len(), gradients.len());
            return Err(Error::GradientCount { op: node.name(), expected, found, location: node.location });
        }
        for (input, (gradient, edge)) in gradients.into_iter().zip(&node.next_edges).enumerate() {
            let Some(edge) = edge else { continue };
            let meta = &edge.node.metadata[edge.nr as usize];
            let evaluated = match gradient {
                Gradient::None => continue,
                Gradient::Value(g) => {
                    let fitted = fit(g, meta, &|found| misfit(node, input, meta, found))?;
                    self.seed(edge, fitted);
                    continue;
                }
                Gradient::Product(a, b) => {
                    kernel::matmul_to("matmul", &a, &b, &meta.shape, self.waiting(edge))
                }
            };
            let sum = evaluated.map_err(|e| misfold(node, input, meta, e))?;
            *self.slot(edge) = Some(Var::constant(sum.to_dtype(meta.dtype)));
        }
        Ok(())
    }

    /// Takes what waits for an edge, to be added in the pass that computes the next gradient.
    pub(crate) fn waiting(&mut self, edge: &Edge) -> Option<Tensor> {
        let ready = self.ready.get_mut(edge.node.sequence)?;
        let waiting = ready.buffer[edge.nr as usize].take()?;
        Some(match waiting.kind {
            VarKind::Constant(t) => t,
            _ => waiting.value(),
        })
    }
}

fn is_on_path(path: &Option<HashSet<u64>>, edge: &Edge) -> bool {
    path.as_ref().is_none_or(|p| p.contains(&edge.node.sequence))
}

/// A gradient of a shape that the input cannot have broadcast to.
pub(crate) fn misfit(node: &Node, input: usize, meta: &InputMetadata, found: &Shape) -> Error {
    Error::GradientShape {
        op: node.name(),
        input,
        expected: meta.shape.clone(),
        found: found.clone(),
        location: node.location,
    }
}

/// What went wrong while a gradient was evaluated straight into its shape.
pub(crate) fn misfold(
    node: &Node,
    input: usize,
    meta: &InputMetadata,
    error: foldback_tensor::Error,
) -> Error {
    match error {
        foldback_tensor::Error::Expand { to, .. } => misfit(node, input, meta, &to),
        other => in_backward(node, other.into()),
    }
}

/// Says in which operation's gradient something went wrong. A user's own error stays as it is.
pub(crate) fn in_backward(node: &Node, source: Error) -> Error {
    match source {
        Error::Tensor(_) => {
            Error::Backward { op: node.name(), location: node.location, source: Box::new(source) }
        }
        other => other,
    }
}

/// The numbers of all nodes from which a target can be reached, targets included. Iterative, in linear time.
fn nodes_towards(roots: &[Edge], targets: &HashSet<u64>) -> HashSet<u64> {
    let lowest = targets.iter().min().copied().unwrap_or(u64::MAX);
    let mut leads: HashSet<u64> = HashSet::new();
    let mut seen: HashSet<u64> = HashSet::new();
    // A node is pushed twice: to visit its inputs, and afterwards to look at what they found.
    let mut stack: Vec<(Arc<Node>, bool)> = roots.iter().map(|e| (e.node.clone(), false)).collect();
    while let Some((node, visited)) = stack.pop() {
        let inputs = || node.next_edges.iter().flatten();
        if visited {
            if targets.contains(&node.sequence) || inputs().any(|e| leads.contains(&e.node.sequence)) {
                leads.insert(node.sequence);
            }
        } else if node.sequence >= lowest && seen.insert(node.sequence) {
            let next: Vec<Arc<Node>> = inputs().map(|e| e.node.clone()).collect();
            stack.push((node, true));
            stack.extend(next.into_iter().map(|n| (n, false)));
        }
    }
    leads
}
