//! Random bits made into elements that follow a distribution, or into a permutation.

use super::philox::{Counters, wide};
use crate::dtype::{Block, BlockMut, Element, Scalar};
use crate::kernels::{BlockKernel, FloatKernel, FloatOps, Formula, Real};
use crate::threads::{GRAIN, split_work};

/// What random elements follow. The meta step has refused what a type cannot hold.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Law {
    Uniform {
        low: f64,
        high: f64,
    },
    Normal {
        mean: f64,
        std: f64,
    },
    Bernoulli {
        p: f64,
    },
    /// `low + i` for the numbers `i` below a range
    Integers {
        low: i64,
        range: u64,
    },
    /// the numbers from 0 in random order
    Order,
}

impl Law {
    /// Writes random elements.
    pub(crate) fn draw(self, counters: Counters, out: BlockMut<'_>) {
        match (self, out) {
            (Law::Uniform { low, high }, BlockMut::F32(out)) => {
                counters.uniform(low as f32, high as f32, out)
            }
            (Law::Uniform { low, high }, BlockMut::F64(out)) => counters.uniform(low, high, out),
            (Law::Normal { mean, std }, BlockMut::F32(out)) => {
                counters.normal(&FloatKernel(BoxMuller { mean, std }), out)
            }
            (Law::Normal { mean, std }, BlockMut::F64(out)) => {
                counters.normal(&FloatKernel(BoxMuller { mean, std }), out)
            }
            (Law::Bernoulli { p }, BlockMut::Bool(out)) => counters.bernoulli(p, out),
            (Law::Bernoulli { p }, BlockMut::I64(out)) => counters.bernoulli(p, out),
            (Law::Bernoulli { p }, BlockMut::F32(out)) => counters.bernoulli(p, out),
            (Law::Bernoulli { p }, BlockMut::F64(out)) => counters.bernoulli(p, out),
            (Law::Integers { low, range }, BlockMut::I64(out)) => counters.integers(low, range, out),
            (Law::Order, BlockMut::I64(out)) => counters.order(out),
            _ => unreachable!("the meta step refuses other types"),
        }
    }
}

/// Floating-point types that random bits can be made into.
pub(super) trait Unit: Element {
    /// numbers from one counter
    const PER_BLOCK: usize;
    /// Numbers in `[0, 1)`; the first `PER_BLOCK` are meant.
    fn units(words: [u32; 4]) -> [Self; 4];
    /// `low + u * range`, kept below `high`.
    fn between(u: Self, low: Self, high: Self) -> Self;
    /// `1 - u`, and `u` less a quarter turn for odd elements.
    fn polar(pair: [Self; 2]) -> [[Self; 2]; 2];
}

macro_rules! unit {
    ($t:ty, $per:literal, |$w:ident| $units:expr) => {
        impl Unit for $t {
            const PER_BLOCK: usize = $per;
            #[inline(always)]
            fn units($w: [u32; 4]) -> [$t; 4] {
                $units
            }
            #[inline(always)]
            fn between(u: $t, low: $t, high: $t) -> $t {
                let v = low + u * (high - low);
                if v < high { v } else { high.next_down() }
            }
            #[inline(always)]
            fn polar([u, v]: [$t; 2]) -> [[$t; 2]; 2] {
                [[1.0 - u, v], [1.0 - u, v - 0.25]]
            }
        }
    };
}
/// 2^-24 and 2^-53
const UNIT_F32: f32 = 1.0 / (1u32 << 24) as f32;
const UNIT_F64: f64 = 1.0 / (1u64 << 53) as f64;
unit!(f32, 4, |w| w.map(|x| (x >> 8) as f32 * UNIT_F32));
unit!(f64, 2, |w| {
    let unit = |half| (wide(w, half) >> 11) as f64 * UNIT_F64;
    [unit(0), unit(1), 0.0, 0.0]
});

/// Box and Muller's transform of a number in (0, 1] and an angle in turns.
#[derive(Clone, Copy, Debug)]
struct BoxMuller {
    mean: f64,
    std: f64,
}
impl Formula<2> for BoxMuller {
    // A turn is below one.
    const NEAR: bool = true;

