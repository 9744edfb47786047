//! Which axes of size 1 somebody made on purpose: what tells a broadcast that was meant from one that nobody meant.
//!
//! Note [Axes that are meant]
//! An axis is meant where the program says so: `unsqueeze`, `keep`, a 1 written in `reshape`, `view` or `expand`. Views carry
//! it with the axis, and so do results that have the axis from an operand: pointwise ones, casts, copies, folds that keep the axis, rows and
//! columns of products. Sizes that came with the data, and those that follow from -1 or from another tensor's shape, are not meant.
//! An axis that a reduction kept is known from those that were written: it goes with what was reduced, not with what lacks an axis.

use std::ops::BitOr;

use crate::shape::{Dims, Shape};
use crate::task::Read;
use crate::tensor::Tensor;

/// Two bits for each axis, counted from the last one, as shapes are aligned: [`KEPT`] and [`WRITTEN`]. Set for axes of size 1 only.
/// A whole word, see Note [Whole words].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meant(u64);

/// By a reduction that keeps its axes.
const KEPT: u64 = 0b01;
/// By `unsqueeze`, or by a 1 in a shape.
const WRITTEN: u64 = 0b10;
const EITHER: u64 = KEPT | WRITTEN;

/// Axes that have their bits; all others count as written.
const AXES: usize = 16;

impl Meant {
    pub(crate) const NONE: Meant = Meant(0);

    /// The axes of a tensor of this rank, counted from the front, with these bits.
    fn by_axis(rank: usize, bits: impl Fn(usize) -> u64) -> Meant {
        let placed = |back: usize| bits(rank - 1 - back) << (2 * back);
        Meant((0..rank.min(AXES)).map(placed).fold(0, BitOr::bitor))
    }

    /// The axes of a tensor of this rank, counted from the front, that somebody wrote.
    pub(crate) fn written(rank: usize, is: impl Fn(usize) -> bool) -> Meant {
        Meant::by_axis(rank, |axis| if is(axis) { WRITTEN } else { 0 })
    }

    /// The axes of a tensor of this rank, counted from the front, that a reduction kept.
    pub(crate) fn kept(rank: usize, is: impl Fn(usize) -> bool) -> Meant {
        Meant::by_axis(rank, |axis| if is(axis) { KEPT } else { 0 })
    }

    /// The bits of the axis with so many axes behind it.
    fn bits(self, back: usize) -> u64 {
        if back < AXES { self.0 >> (2 * back) & EITHER } else { WRITTEN }
    }

