//! `Tensor`: a shape, strides and an offset over a shared buffer, with the semantics of a value.

use std::sync::Arc;

use crate::axes::Axis;
use crate::buffer::{Handle, Holding};
use crate::create::room;
use crate::dtype::{Block, BlockMut, DType, Element};
use crate::error::{Here, Result, TensorFacts, or_panic, refuse};
use crate::meant::Meant;
use crate::shape::{Dims, Shape, Strides};
use crate::task::{self, Does, Read, Space, Task, To};

/// An n-dimensional array of one element type.
///
/// A tensor is a value: a clone is a reference count, views (`expand`, `permute`, `narrow`, ...) share the buffer, and
/// every write first copies the buffer if anyone else holds it, so no view ever sees another's write.
///
/// ```
/// use foldback_tensor::tensor;
/// let a = tensor![[1.0, 2.0], [3.0, 4.0]];
/// let b = a.clone();
/// let mut c = a.t();
/// c.add_(1.0)?;
/// assert_eq!(a, b);
/// assert_eq!(c, tensor![[2.0, 4.0], [3.0, 5.0]]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
pub struct Tensor {
    pub(crate) storage: Handle,
    pub(crate) layout: Layout,
}

impl Clone for Tensor {
    /// What may fail comes first, so that nothing is put down on the way for the case that it does.
    #[inline]
    fn clone(&self) -> Tensor {
        let layout = self.layout.clone();
        Tensor { storage: self.storage.clone(), layout }
    }
}

/// How the elements of a tensor are found in its buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) shape: Shape,
    /// `None`: row-major from the start of the buffer on, as almost every tensor is. So one takes 72 bytes and not 112: W8 takes 0.97
    /// of the instructions, forward and back. Clones share it, since nobody changes it.
    strided: Option<Arc<Strided>>,
    /// Which axes of size 1 were made on purpose, see Note [Axes that are meant].
    pub(crate) meant: Meant,
}

/// Any other way for elements to lie in a buffer.
#[derive(Debug, PartialEq, Eq)]
struct Strided {
    strides: Dims<isize>,
    offset: usize,
    /// Whether somebody asked for elements to share a place in memory. A result that is compressed looks the same,
    /// but owns its elements: writing to it gives each its own place.
    expanded: bool,
    /// Whether elements lie one after another in row-major order all the same: asked so often that the constructor looks once.
    contiguous: bool,
}

impl Layout {
    #[inline]
    pub(crate) fn row_major(shape: Shape) -> Layout {
        Layout { shape, strided: None, meant: Meant::NONE }
    }

    /// Any strides. Sizes and strides of a layout are not changed afterwards.
    pub(crate) fn strided(shape: Shape, strides: Dims<isize>, offset: usize, expanded: bool) -> Layout {
        let contiguous = is_row_major(&shape, &strides);
        let plain = contiguous && offset == 0 && !expanded && strides == shape.row_major();
        let own = || Arc::new(Strided { strides, offset, expanded, contiguous });
        Layout { shape, strided: (!plain).then(own), meant: Meant::NONE }
    }

    /// Row-major over the axes that are not still, with stride 0 on those.
    pub(crate) fn with_still_axes(shape: Shape, still: &[bool]) -> Layout {
        if !still.contains(&true) {
            return Layout::row_major(shape);
        }
        let mut strides = Dims::from_elem(0, shape.rank());
        let mut step = 1isize;
        for i in (0..shape.rank()).rev() {
            if !still[i] {
                strides[i] = step;
                step *= shape[i].max(1) as isize;
            }
        }
        Layout::strided(shape, strides, 0, false)
    }

    /// Where the first element is.
    #[inline]
    pub(crate) fn offset(&self) -> usize {
        self.strided.as_ref().map_or(0, |s| s.offset)
    }

    /// The strides, if they are not those of the shape.
    #[inline]
    pub(crate) fn own_strides(&self) -> Option<&[isize]> {
        Some(&self.strided.as_ref()?.strides)
    }

    pub(crate) fn strides(&self) -> Dims<isize> {
        self.strided.as_ref().map_or_else(|| self.shape.row_major(), |s| s.strides.clone())
    }

    /// Whether somebody asked for elements to share a place in memory.
    pub(crate) fn is_expanded(&self) -> bool {
        self.strided.as_ref().is_some_and(|s| s.expanded)
    }

