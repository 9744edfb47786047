//! The layer: what it holds, how it is made, and what it computes.

use std::fmt;

use foldback_graph::{Value, Var};
use foldback_tensor::{Attention, DType, Here, or_panic};

use super::heads::Heads;
use super::masks::{AttentionMasks, added};
use super::options::MultiheadAttentionBuilder;
use crate::copies::Copies;
use crate::error::Result;
use crate::layer_path::call_of;
use crate::{Dropout, Linear, Module, forward};

pub(super) const OP: &str = "multihead_attention";

/// Attention of several heads: queries, keys and values are projected, each head attends with its part of them, and what the
/// heads found is projected once more. (Vaswani and others, "Attention Is All You Need", 2017; PyTorch's
/// [`MultiheadAttention`](https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html).)
///
/// Queries are `[l, n, width]`, keys `[s, n, kdim]`, values `[s, n, vdim]`, the result `[l, n, width]`;
/// [`batch_first`](MultiheadAttention::batch_first) puts `n` first, and without a batch there is none.
///
/// `in_proj_weight` and those it stands for start by Xavier's uniform distribution, `out_proj.weight` as that of a [`Linear`],
/// `bias_k` and `bias_v` by Xavier's normal one, the other biases at 0. A clone shares the parameters,
/// [`deep_copy`](Module::deep_copy) does not.
///
/// ```
/// use foldback_nn::{AttentionMasks, Module, MultiheadAttention};
/// use foldback_tensor::Tensor;
/// let attention = MultiheadAttention::new(8, 2);
/// let (q, memory) = (Tensor::randn([3, 5, 8]), Tensor::randn([7, 5, 8]));
/// let y = attention.forward(&q, &memory, &memory, AttentionMasks::new())?;
/// assert_eq!(y.shape(), [3, 5, 8]);
/// let names: Vec<String> = attention.named_parameters().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Module)]
pub struct MultiheadAttention {
    /// `[3 width, width]`: the weights for queries, keys and values, if all are of one width
    pub in_proj_weight: Option<Var>,
    /// `[width, width]` otherwise
    pub q_proj_weight: Option<Var>,
    /// `[width, kdim]` otherwise
    pub k_proj_weight: Option<Var>,
    /// `[width, vdim]` otherwise
    pub v_proj_weight: Option<Var>,
    /// `[3 width]`, if there is one
    pub in_proj_bias: Option<Var>,
    /// `[1, 1, width]`: a learnt key, if there is one
    pub bias_k: Option<Var>,
    /// `[1, 1, width]`: a learnt value, if there is one
    pub bias_v: Option<Var>,
    /// the projection of what the heads found
    pub out_proj: Linear,
    pub(super) dropout: Dropout,
    #[module(skip)]
    pub(super) options: MultiheadAttentionBuilder,
}

impl MultiheadAttention {
    /// Attention over vectors of this width, which the number of heads divides, with `f32` parameters from this thread's
    /// generator. Setters follow it; what they change is drawn anew.
    ///
    /// # Panics
    /// If the heads do not divide the width; [`MultiheadAttention::try_new`] returns an error instead.
    #[track_caller]
    pub fn new(embed_dim: usize, num_heads: usize) -> MultiheadAttention {
        or_panic(MultiheadAttention::try_new(embed_dim, num_heads))
    }

    /// [`MultiheadAttention::new`] that returns an error instead of panicking.
    ///
    /// # Errors
    /// `Parameter` if the heads do not divide the width, `TooLarge` if a weight would be too large to address.
    ///
    /// ```
    /// assert!(foldback_nn::MultiheadAttention::try_new(4, 3).is_err());
    /// ```
    #[track_caller]
    pub fn try_new(embed_dim: usize, num_heads: usize) -> Result<MultiheadAttention> {
        MultiheadAttention::builder(embed_dim, num_heads).build().here()
    }

