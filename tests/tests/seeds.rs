//! The behaviours that the project was asked for first, each by its name.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldback_graph::{Function, FunctionContext, GraphFacts, RequiresGrad, Result, Var};
use foldback_tensor::kernel::{FloatKernel, FloatOps, Formula, Real, Target, fold_to};
use foldback_tensor::{
    BroadcastWarning, Tensor, ThreadPool, broadcast_shapes, broadcast_warning, can_broadcast, keep,
    set_broadcast_warning, tensor,
};

fn zeros(shape: &[usize]) -> Tensor {
    Tensor::zeros(shape)
}

/// Different numbers in every place.
fn counted(shape: &[usize]) -> Tensor {
    let n = shape.iter().product::<usize>();
    Tensor::from_vec((0..n).map(|i| (i as f32).sin()).collect(), shape).unwrap()
}

// 1. Broadcast rules

#[test]
fn broadcast_rules_on_the_classic_pairs() {
    for (a, b, want) in [
        (&[5, 7, 3][..], &[5, 7, 3][..], &[5, 7, 3][..]),
        (&[5, 3, 4, 1], &[3, 1, 1], &[5, 3, 4, 1]),
        (&[5, 1, 4, 1], &[3, 1, 1], &[5, 3, 4, 1]),
        (&[1], &[3, 1, 7], &[3, 1, 7]),
    ] {
        assert_eq!(broadcast_shapes(&[a, b]).unwrap(), *want);
        assert_eq!(zeros(a).add(zeros(b)).unwrap().dims(), want);
        assert_eq!(zeros(b).add(zeros(a)).unwrap().dims(), want);
    }
}

#[test]
fn broadcast_refuses_sizes_that_differ() {
    let error = zeros(&[5, 2, 4, 1]).add(zeros(&[3, 1, 1])).unwrap_err().to_string();
    assert!(
        error.contains(
            "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 1"
        ),
        "{error}"
    );
    assert!(!can_broadcast(&[5, 2, 4, 1], &[3, 1, 1]));
    assert!(zeros(&[0]).add(zeros(&[2, 2])).is_err());
}

#[test]
fn broadcast_worked_example_of_four_axes() {
    let x = tensor![[[[1, 2], [3, 4]]], [[[5, 6], [7, 8]]]];
    let y = tensor![[[1], [2]], [[3], [4]], [[5], [6]]];
    let z = x.add(&y).unwrap();
    assert_eq!(z.dims(), [2, 3, 2, 2]);
    for i in 0..2usize {
        for j in 0..3usize {
            for k in 0..2usize {
                for l in 0..2usize {
                    let want = (4 * i + 2 * k + l + 1) as f32 + (2 * j + k + 1) as f32;
                    let at = |t: &Tensor, p: &[usize]| {
                        let mut t = t.clone();
                        for &q in p {
                            t = t.select(0, q as isize).unwrap();
                        }
                        t.item_as::<f32>().unwrap()
                    };
                    assert_eq!(at(&z, &[i, j, k, l]), want, "at {i} {j} {k} {l}");
                }
            }
        }
    }
}

// 2. In-place operations

#[test]
fn in_place_keeps_the_shape() {
    let mut x = counted(&[5, 3, 4, 1]);
    let want = &x + &counted(&[3, 1, 1]);
    x.add_(counted(&[3, 1, 1])).unwrap();
    assert_eq!(x.dims(), [5, 3, 4, 1]);
    assert_eq!(x, want);
}

#[test]
fn in_place_refuses_to_grow_and_changes_nothing() {
    let mut x = counted(&[1, 3, 1]);
    let before = x.clone();
    let error = x.add_(counted(&[3, 1, 7])).unwrap_err().to_string();
    let text =
        "The expanded size of the tensor (1) must match the existing size (7) at non-singleton dimension 2";
    assert!(error.contains(text), "{error}");
    assert_eq!(x, before);
}

// 3. The broadcast warning

/// Collects what the warning says.
struct Log(Mutex<Vec<String>>);
static LOG: Log = Log(Mutex::new(Vec::new()));

impl log::Log for Log {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &log::Record<'_>) {
        self.0.lock().unwrap().push(record.args().to_string());
    }
    fn flush(&self) {}
}

