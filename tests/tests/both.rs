//! What `Tensor` and `Var` both have takes the same arguments and gives the same values: each call stands here once and is compiled for
//! both.

use foldback::graph::RequiresGrad;
use foldback::prelude::*;
use foldback::tensor::{Pad, Shape};

/// What a call gives, as tensors.
trait Values {
    fn values(self) -> Vec<Tensor>;
}

macro_rules! values {
    ($($t:ty: |$v:ident| $values:expr;)*) => {$(
        impl Values for $t {
            fn values(self) -> Vec<Tensor> {
                let $v = self;
                $values
            }
        }
    )*};
}
values! {
    Tensor: |t| vec![t];
    Var: |v| vec![v.value()];
    bool: |b| vec![Tensor::from(vec![b])];
    usize: |n| vec![Tensor::from(vec![n as i64])];
    f64: |x| vec![Tensor::from(vec![x])];
    f32: |x| vec![Tensor::from(vec![x])];
    DType: |d| vec![Tensor::zeros_with(1, d)];
    &Shape: |s| s.dims().values();
    &[usize]: |s| vec![Tensor::from(s.iter().map(|&n| n as i64).collect::<Vec<_>>())];
    Vec<f32>: |v| vec![Tensor::from(v)];
}
impl<T: Values> Values for Result<T> {
    fn values(self) -> Vec<Tensor> {
        self.unwrap().values()
    }
}
impl<A: Values, B: Values> Values for (A, B) {
    fn values(self) -> Vec<Tensor> {
        [self.0.values(), self.1.values()].concat()
    }
}
impl Values for Vec<Tensor> {
    fn values(self) -> Vec<Tensor> {
        self
    }
}
impl Values for Vec<Var> {
    fn values(self) -> Vec<Tensor> {
        self.iter().map(Var::value).collect()
    }
}
impl<T: Values, const N: usize> Values for [T; N] {
    fn values(self) -> Vec<Tensor> {
        self.into_iter().flat_map(Values::values).collect()
    }
}

macro_rules! on_both {
    ($($name:literal: |$x:ident, $y:ident, $m:ident| $call:expr;)*) => {
        fn of_tensors(x: &Tensor, y: &Tensor, m: &Tensor) -> Vec<(&'static str, Vec<Tensor>)> {
            vec![$(($name, { let ($x, $y, $m) = (x, y, m); let _ = ($x, $y, $m); $call.values() })),*]
        }
        fn of_variables(x: &Var, y: &Var, m: &Var) -> Vec<(&'static str, Vec<Tensor>)> {
            vec![$(($name, { let ($x, $y, $m) = (x, y, m); let _ = ($x, $y, $m); $call.values() })),*]
        }
    };
}

