//! Kernels that change what they write to: computed from it, or added to it.

use super::block::{BLOCK, Blocks};
use crate::buffer::{Handle, Storage};
use crate::dtype::{Block, BlockMut};
use crate::kernels::{BlockKernel, doors};

/// A kernel whose first operand is what it writes over.
pub(crate) struct OverItself<'a>(pub(crate) &'a dyn BlockKernel);

impl BlockKernel for OverItself<'_> {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        in_pieces(&mut outputs[0], |start, mut out, scratch| {
            let n = out.len();
            out.as_block().copy_to(scratch.block_mut().range(0, n));
            let mut all = Blocks::new();
            all.push(scratch.block().range(0, n));
            inputs.iter().for_each(|b| all.push(b.range(start, n)));
            self.0.run(&all, &mut [out.range(0, n)]);
        });
    }
}

/// A kernel whose results are added to what is there.
pub(crate) struct Onto<'a>(pub(crate) &'a dyn BlockKernel);

impl BlockKernel for Onto<'_> {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        in_pieces(&mut outputs[0], |start, out, scratch| {
            let n = out.len();
            let mut blocks = Blocks::new();
            inputs.iter().for_each(|b| blocks.push(b.range(start, n)));
            self.0.run(&blocks, &mut [scratch.block_mut().range(0, n)]);
            doors::add_to(out, scratch.block().range(0, n));
        });
    }
}

/// Adds its operand to what is there.
pub(crate) struct Addition;

impl BlockKernel for Addition {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        let n = outputs[0].len();
        doors::add_to(outputs[0].range(0, n), inputs[0]);
    }
}

/// Hands out pieces that lie in the first-level cache, with where they start and room for as many elements.
fn in_pieces(out: &mut BlockMut<'_>, mut f: impl FnMut(usize, BlockMut<'_>, &mut Handle)) {
    let n = out.len();
    let mut scratch = Storage::scratch(out.dtype(), n.min(BLOCK));
    for start in (0..n).step_by(BLOCK) {
        f(start, out.range(start, BLOCK.min(n - start)), &mut scratch);
    }
}
