//! The handle that a tensor has on its elements, and the shelves on which small storages wait, whole, to be used again.
//!
//! A tiny operation should not ask the allocator for anything. A single number lies in the handle itself. When the last handle on a small storage is dropped,
//! the storage stays as it is, count and all, on a shelf of that thread, and the next tensor of about that size takes it.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use ndarray::Array1;

use super::pool::class_of;
use super::{Buffer, Storage, epoch, is_pool_on};
use crate::dtype::{Block, BlockMut, DType, Element};

/// Storages of at most this many bytes go to a shelf.
pub(super) const SMALL_BYTES: usize = 64 << 10;

/// Bytes that one compartment of a shelf holds at most, and storages.
const KEPT_BYTES: usize = 256 << 10;
const KEPT: usize = 256;

/// What a tensor holds its elements by: a single number itself, or a counted reference to a storage, which is writable
/// while it is the only one.
#[derive(Clone)]
pub(crate) struct Handle(Held);

/// A storage as those see it who count memory: which one it is, how large, and how many handles there are on it.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holding {
    /// its address, which no other storage has while it lives
    pub storage: usize,
    pub bytes: usize,
    pub holders: usize,
}

/// What a storage for so many elements takes up, up to an eighth more than they do; nothing for a single number.
#[doc(hidden)]
pub fn storage_bytes(dtype: DType, len: usize) -> usize {
    let room = match bin_of(len, dtype.size()) {
        _ if len == 1 => 0,
        Some(bin) if len > 0 => room_of(bin),
        Some(_) => 0,
        None => class_of(len).unwrap_or(len),
    };
    room.saturating_mul(dtype.size())
}

#[derive(Clone)]
enum Held {
    One(One),
    /// `None` only while it is being dropped
    Shared(Option<Arc<Storage>>),
}

/// A single number, as the blocks of its type.
#[derive(Clone, Copy)]
enum One {
    Bool(Word<bool>),
    I64(Word<i64>),
    F32(Word<f32>),
    F64(Word<f64>),
}

/// A number in a word of its own, so that handles are copied by words.
#[derive(Clone, Copy)]
#[repr(align(8))]
struct Word<T>([T; 1]);

impl Handle {
    /// Room for `len` elements whose contents are whatever an earlier tensor left: initialised, but of no meaning.
    #[inline]
    pub(super) fn stale(dtype: DType, len: usize) -> Option<Handle> {
        if len == 1 {
            return Some(Handle(Held::One(match dtype {
                DType::Bool => One::Bool(Word([false])),
                DType::I64 => One::I64(Word([0])),
                DType::F32 => One::F32(Word([0.0])),
                DType::F64 => One::F64(Word([0.0])),
            })));
        }
        Some(Handle(Held::Shared(Some(Handle::stale_storage(dtype, len)?))))
    }

    fn stale_storage(dtype: DType, len: usize) -> Option<Arc<Storage>> {
        let Some(bin) = bin_of(len, dtype.size()) else {
            return Some(Arc::new(Storage::large(dtype, len, false)?));
        };
        let found = SHELVES.try_with(|shelves| shelves.borrow_mut().take(dtype, bin)).ok().flatten();
        if let Some(mut arc) = found
            && let Some(storage) = unique(&mut arc)
        {
            storage.set_len(len);
            return Some(arc);
        }
        Some(Arc::new(Storage::for_shelf(dtype, len, bin)))
    }

    /// `len` zeros (or `false`).
    pub(super) fn zeros(dtype: DType, len: usize) -> Option<Handle> {
        if len != 1 && bin_of(len, dtype.size()).is_none() {
            return Some(Handle(Held::Shared(Some(Arc::new(Storage::large(dtype, len, true)?)))));
        }
        let mut handle = Handle::stale(dtype, len)?;
        match handle.block_mut() {
            BlockMut::Bool(s) => s.fill(false),
            BlockMut::I64(s) => s.fill(0),
            BlockMut::F32(s) => s.fill(0.0),
            BlockMut::F64(s) => s.fill(0.0),
        }
        Some(handle)
    }

