//! Learns to write as Shakespeare did, letter by letter: `cargo run --release -p foldback --example chars`.
//!
//! A transformer of two layers reads 64 characters of three plays and says after each which comes next. It prints the
//! bits per character on the last tenth of the text, which it has not seen, and a sample of its own, and leaves its loss curve as a
//! picture. It may be stopped at any moment: with `-- --resume` it goes on.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use flate2::read::GzDecoder;
use foldback::data::WeightedRandomSampler;
use foldback::prelude::*;
use foldback::train::plot_curves;

const STEPS: usize = 64;
const BATCH: usize = 32;
const WIDTH: usize = 64;
const UPDATES: usize = 700;
/// How many updates an epoch has: a checkpoint is written after each.
const EPOCH: usize = 10;
const WARM_UP: usize = 50;
const RATE: f64 = 4e-3;
/// The same program in PyTorch (`tests/golden/make_chars.py`, seed 0).
const PYTORCH: f64 = 2.93;

static PLAYS: &[u8] = include_bytes!("data/plays.txt.gz");

/// Characters and their numbers.
struct Text {
    alphabet: Vec<char>,
    /// `[n]`, `i64`
    training: Tensor,
    /// `[n]`, `i64`
    test: Tensor,
}

/// Nine tenths of the plays for training, the rest for the test.
fn load() -> Result<Text> {
    let mut text = String::new();
    GzDecoder::new(PLAYS).read_to_string(&mut text)?;
    let alphabet: Vec<char> = text.chars().collect::<BTreeSet<_>>().into_iter().collect();
    let number = |c: char| alphabet.binary_search(&c).map_or(0, |i| i as i64);
    let ids: Tensor = text.chars().map(number).collect::<Vec<i64>>().into();
    let cut = ids.numel() * 9 / 10;
    let [training, test] = [ids.slice(0..cut)?, ids.slice(cut..ids.numel())?];
    Ok(Text { alphabet, training, test })
}

/// `[n, t]` characters to `[n, t, alphabet]` scores of the characters that follow them.
#[derive(Module)]
pub(crate) struct Writer {
    characters: Embedding,
    places: Var,
    encoder: TransformerEncoder,
    head: Linear,
}

#[forward]
impl Writer {
    fn new(alphabet: usize) -> Writer {
        let layer = TransformerEncoderLayer::new(WIDTH, 4).dim_feedforward(4 * WIDTH).dropout(0.0);
        let layer = layer.activation(GELU).norm_first(true).batch_first(true);
        Writer {
            characters: Embedding::new(alphabet, WIDTH),
            places: Tensor::randn([STEPS, WIDTH]).requires_grad(),
            encoder: TransformerEncoder::new(layer, 2).norm(LayerNorm::new(WIDTH)),
            head: Linear::new(WIDTH, alphabet),
        }
    }

    fn forward(&self, characters: &Var) -> Result<Var> {
        let [_, steps] = characters.sizes()?;
        let x = self.characters.forward(characters)?.add(self.places.narrow(0, 0, steps)?)?;
        self.head.forward(&self.encoder.forward_with(&x, AttentionMasks::causal(steps))?)
    }
}

/// The mean cost of predicting the characters after the first of each row, in nats.
fn cost(model: &Writer, rows: &Tensor) -> Result<Var> {
    let scores = model.forward(&rows.narrow(1, 0, STEPS)?)?;
    loss::cross_entropy(scores.flatten(0..=1)?, rows.narrow(1, 1, STEPS)?.flatten(0..=1)?)
}

/// The bits per character of a text, cut into rows.
fn bits(model: &Writer, text: &Tensor) -> Result<f64> {
    let rows = text.unfold(0, STEPS + 1, STEPS)?;
    let mut total = 0.0;
    for part in rows.split(64, 0)? {
        total += no_grad(|| cost(model, &part))?.item()? * part.dims()[0] as f64;
    }
    Ok(total / rows.dims()[0] as f64 / std::f64::consts::LN_2)
}

