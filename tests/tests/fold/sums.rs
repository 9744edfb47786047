//! Sums to a shape, of tensors and of products, against exact ones.

use foldback_tensor::kernel::{FloatKernel, Target, fold_to};
use foldback_tensor::{DType, Shape, Tensor, TensorFacts, ThreadPool, keep, refused};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use tests::formulas::Product;
use tests::oracle::{Exact, Layout, Plain, Random, broadcast, count, expands, for_each_index};

use crate::cases::{Case, Numbers, any_case, large, small};
use crate::{cases, check};

pub(crate) fn unit(dtype: DType) -> f64 {
    if dtype == DType::F32 { f32::EPSILON as f64 / 2.0 } else { f64::EPSILON / 2.0 }
}

fn rounded(v: f64, dtype: DType) -> f64 {
    if dtype == DType::F32 { v as f32 as f64 } else { v }
}

/// What a fold must come to: per element the sum, the sum of magnitudes, and what was there before.
struct Sums {
    shape: Vec<usize>,
    exact: Vec<Exact>,
    weight: Vec<f64>,
}

impl Sums {
    fn new(shape: &[usize], prior: Option<&Plain>) -> Sums {
        let n = count(shape);
        let mut sums = Sums { shape: shape.to_vec(), exact: vec![Exact::default(); n], weight: vec![0.0; n] };
        for (at, &v) in prior.iter().flat_map(|p| p.values.iter().enumerate()) {
            sums.exact[at].add(v);
            sums.weight[at] += v.abs();
        }
        sums
    }

    /// Adds the products of two operands (the terms of one) over their common shape.
    fn add(&mut self, common: &[usize], a: &Plain, b: Option<&Plain>) {
        let own = Plain { shape: self.shape.clone(), values: Vec::new() };
        for_each_index(common, |i| {
            let at = own.place(i, common.len());
            let x = a.values[a.place(i, common.len())];
            let y = b.map_or(1.0, |b| b.values[b.place(i, common.len())]);
            self.exact[at].add_product(x, y);
            self.weight[at] += (x * y).abs();
        });
    }

    /// Holds a result to the bound of Note [The bound of a sum]; whole numbers to the correctly rounded sum.
    fn check(&self, found: &Tensor, dtype: DType, whole: bool) -> Result<(), TestCaseError> {
        prop_assert_eq!(found.dtype(), dtype);
        prop_assert_eq!(found.dims(), &self.shape[..]);
        for (at, &f) in Plain::of(found).values.iter().enumerate() {
            let (exact, bound) = (self.exact[at], 67.0 * unit(dtype) * self.weight[at]);
            if whole {
                prop_assert_eq!(f, rounded(exact.value(), dtype), "element {}", at);
            } else {
                let error = exact.distance(f);
                prop_assert!(
                    error <= bound,
                    "element {at}: {f:e}, not {:e}: {error:e} > {bound:e}",
                    exact.value()
                );
            }
        }
        Ok(())
    }
}

fn sum_to_agrees(case: &Case) -> Result<(), TestCaseError> {
    let mut random = Random(case.seed);
    let (t, plain) = case.tensor(&case.shape, case.types[0], &mut random);
    let target = case.target(&case.shape);
    let mut sums = Sums::new(&target, None);
    sums.add(&case.shape, &plain, None);
    let whole = case.numbers == Numbers::Whole;
    sums.check(&t.sum_to_size(&target[..]).unwrap(), case.types[0], whole)?;
    // The same by the axes' numbers; and the mean, which is rounded once more.
    let axes = case.axes();
    let kept: Vec<usize> = case.target(&case.shape).to_vec();
    if case.folded.1 == 0 && !axes.is_empty() {
        let sum = t.sum(keep(axes.clone())).unwrap();
        prop_assert_eq!(sum.dims(), &kept[..]);
        sums.check(&sum, case.types[0], whole)?;
    }
    // A target that would have to grow is refused.
    let mut wrong = target;
    wrong.insert(0, 2);
    if !expands(&wrong, &case.shape) {
        let refused = refused!(t.sum_to_size(&wrong[..]), TensorFacts::Expand { .. });
        prop_assert!(refused);
    }
    Ok(())
}

