//! The shape that a task is done over, and what expands to it.

use super::{Read, Space};
use crate::create::checked_len;
use crate::dtype::DType;
use crate::error::Result;
use crate::meant::Meant;
use crate::ops::warning::{self, Lists};
use crate::shape::{Shape, broadcast_two, expands_to, expect_expansion};

impl<'a> Read<'a> {
    pub(crate) fn shape(&self) -> &'a [usize] {
        match self {
            Read::Tensor(t, _) => t.dims(),
            Read::Number(..) => &[],
        }
    }

    /// What a warning looks at.
    pub(crate) fn operand(&self) -> warning::Operand<'a> {
        (self.shape(), self.meant())
    }

    /// The axes of size 1 that are meant.
    pub(crate) fn meant(&self) -> Meant {
        match self {
            Read::Tensor(t, _) => t.meant(),
            Read::Number(..) => Meant::NONE,
        }
    }
}

impl<'a> Space<'a> {
    /// The shape, which is put into `common` if it is to be found.
    #[inline]
    #[track_caller]
    pub(super) fn shape<'s>(
        self,
        op: &'static str,
        reads: &[Read<'_>],
        common: &'s mut Option<Shape>,
    ) -> Result<&'s Shape>
    where
        'a: 's,
    {
        match self {
            Space::Of(shape) => Ok(shape),
            Space::Common => Ok(common.insert(common_shape(op, reads, None)?)),
            Space::Asked(lists) => Ok(common.insert(common_shape(op, reads, Some(lists))?)),
        }
    }
}

/// The common shape of what is read; `asked` if a user has brought it together, see [`Space::Asked`].
#[track_caller]
pub(crate) fn common_shape(op: &'static str, reads: &[Read<'_>], mut asked: Option<Lists>) -> Result<Shape> {
    let mut shape = reads.first().map_or_else(Shape::scalar, |r| r.shape().into());
    for r in reads.iter().skip(1) {
        // A single number without axes changes no shape.
        if !r.shape().is_empty() && r.shape() != &shape[..] {
            let next = broadcast_two(op, &shape, r.shape())?;
            if let Some(lists) = asked.take() {
                warning::check(op, lists, || reads.iter().map(Read::operand).collect())?;
            }
            // Whoever makes a tensor of it asks again for its own type.
            checked_len(op, &next, DType::Bool)?;
            shape = next;
        }
    }
    Ok(shape)
}

/// Refuses what would need a destination to grow.
pub(crate) fn expect_expands(op: &'static str, from: &[usize], to: &[usize]) -> Result<()> {
    if expands_to(from, to) {
        return Ok(());
    }
    if from.len() <= to.len()
        && from.iter().rev().zip(to.iter().rev()).any(|(&f, &t)| f != t && f != 1 && t != 1)
    {
        return Err(broadcast_two(op, to, from).expect_err("a pair of sizes differs and neither is 1"));
    }
    // The destination is what would have to expand.
    expect_expansion(op, "", &from.into(), &to.into())
}
