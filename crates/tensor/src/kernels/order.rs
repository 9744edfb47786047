//! The order of elements in rows: sorted, the first few, the one in the middle.

use crate::dtype::Element;
use crate::threads::{GRAIN, split_work};

/// Elements that can be put in order, NaN behind all numbers.
pub(crate) trait Ordered: Element {
    /// Numbers in the order of the elements, equal where these are.
    fn key(self) -> u64;
}
impl Ordered for bool {
    fn key(self) -> u64 {
        u64::from(self)
    }
}
impl Ordered for i64 {
    fn key(self) -> u64 {
        self as u64 ^ (1 << 63)
    }
}
impl Ordered for f64 {
    #[inline(always)]
    fn key(self) -> u64 {
        // Without the sign of zero; negative numbers descend in their bits.
        let bits = (self + 0.0).to_bits();
        let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
        if self.is_nan() { u64::MAX } else { ordered }
    }
}
impl Ordered for f32 {
    #[inline(always)]
    fn key(self) -> u64 {
        f64::from(self).key()
    }
}

/// Which elements of a row are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted {
    /// the first of the sorted row, equal ones in the order in which they stand
    First { descending: bool },
    /// the one in the middle, the lower of two, or the first NaN
    Middle,
}

/// Rows that one thread puts in order at a time have so many elements: this takes longer than adding them up.
const AT_ONCE: usize = GRAIN / 8;

/// The places of the elements wanted in rows of `n`, as many for each row as `out` has room for.
pub(crate) fn order<T: Ordered>(source: &[T], n: usize, wanted: Wanted, out: &mut [i64]) {
    if out.is_empty() {
        return;
    }
    let rows = source.len() / n;
    let count = out.len() / rows;
    let grain = (AT_ONCE / n).max(1);
    split_work(rows, grain, out, &|o: &mut [i64], at| o.split_at_mut(at * count), &|first, _, out| {
        let mut keys: Vec<(u64, i64)> = Vec::with_capacity(n.min(count.saturating_mul(2)));
        for (row, out) in source[first * n..].chunks_exact(n).zip(out.chunks_exact_mut(count)) {
            keys.clear();
            match wanted {
                Wanted::First { descending } => {
                    let flip = if descending { u64::MAX } else { 0 };
                    collect_first(row.iter().map(|v| v.key() ^ flip), count, &mut keys);
                    write_first(&mut keys, out);
                }
                Wanted::Middle => {
                    keys.extend(row.iter().map(|v| v.key()).zip(0..));
                    out[0] = middle(&mut keys);
                }
            }
        }
    });
}

/// Collects the `count` smallest keys with their places, and fewer than so many others. What comes behind as many that
/// are no larger is passed over.
fn collect_first(row: impl Iterator<Item = u64>, count: usize, keys: &mut Vec<(u64, i64)>) {
    let mut limit = None;
    for (key, place) in row.zip(0..) {
        if limit.is_some_and(|limit| key >= limit) {
            continue;
        }
        keys.push((key, place));
        if keys.len() == 2 * count {
            limit = Some(keys.select_nth_unstable(count - 1).1.0);
            keys.truncate(count);
        }
    }
}

/// The places of the smallest keys, in their order.
fn write_first(mut keys: &mut [(u64, i64)], out: &mut [i64]) {
    if out.len() < keys.len() {
        keys.select_nth_unstable(out.len() - 1);
        keys = &mut keys[..out.len()];
    }
    keys.sort_unstable();
    for (o, (_, place)) in out.iter_mut().zip(keys) {
        *o = *place;
    }
}

fn middle(keys: &mut [(u64, i64)]) -> i64 {
    match keys.iter().find(|(key, _)| *key == f64::NAN.key()) {
        Some((_, nan)) => *nan,
        None => keys.select_nth_unstable((keys.len() - 1) / 2).1.1,
    }
}
