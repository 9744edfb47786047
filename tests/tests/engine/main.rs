//! What PyTorch's own tests assert of its engine, as it applies here: a test per behaviour, named after it.

mod chains;
mod conventions;
mod functions;
mod grads;
mod hooks;
mod leaves;
mod lifetime;
mod operators;
mod passes;
mod shapes;

use foldback_graph::{Error, Function, FunctionContext, RequiresGrad, Result, Var};
use foldback_tensor::Tensor;

fn leaf(values: &[f32]) -> Var {
    Tensor::from_slice(values, [values.len()]).unwrap().requires_grad()
}

/// Fails on its way back.
struct Failing;
impl Function for Failing {
    fn name(&self) -> &'static str {
        "failing"
    }
    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0].clone()])
    }
    fn backward(&self, _: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        Err(Error::other("no way back"))
    }
}
