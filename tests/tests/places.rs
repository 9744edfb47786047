//! Traps of shape and index operations, in which other libraries have been caught.

use foldback_graph::{RequiresGrad, Result, Var, grad};
use foldback_tensor::{DType, Kind, Pad, Tensor, ThreadPool, s, tensor};

/// The gradients of the sum of `y` times a weight that differs for every element.
#[track_caller]
fn weighted<const N: usize>(y: Result<Var>, inputs: [&Var; N]) -> [Tensor; N] {
    let y = y.unwrap();
    let weight = Tensor::arange(1..1 + y.numel() as i64).reshape(y.shape()).unwrap().to(y.dtype());
    grad((&y * &weight).sum(..).unwrap(), inputs).unwrap().map(|g| g.value())
}

#[test]
fn the_gradients_of_scatter_and_scatter_add_are_not_swapped() {
    let (x, source) = (tensor![1.0, 2.0, 3.0].requires_grad(), tensor![10.0, 20.0].requires_grad());
    let i = tensor![2, 0; i64];
    // What was written over has no gradient; what was added to keeps its own.
    assert_eq!(
        weighted(x.scatter(0, &i, &source), [&x, &source]),
        [tensor![0.0, 2.0, 0.0], tensor![3.0, 1.0]]
    );
    assert_eq!(
        weighted(x.scatter_add(0, &i, &source), [&x, &source]),
        [tensor![1.0, 2.0, 3.0], tensor![3.0, 1.0]]
    );
    assert_eq!(weighted(x.scatter(0, &i, 7), [&x]), [tensor![0.0, 2.0, 0.0]]);
}

#[test]
fn what_was_written_over_by_a_later_element_has_no_gradient() {
    let source = tensor![1.0, 2.0, 3.0].requires_grad();
    let i = tensor![1, 1, 0; i64];
    let zeros = Var::from(Tensor::zeros(2));
    assert_eq!(weighted(zeros.scatter(0, &i, &source), [&source]), [tensor![0.0, 2.0, 1.0]]);
    let mut y = zeros.clone();
    y.slice_assign(&i, &source).unwrap();
    assert_eq!(y.value(), tensor![3.0, 2.0]);
    assert_eq!(weighted(Ok(y), [&source]), [tensor![0.0, 2.0, 1.0]]);
    // One number for several places: each of them counts that it remains in.
    let number = Tensor::scalar(5.0).requires_grad();
    let mut y = zeros.clone();
    y.slice_assign(&i, &number).unwrap();
    assert_eq!(weighted(Ok(y), [&number]), [Tensor::scalar(3.0)]);
    let mut y = zeros;
    y.slice_add(&i, &source).unwrap();
    assert_eq!(weighted(Ok(y), [&source]), [tensor![2.0, 2.0, 1.0]]);
}

#[test]
fn cat_counts_the_inputs_that_are_not_tracked() {
    let (a, b) = (tensor![1.0].requires_grad(), tensor![4.0, 5.0].requires_grad());
    let middle = tensor![2.0, 3.0];
    let list = [a.clone(), Var::from(&middle), b.clone()];
    assert_eq!(weighted(Var::cat(&list, 0), [&a, &b]), [tensor![1.0], tensor![4.0, 5.0]]);
}

#[test]
fn the_gradient_of_repeat_keeps_the_axis() {
    let x = tensor![[1.0, 2.0], [3.0, 4.0]].requires_grad();
    assert_eq!(weighted(x.repeat([2, 1]), [&x]), [tensor![[6.0, 8.0], [10.0, 12.0]]]);
    assert_eq!(weighted(x.repeat([1, 2]), [&x]), [tensor![[4.0, 6.0], [12.0, 14.0]]]);
    assert_eq!(weighted(x.repeat_interleave(2, 1), [&x]), [tensor![[3.0, 7.0], [11.0, 15.0]]]);
    let g = weighted(x.repeat_interleave(tensor![0, 2; i64], 0), [&x]);
    assert_eq!(g, [tensor![[0.0, 0.0], [4.0, 6.0]]]);
}

#[test]
fn along_all_elements_as_a_row() {
    let x = tensor![[1.0, 2.0], [3.0, 4.0]].t().requires_grad();
    let y = x.repeat_interleave(tensor![0, 2, 1, 0; i64], ..).unwrap();
    assert_eq!(y.value(), tensor![3.0, 3.0, 2.0]);
    assert_eq!(weighted(Ok(y), [&x]), [tensor![[0.0, 3.0], [3.0, 0.0]]]);
    let y = x.take_along_dim(tensor![[3, 1], [1, 0]; i64].t(), ..).unwrap();
    assert_eq!(y.value(), tensor![4.0, 3.0, 3.0, 1.0]);
    assert_eq!(weighted(Ok(y), [&x]), [tensor![[4.0, 5.0], [0.0, 1.0]]]);
    for outside in [4i64, -1] {
        let e = x.take_along_dim(Tensor::from(vec![outside]), ..).unwrap_err().to_string();
        assert!(e.starts_with(&format!("take_along_dim: index {outside} is out of bounds")), "{e}");
    }
    let e = x.repeat_interleave(-1, ..).unwrap_err().to_string();
    assert!(e.starts_with("repeat_interleave: repeats = -1"), "{e}");
}

