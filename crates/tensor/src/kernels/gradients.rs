//! The block kernel of a formula's gradients: all that are wanted, in one pass over the operands.

use std::ops::Range;

use smallvec::SmallVec;

use super::calls::{CallSet, Called, KnownInputs, MOST_CALLS};
use super::dual::Dual;
use super::formula::{Formula, are_summed, typed};
use super::giving::{ScratchRows, assert_have_loops, calls_at, known_in, results, shortened};
use super::lane::{Float, Lane};
use super::level::{Level, level};
use super::near::{InLoop, Near, pieces};
use super::real::{FloatOps, Real};
use super::sums::{Summand, are_added};
use super::{BlockKernel, SumOfRows, doors::door, each};
use crate::dtype::{Block, BlockMut, DType};
use crate::task::LANES;

/// The gradients of a [`Formula`] by duals: inputs `g, x0, x1, ...`, one output per wanted input with `g * dF/dxk`.
///
/// ```
/// use foldback_tensor::{kernel::{self, FloatOps, Formula, GradientKernel, Real, Target}, tensor};
/// #[derive(Clone, Copy)]
/// struct Scaled;
/// impl Formula<2> for Scaled {
///     fn eval<R: Real>(&self, [x, w]: [R; 2]) -> R where f64: FloatOps<R> { (x * w).tanh() }
/// }
/// // The gradient of `w`, summed over the rows that it was broadcast to.
/// let kernel = GradientKernel::new(Scaled, &[1]);
/// let (g, x, w) = (tensor![[1.0], [3.0]], tensor![[2.0], [5.0]], tensor![0.0]);
/// assert_eq!(kernel::fold_to("scaled", &kernel, &[&g, &x, &w], Target::of(&[1].into()))?, tensor![17.0]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct GradientKernel<F, const N: usize> {
    formula: F,
    /// per output, the input it is the gradient of
    wanted: SmallVec<[usize; 4]>,
    /// what functions give that is read, see Note [Known results]
    known: KnownInputs,
}

impl<F: Formula<N>, const N: usize> GradientKernel<F, N> {
    /// The kernel of the gradients of these inputs, which its outputs stand in the order of.
    ///
    /// # Panics
    /// If there is no such input, or one is named twice.
    pub fn new(formula: F, wanted: &[usize]) -> Self {
        const { assert!(0 < N && N <= 7, "there are loops for one to seven inputs") };
        let fits = |(at, k): (usize, &usize)| *k < N && !wanted[..at].contains(k);
        assert!(wanted.iter().enumerate().all(fits), "gradients of the inputs {wanted:?} of {N}");
        GradientKernel { formula, wanted: wanted.into(), known: KnownInputs::default() }
    }

    /// The same gradients where is known what some of the formula's functions give: that is read, and not computed again. For functions with [loops](Formula::CALLS) for that.
    ///
    /// # Panics
    /// As [`GradientKernel::new`], and of other functions.
    #[doc(hidden)]
    pub fn knowing(formula: F, wanted: &[usize], known: KnownInputs) -> Self {
        assert_have_loops::<F, N>(known.calls());
        GradientKernel { known, ..GradientKernel::new(formula, wanted) }
    }

    fn knows(&self) -> bool {
        self.known.calls() != CallSet::NONE
    }

    fn typed_run<T: Float>(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        if let Some(k) = number_among(inputs, outputs[0].len()) {
            return with_repeated::<T>(inputs, k, outputs[0].len(), &mut |inputs| {
                self.typed_run::<T>(inputs, outputs);
            });
        }
        // Of a constant condition only the branch that is taken is compiled.
        if const { F::CALLS > 0 } && self.knows() {
            self.run_by::<T, true>(self.known.blocks(inputs), inputs, outputs);
        } else {
            match const { F::CALLS > 1 } {
                true => self.run_by::<T, true>(Default::default(), inputs, outputs),
                false => self.run_by::<T, false>(Default::default(), inputs, outputs),
            }
        }
    }

