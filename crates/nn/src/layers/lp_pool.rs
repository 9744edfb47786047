//! Norms of windows.

use foldback_graph::Var;
use foldback_tensor::{Here, Pair, Pool, refuse};

use super::curves::expect_float;
use crate::error::{NnFacts, Result};
use crate::{Module, forward};

macro_rules! norms {
    ($($(#[$doc:meta])* $layer:ident($op:literal, $mean:ident, $max:ident, $size:ty, $stored:ty, |$kernel:ident| $count:expr);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Module)]
        pub struct $layer {
            norm_type: f64,
            #[module(skip)]
            kernel_size: $stored,
            #[module(skip)]
            options: Pool,
        }

        impl $layer {
            /// The norm of this power, of windows of this size, side by side. An infinite power is the largest absolute value.
            pub fn new(norm_type: f64, kernel_size: $size) -> $layer {
                $layer { norm_type, kernel_size: kernel_size.into(), options: Pool::new() }
            }

            /// By how much windows move. The default is their size.
            #[must_use]
            pub fn stride(mut self, stride: $size) -> $layer {
                self.options = self.options.stride(stride);
                self
            }

            /// Whether a last window may reach over the end. It counts as if it were full of such elements as it has.
            #[must_use]
            pub fn ceil_mode(mut self, ceil_mode: bool) -> $layer {
                self.options = self.options.ceil_mode(ceil_mode);
                self
            }
        }

        #[forward]
        impl $layer {
            /// One number for each window and channel.
            ///
            /// # Errors
            /// `Rank` or `Window` if the input does not fit, `DType` for integers and `bool`, `Parameter` for a power of 0 or NaN, and
            /// for settings outside their domain.
            #[track_caller]
            pub fn forward(&self, x: &Var) -> Result<Var> {
                let p = self.norm_type;
                expect_float($op, x)?;
                if p == 0.0 || p.is_nan() {
                    let (name, expected) = ("norm_type", "a number other than 0");
                    return refuse(NnFacts::Parameter { op: $op, name, value: p, expected }).here();
                }
                if p == f64::INFINITY {
                    return x.abs().$max(self.kernel_size, self.options).map_err(|e| e.named($op)).here();
                }
                if p == f64::NEG_INFINITY {
                    let smallest = x.abs().neg().$max(self.kernel_size, self.options);
                    return Ok(-smallest.map_err(|e| e.named($op)).here()?);
                }
                let mean = x.pow(p)?.$mean(self.kernel_size, self.options).map_err(|e| e.named($op)).here()?;
                let $kernel = self.kernel_size;
                // PyTorch's words, which are those of its gradient at 0 and below it, too.
                mean.sign().mul(mean.abs().relu())?.mul($count)?.pow(1.0 / p)
            }
        }
    )*};
}

norms! {
    /// `sum(x^p)^(1/p)` of windows over the last axis, `[n, c, l]` or `[c, l]`. PyTorch's
    /// [`LPPool1d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.LPPool1d.html).
    ///
    /// ```
    /// use foldback_nn::LPPool1d;
    /// use foldback_tensor::{assert_close, tensor};
    /// assert_close!(LPPool1d::new(2.0, 2).forward(&tensor![[3.0, 4.0, 0.0, 1.0]])?.value(), tensor![[5.0, 1.0]]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    LPPool1d("lp_pool1d", avg_pool1d_with, max_pool1d_with, usize, usize, |kernel| kernel as f64);
    /// `sum(x^p)^(1/p)` of windows over the last two axes, `[n, c, h, w]` or `[c, h, w]`. PyTorch's
    /// [`LPPool2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.LPPool2d.html).
    ///
    /// ```
    /// use foldback_nn::LPPool2d;
    /// use foldback_tensor::{assert_close, tensor};
    /// let x = tensor![[[1.0, 2.0], [3.0, 4.0]]];
    /// assert_close!(LPPool2d::new(1.0, 2).forward(&x)?.value(), tensor![[[10.0]]]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    LPPool2d("lp_pool2d", avg_pool2d_with, max_pool2d_with, impl Into<Pair>, Pair, |kernel| kernel.get().map(|n| n as f64).iter().product::<f64>());
}

#[cfg(test)]
mod tests {
    use foldback_tensor::{Tensor, tensor};

    use super::*;

    #[test]
    fn refusals() {
        let text = |r: Result<Var>| r.unwrap_err().with_location(None).to_string();
        let x = Tensor::ones([1, 4]);
        for p in [0.0, f64::NAN] {
            assert!(text(LPPool1d::new(p, 2).forward(&x)).starts_with("lp_pool1d: norm_type = "), "{p}");
        }
        for p in [1.0, 2.5, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(text(LPPool1d::new(p, 9).forward(&x)).starts_with("lp_pool1d: "), "{p}");
            assert!(text(LPPool2d::new(p, 2).forward(&x)).starts_with("lp_pool2d: "), "{p}");
        }
        assert!(
            text(LPPool1d::new(2.0, 2).forward(&tensor![[1, 2]; i64]))
                .contains("must be a floating-point type")
        );
    }
}
