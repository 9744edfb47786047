//! The workloads in dfdx, with shapes that the compiler knows, its fastest form. It has no axes of size 1 to broadcast:
//! vectors stand for them.

use dfdx::losses::{cross_entropy_with_logits_loss, mse_loss};
use dfdx::nn::modules::{Linear, ReLU, Tanh};
use dfdx::optim::{Adam, Optimizer, Sgd};
use dfdx::prelude::*;

use super::job::{Elementary, timed};
use crate::checksum::Checksum;
use crate::inputs::*;
use crate::measure::Job;
use crate::worker::Making;
use crate::workloads::{MLPS, Mlp, RESET_AFTER, STEPS_CHECKED};

type Plain<S> = Tensor<S, f32, Cpu>;
type Traced<S> = Tensor<S, f32, Cpu, OwnedTape<f32, Cpu>>;
type Big = Rank2<4096, 1024>;

pub(super) fn job(key: &str) -> Option<Making> {
    if let Some((function, back)) = Elementary::of(key) {
        return Some(elementary(function, back));
    }
    Some(match key {
        "W1" => forward(tensor::<Big, 2>(X), tensor::<Rank1<1024>, 1>(ROW), |x, w| x + w.broadcast()),
        "W2" => {
            forward(tensor::<Rank1<2048>, 2>(OUTER_COLUMN), tensor::<Rank1<2048>, 2>(OUTER_ROW), |a, b| {
                a.broadcast::<Rank2<2048, 2048>, Axis<1>>() * b.broadcast::<Rank2<2048, 2048>, Axis<0>>()
            })
        }
        "W3" => {
            backward(tensor::<Big, 2>(X), tensor::<Rank1<1024>, 1>(ROW), |x, w| (x * w.broadcast()).sum())
        }
        "W4" => {
            let product = |x: Traced<Big>, w: Traced<Rank1<4096>>| (x * w.broadcast::<Big, Axis<1>>()).sum();
            backward(tensor::<Big, 2>(X), tensor::<Rank1<4096>, 2>(COLUMN), product)
        }
        "W23" => {
            backward(tensor::<Rank1<10>, 1>(TEN), tensor::<Rank1<10>, 1>(TEN_WEIGHTS), |x, w| (x * w).sum())
        }
        "W7-columns" => forward(tensor::<Big, 2>(X), scalar(), |x, _| x.sum::<Rank1<1024>, Axis<0>>()),
        "W7-rows" => forward(tensor::<Big, 2>(X), scalar(), |x, _| x.sum::<Rank1<4096>, Axis<1>>()),
        "W7-all" => forward(tensor::<Big, 2>(X), scalar(), |x, _| x.sum::<Rank0, Axes2<0, 1>>()),
        "W8-forward" => {
            let x = start(CHAIN_START);
            timed(move || Ok(chain(&x)), |y| Ok(vec![Checksum::of_f32(&y.as_vec())]))
        }
        "W8-backward" => Ok(Box::new(ChainBack { x: start(CHAIN_START), ready: Vec::new() })),
        "W9" => training::<Tanhs>(MLPS[0]),
        "W10" => training::<Digits>(MLPS[1]),
        "W11" => training::<Images>(MLPS[2]),
        "W12-64" => square::<64>(),
        "W12-256" => square::<256>(),
        "W12-1024" => square::<1024>(),
        "W12-2048" => square::<2048>(),
        "W15" => additions(),
        _ => return None,
    })
}

fn from_values<S: Shape + Default>(values: Vec<f32>) -> Plain<S> {
    Cpu::default().tensor_from_vec(values, S::default())
}

fn tensor<S: Shape + Default, const N: usize>(input: Input<N>) -> Plain<S> {
    from_values(input.values())
}

fn scalar() -> Plain<Rank0> {
    from_values(vec![0.0])
}

fn start(value: f32) -> Plain<Rank1<1>> {
    from_values(vec![value])
}

fn forward<A: Shape, B: Shape, C: Shape>(
    a: Plain<A>,
    b: Plain<B>,
    f: impl Fn(Plain<A>, Plain<B>) -> Plain<C> + 'static,
) -> Making {
    timed(move || Ok(f(a.clone(), b.clone())), |t| Ok(vec![Checksum::of_f32(&t.as_vec())]))
}

