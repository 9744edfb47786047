//! Duals against the derivative table: every method that a formula may use, as a fused operation of its own, beside the
//! method of `Var` with the hand-written gradient. Values, first and second derivatives, over all pairs of special
//! numbers (zeros of both signs, ties, infinities, NaN), for seeds that are infinite and NaN, too.

use foldback::graph::{Grad, Input, Result};
use foldback::prelude::*;

/// Zeros, ties in pairs, kinks, overflow and underflow.
const POINTS: [f64; 15] = [
    f64::NEG_INFINITY,
    -750.0,
    -2.0,
    -1.0,
    -0.3,
    -1e-310,
    -0.0,
    0.0,
    1e-310,
    0.5,
    1.0,
    2.0,
    20.5,
    750.0,
    f64::INFINITY,
];

const SEEDS: [f64; 4] = [1.0, -0.75, f64::INFINITY, f64::NAN];

/// All pairs of points, NaN included, as two vectors.
fn pairs() -> (Vec<f64>, Vec<f64>) {
    let points: Vec<f64> = POINTS.into_iter().chain([f64::NAN]).collect();
    points.iter().flat_map(|&x| points.iter().map(move |&y| (x, y))).unzip()
}

/// Equal, or apart by what a few operations round.
fn same(a: f64, b: f64, tolerance: f64) -> bool {
    a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= tolerance * a.abs().max(b.abs()).max(1e-290)
}

type Operation<'a> = &'a dyn Fn(&Var, &Var) -> Result<Var>;

/// Value, both gradients, and where the seed is finite their derivatives with respect to both.
fn evaluate(f: Operation<'_>, seed: f64, orders: usize) -> Vec<(String, Vec<f64>)> {
    let (x, y) = pairs();
    let n = x.len();
    let leaf = |v| Tensor::from_vec(v, [n]).expect("a vector").requires_grad();
    let (x, y): (Var, Var) = (leaf(x), leaf(y));
    let z = f(&x, &y).expect("equal shapes");
    let numbers = |v: &Var| v.value().to_vec::<f64>().expect("f64");
    let mut found = vec![("value".to_string(), numbers(&z))];
    let seed = Tensor::full_with([n], seed, DType::F64);
    let gradients = |of: &Var, seed: Tensor, create: bool| {
        let seed = Var::from(seed);
        let seeds = [&seed];
        let roots = [of];
        let inputs = [&x, &y];
        let grad =
            Grad::new(roots, inputs).seeds(&seeds).allow_unused(true).retain_graph(true).create_graph(create);
        grad.run().expect("the operation has gradients")
    };
    let names = ["x", "y"];
    for (name, g) in names.iter().zip(gradients(&z, seed.clone(), orders > 1)) {
        let Some(g) = g else { continue };
        found.push((format!("gradient of {name}"), numbers(&g)));
        if orders > 1 && g.requires_grad() {
            for (other, h) in names.iter().zip(gradients(&g, Tensor::full_with([n], 0.5, DType::F64), false))
            {
                let h = h.map_or_else(|| vec![0.0; n], |h| numbers(&h));
                found.push((format!("derivative by {other} of the gradient of {name}"), h));
            }
        }
    }
    found
}

/// A gradient that one side has and the other one has not is a gradient of zeros.
fn compare(name: &str, fused: Operation<'_>, plain: Operation<'_>, tolerance: f64) -> usize {
    let (x, y) = pairs();
    let mut compared = 0;
    for seed in SEEDS {
        let (ours, theirs) = (evaluate(fused, seed, 1), evaluate(plain, seed, 1));
        for (what, expected) in &theirs {
            let Some((_, found)) = ours.iter().find(|o| o.0 == *what) else {
                panic!("{name}: no {what}");
            };
            for i in 0..expected.len() {
                assert!(
                    same(found[i], expected[i], tolerance),
                    "{name} at ({:e}, {:e}), seed {seed}: the {what} is {:e}, the table's {:e}",
                    x[i],
                    y[i],
                    found[i],
                    expected[i]
                );
                compared += 1;
            }
        }
    }
    compared
}

fn number<'a>(v: f64) -> Input<'a> {
    Input::Scalar(v.into())
}

macro_rules! rows {
    ($run:ident; $($name:tt: |$x:ident, $y:ident| $formula:expr, $plain:expr;)*) => {{
        let mut compared = 0;
        $(
            let f = fuse!(|$x, $y| { let _ = ($x, $y); $formula });
            let fused = |x: &Var, y: &Var| f.call([x, y]);
            let plain = |$x: &Var, $y: &Var| -> Result<Var> { let _ = ($x, $y); $plain };
            compared += $run(stringify!($name), &fused, &plain, 1e-14);
        )*
        compared
    }};
}

