//! What the golden cases do not say: names, laws, setters, copies, and the texts of refusals.

use foldback_tensor::{DType, Tensor, assert_close, manual_seed, tensor};

use super::*;
use crate::init::Nonlinearity;
use crate::{Error, Module, Result};
use foldback_graph::Var;

fn names(module: &impl Module) -> Vec<(String, Vec<usize>)> {
    module.named_parameters().into_iter().map(|(name, var)| (name, var.dims().to_vec())).collect()
}

fn text(e: Error) -> String {
    e.with_location(None).to_string()
}

#[test]
fn parameters_have_pytorchs_names_and_shapes() {
    let lstm = LSTM::new(3, 4).num_layers(2).bidirectional(true).proj_size(2);
    let mut expected = Vec::new();
    for (layer, inputs) in [("l0", 3), ("l0_reverse", 3), ("l1", 4), ("l1_reverse", 4)] {
        let shapes = [
            ("weight_ih", vec![16, inputs]),
            ("weight_hh", vec![16, 2]),
            ("bias_ih", vec![16]),
            ("bias_hh", vec![16]),
            ("weight_hr", vec![2, 4]),
        ];
        expected.extend(shapes.map(|(name, shape)| (format!("{name}_{layer}"), shape)));
    }
    assert_eq!(names(&lstm), expected);
    let small = |name: &str, shape: &[usize]| (name.to_owned(), shape.to_vec());
    assert_eq!(
        names(&GRU::new(3, 4).bias(false)),
        [small("weight_ih_l0", &[12, 3]), small("weight_hh_l0", &[12, 4])]
    );
    assert_eq!(
        names(&RNNCell::new(3, 4).bias(false)),
        [small("weight_ih", &[4, 3]), small("weight_hh", &[4, 4])]
    );
}

/// Uniform between `-1/sqrt(hidden)` and `1/sqrt(hidden)`, weights and biases, each drawn by itself.
#[test]
fn starts_as_in_pytorch() {
    manual_seed(3);
    let gru = GRU::new(5, 100).num_layers(2);
    for (name, var) in gru.named_parameters() {
        let values: Vec<f32> = var.value().to_vec().unwrap();
        let (low, high) = values.iter().fold((0f32, 0f32), |(a, b), &v| (a.min(v), b.max(v)));
        assert!((-0.1..-0.097).contains(&low) && (0.097..=0.1).contains(&high), "{name}: {low} {high}");
    }
    let parameters = gru.parameters();
    assert!(parameters[2].value() != parameters[3].value());
    manual_seed(3);
    assert_eq!(GRU::new(5, 100).num_layers(2).parameters()[0].dims(), [300, 5]);
}

/// A network is its cells, step by step and layer by layer.
#[test]
fn a_network_is_made_of_cells() -> Result<()> {
    let lstm = LSTM::new(3, 4).num_layers(2).dtype(DType::F64);
    let x = Tensor::randn_with([5, 2, 3], DType::F64);
    let (y, (h, c)) = lstm.forward(&x, None)?;
    let mut states = [None, None];
    let mut last = Var::from(&x);
    for step in Var::from(&x).unbind(0)? {
        last = step;
        for (cell, state) in lstm.cells.iter().zip(&mut states) {
            let next = cell.forward(&last, state.as_ref())?;
            last = next.0.clone();
            *state = Some(next);
        }
    }
    let [first, second] = states.map(|state| state.expect("steps"));
    assert_close!(y.select(0, -1)?.value(), last.value());
    assert_close!(h.value(), Var::stack([&first.0, &second.0], 0)?.value());
    assert_close!(c.value(), Var::stack([&first.1, &second.1], 0)?.value());
    Ok(())
}

/// Each sequence of a batch as if it were alone.
#[test]
fn lengths_cut_sequences() -> Result<()> {
    let gru = GRU::new(2, 3).num_layers(2).bidirectional(true).dtype(DType::F64);
    let (x, lengths) = (Tensor::randn_with([4, 3, 2], DType::F64), [2, 4, 1]);
    let (y, h) = gru.forward_with(&x, None, &lengths)?;
    for (i, &length) in lengths.iter().enumerate() {
        let (own, state) = gru.forward(&x.select(1, i as isize)?.narrow(0, 0, length)?, None)?;
        let found = y.select(1, i as isize)?;
        assert_close!(found.narrow(0, 0, length)?.value(), own.value());
        assert_eq!(
            found.narrow(0, length as isize, 4 - length)?.value(),
            Tensor::zeros_with([4 - length, 6], DType::F64)
        );
        assert_close!(h.select(1, i as isize)?.value(), state.value());
    }
    Ok(())
}

