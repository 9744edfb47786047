//! The statistics of batch norms, taken anew.

use foldback_graph::{Var, no_grad};
use foldback_nn::{Module, forget_batches, over_all_batches};
use foldback_tensor::{Here, Result};

/// Takes the running statistics of a model's batch norms anew: the means over all batches of a pass over the data, which an average of
/// weights needs, as its batch norms have seen none. PyTorch's
/// [`update_bn`](https://docs.pytorch.org/docs/stable/optim.html#torch.optim.swa_utils.update_bn).
///
/// `forward` computes the model of a batch, in training mode and without recording. Afterwards the model is in evaluation mode (PyTorch
/// puts back the mode that it was in). A model without batch norms is left alone.
///
/// # Errors
/// What the data and `forward` return; the statistics are those of the batches before it then.
///
/// ```
/// use foldback_data::{DataLoader, TensorDataset};
/// use foldback_nn::{BatchNorm1d, Linear, sequential};
/// use foldback_tensor::tensor;
/// use foldback_train::{AveragedModel, update_bn};
/// let model = sequential![BatchNorm1d::new(1), Linear::new(1, 1)];
/// let mut averaged = AveragedModel::new(&model);
/// let loader = DataLoader::new(TensorDataset::new([tensor![[1.0], [3.0], [5.0], [7.0]]]), 2);
/// update_bn(&loader, &mut averaged, |averaged, [x]| averaged.module.forward(x))?;
/// let statistics = averaged.module.state_dict();
/// assert_eq!(statistics.get("0.running_mean"), Some(&tensor![4.0]));
/// # use foldback_nn::Module;
/// # Ok::<(), foldback_train::Error>(())
/// ```
#[track_caller]
pub fn update_bn<M: Module, B>(
    batches: impl IntoIterator<Item = Result<B>>,
    model: &mut M,
    mut forward: impl FnMut(&M, &B) -> Result<Var>,
) -> Result<()> {
    if !forget_batches(model) {
        return Ok(());
    }
    model.train();
    let own = &*model;
    let mut all = batches.into_iter();
    let seen = no_grad(|| over_all_batches(|| all.try_for_each(|batch| forward(own, &batch?).map(drop))));
    model.eval();
    seen.or_here()
}

#[cfg(test)]
mod tests {
    use foldback_nn::{BatchNorm1d, Dropout, Linear, Sequential, sequential};
    use foldback_tensor::{Error, Tensor, tensor};

    use super::*;

    fn forward(model: &Sequential, x: &Tensor) -> Result<Var> {
        model.forward(x)
    }

    #[test]
    fn the_mean_over_all_batches_whatever_the_momentum() {
        let mut model = sequential![BatchNorm1d::new(1).momentum(0.9), Dropout::new(0.5)];
        model.forward(&tensor![[100.0], [300.0]]).unwrap();
        let batches = [tensor![[0.0], [2.0]], tensor![[4.0], [6.0]], tensor![[1.0], [5.0]]];
        update_bn(batches.map(Ok), &mut model, forward).unwrap();
        let state = model.state_dict();
        assert_eq!(state.get("0.running_mean"), Some(&tensor![3.0]));
        // 2, 2 and 8
        assert_eq!(state.get("0.running_var"), Some(&tensor![4.0]));
        assert_eq!(state.get("0.num_batches_tracked"), Some(&Tensor::from(3i64)));
        // It is in evaluation mode: nothing is dropped, and the statistics stay.
        let y = model.forward(&tensor![[3.0]]).unwrap();
        assert!(y.item().unwrap().abs() < 1e-6 && model.state_dict() == state);
    }

    #[test]
    fn errors_and_models_without_batch_norms() {
        let mut model = sequential![BatchNorm1d::new(1)];
        let e = update_bn([Ok(tensor![[0.0], [2.0]]), Err(Error::other("no more"))], &mut model, forward);
        assert_eq!(e.unwrap_err().to_string(), "no more");
        assert_eq!(model.state_dict().get("running_mean"), None);
        assert_eq!(model.state_dict().get("0.running_mean"), Some(&tensor![1.0]));
        let mut plain = sequential![Linear::new(1, 1)];
        update_bn([Err(Error::other("is not asked for"))], &mut plain, forward).unwrap();
    }
}
