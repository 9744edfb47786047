//! The main job against PyTorch: the first 20 losses of training on the digits (`tests/golden/make_digits.py`).

use std::io::Read;

use foldback::prelude::*;
use foldback::tensor::{BroadcastWarning, broadcast_warning};

#[path = "../../crates/foldback/examples/data/mod.rs"]
mod data;

#[derive(Module)]
struct Network {
    l1: Linear,
    l2: Linear,
    l3: Linear,
}

#[forward]
impl Network {
    fn forward(&self, x: &Var) -> Result<Var> {
        let h = self.l1.forward(x)?.relu();
        let h = self.l2.forward(&h)?.relu();
        self.l3.forward(&h)
    }
}

/// The stream of Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
struct SplitMix64(u64);

impl Iterator for SplitMix64 {
    type Item = u64;
    fn next(&mut self) -> Option<u64> {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = self.0;
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Some(z ^ (z >> 31))
    }
}

/// Parameter number 1, 2, ... by the rule of the golden file.
fn parameter(number: u64, shape: &[usize], inputs: usize, dtype: DType) -> Result<Var> {
    let bound = 1.0 / (inputs as f64).sqrt();
    let unit = |bits: u64| (bits >> 11) as f64 * 2f64.powi(-53);
    let values = SplitMix64(number).take(shape.iter().product()).map(|bits| bound * (2.0 * unit(bits) - 1.0));
    Ok(Tensor::from_vec(values.collect(), shape)?.to(dtype).requires_grad())
}

fn layer(number: u64, inputs: usize, outputs: usize, dtype: DType) -> Result<Linear> {
    let weight = parameter(number, &[outputs, inputs], inputs, dtype)?;
    let bias = parameter(number + 1, &[outputs], inputs, dtype)?;
    Linear::from_parameters(weight, Some(bias))
}

fn losses(dtype: DType) -> Result<Vec<f64>> {
    // A model that says what it means never meets a refusal.
    let _guard = broadcast_warning(BroadcastWarning::Refuse);
    let (digits, _) = data::load()?;
    let images = digits.images.to(dtype);
    let model = Network {
        l1: layer(1, 64, 128, dtype)?,
        l2: layer(3, 128, 64, dtype)?,
        l3: layer(5, 64, 10, dtype)?,
    };
    let adam = Adam::new(model.parameters(), 1e-3);
    (0..20)
        .map(|step| {
            let x = images.narrow(0, 64 * step, 64)?;
            let y = digits.labels.narrow(0, 64 * step, 64)?;
            let loss = loss::cross_entropy(model.forward(&x)?, &y)?;
            adam.zero_grad();
            loss.backward()?;
            adam.step()?;
            loss.value().to(DType::F64).item()
        })
        .collect()
}

fn compare(dtype: DType, key: &str, tolerance: f64) {
    let mut text = String::new();
    let file: &[u8] = include_bytes!("../golden/digits.json.gz");
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let golden: serde_json::Value = serde_json::from_str(&text).unwrap();
    let expected: Vec<f64> = golden[key].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
    assert_eq!(expected.len(), 20);
    for (step, (ours, theirs)) in losses(dtype).unwrap().iter().zip(&expected).enumerate() {
        assert!((ours - theirs).abs() <= tolerance, "step {step}: {ours}, PyTorch {theirs}");
    }
}

#[test]
fn losses_are_pytorchs_in_f64() {
    compare(DType::F64, "losses_f64", 1e-10);
}

#[test]
fn losses_are_pytorchs_in_f32() {
    compare(DType::F32, "losses_f32", 1e-5);
}

#[test]
fn the_split_is_stratified() {
    let (training, test) = data::load().unwrap();
    assert_eq!((training.images.dims(), test.images.dims()), (&[1437, 64][..], &[360, 64][..]));
    let labels: Vec<i64> = test.labels.to_vec().unwrap();
    for digit in 0..10 {
        assert!((35..=37).contains(&labels.iter().filter(|&&l| l == digit).count()));
    }
}
