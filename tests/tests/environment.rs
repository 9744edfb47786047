//! What the environment of a process decides: the instruction-set level, the number of threads, and what becomes of broadcasts that
//! nobody meant. Each is looked at by a process of its own, which is this test again.

use std::process::Command;

use foldback_tensor::{Level, Tensor, detected_level, level, num_threads};

const CHILD: &str = "FOLDBACK_TEST_CHILD";

/// What a process with this variable prints.
fn child(name: &str, value: &str) -> String {
    let this = std::env::current_exe().unwrap();
    let mut command = Command::new(this);
    command.args(["--exact", "the_environment_decides", "--nocapture"]);
    command
        .env_remove("FOLDBACK_LEVEL")
        .env_remove("RAYON_NUM_THREADS")
        .env_remove("FOLDBACK_BROADCAST_WARNING");
    let output = command.env(CHILD, "1").env(name, value).output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().find(|l| l.starts_with("found ")).expect("the child reports").to_string()
}

#[test]
fn the_environment_decides() {
    if std::env::var_os(CHILD).is_some() {
        let pairs = || Tensor::zeros([4, 1]).sub(Tensor::zeros([4])).map_or("refused", |_| "taken");
        let elsewhere = std::thread::spawn(pairs).join().unwrap();
        println!("\nfound {:?}, {}, {} {elsewhere}", level(), num_threads(), pairs());
        return;
    }
    let best = detected_level();
    let cores = std::thread::available_parallelism().unwrap();
    for (name, asked) in [("baseline", Level::Baseline), ("avx2", Level::Avx2), ("avx512", Level::Avx512)] {
        assert_eq!(
            child("FOLDBACK_LEVEL", name),
            format!("found {:?}, {cores}, taken taken", asked.min(best))
        );
    }
    assert_eq!(child("FOLDBACK_LEVEL", "sse9"), format!("found {best:?}, {cores}, taken taken"));
    assert_eq!(child("RAYON_NUM_THREADS", "3"), format!("found {best:?}, 3, taken taken"));
    for (name, said) in [("refuse", "refused refused"), ("warn", "taken taken"), ("sometimes", "taken taken")]
    {
        assert_eq!(child("FOLDBACK_BROADCAST_WARNING", name), format!("found {best:?}, {cores}, {said}"));
    }
}
