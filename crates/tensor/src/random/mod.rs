//! Random tensors from a counter-based generator: element `i` depends on the seed and on `i`, never on threads.
//!
//! Note [Random numbers]
//! The generator is Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011): a
//! keyed bijection of 128-bit counters. The seed is the key; each call takes the next stretch of counters, one counter
//! for four 32-bit numbers. An element that needs another try asks for the same counter with a higher third word.

mod constructors;
mod distributions;
mod make;
mod philox;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::hash::{BuildHasher, Hasher};

pub(crate) use distributions::Law;
use philox::Counters;

use crate::dtype::DType;
use crate::error::{Here, Result, TensorFacts, or_panic, refuse};
use crate::tensor::Tensor;

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
