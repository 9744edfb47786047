//! Huge pages for large vectors, where the system gives them to who asks.
//!
//! Fresh memory costs a fault per page, and its addresses a walk through tables per page; a page of 2 MiB costs as much as
//! one of 4 KiB. Linux is usually set to give them on request only (`madvise`).

/// Vectors of this many bytes and more ask: a whole huge page lies in them wherever they start.
const ASK_FROM: usize = 4 << 20;

/// Asks for huge pages for a fresh vector. Nothing depends on the answer.
#[cfg(target_os = "linux")]
pub(super) fn ask<T>(values: &[T]) {
    use std::ffi::{c_int, c_void};

    unsafe extern "C" {
        fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
    }
    /// `MADV_HUGEPAGE`
    const HUGE: c_int = 14;
    /// The system wants the address to start a page; the largest that Linux has on any processor.
    const PAGE: usize = 64 << 10;

    let bytes = size_of_val(values);
    if bytes < ASK_FROM {
        return;
    }
    let start = values.as_ptr().cast::<u8>();
    let skipped = start.align_offset(PAGE).min(bytes);
    let length = (bytes - skipped) / PAGE * PAGE;
    // SAFETY: the range lies in the vector, whose memory is ours while it is borrowed; the advice says how the system may back
    // these addresses, and changes neither what is read from them nor what may be done with them.
    unsafe { madvise(start.wrapping_add(skipped).cast_mut().cast(), length, HUGE) };
}

/// Other systems decide for themselves.
#[cfg(not(target_os = "linux"))]
pub(super) fn ask<T>(_: &[T]) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The flags of the mapping that holds an address; `None` where the system does not say.
    fn flags(address: usize) -> Option<String> {
        let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let mut inside = false;
        for line in maps.lines() {
            let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
            if let Some((from, to)) = range
                && let (Ok(from), Ok(to)) = (usize::from_str_radix(from, 16), usize::from_str_radix(to, 16))
            {
                inside = (from..to).contains(&address);
            } else if inside && let Some(flags) = line.strip_prefix("VmFlags:") {
                return Some(flags.to_owned());
            }
        }
        None
    }

    #[test]
    fn large_vectors_ask_where_huge_pages_exist() {
        let values = vec![1u8; 64 << 20];
        let middle = values.as_ptr().addr() + (32 << 20);
        let exist = std::path::Path::new("/sys/kernel/mm/transparent_hugepage/enabled").exists();
        ask(&values);
        if let (true, Some(flags)) = (exist, flags(middle)) {
            assert!(flags.split_whitespace().any(|flag| flag == "hg"), "{flags}");
        }
        assert!(values.iter().all(|&v| v == 1));
    }

    #[test]
    fn small_and_odd_vectors_are_let_be() {
        ask::<f64>(&[]);
        ask(&[1.0f32; 1000]);
        let values = vec![0u8; ASK_FROM + 12345];
        ask(&values[777..]);
        ask(&values[..]);
    }
}
