//! The fully connected layer.

use std::fmt;

use foldback_graph::Var;
use foldback_tensor::{DType, Generator, Here, Tensor, or_panic, refuse};

use crate::copies::Copies;
use crate::error::{NnFacts, Result};
use crate::init::{Init, Nonlinearity};
use crate::{Module, forward};

/// `x W^T + b` over the last axis: `[.., in]` to `[.., out]`. PyTorch's
/// [`Linear`](https://docs.pytorch.org/docs/stable/generated/torch.nn.Linear.html).
///
/// The weight has shape `[out, in]`, the bias `[out]`. Both start uniform between `-1/sqrt(in)` and `1/sqrt(in)`, which
/// for the weight is Kaiming's initialisation with `a = sqrt(5)`. A clone shares the weights,
/// [`deep_copy`](Module::deep_copy) does not.
///
/// ```
/// use foldback_nn::Linear;
/// use foldback_tensor::Tensor;
/// let layer = Linear::new(64, 10);
/// let y = layer.forward(&Tensor::zeros([32, 64]))?;
/// assert_eq!(y.shape(), [32, 10]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Module)]
pub struct Linear {
    /// `[out, in]`
    pub weight: Var,
    /// `[out]`, if there is one
    pub bias: Option<Var>,
    /// the law of a weight that a setter draws anew
    #[module(skip)]
    init: Init,
}

impl Clone for Linear {
    /// A layer that shares these weights; [`deep_copy`](Module::deep_copy) gives it its own.
    fn clone(&self) -> Linear {
        self.copy_parts(&mut Copies::shared())
    }
}

impl fmt::Debug for Linear {
    /// The sizes, not the numbers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Linear")
            .field("in_features", &self.in_features())
            .field("out_features", &self.out_features())
            .field("bias", &self.bias.is_some())
            .finish()
    }
}

impl Linear {
    /// A layer with bias and `f32` parameters from this thread's generator, see
    /// [`manual_seed`](foldback_tensor::manual_seed). Setters follow it; what they change is drawn anew.
    ///
    /// # Panics
    /// If the weight would be too large to address; [`Linear::try_new`] returns an error instead.
    ///
    /// ```
    /// use foldback_nn::{Init, Linear};
    /// use foldback_tensor::DType;
    /// let layer = Linear::new(64, 10).bias(false).dtype(DType::F64).init(Init::xavier_normal(1.0));
    /// assert_eq!(layer.weight.dtype(), DType::F64);
    /// assert!(layer.bias.is_none());
    /// ```
    #[track_caller]
    pub fn new(in_features: usize, out_features: usize) -> Linear {
        or_panic(Linear::try_new(in_features, out_features))
    }

    /// [`Linear::new`] that returns an error instead of panicking.
    ///
    /// # Errors
    /// `TooLarge` if the weight would be too large to address.
    ///
    /// ```
    /// assert!(foldback_nn::Linear::try_new(1 << 40, 1 << 40).is_err());
    /// ```
    #[track_caller]
    pub fn try_new(in_features: usize, out_features: usize) -> Result<Linear> {
        Linear::builder(in_features, out_features).build()
    }

    /// Whether there is a bias. One that was not there is drawn.
    ///
    /// # Panics
    /// Where [`LinearBuilder::build`] returns an error.
    #[must_use]
    #[track_caller]
    pub fn bias(mut self, bias: bool) -> Linear {
        if bias && self.bias.is_none() {
            self.bias = or_panic(self.again().build()).bias;
        }
        self.bias = self.bias.filter(|_| bias);
        self
    }

    /// With parameters of this type, drawn anew from this thread's generator. The default is `f32`.
    ///
    /// # Panics
    /// If it is not a floating-point type; [`LinearBuilder::build`] returns an error instead.
    #[must_use]
    #[track_caller]
    pub fn dtype(self, dtype: DType) -> Linear {
        or_panic(self.again().bias(self.bias.is_some()).dtype(dtype).build())
    }

    /// With a weight of this distribution, drawn anew from this thread's generator. The bias is kept.
    ///
    /// # Panics
    /// If it is no distribution, with a negative spread for one; [`LinearBuilder::build`] returns an error instead.
    #[must_use]
    #[track_caller]
    pub fn init(mut self, init: Init) -> Linear {
        self.weight = or_panic(self.again().bias(false).init(init).build()).weight;
        self.init = init;
        self
    }

