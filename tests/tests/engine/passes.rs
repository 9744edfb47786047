//! Roots, seeds and inputs of a pass, and passes that fail.

use foldback_graph::{Backward, Function, GraphFacts, Kind, RequiresGrad, Var, backward};
use foldback_tensor::{refused, tensor};

use crate::{Failing, leaf};

#[test]
fn a_root_that_is_no_number_needs_a_seed() {
    assert!(refused!((leaf(&[1.0, 2.0]) * 1.0).backward(), GraphFacts::NotScalar { .. }));
}

#[test]
fn a_root_without_history_is_an_error() {
    assert!(refused!(Var::from(tensor![1.0]).backward(), GraphFacts::NoGraph { index: 0, .. }));
}

#[test]
fn several_roots_all_count() {
    let x = leaf(&[2.0]);
    let y = x.square();
    backward([&y, &y], Backward::new()).unwrap();
    assert_eq!(x.grad(), Some(tensor![8.0]), "the same root twice doubles");
    x.zero_grad();
    let y = x.square();
    let z = &y * 3.0;
    backward([&y, &z], Backward::new().seeds(&[&Var::from(tensor![10.0]), &Var::from(tensor![1.0])]))
        .unwrap();
    assert_eq!(x.grad(), Some(tensor![52.0]), "a root that another depends on");
    assert!(refused!(z.backward_with(Backward::new().seeds([] as [Var; 0])), GraphFacts::SeedCount { .. }));
    assert!(refused!(backward([] as [Var; 0], Backward::new()), GraphFacts::Empty { .. }));
}

#[test]
fn backward_limited_to_inputs() {
    let (x, w, unused) = (leaf(&[2.0]), leaf(&[5.0]), leaf(&[1.0]));
    let y = &x * &w;
    let z = y.square();
    z.backward_with(Backward::new().inputs([&x, &y, &unused])).unwrap();
    assert_eq!(x.grad(), Some(tensor![100.0]));
    assert_eq!(y.grad(), Some(tensor![20.0]), "results get a gradient, too");
    assert_eq!(w.grad(), None);
    assert_eq!(unused.grad(), None);
    assert!(refused!(z.backward_with(Backward::new().inputs([] as [Var; 0])), GraphFacts::Empty { .. }));
}

#[test]
fn buffers_are_summed_without_aliasing() {
    let (a, b) = (leaf(&[1.0, 1.0]), leaf(&[1.0, 1.0]));
    let seed = tensor![1.0, 2.0];
    let y = &a + &b;
    y.backward_with(&seed).unwrap();
    assert_eq!(seed, tensor![1.0, 2.0]);
    let mut first = a.grad().unwrap();
    first.mul_(100.0).unwrap();
    assert_eq!(b.grad(), Some(tensor![1.0, 2.0]));
    assert_eq!(a.grad(), Some(tensor![1.0, 2.0]));
    // and a second pass adds to one without touching the other
    (&a * 1.0).backward_with(&seed).unwrap();
    assert_eq!(a.grad(), Some(tensor![2.0, 4.0]));
    assert_eq!(b.grad(), Some(tensor![1.0, 2.0]));
    assert_eq!(seed, tensor![1.0, 2.0]);
}

#[test]
fn one_used_output_of_several() {
    let x = tensor![[1.0, 5.0], [7.0, 2.0]].requires_grad();
    let (values, _) = x.max_with_indices(1).unwrap();
    values.slice(0).unwrap().backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![[0.0, 1.0], [0.0, 0.0]]));
}

#[test]
fn a_failed_pass_leaves_gradients_unchanged_and_the_users_error_as_it_was() {
    let (x, w) = (leaf(&[1.0]), leaf(&[2.0]));
    w.set_grad(Some(tensor![7.0])).unwrap();
    let y = Failing.call([&x]).unwrap();
    let z = &y + &(&w * 3.0);
    let error = z.backward().unwrap_err();
    assert_eq!(error.kind(), Kind::User);
    assert_eq!(error.to_string(), "no way back");
    assert_eq!(x.grad(), None);
    assert_eq!(w.grad(), Some(tensor![7.0]));
}

/// What ran before the failure has given up its saved values.
#[test]
fn a_failed_pass_consumes_what_it_ran_unless_it_retains_it() {
    let x = leaf(&[3.0]);
    let y = Failing.call([&x]).unwrap();
    let z = y.square();
    for _ in 0..2 {
        let e = z.backward_with(Backward::new().retain_graph(true)).unwrap_err();
        assert_eq!(e.to_string(), "no way back");
    }
    assert_eq!(z.backward().unwrap_err().to_string(), "no way back");
    assert!(refused!(z.backward(), GraphFacts::Freed { op: "square", .. }));
}

#[test]
fn a_second_pass_goes_where_the_first_has_freed_nothing() {
    let x = leaf(&[2.0, 3.0]);
    // PyTorch keeps the index, the number and the input of the mean, and refuses.
    let pooled =
        (2.0 * x.gather(0, &tensor![1, 0; i64]).unwrap()).unsqueeze(0).unwrap().avg_pool1d(2).unwrap();
    let y = pooled.sum(..).unwrap();
    y.backward().unwrap();
    y.backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![2.0, 2.0]));
}
