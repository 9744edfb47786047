//! Variables, the derivative table and the backward engine.
//!
//! [`Var`] records operations; [`Var::backward`], [`Backward`] and [`Grad`] compute gradients. The operations and their
//! derivatives stand in one table (`src/table`), a row each; see [`rows`].

#![forbid(unsafe_code)]

mod anomaly;
mod arrival;
mod backward;
mod budget;
mod checkpoint;
mod compare;
mod dismantle;
mod engine;
mod error;
mod function;
mod functional;
mod fuse;
mod grad;
mod gradient;
mod hooks;
#[cfg(test)]
mod imports;
mod in_place;
mod input;
mod lead;
mod levels;
#[cfg(test)]
mod lines;
mod live;
mod mode;
mod node;
mod numbered;
mod operators;
mod origins;
mod profile;
mod record;
mod recording;
mod saved;
mod slot;
mod table;
mod traced;
mod turn;
mod var;
mod view;
mod watching;

pub use anomaly::{detect_anomaly, is_anomaly_enabled, set_detect_anomaly};
pub use backward::{Backward, Variables, backward};
pub use budget::{SavedBudget, saved_budget};
pub use checkpoint::{checkpoint, draw_from};
pub use error::GraphFacts;
pub use foldback_tensor::{Error, Facts, Kind, Result};
pub use function::{BackwardResult, ForwardResult, Function, FunctionContext, Operation};
pub use functional::{Arguments, Outputs, hessian, hvp, jacfwd, jacobian, jvp, value_and_grad, vhp, vjp};
pub use fuse::{Fused, Operands};
pub use grad::{Grad, GradInputs, grad, grad_with};
pub use hooks::{
    GradFn, HookHandle, HookResult, queue_callback, register_any_grad_hook, register_multi_grad_hook,
};
pub use input::{AsInput, AsOptionalInput, Input, Value};
pub use live::GraphWatch;
pub use mode::{enable_grad, is_grad_enabled, no_grad};
pub use node::{Var, live_nodes};
pub use operators::VarNumber;
#[cfg(feature = "profile")]
pub use profile::{Profile, ProfileLine, profile};
#[doc(hidden)]
pub use recording::recorded_so_far;
pub use recording::{Recorded, recorded};
pub use table::{Domain, InputSpec, OwnedSample, Row, Sample, rows};
pub use var::{RequiresGrad, WeakVar};
#[doc(hidden)]
pub use var::{Writing, write_together};
pub use view::{
    BackwardPlan, EdgeView, GraphView, Kept, NodeView, SavedView, Slot, Step, ValueView, backward_plan,
};

#[doc(hidden)]
pub use fuse::expansion as __fuse;
