//! Jobs of libraries whose functions may panic but return plain values.

use foldback::Result;

use crate::checksum::Checksum;
use crate::measure::Job;
use crate::worker::Making;

/// A function of nothing, and the sums over what it returned.
struct Timed<T, F: FnMut() -> Result<T>, C: FnMut(T) -> Result<Vec<Checksum>>> {
    run: F,
    check: C,
}

impl<T, F: FnMut() -> Result<T>, C: FnMut(T) -> Result<Vec<Checksum>>> Job for Timed<T, F, C> {
    fn run(&mut self) -> Result<()> {
        std::hint::black_box((self.run)()?);
        Ok(())
    }
    fn checksums(&mut self) -> Result<Vec<Checksum>> {
        let out = (self.run)()?;
        (self.check)(out)
    }
}

/// A job that has no state.
pub(super) fn timed<T: 'static>(
    run: impl FnMut() -> Result<T> + 'static,
    check: impl FnMut(T) -> Result<Vec<Checksum>> + 'static,
) -> Making {
    Ok(Box::new(Timed { run, check }))
}

/// The functions of W16.
#[derive(Clone, Copy)]
pub(super) enum Elementary {
    /// e to the power
    Exp,
    /// hyperbolic tangent
    Tanh,
    /// by the error function, not the approximation
    Gelu,
    /// logistic function
    Sigmoid,
}

impl Elementary {
    /// The function of a key, and whether its gradient is wanted.
    pub(super) fn of(key: &str) -> Option<(Elementary, bool)> {
        let name = key.strip_prefix("W16-")?;
        let (name, back) = match name.strip_suffix("-back") {
            Some(name) => (name, true),
            None => (name, false),
        };
        let function = match name {
            "exp" => Elementary::Exp,
            "tanh" => Elementary::Tanh,
            "gelu" => Elementary::Gelu,
            "sigmoid" => Elementary::Sigmoid,
            _ => return None,
        };
        Some((function, back))
    }
}
