//! W9 to W11: one step of training a small network, as a user writes it.

use foldback::Result;
use foldback::graph::Var;
use foldback::prelude::*;

use super::{Unit, Work, Workload, tensor};
use crate::checksum::Checksum;
use crate::inputs::{Input, labels};
use crate::measure::Job;

/// The function between layers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// the hyperbolic tangent
    Tanh,
    /// the positive part
    ReLU,
}

/// What is minimised, and by which optimiser.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// mean squared error, stochastic gradient descent
    MseSgd,
    /// cross-entropy, Adam
    CrossEntropyAdam,
}

/// A network, its data and its training, the same for every library.
#[derive(Clone, Copy, Debug)]
pub struct Mlp {
    /// the workload's key
    pub key: &'static str,
    /// features from the input to the output
    pub sizes: &'static [usize],
    /// rows of the input
    pub batch: usize,
    /// between layers
    pub activation: Activation,
    /// loss and optimiser
    pub goal: Goal,
}

/// The networks of W9, W10 and W11.
pub const MLPS: [Mlp; 3] = [
    Mlp { key: "W9", sizes: &[2, 16, 16, 1], batch: 16, activation: Activation::Tanh, goal: Goal::MseSgd },
    Mlp {
        key: "W10",
        sizes: &[64, 128, 64, 10],
        batch: 64,
        activation: Activation::ReLU,
        goal: Goal::CrossEntropyAdam,
    },
    Mlp {
        key: "W11",
        sizes: &[784, 512, 256, 10],
        batch: 128,
        activation: Activation::ReLU,
        goal: Goal::CrossEntropyAdam,
    },
];

/// The checksum covers the losses of this many steps from the start, and the parameters after them.
pub const STEPS_CHECKED: usize = 5;

/// Training starts anew after this many steps: later ones would meet denormal numbers in Adam's moments of units that
/// have died, and measure those.
pub const RESET_AFTER: usize = 200;

impl Mlp {
    /// Length of a step.
    pub fn learning_rate(&self) -> f64 {
        if self.goal == Goal::MseSgd { 0.05 } else { 1e-3 }
    }

    /// The initial weight `[out, in]` and bias `[out]` of a layer.
    pub fn layer(&self, i: usize) -> (Input<2>, Input<1>) {
        let (n, m) = (self.sizes[i], self.sizes[i + 1]);
        let (bound, salt) = (1.0 / (n as f32).sqrt(), 20 + 2 * i as u32);
        (Input::new([m, n], salt, -bound, bound), Input::new([m], salt + 1, -bound, bound))
    }

    /// How many layers there are.
    pub fn layers(&self) -> usize {
        self.sizes.len() - 1
    }

    /// The rows that go in.
    pub fn input(&self) -> Input<2> {
        Input::new([self.batch, self.sizes[0]], 30, -0.5, 1.0)
    }

    /// The numbers to be learnt under `MseSgd`.
    pub fn target(&self) -> Input<2> {
        Input::new([self.batch, self.sizes[self.layers()]], 31, -0.5, 1.0)
    }

    /// The classes to be learnt under `CrossEntropyAdam`.
    pub fn classes(&self) -> Vec<i64> {
        labels(self.batch, 31, self.sizes[self.layers()] as u32)
    }

    /// What takes the steps.
    pub(super) fn optimizer(&self, parameters: &[Var]) -> Box<dyn Optimizer> {
        match self.goal {
            Goal::MseSgd => Box::new(SGD::new(parameters, self.learning_rate())),
            Goal::CrossEntropyAdam => Box::new(Adam::new(parameters, self.learning_rate())),
        }
    }

    pub(super) fn title(&self) -> String {
        let sizes: Vec<_> = self.sizes.iter().map(usize::to_string).collect();
        let goal = if self.goal == Goal::MseSgd { "tanh, MSE, SGD" } else { "ReLU, cross-entropy, Adam" };
        format!("training step of {}, batch {}, {goal}", sizes.join("-"), self.batch)
    }

