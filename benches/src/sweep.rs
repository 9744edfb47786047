//! The sweep: what an element costs in shapes, strides and types that nobody tuned for, beside the friendliest of its kind.
//!
//! A family is one piece of work; its first case is the friendly one. Every other should cost each element about as much:
//! one that takes more than half as long again, at the same number of elements, is a fault in the plan that it gets.

use std::fmt::Write;
use std::hint::black_box;

use foldback::Result;
use foldback::fuse;
use foldback::prelude::*;
use foldback::tensor::{Conv, DType};

/// A run of a case, whatever it returns being dropped in it.
pub type Run = Box<dyn FnMut() -> Result<()>>;

/// One way to bring so many elements to a piece of work.
pub struct Case {
    /// the piece of work
    pub family: &'static str,
    /// what is special about the operands
    pub name: &'static str,
    /// how long it may take per element, of the friendly case of its family
    pub allowed: f64,
    /// prepares a run over about so many elements, and says over how many exactly
    pub of: fn(usize) -> Result<(usize, Run)>,
}

/// The bound for almost all of them.
const ALLOWED: f64 = 1.5;

fn run<T>(mut f: impl FnMut() -> Result<T> + 'static) -> Run {
    Box::new(move || {
        black_box(f()?);
        Ok(())
    })
}

/// Values between 0.5 and 1.5 in a shape.
fn values(shape: &[usize]) -> Tensor {
    values_of(shape, DType::F32)
}

fn values_of(shape: &[usize], dtype: DType) -> Tensor {
    let n: usize = shape.iter().product();
    let list: Vec<f32> =
        (0..n).map(|i| 0.5 + (i.wrapping_mul(2_654_435_761) >> 8 & 0xffff) as f32 / 65_536.0).collect();
    Tensor::from_vec(list, shape).expect("as many values as the shape has").to(dtype)
}

/// The side of a square of about so many elements.
fn side(n: usize) -> usize {
    ((n as f64).sqrt() as usize).max(1)
}

/// Rows of this width that make about so many elements.
fn rows(n: usize, width: usize) -> [usize; 2] {
    [(n / width).max(1), width]
}

macro_rules! cases {
    ($(family $family:literal: $($name:literal $(allowed $allowed:literal)? => |$n:ident| $make:expr;)+)+) => {
        vec![$($(Case {
            family: $family,
            name: $name,
            allowed: cases!(@allowed $($allowed)?),
            of: |$n| $make,
        }),+),+]
    };
    (@allowed) => { ALLOWED };
    (@allowed $allowed:literal) => { $allowed };
}

/// A binary operation of two operands, in as many elements as the result has.
fn add_of(a: Tensor, b: Tensor) -> Result<(usize, Run)> {
    let n = a.add(&b)?.numel();
    Ok((n, run(move || a.add(&b))))
}

fn multiply_of(a: Tensor, b: Tensor) -> Result<(usize, Run)> {
    let n = a.mul(&b)?.numel();
    Ok((n, run(move || a.mul(&b))))
}

fn unary_of(a: Tensor, f: fn(&Tensor) -> Tensor) -> Result<(usize, Run)> {
    Ok((a.numel(), run(move || Ok(f(&a)))))
}

fn sum_of(a: Tensor, axes: &'static [isize]) -> Result<(usize, Run)> {
    Ok((a.numel(), run(move || a.sum(axes))))
}

/// Planes of ten rows of ten.
fn planes(n: usize) -> Tensor {
    values(&[(n / 100).max(1), 10, 10])
}

/// `(x * w).sum()` and back, of leaves of these shapes.
fn product_back(x: Tensor, w: Tensor) -> Result<(usize, Run)> {
    back(x, w, |x, w| x.mul(w)?.sum(..))
}

/// A loss of two leaves, and back.
fn back(x: Tensor, w: Tensor, loss: impl Fn(&Var, &Var) -> Result<Var> + 'static) -> Result<(usize, Run)> {
    let (n, x, w) = (x.numel(), x.requires_grad(), w.requires_grad());
    Ok((
        n,
        run(move || {
            x.zero_grad();
            w.zero_grad();
            loss(&x, &w)?.backward()
        }),
    ))
}

/// A product, in elements of the larger matrix.
fn product_of(a: Tensor, b: Tensor) -> Result<(usize, Run)> {
    let n = a.numel().max(b.numel());
    Ok((n, run(move || a.matmul(&b))))
}

