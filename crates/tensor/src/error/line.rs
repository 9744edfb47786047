//! The caller's line on an error, see Note [The line of an error].

use std::panic::Location;

use super::{Error, Kind, Result};

/// Puts the caller's line on an error; what succeeds passes as it is.
#[doc(hidden)]
pub trait Here {
    /// With the caller's line, instead of that of an operation inside.
    #[must_use]
    fn here(self) -> Self;
    /// With the caller's line, unless there is one, or it is a user's own error.
    #[must_use]
    fn or_here(self) -> Self;
    /// Without a line: it is the library's, and whoever runs this will put on theirs.
    #[must_use]
    fn nowhere(self) -> Self;
}

impl<T> Here for Result<T> {
    #[track_caller]
    #[inline(always)]
    fn here(self) -> Self {
        match self {
            Ok(t) => Ok(t),
            Err(e) => Err(e.with_location(Some(Location::caller()))),
        }
    }

    #[track_caller]
    #[inline(always)]
    fn or_here(self) -> Self {
        match self {
            Ok(t) => Ok(t),
            Err(e) => Err(or_caller(e, Location::caller())),
        }
    }

    #[inline(always)]
    fn nowhere(self) -> Self {
        match self {
            Ok(t) => Ok(t),
            Err(e) => Err(e.with_location(None)),
        }
    }
}

#[cold]
fn or_caller(e: Error, caller: &'static Location<'static>) -> Error {
    match e.location() {
        None if e.kind() != Kind::User => e.with_location(Some(caller)),
        _ => e,
    }
}
