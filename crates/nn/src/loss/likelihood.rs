//! Negative log-likelihoods of counts and of numbers with a spread.

use std::f64::consts::TAU;

use foldback_graph::Var;
use foldback_tensor::refuse;

use super::options::losses;
use super::{expect_float, expect_same_shape};
use crate::error::{NnFacts, Result};

losses! {
    /// The negative log-likelihood of counts by Poisson's law. PyTorch's
    /// [`PoissonNLLLoss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.PoissonNLLLoss.html).
    ///
    /// ```
    /// use foldback_nn::loss::PoissonNLLLoss;
    /// use foldback_tensor::tensor;
    /// assert_eq!(PoissonNLLLoss::new().forward(&tensor![0.0], &tensor![3.0])?.item()?, 1.0);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    PoissonNLLLoss {
        /// Whether the input is the logarithm of the rate. The default is yes.
        log_input: bool = true;
        /// Whether the part that depends on the target alone is added, by Stirling's formula. The default is no.
        full: bool = false;
        /// What is added to a rate before its logarithm. The default is 1e-8.
        eps: f64 = 1e-8;
    }
    /// `exp(input) - target input`, or `input - target ln(input + eps)` of a rate itself, reduced. Any shape, the same for both.
    ///
    /// # Errors
    /// `LossShapes` if the shapes differ, `DType` if the input is not of a floating-point type.
    fn poisson_nll_loss(input, target) |own| {
        expect_float("poisson_nll_loss", "the input", input)?;
        expect_same_shape("poisson_nll_loss", input, target)?;
        let losses = match own.log_input {
            true => input.exp().sub(&target.mul(input)?)?,
            false => input.sub(&target.mul(input.add(own.eps)?.log())?)?,
        };
        if own.full { losses.add(&stirling(target)?) } else { Ok(losses) }
    };
    /// The negative log-likelihood of numbers by a normal law whose variance is known or learned. PyTorch's
    /// [`GaussianNLLLoss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.GaussianNLLLoss.html).
    ///
    /// ```
    /// use foldback_nn::loss::GaussianNLLLoss;
    /// use foldback_tensor::tensor;
    /// let loss = GaussianNLLLoss::new().forward(&tensor![3.0], &tensor![1.0], &tensor![1.0])?;
    /// assert_eq!(loss.item()?, 2.0);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    GaussianNLLLoss {
        /// Whether the constant `ln(2 pi) / 2` is added. The default is no.
        full: bool = false;
        /// The least variance, 0 or more. The default is 1e-6.
        eps: f64 = 1e-6;
    }
    /// `(ln(var) + (input - target)^2 / var) / 2`, reduced. Input and target have the same shape; the variance has it, too, or one axis of
    /// size 1 instead, or no last axis. A variance below `eps` counts as that, and gets a gradient as if it were not.
    ///
    /// # Errors
    /// `LossShapes` if the shapes differ, `ParameterShape` if that of the variance does not fit, `Parameter` if a variance is negative or
    /// `eps` below 0, `DType` if the input is not of a floating-point type.
    fn gaussian_nll_loss(input, target, var) |own| {
        let op = "gaussian_nll_loss";
        expect_float(op, "the input", input)?;
        expect_same_shape(op, input, target)?;
        if own.eps.is_nan() || own.eps < 0.0 {
            let (name, expected) = ("eps", "0 or more");
            return refuse(NnFacts::Parameter { op, name, value: own.eps, expected });
        }
        let var = one_for_each(op, input, var)?;
        if var.value().lt(0)?.any(..)?.item_as::<bool>()? {
            let (name, value, expected) = ("a variance", var.value().amin(..)?.item()?, "0 or more");
            return refuse(NnFacts::Parameter { op, name, value, expected });
        }
        let clamped = var.value().clamp_min(own.eps)?.sub(var.value())?;
        let var = var.add(&clamped)?;
        let losses = input.sub(target)?.square().div(&var)?.add(var.log())?.mul(0.5)?;
        if own.full { losses.add(0.5 * TAU.ln()) } else { Ok(losses) }
    };
}

/// `ln(target!)` by Stirling's formula, and 0 up to 1.
#[track_caller]
fn stirling(target: &Var) -> Result<Var> {
    let roots = target.mul(TAU)?.log().mul(0.5)?;
    target.mul(target.log())?.sub(target)?.add(&roots)?.masked_fill(&target.le(1)?, 0.0)
}

/// A variance that broadcasts to the input: it has its shape, or one axis of size 1 instead, or one number for each row.
fn one_for_each(op: &'static str, input: &Var, var: &Var) -> Result<Var> {
    let (dims, found) = (input.dims(), var.dims());
    if dims.split_last().is_some_and(|(_, rows)| rows == found) {
        return var.unsqueeze(-1);
    }
    let differ = found.iter().zip(dims).filter(|(own, of_input)| own != of_input);
    let others: Vec<usize> = differ.map(|(&own, _)| own).collect();
    if found.len() == dims.len() && matches!(*others, [] | [1]) {
        return Ok(var.clone());
    }
    let (name, expected) = ("a variance", format!("{dims:?}"));
    refuse(NnFacts::ParameterShape { op, name, expected, found: var.shape().clone() })
}

#[cfg(test)]
mod tests {
    use foldback_tensor::{Tensor, tensor};

    use super::*;

    #[test]
    fn no_least_variance_is_needed() {
        let loss = |eps| GaussianNLLLoss::new().eps(eps).forward(&tensor![3.0], &tensor![1.0], &tensor![1.0]);
        assert_eq!(loss(0.0).unwrap().item().unwrap(), 2.0);
        assert!(loss(-1.0).is_err() && loss(f64::NAN).is_err());
    }

    /// A variance for each column or for each row, as PyTorch takes them; no other broadcast.
    #[test]
    fn one_axis_of_a_variance_may_be_of_size_1() {
        let (x, target) = (tensor![[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], Tensor::zeros([2, 3]));
        for var in [tensor![[0.5, 1.0, 2.0]], tensor![[0.5], [2.0]]] {
            let want = gaussian_nll_loss(&x, &target, var.expand([2, 3]).unwrap()).unwrap();
            assert_eq!(gaussian_nll_loss(&x, &target, var).unwrap().value(), want.value());
        }
        for shape in [vec![1, 1], vec![1, 2], vec![2, 2], vec![3], vec![1, 2, 3], vec![]] {
            assert!(gaussian_nll_loss(&x, &target, Tensor::ones(&shape)).is_err(), "{shape:?}");
        }
    }
}
