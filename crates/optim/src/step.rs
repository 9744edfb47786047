//! A step over all parameters in one pass, see Note [A step].

use foldback_graph::{Writing, write_together};
use foldback_tensor::Tensor;
use foldback_tensor::kernel::{BlockKernel, Update, UpdateKernel, Updates};

use crate::error::Result;
use crate::settings::Groups;
use crate::shared::{Algorithm, Kept, PLACES, Shared, expect_own_step};

/// What an optimiser keeps of a parameter before a step, but for the elements of its tensors. Those of a group that stand alike
/// take the same step.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Before {
    pub(crate) steps: i64,
    pub(crate) numbers: [f64; 4],
    /// which tensors it keeps
    pub(crate) has: [bool; PLACES],
}

/// What a formula changes.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    /// the value of the parameter
    Value,
    /// a tensor that is kept, which starts as zeros
    Zeros(usize),
    /// the same, which starts as this number everywhere
    Full(usize, f64),
}

/// The step of all parameters that stand alike: a formula, and what is kept after it.
pub(crate) struct Step {
    kernel: Box<dyn BlockKernel>,
    /// the kept tensors that it changes, in their order: what they start with
    starts: [Option<f64>; PLACES],
    /// `None` if they stay
    numbers: Option<[f64; 4]>,
}

impl Step {
    /// A formula over the value, which comes first, and over kept tensors in their order.
    pub(crate) fn new<F: Update<M, 1> + 'static, const M: usize>(formula: F, parts: [Part; M]) -> Step {
        let (mut starts, mut next) = ([None; PLACES], 0);
        for (k, part) in parts.into_iter().enumerate() {
            let (place, start) = match part {
                Part::Value => {
                    assert!(k == 0, "the value comes first");
                    continue;
                }
                Part::Zeros(place) => (place, 0.0),
                Part::Full(place, start) => (place, start),
            };
            assert!(k > 0 && place >= next, "the value comes first, and what is kept in its order");
            (starts[place], next) = (Some(start), place + 1);
        }
        Step { kernel: Box::new(UpdateKernel(formula)), starts, numbers: None }
    }

    /// With numbers that are kept afterwards.
    pub(crate) fn keeping(self, numbers: [f64; 4]) -> Step {
        Step { numbers: Some(numbers), ..self }
    }
}

impl Before {
    fn of(kept: &Kept) -> Before {
        let Kept { steps, numbers, tensors } = kept;
        Before { steps: *steps, numbers: *numbers, has: tensors.each_ref().map(Option::is_some) }
    }

    /// The number of the step to be taken, from 1.
    pub(crate) fn next_step(&self) -> f64 {
        self.steps as f64 + 1.0
    }
}

impl Shared {
    /// Changes the value and the state of every parameter that has a gradient.
    pub(crate) fn step(&self) -> Result<()> {
        // Before the room is taken: who has it may be waiting for this very thread to finish its update.
        self.expect_not_updating()?;
        if !self.algorithm.by_parameter {
            return expect_own_step(self.algorithm.name);
        }
        self.room.update(|grads| {
            let groups = self.settings.read();
            groups.each.iter().try_for_each(|values| (self.algorithm.check)(&values.numbers))?;
            // A step that has panicked may have left some.
            grads.clear();
            grads.extend(self.vars().iter().map(|var| var.grad()));
            let done = self.check(grads).and_then(|()| self.step_by(grads, &groups));
            grads.clear();
            done
        })
    }

    /// All of them at once, unless somebody is writing one just now: then in parts, see Note [Several turns].
    fn step_by(&self, grads: &[Option<Tensor>], groups: &Groups) -> Result<()> {
        let all: Vec<usize> = (0..grads.len()).filter(|&i| grads[i].is_some()).collect();
        let mut left = &all[..];
        while !left.is_empty() {
            let mut values = write_together(self.algorithm.name, left.iter().map(|&i| &self.vars()[i]))?;
            let (now, later) = left.split_at(values.len());
            self.states.update(|states| {
                let mut pass = Pass { algorithm: self.algorithm, groups, grads, of: now, made: Vec::new() };
                pass.run(&mut values, states)
            })?;
            left = later;
        }
        Ok(())
    }
}

/// Parameters that are stepped at once, in ascending order.
struct Pass<'a> {
    algorithm: &'static Algorithm,
    groups: &'a Groups,
    grads: &'a [Option<Tensor>],
    of: &'a [usize],
    /// which parameters have been given which tensors to keep
    made: Vec<(usize, usize)>,
}

impl<'a> Pass<'a> {
    /// Whatever fails does so before anything is changed.
    fn run(&mut self, values: &mut [Writing<'_>], states: &mut [Kept]) -> Result<()> {
        let (steps, which) = self.steps(states);
        let done = self.updates(values, states, &steps, &which).map(Updates::run);
        if done.is_err() {
            self.made.iter().for_each(|&(i, place)| states[i].tensors[place] = None);
            return done;
        }
        for (&i, n) in self.of.iter().zip(which) {
            let kept = &mut states[i];
            kept.steps = kept.steps.saturating_add(1);
            kept.numbers = steps[n].1.numbers.unwrap_or(kept.numbers);
        }
        Ok(())
    }

    /// The different steps, and which of them each parameter takes.
    fn steps(&self, states: &[Kept]) -> (Vec<(Before, Step)>, Vec<usize>) {
        let (mut steps, mut which) = (Vec::new(), Vec::with_capacity(self.of.len()));
        let mut last = vec![usize::MAX; self.groups.each.len()];
        for &i in self.of {
            let (group, before) = (self.groups.of[i], Before::of(&states[i]));
            if steps.get(last[group]).is_none_or(|(other, _)| *other != before) {
                last[group] = steps.len();
                steps.push((before, (self.algorithm.step)(&self.groups.each[group].numbers, &before)));
            }
            which.push(last[group]);
        }
        (steps, which)
    }

    fn updates<'s>(
        &mut self,
        values: &'s mut [Writing<'_>],
        states: &'s mut [Kept],
        steps: &'s [(Before, Step)],
        which: &[usize],
    ) -> Result<Updates<'s>>
    where
        'a: 's,
    {
        let mut updates = Updates::with_capacity(self.algorithm.name, self.of.len());
        let (grads, mut states) = (self.grads, states.iter_mut().enumerate());
        for ((&i, value), &n) in self.of.iter().zip(values).zip(which) {
            let (Some((_, kept)), Some(g)) = (states.find(|(at, _)| *at == i), &grads[i]) else {
                unreachable!("parameters with a gradient, in ascending order")
            };
            let Step { kernel, starts, .. } = &steps[n].1;
            for (place, start) in starts.iter().enumerate() {
                if let (Some(start), slot @ None) = (start, &mut kept.tensors[place]) {
                    *slot = Some(Tensor::try_full_with(g.shape(), *start, g.dtype())?);
                    self.made.push((i, place));
                }
            }
            let used = kept.tensors.iter_mut().zip(starts).filter(|(_, start)| start.is_some());
            let state = std::iter::once(&mut **value).chain(used.filter_map(|(t, _)| t.as_mut()));
            updates.push(kernel.as_ref(), state, [g])?;
        }
        Ok(updates)
    }
}
