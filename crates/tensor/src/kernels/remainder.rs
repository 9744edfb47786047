//! Remainders of floating-point division: exact, and in vectors where the quotient is small enough.

use super::doors::door;
use super::lane::Float;
use super::level::{Level, level};
use super::{BlockKernel, typed};
use crate::dtype::{Block, BlockMut};

/// What a quotient leaves that is rounded towards zero, or downwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remainder {
    Trunc,
    Floor,
}

impl BlockKernel for Remainder {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        let floor = *self == Remainder::Floor;
        match &mut outputs[0] {
            BlockMut::F32(out) => remainders(typed(inputs), out, floor, |a: f32, b| a % b, f32::copysign),
            BlockMut::F64(out) => remainders(typed(inputs), out, floor, |a: f64, b| a % b, f64::copysign),
            BlockMut::I64(out) => {
                let [a, b]: [&[i64]; 2] = typed(inputs);
                for ((o, &a), &b) in out.iter_mut().zip(a).zip(b) {
                    let rest = a.wrapping_rem(b);
                    *o = if floor && rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest };
                }
            }
            BlockMut::Bool(_) => unreachable!("remainders of truth values are refused"),
        }
    }
}

door! {
    /// `out[i]` is what `x[0][i] / x[1][i]` leaves; `exact` is C's `fmod`, `signed` gives a number another one's sign.
    fn remainders[T: Float, E: Fn(T, T) -> T, S: Fn(T, T) -> T][T, E, S](x: [&[T]; 2], out: &mut [T], floor: bool, exact: E, signed: S);
    body remainders_body
}

/// A quotient `q` below 2^21, rounded to a whole number, is right or one too large. Then `a - q b` is a multiple of the last place
/// of `b` that is no larger than `b`, so that a fused step gives it exactly, and so does adding `b`. What is left is done one by
/// one, and so is everything where no step is fused.
#[inline(always)]
fn remainders_body<const FMA: bool, T: Float, E: Fn(T, T) -> T, S: Fn(T, T) -> T>(
    [a, b]: [&[T]; 2],
    out: &mut [T],
    floor: bool,
    exact: E,
    signed: S,
) {
    let n = out.len();
    let (a, b) = (&a[..n], &b[..n]);
    let (zero, most) = (T::of(0.0), T::of(2_097_152.0));
    let is_small = |a: T, b: T| {
        FMA & ((a / b).abs_() < most) & (b.abs_() < T::of(f64::INFINITY)) & (b.abs_() > T::of(1e-30))
    };
    let downwards = |rest: T, b: T| {
        let other = (rest != zero) & ((rest < zero) != (b < zero));
        if floor & other { rest + b } else { rest }
    };
    let mut all = true;
    for i in 0..n {
        let (a, b) = (a[i], b[i]);
        let rest = (-(a / b).trunc_()).fused::<FMA>(b, a);
        let size = b.abs_();
        let over = ((rest < zero) & (a > zero)) | ((rest > zero) & (a < zero));
        let rest = if over { rest + if a < zero { -size } else { size } } else { rest };
        out[i] = downwards(signed(rest, a), b);
        all &= is_small(a, b);
    }
    if !all {
        for i in (0..n).filter(|&i| !is_small(a[i], b[i])) {
            out[i] = downwards(exact(a[i], b[i]), b[i]);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{DType, Tensor};

    #[test]
    fn vectors_and_single_numbers_leave_the_same() {
        let mut random = crate::Generator::new(3);
        for scale in [1.0, 7.0, 30.0, 60.0] {
            let mut draw = || {
                let size = &random.randn_with([4000], DType::F64) * scale;
                &random.randn_with([4000], DType::F64) * &size.exp2()
            };
            let (a, b) = (draw(), draw());
            // Whole multiples and their neighbours, where the quotient is rounded over the edge.
            let edge = (&b * &(&a / &b).trunc()).to(DType::F64);
            for a in [&a, &edge] {
                check(a, &b);
            }
        }
    }

    fn check(a: &Tensor, b: &Tensor) {
        let (single_a, single_b) = (a.float(), b.float());
        let numbers = |t: Tensor| t.to_vec::<f64>().unwrap();
        let pairs = |a: &Tensor, b: &Tensor| {
            numbers(a.clone()).into_iter().zip(numbers(b.clone())).collect::<Vec<_>>()
        };
        let (rest, floored) = (numbers(a.fmod(b).unwrap()), numbers(a.remainder(b).unwrap()));
        for (i, (a, b)) in pairs(a, b).into_iter().enumerate() {
            let want = a % b;
            assert_eq!(rest[i].to_bits(), want.to_bits(), "{a:e} % {b:e} = {:e}", rest[i]);
            let want = if want != 0.0 && (want < 0.0) != (b < 0.0) { want + b } else { want };
            assert_eq!(
                floored[i].to_bits(),
                want.to_bits(),
                "remainder of {a:e} and {b:e}: {:e}",
                floored[i]
            );
        }
        let rest = single_a.fmod(&single_b).unwrap().to_vec::<f32>().unwrap();
        let (a, b) = (single_a.to_vec::<f32>().unwrap(), single_b.to_vec::<f32>().unwrap());
        for i in 0..rest.len() {
            let same =
                rest[i].to_bits() == (a[i] % b[i]).to_bits() || rest[i].is_nan() && (a[i] % b[i]).is_nan();
            assert!(same, "{:e} % {:e} = {:e}", a[i], b[i], rest[i]);
        }
    }
}
