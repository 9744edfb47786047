//! The options of attention, and its weights.

use foldback_graph::Var;
use foldback_tensor::{DType, Here, Tensor, refuse};

use super::layer::{MultiheadAttention, OP};
use crate::error::{NnFacts, Result};
use crate::init::Init;
use crate::{Dropout, Linear};

/// The options of a [`MultiheadAttention`], see [`MultiheadAttention::builder`].
#[derive(Clone, Debug)]
#[must_use = "a layer is made when build() is called"]
pub struct MultiheadAttentionBuilder {
    pub(super) embed_dim: usize,
    pub(super) num_heads: usize,
    pub(super) dropout: f64,
    pub(super) bias: bool,
    pub(super) add_bias_kv: bool,
    pub(super) add_zero_attn: bool,
    pub(super) kdim: usize,
    pub(super) vdim: usize,
    pub(super) batch_first: bool,
    pub(super) dtype: DType,
}

/// A setter for each field.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $t:ty;)*) => {$(
        $(#[$doc])*
        pub fn $name(mut self, $name: $t) -> Self {
            self.$name = $name;
            self
        }
    )*};
}

impl MultiheadAttentionBuilder {
    pub(super) fn new(embed_dim: usize, num_heads: usize) -> Self {
        MultiheadAttentionBuilder {
            embed_dim,
            num_heads,
            dropout: 0.0,
            bias: true,
            add_bias_kv: false,
            add_zero_attn: false,
            kdim: embed_dim,
            vdim: embed_dim,
            batch_first: false,
            dtype: DType::F32,
        }
    }

    setters! {
        /// The probability that a share is dropped in training. The default is 0.
        dropout: f64;
        /// Whether there are biases of the projections. The default is yes.
        bias: bool;
        /// Whether a key and a value are learnt that stand behind those given. The default is no.
        add_bias_kv: bool;
        /// Whether a key and a value of zeros stand behind those given. The default is no.
        add_zero_attn: bool;
        /// The size of keys, if it is not that of queries.
        kdim: usize;
        /// The size of values, if it is not that of queries.
        vdim: usize;
        /// Whether inputs and outputs are `[n, l, ..]` and not `[l, n, ..]`. The default is no.
        batch_first: bool;
        /// The type of the parameters. The default is `f32`.
        dtype: DType;
    }

    /// Makes the layer.
    ///
    /// # Errors
    /// If the width is 0 or the heads do not divide it, the dropout is not between 0 and 1, the type not a floating-point one, or
    /// a weight too large.
    #[track_caller]
    pub fn build(self) -> Result<MultiheadAttention> {
        let (e, dtype) = (self.embed_dim, self.dtype);
        if e == 0 {
            let expected = "at least 1";
            return refuse(NnFacts::Parameter { op: OP, name: "embed_dim", value: 0.0, expected }).here();
        }
        if self.num_heads == 0 || !e.is_multiple_of(self.num_heads) {
            let sizes = vec![("embed_dim", e)];
            return refuse(NnFacts::NoDivisor { op: OP, name: "num_heads", value: self.num_heads, sizes })
                .here();
        }
        let drawn = |wanted: bool, law: Init, shape: &[usize]| -> Result<Option<Var>> {
            wanted.then(|| Var::leaf(law.sample(shape, dtype)?)).transpose()
        };
        let (weight, row) = (Init::xavier_uniform(1.0), Init::xavier_normal(1.0));
        let packed = self.kdim == e && self.vdim == e;
        let zeros = |n: usize| Var::leaf(Tensor::try_zeros_with(n, dtype)?);
        let mut out_proj = Linear::builder(e, e).bias(false).dtype(dtype).build().here()?;
        if self.bias {
            out_proj.bias = Some(zeros(e).here()?);
        }
        Ok(MultiheadAttention {
            in_proj_weight: drawn(packed, weight, &[e.saturating_mul(3), e]).here()?,
            q_proj_weight: drawn(!packed, weight, &[e, e]).here()?,
            k_proj_weight: drawn(!packed, weight, &[e, self.kdim]).here()?,
            v_proj_weight: drawn(!packed, weight, &[e, self.vdim]).here()?,
            in_proj_bias: if self.bias { Some(zeros(3 * e).here()?) } else { None },
            bias_k: drawn(self.add_bias_kv, row, &[1, 1, e]).here()?,
            bias_v: drawn(self.add_bias_kv, row, &[1, 1, e]).here()?,
            out_proj,
            dropout: Dropout::try_new(self.dropout).here()?,
            options: self,
        })
    }
}
