//! The checker is checked: operations with a planted error, each of which it must catch, at the order where it is.

use std::sync::OnceLock;

use foldback_gradcheck::{Argument, Check, Error, GradcheckFacts, Order, Place, gradcheck, gradgradcheck};
use foldback_graph::{Function, FunctionContext, GraphFacts, Result, Var};
use foldback_tensor::{DType, Tensor, refused, tensor};

type Forward = fn(&[&Tensor]) -> foldback_tensor::Result<Tensor>;
type Backward = fn(&FunctionContext<'_>) -> Result<Vec<Option<Var>>>;

/// An operation made of two functions; the planted error is in the second.
struct Planted(Forward, Backward);

impl Function for Planted {
    fn name(&self) -> &'static str {
        "planted"
    }
    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![(self.0)(inputs)?])
    }
    fn saves_inputs(&self) -> bool {
        true
    }
    fn saves_output(&self) -> bool {
        true
    }
    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        (self.1)(ctx)
    }
}

fn planted(forward: Forward, backward: Backward) -> impl Fn(&[Var]) -> Result<Var> {
    move |x| Planted(forward, backward).call(x)
}

fn matrix() -> Tensor {
    tensor![[0.3, -1.2, 0.7], [1.9, 0.4, -0.6]; f64]
}

fn row() -> Tensor {
    tensor![0.5, 2.0, -0.7; f64]
}

fn square() -> Tensor {
    tensor![[0.3, -1.2], [1.9, 0.4]; f64]
}

fn first_order_fails(forward: Forward, backward: Backward, inputs: &[Tensor]) -> Error {
    let found = gradcheck(planted(forward, backward), inputs).expect_err("an error was planted");
    assert!(
        matches!(found.facts(), Some(GradcheckFacts::Gradient { order: Order::First, .. })),
        "found something else: {found}"
    );
    // The recorded pass computes the same wrong gradient.
    let recorded = gradgradcheck(planted(forward, backward), inputs).expect_err("an error was planted");
    assert!(
        matches!(recorded.facts(), Some(GradcheckFacts::Gradient { order: Order::First, .. })),
        "found something else: {recorded}"
    );
    found
}

fn only_second_order_fails(forward: Forward, backward: Backward, inputs: &[Tensor]) -> Error {
    gradcheck(planted(forward, backward), inputs).expect("the first order is right");
    let found = gradgradcheck(planted(forward, backward), inputs).expect_err("an error was planted");
    assert!(
        matches!(found.facts(), Some(GradcheckFacts::Gradient { order: Order::Second, .. })),
        "found something else: {found}"
    );
    found
}

#[test]
fn the_same_operations_without_an_error_pass() {
    let passes = |forward: Forward, backward: Backward, inputs: &[Tensor]| {
        gradcheck(planted(forward, backward), inputs).expect("nothing is wrong");
        gradgradcheck(planted(forward, backward), inputs).expect("nothing is wrong");
    };
    passes(|x| Ok(x[0].sin()), |c| Ok(vec![Some(c.grad(0) * c.input(0).cos())]), &[matrix()]);
    passes(|x| x[0].mul(x[1]), multiplied, &[matrix(), row()]);
    passes(
        |x| x[0].matmul(x[1]),
        |c| Ok(vec![Some(c.grad(0).matmul(c.input(1).t())?), Some(c.input(0).t().matmul(c.grad(0))?)]),
        &[square(), square()],
    );
    passes(|x| Ok(x[0].tanh()), |c| Ok(vec![Some(c.grad(0) * (1.0 - c.output().square()))]), &[matrix()]);
}

fn multiplied(c: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
    let g = c.grad(0);
    Ok(vec![Some(&g * c.input(1)), Some(&g * c.input(0))])
}

#[test]
fn a_wrong_sign() {
    let found =
        first_order_fails(|x| Ok(x[0].cos()), |c| Ok(vec![Some(c.grad(0) * c.input(0).sin())]), &[matrix()]);
    let Some(&GradcheckFacts::Gradient { argument, analytical, numerical, tolerance, .. }) = found.facts()
    else {
        unreachable!()
    };
    assert_eq!(argument, Argument::Input(0));
    assert!((analytical + numerical).abs() < 10.0 * tolerance, "{analytical} {numerical}");
}

#[test]
fn a_factor_of_two() {
    let found =
        first_order_fails(|x| Ok(x[0].square()), |c| Ok(vec![Some(c.grad(0) * c.input(0))]), &[matrix()]);
    let Some(&GradcheckFacts::Gradient { analytical, numerical, .. }) = found.facts() else { unreachable!() };
    assert!((numerical / analytical - 2.0).abs() < 1e-6);
}

