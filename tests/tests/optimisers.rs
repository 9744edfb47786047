//! Optimisers as handles on parameters: where they write, who shares them, and in which threads. Their steps are compared with
//! PyTorch's by the golden cases of training.

use foldback::prelude::*;
use tests::optimisers::every_optimiser;

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

/// A batch in parts has the bits of the whole one, where its sums are exact.
#[test]
fn gradients_of_parts_add_up() {
    let x = Tensor::arange(0..32).double().reshape([16, 2]).unwrap();
    let y = Tensor::arange(0..16).double().reshape([16, 1]).unwrap();
    for make in every_optimiser() {
        let after = |parts: i64| {
            let (w, b) = (tensor![[0.5], [-0.25]; f64].requires_grad(), tensor![0.125; f64].requires_grad());
            let optimiser = make(vec![w.clone(), b.clone()]);
            for _ in 0..2 {
                optimiser.zero_grad();
                let split = |t: &Tensor| t.split((16 / parts) as usize, 0).unwrap();
                for (x, y) in split(&x).iter().zip(&split(&y)) {
                    let residual = Var::from(x).matmul(&w).unwrap() + &b - y;
                    (residual.square().sum(..).unwrap() / 16.0).backward().unwrap();
                }
                optimiser.step().unwrap();
                // Dyadic again, so that the next sums are exact, too.
                for v in [&w, &b] {
                    let rounded = (v.value() * 64.0).round() / 64.0;
                    v.update_value(|value| {
                        *value = rounded;
                        Ok(())
                    })
                    .unwrap();
                }
            }
            (w.value(), b.value())
        };
        assert_eq!(after(1), after(4));
    }
}
