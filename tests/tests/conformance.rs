//! The golden cases of this repository, and how many of them pass.

use std::collections::BTreeMap;
use std::path::Path;

use tests::conformance::{files, replay};

/// What is skipped, and nothing else is: forms of calls that the library does not have, and differences by design.
const SKIPPED: &[(&str, usize)] = &[
    ("by design: a loss of unequal shapes", 4),
    ("by design: an expanded tensor is written as any other", 5),
    ("by design: second order of prod with a zero and inf or NaN", 2),
    ("form var, std(dim=[])", 2),
];

// One test, because the replayer counts the nodes of the whole process.
#[test]
fn golden_cases_pass() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/cases");
    let files = files(&[cases]).expect("the cases are committed");
    let report = replay(&files).expect("the cases can be read");
    let total = report.total();
    assert_eq!(total.failed, 0, "{report}");
    let skipped: BTreeMap<String, usize> = SKIPPED.iter().map(|&(name, n)| (name.to_owned(), n)).collect();
    assert_eq!(report.unsupported, skipped);
    assert_eq!((total.passed, total.special_passed), (6733, 670));
}
