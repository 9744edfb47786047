//! Random tensors from a counter-based generator: element `i` depends on the seed and on `i`, never on threads.
//!
//! Note [Random numbers]
//! The generator is Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011): a
//! keyed bijection of 128-bit counters. The seed is the key; each call takes the next stretch of counters, one counter
//! for four 32-bit numbers. An element that needs another try asks for the same counter with a higher third word.

use std::cell::RefCell;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;

use crate::dtype::{Block, BlockMut, DType, Element, Scalar};
use crate::error::{Here, Result, TensorFacts, or_panic, refuse};
use crate::kernels::{BlockKernel, FloatKernel, FloatOps, Formula, Real};
use crate::shape::Shape;
use crate::task::{self, Does, Space, Task, To};
use crate::tensor::Tensor;
use crate::threads::{GRAIN, split_work};

/// A source of random numbers with an explicit seed.
///
/// Two generators with one seed give the same tensors for the same sequence of calls, for any number of threads and on
/// every machine; normal numbers may differ in the last places between instruction-set levels.
///
/// ```
/// use foldback_tensor::{DType, Generator};
/// let (mut a, mut b) = (Generator::new(7), Generator::new(7));
/// assert_eq!(a.rand([2, 3]), b.rand([2, 3]));
/// assert_ne!(a.rand([2, 3]), Generator::new(7).rand([2, 3]));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Generator {
    seed: u64,
    /// the first counter that no call has used
    next: u64,
}

thread_local! {
    pub(crate) static DEFAULT: RefCell<Generator> = RefCell::new(Generator::new(os_seed()));
}

/// Seeds the generator behind `Tensor::rand` and its relatives on this thread.
///
/// Every thread has its own; one that has not been seeded takes its seed from the operating system.
///
/// ```
/// use foldback_tensor::{DType, Tensor, manual_seed};
/// manual_seed(1);
/// let a = Tensor::randn([4]);
/// manual_seed(1);
/// assert_eq!(Tensor::randn([4]), a);
/// ```
pub fn manual_seed(seed: u64) {
    DEFAULT.with_borrow_mut(|g| *g = Generator::new(seed));
}

/// The generator behind `Tensor::rand` and its relatives on this thread, in its present state.
///
/// ```
/// use foldback_tensor::{Tensor, get_rng_state, set_rng_state};
/// let state = get_rng_state();
/// let a = Tensor::randn([4]);
/// set_rng_state(state);
/// assert_eq!(Tensor::randn([4]), a);
/// ```
pub fn get_rng_state() -> Generator {
    DEFAULT.with_borrow(Clone::clone)
}

/// Puts another generator in the place of this thread's, and hands out the old one; see [`get_rng_state`].
///
/// ```
/// use foldback_tensor::{Generator, Tensor, set_rng_state};
/// set_rng_state(Generator::new(7));
/// assert_eq!(Tensor::rand([4]), Generator::new(7).rand([4]));
/// ```
pub fn set_rng_state(state: Generator) -> Generator {
    DEFAULT.replace(state)
}