    /// What makes another layer like this one.
    fn again(&self) -> LinearBuilder<'static> {
        Linear::builder(self.in_features(), self.out_features()).dtype(self.weight.dtype()).init(self.init)
    }

    /// For a layer from a generator of one's own, and for what may be refused: the setters of a layer, and
    /// [`LinearBuilder::build`].
    ///
    /// ```
    /// use foldback_nn::Linear;
    /// use foldback_tensor::Generator;
    /// let mut generator = Generator::new(7);
    /// let layer = Linear::builder(64, 10).bias(false).generator(&mut generator).build()?;
    /// assert_eq!(layer.weight.shape(), [10, 64]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    pub fn builder<'a>(in_features: usize, out_features: usize) -> LinearBuilder<'a> {
        LinearBuilder {
            in_features,
            out_features,
            bias: true,
            dtype: DType::F32,
            init: default_init(),
            generator: None,
        }
    }

    /// A layer with these parameters: a weight of shape `[out, in]` and a bias of shape `[out]`.
    ///
    /// Tensors become leaves; variables are used as they are, so that layers can share them.
    ///
    /// # Errors
    /// `ParameterShape` if a shape does not fit.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_nn::Linear;
    /// use foldback_tensor::tensor;
    /// let layer = Linear::from_parameters(
    ///     tensor![[1.0, 2.0], [3.0, 4.0]].requires_grad(),
    ///     Some(tensor![0.5, -0.5].requires_grad()),
    /// )?;
    /// assert_eq!(layer.forward(&tensor![1.0, 1.0])?.value(), tensor![3.5, 6.5]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    #[track_caller]
    pub fn from_parameters(weight: Var, bias: Option<Var>) -> Result<Linear> {
        check_parameters(&weight, bias.as_ref()).here()?;
        Ok(Linear { weight, bias, init: default_init() })
    }

    /// The size of the last axis of inputs.
    pub fn in_features(&self) -> usize {
        self.weight.shape().last().copied().unwrap_or(1)
    }

    /// The size of the last axis of outputs.
    pub fn out_features(&self) -> usize {
        match self.weight.shape().dims() {
            [out, _] => *out,
            _ => 1,
        }
    }
}

/// Kaiming's with `a = sqrt(5)`: uniform between `-1/sqrt(in)` and `1/sqrt(in)`.
fn default_init() -> Init {
    Init::kaiming_uniform(Nonlinearity::LeakyReLU(5f64.sqrt()))
}

#[forward]
impl Linear {
    /// `[.., in]` to `[.., out]`.
    ///
    /// # Errors
    /// `Features` if the last axis of the input is not `in_features`; `MixedDTypes` if its type is not the weight's.
    #[track_caller]
    pub fn forward(&self, input: &Var) -> Result<Var> {
        linear(input, &self.weight, self.bias.as_ref())
    }
}

/// The options of a [`Linear`], see [`Linear::builder`].
#[derive(Debug)]
#[must_use = "a layer is made when build() is called"]
pub struct LinearBuilder<'a> {
    in_features: usize,
    out_features: usize,
    bias: bool,
    dtype: DType,
    init: Init,
    generator: Option<&'a mut Generator>,
}

impl<'a> LinearBuilder<'a> {
    /// Whether there is a bias. The default is yes.
    pub fn bias(mut self, bias: bool) -> Self {
        self.bias = bias;
        self
    }

    /// The type of the parameters. The default is `f32`.
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = dtype;
        self
    }

    /// How the weight starts. The bias stays uniform between `-1/sqrt(in)` and `1/sqrt(in)`.
    pub fn init(mut self, init: Init) -> Self {
        self.init = init;
        self
    }

    /// Where random numbers come from. The default is this thread's generator.
    pub fn generator(mut self, generator: &'a mut Generator) -> Self {
        self.generator = Some(generator);
        self
    }

    /// Makes the layer.
    ///
    /// # Errors
    /// If the type is not a floating-point one or the weight too large.
    #[track_caller]
    pub fn build(self) -> Result<Linear> {
        let LinearBuilder { in_features, out_features, bias, dtype, init, mut generator } = self;
        let shape = [out_features, in_features];
        let mut sample = |init: Init, shape: &[usize]| -> Result<Tensor> {
            match &mut generator {
                Some(g) => init.sample_from(g, shape, dtype),
                None => init.sample(shape, dtype),
            }
        };
        // Without inputs the bias starts at 0.
        let bound = if in_features == 0 { 0.0 } else { 1.0 / (in_features as f64).sqrt() };
        let weight = sample(init, &shape).here()?;
        let bias = bias.then(|| sample(Init::uniform(-bound, bound), &[out_features])).transpose().here()?;
        let bias = match bias {
            Some(bias) => Some(Var::leaf(bias)?),
            None => None,
        };
        Ok(Linear { weight: Var::leaf(weight)?, bias, init })
    }
}

