//! Reproducible pseudo-random numbers, independent of the tensors' own generator.

/// SplitMix64 (Steele, Lea and Flood, 2014): every seed gives another well-mixed sequence.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A sequence of its own for every seed.
    ///
    /// ```
    /// use foldback_gradcheck::testing::Random;
    /// assert_eq!(Random::new(7).next_u64(), Random::new(7).next_u64());
    /// ```
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    ///
    /// ```
    /// use foldback_gradcheck::testing::Random;
    /// let mut random = Random::new(7);
    /// assert_ne!(random.next_u64(), random.next_u64());
    /// ```
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `low .. high`.
    ///
    /// ```
    /// use foldback_gradcheck::testing::Random;
    /// assert!((2.0..3.0).contains(&Random::new(7).uniform(2.0, 3.0)));
    /// ```
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        let unit = (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        low + (high - low) * unit
    }

    /// A number of either sign with a magnitude in `low .. high`.
    ///
    /// ```
    /// use foldback_gradcheck::testing::Random;
    /// assert!((0.5..1.5).contains(&Random::new(7).signed(0.5, 1.5).abs()));
    /// ```
    pub fn signed(&mut self, low: f64, high: f64) -> f64 {
        let magnitude = self.uniform(low, high);
        if self.next_u64() & 1 == 0 { magnitude } else { -magnitude }
    }
}