/// Randomness of the operating system, by way of the keys that every new hash map gets.
fn os_seed() -> u64 {
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

impl Generator {
    /// A generator that starts from `seed`.
    ///
    /// ```
    /// assert_eq!(foldback_tensor::Generator::new(7).seed(), 7);
    /// ```
    pub fn new(seed: u64) -> Generator {
        Generator { seed, next: 0 }
    }

    /// The seed it was made with.
    ///
    /// ```
    /// assert_eq!(foldback_tensor::Generator::new(7).seed(), 7);
    /// ```
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Where it stands, to be kept in a file: the seed and the place in its sequence, an `i64` tensor of shape `[2]`.
    ///
    /// ```
    /// use foldback_tensor::Generator;
    /// let mut a = Generator::new(7);
    /// a.rand([3]);
    /// let mut b = Generator::new(0);
    /// b.set_state(&a.get_state())?;
    /// assert_eq!(a.rand([4]), b.rand([4]));
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    pub fn get_state(&self) -> Tensor {
        // The bits: both are below 2^64, and i64 is what integers are here.
        or_panic(Tensor::from_vec(vec![self.seed as i64, self.next as i64], 2))
    }

    /// Goes on where another stood, as [`Generator::get_state`] has it.
    ///
    /// # Errors
    /// `DTypeMismatch` unless the state is `i64`, `ShapeMismatch` unless its shape is `[2]`; nothing is changed then.
    #[track_caller]
    pub fn set_state(&mut self, state: &Tensor) -> Result<()> {
        let op = "set_state";
        if state.dtype() != DType::I64 {
            let (expected, found) = (DType::I64, state.dtype());
            return refuse(TensorFacts::DTypeMismatch { op, operand: "the state", expected, found }).here();
        }
        let [2] = state.dims() else {
            let (expected, found) = (2.into(), state.shape().clone());
            return refuse(TensorFacts::ShapeMismatch { op, operand: "state", expected, found }).here();
        };
        let words = state.to_vec::<i64>()?;
        *self = Generator { seed: words[0] as u64, next: words[1] as u64 };
        Ok(())
    }

    /// The next `blocks` counters.
    fn reserve(&mut self, blocks: u64) -> Counters {
        let start = self.next;
        self.next = start.wrapping_add(blocks);
        Counters { key: [self.seed as u32, (self.seed >> 32) as u32], start }
    }
}

/// Where an operation gets its counters: a generator, or the one of this thread, which is not held while it runs,
/// because a parallel section may run another task of the same thread.
pub(crate) type Reserve<'a> = &'a mut dyn FnMut(u64) -> Counters;

/// Defines the four forms of a random constructor: on `Tensor` and on `Generator`, panicking and not.
macro_rules! constructors {
    ($(
        $(#[$doc:meta])*
        $name:ident, $try_name:ident($($arg:ident: $ty:ty),*) = $make:ident($($given:expr),*);
        errors $errors:literal;
        example $example:literal, $check:literal;
    )*) => {
        /// # Random numbers
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// Uses the generator of this thread, see [`manual_seed`].
            ///
            /// # Panics
            #[doc = concat!("If an argument is refused; [`Tensor::", stringify!($try_name), "`] returns an error instead.")]
            ///
            #[doc = concat!(
                "```\nuse foldback_tensor::{DType, Tensor};\nlet t = Tensor::", $example, ";\n", $check, "\n```"
            )]
            #[track_caller]
            pub fn $name($($arg: $ty),*) -> Tensor {
                or_panic(Tensor::$try_name($($arg),*))
            }

            #[doc = concat!("[`Tensor::", stringify!($name), "`] that returns an error instead of panicking.")]
            ///
            /// # Errors
            #[doc = $errors]
            ///
            #[doc = concat!(
                "```\nuse foldback_tensor::{DType, Tensor};\nlet t = Tensor::try_", $example, "?;\n", $check,
                "\n# Ok::<(), foldback_tensor::Error>(())\n```"
            )]
            #[track_caller]
            pub fn $try_name($($arg: $ty),*) -> Result<Tensor> {
                make::$make(&mut |n| DEFAULT.with_borrow_mut(|g| g.reserve(n)), $($given),*).here()
            }
        )*}

        /// # Tensors
        impl Generator {$(
            $(#[$doc])*
            ///
            /// # Panics
            #[doc = concat!("If an argument is refused; [`Generator::", stringify!($try_name), "`] returns an error instead.")]
            ///
            #[doc = concat!(
                "```\nuse foldback_tensor::{DType, Generator};\nlet t = Generator::new(7).", $example, ";\n", $check, "\n```"
            )]
            #[track_caller]
            pub fn $name(&mut self, $($arg: $ty),*) -> Tensor {
                or_panic(self.$try_name($($arg),*))
            }

            #[doc = concat!("[`Generator::", stringify!($name), "`] that returns an error instead of panicking.")]
            ///
            /// # Errors
            #[doc = $errors]
            ///
            #[doc = concat!(
                "```\nuse foldback_tensor::{DType, Generator};\nlet t = Generator::new(7).try_", $example, "?;\n", $check,
                "\n# Ok::<(), foldback_tensor::Error>(())\n```"
            )]
            #[track_caller]
            pub fn $try_name(&mut self, $($arg: $ty),*) -> Result<Tensor> {
                make::$make(&mut |n| self.reserve(n), $($given),*).here()
            }
        )*}
    };
}

