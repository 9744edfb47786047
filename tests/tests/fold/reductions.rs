//! Means, variances, extremes, truth and products over axes.

use foldback_tensor::{DType, Over, Tensor, TensorFacts, refused};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use tests::oracle::{Exact, Plain, Random, count, for_each_index};

use crate::cases::{Case, any_case, large, small};
use crate::sums::unit;
use crate::{cases, check};

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
