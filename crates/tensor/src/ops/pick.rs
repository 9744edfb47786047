//! Elements read at places that are computed: the sum of a stepped index and one strided sequence per other axis.

use smallvec::SmallVec;

use super::index::own;
use crate::create::Sequence;
use crate::dtype::{Block, BlockMut, DType, Element, with_block};
use crate::error::Result;
use crate::kernels::{BlockKernel, take_rows};
use crate::shape::{Dims, Shape};
use crate::task::{self, Does, Read, Space, Task, To};
use crate::tensor::Tensor;

/// Writes the elements of `t` at the places that `index`, which broadcasts to `shape`, names along `axis`.
pub(super) fn pick(
    op: &'static str,
    t: &Tensor,
    axis: usize,
    index: &Tensor,
    shape: &Shape,
    out: BlockMut<'_>,
) -> Result<()> {
    if t.rank() <= 1 && t.is_contiguous() && index.is_contiguous() && index.numel() == out.len() {
        let (size, places) = (t.numel(), own(index));
        with_block!(BlockMut, out, out => take_rows(own(t), size, 1, places, out));
        return Ok(());
    }
    let mut terms: SmallVec<[Tensor; 4]> = SmallVec::new();
    terms.push(index.clone());
    for (d, &stride) in t.strides().iter().enumerate() {
        if d != axis && stride != 0 && shape[d] > 1 {
            terms.push(sequence_along(op, shape, d, stride as i64)?);
        }
    }
    let step = t.strides().get(axis).map_or(0, |&s| s as i64);
    pick_at(op, t, &terms, t.layout.offset() as i64, step, shape, out)
}

/// The multiples of a step along an axis of a shape; size 1 on all others.
pub(super) fn sequence_along(op: &'static str, shape: &Shape, axis: usize, step: i64) -> Result<Tensor> {
    let mut wide = Shape(Dims::from_elem(1, shape.rank()));
    wide[axis] = shape[axis];
    let places = Sequence { float: |_| 0.0, integer: |i| i as i64 * step };
    task::whole(op, &places, &[], &wide, DType::I64)
}

/// Writes the elements of the buffer of `t` at the places that are the sum of `start` and all terms, the first of which is
/// multiplied by a step; the terms broadcast to `shape`.
pub(super) fn pick_at(
    op: &'static str,
    t: &Tensor,
    terms: &[Tensor],
    start: i64,
    step: i64,
    shape: &Shape,
    out: BlockMut<'_>,
) -> Result<()> {
    let reads: SmallVec<[Read<'_>; 4]> = terms.iter().map(|s| Read::Tensor(s, DType::I64)).collect();
    let kernel: &dyn BlockKernel = match t.storage.block() {
        Block::Bool(source) => &Pick { source, start, step },
        Block::I64(source) => &Pick { source, start, step },
        Block::F32(source) => &Pick { source, start, step },
        Block::F64(source) => &Pick { source, start, step },
    };
    let (space, does) = (Space::Of(shape), Does::Blocks(kernel));
    task::change(Task { op, reads: &reads, space, does, to: &mut [To::Block(out)] })?;
    Ok(())
}

/// Reads elements whose places are the sum of all inputs, the first of which is multiplied by a step.
struct Pick<'a, T> {
    source: &'a [T],
    start: i64,
    step: i64,
}

impl<T: Element> BlockKernel for Pick<'_, T> {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        let len = outputs[0].len();
        let out = T::slice_mut(outputs[0].range(0, len)).expect("the result has the type of the source");
        let places = |k: usize| i64::slice(inputs[k]).expect("places are i64");
        match inputs.len() {
            1 => {
                for (o, &i) in out.iter_mut().zip(places(0)) {
                    *o = self.source[(self.start + i * self.step) as usize];
                }
            }
            2 => {
                for ((o, &i), &p) in out.iter_mut().zip(places(0)).zip(places(1)) {
                    *o = self.source[(self.start + i * self.step + p) as usize];
                }
            }
            n => {
                for (j, (o, &i)) in out.iter_mut().zip(places(0)).enumerate() {
                    let others: i64 = (1..n).map(|k| places(k)[j]).sum();
                    *o = self.source[(self.start + i * self.step + others) as usize];
                }
            }
        }
    }
}
