//! Values, gradients, starts, setters, lines and refusals of linear layers.

use foldback_graph::{GraphFacts, RequiresGrad};
use foldback_tensor::{assert_close, manual_seed, tensor};

use super::*;

#[test]
fn value_and_gradients() {
    let w = tensor![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]; f64].requires_grad();
    let b = tensor![0.5, 0.0, -0.5; f64].requires_grad();
    let layer = Linear::from_parameters(w.clone(), Some(b.clone())).unwrap();
    let x = tensor![[1.0, 1.0], [2.0, -1.0]; f64].requires_grad();
    let y = layer.forward(&x).unwrap();
    assert_close!(y.value(), tensor![[3.5, 7.0, 10.5], [0.5, 2.0, 3.5]; f64]);
    y.sum(..).unwrap().backward().unwrap();
    assert_close!(w.grad().unwrap(), tensor![[3.0, 0.0], [3.0, 0.0], [3.0, 0.0]; f64]);
    assert_close!(b.grad().unwrap(), tensor![2.0, 2.0, 2.0; f64]);
    assert_close!(x.grad().unwrap(), tensor![[9.0, 12.0], [9.0, 12.0]; f64]);
}

#[test]
fn parameters_belong_to_the_line_that_makes_the_layer() {
    let (layer, line) = (Linear::new(3, 2), line!());
    let graph = layer.forward(Tensor::zeros([1, 3])).unwrap().graph().unwrap();
    let leaves: Vec<_> = graph.nodes().iter().filter(|n| n.is_leaf()).map(|n| n.location).collect();
    assert_eq!(leaves.len(), 2);
    assert!(leaves.iter().all(|l| l.file() == file!() && l.line() == line), "{leaves:?}");
}

#[test]
fn any_number_of_leading_axes() {
    let layer = Linear::new(3, 2);
    for (shape, expected) in [(vec![3], vec![2]), (vec![4, 3], vec![4, 2]), (vec![2, 0, 3], vec![2, 0, 2])] {
        assert_eq!(layer.forward(Tensor::zeros(shape)).unwrap().shape().to_vec(), expected);
    }
}

#[test]
fn starts_as_in_pytorch() {
    manual_seed(3);
    let layer = Linear::new(100, 400);
    let bound = 0.1;
    for (values, n) in [(layer.weight.value(), 40_000), (layer.bias.as_ref().unwrap().value(), 400)] {
        let values: Vec<f32> = values.to_vec().unwrap();
        assert_eq!(values.len(), n);
        assert!(values.iter().all(|v| v.abs() <= bound));
        // Both ends are reached, and the mean is near 0: within 4 standard errors of a uniform distribution.
        let (min, max) = values.iter().fold((0f32, 0f32), |(a, b), &v| (a.min(v), b.max(v)));
        assert!(min < -0.098 && max > 0.098, "{min} {max}");
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / n as f64;
        assert!(mean.abs() < 4.0 * 0.1 / (3.0 * n as f64).sqrt(), "{mean}");
    }
    manual_seed(3);
    assert_eq!(Linear::new(100, 400).weight.value(), layer.weight.value());
}

/// The weight is drawn anew where its law changes, and kept where it does not; a clone keeps its own.
#[test]
fn setters_draw_anew() {
    manual_seed(3);
    let layer = Linear::new(3, 2);
    let same = layer.clone();
    let with = |layer: &Linear| (layer.weight.clone(), layer.bias.clone());
    let plain = layer.bias(false);
    assert!(plain.weight.is_same(&same.weight) && plain.bias.is_none() && same.bias.is_some());
    let (weight, bias) = with(&plain.clone().bias(true));
    assert!(weight.is_same(&same.weight) && *bias.unwrap().shape() == [2]);
    let bias = same.bias.clone().unwrap();
    assert!(same.clone().bias(true).bias.unwrap().is_same(&bias));
    let fives = same.clone().init(Init::normal(5.0, 0.0));
    assert_eq!(fives.weight.value(), Tensor::full([2, 3], 5.0));
    assert!(fives.bias.as_ref().unwrap().is_same(&bias));
    let double = fives.dtype(DType::F64);
    assert_eq!(double.weight.value(), Tensor::full_with([2, 3], 5.0, DType::F64));
    assert_eq!(double.bias.as_ref().unwrap().dtype(), DType::F64);
    assert!(double.weight.requires_grad() && double.bias.unwrap().requires_grad());
    assert!(plain.dtype(DType::F64).bias.is_none());
    // From this thread's generator, as a layer of that type from the start.
    manual_seed(4);
    let first = same.dtype(DType::F64).weight.value();
    manual_seed(4);
    assert_eq!(Linear::builder(3, 2).dtype(DType::F64).build().unwrap().weight.value(), first);
}

/// Fields are public, so that a weight may be anything.
#[test]
fn a_weight_of_any_rank_has_sizes() {
    let mut layer = Linear::new(3, 2).bias(false);
    for (weight, sizes) in [(tensor![1.0, 2.0], (2, 1)), (Tensor::scalar(1f32), (1, 1))] {
        layer.weight = weight.requires_grad();
        assert_eq!((layer.in_features(), layer.out_features()), sizes);
    }
    assert!(layer.forward(&tensor![1.0]).is_err());
}

#[test]
fn operations_belong_to_the_line_that_called_the_layer() {
    let layer = Linear::new(2, 2);
    let y = layer.forward(tensor![1.0, 2.0].requires_grad()).unwrap(); // this line
    let called = line!() - 1;
    let y = y.sum(..).unwrap();
    y.backward().unwrap();
    let e = y.backward().unwrap_err();
    let Some(GraphFacts::Freed { op, location }) = e.facts() else { panic!("{e}") };
    assert_eq!((*op, location.file(), location.line()), ("linear", file!(), called));
}

#[test]
fn without_inputs() {
    let layer = Linear::new(0, 2);
    let y = layer.forward(Tensor::zeros([3, 0])).unwrap();
    assert_eq!(y.value(), Tensor::zeros([3, 2]));
}

#[test]
fn shown_by_its_sizes() {
    let text = format!("{:?}", Linear::new(3, 2));
    assert_eq!(text, "Linear { in_features: 3, out_features: 2, bias: true }");
}

#[test]
fn refusals() {
    let layer = Linear::new(3, 2);
    let e = layer.forward(&tensor![[1.0, 2.0]]).unwrap_err().with_location(None).to_string();
    assert_eq!(
        e,
        "linear: expected an input of shape [.., 3], found [1, 2]: the last axis holds the features; make the \
     layer for 2, or transpose or reshape the input"
    );
    assert!(layer.forward(Tensor::scalar(1.0f32)).is_err());
    assert!(layer.forward(&tensor![1.0, 2.0, 3.0; f64]).is_err());
    assert!(Linear::builder(2, 2).dtype(DType::I64).build().is_err());
    assert!(Linear::builder(usize::MAX, 2).build().is_err());
    assert!(Linear::try_new(usize::MAX, 2).is_err());
    assert!(Linear::builder(0, 2).dtype(DType::I64).build().is_err());
    let w = tensor![[1.0, 2.0]].requires_grad();
    let e = Linear::from_parameters(w, Some(tensor![1.0, 2.0].requires_grad()))
        .unwrap_err()
        .with_location(None)
        .to_string();
    assert_eq!(e, "linear: expected a bias of shape [1], found [2]");
    assert!(Linear::from_parameters(tensor![1.0].requires_grad(), None).is_err());
}
