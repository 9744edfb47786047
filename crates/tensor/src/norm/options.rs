//! The options of normalisation.

/// The options of normalisation: a weight, a bias and `eps`, which is added to the variance. Weight and bias are tensors
/// beside a tensor, and whatever is an operand beside a variable; each is absent (`()`) unless it is set.
///
/// ```
/// use foldback_tensor::{tensor, Norm};
/// let (x, w) = (tensor![[1.0, 3.0]], tensor![2.0, 4.0]);
/// assert_eq!(x.layer_norm_with([2], Norm::new().weight(&w).eps(0))?, tensor![[-2.0, 4.0]]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Norm<W = (), B = ()> {
    /// what the normalised elements are multiplied by
    pub weight: W,
    /// what is added to them then
    pub bias: B,
    /// what is added to the variance; none for the operation's own default
    pub eps: Option<f64>,
}

impl Norm {
    /// No weight, no bias, and the operation's own `eps`: 1e-5, or the machine's for `rms_norm`.
    pub fn new() -> Norm {
        Norm::default()
    }
}

impl<W, B> Norm<W, B> {
    /// A factor for the normalised elements: one for each position of a row in `layer_norm` and `rms_norm`, one per channel in
    /// the others.
    #[must_use]
    #[doc(alias = "gamma")]
    pub fn weight<T>(self, weight: T) -> Norm<T, B> {
        Norm { weight, bias: self.bias, eps: self.eps }
    }

    /// What is added to the weighted elements, of the weight's shape.
    #[must_use]
    #[doc(alias = "beta")]
    pub fn bias<T>(self, bias: T) -> Norm<W, T> {
        Norm { weight: self.weight, bias, eps: self.eps }
    }

    /// What is added to the variance, so that equal elements can be divided by its root.
    #[must_use]
    pub fn eps(mut self, eps: impl Into<f64>) -> Norm<W, B> {
        self.eps = Some(eps.into());
        self
    }
}
