//! The engine: takes ready nodes in descending order of their numbers and sends gradients along their edges.
//!
//! Note [Order]
//! A node is numbered when it is recorded, after all nodes it depends on. So the largest number among the nodes that
//! have received a gradient belongs to one that nothing outstanding can still contribute to: a map ordered by number
//! is at once the queue and the place where gradients wait to be added up. No counting pass is needed.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::panic::Location;
use std::sync::Arc;

use foldback_tensor::{DType, Shape, Tensor, kernel, set_thread_modes, thread_modes};
use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::hooks::Hooks;
use crate::mode::{GradMode, INHERITS_LINE};
use crate::node::{Edge, InputMetadata, Kind, Node, OUTPUT, Saved};
use crate::table::{self, Slot};
use crate::var::{Var, VarKind};

/// A gradient on its way out of a function row.
pub(crate) enum Flow {
    /// a value
    Value(Var),
    /// a matrix product that has not been computed
    Product(Tensor, Tensor),
}

impl From<Var> for Flow {
    fn from(v: Var) -> Flow {
        Flow::Value(v)
    }
}

/// A gradient that a node has produced and the engine has not yet validated.
enum Gradient<'a> {
    None,
    Value(Var),
    /// a formula and its operands: evaluated where its shape is known
    Deferred(&'static table::Gradient, &'a [f64; 2], SmallVec<[&'a Tensor; 4]>),
    /// two matrices
    Product(Tensor, Tensor),
}

/// What the backward function of a node sees.
pub(crate) struct Context<'a> {
    pub(crate) node: &'a Arc<Node>,
    pub(crate) grads: &'a [Option<Var>],
    saved: &'a Saved,
    wanted: &'a dyn Fn(usize) -> bool,
}

impl Context<'_> {
    /// Whether the gradient of an input is asked for.
    pub(crate) fn needs(&self, input: usize) -> bool {
        (self.wanted)(input)
    }

    /// The gradient of the first output, an input or the output, as a variable with its history.
    pub(crate) fn value(&self, slot: Slot) -> Var {
        match slot {
            Slot::Grad => self.grads[0].clone().expect("a node runs when it has received a gradient"),
            Slot::Input(i) => unpack(self.node, self.saved, i),
            Slot::Output => unpack(self.node, self.saved, OUTPUT),
        }
    }
}

/// The place of a saved value among those that were saved.
fn saved_value(saved: &Saved, bit: u8) -> &Tensor {
    let before = saved.mask & ((1u16 << bit) as u8).wrapping_sub(1);
    &saved.values[before.count_ones() as usize]
}