    /// For what may be refused: the setters of a layer, and [`MultiheadAttentionBuilder::build`].
    ///
    /// ```
    /// use foldback_nn::MultiheadAttention;
    /// assert!(MultiheadAttention::builder(4, 2).kdim(3).add_bias_kv(true).build().is_ok());
    /// assert!(MultiheadAttention::builder(4, 2).dropout(2.0).build().is_err());
    /// ```
    pub fn builder(embed_dim: usize, num_heads: usize) -> MultiheadAttentionBuilder {
        MultiheadAttentionBuilder::new(embed_dim, num_heads)
    }

    /// The probability that a share is dropped in training, by this thread's generator. The default is 0.
    ///
    /// # Panics
    /// If it is not between 0 and 1; [`MultiheadAttentionBuilder::build`] returns an error instead.
    #[must_use]
    #[track_caller]
    pub fn dropout(mut self, dropout: f64) -> Self {
        let mut layer = Dropout::new(dropout);
        layer.set_training(self.dropout.is_training());
        self.dropout = layer;
        self.options.dropout = dropout;
        self
    }

    /// Whether inputs and outputs are `[n, l, ..]` and not `[l, n, ..]`. The default is no.
    #[must_use]
    pub fn batch_first(mut self, batch_first: bool) -> Self {
        self.options.batch_first = batch_first;
        self
    }

    /// Whether the projections have biases. The default is yes; parameters are drawn anew.
    #[must_use]
    #[track_caller]
    pub fn bias(self, bias: bool) -> Self {
        or_panic(self.options.bias(bias).build())
    }

    /// The size of keys, if it is not that of queries. Parameters are drawn anew.
    ///
    /// # Panics
    /// If a weight would be too large to address; [`MultiheadAttentionBuilder::build`] returns an error instead.
    #[must_use]
    #[track_caller]
    pub fn kdim(self, kdim: usize) -> Self {
        or_panic(self.options.kdim(kdim).build())
    }

    /// The size of values, if it is not that of queries. Parameters are drawn anew.
    ///
    /// # Panics
    /// If a weight would be too large to address; [`MultiheadAttentionBuilder::build`] returns an error instead.
    #[must_use]
    #[track_caller]
    pub fn vdim(self, vdim: usize) -> Self {
        or_panic(self.options.vdim(vdim).build())
    }

    /// Whether a key and a value are learnt, `bias_k` and `bias_v`, that stand behind those given and are never masked. The
    /// default is no; parameters are drawn anew.
    #[must_use]
    #[track_caller]
    pub fn add_bias_kv(self, add_bias_kv: bool) -> Self {
        or_panic(self.options.add_bias_kv(add_bias_kv).build())
    }

    /// Whether a key and a value of zeros stand behind those given, never masked. The default is no.
    #[must_use]
    pub fn add_zero_attn(mut self, add_zero_attn: bool) -> Self {
        self.options.add_zero_attn = add_zero_attn;
        self
    }

    /// With parameters of this type, drawn anew. The default is `f32`.
    ///
    /// # Panics
    /// If it is not a floating-point type; [`MultiheadAttentionBuilder::build`] returns an error instead.
    #[must_use]
    #[track_caller]
    pub fn dtype(self, dtype: DType) -> Self {
        or_panic(self.options.dtype(dtype).build())
    }

    /// The size of queries and of results.
    pub fn embed_dim(&self) -> usize {
        self.options.embed_dim
    }

    /// How many heads there are.
    pub fn num_heads(&self) -> usize {
        self.options.num_heads
    }

    /// Whether inputs and outputs are `[n, l, ..]`.
    pub fn is_batch_first(&self) -> bool {
        self.options.batch_first
    }

