//! splitmix64, and choices made with it.

/// Random numbers that are the same on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// splitmix64
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// A number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() >> 11) as usize % n
    }
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
    /// A whole number from -3 to 3.
    pub(crate) fn small(&mut self) -> f64 {
        self.below(7) as f64 - 3.0
    }
    pub(crate) fn shuffled(&mut self, n: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..n).collect();
        (1..n).for_each(|i| all.swap(i, self.below(i + 1)));
        all
    }
    pub(crate) fn some_of(&mut self, n: usize) -> Vec<usize> {
        let mut all = self.shuffled(n);
        all.truncate(self.below(n + 1));
        all
    }
}
