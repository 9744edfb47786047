//! Forecasts sunspots: `cargo run --release -p foldback --example series`.
//!
//! An LSTM reads the monthly numbers of sunspots since 1749 and says after each month how many there will be a year later. It
//! learns from the months up to 1949 and is tested on those from 1950 to 2008, which it has not seen. It is off by
//! 28.6 sunspots with seed 0; the same program in PyTorch, `tests/golden/make_series.py`, by 29.9 (the mean of seeds 0, 1 and 2), and whoever says
//! that the month will be as it was a year before by 39.8.

use std::time::Instant;

use foldback::prelude::*;

const AHEAD: usize = 12;
const UPDATES: usize = 300;
const WINDOW: usize = 264;
const BATCH: usize = 16;
const TRAINING: usize = (1950 - 1749) * 12;

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
struct Forecaster {
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

/// The root of the mean square of the differences, in sunspots.
fn error(forecast: &Tensor, truth: &Tensor) -> Result<f64> {
    let spots = |x: &Tensor| x.mul(10.0).map(|x| x.square());
    Ok(spots(forecast)?.sub(spots(truth)?)?.square().mean(..)?.item()?.sqrt())
}

fn main() -> Result<()> {
    let seed = std::env::args().nth(1).and_then(|seed| seed.parse().ok()).unwrap_or(0);
    manual_seed(seed);
    let months = load()?;
    let n = months.dims()[0];
    let model = Forecaster { lstm: LSTM::new(1, 32), head: Linear::new(32, 1) };
    let adam = Adam::new(model.parameters(), 1e-2);

    let clock = Instant::now();
    // [starts, 1, window] to [window, batch, 1]
    let windows = months.slice(0..TRAINING)?.unfold(0, WINDOW + AHEAD, 1)?;
    for update in 1..=UPDATES {
        adam.set_lr(1e-2 * (1.0 - update as f64 / (UPDATES + 1) as f64))?;
        let starts = Tensor::randint(0..windows.dims()[0] as i64, [BATCH]);
        let batch = windows.index_select(0, &starts)?.permute([2, 0, 1])?;
        adam.zero_grad();
        let forecast = model.forward(&batch.narrow(0, 0, WINDOW)?)?;
        let loss = loss::mse_loss(&forecast, batch.narrow(0, AHEAD as isize, WINDOW)?)?;
        loss.backward()?;
        adam.step()?;
        if update % 50 == 0 {
            println!("update {update}/{UPDATES}, loss {:.4}", loss.item()?);
        }
    }
    let seconds = clock.elapsed().as_secs_f64();

    let forecast = no_grad(|| model.forward(&months.narrow(0, 0, n - AHEAD)?))?.value();
    let of_test = forecast.slice(TRAINING - AHEAD..n - AHEAD)?;
    let (truth, before) = (months.slice(TRAINING..n)?, months.slice(TRAINING - AHEAD..n - AHEAD)?);
    println!("test: off by {:.1} sunspots, after {seconds:.1} s of training", error(&of_test, &truth)?);
    println!("as many as a year before: off by {:.1}", error(&before, &truth)?);
    Ok(())
}
