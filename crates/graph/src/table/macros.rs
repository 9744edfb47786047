//! The grammar of rows, see Note [Rows].

/// What the names of a gradient stand for: a list of [`Slot`](super::Slot)s.
///
/// Each name of a row becomes a constant, so that the compiler itself looks a name up and points at one that the row
/// does not have.
macro_rules! slots {
    ([$($x:ident)*] [$($number:ident)*] $ys:tt [$($n:ident),*]) => {{
        #[allow(non_camel_case_types, dead_code)]
        enum Inputs { $($x),* }
        #[allow(non_camel_case_types, dead_code)]
        enum Numbers { $($number),* }
        $crate::table::macros::slots!(@outputs $ys);
        $(#[allow(non_upper_case_globals, dead_code)]
        const $x: $crate::rule::Slot = $crate::rule::Slot::Input(Inputs::$x as usize);)*
        $(#[allow(non_upper_case_globals, dead_code)]
        const $number: $crate::rule::Slot = $crate::rule::Slot::Number(Numbers::$number as usize);)*
        const SLOTS: &[$crate::rule::Slot] = &[$($n),*];
        SLOTS
    }};
    (@count [$($x:ident)*]) => { <[&str]>::len(&[$(stringify!($x)),*]) };
    // One output, named or not, whose gradient is `g`; or several, with a name for the gradient of each that has one.
    (@outputs []) => {
        #[allow(non_upper_case_globals, dead_code)]
        const g: $crate::rule::Slot = $crate::rule::Slot::Grad(0);
    };
    (@outputs [$y:ident]) => { $crate::table::macros::slots!(@outputs [($y: g)]); };
    (@outputs [($($y:ident $(: $g:ident)?),+)]) => {
        #[allow(non_camel_case_types, dead_code)]
        enum Outputs { $($y),+ }
        $(#[allow(non_upper_case_globals, dead_code)]
        const $y: $crate::rule::Slot = $crate::rule::Slot::Output(Outputs::$y as usize);
        $(#[allow(non_upper_case_globals, dead_code)]
        const $g: $crate::rule::Slot = $crate::rule::Slot::Grad(Outputs::$y as usize);)?)+
    };
}
pub(crate) use slots;