    #[inline(always)]
    fn eval<R: Real>(&self, [u, turn]: [R; 2]) -> R
    where
        f64: FloatOps<R>,
    {
        (u.ln() * -2.0).sqrt() * (turn * std::f64::consts::TAU).cos() * self.std + self.mean
    }
}

/// Numbers that are transformed at once.
const CHUNK: usize = 512;

impl Counters {
    /// Calls `f` with the first element's number, the words and the elements of each counter.
    fn fill<T: Send>(&self, per_block: usize, out: &mut [T], f: impl Fn(u64, [u32; 4], &mut [T]) + Sync) {
        split_work(out.len(), GRAIN, out, &|o: &mut [T], at| o.split_at_mut(at), &|start, _, out| {
            for (b, chunk) in out.chunks_mut(per_block).enumerate() {
                let index = start / per_block + b;
                f((index * per_block) as u64, self.block(index as u64, 0), chunk);
            }
        });
    }

    fn uniform<T: Unit>(&self, low: T, high: T, out: &mut [T]) {
        self.fill(T::PER_BLOCK, out, |_, words, chunk| {
            for (o, u) in chunk.iter_mut().zip(T::units(words)) {
                *o = T::between(u, low, high);
            }
        });
    }

    fn bernoulli<T: Element>(&self, p: f64, out: &mut [T]) {
        let (one, zero) = (T::from_scalar(Scalar::Bool(true)), T::default());
        self.fill(2, out, |_, words, chunk| {
            for (o, u) in chunk.iter_mut().zip(f64::units(words)) {
                *o = if u < p { one } else { zero };
            }
        });
    }

    /// Pairs of normal numbers: one radius, and two angles a quarter turn apart.
    fn normal<T: Unit>(&self, kernel: &dyn BlockKernel, out: &mut [T]) {
        split_work(out.len(), GRAIN, out, &|o: &mut [T], at| o.split_at_mut(at), &|start, _, out| {
            let (mut radii, mut turns) = ([T::default(); CHUNK], [T::default(); CHUNK]);
            for (c, chunk) in out.chunks_mut(CHUNK).enumerate() {
                let first = (start + c * CHUNK) / T::PER_BLOCK;
                for j in 0..chunk.len().div_ceil(T::PER_BLOCK) {
                    let units = T::units(self.block((first + j) as u64, 0));
                    for (pair, at) in
                        units.chunks_exact(2).zip((j * T::PER_BLOCK..(j + 1) * T::PER_BLOCK).step_by(2))
                    {
                        let [even, odd] = T::polar([pair[0], pair[1]]);
                        [radii[at], radii[at + 1]] = [even[0], odd[0]];
                        [turns[at], turns[at + 1]] = [even[1], odd[1]];
                    }
                }
                let n = chunk.len();
                let inputs: [Block<'_>; 2] = [T::block(&radii[..n]), T::block(&turns[..n])];
                kernel.run(&inputs, &mut [T::block_mut(chunk)]);
            }
        });
    }

    fn integers(&self, low: i64, range: u64, out: &mut [i64]) {
        self.fill(2, out, |first, words, chunk| {
            for (j, o) in chunk.iter_mut().enumerate() {
                *o = low.wrapping_add(self.below(range, first + j as u64, wide(words, j)) as i64);
            }
        });
    }

    fn order(&self, out: &mut [i64]) {
        for (i, o) in out.iter_mut().enumerate() {
            *o = i as i64;
        }
        for i in (1..out.len()).rev() {
            let word = wide(self.block(i as u64 / 2, 0), i % 2);
            out.swap(i, self.below(i as u64 + 1, i as u64, word) as usize);
        }
    }

    /// A number below `range` from a word of 64 bits, without bias: element `index` tries again where it must.
    #[inline(always)]
    fn below(&self, range: u64, index: u64, word: u64) -> u64 {
        let mut product = u128::from(word) * u128::from(range);
        if (product as u64) < range {
            let least = range.wrapping_neg() % range;
            let mut attempt = 0;
            while (product as u64) < least {
                attempt += 1;
                let word = wide(self.block(index / 2, attempt), index as usize % 2);
                product = u128::from(word) * u128::from(range);
            }
        }
        (product >> 64) as u64
    }
}
