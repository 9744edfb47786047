//! The one error: whatever is refused names the line that called, in this program and not in the library.
//!
//! A public method that forgets its line has none, or one of the library's; each is called here once. The operations of
//! `regressions/names_in_errors.rs` and `regressions/too_large.rs` are checked there as well.

use std::panic::Location;

use foldback::gradcheck::Check;
use foldback::graph::{
    Backward, Function, FunctionContext, Grad, GraphFacts, RequiresGrad, backward, fuse, value_and_grad,
};
use foldback::nn::init::Init;
use foldback::nn::loss::{BCEWithLogitsLoss, CrossEntropyLoss, MSELoss, NLLLoss};
use foldback::nn::{Dropout, GELU, Linear, Module, NnFacts, Sequential, Softplus, linear};
use foldback::optim::{Adam, AdamW};
use foldback::prelude::*;
use foldback::tensor::{
    Generator, Pad, TensorFacts, broadcast_shapes, broadcast_tensors, refused, try_set_num_threads,
};
use foldback::{Error, Kind};

/// The call is refused, with the line that this is called from.
#[track_caller]
fn here<T>(result: Result<T>) -> Error {
    let e = result.err().expect("it is refused");
    let at = e.location().unwrap_or_else(|| panic!("{e} has no line"));
    let called = Location::caller();
    assert_eq!((at.file(), at.line()), (called.file(), called.line()), "{e}");
    assert!(e.to_string().ends_with(&format!("(at {at})")), "{e}");
    e
}

/// The line of this file that ends so.
fn line_ending(comment: &str) -> u32 {
    let mut lines = include_str!("errors.rs").lines();
    lines.position(|l| l.ends_with(comment)).expect("there is one") as u32 + 1
}

