//! Formulas written once over `Real` or `Num`, and the adaptors that make block kernels of them.

use std::ops::{Add, Div, Mul, Neg, Sub};

use super::{BlockKernel, doors};
use crate::dtype::{Block, BlockMut, DType, Element};
use crate::math::VecMath;

/// Numbers with the arithmetic that integers have too. Integers wrap.
pub trait Num:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Neg<Output = Self>
{
    /// The result of a comparison: `bool` for plain numbers.
    type Mask: Copy;
    /// A constant.
    fn lit(v: f64) -> Self;
    /// `self < o`
    fn lt(self, o: Self) -> Self::Mask;
    /// `self <= o`
    fn le(self, o: Self) -> Self::Mask;
    /// `self == o`
    fn eq(self, o: Self) -> Self::Mask;
    /// Whether both hold.
    fn and(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    /// Whether one holds.
    fn or(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    /// Whether it does not hold.
    fn not(a: Self::Mask) -> Self::Mask;
    /// `yes` where the mask holds, else `no`; the branch that is not taken has no influence, not even a NaN.
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self;
    /// `|self|`
    fn abs(self) -> Self;
    /// -1, 0 or 1; 0 for NaN, as in PyTorch.
    fn sign(self) -> Self;
    /// The larger one; NaN if either is.
    fn maximum(self, o: Self) -> Self;
    /// The smaller one; NaN if either is.
    fn minimum(self, o: Self) -> Self;

    /// `self > o`
    #[inline(always)]
    fn gt(self, o: Self) -> Self::Mask {
        o.lt(self)
    }
    /// `self >= o`
    #[inline(always)]
    fn ge(self, o: Self) -> Self::Mask {
        o.le(self)
    }
    /// `self != o`
    #[inline(always)]
    fn ne(self, o: Self) -> Self::Mask {
        Self::not(self.eq(o))
    }
    /// `self * self`
    #[inline(always)]
    fn square(self) -> Self {
        self * self
    }
}

/// Real numbers: what a gradient formula may use.
///
/// Implemented by lanes of a block kernel (`f32`, `f64`) and, in the graph crate, by recorded values, so that one
/// formula is both a fused kernel and the graph of the gradient.
pub trait Real:
    Num
    + Div<Output = Self>
    + Add<f64, Output = Self>
    + Sub<f64, Output = Self>
    + Mul<f64, Output = Self>
    + Div<f64, Output = Self>
{
    /// e to the power of `self`
    fn exp(self) -> Self;
    /// `exp(self) - 1`, accurate near 0
    fn expm1(self) -> Self;
    /// natural logarithm
    fn ln(self) -> Self;
    /// `ln(1 + self)`, accurate near 0
    fn log1p(self) -> Self;
    /// square root
    fn sqrt(self) -> Self;
    /// sine
    fn sin(self) -> Self;
    /// cosine
    fn cos(self) -> Self;
    /// hyperbolic tangent
    fn tanh(self) -> Self;
    /// `1 / (1 + exp(-self))`
    fn sigmoid(self) -> Self;
    /// the error function
    fn erf(self) -> Self;
    /// `self` to the power `o`
    fn pow(self, o: Self) -> Self;

    /// `self` to the power of a plain number. Half powers are roots, which keep the sign of a zero, as PyTorch's do.
    #[inline(always)]
    fn pow_number(self, exponent: f64) -> Self {
        if exponent == 0.5 {
            self.sqrt()
        } else if exponent == -0.5 {
            self.rsqrt()
        } else {
            self.pow(Self::lit(exponent))
        }
    }
    /// `1 / sqrt(self)`
    #[inline(always)]
    fn rsqrt(self) -> Self {
        Self::lit(1.0) / self.sqrt()
    }
    /// `1 / self`
    #[inline(always)]
    fn reciprocal(self) -> Self {
        Self::lit(1.0) / self
    }
    /// Whether it is NaN.
    #[inline(always)]
    fn is_nan(self) -> Self::Mask {
        self.ne(self)
    }
}

/// What a formula may ask of the literals in it: `1.0 - x` works like `x - 1.0`.
pub trait FloatOps<R>:
    Add<R, Output = R> + Sub<R, Output = R> + Mul<R, Output = R> + Div<R, Output = R>
{
}
impl<R, T: Add<R, Output = R> + Sub<R, Output = R> + Mul<R, Output = R> + Div<R, Output = R>> FloatOps<R>
    for T
{
}

/// The primitive floating-point types, as kernels see them.
#[allow(private_bounds, reason = "the vector functions are the crate's own")]
pub trait Float:
    Element
    + VecMath
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    #[doc(hidden)]
    fn of(v: f64) -> Self;
    #[doc(hidden)]
    fn abs_(self) -> Self;
    #[doc(hidden)]
    fn sqrt_(self) -> Self;
    #[doc(hidden)]
    fn is_nan_(self) -> bool;
}
macro_rules! float {
    ($t:ty) => {
        impl Float for $t {
            #[inline(always)]
            fn of(v: f64) -> $t {
                v as $t
            }
            #[inline(always)]
            fn abs_(self) -> $t {
                self.abs()
            }
            #[inline(always)]
            fn sqrt_(self) -> $t {
                self.sqrt()
            }
            #[inline(always)]
            fn is_nan_(self) -> bool {
                self.is_nan()
            }
        }
    };
}
float!(f32);
float!(f64);

/// One lane of a floating-point block. `FMA` says whether fused multiply-add is an instruction here.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Lane<T, const FMA: bool>(pub T);

macro_rules! lane_op {
    ($trait:ident, $f:ident, $op:tt) => {
        impl<T: Float, const FMA: bool> $trait for Lane<T, FMA> {
            type Output = Self;
            #[inline(always)]
            fn $f(self, o: Self) -> Self {
                Lane(self.0 $op o.0)
            }
        }
        impl<T: Float, const FMA: bool> $trait<f64> for Lane<T, FMA> {
            type Output = Self;
            #[inline(always)]
            fn $f(self, o: f64) -> Self {
                Lane(self.0 $op T::of(o))
            }
        }
        impl<T: Float, const FMA: bool> $trait<Lane<T, FMA>> for f64 {
            type Output = Lane<T, FMA>;
            #[inline(always)]
            fn $f(self, o: Lane<T, FMA>) -> Lane<T, FMA> {
                Lane(T::of(self) $op o.0)
            }
        }
    };
}
lane_op!(Add, add, +);
lane_op!(Sub, sub, -);
lane_op!(Mul, mul, *);
lane_op!(Div, div, /);

impl<T: Float, const FMA: bool> Neg for Lane<T, FMA> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Lane(-self.0)
    }
}

