//! Formulas written once over `Real` or `Num`, and the adaptors that make block kernels of them.

use super::by_rows::{RowInput, rows_float, rows_num_float, rows_num_i64};
use super::giving::values_by_calls;
use super::lane::Float;
use super::real::{FloatOps, Num, Real};
use super::sums::Value;
use super::{BlockKernel, SumOfRows, doors, each};
use crate::dtype::{Block, BlockMut, DType, Element};

/// A pointwise function of `N` real numbers, written once for every representation of them.
///
/// ```
/// use foldback_tensor::kernel::{FloatKernel, FloatOps, Formula, Real, evaluate};
/// use foldback_tensor::tensor;
///
/// #[derive(Clone, Copy)]
/// struct TanhGradient;
/// impl Formula<2> for TanhGradient {
///     fn eval<R: Real>(&self, [g, y]: [R; 2]) -> R where f64: FloatOps<R> {
///         g * (1.0 - y * y)
///     }
/// }
/// let g = evaluate("tanh_backward", &FloatKernel(TanhGradient), &[&tensor![2.0, 2.0], &tensor![0.0, 0.5]])?;
/// assert_eq!(g, tensor![2.0, 1.5]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
pub trait Formula<const N: usize>: Copy + Send + Sync {
    #[doc(hidden)]
    const TAKES_A_NUMBER: bool = false;
    /// Whether its loops try sines, cosines and tangents as those of near angles first, see Note [Near angles] in `kernels/near.rs`: below
    /// 2^20 these functions take 0.16 to 0.38 of the time. That costs compile time, and there are no loops for its sums.
    #[doc(hidden)]
    const NEAR: bool = false;
    /// How many functions it seems to call, of which loops store or read what they give, see Note [Known results] in
    /// `kernels/calls.rs`. They cost compile time.
    #[doc(hidden)]
    const CALLS: usize = 0;
    /// If it seems to call one function, the first operand that the function reads, where others are read, and nothing else reads those that it
    /// does: where these are few elements, the formula is evaluated as two, see Note [Composed formulas] in `kernels/outer.rs`. That costs
    /// compile time.
    #[doc(hidden)]
    const OF_FUNCTION: Option<usize> = None;
    /// Whether there are loops that add its results, which cost compile time.
    #[doc(hidden)]
    const SUMS: bool = false;
    /// Whether it may be recorded by operators, where these take less time: its gradients then are theirs, of which the last bits may differ, and
    /// what comes of infinity. What is written for its gradients, as that of squared errors, is recorded as it is written.
    #[doc(hidden)]
    const BY_OPERATORS: bool = false;

    /// The value. Implementations are marked `#[inline(always)]` so that the loop around them vectorises.
    fn eval<R: Real>(&self, x: [R; N]) -> R
    where
        f64: FloatOps<R>;
}

/// A pointwise function that integers have too.
pub(crate) trait NumFormula<const N: usize>: Copy + Send + Sync {
    const TAKES_A_NUMBER: bool = false;

    /// The value.
    fn eval<R: Num>(&self, x: [R; N]) -> R;
}

/// A pointwise relation of two numbers.
pub(crate) trait Compare: Copy + Send + Sync {
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
    each(&[][..], |k| T::slice(inputs[k]).expect("the plan casts every input to the type of the kernel"))
}

/// A [`Formula`] as a block kernel over `f32` or `f64`, whichever the output is.
#[derive(Clone, Copy, Debug)]
pub struct FloatKernel<F, const N: usize>(pub F);

