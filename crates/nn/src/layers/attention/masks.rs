//! What queries do not see.

use foldback_graph::{Value, Var};
use foldback_tensor::{DType, Tensor, refuse};

use crate::error::{NnFacts, Result};

/// The masks of [`MultiheadAttention`](crate::MultiheadAttention) and of the layers made of it, with PyTorch's meaning: a mask
/// of `bool` is true where a query does *not* see a key, one of numbers is added to the scores.
/// ([`scaled_dot_product_attention`](Var::scaled_dot_product_attention_with), also as in PyTorch, has it the other way round.)
///
/// ```
/// use foldback_nn::{AttentionMasks, MultiheadAttention};
/// use foldback_tensor::{Tensor, tensor};
/// let attention = MultiheadAttention::new(4, 2).batch_first(true);
/// let x = Tensor::randn([2, 3, 4]);
/// // The last key of the second sequence is padding.
/// let padding = tensor![[false, false, false], [false, false, true]];
/// let y = attention.forward(&x, &x, &x, AttentionMasks::causal(3).key_padding_mask(&padding))?;
/// assert_eq!(y.shape(), [2, 3, 4]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct AttentionMasks {
    /// `[l, s]`, or `[n heads, l, s]`
    pub attn_mask: Option<Var>,
    /// `[n, s]`, or `[s]` without a batch
    pub key_padding_mask: Option<Var>,
    /// whether `attn_mask` is a causal one
    pub is_causal: bool,
}

impl AttentionMasks {
    /// None: every query sees every key.
    pub fn new() -> AttentionMasks {
        AttentionMasks::default()
    }

    /// The causal mask for `steps` queries and keys: query number `i` sees the keys up to number `i`.
    ///
    /// # Panics
    /// If a mask of that size would be too large to address.
    ///
    /// ```
    /// use foldback_nn::AttentionMasks;
    /// use foldback_tensor::tensor;
    /// let mask = AttentionMasks::causal(2).attn_mask.unwrap();
    /// assert_eq!(mask.value(), tensor![[false, true], [false, false]]);
    /// ```
    #[doc(alias = "generate_square_subsequent_mask")]
    #[must_use]
    #[track_caller]
    pub fn causal(steps: usize) -> AttentionMasks {
        let mask = Tensor::full([steps, steps], true).triu_with(1);
        let mask = mask.expect("a matrix");
        AttentionMasks { attn_mask: Some(mask.into()), key_padding_mask: None, is_causal: true }
    }

    /// Which keys a query does not see: `[l, s]` for all, or `[n heads, l, s]`, the heads of a sequence one after another.
    #[must_use]
    pub fn attn_mask(mut self, mask: impl Value) -> AttentionMasks {
        self.attn_mask = Some(mask.as_var().into_owned());
        self
    }

    /// Which keys no query of a sequence sees: `[n, s]`, or `[s]` without a batch.
    #[must_use]
    pub fn key_padding_mask(mut self, mask: impl Value) -> AttentionMasks {
        self.key_padding_mask = Some(mask.as_var().into_owned());
        self
    }

    /// Says of `attn_mask` that it is causal, so that it need not be read: nothing else is looked at then, unless there is
    /// a `key_padding_mask` or the shares are asked for. [`AttentionMasks::causal`] sets both.
    #[must_use]
    pub fn is_causal(mut self, causal: bool) -> AttentionMasks {
        self.is_causal = causal;
        self
    }
}

/// The sizes that masks must fit.
#[derive(Clone, Copy)]
pub(super) struct MaskSizes {
    pub(super) op: &'static str,
    /// whether there is no batch
    pub(super) alone: bool,
    pub(super) rows: usize,
    pub(super) heads: usize,
    pub(super) queries: usize,
    pub(super) keys: usize,
    pub(super) dtype: DType,
}

impl AttentionMasks {
    /// One mask `[.., .., .., keys + more]`, for scores `[n, heads, queries, keys + more]`: of `bool`, true where nothing is
    /// seen, or of numbers. Everybody sees the keys behind the given ones.
    #[track_caller]
    pub(super) fn joined(&self, sizes: MaskSizes, more: usize) -> Result<Option<Var>> {
        let MaskSizes { op, alone, rows, heads, queries, keys, dtype } = sizes;
        if self.is_causal && self.attn_mask.is_none() {
            let (option, target) = ("is_causal without attn_mask", "attention");
            return refuse(NnFacts::Needs { op, option, target, cure: "use AttentionMasks::causal(steps)" });
        }
        let mut joined: Option<Var> = None;
        if let Some(mask) = &self.attn_mask {
            let (flat, whole) = ([queries, keys], [rows * heads, queries, keys]);
            joined = Some(if mask.dims() == flat {
                mask.reshape([1, 1, queries, keys])?
            } else if mask.dims() == whole {
                mask.reshape([rows, heads, queries, keys])?
            } else {
                let expected = format!("{flat:?} or {whole:?}");
                let found = mask.shape().clone();
                return refuse(NnFacts::InputShape { op, name: "attn_mask", expected, found });
            });
        }
        if let Some(mask) = &self.key_padding_mask {
            let wanted: &[usize] = if alone { &[keys] } else { &[rows, keys] };
            if mask.dims() != wanted {
                let (name, expected) = ("key_padding_mask", format!("{wanted:?}"));
                return refuse(NnFacts::InputShape { op, name, expected, found: mask.shape().clone() });
            }
            let mask = mask.reshape([rows, 1, 1, keys])?;
            joined = Some(match joined {
                None => mask,
                Some(other) if other.dtype() == DType::Bool && mask.dtype() == DType::Bool => {
                    other.logical_or(&mask)?
                }
                Some(other) => added(op, &other, dtype)?.add(added(op, &mask, dtype)?)?,
            });
        }
        match joined {
            None => Ok(None),
            Some(mask) => {
                let mask = if mask.dtype() == DType::Bool { mask } else { added(op, &mask, dtype)? };
                Ok(Some(if more == 0 { mask } else { mask.pad([0, more])? }))
            }
        }
    }
}

/// A mask as numbers that are added to scores of this type.
#[track_caller]
pub(super) fn added(op: &'static str, mask: &Var, dtype: DType) -> Result<Var> {
    if mask.dtype() == DType::Bool {
        let zero = Tensor::zeros_with((), dtype);
        return mask.where_cond(f64::NEG_INFINITY, &zero);
    }
    if mask.dtype() != dtype {
        let expected = if dtype == DType::F64 { "f64, or bool" } else { "f32, or bool" };
        return refuse(NnFacts::DType { op, name: "a mask", found: mask.dtype(), expected });
    }
    Ok(mask.clone())
}
