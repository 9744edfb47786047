//! Schedules of schedules: one behind the other, or all at once.

use foldback_tensor::{Here, StateDict, Tensor, refuse};

use super::Schedule;
use super::course::expect_same;
use crate::error::{OptimFacts, Result};
use crate::saved::Reader;
use crate::{Optimizer, Settings};

/// A list of schedules; boxes, as they are of several types.
type List = Vec<Box<dyn Schedule>>;

/// Refuses an empty list and schedules of other optimisers.
fn expect_parts(of: &'static str, optimizer: &dyn Optimizer, schedules: &List) -> Result<()> {
    if schedules.is_empty() {
        return refuse(OptimFacts::Refused { of, problem: "the list of schedules is empty".into() });
    }
    schedules.iter().try_for_each(|s| expect_same(of, s.scheduled(), optimizer))
}

fn save(schedules: &List, state: &mut StateDict) {
    for (i, schedule) in schedules.iter().enumerate() {
        state.insert_all(&i.to_string(), schedule.state_dict());
    }
}

/// Gives each schedule its part of a state. Where one refuses, those before it go back.
fn load(schedules: &mut List, state: &StateDict, mut rest: Reader) -> Result<()> {
    for i in 0..schedules.len() {
        for name in state.part(&i.to_string()).names() {
            rest.take(&format!("{i}.{name}"));
        }
    }
    rest.finish()?;
    let before: Vec<StateDict> = schedules.iter().map(|s| s.state_dict()).collect();
    for i in 0..schedules.len() {
        if let Err(e) = schedules[i].load_state_dict(&state.part(&i.to_string())) {
            for (schedule, state) in schedules.iter_mut().zip(before).take(i) {
                schedule.load_state_dict(&state)?;
            }
            return Err(e);
        }
    }
    Ok(())
}

/// One schedule behind the other: the next begins at each milestone, as in PyTorch's
/// [`SequentialLR`](https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.SequentialLR.html).
///
/// ```
/// use foldback_graph::RequiresGrad;
/// use foldback_optim::{CosineAnnealingLR, LinearLR, Optimizer, SGD, Schedule, SequentialLR};
/// let sgd = SGD::new([foldback_tensor::tensor![1.0].requires_grad()], 1.0);
/// let warm_up = LinearLR::new(&sgd).start_factor(0.5).total_iters(2);
/// let cosine = CosineAnnealingLR::new(&sgd, 10);
/// let mut schedule = SequentialLR::new(&sgd, [Box::new(warm_up) as Box<dyn Schedule>, Box::new(cosine)], [2]);
/// assert_eq!(sgd.lr(), 0.5);
/// (0..7).try_for_each(|_| schedule.step(&sgd))?;
/// assert!((sgd.lr() - 0.5).abs() < 1e-12); // half-way down
/// # Ok::<(), foldback_optim::Error>(())
/// ```
pub struct SequentialLR {
    settings: Settings,
    schedules: List,
    milestones: Vec<usize>,
    epoch: i64,
}

impl SequentialLR {
    /// A sequence of schedules of one optimiser, with the steps at which all but the first begin.
    ///
    /// # Panics
    /// Where `try_new` returns an error.
    #[track_caller]
    pub fn new(
        optimizer: &dyn Optimizer,
        schedules: impl IntoIterator<Item = Box<dyn Schedule>>,
        milestones: impl Into<Vec<usize>>,
    ) -> SequentialLR {
        foldback_tensor::or_panic(SequentialLR::try_new(optimizer, schedules, milestones))
    }

    /// `new` that returns an error instead of panicking.
    ///
    /// # Errors
    /// `Refused` if there is no schedule, one is of another optimiser, or there is not one milestone less than schedules.
    #[track_caller]
    pub fn try_new(
        optimizer: &dyn Optimizer,
        schedules: impl IntoIterator<Item = Box<dyn Schedule>>,
        milestones: impl Into<Vec<usize>>,
    ) -> Result<SequentialLR> {
        const NAME: &str = "SequentialLR";
        let mut schedules: List = schedules.into_iter().collect();
        let milestones = milestones.into();
        expect_parts(NAME, optimizer, &schedules).here()?;
        if milestones.len() + 1 != schedules.len() {
            let problem = format!(
                "{} schedules and {} milestones: give a milestone for each schedule but the first",
                schedules.len(),
                milestones.len()
            );
            return refuse(OptimFacts::Refused { of: NAME, problem }).here();
        }
        if !milestones.is_sorted() {
            let problem = format!("the milestones {milestones:?} are not in order");
            return refuse(OptimFacts::Refused { of: NAME, problem }).here();
        }
        // All of them have begun: that is taken back, for all but the one whose turn it is.
        let settings = optimizer.settings().clone();
        settings.set_scheduled(NAME, "lr", &settings.initial_lrs()).here()?;
        schedules.iter_mut().for_each(|s| s.undo());
        let first = part(&milestones, 0);
        schedules[first].begin().here()?;
        Ok(SequentialLR { settings, schedules, milestones, epoch: 0 })
    }
}

/// Which schedule a step belongs to.
fn part(milestones: &[usize], epoch: i64) -> usize {
    milestones.iter().filter(|&&m| m as i128 <= i128::from(epoch)).count()
}

