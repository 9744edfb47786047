//! Tensors of indices: what is refused of them before anything is read or written.
//!
//! Indices are data, so they are scanned as a whole.

use std::sync::atomic::{AtomicBool, Ordering};

use super::index::own;
use crate::create::expect_room;
use crate::dtype::DType;
use crate::error::{Result, TensorFacts, refuse};
use crate::kernels::outside_or_negative;
use crate::shape::Shape;
use crate::tensor::Tensor;
use crate::threads::{GRAIN, split_work};

/// A tensor of indices, `I64`: what picks and places elements. A list of integers is one with one axis.
///
/// ```
/// use foldback_tensor::tensor;
/// let (x, rows) = (tensor![[1.0], [2.0]], tensor![1, 1; i64]);
/// assert_eq!(x.index_select(0, &rows)?, x.index_select(0, [1, 1])?);
/// assert_eq!(x.index_select(0, rows)?, x.index_select(0, vec![1usize, 1])?);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Indices(pub(crate) Tensor);

impl From<&Tensor> for Indices {
    fn from(t: &Tensor) -> Indices {
        Indices(t.clone())
    }
}
impl From<Tensor> for Indices {
    fn from(t: Tensor) -> Indices {
        Indices(t)
    }
}
macro_rules! lists {
    ($($t:ty),*) => {$(
        impl From<&[$t]> for Indices {
            fn from(list: &[$t]) -> Indices {
                // No axis is as long as what does not fit.
                let list = list.iter().map(|&i| i64::try_from(i).unwrap_or(i64::MAX));
                Indices(Tensor::from(list.collect::<Vec<i64>>()))
            }
        }
        impl<const N: usize> From<[$t; N]> for Indices {
            fn from(list: [$t; N]) -> Indices {
                Indices::from(&list[..])
            }
        }
        impl From<Vec<$t>> for Indices {
            fn from(list: Vec<$t>) -> Indices {
                Indices::from(&list[..])
            }
        }
    )*};
}
lists!(i32, i64, isize, usize);
impl From<&Indices> for Indices {
    fn from(i: &Indices) -> Indices {
        i.clone()
    }
}
impl std::ops::Deref for Indices {
    type Target = Tensor;
    fn deref(&self) -> &Tensor {
        &self.0
    }
}

/// The indices counted from the front.
///
/// # Errors
/// `IndexOutOfRange` for one outside `-size .. size`.
pub(crate) fn wrapped(op: &'static str, index: &Tensor, axis: usize, size: usize) -> Result<Tensor> {
    if scan_from(op, index, axis, size, -(size as i64))? {
        return index.lt(0)?.where_cond(index.add(size)?, index);
    }
    Ok(index.clone())
}

/// The shape, where a single number counts as `[1]`.
pub(super) fn ranked(t: &Tensor) -> Shape {
    if t.rank() == 0 { Shape::from(1) } else { t.shape().clone() }
}

/// Refuses an index that is not a list of `i64` or a single one.
pub(super) fn expect_list(op: &'static str, index: &Tensor) -> Result<()> {
    index.expect_dtype(op, "an index", DType::I64)?;
    if index.rank() > 1 {
        refuse(TensorFacts::Rank { op, operand: "index", expected: "at most 1", found: index.rank() })
    } else {
        Ok(())
    }
}

/// Refuses an index of another rank than `t`, or longer on an axis other than `free`.
pub(super) fn expect_within(op: &'static str, index: &Tensor, t: &Tensor, free: Option<usize>) -> Result<()> {
    let (own, mut expected) = (ranked(index), ranked(t));
    let fits =
        own.rank() == expected.rank() && (0..own.rank()).all(|d| Some(d) == free || own[d] <= expected[d]);
    if fits {
        return Ok(());
    }
    let Some(free) = free else {
        // The index goes along no axis: `t` is what is taken at each of its places.
        let (expected, found) = (own, t.shape().clone());
        return refuse(TensorFacts::ShapeMismatch { op, operand: "source", expected, found });
    };
    if own.rank() == expected.rank() {
        expected[free] = own[free];
    } else if own.rank() + 1 == expected.rank() {
        // The axis that is missing is most likely the one that the index goes along: a place for each row.
        let mut one_each = own.to_vec();
        one_each.insert(free, 1);
        if one_each.iter().zip(&expected[..]).enumerate().all(|(d, (n, most))| d == free || n <= most) {
            expected = one_each[..].into();
        }
    }
    refuse(TensorFacts::ShapeMismatch { op, operand: "index", expected, found: index.shape().clone() })
}

/// Refuses an index of more places than there is room for in a type, before they are read: where they share memory, that
/// would take ages.
pub(super) fn expect_places(op: &'static str, index: &Tensor, dtype: DType) -> Result<()> {
    let strides = index.strides();
    let axes = index.dims().iter().zip(strides.iter()).filter(|&(_, &stride)| stride != 0);
    let places = Shape(axes.map(|(&size, _)| size).collect());
    expect_room(op, &places, dtype)
        .map_err(|_| TensorFacts::TooLarge { op, shape: index.shape().clone() }.into())
}

/// Refuses indices outside `0 .. size`.
pub(super) fn scan(op: &'static str, index: &Tensor, axis: usize, size: usize) -> Result<()> {
    scan_from(op, index, axis, size, 0).map(drop)
}

/// Refuses indices outside `first .. size`; says whether some are negative.
fn scan_from(op: &'static str, index: &Tensor, axis: usize, size: usize, first: i64) -> Result<bool> {
    if index.numel() == 0 {
        return Ok(false);
    }
    if index.is_contiguous()
        && let Some(negative) = all_within(own(index), first, size as i64)
    {
        return Ok(negative);
    }
    let (least, most) = (index.amin(..)?.item_as::<i64>()?, index.amax(..)?.item_as::<i64>()?);
    for i in [least, most] {
        if i < first || i >= size as i64 {
            return refuse(TensorFacts::IndexOutOfRange { op, index: i, axis, size });
        }
    }
    Ok(least < 0)
}

/// Whether some indices are negative, if all of them lie in `first .. size`.
fn all_within(index: &[i64], first: i64, size: i64) -> Option<bool> {
    let found = [false, false].map(AtomicBool::new);
    split_work(index.len(), GRAIN, (), &|(), _| ((), ()), &|start, len, ()| {
        let here = outside_or_negative(&index[start..start + len], first, size);
        found.iter().zip(here).for_each(|(found, here)| _ = found.fetch_or(here, Ordering::Relaxed));
    });
    let [outside, negative] = found.map(AtomicBool::into_inner);
    (!outside).then_some(negative)
}

#[cfg(test)]
mod tests {
    use super::all_within;

    #[test]
    fn what_lies_outside_is_found_wherever_it_stands() {
        for first in [0, -5] {
            let inside: Vec<i64> = (0..100_000).map(|i| i % 5 + if i % 7 == 3 { first } else { 0 }).collect();
            assert_eq!(all_within(&inside, first, 5), Some(first < 0));
            for at in [0, 1, 40_000, 99_999] {
                for outside in [5, first - 1, i64::MAX, i64::MIN] {
                    let mut index = inside.clone();
                    index[at] = outside;
                    assert_eq!(all_within(&index, first, 5), None, "{outside} at {at}");
                }
            }
        }
    }
}
