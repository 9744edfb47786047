//! The Kullback-Leibler divergence.

use super::options::losses;
use super::{expect_float, in_one_shape};

const LOSS: &str = "kl_div";

losses! {
    /// The options of [`kl_div`]. PyTorch's
    /// [`KLDivLoss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.KLDivLoss.html). The mean is over all elements; the
    /// divergence of a batch is [`Reduction::BatchMean`](crate::loss::Reduction::BatchMean).
    ///
    /// ```
    /// use foldback_nn::loss::{KLDivLoss, Reduction};
    /// use foldback_tensor::{assert_close, tensor};
    /// let (p, q) = (tensor![[0.5, 0.5]], tensor![[0.25, 0.75]]);
    /// let loss = KLDivLoss::new().log_target(true).reduction(Reduction::Sum);
    /// let found = loss.forward(&p.log(), &q.log())?.value();
    /// assert_close!(found, (&q * (&q / &p).log()).sum(..)?);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    KLDivLoss {
        /// Whether the target holds logarithms of probabilities.
        log_target: bool = false;
    }
    /// `t (ln(t) - x)` for logarithms of probabilities `x` and probabilities `t`, or `exp(t) (t - x)` for logarithms `t`,
    /// reduced. Any shape, the same for both, or all pairs, see [`loss`](crate::loss). It is 0 where `t` is 0 and `x` finite.
    ///
    /// # Errors
    /// `LossShapes` if the shapes differ, `DType` if one of the types is not a floating-point one.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_nn::loss::kl_div;
    /// use foldback_tensor::tensor;
    /// let x = tensor![-1.0, -2.0].requires_grad();
    /// kl_div(&x, &tensor![1.0, 0.0])?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![-0.5, 0.0]));
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    fn kl_div(input, target) |own| {
        expect_float(LOSS, "the input", input)?;
        expect_float(LOSS, "the target", target)?;
        let [input, target] = &in_one_shape(LOSS, input, target)?;
        match own.log_target {
            true => target.exp().mul(target.sub(&**input)?),
            false => target.xlogy(&**target)?.sub(target.mul(&**input)?),
        }
    };
}

#[cfg(test)]
mod tests {
    use foldback_tensor::tensor;

    use super::*;
    use crate::loss::Reduction;

    #[test]
    fn the_mean_over_a_batch() {
        let (x, p) = (tensor![[-1.0, -2.0], [-3.0, -1.0]], tensor![[0.5, 0.5], [1.0, 0.0]]);
        let of =
            |reduction, x, p| KLDivLoss::new().reduction(reduction).forward(x, p).unwrap().item().unwrap();
        assert_eq!(of(Reduction::BatchMean, &x, &p), of(Reduction::Sum, &x, &p) / 2.0);
        let (x, p) = (tensor![-1.0].squeeze(0).unwrap(), tensor![0.5].squeeze(0).unwrap());
        assert_eq!(of(Reduction::BatchMean, &x, &p), of(Reduction::None, &x, &p));
    }

    #[test]
    fn refusals() {
        let (x, whole) = (tensor![1.0, 2.0], tensor![1, 0; i64]);
        assert!(kl_div(&x, tensor![[1.0], [2.0]]).unwrap_err().to_string().contains("do not broadcast"));
        let e = kl_div(&x, &whole).unwrap_err().to_string();
        assert!(e.contains("the target must be a floating-point type, found i64: use to(DType::F32)"), "{e}");
        assert!(kl_div(&whole, &x).is_err());
    }
}
