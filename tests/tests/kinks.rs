//! Points within reach of a kink, a tie, a jump or the end of a domain: neither accused nor passed, and resampled on request.

use foldback_gradcheck::{
    Argument, Check, Diagnosis, Explanation, GradcheckFacts, Order, Place, gradcheck, gradgradcheck,
};
use foldback_graph::{Operation, Result, Var};
use foldback_tensor::{Tensor, tensor};

/// The place of the kink that is reported, and the slopes on both sides.
#[track_caller]
fn kink(found: Result<()>) -> (Order, Argument, Place, f64, f64) {
    let e = found.expect_err("a kink is not passed");
    let Some(GradcheckFacts::Kink { order, argument, place, before, after, .. }) = e.facts() else {
        panic!("found something else: {e}")
    };
    (*order, *argument, place.clone(), *before, *after)
}

/// What is said of a gradient that is not confirmed.
#[track_caller]
fn explained(found: Result<()>) -> Explanation {
    let e = found.expect_err("there is nothing to confirm it by");
    let Some(GradcheckFacts::Gradient { explanation, .. }) = e.facts() else {
        panic!("found something else: {e}")
    };
    (**explanation).clone()
}

#[test]
fn a_relu_at_zero_and_an_absolute_value_beside_it() {
    let x = tensor![[1.0, -2.0, 0.0]; f64];
    let check = Check::new().seeds(0).seed(tensor![[1.0, 1.0, 1.0]; f64]);
    let (order, argument, place, before, after) = kink(check.gradcheck(|x| Ok(x[0].relu()), &[x]));
    assert_eq!((order, argument, place), (Order::First, Argument::Input(0), Place::Element(vec![0, 2])));
    assert!(before == 0.0 && (after - 1.0).abs() < 1e-6, "{before} {after}");
    for near in [1e-9, -1e-9, 1e-8, -1.8e-8, 2.3e-8] {
        kink(gradcheck(|x| Ok(x[0].abs()), &[tensor![near; f64]]));
        kink(gradcheck(|x| Ok(x[0].relu()), &[tensor![near; f64]]));
    }
    // Within the first step, and out of reach of shorter ones, which confirm the gradient.
    for near in [1e-7, -3e-6, 5e-6, 1e-4] {
        gradcheck(|x| Ok(x[0].abs()), &[tensor![near; f64]]).expect("the slope is 1 or -1");
    }
}

#[test]
fn a_central_difference_that_happens_to_agree_is_no_proof() {
    // The gradient of an absolute value at 0 is 0, and so is the difference.
    kink(gradcheck(|x| Ok(x[0].abs()), &[tensor![0.0; f64]]));
    // Half of the gradient for each of two that are tied.
    kink(gradcheck(|x| x[0].amax(..), &[tensor![2.0, 1.0, 2.0; f64]]));
    kink(gradcheck(|x| x[0].maximum(&x[1]), &[tensor![2.0; f64], tensor![2.0; f64]]));
}

#[test]
fn jumps_and_second_derivatives() {
    kink(gradcheck(|x| x[0].mul(x[0].floor()), &[tensor![1.0, 0.5; f64]]));
    let huber = |x: &[Var]| Ok(x[0].relu().square());
    gradcheck(huber, &[tensor![0.0, 1.0; f64]]).expect("its slope has no jump");
    assert_eq!(kink(gradgradcheck(huber, &[tensor![0.0, 1.0; f64]])).0, Order::Second);
}

/// The differences to either side agree, and are the steeper, the shorter the step.
#[test]
fn jumps_by_as_much_to_either_side() {
    kink(gradcheck(|x| Ok(x[0].sign()), &[tensor![0.0, 1.0; f64]]));
    kink(gradgradcheck(|x| Ok(x[0].abs() * &x[0]), &[tensor![0.0; f64]]));
    kink(gradcheck(|x| x[0].normalize(0), &[tensor![0.0, 0.0; f64]]));
    // A value that is large and does not change is no jump.
    let wrong = Operation::new("large", |[x]| x.mul(0.0)?.add(1e9), |_, [g]| g);
    let e = gradcheck(|x| wrong.call([&x[0]]), &[tensor![0.3, 1.0; f64]]).unwrap_err();
    assert!(matches!(e.facts(), Some(GradcheckFacts::Gradient { .. })), "{e}");
    let wrong = Operation::new("large", |[x]| x.add(1e9)?.sub(x), |_, [g]| g);
    let e = gradcheck(|x| wrong.call([&x[0]]), &[tensor![0.3, 1.0; f64]]).unwrap_err();
    assert!(matches!(e.facts(), Some(GradcheckFacts::Gradient { .. })), "{e}");
}

