//! W9, W10 and the network of the digits as epochs over a loader: a loop by hand, and the same by `Fit`, which is to cost at most 3 % more.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use foldback::Result;
use foldback::data::BatchOf;
use foldback::graph::Var;
use foldback::prelude::*;

use super::training::model;
use super::{Goal, MLPS, Mlp, Unit, Work, Workload, tensor};
use crate::checksum::Checksum;
use crate::inputs::{Input, labels};
use crate::measure::Job;

/// How many steps an epoch has.
const STEPS: usize = 64;

pub(super) fn list() -> Vec<Workload> {
    let [w9, w10, _] = MLPS;
    let nets = [
        (Net::Mlp(w9), ["W9-loop", "W9-fit", "W9-loop-watched", "W9-fit-watched"]),
        (Net::Mlp(w10), ["W10-loop", "W10-fit", "W10-loop-watched", "W10-fit-watched"]),
        (Net::Digits, ["W14b-loop", "W14b-fit", "W14b-loop-watched", "W14b-fit-watched"]),
    ];
    let all = |(net, keys): (Net, [&'static str; 4])| {
        let epoch = move |key: &'static str, by_fit: bool, watched: bool| {
            let manner = if by_fit { "by Fit" } else { "a loop by hand" };
            let also = if watched { ", with the gradients' norm, early stopping and a log" } else { "" };
            let title = format!("an epoch of {STEPS} steps, {manner}{also}: {}", net.title());
            let how = Loop { net, by_fit, watched };
            let workload = Workload::new(key, title, Unit::Step, Work::default(), move || Epoch::new(how));
            Workload { same_as: keys[0], ..workload }
        };
        keys.into_iter()
            .zip([(false, false), (true, false), (false, true), (true, true)])
            .map(move |(key, (by_fit, watched))| epoch(key, by_fit, watched))
    };
    nets.into_iter().flat_map(all).collect()
}

/// What is trained.
#[derive(Clone, Copy)]
enum Net {
    Mlp(Mlp),
    /// the two convolutions of the example `digits`, without dropout
    Digits,
}

/// Images of a batch of the digits.
const IMAGES: usize = 64;

impl Net {
    fn title(self) -> String {
        match self {
            Net::Mlp(mlp) => mlp.title(),
            Net::Digits => {
                format!("training step of the digits' convolutions, batch {IMAGES}, cross-entropy, Adam")
            }
        }
    }

    fn goal(self) -> Goal {
        match self {
            Net::Mlp(mlp) => mlp.goal,
            Net::Digits => Goal::CrossEntropyAdam,
        }
    }

    fn model(self) -> Result<Sequential> {
        let Net::Mlp(mlp) = self else {
            manual_seed(0);
            return Ok(sequential![
                Conv2d::new(1, 16, 3).padding(1),
                ReLU,
                Conv2d::new(16, 32, 3).padding(1),
                ReLU,
                MaxPool2d::new(2),
                Flatten::new(),
                Linear::new(512, 10),
            ]);
        };
        model(mlp)
    }

    fn optimizer(self, model: &Sequential) -> Box<dyn Optimizer> {
        match self {
            Net::Mlp(mlp) => mlp.optimizer(&model.parameters()),
            Net::Digits => Box::new(Adam::new(model.parameters(), 4e-3)),
        }
    }

    fn loader(self) -> Result<DataLoader<TensorDataset<2>>> {
        let (x, y, batch) = match self {
            Net::Mlp(mlp) => {
                let all = Mlp { batch: mlp.batch * STEPS, ..mlp };
                let target = match mlp.goal {
                    Goal::MseSgd => tensor(all.target())?,
                    Goal::CrossEntropyAdam => all.classes().into(),
                };
                (tensor(all.input())?, target, mlp.batch)
            }
            Net::Digits => {
                let images = Input::new([IMAGES * STEPS, 1, 8, 8], 40, 0.0, 1.0);
                (tensor(images)?, labels(IMAGES * STEPS, 41, 10).into(), IMAGES)
            }
        };
        Ok(DataLoader::new(TensorDataset::new([x, y]), batch))
    }
}

/// What is trained, and how.
#[derive(Clone, Copy)]
struct Loop {
    net: Net,
    by_fit: bool,
    /// with all that `Fit` can do around a step, but for checkpoints and a terminal
    watched: bool,
}

/// A model and its data; each sample is the same epoch.
struct Epoch {
    how: Loop,
    model: Sequential,
    optimizer: Box<dyn Optimizer>,
    loader: DataLoader<TensorDataset<2>>,
    log: LogFile,
}

/// The file of a log, which goes away with this.
struct LogFile(PathBuf);

impl LogFile {
    fn new() -> LogFile {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name =
            format!("foldback-bench-{}-{}.csv", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        LogFile(std::env::temp_dir().join(name))
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        // There is none if nothing was watched.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Epoch {
    fn new(how: Loop) -> Result<Epoch> {
        let model = how.net.model()?;
        let optimizer = how.net.optimizer(&model);
        Ok(Epoch { how, optimizer, model, loader: how.net.loader()?, log: LogFile::new() })
    }

    /// As one writes it by hand where all of it is watched.
    fn watched_by_hand(
        &mut self,
        loss: impl Fn(&Sequential, &BatchOf<TensorDataset<2>>) -> Result<Var>,
    ) -> Result<()> {
        let (clock, lr) = (Instant::now(), self.optimizer.lr());
        let (mut log, mut stopping) = (CsvLog::create(&self.log.0)?, EarlyStopping::new(3));
        let (mut sum, mut largest) = (0.0, 0f64);
        self.model.train();
        for batch in &self.loader {
            self.optimizer.zero_grad();
            let loss = loss(&self.model, &batch?)?;
            let number = loss.item()?;
            if !number.is_finite() {
                return Err(Error::other("the loss is not finite"));
            }
            loss.backward()?;
            let norm = clip_grad_norm_with_(self.model.parameters(), f64::INFINITY, 2.0, true)?;
            self.optimizer.step()?;
            sum += number;
            largest = largest.max(norm);
        }
        let (mean, seconds) = (sum / STEPS as f64, clock.elapsed().as_secs_f64());
        std::hint::black_box(stopping.update(mean));
        log.log(0, &[("loss", mean), ("lr", lr), ("seconds", seconds), ("gradient_norm", largest)])
    }
}

impl Job for Epoch {
    fn reset(&mut self) -> Result<()> {
        *self = Epoch::new(self.how)?;
        Ok(())
    }
    fn run(&mut self) -> Result<()> {
        let Loop { net, by_fit, watched } = self.how;
        let goal = net.goal();
        let loss = |model: &Sequential, [x, y]: &BatchOf<TensorDataset<2>>| -> Result<Var> {
            match goal {
                Goal::MseSgd => loss::mse_loss(model.forward(x)?, y),
                Goal::CrossEntropyAdam => loss::cross_entropy(model.forward(x)?, y),
            }
        };
        if by_fit {
            let mut fit = Fit::new(&mut self.model, self.optimizer.as_ref());
            if watched {
                fit = fit.gradient_limit(f64::INFINITY).early_stopping(3).log(CsvLog::create(&self.log.0)?);
            }
            fit.run(&self.loader, loss)?;
            return Ok(());
        }
        if watched {
            return self.watched_by_hand(loss);
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
