//! What further passes add, and how long graphs live.

use foldback_graph::{Backward, GraphFacts, Var, grad_with};
use foldback_tensor::tensor;

use crate::leaf;

#[test]
fn a_second_backward_adds() {
    let x = leaf(&[2.0]);
    x.square().backward().unwrap();
    let first = x.grad().unwrap();
    x.square().backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![8.0]));
    assert_eq!(first, tensor![4.0], "what was read before is a value");
}

#[test]
fn under_create_graph_a_second_backward_adds_out_of_place() {
    let x = leaf(&[2.0]);
    let recorded = || x.pow(3).unwrap().backward_with(Backward::new().create_graph(true)).unwrap();
    recorded();
    let first = x.grad_var().unwrap();
    recorded();
    let both = x.grad_var().unwrap();
    x.zero_grad();
    assert_eq!((first.value(), both.value()), (tensor![12.0], tensor![24.0]));
    let slope = |g: &Var| grad_with(g, &x, Backward::new().retain_graph(true)).unwrap().value();
    assert_eq!(
        (slope(&first), slope(&both)),
        (tensor![12.0], tensor![24.0]),
        "each has a history of its own"
    );
}

#[test]
fn backward_twice_needs_retain_graph_where_values_were_saved() {
    let x = leaf(&[2.0]);
    let y = x.square();
    y.backward().unwrap();
    let error = y.backward().unwrap_err();
    assert!(matches!(error.facts(), Some(GraphFacts::Freed { .. })));
    assert!(error.to_string().contains("retain_graph"), "{error}");
    let z = &x + 1.0;
    z.backward().unwrap();
    z.backward().unwrap();
    let y = x.square();
    y.backward_with(Backward::new().retain_graph(true)).unwrap();
    y.backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![14.0]));
}

#[test]
fn no_cycle_keeps_a_graph_alive() {
    let x = leaf(&[0.5]);
    let y = x.tanh();
    let weak = y.downgrade();
    let z = y.exp();
    let first = grad_with(&z, &x, Backward::new().create_graph(true)).unwrap();
    let weak_first = first.downgrade();
    let handle = x.downgrade();
    x.register_hook(move |g| handle.upgrade().map(|x| g + x.detach() * 0.0)).unwrap();
    drop((y, z));
    assert!(weak.upgrade().is_some(), "the gradient's graph still needs it");
    drop(first);
    assert!(weak.upgrade().is_none() && weak_first.upgrade().is_none());
    let weak_leaf = x.downgrade();
    drop(x);
    assert!(weak_leaf.upgrade().is_none());
}

/// A recorded gradient stays at the handle's value, where `zero_grad` reaches it, and not at the one before it was changed.
#[test]
fn a_value_that_was_changed_in_place_retains_no_history() {
    let x = leaf(&[0.5]);
    let mut y = x.tanh();
    y.retain_grad().unwrap();
    let before = y.downgrade();
    y.mul_(&x).unwrap();
    y.square().backward_with(Backward::new().create_graph(true)).unwrap();
    let left = before.upgrade().unwrap();
    assert!(y.grad_var().unwrap().requires_grad() && !left.grad_var().unwrap().requires_grad());
    // Whoever asks for it at the older value can break the cycle.
    left.retain_grad().unwrap();
    y.square().backward_with(Backward::new().create_graph(true)).unwrap();
    assert!(left.grad_var().unwrap().requires_grad());
    left.zero_grad();
    drop(left);
    x.zero_grad();
    y.zero_grad();
    drop(y);
    assert!(before.upgrade().is_none());
}

/// Where PyTorch's gradients of `abs` and `relu` have a history of zeros.
#[test]
fn gradients_that_do_not_depend_on_the_input_have_no_history() {
    let x = leaf(&[3.0, -1.0]);
    for y in [x.abs(), x.relu(), x.leaky_relu_with(0.1).unwrap(), x.clamp(-2.0, 2.0).unwrap(), &x * 2.0] {
        let slope = grad_with(y.sum(..).unwrap(), &x, Backward::new().create_graph(true)).unwrap();
        assert!(!slope.requires_grad());
        let penalty = (&slope * &x).sum(..).unwrap();
        assert_eq!(grad_with(&penalty, &x, Backward::new()).unwrap().value(), slope.value());
    }
}
