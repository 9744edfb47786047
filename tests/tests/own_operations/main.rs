//! Operations of a user's own, in both forms: the contract that PyTorch's `autograd.Function` has, and what is added here.

mod folds;
mod inputs;
mod outputs;
mod refusals;
mod saved;

use foldback::fuse;
use foldback::gradcheck::gradcheck;
use foldback::graph::{FunctionContext, Operation, Result, hessian, jacobian, jvp};
use foldback::prelude::*;

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
