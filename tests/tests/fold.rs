//! Folds on their own: sums, `sum_to_size`, gradients evaluated into a folded shape, and the other reductions, over random
//! shapes and strides, against index loops with more bits than the result.
//!
//! Note [The bound of a sum]
//! The library's sums (`iter/order.rs`, Note [The order of a sum]) are held to a bound that has no length in it. With the
//! unit roundoff u of the element type (2^-24 for `f32`, 2^-53 for `f64`), every result s of terms t must satisfy
//!
//! ```text
//! |s - sum t| <= 67 u sum |t|
//! ```
//!
//! A term of a product formula is rounded once: u. On its way a term then takes part in additions of these layers:
//! 1. a leaf of up to 1,024 elements. From 256 elements on they go to 64 lanes, four at a time by a tree (2 additions)
//!    and then to their lane (at most 8), and a tree over the lanes (6): 16. From 32 on there are 16 lanes of up to 15
//!    elements, a tree (4), and up to 15 elements behind them: 33. Fewer come to less. Rows are added element by
//!    element, 4 of them by a tree: 2. Short rows go to lanes of whole rows, 16 to each, and a tree over the rows of
//!    these (at most 5): 21. At most 33.
//! 2. the wide accumulator. For `f32` it is an `f64`: m additions cost m 2^-53 = m 2^-29 u, under u/32 for up to 2^24
//!    runs, more than any test here has. For `f64` it is a pair whose own error is of the order of (m u)^2, under
//!    2^-58 for as many. Merging the parts of a large reduction is the same kind of addition.
//! 3. the result is rounded to the element type once: 1. A sum that waited is added to it: 1 more, of its magnitude too.
//!
//! That is 1 + 33 + 1/32 + 1 + 1 < 66 roundings, (1 + u)^66 - 1 < 67 u. (The bound leaves room for runs of 63 elements
//! added one after another.)
//!
//! Moreover, integers whose partial sums within a run fit the significand are added without any rounding up to step 3,
//! for any length: these sums must be the correctly rounded ones.
//!
//! Proptest cases are drawn with a fixed seed. `FOLDBACK_FOLD_CASES` multiplies their number, `FOLDBACK_FOLD_SEED` draws
//! others; a failure prints the shrunk case, whose `seed` fixes its numbers.

use foldback_tensor::kernel::{FloatKernel, Target, fold_to};
use foldback_tensor::{DType, Over, Shape, Tensor, TensorFacts, ThreadPool, keep, refused};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use tests::formulas::Product;
use tests::oracle::{Exact, Layout, Plain, Random, Strided, broadcast, count, expands, for_each_index};

/// A runner whose cases are the same in every run.
fn runner(cases: u32) -> TestRunner {
    let number = |name: &str| std::env::var(name).ok().map(|v| v.parse::<u64>().expect("a whole number"));
    let mut random = Random(number("FOLDBACK_FOLD_SEED").unwrap_or(2026));
    let mut seed = [0; 32];
    seed.chunks_exact_mut(8).for_each(|c| c.copy_from_slice(&random.bits().to_le_bytes()));
    let cases = cases.saturating_mul(number("FOLDBACK_FOLD_CASES").unwrap_or(1) as u32);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed))
}

/// More cases where they cost little.
fn cases(release: u32) -> u32 {
    if cfg!(debug_assertions) { release / 8 } else { release }
}

fn check(
    cases: u32,
    strategy: impl Strategy<Value = Case>,
    test: impl Fn(&Case) -> Result<(), TestCaseError>,
) {
    let tried = std::cell::Cell::new(0);
    let result = runner(cases).run(&strategy, |case| {
        tried.set(tried.get() + 1);
        test(&case)
    });
    println!("{} cases", tried.get());
    result.unwrap_or_else(|e| panic!("{e}"));
}

/// What the numbers are.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Numbers {
    /// whole, and so small that a run of them is added without rounding
    Whole,
    /// of one sign and magnitude
    Positive,
    /// of both signs, and magnitudes from 2^-30 to 2^30
    Scaled,
    /// large ones of alternating sign, with small ones between
    Alternating,
}

impl Numbers {
    /// `bits` is the significand of the element type; products of two whole numbers have to fit, too.
    fn next(self, bits: u32, at: usize, random: &mut Random) -> f64 {
        match self {
            Numbers::Whole => {
                let most = 1i64 << ((bits - 11) / 2);
                (random.below(2 * most as usize + 1) as i64 - most) as f64
            }
            Numbers::Positive => random.uniform(1.0, 2.0),
            Numbers::Scaled => random.uniform(-2.0, 2.0) * 2f64.powi(random.below(60) as i32 - 30),
            Numbers::Alternating => match at % 4 {
                0 => 1e6 + random.uniform(0.0, 1.0),
                2 => -1e6 + random.uniform(0.0, 1.0),
                _ => random.uniform(-1.0, 1.0),
            },
        }
    }
}