#[test]
fn broadcast_warning_off_on_and_refusing() {
    log::set_logger(&LOG).unwrap();
    log::set_max_level(log::LevelFilter::Warn);
    let (a, b) = (counted(&[4, 1]), counted(&[4]));
    let said = || std::mem::take(&mut *LOG.0.lock().unwrap());

    assert_eq!(a.add(&b).unwrap().dims(), [4, 4]);
    assert!(said().is_empty(), "off by default");

    {
        let _guard = broadcast_warning(BroadcastWarning::Warn);
        let line = line!() + 1;
        a.add(&b).unwrap();
        let messages = said();
        assert_eq!(messages.len(), 1);
        let place = format!("{}:{line}:", file!());
        for part in ["[4, 1]", "[4]", "same number of elements", &place] {
            assert!(messages[0].contains(part), "{part:?} is missing from {:?}", messages[0]);
        }
        // other sizes, or a number, are no such case
        a.add(counted(&[3])).unwrap();
        a.add(1.0).unwrap();
        assert!(said().is_empty());
        // a variable's operation names its own line, too
        let line = line!() + 1;
        let _ = a.clone().requires_grad().mul(&b).unwrap();
        assert!(said()[0].contains(&format!("{}:{line}:", file!())));
    }
    a.add(&b).unwrap();
    assert!(said().is_empty(), "the guard has ended");

    set_broadcast_warning(BroadcastWarning::Warn);
    std::thread::scope(|s| s.spawn(|| a.add(&b).unwrap()).join().map(|_| ()).unwrap());
    set_broadcast_warning(BroadcastWarning::Off);
    assert_eq!(said().len(), 1, "the process-wide setting reaches every thread");

    let _guard = broadcast_warning(BroadcastWarning::Refuse);
    let error = a.add(&b).unwrap_err().to_string();
    assert!(error.contains("[4, 1]") && error.contains("[4]"), "{error}");
}

// 4. TensorIterator (its parts have unit tests beside them)

#[derive(Clone, Copy)]
struct Blend;
impl Formula<2> for Blend {
    fn eval<R: Real>(&self, [a, b]: [R; 2]) -> R
    where
        f64: FloatOps<R>,
    {
        a.exp() * b + a / (b + 3.0)
    }
}

#[test]
fn tensor_iterator_gives_the_same_bits_for_any_layout() {
    let (a, b) = (counted(&[37, 53]), counted(&[37, 53]).cos());
    let want = foldback_tensor::kernel::evaluate("blend", &FloatKernel(Blend), &[&a, &b]).unwrap();
    let strided = |t: &Tensor| {
        let mut wide = Tensor::zeros([74, 160]);
        let part = foldback_tensor::s![0..74;2, 1..160;3];
        wide.slice_assign(part.clone(), t).unwrap();
        wide.slice(part).unwrap()
    };
    let transposed = |t: &Tensor| t.t().contiguous().t();
    let flipped = |t: &Tensor| t.flip([0, 1]).unwrap().contiguous().flip([0, 1]).unwrap();
    for left in [strided(&a), transposed(&a), flipped(&a), a.clone()] {
        for right in [strided(&b), transposed(&b), flipped(&b), b.clone()] {
            assert_eq!(left, a);
            let got =
                foldback_tensor::kernel::evaluate("blend", &FloatKernel(Blend), &[&left, &right]).unwrap();
            assert_eq!(got, want);
        }
    }
    // a scalar-stride operand against the same values spelt out
    let row = counted(&[53]);
    let spelt = row.expand([37, 53]).unwrap().contiguous();
    let f = |t: &Tensor| foldback_tensor::kernel::evaluate("blend", &FloatKernel(Blend), &[&a, t]).unwrap();
    assert_eq!(f(&row), f(&spelt));
    let number = tensor![0.7];
    assert_eq!(f(&number), f(&number.expand([37, 53]).unwrap().contiguous()));
}

// 5. add, add_, add_out with alpha

#[test]
fn add_forms_with_alpha() {
    let (a, b) = (tensor![1.0, 2.0], tensor![10.0, 20.0]);
    assert_eq!(a.add_with(&b, 0.5).unwrap(), tensor![6.0, 12.0]);
    let mut c = a.clone();
    c.add_with_(&b, 2).unwrap();
    assert_eq!(c, tensor![21.0, 42.0]);
    let mut out = tensor![0.0, 0.0];
    a.add_out(&b, -1, &mut out).unwrap();
    assert_eq!(out, tensor![-9.0, -18.0]);
    assert_eq!(a, tensor![1.0, 2.0]);
}

