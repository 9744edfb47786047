//! Every diagnosis of a wrong gradient, with a fault planted for it: the words, the elements, the operation and its line.

use std::sync::atomic::{AtomicU64, Ordering};

use foldback_gradcheck::{
    Argument, Check, Diagnosis, Explanation, GradcheckFacts, Order, Region, Size, gradcheck, gradgradcheck,
};
use foldback_graph::{FunctionContext, Operation, Result, Var};
use foldback_tensor::{DType, Tensor, tensor};

fn matrix() -> Tensor {
    tensor![[0.3, -1.2, 0.7], [1.9, 0.4, -0.6]; f64]
}

fn square() -> Tensor {
    tensor![[0.3, -1.2], [1.9, 0.4]; f64]
}

fn row() -> Tensor {
    tensor![0.5, 2.0, -0.7; f64]
}

/// What is said of a wrong gradient, and its text.
#[track_caller]
fn explained(found: Result<()>) -> (Explanation, String) {
    let e = found.expect_err("an error was planted");
    let Some(GradcheckFacts::Gradient { explanation, .. }) = e.facts() else {
        panic!("found something else: {e}")
    };
    ((**explanation).clone(), e.to_string())
}

/// The explanation of an operation of one input whose backward function is wrong; the operation is named in every case.
#[track_caller]
fn of_one(
    forward: fn(&Tensor) -> Tensor,
    backward: fn(&FunctionContext<'_>, &Var) -> Var,
    x: Tensor,
) -> (Explanation, String) {
    let op = Operation::new("planted", move |[x]| forward(x), move |ctx, [g]| backward(ctx, &g));
    let op = op.saves_inputs().saves_output();
    let found = explained(gradcheck(|x| Ok(op.call([&(&x[0] * 1.5)])?.tanh()), &[x]));
    let operation = found.0.operation.expect("one operation is wrong");
    assert_eq!((operation.name, operation.others), ("planted", 0), "{}", found.1);
    assert!(operation.location.file().ends_with("diagnoses.rs"));
    found
}

#[track_caller]
fn of_two(
    forward: fn(&Tensor, &Tensor) -> Result<Tensor>,
    backward: fn(&FunctionContext<'_>, &Var) -> Result<(Var, Var)>,
    inputs: [Tensor; 2],
) -> (Explanation, String) {
    let op = Operation::new("planted", move |[a, b]| forward(a, b), move |ctx, [g]| backward(ctx, &g));
    let op = op.saves_inputs();
    let found = explained(gradcheck(|x| op.call([&x[0], &x[1]]), &inputs));
    assert_eq!(found.0.operation.expect("one operation is wrong").name, "planted", "{}", found.1);
    found
}

#[test]
fn a_sign() {
    let (found, text) = of_one(|x| x.cos(), |ctx, g| g * ctx.input(0).sin(), matrix());
    assert_eq!(found.diagnosis, Diagnosis::SignFlipped);
    assert_eq!((found.wrong, found.of, found.region), (6, 6, Region::Everywhere));
    let words = "its sign is flipped; wrong everywhere, in 6 of 6 elements; the gradient of planted is wrong, recorded at ";
    assert!(text.contains(words), "{text}");
}

#[test]
fn a_factor_and_what_it_is_the_size_of() {
    let (found, text) =
        of_one(|x| x.square(), |ctx, g| g * ctx.input(0), matrix().narrow(1, 0, 1).unwrap().contiguous());
    assert!(matches!(found.diagnosis, Diagnosis::Factor { factor: 0.5, .. }), "{text}");
    let (found, text) = of_one(|x| x.exp(), |ctx, g| g * ctx.output() * 2.5, matrix());
    assert_eq!(found.diagnosis, Diagnosis::Factor { factor: 2.5, size: None }, "{text}");
    // A mean whose gradient is a sum's.
    let mean =
        Operation::new("mean", |[x]| x.mean(1), |ctx, [g]| g.unsqueeze(1)?.expand(ctx.input(0).shape()));
    let mean = mean.saves_inputs();
    let (found, text) = explained(gradcheck(|x| mean.call([&x[0]]), &[matrix()]));
    let size = Size { of: Argument::Input(0), axis: Some(1) };
    assert_eq!(found.diagnosis, Diagnosis::Factor { factor: 3.0, size: Some(size) }, "{text}");
    assert!(text.contains("it is 3 times what it should be (the size of axis 1 of input 0)"), "{text}");
    let mean = Operation::new("mean", |[x]| x.sum(..), |ctx, [g]| (g / 6.0).expand(ctx.input(0).shape()))
        .saves_inputs();
    let (_, text) = explained(gradcheck(|x| mean.call([&x[0]]), &[matrix()]));
    assert!(text.contains("it is 1/6 of what it should be (the number of elements of input 0)"), "{text}");
}

#[test]
fn nothing_where_there_should_be_something() {
    let (found, text) = of_one(|x| x.sin(), |_, g| g * 0.0, matrix());
    assert_eq!(found.diagnosis, Diagnosis::Missing, "{text}");
    // A value that was detached on its way, and no operation wrong.
    let (found, text) = explained(gradcheck(|x| Ok(x[0].detach().square()), &[matrix()]));
    assert_eq!((found.diagnosis, found.operation), (Diagnosis::Missing, None), "{text}");
    let (found, text) = explained(gradcheck(|x| Ok(x[0].detach() * &x[0]), &[matrix()]));
    let operation = found.operation.expect("the product is not what it seems to be");
    assert!(operation.name == "mul" && operation.has_constants, "{text}");
    assert!(text.contains("unless a value was detached"), "{text}");
}

/// An operation of one input alone, so that what is wrong with it is what is wrong with the whole.
#[track_caller]
fn alone(
    forward: fn(&Tensor) -> Tensor,
    backward: fn(&FunctionContext<'_>, &Var) -> Result<Var>,
    x: Tensor,
) -> (Explanation, String) {
    let op = Operation::new("planted", move |[x]| forward(x), move |ctx, [g]| backward(ctx, &g));
    let op = op.saves_inputs();
    explained(gradcheck(|x| op.call([&x[0]]), &[x]))
}

#[test]
fn a_constant_that_was_added() {
    let (found, text) = alone(|x| x.sin(), |ctx, g| Ok(g * ctx.input(0).cos() + 0.25), matrix());
    assert_eq!(found.diagnosis, Diagnosis::ConstantAdded(0.25), "{text}");
    assert!(text.contains("0.25 was added to it everywhere"), "{text}");
}

#[test]
fn an_incoming_gradient_that_is_ignored() {
    let (found, text) = alone(|x| x.sin(), |ctx, _| Ok(ctx.input(0).cos()), matrix());
    assert_eq!(found.diagnosis, Diagnosis::IncomingIgnored, "{text}");
    assert!(text.contains("it ignores the incoming gradient"), "{text}");
}

#[test]
fn what_is_not_finite() {
    let nan =
        |ctx: &FunctionContext<'_>, g: &Var| Ok(g * ctx.input(0).cos() * tensor![1.0, 1.0, f64::NAN; f64]);
    let (found, text) = alone(|x| x.sin(), nan, matrix());
    assert_eq!((found.diagnosis, found.wrong), (Diagnosis::NonFinite, 2), "{text}");
    assert_eq!(found.region, Region::Along { axis: 1, index: 2 });
    assert_eq!(found.operation.expect("it makes the first NaN").name, "planted");
    let (found, text) = explained(gradcheck(|x| Ok(x[0].log()), &[tensor![1.0, -1.0; f64]]));
    assert_eq!((found.diagnosis, found.wrong), (Diagnosis::ValueNonFinite, 0), "{text}");
}

#[test]
fn digits_that_were_lost() {
    let rounded =
        |ctx: &FunctionContext<'_>, g: &Var| Ok((g * ctx.input(0).cos()).to(DType::F32).to(DType::F64));
    let op = Operation::new("planted", |[x]| x.sin(), move |ctx, [g]| rounded(ctx, &g)).saves_inputs();
    // A single rounding passes with the default tolerance.
    let (found, text) = explained(Check::new().tolerance(1e-9).gradcheck(|x| op.call([&x[0]]), &[matrix()]));
    assert_eq!(found.diagnosis, Diagnosis::SinglePrecision { of_value: false }, "{text}");
    let narrow = |x: &[Var]| Ok(x[0].to(DType::F32).sin().to(DType::F64));
    let (found, text) = explained(gradcheck(narrow, &[matrix()]));
    assert_eq!(found.diagnosis, Diagnosis::SinglePrecision { of_value: true }, "{text}");
    assert!(text.contains("the function's value has only the digits of f32"), "{text}");
}

#[test]
fn a_layout() {
    // Reads the elements in the order in which they lie, whatever the strides.
    let backward = |ctx: &FunctionContext<'_>, g: &Var| {
        let x = ctx.input(0).value();
        let wrong = x.t().contiguous().reshape(x.shape())?;
        Ok(g * if x.is_contiguous() { x } else { wrong } * 2.0)
    };
    let (found, text) = alone(|x| x.square(), backward, square().t());
    assert_eq!(found.diagnosis, Diagnosis::DependsOnLayout, "{text}");
    // The layout of the incoming gradient.
    let op = Operation::new(
        "planted",
        |[x]| x.exp(),
        |ctx, [g]| {
            if g.value().is_contiguous() { Ok(g * ctx.output()) } else { g.flip(0)?.mul(ctx.output()) }
        },
    );
    let op = op.saves_output();
    let check = Check::new().seeds(0).seed(tensor![[0.5, -1.0], [1.5, 0.7]; f64].t());
    let (found, text) = explained(check.gradcheck(|x| op.call([&x[0]]), &[square()]));
    assert_eq!(found.diagnosis, Diagnosis::DependsOnLayout, "{text}");
}

#[test]
fn what_differs_from_run_to_run() {
    let runs = AtomicU64::new(0);
    let noisy = |x: &[Var]| Ok(&x[0] * runs.fetch_add(1, Ordering::Relaxed) as f64);
    let (found, text) = explained(gradcheck(noisy, &[matrix()]));
    assert_eq!(found.diagnosis, Diagnosis::NotDeterministic { of_value: true }, "{text}");
    assert!(
        text.contains("the function's value is not deterministic: two runs at the same inputs differ"),
        "{text}"
    );
    static PASSES: AtomicU64 = AtomicU64::new(0);
    let backward = |_: &FunctionContext<'_>, g: &Var| Ok(g * PASSES.fetch_add(1, Ordering::Relaxed) as f64);
    let (found, text) = alone(|x| x + 1.0, backward, matrix());
    assert_eq!(found.diagnosis, Diagnosis::NotDeterministic { of_value: false }, "{text}");
}

#[test]
fn axes_in_the_wrong_order() {
    let (found, text) = alone(|x| x.sin(), |ctx, g| Ok((g * ctx.input(0).cos()).t()), square());
    assert_eq!(found.diagnosis, Diagnosis::Transposed { axes: (0, 1) }, "{text}");
    let read = |ctx: &FunctionContext<'_>, g: &Var| (g * ctx.input(0).cos()).t().contiguous().reshape([2, 3]);
    let (found, text) = alone(|x| x.sin(), read, matrix());
    assert_eq!(found.diagnosis, Diagnosis::Transposed { axes: (0, 1) }, "{text}");
    let (found, text) = alone(|x| x.flip(1).unwrap(), |_, g| Ok(g.clone()), matrix());
    assert_eq!(found.diagnosis, Diagnosis::Flipped { axis: 1 }, "{text}");
}

#[test]
fn sums_that_are_too_much_too_little_or_elsewhere() {
    let summed = |ctx: &FunctionContext<'_>, g: &Var| {
        (g * ctx.input(0).cos()).sum(foldback_tensor::keep(1))?.expand([2, 3])
    };
    let (found, text) = alone(|x| x.sin(), summed, matrix());
    assert_eq!(found.diagnosis, Diagnosis::OverReduced { axis: 1 }, "{text}");
    let one_row =
        |ctx: &FunctionContext<'_>, g: &Var| Ok((g * ctx.input(1), (g * ctx.input(0)).select(0, 1)?));
    let (found, text) = of_two(|a, b| a.mul(b), one_row, [matrix(), row()]);
    assert_eq!(found.diagnosis, Diagnosis::Unreduced { axis: 0, index: 1 }, "{text}");
    assert!(text.contains("gradient of input 1 at ["), "{text}");
    let other_axis = |ctx: &FunctionContext<'_>, g: &Var| Ok((g * ctx.input(1), (g * ctx.input(0)).sum(1)?));
    let (found, text) = of_two(|a, b| a.mul(b), other_axis, [square(), tensor![0.5, 2.0; f64]]);
    assert_eq!(found.diagnosis, Diagnosis::WrongAxes { summed: vec![1] }, "{text}");
}

#[test]
fn inputs_in_each_others_place() {
    let swapped = |ctx: &FunctionContext<'_>, g: &Var| Ok((g * ctx.input(0), g * ctx.input(1)));
    let (found, text) = of_two(|a, b| a.mul(b), swapped, [matrix(), matrix().exp()]);
    assert_eq!(found.diagnosis, Diagnosis::Swapped { with: Argument::Input(0) }, "{text}");
    // a / b, with a and b exchanged in both formulas.
    let exchanged = |ctx: &FunctionContext<'_>, g: &Var| {
        let (a, b) = (ctx.input(1), ctx.input(0));
        Ok((g / &b, -(g * a) / b.square()))
    };
    let (found, text) = of_two(|a, b| a.div(b), exchanged, [matrix(), matrix().exp()]);
    let inputs = (Argument::Input(0), Argument::Input(1));
    assert_eq!(found.diagnosis, Diagnosis::InputsSwapped { inputs }, "{text}");
}

