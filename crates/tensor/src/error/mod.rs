//! `Error`: the one error of all crates, which holds the facts of a refusal, the caller's line and the layer it was in.
//!
//! Note [The line of an error]
//! Facts are made where something is refused, however deep inside. The public operation, which is `#[track_caller]`, puts
//! its caller's line on whatever it returns ([`Here::here`]); an operation that is made of others does so last, so that the
//! line is the user's. What runs a user's function (a pass with hooks, a check of gradients) keeps the line that the
//! function's own operation has put there, and adds its own only where there is none ([`Here::or_here`]).

mod cures;
mod facts;
mod io;
mod line;
mod place;

use std::any::Any;
use std::fmt::{self, Debug, Display};
use std::panic::Location;

pub use facts::TensorFacts;
pub use io::IoFacts;
pub use line::Here;
pub use place::Place;

/// The result of anything in this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something was refused, by any crate of this library or by a user's own function.
///
/// A program looks at the [`Kind`]; the facts themselves, an enum of the crate that refused, are found by
/// [`Error::facts`]. `Display` and `Debug` show the same words, which end with the caller's line; `{:#?}` shows the facts.
///
/// ```
/// use foldback_tensor::{Kind, Result, Tensor, TensorFacts, tensor};
/// fn run() -> Result<Tensor> {
///     tensor![1.0, 2.0].sum(3)
/// }
/// let e = run().unwrap_err();
/// assert_eq!(e.kind(), Kind::Axis);
/// assert!(matches!(e.facts(), Some(TensorFacts::AxisOutOfRange { axis: 3, .. })));
/// assert!(e.location().is_some_and(|at| at.file() == file!()));
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    facts: Box<dyn Facts>,
    at: Option<&'static Location<'static>>,
    place: Option<Place>,
}

/// What an [`Error`] is about, in words and in numbers: the crates' enums, or a type of one's own.
///
/// ```
/// use foldback_tensor::{Error, Facts, Kind};
/// #[derive(Debug)]
/// struct Unknown(&'static str);
/// impl std::fmt::Display for Unknown {
///     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
///         write!(f, "no such optimiser: {}", self.0)
///     }
/// }
/// impl Facts for Unknown {
///     fn kind(&self) -> Kind {
///         Kind::Argument
///     }
/// }
/// let e = Error::from(Unknown("adm"));
/// assert_eq!((e.kind(), e.to_string().as_str()), (Kind::Argument, "no such optimiser: adm"));
/// assert_eq!(e.facts::<Unknown>().unwrap().0, "adm");
/// ```
#[diagnostic::on_unimplemented(
    message = "`?` does not make an error of this library of `{Self}`",
    note = "any other error goes by `.map_err(Error::other)?`"
)]
pub trait Facts: Display + Debug + Any + Send + Sync {
    /// What it is about.
    fn kind(&self) -> Kind;
    /// The error behind this one, if there is one.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        None
    }
}

/// What an [`Error`] is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// shapes that do not fit
    Shape,
    /// an element type
    DType,
    /// the name of an axis
    Axis,
    /// an index, or a range of indices
    Index,
    /// any other argument
    Argument,
    /// a result that no memory holds
    Memory,
    /// recording, and going backward
    Graph,
    /// a gradient that is not what differences say
    Gradcheck,
    /// what a file holds
    File,
    /// reading or writing, as the operating system says
    Io,
    /// a user's own error
    User,
}

impl Error {
    /// What it is about.
    pub fn kind(&self) -> Kind {
        self.0.facts.kind()
    }

    /// The facts, if they are of this type.
    pub fn facts<F: Facts>(&self) -> Option<&F> {
        (&*self.0.facts as &dyn Any).downcast_ref()
    }

    /// The line of the operation that was refused: the caller's. None for an error of one's own.
    pub fn location(&self) -> Option<&'static Location<'static>> {
        self.0.at
    }

    /// Where in a model the layer stands that failed: the names of fields joined by dots, `encoder.layers.0`.
    ///
    /// Seen from the module that `forward` was called on; empty if that module itself failed, or if it was no module.
    pub fn path(&self) -> &str {
        self.0.place.as_ref().map_or("", |place| &place.path)
    }

