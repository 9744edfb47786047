//! Early stopping: when a value does not get better any more.

use foldback_tensor::{Here, StateDict, Tensor};

use crate::error::Result;
use crate::saved::Reader;

/// Says when a value has not got better for a while, and which was the best. Smaller is better, unless told otherwise; NaN never is.
///
/// ```
/// use foldback_train::EarlyStopping;
/// let mut stopping = EarlyStopping::new(2);
/// assert!(!stopping.update(1.0) && stopping.is_best());
/// assert!(!stopping.update(1.5) && !stopping.is_best());
/// assert!(stopping.update(1.0));          // twice no better
/// assert_eq!(stopping.best(), Some(1.0));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct EarlyStopping {
    patience: usize,
    min_delta: f64,
    maximize: bool,
    best: Option<f64>,
    /// how often in a row it was no better
    waited: usize,
}

impl EarlyStopping {
    /// Stops when the value was no better `patience` times in a row; 0 counts as 1.
    pub fn new(patience: usize) -> EarlyStopping {
        EarlyStopping { patience, min_delta: 0.0, maximize: false, best: None, waited: 0 }
    }

    /// How much better a value has to be to count; its sign does not matter. The default is 0.
    #[must_use]
    pub fn min_delta(mut self, min_delta: f64) -> EarlyStopping {
        self.min_delta = min_delta.abs();
        self
    }

    /// Whether larger is better. The default is false.
    #[must_use]
    pub fn maximize(mut self, maximize: bool) -> EarlyStopping {
        self.maximize = maximize;
        self
    }

    pub(crate) fn maximizes(&self) -> bool {
        self.maximize
    }

    /// With another patience.
    #[must_use]
    pub(crate) fn patience(mut self, patience: usize) -> EarlyStopping {
        self.patience = patience;
        self
    }

    /// Takes the next value; true if it is time to stop.
    pub fn update(&mut self, value: f64) -> bool {
        let better = |best: f64| match self.maximize {
            true => value > best + self.min_delta,
            false => value < best - self.min_delta,
        };
        if self.best.map_or(!value.is_nan(), better) {
            (self.best, self.waited) = (Some(value), 0);
        } else {
            self.waited = self.waited.saturating_add(1);
        }
        self.is_over()
    }

    /// Whether it is time to stop.
    pub(crate) fn is_over(&self) -> bool {
        self.waited >= self.patience.max(1)
    }

    /// Whether the last value was the best so far.
    pub fn is_best(&self) -> bool {
        self.best.is_some() && self.waited == 0
    }

    /// The best value so far.
    pub fn best(&self) -> Option<f64> {
        self.best
    }

    /// What it has seen: the best value, and how often in a row it was no better. The settings are the program's.
    pub fn state_dict(&self) -> StateDict {
        let mut state =
            StateDict::from_iter([("waited", Tensor::from(self.waited.min(i64::MAX as usize) as i64))]);
        if let Some(best) = self.best {
            state.insert("best", Tensor::from(best));
        }
        state
    }

    /// Goes on from a state; one without entries is that of the beginning.
    ///
    /// # Errors
    /// `State` if something is left over, or of another form. Nothing is changed then.
    ///
    /// ```
    /// use foldback_train::EarlyStopping;
    /// let mut stopping = EarlyStopping::new(2);
    /// stopping.update(1.0);
    /// stopping.update(1.5);
    /// let mut later = EarlyStopping::new(2);
    /// later.load_state_dict(&stopping.state_dict())?;
    /// assert!(later.update(1.2) && later.best() == Some(1.0));
    /// # Ok::<(), foldback_train::Error>(())
    /// ```
    #[track_caller]
    pub fn load_state_dict(&mut self, state: &StateDict) -> Result<()> {
        (self.best, self.waited) = read(state).here()?;
        Ok(())
    }
}

fn read(state: &StateDict) -> Result<(Option<f64>, usize)> {
    let mut from = Reader::new("EarlyStopping", state);
    let (best, waited) = (from.number("best")?, from.number::<i64>("waited")?.unwrap_or(0));
    from.end()?;
    match usize::try_from(waited) {
        Ok(waited) => Ok((best, waited)),
        Err(_) => from.refuse(format!("waited is {waited}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stops(mut stopping: EarlyStopping, values: &[f64]) -> Option<usize> {
        values.iter().position(|&v| stopping.update(v))
    }

    #[test]
    fn patience_counts_values_in_a_row() {
        let values = [3.0, 2.0, 2.5, 1.9, 2.0, 2.0, 2.0];
        assert_eq!(stops(EarlyStopping::new(3), &values), Some(6));
        assert_eq!(stops(EarlyStopping::new(4), &values), None);
        assert_eq!(stops(EarlyStopping::new(1), &values), Some(2));
        assert_eq!(stops(EarlyStopping::new(0), &values), Some(2));
        assert_eq!(stops(EarlyStopping::new(2).min_delta(0.2), &values), Some(3));
        assert_eq!(stops(EarlyStopping::new(2).min_delta(-0.2), &values), Some(3));
        assert_eq!(stops(EarlyStopping::new(2).maximize(true), &values), Some(2));
        assert_eq!(stops(EarlyStopping::new(2), &[f64::NAN, 1.0, f64::NAN, f64::NAN]), Some(3));
        assert_eq!(stops(EarlyStopping::new(2), &[f64::NAN, f64::NAN]), Some(1));
    }

    #[test]
    fn the_best_is_kept() {
        let mut stopping = EarlyStopping::new(9).maximize(true);
        assert!(!stopping.is_best());
        stopping.update(f64::NAN);
        assert!(!stopping.is_best() && stopping.best().is_none());
        for (value, is_best) in [(0.5, true), (0.4, false), (0.6, true), (f64::NAN, false)] {
            stopping.update(value);
            assert_eq!(stopping.is_best(), is_best, "{value}");
        }
        assert_eq!(stopping.best(), Some(0.6));
    }

    /// Stopped anywhere and taken up by a fresh one, it says the same as one that was never stopped.
    #[test]
    fn goes_on_from_a_saved_state() {
        let values = [3.0, 2.0, f64::NAN, 2.5, 1.9, 2.0, 2.0, 2.0];
        for cut in 0..values.len() {
            let mut whole = EarlyStopping::new(3);
            for &v in &values[..cut] {
                whole.update(v);
            }
            let mut later = EarlyStopping::new(3);
            later.load_state_dict(&whole.state_dict()).unwrap();
            assert_eq!(later, whole);
            values[cut..].iter().for_each(|&v| assert_eq!(later.update(v), whole.update(v)));
        }
    }

    #[test]
    fn states_of_others_are_refused() {
        let mut stopping = EarlyStopping::new(3);
        stopping.update(1.0);
        let before = stopping.clone();
        for (name, tensor, words) in [
            ("waited", Tensor::from(-1i64), "waited is -1"),
            ("waited", Tensor::from(1.0f64), "waited is f64 []"),
            ("best", Tensor::from(vec![1.0f64]), "best is f64 [1]"),
            ("worst", Tensor::from(1.0f64), "worst is unexpected"),
        ] {
            let e = stopping.load_state_dict(&StateDict::from_iter([(name, tensor)])).unwrap_err();
            assert_eq!(e.location().unwrap().file(), file!());
            let text = e.with_location(None).to_string();
            assert!(text.starts_with(&format!("load_state_dict: EarlyStopping: {words}: ")), "{text}");
            assert_eq!(stopping, before);
        }
    }
}
