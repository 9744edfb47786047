//! Steps over many parameters in one pass: to the bit what they are one by one, in any order, type, layout and number of threads.

use foldback::prelude::*;
use foldback::tensor::ThreadPool;
use tests::optimisers::{Make, every_optimiser};

/// Parameters of all sizes in two types, some of them views: more elements together than one thread takes, and one alone.
fn parameters() -> Vec<Var> {
    let wave = |n: usize, k: f64| Tensor::arange_with(0..n as i64, 1, DType::F64).mul(k).unwrap().sin();
    let mut all: Vec<Tensor> = [64, 0, 1, 4096, 40_001, 17, 300, 16, 3]
        .into_iter()
        .enumerate()
        .map(|(i, n)| wave(n, 0.1 + i as f64).to(if i % 3 == 2 { DType::F64 } else { DType::F32 }))
        .collect();
    let matrix = wave(600, 0.7).to(DType::F32).reshape([20, 30]).unwrap();
    all.extend([
        matrix.t(),
        matrix.narrow(1, 3, 5).unwrap(),
        tensor![1.5].expand([4]).unwrap(),
        tensor![0.5].reshape(()).unwrap(),
    ]);
    all.into_iter().map(RequiresGrad::requires_grad).collect()
}

/// Gives parameters the gradients of a step; every third one has none in the first, and the last is frozen.
fn give_gradients(vars: &[Var], step: usize) {
    for (i, var) in vars.iter().enumerate() {
        let is_without = (step == 0 && i % 3 == 0) || i + 1 == vars.len();
        let grad = (var.value() * (3.0 + step as f64)).cos();
        var.set_grad((!is_without).then_some(grad)).unwrap();
    }
}

type Optimisers = Vec<Box<dyn Optimizer>>;

/// Values after three steps, taken by optimisers that `make` gives for all parameters.
fn stepped(make: &dyn Fn(&[Var]) -> Optimisers) -> Vec<Tensor> {
    let vars = parameters();
    let optimisers = make(&vars);
    for step in 0..3 {
        give_gradients(&vars, step);
        optimisers.iter().for_each(|o| o.step().unwrap());
    }
    vars.iter().map(Var::value).collect()
}

fn together(make: Make) -> impl Fn(&[Var]) -> Optimisers {
    move |vars| vec![make(vars.to_vec())]
}

#[test]
fn together_is_one_by_one() {
    for (n, make) in every_optimiser().into_iter().enumerate() {
        let alone = stepped(&|vars| vars.iter().map(|var| make(vec![var.clone()])).collect());
        assert_ne!(alone[0], parameters()[0].value());
        assert_eq!(alone.last(), parameters().last().map(Var::value).as_ref(), "it is frozen");
        for threads in [1, 2, 8] {
            let all = ThreadPool::new(threads).install(|| stepped(&together(make)));
            assert_eq!(all, alone, "optimiser {n}, {threads} threads");
        }
        let backwards = stepped(&|vars| vec![make(vars.iter().rev().cloned().collect())]);
        assert_eq!(backwards, alone, "optimiser {n}");
    }
}

/// Groups that alternate are stepped in the same pass, each with its own settings.
#[test]
fn groups_are_stepped_with_their_own_settings() {
    let half = |vars: &[Var], odd: usize| -> Vec<Var> { vars.iter().skip(odd).step_by(2).cloned().collect() };
    let grouped = stepped(&|vars| {
        let other = Group::new().lr(0.25).betas(0.5, 0.75).amsgrad(true);
        vec![Box::new(Adam::new(vars, 0.1).group(half(vars, 1), other))]
    });
    let apart = stepped(&|vars| {
        let other = Adam::new(half(vars, 1), 0.25).betas(0.5, 0.75).amsgrad(true);
        vec![Box::new(Adam::new(half(vars, 0), 0.1)), Box::new(other)]
    });
    assert_eq!(grouped, apart);
}

