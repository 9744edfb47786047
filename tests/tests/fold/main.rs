//! Folds on their own: sums, `sum_to_size`, gradients evaluated into a folded shape, and the other reductions, over random
//! shapes and strides, against index loops with more bits than the result.
//!
//! Note [The bound of a sum]
//! The library's sums (`iter/order.rs`, Note [The order of a sum]) are held to a bound that has no length in it. With the
//! unit roundoff u of the element type (2^-24 for `f32`, 2^-53 for `f64`), every result s of terms t must satisfy
//!
//! ```text
//! |s - sum t| <= 67 u sum |t|
//! ```
//!
//! A term of a product formula is rounded once: u. On its way a term then takes part in additions of these layers:
//! 1. a leaf of up to 1,024 elements. From 256 elements on they go to 64 lanes, four at a time by a tree (2 additions)
//!    and then to their lane (at most 8), and a tree over the lanes (6): 16. From 32 on there are 16 lanes of up to 15
//!    elements, a tree (4), and up to 15 elements behind them: 33. Fewer come to less. Rows are added element by
//!    element, 4 of them by a tree: 2. Short rows go to lanes of whole rows, 16 to each, and a tree over the rows of
//!    these (at most 5): 21. At most 33.
//! 2. the wide accumulator. For `f32` it is an `f64`: m additions cost m 2^-53 = m 2^-29 u, under u/32 for up to 2^24
//!    runs, more than any test here has. For `f64` it is a pair whose own error is of the order of (m u)^2, under
//!    2^-58 for as many. Merging the parts of a large reduction is the same kind of addition.
//! 3. the result is rounded to the element type once: 1. A sum that waited is added to it: 1 more, of its magnitude too.
//!
//! That is 1 + 33 + 1/32 + 1 + 1 < 66 roundings, (1 + u)^66 - 1 < 67 u. (The bound leaves room for runs of 63 elements
//! added one after another.)
//!
//! Moreover, integers whose partial sums within a run fit the significand are added without any rounding up to step 3,
//! for any length: these sums must be the correctly rounded ones.
//!
//! Proptest cases are drawn with a fixed seed. `FOLDBACK_FOLD_CASES` multiplies their number, `FOLDBACK_FOLD_SEED` draws
//! others; a failure prints the shrunk case, whose `seed` fixes its numbers.

mod cases;
mod reductions;
mod sums;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use tests::oracle::Random;

use crate::cases::Case;

/// A runner whose cases are the same in every run.
fn runner(cases: u32) -> TestRunner {
    let number = |name: &str| std::env::var(name).ok().map(|v| v.parse::<u64>().expect("a whole number"));
    let mut random = Random(number("FOLDBACK_FOLD_SEED").unwrap_or(2026));
    let mut seed = [0; 32];
    seed.chunks_exact_mut(8).for_each(|c| c.copy_from_slice(&random.bits().to_le_bytes()));
    let cases = cases.saturating_mul(number("FOLDBACK_FOLD_CASES").unwrap_or(1) as u32);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed))
}

/// More cases where they cost little.
fn cases(release: u32) -> u32 {
    if cfg!(debug_assertions) { release / 8 } else { release }
}

fn check(
    cases: u32,
    strategy: impl Strategy<Value = Case>,
    test: impl Fn(&Case) -> Result<(), TestCaseError>,
) {
    let tried = std::cell::Cell::new(0);
    let result = runner(cases).run(&strategy, |case| {
        tried.set(tried.get() + 1);
        test(&case)
    });
    println!("{} cases", tried.get());
    result.unwrap_or_else(|e| panic!("{e}"));
}
