//! The random programs of this repository, and how many of them pass.

use std::path::Path;

use tests::programs::replay_programs;

#[test]
fn random_programs_agree() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/programs.jsonl.gz");
    let report = replay_programs(&[file]).expect("the programs are committed");
    let total = report.total();
    assert_eq!((total.passed, total.failed, total.skipped), (1500, 0, 0), "{report}");
}