    /// Products forward, for the weights' gradients, and for the inputs' gradients but the first layer's.
    fn work(&self) -> Work {
        let products: usize = self.sizes.windows(2).map(|s| s[0] * s[1]).sum();
        let flops = 2 * self.batch * (3 * products - self.sizes[0] * self.sizes[1]);
        Work { flops, ..Work::default() }
    }
}

pub(super) fn list() -> Vec<Workload> {
    let of = |mlp: Mlp| workload(mlp.key, mlp.title(), mlp.work(), move || Trainer::of(mlp));
    MLPS.into_iter().map(of).collect()
}

/// A step of training, which starts anew every [`RESET_AFTER`] steps.
pub(super) fn workload(
    key: &'static str,
    title: impl Into<String>,
    work: Work,
    make: impl Fn() -> Result<Trainer> + Clone + Send + Sync + 'static,
) -> Workload {
    Workload::new(key, title, Unit::Step, work, move || {
        Ok(Training { trainer: make()?, make: make.clone(), steps: 0 })
    })
}

/// The network with its initial weights.
pub(super) fn model(mlp: Mlp) -> Result<Sequential> {
    let mut model = Sequential::new();
    for i in 0..mlp.layers() {
        if i > 0 {
            match mlp.activation {
                Activation::Tanh => model.push(Tanh),
                Activation::ReLU => model.push(ReLU),
            }
        }
        let (weight, bias) = mlp.layer(i);
        let (weight, bias) = (tensor(weight)?.requires_grad(), tensor(bias)?.requires_grad());
        model.push(Linear::from_parameters(weight, Some(bias))?);
    }
    Ok(model)
}

/// A model in training.
pub(super) struct Trainer {
    pub(super) parameters: Vec<Var>,
    pub(super) optimizer: Box<dyn Optimizer>,
    pub(super) loss: Box<dyn Fn() -> Result<Var>>,
}

impl Trainer {
    fn of(mlp: Mlp) -> Result<Trainer> {
        let model = model(mlp)?;
        let parameters = model.parameters();
        let optimizer = mlp.optimizer(&parameters);
        let input = Var::from(tensor(mlp.input())?);
        let loss: Box<dyn Fn() -> Result<Var>> = match mlp.goal {
            Goal::MseSgd => {
                let target = tensor(mlp.target())?;
                Box::new(move || loss::mse_loss(model.forward(&input)?, &target))
            }
            Goal::CrossEntropyAdam => {
                let target = Tensor::from_vec(mlp.classes(), [mlp.batch])?;
                Box::new(move || loss::cross_entropy(model.forward(&input)?, &target))
            }
        };
        Ok(Trainer { parameters, optimizer, loss })
    }

    fn step(&self) -> Result<Var> {
        self.optimizer.zero_grad();
        let loss = (self.loss)()?;
        loss.backward()?;
        self.optimizer.step()?;
        Ok(loss)
    }
}

struct Training<F> {
    make: F,
    trainer: Trainer,
    steps: usize,
}

impl<F: Fn() -> Result<Trainer>> Job for Training<F> {
    fn run(&mut self) -> Result<()> {
        self.steps += 1;
        self.trainer.step()?;
        Ok(())
    }
    fn reset(&mut self) -> Result<()> {
        if self.steps >= RESET_AFTER {
            self.trainer = (self.make)()?;
            self.steps = 0;
        }
        Ok(())
    }
    fn checksums(&mut self) -> Result<Vec<Checksum>> {
        let trainer = (self.make)()?;
        let mut sums = Vec::new();
        for _ in 0..STEPS_CHECKED {
            sums.push(Checksum::of_tensor(&trainer.step()?.value())?);
        }
        for p in &trainer.parameters {
            sums.push(Checksum::of_tensor(&p.value())?);
        }
        Ok(sums)
    }
}