fn fold_to_agrees(case: &Case) -> Result<(), TestCaseError> {
    let mut random = Random(case.seed);
    let [(ta, a), (tb, b)] = [0, 1].map(|side| case.operand(side, &mut random));
    let common = broadcast(&a.shape, &b.shape).expect("sizes of one shape, or 1");
    let target = case.target(&common);
    let dtype = case.types[0].max(case.types[1]);
    let whole = case.numbers == Numbers::Whole;
    let mut sums = Sums::new(&target, None);
    sums.add(&common, &a, Some(&b));
    let fold = |prior| {
        fold_to(
            "fold",
            &FloatKernel(Product),
            &[&ta, &tb],
            Target { prior, ..Target::of(&Shape::from(&target[..])) },
        )
    };
    sums.check(&fold(None).unwrap(), dtype, whole)?;
    // Onto a sum that waits: one that nobody else holds, and one that somebody does.
    let (waiting, before) = case.tensor(&target, dtype, &mut random);
    let mut sums = Sums::new(&target, Some(&before));
    sums.add(&common, &a, Some(&b));
    // The waiting sum and the new one are rounded apart, so that a whole one is exact only where it fits.
    let whole = whole && sums.weight.iter().all(|&w| w * unit(dtype) <= 1.0);
    sums.check(&fold(Some(waiting.clone())).unwrap(), dtype, whole)?;
    prop_assert_eq!(&Plain::of(&waiting).values, &before.values, "a clone saw the write");
    let mine = waiting.contiguous();
    drop(waiting);
    sums.check(&fold(Some(mine)).unwrap(), dtype, whole)
}

#[test]
fn sum_to_small_shapes() {
    check(cases(8000), any_case(small()), sum_to_agrees);
}

#[test]
fn sum_to_large_shapes() {
    check(cases(160), any_case(large()), sum_to_agrees);
}

#[test]
fn products_are_folded_over_small_shapes() {
    check(cases(8000), any_case(small()), fold_to_agrees);
}

#[test]
fn products_are_folded_over_large_shapes() {
    check(cases(160), any_case(large()), fold_to_agrees);
}

/// Reductions that are cut into parts: more work than 64 grains, in few results.
fn check_many_parts(shapes: [&[usize]; 3], mut tried: usize) {
    for (k, shape) in shapes.into_iter().enumerate() {
        let rank = shape.len();
        for layout in [Layout::Contiguous, Layout::Transposed, Layout::Stepped, Layout::Flipped] {
            let dtype = [DType::F32, DType::F64][(k + tried) % 2];
            let numbers = [Numbers::Positive, Numbers::Whole, Numbers::Scaled][tried % 3];
            let (mut random, mut at) = (Random(tried as u64), 0);
            let bits = if dtype == DType::F32 { 24 } else { 53 };
            let (t, plain) = layout.strided(shape).fill(dtype, f64::NAN, || {
                at += 1;
                numbers.next(bits, at, &mut random)
            });
            // One result, and, in turn, each axis alone.
            let mut one = shape.to_vec();
            one[tried % rank] = 1;
            for target in [vec![], one] {
                let mut sums = Sums::new(&target, None);
                sums.add(shape, &plain, None);
                let label = || format!("{shape:?} to {target:?}, {dtype}, {layout:?}, {numbers:?}");
                let whole = numbers == Numbers::Whole;
                sums.check(&t.sum_to_size(&target[..]).unwrap(), dtype, whole)
                    .unwrap_or_else(|e| panic!("{}: {e}", label()));
                let one = Tensor::ones_with((), dtype);
                let target = Shape::from(&target[..]);
                let folded =
                    fold_to("fold", &FloatKernel(Product), &[&one, &t], Target::of(&target)).unwrap();
                sums.check(&folded, dtype, whole).unwrap_or_else(|e| panic!("a product of {}: {e}", label()));
            }
            tried += 1;
        }
    }
}

#[test]
fn folds_in_many_parts() {
    check_many_parts([&[2_200_003], &[2200, 1001], &[1001, 2200]], 0);
}

/// Beside the test above, on another thread.
#[test]
fn folds_in_many_parts_of_uneven_sides() {
    check_many_parts([&[7, 320_001], &[320_001, 7], &[130, 131, 132]], 12);
}