#[test]
fn alpha_is_checked_against_the_dtype() {
    let i = tensor![1, 2; i64];
    assert!(i.add_with(&i, 0.5).is_err());
    assert_eq!(i.add_with(&i, 3).unwrap(), tensor![4, 8; i64]);
    assert!(tensor![1.0].add_with(&tensor![1.0], true).is_err());
}

#[test]
fn bool_addition_is_or_and_subtraction_is_refused() {
    let (a, b) = (tensor![true, true, false; bool], tensor![true, false, false; bool]);
    assert_eq!(a.add(&b).unwrap(), tensor![true, true, false; bool]);
    assert!(a.sub(&b).is_err());
    assert!(a.sub(&tensor![1.0, 1.0, 1.0]).is_err());
}

#[test]
fn an_output_that_overlaps_itself_is_refused() {
    let mut out = Tensor::zeros([1]).expand([3]).unwrap();
    let error = tensor![1.0, 2.0, 3.0].add_out(&tensor![1.0], 1, &mut out).unwrap_err().to_string();
    assert!(error.contains("overlaps"), "{error}");
    assert_eq!(out, tensor![0.0, 0.0, 0.0]);
}

#[test]
fn an_output_that_is_shared_is_detached_first() {
    let mut out = tensor![0.0, 0.0];
    let witness = out.clone();
    tensor![1.0, 2.0].mul_out(&tensor![3.0], &mut out).unwrap();
    assert_eq!(out, tensor![3.0, 6.0]);
    assert_eq!(witness, tensor![0.0, 0.0]);
}

// 6. validate_outputs

#[test]
fn validate_outputs_folds_a_broadcast_gradient() {
    let (a, b) = (tensor![1.0, 2.0, 3.0].requires_grad(), tensor![1.0].requires_grad());
    (&a + &b).sum(..).unwrap().backward().unwrap();
    assert_eq!(a.grad(), Some(tensor![1.0, 1.0, 1.0]));
    assert_eq!(b.grad(), Some(tensor![3.0]));
}

#[test]
fn sum_to_every_kind_of_target() {
    let g = counted(&[2, 3, 4]);
    for target in [&[3, 4][..], &[2, 1, 4], &[1, 4], &[4], &[1, 1, 1], &[], &[2, 3, 4]] {
        let got = g.sum_to_size(target).unwrap();
        assert_eq!(got.dims(), target);
        let total = got.sum(..).unwrap().item_as::<f64>().unwrap();
        assert!((total - g.sum(..).unwrap().item_as::<f64>().unwrap()).abs() < 1e-5);
    }
    let first = g
        .sum_to_size([2, 1, 4])
        .unwrap()
        .select(0, 1)
        .unwrap()
        .select(1, 2)
        .unwrap()
        .item_as::<f32>()
        .unwrap();
    let by_hand: f32 = (0..3).map(|j| ((12 + 4 * j + 2) as f32).sin()).sum();
    assert!((first - by_hand).abs() < 1e-6);
    assert_eq!(zeros(&[4, 0]).sum_to_size([4, 1]).unwrap(), zeros(&[4, 1]));
    assert!(g.sum_to_size([2]).is_err());
}

/// An operation whose gradient has a shape that no input of its kind could have broadcast to.
struct WrongShape;
impl Function for WrongShape {
    fn name(&self) -> &'static str {
        "wrong_shape"
    }
    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0] + inputs[1]])
    }
    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![Some(ctx.grad(0)), Some(Var::from(Tensor::zeros([7, 5])))])
    }
}

