//! Cases: a tensor in some layout, and a target to fold it to.

use foldback_tensor::{DType, Tensor};
use proptest::collection::vec;
use proptest::prelude::*;
use tests::oracle::{Plain, Random, Strided};

/// What the numbers are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Numbers {
    /// whole, and so small that a run of them is added without rounding
    Whole,
    /// of one sign and magnitude
    Positive,
    /// of both signs, and magnitudes from 2^-30 to 2^30
    Scaled,
    /// large ones of alternating sign, with small ones between
    Alternating,
}

impl Numbers {
    /// `bits` is the significand of the element type; products of two whole numbers have to fit, too.
    pub(crate) fn next(self, bits: u32, at: usize, random: &mut Random) -> f64 {
        match self {
            Numbers::Whole => {
                let most = 1i64 << ((bits - 11) / 2);
                (random.below(2 * most as usize + 1) as i64 - most) as f64
            }
            Numbers::Positive => random.uniform(1.0, 2.0),
            Numbers::Scaled => random.uniform(-2.0, 2.0) * 2f64.powi(random.below(60) as i32 - 30),
            Numbers::Alternating => match at % 4 {
                0 => 1e6 + random.uniform(0.0, 1.0),
                2 => -1e6 + random.uniform(0.0, 1.0),
                _ => random.uniform(-1.0, 1.0),
            },
        }
    }
}

/// A shape, how operands lie in it, what they hold, and where they are folded to.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) shape: Vec<usize>,
    /// element types of the two operands
    pub(crate) types: [DType; 2],
    pub(crate) numbers: Numbers,
    /// per operand and axis, whether its size is 1
    pub(crate) thin: [Vec<bool>; 2],
    /// how many leading axes the second operand leaves away
    pub(crate) short: usize,
    /// per axis of the target, whether its size is 1; and how many leading axes it leaves away
    pub(crate) folded: (Vec<bool>, usize),
    pub(crate) keepdim: bool,
    pub(crate) seed: u64,
}

impl Case {
    /// Strides of any kind for a shape: axes in any order, with steps, backwards, or standing still.
    pub(crate) fn strided(shape: &[usize], random: &mut Random) -> Strided {
        let mut order: Vec<usize> = (0..shape.len()).collect();
        if random.below(2) == 0 {
            for i in (1..order.len()).rev() {
                order.swap(i, random.below(i + 1));
            }
        }
        let plain = random.below(3) == 0;
        let mut strides = vec![0; shape.len()];
        let mut step = 1isize;
        for &axis in order.iter().rev() {
            let (spread, sign) =
                if plain { (1, 1) } else { ([1, 1, 2, 3][random.below(4)], [1, 1, -1][random.below(3)]) };
            step *= spread;
            strides[axis] = step * sign;
            step *= shape[axis].max(1) as isize;
            if !plain && random.below(6) == 0 {
                strides[axis] = 0;
            }
        }
        Strided::around(shape, strides, random.below(5))
    }

    pub(crate) fn operand(&self, side: usize, random: &mut Random) -> (Tensor, Plain) {
        let missing = if side == 1 { self.short.min(self.shape.len()) } else { 0 };
        let sizes = self.shape.iter().zip(&self.thin[side]).map(|(&n, &thin)| if thin { 1 } else { n });
        let shape: Vec<usize> = sizes.skip(missing).collect();
        self.tensor(&shape, self.types[side], random)
    }

    pub(crate) fn tensor(&self, shape: &[usize], dtype: DType, random: &mut Random) -> (Tensor, Plain) {
        let bits = if self.types.contains(&DType::F32) { 24 } else { 53 };
        let mut at = 0;
        let lies = Case::strided(shape, random);
        lies.fill(dtype, f64::NAN, || {
            at += 1;
            self.numbers.next(bits, at, random)
        })
    }

    /// The shape to fold to, for a common shape.
    pub(crate) fn target(&self, common: &[usize]) -> Vec<usize> {
        let sizes = common.iter().zip(&self.folded.0).map(|(&n, &one)| if one { 1 } else { n });
        sizes.skip(self.folded.1).collect()
    }

    pub(crate) fn axes(&self) -> Vec<usize> {
        (0..self.shape.len()).filter(|&i| self.folded.0[i]).collect()
    }

    /// The axes that a sum over those reduces: all, if none is named.
    pub(crate) fn reduced(&self) -> Vec<usize> {
        if self.axes().is_empty() { (0..self.shape.len()).collect() } else { self.axes() }
    }
}

pub(crate) fn any_case(sizes: impl Strategy<Value = Vec<usize>>) -> impl Strategy<Value = Case> {
    let numbers = prop_oneof![
        Just(Numbers::Whole),
        Just(Numbers::Positive),
        Just(Numbers::Scaled),
        Just(Numbers::Alternating)
    ];
    let types = prop_oneof![
        3 => Just([DType::F32, DType::F32]),
        3 => Just([DType::F64, DType::F64]),
        1 => Just([DType::F32, DType::F64]),
        1 => Just([DType::F64, DType::F32])
    ];
    (sizes, types, numbers, any::<u64>(), any::<bool>()).prop_flat_map(
        |(shape, types, numbers, seed, keepdim)| {
            let n = shape.len();
            let thin = || vec(prop::bool::weighted(0.25), n);
            (thin(), thin(), vec(any::<bool>(), n), 0..=n, 0..=n).prop_map(
                move |(left, right, ones, short, drop)| Case {
                    shape: shape.clone(),
                    types,
                    numbers,
                    thin: [left, right],
                    short: short / 2,
                    folded: (ones, drop / 2),
                    keepdim,
                    seed,
                },
            )
        },
    )
}

/// Up to 6 axes, sizes 0 and 1 among them.
pub(crate) fn small() -> impl Strategy<Value = Vec<usize>> {
    let size = prop_oneof![1 => Just(0usize), 4 => Just(1usize), 20 => 2..6usize];
    vec(size, 0..=6)
}

/// More than one grain (32,768 elements), blocks that are not full and runs on both sides of 64, 512 and 1,024.
pub(crate) fn large() -> impl Strategy<Value = Vec<usize>> {
    const SIZES: &[usize] =
        &[2, 3, 5, 16, 17, 33, 63, 64, 65, 100, 255, 511, 513, 1023, 1024, 1025, 4097, 20_000];
    (vec(prop::sample::select(SIZES), 1..=6), 40_000..400_000usize).prop_map(|(sizes, most)| {
        let mut shape = Vec::new();
        let mut n = 1;
        for size in sizes {
            let size = size.min(most / n);
            shape.push(size.max(1));
            n *= size.max(1);
        }
        // What is left goes to the first axis.
        shape[0] *= (40_000 / n).max(1);
        shape
    })
}