#[test]
fn operations_of_tensors() {
    let (x, i, truth) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![1, 2; i64], tensor![true; bool]);
    let odd = tensor![1.0, 2.0, 3.0];
    let mut own = x.clone();
    here(x.add(&odd));
    here(own.add_(&odd));
    here(x.eq(&odd));
    here(x.add_out(&odd, 1.0, &mut i.clone()));
    here(x.mul_out(&x, &mut i.clone()));
    here(x.pow(&odd));
    here(i.pow(-1));
    here(truth.rsub(1));
    here(x.add_with(&odd, 2.0));
    here(own.sub_with_(&odd, 2.0));
    here(x.div_floor(&odd));
    here(i.div_trunc(0));
    here(i.clone().div_floor_(0));
    assert!(here(i.clone().log_()).to_string().starts_with("log_: "));
    here(x.clamp(&odd, 1.0));
    here(own.clamp_(&odd, 1.0));
    here(x.fmax(&odd));
    here(x.fmin(&odd));
    here(x.atan2(&odd));
    here(own.atan2_(&odd));
    here(i.hypot(&i));
    here(x.copysign(&odd));
    here(i.logaddexp(&i));
    here(x.xlogy(&odd));
    here(i.remainder(0));
    here(i.clone().remainder_(0));
    here(i.fmod(0));
    here(x.bitwise_and(1));
    here(x.bitwise_or(1));
    here(x.bitwise_xor(1));
    here(x.try_bitwise_not());
    here(own.bitwise_not_());
    here(x.lerp(&odd, 0.5));
    here(i.clone().lerp_(1, 0.5));
    here(truth.addcmul(&truth, &truth));
    here(truth.addcmul_with(&truth, &truth, 1));
    here(x.addcdiv(&i, &i));
    here(own.addcdiv_with_(&i, &i, 1));
    here(x.prelu(&odd));
    here(i.try_elu());
    here(i.elu_with(1));
    here(x.celu_with(0));
    here(i.leaky_relu_with(1));
    here(x.hardtanh_with(1, 0));
    here(own.hardtanh_with_(1, 0));
    here(truth.try_floor());
    here(truth.clone().round_());
    here(i.round_with(1));
    here(i.try_frac());
    here(x.where_cond(1.0, 2.0));
    here(truth.try_neg());
    here(truth.try_abs());
    here(truth.try_relu());
    here(i.try_gelu());
    here(i.clone().exp_());
    here(i.softplus_with(1.0, 20.0));
    here(x.sum(2));
    here(x.prod(2));
    here(x.mean(2));
    here(i.mean(..));
    here(x.var(2));
    here(x.var_with(2, 0.0));
    here(x.std(2));
    here(x.std_with(2, 0.0));
    here(x.amax(2));
    here(x.amin(2));
    here(x.max(2));
    here(x.min(2));
    here(x.argmax(2));
    here(x.argmin(2));
    here(x.max_with_indices(2));
    here(x.min_with_indices(2));
    here(x.any(2));
    here(x.all(2));
    here(x.var_mean(2));
    here(x.var_mean_with(2, 0));
    here(x.norm(2));
    here(x.norm_with(2, 1));
    here(x.count_nonzero(2));
    here(x.median(2));
    here(x.median_with_indices(2));
    here(truth.median(..));
    here(x.sort(2));
    here(x.sort_with(2, true));
    here(x.argsort(2));
    here(x.argsort_with(2, true));
    here(x.topk(7, 0));
    here(x.topk_with(7, 0, true, true));
    here(truth.topk(1, 0));
    here(x.cumsum(2));
    here(x.cumprod(2));
    here(i.one_hot(1));
    here(x.one_hot(1));
    here(x.bincount(1));
    here(i.bincount_with(1, &odd));
    here(x.outer(&odd));
    here(odd.addmm(&x, &x));
    here(x.addmm(&odd, &x));
    here(i.addmm_with(&x, &x, 1, 1));
    here(odd.baddbmm(&x, &x));
    here(odd.baddbmm_with(&x, &x, 0.5, 1));
    here(Tensor::einsum("ij,jk", [&x]));
    here(Tensor::einsum("ij,j", [&x, &odd]));
    here(Tensor::einsum("ij,jk", [&x, &x.double()]));
    here(Tensor::einsum("ij", [] as [Tensor; 0]));
    here(x.logsumexp(2));
    here(x.softmax(2));
    here(x.log_softmax(2));
    here(x.sum_to_size(3));
    here(x.matmul(&odd));
    here(x.mm(&odd));
    here(x.bmm(&odd));
    here(x.mv(&odd));
    here(x.dot(&odd));
    here(x.layer_norm(7));
    here(x.layer_norm_with(2, Norm::new().weight(&odd)));
    here(x.rms_norm(7));
    here(x.rms_norm_with(2, Norm::new().bias(&odd)));
    here(x.group_norm(7));
    here(x.group_norm_with(2, Norm::new().weight(&odd)));
    here(x.try_instance_norm());
    here(x.instance_norm_with(Norm::new()));
    here(x.batch_norm(&odd, &odd));
    here(x.batch_norm_with(&odd, &odd, Norm::new()));
    here(x.batch_norm_train(Norm::new().weight(&odd)));
    here(x.batch_norm_train_with(&odd, &odd, 0.1, Norm::new()));
    here(x.instance_norm_train_with(&odd, &odd, 0.1, Norm::new()));
    here(x.scaled_dot_product_attention(&odd, &odd));
    here(x.scaled_dot_product_attention_with(&x, &x, Attention::new().mask(&odd)));
    here(x.scaled_dot_product_attention_with(&x, &x, Attention::new().enable_gqa(true)));
    here(Tensor::embedding(&i, &odd));
    here(Tensor::embedding_with(&i, &x, 7i64));
    here(odd.glu(0));
    here(x.dropout(7));
    here(x.normalize(7));
    here(x.normalize_with(7, 1, 1));
    here(x.cosine_similarity(&odd, 0));
    here(x.cosine_similarity_with(&x, 7, 0.1));
    here(x.gather(2, &i));
    here(x.index_select(0, &i));
    here(x.scatter_add(2, &i, 1.0));
    here(x.index_add(0, &i, 1.0));
    here(x.index_add_with(2, &i, 1.0, 2));
    here(x.scatter(2, &i, 1.0));
    here(x.take_along_dim(&i, 0));
    here(x.take_along_dim(tensor![9; i64], ..));
    here(x.slice(&odd));
    here(own.slice_assign(&truth, 1));
    here(own.slice_add(&i, 1));
    here(x.masked_fill(&i, 1));
    here(own.masked_fill_(odd.gt(0).unwrap(), 1));
    here(x.masked_select(&i));
    here(tensor![1.0].expand([1usize << 60]).unwrap().try_nonzero());
    here(x.roll(1, 2));
    here(x.diagonal_with(0, 1, 1));
    here(x.diag_embed_with(0, 1, 1));
    here(x.pad(1));
    here(x.pad_with([9, 9], Pad::Reflect));
    here(x.repeat(2));
    here(x.tile(1usize << 62));
    here(x.repeat_interleave(2, 2));
    here(x.repeat_interleave(-2, ..));
    here(x.unfold(0, 3, 1));
    here(x.split([1], 0));
    here(Tensor::meshgrid([&x]));
    here(Tensor::meshgrid_xy([&x]));
    here(Tensor::cat(&[&x, &odd], 0));
    here(Tensor::stack(&[&x, &odd], 0));
    here(Tensor::stack([] as [Tensor; 0], 0));
    here(x.expand(3));
    here(x.broadcast_to(3));
    here(x.expand_as(&odd));
    here(broadcast_tensors(&[&x, &odd]));
    here(broadcast_shapes(&[&[2], &[3]]));
    here(x.permute([0, 0]));
    here(x.permute([0]));
    here(x.transpose(0, 2));
    here(x.unsqueeze(0).unwrap().try_t());
    here(x.movedim(2, 0));
    here(x.movedim([0, 1], 0));
    here(x.squeeze(2));
    here(x.unsqueeze(7));
    here(x.flip(2));
    here(x.reshape(3));
    here(x.view(3));
    here(x.t().view(4));
    here(x.flatten(3..));
    here(x.slice(7));
    here(x.narrow(0, 1, 7));
    here(x.narrow(7, 1, 1));
    here(x.select(0, 7));
    here(x.split(0, 0));
    here(x.chunk(0, 0));
    here(x.unbind(7));
    here(own.slice_assign(7, &odd));
    here(own.slice_assign(0, &odd));
    here(own.copy_(&odd));
    here(x.size(7));
}

