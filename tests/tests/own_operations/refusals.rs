//! Errors and panics, of the user and of the library.

use std::panic::{AssertUnwindSafe, catch_unwind};

use foldback::graph::{Function, GraphFacts, Operation, Result, is_grad_enabled};
use foldback::prelude::*;
use foldback::{Kind, fuse};

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
            let e = Grad::new([&y], [&b]).create_graph(recorded).run().unwrap_err();
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
