//! One rise and one fall of the rates.

use std::f64::consts::PI;

use super::course::{PerGroup, Rates, ScheduleRule, course, schedule};
use crate::error::Result;

/// How a rate goes from one value to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnealStrategy {
    /// in half a cosine
    Cos,
    /// in a line
    Linear,
}

impl AnnealStrategy {
    fn between(self, from: f64, to: f64, share: f64) -> f64 {
        match self {
            AnnealStrategy::Cos => to + (from - to) / 2.0 * ((PI * share).cos() + 1.0),
            AnnealStrategy::Linear => (to - from) * share + from,
        }
    }
}

schedule! {
    /// One cycle (Smith and Topin, "Super-convergence", 2018): the rates rise from `max_lr / div_factor` to `max_lr` and then fall
    /// far below, while the momentum, or the first beta, falls and rises; as PyTorch's
    /// [`OneCycleLR`](https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.OneCycleLR.html). `step` is called once per
    /// batch, `total_steps` times at most.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_optim::{OneCycleLR, Optimizer, SGD, Schedule};
    /// let sgd = SGD::new([foldback_tensor::tensor![1.0].requires_grad()], 0.1);
    /// let mut schedule = OneCycleLR::new(&sgd, 1.0, 20).div_factor(4.0);
    /// assert_eq!((sgd.lr(), sgd.settings().get("momentum")), (0.25, Some(vec![0.95])));
    /// (0..5).try_for_each(|_| schedule.step(&sgd))?;
    /// assert_eq!((sgd.lr(), sgd.settings().get("momentum")), (1.0, Some(vec![0.85])));
    /// # Ok::<(), foldback_optim::Error>(())
    /// ```
    OneCycleLR, "OneCycleLR"(max_lr: impl Into<PerGroup> => PerGroup, total_steps: usize => usize);
    settings {
        "The share of the cycle in which the rates rise. The default is 0.3."
        pct_start / try_pct_start(f64 => f64 = 0.3);
        "The way from one rate to another. The default is a cosine."
        anneal_strategy / try_anneal_strategy(AnnealStrategy => AnnealStrategy = AnnealStrategy::Cos);
        "Whether the momentum changes, too. The default is yes; a step refuses an optimiser without one."
        cycle_momentum / try_cycle_momentum(bool => bool = true);
        "The momentum where the rates are highest. The default is 0.85."
        base_momentum / try_base_momentum(impl Into<PerGroup> => PerGroup = 0.85);
        "The momentum where the rates are lowest. The default is 0.95."
        max_momentum / try_max_momentum(impl Into<PerGroup> => PerGroup = 0.95);
        "How many times higher the highest rate is than the first. The default is 25."
        div_factor / try_div_factor(f64 => f64 = 25.0);
        "How many times lower the last rate is than the first. The default is 10,000."
        final_div_factor / try_final_div_factor(f64 => f64 = 1e4);
        "Whether the fall is as long as the rise, and a third phase leads to the last rate. The default is no."
        three_phase / try_three_phase(bool => bool = false);
    }
}

impl OneCycleLR {
    /// Where each phase ends, and the ends of rates and momenta in it: 0 the first rate, 1 the highest, 2 the last; the
    /// momentum is low where the rate is highest.
    fn phases(&self) -> Vec<(f64, usize, usize)> {
        let (n, share) = (self.total_steps as f64, self.pct_start);
        let rise = (share * n - 1.0, 0, 1);
        if self.three_phase {
            vec![rise, (2.0 * share * n - 2.0, 1, 0), (n - 1.0, 0, 2)]
        } else {
            vec![rise, (n - 1.0, 1, 2)]
        }
    }
}

impl ScheduleRule for OneCycleLR {
    course!();

    fn check(&self) -> Result<()> {
        let course = &self.course;
        course.check(self.total_steps > 0, "total_steps", 0.0, "a whole number from 1")?;
        let share = self.pct_start;
        course.check((0.0..=1.0).contains(&share), "pct_start", share, "a number from 0 to 1")?;
        let factors = [("div_factor", self.div_factor), ("final_div_factor", self.final_div_factor)];
        for (name, v) in factors {
            course.check(v > 0.0 && v.is_finite(), name, v, "a finite number above 0")?;
        }
        for v in course.by_group(&self.max_lr)? {
            course.check(v >= 0.0 && v.is_finite(), "max_lr", v, "a finite number that is not negative")?;
        }
        for (name, all) in [("base_momentum", &self.base_momentum), ("max_momentum", &self.max_momentum)] {
            for v in course.by_group(all)? {
                course.check((0.0..=1.0).contains(&v), name, v, "a number from 0 to 1")?;
            }
        }
        Ok(())
    }

    fn prepare(&mut self) -> Result<()> {
        let highest = self.course.by_group(&self.max_lr)?;
        self.course.base = highest.iter().map(|v| v / self.div_factor).collect();
        self.course.settings.set_initial_lrs(&self.course.base);
        Ok(())
    }

    fn rates(&self, epoch: i64, _: &[f64], _: bool) -> Result<Rates> {
        if i128::from(epoch) > self.total_steps as i128 {
            let problem = format!("this would be step {epoch}: the cycle has {} steps", self.total_steps);
            return self.course.refuse(problem);
        }
        let (at, phases) = (epoch as f64, self.phases());
        let last = phases.len() - 1;
        let now = phases.iter().position(|(end, ..)| at <= *end).unwrap_or(last);
        let begin = if now == 0 { 0.0 } else { phases[now - 1].0 };
        let (end, from, to) = phases[now];
        let share = (at - begin) / (end - begin);
        let between = |from: f64, to: f64| self.anneal_strategy.between(from, to, share);
        let highest = self.course.by_group(&self.max_lr)?;
        let lrs = self.course.base.iter().zip(&highest).map(|(&first, &highest)| {
            let ends = [first, highest, first / self.final_div_factor];
            between(ends[from], ends[to])
        });
        let (low, high) =
            (self.course.by_group(&self.base_momentum)?, self.course.by_group(&self.max_momentum)?);
        let momenta = low.iter().zip(&high).map(|(&low, &high)| {
            let ends = [high, low, high];
            between(ends[from], ends[to])
        });
        Ok(Rates { lrs: lrs.collect(), momenta: self.cycle_momentum.then(|| momenta.collect()) })
    }
}
