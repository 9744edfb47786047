//! What a formula's functions give: computed before the formula where they read few elements, or stored beside its value, and saved.

use foldback_tensor::kernel::{self, CallSet, KnownInputs, Target};
use foldback_tensor::{DType, Tensor, broadcast_shapes};
use smallvec::SmallVec;

use super::derived::{Derived, Named, PerOperand, SavedResults};
use super::names::Names;
use crate::error::Result;
use crate::mode::is_budgeted;

/// What a kernel reads: the operands, or the incoming gradient and the operands, and what functions give.
pub(super) type KernelReads<'a> = SmallVec<[&'a Tensor; 8]>;

/// What functions give, in their order, where that is known.
pub(super) type Results = SmallVec<[Option<Tensor>; 2]>;

/// The functions of which that is known.
fn calls_of(results: &Results) -> CallSet {
    (0..results.len()).filter(|&nr| results[nr].is_some()).collect()
}

/// What is known of a formula's functions before it is evaluated, and what is stored beside its value.
#[derive(Default)]
pub(super) struct KnownResults {
    hoisted: Results,
    /// what gradients read that are wanted
    read: CallSet,
    /// the same, if it is to be stored
    stored: Option<SavedResults>,
}

impl KnownResults {
    /// For a result of `n` elements, and the gradients of some operands.
    #[track_caller]
    pub(super) fn of(
        name: &'static str,
        formula: &dyn Derived,
        operands: &[&Tensor],
        n: usize,
        tracked: &dyn Fn(usize) -> bool,
    ) -> Result<KnownResults> {
        let mut known = KnownResults::default();
        if formula.calls() == 0 {
            return Ok(known);
        }
        known.hoisted = hoisted(name, formula, operands, n)?;
        let dtype = operands[0].dtype();
        let bytes = n.saturating_mul(dtype.size());
        let (is_small, is_dear) = (is_worth_saving(bytes), dtype == DType::F64 && bytes >= LEAST_SAVED);
        if (is_small || is_dear || !known.hoisted.is_empty())
            && !is_budgeted()
            && let Some(saved) = (formula as &dyn Named).saved_results(tracked)
        {
            known.read = saved.read;
            let is_stored = !calls_of(&known.hoisted).has_all(saved.read)
                && match is_only_value(formula, saved) {
                    true => is_small || is_dear,
                    false => is_small && is_stored_in_order(n, bytes, operands, &saved.without),
                };
            known.stored = is_stored.then_some(saved);
        }
        Ok(known)
    }
}

/// The value, summed onto a target if there is one, and what is saved of what functions give.
#[track_caller]
pub(super) fn computed(
    name: &'static str,
    formula: &dyn Derived,
    operands: &[&Tensor],
    known: KnownResults,
    target: Option<Target<'_>>,
    results: &mut Results,
) -> Result<Tensor> {
    let KnownResults { hoisted, read, stored } = known;
    let set = calls_of(&hoisted);
    let gives = stored.is_some_and(|stored| !is_only_value(formula, stored));
    let mut reads: KernelReads<'_> = operands.into();
    let giving = (gives || set != CallSet::NONE).then(|| {
        let calls = formula.names_of_calls();
        let given = (0..calls.len()).filter(|_| gives).map(Names::result);
        let names = given.fold(formula.names_knowing().0, Names::and_of).through(set, &calls);
        let results = hoisted.iter().enumerate().filter_map(|(nr, t)| Some((nr, t.as_ref()?)));
        formula.giving(place_results(&mut reads, (0, usize::MAX), names, &calls, results), gives)
    });
    let kernel = giving.as_deref().unwrap_or(formula.value());
    let mut made = SmallVec::new();
    let value = match &target {
        _ if gives => {
            if target.is_none() {
                kernel::expect_meant(name, operands)?;
            }
            made = kernel::evaluate_each(name, kernel, &reads)?;
            made.remove(0)
        }
        Some(target) if stored.is_none() => kernel::fold_to(name, kernel, &reads, target.clone())?,
        _ => kernel::evaluate(name, kernel, &reads)?,
    };
    if stored.is_some() || set.has_any(read) {
        let mut made = made.into_iter();
        for nr in 0..formula.calls() {
            let given = if set.has(nr) { hoisted[nr].clone() } else { made.next() };
            results.push(match stored {
                _ if !read.has(nr) => None,
                Some(stored) if stored.value == Some(nr) && !set.has(nr) => Some(value.clone()),
                _ => given,
            });
        }
    }
    match target {
        Some(target) if stored.is_some() => kernel::sum_onto(name, &value, target),
        _ => Ok(value),
    }
}

