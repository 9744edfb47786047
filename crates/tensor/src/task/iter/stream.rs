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
use crate::dtype::{Block, BlockMut, with_block};
use crate::kernels::{BlockKernel, LINE, RowInput, Stream, last_level_cache};
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

/// Where a block on the way past the caches lies: in one page, the smallest of this architecture. A store across two of them waits for all that are on
/// their way: rows of 300 elements took 1.3 times as long (Zen 4). Longer blocks take longer, too, as reading and writing memory take turns.
const PAGE: usize = 4096;

/// Lines at the start of its page that are not used. Elements of tensors begin behind the first: a store keeps the next loads from the same place of other pages waiting, so that
/// `exp` of four million elements took 1.15 times as long with none and with two.
const SKIPPED: usize = 5;

/// The way of results past the caches to their places, by a block that stays in the first-level cache: whole lines of memory, of which the one that
/// is not complete waits there for what follows. A line of which a part is stored as usual is read first: with two of them for each row, six million elements
/// beside a column, in rows of 77, took twice as long (Zen 4), 2.3 times in `f64` with rows of 50.
pub(super) struct WholeLines<'o> {
    out: BlockMut<'o>,
    staged: Handle,
    /// elements of it that are not used, before its place in a page
    start: usize,
    /// elements of a line, and those before the first whole one of `out`
    line: usize,
    lead: usize,
    /// elements that wait, and where they belong
    held: usize,
    at: usize,
    stream: Stream,
}

impl<'o> WholeLines<'o> {
    pub(super) fn new(out: BlockMut<'o>) -> WholeLines<'o> {
        let (line, pages) = (LINE / out.dtype().size(), PAGE / out.dtype().size());
        let lead = with_block!(BlockMut, &out, s => s.as_ptr().align_offset(LINE)) % line;
        let staged = Storage::scratch(out.dtype(), pages + BLOCK + (SKIPPED + 2) * line);
        let page = with_block!(Block, staged.block(), s => s.as_ptr().align_offset(PAGE));
        WholeLines {
            out,
            staged,
            start: page + SKIPPED * line,
            line,
            lead,
            held: 0,
            at: 0,
            stream: Stream::new(),
        }
    }

    /// How many elements it takes at a time where they come in rows of so many: no more than lie in one page, or those of rows that fill one.
    fn most(&self, len: usize) -> usize {
        let less = if self.page().is_multiple_of(len) { 0 } else { (SKIPPED + 1) * self.line };
        (self.page() - less).min(BLOCK)
    }

    /// Elements of a page.
    fn page(&self) -> usize {
        self.line * (PAGE / LINE)
    }

    /// The length of the pieces of `n` elements, which have about the same.
    fn piece(&self, n: usize) -> usize {
        n.div_ceil(n.div_ceil(self.most(n))).next_multiple_of(self.line)
    }

    /// Room for so many elements, no more than a block has, from `at` on.
    #[inline]
    fn room(&mut self, at: usize, n: usize) -> BlockMut<'_> {
        if at != self.at + self.held {
            self.settle();
            self.at = at;
        }
        self.staged.block_mut().into_range(self.start + self.held, n)
    }

    /// Sends whole lines on their way when so many elements have been written to their room.
    #[inline]
    fn send(&mut self, n: usize) {
        let all = self.held + n;
        // Of a power of two.
        let rest = (self.at + all + self.line - self.lead) & (self.line - 1);
        self.held = rest.min(all);
        let whole = all - self.held;
        if whole > 0 {
            self.stream.copy(self.staged.block().range(self.start, whole), self.out.range(self.at, whole));
            self.at += whole;
            if self.held > 0 {
                // A line of known length is no call.
                with_block!(BlockMut, self.staged.block_mut(), s => first_line(&mut s[self.start..], whole));
            }
        }
    }

