//! Learns to read handwritten digits: `cargo run --release -p foldback --example digits`.
//!
//! With `--resume` (and `--features safetensors`) it may be stopped, and goes on from its last checkpoint.

mod data;
mod resume;

use std::io::{IsTerminal, Write};
use std::time::Instant;

use data::Digits;
use foldback::prelude::*;
use foldback::train::metrics::accuracy;

const EPOCHS: usize = 30;
const BATCH: usize = 64;
const LEARNING_RATE: f64 = 1e-2;

/// A network of three layers: 64 pixels to 10 scores.
#[derive(Module)]
struct Network {
    l1: Linear,
    l2: Linear,
    l3: Linear,
}

#[forward]
impl Network {
    fn new() -> Network {
        Network { l1: Linear::new(64, 128), l2: Linear::new(128, 64), l3: Linear::new(64, 10) }
    }

    fn forward(&self, x: &Var) -> Result<Var> {
        let h = self.l1.forward(x)?.relu();
        let h = self.l2.forward(&h)?.relu();
        self.l3.forward(&h)
    }
}

/// The share of images whose best score is that of the right digit.
fn share_read(model: &Network, digits: &Digits) -> Result<f64> {
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
        let mut total = 0.0;
        for batch in &loader {
            let [images, labels] = batch?;
            adam.zero_grad();
            let loss = loss::cross_entropy(model.forward(&images)?, &labels)?;
            loss.backward()?;
            adam.step()?;
            total += loss.item()?;
        }
        let (loss, read) = (total / loader.len() as f64, share_read(&model, &training)?);
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
    writeln!(out, "test accuracy: {:.4}", share_read(&model, &test)?)?;
    Ok(())
}
