//! What a backward function sees, and how it describes the gradients of its inputs. The engine does the work.
//!
//! Note [Described work]
//! A gradient is a value, zeros but for a part, a product of matrices, a kernel that serves one input or several, or a pair of
//! forms of which one is for now and one is to be recorded. Whoever describes it does not know whether the pass is recorded, what the
//! input's shape and type are, nor what waits there already: `deliver` (`engine/deliver.rs`) does.

use std::borrow::Cow;
use std::sync::Arc;

use foldback_tensor::kernel::BlockKernel;
use foldback_tensor::{DType, Shape, Slices, Tensor};
use smallvec::{SmallVec, smallvec};

use super::{Edge, Node, Var, VarKind};
use crate::error::Result;
use crate::lead::Lead;
use crate::saved::Unpacked;
use crate::slot::RuleSlot;

/// The gradients of some inputs, mostly of one; or, where tangents are asked for, a part of the sum that is that of an output.
pub(crate) struct Flow<'a> {
    /// the inputs, or the output
    pub(crate) to: SmallVec<[usize; 2]>,
    pub(crate) work: Work<'a>,
}

/// What is to be computed for them.
pub(crate) enum Work<'a> {
    /// a value, for one input
    Value(Var),
    /// zeros but for a part, for one input
    Part(Part),
    /// a matrix product, for one input
    Product(Var, Var),
    /// a value for each of the inputs, computed in another way if they are to be recorded
    Either(Box<dyn FnOnce(Mood) -> Result<SmallVec<[Var; 1]>> + 'a>),
    /// a formula over what it reads, with a gradient for each of the inputs
    Pointwise(&'a dyn Pointwise, &'a [Var]),
    /// a kernel over what it reads, with a gradient for each of the inputs; of a pass that is not recorded
    Kernel(&'a dyn BlockKernel, &'a [&'a Tensor]),
    /// none: gradients of other variables, from which the pass goes on, see Note [Going on in a recomputed graph]
    Onward(Vec<(Edge, Var)>),
}

/// What stands in a part of a tensor that is zero elsewhere.
pub(crate) struct Part {
    pub(crate) value: Var,
    pub(crate) slices: Slices,
    /// the shape of the whole
    pub(crate) shape: Shape,
}

/// Whether a pass is recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mood {
    Now,
    Recorded,
}

/// Formulas for the gradients of several inputs.
pub(crate) trait Pointwise {
    /// Hands out a kernel with an output for each of these inputs.
    fn with_kernel(
        &self,
        inputs: &[usize],
        take: &mut dyn FnMut(&dyn BlockKernel) -> Result<()>,
    ) -> Result<()>;
    /// The same gradients, recorded; folded, where that is worth it, if the node is given that they are for.
    fn record(&self, node: Option<&Node>, reads: &[Var], inputs: &[usize]) -> Result<SmallVec<[Var; 4]>>;
}

/// The shape that a gradient has before it is folded, and where it is, see `arrival.rs`.
pub(crate) struct Arrival {
    pub(crate) shape: Shape,
    pub(crate) way: Way,
}

/// Where a gradient is when it arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// in the memory of the gradient that came in
    Shared,
    /// in as much memory as the gradient that came in, which may be the same along an axis
    Alike,
    /// computed where it is to be, together with what waits there
    Straight,
    /// in memory of its own
    Apart,
}

/// Takes what a backward function describes.
pub(crate) type Take<'t> = dyn FnMut(Flow<'_>) -> Result<()> + 't;

/// The backward function of a node that is not a row of pointwise formulas.
pub(crate) trait Describe: Send + Sync {
    /// Describes the gradients that are asked for, one after another.
    fn describe(&self, ctx: &Context<'_>, take: &mut Take<'_>) -> Result<()>;

    /// How the gradient of an input that has one arrives. For plans, which describe nothing.
    fn arrival(&self, node: &Node, input: usize) -> Arrival {
        Arrival { shape: node.own_shape(input), way: Way::Apart }
    }

    /// The shape of most of what is saved, which takes up less then, where it is not that of the first output.
    fn saved_like(&self) -> Option<&Shape> {
        None
    }

    /// Whether it may own variables, and so nodes, see Note [Drop order].
    fn owns_nodes(&self) -> bool {
        true
    }

    /// Whether it is right as well for gradients, and tangents, that all have a further leading axis, see Note [Leading axis].
    fn leads(&self) -> bool {
        false
    }

    /// Whether it describes tangents, too: where the context has some, what each input adds to those of the outputs.
    fn pushes(&self) -> bool {
        false
    }
}

/// What the backward function of a node sees.
pub(crate) struct Context<'a> {
    pub(crate) node: &'a Arc<Node>,
    pub(crate) grads: &'a [Option<Var>],
    pub(crate) values: &'a Unpacked,
    pub(crate) wanted: &'a dyn Fn(usize) -> bool,
    pub(crate) mood: Mood,
    /// whether what was saved is needed again
    pub(crate) retain: bool,
    /// the axis in front of all gradients or tangents, if there is one
    pub(crate) lead: Lead,
    /// the tangents of the inputs, where those of the output are asked for, and no gradients
    pub(crate) tangents: Option<&'a [Option<Var>]>,
}

impl Part {
    /// The whole tensor.
    pub(crate) fn whole(&self) -> Result<Var> {
        self.value.embed(self.slices.clone(), self.shape.clone())
    }