constructors! {
    /// `f32` numbers spread evenly over `[0, 1)`; 1 itself never comes.
    ///
    /// `F32` has 24 random bits, `F64` has 53.
    rand, try_rand(shape: impl Into<Shape>) = rand(shape, DType::F32);
    errors "`TooLarge`.";
    example "rand([2, 3])", "assert!(t.to_vec::<f32>().unwrap().iter().all(|v| (0.0..1.0).contains(v)));";

    /// [`Self::rand`] of a given element type.
    rand_with, try_rand_with(shape: impl Into<Shape>, dtype: DType) = rand(shape, dtype);
    errors "`DTypeUnsupported` unless the type is `F32` or `F64`, `TooLarge`.";
    example "rand_with([2, 3], DType::F64)", "assert_eq!(t.dtype(), DType::F64);";

    /// Normal `f32` numbers of mean 0 and standard deviation 1.
    ///
    /// Source: Box and Muller, "A note on the generation of random normal deviates" (1958).
    randn, try_randn(shape: impl Into<Shape>) = randn(shape, DType::F32);
    errors "`TooLarge`.";
    example "randn([2, 3])", "assert_eq!(t.dims(), [2, 3]);";

    /// [`Self::randn`] of a given element type.
    randn_with, try_randn_with(shape: impl Into<Shape>, dtype: DType) = randn(shape, dtype);
    errors "`DTypeUnsupported` unless the type is `F32` or `F64`, `TooLarge`.";
    example "randn_with([2, 3], DType::F64)", "assert_eq!(t.dtype(), DType::F64);";

    /// `f32` numbers spread evenly over `[low, high)`; `high` itself never comes.
    uniform, try_uniform(shape: impl Into<Shape>, low: f64, high: f64) = uniform(shape, low, high, DType::F32);
    errors "`Parameter` unless `low < high` and both and their distance are finite in the type, `TooLarge`.";
    example "uniform([9], -1.0, 1.0)", "assert!(t.to_vec::<f32>().unwrap().iter().all(|v| (-1.0..1.0).contains(v)));";

    /// [`Self::uniform`] of a given element type.
    uniform_with, try_uniform_with(shape: impl Into<Shape>, low: f64, high: f64, dtype: DType) = uniform(shape, low, high, dtype);
    errors "`Parameter` unless `low < high` and both and their distance are finite in the type, `DTypeUnsupported` unless it is `F32` or `F64`, `TooLarge`.";
    example "uniform_with([9], -1.0, 1.0, DType::F64)", "assert_eq!(t.dtype(), DType::F64);";

    /// Normal `f32` numbers of the given mean and standard deviation.
    ///
    /// Source: Box and Muller, "A note on the generation of random normal deviates" (1958).
    normal, try_normal(shape: impl Into<Shape>, mean: f64, std: f64) = normal(shape, mean, std, DType::F32);
    errors "`Parameter` if `std` is negative or NaN, `TooLarge`.";
    example "normal([9], 5.0, 0.0)", "assert!(t.to_vec::<f32>().unwrap().iter().all(|v| *v == 5.0));";

    /// [`Self::normal`] of a given element type.
    normal_with, try_normal_with(shape: impl Into<Shape>, mean: f64, std: f64, dtype: DType) = normal(shape, mean, std, dtype);
    errors "`Parameter` if `std` is negative or NaN, `DTypeUnsupported` unless the type is `F32` or `F64`, `TooLarge`.";
    example "normal_with([9], 5.0, 0.0, DType::F64)", "assert_eq!(t.dtype(), DType::F64);";

    /// One with probability `p`, else zero: `f32`, or any other element type.
    bernoulli, try_bernoulli(shape: impl Into<Shape>, p: f64) = bernoulli(shape, p, DType::F32);
    errors "`Parameter` unless `p` lies in `0..=1`, `TooLarge`.";
    example "bernoulli([3], 1.0)", "assert_eq!(t.to_vec::<f32>().unwrap(), [1.0; 3]);";

    /// [`Self::bernoulli`] of a given element type.
    bernoulli_with, try_bernoulli_with(shape: impl Into<Shape>, p: f64, dtype: DType) = bernoulli(shape, p, dtype);
    errors "`Parameter` unless `p` lies in `0..=1`, `TooLarge`.";
    example "bernoulli_with([3], 1.0, DType::Bool)", "assert_eq!(t.dtype(), DType::Bool);";

    /// Integers spread evenly over a range, in `I64`; every one is exactly as likely as any other.
    ///
    /// Source: Lemire, "Fast random integer generation in an interval" (2019): a product's high half, and another try
    /// in the rare case that the low half would favour some.
    randint, try_randint(range: Range<i64>, shape: impl Into<Shape>) = randint(range, shape);
    errors "`Parameter` if the range is empty, `TooLarge`.";
    example "randint(0..10, [5])", "assert!(t.to_vec::<i64>().unwrap().iter().all(|v| (0..10).contains(v)));\n# let _ = DType::F32;";

    /// The numbers `0 .. n` in random order, in `I64`; every order is as likely as any other.
    ///
    /// Source: Durstenfeld's form of the Fisher-Yates shuffle (1964).
    randperm, try_randperm(n: usize) = randperm(n);
    errors "`TooLarge`.";
    example "randperm(4)", "let mut v = t.to_vec::<i64>().unwrap();\nv.sort();\nassert_eq!(v, [0, 1, 2, 3]);\n# let _ = DType::F32;";
}

