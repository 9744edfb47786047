//! Weighted sums along both axes of planes: means of windows, and interpolations.

use std::ops::Range;

use super::{Alike, BLOCK, PlaneBlock, each_plane};
use crate::buffer::Room;
use crate::kernels::doors::door;
use crate::kernels::each;
use crate::kernels::lane::Float;
use crate::kernels::level::{Level, level};

/// Along one axis, what each result is a weighted sum of.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Blend {
    pub(crate) size: usize,
    pub(crate) each: Vec<WeightedSum>,
}

/// Neighbouring elements that are summed. Those in front of the first one are the first one, those beyond the last one the last.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct WeightedSum {
    pub(crate) from: isize,
    pub(crate) count: usize,
    /// of the first three elements, and of all others
    pub(crate) weights: [f64; 4],
    /// what the sum is divided by
    pub(crate) divisor: f64,
}

impl WeightedSum {
    /// The places and the weights of its elements, on an axis of this size.
    #[inline(always)]
    fn terms<T: Float>(&self, size: usize) -> impl Iterator<Item = (usize, T)> {
        let last = size as isize - 1;
        let places = (0..self.count).map(move |i| (self.from + i as isize).clamp(0, last) as usize);
        places.zip(self.each_weight())
    }

    /// The weights of its elements, in order.
    #[inline(always)]
    fn each_weight<T: Float>(&self) -> impl Iterator<Item = T> {
        (0..self.count).map(|i| T::of(self.weights[i.min(3)]))
    }

    /// The weights of the first `N` elements.
    #[inline(always)]
    fn weights_of<T: Float, const N: usize>(&self) -> [T; N] {
        std::array::from_fn(|i| T::of(self.weights[i.min(3)]))
    }
}

/// Results side by side whose sums are alike, fewer of which are summed one by one.
const FEWEST: usize = 4;

impl Blend {
    /// Those that are sums of as many elements as the longest, with the same weights, and lie between the first element and the last.
    fn alike(&self) -> Alike {
        let whole = |p: &WeightedSum| p.count > 0 && p.from >= 0 && p.from as usize + p.count <= self.size;
        let longest = self.each.iter().filter(|p| whole(p)).map(|p| p.count).max().unwrap_or(0);
        let like = self.each.iter().position(|p| p.count == longest && whole(p)).unwrap_or(self.each.len());
        let same = |a: &WeightedSum, b: &WeightedSum| {
            whole(b) && (a.count, a.weights, a.divisor) == (b.count, b.weights, b.divisor)
        };
        let mut alike = Alike::new(&self.each, like, |p| p.from.max(0) as usize, same);
        if alike.results.len() < FEWEST {
            alike.results = 0..0;
        }
        alike
    }
}

