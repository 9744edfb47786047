//! What of a formula is recorded by operators: a function of few elements, one or two operations of columns or of few elements, or an
//! operation of what several functions give.

use foldback_tensor::kernel::CallSet;
use foldback_tensor::{
    BroadcastWarning, BroadcastWarningGuard, Tensor, broadcast_shapes, broadcast_warning, kernel,
};

use super::Reduced;
use super::derived::{Composed, Derived, PerOperand};
use super::names::Names;
use super::results::{is_few, is_worth_saving};
use crate::error::Result;
use crate::mode::{LineGuard, location};
use crate::node::Var;
use crate::origins::{is_recording, with_origins};
use crate::var::ValueRef;

/// The operands that a formula's only function reads, if nothing else reads them, and it is worth an operation of its own: they are few elements, or
/// its only operand is as large as the result, others repeat, and what it gives would be kept. Of 100,000 elements `x.tanh() * w`, its sum and
/// back take 0.85 to 0.95 of the time so.
pub(super) fn operands_of_function(
    formula: &dyn Composed,
    operands: &[&Var],
    records: bool,
) -> Option<Names> {
    const LEAST: usize = 1 << 15;
    let (place, dtype) = (formula.of_function()?, operands[0].dtype());
    if operands.iter().all(|v| v.dims() == operands[0].dims()) {
        return None;
    }
    let shapes: PerOperand<&[usize]> = operands.iter().map(|v| v.dims()).collect();
    let n = broadcast_shapes(&shapes).ok()?.numel();
    let are_few = is_few(operands[place].numel(), n);
    let is_kept = || records && n >= LEAST && is_worth_saving(n.saturating_mul(dtype.size()));
    // Integers and `bool` have operators of their own.
    if !are_few && !is_kept() || !dtype.is_float() || operands.iter().any(|v| v.dtype() != dtype) {
        return None;
    }
    let [read] = formula.names_of_calls()[..] else { return None };
    let value = formula.names_knowing().0;
    // What is not chosen has no influence, however steep it is: in two steps, infinity would be multiplied by 0.
    let is_composed = read.has(place + 1)
        && !value.is_chosen()
        && !(0..operands.len()).any(|k| read.has(k + 1) && value.has(k + 1));
    let is_worth_it = || match are_few {
        true => {
            let read = (0..operands.len()).filter(|&k| read.has(k + 1)).map(|k| shapes[k]);
            broadcast_shapes(&read.collect::<PerOperand<_>>()).is_ok_and(|shape| is_few(shape.numel(), n))
        }
        false => {
            read.is_function_of(place + 1)
                && operands[place].numel() == n
                && operands.iter().any(|v| v.numel() < n)
                && kernel::lies_in_order(&operands[place].value_ref()) == Some(true)
        }
    };
    (is_composed && is_worth_it()).then_some(read)
}

/// What the only function of a formula gives of these operands.
#[track_caller]
#[inline(never)]
pub(super) fn given_of(
    name: &'static str,
    formula: &dyn Composed,
    operands: &[&Var],
    read: Names,
) -> Result<Var> {
    let _meant = expect_operands_meant(name, operands)?;
    let _line = LineGuard::set(location());
    formula.given(operands, read)
}

/// Whether operators take less time for a formula of up to three operations, for one of what several functions give, or for one of which a single operation
/// is of many elements.
///
/// Of few elements they do if it is one operation, or a function and another one: a node that derives its gradients costs more than two that know
/// them, and what it saves in passes is less. Of 300 to 3,000 elements `tanh(x + b)`, its sum and back take 0.89 to 0.94 of the time, `x * w.exp()` 0.78 to 1,
/// `x * w` 0.8 to 1.05. So they do if it has up to three operations, is recorded without a name (`may_be_small`) and not summed, which would be one operation of all: of 4 to 3,000 elements
/// `x * y + z`, `tanh(x * y + z)` and back take 1.05 to 1.15 of the time of operators, where they took 1.2 to 1.45.
///
/// So they do if all operations but one are of few elements beside the result's, as in `x / (w.abs() + 1.0)` for a row `w`, which were computed for each element: of
/// 16,000 to 200,000 elements that takes 0.5 to 0.75 of the time, and back 0.5 to 0.8; summed, too, up to a million elements: of 200,000 to
/// 1,300,000 it takes 0.6 to 1.1 of the time, and back 0.65 to 1, but of three million 1.8 to 2, and back 1.5.
///
/// So they do if it is one operation of what functions of operands of their own give, of which some repeat: the gradient of what a function gives is summed
/// before it is multiplied by the function's slope, and what they give is stored anyway. Of 300 to 100,000 elements `x.sigmoid() * (w + b).tanh()`, its sum
/// and back take 0.6 to 0.9 of the time, `x.sigmoid() * w.exp()` 0.7 to 1.05.
///
/// They take a column as a number for each row, which a fused operation lays out: columns of rows of 100, and what functions give of them, take
/// 0.7 to 0.9 of the time. Of more elements what is between two operations, or is only summed, takes memory: between two it is worth it where
/// rows are short, as long as it stays in the cache (columns of rows of 100, summed and back, take 1.3 to 1.9 of the time of operators else).
pub(super) fn are_operators_faster(
    formula: &dyn Derived,
    operands: &[&Var],
    is_reduced: bool,
    may_be_small: bool,
) -> bool {
    const FEW: usize = 1 << 13;
    const MANY: usize = 200_000;
    const MANY_OF_FEW: usize = 1 << 20;
    const SHORT_ROW: usize = 256;
    if !formula.may_be_operators() {
        return false;
    }
    let n = elements_of(operands);
    let is_column = |v: &&Var| v.dims().last() == Some(&1) && v.numel() > 1;
    let may_be_of_several =
        formula.calls() > 1 && n < most_of_several(is_reduced) && operands.iter().any(|v| v.numel() < n);
    let some_are_few = are_together_few(operands, n);
    if n >= FEW && !may_be_of_several && !some_are_few && !operands.iter().any(is_column) {
        return false;
    }
    let value = formula.value_names(&|k| some_are_few && is_few(operands[k].numel(), n));
    let (count, dtype) = (value.operations(), operands[0].dtype());
    // A budget decides nothing here: it changes no bits.
    let is_of_several = may_be_of_several && count > 2 && is_of_functions(formula, operands.len());
    let is_one_of_few = some_are_few && count > 1 && value.operations_of_many() == 1;
    let is_small = may_be_small && n < FEW && count <= 3;
    // What is not chosen has no influence, see `operands_of_function`.
    if count == 0
        || count > 2 && !is_of_several && !is_one_of_few && !is_small
        || count > 1 && value.is_chosen()
    {
        return false;
    }
    let is_worth_it = if is_one_of_few {
        n < MANY_OF_FEW || !is_reduced
    } else if n < FEW || is_of_several {
        is_small || count != 2 || formula.calls() == 1
    } else if operands.iter().any(is_column) {
        let is_short = operands.iter().all(|v| v.dims().last().is_none_or(|&cols| cols < SHORT_ROW));
        let stays = || kernel::stays_in_cache(n.saturating_mul(dtype.size()));
        n < MANY || !is_reduced && (count == 1 || is_short && stays())
    } else {
        false
    };
    is_worth_it
        && dtype.is_float()
        && operands.iter().all(|v| v.dtype() == dtype)
        && ((0..operands.len()).all(|k| value.has(k + 1)) || is_of_those_that_it_reads(value, operands))
}

