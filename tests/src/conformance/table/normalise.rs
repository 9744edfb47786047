//! Normalisation, attention and embedding.

use foldback_graph::Var;
use foldback_tensor::{Attention, Norm};

use super::{Operation, Outcome, one, operation};
use crate::conformance::args::{Args, Read, Refusal};

pub(super) const ROWS: &[Operation] = &[
    operation!(Sum "layer_norm", "input normalized_shape weight bias eps", |a| {
        let options = affine(a)?;
        one(a.var("input")?.layer_norm_with(sizes(a)?, options.as_ref()))
    }),
    operation!(Sum "rms_norm", "input normalized_shape weight eps", |a| {
        let options = affine(a)?;
        one(a.var("input")?.rms_norm_with(sizes(a)?, options.as_ref()))
    }),
    operation!(Sum "group_norm", "input num_groups weight bias eps", |a| {
        let options = affine(a)?;
        let groups = usize::try_from(a.int_of("num_groups")?);
        let groups = groups.map_err(|_| Refusal::Argument("a negative number of groups".into()))?;
        one(a.var("input")?.group_norm_with(groups, options.as_ref()))
    }),
    operation!(Sum "instance_norm", "input running_mean running_var weight bias use_input_stats momentum eps", |a| {
        let (x, options) = (a.var("input")?, affine(a)?);
        match (a.flag("use_input_stats", true)?, running(a)?) {
            (true, None) => one(x.instance_norm_with(options.as_ref())),
            (true, Some([mean, var])) => {
                three(x.instance_norm_train_with(mean, var, a.float("momentum", 0.1)?, options.as_ref()))
            }
            (false, Some([mean, var])) => one(x.batch_norm_with(mean, var, options.as_ref())),
            (false, None) => Err(Refusal::Argument("no statistics".into())),
        }
    }),
    operation!(Sum "batch_norm", "input running_mean running_var weight bias training momentum eps", |a| {
        let (x, options) = (a.var("input")?, affine(a)?);
        match (a.flag("training", false)?, running(a)?) {
            (true, None) => one(x.batch_norm_train(options.as_ref()).map(|found| found.0)),
            (true, Some([mean, var])) => {
                three(x.batch_norm_train_with(mean, var, a.float("momentum", 0.1)?, options.as_ref()))
            }
            (false, Some([mean, var])) => one(x.batch_norm_with(mean, var, options.as_ref())),
            (false, None) => Err(Refusal::Argument("no statistics".into())),
        }
    }),
    operation!(Exact "embedding", "input weight padding_idx", |a| {
        let (ids, weight) = (a.tensor("input")?, a.var("weight")?);
        match a.int("padding_idx")? {
            None => one(Var::embedding(ids, weight)),
            Some(padding) => one(Var::embedding_with(ids, weight, padding as i64)),
        }
    }),
    operation!(Sum "scaled_dot_product_attention", "query key value attn_mask dropout_p is_causal scale enable_gqa", |a| {
        let options = Attention::new().is_causal(a.flag("is_causal", false)?).dropout_p(a.float("dropout_p", 0.0)?);
        let options = options.enable_gqa(a.flag("enable_gqa", false)?);
        if (0.0..1.0).contains(&options.dropout_p) && options.dropout_p > 0.0 {
            return Err(Refusal::Unsupported("by design: shares dropped by other random numbers".into()));
        }
        let options = match a.scalar("scale")? {
            Some(scale) => options.scale(scale.to_f64()),
            None => options,
        };
        let (q, k, v) = (a.var("query")?, a.var("key")?, a.var("value")?);
        one(match a.maybe_var("attn_mask")? {
            Some(mask) => q.scaled_dot_product_attention_with(k, v, options.mask(&mask)),
            None => q.scaled_dot_product_attention_with(k, v, options),
        })
    }),
    operation!(Sum "normalize", "input p dim eps", |a| {
        let axes = a.ints("dim")?.unwrap_or(vec![1]);
        one(a.var("input")?.normalize_with(axes, a.float("p", 2.0)?, a.float("eps", 1e-12)?))
    }),
    operation!(Sum "cosine_similarity", "x1 x2 dim eps", |a| {
        let axis = a.int("dim")?.unwrap_or(1);
        one(a.var("x1")?.cosine_similarity_with(a.var("x2")?, axis, a.float("eps", 1e-8)?))
    }),
    operation!("glu", "input dim", |a| one(a.var("input")?.glu(a.int("dim")?.unwrap_or(-1)))),
];

/// Weight, bias and `eps`, as far as they are given.
struct Affine(Option<Var>, Option<Var>, Option<f64>);

fn affine(a: &Args) -> Read<Affine> {
    Ok(Affine(a.maybe_var("weight")?, a.maybe_var("bias")?, a.scalar("eps")?.map(|eps| eps.to_f64())))
}

impl Affine {
    fn as_ref(&self) -> Norm<Option<&Var>, Option<&Var>> {
        let options = Norm::new().weight(self.0.as_ref()).bias(self.1.as_ref());
        self.2.map_or(options, |eps| options.eps(eps))
    }
}

/// Running statistics: both or none.
fn running(a: &Args) -> Read<Option<[Var; 2]>> {
    match (a.maybe_var("running_mean")?, a.maybe_var("running_var")?) {
        (None, None) => Ok(None),
        (Some(mean), Some(var)) => Ok(Some([mean, var])),
        _ => Err(Refusal::Argument("one of the running statistics".into())),
    }
}

/// A result, and the running statistics afterwards.
fn three(result: foldback_graph::Result<(Var, Var, Var)>) -> Outcome {
    result.map(|(y, mean, var)| vec![y, mean, var]).map_err(Into::into)
}

fn sizes(a: &Args) -> Read<Vec<usize>> {
    let sizes = a.ints_of("normalized_shape")?.into_iter().map(usize::try_from);
    sizes.collect::<Result<_, _>>().map_err(|_| Refusal::Argument("a negative size".into()))
}
