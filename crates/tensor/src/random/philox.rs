//! The generator itself: 128 random bits for a counter and a key, see Note [Random numbers].

/// A stretch of counters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counters {
    pub(super) key: [u32; 2],
    pub(super) start: u64,
}

impl Counters {
    /// The four words of a counter. `attempt` tells apart repeated tries for one element.
    #[inline(always)]
    pub(super) fn block(&self, index: u64, attempt: u32) -> [u32; 4] {
        let i = self.start.wrapping_add(index);
        philox([i as u32, (i >> 32) as u32, attempt, 0], self.key)
    }
}

/// Two neighbouring words as one of 64 bits.
#[inline(always)]
pub(super) fn wide(words: [u32; 4], half: usize) -> u64 {
    u64::from(words[2 * half]) | u64::from(words[2 * half + 1]) << 32
}

/// One round key is added to the other by these constants: the golden ratio and the square root of 3, less 1.
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
/// The multipliers that the authors found.
const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];

/// Philox 4x32-10.
#[inline(always)]
fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let a = u64::from(MULTIPLIERS[0]) * u64::from(counter[0]);
        let b = u64::from(MULTIPLIERS[1]) * u64::from(counter[2]);
        counter = [
            (b >> 32) as u32 ^ counter[1] ^ key[0],
            b as u32,
            (a >> 32) as u32 ^ counter[3] ^ key[1],
            a as u32,
        ];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers published with the authors' library Random123, file `kat_vectors`.
    #[test]
    fn philox_gives_the_known_answers() {
        let all = u32::MAX;
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([all; 4], [all; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            philox([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }
}
