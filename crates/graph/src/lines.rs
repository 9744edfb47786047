//! Every form of recording an operation, and the line that it is recorded with: the caller's.
//!
//! A `#[track_caller]` function that records inside a closure loses the line, and nobody notices until a message names
//! a line of the library.

use std::panic::Location;
use std::path::Path;

use foldback_tensor::{DType, NewShape, Slice, Tensor, tensor};

use crate::table::Domain;
use crate::{RequiresGrad, Result, Var, fuse, rows};

fn recorded(v: &Var) -> &'static Location<'static> {
    v.edge().expect("it is recorded").node.location
}

/// The operation is recorded with the line that this is called from.
#[track_caller]
fn here(v: Var) {
    let (at, called) = (recorded(&v), Location::caller());
    assert_eq!((at.file(), at.line()), (called.file(), called.line()), "recorded at {at}");
}

macro_rules! operators {
    ($($test:ident: $op:tt, $assign:tt;)*) => {$(
        #[test]
        fn $test() {
            let t = tensor![1.0, 2.0];
            let (v, w) = (t.clone().requires_grad(), (&t * 2.0).requires_grad());
            let zeros = Var::from(Tensor::zeros([2]));
            let assigned = |f: fn(&mut Var, &Var, &Tensor), from: &Var| {
                let mut c = from.clone();
                f(&mut c, &v, &t);
                c
            };
            let result = &v + 0.0;
            let here = line!();
            // One macro, one line.
            for recorded in [
                recorded(&(v.clone() $op w.clone())), recorded(&(v.clone() $op &w)), recorded(&(&v $op w.clone())), recorded(&(&v $op &w)),
                recorded(&(v.clone() $op t.clone())), recorded(&(v.clone() $op &t)), recorded(&(&v $op t.clone())), recorded(&(&v $op &t)),
                recorded(&(t.clone() $op w.clone())), recorded(&(t.clone() $op &w)), recorded(&(&t $op w.clone())), recorded(&(&t $op &w)),
                recorded(&(v.clone() $op 2.0)), recorded(&(&v $op 2.0f32)), recorded(&(v.clone() $op 2)), recorded(&(&v $op 2i64)),
                recorded(&(2.0 $op v.clone())), recorded(&(2.0 $op &v)), recorded(&(2 $op v.clone())), recorded(&(2 $op &v)),
                recorded(&assigned(|c, v, _| *c $assign v, &zeros)), recorded(&assigned(|c, v, _| *c $assign v.clone(), &zeros)),
                recorded(&assigned(|c, _, t| *c $assign t, &result)), recorded(&assigned(|c, _, t| *c $assign t.clone(), &result)),
                recorded(&assigned(|c, _, _| *c $assign 2.0, &result)), recorded(&assigned(|c, _, _| *c $assign 2.0f32, &result)),
                recorded(&assigned(|c, _, _| *c $assign 2, &result)), recorded(&assigned(|c, _, _| *c $assign 2i64, &result)),
            ] {
                assert_eq!((recorded.file(), recorded.line()), (file!(), here), "the line of the invocation");
            }
        }
    )*};
}
operators! {
    sums: +, +=;
    differences: -, -=;
    products: *, *=;
    quotients: /, /=;
}

fn after(mut v: Var, f: impl FnOnce(&mut Var) -> Result<&mut Var>) -> Result<Var> {
    f(&mut v)?;
    Ok(v)
}

