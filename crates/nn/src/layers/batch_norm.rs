//! Normalisation of channels over a batch or over single examples, with running statistics.

use foldback_graph::Var;
use foldback_tensor::{DType, Here, Norm, Tensor, refuse};

use super::making::{Drawing, Drawn, clear, expect_float, fill_with, has, making};
use super::whole_batches;
use crate::buffer::Buffer;
use crate::error::{NnFacts, Result};
use crate::{Module, forward};

/// Running statistics of channels, as they are given to the operations: mean and variance.
type Running<'a> = Option<[&'a Buffer; 2]>;

/// What one call gives, and the statistics as they go on.
type Normalised = Result<(Var, Option<[Tensor; 2]>)>;

macro_rules! statistics {
    (
        $(#[$doc:meta])*
        $layer:ident($op:literal, $ranks:pat, $shapes:literal, $normalise:expr, counts $counts:literal);
        affine $affine:literal, tracks $tracks:literal
    ) => {
        $(#[$doc])*
        #[derive(Clone, Module)]
        pub struct $layer {
            /// `[c]`, if there is one
            pub weight: Option<Var>,
            /// `[c]`, if there is one
            pub bias: Option<Var>,
            /// `[c]`, if statistics are kept
            pub running_mean: Option<Buffer>,
            /// `[c]`, if statistics are kept
            pub running_var: Option<Buffer>,
            /// how many batches have moved the statistics: `i64` of no axes
            pub num_batches_tracked: Option<Buffer>,
            num_features: usize,
            eps: f64,
            #[module(skip)]
            momentum: Option<f64>,
            affine: bool,
            with_bias: bool,
            track_running_stats: bool,
            training: bool,
            #[module(skip)]
            dtype: DType,
        }

        making! {
            $layer(num_features: usize) = $layer {
                weight: None,
                bias: None,
                running_mean: None,
                running_var: None,
                num_batches_tracked: None,
                num_features,
                eps: 1e-5,
                momentum: Some(0.1),
                affine: $affine,
                with_bias: true,
                track_running_stats: $tracks,
                training: true,
                dtype: DType::F32,
            };
            shown { num_features affine track_running_stats dtype }
            keep {
                /// What is added to the variance: above 0 where that is a batch's, as in training. The default is 1e-5.
                eps: f64;
                /// The share of a batch in the running statistics. The default is 0.1; `None` is the mean over all batches.
                momentum: impl Into<Option<f64>>;
            }
            anew {
                #[doc = concat!("Whether there are a weight and a bias. The default is `", $affine, "`. What was not there is made.")]
                affine: bool, |layer| layer.affine = affine;
                /// Whether there is a bias where there is a weight. The default is yes. One that was not there is made.
                bias: bool, |layer| layer.with_bias = bias;
                #[doc = concat!("Whether there are running statistics, which are used after [`Module::eval`]. The default is `", $tracks, "`.")]
                track_running_stats: bool, |layer| layer.track_running_stats = track_running_stats;
            }
        }

        impl Drawn for $layer {
            fn clear(&mut self) {
                clear([&mut self.weight, &mut self.bias]);
                self.running_mean = None;
                self.running_var = None;
            }

            #[track_caller]
            fn draw(&mut self, _: &mut Drawing<'_>) -> Result<()> {
                expect_float($op, self.dtype)?;
                has(&mut self.weight, self.affine);
                has(&mut self.bias, self.affine && self.with_bias);
                fill_with(&mut self.weight, &self.num_features.into(), 1.0, self.dtype)?;
                fill_with(&mut self.bias, &self.num_features.into(), 0.0, self.dtype)?;
                if !self.track_running_stats {
                    self.running_mean = None;
                    self.running_var = None;
                    self.num_batches_tracked = None;
                } else if self.running_mean.is_none() {
                    let full = |number| Tensor::try_full_with(self.num_features, number, self.dtype);
                    let (mean, var) = (full(0.0)?, full(1.0)?);
                    self.running_mean = Some(Buffer::new(mean));
                    self.running_var = Some(Buffer::new(var));
                    // Files that are older than it lack it.
                        let count = Buffer::new(Tensor::zeros_with((), DType::I64)).optional(true);
                        self.num_batches_tracked = Some(count);
                }
                Ok(())
            }
        }

        #[forward]
        impl $layer {
            /// The normalised input, of its shape. In training the running statistics move on.
            ///
            /// # Errors
            /// `InputShape` for another number of axes; if the channels are not the layer's, the types differ, or there is only one
            /// number to take the statistics of.
            #[track_caller]
            pub fn forward(&self, input: &Var) -> Result<Var> {
                if !matches!(input.rank(), $ranks) {
                    let expected = $shapes.into();
                    return refuse(NnFacts::InputShape { op: $op, name: "an input", expected, found: input.shape().clone() }).here();
                }
                let running = self.running_mean.as_ref().zip(self.running_var.as_ref());
                let options = Norm::new().weight(self.weight.as_ref()).bias(self.bias.as_ref()).eps(self.eps);
                let moves = self.training;
                let count = self.num_batches_tracked.as_ref().filter(|_| moves && $counts);
                let count = match count {
                    Some(buffer) => Some((buffer, buffer.value().add(1)?)),
                    None => None,
                };
                let over_all = $counts && whole_batches::asked_for();
                let momentum = match (self.momentum.filter(|_| !over_all), &count) {
                    (Some(momentum), _) => momentum,
                    (None, Some((_, count))) => 1.0 / count.item()?,
                    (None, None) => 0.0,
                };
                let running = running.map(|(mean, var)| [mean, var]);
                let (y, moved) = $normalise(input, options, running, moves, momentum)?;
                if let (Some([mean, var]), Some([new_mean, new_var])) = (running, moved) {
                    mean.set(new_mean);
                    var.set(new_var);
                }
                if let Some((buffer, count)) = count {
                    buffer.set(count);
                }
                Ok(y)
            }
        }
    };
}

#[track_caller]
fn over_batch(
    x: &Var,
    options: Norm<Option<&Var>, Option<&Var>>,
    running: Running<'_>,
    moves: bool,
    momentum: f64,
) -> Normalised {
    match running {
        None => Ok((x.batch_norm_train(options)?.0, None)),
        Some([mean, var]) if moves => {
            let (y, mean, var) = x.batch_norm_train_with(mean.value(), var.value(), momentum, options)?;
            Ok((y, Some([mean.value(), var.value()])))
        }
        Some([mean, var]) => Ok((x.batch_norm_with(mean.value(), var.value(), options)?, None)),
    }
}

/// Over the axes behind the channels, for each example; with a batch there are `RANK` axes.
#[track_caller]
fn over_examples<const RANK: usize>(
    x: &Var,
    options: Norm<Option<&Var>, Option<&Var>>,
    running: Running<'_>,
    moves: bool,
    momentum: f64,
) -> Normalised {
    if x.rank() < RANK {
        let (y, moved) = over_examples::<RANK>(&x.unsqueeze(0)?, options, running, moves, momentum)?;
        return Ok((y.squeeze(0)?, moved));
    }
    match running {
        None => Ok((x.instance_norm_with(options)?, None)),
        Some([mean, var]) if moves => {
            let (y, mean, var) = x.instance_norm_train_with(mean.value(), var.value(), momentum, options)?;
            Ok((y, Some([mean.value(), var.value()])))
        }
        Some([mean, var]) => Ok((x.batch_norm_with(mean.value(), var.value(), options)?, None)),
    }
}

statistics! {
    /// `(x - mean) / sqrt(var + eps) * weight + bias` for each channel: `[n, c]` or `[n, c, l]` (Ioffe and Szegedy, 2015). PyTorch's
    /// [`BatchNorm1d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm1d.html).
    ///
    /// Mean and variance are those of the batch in training, where the running ones move on; these are used after
    /// [`Module::eval`]. The running variance is that of a sample, divided by one less than the count. The weight starts as ones, the
    /// bias as zeros. A clone shares weights and statistics, [`deep_copy`](Module::deep_copy) does not.
    ///
    /// ```
    /// use foldback_nn::{BatchNorm1d, Module};
    /// use foldback_tensor::{assert_close, tensor};
    /// let mut layer = BatchNorm1d::new(1).momentum(0.5);
    /// assert_close!(layer.forward(&tensor![[1.0], [3.0]])?.value(), tensor![[-1.0], [1.0]], atol = 1e-4);
    /// assert_eq!(layer.running_mean.as_ref().unwrap().value(), tensor![1.0]);
    /// layer.eval();
    /// assert!(layer.forward(&tensor![[1.0]])?.value().item()?.abs() < 1e-6);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    BatchNorm1d("batch_norm1d", 2 | 3, "[n, c] or [n, c, l]", over_batch, counts true);
    affine true, tracks true
}

statistics! {
    /// [`BatchNorm1d`] of images: `[n, c, h, w]`. PyTorch's
    /// [`BatchNorm2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html).
    ///
    /// ```
    /// use foldback_nn::{BatchNorm2d, Module};
    /// use foldback_tensor::Tensor;
    /// let layer = BatchNorm2d::new(3);
    /// assert_eq!(layer.forward(&Tensor::ones([2, 3, 4, 4]))?.shape(), [2, 3, 4, 4]);
    /// let names: Vec<String> = layer.named_buffers().into_iter().map(|(name, _)| name).collect();
    /// assert_eq!(names, ["running_mean", "running_var", "num_batches_tracked"]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    BatchNorm2d("batch_norm2d", 4, "[n, c, h, w]", over_batch, counts true);
    affine true, tracks true
}

statistics! {
    /// `(x - mean) / sqrt(var + eps)` for each channel of each example: `[n, c, l]` or `[c, l]` (Ulyanov, Vedaldi and Lempitsky,
    /// 2016). PyTorch's [`InstanceNorm1d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.InstanceNorm1d.html).
    ///
    /// There are neither weight and bias nor running statistics unless they are asked for. With statistics it behaves as
    /// [`BatchNorm1d`], but does not count batches, so that a momentum of `None` leaves them as they are.
    ///
    /// ```
    /// use foldback_nn::InstanceNorm1d;
    /// use foldback_tensor::{assert_close, tensor};
    /// let y = InstanceNorm1d::new(1).forward(&tensor![[[1.0, 3.0]]])?;
    /// assert_close!(y.value(), tensor![[[-1.0, 1.0]]], atol = 1e-4);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    InstanceNorm1d("instance_norm1d", 2 | 3, "[n, c, l] or [c, l]", over_examples::<3>, counts false);
    affine false, tracks false
}

statistics! {
    /// [`InstanceNorm1d`] of images: `[n, c, h, w]` or `[c, h, w]`. PyTorch's
    /// [`InstanceNorm2d`](https://docs.pytorch.org/docs/stable/generated/torch.nn.InstanceNorm2d.html).
    ///
    /// ```
    /// use foldback_nn::InstanceNorm2d;
    /// use foldback_tensor::Tensor;
    /// let layer = InstanceNorm2d::new(3).affine(true);
    /// assert_eq!(layer.forward(&Tensor::ones([3, 4, 4]))?.shape(), [3, 4, 4]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    InstanceNorm2d("instance_norm2d", 3 | 4, "[n, c, h, w] or [c, h, w]", over_examples::<4>, counts false);
    affine false, tracks false
}

#[cfg(test)]
mod tests {
    use foldback_tensor::tensor;

    use super::*;
    use crate::Module;

    /// A call that is refused leaves the statistics as they were.
    #[test]
    fn a_refused_call_changes_nothing() {
        let layer = BatchNorm1d::new(2);
        let state = || layer.named_buffers().into_iter().map(|(_, b)| b.value()).collect::<Vec<_>>();
        let before = state();
        assert!(layer.forward(&tensor![[1.0, 2.0]]).is_err());
        assert!(layer.forward(&tensor![[1.0], [2.0]]).is_err());
        assert!(layer.forward(&tensor![1.0, 2.0]).is_err());
        assert_eq!(state(), before);
        layer.forward(&tensor![[1.0, 2.0], [3.0, 4.0]]).unwrap();
        assert_eq!(state()[2], tensor![1; i64].squeeze(0).unwrap());
    }

    #[test]
    fn the_rank_is_named() {
        let e = BatchNorm2d::new(2).forward(Tensor::ones([2, 2])).unwrap_err().with_location(None);
        assert_eq!(e.to_string(), "batch_norm2d: expected an input of shape [n, c, h, w], found [2, 2]");
    }

    /// The mean over all batches, whatever their number.
    #[test]
    fn without_a_momentum() {
        let layer = BatchNorm1d::new(1).momentum(None);
        for x in [tensor![[0.0], [2.0]], tensor![[4.0], [6.0]]] {
            layer.forward(&x).unwrap();
        }
        assert_eq!(layer.running_mean.unwrap().value(), tensor![3.0]);
    }
}
