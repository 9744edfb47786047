//! What the golden cases do not say: names, laws, masks, setters, copies, and the texts of refusals.

use foldback_graph::Var;
use foldback_tensor::{DType, Tensor, assert_close, manual_seed, tensor};

use super::*;
use crate::{Module, Result};

fn none() -> AttentionMasks {
    AttentionMasks::new()
}

#[test]
fn parameters_have_pytorchs_names() {
    let layer = MultiheadAttention::new(4, 2).kdim(3).add_bias_kv(true).bias(false);
    let found: Vec<_> =
        layer.named_parameters().into_iter().map(|(name, var)| (name, var.dims().to_vec())).collect();
    let expected: [(&str, &[usize]); 6] = [
        ("q_proj_weight", &[4, 4]),
        ("k_proj_weight", &[4, 3]),
        ("v_proj_weight", &[4, 4]),
        ("bias_k", &[1, 1, 4]),
        ("bias_v", &[1, 1, 4]),
        ("out_proj.weight", &[4, 4]),
    ];
    assert_eq!(found, expected.map(|(name, shape)| (name.to_owned(), shape.to_vec())));
}

#[test]
fn starts_as_in_pytorch() {
    manual_seed(2);
    let layer = MultiheadAttention::new(100, 4).add_bias_kv(true);
    let of = |var: &Option<Var>| -> Vec<f32> { var.as_ref().unwrap().value().to_vec().unwrap() };
    let highest = |values: &[f32]| values.iter().fold(0f32, |m, v| m.max(v.abs()));
    // Xavier's bound of the whole [300, 100]
    let bound = (6f32 / 400.0).sqrt();
    let largest = highest(&of(&layer.in_proj_weight));
    assert!(largest <= bound && largest > 0.99 * bound, "{largest}");
    let largest = highest(&layer.out_proj.weight.value().to_vec().unwrap());
    assert!(largest <= 0.1 && largest > 0.099, "{largest}");
    assert_eq!(highest(&of(&layer.in_proj_bias)), 0.0);
    assert_eq!(highest(&of(&layer.out_proj.bias)), 0.0);
    // normal with a standard deviation of 0.1
    let row = of(&layer.bias_k);
    let spread = (row.iter().map(|v| v * v).sum::<f32>() / 100.0).sqrt();
    assert!((0.07..0.13).contains(&spread), "{spread}");
}

/// With weights or without, packed or apart, by one variable or by three equal ones.
#[test]
fn ways_to_the_same_result() -> Result<()> {
    let layer = MultiheadAttention::new(4, 2).dtype(DType::F64);
    let x = Var::from(Tensor::randn_with([3, 2, 4], DType::F64));
    let y = layer.forward(&x, &x, &x, none())?.value();
    assert_close!(layer.forward(x.value(), x.value(), x.value(), none())?.value(), y);
    let (again, shares) = layer.forward_weights(&x, &x, &x, none())?;
    assert_close!(again.value(), y);
    assert_eq!(shares.shape(), [2, 3, 3]);
    let (_, each) = layer.forward_weights_with(&x, &x, &x, none(), false)?;
    assert_close!(each.mean(1)?.value(), shares.value());
    let turned = x.transpose(0, 1)?;
    let first = layer.clone().batch_first(true);
    assert_close!(first.forward(&turned, &turned, &turned, none())?.transpose(0, 1)?.value(), y);
    let alone = x.select(1, 0)?;
    assert_close!(layer.forward(&alone, &alone, &alone, none())?.value(), y.select(1, 0)?);
    Ok(())
}

#[test]
fn causal_masks_hide_what_comes_later() -> Result<()> {
    let layer = MultiheadAttention::new(4, 2).batch_first(true).dtype(DType::F64);
    let x = Tensor::randn_with([1, 3, 4], DType::F64);
    let y = layer.forward(&x, &x, &x, AttentionMasks::causal(3))?;
    let read = layer.forward(&x, &x, &x, AttentionMasks::causal(3).is_causal(false))?;
    assert_close!(y.value(), read.value());
    let start = x.narrow(1, 0, 2)?;
    let own = layer.forward(&start, &start, &start, AttentionMasks::causal(2))?;
    assert_close!(y.narrow(1, 0, 2)?.value(), own.value());
    let padding = tensor![[false, false, true]];
    let padded = layer.forward(&x, start_of(&x), start_of(&x), none())?;
    let masked = layer.forward(&x, &x, &x, none().key_padding_mask(&padding))?;
    assert_close!(masked.value(), padded.value());
    Ok(())
}

fn start_of(x: &Tensor) -> Tensor {
    x.narrow(1, 0, 2).unwrap()
}

/// A mask of numbers learns.
#[test]
fn gradients_reach_added_masks() -> Result<()> {
    let layer = MultiheadAttention::new(4, 2);
    let mask = Var::leaf(Tensor::zeros([2, 2]))?;
    let x = Tensor::randn([2, 4]);
    layer.forward(&x, &x, &x, none().attn_mask(&mask))?.square().sum(..)?.backward()?;
    assert!(mask.grad().is_some());
    Ok(())
}

