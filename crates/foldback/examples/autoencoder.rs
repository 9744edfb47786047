//! Learns to describe handwritten digits by eight numbers, and draws what it makes of them again:
//! `cargo run --release -p foldback --example autoencoder --features images`.
//!
//! One picture has a row of test images, a row of what comes out, and so on; another one the loss curve. It may be stopped at any
//! moment: with `-- --resume` it goes on from its last epoch.

mod data;

use std::path::Path;
use std::time::Instant;

use foldback::data::{image_grid, write_image};
use foldback::prelude::*;
use foldback::train::plot_curves;

const EPOCHS: usize = 60;
const NUMBERS: usize = 8;
const COLUMNS: usize = 20;
const ROWS: usize = 3;
/// The mean of five seeds of the same network, trained alike (`tests/golden/make_autoencoder.py`).
const PYTORCH: f64 = 0.01333;

/// Pixels to a few numbers, and back.
#[derive(Module)]
pub(crate) struct Autoencoder {
    encoder: Sequential,
    decoder: Sequential,
}

#[forward]
impl Autoencoder {
    fn new() -> Autoencoder {
        Autoencoder {
            encoder: sequential![Linear::new(64, 96), ReLU, Linear::new(96, NUMBERS)],
            decoder: sequential![Linear::new(NUMBERS, 96), ReLU, Linear::new(96, 64), Sigmoid],
        }
    }

    fn forward(&self, x: &Var) -> Result<Var> {
        self.decoder.forward(&self.encoder.forward(x)?)
    }
}

/// Takes this many of the epochs; the folder gets the loss curve, and a checkpoint, from which `resume` goes on.
pub(crate) fn train(seed: u64, epochs: usize, folder: &Path, resume: bool) -> Result<Autoencoder> {
    manual_seed(seed);
    let (training, test) = data::load()?;
    let loader = DataLoader::new(TensorDataset::new([training.images, training.labels]), 64).shuffle(true);
    let mut model = Autoencoder::new();
    let adam = Adam::new(model.parameters(), 3e-3);
    let history = Fit::new(&mut model, &adam)
        .epochs(epochs)
        .minimize("test error", |model| loss::mse_loss(model.forward(&test.images)?, &test.images)?.item())
        .checkpoint(folder.join("foldback-autoencoder.ckpt"), resume)
        .on_epoch(|_, e| {
            if e.epoch % 10 == 9 {
                let (epoch, error) = (e.epoch + 1, e.value.unwrap_or(f64::NAN));
                println!("epoch {epoch}/{EPOCHS}, loss {:.4}, test error {error:.4}", e.loss);
            }
            Ok(())
        })
        .run(&loader, |model, [x, _label]| loss::mse_loss(model.forward(x)?, x))?;
    let curves: [(&str, &[f64]); 2] = [("training", &history.losses()), ("test", &history.values())];
    plot_curves(folder.join("foldback-autoencoder.svg"), "mean squared error", &curves)?;
    Ok(model)
}

fn main() -> Result<()> {
    let (folder, clock) = (std::env::temp_dir(), Instant::now());
    let after = |name: &str| std::env::args().skip_while(|arg| arg != name).nth(1);
    let seed = after("--seed").map_or(0, |seed| seed.parse().expect("--seed is followed by a number"));
    let model = train(seed, EPOCHS, &folder, std::env::args().any(|arg| arg == "--resume"))?;
    let (count, seconds) = (model.num_parameters(), clock.elapsed().as_secs_f64());
    println!("{count} parameters, trained in {seconds:.2} s");
    let (_, test) = data::load()?;
    let made = no_grad(|| model.forward(&test.images))?;
    println!("test error: {:.5} (PyTorch: {PYTORCH:.5})", loss::mse_loss(&made, &test.images)?.item()?);

    let rows = |x: &Tensor| x.narrow(0, 0, ROWS * COLUMNS)?.reshape([ROWS, 1, COLUMNS, 1, 8, 8]);
    let both = Tensor::cat([rows(&test.images)?, rows(&made.value())?], 1)?.reshape((-1, 1, 8, 8))?;
    // Three by three pixels for each, so that one can see them.
    let picture = image_grid(&both, COLUMNS)?.repeat_interleave(3, 1)?.repeat_interleave(3, 2)?;
    write_image(folder.join("foldback-autoencoder.png"), &picture)?;
    println!("pictures: foldback-autoencoder.png, foldback-autoencoder.svg in {}", folder.display());
    Ok(())
}
