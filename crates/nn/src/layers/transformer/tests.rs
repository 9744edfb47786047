//! What the golden cases do not say: names, setters, copies, dropout, and the texts of refusals.

use foldback_graph::Var;
use foldback_tensor::{DType, Tensor, assert_close};

use super::*;
use crate::{AttentionMasks, GELU, LayerNorm, Module, PReLU, Result};

fn names(module: &impl Module) -> Vec<String> {
    module.named_parameters().into_iter().map(|(name, _)| name).collect()
}

fn small() -> TransformerEncoderLayer {
    TransformerEncoderLayer::new(4, 2).dim_feedforward(3)
}

#[test]
fn parameters_have_pytorchs_names() {
    let attention = |name: &str| {
        ["in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"].map(|p| format!("{name}.{p}"))
    };
    let of = |name: &str| [format!("{name}.weight"), format!("{name}.bias")];
    let mut expected = [attention("self_attn").to_vec(), attention("multihead_attn").to_vec()].concat();
    ["linear1", "linear2", "norm1", "norm2", "norm3"].iter().for_each(|name| expected.extend(of(name)));
    assert_eq!(names(&TransformerDecoderLayer::new(4, 2).dim_feedforward(3)), expected);
    let stack = TransformerEncoder::new(small().bias(false), 2).norm(LayerNorm::new(4));
    let own = ["self_attn.in_proj_weight", "self_attn.out_proj.weight", "linear1.weight", "linear2.weight"];
    let own = own.into_iter().chain(["norm1.weight", "norm2.weight"]);
    let layers = (0..2).flat_map(|i| own.clone().map(move |name| format!("layers.{i}.{name}")));
    let expected: Vec<String> = layers.chain(of("norm")).collect();
    assert_eq!(names(&stack), expected);
}

/// PyTorch's 2048 and 0.1.
#[test]
fn defaults() {
    let layer = TransformerEncoderLayer::new(4, 2);
    assert_eq!(layer.linear1.weight.shape(), [2048, 4]);
    let x = Tensor::randn([3, 4]);
    assert!(layer.forward(&x).unwrap().value() != layer.forward(&x).unwrap().value());
    let shown = format!("{layer:?}");
    assert_eq!(shown, "TransformerEncoderLayer { d_model: 4, nhead: 2, dim_feedforward: 2048 }");
}

#[test]
fn setters_keep_or_draw_anew() -> Result<()> {
    let layer = small();
    let weight = layer.linear1.weight.clone();
    let kept = layer.dropout(0.0).activation(GELU).norm_first(true).batch_first(true).layer_norm_eps(1e-3);
    assert!(kept.linear1.weight.is_same(&weight) && kept.self_attn.is_batch_first());
    let drawn = kept.clone().dtype(DType::F64);
    assert!(!drawn.linear1.weight.is_same(&weight) && drawn.self_attn.is_batch_first());
    // What was set stays set in a layer that is drawn anew.
    let x = Tensor::randn_with([2, 3, 4], DType::F64);
    let y = drawn.forward(&x)?.value();
    assert_eq!(y, drawn.forward(&x)?.value());
    let norms = [&drawn.norm1, &drawn.norm2];
    let find = |x: &Var| drawn.self_attn.forward(x, x, x, AttentionMasks::new());
    let first = Var::from(&x).add(find(&norms[0].forward(&x)?)?)?;
    let inside = drawn.linear1.forward(&norms[1].forward(&first)?)?.gelu();
    assert_close!(first.add(drawn.linear2.forward(&inside)?)?.value(), y);
    let constant = Tensor::full_with([1, 4], 2.0, DType::F64);
    assert!(drawn.clone().layer_norm_eps(1e9).norm1.forward(&constant)?.value() == constant.zeros_like());
    let other = TransformerDecoderLayer::new(4, 2).dim_feedforward(3).batch_first(true).bias(false);
    assert!(other.multihead_attn.is_batch_first() && other.linear2.bias.is_none());
    Ok(())
}

