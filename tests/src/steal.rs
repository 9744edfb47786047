//! A thread that waits in a parallel section while somebody else's task is ready to run: made to happen, not hoped for.
//! It must leave the task alone, which would see the settings of that thread.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use foldback_tensor::kernel::{BlockKernel, Target, fold_to};
use foldback_tensor::{Block, BlockMut, GRAIN, Tensor, ThreadPool};

const APART: u8 = 0;
const TASK_IS_WAITING: u8 = 1;
const TASK_IS_DONE: u8 = 2;

/// Longer than this nobody waits; only a test that would otherwise hang gets here.
const HANG: Duration = Duration::from_secs(120);

/// How long the first thread waits for the second while the task is ready.
const LINGERING: Duration = Duration::from_millis(50);

/// A parallel section of two pieces. The thread that enters it works on one; the other is worked on by the pool's
/// second thread, which spawns the task and takes its time. So the first thread waits, with a task to be had.
#[derive(Clone)]
pub struct Section(Arc<Shared>);

struct Shared {
    entering: Mutex<Option<ThreadId>>,
    state: AtomicU8,
    task: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Section {
    /// Enters the section on this thread, which must belong to the pool.
    pub fn enter(&self) {
        *self.0.entering.lock().unwrap() = Some(thread::current().id());
        let pieces = Tensor::zeros([2 * GRAIN]);
        fold_to("meet", self, &[&pieces], Target::of(pieces.shape())).unwrap();
    }

    fn wait_for(&self, state: u8) {
        let start = Instant::now();
        while self.0.state.load(Ordering::SeqCst) < state {
            assert!(start.elapsed() < HANG, "somebody does not get on");
            thread::yield_now();
        }
    }
}

impl BlockKernel for Section {
    fn run(&self, _: &[Block<'_>], _: &mut [BlockMut<'_>]) {
        if *self.0.entering.lock().unwrap() == Some(thread::current().id()) {
            return self.wait_for(TASK_IS_WAITING);
        }
        let Some(task) = self.0.task.lock().unwrap().take() else { return };
        let section = self.clone();
        rayon::spawn(move || {
            task();
            section.0.state.store(TASK_IS_DONE, Ordering::SeqCst);
        });
        self.0.state.fetch_max(TASK_IS_WAITING, Ordering::SeqCst);
        thread::sleep(LINGERING);
    }
}

/// Runs `around` on one of two threads. Where it enters the section, the other thread spawns `task`, whose result is
/// returned.
///
/// # Panics
/// If the first thread has run the task.
pub fn run_inside<T: Send + 'static>(
    around: impl FnOnce(&Section) + Send,
    task: impl FnOnce() -> T + Send + 'static,
) -> T {
    let result = Arc::new(Mutex::new(None));
    let (place, ran_on) = (Arc::clone(&result), Arc::new(Mutex::new(None)));
    let note = Arc::clone(&ran_on);
    let task = move || {
        *note.lock().unwrap() = Some(thread::current().id());
        *place.lock().unwrap() = Some(task());
    };
    let section = Section(Arc::new(Shared {
        entering: Mutex::new(None),
        state: AtomicU8::new(APART),
        task: Mutex::new(Some(Box::new(task))),
    }));
    ThreadPool::new(2).install(|| {
        around(&section);
        section.wait_for(TASK_IS_DONE);
    });
    assert_ne!(
        *ran_on.lock().unwrap(),
        *section.0.entering.lock().unwrap(),
        "the waiting thread ran the task"
    );
    let found = result.lock().unwrap().take();
    found.expect("the section was entered")
}
