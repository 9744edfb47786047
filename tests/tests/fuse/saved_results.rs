//! Results that a fused operation saves for its gradients, where they are small: nobody sees but by what is kept.

use foldback::graph::{hvp, jacobian, jvp, saved_budget};
use foldback::tensor::{BroadcastWarning, ThreadPool, broadcast_warning, kernel};

use super::bits::LEVEL;
use super::*;

/// Beyond this many elements of `f32`, nothing but operands is saved of these: they do not stay in this processor's cache.
fn small() -> usize {
    let stays = |n: usize| kernel::stays_in_cache(4 * n);
    let above = (0..60).map(|bits| 1 << bits).find(|&n| !stays(n)).expect("caches are smaller");
    (0..above.ilog2()).rev().fold(0, |n, bit| if stays(n + (1 << bit)) { n + (1 << bit) } else { n })
}

type Reduction = Option<(&'static [isize], bool)>;

/// The gradients of a fused formula, computed as `how` says.
fn gradients(
    values: &[Tensor; 3],
    over: Reduction,
    formula: usize,
    how: fn(Var, &[&Var]) -> Vec<Var>,
) -> Vec<Tensor> {
    let x = values.clone().map(|t| t.requires_grad());
    let inputs = [&x[0], &x[1], &x[2]];
    let y = loss(inputs, over, formula);
    how(y, &inputs).iter().map(Var::value).collect()
}

fn reduced<F: Formula<3> + 'static>(f: Fused<F, 3>, x: [&Var; 3], over: Reduction) -> Var {
    let y = match over {
        None => f.call(x),
        Some((axes, false)) => f.sum(x, axes),
        Some((axes, true)) => f.mean(x, axes),
    };
    y.unwrap()
}

/// The function's result is the value; or in the middle of it, once or several times; or it chooses, too. There are several functions,
/// beside one another, one of another, or more than have loops of their own.
const FORMULAS: usize = 7;

fn loss(x: [&Var; 3], over: Reduction, formula: usize) -> Var {
    let y = match formula {
        0 => reduced(fuse!(|x, w, b| (x * w + b).tanh()), x, over),
        1 => reduced(fuse!(|x, w, b| w - x.tanh() * b), x, over),
        2 => reduced(
            fuse!(|x, w, b| {
                let t = (x * w).sigmoid();
                t / (t + b.abs() + 1.0)
            }),
            x,
            over,
        ),
        3 => reduced(
            fuse!(|x, w, b| {
                let t = (x + b).tan();
                R::select(t.gt(w), t * w, b)
            }),
            x,
            over,
        ),
        4 => reduced(fuse!(|x, w, b| (x * w).tanh() * b.sigmoid() + w.exp().ln()), x, over),
        5 => reduced(fuse!(|x, w, b| ((x + b).sin() * w.gelu()).tanh().cos() * b), x, over),
        _ => reduced(
            fuse!(|x, w, b| {
                let y = x.tanh() + w.sin() * b.exp() - (x * b).sigmoid() + w.atan();
                y.tanh() + b.cosh() + (y * w).erf() + y.softplus() + y.cos()
            }),
            x,
            over,
        ),
    };
    // A seed that is not the same all over.
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
    let _level = LEVEL.read();
    let (alone, several) = (ThreadPool::new(1), ThreadPool::new(3));
    let shapes: [[&[usize]; 3]; 6] = [
        [&[24, 28], &[24, 28], &[24, 28]],
        [&[24, 28], &[28], &[24, 1]],
        [&[1, 28], &[24, 1], &[]],
        [&[60], &[18, 60], &[18, 60]],
        [&[180, 200], &[200], &[180, 200]],
        [&[3, 0], &[3, 1], &[]],
    ];
    for dtype in [DType::F32, DType::F64] {
        for shapes in shapes {
            let mut random = Random::new(6);
            let values = shapes.map(|s| fill(s, Domain::Any, &mut random).to(dtype));
            let across = values.clone().map(|t| match t.rank() {
                2 => t.t().contiguous().t(),
                _ => t,
            });
            for case in 0..2 * FORMULAS * REDUCTIONS.len() {
                let (over, formula) =
                    (REDUCTIONS[case % REDUCTIONS.len()], case / REDUCTIONS.len() % FORMULAS);
                let values = if case < FORMULAS * REDUCTIONS.len() { &values } else { &across };
                // What is large enough for several threads takes a while where nothing is optimised.
                let is_large = values[0].numel() > 10_000;
                if is_large && (formula > 4 || over.is_some_and(|o| formula == 4 || o != (&[0], false))) {
                    continue;
                }
                let label = format!("{shapes:?} {dtype} {over:?} {formula}, case {case}");
                let gradients = |how| gradients(values, over, formula, how);
                let serial = alone.install(|| gradients(now));
                assert_eq!(several.install(|| gradients(now)), serial, "{label}");
                let (within, _) = saved_budget(0, || gradients(now));
                assert_eq!(within, serial, "{label}");
                if is_large {
                    continue;
                }
                assert_eq!(gradients(again), serial, "{label}");
                for (a, b) in gradients(recorded).iter().zip(&serial) {
                    assert!(close(a, b, if dtype == DType::F32 { 1e-4 } else { 1e-12 }), "{label}: {a} {b}");
                }
            }
        }
    }
}

