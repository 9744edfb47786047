//! A setting of an optimiser: its name, its default, and what it may be.

use crate::error::{OptimFacts, Result};
use foldback_tensor::refuse;

/// One line of an optimiser's table. Every setting is a number: a flag is 0 or 1.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) default: f64,
    pub(crate) domain: Domain,
}

/// What a number may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Domain {
    Any,
    NotNegative,
    /// from 0 to 1
    Unit,
    /// from 0 to less than 1
    Share,
    /// between 0 and 1
    Shrinking,
    /// above 1
    Growing,
    /// a whole number from 1
    Count,
    /// a whole number from 0
    CountOrNone,
    /// 0 or 1
    Flag,
}

impl Domain {
    pub(crate) fn has(self, v: f64) -> bool {
        v.is_finite()
            && match self {
                Domain::Any => true,
                Domain::NotNegative => v >= 0.0,
                Domain::Unit => (0.0..=1.0).contains(&v),
                Domain::Share => (0.0..1.0).contains(&v),
                Domain::Shrinking => v > 0.0 && v < 1.0,
                Domain::Growing => v > 1.0,
                // Beyond this not every whole number is an f64.
                Domain::Count => v >= 1.0 && v.fract() == 0.0 && v <= 2f64.powi(53),
                Domain::CountOrNone => v == 0.0 || Domain::Count.has(v),
                Domain::Flag => v == 0.0 || v == 1.0,
            }
    }

    /// Whether its values are whole numbers.
    pub(crate) fn is_whole(self) -> bool {
        matches!(self, Domain::Count | Domain::CountOrNone | Domain::Flag)
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Domain::Any => "a finite number",
            Domain::NotNegative => "a finite number that is not negative",
            Domain::Unit => "a number from 0 to 1",
            Domain::Share => "a number from 0 to less than 1",
            Domain::Shrinking => "a number between 0 and 1",
            Domain::Growing => "a finite number above 1",
            Domain::Count => "a whole number from 1",
            Domain::CountOrNone => "a whole number from 0",
            Domain::Flag => "0 or 1",
        }
    }
}

impl Setting {
    /// Refuses a value outside the domain.
    pub(crate) fn check(&self, optimizer: &'static str, value: f64) -> Result<()> {
        if self.domain.has(value) {
            return Ok(());
        }
        let (name, expected) = (said(self.name), self.domain.text());
        refuse(OptimFacts::Parameter { optimizer, name, value, expected })
    }
}

/// How a text calls a setting.
fn said(name: &'static str) -> &'static str {
    match name {
        "lr" => "the learning rate",
        "beta1" => "the first beta",
        "beta2" => "the second beta",
        name => name,
    }
}

/// The types that a setting has in programs.
pub(crate) trait Number: Copy {
    fn number(self) -> f64;
    /// From a number of the setting's domain.
    fn of(number: f64) -> Self;
}

impl Number for f64 {
    fn number(self) -> f64 {
        self
    }
    fn of(number: f64) -> f64 {
        number
    }
}

impl Number for bool {
    fn number(self) -> f64 {
        f64::from(u8::from(self))
    }
    fn of(number: f64) -> bool {
        number != 0.0
    }
}

impl Number for usize {
    fn number(self) -> f64 {
        self as f64
    }
    fn of(number: f64) -> usize {
        number as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains() {
        let values = [f64::NEG_INFINITY, -1.0, 0.0, 0.5, 1.0, 1.5, 2.0, f64::INFINITY, f64::NAN];
        let expected = [
            (Domain::Any, "011111100"),
            (Domain::NotNegative, "001111100"),
            (Domain::Unit, "001110000"),
            (Domain::Share, "001100000"),
            (Domain::Shrinking, "000100000"),
            (Domain::Growing, "000001100"),
            (Domain::Count, "000010100"),
            (Domain::CountOrNone, "001010100"),
            (Domain::Flag, "001010000"),
        ];
        for (domain, expected) in expected {
            let has: String = values.iter().map(|&v| if domain.has(v) { '1' } else { '0' }).collect();
            assert_eq!(has, expected, "{}", domain.text());
        }
        assert!(!Domain::Count.has(1e300));
    }
}
