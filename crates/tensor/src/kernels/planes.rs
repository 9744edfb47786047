//! Images, plane by plane: the places of the largest elements of windows, and weighted sums along both axes.

use std::ops::Range;

use crate::dtype::Element;
use crate::kernels::doors::door;
use crate::kernels::lane::Float;
use crate::kernels::lay_out::lay_out;
use crate::kernels::level::{Level, level};
use crate::threads::{GRAIN, split_work};

/// Along one axis, the elements of each window that are no padding: where they begin, how many there are, and the step
/// from one to the next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Windows {
    pub(crate) size: usize,
    pub(crate) step: usize,
    pub(crate) each: Vec<(usize, usize)>,
}

/// Runs `f` with the number and the piece of `out` of each plane.
fn each_plane<T: Element>(out: &mut [T], plane: usize, work: usize, f: &(dyn Fn(usize, &mut [T]) + Sync)) {
    if out.is_empty() {
        return;
    }
    let grain = (GRAIN / work.max(1)).max(1);
    split_work(
        out.len() / plane,
        grain,
        out,
        &|o: &mut [T], at| o.split_at_mut(at * plane),
        &|start, _, out| {
            for (i, out) in out.chunks_exact_mut(plane).enumerate() {
                f(start + i, out);
            }
        },
    );
}

impl Windows {
    /// Most windows are alike: these all have the same number of elements, and lie as far apart as the second number says.
    fn alike(&self) -> (Range<usize>, usize) {
        let longest = self.each.iter().map(|&(_, count)| count).max().unwrap_or(0);
        let start = self.each.iter().position(|&(_, count)| count == longest).unwrap_or(0);
        let Some([a, b]) = self.each.get(start..).and_then(<[_]>::first_chunk) else {
            return (start..self.each.len(), 1);
        };
        let apart = b.0 - a.0;
        let goes_on = |w: &[(usize, usize)]| w[1].1 == longest && w[1].0 - w[0].0 == apart;
        (start..start + 1 + self.each[start..].windows(2).take_while(|w| goes_on(w)).count(), apart)
    }
}

/// The place in its plane of the largest element of each window: the first among equals, or the last that is no number.
pub(crate) fn places_of_largest<T: Element + PartialOrd>(
    x: &[T],
    [down, across]: [&Windows; 2],
    out: &mut [i64],
) {
    let (size, results) = (down.size * across.size, down.each.len() * across.each.len());
    let (alike, apart) = across.alike();
    each_plane(out, results, 4 * results, &|number, out| {
        let x = &x[number * size..][..size];
        let mut room = vec![T::default(); 2 * alike.len()];
        let (largest, laid) = room.split_at_mut(alike.len());
        let lines = out.chunks_exact_mut(across.each.len());
        for (&(top, rows), line) in down.each.iter().zip(lines) {
            let starts = |i: usize, left: usize| (top + i * down.step) * across.size + left;
            if let Some(&(left, cols)) = across.each.get(alike.start) {
                for (i, j) in (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))) {
                    let at = starts(i, left) + j * across.step;
                    lay_out(x, at as isize, [0, apart as isize], alike.len().max(1), laid);
                    let known = (i, j) != (0, 0);
                    larger(laid, [at as i64, apart as i64], known, largest, &mut line[alike.clone()]);
                }
            }
            let edges = (0..alike.start).chain(alike.end..across.each.len());
            for o in edges {
                let (left, cols) = across.each[o];
                let mut place = starts(0, left);
                for i in 0..rows {
                    for at in (starts(i, left)..).step_by(across.step).take(cols) {
                        if is_larger(x[at], x[place]) {
                            place = at;
                        }
                    }
                }
                line[o] = place as i64;
            }
        }
    });
}

/// Whether an element takes the place of the largest so far. Only what is no number differs from itself.
#[inline(always)]
#[allow(clippy::eq_op, reason = "only what is no number differs from itself")]
fn is_larger<T: PartialOrd + Copy>(v: T, largest: T) -> bool {
    (v > largest) | (v != v)
}

door! {
    /// Compares an element of each of many windows with the largest that is known of it, if one is; its place is the first of
    /// `places` for the first window, and moves by the second from one to the next.
    fn larger[T: Element + PartialOrd][T](x: &[T], places: [i64; 2], known: bool, largest: &mut [T], out: &mut [i64]);
    body larger_body
}
#[inline(always)]
fn larger_body<const FMA: bool, T: Element + PartialOrd>(
    x: &[T],
    [first, apart]: [i64; 2],
    known: bool,
    largest: &mut [T],
    out: &mut [i64],
) {
    let mut place = first;
    for ((&v, largest), o) in x.iter().zip(largest).zip(out) {
        let takes = !known | is_larger(v, *largest);
        (*largest, *o) = (if takes { v } else { *largest }, if takes { place } else { *o });
        place += apart;
    }
}

/// The elements of each plane at places in it.
pub(crate) fn take_places<T: Element>(x: &[T], size: usize, places: &[i64], results: usize, out: &mut [T]) {
    each_plane(out, results, results, &|number, out| {
        let x = &x[number * size..][..size];
        let places = &places[number * results..][..results];
        out.iter_mut().zip(places).for_each(|(o, &place)| *o = x[place as usize]);
    });
}