/// Something for each elementary function: the function fused and as an operation.
macro_rules! each_elementary {
    ($($(#[$doc:meta])* $name:ident $name_:ident $line:tt;)*) => {
        fn elementary(run: fn(&str, Operation<'_>, Operation<'_>, f64) -> usize) -> usize {
            rows! { run; $($name: |x, y| x.$name(), Ok(x.$name());)* }
        }
    };
}
foldback_tensor::__elementary!(each_elementary);

#[test]
fn elementary_functions_have_the_gradients_of_their_rows() {
    println!("{} numbers", elementary(compare));
    println!("{} second derivatives", elementary(compare_second));
}

/// The row's formula over blocks against the same, recorded: at all pairs of points, infinite and NaN included.
fn compare_recorded(name: &str, fused: Operation<'_>, plain: Operation<'_>, tolerance: f64) -> usize {
    let (x, y) = pairs();
    let mut compared = 0;
    for seed in SEEDS {
        for operation in [fused, plain] {
            let (blocks, recorded) = (evaluate(operation, seed, 1), evaluate(operation, seed, 2));
            for (what, expected) in &blocks {
                let (_, found) = recorded.iter().find(|r| r.0 == *what).expect("the same gradients");
                for (i, (&found, &expected)) in found.iter().zip(expected).enumerate() {
                    assert!(
                        same(found, expected, tolerance),
                        "{name} at ({:e}, {:e}), seed {seed}: recorded, the {what} is {found:e}, else {expected:e}",
                        x[i],
                        y[i]
                    );
                    compared += 1;
                }
            }
        }
    }
    compared
}

#[test]
fn recorded_gradients_have_the_conventions_of_those_over_blocks() {
    println!("{} numbers", elementary(compare_recorded));
}

#[test]
fn methods_of_one_number_have_the_gradients_of_their_rows() {
    let compared = rows! { compare;
        "neg": |x, y| -x, x.try_neg();
        "abs": |x, y| x.abs(), x.try_abs();
        "sign": |x, y| x.sign(), Ok(x.sign());
        "square": |x, y| x.square(), Ok(x.square());
        "x * x": |x, y| x * x, x.mul(x);
        "relu": |x, y| x.relu(), x.try_relu();
        "gelu": |x, y| x.gelu(), x.try_gelu();
        "softplus": |x, y| x.softplus(), x.try_softplus();
        "pow 0": |x, y| x.pow_number(0.0), x.pow(0.0);
        "pow 0.5": |x, y| x.pow_number(0.5), x.pow(0.5);
        "pow -0.5": |x, y| x.pow_number(-0.5), x.pow(-0.5);
        "pow 1": |x, y| x.pow_number(1.0), x.pow(1.0);
        "pow 2": |x, y| x.pow_number(2.0), x.pow(2.0);
        "pow 3": |x, y| x.pow_number(3.0), x.pow(3.0);
        "pow -1": |x, y| x.pow_number(-1.0), x.pow(-1.0);
        "pow 2.5": |x, y| x.pow_number(2.5), x.pow(2.5);
        "x + c": |x, y| x + 1.5, x.add(1.5);
        "c + x": |x, y| 1.5 + x, x.add(1.5);
        "x - c": |x, y| x - 1.5, x.sub(1.5);
        "c - x": |x, y| 1.5 - x, x.rsub(1.5);
        "x * c": |x, y| x * -2.5, x.mul(-2.5);
        "c * x": |x, y| -2.5 * x, x.mul(-2.5);
        "x / c": |x, y| x / -2.5, x.div(-2.5);
        "c / x": |x, y| 1.5 / x, x.rdiv(1.5);
    };
    assert_eq!(compared % SEEDS.len(), 0);
    println!("{compared} numbers");
}

#[test]
fn methods_of_two_numbers_have_the_gradients_of_their_rows() {
    let compared = rows! { compare;
        "add": |x, y| x + y, x.add(y);
        "sub": |x, y| x - y, x.sub(y);
        "mul": |x, y| x * y, x.mul(y);
        "div": |x, y| x / y, x.div(y);
        "pow": |x, y| x.pow(y), x.pow(y);
        "maximum": |x, y| x.maximum(y), x.maximum(y);
        "minimum": |x, y| x.minimum(y), x.minimum(y);
        "maximum with a constant": |x, y| x.maximum(R::lit(0.5)), x.maximum(0.5);
        "minimum with a constant": |x, y| R::lit(0.5).minimum(x), x.minimum(0.5);
        "maximum of one": |x, y| x.maximum(x), x.maximum(x);
        "select lt": |x, y| R::select(x.lt(y), x, y), x.lt(y)?.where_cond(x, y);
        "select le": |x, y| R::select(x.le(y), x, y), x.le(y)?.where_cond(x, y);
        "select gt": |x, y| R::select(x.gt(y), x, y), x.gt(y)?.where_cond(x, y);
        "select ge": |x, y| R::select(x.ge(y), x, y), x.ge(y)?.where_cond(x, y);
        "select eq": |x, y| R::select(x.eq(y), x, y), x.eq(y)?.where_cond(x, y);
        "select ne": |x, y| R::select(x.ne(y), x, y), x.ne(y)?.where_cond(x, y);
        "select and": |x, y| R::select(R::and(x.gt(R::lit(0.0)), x.lt(R::lit(1.0))), x, y), {
            let (above, below) = (x.gt(0.0)?.value(), x.lt(1.0)?.value());
            Var::from(above.logical_and(&below)?).where_cond(x, y)
        };
        "select or not": |x, y| R::select(R::or(R::not(x.lt(y)), x.is_nan()), x, R::lit(3.0)), {
            let (not, nan) = (x.lt(y)?.value().logical_not(), x.ne(x)?.value());
            Var::from(not.logical_or(&nan)?).where_cond(x, number(3.0))
        };
    };
    println!("{compared} numbers");
}

/// Second derivatives, at the points where nothing is infinite: the recorded duals, and then the engine.
fn compare_second(name: &str, fused: Operation<'_>, plain: Operation<'_>, tolerance: f64) -> usize {
    let (x, y) = pairs();
    let (ours, theirs) = (evaluate(fused, -0.75, 2), evaluate(plain, -0.75, 2));
    let mut compared = 0;
    for (what, expected) in &theirs {
        let found = ours.iter().find(|o| o.0 == *what).map(|o| &o.1);
        for i in
            (0..expected.len()).filter(|&i| expected[i].is_finite() && x[i].is_finite() && y[i].is_finite())
        {
            let found = found.map_or(0.0, |f| f[i]);
            assert!(
                same(found, expected[i], tolerance) || (found - expected[i]).abs() < 1e-300,
                "{name} at ({:e}, {:e}): the {what} is {found:e}, the table's {:e}",
                x[i],
                y[i],
                expected[i]
            );
            compared += 1;
        }
    }
    compared
}

#[test]
fn second_derivatives_are_those_of_the_rows() {
    let compared = rows! { compare_second;
        "abs": |x, y| x.abs(), x.try_abs();
        "square": |x, y| x.square(), Ok(x.square());
        "relu": |x, y| x.relu(), x.try_relu();
        "pow 3": |x, y| x.pow_number(3.0), x.pow(3.0);
        "mul": |x, y| x * y, x.mul(y);
        "div": |x, y| x / y, x.div(y);
        "pow": |x, y| x.pow(y), x.pow(y);
        "maximum": |x, y| x.maximum(y), x.maximum(y);
        "minimum": |x, y| x.minimum(y), x.minimum(y);
        "select": |x, y| R::select(x.lt(y), x * y, y), x.lt(y)?.where_cond(&x.mul(y)?, y);
        "of both": |x, y| (x * y + 0.5).tanh(), Ok(x.mul(y)?.add(0.5)?.tanh());
    };
    println!("{compared} numbers");
}

/// Where plain operators multiply the zero of an untaken branch by an infinite slope, a fused select does not.
#[test]
fn an_untaken_branch_has_no_influence_whatever_its_slope_is() {
    let x = tensor![-1.0, 0.0, 4.0; f64].requires_grad();
    let f = fuse!(|x| R::select(x.gt(R::lit(0.0)), x.sqrt(), R::lit(0.0)));
    f.sum([&x], ..).unwrap().backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![0.0, 0.0, 0.25; f64]));
}

/// A constant has no slope, rather than one of zero that an infinity would turn into NaN.
#[test]
fn an_operand_that_does_not_move_adds_nothing() {
    let (x, w) = (tensor![f64::INFINITY, f64::NAN, 2.0; f64], tensor![3.0, 3.0, 3.0; f64]);
    let b = tensor![1.0, 1.0, 1.0; f64].requires_grad();
    fuse!(|x, w, b| x * w + b).sum((&x, &w, &b), ..).unwrap().backward().unwrap();
    assert_eq!(b.grad(), Some(tensor![1.0, 1.0, 1.0; f64]));
}