/// Rows of pointwise formulas.
///
/// ```text
/// in rows;
/// /// What it computes.
/// pub fn name(a, b | number, c | number; p: f64) -> Result = value => y;
///     d a: |g, b| formula;
///     d b = g;
///     d c = 0;
///     also form { left value }
///     check(DOMAIN, DOMAIN | number, ...; p);
/// ```
/// `b | number` is an operand that may be a number. Where all of them are, the formulas are the same, with the numbers in
/// them; `number d a: |g; b| formula;` is for an operation that then has another derivative, in which `b` is an `f64`.
/// `-> Var` says that the operation cannot fail, or panics where it does: `name, try_name` has a twin that returns a
/// `Result`, which `value` is. The part behind `=>` names the output. `d b = g` passes the gradient on,
/// `d b = 0` is zero whatever arrives, `d b = _` says that there is none: the operand is a condition.
///
/// `also` gives further forms: `left` with the number on the left, and a formula of its own behind a semicolon where it has
/// one; `default` with numbers for the parameters.
macro_rules! pointwise {
    (in $rows:ident; $(
        $(#[$doc:meta])*
        $vis:vis fn $name:ident $(, $try:ident)? ($a:ident $(, $b:ident $(| $number:ident)?)* $(; $($p:ident: $pt:ty),+)?) -> $ret:ident
            = $value:expr $(=> $y:ident)?;
        $(d $dx:ident $(= $plain:tt)? $(: |$($n:ident),+| $formula:expr)?;)+
        $(number d $da:ident: |$($nn:ident),+ $(; $($np:ident),+)?| $nf:expr;)?
        $($(#[$also_doc:meta])* also $also:ident $(, $also_try:ident)? { $($form:tt)+ })?
        check($da0:ident $(, $db:ident $(| $with:expr)?)* $(; $($sample:expr),+)?);
    )*) => {
        /// This file's rows of pointwise formulas, each under its name.
        #[allow(non_upper_case_globals, unused_variables)]
        mod $rows {
            #[allow(unused_imports)]
            use super::*;
            $(
                pub(super) static $name: $crate::table::Row = $crate::table::Row {
                    name: stringify!($name),
                    vars: $crate::rule::Rule {
                        name: stringify!($name),
                        gradients: pointwise!(@rule [$a $($b)*] [$($y)?] [$($($p),+)?]
                            $([$dx ($($plain)?) [$($($n),+)?] ($($formula)?)])+),
                        value: pointwise!(@value [$($try)?] $ret, [$a $($b)*] [] [$($($p: $pt),+)?] $value),
                    },
                    number: $crate::rule::Rule {
                        name: stringify!($name),
                        gradients: pointwise!(@number [$($($number)?)*] [$a $($b)*] [$($y)?] [$($($p),+)?]
                            [$([$($nn),+] [$($($np),+)?] $nf)?] $([$dx ($($plain)?) [$($($n),+)?] ($($formula)?)])+),
                        value: pointwise!(@number_value [$($($number)?)*] $ret, [$a] [$($b)*] [$($($p: $pt),+)?] $value),
                    },
                    left: pointwise!(@left [$($also [$($form)+])?] [$a $($b)*] [$($y)?]
                        $([$dx ($($plain)?) [$($($n),+)?] ($($formula)?)])+),
                    samples: &[
                        $crate::table::Samples::Pointwise {
                            domains: &[$crate::table::Domain::$da0 $(, $crate::table::Domain::$db)*],
                            run: |x| pointwise!(@run [$($try)?] $ret, x, $name, [$a $($b)*] [$($($sample),+)?]),
                        },
                    ],
                    with_number: pointwise!(@with_number $name, $da0, [$($($with)?),*] [$($($sample),+)?]),
                    also: pointwise!(@try_also $ret, [$($also [$($also_try)?] [$($form)+])?] $da0 $($db)*),
                };
            )*
            pub(in crate::table) static ALL: &[&$crate::table::Row] = &[$(&$name),*];
        }

        impl $crate::Var {$(
            pointwise!(@method [$($try)?] [$a $([$b $($number)?])*] [$($($p: $pt),+)?] $ret, $rows, $name, $value, $(#[$doc])* $vis);
            pointwise!(@also [$($(#[$also_doc])* $also [$($also_try)?] [$($form)+])?] [$a $($b)*] $rows, $name, $ret, $vis);
        )*}
    };

    // The result as a function of operands and numbers, in their order.
    (@number_value [] $($rest:tt)*) => { $crate::rule::NONE.value };
    (@number_value [$($number:ident)+] $($rest:tt)*) => { pointwise!(@value [] $($rest)*) };
    (@value $try:tt $ret:ident, [$($x:ident)+] [$($c:ident)*] [$($p:ident: $pt:ty),*] $value:expr) => {{
        fn value(x: &[&foldback_tensor::Tensor], numbers: &[f64; 2]) -> $crate::Result<foldback_tensor::Tensor> {
            let (operands, numbers) = (&mut x.iter(), &mut numbers.iter());
            $(let $x: &foldback_tensor::Tensor = operands.next().expect("a rule is given its operands");)+
            $(let $c = foldback_tensor::Scalar::F64(*numbers.next().expect("a rule has two numbers"));)*
            $(let $p: $pt = $crate::rule::RuleNumber::of(*numbers.next().expect("a rule has two numbers"));)*
            pointwise!(@tried $try $ret, $value)
        }
        value
    }};
    (@tried [] Var, $value:expr) => { Ok($value) };
    (@tried $try:tt $ret:ident, $value:expr) => { Ok($value?) };

    // One formula per input.
    (@rule $xs:tt $ys:tt $ps:tt $([$dx:ident $plain:tt $n:tt $f:tt])+) => {{
        const { $crate::rule::Slot::expect_inputs($crate::table::macros::slots!($xs [] $ys [$($dx),+])) };
        &[$(pointwise!(@gradient $xs [] $ys $ps [$dx $plain $n $f])),+]
    }};
    (@number [] $($rest:tt)*) => { &[] };
    (@number [number $($more:ident)*] [$a:ident $($b:ident)*] $ys:tt [$($p:ident),*] [] $d:tt $($others:tt)*) => {
        &[pointwise!(@gradient [$a] [$($b)*] $ys [$($p),*] $d)]
    };
    (@number [number $($more:ident)*] [$a:ident $($b:ident)*] $ys:tt [] [$n:tt $np:tt $f:expr] $d:tt $($others:tt)*) => {
        &[pointwise!(@formula [$a] [] $ys $np $n $f)]
    };
    (@left [$also:ident [left $value:expr]] [$a:ident $b:ident] $ys:tt $da:tt $db:tt) => {
        $crate::rule::Rule {
            name: stringify!($also),
            gradients: &[pointwise!(@gradient [$b] [$a] $ys [] $db)],
            value: pointwise!(@value [] Result, [$b] [$a] [] $value),
        }
    };
    (@left [$also:ident [left $value:expr; d $dx:ident: |$($n:ident),+; $($np:ident),+| $f:expr]] [$a:ident $b:ident]
        $ys:tt $da:tt $db:tt) => {
        $crate::rule::Rule {
            name: stringify!($also),
            gradients: &[pointwise!(@formula [$b] [] $ys [$($np),+] [$($n),+] $f)],
            value: pointwise!(@value [] Result, [$b] [$a] [] $value),
        }
    };
    (@left $($none:tt)*) => { $crate::rule::NONE };

    (@gradient $xs:tt $cs:tt $ys:tt $ps:tt [$dx:ident (_) [] ()]) => { None };
    (@gradient $xs:tt $cs:tt $ys:tt $ps:tt [$dx:ident (g) [] ()]) => { Some($crate::rule::Gradient::PASSES) };
    (@gradient $xs:tt $cs:tt $ys:tt $ps:tt [$dx:ident (0) [] ()]) => {
        pointwise!(@formula $xs $cs $ys $ps [g] R::lit(0.0))
    };
    (@gradient $xs:tt $cs:tt $ys:tt $ps:tt [$dx:ident () $n:tt ($formula:expr)]) => {
        pointwise!(@formula $xs $cs $ys $ps $n $formula)
    };
    (@formula $xs:tt $cs:tt $ys:tt [$($p:ident),*] [$($n:ident),+] $formula:expr) => {{
        use $crate::rule::Slot;
        use $crate::table::macros::slots;
        const SLOTS: &[Slot] = slots!($xs $cs $ys [$($n),+]);
        const N: usize = Slot::count_operands(SLOTS);
        const READS: [Slot; N] = Slot::operands(SLOTS);
        #[derive(Clone, Copy)]
        struct Slope([f64; 2]);
        impl foldback_tensor::kernel::Formula<N> for Slope {
            #[inline(always)]
            fn eval<R: foldback_tensor::kernel::Real>(&self, x: [R; N]) -> R
            where
                f64: foldback_tensor::kernel::FloatOps<R>,
            {
                $(let $n: R = {
                    const SLOT: Slot = slots!($xs $cs $ys [$n])[0];
                    match SLOT {
                        Slot::Number(i) => R::lit(self.0[i]),
                        _ => x[const { SLOT.position(SLOTS) }],
                    }
                };)+
                pointwise!(@params self.0, $cs, [$($p),*]);
                $formula
            }
        }
        Some($crate::rule::Gradient {
            saves: Slot::saves(&READS, slots!(@count $xs)),
            reads: &READS,
            formula: Some(&$crate::rule::WrittenFormula::<Slope, N>(Slope)),
        })
    }};

    // Parameters come behind the numbers.
    (@params $from:expr, [], []) => {};
    (@params $from:expr, [], [$p:ident]) => { let [$p, _] = $from; };
    (@params $from:expr, [], [$p:ident, $q:ident]) => { let [$p, $q] = $from; };
    (@params $from:expr, [$c:ident], []) => {};
    (@params $from:expr, [$c:ident], [$p:ident]) => { let [_, $p] = $from; };
    (@params $from:expr, [$c:ident $d:ident], []) => {};

    (@array []) => { [0.0; 2] };
    (@array [$p:expr]) => { [foldback_tensor::Scalar::from($p).to_f64(), 0.0] };
    (@array [$p:expr, $q:expr]) => {
        [foldback_tensor::Scalar::from($p).to_f64(), foldback_tensor::Scalar::from($q).to_f64()]
    };

    (@method [] [$a:ident] [$($p:ident: $pt:ty),*] Var, $rows:ident, $name:ident, $value:expr, $(#[$doc:meta])* $vis:vis) => {
        $(#[$doc])*
        #[track_caller]
        $vis fn $name(&self $(, $p: impl Into<$pt>)*) -> $crate::Var {
            $(let $p: $pt = $p.into();)*
            let _span = $crate::profile::forward(stringify!($name));
            let own = self.value_ref();
            let value = { let $a: &foldback_tensor::Tensor = &own; $value };
            $crate::record::record_rule(&$rows::$name.vars, pointwise!(@array [$($p),*]), [self], [own], value)
        }
    };
    (@method [$try:ident] [$a:ident] [] Var, $rows:ident, $name:ident, $value:expr, $(#[$doc:meta])* $vis:vis) => {
        $(#[$doc])*
        #[track_caller]
        $vis fn $name(&self) -> $crate::Var {
            foldback_tensor::or_panic(self.$try())
        }

        #[doc = concat!("[`Self::", stringify!($name), "`], with an error where that panics.")]
        #[track_caller]
        $vis fn $try(&self) -> $crate::Result<$crate::Var> {
            use foldback_tensor::Here as _;
            let _span = $crate::profile::forward(stringify!($name));
            let own = self.value_ref();
            let value = { let $a: &foldback_tensor::Tensor = &own; $value }.here()?;
            Ok($crate::record::record_rule(&$rows::$name.vars, [0.0; 2], [self], [own], value))
        }
    };
    (@method [] [$a:ident] [$($p:ident: $pt:ty),*] Result, $rows:ident, $name:ident, $value:expr, $(#[$doc:meta])* $vis:vis) => {
        $(#[$doc])*
        #[track_caller]
        $vis fn $name(&self $(, $p: impl Into<$pt>)*) -> $crate::Result<$crate::Var> {
            use foldback_tensor::Here as _;
            $(let $p: $pt = $p.into();)*
            let _span = $crate::profile::forward(stringify!($name));
            let own = self.value_ref();
            let value = { let $a: &foldback_tensor::Tensor = &own; $value }.here()?;
            Ok($crate::record::record_rule(&$rows::$name.vars, pointwise!(@array [$($p),*]), [self], [own], value))
        }
    };
    (@method [] [$a:ident $([$b:ident $($number:ident)?])+] [$($p:ident: $pt:ty),*] Result, $rows:ident, $name:ident,
        $value:expr, $(#[$doc:meta])* $vis:vis) => {
        $(#[$doc])*
        #[track_caller]
        $vis fn $name(
            &self $(, $b: impl $crate::AsInput)+ $(, $p: impl Into<$pt>)*
        ) -> $crate::Result<$crate::Var> {
            use foldback_tensor::Here as _;
            // What a caller compiles is only what turns its arguments into ours.
            #[track_caller]
            fn operation(own: &$crate::Var, inputs: [$crate::Input<'_>; const { pointwise!(@count [$($b)+]) }] $(, $p: $pt)*) -> $crate::Result<$crate::Var> {
                let _span = $crate::profile::forward(stringify!($name));
                pointwise!(@with_numbers [$($($number)?)*] [$a $($b)+] [$($p)*] $rows, $name, $value, own, inputs);
                let beside = $crate::input::beside(own, &inputs);
                let [$($b),+] = inputs;
                $(let $b: &$crate::Var = &$b.into_var(beside);)+
                let values = [own.value_ref() $(, $b.value_ref())+];
                let value = {
                    let [$a $(, $b)+] = &values;
                    let $a: &foldback_tensor::Tensor = $a;
                    $(let $b: &foldback_tensor::Tensor = $b;)+
                    $value
                };
                let value = value.map_err(|e| $crate::origins::with_origins(e, &[own $(, $b)+]))?;
                Ok($crate::record::record_rule(&$rows::$name.vars, pointwise!(@array [$($p),*]), [own $(, $b)+], values, value))
            }
            operation(self, [$($b.input()),+] $(, $p.into())*).here()
        }
    };

    (@count [$($b:ident)+]) => { <[&str]>::len(&[$(stringify!($b)),+]) };

    // Where all operands but the first are numbers.
    (@with_numbers [] $($rest:tt)*) => {};
    (@with_numbers [$($number:ident)+] [$a:ident $($b:ident)+] [$($p:ident)*] $rows:ident, $name:ident, $value:expr,
        $own:expr, $inputs:expr) => {
        if let [$($crate::Input::Scalar($b)),+] = $inputs {
            let value_of_own = $own.value_ref();
            let value = { let $a: &foldback_tensor::Tensor = &value_of_own; $value? };
            return Ok($crate::record::record_rule(&$rows::$name.number, pointwise!(@array [$($b),+ $(, $p)*]), [$own], [value_of_own], value));
        }
    };

    // A further form of an operation.
    (@also [] $($rest:tt)*) => {};
    (@also [$(#[$doc:meta])* $also:ident [] [left $value:expr $(; $($own:tt)+)?]] [$a:ident $b:ident] $rows:ident, $name:ident, Result, $vis:vis) => {
        $(#[$doc])*
        #[track_caller]
        $vis fn $also(&self, number: impl Into<foldback_tensor::Scalar>) -> $crate::Result<$crate::Var> {
            use foldback_tensor::Here as _;
            let number = number.into();
            let _span = $crate::profile::forward(stringify!($also));
            let own = self.value_ref();
            let value = {
                let ($a, $b): (foldback_tensor::Scalar, &foldback_tensor::Tensor) = (number, &own);
                $value
            }
            .here()?;
            Ok($crate::record::record_rule(&$rows::$name.left, pointwise!(@array [number]), [self], [own], value))
        }
    };
    (@also [$(#[$doc:meta])* $also:ident [$try:ident] [default $($x:expr),+]] [$a:ident] $rows:ident, $name:ident, Result, $vis:vis) => {
        $(#[$doc])*
        #[track_caller]
        $vis fn $also(&self) -> $crate::Var {
            foldback_tensor::or_panic(self.$try())
        }

        #[doc = concat!("[`Self::", stringify!($also), "`], with an error where that panics.")]
        #[track_caller]
        $vis fn $try(&self) -> $crate::Result<$crate::Var> {
            self.$name($($x),+)
        }
    };

    // Where to try a row and its forms.
    (@run [$($try:ident)?] Var, $x:ident, $name:ident, [$a:ident] [$($s:expr),*]) => { Ok($x[0].$name($($s),*)) };
    (@run [] Result, $x:ident, $name:ident, [$a:ident] [$($s:expr),*]) => { $x[0].$name($($s),*) };
    (@run [] Result, $x:ident, $name:ident, [$a:ident $b:ident] [$($s:expr),*]) => { $x[0].$name(&$x[1] $(, $s)*) };
    (@run [] Result, $x:ident, $name:ident, [$a:ident $b:ident $c:ident] [$($s:expr),*]) => {
        $x[0].$name(&$x[1], &$x[2] $(, $s)*)
    };
    (@try_also $ret:ident, [] $($domain:ident)+) => { None };
    (@try_also $ret:ident, [$also:ident [] [left $value:expr $(; $($own:tt)+)?]] $da:ident $db:ident) => {
        Some($crate::table::Samples::Pointwise { domains: &[$crate::table::Domain::$db], run: |x| x[0].$also(1.5) })
    };
    (@try_also $ret:ident, [$also:ident [$try:ident] [default $($x:expr),+]] $da:ident) => {
        Some($crate::table::Samples::Pointwise { domains: &[$crate::table::Domain::$da], run: |x| x[0].$try() })
    };
    (@with_number $name:ident, $domain:ident, [$(,)?] $samples:tt) => { None };
    (@with_number $name:ident, $domain:ident, [] $samples:tt) => { None };
    (@with_number $name:ident, $domain:ident, [$($with:expr),+] [$($s:expr),*]) => {
        Some($crate::table::Samples::Pointwise {
            domains: &[$crate::table::Domain::$domain],
            run: |x| x[0].$name($($with),+ $(, $s)*),
        })
    };
}
pub(crate) use pointwise;

/// Rows whose gradients are expressions over variables.
///
/// ```text
/// in rows;
/// pub fn name(a, b, [c]; attribute: Type; last) { what to compute from the attributes once } = value => (y: g, i);
///     d a: |g, b| expression;
///     d b = g;
///     check { "what is special": [[2, 3] ANY, [3] ANY] |x| x[0].name(&x[1], None, 1); }
/// ```
/// `[c]` is an operand that may be absent; one behind the attributes comes last in a call. A caller may write whatever turns
/// into an operand or an attribute. The block may bind names (shapes, resolved axes) that the gradients then use;
/// they are kept with the node. `over leading axes;` behind the gradients says that they are right for gradients with a further leading axis,
/// as what counts axes from the back is (Note [Leading axis]). `unless (condition)` in front of `=` is where the variable itself is the result. Behind `=>` stands the name of the output, or of several, with a name for the gradient
/// of each that has one; the value is then a tuple of tensors.
macro_rules! function {
    (in $rows:ident; $(
        $(#[$doc:meta])*
        $vis:vis fn $name:ident($a:ident $(, $b:ident)* $(, [$c:ident])? $(; $($attr:ident: $ty:ty),+ $(; $last:ident)?)?)
            $({ $($before:stmt;)* })? $(unless ($itself:expr))? = $value:expr $(=> $y:tt)?;
        $(d $dx:ident $(= $plain:tt)? $(: |$($n:ident),+| $gradient:expr)?;
            $(t $(= $same:tt)? $(: |$t:ident $(, $tn:ident)* $(; $full:ident)?| $tangent:expr)?;)?)+
        $(over $leads:ident axes $(($lead:ident $(if $when:expr)?))?;)?
        check { $($label:literal: [$([$($dim:literal),*] $domain:ident),+] |$arg:ident| $run:expr;)+ }
    )*) => {
        $crate::table::macros::function!(@rows $rows $($name { $($label: [$([$($dim),*] $domain),+] |$arg| $run;)+ })*);

        impl $crate::Var {$(
            $(#[$doc])*
            #[track_caller]
            $vis fn $name(
                &self $(, $b: impl $crate::AsInput)* $(, $c: impl $crate::AsOptionalInput)?
                $($(, $attr: impl Into<$ty>)+ $(, $last: impl $crate::AsInput)?)?
            ) -> $crate::Result<function!(@vars $($y)?)> {
                use foldback_tensor::Here as _;
                // What a caller compiles is only what turns its arguments into ours.
                #[track_caller]
                fn operation(
                    own: &$crate::Var $(, $b: &$crate::Var)* $($(, $last: &$crate::Var)?)? $(, $c: Option<&$crate::Var>)?
                    $($(, $attr: $ty)+)?
                ) -> $crate::Result<function!(@vars $($y)?)> {
                    let _span = $crate::profile::forward(stringify!($name));
                let inputs: smallvec::SmallVec<[&$crate::Var; 4]> =
                        [Some(own) $(, Some($b))* $($(, Some($last))?)? $(, $c)?].into_iter().flatten().collect();
                    let $a = &*own.value_ref();
                    $(let $b = &*$b.value_ref();)*
                    $($(let $last = &*$last.value_ref();)?)?
                    $(let $c = $c.map(|v| v.value()); let $c = $c.as_ref();)?
                    $($($before)*)?
                    $(if $itself {
                        return Ok(own.clone());
                    })?
                    let value: function!(@values $($y)?) = $value.map_err(|e| $crate::origins::with_origins(e, &inputs))?;
                    let reads = $crate::record::Reads::Each(function!(
                        @reads [$a $($b)* $($($last)?)? $($c)?] [$($y)?] $([$dx ($($plain)?) [$($($n),+)?]])+
                    ));
                    function!(@record value, $($y)?, &$rows::$name, &inputs, reads, move || {
                        let leads = function!(@leads $a [$($leads $($lead $(if $when)?)?)?]);
                        let pushes = true $(&& function!(@pushes $([$($same)?] [$($t)?])?))+;
                        let function = move |ctx: &$crate::work::Context<'_>, take: &mut $crate::work::Take<'_>| {
                            $($(let $lead = ctx.lead;)?)?
                            if ctx.tangents.is_some() {
                                function!(@tangents ctx, take, [$a $($b)* $($($last)?)? $($c)?] [$($y)?]
                                    $([[$($($n),+)?] $(($($same)?) [$($t $($tn)*)?] [$($($full)?)?] ($($tangent)?))?])+);
                                return Ok(());
                            }
                            function!(@flows ctx, take, [$a $($b)* $($($last)?)? $($c)?] [$($y)?]
                                $([($($plain)?) [$($($n),+)?] ($($gradient)?)])+);
                            Ok(())
                        };
                        Box::new($crate::work::Able { leads, pushes, function })
                    })
                }
                operation(
                    self $(, &$b.input().beside(self))* $($(, &$last.input().beside(self))?)? $(, $c.optional_input().map(|c| c.beside(self)).as_deref())?
                    $($(, $attr.into())+)?
                )
                .here()
            }
        )*}
    };

    (@rows $rows:ident $($name:ident {
        $($label:literal: [$([$($dim:literal),*] $domain:ident),+] |$arg:ident| $run:expr;)+
    })*) => {
        /// This file's rows of functions, each under its name.
        #[allow(non_upper_case_globals)]
        mod $rows {
            #[allow(unused_imports)]
            use super::*;
            $(
                pub(super) static $name: $crate::table::Row = $crate::table::Row {
                    name: stringify!($name),
                    vars: $crate::rule::NONE,
                    number: $crate::rule::NONE,
                    left: $crate::rule::NONE,
                    samples: &[$crate::table::Samples::Listed(&[$(
                        $crate::table::Sample {
                            label: $label,
                            inputs: &[$($crate::table::InputSpec {
                                shape: &[$($dim),*],
                                domain: $crate::table::Domain::$domain,
                            }),+],
                            run: |$arg| $run,
                        }
                    ),+])],
                    with_number: None,
                    also: None,
                };
            )*
            pub(in crate::table) static ALL: &[&$crate::table::Row] = &[$(&$name),*];
        }
    };

    // A number has no axes that one could stand in front of.
    (@leads $a:ident []) => { false };
    (@leads $a:ident [leading]) => { true };
    (@leads $a:ident [leading $lead:ident]) => { $a.rank() > 0 };
    (@leads $a:ident [leading $lead:ident if $when:expr]) => { $a.rank() > 0 && $when };
    (@pushes) => { false };
    (@pushes $($rule:tt)+) => { true };

    // One output is a variable, several are a tuple.
    (@vars $($y:ident)?) => { $crate::Var };
    (@vars ($($y:ident $(: $g:ident)?),+)) => { ($(function!(@var $y)),+) };
    (@var $y:ident) => { $crate::Var };
    (@values $($y:ident)?) => { foldback_tensor::Tensor };
    (@values ($($y:ident $(: $g:ident)?),+)) => { ($(function!(@tensor $y)),+) };
    (@tensor $y:ident) => { foldback_tensor::Tensor };
    (@record $value:ident, $($y:ident)?, $row:expr, $inputs:expr, $reads:expr, $function:expr) => {
        Ok($crate::record::record_one($row, $inputs, $value, $reads, $function))
    };
    (@record $value:ident, ($($y:ident $(: $g:ident)?),+), $row:expr, $inputs:expr, $reads:expr, $function:expr) => {{
        let ($($y),+) = $value;
        let values = smallvec::smallvec![$($y),+];
        let mut vars = $crate::record::record_function($row, $inputs, values, $reads, $function).into_iter();
        $(let $y = vars.next().expect("an operation has all its outputs");)+
        Ok(($($y),+))
    }};

    (@reads $xs:tt $ys:tt $([$dx:ident $plain:tt $n:tt])+) => {{
        const { $crate::rule::Slot::expect_inputs($crate::table::macros::slots!($xs [] $ys [$($dx),+])) };
        &[$(function!(@read $xs $ys $plain $n)),+]
    }};
    (@read $xs:tt $ys:tt (g) []) => { &[] };
    (@read $xs:tt $ys:tt () $n:tt) => { $crate::table::macros::slots!($xs [] $ys $n) };

    (@flows $ctx:ident, $take:ident, $xs:tt $ys:tt $([$plain:tt $n:tt $gradient:tt])+) => {
        let mut input = 0;
        $(
            if $ctx.needs(input) {
                $take($crate::work::Flow::to(input, function!(@work $ctx, $xs $ys $plain $n $gradient)))?;
            }
            input += 1;
        )+
        let _ = input;
    };

    // What an input adds to the tangent of the output reads its own tangent, and what its gradient reads.
    (@tangents $ctx:ident, $take:ident, $xs:tt $ys:tt $([$n:tt $($tangent:tt)*])+) => {
        let mut input = 0;
        $(
            function!(@tangent $ctx, $take, input, $xs $ys $n $($tangent)*);
            input += 1;
        )+
        let _ = input;
    };
    (@tangent $ctx:ident, $take:ident, $input:ident, $xs:tt $ys:tt $n:tt) => {};
    (@tangent $ctx:ident, $take:ident, $input:ident, $xs:tt $ys:tt $n:tt (t) [] [] ()) => {
        if $ctx.needs($input) {
            $take($crate::work::Flow::to($input, $ctx.tangent($input)))?;
        }
    };
    (@tangent $ctx:ident, $take:ident, $input:ident, $xs:tt $ys:tt $n:tt () [$t:ident $($tn:ident)*] [$($full:ident)?]
        ($tangent:expr)) => {
        if $ctx.needs($input) {
            const { $crate::rule::Slot::expect_among($crate::table::macros::slots!($xs [] $ys [$($tn),*]),
                $crate::table::macros::slots!($xs [] $ys $n)) };
            let $t = &$ctx.tangent($input);
            $(let $tn = &$ctx.value($crate::table::macros::slots!($xs [] $ys [$tn])[0]);)*
            $(let $full = &$ctx.full();)?
            $take($crate::work::Flow::to($input, $tangent?))?;
        }
    };

    (@work $ctx:ident, $xs:tt $ys:tt (g) [] ()) => { $ctx.grad(0) };
    (@work $ctx:ident, $xs:tt $ys:tt () [$($n:ident),+] ($gradient:expr)) => {{
        $(let $n = &$ctx.value($crate::table::macros::slots!($xs [] $ys [$n])[0]);)+
        $gradient?
    }};
}
pub(crate) use function;

/// Rows of functions of a list of operands.
///
/// ```text
/// in rows;
/// pub fn name(values; attribute: Type) { what to compute once } = value;
///     d each: |g, i| the gradient of operand number i;
///     check { ... }
/// ```
macro_rules! function_of_list {
    (in $rows:ident; $(
        $(#[$doc:meta])*
        $vis:vis fn $name:ident($values:ident $(; $($attr:ident: $ty:ty),+)?) $({ $($before:stmt;)* })? = $value:expr;
        d each: |$g:ident, $i:ident| $gradient:expr;
        t: |$t:ident; $full:ident| $tangent:expr;
        over leading axes ($lead:ident);
        check { $($label:literal: [$([$($dim:literal),*] $domain:ident),+] |$arg:ident| $run:expr;)+ }
    )*) => {
        $crate::table::macros::function!(@rows $rows $($name { $($label: [$([$($dim),*] $domain),+] |$arg| $run;)+ })*);

        impl $crate::Var {$(
            $(#[$doc])*
            #[track_caller]
            $vis fn $name(
                list: impl IntoIterator<Item: $crate::AsInput> $($(, $attr: impl Into<$ty>)+)?
            ) -> $crate::Result<$crate::Var> {
                use foldback_tensor::Here as _;
                #[track_caller]
                fn operation(vars: &[$crate::Var] $($(, $attr: $ty)+)?) -> $crate::Result<$crate::Var> {
                    let _span = $crate::profile::forward(stringify!($name));
                    let values: Vec<foldback_tensor::Tensor> = vars.iter().map(|v| v.value()).collect();
                    let $values: Vec<&foldback_tensor::Tensor> = values.iter().collect();
                    $($($before)*)?
                    let value = smallvec::smallvec![$value?];
                    let vars: Vec<&$crate::Var> = vars.iter().collect();
                    let reads = $crate::record::Reads::All(&[]);
                    let mut made = $crate::record::record_function(&$rows::$name, &vars, value, reads, move || {
                        let function = move |ctx: &$crate::work::Context<'_>, take: &mut $crate::work::Take<'_>| {
                            let $lead = ctx.lead;
                            if let Some($t) = ctx.tangents {
                                let $full = &ctx.full();
                                return take($crate::work::Flow::to(0, $tangent?));
                            }
                            let $g = &ctx.grad(0);
                            for $i in (0..ctx.inputs()).filter(|&i| ctx.needs(i)) {
                                take($crate::work::Flow::to($i, $gradient?))?;
                            }
                            Ok(())
                        };
                        Box::new($crate::work::Able { leads: true, pushes: true, function })
                    });
                    Ok(made.remove(0))
                }
                operation(&$crate::input::variables_of(list) $($(, $attr.into())+)?).here()
            }
        )*}
    };
}
pub(crate) use function_of_list;
