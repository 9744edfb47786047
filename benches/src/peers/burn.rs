//! The workloads in burn, with its Flex backend. Operands of a lower rank are reshaped first, as burn wants it.

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::nn::loss::{CrossEntropyLossConfig, MseLoss, Reduction};
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer, SgdConfig};
use burn::tensor::{Device, Int, Tensor, TensorData, activation};

use super::job::{Elementary, timed};
use crate::checksum::Checksum;
use crate::inputs::*;
use crate::measure::Job;
use crate::worker::Making;
use crate::workloads::{Activation, Goal, MLPS, Mlp, RESET_AFTER, STEPS_CHECKED};

pub(super) fn job(key: &str) -> Option<Making> {
    if let Some(mlp) = MLPS.iter().find(|m| m.key == key) {
        return Some(Ok(Box::new(Training::new(*mlp))));
    }
    if let Some((function, back)) = Elementary::of(key) {
        return Some(elementary(function, back));
    }
    Some(match key {
        "W1" => forward(plain(X), plain(row(ROW)), |x, w| x + w),
        "W2" => forward(plain(OUTER_COLUMN), plain(OUTER_ROW), |a, b| a * b),
        "W3" => product_sum(X, row(ROW)),
        "W4" => product_sum(X, COLUMN),
        "W23" => product_sum(row(TEN), row(TEN_WEIGHTS)),
        "W5" => product_sum(CUBE, MIDDLE),
        "W5b" => {
            let (x, w, b) = (leaf(X), leaf(row(ROW)), leaf(row(BIAS)));
            backward([x, w, b], |[x, w, b]| (x * w + b).square().sum())
        }
        "W6" => {
            let weight = tracked(SAMPLE_WEIGHT);
            let leaves = [leaf(SAMPLES), leaf(row(GAMMA)), leaf(row(BETA))];
            backward(leaves, move |[x, gamma, beta]| {
                let centred = x.clone() - x.mean_dim(0);
                let deviation = (centred.clone().square().mean_dim(0) + EPSILON).sqrt();
                ((centred / deviation * gamma + beta) * weight.clone()).sum()
            })
        }
        "W7-columns" => reduced(X, |x| x.sum_dim(0)),
        "W7-rows" => reduced(X, |x| x.sum_dim(1)),
        "W7-all" => reduced(X, |x| x.sum()),
        "W7-middle" => reduced(CUBE, |x| x.sum_dim(0).sum_dim(2)),
        "W8-forward" => {
            let x = start(CHAIN_START);
            timed(move || Ok(chain(&x)), |y| Ok(vec![sum(y)]))
        }
        "W8-backward" => Ok(Box::new(ChainBack { x: start(CHAIN_START), ready: Vec::new() })),
        "W12-64" => square(64),
        "W12-256" => square(256),
        "W12-1024" => square(1024),
        "W12-2048" => square(2048),
        "W12b" => backward([leaf(BATCH_A), leaf(BATCH_B)], |[a, b]| a.matmul(b).sum()),
        "W12b-dense" => backward([leaf(BATCH_A), leaf(BATCH_B)], |[a, b]| a.matmul(b).square().sum()),
        "W15" => backward([start(1.0)], |[x]| {
            let one = Tensor::<1>::from_data([1.0f32], &Device::flex().autodiff());
            let mut y = x + one.clone();
            for _ in 1..ADDITIONS {
                y = y + one.clone();
            }
            y
        }),
        "W17-log_softmax" => backward([leaf(SCORES)], |[x]| activation::log_softmax(x, 1).sum()),
        "W17-cross_entropy" => {
            let device = Device::flex().autodiff();
            let [n, classes] = SCORES.shape;
            let target = classes_of(labels(n, SCORE_LABELS, classes as u32), &device);
            let loss = CrossEntropyLossConfig::new().init(&device);
            backward([leaf(SCORES)], move |[x]| loss.forward(x, target.clone()))
        }
        _ => return None,
    })
}

fn tensor<const N: usize>(input: Input<N>, device: &Device) -> Tensor<N> {
    Tensor::from_data(TensorData::new(input.values(), input.shape), device)
}

/// Outside the graph, for forward passes.
fn plain<const N: usize>(input: Input<N>) -> Tensor<N> {
    tensor(input, &Device::flex())
}

/// A constant beside variables.
fn tracked<const N: usize>(input: Input<N>) -> Tensor<N> {
    tensor(input, &Device::flex().autodiff())
}

fn leaf<const N: usize>(input: Input<N>) -> Tensor<N> {
    tracked(input).require_grad()
}

fn classes_of(labels: Vec<i64>, device: &Device) -> Tensor<1, Int> {
    let n = labels.len();
    Tensor::from_data(TensorData::new(labels, [n]), device)
}

fn row(input: Input<1>) -> Input<2> {
    input.with_shape([1, input.shape[0]])
}

fn sum<const N: usize>(t: Tensor<N>) -> Checksum {
    Checksum::of(t.into_data().iter::<f64>())
}

fn forward<const N: usize>(
    a: Tensor<N>,
    b: Tensor<N>,
    f: impl Fn(Tensor<N>, Tensor<N>) -> Tensor<N> + 'static,
) -> Making {
    timed(move || Ok(f(a.clone(), b.clone())), |t| Ok(vec![sum(t)]))
}

fn reduced<const N: usize, const M: usize>(
    x: Input<N>,
    f: impl Fn(Tensor<N>) -> Tensor<M> + 'static,
) -> Making {
    let x = plain(x);
    timed(move || Ok(f(x.clone())), |t| Ok(vec![sum(t)]))
}

