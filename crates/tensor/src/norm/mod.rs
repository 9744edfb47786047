//! Normalisation: elements less their mean, divided by their standard deviation, over the last axes, groups of channels
//! or a batch; then times a weight, plus a bias.

mod formulas;
mod options;
mod over;
mod rules;
mod run;
#[cfg(test)]
mod tests;

pub use options::Norm;
pub use over::Normalisation;

use crate::error::{Here, Result};
use crate::ops::{AsArg, AsOptionalArg};
use crate::shape::Shape;
use crate::tensor::Tensor;

/// # Normalisation
impl Tensor {
    /// `(x - mean) / sqrt(var + 1e-5)` over the last axes, whose sizes are `shape`. See [`Self::layer_norm_with`].
    ///
    /// # Errors
    /// As [`Self::layer_norm_with`].
    ///
    /// ```
    /// use foldback_tensor::{assert_close, tensor};
    /// let y = tensor![[1.0, 3.0], [10.0, 10.0]].layer_norm(2)?;
    /// assert_close!(y, tensor![[-1.0, 1.0], [0.0, 0.0]], atol = 1e-4);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn layer_norm(&self, shape: impl Into<Shape>) -> Result<Tensor> {
        self.layer_norm_with(shape, Norm::new()).here()
    }

    /// [`Self::layer_norm`] with a weight and a bias of that shape, and another `eps` (1e-5). The variance is that of the
    /// elements themselves, with divisor `n`. (Ba, Kiros and Hinton, "Layer Normalization", 2016; PyTorch's
    /// [`layer_norm`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.layer_norm.html).)
    ///
    /// # Errors
    /// `DTypeUnsupported` unless this is `F32` or `F64`; `Parameter` for a shape without axes; `ShapeMismatch` if it is not
    /// that of the last axes, or not that of weight and bias; `MixedDTypes` if those are of another type; `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::{assert_close, tensor, Norm};
    /// let (w, b) = (tensor![2.0, 2.0], tensor![0.0, 1.0]);
    /// let y = tensor![[1.0, 3.0]].layer_norm_with(2, Norm::new().weight(&w).bias(&b).eps(0.0))?;
    /// assert_eq!(y, tensor![[-2.0, 3.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn layer_norm_with(
        &self,
        shape: impl Into<Shape>,
        options: Norm<impl AsOptionalArg, impl AsOptionalArg>,
    ) -> Result<Tensor> {
        Normalisation::layer("layer_norm", self, shape.into(), options.eps).here()?.of(self, &options).here()
    }

    /// `x / sqrt(mean(x^2) + eps)` over the last axes, whose sizes are `shape`; `eps` is the machine's (1.2e-7 for `F32`).
    /// See [`Self::rms_norm_with`].
    ///
    /// # Errors
    /// As [`Self::layer_norm_with`].
    ///
    /// ```
    /// use foldback_tensor::{assert_close, tensor};
    /// assert_close!(tensor![[1.0, -7.0]].rms_norm(2)?, tensor![[0.2, -1.4]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn rms_norm(&self, shape: impl Into<Shape>) -> Result<Tensor> {
        self.rms_norm_with(shape, Norm::new()).here()
    }

    /// [`Self::rms_norm`] with a weight (and a bias) of that shape, and another `eps`. (Zhang and Sennrich, "Root Mean Square
    /// Layer Normalization", 2019; PyTorch's
    /// [`rms_norm`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.rms_norm.html).)
    ///
    /// # Errors
    /// As [`Self::layer_norm_with`].
    ///
    /// ```
    /// use foldback_tensor::{tensor, Norm};
    /// let y = tensor![[1.0, -7.0]].rms_norm_with(2, Norm::new().weight(&tensor![5.0, 10.0]).eps(0.0))?;
    /// assert_eq!(y, tensor![[1.0, -14.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn rms_norm_with(
        &self,
        shape: impl Into<Shape>,
        options: Norm<impl AsOptionalArg, impl AsOptionalArg>,
    ) -> Result<Tensor> {
        Normalisation::rms("rms_norm", self, shape.into(), options.eps).here()?.of(self, &options).here()
    }

    /// Channels in `groups` groups, each normalised with all positions in it: `[n, c, ..]`. See [`Self::group_norm_with`].
    ///
    /// # Errors
    /// As [`Self::group_norm_with`].
    ///
    /// ```
    /// use foldback_tensor::{assert_close, tensor};
    /// let y = tensor![[1.0, 3.0, 5.0, 5.0]].group_norm(2)?;
    /// assert_close!(y, tensor![[-1.0, 1.0, 0.0, 0.0]], atol = 1e-4);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn group_norm(&self, groups: usize) -> Result<Tensor> {
        self.group_norm_with(groups, Norm::new()).here()
    }

    /// [`Self::group_norm`] with a weight and a bias per channel, `[c]`, and another `eps` (1e-5). (Wu and He, "Group
    /// Normalization", 2018; PyTorch's
    /// [`group_norm`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.group_norm.html).)
    ///
    /// # Errors
    /// `DTypeUnsupported` unless this is `F32` or `F64`; `Rank` below 2; `Parameter` if the groups do not divide the channels,
    /// or if there is one value per channel in all, or none; `ShapeMismatch` and `MixedDTypes` for weight and bias;
    /// `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::{tensor, Norm};
    /// let options = Norm::new().weight(tensor![1.0, 10.0]).bias(tensor![0.0, 1.0]).eps(0.0);
    /// let y = tensor![[[1.0, 3.0], [3.0, 1.0]]].group_norm_with(1, options)?;
    /// assert_eq!(y, tensor![[[-1.0, 1.0], [11.0, -9.0]]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn group_norm_with(
        &self,
        groups: usize,
        options: Norm<impl AsOptionalArg, impl AsOptionalArg>,
    ) -> Result<Tensor> {
        Normalisation::group("group_norm", self, groups, options.eps).here()?.of(self, &options).here()
    }

    /// Every channel of every example normalised over its positions: `[n, c, ..]`. See [`Self::instance_norm_with`].
    ///
    /// # Panics
    /// Where [`Self::try_instance_norm`] returns an error.
    ///
    /// ```
    /// use foldback_tensor::{assert_close, tensor};
    /// let y = tensor![[[1.0, 3.0], [20.0, 10.0]]].instance_norm();
    /// assert_close!(y, tensor![[[-1.0, 1.0], [1.0, -1.0]]], atol = 1e-4);
    /// ```
    #[track_caller]
    pub fn instance_norm(&self) -> Tensor {
        crate::error::or_panic(self.try_instance_norm())
    }

    /// [`Self::instance_norm`], with an error where that panics.
    ///
    /// # Errors
    /// As [`Self::instance_norm_with`].
    #[track_caller]
    pub fn try_instance_norm(&self) -> Result<Tensor> {
        self.instance_norm_with(Norm::new()).here()
    }

    /// [`Self::instance_norm`] with a weight and a bias per channel, `[c]`, and another `eps` (1e-5). (Ulyanov, Vedaldi and
    /// Lempitsky, "Instance Normalization", 2016; PyTorch's
    /// [`instance_norm`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.instance_norm.html) without
    /// running statistics: with them it is [`Self::instance_norm_train_with`].)
    ///
    /// # Errors
    /// `DTypeUnsupported` unless this is `F32` or `F64`; `Rank` below 3; `Parameter` for a single position; `ShapeMismatch`
    /// and `MixedDTypes` for weight and bias; `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::{tensor, Norm};
    /// let y = tensor![[[1.0, 3.0]]].instance_norm_with(Norm::new().weight(&tensor![3.0]).eps(0.0))?;
    /// assert_eq!(y, tensor![[[-3.0, 3.0]]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn instance_norm_with(
        &self,
        options: Norm<impl AsOptionalArg, impl AsOptionalArg>,
    ) -> Result<Tensor> {
        Normalisation::instance("instance_norm", self, options.eps).here()?.of(self, &options).here()
    }

    /// `(x - mean) / sqrt(var + 1e-5)` with statistics that are known, a number per channel: `[n, c, ..]`, `[c]` and `[c]`.
    /// See [`Self::batch_norm_with`].
    ///
    /// # Errors
    /// As [`Self::batch_norm_with`].
    ///
    /// ```
    /// use foldback_tensor::{assert_close, tensor};
    /// let y = tensor![[1.0, 3.0]].batch_norm(tensor![0.0, 1.0], tensor![1.0, 4.0])?;
    /// assert_close!(y, tensor![[1.0, 1.0]], atol = 1e-4);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn batch_norm(&self, mean: impl AsArg, var: impl AsArg) -> Result<Tensor> {
        self.batch_norm_with(mean, var, Norm::new()).here()
    }

    /// [`Self::batch_norm`] with a weight and a bias per channel, `[c]`, and another `eps` (1e-5). (Ioffe and Szegedy, "Batch
    /// Normalization", 2015; PyTorch's
    /// [`batch_norm`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.batch_norm.html) in use, not in
    /// training: that is [`Self::batch_norm_train`].)
    ///
    /// # Errors
    /// `DTypeUnsupported` unless this is `F32` or `F64`; `Rank` below 2; `Parameter` for a negative `eps`; `ShapeMismatch` and
    /// `MixedDTypes` for statistics, weight and bias; `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::{tensor, Norm};
    /// let options = Norm::new().weight(tensor![2.0]).bias(tensor![1.0]).eps(0.0);
    /// let y = tensor![[5.0], [3.0]].batch_norm_with(tensor![1.0], tensor![4.0], options)?;
    /// assert_eq!(y, tensor![[5.0], [3.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn batch_norm_with(
        &self,
        mean: impl AsArg,
        var: impl AsArg,
        options: Norm<impl AsOptionalArg, impl AsOptionalArg>,
    ) -> Result<Tensor> {
        let how = Normalisation::batch("batch_norm", self, options.eps).here()?;
        let [mean, var] = [mean.arg().tensor(self.dtype()), var.arg().tensor(self.dtype())];
        let [weight, bias] = [options.weight.optional_arg(), options.bias.optional_arg()];
        let statistics = how.known(&mean, &var).here()?;
        how.apply(self, weight, bias, &statistics).here()
    }

    /// Every channel normalised over the batch and its positions, `[n, c, ..]`, and what training keeps of the batch: the
    /// mean of each channel, and its variance with divisor `n - 1`, which is what running statistics take in PyTorch. (The
    /// elements are divided by the variance with divisor `n`.)
    ///
    /// # Errors
    /// As [`Self::batch_norm_with`], and `Parameter` for a single value per channel or an `eps` of 0.
    ///
    /// ```
    /// use foldback_tensor::{assert_close, tensor, Norm};
    /// let (y, mean, var) = tensor![[1.0], [3.0]].batch_norm_train(Norm::new())?;
    /// assert_close!(y, tensor![[-1.0], [1.0]], atol = 1e-4);
    /// assert_eq!((mean, var), (tensor![2.0], tensor![2.0]));
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn batch_norm_train(
        &self,
        options: Norm<impl AsOptionalArg, impl AsOptionalArg>,
    ) -> Result<(Tensor, Tensor, Tensor)> {
        let how = Normalisation::batch_train("batch_norm_train", self, options.eps).here()?;
        how.train(self, &options, None).here()
    }

    /// [`Self::batch_norm_train`] that goes on with running statistics, a mean and a variance per channel, `[c]` each: behind the
    /// elements come `(1 - momentum) * running + momentum * found`, which PyTorch writes over its arguments.
    ///
    /// # Errors
    /// As [`Self::batch_norm_train`]; `ShapeMismatch` and `MixedDTypes` for the running statistics.
    ///
    /// ```
    /// use foldback_tensor::{tensor, Norm};
    /// let (mean, var) = (tensor![0.0], tensor![1.0]);
    /// let (_, mean, var) = tensor![[1.0], [3.0]].batch_norm_train_with(&mean, &var, 0.5, Norm::new())?;
    /// assert_eq!((mean, var), (tensor![1.0], tensor![1.5]));
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn batch_norm_train_with(
        &self,
        mean: impl AsArg,
        var: impl AsArg,
        momentum: impl Into<f64>,
        options: Norm<impl AsOptionalArg, impl AsOptionalArg>,
    ) -> Result<(Tensor, Tensor, Tensor)> {
        let how = Normalisation::batch_train("batch_norm_train", self, options.eps).here()?;
        let [mean, var] = [mean.arg().tensor(self.dtype()), var.arg().tensor(self.dtype())];
        how.train(self, &options, Some(([&mean, &var], momentum.into()))).here()
    }

    /// [`Self::instance_norm_with`] that goes on with running statistics, as [`Self::batch_norm_train_with`] does: those found are
    /// the means over examples. To normalise with statistics that are known is [`Self::batch_norm_with`].
    ///
    /// # Errors
    /// As [`Self::instance_norm_with`]; `ShapeMismatch` and `MixedDTypes` for the running statistics.
    ///
    /// ```
    /// use foldback_tensor::{tensor, Norm};
    /// let x = tensor![[[1.0, 3.0]], [[5.0, 5.0]]];
    /// let (_, mean, var) = x.instance_norm_train_with(tensor![0.0], tensor![0.0], 1, Norm::new())?;
    /// assert_eq!((mean, var), (tensor![3.5], tensor![1.0]));
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn instance_norm_train_with(
        &self,
        mean: impl AsArg,
        var: impl AsArg,
        momentum: impl Into<f64>,
        options: Norm<impl AsOptionalArg, impl AsOptionalArg>,
    ) -> Result<(Tensor, Tensor, Tensor)> {
        let how = Normalisation::instance("instance_norm_train", self, options.eps).here()?;
        let [mean, var] = [mean.arg().tensor(self.dtype()), var.arg().tensor(self.dtype())];
        how.train(self, &options, Some(([&mean, &var], momentum.into()))).here()
    }
}
