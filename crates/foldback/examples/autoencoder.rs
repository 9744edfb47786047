//! Learns to describe handwritten digits by eight numbers, and draws what it makes of them again:
//! `cargo run --release -p foldback --example autoencoder --features images`.
//!
//! The picture has a row of test images, a row of what comes out, and so on.

mod data;

use foldback::data::{image_grid, write_image};
use foldback::prelude::*;

const EPOCHS: usize = 60;
const NUMBERS: usize = 8;
const COLUMNS: usize = 20;
const ROWS: usize = 3;

/// Pixels to a few numbers, and back.
#[derive(Module)]
struct Autoencoder {
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

fn main() -> Result<()> {
    manual_seed(0);
    let (training, test) = data::load()?;
    let loader = DataLoader::new(TensorDataset::new([training.images, training.labels]), 64).shuffle(true);
    let mut model = Autoencoder::new();
    let adam = Adam::new(model.parameters(), 3e-3);

    Fit::new(&mut model, &adam)
        .epochs(EPOCHS)
        .minimize("test error", |model| loss::mse_loss(model.forward(&test.images)?, &test.images)?.item())
        .keep_best(true)
        .on_epoch(|_, epoch| {
            if epoch.epoch % 10 == 9 {
                let value = epoch.value.unwrap_or(f64::NAN);
                println!("epoch {}/{EPOCHS}, loss {:.4}, test error {value:.4}", epoch.epoch + 1, epoch.loss);
            }
            Ok(())
        })
        .run(&loader, |model, [x, _label]| loss::mse_loss(model.forward(x)?, x))?;

    let shown = test.images.narrow(0, 0, ROWS * COLUMNS)?;
    let made = no_grad(|| model.forward(&shown))?.value();
    let rows = |x: &Tensor| x.reshape([ROWS, 1, COLUMNS, 1, 8, 8]);
    let both = Tensor::cat([rows(&shown)?, rows(&made)?], 1)?.reshape((-1, 1, 8, 8))?;
    // Three by three pixels for each, so that one can see them.
    let picture = image_grid(&both, COLUMNS)?.repeat_interleave(3, 1)?.repeat_interleave(3, 2)?;
    let path = std::env::temp_dir().join("autoencoder.png");
    write_image(&path, &picture)?;
    println!("{} by {NUMBERS} numbers each: {}", shown.dims()[0], path.display());
    Ok(())
}
