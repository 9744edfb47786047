//! A whole property test of an operation that broadcasts: its values, its gradients, every broadcast, every layout.

use foldback_graph::{Domain, Outputs, Var};
use foldback_tensor::{BroadcastWarning, Error, Shape, Tensor, Tolerance, broadcast_warning, compare_close};
use proptest::test_runner::{Config, TestCaseError, TestError, TestRng, TestRunner};

use super::inputs::inputs_in;
use crate::check::Check;
use crate::error::{GradcheckFacts, Result};
use crate::testing::{Layout, Random, fill};

/// The shapes that broadcast to `[2, 3]`, and two for empty results.
const SHAPES: [&[usize]; 9] = [&[], &[1], &[3], &[1, 1], &[1, 3], &[2, 1], &[2, 3], &[0, 1], &[0, 3]];

/// All combinations of shapes are tried up to so many.
const COMBINATIONS: usize = 1000;

/// Random inputs beyond that.
const CASES: u32 = 48;

/// Steps in which a failing input is made smaller, at most.
const SHRINKS: u32 = 2048;

/// Panics unless an operation that broadcasts computes its values and gradients right: every broadcast, every layout, gradients of
/// first and second order, and random inputs of up to four axes, of which a failing one is made as small as it can be.
///
/// The operation takes a reference to a variable for each operand. The closure says what one element of the result is, given one
/// element of each operand as `f64`, and `in` says what numbers an operand may hold: one of [`domains`](crate::strategies::domains).
/// At a kink, such as that of a maximum where two operands tie, values are compared and gradients are not.
/// All broadcasts are meant here: [`BroadcastWarning`](foldback_tensor::BroadcastWarning) is off meanwhile. Needs the feature `proptest`.
///
/// ```
/// use foldback_gradcheck::check_broadcast_op;
/// use foldback_graph::{Operation, Result, Var};
///
/// fn ratio(a: &Var, b: &Var) -> Result<Var> {
///     let ratio = Operation::new(
///         "ratio",
///         |[a, b]| a.div(b),
///         |ctx, [g]| [&g / ctx.input(1), -&g * ctx.input(0) / ctx.input(1).square()],
///     );
///     ratio.saves_inputs().call([a, b])
/// }
/// check_broadcast_op!(ratio, |a, b| a / b, a in ANY, b in NONZERO);
/// ```
///
/// ```should_panic
/// # use foldback_gradcheck::check_broadcast_op;
/// # use foldback_graph::{Result, Var};
/// fn ratio(a: &Var, b: &Var) -> Result<Var> {
///     a.div(b.detach())
/// }
/// check_broadcast_op!(ratio, |a, b| a / b, a in ANY, b in NONZERO);
/// ```
#[macro_export]
macro_rules! check_broadcast_op {
    ($op:expr, |$($x:ident),+ $(,)?| $value:expr, $($name:ident in $domain:ident),+ $(,)?) => {{
        let domains = {
            use $crate::strategies::domains::*;
            [$($domain),+]
        };
        let checked =
            $crate::strategies::check_broadcast_op(|[$($name),+]| ($op)($($name),+), |[$($x),+]| $value, domains);
        if let ::core::result::Result::Err(e) = checked {
            ::core::panic!("check_broadcast_op!({}): {e}", ::core::stringify!($op));
        }
    }};
}

/// What [`check_broadcast_op!`](crate::check_broadcast_op) asserts, of an operation on `N` variables: `value` is an element of the result,
/// given one of each operand.
///
/// # Errors
/// What is wrong first: with the shapes and layouts of the inputs, and their numbers if they are few.
///
/// ```
/// use foldback_gradcheck::strategies::{check_broadcast_op, domains::{ANY, POSITIVE}};
/// let e = check_broadcast_op(|[a, b]| a.pow(b), |[a, b]| a.powf(b) + 1.0, [POSITIVE, ANY]).unwrap_err();
/// assert!(e.to_string().contains("for inputs of shapes"), "{e}");
/// ```
pub fn check_broadcast_op<const N: usize, O: Outputs>(
    op: impl Fn(&[Var; N]) -> O,
    value: impl Fn([f64; N]) -> f64,
    domains: [Domain; N],
) -> Result<()> {
    // All broadcasts are meant here.
    let _guard = broadcast_warning(BroadcastWarning::Off);
    let check = |x: &[Tensor]| {
        check_one::<N, O>(&op, &value, &domains, x)
            .map_err(|e| Error::other(format!("for {}: {e}", shown(x))))
    };
    let mut random = Random::new(1);
    let mut sample = |shape: &[usize], i: usize| fill(shape, domains[i], &mut random);
    for layout in Layout::ALL {
        // Each operand in this layout alone, and all of them.
        for which in 0..=N {
            let mut x = Vec::with_capacity(N);
            for i in 0..N {
                let t = sample(&[2, 3], i);
                let laid = layout.apply(&t).filter(|_| which == N || which == i);
                x.push(laid.unwrap_or(t));
            }
            check(&x)?;
        }
    }
    let combinations = SHAPES.len().checked_pow(N as u32).filter(|&n| n <= COMBINATIONS).unwrap_or(0);
    for mut combination in 0..combinations {
        let mut x = Vec::with_capacity(N);
        for i in 0..N {
            x.push(sample(SHAPES[combination % SHAPES.len()], i));
            combination /= SHAPES.len();
        }
        // Not all of them broadcast: those of no element with those of two.
        if expected_shape(&x).is_some() {
            check(&x)?;
        }
    }
    let config =
        Config { cases: CASES, failure_persistence: None, max_shrink_iters: SHRINKS, ..Config::default() };
    let rng = TestRng::deterministic_rng(config.rng_algorithm);
    let found = TestRunner::new_with_rng(config, rng).run(&inputs_in(&domains), |x| {
        check_one::<N, O>(&op, &value, &domains, &x).map_err(|e| TestCaseError::fail(e.to_string()))
    });
    match found {
        Ok(()) => Ok(()),
        Err(TestError::Fail(why, x)) => Err(Error::other(format!("for {}: {why}", shown(&x)))),
        Err(TestError::Abort(why)) => Err(Error::other(why.to_string())),
    }
}

