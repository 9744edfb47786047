//! Leaves, and what is tracked.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldback_graph::{Backward, GraphFacts, Var, grad, no_grad};
use foldback_tensor::{refused, tensor};

use crate::leaf;

#[test]
fn an_output_requires_a_gradient_iff_some_input_does() {
    let (x, c) = (leaf(&[1.0]), Var::from(tensor![1.0]));
    assert!((&x * &c).requires_grad());
    assert!(!(&c * &c).requires_grad());
    let ran = Arc::new(AtomicUsize::new(0));
    let counter = ran.clone();
    assert!(
        c.register_hook(move |_| {
            counter.fetch_add(1, Ordering::SeqCst);
        })
        .is_err()
    );
    (&x * &c).backward().unwrap();
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

#[test]
fn requires_grad_can_be_turned_off_on_leaves_only() {
    let mut x = leaf(&[1.0]);
    assert!((&x * 2.0).requires_grad_(false).is_err());
    x.requires_grad_(false).unwrap();
    assert!(!(&x * 2.0).requires_grad());
}

#[test]
fn a_deep_copy_of_a_leaf_is_another() {
    let mut x = leaf(&[1.0, 2.0]);
    x.set_grad(Some(tensor![1.0, 1.0])).unwrap();
    let copy = x.deep_copy();
    assert!(!copy.is_same(&x) && copy.is_leaf() && copy.requires_grad() && copy.grad().is_none());
    no_grad(|| x.add_(1.0)).unwrap();
    assert_eq!((x.value(), copy.value()), (tensor![2.0, 3.0], tensor![1.0, 2.0]));
    x.requires_grad_(false).unwrap();
    let frozen = x.deep_copy();
    assert!(!frozen.requires_grad() && copy.requires_grad());
    let y = &copy * 2.0;
    assert!(y.deep_copy().is_same(&y));
    assert!(!Var::from(tensor![1, 2; i64]).deep_copy().requires_grad());
}

#[test]
fn in_place_on_a_tracked_leaf_needs_no_grad() {
    let mut x = leaf(&[1.0, 2.0]);
    assert!(refused!(x.add_(1.0), GraphFacts::LeafInPlace { .. }));
    assert_eq!(x.value(), tensor![1.0, 2.0]);
    no_grad(|| x.add_(1.0)).unwrap();
    assert_eq!(x.value(), tensor![2.0, 3.0]);
    assert!(x.is_leaf() && x.requires_grad());
}

#[test]
fn in_place_on_a_result_records_and_rebinds_the_handle() {
    let x = leaf(&[3.0]);
    let mut y = &x * 2.0;
    let old = y.clone();
    y.retain_grad().unwrap();
    y.mul_(&x).unwrap();
    y.sum(..).unwrap().backward().unwrap();
    assert_eq!(y.value(), tensor![18.0]);
    assert_eq!(old.value(), tensor![6.0]);
    assert_eq!(x.grad(), Some(tensor![12.0]));
    assert_eq!(old.grad(), Some(tensor![3.0]), "the older value keeps its own");
    assert_eq!(y.grad(), Some(tensor![1.0]), "retain_grad holds for the new value, too");
}

#[test]
fn a_retained_gradient_goes_with_the_handle() {
    let x = leaf(&[3.0]);
    let mut y = &x * 2.0;
    y.retain_grad().unwrap();
    let pass = |y: &Var| y.backward_with(Backward::new().retain_graph(true)).unwrap();
    pass(&y);
    let old = y.clone();
    y.mul_(&x).unwrap();
    assert_eq!((y.grad(), old.grad()), (Some(tensor![1.0]), Some(tensor![1.0])));
    pass(&y);
    assert_eq!((y.grad(), old.grad()), (Some(tensor![2.0]), Some(tensor![4.0])));
    assert_eq!(x.grad(), Some(tensor![14.0]));
}

#[test]
fn hooks_registered_before_an_in_place_operation_belong_to_the_older_value() {
    let x = leaf(&[3.0]);
    let mut y = &x * 2.0;
    let ran = Arc::new(AtomicUsize::new(0));
    let counter = ran.clone();
    y.register_hook(move |g| {
        counter.fetch_add(1, Ordering::SeqCst);
        assert_eq!(g.value(), tensor![10.0]);
    })
    .unwrap();
    y.mul_(10.0).unwrap();
    y.backward().unwrap();
    assert_eq!((x.grad(), ran.load(Ordering::SeqCst)), (Some(tensor![20.0]), 1));
    y.detach().register_hook(|_| ()).unwrap_err();
    assert!(grad(&(&y * 1.0), &y).is_ok());
    assert_eq!(ran.load(Ordering::SeqCst), 1, "the newer value has none");
}

#[test]
fn writing_tracked_values_into_an_untracked_tensor_makes_it_tracked() {
    let v = leaf(&[2.0, 3.0]);
    let mut x = Var::from(tensor![1.0, 1.0]);
    x.add_(&v).unwrap();
    assert!(x.requires_grad());
    x.square().sum(..).unwrap().backward().unwrap();
    assert_eq!(v.grad(), Some(tensor![6.0, 8.0]));
}

#[test]
fn in_place_results_keep_shape_and_category() {
    let mut y = leaf(&[1.0]) * 1.0;
    let before = y.value();
    assert!(y.add_(&tensor![1.0, 2.0]).is_err());
    let mut i = Var::from(tensor![1; i64]);
    assert!(i.add_(0.5).is_err());
    assert_eq!((y.value(), i.value()), (before, tensor![1; i64]));
}

#[test]
fn mutation_after_saving_never_changes_a_gradient() {
    let mut x = leaf(&[3.0]);
    let y = x.square();
    no_grad(|| x.mul_(100.0)).unwrap();
    y.backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![6.0]));
}

#[test]
fn detach_blocks_the_gradient() {
    let x = leaf(&[3.0]);
    let y = x.square().detach() * &x;
    y.backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![9.0]));
}

#[test]
fn a_detached_value_shares_no_history() {
    let y = leaf(&[3.0]).square();
    let (history, value) = (y.downgrade(), y.detach());
    drop(y);
    assert!(history.upgrade().is_none());
    assert_eq!((value.value(), value.grad_fn().is_none(), value.is_leaf()), (tensor![9.0], true, true));
}

#[test]
fn the_grad_of_a_result_needs_retain_grad() {
    let x = leaf(&[1.0]);
    let y = &x * 2.0;
    let z = &y * 3.0;
    z.retain_grad().unwrap();
    (&z * 4.0).backward().unwrap();
    assert_eq!(y.grad(), None);
    assert_eq!(z.grad(), Some(tensor![4.0]));
}

#[test]
fn debug_output_shows_where_a_variable_comes_from() {
    let x = leaf(&[1.0]);
    assert!(format!("{x:?}").ends_with(", requires_grad=true)"));
    assert!(format!("{:?}", &x * &x).contains("grad_fn=<mul"));
    assert!(!format!("{:?}", x.detach()).contains("grad"));
}