/// What those functions give that read few elements for the `n` of the result, as of `x * w.exp()` for a row `w`: computed for each element, that took two
/// to three times as long as operators.
#[track_caller]
fn hoisted(name: &'static str, formula: &dyn Derived, operands: &[&Tensor], n: usize) -> Result<Results> {
    let mut results = Results::new();
    let dtype = operands[0].dtype();
    // In an operation of several types a function of some operands has the type of all.
    if !operands.iter().any(|t| is_few(t.numel(), n)) || operands.iter().any(|t| t.dtype() != dtype) {
        return Ok(results);
    }
    let read = formula.names_of_calls();
    let behind: SmallVec<[Names; 4]> = read.iter().map(|names| names.through(CallSet::NONE, &read)).collect();
    for nr in 0..read.len() {
        let reads = |k: usize| behind[nr].has(k + 1);
        let read_operands = || (0..operands.len()).filter(|&k| reads(k)).map(|k| operands[k]);
        let shapes: PerOperand<&[usize]> = read_operands().map(Tensor::dims).collect();
        // What is computed lies in the order of its shape. If it is the largest of what a gradient reads, it tells the order of sums.
        if shapes.is_empty()
            || results.get(nr).is_some_and(Option::is_some)
            || !is_few(broadcast_shapes(&shapes)?.numel(), n)
            || read_operands().any(|t| kernel::lies_in_order(t) != Some(true))
        {
            continue;
        }
        // Those that read the same are computed together, and what they are made of. The other functions, and what is not read, are an operand
        // that is.
        let together = |other: &usize| behind[*other] == behind[nr];
        let made_of =
            (0..read.len()).rev().fold(Names::NONE, |all, nr| match together(&nr) || all.has_result(nr) {
                true => all.and_of(read[nr]).and_of(Names::result(nr)),
                false => all,
            });
        let other = read_operands().next().unwrap_or(operands[0]);
        let mut inputs: KernelReads<'_> =
            operands.iter().enumerate().map(|(k, t)| if reads(k) { *t } else { other }).collect();
        let (computed, others): (PerOperand<usize>, PerOperand<usize>) =
            (0..read.len()).partition(|&nr| made_of.has_result(nr));
        inputs.extend(others.iter().map(|_| other));
        let known = KnownInputs::behind(operands.len(), others.into_iter().collect());
        let made = kernel::evaluate_each(name, &*formula.giving(known, true), &inputs)?.into_iter().skip(1);
        results.resize(read.len(), None);
        computed
            .into_iter()
            .zip(made)
            .filter(|(nr, _)| together(nr))
            .for_each(|(nr, t)| results[nr] = Some(t));
    }
    Ok(results)
}

/// Puts what functions give among what a kernel reads, whose first operand has place `first`: instead of the operands that the function reads,
/// where nothing else does, so that these are not laid out, or behind all. One of `n` elements, which may tell the order of sums, replaces only what
/// lies as it does. Of 100,000 elements `x.sigmoid() * (w + b).tanh()` with columns, its sum and back took 0.82 of the time, where it was one operation.
pub(super) fn place_results<'a>(
    reads: &mut KernelReads<'a>,
    (first, n): (usize, usize),
    mut names: Names,
    calls: &[Names],
    results: impl Iterator<Item = (usize, &'a Tensor)>,
) -> KnownInputs {
    let mut known = KnownInputs::default();
    let operands = 1..=reads.len() - first;
    for (nr, t) in results {
        let lies_alike =
            |other: &Tensor| t.numel() < n || t.dims() == other.dims() && t.strides() == other.strides();
        let read = calls[nr].through(CallSet::NONE, calls);
        let mut at = None;
        for place in operands.clone().filter(|&place| read.has(place)) {
            let input = first + place - 1;
            if !names.has(place) && lies_alike(reads[input]) {
                names = names.and_of(Names::operand(place));
                reads[input] = t;
                at = at.or(Some(input));
            }
        }
        let at = at.unwrap_or_else(|| {
            reads.push(t);
            reads.len() - 1
        });
        known = known.and((nr, at));
    }
    known
}

/// Whether so many elements are few beside those of the result: else a function of them takes no longer computed where it is read. Of 3,000
/// elements `(x - m) * (v + eps).rsqrt()` and back would take 1.04 times as long, of 2,000 1.15.
pub(super) fn is_few(elements: usize, n: usize) -> bool {
    elements.saturating_mul(4) <= n && n >= LEAST_WITH_FEW
}

/// Elements of a result from which on some of its operands may be few.
pub(super) const LEAST_WITH_FEW: usize = 1 << 12;

/// Whether what the only function gives is the formula's value.
fn is_only_value(formula: &dyn Derived, results: SavedResults) -> bool {
    formula.calls() == 1 && results.value == Some(0)
}

/// Bytes from which on a result takes longer to be computed again than to be thought about.
const LEAST_SAVED: usize = 1 << 10;

/// Whether a result of so many bytes is read again from a cache, and worth it.
pub(super) fn is_worth_saving(bytes: usize) -> bool {
    bytes >= LEAST_SAVED && kernel::stays_in_cache(bytes)
}