#[test]
fn operations_of_images() {
    let x = Tensor::ones([1, 2, 4, 4]);
    let (v, line) = (Var::from(&x), Tensor::ones([1, 2, 4]));
    macro_rules! each {
        ($($x:ident)*) => {$(
            here($x.conv2d(&line));
            here($x.conv2d_with(&x, Conv::new().bias(&x)));
            here($x.conv1d(&line));
            here($x.conv1d_with(&line, Conv::new()));
            here($x.conv_transpose1d(&line));
            here($x.conv_transpose1d_with(&line, Conv::new()));
            here($x.conv_transpose2d(&line));
            here($x.conv_transpose2d_with(&x, Conv::new().padding(9)));
            here($x.max_pool1d(2));
            here($x.max_pool1d_with(2, Pool::new()));
            here($x.max_pool1d_with_indices(2, Pool::new()));
            here($x.max_pool2d(5));
            here($x.max_pool2d_with(5, Pool::new()));
            here($x.max_pool2d_with_indices(5, Pool::new()));
            here($x.avg_pool1d(2));
            here($x.avg_pool1d_with(2, Pool::new()));
            here($x.avg_pool2d(5));
            here($x.avg_pool2d_with(5, Pool::new()));
            here($x.adaptive_avg_pool1d(2));
            here($x.squeeze(0).unwrap().select(0, 0).unwrap().adaptive_avg_pool2d(2));
            here($x.interpolate(0));
            here($x.interpolate_with(Interpolate::scale(0)));
            here($x.pixel_shuffle(2));
            here($x.pixel_unshuffle(3));
        )*};
    }
    each!(x v);
}

#[test]
fn values_that_go_in_and_out() {
    let (x, huge) = (tensor![1.0, 2.0], tensor![1.0].expand([1usize << 60]).unwrap());
    let mut g = Generator::new(0);
    here(x.item_as::<f32>());
    here(x.to_vec::<i64>());
    here(huge.to_vec::<f32>());
    here(x.as_array::<i64>());
    here(x.to_array::<i64>());
    here(huge.to_array::<f32>());
    here(huge.try_contiguous());
    here(huge.try_to(DType::F64));
    here(Tensor::from_vec(vec![1.0], 2));
    here(Tensor::from_slice(&[1.0], 2));
    here(Tensor::from_strided(vec![1.0], 2, &[1], 0));
    here(Tensor::from_strided(vec![1.0], 2, &[], 0));
    here(Tensor::try_zeros(1usize << 60));
    here(Tensor::try_ones_with(1usize << 60, DType::F64));
    here(Tensor::try_full(1usize << 60, 1.0));
    here(Tensor::try_eye(1usize << 40));
    here(Tensor::try_arange(0..i64::MAX));
    here(Tensor::try_arange_with(0..1, 0, DType::F32));
    here(Tensor::try_linspace(0, 1, 1 << 60));
    here(Tensor::try_linspace_with(0, 1, 2, DType::Bool));
    here(Tensor::try_rand(1usize << 60));
    here(Tensor::try_randn_with(2, DType::I64));
    here(Tensor::try_uniform(2, 1.0, 0.0));
    here(g.try_bernoulli(2, 7.0));
    here(g.try_normal(2, 0.0, -1.0));
    here(try_set_num_threads(1 << 20));
    here(foldback::tensor::ThreadPool::try_new(1 << 20));
}

