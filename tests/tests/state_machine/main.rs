//! Random sequences of views, writes, broadcasts and backward passes, each step compared with the slow model.
//!
//! `FOLDBACK_STATE_STEPS` sets the number of steps and `FOLDBACK_STATE_SEED` the first episode, so that an episode
//! which was reported can be run alone; with `FOLDBACK_STATE_VERBOSE` each step is printed before it is taken:
//!
//! ```text
//! FOLDBACK_STATE_STEPS=10000000 cargo test --release -p tests --test state_machine -- --nocapture
//! FOLDBACK_STATE_STEPS=1 FOLDBACK_STATE_SEED=1234 cargo test -p tests --test state_machine
//! ```

mod machine;
mod operations;
mod passes;
mod random;
mod writes;

use std::collections::BTreeMap;

use foldback_graph::live_nodes;

use crate::machine::Machine;

/// How many steps a plain `cargo test` takes.
const STEPS: u64 = 200_000;

/// A step uses what earlier steps of its episode have left.
const STEPS_PER_EPISODE: usize = 50;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn the_library_agrees_with_the_model() {
    let (steps, first) = (setting("FOLDBACK_STATE_STEPS", STEPS), setting("FOLDBACK_STATE_SEED", 0));
    let mut tally: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut done = 0;
    for seed in first.. {
        if done >= steps {
            break;
        }
        let mut machine = Machine::new(seed);
        for _ in 0..STEPS_PER_EPISODE {
            if let Err(difference) = machine.step() {
                let last = machine.log.len().saturating_sub(40);
                let log = machine.log[last..].join("\n  ");
                panic!(
                    "episode {seed} ({:?}), after {done} steps: {difference}\nthe last steps:\n  {log}",
                    machine.dtype
                );
            }
            done += 1;
        }
        machine.tally.iter().for_each(|(kind, n)| *tally.entry(kind).or_default() += n);
        drop(machine);
        assert_eq!(live_nodes(), 0, "episode {seed} leaks");
    }
    println!("{done} steps: {tally:?}");
}
