//! Functions of variables that can refuse. What succeeds is also sent backward, which must succeed as well.

use foldback_graph::{Input, Result, Var, no_grad};
use foldback_tensor::{Attention, DType, Norm, Over, Tensor};

use super::{Choices, Outcome, Target};

macro_rules! targets {
    ($($name:literal => |$x:ident, $c:ident| $body:expr;)*) => {
        &[$(Target { name: $name, call: |$c: &mut Choices<'_>| {
            let leaf = leaf($c);
            let $x = &leaf;
            backward(&leaf, $body)
        }}),*]
    };
}

pub(super) const TARGETS: &[Target] = targets! {
    "permute" => |x, c| x.permute(c.axes());
    "transpose" => |x, c| x.transpose(c.position(), c.position());
    "t" => |x, c| x.try_t();
    "movedim" => |x, c| x.movedim(c.axes(), c.axes());
    "squeeze" => |x, c| x.squeeze(c.axes());
    "unsqueeze" => |x, c| x.unsqueeze(c.position());
    "tril_with" => |x, c| x.tril_with(c.position() as i64);
    "flip" => |x, c| x.flip(c.axes());
    "reshape" => |x, c| x.reshape(c.new_shape());
    "view" => |x, c| x.view(c.new_shape());
    "flatten" => |x, c| x.flatten(c.position()..=c.position());
    "expand" => |x, c| x.expand(c.untouched_shape());
    "slice" => |x, c| x.slice(c.slices());
    "narrow" => |x, c| x.narrow(c.position(), c.position(), c.size());
    "select" => |x, c| x.select(c.position(), c.position());
    "sum" => |x, c| x.sum(c.over());
    "prod" => |x, c| x.prod(c.over());
    "mean" => |x, c| x.mean(c.over());
    "var" => |x, c| x.var_with(c.over(), c.float());
    "std" => |x, c| x.std_with(c.over(), c.float());
    "amax" => |x, c| x.amax(c.over());
    "amin" => |x, c| x.amin(c.over());
    "max" => |x, c| x.max_with_indices(Over::from(c.position()).with_keepdim(c.flag())).map(|found| found.0);
    "min" => |x, c| x.min_with_indices(Over::from(c.position()).with_keepdim(c.flag())).map(|found| found.0);
    "var_mean" => |x, c| x.var_mean_with(c.over(), c.float()).and_then(|(var, mean)| var.mul(mean));
    "norm" => |x, c| x.norm_with(c.over(), c.float());
    "median" => |x, c| x.median(c.over());
    "median" => |x, c| x.median_with_indices(c.over()).map(|found| found.0);
    "sort" => |x, c| x.sort_with(c.position(), c.flag()).map(|found| found.0);
    "topk" => |x, c| x.topk_with(c.size(), c.position(), c.flag(), true).map(|found| found.0);
    "cumsum" => |x, c| x.cumsum(c.position());
    "cumprod" => |x, c| x.cumprod(c.position());
    "outer" => |x, c| x.outer(other(c));
    "addmm" => |x, c| x.addmm_with(other(c), other(c), c.scalar(), c.scalar());
    "baddbmm" => |x, c| x.baddbmm_with(other(c), other(c), c.scalar(), c.scalar());
    "einsum" => |x, c| Var::einsum(&c.equation(), [x.clone(), other(c)]);
    "sum_to_size" => |x, c| x.sum_to_size(c.untouched_shape());
    "softmax" => |x, c| x.softmax(c.position());
    "log_softmax" => |x, c| x.log_softmax(c.position());
    "logsumexp" => |x, c| x.logsumexp(c.over());
    "cross_entropy" => |x, c| x.cross_entropy(c.indices());
    "cat" => |x, c| Var::cat(&[x, &other(c)], c.position());
    "stack" => |x, c| Var::stack(&[x, &other(c)], c.position());
    "gather" => |x, c| x.gather(c.position(), c.indices());
    "index_select" => |x, c| x.index_select(c.position(), c.indices());
    "scatter_add" => |x, c| x.scatter_add(c.position(), c.indices(), other(c));
    "index_add" => |x, c| x.index_add(c.position(), c.indices(), other(c));
    "scatter" => |x, c| x.scatter(c.position(), c.indices(), other(c));
    "scatter" => |x, c| x.scatter(c.position(), c.indices(), Input::Scalar(c.scalar()));
    "index_add_with" => |x, c| x.index_add_with(c.position(), c.indices(), other(c), c.scalar());
    "take_along_dim" => |x, c| x.take_along_dim(c.indices(), c.position());
    "take_along_dim" => |x, c| x.take_along_dim(c.indices(), ..);
    "masked_fill" => |x, c| x.masked_fill(c.same_shape(&x.value(), DType::Bool), Input::Scalar(c.scalar()));
    "masked_fill" => |x, c| x.masked_fill(c.tensor_of(DType::Bool), other(c));
    "masked_select" => |x, c| x.masked_select(c.same_shape(&x.value(), DType::Bool));
    "roll" => |x, c| x.roll(c.amounts(), c.axes());
    "diagonal_with" => |x, c| x.diagonal_with(c.integer(), c.position(), c.position());
    "diag_embed_with" => |x, c| x.diag_embed_with(c.offset(), c.position(), c.position());
    "pad_with" => |x, c| x.pad_with(c.widths(), c.pad());
    "repeat" => |x, c| x.repeat(c.shape());
    "tile" => |x, c| x.tile(c.shape());
    "repeat_interleave" => |x, c| x.repeat_interleave(c.repeats(), c.position());
    "repeat_interleave" => |x, c| x.repeat_interleave(c.repeats(), ..);
    "unfold" => |x, c| x.unfold(c.position(), c.size(), c.size());
    "slice_add" => |x, c| written(x, |y| y.slice_add(c.slices(), other(c)));
    "masked_fill_" => |x, c| written(x, |y| y.masked_fill_(c.tensor_of(DType::Bool), Input::Scalar(c.scalar())));
    "layer_norm" => |x, c| { let w = other(c); x.layer_norm_with(w.shape(), Norm::new().weight(&w).eps(c.float())) };
    "rms_norm" => |x, c| x.rms_norm(c.shape());
    "group_norm" => |x, c| x.group_norm_with(c.size(), Norm::new().weight(other(c)));
    "instance_norm" => |x, c| x.instance_norm_with(Norm::new().bias(other(c)));
    "batch_norm" => |x, c| x.batch_norm_with(other(c), other(c), Norm::new().weight(other(c)));
    "batch_norm_train" => |x, c| x.batch_norm_train(Norm::new().eps(c.float())).map(|found| found.0);
    "batch_norm_train" => |x, c| x.batch_norm_train_with(other(c), other(c), c.float(), Norm::new()).map(|found| found.0);
    "instance_norm_train" => |x, c| x.instance_norm_train_with(other(c), other(c), c.float(), Norm::new()).map(|found| found.0);
    "scaled_dot_product_attention" => |x, c| {
        let options = Attention::new().is_causal(c.flag()).enable_gqa(c.flag()).dropout_p(c.float());
        x.scaled_dot_product_attention_with(c.same_shape(&x.value(), x.dtype()), x, options.mask(&other(c)))
    };
    "embedding" => |x, c| Var::embedding_with(c.indices(), x, c.integer());
    "glu" => |x, c| x.glu(c.position());
    "dropout" => |x, c| x.dropout(c.float());
    "normalize" => |x, c| x.normalize_with(c.position(), c.float(), c.float());
    "cosine_similarity" => |x, c| x.cosine_similarity_with(other(c), c.position(), c.float());
    "matmul" => |x, c| x.matmul(other(c));
    "linear" => |x, c| x.linear(other(c), if c.flag() { Some(x) } else { None });
    "add_with" => |x, c| x.add_with(other(c), c.scalar());
    "mul" => |x, c| x.mul(other(c));
    "div" => |x, c| x.div(Input::Scalar(c.scalar()));
    "pow" => |x, c| x.pow(Input::Scalar(c.scalar()));
    "pow" => |x, c| x.pow(other(c));
    "clamp" => |x, c| x.clamp(other(c), Input::Scalar(c.scalar()));
    "clamp_min" => |x, c| x.clamp_min(other(c));
    "fmax" => |x, c| x.fmax(other(c));
    "atan2" => |x, c| x.atan2(other(c));
    "hypot" => |x, c| x.hypot(Input::Scalar(c.scalar()));
    "copysign" => |x, c| x.copysign(other(c));
    "logaddexp" => |x, c| x.logaddexp(other(c));
    "xlogy" => |x, c| x.xlogy(other(c));
    "remainder" => |x, c| x.remainder(other(c));
    "fmod" => |x, c| x.fmod(Input::Scalar(c.scalar()));
    "bitwise_and" => |x, c| x.bitwise_and(other(c));
    "lerp" => |x, c| x.lerp(other(c), other(c));
    "addcmul" => |x, c| x.addcmul_with(other(c), other(c), c.scalar());
    "addcdiv" => |x, c| x.addcdiv_with(other(c), other(c), c.scalar());
    "prelu" => |x, c| x.prelu(other(c));
    "elu" => |x, c| x.elu_with(c.float());
    "celu" => |x, c| x.celu_with(c.float());
    "leaky_relu" => |x, c| x.leaky_relu_with(c.float());
    "hardtanh" => |x, c| x.hardtanh_with(c.float(), c.float());
    "round" => |x, c| x.round_with(c.position() as i32);
    "frac" => |x, c| x.try_frac();
    "nan_to_num" => |x, c| x.nan_to_num_with(c.float(), c.float(), c.float());
    "remainder_" => |x, c| written(x, |y| y.remainder_(other(c)));
    "lerp_" => |x, c| written(x, |y| y.lerp_(other(c), Input::Scalar(c.scalar())));
    "where_cond" => |x, c| Var::from(c.tensor_of(DType::Bool)).where_cond(x, other(c));
    "softplus" => |x, c| x.softplus_with(c.float(), c.float());
    "slice_assign" => |x, c| written(x, |y| y.slice_assign(c.slices(), other(c)));
    "slice_assign" => |x, c| no_grad(|| x.clone().slice_assign(c.slices(), other(c)).cloned());
    "add_" => |x, c| written(x, |y| y.add_(other(c)));
    "add_" => |x, _c| x.clone().add_(1.0).cloned();
    "mul_" => |x, c| written(x, |y| y.mul_(Input::Scalar(c.scalar())));
    "pow_" => |x, c| written(x, |y| y.pow_(other(c)));
    "exp_" => |x, _c| written(x, |y| y.exp_());
    "relu_" => |x, _c| written(x, |y| y.relu_());
    "lt_" => |x, c| written(x, |y| y.lt_(other(c)));
    "fill_" => |x, c| written(x, |y| y.fill_(other(c)));
    "copy_" => |x, c| written(x, |y| y.copy_(other(c)));
    "try_to" => |x, _c| x.try_to(DType::Bool);
    "try_contiguous" => |x, _c| x.try_contiguous();
    "clamp_" => |x, c| written(x, |y| y.clamp_(other(c), Input::Scalar(c.scalar())));
};

