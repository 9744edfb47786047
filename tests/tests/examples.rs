//! The examples: stopped and resumed, they end with the bits of a run in one piece, and leave their pictures.

// Each example brings the module of its data.
#![allow(clippy::duplicate_mod)]

use std::path::{Path, PathBuf};

use foldback::Result;
use foldback::nn::Module;
use foldback::tensor::StateDict;

#[allow(dead_code)]
#[path = "../../crates/foldback/examples/autoencoder.rs"]
mod autoencoder;
#[allow(dead_code)]
#[path = "../../crates/foldback/examples/chars.rs"]
mod chars;
#[allow(dead_code)]
#[path = "../../crates/foldback/examples/digits.rs"]
mod digits;
#[allow(dead_code)]
#[path = "../../crates/foldback/examples/series.rs"]
mod series;

/// A folder that goes away at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("foldback-example-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the folder for temporary files can be written");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Two lengths: the first part, and the whole. `train` takes a seed, a length, a folder, and whether it goes on.
fn resumed<M: Module>(
    name: &str,
    [part, whole]: [usize; 2],
    train: impl Fn(u64, usize, &Path, bool) -> Result<M>,
) {
    let folder = Folder::new(name);
    let state = |length, resume| -> StateDict { train(0, length, &folder.0, resume).unwrap().state_dict() };
    let unbroken = state(whole, false);
    let first = state(part, false);
    assert_ne!(first, unbroken, "{name}");
    assert_eq!(state(whole, true), unbroken, "{name}");
    // One that has ended stays as it is.
    assert_eq!(state(whole, true), unbroken, "{name}");
    let pictures = std::fs::read_dir(&folder.0).unwrap();
    let pictures =
        pictures.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|e| e == "svg"));
    assert_eq!(pictures.count(), 1, "{name}");
}

#[test]
fn digits_goes_on() {
    resumed("digits", [1, 2], digits::train);
}

#[test]
fn chars_goes_on() {
    resumed("chars", [10, 20], chars::train);
}

#[test]
fn series_goes_on() {
    resumed("series", [10, 20], series::train);
}

#[test]
fn autoencoder_goes_on() {
    resumed("autoencoder", [1, 3], autoencoder::train);
}
