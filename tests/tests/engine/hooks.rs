//! Hooks on variables, and modes.

use std::sync::{Arc, Mutex};

use foldback_graph::{Backward, GraphFacts, Var, backward, enable_grad, grad, is_grad_enabled, no_grad};
use foldback_tensor::{refused, tensor};

use crate::leaf;

#[test]
fn hooks_see_replace_and_can_be_removed_in_order() {
    let x = leaf(&[1.0]);
    let y = &x * 2.0;
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |name: &'static str| {
        let order = order.clone();
        move |g: &Var| {
            order.lock().unwrap().push((name, g.value().item_as::<f32>().unwrap()));
            Some(g * 10.0)
        }
    };
    let first = y.register_hook(note("first")).unwrap();
    y.register_hook(note("second")).unwrap();
    y.retain_grad().unwrap();
    (&y * 3.0).backward().unwrap();
    assert_eq!(*order.lock().unwrap(), [("first", 3.0), ("second", 30.0)]);
    assert_eq!(y.grad(), Some(tensor![300.0]), "retain_grad sees what the hooks left");
    assert_eq!(x.grad(), Some(tensor![600.0]));
    first.remove();
    order.lock().unwrap().clear();
    let caught = grad(&(&y * 1.0), &x).unwrap();
    assert_eq!(*order.lock().unwrap(), [("second", 1.0)]);
    assert_eq!(caught.value(), tensor![20.0], "also under grad()");
}

#[test]
fn a_hook_that_changes_shape_or_dtype_is_an_error() {
    for wrong in [tensor![1.0, 2.0], tensor![1.0; f64]] {
        let x = leaf(&[1.0]);
        x.set_grad(Some(tensor![5.0])).unwrap();
        x.register_hook(move |_| Some(Var::from(&wrong))).unwrap();
        assert!(refused!((&x * 2.0).backward(), GraphFacts::Assigned { .. }));
        assert_eq!(x.grad(), Some(tensor![5.0]));
    }
}

#[test]
fn a_hook_may_itself_go_backward() {
    let x = leaf(&[3.0]);
    let y = &x * 2.0;
    let inner = leaf(&[5.0]);
    let seen = inner.clone();
    y.register_hook(move |_| {
        enable_grad(|| seen.square().backward()).unwrap();
        None
    })
    .unwrap();
    y.backward().unwrap();
    assert_eq!(inner.grad(), Some(tensor![10.0]));
    assert_eq!(x.grad(), Some(tensor![2.0]));
}

#[test]
fn modes_nest_restore_and_belong_to_their_thread() {
    assert!(is_grad_enabled());
    no_grad(|| {
        assert!(!is_grad_enabled());
        enable_grad(|| assert!(is_grad_enabled()));
        assert!(!is_grad_enabled());
        std::thread::scope(|s| s.spawn(|| assert!(is_grad_enabled())).join().unwrap());
    });
    assert!(is_grad_enabled());
    let panicked = std::panic::catch_unwind(|| no_grad(|| panic!("inside")));
    assert!(panicked.is_err() && is_grad_enabled());
}

#[test]
fn a_root_that_leads_to_no_input_calls_no_hooks() {
    let (x, w) = (leaf(&[1.0]), leaf(&[2.0]));
    let (y, z) = (&x * 2.0, &w * 3.0);
    for v in [&x, &y] {
        v.register_hook(|_| -> Option<Var> { panic!("nothing of it is wanted") }).unwrap();
    }
    y.retain_grad().unwrap();
    y.backward_with(Backward::new().inputs([&w])).unwrap();
    backward([&y, &z], Backward::new().inputs([&w])).unwrap();
    assert_eq!((y.grad(), x.grad(), w.grad()), (None, None, Some(tensor![3.0])));
}
