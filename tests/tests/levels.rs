//! The same results at every instruction-set level: bit by bit where nothing is fused, within the documented units in
//! the last place where fused multiply-add makes a difference. And the same bits wherever an element stands in a block.
//!
//! A process of its own with a single test, because the level is the whole process's.

use foldback_graph::{Backward, Domain, RequiresGrad, Var, rows};
use foldback_tensor::kernel::{FloatKernel, Target, fold_to, matmul_to};
use foldback_tensor::{DType, Level, Shape, Tensor, detected_level, force_level};
use tests::formulas::Product;
use tests::oracle::{Layout, Plain, Random};

/// `f` at every level that this processor has, the lowest first.
fn at_levels<R>(f: impl Fn() -> R) -> Vec<(Level, R)> {
    let levels = [Level::Baseline, Level::Avx2, Level::Avx512];
    let results = levels.into_iter().filter(|&l| l <= detected_level()).map(|l| {
        assert_eq!(force_level(l), l);
        (l, f())
    });
    let results = results.collect();
    force_level(detected_level());
    results
}

/// A tensor's numbers, bit by bit; the payload of a not-a-number is nobody's business.
fn bits(t: &Tensor) -> Vec<u64> {
    let float = |v: f64| if v.is_nan() { u64::MAX } else { v.to_bits() };
    match t.dtype() {
        DType::F32 => t.to_vec::<f32>().unwrap().into_iter().map(|v| float(v as f64)).collect(),
        DType::F64 => t.to_vec::<f64>().unwrap().into_iter().map(float).collect(),
        DType::I64 => t.to_vec::<i64>().unwrap().into_iter().map(|v| v as u64).collect(),
        DType::Bool => t.to_vec::<bool>().unwrap().into_iter().map(|v| v as u64).collect(),
    }
}

/// Numbers of all magnitudes and both signs, with special ones among them.
fn numbers(shape: &[usize], layout: Layout, dtype: DType, seed: u64) -> Tensor {
    let mut random = Random(seed);
    let special = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1.0, -1.0];
    let next = || match random.below(200) {
        n if n < special.len() => special[n],
        _ => random.uniform(-2.0, 2.0) * 2f64.powi(random.below(30) as i32 - 15),
    };
    layout.strided(shape).fill(dtype, f64::NAN, next).0
}

/// The same without infinities and NaN, which would hide everything that is summed with them.
fn finite(shape: &[usize], layout: Layout, dtype: DType, seed: u64) -> Tensor {
    let mut random = Random(seed);
    layout.strided(shape).fill(dtype, f64::NAN, || random.uniform(-2.0, 2.0)).0
}

