//! Encoders and decoders: copies of one layer, one after another.

use std::fmt;

use foldback_graph::{Value, Var};
use foldback_tensor::{Here, or_panic};

use super::decoder::TransformerDecoderLayer;
use super::encoder::TransformerEncoderLayer;
use crate::error::Result;
use crate::layer_path::call_of;
use crate::layers::making::expect_layers;
use crate::{AttentionMasks, Layer, Module, forward};

/// Layers of an encoder, one after another, and a norm behind the last if one is set. PyTorch's
/// [`TransformerEncoder`](https://docs.pytorch.org/docs/stable/generated/torch.nn.TransformerEncoder.html).
///
/// The layers begin as copies of the one that is given, with parameters of their own. What is hidden by a
/// `key_padding_mask` is computed nevertheless: its outputs are of no use.
///
/// ```
/// use foldback_nn::{AttentionMasks, LayerNorm, Module, TransformerEncoder, TransformerEncoderLayer};
/// use foldback_tensor::Tensor;
/// let layer = TransformerEncoderLayer::new(8, 2).dim_feedforward(16).norm_first(true);
/// let encoder = TransformerEncoder::new(layer, 3).norm(LayerNorm::new(8));
/// assert_eq!(encoder.forward_with(&Tensor::randn([5, 8]), AttentionMasks::causal(5))?.shape(), [5, 8]);
/// assert_eq!(encoder.named_parameters()[0].0, "layers.0.self_attn.in_proj_weight");
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Module)]
pub struct TransformerEncoder {
    /// the layers, in their order
    pub layers: Vec<TransformerEncoderLayer>,
    /// what the result goes through
    pub norm: Option<Box<dyn Layer>>,
}

/// Layers of a decoder, one after another, and a norm behind the last if one is set. PyTorch's
/// [`TransformerDecoder`](https://docs.pytorch.org/docs/stable/generated/torch.nn.TransformerDecoder.html).
///
/// The layers begin as copies of the one that is given, with parameters of their own. Each looks up the same memory.
///
/// ```
/// use foldback_nn::{TransformerDecoder, TransformerDecoderLayer};
/// use foldback_tensor::Tensor;
/// let decoder = TransformerDecoder::new(TransformerDecoderLayer::new(8, 2).dim_feedforward(16), 2);
/// assert_eq!(decoder.forward(&Tensor::randn([3, 8]), &Tensor::randn([5, 8]))?.shape(), [3, 8]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Module)]
pub struct TransformerDecoder {
    /// the layers, in their order
    pub layers: Vec<TransformerDecoderLayer>,
    /// what the result goes through
    pub norm: Option<Box<dyn Layer>>,
}

macro_rules! stack {
    ($stack:ident of $layer:ident, $op:literal) => {
        impl $stack {
            /// Copies of a layer, none of which shares parameters with it or with another.
            ///
            /// # Panics
            /// If there are to be none, or more than 65536; `try_new` returns an error instead.
            #[must_use]
            #[track_caller]
            pub fn new(layer: $layer, num_layers: usize) -> $stack {
                or_panic($stack::try_new(layer, num_layers))
            }

            /// `new` that returns an error instead of panicking.
            ///
            /// # Errors
            /// `Parameter` if there are to be none, or more than 65536.
            #[track_caller]
            pub fn try_new(layer: $layer, num_layers: usize) -> Result<$stack> {
                expect_layers($op, num_layers).here()?;
                Ok($stack { layers: (0..num_layers).map(|_| layer.deep_copy()).collect(), norm: None })
            }

            /// With a norm behind the last layer. The default is none.
            #[must_use]
            pub fn norm(mut self, norm: impl Layer + 'static) -> $stack {
                self.norm = Some(Box::new(norm));
                self
            }

            #[track_caller]
            fn normed(&self, x: Var) -> Result<Var> {
                match &self.norm {
                    Some(norm) => norm.forward(&x),
                    None => Ok(x),
                }
            }
        }

        impl fmt::Debug for $stack {
            /// The layers.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($stack))
                    .field("layers", &self.layers)
                    .field("norm", &self.norm.is_some())
                    .finish()
            }
        }
    };
}
stack!(TransformerEncoder of TransformerEncoderLayer, "transformer_encoder");
stack!(TransformerDecoder of TransformerDecoderLayer, "transformer_decoder");

impl TransformerEncoder {
    /// [`TransformerEncoder::forward`] with masks, the same for every layer: PyTorch's `mask`, `src_key_padding_mask` and
    /// `is_causal`.
    ///
    /// # Errors
    /// As [`MultiheadAttention::forward`](crate::MultiheadAttention::forward).
    #[track_caller]
    pub fn forward_with(&self, src: impl Value, masks: AttentionMasks) -> Result<Var> {
        call_of!(self, self.run(&src.as_var(), masks))
    }

    #[track_caller]
    fn run(&self, src: &Var, masks: AttentionMasks) -> Result<Var> {
        let mut x = src.clone();
        for layer in &self.layers {
            x = layer.forward_with(&x, masks.clone())?;
        }
        self.normed(x)
    }
}

#[forward]
impl TransformerEncoder {
    /// `[l, n, d_model]` to the same shape, where every step sees every other.
    ///
    /// # Errors
    /// As [`MultiheadAttention::forward`](crate::MultiheadAttention::forward).
    #[track_caller]
    pub fn forward(&self, src: &Var) -> Result<Var> {
        self.run(src, AttentionMasks::new())
    }
}

impl TransformerDecoder {
    /// [`TransformerDecoder::forward`] with masks, the same for every layer: PyTorch's `tgt_mask`, `tgt_key_padding_mask` and
    /// `tgt_is_causal`, and those that begin with `memory_`.
    ///
    /// # Errors
    /// As [`MultiheadAttention::forward`](crate::MultiheadAttention::forward).
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
    fn run(&self, tgt: &Var, memory: &Var, own: AttentionMasks, other: AttentionMasks) -> Result<Var> {
        let mut x = tgt.clone();
        for layer in &self.layers {
            x = layer.forward_with(&x, memory, own.clone(), other.clone())?;
        }
        self.normed(x)
    }
}

#[forward]
impl TransformerDecoder {
    /// A target `[l, n, d_model]` and a memory `[s, n, d_model]` to the shape of the target, where everything is seen.
    ///
    /// # Errors
    /// As [`MultiheadAttention::forward`](crate::MultiheadAttention::forward).
    #[track_caller]
    pub fn forward(&self, tgt: &Var, memory: &Var) -> Result<Var> {
        self.run(tgt, memory, AttentionMasks::new(), AttentionMasks::new())
    }
}
