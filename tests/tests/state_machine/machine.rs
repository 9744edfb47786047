//! The machine: one random step after another, on the library and on the model.

use std::collections::{BTreeMap, BTreeSet};

use foldback_graph::{RequiresGrad, Var, no_grad};
use foldback_tensor::{DType, Over, Tensor};
use tests::model::{Array, Id, Refusal, Tape, broadcast, count};

use crate::operations::{Op, apply, slices};
use crate::random::Random;
use crate::writes::Write;

/// What a variable is on the model's side.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slot {
    Leaf(usize),
    Value(Id),
}

/// A leaf: its value for now, and the gradient that it should have.
pub(crate) struct Leaf {
    /// a handle of our own, so that the gradient can be read when all others are gone
    pub(crate) var: Var,
    pub(crate) now: Id,
    pub(crate) grad: Option<Array>,
}

/// Tensors and variables, and what the model says that they are.
pub(crate) struct Machine {
    pub(crate) random: Random,
    pub(crate) tape: Tape,
    pub(crate) dtype: DType,
    sizes: &'static [usize],
    pub(crate) tensors: Vec<(Tensor, Id)>,
    pub(crate) vars: Vec<(Var, Slot)>,
    pub(crate) leaves: Vec<Leaf>,
    /// values whose nodes may have been freed by a pass that did not retain the graph
    pub(crate) freed: BTreeSet<Id>,
    pub(crate) log: Vec<String>,
    /// whether steps are printed before they are taken, for those that do not come back
    pub(crate) verbose: bool,
    pub(crate) tally: BTreeMap<&'static str, u64>,
}

