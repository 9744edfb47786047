//! Gradients that results keep: `grad` filled them, a pass limited to inputs kept filling them for ever after, and an
//! in-place operation lost them.

use foldback_graph::{Backward, Grad, RequiresGrad, Var, backward, grad};
use foldback_tensor::tensor;

fn leaf() -> Var {
    tensor![1.0].requires_grad()
}

#[test]
fn grad_leaves_results_as_they_are() {
    let x = leaf();
    let y = &x * 2.0;
    y.retain_grad().unwrap();
    let z = y.square();
    Grad::new([&z], [&x, &y]).retain_graph(true).run().unwrap();
    Grad::new([&z], [&x]).create_graph(true).run().unwrap();
    assert_eq!(y.grad(), None);
    grad(&z, &[&x]).unwrap();
    assert_eq!((x.grad(), y.grad()), (None, None));
}

#[test]
fn a_pass_limited_to_inputs_asks_for_no_later_gradient() {
    let x = leaf();
    let y = &x * 1.0;
    let z = &y * 1.0;
    let limited = || z.backward_with(Backward::new().inputs([&y, &y]).retain_graph(true)).unwrap();
    limited();
    assert_eq!(y.grad(), Some(tensor![1.0]));
    y.zero_grad();
    z.backward_with(Backward::new().retain_graph(true)).unwrap();
    assert_eq!(y.grad(), None);
    limited();
    limited();
    assert_eq!(y.grad(), Some(tensor![2.0]));
    y.zero_grad();
    // nor does one that fails
    assert!(z.backward_with(Backward::new().inputs([&y, &Var::from(tensor![1.0])])).is_err());
    z.backward().unwrap();
    assert_eq!(y.grad(), None);
}

#[test]
fn a_gradient_both_retained_and_asked_for_counts_once() {
    let x = leaf();
    let y = &x * 1.0;
    y.retain_grad().unwrap();
    let z = &y * 3.0;
    z.retain_grad().unwrap();
    z.backward_with(Backward::new().inputs([&y])).unwrap();
    assert_eq!((y.grad(), z.grad(), x.grad()), (Some(tensor![3.0]), Some(tensor![1.0]), None));
}

#[test]
fn a_root_that_does_not_lead_to_the_inputs_gets_nothing() {
    let (x, w) = (leaf(), leaf());
    let (y, z) = (&x * 2.0, &w * 2.0);
    z.retain_grad().unwrap();
    z.register_hook(|_| -> Option<Var> { panic!("a node that is not run has no hooks to run") }).unwrap();
    backward([&y, &z], Backward::new().inputs([&x])).unwrap();
    assert_eq!((x.grad(), w.grad(), z.grad()), (Some(tensor![2.0]), None, None));
}

#[test]
fn the_wish_follows_the_handle_through_an_in_place_operation() {
    let mut y = leaf() + 0.0;
    let (old, handle) = (y.clone(), y.clone());
    y.retain_grad().unwrap();
    handle.register_hook(|g| Some(g * 10.0)).unwrap();
    y.mul_(2.0).unwrap();
    y.add_(1.0).unwrap();
    (&y + 1.0).backward().unwrap();
    assert_eq!(y.grad(), Some(tensor![1.0]), "no hook of the older value");
    assert_eq!(old.grad(), Some(tensor![20.0]), "whose own gradient is kept as before");
    let mut plain = leaf() + 0.0;
    plain.mul_(2.0).unwrap();
    plain.backward().unwrap();
    assert_eq!(plain.grad(), None);
}

/// What a recorded pass leaves in variables is a cycle, which `zero_grad` breaks; what `Grad` returns is none.
#[test]
fn only_a_recorded_pass_that_leaves_gradients_makes_a_cycle() {
    let (x, w) = (leaf(), leaf().downgrade());
    assert!(w.upgrade().is_none());
    let y = x.square();
    y.retain_grad().unwrap();
    let handles = [x.downgrade(), y.downgrade()];
    let first = Grad::new([&y.square()], [&x]).create_graph(true).run().unwrap();
    drop((x, y, first));
    assert!(handles.iter().all(|h| h.upgrade().is_none()));

    let x = leaf();
    let y = x.square();
    y.retain_grad().unwrap();
    let handles = [x.downgrade(), y.downgrade()];
    y.square().backward_with(Backward::new().create_graph(true)).unwrap();
    drop((x, y));
    for h in &handles {
        h.upgrade().unwrap().zero_grad();
    }
    assert!(handles.iter().all(|h| h.upgrade().is_none()));
}
