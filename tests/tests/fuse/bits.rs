//! The bits of a fused operation: with any number of threads, at every level of instructions.

use std::sync::RwLock;

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
pub(super) static LEVEL: RwLock<()> = RwLock::new(());

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let _level = LEVEL.read();
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
    let _level = LEVEL.write();
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

/// Operands that are views of one tensor, the same one or others, beside the same views of copies.
#[test]
fn views_of_one_tensor_give_the_bits_of_those_of_copies() {
    let _level = LEVEL.read();
    let f = fuse!(|x, w, b| (x - w) * b * x);
    let views: [fn(&Tensor) -> Tensor; 4] = [
        |t| t.narrow(1, 0, 12).unwrap(),
        |t| t.narrow(1, 0, 12).unwrap().transpose(0, 1).unwrap(),
        |t| t.narrow(1, 1, 12).unwrap(),
        |t| t.narrow(1, 0, 12).unwrap().flip(2).unwrap(),
    ];
    for dtype in [DType::F32, DType::F64] {
        let whole = fill(&[12, 30, 10][..], Domain::Any, &mut Random::new(7)).to(dtype);
        for (k, axes) in
            (0..64).flat_map(|k| [vec![0, 2], vec![1], vec![0, 1], vec![2]].map(|axes| (k, axes)))
        {
            let gradients = |copied: bool| {
                let operand = |place: u32| {
                    let whole = if copied { whole.add(0.0).unwrap() } else { whole.clone() };
                    views[k / 4usize.pow(place) % 4](&whole).requires_grad()
                };
                let x = [0, 1, 2].map(operand);
                let y = f.sum([&x[0], &x[1], &x[2]], &axes[..]).unwrap();
                y.square().sum(..).unwrap().backward().unwrap();
                [vec![y.value()], x.iter().filter_map(Var::grad).collect()].concat()
            };
            assert_eq!(gradients(false), gradients(true), "{k} over {axes:?}");
        }
    }
}

/// Over an axis outside of the one that an operand repeats along: rows that lie apart, stored and walked.
#[test]
fn short_rows_that_lie_apart_give_the_bits_of_what_is_stored() {
    let _level = LEVEL.read();
    let f = fuse!(|x, y, z| x * y + z);
    for (rows, columns) in [(9, 100), (3, 300), (90, 260)] {
        let shapes: [&[usize]; 3] = [&[rows, 7, columns], &[rows, 7, columns], &[rows, 1, columns]];
        for dtype in [DType::F32, DType::F64] {
            let [x, y, z] = shapes.map(|s| fill(s, Domain::Any, &mut Random::new(9)).to(dtype));
            let stored = f.call([&x, &y, &z]).unwrap().value();
            assert_eq!(
                f.sum([&x, &y, &z], 0).unwrap().value(),
                stored.sum(0).unwrap(),
                "{rows} {columns} {dtype}"
            );
        }
    }
}
