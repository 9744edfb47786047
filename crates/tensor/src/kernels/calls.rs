//! `Called`: numbers that count the functions that a formula calls, which give what is known already, or tell what they give.
//!
//! Note [Known results]
//! A gradient reads what functions give, and a forward pass has stored that, or computes it in a loop of its own, as a loop for
//! all functions of a formula takes up to one and a half times as long as one for each: what one function waits for another one does
//! not overlap. A formula evaluated at numbers that count calls takes what the first ones give from where it is known, and tells what the
//! next one gives. It calls its functions in the same order for all kinds of number; they are counted when it is evaluated, which the
//! compiler does, so that no count is left in a loop. Slopes are made of numbers that do not count.

use std::cell::Cell;
use std::fmt;

use super::elementary;
use super::real::Real;
use super::tagged::{Tag, Tagged};

/// How many calls have loops, and room for what they give: the first ones of a formula.
pub const MOST_CALLS: usize = 8;

/// The calls of one evaluation.
pub struct Calls<R> {
    count: Cell<usize>,
    known: usize,
    results: [R; MOST_CALLS],
    given: Cell<R>,
}

impl<R> fmt::Debug for Calls<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} calls, {} of them known", self.count.get(), self.known)
    }
}

impl<R: Real> Calls<R> {
    /// Of the first so many is known what they give.
    #[inline(always)]
    pub fn knowing(known: usize, results: [R; MOST_CALLS]) -> Self {
        Calls { count: Cell::new(0), known, results, given: Cell::new(R::lit(0.0)) }
    }

    /// A number whose functions count.
    #[inline(always)]
    pub fn of(&self, number: R) -> Called<'_, R> {
        Tagged { number, tag: Counted(Some(self)) }
    }

    /// What the first call gave of which it was not known.
    #[inline(always)]
    pub fn given(&self) -> R {
        self.given.get()
    }
}

/// A number of which is counted what functions are called with it and what is made of it.
pub type Called<'a, R> = Tagged<R, Counted<'a, R>>;

impl<R> Called<'_, R> {
    /// The number itself.
    #[inline(always)]
    pub fn number(self) -> R {
        self.number
    }
}

/// The calls that a number counts among; constants count nowhere.
#[derive(Debug)]
pub struct Counted<'a, R>(Option<&'a Calls<R>>);

impl<R> Clone for Counted<'_, R> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<R> Copy for Counted<'_, R> {}

impl<R> Default for Counted<'_, R> {
    #[inline(always)]
    fn default() -> Self {
        Counted(None)
    }
}

macro_rules! call {
    ($tag:expr, $gives:expr) => {{
        let Counted(Some(calls)) = $tag else { return Tagged { number: $gives, tag: $tag } };
        let nr = calls.count.replace(calls.count.get() + 1);
        let number = if nr < calls.known { calls.results[nr] } else { $gives };
        if nr == calls.known {
            calls.given.set(number);
        }
        Tagged { number, tag: $tag }
    }};
}
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident $name_:ident $line:tt;)*) => {
        functions!(@each $($name)* normal_cdf gelu);
    };
    (@each $($name:ident)*) => {$(
        #[inline(always)]
        fn $name(x: Tagged<R, Self>) -> Tagged<R, Self> {
            call!(x.tag, x.number.$name())
        }
    )*};
}

impl<R: Real> Tag<R> for Counted<'_, R> {
    #[inline(always)]
    fn and_of(self, o: Self) -> Self {
        Counted(self.0.or(o.0))
    }
    #[inline(always)]
    fn of_slopes(self) -> Self {
        Counted(None)
    }
    elementary!(functions);
    #[inline(always)]
    fn pow(x: Tagged<R, Self>, o: Tagged<R, Self>) -> Tagged<R, Self> {
        call!(x.tag.and_of(o.tag), x.number.pow(o.number))
    }
}