/// What all forms share.
mod make {
    use super::*;

    pub(super) fn rand(reserve: Reserve<'_>, shape: impl Into<Shape>, dtype: DType) -> Result<Tensor> {
        uniform_named("rand", reserve, shape.into(), 0.0, 1.0, dtype)
    }

    pub(super) fn uniform(
        reserve: Reserve<'_>,
        shape: impl Into<Shape>,
        low: f64,
        high: f64,
        dtype: DType,
    ) -> Result<Tensor> {
        uniform_named("uniform", reserve, shape.into(), low, high, dtype)
    }

    fn uniform_named(
        op: &'static str,
        reserve: Reserve<'_>,
        shape: Shape,
        low: f64,
        high: f64,
        dtype: DType,
    ) -> Result<Tensor> {
        expect_float(op, dtype)?;
        let rounded = |v: f64| if dtype == DType::F32 { v as f32 as f64 } else { v };
        if rounded(low).partial_cmp(&rounded(high)) != Some(std::cmp::Ordering::Less) {
            return refuse(parameter(op, "low", low, "less than high"));
        }
        if !rounded(high - low).is_finite() || !rounded(low).is_finite() || !rounded(high).is_finite() {
            return refuse(parameter(op, "high", high, "a finite distance from low"));
        }
        tensor(op, reserve, &shape, dtype, Law::Uniform { low, high })
    }

    pub(super) fn randn(reserve: Reserve<'_>, shape: impl Into<Shape>, dtype: DType) -> Result<Tensor> {
        normal_named("randn", reserve, shape.into(), 0.0, 1.0, dtype)
    }

    pub(super) fn normal(
        reserve: Reserve<'_>,
        shape: impl Into<Shape>,
        mean: f64,
        std: f64,
        dtype: DType,
    ) -> Result<Tensor> {
        normal_named("normal", reserve, shape.into(), mean, std, dtype)
    }

    fn normal_named(
        op: &'static str,
        reserve: Reserve<'_>,
        shape: Shape,
        mean: f64,
        std: f64,
        dtype: DType,
    ) -> Result<Tensor> {
        expect_float(op, dtype)?;
        if std.is_nan() || std < 0.0 {
            return refuse(parameter(op, "std", std, "zero or more"));
        }
        tensor(op, reserve, &shape, dtype, Law::Normal { mean, std })
    }