    /// Writes a block to the elements from `at` on: what completes a line by way of the staged one, whole lines from where they are.
    pub(super) fn put(&mut self, at: usize, block: Block<'_>) {
        let (n, mask) = (block.len(), self.line - 1);
        let first = ((self.lead + self.line - (at & mask)) & mask).min(n);
        let whole = (n - first) & !mask;
        self.stage(at, block.range(0, first));
        if whole > 0 {
            self.settle();
            self.stream.copy(block.range(first, whole), self.out.range(at + first, whole));
            self.at = at + first + whole;
        }
        self.stage(at + first + whole, block.range(first + whole, n - first - whole));
    }

    /// The same by way of the staged line alone, of fewer elements than that has.
    fn stage(&mut self, at: usize, block: Block<'_>) {
        if block.len() > 0 {
            block.copy_to(self.room(at, block.len()));
            self.send(block.len());
        }
    }

    /// Stores what waits.
    fn settle(&mut self) {
        let held = std::mem::take(&mut self.held);
        self.staged.block().range(self.start, held).copy_to(self.out.range(self.at, held));
        self.at += held;
    }
}

/// Moves a line's elements to the start.
#[inline(always)]
fn first_line<T: Copy>(s: &mut [T], from: usize) {
    s.copy_within(from..from + LINE / size_of::<T>(), 0);
}

impl Drop for WholeLines<'_> {
    fn drop(&mut self) {
        self.settle();
    }
}

/// Where the results of one task go.
enum Way<'a> {
    Straight(BlockMut<'a>),
    Past(WholeLines<'a>),
}

/// Runs a kernel into the result of one task.
pub(crate) struct BlockWriter<'a> {
    kernel: &'a dyn BlockKernel,
    way: Way<'a>,
}

