//! Broadcasting, and inputs that stand in several places.

use foldback_graph::{RequiresGrad, Result, Var};
use foldback_nn::loss::mse_loss;
use foldback_tensor::{DType, Tensor, s, tensor};

use crate::{all, grads, same};

// Libraries that store gradients by input kept only the last of two.
#[test]
fn one_variable_on_both_sides() {
    let x = || tensor![-3.0, 2.0; f64];
    let [g] = grads([x()], |[x]| x.mul(x));
    same(&g, tensor![-6.0, 4.0; f64]);
    for f in [|x: &Var| x.minimum(x), |x: &Var| x.maximum(x)] {
        let [g] = grads([x()], |[x]| f(x));
        same(&g, tensor![1.0, 1.0; f64]);
    }
    let [g] = grads([x()], |[x]| x.sub(x));
    same(&g, tensor![0.0, 0.0; f64]);
    let [g] = grads([x()], |[x]| x.div(x));
    same(&g, tensor![0.0, 0.0; f64]);
    let square = tensor![[1.0, 2.0], [3.0, 4.0]; f64];
    let [g] = grads([square], |[x]| x.matmul(x));
    same(&g, tensor![[7.0, 11.0], [9.0, 13.0]; f64]);
}

// The fold of one use went to the accumulated gradient of all uses.
#[test]
fn one_variable_in_two_shapes() {
    let wide = tensor![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
    // x + x[:, None] * wide, and x once more as it is
    let [x, wide] = grads([tensor![10.0, 20.0], wide], |[x, wide]| {
        let column = x.unsqueeze(1)?;
        all(&x.mul(x)?).add(&column.mul(wide)?.add(&column)?)
    });
    // x * x is broadcast to all six elements
    same(&x, tensor![120.0 + 6.0 + 3.0, 240.0 + 15.0 + 3.0]);
    same(&wide, tensor![[10.0, 10.0, 10.0], [20.0, 20.0, 20.0]]);
}

// A gradient written into the slice's place overwrote that of the whole.
#[test]
fn a_row_of_itself_times_itself() {
    let [g] = grads([tensor![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]], |[x]| x.select(0, 1)?.mul(x));
    // every row gets row 1; row 1 gets the sum of all rows besides
    same(&g, tensor![[3.0, 4.0], [3.0 + 9.0, 4.0 + 12.0], [3.0, 4.0]]);
    let [g] = grads([tensor![[1.0, 2.0], [3.0, 4.0]]], |[x]| x.mul(&x.slice(s![.., 1..2])?));
    same(&g, tensor![[2.0, 2.0 + 1.0 + 2.0], [4.0, 4.0 + 3.0 + 4.0]]);
}

// Offsets counted the tracked inputs only, so the last gradient was cut from the wrong place.
#[test]
fn cat_with_an_untracked_middle() {
    for axis in [0, 1, -1] {
        let (a, c) = (tensor![[1.0, 2.0]].requires_grad(), tensor![[3.0, 4.0]].requires_grad());
        let middle = Var::from(if axis == 0 { tensor![[8.0, 9.0], [8.0, 9.0]] } else { tensor![[8.0]] });
        let y = Var::cat(&[&a, &middle, &c], axis).unwrap();
        let seed = Tensor::arange_with(1..(1 + y.numel() as i64), 1, DType::F32).reshape(y.shape()).unwrap();
        y.backward_with(&seed).unwrap();
        same(&a.grad().unwrap(), tensor![[1.0, 2.0]]);
        same(&c.grad().unwrap(), if axis == 0 { tensor![[7.0, 8.0]] } else { tensor![[4.0, 5.0]] });
    }
    let (a, c) = (tensor![1.0].requires_grad(), tensor![2.0].requires_grad());
    let y = Var::stack(&[&a, &Var::from(tensor![0.0]), &c], 1).unwrap();
    y.backward_with(&tensor![[5.0, 6.0, 7.0]]).unwrap();
    assert_eq!((a.grad(), c.grad()), (Some(tensor![5.0]), Some(tensor![7.0])));
}

// A vector on the right lost an axis on its way back; a 0-d factor got the gradient of a whole matrix.
#[test]
fn a_product_that_meets_a_number() {
    let (row, column) = (tensor![[1.0, 2.0]], tensor![3.0, 4.0]);
    let [a, b, n] = grads([row, column, Tensor::scalar(5.0f32)], |[a, b, n]| {
        let y = a.matmul(b)?;
        assert_eq!(y.shape(), [1]);
        y.mul(n)?.reshape(())
    });
    same(&a, tensor![[15.0, 20.0]]);
    same(&b, tensor![5.0, 10.0]);
    same(&n, Tensor::scalar(11.0f32));
    // the number first, and a number that is also a leaf of the result
    let [a, n] = grads([tensor![[1.0, 2.0]], Tensor::scalar(5.0f32)], |[a, n]| {
        n.mul(a)?.matmul(&tensor![3.0, 4.0])?.mul(n)
    });
    same(&a, tensor![[75.0, 100.0]]);
    same(&n, Tensor::scalar(110.0f32));
}

// Predictions (n, 1) against targets (n) became (n, n) without a word, and the model learned the mean.
#[test]
fn a_column_against_a_row_in_a_loss() {
    let prediction = tensor![[1.0], [2.0], [3.0]].requires_grad();
    for target in [tensor![[1.0, 2.0, 3.0]], tensor![1.0, 2.0, 3.0]] {
        let error = mse_loss(&prediction, &target).unwrap_err().to_string();
        for part in ["mse_loss", "[3, 1]", &format!("{}", target.shape())] {
            assert!(error.contains(part), "{part:?} is missing from {error:?}");
        }
    }
    assert_eq!(prediction.grad(), None);
    // Asked for in so many words, it is a broadcast like any other.
    let d = prediction.sub(&tensor![[1.0, 2.0, 3.0]]).unwrap();
    all(&d.square()).backward().unwrap();
    same(&prediction.grad().unwrap(), tensor![[-6.0], [0.0], [6.0]]);
}

// The divisor's gradient kept the numerator's shape.
#[test]
fn division_by_a_row() {
    let a = tensor![[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]; f64];
    let b = tensor![1.0, 2.0, 4.0, 8.0; f64];
    let [a, b] = grads([a, b], |[a, b]| a.div(b));
    same(&a, tensor![[1.0, 0.5, 0.25, 0.125], [1.0, 0.5, 0.25, 0.125]; f64]);
    same(&b, tensor![-6.0, -2.0, -0.625, -0.1875; f64]);
}

/// The gradients of `f(x[1:], w)`, summed with a seed that differs everywhere, against those with `w` spelt out per batch.
#[track_caller]
fn check_across_batch(f: impl Fn(&Var, &Var) -> Result<Var>, w: Tensor) {
    let count = |shape: &[usize]| {
        let n = shape.iter().product::<usize>() as i64;
        Tensor::arange_with(1..(1 + n), 1, DType::F64).reshape(shape).unwrap()
    };
    let x = count(&[4, 2, 2]).requires_grad();
    let batch = x.slice(1..).unwrap();
    let w = w.requires_grad();
    let y = f(&batch, &w).unwrap();
    let seed = count(y.shape().dims());
    y.backward_with(&seed).unwrap();
    let (mut want_x, mut want_w) = (Tensor::zeros_with([4, 2, 2], DType::F64), w.value().zeros_like());
    for i in 0..3usize {
        let item = x.value().select(0, i + 1).unwrap().requires_grad();
        let alone = w.value().reshape(w.value().dims()[1..].to_vec()).unwrap().requires_grad();
        f(&item, &alone).unwrap().backward_with(seed.select(0, i).unwrap()).unwrap();
        want_x.slice_assign(i + 1, item.grad().unwrap()).unwrap();
        want_w.add_(alone.grad().unwrap()).unwrap();
    }
    same(&x.grad().unwrap(), want_x);
    same(&w.grad().unwrap(), want_w);
}

// Some operations folded the batch axis and others did not; behind a slice the wrong batch was folded.
#[test]
fn broadcast_across_the_batch() {
    // powers of two, so that quotients are exact
    let weights =
        [tensor![[[1.0, 2.0], [4.0, 8.0]]; f64], tensor![[[2.0, 4.0]]; f64], tensor![[[2.0], [8.0]]; f64]];
    for w in weights {
        check_across_batch(|x, w| x.sub(w), w.clone());
        check_across_batch(|x, w| w.sub(x), w.clone());
        check_across_batch(|x, w| x.mul(w), w.clone());
        check_across_batch(|x, w| x.div(w), w.clone());
        check_across_batch(|x, w| x.gt(8.0)?.where_cond(x, w), w.clone());
        check_across_batch(|x, w| x.gt(8.0)?.where_cond(w, x), w.clone());
    }
    check_across_batch(|x, w| x.matmul(w), tensor![[[1.0, 2.0], [4.0, 8.0]]; f64]);
    check_across_batch(|x, w| w.matmul(x), tensor![[[1.0, 2.0], [4.0, 8.0]]; f64]);
    check_across_batch(|x, w| x.matmul(w), tensor![[[3.0], [5.0]]; f64]);
}
