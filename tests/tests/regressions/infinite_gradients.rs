//! Infinite gradients: 0 times one is NaN, so whether a rule selects or multiplies shows. What PyTorch 2.15 selects is
//! selected here, at first and second order; `max()` and `min()` multiplied, and so did the product of several zeros.

use foldback_graph::{Backward, Grad, RequiresGrad, Result, Var, grad, grad_with};
use foldback_nn::loss::{BCELoss, BCEWithLogitsLoss, MSELoss, Reduction};
use foldback_tensor::{DType, Tensor, tensor};

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

type Operation = fn(&Var) -> Result<Var>;

fn same(found: &Tensor, want: &[f64]) -> bool {
    let found = found.to_vec::<f64>().unwrap();
    found.len() == want.len() && found.iter().zip(want).all(|(a, b)| a == b || (a.is_nan() && b.is_nan()))
}

/// The gradient for an infinite seed, and what an infinite gradient of the gradient makes of a seed of 1.
fn check(name: &str, f: Operation, x: &[f64], first: &[f64], seed: &[f64]) {
    let x = Tensor::from_slice(x, [x.len()]).unwrap().requires_grad();
    let y = f(&x).unwrap();
    let infinite = |like: &Var| Var::from(Tensor::full_with(like.shape(), INF, like.dtype()));
    for create in [true, false] {
        let ones = Tensor::ones_with(y.shape(), y.dtype()).requires_grad();
        if create {
            let g = grad_with(&y, &x, Backward::new().seed(&ones).create_graph(true)).unwrap();
            let second = if g.requires_grad() {
                grad_with(&g, &ones, Backward::new().seed(infinite(&g))).unwrap()
            } else {
                Var::from(Tensor::zeros_with(y.shape(), y.dtype()))
            };
            assert!(same(&second.value(), seed), "{name}, second order: {second} instead of {seed:?}");
        }
        let g = Grad::new([&y], [&x]).seeds(&[&infinite(&y)]).create_graph(create).run();
        let g = g.unwrap().remove(0).unwrap();
        assert!(same(&g.value(), first), "{name}: {g} instead of {first:?}");
    }
}

#[test]
fn elements_that_did_not_win_get_zero() {
    check("max", |x| x.max(..), &[1.0, 3.0, 3.0, 2.0], &[0.0, INF, INF, 0.0], &[INF]);
    check("min", |x| x.min(..), &[1.0, 1.0, 3.0, 2.0], &[INF, INF, 0.0, 0.0], &[INF]);
    check("max of NaN", |x| x.max(..), &[1.0, NAN, 3.0, NAN], &[0.0, INF, 0.0, INF], &[INF]);
    check("along an axis", |x| Ok(x.max_with_indices(0)?.0), &[1.0, 3.0, 3.0], &[0.0, INF, 0.0], &[INF]);
    let x = tensor![0.0, 4.0, 9.0; f64].requires_grad();
    x.min(..).unwrap().sqrt().backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![INF, 0.0, 0.0; f64]));
}

#[test]
fn amax_multiplies_as_pytorch_does() {
    check("amax", |x| x.amax(0), &[1.0, 3.0, 2.0], &[NAN, INF, NAN], &[NAN]);
    check("amin", |x| x.amin(0), &[1.0, 3.0, 2.0], &[INF, NAN, NAN], &[NAN]);
}

