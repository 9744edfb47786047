//! Averages of a model's weights over the steps of a training.

use foldback_graph::{Value, Var};
use foldback_nn::{Buffer, Layer, Module};
#[cfg(feature = "safetensors")]
use foldback_tensor::StateDict;
use foldback_tensor::kernel::{self, FloatOps, Real, Update};
use foldback_tensor::{Facts, Here, Kind, Result, Tensor, or_panic, refuse};

#[cfg(feature = "safetensors")]
use crate::checkpoint::Stateful;

/// Why an average was refused. Nothing has been changed when one is returned.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AverageFacts {
    /// A share that is none.
    #[error("AveragedModel: decay = {decay} is not valid: expected a number from 0 to 1")]
    Decay {
        /// what was given
        decay: f64,
    },
    /// A model with other parts than the one that the average was made of.
    #[error("AveragedModel: update: {problem}: give the model that the average was made of")]
    Unlike {
        /// what differs
        problem: String,
    },
}

impl Facts for AverageFacts {
    fn kind(&self) -> Kind {
        Kind::Argument
    }
}

/// A copy of a model whose weights are averages of what the model's were: the mean of all updates (stochastic weight averaging,
/// Izmailov et al., 2018), or one that forgets, `decay * average + (1 - decay) * weight`. PyTorch's
/// [`AveragedModel`](https://docs.pytorch.org/docs/stable/generated/torch.optim.swa_utils.AveragedModel.html).
///
/// It starts as a deep copy; the first update takes the weights as they are. Buffers are those of the model at the last
/// update, unless [`AveragedModel::use_buffers`] says otherwise. It is a module: its state has the model's names behind
/// `module.`, and `n_averaged`.
///
/// ```
/// use foldback_nn::{Linear, Module};
/// use foldback_tensor::{assert_close, tensor};
/// use foldback_train::AveragedModel;
/// let mut model = Linear::new(1, 1).bias(false);
/// let averaged = AveragedModel::ema(&model, 0.75);
/// for weight in [1.0, 2.0] {
///     model.weight.set_value(tensor![[weight]])?; // a step of an optimiser
///     averaged.update(&model)?;
/// }
/// assert_close!(averaged.module.weight.value(), tensor![[0.75 * 1.0 + 0.25 * 2.0]]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct AveragedModel<M> {
    /// The averaged model: what predictions are made with.
    pub module: M,
    n_averaged: Buffer,
    #[module(skip)]
    decay: Option<f64>,
    use_buffers: bool,
}

impl<M: Module> AveragedModel<M> {
    /// The mean of the weights at all updates.
    ///
    /// ```
    /// use foldback_nn::Linear;
    /// use foldback_tensor::tensor;
    /// use foldback_train::AveragedModel;
    /// let mut model = Linear::new(1, 1).bias(false);
    /// let averaged = AveragedModel::new(&model);
    /// for weight in [1.0, 2.0, 6.0] {
    ///     model.weight.set_value(tensor![[weight]])?;
    ///     averaged.update(&model)?;
    /// }
    /// assert_eq!((averaged.module.weight.value(), averaged.num_averaged()), (tensor![[3.0]], 3));
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    pub fn new(model: &M) -> AveragedModel<M> {
        let n_averaged = Buffer::new(Tensor::from(0i64));
        AveragedModel { module: model.deep_copy(), n_averaged, decay: None, use_buffers: false }
    }

    /// An average that forgets: in each update it keeps this share of itself.
    ///
    /// # Panics
    /// Where [`AveragedModel::try_ema`] returns an error.
    #[track_caller]
    pub fn ema(model: &M, decay: f64) -> AveragedModel<M> {
        or_panic(AveragedModel::try_ema(model, decay))
    }

    /// [`AveragedModel::ema`] that returns an error instead of panicking.
    ///
    /// # Errors
    /// `Decay` if it is not a number from 0 to 1.
    ///
    /// ```
    /// use foldback_nn::Linear;
    /// use foldback_train::AveragedModel;
    /// assert!(AveragedModel::try_ema(&Linear::new(1, 1), 1.5).is_err());
    /// ```
    #[track_caller]
    pub fn try_ema(model: &M, decay: f64) -> Result<AveragedModel<M>> {
        if !(0.0..=1.0).contains(&decay) {
            return refuse(AverageFacts::Decay { decay }).here();
        }
        Ok(AveragedModel { decay: Some(decay), ..AveragedModel::new(model) })
    }

    /// Whether buffers, such as running means, are averaged as the weights are. The default is no: they are those of the
    /// model. Whole numbers are rounded towards 0 at each update.
    #[must_use]
    pub fn use_buffers(mut self, use_buffers: bool) -> AveragedModel<M> {
        self.use_buffers = use_buffers;
        self
    }