#[test]
fn nothing_of_the_padding_reaches_a_gradient() -> Result<()> {
    let rnn = RNN::new(1, 2);
    let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, f32::NAN], [2, 2, 1])?;
    let (y, h) = rnn.forward_with(&x, None, &[2, 1])?;
    y.sum(..)?.add(h.sum(..)?)?.backward()?;
    for (name, var) in rnn.named_parameters() {
        let grad = var.grad().expect("a gradient");
        assert!(grad.to_vec::<f32>()?.iter().all(|v| v.is_finite()), "{name}");
    }
    assert!(y.value().to_vec::<f32>()?.iter().all(|v| v.is_finite()));
    Ok(())
}

#[test]
fn setters_keep_or_draw_anew() {
    let rnn = RNN::new(3, 4).num_layers(2);
    let first = rnn.cells[0].weight_ih.clone();
    let kept = rnn.dropout(0.5).batch_first(true).nonlinearity(Nonlinearity::ReLU);
    assert!(kept.cells[0].weight_ih.is_same(&first) && kept.cells.len() == 2);
    let drawn = kept.bidirectional(true);
    assert!(!drawn.cells[0].weight_ih.is_same(&first) && drawn.cells.len() == 4);
    let double = drawn.dtype(DType::F64).bias(false);
    assert!(double.parameters().iter().all(|var| var.dtype() == DType::F64 && var.requires_grad()));
    assert_eq!(double.forward(Tensor::ones_with([2, 5, 3], DType::F64), None).unwrap().0.shape(), [2, 5, 8]);
    let cell = LSTMCell::new(3, 4).dtype(DType::F64).bias(false);
    assert_eq!((cell.input_size(), cell.hidden_size(), cell.weight_hh.dtype()), (3, 4, DType::F64));
    assert!(cell.bias_ih.is_none());
}

#[test]
fn copies_share_or_do_not() {
    let gru = GRU::new(2, 3).bidirectional(true);
    let same = |other: &GRU| gru.parameters().iter().zip(other.parameters()).all(|(a, b)| a.is_same(&b));
    assert!(same(&gru.clone()));
    let copy = gru.deep_copy();
    assert!(!same(&copy));
    let x = Tensor::randn([4, 2]);
    assert_eq!(copy.forward(&x, None).unwrap().0.value(), gru.forward(&x, None).unwrap().0.value());
    let cell = GRUCell::new(2, 3);
    assert!(cell.clone().weight_hh.is_same(&cell.weight_hh));
    assert!(!cell.deep_copy().weight_hh.is_same(&cell.weight_hh));
}

/// Between layers, in training, and nowhere else.
#[test]
fn drops_between_layers() -> Result<()> {
    let mut rnn = RNN::new(2, 3).num_layers(2).dropout(1.0);
    let (y, h) = rnn.forward(Tensor::randn([4, 2]), None)?;
    // The second layer sees zeros only: it is the same for all inputs; the first is not dropped in its own state.
    let (again, other) = rnn.forward(Tensor::randn([4, 2]), None)?;
    assert_eq!(y.value(), again.value());
    assert!(h.select(0, 0)?.value() != other.select(0, 0)?.value());
    rnn.eval();
    assert!(rnn.forward(Tensor::randn([4, 2]), None)?.0.value() != y.value());
    let one = RNN::new(2, 3).dropout(1.0);
    let x = Tensor::randn([4, 2]);
    assert_eq!(one.forward(&x, None)?.0.value(), one.deep_copy().forward(&x, None)?.0.value());
    Ok(())
}

#[test]
fn refusals_say_what_and_how() {
    let lstm = LSTM::new(3, 4);
    let of = |shape: &[usize]| text(lstm.forward(Tensor::ones(shape), None).unwrap_err());
    let cure = "the last axis holds the features; make the layer for";
    assert!(
        of(&[5, 2, 4])
            .starts_with(&format!("lstm: expected an input of shape [.., 3], found [5, 2, 4]: {cure} 4"))
    );
    assert_eq!(of(&[3]), "lstm: expected an input of shape [t, 3], or [t, n, 3] with a batch, found [3]");
    assert_eq!(
        of(&[0, 2, 3]),
        "lstm: expected an input of shape [t, ..] of at least one step, found [0, 2, 3]"
    );
    let x = Tensor::ones([5, 2, 3]);
    let state = (Var::from(Tensor::ones([1, 2, 4])), Var::from(Tensor::ones([1, 2, 3])));
    let e = lstm.forward(&x, Some(&state)).unwrap_err();
    assert_eq!(text(e), "lstm: expected c_0 of shape [1, 2, 4], found [1, 2, 3]");
    let e = lstm.forward(x.to(DType::F64), None).unwrap_err();
    assert_eq!(text(e), "lstm: the input must be f32 as the weights are, found f64: use to(DType::F32)");
    for (lengths, x) in [(&[5][..], x.clone()), (&[5, 6], x.clone()), (&[5, 0], x.clone())] {
        let e = text(lstm.forward_with(&x, None, lengths).unwrap_err());
        assert_eq!(e, format!("lstm: lengths {lengths:?} do not fit: expected 2 of them, each from 1 to 5"));
    }
    let e = text(lstm.forward_with(Tensor::ones([5, 3]), None, &[5]).unwrap_err());
    assert!(e.ends_with("an input without a batch has one length, its own: leave them out"), "{e}");
    let e = text(LSTMCell::new(3, 4).forward(&tensor![1.0], None).unwrap_err());
    assert!(
        e.starts_with(&format!("lstm_cell: expected an input of shape [.., 3], found [1]: {cure} 1")),
        "{e}"
    );
}

