//! Places in flat images, for layers that pick elements out of them or put elements into them.

use foldback_graph::Var;
use foldback_tensor::{Here, Tensor, refuse};

use crate::error::{NnFacts, Result};

/// The places in a flat image, this wide, where rows and columns meet: `[a, b]` rows and `[c, d]` columns give `[a, c, b, d]`.
#[track_caller]
pub(super) fn crossings(rows: &Tensor, columns: &Tensor, width: usize) -> Result<Tensor> {
    let rows = rows.mul(width as i64)?.unsqueeze(1)?.unsqueeze(3)?;
    rows.add(columns.unsqueeze(0)?.unsqueeze(2)?)
}

/// The images with their last `axes` axes as one.
#[track_caller]
pub(super) fn flat(x: &Var, axes: usize) -> Result<Var> {
    x.flatten(-(axes as isize)..)
}

/// Where the largest element lies along the last axis: the first among equals, or the last NaN, as in PyTorch's windows.
#[track_caller]
pub(super) fn first_of_largest(x: &Tensor) -> Result<Tensor> {
    let (_, first) = x.max_with_indices(-1)?;
    let nan = x.isnan();
    if !nan.any(..)?.item_as::<bool>()? {
        return Ok(first);
    }
    let count = x.shape().last().copied().unwrap_or(1);
    let last = nan.long().mul(Tensor::try_arange(1..count as i64 + 1)?)?.max_with_indices(-1)?.1;
    nan.any(-1)?.where_cond(last, first)
}

/// Refuses an input that does not have so many axes for its images, one for channels, and perhaps one for the batch; or one of images
/// without elements.
#[track_caller]
pub(super) fn expect_images(op: &'static str, x: &Var, axes: usize) -> Result<()> {
    let mut expected = if axes == 1 { "[n, c, l] or [c, l]" } else { "[n, c, h, w] or [c, h, w]" };
    if x.rank() == axes + 1 || x.rank() == axes + 2 {
        if !x.dims()[1..].contains(&0) {
            return Ok(());
        }
        expected = if axes == 1 {
            "[n, c, l] where n alone may be 0"
        } else {
            "[n, c, h, w] where n alone may be 0"
        };
    }
    let (expected, found) = (expected.into(), x.shape().clone());
    refuse(NnFacts::InputShape { op, name: "an input", expected, found }).here()
}

/// Refuses a setting unless it holds.
pub(super) fn check(
    holds: bool,
    op: &'static str,
    name: &'static str,
    value: usize,
    expected: &'static str,
) -> Result<()> {
    if holds {
        return Ok(());
    }
    refuse(NnFacts::Parameter { op, name, value: value as f64, expected })
}