#[test]
fn every_method() -> Result<()> {
    let x = tensor![[0.5, 2.0], [3.0, 1.5]].requires_grad();
    let (y, r, m) = (&x + 1.0, tensor![1.0, 2.0].requires_grad(), tensor![true, false; bool]);
    let index = tensor![[1, 0], [0, 1]; i64];
    let (m, one) = (Var::from(m), tensor![1i64; i64]);
    let z = || &x * 1.0;
    here(Var::leaf(tensor![1.0])?);
    here(-&x);
    here(-x.clone());
    here(x.add(&y)?);
    here(x.add(2.0)?);
    here(x.sub(&y)?);
    here(x.sub(2.0)?);
    here(x.mul(&y)?);
    here(x.mul(2.0)?);
    here(x.div(&y)?);
    here(x.div(2.0)?);
    here(x.div_floor(&y)?);
    here(x.div_floor(2.0)?);
    here(x.div_trunc(&y)?);
    here(x.div_trunc(2.0)?);
    here(x.pow(&y)?);
    here(x.pow(2.0)?);
    here(x.maximum(&y)?);
    here(x.maximum(2.0)?);
    here(x.minimum(&y)?);
    here(x.minimum(2.0)?);
    here(x.rsub(2.0)?);
    here(x.rdiv(2.0)?);
    here(x.rpow(2.0)?);
    here(x.add_with(&y, 0.5)?);
    here(x.sub_with(&y, 0.5)?);
    here(m.where_cond(&x, 0.0)?);
    here(x.neg());
    here(x.abs());
    here(x.sign());
    here(x.square());
    here(x.exp());
    here(x.expm1());
    here(x.ln());
    here(x.log1p());
    here(x.sqrt());
    here(x.rsqrt());
    here(x.reciprocal());
    here(x.sin());
    here(x.cos());
    here(x.tanh());
    here(x.sigmoid());
    here(x.erf());
    here(x.relu());
    here(x.gelu());
    here(x.gelu_tanh());
    here(x.silu());
    here(x.softplus());
    here(x.softplus_with(1.0, 20.0)?);
    here(x.clamp(0.0, 1.0)?);
    here(x.clamp(&y, 9.0)?);
    here(x.clamp_min(0.0)?);
    here(x.clamp_min(&y)?);
    here(x.clamp_max(1.0)?);
    here(x.clamp_max(&y)?);
    here(x.sum(0)?);
    here(x.mean(0)?);
    here(x.prod(0)?);
    here(x.var(0)?);
    here(x.var_with(0, 0.0)?);
    here(x.std(0)?);
    here(x.std_with(0, 0.0)?);
    here(x.amax(0)?);
    here(x.amin(0)?);
    here(x.max(..)?);
    here(x.min(..)?);
    here(x.max_with_indices(0)?.0);
    here(x.min_with_indices(0)?.0);
    here(x.var_mean(0)?.0);
    here(x.var_mean_with(0, 0)?.1);
    here(x.norm(0)?);
    here(x.norm_with(0, 1)?);
    here(x.median(..)?);
    here(x.median_with_indices(0)?.0);
    here(x.sort(0)?.0);
    here(x.sort_with(0, true)?.0);
    here(x.topk(1, 0)?.0);
    here(x.topk_with(1, 0, false, true)?.0);
    here(x.cumsum(0)?);
    here(x.cumprod(0)?);
    here(x.logsumexp(0)?);
    here(x.softmax(0)?);
    here(x.log_softmax(0)?);
    here(x.cross_entropy(&tensor![1, 0; i64])?);
    here(x.sum_to_size([2])?);
    here(x.expand([3, 2, 2])?);
    here(x.broadcast_to([3, 2, 2])?);
    here(x.permute([1, 0])?);
    here(x.transpose(0, 1)?);
    here(x.t());
    here(x.movedim(0, 1)?);
    here(x.reshape(NewShape::from([4]))?);
    here(x.view([4])?);
    here(x.flatten(0..=1)?);
    here(x.squeeze(..)?);
    here(x.unsqueeze(0)?);
    here(x.flip(0)?);
    here(x.slice(Slice::new(0, 1, 1))?);
    here(x.narrow(0, 0, 1)?);
    here(x.select(0, 0)?);
    here(x.to(DType::F64));
    here(x.t().contiguous());
    here(x.gather(0, &index)?);
    here(x.scatter_add(0, &index, &y)?);
    here(x.index_select(0, &one)?);
    here(x.index_add(0, &one, &x.narrow(0, 0, 1)?)?);
    here(Var::cat(&[&x, &y], 0)?);
    here(Var::stack(&[&x, &y], 0)?);
    here(x.matmul(&y)?);
    here(r.outer(&r)?);
    here(r.addmm(&x, &y)?);
    here(r.addmm_with(&x, &y, 0.5, 2)?);
    here(r.baddbmm(x.unsqueeze(0)?, y.unsqueeze(0)?)?);
    here(r.baddbmm_with(x.unsqueeze(0)?, y.unsqueeze(0)?, 0.5, 2)?);
    here(Var::einsum("ij->ji", [&x])?);
    here(Var::einsum("ii", [&x])?);
    here(Var::einsum("ij,kj->ik", [&x, &y])?);
    here(Var::einsum("ij,ij->ji", [&x, &y])?);
    here(x.linear(&y, None)?);
    here(x.linear(&y, Some(&r))?);
    here(fuse!(|x| x * 2.0).call([&x])?);
    here(fuse!(|x| x * 2.0).sum([&x], ..)?);
    here(fuse!(|x| x * 2.0).mean([&x], ..)?);
    here(after(z(), |v| v.add_(&y))?);
    here(after(z(), |v| v.sub_(&y))?);
    here(after(z(), |v| v.mul_(&y))?);
    here(after(z(), |v| v.div_(2.0))?);
    here(after(z(), |v| v.add_with_(&y, 0.5))?);
    here(after(z(), |v| v.sub_with_(&y, 0.5))?);
    here(after(z(), |v| v.div_floor_(&y))?);
    here(after(z(), |v| v.div_trunc_(&y))?);
    here(after(z(), |v| v.pow_(&y))?);
    here(after(z(), |v| v.clamp_(0.0, 1.0))?);
    here(after(z(), |v| v.clamp_min_(&y))?);
    here(after(z(), |v| v.clamp_max_(&y))?);
    here(after(z(), |v| v.slice_assign(0, &r))?);
    here(after(z(), |v| v.maximum_(&y))?);
    here(after(z(), |v| v.exp_())?);
    here(after(z(), |v| v.relu_())?);
    here(after(z(), |v| v.square_())?);
    here(after(z(), |v| v.copy_(&y))?);
    Ok(())
}

