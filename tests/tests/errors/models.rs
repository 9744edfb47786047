//! Losses, layers, models, optimisers and checks of gradients.

use foldback::Error;
use foldback::gradcheck::Check;
use foldback::graph::{GraphFacts, RequiresGrad};
use foldback::nn::init::Init;
use foldback::nn::loss::{BCEWithLogitsLoss, CrossEntropyLoss, MSELoss, NLLLoss};
use foldback::nn::{Dropout, GELU, Linear, Module, Sequential, Softplus, linear};
use foldback::optim::{Adam, AdamW};
use foldback::prelude::*;
use foldback::tensor::refused;

use crate::{here, line_ending};

#[test]
fn losses_and_layers() {
    let (x, labels) = (tensor![[1.0, 2.0]].requires_grad(), tensor![1; i64]);
    let odd = tensor![1.0, 2.0, 3.0];
    here(loss::mse_loss(&x, &odd));
    here(loss::binary_cross_entropy_with_logits(&x, &odd));
    here(loss::binary_cross_entropy(&x, &odd));
    here(loss::binary_cross_entropy(&x, &x));
    here(loss::l1_loss(&x, &odd));
    here(loss::smooth_l1_loss(&x, &odd));
    here(loss::huber_loss(&x, &odd));
    here(loss::kl_div(&x, &odd));
    here(loss::SmoothL1Loss::new().beta(-1.0).forward(&x, &x));
    here(loss::HuberLoss::new().weight(odd.clone()).forward(&x, &x));
    here(loss::nll_loss(&x, &odd));
    here(loss::cross_entropy(&x, &odd));
    here(MSELoss::new().forward(&x, &odd));
    here(BCEWithLogitsLoss::new().pos_weight(odd.clone()).forward(&x, &x));
    here(NLLLoss::new().weight(odd.clone()).forward(&x, &labels));
    here(CrossEntropyLoss::new().label_smoothing(2.0).forward(&x, &labels));
    here(loss::cross_entropy(&x, &tensor![7; i64]));
    here(loss::triplet_margin_with_distance_loss(&x, &x, &odd, |a, b| a.matmul(b)));
    here(TripletMarginWithDistanceLoss::new().margin(0.0).forward(&x, &x, &x));
    here(TripletMarginWithDistanceLoss::new().distance_function(|a, b| a.matmul(b)).forward(&x, &x, &x));
    here(LinearCrossEntropyLoss::builder(2, 3).weight(x.value()).build());
    here(LinearCrossEntropyLoss::new(2, 3).forward(&x, &tensor![7; i64]));
    here(LinearCrossEntropyLoss::new(3, 3).forward(&x, &labels));
    here(AdaptiveLogSoftmaxWithLoss::try_new(2, 3, [9]));
    let adaptive = AdaptiveLogSoftmaxWithLoss::new(2, 3, [1]);
    here(adaptive.forward(&x, &tensor![7; i64]));
    here(adaptive.log_prob(&odd));
    here(adaptive.predict(tensor![[1.0]]));
    let layer = Linear::new(3, 2);
    let integers = Var::from(tensor![[1, 2]; i64]);
    here(layer.forward(&x));
    here(linear(&x, &x, Some(&x)));
    here(linear(&integers, &x, None));
    here(Linear::from_parameters(Var::from(odd.clone()), None));
    here(Linear::builder(1 << 40, 1 << 40).build());
    here(Init::xavier_normal(1.0).sample(3, DType::F32));
    here(Dropout::try_new(2.0));
    here(Linear::try_new(1 << 40, 1 << 40));
    here(Dropout::new(0.5).forward(&integers));
    let huge = Var::from(tensor![1.0].expand([1usize << 60]).unwrap());
    here(Dropout::new(0.5).forward(&huge));
    here(Dropout::new(0.5).seed(1).forward(&huge));
    here(GELU.forward(&integers));
    here(Softplus::new().forward(&integers));
    here(AdaptiveMaxPool1d::new(2).forward(&odd));
    here(AdaptiveMaxPool2d::new(2).forward_with_indices(&odd));
    here(FractionalMaxPool2d::size(2, 1).forward(&odd));
    here(FractionalMaxPool2d::ratio(2, 2.0).forward_with_indices(Tensor::ones([1, 2, 2])));
    here(MaxUnpool1d::new(2).forward(&odd, &labels));
    here(MaxUnpool2d::new(2).forward_with(odd.clone(), labels.clone(), 4));
    here(Unfold::new(2).forward(&odd));
    here(GroupNorm::new(1, 4).forward(&odd));
    let behind: &dyn Layer = &layer;
    here(behind.forward(&x));
    let e = here(Sequential::new().then(Linear::new(2, 8)).then(Linear::new(4, 1)).forward(&x));
    assert_eq!(e.path(), "1");
}

