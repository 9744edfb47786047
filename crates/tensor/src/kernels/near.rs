//! `Near`: lanes whose sines, cosines and tangents are those of near angles, and which tell whether an angle was not near.
//!
//! Note [Near angles]
//! Most of what a sine takes is the reduction of large angles, which hardly any tensor has. A formula that has such functions is
//! computed for a piece of a block as if all its angles were near. What is not near leaves a bit that goes with every number made of
//! it, through choices and comparisons, too; where a result has one, the piece is computed again by the loop for all angles. Near angles have
//! the same bits in both.

use std::ops::{BitOr, Range};

use super::lane::{Float, Lane};
use super::real::Real;
use super::tagged::{Tag, Tagged};
use crate::math::VecMath;

/// Elements that are computed together as near ones: they stay in the first-level cache until they are computed again, and one that is
/// not near costs no more than these the short loop.
pub(super) const PIECE: usize = 512;

/// The pieces of so many elements.
#[inline(always)]
pub(super) fn pieces(n: usize) -> impl Iterator<Item = Range<usize>> {
    (0..n).step_by(PIECE).map(move |start| start..n.min(start + PIECE))
}

/// What tells of an angle whether it is near.
pub trait Angle: Copy {
    /// The highest bit says that some angle was not.
    type Far: Copy + Default + BitOr<Output = Self::Far>;
    fn far(self) -> Self::Far;
    fn is_far(far: Self::Far) -> bool;
}
macro_rules! angle {
    ($T:ident as $bits:ident) => {
        impl Angle for $T {
            type Far = $bits;
            #[inline(always)]
            fn far(self) -> $bits {
                // What is at most `$bits::MAX / 2` on both sides has its sign in the highest bit. NaN and infinity are far.
                const NEAR: $bits = (crate::math::NEAR as $T).to_bits() - 1;
                NEAR.wrapping_sub(self.to_bits() & ($bits::MAX >> 1))
            }
            #[inline(always)]
            fn is_far(far: $bits) -> bool {
                far > $bits::MAX >> 1
            }
        }
    };
}
angle!(f32 as u32);
angle!(f64 as u64);

/// A number of a formula's loop: a [`Lane`] or a [`Near`] one.
pub(super) trait InLoop<T>: Real {
    /// What is gathered of the results.
    type Gathered: Copy + Default;
    fn of(v: T) -> Self;
    /// The number, of which is gathered whether it is right.
    fn result(self, gathered: &mut Self::Gathered) -> T;
    /// Whether all results were right.
    fn are_right(gathered: Self::Gathered) -> bool;
}

impl<T: Float, const FMA: bool> InLoop<T> for Lane<T, FMA> {
    type Gathered = ();
    #[inline(always)]
    fn of(v: T) -> Self {
        Lane(v)
    }
    #[inline(always)]
    fn result(self, (): &mut ()) -> T {
        self.0
    }
    #[inline(always)]
    fn are_right((): ()) -> bool {
        true
    }
}

/// A [`Lane`] that is right if no angle on the way to it was far, see Note [Near angles].
pub(super) type Near<T, const FMA: bool> = Tagged<Lane<T, FMA>, Far<T>>;

/// Whether an angle was far, in the highest bit.
#[derive(Clone, Copy, Default)]
pub(super) struct Far<T: Angle>(T::Far);

macro_rules! near {
    ($($f:ident by $near:ident;)*) => {$(
        #[inline(always)]
        fn $f(x: Tagged<Lane<T, FMA>, Self>) -> Tagged<Lane<T, FMA>, Self> {
            let Lane(angle) = x.number;
            Tagged { number: Lane(VecMath::$near::<FMA>(angle)), tag: x.tag.and(angle.far()) }
        }
    )*};
}

impl<T: Angle> Far<T> {
    #[inline(always)]
    fn and(self, far: T::Far) -> Self {
        Far(self.0 | far)
    }
}

impl<T: Float, const FMA: bool> Tag<Lane<T, FMA>> for Far<T> {
    #[inline(always)]
    fn and_of(self, o: Self) -> Self {
        self.and(o.0)
    }
    near! {
        sin by near_sin;
        cos by near_cos;
        tan by near_tan;
    }
}