#[test]
fn pointwise_operations_select() {
    let zero = &[-1.0, 0.0, 0.5];
    let both = |name, f, want: &[f64; 3]| check(name, f, zero, want, want);
    both("relu", |x| x.try_relu(), &[0.0, 0.0, INF]);
    both("clamp_min", |x| x.clamp_min(0.0), &[0.0, 0.0, INF]);
    both("clamp_max", |x| x.clamp_max(0.0), &[INF, 0.0, 0.0]);
    both("clamp_min, a tensor", |x| x.clamp_min(Tensor::from(0.0)), &[0.0, INF, INF]);
    both("maximum", |x| x.maximum(0.0), &[0.0, INF, INF]);
    both("minimum", |x| x.minimum(0.0), &[INF, INF, 0.0]);
    both("sign", |x| Ok(x.sign()), &[0.0; 3]);
    both("a power of 0", |x| x.pow(0.0), &[0.0; 3]);
    both("rounded quotients", |x| x.div_floor(2.0), &[0.0; 3]);
    both("where", |x| x.gt(0.0)?.where_cond(x, 0.0), &[0.0, 0.0, INF]);
    both("abs", |x| x.try_abs(), &[-INF, NAN, INF]);
    let powers: Operation = |x| x.pow(&tensor![0.0, 0.0, 1.0; f64]);
    check("powers", powers, zero, &[0.0, 0.0, INF], &[0.0, NAN, INF]);
    let five = &[-1.0, 0.0, 0.5, 1.0, 2.0];
    let clamp: Operation = |x| x.clamp(0.0, 1.0);
    check("clamp", clamp, five, &[0.0, 0.0, INF, 0.0, 0.0], &[0.0, 0.0, INF, 0.0, 0.0]);
    let clamp: Operation = |x| x.clamp(Tensor::from(0.0), Tensor::from(1.0));
    check("clamp by tensors", clamp, five, &[0.0, INF, INF, INF, 0.0], &[0.0, INF, INF, INF, 0.0]);
}

#[test]
fn elements_that_were_not_picked_get_zero() {
    let x = &[1.0, 2.0];
    check("gather", |x| x.gather(0, &tensor![1; i64]), x, &[0.0, INF], &[INF]);
    check("index_select", |x| x.index_select(0, &tensor![1; i64]), x, &[0.0, INF], &[INF]);
    check("slice", |x| x.slice(0..1), x, &[INF, 0.0], &[INF]);
    check("select", |x| x.select(0, 1), x, &[0.0, INF], &[INF]);
}

#[test]
fn products() {
    check("no zero", |x| x.prod(..), &[2.0, 3.0, 4.0], &[INF; 3], &[INF]);
    check("one zero", |x| x.prod(..), &[0.0, 3.0, 4.0], &[INF, NAN, NAN], &[NAN]);
    check("zeros along an axis", |x| x.prod(0), &[0.0, 3.0, 0.0], &[NAN; 3], &[NAN]);
}

/// Of all elements, with two zeros among them: PyTorch's gradient is zero whatever comes in, unless it is recorded.
#[test]
fn a_product_of_several_zeros() {
    let x = tensor![0.0, 3.0, 0.0; f64].requires_grad();
    let y = x.prod(..).unwrap();
    y.backward_with(Tensor::from(INF)).unwrap();
    assert_eq!(x.grad(), Some(tensor![0.0, 0.0, 0.0; f64]));
}

/// Each gradient of the loss is one product with the incoming one. It was a sum of two, NaN where they are infinite.
#[test]
fn binary_cross_entropy_multiplies_once() {
    let numbers = [-INF, -30.0, -1.0, 0.0, 0.25, 1.0, 30.0, INF];
    for p in [None, Some(2.0), Some(0.5)] {
        for (x, y) in numbers.iter().flat_map(|x| numbers.iter().map(move |y| (*x, *y))) {
            for g in [-INF, -1.0, 0.0, 2.0, INF] {
                let (x, y) = (tensor![x; f64].requires_grad(), tensor![y; f64].requires_grad());
                let (s, g) = (x.value().sigmoid(), tensor![g; f64]);
                let (of_input, of_target) = match p {
                    None => ((&s - y.value()) * &g, -x.value() * &g),
                    Some(p) => {
                        let t = y.value() * p;
                        let (ln_s, ln_r) = (-softplus(&-&x), -softplus(&x.detach()));
                        (((&t + 1.0 - y.value()) * &s - &t) * &g, (ln_r - ln_s * p) * &g)
                    }
                };
                let mut loss = BCEWithLogitsLoss::new().reduction(Reduction::None);
                if let Some(p) = p {
                    loss = loss.pos_weight(tensor![p; f64]);
                }
                let losses = loss.forward(&x, &y).unwrap();
                let found = Grad::new([&losses], [&x, &y]).seeds([&g]).run().unwrap();
                for (found, want) in found.into_iter().zip([of_input, of_target]) {
                    let found = found.unwrap().value();
                    let both = format!("{x}, {y}, {p:?}, {g}: {found} instead of {want}");
                    let (found, want): (f64, f64) = (found.item().unwrap(), want.item().unwrap());
                    let near = (found - want).abs() <= 1e-12 * want.abs().max(1.0);
                    assert!(found == want || found.is_nan() && want.is_nan() || near, "{both}");
                }
            }
        }
    }
}