// `x` is [2, 3], `y` [3], and `m` a matrix [3, 2].
on_both! {
    "add": |x, y, m| x.add(y);
    "add by value": |x, y, m| x.add(y.clone());
    "add a number": |x, y, m| x.add(2);
    "add_with": |x, y, m| x.add_with(y, 0.5);
    "sub": |x, y, m| x.sub(y);
    "sub_with": |x, y, m| x.sub_with(y, 2);
    "rsub": |x, y, m| x.rsub(1);
    "mul": |x, y, m| x.mul(y);
    "div": |x, y, m| x.div(y);
    "div_floor": |x, y, m| x.div_floor(y);
    "div_trunc": |x, y, m| x.div_trunc(y);
    "rdiv": |x, y, m| x.rdiv(1.0);
    "pow": |x, y, m| x.pow(2);
    "powi": |x, y, m| (x.powi(2), x.abs().powf(0.5));
    "rpow": |x, y, m| x.rpow(2.0);
    "maximum": |x, y, m| x.maximum(y);
    "minimum": |x, y, m| x.minimum(0.0);
    "clamp": |x, y, m| x.clamp(-1.0, 1.0);
    "clamp to tensors": |x, y, m| x.clamp(-1.0, y);
    "clamp_min": |x, y, m| x.clamp_min(0.0);
    "clamp_max": |x, y, m| x.clamp_max(y);
    "where_cond": |x, y, m| x.gt(0.0).unwrap().where_cond(x, y);
    "neg": |x, y, m| x.neg();
    "abs": |x, y, m| x.abs();
    "sign": |x, y, m| x.sign();
    "square": |x, y, m| x.square();
    "exp": |x, y, m| x.exp();
    "expm1": |x, y, m| x.expm1();
    "log": |x, y, m| x.abs().log();
    "ln": |x, y, m| x.abs().ln();
    "log1p": |x, y, m| x.abs().log1p();
    "sqrt": |x, y, m| x.abs().sqrt();
    "rsqrt": |x, y, m| x.abs().rsqrt();
    "reciprocal": |x, y, m| x.reciprocal();
    "sin": |x, y, m| x.sin();
    "cos": |x, y, m| x.cos();
    "tan": |x, y, m| x.tan();
    "tanh": |x, y, m| x.tanh();
    "sigmoid": |x, y, m| x.sigmoid();
    "erf": |x, y, m| x.erf();
    "exp2": |x, y, m| (x.exp2(), x.erfc());
    "log2": |x, y, m| (x.abs().log2(), x.abs().log10());
    "asin": |x, y, m| [x.sin().asin(), x.sin().acos(), x.atan(), x.tanh().atanh()];
    "sinh": |x, y, m| [x.sinh(), x.cosh(), x.asinh(), x.cosh().acosh()];
    "floor": |x, y, m| [x.floor(), x.ceil(), x.round(), x.trunc(), x.frac()];
    "round_with": |x, y, m| x.round_with(-1);
    "nan_to_num": |x, y, m| x.nan_to_num();
    "nan_to_num_with": |x, y, m| x.nan_to_num_with(1, 2.0, -2.0);
    "isnan": |x, y, m| [x.isnan(), x.isinf(), x.isfinite()];
    "elu": |x, y, m| [x.elu(), x.selu(), x.celu(), x.leaky_relu(), x.hardtanh()];
    "elu_with": |x, y, m| [x.elu_with(2), x.celu_with(0.5), x.leaky_relu_with(0.2), x.hardtanh_with(-0.5, 1)];
    "hardsigmoid": |x, y, m| [x.hardsigmoid(), x.hardswish(), x.mish(), x.logsigmoid(), x.softsign()];
    "prelu": |x, y, m| (x.prelu(y), x.prelu(0.25));
    "fmax": |x, y, m| (x.fmax(y), x.fmin(0.5));
    "atan2": |x, y, m| (x.atan2(y), x.hypot(y));
    "copysign": |x, y, m| x.copysign(-1);
    "logaddexp": |x, y, m| (x.logaddexp(y), x.xlogy(y.abs()));
    "remainder": |x, y, m| (x.remainder(2), x.fmod(y));
    "lerp": |x, y, m| (x.lerp(y, 0.25), x.lerp(y, x));
    "addcmul": |x, y, m| (x.addcmul(y, x), x.addcmul_with(y, 2, 0.5));
    "addcdiv": |x, y, m| (x.addcdiv(y, x), x.addcdiv_with(y, 2, 0.5));
    "bitwise_and": |x, y, m| [x.long().bitwise_and(3), x.long().bitwise_or(1), x.long().bitwise_xor(y.long())];
    "bitwise_not": |x, y, m| (x.long().bitwise_not(), x.bool().try_bitwise_not());
    "bit operators": |x, y, m| [x.long() & 3, x.long() | &y.long(), x.bool() ^ true, !x.long(), !&x.bool()];
    "relu": |x, y, m| x.relu();
    "gelu": |x, y, m| x.gelu();
    "gelu_tanh": |x, y, m| x.gelu_tanh();
    "silu": |x, y, m| x.silu();
    "softplus": |x, y, m| x.softplus();
    "softplus_with": |x, y, m| x.softplus_with(2.0, 10.0);
    "the twins of values": |x, y, m| [x.try_neg(), x.try_abs(), x.try_relu(), x.try_gelu(), x.try_t()];
    "more twins": |x, y, m| [x.try_gelu_tanh(), x.try_silu(), x.try_softplus()];
    "twins of roundings": |x, y, m| [x.try_floor(), x.try_ceil(), x.try_round(), x.try_trunc(), x.try_frac()];
    "twins of activations": |x, y, m| [x.try_elu(), x.try_selu(), x.try_celu(), x.try_leaky_relu(), x.try_hardtanh()];
    "and more of them": |x, y, m| [x.try_hardsigmoid(), x.try_hardswish(), x.try_mish(), x.try_logsigmoid(), x.try_softsign()];
    "eq": |x, y, m| x.eq(y);
    "ne": |x, y, m| x.ne(y);
    "lt": |x, y, m| x.lt(y);
    "le": |x, y, m| x.le(0);
    "gt": |x, y, m| x.gt(y);
    "ge": |x, y, m| x.ge(y);
    "logical_and": |x, y, m| x.logical_and(y);
    "logical_or": |x, y, m| x.logical_or(y);
    "logical_xor": |x, y, m| x.logical_xor(y);
    "logical_not": |x, y, m| x.logical_not();
    "sum": |x, y, m| x.sum(..);
    "sum over one": |x, y, m| x.sum(keep(1));
    "mean": |x, y, m| x.mean([0, 1]);
    "prod": |x, y, m| x.prod(-1);
    "var": |x, y, m| x.var(1);
    "var_with": |x, y, m| x.var_with(.., 0.0);
    "std": |x, y, m| x.std(keep(..));
    "std_with": |x, y, m| x.std_with(1, 0);
    "amax": |x, y, m| x.amax(0);
    "amin": |x, y, m| x.amin([0, 1]);
    "max": |x, y, m| x.max(..);
    "max over one": |x, y, m| x.max(1);
    "min": |x, y, m| x.min(0);
    "max_with_indices": |x, y, m| x.max_with_indices(1);
    "min_with_indices": |x, y, m| x.min_with_indices(keep(0));
    "argmax": |x, y, m| x.argmax(1);
    "argmin": |x, y, m| x.argmin(..);
    "any": |x, y, m| x.any(1);
    "all": |x, y, m| x.all(..);
    "logsumexp": |x, y, m| x.logsumexp(1);
    "softmax": |x, y, m| x.softmax(-1);
    "log_softmax": |x, y, m| x.log_softmax(0);
    "var_mean": |x, y, m| (x.var_mean(1), x.var_mean_with(keep(..), 0));
    "norm": |x, y, m| (x.norm(..), x.norm_with(keep(1), 1));
    "count_nonzero": |x, y, m| x.count_nonzero(0);
    "median": |x, y, m| (x.median(..), x.median_with_indices(keep(1)));
    "sort": |x, y, m| (x.sort(-1), x.sort_with(0, true));
    "argsort": |x, y, m| (x.argsort(1), x.argsort_with(-1, true));
    "topk": |x, y, m| (x.topk(2, -1), x.topk_with(1, 0, false, true));
    "cumsum": |x, y, m| (x.cumsum(0), x.cumprod(-1));
    "one_hot": |x, y, m| [x.argmax(1).unwrap().one_hot(3), x.argmax(1).unwrap().one_hot(-1)];
    "bincount": |x, y, m| x.argmax(0).unwrap().bincount(4);
    "bincount_with": |x, y, m| x.argmax(0).unwrap().bincount_with(0, y);
    "layer_norm": |x, y, m| (x.layer_norm(3), x.layer_norm_with([3], Norm::new().weight(y).bias(y.clone()).eps(0)));
    "rms_norm": |x, y, m| (x.rms_norm([2, 3]), x.rms_norm_with(3, Norm::new().weight(y)));
    "group_norm": |x, y, m| (x.group_norm(1), x.group_norm_with(3, Norm::new().bias(y)));
    "instance_norm": |x, y, m| x.unsqueeze(0).unwrap().instance_norm();
    "instance_norm_with": |x, y, m| x.unsqueeze(0).unwrap().instance_norm_with(Norm::new().eps(1));
    "batch_norm": |x, y, m| (x.batch_norm(y, y.abs()), x.batch_norm_with(y, y.abs(), Norm::new().weight(y)));
    "scaled_dot_product_attention": |x, y, m| x.scaled_dot_product_attention(x, m.t());
    "attention with a mask": |x, y, m| x.scaled_dot_product_attention_with(x, x, Attention::new().mask(x.matmul(m).unwrap().gt(0).unwrap()));
    "causal attention": |x, y, m| x.scaled_dot_product_attention_with(x, x, Attention::new().is_causal(true).scale(1));
    "glu": |x, y, m| x.glu(0);
    "dropout": |x, y, m| (x.dropout(0), x.abs().dropout(1));
    "normalize": |x, y, m| (x.normalize(-1), x.normalize_with(0, 1, 1e-12));
    "cosine_similarity": |x, y, m| (x.cosine_similarity(y, 1), x.cosine_similarity_with(y, -1, 1e-8));
    "sum_to_size": |x, y, m| x.sum_to_size([1, 3]);
    "matmul": |x, y, m| x.matmul(m);
    "matmul by value": |x, y, m| x.matmul(m.clone());
    "mm": |x, y, m| x.mm(m);
    "mv": |x, y, m| x.mv(y);
    "bmm": |x, y, m| x.unsqueeze(0).unwrap().bmm(m.unsqueeze(0).unwrap());
    "dot": |x, y, m| y.dot(y);
    "outer": |x, y, m| y.outer(y);
    "addmm": |x, y, m| y.narrow(0, 0, 2).unwrap().addmm(x, m);
    "addmm_with": |x, y, m| x.mm(m).unwrap().addmm_with(x, m, 0.5, 2);
    "baddbmm": |x, y, m| y.narrow(0, 0, 1).unwrap().baddbmm(x.unsqueeze(0).unwrap(), m.unsqueeze(0).unwrap());
    "baddbmm_with": |x, y, m| {
        y.narrow(0, 0, 2).unwrap().baddbmm_with(x.unsqueeze(0).unwrap(), m.unsqueeze(0).unwrap(), 0, 1.5)
    };
    "reshape": |x, y, m| x.reshape((2, -1));
    "view": |x, y, m| x.view([3, 2]);
    "flatten": |x, y, m| x.flatten(0..);
    "transpose": |x, y, m| x.transpose(0, -1);
    "t": |x, y, m| x.t();
    "permute": |x, y, m| x.permute([1, 0]);
    "movedim": |x, y, m| x.movedim(0, 1);
    "expand": |x, y, m| y.expand([2, 3]);
    "expand_as": |x, y, m| y.expand_as(x);
    "broadcast_to": |x, y, m| y.broadcast_to([4, 3]);
    "squeeze": |x, y, m| y.unsqueeze(0).unwrap().squeeze(..);
    "unsqueeze": |x, y, m| x.unsqueeze(-1);
    "flip": |x, y, m| x.flip(1);
    "tril": |x, y, m| (x.tril(), x.triu());
    "tril_with": |x, y, m| (x.tril_with(-1), x.triu_with(1));
    "narrow": |x, y, m| x.narrow(1, -2, 2);
    "select": |x, y, m| x.select(1, -1);
    "slice": |x, y, m| x.slice(s![.., 1..]);
    "split": |x, y, m| x.split(2, 1);
    "chunk": |x, y, m| x.chunk(2, -1);
    "chunks": |x, y, m| x.chunks::<3>(1);
    "unbind": |x, y, m| x.unbind(0);
    "index_select": |x, y, m| x.index_select(1, tensor![2, 0; i64]);
    "gather": |x, y, m| x.gather(1, tensor![[0], [2]; i64]);
    "scatter_add": |x, y, m| y.scatter_add(0, tensor![0, 0, 1; i64], y);
    "index_add": |x, y, m| y.index_add(0, tensor![0, 0, 1; i64], y);
    "conv1d": |x, y, m| x.conv1d(m.reshape([1, 2, 3]).unwrap());
    "conv1d_with": |x, y, m| x.conv1d_with(m.reshape([3, 2, 1]).unwrap(), Conv::new().bias(y).stride(2));
    "conv2d": |x, y, m| x.unsqueeze(0).unwrap().conv2d(m.reshape([2, 1, 1, 3]).unwrap());
    "conv2d_with": |x, y, m| x.unsqueeze(0).unwrap().conv2d_with(m.reshape([3, 1, 2, 1]).unwrap(), Conv::new().bias(y));
    "conv_transpose1d": |x, y, m| x.conv_transpose1d(m.reshape([2, 1, 3]).unwrap());
    "conv_transpose1d_with": |x, y, m| x.conv_transpose1d_with(m.reshape([2, 3, 1]).unwrap(), Conv::new().bias(y));
    "conv_transpose2d": |x, y, m| x.unsqueeze(0).unwrap().conv_transpose2d(m.reshape([1, 1, 2, 3]).unwrap());
    "conv_transpose2d_with": |x, y, m| x.unsqueeze(0).unwrap().conv_transpose2d_with(m.reshape([1, 3, 2, 1]).unwrap(), Conv::new().bias(y));
    "max_pool1d": |x, y, m| (x.max_pool1d(2), x.max_pool1d_with(2, Pool::new().stride(1)));
    "max_pool1d_with_indices": |x, y, m| x.max_pool1d_with_indices(2, Pool::new());
    "max_pool2d": |x, y, m| (x.unsqueeze(0).unwrap().max_pool2d(2), x.unsqueeze(0).unwrap().max_pool2d_with((1, 3), Pool::new()));
    "max_pool2d_with_indices": |x, y, m| x.unsqueeze(0).unwrap().max_pool2d_with_indices([2, 1], Pool::new());
    "avg_pool1d": |x, y, m| (x.avg_pool1d(2), x.avg_pool1d_with(2, Pool::new().padding(1)));
    "avg_pool2d": |x, y, m| (x.unsqueeze(0).unwrap().avg_pool2d(2), x.unsqueeze(0).unwrap().avg_pool2d_with(2, Pool::new().stride(1)));
    "adaptive_avg_pool1d": |x, y, m| x.adaptive_avg_pool1d(2);
    "adaptive_avg_pool2d": |x, y, m| [x.unsqueeze(0).unwrap().adaptive_avg_pool2d((1, 2)), x.unsqueeze(0).unwrap().adaptive_avg_pool2d((1, None))];
    "interpolate": |x, y, m| x.reshape([1, 1, 2, 3]).unwrap().interpolate(4);
    "interpolate_with": |x, y, m| x.reshape([1, 1, 2, 3]).unwrap().interpolate_with(Interpolate::scale(2).mode(InterpolateMode::Bilinear));
    "pixel_shuffle": |x, y, m| x.expand([4, 2, 3]).unwrap().pixel_shuffle(2);
    "pixel_unshuffle": |x, y, m| x.unsqueeze(0).unwrap().pixel_unshuffle(1);
    "index_add_with": |x, y, m| y.index_add_with(0, tensor![0, 0, 1; i64], y, 0.5);
    "scatter": |x, y, m| y.scatter(0, tensor![0, 0, 1; i64], y);
    "scatter a number": |x, y, m| y.scatter(0, tensor![0, 2; i64], 7);
    "take_along_dim": |x, y, m| [x.take_along_dim(x.argmax(keep(1)).unwrap(), 1), x.take_along_dim(x.argmax(..).unwrap(), ..)];
    "slice by tensors": |x, y, m| x.slice(s![tensor![1, 0; i64], tensor![[0], [-1]; i64]]);
    "slice by one": |x, y, m| x.slice(s![.., x.argmax(1).unwrap()]);
    "slice by a mask": |x, y, m| x.slice(x.gt(0).unwrap());
    "slice_assign": |x, y, m| { let mut z = x * 1.0; z.slice_assign(s![.., tensor![2, 0; i64]], y.narrow(0, 0, 2).unwrap()).unwrap(); z };
    "slice_assign a number": |x, y, m| { let mut z = x * 1.0; z.slice_assign(x.gt(0).unwrap(), 0).unwrap(); z };
    "slice_add": |x, y, m| { let mut z = x * 1.0; z.slice_add(tensor![1, 1; i64], y).unwrap(); z };
    "masked_fill": |x, y, m| x.masked_fill(y.gt(0).unwrap(), -1);
    "masked_fill_": |x, y, m| { let mut z = x * 1.0; z.masked_fill_(x.gt(0).unwrap(), f32::INFINITY).unwrap(); z };
    "masked_select": |x, y, m| x.masked_select(x.gt(0).unwrap());
    "nonzero": |x, y, m| (x.nonzero(), x.try_nonzero());
    "roll": |x, y, m| [x.roll(1, 1), x.roll([1, -1], [0, 1]), x.roll(2, [] as [i32; 0])];
    "diagonal": |x, y, m| (x.diagonal(), x.diagonal_with(1, 0, -1));
    "diag_embed": |x, y, m| (y.diag_embed(), x.diag_embed_with(-1, 0, 1));
    "pad": |x, y, m| [x.pad([1, 2]), x.pad_with([1, -1, 0, 1], 2.5), x.pad_with([1, 2], Pad::Reflect)];
    "repeat": |x, y, m| [x.repeat([2, 1]), x.tile(2), x.repeat_interleave(2, 0)];
    "repeat_interleave": |x, y, m| [x.repeat_interleave(tensor![0, 2, 1; i64], -1), x.repeat_interleave(2, ..)];
    "unfold": |x, y, m| x.unfold(1, 2, 1);
    "split by sizes": |x, y, m| x.split([1, 2], 1);
    "contiguous": |x, y, m| x.t().contiguous();
    "to": |x, y, m| [x.to(DType::F64), x.float(), x.double(), x.long(), x.bool()];
    "item": |x, y, m| x.sum(..).unwrap().item();
    "equal": |x, y, m| x.equal(x * 1.0);
    "equal in values only": |x, y, m| x.equal(x.to(DType::F64));
    "equal to another shape": |x, y, m| x.equal(y);
    "equal to what it does not hold": |x, y, m| {
        let whole = x.sum(..).unwrap().to(DType::I64);
        let (number, truth) = (whole.item_as::<i64>().unwrap(), whole.to(DType::Bool));
        ((whole.equal(number), whole.equal(number as f64 + 0.5)), (whole.equal(f64::NAN), truth.equal(0.5)))
    };
    "equal to a number": |x, y, m| (x.equal(1), x.sum(..).unwrap().equal(x.sum(..).unwrap().item().unwrap()));
    "item_as": |x, y, m| x.sum(..).unwrap().item_as::<f32>();
    "to_vec": |x, y, m| x.to_vec::<f32>();
    "zeros_like": |x, y, m| [x.zeros_like(), x.ones_like(), x.full_like(3)];
    "shape": |x, y, m| x.shape();
    "dims": |x, y, m| x.dims();
    "size": |x, y, m| x.size(-1);
    "sizes": |x, y, m| x.sizes::<2>();
    "rank": |x, y, m| (x.rank(), x.numel());
    "dtype": |x, y, m| x.dtype();
    "operators": |x, y, m| [x + y, x - y, x * y, x / y, -x, x + 1.0, 2.0 * x, 1 - x];
}

