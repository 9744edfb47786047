//! Dropout that keeps mean and variance, for networks of [`SELU`](crate::SELU).

use foldback_graph::Var;
use foldback_tensor::{Here, refuse};

use super::dropout::{Dropout, dropping};
use crate::error::{NnFacts, Result};
use crate::{Module, forward};

/// What is dropped becomes this: where SELU ends on the left (Klambauer et al., "Self-normalizing neural networks", 2017).
const ALPHA: f64 = -1.758_099_340_847_376_6;

macro_rules! alphas {
    ($($(#[$doc:meta])* $layer:ident($what:literal, |$x:ident| $shape:expr);)*) => {$(
        dropping!($(#[$doc])* $layer, $what);

        #[forward]
        impl $layer {
            #[doc = concat!("The input with some ", $what, " dropped; itself after [`Module::eval`].")]
            ///
            /// # Errors
            #[doc = concat!("`DType` for integers and `bool`, and `InputShape` for too few axes, in training.")]
            #[track_caller]
            pub fn forward(&self, $x: &Var) -> Result<Var> {
                let p = self.each.p();
                if !self.each.is_training() || p == 0.0 {
                    return Ok($x.clone());
                }
                let shape: Vec<usize> = $shape;
                let kept = self.each.kept(&shape.into(), $x.dtype())?;
                if p == 1.0 {
                    return $x.mul(0.0);
                }
                let scale = 1.0 / ((ALPHA * ALPHA * p + 1.0) * (1.0 - p)).sqrt();
                let offset = kept.sub(1.0)?.mul(ALPHA * scale)?.add(ALPHA * scale * p)?;
                $x.mul(kept.mul(scale)?)?.add(offset)
            }
        }
    )*};
}

alphas! {
    /// In training, sets elements with probability `p` to the least value of SELU, and scales and shifts all so that inputs of mean 0
    /// and variance 1 keep these. PyTorch's
    /// [`AlphaDropout`](https://docs.pytorch.org/docs/stable/generated/torch.nn.AlphaDropout.html).
    ///
    /// ```
    /// use foldback_nn::{AlphaDropout, Module};
    /// use foldback_tensor::Tensor;
    /// let mut dropout = AlphaDropout::new(0.5);
    /// let x = Tensor::ones([100]);
    /// assert_ne!(dropout.forward(&x)?.value(), x);
    /// dropout.eval();
    /// assert_eq!(dropout.forward(&x)?.value(), x);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    AlphaDropout("elements", |x| x.dims().to_vec());
    /// [`AlphaDropout`] of whole channels: `[n, c, ..]`. PyTorch's
    /// [`FeatureAlphaDropout`](https://docs.pytorch.org/docs/stable/generated/torch.nn.FeatureAlphaDropout.html).
    ///
    /// ```
    /// use foldback_nn::FeatureAlphaDropout;
    /// use foldback_tensor::Tensor;
    /// let y = FeatureAlphaDropout::new(0.5).forward(&Tensor::ones([1, 2, 3]))?.value();
    /// assert_eq!(y.amax(-1)?, y.amin(-1)?);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    FeatureAlphaDropout("channels", |x| {
        if x.rank() < 2 {
            let (op, expected) = ("feature_alpha_dropout", "[n, c, ..]".into());
            return refuse(NnFacts::InputShape { op, name: "an input", expected, found: x.shape().clone() }).here();
        }
        let mut shape = x.dims().to_vec();
        shape[2..].fill(1);
        shape
    });
}

#[cfg(test)]
mod tests {
    use foldback_graph::RequiresGrad;
    use foldback_tensor::{DType, Generator, Tensor, tensor};

    use super::*;

    fn moments(x: &Tensor) -> [f64; 2] {
        let (var, mean) = x.var_mean(..).unwrap();
        [mean.item().unwrap(), var.item().unwrap()]
    }

    #[test]
    fn mean_and_variance_stay() {
        let n = 100_000;
        let x = Generator::new(3).try_randn_with([n], DType::F64).unwrap().requires_grad();
        for p in [0.1, 0.5, 0.8] {
            let y = AlphaDropout::new(p).seed(5).forward(&x).unwrap();
            let [mean, var] = moments(&y.value());
            // 5 standard errors; the fourth moment of what comes out is below 10
            let bound = 5.0 / (n as f64).sqrt();
            assert!(mean.abs() < bound && (var - 1.0).abs() < 3.0 * bound, "{p}: {mean} {var}");
            x.zero_grad();
            y.sum(..).unwrap().backward().unwrap();
            let scale = 1.0 / ((ALPHA * ALPHA * p + 1.0) * (1.0 - p)).sqrt();
            let slopes: Vec<f64> = x.grad().unwrap().to_vec().unwrap();
            assert!(slopes.iter().all(|&s| s == 0.0 || (s - scale).abs() < 1e-12));
            let dropped = slopes.iter().filter(|&&s| s == 0.0).count() as f64 / n as f64;
            assert!((dropped - p).abs() < 4.0 * (p * (1.0 - p) / n as f64).sqrt(), "{dropped} for {p}");
        }
    }

    #[test]
    fn whole_channels_go() {
        let y = FeatureAlphaDropout::new(0.5).seed(1).forward(Tensor::ones([10, 10, 2, 2])).unwrap().value();
        assert_eq!(y.amax([2, 3]).unwrap(), y.amin([2, 3]).unwrap());
        assert_ne!(y.amax(..).unwrap(), y.amin(..).unwrap());
    }

    #[test]
    fn refusals() {
        assert!(AlphaDropout::try_new(1.5).is_err() && FeatureAlphaDropout::try_new(f64::NAN).is_err());
        let text = |r: Result<Var>| r.unwrap_err().with_location(None).to_string();
        let e = text(FeatureAlphaDropout::new(0.5).forward(Tensor::ones(3)));
        assert_eq!(e, "feature_alpha_dropout: expected an input of shape [n, c, ..], found [3]");
        assert!(AlphaDropout::new(0.5).forward(&tensor![1; i64]).is_err());
        assert!(AlphaDropout::new(1.0).forward(&tensor![1; i64]).is_err());
    }
}
