//! Class numbers of variables, which have no gradients.

use foldback_tensor::Here;

use crate::error::Result;
use crate::input::AsInput;
use crate::node::Var;

/// # Class numbers
impl Var {
    /// A row of `classes` zeros for each class number, with a one at its place: an `i64` variable, which requires no
    /// gradient.
    ///
    /// # Errors
    /// As [`Tensor::one_hot`](foldback_tensor::Tensor::one_hot).
    ///
    /// ```
    /// use foldback_graph::Var;
    /// use foldback_tensor::tensor;
    /// assert_eq!(Var::from(tensor![1; i64]).one_hot(2)?.value(), tensor![[0, 1]; i64]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn one_hot(&self, classes: impl TryInto<i64>) -> Result<Var> {
        self.value_ref().one_hot(classes).map(Var::constant).here()
    }

    /// How often each number from 0 on occurs: an `i64` variable, which requires no gradient.
    ///
    /// # Errors
    /// As [`Tensor::bincount`](foldback_tensor::Tensor::bincount).
    ///
    /// ```
    /// use foldback_graph::Var;
    /// use foldback_tensor::tensor;
    /// assert_eq!(Var::from(tensor![1, 1; i64]).bincount(3)?.value(), tensor![0, 2, 0; i64]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn bincount(&self, minlength: usize) -> Result<Var> {
        self.value_ref().bincount(minlength).map(Var::constant).here()
    }

    /// The sums of weights of equal numbers: a variable that requires no gradient, even if the weights do.
    ///
    /// # Errors
    /// As [`Tensor::bincount_with`](foldback_tensor::Tensor::bincount_with).
    ///
    /// ```
    /// use foldback_graph::Var;
    /// use foldback_tensor::tensor;
    /// let sums = Var::from(tensor![1, 1; i64]).bincount_with(0, tensor![0.5, 0.25])?;
    /// assert_eq!(sums.value(), tensor![0.0, 0.75]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn bincount_with(&self, minlength: usize, weights: impl AsInput) -> Result<Var> {
        let weights = weights.to_var();
        self.value_ref().bincount_with(minlength, &*weights.value_ref()).map(Var::constant).here()
    }
}
