//! Kernels that change what they write to: computed from it, or added to it.

use super::block::{BLOCK, Blocks};
use crate::buffer::Storage;
use crate::dtype::{Block, BlockMut};
use crate::kernels::{BlockKernel, doors};

/// A kernel whose first operand is what it writes over.
pub(crate) struct OverItself<'a>(pub(crate) &'a dyn BlockKernel);

impl BlockKernel for OverItself<'_> {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        let out = &mut outputs[0];
        let n = out.len();
        let mut scratch = Storage::scratch(out.dtype(), n.min(BLOCK));
        // Pieces that lie in the first-level cache.
        for start in (0..n).step_by(BLOCK) {
            let count = BLOCK.min(n - start);
            let piece = out.range(start, count);
            piece.as_block().copy_to(scratch.block_mut().range(0, count));
            let mut all = Blocks::new();
            all.push(scratch.block().range(0, count));
            inputs.iter().for_each(|b| all.push(b.range(start, count)));
            self.0.run(&all, &mut [piece]);
        }
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
