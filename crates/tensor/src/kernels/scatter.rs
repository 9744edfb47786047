//! Moving rows of elements: copying them to and from places that data decides, adding them up there in order, and joining
//! rows of several sources.

use std::slice::ChunksExactMut;

use super::doors::door;
use super::level::{Level, level};
use super::{by_length, each};
use crate::dtype::Element;
use crate::threads::{GRAIN, split_work};

/// Elements that can be added up: numbers with `+` (integers wrap), truth values with `or`.
pub(crate) trait Accumulate: Element {
    fn plus(a: Self, b: Self) -> Self;
}
macro_rules! accumulate {
    ($($t:ty, |$a:ident, $b:ident| $sum:expr;)*) => {$(
        impl Accumulate for $t {
            #[inline(always)]
            fn plus($a: $t, $b: $t) -> $t {
                $sum
            }
        }
    )*};
}
accumulate! {
    bool, |a, b| a | b;
    i64, |a, b| a.wrapping_add(b);
    f32, |a, b| a + b;
    f64, |a, b| a + b;
}

/// Copies a piece of `N` elements, or of any number if that is 0. A call to copy a few takes longer than they do.
#[inline(always)]
fn copy_piece<T: Element, const N: usize>(from: &[T], to: &mut [T]) {
    match (from.first_chunk::<N>(), to.first_chunk_mut::<N>()) {
        (Some(from), Some(to)) if N > 0 => *to = *from,
        _ => match from.len() {
            5..=8 => copy_ends::<T, 4>(from, to),
            9..=16 => copy_ends::<T, 8>(from, to),
            17..=32 => copy_ends::<T, 16>(from, to),
            _ => to.copy_from_slice(from),
        },
    }
}

/// Copies a piece of at least `N` elements and at most twice as many: its first `N`, and its last. Rows of 7 that are picked take 0.3 of
/// the time.
#[inline(always)]
fn copy_ends<T: Element, const N: usize>(from: &[T], to: &mut [T]) {
    debug_assert!(from.len() == to.len() && (N..=2 * N).contains(&from.len()));
    if let (Some(from), Some(to)) = (from.first_chunk::<N>(), to.first_chunk_mut::<N>()) {
        *to = *from;
    }
    if let (Some(from), Some(to)) = (from.last_chunk::<N>(), to.last_chunk_mut::<N>()) {
        *to = *from;
    }
}

/// Pieces of `len` elements, one for each row of a result: the first at `start`, and each `step` behind the one before.
pub(crate) struct Pieces<'a, T> {
    pub(crate) data: &'a [T],
    pub(crate) start: usize,
    pub(crate) step: isize,
    pub(crate) len: usize,
}

