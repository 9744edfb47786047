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

use super::formula::typed;
use super::lane::Float;
use super::real::Real;
use super::tagged::{Tag, Tagged};
use super::{each, elementary};
use crate::dtype::Block;

/// How many calls have loops, and room for what they give: the first ones of a formula.
pub const MOST_CALLS: usize = 8;

/// Some of the first calls of a formula.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallSet(u32);

impl CallSet {
    /// None of them.
    pub const NONE: CallSet = CallSet(0);

    /// The first so many.
    pub const fn first(count: usize) -> CallSet {
        CallSet((1 << count) - 1)
    }

    /// These and call `nr`.
    #[must_use]
    pub const fn and(self, nr: usize) -> CallSet {
        CallSet(self.0 | 1 << nr)
    }

    /// Whether call `nr` is one of them.
    pub const fn has(self, nr: usize) -> bool {
        self.0 >> nr & 1 != 0
    }

    /// Whether all of these are among them.
    pub const fn has_all(self, o: CallSet) -> bool {
        o.0 & !self.0 == 0
    }

    /// Whether some of these are among them.
    pub const fn has_any(self, o: CallSet) -> bool {
        o.0 & self.0 != 0
    }

    /// How many they are.
    pub const fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Items for these calls, in their order, by the numbers of the calls.
    pub(super) fn spread<T: Default>(self, mut items: impl Iterator<Item = T>) -> [T; MOST_CALLS] {
        std::array::from_fn(|nr| if self.has(nr) { items.next() } else { None }.unwrap_or_default())
    }

    /// The other ones of the first calls.
    pub(super) fn others(self) -> CallSet {
        CallSet(!self.0)
    }
}

impl FromIterator<usize> for CallSet {
    fn from_iter<I: IntoIterator<Item = usize>>(calls: I) -> CallSet {
        calls.into_iter().fold(CallSet::NONE, CallSet::and)
    }
}

/// Among the inputs of a kernel, what calls give of which that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownInputs {
    known: CallSet,
    places: [u8; MOST_CALLS],
}

impl KnownInputs {
    /// The inputs behind the first so many, for these calls in their order.
    pub fn behind(first: usize, known: CallSet) -> KnownInputs {
        (0..MOST_CALLS)
            .filter(|&nr| known.has(nr))
            .zip(first..)
            .fold(KnownInputs::default(), KnownInputs::and)
    }

    /// These, and for call `nr` an input.
    #[must_use]
    pub fn and(mut self, (nr, input): (usize, usize)) -> KnownInputs {
        self.known = self.known.and(nr);
        self.places[nr] = u8::try_from(input).expect("a kernel has a few inputs");
        self
    }

    /// The calls.
    pub fn calls(&self) -> CallSet {
        self.known
    }

    /// How many inputs a kernel has that reads these and the first so many.
    pub(super) fn inputs(&self, first: usize) -> usize {
        (0..MOST_CALLS)
            .filter(|&nr| self.known.has(nr))
            .fold(first, |n, nr| n.max(1 + usize::from(self.places[nr])))
    }

    /// The blocks, by the numbers of the calls.
    pub(super) fn blocks<'a, T: Float>(&self, inputs: &[Block<'a>]) -> [&'a [T]; MOST_CALLS] {
        let block = |nr: usize| typed::<T, 1>(&inputs[usize::from(self.places[nr])..])[0];
        each(&[][..], |nr| if self.known.has(nr) { block(nr) } else { &[] })
    }
}

/// The calls of one evaluation.
pub struct Calls<R> {
    count: Cell<usize>,
    known: usize,
    results: [R; MOST_CALLS],
    /// what the next call gave, and what it is followed by instead
    given: Cell<R>,
    instead: Option<R>,
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
        Calls { count: Cell::new(0), known, results, given: Cell::new(R::lit(0.0)), instead: None }
    }

    /// Nothing is known. Only what the first call gives is asked for: the formula goes on with 0.
    pub fn only_first() -> Self {
        let zero = R::lit(0.0);
        Calls { instead: Some(zero), ..Calls::knowing(0, [zero; MOST_CALLS]) }
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
        let mut number = if nr < calls.known { calls.results[nr] } else { $gives };
        if nr == calls.known {
            calls.given.set(number);
            number = calls.instead.unwrap_or(number);
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