#[test]
fn a_factor_of_a_product_that_is_not_transposed() {
    let backward =
        |ctx: &FunctionContext<'_>, g: &Var| Ok((g.matmul(ctx.input(1))?, ctx.input(0).t().matmul(g)?));
    let (found, text) = of_two(|a, b| a.matmul(b), backward, [square(), square().add(0.1).unwrap()]);
    assert_eq!(found.diagnosis, Diagnosis::OperandTransposed { operand: Argument::Input(1) }, "{text}");
    let backward = |ctx: &FunctionContext<'_>, g: &Var| {
        Ok((g.t().matmul(ctx.input(1).t())?, ctx.input(0).t().matmul(g)?))
    };
    let (found, text) = of_two(|a, b| a.matmul(b), backward, [square(), square().add(0.1).unwrap()]);
    assert_eq!(found.diagnosis, Diagnosis::OperandTransposed { operand: Argument::Seed }, "{text}");
}

#[test]
fn where_it_is_wrong() {
    let leaky = |slope: f64| {
        move |ctx: &FunctionContext<'_>, g: &Var| {
            let x = ctx.input(0);
            x.gt(0.0)?.where_cond(g, g * slope)
        }
    };
    let op = |slope| {
        Operation::new("leaky", |[x]| x.leaky_relu_with(0.1), move |ctx, [g]| leaky(slope)(ctx, &g))
            .saves_inputs()
    };
    gradcheck(|x| op(0.1).call([&x[0]]), &[matrix()]).expect("that is right");
    let (found, text) = explained(gradcheck(|x| op(0.01).call([&x[0]]), &[matrix()]));
    assert_eq!((found.wrong, found.of, &found.region), (2, 6, &Region::Negative), "{text}");
    assert!(matches!(found.diagnosis, Diagnosis::Factor { factor: 0.1, .. }), "{text}");
    assert!(
        text.contains("it is 1/10 of what it should be; wrong only where the input is negative, in 2 of 6"),
        "{text}"
    );
    // A gradient of x * x that is wrong at zero, and one that is wrong where x is positive.
    let at_zero = |ctx: &FunctionContext<'_>, g: &Var| {
        let x = ctx.input(0);
        x.eq(0.0)?.where_cond(g, g * &x * 2.0)
    };
    let (found, text) = alone(|x| x.square(), at_zero, tensor![0.0, 1.0, -2.0; f64]);
    assert_eq!((found.wrong, found.region), (1, Region::Zero), "{text}");
    let positive = |ctx: &FunctionContext<'_>, g: &Var| {
        let x = ctx.input(0);
        x.gt(0.0)?.where_cond(g * &x, g * &x * 2.0)
    };
    let (found, text) = alone(|x| x.square(), positive, matrix());
    assert_eq!((found.wrong, found.region), (4, Region::Positive), "{text}");
    let one = |ctx: &FunctionContext<'_>, g: &Var| {
        Ok(g * ctx.input(0).cos() * tensor![[1.0, 1.0, 1.0], [1.0, 1.0, -1.0]; f64])
    };
    let (found, text) = alone(|x| x.sin(), one, matrix());
    assert_eq!(
        (found.diagnosis, found.region),
        (Diagnosis::SignFlipped, Region::Index(vec![1, 2])),
        "{text}"
    );
}

