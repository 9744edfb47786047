//! What an optimiser keeps, as named tensors, and back.
//!
//! `groups.0.lr` and the other settings of each group, `groups.0.params`, the indices of its parameters, and for each
//! parameter that has seen a step `state.3.step` and what the optimiser keeps for it, under PyTorch's names.

use foldback_tensor::{DType, StateDict, Tensor, refuse};

use crate::error::{OptimFacts, Result};
use crate::settings::Groups;
use crate::shared::{Kept, Shared};

/// Takes numbers and tensors out of a state by name, and refuses what is missing, of another form, or left over.
pub(crate) struct Reader {
    of: &'static str,
    state: StateDict,
}

impl Reader {
    pub(crate) fn new(of: &'static str, state: &StateDict) -> Reader {
        Reader { of, state: state.clone() }
    }

    pub(crate) fn refuse<T>(&self, problem: impl Into<String>) -> Result<T> {
        refuse(OptimFacts::State { of: self.of, problem: problem.into() })
    }

    /// A tensor that may be missing.
    pub(crate) fn take(&mut self, name: &str) -> Option<Tensor> {
        self.state.remove(name)
    }

    /// A number that may be missing.
    pub(crate) fn maybe(&mut self, name: &str) -> Result<Option<f64>> {
        let Some(t) = self.take(name) else { return Ok(None) };
        if t.rank() != 0 || !matches!(t.dtype(), DType::F64 | DType::I64) {
            let found = format!("{} {}", t.dtype(), t.shape());
            return self.refuse(format!("{name} is {found}, expected a number (f64 or i64, without axes)"));
        }
        t.item().map(Some)
    }

    pub(crate) fn number(&mut self, name: &str) -> Result<f64> {
        match self.maybe(name)? {
            Some(number) => Ok(number),
            None => self.missing(name),
        }
    }

    /// A whole number from `least` on.
    pub(crate) fn whole(&mut self, name: &str, least: i64) -> Result<i64> {
        let number = self.number(name)?;
        if number.fract() != 0.0 || number < least as f64 || number > 2f64.powi(53) {
            return self.refuse(format!("{name} is {number}, expected a whole number from {least}"));
        }
        Ok(number as i64)
    }

    /// Numbers along one axis, so many of them.
    pub(crate) fn numbers(&mut self, name: &str, len: usize) -> Result<Vec<f64>> {
        match self.take(name) {
            Some(t) if t.dtype() == DType::F64 && *t.shape() == [len] => t.to_vec(),
            Some(t) => {
                let found = format!("{} {}", t.dtype(), t.shape());
                self.refuse(format!("{name} is {found}, expected f64 [{len}]"))
            }
            None => self.missing(name),
        }
    }

    pub(crate) fn missing<T>(&self, name: &str) -> Result<T> {
        self.refuse(format!("{name} is missing: was this saved by {} with the same groups?", self.of))
    }

    /// Refuses what nobody has asked for.
    pub(crate) fn finish(self) -> Result<()> {
        match self.state.names().next() {
            None => Ok(()),
            Some(name) => {
                self.refuse(format!("{name} belongs to nothing here: was this saved by {}?", self.of))
            }
        }
    }
}

/// A number as it stands in a state.
pub(crate) fn saved(number: f64, is_whole: bool) -> Tensor {
    if is_whole { Tensor::from(number as i64) } else { Tensor::from(number) }
}

impl Shared {
    /// Everything but the parameters: clones, which later steps leave as they are.
    pub(crate) fn state_dict(&self) -> StateDict {
        // A step is in it as a whole or not at all.
        self.room.update(|_| {
            let mut state = StateDict::new();
            let groups = self.settings.read();
            for (n, values) in groups.each.iter().enumerate() {
                let members = (0..groups.of.len()).filter(|&i| groups.of[i] == n).map(|i| i as i64);
                state.insert(format!("groups.{n}.params"), Tensor::from(members.collect::<Vec<i64>>()));
                for (setting, &number) in self.algorithm.settings.iter().zip(&values.numbers) {
                    state.insert(
                        format!("groups.{n}.{}", setting.name),
                        saved(number, setting.domain.is_whole()),
                    );
                }
                if let Some(rate) = values.initial_lr {
                    state.insert(format!("groups.{n}.initial_lr"), saved(rate, false));
                }
            }
            for (i, kept) in self.states.read().iter().enumerate() {
                self.save(i, kept, &mut state);
            }
            state
        })
    }

