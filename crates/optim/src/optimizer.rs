//! What an optimiser is made of: its table of settings becomes the setters, and its step a type that programs use.

/// Defines an optimiser: its documentation, its name and the learning rate that PyTorch has by default; its settings, each with a
/// text, a setter, and the names, types, defaults and domains of what that sets; what it keeps for each parameter; and its step,
/// a function of
/// the settings (a struct of the given name) and of what is kept.
macro_rules! optimizer {
    (
        $(#[$doc:meta])*
        $name:ident, $text:literal, $values:ident;
        settings { $( $help:literal $setter:ident ( $( $field:ident : $ty:ident = $default:literal in $domain:ident ),+ ); )* }
        keeps [ $( $tensor:literal ),* $( ; $( $sometimes:literal ),* )? ] [ $( $number:literal = $start:literal ),* ];
        by_parameter: $by_parameter:literal;
        check: $check:expr;
        step: $step:expr;
    ) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $name {
            shared: std::sync::Arc<$crate::shared::Shared>,
        }

        /// The settings of a group as a step reads them.
        #[derive(Clone, Copy)]
        struct $values {
            lr: f64,
            $($($field: $ty,)+)*
        }

        impl $values {
            fn of(numbers: &[f64]) -> $values {
                let mut numbers = numbers.iter().copied();
                let mut next = || numbers.next().expect("as many as the table has");
                // Evaluated as they stand, which is the order of the table.
                $values {
                    lr: next(),
                    $($($field: $crate::setting::Number::of(next()),)+)*
                }
            }
        }

        static ALGORITHM: $crate::shared::Algorithm = $crate::shared::Algorithm {
            name: $text,
            settings: &[
                // The rate is always given: its default is never read.
                $crate::setting::Setting { name: "lr", default: 0.0, domain: $crate::setting::Domain::NotNegative },
                $($($crate::setting::Setting {
                    name: stringify!($field),
                    default: $crate::optimizer::optimizer!(@number $ty $default),
                    domain: $crate::setting::Domain::$domain,
                },)+)*
            ],
            tensors: &[$($tensor,)* $($($sometimes,)*)?],
            always: {
                const ALWAYS: &[&str] = &[$($tensor),*];
                ALWAYS.len()
            },
            numbers: &[$(($number, $start)),*],
            check: |numbers| $check($values::of(numbers)),
            step: |numbers, before| $step($values::of(numbers), before),
            by_parameter: $by_parameter,
        };

        impl $name {
            /// An optimiser of these parameters with a learning rate; setters change the rest.
            ///
            /// # Panics
            #[doc = concat!("Where [`", $text, "::try_new`] returns an error.")]
            ///
            /// ```
            /// use foldback_graph::RequiresGrad;
            /// use foldback_optim::Optimizer;
            /// let w = foldback_tensor::tensor![1.0].requires_grad();
            #[doc = concat!("let optimizer = foldback_optim::", $text, "::new([&w], 0.01);")]
            /// assert_eq!(optimizer.lr(), 0.01);
            /// ```
            #[track_caller]
            pub fn new(parameters: impl IntoIterator<Item: $crate::AsParameter>, lr: f64) -> $name {
                foldback_tensor::or_panic($name::try_new(parameters, lr))
            }

            #[doc = concat!("[`", $text, "::new`] that returns an error instead of panicking.")]
            ///
            /// # Errors
            /// `Parameter` if the learning rate is negative or not finite; `NoParameters`, `Duplicate`, `NotALeaf`.
            ///
            /// ```
            /// let nothing: [foldback_graph::Var; 0] = [];
            #[doc = concat!("assert!(foldback_optim::", $text, "::try_new(nothing, 0.01).is_err());")]
            /// ```
            #[track_caller]
            pub fn try_new(parameters: impl IntoIterator<Item: $crate::AsParameter>, lr: f64) -> $crate::Result<$name> {
                use foldback_tensor::Here;
                Ok($name { shared: $crate::shared::Shared::new(&ALGORITHM, parameters, lr).here()? })
            }

            $(
                #[doc = $help]
                ///
                /// # Panics
                /// If it is outside its domain, as `try_with` says.
                #[must_use]
                #[track_caller]
                pub fn $setter(self, $($field: $ty),+) -> $name {
                    let settings = $crate::Group::new().$setter($($field),+);
                    foldback_tensor::or_panic(self.shared.settings.set_for_all(&settings, |_| Ok(())));
                    self
                }
            )*

            /// Settings that may be refused: what the setters do, and an error instead of a panic. Groups keep what is their own.
            ///
            /// # Errors
            /// `Setting` if there is no such setting, `Parameter` if a value is outside its domain; what does not go together,
            /// which setters one by one leave to the step. Nothing is changed then.
            ///
            /// ```
            /// use foldback_graph::RequiresGrad;
            /// use foldback_optim::Group;
            /// let w = foldback_tensor::tensor![1.0].requires_grad();
            #[doc = concat!("let optimizer = foldback_optim::", $text, "::try_new([&w], 0.01)?;")]
            /// assert!(optimizer.try_with(Group::new().lr(-1.0)).is_err());
            /// # Ok::<(), foldback_optim::Error>(())
            /// ```
            #[track_caller]
            pub fn try_with(self, settings: $crate::Group) -> $crate::Result<$name> {
                use foldback_tensor::Here;
                self.shared.settings.set_for_all(&settings, ALGORITHM.check).here()?;
                Ok(self)
            }

            /// Makes some parameters, which are in no group yet, a group with settings of its own: those whose names match a
            /// pattern, or a list. What the group does not set is as for all. The first group is of those that stay; where none
            /// does, it ends.
            ///
            /// # Panics
            /// Where `try_group` returns an error.
            #[must_use]
            #[track_caller]
            pub fn group(self, members: impl Into<$crate::Members>, settings: $crate::Group) -> $name {
                foldback_tensor::or_panic(self.try_group(members, settings))
            }

            /// `group` that returns an error instead of panicking.
            ///
            /// # Errors
            /// `Members` if there is no such parameter, one is in a group already, or a pattern meets parameters without
            /// names; `Setting` and `Parameter` as `try_with`. Nothing is changed then.
            #[track_caller]
            pub fn try_group(
                self,
                members: impl Into<$crate::Members>,
                settings: $crate::Group,
            ) -> $crate::Result<$name> {
                use foldback_tensor::Here;
                self.shared.group(members.into(), &settings).here()?;
                Ok(self)
            }
        }

        impl $crate::Optimizer for $name {
            #[track_caller]
            fn step(&self) -> $crate::Result<()> {
                use foldback_tensor::Here;
                self.shared.step().here()
            }

            fn parameters(&self) -> &[foldback_graph::Var] {
                self.shared.vars()
            }

            fn settings(&self) -> &$crate::Settings {
                &self.shared.settings
            }

            fn state_dict(&self) -> foldback_tensor::StateDict {
                self.shared.state_dict()
            }

            #[track_caller]
            fn load_state_dict(&self, state: &foldback_tensor::StateDict) -> $crate::Result<()> {
                use foldback_tensor::Here;
                self.shared.load_state_dict(state).here()
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.shared.fmt(f)
            }
        }
    };
    (@number bool $flag:expr) => { if $flag { 1.0 } else { 0.0 } };
    (@number usize $count:expr) => { $count as f64 };
    (@number f64 $number:expr) => { $number };
}

pub(crate) use optimizer;