#[test]
fn a_second_order_that_is_missing() {
    let detached = |ctx: &FunctionContext<'_>, g: &Var| Ok(g * ctx.input(0).detach().cos());
    let op = Operation::new("planted", |[x]| x.sin(), move |ctx, [g]| detached(ctx, &g)).saves_inputs();
    gradcheck(|x| op.call([&x[0]]), &[matrix()]).expect("the first order is right");
    let e = gradgradcheck(|x| op.call([&x[0]]), &[matrix()]).unwrap_err();
    let Some(GradcheckFacts::Gradient { order: Order::Second, explanation, .. }) = e.facts() else {
        panic!("{e}")
    };
    assert_eq!(explanation.diagnosis, Diagnosis::SecondOrderMissing, "{e}");
    assert_eq!(explanation.region, Region::Everywhere);
    let operation = explanation.operation.expect("what was recorded is wrong");
    assert!(operation.location.file().ends_with("diagnoses.rs"), "{e}");
}

#[test]
fn zeros_that_are_not() {
    let (found, text) = of_one(|x| x.relu(), |_, g| g.clone(), matrix());
    assert_eq!((found.diagnosis, found.region), (Diagnosis::Unwanted, Region::Negative), "{text}");
    assert!(
        text.contains("it should be zero there, and is not; wrong only where the input is negative"),
        "{text}"
    );
    let (found, text) = alone(|x| x.floor(), |_, g| Ok(g.clone()), matrix());
    assert_eq!((found.diagnosis, found.wrong), (Diagnosis::Unwanted, 6), "{text}");
}

