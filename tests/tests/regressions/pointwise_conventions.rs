//! Pointwise operations at kinks, ties and domain edges, for integers and for truth values: where a gradient taken from a
//! neighbouring formula, or one of 1 for want of a formula, would go unnoticed.

use foldback::graph::RequiresGrad;
use foldback::prelude::*;
use foldback::tensor::TensorFacts;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// The gradients of a function of two numbers at one point.
fn slopes(a: f64, b: f64, f: fn(&Var, &Var) -> Result<Var>) -> [f64; 2] {
    let (a, b) = (tensor![a; f64].requires_grad(), tensor![b; f64].requires_grad());
    f(&a, &b).unwrap().backward().unwrap();
    [&a, &b].map(|v| v.grad().map_or(0.0, |g| g.item().unwrap()))
}

fn slope(a: f64, f: fn(&Var) -> Result<Var>) -> f64 {
    let a = tensor![a; f64].requires_grad();
    f(&a).unwrap().backward().unwrap();
    a.grad().unwrap().item().unwrap()
}

/// Equal but for the last digit; NaN equals NaN, and a zero has no sign.
#[track_caller]
fn expect<const N: usize>(found: [f64; N], wanted: [f64; N]) {
    let same = found
        .iter()
        .zip(&wanted)
        .all(|(f, w)| f == w || (f - w).abs() <= 4e-16 * w.abs() || f.is_nan() && w.is_nan());
    assert!(same, "{found:?}, not {wanted:?}");
}

#[test]
fn ties_and_numbers_that_are_none() {
    expect(slopes(2.0, 2.0, |a, b| a.fmax(b)), [0.5, 0.5]);
    expect(slopes(2.0, 2.0, |a, b| a.fmin(b)), [0.5, 0.5]);
    expect(slopes(NAN, 2.0, |a, b| a.fmax(b)), [0.0, 1.0]);
    expect(slopes(2.0, NAN, |a, b| a.fmin(b)), [1.0, 0.0]);
    expect(slopes(NAN, NAN, |a, b| a.fmax(b)), [1.0, 0.0]);
}

#[test]
fn the_origin_and_what_is_too_small_or_too_large_to_square() {
    for (a, b) in [(0.0, 0.0), (-0.0, -0.0), (1e-200, 1e-200), (1e200, 1e200)] {
        expect(slopes(a, b, |a, b| a.atan2(b)), [0.0, 0.0]);
    }
    expect(slopes(1.0, 2.0, |a, b| a.atan2(b)), [0.4, -0.2]);
    expect(slopes(0.0, 0.0, |a, b| a.hypot(b)), [NAN, NAN]);
    expect(slopes(6e200, 0.0, |a, b| a.hypot(b)), [1.0, 0.0]);
}

#[test]
fn zeros_of_products_and_signs() {
    expect(slopes(0.0, 0.0, |a, b| a.xlogy(b)), [0.0, NAN]);
    expect(slopes(0.0, -1.0, |a, b| a.xlogy(b)), [0.0, 0.0]);
    expect(slopes(0.0, 2.0, |a, b| a.xlogy(b)), [2f64.ln(), 0.0]);
    expect(slopes(0.0, -2.0, |a, b| a.copysign(b)), [0.0, 0.0]);
    expect(slopes(3.0, -0.0, |a, b| a.copysign(b)), [-1.0, 0.0]);
    expect(slopes(INF, INF, |a, b| a.logaddexp(b)), [NAN, NAN]);
    expect(slopes(-INF, 0.0, |a, b| a.logaddexp(b)), [0.0, 1.0]);
}

/// What no gradient arrives at has none, also where the logarithm is not there; its slope by what arrives is.
#[test]
fn the_gradient_of_a_product_with_a_logarithm_is_one_itself() {
    let y = tensor![2.0, -1.0, 0.0; f64];
    for (x, seed, slopes) in
        [(1.5, [1.0, 0.0, 0.0], [2f64.ln(), 0.0]), (0.0, [1.0, 1.0, 1.0], [2f64.ln(), 0.0])]
    {
        let (x, seed) = (tensor![x; f64].requires_grad(), Tensor::from(seed).requires_grad());
        let options = Backward::new().seed(&seed).create_graph(true);
        let g = grad_with(x.xlogy(&y).unwrap(), &x, options).unwrap();
        expect([g.item().unwrap(), 0.0], [2f64.ln(), 0.0]);
        let second = grad(&g, &seed).unwrap().value().to_vec::<f64>().unwrap();
        expect([second[0], second[1]], slopes);
    }
}

