//! Models of several inputs by derive alone: attention with a mask, an encoder with a decoder, and networks whose state goes in
//! and comes out.

use foldback::nn::{Buffer, LSTM, Summary};
use foldback::prelude::*;

/// Attention over `[b, t, c]` with a mask, which is an option, and the weights beside the result.
#[derive(Clone, Module)]
struct Attending {
    qkv: Linear,
    out: Linear,
}

#[forward]
impl Attending {
    fn new(width: usize) -> Attending {
        Attending { qkv: Linear::new(width, 3 * width), out: Linear::new(width, width) }
    }

    fn forward(&self, x: &Var, mask: Option<&Tensor>) -> Result<(Var, Var)> {
        let [q, k, v] = self.qkv.forward(x)?.chunks(-1)?;
        let mut scores = q.matmul(k.transpose(-2, -1)?)?;
        if let Some(mask) = mask {
            scores = scores.masked_fill(!mask, f64::NEG_INFINITY)?;
        }
        let weights = scores.softmax(-1)?;
        Ok((self.out.forward(&weights.matmul(v)?)?, weights))
    }
}

/// A block of a decoder: two inputs and a mask between them.
#[derive(Clone, Module)]
struct Decoding {
    own: Attending,
    query: Linear,
    memory: Linear,
}

#[forward]
impl Decoding {
    fn forward(&self, x: &Var, memory: &Var, mask: &Tensor) -> Result<Var> {
        let (x, _) = self.own.forward(x, Some(mask))?;
        let memory = self.memory.forward(memory)?;
        let scores = self.query.forward(&x)?.matmul(memory.transpose(-2, -1)?)?;
        x.add(scores.softmax(-1)?.matmul(memory)?)
    }
}

#[derive(Module)]
struct Translating {
    words: Var,
    encoder: Vec<Attending>,
    decoder: Vec<Decoding>,
    head: Linear,
    causal: Buffer,
}

#[forward]
impl Translating {
    fn new() -> Translating {
        let decoding =
            || Decoding { own: Attending::new(4), query: Linear::new(4, 4), memory: Linear::new(4, 4) };
        Translating {
            words: Tensor::randn([9, 4]).requires_grad(),
            encoder: vec![Attending::new(4), Attending::new(4)],
            decoder: vec![decoding(), decoding()],
            head: Linear::new(4, 9),
            causal: Buffer::new(Tensor::ones([3, 3]).tril().bool()).persistent(false),
        }
    }

    fn forward(&self, source: &Var, target: &Var) -> Result<Var> {
        let mut memory = Var::embedding(source, &self.words)?;
        for block in &self.encoder {
            memory = block.forward(&memory, None)?.0;
        }
        let mut y = Var::embedding(target, &self.words)?;
        for block in &self.decoder {
            y = block.forward(&y, &memory, &self.causal.value())?;
        }
        self.head.forward(&y)
    }
}

#[test]
fn an_encoder_with_a_decoder() {
    manual_seed(1);
    let mut model = Translating::new();
    let (source, target) = (tensor![[1, 2, 3, 4], [5, 6, 7, 8]; i64], tensor![[0, 1, 2], [3, 4, 5]; i64]);
    let y = model.forward(&source, &target).unwrap();
    assert_eq!(y.shape(), [2, 3, 9]);
    y.square().mean(..).unwrap().backward().unwrap();
    for (name, parameter) in model.named_parameters() {
        let grad = parameter.grad().unwrap_or_else(|| panic!("{name} has no gradient"));
        assert!(grad.abs().sum(..).unwrap().item().unwrap().is_finite(), "{name}");
    }
    // What comes later in the target is not seen.
    let other = tensor![[0, 1, 8], [3, 4, 8]; i64];
    let z = model.forward(&source, Var::from(other)).unwrap().value();
    assert_eq!(y.value().narrow(1, 0, 2).unwrap(), z.narrow(1, 0, 2).unwrap());
    assert_ne!(y.value(), z);
    // Names, copies, loading, errors.
    let names: Vec<String> = model.state_dict().names().map(str::to_owned).collect();
    assert_eq!(
        (names[0].as_str(), names[9].as_str(), names.len()),
        ("words", "decoder.0.own.qkv.weight", 27)
    );
    let copy = model.deep_copy();
    let mut fresh = Translating::new();
    fresh.load_state_dict(&model.state_dict()).unwrap();
    for same in [copy, fresh] {
        assert_eq!(same.forward(&source, &target).unwrap().value(), y.value());
    }
    model.decoder[1].memory = Linear::new(3, 4);
    let e = model.forward(&source, &target).unwrap_err().with_location(None).to_string();
    assert!(
        e.starts_with("decoder.1.memory: linear: expected an input of shape [.., 3], found [2, 4, 4]"),
        "{e}"
    );
}