/// A step of a third of what the function needs to change by as much as it holds.
#[test]
fn steep_functions_are_smooth() {
    for x in [1e-3, 3e-5, 1e-5] {
        let x = [tensor![x, 1.0; f64]];
        for f in [|x: &Var| x.log(), |x: &Var| x.sqrt(), |x: &Var| x.reciprocal()] {
            gradcheck(|x| Ok(f(&x[0])), &x).expect("it is right");
            gradgradcheck(|x| Ok(f(&x[0])), &x).expect("it is right");
        }
        let wrong = Operation::new("log", |[x]| x.log(), |ctx, [g]| g / ctx.input(0) * 1.0001).saves_inputs();
        let e = gradcheck(|x| wrong.call([&x[0]]), &x).unwrap_err();
        assert!(matches!(e.facts(), Some(GradcheckFacts::Gradient { .. })), "{e}");
    }
}

#[test]
fn many_elements_of_which_one_is_at_a_kink() {
    let mut values: Vec<f64> = (0..500).map(|i| f64::from(i) * 0.01 - 2.003).collect();
    values[77] = 0.0;
    let x = Tensor::from_vec(values, [500]).unwrap();
    let (_, _, place, ..) = kink(gradcheck(|x| Ok(x[0].relu()), std::slice::from_ref(&x)));
    assert_eq!(place, Place::Direction);
    kink(gradcheck(|x| x[0].relu().sum(..), &[x]));
}

#[test]
fn a_fault_beside_a_kink_is_found() {
    let wrong = Operation::new("relu", |[x]| x.relu(), |_, [g]| g).saves_inputs();
    let e = gradcheck(|x| wrong.call([&x[0]]), &[tensor![-1.0, 0.0, 2.0; f64]]).unwrap_err();
    let Some(GradcheckFacts::Gradient { place, .. }) = e.facts() else { panic!("{e}") };
    assert_eq!(*place, Place::Element(vec![0]), "{e}");
}

#[test]
fn curvature_is_no_kink() {
    // Of a million times the size of the slope.
    let sharp = |x: &[Var]| Ok((&x[0] * 300.0).tanh());
    Check::new().tolerance(1e-2).gradcheck(sharp, &[tensor![0.002, -0.003; f64]]).expect("it is smooth");
    let wrong =
        Operation::new("square", |[x]| x.square(), |ctx, [g]| g * ctx.input(0) * 2.000001).saves_inputs();
    let e = gradcheck(|x| wrong.call([&x[0]]), &[tensor![3.0; f64]]).unwrap_err();
    assert!(matches!(e.facts(), Some(GradcheckFacts::Gradient { .. })), "{e}");
}

#[test]
fn other_values_are_tried_on_request() {
    let check = Check::new().resample(true);
    let x = tensor![0.0, 1e-9, -1e-9, 2.0, 2.0; f64];
    check
        .gradcheck(|x| Ok(x[0].relu()), std::slice::from_ref(&x))
        .expect("values beside the kink are smooth");
    check.gradgradcheck(|x| x[0].amax(..), std::slice::from_ref(&x)).expect("and not tied");
    // What is wrong beside the kink is found there.
    let wrong = Operation::new("relu", |[x]| x.relu(), |_, [g]| g * 0.5);
    let e = check.gradcheck(|x| wrong.call([&x[0]]), &[tensor![0.0; f64]]).unwrap_err();
    assert!(matches!(e.facts(), Some(GradcheckFacts::Gradient { .. })), "{e}");
}

#[test]
fn the_message_says_what_to_do() {
    let e = gradcheck(|x| Ok(x[0].relu()), &[tensor![0.0; f64]]).unwrap_err().with_location(None).to_string();
    assert!(e.starts_with("gradcheck: there is a kink or a jump within 6.1e-6 of input 0 "), "{e}");
    assert!(e.ends_with("check at other values, or let Check::resample choose some"), "{e}");
}

/// What a function jumps between may be whole numbers, and a gradient may be one: neither says that something computes in `f32`.
#[test]
fn few_digits_are_not_those_of_f32() {
    let e = gradcheck(|x| Ok(x[0].round()), &[tensor![0.5; f64]]).unwrap_err();
    assert!(matches!(e.facts(), Some(GradcheckFacts::Kink { .. })), "{e}");
    let op = Operation::new("one", |[x]| x.mul(1.000001), |_, [g]| &g / &g);
    let found = explained(gradcheck(|x| op.call([&x[0]]), &[tensor![0.3, 1.0; f64]]));
    assert!(!matches!(found.diagnosis, Diagnosis::SinglePrecision { .. }), "{found}");
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
        let found = explained(found);
        assert_eq!((&found.diagnosis, found.operation), (&Diagnosis::ValueNonFinite, None), "{found}");
        assert!(
            found.to_string().contains("the function's value is not finite there or close by"),
            "{found}"
        );
    }
    // A gradient that is no number is found, at a kink, too.
    let found = explained(gradcheck(|x| x[0].hypot(0.0), &[tensor![0.0, 1.0; f64]]));
    assert_eq!((&found.diagnosis, found.wrong), (&Diagnosis::NonFinite, 1), "{found}");
}