#[test]
fn refusals_of_options() {
    let of = |builder: RecurrentBuilder<kinds::LongShortTerm>| text(builder.build().unwrap_err());
    let builder = || LSTM::builder(3, 4);
    assert_eq!(of(builder().num_layers(0)), "lstm: num_layers = 0 is not valid: expected at least 1");
    assert!(of(builder().num_layers(usize::MAX)).ends_with("is not valid: expected at most 65536"));
    assert_eq!(
        of(builder().proj_size(4)),
        "lstm: proj_size = 4 is not valid: expected less than hidden_size"
    );
    assert_eq!(of(builder().dropout(2.0)), "dropout: p = 2 is not valid: expected between 0 and 1");
    assert_eq!(of(LSTM::builder(0, 4)), "lstm: input_size = 0 is not valid: expected at least 1");
    assert!(LSTM::builder(3, usize::MAX).build().is_err());
    assert!(builder().dtype(DType::I64).build().is_err());
    assert_eq!(of(LSTM::builder(3, 0)), "lstm: hidden_size = 0 is not valid: expected at least 1");
    let e = RNN::builder(3, 4).nonlinearity(Nonlinearity::Sigmoid).build().unwrap_err();
    assert_eq!(text(e), "rnn: nonlinearity = Sigmoid is not offered: expected Tanh or ReLU");
    assert!(RNNCell::builder(3, 4).nonlinearity(Nonlinearity::SELU).build().is_err());
}

#[test]
#[should_panic(expected = "rnn_cell: nonlinearity = Linear is not offered: expected Tanh or ReLU")]
fn a_setter_panics_with_the_same_text() {
    let _ = RNNCell::new(3, 4).nonlinearity(Nonlinearity::Linear);
}

#[test]
fn shown_by_sizes() {
    let text = format!("{:?}", LSTM::new(3, 4));
    assert_eq!(text, "lstm { input_size: 3, hidden_size: 4, num_layers: 1, bidirectional: false }");
    let text = format!("{:?}", GRUCell::new(3, 4));
    assert_eq!(text, "gru_cell { input_size: 3, hidden_size: 4, bias: true }");
}

/// As PyTorch's, which refuses sizes of 0 of layers alone.
#[test]
fn a_cell_may_have_no_size() {
    let (x, nothing) = (Var::from(Tensor::ones([2, 3])), Var::from(Tensor::ones([2, 0])));
    assert_eq!(RNNCell::new(3, 0).forward(&x, None).unwrap().dims(), [2, 0]);
    assert_eq!(GRUCell::new(3, 0).forward(&x, None).unwrap().dims(), [2, 0]);
    let (h, c) = LSTMCell::new(3, 0).forward(&x, None).unwrap();
    assert_eq!((h.dims(), c.dims()), (&[2, 0][..], &[2, 0][..]));
    assert_eq!(GRUCell::new(0, 3).forward(&nothing, None).unwrap().dims(), [2, 3]);
}

/// What is carried over from a pass that is done, and not detached: the layer is named, not the formula inside.
#[test]
fn a_state_of_an_earlier_pass_names_the_layer() -> Result<()> {
    let x = Tensor::ones([1, 2, 3]);
    let (lstm, gru) = (LSTM::new(3, 4), GRU::new(3, 4));
    let (y, state) = lstm.forward_with(&x, None, &[1, 1])?;
    y.sum(..)?.backward()?;
    let e = lstm.forward_with(&x, Some(&state), &[1, 1])?.0.sum(..)?.backward().unwrap_err();
    assert!(text(e).starts_with("lstm: trying to go backward through the graph a second time"));
    let (y, state) = gru.forward_with(&x, None, &[1, 1])?;
    y.sum(..)?.backward()?;
    let e = gru.forward_with(&x, Some(&state), &[1, 1])?.0.sum(..)?.backward().unwrap_err();
    assert!(text(e).starts_with("gru: trying to go backward through the graph a second time"));
    Ok(())
}
