//! `assert_close!` and `assert_grads!` as a test of a user meets them: what they take, and what they say.

use std::panic::{AssertUnwindSafe, catch_unwind};

use foldback::gradcheck::testing::check_grads;
use foldback::prelude::*;

/// The message of a panic.
#[track_caller]
fn message(f: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(f)).expect_err("it must fail");
    *panic.downcast::<String>().expect("messages are strings")
}

#[test]
fn variables_are_compared_as_tensors_are() {
    let x = tensor![1.0, 2.0].requires_grad();
    assert_close!(&x * 2.0, tensor![2.0, 4.0]);
    assert_close!(tensor![1.0, 2.0], &x);
    assert_close!(x, x.detach(), atol = 0.0, rtol = 0.0);
    let e = message(|| assert_close!(x, &tensor![1.0, 2.5]));
    assert!(e.starts_with("assert_close!(x, &tensor![1.0, 2.5]): 1 of 2 elements are not close"), "{e}");
    assert!(message(|| assert_close!(&x, tensor![1.0, 2.0; f64])).contains("dtypes differ: f32 and f64"));
}

#[test]
fn gradients_are_those_of_the_sum_of_all_outputs() {
    let (a, b) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![10.0, 20.0]);
    assert_grads!(|x| x.square().sum(..), a => &a * 2.0);
    assert_grads!(|[a, b]| a.mul(b), a => tensor![[10.0, 20.0], [10.0, 20.0]], b => tensor![4.0, 6.0]);
    assert_grads!(|x| [x.exp(), x * 3.0], tensor![0.0] => tensor![4.0]);
    assert_grads!(|x| x.detach(), &b => tensor![0.0, 0.0]);
    assert_grads!(|x| x.sin(), 0.0 => Tensor::from(1.0f32));
    // What was recorded before is not gone through, and a leaf keeps its own gradient.
    let leaf = tensor![2.0].requires_grad();
    assert_grads!(|x| x.square(), leaf => tensor![4.0]; atol = 0.0, rtol = 0.0);
    assert_grads!(|x| x.square(), leaf => tensor![4.0], atol = 0.0, rtol = 0.0);
    assert_grads!(|[x, y]| x.mul(y), leaf => tensor![2.0], &leaf => tensor![2.0], rtol = 1e-3);
    assert_grads!(|[x, y]| x.mul(y), leaf => tensor![2.0], leaf => tensor![2.0],);
    assert_eq!(leaf.grad(), None);
}

#[test]
fn a_wrong_gradient_is_shown_in_columns() {
    let (x, y) = (tensor![1.0, 2.0, 3.0], tensor![1.0]);
    let e = message(|| assert_grads!(|[x, y]| x.mul(y), x => tensor![1.0, 1.0, 1.0], y => tensor![5.0]));
    assert_eq!(
        e,
        "assert_grads!: the gradient of y: 1 of 1 elements are not close (atol = 1e-5, rtol = 1.3e-6)\n    \
         worst at index [0]: 6.0 against the expected 5.0, difference 1.0"
    );
    let e = message(|| assert_grads!(|x| x.square(), x => tensor![2.0, 4.5, 10.0]));
    let columns = "\n        index  actual  expected  difference\
                   \n        [1]       4.0       4.5  0.5\
                   \n        [2]       6.0      10.0  4.0  <- worst";
    assert!(e.ends_with(columns), "{e}");
    let e =
        check_grads(|[x, y]: &[Var; 2]| x.mul(y), [&x, &y], &[("x", &y)], &Default::default()).unwrap_err();
    assert_eq!(e.to_string(), "1 expected gradient for 2 inputs: give one for each");
    let e = message(|| assert_grads!(|x| x.matmul(tensor![[1.0]]), x => tensor![1.0]));
    assert!(e.starts_with("assert_grads!: matmul: "), "{e}");
    let e = message(|| assert_grads!(|x| x.square(), x => tensor![[2.0, 4.0, 6.0]]));
    assert!(e.contains("the gradient of x: shapes differ: [3] and [1, 3]"), "{e}");
}