/// A shape, how operands lie in it, what they hold, and where they are folded to.
#[derive(Clone, Debug)]
struct Case {
    shape: Vec<usize>,
    /// element types of the two operands
    types: [DType; 2],
    numbers: Numbers,
    /// per operand and axis, whether its size is 1
    thin: [Vec<bool>; 2],
    /// how many leading axes the second operand leaves away
    short: usize,
    /// per axis of the target, whether its size is 1; and how many leading axes it leaves away
    folded: (Vec<bool>, usize),
    keepdim: bool,
    seed: u64,
}

impl Case {
    /// Strides of any kind for a shape: axes in any order, with steps, backwards, or standing still.
    fn strided(shape: &[usize], random: &mut Random) -> Strided {
        let mut order: Vec<usize> = (0..shape.len()).collect();
        if random.below(2) == 0 {
            for i in (1..order.len()).rev() {
                order.swap(i, random.below(i + 1));
            }
        }
        let plain = random.below(3) == 0;
        let mut strides = vec![0; shape.len()];
        let mut step = 1isize;
        for &axis in order.iter().rev() {
            let (spread, sign) =
                if plain { (1, 1) } else { ([1, 1, 2, 3][random.below(4)], [1, 1, -1][random.below(3)]) };
            step *= spread;
            strides[axis] = step * sign;
            step *= shape[axis].max(1) as isize;
            if !plain && random.below(6) == 0 {
                strides[axis] = 0;
            }
        }
        Strided::around(shape, strides, random.below(5))
    }

    fn operand(&self, side: usize, random: &mut Random) -> (Tensor, Plain) {
        let missing = if side == 1 { self.short.min(self.shape.len()) } else { 0 };
        let sizes = self.shape.iter().zip(&self.thin[side]).map(|(&n, &thin)| if thin { 1 } else { n });
        let shape: Vec<usize> = sizes.skip(missing).collect();
        self.tensor(&shape, self.types[side], random)
    }

    fn tensor(&self, shape: &[usize], dtype: DType, random: &mut Random) -> (Tensor, Plain) {
        let bits = if self.types.contains(&DType::F32) { 24 } else { 53 };
        let mut at = 0;
        let lies = Case::strided(shape, random);
        lies.fill(dtype, f64::NAN, || {
            at += 1;
            self.numbers.next(bits, at, random)
        })
    }

    /// The shape to fold to, for a common shape.
    fn target(&self, common: &[usize]) -> Vec<usize> {
        let sizes = common.iter().zip(&self.folded.0).map(|(&n, &one)| if one { 1 } else { n });
        sizes.skip(self.folded.1).collect()
    }

    fn axes(&self) -> Vec<usize> {
        (0..self.shape.len()).filter(|&i| self.folded.0[i]).collect()
    }

    /// The axes that a sum over those reduces: all, if none is named.
    fn reduced(&self) -> Vec<usize> {
        if self.axes().is_empty() { (0..self.shape.len()).collect() } else { self.axes() }
    }
}

fn any_case(sizes: impl Strategy<Value = Vec<usize>>) -> impl Strategy<Value = Case> {
    let numbers = prop_oneof![
        Just(Numbers::Whole),
        Just(Numbers::Positive),
        Just(Numbers::Scaled),
        Just(Numbers::Alternating)
    ];
    let types = prop_oneof![
        3 => Just([DType::F32, DType::F32]),
        3 => Just([DType::F64, DType::F64]),
        1 => Just([DType::F32, DType::F64]),
        1 => Just([DType::F64, DType::F32])
    ];
    (sizes, types, numbers, any::<u64>(), any::<bool>()).prop_flat_map(
        |(shape, types, numbers, seed, keepdim)| {
            let n = shape.len();
            let thin = || vec(prop::bool::weighted(0.25), n);
            (thin(), thin(), vec(any::<bool>(), n), 0..=n, 0..=n).prop_map(
                move |(left, right, ones, short, drop)| Case {
                    shape: shape.clone(),
                    types,
                    numbers,
                    thin: [left, right],
                    short: short / 2,
                    folded: (ones, drop / 2),
                    keepdim,
                    seed,
                },
            )
        },
    )
}

