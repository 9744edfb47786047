//! `GivingKernel`: a formula's value, and beside it what the functions give that it calls; and its values where it calls several, or where
//! is known what some give.

use std::ops::Range;

use super::calls::{CallSet, Called, Calls, KnownInputs, MOST_CALLS};
use super::formula::{Formula, typed};
use super::lane::{Float, Lane};
use super::level::{Level, level};
use super::near::{InLoop, Near, PIECE, pieces};
use super::real::FloatOps;
use super::{BlockKernel, doors::door, each};
use crate::buffer::{Handle, Storage};
use crate::dtype::{Block, BlockMut, DType};

/// A [`Formula`] as a block kernel of its value and, behind it, what the [functions](Formula::CALLS) give that it calls, in their order. What is
/// known of them is read and not given.
#[derive(Clone, Copy, Debug)]
pub struct GivingKernel<F, const N: usize> {
    formula: F,
    known: KnownInputs,
    /// whether there are outputs for what functions give
    gives: bool,
}

impl<F: Formula<N>, const N: usize> GivingKernel<F, N> {
    /// The kernel of the value and what all functions give.
    pub fn new(formula: F) -> Self {
        GivingKernel { formula, known: KnownInputs::default(), gives: true }
    }

    /// The kernel of the value that reads what some functions give; of the others it gives that, too, if it is wanted.
    pub fn knowing(formula: F, known: KnownInputs, gives: bool) -> Self {
        assert_have_loops::<F, N>(known.calls());
        GivingKernel { formula, known, gives }
    }

    fn typed_run<T: Float>(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        let mut outputs = outputs.iter_mut().map(|out| {
            let len = out.len();
            T::slice_mut(out.range(0, len)).expect("outputs are of one type")
        });
        let y = outputs.next().expect("the value is an output");
        // Of a constant condition only the branch that is taken is compiled.
        match const { F::CALLS > 0 } {
            true => {
                let (f, x, known) = (&self.formula, typed(inputs), self.known.blocks(inputs));
                let calls = self.known.calls();
                match self.gives || calls == CallSet::first(F::CALLS) {
                    true => give::<T, F, N>(f, x, known, y, calls.others().spread(outputs)),
                    false => values_by_calls(f, x, known, y),
                }
            }
            false => unreachable!("the formula has no loops that store what its functions give"),
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
        let given = if self.gives { F::CALLS - self.known.calls().count() } else { 0 };
        Some((self.known.inputs(N), 1 + given))
    }
}

/// Refuses calls that have no loops.
pub(super) fn assert_have_loops<F: Formula<N>, const N: usize>(known: CallSet) {
    assert!(
        CallSet::first(F::CALLS).has_all(known),
        "the formula has no loops that read what {known:?} give"
    );
}

/// Working memory of rows as long as a piece.
pub(super) struct ScratchRows(Handle);

impl ScratchRows {
    pub(super) fn new<T: Float>(rows: usize) -> Self {
        ScratchRows(Storage::scratch(T::DTYPE, rows * PIECE))
    }

    /// All rows, of so many elements.
    pub(super) fn of<T: Float>(&mut self, len: usize) -> impl Iterator<Item = &mut [T]> {
        let all = T::slice_mut(self.0.block_mut()).expect("it was made of this type");
        all.chunks_exact_mut(PIECE).map(move |row| &mut row[..len])
    }
}

/// The values of a formula, each function of which is not known what it gives in a loop of its own.
pub(super) fn values_by_calls<T: Float, F: Formula<N>, const N: usize>(
    f: &F,
    x: [&[T]; N],
    known: [&[T]; MOST_CALLS],
    out: &mut [T],
) {
    let mut rows = ScratchRows::new::<T>(F::CALLS);
    for piece in pieces(out.len()) {
        let results = CallSet::first(F::CALLS).spread(rows.of(piece.len()));
        let x = each(&[][..], |k| &x[k][piece.clone()]);
        give::<T, F, N>(f, x, known_in(known, &piece), &mut out[piece], results);
    }
}

/// A piece of what functions give of which that is known.
#[inline(always)]
pub(super) fn known_in<'a, T>(known: [&'a [T]; MOST_CALLS], piece: &Range<usize>) -> [&'a [T]; MOST_CALLS] {
    each(&[][..], |k| known[k].get(piece.clone()).unwrap_or_default())
}

// The next two are no closures where they are called: those would be generated for every formula.

