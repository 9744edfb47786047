//! The grammar of rows, see Note [Rows].

/// Rows of pointwise formulas.
///
/// `fn name(a, b; p) -> Result = value => y; d a: |g, b| formula; ... check(DOMAINS; parameters);`
/// where `p` are numbers, `-> Var` says that the operation cannot fail, and the part behind `=>` names the output.
macro_rules! pointwise {
    ($(
        $(#[$doc:meta])*
        $vis:vis fn $name:ident($($x:ident),+ $(; $($p:ident),+)?) -> $ret:ident = $value:expr $(=> $y:ident)?;
        $(d $dx:ident: |$($n:ident),+| $formula:expr;)+
        check($($domain:ident),+ $(; $($sample:expr),+)?);
    )*) => {
        $(
            #[allow(non_snake_case, non_upper_case_globals, unused_variables)]
            static $name: $crate::table::Rule =
                pointwise!(@rule $name [$($x),+] [$($y)?] [$($($p),+)?] $([$dx] [$($n),+] [$formula])+);
        )*

        impl $crate::Var {
            $(pointwise!(@method [$($x),+] [$($($p),+)?] $ret, $value, $name, $(#[$doc])* $vis);)*
        }

        /// This file's rows.
        pub(crate) static ROWS: &[$crate::table::Row] = &[$(
            $crate::table::Row {
                name: stringify!($name),
                samples: $crate::table::samples::Samples::Pointwise {
                    domains: &[$($crate::table::Domain::$domain),+],
                    run: |x| pointwise!(@run $ret, x, $name, [$($x),+] [$($($sample),+)?]),
                },
            }
        ),*];
    };

    (@rule $name:ident [$($x:ident),+] [$($y:ident)?] $params:tt $([$dx:ident] [$($n:ident),+] [$formula:expr])+) => {{
        const INPUTS: &[&str] = &[$(stringify!($x)),+];
        const OUTPUT: &str = concat!("", $(stringify!($y))?);
        const _: () = $crate::table::names::check(INPUTS, &[$(stringify!($dx)),+]);
        $crate::table::Rule {
            name: $crate::table::names::shown(stringify!($name)),
            gradients: &[$({
                const N: usize = [$(stringify!($n)),+].len();
                const SLOTS: &[$crate::table::Slot] =
                    &[$($crate::table::names::slot(stringify!($n), INPUTS, OUTPUT)),+];
                #[derive(Clone, Copy)]
                struct Kernel([f64; 2]);
                impl foldback_tensor::kernel::Formula<N> for Kernel {
                    #[inline(always)]
                    fn eval<R: foldback_tensor::kernel::Real>(&self, [$($n),+]: [R; N]) -> R
                    where
                        f64: foldback_tensor::kernel::FloatOps<R>,
                    {
                        pointwise!(@params self.0, $params);
                        $formula
                    }
                }
                $crate::table::Gradient {
                    saves: $crate::table::names::saves(SLOTS, INPUTS),
                    operands: SLOTS,
                    passes: $crate::table::names::passes(SLOTS, stringify!($formula)),
                    fold: |params, operands, shape, prior| {
                        let kernel = foldback_tensor::kernel::FloatKernel::<Kernel, N>(Kernel(*params));
                        foldback_tensor::kernel::fold_to($crate::table::names::shown(stringify!($name)), &kernel, operands, shape, prior)
                    },
                    kernel: |params| Box::new(foldback_tensor::kernel::FloatKernel::<Kernel, N>(Kernel(*params))),
                    trace: |params, operands| {
                        use foldback_tensor::kernel::Formula;
                        let kernel = Kernel(*params);
                        $crate::traced::trace(operands, &|x| kernel.eval::<$crate::traced::Traced>(std::array::from_fn(|i| x[i])))
                    },
                }
            }),+],
        }
    }};

    (@params $from:expr, []) => { let _ = $from; };
    (@params $from:expr, [$p:ident]) => { let [$p, _] = $from; };
    (@params $from:expr, [$p:ident, $q:ident]) => { let [$p, $q] = $from; };

    (@array) => { [0.0; 2] };
    (@array $p:ident) => { [$p, 0.0] };
    (@array $p:ident, $q:ident) => { [$p, $q] };

    (@method [$a:ident] [$($p:ident),*] Var, $value:expr, $name:ident, $(#[$doc:meta])* $vis:vis) => {
        $(#[$doc])*
        #[track_caller]
        $vis fn $name(&self $(, $p: f64)*) -> $crate::Var {
            let own = self.value_ref();
            let value = { let $a: &foldback_tensor::Tensor = &own; $value };
            $crate::record::record_rule(&$name, pointwise!(@array $($p),*), [self], [own], value)
        }
    };
    (@method [$a:ident] [$($p:ident),*] Result, $value:expr, $name:ident, $(#[$doc:meta])* $vis:vis) => {
        $(#[$doc])*
        #[track_caller]
        $vis fn $name(&self $(, $p: f64)*) -> $crate::Result<$crate::Var> {
            let own = self.value_ref();
            let value = { let $a: &foldback_tensor::Tensor = &own; $value }?;
            Ok($crate::record::record_rule(&$name, pointwise!(@array $($p),*), [self], [own], value))
        }
    };
    (@method [$a:ident, $b:ident] [$($p:ident),*] Result, $value:expr, $name:ident, $(#[$doc:meta])* $vis:vis) => {
        $(#[$doc])*
        #[track_caller]
        $vis fn $name<'a>(&self, other: impl Into<$crate::Input<'a>> $(, $p: f64)*) -> $crate::Result<$crate::Var> {
            let other = other.into();
            let made;
            let other = match other {
                $crate::Input::Var(v) => v,
                other => { made = other.to_var(self); &made }
            };
            let values = [self.value_ref(), other.value_ref()];
            let value = {
                let ($a, $b): (&foldback_tensor::Tensor, &foldback_tensor::Tensor) = (&values[0], &values[1]);
                $value
            }?;
            Ok($crate::record::record_rule(&$name, pointwise!(@array $($p),*), [self, other], values, value))
        }
    };
    (@method [$a:ident, $b:ident, $c:ident] [$($p:ident),*] Result, $value:expr, $name:ident, $(#[$doc:meta])* $vis:vis) => {
        $(#[$doc])*
        #[track_caller]
        $vis fn $name<'a>(
            &self, second: impl Into<$crate::Input<'a>>, third: impl Into<$crate::Input<'a>> $(, $p: f64)*
        ) -> $crate::Result<$crate::Var> {
            let (second, third) = $crate::table::arithmetic::beside(self, second.into(), third.into());
            let values = [self.value_ref(), second.value_ref(), third.value_ref()];
            let value = {
                let ($a, $b, $c): (&foldback_tensor::Tensor, &foldback_tensor::Tensor, &foldback_tensor::Tensor) =
                    (&values[0], &values[1], &values[2]);
                $value
            }?;
            Ok($crate::record::record_rule(
                &$name, pointwise!(@array $($p),*), [self, &second, &third], values, value))
        }
    };

    (@run Var, $x:ident, $name:ident, [$a:ident] [$($s:expr),*]) => { Ok($x[0].$name($($s),*)) };
    (@run Result, $x:ident, $name:ident, [$a:ident] [$($s:expr),*]) => { $x[0].$name($($s),*) };
    (@run Result, $x:ident, $name:ident, [$a:ident, $b:ident] [$($s:expr),*]) => { $x[0].$name(&$x[1] $(, $s)*) };
    (@run Result, $x:ident, $name:ident, [$a:ident, $b:ident, $c:ident] [$($s:expr),*]) => {
        $x[0].$name(&$x[1], &$x[2] $(, $s)*)
    };
}
pub(crate) use pointwise;

/// Rows whose gradients are expressions over variables.
///
/// ```text
/// fn name(a, b; attribute: Type) { what to compute from the attributes once } = value => y;
///     d a: |g, b| expression; ...
///     check { "what is special": [[2, 3] ANY, [3] ANY] |x| x[0].name(&x[1], 1); }
/// ```
/// The block may bind names (shapes, resolved axes) that the gradients then use; they are kept with the node.
macro_rules! function {
    ($(
        $(#[$doc:meta])*
        $vis:vis fn $name:ident($a:ident $(, $b:ident)* $(; $($attr:ident: $ty:ty),+)?) $({ $($before:stmt;)* })? = $value:expr $(=> $y:ident)?;
        $(d $dx:ident: |$($n:ident),+| $gradient:expr;)+
        check { $($label:literal: [$([$($dim:literal),*] $domain:ident),+] |$arg:ident| $run:expr;)+ }
    )*) => {
        impl $crate::Var {$(
            $(#[$doc])*
            #[track_caller]
            $vis fn $name(&self $(, $b: &$crate::Var)* $($(, $attr: $ty)+)?) -> $crate::Result<$crate::Var> {
                const INPUTS: &[&str] = &[stringify!($a) $(, stringify!($b))*];
                const OUTPUT: &str = concat!("", $(stringify!($y))?);
                const _: () = $crate::table::names::check(INPUTS, &[$(stringify!($dx)),+]);
                const SLOTS: &[&[$crate::table::Slot]] =
                    &[$(&[$($crate::table::names::slot(stringify!($n), INPUTS, OUTPUT)),+]),+];
                let inputs: &[&$crate::Var] = &[self $(, $b)*];
                let $a = &*self.value_ref();
                $(let $b = &*$b.value_ref();)*
                $($($before)*)?
                let value: foldback_tensor::Tensor = $value?;
                Ok($crate::record::record_one($crate::table::names::shown(stringify!($name)), inputs, value, $crate::record::Reads::Each(SLOTS), move || {
                    Box::new(move |ctx: &$crate::gradient::Context<'_>| {
                        let mut gradients = smallvec::SmallVec::new();
                        let mut input = 0;
                        $(
                            gradients.push(if ctx.needs(input) {
                                $(let $n = &ctx.value($crate::table::names::slot(stringify!($n), INPUTS, OUTPUT));)+
                                Some($crate::gradient::Flow::from($gradient?))
                            } else {
                                None
                            });
                            input += 1;
                        )+
                        let _ = input;
                        Ok(gradients)
                    })
                }))
            }
        )*}

        /// This file's rows.
        pub(crate) static ROWS: &[$crate::table::Row] = &[$(
            $crate::table::Row {
                name: stringify!($name),
                samples: $crate::table::samples::Samples::Listed(&[$(
                    $crate::table::Sample {
                        label: $label,
                        inputs: &[$($crate::table::InputSpec { shape: &[$($dim),*], domain: $crate::table::Domain::$domain }),+],
                        run: |$arg| $run,
                    }
                ),+]),
            }
        ),*];
    };
}
pub(crate) use function;
