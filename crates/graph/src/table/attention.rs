//! Rows of attention and of what goes with it: kernels that never store all scores, or, where gradients are to be
//! recorded, compositions that do.

use foldback_tensor::kernel::{Attending, GroupedHeads};
use foldback_tensor::{Attention, DType, Here, Tensor, keep};
use smallvec::SmallVec;

use super::function_rows::function;
use super::linalg::beside;
use super::together::{self, Together};
use crate::arrival::{factor, joined};
use crate::error::Result;
use crate::input::{AsInput, AsOptionalInput};
use crate::lead::Lead;
use crate::node::{Able, Arrival, Context, Flow, Node, Take, Var, Way};
use crate::record::{Reads, record_one};
use crate::slot::RuleSlot;

function! { @rows rows
    scaled_dot_product_attention {
        "a head": [[3, 2] Any, [4, 2] Any, [4, 3] Any] |x| x[0].scaled_dot_product_attention(&x[1], &x[2]);
        "heads": [[2, 2, 3, 2] Any, [2, 2, 2, 2] Any, [2, 2, 2, 1] Any]
            |x| x[0].scaled_dot_product_attention(&x[1], &x[2]);
        "broadcast heads": [[2, 1, 3, 2] Any, [2, 2, 2] Any, [2, 1, 2, 3] Any]
            |x| x[0].scaled_dot_product_attention(&x[1], &x[2]);
        "causal": [[3, 2] Any, [4, 2] Any, [4, 2] Any]
            |x| x[0].scaled_dot_product_attention_with(&x[1], &x[2], Attention::new().is_causal(true).scale(0.7));
        "an added mask": [[2, 3, 2] Any, [2, 4, 2] Any, [2, 4, 2] Any, [3, 4] Any]
            |x| x[0].scaled_dot_product_attention_with(&x[1], &x[2], Attention::new().mask(&x[3]));
        "a mask of keys": [[2, 3, 2] Any, [2, 4, 2] Any, [2, 4, 2] Any, [2, 1, 4] Any]
            |x| x[0].scaled_dot_product_attention_with(&x[1], &x[2], Attention::new().mask(&x[3]));
        "a masked row": [[2, 2] Any, [3, 2] Any, [3, 2] Any]
            |x| x[0].scaled_dot_product_attention_with(&x[1], &x[2], Attention::new().mask(&seen()));
        "shared heads": [[4, 2, 2] Any, [2, 3, 2] Any, [2, 3, 1] Any, [4, 1, 3] Any]
            |x| x[0].scaled_dot_product_attention_with(&x[1], &x[2], Attention::new().enable_gqa(true).mask(&x[3]));
        "no keys": [[2, 2] Any, [0, 2] Any, [0, 3] Any] |x| x[0].scaled_dot_product_attention(&x[1], &x[2]);
        "no queries": [[0, 2] Any, [3, 2] Any, [3, 2] Any] |x| x[0].scaled_dot_product_attention(&x[1], &x[2]);
        "no sizes": [[2, 0] Any, [3, 0] Any, [3, 2] Any] |x| x[0].scaled_dot_product_attention(&x[1], &x[2]);
    }
}

pub(super) use rows::ALL;

/// A mask with a row that sees nothing.
fn seen() -> Tensor {
    foldback_tensor::tensor![[true, false, true], [false, false, false]]
}

/// # Attention
impl Var {
    /// `softmax(q k^T / sqrt(e)) v` of queries (this variable), keys and values; see
    /// [`Tensor::scaled_dot_product_attention`].
    ///
    /// # Errors
    /// As [`Tensor::scaled_dot_product_attention_with`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let (q, k, v) = (tensor![[0.0]].requires_grad(), tensor![[1.0], [2.0]], tensor![[2.0], [4.0]]);
    /// q.scaled_dot_product_attention(&k, &v)?.backward()?;
    /// assert_eq!(q.grad(), Some(tensor![[0.5]]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    #[doc(alias = "sdpa")]
    pub fn scaled_dot_product_attention(&self, key: impl AsInput, value: impl AsInput) -> Result<Var> {
        self.scaled_dot_product_attention_with(key, value, Attention::new()).here()
    }

