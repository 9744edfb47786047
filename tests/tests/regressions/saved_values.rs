//! Saved values lay in a mask of eight bits: with eight inputs the output came back as an input, with nine the debug
//! build panicked, and what had not been saved came back as something that had.

use std::panic::{AssertUnwindSafe, catch_unwind};

use foldback::graph::{Function, FunctionContext, Result, is_grad_enabled};
use foldback::prelude::*;

/// The product of all inputs, with whatever is saved and whatever backward pass.
struct Product {
    inputs: bool,
    output: bool,
    backward: fn(&FunctionContext<'_>, usize) -> Vec<Option<Var>>,
    count: usize,
}

impl Function for Product {
    fn name(&self) -> &'static str {
        "product"
    }
    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[1..].iter().try_fold(inputs[0].clone(), |product, x| product.mul(*x))?])
    }
    fn saves_inputs(&self) -> bool {
        self.inputs
    }
    fn saves_output(&self) -> bool {
        self.output
    }
    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        Ok((self.backward)(ctx, self.count))
    }
}

/// Numbers near 1, all different, so that a thousand of them have a product.
fn leaves(count: usize) -> Vec<Var> {
    (0..count).map(|i| Tensor::full_with([1], 1.0 + i as f64 * 1e-4, DType::F64).requires_grad()).collect()
}

fn refs(vars: &[Var]) -> Vec<&Var> {
    vars.iter().collect()
}

const COUNTS: [usize; 6] = [1, 7, 8, 9, 257, 1000];

#[test]
fn cat_and_stack_take_lists_of_any_length() {
    for count in COUNTS {
        let x = leaves(count);
        let weights = Tensor::arange_with(0.0..(count as f64), 1.0, DType::F64);
        Var::cat(&refs(&x), 0).unwrap().mul(&weights).unwrap().sum(..).unwrap().backward().unwrap();
        Var::stack(&refs(&x), 1).unwrap().mul(&weights).unwrap().sum(..).unwrap().backward().unwrap();
        for (i, x) in x.iter().enumerate() {
            assert_eq!(x.grad(), Some(tensor![2.0 * i as f64; f64]), "{i} of {count}");
        }
    }
}

#[test]
fn every_input_and_the_output_come_back_as_themselves() {
    let by_inputs = |ctx: &FunctionContext<'_>, count: usize| {
        let others = |i| (0..count).filter(|&k| k != i).fold(ctx.grad(0), |p, k| p * ctx.input(k));
        (0..count).map(|i| ctx.needs(i).then(|| others(i))).collect()
    };
    let by_both = |ctx: &FunctionContext<'_>, count: usize| {
        (0..count).map(|i| ctx.needs(i).then(|| ctx.grad(0) * ctx.output() / ctx.input(i))).collect()
    };
    // y / 2 for every input, which tells the output from all inputs.
    let by_output =
        |ctx: &FunctionContext<'_>, count: usize| (0..count).map(|_| Some(ctx.output() * 0.5)).collect();
    for count in COUNTS {
        let product: f64 = (0..count).map(|i| 1.0 + i as f64 * 1e-4).product();
        let gradients = |inputs, output, backward| {
            let x = leaves(count);
            let y = Product { inputs, output, backward, count }.call(&x).unwrap();
            y.backward().unwrap();
            x.iter().map(|x| x.grad().unwrap().item_as::<f64>().unwrap()).collect::<Vec<_>>()
        };
        for (i, g) in gradients(true, true, by_both).into_iter().enumerate() {
            let expected = product / (1.0 + i as f64 * 1e-4);
            assert!((g / expected - 1.0).abs() < 1e-12, "both, {i} of {count}: {g} and not {expected}");
        }
        for g in gradients(false, true, by_output) {
            assert!((g / product * 2.0 - 1.0).abs() < 1e-12, "output, {count}: {g} and not {product} / 2");
        }
        // Every gradient a product of all others: not for a thousand.
        if count <= 9 {
            for (i, g) in gradients(true, false, by_inputs).into_iter().enumerate() {
                let expected = product / (1.0 + i as f64 * 1e-4);
                assert!((g / expected - 1.0).abs() < 1e-12, "inputs, {i} of {count}: {g} and not {expected}");
            }
        }
    }
}

#[test]
fn saved_values_have_their_history() {
    let cube = |ctx: &FunctionContext<'_>, _: usize| {
        let half = ctx.grad(0) * ctx.output() / ctx.input(0);
        vec![Some(half.clone()), Some(half)]
    };
    let x = tensor![3.0; f64].requires_grad();
    let apply = || Product { inputs: true, output: true, backward: cube, count: 2 }.call([&x, &x]);
    let y = apply().unwrap();
    let g = foldback::graph::grad_with(&y, &x, Backward::new().create_graph(true)).unwrap();
    assert_eq!(g.value(), tensor![6.0; f64]);
    g.backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![2.0; f64]));
}

/// What the pass panics with, and where.
fn refusal(inputs: bool, output: bool, ask: fn(&FunctionContext<'_>, usize) -> Vec<Option<Var>>) -> String {
    let x = leaves(2);
    let line = line!() + 1;
    let y = Product { inputs, output, backward: ask, count: 2 }.call(&x).unwrap();
    let panic = catch_unwind(AssertUnwindSafe(|| y.backward())).expect_err("the question has no answer");
    let message = panic.downcast::<String>().expect("a formatted message");
    assert!(message.starts_with("product: "), "{message}");
    assert!(message.contains(&format!("(recorded at {}:{line}:", file!())), "{message}");

    // Nothing is left behind: no gradient, no mode, no lock.
    assert!(x.iter().all(|x| x.grad().is_none()));
    assert!(is_grad_enabled());
    (&x[0] * &x[1]).backward().unwrap();
    assert_eq!(x[0].grad(), Some(x[1].value()));
    *message
}

#[test]
fn what_was_not_saved_is_refused_with_the_cure() {
    for (inputs, output) in [(false, false), (false, true)] {
        let message = refusal(inputs, output, |ctx, _| vec![Some(ctx.input(0)), None]);
        assert!(message.contains("input(0)") && message.contains("saves_inputs"), "{message}");
    }
    for (inputs, output) in [(false, false), (true, false)] {
        let message = refusal(inputs, output, |ctx, _| vec![Some(ctx.output()), None]);
        assert!(message.contains("output()") && message.contains("saves_output"), "{message}");
    }
}

#[test]
fn what_does_not_exist_is_refused() {
    for (name, ask) in [
        (
            "input(2): there are 2 inputs",
            (|c, _| vec![Some(c.input(2))]) as fn(&FunctionContext<'_>, usize) -> _,
        ),
        ("input(7): there are 2 inputs", |c, _| vec![Some(c.input(7))]),
        ("input(256): there are 2 inputs", |c, _| vec![Some(c.input(256))]),
        ("needs(2): there are 2 inputs", |c, _| vec![c.needs(2).then(|| c.grad(0))]),
        ("grad(1): there is 1 output", |c, _| vec![Some(c.grad(1))]),
    ] {
        let message = refusal(true, true, ask);
        assert!(message.contains(name), "{message}");
    }
}
