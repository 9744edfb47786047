//! `--resume`: a checkpoint now and then, and a program that goes on from it when it is started again.
//!
//! `cargo run --release -p foldback --features safetensors --example digits -- --resume`

use foldback::prelude::*;
use foldback::tensor::StateDict;

/// Goes on from the checkpoint of this program, if it was asked for and there is one: how many steps were taken, and the
/// state of the loader.
pub(crate) fn start<M: Module, O: Optimizer>(
    model: &mut M,
    optimizer: &mut O,
) -> Result<Option<(usize, StateDict)>> {
    match file() {
        Some(path) => from_file(&path, model, optimizer),
        None => Ok(None),
    }
}

/// Writes the checkpoint of this program, if it was asked for.
pub(crate) fn keep<M: Module, O: Optimizer>(
    model: &M,
    optimizer: &O,
    steps: usize,
    loader: StateDict,
) -> Result<()> {
    match file() {
        Some(path) => to_file(&path, model, optimizer, steps, loader),
        None => Ok(()),
    }
}

/// The checkpoint of this program, if it was asked for.
fn file() -> Option<std::path::PathBuf> {
    std::env::args().any(|arg| arg == "--resume").then(|| {
        let program = std::env::args().next().unwrap_or_default();
        let name =
            std::path::Path::new(&program).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        std::env::temp_dir().join(format!("foldback-{name}.ckpt"))
    })
}

#[cfg(feature = "safetensors")]
fn from_file<M: Module, O: Optimizer>(
    path: &std::path::Path,
    model: &mut M,
    optimizer: &mut O,
) -> Result<Option<(usize, StateDict)>> {
    use foldback::tensor::{get_rng_state, set_rng_state};

    if !path.exists() {
        return Ok(None);
    }
    let (mut steps, mut loader, mut rng) = (0usize, StateDict::new(), get_rng_state());
    let c = Checkpoint::open(path)?;
    c.get("model", model)?;
    c.get("optimizer", optimizer)?;
    c.get("steps", &mut steps)?;
    c.get("loader", &mut loader)?;
    c.get("rng", &mut rng)?;
    set_rng_state(rng);
    println!("goes on after {steps} from {}", path.display());
    Ok(Some((steps, loader)))
}

#[cfg(feature = "safetensors")]
fn to_file<M: Module, O: Optimizer>(
    path: &std::path::Path,
    model: &M,
    optimizer: &O,
    steps: usize,
    loader: StateDict,
) -> Result<()> {
    Checkpoint::new()
        .put("model", model)
        .put("optimizer", optimizer)
        .put("steps", &steps)
        .put("loader", &loader)
        .put("rng", &foldback::tensor::get_rng_state())
        .save(path)
}

#[cfg(not(feature = "safetensors"))]
fn from_file<M: Module, O: Optimizer>(
    _: &std::path::Path,
    _: &mut M,
    _: &mut O,
) -> Result<Option<(usize, StateDict)>> {
    Err(Error::other("--resume: checkpoints are behind a feature: add --features safetensors"))
}

#[cfg(not(feature = "safetensors"))]
fn to_file<M: Module, O: Optimizer>(_: &std::path::Path, _: &M, _: &O, _: usize, _: StateDict) -> Result<()> {
    Ok(())
}
