//! The workloads in candle: eager operations, gradients in a store of their own.

use candle_core::{D, DType, Device, Result, Tensor, Var};
use candle_nn::{AdamW, Linear, Module, Optimizer, ParamsAdamW, SGD, loss, ops};

use super::job::{Elementary, timed};
use crate::checksum::Checksum;
use crate::inputs::*;
use crate::measure::Job;
use crate::worker::Making;
use crate::workloads::{Activation, Goal, MLPS, Mlp, RESET_AFTER, STEPS_CHECKED};

const CPU: Device = Device::Cpu;

pub(super) fn job(key: &str) -> Option<Making> {
    if let Some(mlp) = MLPS.iter().find(|m| m.key == key) {
        return Some(training(*mlp));
    }
    if let Some((function, back)) = Elementary::of(key) {
        return Some(elementary(function, back));
    }
    Some(match key {
        "W1" => forward(X, ROW, |x, w| x.broadcast_add(w)),
        "W2" => forward(OUTER_COLUMN, OUTER_ROW, |a, b| a.broadcast_mul(b)),
        "W3" => product_sum(X, ROW),
        "W4" => product_sum(X, COLUMN),
        "W23" => product_sum(TEN, TEN_WEIGHTS),
        "W5" => product_sum(CUBE, MIDDLE),
        "W5b" => backward(
            || Ok(vec![var(X)?, var(ROW)?, var(BIAS)?]),
            |v| v[0].broadcast_mul(&v[1])?.broadcast_add(&v[2])?.sqr()?.sum_all(),
        ),
        "W6" => tensor(SAMPLE_WEIGHT).map_err(other).and_then(|weight| {
            backward(|| Ok(vec![var(SAMPLES)?, var(GAMMA)?, var(BETA)?]), move |v| batch_norm(v, &weight))
        }),
        "W7-columns" => forward(X, ROW, |x, _| x.sum(0)),
        "W7-rows" => forward(X, ROW, |x, _| x.sum_keepdim(1)),
        "W7-all" => forward(X, ROW, |x, _| x.sum_all()),
        "W7-middle" => forward(CUBE, ROW, |x, _| x.sum_keepdim((0, 2))),
        "W8-forward" => {
            start().map_err(other).and_then(|x| timed(move || chain(&x).map_err(other), |y| sums(&[&y])))
        }
        "W8-backward" => {
            start().map(|x| Box::new(ChainBack { x, ready: vec![] }) as Box<dyn Job>).map_err(other)
        }
        "W12-64" => square(64),
        "W12-256" => square(256),
        "W12-1024" => square(1024),
        "W12-2048" => square(2048),
        "W12b" => {
            backward(|| Ok(vec![var(BATCH_A)?, var(BATCH_B)?]), |v| v[0].broadcast_matmul(&v[1])?.sum_all())
        }
        "W12b-dense" => backward(
            || Ok(vec![var(BATCH_A)?, var(BATCH_B)?]),
            |v| v[0].broadcast_matmul(&v[1])?.sqr()?.sum_all(),
        ),
        "W15" => backward(
            || Ok(vec![Var::from_vec(vec![1.0f32], 1, &CPU)?]),
            |v| {
                let one = Tensor::from_vec(vec![1.0f32], 1, &CPU)?;
                let mut y = v[0].add(&one)?;
                for _ in 1..ADDITIONS {
                    y = y.add(&one)?;
                }
                Ok(y)
            },
        ),
        "W17-log_softmax" => {
            backward(|| Ok(vec![var(SCORES)?]), |v| ops::log_softmax(&v[0], D::Minus1)?.sum_all())
        }
        "W17-cross_entropy" => classes(SCORE_LABELS, SCORES.shape).map_err(other).and_then(|target| {
            backward(|| Ok(vec![var(SCORES)?]), move |v| loss::cross_entropy(&v[0], &target))
        }),
        _ => return None,
    })
}