#[test]
fn twenty_million_ones() {
    const N: usize = 20_000_000;
    let ones = Tensor::ones([N]);
    assert_eq!(ones.sum(..).unwrap().item_as::<f32>().unwrap(), N as f32);
    assert_eq!(ones.mean(..).unwrap().item_as::<f32>().unwrap(), 1.0);
    let table = ones.reshape([5000, 4000]).unwrap();
    assert_eq!(table.sum_to_size([4000]).unwrap(), Tensor::full([4000], 5000.0));
    assert_eq!(table.sum_to_size([5000, 1]).unwrap(), Tensor::full([5000, 1], 4000.0));
    assert_eq!(table.t().sum(..).unwrap().item_as::<f32>().unwrap(), N as f32);
    let folded =
        fold_to("ones", &FloatKernel(Product), &[&ones, &tensor_of(1.0)], Target::of(&().into())).unwrap();
    assert_eq!(folded.item_as::<f32>().unwrap(), N as f32);
    // One number that stands for all of them is not walked at all.
    let still = Tensor::ones([1]).expand([N]).unwrap();
    assert_eq!(still.sum(..).unwrap().item_as::<f32>().unwrap(), N as f32);
    // A tenth, which f32 does not hold exactly: one after another these come to more than 2.08 million.
    let tenths = Tensor::full([N], 0.1);
    let sum = tenths.sum(..).unwrap().item_as::<f32>().unwrap() as f64;
    let want = N as f64 * 0.1f32 as f64;
    assert!((sum - want).abs() <= 67.0 * unit(DType::F32) * want, "{sum} is not {want}");
    // Columns so long that their parts, too, are long: rows are added element by element only 16 at a time.
    for sum in tenths.reshape([N / 8, 8]).unwrap().sum(0).unwrap().to_vec::<f32>().unwrap() {
        assert!((sum as f64 - want / 8.0).abs() <= 67.0 * unit(DType::F32) * want / 8.0, "{sum}");
    }
}

fn tensor_of(v: f32) -> Tensor {
    Tensor::from(v)
}

#[test]
fn long_alternating_and_badly_scaled_sums() {
    const N: usize = 3_000_000;
    let sum =
        |values: Vec<f32>| Tensor::from_vec(values, [N]).unwrap().sum(..).unwrap().item_as::<f32>().unwrap();
    // Everything cancels, whatever the order.
    assert_eq!(sum((0..N).map(|i| if i % 2 == 0 { 4096.0 } else { -4096.0 }).collect()), 0.0);
    // Half of the numbers are 4096 and the others -4095: a difference of one per pair.
    assert_eq!(sum((0..N).map(|i| if i % 2 == 0 { 4096.0 } else { -4095.0 }).collect()), N as f32 / 2.0);
    // The harmonic series with signs tends to ln 2; terms of all magnitudes.
    let series = |i: usize| (if i.is_multiple_of(2) { 1.0 } else { -1.0 }) / (i + 1) as f32;
    let mut exact = Exact::default();
    let mut weight = 0.0;
    for i in 0..N {
        exact.add(series(i) as f64);
        weight += series(i).abs() as f64;
    }
    let error = exact.distance(sum((0..N).map(series).collect()) as f64);
    assert!(error <= 67.0 * unit(DType::F32) * weight, "{error}");
    // A first number far above the others, and its opposite at the end: in f64, what runs in between lose is at most
    // half an ulp of that number per addition in the two runs that contain it, and nothing elsewhere.
    let big = 2f64.powi(60);
    let mut values = vec![1.0f64; N];
    values[0] = big;
    values[N - 1] = -big;
    let got = Tensor::from_vec(values, [N]).unwrap().sum(..).unwrap().item_as::<f64>().unwrap();
    let runs = 2.0 * 1024.0;
    assert!((got - (N as f64 - 2.0)).abs() <= runs, "{got}: the runs between the two were not kept");
}

