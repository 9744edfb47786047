//! Operations of variables, passes, functions of a user's and hooks.

use std::panic::Location;

use foldback::graph::{
    Backward, Function, FunctionContext, Grad, GraphFacts, RequiresGrad, backward, fuse, value_and_grad,
};
use foldback::prelude::*;
use foldback::tensor::{Pad, refused};
use foldback::{Error, Kind};

use crate::{here, line_ending};

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
    here(Grad::new([&constant], [&x]).run());
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
    assert_eq!(
        line(&e),
        Some(line_ending(include_str!("variables.rs"), "// the line of a forward function"))
    );
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
    here(value_and_grad(|_| &x * 2.0, &huge.value()));
    let e = here(huge.set_grad(Some(huge.value())));
    assert!(e.to_string().starts_with("set_grad: a tensor of shape"), "{e}");
    here(Grad::new([&x.square()], [&huge]).materialize_grads(true).run());
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