/// A number and its gradients by both tensors.
fn backward<A: Shape, B: Shape>(
    a: Plain<A>,
    b: Plain<B>,
    f: impl Fn(Traced<A>, Traced<B>) -> Traced<Rank0> + 'static,
) -> Making {
    let (x, w) = (a.clone(), b.clone());
    let run = move || {
        let loss = f(a.leaky_trace(), b.leaky_trace());
        let value = loss.as_vec();
        Ok((value, loss.backward()))
    };
    timed(run, move |(value, gradients)| {
        let (x, w) = (gradients.get(&x).as_vec(), gradients.get(&w).as_vec());
        Ok([value, x, w].iter().map(|v| Checksum::of_f32(v)).collect())
    })
}

fn square<const N: usize>() -> Making {
    let [a, b] = factors(N);
    forward(tensor::<Rank2<N, N>, 2>(a), tensor::<Rank2<N, N>, 2>(b), |a, b| a.matmul(b))
}

fn elementary(function: Elementary, back: bool) -> Making {
    let x = tensor::<Big, 2>(ELEMENTS);
    if !back {
        return forward(x, scalar(), move |x, _| match function {
            Elementary::Exp => x.exp(),
            Elementary::Tanh => x.tanh(),
            Elementary::Gelu => x.accurate_gelu(),
            Elementary::Sigmoid => x.sigmoid(),
        });
    }
    let again = x.clone();
    let run = move || {
        let x = x.leaky_trace();
        let y = match function {
            Elementary::Exp => x.exp(),
            Elementary::Tanh => x.tanh(),
            Elementary::Gelu => x.accurate_gelu(),
            Elementary::Sigmoid => x.sigmoid(),
        };
        let loss = y.sum::<Rank0, Axes2<0, 1>>();
        let value = loss.as_vec();
        Ok((value, loss.backward()))
    };
    timed(run, move |(value, gradients)| {
        Ok(vec![Checksum::of_f32(&value), Checksum::of_f32(&gradients.get(&again).as_vec())])
    })
}

fn chain(x: &Plain<Rank1<1>>) -> Traced<Rank1<1>> {
    let mut y = x.leaky_trace() * x.clone();
    for _ in 0..CHAIN_NODES / 2 {
        y = y * x.clone() + x.clone();
    }
    y
}

fn additions() -> Making {
    let x = start(1.0);
    let (one, again) = (start(1.0), x.clone());
    let run = move || {
        let mut y = x.leaky_trace();
        for _ in 0..ADDITIONS {
            y = y + one.clone();
        }
        let value = y.as_vec();
        Ok((value, y.sum::<Rank0, Axis<0>>().backward()))
    };
    timed(run, move |(value, gradients)| {
        Ok(vec![Checksum::of_f32(&value), Checksum::of_f32(&gradients.get(&again).as_vec())])
    })
}

struct ChainBack {
    x: Plain<Rank1<1>>,
    ready: Vec<Traced<Rank0>>,
}

impl Job for ChainBack {
    fn needs_preparation(&self) -> bool {
        true
    }
    fn prepare(&mut self) -> foldback::Result<()> {
        self.ready.push(chain(&self.x).sum::<Rank0, Axis<0>>());
        Ok(())
    }
    fn run(&mut self) -> foldback::Result<()> {
        let y = self.ready.pop().expect("a run is prepared");
        std::hint::black_box(y.backward());
        Ok(())
    }
    fn checksums(&mut self) -> foldback::Result<Vec<Checksum>> {
        let gradients = chain(&self.x).sum::<Rank0, Axis<0>>().backward();
        Ok(vec![Checksum::of_f32(&gradients.get(&self.x).as_vec())])
    }
}

/// A network of known shapes with its optimiser.
trait Steps: Sized {
    fn new(mlp: Mlp) -> Self;
    /// One step; its loss.
    fn step(&mut self) -> f32;
    fn parameters(&self) -> Vec<Vec<f32>>;
}

struct Training<T> {
    mlp: Mlp,
    steps: usize,
    network: T,
}

fn training<T: Steps + 'static>(mlp: Mlp) -> Making {
    Ok(Box::new(Training { mlp, steps: 0, network: T::new(mlp) }))
}

