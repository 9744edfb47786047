//! Learns to read handwritten digits: `cargo run --release -p foldback --example digits`.
//!
//! With `--resume` (and `--features safetensors`) it may be stopped, and goes on from its last checkpoint.

mod data;
mod resume;

use std::f64::consts::PI;
use std::io::{IsTerminal, Write};
use std::time::Instant;

use data::Digits;
use foldback::prelude::*;
use foldback::train::metrics::accuracy;

const EPOCHS: usize = 20;
const BATCH: usize = 64;
const LEARNING_RATE: f64 = 4e-3;
/// The mean of five seeds of the same network, trained alike (`tests/golden/digits_cnn.py`).
const PYTORCH: f64 = 0.9883;

/// A network of two convolutions: 8 by 8 pixels to 10 scores.
#[derive(Module)]
struct Network {
    layers: Sequential,
}

#[forward]
impl Network {
    fn new() -> Network {
        let layers = sequential![
            Conv2d::new(1, 16, 3).padding(1),
            ReLU,
            Conv2d::new(16, 32, 3).padding(1),
            ReLU,
            MaxPool2d::new(2),
            Flatten::new(),
            Dropout::new(0.25),
            Linear::new(512, 10),
        ];
        Network { layers }
    }

    fn forward(&self, x: &Var) -> Result<Var> {
        self.layers.forward(&x.reshape((-1, 1, 8, 8))?)
    }
}

/// The share of images whose best score is that of the right digit.
fn share_read(model: &mut Network, digits: &Digits) -> Result<f64> {
    model.eval();
    accuracy(&no_grad(|| model.forward(&digits.images))?, &digits.labels)
}

fn main() -> Result<()> {
    manual_seed(0);
    let (training, test) = data::load()?;
    let set = TensorDataset::new([training.images.clone(), training.labels.clone()]);
    let loader = DataLoader::new(set, BATCH).shuffle(true);
    let mut model = Network::new();
    let mut adam = Adam::new(model.parameters(), LEARNING_RATE);

    // On a terminal one line is rewritten; elsewhere each epoch has its own.
    let mut out = std::io::stdout();
    let (start, end) = if out.is_terminal() { ("\r", "\x1b[K") } else { ("", "\n") };
    let clock = Instant::now();
    let mut taken = 0;
    if let Some((epochs, position)) = resume::start(&mut model, &mut adam)? {
        loader.load_state_dict(&position)?;
        taken = epochs;
    }
    for epoch in taken + 1..=EPOCHS {
        model.train();
        // Half a cosine, as `CosineAnnealingLR`: it follows from the epoch, so that a resumed run needs to know no more.
        let share = (epoch - 1) as f64 / EPOCHS as f64;
        adam.set_lr(LEARNING_RATE * 0.5 * (1.0 + (PI * share).cos()))?;
        let mut total = 0.0;
        for batch in &loader {
            let [images, labels] = batch?;
            adam.zero_grad();
            let loss = loss::cross_entropy(model.forward(&images)?, &labels)?;
            loss.backward()?;
            adam.step()?;
            total += loss.item()?;
        }
        let (loss, read) = (total / loader.len() as f64, share_read(&mut model, &training)?);
        write!(out, "{start}epoch {epoch}/{EPOCHS}, loss {loss:.4}, training accuracy {read:.4}{end}")?;
        out.flush()?;
        resume::keep(&model, &adam, epoch, loader.state_dict())?;
    }
    if out.is_terminal() {
        writeln!(out)?;
    }
    writeln!(
        out,
        "{} parameters, trained in {:.2} s",
        model.num_parameters(),
        clock.elapsed().as_secs_f64()
    )?;
    writeln!(out, "test accuracy: {:.4} (PyTorch: {PYTORCH:.4})", share_read(&mut model, &test)?)?;
    Ok(())
}
