//! The golden cases of training, and how many of them pass, file by file.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use tests::conformance::{files, replay};

/// Each file of `golden/training`: how many cases pass, and how many of these are about special points.
const PASSED: &[(&str, usize, usize)] = &[
    ("init.jsonl.gz", 133, 0),
    ("layers.jsonl.gz", 609, 33),
    ("losses.jsonl.gz", 292, 0),
    ("safetensors.jsonl.gz", 118, 5),
    ("state_dict.jsonl.gz", 140, 0),
];

/// What is skipped, and nothing else is.
const SKIPPED: &[(&str, usize)] = &[("dtype i16", 1), ("dtype i32", 1), ("dtype i8", 1), ("dtype u8", 1)];

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
