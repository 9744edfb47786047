//! In-place forms: the handle is rebound to the result, whose shape and type are the old ones.

use foldback_tensor::{Here, Scalar, Tensor};

use crate::error::Result;
use crate::input::{AsInput, Input};
use crate::var::Var;

/// Each line is a form, the plain operation that it stands for, numbers to try it with, and what becomes of them. A plain
/// operation behind `Ok` cannot fail.
macro_rules! in_place {
    ($($name:ident = $plain:ident($($arg:ident: $kind:ident),*), $at:literal . $call:literal => $result:literal;)*) => {
        $(in_place!(@form $name, $plain, ($($arg: $kind),*), [$at] [$call] [$result], |x| x.$plain($($arg),*));)*
    };
    ($($name:ident = Ok($plain:ident()), $at:literal . $call:literal => $result:literal;)*) => {
        $(in_place!(@form $name, $plain, (), [$at] [$call] [$result], |x| Ok(x.$plain()));)*
    };
    ($($name:ident = $plain:ident or $try:ident(), $at:literal . $call:literal => $result:literal;)*) => {
        $(in_place!(@form $name, $plain, (), [$at] [$call] [$result], |x| x.$try());)*
    };
    (@form $name:ident, $plain:ident, ($($arg:ident: $kind:ident),*), [$($at:tt)+] [$($call:tt)+] [$($result:tt)+], |$x:ident| $new:expr) => {
        impl Var {
            #[doc = concat!("[`Var::", stringify!($plain), "`] in place: the handle stands for the new value, whose shape and type are those of the old one.")]
            ///
            /// # Errors
            /// `LeafInPlace` for a leaf that requires a gradient, outside [`no_grad`](crate::no_grad); also if the
            /// result would have another shape or a higher category of type. Nothing is changed then.
            ///
            /// ```
            /// use foldback_graph::Var;
            /// use foldback_tensor::{assert_close, tensor};
            #[doc = concat!("let mut x = Var::from(tensor!", $($at)+, ");")]
            #[doc = concat!("x.", $($call)+, "?;")]
            #[doc = concat!("assert_close!(x.value(), tensor!", $($result)+, ");")]
            /// # Ok::<(), foldback_graph::Error>(())
            /// ```
            #[track_caller]
            pub fn $name(&mut self $(, $arg: in_place!(@type $kind))*) -> Result<&mut Var> {
                let leaf = self.own_leaf();
                let _turn = self.turn_to_rebind(stringify!($name), leaf.as_deref()).here()?;
                let new: Result<Var> = { let $x = &*self; $new };
                let new = new.map_err(|e| e.named(stringify!($name))).here()?;
                self.rebind(stringify!($name), new).here()?;
                Ok(self)
            }
        }
    };
    (@elementary $name:ident, $name_:ident, $at:literal, $value:literal) => {
        in_place!(@form $name_, $name, (), [concat!("[", $at, "]")] [concat!(stringify!($name_), "()")] [concat!("[", $value, "]")], |x| Ok(x.$name()));
    };
    (@type input) => { impl AsInput };
    (@type number) => { impl Into<Scalar> };
}

in_place! {
    add_ = add(other: input), "[1.0, 2.0]"."add_(3)" => "[4.0, 5.0]";
    sub_ = sub(other: input), "[1.0, 2.0]"."sub_(3)" => "[-2.0, -1.0]";
    mul_ = mul(other: input), "[1.0, 2.0]"."mul_(3)" => "[3.0, 6.0]";
    div_ = div(other: input), "[1.0, 2.0]"."div_(2)" => "[0.5, 1.0]";
    add_with_ = add_with(other: input, alpha: number), "[1.0, 2.0]"."add_with_(&tensor![10.0], 0.5)" => "[6.0, 7.0]";
    sub_with_ = sub_with(other: input, alpha: number), "[1.0, 2.0]"."sub_with_(&tensor![10.0], 0.5)" => "[-4.0, -3.0]";
    div_floor_ = div_floor(other: input), "[5.0, -5.0]"."div_floor_(2)" => "[2.0, -3.0]";
    div_trunc_ = div_trunc(other: input), "[5.0, -5.0]"."div_trunc_(2)" => "[2.0, -2.0]";
    pow_ = pow(exponent: input), "[2.0, 3.0]"."pow_(2)" => "[4.0, 9.0]";
    maximum_ = maximum(other: input), "[1.0, 3.0]"."maximum_(&tensor![2.0])" => "[2.0, 3.0]";
    minimum_ = minimum(other: input), "[1.0, 3.0]"."minimum_(&tensor![2.0])" => "[1.0, 2.0]";
    clamp_ = clamp(lo: input, hi: input), "[-1.0, 2.0]"."clamp_(0, 1)" => "[0.0, 1.0]";
    clamp_min_ = clamp_min(lo: input), "[-1.0, 2.0]"."clamp_min_(0)" => "[0.0, 2.0]";
    clamp_max_ = clamp_max(hi: input), "[-1.0, 2.0]"."clamp_max_(1)" => "[-1.0, 1.0]";
    eq_ = eq(other: input), "[1.0, 2.0]"."eq_(2)" => "[0.0, 1.0]";
    ne_ = ne(other: input), "[1.0, 2.0]"."ne_(2)" => "[1.0, 0.0]";
    lt_ = lt(other: input), "[1.0, 2.0]"."lt_(2)" => "[1.0, 0.0]";
    le_ = le(other: input), "[1.0, 2.0]"."le_(1)" => "[1.0, 0.0]";
    gt_ = gt(other: input), "[1.0, 2.0]"."gt_(1)" => "[0.0, 1.0]";
    ge_ = ge(other: input), "[1.0, 2.0]"."ge_(2)" => "[0.0, 1.0]";
    logical_and_ = logical_and(other: input), "[0.0, 2.0]"."logical_and_(true)" => "[0.0, 1.0]";
    logical_or_ = logical_or(other: input), "[0.0, 2.0]"."logical_or_(false)" => "[0.0, 1.0]";
    logical_xor_ = logical_xor(other: input), "[0.0, 2.0]"."logical_xor_(true)" => "[1.0, 0.0]";
}

