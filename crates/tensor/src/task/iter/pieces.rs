//! Results of operands that broadcast, at once and without a plan for all of them: in pieces along the outermost axis, for which what
//! repeats is laid out in the first-level cache, once if it is the same for all of them.

use smallvec::SmallVec;

use super::block::{BlockPlace, lay_out};
use super::plan::{Plan, PlanAxis, Steps, broadcast_stride};
use super::walk::{lay_out_all, write};
use super::{Operand, flat};
use crate::buffer::{Handle, Storage};
use crate::dtype::BlockMut;
use crate::kernels::BlockKernel;

/// Elements of a piece, where rows are not longer. Twice as many are one.
const PIECE: usize = 2048;

/// How the elements of a piece come to lie in order.
enum PieceOf<'a> {
    /// they do; or it is one number
    Flat(Operand<'a>),
    /// all are laid out
    Whole(Handle),
    /// they are laid out for a piece
    Repeating(Repeating<'a>),
}

/// An operand that repeats along some axis.
struct Repeating<'a> {
    op: Operand<'a>,
    /// how far it moves along the outermost axis
    step: isize,
    /// those of a piece, mostly rows and columns
    axes: SmallVec<[PlanAxis; 2]>,
    room: Handle,
}

/// All results of a kernel, row-major.
pub(super) fn compute(
    kernel: &dyn BlockKernel,
    operands: &[Operand<'_>],
    shape: &[usize],
    outs: &mut [BlockMut<'_>],
) {
    let n = outs[0].len();
    let outermost = shape.iter().position(|&size| size != 1).unwrap_or(shape.len());
    let height = shape.get(outermost).copied().unwrap_or(1);
    let row = n / height;
    let mut count = height;
    let steps = |op: &Operand<'_>| -> Steps {
        (outermost..shape.len()).map(|axis| broadcast_stride(op, axis, shape.len())).collect()
    };
    let repeats = |steps: &Steps| shape[outermost..].iter().zip(steps).any(|(&n, &step)| n != 1 && step == 0);
    let mut sources: SmallVec<[PieceOf<'_>; 4]> = SmallVec::new();
    for op in operands {
        if flat::lie_like(std::slice::from_ref(op), shape) {
            sources.push(PieceOf::Flat(*op));
            continue;
        }
        let steps = steps(op);
        if repeats(&steps) {
            count = if n <= 2 * PIECE { height } else { (PIECE / row).clamp(1, height) };
            let axis = |(&size, &step): (&usize, &isize)| PlanAxis { size, steps: Steps::from_elem(step, 1) };
            let mut axes: SmallVec<[PlanAxis; 4]> = shape[outermost..].iter().zip(&steps).map(axis).collect();
            axes[0].size = count;
            axes.retain(|axis| axis.size != 1);
            let room = Storage::scratch(op.want, count * row);
            let axes = Plan::merged(&axes).into_iter().collect();
            sources.push(PieceOf::Repeating(Repeating { op: *op, step: steps[0], axes, room }));
        } else {
            let mut room = Storage::scratch(op.want, n);
            write(None, &[*op], shape, room.block_mut());
            sources.push(PieceOf::Whole(room));
        }
    }
    for first in (0..height).step_by(count) {
        let rows = count.min(height - first);
        let (from, len) = (first * row, rows * row);
        for source in &mut sources {
            if let PieceOf::Repeating(part) = source {
                part.prepare(first, (rows, count), len);
            }
        }
        let mut piece: SmallVec<[Operand<'_>; 4]> = SmallVec::new();
        for source in &sources {
            piece.push(match source {
                PieceOf::Flat(op) if op.is_one() => *op,
                PieceOf::Flat(op) => Operand { offset: op.offset + from, ..*op },
                PieceOf::Whole(room) => Operand::in_order(room.block().range(from, len), shape),
                PieceOf::Repeating(part) => Operand::in_order(part.room.block().range(0, len), shape),
            });
        }
        let mut pieces: SmallVec<[BlockMut<'_>; 3]> = SmallVec::new();
        outs.iter_mut().for_each(|out| pieces.push(out.range(from, len)));
        flat::run(kernel, &piece, 0, &mut pieces);
    }
}

impl Repeating<'_> {
    /// Lays out the piece that begins with so many rows, unless the one before was the same.
    fn prepare(&mut self, first: usize, (rows, count): (usize, usize), len: usize) {
        if first > 0 && self.step == 0 {
            return;
        }
        if rows < count {
            self.axes[0].size = self.axes[0].size / count * rows;
        }
        let start = first as isize * self.step;
        let out = self.room.block_mut().into_range(0, len);
        let (outer, inner) = match &self.axes[..] {
            [inner] => (None, inner),
            [outer, inner] => (Some(outer), inner),
            axes => {
                let offset = (self.op.offset as isize + start) as usize;
                return lay_out_all(axes, &[Operand { offset, ..self.op }], out);
            }
        };
        let (rows, row_step) = outer.map_or((1, 0), |axis| (axis.size, axis.steps[0]));
        let place = BlockPlace { start, rows, row_step, cols: inner.size, col_step: inner.steps[0] };
        lay_out(&self.op, &place, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{FloatKernel, FloatOps, Formula, GradientKernel, Real};
    use crate::{DType, Tensor};

    #[derive(Clone, Copy)]
    struct Scaled;
    impl Formula<3> for Scaled {
        const SUMS: bool = true;
        #[inline(always)]
        fn eval<R: Real>(&self, [x, w, b]: [R; 3]) -> R
        where
            f64: FloatOps<R>,
        {
            (x - w) * b
        }
    }

    /// Rows, columns, factors along middle axes, what is turned, repeated or of another type, in pieces that are whole and that are not.
    #[test]
    fn elements_are_those_of_operands_that_are_laid_out_before() {
        let cases: [[&[usize]; 3]; 12] = [
            [&[47, 100], &[100], &[47, 1]],
            [&[1, 47, 100], &[1, 1, 100], &[1, 1]],
            [&[3, 3000], &[3, 1], &[3000]],
            [&[1, 5000], &[5000], &[]],
            [&[23, 10, 30], &[10, 1], &[30]],
            [&[23, 10, 30], &[23, 1, 30], &[23, 1, 1]],
            [&[23, 10, 30], &[23, 10, 1], &[1, 10, 1]],
            [&[2, 1, 1200], &[2, 1, 1], &[1, 1200]],
            [&[5, 3, 4, 7, 6], &[3, 1, 7, 1], &[5, 1, 4, 1, 6]],
            [&[2000, 2], &[2], &[2000, 1]],
            [&[5000, 1], &[1, 1], &[5000, 1]],
            [&[1, 1], &[1], &[]],
        ];
        for (case, &dtype) in
            cases.iter().flat_map(|case| [DType::F32, DType::F64].iter().map(move |d| (case, d)))
        {
            let shape = case[0];
            let of = |own: &[usize]| Tensor::randn_with(own, dtype);
            let views = |own: &[usize]| {
                let t = of(own);
                let mut views = vec![t.clone(), t.mul(9.0).unwrap().to(DType::I64)];
                if !own.is_empty() {
                    views.extend([t.flip(0).unwrap(), t.expand(shape).unwrap()]);
                }
                views
            };
            let turned = of(shape).transpose(0, -1).unwrap().contiguous().transpose(0, -1).unwrap();
            let [x, g] = [of(shape), of(&[])];
            for (w, b) in views(case[1]).iter().zip(views(case[2]).iter().rev()) {
                for x in [&x, &turned] {
                    let laid = |t: &Tensor| t.to(dtype).expand(shape).unwrap().contiguous();
                    let all = [&g, x, w, b];
                    let all_laid = all.map(laid);
                    let check = |kernel: &dyn BlockKernel, from: usize, outputs: usize| {
                        let run = |operands: &[&Tensor]| -> Vec<Tensor> {
                            let operands: Vec<Operand<'_>> =
                                operands[from..].iter().map(|t| Operand::new(t, dtype)).collect();
                            let n = shape.iter().product();
                            let mut storages: Vec<Handle> =
                                (0..outputs).map(|_| Storage::scratch(dtype, n)).collect();
                            let mut outs: Vec<BlockMut<'_>> =
                                storages.iter_mut().map(|s| s.block_mut()).collect();
                            compute(kernel, &operands, shape, &mut outs);
                            drop(outs);
                            storages.into_iter().map(|s| Tensor::from_storage(s, shape.into())).collect()
                        };
                        assert_eq!(run(&all), run(&all_laid.each_ref()), "{case:?}, {dtype}");
                    };
                    check(&FloatKernel(Scaled), 1, 1);
                    for wanted in [&[0][..], &[2], &[0, 1], &[2, 0, 1]] {
                        check(&GradientKernel::new(Scaled, wanted), 0, wanted.len());
                    }
                }
            }
        }
    }
}
