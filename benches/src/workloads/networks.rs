//! W13 and W14: one step of training a language model and a network of convolutions, written with functions.

use foldback::Result;
use foldback::graph::Var;
use foldback::prelude::*;

use super::training::{Trainer, workload};
use super::{Work, Workload, leaf, tensor};
use crate::inputs::{Input, labels};

pub(super) fn list() -> Vec<Workload> {
    let (model, images) = (LanguageModel::work(), Convolutions::work());
    vec![
        workload("W13", LanguageModel::TITLE, model, || LanguageModel::new()?.trainer()),
        workload("W14", Convolutions::TITLE, images, || Convolutions::new()?.trainer()),
    ]
}

/// A weight of this shape for `from` inputs, and its bias.
struct Affine {
    weight: Var,
    bias: Var,
}

impl Affine {
    fn new<const N: usize>(shape: [usize; N], salt: u32) -> Result<Affine> {
        let bound = 1.0 / (shape[1..].iter().product::<usize>() as f32).sqrt();
        let weight = leaf(Input::new(shape, salt, -bound, bound))?;
        Ok(Affine { weight, bias: leaf(Input::new([shape[0]], salt + 1, -bound, bound))? })
    }

    fn linear(&self, x: &Var) -> Result<Var> {
        x.linear(&self.weight, &self.bias)
    }

    fn convolution(&self, x: &Var) -> Result<Var> {
        x.conv2d_with(&self.weight, Conv::new().bias(&self.bias).padding(1))
    }

    fn norm(&self, x: &Var) -> Result<Var> {
        x.layer_norm_with(WIDTH, Norm::new().weight(&self.weight).bias(&self.bias))
    }
}

const VOCABULARY: usize = 65;
const WIDTH: usize = 64;
const HEADS: usize = 4;
const CONTEXT: usize = 64;
const BATCH: usize = 16;

/// A block of a transformer: what it reads is normalised before attention, and before two layers with GELU between.
struct Block {
    norms: [Affine; 2],
    qkv: Affine,
    out: Affine,
    wide: Affine,
    narrow: Affine,
}

impl Block {
    fn new(salt: u32) -> Result<Block> {
        Ok(Block {
            norms: [Affine::new([WIDTH], salt)?, Affine::new([WIDTH], salt + 2)?],
            qkv: Affine::new([3 * WIDTH, WIDTH], salt + 4)?,
            out: Affine::new([WIDTH, WIDTH], salt + 6)?,
            wide: Affine::new([4 * WIDTH, WIDTH], salt + 8)?,
            narrow: Affine::new([WIDTH, 4 * WIDTH], salt + 10)?,
        })
    }

    fn affines(&self) -> [&Affine; 6] {
        [&self.norms[0], &self.norms[1], &self.qkv, &self.out, &self.wide, &self.narrow]
    }

    fn forward(&self, x: &Var) -> Result<Var> {
        let heads = |v: &Var| v.reshape([BATCH, CONTEXT, HEADS, WIDTH / HEADS])?.transpose(1, 2);
        let [q, k, v] = self.qkv.linear(&self.norms[0].norm(x)?)?.chunks(-1)?;
        let causal = Attention::new().is_causal(true);
        let y = heads(&q)?.scaled_dot_product_attention_with(heads(&k)?, heads(&v)?, causal)?;
        let x = x + self.out.linear(&y.transpose(1, 2)?.reshape([BATCH, CONTEXT, WIDTH])?)?;
        Ok(&x + self.narrow.linear(&self.wide.linear(&self.norms[1].norm(&x)?)?.gelu())?)
    }
}

/// A character language model.
struct LanguageModel {
    tokens: Var,
    positions: Var,
    blocks: [Block; 2],
    norm: Affine,
    head: Affine,
    ids: Tensor,
    target: Tensor,
}

impl LanguageModel {
    const TITLE: &str =
        "training step of a language model: vocabulary 65, width 64, 4 heads, 2 layers, [16, 64], AdamW";