    /// [`Var::scaled_dot_product_attention`] with a mask, another scale, causal, or with shares dropped; see
    /// [`Tensor::scaled_dot_product_attention_with`]. A mask of numbers has a gradient if it requires one.
    ///
    /// # Errors
    /// As [`Tensor::scaled_dot_product_attention_with`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::{tensor, Attention};
    /// let (x, v) = (tensor![[0.0], [0.0]], tensor![[2.0], [4.0]].requires_grad());
    /// let options = Attention::new().mask(tensor![[true, false], [false, false]]);
    /// let y = foldback_graph::Var::from(&x).scaled_dot_product_attention_with(&x, &v, options)?;
    /// assert_eq!(y.value(), tensor![[2.0], [0.0]]);
    /// y.sum(..)?.backward()?;
    /// assert_eq!(v.grad(), Some(tensor![[1.0], [0.0]]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn scaled_dot_product_attention_with(
        &self,
        key: impl AsInput,
        value: impl AsInput,
        options: Attention<impl AsOptionalInput>,
    ) -> Result<Var> {
        let (k, v) = (key.input().beside(self), value.input().beside(self));
        let (mask, options) = options.without_mask();
        let mask = mask.optional_input().map(|m| m.beside(self));
        attend([self, &k, &v], mask.as_deref(), options).here()
    }

    /// Zeros in place of elements with probability `p`, and the others times `1 / (1 - p)`; see [`Tensor::dropout`].
    ///
    /// # Errors
    /// As [`Tensor::dropout`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::Tensor;
    /// let x = Tensor::ones([100]).requires_grad();
    /// let y = x.dropout(0.5)?;
    /// y.sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(y.value()));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn dropout(&self, p: impl Into<f64>) -> Result<Var> {
        match self.value_ref().dropout_mask(p.into()).here()? {
            Some(mask) => self.mul(&mask).map_err(|e| e.named("dropout")).here(),
            None => Ok(self.clone()),
        }
    }
}

/// Queries, keys and values arrive as factors of a product do; a mask as a number for each key and row of the result.
fn attended(node: &Node, input: usize) -> Arrival {
    if input < 3 {
        return Arrival { way: Way::Apart, ..factor(node, input) };
    }
    let (own, output) = (node.own_shape(input), node.metadata[0].shape.dims());
    let keys = node.input_shape(1).or(node.input_shape(2));
    let count = keys.map(|k| k[k.rank() - 2]).or(own.last().copied());
    let shape = joined(&output[..output.len() - 1], &count.into_iter().collect::<Vec<_>>());
    Arrival { shape, way: Way::Apart }
}