/// The bound must be one that a wrong sum breaks: adding one after another in `f32` does.
#[test]
fn the_bound_is_not_met_by_a_plain_loop() {
    // A tenth again and again: the additions of one binade all round the same way.
    let values = vec![0.1f32; 1_000_000];
    let mut exact = Exact::default();
    values.iter().for_each(|&v| exact.add(v as f64));
    let (plain, bound) = (values.iter().sum::<f32>(), 67.0 * unit(DType::F32) * exact.value());
    assert!(exact.distance(plain as f64) > 10.0 * bound);
    let ours = Tensor::from_vec(values, [1_000_000]).unwrap().sum(..).unwrap().item_as::<f32>().unwrap();
    assert!(exact.distance(ours as f64) <= bound);
}

/// A tensor's numbers, bit by bit.
pub(crate) fn bits(t: &Tensor) -> Vec<u64> {
    match t.dtype() {
        DType::F32 => t.to_vec::<f32>().unwrap().into_iter().map(|v| v.to_bits() as u64).collect(),
        DType::F64 => t.to_vec::<f64>().unwrap().into_iter().map(f64::to_bits).collect(),
        DType::I64 => t.to_vec::<i64>().unwrap().into_iter().map(|v| v as u64).collect(),
        DType::Bool => t.to_vec::<bool>().unwrap().into_iter().map(|v| v as u64).collect(),
    }
}

#[test]
fn bits_do_not_depend_on_threads() {
    let make = |shape: &[usize], layout: Layout, dtype| {
        let mut random = Random(9);
        layout.strided(shape).fill(dtype, f64::NAN, || random.uniform(-1.0, 1.0)).0
    };
    let mut tried = 0;
    for dtype in [DType::F32, DType::F64] {
        for layout in [Layout::Contiguous, Layout::Transposed, Layout::Flipped, Layout::Stepped] {
            let t = make(&[611, 1203], layout, dtype);
            let row = make(&[1203], layout, dtype);
            let cube = make(&[31, 67, 129], layout, dtype);
            let factors = [make(&[150, 333], layout, dtype), make(&[333, 210], layout, dtype)];
            let batch = [make(&[7, 60, 80], layout, dtype), make(&[80, 90], layout, dtype)];
            let near_one = t.mul(0.001).unwrap().add(1.0).unwrap();
            let all = || {
                let fold = |target: &[usize], prior: Option<Tensor>| {
                    fold_to(
                        "fold",
                        &FloatKernel(Product),
                        &[&t, &row],
                        Target { prior, ..Target::of(&Shape::from(target)) },
                    )
                    .unwrap()
                };
                let mut results = vec![
                    t.add(&row).unwrap(),
                    t.mul(&row).unwrap().exp().tanh(),
                    fold(&[1203], None),
                    fold(&[611, 1], None),
                    fold(&[], None),
                    fold(&[1203], Some(row.clone())),
                    t.sum_to_size([1, 1203]).unwrap(),
                    factors[0].matmul(&factors[1]).unwrap(),
                    batch[0].matmul(&batch[1]).unwrap(),
                    factors[0].mv(factors[0].select(0, 3).unwrap()).unwrap(),
                    t.argmax(..).unwrap(),
                    t.logsumexp(..).unwrap(),
                ];
                for axis in [0, 1] {
                    results.push(t.softmax(axis).unwrap());
                    results.push(t.log_softmax(axis).unwrap());
                    results.push(t.argmin(axis).unwrap());
                }
                let axes: [&[usize]; 6] = [&[0], &[1], &[2], &[0, 2], &[1, 2], &[0, 1, 2]];
                for axes in axes {
                    results.push(cube.sum(axes).unwrap());
                    results.push(cube.mean(keep(axes)).unwrap());
                    results.push(cube.var(axes).unwrap());
                    results.push(cube.amax(axes).unwrap());
                    results.push(cube.amin(axes).unwrap());
                    results.push(cube.prod(axes).unwrap());
                    results.push(cube.gt(0.9).unwrap().any(axes).unwrap());
                }
                results.push(near_one.prod(..).unwrap());
                results.iter().map(bits).collect::<Vec<_>>()
            };
            let serial = ThreadPool::new(1).install(all);
            for threads in [2, 3, 8] {
                let parallel = ThreadPool::new(threads).install(all);
                for (k, (s, p)) in serial.iter().zip(&parallel).enumerate() {
                    assert!(s == p, "result {k} with {threads} threads, {dtype}, {layout:?}");
                    tried += 1;
                }
            }
        }
    }
    println!("{tried} results");
}