fn softplus(x: &Var) -> Tensor {
    x.value().softplus_with(1.0, 40.0).unwrap()
}

/// The gradients that arrive at both operands are multiplied on their own, as PyTorch does: infinite distances cancel to NaN.
#[test]
fn squared_errors_at_an_infinite_distance() {
    let x = tensor![INF, 1.0; f64].requires_grad();
    let (t, seed) = (tensor![0.0, 3.0; f64].requires_grad(), tensor![1.0, 1.0; f64].requires_grad());
    let y = MSELoss::new().reduction(Reduction::None).forward(&x, &t).unwrap();
    let options = Backward::new().seed(&seed).create_graph(true);
    let [of_x, of_t] = grad_with(&y, [&x, &t], options).unwrap();
    assert_eq!(of_x.value(), tensor![INF, -4.0; f64]);
    let both = (&of_x * 0.75 + &of_t * 0.5).sum(..).unwrap();
    let [of_x, of_t, of_seed] = grad(&both, [&x, &t, &seed]).unwrap();
    assert_eq!((of_x.value(), of_t.value()), (tensor![0.5, 0.5; f64], tensor![-0.5, -0.5; f64]));
    assert!(same(&of_seed.value(), &[NAN, -1.0]), "{of_seed}");
}

/// PyTorch bounds the product that the second derivative for a label is divided by at 1e-12 of `f64`.
#[test]
fn second_derivatives_for_labels_of_certain_probabilities() {
    let x = tensor![1.0, 0.0, 0.5; f64].requires_grad();
    let t = tensor![0.25, 0.25, 0.25; f64].requires_grad();
    let y = BCELoss::new().reduction(Reduction::Sum).forward(&x, &t).unwrap();
    let slopes = grad_with(&y, &x, Backward::new().create_graph(true)).unwrap();
    assert_eq!(grad(slopes.sum(..).unwrap(), &t).unwrap().value(), tensor![-1e12, -1e12, -4.0; f64]);
}

/// No seed is no gradient, however steep the logarithm; nothing times an infinite product is not added.
#[test]
fn nothing_times_what_is_infinite() {
    let (a, b) = (tensor![1.0, 0.0; f64], tensor![5e-324, 2.0; f64].requires_grad());
    let y = Var::from(&a).xlogy(&b).unwrap();
    let found = grad_with(&y, &b, Backward::new().seed(Tensor::zeros_with([2], DType::F64))).unwrap();
    assert_eq!(found.value(), tensor![0.0, 0.0; f64]);

    let (m, n) = (tensor![[1.0, 2.0]], tensor![[f32::INFINITY, 1.0], [2.0, -1.0]]);
    let plus = |beta: f64| tensor![[3.0, f32::INFINITY]].addmm_with(&m, &n, beta, 0.0).unwrap();
    assert_eq!(plus(2.0), tensor![[6.0, f32::INFINITY]]);
    assert_eq!(plus(0.0), tensor![[0.0, 0.0]]);
    assert_eq!(tensor![1.0, 2.0].addmm_with(&m, &n, 1.0, 0.0).unwrap(), tensor![[1.0, 2.0]]);
}