impl Machine {
    pub(crate) fn new(seed: u64) -> Machine {
        let mut random = Random(seed.wrapping_mul(0xd129_8a2f_03b1_7c4d));
        random.next();
        let dtype = if random.one_in(3) { DType::F32 } else { DType::F64 };
        let sizes: &'static [usize] = match random.below(24) {
            0 => &[1, 2, 7, 40, 130],
            1 => &[1, 3, 1100],
            _ => &[0, 1, 1, 2, 2, 3, 3],
        };
        // f32 has 24 bits: 17 before the point and 6 behind it; f64 has 53.
        let limit = if dtype == DType::F32 { 65536.0 } else { (1u64 << 40) as f64 };
        let mut machine = Machine {
            random,
            tape: Tape::new(limit),
            dtype,
            sizes,
            tensors: Vec::new(),
            vars: Vec::new(),
            leaves: Vec::new(),
            freed: BTreeSet::new(),
            log: Vec::new(),
            verbose: std::env::var_os("FOLDBACK_STATE_VERBOSE").is_some(),
            tally: BTreeMap::new(),
        };
        for _ in 0..3 {
            for made in [machine.new_tensor(), machine.new_leaf()] {
                made.expect("making is not compared");
            }
        }
        machine
    }

    pub(crate) fn id(&self, slot: Slot) -> Id {
        match slot {
            Slot::Leaf(n) => self.leaves[n].now,
            Slot::Value(id) => id,
        }
    }

    pub(crate) fn random_array(&mut self, shape: &[usize]) -> Array {
        let values = (0..count(shape)).map(|_| self.random.small()).collect();
        Array { shape: shape.to_vec(), values }
    }

    pub(crate) fn to_tensor(&self, array: &Array) -> Tensor {
        Tensor::from_slice(&array.values, &array.shape[..]).unwrap().to(self.dtype)
    }

    fn random_shape(&mut self) -> Vec<usize> {
        loop {
            let shape: Vec<usize> = (0..self.random.below(4)).map(|_| self.random.pick(self.sizes)).collect();
            if count(&shape) <= 2200 {
                return shape;
            }
        }
    }

    fn new_tensor(&mut self) -> Result<(), String> {
        let shape = self.random_shape();
        let array = self.random_array(&shape);
        let tensor = self.to_tensor(&array);
        let id = self.tape.given(array, None);
        self.keep_tensor(tensor, id);
        Ok(())
    }

    fn new_leaf(&mut self) -> Result<(), String> {
        let (value, id) = match self.tensors.is_empty() || self.random.one_in(2) {
            true => {
                let shape = self.random_shape();
                let array = self.random_array(&shape);
                (self.to_tensor(&array), self.tape.given(array, None))
            }
            // shares its buffer with a tensor, whatever its layout
            false => {
                let i = self.random.below(self.tensors.len());
                self.tensors[i].clone()
            }
        };
        let array = self.tape.array(id).clone();
        let now = self.tape.given(array, Some(self.leaves.len()));
        let var = value.requires_grad();
        self.keep_var(var.clone(), Slot::Leaf(self.leaves.len()));
        self.leaves.push(Leaf { var, now, grad: None });
        Ok(())
    }

    fn keep_tensor(&mut self, tensor: Tensor, id: Id) {
        if self.tensors.len() < 6 {
            self.tensors.push((tensor, id));
        } else {
            let i = self.random.below(6);
            self.tensors[i] = (tensor, id);
        }
    }

    pub(crate) fn keep_var(&mut self, var: Var, slot: Slot) {
        if self.vars.len() < 10 {
            self.vars.push((var, slot));
        } else {
            let i = self.random.below(10);
            self.vars[i] = (var, slot);
        }
    }

    /// One step, and a look at everything that it might have changed.
    pub(crate) fn step(&mut self) -> Result<(), String> {
        let (kind, done) = match self.random.below(32) {
            0 => ("new tensor", self.new_tensor()),
            1 => ("new leaf", self.new_leaf()),
            2 => ("hand over", self.hand_over()),
            3..=8 => ("tensor operation", self.tensor_operation()),
            9..=14 => ("tensor write", self.tensor_write()),
            15..=23 => ("variable operation", self.var_operation()),
            24..=27 => ("variable write", self.var_write()),
            _ => ("backward pass", self.backward()),
        };
        *self.tally.entry(kind).or_default() += 1;
        done?;
        for (i, (t, id)) in self.tensors.iter().enumerate() {
            self.compare(t, *id, || format!("tensor {i}"))?;
        }
        for (i, (v, slot)) in self.vars.iter().enumerate() {
            self.compare(&v.value(), self.id(*slot), || format!("variable {i}"))?;
            let tracked = self.tape.tracked(self.id(*slot));
            if v.requires_grad() != tracked {
                return Err(format!("variable {i}: tracked by the model: {tracked}"));
            }
        }
        for (n, leaf) in self.leaves.iter().enumerate() {
            match (leaf.var.grad(), &leaf.grad) {
                (None, None) => {}
                (Some(g), Some(want)) if g.is_contiguous() => {
                    self.compare_array(&g, want, || format!("grad of leaf {n}"))?
                }
                (found, want) => return Err(format!("grad of leaf {n}: {found:?} instead of {want:?}")),
            }
        }
        Ok(())
    }

    pub(crate) fn compare(&self, found: &Tensor, id: Id, what: impl Fn() -> String) -> Result<(), String> {
        self.compare_array(found, self.tape.array(id), what)
    }

    fn compare_array(&self, found: &Tensor, want: &Array, what: impl Fn() -> String) -> Result<(), String> {
        let same_values = || match self.dtype {
            DType::F64 => found.to_vec::<f64>().unwrap() == want.values,
            _ => found.to_vec::<f32>().unwrap().iter().zip(&want.values).all(|(&f, &w)| f as f64 == w),
        };
        if found.dims() == want.shape && found.dtype() == self.dtype && same_values() {
            return Ok(());
        }
        Err(format!("{}: found {found:?}\nof strides {:?} instead of {want:?}", what(), found.strides()))
    }

    pub(crate) fn note(&mut self, text: impl FnOnce() -> String) {
        let text = text();
        if self.verbose {
            eprintln!("{text}");
        }
        self.log.push(text);
    }

    /// A value changes sides, or gets another handle: all of them share a buffer or a node.
    fn hand_over(&mut self) -> Result<(), String> {
        let (i, j) = (self.random.below(self.tensors.len()), self.random.below(self.vars.len()));
        let case = self.random.below(6);
        self.note(|| format!("hand over {case}: tensor {i}, variable {j}"));
        let ((tensor, tensor_id), (var, slot)) = (self.tensors[i].clone(), self.vars[j].clone());
        let var_id = self.id(slot);
        match case {
            0 => self.keep_tensor(tensor, tensor_id),
            1 => self.keep_var(var, slot),
            2 => {
                let id = self.tape.detached(var_id);
                self.keep_tensor(var.value(), id);
            }
            3 => self.keep_var(Var::from(tensor), Slot::Value(tensor_id)),
            4 => {
                let id = self.tape.detached(var_id);
                self.keep_var(var.detach(), Slot::Value(id));
            }
            _ => self.keep_tensor(tensor.contiguous(), tensor_id),
        }
        Ok(())
    }

    /// What came of an operation on both sides: kept if the model has it, else refused or left alone.
    fn agree<T, E: std::fmt::Debug>(
        &mut self,
        model: Result<Id, Refusal>,
        run: impl FnOnce(&Machine) -> Result<T, E>,
    ) -> Result<Option<(T, Id)>, String> {
        match model {
            Err(Refusal::Limit) => {
                *self.tally.entry("(left out: too large)").or_default() += 1;
                Ok(None)
            }
            Err(Refusal::Invalid) => match run(self) {
                Err(_) => Ok(None),
                Ok(_) => Err("should have been refused".into()),
            },
            Ok(id) => match run(self) {
                Ok(t) => Ok(Some((t, id))),
                Err(e) => Err(format!("was refused: {e:?}")),
            },
        }
    }

    /// A second operand, more often than not one that broadcasts with the first.
    fn partner(&mut self, shape: &[usize], shapes: &[Vec<usize>]) -> usize {
        let mut j = self.random.below(shapes.len());
        for _ in 0..4 {
            if broadcast(shape, &shapes[j]).is_ok() {
                break;
            }
            j = self.random.below(shapes.len());
        }
        j
    }

    fn tensor_operation(&mut self) -> Result<(), String> {
        let shapes: Vec<Vec<usize>> = self.tensors.iter().map(|t| t.0.dims().to_vec()).collect();
        let i = self.random.below(shapes.len());
        let j = self.partner(&shapes[i], &shapes);
        let op = Op::random(&mut self.random, &shapes[i], &shapes[j], self.sizes);
        self.note(|| format!("tensors {i} {:?}, {j} {:?}: {op:?}", shapes[i], shapes[j]));
        let model = op.on_model(&mut self.tape, self.tensors[i].1, self.tensors[j].1);
        let run = |m: &Machine| apply!(op, Tensor, &m.tensors[i].0, &m.tensors[j].0);
        if let Some((t, id)) = self.agree(model, run)? {
            self.compare(&t, id, || "the result".into())?;
            self.keep_tensor(t, id);
        }
        Ok(())
    }

    fn tensor_write(&mut self) -> Result<(), String> {
        let shapes: Vec<Vec<usize>> = self.tensors.iter().map(|t| t.0.dims().to_vec()).collect();
        let i = self.random.below(shapes.len());
        let j = self.partner(&shapes[i], &shapes);
        let write = Write::random(&mut self.random, &shapes[i]);
        self.note(|| format!("write into tensor {i} {:?} from {j} {:?}: {write:?}", shapes[i], shapes[j]));
        let arithmetic = matches!(write, Write::Add | Write::Sub | Write::Mul | Write::AddScaled(_));
        let model = match self.tensors[i].0.overlaps_itself() {
            // As PyTorch: not into an expanded view.
            true if arithmetic => Err(Refusal::Invalid),
            _ => write.on_model(&mut self.tape, self.tensors[i].1, self.tensors[j].1),
        };
        if model == Err(Refusal::Limit) {
            return Ok(());
        }
        // The target is written where it lies. The other one is itself, a clone of it, or another slot's own handle.
        let other = (i == j).then(|| self.tensors[j].0.clone());
        let mut target = std::mem::replace(&mut self.tensors[i].0, Tensor::from(0.0));
        let other = other.as_ref().unwrap_or(&self.tensors[j].0);
        let result = match &write {
            Write::Add => target.add_(other).map(|_| ()),
            Write::Sub => target.sub_(other).map(|_| ()),
            Write::Mul => target.mul_(other).map(|_| ()),
            &Write::AddScaled(c) => target.add_with_(other, c).map(|_| ()),
            Write::Assign(parts) => target.slice_assign(slices(parts), other).map(|_| ()),
            &Write::Fill(c) => target.fill_(c).map(|_| ()),
            Write::Copy => target.copy_(other).map(|_| ()),
        };
        self.tensors[i].0 = target;
        if let Some(((), id)) = self.agree(model, |_| result)? {
            self.tensors[i].1 = id;
        }
        Ok(())
    }

    fn var_operation(&mut self) -> Result<(), String> {
        let shapes: Vec<Vec<usize>> = self.vars.iter().map(|v| v.0.shape().to_vec()).collect();
        let i = self.random.below(shapes.len());
        let j = self.partner(&shapes[i], &shapes);
        let op = Op::random(&mut self.random, &shapes[i], &shapes[j], self.sizes);
        self.note(|| format!("variables {i} {:?}, {j} {:?}: {op:?}", shapes[i], shapes[j]));
        let (a, b) = (self.id(self.vars[i].1), self.id(self.vars[j].1));
        let unrecorded = self.random.one_in(12);
        let model = op.on_model(&mut self.tape, a, b);
        let run = |m: &Machine| {
            let run = || apply!(op, Var, &m.vars[i].0, &m.vars[j].0);
            if unrecorded { no_grad(run) } else { run() }
        };
        if let Some((v, id)) = self.agree(model, run)? {
            self.compare(&v.value(), id, || "the result".into())?;
            let slot = match id {
                _ if id == a => self.vars[i].1,
                _ if unrecorded => Slot::Value(self.tape.detached(id)),
                _ => Slot::Value(id),
            };
            self.keep_var(v, slot);
        }
        Ok(())
    }

    fn var_write(&mut self) -> Result<(), String> {
        let shapes: Vec<Vec<usize>> = self.vars.iter().map(|v| v.0.shape().to_vec()).collect();
        let i = self.random.below(shapes.len());
        let j = self.partner(&shapes[i], &shapes);
        let write = Write::random(&mut self.random, &shapes[i]);
        if matches!(write, Write::Fill(_) | Write::Copy) {
            return Ok(());
        }
        let unrecorded = self.random.one_in(2);
        self.note(|| {
            format!(
                "write into variable {i} {:?} from {j} {:?}, unrecorded: {unrecorded}: {write:?}",
                shapes[i], shapes[j]
            )
        });
        let slot = self.vars[i].1;
        let (target_id, other_id) = (self.id(slot), self.id(self.vars[j].1));
        let model = match slot {
            Slot::Leaf(_) if !unrecorded => Err(Refusal::Invalid),
            _ if self.vars[i].0.value().overlaps_itself() => Err(Refusal::Invalid),
            _ => write.on_model(&mut self.tape, target_id, other_id),
        };
        if model == Err(Refusal::Limit) {
            return Ok(());
        }
        let other = self.vars[j].0.clone();
        let target = &mut self.vars[i].0;
        let mut run = || match &write {
            Write::Add => target.add_(&other).map(|_| ()),
            Write::Sub => target.sub_(&other).map(|_| ()),
            Write::Mul => target.mul_(&other).map(|_| ()),
            &Write::AddScaled(c) => target.add_with_(&other, c).map(|_| ()),
            Write::Assign(parts) => target.slice_assign(slices(parts), &other).map(|_| ()),
            Write::Fill(_) | Write::Copy => Ok(()),
        };
        let result = if unrecorded { no_grad(run) } else { run() };
        if let Some(((), id)) = self.agree(model, |_| result)? {
            match slot {
                Slot::Leaf(n) => {
                    let array = self.tape.array(id).clone();
                    self.leaves[n].now = self.tape.given(array, Some(n));
                }
                Slot::Value(_) if unrecorded => self.vars[i].1 = Slot::Value(self.tape.detached(id)),
                Slot::Value(_) => self.vars[i].1 = Slot::Value(id),
            }
        }
        Ok(())
    }
}
