//! Kernels that are no formulas: choices, truth functions, integer powers.

use super::formula::typed;
use super::{BlockKernel, doors};
use crate::dtype::{Block, BlockMut};

/// `cond ? a : b`, elementwise, for any element type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WhereKernel;

impl BlockKernel for WhereKernel {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        let Block::Bool(cond) = inputs[0] else { unreachable!("a condition is planned as bool") };
        match &mut outputs[0] {
            BlockMut::Bool(out) => doors::select(cond, typed(&inputs[1..]), out),
            BlockMut::I64(out) => doors::select(cond, typed(&inputs[1..]), out),
            BlockMut::F32(out) => doors::select(cond, typed(&inputs[1..]), out),
            BlockMut::F64(out) => doors::select(cond, typed(&inputs[1..]), out),
        }
    }
}

/// A truth function of two truth values; its four results are the bits of the number, `f(a, b)` at bit `2a + b`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogicKernel(pub(crate) u8);

impl BlockKernel for LogicKernel {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        let BlockMut::Bool(out) = &mut outputs[0] else { unreachable!("logic is planned as bool") };
        let [a, b]: [&[bool]; 2] = typed(inputs);
        for ((o, &a), &b) in out.iter_mut().zip(a).zip(b) {
            *o = (self.0 >> (2 * a as u8 + b as u8)) & 1 == 1;
        }
    }
}

/// A truth value, negated or not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnaryLogicKernel(pub(crate) bool);

impl BlockKernel for UnaryLogicKernel {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        let BlockMut::Bool(out) = &mut outputs[0] else { unreachable!("logic is planned as bool") };
        let [a]: [&[bool]; 1] = typed(inputs);
        for (o, &a) in out.iter_mut().zip(a) {
            *o = a ^ self.0;
        }
    }
}

/// A function of the bits of two integers.
pub(crate) struct BitKernel<F>(pub(crate) F);

impl<F: Fn(i64, i64) -> i64 + Send + Sync> BlockKernel for BitKernel<F> {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        let BlockMut::I64(out) = &mut outputs[0] else { unreachable!("bits are planned as i64") };
        let [a, b]: [&[i64]; 2] = typed(inputs);
        for ((o, &a), &b) in out.iter_mut().zip(a).zip(b) {
            *o = (self.0)(a, b);
        }
    }
}

/// The bits of integers, negated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotKernel;

impl BlockKernel for NotKernel {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        let BlockMut::I64(out) = &mut outputs[0] else { unreachable!("bits are planned as i64") };
        let [a]: [&[i64]; 1] = typed(inputs);
        for (o, &a) in out.iter_mut().zip(a) {
            *o = !a;
        }
    }
}

/// `|a|` with the sign of `b`, that of a zero or a NaN included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopysignKernel;

impl BlockKernel for CopysignKernel {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        fn each<T: Copy>(out: &mut [T], [a, b]: [&[T]; 2], f: impl Fn(T, T) -> T) {
            for ((o, &a), &b) in out.iter_mut().zip(a).zip(b) {
                *o = f(a, b);
            }
        }
        match &mut outputs[0] {
            BlockMut::F32(out) => each(out, typed(inputs), f32::copysign),
            BlockMut::F64(out) => each(out, typed(inputs), f64::copysign),
            other => unreachable!("signs are planned as floats, not {:?}", other.dtype()),
        }
    }
}

/// Which kind of number a float is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NumberKind {
    Nan,
    Infinite,
    Finite,
}

impl BlockKernel for NumberKind {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        fn each<T: Copy>(out: &mut [bool], x: &[T], f: impl Fn(T) -> bool) {
            for (o, &x) in out.iter_mut().zip(x) {
                *o = f(x);
            }
        }
        let BlockMut::Bool(out) = &mut outputs[0] else { unreachable!("kinds are planned to give bool") };
        match (inputs[0], self) {
            (Block::F32(x), NumberKind::Nan) => each(out, x, f32::is_nan),
            (Block::F32(x), NumberKind::Infinite) => each(out, x, f32::is_infinite),
            (Block::F32(x), NumberKind::Finite) => each(out, x, f32::is_finite),
            (Block::F64(x), NumberKind::Nan) => each(out, x, f64::is_nan),
            (Block::F64(x), NumberKind::Infinite) => each(out, x, f64::is_infinite),
            (Block::F64(x), NumberKind::Finite) => each(out, x, f64::is_finite),
            (other, _) => unreachable!("kinds of numbers were planned for {}", other.dtype()),
        }
    }
}

/// Integer powers by squaring, wrapping; negative exponents give 0, or the sign that 1 and -1 have, as in PyTorch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IntPowKernel;

impl BlockKernel for IntPowKernel {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        let BlockMut::I64(out) = &mut outputs[0] else { unreachable!("integer powers are planned as i64") };
        let [a, b]: [&[i64]; 2] = typed(inputs);
        for ((o, &a), &b) in out.iter_mut().zip(a).zip(b) {
            *o = int_pow(a, b);
        }
    }
}

fn int_pow(mut a: i64, mut b: i64) -> i64 {
    if b < 0 {
        return match a {
            1 => 1,
            -1 => 1 - 2 * (b & 1),
            _ => 0,
        };
    }
    let mut p = 1i64;
    while b > 0 {
        if b & 1 == 1 {
            p = p.wrapping_mul(a);
        }
        a = a.wrapping_mul(a);
        b >>= 1;
    }
    p
}
