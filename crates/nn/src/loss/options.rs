//! How a loss with options is written: its struct, the setters, the function with the defaults.

/// Writes for each loss the struct of its options, with a `reduction`, and the function that has PyTorch's defaults. The
/// formula takes its inputs as variables and gives the losses of single elements.
macro_rules! losses {
    ($(
        $(#[$doc:meta])*
        $loss:ident { $($(#[$set_doc:meta])* $set:ident: $set_ty:ty = $default:expr;)* }
        $(#[$call_doc:meta])*
        fn $function:ident($($arg:ident),*) |$own:ident| $value:expr;
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $loss {
            $($set: $set_ty,)*
            reduction: $crate::loss::Reduction,
        }

        impl $loss {
            /// PyTorch's defaults.
            pub fn new() -> $loss {
                $loss { $($set: $default,)* reduction: $crate::loss::Reduction::Mean }
            }

            $(
                $(#[$set_doc])*
                #[must_use]
                pub fn $set(mut self, $set: impl Into<$set_ty>) -> $loss {
                    self.$set = $set.into();
                    self
                }
            )*

            /// What becomes of the losses of single elements. The default is their mean.
            #[must_use]
            pub fn reduction(mut self, reduction: $crate::loss::Reduction) -> $loss {
                self.reduction = reduction;
                self
            }

            $(#[$call_doc])*
            #[track_caller]
            pub fn forward(&self, $($arg: impl foldback_graph::AsInput),*) -> $crate::error::Result<foldback_graph::Var> {
                foldback_tensor::Here::here(self.of($(&$arg.to_var()),*))
            }

            #[track_caller]
            fn of(&self, $($arg: &foldback_graph::Var),*) -> $crate::error::Result<foldback_graph::Var> {
                let $own = self;
                let losses: foldback_graph::Var = $value?;
                self.reduction.apply(losses)
            }
        }

        impl Default for $loss {
            fn default() -> $loss {
                $loss::new()
            }
        }

        #[doc = concat!("[`", stringify!($loss), "`] with PyTorch's defaults, for one call.")]
        ///
        $(#[$call_doc])*
        #[track_caller]
        pub fn $function($($arg: impl foldback_graph::AsInput),*) -> $crate::error::Result<foldback_graph::Var> {
            $loss::new().forward($($arg),*)
        }
    )*};
}
pub(super) use losses;