/// The transpose of [`take_places`]: each element is added at its place of a plane of zeros.
pub(crate) fn add_places<T: Float>(x: &[T], results: usize, places: &[i64], size: usize, out: &mut [T]) {
    each_plane(out, size, size, &|number, out| {
        out.fill(T::default());
        let (x, places) = (&x[number * results..][..results], &places[number * results..][..results]);
        for (&v, &place) in x.iter().zip(places) {
            out[place as usize] = out[place as usize] + v;
        }
    });
}

/// Along one axis, what each result is a weighted sum of.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Blend {
    pub(crate) size: usize,
    pub(crate) each: Vec<Part>,
}

/// Neighbouring elements that are summed. Those beyond the last one are the last one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Part {
    pub(crate) from: usize,
    pub(crate) count: usize,
    /// of the first element, and of all others
    pub(crate) weights: [f64; 2],
    /// what the sum is divided by
    pub(crate) divisor: f64,
}

impl Part {
    /// The places and the weights of its elements, on an axis of this size.
    #[inline(always)]
    fn terms<T: Float>(&self, size: usize) -> impl Iterator<Item = (usize, T)> {
        let weights = self.weights.map(T::of);
        (0..self.count).map(move |i| ((self.from + i).min(size - 1), weights[i.min(1)]))
    }
}

/// Weighted sums along both axes of each plane.
pub(crate) fn blend<T: Float>(x: &[T], blends: [&Blend; 2], out: &mut [T]) {
    let [down, across] = blends;
    let (size, results) = (down.size * across.size, down.each.len() * across.each.len());
    each_plane(out, results, size.max(results), &|number, out| {
        blend_plane(&x[number * size..][..size], blends, out);
    });
}

/// Means of integers, rounded toward zero, where all weights are 1; sums wrap.
pub(crate) fn blend_integers(x: &[i64], [down, across]: [&Blend; 2], out: &mut [i64]) {
    let (size, results) = (down.size * across.size, down.each.len() * across.each.len());
    each_plane(out, results, size.max(results), &|number, out| {
        let x = &x[number * size..][..size];
        let pairs = down.each.iter().flat_map(|rows| across.each.iter().map(move |cols| (rows, cols)));
        for ((rows, cols), o) in pairs.zip(out) {
            let mut sum = 0i64;
            for row in rows.from..rows.from + rows.count {
                let line = &x[row * across.size + cols.from..][..cols.count];
                sum = line.iter().fold(sum, |sum, &v| sum.wrapping_add(v));
            }
            let divisor = (rows.divisor as i64).wrapping_mul(cols.divisor as i64);
            *o = sum.wrapping_div(if divisor == 0 { 1 } else { divisor });
        }
    });
}

/// The transpose of [`blend`]: each element is spread over those that it would be the sum of.
pub(crate) fn spread<T: Float>(x: &[T], blends: [&Blend; 2], out: &mut [T]) {
    let [down, across] = blends;
    let (size, results) = (down.size * across.size, down.each.len() * across.each.len());
    if results == 0 {
        return out.fill(T::default());
    }
    each_plane(out, size, size.max(results), &|number, out| {
        spread_plane(&x[number * results..][..results], blends, out);
    });
}

door! {
    /// [`blend`] of one plane.
    fn blend_plane[T: Float][T](x: &[T], blends: [&Blend; 2], out: &mut [T]);
    body blend_plane_body
}
#[inline(always)]
fn blend_plane_body<const FMA: bool, T: Float>(x: &[T], [down, across]: [&Blend; 2], out: &mut [T]) {
    let mut sums = vec![T::default(); across.size];
    for (rows, line) in down.each.iter().zip(out.chunks_exact_mut(across.each.len())) {
        for (i, (row, weight)) in rows.terms::<T>(down.size).enumerate() {
            let from = &x[row * across.size..][..across.size];
            if i == 0 {
                sums.iter_mut().zip(from).for_each(|(s, &v)| *s = weight * v);
            } else {
                sums.iter_mut().zip(from).for_each(|(s, &v)| *s = *s + weight * v);
            }
        }
        for (cols, o) in across.each.iter().zip(line) {
            let mut terms = cols.terms::<T>(across.size);
            // The first term alone, so that the sum of one is the same, whatever its sign.
            let Some((first, weight)) = terms.next().filter(|_| rows.count > 0) else {
                *o = T::default();
                continue;
            };
            let sum = terms.fold(weight * sums[first], |sum, (place, weight)| sum + weight * sums[place]);
            *o = sum / T::of(rows.divisor * cols.divisor);
        }
    }
}

door! {
    /// [`spread`] of one plane.
    fn spread_plane[T: Float][T](x: &[T], blends: [&Blend; 2], out: &mut [T]);
    body spread_plane_body
}
#[inline(always)]
fn spread_plane_body<const FMA: bool, T: Float>(x: &[T], [down, across]: [&Blend; 2], out: &mut [T]) {
    out.fill(T::default());
    let mut sums = vec![T::default(); across.size];
    for (rows, line) in down.each.iter().zip(x.chunks_exact(across.each.len())) {
        sums.fill(T::default());
        for (cols, &v) in across.each.iter().zip(line) {
            let share = v / T::of(rows.divisor * cols.divisor);
            for (place, weight) in cols.terms::<T>(across.size) {
                sums[place] = sums[place] + weight * share;
            }
        }
        for (row, weight) in rows.terms::<T>(down.size) {
            let to = &mut out[row * across.size..][..across.size];
            to.iter_mut().zip(&sums).for_each(|(o, &s)| *o = *o + weight * s);
        }
    }
}