/// A number and its gradients by leaves of one rank.
fn backward<const K: usize, const N: usize>(
    leaves: [Tensor<N>; K],
    f: impl Fn([Tensor<N>; K]) -> Tensor<1> + 'static,
) -> Making {
    let again = leaves.clone();
    let run = move || {
        let loss = f(leaves.clone());
        let gradients = loss.backward();
        Ok((loss, gradients))
    };
    timed(run, move |(loss, gradients)| {
        let mut sums = vec![sum(loss)];
        sums.extend(again.iter().map(|leaf| sum(leaf.grad(&gradients).expect("a leaf has a gradient"))));
        Ok(sums)
    })
}

fn product_sum<const N: usize>(x: Input<N>, w: Input<N>) -> Making {
    backward([leaf(x), leaf(w)], |[x, w]| (x * w).sum())
}

fn square(n: usize) -> Making {
    let [a, b] = factors(n);
    forward(plain(a), plain(b), |a, b| a.matmul(b))
}

fn elementary(function: Elementary, back: bool) -> Making {
    let f = move |x: Tensor<2>| match function {
        Elementary::Exp => x.exp(),
        Elementary::Tanh => x.tanh(),
        Elementary::Gelu => activation::gelu(x),
        Elementary::Sigmoid => activation::sigmoid(x),
    };
    if back { backward([leaf(ELEMENTS)], move |[x]| f(x).sum()) } else { reduced(ELEMENTS, f) }
}

fn start(value: f32) -> Tensor<1> {
    Tensor::from_data([value], &Device::flex().autodiff()).require_grad()
}

fn chain(x: &Tensor<1>) -> Tensor<1> {
    let mut y = x.clone() * x.clone();
    for _ in 0..CHAIN_NODES / 2 {
        y = y * x.clone() + x.clone();
    }
    y
}

struct ChainBack {
    x: Tensor<1>,
    ready: Vec<Tensor<1>>,
}

impl Job for ChainBack {
    fn needs_preparation(&self) -> bool {
        true
    }
    fn prepare(&mut self) -> foldback::Result<()> {
        self.ready.push(chain(&self.x));
        Ok(())
    }
    fn run(&mut self) -> foldback::Result<()> {
        let y = self.ready.pop().expect("a run is prepared");
        std::hint::black_box(y.backward());
        Ok(())
    }
    fn checksums(&mut self) -> foldback::Result<Vec<Checksum>> {
        let gradients = chain(&self.x).backward();
        Ok(vec![sum(self.x.grad(&gradients).expect("a leaf has a gradient"))])
    }
}

#[derive(Module, Debug)]
struct Network {
    layers: Vec<Linear>,
}

struct Training {
    mlp: Mlp,
    // A step takes the network and gives back another.
    network: Option<Network>,
    optimizer: ModuleOptimizer,
    input: Tensor<2>,
    numbers: Tensor<2>,
    classes: Tensor<1, Int>,
    device: Device,
    steps: usize,
}

impl Training {
    fn new(mlp: Mlp) -> Training {
        let device = Device::flex().autodiff();
        let layer = |i| {
            let (weight, bias) = mlp.layer(i);
            // burn keeps weights as [in, out].
            let weight = tracked(weight).transpose().detach();
            Linear { weight: Param::from_tensor(weight), bias: Some(Param::from_tensor(tracked(bias))) }
        };
        let optimizer = match mlp.goal {
            Goal::MseSgd => SgdConfig::new().init(),
            Goal::CrossEntropyAdam => AdamConfig::new().with_epsilon(1e-8).init(),
        };
        Training {
            mlp,
            network: Some(Network { layers: (0..mlp.layers()).map(layer).collect() }),
            optimizer,
            input: tracked(mlp.input()),
            numbers: tracked(mlp.target()),
            classes: classes_of(mlp.classes(), &device),
            device,
            steps: 0,
        }
    }

    fn step(&mut self) -> Tensor<1> {
        let network = self.network.take().expect("it is put back");
        let mut h = self.input.clone();
        for (i, layer) in network.layers.iter().enumerate() {
            if i > 0 {
                h = if self.mlp.activation == Activation::Tanh { h.tanh() } else { activation::relu(h) };
            }
            h = layer.forward(h);
        }
        let loss = match self.mlp.goal {
            Goal::MseSgd => MseLoss::new().forward(h, self.numbers.clone(), Reduction::Mean),
            Goal::CrossEntropyAdam => {
                CrossEntropyLossConfig::new().init(&self.device).forward(h, self.classes.clone())
            }
        };
        let gradients = GradientsParams::from_grads(loss.backward(), &network);
        self.network = Some(self.optimizer.step(self.mlp.learning_rate(), network, gradients));
        loss
    }
}

impl Job for Training {
    fn reset(&mut self) -> foldback::Result<()> {
        if self.steps >= RESET_AFTER {
            *self = Training::new(self.mlp);
        }
        Ok(())
    }
    fn run(&mut self) -> foldback::Result<()> {
        self.steps += 1;
        self.step();
        Ok(())
    }
    fn checksums(&mut self) -> foldback::Result<Vec<Checksum>> {
        let mut fresh = Training::new(self.mlp);
        let mut sums: Vec<_> = (0..STEPS_CHECKED).map(|_| sum(fresh.step())).collect();
        for layer in &fresh.network.as_ref().expect("it is put back").layers {
            sums.push(sum(layer.weight.val().transpose()));
            sums.push(sum(layer.bias.as_ref().expect("there is one").val()));
        }
        Ok(sums)
    }
}
