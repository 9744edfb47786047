//! What a user writes about an operation that is right.

use foldback::gradcheck::testing::snapshot;
use foldback::prelude::*;
use foldback::{assert_grads, check_broadcast_op};
use own_operation::damped;

#[test]
fn values_and_gradients_for_every_broadcast_and_layout() {
    check_broadcast_op!(damped, |a, b| a * (-b).exp(), a in ANY, b in ANY);
}

#[test]
fn gradients_that_are_known() {
    let (a, b) = (tensor![[1.0], [2.0]; f64], tensor![0.0, 0.0; f64]);
    assert_grads!(|[a, b]| damped(a, b), a => tensor![[2.0], [2.0]; f64], b => tensor![-3.0, -3.0; f64]);
}

#[test]
fn what_it_records() -> Result<()> {
    let y = damped(&tensor![[1.0], [2.0]].requires_grad(), &tensor![0.0, 1.0].requires_grad())?;
    assert_eq!(snapshot(&y), "f32 [2, 2]\n1.00000 0.367879\n2.00000 0.735759\n");
    assert!(y.graph()?.to_text().contains("damped -> f32 [2, 2]"));
    Ok(())
}

#[test]
fn in_training() -> Result<()> {
    let (a, b) = (tensor![[1.0], [2.0]].requires_grad(), tensor![0.1, 0.2, 0.3].requires_grad());
    let target = tensor![[1.0, 0.5, 0.25], [2.0, 1.0, 0.5]];
    let sgd = SGD::new([&a, &b], 0.2);
    for _ in 0..300 {
        sgd.zero_grad();
        loss::mse_loss(damped(&a, &b)?, &target)?.backward()?;
        sgd.step()?;
    }
    assert_close!(damped(&a, &b)?, target, atol = 1e-3);
    Ok(())
}