#[test]
fn a_factor_in_one_element() {
    let backward: Backward = |c| {
        let factor = tensor![[1.0, 1.0, 1.0], [1.0, 1.0, 1.001]; f64];
        Ok(vec![Some(c.grad(0) * c.input(0).cos() * factor)])
    };
    let found = first_order_fails(|x| Ok(x[0].sin()), backward, &[matrix()]);
    let Some(GradcheckFacts::Gradient { place, .. }) = found.facts() else { unreachable!() };
    assert_eq!(*place, Place::Element(vec![1, 2]));
}

#[test]
fn a_missing_transposition() {
    let backward: Backward = |c| {
        let g = c.grad(0);
        Ok(vec![Some(g.matmul(c.input(1))?), Some(c.input(0).t().matmul(&g)?)])
    };
    let found = first_order_fails(|x| x[0].matmul(x[1]), backward, &[square(), square().add(0.1).unwrap()]);
    let Some(&GradcheckFacts::Gradient { argument, .. }) = found.facts() else { unreachable!() };
    assert!(matches!(argument, Argument::Input(0) | Argument::All));
    // The other input is right, and passes if it alone is tracked.
    Check::new()
        .tracked(&[false, true])
        .gradcheck(planted(|x| x[0].matmul(x[1]), backward), &[square(), square()])
        .expect("the gradient of the right factor is right");
}

#[test]
fn swapped_inputs() {
    let backward: Backward = |c| {
        let g = c.grad(0);
        Ok(vec![Some(&g * c.input(0)), Some(&g * c.input(1))])
    };
    first_order_fails(|x| x[0].mul(x[1]), backward, &[matrix(), matrix().exp()]);
}

#[test]
fn an_ignored_seed() {
    let backward: Backward = |c| {
        let ones = Var::from(Tensor::ones_with(c.grad(0).shape(), DType::F64));
        Ok(vec![Some(ones * c.input(0).cos())])
    };
    first_order_fails(|x| Ok(x[0].sin()), backward, &[matrix()]);
    // It would go unnoticed with a seed of ones, which is why no seed is.
    let ones = Check::new().seeds(0).seed(Tensor::ones_with([2, 3], DType::F64));
    ones.gradcheck(planted(|x| Ok(x[0].sin()), backward), &[matrix()]).expect("the seed is all ones");
}

#[test]
fn a_fold_to_an_impossible_shape() {
    let backward: Backward = |c| {
        let g = c.grad(0);
        // Sums the wrong axis: 2 numbers for an input of 3.
        Ok(vec![Some(&g * c.input(1)), Some((&g * c.input(0)).sum(1)?)])
    };
    for found in [
        gradcheck(planted(|x| x[0].mul(x[1]), backward), &[matrix(), row()]),
        gradgradcheck(planted(|x| x[0].mul(x[1]), backward), &[matrix(), row()]),
    ] {
        let e = found.unwrap_err();
        let Some(GraphFacts::GradientShape { op, input, expected, found, location }) = e.facts() else {
            panic!("found something else: {e}")
        };
        assert_eq!((*op, *input, expected.dims(), found.dims()), ("planted", 1, &[3][..], &[2][..]));
        assert!(location.file().ends_with("planted_errors.rs"));
    }
}

#[test]
fn one_row_instead_of_the_sum_of_the_rows() {
    let backward: Backward = |c| {
        let g = c.grad(0);
        Ok(vec![Some(&g * c.input(1)), Some((&g * c.input(0)).select(0, 0)?)])
    };
    let found = first_order_fails(|x| x[0].mul(x[1]), backward, &[matrix(), row()]);
    assert!(
        matches!(
            found.facts(),
            Some(GradcheckFacts::Gradient { argument: Argument::Input(1) | Argument::All, .. })
        ),
        "{found}"
    );
}

#[test]
fn the_gradient_of_the_wrong_input_is_none() {
    let backward: Backward = |c| Ok(vec![None, Some(c.grad(0) * c.input(0))]);
    let found = first_order_fails(|x| x[0].mul(x[1]), backward, &[matrix(), row()]);
    assert!(
        matches!(
            found.facts(),
            Some(GradcheckFacts::Gradient { argument: Argument::Input(0) | Argument::All, .. })
        ),
        "{found}"
    );
}

