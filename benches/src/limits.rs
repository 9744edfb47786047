//! What this machine can do at best: bandwidth in and out of the nearest cache, multiply-adds, and fresh memory.
//!
//! Plain loops, which `pulp` compiles for the machine's widest vectors. Each figure is the best of several rounds; with
//! several threads each works on its own part, and the round takes as long as the slowest.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

use pulp::Arch;

use crate::workloads::Work;

/// Operands together smaller than this count as cached by each core.
const SMALL: usize = 1 << 20;
/// The operand of most workloads.
const LARGE: usize = 16 << 20;
const PAGE: usize = 4096;
const ROUNDS: usize = 9;

/// Rates of plain memory traffic in bytes per second, each direction counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bandwidth {
    /// reading alone
    pub read: f64,
    /// reading as much as is written
    pub copy: f64,
    /// writing alone
    pub write: f64,
}

/// The limits of the machine with some number of threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// how many threads worked
    pub threads: usize,
    /// 1 MiB altogether
    pub small: Bandwidth,
    /// 16 MiB altogether
    pub large: Bandwidth,
    /// `f32` operations of multiply-adds per second, two for each
    pub flops: f64,
    /// seconds for the first write to a page of 4 KiB
    pub page: f64,
}

impl Limits {
    /// Measures them; takes about a second.
    pub fn measure(threads: usize) -> Limits {
        Limits {
            threads,
            small: bandwidth(SMALL, threads),
            large: bandwidth(LARGE, threads),
            flops: flops(threads),
            page: first_touch(),
        }
    }

    /// The least seconds that the work can take: its traffic at these rates, or its arithmetic, whichever is longer.
    /// 0 if neither says anything.
    pub fn least(&self, work: &Work) -> f64 {
        let rate = if work.bytes() <= SMALL { self.small } else { self.large };
        let traffic = work.read as f64 / rate.read
            + 2.0 * work.copied as f64 / rate.copy
            + work.written as f64 / rate.write;
        traffic.max(work.flops as f64 / self.flops)
    }
}

/// Operands of `bytes` altogether, in equal parts for the threads.
fn bandwidth(bytes: usize, threads: usize) -> Bandwidth {
    // Enough passes that starting the threads does not count.
    let passes = (256 << 20) / bytes;
    let n = bytes / 4 / threads;
    let arch = Arch::new();
    let moved = (bytes * passes) as f64;
    let read = best(threads, || {
        let x = vec![1.0f32; n];
        move || {
            (0..passes).for_each(|_| {
                black_box(arch.dispatch(|| sum(black_box(&x))));
            });
        }
    });
    // Half of the bytes are the source, so that the footprint is the same.
    let copy = best(threads, || {
        let (x, mut y) = (vec![1.0f32; n / 2], vec![0.0f32; n / 2]);
        move || (0..passes).for_each(|_| arch.dispatch(|| scaled(black_box(&x), black_box(&mut y))))
    });
    let write = best(threads, || {
        let mut y = vec![0.0f32; n];
        move || (0..passes).for_each(|i| arch.dispatch(|| black_box(&mut y).fill(i as f32)))
    });
    Bandwidth { read: moved / read, copy: moved / copy, write: moved / write }
}

/// Runs what `make` makes on every thread at once, several times; the seconds of the fastest round.
fn best<F: FnMut() + Send>(threads: usize, make: impl Fn() -> F) -> f64 {
    let mut jobs: Vec<F> = (0..threads).map(|_| make()).collect();
    let mut fastest = f64::INFINITY;
    for _ in 0..ROUNDS {
        let barrier = Barrier::new(threads);
        let took = std::thread::scope(|scope| {
            let started: Vec<_> = jobs
                .iter_mut()
                .map(|job| {
                    scope.spawn(|| {
                        barrier.wait();
                        let start = Instant::now();
                        job();
                        start.elapsed().as_secs_f64()
                    })
                })
                .collect();
            started.into_iter().map(|t| t.join().expect("the loops do not panic")).fold(0.0, f64::max)
        });
        fastest = fastest.min(took);
    }
    fastest
}

/// Reads every element, with enough sums side by side that adding does not hold up reading.
#[inline(always)]
fn sum(x: &[f32]) -> [f32; 128] {
    let mut sums = [0.0; 128];
    for block in x.chunks_exact(128) {
        for (s, v) in sums.iter_mut().zip(block) {
            *s += v;
        }
    }
    sums
}

/// A copy that the compiler does not turn into `memcpy`, which may bypass the caches.
#[inline(always)]
fn scaled(x: &[f32], y: &mut [f32]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = x * 2.0;
    }
}

/// Multiply-adds on numbers that stay in registers: chains long enough to fill both units' pipelines.
fn flops(threads: usize) -> f64 {
    const LANES: usize = 16;
    const CHAINS: usize = 12;
    const STEPS: usize = 1_000_000;
    #[inline(always)]
    fn chains(scale: f32, start: f32) -> [[f32; LANES]; CHAINS] {
        let mut sums = [[start; LANES]; CHAINS];
        let scale = [scale; LANES];
        for _ in 0..STEPS {
            for chain in &mut sums {
                for (v, s) in chain.iter_mut().zip(&scale) {
                    *v = v.mul_add(*s, *s);
                }
            }
        }
        sums
    }
    let arch = Arch::new();
    let took = best(threads, || {
        move || {
            // Without fused multiply-add the function would be a call of the C library, a thousand times slower.
            black_box(arch.dispatch(|| chains(black_box(0.5), black_box(1.0))));
        }
    });
    (2 * LANES * CHAINS * STEPS * threads) as f64 / took
}

/// The cost of the first write to each page of fresh memory, on one thread.
fn first_touch() -> f64 {
    const PAGES: usize = 8192;
    (0..ROUNDS)
        .map(|_| {
            // Zeroed memory of this size comes untouched from the operating system.
            let mut fresh = vec![0u8; PAGES * PAGE];
            let start = Instant::now();
            fresh.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
            let took = start.elapsed().as_secs_f64();
            black_box(&fresh);
            took / PAGES as f64
        })
        .fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Bandwidth = Bandwidth { read: 4e9, copy: 2e9, write: 1e9 };
    const LIMITS: Limits = Limits { threads: 1, small: RATE, large: RATE, flops: 1e9, page: 1e-6 };

    #[test]
    fn the_slower_of_traffic_and_arithmetic() {
        let work = Work { read: 4_000_000, copied: 1_000_000, written: 1_000_000, flops: 0 };
        assert!((LIMITS.least(&work) - 3e-3).abs() < 1e-12);
        let work = Work { flops: 5_000_000, ..work };
        assert!((LIMITS.least(&work) - 5e-3).abs() < 1e-12);
        assert_eq!(LIMITS.least(&Work::default()), 0.0);
    }

    #[test]
    fn the_loops_do_what_they_are_timed_for() {
        assert_eq!(sum(&[1.0; 512]), [4.0; 128]);
        let mut y = [0.0; 3];
        scaled(&[1.0, 2.0, 3.0], &mut y);
        assert_eq!(y, [2.0, 4.0, 6.0]);
        let job = || {
            black_box(sum(&[1.0; 1024]));
        };
        assert!(best(2, || job) > 0.0);
    }
}