    /// Whether a write would go to several elements at once, as far as the user can know.
    pub(crate) fn overlaps(&self) -> bool {
        let shared = |s: &Strided| s.strides.iter().zip(&self.shape.0).any(|(&s, &n)| s == 0 && n > 1);
        !self.shape.contains(&0) && self.strided.as_ref().is_some_and(|s| s.expanded && shared(s))
    }

    /// Whether elements lie one after another in row-major order.
    #[inline]
    pub(crate) fn is_contiguous(&self) -> bool {
        self.strided.as_ref().is_none_or(|s| s.contiguous)
    }
}

/// Whether elements of this shape, if there are any, share one place; without strides they are row-major.
#[inline]
pub(crate) fn is_one(shape: &[usize], strides: Option<&[isize]>) -> bool {
    match strides {
        Some(strides) => shape.iter().zip(strides).all(|(&size, &stride)| size == 1 || stride == 0),
        None => shape.iter().all(|&size| size == 1),
    }
}

/// The stride of an axis; without strides elements are row-major.
#[inline]
pub(crate) fn stride_of(shape: &[usize], strides: Option<&[isize]>, axis: usize) -> isize {
    match strides {
        Some(strides) => strides[axis],
        None => shape[axis + 1..].iter().fold(1, |step, &size| step.saturating_mul(size.max(1) as isize)),
    }
}

pub(crate) fn is_row_major(shape: &[usize], strides: &[isize]) -> bool {
    let mut step = 1isize;
    for (&size, &stride) in shape.iter().zip(strides).rev() {
        if size == 0 {
            return true;
        }
        if size != 1 {
            if stride != step {
                return false;
            }
            step *= size as isize;
        }
    }
    true
}

/// The axes from the outermost to the innermost, if elements lie one after another in this order.
pub(crate) fn order_of(shape: &[usize], strides: &[isize]) -> Option<Dims<usize>> {
    let mut order: Dims<usize> = (0..shape.len()).collect();
    order.sort_by_key(|&axis| (shape[axis] != 1, -strides[axis]));
    let sizes: Dims<usize> = order.iter().map(|&axis| shape[axis]).collect();
    let steps: Dims<isize> = order.iter().map(|&axis| strides[axis]).collect();
    is_row_major(&sizes, &steps).then_some(order)
}

impl Tensor {
    /// Wraps a freshly written buffer of exactly `shape.numel()` elements, row-major.
    #[inline]
    pub(crate) fn from_storage(storage: impl Into<Handle>, shape: Shape) -> Tensor {
        let storage = storage.into();
        debug_assert_eq!(storage.len(), shape.numel());
        Tensor { storage, layout: Layout::row_major(shape) }
    }

    /// Another view of the same buffer.
    pub(crate) fn with_layout(&self, layout: Layout) -> Tensor {
        Tensor { storage: self.storage.clone(), layout }
    }

    /// The sizes, outermost axis first.
    #[inline]
    pub fn shape(&self) -> &Shape {
        &self.layout.shape
    }

    /// The sizes as a slice.
    #[inline]
    pub fn dims(&self) -> &[usize] {
        &self.layout.shape
    }

    /// The size of one axis; negative axes count from the end.
    ///
    /// # Errors
    /// `AxisOutOfRange`, also for a 0-d tensor.
    #[track_caller]
    pub fn size(&self, axis: impl Into<Axis>) -> Result<usize> {
        let i = self.shape().own_axis("size", axis).here()?;
        Ok(self.layout.shape[i])
    }

