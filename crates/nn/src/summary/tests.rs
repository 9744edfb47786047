//! Lines, sums, what is left as it was, and what a layer costs that nobody asks.

use foldback_graph::{RequiresGrad, Var, no_grad};
use foldback_tensor::{Attention, Conv, Tensor, get_rng_state, manual_seed, tensor};

use super::table::short;
use crate::{
    AttentionMasks, Buffer, Dropout, GRU, Layer, Linear, Module, MultiheadAttention, ReLU, Result,
    Sequential, Summary, TransformerDecoder, TransformerDecoderLayer, TransformerEncoder,
    TransformerEncoderLayer, forward, sequential,
};

/// Layers of one type without fields, a list, a layer that is called twice, one that is not, and a tied weight.
#[derive(Module)]
struct Net {
    blocks: Vec<Sequential>,
    shared: Linear,
    unused: Linear,
    tied: Linear,
    steps: Buffer,
}

#[forward]
impl Net {
    fn forward(&self, x: &Var) -> Result<Var> {
        self.steps.set(self.steps.value().add(1)?);
        let mut x = x.clone();
        for block in &self.blocks {
            x = block.forward(&x)?;
        }
        let x = self.shared.forward(&self.shared.forward(&x)?)?;
        self.tied.forward(&x)
    }
}

fn net() -> Net {
    let shared = Linear::new(8, 8).bias(false);
    Net {
        blocks: vec![
            sequential![Linear::new(4, 8), ReLU, Dropout::new(0.5), ReLU],
            sequential![Linear::new(8, 8), ReLU],
        ],
        tied: Linear::from_parameters(shared.weight.clone(), None).unwrap(),
        shared,
        unused: Linear::new(1, 1),
        steps: Buffer::new(tensor![0; i64]),
    }
}

#[test]
fn a_line_for_each_layer() {
    let net = net();
    let summary = net.summary(&Tensor::ones([3, 4])).unwrap();
    let text = "\
layer       type        output            parameters  FLOPs  keeps
(model)     Net         [3, 8]                   178  1,728  624 B
  blocks.0  Sequential  [3, 8]                    40    192  336 B
    0       Linear      [3, 8]                    40    192   48 B
    1       ReLU        [3, 8]                     0      0   96 B
    2       Dropout     [3, 8]                     0      0   96 B
    3       ReLU        [3, 8]                     0      0   96 B
  blocks.1  Sequential  [3, 8]                    72    384   96 B
    0       Linear      [3, 8]                    72    384    0 B
    1       ReLU        [3, 8]                     0      0   96 B
  shared    Linear      [3, 8] (2 calls)          64    768   96 B
  unused    Linear      not called                 2      0    0 B
  tied      Linear      [3, 8]                    64    384   96 B
178 parameters, 178 of them trainable; 1,728 FLOPs; keeps 624 B for the backward pass";
    assert_eq!(summary.to_string(), text, "{summary}");
    assert_eq!(summary.layers[0].saved_bytes, summary.saved_bytes);
    let graph = net.forward(Tensor::ones([3, 4])).unwrap().graph().unwrap();
    assert_eq!(graph.saved_bytes(), summary.saved_bytes);
}

/// A layer may be called by another function than `forward`.
#[test]
fn calls_with_masks_and_lengths_are_calls() {
    let calls =
        |summary: Summary| summary.layers.into_iter().map(|line| (line.layer, line.calls, line.outputs));
    let x = Tensor::randn([5, 2, 4]);
    let layer = TransformerEncoderLayer::new(4, 2).dim_feedforward(3);
    let encoder = TransformerEncoder::new(layer, 1);
    let summary =
        Summary::of(&encoder, |encoder| encoder.forward_with(&x, AttentionMasks::causal(5))).unwrap();
    for (layer, calls, outputs) in calls(summary).take(3) {
        assert_eq!((calls, outputs), (1, vec![[5, 2, 4].into()]), "{layer}");
    }
    let layer = TransformerDecoderLayer::new(4, 2).dim_feedforward(3);
    let decoder = TransformerDecoder::new(layer, 1);
    let masks = || (AttentionMasks::causal(5), AttentionMasks::new());
    let run = |decoder: &TransformerDecoder| decoder.forward_with(&x, &x, masks().0, masks().1);
    assert!(calls(Summary::of(&decoder, run).unwrap()).take(3).all(|(_, calls, _)| calls == 1));
    let attention = MultiheadAttention::new(4, 2);
    let run = |a: &MultiheadAttention| a.forward_weights(&x, &x, &x, AttentionMasks::new());
    let first = calls(Summary::of(&attention, run).unwrap()).next().unwrap();
    assert_eq!((first.1, first.2), (1, vec![[5, 2, 4].into(), [2, 5, 5].into()]));
    let first = calls(Summary::of(&GRU::new(4, 3), |gru| gru.forward_with(&x, None, &[5, 2])).unwrap())
        .next()
        .unwrap();
    assert_eq!((first.1, first.2), (1, vec![[5, 2, 3].into(), [1, 2, 3].into()]));
}

