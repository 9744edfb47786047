//! `fuse!`: a pointwise expression as one operation, whose gradients are derived from the expression.
//!
//! Note [Fused operations]
//! The formula is generic over [`Real`](foldback_tensor::kernel::Real) and is evaluated at four kinds of number: lanes
//! of a block for the value; duals of lanes for the gradients, in the block pass that folds them; duals of recorded
//! values under `create_graph`; and duals of [`names::Names`], which tell what each gradient reads and so what to save.
//!
//! Note [Few elements]
//! Functions of operands that the result repeats, as in `x * w.exp()` for a row `w`, are computed before, once for each of their elements.
//! Computed for each element of the result they took 1.5 to 3.7 times as long as operators. What they give is read in the place of these
//! operands where nothing else reads them. A single function is recorded by operators then, and what is made of it as a formula of its own, see Note
//! [Composed formulas] in `kernels/outer.rs` of the tensor crate. What is one or two operations of columns is recorded by operators, too,
//! and so are one operation, a function and another one, and up to three that are not summed, of few elements of the result; one operation of
//! what several functions give, each of operands of its own, of which some repeat; and what has a single operation that is not of few elements.
//!
//! Note [Saved results]
//! A gradient computes anew what it reads of the formula, which for large operands takes less time than memory does. In the cache a
//! function such as `tanh` is most of the time. So what the formula's functions give, where slopes read that, as of `tanh(x) * w`,
//! a node saves, too, if it is small. If it is the formula's value, that is saved before it is reduced, if it is; else a kernel stores
//! it beside the value. In `f64` a value is saved at any size: of 1,250,000 elements `tanh(x * y + z)` and back took 1.8 times as long as
//! operators, which save it. There are no such results within a budget, which has no way to compute them again, and a pass that is recorded does
//! not read them.

mod backward;
mod by_operators;
mod derived;
pub mod expansion;
mod fold;
mod names;
mod operands;
mod results;

use std::fmt;

use foldback_tensor::kernel::{self, FloatKernel, Formula, ReducedShapes, Target};
use foldback_tensor::{BroadcastWarning, DType, Here, Over, Tensor, broadcast_shapes, broadcast_warning};

pub use operands::Operands;

use crate::error::Result;
use crate::input::Input;
use crate::mode::is_grad_enabled;
use crate::node::Var;
use crate::origins::with_origins;
use crate::record::{Reads, record_one};
use crate::var::ValueRef;
use by_operators::{are_operators_faster, elements_of, given_of, operands_of_function, whole_of};
use derived::{Composed, Derived, PerOperand};
use names::Names;
use operands::{are_alike, variables};
use results::{KnownResults, LEAST_WITH_FEW, Results, computed};