    fn save(&self, i: usize, kept: &Kept, state: &mut StateDict) {
        if kept.steps == 0 {
            return;
        }
        state.insert(format!("state.{i}.step"), Tensor::from(kept.steps));
        for ((name, _), &number) in self.algorithm.numbers.iter().zip(&kept.numbers) {
            state.insert(format!("state.{i}.{name}"), saved(number, false));
        }
        for (name, tensor) in self.algorithm.tensors.iter().zip(&kept.tensors) {
            if let Some(tensor) = tensor {
                state.insert(format!("state.{i}.{name}"), tensor.clone());
            }
        }
    }

    /// Everything is read and checked before anything is changed.
    pub(crate) fn load_state_dict(&self, state: &StateDict) -> Result<()> {
        let mut reader = Reader::new(self.algorithm.name, state);
        let groups = self.load_groups(&mut reader)?;
        let states = (0..self.vars().len()).map(|i| self.load(i, &mut reader));
        let states = states.collect::<Result<Vec<Kept>>>()?;
        reader.finish()?;
        self.room.update(|_| {
            self.settings.replace(groups);
            drop(self.states.replace(states));
        });
        Ok(())
    }

    fn load_groups(&self, reader: &mut Reader) -> Result<Groups> {
        let mut groups = Groups::clone(&self.settings.read());
        for (n, values) in groups.each.iter_mut().enumerate() {
            let name = format!("groups.{n}.params");
            let expected: Vec<i64> =
                (0..groups.of.len()).filter(|&i| groups.of[i] == n).map(|i| i as i64).collect();
            let Some(found) = reader.take(&name) else { return reader.missing(&name) };
            if found != Tensor::from(expected) {
                return reader.refuse(format!(
                    "{name} are {found:?}: the optimiser has other parameters, or other groups of them"
                ));
            }
            for (setting, number) in self.algorithm.settings.iter().zip(&mut values.numbers) {
                let name = format!("groups.{n}.{}", setting.name);
                *number = reader.number(&name)?;
                // A schedule may have set a rate of any sign.
                let is_rate = setting.name == "lr" && number.is_finite();
                if !is_rate && !setting.domain.has(*number) {
                    return reader.refuse(format!("{name} is {number}, expected {}", setting.domain.text()));
                }
            }
            values.initial_lr = reader.maybe(&format!("groups.{n}.initial_lr"))?;
        }
        Ok(groups)
    }

    fn load(&self, i: usize, reader: &mut Reader) -> Result<Kept> {
        let (mut kept, algorithm) = (self.algorithm.fresh(), self.algorithm);
        let steps = format!("state.{i}.step");
        if !reader.state.names().any(|name| name == steps) {
            return Ok(kept);
        }
        kept.steps = reader.whole(&steps, 1)?;
        for ((name, _), number) in algorithm.numbers.iter().zip(&mut kept.numbers) {
            *number = reader.number(&format!("state.{i}.{name}"))?;
        }
        let var = &self.vars()[i];
        for (place, (name, slot)) in algorithm.tensors.iter().zip(&mut kept.tensors).enumerate() {
            let name = format!("state.{i}.{name}");
            let Some(t) = reader.take(&name) else {
                if place < algorithm.always {
                    return reader.missing(&name);
                }
                continue;
            };
            let fits = if algorithm.by_parameter {
                t.shape() == var.shape()
            } else {
                // All parameters in a row: a direction and a gradient, and lists of them.
                let rank = if place < 2 { 1 } else { 2 };
                t.rank() == rank && t.shape().last() == Some(&self.vars().iter().map(|v| v.numel()).sum())
            };
            if !fits || t.dtype() != var.dtype() {
                let (found, own) =
                    (format!("{} {}", t.dtype(), t.shape()), format!("{} {}", var.dtype(), var.shape()));
                return reader.refuse(format!("{name} is {found}, its parameter {own}"));
            }
            *slot = Some(t);
        }
        Ok(kept)
    }
}
