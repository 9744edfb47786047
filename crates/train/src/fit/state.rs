//! Where a run stands, so that another one can go on from there.

use std::cell::RefCell;

use foldback_tensor::{Here, StateDict, Tensor};

use super::report::{EpochReport, History};
use crate::early_stopping::EarlyStopping;
use crate::error::Result;
use crate::saved::Reader;

/// Where a run by [`Fit`](crate::Fit) stands: the epochs it has taken, when it stops early, and the weights of its best epoch.
///
/// [`Fit::state`](crate::Fit::state) keeps it here after each epoch, before `on_epoch` runs, and begins with what is here. Together with the model, the
/// optimiser, the loader and the generator of random numbers it makes a run end with the same bits, however often it was stopped in between;
/// `Fit::checkpoint` does all of that, behind the feature `safetensors`.
///
/// ```
/// use foldback_data::{DataLoader, TensorDataset};
/// use foldback_nn::{Linear, Module, loss};
/// use foldback_optim::{Optimizer, SGD};
/// use foldback_tensor::tensor;
/// use foldback_train::{Fit, FitState};
/// let loader = DataLoader::new(TensorDataset::new([tensor![[1.0], [2.0]], tensor![[2.0], [4.0]]]), 1).shuffle(true);
/// let train = |model: &mut Linear, sgd: &SGD, state: &FitState, epochs: usize| {
///     Fit::new(model, sgd).epochs(epochs).state(state).run(&loader, |m, [x, y]| loss::mse_loss(m.forward(x)?, y))
/// };
/// let mut model = Linear::new(1, 1);
/// let (sgd, state) = (SGD::new(model.parameters(), 0.1), FitState::new());
/// train(&mut model, &sgd, &state, 2)?;
///
/// let mut later = FitState::new();
/// later.load_state_dict(&state.state_dict())?; // which a file may have held meanwhile
/// let history = train(&mut model, &sgd, &later, 5)?;
/// assert_eq!(history.epochs.len(), 5); // of which three were taken now
/// # Ok::<(), foldback_train::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct FitState {
    so_far: RefCell<SoFar>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct SoFar {
    history: History,
    /// what [`EarlyStopping`] has seen
    stopping: StateDict,
    /// the weights of the best epoch, if they are kept
    kept: Option<StateDict>,
}

const WHAT: &str = "a run by fit";

impl FitState {
    /// Of a run that has not begun.
    pub fn new() -> FitState {
        FitState::default()
    }

    /// How many epochs the run has taken.
    pub fn epochs(&self) -> usize {
        self.so_far.borrow().history.epochs.len()
    }

    /// What its epochs have said.
    pub fn history(&self) -> History {
        self.so_far.borrow().history.clone()
    }

    /// All of it as named tensors.
    pub fn state_dict(&self) -> StateDict {
        let so_far = self.so_far.borrow();
        let epochs = &so_far.history.epochs;
        let floats = |f: fn(&EpochReport) -> f64| Tensor::from(epochs.iter().map(f).collect::<Vec<f64>>());
        let flags = |f: fn(&EpochReport) -> bool| Tensor::from(epochs.iter().map(f).collect::<Vec<bool>>());
        let batches = epochs.iter().map(|e| e.batches as i64).collect::<Vec<i64>>();
        let mut state = StateDict::from_iter([
            ("loss", floats(|e| e.loss)),
            ("lr", floats(|e| e.lr)),
            ("seconds", floats(|e| e.seconds)),
            // No norm and no value are NaN; a value may also be.
            ("gradient_norm", floats(|e| e.gradient_norm.unwrap_or(f64::NAN))),
            ("value", floats(|e| e.value.unwrap_or(f64::NAN))),
            ("has_value", flags(|e| e.value.is_some())),
            ("is_best", flags(|e| e.is_best)),
            ("batches", Tensor::from(batches)),
        ]);
        state.insert_all("stopping", so_far.stopping.clone());
        state.insert_all("kept", so_far.kept.clone().unwrap_or_default());
        state
    }

    /// Goes on from a state.
    ///
    /// # Errors
    /// `State` if something is missing, left over, or of another form. Nothing is changed then.
    #[track_caller]
    pub fn load_state_dict(&mut self, state: &StateDict) -> Result<()> {
        self.so_far.replace(SoFar::read(state).here()?);
        Ok(())
    }

    /// What early stopping has seen.
    pub(super) fn stopping(&self) -> StateDict {
        self.so_far.borrow().stopping.clone()
    }

    /// The weights of the best epoch, if they are kept.
    pub(super) fn kept(&self) -> Option<StateDict> {
        self.so_far.borrow().kept.clone()
    }

    /// Whether there is a best epoch whose weights nobody has kept.
    pub(super) fn lacks_kept(&self) -> bool {
        let so_far = self.so_far.borrow();
        so_far.history.best.is_some() && so_far.kept.is_none()
    }

    /// Becomes another one.
    #[cfg(feature = "safetensors")]
    pub(super) fn take(&self, other: FitState) {
        self.so_far.swap(&other.so_far);
    }

    /// Takes an epoch in, with the weights if it is the best one and they are kept.
    pub(super) fn add(&self, report: &EpochReport, stopping: &EarlyStopping, kept: Option<StateDict>) {
        let mut so_far = self.so_far.borrow_mut();
        if report.is_best {
            so_far.history.best = Some(report.epoch);
            so_far.kept = kept;
        }
        so_far.stopping = stopping.state_dict();
        so_far.history.epochs.push(report.clone());
    }
}

impl SoFar {
    fn read(state: &StateDict) -> Result<SoFar> {
        let (stopping, kept) = (state.part("stopping"), state.part("kept"));
        EarlyStopping::new(1).load_state_dict(&stopping)?;
        let own: StateDict =
            state.iter().filter(|(name, _)| !is_part(name)).map(|(n, t)| (n, t.clone())).collect();
        let mut from = Reader::new(WHAT, &own);
        let mut floats = Vec::new();
        for name in ["loss", "lr", "seconds", "gradient_norm", "value"] {
            floats.push(from.list::<f64>(name)?);
        }
        let flags = [from.list::<bool>("has_value")?, from.list::<bool>("is_best")?];
        let batches = from.list::<i64>("batches")?;
        from.end()?;
        let count = batches.len();
        if floats.iter().any(|list| list.len() != count) || flags.iter().any(|list| list.len() != count) {
            return from.refuse("the lists of epochs have different lengths".into());
        }
        let mut history = History::default();
        for (epoch, &batches) in batches.iter().enumerate() {
            let mut report = EpochReport::new(epoch, floats[1][epoch]);
            report.batches = usize::try_from(batches).unwrap_or(0);
            report.loss = floats[0][epoch];
            report.seconds = floats[2][epoch];
            report.gradient_norm = Some(floats[3][epoch]).filter(|norm| !norm.is_nan());
            report.value = flags[0][epoch].then_some(floats[4][epoch]);
            report.is_best = flags[1][epoch];
            history.best = if report.is_best { Some(epoch) } else { history.best };
            history.epochs.push(report);
        }
        Ok(SoFar { history, stopping, kept: (!kept.is_empty()).then_some(kept) })
    }
}

fn is_part(name: &str) -> bool {
    name.starts_with("stopping.") || name.starts_with("kept.")
}
