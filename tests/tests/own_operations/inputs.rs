//! What goes in, and gradients that are not there.

use foldback::fuse;
use foldback::graph::{Function, FunctionContext, GraphFacts, Operation, Result};
use foldback::prelude::*;

use crate::mul;

#[test]
fn inputs_are_variables_tensors_and_numbers() -> Result<()> {
    let x = tensor![1.0, 2.0].requires_grad();
    mul().call((&x, 3.0))?.sum(..)?.backward()?;
    assert_eq!(x.grad(), Some(tensor![3.0, 3.0]));
    assert!(!mul().call([&tensor![1.0], &tensor![2.0]])?.requires_grad());
    assert!(!no_grad(|| mul().call((&x, &x)))?.requires_grad());
    Ok(())
}

#[test]
fn only_the_gradients_that_are_needed_are_asked_for() -> Result<()> {
    let op = Operation::new(
        "picky",
        |[a, b]| a.mul(b),
        |ctx, [g]| {
            assert!(ctx.inputs() == 2 && ctx.needs(0) && !ctx.needs(1));
            // It is not even evaluated: its shape would not do.
            ctx.fold(1, fuse!(|g, t| g * t), (&g, &Tensor::ones([7, 1])))?;
            Ok((g.mul(ctx.input(1))?, ()))
        },
    )
    .saves_inputs();
    let x = tensor![2.0].requires_grad();
    op.call((&x, &tensor![5.0]))?.backward()?;
    assert_eq!(x.grad(), Some(tensor![5.0]));
    Ok(())
}

#[test]
fn none_in_none_out() -> Result<()> {
    let both = || {
        Operation::new(
            "both",
            |[x]: [&Tensor; 1]| [x.clone(), x * 2.0],
            |ctx, _| match (ctx.grad_if_any(0), ctx.grad_if_any(1)) {
                (Some(g), None) => Some(g),
                (None, Some(_)) => None,
                _ => panic!("one of them"),
            },
        )
    };
    let x = tensor![1.0].requires_grad();
    let [same, doubled] = both().call([&x])?;
    doubled.backward()?;
    assert_eq!(x.grad(), None, "no gradient was given");
    let e = grad(&both().call([&x])?[1], &x).unwrap_err();
    assert!(matches!(e.facts(), Some(GraphFacts::Unused { .. })), "{e}");
    same.backward()?;
    assert_eq!(x.grad(), Some(tensor![1.0]));
    Ok(())
}

#[test]
fn an_output_that_nothing_depends_on_has_a_gradient_of_zeros() -> Result<()> {
    let op = Operation::new(
        "two",
        |[x]: [&Tensor; 1]| [x.clone(), x * 2.0],
        |_, [g, h]| {
            assert_eq!(g.value(), tensor![0.0, 0.0]);
            h * 2.0 + g
        },
    );
    let x = tensor![1.0, 2.0].requires_grad();
    op.call([&x])?[1].sum(..)?.backward()?;
    assert_eq!(x.grad(), Some(tensor![2.0, 2.0]));
    Ok(())
}

/// Returns as many `None`s as it says, after the gradient of its one input.
struct Surplus(usize, Option<f64>);

impl Function for Surplus {
    fn name(&self) -> &'static str {
        "surplus"
    }
    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0].clone()])
    }
    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        let mut gradients = vec![Some(ctx.grad(0))];
        gradients.extend((0..self.0).map(|_| None));
        gradients.extend(self.1.map(|v| Some(Var::from(Tensor::from(v)))));
        Ok(gradients)
    }
}

#[test]
fn a_surplus_none_is_forgiven_and_a_surplus_gradient_is_not() -> Result<()> {
    let x = tensor![1.0].requires_grad();
    Surplus(3, None).call([&x])?.backward()?;
    assert_eq!(x.grad(), Some(tensor![1.0]));
    let e = Surplus(0, Some(1.0)).call([&x])?.backward().unwrap_err();
    assert!(matches!(e.facts(), Some(GraphFacts::GradientCount { expected: 1, found: 2, .. })), "{e}");
    assert_eq!(x.grad(), Some(tensor![1.0]));
    Ok(())
}
