//! Attention, and the transformers made of it.

use foldback_nn::{
    AttentionMasks, GELU, Layer, MultiheadAttention, ReLU, TransformerDecoder, TransformerDecoderLayer,
    TransformerEncoder, TransformerEncoderLayer, TransformerLayerBuilder,
};
use foldback_tensor::DType;

use super::basic::size;
use super::recurrent::size_or;
use super::{Model, Results, Row, arguments, build, called, one, row};
use crate::conformance::args::{Args, Read, Refusal};

/// What layers of encoders and of decoders take.
const LAYER: &str =
    "d_model nhead dim_feedforward dropout activation layer_norm_eps batch_first norm_first bias";

pub(super) const ROWS: &[Row] = &[
    row!(
        "MultiheadAttention",
        "embed_dim num_heads dropout bias add_bias_kv add_zero_attn kdim vdim batch_first",
        |a, dtype| attention(a, dtype)?,
        "query key value key_padding_mask need_weights attn_mask average_attn_weights is_causal",
        call_attention
    ),
    Row { name: "TransformerEncoderLayer", keywords: LAYER, new: encoder_layer },
    Row { name: "TransformerDecoderLayer", keywords: LAYER, new: decoder_layer },
    row!(
        "TransformerEncoder",
        "encoder_layer num_layers norm enable_nested_tensor",
        |a, dtype| encoder(a, dtype)?,
        "src mask src_key_padding_mask is_causal",
        call_encoder
    ),
    row!(
        "TransformerDecoder",
        "decoder_layer num_layers norm",
        |a, dtype| decoder(a, dtype)?,
        DECODING,
        call_decoder
    ),
];

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

/// The options of a layer, and its activation.
fn options<L>(
    builder: TransformerLayerBuilder<L>,
    a: &Args,
    dtype: DType,
) -> Read<TransformerLayerBuilder<L>> {
    let builder = builder
        .dim_feedforward(size_or(a, "dim_feedforward", 2048)?)
        .dropout(a.float("dropout", 0.1)?)
        .layer_norm_eps(a.float("layer_norm_eps", 1e-5)?)
        .batch_first(a.flag("batch_first", false)?)
        .norm_first(a.flag("norm_first", false)?)
        .bias(a.flag("bias", true)?)
        .dtype(dtype);
    if let Some(layer) = part(a, "activation", dtype)? {
        return Ok(builder.activation(layer));
    }
    match a.word("activation", "relu")?.as_str() {
        "relu" => Ok(builder.activation(ReLU)),
        "gelu" => Ok(builder.activation(GELU)),
        other => Err(Refusal::Argument(format!("`activation` = {other}"))),
    }
}

/// A layer among the keywords.
fn part(a: &Args, name: &str, dtype: DType) -> Read<Option<Box<dyn Layer>>> {
    match a.value(name).filter(|value| value.is_object()) {
        None => Ok(None),
        Some(model) => match build(model, dtype)? {
            Model::Layer(layer) => Ok(Some(layer)),
            _ => Err(Refusal::Unsupported(format!("form {name}(of several inputs)"))),
        },
    }
}

/// The keywords of the layer that an encoder or a decoder has copies of.
fn keywords_of(a: &Args, name: &str, layer: &str) -> Read<Args> {
    let model = a.value(name).filter(|model| model.get("layer").is_some_and(|found| found == layer));
    let model = model.ok_or_else(|| Refusal::Unsupported(format!("form {name}(not {layer})")))?;
    let keywords = model.get("args").and_then(|args| args.as_object()).cloned().unwrap_or_default();
    arguments(layer, LAYER, keywords)
}

fn encoder(a: &Args, dtype: DType) -> Read<TransformerEncoder> {
    if a.flag("enable_nested_tensor", false)? {
        return Err(Refusal::Unsupported("TransformerEncoder(enable_nested_tensor)".into()));
    }
    let own = keywords_of(a, "encoder_layer", "TransformerEncoderLayer")?;
    let layer = options(encoder_options(&own)?, &own, dtype)?.build()?;
    let mut stack = TransformerEncoder::try_new(layer, size(a, "num_layers")?)?;
    stack.norm = part(a, "norm", dtype)?;
    Ok(stack)
}

fn decoder(a: &Args, dtype: DType) -> Read<TransformerDecoder> {
    let own = keywords_of(a, "decoder_layer", "TransformerDecoderLayer")?;
    let layer = options(decoder_options(&own)?, &own, dtype)?.build()?;
    let mut stack = TransformerDecoder::try_new(layer, size(a, "num_layers")?)?;
    stack.norm = part(a, "norm", dtype)?;
    Ok(stack)
}

fn encoder_options(a: &Args) -> Read<TransformerLayerBuilder<TransformerEncoderLayer>> {
    Ok(TransformerEncoderLayer::builder(size(a, "d_model")?, size(a, "nhead")?))
}

fn decoder_options(a: &Args) -> Read<TransformerLayerBuilder<TransformerDecoderLayer>> {
    Ok(TransformerDecoderLayer::builder(size(a, "d_model")?, size(a, "nhead")?))
}

fn encoder_layer(a: &Args, dtype: DType) -> Read<Model> {
    let layer = options(encoder_options(a)?, a, dtype)?.build()?;
    Ok(called(layer, "src src_mask src_key_padding_mask is_causal", |layer, a| {
        one(layer.forward_with(&a.var("src")?, masks(a, "src_mask", "src_key_padding_mask", "is_causal")?))
    }))
}

fn call_encoder(encoder: &TransformerEncoder, a: &Args) -> Results {
    one(encoder.forward_with(&a.var("src")?, masks(a, "mask", "src_key_padding_mask", "is_causal")?))
}

/// What decoders and their layers are called with.
const DECODING: &str = "tgt memory tgt_mask memory_mask tgt_key_padding_mask memory_key_padding_mask \
                        tgt_is_causal memory_is_causal";

fn both_masks(a: &Args) -> Read<[AttentionMasks; 2]> {
    Ok([
        masks(a, "tgt_mask", "tgt_key_padding_mask", "tgt_is_causal")?,
        masks(a, "memory_mask", "memory_key_padding_mask", "memory_is_causal")?,
    ])
}

fn decoder_layer(a: &Args, dtype: DType) -> Read<Model> {
    let layer = options(decoder_options(a)?, a, dtype)?.build()?;
    Ok(called(layer, DECODING, |layer, a| {
        let [own, other] = both_masks(a)?;
        one(layer.forward_with(&a.var("tgt")?, &a.var("memory")?, own, other))
    }))
}

fn call_decoder(decoder: &TransformerDecoder, a: &Args) -> Results {
    let [own, other] = both_masks(a)?;
    one(decoder.forward_with(&a.var("tgt")?, &a.var("memory")?, own, other))
}
