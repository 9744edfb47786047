//! The grammar of function rows and of rows of lists, see Note [Rows].

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
/// they are kept with the node. `unless (condition)` in front of `=` is where the variable itself is the result. Behind `=>` stands the name of the output, or of several, with a name for the gradient
/// of each that has one; the value is then a tuple of tensors.
///
/// `t` behind a gradient is what the tangent `t` of that input adds to the tangent of the result, in a shape that broadcasts to
/// it: `t: |t, b| expression;` reads what the gradient reads, `; full` behind that is the shape of the result's tangent, and `t = t;`
/// passes it on. `over leading axes;` says that gradients and tangents with a further leading axis are right as well, as where axes
/// count from the back (Note [Leading axis]); `(n)` is a [`Lead`](crate::lead::Lead) to move what counts from the front, and
/// `(n if condition)` says where that is so.
///
/// `arrives shared;` says for plans in what shape and memory gradients arrive, by a function of `arrival.rs` or of the row's own;
/// without it, each arrives in the shape of its input and in memory of its own.
macro_rules! function {
    (in $rows:ident; $(
        $(#[$doc:meta])*
        $vis:vis fn $name:ident($a:ident $(, $b:ident)* $(, [$c:ident])? $(; $($attr:ident: $ty:ty),+ $(; $last:ident)?)?)
            $({ $($before:stmt;)* })? $(unless ($itself:expr))? = $value:expr $(=> $y:tt)?;
        $(d $dx:ident $(= $plain:tt)? $(: |$($n:ident),+| $gradient:expr)?;
            $(t $(= $same:tt)? $(: |$t:ident $(, $tn:ident)* $(; $full:ident)?| $tangent:expr)?;)?)+
        $(over $leads:ident axes $(($lead:ident $(if $when:expr)?))?;)?
        $(arrives $arrival:ident;)?
        check { $($label:literal: [$([$($dim:literal),*] $domain:ident),+] |$arg:ident| $run:expr;)+ }
    )*) => {
        $crate::table::function_rows::function!(@rows $rows $($name { $($label: [$([$($dim),*] $domain),+] |$arg| $run;)+ })*);

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
                        let function = move |ctx: &$crate::node::Context<'_>, take: &mut $crate::node::Take<'_>| {
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
                        Box::new($crate::node::Able { leads, pushes, arrival: function!(@arrival $($arrival)?), function })
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
                    vars: $crate::node::rule::NONE,
                    number: $crate::node::rule::NONE,
                    left: $crate::node::rule::NONE,
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
    (@arrival) => { $crate::arrival::apart };
    (@arrival $arrival:ident) => { $arrival };
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
        Ok($crate::record::record_one($row.name, $inputs, $value, $reads, $function))
    };
    (@record $value:ident, ($($y:ident $(: $g:ident)?),+), $row:expr, $inputs:expr, $reads:expr, $function:expr) => {{
        let ($($y),+) = $value;
        let values = smallvec::smallvec![$($y),+];
        let mut vars = $crate::record::record_function($row.name, $inputs, values, $reads, $function).into_iter();
        $(let $y = vars.next().expect("an operation has all its outputs");)+
        Ok(($($y),+))
    }};

    (@reads $xs:tt $ys:tt $([$dx:ident $plain:tt $n:tt])+) => {{
        const { $crate::slot::RuleSlot::expect_inputs($crate::table::macros::slots!($xs [] $ys [$($dx),+])) };
        &[$(function!(@read $xs $ys $plain $n)),+]
    }};
    (@read $xs:tt $ys:tt (g) []) => { &[] };
    (@read $xs:tt $ys:tt () $n:tt) => { $crate::table::macros::slots!($xs [] $ys $n) };

    (@flows $ctx:ident, $take:ident, $xs:tt $ys:tt $([$plain:tt $n:tt $gradient:tt])+) => {
        let mut input = 0;
        $(
            if $ctx.needs(input) {
                $take($crate::node::Flow::to(input, function!(@work $ctx, $xs $ys $plain $n $gradient)))?;
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
            $take($crate::node::Flow::to(0, $ctx.tangent($input)))?;
        }
    };
    (@tangent $ctx:ident, $take:ident, $input:ident, $xs:tt $ys:tt $n:tt () [$t:ident $($tn:ident)*] [$($full:ident)?]
        ($tangent:expr)) => {
        if $ctx.needs($input) {
            const { $crate::slot::RuleSlot::expect_among($crate::table::macros::slots!($xs [] $ys [$($tn),*]),
                $crate::table::macros::slots!($xs [] $ys $n)) };
            let $t = &$ctx.tangent($input);
            $(let $tn = &$ctx.value($crate::table::macros::slots!($xs [] $ys [$tn])[0]);)*
            $(let $full = &$ctx.full();)?
            $take($crate::node::Flow::to(0, $tangent?))?;
        }
    };

    (@work $ctx:ident, $xs:tt $ys:tt (g) [] ()) => { $ctx.grad(0) };
    (@work $ctx:ident, $xs:tt $ys:tt () [$($n:ident),+] ($gradient:expr)) => {{
        $(let $n = &*$ctx.read($crate::table::macros::slots!($xs [] $ys [$n])[0]);)+
        $gradient?
    }};
}
pub(crate) use function;

/// Rows of functions of a list of operands.
///
/// ```text
/// in rows;
/// pub fn name(values; attribute: Type) { what to compute once } = value;
///     d all: |g| the gradients of the operands, in order;
///     t: |t; full| the tangent, given those of all operands, of which some may be missing;
///     over leading axes (n);
///     check { ... }
/// ```
macro_rules! function_of_list {
    (in $rows:ident; $(
        $(#[$doc:meta])*
        $vis:vis fn $name:ident($values:ident $(; $($attr:ident: $ty:ty),+)?) $({ $($before:stmt;)* })? = $value:expr;
        d all: |$g:ident| $gradients:expr;
        t: |$t:ident; $full:ident| $tangent:expr;
        over leading axes ($lead:ident);
        check { $($label:literal: [$([$($dim:literal),*] $domain:ident),+] |$arg:ident| $run:expr;)+ }
    )*) => {
        $crate::table::function_rows::function!(@rows $rows $($name { $($label: [$([$($dim),*] $domain),+] |$arg| $run;)+ })*);

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
                    let mut made = $crate::record::record_function($rows::$name.name, &vars, value, reads, move || {
                        let function = move |ctx: &$crate::node::Context<'_>, take: &mut $crate::node::Take<'_>| {
                            let $lead = ctx.lead;
                            if let Some($t) = ctx.tangents {
                                let $full = &ctx.full();
                                return take($crate::node::Flow::to(0, $tangent?));
                            }
                            let $g = &ctx.grad(0);
                            let gradients: Vec<$crate::Var> = $gradients?;
                            let wanted = gradients.into_iter().enumerate().filter(|&(i, _)| ctx.needs(i));
                            wanted.map(|(i, g)| $crate::node::Flow::to(i, g)).try_for_each(take)
                        };
                        Box::new($crate::node::Able { leads: true, pushes: true, arrival: $crate::arrival::apart, function })
                    });
                    Ok(made.remove(0))
                }
                operation(&$crate::input::variables_of(list) $($(, $attr.into())+)?).here()
            }
        )*}
    };
}
pub(crate) use function_of_list;