/// A pointwise expression as one operation: one node, one pass over memory each way, nothing stored in between but small results of
/// functions that the way back reads, values in `f64` that it reads, and results of functions of operands that the result repeats. A single
/// function may have nodes of its own, and an expression of one or two operations that reads columns, of up to three that is of few elements, or of a single one that is not, those of operators.
///
/// `fuse!(|x, w, b| (x * w + b).square())` makes a [`Fused`] of three operands, to be called as often as one likes. Its
/// operands broadcast and promote as those of every operation; its gradients, to any order, come from the expression
/// itself. The expression is written over numbers, one element of each operand:
///
/// - `+ - * /` between operands, and with literals of type `f64` on either side: `2.0 * x`, `x + 1.0`, `-x`;
/// - the methods of [`Real`](kernel::Real) and [`Num`](kernel::Num): `exp`, `ln`, `tanh`, `sigmoid`, `sqrt`, `rsqrt`,
///   `square`, `abs`, `pow_number(3.0)`, `x.maximum(y)`, `x.relu()`, ...;
/// - `R` is the type of the numbers: `R::lit(0.0)` is a constant, and `R::select(x.gt(y), a, b)` chooses;
/// - captured numbers are named behind a semicolon: `fuse!(|x, m, v; eps| (x - m) * (v + eps).rsqrt())`. Whatever is
///   computed from captured numbers alone is computed before, outside;
/// - blocks with `let`, and functions of one's own that are generic over `R: Real` (where a sine, cosine or tangent takes two to three
///   times as long as one that the expression itself names).
///
/// An operation has one to seven operands. The conventions at edges (ties, kinks, `0 ** 0`) are those of the methods of
/// [`Var`], and so are the results but for the last bits.
///
/// ```
/// use foldback_graph::{RequiresGrad, fuse};
/// use foldback_tensor::tensor;
///
/// let f = fuse!(|x, w, b| (x * w + b).square());
/// let x = tensor![[1.0, 2.0], [3.0, 4.0]];
/// let w = tensor![0.5, -1.0].requires_grad();
/// let b = tensor![[1.0], [2.0]].requires_grad();
/// let y = f.sum((&x, &w, &b), ..)?;
/// y.backward()?;
/// assert_eq!(y.value().item_as::<f32>()?, 2.25 + 1.0 + 12.25 + 4.0);
/// assert_eq!(w.grad(), Some(tensor![24.0, -20.0]));
/// assert_eq!(b.grad(), Some(tensor![[1.0], [3.0]]));
///
/// let eps = 1e-5;
/// let normalise = fuse!(|x, mean, var; eps| (x - mean) * (var + eps).rsqrt());
/// assert!(normalise.call((&x, 2.5, 1.25))?.value().mean(..)?.item_as::<f32>()?.abs() < 1e-6);
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[macro_export]
macro_rules! fuse {
    (|$($x:ident),+ $(,)? $(; $($captured:ident),* $(,)?)?| $formula:expr $(,)?) => {{
        #[derive(Clone, Copy)]
        struct Written([f64; <[&str]>::len(&[$($(stringify!($captured)),*)?])]);

        impl $crate::__fuse::Formula<{ <[&str]>::len(&[$(stringify!($x)),+]) }> for Written {
            const SUMS: bool = true;
            const BY_OPERATORS: bool = true;
            const NEAR: bool = $crate::__fuse::calls(stringify!($formula), $crate::__fuse::ANGLES) > 0;
            const CALLS: usize = $crate::__fuse::with_loops(stringify!($formula));
            const OF_FUNCTION: Option<usize> =
                $crate::__fuse::of_function(stringify!($formula), &[$(stringify!($x)),+]);
            #[inline(always)]
            fn eval<R: $crate::__fuse::Real>(
                &self,
                [$($x),+]: [R; <[&str]>::len(&[$(stringify!($x)),+])],
            ) -> R
            where
                f64: $crate::__fuse::FloatOps<R>,
            {
                let [$($($captured),*)?] = self.0;
                $formula
            }
        }

        $crate::Fused::new(
            concat!("fuse (", file!(), ":", line!(), ")"),
            Written([$($($crate::__fuse::number($captured)),*)?]),
        )
    }};
}

/// An operation made by [`fuse!`](crate::fuse!) of a formula with `N` operands.
///
/// Operands are variables, tensors or numbers, in an array or a tuple ([`Operands`]). They are computed with in their
/// common floating-point type, which tensors of rank 0 do not widen, as in operations. Errors name the place where the formula stands.
#[derive(Clone, Copy)]
pub struct Fused<F, const N: usize> {
    name: &'static str,
    is_named: bool,
    formula: F,
}

impl<F, const N: usize> fmt::Debug for Fused<F, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)
    }
}

