//! What can be checked beside a function of `f64` inputs with one output: several outputs, integers, parameters, `f32`; other ways
//! to compute derivatives; and how likely a fast check misses a fault.

use foldback_gradcheck::{Argument, Check, Diagnosis, GradcheckFacts, Mode, Order, gradcheck, gradgradcheck};
use foldback_graph::{Backward, GraphFacts, Operation, RequiresGrad, Result, Var, grad_with};
use foldback_nn::{Linear, Module, Tanh, sequential};
use foldback_tensor::{DType, Tensor, refused, tensor};

fn matrix() -> Tensor {
    tensor![[0.3, -1.2, 0.7], [1.9, 0.4, -0.6]; f64]
}

#[test]
fn several_outputs() {
    let both = |x: &[Var]| Ok([x[0].sin(), x[0].mul(&x[1])?.sum(0)?]);
    let inputs = [matrix(), tensor![0.5, 2.0, -0.7; f64]];
    gradcheck(both, &inputs).unwrap();
    gradgradcheck(both, &inputs).unwrap();
    gradcheck(|x| Ok(vec![x[0].exp()]), &inputs[..1]).unwrap();
    // A fault in the second output, which is found whatever the first one is.
    let wrong = Operation::new("double", |[x]| x * 2.0, |_, [g]| g);
    let e = gradcheck(|x| Ok([x[0].sin(), wrong.call([&x[0]])?]), &inputs[..1]).unwrap_err();
    let Some(GradcheckFacts::Gradient { explanation, .. }) = e.facts() else { panic!("{e}") };
    assert_eq!(explanation.operation.unwrap().name, "double", "{e}");
    // The seed that is given is the first output's.
    let check = Check::new().seeds(0).seed(Tensor::ones_with([2, 3], DType::F64));
    check.gradcheck(both, &inputs).unwrap();
    let e = Check::new().seed(tensor![1.0; f64]).gradcheck(both, &inputs).unwrap_err();
    assert!(matches!(e.facts(), Some(GradcheckFacts::Shape { argument: Argument::Seed, .. })), "{e}");
}

#[test]
fn functions_that_take_gradients_themselves() {
    let slope = |y: &Var, x: &Var| grad_with(y, x, Backward::new().create_graph(true));
    let x = tensor![0.3, -1.2, 0.7; f64];
    gradcheck(|x: &Var| slope(&x.sin().sum(..)?, x), &x).unwrap();
    gradgradcheck(|x: &Var| slope(&x.powi(4).sum(..)?, x), &x).unwrap();
    // The gradient penalty of a model, by its parameters.
    let model = Linear::new(3, 2).to(DType::F64).unwrap();
    let penalty = || {
        let x = x.clone().requires_grad();
        slope(&model.forward(&x)?.tanh().sum(..)?, &x)?.square().sum(..)
    };
    Check::new().gradcheck_parameters(penalty, model.named_parameters()).unwrap();
}

#[test]
fn integers_among_inputs_and_outputs() {
    let pick = |x: &[Var]| x[0].gather(1, &x[1]);
    let inputs = [matrix(), tensor![[0, 2], [1, 1]; i64]];
    gradcheck(pick, &inputs).unwrap();
    gradgradcheck(pick, &inputs).unwrap();
    // Values with their places: these are passed over.
    let sorted = |x: &[Var]| x[0].sort(1).map(|(values, places)| [values, places]);
    gradcheck(sorted, &inputs[..1]).unwrap();
    let e = gradcheck(|x| Ok([x[0].argmax(1)?] as [Var; 1]), &inputs[..1]).unwrap_err();
    assert!(refused!(
        Err::<(), _>(e),
        GradcheckFacts::DType { argument: Argument::Output, dtype: DType::I64 }
    ));
}

#[test]
fn the_parameters_of_a_module() {
    let model = sequential![Linear::new(3, 4).dtype(DType::F64), Tanh, Linear::new(4, 2).dtype(DType::F64)];
    let x = matrix();
    let before: Vec<Tensor> = model.parameters().iter().map(Var::value).collect();
    Check::new().gradcheck_parameters(|| model.forward(&x), model.named_parameters()).unwrap();
    Check::new().seeds(1).gradgradcheck_parameters(|| model.forward(&x), model.named_parameters()).unwrap();
    let wrong = Operation::new("wrong", |[x]| x * 1.0, |_, [g]| g * 3.0);
    let f = || model.forward(&x)?.mul(wrong.call([&model.named_parameters()[3].1])?);
    let e = Check::new().gradcheck_parameters(f, model.named_parameters()).unwrap_err();
    let Some(GradcheckFacts::Gradient { argument: Argument::Input(3), explanation, .. }) = e.facts() else {
        panic!("{e}")
    };
    assert_eq!(explanation.name.as_deref(), Some("2.bias"));
    assert!(e.to_string().starts_with("gradcheck: the first-order gradient of input 3 (2.bias) at ["), "{e}");
    let after: Vec<Tensor> = model.parameters().iter().map(Var::value).collect();
    assert!(before == after && model.parameters().iter().all(|p| p.grad().is_none()));
}