    /// The axes that are meant in anything that is read.
    #[inline]
    pub(crate) fn all_of(reads: &[Read<'_>]) -> Meant {
        reads.iter().fold(Meant::NONE, |all, read| all | read.meant())
    }

    /// The same for a result of this shape, to which a tensor of one element gives no axes.
    pub(crate) fn carried(reads: &[Read<'_>], shape: &Shape) -> Meant {
        if Meant::all_of(reads).is_none() {
            return Meant::NONE;
        }
        let has_axes = |read: &&Read<'_>| shape.numel() == 1 || read.shape().iter().any(|&size| size != 1);
        reads.iter().filter(has_axes).fold(Meant::NONE, |all, read| all | read.meant()).within(shape)
    }

    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether the axis of size 1 with so many axes behind it is meant.
    pub(crate) fn has(self, back: usize) -> bool {
        self.bits(back) != 0
    }

    /// Whether it was written, not only kept.
    pub(crate) fn has_written(self, back: usize) -> bool {
        self.bits(back) & WRITTEN != 0
    }

    /// Those that have size 1 in this shape, too.
    pub(crate) fn within(self, shape: &Shape) -> Meant {
        if self.is_none() {
            return self;
        }
        self & Meant::by_axis(shape.rank(), |axis| if shape[axis] == 1 { EITHER } else { 0 })
    }

    /// Those of a tensor whose axes are these ones of a tensor of this rank, counted from the front.
    pub(crate) fn reordered(self, rank: usize, axes: &[usize]) -> Meant {
        if self.is_none() {
            return self;
        }
        Meant::by_axis(axes.len(), |axis| self.bits(rank - 1 - axes[axis]))
    }

    /// Those of a tensor of this rank with two axes, counted from the front, exchanged.
    #[inline]
    pub(crate) fn swapped(self, rank: usize, a: usize, b: usize) -> Meant {
        if self.is_none() {
            return self;
        }
        let other = |axis| {
            if axis == a {
                b
            } else if axis == b {
                a
            } else {
                axis
            }
        };
        Meant::by_axis(rank, |axis| self.bits(rank - 1 - other(axis)))
    }

    /// Those of a tensor with one more axis, which is written, with so many axes behind it.
    pub(crate) fn inserted(self, back: usize) -> Meant {
        if back >= AXES {
            return self;
        }
        let behind = (1u64 << (2 * back)) - 1;
        let with = (self.0 & behind) | (WRITTEN << (2 * back)) | ((self.0 & !behind) << 2);
        Meant(with & ((1 << (2 * AXES)) - 1))
    }

    /// Those of a tensor without the axis that has so many axes behind it.
    pub(crate) fn removed(self, back: usize) -> Meant {
        if back >= AXES {
            return self;
        }
        let behind = (1u64 << (2 * back)) - 1;
        Meant((self.0 & behind) | ((self.0 >> 2) & !behind))
    }

    /// Those of the axes in front of the last ones.
    pub(crate) fn without_last(self, axes: usize) -> Meant {
        Meant(self.0.checked_shr(2 * axes as u32).unwrap_or(0))
    }

    /// Those of a fold that keeps these axes, with all axes or without those that it folds; the latter are meant if they stay.
    pub(crate) fn folded(self, kept: &[bool], rank: usize) -> Meant {
        if rank == kept.len() {
            return self | Meant::kept(rank, |axis| !kept[axis]);
        }
        let axes: Dims<usize> = (0..kept.len()).filter(|&axis| kept[axis]).collect();
        self.reordered(kept.len(), &axes)
    }

    /// Those of a product whose operands have these: the rows of the left one, the columns of the right one, the batches of both.
    pub(crate) fn of_product(a: Meant, b: Meant, shape: &Shape) -> Meant {
        const COLUMNS: u64 = EITHER;
        const ROWS: u64 = EITHER << 2;
        Meant((a.0 & !COLUMNS) | (b.0 & !ROWS)).within(shape)
    }
}

impl Tensor {
    /// The axes of size 1 that were made on purpose.
    #[inline]
    pub(crate) fn meant(&self) -> Meant {
        self.layout.meant
    }

    /// With these axes of size 1 made on purpose.
    #[inline]
    pub(crate) fn with_meant(mut self, meant: Meant) -> Tensor {
        self.set_meant(meant);
        self
    }

    #[inline]
    pub(crate) fn set_meant(&mut self, meant: Meant) {
        self.layout.meant = meant;
    }
}

impl BitOr for Meant {
    type Output = Meant;
    #[inline]
    fn bitor(self, other: Meant) -> Meant {
        Meant(self.0 | other.0)
    }
}

impl std::ops::BitAnd for Meant {
    type Output = Meant;
    fn bitand(self, other: Meant) -> Meant {
        Meant(self.0 & other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{keep, s, tensor};

    /// The axes that are meant, counted from the front.
    fn meant(t: &Tensor) -> Vec<usize> {
        (0..t.rank()).filter(|&axis| t.meant().has(t.rank() - 1 - axis)).collect()
    }

    /// `[2, 1, 3, 1]`, of which the first 1 was made on purpose and the second came with the data.
    fn made() -> Tensor {
        Tensor::zeros([2, 3, 1]).unsqueeze(1).unwrap()
    }

    #[test]
    fn axes_are_meant_where_a_program_says_so() {
        let row = tensor![1.0, 2.0, 3.0];
        for (t, axes) in [
            (row.unsqueeze(0), vec![0]),
            (row.unsqueeze(-1), vec![1]),
            (row.reshape([3, 1]), vec![1]),
            (row.view((1, -1, 1)), vec![0, 2]),
            (row.expand([1, 2, 3]), vec![0]),
            (row.sum(keep(0)), vec![0]),
            (row.sum_to_size([1]), vec![0]),
            (Tensor::zeros([3, 2]).mean(keep(1)), vec![1]),
            (Tensor::zeros([3, 2]).amax(keep(0)), vec![0]),
            (Tensor::zeros([3, 2]).max_with_indices(keep(1)).map(|m| m.0), vec![1]),
            (Tensor::zeros([3, 2]).max_with_indices(keep(1)).map(|m| m.1), vec![1]),
            (Tensor::zeros([3, 2]).argmin(keep(..)), vec![0, 1]),
            (Tensor::zeros([3, 2]).logsumexp(keep(1)), vec![1]),
            (Tensor::zeros([3, 2]).median(keep(1)), vec![1]),
            (Tensor::zeros([3, 2]).std(keep(1)), vec![1]),
            (Tensor::zeros([3, 2]).var_mean(keep(1)).map(|m| m.1), vec![1]),
            (Tensor::zeros([3, 2]).prod(keep(1)), vec![1]),
            (Tensor::zeros([3, 2]).any(keep(1)), vec![1]),
            (Tensor::zeros([3, 2]).norm(keep(1)), vec![1]),
        ] {
            assert_eq!(meant(&t.unwrap()), axes);
        }
    }

    #[test]
    fn sizes_that_came_with_the_data_are_not() {
        let column = Tensor::zeros([3, 1]);
        let row = tensor![1.0, 2.0, 3.0];
        for t in [
            Ok(column.clone()),
            row.reshape((3, -1)),
            row.reshape(column.shape()),
            Ok(column.t()),
            Tensor::zeros([3, 2]).slice(s![.., 0..1]),
            Tensor::zeros([3, 2]).narrow(1, 0, 1),
            Tensor::zeros([3, 2]).matmul(Tensor::zeros([2, 1])),
            Tensor::zeros([3, 2]).linear(Tensor::zeros([1, 2]), None),
            column.sum(keep(0)).unwrap().sum(0),
            column.exp().add(1.0),
        ] {
            assert_eq!(meant(&t.unwrap()), [0usize; 0]);
        }
    }

    #[test]
    fn views_carry_it_with_the_axis() {
        let t = made();
        for (view, axes) in [
            (Ok(t.clone()), vec![1]),
            (t.permute([1, 3, 0, 2]), vec![0]),
            (t.transpose(1, 3), vec![3]),
            (t.movedim(1, -1), vec![3]),
            (t.squeeze(3), vec![1]),
            (t.squeeze(1), vec![]),
            (t.unsqueeze(0), vec![0, 2]),
            (t.unsqueeze(2), vec![1, 2]),
            (t.unsqueeze(-1), vec![1, 4]),
            (t.flip(..), vec![1]),
            (t.slice(s![0]), vec![0]),
            (t.slice(s![.., .., 1..]), vec![1]),
            (t.select(3, 0), vec![1]),
            (t.select(1, 0), vec![]),
            (t.narrow(2, 0, 2), vec![1]),
            (t.expand([2, 4, 3, 1]), vec![]),
            (t.expand([2, 1, 3, 5]), vec![1]),
            (t.reshape(t.shape()), vec![1]),
            (Ok(t.transpose(0, 2).unwrap().contiguous()), vec![1]),
            (Ok(t.to(crate::DType::F64)), vec![1]),
        ] {
            assert_eq!(meant(&view.unwrap()), axes);
        }
        let parts = t.split(1, 0).unwrap();
        assert_eq!(meant(&parts[0]), [1]);
        assert_eq!(meant(&t.unbind(0).unwrap()[0]), [0]);
    }

    #[test]
    fn what_is_computed_from_it_carries_it() {
        let (t, plain) = (made(), Tensor::zeros([2, 1, 3, 1]));
        let large = Tensor::zeros([40, 1, 50, 1]).squeeze(1).unwrap().unsqueeze(1).unwrap();
        let mut changed = t.clone();
        changed.add_(&plain).unwrap();
        for (result, axes) in [
            (Ok(t.neg()), vec![1]),
            (t.add(1.0), vec![1]),
            (t.add(&plain), vec![1]),
            (plain.mul(&t), vec![1]),
            (t.mul(Tensor::zeros([2, 5, 3, 1])), vec![]),
            (t.mul(Tensor::zeros([2, 1, 3, 4])), vec![1]),
            (t.lt(&plain), vec![1]),
            (t.lt(&plain).unwrap().where_cond(&plain, 0.0), vec![1]),
            (large.exp().sub(&large), vec![1]),
            (t.sum(3), vec![1]),
            (t.sum(0), vec![0]),
            (t.sum(keep(2)), vec![1, 2]),
            (Ok(changed), vec![1]),
            // the batch and the rows of a product are those of its operands, what is summed over is gone
            (t.matmul(Tensor::zeros([1, 4])), vec![1]),
            (tensor![1.0, 2.0].unsqueeze(0).unwrap().matmul(Tensor::zeros([2, 4])), vec![0]),
            (Tensor::zeros([4, 2]).matmul(tensor![1.0, 2.0].unsqueeze(1).unwrap()), vec![1]),
            (tensor![1.0, 2.0].unsqueeze(1).unwrap().matmul(Tensor::zeros([1, 1])), vec![]),
        ] {
            assert_eq!(meant(&result.unwrap()), axes);
        }
    }

    #[test]
    fn what_was_kept_is_known_from_what_was_written() {
        let written = |t: &Tensor| {
            (0..t.rank()).filter(|&axis| t.meant().has_written(t.rank() - 1 - axis)).collect::<Vec<_>>()
        };
        let kept = Tensor::zeros([3, 2]).sum(keep(1)).unwrap();
        assert_eq!((meant(&kept), written(&kept)), (vec![1], vec![]));
        for (t, axes) in [
            (kept.unsqueeze(0), vec![0]),
            (kept.unsqueeze(-1), vec![2]),
            (kept.t().unsqueeze(1), vec![1]),
            (kept.reshape([3, 1]), vec![1]),
            (kept.add(kept.unsqueeze(0).unwrap().select(0, 0).unwrap()), vec![]),
            (kept.add(Tensor::zeros(3).unsqueeze(1).unwrap()), vec![1]),
        ] {
            let t = t.unwrap();
            assert_eq!(written(&t), axes, "{:?}", t.dims());
        }
        assert_eq!(written(&made().sum(keep(0)).unwrap()), [1]);
    }

    #[test]
    fn a_layout_has_room_for_it() {
        assert_eq!(std::mem::size_of::<crate::tensor::Layout>(), std::mem::size_of::<Shape>() + 16);
    }

    #[test]
    fn axes_without_a_bit_count_as_meant() {
        let many = Tensor::zeros(vec![1; 40]);
        assert_eq!(meant(&many), (0..24).collect::<Vec<_>>());
        assert_eq!(meant(&many.unsqueeze(0).unwrap()), (0..25).collect::<Vec<_>>());
        assert_eq!(meant(&many.unsqueeze(-1).unwrap()), [(0..25).collect::<Vec<_>>(), vec![40]].concat());
        assert_eq!(meant(&many.unsqueeze(-1).unwrap().select(0, 0).unwrap())[24], 39);
    }
}