/// Casts of operands are operations, too; a 0-d operand that would widen the others is cast.
#[test]
fn casts_on_the_way() -> Result<()> {
    let (x, y) = (tensor![1.0, 2.0].requires_grad(), Tensor::from(3.0).requires_grad());
    let (z, line) = (fuse!(|x, y| x * y).call([&x, &y])?, line!());
    let edge = z.edge().expect("it is recorded");
    let cast = &edge.node.next_edges[1].as_ref().expect("it is tracked").node;
    assert_eq!((cast.name(), cast.location.file(), cast.location.line()), ("cast", file!(), line));
    Ok(())
}

#[test]
fn leaves_of_value_and_grad() -> Result<()> {
    let seen = |v: &[Var]| {
        assert_eq!(recorded(&v[0]).file(), file!());
        v[0].sum(..)
    };
    crate::value_and_grad(seen, &[&tensor![1.0]])?;
    Ok(())
}

/// Operations whose rows are behind methods of their own.
#[test]
fn functions_of_images_rows_and_places() -> Result<()> {
    use foldback_tensor::{Attention, Conv, Interpolate, Norm, Pad, Pool};
    let leaf = |shape: &[usize]| Tensor::full_with(shape, 0.5, DType::F32).requires_grad();
    let (x, w, b, v) = (leaf(&[2, 4, 6, 6]), leaf(&[4, 4, 3, 3]), leaf(&[4]), leaf(&[4, 4]));
    here(x.conv2d(&w)?);
    here(x.conv2d_with(&w, Conv::new().bias(&b).padding(1))?);
    here(leaf(&[2, 4, 6]).conv1d(leaf(&[4, 4, 3]))?);
    here(x.conv_transpose2d(&w)?);
    here(x.max_pool2d(2)?);
    here(x.max_pool2d_with(2, Pool::new().stride(1))?);
    here(x.max_pool2d_with_indices(2, Pool::new())?.0);
    here(x.avg_pool2d(2)?);
    here(x.avg_pool2d_with(2, Pool::new().stride(1))?);
    here(x.adaptive_avg_pool2d(2)?);
    here(x.interpolate(3)?);
    here(x.interpolate_with(Interpolate::size(3))?);
    here(x.pixel_shuffle(2)?);
    here(x.layer_norm(6)?);
    here(x.layer_norm_with(6, Norm::new().weight(leaf(&[6])))?);
    here(x.rms_norm(6)?);
    here(x.group_norm(2)?);
    here(x.group_norm_with(2, Norm::new().weight(&b).bias(&b))?);
    here(x.instance_norm());
    here(x.batch_norm(Tensor::zeros(4), Tensor::ones(4))?);
    here(x.batch_norm_train(Norm::new())?.0);
    here(Var::embedding(&tensor![0, 1; i64], &v)?);
    here(x.scaled_dot_product_attention(&x, &x)?);
    here(x.scaled_dot_product_attention_with(&x, &x, Attention::new().is_causal(true))?);
    here(x.glu(1)?);
    here(x.normalize(1)?);
    here(x.cosine_similarity(&x, 1)?);
    here(v.norm(..)?);
    here(v.norm_with(1, 3)?);
    here(v.std(..)?);
    here(v.median(..)?);
    here(v.cumsum(0)?);
    here(v.cumprod(0)?);
    here(v.sort(0)?.0);
    here(v.topk(2, 0)?.0);
    here(v.addmm(&v, &v)?);
    here(b.outer(&b)?);
    here(Var::einsum("ij,jk->ik", [&v, &v])?);
    here(v.sum_with(.., DType::F64)?);
    here(v.masked_fill(v.gt(0)?, 0)?);
    here(v.masked_select(v.gt(0)?)?);
    here(v.scatter(0, &tensor![[0, 1]; i64], 2.0)?);
    here(v.take_along_dim(&tensor![[0, 1, 0, 1]; i64], 0)?);
    here(v.roll(1, 0)?);
    here(v.diagonal());
    here(v.diag_embed());
    here(v.pad([1, 1])?);
    here(v.pad_with([1, 1], Pad::Reflect)?);
    here(v.repeat([2, 2])?);
    here(v.tile(2)?);
    here(v.repeat_interleave(2, 0)?);
    here(v.unfold(0, 2, 1)?);
    here(v.slice(foldback_tensor::s![&tensor![0, 1; i64], ..])?);
    here(Var::meshgrid([&b, &b])?.remove(0));
    here(v.atan2(&v)?);
    here(v.lerp(&v, 0.5)?);
    here(v.addcmul(&v, &v)?);
    here(v.elu_with(0.5)?);
    here(v.nan_to_num());
    here(v.prelu(leaf(&[1]))?);
    here(v.unbind(0)?.remove(1));
    here(v.split(2, 0)?.remove(1));
    here(v.chunk(2, 0)?.remove(1));
    let [part, _] = v.narrow(0, 0, 2)?.chunks(0)?;
    assert_eq!(recorded(&part).file(), file!());
    Ok(())
}