in_place! {
    neg_ = neg or try_neg(), "[1.0, -2.0]"."neg_()" => "[-1.0, 2.0]";
    abs_ = abs or try_abs(), "[1.0, -2.0]"."abs_()" => "[1.0, 2.0]";
    relu_ = relu or try_relu(), "[1.0, -2.0]"."relu_()" => "[1.0, 0.0]";
    gelu_ = gelu or try_gelu(), "[0.0]"."gelu_()" => "[0.0]";
    gelu_tanh_ = gelu_tanh or try_gelu_tanh(), "[0.0]"."gelu_tanh_()" => "[0.0]";
    silu_ = silu or try_silu(), "[0.0]"."silu_()" => "[0.0]";
    softplus_ = softplus or try_softplus(), "[30.0]"."softplus_()" => "[30.0]";
}

in_place! {
    sign_ = Ok(sign()), "[3.0, -2.0]"."sign_()" => "[1.0, -1.0]";
    square_ = Ok(square()), "[3.0, -2.0]"."square_()" => "[9.0, 4.0]";
    logical_not_ = Ok(logical_not()), "[0.0, 2.0]"."logical_not_()" => "[1.0, 0.0]";
}

macro_rules! elementary {
    ($(
        $(#[$doc:meta])*
        $name:ident $name_:ident(
            $x:ident => $y:ident: |$g:ident, $read:ident| $slope:ident $op:tt $factor:expr, $domain:ident, $at:literal => $value:literal
        );
    )*) => {
        $(in_place!(@elementary $name, $name_, $at, $value);)*
    };
}
foldback_tensor::__elementary!(elementary);

impl Var {
    /// One value everywhere: a number, or anything without axes. The handle stands for the new value.
    ///
    /// # Errors
    /// `LeafInPlace` for a leaf that requires a gradient, outside [`no_grad`](crate::no_grad); `Expand` if the value has
    /// axes. Nothing is changed then.
    ///
    /// ```
    /// use foldback_graph::Var;
    /// use foldback_tensor::tensor;
    /// let mut x = Var::from(tensor![1.0, 2.0]);
    /// x.fill_(7)?;
    /// assert_eq!(x.value(), tensor![7.0, 7.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn fill_(&mut self, value: impl AsInput) -> Result<&mut Var> {
        self.overwrite("fill_", value.input(), true).here()
    }

    /// The elements of another variable, which expand to this shape and are cast to this type. The handle stands for the
    /// new value, and the gradient of what was copied goes where it came from.
    ///
    /// # Errors
    /// `LeafInPlace` for a leaf that requires a gradient, outside [`no_grad`](crate::no_grad); `Expand` if the shape does
    /// not expand to this one. Nothing is changed then.
    ///
    /// ```
    /// use foldback_graph::{RequiresGrad, Var};
    /// use foldback_tensor::tensor;
    /// let (mut x, y) = (Var::from(tensor![[1.0, 2.0], [3.0, 4.0]]), tensor![5.0, 6.0].requires_grad());
    /// x.copy_(&y)?.sum(..)?.backward()?;
    /// assert_eq!(y.grad(), Some(tensor![2.0, 2.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn copy_(&mut self, source: impl AsInput) -> Result<&mut Var> {
        self.overwrite("copy_", source.input(), false).here()
    }

    #[track_caller]
    fn overwrite(&mut self, op: &'static str, source: Input<'_>, number: bool) -> Result<&mut Var> {
        let leaf = self.own_leaf();
        let _turn = self.turn_to_rebind(op, leaf.as_deref())?;
        let source = match source {
            Input::Scalar(s) => Var::constant(Tensor::full_with((), s, self.dtype())),
            other => other.beside(self).to(self.dtype()),
        };
        if number && source.rank() != 0 {
            return foldback_tensor::refuse(source.shape().expand_error(op, &().into()));
        }
        let new = source.expand(self.shape()).map_err(|e| e.named(op))?;
        self.rebind(op, new)?;
        Ok(self)
    }
}
