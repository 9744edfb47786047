//! What graphs say through the `log` facade. Alone in its process, which has one logger and gives each warning once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use foldback_graph::{Backward, RequiresGrad};
use foldback_tensor::tensor;

/// Looks at a gradient itself, and notes what graphs say.
struct Log;
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
static LOOKS: AtomicBool = AtomicBool::new(false);

impl log::Log for Log {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &log::Record<'_>) {
        if record.target().starts_with("foldback_graph") {
            SAID.lock().unwrap().push(record.args().to_string());
            // Warnings used to be given inside a lock of their own.
            if !LOOKS.swap(true, Ordering::SeqCst) {
                assert_eq!((tensor![1.0].requires_grad() * 2.0).grad(), None);
            }
        }
    }
    fn flush(&self) {}
}

#[test]
fn each_warning_is_given_once_and_a_logger_may_look_at_gradients() {
    log::set_logger(&Log).unwrap();
    log::set_max_level(log::LevelFilter::Warn);
    for _ in 0..3 {
        let x = tensor![2.0].requires_grad();
        let y = &x * 2.0;
        assert_eq!(y.grad(), None);
        y.backward_with(Backward::new().create_graph(true)).unwrap();
        x.zero_grad();
    }
    let said = SAID.lock().unwrap();
    for part in ["is not a leaf (mul) is being read", "backward with create_graph"] {
        assert_eq!(said.iter().filter(|s| s.contains(part)).count(), 1, "{said:?}");
    }
    assert_eq!(said.len(), 2, "{said:?}");
}