#[test]
fn a_mask_that_may_be_absent() {
    let layer = Attending::new(4);
    let x = Tensor::randn([2, 3, 4]);
    let mask = Tensor::ones([3, 3]).tril().bool();
    let (_, free) = layer.forward(&x, None).unwrap();
    let (_, masked) = layer.forward(Var::from(&x), Some(&mask)).unwrap();
    assert!(free.amin(..).unwrap().item().unwrap() > 0.0);
    assert_eq!(masked.value().triu_with(1).unwrap(), Tensor::zeros([2, 3, 3]));
    let summary = Summary::of(&layer, |layer| layer.forward(&x, Some(&mask))).unwrap();
    assert_eq!(summary.layers[0].outputs, [[2, 3, 4], [2, 3, 3]]);
    assert_eq!(summary.flops, 2 * 2 * (3 * 4 * 12 + 2 * 3 * 3 * 4 + 3 * 4 * 4));
}

/// A model whose state goes in and comes out, around a layer that has one.
#[derive(Module)]
struct Remembering {
    network: LSTM,
    head: Linear,
}

type Memory = (Var, Var);

#[forward]
impl Remembering {
    fn forward(&self, x: &Var, state: Option<&Memory>) -> Result<(Var, Memory)> {
        let (y, state) = self.network.forward(x, state)?;
        Ok((self.head.forward(&y)?, state))
    }
}

/// A model of one variable around one of several.
#[derive(Module)]
struct Last(Remembering);

#[forward]
impl Last {
    fn forward(&self, x: &Var) -> Result<Var> {
        self.0.forward(x, None)?.0.select(0, -1)
    }
}

#[test]
fn state_goes_in_and_comes_out() {
    manual_seed(2);
    let model = Remembering { network: LSTM::new(2, 3), head: Linear::new(3, 1) };
    let x = Tensor::randn([6, 4, 2]); // [steps, batch, features]
    let (whole, _) = model.forward(&x, None).unwrap();
    let (first, state) = model.forward(x.narrow(0, 0, 2).unwrap(), None).unwrap();
    let (second, (h, c)) = model.forward(x.narrow(0, 2, 4).unwrap(), Some(&state)).unwrap();
    assert_close!(Var::cat([&first, &second], 0).unwrap(), whole.value());
    assert_eq!((h.shape(), c.shape()), (&[1, 4, 3].into(), &[1, 4, 3].into()));
    // The gradient goes through the state, or ends where it is detached.
    let passed = |state: &Memory| {
        let (y, _) = model.forward(x.narrow(0, 2, 4).unwrap(), Some(state)).unwrap();
        grad(y.sum(..).unwrap(), &model.network.parameters()).unwrap()
    };
    let (through, ended) = (passed(&state), passed(&(state.0.detach(), state.1.detach())));
    assert!(through.iter().zip(&ended).any(|(a, b)| a.value() != b.value()));
    let model = sequential![Last(model), ReLU];
    assert_eq!(model.named_parameters()[0].0, "0.0.network.weight_ih_l0");
    let summary = model.summary(&x).unwrap();
    let paths: Vec<&str> = summary.layers.iter().map(|layer| layer.path.as_str()).collect();
    assert_eq!(paths, ["", "0", "0.0", "0.0.network", "0.0.head", "1"]);
    assert_eq!(summary.layers[3].outputs, [[6, 4, 3], [1, 4, 3], [1, 4, 3]]);
    assert_eq!(summary.layers[3].flops, 2 * 6 * 4 * (2 + 3) * 12);
    let e = model.forward(Tensor::ones([6, 4, 5])).unwrap_err().with_location(None).to_string();
    assert!(e.starts_with("0.0.network: lstm: "), "{e}");
}
