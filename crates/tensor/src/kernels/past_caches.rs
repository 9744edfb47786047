//! Copies that go past the caches, for results that would only push out of them what is still to be read.

use std::marker::PhantomData;

use crate::dtype::{Block, BlockMut, Element};

#[cfg(target_arch = "x86_64")]
use super::level::{Level, level};

/// A thread's stores past the caches. Until this is dropped, no other thread may read what has been written.
///
/// The level is asked for once, so that whoever forces another one meanwhile does not separate the stores from the fence
/// that ends them.
pub(crate) struct Stream {
    #[cfg(target_arch = "x86_64")]
    level: Level,
    /// the fence concerns the stores of its own thread only
    of_this_thread: PhantomData<*const ()>,
}

impl Stream {
    pub(crate) fn new() -> Stream {
        Stream {
            #[cfg(target_arch = "x86_64")]
            level: level(),
            of_this_thread: PhantomData,
        }
    }

    /// Copies a block to one of the same type and length, whose lines are written to memory without being read first.
    pub(crate) fn copy(&self, from: Block<'_>, to: BlockMut<'_>) {
        match (from, to) {
            (Block::Bool(a), BlockMut::Bool(b)) => self.copy_slice(a, b),
            (Block::I64(a), BlockMut::I64(b)) => self.copy_slice(a, b),
            (Block::F32(a), BlockMut::F32(b)) => self.copy_slice(a, b),
            (Block::F64(a), BlockMut::F64(b)) => self.copy_slice(a, b),
            _ => unreachable!("a block is copied to one of its own type"),
        }
    }

    /// The copy itself: where no level has streaming stores, an ordinary one.
    fn copy_slice<T: Element>(&self, from: &[T], to: &mut [T]) {
        assert_eq!(from.len(), to.len(), "a block is copied to one of its own length");
        #[cfg(target_arch = "x86_64")]
        match self.level {
            // SAFETY: `level`, where this comes from, never exceeds what was detected on this processor; the lengths are
            // equal.
            Level::Avx512 => return unsafe { x86::avx512(from, to) },
            // SAFETY: as above, for AVX2.
            Level::Avx2 => return unsafe { x86::avx2(from, to) },
            Level::Baseline => {}
        }
        to.copy_from_slice(from);
    }
}

impl Drop for Stream {
    /// Waits until what has been streamed is visible to other threads.
    fn drop(&mut self) {
        #[cfg(target_arch = "x86_64")]
        if self.level > Level::Baseline {
            // SAFETY: `sfence` belongs to SSE, which every processor of this architecture has.
            unsafe { std::arch::x86_64::_mm_sfence() }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use crate::kernels::LINE;
    use std::arch::x86_64::{
        __m256i, __m512i, _mm256_loadu_si256, _mm256_stream_si256, _mm512_loadu_si512, _mm512_stream_si512,
    };

    /// Writes a copy whose middle consists of aligned vectors, and its ends as usual.
    macro_rules! streamed {
        ($name:ident, $features:literal, $vector:ty, $load:ident, $store:ident) => {
            /// # Safety
            /// The slices have the same length. The element type has no padding.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn $name<T: crate::dtype::Element>(from: &[T], to: &mut [T]) {
                const WIDTH: usize = size_of::<$vector>();
                // A line is only written past the caches if all of it is.
                let n = size_of_val(from);
                let (src, dst) = (from.as_ptr().cast::<u8>(), to.as_mut_ptr().cast::<u8>());
                let head = dst.align_offset(LINE).min(n);
                let tail = head + (n - head) / LINE * LINE;
                // SAFETY: all offsets are at most `n`, the length in bytes of both slices, which do not overlap since
                // one of them is borrowed for writing. `dst + head` is a multiple of 64, and so is every step of
                // `WIDTH` from it that a vector store goes to.
                unsafe {
                    // Usually a line begins there, and none is worth a call.
                    if head > 0 {
                        std::ptr::copy_nonoverlapping(src, dst, head);
                    }
                    let mut at = head;
                    while at < tail {
                        $store(dst.add(at).cast::<$vector>(), $load(src.add(at).cast::<$vector>()));
                        at += WIDTH;
                    }
                    if tail < n {
                        std::ptr::copy_nonoverlapping(src.add(tail), dst.add(tail), n - tail);
                    }
                }
            }
        };
    }
    streamed!(avx512, "avx512f", __m512i, _mm512_loadu_si512, _mm512_stream_si512);
    streamed!(avx2, "avx2", __m256i, _mm256_loadu_si256, _mm256_stream_si256);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_and_alignment_is_copied() {
        for (start, len) in (0..20).flat_map(|s| [0, 1, 15, 16, 17, 100, 257].map(|n| (s, n))) {
            let from: Vec<f32> = (0..len).map(|i| i as f32 + 0.5).collect();
            let mut to = vec![-1.0f32; 300];
            Stream::new().copy(Block::F32(&from), BlockMut::F32(&mut to[start..start + len]));
            assert_eq!(to[start..start + len], from[..]);
            assert!(to[..start].iter().chain(&to[start + len..]).all(|&v| v == -1.0), "{start} {len}");
            let truth: Vec<bool> = (0..len).map(|i| i % 3 == 0).collect();
            let mut to = vec![false; 300];
            Stream::new().copy(Block::Bool(&truth), BlockMut::Bool(&mut to[start..start + len]));
            assert_eq!(to[start..start + len], truth[..]);
        }
    }
}
