//! Gradients at points without a derivative.

use foldback_graph::{Result, Var};
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