#[test]
fn remainders_count_how_often_the_divisor_went_in() {
    // 1 / 0.1 rounds to 10, but 0.1 goes into 1 nine times.
    expect(slopes(1.0, 0.1, |a, b| a.remainder(b)), [1.0, -9.0]);
    expect(slopes(-7.0, 2.0, |a, b| a.remainder(b)), [1.0, 4.0]);
    expect(slopes(-7.0, 2.0, |a, b| a.fmod(b)), [1.0, 3.0]);
    expect(slopes(-2.5, INF, |a, b| a.remainder(b)), [1.0, 1.0]);
    expect(slopes(2.5, INF, |a, b| a.remainder(b)), [1.0, 0.0]);
    expect(slopes(1.0, 0.0, |a, b| a.remainder(b)), [1.0, -INF]);
}

#[test]
fn kinks_have_the_slope_of_the_left_side() {
    expect([slope(0.0, |a| a.elu_with(2)), slope(0.0, |a| a.try_elu())], [2.0, 1.0]);
    expect([slope(0.0, |a| a.celu_with(2)), slope(0.0, |a| a.leaky_relu_with(0.25))], [1.0, 0.25]);
    expect(
        [slope(0.0, |a| a.try_selu()), slope(1.0, |a| a.try_selu())],
        [1.7580993408473766, 1.0507009873554805],
    );
    expect([slope(0.0, |a| a.prelu(0.25)), slope(-0.0, |a| a.prelu(0.25))], [0.25, 0.25]);
}

#[test]
fn bounds_are_flat() {
    let tanh = |x: f64| slope(x, |a| a.try_hardtanh());
    expect([-1.0, 1.0, 0.5, NAN].map(tanh), [0.0, 0.0, 1.0, 0.0]);
    let swish = |x: f64| slope(x, |a| a.try_hardswish());
    expect([-3.0, 3.0, 0.0, INF, -INF, NAN].map(swish), [0.0, 1.0, 0.5, 1.0, 0.0, NAN]);
    let sigmoid = |x: f64| slope(x, |a| a.try_hardsigmoid());
    expect([-3.0, 3.0, NAN].map(sigmoid), [0.0, 0.0, 0.0]);
    let replaced = |x: f64| slope(x, |a| a.nan_to_num_with(1, 2, 3));
    expect([NAN, INF, -INF, 0.0].map(replaced), [0.0, 0.0, 0.0, 1.0]);
}

#[test]
fn smooth_functions_do_not_overflow_on_the_way() {
    expect([slope(800.0, |a| a.try_mish()), slope(-800.0, |a| a.try_mish())], [1.0, 0.0]);
    expect([slope(800.0, |a| a.try_logsigmoid()), slope(-800.0, |a| a.try_logsigmoid())], [0.0, 1.0]);
}

/// A step has the gradient 0, also where what arrives is no number; what is not differentiable has none.
#[test]
fn steps_are_flat_and_truth_values_have_no_gradient() {
    for step in [Var::floor, Var::ceil, Var::round, Var::trunc] {
        let x = tensor![-1.5, 2.5; f64].requires_grad();
        step(&x).backward_with(&tensor![NAN, INF; f64]).unwrap();
        assert_eq!(x.grad(), Some(tensor![0.0, 0.0; f64]));
    }
    assert_eq!(slope(-1.5, |a| a.try_frac()), 1.0);
    assert_eq!(slope(-1.25, |a| a.round_with(1)), 0.0);
    let x = tensor![1.0, f32::NAN].requires_grad();
    for y in [x.isnan(), x.isinf(), x.isfinite(), x.isfinite().bitwise_not(), !x.isnan(), x.isnan() & true] {
        assert!(!y.requires_grad());
    }
}

type Unary = fn(&Tensor) -> Result<Tensor>;
type Binary = fn(&Tensor, &Tensor) -> Result<Tensor>;

