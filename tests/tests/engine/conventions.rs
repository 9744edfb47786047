//! Gradients at points without a derivative.

use foldback_graph::{RequiresGrad, Result, Var};
use foldback_tensor::{Tensor, tensor};

use crate::leaf;

#[test]
fn edge_gradients_follow_pytorchs_conventions() {
    let check = |x: &[f32], want: &[f32], f: &dyn Fn(&Var) -> Result<Var>| {
        let x = leaf(x);
        f(&x).unwrap().sum(..).unwrap().backward().unwrap();
        assert_eq!(x.grad().unwrap(), Tensor::from_slice(want, [want.len()]).unwrap());
    };
    check(&[1.0, 3.0, 3.0], &[0.0, 0.5, 0.5], &|x| x.amax(..));
    check(&[1.0, 3.0, 3.0], &[0.0, 1.0, 0.0], &|x| Ok(x.max_with_indices(0)?.0));
    check(&[0.0, -0.0], &[0.0, 0.0], &|x| x.try_relu());
    check(&[0.0], &[0.0], &|x| x.try_abs());
    check(&[2.0], &[0.5], &|x| x.maximum(2.0));
    check(&[0.0, 3.0, 0.0], &[0.0, 0.0, 0.0], &|x| x.prod(..));
    check(&[0.0, 3.0, 2.0], &[6.0, 0.0, 0.0], &|x| x.prod(..));
    check(&[0.0], &[f32::INFINITY], &|x| Ok(x.sqrt()));
    check(&[2.0, 2.0], &[0.0, 0.0], &|x| x.std(..));
    check(&[0.0], &[0.0], &|x| x.pow(0.0));
    check(&[0.0], &[0.0], &|x| Var::from(tensor![0.0]).pow(x));
    check(&[0.0], &[1.0], &|x| x.pow(1.0));
    check(&[-1.0, 0.0, 1.0], &[0.0, 1.0, 0.0], &|x| x.clamp(-1.0, 1.0));
}

/// A 0-d tensor of a wider type is rounded in the operation, and so it is in its gradient.
#[test]
fn a_tie_with_a_number_of_another_type() -> Result<()> {
    type Operation = fn(&Var, &Var) -> Result<Var>;
    let cases: [(Operation, [f32; 2], f64); 4] = [
        (|x, b| x.maximum(b), [-0.1875, 1.0], -0.1875),
        (|x, b| x.minimum(b), [-0.1875, 0.0], 0.8125),
        (|x, b| x.clamp_min(b), [-0.1875, 1.0], -0.1875),
        (|x, b| x.fmod(b), [-0.375, 1.0], -1.625),
    ];
    for (operation, gradient, of_number) in cases {
        let (x, b) = (leaf(&[0.295, 0.7]), tensor![0.295; f64].sum(..)?.requires_grad());
        operation(&x, &b)?.backward_with(&tensor![-0.375, 1.0])?;
        assert_eq!(x.grad(), Some(gradient.into()));
        assert_eq!(b.grad().unwrap().item_as::<f64>()?, of_number);
    }
    Ok(())
}

#[test]
fn duplicated_indices_add_up() {
    let x = leaf(&[1.0, 2.0]);
    x.index_select(0, &tensor![1, 1, 1; i64]).unwrap().sum(..).unwrap().backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![0.0, 3.0]));
}

#[test]
fn an_untaken_branch_leaks_no_nan() {
    let x = leaf(&[-1.0, 4.0]);
    let y = x.gt(0.0).unwrap().where_cond(x.sqrt(), 0.0).unwrap();
    y.sum(..).unwrap().backward().unwrap();
    let g = x.grad().unwrap().to_vec::<f32>().unwrap();
    assert_eq!(g[1], 0.25);
    // The branch itself is NaN there, and 0 times its NaN derivative is NaN, as in PyTorch; a safe argument helps.
    let x = leaf(&[-1.0, 4.0]);
    let positive = x.gt(0.0).unwrap();
    let safe = positive.where_cond(&x, 1.0).unwrap();
    let y = positive.where_cond(safe.sqrt(), 0.0).unwrap();
    y.sum(..).unwrap().backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![0.0, 0.25]));
}