    /// How many updates there were.
    pub fn num_averaged(&self) -> usize {
        self.n_averaged.value().item_as::<i64>().map_or(0, |n| usize::try_from(n).unwrap_or(0))
    }

    /// Takes the weights of a model into the average: one that was made like this, a step later.
    ///
    /// # Errors
    /// `Unlike` if the model has parameters or buffers of other names, shapes or types. Nothing is changed then.
    #[track_caller]
    pub fn update(&self, model: &M) -> Result<()> {
        self.take(model).here()
    }

    fn take(&self, model: &M) -> Result<()> {
        self.expect_like(model)?;
        let (own, new) = (self.module.named_parameters(), model.named_parameters());
        let (own_buffers, new_buffers) = (self.module.named_buffers(), model.named_buffers());
        own.iter().try_for_each(|(_, var)| var.expect_not_updating("AveragedModel"))?;
        let n = self.num_averaged();
        let towards = match self.decay {
            _ if n == 0 => 1.0,
            Some(decay) => 1.0 - decay,
            None => 1.0 / (n as f64 + 1.0),
        };
        for ((_, own), (_, new)) in own.iter().zip(&new) {
            let new = new.value();
            own.update_in_place(|own| mean(own, &new, towards))?;
        }
        for ((_, own), (_, new)) in own_buffers.iter().zip(&new_buffers) {
            let new = new.value();
            let mut value = own.value();
            match self.decay {
                _ if !self.use_buffers || n == 0 => value = new,
                _ if new.dtype().is_float() => mean(&mut value, &new, towards)?,
                // As PyTorch does: in f32, and rounded towards 0.
                None => {
                    let step = new.double().sub(value.double())?.float().div(n as f64 + 1.0)?;
                    value = value.float().add(&step)?.to(new.dtype());
                }
                Some(_) => {
                    let part = new.float().mul(towards)?;
                    value = value.float().mul(1.0 - towards)?.add(&part)?.to(new.dtype());
                }
            }
            own.set(value);
        }
        self.n_averaged.set(Tensor::from((n as i64).saturating_add(1)));
        Ok(())
    }

    /// Refuses a model of other parts.
    pub(crate) fn expect_like(&self, model: &M) -> Result<()> {
        let of = |module: &M| {
            let buffers = values(&module.named_buffers(), Buffer::value);
            [values(&module.named_parameters(), Var::value), buffers]
        };
        of(&self.module).iter().zip(&of(model)).try_for_each(|(own, new)| expect_alike(own, new))
    }

    /// Goes on from a state, through a reference: all or nothing.
    #[cfg(feature = "safetensors")]
    pub(crate) fn restore(&self, state: &StateDict) -> Result<()> {
        // A module of the same weights and buffers.
        Stateful::load_state(&mut self.with_parameters([] as [(&str, Var); 0])?, state)
    }
}

impl<M: Layer> Layer for AveragedModel<M> {
    /// What the averaged model computes.
    #[track_caller]
    fn forward(&self, input: &dyn Value) -> Result<Var> {
        self.module.forward(input)
    }
}

/// Names, and the values behind them.
fn values<T>(parts: &[(String, T)], value: impl Fn(&T) -> Tensor) -> Vec<(String, Tensor)> {
    parts.iter().map(|(name, part)| (name.clone(), value(part))).collect()
}

fn expect_alike(own: &[(String, Tensor)], new: &[(String, Tensor)]) -> Result<()> {
    let shown = |t: &Tensor| format!("{} {}", t.dtype(), t.shape());
    let differ = |(own_name, own): &(String, Tensor), (name, new): &(String, Tensor)| {
        own_name != name || own.dtype() != new.dtype() || own.shape() != new.shape()
    };
    let problem = match own.iter().zip(new).find(|(own, new)| differ(own, new)) {
        Some(((name, own), (new_name, new))) => {
            format!("{name} is {}, the model has {new_name}, {}", shown(own), shown(new))
        }
        None if own.len() != new.len() => format!("{} parts, the model has {}", own.len(), new.len()),
        None => return Ok(()),
    };
    refuse(AverageFacts::Unlike { problem })
}

/// Goes from one tensor towards another, in place.
fn mean(own: &mut Tensor, new: &Tensor, share: f64) -> Result<()> {
    if share == 1.0 {
        *own = new.clone();
        return Ok(());
    }
    kernel::update("AveragedModel", Towards { share, rest: 1.0 - share }, [own], [new])
}

/// PyTorch's `lerp`: from the nearer end.
#[derive(Clone, Copy)]
struct Towards {
    share: f64,
    rest: f64,
}

impl Update<1, 1> for Towards {
    #[inline(always)]
    fn eval<R: Real>(&self, [own]: [R; 1], [new]: [R; 1]) -> [R; 1]
    where
        f64: FloatOps<R>,
    {
        let way = new - own;
        [if self.share < 0.5 { own + way * self.share } else { new - way * self.rest }]
    }
}

