//! What is saved for the backward function.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldback::gradcheck::{gradcheck, gradgradcheck};
use foldback::graph::{GraphFacts, Operation, Result};
use foldback::prelude::*;

use crate::cube;

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
