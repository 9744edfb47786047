//! What comes out.

use foldback::gradcheck::{gradcheck, gradgradcheck};
use foldback::graph::{Function, FunctionContext, Operation, Result};
use foldback::prelude::*;

#[test]
fn an_input_returned_unchanged_is_a_new_variable() -> Result<()> {
    let op = Operation::new("same", |[x]: [&Tensor; 1]| x.clone(), |_, [g]| g * 2.0);
    let x = tensor![1.0, 2.0].requires_grad();
    let mut y = op.call([&x])?;
    assert!(!y.is_same(&x) && y.requires_grad());
    (&y * &y).sum(..)?.backward()?;
    assert_eq!(x.grad(), Some(tensor![4.0, 8.0]));
    // and written without the input's knowledge
    y.add_(1.0)?;
    assert_eq!(x.value(), tensor![1.0, 2.0]);
    Ok(())
}

#[test]
fn one_value_returned_twice_is_two_outputs() -> Result<()> {
    let op = Operation::new(
        "twin",
        |[x]: [&Tensor; 1]| {
            let y = x * 3.0;
            [y.clone(), y]
        },
        |_, [g, h]| (g + h * 10.0) * 3.0,
    );
    let x = tensor![1.0].requires_grad();
    let [a, b] = op.call([&x])?;
    assert!(!a.is_same(&b));
    (&a + &b * 2.0).backward()?;
    assert_eq!(x.grad(), Some(tensor![3.0 * (1.0 + 20.0)]));
    Ok(())
}

#[test]
fn outputs_marked_as_such_never_require_a_gradient() -> Result<()> {
    let op = Operation::new(
        "split",
        |[x]| Ok([x.trunc(), x.sub(x.trunc())?, x.clone()]),
        |_, [t, fraction, whole]| {
            assert_eq!(t.value(), tensor![0.0]);
            fraction + whole
        },
    )
    .non_differentiable(0);
    let x = tensor![2.5].requires_grad();
    let [trunc, fraction, whole] = op.call([&x])?;
    assert!(!trunc.requires_grad() && fraction.requires_grad() && whole.requires_grad());
    (&trunc * &fraction + &whole).backward()?;
    assert_eq!(x.grad(), Some(tensor![3.0]));

    let floor = Operation::new("floor", |[x]| x.floor(), |_, [_]| ()).non_differentiable(0);
    assert!(!floor.call([&x])?.requires_grad());
    Ok(())
}

/// A saved output that has no derivative has no history.
#[test]
fn a_saved_output_without_a_derivative_is_a_constant() -> Result<()> {
    let op = Operation::new(
        "sign_times",
        |[x]| Ok([x.sign(), x.abs()]),
        |ctx, [_, g]| {
            assert!(!ctx.output().requires_grad());
            g * ctx.output()
        },
    )
    .saves_output()
    .non_differentiable(0);
    let x = tensor![-2.0, 3.0; f64];
    gradcheck(|x| Ok(op.call([&x[0]])?[1].clone()), std::slice::from_ref(&x))?;
    gradgradcheck(|x| Ok(op.call([&x[0]])?[1].square()), &[x])
}

/// The trait's declaration of the same.
struct Rounded;

impl Function for Rounded {
    fn name(&self) -> &'static str {
        "rounded"
    }
    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0] * 2.0, inputs[0].round()])
    }
    fn non_differentiable(&self, output: usize) -> bool {
        output == 1
    }
    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![Some(ctx.grad(0) * 2.0)])
    }
}

#[test]
fn a_function_says_which_outputs_have_no_derivative() -> Result<()> {
    let x = tensor![1.4].requires_grad();
    let [doubled, rounded] = Rounded.apply([&x])?;
    assert!(doubled.requires_grad() && !rounded.requires_grad());
    (doubled * rounded).backward()?;
    assert_eq!(x.grad(), Some(tensor![2.0]));
    Ok(())
}

#[test]
fn integer_outputs_require_no_gradient() -> Result<()> {
    let op = Operation::new("argsorted", |[x]| Ok([x.argsort(0)?, x * 2.0]), |_, [_, g]| g * 2.0);
    let x = tensor![3.0, 1.0].requires_grad();
    let [index, doubled] = op.call([&x])?;
    assert!(!index.requires_grad());
    doubled.sum(..)?.backward()?;
    assert_eq!(x.grad(), Some(tensor![2.0, 2.0]));
    Ok(())
}
