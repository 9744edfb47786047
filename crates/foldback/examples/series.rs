//! Forecasts sunspots: `cargo run --release -p foldback --example series`.
//!
//! An LSTM reads the monthly numbers of sunspots since 1749 and says after each month how many there will be a year later. It
//! learns from the months up to 1949 and is tested on those from 1950 to 2008, which it has not seen. It leaves its loss curve and its
//! forecasts as pictures, and may be stopped at any moment: with `-- --resume` it goes on.

use std::path::Path;
use std::time::Instant;

use foldback::data::WeightedRandomSampler;
use foldback::prelude::*;
use foldback::train::{metrics::root_mean_squared_error, plot_curves};

const AHEAD: usize = 12;
const UPDATES: usize = 300;
/// How many updates an epoch has: a checkpoint is written after each.
const EPOCH: usize = 10;
const WINDOW: usize = 264;
const BATCH: usize = 16;
const TRAINING: usize = (1950 - 1749) * 12;
/// The same program in PyTorch (`tests/golden/make_series.py`, the mean of seeds 0, 1 and 2).
const PYTORCH: f64 = 29.9;

static FILE: &str = include_str!("data/sunspots.csv");

/// The numbers of all months, `[n, 1]`: their square roots in tens, whose noise is the same everywhere.
fn load() -> Result<Tensor> {
    let mut months: Vec<f32> = Vec::new();
    for line in FILE.lines() {
        for field in line.split(',').skip(1) {
            months.push(field.parse::<f32>().map_err(Error::other)?.sqrt() / 10.0);
        }
    }
    let n = months.len();
    Tensor::from_vec(months, [n, 1])
}

/// `[t, n, 1]` months to `[t, n, 1]` forecasts.
#[derive(Module)]
pub(crate) struct Forecaster {
    lstm: LSTM,
    head: Linear,
}

#[forward]
impl Forecaster {
    fn forward(&self, months: &Var) -> Result<Var> {
        let (states, _) = self.lstm.forward(months, None)?;
        self.head.forward(&states)
    }
}

/// Numbers of sunspots from what [`load`] makes of them.
fn spots(months: &Tensor) -> Result<Tensor> {
    months.mul(10.0)?.square().squeeze(-1)
}

/// Takes this many of the updates; the folder gets the loss curve, and a checkpoint, from which `resume` goes on.
pub(crate) fn train(seed: u64, updates: usize, folder: &Path, resume: bool) -> Result<Forecaster> {
    manual_seed(seed);
    let windows = load()?.slice(0..TRAINING)?.unfold(0, WINDOW + AHEAD, 1)?;
    let any = WeightedRandomSampler::new(vec![1.0; windows.dims()[0]], EPOCH * BATCH);
    let loader = DataLoader::new(TensorDataset::new([windows]), BATCH).sampler(any);
    let mut model = Forecaster { lstm: LSTM::new(1, 32), head: Linear::new(32, 1) };
    // Down in a line.
    let rate = |update: usize| 1e-2 * (1.0 - (update + 1) as f64 / (UPDATES + 1) as f64);
    let adam = Adam::new(model.parameters(), rate(0));
    let history = Fit::new(&mut model, &adam)
        .epochs(updates / EPOCH)
        .on_batch(|b| adam.set_lr(rate(b.epoch * EPOCH + b.batch + 1)))
        .checkpoint(folder.join("foldback-series.ckpt"), resume)
        .on_epoch(|_, e| {
            let updates = (e.epoch + 1) * EPOCH;
            if updates.is_multiple_of(50) {
                println!("update {updates}/{UPDATES}, loss {:.4}", e.loss);
            }
            Ok(())
        })
        .run(&loader, |model, [windows]| {
            // [batch, 1, months] to [months, batch, 1]
            let months = windows.permute([2, 0, 1])?;
            let forecast = model.forward(&months.narrow(0, 0, WINDOW)?)?;
            loss::mse_loss(&forecast, months.narrow(0, AHEAD, WINDOW)?)
        })?;
    plot_curves(folder.join("foldback-series-loss.svg"), "loss", &[("training", &history.losses())])?;
    Ok(model)
}

fn main() -> Result<()> {
    let (folder, clock) = (std::env::temp_dir(), Instant::now());
    let after = |name: &str| std::env::args().skip_while(|arg| arg != name).nth(1);
    let seed = after("--seed").map_or(0, |seed| seed.parse().expect("--seed is followed by a number"));
    let model = train(seed, UPDATES, &folder, std::env::args().any(|arg| arg == "--resume"))?;
    let (count, seconds) = (model.num_parameters(), clock.elapsed().as_secs_f64());
    println!("{count} parameters, trained in {seconds:.1} s");

    let months = load()?;
    let n = months.dims()[0];
    let forecast = no_grad(|| model.forward(&months.narrow(0, 0, n - AHEAD)?))?.value();
    let forecast = spots(&forecast.slice(TRAINING - AHEAD..n - AHEAD)?)?;
    let (truth, before) =
        (spots(&months.slice(TRAINING..n)?)?, spots(&months.slice(TRAINING - AHEAD..n - AHEAD)?)?);
    let off = |said: &Tensor| root_mean_squared_error(said, &truth);
    println!("test: off by {:.1} sunspots (PyTorch: {PYTORCH})", off(&forecast)?);
    println!("as many as a year before: off by {:.1}", off(&before)?);
    let curve = |x: &Tensor| x.double().to_vec::<f64>();
    let curves: [(&str, &[f64]); 2] =
        [("sunspots", &curve(&truth)?), ("as forecast a year before", &curve(&forecast)?)];
    plot_curves(folder.join("foldback-series.svg"), "sunspots by month, 1950 to 2008", &curves)?;
    println!("pictures: foldback-series.svg, foldback-series-loss.svg in {}", folder.display());
    Ok(())
}