/// A saved value with its history: an input's edge, or, for an output, the node itself.
fn unpack(node: &Arc<Node>, saved: &Saved, bit: u8) -> Var {
    let value = saved_value(saved, bit).clone();
    let edge = if bit == OUTPUT {
        Some(Edge { node: node.clone(), nr: 0 })
    } else {
        node.next_edges[bit as usize].clone()
    };
    match edge {
        Some(edge) => Var { kind: VarKind::Tracked(value, edge) },
        None => Var::constant(value),
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
    options: Options,
    /// nodes with gradients, by number
    ready: BTreeMap<u64, Ready>,
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
    // A task stolen while a node waits for a parallel section sees none of the thread's modes, nor the node's line.
    if thread_modes() & INHERITS_LINE == 0 { None } else { LINE.get() }
}

/// Sets the inherited line while a node runs.
struct LineGuard {
    line: Option<&'static Location<'static>>,
    modes: u32,
}
impl LineGuard {
    fn set(line: &'static Location<'static>) -> LineGuard {
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
            ready: BTreeMap::new(),
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
        let slot = self.slot(edge);
        *slot = Some(match slot.take() {
            Some(waiting) => add_gradients(waiting, grad),
            None => grad,
        });
    }

    fn slot(&mut self, edge: &Edge) -> &mut Option<Var> {
        let ready = self.ready.entry(edge.node.sequence).or_insert_with(|| Ready {
            node: edge.node.clone(),
            buffer: smallvec::smallvec![None; edge.node.metadata.len()],
        });
        &mut ready.buffer[edge.nr as usize]
    }

    /// Runs all nodes, commits the gradients of leaves and returns what was caught.
    pub(crate) fn run(mut self) -> Result<Vec<Option<Var>>> {
        let _mode = GradMode::set(self.options.create_graph);
        while let Some((_, ready)) = self.ready.pop_last() {
            self.evaluate(ready)?;
        }
        for (node, nr, grad) in self.staged.drain(..) {
            match node.as_leaf() {
                Some(leaf) => {
                    let mut slot = leaf.grad.lock().expect("nothing panics while a gradient is locked");
                    *slot = Some(match slot.take() {
                        Some(old) => add_gradients(old, grad),
                        None => dense(grad),
                    });
                }
                None => Hooks::store(&node, nr, grad),
            }
        }
        Ok(self.caught)
    }

    /// Hooks, captures, then the node's own function.
    fn evaluate(&mut self, ready: Ready) -> Result<()> {
        let Ready { node, mut buffer } = ready;
        for (nr, grad) in buffer.iter_mut().enumerate() {
            let nr = nr as u32;
            let Some(hooks) = node.hooks.get() else { break };
            let Some(g) = grad.take() else { continue };
            let (g, retain) = hooks.run(nr, g);
            if retain && node.as_leaf().is_none() {
                self.staged.push((node.clone(), nr, g.clone()));
            }
            *grad = Some(g);
        }
        self.capture(&node, &buffer);
        if let Some(leaf) = node.as_leaf() {
            let on_its_own =
                self.path.is_none() && leaf.requires_grad.load(std::sync::atomic::Ordering::Relaxed);
            if on_its_own && let Some(g) = buffer[0].take() {
                self.staged.push((node, 0, g));
            }
            return Ok(());
        }
        let wanted = |input: usize| {
            let Some(Some(edge)) = node.next_edges.get(input) else { return false };
            self.path.as_ref().is_none_or(|p| p.contains(&edge.node.sequence))
        };
        if !(0..node.next_edges.len()).any(wanted) {
            return Ok(());
        }
        let _line = LineGuard::set(node.location);
        let saved = node.unpack(self.options.retain_graph)?;
        let gradients = call_function(&node, &buffer, &saved, &wanted, self.options.create_graph)
            .map_err(|e| in_backward(&node, e))?;
        self.validate_outputs(&node, gradients)
    }

    fn capture(&mut self, node: &Arc<Node>, buffer: &[Option<Var>]) {
        if self.captures.is_empty() {
            return;
        }
        for (nr, grad) in buffer.iter().enumerate() {
            let (Some(grad), Some(inputs)) = (grad, self.captures.get(&(node.sequence, nr as u32))) else {
                continue;
            };
            for &i in inputs {
                self.caught[i] = Some(grad.clone());
            }
            // Results were asked to retain their gradient, and have been staged as such.
            if self.accumulate && node.as_leaf().is_some() {
                self.staged.push((node.clone(), nr as u32, grad.clone()));
            }
        }
    }

    /// Makes each gradient fit the input it belongs to, and adds it to what waits there:
    ///
    /// 1. the right shape passes;
    /// 2. a shape that the input could have broadcast to is folded with `sum_to`;
    /// 3. a deferred one is evaluated straight into the wanted shape, together with what waits;
    /// 4. anything else is an error;
    /// 5. the type is cast to the input's.
    fn validate_outputs(&mut self, node: &Arc<Node>, gradients: SmallVec<[Gradient<'_>; 2]>) -> Result<()> {
        if gradients.len() != node.next_edges.len() {
            let (expected, found) = (node.next_edges.len(), gradients.len());
            return Err(Error::GradientCount { op: node.name(), expected, found, location: node.location });
        }
        for (input, (gradient, edge)) in gradients.into_iter().zip(&node.next_edges).enumerate() {
            let Some(edge) = edge else { continue };
            let meta = &edge.node.metadata[edge.nr as usize];
            let misfit = |found: &Shape| Error::GradientShape {
                op: node.name(),
                input,
                expected: meta.shape.clone(),
                found: found.clone(),
                location: node.location,
            };
            let evaluated = match gradient {
                Gradient::None => continue,
                Gradient::Value(g) => {
                    let fitted = fit(g, meta, &misfit)?;
                    self.seed(edge, fitted);
                    continue;
                }
                Gradient::Deferred(rule, params, operands) => {
                    let prior = self.waiting(edge);
                    (rule.fold)(params, &operands, &meta.shape, prior)
                }
                Gradient::Product(a, b) => {
                    kernel::matmul_to("matmul", &a, &b, &meta.shape, self.waiting(edge))
                }
            };
            let sum = evaluated.map_err(|e| match e {
                foldback_tensor::Error::Expand { to, .. } => misfit(&to),
                other => in_backward(node, other.into()),
            })?;
            *self.slot(edge) = Some(Var::constant(sum.to_dtype(meta.dtype)));
        }
        Ok(())
    }

    /// Takes what waits for an edge, to be added in the pass that computes the next gradient.
    fn waiting(&mut self, edge: &Edge) -> Option<Tensor> {
        let ready = self.ready.get_mut(&edge.node.sequence)?;
        let waiting = ready.buffer[edge.nr as usize].take()?;
        Some(match waiting.kind {
            VarKind::Constant(t) => t,
            _ => waiting.value(),
        })
    }
}

/// Runs a node's function, or hands out its formulas unevaluated.
fn call_function<'a>(
    node: &'a Arc<Node>,
    grads: &'a SmallVec<[Option<Var>; 1]>,
    saved: &'a Saved,
    wanted: &dyn Fn(usize) -> bool,
    create_graph: bool,
) -> Result<SmallVec<[Gradient<'a>; 2]>> {
    match &node.kind {
        Kind::Rule(rule, params) => {
            let Some(g) = &grads[0] else {
                return Ok(rule.gradients.iter().map(|_| Gradient::None).collect());
            };
            let gradient = |(input, gradient): (usize, &'static table::Gradient)| -> Result<Gradient<'a>> {
                if !wanted(input) {
                    return Ok(Gradient::None);
                }
                if gradient.passes {
                    return Ok(Gradient::Value(g.clone()));
                }
                match (&g.kind, create_graph) {
                    (VarKind::Constant(g), false) => {
                        let operand = |slot: &Slot| match slot {
                            Slot::Grad => g,
                            Slot::Input(i) => saved_value(saved, *i),
                            Slot::Output => saved_value(saved, OUTPUT),
                        };
                        Ok(Gradient::Deferred(
                            gradient,
                            params,
                            gradient.operands.iter().map(operand).collect(),
                        ))
                    }
                    _ => {
                        let ctx = Context { node, grads, saved, wanted };
                        // As in the fused kernel, everything is computed in the operation's type.
                        let dtype = node.metadata[0].dtype;
                        let operand = |s: &Slot| match ctx.value(*s) {
                            v if v.dtype() == DType::Bool => v,
                            v => v.to_dtype(dtype),
                        };
                        let operands: SmallVec<[Var; 4]> = gradient.operands.iter().map(operand).collect();
                        let operands: SmallVec<[&Var; 4]> = operands.iter().collect();
                        Ok(Gradient::Value((gradient.trace)(params, &operands)?))
                    }
                }
            };
            rule.gradients.iter().enumerate().map(gradient).collect()
        }
        Kind::Function(_, function) => {
            let flows = function(&Context { node, grads, saved, wanted })?;
            let gradient = |f: Option<Flow>| match f {
                None => Gradient::None,
                Some(Flow::Value(v)) => Gradient::Value(v),
                Some(Flow::Product(a, b)) => Gradient::Product(a, b),
            };
            Ok(flows.into_iter().map(gradient).collect())
        }
        Kind::AccumulateGrad(_) => Ok(SmallVec::new()),
    }
}

/// Folds and casts a gradient to what its input wants.
fn fit(g: Var, meta: &InputMetadata, misfit: &dyn Fn(&Shape) -> Error) -> Result<Var> {
    let g = if g.shape() == meta.shape {
        g
    } else {
        g.sum_to(meta.shape.clone()).map_err(|e| match e {
            Error::Tensor(foldback_tensor::Error::Expand { .. }) => misfit(&g.shape()),
            other => other,
        })?
    };
    Ok(if g.dtype() == meta.dtype { g } else { g.to_dtype(meta.dtype) })
}

/// Says in which operation's gradient something went wrong. A user's own error stays as it is.
fn in_backward(node: &Node, source: Error) -> Error {
    match source {
        Error::Tensor(_) => {
            Error::Backward { op: node.name(), location: node.location, source: Box::new(source) }
        }
        other => other,
    }
}

/// The sum of two gradients of one value. In the memory of the first, if nobody else holds it and it has no history.
pub(crate) fn add_gradients(a: Var, b: Var) -> Var {
    match (a.kind, b.kind) {
        (VarKind::Constant(a), VarKind::Constant(b)) => {
            // A compressed gradient (stride 0) has no memory of its own to add into.
            if a.strides().contains(&0) { add_tensors(b, &a) } else { add_tensors(a, &b) }
        }
        (a, b) => Var { kind: a } + Var { kind: b },
    }
}

fn add_tensors(mut a: Tensor, b: &Tensor) -> Var {
    match a.add_(b) {
        Ok(_) => Var::constant(a),
        Err(e) => unreachable!("gradients of one value have its shape and type: {e}"),
    }
}

/// What a leaf keeps: dense, row-major.
fn dense(grad: Var) -> Var {
    match grad.kind {
        VarKind::Constant(t) => Var::constant(t.contiguous()),
        _ => grad,
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
