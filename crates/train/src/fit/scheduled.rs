//! The schedule of a run: when it goes on, and by what.

use foldback_optim::{Optimizer, PlateauMode, ReduceLROnPlateau, Schedule};
#[cfg(feature = "safetensors")]
use foldback_tensor::StateDict;

use crate::error::Result;

/// When a schedule goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pace {
    Batch,
    Epoch,
}

#[cfg(feature = "safetensors")]
impl Pace {
    /// What the schedule is called in a checkpoint, so that it does not go on at another pace.
    pub(super) fn entry(self) -> &'static str {
        match self {
            Pace::Batch => "schedule_by_batch",
            Pace::Epoch => "schedule",
        }
    }
}

/// A schedule that goes on by itself, or by a metric.
pub(super) trait Course {
    fn step(&mut self, optimizer: &dyn Optimizer, metric: f64) -> Result<()>;
    /// Which metrics are better, if it goes on by one.
    fn mode(&self) -> Option<PlateauMode> {
        None
    }
    /// Which schedule it is.
    #[cfg(feature = "safetensors")]
    fn name(&self) -> &'static str;
    #[cfg(feature = "safetensors")]
    fn state(&self) -> StateDict;
    #[cfg(feature = "safetensors")]
    fn load(&mut self, state: &StateDict) -> Result<()>;
}

/// By the number of its step.
pub(super) struct ByNumber<S>(pub(super) S);

impl<S: Schedule> Course for ByNumber<S> {
    fn step(&mut self, optimizer: &dyn Optimizer, _: f64) -> Result<()> {
        self.0.step(optimizer)
    }

    #[cfg(feature = "safetensors")]
    fn name(&self) -> &'static str {
        self.0.name()
    }

    #[cfg(feature = "safetensors")]
    fn state(&self) -> StateDict {
        self.0.state_dict()
    }

    #[cfg(feature = "safetensors")]
    fn load(&mut self, state: &StateDict) -> Result<()> {
        self.0.load_state_dict(state)
    }
}

impl Course for ReduceLROnPlateau {
    fn step(&mut self, optimizer: &dyn Optimizer, metric: f64) -> Result<()> {
        self.step(optimizer, metric)
    }

    fn mode(&self) -> Option<PlateauMode> {
        Some(self.looks_for())
    }

    #[cfg(feature = "safetensors")]
    fn name(&self) -> &'static str {
        "ReduceLROnPlateau"
    }

    #[cfg(feature = "safetensors")]
    fn state(&self) -> StateDict {
        self.state_dict()
    }

    #[cfg(feature = "safetensors")]
    fn load(&mut self, state: &StateDict) -> Result<()> {
        self.load_state_dict(state)
    }
}

/// A schedule, its pace, and how the optimiser is shown to it.
pub(super) struct Scheduled<'a, O: ?Sized> {
    pub(super) course: Box<dyn Course + 'a>,
    pub(super) pace: Pace,
    pub(super) shown: fn(&O) -> &dyn Optimizer,
}
