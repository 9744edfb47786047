//! Steps of optimisers that were refused at the second parameter, when the first had been changed.

use foldback::prelude::*;
use tests::optimisers::every_optimiser;

/// Takes a step that is refused, then one that is not: as if it were the first.
fn refused_then_taken(b: Tensor, refused: impl Fn(&dyn Optimizer, &Var) -> String, message: &str) {
    for make in every_optimiser() {
        let (a, b) = (tensor![1.0].requires_grad(), b.clone().requires_grad());
        let ones = |v: &Var| Tensor::ones(v.shape(), v.dtype());
        [&a, &b].into_iter().for_each(|v| v.set_grad(Some(ones(v))).unwrap());
        let optimiser = make(vec![a.clone(), b.clone()]);
        let error = refused(&*optimiser, &b);
        assert!(error.contains(message), "{error}");
        assert_eq!((a.value(), b.value()), (tensor![1.0], ones(&b)));
        b.clone().set_value(ones(&b)).unwrap();
        optimiser.step().unwrap();
        let alone = tensor![1.0].requires_grad();
        alone.set_grad(Some(tensor![1.0])).unwrap();
        make(vec![alone.clone()]).step().unwrap();
        assert_eq!(a.value(), alone.value());
    }
}

#[test]
fn an_expanded_parameter_is_refused_before_the_first_is_changed() {
    let expanded = tensor![1.0].expand([3]).unwrap();
    let step = |optimiser: &dyn Optimizer, _: &Var| optimiser.step().unwrap_err().to_string();
    refused_then_taken(expanded, step, "[3]");
}

#[test]
fn a_step_inside_the_update_of_a_parameter_is_refused_before_the_first_is_changed() {
    let step = |optimiser: &dyn Optimizer, b: &Var| {
        let mut message = String::new();
        b.update_value(|_| {
            message = optimiser.step().unwrap_err().to_string();
            Ok(())
        })
        .unwrap();
        message
    };
    refused_then_taken(tensor![1.0], step, "is being updated");
}