    /// Runs the loop that knows what functions give, which is computed first where it is not there, or the one that computes all.
    fn run_by<T: Float, const KNOWS: bool>(
        &self,
        known: [&[T]; MOST_CALLS],
        inputs: &[Block<'_>],
        outputs: &mut [BlockMut<'_>],
    ) {
        let [g] = typed::<T, 1>(&inputs[..1]);
        let x: [&[T]; N] = typed(&inputs[1..]);
        let mut out: [Option<&mut [T]>; N] = [const { None }; N];
        for (block, &input) in outputs.iter_mut().zip(&self.wanted) {
            let len = block.len();
            out[input] = T::slice_mut(block.range(0, len));
        }
        let unwanted = N - self.wanted.len();
        let computes = KNOWS && self.known.calls() != CallSet::first(F::CALLS);
        if unwanted == 0 && !computes {
            return gradients::<T, F, N, KNOWS>(&self.formula, g, x, known, all_wanted(out));
        }
        // Of a constant condition only the branch that is taken is compiled.
        if const { has_loop_of_one::<F, N, KNOWS>() }
            && !computes
            && let [input] = self.wanted[..]
        {
            let out = out[input].take().expect("it is wanted");
            return gradient_of::<T, F, N, KNOWS>(&self.formula, g, x, known, input, out);
        }
        // The loop computes all gradients; those that nobody wants go to working memory, piece by piece.
        let mut rows = ScratchRows::new::<T>(unwanted + if computes { 1 + F::CALLS } else { 0 });
        for piece in pieces(g.len()) {
            let mut rows = rows.of::<T>(piece.len());
            let out = piece_or_row(&mut out, &piece, &mut rows);
            let (g, x) = (&g[piece.clone()], each(&[][..], |k| &x[k][piece.clone()]));
            let known = known_in(known, &piece);
            let known = if computes { results::<T, F, N>(&self.formula, x, known, rows) } else { known };
            gradients::<T, F, N, KNOWS>(&self.formula, g, x, known, out);
        }
    }

    /// Stores the gradients that are wanted by the loop that adds others, which lays out no number. The last block reaches back.
    fn put(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        let (n, all) = (outputs[0].len(), AllGradients(self.formula));
        let mut put = |start: usize, blocks: usize| {
            let rows = SumOfRows::stored(inputs, outputs, start, blocks);
            match self.wanted[..] {
                [input] => rows.put(&GradientOf { all, input }, &[0]),
                _ => rows.put(&all, &self.wanted),
            }
        };
        put(0, n / LANES);
        if !n.is_multiple_of(LANES) {
            put(n - LANES, 1);
        }
    }
}

impl<F: Formula<N>, const N: usize> BlockKernel for GradientKernel<F, N> {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        let (dtype, n) = (outputs[0].dtype(), outputs[0].len());
        // Of a constant condition only the branch that is taken is compiled.
        if const { are_put::<F, N>() } && n > FEW && number_among(inputs, n).is_some() {
            return self.put(inputs, outputs);
        }
        match dtype {
            DType::F32 => self.typed_run::<f32>(inputs, outputs),
            DType::F64 => self.typed_run::<f64>(inputs, outputs),
            other => unreachable!("gradients of a formula over real numbers were planned for {other}"),
        }
    }

    fn arity(&self) -> Option<(usize, usize)> {
        Some((self.known.inputs(N + 1), self.wanted.len()))
    }

    fn takes_numbers(&self, dtype: DType, n: usize) -> bool {
        n <= FEW || are_put::<F, N>() && are_added(dtype)
    }

    fn sums(&self) -> bool {
        are_summed::<F, N>()
    }

    fn sum_rows(&self, rows: SumOfRows<'_>) {
        // Of constant conditions only the branch that is taken is compiled.
        if const { are_summed::<F, N>() } {
            let all = AllGradients(self.formula);
            match self.wanted[..] {
                [input] => rows.add(&GradientOf { all, input }),
                _ if const { N > 1 } => rows.put(&all, &self.wanted),
                _ => unreachable!("an input has one gradient"),
            }
        }
    }
}

/// The first input that is a number beside so many elements.
fn number_among(inputs: &[Block<'_>], n: usize) -> Option<usize> {
    inputs.iter().position(|x| x.len() < n)
}

/// Elements beside which a number is repeated on the stack: the gradient of a sum of ten products takes 80 ns less than where it is in
/// working memory, that of 250 takes 80 ns less than by the loop that adds.
const FEW: usize = 4 * LANES;

/// Runs a loop with the number that input `k` is repeated beside few elements.
fn with_repeated<T: Float>(inputs: &[Block<'_>], k: usize, n: usize, run: &mut dyn FnMut(&[Block<'_>])) {
    let [number] = typed::<T, 1>(&inputs[k..=k]);
    let repeated = [number[0]; FEW];
    let mut inputs: SmallVec<[Block<'_>; 8]> = inputs.into();
    inputs[k] = T::block(&repeated[..n]);
    run(&inputs)
}

/// Whether gradients are stored by the loop that adds, too, where an operand is a number, which takes a tenth less than to repeat it.
const fn are_put<F: Formula<N>, const N: usize>() -> bool {
    are_summed::<F, N>() && N > 1
}

/// Whether there is a loop that stores the gradient of one input by itself, which costs compile time: where it calls no function that is not known, nor
/// one of angles.
const fn has_loop_of_one<F: Formula<N>, const N: usize, const KNOWS: bool>() -> bool {
    N > 1 && !F::NEAR && F::CALLS == KNOWS as usize
}

/// The gradient of one input, which is chosen where it runs: a loop for each would cost more compile time than it gains.
#[derive(Clone, Copy)]
struct GradientOf<F> {
    all: AllGradients<F>,
    input: usize,
}

impl<F: Formula<N>, const N: usize> Summand<N, 1> for GradientOf<F> {
    const TAKES_A_GRADIENT: bool = true;
    #[inline(always)]
    fn eval<R: Real>(&self, g: R, x: [R; N]) -> [R; 1]
    where
        f64: FloatOps<R>,
    {
        let slopes: [R; N] = self.all.eval(g, x);
        let mut slope = slopes[0];
        for (input, &of_it) in slopes.iter().enumerate() {
            if input == self.input {
                slope = of_it;
            }
        }
        [slope]
    }
}

/// The gradients of all inputs, as what is summed.
#[derive(Clone, Copy)]
struct AllGradients<F>(F);

impl<F: Formula<N>, const N: usize> Summand<N, N> for AllGradients<F> {
    const TAKES_A_GRADIENT: bool = true;
    #[inline(always)]
    fn eval<R: Real>(&self, g: R, x: [R; N]) -> [R; N]
    where
        f64: FloatOps<R>,
    {
        slopes(&self.0, g, x)
    }
}

door! {
    /// `out[i] = g[i] * dF/dxk`, for one `k`, as in [`gradients`].
    fn gradient_of[T: Float, F: Formula<N>, const N: usize, const KNOWS: bool][T, F, N, KNOWS](f: &F, g: &[T], x: [&[T]; N], known: [&[T]; MOST_CALLS], input: usize, out: &mut [T]);
    body gradient_of_body
}
#[inline(always)]
fn gradient_of_body<const FMA: bool, T: Float, F: Formula<N>, const N: usize, const KNOWS: bool>(
    f: &F,
    g: &[T],
    x: [&[T]; N],
    known: [&[T]; MOST_CALLS],
    input: usize,
    out: &mut [T],
) where
    f64: FloatOps<Lane<T, FMA>>,
{
    let n = out.len();
    let g = &g[..n];
    let x: [&[T]; N] = each(&[][..], |k| &x[k][..n]);
    let known = shortened(known, if KNOWS { F::CALLS } else { 0 }, 0..n);
    for (i, out) in out.iter_mut().enumerate() {
        let slopes = slopes_at::<Lane<T, FMA>, T, F, N, KNOWS>(f, g, x, known, i);
        let mut slope = slopes[0];
        for (k, &of_k) in slopes.iter().enumerate() {
            if k == input {
                slope = of_k;
            }
        }
        *out = slope.0;
    }
}

/// The gradients of all inputs at position `i`.
#[inline(always)]
fn slopes_at<R: InLoop<T>, T: Float, F: Formula<N>, const N: usize, const KNOWS: bool>(
    f: &F,
    g: &[T],
    x: [&[T]; N],
    known: [&[T]; MOST_CALLS],
    i: usize,
) -> [R; N]
where
    f64: FloatOps<R>,
{
    let g = R::of(g[i]);
    let x = each(g, |k| R::of(x[k][i]));
    if KNOWS {
        let calls = calls_at(F::CALLS, known, i);
        let slopes = slopes::<Called<'_, R>, F, N>(f, g.into(), each(g.into(), |k| calls.of(x[k])));
        each(g, |k| slopes[k].number())
    } else {
        slopes(f, g, x)
    }
}

// The next two are no closures where they are called: those would be generated for every formula.

/// Where the gradients go, all of which are wanted.
fn all_wanted<T, const N: usize>(out: [Option<&mut [T]>; N]) -> [&mut [T]; N] {
    out.map(|o| o.expect("every gradient is wanted once"))
}

/// Where the gradients of a piece go: a wanted one to its place, any other to the next row.
fn piece_or_row<'a, T, const N: usize>(
    out: &'a mut [Option<&mut [T]>; N],
    piece: &Range<usize>,
    rows: &mut impl Iterator<Item = &'a mut [T]>,
) -> [&'a mut [T]; N] {
    out.each_mut().map(|o| match o {
        Some(o) => &mut o[piece.clone()],
        None => rows.next().expect("one row for each that is not wanted"),
    })
}

/// The gradients of all inputs.
#[inline(always)]
fn slopes<R: Real, F: Formula<N>, const N: usize>(formula: &F, g: R, x: [R; N]) -> [R; N]
where
    f64: FloatOps<R>,
{
    let y = formula.eval::<Dual<R, N>>(each(Dual::constant(g), |k| {
        Dual::seeded(x[k], each(None, |along| if along == k { Some(g) } else { None }))
    }));
    each(g, |k| match y.slopes[k] {
        Some(slope) => slope,
        None => R::lit(0.0),
    })
}

door! {
    /// `out[k][i] = g[i] * dF/dxk`, at `x[0][i], x[1][i], ...`, where function `k` gives `known[k][i]` if that is known.
    fn gradients[T: Float, F: Formula<N>, const N: usize, const KNOWS: bool][T, F, N, KNOWS](f: &F, g: &[T], x: [&[T]; N], known: [&[T]; MOST_CALLS], out: [&mut [T]; N]);
    body gradients_body
}

/// Hands every output to the loop as an argument of its own: of arguments the compiler knows that they do not overlap,
/// which it must for many outputs to be written in one vectorised loop.
macro_rules! loops {
    ($($n:literal $name:ident: $($out:ident)+;)*) => {
        #[inline(always)]
        fn gradients_body<const FMA: bool, T: Float, F: Formula<N>, const N: usize, const KNOWS: bool>(
            f: &F,
            g: &[T],
            x: [&[T]; N],
            known: [&[T]; MOST_CALLS],
            mut out: [&mut [T]; N],
        ) where
            f64: FloatOps<Lane<T, FMA>> + FloatOps<Near<T, FMA>>,
        {
            // Of constant conditions only the branch that is taken is compiled.
            $(if const { N == $n } {
                let [$($out),+] = &mut out[..] else { unreachable!("there are as many as that") };
                if const { !F::NEAR } {
                    $name::<Lane<T, FMA>, T, F, N, KNOWS>(f, g, x, known, $($out),+);
                    return;
                }
                for piece in pieces(g.len()) {
                    let g = &g[piece.clone()];
                    let x = each(g, |k| &x[k][piece.clone()]);
                    let known = shortened(known, if KNOWS { F::CALLS } else { 0 }, piece.clone());
                    $(let $out = &mut $out[piece.clone()];)+
                    if !$name::<Near<T, FMA>, T, F, N, KNOWS>(f, g, x, known, $($out),+) {
                        $name::<Lane<T, FMA>, T, F, N, KNOWS>(f, g, x, known, $($out),+);
                    }
                }
                return;
            })*
        }
        $(
            /// Whether the gradients are right.
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            fn $name<R: InLoop<T>, T: Float, F: Formula<N>, const N: usize, const KNOWS: bool>(
                f: &F,
                g: &[T],
                x: [&[T]; N],
                known: [&[T]; MOST_CALLS],
                $($out: &mut [T]),+
            ) -> bool
            where
                f64: FloatOps<R>,
            {
                let n = g.len();
                let x: [&[T]; N] = each(&[][..], |k| &x[k][..n]);
                let known = shortened(known, if KNOWS { F::CALLS } else { 0 }, 0..n);
                $(let $out = &mut $out[..n];)+
                let mut gathered = R::Gathered::default();
                for i in 0..n {
                    let slopes = slopes_at::<R, T, F, N, KNOWS>(f, g, x, known, i);
                    let mut slopes = slopes.iter();
                    $($out[i] = match slopes.next() {
                        Some(slope) => slope.result(&mut gathered),
                        None => T::of(0.0),
                    };)+
                }
                R::are_right(gathered)
            }
        )*
    };
}
loops! {
    1 gradients_1: a;
    2 gradients_2: a b;
    3 gradients_3: a b c;
    4 gradients_4: a b c d;
    5 gradients_5: a b c d e;
    6 gradients_6: a b c d e h;
    7 gradients_7: a b c d e h j;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{FloatKernel, Real};

    #[derive(Clone, Copy)]
    struct Squash;
    impl Formula<3> for Squash {
        #[inline(always)]
        fn eval<R: Real>(&self, [x, w, b]: [R; 3]) -> R
        where
            f64: FloatOps<R>,
        {
            (x * w + b).tanh() * x
        }
    }

    /// The derivatives of the same, by hand.
    fn by_hand(g: f64, [x, w, b]: [f64; 3]) -> [f64; 3] {
        let t = (x * w + b).tanh();
        let inner = g * x * (1.0 - t * t);
        [inner * w + g * t, inner * x, inner]
    }

    fn gradients_of<T: Float>(wanted: &[usize], inputs: &[Vec<T>]) -> Vec<Vec<T>> {
        let n = inputs[0].len();
        let blocks: Vec<Block<'_>> = inputs.iter().map(|x| T::block(x)).collect();
        let mut outputs = vec![vec![T::of(-9.0); n]; wanted.len()];
        let mut out: Vec<BlockMut<'_>> = outputs.iter_mut().map(|o| T::block_mut(o)).collect();
        GradientKernel::new(Squash, wanted).run(&blocks, &mut out);
        outputs
    }

    #[test]
    #[should_panic(expected = "gradients of the inputs [1, 1] of 3")]
    fn an_input_has_one_gradient() {
        GradientKernel::new(Squash, &[1, 1]);
    }

    /// A formula whose value is what its only function gives.
    #[derive(Clone, Copy)]
    struct Known;
    impl Formula<2> for Known {
        const CALLS: usize = 1;
        #[inline(always)]
        fn eval<R: Real>(&self, [x, w]: [R; 2]) -> R
        where
            f64: FloatOps<R>,
        {
            (x * w + 0.5).tanh()
        }
    }

    /// From the result, gradients have the same bits as without it. What is read there is the result.
    #[test]
    fn a_known_result_is_read() {
        fn check<T: Float>(n: usize) {
            let numbers = |step: usize| -> Vec<T> {
                (0..n).map(|i| T::of(((i * step) % 101) as f64 / 40.0 - 1.25)).collect()
            };
            let [g, x, w] = [7, 11, 13].map(numbers);
            let mut y = vec![T::of(0.0); n];
            FloatKernel(Known).run(&[T::block(&x), T::block(&w)], &mut [T::block_mut(&mut y)]);
            let zeros = vec![T::of(0.0); n];
            let choices: [&[usize]; 4] = [&[0], &[1], &[0, 1], &[1, 0]];
            for wanted in choices {
                let gradients = |kernel: &GradientKernel<Known, 2>, inputs: &[&[T]]| {
                    let blocks: Vec<Block<'_>> = inputs.iter().map(|x| T::block(x)).collect();
                    let mut outputs = vec![vec![T::of(-9.0); n]; wanted.len()];
                    let mut out: Vec<BlockMut<'_>> = outputs.iter_mut().map(|o| T::block_mut(o)).collect();
                    kernel.run(&blocks, &mut out);
                    outputs
                };
                let anew = gradients(&GradientKernel::new(Known, wanted), &[&g, &x, &w]);
                let knowing =
                    GradientKernel::knowing(Known, wanted, KnownInputs::behind(3, CallSet::first(1)));
                assert!(gradients(&knowing, &[&g, &x, &w, &y]) == anew, "{wanted:?} of {n}");
                // Where tanh is 0, its slope is 1.
                let other = gradients(&knowing, &[&g, &x, &w, &zeros]);
                let slope = |k: usize, i: usize| if k == 0 { g[i] * w[i] } else { g[i] * x[i] };
                for (at, &k) in wanted.iter().enumerate() {
                    assert!((0..n).all(|i| other[at][i] == slope(k, i)), "{wanted:?}, {k} of {n}");
                }
            }
        }
        for n in (0..40).chain([1024, 2500]) {
            check::<f32>(n);
            check::<f64>(n);
        }
    }

    /// Any formula's gradients take numbers beside few elements, in either type.
    #[test]
    fn numbers_beside_few_elements_are_blocks_of_them() {
        fn check<T: Float>(n: usize) {
            let value = |k: usize, i: usize| T::of(((k * 37 + i * 11) % 101) as f64 / 40.0 - 1.25);
            for numbers in 0..16 {
                let is_number = |k: usize| numbers >> k & 1 == 1;
                let row = |k: usize| (0..n).map(|i| value(k, if is_number(k) { 0 } else { i })).collect();
                let rows: Vec<Vec<T>> = (0..4).map(row).collect();
                let few = |(k, row): (usize, &Vec<T>)| if is_number(k) { vec![row[0]] } else { row.clone() };
                let few: Vec<Vec<T>> = rows.iter().enumerate().map(few).collect();
                for wanted in [&[0][..], &[2, 1], &[0, 1, 2]] {
                    assert!(GradientKernel::new(Squash, wanted).takes_numbers(T::DTYPE, n));
                    let gradients = |inputs: &[Vec<T>]| {
                        let blocks: Vec<Block<'_>> = inputs.iter().map(|x| T::block(x)).collect();
                        let mut outputs = vec![vec![T::of(-9.0); n]; wanted.len()];
                        let mut out: Vec<BlockMut<'_>> =
                            outputs.iter_mut().map(|o| T::block_mut(o)).collect();
                        GradientKernel::new(Squash, wanted).run(&blocks, &mut out);
                        outputs
                    };
                    assert!(gradients(&few) == gradients(&rows), "{wanted:?} of {n}, numbers {numbers:b}");
                }
            }
        }
        for n in [1, 2, 10, 63, 64, 255, 256] {
            check::<f32>(n);
            check::<f64>(n);
        }
    }

    #[test]
    #[should_panic(expected = "no loops that read what CallSet(1) give")]
    fn not_every_formula_can_read_its_result() {
        GradientKernel::knowing(Squash, &[0], KnownInputs::behind(4, CallSet::first(1)));
    }

    #[test]
    fn every_choice_of_gradients_at_every_length() {
        let choices: [&[usize]; 9] =
            [&[0], &[1], &[2], &[0, 1], &[2, 0], &[1, 2], &[0, 1, 2], &[2, 1, 0], &[1, 0, 2]];
        for n in (0..70).chain([127, 1024, 1025, 2500]) {
            let number = |k: usize, i: usize| ((k * 37 + i * 11) % 101) as f64 / 40.0 - 1.25;
            let inputs: Vec<Vec<f64>> = (0..4).map(|k| (0..n).map(|i| number(k, i)).collect()).collect();
            let single: Vec<Vec<f32>> =
                inputs.iter().map(|x| x.iter().map(|&v| v as f32).collect()).collect();
            for wanted in choices {
                let (double, single) = (gradients_of(wanted, &inputs), gradients_of(wanted, &single));
                for (at, &k) in wanted.iter().enumerate() {
                    for i in 0..n {
                        let x = [inputs[1][i], inputs[2][i], inputs[3][i]];
                        let expected = by_hand(inputs[0][i], x)[k];
                        assert!((double[at][i] - expected).abs() < 1e-14, "{wanted:?}, {k} at {i} of {n}");
                        assert!(
                            (single[at][i] as f64 - expected).abs() < 5e-6,
                            "{wanted:?}, {k} at {i} of {n}"
                        );
                    }
                }
            }
        }
    }
}
