//! `Dims`: what is counted per axis, kept inline for the ranks that people use.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};

/// Axes that need no allocation.
const INLINE: usize = 4;

/// A short list with one entry per axis. Up to four entries lie inline, and a clone of those is a plain copy: every
/// tensor carries two of these, so what they cost is what a tiny operation costs.
pub(crate) struct Dims<T>(List<T>);

enum List<T> {
    Inline(Inline<T>),
    Heap(Vec<T>),
}

/// Entries, and behind them how many there are, in a word in which the compiler also notes that there is a vector instead.
///
/// Note [Whole words]
/// What an operation on one number moves from hand to hand is made of whole words: it is then copied in the same pieces as it is
/// written in. A processor that reads eight bytes of which it has just written one or four waits until these are in the cache.
#[derive(Clone, Copy)]
#[repr(C)]
struct Inline<T> {
    /// those behind the length are the default, so that whole arrays can be compared
    entries: [T; INLINE],
    len: InlineLen,
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
enum InlineLen {
    Zero,
    One,
    Two,
    Three,
    Four,
}

impl InlineLen {
    const ALL: [InlineLen; INLINE + 1] =
        [InlineLen::Zero, InlineLen::One, InlineLen::Two, InlineLen::Three, InlineLen::Four];
}

impl<T> Inline<T> {
    #[inline]
    fn new(entries: [T; INLINE], len: usize) -> Inline<T> {
        Inline { entries, len: InlineLen::ALL[len] }
    }
}

impl<T: Copy + Default> Dims<T> {
    pub(crate) fn new() -> Dims<T> {
        Dims(List::Inline(Inline::new([T::default(); INLINE], 0)))
    }

    /// `n` times the same.
    #[inline]
    pub(crate) fn from_elem(value: T, n: usize) -> Dims<T> {
        if n > INLINE {
            return Dims(List::Heap(vec![value; n]));
        }
        let mut entries = [T::default(); INLINE];
        entries[..n].fill(value);
        Dims(List::Inline(Inline::new(entries, n)))
    }

    #[inline]
    pub(crate) fn from_slice(values: &[T]) -> Dims<T> {
        if values.len() > INLINE {
            return Dims(List::Heap(values.to_vec()));
        }
        let mut entries = [T::default(); INLINE];
        for (slot, &v) in entries.iter_mut().zip(values) {
            *slot = v;
        }
        Dims(List::Inline(Inline::new(entries, values.len())))
    }

    pub(crate) fn from_vec(values: Vec<T>) -> Dims<T> {
        if values.len() <= INLINE { Dims::from_slice(&values) } else { Dims(List::Heap(values)) }
    }

    #[inline]
    pub(crate) fn push(&mut self, value: T) {
        match &mut self.0 {
            List::Inline(Inline { entries, len }) if (*len as usize) < INLINE => {
                entries[*len as usize] = value;
                *len = InlineLen::ALL[*len as usize + 1];
            }
            _ => self.heap().push(value),
        }
    }

    pub(crate) fn insert(&mut self, at: usize, value: T) {
        let mut values = self.to_vec();
        values.insert(at, value);
        *self = Dims::from_vec(values);
    }

    pub(crate) fn remove(&mut self, at: usize) -> T {
        let mut values = self.to_vec();
        let removed = values.remove(at);
        *self = Dims::from_vec(values);
        removed
    }

    /// The entries as a `Vec`, moved to the heap if they are not there.
    fn heap(&mut self) -> &mut Vec<T> {
        if let List::Inline(_) = self.0 {
            self.0 = List::Heap(self.to_vec());
        }
        let List::Heap(values) = &mut self.0 else { unreachable!("moved there just now") };
        values
    }
}

impl<T: Copy> Clone for Dims<T> {
    #[inline]
    fn clone(&self) -> Dims<T> {
        match &self.0 {
            List::Inline(inline) => Dims(List::Inline(*inline)),
            List::Heap(values) => copied(values),
        }
    }
}

/// Apart, so that what clones a shape is no longer than a copy. A whole list: a vector would have the other way copied by its parts.
#[cold]
#[inline(never)]
fn copied<T: Copy>(values: &[T]) -> Dims<T> {
    Dims(List::Heap(values.to_vec()))
}

impl<T: Copy + Default> Default for Dims<T> {
    fn default() -> Dims<T> {
        Dims::new()
    }
}

impl<T> Deref for Dims<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        match &self.0 {
            List::Inline(Inline { entries, len }) => &entries[..*len as usize],
            List::Heap(values) => values,
        }
    }
}

impl<T> DerefMut for Dims<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            List::Inline(Inline { entries, len }) => &mut entries[..*len as usize],
            List::Heap(values) => values,
        }
    }
}

impl<T: Copy + Default> Extend<T> for Dims<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        values.into_iter().for_each(|v| self.push(v));
    }
}

impl<T: Copy + Default> FromIterator<T> for Dims<T> {
    #[inline]
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Dims<T> {
        let mut out = Dims::new();
        out.extend(values);
        out
    }
}

impl<'a, T> IntoIterator for &'a Dims<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: PartialEq> PartialEq for Dims<T> {
    #[inline]
    fn eq(&self, other: &Dims<T>) -> bool {
        match (&self.0, &other.0) {
            // No loop, and no call: shapes are compared more often than anything else.
            (List::Inline(Inline { entries: a, len: n }), List::Inline(Inline { entries: b, len: m })) => {
                (n == m) & (a[0] == b[0]) & (a[1] == b[1]) & (a[2] == b[2]) & (a[3] == b[3])
            }
            _ => self[..] == other[..],
        }
    }
}

impl<T: Eq> Eq for Dims<T> {}

impl<T: Hash> Hash for Dims<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self[..].hash(state);
    }
}

impl<T: fmt::Debug> fmt::Debug for Dims<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self[..].fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_grow_and_shrink_across_the_inline_limit() {
        let mut dims: Dims<usize> = Dims::new();
        let mut model = Vec::new();
        for i in 0..9 {
            dims.push(i);
            model.push(i);
            assert_eq!(dims[..], model[..]);
            assert_eq!(dims, Dims::from_slice(&model));
            assert_eq!(dims.clone(), model.iter().copied().collect());
        }
        dims.insert(2, 70);
        model.insert(2, 70);
        assert_eq!(dims.remove(0), model.remove(0));
        while !dims.is_empty() {
            let last = dims.len() - 1;
            assert_eq!(Some(dims.remove(last)), model.pop());
            assert_eq!(dims[..], model[..]);
        }
        assert!(dims.is_empty() && model.is_empty());
    }

    #[test]
    fn equal_lists_are_equal_wherever_they_lie() {
        let mut shrunk: Dims<usize> = Dims::from_elem(7, 5);
        shrunk.remove(0);
        assert_eq!(shrunk, Dims::from_elem(7, 4));
        assert_eq!(Dims::from_vec(vec![1, 2]), Dims::from_slice(&[1, 2]));
    }
}