fn tensor<const N: usize>(input: Input<N>) -> Result<Tensor> {
    Tensor::from_vec(input.values(), input.shape.as_slice(), &CPU)
}

fn var<const N: usize>(input: Input<N>) -> Result<Var> {
    Var::from_tensor(&tensor(input)?)
}

fn classes(salt: u32, [n, classes]: [usize; 2]) -> Result<Tensor> {
    Tensor::from_vec(labels(n, salt, classes as u32), n, &CPU)
}

fn other(e: candle_core::Error) -> foldback::Error {
    foldback::Error::other(e.to_string())
}

fn sums(results: &[&Tensor]) -> foldback::Result<Vec<Checksum>> {
    let of = |t: &&Tensor| -> Result<Checksum> {
        let values: Vec<f32> = t.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?;
        Ok(Checksum::of_f32(&values))
    };
    results.iter().map(of).collect::<Result<_>>().map_err(other)
}

/// An operation on two constants, the second of which it may ignore.
fn forward<const N: usize, const M: usize>(
    a: Input<N>,
    b: Input<M>,
    f: impl Fn(&Tensor, &Tensor) -> Result<Tensor> + 'static,
) -> Making {
    let (a, b) = (tensor(a).map_err(other)?, tensor(b).map_err(other)?);
    timed(move || f(&a, &b).map_err(other), |t| sums(&[&t]))
}

/// A number and its gradients by the variables.
fn backward(make: impl Fn() -> Result<Vec<Var>>, f: impl Fn(&[Var]) -> Result<Tensor> + 'static) -> Making {
    let vars = make().map_err(other)?;
    let leaves = vars.clone();
    let run = move || {
        let loss = f(&vars).map_err(other)?;
        let gradients = loss.backward().map_err(other)?;
        Ok((loss, gradients))
    };
    timed(run, move |(loss, gradients)| {
        let mut results = vec![&loss];
        for leaf in &leaves {
            results.push(gradients.get(leaf).ok_or_else(|| foldback::Error::other("no gradient"))?);
        }
        sums(&results)
    })
}

fn product_sum<const N: usize, const M: usize>(x: Input<N>, w: Input<M>) -> Making {
    backward(|| Ok(vec![var(x)?, var(w)?]), |v| v[0].broadcast_mul(&v[1])?.sum_all())
}

fn square(n: usize) -> Making {
    let [a, b] = factors(n);
    forward(a, b, |a, b| a.matmul(b))
}

fn batch_norm(v: &[Var], weight: &Tensor) -> Result<Tensor> {
    let centred = v[0].broadcast_sub(&v[0].mean_keepdim(0)?)?;
    let deviation = (centred.sqr()?.mean_keepdim(0)? + f64::from(EPSILON))?.sqrt()?;
    let y = centred.broadcast_div(&deviation)?.broadcast_mul(&v[1])?.broadcast_add(&v[2])?;
    y.broadcast_mul(weight)?.sum_all()
}

fn elementary(function: Elementary, back: bool) -> Making {
    let f = move |x: &Tensor| match function {
        Elementary::Exp => x.exp(),
        Elementary::Tanh => x.tanh(),
        Elementary::Gelu => x.gelu_erf(),
        Elementary::Sigmoid => ops::sigmoid(x),
    };
    if back {
        backward(|| Ok(vec![var(ELEMENTS)?]), move |v| f(&v[0])?.sum_all())
    } else {
        forward(ELEMENTS, ROW, move |x, _| f(x))
    }
}

fn start() -> Result<Var> {
    Var::from_vec(vec![CHAIN_START], 1, &CPU)
}

fn chain(x: &Var) -> Result<Tensor> {
    let mut y = x.mul(x)?;
    for _ in 0..CHAIN_NODES / 2 {
        y = ((&y * x.as_tensor())? + x.as_tensor())?;
    }
    Ok(y)
}

struct ChainBack {
    x: Var,
    ready: Vec<Tensor>,
}

