//! Variables, the derivative table and the backward engine.
//!
//! [`Var`] records operations; [`Var::backward`], [`Backward`] and [`Grad`] compute gradients. The operations and their
//! derivatives stand in one table (`src/table`), a row each; see [`rows`].

#![forbid(unsafe_code)]

mod backward;
mod compare;
mod dismantle;
mod engine;
mod error;
mod folded;
mod function;
mod fuse;
mod gradient;
mod hooks;
mod in_place;
mod input;
mod levels;
#[cfg(test)]
mod lines;
mod mode;
mod node;
mod operators;
mod record;
mod rule;
mod table;
mod traced;
mod turn;
mod var;
mod work;

pub use backward::{Backward, Grad, GradInputs, backward, grad, grad_with, value_and_grad};
pub use error::GraphFacts;
pub use foldback_tensor::{Error, Facts, Kind, Result};
pub use function::{Function, FunctionContext, Gradients, Operation, Outputs};
pub use fuse::{Fused, Operands};
pub use hooks::{HookHandle, HookResult};
pub use input::{AsInput, AsOptionalInput, Input, Value};
pub use mode::{enable_grad, is_grad_enabled, no_grad};
pub use node::live_nodes;
pub use operators::VarNumber;
pub use table::{Domain, InputSpec, OwnedSample, Row, Sample, rows};
pub use var::{RequiresGrad, Var, WeakVar};

#[doc(hidden)]
pub use fuse::expansion as __fuse;
