//! Ten faults that people plant in such an operation: each is found, and said in words.

use foldback::graph::Operation;
use foldback::prelude::*;

/// `exp(-b)`, of what the operation kept.
fn slope(b: Var) -> Var {
    b.neg().exp()
}

/// What is said of `damped` with this backward function, for two matrices.
macro_rules! said {
    ($backward:expr) => {
        said!($backward, gradcheck, [tensor![[0.3, -1.2], [1.9, 0.4]; f64], tensor![[0.5, -0.7], [-0.2, 1.1]; f64]])
    };
    ($backward:expr, $check:ident, $inputs:expr) => {{
        let op = Operation::new("damped", |[a, b]| a.mul(b.neg().exp()), $backward).saves_inputs();
        $check(|x| op.call([&x[0], &x[1]]), &$inputs).expect_err("a fault was planted").to_string()
    }};
}

/// Panics unless the text has the words and names the operation and this file.
#[track_caller]
fn says(text: &str, words: &str) {
    assert!(text.contains(words), "{text}");
    assert!(text.contains("the gradient of damped is wrong, recorded at tests/faults.rs:"), "{text}");
}

#[test]
fn a_sign() {
    let text = said!(|ctx, [g]| [&g * slope(ctx.input(1)), &g * ctx.input(0) * slope(ctx.input(1))]);
    says(&text, "its sign is flipped; wrong everywhere, in 4 of 4 elements");
}

#[test]
fn a_factor() {
    let text = said!(|ctx, [g]| [&g * slope(ctx.input(1)) * 2.0, -(&g * ctx.input(0) * slope(ctx.input(1)))]);
    says(&text, "it is 2 times what it should be");
}

#[test]
fn a_gradient_that_is_forgotten() {
    let text = said!(|ctx, [g]| [&g * slope(ctx.input(1)), &g * 0.0]);
    says(&text, "it is zero");
}

#[test]
fn an_incoming_gradient_that_is_ignored() {
    let text = said!(|ctx, [g]| [slope(ctx.input(1)), -(&g * ctx.input(0) * slope(ctx.input(1)))]);
    says(&text, "it ignores the incoming gradient");
}

#[test]
fn a_constant() {
    let text =
        said!(|ctx, [g]| [&g * slope(ctx.input(1)) + 0.5, -(&g * ctx.input(0) * slope(ctx.input(1)))]);
    says(&text, "0.5 was added to it everywhere");
}

#[test]
fn gradients_in_each_others_place() {
    let text = said!(|ctx, [g]| [-(&g * ctx.input(0) * slope(ctx.input(1))), &g * slope(ctx.input(1))]);
    says(&text, "it is the gradient of input 1: the gradients are swapped");
}

#[test]
fn an_operand_that_is_transposed() {
    let text =
        said!(|ctx, [g]| [(&g * slope(ctx.input(1))).t(), -(&g * ctx.input(0) * slope(ctx.input(1)))]);
    says(&text, "it is transposed: axes 0 and 1 are swapped");
}

#[test]
fn only_where_an_input_is_negative() {
    let text = said!(|ctx, [g]| {
        let b = ctx.input(1);
        let leaky = b.gt(0.0).unwrap().where_cond(1.0, &tensor![0.2; f64]).unwrap();
        [&g * slope(b.clone()), -(&g * ctx.input(0) * slope(b) * leaky)]
    });
    says(&text, "it is 1/5 of what it should be; wrong only where the input is negative, in 2 of 4 elements");
}

#[test]
fn a_row_in_the_place_of_the_sum_of_the_rows() {
    let text = said!(
        |ctx, [g]| {
            let full = -(&g * ctx.input(0) * slope(ctx.input(1)));
            [&g * slope(ctx.input(1)), full.select(0, 1).unwrap()]
        },
        gradcheck,
        [tensor![[0.3, -1.2], [1.9, 0.4]; f64], tensor![0.5, -0.7; f64]]
    );
    says(&text, "it counts index 1 of the output's axis 0 alone");
}

#[test]
fn a_second_order_that_is_missing() {
    let text = said!(
        |ctx, [g]| {
            let slope = slope(ctx.input(1)).detach();
            [&g * &slope, -(&g * ctx.input(0).detach() * &slope)]
        },
        gradgradcheck,
        [tensor![0.3, -1.2; f64], tensor![0.5, -0.7; f64]]
    );
    assert!(text.contains("the second order is missing"), "{text}");
}