/// Nothing here multiplies and adds in one formula: no level may change a bit.
fn expect_same_bits(dtype: DType, layout: Layout) -> usize {
    let (a, b) = (numbers(&[67, 211], layout, dtype, 1), numbers(&[67, 211], layout, dtype, 2));
    let row = finite(&[211], layout, dtype, 3);
    let t = finite(&[403, 211], layout, dtype, 4);
    let (i, j) = (numbers(&[500], layout, DType::I64, 5), finite(&[500], layout, DType::I64, 6));
    let results = at_levels(|| {
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
            ("+", &a + &b),
            ("-", &a - &b),
            ("*", &a * &b),
            ("/", &a / &b),
            ("row *", &a * &row),
            ("maximum", a.maximum(&b).unwrap()),
            ("minimum", a.minimum(&b).unwrap()),
            ("neg", a.neg()),
            ("abs", a.abs()),
            ("sign", a.sign()),
            ("sqrt", a.sqrt()),
            ("rsqrt", a.rsqrt()),
            ("reciprocal", a.reciprocal()),
            ("square", a.square()),
            ("relu", a.relu()),
            ("clamp", a.clamp(-0.5, 0.25).unwrap()),
            ("add_with", a.add_with(&b, 0.3).unwrap()),
            ("where", a.gt(&b).unwrap().where_cond(&a, &b).unwrap()),
            ("<", a.lt(&b).unwrap()),
            ("==", a.eq(&b).unwrap()),
            ("integer *", &i * &j),
            ("integer +", &i + &j),
            ("integer <=", i.le(&j).unwrap()),
            ("fold to a row", fold(&[211], None)),
            ("fold to a column", fold(&[403, 1], None)),
            ("fold to a number", fold(&[], None)),
            ("fold onto a row", fold(&[211], Some(row.clone()))),
            ("fmax", a.fmax(&b).unwrap()),
            ("fmin", a.fmin(&b).unwrap()),
            ("copysign", a.copysign(&b).unwrap()),
            ("remainder", a.remainder(&b).unwrap()),
            ("fmod", a.fmod(&b).unwrap()),
            ("floor", a.floor()),
            ("ceil", a.ceil()),
            ("round", a.round()),
            ("trunc", a.trunc()),
            ("frac", a.frac()),
            ("hardtanh", a.hardtanh()),
            ("leaky_relu", a.leaky_relu()),
            ("nan_to_num", a.nan_to_num()),
            ("isfinite", a.isfinite()),
            ("integer &", &i & &j),
            ("argmax", a.argmax(0).unwrap()),
            ("sort", a.sort(1).unwrap().0),
            ("argsort", a.argsort(0).unwrap()),
            ("median", t.median(0).unwrap()),
            ("cumsum", t.cumsum(0).unwrap()),
            ("cumprod", t.cumprod(1).unwrap()),
            ("norm", t.norm_with(0, 1).unwrap()),
            ("all", a.ne(0.0).unwrap().all(1).unwrap()),
        ];
        for axes in [&[0usize][..], &[1], &[0, 1]] {
            results.push(("sum", t.sum(axes).unwrap()));
            results.push(("mean", t.mean(axes).unwrap()));
            results.push(("var", t.var(axes).unwrap()));
            results.push(("amax", a.amax(axes).unwrap()));
            results.push(("amin", a.amin(axes).unwrap()));
            results.push(("prod", t.prod(axes).unwrap()));
        }
        results.into_iter().map(|(name, t)| (name, bits(&t))).collect::<Vec<_>>()
    });
    let (_, base) = &results[0];
    for (level, other) in &results[1..] {
        for ((name, b), (_, o)) in base.iter().zip(other) {
            assert!(b == o, "{name} at {level:?} is not what it is at the baseline: {dtype}, {layout:?}");
        }
    }
    base.len() * (results.len() - 1)
}

/// Products of small whole numbers are exact in every order: of matrices, with a vector on either side, and scaled by how
/// often an axis repeats that is summed.
fn expect_same_products(dtype: DType, layout: Layout) -> usize {
    let mut random = Random(10);
    let mut whole =
        |shape: &[usize]| layout.strided(shape).fill(dtype, f64::NAN, || random.below(9) as f64 - 4.0).0;
    let (a, b) = (whole(&[203, 211]), whole(&[211, 97]));
    let (row, column) = (whole(&[203]), whole(&[211]));
    let repeated = a.expand([5, 203, 211]).unwrap();
    let to =
        |x: &Tensor, y: &Tensor, shape: &[usize]| matmul_to("t", x, y, Target::of(&shape.into())).unwrap();
    let results = at_levels(|| {
        let products = [
            ("matrices", a.matmul(&b).unwrap()),
            ("matrix and vector", a.matmul(&column).unwrap()),
            ("vector and matrix", row.matmul(&a).unwrap()),
            ("vectors", row.matmul(&row).unwrap()),
            ("scaled", to(&repeated, &b, &[203, 97])),
            ("scaled, with a vector", to(&repeated, &column.unsqueeze(1).unwrap(), &[203, 1])),
        ];
        products.map(|(name, t)| (name, bits(&t)))
    });
    for (level, other) in &results[1..] {
        for ((name, b), (_, o)) in results[0].1.iter().zip(other) {
            assert!(b == o, "{name} at {level:?} is not what it is at the baseline: {dtype}, {layout:?}");
        }
    }
    results[0].1.len() * (results.len() - 1)
}

