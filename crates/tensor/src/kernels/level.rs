//! Which instruction-set level the kernels run at: detected once, forced by tests and by users who compare machines.

use std::sync::atomic::{AtomicU8, Ordering};

/// An instruction-set level that kernels are compiled for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// what every processor of the target architecture has
    Baseline = 1,
    /// AVX2 and fused multiply-add
    Avx2 = 2,
    /// AVX-512 (F, VL, DQ, BW)
    Avx512 = 3,
}

/// 0 until the first kernel asks.
static LEVEL: AtomicU8 = AtomicU8::new(0);

/// The best level of this processor.
pub fn detected_level() -> Level {
    #[cfg(target_arch = "x86_64")]
    {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw");
        if avx2 && avx512 {
            return Level::Avx512;
        }
        if avx2 {
            return Level::Avx2;
        }
    }
    Level::Baseline
}

/// The level kernels run at now: the best of this processor, unless [`force_level`] or, when the process starts, the
/// environment variable `FOLDBACK_LEVEL` (`baseline`, `avx2`, `avx512`) says otherwise.
#[inline]
pub fn level() -> Level {
    match LEVEL.load(Ordering::Relaxed) {
        1 => Level::Baseline,
        2 => Level::Avx2,
        3 => Level::Avx512,
        _ => force_level(asked_for().unwrap_or(Level::Avx512)),
    }
}

/// What the environment variable `FOLDBACK_LEVEL` asks for.
#[cold]
fn asked_for() -> Option<Level> {
    let name = std::env::var("FOLDBACK_LEVEL").ok()?;
    let asked = match name.as_str() {
        "baseline" => Some(Level::Baseline),
        "avx2" => Some(Level::Avx2),
        "avx512" => Some(Level::Avx512),
        _ => None,
    };
    if asked.is_none() {
        log::warn!("FOLDBACK_LEVEL is {name:?}, which is none of baseline, avx2 and avx512: it is ignored");
    }
    asked
}

/// Makes kernels of the whole process run at `level`, or at the best one below it that this processor has.
/// Returns what was set.
///
/// ```
/// use foldback_tensor::{detected_level, force_level, Level};
/// assert_eq!(force_level(Level::Baseline), Level::Baseline);
/// force_level(detected_level());
/// ```
pub fn force_level(level: Level) -> Level {
    let set = level.min(detected_level());
    LEVEL.store(set as u8, Ordering::Relaxed);
    set
}