impl<T: Steps> Job for Training<T> {
    fn reset(&mut self) -> foldback::Result<()> {
        if self.steps >= RESET_AFTER {
            self.network = T::new(self.mlp);
            self.steps = 0;
        }
        Ok(())
    }
    fn run(&mut self) -> foldback::Result<()> {
        self.steps += 1;
        std::hint::black_box(self.network.step());
        Ok(())
    }
    fn checksums(&mut self) -> foldback::Result<Vec<Checksum>> {
        let mut network = T::new(self.mlp);
        let mut sums: Vec<_> = (0..STEPS_CHECKED).map(|_| Checksum::of_f32(&[network.step()])).collect();
        sums.extend(network.parameters().iter().map(|v| Checksum::of_f32(v)));
        Ok(sums)
    }
}

/// A network of three layers in training. The types of a dfdx model hold its sizes, so each has its own.
macro_rules! network {
    ($name:ident, $a:literal, $b:literal, $c:literal, $d:literal, $batch:literal, $between:ident, $optimizer:ident,
     $config:expr, $target:expr, $loss:expr) => {
        struct $name {
            model: Layers<$a, $b, $c, $d, $between>,
            optimizer: $optimizer<Layers<$a, $b, $c, $d, $between>, f32, Cpu>,
            input: Plain<Rank2<$batch, $a>>,
            target: Plain<Rank2<$batch, $d>>,
        }

        impl Steps for $name {
            fn new(mlp: Mlp) -> Self {
                let model = (layer(mlp, 0), $between, layer(mlp, 1), $between, layer(mlp, 2));
                let optimizer = $optimizer::new(&model, $config(mlp));
                Self { optimizer, model, input: tensor(mlp.input()), target: from_values($target(mlp)) }
            }
            fn step(&mut self) -> f32 {
                let output = self.model.forward(self.input.leaky_trace());
                let loss = $loss(output, self.target.clone());
                let value = loss.array();
                let gradients = loss.backward();
                self.optimizer.update(&mut self.model, &gradients).expect("every parameter is used");
                value
            }
            fn parameters(&self) -> Vec<Vec<f32>> {
                let (l1, _, l2, _, l3) = &self.model;
                let weights = [l1.weight.as_vec(), l2.weight.as_vec(), l3.weight.as_vec()];
                let biases = [l1.bias.as_vec(), l2.bias.as_vec(), l3.bias.as_vec()];
                weights.into_iter().zip(biases).flat_map(|(w, b)| [w, b]).collect()
            }
        }
    };
}

type Layers<const A: usize, const B: usize, const C: usize, const D: usize, F> =
    (Linear<A, B, f32, Cpu>, F, Linear<B, C, f32, Cpu>, F, Linear<C, D, f32, Cpu>);

network!(Tanhs, 2, 16, 16, 1, 16, Tanh, Sgd, sgd, numbers, mse_loss);
network!(Digits, 64, 128, 64, 10, 64, ReLU, Adam, adam, probabilities, cross_entropy_with_logits_loss);
network!(Images, 784, 512, 256, 10, 128, ReLU, Adam, adam, probabilities, cross_entropy_with_logits_loss);

fn layer<const I: usize, const O: usize>(mlp: Mlp, i: usize) -> Linear<I, O, f32, Cpu> {
    let (weight, bias) = mlp.layer(i);
    Linear { weight: tensor(weight), bias: tensor(bias) }
}

fn sgd(mlp: Mlp) -> SgdConfig {
    SgdConfig { lr: mlp.learning_rate(), momentum: None, weight_decay: None }
}

fn adam(mlp: Mlp) -> AdamConfig {
    AdamConfig { lr: mlp.learning_rate(), ..AdamConfig::default() }
}

fn numbers(mlp: Mlp) -> Vec<f32> {
    mlp.target().values()
}

/// dfdx wants a probability for each class.
fn probabilities(mlp: Mlp) -> Vec<f32> {
    let classes = mlp.sizes[mlp.layers()];
    let one_hot = |class: i64| (0..classes).map(move |c| if c as i64 == class { 1.0 } else { 0.0 });
    mlp.classes().into_iter().flat_map(one_hot).collect()
}
