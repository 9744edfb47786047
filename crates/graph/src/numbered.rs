//! Maps and sets of the numbers of nodes, which are given out one after another: one multiplication spreads them. With the hashes of the standard library, which
//! nobody can foresee, `grad` of one or two operations took 1.3 times the instructions.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// What belongs to the number of a node, or to that and the number of an output.
pub(crate) type Numbered<K, V> = HashMap<K, V, BuildHasherDefault<OfNumbers>>;

/// Numbers of nodes.
pub(crate) type Numbers = HashSet<u64, BuildHasherDefault<OfNumbers>>;

/// The hash of one number or two.
#[derive(Default)]
pub(crate) struct OfNumbers(u64);

impl Hasher for OfNumbers {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        // Odd, near the golden ratio of 2^64: neighbours come far apart in the upper bits, and differ in the lower ones.
        self.0 = (self.0.rotate_left(32) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_follow_each_other_are_spread() {
        let numbers: Numbers = (0..100_000).map(|i| i * 64).collect();
        assert!((0..100_000).all(|i| numbers.contains(&(i * 64)) && !numbers.contains(&(i * 64 + 1))));
        let outputs: Numbered<(u64, usize), usize> =
            (0..1000).flat_map(|i| (0..9).map(move |nr| ((i, nr), nr))).collect();
        assert_eq!(outputs.len(), 9000);
        // Of the lowest bits, which choose a place, and of the highest, which tell those in a place apart.
        let hash = |i: u64| {
            let mut hasher = OfNumbers::default();
            hasher.write_u64(i);
            hasher.finish()
        };
        let spread = |bits: fn(u64) -> u64| (0..4096).map(|i| bits(hash(i))).collect::<HashSet<u64>>().len();
        assert_eq!([spread(|hash| hash & 1023), spread(|hash| hash >> 57)], [1024, 128]);
    }
}
