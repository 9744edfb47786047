//! Rates that fall where a metric stands still.

use foldback_tensor::{Here, StateDict, Tensor};

use super::course::{PerGroup, expect_same, schedule};
use crate::Optimizer;
use crate::error::Result;
use crate::saved::Reader;

/// Which metrics are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlateauMode {
    /// smaller ones, such as losses
    Min,
    /// larger ones, such as accuracies
    Max,
}

/// How a threshold is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThresholdMode {
    /// as a share of the best metric
    Rel,
    /// as a difference from it
    Abs,
}

/// What it has seen.
#[derive(Clone, Copy, Debug)]
struct PlateauState {
    best: f64,
    bad_epochs: usize,
    /// steps that still do not count
    resting: usize,
}

schedule! {
    /// Multiplies the rates by `factor` where a metric has not improved for more than `patience` steps, as PyTorch's
    /// [`ReduceLROnPlateau`](https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.ReduceLROnPlateau.html).
    ///
    /// Its [`step`](ReduceLROnPlateau::step) takes the metric, so it is no [`Schedule`](crate::Schedule) and stands in no sequence.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_optim::{Optimizer, ReduceLROnPlateau, SGD};
    /// let sgd = SGD::new([foldback_tensor::tensor![1.0].requires_grad()], 1.0);
    /// let mut schedule = ReduceLROnPlateau::new(&sgd).patience(1).factor(0.5);
    /// for loss in [3.0, 2.0, 2.0, 2.0] {
    ///     schedule.step(&sgd, loss)?;
    /// }
    /// assert_eq!(sgd.lr(), 0.5);
    /// # Ok::<(), foldback_optim::Error>(())
    /// ```
    ReduceLROnPlateau, "ReduceLROnPlateau"();
    settings {
        "Which metrics are better. The default is smaller ones."
        mode / try_mode(PlateauMode => PlateauMode = PlateauMode::Min);
        "The factor, less than 1. The default is 0.1."
        factor / try_factor(f64 => f64 = 0.1);
        "How many steps without improvement are borne. The default is 10."
        patience / try_patience(usize => usize = 10usize);
        "By how much a metric must be better to count as an improvement. The default is 1e-4."
        threshold / try_threshold(f64 => f64 = 1e-4);
        "How the threshold is meant. The default is as a share of the best metric."
        threshold_mode / try_threshold_mode(ThresholdMode => ThresholdMode = ThresholdMode::Rel);
        "How many steps behind a fall do not count. The default is 0."
        cooldown / try_cooldown(usize => usize = 0usize);
        "The lowest rate. The default is 0."
        min_lr / try_min_lr(impl Into<PerGroup> => PerGroup = 0.0);
        "A fall by no more than this is left out. The default is 1e-8."
        eps / try_eps(f64 => f64 = 1e-8);
    }
    keeps {
        seen: PlateauState = PlateauState { best: 0.0, bad_epochs: 0, resting: 0 };
    }
}

impl ReduceLROnPlateau {
    fn begin_again(&mut self) -> Result<()> {
        let course = &self.course;
        course.check(
            self.factor < 1.0 && self.factor.is_finite(),
            "factor",
            self.factor,
            "a number below 1",
        )?;
        for (name, v) in [("threshold", self.threshold), ("eps", self.eps)] {
            course.check(v.is_finite(), name, v, "a finite number")?;
        }
        for v in course.by_group(&self.min_lr)? {
            course.check(v.is_finite(), "min_lr", v, "a finite number")?;
        }
        course.expect_at_start()?;
        self.seen.best = match self.mode {
            PlateauMode::Min => f64::INFINITY,
            PlateauMode::Max => f64::NEG_INFINITY,
        };
        Ok(())
    }

    /// Goes on by one step with a metric, a validation loss for example.
    ///
    /// # Errors
    /// `Refused` if it is another optimiser than the one that the schedule was made of. Nothing is changed then.
    #[track_caller]
    pub fn step(&mut self, optimizer: &dyn Optimizer, metric: impl Into<f64>) -> Result<()> {
        expect_same("ReduceLROnPlateau", &self.course.settings, optimizer).here()?;
        self.advance(metric.into()).here()
    }

    fn advance(&mut self, metric: f64) -> Result<()> {
        let mut seen = self.seen;
        if self.is_better(metric) {
            (seen.best, seen.bad_epochs) = (metric, 0);
        } else {
            seen.bad_epochs += 1;
        }
        if seen.resting > 0 {
            (seen.resting, seen.bad_epochs) = (seen.resting - 1, 0);
        }
        let mut lrs = self.course.lrs();
        if seen.bad_epochs > self.patience {
            for (lr, least) in lrs.iter_mut().zip(self.course.by_group(&self.min_lr)?) {
                let new = (*lr * self.factor).max(least);
                if *lr - new > self.eps {
                    *lr = new;
                }
            }
            (seen.resting, seen.bad_epochs) = (self.cooldown, 0);
        }
        self.course.go_to(self.course.epoch.saturating_add(1), &lrs.into())?;
        self.seen = seen;
        Ok(())
    }

    /// The mode, for training loops.
    #[doc(hidden)]
    pub fn looks_for(&self) -> PlateauMode {
        self.mode
    }

    fn is_better(&self, metric: f64) -> bool {
        let (best, by) = (self.seen.best, self.threshold);
        match (self.mode, self.threshold_mode) {
            (PlateauMode::Min, ThresholdMode::Rel) => metric < best * (1.0 - by),
            (PlateauMode::Min, ThresholdMode::Abs) => metric < best - by,
            (PlateauMode::Max, ThresholdMode::Rel) => metric > best * (by + 1.0),
            (PlateauMode::Max, ThresholdMode::Abs) => metric > best + by,
        }
    }

    /// What it has seen, and the present rates of its optimiser.
    pub fn state_dict(&self) -> StateDict {
        StateDict::from_iter([
            ("last_epoch", Tensor::from(self.course.epoch)),
            ("lrs", Tensor::from(self.course.lrs())),
            ("best", Tensor::from(self.seen.best)),
            ("num_bad_epochs", Tensor::from(self.seen.bad_epochs as i64)),
            ("cooldown_counter", Tensor::from(self.seen.resting as i64)),
        ])
    }

    /// Takes a saved state over, of a schedule with the same settings, and gives the optimiser the rates that it had then.
    ///
    /// # Errors
    /// `State` if something is missing, left over, or of another form. Nothing is changed then.
    #[track_caller]
    pub fn load_state_dict(&mut self, state: &StateDict) -> Result<()> {
        self.load(state).here()
    }

    fn load(&mut self, state: &StateDict) -> Result<()> {
        let mut reader = Reader::new("ReduceLROnPlateau", state);
        let epoch = reader.whole("last_epoch", 0)?;
        let lrs = reader.numbers("lrs", self.course.base.len())?;
        let best = reader.number("best")?;
        let bad_epochs = reader.whole("num_bad_epochs", 0)? as usize;
        let resting = reader.whole("cooldown_counter", 0)? as usize;
        reader.finish()?;
        self.course.go_to(epoch, &lrs.into())?;
        self.seen = PlateauState { best, bad_epochs, resting };
        Ok(())
    }
}
