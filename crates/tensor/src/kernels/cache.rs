//! How large the last-level cache is: what an operation writes stays there for the next one, if it fits.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Taken where the processor does not tell: common on the desktop, and per group of cores on servers.
const USUAL: usize = 32 << 20;

/// 0 until somebody asks.
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// Whether a tensor of so many bytes stays in the last-level cache until it is read again, beside what else an operation reads and writes.
#[doc(hidden)]
pub fn stays_in_cache(bytes: usize) -> bool {
    bytes <= most_in_cache()
}

/// Bytes of which more are not relied on to stay: a cache that is much larger is shared by many cores, and what is stored for it is memory.
const MOST: usize = 16 << 20;

fn most_in(cache: usize) -> usize {
    (cache / 4).min(MOST)
}

/// Bytes of which no more stay.
pub(crate) fn most_in_cache() -> usize {
    most_in(last_level_cache())
}

/// Bytes of the last-level cache of this processor, as it describes itself.
pub(crate) fn last_level_cache() -> usize {
    match BYTES.load(Ordering::Relaxed) {
        0 => {
            let bytes = described().unwrap_or(USUAL);
            BYTES.store(bytes, Ordering::Relaxed);
            bytes
        }
        bytes => bytes,
    }
}

/// Makes the whole process work as if the cache had this size, for tests of what larger results need.
#[cfg(test)]
pub(crate) fn pretend_cache(bytes: usize) {
    BYTES.store(bytes, Ordering::Relaxed);
}

#[cfg(not(target_arch = "x86_64"))]
fn described() -> Option<usize> {
    None
}

/// The largest cache in the deterministic cache parameters: leaf 4 of Intel, and of AMD's leaf 8000001Dh, which has the
/// same fields ("CPUID—CPU Identification", Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2).
#[cfg(target_arch = "x86_64")]
fn described() -> Option<usize> {
    use std::arch::x86_64::{__cpuid, __cpuid_count, CpuidResult};
    const INTEL: u32 = 4;
    const AMD: u32 = 0x8000_001D;
    let bytes = |r: CpuidResult| {
        let field = |value: u32, from: u32, bits: u32| ((value >> from) & ((1 << bits) - 1)) as usize + 1;
        let sets = r.ecx as usize + 1;
        field(r.ebx, 22, 10) * field(r.ebx, 12, 10) * field(r.ebx, 0, 12) * sets
    };
    let caches = |leaf: u32| {
        let supported = leaf <= __cpuid(leaf & 0x8000_0000).eax;
        let count = if supported { 8 } else { 0 };
        // A level of type 0 ends the list.
        let list = (0..count).map(move |i| __cpuid_count(leaf, i)).take_while(|r| r.eax & 31 != 0);
        list.map(bytes).max()
    };
    caches(INTEL).max(caches(AMD)).filter(|&bytes| bytes >= 1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_of_a_size_that_caches_have() {
        let bytes = described().unwrap_or(USUAL);
        assert!((1 << 20..4 << 30).contains(&bytes), "{bytes}");
        assert!(last_level_cache() > 0);
    }

    #[test]
    fn a_quarter_of_a_cache_stays_and_of_a_large_one_16_mib() {
        let mib = 1 << 20;
        assert_eq!([32 * mib, 300 * mib].map(most_in), [8 * mib, 16 * mib]);
    }
}