#[test]
fn elements_in_other_places() {
    let roll = Operation::new("planted", |[x]| x.roll(1, 0), |_, [g]| g.roll(1, 0));
    let (found, text) = explained(gradcheck(|x| roll.call([&x[0]]), &[row()]));
    assert_eq!(found.diagnosis, Diagnosis::Rearranged, "{text}");
    let flat = Operation::new("planted", |[x]| x.reshape([3, 2]), |_, [g]| g.t().reshape([2, 3]));
    let (found, text) = explained(gradcheck(|x| flat.call([&x[0]]), &[matrix()]));
    assert_eq!((found.diagnosis, found.wrong), (Diagnosis::Rearranged, 4), "{text}");
    assert!(text.contains("it has the right elements in the wrong places"), "{text}");
}

#[test]
fn an_incoming_gradient_that_is_squared_or_added_to() {
    let (found, text) = of_one(|x| x.sin(), |ctx, g| g * g * ctx.input(0).cos(), matrix());
    assert_eq!(found.diagnosis, Diagnosis::NotProportional, "{text}");
    // A constant that was added is not one any more after the operation before it.
    let (found, text) = of_one(|x| x.sin(), |ctx, g| g * ctx.input(0).cos() + ctx.input(0), matrix());
    assert_eq!(found.diagnosis, Diagnosis::NotProportional, "{text}");
    assert!(text.contains("for twice the seed it is not twice as large"), "{text}");
}

