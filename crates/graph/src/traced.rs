//! `Traced`: formulas over recorded values, so that the gradient's formula is also the graph of the gradient.

use std::cell::RefCell;
use std::ops::{Add, Div, Mul, Neg, Sub};

use foldback_tensor::kernel::{Lane, Num, Real};
use foldback_tensor::{DType, Tensor};
use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::node::Var;
use crate::rule::{RuleFormula, Traced};

/// What a handle stands for.
#[derive(Clone)]
enum TracedValue {
    Var(Var),
    Number(f64),
}

struct Arena {
    items: Vec<TracedValue>,
    /// what the formula computes in: the type of its first operand
    dtype: DType,
    /// whether functions of steps are recorded, too, whose gradient is zero
    steps: bool,
    /// the first operation that failed; everything after it is meaningless
    error: Option<Error>,
}

thread_local! {
    static ARENA: RefCell<Arena> =
        const { RefCell::new(Arena { items: Vec::new(), dtype: DType::F64, steps: false, error: None }) };
}

impl dyn RuleFormula {
    /// Records it.
    pub(crate) fn trace(&self, params: &[f64; 2], reads: &[&Var]) -> Result<Var> {
        trace(reads, &|x| self.traced(params, x))
    }
}

/// Records a formula over variables.
pub(crate) fn trace(operands: &[&Var], formula: &dyn Fn(&[Traced]) -> Traced) -> Result<Var> {
    trace_many(operands, &|x| smallvec::smallvec![formula(x)]).map(|mut results| results.remove(0))
}

/// The same as by operators: operands that it reads by way of functions of steps have a gradient, of zero.
pub(crate) fn trace_operators(operands: &[&Var], formula: &dyn Fn(&[Traced]) -> Traced) -> Result<Var> {
    trace(operands, &|x| {
        ARENA.with_borrow_mut(|a| a.steps = true);
        formula(x)
    })
}

/// Records a formula with several results. A result that is a plain number gets shape and type of the first operand.
pub(crate) fn trace_many(
    operands: &[&Var],
    formula: &dyn Fn(&[Traced]) -> SmallVec<[Traced; 4]>,
) -> Result<SmallVec<[Var; 4]>> {
    let like = operands[0];
    let recording = Recording::start(like.dtype());
    let handles: SmallVec<[Traced; 8]> =
        operands.iter().map(|&v| push(TracedValue::Var(v.clone()))).collect();
    let results: SmallVec<[TracedValue; 4]> = formula(&handles).into_iter().map(item).collect();
    recording.finish()?;
    let result = |item: TracedValue| match item {
        TracedValue::Var(v) => Ok(v),
        TracedValue::Number(n) => Ok(Var::constant(Tensor::try_full_with(like.shape(), n, like.dtype())?)),
    };
    results.into_iter().map(result).collect()
}

/// A formula that is being recorded, perhaps inside another one's recording; it leaves the arena as it found it, also
/// when it panics.
struct Recording {
    start: usize,
    outer_dtype: DType,
    outer_steps: bool,
    outer_error: Option<Error>,
}

impl Recording {
    fn start(dtype: DType) -> Recording {
        ARENA.with_borrow_mut(|a| Recording {
            start: a.items.len(),
            outer_dtype: std::mem::replace(&mut a.dtype, dtype),
            outer_steps: std::mem::take(&mut a.steps),
            outer_error: a.error.take(),
        })
    }