#[test]
fn masks_of_what_is_not_contiguous() {
    let x = tensor![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]].requires_grad();
    let t = x.t();
    let picked = t.masked_select(t.gt(3).unwrap()).unwrap();
    assert_eq!(picked.value(), tensor![4.0, 5.0, 6.0]);
    assert_eq!(weighted(Ok(picked), [&x]), [tensor![[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]]]);
    let wide = tensor![1.0, 2.0].requires_grad();
    let picked = wide.masked_select(tensor![[true, false], [true, true]]);
    assert_eq!(weighted(picked, [&wide]), [tensor![1.0 + 2.0, 3.0]]);
    // Nothing of what is replaced leaks, NaN neither.
    let x = tensor![f32::NAN, 0.0].requires_grad();
    let y = x.sqrt().masked_fill(tensor![true, true], 0).unwrap();
    assert_eq!(weighted(y.slice(tensor![1; i64]), [&y]), [tensor![0.0, 1.0]]);
}

#[test]
fn words_of_an_index_that_is_out_of_range() {
    let x = tensor![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]].requires_grad();
    let i = tensor![[1], [2]; i64];
    let cases = [
        (x.gather(1, &i), "gather: index 2 is out of bounds for axis 1 of size 2"),
        (x.scatter(1, &i, 0), "scatter: index 2 is out of bounds for axis 1 of size 2"),
        (
            x.index_select(-1, tensor![-1; i64]),
            "index_select: index -1 is out of bounds for axis 1 of size 2",
        ),
        (x.slice(s![.., &i]), "slice: index 2 is out of bounds for axis 1 of size 2"),
        (x.slice(s![tensor![-4; i64]]), "slice: index -4 is out of bounds for axis 0 of size 3"),
        (
            x.take_along_dim(tensor![[2]; i64], 1),
            "take_along_dim: index 2 is out of bounds for axis 1 of size 2",
        ),
    ];
    for (result, words) in cases {
        let e = result.unwrap_err();
        assert_eq!(e.kind(), Kind::Index);
        assert!(e.to_string().starts_with(words), "{e}");
    }
}

#[test]
fn negative_indices_wrap_where_pytorch_wraps_them() {
    let x = tensor![1.0, 2.0, 3.0].requires_grad();
    let last = tensor![-1, -3; i64];
    assert_eq!(x.slice(&last).unwrap().value(), tensor![3.0, 1.0]);
    assert_eq!(x.take_along_dim(&last, 0).unwrap().value(), tensor![3.0, 1.0]);
    assert_eq!(weighted(x.slice(&last), [&x]), [tensor![2.0, 0.0, 1.0]]);
    for refused in [x.gather(0, &last), x.index_select(0, &last), x.scatter(0, &last, 0)] {
        assert_eq!(refused.unwrap_err().kind(), Kind::Index);
    }
    assert!(x.index_add(0, &last, tensor![1.0, 1.0]).is_err());
}

#[test]
fn empty_indices_and_empty_tensors() {
    let x = tensor![[1.0, 2.0], [3.0, 4.0]].requires_grad();
    let none = Tensor::zeros_with(0, DType::I64);
    assert_eq!(weighted(x.slice(s![.., &none]), [&x]), [Tensor::zeros([2, 2])]);
    assert_eq!(weighted(x.masked_select(false), [&x]), [Tensor::zeros([2, 2])]);
    assert_eq!(weighted(x.repeat([0, 1]), [&x]), [Tensor::zeros([2, 2])]);
    assert_eq!(weighted(x.pad([-2, 0]), [&x]), [Tensor::zeros([2, 2])]);
    assert_eq!(weighted(x.unfold(0, 0, 1), [&x]), [Tensor::zeros([2, 2])]);
    assert_eq!(weighted(x.diagonal_with(7, 0, 1), [&x]), [Tensor::zeros([2, 2])]);
    let mut y = &x * 1.0;
    y.slice_assign(&none, Tensor::zeros([0, 2])).unwrap();
    y.slice_add(tensor![false, false], 7).unwrap();
    assert_eq!(weighted(Ok(y), [&x]), [tensor![[1.0, 2.0], [3.0, 4.0]]]);
    let nothing = Tensor::zeros([0, 2]).requires_grad();
    assert_eq!(weighted(nothing.pad([0, 0, 1, 0]), [&nothing]), [Tensor::zeros([0, 2])]);
    assert_eq!(nothing.slice(&none).unwrap().shape(), [0, 2]);
}

/// Sums at repeated places have one order, however many threads there are.
#[test]
fn gradients_have_the_same_bits_for_any_number_of_threads() {
    let n = 40_000usize;
    let values: Vec<f32> = (0..n * 3).map(|i| ((i * 7919 % 1000) as f32 - 500.0) * 1e-3).collect();
    let x = Tensor::from_vec(values, (n, 3)).unwrap();
    let ids = Tensor::from_vec((0..n).map(|i| (i * i % 97) as i64).collect::<Vec<_>>(), n).unwrap();
    let run = || {
        let x = x.clone().requires_grad();
        let rows = x.narrow(0, 0, 97).unwrap();
        let picked = rows.slice(s![&ids, tensor![2; i64]]).unwrap();
        let mut sums = rows.clone();
        sums.slice_add(&ids, &x).unwrap();
        let around = x.slice(&ids).unwrap().t().pad_with([9, 9], Pad::Reflect).unwrap();
        let windows = x.unfold(0, 5, 2).unwrap();
        let parts =
            [picked.exp().sum(..), sums.exp().sum(..), around.square().sum(..), windows.square().sum(..)];
        parts.map(|y| grad(y.unwrap(), &x).unwrap().value().to_vec::<f32>().unwrap())
    };
    let bits = |n| {
        let pool = ThreadPool::new(n);
        pool.install(run).map(|g| g.iter().map(|v| v.to_bits()).collect::<Vec<_>>())
    };
    let one = bits(1);
    for threads in [2, 3, 8] {
        assert_eq!(bits(threads), one, "{threads} threads");
    }
}