/// A layer that is made of other operations refuses at the line of the call, also behind a list of layers, which has no line of its own.
#[test]
fn pooling_by_random_steps_inside_a_model() {
    let (x, samples) = (Tensor::ones([1, 2, 4, 4]), Tensor::full([1, 2, 2], 0.5));
    let pool = || FractionalMaxPool2d::size(2, 2);
    let many = Tensor::ones([1, 1, 4, 4]).expand([1usize, 1 << 50, 4, 4]).unwrap();
    for (layer, x) in [
        (pool(), tensor![1.0, 2.0]),
        (pool(), x.long()),
        (pool(), many),
        (FractionalMaxPool2d::size(9, 1), x.clone()),
        (FractionalMaxPool2d::size(2, 9), x.clone()),
        (FractionalMaxPool2d::ratio(2, 2.0), x.clone()),
        (pool().random_samples(tensor![0.5]), x.clone()),
        (pool().random_samples(samples.double()), x.clone()),
        (pool().random_samples(&samples + 1.0), x.clone()),
    ] {
        here(layer.forward_with_indices(&x));
        let model = Sequential::new().then(Sequential::new().then(layer));
        let e = here(model.forward(&x));
        assert_eq!(e.path(), "0.0", "{e}");
    }
}

#[derive(Module)]
struct Block {
    fc: Linear,
}

#[forward]
impl Block {
    fn forward(&self, x: &Var) -> Result<Var> {
        let y = self.fc.forward(x)?; // the line of the layer
        y.sum(7) // the line of the sum
    }
}

/// The line of an operation in a user's distance stays, too.
#[test]
fn lines_inside_a_distance() {
    let x = tensor![[1.0, 2.0]].requires_grad();
    let loss = TripletMarginWithDistanceLoss::new().distance_function(|a, b| {
        a.matmul(b) // the line of the product
    });
    let e = loss.forward(&x, &x, &x).unwrap_err();
    let line = line_ending(include_str!("models.rs"), "// the line of the product");
    assert_eq!(e.location().unwrap().line(), line, "{e}");
}

/// The line of an operation in a user's `forward` stays, however deep the model is; the path says which model it was.
#[test]
fn lines_inside_a_model() {
    let layer = line_ending(include_str!("models.rs"), "// the line of the layer");
    for (width, line, path) in [(3, layer, "1.fc"), (2, layer + 1, "1")] {
        let block = || Block { fc: Linear::new(width, 2) };
        let x = tensor![[1.0, 2.0]].requires_grad();
        let e = block().forward(&x).unwrap_err();
        assert_eq!((e.location().unwrap().file(), e.location().unwrap().line()), (file!(), line), "{e}");
        let e = Sequential::new().then(Linear::new(2, 2)).then(block()).forward(&x).unwrap_err();
        assert_eq!((e.path(), e.location().unwrap().line()), (path, line), "{e}");
        assert!(e.to_string().starts_with(&format!("{path}: ")), "{e}");
    }
}

#[test]
fn optimisers() {
    let x = tensor![1.0].requires_grad();
    here(SGD::try_new([x.clone()], -1.0));
    here(SGD::try_new([] as [Var; 0], 0.1));
    here(Adam::try_new([x.clone(), x.clone()], 0.1));
    here(AdamW::try_new([&x * 2.0], 0.1));
    let sgd = SGD::new([x.clone()], 0.1);
    here(sgd.set_lr(-1.0));
    let behind: &dyn Optimizer = &sgd;
    here(behind.set_lr(-1.0));
    x.update_value(|_| {
        let e = here(sgd.step());
        assert!(refused!(Err::<(), _>(e), GraphFacts::Updating { .. }));
        Ok(())
    })
    .unwrap();
}

#[test]
fn checks_of_gradients() {
    let x = [tensor![1.0, 2.0; f64]];
    here(gradcheck(|x| Ok(x[0].exp()), &[tensor![1.0]]));
    here(gradgradcheck(|x| Ok(x[0].exp()), &[] as &[Tensor]));
    here(Check::new().step(-1.0).gradcheck(|x| Ok(x[0].exp()), &x));
    here(gradcheck(|x| Ok(x[0].detach()), &x));
    let result = tensor![1.0; f64].requires_grad() * 2.0;
    here(Check::new().gradcheck_parameters(|| result.exp(), [("w", &result)]));
    let inside = line!() + 1;
    let e = gradcheck(|x| x[0].sum(7), &x).unwrap_err();
    assert_eq!(e.location().unwrap().line(), inside);
    let e = gradcheck(|_| Err::<Var, _>(Error::other("mine")), &x).unwrap_err();
    assert_eq!(e.to_string(), "mine");
}