/// All cases, the friendly one of each family first.
#[rustfmt::skip]
pub fn cases() -> Vec<Case> {
    cases! {
        family "add":
            "two rows" => |n| add_of(values(&[n]), values(&[n]));
            "a number" => |n| { let a = values(&[n]); Ok((n, run(move || a.add(1.5)))) };
            "bias of 1024" => |n| add_of(values(&rows(n, 1024)), values(&[1024]));
            "bias of 33" => |n| add_of(values(&rows(n, 33)), values(&[33]));
            "bias of 7" => |n| add_of(values(&rows(n, 7)), values(&[7]));
            "bias of 3" => |n| add_of(values(&rows(n, 3)), values(&[3]));
            "bias of 200 for each 25 rows" => |n| { let count = n.div_ceil(25 * 200); add_of(values(&[count, 25, 200]), values(&[count, 1, 200])) };
            "column of rows of 1024" => |n| add_of(values(&rows(n, 1024)), values(&[rows(n, 1024)[0], 1]));
            "column of rows of 7" => |n| add_of(values(&rows(n, 7)), values(&[rows(n, 7)[0], 1]));
            "column of rows of 3" => |n| add_of(values(&rows(n, 3)), values(&[rows(n, 3)[0], 1]));
            "column of rows of 77" => |n| add_of(values(&rows(n, 77)), values(&[rows(n, 77)[0], 1]));
            "row of 16 for each of 16 planes" => |n| { let count = n.div_ceil(16 * 33 * 16); add_of(values(&[count, 16, 33, 16]), values(&[16, 1, 16])) };
            "channels of images" => |n| add_of(values(&[n.div_ceil(32 * 49), 32, 7, 7]), values(&[32, 1, 1]));
            "square beside its transpose" => |n| { let s = side(n); add_of(values(&[s, s]), values(&[s, s]).t()) };
            "two transposed squares" => |n| { let s = side(n); add_of(values(&[s, s]).t(), values(&[s, s]).t()) };
            "heads before steps" => |n| add_of(values(&[n.div_ceil(8 * 16 * 32), 8, 16, 32]).transpose(1, 2)?, values(&[n.div_ceil(8 * 16 * 32), 16, 8, 32]));
            "turned around, beside what repeats" => |n| { let x = turned(n); let count = x.dims()[0]; add_of(x, values(&[count, 1, 10])) };
            "beside axes turned around" => |n| { let count = n.div_ceil(2000); add_of(values(&[count, 40, 50]), values(&[50, 40, count]).permute([2, 1, 0])?) };
            "long rows turned in two ways" => |n| { let count = n.div_ceil(10_000); add_of(values(&[10, 1000, count]).permute([0, 2, 1])?, values(&[1000, count, 10]).permute([2, 1, 0])?) };
            "axes turned, beside numbers" => |n| { let count = n.div_ceil(400); add_of(values(&[4, 100, count]).permute([2, 0, 1])?, values(&[count, 4, 1])) };
            "every second" => |n| add_of(values(&[2 * n]).slice(s![..;2])?, values(&[n]));
            "a band of columns" => |n| add_of(values(&[rows(n, 48)[0], 64]).narrow(1, 5, 48)?, values(&rows(n, 48)));
            "a band of 3 columns" => |n| add_of(values(&[rows(n, 3)[0], 8]).narrow(1, 2, 3)?, values(&rows(n, 3)));
            "turned round" => |n| add_of(values(&[n]).flip(0)?, values(&[n]));
            "outer" => |n| { let s = side(n); add_of(values(&[s, 1]), values(&[1, s])) };
            "outer of 3" => |n| add_of(values(&[(n / 3).max(1), 1]), values(&[1, 3]));
            "outer of three axes" => |n| { let s = side(n / 8); add_of(values(&[8, 1, s]), values(&[s, 1])) };

        family "add f64":
            "two rows" => |n| add_of(values_of(&[n], DType::F64), values_of(&[n], DType::F64));
            "bias of 7" => |n| add_of(values_of(&rows(n, 7), DType::F64), values_of(&[7], DType::F64));
            "bias of 3" => |n| add_of(values_of(&rows(n, 3), DType::F64), values_of(&[3], DType::F64));
            "column of rows of 7" => |n| add_of(values_of(&rows(n, 7), DType::F64), values_of(&[rows(n, 7)[0], 1], DType::F64));
            "column of rows of 50" => |n| add_of(values_of(&rows(n, 50), DType::F64), values_of(&[rows(n, 50)[0], 1], DType::F64));
            "outer" => |n| { let s = side(n); add_of(values_of(&[s, 1], DType::F64), values_of(&[1, s], DType::F64)) };
            "square beside its transpose" => |n| { let s = side(n); add_of(values_of(&[s, s], DType::F64), values_of(&[s, s], DType::F64).t()) };
            "every second" => |n| add_of(values_of(&[2 * n], DType::F64).slice(s![..;2])?, values_of(&[n], DType::F64));
            "f32 beside f64" => |n| add_of(values(&[n]), values_of(&[n], DType::F64));

        family "add i64":
            "two rows" => |n| add_of(values_of(&[n], DType::I64), values_of(&[n], DType::I64));
            "bias of 7" => |n| add_of(values_of(&rows(n, 7), DType::I64), values_of(&[7], DType::I64));
            "f64 beside i64" => |n| add_of(values_of(&[n], DType::I64), values_of(&[n], DType::F64));

        family "outer product":
            "two rows" => |n| multiply_of(values(&[n]), values(&[n]));
            "of two vectors" => |n| { let s = side(n); multiply_of(values(&[s, 1]), values(&[1, s])) };
            "of a column and a row of 1024" => |n| multiply_of(values(&[rows(n, 1024)[0], 1]), values(&[1, 1024]));
            "of a column and a row of 7" => |n| multiply_of(values(&[rows(n, 7)[0], 1]), values(&[1, 7]));
            "of a column and a row of 3" => |n| multiply_of(values(&[rows(n, 3)[0], 1]), values(&[1, 3]));
            "f64" allowed 3.0 => |n| { let s = side(n); multiply_of(values_of(&[s, 1], DType::F64), values_of(&[1, s], DType::F64)) };

        family "exp":
            "a row" => |n| unary_of(values(&[n]), Tensor::exp);
            "rows of 3" => |n| unary_of(values(&rows(n, 3)), Tensor::exp);
            "transposed" => |n| { let s = side(n); unary_of(values(&[s, s]).t(), Tensor::exp) };
            "a band of 3 columns" => |n| unary_of(values(&[rows(n, 3)[0], 8]).narrow(1, 2, 3)?, Tensor::exp);
            "every second" => |n| unary_of(values(&[2 * n]).slice(s![..;2])?, Tensor::exp);

        family "copy":
            "a row times one" => |n| { let a = values(&[n]); Ok((n, run(move || a.mul(1.0)))) };
            "transposed" => |n| { let s = side(n); unary_of(values(&[s, s]).t(), |a| a.contiguous()) };
            "transposed of 3 columns" => |n| unary_of(values(&rows(n, 3)).t(), |a| a.contiguous());
            "heads before steps" => |n| unary_of(values(&[n.div_ceil(8 * 16 * 32), 8, 16, 32]).transpose(1, 2)?, |a| a.contiguous());
            "channels last" => |n| unary_of(values(&[n.div_ceil(32 * 49), 32, 7, 7]).permute([0, 2, 3, 1])?, |a| a.contiguous());
            "every second" => |n| unary_of(values(&[2 * n]).slice(s![..;2])?, |a| a.contiguous());
            "repeated" => |n| { let a = values(&[rows(n, 64)[0], 1]); Ok((a.numel() * 64, run(move || a.repeat([1, 64])))) };
            "joined" => |n| { let [a, b] = [0, 1].map(|_| values(&[(n / 2).max(1)])); Ok((n, run(move || Tensor::cat(&[&a, &b], 0)))) };
            "joined by columns of 3" => |n| { let [a, b] = [0, 1].map(|_| values(&[(n / 6).max(1), 3])); Ok((n, run(move || Tensor::cat(&[&a, &b], 1)))) };
            "padded" => |n| { let a = values(&rows(n, 64)); Ok((n, run(move || a.pad([1, 1])))) };
            "to f64" allowed 2.0 => |n| unary_of(values(&[n]), |a| a.to(DType::F64));
            "rolled" => |n| { let a = values(&rows(n, 64)); Ok((n, run(move || a.roll(1, 1)))) };
            "lower triangle" => |n| { let s = side(n); let a = values(&[s, s]); Ok((n, run(move || Ok(a.tril())))) };

        family "rows picked":
            "in order, of 64" => |n| picked(n, 64, |i, _| i);
            "by chance, of 64" allowed 2.0 => |n| picked(n, 64, |i, m| i.wrapping_mul(2_654_435_761) % m);
            "in order, of 7" allowed 2.5 => |n| picked(n, 7, |i, _| i);
            "in order, of 1" allowed 6.0 => |n| picked(n, 1, |i, _| i);

        family "rows picked and back":
            "in order, of 64" => |n| picked_back(n, 64, |i, _| i);
            "by chance, of 64" allowed 2.0 => |n| picked_back(n, 64, |i, m| i.wrapping_mul(2_654_435_761) % m);
            "in order, of 7" allowed 2.5 => |n| picked_back(n, 7, |i, _| i);
            "by chance, of 7" allowed 5.0 => |n| picked_back(n, 7, |i, m| i.wrapping_mul(2_654_435_761) % m);
            "one row again and again, of 64" => |n| picked_back(n, 64, |_, _| 0);

        family "sum":
            "all" => |n| sum_of(values(&[n]), &[0]);
            "all of 3 rows" => |n| sum_of(values(&[3, (n / 3).max(1)]), &[0, 1]);
            "rows of 1024" => |n| sum_of(values(&rows(n, 1024)), &[1]);
            "columns of 1024" => |n| sum_of(values(&rows(n, 1024)), &[0]);
            "rows of 33" => |n| sum_of(values(&rows(n, 33)), &[1]);
            "rows of 7" => |n| sum_of(values(&rows(n, 7)), &[1]);
            "rows of 3" => |n| sum_of(values(&rows(n, 3)), &[1]);
            "columns of 33" => |n| sum_of(values(&rows(n, 33)), &[0]);
            "columns of 7" => |n| sum_of(values(&rows(n, 7)), &[0]);
            "columns of 3" => |n| sum_of(values(&rows(n, 3)), &[0]);
            "the middle axis" => |n| sum_of(values(&[n.div_ceil(64 * 64), 64, 64]), &[1]);
            "the middle of rows of 3" => |n| sum_of(values(&[n.div_ceil(64 * 3), 64, 3]), &[1]);
            "to the middle axis of 9 by 9" => |n| sum_of(values(&[n.div_ceil(81), 9, 9]), &[0, 2]);
            "channels of images" => |n| sum_of(values(&[n.div_ceil(32 * 49), 32, 7, 7]), &[0, 2, 3]);
            "channels of small images" => |n| sum_of(values(&[n.div_ceil(16 * 25), 16, 5, 5]), &[0, 2, 3]);
            "rows of a transposed square" => |n| { let s = side(n); sum_of(values(&[s, s]).t(), &[1]) };
            "all of a transposed square" => |n| { let s = side(n); sum_of(values(&[s, s]).t(), &[0, 1]) };
            "a band of columns" => |n| sum_of(values(&[rows(n, 48)[0], 64]).narrow(1, 5, 48)?, &[0]);
            "the middle axis, axes turned" => |n| sum_of(values(&[8, 64, n.div_ceil(512)]).permute([2, 1, 0])?, &[1]);

        family "sum f64":
            "all" => |n| sum_of(values_of(&[n], DType::F64), &[0]);
            "rows of 1024" => |n| sum_of(values_of(&rows(n, 1024), DType::F64), &[1]);
            "rows of 7" => |n| sum_of(values_of(&rows(n, 7), DType::F64), &[1]);
            "rows of 3" => |n| sum_of(values_of(&rows(n, 3), DType::F64), &[1]);
            "columns of 7" => |n| sum_of(values_of(&rows(n, 7), DType::F64), &[0]);
            "columns of 5 rows" => |n| sum_of(values_of(&[5, n.div_ceil(5)], DType::F64), &[0]);
            "columns of 300" => |n| sum_of(values_of(&rows(n, 300), DType::F64), &[0]);
            "the middle axis" => |n| sum_of(values_of(&[n.div_ceil(64 * 64), 64, 64], DType::F64), &[1]);
            "rows of a transposed square" => |n| { let s = side(n); sum_of(values_of(&[s, s], DType::F64).t(), &[1]) };

        family "max":
            "all" => |n| { let a = values(&[n]); Ok((n, run(move || a.amax(..)))) };
            "rows of 1024" => |n| { let a = values(&rows(n, 1024)); Ok((n, run(move || a.amax(1)))) };
            "columns of 1024" => |n| { let a = values(&rows(n, 1024)); Ok((n, run(move || a.amax(0)))) };
            "rows of 7" => |n| { let a = values(&rows(n, 7)); Ok((n, run(move || a.amax(1)))) };
            "columns of 7" => |n| { let a = values(&rows(n, 7)); Ok((n, run(move || a.amax(0)))) };

        family "choice":
            "a number or another" => |n| { let a = values(&[n]); Ok((n, run(move || a.mul(2.0)))) };
            "clamp" => |n| { let a = values(&[n]); Ok((n, run(move || a.clamp(0.7, 1.2)))) };
            "compare" => |n| { let [a, b] = [0, 1].map(|_| values(&[n])); Ok((n, run(move || a.lt(&b)))) };
            "where" => |n| { let [a, b] = [0, 1].map(|_| values(&[n])); let c = a.lt(1.0)?; Ok((n, run(move || c.where_cond(&a, &b)))) };
            "where by columns" => |n| { let a = values(&rows(n, 64)); let c = a.narrow(1, 0, 1)?.lt(1.0)?; Ok((n, run(move || c.where_cond(&a, 0.0)))) };
            "masked fill" => |n| { let a = values(&[n]); let c = a.lt(1.0)?; Ok((n, run(move || a.masked_fill(&c, 0.0)))) };
            "relu" => |n| unary_of(values(&[n]), Tensor::relu);
            "maximum" => |n| { let [a, b] = [0, 1].map(|_| values(&[n])); Ok((n, run(move || a.maximum(&b)))) };

        family "chain":
            "of products" => |n| { let [a, b] = [0, 1].map(|_| values(&[n])); Ok((n, run(move || Ok((&a * 2.0) * &b + 1.0)))) };
            "clamp in it" => |n| { let a = values(&[n]); Ok((n, run(move || (&a * 2.0).clamp(1.4, 2.4)?.add(1.0)))) };
            "where in it" => |n| { let [a, b] = [0, 1].map(|_| values(&[n])); let c = a.lt(1.0)?; Ok((n, run(move || c.where_cond(&a * 2.0, &b)?.add(1.0)))) };

        family "chain and back":
            "of products" => |n| back(values(&[n]), values(&[n]), |x, w| ((x * 2.0) * w + 1.0).sum(..));
            "clamp in it" => |n| back(values(&[n]), values(&[n]), |x, w| ((x * w).clamp(0.7, 1.2)? + 1.0).sum(..));
            "where in it" => |n| { let x = values(&[n]); let c = Var::from(x.lt(1.0)?); back(x, values(&[n]), move |x, w| (c.where_cond(x * 2.0, w)? + 1.0).sum(..)) };
            "where and clamp in it" => |n| { let x = values(&[n]); let c = Var::from(x.lt(1.0)?); back(x, values(&[n]), move |x, w| c.where_cond(x.clamp(0.7, 1.2)?, w)?.sum(..)) };

        family "fused":
            "operators" => |n| differences(values(&[n]), values(&[n]));
            "two rows" allowed 1.0 => |n| fused(values(&[n]), values(&[n]));
            "bias of 7" allowed 1.0 => |n| fused(values(&rows(n, 7)), values(&[7]));
            "column of rows of 3" allowed 1.0 => |n| fused(values(&rows(n, 3)), values(&[rows(n, 3)[0], 1]));
            "square beside its transpose" allowed 1.0 => |n| { let s = side(n); fused(values(&[s, s]), values(&[s, s]).t()) };
            "every second" allowed 1.0 => |n| fused(values(&[2 * n]).slice(s![..;2])?, values(&[n]));

        family "fused and back":
            "operators" => |n| square_back(values(&rows(n, 1024)), values(&[1024]));
            "row of 1024" allowed 1.0 => |n| fused_back(values(&rows(n, 1024)), values(&[1024]));
            "column of rows of 1024" allowed 1.0 => |n| fused_back(values(&rows(n, 1024)), values(&[rows(n, 1024)[0], 1]));
            "row of 33" allowed 1.0 => |n| fused_back(values(&rows(n, 33)), values(&[33]));
            "row of 7" allowed 1.0 => |n| fused_back(values(&rows(n, 7)), values(&[7]));
            "a number" allowed 1.0 => |n| fused_back(values(&[n]), values(&[1]));
            "channels of images" allowed 1.0 => |n| fused_back(values(&[n.div_ceil(32 * 49), 32, 7, 7]), values(&[32, 1, 1]));

        family "beside its transpose":
            "operators" => |n| { let s = side(n); differences(values(&[s, s]), values(&[s, s]).t()) };
            "fused" allowed 1.0 => |n| { let s = side(n); fused(values(&[s, s]), values(&[s, s]).t()) };

        family "beside its transpose, f64":
            "operators" => |n| { let s = side(n); differences(values_of(&[s, s], DType::F64), values_of(&[s, s], DType::F64).t()) };
            "fused" allowed 1.0 => |n| { let s = side(n); fused(values_of(&[s, s], DType::F64), values_of(&[s, s], DType::F64).t()) };

        family "beside its transpose and back":
            "operators" => |n| { let s = side(n); square_back(values(&[s, s]), values(&[s, s]).t()) };
            "fused" allowed 1.0 => |n| { let s = side(n); fused_back(values(&[s, s]), values(&[s, s]).t()) };

        family "behind a transpose and back":
            "operators" => |n| { let s = side(n); square_back(values(&[s, s]).t(), values(&[s, s])) };
            "fused" allowed 1.0 => |n| { let s = side(n); fused_back(values(&[s, s]).t(), values(&[s, s])) };

        family "behind turned axes and back":
            "operators" => |n| back(values(&[100, n.div_ceil(1500), 5, 3]).permute([1, 0, 3, 2])?, values(&[n.div_ceil(1500), 100, 1, 1]), |x, w| (x.relu() * w).sum(..));
            "fused" allowed 1.0 => |n| back(values(&[100, n.div_ceil(1500), 5, 3]).permute([1, 0, 3, 2])?, values(&[n.div_ceil(1500), 100, 1, 1]), |x, w| fuse!(|x, w| x.relu() * w).sum([x, w], ..));

        family "every second":
            "operators" => |n| differences(values(&[2 * n]).slice(s![..;2])?, values(&[n]));
            "fused" allowed 1.0 => |n| fused(values(&[2 * n]).slice(s![..;2])?, values(&[n]));

        family "every second and back":
            "operators" => |n| square_back(values(&[2 * n]).slice(s![..;2])?, values(&[n]));
            "fused" allowed 1.0 => |n| fused_back(values(&[2 * n]).slice(s![..;2])?, values(&[n]));

        family "rows of 7 and back":
            "operators" => |n| square_back(values(&rows(n, 7)), values(&[7]));
            "fused" allowed 1.0 => |n| fused_back(values(&rows(n, 7)), values(&[7]));

        family "two rows and back":
            "operators" => |n| square_back(values(&[n]), values(&[n]));
            "fused" allowed 1.0 => |n| fused_back(values(&[n]), values(&[n]));

        family "factor along the middle axis and back":
            "operators" => |n| product_back(values(&[n.div_ceil(32 * 1024), 32, 1024]), values(&[32, 1]));
            "fused" allowed 1.0 => |n| back(values(&[n.div_ceil(32 * 1024), 32, 1024]), values(&[32, 1]), |x, w| fuse!(|x, w| x * w).sum([x, w], ..));

        family "sine and back":
            "operators" => |n| back(values(&[n]), values(&[n]), |x, _| x.sin().sum(..));
            "fused" allowed 1.0 => |n| back(values(&[n]), values(&[n]), |x, _| fuse!(|x| x.sin()).sum([x], ..));

        family "tanh of a factor and back":
            "operators" => |n| back(values(&[n]), values(&[n]), |x, w| (x.tanh() * w).sum(..));
            "fused" allowed 1.0 => |n| back(values(&[n]), values(&[n]), |x, w| fuse!(|x, w| x.tanh() * w).sum([x, w], ..));

        family "a function of another and back":
            "operators" => |n| back(values(&[n]), values(&[n]), |x, w| (x.tanh() * w).exp().sum(..));
            "fused" allowed 1.0 => |n| back(values(&[n]), values(&[n]), |x, w| fuse!(|x, w| (x.tanh() * w).exp()).sum([x, w], ..));

        family "a function of a column and back":
            "operators" => |n| back(values(&rows(n, 1024)), values(&[rows(n, 1024)[0], 1]), |x, w| (x * w.exp()).sum(..));
            "fused" allowed 1.0 => |n| back(values(&rows(n, 1024)), values(&[rows(n, 1024)[0], 1]), |x, w| fuse!(|x, w| x * w.exp()).sum([x, w], ..));

        family "columns of rows of 100 and back":
            "operators" => |n| back(values(&rows(n, 100)), values(&[rows(n, 100)[0], 1]), |x, w| ((x - w) * w).sum(..));
            "fused" allowed 1.0 => |n| back(values(&rows(n, 100)), values(&[rows(n, 100)[0], 1]), |x, w| fuse!(|x, w| (x - w) * w).sum([x, w], ..));

        family "a quotient by a row and back":
            "operators" => |n| back(values(&rows(n, 1024)), values(&[1024]), |x, w| (x / (w.abs() + 1.0)).sum(..));
            "fused" allowed 1.0 => |n| back(values(&rows(n, 1024)), values(&[1024]), |x, w| fuse!(|x, w| x / (w.abs() + 1.0)).call([x, w])?.sum(..));

        family "three operations that are not summed and back":
            "operators" => |n| back(values(&[n]), values(&[n]), |x, w| (x * w + x).tanh().sum(..));
            "fused" allowed 1.0 => |n| back(values(&[n]), values(&[n]), |x, w| fuse!(|x, w| (x * w + x).tanh()).call([x, w])?.sum(..));

        family "turned around beside a middle axis and back":
            "operators" => |n| back(turned(n), values(&[7, 1]), |x, w| (x * w + x).sum(0)?.sum(..));
            "fused" allowed 1.0 => |n| back(turned(n), values(&[7, 1]), |x, w| fuse!(|x, w| x * w + x).sum([x, w], 0)?.sum(..));

        family "turned beside a middle axis and back":
            "operators" => |n| back(turned_planes(n), values(&[5, n.div_ceil(160), 1, 2]), |x, w| (x.relu() * w).sum(..));
            "fused" allowed 1.0 => |n| back(turned_planes(n), values(&[5, n.div_ceil(160), 1, 2]), |x, w| fuse!(|x, w| x.relu() * w).sum([x, w], ..));

        family "rows and columns of planes in f64 and back":
            "operators" => |n| back_of_three(lines_of_planes(n), |x, w, c| (x * w + c).tanh().sum(..));
            "fused" allowed 1.0 => |n| back_of_three(lines_of_planes(n), |x, w, c| fuse!(|x, w, c| (x * w + c).tanh()).call([x, w, c])?.sum(..));

        family "short rows of planes onto each other and back":
            "operators" => |n| back(values(&[9, n.div_ceil(900), 100]), values(&[9, 1, 100]), |x, w| (x * x + w).sum(0)?.sum(..));
            "fused" allowed 1.0 => |n| back(values(&[9, n.div_ceil(900), 100]), values(&[9, 1, 100]), |x, w| fuse!(|x, w| x * x + w).sum([x, w], 0)?.sum(..));

        family "rows of 2 of planes onto each other and back":
            "operators" => |n| back(values(&[128, n.div_ceil(1792), 7, 2]), values(&[128, 1, 7, 2]), |x, w| (x.relu() * w).sum([0, 1, 2])?.sum(..));
            "fused" allowed 1.0 => |n| back(values(&[128, n.div_ceil(1792), 7, 2]), values(&[128, 1, 7, 2]), |x, w| fuse!(|x, w| x.relu() * w).sum([x, w], [0, 1, 2])?.sum(..));

        family "to the middle axis of 9 by 9 and back":
            "operators" => |n| back(values(&[n.div_ceil(81), 9, 9]), values(&[9, 1]), |x, w| (x * w).square().sum([0, 2])?.sum(..));
            "fused" allowed 1.0 => |n| back(values(&[n.div_ceil(81), 9, 9]), values(&[9, 1]), |x, w| fuse!(|x, w| (x * w).square()).sum([x, w], [0, 2])?.sum(..));

        family "planes of rows of 7 to their middle axis and back":
            "operators" => |n| back_of_three(planes_of_rows_of_7(n), |x, w, c| (x * w + c).sum([0, 2])?.sum(..));
            "fused" allowed 1.0 => |n| back_of_three(planes_of_rows_of_7(n), |x, w, c| fuse!(|x, w, c| x * w + c).sum([x, w, c], [0, 2])?.sum(..));

        family "beside a transposed plane and a row, and back":
            "operators" => |n| back_of_three(beside_turned(n), |x, w, b| (x * w + b).sum(..));
            "fused" allowed 1.0 => |n| back_of_three(beside_turned(n), |x, w, b| fuse!(|x, w, b| x * w + b).call([x, w, b])?.sum(..));

        family "a value in f64 and back":
            "operators" => |n| back(values_of(&[n], DType::F64), values_of(&[n], DType::F64), |x, w| (x * w).tanh().sum(..));
            "fused" allowed 1.0 => |n| back(values_of(&[n], DType::F64), values_of(&[n], DType::F64), |x, w| fuse!(|x, w| (x * w).tanh()).call([x, w])?.sum(..));

        family "small planes and back":
            "operators" => |n| back(planes(n), values(&[planes(n).dims()[0], 1, 10]), |x, w| (x * w).square().sum(..));
            "fused" allowed 1.0 => |n| back(planes(n), values(&[planes(n).dims()[0], 1, 10]), |x, w| fuse!(|x, w| (x * w).square()).call([x, w])?.sum(..));

        family "two functions and back f64":
            "operators" => |n| back(values_of(&[n], DType::F64), values_of(&[n], DType::F64), |x, w| (x.sigmoid() * w.sin()).sum(..));
            "fused" allowed 1.0 => |n| back(values_of(&[n], DType::F64), values_of(&[n], DType::F64), |x, w| fuse!(|x, w| x.sigmoid() * w.sin()).sum([x, w], ..));

        family "gelu and back":
            "operators" => |n| back(values(&[n]), values(&[n]), |x, _| x.gelu().sum(..));
            "fused" allowed 1.0 => |n| back(values(&[n]), values(&[n]), |x, _| fuse!(|x| x.gelu()).sum([x], ..));

        family "product of a matrix":
            "with a vector" => |n| { let s = side(n); product_of(values(&[s, s]), values(&[s])) };
            "a vector with it" => |n| { let s = side(n); product_of(values(&[s]), values(&[s, s])) };
            "transposed, with a vector" => |n| { let s = side(n); product_of(values(&[s, s]).t(), values(&[s])) };
            "wide, with a vector" => |n| product_of(values(&[16, (n / 16).max(1)]), values(&[(n / 16).max(1)]));
            "tall, with a vector" => |n| product_of(values(&[(n / 16).max(1), 16]), values(&[16]));
            "a row with it" => |n| { let s = side(n); product_of(values(&[1, s]), values(&[s, s])) };
            "with a column" => |n| { let s = side(n); product_of(values(&[s, s]), values(&[s, 1])) };
            "two rows with it" allowed 2.0 => |n| { let s = side(n); product_of(values(&[2, s]), values(&[s, s])) };
            "with three columns" allowed 2.5 => |n| { let s = side(n); product_of(values(&[s, s]), values(&[s, 3])) };
            "deep: 4 rows with 4 columns" allowed 4.0 => |n| product_of(values(&[4, (n / 4).max(1)]), values(&[(n / 4).max(1), 4]));
            "a batch of small ones with vectors" => |n| { let b = (n / 64).max(1); product_of(values(&[b, 8, 8]), values(&[b, 8, 1])) };

        family "product of a matrix f64":
            "with a vector" => |n| { let s = side(n); product_of(values_of(&[s, s], DType::F64), values_of(&[s], DType::F64)) };
            "a vector with it" => |n| { let s = side(n); product_of(values_of(&[s], DType::F64), values_of(&[s, s], DType::F64)) };
            "transposed, with a vector" => |n| { let s = side(n); product_of(values_of(&[s, s], DType::F64).t(), values_of(&[s], DType::F64)) };
            "deep: 4 rows with 4 columns" allowed 4.0 => |n| product_of(values_of(&[4, (n / 4).max(1)], DType::F64), values_of(&[(n / 4).max(1), 4], DType::F64));

        family "deep thin product":
            "16 rows with 16 columns" => |n| product_of(values(&[16, (n / 16).max(1)]), values(&[(n / 16).max(1), 16]));
            "8 rows with 8 columns" => |n| product_of(values(&[8, (n / 8).max(1)]), values(&[(n / 8).max(1), 8]));
            "4 rows with 4 columns" => |n| product_of(values(&[4, (n / 4).max(1)]), values(&[(n / 4).max(1), 4]));
            "4 rows with 4 rows transposed" => |n| product_of(values(&[4, (n / 4).max(1)]), values(&[4, (n / 4).max(1)]).t());
            "3 rows with 5 columns" => |n| product_of(values(&[3, (n / 3).max(1)]), values(&[(n / 3).max(1), 5]));

        family "odd product":
            "rows of 256 with 16 columns" => |n| product_of(values(&rows(n, 256)), values(&[256, 16]));
            "rows of 256 with 10 columns" => |n| product_of(values(&rows(n, 256)), values(&[256, 10]));
            "rows of 256 with 10 rows transposed" => |n| product_of(values(&rows(n, 256)), values(&[10, 256]).t());
            "12 rows of 256 with columns" => |n| product_of(values(&[12, 256]), values(&[256, (n / 256).max(1)]));
            "10 rows of 256 transposed, with columns" => |n| product_of(values(&[256, 10]).t(), values(&[256, (n / 256).max(1)]));
            "8 rows of 256 with rows transposed" => |n| product_of(values(&[8, 256]), values(&rows(n, 256)).t());
            "8 deep rows with 12 columns" => |n| product_of(values(&[8, (n / 12).max(1)]), values(&[(n / 12).max(1), 12]));
            "rows of 5 with 7 columns" allowed 2.5 => |n| product_of(values(&rows(n, 5)), values(&[5, 7]));
            "32 rows of 4 with columns" allowed 2.5 => |n| product_of(values(&[32, 4]), values(&[4, (n / 32).max(1)]));
            "a column of 64 with a row" allowed 2.5 => |n| product_of(values(&[64, 1]), values(&[1, (n / 64).max(1)]));
            "6 rows of 15 with rows transposed" allowed 2.5 => |n| product_of(values(&[6, 15]), values(&rows(n, 15)).t());

        family "product and back":
            "two rows" => |n| product_back(values(&[n]), values(&[n]));
            "row of 1024" => |n| product_back(values(&rows(n, 1024)), values(&[1024]));
            "column of rows of 1024" => |n| product_back(values(&rows(n, 1024)), values(&[rows(n, 1024)[0], 1]));
            "row of 7" => |n| product_back(values(&rows(n, 7)), values(&[7]));
            "column of rows of 7" => |n| product_back(values(&rows(n, 7)), values(&[rows(n, 7)[0], 1]));
            "row of 3" => |n| product_back(values(&rows(n, 3)), values(&[3]));
            "column of rows of 3" => |n| product_back(values(&rows(n, 3)), values(&[rows(n, 3)[0], 1]));
            "a number" => |n| product_back(values(&[n]), values(&[1]));
            "channels of images" => |n| product_back(values(&[n.div_ceil(32 * 49), 32, 7, 7]), values(&[32, 1, 1]));
            "channels of small images" => |n| product_back(values(&[n.div_ceil(16 * 25), 16, 5, 5]), values(&[16, 1, 1]));
            "square beside its transpose" => |n| { let s = side(n); product_back(values(&[s, s]), values(&[s, s]).t()) };

        family "product and back f64":
            "two rows" => |n| product_back(values_of(&[n], DType::F64), values_of(&[n], DType::F64));
            "column of rows of 1024" => |n| product_back(values_of(&rows(n, 1024), DType::F64), values_of(&[rows(n, 1024)[0], 1], DType::F64));
            "row of 7" => |n| product_back(values_of(&rows(n, 7), DType::F64), values_of(&[7], DType::F64));
            "row of 3" => |n| product_back(values_of(&rows(n, 3), DType::F64), values_of(&[3], DType::F64));
            "square beside its transpose" => |n| { let s = side(n); product_back(values_of(&[s, s], DType::F64), values_of(&[s, s], DType::F64).t()) };

        family "softmax":
            "rows of 1024" => |n| softmax_of(values(&rows(n, 1024)), 1);
            "rows of 33" => |n| softmax_of(values(&rows(n, 33)), 1);
            "rows of 7" allowed 2.0 => |n| softmax_of(values(&rows(n, 7)), 1);
            "columns of 64" => |n| softmax_of(values(&rows(n, 64)), 0);
            "the middle axis" => |n| softmax_of(values(&[n.div_ceil(64 * 16), 64, 16]), 1);
            "7 channels of images" => |n| softmax_of(values(&[n.div_ceil(7 * 400), 7, 400]), 1);
            "the middle of rows of 8" => |n| softmax_of(values(&[n.div_ceil(33 * 8), 33, 8]), 1);
            "columns of 32, axes turned" => |n| softmax_of(values(&[n.div_ceil(64 * 32), 32, 64]).permute([2, 0, 1])?, 1);
            "the middle axis of 2, others turned" => |n| softmax_of(values(&[n.div_ceil(80), 2, 10, 4]).permute([0, 1, 3, 2])?, 1);
            "the first axis turned behind" => |n| softmax_of(values(&[32, n.div_ceil(64 * 32), 64]).permute([2, 1, 0])?, 2);

        family "running sum":
            "rows of 1024" => |n| running_sum_of(values(&rows(n, 1024)), 1);
            "rows of 33" => |n| running_sum_of(values(&rows(n, 33)), 1);
            "rows of 3" => |n| running_sum_of(values(&rows(n, 3)), 1);
            "along 3 rows" => |n| running_sum_of(values(&[3, n.div_ceil(3)]), 0);
            "columns of 64" => |n| running_sum_of(values(&rows(n, 64)), 0);
            "columns of 3" => |n| running_sum_of(values(&rows(n, 3)), 0);
            "the middle axis" => |n| running_sum_of(values(&[n.div_ceil(64 * 16), 64, 16]), 1);
            "rows of a transposed square" => |n| { let s = side(n); running_sum_of(values(&[s, s]).t(), 1) };

        family "depthwise convolution":
            "28 by 28" => |n| depthwise(&[n.div_ceil(16 * 784), 16, 28, 28]);
            "14 by 14" => |n| depthwise(&[n.div_ceil(16 * 196), 16, 14, 14]);
            "5 by 5" allowed 2.5 => |n| depthwise(&[n.div_ceil(16 * 25), 16, 5, 5]);
    }
}

