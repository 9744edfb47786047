//! Normalisation of each example by itself: over its last axes, or over groups of its channels.

use foldback_graph::Var;
use foldback_tensor::{DType, Here, Norm, Shape, refuse};

use super::making::{Drawing, Drawn, clear, expect_float, fill_with, has, making};
use crate::error::{NnFacts, Result};
use crate::{Module, forward};

/// `(x - mean) / sqrt(var + eps) * weight + bias` over the last axes, which have this shape: see [`Var::layer_norm_with`] (Ba, Kiros
/// and Hinton, 2016). PyTorch's [`LayerNorm`](https://docs.pytorch.org/docs/stable/generated/torch.nn.LayerNorm.html).
///
/// The weight starts as ones, the bias as zeros. A clone shares them, [`deep_copy`](Module::deep_copy) does not.
///
/// ```
/// use foldback_nn::LayerNorm;
/// use foldback_tensor::{Tensor, assert_close, tensor};
/// let layer = LayerNorm::new(2);
/// assert_close!(layer.forward(&tensor![[1.0, 3.0]])?.value(), tensor![[-1.0, 1.0]], atol = 1e-4);
/// assert!(LayerNorm::new([4, 5]).bias(false).bias.is_none());
/// assert!(LayerNorm::new(2).forward(&Tensor::ones(3)).is_err());
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Module)]
pub struct LayerNorm {
    /// of the shape that is normalised, if there is one
    pub weight: Option<Var>,
    /// of the shape that is normalised, if there is one
    pub bias: Option<Var>,
    #[module(skip)]
    normalized_shape: Shape,
    eps: f64,
    elementwise_affine: bool,
    with_bias: bool,
    #[module(skip)]
    dtype: DType,
}

making! {
    LayerNorm(normalized_shape: impl Into<Shape>) = LayerNorm {
        weight: None,
        bias: None,
        normalized_shape: normalized_shape.into(),
        eps: 1e-5,
        elementwise_affine: true,
        with_bias: true,
        dtype: DType::F32,
    };
    shown { normalized_shape elementwise_affine dtype }
    keep {
        /// What is added to the variance. The default is 1e-5.
        eps: f64;
    }
    anew {
        /// Whether there are a weight and a bias. The default is yes. What was not there is made.
        elementwise_affine: bool, |layer| layer.elementwise_affine = elementwise_affine;
        /// Whether there is a bias beside the weight. The default is yes. One that was not there is made.
        bias: bool, |layer| layer.with_bias = bias;
    }
}

impl Drawn for LayerNorm {
    fn clear(&mut self) {
        clear([&mut self.weight, &mut self.bias]);
    }

    #[track_caller]
    fn draw(&mut self, _: &mut Drawing<'_>) -> Result<()> {
        expect_float("layer_norm", self.dtype)?;
        has(&mut self.weight, self.elementwise_affine);
        has(&mut self.bias, self.elementwise_affine && self.with_bias);
        fill_with(&mut self.weight, &self.normalized_shape, 1.0, self.dtype)?;
        fill_with(&mut self.bias, &self.normalized_shape, 0.0, self.dtype)
    }
}

#[forward]
impl LayerNorm {
    /// The normalised input, of its shape.
    ///
    /// # Errors
    /// If the last axes of the input do not have the layer's shape, or the types differ.
    #[track_caller]
    pub fn forward(&self, input: &Var) -> Result<Var> {
        let options = Norm::new().weight(&self.weight).bias(&self.bias).eps(self.eps);
        input.layer_norm_with(self.normalized_shape.clone(), options)
    }
}

/// `x / sqrt(mean(x^2) + eps) * weight` over the last axes, which have this shape: see [`Var::rms_norm_with`] (Zhang and Sennrich,
/// 2019). PyTorch's [`RMSNorm`](https://docs.pytorch.org/docs/stable/generated/torch.nn.RMSNorm.html).
///
/// The weight starts as ones. A clone shares it, [`deep_copy`](Module::deep_copy) does not.
///
/// ```
/// use foldback_nn::RMSNorm;
/// use foldback_tensor::{assert_close, tensor};
/// assert_close!(RMSNorm::new(2).forward(&tensor![[3.0, -3.0]])?.value(), tensor![[1.0, -1.0]], atol = 1e-4);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Module)]
pub struct RMSNorm {
    /// of the shape that is normalised, if there is one
    pub weight: Option<Var>,
    #[module(skip)]
    normalized_shape: Shape,
    #[module(skip)]
    eps: Option<f64>,
    elementwise_affine: bool,
    #[module(skip)]
    dtype: DType,
}

