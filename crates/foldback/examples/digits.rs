//! Learns to read handwritten digits: `cargo run --release -p foldback --example digits`.
//! It reads 98.6 % of the test's images right; the same network in PyTorch 98.3 to 99.2 % with five seeds.
//!
//! With `--resume` (and `--features safetensors`) it may be stopped, and goes on from its last checkpoint.

mod data;
mod resume;

use std::io::{IsTerminal, Write};
use std::time::Instant;

use data::Digits;
use foldback::prelude::*;
use foldback::tensor::StateDict;
use foldback::train::metrics::accuracy;

const EPOCHS: usize = 30;
const BATCH: usize = 64;
const LEARNING_RATE: f64 = 6e-3;

/// Three convolutions and a linear layer: images of 8 by 8 pixels to 10 scores.
fn network() -> Sequential {
    sequential![
        Unflatten::new(1, [1, 8, 8]), // [n, 64] -> [n, 1, 8, 8]
        Conv2d::new(1, 16, 3).padding(1),
        ReLU,
        Conv2d::new(16, 32, 3).padding(1),
        ReLU,
        MaxPool2d::new(2), // -> [n, 32, 4, 4]
        Conv2d::new(32, 32, 3).padding(1),
        ReLU,
        MaxPool2d::new(2), // -> [n, 32, 2, 2]
        Flatten::new(),
        Dropout::new(0.25),
        Linear::new(128, 10),
    ]
}

/// The share of images whose best score is that of the right digit.
fn share_read(model: &Sequential, digits: &Digits) -> Result<f64> {
    accuracy(&no_grad(|| model.forward(&digits.images))?, &digits.labels)
}

fn main() -> Result<()> {
    manual_seed(0);
    let (training, test) = data::load()?;
    let set = TensorDataset::new([training.images.clone(), training.labels.clone()]);
    let loader = DataLoader::new(set, BATCH).shuffle(true);
    let mut model = network();
    let mut adam = AdamW::new(model.parameters(), LEARNING_RATE);
    let mut schedule = OneCycleLR::new(&adam, LEARNING_RATE, EPOCHS * loader.len());

    // On a terminal one line is rewritten; elsewhere each epoch has its own.
    let mut out = std::io::stdout();
    let (start, end) = if out.is_terminal() { ("\r", "\x1b[K") } else { ("", "\n") };
    let clock = Instant::now();
    let mut taken = 0;
    if let Some((epochs, rest)) = resume::start(&mut model, &mut adam)? {
        loader.load_state_dict(&rest.part("loader"))?;
        schedule.load_state_dict(&rest.part("schedule"))?;
        taken = epochs;
    }
    for epoch in taken + 1..=EPOCHS {
        let mut total = 0.0;
        model.train();
        for batch in &loader {
            let [images, labels] = batch?;
            adam.zero_grad();
            let loss = loss::cross_entropy(model.forward(&images)?, &labels)?;
            loss.backward()?;
            adam.step()?;
            schedule.step(&adam)?;
            total += loss.item()?;
        }
        model.eval();
        let (loss, read) = (total / loader.len() as f64, share_read(&model, &training)?);
        write!(out, "{start}epoch {epoch}/{EPOCHS}, loss {loss:.4}, training accuracy {read:.4}{end}")?;
        out.flush()?;
        let mut rest = StateDict::new();
        rest.insert_all("loader", loader.state_dict());
        rest.insert_all("schedule", schedule.state_dict());
        resume::keep(&model, &adam, epoch, rest)?;
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
