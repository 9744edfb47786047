//! `+ - * /` between variables, tensors and numbers.

use foldback_graph::Var;
use foldback_tensor::{Tensor, tensor};

use crate::leaf;

#[test]
fn operators_between_variables_tensors_and_numbers() {
    let (t, v) = (tensor![2.0], leaf(&[8.0]));
    let all = |x: &Var, y: &Tensor| {
        [
            (x + y, 10.0),
            (x.clone() + y.clone(), 10.0),
            (y + x, 10.0),
            (y.clone() + x.clone(), 10.0),
            (x - y, 6.0),
            (y - x.clone(), -6.0),
            (x * x, 64.0),
            (x.clone() * y, 16.0),
            (x / y, 4.0),
            (y / x, 0.25),
            (x + 1, 9.0),
            (1 + x, 9.0),
            (x - 1.0f32, 7.0),
            (1.0 - x, -7.0),
            (x * 3i64, 24.0),
            (3.0 * x.clone(), 24.0),
            (x / 4.0, 2.0),
            (4.0 / x, 0.5),
            (-x, -8.0),
            (-x.clone(), -8.0),
        ]
    };
    for (i, (y, want)) in all(&v, &t).into_iter().enumerate() {
        assert!(y.requires_grad(), "combination {i}");
        assert_eq!(y.value(), tensor![want], "combination {i}");
    }
    let mut y = &v * 1.0;
    y += &v;
    y -= 1.0;
    y *= &t;
    y /= t.clone();
    y += t.clone();
    assert_eq!(y.value(), tensor![17.0]);
    y.backward().unwrap();
    assert_eq!(v.grad(), Some(tensor![2.0]));
}

#[test]
#[should_panic(expected = "cannot broadcast [2] with [3]")]
fn operators_panic_with_the_text_of_the_error() {
    let _ = leaf(&[1.0, 2.0]) * tensor![1.0, 2.0, 3.0];
}

/// A value's panic has the words of its twin's error, under the name that was called.
#[test]
#[should_panic(expected = "powi: integers to negative integer powers are not allowed")]
fn values_panic_under_their_own_name() {
    let _ = Var::from(tensor![2; i64]).powi(-1);
}