fn running_sum_of(a: Tensor, axis: isize) -> Result<(usize, Run)> {
    Ok((a.numel(), run(move || a.cumsum(axis))))
}

/// 3 by 3, of images of so many channels.
fn depthwise(shape: &[usize; 4]) -> Result<(usize, Run)> {
    let (x, w) = (values(shape), values(&[shape[1], 1, 3, 3]));
    let same = Conv::new().padding(1).groups(shape[1]);
    Ok((x.numel(), run(move || x.conv2d_with(&w, same))))
}

fn softmax_of(a: Tensor, axis: isize) -> Result<(usize, Run)> {
    Ok((a.numel(), run(move || a.softmax(axis))))
}

fn differences(a: Tensor, b: Tensor) -> Result<(usize, Run)> {
    Ok((a.numel(), run(move || Ok((&a - &b) * (&a - &b) * 0.5))))
}

/// The same in one pass.
fn fused(a: Tensor, b: Tensor) -> Result<(usize, Run)> {
    let f = fuse!(|a, b| (a - b) * (a - b) * 0.5);
    let (n, [a, b]) = (a.numel(), [a, b].map(Var::from));
    Ok((n, run(move || f.call([&a, &b]))))
}

/// [n, 7, 10], of which the first axis lies innermost.
fn turned(n: usize) -> Tensor {
    values(&[10, 7, n.div_ceil(70)]).permute([2, 1, 0]).expect("three axes")
}