/// The comparisons and the mask algebra of plain numbers, on the wrapped value.
macro_rules! plain_masks {
    () => {
        type Mask = bool;
        #[inline(always)]
        fn lt(self, o: Self) -> bool {
            self.0 < o.0
        }
        #[inline(always)]
        fn le(self, o: Self) -> bool {
            self.0 <= o.0
        }
        #[inline(always)]
        fn eq(self, o: Self) -> bool {
            self.0 == o.0
        }
        #[inline(always)]
        fn and(a: bool, b: bool) -> bool {
            a & b
        }
        #[inline(always)]
        fn or(a: bool, b: bool) -> bool {
            a | b
        }
        #[inline(always)]
        fn not(a: bool) -> bool {
            !a
        }
        #[inline(always)]
        fn select(mask: bool, yes: Self, no: Self) -> Self {
            if mask { yes } else { no }
        }
    };
}

impl<T: Float, const FMA: bool> Num for Lane<T, FMA> {
    plain_masks!();
    #[inline(always)]
    fn lit(v: f64) -> Self {
        Lane(T::of(v))
    }
    #[inline(always)]
    fn abs(self) -> Self {
        Lane(self.0.abs_())
    }
    #[inline(always)]
    fn sign(self) -> Self {
        let above = if self.0 > T::of(0.0) { T::of(1.0) } else { T::of(0.0) };
        Lane(if self.0 < T::of(0.0) { T::of(-1.0) } else { above })
    }
    #[inline(always)]
    fn maximum(self, o: Self) -> Self {
        let larger = if self.0 > o.0 { self.0 } else { o.0 };
        Lane(if self.0.is_nan_() { self.0 } else { larger })
    }
    #[inline(always)]
    fn minimum(self, o: Self) -> Self {
        let smaller = if self.0 < o.0 { self.0 } else { o.0 };
        Lane(if self.0.is_nan_() { self.0 } else { smaller })
    }
}