#[test]
fn integers_and_truth_values() {
    let (i, b) = (tensor![1, 0; i64], tensor![true, false]);
    let floats: [Unary; 13] = [
        |x| Ok(x.exp2()),
        |x| Ok(x.log2()),
        |x| Ok(x.log10()),
        |x| Ok(x.asin()),
        |x| Ok(x.acos()),
        |x| Ok(x.atan()),
        |x| Ok(x.sinh()),
        |x| Ok(x.cosh()),
        |x| Ok(x.asinh()),
        |x| Ok(x.acosh()),
        |x| Ok(x.atanh()),
        |x| Ok(x.erfc()),
        |x| x.copysign(-1),
    ];
    for (k, f) in floats.iter().enumerate() {
        assert!([&i, &b].iter().all(|x| f(x).unwrap().dtype() == DType::F32), "function {k}");
    }
    let only_floats: [Unary; 12] = [
        Tensor::try_elu,
        Tensor::try_selu,
        Tensor::try_celu,
        Tensor::try_leaky_relu,
        Tensor::try_hardsigmoid,
        Tensor::try_hardswish,
        Tensor::try_mish,
        Tensor::try_logsigmoid,
        Tensor::try_frac,
        |x| x.round_with(0),
        |x| x.prelu(1),
        |x| x.lerp(x, 0.5),
    ];
    for (k, f) in only_floats.iter().enumerate() {
        for x in [&i, &b] {
            let e = f(x).err().unwrap_or_else(|| panic!("function {k} of {}", x.dtype()));
            assert!(matches!(e.facts(), Some(TensorFacts::DTypeUnsupported { .. })), "{e}");
        }
    }
    let whole: [Unary; 5] =
        [Tensor::try_floor, Tensor::try_ceil, Tensor::try_round, Tensor::try_trunc, Tensor::try_hardtanh];
    for (k, f) in whole.iter().enumerate() {
        assert_eq!(f(&i).unwrap(), i, "function {k}");
        assert!(f(&b).is_err(), "function {k}");
    }
    assert_eq!((i.nan_to_num(), b.nan_to_num()), (i.clone(), b.clone()));
    assert_eq!((i.softsign(), b.try_softsign().is_err()), (tensor![0.5, 0.0], true));
    let bits: [Binary; 5] = [
        |a, b| a.fmax(b),
        |a, b| a.fmin(b),
        |a, b| a.bitwise_and(b),
        |a, b| a.bitwise_or(b),
        |a, b| a.bitwise_xor(b),
    ];
    for op in bits {
        assert_eq!(op(&i, &i).unwrap().dtype(), DType::I64);
        assert_eq!(op(&b, &b).unwrap().dtype(), DType::Bool);
        assert_eq!(op(&b, &i).unwrap().dtype(), DType::I64);
    }
    let remainders: [Binary; 2] = [|a, b| a.remainder(b), |a, b| a.fmod(b)];
    for op in remainders {
        assert_eq!(op(&i, &tensor![2; i64]).unwrap(), i);
        assert!(op(&b, &b).is_err() && op(&i, &i).is_err());
    }
    let of_floats: [Binary; 2] = [|a, b| a.hypot(b), |a, b| a.logaddexp(b)];
    for op in of_floats {
        assert!(op(&i, &i).is_err() && op(&b, &i).is_err() && op(&i, &tensor![1.0]).is_ok());
    }
}

/// A number that is a truth value stays one beside a variable, also where it is scaled.
#[test]
fn truth_values_are_not_subtracted() {
    let x = tensor![1.0, 2.0];
    assert!(x.sub(true).is_err() && x.sub_with(true, 2).is_err());
    let x = x.requires_grad();
    assert!(x.sub(true).is_err() && x.sub_with(true, 2).is_err());
    let y = x.add_with(true, 2).unwrap();
    assert_eq!(y.value(), tensor![3.0, 4.0]);
    y.sum(..).unwrap().backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![1.0, 1.0]));
}

/// A variable of integers in a function of floats passes no gradient, and the other operand has its own.
#[test]
fn integers_beside_what_has_a_gradient() {
    let x = tensor![1.0, 2.0].requires_grad();
    let i = Var::from(tensor![3, 4; i64]);
    for y in [i.atan2(&x), i.remainder(&x), i.xlogy(&x), i.addcmul(&i, &x), i.addcdiv(&x, &i), i.fmax(&x)] {
        let y = y.unwrap();
        assert!(y.requires_grad() && y.dtype() == DType::F32);
        y.sum(..).unwrap().backward().unwrap();
        assert_eq!(x.grad().unwrap().dtype(), DType::F32);
    }
}