/// Weighted sums along both axes of each plane.
pub(crate) fn blend<T: Float>(x: &[T], blends: [&Blend; 2], out: &mut [T]) {
    let [down, across] = blends;
    let (size, results) = (down.size * across.size, down.each.len() * across.each.len());
    let alike = across.alike();
    each_plane(out, results, size.max(results), &|number, out| {
        blend_plane(&x[number * size..][..size], blends, &alike, out);
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
            let [first, start] = [rows, cols].map(|p: &WeightedSum| p.from.max(0) as usize);
            for row in first..first + rows.count {
                let line = &x[row * across.size + start..][..cols.count];
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
    let alike = across.alike();
    each_plane(out, size, size.max(results), &|number, out| {
        spread_plane(&x[number * results..][..results], blends, &alike, out);
    });
}

door! {
    /// [`blend`] of one plane.
    fn blend_plane[T: Float][T](x: &[T], blends: [&Blend; 2], alike: &Alike, out: &mut [T]);
    body blend_plane_body
}
#[inline(always)]
fn blend_plane_body<const FMA: bool, T: Float>(
    x: &[T],
    [down, across]: [&Blend; 2],
    alike: &Alike,
    out: &mut [T],
) {
    let (width, wide) = (across.size, across.each.len());
    let high = (BLOCK / width).clamp(1, down.each.len());
    let mut tall: Room<T> = Room::new(high * width);
    let mut room: Room<T> = Room::new(2 * high * alike.results.len());
    let tall = tall.as_mut_slice();
    let (sums, laid) = room.as_mut_slice().split_at_mut(high * alike.results.len());
    for (parts, out) in down.each.chunks(high).zip(out.chunks_mut(high * wide)) {
        for (rows, sums) in parts.iter().zip(tall.chunks_exact_mut(width)) {
            add_all(sums, rows.terms(down.size).map(|(row, weight)| (&x[row * width..][..width], weight)));
        }
        let (rows, cols) = (0..parts.len(), alike.results.clone());
        let block = PlaneBlock { rows, cols, at: alike.from, steps: [width, alike.apart] };
        if let Some(cols) = across.each.get(alike.results.start).filter(|_| block.len() > 0) {
            match (alike.apart, cols.count) {
                (2, 2) => add_windows::<T, 2>(tall, &block, cols, sums),
                (3, 3) => add_windows::<T, 3>(tall, &block, cols, sums),
                (4, 4) => add_windows::<T, 4>(tall, &block, cols, sums),
                (1, _) => {
                    for (tall, sums) in tall.chunks(width).zip(sums.chunks_exact_mut(block.cols.len())) {
                        let from = |i: usize| &tall[alike.from + i..][..block.cols.len()];
                        add_all(sums, cols.each_weight().enumerate().map(|(i, weight)| (from(i), weight)));
                    }
                }
                _ => {
                    for (i, (_, weight)) in cols.terms::<T>(width).enumerate() {
                        block.lay_out(tall, i, laid);
                        add_weighted(sums, (laid, weight), i == 0);
                    }
                }
            }
            put_alike((parts, cols.divisor), sums, &alike.results, (wide, &mut *out));
        }
        let lines = out.chunks_exact_mut(wide).zip(tall.chunks_exact(width));
        for (rows, (line, sums)) in parts.iter().zip(lines) {
            for others in [0..alike.results.start, alike.results.end..wide] {
                for (cols, o) in across.each[others.clone()].iter().zip(&mut line[others]) {
                    let mut terms = cols.terms::<T>(width);
                    // The first term alone, so that the sum of one is the same, whatever its sign.
                    let Some((first, weight)) = terms.next().filter(|_| rows.count > 0) else {
                        *o = T::default();
                        continue;
                    };
                    let sum =
                        terms.fold(weight * sums[first], |sum, (place, weight)| sum + weight * sums[place]);
                    *o = sum / T::of(rows.divisor * cols.divisor);
                }
            }
        }
    }
}

/// Writes the sums of some rows, of results that are alike, divided.
#[inline(always)]
fn put_alike<T: Float>(
    (rows, divisor): (&[WeightedSum], f64),
    sums: &[T],
    results: &Range<usize>,
    (wide, out): (usize, &mut [T]),
) {
    // Rows that are divided alike, and hold nothing else, are one.
    let is_alike = |p: &[WeightedSum]| (p[0].divisor, p[0].count) == (p[1].divisor, p[1].count);
    let lines = if results.len() == wide && rows.windows(2).all(is_alike) { rows.len() } else { 1 };
    let sums = sums.chunks(lines * results.len());
    for (rows, (out, sums)) in rows.iter().step_by(lines).zip(out.chunks_mut(lines * wide).zip(sums)) {
        let out = if lines == 1 { &mut out[results.clone()] } else { out };
        let divisor = rows.divisor * divisor;
        if rows.count == 0 {
            out.fill(T::default());
        } else if is_power_of_two(divisor) {
            // The same digits, without a division: 2 by 2 windows (W18).
            let share = T::of(1.0 / divisor);
            out.iter_mut().zip(sums).for_each(|(o, &sum)| *o = sum * share);
        } else {
            let divisor = T::of(divisor);
            out.iter_mut().zip(sums).for_each(|(o, &sum)| *o = sum / divisor);
        }
    }
}

/// Whether multiplying by the reciprocal of a whole number is dividing by it.
fn is_power_of_two(n: f64) -> bool {
    (1.0..=4_294_967_296.0).contains(&n) && (n as u64).is_power_of_two() && n.fract() == 0.0
}

/// The sums of all terms, two at a time.
#[inline(always)]
fn add_all<'a, T: Float>(sums: &mut [T], mut terms: impl Iterator<Item = (&'a [T], T)>) {
    let mut is_first = true;
    while let Some(term) = terms.next() {
        match terms.next() {
            Some(next) => add_two_weighted(sums, [term, next], is_first),
            None => add_weighted(sums, term, is_first),
        }
        is_first = false;
    }
}

/// `sums += weight * x`, or `sums = weight * x` where it is the first.
#[inline(always)]
fn add_weighted<T: Float>(sums: &mut [T], (x, weight): (&[T], T), is_first: bool) {
    if is_first {
        sums.iter_mut().zip(x).for_each(|(s, &v)| *s = weight * v);
    } else {
        sums.iter_mut().zip(x).for_each(|(s, &v)| *s = *s + weight * v);
    }
}

/// [`add_weighted`] of one and then of another.
#[inline(always)]
fn add_two_weighted<T: Float>(sums: &mut [T], [(x, a), (y, b)]: [(&[T], T); 2], is_first: bool) {
    let n = sums.len();
    if is_first && n >= 8 {
        // The last eight reach back: rows of images are often short.
        for at in (0..n - 8).step_by(8).chain([n - 8]) {
            let [x, y] = [x, y].map(|row| row[at..].first_chunk::<8>().expect("eight are left"));
            *sums[at..].first_chunk_mut::<8>().expect("eight are left") =
                each(T::default(), |i| a * x[i] + b * y[i]);
        }
        return;
    }
    let both = sums.iter_mut().zip(x).zip(y);
    if is_first {
        both.for_each(|((s, &x), &y)| *s = a * x + b * y);
    } else {
        both.for_each(|((s, &x), &y)| *s = *s + a * x + b * y);
    }
}

/// The sums of windows of `N` elements that lie one behind the other, which are not laid out. 2 by 2 of 24 by 24 take 0.74 of the time.
#[inline(always)]
fn add_windows<T: Float, const N: usize>(x: &[T], block: &PlaneBlock, like: &WeightedSum, sums: &mut [T]) {
    let weights: [T; N] = like.weights_of();
    let sum_of = |window: &[T; N]| (1..N).fold(weights[0] * window[0], |sum, i| sum + weights[i] * window[i]);
    let cols = block.cols.len();
    // Where they fill the rows, those of all rows lie one behind the other.
    let cols = if cols * N == block.steps[0] { block.len() } else { cols };
    for (row, sums) in sums[..block.len()].chunks_exact_mut(cols).enumerate() {
        let windows = x[block.at + row * block.steps[0]..].as_chunks::<N>().0;
        sums.iter_mut().zip(windows).for_each(|(s, window)| *s = sum_of(window));
    }
}

door! {
    /// [`spread`] of one plane.
    fn spread_plane[T: Float][T](x: &[T], blends: [&Blend; 2], alike: &Alike, out: &mut [T]);
    body spread_plane_body
}
#[inline(always)]
fn spread_plane_body<const FMA: bool, T: Float>(
    x: &[T],
    [down, across]: [&Blend; 2],
    alike: &Alike,
    out: &mut [T],
) {
    out.fill(T::default());
    let mut sums = vec![T::default(); across.size];
    let Range { start, end } = alike.results;
    let count = across.each.get(start).map_or(0, |like| like.count);
    for (rows, line) in down.each.iter().zip(x.chunks_exact(across.each.len())) {
        sums.fill(T::default());
        spread_each(&across.each[..start], &line[..start], rows.divisor, &mut sums);
        let (each, own) = (&across.each[start..end], &line[start..end]);
        match (alike.apart, count) {
            (2, 2) => spread_windows::<T, 2>(each, own, rows.divisor, &mut sums),
            (3, 3) => spread_windows::<T, 3>(each, own, rows.divisor, &mut sums),
            (4, 4) => spread_windows::<T, 4>(each, own, rows.divisor, &mut sums),
            _ => spread_each(each, own, rows.divisor, &mut sums),
        }
        spread_each(&across.each[end..], &line[end..], rows.divisor, &mut sums);
        for (row, weight) in rows.terms::<T>(down.size) {
            let to = &mut out[row * across.size..][..across.size];
            to.iter_mut().zip(&sums).for_each(|(o, &s)| *o = *o + weight * s);
        }
    }
}

/// Spreads what arrives in a row, one by one.
#[inline(always)]
fn spread_each<T: Float>(across: &[WeightedSum], x: &[T], divisor: f64, sums: &mut [T]) {
    for (cols, &v) in across.iter().zip(x) {
        let share = v / T::of(divisor * cols.divisor);
        let inside = usize::try_from(cols.from).ok().and_then(|from| sums.get_mut(from..from + cols.count));
        let Some(inside) = inside else {
            for (place, weight) in cols.terms::<T>(sums.len()) {
                sums[place] = sums[place] + weight * share;
            }
            continue;
        };
        for (sum, weight) in inside.iter_mut().zip(cols.each_weight::<T>()) {
            *sum = *sum + weight * share;
        }
    }
}

/// The same over windows of `N` elements that lie one behind the other.
#[inline(always)]
fn spread_windows<T: Float, const N: usize>(across: &[WeightedSum], x: &[T], divisor: f64, sums: &mut [T]) {
    let Some(like) = across.first() else { return };
    let weights: [T; N] = like.weights_of();
    let divisor = T::of(divisor * like.divisor);
    let windows = sums[like.from.max(0) as usize..].as_chunks_mut::<N>().0;
    for (window, &v) in windows.iter_mut().zip(x) {
        let share = v / divisor;
        for (sum, &weight) in window.iter_mut().zip(&weights) {
            *sum = *sum + weight * share;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Windows of `count` elements, `apart`, of which the first begins at `from` and those at the edges are shorter, with weights or without.
    fn windows(size: usize, [from, count, apart]: [usize; 3], weighted: bool) -> Blend {
        let weights = if weighted { [0.5, -0.3, 1.7, 0.9] } else { [1.0; 4] };
        let sum_of = |start: usize| {
            let (start, end) =
                (start.saturating_sub(from).min(size), (start + count).saturating_sub(from).min(size));
            WeightedSum {
                from: start as isize,
                count: end - start,
                weights,
                divisor: (end - start).max(1) as f64,
            }
        };
        Blend { size, each: (0..size + from).step_by(apart).map(sum_of).collect() }
    }

    /// One by one: rows first.
    fn blended<T: Float>(x: &[T], [down, across]: [&Blend; 2]) -> Vec<T> {
        let mut out = Vec::new();
        let sum = |terms: &mut dyn Iterator<Item = T>| terms.reduce(|a, b| a + b).unwrap_or_default();
        for rows in &down.each {
            let row: Vec<T> = (0..across.size)
                .map(|c| sum(&mut rows.terms::<T>(down.size).map(|(r, w)| w * x[r * across.size + c])))
                .collect();
            for cols in &across.each {
                let total = sum(&mut cols.terms::<T>(across.size).map(|(c, w)| w * row[c]));
                out.push(if rows.count == 0 {
                    T::default()
                } else {
                    total / T::of(rows.divisor * cols.divisor)
                });
            }
        }
        out
    }

    fn spread_one_by_one<T: Float>(x: &[T], [down, across]: [&Blend; 2]) -> Vec<T> {
        let mut out = vec![T::default(); down.size * across.size];
        for (rows, line) in down.each.iter().zip(x.chunks_exact(across.each.len())) {
            let mut sums = vec![T::default(); across.size];
            for (cols, &v) in across.each.iter().zip(line) {
                for (c, w) in cols.terms::<T>(across.size) {
                    sums[c] = sums[c] + w * (v / T::of(rows.divisor * cols.divisor));
                }
            }
            for (r, w) in rows.terms::<T>(down.size) {
                let line = &mut out[r * across.size..][..across.size];
                line.iter_mut().zip(&sums).for_each(|(o, &s)| *o = *o + w * s);
            }
        }
        out
    }

    /// Rows that are short and long, windows that lie one behind the other, overlap, leave gaps or reach over the edge, whole rows of them and
    /// parts: in the bits of one by one.
    #[test]
    fn blocks_of_windows_have_the_bits_of_one_by_one() {
        fn check<T: Float + std::fmt::Debug>() {
            for width in [1, 2, 5, 7, 8, 9, 12, 15, 16, 24, 31, 33, 64, 100] {
                for count in 1..=5 {
                    for (from, apart) in [(0, count), (1, count), (0, 1), (1, 1), (1, 2), (0, count + 1)] {
                        for (weighted, high) in [(false, [0, 2, 2]), (true, [1, 3, 1]), (false, [0, 1, 1])] {
                            let weighted = weighted && count <= 4;
                            let blends = [
                                &windows(6, high, weighted),
                                &windows(width, [from, count, apart], weighted),
                            ];
                            let of = |n: usize| -> Vec<T> {
                                (0..n).map(|i| T::of((i * 37 % 101) as f64 - 50.0)).collect()
                            };
                            let (x, g) =
                                (of(2 * 6 * width), of(2 * blends[0].each.len() * blends[1].each.len()));
                            let (mut y, mut back) = (g.clone(), x.clone());
                            blend(&x, blends, &mut y);
                            spread(&g, blends, &mut back);
                            let (planes, gradients) = (x.chunks(x.len() / 2), g.chunks(g.len() / 2));
                            let what = (width, count, from, apart, high);
                            assert_eq!(
                                y,
                                planes.flat_map(|x| blended(x, blends)).collect::<Vec<T>>(),
                                "{what:?}"
                            );
                            let all = gradients.flat_map(|g| spread_one_by_one(g, blends));
                            assert_eq!(back, all.collect::<Vec<T>>(), "{what:?}");
                        }
                    }
                }
            }
        }
        check::<f32>();
        check::<f64>();
    }

    #[test]
    fn a_reciprocal_of_a_power_of_two_divides() {
        for n in (1..200).map(f64::from).chain([0.5, 2.5, -4.0, 0.0, f64::NAN, f64::INFINITY, 2e19]) {
            let power = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0].contains(&n);
            assert_eq!(is_power_of_two(n), power, "{n}");
            for x in [1.0f32, 0.1, -3.7e-42, 1.4e-45, f32::MAX, f32::INFINITY].into_iter().filter(|_| power) {
                assert_eq!(x / n as f32, x * (1.0 / n) as f32);
            }
        }
    }
}