#[test]
fn calls_of_tensors_and_variables_agree() {
    let x = tensor![[1.5, -2.0, 0.5], [3.0, 0.25, -0.75]];
    let (y, m) = (tensor![2.0, -1.0, 0.5], tensor![[1.0, 2.0], [0.5, -1.0], [3.0, 0.0]]);
    let expected = of_tensors(&x, &y, &m);
    let constants = of_variables(&(&x).into(), &(&y).into(), &(&m).into());
    let tracked =
        of_variables(&x.clone().requires_grad(), &y.clone().requires_grad(), &m.clone().requires_grad());
    assert!(expected.len() > 100);
    for ((a, b), c) in expected.iter().zip(&constants).zip(&tracked) {
        assert_eq!(a, b);
        assert_eq!(a, c);
    }
}

/// What belongs to a type and not to a value: functions without `self`.
#[test]
fn functions_of_both_types() {
    let (a, b) = (tensor![1.0, 2.0], tensor![3.0, 4.0]);
    let (va, vb) = (a.clone().requires_grad(), b.clone().requires_grad());
    assert_eq!(Tensor::cat([&a, &b], 0).unwrap(), Var::cat([&va, &vb], 0).unwrap().value());
    assert_eq!(Tensor::stack([&a, &b], -1).unwrap(), Var::stack([&va, &vb], -1).unwrap().value());
    assert_eq!(Tensor::einsum("i,j", [&a, &b]).unwrap(), Var::einsum("i,j", [&va, &vb]).unwrap().value());
    assert_eq!(
        Tensor::einsum("i,i", &[&a, &b]).unwrap(),
        Var::einsum("i,i", vec![va.clone(), vb.clone()]).unwrap().value()
    );
    let (ids, table) = (tensor![1, 0; i64], tensor![[1.0], [2.0]]);
    assert_eq!(
        Tensor::embedding(&ids, &table).unwrap(),
        Var::embedding(&ids, table.clone().requires_grad()).unwrap().value()
    );
    assert_eq!(
        Tensor::embedding_with(&ids, &table, -1).unwrap(),
        Var::embedding_with(Var::from(&ids), &table, -1).unwrap().value()
    );
    let (y, mean, var) = table.batch_norm_train(Norm::new().weight(tensor![2.0])).unwrap();
    let found = table.clone().requires_grad().batch_norm_train(Norm::new().weight(tensor![2.0])).unwrap();
    assert_eq!([y, mean, var], [found.0.value(), found.1.value(), found.2.value()]);
    let (zero, one) = (tensor![0.0], tensor![1.0]);
    let (y, mean, var) = table.batch_norm_train_with(&zero, &one, 0.1, Norm::new()).unwrap();
    let found = table.clone().requires_grad().batch_norm_train_with(zero, one, 0.1, Norm::new()).unwrap();
    assert_eq!([y, mean, var], [found.0.value(), found.1.value(), found.2.value()]);
    let (lines, zero, one) = (tensor![[[1.0, 2.0]]], tensor![0.0], tensor![1.0]);
    let (y, mean, var) = lines.instance_norm_train_with(&zero, &one, 0.1, Norm::new()).unwrap();
    let found = lines.requires_grad().instance_norm_train_with(zero, one, 0.1, Norm::new()).unwrap();
    assert_eq!([y, mean, var], [found.0.value(), found.1.value(), found.2.value()]);
    assert_eq!(Tensor::meshgrid([&a, &b]).unwrap(), Var::meshgrid([&va, &vb]).unwrap().values());
    assert_eq!(Tensor::meshgrid_xy([&a, &b]).unwrap(), Var::meshgrid_xy([&va, &vb]).unwrap().values());
    assert_eq!(
        Tensor::cat(vec![a.clone(), b.clone()], 0).unwrap(),
        Var::cat(vec![va, vb], 0).unwrap().value()
    );
}
