//! Functions of tensors that can refuse.

use foldback_tensor::{Attention, DType, Norm, Over, Tensor, broadcast_shapes, broadcast_tensors};

use super::{Choices, Outcome, Target};

/// Calls with one result, a list of results, or none beside the tensor that they write.
macro_rules! targets {
    ($($name:literal => |$c:ident| $body:expr;)*) => {
        &[$(Target { name: $name, call: |$c: &mut Choices<'_>| told($body) }),*]
    };
}

/// Results of any kind.
pub(super) trait Results {
    fn results(self) -> Vec<Tensor>;
}
impl Results for Tensor {
    fn results(self) -> Vec<Tensor> {
        vec![self]
    }
}
impl Results for Vec<Tensor> {
    fn results(self) -> Vec<Tensor> {
        self
    }
}
impl Results for (Tensor, Tensor) {
    fn results(self) -> Vec<Tensor> {
        vec![self.0, self.1]
    }
}
impl Results for () {
    fn results(self) -> Vec<Tensor> {
        vec![]
    }
}

pub(super) fn told<R: Results>(result: foldback_tensor::Result<R>) -> Outcome {
    result.map(Results::results).map_err(|e| e.to_string())
}

/// A call that writes its tensor, which must stay consistent whatever comes of it.
fn written(
    c: &mut Choices<'_>,
    write: impl FnOnce(&mut Tensor, &mut Choices<'_>) -> foldback_tensor::Result<()>,
) -> foldback_tensor::Result<Tensor> {
    let mut t = c.tensor();
    let before = t.clone();
    match write(&mut t, c) {
        Ok(()) => Ok(t),
        Err(e) => {
            assert!(
                t.dims() == before.dims() && t.dtype() == before.dtype(),
                "a refused write changed its tensor"
            );
            Err(e)
        }
    }
}

pub(super) const TARGETS: &[Target] = targets! {
    "permute" => |c| c.tensor().permute(c.axes());
    "transpose" => |c| c.tensor().transpose(c.position(), c.position());
    "t" => |c| c.tensor().try_t();
    "movedim" => |c| c.tensor().movedim(c.axes(), c.axes());
    "squeeze" => |c| c.tensor().squeeze(c.axes());
    "unsqueeze" => |c| c.tensor().unsqueeze(c.position());
    "tril_with" => |c| c.tensor().tril_with(c.position() as i64);
    "triu_with" => |c| c.tensor().triu_with(c.position() as i64);
    "flip" => |c| c.tensor().flip(c.axes());
    "reshape" => |c| c.tensor().reshape(c.new_shape());
    "view" => |c| c.tensor().view(c.new_shape());
    "flatten" => |c| c.tensor().flatten(c.position()..=c.position());
    "expand" => |c| c.tensor().expand(c.untouched_shape());
    "broadcast_to" => |c| c.tensor().broadcast_to(c.untouched_shape());
    "expand" => |c| { let t = c.tensor(); t.expand_as(c.tensor()) };
    "broadcast_tensors" => |c| broadcast_tensors(&[&c.tensor(), &c.tensor(), &c.tensor()]);
    "broadcast" => |c| broadcast_shapes(&[&c.untouched_shape(), &c.untouched_shape()]).map(drop);
    "slice" => |c| c.tensor().slice(c.slices());
    "narrow" => |c| c.tensor().narrow(c.position(), c.position(), c.size());
    "narrow" => |c| c.tensor().narrow(c.position(), c.size(), c.size());
    "select" => |c| c.tensor().select(c.position(), c.position());
    "size" => |c| c.tensor().size(c.position()).map(drop);
    "split" => |c| c.tensor().split(c.size(), c.position());
    "chunk" => |c| c.tensor().chunk(c.size(), c.position());
    "unbind" => |c| c.tensor().unbind(c.position());
    "slice_assign" => |c| written(c, |t, c| t.slice_assign(c.slices(), c.tensor()).map(drop));
    "fill_" => |c| written(c, |t, c| t.fill_(c.tensor()).map(drop));
    "linear" => |c| c.tensor().linear(c.tensor(), c.tensor());
    "copy_" => |c| written(c, |t, c| t.copy_(c.tensor()).map(drop));
    "sum" => |c| c.tensor().sum(c.over());
    "prod" => |c| c.tensor().prod(c.over());
    "mean" => |c| c.tensor().mean(c.over());
    "var" => |c| c.tensor().var_with(c.over(), c.float());
    "std" => |c| c.tensor().std_with(c.over(), c.float());
    "amax" => |c| c.tensor().amax(c.over());
    "amin" => |c| c.tensor().amin(c.over());
    "argmax" => |c| c.tensor().argmax(c.over());
    "argmin" => |c| c.tensor().argmin(c.over());
    "max" => |c| c.tensor().max_with_indices(Over::from(c.position()).with_keepdim(c.flag()));
    "min" => |c| c.tensor().min_with_indices(Over::from(c.position()).with_keepdim(c.flag()));
    "var_mean" => |c| c.tensor().var_mean_with(c.over(), c.float());
    "norm" => |c| c.tensor().norm_with(c.over(), c.float());
    "count_nonzero" => |c| c.tensor().count_nonzero(c.over());
    "median" => |c| c.tensor().median(c.over());
    "median" => |c| c.tensor().median_with_indices(c.over());
    "sort" => |c| c.tensor().sort_with(c.position(), c.flag());
    "argsort" => |c| c.tensor().argsort_with(c.position(), c.flag());
    "topk" => |c| c.tensor().topk_with(c.size(), c.position(), c.flag(), c.flag());
    "cumsum" => |c| c.tensor().cumsum(c.position());
    "cumprod" => |c| c.tensor().cumprod(c.position());
    "one_hot" => |c| c.indices().one_hot(c.size());
    "one_hot" => |c| small(c.indices()).one_hot(-1);
    "bincount" => |c| small(c.indices()).bincount(c.size());
    "bincount" => |c| small(c.indices()).bincount_with(c.size(), c.tensor());
    "any" => |c| c.tensor().any(c.over());
    "all" => |c| c.tensor().all(c.over());
    "sum_to_size" => |c| c.tensor().sum_to_size(c.untouched_shape());
    "softmax" => |c| c.tensor().softmax(c.position());
    "log_softmax" => |c| c.tensor().log_softmax(c.position());
    "logsumexp" => |c| c.tensor().logsumexp(c.over());
    "cat" => |c| joined(c, |list, axis| Tensor::cat(list, axis));
    "stack" => |c| joined(c, |list, axis| Tensor::stack(list, axis));
    "gather" => |c| c.tensor().gather(c.position(), c.indices());
    "index_select" => |c| c.tensor().index_select(c.position(), c.indices());
    "scatter_add" => |c| { let t = c.tensor(); t.scatter_add(c.position(), c.indices(), c.same_shape(&t, t.dtype())) };
    "index_add" => |c| { let t = c.tensor(); t.index_add(c.position(), c.indices(), c.same_shape(&t, t.dtype())) };
    "scatter" => |c| { let t = c.tensor(); t.scatter(c.position(), c.indices(), c.same_shape(&t, t.dtype())) };
    "scatter" => |c| c.tensor().scatter(c.position(), c.indices(), c.scalar());
    "index_add_with" => |c| { let t = c.tensor(); t.index_add_with(c.position(), c.indices(), c.same_shape(&t, t.dtype()), c.scalar()) };
    "take_along_dim" => |c| c.tensor().take_along_dim(c.indices(), c.position());
    "take_along_dim" => |c| c.tensor().take_along_dim(c.indices(), ..);
    "slice_add" => |c| written(c, |t, c| t.slice_add(c.slices(), c.tensor()).map(drop));
    "masked_fill" => |c| { let t = c.tensor(); t.masked_fill(c.same_shape(&t, DType::Bool), c.scalar()) };
    "masked_fill" => |c| c.tensor().masked_fill(c.tensor(), c.tensor());
    "masked_fill_" => |c| written(c, |t, c| t.masked_fill_(c.same_shape(&t.clone(), DType::Bool), c.scalar()).map(drop));
    "masked_select" => |c| { let t = c.tensor(); t.masked_select(c.same_shape(&t, DType::Bool)) };
    "nonzero" => |c| c.tensor().try_nonzero();
    "roll" => |c| c.tensor().roll(c.amounts(), c.axes());
    "diagonal_with" => |c| c.tensor().diagonal_with(c.integer(), c.position(), c.position());
    "diag_embed_with" => |c| c.tensor().diag_embed_with(c.offset(), c.position(), c.position());
    "pad" => |c| c.tensor().pad(c.widths());
    "pad_with" => |c| c.tensor().pad_with(c.widths(), c.pad());
    "repeat" => |c| c.tensor().repeat(c.shape());
    "tile" => |c| c.tensor().tile(c.shape());
    "repeat_interleave" => |c| c.tensor().repeat_interleave(c.repeats(), c.position());
    "repeat_interleave" => |c| c.tensor().repeat_interleave(c.repeats(), ..);
    "unfold" => |c| c.tensor().unfold(c.position(), c.size(), c.size());
    "split" => |c| c.tensor().split(c.new_shape(), c.position());
    "meshgrid" => |c| Tensor::meshgrid([c.tensor(), c.tensor()]);
    "layer_norm" => |c| c.tensor().layer_norm(c.untouched_shape());
    "layer_norm" => |c| { let t = c.tensor(); let w = c.tensor(); t.layer_norm_with(w.shape(), Norm::new().weight(&w).bias(c.tensor()).eps(c.float())) };
    "rms_norm" => |c| { let t = c.tensor(); t.rms_norm_with(c.shape(), Norm::new().weight(c.tensor()).eps(c.float())) };
    "group_norm" => |c| c.tensor().group_norm_with(c.size(), Norm::new().eps(c.float()));
    "instance_norm" => |c| c.tensor().try_instance_norm();
    "batch_norm" => |c| c.tensor().batch_norm_with(c.tensor(), c.tensor(), Norm::new().bias(c.tensor()).eps(c.float()));
    "batch_norm_train" => |c| c.tensor().batch_norm_train(Norm::new().eps(c.float())).map(|found| (found.0, found.1));
    "batch_norm_train" => |c| c.tensor().batch_norm_train_with(c.tensor(), c.tensor(), c.float(), Norm::new()).map(|found| (found.1, found.2));
    "instance_norm_train" => |c| c.tensor().instance_norm_train_with(c.tensor(), c.tensor(), c.float(), Norm::new()).map(|found| (found.1, found.2));
    "scaled_dot_product_attention" => |c| attended(c);
    "embedding" => |c| Tensor::embedding(c.indices(), c.tensor());
    "embedding" => |c| Tensor::embedding_with(c.indices(), c.tensor(), c.integer());
    "glu" => |c| c.tensor().glu(c.position());
    "dropout" => |c| c.tensor().dropout(c.float());
    "normalize" => |c| c.tensor().normalize_with(c.position(), c.float(), c.float());
    "cosine_similarity" => |c| c.tensor().cosine_similarity_with(c.tensor(), c.position(), c.float());
    "matmul" => |c| c.tensor().matmul(c.tensor());
    "mm" => |c| c.tensor().mm(c.tensor());
    "bmm" => |c| c.tensor().bmm(c.tensor());
    "mv" => |c| c.tensor().mv(c.tensor());
    "dot" => |c| c.tensor().dot(c.tensor());
    "outer" => |c| c.tensor().outer(c.tensor());
    "addmm" => |c| c.tensor().addmm_with(c.tensor(), c.tensor(), c.scalar(), c.scalar());
    "baddbmm" => |c| c.tensor().baddbmm_with(c.tensor(), c.tensor(), c.scalar(), c.scalar());
    "einsum" => |c| Tensor::einsum(&c.equation(), (0..c.below(4)).map(|_| c.tensor()).collect::<Vec<_>>());
    "add" => |c| c.tensor().add(c.tensor());
    "add_with" => |c| c.tensor().add_with(c.tensor(), c.scalar());
    "sub" => |c| c.tensor().sub(c.tensor());
    "mul" => |c| c.tensor().mul(c.scalar());
    "div" => |c| c.tensor().div(c.tensor());
    "div_floor" => |c| c.tensor().div_floor(c.scalar());
    "div_trunc" => |c| c.tensor().div_trunc(c.tensor());
    "pow" => |c| c.tensor().pow(c.tensor());
    "pow" => |c| c.tensor().pow(c.scalar());
    "rpow" => |c| c.tensor().rpow(c.scalar());
    "maximum" => |c| c.tensor().maximum(c.tensor());
    "fmax" => |c| c.tensor().fmax(c.tensor());
    "atan2" => |c| c.tensor().atan2(c.tensor());
    "hypot" => |c| c.tensor().hypot(c.tensor());
    "copysign" => |c| c.tensor().copysign(c.scalar());
    "logaddexp" => |c| c.tensor().logaddexp(c.tensor());
    "xlogy" => |c| c.tensor().xlogy(c.tensor());
    "remainder" => |c| c.tensor().remainder(c.tensor());
    "remainder" => |c| c.tensor().remainder(c.scalar());
    "fmod" => |c| c.tensor().fmod(c.tensor());
    "fmod" => |c| c.tensor().fmod(c.scalar());
    "bitwise_and" => |c| c.tensor().bitwise_and(c.tensor());
    "bitwise_or" => |c| c.tensor().bitwise_or(c.scalar());
    "bitwise_not" => |c| c.tensor().try_bitwise_not();
    "lerp" => |c| c.tensor().lerp(c.tensor(), c.tensor());
    "lerp" => |c| c.tensor().lerp(c.scalar(), c.scalar());
    "addcmul" => |c| c.tensor().addcmul_with(c.tensor(), c.tensor(), c.scalar());
    "addcdiv" => |c| c.tensor().addcdiv_with(c.tensor(), c.tensor(), c.scalar());
    "prelu" => |c| c.tensor().prelu(c.tensor());
    "elu" => |c| c.tensor().elu_with(c.float());
    "celu" => |c| c.tensor().celu_with(c.float());
    "leaky_relu" => |c| c.tensor().leaky_relu_with(c.float());
    "hardtanh" => |c| c.tensor().hardtanh_with(c.float(), c.float());
    "round" => |c| c.tensor().round_with(c.position() as i32);
    "floor" => |c| c.tensor().try_floor();
    "frac" => |c| c.tensor().try_frac();
    "nan_to_num" => |c| c.tensor().nan_to_num_with(c.float(), c.float(), c.float());
    "eq" => |c| c.tensor().eq(c.tensor());
    "clamp" => |c| c.tensor().clamp(c.tensor(), c.scalar());
    "clamp" => |c| c.tensor().clamp(c.scalar(), c.scalar());
    "where_cond" => |c| { let dtype = if c.flag() { DType::F64 } else { DType::Bool }; c.tensor_of(dtype).where_cond(c.tensor(), c.tensor()) };
    "add_" => |c| written(c, |t, c| t.add_(c.tensor()).map(drop));
    "mul_" => |c| written(c, |t, c| t.mul_(c.scalar()).map(drop));
    "pow_" => |c| written(c, |t, c| t.pow_(c.tensor()).map(drop));
    "div_floor_" => |c| written(c, |t, c| t.div_floor_(c.tensor()).map(drop));
    "clamp_" => |c| written(c, |t, c| t.clamp_(c.tensor(), c.scalar()).map(drop));
    "remainder_" => |c| written(c, |t, c| t.remainder_(c.tensor()).map(drop));
    "bitwise_xor_" => |c| written(c, |t, c| t.bitwise_xor_(c.tensor()).map(drop));
    "addcmul_" => |c| written(c, |t, c| t.addcmul_(c.tensor(), c.tensor()).map(drop));
    "lerp_" => |c| written(c, |t, c| t.lerp_(c.tensor(), c.scalar()).map(drop));
    "hardtanh_" => |c| written(c, |t, c| t.hardtanh_with_(c.float(), c.float()).map(drop));
    "exp_" => |c| written(c, |t, _| t.exp_().map(drop));
    "add_out" => |c| written(c, |t, c| c.tensor().add_out(c.tensor(), c.scalar(), t).map(drop));
    "softplus" => |c| c.tensor().softplus_with(c.float(), c.float());
    "item" => |c| c.tensor().item_as::<f64>().map(drop);
    "to_vec" => |c| c.tensor().to_vec::<f64>().map(drop);
    "as_array" => |c| c.tensor().as_array::<f64>().map(drop);
    "to_array" => |c| c.tensor().to_array::<i64>().map(drop);
};

/// Numbers that no memory holds as many of, or few enough: what lies between would only fill the memory.
fn small(t: Tensor) -> Tensor {
    let most = t.amax(..).and_then(|most| most.item_as::<i64>()).unwrap_or(0);
    if (1 << 16..1 << 42).contains(&most) { t.clamp_max(9).expect("numbers have bounds") } else { t }
}

/// Attention of a tensor to itself, or to others.
fn attended(c: &mut Choices<'_>) -> foldback_tensor::Result<Tensor> {
    let q = c.tensor();
    let (k, v) = (c.same_shape(&q, q.dtype()), c.same_shape(&q, q.dtype()));
    let options = Attention::new().is_causal(c.flag()).enable_gqa(c.flag()).dropout_p(c.float());
    let mask = if c.flag() { Some(c.tensor()) } else { None };
    q.scaled_dot_product_attention_with(k, v, options.scale(c.float()).mask(mask.as_ref()))
}

/// A list of tensors, rather of equal shapes, joined.
fn joined(
    c: &mut Choices<'_>,
    join: fn(&[&Tensor], isize) -> foldback_tensor::Result<Tensor>,
) -> foldback_tensor::Result<Tensor> {
    let first = c.tensor();
    let more = (0..c.below(3)).map(|_| c.same_shape(&first, first.dtype())).collect::<Vec<_>>();
    let list: Vec<&Tensor> =
        if c.flag() && more.is_empty() { vec![] } else { [&first].into_iter().chain(&more).collect() };
    join(&list, c.position())
}