impl Job for ChainBack {
    fn needs_preparation(&self) -> bool {
        true
    }
    fn prepare(&mut self) -> foldback::Result<()> {
        self.ready.push(chain(&self.x).map_err(other)?);
        Ok(())
    }
    fn run(&mut self) -> foldback::Result<()> {
        let y = self.ready.pop().expect("a run is prepared");
        std::hint::black_box(y.backward().map_err(other)?);
        Ok(())
    }
    fn checksums(&mut self) -> foldback::Result<Vec<Checksum>> {
        let gradients = chain(&self.x).and_then(|y| y.backward()).map_err(other)?;
        sums(&[gradients.get(&self.x).ok_or_else(|| foldback::Error::other("no gradient"))?])
    }
}

enum Optimiser {
    Sgd(SGD),
    Adam(AdamW),
}

struct Training {
    mlp: Mlp,
    layers: Vec<Linear>,
    parameters: Vec<Var>,
    optimiser: Optimiser,
    input: Tensor,
    target: Tensor,
    steps: usize,
}

fn training(mlp: Mlp) -> Making {
    Ok(Box::new(Training::new(mlp).map_err(other)?))
}

impl Training {
    fn new(mlp: Mlp) -> Result<Training> {
        let (mut layers, mut parameters) = (Vec::new(), Vec::new());
        for i in 0..mlp.layers() {
            let (weight, bias) = mlp.layer(i);
            let (weight, bias) = (var(weight)?, var(bias)?);
            layers.push(Linear::new(weight.as_tensor().clone(), Some(bias.as_tensor().clone())));
            parameters.extend([weight, bias]);
        }
        let (optimiser, target) = match mlp.goal {
            Goal::MseSgd => {
                (Optimiser::Sgd(SGD::new(parameters.clone(), mlp.learning_rate())?), tensor(mlp.target())?)
            }
            Goal::CrossEntropyAdam => {
                let options =
                    ParamsAdamW { lr: mlp.learning_rate(), weight_decay: 0.0, ..Default::default() };
                let classes = mlp.classes();
                let n = classes.len();
                (
                    Optimiser::Adam(AdamW::new(parameters.clone(), options)?),
                    Tensor::from_vec(classes, n, &CPU)?,
                )
            }
        };
        let input = tensor(mlp.input())?;
        Ok(Training { mlp, layers, parameters, optimiser, input, target, steps: 0 })
    }

    fn step(&mut self) -> Result<Tensor> {
        let mut h = self.input.clone();
        for (i, layer) in self.layers.iter().enumerate() {
            if i > 0 {
                h = if self.mlp.activation == Activation::Tanh { h.tanh()? } else { h.relu()? };
            }
            h = layer.forward(&h)?;
        }
        match &mut self.optimiser {
            Optimiser::Sgd(sgd) => {
                let loss = loss::mse(&h, &self.target)?;
                sgd.backward_step(&loss)?;
                Ok(loss)
            }
            Optimiser::Adam(adam) => {
                let loss = loss::cross_entropy(&h, &self.target)?;
                adam.backward_step(&loss)?;
                Ok(loss)
            }
        }
    }
}

impl Job for Training {
    fn reset(&mut self) -> foldback::Result<()> {
        if self.steps >= RESET_AFTER {
            *self = Training::new(self.mlp).map_err(other)?;
        }
        Ok(())
    }
    fn run(&mut self) -> foldback::Result<()> {
        self.steps += 1;
        self.step().map_err(other)?;
        Ok(())
    }
    fn checksums(&mut self) -> foldback::Result<Vec<Checksum>> {
        let mut fresh = Training::new(self.mlp).map_err(other)?;
        let losses: Vec<Tensor> =
            (0..STEPS_CHECKED).map(|_| fresh.step()).collect::<Result<_>>().map_err(other)?;
        let parameters = fresh.parameters.iter().map(Var::as_tensor);
        sums(&losses.iter().chain(parameters).collect::<Vec<_>>())
    }
}
