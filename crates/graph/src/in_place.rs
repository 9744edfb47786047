//! In-place forms: the handle is rebound to the result, whose shape and type are the old ones.

use foldback_tensor::{Here, Scalar, Tensor};

use crate::error::Result;
use crate::input::{AsInput, Input};
use crate::node::Var;

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
    (@type float) => { impl Into<f64> };
    (@type places) => { impl Into<i32> };
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
    bitwise_and_ = bitwise_and(other: input), "[6, 5; i64]"."bitwise_and_(3)" => "[2, 1; i64]";
    bitwise_or_ = bitwise_or(other: input), "[6, 5; i64]"."bitwise_or_(3)" => "[7, 7; i64]";
    bitwise_xor_ = bitwise_xor(other: input), "[6, 5; i64]"."bitwise_xor_(3)" => "[5, 6; i64]";
    fmax_ = fmax(other: input), "[1.0, 3.0]"."fmax_(2)" => "[2.0, 3.0]";
    fmin_ = fmin(other: input), "[1.0, 3.0]"."fmin_(2)" => "[1.0, 2.0]";
    atan2_ = atan2(other: input), "[0.0, 1.0]"."atan2_(1)" => "[0.0, 0.785_398_2]";
    hypot_ = hypot(other: input), "[3.0, 0.0]"."hypot_(4.0)" => "[5.0, 4.0]";
    copysign_ = copysign(other: input), "[3.0, -2.0]"."copysign_(-1)" => "[-3.0, -2.0]";
    logaddexp_ = logaddexp(other: input), "[1000.0]"."logaddexp_(0)" => "[1000.0]";
    xlogy_ = xlogy(other: input), "[0.0, 2.0]"."xlogy_(1)" => "[0.0, 0.0]";
    remainder_ = remainder(other: input), "[5.0, -5.0]"."remainder_(3)" => "[2.0, 1.0]";
    fmod_ = fmod(other: input), "[5.0, -5.0]"."fmod_(3)" => "[2.0, -2.0]";
    lerp_ = lerp(end: input, weight: input), "[1.0, 2.0]"."lerp_(5, 0.25)" => "[2.0, 2.75]";
    addcmul_ = addcmul(a: input, b: input), "[1.0, 2.0]"."addcmul_(2.0, &tensor![3.0])" => "[7.0, 8.0]";
    addcmul_with_ = addcmul_with(a: input, b: input, value: number), "[1.0, 2.0]"."addcmul_with_(2.0, 3.0, 0.5)" => "[4.0, 5.0]";
    addcdiv_ = addcdiv(a: input, b: input), "[1.0, 2.0]"."addcdiv_(6.0, &tensor![3.0])" => "[3.0, 4.0]";
    addcdiv_with_ = addcdiv_with(a: input, b: input, value: number), "[1.0, 2.0]"."addcdiv_with_(6.0, 3.0, 0.5)" => "[2.0, 3.0]";
    elu_with_ = elu_with(alpha: float), "[1.0, -1000.0]"."elu_with_(2)" => "[1.0, -2.0]";
    celu_with_ = celu_with(alpha: float), "[1.0, -1000.0]"."celu_with_(2)" => "[1.0, -2.0]";
    leaky_relu_with_ = leaky_relu_with(slope: float), "[1.0, -2.0]"."leaky_relu_with_(0.5)" => "[1.0, -1.0]";
    hardtanh_with_ = hardtanh_with(lo: float, hi: float), "[1.0, -3.0]"."hardtanh_with_(-2, 2)" => "[1.0, -2.0]";
    round_with_ = round_with(decimals: places), "[0.125, 1.375]"."round_with_(2)" => "[0.12, 1.38]";
    nan_to_num_with_ = nan_to_num_with(nan: float, posinf: float, neginf: float), "[f32::NAN, 1.0]"."nan_to_num_with_(2, 0, 0)" => "[2.0, 1.0]";
}