    #[inline]
    pub(crate) fn dtype(&self) -> DType {
        match &self.0 {
            Held::One(One::Bool(_)) => DType::Bool,
            Held::One(One::I64(_)) => DType::I64,
            Held::One(One::F32(_)) => DType::F32,
            Held::One(One::F64(_)) => DType::F64,
            Held::Shared(arc) => lives(arc).dtype(),
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Held::One(_) => 1,
            Held::Shared(arc) => lives(arc).len(),
        }
    }

    /// All elements.
    #[inline]
    pub(crate) fn block(&self) -> Block<'_> {
        match &self.0 {
            Held::One(One::Bool(Word(v))) => Block::Bool(v),
            Held::One(One::I64(Word(v))) => Block::I64(v),
            Held::One(One::F32(Word(v))) => Block::F32(v),
            Held::One(One::F64(Word(v))) => Block::F64(v),
            Held::Shared(arc) => lives(arc).block(),
        }
    }

    /// All elements for writing.
    ///
    /// # Panics
    /// If the storage has another holder; a fresh one has none.
    #[inline]
    pub(crate) fn block_mut(&mut self) -> BlockMut<'_> {
        match &mut self.0 {
            Held::One(One::Bool(Word(v))) => BlockMut::Bool(v),
            Held::One(One::I64(Word(v))) => BlockMut::I64(v),
            Held::One(One::F32(Word(v))) => BlockMut::F32(v),
            Held::One(One::F64(Word(v))) => BlockMut::F64(v),
            Held::Shared(arc) => {
                unique(arc.as_mut().expect(LIVES)).expect("fresh storage has one holder").block_mut()
            }
        }
    }

    /// Whether nobody else holds the elements.
    #[inline]
    pub(crate) fn is_unique(&self) -> bool {
        match &self.0 {
            Held::One(_) => true,
            Held::Shared(arc) => Arc::strong_count(lives(arc)) == 1,
        }
    }

    /// The elements as an array of their own, without a copy; the handle as it was if somebody else holds them, or if it is
    /// a single number.
    ///
    /// # Panics
    /// If the elements are of another type.
    pub(crate) fn into_array<T: Element>(mut self) -> Result<Array1<T>, Handle> {
        let Held::Shared(arc) = &mut self.0 else { return Err(self) };
        match Arc::try_unwrap(arc.take().expect(LIVES)) {
            Ok(storage) => Ok(T::buffer(storage).expect("the type was compared").into_array()),
            Err(arc) => Err(Handle(Held::Shared(Some(arc)))),
        }
    }

    /// The storage; none for a single number, which lies in the handle itself.
    pub(crate) fn holding(&self) -> Option<Holding> {
        let Held::Shared(arc) = &self.0 else { return None };
        let arc = lives(arc);
        let (dtype, len) = (arc.dtype(), arc.len());
        // One that came in from outside has no room to spare.
        let is_own = arc.bin() != 0 || arc.bytes() > len * dtype.size();
        let bytes = if is_own { storage_bytes(dtype, len) } else { len * dtype.size() };
        Some(Holding { storage: Arc::as_ptr(arc).addr(), bytes, holders: Arc::strong_count(arc) })
    }

    /// Whether two handles hold one storage; a single number is never shared.
    pub(crate) fn is_same(&self, other: &Handle) -> bool {
        match (&self.0, &other.0) {
            (Held::Shared(a), Held::Shared(b)) => Arc::ptr_eq(lives(a), lives(b)),
            _ => false,
        }
    }
}

const LIVES: &str = "a handle that lives holds a storage";

#[inline]
fn lives(arc: &Option<Arc<Storage>>) -> &Arc<Storage> {
    arc.as_ref().expect(LIVES)
}