    /// Any other error, as it is.
    ///
    /// ```
    /// use foldback_tensor::{Error, Kind, Result};
    /// fn number(text: &str) -> Result<f32> {
    ///     text.parse().map_err(Error::other)
    /// }
    /// let e = number("one").unwrap_err();
    /// assert_eq!(e.kind(), Kind::User);
    /// assert!(std::error::Error::source(&e).unwrap().is::<std::num::ParseFloatError>());
    /// assert_eq!(Error::other("no such file").to_string(), "no such file");
    /// ```
    #[cold]
    pub fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        match error.into().downcast::<Error>() {
            Ok(own) => *own,
            Err(error) => Error::of(Box::new(Other(error))),
        }
    }

    #[cold]
    #[inline(never)]
    fn of(facts: Box<dyn Facts>) -> Error {
        Error(Box::new(Inner { facts, at: None, place: None }))
    }

    /// The facts, to be changed.
    #[doc(hidden)]
    pub fn facts_mut<F: Facts>(&mut self) -> Option<&mut F> {
        (&mut *self.0.facts as &mut dyn Any).downcast_mut()
    }

    /// The same refusal by another operation: one that is made of others names itself.
    #[doc(hidden)]
    #[cold]
    #[must_use]
    pub fn named(mut self, op: &'static str) -> Error {
        if let Some(facts) = self.facts_mut::<TensorFacts>() {
            facts.set_op(op);
        }
        self
    }

    /// With another line, or none.
    #[doc(hidden)]
    #[cold]
    #[must_use]
    pub fn with_location(mut self, at: Option<&'static Location<'static>>) -> Error {
        self.0.at = at;
        self
    }

    /// The place of the layer that failed, for modules, which write it.
    #[doc(hidden)]
    pub fn place_mut(&mut self) -> &mut Option<Place> {
        &mut self.0.place
    }
}

/// An error of these facts, which has no line yet.
#[doc(hidden)]
#[cold]
pub fn refuse<T>(facts: impl Facts) -> Result<T> {
    Err(Error::from(facts))
}

impl<F: Facts> From<F> for Error {
    #[cold]
    fn from(facts: F) -> Error {
        Error::of(Box::new(facts))
    }
}

impl From<std::io::Error> for Error {
    #[cold]
    #[track_caller]
    fn from(error: std::io::Error) -> Error {
        Error::of(Box::new(Io(error))).with_location(Some(Location::caller()))
    }
}

impl<F: Facts + PartialEq> PartialEq<F> for Error {
    fn eq(&self, facts: &F) -> bool {
        self.facts() == Some(facts)
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.0.place {
            write!(f, "{place}")?;
        }
        write!(f, "{}", self.0.facts)?;
        match self.0.at {
            Some(at) => write!(f, " (at {at})"),
            None => Ok(()),
        }
    }
}

impl Debug for Error {
    /// The words, as `Display`, so that `unwrap` and `main` show them; `{:#?}` shows the facts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return Display::fmt(self, f);
        }
        let mut shown = f.debug_struct("Error");
        shown.field("kind", &self.kind()).field("facts", &self.0.facts);
        if let Some(at) = self.0.at {
            shown.field("at", &format_args!("{at}"));
        }
        if let Some(place) = &self.0.place {
            shown.field("path", &place.path);
        }
        shown.finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.facts.source()
    }
}

/// What the operating system says.
struct Io(std::io::Error);

/// A user's own error.
struct Other(Box<dyn std::error::Error + Send + Sync>);

macro_rules! as_they_are {
    ($($name:ident: $kind:ident, |$e:ident| $source:expr;)*) => {$(
        impl Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                Display::fmt(&self.0, f)
            }
        }
        impl Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                Debug::fmt(&self.0, f)
            }
        }
        impl Facts for $name {
            fn kind(&self) -> Kind {
                Kind::$kind
            }
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                let $e = &self.0;
                Some($source)
            }
        }
    )*};
}
as_they_are! {
    Io: Io, |e| e;
    Other: User, |e| &**e;
}

/// Unwraps for the forms that panic, with the error's words and at the caller's line, which the panic itself names.
/// (`unwrap_or_else` with a closure that panics would do so at the closure's line.)
#[doc(hidden)]
#[track_caller]
#[inline]
pub fn or_panic<T>(result: Result<T>) -> T {
    match result {
        Ok(t) => t,
        Err(e) => panic!("{}", e.with_location(None)),
    }
}

/// Whether a result is an error with facts of this form, for tests.
#[doc(hidden)]
#[macro_export]
macro_rules! refused {
    ($result:expr, $facts:pat $(if $guard:expr)?) => {
        match &$result {
            Err(e) => matches!(e.facts(), Some($facts) $(if $guard)?),
            Ok(_) => false,
        }
    };
}

/// `1 input`, `2 inputs`
#[doc(hidden)]
pub fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests;
