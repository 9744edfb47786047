//! Learns to write as Shakespeare did, letter by letter: `cargo run --release -p foldback --example chars`.
//!
//! A transformer of two layers reads 64 characters of three plays and says after each which comes next. It prints the
//! bits per character on the last tenth of the text, which it has not seen, and a sample of its own: 2.93 bits, as the same
//! program in PyTorch (`tests/golden/make_chars.py`; seed 0 in both). With `--resume` (and `--features safetensors`) it may be
//! stopped, and goes on from its last checkpoint.

mod resume;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::time::Instant;

use flate2::read::GzDecoder;
use foldback::prelude::*;
use foldback::tensor::StateDict;

const STEPS: usize = 64;
const BATCH: usize = 32;
const WIDTH: usize = 64;
const UPDATES: usize = 700;
const WARM_UP: usize = 50;
const RATE: f64 = 4e-3;

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
struct Writer {
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

fn main() -> Result<()> {
    let seed = std::env::args().nth(1).and_then(|seed| seed.parse().ok()).unwrap_or(0);
    manual_seed(seed);
    let Text { alphabet, training, test } = load()?;
    let windows = training.unfold(0, STEPS + 1, 1)?;
    let mut model = Writer::new(alphabet.len());
    let mut adam = AdamW::new(model.parameters(), RATE).weight_decay(0.01);
    let mut out = std::io::stdout();
    writeln!(out, "{} parameters, {} characters for training", model.num_parameters(), training.numel())?;

    let clock = Instant::now();
    let mut sum = 0.0;
    let taken = resume::start(&mut model, &mut adam)?.map_or(0, |(updates, _)| updates);
    for update in taken..UPDATES {
        adam.set_lr(rate(update))?;
        adam.zero_grad();
        let starts = Tensor::randint(0..windows.dims()[0] as i64, [BATCH]);
        let cost = cost(&model, &windows.index_select(0, &starts)?)?;
        cost.backward()?;
        adam.step()?;
        sum += cost.item()? / std::f64::consts::LN_2;
        if (update + 1) % 100 == 0 {
            writeln!(out, "update {}/{UPDATES}, {:.3} bits per character", update + 1, sum / 100.0)?;
            sum = 0.0;
            resume::keep(&model, &adam, update + 1, StateDict::new())?;
        }
    }
    let seconds = clock.elapsed().as_secs_f64();
    writeln!(
        out,
        "test: {:.3} bits per character, after {seconds:.1} s of training\n",
        bits(&model, &test)?
    )?;
    writeln!(out, "{}", write(&model, &alphabet, "ROMEO.\n", 300)?)?;
    Ok(())
}
