//! One error for whole programs.

/// The result of anything in this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Any error of the library: `?` turns those of its crates into this one.
///
/// A failed tensor operation is [`Error::Tensor`] wherever it happened, except inside a layer, whose place is kept. The
/// other errors are boxed, so that a `Result` stays small.
///
/// ```
/// use foldback::prelude::*;
/// fn run() -> Result<Tensor> {
///     let x = tensor![1.0, 2.0].requires_grad();      // tensor, graph
///     let sgd = SGD::try_new([&x], 0.1)?;         // optim
///     loss::mse_loss(&x, &tensor![0.0, 0.0])?.backward()?; // nn, graph
///     sgd.step()?;
///     Ok(x.value().reshape([3])?)                     // tensor
/// }
/// assert!(matches!(run(), Err(Error::Tensor(_))));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tensor operation was refused.
    #[error(transparent)]
    Tensor(foldback_tensor::Error),
    /// Recording or a backward pass was refused.
    #[error(transparent)]
    Graph(Box<foldback_graph::Error>),
    /// A layer or a loss was refused.
    #[error(transparent)]
    Nn(Box<foldback_nn::Error>),
    /// An optimiser was refused.
    #[error(transparent)]
    Optim(Box<foldback_optim::Error>),
    /// A check of gradients found something wrong.
    #[error(transparent)]
    Gradcheck(Box<foldback_gradcheck::Error>),
    /// Reading or writing failed, outside this library.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Any other error, see [`Error::other`].
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Any other error, for programs that return this type.
    ///
    /// ```
    /// use foldback::{Error, Result};
    /// fn number(text: &str) -> Result<f32> {
    ///     text.parse().map_err(Error::other)
    /// }
    /// assert!(number("one").is_err());
    /// assert_eq!(Error::other("no such file").to_string(), "no such file");
    /// ```
    pub fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::Other(error.into())
    }
}

impl From<foldback_tensor::Error> for Error {
    fn from(e: foldback_tensor::Error) -> Error {
        Error::Tensor(e)
    }
}

impl From<foldback_graph::Error> for Error {
    fn from(e: foldback_graph::Error) -> Error {
        match e {
            foldback_graph::Error::Tensor(e) => e.into(),
            e => Error::Graph(Box::new(e)),
        }
    }
}

impl From<foldback_nn::Error> for Error {
    fn from(e: foldback_nn::Error) -> Error {
        match e {
            foldback_nn::Error::Graph(e) => e.into(),
            e => Error::Nn(Box::new(e)),
        }
    }
}

impl From<foldback_optim::Error> for Error {
    fn from(e: foldback_optim::Error) -> Error {
        match e {
            foldback_optim::Error::Graph(e) => e.into(),
            e => Error::Optim(Box::new(e)),
        }
    }
}

impl From<foldback_gradcheck::Error> for Error {
    fn from(e: foldback_gradcheck::Error) -> Error {
        match e {
            foldback_gradcheck::Error::Graph(e) => e.into(),
            e => Error::Gradcheck(Box::new(e)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::prelude::*;

    #[test]
    fn flattened_along_the_crates() {
        let x = tensor![1.0, 2.0].requires_grad();
        let tensor_error = || x.value().reshape([3]).unwrap_err();
        for e in [
            Error::from(tensor_error()),
            crate::graph::Error::from(tensor_error()).into(),
            crate::nn::Error::from(tensor_error()).into(),
            crate::optim::Error::from(tensor_error()).into(),
            crate::gradcheck::Error::from(crate::graph::Error::from(tensor_error())).into(),
        ] {
            assert!(matches!(e, Error::Tensor(_)), "{e:?}");
        }
        assert!(matches!(Error::from(x.backward().unwrap_err()), Error::Graph(_)));
        assert!(matches!(Error::from(loss::mse_loss(&x, 1.0).unwrap_err()), Error::Nn(_)));
        assert!(matches!(Error::from(SGD::try_new([x], -1.0).unwrap_err()), Error::Optim(_)));
        assert!(matches!(Error::from(std::io::Error::other("x")), Error::Io(_)));
    }
}
