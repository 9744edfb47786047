//! Projections: from inputs to the heads, and from what the heads found to the result.

use foldback_graph::Var;
use foldback_tensor::{Here, Tensor, refuse};

use super::layer::{MultiheadAttention, OP};
use super::masks::MaskSizes;
use crate::error::{NnFacts, Result};

/// What heads attend with, `[n, heads, .., width / heads]`.
pub(super) struct Heads {
    pub(super) q: Var,
    pub(super) k: Var,
    pub(super) v: Var,
    pub(super) sizes: MaskSizes,
    /// how many keys stand behind those given
    pub(super) more: usize,
}

impl MultiheadAttention {
    /// Queries, keys and values of all heads.
    #[track_caller]
    pub(super) fn heads(&self, inputs: [&Var; 3]) -> Result<Heads> {
        let alone = inputs[0].rank() == 2;
        self.check(inputs).here()?;
        // One variable three times stays one, so that one product makes all projections.
        let same = |i: usize| std::ptr::eq(inputs[0], inputs[i]) || inputs[0].is_same(inputs[i]);
        let query = self.rows_first(inputs[0])?;
        let [mut q, mut k, mut v] = match &self.in_proj_weight {
            Some(weight) if same(1) && same(2) => query.linear(weight, &self.in_proj_bias)?.chunks(-1)?,
            _ => self.apart(&query, &self.rows_first(inputs[1])?, &self.rows_first(inputs[2])?)?,
        };
        let (rows, keys) = (q.dims()[0], k.dims()[1]);
        if let (Some(bias_k), Some(bias_v)) = (&self.bias_k, &self.bias_v) {
            let row = [rows, 1, self.embed_dim()];
            k = Var::cat([&k, &bias_k.expand(row)?], 1)?;
            v = Var::cat([&v, &bias_v.expand(row)?], 1)?;
        }
        if self.options.add_zero_attn {
            let zeros = Var::from(Tensor::try_zeros_with([rows, 1, self.embed_dim()], k.dtype())?);
            k = Var::cat([&k, &zeros], 1)?;
            v = Var::cat([&v, &zeros], 1)?;
        }
        let sizes = MaskSizes {
            op: OP,
            alone,
            rows,
            heads: self.num_heads(),
            queries: q.dims()[1],
            keys,
            dtype: q.dtype(),
        };
        let more = k.dims()[1] - keys;
        for part in [&mut q, &mut k, &mut v] {
            let [n, l] = [part.dims()[0], part.dims()[1]];
            let head = self.embed_dim() / self.num_heads();
            *part = part.reshape([n, l, self.num_heads(), head])?.transpose(1, 2)?;
        }
        Ok(Heads { q, k, v, sizes, more })
    }

    /// The projections of three different inputs.
    #[track_caller]
    fn apart(&self, q: &Var, k: &Var, v: &Var) -> Result<[Var; 3]> {
        let own = || [&self.q_proj_weight, &self.k_proj_weight, &self.v_proj_weight].map(Clone::clone);
        let weights = match &self.in_proj_weight {
            Some(weight) => weight.chunks(0)?.map(Some),
            None => own(),
        };
        let biases = match &self.in_proj_bias {
            Some(bias) => bias.chunks(0)?.map(Some),
            None => [None, None, None],
        };
        let mut projected = Vec::with_capacity(3);
        for ((x, weight), bias) in [q, k, v].into_iter().zip(&weights).zip(&biases) {
            let Some(weight) = weight else {
                let (option, target) = ("a layer without q_proj_weight, k_proj_weight or v_proj_weight", OP);
                return refuse(NnFacts::Needs {
                    op: OP,
                    option,
                    target,
                    cure: "set all three, or in_proj_weight",
                })
                .here();
            };
            projected.push(x.linear(weight, bias)?);
        }
        Ok(projected.try_into().expect("three inputs"))
    }

    /// An input as `[n, l, ..]`.
    #[track_caller]
    fn rows_first(&self, x: &Var) -> Result<Var> {
        match (x.rank(), self.options.batch_first) {
            (2, _) => x.unsqueeze(0),
            (_, true) => Ok(x.clone()),
            _ => x.transpose(0, 1),
        }
    }

    /// The result for what the heads found, `[n, heads, l, width / heads]`.
    #[track_caller]
    pub(super) fn joined(&self, found: &Var, alone: bool) -> Result<Var> {
        let [n, l] = [found.dims()[0], found.dims()[2]];
        // The axis that stays in front lies there before the projection, which then makes it anew.
        let first = if self.options.batch_first || alone { [0, 2, 1, 3] } else { [2, 0, 1, 3] };
        let shape = if self.options.batch_first || alone { [n, l] } else { [l, n] };
        let y = found.permute(first)?.reshape([shape[0], shape[1], self.embed_dim()])?;
        let y = self.out_proj.forward(&y)?;
        if alone { y.squeeze(0) } else { Ok(y) }
    }

    fn check(&self, [q, k, v]: [&Var; 3]) -> Result<()> {
        if !(2..=3).contains(&q.rank()) {
            let expected = format!("[l, {e}], or [l, n, {e}] with a batch", e = self.embed_dim());
            return refuse(NnFacts::InputShape {
                op: OP,
                name: "an input",
                expected,
                found: q.shape().clone(),
            });
        }
        let options = &self.options;
        if q.dims().last() != Some(&options.embed_dim) {
            let expected = options.embed_dim;
            return refuse(NnFacts::Features { op: OP, expected, found: q.shape().clone() });
        }
        let batch = if options.batch_first { 0 } else { 1 };
        for (name, x, width) in [("a key", k, options.kdim), ("a value", v, options.vdim)] {
            // As many sequences as there are queries, as many steps as there are keys.
            let mut wanted = if name == "a key" { x.dims().to_vec() } else { k.dims().to_vec() };
            wanted.resize(q.rank(), 0);
            if q.rank() == 3 {
                wanted[batch] = q.dims()[batch];
            }
            wanted[q.rank() - 1] = width;
            if x.dims() != wanted {
                let axes = match (q.rank(), options.batch_first) {
                    (2, _) => "",
                    (_, true) => " (batch, steps, features)",
                    (_, false) => " (steps, batch, features, unless batch_first)",
                };
                let (expected, found) = (format!("{wanted:?}{axes}"), x.shape().clone());
                return refuse(NnFacts::InputShape { op: OP, name, expected, found });
            }
        }
        Ok(())
    }
}
