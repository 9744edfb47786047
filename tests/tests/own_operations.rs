//! Operations of a user's own, in both forms: the contract that PyTorch's `autograd.Function` has, and what is added here.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldback::gradcheck::{gradcheck, gradgradcheck};
use foldback::graph::{
    Function, FunctionContext, GraphFacts, Operation, Result, hessian, is_grad_enabled, jacobian, jvp,
};
use foldback::prelude::*;
use foldback::{Kind, fuse};

fn cube() -> Operation<1> {
    Operation::new("cube", |[x]| x.pow(3), |ctx, [g]| g * ctx.input(0).square() * 3.0).saves_inputs()
}

fn mul() -> Operation<2> {
    let backward = |ctx: &FunctionContext<'_>, [g]: [Var; 1]| (g.mul(ctx.input(1)), g.mul(ctx.input(0)));
    Operation::new("my_mul", |[a, b]| a.mul(b), backward).saves_inputs()
}

/// The same, with gradients that the engine folds.
fn folding_mul() -> Operation<2> {
    let backward = |ctx: &FunctionContext<'_>, [g]: [Var; 1]| {
        ctx.fold(0, fuse!(|g, b| g * b), [&g, &ctx.input(1)])?;
        ctx.fold(1, fuse!(|g, a| g * a), [&g, &ctx.input(0)])
    };
    Operation::new("folding_mul", |[a, b]| a.mul(b), backward).saves_inputs()
}

fn crossed() -> [Tensor; 2] {
    [tensor![[0.5, -1.5, 2.0]; f64], tensor![[3.0], [-0.25]; f64]]
}

// What is saved

#[test]
fn saved_inputs_and_outputs_come_back_with_their_history() -> Result<()> {
    let exp = Operation::new("my_exp", |[x]| x.exp(), |ctx, [g]| g * ctx.output()).saves_output();
    for f in [cube(), exp] {
        gradcheck(|x| f.call([&x[0]]), &[tensor![0.5, -1.5; f64]])?;
        gradgradcheck(|x| f.call([&x[0]]), &[tensor![0.5, -1.5; f64]])?;
    }
    Ok(())
}

/// Says when it is dropped.
struct Dropped(Arc<AtomicUsize>);
impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn anything_can_be_saved_and_is_freed_as_saved_values_are() -> Result<()> {
    let dropped = Arc::new(AtomicUsize::new(0));
    let count = dropped.clone();
    let scale = Operation::new(
        "scale",
        move |[x]| Ok((x.mul(2.0)?, ("two".to_string(), 2.0, Dropped(count.clone())))),
        |ctx, [g]| {
            let (name, factor, _) = ctx.saved();
            assert_eq!(name, "two");
            g * *factor
        },
    );
    let x = tensor![1.0].requires_grad();
    let y = scale.call([&x])?;
    y.backward_with(Backward::new().retain_graph(true))?;
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
    y.backward()?;
    assert_eq!(x.grad(), Some(tensor![4.0]));
    assert_eq!(dropped.load(Ordering::SeqCst), 1, "freed while the root lives");
    let e = y.backward().unwrap_err();
    assert!(matches!(e.facts(), Some(GraphFacts::Freed { op: "scale", .. })), "{e}");
    drop(scale.call([&x])?);
    no_grad(|| scale.call([&x]))?;
    assert_eq!(dropped.load(Ordering::SeqCst), 3);
    Ok(())
}

#[test]
fn an_operation_that_saves_nothing_goes_backward_twice() -> Result<()> {
    let twice = Operation::new("twice", |[x]| x.mul(2.0), |_, [g]| g * 2.0);
    let x = tensor![1.0].requires_grad();
    let y = twice.call([&x])?;
    y.backward()?;
    y.backward()?;
    assert_eq!(x.grad(), Some(tensor![4.0]));
    Ok(())
}

// What goes in

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

// None in, None out

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

// Outputs

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

// Errors