#[test]
fn parameters_keep_their_values_whatever_happens() {
    let w = tensor![0.5, 2.0; f64].requires_grad();
    let panics = || -> Result<Var> {
        if w.value() == tensor![0.5, 2.0; f64] { Ok(w.exp()) } else { panic!("on purpose") }
    };
    let check = || Check::new().gradcheck_parameters(panics, [("w", &w)]);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)).is_err());
    assert_eq!(w.value(), tensor![0.5, 2.0; f64]);
    let single = tensor![1.0].requires_grad();
    let e = Check::new().single_precision(true).gradcheck_parameters(|| Ok(single.exp()), [("w", &single)]);
    assert!(refused!(e, GradcheckFacts::DType { dtype: DType::F32, .. }));
    let e = Check::new().gradcheck_parameters(|| Ok(w.exp()), [("y", &w.exp())]);
    assert!(refused!(e, GraphFacts::NotALeaf { .. }));
    let e = Check::new().check_forward_ad(true).gradcheck_parameters(|| Ok(w.exp()), [("w", &w)]);
    assert!(refused!(e, GradcheckFacts::ForwardOfParameters));
}

#[test]
fn gradients_in_f32_against_differences_in_f64() {
    let check = Check::new().single_precision(true);
    let x = [matrix().to(DType::F32), tensor![[0.5], [2.0]]];
    let f = |x: &[Var]| (&x[0] * &x[1]).softmax(1)?.log().matmul(x[0].t());
    check.gradcheck(f, &x).unwrap();
    check.gradgradcheck(f, &x).unwrap();
    check.clone().check_forward_ad(true).check_batched_grad(true).gradcheck(f, &x).unwrap();
    // Inputs that are not tracked follow, too.
    check.clone().tracked(&[true, false]).gradcheck(f, &x).unwrap();
    let wrong = Operation::new("wrong", |[x]| x.sin(), |ctx, [g]| g * ctx.input(0).sin()).saves_inputs();
    let e = check.gradcheck(|x| wrong.call([&x[0].exp()]), &x[..1]).unwrap_err();
    let Some(GradcheckFacts::Gradient { explanation, .. }) = e.facts() else { panic!("{e}") };
    assert_eq!(explanation.operation.unwrap().name, "wrong");
    let half = Operation::new("half", |[x]| x.square(), |ctx, [g]| g * ctx.input(0)).saves_inputs();
    let e = check.gradcheck(|x| half.call([&x[0]]), &x[..1]).unwrap_err();
    let Some(GradcheckFacts::Gradient { explanation, .. }) = e.facts() else { panic!("{e}") };
    assert!(matches!(explanation.diagnosis, Diagnosis::Factor { factor: 0.5, .. }), "{e}");
    // A function that is f32 whatever it is given has no differences in f64.
    let e = check.gradcheck(|x| Ok(x[0].to(DType::F32).exp()), &x[..1]);
    assert!(refused!(e, GradcheckFacts::DType { argument: Argument::Output, dtype: DType::F32 }));
}

#[test]
fn forward_mode_and_batches_against_the_backward_pass() {
    let check = Check::new().check_forward_ad(true).check_batched_grad(true);
    let f = |x: &[Var]| Ok([x[0].mul(&x[1])?.tanh(), x[0].matmul(x[1].unsqueeze(1)?)?]);
    let inputs = [matrix(), tensor![0.5, 2.0, -0.7; f64]];
    check.gradcheck(f, &inputs).unwrap();
    check.gradgradcheck(f, &inputs).unwrap();
    // Not linear in the incoming gradient where several come: right for each seed alone, wrong as a linear map.
    let per_call = Operation::new(
        "planted",
        |[x]| x.sin(),
        |ctx, [g]| {
            let slope = ctx.input(0).cos();
            if g.requires_grad() { g * slope * 2.0 } else { g * slope }
        },
    );
    let per_call = per_call.saves_inputs();
    gradcheck(|x| per_call.call([&x[0]]), &inputs[..1]).expect("each pass alone is right");
    let e =
        Check::new().check_forward_ad(true).gradcheck(|x| per_call.call([&x[0]]), &inputs[..1]).unwrap_err();
    let Some(GradcheckFacts::Mode { mode: Mode::Forward, order: Order::First, found, expected, .. }) =
        e.facts()
    else {
        panic!("{e}")
    };
    assert!((found / expected - 2.0).abs() < 1e-9, "{e}");
}

