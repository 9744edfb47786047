//! Schedules that follow a cosine.

use std::f64::consts::PI;

use foldback_tensor::Here;

use super::course::{Rates, ScheduleRule, course, expect_same, schedule};
use crate::Optimizer;
use crate::error::Result;

schedule! {
    /// Lowers the rates to `eta_min` in half a cosine of `t_max` steps, and up again (Loshchilov and Hutter, "SGDR", 2017), as
    /// PyTorch's
    /// [`CosineAnnealingLR`](https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.CosineAnnealingLR.html).
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_optim::{CosineAnnealingLR, Optimizer, SGD, Schedule};
    /// let sgd = SGD::new([foldback_tensor::tensor![1.0].requires_grad()], 1.0);
    /// let mut schedule = CosineAnnealingLR::new(&sgd, 2).eta_min(0.5);
    /// schedule.step(&sgd)?;
    /// assert_eq!(sgd.lr(), 0.75);
    /// # Ok::<(), foldback_optim::Error>(())
    /// ```
    CosineAnnealingLR, "CosineAnnealingLR"(t_max: usize => usize);
    settings {
        "The lowest rate. The default is 0."
        eta_min / try_eta_min(f64 => f64 = 0.0);
    }
}

impl ScheduleRule for CosineAnnealingLR {
    course!();
    fn check(&self) -> Result<()> {
        self.course.check(self.t_max > 0, "t_max", 0.0, "a whole number from 1")?;
        self.course.check(self.eta_min.is_finite(), "eta_min", self.eta_min, "a finite number")
    }
    fn rates(&self, epoch: i64, lrs: &[f64], initial: bool) -> Result<Rates> {
        if initial {
            return Ok(lrs.to_vec().into());
        }
        let (n, low) = (self.t_max as i128, self.eta_min);
        let up = |epoch: i64| 1.0 + (PI * epoch as f64 / n as f64).cos();
        let turns = (i128::from(epoch) - 1 - n).rem_euclid(2 * n) == 0;
        let each = lrs.iter().zip(&self.course.base).map(|(lr, base)| {
            if turns {
                lr + (base - low) * (1.0 - (PI / n as f64).cos()) / 2.0
            } else {
                up(epoch) / up(epoch - 1) * (lr - low) + low
            }
        });
        Ok(each.collect::<Vec<f64>>().into())
    }
    fn anew(&self, _: &[f64]) -> Result<Rates> {
        let each = self.course.base.iter().map(|base| self.eta_min + (base - self.eta_min) * 2.0 / 2.0);
        Ok(each.collect::<Vec<f64>>().into())
    }
}

schedule! {
    /// Lowers the rates to `eta_min` in half a cosine of `t_0` steps, then begins again with a period `t_mult` times as long
    /// (Loshchilov and Hutter, "SGDR", 2017), as PyTorch's
    /// [`CosineAnnealingWarmRestarts`](https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.CosineAnnealingWarmRestarts.html).
    CosineAnnealingWarmRestarts, "CosineAnnealingWarmRestarts"(t_0: usize => usize);
    settings {
        "How much longer each period is. The default is 1."
        t_mult / try_t_mult(usize => usize = 1usize);
        "The lowest rate. The default is 0."
        eta_min / try_eta_min(f64 => f64 = 0.0);
    }
    keeps {
        at: f64 = 0.0;
        period: f64 = 0.0;
    }
}

impl ScheduleRule for CosineAnnealingWarmRestarts {
    course!();
    fn check(&self) -> Result<()> {
        self.course.check(self.t_0 > 0, "t_0", 0.0, "a whole number from 1")?;
        self.course.check(self.t_mult > 0, "t_mult", 0.0, "a whole number from 1")?;
        self.course.check(self.eta_min.is_finite(), "eta_min", self.eta_min, "a finite number")
    }
    fn enter(&mut self, epoch: i64) {
        if epoch == 0 {
            (self.at, self.period) = (0.0, self.t_0 as f64);
            return;
        }
        self.at += 1.0;
        if self.at >= self.period {
            self.at %= self.period;
            self.period *= self.t_mult as f64;
        }
    }
    fn rates(&self, _: i64, _: &[f64], _: bool) -> Result<Rates> {
        let share = (1.0 + (PI * self.at / self.period).cos()) / 2.0;
        let each = self.course.base.iter().map(|base| self.eta_min + (base - self.eta_min) * share);
        Ok(each.collect::<Vec<f64>>().into())
    }
    fn more(&self) -> Vec<(&'static str, f64)> {
        vec![("T_cur", self.at), ("T_i", self.period)]
    }
    fn has_place_for(&self, numbers: &[f64]) -> bool {
        numbers[0] >= 0.0 && numbers[1] >= 1.0 && numbers.iter().all(|v| v.is_finite())
    }
    fn load_more(&mut self, numbers: &[f64]) {
        (self.at, self.period) = (numbers[0], numbers[1]);
    }
}

impl CosineAnnealingWarmRestarts {
    /// Goes to a place in the course, between two steps too: epoch 1.5 is half-way through the second.
    ///
    /// # Errors
    /// As [`Schedule::step`](crate::Schedule::step); `Parameter` if `epoch` is negative or not finite.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_optim::{CosineAnnealingWarmRestarts, Optimizer, SGD};
    /// let sgd = SGD::new([foldback_tensor::tensor![1.0].requires_grad()], 1.0);
    /// let mut schedule = CosineAnnealingWarmRestarts::new(&sgd, 1);
    /// schedule.step_at(&sgd, 4.5)?;
    /// assert_eq!(sgd.lr(), 0.5);
    /// # Ok::<(), foldback_optim::Error>(())
    /// ```
    #[track_caller]
    pub fn step_at(&mut self, optimizer: &dyn Optimizer, epoch: f64) -> Result<()> {
        expect_same("CosineAnnealingWarmRestarts", &self.course.settings, optimizer).here()?;
        let expected = "a finite number that is not negative";
        self.course.check(epoch >= 0.0 && epoch.is_finite(), "epoch", epoch, expected).here()?;
        let (first, growth) = (self.t_0 as f64, self.t_mult as f64);
        (self.at, self.period) = if epoch < first {
            (epoch, first)
        } else if self.t_mult == 1 {
            (epoch % first, self.period)
        } else {
            let periods = ((epoch / first * (growth - 1.0) + 1.0).ln() / growth.ln()).trunc();
            let begun = first * (growth.powf(periods) - 1.0) / (growth - 1.0);
            (epoch - begun, first * growth.powf(periods))
        };
        let rates = self.rates(0, &[], false)?;
        self.course.go_to(epoch.floor() as i64, &rates).here()
    }
}
