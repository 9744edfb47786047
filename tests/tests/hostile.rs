//! Random calls with hostile arguments: for moments here, for as long as `FOLDBACK_HOSTILE_SECONDS` says by hand.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use tests::hostile::attack;

/// Calls in a round.
const ROUND: u32 = 40_000;

#[test]
fn hostile_arguments_are_refused_in_words() {
    let seconds = std::env::var("FOLDBACK_HOSTILE_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(0);
    let end = Instant::now() + Duration::from_secs(seconds);
    let config = Config { cases: ROUND, failure_persistence: None, ..Config::default() };
    let bytes = proptest::collection::vec(any::<u8>(), 0..96);
    // Many hands make panics in threads of their own; only the last, smallest failure is worth printing.
    std::panic::set_hook(Box::new(|_| {}));
    let mut rounds = TestRunner::new_with_rng(
        config.clone(),
        proptest::test_runner::TestRng::deterministic_rng(config.rng_algorithm),
    );
    let failure = loop {
        let round = rounds.run(&bytes, |bytes| attack(&bytes).map_err(TestCaseError::fail));
        if round.is_err() || Instant::now() >= end {
            break round.err();
        }
        // What follows is different on every run.
        rounds = TestRunner::new(config.clone());
    };
    let _ = std::panic::take_hook();
    assert!(failure.is_none(), "{}", failure.expect("checked"));
}