    /// The result and the share of each key in it, `[n, l, s]`, the mean over the heads; `[l, s]` without a batch. The shares of a
    /// query that sees no key are NaN, as in PyTorch, and so is its result.
    ///
    /// # Errors
    /// As [`MultiheadAttention::forward`].
    ///
    /// ```
    /// use foldback_nn::{AttentionMasks, MultiheadAttention};
    /// use foldback_tensor::{Tensor, assert_close};
    /// let (attention, x) = (MultiheadAttention::new(4, 2), Tensor::randn([3, 4]));
    /// let (_, shares) = attention.forward_weights(&x, &x, &x, AttentionMasks::new())?;
    /// assert_close!(shares.sum(1)?.value(), Tensor::ones([3]));
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    #[track_caller]
    pub fn forward_weights(
        &self,
        query: impl Value,
        key: impl Value,
        value: impl Value,
        masks: AttentionMasks,
    ) -> Result<(Var, Var)> {
        self.forward_weights_with(query, key, value, masks, true)
    }

    /// [`MultiheadAttention::forward_weights`]; not averaged the shares are `[n, heads, l, s]`, or `[heads, l, s]`.
    ///
    /// # Errors
    /// As [`MultiheadAttention::forward`].
    #[track_caller]
    pub fn forward_weights_with(
        &self,
        query: impl Value,
        key: impl Value,
        value: impl Value,
        masks: AttentionMasks,
        average_attn_weights: bool,
    ) -> Result<(Var, Var)> {
        call_of!(
            self,
            self.weighted([&query.as_var(), &key.as_var(), &value.as_var()], &masks, average_attn_weights),
        )
    }

    #[track_caller]
    fn weighted(&self, inputs: [&Var; 3], masks: &AttentionMasks, average: bool) -> Result<(Var, Var)> {
        let Heads { q, k, v, sizes, more } = self.heads(inputs)?;
        let scale = 1.0 / ((self.embed_dim() / self.num_heads()) as f64).sqrt();
        let mut scores = q.mul(scale)?.matmul(&k.transpose(-2, -1)?)?;
        if let Some(mask) = masks.joined(sizes, more).here()? {
            scores = scores.add(added(OP, &mask, scores.dtype())?)?;
        }
        let shares = self.dropout.forward(&scores.softmax(-1)?)?;
        let y = self.joined(&shares.matmul(&v)?, sizes.alone)?;
        let shares = if average { shares.mean(1)? } else { shares };
        Ok((y, if sizes.alone { shares.squeeze(0)? } else { shares }))
    }
}

#[forward]
impl MultiheadAttention {
    /// What the queries find; the matrix of all shares is not stored, unless some are dropped. A query that sees no key finds 0,
    /// before the last projection.
    ///
    /// # Errors
    /// `Input`, `Features` or `InputShape` if inputs or masks do not fit; `Needs` for `is_causal` without a mask; `DType` and
    /// `MixedDTypes` for types that are not the weights'.
    #[track_caller]
    pub fn forward(&self, query: &Var, key: &Var, value: &Var, masks: AttentionMasks) -> Result<Var> {
        let Heads { q, k, v, sizes, more } = self.heads([query, key, value])?;
        let mask = masks.joined(sizes, more).here()?;
        let dropout = if self.dropout.is_training() { self.dropout.p() } else { 0.0 };
        let attention = Attention::new().dropout_p(dropout);
        let found = if masks.is_causal && masks.key_padding_mask.is_none() && more == 0 {
            q.scaled_dot_product_attention_with(&k, &v, attention.is_causal(true))?
        } else {
            let seen = mask.map(|mask| if mask.dtype() == DType::Bool { mask.logical_not() } else { mask });
            q.scaled_dot_product_attention_with(&k, &v, attention.mask(&seen))?
        };
        self.joined(&found, sizes.alone)
    }
}

impl Clone for MultiheadAttention {
    /// A layer that shares these weights; [`deep_copy`](Module::deep_copy) gives it its own.
    fn clone(&self) -> MultiheadAttention {
        self.copy_parts(&mut Copies::shared())
    }
}

impl fmt::Debug for MultiheadAttention {
    /// The sizes, not the numbers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiheadAttention")
            .field("embed_dim", &self.embed_dim())
            .field("num_heads", &self.num_heads())
            .finish()
    }
}