/// [5, n, 16, 2], of which the last axis lies outermost.
fn turned_planes(n: usize) -> Tensor {
    values(&[2, n.div_ceil(160), 16, 5]).permute([3, 1, 2, 0]).expect("four axes")
}

/// Planes, and a row and a column of each, in `f64`.
fn lines_of_planes(n: usize) -> [Tensor; 3] {
    let rows = n.div_ceil(17 * 77);
    [[17, rows, 77], [17, 1, 77], [17, rows, 1]].map(|shape| values_of(&shape, DType::F64))
}

/// Planes of rows of 7, beside rows that repeat and a number for each row.
fn planes_of_rows_of_7(n: usize) -> [Tensor; 3] {
    let rows = n.div_ceil(2100);
    [values(&[300, rows, 7]), values(&[300, 1, 7]), values(&[rows, 1])]
}

/// Planes of 6 by 256, a transposed one, and a row.
fn beside_turned(n: usize) -> [Tensor; 3] {
    [values(&[n.div_ceil(6 * 256), 6, 256]), values(&[256, 6]).t(), values(&[256])]
}

/// A loss of three leaves, and back.
fn back_of_three(
    [x, y, z]: [Tensor; 3],
    loss: impl Fn(&Var, &Var, &Var) -> Result<Var> + 'static,
) -> Result<(usize, Run)> {
    let z = z.requires_grad();
    back(x, y, move |x, y| {
        z.zero_grad();
        loss(x, y, &z)
    })
}

