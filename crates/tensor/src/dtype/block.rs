//! Blocks: contiguous elements of some type, borrowed, which is what kernels read and write.

use super::{DType, Element};

/// Contiguous elements of some type, read by a kernel.
#[derive(Clone, Copy, Debug)]
pub enum Block<'a> {
    /// truth values
    Bool(&'a [bool]),
    /// integers
    I64(&'a [i64]),
    /// single precision
    F32(&'a [f32]),
    /// double precision
    F64(&'a [f64]),
}

/// Contiguous elements of some type, written by a kernel.
#[derive(Debug)]
pub enum BlockMut<'a> {
    /// truth values
    Bool(&'a mut [bool]),
    /// integers
    I64(&'a mut [i64]),
    /// single precision
    F32(&'a mut [f32]),
    /// double precision
    F64(&'a mut [f64]),
}

/// Runs an expression with the typed slice inside a block.
macro_rules! with_block {
    ($enum:ident, $block:expr, $s:ident => $body:expr) => {
        match $block {
            $crate::dtype::$enum::Bool($s) => $body,
            $crate::dtype::$enum::I64($s) => $body,
            $crate::dtype::$enum::F32($s) => $body,
            $crate::dtype::$enum::F64($s) => $body,
        }
    };
}
pub(crate) use with_block;

impl<'a> Block<'a> {
    /// The element type.
    pub fn dtype(&self) -> DType {
        match self {
            Block::Bool(_) => DType::Bool,
            Block::I64(_) => DType::I64,
            Block::F32(_) => DType::F32,
            Block::F64(_) => DType::F64,
        }
    }

    /// How many elements.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        with_block!(Block, self, s => s.len())
    }

    /// The elements `start .. start + len`.
    ///
    /// # Panics
    /// If the range is not inside the block.
    #[inline]
    pub fn range(&self, start: usize, len: usize) -> Block<'a> {
        match self {
            Block::Bool(s) => Block::Bool(&s[start..start + len]),
            Block::I64(s) => Block::I64(&s[start..start + len]),
            Block::F32(s) => Block::F32(&s[start..start + len]),
            Block::F64(s) => Block::F64(&s[start..start + len]),
        }
    }
}

impl Block<'_> {
    /// Whether it is the same memory.
    pub(crate) fn is_same(self, other: Block<'_>) -> bool {
        match (self, other) {
            (Block::Bool(a), Block::Bool(b)) => std::ptr::eq(a, b),
            (Block::I64(a), Block::I64(b)) => std::ptr::eq(a, b),
            (Block::F32(a), Block::F32(b)) => std::ptr::eq(a, b),
            (Block::F64(a), Block::F64(b)) => std::ptr::eq(a, b),
            _ => false,
        }
    }

    /// Copies the elements to a block of the same type and length.
    #[inline]
    pub(crate) fn copy_to(self, out: BlockMut<'_>) {
        match (self, out) {
            (Block::Bool(a), BlockMut::Bool(b)) => b.copy_from_slice(a),
            (Block::I64(a), BlockMut::I64(b)) => b.copy_from_slice(a),
            (Block::F32(a), BlockMut::F32(b)) => b.copy_from_slice(a),
            (Block::F64(a), BlockMut::F64(b)) => b.copy_from_slice(a),
            _ => unreachable!("a block is copied to one of its own type"),
        }
    }
}

impl BlockMut<'_> {
    /// Fills a block with the only element of another one of its type.
    #[inline]
    pub(crate) fn fill_from(self, one: Block<'_>) {
        match (self, one) {
            (BlockMut::Bool(b), Block::Bool(a)) => b.fill(a[0]),
            (BlockMut::I64(b), Block::I64(a)) => b.fill(a[0]),
            (BlockMut::F32(b), Block::F32(a)) => b.fill(a[0]),
            (BlockMut::F64(b), Block::F64(a)) => b.fill(a[0]),
            _ => unreachable!("a block is filled from one of its own type"),
        }
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.as_block().dtype()
    }

    /// How many elements.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        with_block!(BlockMut, self, s => s.len())
    }

    /// A shorter borrow of the elements `start .. start + len`.
    ///
    /// # Panics
    /// If the range is not inside the block.
    #[inline]
    pub fn range(&mut self, start: usize, len: usize) -> BlockMut<'_> {
        match self {
            BlockMut::Bool(s) => BlockMut::Bool(&mut s[start..start + len]),
            BlockMut::I64(s) => BlockMut::I64(&mut s[start..start + len]),
            BlockMut::F32(s) => BlockMut::F32(&mut s[start..start + len]),
            BlockMut::F64(s) => BlockMut::F64(&mut s[start..start + len]),
        }
    }

    /// The same elements, for reading.
    pub fn as_block(&self) -> Block<'_> {
        match self {
            BlockMut::Bool(s) => Block::Bool(s),
            BlockMut::I64(s) => Block::I64(s),
            BlockMut::F32(s) => Block::F32(s),
            BlockMut::F64(s) => Block::F64(s),
        }
    }
}

impl<'a> BlockMut<'a> {
    /// The elements `start .. start + len`, borrowed for as long as all of them.
    pub(crate) fn into_range(self, start: usize, len: usize) -> BlockMut<'a> {
        self.split_at(start).1.split_at(len).0
    }

    /// Two blocks: the elements before `mid`, and the rest.
    pub(crate) fn split_at(self, mid: usize) -> (BlockMut<'a>, BlockMut<'a>) {
        macro_rules! split {
            ($s:expr, $v:ident) => {{
                let (a, b) = $s.split_at_mut(mid);
                (BlockMut::$v(a), BlockMut::$v(b))
            }};
        }
        match self {
            BlockMut::Bool(s) => split!(s, Bool),
            BlockMut::I64(s) => split!(s, I64),
            BlockMut::F32(s) => split!(s, F32),
            BlockMut::F64(s) => split!(s, F64),
        }
    }
}

/// The elements of a block whose type is known.
pub(crate) fn typed_mut<T: Element>(block: BlockMut<'_>) -> &mut [T] {
    T::slice_mut(block).expect("the storage was made for this type")
}