#[track_caller]
fn attend([q, k, v]: [&Var; 3], mask: Option<&Var>, options: Attention) -> Result<Var> {
    if options.enable_gqa {
        let shapes = GroupedHeads::of([q.shape(), k.shape(), v.shape()], mask.map(Var::shape))?;
        let (q, k, v) = (q.reshape(&shapes.query)?, k.reshape(&shapes.key)?, v.reshape(&shapes.value)?);
        let mask = mask.zip(shapes.mask.as_ref()).map(|(m, shape)| m.reshape(shape)).transpose()?;
        let y = attend([&q, &k, &v], mask.as_ref(), options.enable_gqa(false))?;
        return y.reshape(shapes.result(y.shape()));
    }
    let _span = crate::profile::forward("scaled_dot_product_attention");
    let values = [q.value(), k.value(), v.value()];
    let m = mask.map(Var::value);
    let how = Attending::new(values.each_ref(), m.as_ref(), &options)?;
    if how.dropout_p > 0.0 {
        return attend_with_dropout(how, q, k, v, mask);
    }
    let [y, norms] = how.forward(values.each_ref(), m.as_ref())?;
    let inputs: SmallVec<[&Var; 4]> = [Some(q), Some(k), Some(v), mask].into_iter().flatten().collect();
    let slots =
        [RuleSlot::Output(0), RuleSlot::Input(0), RuleSlot::Input(1), RuleSlot::Input(2), RuleSlot::Input(3)];
    let reads = Reads::All(&slots[..=inputs.len()]);
    let masked = mask.is_some();
    Ok(record_one(rows::scaled_dot_product_attention.name, &inputs, y, reads, move || {
        let function = move |ctx: &Context<'_>, take: &mut Take<'_>| {
            let place = masked.then_some(3);
            let step = AttentionBackward {
                g: if ctx.tangents.is_some() { Var::constant(Tensor::from(0.0)) } else { ctx.grad(0) },
                q: ctx.value(RuleSlot::Input(0)),
                k: ctx.value(RuleSlot::Input(1)),
                v: ctx.value(RuleSlot::Input(2)),
                mask: masked.then(|| ctx.value(RuleSlot::Input(3))),
                results: Some([ctx.value(RuleSlot::Output(0)).value(), norms.clone()]),
                how: how.clone(),
                wanted: [(0..3).any(|i| ctx.needs(i)), place.is_some_and(|place| ctx.needs(place))],
                n: ctx.lead,
            };
            match ctx.tangents {
                Some(tangents) => take(Flow::to(0, step.tangent(tangents, ctx.full().rank())?)),
                None => together::describe(ctx, take, &step, [Some(0), Some(1), Some(2), place]),
            }
        };
        Box::new(Able { leads: true, pushes: true, arrival: attended, function })
    }))
}

/// Attention with shares dropped: composed of operations, which store all shares.
#[track_caller]
fn attend_with_dropout(how: Attending, q: &Var, k: &Var, v: &Var, mask: Option<&Var>) -> Result<Var> {
    let p = how.dropout_p;
    let step = AttentionBackward {
        g: Var::constant(Tensor::from(0.0)),
        q: q.clone(),
        k: k.clone(),
        v: v.clone(),
        mask: mask.cloned(),
        results: None,
        how,
        wanted: [false; 2],
        n: Lead(None),
    };
    let shares = step.shares().map_err(|e| e.named("scaled_dot_product_attention"))?;
    shares.dropout(p)?.matmul(&step.v)
}

/// What the gradients of attention are made of.
struct AttentionBackward {
    g: Var,
    q: Var,
    k: Var,
    v: Var,
    mask: Option<Var>,
    /// of the forward step
    results: Option<[Tensor; 2]>,
    how: Attending,
    /// whether a gradient of queries, keys or values is asked for, and that of the mask
    wanted: [bool; 2],
    n: Lead,
}

impl AttentionBackward {
    /// The share of each key, zeros for a query that sees none.
    fn shares(&self) -> Result<Var> {
        let mut scores = self.q.matmul(self.k.transpose(-2, -1)?)?.mul(self.how.scale)?;
        let causal = if self.how.causal { Some(Var::constant(self.how.causal_mask()?)) } else { None };
        if let Some(mask) = causal.as_ref().or(self.mask.as_ref()) {
            scores = match mask.dtype() {
                DType::Bool => mask.where_cond(&scores, f64::NEG_INFINITY)?,
                _ => scores.add(mask)?,
            };
        }
        let unseen = scores.eq(f64::NEG_INFINITY)?.all(keep(-1))?;
        unseen.where_cond(0.0, unseen.where_cond(0.0, &scores)?.softmax(-1)?)
    }

    /// The gradient of the masked scores.
    fn slopes(&self, shares: &Var) -> Result<Var> {
        through_shares(&self.g.matmul(self.v.transpose(-2, -1)?)?, shares)
    }

