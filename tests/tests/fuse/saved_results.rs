//! Results that a fused operation saves for its gradients, where they are small: nobody sees but by what is kept.

use foldback::graph::saved_budget;
use foldback::tensor::ThreadPool;

use super::bits::LEVEL;
use super::*;

/// Beyond this many elements, nothing but operands is saved.
const SMALL: usize = 1 << 18;

type Reduction = Option<(&'static [isize], bool)>;

/// The gradients of a fused `tanh` of `x * w + b`, computed as `how` says.
fn gradients(values: &[Tensor; 3], over: Reduction, how: fn(Var, &[&Var]) -> Vec<Var>) -> Vec<Tensor> {
    let x = values.clone().map(|t| t.requires_grad());
    let inputs = [&x[0], &x[1], &x[2]];
    let y = loss(inputs, over);
    how(y, &inputs).iter().map(Var::value).collect()
}

fn loss(x: [&Var; 3], over: Reduction) -> Var {
    let f = fuse!(|x, w, b| (x * w + b).tanh());
    let y = match over {
        None => f.call(x),
        Some((axes, false)) => f.sum(x, axes),
        Some((axes, true)) => f.mean(x, axes),
    };
    // A seed that is not the same all over.
    let y = y.unwrap();
    let seed = fill(y.shape(), Domain::Any, &mut Random::new(8)).to(y.dtype());
    y.mul(&seed).unwrap().sum(..).unwrap()
}

fn now(y: Var, x: &[&Var]) -> Vec<Var> {
    grad(&y, x).unwrap()
}

fn recorded(y: Var, x: &[&Var]) -> Vec<Var> {
    let found = Grad::new([&y], x).create_graph(true).run().unwrap();
    found.into_iter().map(|g| g.expect("tracked")).collect()
}

/// A second pass over the same graph.
fn again(y: Var, x: &[&Var]) -> Vec<Var> {
    Grad::new([&y], x).retain_graph(true).run().unwrap();
    now(y, x)
}

const REDUCTIONS: [Reduction; 5] =
    [None, Some((&[0], false)), Some((&[1], true)), Some((&[0, 1], false)), Some((&[0, 1], true))];

/// In every layout and type; a recorded pass, one within a budget and one of many threads compute what the others read.
#[test]
fn gradients_from_a_saved_result_have_the_bits_of_others() {
    let _level = LEVEL.lock();
    let shapes: [[&[usize]; 3]; 5] = [
        [&[40, 30], &[40, 30], &[40, 30]],
        [&[40, 30], &[30], &[40, 1]],
        [&[1, 30], &[40, 1], &[]],
        [&[300, 200], &[200], &[300, 200]],
        [&[3, 0], &[3, 1], &[]],
    ];
    for dtype in [DType::F32, DType::F64] {
        for shapes in shapes {
            let mut random = Random::new(6);
            let values = shapes.map(|s| fill(s, Domain::Any, &mut random).to(dtype));
            for over in REDUCTIONS {
                let label = format!("{shapes:?} {dtype} {over:?}");
                let serial = ThreadPool::new(1).install(|| gradients(&values, over, now));
                assert_eq!(ThreadPool::new(3).install(|| gradients(&values, over, now)), serial, "{label}");
                assert_eq!(gradients(&values, over, again), serial, "{label}");
                let (within, _) = saved_budget(0, || gradients(&values, over, now));
                assert_eq!(within, serial, "{label}");
                for (a, b) in gradients(&values, over, recorded).iter().zip(&serial) {
                    assert!(close(a, b, if dtype == DType::F32 { 1e-4 } else { 1e-12 }), "{label}: {a} {b}");
                }
            }
        }
    }
}

#[test]
fn values_are_those_of_operators_around_the_limit() {
    let _level = LEVEL.lock();
    for n in [SMALL - 1, SMALL, SMALL + 1] {
        let values = fill([n], Domain::Any, &mut Random::new(2)).to(DType::F32);
        let [fused, plain] = [values.clone(), values].map(|x| x.requires_grad());
        let y = fuse!(|x| x.sigmoid()).sum([&fused], ..).unwrap();
        let z = plain.sigmoid().sum(..).unwrap();
        assert!(close(&y.value(), &z.value(), 1e-6));
        y.backward().unwrap();
        z.backward().unwrap();
        assert_eq!(fused.grad(), plain.grad());
    }
}

#[test]
fn derivatives_of_higher_order_do_not_read_it() {
    let x = tensor![[0.3, -1.2], [0.0, 2.0]; f64];
    let sum = |x: &Var| fuse!(|x| (x * 0.5).tanh()).sum([x], 0);
    gradcheck(|[x]| sum(x), [&x]).unwrap();
    gradgradcheck(|[x]| sum(x), [&x]).unwrap();
}

/// What is kept beside the leaf: the result if that is small, reduced or not; else, and within a budget, nothing.
#[test]
fn a_result_is_saved_where_it_is_small() {
    let kept = |n: usize, record: &dyn Fn(&Var) -> Var| {
        let graph = record(&Tensor::rand([n]).requires_grad()).graph().unwrap();
        graph.saved_bytes() / n
    };
    let tanh = |x: &Var| fuse!(|x| x.tanh()).sum([x], ..).unwrap();
    assert_eq!(kept(1000, &tanh), 4);
    assert_eq!(kept(1000, &|x| fuse!(|x| x.tanh()).call([x]).unwrap()), 4);
    assert_eq!(kept(SMALL, &tanh), 4);
    assert_eq!(kept(SMALL + 1, &tanh), 0);
    assert_eq!(kept(1000, &|x| saved_budget(1 << 20, || tanh(x)).0), 0);
    assert_eq!(kept(1000, &|x| fuse!(|x| x.sin()).sum([x], ..).unwrap()), 0);
    assert_eq!(kept(1000, &|x| fuse!(|x| x.tanh() * 2.0).sum([x], ..).unwrap()), 0);
}

/// What is recorded has the bits of what is not.
#[test]
fn a_value_does_not_depend_on_what_is_saved() {
    let _level = LEVEL.lock();
    let shapes: [[&[usize]; 2]; 4] =
        [[&[40, 30], &[40, 30]], [&[300, 200], &[200]], [&[7, 5001], &[7, 1]], [&[100_001], &[]]];
    for dtype in [DType::F32, DType::F64] {
        for shapes in shapes {
            let [x, w] = shapes.map(|s| fill(s, Domain::Any, &mut Random::new(4)).to(dtype));
            let f = fuse!(|x, w| (x * w).tanh());
            let sums = |x: Var, w: Var| {
                let rows = f.sum([&x, &w], 0).unwrap().value();
                (rows, f.mean([&x, &w], -1).unwrap().value(), f.sum([&x, &w], ..).unwrap().value())
            };
            let plain = sums(x.clone().into(), w.clone().into());
            assert_eq!(sums(x.requires_grad(), w.requires_grad()), plain, "{shapes:?} {dtype}");
        }
    }
}
