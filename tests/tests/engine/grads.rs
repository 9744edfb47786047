//! Gradients as values: `grad`, `Grad`.

use foldback_graph::{Backward, Function, Grad, GraphFacts, RequiresGrad, Var, grad, grad_with};
use foldback_tensor::{Tensor, refused, tensor};

use crate::{Failing, leaf};

#[test]
fn grad_of_first_and_second_order_leaves_grad_untouched() {
    let x = Tensor::from(0.7).requires_grad();
    let y = x.sin() * &x;
    let first = grad_with(&y, &x, Backward::new().create_graph(true)).unwrap();
    let second = grad_with(&first, &x, Backward::new().create_graph(true)).unwrap();
    let third = grad(&second, &x).unwrap();
    let (s, c) = (0.7f64.sin(), 0.7f64.cos());
    for (got, want) in [(first, c * 0.7 + s), (second, 2.0 * c - s * 0.7), (third, -3.0 * s - 0.7 * c)] {
        assert!((got.value().item_as::<f64>().unwrap() - want).abs() < 1e-12);
    }
    assert_eq!(x.grad(), None);
}

#[test]
fn grad_of_results_repeatedly() {
    let x = leaf(&[2.0]);
    let y = x.square();
    let z = y.square();
    for _ in 0..2 {
        let g = Grad::new([&z], [&y, &x]).retain_graph(true).run().unwrap();
        assert_eq!(g[0].as_ref().unwrap().value(), tensor![8.0]);
        assert_eq!(g[1].as_ref().unwrap().value(), tensor![32.0]);
    }
    let g = grad(&z, &z).unwrap();
    assert_eq!(g.value(), tensor![1.0], "the gradient of a root is its seed");
}

#[test]
fn grad_by_several_outputs_of_one_node_and_of_several_roots() {
    let x = leaf(&[1.0, 2.0, 3.0]);
    let (var, mean) = x.var_mean(0).unwrap();
    let z = &var * &mean;
    let [by_var, by_mean] = grad_with(&z, [&var, &mean], Backward::new().retain_graph(true)).unwrap();
    assert_eq!((by_var.value(), by_mean.value()), (mean.value(), var.value()));
    let both = Grad::new([&var, &mean], &x).seeds([0.0, 3.0]).run().unwrap();
    assert_eq!(both[0].as_ref().unwrap().value(), tensor![1.0, 1.0, 1.0]);
}

#[test]
fn a_stack_of_slices_keeps_its_graph() {
    let x = leaf(&[1.0, 2.0, 3.0]);
    let parts: Vec<Var> = (0..3).map(|i| x.slice(i).unwrap()).collect();
    let slope = grad_with(
        Var::stack(&parts, 0).unwrap().pow(3).unwrap().sum(..).unwrap(),
        &x,
        Backward::new().create_graph(true),
    )
    .unwrap();
    assert_eq!(slope.value(), tensor![3.0, 12.0, 27.0]);
    assert_eq!(grad(slope.sum(..).unwrap(), &x).unwrap().value(), tensor![6.0, 12.0, 18.0]);
}

#[test]
fn the_second_derivative_of_a_quotient_whose_numerator_depends_on_x() {
    let x = tensor![0.5, 2.0; f64].requires_grad();
    let y = x.exp().div(x.square()).unwrap(); // (e^x / x^2)'' = e^x (x^2 - 4x + 6) / x^4
    let slope = grad_with(y.sum(..).unwrap(), &x, Backward::new().create_graph(true)).unwrap();
    let second = grad(slope.sum(..).unwrap(), &x).unwrap().value();
    let v = x.value();
    let want = v.exp() * (v.square() - &v * 4.0 + 6.0) / v.pow(4).unwrap();
    foldback_tensor::assert_close!(second, want);
}

#[test]
fn an_unused_input_is_an_error_none_or_zeros() {
    let (x, unused) = (leaf(&[2.0]), leaf(&[1.0, 1.0]));
    let y = x.square();
    let run = |g: Grad| g.retain_graph(true).run();
    assert!(refused!(run(Grad::new([&y], [&x, &unused])), GraphFacts::Unused { index: 1 }));
    let g = run(Grad::new([&y], [&x, &unused]).allow_unused(true)).unwrap();
    assert!(g[1].is_none());
    let g = run(Grad::new([&y], [&x, &unused]).materialize_grads(true)).unwrap();
    assert_eq!(g[1].as_ref().unwrap().value(), tensor![0.0, 0.0]);
    assert!(refused!(Grad::new(&y, [&x; 0]).run(), GraphFacts::Empty { .. }));
    assert!(refused!(Grad::new([&y], [&x.detach()]).run(), GraphFacts::InputWithoutGrad { .. }));
}

#[test]
fn nodes_off_the_path_are_not_run() {
    let (x, w) = (leaf(&[1.0]), leaf(&[1.0]));
    let y = Failing.call([&w]).unwrap() + &x;
    assert_eq!(grad(&y, &[&x]).unwrap()[0].value(), tensor![1.0]);
}
