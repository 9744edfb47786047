//! The formulas of the family, each said once: what is summed over a row, and the result, given the sum.

use crate::kernels::softmax::{RowTraits, SumForm};
use crate::kernels::{Real, RowFormula};

const NONE: RowTraits = RowTraits { shifted: false, plain: false, taken: SumForm::Sum, per_row: false };

macro_rules! formulas {
    ($($(#[$doc:meta])* $vis:vis $name:ident($a:ident, $b:ident) $([$flag:ident])* = sum of $term:expr => $($taken:ident)? |$t:ident, $s:ident| $result:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        $vis struct $name;
        #[allow(unused_variables, reason = "a formula need not read everything")]
        impl RowFormula for $name {
            const TRAITS: RowTraits = RowTraits { $($flag: true,)* $(taken: SumForm::$taken,)? ..NONE };
            #[inline(always)]
            fn term<R: Real>(&self, $a: R, $b: R) -> R {
                $term
            }
            #[inline(always)]
            fn result<R: Real>(&self, $a: R, $b: R, $t: R, $s: R) -> R {
                $result
            }
        }
    )*};
}

formulas! {
    pub(crate) Softmax(x, m) [shifted] = sum of (x - m).exp() => Reciprocal |t, r| t * r;
    pub(crate) LogSoftmax(x, m) [shifted] = sum of (x - m).exp() => Logarithm |t, l| x - m - l;
    /// An infinite element is as large as itself, so its term is `exp(0)`.
    pub(crate) LogSumExp(x, m) [shifted] [per_row] = sum of R::select(x.eq(m), R::lit(1.0), (x - m).exp())
        => Logarithm |t, l| m + l;
    /// The gradient of softmax, given that of its result and the result `y`.
    pub SoftmaxGradient(g, y) = sum of g * y => |t, s| y * (g - s);
    /// The gradient of the logarithm of softmax, given that of its result and the result `y`.
    pub LogSoftmaxGradient(g, y) [plain] = sum of g => |t, s| g - y.exp() * s;
}
