//! What gradients cost in memory beyond what they are made of, counted at the allocator.

use std::sync::{Arc, Mutex, MutexGuard};

use foldback::prelude::*;
use foldback::tensor::release_memory;
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const MIB: usize = 1 << 20;

/// The allocator counts for the whole process, so one test runs at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    release_memory();
    guard
}

/// The most bytes that lived at once during `f`, beyond those that lived before.
fn extra(f: impl FnOnce()) -> usize {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    f();
    ALLOCATOR.peak_usage().saturating_sub(before)
}

#[test]
fn an_outer_product_goes_back_without_its_matrix() -> Result<()> {
    let _alone = alone();
    let a = Tensor::ones([8192, 1]).requires_grad();
    let b = Tensor::full([1, 8192], 0.5).requires_grad();
    // Held, so that its 256 MiB do not wait in the pool, where their use would not be counted.
    let product = &a * &b;
    let loss = product.sum(..)?;
    let extra = extra(|| loss.backward().expect("a number"));
    assert_eq!(a.grad(), Some(Tensor::full([8192, 1], 4096.0)));
    assert_eq!(b.grad(), Some(Tensor::full([1, 8192], 8192.0)));
    assert!(extra <= 16 * MIB, "the backward pass took {extra} bytes");
    Ok(())
}

#[test]
fn one_number_against_twenty_million() -> Result<()> {
    let _alone = alone();
    const N: usize = 20_000_000;
    let ones = Tensor::ones([N]);
    for multiply in [true, false] {
        let w = tensor![1.0].requires_grad();
        let y = if multiply { w.mul(&ones)? } else { w.add(&ones)? };
        let loss = y.sum(..)?;
        let extra = extra(|| loss.backward().expect("a number"));
        assert_eq!(w.grad(), Some(tensor![20_000_000.0]));
        assert!(extra < MIB, "the backward pass took {extra} bytes");
    }
    Ok(())
}

#[test]
fn a_small_graph_is_given_back() -> Result<()> {
    let _alone = alone();
    let x = tensor![0.5].requires_grad();
    let run = || -> Result<()> {
        let mut y = &x * &x;
        for _ in 0..1000 {
            y = &(&y * &x) + &x;
        }
        x.zero_grad();
        y.backward()
    };
    run()?;
    let before = ALLOCATOR.current_usage();
    for _ in 0..20 {
        run()?;
    }
    // The test runner's own thread may hold a little; a graph that stayed would be hundreds of kilobytes.
    assert!(ALLOCATOR.current_usage() < before + (16 << 10));
    Ok(())
}

/// A step inside the pass frees each gradient before the next one is there: what lives at once is that of one layer, where
/// a step behind the pass has all of them. Both end with the same bits.
#[test]
fn steps_inside_a_pass_keep_no_gradients() -> Result<()> {
    let _alone = alone();
    const LAYERS: usize = 8;
    const WEIGHT: usize = 256 * 256 * size_of::<f32>();
    let train = |inside: bool| -> Result<(usize, Vec<Tensor>)> {
        release_memory();
        manual_seed(0);
        let x = Tensor::randn([4, 256]);
        let weights: Vec<Var> =
            (0..LAYERS).map(|_| (Tensor::randn([256, 256]) * 0.06).requires_grad()).collect();
        let steps: Vec<Arc<SGD>> = weights.iter().map(|w| Arc::new(SGD::new([w], 0.1))).collect();
        let step = |sgd: &SGD| -> Result<()> {
            sgd.step()?;
            sgd.zero_grad();
            // What is freed goes to the pool, whose memory would count.
            release_memory();
            Ok(())
        };
        for (w, sgd) in weights.iter().zip(&steps).filter(|_| inside) {
            let sgd = Arc::downgrade(sgd);
            w.register_post_accumulate_grad_hook(move |_| sgd.upgrade().map_or(Ok(()), |sgd| step(&sgd)))?;
        }
        let mut h = Var::from(x);
        for w in &weights {
            h = h.matmul(w)?.tanh();
        }
        let loss = h.square().mean(..)?;
        drop(h);
        let peak = extra(|| {
            loss.backward().expect("a number");
            if !inside {
                steps.iter().for_each(|sgd| step(sgd).expect("a step"));
            }
        });
        Ok((peak, weights.iter().map(Var::value).collect()))
    };
    let (behind, expected) = train(false)?;
    let (inside, values) = train(true)?;
    assert_eq!(values, expected);
    assert!(behind >= (LAYERS - 1) * WEIGHT, "gradients live at once: {behind} bytes");
    assert!(inside <= 2 * WEIGHT, "the pass took {inside} bytes, a gradient is {WEIGHT}");
    Ok(())
}
