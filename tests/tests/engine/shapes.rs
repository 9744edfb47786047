//! Shapes and types of gradients.

use foldback_graph::{Grad, RequiresGrad, Var, grad};
use foldback_tensor::{DType, Tensor, s, tensor};

use crate::leaf;

#[test]
fn empty_broadcast_gives_zeros_not_an_error() {
    let a = Tensor::zeros([4, 0]).requires_grad();
    let b = Tensor::ones([4, 1]).requires_grad();
    (&a + &b).sum(..).unwrap().backward().unwrap();
    assert_eq!(a.grad().unwrap().dims(), [4, 0]);
    assert_eq!(b.grad(), Some(Tensor::zeros([4, 1])));
}

#[test]
fn seed_of_another_shape_is_an_error() {
    let y = leaf(&[1.0, 2.0]) * 2.0;
    let error = y.backward_with(&tensor![1.0]).unwrap_err().with_location(None).to_string();
    let text =
        "backward: the seed of output 0 has shape [1], the output [2]: a seed has the shape of its output";
    assert_eq!(error, text);
}

#[test]
fn where_broadcasts_three_ways_to_second_order() {
    let cond = Tensor::arange(125).reshape([5, 5, 5]).unwrap().pow(2).unwrap();
    let cond = Var::from(cond.slice((.., 0..1, ..)).unwrap().gt(3000).unwrap());
    let x = Tensor::linspace_with(-1.0, 1.0, 25, DType::F64).reshape([5, 5, 1]).unwrap().requires_grad();
    let number = Tensor::from(2.0).requires_grad();
    let y = cond.where_cond(&(&x * &x * &x), &number).unwrap();
    assert_eq!(y.shape(), [5, 5, 5]);
    let total = y.sum(..).unwrap();
    let first = Grad::new([&total], [&x, &number]).create_graph(true).run().unwrap();
    let (gx, gn) = (first[0].clone().unwrap(), first[1].clone().unwrap());
    assert_eq!((gx.shape(), gn.shape()), (x.shape(), number.shape()));
    let taken = cond.value().to(DType::F64).sum(..).unwrap().item_as::<f64>().unwrap() * 5.0;
    assert_eq!(gn.value().item_as::<f64>().unwrap(), 125.0 - taken);
    let second = grad(gx.sum(..).unwrap(), &x).unwrap();
    let per_row = cond.value().to(DType::F64).sum([1, 2]).unwrap();
    let want = x.value() * 6.0 * per_row.reshape([5, 1, 1]).unwrap();
    foldback_tensor::assert_close!(second.value(), want);
}

#[test]
fn a_value_assigned_into_a_row_gets_a_gradient_of_its_own_shape() {
    let v = leaf(&[1.0, 2.0, 3.0, 4.0]);
    let base = Tensor::zeros([3, 4]).requires_grad();
    let mut x = &base * 1.0;
    x.slice_assign(1, &v).unwrap();
    (&x * &x).sum(..).unwrap().backward().unwrap();
    assert_eq!(v.grad(), Some(tensor![2.0, 4.0, 6.0, 8.0]));
    assert_eq!(base.grad(), Some(Tensor::zeros([3, 4])));
}

#[test]
fn strided_seeds_and_operands_leave_dense_gradients() {
    let base = Tensor::arange_with(0..6, 1, DType::F32).reshape([2, 3]).unwrap();
    for seed in [
        tensor![2.0].expand([3, 2]).unwrap(),
        base.t(),
        Tensor::arange_with(0..24, 1, DType::F32).reshape([6, 4]).unwrap().slice(s![..;2, ..;2]).unwrap(),
    ] {
        let x = base.clone().requires_grad();
        let y = x.t() * 3.0;
        y.backward_with(&seed).unwrap();
        let g = x.grad().unwrap();
        assert!(g.is_contiguous());
        assert_eq!(g, seed.t() * 3.0);
    }
}

#[test]
fn a_cast_and_back_keeps_the_leafs_dtype() {
    let x = leaf(&[1.0, 2.0]);
    let y = x.to(DType::F64).square().to(DType::F32);
    y.sum(..).unwrap().backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![2.0, 4.0]));
}

#[test]
fn only_floats_require_gradients() {
    assert!(Var::leaf(tensor![1; i64]).is_err());
    assert!(Var::leaf(tensor![true; bool]).is_err());
    let x = leaf(&[1.0, 2.0]);
    assert!(!x.gt(1.5).unwrap().requires_grad());
    assert!(!x.to(DType::I64).requires_grad());
    let results = [
        x.argmax(0).unwrap(),
        x.argsort(0).unwrap(),
        x.sort(0).unwrap().1,
        x.max_with_indices(0).unwrap().1,
        x.count_nonzero(0).unwrap(),
        x.isnan(),
        x.eq(&x).unwrap(),
        x.any(..).unwrap(),
        x.bool().logical_not(),
        x.long().bitwise_not(),
    ];
    for (i, y) in results.iter().enumerate() {
        assert!(!y.dtype().is_float() && !y.requires_grad(), "{i}");
    }
}

#[test]
fn setting_a_gradient_of_another_shape_or_dtype_is_an_error() {
    let x = leaf(&[1.0, 2.0]);
    assert!(x.set_grad(Some(tensor![1.0])).is_err());
    assert!(x.set_grad(Some(tensor![1.0, 2.0; f64])).is_err());
    x.set_grad(Some(tensor![1.0, 2.0])).unwrap();
    assert_eq!(x.grad(), Some(tensor![1.0, 2.0]));
    assert!((&x * 2.0).set_grad(None).is_err());
}
