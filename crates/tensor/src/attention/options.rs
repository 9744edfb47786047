//! The options of attention.

/// The options of `scaled_dot_product_attention`. The mask is a tensor beside a tensor, and whatever is an operand beside a
/// variable; it is absent (`()`) unless it is set.
///
/// ```
/// use foldback_tensor::{tensor, Attention};
/// let (q, k, v) = (tensor![[1.0]], tensor![[1.0], [1.0]], tensor![[3.0], [5.0]]);
/// let options = Attention::new().mask(tensor![[false, true]]);
/// assert_eq!(q.scaled_dot_product_attention_with(&k, &v, options)?, tensor![[5.0]]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Attention<M = ()> {
    /// where keys are seen (`bool`), or what is added to the scores
    pub mask: M,
    /// whether a query sees the keys up to its own number only
    pub is_causal: bool,
    /// the factor of the scores; none for `1 / sqrt(e)`
    pub scale: Option<f64>,
    /// the probability that a share is dropped
    pub dropout_p: f64,
    /// whether heads of queries share heads of keys and values
    pub enable_gqa: bool,
}

impl Attention {
    /// No mask, a scale of `1 / sqrt(e)`, and nothing is dropped.
    pub fn new() -> Attention {
        Attention::default()
    }
}

impl<M> Attention<M> {
    /// What is seen: a `bool` mask, true where a query sees a key, or numbers that are added to the scores. It broadcasts to
    /// `[.., l, s]`.
    #[must_use]
    #[doc(alias = "attn_mask")]
    pub fn mask<T>(self, mask: T) -> Attention<T> {
        let Attention { is_causal, scale, dropout_p, enable_gqa, .. } = self;
        Attention { mask, is_causal, scale, dropout_p, enable_gqa }
    }

    /// The mask, and the options without one.
    #[doc(hidden)]
    pub fn without_mask(self) -> (M, Attention) {
        let Attention { mask, is_causal, scale, dropout_p, enable_gqa } = self;
        (mask, Attention { mask: (), is_causal, scale, dropout_p, enable_gqa })
    }

    /// Whether query number `i` sees keys up to number `i` only; not together with a mask.
    #[must_use]
    pub fn is_causal(mut self, causal: bool) -> Attention<M> {
        self.is_causal = causal;
        self
    }

    /// What the products of queries and keys are multiplied by. The default is `1 / sqrt(e)`.
    #[must_use]
    pub fn scale(mut self, scale: impl Into<f64>) -> Attention<M> {
        self.scale = Some(scale.into());
        self
    }

    /// The probability that a share is dropped, by this thread's generator; the others are multiplied by `1 / (1 - p)`.
    #[must_use]
    pub fn dropout_p(mut self, p: impl Into<f64>) -> Attention<M> {
        self.dropout_p = p.into();
        self
    }

    /// Whether keys and values `[.., heads, s, e]` may have fewer heads than queries, which they divide: neighbouring heads of
    /// queries share one.
    #[must_use]
    pub fn enable_gqa(mut self, enable: bool) -> Attention<M> {
        self.enable_gqa = enable;
        self
    }
}
