//! Rows of normalisation.

use foldback_tensor::kernel::Normalisation;
use foldback_tensor::{Here, Norm, Shape, Tensor, or_panic};

use super::function_rows::function;
use super::normal_slopes::{normalised, parameters, record, trained, with_tracked_statistics};
use crate::error::Result;
use crate::input::{AsInput, AsOptionalInput, Input};
use crate::node::Var;

function! { @rows rows
    layer_norm {
        "a row": [[4] Any, [4] Any, [4] Any]
            |x| x[0].layer_norm_with(4, Norm::new().weight(&x[1]).bias(&x[2]).eps(0.1));
        "rows": [[2, 3, 4] Any, [4] Any, [4] Any]
            |x| x[0].layer_norm_with(4, Norm::new().weight(&x[1]).bias(&x[2]).eps(0.1));
        "two axes": [[2, 3, 4] Any, [3, 4] Any]
            |x| x[0].layer_norm_with([3, 4], Norm::new().weight(&x[1]).eps(0.1));
        "a bias": [[3, 4] Any, [4] Any] |x| x[0].layer_norm_with(4, Norm::new().bias(&x[1]).eps(0.1));
        "nothing but x": [[3, 4] Any] |x| x[0].layer_norm_with(4, Norm::new().eps(0.1));
        "no rows": [[0, 4] Any, [4] Any, [4] Any]
            |x| x[0].layer_norm_with(4, Norm::new().weight(&x[1]).bias(&x[2]));
        "empty rows": [[3, 0] Any, [0] Any] |x| x[0].layer_norm_with(0, Norm::new().weight(&x[1]));
    }
    rms_norm {
        "rows": [[2, 3, 4] Any, [4] Any] |x| x[0].rms_norm_with(4, Norm::new().weight(&x[1]).eps(0.1));
        "a bias": [[3, 4] Any, [4] Any, [4] Any]
            |x| x[0].rms_norm_with(4, Norm::new().weight(&x[1]).bias(&x[2]).eps(0.1));
        "nothing but x": [[3, 4] Any] |x| x[0].rms_norm_with(4, Norm::new().eps(0.1));
        "empty rows": [[3, 0] Any] |x| x[0].rms_norm(0);
    }
    group_norm {
        "groups": [[2, 4, 3] Any, [4] Any, [4] Any]
            |x| x[0].group_norm_with(2, Norm::new().weight(&x[1]).bias(&x[2]).eps(0.1));
        "no positions": [[3, 4] Any, [4] Any] |x| x[0].group_norm_with(2, Norm::new().weight(&x[1]).eps(0.1));
        "nothing but x": [[2, 4, 1, 2] Any] |x| x[0].group_norm_with(4, Norm::new().eps(0.1));
        "no examples": [[0, 4, 2] Any, [4] Any] |x| x[0].group_norm_with(2, Norm::new().weight(&x[1]));
    }
    instance_norm {
        "channels": [[2, 2, 3] Any, [2] Any, [2] Any]
            |x| x[0].instance_norm_with(Norm::new().weight(&x[1]).bias(&x[2]).eps(0.1));
        "nothing but x": [[2, 2, 2, 2] Any] |x| x[0].instance_norm_with(Norm::new().eps(0.1));
    }
    batch_norm {
        "examples": [[3, 2] Any, [2] Any, [2] Any]
            |x| x[0].batch_norm_with(known(&x[0]), known(&x[0]), Norm::new().weight(&x[1]).bias(&x[2]).eps(0.1));
        "positions": [[2, 2, 3] Any, [2] Any]
            |x| x[0].batch_norm_with(known(&x[0]), known(&x[0]), Norm::new().weight(&x[1]));
        "nothing but x": [[3, 2] Any] |x| x[0].batch_norm(known(&x[0]), known(&x[0]));
        "tracked statistics": [[3, 2] Any, [2] Any, [2] Positive] |x| x[0].batch_norm(&x[1], &x[2]);
        "no examples": [[0, 2] Any, [2] Any, [2] Any]
            |x| x[0].batch_norm_with(known(&x[0]), known(&x[0]), Norm::new().weight(&x[1]).bias(&x[2]));
    }
    batch_norm_train {
        "examples": [[4, 2] Any, [2] Any, [2] Any]
            |x| Ok(x[0].batch_norm_train(Norm::new().weight(&x[1]).bias(&x[2]).eps(0.1))?.0);
        "positions": [[2, 2, 3] Any, [2] Any]
            |x| Ok(x[0].batch_norm_train(Norm::new().weight(&x[1]).eps(0.1))?.0);
        "nothing but x": [[2, 2, 2, 1] Any] |x| Ok(x[0].batch_norm_train(Norm::new().eps(0.1))?.0);
        "no examples": [[0, 2] Any, [2] Any] |x| Ok(x[0].batch_norm_train(Norm::new().weight(&x[1]))?.0);
    }
}