#[test]
fn operations_of_variables() {
    let (x, i) = (tensor![[1.0, 2.0], [3.0, 4.0]].requires_grad(), Var::from(tensor![1, 2; i64]));
    let odd = tensor![1.0, 2.0, 3.0].requires_grad();
    let mut y = &x * 1.0;
    // Formulas, with a variable, a tensor and a number; functions, with and without axes; lists; compositions.
    here(x.add(&odd));
    here(x.add(tensor![1.0, 2.0, 3.0]));
    here(i.pow(-1));
    here(Var::from(tensor![true; bool]).rsub(1));
    here(x.where_cond(1.0, 2.0));
    here(i.try_gelu());
    here(i.try_softplus());
    here(x.clamp_min(&odd));
    here(x.lt(&odd));
    here(x.atan2(&odd));
    here(i.remainder(0));
    here(x.bitwise_and(1));
    here(x.try_bitwise_not());
    here(x.lerp(&odd, 0.5));
    here(x.addcmul(&odd, 1.0));
    here(x.addcdiv(&i, &i));
    here(x.prelu(&odd));
    here(x.celu_with(0));
    here(x.hardtanh_with(1, 0));
    here(i.try_frac());
    here(i.nan_to_num_with(0, 0, 0).unwrap().round_with(0));
    here(i.clone().hardtanh_with_(1, 0));
    here(x.sum(2));
    here(x.mean(2));
    here(x.var(2));
    here(x.std(2));
    here(x.max(2));
    here(x.argmax(2));
    here(x.softmax(2));
    here(x.linear(&odd, None));
    here(x.matmul(&odd));
    here(x.var_mean(2));
    here(x.norm(2));
    here(x.norm_with(2, 1));
    here(x.count_nonzero(2));
    here(x.median(2));
    here(x.median_with_indices(2));
    here(x.sort(2));
    here(x.sort_with(2, true));
    here(x.argsort(2));
    here(x.topk(7, 0));
    here(x.cumsum(2));
    here(x.cumprod(2));
    here(i.one_hot(1));
    here(x.bincount(1));
    here(i.bincount_with(1, &odd));
    here(x.outer(&odd));
    here(odd.addmm(&x, &x));
    here(odd.addmm_with(&x, &x, 0.5, 1));
    here(odd.baddbmm(&x, &x));
    here(odd.baddbmm_with(&x, &x, 0.5, 1));
    here(Var::einsum("ij,jk", [&x]));
    here(Var::einsum("ij,jk", [&x, &x.to(DType::F64)]));
    here(x.expand(3));
    here(x.broadcast_to(3));
    here(x.t().view(4));
    here(x.narrow(0, 1, 7));
    here(x.select(0, 7));
    here(x.layer_norm(7));
    here(x.layer_norm_with(2, Norm::new().weight(&odd)));
    here(x.rms_norm(7));
    here(x.rms_norm_with(2, Norm::new().bias(&odd)));
    here(x.group_norm(7));
    here(x.group_norm_with(2, Norm::new().weight(&odd)));
    here(x.try_instance_norm());
    here(x.instance_norm_with(Norm::new()));
    here(x.batch_norm(&odd, &odd));
    here(x.batch_norm_with(&odd, &odd, Norm::new()));
    here(x.batch_norm_train(Norm::new().weight(&odd)));
    here(x.batch_norm_train_with(&odd, &odd, 0.1, Norm::new()));
    here(x.instance_norm_train_with(&odd, &odd, 0.1, Norm::new()));
    here(x.scaled_dot_product_attention(&odd, &odd));
    here(x.scaled_dot_product_attention_with(&x, &x, Attention::new().mask(&odd)));
    here(x.scaled_dot_product_attention_with(&x, &x, Attention::new().enable_gqa(true)));
    here(Var::embedding(&i, &odd));
    here(Var::embedding_with(&i, &x, 7i64));
    here(odd.glu(0));
    here(x.dropout(7));
    here(x.normalize(7));
    here(x.normalize_with(7, 1, 1));
    here(x.cosine_similarity(&odd, 0));
    here(x.cosine_similarity_with(&x, 7, 0.1));
    here(x.gather(2, &i));
    here(x.index_add(0, &i, 1.0));
    here(x.index_add_with(2, &i, 1.0, 2));
    here(x.scatter(2, &i, 1.0));
    here(x.scatter(2, &i, &odd));
    here(x.take_along_dim(&i, 0));
    here(x.take_along_dim(tensor![9; i64], ..));
    here(x.slice(&odd));
    here(y.slice_add(&i, 1));
    here(x.masked_fill(&i, 1));
    here(x.masked_fill(true, &odd));
    here(y.masked_fill_(odd.gt(0).unwrap(), 1));
    here(x.masked_select(&i));
    here(x.roll(1, 2));
    here(x.diagonal_with(0, 1, 1));
    here(x.diag_embed_with(0, 1, 1));
    here(x.pad(1));
    here(x.pad_with([9, 9], Pad::Reflect));
    here(x.repeat(2));
    here(x.tile(1usize << 62));
    here(x.repeat_interleave(2, 2));
    here(x.repeat_interleave(-2, ..));
    here(x.unfold(0, 3, 1));
    here(Var::meshgrid([&x]));
    here(Var::meshgrid_xy([&x]));
    here(Var::cat([&x, &odd], 0));
    here(Var::stack([&x, &odd], 0));
    here(y.add_(&odd));
    here(y.pow_(&odd));
    here(x.clone().mul_(2.0));
    here(y.slice_assign(7, &odd));
    here(fuse!(|a, b| a * b).call([&x, &odd]));
    here(fuse!(|a, b| a * b).sum([&x, &odd], ..));
    here(fuse!(|a| a * 2.0).mean([&x], 7));
    here(Var::leaf(tensor![1; i64]));
    here(i.clone().requires_grad_(true));
    here(y.requires_grad_(false));
    here(x.set_grad(Some(tensor![1.0])));
    here(y.set_grad(None));
    here(x.clone().set_value(tensor![1.0]));
    here(y.set_value(tensor![1.0]));
    here(y.update_value(|_| Ok(())));
    here(x.update_value(|t| {
        *t = tensor![1.0];
        Ok(())
    }));
}

