//! A layer of a decoder: attention to itself, attention to what an encoder made, and a network that each step goes through
//! alone.

use std::fmt;

use foldback_graph::{Value, Var};
use foldback_tensor::{DType, Here, or_panic};

use super::options::{TransformerLayerBuilder, transformer_layer};
use crate::copies::Copies;
use crate::error::Result;
use crate::layer_path::call_of;
use crate::{AttentionMasks, Dropout, Layer, LayerNorm, Linear, Module, MultiheadAttention, forward};

/// A layer of a transformer's decoder: `x = norm1(x + attention(x))`, `x = norm2(x + attention(x, memory))`,
/// `y = norm3(x + network(x))`; with [`norm_first`](TransformerDecoderLayer::norm_first) `x + attention(norm1(x))` and so on.
/// (Vaswani and others, "Attention Is All You Need", 2017; PyTorch's
/// [`TransformerDecoderLayer`](https://docs.pytorch.org/docs/stable/generated/torch.nn.TransformerDecoderLayer.html).)
///
/// The target and the output are `[l, n, d_model]`, the memory `[s, n, d_model]`;
/// [`batch_first`](TransformerDecoderLayer::batch_first) puts `n` first, and without a batch there is none.
///
/// ```
/// use foldback_nn::{AttentionMasks, TransformerDecoderLayer};
/// use foldback_tensor::Tensor;
/// let layer = TransformerDecoderLayer::new(8, 2).dim_feedforward(16);
/// let (x, memory) = (Tensor::randn([3, 5, 8]), Tensor::randn([7, 5, 8]));
/// let y = layer.forward_with(&x, &memory, AttentionMasks::causal(3), AttentionMasks::new())?;
/// assert_eq!(y.shape(), [3, 5, 8]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Module)]
pub struct TransformerDecoderLayer {
    /// the attention to itself
    pub self_attn: MultiheadAttention,
    /// the attention to the memory
    pub multihead_attn: MultiheadAttention,
    /// `[dim_feedforward, d_model]`, the first product of the network
    pub linear1: Linear,
    dropout: Dropout,
    /// `[d_model, dim_feedforward]`, the second
    pub linear2: Linear,
    /// the norm of the attention to itself
    pub norm1: LayerNorm,
    /// the norm of the attention to the memory
    pub norm2: LayerNorm,
    /// the norm of the network
    pub norm3: LayerNorm,
    dropout1: Dropout,
    dropout2: Dropout,
    dropout3: Dropout,
    /// the function between the two products
    pub activation: Box<dyn Layer>,
    #[module(skip)]
    options: TransformerLayerBuilder<TransformerDecoderLayer>,
}

transformer_layer! {
    TransformerDecoderLayer,
    attentions [self_attn multihead_attn],
    dropouts [dropout dropout1 dropout2 dropout3],
    norms [norm1 norm2 norm3]
}

impl TransformerLayerBuilder<TransformerDecoderLayer> {
    /// Makes the layer.
    ///
    /// # Errors
    /// If the heads do not divide the width, the dropout is not between 0 and 1, the type not a floating-point one, or a weight
    /// too large.
    #[track_caller]
    pub fn build(self) -> Result<TransformerDecoderLayer> {
        Ok(TransformerDecoderLayer {
            self_attn: self.attention().here()?,
            multihead_attn: self.attention().here()?,
            linear1: self.linear(self.d_model, self.dim_feedforward).here()?,
            dropout: self.drop().here()?,
            linear2: self.linear(self.dim_feedforward, self.d_model).here()?,
            norm1: self.norm().here()?,
            norm2: self.norm().here()?,
            norm3: self.norm().here()?,
            dropout1: self.drop().here()?,
            dropout2: self.drop().here()?,
            dropout3: self.drop().here()?,
            activation: self.activation.clone(),
            options: self,
        })
    }
}

impl TransformerDecoderLayer {
    /// [`TransformerDecoderLayer::forward`] with masks: PyTorch's `tgt_mask`, `tgt_key_padding_mask` and `tgt_is_causal`, and
    /// those that begin with `memory_`.
    ///
    /// # Errors
    /// As [`MultiheadAttention::forward`].
    #[track_caller]
    pub fn forward_with(
        &self,
        tgt: impl Value,
        memory: impl Value,
        tgt_masks: AttentionMasks,
        memory_masks: AttentionMasks,
    ) -> Result<Var> {
        call_of!(self, self.run(&tgt.as_var(), &memory.as_var(), tgt_masks, memory_masks))
    }

    #[track_caller]
    fn run(&self, x: &Var, memory: &Var, own: AttentionMasks, other: AttentionMasks) -> Result<Var> {
        if self.options.norm_first {
            let x = x.add(self.attend(&self.norm1.forward(x)?, own)?)?;
            let x = x.add(self.look_up(&self.norm2.forward(&x)?, memory, other)?)?;
            return x.add(self.network(&self.norm3.forward(&x)?)?);
        }
        let x = self.norm1.forward(&x.add(self.attend(x, own)?)?)?;
        let x = self.norm2.forward(&x.add(self.look_up(&x, memory, other)?)?)?;
        self.norm3.forward(&x.add(self.network(&x)?)?)
    }

    #[track_caller]
    fn attend(&self, x: &Var, masks: AttentionMasks) -> Result<Var> {
        self.dropout1.forward(&self.self_attn.forward(x, x, x, masks)?)
    }

    #[track_caller]
    fn look_up(&self, x: &Var, memory: &Var, masks: AttentionMasks) -> Result<Var> {
        self.dropout2.forward(&self.multihead_attn.forward(x, memory, memory, masks)?)
    }

    #[track_caller]
    fn network(&self, x: &Var) -> Result<Var> {
        self.dropout3.forward(&self.feed_forward(x)?)
    }
}

#[forward]
impl TransformerDecoderLayer {
    /// A target `[l, n, d_model]` and a memory `[s, n, d_model]` to the shape of the target, where everything is seen.
    ///
    /// # Errors
    /// As [`MultiheadAttention::forward`].
    #[track_caller]
    pub fn forward(&self, tgt: &Var, memory: &Var) -> Result<Var> {
        self.run(tgt, memory, AttentionMasks::new(), AttentionMasks::new())
    }
}
