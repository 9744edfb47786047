//! Where elements live: a reference-counted ndarray array whose memory is recycled when its last holder drops it.
//!
//! Note [Room]
//! All memory for elements comes from [`Storage::stale`] and [`Storage::zeros`], which give `None` where the allocator has
//! no such room: the pool tries a large vector before it makes it. Operations ask through `create::room`, which names the
//! operation and the shape in an error. Only working memory of a bounded size, a block or what a task or a small shape
//! needs, is asked for by [`Storage::scratch`], which panics instead.

mod handle;
mod huge;
mod pool;

use ndarray::{Array1, s};

pub(crate) use handle::{Handle, Room};
#[doc(hidden)]
pub use handle::{Holding, storage_bytes};
#[allow(unreachable_pub, reason = "`Element` names it in a hidden method")]
pub use pool::Spare;
pub(crate) use pool::has_room;
#[doc(hidden)]
pub use pool::shelf_epoch;
use pool::{epoch, is_pool_on};
pub use pool::{release_memory, set_pool_limit};

use crate::dtype::{Block, BlockMut, DType, Element};

/// Vectors load fastest from addresses that are multiples of this many bytes.
const ALIGNMENT: usize = 64;

/// Below this many bytes the padding that alignment costs is not worth it.
const ALIGN_FROM: usize = 1024;

/// Elements of one type. Readers see `start .. start + len` of the array; the rest is padding for alignment.
#[derive(Debug)]
pub struct Buffer<T: Element> {
    array: Array1<T>,
    start: usize,
    len: usize,
    /// the compartment of a shelf that it belongs to, 0 for none
    bin: u16,
}

impl<T: Element> Buffer<T> {
    /// Room for `len` elements that are zero, or whatever the pool held: initialised, but of no meaning.
    fn large(len: usize, zero: bool) -> Option<Buffer<T>> {
        Buffer::aligned(len, |len, padding| pool::take(len, padding, zero))
    }

    /// `len` elements, starting where vectors load fastest, in an array that `make` provides with some padding.
    fn aligned(len: usize, make: impl FnOnce(usize, usize) -> Option<Vec<T>>) -> Option<Buffer<T>> {
        let size = size_of::<T>();
        let padding = if len.saturating_mul(size) >= ALIGN_FROM { ALIGNMENT / size } else { 0 };
        let values = make(len, padding)?;
        let start = if padding > 0 { values.as_ptr().align_offset(ALIGNMENT).min(padding) } else { 0 };
        Some(Buffer { array: Array1::from_vec(values), start, len, bin: 0 })
    }

    /// The elements as an array of their own, where they lie. It keeps the padding, which nobody sees.
    fn into_array(mut self) -> Array1<T> {
        let array = std::mem::replace(&mut self.array, Array1::from_vec(Vec::new()));
        array.slice_move(s![self.start..self.start + self.len])
    }

    pub(crate) fn as_slice(&self) -> &[T] {
        let all = self.array.as_slice().expect("one-dimensional arrays made from a Vec are contiguous");
        &all[self.start..self.start + self.len]
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        let all = self.array.as_slice_mut().expect("one-dimensional arrays made from a Vec are contiguous");
        &mut all[self.start..self.start + self.len]
    }
}

impl<T: Element> From<Vec<T>> for Buffer<T> {
    fn from(values: Vec<T>) -> Buffer<T> {
        let len = values.len();
        Buffer { array: Array1::from_vec(values), start: 0, len, bin: 0 }
    }
}

impl<T: Element> Drop for Buffer<T> {
    fn drop(&mut self) {
        if self.bin != 0 {
            return;
        }
        let array = std::mem::replace(&mut self.array, Array1::from_vec(Vec::new()));
        let (values, _) = array.into_raw_vec_and_offset();
        pool::put(values);
    }
}

