//! What a run says of its batches and epochs.

use std::cell::Cell;

/// A step that was taken.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct BatchReport {
    /// the epoch, counted from 0
    pub epoch: usize,
    /// the batch, counted from 0 in its epoch
    pub batch: usize,
    /// the loss before the step
    pub loss: f64,
    /// the norm of all gradients, if `gradient_limit` asked for it
    pub gradient_norm: Option<f64>,
}

/// An epoch that has ended.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EpochReport {
    /// the epoch, counted from 0
    pub epoch: usize,
    /// how many batches it had
    pub batches: usize,
    /// the mean loss of its batches
    pub loss: f64,
    /// the learning rate at its beginning
    pub lr: f64,
    /// the largest norm of all gradients, if `gradient_limit` asked for it
    pub gradient_norm: Option<f64>,
    /// what `minimize` or `maximize` measured
    pub value: Option<f64>,
    /// whether it is the best so far
    pub is_best: bool,
    /// how long its steps took
    pub seconds: f64,
    stopped: Cell<bool>,
}

impl EpochReport {
    pub(super) fn new(epoch: usize, lr: f64) -> EpochReport {
        EpochReport {
            epoch,
            batches: 0,
            loss: f64::NAN,
            lr,
            gradient_norm: None,
            value: None,
            is_best: false,
            seconds: 0.0,
            stopped: Cell::new(false),
        }
    }

    /// Takes a step into the mean of the losses and the largest of the norms.
    pub(super) fn add(&mut self, step: &BatchReport) {
        let before = if self.batches == 0 { 0.0 } else { self.loss };
        self.batches += 1;
        self.loss = before + (step.loss - before) / self.batches as f64;
        // Of the batches of a step the last has one.
        if let Some(norm) = step.gradient_norm {
            self.gradient_norm = Some(norm.max(self.gradient_norm.unwrap_or(0.0)));
        }
    }

    /// Ends the run after this epoch.
    pub fn stop(&self) {
        self.stopped.set(true);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.get()
    }
}

/// A run that has ended.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct History {
    /// its epochs in order
    pub epochs: Vec<EpochReport>,
    /// the best epoch, counted from 0
    pub best: Option<usize>,
}

impl History {
    /// The training losses of all epochs.
    pub fn losses(&self) -> Vec<f64> {
        self.epochs.iter().map(|e| e.loss).collect()
    }

    /// What was measured after each epoch, if anything was.
    pub fn values(&self) -> Vec<f64> {
        self.epochs.iter().filter_map(|e| e.value).collect()
    }
}