/// The storage for writing, if nobody else holds it: `Arc::get_mut` for storages, which nobody refers to weakly. Without
/// its locked instructions, which would also wait for all streaming stores to reach memory.
#[inline]
fn unique(arc: &mut Arc<Storage>) -> Option<&mut Storage> {
    if Arc::strong_count(arc) != 1 {
        return None;
    }
    // What other holders did before they let go has happened before what follows.
    fence(Ordering::Acquire);
    // SAFETY: the count is 1 and `arc`, borrowed for writing, is that one; there are no weak references, since this
    // module makes none and the storage's `Arc` never leaves it. So nobody else can reach the storage.
    Some(unsafe { &mut *Arc::as_ptr(arc).cast_mut() })
}

impl From<Storage> for Handle {
    fn from(storage: Storage) -> Handle {
        Handle(match storage.block() {
            Block::Bool(&[v]) => Held::One(One::Bool(Word([v]))),
            Block::I64(&[v]) => Held::One(One::I64(Word([v]))),
            Block::F32(&[v]) => Held::One(One::F32(Word([v]))),
            Block::F64(&[v]) => Held::One(One::F64(Word([v]))),
            _ => Held::Shared(Some(Arc::new(storage))),
        })
    }
}

impl Drop for Handle {
    #[inline]
    fn drop(&mut self) {
        let Held::Shared(arc) = &mut self.0 else { return };
        let Some(arc) = arc.take() else { return };
        // Where two threads drop the last two handles at once, neither sees a count of 1, and the storage is freed as
        // usual; a count of 1 is this handle itself, and nobody can raise it.
        if arc.bin() != 0 && Arc::strong_count(&arc) == 1 {
            shelve(arc);
        }
    }
}

/// Working memory of one type that is recycled as tensors are.
pub(crate) struct Room<T> {
    handle: Handle,
    of: PhantomData<T>,
}

impl<T: Element> Room<T> {
    /// Room for `len` elements of no particular value.
    #[track_caller]
    pub(crate) fn new(len: usize) -> Room<T> {
        Room { handle: Storage::scratch(T::DTYPE, len), of: PhantomData }
    }

    pub(crate) fn as_slice(&self) -> &[T] {
        T::slice(self.handle.block()).expect("made with this type")
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        T::slice_mut(self.handle.block_mut()).expect("made with this type")
    }
}

/// Puts a storage that nobody holds on the shelf of its size, if there is room.
fn shelve(arc: Arc<Storage>) {
    if is_pool_on() {
        let _ = SHELVES.try_with(|shelves| shelves.borrow_mut().put(arc));
    }
}

/// Compartments per element type: eight per doubling of the size.
const BINS: usize = 8 * 15;

/// A thread's shelves. Storages are sorted by element type and size.
struct Shelves {
    bins: [[Vec<Arc<Storage>>; BINS]; 4],
    epoch: usize,
}

thread_local! {
    static SHELVES: RefCell<Shelves> =
        const { RefCell::new(Shelves { bins: [const { [const { Vec::new() }; BINS] }; 4], epoch: 0 }) };
}

impl Shelves {
    #[inline]
    fn take(&mut self, dtype: DType, bin: usize) -> Option<Arc<Storage>> {
        self.bins[dtype as usize][bin].pop()
    }

    #[inline]
    fn put(&mut self, arc: Arc<Storage>) {
        if self.epoch != epoch() {
            self.clear();
        }
        let bin = &mut self.bins[arc.dtype() as usize][arc.bin()];
        if bin.len() < KEPT && bin.len() * arc.bytes() < KEPT_BYTES {
            bin.push(arc);
        }
    }

    /// Frees everything: somebody has called `release_memory` since this thread last looked.
    #[cold]
    fn clear(&mut self) {
        self.bins.iter_mut().flatten().for_each(|bin| *bin = Vec::new());
        self.epoch = epoch();
    }
}

/// Frees what this thread's shelves hold. Other threads do so when they next put something there.
pub(super) fn clear_shelves() {
    let _ = SHELVES.try_with(|shelves| shelves.borrow_mut().clear());
}

/// The compartment for `len` elements, `None` for what is too large for a shelf. There is no compartment 0.
#[inline]
fn bin_of(len: usize, size: usize) -> Option<usize> {
    if len > SMALL_BYTES || len * size > SMALL_BYTES {
        return None;
    }
    if len <= 8 {
        return Some(len.max(1));
    }
    let (step, octave) = step_of(len);
    Some(8 * octave + len.div_ceil(1 << step) - 8)
}