#[test]
fn copies_share_or_do_not() {
    let layer = small().activation(PReLU::new());
    assert!(names(&layer).contains(&"activation.weight".to_owned()));
    let same = |a: &dyn Module, b: &dyn Module| {
        a.parameters().iter().zip(b.parameters()).map(|(a, b)| a.is_same(&b)).collect::<Vec<_>>()
    };
    assert!(same(&layer, &layer.clone()).iter().all(|&same| same));
    assert!(same(&layer, &layer.deep_copy()).iter().all(|&same| !same));
    let stack = TransformerEncoder::new(layer.clone(), 2);
    for copy in &stack.layers {
        assert!(same(&layer, copy).iter().all(|&same| !same));
        assert_eq!(copy.linear1.weight.value(), layer.linear1.weight.value());
    }
    assert!(!stack.layers[0].linear1.weight.is_same(&stack.layers[1].linear1.weight));
}

#[test]
fn drops_in_training() -> Result<()> {
    let mut layer = small().dropout(1.0);
    let x = Tensor::randn([3, 4]);
    // Every part is dropped: only the norms are left.
    let normed = layer.norm2.forward(&layer.norm1.forward(&x)?)?.value();
    assert_eq!(layer.forward(&x)?.value(), normed);
    layer.eval();
    assert!(layer.forward(&x)?.value() != normed);
    let memory = Tensor::randn([5, 4]);
    let mut decoder = TransformerDecoder::new(TransformerDecoderLayer::new(4, 2).dim_feedforward(3), 2);
    decoder.eval();
    let y = decoder.forward(&x, &memory)?.value();
    assert_eq!(decoder.forward(&x, &memory)?.value(), y);
    Ok(())
}

/// The memory counts, and a mask of it counts.
#[test]
fn decoders_look_up_their_memory() -> Result<()> {
    let mut decoder = TransformerDecoder::new(TransformerDecoderLayer::new(4, 2).dim_feedforward(3), 2);
    decoder.eval();
    let (x, memory) = (Tensor::randn([3, 4]), Tensor::randn([5, 4]));
    let start = memory.narrow(0, 0, 4)?;
    let last = foldback_tensor::tensor![false, false, false, false, true];
    let (none, hidden) = (AttentionMasks::new(), AttentionMasks::new().key_padding_mask(&last));
    let y = decoder.forward_with(&x, &memory, none.clone(), hidden)?;
    assert_close!(y.value(), decoder.forward(&x, &start)?.value(), atol = 1e-5);
    let first = decoder.forward_with(&x, &memory, AttentionMasks::causal(3), none.clone())?.select(0, 0)?;
    let alone = decoder.forward_with(&x.narrow(0, 0, 1)?, &memory, none.clone(), none)?.select(0, 0)?;
    assert_close!(first.value(), alone.value(), atol = 1e-5);
    Ok(())
}

#[test]
fn errors_name_the_layer() {
    let stack = TransformerEncoder::new(small(), 2);
    let e = stack.forward(Tensor::ones([3, 5])).unwrap_err();
    assert_eq!(e.path(), "layers.0.self_attn");
    let e = stack.forward_with(Tensor::ones([3, 4]), AttentionMasks::causal(2)).unwrap_err();
    assert_eq!(e.path(), "layers.0.self_attn");
}

#[test]
fn refusals_of_options() {
    let of = |result: Result<TransformerEncoderLayer>| result.unwrap_err().with_location(None).to_string();
    let builder = || TransformerEncoderLayer::builder(4, 2);
    let text = "multihead_attention: num_heads = 3 is not valid: expected a divisor of embed_dim = 4";
    assert_eq!(of(TransformerEncoderLayer::try_new(4, 3)), text);
    assert!(of(builder().dropout(1.5).build()).starts_with("dropout: p = 1.5 is not valid"));
    assert!(builder().dtype(DType::I64).build().is_err());
    assert!(builder().dim_feedforward(usize::MAX).build().is_err());
    assert!(TransformerDecoderLayer::builder(4, 2).dropout(f64::NAN).build().is_err());
    let e = TransformerEncoder::try_new(small(), 0).unwrap_err().with_location(None).to_string();
    assert_eq!(e, "transformer_encoder: num_layers = 0 is not valid: expected at least 1");
    let layer = TransformerDecoderLayer::new(4, 2).dim_feedforward(3);
    assert!(TransformerDecoder::try_new(layer, 0).is_err());
    let e = TransformerEncoder::try_new(small(), usize::MAX).unwrap_err();
    assert!(e.to_string().contains("expected at most 65536"), "{e}");
    assert_eq!(
        format!("{:?}", builder()),
        "TransformerLayerBuilder { d_model: 4, nhead: 2, dim_feedforward: 2048 }"
    );
}
