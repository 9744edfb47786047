//! `Tagged`: a number with a tag that goes with every number made of it.

use std::ops::{Add, Div, Mul, Neg, Sub};

use super::elementary;
use super::real::{Num, Real};

/// A number and its tag. What is made of several has the tag of all, chosen by a comparison or not.
#[derive(Clone, Copy, Debug)]
pub struct Tagged<R, G> {
    pub(super) number: R,
    pub(super) tag: G,
}

macro_rules! declare {
    ($($(#[$doc:meta])* $name:ident $name_:ident $line:tt;)*) => {
        declare!(@each $($name)* normal_cdf gelu gelu_slope);
    };
    (@each $($name:ident)*) => {$(
        #[doc(hidden)]
        #[inline(always)]
        fn $name(x: Tagged<R, Self>) -> Tagged<R, Self> {
            Tagged { number: x.number.$name(), ..x }
        }
    )*};
}

/// What goes with numbers; and what functions do with it, which is nothing if it is not said.
pub trait Tag<R: Real>: Copy + Default {
    /// The tag of what has been made of numbers with these.
    fn and_of(self, o: Self) -> Self;
    /// The tag of a number that slopes are made of, and not the value.
    #[inline(always)]
    fn of_slopes(self) -> Self {
        self
    }
    elementary!(declare);
    #[doc(hidden)]
    #[inline(always)]
    fn pow(x: Tagged<R, Self>, o: Tagged<R, Self>) -> Tagged<R, Self> {
        x.and_of(o, x.number.pow(o.number))
    }
}

impl<R, G: Default> From<R> for Tagged<R, G> {
    #[inline(always)]
    fn from(number: R) -> Self {
        Tagged { number, tag: G::default() }
    }
}

impl<R: Real, G: Tag<R>> Tagged<R, G> {
    /// What has been made of both.
    #[inline(always)]
    fn and_of(self, o: Self, number: R) -> Self {
        Tagged { number, tag: self.tag.and_of(o.tag) }
    }
}

// Functions are named and not handed in as closures, which are not inlined into loops where they are large.
macro_rules! operator {
    ($($trait:ident $f:ident;)*) => {$(
        impl<R: Real, G: Tag<R>> $trait for Tagged<R, G> {
            type Output = Self;
            #[inline(always)]
            fn $f(self, o: Self) -> Self {
                self.and_of(o, $trait::$f(self.number, o.number))
            }
        }
        impl<R: Real, G: Tag<R>> $trait<f64> for Tagged<R, G> {
            type Output = Self;
            #[inline(always)]
            fn $f(self, o: f64) -> Self {
                Tagged { number: $trait::$f(self.number, o), ..self }
            }
        }
        impl<R: Real, G: Tag<R>> $trait<Tagged<R, G>> for f64 {
            type Output = Tagged<R, G>;
            #[inline(always)]
            fn $f(self, o: Tagged<R, G>) -> Tagged<R, G> {
                Tagged { number: $trait::$f(R::lit(self), o.number), ..o }
            }
        }
    )*};
}
operator! {
    Add add;
    Sub sub;
    Mul mul;
    Div div;
}

impl<R: Real, G: Tag<R>> Neg for Tagged<R, G> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Tagged { number: -self.number, ..self }
    }
}

macro_rules! of_one {
    ($($f:ident)*) => {$(
        #[inline(always)]
        fn $f(self) -> Self {
            Tagged { number: self.number.$f(), ..self }
        }
    )*};
}
macro_rules! of_two {
    ($($f:ident)*) => {$(
        #[inline(always)]
        fn $f(self, o: Self) -> Self {
            self.and_of(o, self.number.$f(o.number))
        }
    )*};
}
macro_rules! relations {
    ($($f:ident)*) => {$(
        #[inline(always)]
        fn $f(self, o: Self) -> Self::Mask {
            (self.number.$f(o.number), self.tag.and_of(o.tag))
        }
    )*};
}
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident $name_:ident $line:tt;)*) => {
        functions!(@each $($name)* normal_cdf gelu gelu_slope);
    };
    (@each $($name:ident)*) => {$(
        #[inline(always)]
        fn $name(self) -> Self {
            G::$name(self)
        }
    )*};
}

impl<R: Real, G: Tag<R>> Num for Tagged<R, G> {
    type Mask = (R::Mask, G);
    of_one!(abs sign floor ceil round trunc);
    of_two!(maximum minimum);
    relations!(lt le eq);
    #[inline(always)]
    fn lit(v: f64) -> Self {
        R::lit(v).into()
    }
    #[inline(always)]
    fn and(a: Self::Mask, b: Self::Mask) -> Self::Mask {
        (R::and(a.0, b.0), a.1.and_of(b.1))
    }
    #[inline(always)]
    fn or(a: Self::Mask, b: Self::Mask) -> Self::Mask {
        (R::or(a.0, b.0), a.1.and_of(b.1))
    }
    #[inline(always)]
    fn not((mask, tag): Self::Mask) -> Self::Mask {
        (R::not(mask), tag)
    }
    #[inline(always)]
    fn select((mask, tag): Self::Mask, yes: Self, no: Self) -> Self {
        let tag = tag.and_of(yes.tag).and_of(no.tag);
        Tagged { number: R::select(mask, yes.number, no.number), tag }
    }
}

impl<R: Real, G: Tag<R>> Real for Tagged<R, G> {
    elementary!(functions);
    #[inline(always)]
    fn pow(self, o: Self) -> Self {
        G::pow(self, o)
    }
    #[inline(always)]
    fn of_slopes(self) -> Self {
        Tagged { number: self.number.of_slopes(), tag: self.tag.of_slopes() }
    }
}