/// What a function jumps between may be whole numbers, and a gradient may be one: neither says that something computes in `f32`.
#[test]
fn few_digits_are_not_those_of_f32() {
    let e = gradcheck(|x| Ok(x[0].round()), &[tensor![0.5; f64]]).unwrap_err();
    assert!(matches!(e.facts(), Some(GradcheckFacts::Kink { .. })), "{e}");
    let (found, text) = alone(|x| x.mul(1.000001).unwrap(), |_, g| Ok(g / g), matrix());
    assert!(!matches!(found.diagnosis, Diagnosis::SinglePrecision { .. }), "{text}");
}

/// No operation is accused where there is nothing to compare with.
#[test]
fn a_value_that_is_not_finite_beside_the_point() {
    let pow = |x: &[Var]| x[0].pow(&x[1]);
    let of_both = [tensor![0.0, 1.0; f64], tensor![2.0, 3.0; f64]];
    for found in [
        gradcheck(|x| Ok(x[0].sqrt()), &[tensor![0.0, 1.0; f64]]),
        gradcheck(pow, &of_both),
        gradcheck(|x| Ok(x[0].square()), &[tensor![1e200; f64]]),
        gradcheck(|x| Ok(x[0].sin()), &[tensor![f64::NAN, 1.0; f64]]),
    ] {
        let (found, text) = explained(found);
        assert_eq!((found.diagnosis, found.operation), (Diagnosis::ValueNonFinite, None), "{text}");
        assert!(text.contains("the function's value is not finite there or close by"), "{text}");
    }
    // A gradient that is no number is found, at a kink, too.
    let (found, text) = explained(gradcheck(|x| x[0].hypot(0.0), &[tensor![0.0, 1.0; f64]]));
    assert_eq!((found.diagnosis, found.wrong), (Diagnosis::NonFinite, 1), "{text}");
}

