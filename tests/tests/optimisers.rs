//! The optimisers against PyTorch's, step by step (`tests/golden/make_optim.py`).

use foldback::prelude::*;
use serde_json::Value;
use tests::optimisers::every_optimiser;

fn golden() -> Value {
    serde_json::from_str(include_str!("../golden/optim.json")).expect("a JSON file")
}

fn numbers(v: &Value) -> Vec<f64> {
    v.as_array().expect("a list").iter().map(|x| x.as_f64().expect("a number")).collect()
}

fn tensor_of(values: &Value, shape: &Value, dtype: DType) -> Tensor {
    let shape: Vec<usize> = numbers(shape).iter().map(|&n| n as usize).collect();
    Tensor::from_vec(numbers(values), shape).expect("as many values as the shape has").to(dtype)
}

fn optimiser(run: &Value, parameters: &[Var]) -> Box<dyn Optimizer> {
    let options = &run["options"];
    let number = |name: &str| options[name].as_f64();
    let flag = |name: &str| options[name].as_bool() == Some(true);
    let rate = number("lr").expect("every run has a learning rate");
    macro_rules! adam {
        ($name:ident) => {{
            let mut adam = $name::new(parameters, rate).amsgrad(flag("amsgrad"));
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
            Box::new(adam)
        }};
    }
    match run["name"].as_str() {
        Some("Adam") => adam!(Adam),
        Some("AdamW") => adam!(AdamW),
        Some("SGD") => Box::new(
            SGD::new(parameters, rate)
                .momentum(number("momentum").unwrap_or(0.0))
                .dampening(number("dampening").unwrap_or(0.0))
                .weight_decay(number("weight_decay").unwrap_or(0.0))
                .nesterov(flag("nesterov")),
        ),
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
        let optimiser = optimiser(run, &parameters);
        for (step, grads) in file["gradients"].as_array().unwrap().iter().enumerate() {
            if file["lr_halved_before_step"].as_u64() == Some(step as u64) {
                optimiser.set_lr(optimiser.lr() / 2.0).unwrap();
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
    for make in every_optimiser() {
        let w = Tensor::ones(shape).requires_grad();
        let x = Tensor::ones(shape);
        let optimiser = make(vec![w.clone()]);
        // The address of the elements; the handle is dropped before the step, which would copy a shared buffer.
        let address = || w.value().as_slice::<f32>().unwrap().as_ptr().addr();
        let before = address();
        for _ in 0..3 {
            optimiser.zero_grad();
            let loss = w.t().matmul(Var::from(&x)).unwrap().square().mean(..).unwrap();
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
    let sgd = SGD::new([&w], 1.0);
    w.set_grad(Some(tensor![1.0, 1.0])).unwrap();
    sgd.step().unwrap();
    assert_eq!((snapshot, w.value()), (tensor![1.0, 2.0], tensor![0.0, 1.0]));
}

/// A closure holds an optimiser whose rate a schedule changes meanwhile: as if both were one loop.
#[test]
fn a_schedule_and_a_closure_share_an_optimiser() {
    for make in every_optimiser() {
        let (by_closure, by_loop) = (tensor![1.0, -2.0].requires_grad(), tensor![1.0, -2.0].requires_grad());
        let (held, plain) = (make(vec![by_closure.clone()]), make(vec![by_loop.clone()]));
        let pass = |optimiser: &dyn Optimizer, w: &Var| {
            optimiser.zero_grad();
            w.square().sum(..).unwrap().backward().unwrap();
            optimiser.step().unwrap();
        };
        let step = || pass(&*held, &by_closure);
        for rate in [0.1, 0.05, 0.0, 0.2] {
            held.set_lr(rate).unwrap();
            step();
            plain.set_lr(rate).unwrap();
            pass(&*plain, &by_loop);
            assert_eq!((by_closure.value(), held.lr()), (by_loop.value(), rate));
        }
    }
}

/// What one clone does, its learning rate and its momentum, is there for the other.
#[test]
fn a_clone_is_a_handle() {
    let w = tensor![0.0; f64].requires_grad();
    let sgd = SGD::new([&w], 1.0).momentum(0.5);
    let adam = Adam::new([&w], 1.0);
    let clone = sgd.clone();
    w.set_grad(Some(tensor![1.0; f64])).unwrap();
    sgd.step().unwrap();
    clone.step().unwrap();
    assert_eq!(w.value(), tensor![-2.5; f64]);
    clone.set_lr(0.25).unwrap();
    adam.clone().set_lr(0.5).unwrap();
    assert_eq!((sgd.lr(), adam.lr()), (0.25, 0.5));
    assert!(sgd.parameters()[0].is_same(&clone.parameters()[0]));
    // From 0.25 * 3.5, and not of the momentum: it is off for both.
    let (before, _) = (w.value(), clone.momentum(0.0));
    sgd.step().unwrap();
    assert_eq!(w.value(), before - 0.25);
}

/// Steps taken in two threads at once have the effect of as many in one, while others print, read and write.
#[test]
fn steps_in_two_threads_all_count() {
    let steps = 300;
    for make in every_optimiser() {
        let start = || [tensor![1.0, 2.0; f64].requires_grad(), tensor![3.0; f64].requires_grad()];
        let (shared, alone) = (start(), start());
        for w in shared.iter().chain(&alone) {
            w.set_grad(Some(Tensor::full_with(w.shape(), 0.5, DType::F64))).unwrap();
        }
        let (optimiser, one_by_one) = (make(shared.to_vec()), make(alone.to_vec()));
        std::thread::scope(|s| {
            let step = || (0..steps).for_each(|_| optimiser.step().unwrap());
            s.spawn(step);
            s.spawn(step);
            s.spawn(|| {
                for _ in 0..steps {
                    // A step from here must not wait for one that waits for this update.
                    let inside = shared[1].update_value(|_| {
                        assert_eq!(optimiser.lr(), 0.1);
                        assert!(optimiser.step().is_err());
                        Ok(())
                    });
                    inside.unwrap();
                }
            });
        });
        (0..2 * steps).for_each(|_| one_by_one.step().unwrap());
        let values = |w: [Var; 2]| w.map(|w| w.value());
        assert_eq!(values(shared), values(alone));
    }
}

/// An expanded view as a parameter gets memory of its own in its first step.
#[test]
fn expanded_parameters_are_stepped() {
    for make in every_optimiser() {
        let w = tensor![1.0].expand([3]).unwrap().requires_grad();
        w.set_grad(Some(tensor![1.0, 0.0, -1.0])).unwrap();
        make(vec![w.clone()]).step().unwrap();
        let signs = (&w.value() - &tensor![1.0]).sign();
        assert_eq!(signs.narrow(0, 0, 1).unwrap(), tensor![-1.0]);
        assert_eq!(signs.narrow(0, 2, 1).unwrap(), tensor![1.0]);
        assert_eq!(w.value().strides(), [1]);
    }
}