#[cfg(test)]
mod tests {
    use foldback_nn::{Linear, sequential};
    use foldback_tensor::{Error, tensor};

    use super::*;

    #[derive(Module)]
    struct Counted {
        weight: Var,
        mean: Buffer,
        count: Buffer,
    }

    fn counted(weight: f64, mean: f64, count: i64) -> Counted {
        use foldback_graph::RequiresGrad;
        Counted {
            weight: Tensor::from(vec![weight]).requires_grad(),
            mean: Buffer::new(Tensor::from(vec![mean])),
            count: Buffer::new(Tensor::from(count)),
        }
    }

    /// A file can say anything.
    #[test]
    fn a_count_at_its_end_stays_there() {
        let model = counted(1.0, 2.0, 3);
        let mut averaged = AveragedModel::new(&model);
        let mut state = averaged.state_dict();
        state.insert("n_averaged", Tensor::from(i64::MAX));
        averaged.load_state_dict(&state).unwrap();
        averaged.update(&model).unwrap();
        assert_eq!(averaged.state_dict(), state);
    }

    #[test]
    fn buffers_are_copied_or_averaged() {
        for (use_buffers, expected) in [(false, 8.0), (true, 5.0)] {
            let averaged = AveragedModel::ema(&counted(0.0, 0.0, 0), 0.5).use_buffers(use_buffers);
            averaged.update(&counted(1.0, 2.0, 3)).unwrap();
            averaged.update(&counted(3.0, 8.0, 4)).unwrap();
            let Counted { weight, mean, count } = &averaged.module;
            assert_eq!(weight.value(), tensor![2.0; f64]);
            assert_eq!(mean.value(), tensor![expected; f64]);
            // 3.5, rounded towards 0
            assert_eq!(count.value(), Tensor::from(if use_buffers { 3i64 } else { 4 }));
        }
    }

    /// PyTorch's running mean of a count, rounded towards 0 at each update.
    #[test]
    fn the_mean_of_a_count_is_a_count() {
        let averaged = AveragedModel::new(&counted(0.0, 0.0, 5)).use_buffers(true);
        for (count, mean) in [(9, 9), (5, 7), (3, 5), (6, 5), (0, 4), (-30, -1)] {
            averaged.update(&counted(0.0, 0.0, count)).unwrap();
            assert_eq!(averaged.module.count.value(), Tensor::from(mean as i64), "{count}");
        }
    }

    /// The average has weights of its own, and never writes to the model's.
    #[test]
    fn the_model_stays() {
        let model = sequential![Linear::new(2, 3), Linear::new(3, 1)];
        let before = model.state_dict();
        let averaged = AveragedModel::new(&model);
        let other = model.deep_copy();
        other.parameters()[0].update_value(|v| v.add_(1.0).map(drop)).unwrap();
        averaged.update(&model).unwrap();
        averaged.update(&other).unwrap();
        assert_eq!(model.state_dict(), before);
        assert_ne!(averaged.module.state_dict(), before);
        let names: Vec<String> = averaged.state_dict().names().map(str::to_owned).collect();
        assert_eq!(names.join(" "), "module.0.weight module.0.bias module.1.weight module.1.bias n_averaged");
        assert_eq!(averaged.forward(&tensor![[1.0, 2.0]]).unwrap().shape(), [1, 1]);
    }

    #[test]
    fn goes_on_from_a_saved_state() {
        let mut model = Linear::new(2, 1);
        let (averaged, mut again) = (AveragedModel::new(&model), AveragedModel::new(&model));
        averaged.update(&model).unwrap();
        model.weight.set_value(tensor![[3.0, 4.0]]).unwrap();
        averaged.update(&model).unwrap();
        again.load_state_dict(&averaged.state_dict()).unwrap();
        model.weight.set_value(tensor![[-1.0, 0.5]]).unwrap();
        averaged.update(&model).unwrap();
        again.update(&model).unwrap();
        assert_eq!((again.state_dict(), again.num_averaged()), (averaged.state_dict(), 3));
    }

    #[test]
    fn refusals() {
        let averaged = AveragedModel::new(&Linear::new(2, 1));
        let before = averaged.state_dict();
        let text = |e: Error| e.with_location(None).to_string();
        assert_eq!(
            text(averaged.update(&Linear::new(3, 1)).unwrap_err()),
            "AveragedModel: update: weight is f32 [1, 2], the model has weight, f32 [1, 3]: give the model that the average was made of"
        );
        assert!(
            text(averaged.update(&Linear::new(2, 1).bias(false)).unwrap_err())
                .contains("2 parts, the model has 1")
        );
        assert_eq!(averaged.state_dict(), before);
        let e = AveragedModel::try_ema(&Linear::new(2, 1), f64::NAN).unwrap_err();
        assert_eq!(e.kind(), Kind::Argument);
        assert!(text(e).contains("decay = NaN"));
    }
}