#[test]
fn no_simple_fault() {
    let (found, text) = alone(|x| x.sin(), |ctx, g| Ok(g * ctx.input(0).cos().square()), matrix());
    assert_eq!(found.diagnosis, Diagnosis::Unexplained, "{text}");
    assert!(found.operation.is_some() && text.contains("no simple fault explains it; wrong"), "{text}");
    // With others around it there is something to be done.
    let (found, text) = of_one(|x| x.sin(), |ctx, g| g * ctx.input(0).cos().square(), matrix());
    assert_eq!(found.operation.map(|operation| operation.recorded), Some(3), "{text}");
    let words = "no simple fault explains it in the gradient of the whole: a check of the operation alone may say more";
    assert!(text.contains(words), "{text}");
}

#[test]
fn the_first_of_several_wrong_operations() {
    let wrong = Operation::new("planted", |[x]| x.sin(), |ctx, [g]| g * ctx.input(0).sin()).saves_inputs();
    let f = |x: &[Var]| wrong.call([&wrong.call([&x[0].exp()])?.square()]);
    let (found, text) = explained(gradcheck(f, &[matrix()]));
    assert_eq!(found.operation.map(|o| (o.name, o.others)), Some(("planted", 1)), "{text}");
    assert!(text.contains(", and that of 1 operation after it"), "{text}");
}

#[test]
fn too_many_elements_to_look_at_each() {
    let op = Operation::new("planted", |[x]| x.sin(), |ctx, [g]| g * ctx.input(0).sin()).saves_inputs();
    let x = Tensor::linspace(-2.0, 2.0, 2000).to(DType::F64);
    let (found, text) = explained(gradcheck(|x| op.call([&x[0]]), &[x]));
    assert_eq!((found.diagnosis, found.wrong), (Diagnosis::Unexplained, 0), "{text}");
    assert_eq!(found.operation.expect("it is found all the same").name, "planted");
}