/// A tracked variable; an untracked one for types that have no gradients.
fn leaf(c: &mut Choices<'_>) -> Var {
    let t = c.tensor();
    Var::leaf(t.clone()).unwrap_or_else(|_| Var::constant(t))
}

/// Another operand, rather of a type that has gradients.
fn other(c: &mut Choices<'_>) -> Var {
    leaf(c)
}

/// A write over a result.
fn written(x: &Var, write: impl FnOnce(&mut Var) -> Result<&mut Var>) -> Result<Var> {
    let mut y = x.view(x.shape()).or_else(|_| x.reshape(x.shape()))?;
    write(&mut y)?;
    Ok(y)
}

/// The value of a result whose gradient reaches the leaf.
pub(super) fn backward(leaf: &Var, result: Result<Var>) -> Outcome {
    let y = result.map_err(|e| e.to_string())?;
    let mut results = vec![y.value()];
    if y.requires_grad() && y.numel() <= super::READ {
        let seed = Tensor::ones_with(y.shape(), y.dtype());
        y.backward_with(&seed).unwrap_or_else(|e| panic!("backward: {e}"));
        if let Some(g) = leaf.grad() {
            assert_eq!((g.shape(), g.dtype()), (leaf.shape(), leaf.dtype()), "the gradient of a leaf");
            results.push(g);
        }
    }
    Ok(results)
}
