//! Functions of a user's.

use foldback_graph::{Function, FunctionContext, Grad, GraphFacts, Result, Var};
use foldback_tensor::{Tensor, refused, tensor};

use crate::leaf;

/// Two outputs; the gradient of the second input is None, and there is a surplus None.
struct SumAndProduct;
impl Function for SumAndProduct {
    fn name(&self) -> &'static str {
        "sum_and_product"
    }
    fn saves_inputs(&self) -> bool {
        true
    }
    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0] + inputs[1], inputs[0] * inputs[1]])
    }
    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        let (sum, product) = (ctx.grad(0), ctx.grad(1));
        Ok(vec![Some(sum + product * ctx.input(1)), None, None])
    }
}

#[test]
fn user_functions_with_several_outputs_and_missing_gradients() {
    let (a, b) = (leaf(&[2.0]), leaf(&[5.0]));
    let [_, product] = SumAndProduct.apply([&a, &b]).unwrap();
    product.backward().unwrap();
    assert_eq!(a.grad(), Some(tensor![5.0]), "the unused output's gradient is zeros");
    assert_eq!(b.grad(), None);
}

/// Has no second derivative.
struct Once;
impl Function for Once {
    fn name(&self) -> &'static str {
        "once"
    }
    fn once_differentiable(&self) -> bool {
        true
    }
    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0] * 2.0])
    }
    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![Some(ctx.grad(0) * 2.0)])
    }
}

#[test]
fn a_once_differentiable_function_refuses_a_second_derivative() {
    let x = leaf(&[1.0]);
    let y = Once.call([&x]).unwrap();
    let second = Grad::new([&y], [&x]).create_graph(true).run();
    assert!(refused!(second, GraphFacts::OnceDifferentiable { .. }));
    Once.call([&x]).unwrap().backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![2.0]));
}
