//! Sums, products and shares in a type that is said: what is read is cast to it first.

use crate::tensor::Tensor;

/// The forms with a type, for tensors here and for variables in the graph crate: methods of this type, whose errors are
/// those of the plain forms.
#[doc(hidden)]
#[macro_export]
macro_rules! __in_dtype {
    ($own:ident, $crate_name:literal) => {
        $crate::__in_dtype! {@forms $own, $crate_name;
            sum_with = sum(over: $crate::Over), "[1.5, 2.5]" ".sum_with(.., DType::I64)?.to_vec::<i64>()?" "[3]";
            mean_with = mean(over: $crate::Over), "[1, 2; i64]" ".mean_with(.., DType::F32)?.to_vec::<f32>()?" "[1.5]";
            prod_with = prod(over: $crate::Over), "[1.5, 2.5]" ".prod_with(.., DType::I64)?.to_vec::<i64>()?" "[2]";
            cumsum_with = cumsum(axis: $crate::Axis) not Bool, "[1.5, 2.5]" ".cumsum_with(0, DType::I64)?.to_vec::<i64>()?" "[1, 3]";
            cumprod_with = cumprod(axis: $crate::Axis) not Bool, "[1.5, 2.5]" ".cumprod_with(0, DType::I64)?.to_vec::<i64>()?" "[1, 2]";
            softmax_with = softmax(axis: $crate::Axis), "[0, 0; i64]" ".softmax_with(0, DType::F32)?.to_vec::<f32>()?" "[0.5, 0.5]";
            log_softmax_with = log_softmax(axis: $crate::Axis), "[0; i64]" ".log_softmax_with(0, DType::F32)?.to_vec::<f32>()?" "[0.0]";
        }
    };
    (@forms $own:ident, $crate_name:literal; $(
        $name:ident = $plain:ident($arg:ident: $ty:ty) $(not $refused:ident)?, $at:literal $call:literal $result:literal;
    )*) => {
        impl $own {$(
            #[doc = concat!("[`Self::", stringify!($plain), "`] in this type: the elements are cast to it first, and so is the result.")]
            ///
            /// # Errors
            #[doc = concat!("As [`Self::", stringify!($plain), "`] of a tensor of that type", $("; `DTypeUnsupported` for `", stringify!($refused), "`",)? ".")]
            ///
            /// ```
            #[doc = concat!("use ", $crate_name, "::", stringify!($own), ";")]
            /// use foldback_tensor::{DType, tensor};
            #[doc = concat!("let x = ", stringify!($own), "::from(tensor!", $at, ");")]
            #[doc = concat!("assert_eq!(x", $call, ", ", $result, ");")]
            /// # Ok::<(), foldback_tensor::Error>(())
            /// ```
            #[track_caller]
            pub fn $name(&self, $arg: impl Into<$ty>, dtype: $crate::DType) -> $crate::Result<$own> {
                use $crate::Here as _;
                $(if dtype == $crate::DType::$refused {
                    return $crate::refuse($crate::TensorFacts::DTypeUnsupported { op: stringify!($name), dtype }).here();
                })?
                // Not closures: what they recorded would have no line of the caller's.
                let result = match self.try_to(dtype) {
                    Ok(x) => match x.$plain($arg) {
                        Ok(y) => y.try_to(dtype),
                        refused => refused,
                    },
                    refused => refused,
                };
                result.map_err(|e| e.named(stringify!($name))).here()
            }
        )*}
    };
}

__in_dtype!(Tensor, "foldback_tensor");
