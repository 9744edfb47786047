//! Weighted sums along both axes of planes: means of windows, and interpolations.

use super::{Alike, BLOCK, PlaneBlock, each_plane};
use crate::buffer::Room;
use crate::kernels::doors::door;
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
    each_plane(out, size, size.max(results), &|number, out| {
        spread_plane(&x[number * results..][..results], blends, out);
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
            for (i, (row, weight)) in rows.terms::<T>(down.size).enumerate() {
                add_weighted(sums, &x[row * width..][..width], weight, i == 0);
            }
        }
        let (rows, cols) = (0..parts.len(), alike.results.clone());
        let block = PlaneBlock { rows, cols, at: alike.from, steps: [width, alike.apart] };
        if let Some(cols) = across.each.get(alike.results.start).filter(|_| block.len() > 0) {
            for (i, (_, weight)) in cols.terms::<T>(width).enumerate() {
                block.lay_out(tall, i, laid);
                add_weighted(sums, laid, weight, i == 0);
            }
            let lines = out.chunks_exact_mut(wide).zip(sums.chunks_exact(alike.results.len()));
            for (rows, (line, sums)) in parts.iter().zip(lines) {
                let line = &mut line[alike.results.clone()];
                if rows.count == 0 {
                    line.fill(T::default());
                    continue;
                }
                let divisor = rows.divisor * cols.divisor;
                if is_power_of_two(divisor) {
                    // The same digits, without a division: 2 by 2 windows (W18).
                    let share = T::of(1.0 / divisor);
                    line.iter_mut().zip(sums).for_each(|(o, &sum)| *o = sum * share);
                } else {
                    let divisor = T::of(divisor);
                    line.iter_mut().zip(sums).for_each(|(o, &sum)| *o = sum / divisor);
                }
            }
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

/// Whether multiplying by the reciprocal of a whole number is dividing by it.
fn is_power_of_two(n: f64) -> bool {
    (1.0..=4_294_967_296.0).contains(&n) && (n as u64).is_power_of_two() && n.fract() == 0.0
}

/// `sums += weight * x`, or `sums = weight * x` where it is the first.
#[inline(always)]
fn add_weighted<T: Float>(sums: &mut [T], x: &[T], weight: T, first: bool) {
    if first {
        sums.iter_mut().zip(x).for_each(|(s, &v)| *s = weight * v);
    } else {
        sums.iter_mut().zip(x).for_each(|(s, &v)| *s = *s + weight * v);
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
            let inside =
                usize::try_from(cols.from).ok().and_then(|from| sums.get_mut(from..from + cols.count));
            let Some(inside) = inside else {
                for (place, weight) in cols.terms::<T>(across.size) {
                    sums[place] = sums[place] + weight * share;
                }
                continue;
            };
            for (sum, weight) in inside.iter_mut().zip(cols.each_weight::<T>()) {
                *sum = *sum + weight * share;
            }
        }
        for (row, weight) in rows.terms::<T>(down.size) {
            let to = &mut out[row * across.size..][..across.size];
            to.iter_mut().zip(&sums).for_each(|(o, &s)| *o = *o + weight * s);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_power_of_two;

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