/// Values, and gradients of both orders, of what has one.
fn check_one<const N: usize, O: Outputs>(
    op: &impl Fn(&[Var; N]) -> O,
    value: &impl Fn([f64; N]) -> f64,
    domains: &[Domain; N],
    x: &[Tensor],
) -> Result<()> {
    let call = |x: &[Var]| {
        let x: [Var; N] = std::array::from_fn(|i| x[i].clone());
        let mut outputs = op(&x).into_vars()?;
        match outputs.pop() {
            Some(y) if outputs.is_empty() => Ok(y),
            _ => Err(Error::other("an operation that broadcasts has one result")),
        }
    };
    let vars: Vec<Var> = x.iter().map(Var::from).collect();
    let found = call(&vars)?.value();
    let expected = by_index(value, x);
    compare_close(&found, &expected, &Tolerance { rtol: Some(1e-9), atol: Some(1e-9), equal_nan: true })
        .map_err(|mismatch| Error::other(format!("its values are wrong: {mismatch}")))?;
    if expected.numel() == 0 {
        return empty_gradients(&call, x);
    }
    // Truth values are chosen, not varied.
    let tracked = domains.map(|d| d != Domain::Truth);
    if !tracked.contains(&true) {
        return Ok(());
    }
    let check = Check::new().tracked(&tracked);
    smooth(check.gradcheck(call, x))?;
    smooth(check.gradgradcheck(call, x))
}

/// At a kink, as of a maximum where operands happen to tie, there is no gradient to be wrong; other inputs have one.
fn smooth(found: Result<()>) -> Result<()> {
    match found {
        Err(e) if matches!(e.facts(), Some(GradcheckFacts::Kink { .. })) => Ok(()),
        found => found,
    }
}

/// Of nothing the gradients are zeros of the inputs' shapes.
fn empty_gradients(call: &impl Fn(&[Var]) -> Result<Var>, x: &[Tensor]) -> Result<()> {
    let leaves = x.iter().map(|t| Var::leaf(t.clone())).collect::<Result<Vec<Var>>>()?;
    let y = call(&leaves)?;
    if !y.requires_grad() {
        return Ok(());
    }
    y.sum(..)?.backward()?;
    for (i, leaf) in leaves.iter().enumerate() {
        let Some(g) = leaf.grad() else { continue };
        if g.shape() != leaf.shape() || g.ne(0.0)?.any(..)?.item_as::<bool>()? {
            let shape = leaf.shape();
            return Err(Error::other(format!("the gradient of input {i} is not zeros of its shape {shape}")));
        }
    }
    Ok(())
}

/// The shape that all broadcast to, by the rule itself: the library's own is among what is checked.
fn expected_shape(x: &[Tensor]) -> Option<Shape> {
    let rank = x.iter().map(Tensor::rank).max().unwrap_or(0);
    let mut sizes = vec![1; rank];
    for t in x {
        for (size, &own) in sizes[rank - t.rank()..].iter_mut().zip(t.dims()) {
            match (*size, own) {
                (_, 1) => {}
                (1, own) => *size = own,
                (size, own) if size == own => {}
                _ => return None,
            }
        }
    }
    Some(Shape::from(sizes))
}

/// The values, element by element: an operand is read at the element's indices on the axes that it has, 0 where it has one element.
fn by_index<const N: usize>(value: &impl Fn([f64; N]) -> f64, x: &[Tensor]) -> Tensor {
    let shape = expected_shape(x).expect("they broadcast");
    let operands: Vec<Vec<f64>> = x.iter().map(|t| t.to_vec::<f64>().expect("of this type")).collect();
    let element = |mut flat: usize| {
        let mut indices = vec![0; shape.rank()];
        for (index, &size) in indices.iter_mut().zip(shape.dims()).rev() {
            (*index, flat) = (flat % size, flat / size);
        }
        value(std::array::from_fn(|i| {
            let own = indices[shape.rank() - x[i].rank()..].iter().zip(x[i].dims());
            operands[i][own.fold(0, |at, (&index, &size)| at * size + if size == 1 { 0 } else { index })]
        }))
    };
    let values: Vec<f64> = (0..shape.numel()).map(element).collect();
    Tensor::from_vec(values, &shape).expect("as many as the shape has")
}

/// The inputs, as a message shows them.
fn shown(x: &[Tensor]) -> String {
    let shapes: Vec<String> = x.iter().map(|t| t.shape().to_string()).collect();
    let mut text = format!("inputs of shapes {}", shapes.join(", "));
    if x.iter().any(|t| !t.is_contiguous()) {
        let strides: Vec<String> = x.iter().map(|t| format!("{:?}", t.strides())).collect();
        text += &format!(" and strides {}", strides.join(", "));
    }
    if x.iter().map(Tensor::numel).sum::<usize>() <= 8 {
        let values: Vec<String> =
            x.iter().map(|t| format!("{:?}", t.to_vec::<f64>().unwrap_or_default())).collect();
        text += &format!(" holding {}", values.join(", "));
    }
    text
}
