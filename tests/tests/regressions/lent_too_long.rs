//! A panic whose payload panics when dropped, in a thread that helped with an operation, made the operation return while
//! other threads still wrote to its result.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use foldback_tensor::kernel::{self, FloatKernel, FloatOps, Formula, Real};
use foldback_tensor::{Tensor, ThreadPool};

/// A payload whose drop panics, with such a payload again.
struct Explosive;
impl Drop for Explosive {
    fn drop(&mut self) {
        resume_unwind(Box::new(Explosive));
    }
}

static GUESTS: AtomicUsize = AtomicUsize::new(0);
static INSIDE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static IS_NEW: Cell<bool> = const { Cell::new(true) };
    static IS_HOST: Cell<bool> = const { Cell::new(false) };
}

/// The host waits until somebody stays. The first guest panics, the second one panics later, the others take their time.
fn arrive() {
    let wait = |ms| std::thread::sleep(Duration::from_millis(ms));
    if IS_HOST.get() {
        while GUESTS.load(SeqCst) < 3 {
            wait(1);
        }
        return wait(200);
    }
    let number = GUESTS.fetch_add(1, SeqCst);
    match number {
        0 => resume_unwind(Box::new("the first guest")),
        1 => {
            wait(50);
            resume_unwind(Box::new(Explosive));
        }
        _ => {
            INSIDE.fetch_add(1, SeqCst);
            wait(500);
            INSIDE.fetch_sub(1, SeqCst);
        }
    }
}

#[derive(Clone, Copy)]
struct Panicking;
impl Formula<1> for Panicking {
    fn eval<R: Real>(&self, [a]: [R; 1]) -> R
    where
        f64: FloatOps<R>,
    {
        if IS_NEW.replace(false) {
            arrive();
        }
        a + 1.0
    }
}

#[test]
fn nobody_is_at_work_when_an_operation_has_unwound() {
    let x = Tensor::ones([3_000_000]);
    ThreadPool::new(8).install(|| {
        IS_HOST.set(true);
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            kernel::evaluate("panicking", &FloatKernel(Panicking), &[&x]).is_ok()
        }));
        assert_eq!(INSIDE.load(SeqCst), 0);
        // Most likely the first guest's, but if it was slow it is explosive.
        std::mem::forget(unwound.unwrap_err());
    });
}