/// A function, its documented bounds in ulp for `f32` and `f64`, and the standard library's for `f64` arguments.
type Elementary = (&'static str, fn(&Tensor) -> Tensor, [f64; 2], Option<fn(f64) -> f64>);

/// Bounds as documented in `crates/tensor/src/math`.
const ELEMENTARY: [Elementary; 22] = [
    ("exp", |x| x.exp(), [1.1, 1.1], Some(f64::exp)),
    ("expm1", |x| x.expm1(), [1.7, 1.7], Some(f64::exp_m1)),
    ("ln", |x| x.ln(), [0.9, 0.9], Some(f64::ln)),
    ("log1p", |x| x.log1p(), [1.5, 1.5], Some(f64::ln_1p)),
    ("sin", |x| x.sin(), [0.51, 0.8], Some(f64::sin)),
    ("cos", |x| x.cos(), [0.51, 0.8], Some(f64::cos)),
    ("tan", |x| x.tan(), [0.51, 1.0], Some(f64::tan)),
    ("tanh", |x| x.tanh(), [1.6, 1.4], Some(f64::tanh)),
    ("sigmoid", |x| x.sigmoid(), [2.0, 2.0], None),
    ("erf", |x| x.erf(), [1.6, 2.2], None),
    ("exp2", |x| x.exp2(), [1.1, 1.1], Some(f64::exp2)),
    ("log2", |x| x.log2(), [1.7, 1.7], Some(f64::log2)),
    ("log10", |x| x.log10(), [1.8, 1.8], Some(f64::log10)),
    ("asin", |x| x.asin(), [0.51, 1.6], Some(f64::asin)),
    ("acos", |x| x.acos(), [0.51, 1.3], Some(f64::acos)),
    ("atan", |x| x.atan(), [0.51, 1.5], Some(f64::atan)),
    ("sinh", |x| x.sinh(), [0.51, 1.6], Some(f64::sinh)),
    ("cosh", |x| x.cosh(), [0.51, 1.3], Some(f64::cosh)),
    ("asinh", |x| x.asinh(), [0.51, 1.5], None),
    ("acosh", |x| x.acosh(), [0.51, 1.7], None),
    ("atanh", |x| x.atanh(), [0.51, 1.7], None),
    ("erfc", |x| x.erfc(), [0.51, 1.9], None),
];

/// The unit in the last place of a number of a type.
fn ulp(v: f64, dtype: DType) -> f64 {
    let (digits, lowest) = if dtype == DType::F32 { (23, -126) } else { (52, -1022) };
    let exponent = ((v.abs().to_bits() >> 52) as i32 - 1023).max(lowest);
    2f64.powi((exponent - digits).max(-1074))
}

fn expect_within(what: &str, found: &Plain, want: &Plain, dtype: DType, bound: f64) {
    for (k, (&f, &w)) in found.values.iter().zip(&want.values).enumerate() {
        let same = f == w || f.is_nan() && w.is_nan();
        let error = (f - w).abs() / ulp(w, dtype);
        assert!(same || error <= bound, "{what}: element {k} is {f:e}, not {w:e}: {error} ulp, not {bound}");
    }
}

/// Each level is within its bound of the true value, so two levels are within twice the bound of each other. (An ulp
/// of one is at most that of the other, or, where a power of two lies between them, twice as much.)
fn expect_close(dtype: DType, layout: Layout) -> usize {
    let x = numbers(&[89, 211], layout, dtype, 7);
    let mut compared = 0;
    for (name, f, bounds, reference) in ELEMENTARY {
        let bound = bounds[(dtype == DType::F64) as usize];
        let results = at_levels(|| Plain::of(&f(&x)));
        for (level, found) in &results {
            let what = format!("{name} at {level:?}, {dtype}, {layout:?}");
            expect_within(&what, found, &results[0].1, dtype, 4.0 * bound);
            if let (DType::F32, Some(reference)) = (dtype, reference) {
                // A double's own error is nothing to an f32, but its range is wider.
                let mut want = Plain::of(&x);
                want.values.iter_mut().for_each(|v| *v = reference(*v));
                want.values
                    .iter_mut()
                    .filter(|v| v.abs() > f32::MAX as f64)
                    .for_each(|v| *v = *v as f32 as f64);
                expect_within(&what, found, &want, dtype, bound);
            }
            compared += found.values.len();
        }
    }
    // Powers of positive numbers.
    let (base, exponent) = (x.abs(), finite(&[211], layout, dtype, 8));
    let results = at_levels(|| Plain::of(&base.pow(&exponent).unwrap()));
    let bound = 4.0 * if dtype == DType::F32 { 0.51 } else { 1.5 };
    for (level, found) in &results[1..] {
        expect_within(&format!("pow at {level:?}, {dtype}"), found, &results[0].1, dtype, bound);
        compared += found.values.len();
    }
    compared
}

/// A softmax is an exponential (1.1 ulp, 2.2u) of a difference (u, which moves it by u |x - max|), divided (u) by a sum
/// (67u, see `fold`, and of terms that are off by as much as the numerator): 2 (2.2 + 5) + 68 u for differences up
/// to 5, so that two levels are apart by less than 166u relatively.
fn expect_close_softmax(dtype: DType, layout: Layout) -> usize {
    let x = finite(&[120, 301], layout, dtype, 9);
    let unit = if dtype == DType::F32 { f32::EPSILON as f64 } else { f64::EPSILON } / 2.0;
    let mut compared = 0;
    for axis in [0, 1] {
        let results = at_levels(|| Plain::of(&x.softmax(axis).unwrap()));
        for (level, found) in &results[1..] {
            for (&f, &w) in found.values.iter().zip(&results[0].1.values) {
                assert!((f - w).abs() <= 166.0 * unit * w, "softmax at {level:?}: {f:e}, not {w:e}");
            }
            compared += found.values.len();
        }
    }
    compared
}

/// What a kernel makes of an element is the same wherever the element stands in a block, be it among those that fill
/// registers or at the end: pieces of a tensor that begin and end anywhere come to what they are in the whole. So do their gradients.
fn expect_same_bits_everywhere(dtype: DType) -> usize {
    const LENGTH: usize = 211;
    type Results = Vec<Vec<u64>>;
    let check = |name: &str, inputs: &[Tensor], f: &dyn Fn(&[Tensor]) -> Results| {
        for (level, differing) in at_levels(|| {
            let whole = f(inputs);
            let differs = |from: usize, len: usize| {
                let cut = |t: &Tensor| t.narrow(0, from as isize, len).unwrap();
                let piece = f(&inputs.iter().map(cut).collect::<Vec<_>>());
                piece.iter().zip(&whole).any(|(piece, whole)| *piece != whole[from..from + len])
            };
            let ends = (1..70).filter(|&len| differs(0, len)).count();
            ends + (1..70).filter(|&from| differs(from, LENGTH - from)).count()
        }) {
            assert_eq!(differing, 0, "pieces of {name} at {level:?}, {dtype}");
        }
    };
    let given = |seed: u64| numbers(&[LENGTH], Layout::ALL[0], dtype, seed);
    let mut checked = 0;
    for row in rows().filter(|row| row.is_pointwise()) {
        for sample in row.samples() {
            let of = |(k, (_, domain)): (usize, &(Vec<usize>, Domain))| match domain {
                Domain::Truth => given(10 + k as u64).gt(0.0).unwrap(),
                _ => given(10 + k as u64),
            };
            let mut inputs: Vec<Tensor> = sample.inputs.iter().enumerate().map(of).collect();
            // The last is what arrives at the result.
            inputs.push(given(9));
            check(row.name, &inputs, &|inputs| {
                let (g, inputs) = inputs.split_last().unwrap();
                let leaf = |t: &Tensor| match t.dtype() {
                    DType::Bool => Var::constant(t.clone()),
                    _ => t.clone().requires_grad(),
                };
                let inputs: Vec<Var> = inputs.iter().map(leaf).collect();
                let y = (sample.run)(&inputs).unwrap();
                if y.requires_grad() {
                    y.backward_with(Backward::new().seed(g.to(y.dtype()))).unwrap();
                }
                let grads = inputs.iter().filter_map(Var::grad).map(|g| bits(&g));
                std::iter::once(bits(&y.value())).chain(grads).collect()
            });
            checked += 1;
        }
    }
    for (name, f, ..) in ELEMENTARY {
        check(name, &[given(10)], &|inputs| vec![bits(&f(&inputs[0]))]);
    }
    checked + ELEMENTARY.len()
}

#[test]
fn every_level_gives_the_same() {
    let (mut equal, mut close) = (0, 0);
    for dtype in [DType::F32, DType::F64] {
        equal += expect_same_bits_everywhere(dtype);
        for layout in Layout::ALL {
            equal += expect_same_bits(dtype, layout) + expect_same_products(dtype, layout);
            close += expect_close(dtype, layout) + expect_close_softmax(dtype, layout);
        }
    }
    println!(
        "levels up to {:?}: {equal} results with equal bits, {close} numbers within their bounds",
        detected_level()
    );
}
