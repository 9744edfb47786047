//! The doors: one function per instruction-set level around each kind of loop, and the only calls that need proof
//! that the processor has the level.
//!
//! A loop's body is `#[inline(always)]` and generic over the formula; a door is the same body inside a function with
//! the level's features switched on, so the compiler vectorises it for that level.

use super::each;
use super::formula::{Compare, Formula, NumFormula, Update};
use super::lane::{Float, Lane, Words};
use super::level::{Level, level};
use super::near::{InLoop, Near, pieces};
use super::real::FloatOps;
use crate::dtype::{Block, BlockMut, Element};

/// Writes a public function that picks the level and the doors behind it, from a loop body.
///
/// `FMA` in the body stands for whether fused multiply-add is an instruction at that level. With `narrow` behind it, a loop
/// has no door of its own for AVX-512: one that mostly waits for what it reads gains nothing by wider vectors, which some processors
/// work off in two halves (there a running sum takes 0.8 of the time with AVX2, a sum of rows 0.9).
/// With `wide` behind it, there is no door for the level below AVX2, which must not be asked for then: a formula's loops cost compile
/// time.
macro_rules! door {
    (@level $level:ident $features:literal [$($generics:tt)*][$($args:tt)*]($($arg:ident: $ty:ty),*) [$($ret:ty)?] $body:ident) => {
        #[target_feature(enable = $features)]
        fn $level<$($generics)*>($($arg: $ty),*) $(-> $ret)? {
            $body::<true, $($args)*>($($arg),*)
        }
    };
    ($(#[$doc:meta])* $vis:vis fn $name:ident[$($generics:tt)*][$($args:tt)*]($($arg:ident: $ty:ty),*) $(-> $ret:ty)? ; body $body:ident wide) => {
        $(#[$doc])*
        #[inline]
        $vis fn $name<$($generics)*>($($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                $crate::kernels::doors::door!(@level avx2 "avx2,fma" [$($generics)*][$($args)*]($($arg: $ty),*) [$($ret)?] $body);
                $crate::kernels::doors::door!(@level avx512 "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma" [$($generics)*][$($args)*]($($arg: $ty),*) [$($ret)?] $body);
                // Whoever forces a lower level meanwhile has it from the next walk on.
                match level().max(Level::Avx2).min(detected_level()) {
                    // SAFETY: what is detected on this processor is never exceeded, and `Avx512` is only detected where
                    // every feature named above is present.
                    Level::Avx512 => unsafe { avx512::<$($args)*>($($arg),*) },
                    // SAFETY: as above, for AVX2 and FMA.
                    Level::Avx2 => unsafe { avx2::<$($args)*>($($arg),*) },
                    Level::Baseline => unreachable!("there are no loops for this level"),
                }
            }
            #[cfg(not(target_arch = "x86_64"))]
            $body::<false, $($args)*>($($arg),*)
        }
    };
    ($(#[$doc:meta])* $vis:vis fn $name:ident[$($generics:tt)*][$($args:tt)*]($($arg:ident: $ty:ty),*) $(-> $ret:ty)? ; body $body:ident narrow) => {
        $(#[$doc])*
        #[inline]
        $vis fn $name<$($generics)*>($($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                $crate::kernels::doors::door!(@level avx2 "avx2,fma" [$($generics)*][$($args)*]($($arg: $ty),*) [$($ret)?] $body);
                if level() >= Level::Avx2 {
                    // SAFETY: `level` never exceeds what was detected on this processor.
                    return unsafe { avx2::<$($args)*>($($arg),*) };
                }
            }
            $body::<false, $($args)*>($($arg),*)
        }
    };
    ($(#[$doc:meta])* $vis:vis fn $name:ident[$($generics:tt)*][$($args:tt)*]($($arg:ident: $ty:ty),*) $(-> $ret:ty)? ; body $body:ident) => {
        $(#[$doc])*
        #[inline]
        $vis fn $name<$($generics)*>($($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                $crate::kernels::doors::door!(@level avx2 "avx2,fma" [$($generics)*][$($args)*]($($arg: $ty),*) [$($ret)?] $body);
                $crate::kernels::doors::door!(@level avx512 "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma" [$($generics)*][$($args)*]($($arg: $ty),*) [$($ret)?] $body);
                match level() {
                    // SAFETY: `level` never exceeds what was detected on this processor, and `Avx512` is only
                    // detected where every feature named above is present.
                    Level::Avx512 => return unsafe { avx512::<$($args)*>($($arg),*) },
                    // SAFETY: as above, for AVX2 and FMA.
                    Level::Avx2 => return unsafe { avx2::<$($args)*>($($arg),*) },
                    Level::Baseline => {}
                }
            }
            $body::<false, $($args)*>($($arg),*)
        }
    };
}
pub(super) use door;

/// Cuts every input to the length of the output, so that the loop behind needs no bounds checks. A plain loop: the closures
/// of `array::map` are not inlined into a door, and would be generated for every formula.
#[inline(always)]
fn shorten<T, const N: usize>(x: &mut [&[T]; N], n: usize) {
    for s in x {
        *s = &s[..n];
    }
}

/// The loop of a formula over numbers of one kind. Where the formula takes a number for an input, there is a loop for either of two
/// that is one.
macro_rules! formula_loop {
    ($F:ty, $N:ident, $f:ident, $x:ident, $out:ident, $number:expr, $start:expr) => {
        let n = $out.len();
        if <$F>::TAKES_A_NUMBER && $N == 2 && n > 1 {
            let [a, b] = [$x[0], $x[1]];
            if b.len() == 1 {
                let (a, b) = (&a[..n], $number(b[0]));
                for i in 0..n {
                    $out[i] = $f.eval(each($start, |k| if k == 0 { $number(a[i]) } else { b })).0;
                }
                return;
            }
            if a.len() == 1 {
                let (a, b) = ($number(a[0]), &b[..n]);
                for i in 0..n {
                    $out[i] = $f.eval(each($start, |k| if k == 0 { a } else { $number(b[i]) })).0;
                }
                return;
            }
        }
        shorten(&mut $x, n);
        for i in 0..n {
            $out[i] = $f.eval(each($start, |k| $number($x[k][i]))).0;
        }
    };
}

door! {
    /// `out[i] = f(x[0][i], x[1][i], ...)` for real numbers.
    pub(crate) fn map_float[T: Float, F: Formula<N>, const N: usize][T, F, N](f: &F, x: [&[T]; N], out: &mut [T]);
    body map_float_body
}
#[inline(always)]
fn map_float_body<const FMA: bool, T: Float, F: Formula<N>, const N: usize>(
    f: &F,
    mut x: [&[T]; N],
    out: &mut [T],
) where
    f64: FloatOps<Lane<T, FMA>> + FloatOps<Near<T, FMA>>,
{
    const { assert!(!(F::NEAR && F::TAKES_A_NUMBER), "operands of near loops are all as long as the result") };
    // Of a constant condition only the branch that is taken is compiled.
    if const { F::NEAR } {
        for piece in pieces(out.len()) {
            let mut x = each::<_, N>(&[][..], |k| &x[k][piece.clone()]);
            let out = &mut out[piece];
            let mut gathered = Default::default();
            for i in 0..out.len() {
                let y = f.eval(each(Near::<T, FMA>::of(T::of(0.0)), |k| InLoop::of(x[k][i])));
                out[i] = y.result(&mut gathered);
            }
            if !Near::<T, FMA>::are_right(gathered) {
                formula_loop!(F, N, f, x, out, Lane::<T, FMA>, Lane(T::of(0.0)));
            }
        }
    } else {
        formula_loop!(F, N, f, x, out, Lane::<T, FMA>, Lane(T::of(0.0)));
    }
}

door! {
    /// The same for functions that integers have too, on real numbers.
    pub(crate) fn map_num_float[T: Float, F: NumFormula<N>, const N: usize][T, F, N](f: &F, x: [&[T]; N], out: &mut [T]);
    body map_num_float_body
}
#[inline(always)]
fn map_num_float_body<const FMA: bool, T: Float, F: NumFormula<N>, const N: usize>(
    f: &F,
    mut x: [&[T]; N],
    out: &mut [T],
) {
    formula_loop!(F, N, f, x, out, Lane::<T, FMA>, Lane(T::of(0.0)));
}

door! {
    /// The same on integers.
    pub(crate) fn map_num_i64[F: NumFormula<N>, const N: usize][F, N](f: &F, x: [&[i64]; N], out: &mut [i64]);
    body map_num_i64_body
}
#[inline(always)]
fn map_num_i64_body<const FMA: bool, F: NumFormula<N>, const N: usize>(
    f: &F,
    mut x: [&[i64]; N],
    out: &mut [i64],
) {
    formula_loop!(F, N, f, x, out, Words, Words(0));
}

door! {
    /// `out[i] = relation(a[i], b[i])` for real numbers.
    pub(crate) fn compare_float[T: Float, C: Compare][T, C](c: &C, x: [&[T]; 2], out: &mut [bool]);
    body compare_float_body
}
#[inline(always)]
fn compare_float_body<const FMA: bool, T: Float, C: Compare>(c: &C, x: [&[T]; 2], out: &mut [bool]) {
    for ((o, &a), &b) in out.iter_mut().zip(x[0]).zip(x[1]) {
        *o = c.eval::<Lane<T, FMA>>(Lane(a), Lane(b));
    }
}

door! {
    /// `out[i] = relation(a[i], b[i])` for integers.
    pub(crate) fn compare_i64[C: Compare][C](c: &C, x: [&[i64]; 2], out: &mut [bool]);
    body compare_i64_body
}
#[inline(always)]
fn compare_i64_body<const FMA: bool, C: Compare>(c: &C, x: [&[i64]; 2], out: &mut [bool]) {
    for ((o, &a), &b) in out.iter_mut().zip(x[0]).zip(x[1]) {
        *o = c.eval::<Words>(Words(a), Words(b));
    }
}

door! {
    /// `state[..][i] = f(state[..][i], x[..][i])`, all states in one pass.
    pub(crate) fn update[T: Float, F: Update<M, N>, const M: usize, const N: usize][T, F, M, N](f: &F, state: [&mut [T]; M], x: [&[T]; N]);
    body update_body
}
#[inline(always)]
fn update_body<const FMA: bool, T: Float, F: Update<M, N>, const M: usize, const N: usize>(
    f: &F,
    mut state: [&mut [T]; M],
    mut x: [&[T]; N],
) where
    f64: FloatOps<Lane<T, FMA>>,
{
    let n = state.first().map_or(0, |s| s.len());
    shorten(&mut x, n);
    for s in &mut state {
        *s = &mut std::mem::take(s)[..n];
    }
    for i in 0..n {
        let new = f.eval::<Lane<T, FMA>>(
            each(Lane(T::of(0.0)), |k| Lane(state[k][i])),
            each(Lane(T::of(0.0)), |k| Lane(x[k][i])),
        );
        for k in 0..M {
            state[k][i] = new[k].0;
        }
    }
}

door! {
    /// `sum[i] += x[i]`
    fn add_slice[T: Float][T](sum: &mut [T], x: &[T]);
    body add_slice_body
}
#[inline(always)]
fn add_slice_body<const FMA: bool, T: Float>(sum: &mut [T], x: &[T]) {
    for (s, &v) in sum.iter_mut().zip(x) {
        *s = *s + v;
    }
}

/// Adds a block of real numbers to another one of the same type.
pub(crate) fn add_to(sum: BlockMut<'_>, x: Block<'_>) {
    match (sum, x) {
        (BlockMut::F32(sum), Block::F32(x)) => add_slice(sum, x),
        (BlockMut::F64(sum), Block::F64(x)) => add_slice(sum, x),
        _ => unreachable!("gradients are real numbers of one type"),
    }
}

door! {
    /// `out[i] = if cond[i] { x[0][i] } else { x[1][i] }`
    pub(crate) fn select[T: Element][T](cond: &[bool], x: [&[T]; 2], out: &mut [T]);
    body select_body
}
#[inline(always)]
fn select_body<const FMA: bool, T: Element>(cond: &[bool], x: [&[T]; 2], out: &mut [T]) {
    // A branch between two elements becomes a load from the place of one of them, which is a gather of them all.
    for (((o, &c), &a), &b) in out.iter_mut().zip(cond).zip(x[0]).zip(x[1]) {
        *o = std::hint::select_unpredictable(c, a, b);
    }
}
