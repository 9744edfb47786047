//! Gradients on their way: what a node's function sees and returns, and how a gradient is made to fit.

use std::sync::Arc;

use foldback_tensor::{DType, Shape, Tensor, kernel};
use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::node::{Edge, InputMetadata, Kind, Node, Unpacked};
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
pub(crate) enum Gradient {
    None,
    Value(Var),
    /// two matrices
    Product(Tensor, Tensor),
}

/// What the backward function of a node sees.
pub(crate) struct Context<'a> {
    pub(crate) node: &'a Arc<Node>,
    pub(crate) grads: &'a [Option<Var>],
    saved: &'a Unpacked,
    wanted: &'a dyn Fn(usize) -> bool,
    waiting: &'a dyn Fn(usize) -> Option<Tensor>,
}

impl Context<'_> {
    /// Takes what has been added up so far for an input, to be returned with this gradient added to it. None if
    /// nothing has, or if it has a history.
    pub(crate) fn take_waiting(&self, input: usize) -> Option<Tensor> {
        (self.waiting)(input)
    }

    /// Whether the gradient of an input is asked for.
    pub(crate) fn needs(&self, input: usize) -> bool {
        (self.wanted)(input)
    }

    /// The gradient of an output: zeros, in one element's memory, if nothing depended on it.
    pub(crate) fn grad(&self, output: usize) -> Var {
        let meta = &self.node.metadata[output];
        self.grads[output].clone().unwrap_or_else(|| {
            let zero = Tensor::zeros((), meta.dtype).expand(&meta.shape);
            Var::constant(zero.expect("a number expands to any shape"))
        })
    }

    /// How many inputs the operation has.
    pub(crate) fn inputs(&self) -> usize {
        self.node.next_edges.len()
    }

    /// The gradient of an output, an input or an output, as a variable with its history. What is read has been
    /// saved: a row saves what it names.
    pub(crate) fn value(&self, slot: Slot) -> Var {
        match slot {
            Slot::Grad(k) => self.grad(k),
            _ => self.saved(slot).expect("what a gradient reads is saved"),
        }
    }

    /// A saved value with its history: an input's edge, or, for an output, the node itself.
    pub(crate) fn saved(&self, slot: Slot) -> Option<Var> {
        let value = self.saved.get(slot)?.clone();
        let edge = match slot {
            Slot::Input(n) => self.node.next_edges[n].clone(),
            Slot::Output(k) if value.dtype().is_float() => {
                Some(Edge { node: self.node.clone(), nr: k as u32 })
            }
            _ => None,
        };
        Some(match edge {
            Some(edge) => Var { kind: VarKind::Tracked(value, edge) },
            None => Var::constant(value),
        })
    }
}

/// Runs a node's function, or records its formulas.
pub(crate) fn call_function(
    node: &Arc<Node>,
    grads: &SmallVec<[Option<Var>; 1]>,
    saved: &Unpacked,
    wanted: &dyn Fn(usize) -> bool,
    waiting: &dyn Fn(usize) -> Option<Tensor>,
) -> Result<SmallVec<[Gradient; 2]>> {
    match &node.kind {
        Kind::Rule(rule, params) => {
            let Some(g) = &grads[0] else {
                return Ok(rule.gradients.iter().map(|_| Gradient::None).collect());
            };
            let ctx = Context { node, grads, saved, wanted, waiting };
            // As in the fused kernel, everything is computed in the operation's type.
            let dtype = node.metadata[0].dtype;
            let operand = |s: &Slot| match ctx.value(*s) {
                v if v.dtype() == DType::Bool => v,
                v => v.to_dtype(dtype),
            };
            let gradient = |(input, gradient): (usize, &Option<table::Gradient>)| -> Result<Gradient> {
                let Some(gradient) = gradient.as_ref().filter(|_| wanted(input)) else {
                    return Ok(Gradient::None);
                };
                let Some(formula) = gradient.formula else { return Ok(Gradient::Value(g.clone())) };
                let operands: SmallVec<[Var; 4]> = gradient.reads.iter().map(operand).collect();
                let operands: SmallVec<[&Var; 4]> = operands.iter().collect();
                Ok(Gradient::Value(formula.trace(params, &operands)?))
            };
            rule.gradients.iter().enumerate().map(gradient).collect()
        }
        Kind::Function(_, function) => {
            let flows = function(&Context { node, grads, saved, wanted, waiting })?;
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
pub(crate) fn fit(g: Var, meta: &InputMetadata, misfit: &dyn Fn(&Shape) -> Error) -> Result<Var> {
    if let VarKind::Constant(t) = &g.kind {
        if *t.shape() == meta.shape && t.dtype() == meta.dtype {
            return Ok(g);
        }
        let sum = t.sum_to(&meta.shape).map_err(|e| match e {
            foldback_tensor::Error::Expand { .. } => misfit(t.shape()),
            other => other.into(),
        })?;
        return Ok(Var::constant(sum.try_to_dtype(meta.dtype)?));
    }
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

/// The sum of two gradients of one value. In the memory of the first, if nobody else holds it and it has no history.
pub(crate) fn add_gradients(a: Var, b: Var) -> Var {
    match (a.kind, b.kind) {
        (VarKind::Constant(a), VarKind::Constant(b)) => Var::constant(add_tensors(a, &b)),
        (a, b) => Var { kind: a } + Var { kind: b },
    }
}

/// Adds a gradient to what is kept in a place, and hands out what that may leave without an owner: the place is behind
/// a lock, see Note [Locks].
pub(crate) fn add_in_place(place: &mut Option<Var>, grad: Var) -> Option<[Var; 2]> {
    let Some(old) = place.take() else {
        *place = Some(grad);
        return None;
    };
    let constants = matches!((&old.kind, &grad.kind), (VarKind::Constant(_), VarKind::Constant(_)));
    let outdated = (!constants).then(|| [old.clone(), grad.clone()]);
    *place = Some(add_gradients(old, grad));
    outdated
}

pub(crate) fn add_tensors(a: Tensor, b: &Tensor) -> Tensor {
    match kernel::accumulate("backward", a, b) {
        Ok(sum) => sum,
        Err(e) => unreachable!("gradients of one value have its shape and type: {e}"),
    }
}

/// What a leaf keeps: dense, row-major.
pub(crate) fn dense(grad: Var) -> Result<Var> {
    match grad.kind {
        VarKind::Constant(t) => Ok(Var::constant(t.try_contiguous()?)),
        _ => Ok(grad),
    }
}
