//! Images, plane by plane: the places of the largest elements of windows, and weighted sums along both axes.

use crate::dtype::Element;
use crate::kernels::doors::door;
use crate::kernels::lane::Float;
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

/// The place in its plane of the largest element of each window: the first among equals, or the last that is no number.
pub(crate) fn places_of_largest<T: Element + PartialOrd>(
    x: &[T],
    [down, across]: [&Windows; 2],
    out: &mut [i64],
) {
    let (size, results) = (down.size * across.size, down.each.len() * across.each.len());
    each_plane(out, results, 4 * results, &|number, out| {
        let x = &x[number * size..][..size];
        let lines = out.chunks_exact_mut(across.each.len());
        for (&(top, rows), line) in down.each.iter().zip(lines) {
            for (&(left, cols), o) in across.each.iter().zip(line) {
                let mut place = top * across.size + left;
                let mut largest = x[place];
                for i in 0..rows {
                    let row = (top + i * down.step) * across.size + left;
                    for at in (row..).step_by(across.step).take(cols) {
                        // Only what is no number differs from itself.
                        if x[at] > largest || x[at].partial_cmp(&x[at]).is_none() {
                            (place, largest) = (at, x[at]);
                        }
                    }
                }
                *o = place as i64;
            }
        }
    });
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