/// How many elements a storage of that compartment has room for.
fn room_of(bin: usize) -> usize {
    if bin <= 8 {
        return bin;
    }
    let octave = (bin - 1) / 8;
    (bin - 8 * octave + 8) << (octave - 1)
}

/// The width of the compartments around `len > 8`, as a power of two, and the number of its doubling.
#[inline]
fn step_of(len: usize) -> (u32, usize) {
    let step = (len - 1).ilog2() - 3;
    (step, step as usize + 1)
}

impl Storage {
    fn for_shelf(dtype: DType, len: usize, bin: usize) -> Storage {
        let room = room_of(bin);
        match dtype {
            DType::Bool => Storage::Bool(Buffer::for_shelf(room, len, bin)),
            DType::I64 => Storage::I64(Buffer::for_shelf(room, len, bin)),
            DType::F32 => Storage::F32(Buffer::for_shelf(room, len, bin)),
            DType::F64 => Storage::F64(Buffer::for_shelf(room, len, bin)),
        }
    }
}

impl<T: Element> Buffer<T> {
    fn for_shelf(room: usize, len: usize, bin: usize) -> Buffer<T> {
        let vector = |room, padding| Some(vec![T::default(); room + padding]);
        let mut buffer = Buffer::aligned(room, vector).expect("a vector was made");
        (buffer.len, buffer.bin) = (len, bin as u16);
        buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_has_a_compartment_that_wastes_at_most_an_eighth() {
        let mut last = 0;
        for len in 0..=SMALL_BYTES {
            let bin = bin_of(len, 1).unwrap();
            let room = room_of(bin);
            assert!(bin >= last && bin < BINS, "{len}: {bin}");
            assert!(room >= len && room <= len.max(1) + len / 8, "{len}: {room}");
            assert_eq!(bin_of(room, 1), Some(bin));
            last = bin;
        }
        assert_eq!(bin_of(SMALL_BYTES / 4 + 1, 4), None);
        assert_eq!(bin_of(usize::MAX / 2, 8), None);
    }

    #[test]
    fn the_bytes_of_a_storage_are_known_beforehand() {
        for (len, bytes) in
            [(0, 0), (1, 0), (3, 12), (8, 32), (100, 416), (16_384, 65_536), (200_000, 851_968)]
        {
            assert_eq!(storage_bytes(DType::F32, len), bytes, "{len}");
            let made = Handle::stale(DType::F32, len).unwrap();
            assert_eq!(made.holding().map_or(0, |h| h.bytes), bytes, "{len}");
            let more = made.clone();
            assert!(len == 1 || more.holding().unwrap().holders == 2);
        }
        let from_outside = Handle::from(Storage::F32(vec![0.0; 100].into()));
        assert_eq!(from_outside.holding().unwrap().bytes, 400);
    }

    #[test]
    fn small_storages_come_back_with_their_new_length() {
        let address = |h: &Handle| match h.block() {
            Block::I64(s) => s.as_ptr(),
            _ => unreachable!("made as i64"),
        };
        let h = Handle::stale(DType::I64, 100).unwrap();
        let first = address(&h);
        drop(h);
        let again = Handle::stale(DType::I64, 99).unwrap();
        assert_eq!(address(&again), first);
        assert_eq!(again.len(), 99);
        let other = again.clone();
        assert!(!again.is_unique() && again.is_same(&other));
    }

    #[test]
    fn a_single_number_is_a_copy() {
        let mut a = Handle::from(f32::storage(vec![2.5]));
        let b = a.clone();
        if let BlockMut::F32(v) = a.block_mut() {
            v[0] = 3.0;
        }
        assert!(matches!((a.block(), b.block()), (Block::F32(&[3.0]), Block::F32(&[2.5]))));
        assert!(a.is_unique() && !a.is_same(&b) && a.len() == 1);
        assert_eq!(std::mem::size_of::<Handle>(), 16);
    }
}