/// What an expression is recorded by does not depend on a budget: small ones, one operation of many elements, of columns, of what functions give.
#[test]
fn a_budget_changes_no_bits_of_what_operators_record() {
    let _level = LEVEL.read();
    let full = fill([200, 50], Domain::Any, &mut Random::new(3));
    let own = [full.clone(), full.narrow(0, 0, 1).unwrap().exp(), full.narrow(1, 0, 1).unwrap()];
    let [x, row, column] = own.map(|t| t.to(DType::F32).contiguous());
    let few = x.narrow(0, 0, 30).unwrap().contiguous();
    type Record<'a> = &'a dyn Fn([&Var; 2]) -> Result<Var>;
    let bits = |x: &Tensor, w: &Tensor, y: Record<'_>| {
        let x = [x, w].map(|t| t.clone().requires_grad());
        let y = y(x.each_ref()).unwrap();
        let seed = fill(y.shape(), Domain::Any, &mut Random::new(8)).to(DType::F32);
        let y = y.mul(&seed).unwrap().sum(..).unwrap();
        y.backward().unwrap();
        [y.value(), x[0].grad().unwrap(), x[1].grad().unwrap()]
    };
    let product = fuse!(|x, w| (x * w + x).tanh());
    let quotient = fuse!(|x, w| x / (w.abs() + 1.0));
    let difference = fuse!(|x, w| (x - w).exp());
    let gate = fuse!(|x, w| x.sigmoid() * (w * 0.5).tanh());
    let cases: [(&Tensor, &Tensor, Record<'_>); 6] = [
        (&few, &row, &|x| product.call(x)),
        (&x, &row, &|x| quotient.call(x)),
        (&x, &row, &|x| quotient.sum(x, 1)),
        (&x, &column, &|x| difference.call(x)),
        (&x, &column, &|x| difference.sum(x, 0)),
        (&x, &row, &|x| gate.sum(x, 0)),
    ];
    for (nr, (x, w, y)) in cases.into_iter().enumerate() {
        assert_eq!(saved_budget(0, || bits(x, w, y)).0, bits(x, w, y), "case {nr}");
    }
}