/// Up to 6 axes, sizes 0 and 1 among them.
fn small() -> impl Strategy<Value = Vec<usize>> {
    let size = prop_oneof![1 => Just(0usize), 4 => Just(1usize), 20 => 2..6usize];
    vec(size, 0..=6)
}

/// More than one grain (32,768 elements), blocks that are not full and runs on both sides of 64, 512 and 1,024.
fn large() -> impl Strategy<Value = Vec<usize>> {
    const SIZES: &[usize] =
        &[2, 3, 5, 16, 17, 33, 63, 64, 65, 100, 255, 511, 513, 1023, 1024, 1025, 4097, 20_000];
    (vec(prop::sample::select(SIZES), 1..=6), 40_000..400_000usize).prop_map(|(sizes, most)| {
        let mut shape = Vec::new();
        let mut n = 1;
        for size in sizes {
            let size = size.min(most / n);
            shape.push(size.max(1));
            n *= size.max(1);
        }
        // What is left goes to the first axis.
        shape[0] *= (40_000 / n).max(1);
        shape
    })
}

fn unit(dtype: DType) -> f64 {
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
#[test]
fn folds_in_many_parts() {
    let shapes: [&[usize]; 6] =
        [&[2_200_003], &[2200, 1001], &[1001, 2200], &[7, 320_001], &[320_001, 7], &[130, 131, 132]];
    let mut tried = 0;
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
fn bits(t: &Tensor) -> Vec<u64> {
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

/// The elements that are folded into each result, in row-major order, by plain loops.
fn groups(plain: &Plain, axes: &[usize], keepdim: bool) -> (Vec<usize>, Vec<Vec<f64>>) {
    let thin: Vec<usize> =
        plain.shape.iter().enumerate().map(|(i, &n)| if axes.contains(&i) { 1 } else { n }).collect();
    let result = Plain { shape: thin.clone(), values: Vec::new() };
    let mut groups = vec![Vec::new(); count(&thin)];
    let mut at = 0;
    for_each_index(&plain.shape, |i| {
        groups[result.place(i, thin.len())].push(plain.values[at]);
        at += 1;
    });
    let kept = thin.iter().enumerate().filter(|(i, _)| keepdim || !axes.contains(i)).map(|(_, &n)| n);
    (kept.collect(), groups)
}

/// What an empty reduction, or one of the right shape, must be.
fn expect(
    found: foldback_tensor::Result<Tensor>,
    shape: &[usize],
    dtype: DType,
    mut fits: impl FnMut(usize, f64) -> bool,
) -> Result<(), TestCaseError> {
    let found = found.map_err(|e| TestCaseError::fail(e.to_string()))?;
    prop_assert_eq!(found.dims(), shape);
    prop_assert_eq!(found.dtype(), dtype);
    for (at, &f) in Plain::of(&found).values.iter().enumerate() {
        prop_assert!(fits(at, f), "element {at} is {f:e}");
    }
    Ok(())
}

/// The mean and the variance, of numbers of all magnitudes.
///
/// With n elements, the sum is off by 67u of the magnitudes, and division rounds once: the mean by 68u sum|x| / n,
/// rounded up for the division's own u. The variance is the mean's square distance away from that about the exact mean,
/// n (m - mean)^2, plus the roundings of its own terms: a difference and a square, 3u, their sum, 67u, a division, u.
fn moments_agree(case: &Case) -> Result<(), TestCaseError> {
    let mut random = Random(case.seed);
    let dtype = case.types[0];
    let (t, plain) = case.tensor(&case.shape, dtype, &mut random);
    let axes = case.axes();
    let (shape, groups) = groups(&plain, &case.reduced(), case.keepdim);
    let u = unit(dtype);
    let means: Vec<(f64, f64)> = groups
        .iter()
        .map(|g| {
            let mut sum = Exact::default();
            g.iter().for_each(|&v| sum.add(v));
            (sum.value() / g.len() as f64, 69.0 * u * g.iter().map(|v| v.abs()).sum::<f64>() / g.len() as f64)
        })
        .collect();
    expect(t.mean(Over::from(axes.clone()).with_keepdim(case.keepdim)), &shape, dtype, |at, f| {
        let (mean, error) = means[at];
        if groups[at].is_empty() { f.is_nan() } else { (f - mean).abs() <= error }
    })?;
    for correction in [1.0, 0.0, 2.0] {
        let found = t.var_with(Over::from(axes.clone()).with_keepdim(case.keepdim), correction);
        expect(found, &shape, dtype, |at, f| {
            let (g, (mean, error)) = (&groups[at], means[at]);
            let n = g.len() as f64;
            let over = (n - correction).max(0.0);
            let mut sum = Exact::default();
            g.iter().for_each(|&v| sum.add_product(v - mean, v - mean));
            let (sum, drift) = (sum.value(), n * error * error);
            if over == 0.0 {
                // A sum of nothing, or of squares that are exactly zero, by zero; rounding may leave a square.
                return f.is_nan() || (f == f64::INFINITY && n > 1.0);
            }
            // The oracle's mean is rounded to a double: twice as much as it can matter.
            (f - sum / over).abs() <= (72.0 * u * (sum + drift) + 2.0 * drift) / over
        })?;
    }
    Ok(())
}

/// Numbers with ties, not-a-numbers, infinities, zeros and signs.
fn special(random: &mut Random) -> f64 {
    match random.below(40) {
        0 => f64::NAN,
        1 => f64::INFINITY,
        2 => f64::NEG_INFINITY,
        n => (n % 7) as f64 - 3.0,
    }
}

/// The position of the first largest element; a not-a-number is larger than all.
fn first_largest(values: &[f64], sign: f64) -> usize {
    let mut best = 0;
    for (i, &v) in values.iter().enumerate() {
        let (v, b) = (v * sign, values[best] * sign);
        if !b.is_nan() && (v > b || v.is_nan()) {
            best = i;
        }
    }
    best
}

fn is_empty_reduction(found: &foldback_tensor::Result<Tensor>) -> bool {
    refused!(found, TensorFacts::EmptyReduction { .. })
}

fn extremes_agree(case: &Case) -> Result<(), TestCaseError> {
    let mut random = Random(case.seed);
    let dtype = [DType::F32, DType::F64, DType::I64, DType::Bool][random.below(4)];
    let lies = Case::strided(&case.shape, &mut random);
    let (between, whole) =
        (if dtype == DType::I64 { 9.0 } else { f64::NAN }, !matches!(dtype, DType::F32 | DType::F64));
    let (t, mut plain) = lies.fill(dtype, between, || match special(&mut random) {
        v if whole && !v.is_finite() => 0.0,
        v => v,
    });
    if dtype == DType::Bool {
        plain.values.iter_mut().for_each(|v| *v = (*v != 0.0) as u8 as f64);
    }
    let (axes, keepdim) = (case.axes(), case.keepdim);
    let (shape, sets) = groups(&plain, &case.reduced(), keepdim);
    let same = |f: f64, e: f64| f == e || f.is_nan() && e.is_nan();
    // Nothing to choose from is refused, even where there is no result.
    let empty = case.reduced().iter().any(|&a| case.shape[a] == 0);
    for (sign, found) in [
        (1.0, t.amax(Over::from(axes.clone()).with_keepdim(keepdim))),
        (-1.0, t.amin(Over::from(axes.clone()).with_keepdim(keepdim))),
    ] {
        if empty {
            prop_assert!(is_empty_reduction(&found));
        } else {
            expect(found, &shape, dtype, |at, f| same(f, sets[at][first_largest(&sets[at], sign)]))?;
        }
    }
    let truth = |v: &f64| *v != 0.0;
    // To these an empty list means no axes.
    let (shape, groups) = groups(&plain, &axes, keepdim);
    let any = t.any(Over::from(axes.clone()).with_keepdim(keepdim));
    expect(any, &shape, DType::Bool, |at, f| (f != 0.0) == groups[at].iter().any(truth))?;
    let all = t.all(Over::from(axes).with_keepdim(keepdim));
    expect(all, &shape, DType::Bool, |at, f| (f != 0.0) == groups[at].iter().all(truth))?;
    first_indices_agree(case, &t, &plain)
}

/// The first index among equals, along each axis alone and over all.
fn first_indices_agree(case: &Case, t: &Tensor, plain: &Plain) -> Result<(), TestCaseError> {
    for axis in 0..case.shape.len() {
        let (shape, groups) = groups(plain, &[axis], case.keepdim);
        for sign in [1.0, -1.0] {
            let found = if sign > 0.0 {
                t.argmax(Over::from(axis).with_keepdim(case.keepdim))
            } else {
                t.argmin(Over::from(axis).with_keepdim(case.keepdim))
            };
            if t.dtype() == DType::Bool {
                prop_assert!(found.is_err());
            } else if case.shape[axis] == 0 {
                prop_assert!(is_empty_reduction(&found));
            } else {
                expect(found, &shape, DType::I64, |at, f| f == first_largest(&groups[at], sign) as f64)?;
            }
        }
        if case.shape[axis] != 0 {
            let (values, indices) =
                t.max_with_indices(Over::from(axis as isize).with_keepdim(case.keepdim)).unwrap();
            let best = |at: usize| first_largest(&groups[at], 1.0);
            expect(Ok(indices), &shape, DType::I64, |at, f| f == best(at) as f64)?;
            let same = |f: f64, e: f64| f == e || f.is_nan() && e.is_nan();
            expect(Ok(values), &shape, t.dtype(), |at, f| same(f, groups[at][best(at)]))?;
        }
    }
    if !plain.values.is_empty() && t.dtype() != DType::Bool {
        let (largest, smallest) = (first_largest(&plain.values, 1.0), first_largest(&plain.values, -1.0));
        prop_assert_eq!(t.argmax(..).unwrap().item_as::<i64>().unwrap(), largest as i64);
        prop_assert_eq!(t.argmin(..).unwrap().item_as::<i64>().unwrap(), smallest as i64);
    }
    Ok(())
}

/// Products of up to some hundred factors between 0.8 and 1.25 and of both signs.
///
/// A product of n factors takes n multiplications, however they are ordered: (1 + u)^n - 1 < 2nu. One that stands still
/// is a power, which rounds once more (2u at most, by the standard library), of a base already off.
fn products_agree(case: &Case) -> Result<(), TestCaseError> {
    let mut random = Random(case.seed);
    let dtype = case.types[0];
    let lies = Case::strided(&case.shape, &mut random);
    let (t, plain) = lies.fill(dtype, f64::NAN, || random.uniform(0.8, 1.25) * [1.0, -1.0][random.below(2)]);
    let (shape, groups) = groups(&plain, &case.reduced(), case.keepdim);
    expect(t.prod(Over::from(case.axes()).with_keepdim(case.keepdim)), &shape, dtype, |at, f| {
        // The oracle's factors are doubles: for f64 as many roundings again.
        let product: f64 = groups[at].iter().product();
        (f - product).abs() <= (4 * groups[at].len() + 4) as f64 * unit(dtype) * product.abs()
    })?;
    Ok(())
}

/// Few enough elements that a product of all of them does not overflow.
fn tiny() -> impl Strategy<Value = Vec<usize>> {
    vec(prop_oneof![1 => Just(0usize), 3 => Just(1usize), 12 => 2..4usize], 0..=5)
}

#[test]
fn means_and_variances_of_small_shapes() {
    check(cases(6000), any_case(small()), moments_agree);
}

#[test]
fn means_and_variances_of_large_shapes() {
    check(cases(80), any_case(large()), moments_agree);
}

#[test]
fn extremes_and_truth_of_small_shapes() {
    check(cases(6000), any_case(small()), extremes_agree);
}

#[test]
fn extremes_and_truth_of_large_shapes() {
    check(cases(80), any_case(large()), extremes_agree);
}

#[test]
fn products_of_small_shapes() {
    check(cases(6000), any_case(tiny()), products_agree);
}

/// A number that stands still counts as often as it is seen, also where the count does not fit the element type.
#[test]
fn a_number_that_stands_still_counts() {
    let still = |v: f32, n: usize| Tensor::from(v).expand([n]).unwrap();
    let odd = (1 << 24) + 1;
    assert_eq!(still(-1.0, odd).prod(..).unwrap().item_as::<f32>().unwrap(), -1.0);
    assert_eq!(still(-1.0, odd - 1).prod(..).unwrap().item_as::<f32>().unwrap(), 1.0);
    assert_eq!(still(0.0, odd).prod(..).unwrap().item_as::<f32>().unwrap(), 0.0);
    assert_eq!(still(2.0, 40).prod(..).unwrap().item_as::<f32>().unwrap(), 2f32.powi(40));
    assert_eq!(still(3.0, 7).sum(..).unwrap().item_as::<f32>().unwrap(), 21.0);
    // So often that going through them would never end.
    let ages = 1usize << 59;
    assert!(Tensor::scalar(true).expand([ages]).unwrap().all(..).unwrap().item_as::<bool>().unwrap());
    assert_eq!(Tensor::from(-1i64).expand([ages]).unwrap().prod(..).unwrap().item_as::<i64>().unwrap(), 1);
    assert_eq!(still(2.5, ages).amax(..).unwrap().item_as::<f32>().unwrap(), 2.5);
    assert_eq!(still(0.5, ages).mean(..).unwrap().item_as::<f32>().unwrap(), 0.5);
}
