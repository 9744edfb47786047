//! Attention, and the transformers made of it.

use foldback_nn::{AttentionMasks, MultiheadAttention};
use foldback_tensor::DType;

use super::basic::size;
use super::recurrent::size_or;
use super::{Results, Row, expect_known, one, row};
use crate::conformance::args::{Args, Read};

pub(super) const ROWS: &[Row] = &[row!(
    "MultiheadAttention",
    "embed_dim num_heads dropout bias add_bias_kv add_zero_attn kdim vdim batch_first",
    |a, dtype| attention(a, dtype)?,
    call_attention
)];

fn attention(a: &Args, dtype: DType) -> Read<MultiheadAttention> {
    let width = size(a, "embed_dim")?;
    let builder = MultiheadAttention::builder(width, size(a, "num_heads")?)
        .dropout(a.float("dropout", 0.0)?)
        .bias(a.flag("bias", true)?)
        .add_bias_kv(a.flag("add_bias_kv", false)?)
        .add_zero_attn(a.flag("add_zero_attn", false)?)
        .kdim(size_or(a, "kdim", width)?)
        .vdim(size_or(a, "vdim", width)?)
        .batch_first(a.flag("batch_first", false)?)
        .dtype(dtype);
    Ok(builder.build()?)
}

/// The masks of a call by PyTorch's names for them.
fn masks(a: &Args, mask: &str, padding: &str, causal: &str) -> Read<AttentionMasks> {
    Ok(AttentionMasks {
        attn_mask: a.maybe_var(mask)?,
        key_padding_mask: a.maybe_var(padding)?,
        is_causal: a.flag(causal, false)?,
    })
}

fn call_attention(layer: &MultiheadAttention, a: &Args) -> Results {
    let known = "query key value key_padding_mask need_weights attn_mask average_attn_weights is_causal";
    expect_known("MultiheadAttention", known, a)?;
    let (q, k, v) = (a.var("query")?, a.var("key")?, a.var("value")?);
    let masks = masks(a, "attn_mask", "key_padding_mask", "is_causal")?;
    if !a.flag("need_weights", true)? {
        let mut results = one(layer.forward(&q, &k, &v, masks))?;
        results.push(None);
        return Ok(results);
    }
    let (y, shares) = match a.flag("average_attn_weights", true)? {
        true => layer.forward_weights(&q, &k, &v, masks)?,
        false => layer.forward_weights_with(&q, &k, &v, masks, false)?,
    };
    Ok(vec![Some(y), Some(shares)])
}
