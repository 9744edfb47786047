//! Learns to read handwritten digits: `cargo run --release -p foldback --example digits`.
//!
//! It may be stopped at any moment: with `-- --resume` it goes on from its last epoch. It leaves its loss curve as a picture.

mod data;

use std::path::Path;
use std::time::Instant;

use foldback::prelude::*;
use foldback::train::{metrics::accuracy, plot_curves};

const EPOCHS: usize = 20;
/// The mean of five seeds of the same network, trained alike (`tests/golden/digits_cnn.py`).
const PYTORCH: f64 = 0.9883;

/// What seed 0 has to read. The mean of seeds 0 to 4 is 0.9884, the least of them 0.9806.
const LEAST: f64 = 0.985;

/// A network of two convolutions: 8 by 8 pixels to 10 scores.
#[derive(Module)]
pub(crate) struct Network {
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

/// Takes this many of the epochs; the folder gets the loss curve, and a checkpoint, from which `resume` goes on.
pub(crate) fn train(seed: u64, epochs: usize, folder: &Path, resume: bool) -> Result<Network> {
    manual_seed(seed);
    let (training, _) = data::load()?;
    let set = TensorDataset::new([training.images.clone(), training.labels.clone()]);
    let loader = DataLoader::new(set, 64).shuffle(true);
    let mut model = Network::new();
    let adam = Adam::new(model.parameters(), 4e-3);
    let history = Fit::new(&mut model, &adam)
        .epochs(epochs)
        .schedule(CosineAnnealingLR::new(&adam, EPOCHS))
        .maximize("accuracy", |model| accuracy(&model.forward(&training.images)?, &training.labels))
        .checkpoint(folder.join("foldback-digits.ckpt"), resume)
        .on_epoch(|_, e| {
            let (epoch, accuracy) = (e.epoch + 1, e.value.unwrap_or(f64::NAN));
            println!("epoch {epoch}/{EPOCHS}, loss {:.4}, training accuracy {accuracy:.4}", e.loss);
            Ok(())
        })
        .run(&loader, |model, [images, labels]| loss::cross_entropy(model.forward(images)?, labels))?;
    plot_curves(folder.join("foldback-digits.svg"), "loss", &[("training", &history.losses())])?;
    Ok(model)
}

fn main() -> Result<()> {
    let (folder, clock) = (std::env::temp_dir(), Instant::now());
    let after = |name: &str| std::env::args().skip_while(|arg| arg != name).nth(1);
    let seed = after("--seed").map_or(0, |seed| seed.parse().expect("--seed is followed by a number"));
    let model = train(seed, EPOCHS, &folder, std::env::args().any(|arg| arg == "--resume"))?;
    let seconds = clock.elapsed().as_secs_f64();
    println!("{} parameters, trained in {seconds:.2} s", model.num_parameters());
    let (_, test) = data::load()?;
    let read = accuracy(&no_grad(|| model.forward(&test.images))?, &test.labels)?;
    println!("test accuracy: {read:.4} (PyTorch: {PYTORCH:.4})");
    println!("loss curve: {}", folder.join("foldback-digits.svg").display());
    match read >= LEAST || seed != 0 {
        true => Ok(()),
        false => Err(Error::other(format!("less than {LEAST} is not what this network learns"))),
    }
}