    /// The error of this formula, if there was one.
    fn finish(self) -> Result<()> {
        match ARENA.with_borrow_mut(|a| a.error.take()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let items = ARENA.with_borrow_mut(|a| {
            a.dtype = self.outer_dtype;
            a.steps = self.outer_steps;
            a.error = self.outer_error.take();
            a.items.split_off(self.start)
        });
        // Outside the arena: what they own may record something when it is dropped.
        drop(items);
    }
}

fn push(item: TracedValue) -> Traced {
    ARENA.with_borrow_mut(|a| {
        a.items.push(item);
        Traced(a.items.len() as u32 - 1)
    })
}

fn item(t: Traced) -> TracedValue {
    ARENA.with_borrow(|a| a.items[t.0 as usize].clone())
}

/// Keeps a result, or the first error and something to go on with.
fn keep(result: Result<Var>) -> Traced {
    match result {
        Ok(v) => push(TracedValue::Var(v)),
        Err(e) => {
            ARENA.with_borrow_mut(|a| {
                a.error.get_or_insert(e);
            });
            push(TracedValue::Number(f64::NAN))
        }
    }
}

/// A binary operation on whatever the two handles stand for.
fn binary(
    a: Traced,
    b: Traced,
    vars: impl FnOnce(&Var, &Var) -> Result<Var>,
    right: impl FnOnce(&Var, f64) -> Result<Var>,
    left: impl FnOnce(f64, &Var) -> Result<Var>,
    numbers: impl FnOnce(f64, f64) -> f64,
) -> Traced {
    match (item(a), item(b)) {
        (TracedValue::Var(a), TracedValue::Var(b)) => keep(vars(&a, &b)),
        (TracedValue::Var(a), TracedValue::Number(b)) => keep(right(&a, b)),
        (TracedValue::Number(a), TracedValue::Var(b)) => keep(left(a, &b)),
        (TracedValue::Number(a), TracedValue::Number(b)) => push(TracedValue::Number(numbers(a, b))),
    }
}

fn unary(a: Traced, var: impl FnOnce(&Var) -> Result<Var>, number: impl FnOnce(f64) -> f64) -> Traced {
    match item(a) {
        TracedValue::Var(a) => keep(var(&a)),
        TracedValue::Number(a) => push(TracedValue::Number(number(a))),
    }
}

/// The value as a variable, for operations that have no form for numbers.
fn as_var(t: Traced) -> Var {
    match item(t) {
        TracedValue::Var(v) => v,
        TracedValue::Number(n) => Var::constant(Tensor::full_with((), n, ARENA.with_borrow(|a| a.dtype))),
    }
}

macro_rules! operator {
    ($trait:ident $f:ident $left:ident $op:tt) => {
        impl $trait for Traced {
            type Output = Traced;
            fn $f(self, o: Traced) -> Traced {
                binary(self, o, |a, b| Var::$f(a, b), |a, b| Var::$f(a, b), |a, b| Var::$left(b, a), |a, b| a $op b)
            }
        }
        impl $trait<f64> for Traced {
            type Output = Traced;
            fn $f(self, o: f64) -> Traced {
                self.$f(Traced::lit(o))
            }
        }
        impl $trait<Traced> for f64 {
            type Output = Traced;
            fn $f(self, o: Traced) -> Traced {
                Traced::lit(self).$f(o)
            }
        }
    };
}
operator!(Add add add +);
operator!(Sub sub rsub -);
operator!(Mul mul mul *);
operator!(Div div rdiv /);

impl Neg for Traced {
    type Output = Traced;
    fn neg(self) -> Traced {
        unary(self, Var::try_neg, |a| -a)
    }
}

/// A recorded truth value: a `bool` constant in the same arena.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TracedMask(Traced);

fn compare(a: Traced, b: Traced, f: impl FnOnce(&Var, &Var) -> Result<Var>) -> TracedMask {
    TracedMask(keep(f(&as_var(a), &as_var(b))))
}

macro_rules! steps {
    ($($name:ident),*) => {$(
        fn $name(self) -> Traced {
            let is_recorded = ARENA.with_borrow(|a| a.steps);
            let var = |v: &Var| if is_recorded { v.$name() } else { Var::constant(v.value_ref().$name()) };
            unary(self, |v| Ok(var(v)), |n| Lane::<f64, false>(n).$name().0)
        }
    )*};
}
impl Num for Traced {
    type Mask = TracedMask;
    fn lit(v: f64) -> Traced {
        push(TracedValue::Number(v))
    }
    fn lt(self, o: Traced) -> TracedMask {
        compare(self, o, |a, b| a.lt(b))
    }
    fn le(self, o: Traced) -> TracedMask {
        compare(self, o, |a, b| a.le(b))
    }
    fn eq(self, o: Traced) -> TracedMask {
        compare(self, o, |a, b| a.eq(b))
    }
    fn and(a: TracedMask, b: TracedMask) -> TracedMask {
        compare(a.0, b.0, |a, b| Ok(Var::constant(a.value_ref().logical_and(&*b.value_ref())?)))
    }
    fn or(a: TracedMask, b: TracedMask) -> TracedMask {
        compare(a.0, b.0, |a, b| Ok(Var::constant(a.value_ref().logical_or(&*b.value_ref())?)))
    }
    fn not(a: TracedMask) -> TracedMask {
        TracedMask(unary(a.0, |v| Ok(Var::constant(v.value_ref().logical_not())), |n| n))
    }
    fn select(mask: TracedMask, yes: Traced, no: Traced) -> Traced {
        keep(as_var(mask.0).where_cond(as_var(yes), as_var(no)))
    }
    fn abs(self) -> Traced {
        unary(self, Var::try_abs, f64::abs)
    }
    steps!(sign, floor, ceil, round, trunc);
    fn maximum(self, o: Traced) -> Traced {
        keep(as_var(self).maximum(as_var(o)))
    }
    fn minimum(self, o: Traced) -> Traced {
        keep(as_var(self).minimum(as_var(o)))
    }
    fn relu(self) -> Traced {
        unary(self, Var::try_relu, |n| Lane::<f64, false>(n).relu().0)
    }
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident $name_:ident $line:tt;)*) => {$(
        fn $name(self) -> Traced {
            function(self, Var::$name, |a| Lane::<f64, false>(a).$name().0)
        }
    )*};
}