making! {
    RMSNorm(normalized_shape: impl Into<Shape>) = RMSNorm {
        weight: None,
        normalized_shape: normalized_shape.into(),
        eps: None,
        elementwise_affine: true,
        dtype: DType::F32,
    };
    shown { normalized_shape elementwise_affine dtype }
    keep {
        /// What is added to the mean of squares. The default, also `None`, is the distance of 1 from the next larger number of the
        /// input's type.
        eps: impl Into<Option<f64>>;
    }
    anew {
        /// Whether there is a weight. The default is yes. One that was not there is made.
        elementwise_affine: bool, |layer| layer.elementwise_affine = elementwise_affine;
    }
}

impl Drawn for RMSNorm {
    fn clear(&mut self) {
        clear([&mut self.weight]);
    }

    #[track_caller]
    fn draw(&mut self, _: &mut Drawing<'_>) -> Result<()> {
        expect_float("rms_norm", self.dtype)?;
        has(&mut self.weight, self.elementwise_affine);
        fill_with(&mut self.weight, &self.normalized_shape, 1.0, self.dtype)
    }
}

#[forward]
impl RMSNorm {
    /// The normalised input, of its shape.
    ///
    /// # Errors
    /// If the last axes of the input do not have the layer's shape, or the types differ.
    #[track_caller]
    pub fn forward(&self, input: &Var) -> Result<Var> {
        let options = Norm::new().weight(&self.weight);
        let options = if let Some(eps) = self.eps { options.eps(eps) } else { options };
        input.rms_norm_with(self.normalized_shape.clone(), options)
    }
}

/// [`LayerNorm`] over groups of channels and all that is behind them, with a weight and a bias for each channel: `[n, c, ..]`, see
/// [`Var::group_norm_with`] (Wu and He, 2018). PyTorch's
/// [`GroupNorm`](https://docs.pytorch.org/docs/stable/generated/torch.nn.GroupNorm.html).
///
/// The weight starts as ones, the bias as zeros. A clone shares them, [`deep_copy`](Module::deep_copy) does not.
///
/// ```
/// use foldback_nn::GroupNorm;
/// use foldback_tensor::Tensor;
/// assert_eq!(GroupNorm::new(2, 6).forward(&Tensor::ones([3, 6, 4, 4]))?.shape(), [3, 6, 4, 4]);
/// assert!(GroupNorm::try_new(4, 6).is_err());
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Module)]
pub struct GroupNorm {
    /// `[c]`, if there is one
    pub weight: Option<Var>,
    /// `[c]`, if there is one
    pub bias: Option<Var>,
    num_groups: usize,
    num_channels: usize,
    eps: f64,
    affine: bool,
    with_bias: bool,
    #[module(skip)]
    dtype: DType,
}

making! {
    GroupNorm(num_groups: usize, num_channels: usize) = GroupNorm {
        weight: None,
        bias: None,
        num_groups,
        num_channels,
        eps: 1e-5,
        affine: true,
        with_bias: true,
        dtype: DType::F32,
    };
    shown { num_groups num_channels affine dtype }
    keep {
        /// What is added to the variance. The default is 1e-5.
        eps: f64;
    }
    anew {
        /// Whether there are a weight and a bias. The default is yes. What was not there is made.
        affine: bool, |layer| layer.affine = affine;
        /// Whether there is a bias beside the weight. The default is yes. One that was not there is made.
        bias: bool, |layer| layer.with_bias = bias;
    }
}

impl Drawn for GroupNorm {
    fn clear(&mut self) {
        clear([&mut self.weight, &mut self.bias]);
    }

    #[track_caller]
    fn draw(&mut self, _: &mut Drawing<'_>) -> Result<()> {
        let op = "group_norm";
        expect_float(op, self.dtype)?;
        if self.num_groups == 0 || !self.num_channels.is_multiple_of(self.num_groups) {
            let sizes = vec![("num_channels", self.num_channels)];
            return refuse(NnFacts::NoDivisor { op, name: "num_groups", value: self.num_groups, sizes });
        }
        has(&mut self.weight, self.affine);
        has(&mut self.bias, self.affine && self.with_bias);
        fill_with(&mut self.weight, &self.num_channels.into(), 1.0, self.dtype)?;
        fill_with(&mut self.bias, &self.num_channels.into(), 0.0, self.dtype)
    }
}

#[forward]
impl GroupNorm {
    /// The normalised input, of its shape.
    ///
    /// # Errors
    /// If the second axis of the input is not the layer's number of channels (without a weight it may be another multiple
    /// of the number of groups), or the types differ.
    #[track_caller]
    pub fn forward(&self, input: &Var) -> Result<Var> {
        if input.rank() < 2 || self.affine && input.dims()[1] != self.num_channels {
            let expected = format!("[n, {}, ..]", self.num_channels);
            let found = input.shape().clone();
            return refuse(NnFacts::InputShape { op: "group_norm", name: "an input", expected, found })
                .here();
        }
        let options = Norm::new().weight(&self.weight).bias(&self.bias).eps(self.eps);
        input.group_norm_with(self.num_groups, options)
    }
}