/// Copies the pieces of all sources for row `r`, one after another, into each row `r` of `out`.
pub(crate) fn interleave<T: Element>(sources: &[Pieces<'_, T>], out: &mut [T]) {
    fn pieces<T: Element, const N: usize>(
        source: &Pieces<'_, T>,
        first: usize,
        rows: ChunksExactMut<'_, T>,
        at: usize,
    ) {
        let len = if N == 0 { source.len } else { N };
        if source.step == len as isize {
            // One after another: columns of three, joined to others, take 0.82 of the time.
            let from = source.data[source.start + first * len..].chunks_exact(len);
            return rows.zip(from).for_each(|(line, from)| copy_piece::<T, N>(from, &mut line[at..at + len]));
        }
        for (line, r) in rows.zip(first as isize..) {
            let from = (source.start as isize + r * source.step) as usize;
            copy_piece::<T, N>(&source.data[from..from + len], &mut line[at..at + len]);
        }
    }
    let row: usize = sources.iter().map(|source| source.len).sum();
    if row == 0 {
        return;
    }
    let grain = (GRAIN / row).max(1) * row;
    split_work(out.len(), grain, out, &|o: &mut [T], at| o.split_at_mut(at), &|start, _, out| {
        // Some rows at a time, which stay in the cache for all sources.
        for (block, out) in out.chunks_mut(grain).enumerate() {
            let (first, mut at) = ((start + block * grain) / row, 0);
            for source in sources.iter().filter(|source| source.len > 0) {
                let rows = out.chunks_exact_mut(row);
                by_length!(source.len, [1 2 3 4 8], pieces::<T>(source, first, rows, at));
                at += source.len;
            }
        }
    });
}

/// Takes rows of `len` elements out of matrices of `size` rows: `out[o, i] = source[o, index[i]]`.
pub(crate) fn take_rows<T: Element>(source: &[T], size: usize, len: usize, index: &[i64], out: &mut [T]) {
    fn take<T: Element, const N: usize>(source: &[T], len: usize, index: &[i64], out: &mut [T]) {
        let len = if N == 0 { len } else { N };
        for (line, &i) in out.chunks_exact_mut(len).zip(index) {
            copy_piece::<T, N>(&source[i as usize * len..][..len], line);
        }
    }
    /// Single elements, whose loop is most of what they take: several at a time, 0.6 of the time.
    fn take_single<T: Element>(source: &[T], index: &[i64], out: &mut [T]) {
        let ((fours, rest), (of_fours, of_rest)) = (out.as_chunks_mut::<4>(), index.as_chunks::<4>());
        for (four, i) in fours.iter_mut().zip(of_fours) {
            *four = each(four[0], |k| source[i[k] as usize]);
        }
        rest.iter_mut().zip(of_rest).for_each(|(o, &i)| *o = source[i as usize]);
    }
    if out.is_empty() {
        return;
    }
    let grain = (GRAIN / len).max(1) * len;
    split_work(out.len(), grain, out, &|o: &mut [T], at| o.split_at_mut(at), &|start, _, mut out| {
        let mut place = start / len;
        while !out.is_empty() {
            let (outer, i) = (place / index.len(), place % index.len());
            let count = (index.len() - i).min(out.len() / len);
            let lines = out.split_off_mut(..count * len).expect("as many as there are at most");
            let source = &source[outer * size * len..][..size * len];
            let index = &index[i..i + count];
            match len {
                1 => take_single(source, index, lines),
                _ => by_length!(len, [2 3 4 8], take::<T>(source, len, index, lines)),
            }
            place += count;
        }
    });
}

door! {
    /// Whether some indices lie outside `first .. size`, and whether some are negative: differences alone, many at a time, and no search for the
    /// least and the largest. What overflows lies outside. With this and without a plan single elements are picked in a quarter of the time.
    pub(crate) fn outside_or_negative[][](index: &[i64], first: i64, size: i64) -> [bool; 2];
    body outside_or_negative_body
}
#[inline(always)]
fn outside_or_negative_body<const FMA: bool>(index: &[i64], first: i64, size: i64) -> [bool; 2] {
    let (mut outside, mut negative) = (0, 0);
    for &i in index {
        outside |= i.wrapping_sub(first) | (size - 1).wrapping_sub(i);
        negative |= i;
    }
    [outside < 0, negative < 0]
}

/// Pieces that a sum of rows is cut into, at most.
const PIECES: usize = 16;

/// Rows of `len` elements added up, in order, to the rows that `index` names; `skipped` names none. All of `out` is written.
///
/// Every piece of the result looks at all indices and adds what is its own, so that no two threads write to a row and the
/// order of a sum is that of the index.
pub(crate) fn sum_rows<T: Accumulate>(out: &mut [T], len: usize, index: &[i64], skipped: i64, source: &[T]) {
    if out.is_empty() {
        return;
    }
    let rows = out.len() / len;
    let grain = (GRAIN / len).max(rows.div_ceil(PIECES)).max(1);
    split_work(rows, grain, out, &|o: &mut [T], at| o.split_at_mut(at * len), &|first, count, out| {
        out.fill(T::default());
        for (line, &i) in source.chunks_exact(len).zip(index) {
            let row = (i as usize).wrapping_sub(first);
            if row < count && i != skipped {
                for (o, &v) in out[row * len..][..len].iter_mut().zip(line) {
                    *o = T::plus(*o, v);
                }
            }
        }
    });
}

/// Adds rows of `len` elements to the rows that `index` names, in order: `out[o, index[i]] += source[o, i]`.
pub(crate) fn add_rows<T: Accumulate>(out: &mut [T], size: usize, len: usize, index: &[i64], source: &[T]) {
    fn add<T: Accumulate, const N: usize>(out: &mut [T], len: usize, index: &[i64], source: &[T]) {
        let len = if N == 0 { len } else { N };
        for (line, &i) in source.chunks_exact(len).zip(index) {
            let target = &mut out[i as usize * len..][..len];
            target.iter_mut().zip(line).for_each(|(o, &v)| *o = T::plus(*o, v));
        }
    }
    if len == 0 || source.is_empty() {
        return;
    }
    let slices = out.chunks_exact_mut(size * len).zip(source.chunks_exact(index.len() * len));
    for (out, source) in slices {
        by_length!(len, [1 2 3 4 5 6 7 8], add::<T>(out, len, index, source));
    }
}

/// Puts rows of `len` elements to the places where they start, in order; `put` makes the new element of the old one and that
/// of the source.
pub(crate) fn put_rows<T: Element>(
    out: &mut [T],
    len: usize,
    places: &[i64],
    source: &[T],
    put: impl Fn(T, T) -> T,
) {
    for (line, &at) in source.chunks_exact(len).zip(places) {
        let target = &mut out[at as usize..][..len];
        target.iter_mut().zip(line).for_each(|(o, &v)| *o = put(*o, v));
    }
}

/// Puts each element of `source` to the place in `out` that its position names, with the index along `axis` replaced by
/// the one in `index`: `put` makes the new element of the old one and that of the source. Elements are visited in row-major
/// order of `shape`, so that sums have one order.
pub(crate) fn scatter<T: Element>(
    out: &mut [T],
    strides: &[isize],
    axis: usize,
    shape: &[usize],
    index: &[i64],
    source: &[T],
    put: impl Fn(T, T) -> T,
) {
    let Some((&last, outer)) = shape.split_last() else { return };
    if index.is_empty() {
        return;
    }
    let inner = outer.len();
    let mut at = vec![0; inner];
    for (index, source) in index.chunks_exact(last).zip(source.chunks_exact(last)) {
        let base: usize = (0..inner).filter(|&d| d != axis).map(|d| at[d] * strides[d] as usize).sum();
        let step = strides[axis] as usize;
        for (j, (&i, &v)) in index.iter().zip(source).enumerate() {
            let own = if axis == inner { 0 } else { j * strides[inner] as usize };
            let place = &mut out[base + own + i as usize * step];
            *place = put(*place, v);
        }
        for d in (0..inner).rev() {
            at[d] += 1;
            if at[d] < outer[d] {
                break;
            }
            at[d] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_interleaved_taken_and_added() {
        let mut out = vec![0; 10];
        let [few, many] = [&[1i64, 2, 3, 4][..], &[10, 20, 30, 40, 50, 60]];
        let of = |data, start, step, len| Pieces { data, start, step, len };
        interleave(&[of(few, 0, 2, 2), of(many, 0, 3, 3)], &mut out);
        assert_eq!(out, [1, 2, 10, 20, 30, 3, 4, 40, 50, 60]);
        let mut taken = vec![0; 6];
        take_rows(&[1i64, 2, 3, 4], 2, 2, &[1, 0, 1], &mut taken);
        assert_eq!(taken, [3, 4, 1, 2, 3, 4]);
        let mut sums = vec![0; 4];
        add_rows(&mut sums, 2, 2, &[1, 1], &[1i64, 2, 10, 20]);
        assert_eq!(sums, [0, 0, 11, 22]);
    }

    #[test]
    fn rows_of_every_length_are_taken_and_added() {
        for len in (1..40).chain([64, 65]) {
            let source: Vec<i64> = (0..3 * 5 * len as i64).collect();
            let index = [4, 0, 0, 3];
            let mut taken = vec![0; 3 * 4 * len];
            take_rows(&source, 5, len, &index, &mut taken);
            let mut sums = source.clone();
            add_rows(&mut sums, 5, len, &index, &taken);
            let mut want = source.clone();
            for (r, row) in taken.chunks_exact(len).enumerate() {
                let from = (r / 4 * 5 + index[r % 4] as usize) * len;
                assert_eq!(*row, source[from..from + len], "row {r} of {len}");
                for (want, v) in want[from..].iter_mut().zip(row) {
                    *want += v;
                }
            }
            assert_eq!(sums, want, "rows of {len}");
        }
    }

    #[test]
    fn scattering_visits_every_place_once() {
        let mut out = vec![0; 6];
        scatter(&mut out, &[3, 1], 0, &[2, 3], &[0, 1, 0, 0, 0, 1], &[1i64, 2, 3, 10, 20, 30], i64::plus);
        assert_eq!(out, [11, 20, 3, 0, 2, 30]);
        let mut out = vec![0; 6];
        scatter(&mut out, &[3, 1], 1, &[2, 2], &[2, 2, 0, 1], &[1i64, 2, 10, 20], i64::plus);
        assert_eq!(out, [0, 0, 3, 10, 20, 0]);
        scatter(&mut out, &[3, 1], 1, &[1, 2], &[2, 2], &[7, 8], |_, new| new);
        assert_eq!(out, [0, 0, 8, 10, 20, 0]);
    }
}
