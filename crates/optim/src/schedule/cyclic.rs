//! Rates that rise and fall, over and over.

use super::course::{PerGroup, Rates, ScheduleRule, course, schedule};
use crate::error::Result;

/// How the height of cycles changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CyclicMode {
    /// it stays
    Triangular,
    /// it halves from cycle to cycle
    Triangular2,
    /// it shrinks by `gamma` from step to step
    ExpRange,
}

schedule! {
    /// Raises the rates in a line from `base_lr` to `max_lr`, and lowers them, over and over (Smith, "Cyclical learning rates", 2017), while
    /// the momentum, or the first beta, falls and rises; as PyTorch's
    /// [`CyclicLR`](https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.CyclicLR.html). `step` is called once per batch.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_optim::{CyclicLR, Optimizer, SGD, Schedule};
    /// let sgd = SGD::new([foldback_tensor::tensor![1.0].requires_grad()], 0.1);
    /// let mut schedule = CyclicLR::new(&sgd, 0.25, 1.25).step_size_up(2).cycle_momentum(false);
    /// schedule.step(&sgd)?;
    /// assert_eq!(sgd.lr(), 0.75);
    /// # Ok::<(), foldback_optim::Error>(())
    /// ```
    CyclicLR, "CyclicLR"(base_lr: impl Into<PerGroup> => PerGroup, max_lr: impl Into<PerGroup> => PerGroup);
    settings {
        "How many steps the rise takes. The default is 2000."
        step_size_up / try_step_size_up(usize => usize = 2000usize);
        "How many steps the fall takes. The default is as many as the rise."
        step_size_down / try_step_size_down(usize => Option<usize> = None);
        "How the height of cycles changes. The default is not at all."
        mode / try_mode(CyclicMode => CyclicMode = CyclicMode::Triangular);
        "The factor of `CyclicMode::ExpRange`. The default is 1."
        gamma / try_gamma(f64 => f64 = 1.0);
        "Whether the momentum changes, too. The default is yes; a step refuses an optimiser without one."
        cycle_momentum / try_cycle_momentum(bool => bool = true);
        "The momentum where the rates are highest. The default is 0.8."
        base_momentum / try_base_momentum(impl Into<PerGroup> => PerGroup = 0.8);
        "The momentum where the rates are lowest. The default is 0.9."
        max_momentum / try_max_momentum(impl Into<PerGroup> => PerGroup = 0.9);
    }
}

impl ScheduleRule for CyclicLR {
    course!();

    fn check(&self) -> Result<()> {
        let course = &self.course;
        course.check(self.step_size_up > 0, "step_size_up", 0.0, "a whole number from 1")?;
        course.check(self.step_size_down != Some(0), "step_size_down", 0.0, "a whole number from 1")?;
        course.check(self.gamma.is_finite(), "gamma", self.gamma, "a finite number")?;
        for (name, all) in [("base_lr", &self.base_lr), ("max_lr", &self.max_lr)] {
            for v in course.by_group(all)? {
                course.check(v >= 0.0 && v.is_finite(), name, v, "a finite number that is not negative")?;
            }
        }
        for (name, all) in [("base_momentum", &self.base_momentum), ("max_momentum", &self.max_momentum)] {
            for v in course.by_group(all)? {
                course.check((0.0..=1.0).contains(&v), name, v, "a number from 0 to 1")?;
            }
        }
        Ok(())
    }

    fn prepare(&mut self) -> Result<()> {
        self.course.settings.set("lr", &self.course.by_group(&self.base_lr)?)?;
        self.course.base = self.course.settings.initial_lrs();
        Ok(())
    }

    fn rates(&self, epoch: i64, _: &[f64], _: bool) -> Result<Rates> {
        let (rise, at) = (self.step_size_up as f64, epoch as f64);
        let total = rise + self.step_size_down.unwrap_or(self.step_size_up) as f64;
        let turn = rise / total;
        let cycle = (1.0 + at / total).floor();
        let x = 1.0 + at / total - cycle;
        let height = if x <= turn { x / turn } else { (x - 1.0) / (turn - 1.0) };
        let scale = match self.mode {
            CyclicMode::Triangular => 1.0,
            CyclicMode::Triangular2 => 1.0 / 2f64.powf(cycle - 1.0),
            CyclicMode::ExpRange => self.gamma.powf(at),
        };
        let by_group = |numbers| self.course.by_group(numbers);
        let (low, high) = (by_group(&self.base_lr)?, by_group(&self.max_lr)?);
        let lrs = low.iter().zip(&high).map(|(low, high)| low + (high - low) * height * scale);
        let (least, most) = (by_group(&self.base_momentum)?, by_group(&self.max_momentum)?);
        let momenta = least.iter().zip(&most).map(|(least, most)| most - (most - least) * height * scale);
        Ok(Rates { lrs: lrs.collect(), momenta: self.cycle_momentum.then(|| momenta.collect()) })
    }
}
