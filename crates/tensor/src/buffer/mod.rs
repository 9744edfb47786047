//! Where elements live: a reference-counted ndarray array whose memory is recycled when its last holder drops it.

mod pool;

use ndarray::Array1;

pub(crate) use pool::with_small;
#[allow(unreachable_pub, reason = "`Element` names them in hidden methods")]
pub use pool::{Pool, Small, release_memory, set_pool_limit};

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
}

impl<T: Element> Buffer<T> {
    /// Room for `len` elements whose contents are whatever the pool held: initialised, but of no meaning.
    pub(crate) fn stale(len: usize) -> Buffer<T> {
        Buffer::from_pool(len, false)
    }

    /// `len` zeros.
    pub(crate) fn zeros(len: usize) -> Buffer<T> {
        Buffer::from_pool(len, true)
    }

    fn from_pool(len: usize, zero: bool) -> Buffer<T> {
        let size = size_of::<T>();
        let padding = if len.saturating_mul(size) >= ALIGN_FROM { ALIGNMENT / size } else { 0 };
        let mut values = T::pool().take(len, padding, zero);
        let start = if padding > 0 { values.as_ptr().align_offset(ALIGNMENT).min(padding) } else { 0 };
        values.truncate(len + padding);
        Buffer { array: Array1::from_vec(values), start, len }
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
        Buffer { array: Array1::from_vec(values), start: 0, len }
    }
}

impl<T: Element> Drop for Buffer<T> {
    fn drop(&mut self) {
        let array = std::mem::replace(&mut self.array, Array1::from_vec(Vec::new()));
        let (values, _) = array.into_raw_vec_and_offset();
        T::pool().put(values);
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
    /// Room for `len` elements of no particular value, to be written before anyone reads them.
    pub(crate) fn stale(dtype: DType, len: usize) -> Storage {
        match dtype {
            DType::Bool => Storage::Bool(Buffer::stale(len)),
            DType::I64 => Storage::I64(Buffer::stale(len)),
            DType::F32 => Storage::F32(Buffer::stale(len)),
            DType::F64 => Storage::F64(Buffer::stale(len)),
        }
    }

    /// `len` zeros (or `false`).
    pub(crate) fn zeros(dtype: DType, len: usize) -> Storage {
        match dtype {
            DType::Bool => Storage::Bool(Buffer::zeros(len)),
            DType::I64 => Storage::I64(Buffer::zeros(len)),
            DType::F32 => Storage::F32(Buffer::zeros(len)),
            DType::F64 => Storage::F64(Buffer::zeros(len)),
        }
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
    fn large_buffers_start_on_a_cache_line() {
        for len in [256, 1000, 4096, 100_001] {
            let b: Buffer<f32> = Buffer::zeros(len);
            assert_eq!(b.as_slice().as_ptr().align_offset(ALIGNMENT), 0);
            assert_eq!(b.as_slice().len(), len);
            assert!(b.as_slice().iter().all(|&v| v == 0.0));
        }
    }

    #[test]
    fn recycled_memory_is_zeroed_on_request() {
        let mut b: Buffer<f64> = Buffer::stale(5000);
        b.as_mut_slice().fill(3.0);
        drop(b);
        assert!(Buffer::<f64>::zeros(5000).as_slice().iter().all(|&v| v == 0.0));
    }
}