#[test]
fn batches_that_differ() {
    // Passes with several seeds call it once for each: what it gives depends on how often it ran.
    let count = std::sync::atomic::AtomicUsize::new(0);
    let runs = move || count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let changing = Operation::new(
        "planted",
        |[x]| x.sin(),
        move |ctx, [g]| {
            let slope = if runs() < 2 { 1.0 } else { 1.5 };
            g * ctx.input(0).cos() * slope
        },
    );
    let changing = changing.saves_inputs();
    let check = Check::new().seeds(1).check_batched_grad(true);
    let e = check.gradcheck(|x| changing.call([&x[0]]), &[matrix()]).unwrap_err();
    let Some(GradcheckFacts::Mode { mode: Mode::Batched, argument: Argument::Input(0), .. }) = e.facts()
    else {
        panic!("{e}")
    };
}

#[test]
fn a_fast_check_misses_no_more_than_it_says() {
    // The gradient of x * 1 with something added whose largest element is eight tolerances.
    let (n, times, mut missed) = (16usize, 400, 0);
    let check = Check::new().seeds(1).fast_mode();
    for trial in 0..times {
        let mut random = foldback_gradcheck::testing::Random::new(trial);
        let x: Vec<f64> = (0..n).map(|_| random.signed(0.1, 1.0)).collect();
        let mut added: Vec<f64> = (0..n).map(|_| random.uniform(-1.0, 1.0)).collect();
        // The size that the tolerance is relative to, at most: sum |s x| + sum |g d|.
        let size = 1.0 + x.iter().map(|x| 1.5 * x.abs()).sum::<f64>() + 1.5 * n as f64;
        let largest = added.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        added.iter_mut().for_each(|v| *v *= 8.0 * 1e-7 * size / largest);
        let added = Tensor::from_vec(added, [n]).unwrap();
        let op = Operation::new("planted", |[x]| x * 1.0, move |_, [g]| g + &added);
        missed +=
            usize::from(check.gradcheck(|x| op.call([&x[0]]), &[Tensor::from_vec(x, [n]).unwrap()]).is_ok());
    }
    assert!(missed * 4 <= times as usize, "{missed} of {times}");
}

#[test]
fn inputs_of_every_arrangement() {
    let (x, w) = (matrix(), tensor![0.5, 2.0, -0.7; f64].requires_grad());
    gradcheck(|x| x.tanh(), &x).unwrap();
    gradcheck(|x| x.softmax(1), x.clone()).unwrap();
    gradgradcheck(|w| w.exp(), &w).unwrap();
    gradcheck(|[x, w]| x * w, [&Var::from(&x), &w]).unwrap();
    gradgradcheck(|x| x[0].mul(&x[1]), &[x.clone(), w.value()]).unwrap();
    let both = vec![x.clone(), w.value()];
    gradcheck(|x| x[0].mul(&x[1]), &both).unwrap();
    gradcheck(|x| x[0].mul(&x[1]), both).unwrap();
    let list: &[Tensor] = &[x.clone(), w.value()];
    Check::new().tracked(&[false, true]).gradgradcheck(|x| x[0].mul(&x[1]), list).unwrap();
    assert!(w.grad().is_none());
    // Each is found where it stands.
    let wrong = Operation::new("double", |[x]| x * 2.0, |_, [g]| g);
    let e = gradcheck(|[x, w]| x.mul(wrong.call([w])?), [&Var::from(&x), &w]).unwrap_err();
    assert!(matches!(e.facts(), Some(GradcheckFacts::Gradient { argument: Argument::Input(1), .. })), "{e}");
    let e = gradcheck(|x| wrong.call([x]), &x).unwrap_err();
    assert!(matches!(e.facts(), Some(GradcheckFacts::Gradient { argument: Argument::Input(0), .. })), "{e}");
}
