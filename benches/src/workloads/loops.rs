//! W9 and W10 as epochs over a loader: a loop by hand, and the same by `Fit`, which is to cost less than 3 % more.

use foldback::Result;
use foldback::data::BatchOf;
use foldback::graph::Var;
use foldback::prelude::*;

use super::training::model;
use super::{Goal, MLPS, Mlp, Unit, Work, Workload, tensor};
use crate::checksum::Checksum;
use crate::measure::Job;

/// How many steps an epoch has.
const STEPS: usize = 64;

pub(super) fn list() -> Vec<Workload> {
    let both = |mlp: Mlp, [loop_key, fit_key]: [&'static str; 2]| {
        let epoch = |key: &'static str, how: &str, by_fit: bool| {
            let title = format!("an epoch of {STEPS} steps, {how}: {}", mlp.title());
            Workload::new(key, title, Unit::Step, Work::default(), move || Epoch::new(mlp, by_fit))
        };
        let by_hand = epoch(loop_key, "a loop by hand", false);
        [by_hand, Workload { same_as: loop_key, ..epoch(fit_key, "by Fit", true) }]
    };
    let [w9, w10, _] = MLPS;
    [both(w9, ["W9-loop", "W9-fit"]), both(w10, ["W10-loop", "W10-fit"])].into_iter().flatten().collect()
}

/// A model and its data; each sample is the same epoch.
struct Epoch {
    mlp: Mlp,
    by_fit: bool,
    model: Sequential,
    optimizer: Box<dyn Optimizer>,
    loader: DataLoader<TensorDataset<2>>,
}

impl Epoch {
    fn new(mlp: Mlp, by_fit: bool) -> Result<Epoch> {
        let model = model(mlp)?;
        let all = Mlp { batch: mlp.batch * STEPS, ..mlp };
        let target = match mlp.goal {
            Goal::MseSgd => tensor(all.target())?,
            Goal::CrossEntropyAdam => all.classes().into(),
        };
        let loader = DataLoader::new(TensorDataset::new([tensor(all.input())?, target]), mlp.batch);
        Ok(Epoch { optimizer: mlp.optimizer(&model.parameters()), mlp, by_fit, model, loader })
    }
}

impl Job for Epoch {
    fn reset(&mut self) -> Result<()> {
        *self = Epoch::new(self.mlp, self.by_fit)?;
        Ok(())
    }
    fn run(&mut self) -> Result<()> {
        let goal = self.mlp.goal;
        let loss = |model: &Sequential, [x, y]: &BatchOf<TensorDataset<2>>| -> Result<Var> {
            match goal {
                Goal::MseSgd => loss::mse_loss(model.forward(x)?, y),
                Goal::CrossEntropyAdam => loss::cross_entropy(model.forward(x)?, y),
            }
        };
        if self.by_fit {
            Fit::new(&mut self.model, self.optimizer.as_ref()).run(&self.loader, loss)?;
            return Ok(());
        }
        let mut sum = 0.0;
        for batch in &self.loader {
            self.optimizer.zero_grad();
            let loss = loss(&self.model, &batch?)?;
            loss.backward()?;
            self.optimizer.step()?;
            sum += loss.item()?;
        }
        std::hint::black_box(sum);
        Ok(())
    }
    fn checksums(&mut self) -> Result<Vec<Checksum>> {
        self.reset()?;
        self.run()?;
        self.model.parameters().iter().map(|p| Checksum::of_tensor(&p.value())).collect()
    }
}
