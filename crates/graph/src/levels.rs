//! Backward passes inside backward passes: a hook or a function may start one, whose hooks start one, and so on.
//!
//! Note [Levels]
//! Each takes stack. After some levels a pass moves to a thread of its own, with a stack of its own, and the thread that
//! asked for it waits: what belongs to a thread is handed over, so that the pass does not notice. No depth overflows a
//! stack; where the system grants no further thread, the pass fails.

use std::cell::Cell;

use foldback_tensor::{on_fresh_stack, refuse};

use crate::budget::{Inside, current};
use crate::error::{GraphFacts, Result};
use crate::mode::{LineGuard, inherited_location};

/// How many passes inside each other the thread of a user runs, of whose stack we do not know how much is left.
const FIRST: u32 = 32;
/// How many a thread of ours runs, and its stack: 64 KiB for each.
const FURTHER: u32 = 256;
const STACK: usize = 16 << 20;

thread_local! {
    /// How many further passes this thread may run inside the current one.
    static LEFT: Cell<u32> = const { Cell::new(FIRST) };
}

/// Gives the level back when dropped.
struct Nested;
impl Drop for Nested {
    fn drop(&mut self) {
        LEFT.set(LEFT.get() + 1);
    }
}

/// Runs a pass one level further in.
pub(crate) fn deeper<R: Send>(pass: impl FnOnce() -> Result<R> + Send) -> Result<R> {
    if let Some(left) = LEFT.get().checked_sub(1) {
        LEFT.set(left);
        let _level = Nested;
        return pass();
    }
    let (line, scope) = (inherited_location(), current());
    let there = || {
        LEFT.set(FURTHER);
        let _line = line.map(LineGuard::set);
        let _scope = scope.map(Inside::of);
        pass()
    };
    on_fresh_stack(STACK, there).unwrap_or_else(|e| refuse(GraphFacts::TooDeep { source: e }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mode::{enable_grad, is_grad_enabled, no_grad};
    use crate::var::RequiresGrad;
    use foldback_tensor::{ThreadPool, num_threads, tensor};
    use std::panic::Location;
    use std::sync::{Arc, Mutex};

    /// What a pass sees of the thread it runs on.
    fn seen() -> (bool, usize, Option<&'static Location<'static>>) {
        (is_grad_enabled(), num_threads(), inherited_location())
    }

    #[test]
    fn a_pass_does_not_notice_that_it_moved() {
        let own = |n: usize| {
            let here = std::thread::current().id();
            LEFT.set(0);
            for line in [None, Some(Location::caller())] {
                let _line = line.map(LineGuard::set);
                let there = no_grad(|| deeper(|| Ok((std::thread::current().id(), seen(), LEFT.get()))));
                let (thread, seen, left) = there.unwrap();
                assert_ne!(thread, here);
                assert_eq!((seen, left), ((false, n, line), FURTHER));
            }
            assert_eq!(LEFT.get(), 0);
            LEFT.set(FIRST);
            assert_eq!(deeper(|| Ok((std::thread::current().id(), LEFT.get()))).unwrap(), (here, FIRST - 1));
            assert_eq!(LEFT.get(), FIRST);
        };
        for n in [1, 3] {
            ThreadPool::new(n).install(|| own(n));
        }
    }

    /// With room to spare for the hooks themselves, also where nothing is optimised.
    #[test]
    fn a_level_takes_less_than_its_share_of_the_stack() {
        let places = Arc::new(Mutex::new(Vec::new()));
        let mut x = tensor![1.0].requires_grad();
        for _ in 0..FURTHER / 2 {
            let (inner, places) = (std::mem::replace(&mut x, tensor![1.0].requires_grad()), places.clone());
            x.register_hook(move |_| {
                let here = 0u8;
                places.lock().unwrap().push(std::ptr::from_ref(&here) as usize);
                enable_grad(|| (&inner * 2.0).backward()).unwrap();
                None
            })
            .unwrap();
        }
        let pass = || {
            LEFT.set(FURTHER);
            (&x * 2.0).backward()
        };
        on_fresh_stack(STACK, pass).unwrap().unwrap();
        let places = places.lock().unwrap();
        assert_eq!(places.len(), FURTHER as usize / 2);
        let most = places.windows(2).map(|p| p[0].abs_diff(p[1])).max().unwrap();
        // Half of a thread's usual 2 MiB for the first ones.
        assert!(most < (1 << 20) / FIRST as usize && most < STACK / FURTHER as usize / 2, "{most} bytes");
    }
}