#[test]
fn values_are_those_of_operators_around_the_limit() {
    let _level = LEVEL.read();
    // Half as many elements of `f64` are as large; nothing is optimised here.
    for n in [small() / 2, small() / 2 + 1] {
        let values = fill([n], Domain::Any, &mut Random::new(2));
        let [fused, plain] = [values.clone(), values].map(|x| x.requires_grad());
        let y = fuse!(|x| x.sigmoid()).sum([&fused], ..).unwrap();
        let z = plain.sigmoid().sum(..).unwrap();
        assert!(close(&y.value(), &z.value(), 1e-12));
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

/// What is kept beside the leaf: the result if that is small or a value in `f64`, reduced or not; else, and within a budget, nothing.
#[test]
fn a_result_is_saved_where_it_is_small_or_dear() {
    let kept = |n: usize, record: &dyn Fn(&Var) -> Var| {
        let graph = record(&Tensor::rand([n]).requires_grad()).graph().unwrap();
        graph.saved_bytes() / n
    };
    let tanh = |x: &Var| fuse!(|x| (x * 0.5 + 0.1).tanh()).sum([x], ..).unwrap();
    assert_eq!(kept(1000, &tanh), 4);
    assert_eq!(kept(1000, &|x| fuse!(|x| (x * 0.5 + 0.1 - x).tanh()).call([x]).unwrap()), 4);
    assert_eq!(kept(256, &tanh), 4);
    assert_eq!(kept(255, &tanh), 0);
    assert_eq!(kept(small(), &tanh), 4);
    assert_eq!(kept(small() + 1, &tanh), 0);
    assert_eq!(kept(1000, &|x| saved_budget(1 << 20, || tanh(x)).0), 0);
    assert_eq!(kept(1000, &|x| fuse!(|x| (x * 0.5 + 0.1).sin()).sum([x], ..).unwrap()), 0);
    // In `f64` a value is kept at any size, others are not.
    let double = Tensor::rand([small()]).double().requires_grad();
    let kept_of = |y: Var| y.graph().unwrap().saved_bytes() / small();
    assert_eq!(kept_of(fuse!(|x| (x * 0.5).tanh()).sum([&double], ..).unwrap()), 8);
    assert_eq!(kept_of(fuse!(|x| x.tanh() * 2.0 + 1.0).sum([&double], ..).unwrap()), 0);
    // One that is not the value is stored beside it.
    let inner = |x: &Var| fuse!(|x| x.tanh() * 2.0 + 1.0).sum([x], ..).unwrap();
    assert_eq!(kept(512, &inner), 4);
    assert_eq!(kept(511, &inner), 0);
    assert_eq!(kept(1024, &|x| fuse!(|x| x.tanh() * 2.0 + 1.0 + x).call([x]).unwrap()), 4);
    assert_eq!(
        kept(1024, &|x| fuse!(|x| x.tanh() * 2.0 + 1.0).sum([&x.expand([2, -1]).unwrap()], ..).unwrap()),
        0
    );
    assert_eq!(kept(1024, &|x| saved_budget(1 << 20, || inner(x)).0), 0);
    // Of several, those that gradients read.
    assert_eq!(kept(1024, &|x| fuse!(|x| x.tanh() * x.exp()).sum([x], ..).unwrap()), 8);
    assert_eq!(kept(1024, &|x| fuse!(|x| x.tanh().exp() * 2.0 + 1.0).call([x]).unwrap()), 8);
    let beside = |x: &Var| fuse!(|x| x.sin() + x.exp() + 1.0).call([x]).unwrap();
    assert_eq!(kept(1024, &beside), 4);
    assert_eq!(kept(511, &beside), 0);
    // What few elements give is kept beside the operands, within a budget, too: it is a value of its own.
    let x = Tensor::ones([100, 1024]);
    let plain = kept(1024, &|w| fuse!(|x, w| x * w).sum((&x, w), ..).unwrap());
    let rows = |w: &Var| fuse!(|x, w| x * w.exp()).sum((&x, w), ..).unwrap();
    assert_eq!(kept(1024, &rows), plain + 4);
    assert_eq!(kept(1024, &|w| saved_budget(1 << 30, || rows(w)).0), plain + 4);
}

/// What is recorded has the bits of what is not.
#[test]
fn a_value_does_not_depend_on_what_is_saved() {
    let _level = LEVEL.read();
    let shapes: [[&[usize]; 2]; 4] =
        [[&[40, 30], &[40, 30]], [&[300, 200], &[200]], [&[7, 5001], &[7, 1]], [&[100_001], &[]]];
    for dtype in [DType::F32, DType::F64] {
        for shapes in shapes {
            let [x, w] = shapes.map(|s| fill(s, Domain::Any, &mut Random::new(4)).to(dtype));
            let f = fuse!(|x, w| (x * w).tanh());
            let inner = fuse!(|x, w| x.exp() * w);
            let several = fuse!(|x, w| (x.sigmoid() * w).exp() * w.sin());
            let sums = |x: Var, w: Var| {
                let rows = f.sum([&x, &w], 0).unwrap().value();
                let inner = (inner.sum([&x, &w], 0).unwrap().value(), inner.call([&x, &w]).unwrap().value());
                let several =
                    (several.sum([&x, &w], 0).unwrap().value(), several.call([&x, &w]).unwrap().value());
                let all = f.sum([&x, &w], ..).unwrap().value();
                (rows, f.mean([&x, &w], -1).unwrap().value(), all, inner, several)
            };
            let plain = sums(x.clone().into(), w.clone().into());
            assert_eq!(sums(x.requires_grad(), w.requires_grad()), plain, "{shapes:?} {dtype}");
        }
    }
}

/// Functions of operands that are broadcast are computed once for each of their elements: with the bits that they have where these are
/// written out.
#[test]
fn functions_of_what_is_broadcast_have_the_bits_of_others() {
    let _level = LEVEL.read();
    let shapes: [[&[usize]; 3]; 5] = [
        [&[40, 130], &[130], &[40, 1]],
        [&[6, 10, 100], &[10, 1], &[100]],
        [&[700, 7], &[7], &[700, 1]],
        [&[5000], &[], &[1]],
        [&[70, 1], &[90], &[70, 90]],
    ];
    for dtype in [DType::F32, DType::F64] {
        for shapes in shapes {
            let mut random = Random::new(5);
            let values = shapes.map(|s| fill(s, Domain::Any, &mut random).to(dtype));
            let full = values[0].mul(&values[1]).unwrap().mul(&values[2]).unwrap();
            for (formula, over) in (0..FORMULAS).flat_map(|f| REDUCTIONS.map(|over| (f, over))) {
                if full.rank() == 1 && over.is_some_and(|(axes, _)| axes.contains(&1)) {
                    continue;
                }
                let run = |written_out: bool| {
                    let x = values.clone().map(|t| t.requires_grad());
                    let given = x.each_ref().map(|x| match written_out {
                        true => x.expand(full.dims()).unwrap().contiguous(),
                        false => x.clone(),
                    });
                    let y = loss(given.each_ref(), over, formula);
                    let value = y.value();
                    (value, now(y, &x.each_ref()))
                };
                let ((a, found), (b, expected)) = (run(false), run(true));
                let label = format!("{shapes:?} {dtype} {over:?} {formula}");
                assert_eq!(a, b, "{label}");
                for (a, b) in found.iter().zip(&expected) {
                    assert!(
                        close(&a.value(), &b.value(), if dtype == DType::F32 { 1e-4 } else { 1e-12 }),
                        "{label}"
                    );
                }
            }
        }
    }
}

/// What is asked of shapes is asked of the operands, whether functions of them are computed before or not.
#[test]
fn a_broadcast_that_nobody_meant_is_refused_where_a_function_of_it_comes_first() {
    let _guard = broadcast_warning(BroadcastWarning::Refuse);
    let list = Tensor::ones([64]);
    let f = fuse!(|x, c| x * c.exp());
    let (meant, not_meant) = (list.unsqueeze(1).unwrap(), Tensor::ones([64, 1]));
    assert_eq!(f.call([&list, &meant]).unwrap().shape(), &[64, 64]);
    assert_eq!(f.sum([&list, &meant], 0).unwrap().shape(), &[64]);
    assert!(f.call([&list, &not_meant]).is_err() && f.sum([&list, &not_meant], 0).is_err());
}

/// An axis that is meant goes on to the value, whether something is stored beside that or not.
#[test]
fn axes_that_are_meant_stay_so() {
    let _guard = broadcast_warning(BroadcastWarning::Refuse);
    let list = Tensor::ones([2000]);
    for column in [list.unsqueeze(1).unwrap().into(), list.unsqueeze(1).unwrap().requires_grad()] {
        let y = fuse!(|x| x.tanh() * 2.0 + 1.0).call([&column]).unwrap();
        assert_eq!(y.mul(&list).unwrap().shape(), &[2000, 2000]);
    }
}

/// Gradients that are the same are computed once beside others, also of many gradients at once, whose number may be the size of an axis.
#[test]
fn gradients_that_are_the_same_beside_others() {
    let dice = &mut Random::new(5);
    let [x, y] = [(); 2].map(|()| fill([3, 3, 4], Domain::Any, dice));
    for shape in [&[4][..], &[3, 4], &[3, 1], &[1, 3, 1], &[3, 3, 4], &[]] {
        let inputs = || [x.clone(), y.clone(), fill(shape, Domain::Any, &mut Random::new(6))];
        for axes in [&[1, 2][..], &[0, 2], &[2], &[0, 1, 2]] {
            let fused = |[x, y, z]: &[Var; 3]| fuse!(|x, y, z| (x + y).tanh() * z).sum([x, y, z], axes);
            let plain = |[x, y, z]: &[Var; 3]| ((x + y).tanh() * z).sum(axes);
            for (a, b) in jacobian(fused, inputs()).unwrap().iter().zip(&jacobian(plain, inputs()).unwrap()) {
                assert!(close(&a.value(), &b.value(), 1e-12), "{shape:?} {axes:?}");
            }
            let gradients = |f: &dyn Fn(&[Var; 3]) -> Result<Var>| {
                let vars = inputs().map(|t| t.requires_grad());
                grad(f(&vars).unwrap().sum(..).unwrap(), &vars).unwrap()
            };
            for (a, b) in gradients(&fused).iter().zip(&gradients(&plain)) {
                assert!(close(&a.value(), &b.value(), 1e-12), "{shape:?} {axes:?}");
            }
        }
    }
}

/// Passes of many gradients at once, and forward ones, are those of operators.
#[test]
fn matrices_of_derivatives_are_those_of_operators() {
    let [x, w] = [3, 4].map(|seed| fill([300], Domain::Any, &mut Random::new(seed)));
    let fused = |[x, w]: &[Var; 2]| fuse!(|x, w| x.tanh() * w.exp() - x).call([x, w]);
    let plain = |[x, w]: &[Var; 2]| x.tanh().mul(w.exp())?.sub(x);
    let inputs = || [x.clone(), w.clone()];
    for (a, b) in jacobian(fused, inputs()).unwrap().iter().zip(&jacobian(plain, inputs()).unwrap()) {
        assert!(close(&a.value(), &b.value(), 1e-12));
    }
    let v = || inputs().map(|t| t.cos());
    let (a, b) = (jvp(fused, inputs(), v()).unwrap(), jvp(plain, inputs(), v()).unwrap());
    assert!(close(&a.1.value(), &b.1.value(), 1e-12));
    let sums = |f: &dyn Fn(&[Var; 2]) -> Result<Var>| {
        let f = |x: &[Var; 2]| f(x)?.square().sum(..);
        hvp(f, inputs(), v()).unwrap().1
    };
    for (a, b) in sums(&fused).iter().zip(&sums(&plain)) {
        assert!(close(&a.value(), &b.value(), 1e-10));
    }
}
