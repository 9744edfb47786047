//! Functions of operands that the result repeats: computed once for each of their elements, and not for each of the result.

use foldback_tensor::kernel::{self, CallSet, KnownInputs};
use foldback_tensor::{Tensor, broadcast_shapes};
use smallvec::SmallVec;

use super::derived::{Derived, PerOperand};
use super::names::Names;
use crate::error::Result;

/// What functions give, in their order, where that is known.
pub(super) type Results = SmallVec<[Option<Tensor>; 2]>;

/// The functions of which that is known.
pub(super) fn calls_of(results: &Results) -> CallSet {
    (0..results.len()).filter(|&nr| results[nr].is_some()).collect()
}

/// What those functions give that read few elements for the `n` of the result, as of `x * w.exp()` for a row `w`: computed for each element, that took two
/// to three times as long as operators.
#[track_caller]
pub(super) fn hoisted(
    name: &'static str,
    formula: &dyn Derived,
    operands: &[&Tensor],
    n: usize,
) -> Result<Results> {
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
        let shapes: PerOperand<&[usize]> =
            (0..operands.len()).filter(|&k| reads(k)).map(|k| operands[k].dims()).collect();
        if shapes.is_empty()
            || results.get(nr).is_some_and(Option::is_some)
            || !is_few(broadcast_shapes(&shapes)?.numel(), n)
        {
            continue;
        }
        // Those that read the same are computed together. What is not wanted reads an operand in the place of the others, and of their functions.
        let together = |other: &usize| behind[*other] == behind[nr];
        let other = (0..operands.len()).find(|&k| reads(k)).map_or(operands[0], |k| operands[k]);
        let mut inputs: SmallVec<[&Tensor; 8]> =
            operands.iter().enumerate().map(|(k, t)| if reads(k) { *t } else { other }).collect();
        let unwanted = (0..read.len()).filter(|nr| !together(nr));
        unwanted.clone().for_each(|_| inputs.push(other));
        let known = KnownInputs::behind(operands.len(), unwanted.collect());
        let kernel = formula.giving(known, true);
        let made = kernel::evaluate_each(name, &*kernel, &inputs)?.into_iter().skip(1);
        results.resize(read.len(), None);
        (0..read.len()).filter(together).zip(made).for_each(|(nr, t)| results[nr] = Some(t));
    }
    Ok(results)
}

/// Puts what functions give among what a kernel reads, whose first operand has place `first`: instead of the operand that the function reads,
/// where nothing else does, or behind all. One of `n` elements, which may tell the order of sums, replaces only what lies as it does.
pub(super) fn place_results<'a>(
    reads: &mut SmallVec<[&'a Tensor; 8]>,
    (first, n): (usize, usize),
    mut names: Names,
    calls: &[Names],
    results: impl Iterator<Item = (usize, &'a Tensor)>,
) -> KnownInputs {
    let mut known = KnownInputs::default();
    for (nr, t) in results {
        let lies_alike =
            |other: &Tensor| t.numel() < n || t.dims() == other.dims() && t.strides() == other.strides();
        let operand = calls[nr].through(CallSet::NONE, calls).only();
        let unread = operand.filter(|&place| !names.has(place) && lies_alike(reads[first + place - 1]));
        let at = match unread {
            Some(place) => {
                names = names.and_of(Names::operand(place));
                reads[first + place - 1] = t;
                first + place - 1
            }
            None => {
                reads.push(t);
                reads.len() - 1
            }
        };
        known = known.and((nr, at));
    }
    known
}

/// Whether so many elements are few beside those of the result: else a function of them takes no longer computed where it is read.
fn is_few(elements: usize, n: usize) -> bool {
    const LEAST: usize = 1 << 10;
    elements.saturating_mul(4) <= n && n >= LEAST
}