/// A piece of each row, or nothing of one that is not there.
fn pieces_of<'a, T>(rows: &'a mut [&mut [T]; MOST_CALLS], piece: &Range<usize>) -> [&'a mut [T]; MOST_CALLS] {
    rows.each_mut().map(|row| row.get_mut(piece.clone()).unwrap_or_default())
}

/// What functions give as is known, or else as it has been computed.
fn known_or<'a, T>(
    known: [&'a [T]; MOST_CALLS],
    computed: [&'a mut [T]; MOST_CALLS],
) -> [&'a [T]; MOST_CALLS] {
    let computed: [&[T]; MOST_CALLS] = computed.map(|row| &*row);
    each(&[][..], |k| if known[k].is_empty() { computed[k] } else { known[k] })
}

door! {
    /// `y[i] = f(x[0][i], x[1][i], ...)`, where function `k` gives `known[k][i]`, or `results[k][i]` if there is no such row. There may be
    /// no `y` if the last function is known.
    pub(super) fn give[T: Float, F: Formula<N>, const N: usize][T, F, N](f: &F, x: [&[T]; N], known: [&[T]; MOST_CALLS], y: &mut [T], results: [&mut [T]; MOST_CALLS]);
    body give_body
}

/// A loop over near angles first, if the formula has such functions.
macro_rules! near_first {
    ($loop:ident, $nr:literal, $($argument:expr),*) => {
        // Of a constant condition only the branch that is taken is compiled.
        if const { !F::NEAR } {
            $loop::<Lane<T, FMA>, T, F, N, $nr>($($argument),*);
        } else if !$loop::<Near<T, FMA>, T, F, N, $nr>($($argument),*) {
            $loop::<Lane<T, FMA>, T, F, N, $nr>($($argument),*);
        }
    };
}

macro_rules! stages {
    ($($nr:literal)*) => {
        #[inline(always)]
        fn give_body<const FMA: bool, T: Float, F: Formula<N>, const N: usize>(
            f: &F,
            x: [&[T]; N],
            known: [&[T]; MOST_CALLS],
            y: &mut [T],
            mut results: [&mut [T]; MOST_CALLS],
        ) where
            f64: FloatOps<Lane<T, FMA>> + FloatOps<Near<T, FMA>>,
        {
            const { assert!(0 < N && F::CALLS <= MOST_CALLS, "there are loops for so many calls") };
            if !known[..F::CALLS].iter().any(|row| row.is_empty()) {
                return value_of_known::<Lane<T, FMA>, T, F, N>(f, x, known, y);
            }
            for piece in pieces(x[0].len()) {
                let x = each(&[][..], |k| &x[k][piece.clone()]);
                let mut known = known_in(known, &piece);
                let y = y.get_mut(piece.clone()).unwrap_or_default();
                let mut rows = pieces_of(&mut results, &piece);
                $(
                    if const { $nr < F::CALLS } && known[$nr].is_empty() {
                        let given = std::mem::take(&mut rows[$nr]);
                        if const { $nr + 1 < F::CALLS } {
                            near_first!(one_call, $nr, f, x, known, given);
                        } else {
                            near_first!(last_call, $nr, f, x, known, given, y);
                            continue;
                        }
                        known[$nr] = given;
                    }
                )*
                value_of_known::<Lane<T, FMA>, T, F, N>(f, x, known, y);
            }
        }
    };
}
stages!(0 1 2 3 4 5 6 7);

/// The calls of a formula at position `i`, of the first `known` of which is known what they give.
#[inline(always)]
pub(super) fn calls_at<R: InLoop<T>, T: Float>(known: usize, rows: [&[T]; MOST_CALLS], i: usize) -> Calls<R> {
    let zero = R::of(T::of(0.0));
    Calls::knowing(known, each(zero, |k| if k < known { R::of(rows[k][i]) } else { zero }))
}

/// A stretch of the first `count` rows.
#[inline(always)]
pub(super) fn shortened<T>(
    rows: [&[T]; MOST_CALLS],
    count: usize,
    stretch: Range<usize>,
) -> [&[T]; MOST_CALLS] {
    each(&[][..], |k| if k < count { &rows[k][stretch.clone()] } else { &[] })
}

/// What the functions of a formula give, as is known or in working memory of a row for each and one more.
pub(super) fn results<'a, T: Float, F: Formula<N>, const N: usize>(
    f: &F,
    x: [&[T]; N],
    known: [&'a [T]; MOST_CALLS],
    mut rows: impl Iterator<Item = &'a mut [T]>,
) -> [&'a [T]; MOST_CALLS] {
    let last_is_known = !known[F::CALLS - 1].is_empty();
    let y = rows.next().filter(|_| !last_is_known).unwrap_or_default();
    let mut results = CallSet::first(F::CALLS).spread(rows);
    give::<T, F, N>(f, x, known, y, pieces_of(&mut results, &(0..x[0].len())));
    known_or(known, results)
}

/// What function `NR` gives. Whether that is right.
#[inline(always)]
fn one_call<R: InLoop<T>, T: Float, F: Formula<N>, const N: usize, const NR: usize>(
    f: &F,
    x: [&[T]; N],
    known: [&[T]; MOST_CALLS],
    given: &mut [T],
) -> bool
where
    f64: FloatOps<R>,
{
    let n = given.len();
    let x: [&[T]; N] = each(&[][..], |k| &x[k][..n]);
    let known = shortened(known, NR, 0..n);
    let mut gathered = R::Gathered::default();
    for i in 0..n {
        let calls = calls_at::<R, T>(NR, known, i);
        f.eval::<Called<'_, R>>(each(calls.of(R::of(T::of(0.0))), |k| calls.of(R::of(x[k][i]))));
        given[i] = calls.given().result(&mut gathered);
    }
    R::are_right(gathered)
}

/// The value, where is known what all functions give.
#[inline(always)]
fn value_of_known<R: InLoop<T>, T: Float, F: Formula<N>, const N: usize>(
    f: &F,
    x: [&[T]; N],
    known: [&[T]; MOST_CALLS],
    y: &mut [T],
) where
    f64: FloatOps<R>,
{
    let n = y.len();
    let x: [&[T]; N] = each(&[][..], |k| &x[k][..n]);
    let known = shortened(known, F::CALLS, 0..n);
    let mut gathered = R::Gathered::default();
    for i in 0..n {
        let calls = calls_at::<R, T>(F::CALLS, known, i);
        let value = f.eval::<Called<'_, R>>(each(calls.of(R::of(T::of(0.0))), |k| calls.of(R::of(x[k][i]))));
        y[i] = value.number().result(&mut gathered);
    }
}

/// What function `NR` gives, which is the last, and the value. Whether they are right.
#[inline(always)]
fn last_call<R: InLoop<T>, T: Float, F: Formula<N>, const N: usize, const NR: usize>(
    f: &F,
    x: [&[T]; N],
    known: [&[T]; MOST_CALLS],
    given: &mut [T],
    y: &mut [T],
) -> bool
where
    f64: FloatOps<R>,
{
    let n = y.len();
    let given = &mut given[..n];
    let x: [&[T]; N] = each(&[][..], |k| &x[k][..n]);
    let known = shortened(known, NR, 0..n);
    let mut gathered = R::Gathered::default();
    for i in 0..n {
        let calls = calls_at::<R, T>(NR, known, i);
        let value = f.eval::<Called<'_, R>>(each(calls.of(R::of(T::of(0.0))), |k| calls.of(R::of(x[k][i]))));
        y[i] = value.number().result(&mut gathered);
        given[i] = calls.given().result(&mut gathered);
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
        const CALLS: usize = 1;
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
        const CALLS: usize = 1;
        const NEAR: bool = true;
        #[inline(always)]
        fn eval<R: Real>(&self, [x, w]: [R; 2]) -> R
        where
            f64: FloatOps<R>,
        {
            w - (x * 1e5).tan().square()
        }
    }

    /// Functions of functions, of constants, and beside one another: nine calls, of which the first so many have loops of their own.
    #[derive(Clone, Copy)]
    struct Several<const CALLS: usize>;
    impl<const CALLS: usize> Formula<2> for Several<CALLS> {
        const CALLS: usize = CALLS;
        const NEAR: bool = true;
        #[inline(always)]
        fn eval<R: Real>(&self, [x, w]: [R; 2]) -> R
        where
            f64: FloatOps<R>,
        {
            let t = (x.sigmoid() * w * R::lit(2.0).exp()).sin();
            let chosen = R::select(t.lt(R::lit(0.0)), t.exp(), w.tanh());
            (chosen * t.gelu()).tanh()
                + x.square().pow(chosen) * (t * 3e6).cos()
                + w.abs().pow_number(1.5)
                + chosen.normal_cdf()
        }
    }

    fn run<T: Float>(kernel: &dyn BlockKernel, inputs: &[&[T]], outputs: usize) -> Vec<Vec<T>> {
        let blocks: Vec<Block<'_>> = inputs.iter().map(|x| T::block(x)).collect();
        let mut outputs = vec![vec![T::of(-9.0); inputs[0].len()]; outputs];
        let mut out: Vec<BlockMut<'_>> = outputs.iter_mut().map(|o| T::block_mut(o)).collect();
        kernel.run(&blocks, &mut out);
        outputs
    }

    /// What all calls give, behind the first so many inputs.
    fn behind(first: usize, calls: usize) -> KnownInputs {
        KnownInputs::behind(first, CallSet::first(calls))
    }

    fn numbers<T: Float>(n: usize) -> [Vec<T>; 3] {
        [7, 11, 13].map(|step| (0..n).map(|i| T::of(((i * step) % 1001) as f64 / 40.0 - 12.5)).collect())
    }

    fn bits<T: Float>(outputs: &[Vec<T>]) -> Vec<Vec<String>> {
        outputs.iter().map(|out| out.iter().map(|v| format!("{v:?}")).collect()).collect()
    }

    fn check<T: Float, F: Formula<2>>(formula: F, function: fn(f64, f64) -> f64, n: usize) {
        let [g, x, w] = &numbers::<T>(n);
        let number = |v: &T| format!("{v:?}").parse::<f64>().unwrap();
        let both = run(&GivingKernel::new(formula), &[x, w], 2);
        assert!(both[0] == run(&FloatKernel(formula), &[x, w], 1)[0], "{n}");
        for (i, t) in both[1].iter().enumerate() {
            let expected = function(number(&x[i]), number(&w[i]));
            assert!(
                (number(t) - expected).abs() <= 1e-2 * expected.abs(),
                "{t:?} for {expected} at {i} of {n}"
            );
        }
        let anew = run(&GradientKernel::new(formula, &[0, 1]), &[g, x, w], 2);
        let known = run(&GradientKernel::knowing(formula, &[0, 1], behind(3, 1)), &[g, x, w, &both[1]], 2);
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

    fn check_loops<T: Float, const CALLS: usize>(n: usize) {
        let [g, x, w] = &numbers::<T>(n);
        let (whole, formula) = (Several::<0>, Several::<CALLS>);
        let value = bits(&run(&FloatKernel(whole), &[x, w], 1));
        assert!(bits(&run(&FloatKernel(formula), &[x, w], 1)) == value, "{CALLS} calls, {n}");
        let given = run(&GivingKernel::new(formula), &[x, w], 1 + CALLS);
        assert!(bits(&given[..1]) == value, "{CALLS} calls, {n}");
        for wanted in [&[0][..], &[1], &[0, 1], &[1, 0]] {
            let expected = bits(&run(&GradientKernel::new(whole, wanted), &[g, x, w], wanted.len()));
            let anew = run(&GradientKernel::new(formula, wanted), &[g, x, w], wanted.len());
            assert!(bits(&anew) == expected, "{CALLS} calls, {wanted:?} of {n}");
            for some in [1, 0b10, 0b101, 0xaa, 0xff] {
                let known = |nr: &usize| some >> nr & 1 != 0;
                let set: CallSet = (0..CALLS).filter(known).collect();
                let behind = KnownInputs::behind(2, set);
                let rows = (0..CALLS).filter(known).map(|nr| &given[1 + nr][..]);
                let inputs: Vec<&[T]> = [&g[..], x, w].into_iter().chain(rows).collect();
                let knowing = run(
                    &GradientKernel::knowing(formula, wanted, KnownInputs::behind(3, set)),
                    &inputs,
                    wanted.len(),
                );
                assert!(bits(&knowing) == expected, "{set:?} of {CALLS} calls known, {wanted:?} of {n}");
                let knowing = run(&GivingKernel::knowing(formula, behind, false), &inputs[1..], 1);
                assert!(bits(&knowing) == value, "{set:?} of {CALLS} calls known, {n}");
                let others =
                    run(&GivingKernel::knowing(formula, behind, true), &inputs[1..], 1 + CALLS - set.count());
                let unknown = (0..CALLS).filter(|nr| !known(nr)).map(|nr| given[1 + nr].clone());
                let expected: Vec<Vec<T>> = given[..1].iter().cloned().chain(unknown).collect();
                assert!(bits(&others) == bits(&expected), "{set:?} of {CALLS} calls known, {n}");
            }
        }
    }

    /// However many functions have a loop of their own, values and gradients have the bits of one loop for all.
    #[test]
    fn loops_of_functions_have_the_bits_of_one_loop() {
        for n in [0, 1, 7, 512, 1500] {
            check_loops::<f32, MOST_CALLS>(n);
            check_loops::<f64, MOST_CALLS>(n);
        }
    }

    /// A formula by chance: each step makes one of three numbers anew of itself and the next. Each number of calls is seconds of compile
    /// time, and so would each step be, did the compiler know how many they are.
    #[derive(Clone, Copy)]
    struct ByChance<const CALLS: usize> {
        steps: [u8; 6],
        count: usize,
    }
    impl<const CALLS: usize> Formula<3> for ByChance<CALLS> {
        const CALLS: usize = CALLS;
        const NEAR: bool = true;
        #[inline(always)]
        fn eval<R: Real>(&self, mut x: [R; 3]) -> R
        where
            f64: FloatOps<R>,
        {
            for (i, &step) in self.steps[..self.count].iter().enumerate() {
                let (a, b) = (x[i % 3], x[(i + 1) % 3]);
                x[i % 3] = match step % 12 {
                    0 => a + b,
                    1 => a * b,
                    2 => a.tanh() - b,
                    3 => (a * 1e5).sin() * b,
                    4 => (-b.abs()).exp() + a,
                    5 => a.gelu(),
                    6 => R::select(a.lt(b), a.sigmoid(), b),
                    7 => a.maximum(b.tan()),
                    8 => (a.abs() + 0.5).pow(b),
                    9 => R::lit(0.3).cos() + a / 2.0,
                    10 => a.abs().pow_number(0.5),
                    _ => 1.0 - a.cos(),
                };
            }
            x[0] + x[1] * x[2]
        }
    }

    #[test]
    fn formulas_by_chance_have_the_bits_of_one_loop() {
        fn gradients<const CALLS: usize>(steps: [u8; 6], inputs: &[&[f64]]) -> Vec<Vec<Vec<String>>> {
            let formula = ByChance::<CALLS> { steps, count: steps.len() };
            let given = run(&GivingKernel::new(formula), &inputs[1..], 1 + CALLS);
            let known: Vec<&[f64]> =
                inputs.iter().copied().chain(given[1..].iter().map(|t| &t[..])).collect();
            let found = [
                run(&FloatKernel(formula), &inputs[1..], 1),
                given[..1].to_vec(),
                run(&GradientKernel::new(formula, &[0, 1, 2]), inputs, 3),
                run(&GradientKernel::knowing(formula, &[0, 1, 2], behind(4, CALLS)), &known, 3),
            ];
            found.iter().map(|found| bits(found)).collect()
        }
        let mut state = 7u64;
        for _ in 0..300 {
            let steps = std::array::from_fn(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as u8
            });
            let [g, x, w] = &numbers::<f64>(70);
            let whole = ByChance::<0> { steps, count: steps.len() };
            let value = bits(&run(&FloatKernel(whole), &[x, w, g], 1));
            let slopes = bits(&run(&GradientKernel::new(whole, &[0, 1, 2]), &[g, x, w, g], 3));
            let expected = [value.clone(), value, slopes.clone(), slopes];
            assert!(gradients::<1>(steps, &[g, x, w, g]) == expected, "1: {steps:?}");
            assert!(gradients::<4>(steps, &[g, x, w, g]) == expected, "4: {steps:?}");
        }
    }

    /// A function that is never called gives nothing that anybody reads.
    #[test]
    fn a_formula_may_call_fewer_functions_than_it_seems_to() {
        #[derive(Clone, Copy)]
        struct Fewer;
        impl Formula<1> for Fewer {
            const CALLS: usize = 3;
            #[inline(always)]
            fn eval<R: Real>(&self, [x]: [R; 1]) -> R
            where
                f64: FloatOps<R>,
            {
                x.exp() * R::lit(1.0).exp()
            }
        }
        let x = [0.5f64, 1.0];
        let given = run(&GivingKernel::new(Fewer), &[&x], 4);
        let close = |given: &[f64], expected: [f64; 2]| {
            assert!(given.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-14 * b), "{given:?}");
        };
        close(&given[1], [0.5f64.exp(), 1f64.exp()]);
        close(&given[0], [1.5f64.exp(), 2f64.exp()]);
        let slopes = run(&GradientKernel::new(Fewer, &[0]), &[&[1.0, 1.0], &x], 1);
        assert!(slopes[0] == given[0]);
    }
}