/// `((x * w + w)^2).sum()` and back, of leaves of these shapes.
fn square_back(x: Tensor, w: Tensor) -> Result<(usize, Run)> {
    back(x, w, |x, w| (x * w + w).square().sum(..))
}

/// The same in one pass each way.
fn fused_back(x: Tensor, w: Tensor) -> Result<(usize, Run)> {
    let f = fuse!(|x, w| (x * w + w).square());
    back(x, w, move |x, w| f.sum([x, w], ..))
}

fn picked(n: usize, width: usize, at: fn(usize, usize) -> usize) -> Result<(usize, Run)> {
    let [count, width] = rows(n, width);
    let (a, places) = (values(&[count, width]), places(count, at)?);
    Ok((a.numel(), run(move || a.index_select(0, &places))))
}

/// Rows picked, times others, and back: the gradient that reaches them differs from element to element.
fn picked_back(n: usize, width: usize, at: fn(usize, usize) -> usize) -> Result<(usize, Run)> {
    let [count, width] = rows(n, width);
    let places = places(count, at)?;
    let [a, b] = [0, 1].map(|_| values(&[count, width]));
    back(a, b, move |a, b| a.index_select(0, &places)?.mul(b)?.sum(..))
}

/// Which row stands in each place.
fn places(count: usize, at: fn(usize, usize) -> usize) -> Result<Tensor> {
    Tensor::from_vec((0..count).map(|i| at(i, count) as i64).collect::<Vec<_>>(), [count])
}