fn function(a: Traced, var: fn(&Var) -> Var, number: fn(f64) -> f64) -> Traced {
    unary(a, |v| Ok(var(v)), number)
}

impl Real for Traced {
    foldback_tensor::__elementary!(functions);
    fn gelu(self) -> Traced {
        function(self, Var::gelu, |a| Lane::<f64, false>(a).gelu().0)
    }
    fn pow(self, o: Traced) -> Traced {
        // Not the form with a number, in which half powers are roots: that is `pow_number`.
        binary(self, o, |a, b| a.pow(b), |a, _| a.pow(as_var(o)), |_, b| as_var(self).pow(b), f64::powf)
    }
    fn pow_number(self, exponent: f64) -> Traced {
        let of_number = |a: f64| match exponent {
            0.5 => a.sqrt(),
            -0.5 => 1.0 / a.sqrt(),
            _ => a.powf(exponent),
        };
        unary(self, |a| a.pow(exponent), of_number)
    }
}

#[cfg(test)]
mod tests {
    use foldback_tensor::kernel::{self, FloatKernel, FloatOps, Formula};

    use super::*;

    const POINTS: [f64; 13] = [
        f64::NEG_INFINITY,
        -2.0,
        -0.3,
        -1e-310,
        -0.0,
        0.0,
        1e-310,
        0.5,
        1.0,
        2.0,
        40.0,
        f64::INFINITY,
        f64::NAN,
    ];

    /// The same number, the signs of zeros included, but for what a few operations round.
    fn same(a: f64, b: f64) -> bool {
        let close = (a - b).abs() <= 1e-14 * a.abs().max(b.abs());
        a.is_nan() && b.is_nan() || (a == b || close) && a.is_sign_negative() == b.is_sign_negative()
    }