impl<F: Formula<N> + 'static, const N: usize> Fused<F, N> {
    /// An operation of a formula that is a type of its own, as [`fuse!`](crate::fuse!) writes one. It is one node, whatever it is called with; errors show
    /// the name.
    ///
    /// ```
    /// use foldback_graph::Fused;
    /// use foldback_tensor::kernel::{FloatOps, Formula, Real};
    /// use foldback_tensor::tensor;
    ///
    /// #[derive(Clone, Copy)]
    /// struct Snake { frequency: f64 }
    /// impl Formula<1> for Snake {
    ///     #[inline(always)]
    ///     fn eval<R: Real>(&self, [x]: [R; 1]) -> R where f64: FloatOps<R> {
    ///         x + (x * self.frequency).sin().square() / self.frequency
    ///     }
    /// }
    /// let snake = Fused::new("snake", Snake { frequency: 2.0 });
    /// assert_eq!(snake.call([&tensor![0.0]])?.value(), tensor![0.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub const fn new(name: &'static str, formula: F) -> Self {
        const { assert!(0 < N && N <= 7, "a fused operation has one to seven operands") };
        Fused { name, is_named: false, formula }
    }

    /// The same operation under a name of its own, in errors and in what is shown of a graph: else it is called by its place. Where an expression
    /// has the nodes of operators, these have their names; one of two or three operations of few elements that has a name is a node of its own instead, but for
    /// a function and one operation beside it.
    ///
    /// ```
    /// use foldback_graph::fuse;
    /// use foldback_tensor::{Tensor, tensor};
    /// let scaled = fuse!(|x, w| x * w).named("scaled");
    /// let e = scaled.call([&Tensor::ones([2, 3]), &Tensor::ones(2)]).unwrap_err();
    /// assert!(e.to_string().starts_with("scaled: "));
    /// ```
    #[must_use]
    pub const fn named(self, name: &'static str) -> Self {
        Fused { name, is_named: true, ..self }
    }

    /// The formula, element by element over broadcast operands.
    ///
    /// # Errors
    /// If the shapes do not broadcast.
    ///
    /// ```
    /// use foldback_graph::{RequiresGrad, fuse};
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, -2.0].requires_grad();
    /// let y = fuse!(|x, slope| R::select(x.gt(R::lit(0.0)), x, x * slope)).call((&x, 0.25))?;
    /// assert_eq!(y.value(), tensor![1.0, -0.5]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn call(&self, operands: impl Operands<N>) -> Result<Var> {
        self.run(&operands.inputs(), None).here()
    }

    /// The sum of the formula over `axes` (`1`, `[0, -1]`, `..` for all). What is summed is stored only
    /// where it, or a part of it at a time, stays in the cache, where it is what a function gives in `f64` and the way back reads that, or where it comes of an operand of its
    /// shape whose axes lie in an order in which sums would have other bits.
    ///
    /// # Errors
    /// If the shapes do not broadcast, or an axis does not exist or is named twice.
    ///
    /// ```
    /// use foldback_graph::{RequiresGrad, fuse};
    /// use foldback_tensor::tensor;
    /// let (x, w) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![10.0, 1.0].requires_grad());
    /// let y = fuse!(|x, w| x * w).sum((&x, &w), 1)?;
    /// assert_eq!(y.value(), tensor![12.0, 34.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn sum(&self, operands: impl Operands<N>, over: impl Into<Over>) -> Result<Var> {
        self.run(&operands.inputs(), Some(Reduced { over: over.into(), mean: false })).here()
    }

    /// The mean of the formula over `axes`, as [`Fused::sum`].
    ///
    /// # Errors
    /// As [`Fused::sum`].
    ///
    /// ```
    /// use foldback_graph::{RequiresGrad, fuse};
    /// use foldback_tensor::tensor;
    /// let (y, target) = (tensor![1.0, 2.0].requires_grad(), tensor![0.0, 4.0]);
    /// let loss = fuse!(|y, t| (y - t).square()).mean((&y, &target), ..)?;
    /// loss.backward()?;
    /// assert_eq!(loss.value().item_as::<f32>()?, 2.5);
    /// assert_eq!(y.grad(), Some(tensor![1.0, -2.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn mean(&self, operands: impl Operands<N>, over: impl Into<Over>) -> Result<Var> {
        self.run(&operands.inputs(), Some(Reduced { over: over.into(), mean: true })).here()
    }

    #[track_caller]
    fn run(&self, inputs: &[Input<'_>], reduce: Option<Reduced>) -> Result<Var> {
        apply((self.name, self.is_named), &FloatKernel::<F, N>(self.formula), inputs, reduce)
    }
}