#[test]
fn a_users_error_surfaces_unchanged() -> Result<()> {
    let refusing = Operation::new(
        "refusing",
        |[x]: [&Tensor; 1]| x.clone(),
        |_, [_]| -> Result<Var> { Err(Error::other("no way back")) },
    );
    let (x, w) = (tensor![1.0].requires_grad(), tensor![2.0].requires_grad());
    let y = refusing.call([&x])? + &w * 3.0;
    let e = y.backward().unwrap_err();
    assert_eq!((e.kind(), e.to_string()), (Kind::User, "no way back".to_string()));
    assert!(x.grad().is_none() && w.grad().is_none());
    assert!(is_grad_enabled());

    let stuck =
        Operation::new("stuck", |[_]| -> Result<Tensor> { Err(Error::other("no way there")) }, |_, [g]| g);
    assert_eq!(stuck.call([&x]).unwrap_err().to_string(), "no way there");
    Ok(())
}

#[test]
fn a_tensors_error_names_the_operation_and_the_recorded_line() -> Result<()> {
    let op = Operation::new("wrong", |[x]| x.mul(2.0), |_, [g]| g.reshape([5]));
    let x = tensor![1.0].requires_grad();
    let line = line!() + 1;
    let y = op.call([&x])?;
    let e = y.backward().unwrap_err().to_string();
    assert!(
        e.starts_with(&format!(
            "wrong: in the backward pass of the operation recorded at {}:{line}:",
            file!()
        )),
        "{e}"
    );
    // and one that was refused on the way there, that of the call
    let e = Operation::new("wrong", |[x]| x.reshape([5]), |_, [g]| g).call([&x]).unwrap_err();
    assert!(e.to_string().contains(file!()), "{e}");
    Ok(())
}

#[test]
fn a_gradient_that_does_not_fit_names_both_shapes_operation_input_and_line() -> Result<()> {
    let given = Operation::new("wrong", |[a, _]| a.mul(2.0), |_, [_]| ((), Tensor::ones([3])));
    let described = Operation::new(
        "wrong",
        |[a, _]| a.mul(2.0),
        |ctx, [_]| ctx.fold(1, fuse!(|x| x), [&Tensor::ones([3])]),
    );
    let (a, b) = (tensor![1.0].requires_grad(), tensor![1.0, 2.0].requires_grad());
    for op in [given, described] {
        for recorded in [false, true] {
            let line = line!() + 1;
            let y = op.call([&a, &b])?;
            let e = Grad::new(&[&y], &[&b]).create_graph(recorded).run().unwrap_err();
            let Some(GraphFacts::GradientShape { op: "wrong", input: 1, expected, found, location }) =
                e.facts()
            else {
                panic!("{e}")
            };
            assert_eq!((expected.to_vec(), found.to_vec(), location.line()), (vec![2], vec![3], line));
        }
    }
    Ok(())
}

#[test]
fn without_a_derivative_only_a_pass_that_reaches_it_is_refused() -> Result<()> {
    let rank = Operation::without_derivative("rank", |[x]| x.floor().div(2.0));
    let (x, w) = (tensor![3.5].requires_grad(), tensor![2.0].requires_grad());
    let line = line!() + 1;
    let r = rank.call([&x])?;
    assert!(r.requires_grad());
    let y = &r + &w;
    assert_eq!(grad(&y, &w)?.value(), tensor![1.0], "the way to `w` does not lead through it");
    let e = y.backward().unwrap_err();
    let Some(GraphFacts::NoDerivative { op: "rank", location }) = e.facts() else { panic!("{e}") };
    assert_eq!((location.file(), location.line()), (file!(), line));
    assert!(w.grad().is_none());

    struct Forward;
    impl Function for Forward {
        fn name(&self) -> &'static str {
            "forward"
        }
        fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
            Ok(vec![inputs[0].floor()])
        }
    }
    let e = Forward.call([&x])?.backward().unwrap_err();
    assert!(matches!(e.facts(), Some(GraphFacts::NoDerivative { op: "forward", .. })), "{e}");
    Ok(())
}

#[test]
fn a_once_differentiable_operation_refuses_a_second_derivative() -> Result<()> {
    let once = Operation::new("once", |[x]| x.mul(2.0), |_, [g]| g.value().mul(2.0).map(Var::from))
        .once_differentiable();
    let x = tensor![1.0].requires_grad();
    let y = once.call([&x])?;
    let e = grad_with(&y, &x, Backward::new().create_graph(true)).unwrap_err();
    assert!(matches!(e.facts(), Some(GraphFacts::OnceDifferentiable { op: "once", .. })), "{e}");
    y.backward()?;
    assert_eq!(x.grad(), Some(tensor![2.0]));
    Ok(())
}

