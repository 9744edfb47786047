//! Going on where there is stack left: a thread of one's own that passes for the calling one.

use std::panic::resume_unwind;
use std::thread::Builder;

use crate::ops::warning;
use crate::random;
use crate::threads::{INSTALLED, MODES};

/// Runs `f` on a new thread with a stack of so many bytes, and waits for it. A panic goes on in the calling thread.
///
/// What this library keeps per thread is the caller's on the new thread: [`thread_modes`](crate::thread_modes),
/// [`num_threads`](crate::num_threads), the scoped [`broadcast_warning`](crate::broadcast_warning), and the generator
/// that [`manual_seed`](crate::manual_seed) seeds, which goes on in the caller where `f` left it. Inside a pool of one's
/// own, helpers come from the process's threads instead of the pool's: as many as before.
///
/// # Errors
/// If the operating system grants no thread; `f` has not run then.
///
/// ```
/// use foldback_tensor::{on_fresh_stack, set_thread_modes, thread_modes};
/// set_thread_modes(4);
/// assert_eq!(on_fresh_stack(1 << 20, thread_modes)?, 4);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn on_fresh_stack<R: Send>(bytes: usize, f: impl FnOnce() -> R + Send) -> std::io::Result<R> {
    let (threads, modes, scope) = (INSTALLED.get(), MODES.get(), warning::SCOPE.get());
    let generator = random::DEFAULT.with_borrow(Clone::clone);
    std::thread::scope(|threads_of_this_call| {
        let run = move || {
            INSTALLED.set(threads);
            MODES.set(modes);
            let _guard = scope.map(warning::broadcast_warning);
            random::DEFAULT.set(generator);
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
            (result, random::DEFAULT.with_borrow(Clone::clone))
        };
        let thread = Builder::new().stack_size(bytes).spawn_scoped(threads_of_this_call, run)?;
        let (result, generator) = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        random::DEFAULT.set(generator);
        Ok(result.unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        BroadcastWarning, Tensor, ThreadPool, broadcast_warning, manual_seed, num_threads, set_thread_modes,
        tensor, thread_modes,
    };

    #[test]
    fn what_is_set_for_the_caller_holds_there() {
        for n in [1, 3] {
            let inside = || on_fresh_stack(1 << 20, || (num_threads(), Tensor::ones([100_000]).exp()));
            let (threads, value) = ThreadPool::new(n).install(inside).unwrap();
            assert_eq!(threads, n);
            assert_eq!(value, Tensor::ones([100_000]).exp());
        }
        let before = set_thread_modes(2);
        assert_eq!(on_fresh_stack(1 << 20, thread_modes).unwrap(), 2);
        set_thread_modes(before);
        let _guard = broadcast_warning(BroadcastWarning::Refuse);
        let refused = || tensor![[1.0], [2.0]].add(&tensor![1.0, 2.0]).is_err();
        assert!(on_fresh_stack(1 << 20, refused).unwrap());
        let after_another = || {
            drop(broadcast_warning(BroadcastWarning::Off));
            refused()
        };
        assert!(on_fresh_stack(1 << 20, after_another).unwrap());
    }

    #[test]
    fn random_numbers_go_on() {
        let draw = || Tensor::rand([3]);
        manual_seed(5);
        let here = [draw(), draw(), draw()];
        manual_seed(5);
        assert_eq!([draw(), on_fresh_stack(1 << 20, draw).unwrap(), draw()], here);
    }

    #[test]
    fn a_panic_goes_on_in_the_caller() {
        let panic =
            std::panic::catch_unwind(|| on_fresh_stack(1 << 20, || panic!("over there"))).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"over there"));
    }
}
