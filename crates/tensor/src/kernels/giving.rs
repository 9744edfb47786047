//! `GivingKernel`: a formula's value, and beside it what the only function gives that it calls.

use super::dual::Dual;
use super::formula::{Formula, typed};
use super::lane::{Float, Lane};
use super::level::{Level, level};
use super::near::{InLoop, Near, pieces};
use super::real::FloatOps;
use super::{BlockKernel, doors::door, each};
use crate::dtype::{Block, BlockMut, DType};

/// A [`Formula`] as a block kernel of two outputs: its value, and what the elementary function gives that it calls. It calls one, says so
/// by [`Formula::ONE_CALL`], and its value is made of that, not chosen by it alone.
#[derive(Clone, Copy, Debug)]
pub struct GivingKernel<F, const N: usize>(pub F);

impl<F: Formula<N>, const N: usize> GivingKernel<F, N> {
    fn typed_run<T: Float>(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        let [y, t] = outputs else { unreachable!("there are two outputs") };
        let n = y.len();
        let [y, t] = [y, t].map(|out| T::slice_mut(out.range(0, n)).expect("outputs are of one type"));
        // Of a constant condition only the branch that is taken is compiled.
        match const { F::ONE_CALL } {
            true => give::<T, F, N>(&self.0, typed(inputs), y, t),
            false => unreachable!("the formula has no loops that store what its function gives"),
        }
    }
}

impl<F: Formula<N>, const N: usize> BlockKernel for GivingKernel<F, N> {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        match outputs[0].dtype() {
            DType::F32 => self.typed_run::<f32>(inputs, outputs),
            DType::F64 => self.typed_run::<f64>(inputs, outputs),
            other => unreachable!("a formula over real numbers was planned for {other}"),
        }
    }

    fn arity(&self) -> Option<(usize, usize)> {
        Some((N, 2))
    }
}

door! {
    /// `y[i] = f(x[0][i], x[1][i], ...)`, where the function gives `t[i]`.
    fn give[T: Float, F: Formula<N>, const N: usize][T, F, N](f: &F, x: [&[T]; N], y: &mut [T], t: &mut [T]);
    body give_body
}
#[inline(always)]
fn give_body<const FMA: bool, T: Float, F: Formula<N>, const N: usize>(
    f: &F,
    x: [&[T]; N],
    y: &mut [T],
    t: &mut [T],
) where
    f64: FloatOps<Lane<T, FMA>> + FloatOps<Near<T, FMA>>,
{
    if const { !F::NEAR } {
        give_piece::<Lane<T, FMA>, T, F, N>(f, x, y, t);
        return;
    }
    for piece in pieces(y.len()) {
        let x = each(&[][..], |k| &x[k][piece.clone()]);
        let (y, t) = (&mut y[piece.clone()], &mut t[piece]);
        if !give_piece::<Near<T, FMA>, T, F, N>(f, x, y, t) {
            give_piece::<Lane<T, FMA>, T, F, N>(f, x, y, t);
        }
    }
}

/// Whether the results are right.
#[inline(always)]
fn give_piece<R: InLoop<T>, T: Float, F: Formula<N>, const N: usize>(
    f: &F,
    x: [&[T]; N],
    y: &mut [T],
    t: &mut [T],
) -> bool
where
    f64: FloatOps<R>,
{
    let n = y.len();
    let t = &mut t[..n];
    let x: [&[T]; N] = each(&[][..], |k| &x[k][..n]);
    let mut gathered = R::Gathered::default();
    for i in 0..n {
        let zero = Dual::constant(R::of(T::of(0.0)));
        let out = f.eval::<Dual<R, 0>>(each(zero, |k| Dual::constant(R::of(x[k][i])).asking()));
        y[i] = out.value.result(&mut gathered);
        t[i] = out.given().expect("the value is made of what a function gives").result(&mut gathered);
    }
    R::are_right(gathered)
}

#[cfg(test)]
mod tests {
    use super::super::{FloatKernel, GradientKernel, Real};
    use super::*;

    /// One function, in the middle of a formula.
    #[derive(Clone, Copy)]
    struct Inner;
    impl Formula<2> for Inner {
        const ONE_CALL: bool = true;
        #[inline(always)]
        fn eval<R: Real>(&self, [x, w]: [R; 2]) -> R
        where
            f64: FloatOps<R>,
        {
            let t = (x * w).tanh();
            R::select(t.gt(x), t * w, -t) + 0.25
        }
    }

    /// One that gives angles, of which some are far.
    #[derive(Clone, Copy)]
    struct Turned;
    impl Formula<2> for Turned {
        const ONE_CALL: bool = true;
        const NEAR: bool = true;
        #[inline(always)]
        fn eval<R: Real>(&self, [x, w]: [R; 2]) -> R
        where
            f64: FloatOps<R>,
        {
            w - (x * 1e5).tan().square()
        }
    }

    fn check<T: Float, F: Formula<2>>(formula: F, function: fn(f64, f64) -> f64, n: usize) {
        let numbers = |step: usize| -> Vec<T> {
            (0..n).map(|i| T::of(((i * step) % 1001) as f64 / 40.0 - 12.5)).collect()
        };
        let [g, x, w] = [7, 11, 13].map(numbers);
        let number = |v: &T| format!("{v:?}").parse::<f64>().unwrap();
        let run = |kernel: &dyn BlockKernel, inputs: &[&[T]], outputs: usize| {
            let blocks: Vec<Block<'_>> = inputs.iter().map(|x| T::block(x)).collect();
            let mut outputs = vec![vec![T::of(-9.0); n]; outputs];
            let mut out: Vec<BlockMut<'_>> = outputs.iter_mut().map(|o| T::block_mut(o)).collect();
            kernel.run(&blocks, &mut out);
            outputs
        };
        let both = run(&GivingKernel(formula), &[&x, &w], 2);
        assert!(both[0] == run(&FloatKernel(formula), &[&x, &w], 1)[0], "{n}");
        for (i, t) in both[1].iter().enumerate() {
            let expected = function(number(&x[i]), number(&w[i]));
            assert!(
                (number(t) - expected).abs() <= 1e-2 * expected.abs(),
                "{t:?} for {expected} at {i} of {n}"
            );
        }
        let anew = run(&GradientKernel::new(formula, &[0, 1]), &[&g, &x, &w], 2);
        let known = run(&GradientKernel::knowing(formula, &[0, 1]), &[&g, &x, &w, &both[1]], 2);
        assert!(known == anew, "{n}");
    }

    /// The value has the bits that it has alone, and a gradient that reads what the function gave those of one that computes it.
    #[test]
    fn what_a_function_gives_is_stored_and_read() {
        for n in [0, 1, 5, 64, 700, 1500] {
            check::<f32, _>(Inner, |x, w| (x * w).tanh(), n);
            check::<f64, _>(Inner, |x, w| (x * w).tanh(), n);
            check::<f64, _>(Turned, |x, _| (x * 1e5).tan(), n);
        }
    }
}
