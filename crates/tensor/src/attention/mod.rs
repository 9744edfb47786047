//! Scaled dot-product attention, without the matrix of scores.

mod grouped;
mod options;
mod run;
#[cfg(test)]
mod tests;

pub use grouped::GroupedHeads;
pub use options::Attention;
pub use run::Attending;

use crate::error::{Here, Result};
use crate::ops::{AsArg, AsOptionalArg};
use crate::tensor::Tensor;

/// # Attention
impl Tensor {
    /// `softmax(q k^T / sqrt(e)) v` of queries (this tensor) `[.., l, e]`, keys `[.., s, e]` and values `[.., s, v]`:
    /// `[.., l, v]`. See [`Self::scaled_dot_product_attention_with`].
    ///
    /// # Errors
    /// As [`Self::scaled_dot_product_attention_with`].
    ///
    /// ```
    /// use foldback_tensor::{assert_close, tensor};
    /// let (q, k, v) = (tensor![[0.0, 1.0]], tensor![[1.0, 0.0], [2.0, 0.0]], tensor![[2.0], [4.0]]);
    /// assert_close!(q.scaled_dot_product_attention(&k, &v)?, tensor![[3.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    #[doc(alias = "sdpa")]
    pub fn scaled_dot_product_attention(&self, key: impl AsArg, value: impl AsArg) -> Result<Tensor> {
        self.scaled_dot_product_attention_with(key, value, Attention::new()).here()
    }

    /// [`Self::scaled_dot_product_attention`] with a mask, another scale, causal, with shares dropped, or with heads of queries that share heads of keys (`enable_gqa`). Leading axes
    /// broadcast. A query that sees no key has the result 0, and gives none a gradient. The matrix of all scores is not stored,
    /// unless shares are dropped. (Vaswani and others, "Attention Is All You Need", 2017; PyTorch's
    /// [`scaled_dot_product_attention`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html).)
    ///
    /// Keys that a causal query does not see have no influence, nor have their values if they are finite; others may be multiplied
    /// by a share of 0, which is NaN (PyTorch multiplies all of them). Behind a mask scores are added to -inf, so that NaN stays NaN.
    ///
    /// # Errors
    /// `DTypeUnsupported` unless this is `F32` or `F64`, `MixedDTypes` unless keys, values and an added mask are, too; `Rank`
    /// below 2; `ShapeMismatch` for sizes of keys and values, `Broadcast` for leading axes, `Expand` for the mask;
    /// `Parameter` for a mask together with `is_causal`, and for a probability that is none; `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::{assert_close, tensor, Attention};
    /// let (x, v) = (tensor![[0.0], [0.0]], tensor![[2.0], [4.0]]);
    /// let y = x.scaled_dot_product_attention_with(&x, &v, Attention::new().is_causal(true))?;
    /// assert_close!(y, tensor![[2.0], [3.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn scaled_dot_product_attention_with(
        &self,
        key: impl AsArg,
        value: impl AsArg,
        options: Attention<impl AsOptionalArg>,
    ) -> Result<Tensor> {
        let [key, value] = [key.arg().tensor(self.dtype()), value.arg().tensor(self.dtype())];
        let (mask, options) = options.without_mask();
        attend([self, &key, &value], mask.optional_arg(), options).here()
    }
}

#[track_caller]
fn attend([q, k, v]: [&Tensor; 3], mask: Option<&Tensor>, options: Attention) -> Result<Tensor> {
    if options.enable_gqa {
        let shapes = GroupedHeads::of([q.shape(), k.shape(), v.shape()], mask.map(Tensor::shape))?;
        let (q, k, v) = (q.reshape(&shapes.query)?, k.reshape(&shapes.key)?, v.reshape(&shapes.value)?);
        let mask = mask.zip(shapes.mask.as_ref()).map(|(m, shape)| m.reshape(shape)).transpose()?;
        let y = attend([&q, &k, &v], mask.as_ref(), options.enable_gqa(false))?;
        return y.reshape(shapes.result(y.shape()));
    }
    let how = Attending::new([q, k, v], mask, &options)?;
    let [y, _] = how.forward([q, k, v], mask)?;
    Ok(y)
}