pub(super) use rows::ALL;

/// Statistics for samples.
fn known(x: &Var) -> Tensor {
    foldback_tensor::tensor![0.5, 1.5].to(x.dtype())
}

/// # Normalisation
impl Var {
    /// `(x - mean) / sqrt(var + 1e-5)` over the last axes, whose sizes are `shape`; see [`Tensor::layer_norm`].
    ///
    /// # Errors
    /// As [`Tensor::layer_norm_with`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::{assert_close, tensor};
    /// let y = tensor![[1.0, 3.0]].requires_grad().layer_norm(2)?;
    /// assert_close!(y.value(), tensor![[-1.0, 1.0]], atol = 1e-4);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn layer_norm(&self, shape: impl Into<Shape>) -> Result<Var> {
        self.layer_norm_with(shape, Norm::new()).here()
    }

    /// [`Var::layer_norm`] with a weight and a bias of that shape, and another `eps`; see [`Tensor::layer_norm_with`].
    ///
    /// # Errors
    /// As [`Tensor::layer_norm_with`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::{assert_close, tensor, Norm};
    /// let (x, w) = (tensor![[1.0, 3.0]].requires_grad(), tensor![2.0, 1.0].requires_grad());
    /// x.layer_norm_with(2, Norm::new().weight(&w))?.sum(..)?.backward()?;
    /// assert_close!(w.grad().unwrap(), tensor![-1.0, 1.0], atol = 1e-4);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn layer_norm_with(
        &self,
        shape: impl Into<Shape>,
        options: Norm<impl AsOptionalInput, impl AsOptionalInput>,
    ) -> Result<Var> {
        let how = Normalisation::layer("layer_norm", &self.value_ref(), shape.into(), options.eps).here()?;
        normalised(&rows::layer_norm, self, how, parameters(&options)).here()
    }

    /// `x / sqrt(mean(x^2) + eps)` over the last axes, whose sizes are `shape`; see [`Tensor::rms_norm`].
    ///
    /// # Errors
    /// As [`Tensor::layer_norm_with`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::{assert_close, tensor};
    /// assert_close!(tensor![[1.0, -7.0]].requires_grad().rms_norm(2)?.value(), tensor![[0.2, -1.4]]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn rms_norm(&self, shape: impl Into<Shape>) -> Result<Var> {
        self.rms_norm_with(shape, Norm::new()).here()
    }

    /// [`Var::rms_norm`] with a weight (and a bias) of that shape, and another `eps`; see [`Tensor::rms_norm_with`].
    ///
    /// # Errors
    /// As [`Tensor::layer_norm_with`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::{assert_close, tensor, Norm};
    /// let (x, w) = (tensor![[1.0, -7.0]].requires_grad(), tensor![5.0, 10.0].requires_grad());
    /// x.rms_norm_with(2, Norm::new().weight(&w))?.sum(..)?.backward()?;
    /// assert_close!(w.grad().unwrap(), tensor![0.2, -1.4]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn rms_norm_with(
        &self,
        shape: impl Into<Shape>,
        options: Norm<impl AsOptionalInput, impl AsOptionalInput>,
    ) -> Result<Var> {
        let how = Normalisation::rms("rms_norm", &self.value_ref(), shape.into(), options.eps).here()?;
        normalised(&rows::rms_norm, self, how, parameters(&options)).here()
    }

    /// Channels in `groups` groups, each normalised with all positions in it; see [`Tensor::group_norm`].
    ///
    /// # Errors
    /// As [`Tensor::group_norm_with`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::{assert_close, tensor};
    /// let y = tensor![[1.0, 3.0, 5.0, 5.0]].requires_grad().group_norm(2)?;
    /// assert_close!(y.value(), tensor![[-1.0, 1.0, 0.0, 0.0]], atol = 1e-4);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn group_norm(&self, groups: usize) -> Result<Var> {
        self.group_norm_with(groups, Norm::new()).here()
    }

    /// [`Var::group_norm`] with a weight and a bias per channel, and another `eps`; see [`Tensor::group_norm_with`].
    ///
    /// # Errors
    /// As [`Tensor::group_norm_with`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::{assert_close, tensor, Norm};
    /// let (x, w) = (tensor![[1.0, 3.0]].requires_grad(), tensor![1.0, 1.0].requires_grad());
    /// x.group_norm_with(1, Norm::new().weight(&w))?.sum(..)?.backward()?;
    /// assert_close!(w.grad().unwrap(), tensor![-1.0, 1.0], atol = 1e-4);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn group_norm_with(
        &self,
        groups: usize,
        options: Norm<impl AsOptionalInput, impl AsOptionalInput>,
    ) -> Result<Var> {
        let how = Normalisation::group("group_norm", &self.value_ref(), groups, options.eps).here()?;
        normalised(&rows::group_norm, self, how, parameters(&options)).here()
    }

    /// Every channel of every example normalised over its positions; see [`Tensor::instance_norm`].
    ///
    /// # Panics
    /// Where [`Var::try_instance_norm`] returns an error.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::{assert_close, tensor};
    /// let y = tensor![[[1.0, 3.0]]].requires_grad().instance_norm();
    /// assert_close!(y.value(), tensor![[[-1.0, 1.0]]], atol = 1e-4);
    /// ```
    #[track_caller]
    pub fn instance_norm(&self) -> Var {
        or_panic(self.try_instance_norm())
    }

    /// [`Var::instance_norm`], with an error where that panics.
    ///
    /// # Errors
    /// As [`Tensor::instance_norm_with`].
    #[track_caller]
    pub fn try_instance_norm(&self) -> Result<Var> {
        self.instance_norm_with(Norm::new()).here()
    }

    /// [`Var::instance_norm`] with a weight and a bias per channel, and another `eps`; see [`Tensor::instance_norm_with`].
    ///
    /// # Errors
    /// As [`Tensor::instance_norm_with`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::{assert_close, tensor, Norm};
    /// let (x, w) = (tensor![[[1.0, 3.0]]].requires_grad(), tensor![3.0].requires_grad());
    /// let y = x.instance_norm_with(Norm::new().weight(&w))?;
    /// assert_close!(y.value(), tensor![[[-3.0, 3.0]]], atol = 1e-4);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn instance_norm_with(
        &self,
        options: Norm<impl AsOptionalInput, impl AsOptionalInput>,
    ) -> Result<Var> {
        let how = Normalisation::instance("instance_norm", &self.value_ref(), options.eps).here()?;
        normalised(&rows::instance_norm, self, how, parameters(&options)).here()
    }

    /// `(x - mean) / sqrt(var + 1e-5)` with statistics that are known, a number per channel; see [`Tensor::batch_norm`].
    ///
    /// # Errors
    /// As [`Tensor::batch_norm_with`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::{assert_close, tensor};
    /// let y = tensor![[1.0, 3.0]].requires_grad().batch_norm(tensor![0.0, 1.0], tensor![1.0, 4.0])?;
    /// assert_close!(y.value(), tensor![[1.0, 1.0]], atol = 1e-4);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn batch_norm(&self, mean: impl AsInput, var: impl AsInput) -> Result<Var> {
        self.batch_norm_with(mean, var, Norm::new()).here()
    }

    /// [`Var::batch_norm`] with a weight and a bias per channel, and another `eps`; see [`Tensor::batch_norm_with`].
    ///
    /// # Errors
    /// As [`Tensor::batch_norm_with`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::{tensor, Norm};
    /// let (x, b) = (tensor![[5.0], [3.0]].requires_grad(), tensor![1.0].requires_grad());
    /// let y = x.batch_norm_with(tensor![1.0], tensor![4.0], Norm::new().bias(&b).eps(0.0))?;
    /// assert_eq!(y.value(), tensor![[3.0], [2.0]]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn batch_norm_with(
        &self,
        mean: impl AsInput,
        var: impl AsInput,
        options: Norm<impl AsOptionalInput, impl AsOptionalInput>,
    ) -> Result<Var> {
        let (mean, var) = (mean.input().beside(self), var.input().beside(self));
        known_batch_norm(self, [&mean, &var], parameters(&options), options.eps).here()
    }

    /// Every channel normalised over the batch and its positions, and what training keeps of the batch, without gradients: the
    /// mean of each channel, and its variance with divisor `n - 1`; see [`Tensor::batch_norm_train`].
    ///
    /// # Errors
    /// As [`Tensor::batch_norm_train`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::{tensor, Norm};
    /// let x = tensor![[1.0], [3.0]].requires_grad();
    /// let (y, mean, var) = x.batch_norm_train(Norm::new())?;
    /// assert!(y.requires_grad() && !mean.requires_grad());
    /// assert_eq!((mean.value(), var.value()), (tensor![2.0], tensor![2.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn batch_norm_train(
        &self,
        options: Norm<impl AsOptionalInput, impl AsOptionalInput>,
    ) -> Result<(Var, Var, Var)> {
        let how = Normalisation::batch_train("batch_norm_train", &self.value_ref(), options.eps).here()?;
        trained(&rows::batch_norm_train, self, how, parameters(&options), None).here()
    }

    /// [`Var::batch_norm_train`] that goes on with running statistics, through which no gradient passes; see
    /// [`Tensor::batch_norm_train_with`].
    ///
    /// # Errors
    /// As [`Tensor::batch_norm_train_with`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::{tensor, Norm};
    /// let x = tensor![[1.0], [3.0]].requires_grad();
    /// let (y, mean, var) = x.batch_norm_train_with(tensor![0.0], tensor![1.0], 0.5, Norm::new())?;
    /// assert!(y.requires_grad() && !mean.requires_grad());
    /// assert_eq!((mean.value(), var.value()), (tensor![1.0], tensor![1.5]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn batch_norm_train_with(
        &self,
        mean: impl AsInput,
        var: impl AsInput,
        momentum: impl Into<f64>,
        options: Norm<impl AsOptionalInput, impl AsOptionalInput>,
    ) -> Result<(Var, Var, Var)> {
        let how = Normalisation::batch_train("batch_norm_train", &self.value_ref(), options.eps).here()?;
        let running = [mean.input().beside(self).value(), var.input().beside(self).value()];
        trained(&rows::batch_norm_train, self, how, parameters(&options), Some((running, momentum.into())))
            .here()
    }

    /// [`Var::instance_norm_with`] that goes on with running statistics, through which no gradient passes; see
    /// [`Tensor::instance_norm_train_with`].
    ///
    /// # Errors
    /// As [`Tensor::instance_norm_train_with`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::{tensor, Norm};
    /// let x = tensor![[[1.0, 3.0]], [[5.0, 5.0]]].requires_grad();
    /// let (y, mean, var) = x.instance_norm_train_with(tensor![0.0], tensor![0.0], 1, Norm::new())?;
    /// assert!(y.requires_grad() && !mean.requires_grad());
    /// assert_eq!((mean.value(), var.value()), (tensor![3.5], tensor![1.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn instance_norm_train_with(
        &self,
        mean: impl AsInput,
        var: impl AsInput,
        momentum: impl Into<f64>,
        options: Norm<impl AsOptionalInput, impl AsOptionalInput>,
    ) -> Result<(Var, Var, Var)> {
        let how = Normalisation::instance("instance_norm_train", &self.value_ref(), options.eps).here()?;
        let running = [mean.input().beside(self).value(), var.input().beside(self).value()];
        trained(&rows::instance_norm, self, how, parameters(&options), Some((running, momentum.into())))
            .here()
    }
}

#[track_caller]
fn known_batch_norm(
    x: &Var,
    [mean, var]: [&Var; 2],
    parameters: [Option<Input<'_>>; 2],
    eps: Option<f64>,
) -> Result<Var> {
    let how = Normalisation::batch("batch_norm", &x.value_ref(), eps)?;
    let statistics = how.known(&mean.value_ref(), &var.value_ref())?;
    let [w, b] = parameters.map(|p| p.map(|p| p.beside(x)));
    if mean.requires_grad() || var.requires_grad() {
        return with_tracked_statistics(&how, x, [mean, var], [w.as_deref(), b.as_deref()]);
    }
    let [wv, bv] = [&w, &b].map(|p| p.as_deref().map(Var::value));
    let _span = crate::profile::forward("batch_norm");
    let y = how.apply(&x.value_ref(), wv.as_ref(), bv.as_ref(), &statistics)?;
    Ok(record(&rows::batch_norm, x, [w.as_deref(), b.as_deref()], y, (how, statistics, true)))
}