#[test]
fn not_a_number() {
    let backward: Backward =
        |c| Ok(vec![Some(c.grad(0) * c.input(0).cos() * tensor![1.0, 1.0, f64::NAN; f64])]);
    let found = first_order_fails(|x| Ok(x[0].sin()), backward, &[matrix()]);
    let Some(&GradcheckFacts::Gradient { analytical, .. }) = found.facts() else { unreachable!() };
    assert!(analytical.is_nan());
    // A function that is not a number has no gradient that could be confirmed.
    let both: Backward = |c| Ok(vec![Some(c.grad(0) * c.input(0) * f64::NAN)]);
    first_order_fails(|x| x[0].mul(f64::NAN), both, &[matrix()]);
}

/// `tanh` that keeps its output itself, outside the graph.
struct ConstantOutput(OnceLock<Tensor>);

impl Function for ConstantOutput {
    fn name(&self) -> &'static str {
        "constant output"
    }
    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![self.0.get_or_init(|| inputs[0].tanh()).clone()])
    }
    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        let y = Var::from(self.0.get().expect("forward ran first"));
        Ok(vec![Some(ctx.grad(0) * (1.0 - y.square()))])
    }
}

#[test]
fn a_saved_output_that_unpacks_as_a_constant() {
    let f = |x: &[Var]| ConstantOutput(OnceLock::new()).call([&x[0]]);
    gradcheck(f, &[matrix()]).expect("the first order is right");
    let found = gradgradcheck(f, &[matrix()]).expect_err("an error was planted");
    let Some(&GradcheckFacts::Gradient { order, argument, analytical, .. }) = found.facts() else {
        panic!("found something else: {found}")
    };
    assert_eq!((order, analytical), (Order::Second, 0.0));
    assert!(matches!(argument, Argument::Input(0) | Argument::All));
}

#[test]
fn a_backward_that_detaches() {
    // By the input: the second derivative is missing altogether.
    let found = only_second_order_fails(
        |x| Ok(x[0].sin()),
        |c| Ok(vec![Some(c.grad(0) * c.input(0).detach().cos())]),
        &[matrix()],
    );
    assert!(
        matches!(
            found.facts(),
            Some(GradcheckFacts::Gradient { argument: Argument::Input(0) | Argument::All, .. })
        ),
        "{found}"
    );
    // By the seed: the gradient is linear in it, and its derivative is missing.
    let found = only_second_order_fails(
        |x| Ok(x[0].sin()),
        |c| Ok(vec![Some(c.grad(0).detach() * c.input(0).cos())]),
        &[matrix()],
    );
    assert!(
        matches!(
            found.facts(),
            Some(GradcheckFacts::Gradient { argument: Argument::Seed | Argument::All, .. })
        ),
        "{found}"
    );
    // All of it.
    only_second_order_fails(
        |x| Ok(x[0].sin()),
        |c| Ok(vec![Some((c.grad(0) * c.input(0).cos()).detach())]),
        &[matrix()],
    );
}

#[test]
fn a_second_derivative_that_is_missing_for_one_of_two_inputs() {
    let backward: Backward = |c| {
        let g = c.grad(0);
        Ok(vec![Some(&g * c.input(1)), Some(&g * c.input(0).detach())])
    };
    only_second_order_fails(|x| x[0].mul(x[1]), backward, &[matrix(), row()]);
}

/// Differentiable once, and says so.
struct Once;

impl Function for Once {
    fn name(&self) -> &'static str {
        "once"
    }
    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0].mul(3.0)?])
    }
    fn once_differentiable(&self) -> bool {
        true
    }
    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![Some(ctx.grad(0) * 3.0)])
    }
}

#[test]
fn an_operation_that_is_once_differentiable_says_so() {
    let f = |x: &[Var]| Once.call([&x[0]]);
    gradcheck(f, &[matrix()]).expect("the first order is right");
    let found = gradgradcheck(f, &[matrix()]);
    assert!(refused!(found, GraphFacts::OnceDifferentiable { op: "once", .. }));
}

#[test]
fn an_output_that_was_cut_off_from_its_input() {
    let found = gradcheck(|x| Ok(x[0].detach().square()), &[matrix()]);
    assert!(refused!(found, GradcheckFacts::Gradient { analytical: 0.0, .. }), "{found:?}");
}

#[test]
fn a_gradient_that_depends_on_the_layout() {
    // Reads the buffer's elements in row-major order, whatever the strides.
    let backward: Backward = |c| {
        let x = c.input(0).value();
        let wrong = x.t().contiguous().reshape(x.shape())?;
        Ok(vec![Some(c.grad(0) * if x.is_contiguous() { x } else { wrong } * 2.0)])
    };
    gradcheck(planted(|x| Ok(x[0].square()), backward), &[square()]).expect("contiguous inputs are right");
    let transposed = square().t();
    assert!(gradcheck(planted(|x| Ok(x[0].square()), backward), &[transposed]).is_err());
}
