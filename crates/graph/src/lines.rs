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

/// Each operation is recorded with the line it stands on.
macro_rules! each_is_recorded_here {
    ($($e:expr;)*) => {$({
        let at = recorded(&$e);
        assert_eq!((at.file(), at.line()), (file!(), line_of(|| $e)), "{}", stringify!($e));
    })*};
}

/// A macro's own line is that of the outermost invocation; that of its argument is not.
#[track_caller]
fn line_of<T>(_: impl FnOnce() -> T) -> u32 {
    Location::caller().line()
}

macro_rules! operators {
    ($($test:ident: $op:tt, $assign:tt;)*) => {$(
        #[test]
        fn $test() {
            let t = tensor![1.0, 2.0];
            let (v, w) = (t.clone().requires_grad(), (&t * 2.0).requires_grad());
            let zeros = Var::from(Tensor::zeros([2], DType::F32));
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

fn after(mut v: Var, f: impl FnOnce(&mut Var) -> Result<()>) -> Result<Var> {
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
    each_is_recorded_here! {
        Var::leaf(tensor![1.0])?;
        -&x;
        -x.clone();
        x.add(&y)?;
        x.add(2.0)?;
        x.sub(&y)?;
        x.sub(2.0)?;
        x.mul(&y)?;
        x.mul(2.0)?;
        x.div(&y)?;
        x.div(2.0)?;
        x.div_floor(&y)?;
        x.div_floor(2.0)?;
        x.div_trunc(&y)?;
        x.div_trunc(2.0)?;
        x.pow(&y)?;
        x.pow(2.0)?;
        x.maximum(&y)?;
        x.maximum(2.0)?;
        x.minimum(&y)?;
        x.minimum(2.0)?;
        x.rsub(2.0)?;
        x.rdiv(2.0)?;
        x.rpow(2.0)?;
        x.add_scaled(&y, 0.5)?;
        x.sub_scaled(&y, 0.5)?;
        m.where_cond(&x, 0.0)?;
        x.neg()?;
        x.abs()?;
        x.sign();
        x.square();
        x.exp();
        x.expm1();
        x.ln();
        x.log1p();
        x.sqrt();
        x.rsqrt();
        x.reciprocal();
        x.sin();
        x.cos();
        x.tanh();
        x.sigmoid();
        x.erf();
        x.relu()?;
        x.gelu()?;
        x.gelu_tanh()?;
        x.silu()?;
        x.softplus()?;
        x.softplus_with(1.0, 20.0)?;
        x.clamp(0.0, 1.0)?;
        x.clamp(&y, 9.0)?;
        x.clamp_min(0.0)?;
        x.clamp_min(&y)?;
        x.clamp_max(1.0)?;
        x.clamp_max(&y)?;
        x.sum(0, false)?;
        x.mean(0, false)?;
        x.prod(0, false)?;
        x.var(0, false)?;
        x.var_with(0, 0.0, false)?;
        x.std(0, false)?;
        x.std_with(0, 0.0, false)?;
        x.amax(0, false)?;
        x.amin(0, false)?;
        x.max()?;
        x.min()?;
        x.max_with_indices(0, false)?.0;
        x.min_with_indices(0, false)?.0;
        x.logsumexp(0, false)?;
        x.softmax(0)?;
        x.log_softmax(0)?;
        x.cross_entropy(&tensor![1, 0; i64])?;
        x.sum_to([2])?;
        x.expand([3, 2, 2])?;
        x.broadcast_to([3, 2, 2])?;
        x.permute([1, 0])?;
        x.transpose(0, 1)?;
        x.t()?;
        x.movedim(0, 1)?;
        x.reshape(NewShape::from([4]))?;
        x.view([4])?;
        x.flatten(0, 1)?;
        x.squeeze(..)?;
        x.unsqueeze(0)?;
        x.flip(0)?;
        x.slice(Slice::new(0, 1, 1))?;
        x.narrow(0, 0, 1)?;
        x.select(0, 0)?;
        x.to_dtype(DType::F64);
        x.t()?.contiguous();
        x.gather(0, &index)?;
        x.scatter_add(&y, 0, &index)?;
        x.index_select(0, &one)?;
        x.index_add(&x.narrow(0, 0, 1)?, 0, &one)?;
        Var::cat(&[&x, &y], 0)?;
        Var::stack(&[&x, &y], 0)?;
        x.matmul(&y)?;
        x.linear(&y, None)?;
        x.linear(&y, Some(&r))?;
        fuse!(|x| x * 2.0).call([&x])?;
        fuse!(|x| x * 2.0).sum([&x], .., false)?;
        fuse!(|x| x * 2.0).mean([&x], .., false)?;
        after(z(), |v| v.add_(&y))?;
        after(z(), |v| v.sub_(&y))?;
        after(z(), |v| v.mul_(&y))?;
        after(z(), |v| v.div_(2.0))?;
        after(z(), |v| v.add_scaled_(&y, 0.5))?;
        after(z(), |v| v.sub_scaled_(&y, 0.5))?;
        after(z(), |v| v.div_floor_(&y))?;
        after(z(), |v| v.div_trunc_(&y))?;
        after(z(), |v| v.pow_(&y))?;
        after(z(), |v| v.clamp_(0.0, 1.0))?;
        after(z(), |v| v.clamp_min_(&y))?;
        after(z(), |v| v.clamp_max_(&y))?;
        after(z(), |v| v.slice_assign(0, &r))?;
    }
    Ok(())
}

/// Casts of operands are operations, too; a 0-d operand that would widen the others is cast.
#[test]
fn casts_on_the_way() -> Result<()> {
    let (x, y) = (tensor![1.0, 2.0].requires_grad(), Tensor::scalar(3.0).requires_grad());
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
        v[0].sum(.., false)
    };
    crate::value_and_grad(seen, &[&tensor![1.0]])?;
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
                    Var::from(Tensor::zeros(shape.as_slice(), DType::Bool))
                }
                _ => Tensor::full(shape.as_slice(), 0.5, DType::F64).requires_grad(),
            };
            let inputs: Vec<Var> = sample.inputs.iter().map(input).collect();
            let name = format!("{} ({})", row.name, sample.label);
            let result = (sample.run)(&inputs).unwrap_or_else(|e| panic!("{name}: {e}"));
            let at = recorded(&result);
            let text = std::fs::read_to_string(root.join(at.file())).expect("the file of the table");
            let line = text.lines().nth(at.line() as usize - 1).expect("a line of that file");
            let found = if row.is_pointwise() { line == "pointwise! {" } else { line.contains("|x| x[0].") };
            assert!(found, "{name} is recorded at {at}: {line}");
        }
    }
}