#[test]
fn a_gradient_of_an_impossible_shape_is_an_error_that_says_where() {
    let (a, b) = (tensor![1.0, 2.0].requires_grad(), tensor![1.0, 2.0].requires_grad());
    let line = line!() + 1;
    let y = WrongShape.call([&a, &b]).unwrap();
    let error = y.sum(..).unwrap().backward().unwrap_err();
    let Some(GraphFacts::GradientShape { op, input, expected, found, location }) = error.facts() else {
        panic!("{error}")
    };
    assert_eq!((*op, *input), ("wrong_shape", 1));
    assert_eq!((&expected[..], &found[..]), (&[2][..], &[7, 5][..]));
    assert_eq!((location.file(), location.line()), (file!(), line));
    let text = error.to_string();
    for part in ["wrong_shape", "input 1", "[2]", "[7, 5]", "seeds.rs"] {
        assert!(text.contains(part), "{part:?} is missing from {text:?}");
    }
    assert_eq!((a.grad(), b.grad()), (None, None), "a pass that fails leaves no gradient");
}

// 7. Threads

/// A kernel that also notes which threads ran it.
struct Noting<'a>(
    FloatKernel<Blend, 2>,
    &'a Mutex<std::collections::HashSet<std::thread::ThreadId>>,
    AtomicUsize,
);
impl foldback_tensor::kernel::BlockKernel for Noting<'_> {
    fn run(&self, inputs: &[foldback_tensor::Block<'_>], outputs: &mut [foldback_tensor::BlockMut<'_>]) {
        if self.2.fetch_add(1, Ordering::Relaxed).is_multiple_of(16) {
            // Lets the other workers have their share even where there is one core.
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        self.1.lock().unwrap().insert(std::thread::current().id());
        self.0.run(inputs, outputs);
    }
}

#[test]
fn serial_and_parallel_results_have_the_same_bits() {
    let (a, b) = (counted(&[700, 500]), counted(&[500]));
    let (left, right) = (counted(&[130, 300]), counted(&[300, 170]));
    let all = |threads: usize| {
        let workers = Mutex::new(std::collections::HashSet::new());
        let results = ThreadPool::new(threads).install(|| {
            let kernel = Noting(FloatKernel(Blend), &workers, AtomicUsize::new(0));
            let pointwise = fold_to("blend", &kernel, &[&a, &b], Target::of(&[700, 500].into())).unwrap();
            let folded = fold_to("blend", &kernel, &[&a, &b], Target::of(&[500].into())).unwrap();
            let number = fold_to("blend", &kernel, &[&a, &b], Target::of(&().into())).unwrap();
            let sums = a.sum(1).unwrap();
            let product = left.matmul(&right).unwrap();
            [pointwise, folded, number, sums, product].map(|t| t.to_vec::<f32>().unwrap())
        });
        (results, workers.into_inner().unwrap().len())
    };
    let (serial, workers) = all(1);
    assert_eq!(workers, 1);
    for threads in [2, 3, 8] {
        let (parallel, workers) = all(threads);
        assert!(workers >= 2 && workers <= threads, "{workers} workers of {threads} ran");
        for (s, p) in serial.iter().zip(&parallel) {
            assert!(s.iter().zip(p).all(|(s, p)| s.to_bits() == p.to_bits()), "{threads} threads");
        }
    }
}

#[test]
fn a_long_sum_is_exact() {
    let ones = Tensor::ones([20_000_000]);
    assert_eq!(ones.sum(..).unwrap().item_as::<f32>().unwrap(), 20_000_000.0);
    let x = tensor![2.0].requires_grad();
    x.mul(&ones).unwrap().sum(..).unwrap().backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![20_000_000.0]));
}

#[test]
fn in_place_on_an_expanded_tensor_is_refused() {
    let mut x = Tensor::ones([1, 3]).expand([2, 3]).unwrap();
    let before = x.clone();
    assert!(x.add_(1.0).unwrap_err().to_string().contains("overlaps"));
    assert!(x.exp_().is_err());
    let mut v = Var::from(x.clone());
    assert!(v.mul_(2.0).is_err());
    assert_eq!((&x, v.value()), (&before, before.clone()));
    // A result is a tensor of its own, even where it is kept compressed.
    let mut y = &x * 2.0;
    y.add_(1.0).unwrap();
    assert_eq!(y, &before * 2.0 + 1.0);
    let mut z = x.sum(keep(0)).unwrap().expand([2, 3]).unwrap().mul(1.0).unwrap().mean(1).unwrap();
    z.mul_(2.0).unwrap();
    assert_eq!(z, tensor![4.0, 4.0]);
    // A contiguous copy is its own tensor.
    x = x.contiguous();
    x.add_(1.0).unwrap();
    assert_eq!(x, &before + 1.0);
}
