//! The one error: whatever is refused names the line that called, in this program and not in the library.
//!
//! A public method that forgets its line has none, or one of the library's; each is called here once. The operations of
//! `regressions/names_in_errors.rs` and `regressions/too_large.rs` are checked there as well.

mod messages;
mod models;
mod tensors;
mod texts;
mod variables;

use std::panic::Location;

use foldback::graph::RequiresGrad;
use foldback::nn::NnFacts;
use foldback::prelude::*;
use foldback::tensor::{TensorFacts, refused};
use foldback::{Error, Kind};

/// The call is refused, with the line that this is called from.
#[track_caller]
fn here<T>(result: Result<T>) -> Error {
    let e = result.err().expect("it is refused");
    let at = e.location().unwrap_or_else(|| panic!("{e} has no line"));
    let called = Location::caller();
    assert_eq!((at.file(), at.line()), (called.file(), called.line()), "{e}");
    assert!(e.to_string().ends_with(&format!("(at {at})")), "{e}");
    e
}

/// The line of a file that ends so.
fn line_ending(source: &str, comment: &str) -> u32 {
    let mut lines = source.lines();
    lines.position(|l| l.ends_with(comment)).expect("there is one") as u32 + 1
}

/// One type, so that `?` works anywhere, and that of the operating system and of a user come along.
#[test]
fn one_type_in_all_crates() {
    fn run(step: usize) -> Result<()> {
        let x = tensor![1.0, 2.0].requires_grad();
        match step {
            0 => x.value().reshape(3).map(drop),
            1 => x.backward(),
            2 => loss::mse_loss(&x, 1.0).map(drop),
            3 => SGD::try_new([x], -1.0).map(drop),
            4 => gradcheck(|x| Ok(x[0].clone()), &[x.value()]),
            5 => {
                std::fs::read("/no/such/file")?;
                Ok(())
            }
            6 => "one".parse::<f32>().map(drop).map_err(Error::other),
            _ => Err(Error::other("mine")),
        }
    }
    let kinds: Vec<Kind> = (0..8).map(|step| run(step).unwrap_err().kind()).collect();
    use Kind::*;
    assert_eq!(kinds, [Shape, Shape, Shape, Argument, DType, Io, User, User]);
    let same: foldback::nn::Result<(), foldback::optim::Error> = run(0);
    assert!(refused!(same, TensorFacts::ElementCount { .. }));
    assert!(refused!(run(2), NnFacts::LossShapes { .. }));
}