    pub(super) fn bernoulli(
        reserve: Reserve<'_>,
        shape: impl Into<Shape>,
        p: f64,
        dtype: DType,
    ) -> Result<Tensor> {
        let op = "bernoulli";
        if !(0.0..=1.0).contains(&p) {
            return refuse(parameter(op, "p", p, "between 0 and 1"));
        }
        tensor(op, reserve, &shape.into(), dtype, Law::Bernoulli { p })
    }

    pub(super) fn randint(
        reserve: Reserve<'_>,
        Range { start: low, end: high }: Range<i64>,
        shape: impl Into<Shape>,
    ) -> Result<Tensor> {
        let op = "randint";
        if low >= high {
            return refuse(parameter(op, "range", format!("{low}..{high}"), "a range that is not empty"));
        }
        tensor(
            op,
            reserve,
            &shape.into(),
            DType::I64,
            Law::Integers { low, range: high.wrapping_sub(low) as u64 },
        )
    }

    pub(super) fn randperm(reserve: Reserve<'_>, n: usize) -> Result<Tensor> {
        tensor("randperm", reserve, &Shape::from(n), DType::I64, Law::Order)
    }

    fn tensor(
        op: &'static str,
        reserve: Reserve<'_>,
        shape: &Shape,
        dtype: DType,
        law: Law,
    ) -> Result<Tensor> {
        let (space, does) = (Space::Of(shape), Does::Draw(law, reserve));
        task::make(Task { op, reads: &[], space, does, to: &mut [To::Dense(dtype)] })
    }

    fn expect_float(op: &'static str, dtype: DType) -> Result<()> {
        if dtype.is_float() { Ok(()) } else { refuse(TensorFacts::DTypeUnsupported { op, dtype }) }
    }

    fn parameter(
        op: &'static str,
        name: &'static str,
        value: impl ToString,
        expected: &'static str,
    ) -> TensorFacts {
        TensorFacts::Parameter { op, name, value: value.to_string(), expected }
    }
}

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

/// A stretch of counters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counters {
    key: [u32; 2],
    start: u64,
}