#[test]
fn a_panic_in_backward_poisons_nothing() -> Result<()> {
    let fragile = Operation::new(
        "fragile",
        |[x]| Ok((x.mul(2.0)?, 2.0)),
        |ctx, [g]| if g.item().unwrap() < 0.0 { panic!("negative") } else { g * *ctx.saved() },
    );
    let x = tensor![1.0].requires_grad();
    let y = fragile.call([&x])?;
    let bad = tensor![-1.0];
    let panic =
        catch_unwind(AssertUnwindSafe(|| y.backward_with(Backward::new().seed(&bad).retain_graph(true))));
    assert_eq!(panic.unwrap_err().downcast_ref(), Some(&"negative"));
    assert!(x.grad().is_none() && is_grad_enabled());
    y.backward()?;
    assert_eq!(x.grad(), Some(tensor![2.0]));
    Ok(())
}

#[test]
fn asking_for_what_was_not_saved_panics_with_the_cure() {
    let op = Operation::new("forgot", |[x]| x.mul(2.0), |ctx, [g]| g * ctx.input(0));
    let y = op.call([&tensor![1.0].requires_grad()]).unwrap();
    let panic = catch_unwind(AssertUnwindSafe(|| y.backward())).unwrap_err();
    let message = panic.downcast::<String>().unwrap();
    assert!(
        message.starts_with("forgot: input(0): the inputs were not saved")
            && message.contains("saves_inputs"),
        "{message}"
    );
}

#[test]
fn an_output_that_there_is_not_cannot_be_marked() {
    let mark = || Operation::new("one", |[x]| x.exp(), |_, [g]| g).non_differentiable(1);
    let panic = catch_unwind(AssertUnwindSafe(mark)).unwrap_err();
    assert_eq!(*panic.downcast::<String>().unwrap(), "one: non_differentiable(1): there is 1 output");
}

// The fold

#[test]
fn described_gradients_are_those_that_are_given() -> Result<()> {
    let scalar = |x: &[Var], op: &Operation<2>| op.call([&x[0], &x[1]])?.sin().sum(..);
    let x = crossed().map(|t| t.requires_grad());
    let results = [mul(), folding_mul()].map(|op| {
        let first = grad_with(scalar(&x, &op).unwrap(), &x, Backward::new().create_graph(true)).unwrap();
        let second = grad(first[0].square().sum(..).unwrap() + first[1].sum(..).unwrap(), &x).unwrap();
        (grad(scalar(&x, &op).unwrap(), &x).unwrap(), first, second)
    });
    for (k, x) in x.iter().enumerate() {
        let [a, b] = [&results[0], &results[1]].map(|r| [r.0[k].value(), r.1[k].value(), r.2[k].value()]);
        for (a, b) in a.iter().zip(&b) {
            assert_eq!(a.dims(), x.dims());
            assert_close!(a, b);
        }
    }
    for op in [mul(), folding_mul()] {
        gradcheck(|x| op.call([&x[0], &x[1]]), &crossed())?;
        gradgradcheck(|x| op.call([&x[0], &x[1]]), &crossed())?;
    }
    Ok(())
}

#[test]
fn a_described_gradient_is_folded_from_every_shape() -> Result<()> {
    let shapes: [[&[usize]; 2]; 7] = [
        [&[], &[2, 3]],
        [&[3], &[2, 3]],
        [&[1], &[1, 3]],
        [&[1, 1], &[]],
        [&[2, 1, 3], &[4, 1]],
        [&[0], &[2, 1]],
        [&[1], &[0]],
    ];
    for shapes in shapes {
        let x = shapes.map(|s| Tensor::full_with(s, 0.5, DType::F64));
        gradcheck(|x| folding_mul().call([&x[0], &x[1]]), &x)?;
        gradgradcheck(|x| folding_mul().call([&x[0], &x[1]]), &x)?;
    }
    Ok(())
}

#[test]
fn a_described_gradient_is_cast_and_added_to_what_waits() -> Result<()> {
    let (x, w) = (tensor![1.0, 2.0].requires_grad(), tensor![[3.0], [4.0]; f64].requires_grad());
    for recorded in [false, true] {
        let y = folding_mul().call([&x, &w])?.sum(..)? + folding_mul().call([&x, &x])?.sum(..)?;
        let [dx, dw] = grad_with(&y, [&x, &w], Backward::new().create_graph(recorded))?;
        assert_eq!((dx.value(), dw.value()), (tensor![9.0, 11.0], tensor![[3.0], [3.0]; f64]));
    }
    Ok(())
}

