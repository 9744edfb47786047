//! The bits of a fused operation: with any number of threads, at every level of instructions.

use std::sync::Mutex;

use foldback::tensor::{Level, ThreadPool, detected_level, force_level};

use super::*;

/// Value and all gradients of a reduction of an operation of three operands that cross.
fn bits(values: &[Tensor; 3]) -> Vec<Tensor> {
    let f = fuse!(|x, w, b| (x * w + b).tanh() * x);
    let x = values.clone().map(|t| t.requires_grad());
    let y = f.mean([&x[0], &x[1], &x[2]], 1).unwrap();
    y.sum(..).unwrap().backward().unwrap();
    let mut all = vec![y.value()];
    all.extend(x.iter().map(|x| x.grad().expect("tracked")));
    all
}

fn crossed(dtype: DType) -> [Tensor; 3] {
    let mut random = Random::new(3);
    [&[300, 700][..], &[700], &[300, 1]].map(|s| fill(s, Domain::Any, &mut random).to(dtype))
}

/// The level belongs to the process: bits are not compared while another test changes it.
pub(super) static LEVEL: Mutex<()> = Mutex::new(());

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let _level = LEVEL.lock();
    for dtype in [DType::F32, DType::F64] {
        let values = crossed(dtype);
        let serial = ThreadPool::new(1).install(|| bits(&values));
        for threads in [2, 8] {
            let parallel = ThreadPool::new(threads).install(|| bits(&values));
            assert!(serial.iter().zip(&parallel).all(|(a, b)| a == b), "{threads} threads, {dtype}");
        }
    }
}

#[test]
fn every_level_agrees() {
    let _level = LEVEL.lock();
    for (dtype, rtol) in [(DType::F32, 1e-5), (DType::F64, 1e-13)] {
        let values = crossed(dtype);
        let best = bits(&values);
        for level in [Level::Baseline, Level::Avx2] {
            force_level(level);
            let found = bits(&values);
            force_level(detected_level());
            assert!(best.iter().zip(&found).all(|(a, b)| close(a, b, rtol)), "{level:?}, {dtype}");
        }
    }
}
