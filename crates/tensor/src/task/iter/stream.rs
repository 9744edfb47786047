//! Where results go: straight to their place, or through a block in the first-level cache and past the caches.
//!
//! Note [Streaming]
//! An ordinary store first reads the line it writes, and keeps it in the cache. As long as everything an operation
//! touches fits in the last-level cache, that is what the next operation wants. Beyond it, the line read was wasted and
//! the line kept has pushed out an operand: twice the traffic. A streaming store writes whole lines to memory and
//! leaves the caches alone. Where operands are small the result alone has to exceed the cache to be streamed.
//!
//! Several threads stream later. Either they share a last-level cache, and streaming stores of one thread already fill the way to memory
//! (on Zen 5: 44 GB/s for one thread as for two), while what stays in the caches goes nearly twice as fast; or each has such a cache
//! of its own, and there is twice the room. Not so where sums are gathered on the way, as in a walk to several results: there the gradients of a fused
//! product with a row (W3-fuse, W5b-fuse) would take 1.03 to 1.55 of the time.
//!
//! Who pays for it (a last-level cache of 32 MiB). One thread: W1 takes 0.7 to 0.9 of the time, `exp` and back (W16) 0.9. Two threads (Zen 5)
//! that do not stream the 32 MiB of W1 take 0.65 to 0.87 of the time, with a sum that reads the result 0.5 to 0.65, `exp` and back 0.7. What they
//! stream, beyond 48 MiB, takes 0.8 to 1.05 of the time as an operation by itself.

use super::Operand;
use super::block::{BLOCK, Blocks};
use super::plan::PlanAxis;
use crate::buffer::{Handle, Storage};
use crate::dtype::{Block, BlockMut, DType};
use crate::kernels::{BlockKernel, Stream, last_level_cache};
use crate::threads::num_threads;

/// Results smaller than this are never streamed: somebody reads them soon.
const SMALLEST_RESULT: usize = 4 << 20;

/// Whether a result of so many bytes that is written in order is better written past the caches, by what is read beside it.
pub(crate) fn worth_streaming(read: usize, written: usize) -> bool {
    let room = cache_for_us(last_level_cache());
    written >= SMALLEST_RESULT && read + written > if num_threads() > 1 { 2 * room } else { room }
}

/// The same where sums are gathered on the way, for any number of threads.
pub(crate) fn worth_streaming_beside_sums(read: usize, written: usize) -> bool {
    written >= SMALLEST_RESULT && read + written > cache_for_us(last_level_cache())
}

/// What remains of a last-level cache after other users.
fn cache_for_us(cache: usize) -> usize {
    cache / 4 * 3
}

/// Bytes that a walk reads: every operand once, however often it repeats.
pub(crate) fn bytes_read(axes: &[PlanAxis], operands: &[Operand<'_>]) -> usize {
    let one = |k: usize, op: &Operand<'_>| {
        let moved = axes.iter().filter(|a| a.steps[k] != 0).map(|a| a.size).product::<usize>();
        moved.min(op.data.len()) * op.data.dtype().size()
    };
    operands.iter().enumerate().map(|(k, op)| one(k, op)).sum()
}

/// Runs a kernel into a given range of the result of one task.
pub(crate) struct BlockWriter<'a> {
    kernel: &'a dyn BlockKernel,
    /// if results are streamed: a block that stays in the first-level cache, and the way from there
    staged: Option<(Handle, Stream)>,
}

impl<'a> BlockWriter<'a> {
    pub(crate) fn new(kernel: &'a dyn BlockKernel, dtype: DType, streamed: bool) -> BlockWriter<'a> {
        BlockWriter { kernel, staged: streamed.then(|| (Storage::scratch(dtype, BLOCK), Stream::new())) }
    }

    pub(crate) fn kernel(&self) -> &'a dyn BlockKernel {
        self.kernel
    }

    /// Whether results go through a block of their own.
    pub(crate) fn is_staged(&self) -> bool {
        self.staged.is_some()
    }

    /// Computes `out` from blocks of its length.
    #[inline]
    pub(crate) fn write(&mut self, blocks: &[Block<'_>], out: BlockMut<'_>) {
        match &mut self.staged {
            None => self.kernel.run(blocks, &mut [out]),
            Some((staged, stream)) => write_staged(self.kernel, staged, stream, blocks, out),
        }
    }
}

/// The same by way of a block that stays in the first-level cache.
#[inline(never)]
fn write_staged(
    kernel: &dyn BlockKernel,
    staged: &mut Handle,
    stream: &Stream,
    blocks: &[Block<'_>],
    mut out: BlockMut<'_>,
) {
    let n = out.len();
    if n <= BLOCK {
        kernel.run(blocks, &mut [staged.block_mut().range(0, n)]);
        return stream.copy(staged.block().range(0, n), out);
    }
    for at in (0..n).step_by(BLOCK) {
        let len = BLOCK.min(n - at);
        let mut pieces = Blocks::new();
        blocks.iter().for_each(|b| pieces.push(b.range(at, len)));
        kernel.run(&pieces, &mut [staged.block_mut().range(0, len)]);
        stream.copy(staged.block().range(0, len), out.range(at, len));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::pretend_cache;
    use crate::{Tensor, ThreadPool};

    #[test]
    fn the_threshold_looks_at_both_sides() {
        let mib = 1 << 20;
        pretend_cache(32 * mib);
        for threads in [1, 2, 3] {
            ThreadPool::new(threads).install(|| {
                assert_eq!(worth_streaming(16 * mib, 16 * mib), threads == 1, "a bias add");
                assert!(worth_streaming_beside_sums(16 * mib, 16 * mib), "a bias add and its sum");
                assert!(worth_streaming(32 * mib, 32 * mib), "a larger one");
                assert!(!worth_streaming(mib / 100, 16 * mib), "an outer product that fits");
                assert!(worth_streaming(0, 64 * mib), "a result that does not");
                assert!(!worth_streaming(64 * mib, mib), "a small result");
            });
        }
    }

    /// Results long enough to be streamed, by one thread or by several, too, of rows whose ends are nowhere near a line's.
    #[test]
    fn streamed_results_are_those_of_their_rows() {
        pretend_cache(32 << 20);
        for rows in [2049, 3201] {
            let n = rows * 1025;
            let a = Tensor::arange_with(0.0..n as f64, 1.0, DType::F64).reshape([rows, 1025]).unwrap();
            let row = a.narrow(0, 1, 1).unwrap();
            let column = a.narrow(1, 3, 1).unwrap();
            let all = |threads: usize| {
                ThreadPool::new(threads).install(|| {
                    assert_eq!(worth_streaming(n * 8, n * 8), threads == 1 || rows == 3201);
                    [a.add(&row), a.add(&column), a.add(&a), a.t().add(a.t())].map(Result::unwrap)
                })
            };
            let found = all(1);
            assert!(found == all(3));
            for i in [0, 1, 31, 32, 1000, rows - 1] {
                let a = a.narrow(0, i, 1).unwrap();
                let want =
                    [a.add(&row), a.add(column.narrow(0, i, 1).unwrap()), a.add(&a)].map(Result::unwrap);
                for (found, want) in found.iter().zip(&want) {
                    assert_eq!(found.narrow(0, i, 1).unwrap(), *want);
                }
                assert_eq!(found[3].narrow(1, i, 1).unwrap().t(), want[2]);
            }
        }
    }
}