/// A case that has been measured, at every size.
pub struct Measured {
    /// what was measured
    pub case: Case,
    /// its time per element, as a multiple of that of the friendly case
    pub over_friendly: Vec<f64>,
    /// the same of PyTorch's time for this case
    pub over_peer: Option<Vec<f64>>,
}

/// An SVG picture: a row for each case, a cell for each size, with the multiple of the friendly case's time, and behind it that
/// of PyTorch's, the redder the more of what is allowed it is.
pub fn picture(sizes: &[usize], all: &[Measured]) -> String {
    const LEFT: usize = 330;
    const CELL: usize = 92;
    const LINE: usize = 18;
    let (width, height) = (LEFT + CELL * sizes.len() + 10, LINE * (all.len() + 2));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    let mut text = |x: usize, line: usize, text: &str| {
        let y = LINE * line + 13;
        writeln!(svg, "<text x=\"{x}\" y=\"{y}\">{text}</text>").expect("a string takes any text");
    };
    for (i, n) in sizes.iter().enumerate() {
        text(LEFT + CELL * i + 4, 0, &format!("{n:e} elements"));
    }
    for (line, measured) in all.iter().enumerate() {
        text(8, line + 1, &format!("{}: {}", measured.case.family, measured.case.name));
    }
    for (line, measured) in all.iter().enumerate() {
        for (i, &ratio) in measured.over_friendly.iter().enumerate() {
            let (x, y) = (LEFT + CELL * i, LINE * (line + 1));
            // White up to what is allowed, red from three times that on.
            let share = ((ratio / measured.case.allowed).ln() / 3f64.ln()).clamp(0.0, 1.0);
            let rest = (235.0 - 140.0 * share) as u8;
            let beside =
                measured.over_peer.as_ref().map_or(String::new(), |peer| format!(" ({:.2})", peer[i]));
            writeln!(
                svg,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" fill=\"rgb(235,{rest},{rest})\"/>\
                 <text x=\"{}\" y=\"{}\">{ratio:.2}{beside}</text>",
                CELL - 2,
                LINE - 2,
                x + 4,
                y + 13
            )
            .expect("a string takes any text");
        }
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_runs_at_every_size() {
        for case in cases() {
            for n in [1, 7, 100, 5000] {
                let (elements, mut run) = (case.of)(n).unwrap_or_else(|e| panic!("{}: {e}", case.name));
                assert!(elements > 0, "{} of {n}", case.name);
                run().unwrap_or_else(|e| panic!("{}: {e}", case.name));
            }
        }
    }

    #[test]
    fn names_are_unique_in_their_family_and_known_to_the_script() {
        let script = include_str!("../python/sweep.py");
        let mut seen = std::collections::HashSet::new();
        for case in cases() {
            assert!(seen.insert((case.family, case.name)), "{}: {}", case.family, case.name);
            assert!(script.contains(&format!("\"{}\": ", case.family)), "{}", case.family);
        }
    }

    #[test]
    fn a_picture_has_a_cell_for_each_case_and_size() {
        let measured = |case| Measured { case, over_friendly: vec![1.0, 4.0], over_peer: None };
        let svg = picture(&[10, 100], &cases().into_iter().take(3).map(measured).collect::<Vec<_>>());
        assert_eq!(svg.matches("<rect").count(), 1 + 6);
        assert!(svg.contains("rgb(235,235,235)") && svg.contains("4.00"));
    }
}
