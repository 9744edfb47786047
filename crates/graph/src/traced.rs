//! `Traced`: formulas over recorded values, so that the gradient's formula is also the graph of the gradient.

use std::cell::RefCell;
use std::ops::{Add, Div, Mul, Neg, Sub};

use foldback_tensor::kernel::{Num, Real};
use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::var::Var;

/// A `Copy` handle on a variable (or a plain number) in the arena of the formula that is being recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traced(u32);

/// What a handle stands for.
#[derive(Clone)]
enum Item {
    Var(Var),
    Number(f64),
}

#[derive(Default)]
struct Arena {
    items: Vec<Item>,
    /// the first operation that failed; everything after it is meaningless
    error: Option<Error>,
}

thread_local! {
    static ARENA: RefCell<Arena> = RefCell::new(Arena::default());
}

/// Records a formula over variables.
pub(crate) fn trace<const N: usize>(
    operands: &[&Var],
    formula: impl FnOnce([Traced; N]) -> Traced,
) -> Result<Var> {
    let formula = |x: &[Traced]| smallvec::smallvec![formula(std::array::from_fn(|i| x[i]))];
    trace_many(&operands[..N], formula).map(|mut results| results.remove(0))
}

/// Records a formula with several results. A result that is a plain number gets shape and type of the first operand.
pub(crate) fn trace_many(
    operands: &[&Var],
    formula: impl FnOnce(&[Traced]) -> SmallVec<[Traced; 4]>,
) -> Result<SmallVec<[Var; 4]>> {
    let start = ARENA.with_borrow(|a| a.items.len());
    // A formula may be recorded inside another one's recording; each leaves the arena as it found it.
    let outer_error = ARENA.with_borrow_mut(|a| a.error.take());
    let handles: SmallVec<[Traced; 8]> = operands.iter().map(|&v| push(Item::Var(v.clone()))).collect();
    let results: SmallVec<[Item; 4]> = formula(&handles).into_iter().map(item).collect();
    let error = ARENA.with_borrow_mut(|a| {
        a.items.truncate(start);
        std::mem::replace(&mut a.error, outer_error)
    });
    if let Some(e) = error {
        return Err(e);
    }
    let like = operands[0];
    let result = |item: Item| match item {
        Item::Var(v) => Ok(v),
        Item::Number(n) => {
            Ok(Var::constant(foldback_tensor::Tensor::try_full(like.shape(), n, like.dtype())?))
        }
    };
    results.into_iter().map(result).collect()
}

fn push(item: Item) -> Traced {
    ARENA.with_borrow_mut(|a| {
        a.items.push(item);
        Traced(a.items.len() as u32 - 1)
    })
}

fn item(t: Traced) -> Item {
    ARENA.with_borrow(|a| a.items[t.0 as usize].clone())
}

/// Keeps a result, or the first error and something to go on with.
fn keep(result: Result<Var>) -> Traced {
    match result {
        Ok(v) => push(Item::Var(v)),
        Err(e) => {
            ARENA.with_borrow_mut(|a| a.error.get_or_insert(e).to_string());
            push(Item::Number(f64::NAN))
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
        (Item::Var(a), Item::Var(b)) => keep(vars(&a, &b)),
        (Item::Var(a), Item::Number(b)) => keep(right(&a, b)),
        (Item::Number(a), Item::Var(b)) => keep(left(a, &b)),
        (Item::Number(a), Item::Number(b)) => push(Item::Number(numbers(a, b))),
    }
}

fn unary(a: Traced, var: impl FnOnce(&Var) -> Result<Var>, number: impl FnOnce(f64) -> f64) -> Traced {
    match item(a) {
        Item::Var(a) => keep(var(&a)),
        Item::Number(a) => push(Item::Number(number(a))),
    }
}

/// The value as a variable, for operations that have no form for numbers.
fn as_var(t: Traced) -> Var {
    match item(t) {
        Item::Var(v) => v,
        Item::Number(n) => Var::constant(foldback_tensor::Tensor::full((), n, foldback_tensor::DType::F64)),
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
        unary(self, Var::neg, |a| -a)
    }
}

/// A recorded truth value: a `bool` constant in the same arena.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TracedMask(Traced);

fn compare(a: Traced, b: Traced, f: impl FnOnce(&Var, &Var) -> Result<Var>) -> TracedMask {
    TracedMask(keep(f(&as_var(a), &as_var(b))))
}

impl Num for Traced {
    type Mask = TracedMask;
    fn lit(v: f64) -> Traced {
        push(Item::Number(v))
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
        let (cond, yes, no) = (as_var(mask.0), item(yes), item(no));
        let side = |i: &Item, other: &Item| match (i, other) {
            (Item::Var(v), _) => v.clone(),
            (Item::Number(n), Item::Var(v)) => {
                Var::constant(foldback_tensor::Tensor::full((), *n, v.dtype()))
            }
            (Item::Number(n), Item::Number(_)) => {
                Var::constant(foldback_tensor::Tensor::full((), *n, foldback_tensor::DType::F32))
            }
        };
        keep(cond.where_cond(&side(&yes, &no), &side(&no, &yes)))
    }
    fn abs(self) -> Traced {
        unary(self, Var::abs, f64::abs)
    }
    fn sign(self) -> Traced {
        unary(self, |v| Ok(Var::constant(v.value_ref().sign())), f64::signum)
    }
    fn maximum(self, o: Traced) -> Traced {
        keep(as_var(self).maximum(&as_var(o)))
    }
    fn minimum(self, o: Traced) -> Traced {
        keep(as_var(self).minimum(&as_var(o)))
    }
}

macro_rules! functions {
    ($($f:ident: $number:expr;)*) => {$(
        fn $f(self) -> Traced {
            unary(self, |v| Ok(v.$f()), $number)
        }
    )*};
}

impl Real for Traced {
    functions! {
        exp: f64::exp;
        expm1: f64::exp_m1;
        ln: f64::ln;
        log1p: f64::ln_1p;
        sqrt: f64::sqrt;
        sin: f64::sin;
        cos: f64::cos;
        tanh: f64::tanh;
        sigmoid: |a| 1.0 / (1.0 + (-a).exp());
        erf: |a| foldback_tensor::Tensor::full((), a, foldback_tensor::DType::F64).erf().item().unwrap_or(f64::NAN);
    }
    fn pow(self, o: Traced) -> Traced {
        binary(self, o, |a, b| a.pow(b), |a, b| a.pow(b), |a, b| b.rpow(a), f64::powf)
    }
    fn pow_number(self, exponent: f64) -> Traced {
        // The operation of that name, whose own gradient knows which powers are roots.
        self.pow(Traced::lit(exponent))
    }
}