/// Whether there are operands of few elements, and what they broadcast to has few, too.
fn are_together_few(operands: &[&Var], n: usize) -> bool {
    let few: PerOperand<&Var> = operands.iter().copied().filter(|v| is_few(v.numel(), n)).collect();
    !few.is_empty() && is_few(elements_of(&few), n)
}

/// Elements up to which an operation of what several functions give is recorded by operators.
fn most_of_several(is_reduced: bool) -> usize {
    if is_reduced { 1 << 19 } else { 1 << 15 }
}

/// Whether a formula is one operation of what functions give that share none of so many operands.
fn is_of_functions(formula: &dyn Derived, operands: usize) -> bool {
    let rest = formula.names_knowing().0;
    if rest.operations() != 1 {
        return false;
    }
    let read = formula.names_of_calls();
    // What is called within another function is a part of that.
    let outermost = (0..read.len()).filter(|&nr| rest.has_result(nr));
    let mut all = rest;
    outermost.map(|nr| read[nr].through(CallSet::NONE, &read)).all(|reads| {
        let is_apart = !(0..operands).any(|k| reads.has(k + 1) && all.has(k + 1));
        all = all.and_of(reads);
        is_apart
    })
}

/// Elements of what operands broadcast to, if they do.
pub(super) fn elements_of(operands: &[&Var]) -> usize {
    let mut shapes = PerOperand::<&[usize]>::new();
    operands.iter().for_each(|v| shapes.push(v.dims()));
    let rank = shapes.iter().map(|dims| dims.len()).max().unwrap_or(0);
    let size_of =
        |dims: &[usize], axis: usize| (axis + dims.len()).checked_sub(rank).map_or(1, |own| dims[own]);
    let size = |axis| shapes.iter().map(|dims| size_of(dims, axis)).find(|&size| size != 1).unwrap_or(1);
    (0..rank).map(size).fold(1, usize::saturating_mul)
}

/// Whether operands that a formula does not read change neither its shape nor whether it is recorded.
#[cold]
fn is_of_those_that_it_reads(value: Names, operands: &[&Var]) -> bool {
    let facts = |is_counted: &dyn Fn(usize) -> bool| {
        let counted = || (0..operands.len()).filter(|&k| is_counted(k)).map(|k| operands[k]);
        let shapes: PerOperand<&[usize]> = counted().map(Var::dims).collect();
        Some((broadcast_shapes(&shapes).ok()?, counted().any(Var::requires_grad)))
    };
    let all = facts(&|_| true);
    all.is_some() && all == facts(&|k| value.has(k + 1))
}

/// The result by operators. None if there is an error, which then is to name the formula.
#[track_caller]
#[inline(never)]
pub(super) fn whole_of(
    name: &'static str,
    formula: &dyn Derived,
    operands: &[&Var],
    reduce: Option<&Reduced>,
) -> Option<Var> {
    let _meant = expect_operands_meant(name, operands).ok()?;
    let _line = LineGuard::set(location());
    let value = formula.by_operators(operands).ok()?;
    match reduce {
        None => Some(value),
        Some(Reduced { over, mean: false }) => value.sum(over).ok(),
        Some(Reduced { over, mean: true }) => value.mean(over).ok(),
    }
}

/// Refuses or warns of broadcasting of these operands that was not meant, as it is asked for. As long as the guard lives, operations do not look again.
#[track_caller]
fn expect_operands_meant(name: &'static str, operands: &[&Var]) -> Result<Option<BroadcastWarningGuard>> {
    if !kernel::are_broadcasts_checked() {
        return Ok(None);
    }
    let values: PerOperand<ValueRef<'_>> = operands.iter().map(|v| v.value_ref()).collect();
    let values: PerOperand<&Tensor> = values.iter().map(|v| &**v).collect();
    kernel::expect_meant(name, &values).map_err(|e| with_origins(e, operands))?;
    is_recording(operands);
    Ok(Some(broadcast_warning(BroadcastWarning::Off)))
}