macro_rules! lane_math {
    ($($f:ident),*) => {$(
        #[inline(always)]
        fn $f(self) -> Self {
            Lane(VecMath::$f::<FMA>(self.0))
        }
    )*};
}
impl<T: Float, const FMA: bool> Real for Lane<T, FMA> {
    lane_math!(exp, expm1, ln, log1p, sin, cos, tanh, sigmoid, erf);
    #[inline(always)]
    fn sqrt(self) -> Self {
        Lane(self.0.sqrt_())
    }
    #[inline(always)]
    fn pow(self, o: Self) -> Self {
        Lane(VecMath::pow::<FMA>(self.0, o.0))
    }
}

/// An integer with wrapping arithmetic, as PyTorch's.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Words(pub(crate) i64);

macro_rules! word_op {
    ($trait:ident, $f:ident, $w:ident) => {
        impl $trait for Words {
            type Output = Words;
            #[inline(always)]
            fn $f(self, o: Words) -> Words {
                Words(self.0.$w(o.0))
            }
        }
    };
}
word_op!(Add, add, wrapping_add);
word_op!(Sub, sub, wrapping_sub);
word_op!(Mul, mul, wrapping_mul);
impl Neg for Words {
    type Output = Words;
    #[inline(always)]
    fn neg(self) -> Words {
        Words(self.0.wrapping_neg())
    }
}
impl Num for Words {
    plain_masks!();
    #[inline(always)]
    fn lit(v: f64) -> Words {
        Words(v as i64)
    }
    #[inline(always)]
    fn abs(self) -> Words {
        Words(self.0.wrapping_abs())
    }
    #[inline(always)]
    fn sign(self) -> Words {
        Words(self.0.signum())
    }
    #[inline(always)]
    fn maximum(self, o: Words) -> Words {
        Words(self.0.max(o.0))
    }
    #[inline(always)]
    fn minimum(self, o: Words) -> Words {
        Words(self.0.min(o.0))
    }
}

/// A pointwise function of `N` real numbers, written once for every representation of them.
///
/// ```
/// use foldback_tensor::kernel::{FloatOps, Formula, Real, evaluate};
/// use foldback_tensor::tensor;
///
/// #[derive(Clone, Copy)]
/// struct TanhGradient;
/// impl Formula<2> for TanhGradient {
///     fn eval<R: Real>(&self, [g, y]: [R; 2]) -> R where f64: FloatOps<R> {
///         g * (1.0 - y * y)
///     }
/// }
/// let g = evaluate("tanh_backward", TanhGradient, [&tensor![2.0, 2.0], &tensor![0.0, 0.5]])?;
/// assert_eq!(g, tensor![2.0, 1.5]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
pub trait Formula<const N: usize>: Copy + Send + Sync {
    /// The value. Implementations are marked `#[inline(always)]` so that the loop around them vectorises.
    fn eval<R: Real>(&self, x: [R; N]) -> R
    where
        f64: FloatOps<R>;
}

/// A pointwise function that integers have too.
pub trait NumFormula<const N: usize>: Copy + Send + Sync {
    /// The value.
    fn eval<R: Num>(&self, x: [R; N]) -> R;
}

/// A pointwise relation of two numbers.
pub trait Compare: Copy + Send + Sync {
    /// Whether it holds.
    fn eval<R: Num>(&self, a: R, b: R) -> R::Mask;
}

