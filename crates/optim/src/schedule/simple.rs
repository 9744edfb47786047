//! Schedules whose rate is a factor times the last one.

use super::course::{Rates, ScheduleRule, course, schedule};
use crate::error::Result;

const FACTOR: &str = "a number from 0 to 1";

schedule! {
    /// Multiplies the rates by `gamma` every `step_size` steps, as PyTorch's
    /// [`StepLR`](https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.StepLR.html).
    StepLR, "StepLR"(step_size: usize => usize);
    settings {
        "The factor. The default is 0.1."
        gamma / try_gamma(f64 => f64 = 0.1);
    }
}

impl ScheduleRule for StepLR {
    course!();
    fn check(&self) -> Result<()> {
        self.course.check(self.step_size > 0, "step_size", 0.0, "a whole number from 1")?;
        self.course.check(self.gamma.is_finite(), "gamma", self.gamma, "a finite number")
    }
    fn rates(&self, epoch: i64, lrs: &[f64], _: bool) -> Result<Rates> {
        let falls = epoch != 0 && i128::from(epoch) % self.step_size as i128 == 0;
        Ok(times(lrs, if falls { self.gamma } else { 1.0 }))
    }
    fn anew(&self, _: &[f64]) -> Result<Rates> {
        Ok(self.course.base.clone().into())
    }
}

schedule! {
    /// Multiplies the rates by `gamma` at each milestone, as PyTorch's
    /// [`MultiStepLR`](https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.MultiStepLR.html).
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_optim::{MultiStepLR, Optimizer, SGD, Schedule};
    /// let sgd = SGD::new([foldback_tensor::tensor![1.0].requires_grad()], 1.0);
    /// let mut schedule = MultiStepLR::new(&sgd, [1, 3]).gamma(0.5);
    /// (0..3).try_for_each(|_| schedule.step(&sgd))?;
    /// assert_eq!(sgd.lr(), 0.25);
    /// # Ok::<(), foldback_optim::Error>(())
    /// ```
    MultiStepLR, "MultiStepLR"(milestones: impl Into<Vec<usize>> => Vec<usize>);
    settings {
        "The factor. The default is 0.1."
        gamma / try_gamma(f64 => f64 = 0.1);
    }
}

impl ScheduleRule for MultiStepLR {
    course!();
    fn check(&self) -> Result<()> {
        self.course.check(self.gamma.is_finite(), "gamma", self.gamma, "a finite number")
    }
    fn rates(&self, epoch: i64, lrs: &[f64], _: bool) -> Result<Rates> {
        let times_listed = self.milestones.iter().filter(|&&m| m as i128 == i128::from(epoch)).count();
        Ok(times(lrs, self.gamma.powf(times_listed as f64)))
    }
    fn anew(&self, _: &[f64]) -> Result<Rates> {
        let passed = self.milestones.iter().filter(|&&m| m == 0).count();
        Ok(times(&self.course.base, self.gamma.powf(passed as f64)))
    }
}

schedule! {
    /// Multiplies the rates by `factor` for the first `total_iters` steps, as PyTorch's
    /// [`ConstantLR`](https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.ConstantLR.html).
    ConstantLR, "ConstantLR"();
    settings {
        "The factor. The default is 1/3."
        factor / try_factor(f64 => f64 = 1.0 / 3.0);
        "How many steps it holds. The default is 5."
        total_iters / try_total_iters(usize => usize = 5usize);
    }
}

impl ScheduleRule for ConstantLR {
    course!();
    fn check(&self) -> Result<()> {
        self.course.check((0.0..=1.0).contains(&self.factor), "factor", self.factor, FACTOR)
    }
    fn rates(&self, epoch: i64, lrs: &[f64], _: bool) -> Result<Rates> {
        Ok(match epoch {
            0 => times(lrs, self.factor),
            _ if i128::from(epoch) == self.total_iters as i128 => times(lrs, 1.0 / self.factor),
            _ => lrs.to_vec().into(),
        })
    }
    fn anew(&self, _: &[f64]) -> Result<Rates> {
        let rest = if self.total_iters == 0 { 1.0 - self.factor } else { 0.0 };
        Ok(times(&self.course.base, self.factor + rest))
    }
}

