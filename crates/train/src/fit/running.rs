//! The run of a [`Fit`]: epochs, batches and steps, with what was asked for around them.

use std::time::Instant;

use foldback_data::{BatchOf, Collate, DataLoader, Dataset};
use foldback_graph::{Var, no_grad};
use foldback_nn::Module;
use foldback_optim::{Optimizer, PlateauMode};
use foldback_tensor::{Here, counted};

use super::alarm::{Drawn, Place};
use super::report::{BatchReport, EpochReport, History};
use super::scheduled::Pace;
use super::{Fit, FitState};
use crate::error::{Result, check};
#[cfg(feature = "progress")]
use crate::progress::Progress;

impl<M: Module, O: Optimizer + ?Sized> Fit<'_, M, O> {
    /// Runs. `loss` computes the loss of a batch. Afterwards the model is in evaluation mode.
    ///
    /// # Errors
    /// `Alarm` for a loss or a gradient that is not finite or too large, with what it came from; `Unlike` for an average of another
    /// model; `Parameter` for an optimiser of another one, or an epoch without batches; whatever the data, the model, the schedule, the
    /// checkpoint or one of the functions return. The model is as the last step has left it, in the mode of that moment.
    #[track_caller]
    pub fn run<D>(
        mut self,
        loader: &DataLoader<D>,
        mut loss: impl FnMut(&M, &BatchOf<D>) -> Result<Var>,
    ) -> Result<History>
    where
        D: Dataset<Item: Collate>,
    {
        self.expect_one_direction().or_here()?;
        self.average.map_or(Ok(()), |averaged| averaged.expect_like(self.model)).or_here()?;
        self.expect_own_parameters().or_here()?;
        let own = FitState::new();
        let state = self.state.unwrap_or(&own);
        #[cfg(feature = "safetensors")]
        self.find_checkpoint(loader, state).or_here()?;
        self.stopping.load_state_dict(&state.stopping()).or_here()?;
        self.expect_kept(state).or_here()?;
        for epoch in state.epochs()..self.epochs {
            if self.stopping.is_over() {
                break;
            }
            let mut report = self.epoch(epoch, loader, &mut loss).or_here()?;
            self.judge(&mut report).or_here()?;
            let kept = (report.is_best && self.keep_best).then(|| self.model.state_dict());
            state.add(&report, &self.stopping, kept);
            self.tell(&report).or_here()?;
            #[cfg(feature = "safetensors")]
            self.write_checkpoint(loader, state, &report).or_here()?;
            if report.is_stopped() {
                break;
            }
        }
        #[cfg(feature = "progress")]
        if let Some(bar) = self.bar.take() {
            bar.finish();
        }
        self.model.eval();
        if let (Some(kept), true) = (state.kept(), self.keep_best) {
            self.model.load_state_dict(&kept).or_here()?;
        }
        Ok(state.history())
    }

    pub(super) fn expect_kept(&self, state: &FitState) -> Result<()> {
        let unkept = self.keep_best && state.lacks_kept();
        let expected = "false: the run has a best epoch whose weights were not kept";
        check(!unkept, "fit", "keep_best", true, expected)
    }

    /// An optimiser of other parameters would train nothing, and say nothing.
    fn expect_own_parameters(&self) -> Result<()> {
        let mut own = self.model.parameters();
        own.retain(Var::requires_grad);
        let of_model = |theirs: &Var| own.iter().any(|var| var.is_same(theirs));
        let fits = own.is_empty() || self.optimizer.parameters().iter().any(of_model);
        let expected =
            "at least one of this model: make it of model.parameters(), behind what gives the model new ones";
        check(fits, "fit", "the optimiser's parameters", "those of something else", expected)
    }

    /// A schedule by value looks for what the measure looks for.
    fn expect_one_direction(&self) -> Result<()> {
        let Some(found) = self.schedule.as_ref().and_then(|schedule| schedule.course.mode()) else {
            return Ok(());
        };
        let (mode, expected) = match self.stopping.maximizes() {
            true => (PlateauMode::Max, "PlateauMode::Max, as the value is one of `maximize`"),
            false => (PlateauMode::Min, "PlateauMode::Min, as the value is one of `minimize`, or the loss"),
        };
        check(found == mode, "fit", "schedule_by_value's mode", format!("{found:?}"), expected)
    }

    /// One pass over the data.
    fn epoch<D: Dataset<Item: Collate>>(
        &mut self,
        epoch: usize,
        loader: &DataLoader<D>,
        loss: &mut impl FnMut(&M, &BatchOf<D>) -> Result<Var>,
    ) -> Result<EpochReport> {
        let clock = Instant::now();
        expect_batches(loader)?;
        let mut batches = loader.iter();
        if batches.len() == 0 {
            // A loader that was saved behind the last batch of a pass has none left of it: the epoch is the next pass.
            batches = loader.iter();
        }
        let total = batches.len();
        self.model.train();
        self.has_generators = !self.model.generator_states().is_empty();
        let mut report = EpochReport::new(epoch, self.optimizer.lr());
        #[cfg(feature = "progress")]
        if self.progress {
            let title = format!("epoch {}", epoch + 1);
            self.bar = Some(match self.bar.take() {
                Some(bar) => bar.followed_by(total, title),
                None => Progress::new(total).title(title),
            });
        }
        for (batch, data) in batches.enumerate() {
            let data = data?;
            let nr = batch % self.accumulate;
            let share = Share { nr, of: self.accumulate.min(total - (batch - nr)) };
            let step = self.step(Place { epoch, batch }, share, &data, loss)?;
            report.add(&step);
            if let Some(f) = &mut self.on_batch {
                f(&step)?;
            }
            #[cfg(feature = "progress")]
            if let Some(bar) = &mut self.bar {
                bar.tick(format_args!("loss {:.4}", report.loss));
            }
        }
        report.seconds = clock.elapsed().as_secs_f64();
        Ok(report)
    }

    fn step<B>(
        &mut self,
        place: Place,
        share: Share,
        data: &B,
        loss: &mut impl FnMut(&M, &B) -> Result<Var>,
    ) -> Result<BatchReport> {
        let drawn_from = Drawn::now(&*self.model, self.has_generators);
        if share.nr == 0 {
            self.optimizer.zero_grad();
        }
        let value = loss(self.model, data)?;
        let expected = "one number: take its mean, loss.mean(..)";
        check(value.numel() == 1, "fit", "the loss's shape", value.shape(), expected)?;
        let number = at_run(value.item())?;
        if number.is_finite() {
            let value = if share.of == 1 { Ok(value) } else { value.div(share.of as f64) };
            at_run(value.and_then(|value| value.backward()))?;
        }
        let report =
            |norm| BatchReport { epoch: place.epoch, batch: place.batch, loss: number, gradient_norm: norm };
        let is_last = share.nr + 1 == share.of;
        let measured = at_run(self.alarms.measure(&*self.model, number, is_last))?;
        if let Some(alarm) = measured.alarm {
            return alarm.raise(place, self.model, &drawn_from, |model| loss(model, data));
        }
        if !is_last {
            return Ok(report(None));
        }
        if let Some(f) = &mut self.before_step {
            f(self.model)?;
        }
        at_run(self.optimizer.step())?;
        self.average.map_or(Ok(()), |averaged| at_run(averaged.update(self.model)))?;
        at_run(self.advance(Pace::Batch, number))?;
        Ok(report(measured.norm))
    }

    /// Goes on by a step of this pace.
    fn advance(&mut self, pace: Pace, metric: f64) -> Result<()> {
        match &mut self.schedule {
            Some(schedule) if schedule.pace == pace => {
                schedule.course.step((schedule.shown)(self.optimizer), metric)
            }
            _ => Ok(()),
        }
    }

    /// Evaluates an epoch.
    fn judge(&mut self, report: &mut EpochReport) -> Result<()> {
        if let Some((_, evaluate)) = &mut self.evaluate {
            self.model.eval();
            let value = no_grad(|| evaluate(self.model))?;
            report.value = Some(value);
        }
        self.stopping.update(report.value.unwrap_or(report.loss));
        report.is_best = self.stopping.is_best();
        Ok(())
    }

    fn tell(&mut self, report: &EpochReport) -> Result<()> {
        let mut row = vec![("loss", report.loss), ("lr", report.lr), ("seconds", report.seconds)];
        row.extend(report.gradient_norm.map(|norm| ("gradient_norm", norm)));
        row.extend(self.evaluate.as_ref().zip(report.value).map(|((name, _), value)| (name.as_str(), value)));
        for log in &mut self.logs {
            // A log behind a pointer knows no caller: the line is that of the run.
            log.log(report.epoch, &row).nowhere()?;
        }
        self.advance(Pace::Epoch, report.value.unwrap_or(report.loss))?;
        match &mut self.on_epoch {
            Some(f) => f(self.model, report),
            None => Ok(()),
        }
    }
}

/// Which of the batches of a step one is.
#[derive(Clone, Copy)]
struct Share {
    nr: usize,
    of: usize,
}

/// An epoch without a batch has no loss.
fn expect_batches<D: Dataset<Item: Collate>>(loader: &DataLoader<D>) -> Result<()> {
    let (items, size) = (loader.dataset().len(), loader.batch_size());
    let expected = match items {
        0 => "at least one: its dataset has no items".to_owned(),
        _ => format!(
            "at least one: its dataset has {}, but its sampler leaves none, or drop_last those that fill no batch of {size}: give the sampler some, take a smaller batch, or drop_last(false)",
            counted(items, "item")
        ),
    };
    check(loader.len() > 0, "fit", "the loader's batches", 0, expected)
}

/// What the loop itself calls has no line of the program's: the error gets that of `run`.
fn at_run<T>(result: Result<T>) -> Result<T> {
    result.map_err(|e| e.with_location(None))
}