impl<F: Formula<N>, const N: usize> BlockKernel for FloatKernel<F, N> {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        match &mut outputs[0] {
            BlockMut::F32(out) => values::<f32, F, N>(&self.0, typed(inputs), out),
            BlockMut::F64(out) => values::<f64, F, N>(&self.0, typed(inputs), out),
            other => unreachable!("a formula over real numbers was planned for {:?}", other.dtype()),
        }
    }

    fn arity(&self) -> Option<(usize, usize)> {
        Some((N, 1))
    }

    fn takes_a_number(&self) -> bool {
        F::TAKES_A_NUMBER && N == 2
    }

    fn takes_rows(&self) -> bool {
        F::TAKES_A_NUMBER && N == 2
    }

    fn run_rows(&self, inputs: [RowInput<'_>; 2], cols: usize, out: BlockMut<'_>) {
        // Of a constant condition only the branch that is taken is compiled.
        if const { F::TAKES_A_NUMBER && N == 2 } {
            match out {
                BlockMut::F32(out) => rows_float::<f32, F, N>(&self.0, inputs.map(|x| x.typed()), cols, out),
                BlockMut::F64(out) => rows_float::<f64, F, N>(&self.0, inputs.map(|x| x.typed()), cols, out),
                other => unreachable!("a formula over real numbers was planned for {:?}", other.dtype()),
            }
        }
    }

    fn sums(&self) -> bool {
        are_summed::<F, N>()
    }

    fn sum_rows(&self, rows: SumOfRows<'_>) {
        // Of a constant condition only the branch that is taken is compiled.
        if const { are_summed::<F, N>() } {
            rows.add(&Value(self.0));
        }
    }
}

/// Whether a formula has loops that add its results: with a function in them they take longer than loops that store blocks.
pub(super) const fn are_summed<F: Formula<N>, const N: usize>() -> bool {
    F::SUMS && !F::NEAR && F::CALLS == 0
}

/// The values of a formula.
fn values<T: Float, F: Formula<N>, const N: usize>(f: &F, x: [&[T]; N], out: &mut [T]) {
    // Of a constant condition only the branch that is taken is compiled.
    match const { F::CALLS < 2 } {
        true => doors::map_float::<T, F, N>(f, x, out),
        false => values_by_calls(f, x, Default::default(), out),
    }
}

/// A [`NumFormula`] as a block kernel over `i64`, `f32` or `f64`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NumKernel<F, const N: usize>(pub F);

impl<F: NumFormula<N>, const N: usize> BlockKernel for NumKernel<F, N> {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        match &mut outputs[0] {
            BlockMut::F32(out) => doors::map_num_float::<f32, F, N>(&self.0, typed(inputs), out),
            BlockMut::F64(out) => doors::map_num_float::<f64, F, N>(&self.0, typed(inputs), out),
            BlockMut::I64(out) => doors::map_num_i64::<F, N>(&self.0, typed(inputs), out),
            BlockMut::Bool(_) => unreachable!("arithmetic was planned for bool"),
        }
    }

    fn arity(&self) -> Option<(usize, usize)> {
        Some((N, 1))
    }

    fn takes_a_number(&self) -> bool {
        F::TAKES_A_NUMBER && N == 2
    }

    fn takes_rows(&self) -> bool {
        F::TAKES_A_NUMBER && N == 2
    }

    fn run_rows(&self, inputs: [RowInput<'_>; 2], cols: usize, out: BlockMut<'_>) {
        // Of a constant condition only the branch that is taken is compiled.
        if const { F::TAKES_A_NUMBER && N == 2 } {
            match out {
                BlockMut::F32(out) => {
                    rows_num_float::<f32, F, N>(&self.0, inputs.map(|x| x.typed()), cols, out)
                }
                BlockMut::F64(out) => {
                    rows_num_float::<f64, F, N>(&self.0, inputs.map(|x| x.typed()), cols, out)
                }
                BlockMut::I64(out) => rows_num_i64::<F, N>(&self.0, inputs.map(|x| x.typed()), cols, out),
                BlockMut::Bool(_) => unreachable!("arithmetic was planned for bool"),
            }
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
pub struct UpdateKernel<F, const M: usize, const N: usize>(pub F);

impl<F: Update<M, N>, const M: usize, const N: usize> UpdateKernel<F, M, N> {
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

    fn arity(&self) -> Option<(usize, usize)> {
        Some((N, M))
    }
}
