//! What this machine can do at best: bandwidth in and out of the nearest cache, multiply-adds, and fresh memory.
//!
//! Plain loops, which `pulp` compiles for the machine's widest vectors. Each figure is the best of several rounds; with
//! several threads each works on its own part, and the round takes as long as the slowest.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

use pulp::{Arch, Simd, WithSimd};

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

    /// The better of two measurements, one by one.
    pub fn better_of(self, other: Limits) -> Limits {
        let bandwidth = |a: Bandwidth, b: Bandwidth| Bandwidth {
            read: a.read.max(b.read),
            copy: a.copy.max(b.copy),
            write: a.write.max(b.write),
        };
        Limits {
            threads: self.threads,
            small: bandwidth(self.small, other.small),
            large: bandwidth(self.large, other.large),
            flops: self.flops.max(other.flops),
            page: self.page.min(other.page),
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
            for _ in 0..passes {
                black_box(arch.dispatch(Read(black_box(&x))));
            }
        }
    });
    // Half of the bytes are the source, so that the footprint is the same.
    let copy = best(threads, || {
        let (x, mut y) = (vec![1.0f32; n / 2], vec![0.0f32; n / 2]);
        move || (0..passes).for_each(|_| arch.dispatch(Copy(black_box(&x), black_box(&mut y))))
    });
    let write = best(threads, || {
        let mut y = vec![0.0f32; n];
        move || (0..passes).for_each(|i| arch.dispatch(Write(black_box(&mut y), i as f32)))
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
struct Read<'a>(&'a [f32]);

// A closure would do, were it sure to be inlined where the vector instructions are enabled.
impl WithSimd for Read<'_> {
    type Output = [f32; 128];
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> [f32; 128] {
        let mut sums = [0.0; 128];
        for block in self.0.chunks_exact(128) {
            for (s, v) in sums.iter_mut().zip(block) {
                *s += v;
            }
        }
        sums
    }
}

/// A copy, doubled so that the compiler does not turn it into `memcpy`, which may bypass the caches.
struct Copy<'a>(&'a [f32], &'a mut [f32]);

impl WithSimd for Copy<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (y, x) in self.1.iter_mut().zip(self.0) {
            *y = x * 2.0;
        }
    }
}

/// Writes one number everywhere.
struct Write<'a>(&'a mut [f32], f32);

impl WithSimd for Write<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for y in self.0 {
            *y = self.1;
        }
    }
}

const CHAINS: usize = 12;
const STEPS: usize = 1_000_000;

/// Multiply-adds on vectors that stay in registers, in chains enough to fill the pipelines. Returns the lanes of a
/// vector and the sum of all results.
struct MultiplyAdd(f32);

impl WithSimd for MultiplyAdd {
    type Output = (usize, f32);
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> (usize, f32) {
        let scale = simd.splat_f32s(self.0);
        let mut sums = [scale; CHAINS];
        for _ in 0..STEPS {
            for sum in &mut sums {
                *sum = simd.mul_add_f32s(*sum, scale, scale);
            }
        }
        let mut total = 0.0;
        for sum in sums {
            total += simd.reduce_sum_f32s(sum);
        }
        (S::F32_LANES, total)
    }
}

fn flops(threads: usize) -> f64 {
    let arch = Arch::new();
    let (lanes, _) = arch.dispatch(MultiplyAdd(0.5));
    let took = best(threads, || {
        move || {
            black_box(arch.dispatch(MultiplyAdd(black_box(0.5))));
        }
    });
    (2 * lanes * CHAINS * STEPS * threads) as f64 / took
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
        let arch = Arch::new();
        assert_eq!(arch.dispatch(Read(&[1.0; 512])), [4.0; 128]);
        let mut y = [0.0; 3];
        arch.dispatch(Copy(&[1.0, 2.0, 3.0], &mut y));
        assert_eq!(y, [2.0, 4.0, 6.0]);
        arch.dispatch(Write(&mut y, 7.0));
        assert_eq!(y, [7.0; 3]);
        // s = s / 2 + 1 / 2 tends to 1 in every lane.
        let (lanes, total) = arch.dispatch(MultiplyAdd(0.5));
        assert_eq!(total, (lanes * CHAINS) as f32);
        let job = || {
            black_box(0);
        };
        assert!(best(2, || job) > 0.0);
    }
}