/// The functions that a user composes of operations may be `#[track_caller]` themselves, or not.
#[test]
fn composed_functions() {
    #[track_caller]
    fn scaled(x: &Var) -> Result<Var> {
        x.mul(2.0)?.sum(7)
    }
    let inside = line!() + 2;
    fn plain(x: &Var) -> Result<Var> {
        x.mul(2.0)?.sum(7)
    }
    let x = tensor![1.0].requires_grad();
    here(scaled(&x));
    assert_eq!(plain(&x).unwrap_err().location().unwrap().line(), inside);
    let inside = line!() + 1;
    let e = no_grad(|| x.sum(7)).unwrap_err();
    assert_eq!(e.location().unwrap().line(), inside);
}

#[test]
fn passes() {
    let x = tensor![1.0, 2.0].requires_grad();
    let constant = Var::from(tensor![1.0]);
    here(x.backward());
    here(constant.backward());
    here(x.backward_with(&tensor![1.0]));
    here(backward([] as [Var; 0], Backward::new()));
    here(Grad::new(&[&constant], &[&x]).run());
    here(grad(x.sum(..).unwrap(), &[&constant]));
    here(value_and_grad(|x| Ok(x[0].clone()), &[&tensor![1.0, 2.0]]));
    here(value_and_grad(|x| Ok(x[0].clone()), &[&tensor![1; i64]]));
    let y = x.square().sum(..).unwrap();
    y.backward().unwrap();
    let e = here(y.backward());
    assert!(e.to_string().contains("(recorded at "), "{e}");
}

/// Fails where it is told to.
struct Failing {
    forward: bool,
    backward: fn() -> Result<Var>,
}
impl Function for Failing {
    fn name(&self) -> &'static str {
        "failing"
    }
    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        if !self.forward {
            return Ok(vec![inputs[0].clone()]);
        }
        Ok(vec![inputs[0].sum(7)?]) // the line of a forward function
    }
    fn backward(&self, _: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![Some((self.backward)()?)])
    }
}

/// A user's function keeps its own line; what goes wrong in the library's gradients has the line of the pass.
#[test]
fn functions_of_ones_own() {
    let x = tensor![1.0].requires_grad();
    let line = |e: &Error| e.location().map(Location::line);
    let e = Failing { forward: true, backward: || Ok(Var::from(tensor![1.0])) }.call([&x]).unwrap_err();
    assert_eq!(line(&e), Some(line_ending("// the line of a forward function")));
    let inside = line!() + 1;
    let backward = || Var::from(tensor![1.0]).sum(7);
    let y = Failing { forward: false, backward }.call([&x]).unwrap();
    let e = y.backward().unwrap_err();
    assert_eq!((line(&e), e.kind()), (Some(inside), Kind::Axis));
    assert!(refused!(Err::<(), _>(e), GraphFacts::Backward { op: "failing", .. }));
    // A gradient that does not fit, and one that no memory holds.
    let y = Failing { forward: false, backward: || Ok(Var::from(tensor![1.0, 2.0])) };
    let y = y.call([&tensor![1.0, 2.0, 3.0].requires_grad()]).unwrap().sum(..).unwrap();
    here(y.backward());
    let huge = Tensor::from(1.0).expand([1usize << 40]).unwrap().requires_grad();
    let e = here(huge.select(0, 0).unwrap().backward());
    assert!(refused!(Err::<(), _>(e), GraphFacts::Backward { .. }));
    let (sum, at) = (huge.sum(..).unwrap(), line!());
    let e = here(sum.backward());
    let recorded = format!("sum: in the backward pass of the operation recorded at {}:{at}:", file!());
    assert!(e.to_string().starts_with(&recorded) && !e.to_string().contains("contiguous"), "{e}");
    let e = here(value_and_grad(|x| x[0].sum(..), &[&huge.value()]));
    assert!(e.to_string().starts_with("sum: in the backward pass"), "{e}");
    let e = here(huge.set_grad(Some(huge.value())));
    assert!(e.to_string().starts_with("set_grad: a tensor of shape"), "{e}");
    here(Grad::new(&[&x.square()], &[&huge]).materialize_grads(true).run());
    let y = Failing { forward: false, backward: || Err(Error::other("mine")) }.call([&x]).unwrap();
    let e = y.backward().unwrap_err();
    assert_eq!((e.to_string().as_str(), line(&e)), ("mine", None));
}

#[test]
fn hooks() {
    let x = tensor![1.0].requires_grad();
    let inside = line!() + 1;
    let hook = x.register_hook(|g| g.sum(7)).unwrap();
    let e = (&x * 2.0).backward().unwrap_err();
    assert_eq!((e.kind(), e.location().unwrap().line()), (Kind::Axis, inside));
    hook.remove();
    x.register_hook(|g| g.value().item_as::<f32>().map(|v| (v > 9.0).then(|| g * 0.0))).unwrap();
    (&x * 2.0).backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![2.0]), "what failed has left nothing");
    (&x * 20.0).backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![2.0]));
    let refusals = [
        here(Var::from(tensor![1.0]).register_hook(|_| ()).map(drop)),
        here(Var::from(tensor![1.0]).retain_grad()),
    ];
    for (e, name) in refusals.iter().zip(["register_hook", "retain_grad"]) {
        assert!(e.to_string().starts_with(&format!("{name}: the variable does not require grad")), "{e}");
    }
    x.retain_grad().unwrap();
}