#[test]
fn a_summary_changes_nothing() {
    let net = net();
    manual_seed(3);
    let (generator, state) = (get_rng_state(), net.state_dict());
    let summary = net.summary(&Tensor::ones([3, 4])).unwrap();
    assert_eq!(get_rng_state(), generator);
    assert_eq!(net.state_dict(), state);
    assert!(net.parameters().iter().all(|p| p.grad().is_none()));
    assert_eq!(no_grad(|| net.summary(&Tensor::ones([3, 4])).unwrap()), summary);
}

#[test]
fn what_is_frozen_keeps_less_and_computes_the_same() {
    let mut model = sequential![Linear::new(4, 8), ReLU, Linear::new(8, 2)];
    let x = Tensor::ones([3, 4]);
    let free = model.summary(&x).unwrap();
    assert_eq!(free.saved_bytes, 4 * 3 * (4 + 8));
    model.requires_grad_matching("0.*", false).unwrap();
    let part = model.summary(&x).unwrap();
    assert_eq!((part.flops, part.trainable, part.saved_bytes), (free.flops, 18, 4 * 3 * 8));
    model.requires_grad_(false).unwrap();
    let frozen = model.summary(&x).unwrap();
    assert_eq!((frozen.flops, frozen.trainable, frozen.saved_bytes), (free.flops, 0, 0));
    assert_eq!(frozen.layers[3].flops, 2 * 3 * 8 * 2);
    assert!(free.layers.iter().all(|layer| layer.trainable == layer.parameters));
    // A column counts them by layer, where there are any.
    let text = "\
layer    type        output  parameters  frozen  FLOPs  keeps
(model)  Sequential  [3, 2]          58      40    288   96 B
  0      Linear      [3, 8]          40      40    192    0 B
  1      ReLU        [3, 8]           0       0      0    0 B
  2      Linear      [3, 2]          18       0     96   96 B
58 parameters, 18 of them trainable, 40 frozen; 288 FLOPs; keeps 96 B for the backward pass";
    assert_eq!(part.to_string(), text, "{part}");
    // A weight that is kept for the input's gradient is the parameter's own.
    assert_eq!(model.summary(&x.requires_grad()).unwrap().layers[1].saved_bytes, 0);
}

/// Against PyTorch's `FlopCounterMode`.
#[test]
fn products_are_counted_as_pytorch_does() {
    let count = |run: &dyn Fn(&Var) -> Result<Var>, shape: &[usize]| {
        let x = Tensor::ones(shape).requires_grad();
        Summary::of(&x, |x| run(x)).unwrap().flops
    };
    let w = |shape: &[usize]| Tensor::ones(shape).requires_grad();
    assert_eq!(count(&|x| x.matmul(w(&[4, 5])), &[3, 4]), 120);
    assert_eq!(count(&|x| w(&[2, 3, 4]).matmul(x), &[2, 4, 5]), 240);
    assert_eq!(count(&|x| x.addmm(w(&[3, 4]), w(&[4, 5])), &[3, 5]), 120);
    assert_eq!(count(&|x| x.conv2d(w(&[6, 4, 3, 3])), &[2, 4, 8, 8]), 31104);
    assert_eq!(
        count(&|x| x.conv2d_with(w(&[6, 2, 3, 3]), Conv::new().groups(2).stride(2)), &[2, 4, 8, 8]),
        3888
    );
    assert_eq!(count(&|x| x.conv_transpose2d(w(&[4, 6, 3, 3])), &[2, 4, 8, 8]), 55296);
    // What is not tracked counts as well.
    let image = |w: &Var| Var::from(Tensor::ones([2, 4, 8, 8])).conv_transpose2d(w);
    assert_eq!(count(&image, &[4, 6, 3, 3]), 55296);
    let plain = |shape: &[usize]| Var::from(Tensor::ones(shape));
    assert_eq!(count(&|x| x.conv2d(plain(&[6, 4, 3, 3])), &[2, 4, 8, 8]), 31104);
    assert_eq!(count(&|x| x.conv_transpose2d(plain(&[4, 6, 3, 3])), &[2, 4, 8, 8]), 55296);
    let free = |shape: &[usize]| Var::from(Tensor::ones(shape));
    let values = |v: &Var| free(&[2, 4, 5, 8]).scaled_dot_product_attention(free(&[2, 4, 6, 8]), v);
    assert_eq!(count(&values, &[2, 4, 6, 3]), 5280);
    let queries = |q: &Var| q.scaled_dot_product_attention(free(&[2, 4, 6, 8]), free(&[2, 4, 6, 3]));
    assert_eq!(count(&queries, &[2, 4, 5, 8]), 5280);
    let masked = |mask: &Var| {
        let [q, k, v] = [[2, 4, 5, 8], [2, 4, 6, 8], [2, 4, 6, 3]].map(|shape| free(&shape));
        q.scaled_dot_product_attention_with(k, v, Attention::new().mask(mask))
    };
    assert_eq!(count(&masked, &[5, 6]), 5280);
    for (shapes, expected) in [
        ([&[5, 8][..], &[6, 8], &[2, 6, 3]], 840),
        ([&[1, 5, 8], &[1, 6, 8], &[7, 6, 3]], 1740),
        ([&[4, 1, 5, 8], &[4, 1, 6, 8], &[1, 9, 6, 3]], 8400),
        ([&[5, 8], &[2, 6, 8], &[6, 3]], 1320),
    ] {
        let attention = |q: &Var| q.scaled_dot_product_attention(w(shapes[1]), w(shapes[2]));
        assert_eq!(count(&attention, shapes[0]), expected, "{shapes:?}");
    }
    let attention = |q: &Var| q.scaled_dot_product_attention(w(&[2, 4, 6, 8]), w(&[2, 4, 6, 3]));
    assert_eq!(count(&attention, &[2, 4, 5, 8]), 5280);
    assert_eq!(count(&|x| Ok(x.exp()), &[3]), 0);
    // It leaves out products with a vector.
    assert_eq!(count(&|x| x.matmul(w(&[4])), &[3, 4]), 24);
}