    /// The sum with another of its shape and type, in the memory of that if nobody else holds it: nothing but the part is
    /// visited.
    pub(crate) fn added_to(&self, mut other: Tensor) -> Result<Tensor> {
        other.slice_add(self.slices.clone(), &*self.value.value_ref())?;
        Ok(other)
    }
}

/// A function, and what it is good for beside gradients.
pub(crate) struct Able<F> {
    pub(crate) leads: bool,
    pub(crate) pushes: bool,
    pub(crate) arrival: fn(&Node, usize) -> Arrival,
    pub(crate) function: F,
}

impl<F: Describe> Describe for Able<F> {
    fn describe(&self, ctx: &Context<'_>, take: &mut Take<'_>) -> Result<()> {
        self.function.describe(ctx, take)
    }

    fn arrival(&self, node: &Node, input: usize) -> Arrival {
        (self.arrival)(node, input)
    }

    fn leads(&self) -> bool {
        self.leads
    }

    fn pushes(&self) -> bool {
        self.pushes
    }
}

impl<F: Fn(&Context<'_>, &mut Take<'_>) -> Result<()> + Send + Sync> Describe for F {
    fn describe(&self, ctx: &Context<'_>, take: &mut Take<'_>) -> Result<()> {
        self(ctx, take)
    }
}

impl<'a> Flow<'a> {
    pub(crate) fn to(place: usize, work: impl Into<Work<'a>>) -> Flow<'a> {
        Flow { to: smallvec![place], work: work.into() }
    }
}

impl From<Var> for Work<'_> {
    fn from(v: Var) -> Self {
        Work::Value(v)
    }
}

impl Work<'_> {
    /// Two forms of one gradient, both made of `x`.
    pub(crate) fn either<T: 'static>(
        x: T,
        now: impl FnOnce(&T) -> Result<Tensor> + 'static,
        recorded: impl FnOnce(&T) -> Result<Var> + 'static,
    ) -> Self {
        Work::Either(Box::new(move |mood| {
            Ok(smallvec![match mood {
                Mood::Now => Var::constant(now(&x)?),
                Mood::Recorded => recorded(&x)?,
            }])
        }))
    }
}

impl Lead {
    /// A tangent over a shape that its value broadcast to; both have the leading axis.
    pub(crate) fn over(self, tangent: &Var, full: &Shape) -> Result<Var> {
        if tangent.shape() == full {
            return Ok(tangent.clone());
        }
        let own = self.aligned(&tangent.dims()[self.axes()..].into(), full.rank() - self.axes());
        let tangent = if *tangent.shape() == own { tangent.clone() } else { tangent.reshape(&own)? };
        if own == *full { Ok(tangent) } else { tangent.expand(full) }
    }
}

impl Context<'_> {
    /// Whether the gradient of an input is asked for.
    pub(crate) fn needs(&self, input: usize) -> bool {
        (self.wanted)(input)
    }

    /// The tangent of an input that has one.
    pub(crate) fn tangent(&self, input: usize) -> Var {
        let given = self.tangents.and_then(|tangents| tangents[input].clone());
        given.expect("a tangent that is not there is asked for by nobody")
    }

    /// The shape of the first output's tangent.
    pub(crate) fn full(&self) -> Shape {
        self.lead.shape(&self.node.metadata[0].shape)
    }

    fn zeros(&self, shape: &Shape, dtype: DType) -> Var {
        let zero = Tensor::zeros_with((), dtype).expand(self.lead.shape(shape));
        Var::constant(zero.expect("a number expands to any shape"))
    }

    /// How many inputs the operation has.
    pub(crate) fn inputs(&self) -> usize {
        self.node.next_edges.len()
    }

    /// The gradient of an output, an input or an output, as a variable with its history. What is read has been
    /// saved: a row saves what it names.
    pub(crate) fn value(&self, slot: RuleSlot) -> Var {
        self.read(slot).into_owned()
    }

    /// The same, borrowed if it is a gradient that is there.
    pub(crate) fn read(&self, slot: RuleSlot) -> Cow<'_, Var> {
        match slot {
            RuleSlot::Grad(k) => match &self.grads[k] {
                Some(g) => Cow::Borrowed(g),
                None => Cow::Owned(self.grad(k)),
            },
            _ => Cow::Owned(self.saved(slot).expect("what a gradient reads is saved")),
        }
    }

    /// The gradient of an output: zeros, in one element's memory, if nothing depended on it.
    pub(crate) fn grad(&self, output: usize) -> Var {
        let meta = &self.node.metadata[output];
        self.grads[output].clone().unwrap_or_else(|| self.zeros(&meta.shape, meta.dtype))
    }

    /// A saved value with its history: an input's edge, or, for an output, the node itself.
    pub(crate) fn saved(&self, slot: RuleSlot) -> Option<Var> {
        let value = self.values.get(slot)?.clone();
        let edge = match slot {
            RuleSlot::Input(n) => self.node.next_edges[n].clone(),
            RuleSlot::Output(k) if value.dtype().is_float() => Some(Edge { node: self.node.clone(), nr: k }),
            _ => None,
        };
        Some(match edge {
            Some(edge) => Var { kind: VarKind::Tracked(value, edge) },
            None => Var::constant(value),
        })
    }
}