impl Schedule for SequentialLR {
    fn name(&self) -> &'static str {
        "SequentialLR"
    }

    #[track_caller]
    fn step(&mut self, optimizer: &dyn Optimizer) -> Result<()> {
        expect_same("SequentialLR", &self.settings, optimizer).here()?;
        self.advance().here()
    }

    fn state_dict(&self) -> StateDict {
        let mut state = StateDict::from_iter([("last_epoch", Tensor::from(self.epoch))]);
        save(&self.schedules, &mut state);
        state
    }

    #[track_caller]
    fn load_state_dict(&mut self, state: &StateDict) -> Result<()> {
        let mut reader = Reader::new("SequentialLR", state);
        let epoch = reader.whole("last_epoch", 0).here()?;
        load(&mut self.schedules, state, reader).here()?;
        self.epoch = epoch;
        Ok(())
    }

    fn begin(&mut self) -> Result<()> {
        self.advance()
    }

    fn advance(&mut self) -> Result<()> {
        let epoch = self.epoch.saturating_add(1);
        let now = part(&self.milestones, epoch);
        if now > 0 && self.milestones[now - 1] as i128 == i128::from(epoch) {
            self.schedules[now].restart()?;
        } else {
            self.schedules[now].advance()?;
        }
        self.epoch = epoch;
        Ok(())
    }

    fn restart(&mut self) -> Result<()> {
        refuse(OptimFacts::Refused { of: "SequentialLR", problem: FIRST.into() })
    }

    fn undo(&mut self) {
        self.schedules.iter_mut().for_each(|s| s.undo());
    }

    fn scheduled(&self) -> &Settings {
        &self.settings
    }
}

/// Why a schedule of schedules does not begin behind another.
const FIRST: &str = "may only be the first of a sequence";
const CHAINED: &str = "ChainedScheduler";

/// All schedules at once: each multiplies the rates, as in PyTorch's
/// [`ChainedScheduler`](https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.ChainedScheduler.html).
///
/// ```
/// use foldback_graph::RequiresGrad;
/// use foldback_optim::{ChainedScheduler, ExponentialLR, Optimizer, SGD, Schedule, StepLR};
/// let sgd = SGD::new([foldback_tensor::tensor![1.0].requires_grad()], 1.0);
/// let parts: [Box<dyn Schedule>; 2] =
///     [Box::new(ExponentialLR::new(&sgd, 0.5)), Box::new(StepLR::new(&sgd, 2).gamma(0.5))];
/// let mut schedule = ChainedScheduler::new(&sgd, parts);
/// (0..2).try_for_each(|_| schedule.step(&sgd))?;
/// assert_eq!(sgd.lr(), 0.125);
/// # Ok::<(), foldback_optim::Error>(())
/// ```
pub struct ChainedScheduler {
    settings: Settings,
    schedules: List,
}

impl ChainedScheduler {
    /// Some schedules of one optimiser.
    ///
    /// # Panics
    /// Where `try_new` returns an error.
    #[track_caller]
    pub fn new(
        optimizer: &dyn Optimizer,
        schedules: impl IntoIterator<Item = Box<dyn Schedule>>,
    ) -> ChainedScheduler {
        foldback_tensor::or_panic(ChainedScheduler::try_new(optimizer, schedules))
    }

    /// `new` that returns an error instead of panicking.
    ///
    /// # Errors
    /// `Refused` if there is no schedule, or one is of another optimiser.
    #[track_caller]
    pub fn try_new(
        optimizer: &dyn Optimizer,
        schedules: impl IntoIterator<Item = Box<dyn Schedule>>,
    ) -> Result<ChainedScheduler> {
        let schedules: List = schedules.into_iter().collect();
        expect_parts(CHAINED, optimizer, &schedules).here()?;
        Ok(ChainedScheduler { settings: optimizer.settings().clone(), schedules })
    }
}

impl Schedule for ChainedScheduler {
    fn name(&self) -> &'static str {
        CHAINED
    }

    #[track_caller]
    fn step(&mut self, optimizer: &dyn Optimizer) -> Result<()> {
        expect_same(CHAINED, &self.settings, optimizer).here()?;
        self.advance().here()
    }

    fn state_dict(&self) -> StateDict {
        let mut state = StateDict::new();
        save(&self.schedules, &mut state);
        state
    }

    #[track_caller]
    fn load_state_dict(&mut self, state: &StateDict) -> Result<()> {
        load(&mut self.schedules, state, Reader::new(CHAINED, state)).here()
    }

    fn begin(&mut self) -> Result<()> {
        self.advance()
    }

    /// Where one refuses, the others go back to where they were.
    fn advance(&mut self) -> Result<()> {
        let before = self.state_dict();
        let done = self.schedules.iter_mut().try_for_each(|s| s.advance());
        if done.is_err() {
            load(&mut self.schedules, &before, Reader::new(CHAINED, &before))?;
        }
        done
    }

    fn restart(&mut self) -> Result<()> {
        refuse(OptimFacts::Refused { of: CHAINED, problem: FIRST.into() })
    }

    fn undo(&mut self) {
        self.schedules.iter_mut().for_each(|s| s.undo());
    }

    fn scheduled(&self) -> &Settings {
        &self.settings
    }
}
