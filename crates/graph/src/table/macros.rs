//! The grammar of rows of formulas, and what a name in a row stands for, see Note [Rows].

/// What the names of a gradient stand for: a list of [`RuleSlot`](crate::slot::RuleSlot)s.
///
/// Each name of a row becomes a constant, so that the compiler itself looks a name up and points at one that the row
/// does not have.
macro_rules! slots {
    ([$($x:ident)*] [$($number:ident)*] $ys:tt [$($n:ident),*]) => {{
        #[allow(non_camel_case_types, dead_code)]
        enum InputNames { $($x),* }
        #[allow(non_camel_case_types, dead_code)]
        enum NumberNames { $($number),* }
        $crate::table::macros::slots!(@outputs $ys);
        $(#[allow(non_upper_case_globals, dead_code)]
        const $x: $crate::slot::RuleSlot = $crate::slot::RuleSlot::Input(InputNames::$x as usize);)*
        $(#[allow(non_upper_case_globals, dead_code)]
        const $number: $crate::slot::RuleSlot = $crate::slot::RuleSlot::Number(NumberNames::$number as usize);)*
        const SLOTS: &[$crate::slot::RuleSlot] = &[$($n),*];
        SLOTS
    }};
    (@count [$($x:ident)*]) => { <[&str]>::len(&[$(stringify!($x)),*]) };
    // One output, named or not, whose gradient is `g`; or several, with a name for the gradient of each that has one.
    (@outputs []) => {
        #[allow(non_upper_case_globals, dead_code)]
        const g: $crate::slot::RuleSlot = $crate::slot::RuleSlot::Grad(0);
    };
    (@outputs [$y:ident]) => { $crate::table::macros::slots!(@outputs [($y: g)]); };
    (@outputs [($($y:ident $(: $g:ident)?),+)]) => {
        #[allow(non_camel_case_types, dead_code)]
        enum OutputNames { $($y),+ }
        $(#[allow(non_upper_case_globals, dead_code)]
        const $y: $crate::slot::RuleSlot = $crate::slot::RuleSlot::Output(OutputNames::$y as usize);
        $(#[allow(non_upper_case_globals, dead_code)]
        const $g: $crate::slot::RuleSlot = $crate::slot::RuleSlot::Grad(OutputNames::$y as usize);)?)+
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
/// `, summed` behind a formula gives it loops for sums, see `Formula::SUMS`, and for a gradient that is one number, as that of a sum is, `, near` one for near angles, see `Formula::NEAR`. `d b = 0` is zero whatever arrives, `d b = _` says that there is none: the operand is a condition.
///
/// `also` gives further forms: `left` with the number on the left, and a formula of its own behind a semicolon where it has
/// one; `default` with numbers for the parameters.
macro_rules! pointwise {
    (in $rows:ident; $(
        $(#[$doc:meta])*
        $vis:vis fn $name:ident $(, $try:ident)? ($a:ident $(, $b:ident $(| $number:ident)?)* $(; $($p:ident: $pt:ty),+)?) -> $ret:ident
            = $value:expr $(=> $y:ident)?;
        $(d $dx:ident $(= $plain:tt)? $(: |$($n:ident),+| $formula:expr $(, $summed:ident)?)?;)+
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
                    vars: $crate::node::rule::Rule {
                        name: stringify!($name),
                        gradients: pointwise!(@rule [$a $($b)*] [$($y)?] [$($($p),+)?]
                            $([$dx ($($plain)?) [$($($n),+)?] ($($formula $(, $summed)?)?)])+),
                        value: pointwise!(@value [$($try)?] $ret, [$a $($b)*] [] [$($($p: $pt),+)?] $value),
                    },
                    number: $crate::node::rule::Rule {
                        name: stringify!($name),
                        gradients: pointwise!(@number [$($($number)?)*] [$a $($b)*] [$($y)?] [$($($p),+)?]
                            [$([$($nn),+] [$($($np),+)?] $nf)?] $([$dx ($($plain)?) [$($($n),+)?] ($($formula $(, $summed)?)?)])+),
                        value: pointwise!(@number_value [$($($number)?)*] $ret, [$a] [$($b)*] [$($($p: $pt),+)?] $value),
                    },
                    left: pointwise!(@left [$($also [$($form)+])?] [$a $($b)*] [$($y)?]
                        $([$dx ($($plain)?) [$($($n),+)?] ($($formula $(, $summed)?)?)])+),
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
    (@number_value [] $($rest:tt)*) => { $crate::node::rule::NONE.value };
    (@number_value [$($number:ident)+] $($rest:tt)*) => { pointwise!(@value [] $($rest)*) };
    (@value $try:tt $ret:ident, [$($x:ident)+] [$($c:ident)*] [$($p:ident: $pt:ty),*] $value:expr) => {{
        fn value(x: &[&foldback_tensor::Tensor], numbers: &[f64; 2]) -> $crate::Result<foldback_tensor::Tensor> {
            let (operands, numbers) = (&mut x.iter(), &mut numbers.iter());
            $(let $x: &foldback_tensor::Tensor = operands.next().expect("a rule is given its operands");)+
            $(let $c = foldback_tensor::Scalar::F64(*numbers.next().expect("a rule has two numbers"));)*
            $(let $p: $pt = $crate::node::rule::RuleNumber::of(*numbers.next().expect("a rule has two numbers"));)*
            pointwise!(@tried $try $ret, $value)
        }
        value
    }};
    (@tried [] Var, $value:expr) => { Ok($value) };
    (@tried $try:tt $ret:ident, $value:expr) => { Ok($value?) };

    // One formula per input.
    (@rule $xs:tt $ys:tt $ps:tt $([$dx:ident $plain:tt $n:tt $f:tt])+) => {{
        const { $crate::slot::RuleSlot::expect_inputs($crate::table::macros::slots!($xs [] $ys [$($dx),+])) };
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
        $crate::node::rule::Rule {
            name: stringify!($also),
            gradients: &[pointwise!(@gradient [$b] [$a] $ys [] $db)],
            value: pointwise!(@value [] Result, [$b] [$a] [] $value),
        }
    };
    (@left [$also:ident [left $value:expr; d $dx:ident: |$($n:ident),+; $($np:ident),+| $f:expr]] [$a:ident $b:ident]
        $ys:tt $da:tt $db:tt) => {
        $crate::node::rule::Rule {
            name: stringify!($also),
            gradients: &[pointwise!(@formula [$b] [] $ys [$($np),+] [$($n),+] $f)],
            value: pointwise!(@value [] Result, [$b] [$a] [] $value),
        }
    };
    (@left $($none:tt)*) => { $crate::node::rule::NONE };

    (@gradient $xs:tt $cs:tt $ys:tt $ps:tt [$dx:ident (_) [] ()]) => { None };
    (@gradient $xs:tt $cs:tt $ys:tt $ps:tt [$dx:ident (g) [] ()]) => { Some($crate::node::rule::Gradient::PASSES) };
    (@gradient $xs:tt $cs:tt $ys:tt $ps:tt [$dx:ident (0) [] ()]) => {
        pointwise!(@formula $xs $cs $ys $ps [g] R::lit(0.0))
    };
    (@gradient $xs:tt $cs:tt $ys:tt $ps:tt [$dx:ident () $n:tt ($formula:expr $(, $summed:ident)?)]) => {
        pointwise!(@formula $xs $cs $ys $ps $n $formula $(, $summed)?)
    };
    (@formula $xs:tt $cs:tt $ys:tt $ps:tt $n:tt $formula:expr) => { pointwise!(@slope {}, $xs $cs $ys $ps $n $formula) };
    (@formula $xs:tt $cs:tt $ys:tt $ps:tt $n:tt $formula:expr, summed) => {
        // Beside a number nothing broadcasts, so that nothing is summed.
        pointwise!(@slope { const SUMS: bool = N > 1; const TAKES_A_NUMBER: bool = N == 2; }, $xs $cs $ys $ps $n $formula)
    };
    (@formula $xs:tt $cs:tt $ys:tt $ps:tt $n:tt $formula:expr, near) => {
        pointwise!(@slope { const NEAR: bool = true; }, $xs $cs $ys $ps $n $formula)
    };
    (@slope { $($flag:item)* }, $xs:tt $cs:tt $ys:tt [$($p:ident),*] [$($n:ident),+] $formula:expr) => {{
        use $crate::slot::RuleSlot;
        use $crate::table::macros::slots;
        const SLOTS: &[RuleSlot] = slots!($xs $cs $ys [$($n),+]);
        const N: usize = RuleSlot::count_operands(SLOTS);
        const READS: [RuleSlot; N] = RuleSlot::operands(SLOTS);
        #[derive(Clone, Copy)]
        struct Slope([f64; 2]);
        impl foldback_tensor::kernel::Formula<N> for Slope {
            $($flag)*
            #[inline(always)]
            fn eval<R: foldback_tensor::kernel::Real>(&self, x: [R; N]) -> R
            where
                f64: foldback_tensor::kernel::FloatOps<R>,
            {
                $(let $n: R = {
                    const SLOT: RuleSlot = slots!($xs $cs $ys [$n])[0];
                    match SLOT {
                        RuleSlot::Number(i) => R::lit(self.0[i]),
                        _ => x[const { SLOT.position(SLOTS) }],
                    }
                };)+
                pointwise!(@params self.0, $cs, [$($p),*]);
                $formula
            }
        }
        Some($crate::node::rule::Gradient {
            saves: RuleSlot::saves(&READS, slots!(@count $xs)),
            reads: &READS,
            formula: Some(&$crate::node::rule::WrittenFormula::<Slope, N>(Slope)),
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
            $crate::record::record_rule(&$rows::$name.vars, pointwise!(@array [$($p),*]), [self], [&own], value)
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
            Ok($crate::record::record_rule(&$rows::$name.vars, [0.0; 2], [self], [&own], value))
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
            Ok($crate::record::record_rule(&$rows::$name.vars, pointwise!(@array [$($p),*]), [self], [&own], value))
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
                // Each where it lies: a list of them would be made of copies.
                let values = [&*own.value_ref() $(, &*$b.value_ref())+];
                let value = {
                    let [$a $(, $b)+] = values;
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
            return Ok($crate::record::record_rule(&$rows::$name.number, pointwise!(@array [$($b),+ $(, $p)*]), [$own], [&value_of_own], value));
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
            Ok($crate::record::record_rule(&$rows::$name.left, pointwise!(@array [number]), [self], [&own], value))
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