/// What can be done about it stands behind the last colon.
#[test]
fn texts_end_with_the_cure() {
    let (x, cube) = (tensor![[1.0, 2.0], [3.0, 4.0]], Tensor::zeros([2, 2, 2]));
    let seeded = x.clone().requires_grad().sum(..).unwrap();
    let no_parameters: [Var; 0] = [];
    let texts = [
        (here(cube.try_t()), "transpose(-2, -1) exchanges the last two"),
        (here(tensor![1.0].tril_with(0)), "unsqueeze adds one, squeeze, flatten and reshape take some away"),
        (here(cube.mm(&x)), "matmul takes any number of them"),
        (here(x.permute([0])), "name each axis once, in its new place"),
        (here(x.slice((0, 0, 0))), "leave some out, or add them to the tensor by unsqueeze"),
        (here(x.reshape([-1, -1])), "one of them may be -1"),
        (here(x.select(0, 5)), "give one from -2 to 1"),
        (here(x.narrow(0, 1, 5)), "ranges lie inside their axis, and steps are positive"),
        (
            here(Var::leaf(x.clone()).unwrap().set_grad(Some(tensor![1.0]))),
            "reshape it, or convert it with to",
        ),
        (here(seeded.backward_with(&tensor![1.0])), "a seed has the shape of its output"),
        (here(Adam::try_new(no_parameters, 0.1)), "give those of a model, model.parameters()"),
    ];
    for (e, cure) in texts {
        let text = e.to_string();
        let words = text.split(" (at ").next().expect("a text has words");
        assert!(words.ends_with(cure), "{text}");
    }
}

