//! Runs PyTorch and JAX through the script `python/peers.py`.

use std::path::Path;
use std::process::Command;

/// The ways of running a Python peer; `eager-kept` is `eager` with an allocator that keeps freed memory.
pub const RUNNERS: [&str; 4] = ["eager", "eager-kept", "compile", "jax"];

/// The command that measures one runner with one number of threads.
pub fn command(python: &Path, runner: &str, threads: usize, quick: bool, keys: &[String]) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/peers.py");
    let mut command = Command::new(python);
    command.arg(script).args([runner, &threads.to_string(), if quick { "quick" } else { "full" }]).args(keys);
    for variable in ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"] {
        command.env(variable, threads.to_string());
    }
    // Everything but plain eager is measured at its best.
    if runner != "eager" {
        keep_freed_memory(&mut command);
    }
    command
}

/// Makes glibc's allocator keep what is freed, as a training program's own tuning would: page faults are gone then.
///
/// 32 MiB is the most that glibc accepts as the size from which memory comes from `mmap`.
pub fn keep_freed_memory(command: &mut Command) {
    command.env("MALLOC_MMAP_THRESHOLD_", (32 << 20).to_string());
    command.env("MALLOC_TRIM_THRESHOLD_", (16u64 << 30).to_string());
    command.env("MALLOC_TOP_PAD_", (64 << 20).to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_eager_alone_has_the_ordinary_allocator() {
        for runner in RUNNERS {
            let command = command(Path::new("python3"), runner, 2, true, &["W1".to_owned()]);
            let tuned = command.get_envs().any(|(name, _)| name == "MALLOC_MMAP_THRESHOLD_");
            assert_eq!(tuned, runner != "eager");
            let words: Vec<_> = command.get_args().skip(1).map(|w| w.to_str().unwrap()).collect();
            assert_eq!(words, [runner, "2", "quick", "W1"]);
        }
    }

    #[test]
    fn the_script_is_there() {
        let command = command(Path::new("python3"), "eager", 1, false, &[]);
        assert!(Path::new(command.get_args().next().unwrap()).is_file());
    }
}
