//! The golden cases of training, and how many of them pass, file by file.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use tests::conformance::{files, replay};

/// Each file of `golden/training`: how many cases pass, and how many of these are about special points.
const PASSED: &[(&str, usize, usize)] = &[
    ("clip.jsonl.gz", 62, 18),
    ("ema.jsonl.gz", 38, 0),
    ("layers.jsonl.gz", 609, 33),
    ("loss_curve.jsonl.gz", 20, 0),
    ("losses.jsonl.gz", 292, 0),
    ("optimizer.jsonl.gz", 145, 0),
    ("schedule.jsonl.gz", 104, 10),
];

/// What is skipped, and nothing else is.
const SKIPPED: &[(&str, usize)] = &[];

/// The replayer counts the nodes of the whole process, so one test runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn golden_cases_of_training_pass() {
    let _alone = ALONE.lock();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/training");
    let (mut passed, mut skipped) = (Vec::new(), BTreeMap::new());
    for file in files(&[folder]).expect("the cases are committed") {
        let report = replay(&[file.clone()]).expect("the cases can be read");
        let total = report.total();
        assert_eq!(total.failed, 0, "{report}");
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        passed.push((name, total.passed, total.special_passed));
        for (name, count) in report.unsupported {
            *skipped.entry(name).or_insert(0) += count;
        }
    }
    let expected: Vec<_> = PASSED.iter().map(|&(name, n, special)| (name.to_owned(), n, special)).collect();
    assert_eq!(passed, expected);
    let expected: BTreeMap<String, usize> = SKIPPED.iter().map(|&(name, n)| (name.to_owned(), n)).collect();
    assert_eq!(skipped, expected);
}