/// What an operation of several operands refuses names the one that does not fit, its sizes and the cure.
#[test]
fn texts_name_the_argument() {
    let of = |shape: &[usize]| Tensor::zeros(shape);
    let (x, ids, image) = (of(&[4, 3]), tensor![0, 2; i64], of(&[1, 3, 8, 8]));
    let q = of(&[2, 8, 5, 4]);
    let says = |e: Error, parts: &[&str]| {
        let text = e.to_string();
        for part in parts {
            assert!(text.contains(part), "{part} is missing from {text}");
        }
    };
    let w = of(&[8, 3, 3, 3]);
    let bias = here(image.conv2d_with(&w, Conv::new().bias(of(&[3]))));
    says(bias, &["conv2d: the bias must have shape [8], found [3]: ", "a number for each channel"]);
    says(here(image.conv2d_with(&w, Conv::new().bias(of(&[8]).double()))), &["input is f32, the bias f64"]);
    let gray = here(of(&[4, 8, 8]).conv2d(of(&[2, 1, 3, 3])));
    says(gray, &["has 4 channels, the size of its axis 0", "takes 1: ", "unsqueeze(1)"]);
    let last = here(of(&[1, 8, 8, 3]).conv2d(&w));
    says(last, &["has 8 channels, the size of its axis 1", "takes 3: ", "movedim(-1, -3)"]);
    says(here(x.layer_norm_with(3, Norm::new().weight(of(&[4])))), &["the weight must have shape [3]"]);
    says(here(x.layer_norm(4)), &["the input's end must have shape [4], found [3]: name the sizes"]);
    says(here(x.batch_norm(of(&[3]), of(&[4]))), &["the var must have shape [3], found [4]"]);
    says(here(x.batch_norm(of(&[3]), of(&[3]).double())), &["the mean is f32, the var f64"]);
    says(here(x.group_norm(2)), &["groups = 2 for 3 channels"]);
    says(
        here(x.linear(of(&[5, 3]), of(&[1, 5]))),
        &["the bias must have shape [5], found [1, 5]: reshape it"],
    );
    says(here(x.linear(of(&[1, 5, 3]), None)), &["1 or 2 axes of the weight, got 3"]);
    says(here(x.prelu(of(&[4]))), &["the weight must have shape [3]"]);
    let sdpa = |k: &[usize], v: &[usize]| here(q.scaled_dot_product_attention(of(k), of(v)));
    says(sdpa(&[2, 8, 5, 3], &[2, 8, 5, 4]), &["the key must have shape [2, 8, 5, 4], found [2, 8, 5, 3]"]);
    says(sdpa(&[2, 8, 6, 4], &[2, 8, 5, 4]), &["the value must have shape [2, 8, 6, 4]"]);
    says(sdpa(&[4], &[4]), &["at least 2 axes of the key, got 1"]);
    says(sdpa(&[2, 2, 5, 4], &[2, 2, 5, 4]), &["cannot broadcast [2, 8] with [2, 2]", "enable_gqa(true)"]);
    let masked = Attention::new().mask(of(&[2, 5]));
    says(here(q.scaled_dot_product_attention_with(&q, &q, masked)), &["the mask [2, 5] does not expand to"]);
    let grouped = Attention::new().enable_gqa(true);
    let heads = here(q.scaled_dot_product_attention_with(of(&[2, 3, 5, 4]), of(&[2, 2, 5, 4]), grouped));
    says(heads, &["8 heads of queries, 3 of keys and 2 of values", "which divide those of queries"]);
    says(here(x.gather(1, &ids)), &["the index must have shape [4, 3], found [2]: it has as many axes"]);
    let source = here(x.scatter(1, tensor![[0, 1, 2]; i64], tensor![[1.0]]));
    says(source, &["the source must have shape [1, 3], found [1, 1]: there is a part of it for each index"]);
    says(here(x.index_add(0, &ids, of(&[3, 3]))), &["the source must have shape [2, 3]"]);
    says(here(x.take_along_dim(&ids, 1)), &["the index must have shape"]);
    says(here(x.index_select(0, tensor![[0]; i64])), &["axis of the index, got 2: reshape(-1)"]);
    says(here(Tensor::embedding(of(&[9, 2]), &ids)), &["[9, 2] of f32 and [2] of i64", "exchange them"]);
    says(here(Var::embedding(of(&[9, 2]), &ids)), &["exchange them"]);
    says(here(Tensor::embedding(&ids, of(&[4]))), &["2 axes of the table, got 1", "the second the table"]);
    says(here(loss::cross_entropy(&ids, of(&[2, 3]))), &["which stands before the target"]);
    says(
        here(loss::nll_loss(of(&[2, 3]), ids.unsqueeze(1).unwrap())),
        &["class numbers of shape [2]", "squeeze"],
    );
    says(here(x.matmul(of(&[4]))), &["transpose(-2, -1) of the first would fit"]);
    says(here(x.median([0, 1])), &["expected one or all axes, got 2: flatten makes one of several"]);
    says(here(x.repeat(2)), &["got 1: tile takes fewer"]);
    says(here(Tensor::from_strided(vec![1.0], 2, &[1], 0)), &["strides and offset lead beyond the values"]);
    says(here(x.mm(&image)), &["2 axes of the second, got 4"]);
    says(here(of(&[2, 4, 3]).bmm(of(&[3, 3, 5]))), &["first axes must be equal; matmul broadcasts"]);
    says(here(x.matmul(&x)), &["transpose(-2, -1) of the second would fit"]);
    says(here(of(&[7]).addmm(&x, x.t())), &["the input [7] does not expand to [4, 4]"]);
    says(
        here(x.add(of(&[4]))),
        &["cannot broadcast [4, 3] with [4]", "[4, 1] would fit, which unsqueeze(-1)"],
    );
    says(here(x.add_out(&x, 1.0, &mut of(&[3]))), &["the output must have shape [4, 3]"]);
    says(here(x.repeat_interleave(&ids, 0)), &["the repeats must have shape [4], found [2]"]);
    says(here(ids.bincount_with(1, of(&[3]))), &["the weights must have shape [2], found [3]"]);
    says(here(x.clone().copy_(of(&[5]))), &["[5] does not expand to [4, 3]; only axes of size 1 grow"]);
    says(here(x.topk(9, 1)), &["k = 9 for axis 1 of size 3"]);
    says(here(x.unfold(1, 9, 1)), &["size = 9 for an axis of size 3"]);
    says(here(x.chunk(0, 0)), &["n = 0 for an axis of size 4"]);
    says(here(x.chunks::<2>(1)), &["pieces = 2 for an axis of size 3"]);
    says(
        here(of(&[4]).pad_with([1, 1], Pad::Reflect)),
        &["[1, 1] for the shape [4]", "unsqueeze(0) adds one"],
    );
    says(here(x.roll([1, 2], 0)), &["[1, 2] along [0]", "one for each axis"]);
    says(here(Tensor::cat([&x, &image], 0)), &["all must have as many axes"]);
}

#[test]
fn losses_and_layers() {
    let (x, labels) = (tensor![[1.0, 2.0]].requires_grad(), tensor![1; i64]);
    let odd = tensor![1.0, 2.0, 3.0];
    here(loss::mse_loss(&x, &odd));
    here(loss::binary_cross_entropy_with_logits(&x, &odd));
    here(loss::binary_cross_entropy(&x, &odd));
    here(loss::binary_cross_entropy(&x, &x));
    here(loss::l1_loss(&x, &odd));
    here(loss::smooth_l1_loss(&x, &odd));
    here(loss::huber_loss(&x, &odd));
    here(loss::kl_div(&x, &odd));
    here(loss::SmoothL1Loss::new().beta(-1.0).forward(&x, &x));
    here(loss::HuberLoss::new().weight(odd.clone()).forward(&x, &x));
    here(loss::nll_loss(&x, &odd));
    here(loss::cross_entropy(&x, &odd));
    here(MSELoss::new().forward(&x, &odd));
    here(BCEWithLogitsLoss::new().pos_weight(odd.clone()).forward(&x, &x));
    here(NLLLoss::new().weight(odd.clone()).forward(&x, &labels));
    here(CrossEntropyLoss::new().label_smoothing(2.0).forward(&x, &labels));
    here(loss::cross_entropy(&x, &tensor![7; i64]));
    let layer = Linear::new(3, 2);
    let integers = Var::from(tensor![[1, 2]; i64]);
    here(layer.forward(&x));
    here(linear(&x, &x, Some(&x)));
    here(linear(&integers, &x, None));
    here(Linear::from_parameters(Var::from(odd.clone()), None));
    here(Linear::builder(1 << 40, 1 << 40).build());
    here(Init::xavier_normal(1.0).sample(3, DType::F32));
    here(Dropout::try_new(2.0));
    here(Linear::try_new(1 << 40, 1 << 40));
    here(Dropout::new(0.5).forward(&integers));
    let huge = Var::from(tensor![1.0].expand([1usize << 60]).unwrap());
    here(Dropout::new(0.5).forward(&huge));
    here(Dropout::new(0.5).seed(1).forward(&huge));
    here(GELU.forward(&integers));
    here(Softplus::new().forward(&integers));
    let behind: &dyn Layer = &layer;
    here(behind.forward(&x));
    let e = here(Sequential::new().then(Linear::new(2, 8)).then(Linear::new(4, 1)).forward(&x));
    assert_eq!(e.path(), "1");
}

