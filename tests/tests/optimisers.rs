//! The optimisers against PyTorch's, step by step (`tests/golden/make_optim.py`).

use foldback::prelude::*;
use serde_json::Value;

fn golden() -> Value {
    serde_json::from_str(include_str!("../golden/optim.json")).expect("a JSON file")
}

fn numbers(v: &Value) -> Vec<f64> {
    v.as_array().expect("a list").iter().map(|x| x.as_f64().expect("a number")).collect()
}

fn tensor_of(values: &Value, shape: &Value, dtype: DType) -> Tensor {
    let shape: Vec<usize> = numbers(shape).iter().map(|&n| n as usize).collect();
    Tensor::from_vec(numbers(values), shape).expect("as many values as the shape has").to_dtype(dtype)
}

fn optimiser(run: &Value, parameters: &[Var]) -> Box<dyn Optimizer> {
    let options = &run["options"];
    let number = |name: &str| options[name].as_f64();
    let flag = |name: &str| options[name].as_bool() == Some(true);
    let rate = number("lr").expect("every run has a learning rate");
    let parameters = parameters.to_vec();
    let mut adam = AdamOptions::new(rate).amsgrad(flag("amsgrad"));
    if options["betas"].is_array() {
        let betas = numbers(&options["betas"]);
        adam = adam.betas(betas[0], betas[1]);
    }
    if let Some(eps) = number("eps") {
        adam = adam.eps(eps);
    }
    if let Some(decay) = number("weight_decay") {
        adam = adam.weight_decay(decay);
    }
    match run["name"].as_str() {
        Some("Adam") => Box::new(Adam::new(parameters, adam).unwrap()),
        Some("AdamW") => Box::new(AdamW::new(parameters, adam).unwrap()),
        Some("SGD") => {
            let sgd = SgdOptions::new(rate)
                .momentum(number("momentum").unwrap_or(0.0))
                .dampening(number("dampening").unwrap_or(0.0))
                .weight_decay(number("weight_decay").unwrap_or(0.0))
                .nesterov(flag("nesterov"));
            Box::new(SGD::new(parameters, sgd).unwrap())
        }
        other => panic!("no optimiser {other:?}"),
    }
}

fn replay(dtype: DType, tolerance: f64) {
    let file = golden();
    let shapes = file["shapes"].as_array().unwrap();
    for run in file["runs"].as_array().unwrap() {
        let parameters: Vec<Var> = (0..shapes.len())
            .map(|i| tensor_of(&file["start"][i], &shapes[i], dtype).requires_grad())
            .collect();
        let mut optimiser = optimiser(run, &parameters);
        for (step, grads) in file["gradients"].as_array().unwrap().iter().enumerate() {
            if file["lr_halved_before_step"].as_u64() == Some(step as u64) {
                optimiser.set_learning_rate(optimiser.learning_rate() / 2.0).unwrap();
            }
            optimiser.zero_grad();
            for (i, p) in parameters.iter().enumerate() {
                if !grads[i].is_null() {
                    p.set_grad(Some(tensor_of(&grads[i], &shapes[i], dtype))).unwrap();
                }
            }
            optimiser.step().unwrap();
            for (i, p) in parameters.iter().enumerate() {
                let expected = tensor_of(&run["steps"][step][i], &shapes[i], dtype);
                let tolerance =
                    tensor::Tolerance { atol: Some(tolerance), rtol: Some(tolerance), equal_nan: false };
                if let Err(e) = tensor::compare_close(&p.value(), &expected, &tolerance) {
                    panic!("{} {}, step {step}, parameter {i}: {e}", run["name"], run["options"]);
                }
            }
        }
    }
}

#[test]
fn steps_are_pytorchs_in_f64() {
    // The formulas are evaluated in the same order; what differs is the rounding of fused operations.
    replay(DType::F64, 1e-12);
}

#[test]
fn steps_are_pytorchs_in_f32() {
    // Adam's quotients carry the relative error of f32 (6e-8) through seven steps.
    replay(DType::F32, 2e-6);
}

/// A parameter's buffer is written where it lies, whatever the optimiser.
#[test]
fn parameters_are_written_in_place() {
    let shape = [64, 64];
    type Make = fn(Vec<Var>) -> Box<dyn Optimizer>;
    let make: [Make; 4] = [
        |p| Box::new(SGD::new(p, 0.1).unwrap()),
        |p| Box::new(SGD::new(p, SgdOptions::new(0.1).momentum(0.9)).unwrap()),
        |p| Box::new(Adam::new(p, 0.1).unwrap()),
        |p| Box::new(AdamW::new(p, AdamOptions::new(0.1).amsgrad(true)).unwrap()),
    ];
    for make in make {
        let w = Tensor::ones(shape).requires_grad();
        let x = Tensor::ones(shape);
        let mut optimiser = make(vec![w.clone()]);
        // The address of the elements; the handle is dropped before the step, which would copy a shared buffer.
        let address = || w.value().as_slice::<f32>().unwrap().as_ptr().addr();
        let before = address();
        for _ in 0..3 {
            optimiser.zero_grad();
            let loss = w.t().unwrap().matmul(&Var::from(&x)).unwrap().square().mean(..).unwrap();
            loss.backward().unwrap();
            optimiser.step().unwrap();
            assert_eq!(address(), before);
        }
        assert_ne!(w.value(), Tensor::ones(shape));
    }
}

/// A snapshot taken before a step keeps its values: the buffer is copied then.
#[test]
fn snapshots_are_not_written() {
    let w = tensor![1.0, 2.0].requires_grad();
    let snapshot = w.value();
    let mut sgd = SGD::new([w.clone()], 1.0).unwrap();
    w.set_grad(Some(tensor![1.0, 1.0])).unwrap();
    sgd.step().unwrap();
    assert_eq!((snapshot, w.value()), (tensor![1.0, 2.0], tensor![0.0, 1.0]));
}