    /// A formula of lanes, of recorded variables, of numbers, and of one of each.
    fn in_all_forms<F: Formula<2>>(name: &str, formula: F) -> String {
        let mut wrong = String::new();
        for (a, b) in POINTS.into_iter().flat_map(|a| POINTS.into_iter().map(move |b| (a, b))) {
            let tensor = |v: f64| Tensor::full_with([1], v, DType::F64);
            let lanes = kernel::evaluate("lanes", &FloatKernel(formula), &[&tensor(a), &tensor(b)]);
            let expected: f64 = lanes.and_then(|t| t.item()).expect("one number");
            let (x, y) = (Var::from(tensor(a)), Var::from(tensor(b)));
            type Form<'a> = (&'a str, &'a dyn Fn(&[Traced]) -> Traced);
            let forms: [Form<'_>; 4] = [
                ("variables", &|t| formula.eval([t[0], t[1]])),
                ("numbers", &|_| formula.eval([Traced::lit(a), Traced::lit(b)])),
                ("a variable and a number", &|t| formula.eval([t[0], Traced::lit(b)])),
                ("a number and a variable", &|t| formula.eval([Traced::lit(a), t[1]])),
            ];
            for (form, recorded) in forms {
                let result = trace(&[&x, &y], recorded).expect("equal shapes").value();
                assert_eq!(result.dtype(), DType::F64, "{name} of {form}");
                let found: f64 = result.item().expect("one number");
                if !same(expected, found) {
                    wrong += &format!("{name}({a:?}, {b:?}): {expected:?} by lanes, {found:?} by {form}\n");
                }
            }
        }
        wrong
    }

    macro_rules! formulas {
        ($($name:ident: |$x:ident, $y:ident| $formula:expr;)*) => {
            /// What is wrong with each.
            fn all() -> String {
                [$({
                    #[derive(Clone, Copy)]
                    struct Written;
                    impl Formula<2> for Written {
                        #[inline(always)]
                        fn eval<R: Real>(&self, [$x, $y]: [R; 2]) -> R
                        where
                            f64: FloatOps<R>,
                        {
                            let _ = $y;
                            $formula
                        }
                    }
                    in_all_forms(stringify!($name), Written)
                }),*].concat()
            }
        };
    }
    macro_rules! with_elementary {
        ($($(#[$doc:meta])* $name:ident $name_:ident $line:tt;)*) => {
            formulas! {
                $($name: |x, y| x.$name();)*
                add: |x, y| x + y;
                sub: |x, y| x - y;
                mul: |x, y| x * y;
                div: |x, y| x / y;
                neg: |x, y| -x;
                twice: |x, y| 2.0 * x + 1.0;
                lt: |x, y| R::select(x.lt(y), R::lit(0.1), R::lit(0.7));
                le: |x, y| R::select(x.le(y), R::lit(0.1), R::lit(0.7));
                eq: |x, y| R::select(x.eq(y), x, R::lit(0.7));
                gt: |x, y| R::select(x.gt(y), x, y);
                ge: |x, y| R::select(x.ge(y), y, x);
                ne: |x, y| R::select(x.ne(y), R::lit(0.1), x);
                and: |x, y| R::select(R::and(x.lt(y), y.gt(R::lit(0.0))), x, y);
                or: |x, y| R::select(R::or(x.lt(y), y.gt(R::lit(0.0))), x, y);
                not: |x, y| R::select(R::not(x.lt(y)), x, y);
                is_nan: |x, y| R::select(x.is_nan(), y, x);
                abs: |x, y| x.abs();
                sign: |x, y| x.sign();
                floor: |x, y| x.floor();
                ceil: |x, y| x.ceil();
                round: |x, y| x.round();
                trunc: |x, y| x.trunc();
                maximum: |x, y| x.maximum(y);
                minimum: |x, y| x.minimum(y);
                relu: |x, y| x.relu();
                square: |x, y| x.square();
                normal_cdf: |x, y| x.normal_cdf();
                gelu: |x, y| x.gelu();
                gelu_slope: |x, y| x.gelu_slope();
                pow: |x, y| x.pow(y);
                root: |x, y| x.pow_number(0.5);
                inverse_root: |x, y| x.pow_number(-0.5);
                cube: |x, y| x.pow_number(3.0);
                to_the_0: |x, y| x.pow_number(0.0);
            }
        };
    }
    foldback_tensor::__elementary!(with_elementary);

    #[test]
    fn recorded_numbers_follow_the_conventions_of_lanes() {
        let wrong = all();
        assert!(wrong.is_empty(), "{wrong}");
    }
}