#[derive(Module)]
struct Block {
    fc: Linear,
}
#[forward]
impl Block {
    fn forward(&self, x: &Var) -> Result<Var> {
        let y = self.fc.forward(x)?; // the line of the layer
        y.sum(7) // the line of the sum
    }
}

/// The line of an operation in a user's `forward` stays, however deep the model is; the path says which model it was.
#[test]
fn lines_inside_a_model() {
    let layer = line_ending("// the line of the layer");
    for (width, line, path) in [(3, layer, "1.fc"), (2, layer + 1, "1")] {
        let block = || Block { fc: Linear::new(width, 2) };
        let x = tensor![[1.0, 2.0]].requires_grad();
        let e = block().forward(&x).unwrap_err();
        assert_eq!((e.location().unwrap().file(), e.location().unwrap().line()), (file!(), line), "{e}");
        let e = Sequential::new().then(Linear::new(2, 2)).then(block()).forward(&x).unwrap_err();
        assert_eq!((e.path(), e.location().unwrap().line()), (path, line), "{e}");
        assert!(e.to_string().starts_with(&format!("{path}: ")), "{e}");
    }
}

#[test]
fn optimisers() {
    let x = tensor![1.0].requires_grad();
    here(SGD::try_new([x.clone()], -1.0));
    here(SGD::try_new([] as [Var; 0], 0.1));
    here(Adam::try_new([x.clone(), x.clone()], 0.1));
    here(AdamW::try_new([&x * 2.0], 0.1));
    let sgd = SGD::new([x.clone()], 0.1);
    here(sgd.set_lr(-1.0));
    let behind: &dyn Optimizer = &sgd;
    here(behind.set_lr(-1.0));
    x.update_value(|_| {
        let e = here(sgd.step());
        assert!(refused!(Err::<(), _>(e), GraphFacts::Updating { .. }));
        Ok(())
    })
    .unwrap();
}

#[test]
fn checks_of_gradients() {
    let x = [tensor![1.0, 2.0; f64]];
    here(gradcheck(|x| Ok(x[0].exp()), &[tensor![1.0]]));
    here(gradgradcheck(|x| Ok(x[0].exp()), &[]));
    here(Check::new().step(-1.0).gradcheck(|x| Ok(x[0].exp()), &x));
    here(gradcheck(|x| Ok(x[0].detach()), &x));
    let inside = line!() + 1;
    let e = gradcheck(|x| x[0].sum(7), &x).unwrap_err();
    assert_eq!(e.location().unwrap().line(), inside);
    let e = gradcheck(|_| Err::<Var, _>(Error::other("mine")), &x).unwrap_err();
    assert_eq!(e.to_string(), "mine");
}

/// One type, so that `?` works anywhere, and that of the operating system and of a user come along.
#[test]
fn one_type_in_all_crates() {
    fn run(step: usize) -> Result<()> {
        let x = tensor![1.0, 2.0].requires_grad();
        match step {
            0 => x.value().reshape(3).map(drop),
            1 => x.backward(),
            2 => loss::mse_loss(&x, 1.0).map(drop),
            3 => SGD::try_new([x], -1.0).map(drop),
            4 => gradcheck(|x| Ok(x[0].clone()), &[x.value()]),
            5 => {
                std::fs::read("/no/such/file")?;
                Ok(())
            }
            6 => "one".parse::<f32>().map(drop).map_err(Error::other),
            _ => Err(Error::other("mine")),
        }
    }
    let kinds: Vec<Kind> = (0..8).map(|step| run(step).unwrap_err().kind()).collect();
    use Kind::*;
    assert_eq!(kinds, [Shape, Shape, Shape, Argument, DType, Io, User, User]);
    let same: foldback::nn::Result<(), foldback::optim::Error> = run(0);
    assert!(refused!(same, TensorFacts::ElementCount { .. }));
    assert!(refused!(run(2), NnFacts::LossShapes { .. }));
}