/// A new row cannot be forgotten: each sample is run, and recorded with the line that it is written on, or, where a
/// macro writes the call, with that of the table it stands in.
#[test]
fn every_row() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for row in rows() {
        for sample in row.samples() {
            let input = |(shape, domain): &(Vec<usize>, Domain)| match domain {
                Domain::Truth if row.is_pointwise() => {
                    Var::from(Tensor::zeros_with(shape.as_slice(), DType::Bool))
                }
                _ => Tensor::full_with(shape.as_slice(), 0.5, DType::F64).requires_grad(),
            };
            let inputs: Vec<Var> = sample.inputs.iter().map(input).collect();
            let name = format!("{} ({})", row.name, sample.label);
            let result = (sample.run)(&inputs).unwrap_or_else(|e| panic!("{name}: {e}"));
            let at = recorded(&result);
            let text = std::fs::read_to_string(root.join(at.file())).expect("the file of the table");
            let line = text.lines().nth(at.line() as usize - 1).expect("a line of that file");
            let tables = ["pointwise! {", "foldback_tensor::__elementary!(list);"];
            // A sample stands on one line, or its call on a line of its own.
            let sample = line.contains("|x| ") || line.trim_start().starts_with("x[0].");
            let found = if row.is_pointwise() { tables.contains(&line) } else { sample };
            assert!(found, "{name} is recorded at {at}: {line}");
        }
    }
}
