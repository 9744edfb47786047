//! The derivatives of `gelu_tanh` in f32 were a fifth off at -5: `1 + tanh(u)` and `1 - tanh(u)^2` cancel there, and
//! `1 - sigmoid(x)` where x is large. The f64 results are the truth: golden cases hold them to PyTorch's.

use foldback_graph::{Grad, RequiresGrad, Result, Var};
use foldback_tensor::{DType, Tensor};

type Function = fn(&Var) -> Result<Var>;

/// The value and the first two derivatives at some points.
fn derivatives(f: Function, x: &Tensor) -> [Vec<f64>; 3] {
    let x = x.clone().requires_grad();
    let y = f(&x).unwrap();
    let ones = Var::from(x.value().ones_like());
    let pass = |y: &Var| Grad::new([y], [&x]).seeds(&[&ones]).create_graph(true).run().unwrap().remove(0);
    let first = pass(&y).expect("y depends on x");
    let second = pass(&first).expect("and so does its derivative");
    [&y, &first, &second].map(|v| v.value().to(DType::F64).to_vec::<f64>().unwrap())
}

/// The largest error of each derivative over [-10, 10], beside `relative` times the truth.
fn errors(f: Function, relative: f64) -> [(f64, f64); 3] {
    let x = Tensor::linspace(-10.0, 10.0, 401);
    let (found, truth) = (derivatives(f, &x), derivatives(f, &x.to(DType::F64)));
    let points = x.to_vec::<f32>().unwrap();
    [0, 1, 2].map(|order| {
        let error = |i: usize| {
            let (found, truth) = (found[order][i], truth[order][i]);
            ((found - truth).abs() - relative * truth.abs(), f64::from(points[i]))
        };
        (0..points.len()).map(error).max_by(|a, b| a.0.total_cmp(&b.0)).expect("there are points")
    })
}

#[test]
fn activations_keep_their_digits_where_they_are_small() {
    // The derivatives are sums that have zeros, near which a relative error means nothing: they lie within [-4, 4].
    let functions: [(&str, Function); 3] = [
        ("gelu_tanh", |x| x.try_gelu_tanh()),
        ("silu", |x| x.try_silu()),
        ("softplus", |x| x.try_softplus()),
    ];
    for (name, f) in functions {
        // An exponential of 87 has lost 7 bits to the rounding of its argument.
        for (order, (error, at)) in errors(f, 1e-4).into_iter().enumerate() {
            let allowed = if at.abs() < 4.0 { 1e-6 } else { 1e-37 };
            assert!(error < allowed, "{name}: derivative {order} is {error:e} off at {at}");
        }
    }
}

/// What is computed from a result that is rounded next to 1 has the absolute error of that result, as in PyTorch.
#[test]
fn functions_of_their_results_have_an_absolute_error() {
    let functions: [(&str, Function); 5] = [
        ("sigmoid", |x| Ok(x.sigmoid())),
        ("tanh", |x| Ok(x.tanh())),
        ("erf", |x| Ok(x.erf())),
        ("gelu", |x| x.try_gelu()),
        ("log1p", |x| Ok(x.square().log1p())),
    ];
    for (name, f) in functions {
        for (order, (error, at)) in errors(f, 1e-5).into_iter().enumerate() {
            assert!(error < 2e-6, "{name}: derivative {order} is {error:e} off at {at}");
        }
    }
}