    /// Products forward, and twice that back.
    fn work() -> Work {
        let rows = BATCH * CONTEXT;
        let layer = rows * WIDTH * 12 * WIDTH + 2 * rows * CONTEXT * WIDTH;
        Work { flops: 6 * (2 * layer + rows * WIDTH * VOCABULARY), ..Work::default() }
    }

    fn new() -> Result<LanguageModel> {
        let ids = |salt| Tensor::from_vec(labels(BATCH * CONTEXT, salt, VOCABULARY as u32), [BATCH, CONTEXT]);
        Ok(LanguageModel {
            tokens: leaf(Input::new([VOCABULARY, WIDTH], 40, -1.0, 1.0))?,
            positions: leaf(Input::new([CONTEXT, WIDTH], 41, -1.0, 1.0))?,
            blocks: [Block::new(42)?, Block::new(54)?],
            norm: Affine::new([WIDTH], 66)?,
            head: Affine::new([VOCABULARY, WIDTH], 68)?,
            ids: ids(70)?,
            target: ids(71)?.reshape(-1)?,
        })
    }

    fn loss(&self) -> Result<Var> {
        let mut x = Var::embedding(&self.ids, &self.tokens)? + &self.positions;
        for block in &self.blocks {
            x = block.forward(&x)?;
        }
        let scores = self.head.linear(&self.norm.norm(&x)?)?.reshape((-1, VOCABULARY))?;
        loss::cross_entropy(scores, &self.target)
    }

    fn trainer(self) -> Result<Trainer> {
        let affines = self.blocks.iter().flat_map(Block::affines).chain([&self.norm, &self.head]);
        let affines = affines.flat_map(|a| [&a.weight, &a.bias]);
        let parameters: Vec<Var> =
            [&self.tokens, &self.positions].into_iter().chain(affines).cloned().collect();
        let optimizer = Box::new(AdamW::new(&parameters, 1e-3));
        Ok(Trainer { parameters, optimizer, loss: Box::new(move || self.loss()) })
    }
}

/// Digits by convolutions.
struct Convolutions {
    convolutions: [Affine; 2],
    head: Affine,
    images: Var,
    target: Tensor,
}

impl Convolutions {
    const TITLE: &str =
        "training step of [64, 1, 28, 28]: conv 8, ReLU, pool, conv 16, ReLU, pool, linear, Adam";

    /// Products forward, and twice that back; the images have no gradient.
    fn work() -> Work {
        let (first, second, head) = (64 * 28 * 28 * 8 * 9, 64 * 14 * 14 * 16 * 8 * 9, 64 * 784 * 10);
        Work { flops: 4 * first + 6 * (second + head), ..Work::default() }
    }

    fn new() -> Result<Convolutions> {
        Ok(Convolutions {
            convolutions: [Affine::new([8, 1, 3, 3], 80)?, Affine::new([16, 8, 3, 3], 82)?],
            head: Affine::new([10, 784], 84)?,
            images: tensor(Input::new([64, 1, 28, 28], 86, -0.5, 1.0))?.into(),
            target: Tensor::from_vec(labels(64, 87, 10), [64])?,
        })
    }

    fn loss(&self) -> Result<Var> {
        let mut x = self.images.clone();
        for layer in &self.convolutions {
            x = layer.convolution(&x)?.relu().max_pool2d(2)?;
        }
        loss::cross_entropy(self.head.linear(&x.flatten(1..)?)?, &self.target)
    }

    fn trainer(self) -> Result<Trainer> {
        let affines = self.convolutions.iter().chain([&self.head]);
        let parameters: Vec<Var> = affines.flat_map(|a| [&a.weight, &a.bias]).cloned().collect();
        let optimizer = Box::new(Adam::new(&parameters, 1e-3));
        Ok(Trainer { parameters, optimizer, loss: Box::new(move || self.loss()) })
    }
}