schedule! {
    /// Raises (or lowers) the rates in a line from `start_factor` to `end_factor` times themselves within `total_iters`
    /// steps, as PyTorch's
    /// [`LinearLR`](https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.LinearLR.html): the usual warm-up.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_optim::{LinearLR, Optimizer, SGD, Schedule};
    /// let sgd = SGD::new([foldback_tensor::tensor![1.0].requires_grad()], 1.0);
    /// let mut schedule = LinearLR::new(&sgd).start_factor(0.25).total_iters(3);
    /// assert_eq!(sgd.lr(), 0.25);
    /// schedule.step(&sgd)?;
    /// assert_eq!(sgd.lr(), 0.5);
    /// # Ok::<(), foldback_optim::Error>(())
    /// ```
    LinearLR, "LinearLR"();
    settings {
        "The factor at the start. The default is 1/3."
        start_factor / try_start_factor(f64 => f64 = 1.0 / 3.0);
        "The factor at the end. The default is 1."
        end_factor / try_end_factor(f64 => f64 = 1.0);
        "How many steps it takes. The default is 5."
        total_iters / try_total_iters(usize => usize = 5usize);
    }
}

impl ScheduleRule for LinearLR {
    course!();
    fn check(&self) -> Result<()> {
        let (start, end) = (self.start_factor, self.end_factor);
        self.course.check(
            start > 0.0 && start <= 1.0,
            "start_factor",
            start,
            "a number above 0, at most 1",
        )?;
        self.course.check((0.0..=1.0).contains(&end), "end_factor", end, FACTOR)
    }
    fn rates(&self, epoch: i64, lrs: &[f64], initial: bool) -> Result<Rates> {
        let (n, rise) = (self.total_iters as f64, self.end_factor - self.start_factor);
        Ok(match epoch {
            0 => times(lrs, self.start_factor),
            _ if initial || epoch as f64 > n => lrs.to_vec().into(),
            _ => times(lrs, 1.0 + rise / (n * self.start_factor + (epoch - 1) as f64 * rise)),
        })
    }
    fn anew(&self, _: &[f64]) -> Result<Rates> {
        Ok(times(&self.course.base, self.start_factor))
    }
}

schedule! {
    /// Multiplies the rates by `gamma` in every step, as PyTorch's
    /// [`ExponentialLR`](https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.ExponentialLR.html).
    ExponentialLR, "ExponentialLR"(gamma: f64 => f64);
    settings {}
}

impl ScheduleRule for ExponentialLR {
    course!();
    fn check(&self) -> Result<()> {
        self.course.check(self.gamma.is_finite(), "gamma", self.gamma, "a finite number")
    }
    fn rates(&self, _: i64, lrs: &[f64], initial: bool) -> Result<Rates> {
        Ok(times(lrs, if initial { 1.0 } else { self.gamma }))
    }
    fn anew(&self, _: &[f64]) -> Result<Rates> {
        Ok(self.course.base.clone().into())
    }
}

schedule! {
    /// Lowers the rates to 0 within `total_iters` steps as a power of what is left of them, as PyTorch's
    /// [`PolynomialLR`](https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.PolynomialLR.html).
    PolynomialLR, "PolynomialLR"();
    settings {
        "How many steps it takes. The default is 5."
        total_iters / try_total_iters(usize => usize = 5usize);
        "The power. The default is 1."
        power / try_power(f64 => f64 = 1.0);
    }
}

impl ScheduleRule for PolynomialLR {
    course!();
    fn check(&self) -> Result<()> {
        self.course.check(self.power.is_finite(), "power", self.power, "a finite number")
    }
    fn rates(&self, epoch: i64, lrs: &[f64], initial: bool) -> Result<Rates> {
        let n = self.total_iters as f64;
        if initial || epoch as f64 > n {
            return Ok(lrs.to_vec().into());
        }
        let left = |epoch: i64| 1.0 - epoch as f64 / n;
        Ok(times(lrs, (left(epoch) / left(epoch - 1)).powf(self.power)))
    }
    fn anew(&self, _: &[f64]) -> Result<Rates> {
        Ok(self.course.base.clone().into())
    }
}

fn times(lrs: &[f64], factor: f64) -> Rates {
    lrs.iter().map(|lr| lr * factor).collect::<Vec<f64>>().into()
}