/// How a result is to be reduced.
struct Reduced {
    over: Over,
    mean: bool,
}

/// What a result has been reduced to, and whether its mean was taken.
type Reduction = Option<(ReducedShapes, bool)>;

/// Evaluates a formula and records it.
#[track_caller]
fn apply(
    (name, is_named): (&'static str, bool),
    formula: &dyn Composed,
    inputs: &[Input<'_>],
    reduce: Option<Reduced>,
) -> Result<Var> {
    let _span = crate::profile::forward(name);
    let (made, given, outer, _meant);
    let mut own = PerOperand::<&Var>::new();
    if are_alike(inputs) {
        inputs.iter().for_each(|input| {
            if let Input::Var(v) = input {
                own.push(v)
            }
        });
    } else {
        made = variables(inputs);
        made.iter().for_each(|v| own.push(v));
    }
    let records = is_grad_enabled() && own.iter().any(|v| v.requires_grad());
    let is_slow =
        || is_slow_of_all(formula, &own) && are_operators_faster(formula, &own, reduce.is_some(), false);
    if !records
        && !is_slow()
        && let Some(value) = value_of_few(name, formula, &own, reduce.as_ref())
    {
        return Ok(record_one(name, &own, value, Reads::All(&[]), || formula.backward(None)));
    }
    // Errors of a pass show what has a name by it.
    let may_be_small = records && !is_named && reduce.is_none();
    if are_operators_faster(formula, &own, reduce.is_some(), may_be_small)
        && let Some(result) = whole_of(name, formula, &own, reduce.as_ref())
    {
        return Ok(result);
    }
    let mut whole: &dyn Derived = formula;
    if let Some(read) = operands_of_function(formula, &own, records) {
        given = given_of(name, formula, &own, read)?;
        (0..own.len()).filter(|&k| read.has(k + 1)).for_each(|k| own[k] = &given);
        outer = formula.outer();
        whole = &*outer;
        // All have been looked at together.
        _meant = broadcast_warning(BroadcastWarning::Off);
        if are_operators_faster(whole, &own, reduce.is_some(), may_be_small)
            && let Some(result) = whole_of(name, whole, &own, reduce.as_ref())
        {
            return Ok(result);
        }
    }
    let (formula, inputs) = (whole, &own[..]);
    let mut values = PerOperand::<ValueRef<'_>>::new();
    inputs.iter().for_each(|v| values.push(v.value_ref()));
    let mut operands = PerOperand::<&Tensor>::new();
    values.iter().for_each(|v| operands.push(v));
    let tracked = |k: usize| records && inputs[k].requires_grad();
    let known = |n: usize| KnownResults::of(name, formula, &operands, n, &tracked);
    let (mut reduced, mut results) = (None, Results::new());
    // No closures here: what is warned of in one would have no line of the caller's.
    let value = match &reduce {
        None => {
            let n = if formula.calls() > 0 { elements(&operands) } else { None };
            match n.map(known).transpose() {
                Ok(known) => {
                    computed(name, formula, &operands, known.unwrap_or_default(), None, &mut results)
                }
                Err(e) => Err(e),
            }
        }
        Some(reduce) => match kernel::reduction(name, &operands, reduce.over.axes()) {
            Ok(shapes) => match known(shapes.full.numel()) {
                Ok(known) => {
                    let (shapes, _) = &*reduced.insert((shapes, reduce.mean));
                    reduced_value(name, formula, &operands, (reduce, shapes), known, &mut results)
                }
                Err(e) => Err(e),
            },
            Err(e) => Err(e),
        },
    };
    let value = value.map_err(|e| with_origins(e, inputs))?;
    let mut read = PerOperand::<Option<&Tensor>>::new();
    if records {
        let slopes = formula.names();
        let tracked = inputs.iter().zip(&slopes).filter(|v| v.0.requires_grad());
        let names = tracked.filter_map(|v| *v.1).fold(Names::NONE, Names::and_of);
        // Place 0 of what a gradient is made of is the incoming gradient.
        operands.iter().enumerate().for_each(|(k, t)| read.push(names.has(k + 1).then_some(*t)));
    }
    Ok(record_one(name, inputs, value, Reads::Given(&read, &results), || formula.backward(reduced)))
}

/// Elements of the common shape, if there is one.
fn elements(operands: &[&Tensor]) -> Option<usize> {
    let shapes: PerOperand<&[usize]> = operands.iter().map(|t| t.dims()).collect();
    match shapes[..] {
        [shape] => Some(shape.iter().product()),
        _ => broadcast_shapes(&shapes).ok().map(|shape| shape.numel()),
    }
}

/// Whether a function of a quarter of the elements or fewer takes longer of all than it takes to call operators: of one number, beside 2,400 in `f64`,
/// `x * y.sigmoid()` took seven times as long as they do.
fn is_slow_of_all(formula: &dyn Composed, operands: &[&Var]) -> bool {
    let is_slow_of = |place: usize| {
        let (n, least) =
            (elements_of(operands), if operands[0].dtype() == DType::F64 { 1 << 8 } else { 1 << 11 });
        n >= least && operands[place].numel().saturating_mul(4) <= n
    };
    formula.of_function().is_some_and(is_slow_of)
}

/// The value of few elements that lie in order, where nothing is to be recorded: most of a call is bookkeeping there. `None` where something is wrong, too.
#[track_caller]
fn value_of_few(
    name: &'static str,
    formula: &dyn Derived,
    operands: &[&Var],
    reduce: Option<&Reduced>,
) -> Option<Tensor> {
    if elements_of(operands) >= LEAST_WITH_FEW {
        return None;
    }
    let mut values = PerOperand::<ValueRef<'_>>::new();
    let mut tensors = PerOperand::<&Tensor>::new();
    operands.iter().filter_map(|v| v.borrowed_value()).for_each(|t| tensors.push(t));
    if tensors.len() < operands.len() {
        operands.iter().for_each(|v| values.push(v.value_ref()));
        tensors.clear();
        values.iter().for_each(|t| tensors.push(t));
    }
    // Sums of what lies in another order would be those of another one.
    if !tensors.iter().all(|t| t.is_contiguous()) {
        return None;
    }
    let value = kernel::evaluate(name, formula.value(), &tensors).ok()?;
    match reduce {
        None => Some(value),
        Some(Reduced { over, mean: false }) => value.sum(over).ok(),
        Some(Reduced { over, mean: true }) => value.mean(over).ok(),
    }
}

/// The reduced value, without an unreduced one, or beside what is saved.
#[track_caller]
fn reduced_value(
    name: &'static str,
    formula: &dyn Derived,
    values: &[&Tensor],
    (reduce, reduction): (&Reduced, &ReducedShapes),
    known: KnownResults,
    results: &mut Results,
) -> Result<Tensor> {
    // The sum of all has no axes to be dropped afterwards.
    let target = if reduction.dropped.is_empty() && !reduce.over.keepdim() {
        &reduction.dropped
    } else {
        &reduction.kept
    };
    let mut value = computed(name, formula, values, known, Some(Target::of(target)), results)?;
    if reduction.kept == reduction.full {
        // One element for each sum, which is added to 0 all the same: of -0 that is 0.
        value = value.add(0.0)?;
    }
    if reduce.mean {
        value = value.div(reduction.count as f64)?;
    }
    if !reduce.over.keepdim() && *value.shape() != reduction.dropped {
        value = value.reshape(&reduction.dropped)?;
    }
    Ok(value)
}