impl<'a> BlockWriter<'a> {
    pub(crate) fn new(kernel: &'a dyn BlockKernel, out: BlockMut<'a>, streamed: bool) -> BlockWriter<'a> {
        let way = if streamed { Way::Past(WholeLines::new(out)) } else { Way::Straight(out) };
        BlockWriter { kernel, way }
    }

    pub(crate) fn kernel(&self) -> &'a dyn BlockKernel {
        self.kernel
    }

    /// Elements of the pieces that rows of so many are cut into: whole rows that go straight to their places.
    pub(crate) fn piece(&self, cols: usize) -> usize {
        match &self.way {
            Way::Straight(_) => cols,
            Way::Past(lines) => lines.piece(cols),
        }
    }

    /// Whether rows of so many elements are computed several in a call.
    pub(crate) fn takes_rows(&self, cols: usize) -> bool {
        let fits = match &self.way {
            Way::Straight(_) => true,
            Way::Past(lines) => cols <= lines.most(cols),
        };
        fits && self.kernel.takes_rows()
    }

    /// Computes the `n` elements from `at` on, from blocks of as many.
    #[inline]
    pub(crate) fn write(&mut self, at: usize, n: usize, blocks: &[Block<'_>]) {
        match &mut self.way {
            Way::Straight(out) => self.kernel.run(blocks, &mut [out.range(at, n)]),
            Way::Past(lines) => write_pieces(self.kernel, lines, (at, n), blocks),
        }
    }

    /// Computes rows of so many columns, the `n` elements from `at` on.
    pub(crate) fn run_rows(&mut self, at: usize, n: usize, mut rows: [RowInput<'_>; 2], cols: usize) {
        let lines = match &mut self.way {
            Way::Straight(out) => return self.kernel.run_rows(rows, cols, out.range(at, n)),
            Way::Past(lines) => lines,
        };
        let several = rows[0].whole_groups(lines.most(cols) / cols);
        for done in (0..n).step_by(several * cols) {
            let len = (several * cols).min(n - done);
            self.kernel.run_rows(rows, cols, lines.room(at + done, len));
            lines.send(len);
            rows = rows.map(|input| input.after(several));
        }
    }
}

/// The same piece by piece, on the way past the caches.
#[inline(never)]
fn write_pieces(
    kernel: &dyn BlockKernel,
    lines: &mut WholeLines<'_>,
    (at, n): (usize, usize),
    blocks: &[Block<'_>],
) {
    let piece = if n <= lines.page() {
        n
    } else if n <= BLOCK {
        lines.piece(n)
    } else {
        // What several inputs give takes turns more often: sums of two of 15 to 30 MiB take 0.8 of the time.
        let inputs = blocks.iter().filter(|b| b.len() == n).count().max(1);
        (lines.piece(n) / inputs).next_multiple_of(lines.line)
    };
    for done in (0..n).step_by(piece) {
        let len = piece.min(n - done);
        let mut pieces = Blocks::new();
        // A number stands for all elements of a block.
        blocks.iter().for_each(|b| pieces.push(if b.len() < n { *b } else { b.range(done, len) }));
        kernel.run(&pieces, &mut [lines.room(at + done, len)]);
        lines.send(len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::pretend_cache;
    use crate::{DType, Tensor, ThreadPool};

    /// Blocks that follow each other, leave something out or go back, to places at the start of a line and within one.
    #[test]
    fn lines_hold_what_was_put() {
        let numbers = Tensor::arange_with(0.0..9000.0, 1.0, DType::F64);
        for (dtype, lead) in
            [DType::F32, DType::F64, DType::I64].into_iter().flat_map(|d| [0, 1, 7, 15].map(|lead| (d, lead)))
        {
            let from = numbers.to(dtype);
            let mut found = Storage::zeros(dtype, 9000).expect("room");
            let mut want = Storage::zeros(dtype, 9000).expect("room");
            let mut lines = WholeLines::new(found.block_mut().into_range(lead, 8000));
            let mut put = |at: usize, len: usize| {
                let block = from.storage.block().range(at, len);
                lines.put(at, block);
                block.copy_to(want.block_mut().range(lead + at, len));
            };
            let mut at = 0;
            for (i, len) in [1, 3, 16, 77, 0, 300, 5, 1024, 1023, 1, 2100, 8].into_iter().enumerate() {
                put(at, len);
                at += len + if i % 4 == 3 { 9 } else { 0 };
            }
            put(40, 50);
            put(at, 33);
            drop(lines);
            let both = [&found, &want].map(|s| s.block());
            with_block!(Block, both[0], a => assert!(Some(a) == crate::dtype::Element::slice(both[1]), "{dtype} {lead}"));
        }
    }

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

    /// Short rows that the kernel takes as they lie, of one axis and of two, and others that are laid out.
    #[test]
    fn streamed_short_rows_are_those_of_a_sum_by_parts() {
        pretend_cache(32 << 20);
        let cases: [(&[usize], &[usize]); 5] = [
            (&[45_000, 77], &[45_000, 1]),
            (&[20_001, 11, 16], &[20_001, 1, 16]),
            (&[12_001, 300], &[300]),
            (&[50_001, 70], &[50_001, 70]),
            (&[1_200_001, 3], &[1_200_001, 1]),
        ];
        for (shape, own) in cases {
            let counted = |shape: &[usize]| {
                let n = shape.iter().product::<usize>();
                Tensor::from_vec((0..n).map(|i| (i % 8191) as f32).collect::<Vec<_>>(), shape).unwrap()
            };
            let (x, y) = (counted(shape), counted(own));
            let (n, rows) = (shape.iter().product::<usize>(), shape[0]);
            let all = |threads: usize| {
                ThreadPool::new(threads).install(|| {
                    assert!(threads > 1 || worth_streaming(4 * n, 4 * n));
                    x.add(&y).unwrap()
                })
            };
            let found = all(1);
            assert!(found == all(3), "{shape:?} {own:?}");
            let mut from = 0;
            while from < rows {
                let len = (rows / 7).min(rows - from);
                let part = |t: &Tensor| {
                    if t.dims().len() < shape.len() { t.clone() } else { t.narrow(0, from, len).unwrap() }
                };
                assert!(part(&found) == part(&x).add(part(&y)).unwrap(), "{shape:?} {own:?}");
                from += len;
            }
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