/// Whether a result is worth being stored beside the value (of 300 numbers in `f64` products and sums of two functions, and back, take 1.04 to 1.15
/// of the time of operators, and 1.18 to 1.3 where they are computed again), and lies as the operands do that tell the order of sums, so
/// that these have the bits of others: the first of all for the value, and the first that gradients read without it, which are named.
fn is_stored_in_order(n: usize, bytes: usize, operands: &[&Tensor], read: &Names) -> bool {
    const LEAST: usize = 1 << 11;
    let lies_in_order = |is_read: &dyn Fn(usize) -> bool| {
        let leads = |k: usize| operands[k].numel() == n && kernel::lies_in_order(operands[k]) == Some(true);
        (0..operands.len()).any(|k| is_read(k) && leads(k))
    };
    bytes >= LEAST && lies_in_order(&|_| true) && lies_in_order(&|k| read.has(k + 1))
}

#[cfg(test)]
mod tests {
    use foldback_tensor::kernel::FloatKernel;

    use super::*;

    fn hoisted_of<F: kernel::Formula<3> + 'static>(f: crate::Fused<F, 3>, operands: [&Tensor; 3]) -> Results {
        let shapes = operands.map(Tensor::dims);
        let n = broadcast_shapes(&shapes).unwrap().numel();
        hoisted("t", &FloatKernel(f.formula), &operands, n).unwrap()
    }

    /// Told by the numbers of calls.
    #[test]
    fn functions_of_few_elements_are_hoisted() {
        let [x, row, column] = [&[100, 50][..], &[50], &[100, 1]].map(Tensor::ones);
        macro_rules! calls {
            ($operands:expr, $expected:expr; $($formula:tt)*) => {
                let found = calls_of(&hoisted_of(crate::fuse!($($formula)*), $operands));
                let expected: &[usize] = &$expected;
                assert_eq!(found, expected.iter().copied().collect(), "{}", stringify!($($formula)*));
            };
        }
        let all = [&x, &row, &column];
        calls!(all, [0]; |x, w, b| x * w.exp() + b);
        calls!(all, [0]; |x, m, v| (x - m) * (v + 1e-5).rsqrt());
        calls!(all, [0, 1]; |x, w, b| (x * w.sigmoid() + b.ln()).tanh());
        calls!(all, [1, 2]; |x, w, b| x.tanh() + w.exp().tanh() + b);
        calls!(all, []; |x, w, b| (x * w + b).tanh());
        // What several of them give together is as large as the result.
        calls!(all, [0]; |x, w, b| x * w.exp() + (w * b).exp());
        calls!(all, []; |x, w, b| x * w + b + R::lit(2.0).exp());
        // Not fewer elements than a quarter, and not of a result that is small itself.
        let few: Vec<Tensor> = [&[2000, 3][..], &[2000, 1], &[3]].map(Tensor::ones).into();
        calls!([&few[0], &few[1], &few[2]], [1]; |x, w, b| x * w.exp() + b.exp());
        let small: Vec<Tensor> = [&[50, 40][..], &[40], &[50, 1]].map(Tensor::ones).into();
        calls!([&small[0], &small[1], &small[2]], []; |x, w, b| x * w.exp() + b.exp());
        let across = Tensor::ones([50, 100]).t();
        calls!([&Tensor::ones([9, 100, 50]), &across, &row], [1]; |x, w, b| x * w.exp() + b.exp());
        let double = row.double();
        calls!([&x, &double, &column], []; |x, w, b| x * w.exp() + b);
    }

    /// A function of what another one gives of fewer operands.
    #[test]
    fn what_is_hoisted_may_be_made_of_other_results() {
        let [x, row, column] = [&[200, 30][..], &[30], &[200, 1]].map(|shape| Tensor::full(shape, 0.5));
        let f = crate::fuse!(|x, w, b| (w.abs() + 0.5).pow(w.tanh()) * (x + (w.exp() * 0.0 + b).exp()));
        let found = hoisted_of(f, [&x, &row, &column]);
        let [tanh, exp] = [row.tanh(), row.exp()];
        let all: Vec<Tensor> = found.into_iter().flatten().collect();
        assert_eq!(all, [tanh.clone(), Tensor::ones([30]).pow(&tanh).unwrap(), exp]);
        let f = crate::fuse!(|x, w, b| x * (w.exp() + b).tanh());
        let few = [Tensor::ones([20, 200, 30]), row.clone(), column.clone()];
        let found = hoisted_of(f, few.each_ref());
        assert_eq!(found[1].as_ref().unwrap(), &row.exp().add(&column).unwrap().tanh());
    }

    #[test]
    fn what_is_hoisted_has_the_shape_of_what_it_reads() {
        let [x, row, column] = [&[30, 10, 20][..], &[20], &[10, 1]].map(Tensor::ones);
        let f = crate::fuse!(|x, w, b| x * w.exp() * (w + b).tanh() * b.sqrt());
        let found = hoisted_of(f, [&x, &row, &column]);
        let shapes: Vec<_> = found.iter().map(|t| t.as_ref().unwrap().dims()).collect();
        assert_eq!(shapes, [&[20][..], &[10, 20], &[10, 1]]);
        assert_eq!(found[1].as_ref().unwrap(), &Tensor::full([10, 20], 2.0).tanh());
    }
}