/// The learning rate of an update: up in a line, then down as half a cosine.
fn rate(update: usize) -> f64 {
    let up = (update + 1) as f64 / WARM_UP as f64;
    let down = 0.5 * (1.0 + (std::f64::consts::PI * update as f64 / UPDATES as f64).cos());
    RATE * up.min(down)
}

/// Goes on with a text, each character drawn by the model's probabilities.
fn write(model: &Writer, alphabet: &[char], start: &str, count: usize) -> Result<String> {
    let mut ids: Vec<i64> =
        start.chars().filter_map(|c| alphabet.binary_search(&c).ok()).map(|i| i as i64).collect();
    for _ in 0..count {
        let seen = ids[ids.len().saturating_sub(STEPS)..].to_vec();
        let seen = Tensor::from_vec(seen.clone(), [1, seen.len()])?;
        let shares = no_grad(|| model.forward(&seen))?.select(1, -1)?.mul(1.25)?.softmax(-1)?;
        let bound = shares.value().cumsum(-1)?;
        let drawn = Tensor::rand([1]).item()?;
        let next = bound.lt(drawn)?.sum(..)?.item_as::<i64>()?;
        ids.push(next.min(alphabet.len() as i64 - 1));
    }
    Ok(ids.iter().map(|&i| alphabet[i as usize]).collect())
}

/// Takes this many of the updates; the folder gets the loss curve, and a checkpoint, from which `resume` goes on.
pub(crate) fn train(seed: u64, updates: usize, folder: &Path, resume: bool) -> Result<Writer> {
    manual_seed(seed);
    let text = load()?;
    let windows = text.training.unfold(0, STEPS + 1, 1)?;
    let any = WeightedRandomSampler::new(vec![1.0; windows.dims()[0]], EPOCH * BATCH);
    let loader = DataLoader::new(TensorDataset::new([windows]), BATCH).sampler(any);
    let mut model = Writer::new(text.alphabet.len());
    let adam = AdamW::new(model.parameters(), rate(0)).weight_decay(0.01);
    let bits = |nats: f64| nats / std::f64::consts::LN_2;
    let history = Fit::new(&mut model, &adam)
        .epochs(updates / EPOCH)
        .on_batch(|b| adam.set_lr(rate(b.epoch * EPOCH + b.batch + 1)))
        .checkpoint(folder.join("foldback-chars.ckpt"), resume)
        .on_epoch(|_, e| {
            let updates = (e.epoch + 1) * EPOCH;
            if updates.is_multiple_of(100) {
                println!("update {updates}/{UPDATES}, {:.3} bits per character", bits(e.loss));
            }
            Ok(())
        })
        .run(&loader, |model, [rows]| cost(model, rows))?;
    let curve: Vec<f64> = history.losses().into_iter().map(bits).collect();
    plot_curves(folder.join("foldback-chars.svg"), "bits per character", &[("training", &curve)])?;
    Ok(model)
}

fn main() -> Result<()> {
    let (folder, clock) = (std::env::temp_dir(), Instant::now());
    let after = |name: &str| std::env::args().skip_while(|arg| arg != name).nth(1);
    let seed = after("--seed").map_or(0, |seed| seed.parse().expect("--seed is followed by a number"));
    let model = train(seed, UPDATES, &folder, std::env::args().any(|arg| arg == "--resume"))?;
    let (count, seconds) = (model.num_parameters(), clock.elapsed().as_secs_f64());
    println!("{count} parameters, trained in {seconds:.1} s");
    let text = load()?;
    let needed = bits(&model, &text.test)?;
    println!("test: {needed:.3} bits per character (PyTorch: {PYTORCH})");
    println!("loss curve: {}\n", folder.join("foldback-chars.svg").display());
    println!("{}", write(&model, &text.alphabet, "ROMEO.\n", 300)?);
    match needed <= 1.02 * PYTORCH || seed != 0 {
        true => Ok(()),
        false => Err(Error::other("more than 2 % above PyTorch's is not what this model learns")),
    }
}
