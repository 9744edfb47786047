//! Calls with hostile shapes, axes, indices, strides, slices, sizes and numbers.
//!
//! Random bytes choose a function and its arguments. Whatever they are, it must not panic; an error must say something and
//! name the operation; a result must be readable, element by element, in the shape that it claims.

mod choices;
mod creation;
mod images;
mod tensors;
mod variables;

use std::panic::{AssertUnwindSafe, catch_unwind};

use foldback_tensor::Tensor;

pub use choices::Choices;

/// One function to call: its name, as errors tell it, and a call with chosen arguments.
pub struct Target {
    /// what an error must name
    pub name: &'static str,
    /// the call
    pub call: fn(&mut Choices<'_>) -> Outcome,
}

/// The results of a call, or the text of its error.
pub type Outcome = Result<Vec<Tensor>, String>;

/// Results up to this size are read.
const READ: usize = 100_000;

/// All functions.
pub fn targets() -> Vec<&'static Target> {
    [tensors::TARGETS, variables::TARGETS, creation::TARGETS, images::TARGETS].into_iter().flatten().collect()
}

/// Lets bytes choose a call, makes it, and says what is wrong with what it did.
///
/// # Errors
/// The call in words and what is wrong.
pub fn attack(bytes: &[u8]) -> Result<(), String> {
    let mut choices = Choices::new(bytes);
    let targets = targets();
    let target = targets[choices.below(targets.len())];
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let outcome = (target.call)(&mut choices);
        match &outcome {
            Ok(results) => results.iter().try_for_each(consistent),
            Err(text) if text.is_empty() => Err("an error without words".to_owned()),
            Err(text) if !text.contains(target.name) => {
                Err(format!("an error that names another operation: {text}"))
            }
            Err(_) => Ok(()),
        }
    }));
    let wrong = match outcome {
        Ok(verdict) => verdict,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            Err(format!("panic: {}", text.unwrap_or_default()))
        }
    };
    wrong.map_err(|wrong| format!("{}({}): {wrong}", target.name, choices.told()))
}

/// Whether a tensor is what it says.
fn consistent(t: &Tensor) -> Result<(), String> {
    let product = t.dims().iter().try_fold(1usize, |n, &size| n.checked_mul(size));
    let empty = t.dims().contains(&0);
    if !empty && product != Some(t.numel()) || empty && t.numel() != 0 {
        return Err(format!("shape {:?} with {} elements", t.dims(), t.numel()));
    }
    if t.strides().len() != t.rank() {
        return Err(format!("shape {:?} with strides {:?}", t.dims(), t.strides()));
    }
    if t.numel() <= READ {
        let read = t.to(foldback_tensor::DType::F64).to_vec::<f64>().map_err(|e| e.to_string())?;
        if read.len() != t.numel() {
            return Err(format!("{} elements read of {}", read.len(), t.numel()));
        }
    }
    Ok(())
}