impl<T: Float, const FMA: bool> InLoop<T> for Near<T, FMA> {
    type Gathered = T::Far;
    #[inline(always)]
    fn of(v: T) -> Self {
        Lane(v).into()
    }
    #[inline(always)]
    fn result(self, gathered: &mut T::Far) -> T {
        *gathered = *gathered | self.tag.0;
        self.number.0
    }
    #[inline(always)]
    fn are_right(gathered: T::Far) -> bool {
        !T::is_far(gathered)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BlockKernel, FloatKernel, FloatOps, Formula, GradientKernel};
    use super::*;

    /// Angles of angles, and some that only a choice, a comparison or a power by zero depends on.
    #[derive(Clone, Copy)]
    struct Turned<const NEAR: bool>;
    impl<const NEAR: bool> Formula<2> for Turned<NEAR> {
        const NEAR: bool = NEAR;
        #[inline(always)]
        fn eval<R: Real>(&self, [x, w]: [R; 2]) -> R
        where
            f64: FloatOps<R>,
        {
            let turned = (x * w).sin() + (x.cos() * 3.0).tan();
            let chosen = R::select(w.cos().gt(x.sin()), x, R::lit(-2.0));
            let hidden = R::select(R::not(x.tan().lt(w)), R::lit(1.0), R::lit(2.0));
            let power = (1e3 * w).sin().pow(R::lit(0.0));
            turned * chosen + hidden.maximum(power)
        }
    }

    /// The bits of the values and of both gradients.
    fn bits<T: Float, const NEAR: bool>(g: &[T], x: &[T], w: &[T]) -> Vec<Vec<u64>> {
        let mut outputs = vec![vec![T::of(7.0); x.len()]; 3];
        let [y, outs @ ..] = &mut outputs[..] else { unreachable!() };
        FloatKernel(Turned::<NEAR>).run(&[x, w].map(T::block), &mut [T::block_mut(y)]);
        let mut outs: Vec<_> = outs.iter_mut().map(|out| T::block_mut(out)).collect();
        GradientKernel::new(Turned::<NEAR>, &[0, 1]).run(&[g, x, w].map(T::block), &mut outs);
        let bits = |v: &T| -> u64 { format!("{v:?}").bytes().fold(7, |h, b| h * 31 % 1_000_003 + b as u64) };
        outputs.iter().map(|out| out.iter().map(bits).collect()).collect()
    }

    /// Whatever is far of what, results are those of the loop for all angles, which none of its neighbours change.
    #[test]
    fn near_loops_have_the_bits_of_the_others() {
        fn check<T: Float>() {
            let far = [1e6, 1.1e6, -2e7, 1e30, f64::INFINITY, f64::NAN, 0.0, -0.0];
            for n in [0, 1, 7, 300, 512, 513, 1600] {
                let numbers = |step: usize| -> Vec<T> {
                    (0..n).map(|i| T::of((i * step % 997) as f64 / 50.0 - 9.0)).collect()
                };
                let [g, x, w] = [7, 11, 13].map(numbers);
                assert!(bits::<T, true>(&g, &x, &w) == bits::<T, false>(&g, &x, &w), "{n}");
                for (k, &far) in far.iter().enumerate().filter(|_| n > 0) {
                    let at = (k * 211 + 5) % n;
                    for moved in 0..2 {
                        let mut inputs = [x.clone(), w.clone()];
                        inputs[moved][at] = T::of(far);
                        let [x, w] = &inputs;
                        let found = bits::<T, true>(&g, x, w);
                        assert!(found == bits::<T, false>(&g, x, w), "{far} at {at} of {n}");
                    }
                }
            }
        }
        check::<f32>();
        check::<f64>();
    }

    #[test]
    fn what_is_far() {
        fn check<T: Float>(below: T) {
            let is_far = |x: T| T::is_far(x.far());
            for x in [0.0, 1.0, 1e-40, 1e6, 1_048_575.0].map(T::of).into_iter().chain([below]) {
                assert!(!is_far(x) && !is_far(-x), "{x:?}");
            }
            for x in [1_048_576.0, 1e7, 1e38, f64::INFINITY, f64::NAN].map(T::of) {
                assert!(is_far(x) && is_far(-x), "{x:?}");
                assert!(T::is_far(x.far() | T::of(0.5).far()));
            }
        }
        check(1_048_576.0f32.next_down());
        check(1_048_576.0f64.next_down());
    }
}