    /// The sizes as an array, for a pattern: `let [n, d] = x.sizes()?`.
    ///
    /// # Errors
    /// `Sizes` if there are not as many axes as the pattern has names.
    ///
    /// ```
    /// use foldback_tensor::Tensor;
    /// let x = Tensor::zeros([2, 3]);
    /// let [n, d] = x.sizes()?;
    /// assert_eq!(x.reshape((d, n, -1))?.dims(), [3, 2, 1]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn sizes<const N: usize>(&self) -> Result<[usize; N]> {
        self.shape().sizes()
    }

    /// How many axes.
    #[inline]
    pub fn rank(&self) -> usize {
        self.layout.shape.rank()
    }

    /// How many elements.
    #[inline]
    pub fn numel(&self) -> usize {
        self.layout.shape.numel()
    }

    /// The element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.storage.dtype()
    }

    /// Steps per axis through the buffer, in elements; 0 where the tensor is expanded, negative where it is flipped.
    #[inline]
    pub fn strides(&self) -> Strides {
        Strides(self.layout.strides())
    }

    /// Whether the elements lie one after another in row-major order.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.layout.is_contiguous()
    }

    /// Whether this is an expanded view, in which several elements share one place in memory. In-place operations and
    /// outputs refuse such a tensor; a contiguous copy is its own.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let view = tensor![1.0].expand([3])?;
    /// assert!(view.overlaps_itself());
    /// assert!(!(&view * 2.0).overlaps_itself());
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    pub fn overlaps_itself(&self) -> bool {
        self.layout.overlaps()
    }

    /// Whether two tensors share one buffer; a shared buffer is copied before a write. A single number has no buffer to
    /// share.
    pub fn shares_buffer_with(&self, other: &Tensor) -> bool {
        self.storage.is_same(&other.storage)
    }

    /// What it holds in memory; none if that is a single number.
    #[doc(hidden)]
    pub fn holding(&self) -> Option<Holding> {
        self.storage.holding()
    }

    /// Itself if it is contiguous, else a row-major copy of its elements.
    ///
    /// # Panics
    /// If this is an expanded view too large to store; [`Tensor::try_contiguous`] returns an error instead.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let t = tensor![[1.0, 2.0], [3.0, 4.0]].t();
    /// assert_eq!(t.contiguous().strides(), [2, 1]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn contiguous(&self) -> Tensor {
        or_panic(self.laid_out("contiguous"))
    }

    /// [`Tensor::contiguous`] without a panic.
    ///
    /// # Errors
    /// `TooLarge` if this is an expanded view that no memory can hold.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let view = tensor![1.0].expand([1usize << 50])?;
    /// assert!(view.try_contiguous().is_err());
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn try_contiguous(&self) -> Result<Tensor> {
        self.laid_out("contiguous").here()
    }

    /// [`Tensor::contiguous`] in the name of another operation.
    pub(crate) fn laid_out(&self, op: &'static str) -> Result<Tensor> {
        if self.is_contiguous() { Ok(self.clone()) } else { self.copied(op, self.dtype()) }
    }

    /// A row-major copy, cast to a type.
    pub(crate) fn copied(&self, op: &'static str, dtype: DType) -> Result<Tensor> {
        self.same(op, To::Dense(dtype), dtype)
    }

    /// The same elements, cast to a type, in a new tensor of one kind or the other.
    pub(crate) fn same(&self, op: &'static str, to: To<'_>, dtype: DType) -> Result<Tensor> {
        let (reads, space) = (&[Read::Tensor(self, dtype)], Space::Of(self.shape()));
        task::make(Task { op, reads, space, does: Does::Same, to: &mut [to] })
    }

    /// Writes the elements in row-major order into a block of as many, cast to its type.
    pub(crate) fn copy_into(&self, op: &'static str, out: BlockMut<'_>) -> Result<()> {
        let (reads, space) = (&[Read::Tensor(self, out.dtype())], Space::Of(self.shape()));
        task::change(Task { op, reads, space, does: Does::Same, to: &mut [To::Block(out)] })?;
        Ok(())
    }

    /// The elements as one block, if they are contiguous.
    pub(crate) fn as_block(&self) -> Option<Block<'_>> {
        self.is_contiguous().then(|| self.storage.block().range(self.layout.offset(), self.numel()))
    }

    /// The elements in row-major order, without a copy, if they lie like that and are of type `T`. A pointwise result lies as its
    /// operands do: that of a transposed tensor is transposed, and [`Tensor::contiguous`] makes it row-major.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].as_slice::<f32>(), Some(&[1.0, 2.0][..]));
    /// assert_eq!(tensor![1.0, 2.0].as_slice::<f64>(), None);
    /// let twice = tensor![[1.0, 2.0], [3.0, 4.0]].t() * 2.0;
    /// assert_eq!((twice.as_slice::<f32>(), twice.contiguous().as_slice()), (None, Some(&[2.0f32, 6.0, 4.0, 8.0][..])));
    /// ```
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        T::slice(self.as_block()?)
    }

    /// Whether a write can use the buffer as it is.
    #[inline]
    pub(crate) fn is_writable_in_place(&self) -> bool {
        self.is_contiguous() && self.storage.is_unique()
    }

    /// Copies the elements if the buffer is shared or they do not lie in row-major order: what has to be done before a
    /// write.
    #[inline]
    pub(crate) fn make_writable(&mut self, op: &'static str) -> Result<()> {
        if !self.is_writable_in_place() {
            *self = self.copied(op, self.dtype())?;
        }
        Ok(())
    }

    /// Takes other memory if the buffer is shared or the elements do not lie in row-major order: what has to be done before
    /// all elements are written.
    pub(crate) fn make_room(&mut self, op: &'static str) -> Result<()> {
        if !self.is_writable_in_place() {
            *self = Tensor::from_storage(room(op, self.shape(), self.dtype())?, self.shape().clone());
        }
        Ok(())
    }

    /// The elements for writing.
    ///
    /// # Panics
    /// Unless this tensor is fresh or has been made writable.
    pub(crate) fn block_mut(&mut self) -> BlockMut<'_> {
        assert!(self.is_contiguous(), "a tensor is made writable before it is written");
        let (offset, n) = (self.layout.offset(), self.numel());
        match self.storage.block_mut() {
            BlockMut::Bool(s) => BlockMut::Bool(&mut s[offset..offset + n]),
            BlockMut::I64(s) => BlockMut::I64(&mut s[offset..offset + n]),
            BlockMut::F32(s) => BlockMut::F32(&mut s[offset..offset + n]),
            BlockMut::F64(s) => BlockMut::F64(&mut s[offset..offset + n]),
        }
    }

    /// Refuses an element type other than the expected one; `operand` is what this tensor is, with its article.
    pub(crate) fn expect_dtype(
        &self,
        op: &'static str,
        operand: &'static str,
        expected: DType,
    ) -> Result<()> {
        if self.dtype() == expected {
            Ok(())
        } else {
            refuse(TensorFacts::DTypeMismatch { op, operand, expected, found: self.dtype() })
        }
    }

    /// Drops the axes whose flag is false, all of size 1.
    pub(crate) fn keep_axes(mut self, kept: &[bool]) -> Tensor {
        let (l, own) = (&self.layout, self.strides());
        let keep = |i: &usize| kept[*i];
        let strides = (0..kept.len()).filter(keep).map(|i| own[i]).collect();
        let shape = Shape((0..kept.len()).filter(keep).map(|i| l.shape[i]).collect());
        let axes: Dims<usize> = (0..kept.len()).filter(keep).collect();
        let meant = l.meant.reordered(kept.len(), &axes);
        self.layout = Layout { meant, ..Layout::strided(shape, strides, l.offset(), l.is_expanded()) };
        self
    }

    /// This tensor with size 1 on those flagged axes that it is expanded over: its first elements there stand for all.
    pub(crate) fn once_along(&self, flags: &[bool]) -> Tensor {
        let mut shape = self.shape().clone();
        let strides = self.layout.strides();
        for ((size, &step), &flagged) in shape.iter_mut().zip(&strides).zip(flags) {
            if flagged && step == 0 && *size > 1 {
                *size = 1;
            }
        }
        if shape == *self.shape() {
            return self.clone();
        }
        self.with_layout(Layout::strided(shape, strides, self.layout.offset(), self.layout.is_expanded()))
    }

    /// Inserts axes of size 1 until the shape is `target`, which must differ in nothing else.
    pub(crate) fn unsqueeze_to(mut self, target: &Shape) -> Tensor {
        if self.shape() == target {
            return self;
        }
        let (l, own) = (&self.layout, self.strides());
        let mut strides: Dims<isize> = Dims::new();
        let mut next = 0;
        for &size in target.iter() {
            if next < l.shape.len() && l.shape[next] == size {
                strides.push(own[next]);
                next += 1;
            } else {
                debug_assert_eq!(size, 1);
                strides.push(0);
            }
        }
        debug_assert_eq!(next, l.shape.len());
        self.layout = Layout::strided(target.clone(), strides, l.offset(), l.is_expanded());
        self
    }
}