#[test]
fn a_function_describes_its_gradients_as_well() -> Result<()> {
    struct Mul;
    impl Function for Mul {
        fn name(&self) -> &'static str {
            "mul"
        }
        fn saves_inputs(&self) -> bool {
            true
        }
        fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
            Ok(vec![inputs[0].mul(inputs[1])?])
        }
        fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
            let g = ctx.grad(0);
            ctx.fold(0, fuse!(|g, b| g * b), [&g, &ctx.input(1)])?;
            ctx.fold(1, fuse!(|g, a| g * a), [&g, &ctx.input(0)])?;
            Ok(vec![None, None])
        }
    }
    gradcheck(|x| Mul.call([&x[0], &x[1]]), &crossed())?;
    gradgradcheck(|x| Mul.call([&x[0], &x[1]]), &crossed())
}

#[test]
fn a_chain_of_operations_is_recorded_run_and_dropped_on_a_small_stack() {
    let body = || {
        let twice = Operation::new("same", |[x]: [&Tensor; 1]| x.clone(), |_, [g]| g);
        let x = tensor![1.0].requires_grad();
        let mut y = twice.call([&x]).unwrap();
        for _ in 0..if cfg!(debug_assertions) { 100_000 } else { 1_000_000 } {
            y = twice.call([&y]).unwrap();
        }
        y.backward().unwrap();
        assert_eq!(x.grad(), Some(tensor![1.0]));
    };
    std::thread::Builder::new().stack_size(512 << 10).spawn(body).unwrap().join().unwrap();
}

#[test]
fn an_operation_makes_no_cycle() -> Result<()> {
    let x = tensor![2.0].requires_grad();
    let weak = x.downgrade();
    let op = cube();
    let slope = grad_with(&op.call([&x])?, &x, Backward::new().create_graph(true))?;
    assert_eq!(slope.value(), tensor![12.0]);
    drop((x, slope));
    assert!(weak.upgrade().is_none());
    Ok(())
}

/// Passes that run an operation's backward function several times, or for its transpose, keep what it saved until the end.
#[test]
fn jacobians_and_forward_derivatives_go_through_operations() -> Result<()> {
    let saving = Operation::new("scaled", |[x]| Ok((x.mul(x)?, x.mul(2.0)?)), |ctx, [g]| g.mul(ctx.saved()));
    for f in [
        saving,
        Operation::new(
            "square",
            |[x]| x.square(),
            |ctx, [g]| ctx.fold(0, fuse!(|g, x| g * x * 2.0), [&g, &ctx.input(0)]),
        )
        .saves_inputs(),
    ] {
        let x = tensor![1.0, 3.0; f64];
        assert_eq!(jacobian(|x| f.call([x]), &x)?.value(), tensor![[2.0, 0.0], [0.0, 6.0]; f64]);
        let (_, tangent) = jvp(|x| f.call([x]), &x, &tensor![1.0, 10.0; f64])?;
        assert_eq!(tangent.value(), tensor![2.0, 60.0; f64]);
    }
    let f = folding_mul();
    let h = hessian(|x| f.call([x.clone(), x.reshape([2, 1])?])?.sum(..), &tensor![1.0, 3.0; f64])?;
    assert_eq!(h.value(), tensor![[2.0, 2.0], [2.0, 2.0]; f64]);
    Ok(())
}

/// It stands in a struct, by its type, and is shared among threads.
#[test]
fn operations_can_be_named_cloned_and_shared() -> Result<()> {
    struct Model {
        activation: Operation<1>,
        rotate: Operation<2, [Var; 2]>,
    }
    let rotate = Operation::new("rotate", |[a, b]| Ok([a.sub(b)?, a.add(b)?]), |_, [g, h]| [&g + &h, h - g]);
    let model = Model { activation: cube().clone(), rotate };
    assert_eq!(format!("{:?}", model.activation), "cube");
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                let x = [tensor![1.0; f64], tensor![2.0; f64]];
                gradcheck(|x| model.activation.call([&x[0]]), &x[..1]).unwrap();
                gradcheck(|x| Ok(model.rotate.call([&x[0], &x[1]])?[0].clone()), &x).unwrap();
            });
        }
    });
    Ok(())
}