    /// The gradient of an operand, given those of the scores.
    fn of_slopes(&self, which: usize, shares: &Var, slopes: &Var) -> Result<Var> {
        match which {
            0 => slopes.matmul(&self.k)?.mul(self.how.scale),
            1 => slopes.transpose(-2, -1)?.matmul(&self.q)?.mul(self.how.scale),
            2 => shares.transpose(-2, -1)?.matmul(&self.g),
            _ => Ok(slopes.clone()),
        }
    }

    /// The tangent of the result, which has `rank` axes, given those of queries, keys, values and the mask.
    fn tangent(&self, tangents: &[Option<Var>], rank: usize) -> Result<Var> {
        let (shares, n) = (self.shares()?, self.n);
        let of = |i: usize| tangents.get(i)?.as_ref().map(|t| beside(t, rank - n.axes(), n));
        let [dq, dk, dv, dm] = [of(0), of(1), of(2), of(3)].map(Option::transpose);
        let terms = [
            dq?.map(|t| t.matmul(self.k.transpose(-2, -1)?)?.mul(self.how.scale)),
            dk?.map(|t| self.q.matmul(t.transpose(-2, -1)?)?.mul(self.how.scale)),
            dm?.map(Ok),
        ];
        let through_scores = match sum_of(terms)? {
            Some(scores) => Some(through_shares(&scores, &shares)?.matmul(&self.v)),
            None => None,
        };
        let sum = sum_of([through_scores, dv?.map(|t| shares.matmul(t))])?;
        Ok(sum.expect("some operand has a tangent"))
    }
}

/// What the softmax that made the shares makes of gradients or of tangents: its Jacobian is symmetric.
fn through_shares(v: &Var, shares: &Var) -> Result<Var> {
    shares.mul(v.sub(v.mul(shares)?.sum(keep(-1))?)?)
}

fn sum_of(terms: impl IntoIterator<Item = Option<Result<Var>>>) -> Result<Option<Var>> {
    terms.into_iter().flatten().try_fold(None, |sum: Option<Var>, term| match sum {
        Some(sum) => sum.add(term?).map(Some),
        None => term.map(Some),
    })
}

/// The gradients of queries, keys, values and the mask.
impl Together<4> for AttentionBackward {
    fn now(&self) -> Result<[Tensor; 4]> {
        if self.n.0.is_some() {
            // The kernels have no leading axis.
            let shares = self.shares()?;
            let slopes = self.slopes(&shares)?;
            let of = |which: usize, wanted: bool| match wanted {
                true => self.of_slopes(which, &shares, &slopes).map(|g| g.value()),
                false => Ok(Tensor::zeros_with(0, shares.dtype())),
            };
            let [operands, mask] = self.wanted;
            return Ok([of(0, operands)?, of(1, operands)?, of(2, operands)?, of(3, mask)?]);
        }
        let [q, k, v] = [&self.q, &self.k, &self.v].map(Var::value);
        let mask = self.mask.as_ref().map(Var::value);
        let nothing = || Tensor::zeros_with(0, q.dtype());
        let [dq, dk, dv] = match self.wanted[0] {
            true => {
                let results = self.results.as_ref().expect("attention without dropping has them");
                self.how.backward(&self.g.value_ref(), [&q, &k, &v], mask.as_ref(), results)?
            }
            false => [(); 3].map(|()| nothing()),
        };
        let of_mask = match self.wanted[1] {
            true => self.slopes(&self.shares()?)?.value(),
            false => nothing(),
        };
        Ok([dq, dk, dv, of_mask])
    }

    fn recorded(&self, which: usize) -> Result<Var> {
        let shares = self.shares()?;
        // Values have none to do with the slopes.
        let slopes = if which == 2 { shares.clone() } else { self.slopes(&shares)? };
        self.of_slopes(which, &shares, &slopes)
    }
}
