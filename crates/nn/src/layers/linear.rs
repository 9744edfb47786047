//! The fully connected layer.

use std::fmt;

use foldback_graph::Var;
use foldback_tensor::{DType, Generator, Here, Tensor, or_panic};

use self::function::check_parameters;
pub use self::function::linear;
use super::making::{Drawing, blank, bound, clear};
use crate::copies::Copies;
use crate::error::Result;
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

    /// A layer that is part of another one and is not drawn yet.
    pub(super) fn blank(bias: bool) -> Linear {
        Linear { weight: blank(), bias: bias.then(blank), init: default_init() }
    }

    /// Makes the parameters blank.
    pub(super) fn clear(&mut self) {
        self.weight = blank();
        clear([&mut self.bias]);
    }

    /// Draws the parameters that are blank.
    #[track_caller]
    pub(super) fn draw(
        &mut self,
        drawing: &mut Drawing<'_>,
        [in_features, out_features]: [usize; 2],
        dtype: DType,
    ) -> Result<()> {
        drawing.fill(&mut self.weight, &[out_features, in_features], self.init, dtype)?;
        drawing.fill(self.bias.as_mut(), &[out_features], bound(in_features), dtype)
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
        let weight = sample(init, &shape).here()?;
        let bias = bias.then(|| sample(bound(in_features), &[out_features])).transpose().here()?;
        let bias = match bias {
            Some(bias) => Some(Var::leaf(bias)?),
            None => None,
        };
        Ok(Linear { weight: Var::leaf(weight)?, bias, init })
    }
}

mod function;
#[cfg(test)]
mod tests;