/// Values, momenta and gradients that somebody holds stay as they were; the others are written where they lie.
#[test]
fn what_is_held_is_not_written() {
    let vars = parameters();
    let adam = Adam::new(&vars, 0.1);
    give_gradients(&vars, 1);
    adam.step().unwrap();
    let address = |t: Tensor| t.as_slice::<f32>().unwrap().as_ptr().addr();
    let (held, before) = ((vars[0].value(), adam.state_dict()), address(vars[3].value()));
    let copies = (held.0.to_vec::<f32>().unwrap(), before);
    let state: Vec<Tensor> = held.1.iter().map(|(_, t)| t.clone()).collect();
    let (numbers, moment) = (state.len(), held.1.get("state.0.exp_avg").unwrap().to_vec::<f32>().unwrap());
    give_gradients(&vars, 2);
    adam.step().unwrap();
    assert_eq!((held.0.to_vec::<f32>().unwrap(), address(vars[3].value())), copies);
    assert_eq!(held.1.get("state.0.exp_avg").unwrap().to_vec::<f32>().unwrap(), moment);
    assert_ne!(adam.state_dict().get("state.0.exp_avg"), held.1.get("state.0.exp_avg"));
    assert_eq!(numbers, adam.state_dict().iter().count());
}

/// A step does not wait for one parameter while it keeps others: an optimiser may step those meanwhile, in the very
/// function that updates the first.
#[test]
fn a_step_that_waits_holds_nothing() {
    let [a, b] = [tensor![1.0].requires_grad(), tensor![1.0].requires_grad()];
    for var in [&a, &b] {
        var.set_grad(Some(tensor![1.0])).unwrap();
    }
    let (both, one) = (SGD::new([&a, &b], 0.5), SGD::new([&a], 0.25));
    std::thread::scope(|s| {
        b.update_value(|value| {
            s.spawn(|| both.step().unwrap());
            while a.value() == tensor![1.0] {
                std::thread::yield_now();
            }
            one.step()?; // `both` waits for `b` now
            value.mul_(4.0).map(|_| ())
        })
        .unwrap();
    });
    assert_eq!((a.value(), b.value()), (tensor![0.25], tensor![3.5]));
}

/// Neither a gradient that does not fit nor settings that contradict each other change anything.
#[test]
fn a_step_is_taken_as_a_whole_or_not_at_all() {
    let vars = parameters();
    give_gradients(&vars, 1);
    let sgd = SGD::new(&vars, 0.1).group(&vars[5..6], Group::new().nesterov(true));
    let values = |vars: &[Var]| vars.iter().map(Var::value).collect::<Vec<_>>();
    let (before, state) = (values(&vars), sgd.state_dict());
    assert!(sgd.step().unwrap_err().to_string().contains("nesterov needs momentum"));
    vars[8].update_value(|_| sgd.clone().momentum(0.5).step()).unwrap_err();
    assert_eq!((values(&vars), sgd.state_dict().get("state.0.step")), (before, state.get("state.0.step")));
}

/// The norms of all gradients and the factor for all of them are those of one after another; one given twice counts twice.
#[test]
fn gradients_are_clipped_together() {
    for norm_type in [2.0, 1.0, f64::INFINITY, 3.0] {
        let vars: Vec<Var> = parameters().into_iter().filter(|v| v.numel() > 0).collect();
        give_gradients(&vars, 1);
        let grads: Vec<Option<Tensor>> = vars.iter().map(Var::grad).collect();
        let norms: Vec<f64> =
            grads.iter().flatten().map(|g| g.norm_with(.., norm_type).unwrap().item().unwrap()).collect();
        let norm = Tensor::from(norms).norm_with(.., norm_type).unwrap().item().unwrap();
        for threads in [1, 2] {
            vars.iter().zip(&grads).for_each(|(var, g)| var.set_grad(g.clone()).unwrap());
            let clip = || clip_grad_norm_with_(&vars, 0.5, norm_type, true).unwrap();
            assert_eq!(ThreadPool::new(threads).install(clip), norm);
            for (var, g) in vars.iter().zip(&grads) {
                assert_eq!(var.grad(), g.as_ref().map(|g| g * (0.5 / (norm + 1e-6))), "{norm_type}");
            }
        }
    }
    let w = tensor![1.0].requires_grad();
    w.set_grad(Some(tensor![4.0])).unwrap();
    let norm = clip_grad_norm_([&w, &tensor![1.0].requires_grad(), &w], 8f64.sqrt()).unwrap();
    assert_eq!(norm, 32f64.sqrt());
    assert_close!(w.grad().unwrap(), tensor![1.0], rtol = 1e-6, atol = 0.0);
}