in_place! {
    neg_ = neg or try_neg(), "[1.0, -2.0]"."neg_()" => "[-1.0, 2.0]";
    abs_ = abs or try_abs(), "[1.0, -2.0]"."abs_()" => "[1.0, 2.0]";
    relu_ = relu or try_relu(), "[1.0, -2.0]"."relu_()" => "[1.0, 0.0]";
    gelu_ = gelu or try_gelu(), "[0.0]"."gelu_()" => "[0.0]";
    gelu_tanh_ = gelu_tanh or try_gelu_tanh(), "[0.0]"."gelu_tanh_()" => "[0.0]";
    sign_ = sign or try_sign(), "[3.0, -2.0]"."sign_()" => "[1.0, -1.0]";
    silu_ = silu or try_silu(), "[0.0]"."silu_()" => "[0.0]";
    softplus_ = softplus or try_softplus(), "[30.0]"."softplus_()" => "[30.0]";
    elu_ = elu or try_elu(), "[1.0, -1000.0]"."elu_()" => "[1.0, -1.0]";
    selu_ = selu or try_selu(), "[0.0, 1.0]"."selu_()" => "[0.0, 1.050_701]";
    celu_ = celu or try_celu(), "[1.0, -1000.0]"."celu_()" => "[1.0, -1.0]";
    leaky_relu_ = leaky_relu or try_leaky_relu(), "[1.0, -1.0]"."leaky_relu_()" => "[1.0, -0.01]";
    hardtanh_ = hardtanh or try_hardtanh(), "[0.5, -3.0]"."hardtanh_()" => "[0.5, -1.0]";
    hardsigmoid_ = hardsigmoid or try_hardsigmoid(), "[0.0, -4.0]"."hardsigmoid_()" => "[0.5, 0.0]";
    hardswish_ = hardswish or try_hardswish(), "[3.0, -4.0]"."hardswish_()" => "[3.0, 0.0]";
    mish_ = mish or try_mish(), "[0.0, 30.0]"."mish_()" => "[0.0, 30.0]";
    logsigmoid_ = logsigmoid or try_logsigmoid(), "[-1000.0]"."logsigmoid_()" => "[-1000.0]";
    softsign_ = softsign or try_softsign(), "[1.0, -3.0]"."softsign_()" => "[0.5, -0.75]";
    floor_ = floor or try_floor(), "[1.5, -1.5]"."floor_()" => "[1.0, -2.0]";
    ceil_ = ceil or try_ceil(), "[1.5, -1.5]"."ceil_()" => "[2.0, -1.0]";
    round_ = round or try_round(), "[1.5, 2.5]"."round_()" => "[2.0, 2.0]";
    trunc_ = trunc or try_trunc(), "[1.5, -1.5]"."trunc_()" => "[1.0, -1.0]";
    frac_ = frac or try_frac(), "[1.5, -1.5]"."frac_()" => "[0.5, -0.5]";
    bitwise_not_ = bitwise_not or try_bitwise_not(), "[6, -1; i64]"."bitwise_not_()" => "[-7, 0; i64]";
}

in_place! {
    square_ = Ok(square()), "[3.0, -2.0]"."square_()" => "[9.0, 4.0]";
    log_ = Ok(log()), "[1.0]"."log_()" => "[0.0]";
    logical_not_ = Ok(logical_not()), "[0.0, 2.0]"."logical_not_()" => "[1.0, 0.0]";
    nan_to_num_ = Ok(nan_to_num()), "[f32::NAN, 1.0]"."nan_to_num_()" => "[0.0, 1.0]";
}

macro_rules! elementary {
    ($(
        $(#[$doc:meta])*
        $name:ident $name_:ident(
            $x:ident => $y:ident: |$g:ident, $read:ident| $slope:ident $op:tt $factor:expr, $domain:ident, $at:literal => $value:literal $(, $near:ident)?
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
            Input::Scalar(s) => {
                Var::constant(Tensor::try_full_with((), s, self.dtype()).map_err(|e| e.named(op))?)
            }
            other => other.beside(self).to(self.dtype()),
        };
        if number && source.rank() != 0 {
            return foldback_tensor::refuse(source.shape().expand_error(op, "value", &().into()));
        }
        let new = source.expand(self.shape()).map_err(|e| e.named(op))?;
        self.rebind(op, new)?;
        Ok(self)
    }
}
