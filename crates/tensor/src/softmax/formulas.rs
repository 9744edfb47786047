//! The formulas of the family, each said once: what is summed over a row, and the result, given the sum.

use crate::kernels::{FloatOps, Real, RowFormula};

macro_rules! formulas {
    ($($(#[$doc:meta])* $vis:vis $name:ident($a:ident, $b:ident) $([$flag:ident])* = sum of $term:expr => |$t:ident, $s:ident| $result:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        $vis struct $name;
        impl RowFormula for $name {
            $(const $flag: bool = true;)*
            #[inline(always)]
            fn term<R: Real>(&self, $a: R, $b: R) -> R
            where
                f64: FloatOps<R>,
            {
                let _ = $b;
                $term
            }
            #[inline(always)]
            fn result<R: Real>(&self, $a: R, $b: R, $t: R, $s: R) -> R
            where
                f64: FloatOps<R>,
            {
                let _ = ($a, $b, $t);
                $result
            }
        }
    )*};
}

formulas! {
    pub(crate) Softmax(x, m) [SHIFTED] = sum of (x - m).exp() => |t, s| t / s;
    pub(crate) LogSoftmax(x, m) [SHIFTED] [LOGARITHM] = sum of (x - m).exp() => |t, l| x - m - l;
    /// An infinite element is as large as itself, so its term is `exp(0)`.
    pub(crate) LogSumExp(x, m) [SHIFTED] [LOGARITHM] [PER_ROW] = sum of R::select(x.eq(m), R::lit(1.0), (x - m).exp())
        => |t, l| m + l;
    /// The gradient of softmax, given that of its result and the result `y`.
    pub SoftmaxGradient(g, y) = sum of g * y => |t, s| y * (g - s);
    /// The gradient of the logarithm of softmax, given that of its result and the result `y`.
    pub LogSoftmaxGradient(g, y) [PLAIN] = sum of g => |t, s| g - y.exp() * s;
}