/// A buffer of any element type.
#[derive(Debug)]
pub enum Storage {
    /// truth values
    Bool(Buffer<bool>),
    /// integers
    I64(Buffer<i64>),
    /// single precision
    F32(Buffer<f32>),
    /// double precision
    F64(Buffer<f64>),
}

macro_rules! each {
    ($self:expr, $b:ident => $body:expr) => {
        match $self {
            Storage::Bool($b) => $body,
            Storage::I64($b) => $body,
            Storage::F32($b) => $body,
            Storage::F64($b) => $body,
        }
    };
}

impl Storage {
    /// Room for `len` elements of no particular value, to be written before anyone reads them; `None` if there is none.
    #[inline]
    pub(crate) fn stale(dtype: DType, len: usize) -> Option<Handle> {
        Handle::stale(dtype, len)
    }

    /// `len` zeros (or `false`); `None` if there is no room.
    pub(crate) fn zeros(dtype: DType, len: usize) -> Option<Handle> {
        Handle::zeros(dtype, len)
    }

    /// Room for working memory of a bounded size, as [`Storage::stale`].
    ///
    /// # Panics
    /// If there is no room.
    #[inline]
    #[track_caller]
    pub(crate) fn scratch(dtype: DType, len: usize) -> Handle {
        let Some(handle) = Handle::stale(dtype, len) else {
            panic!("no memory for {len} elements of type {dtype}")
        };
        handle
    }

    /// Storage that belongs to no shelf.
    fn large(dtype: DType, len: usize, zero: bool) -> Option<Storage> {
        Some(match dtype {
            DType::Bool => Storage::Bool(Buffer::large(len, zero)?),
            DType::I64 => Storage::I64(Buffer::large(len, zero)?),
            DType::F32 => Storage::F32(Buffer::large(len, zero)?),
            DType::F64 => Storage::F64(Buffer::large(len, zero)?),
        })
    }

    /// Makes a recycled storage `len` elements long.
    fn set_len(&mut self, len: usize) {
        each!(self, b => b.len = len)
    }

    fn bin(&self) -> usize {
        each!(self, b => b.bin as usize)
    }

    /// What it takes up.
    fn bytes(&self) -> usize {
        each!(self, b => std::mem::size_of_val(b.array.as_slice().unwrap_or_default()))
    }

    pub(crate) fn dtype(&self) -> DType {
        match self {
            Storage::Bool(_) => DType::Bool,
            Storage::I64(_) => DType::I64,
            Storage::F32(_) => DType::F32,
            Storage::F64(_) => DType::F64,
        }
    }

    pub(crate) fn len(&self) -> usize {
        each!(self, b => b.len)
    }

    pub(crate) fn block(&self) -> Block<'_> {
        each!(self, b => Element::block(b.as_slice()))
    }

    pub(crate) fn block_mut(&mut self) -> BlockMut<'_> {
        each!(self, b => Element::block_mut(b.as_mut_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_a_kilobyte_and_more_start_on_a_cache_line() {
        for len in [256, 1000, 4096, 100_001] {
            let mut h = Storage::zeros(DType::F32, len).unwrap();
            assert_eq!(h.len(), len);
            let BlockMut::F32(s) = h.block_mut() else { panic!("made as f32") };
            assert_eq!(s.as_ptr().align_offset(ALIGNMENT), 0);
            assert!(s.len() == len && s.iter().all(|&v| v == 0.0));
        }
    }

    #[test]
    fn recycled_memory_is_zeroed_on_request() {
        for len in [3, 5000, 100_000] {
            let mut h = Storage::stale(DType::F64, len).unwrap();
            let BlockMut::F64(s) = h.block_mut() else { panic!("made as f64") };
            s.fill(3.0);
            drop(h);
            let mut h = Storage::zeros(DType::F64, len).unwrap();
            let BlockMut::F64(s) = h.block_mut() else { panic!("made as f64") };
            assert!(s.iter().all(|&v| v == 0.0));
        }
    }
}