#[derive(Module)]
struct Shapes {
    layer: Linear,
}

#[forward]
impl Shapes {
    fn forward(&self, x: &Var, deep: usize) -> Result<(Var, Vec<Var>, Option<Var>)> {
        if deep > 0 {
            return self.forward(x, deep - 1);
        }
        Ok((self.layer.forward(x)?, vec![x.clone(), x.clone()], None))
    }
}

#[derive(Module)]
struct NoShape(Linear);

#[forward]
impl NoShape {
    fn forward(&self, x: &Var) -> Result<String> {
        Ok(format!("{}", self.0.forward(x)?.shape()))
    }
}

#[test]
fn results_of_every_kind_and_a_layer_in_itself() {
    let model = Shapes { layer: Linear::new(2, 3) };
    let x = Tensor::ones([5, 2]);
    let summary = Summary::of(&model, |m| m.forward(&x, 2)).unwrap();
    assert_eq!(summary.layers[0].outputs, [[5, 3], [5, 2], [5, 2]]);
    assert_eq!((summary.layers[0].calls, summary.layers[0].flops, summary.flops), (3, 60, 60));
    let summary = Summary::of(&NoShape(Linear::new(2, 3)), |m| m.forward(&x)).unwrap();
    assert!(summary.layers[0].outputs.is_empty() && summary.flops == 60);
}

#[test]
fn errors_come_through_and_leave_nothing_behind() {
    let net = net();
    let e = net.summary(&Tensor::ones([3, 5])).unwrap_err().with_location(None).to_string();
    assert!(e.starts_with("blocks.0.0: linear: "), "{e}");
    let panics = || Summary::of(&net, |_| -> Result<()> { panic!("on purpose") });
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
    assert!(!super::enter(&net));
    // One inside the function of another.
    let x = Tensor::ones([3, 4]);
    let outer = Summary::of(&net, |net| {
        let y = net.forward(&x)?;
        assert_eq!(net.summary(&x)?.flops, 1728);
        Ok(y)
    });
    assert_eq!(outer.unwrap().layers[0].calls, 1);
}

#[test]
fn names_of_types() {
    assert_eq!(short("foldback_nn::linear::Linear"), "Linear");
    let names = [
        std::any::type_name::<crate::RNN>(),
        std::any::type_name::<crate::LSTM>(),
        std::any::type_name::<Option<crate::GRU>>(),
        std::any::type_name::<crate::LSTMCell>(),
    ];
    assert_eq!(names.map(short), ["RNN", "LSTM", "Option<GRU>", "LSTMCell"]);
    assert_eq!(short("a::B<c::D<e::F>, [g::H; 3]>"), "B<D<F>, [H; 3]>");
    assert_eq!(short("alloc::boxed::Box<dyn a::Layer>"), "Box<dyn Layer>");
}
