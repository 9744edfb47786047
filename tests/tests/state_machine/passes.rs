//! Backward passes: to leaves or to given inputs, with seeds of every layout, retained, repeated and recorded.

use std::collections::BTreeMap;

use foldback_graph::{Backward, Error, Grad, GraphFacts, Var, backward};
use foldback_tensor::Tensor;
use tests::model::{Array, Id, count};

use crate::machine::{Machine, Slot};

impl Machine {
    /// A seed of small numbers in some layout, for both sides.
    fn seed(&mut self, shape: &[usize]) -> (Tensor, Id) {
        let numbers = self.random_array(shape);
        let (tensor, array) = match self.random.below(4) {
            0 => {
                let number = self.random.small();
                let one = self.to_tensor(&Array { shape: vec![], values: vec![number] });
                (
                    one.expand(shape).unwrap(),
                    Array { shape: shape.to_vec(), values: vec![number; count(shape)] },
                )
            }
            1 => {
                let last_first: Vec<usize> = (0..shape.len()).rev().collect();
                let turned = self.to_tensor(&numbers).permute(last_first.clone()).unwrap().contiguous();
                (turned.permute(last_first).unwrap(), numbers)
            }
            // the buffer of a tensor that others hold, too
            2 if self.tensors.iter().any(|t| t.0.dims() == shape) => {
                let (t, id) = self.tensors.iter().find(|t| t.0.dims() == shape).unwrap();
                (t.clone(), self.tape.array(*id).clone())
            }
            _ => (self.to_tensor(&numbers), numbers),
        };
        let id = self.tape.given(array, None);
        (tensor, id)
    }

    /// A pass from one or two roots, to the leaves or to some inputs.
    pub(crate) fn backward(&mut self) -> Result<(), String> {
        let tracked: Vec<usize> = (0..self.vars.len()).filter(|&i| self.vars[i].0.requires_grad()).collect();
        if tracked.is_empty() {
            return Ok(());
        }
        let length = self.tape.len();
        let roots: Vec<usize> =
            (0..1 + usize::from(self.random.one_in(4))).map(|_| self.random.pick(&tracked)).collect();
        let mut seeds = Vec::new();
        let mut pairs = Vec::new();
        for &i in &roots {
            let (t, id) = self.seed(&self.vars[i].0.shape().clone());
            seeds.push(Var::from(t));
            pairs.push((self.id(self.vars[i].1), id));
        }
        let inputs: Vec<usize> = (0..self.random.below(3)).map(|_| self.random.pick(&tracked)).collect();
        let (retain, create) = (!self.random.one_in(3), !inputs.is_empty() && self.random.one_in(2));
        self.note(|| format!("backward from {roots:?} to {inputs:?}, retain {retain}, create {create}"));
        let outcome = match self.tape.backward(&pairs) {
            Err(_) => {
                *self.tally.entry("(left out: too large)").or_default() += 1;
                self.tape.truncate(length);
                return Ok(());
            }
            Ok(grads) if inputs.is_empty() => self.compare_leaves(&roots, &seeds, &grads, retain),
            Ok(grads) => self.compare_inputs(&roots, &seeds, &inputs, &grads, retain, create),
        };
        if !create {
            self.tape.truncate(length);
        }
        outcome
    }

    fn settle(
        &mut self,
        error: Option<Error>,
        grads: &BTreeMap<Id, Id>,
        retain: bool,
    ) -> Result<bool, String> {
        let excused = grads.keys().any(|id| self.freed.contains(id));
        if !retain {
            self.freed.extend(grads.keys());
        }
        match error {
            None => Ok(true),
            Some(e) if excused && matches!(e.facts(), Some(GraphFacts::Freed { .. })) => {
                *self.tally.entry("(refused: freed)").or_default() += 1;
                Ok(false)
            }
            Some(e) => Err(format!("the pass failed: {e:?}")),
        }
    }

    fn compare_leaves(
        &mut self,
        roots: &[usize],
        seeds: &[Var],
        grads: &BTreeMap<Id, Id>,
        retain: bool,
    ) -> Result<(), String> {
        let mut sums = Vec::new();
        for n in 0..self.leaves.len() {
            let Ok(part) = self.tape.of_leaf(grads, n) else { return Ok(()) };
            let (Some(part), Some(old)) = (part, self.leaves[n].grad.clone()) else {
                sums.push(part);
                continue;
            };
            let old = self.tape.given(old, None);
            match self.tape.weigh(old, part, |_, _| [1.0, 1.0]) {
                Ok(sum) => sums.push(Some(sum)),
                Err(_) => {
                    self.leaves[n].var.zero_grad();
                    self.leaves[n].grad = None;
                    sums.push(Some(part));
                }
            }
        }
        let roots: Vec<&Var> = roots.iter().map(|&i| &self.vars[i].0).collect();
        let seeds: Vec<&Var> = seeds.iter().collect();
        let error = backward(&roots, Backward::new().seeds(&seeds).retain_graph(retain)).err();
        if self.settle(error, grads, retain)? {
            for (leaf, sum) in self.leaves.iter_mut().zip(sums) {
                if let Some(sum) = sum {
                    leaf.grad = Some(self.tape.array(sum).clone());
                }
            }
        }
        Ok(())
    }

    fn compare_inputs(
        &mut self,
        roots: &[usize],
        seeds: &[Var],
        inputs: &[usize],
        grads: &BTreeMap<Id, Id>,
        retain: bool,
        create: bool,
    ) -> Result<(), String> {
        let mut wanted = Vec::new();
        for &i in inputs {
            match self.vars[i].1 {
                Slot::Value(id) => wanted.push(grads.get(&id).copied()),
                Slot::Leaf(n) => match self.tape.of_leaf(grads, n) {
                    Ok(g) => wanted.push(g),
                    Err(_) => return Ok(()),
                },
            }
        }
        let roots: Vec<&Var> = roots.iter().map(|&i| &self.vars[i].0).collect();
        let targets: Vec<&Var> = inputs.iter().map(|&i| &self.vars[i].0).collect();
        let seeds: Vec<&Var> = seeds.iter().collect();
        let pass = Grad::new(&roots, &targets)
            .seeds(&seeds)
            .retain_graph(retain)
            .create_graph(create)
            .allow_unused(true);
        let (found, error) = match pass.run() {
            Ok(found) => (found, None),
            Err(e) => (Vec::new(), Some(e)),
        };
        if !self.settle(error, grads, retain || create)? {
            return Ok(());
        }
        for (k, (found, want)) in found.into_iter().zip(wanted).enumerate() {
            match (found, want) {
                (None, None) => {}
                (Some(g), Some(id)) => {
                    self.compare(&g.value(), id, || format!("gradient {k}"))?;
                    if create {
                        // The gradient behind an operation that changes nothing is the same variable as before it.
                        let known = self.vars.iter().find(|v| v.0.is_same(&g));
                        let slot = known.map_or(Slot::Value(id), |v| v.1);
                        self.keep_var(g, slot);
                    }
                }
                (found, want) => {
                    return Err(format!(
                        "gradient {k}: {found:?} instead of {:?}",
                        want.map(|id| self.tape.array(id))
                    ));
                }
            }
        }
        Ok(())
    }
}