/// `input W^T + b` over the last axis: an input `[.., in]`, a weight `[out, in]` and a bias `[out]` give `[.., out]`.
/// A weight `[in]` and a bias `[]` give `[..]`.
/// PyTorch's [`linear`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.linear.html).
///
/// # Errors
/// `Features` and `ParameterShape` if the shapes do not fit; `MixedDTypes` if the types differ.
///
/// ```
/// use foldback_graph::RequiresGrad;
/// use foldback_nn::linear;
/// use foldback_tensor::tensor;
/// let (x, w) = (tensor![[1.0, 2.0]].requires_grad(), tensor![[3.0, 4.0]].requires_grad());
/// assert_eq!(linear(&x, &w, None)?.value(), tensor![[11.0]]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[track_caller]
pub fn linear(input: &Var, weight: &Var, bias: Option<&Var>) -> Result<Var> {
    let value = match bias {
        // As a sum its type is the common one.
        Some(b) if b.dtype() != weight.dtype() => {
            check(input, weight, bias).here()?;
            return input.linear(weight, None)?.add(b);
        }
        _ => input.linear(weight, bias),
    };
    // What is wrong is looked up when something is.
    value.map_err(|e| check(input, weight, bias).err().unwrap_or(e)).here()
}

/// Refuses shapes that do not fit, in this crate's words.
fn check(input: &Var, weight: &Var, bias: Option<&Var>) -> Result<()> {
    // A weight without an axis of outputs is no layer's, but PyTorch's function takes it, too.
    match bias.map(Var::shape) {
        Some(found) if weight.rank() == 1 && found.rank() != 0 => {
            let expected = "[]".to_owned();
            return refuse(NnFacts::ParameterShape {
                op: "linear",
                name: "a bias",
                expected,
                found: found.clone(),
            });
        }
        _ if weight.rank() == 1 => {}
        _ => check_parameters(weight, bias)?,
    }
    let (shape, expected) = (input.shape(), weight.shape()[weight.rank() - 1]);
    if shape.last() != Some(&expected) {
        return refuse(NnFacts::Features { op: "linear", expected, found: shape.clone() });
    }
    Ok(())
}

fn check_parameters(weight: &Var, bias: Option<&Var>) -> Result<()> {
    let found = weight.shape();
    if found.rank() != 2 {
        let expected = "[out, in]".to_owned();
        return refuse(NnFacts::ParameterShape {
            op: "linear",
            name: "a weight",
            expected,
            found: found.clone(),
        });
    }
    match bias.map(Var::shape) {
        Some(shape) if *shape != [found[0]] => {
            let expected = format!("[{}]", found[0]);
            refuse(NnFacts::ParameterShape { op: "linear", name: "a bias", expected, found: shape.clone() })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
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
        let graph = layer.forward(&Tensor::zeros([1, 3])).unwrap().graph().unwrap();
        let leaves: Vec<_> = graph.nodes().iter().filter(|n| n.is_leaf()).map(|n| n.location).collect();
        assert_eq!(leaves.len(), 2);
        assert!(leaves.iter().all(|l| l.file() == file!() && l.line() == line), "{leaves:?}");
    }

    #[test]
    fn any_number_of_leading_axes() {
        let layer = Linear::new(3, 2);
        for (shape, expected) in
            [(vec![3], vec![2]), (vec![4, 3], vec![4, 2]), (vec![2, 0, 3], vec![2, 0, 2])]
        {
            assert_eq!(layer.forward(&Tensor::zeros(shape)).unwrap().shape().to_vec(), expected);
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
        let y = layer.forward(&tensor![1.0, 2.0].requires_grad()).unwrap(); // this line
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
        let y = layer.forward(&Tensor::zeros([3, 0])).unwrap();
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
        assert!(layer.forward(&Tensor::scalar(1.0f32)).is_err());
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
}