/// A step that changes `M` numbers in place, given `N` others: an optimiser's update of a parameter and its state.
pub trait Update<const M: usize, const N: usize>: Copy + Send + Sync {
    /// The new values.
    fn eval<R: Real>(&self, state: [R; M], x: [R; N]) -> [R; M]
    where
        f64: FloatOps<R>;
}

/// The typed slices of all inputs, if each has type `T`.
#[inline]
pub(crate) fn typed<'a, T: Element, const N: usize>(inputs: &[Block<'a>]) -> [&'a [T]; N] {
    std::array::from_fn(|i| {
        T::slice(inputs[i]).expect("the plan casts every input to the type of the kernel")
    })
}

/// A [`Formula`] as a block kernel over `f32` or `f64`, whichever the output is.
#[derive(Clone, Copy, Debug)]
pub struct FloatKernel<F, const N: usize>(pub F);

impl<F: Formula<N>, const N: usize> BlockKernel for FloatKernel<F, N> {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        match &mut outputs[0] {
            BlockMut::F32(out) => doors::map_float::<f32, F, N>(&self.0, typed(inputs), out),
            BlockMut::F64(out) => doors::map_float::<f64, F, N>(&self.0, typed(inputs), out),
            other => unreachable!("a formula over real numbers was planned for {:?}", other.dtype()),
        }
    }
}

/// A [`NumFormula`] as a block kernel over `i64`, `f32` or `f64`.
#[derive(Clone, Copy, Debug)]
pub struct NumKernel<F, const N: usize>(pub F);

impl<F: NumFormula<N>, const N: usize> BlockKernel for NumKernel<F, N> {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        match &mut outputs[0] {
            BlockMut::F32(out) => doors::map_num_float::<f32, F, N>(&self.0, typed(inputs), out),
            BlockMut::F64(out) => doors::map_num_float::<f64, F, N>(&self.0, typed(inputs), out),
            BlockMut::I64(out) => doors::map_num_i64::<F, N>(&self.0, typed(inputs), out),
            BlockMut::Bool(_) => unreachable!("arithmetic was planned for bool"),
        }
    }
}

/// A [`Compare`] as a block kernel from two numbers to `bool`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompareKernel<C>(pub(crate) C);

impl<C: Compare> BlockKernel for CompareKernel<C> {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        let BlockMut::Bool(out) = &mut outputs[0] else {
            unreachable!("comparisons are planned to give bool")
        };
        match inputs[0].dtype() {
            DType::F32 => doors::compare_float::<f32, C>(&self.0, typed(inputs), out),
            DType::F64 => doors::compare_float::<f64, C>(&self.0, typed(inputs), out),
            DType::I64 => doors::compare_i64(&self.0, typed(inputs), out),
            DType::Bool => unreachable!("comparisons of bool are planned over i64"),
        }
    }
}

/// An [`Update`] as a block kernel whose outputs hold the state before and after.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpdateKernel<F, const M: usize, const N: usize>(F);

impl<F: Update<M, N>, const M: usize, const N: usize> UpdateKernel<F, M, N> {
    pub(crate) fn new(formula: F) -> Self {
        UpdateKernel(formula)
    }

    fn typed_run<T: Float>(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        let mut states = outputs.iter_mut();
        let state: [&mut [T]; M] = std::array::from_fn(|_| {
            let block = states.next().expect("one output per state");
            let len = block.len();
            T::slice_mut(block.range(0, len)).expect("the state is of one type")
        });
        doors::update::<T, F, M, N>(&self.0, state, typed(inputs));
    }
}

impl<F: Update<M, N>, const M: usize, const N: usize> BlockKernel for UpdateKernel<F, M, N> {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        match outputs[0].dtype() {
            DType::F32 => self.typed_run::<f32>(inputs, outputs),
            DType::F64 => self.typed_run::<f64>(inputs, outputs),
            other => unreachable!("an update was planned for {other}"),
        }
    }
}

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