#[test]
fn drops_shares_in_training() -> Result<()> {
    let mut layer = MultiheadAttention::new(4, 2).dropout(1.0);
    let x = Tensor::randn([3, 4]);
    let bias = layer.out_proj.bias.as_ref().unwrap().value().expand([3, 4])?;
    assert_eq!(layer.forward(&x, &x, &x, none())?.value(), bias);
    assert_eq!(layer.forward_weights(&x, &x, &x, none())?.1.value(), Tensor::zeros([3, 3]));
    layer.eval();
    assert!(layer.forward(&x, &x, &x, none())?.value() != bias);
    Ok(())
}

#[test]
fn setters_and_copies() {
    let layer = MultiheadAttention::new(4, 2);
    let weight = layer.in_proj_weight.clone().unwrap();
    let kept = layer.dropout(0.1).batch_first(true).add_zero_attn(true);
    assert!(kept.clone().in_proj_weight.unwrap().is_same(&weight));
    assert!(!kept.deep_copy().in_proj_weight.unwrap().is_same(&weight));
    let drawn = kept.dtype(DType::F64).vdim(5);
    assert!(drawn.in_proj_weight.is_none() && drawn.is_batch_first());
    assert_eq!(drawn.v_proj_weight.as_ref().unwrap().dims(), [4, 5]);
    assert_eq!((drawn.embed_dim(), drawn.num_heads()), (4, 2));
    assert!(drawn.bias(false).in_proj_bias.is_none());
    let shown = format!("{:?}", MultiheadAttention::new(4, 2));
    assert_eq!(shown, "MultiheadAttention { embed_dim: 4, num_heads: 2 }");
}

#[test]
fn refusals_say_what_and_how() {
    let layer = MultiheadAttention::new(4, 2);
    let ones = |shape: &[usize]| Tensor::ones(shape);
    let of = |q: &[usize], k: &[usize], v: &[usize], masks| {
        layer.forward(ones(q), ones(k), ones(v), masks).unwrap_err().with_location(None).to_string()
    };
    let (q, k): (&[usize], &[usize]) = (&[3, 2, 4], &[5, 2, 4]);
    let head = "multihead_attention: expected ";
    assert_eq!(
        of(&[4], k, k, none()),
        format!("{head}an input of shape [l, 4], or [l, n, 4] with a batch, found [4]")
    );
    let cure = "the last axis holds the features; make the layer for 5, or transpose or reshape the input";
    assert_eq!(
        of(&[3, 2, 5], k, k, none()),
        format!("{head}an input of shape [.., 4], found [3, 2, 5]: {cure}")
    );
    let axes = "(steps, batch, features, unless batch_first)";
    assert_eq!(
        of(q, &[5, 1, 4], k, none()),
        format!("{head}a key of shape [5, 2, 4] {axes}, found [5, 1, 4]")
    );
    assert_eq!(
        of(q, k, &[4, 2, 4], none()),
        format!("{head}a value of shape [5, 2, 4] {axes}, found [4, 2, 4]")
    );
    assert_eq!(of(q, &[5], k, none()), format!("{head}a key of shape [5, 2, 4] {axes}, found [5]"));
    let first = layer.clone().batch_first(true).forward(ones(q), ones(&[2, 5, 4]), ones(k), none());
    let text = first.unwrap_err().with_location(None).to_string();
    assert_eq!(text, format!("{head}a key of shape [3, 5, 4] (batch, steps, features), found [2, 5, 4]"));
    let mask = none().attn_mask(ones(&[5, 3]));
    assert_eq!(of(q, k, k, mask), format!("{head}attn_mask of shape [3, 5] or [4, 3, 5], found [5, 3]"));
    let mask = none().key_padding_mask(ones(&[5]));
    assert_eq!(of(q, k, k, mask), format!("{head}key_padding_mask of shape [2, 5], found [5]"));
    let mask = none().attn_mask(tensor![[0, 1]; i64].expand([3, 2]).unwrap());
    let text = of(&[3, 4], &[2, 4], &[2, 4], mask);
    assert_eq!(text, "multihead_attention: a mask must be f32, or bool, found i64: use to(DType::F32)");
    let text = of(q, k, k, none().is_causal(true));
    assert_eq!(
        text,
        "multihead_attention: is_causal without attn_mask is not enough for attention: use AttentionMasks::causal(steps)"
    );
}

#[test]
fn refusals_of_options() {
    let of =
        |width, heads| MultiheadAttention::try_new(width, heads).unwrap_err().with_location(None).to_string();
    let text = "multihead_attention: num_heads = 3 is not valid: expected a divisor of embed_dim = 4";
    assert_eq!(of(4, 3), text);
    assert_eq!(of(4, 0), text.replace('3', "0"));
    assert_eq!(of(0, 1), "multihead_attention: embed_dim = 0 is not valid: expected at least 1");
    assert!(MultiheadAttention::builder(4, 2).dropout(-1.0).build().is_err());
    assert!(MultiheadAttention::builder(4, 2).dtype(DType::I64).build().is_err());
    assert!(MultiheadAttention::try_new(1 << 40, 1).is_err());
}