/// Two neighbouring words as one of 64 bits.
#[inline(always)]
fn wide(words: [u32; 4], half: usize) -> u64 {
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

/// Floating-point types that random bits can be made into.
trait Unit: Element {
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
    /// The four words of a counter. `attempt` tells apart repeated tries for one element.
    #[inline(always)]
    fn block(&self, index: u64, attempt: u32) -> [u32; 4] {
        let i = self.start.wrapping_add(index);
        philox([i as u32, (i >> 32) as u32, attempt, 0], self.key)
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ThreadPool, refused};

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

    fn values(t: &Tensor) -> Vec<f64> {
        t.to(DType::F64).to_vec::<f64>().unwrap()
    }

    /// Mean, variance, and the fourth moment about the mean.
    fn moments(t: &Tensor) -> (f64, f64, f64) {
        let v = values(t);
        let n = v.len() as f64;
        let mean = v.iter().sum::<f64>() / n;
        let moment = |p: i32| v.iter().map(|x| (x - mean).powi(p)).sum::<f64>() / n;
        (mean, moment(2), moment(4))
    }

    const N: usize = 200_000;

    /// Asserts a mean and a variance within five standard errors.
    fn check(t: &Tensor, mean: f64, variance: f64) {
        let (m, v, fourth) = moments(t);
        let n = t.numel() as f64;
        assert!((m - mean).abs() <= 5.0 * (variance / n).sqrt(), "mean {m} against {mean}");
        let error = ((fourth - v * v) / n).sqrt();
        assert!((v - variance).abs() <= 5.0 * error + 1e-12, "variance {v} against {variance}");
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut g = Generator::new(12);
        for dtype in [DType::F32, DType::F64] {
            check(&g.rand_with([N], dtype), 0.5, 1.0 / 12.0);
            check(&g.randn_with([N], dtype), 0.0, 1.0);
            check(&g.uniform_with([N], -3.0, 5.0, dtype), 1.0, 64.0 / 12.0);
            check(&g.normal_with([N], 2.0, 3.0, dtype), 2.0, 9.0);
            let fourth = moments(&g.randn_with([N], dtype)).2;
            assert!((fourth - 3.0).abs() < 5.0 * (96.0 / N as f64).sqrt(), "kurtosis {fourth}");
        }
        for dtype in DType::ALL {
            check(&g.bernoulli_with([N], 0.3, dtype), 0.3, 0.21);
        }
        check(&g.randint(-3..8, [N]), 2.0, 10.0);
    }

    #[test]
    fn neighbours_are_not_correlated() {
        let mut g = Generator::new(3);
        for t in [g.randn([N]), g.randn_with([N], DType::F64), g.uniform([N], -1.0, 1.0)] {
            let v = values(&t);
            for lag in [1, 2, 4] {
                let r = v.windows(lag + 1).map(|w| w[0] * w[lag]).sum::<f64>() / v.len() as f64;
                assert!(r.abs() < 5.0 / (N as f64).sqrt(), "lag {lag}: {r}");
            }
        }
    }

    #[test]
    fn ranges_are_half_open() {
        let mut g = Generator::new(5);
        assert!(values(&g.rand([N])).iter().all(|v| (0.0..1.0).contains(v)));
        assert_eq!(f32::units([u32::MAX; 4])[0], 1.0 - f32::EPSILON / 2.0);
        assert_eq!(f64::units([u32::MAX; 4])[0], 1.0 - f64::EPSILON / 2.0);
        // Rounding alone would reach the upper end.
        let (low, high) = (1.0, 1.0 + f64::from(f32::EPSILON));
        assert!(values(&g.uniform([1000], low, high)).iter().all(|&v| v == 1.0));
        assert!(values(&g.uniform([N], 16_777_215.0, 16_777_217.5)).iter().all(|&v| v < 16_777_217.5));
        let ints = g.randint(-2..3, [N]).to_vec::<i64>().unwrap();
        for v in -2..3 {
            let count = ints.iter().filter(|&&x| x == v).count() as f64;
            let expected = N as f64 / 5.0;
            assert!((count - expected).abs() < 5.0 * (expected * 0.8).sqrt(), "{v} came {count} times");
        }
        let all = g.randint(i64::MIN..i64::MAX, [N]).to_vec::<i64>().unwrap();
        assert!(all.iter().any(|&v| v < i64::MIN / 2) && all.iter().any(|&v| v > i64::MAX / 2));
        assert_eq!(g.randint(i64::MIN..i64::MIN + 1, [3]).to_vec::<i64>().unwrap(), [i64::MIN; 3]);
    }

    #[test]
    fn large_ranges_have_no_bias() {
        // Without another try, values below a third of the range would come half as often again.
        let high = 3 * (i64::MAX / 4);
        let v = Generator::new(9).randint(0..high, [N]).to_vec::<i64>().unwrap();
        let third = v.iter().filter(|&&x| x < high / 3).count() as f64;
        assert!((third - N as f64 / 3.0).abs() < 5.0 * (N as f64 * 2.0 / 9.0).sqrt(), "{third}");
    }

    #[test]
    fn permutations() {
        let mut g = Generator::new(1);
        let mut first = [0; 5];
        for _ in 0..5000 {
            let p = g.randperm(5).to_vec::<i64>().unwrap();
            first[p[0] as usize] += 1;
            let mut sorted = p.clone();
            sorted.sort();
            assert_eq!(sorted, [0, 1, 2, 3, 4]);
        }
        assert!(first.iter().all(|&n| (n - 1000i32).abs() < 150), "{first:?}");
        assert_eq!(g.randperm(0).dims(), [0]);
        assert_eq!(g.randperm(1).to_vec::<i64>().unwrap(), [0]);
    }

    #[test]
    fn the_same_numbers_for_any_number_of_threads() {
        let draw = || {
            let mut g = Generator::new(77);
            [
                g.rand([N + 3]),
                g.randn([N + 1]),
                g.randn_with([3, N], DType::F64),
                g.uniform_with([N], 0.0, 9.0, DType::F64),
                g.randint(0..1 << 62, [N + 5]),
                g.bernoulli_with([N], 0.5, DType::Bool),
            ]
        };
        let one = ThreadPool::new(1).install(draw);
        for n in [2, 3, 8] {
            assert_eq!(ThreadPool::new(n).install(draw), one);
        }
    }

    #[test]
    fn calls_go_on_and_seeds_start_again() {
        let mut g = Generator::new(4);
        let (a, b) = (g.rand_with([4], DType::F64), g.rand_with([4], DType::F64));
        assert_ne!(a, b);
        let mut again = g.clone();
        assert_eq!(g.randperm(9), again.randperm(9));
        assert_eq!(Generator::new(4).rand_with([2], DType::F64), a.narrow(0, 0, 2).unwrap());
        assert_ne!(
            Generator::new(1 << 32).rand_with([4], DType::F64),
            Generator::new(0).rand_with([4], DType::F64)
        );
        manual_seed(4);
        assert_eq!(Tensor::rand_with([4], DType::F64), a);
        assert_eq!(Tensor::rand_with([4], DType::F64), b);
        let other = std::thread::spawn(|| Tensor::rand_with([4], DType::F64)).join().unwrap();
        assert_ne!(other, Tensor::rand_with([4], DType::F64));
    }

    #[test]
    fn states_are_kept_and_others_refused() {
        let mut g = Generator { seed: u64::MAX, next: u64::MAX - 5 };
        let mut other = Generator::new(0);
        other.set_state(&g.get_state()).unwrap();
        assert_eq!(other, g);
        assert_eq!(other.rand([3]), g.rand([3]));
        let kept = g.clone();
        for bad in [Tensor::zeros(2), Tensor::zeros_with(3, DType::I64), Tensor::zeros_with((), DType::I64)] {
            assert!(g.set_state(&bad).unwrap_err().to_string().starts_with("set_state: "));
            assert_eq!(g, kept);
        }
    }

    #[test]
    fn bad_arguments_are_refused() {
        let mut g = Generator::new(0);
        let parameter = |r: Result<Tensor>| refused!(r, TensorFacts::Parameter { .. });
        for p in [-0.1, 1.1, f64::NAN] {
            assert!(parameter(g.try_bernoulli([2], p)));
        }
        for (low, high) in [
            (1.0, 1.0),
            (2.0, 1.0),
            (f64::NAN, 1.0),
            (0.0, f64::INFINITY),
            (-1e308, 1e308),
            (f64::NEG_INFINITY, 0.0),
        ] {
            assert!(parameter(g.try_uniform_with([2], low, high, DType::F64)), "{low} {high}");
        }
        assert!(parameter(g.try_uniform([2], 1.0, 1.0 + 1e-12)));
        assert!(parameter(g.try_uniform([2], 0.0, 1e300)));
        assert!(parameter(g.try_normal([2], 0.0, -1.0)));
        assert!(parameter(g.try_normal([2], 0.0, f64::NAN)));
        assert!(parameter(g.try_randint(3..3, [2])));
        assert!(refused!(g.try_rand_with([2], DType::I64), TensorFacts::DTypeUnsupported { op: "rand", .. }));
        assert!(refused!(
            g.try_randn_with([2], DType::Bool),
            TensorFacts::DTypeUnsupported { op: "randn", .. }
        ));
        assert!(refused!(g.try_rand([usize::MAX, 2]), TensorFacts::TooLarge { .. }));
        assert!(refused!(Tensor::try_randperm(usize::MAX), TensorFacts::TooLarge { .. }));
        assert_eq!(Tensor::rand([0, 3]).dims(), [0, 3]);
        assert_eq!(Tensor::rand(()).dims(), [0usize; 0]);
    }

    #[test]
    #[should_panic(expected = "range = 3..1 is not valid")]
    fn constructors_panic_with_the_error() {
        Tensor::randint(Range { start: 3, end: 1 }, [2]);
    }
}
