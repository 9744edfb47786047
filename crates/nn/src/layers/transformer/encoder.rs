//! A layer of an encoder: attention to itself, and a network that each step goes through alone.

use std::fmt;

use foldback_graph::{Value, Var};
use foldback_tensor::{DType, Here, or_panic};

use super::options::{TransformerLayerBuilder, transformer_layer};
use crate::copies::Copies;
use crate::error::Result;
use crate::layer_path::call_of;
use crate::{AttentionMasks, Dropout, Layer, LayerNorm, Linear, Module, MultiheadAttention, forward};

/// A layer of a transformer's encoder: `x = norm1(x + attention(x))`, `y = norm2(x + network(x))`; with
/// [`norm_first`](TransformerEncoderLayer::norm_first) `x + attention(norm1(x))` and so on. (Vaswani and others, "Attention Is All
/// You Need", 2017; PyTorch's
/// [`TransformerEncoderLayer`](https://docs.pytorch.org/docs/stable/generated/torch.nn.TransformerEncoderLayer.html).)
///
/// Inputs and outputs are `[l, n, d_model]`; [`batch_first`](TransformerEncoderLayer::batch_first) puts `n` first, and without a
/// batch there is none. With causal masks it is a layer of a language model.
///
/// ```
/// use foldback_nn::{AttentionMasks, GELU, TransformerEncoderLayer};
/// use foldback_tensor::Tensor;
/// let layer = TransformerEncoderLayer::new(8, 2).dim_feedforward(16).activation(GELU).batch_first(true);
/// let x = Tensor::randn([5, 3, 8]);
/// assert_eq!(layer.forward(&x)?.shape(), [5, 3, 8]);
/// assert_eq!(layer.forward_with(&x, AttentionMasks::causal(3))?.shape(), [5, 3, 8]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Module)]
pub struct TransformerEncoderLayer {
    /// the attention
    pub self_attn: MultiheadAttention,
    /// `[dim_feedforward, d_model]`, the first product of the network
    pub linear1: Linear,
    dropout: Dropout,
    /// `[d_model, dim_feedforward]`, the second
    pub linear2: Linear,
    /// the norm of the attention
    pub norm1: LayerNorm,
    /// the norm of the network
    pub norm2: LayerNorm,
    dropout1: Dropout,
    dropout2: Dropout,
    /// the function between the two products
    pub activation: Box<dyn Layer>,
    #[module(skip)]
    options: TransformerLayerBuilder<TransformerEncoderLayer>,
}

transformer_layer! {
    TransformerEncoderLayer,
    attentions [self_attn],
    dropouts [dropout dropout1 dropout2],
    norms [norm1 norm2]
}

impl TransformerLayerBuilder<TransformerEncoderLayer> {
    /// Makes the layer.
    ///
    /// # Errors
    /// If the heads do not divide the width, the dropout is not between 0 and 1, the type not a floating-point one, or a weight
    /// too large.
    #[track_caller]
    pub fn build(self) -> Result<TransformerEncoderLayer> {
        Ok(TransformerEncoderLayer {
            self_attn: self.attention().here()?,
            linear1: self.linear(self.d_model, self.dim_feedforward).here()?,
            dropout: self.drop().here()?,
            linear2: self.linear(self.dim_feedforward, self.d_model).here()?,
            norm1: self.norm().here()?,
            norm2: self.norm().here()?,
            dropout1: self.drop().here()?,
            dropout2: self.drop().here()?,
            activation: self.activation.clone(),
            options: self,
        })
    }
}

impl TransformerEncoderLayer {
    /// [`TransformerEncoderLayer::forward`] with masks: PyTorch's `src_mask`, `src_key_padding_mask` and `is_causal`.
    ///
    /// # Errors
    /// As [`MultiheadAttention::forward`].
    #[track_caller]
    pub fn forward_with(&self, src: impl Value, masks: AttentionMasks) -> Result<Var> {
        call_of!(self, self.run(&src.as_var(), masks))
    }

    #[track_caller]
    fn run(&self, x: &Var, masks: AttentionMasks) -> Result<Var> {
        if self.options.norm_first {
            let x = x.add(self.attend(&self.norm1.forward(x)?, masks)?)?;
            return x.add(self.network(&self.norm2.forward(&x)?)?);
        }
        let x = self.norm1.forward(&x.add(self.attend(x, masks)?)?)?;
        self.norm2.forward(&x.add(self.network(&x)?)?)
    }

    #[track_caller]
    fn attend(&self, x: &Var, masks: AttentionMasks) -> Result<Var> {
        self.dropout1.forward(&self.self_attn.forward(x, x, x, masks)?)
    }

    #[track_caller]
    fn network(&self, x: &Var) -> Result<Var> {
        self.dropout2.forward(&self.feed_forward(x)?)
    }
}

#[forward]
impl TransformerEncoderLayer {
    /// `[l, n, d_model]` to the same shape, where every step sees every other.
    ///
    /// # Errors
    /// As [`MultiheadAttention::forward`].
    #[track_caller]
    pub fn forward(&self, src: &Var) -> Result<Var> {
        self.run(src, AttentionMasks::new())
    }
}
