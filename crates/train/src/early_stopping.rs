//! Early stopping: when a value does not get better any more.

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
}
