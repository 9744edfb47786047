//! Optimisers, schedules, clipping, averages and small trainings against PyTorch's (`tests/golden/make_training_optim.py`).

use std::path::Path;

use tests::conformance::replay;

/// The replayer counts the nodes of the whole process, so all files are one test.
#[test]
fn training_is_pytorchs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/training");
    let counts = [("optimizer", 145, 0), ("schedule", 104, 10), ("clip", 62, 18)];
    for (name, passed, special) in counts {
        let report = replay(&[folder.join(format!("{name}.jsonl.gz"))]).expect("the cases are committed");
        let total = report.total();
        assert_eq!(total.failed, 0, "{report}");
        assert_eq!((total.passed, total.special_passed), (passed, special), "{report}");
    }
}
