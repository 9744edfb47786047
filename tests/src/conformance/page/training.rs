//! Models, data, optimisers, saving and watching: what the replayer has no rows for.

use std::path::Path;

use foldback::data::{ConcatDataset, Dataset, Subset, SubsetRandomSampler};
use foldback::graph::set_detect_anomaly;
use foldback::nn::safetensors::{load_file, save_file};
use foldback::optim::PlateauMode;
use foldback::prelude::*;
use foldback::train::metrics::accuracy;

use super::lines;

lines! {
    /// What a model is and has.
    MODELS (mut model: Sequential, layer: Linear, x: Tensor, weight: Tensor, state: StateDict, mean: Tensor, labels: Tensor);
    "class Net(nn.Module)": model.forward(&x); "a struct with `#[derive(Module)]` and a `forward` under `#[forward]`; see [Models](guide/models.md)"
    "nn.Sequential(a, b)": sequential![Linear::new(2, 3), ReLU]; ""
    "nn.ModuleList(layers)": (0..3).map(|_| Linear::new(4, 4)).collect::<Vec<_>>(); "a field that is a `Vec` of layers, or of `Box<dyn Layer>`; `vec![layer; 3]` is one layer three times"
    "nn.Parameter(weight)": weight.requires_grad(); "a field that is a `Var`"
    "self.register_buffer('mean', mean, persistent=False)": Buffer::new(mean).persistent(false); "a field that is a `Buffer`; `self.mean.value()` reads it"
    "model.train(), model.eval()": model.train(), model.eval(); "a field `training: bool` of a layer of one's own follows"
    "model.parameters(), model.named_parameters()": model.parameters(), model.named_parameters(), model.named_parameters_matching("*.bias"); "lists of handles: `for mut p in model.parameters()` may write to them; the last takes a pattern"
    "model.requires_grad_(False)": model.requires_grad_(false), model.requires_grad_matching("0.*", false); "the second freezes what a pattern matches"
    "model.state_dict().keys()": model.state_dict().names(); ""
    "{k.replace('gamma', 'weight'): v for k, v in state.items()}": state.map_names(|name| name.replace("gamma", "weight")), state.part("module"); "the second takes a prefix and its dot off"
    "model.load_state_dict(state, strict=False)": model.load_state_dict(&state), model.load_state_dict_with(&state, false); "all or nothing, also where a shape differs; the second gives the report"
    "copy.deepcopy(model)": model.deep_copy(); "`clone()` shares the weights"
    "model.double(), model.to(torch.float32)": model.double(), model.float(), model.to(DType::F32); "copies with weights of their own: `let model = model.double()`, before the optimiser is made"
    "torch.func.functional_call(model, parameters, x)": model.with_parameters(model.named_parameters()), model.with_parameters(state.clone()); "a module like this one, whose `forward` is called; the variables may be results of operations"
    "a.weight = b.weight": layer.weight.clone(); "a variable in two places is one parameter, saved under both names"
    "nn.TripletMarginWithDistanceLoss(distance_function=f)": TripletMarginWithDistanceLoss::new().distance_function(|a, b| a.sub(b)?.abs().sum(-1)); "a function of variables; parameters that it has are those of the model that it calls"
    "nn.LinearCrossEntropyLoss(5, 10)": LinearCrossEntropyLoss::new(5, 10).forward(&x, &labels); "no `options`, by which scores are computed some rows at a time"
    "nn.AdaptiveLogSoftmaxWithLoss(64, 1000, [10, 100])": AdaptiveLogSoftmaxWithLoss::new(64, 1000, [10, 100]).forward(&x, &labels); "a pair comes back: `let (output, loss) = ..?`; `log_prob` and `predict` beside it"
    "nn.FractionalMaxPool2d(2, output_ratio=0.5)": FractionalMaxPool2d::ratio(2, 0.5), FractionalMaxPool2d::size(2, 4).forward_with_indices(&x); "`_random_samples` is `random_samples`; `return_indices` is in the name"
    "nn.UpsamplingBilinear2d(scale_factor=2)": Upsample::scale(2).mode(InterpolateMode::Bilinear).align_corners(true); "and `UpsamplingNearest2d` is `Upsample::scale(2)`; PyTorch's former names"
    "torchinfo.summary(model, ..)": model.summary(&x); ""
}

lines! {
    /// Datasets and loaders.
    DATA (x: Tensor, y: Tensor, set: TensorDataset<2>, weights: Vec<f64>, lengths: Vec<usize>);
    "utils.data.TensorDataset(x, y)": TensorDataset::new([x.clone(), y]); "one argument: `let [x, y] = batch?`"
    "utils.data.DataLoader(set, 32, shuffle=True, num_workers=2)": DataLoader::new(set.clone(), 32).shuffle(true).workers(2).drop_last(true); "the order follows from `.seed(0)`, for any number of workers; a batch is a `Result`"
    "collate_fn": Collate::collate(vec![x.clone()]); "the item's type implements `Collate`; see [Data](guide/data.md)"
    "nn.utils.rnn.pad_sequence(xs, batch_first=True)": pad_sequence([&x]), pad_sequence_with([&x], true, 0); "no `padding_side`"
    "nn.utils.rnn.pack_padded_sequence(x, lengths)": LSTM::new(3, 4).forward_with(&x, None, &lengths); "no packed sequences: the lengths go to `forward_with`"
    "utils.data.random_split(set, [0.8, 0.2])": random_split(set.clone(), [0.8, 0.2]); "an array comes back: `let [train, test] = ..?`"
    "utils.data.Subset(set, [0, 2])": Subset::new(set.clone(), [0, 2]), set.all(); "`all` is a whole dataset as one batch; datasets' methods want `use foldback::data::Dataset`"
    "utils.data.ConcatDataset([a, b])": ConcatDataset::new([set.clone(), set]); ""
    "utils.data.WeightedRandomSampler(weights, 100, replacement=False)": WeightedRandomSampler::new(weights, 100).replacement(false), SubsetRandomSampler::new([0, 2]); "`DataLoader::sampler` takes them; there is no `batch_sampler`"
    "pandas.read_csv(path, header=None)": Csv::new().headers(false).open("a.csv"); "columns by name: `table.columns([\"a\", \"b\"])?`; of text `table.labels(\"kind\")?`"
}

lines! {
    /// Optimisers, schedules, and what happens around a step.
    TRAINING (model: Sequential, adam: Adam, lbfgs: LBFGS, mut schedule: StepLR, mut plateau: ReduceLROnPlateau, averaged: AveragedModel<Sequential>, loss: Var, x: Tensor, scores: Tensor, labels: Tensor);
    "optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)": AdamW::new(model.parameters(), 1e-3).weight_decay(0.1); "the rate is always given. Not here: `foreach`, `fused`, `capturable`, `differentiable`, a rate as a tensor, `SparseAdam`, `Adafactor`, `Muon`"
    "optim.AdamW([{'params': biases, 'weight_decay': 0.0}, ..])": AdamW::new(model.named_parameters(), 1e-3).group("*.bias", Group::new().weight_decay(0.0)); "`new` takes all parameters, a group is some of them, by a pattern or a list; see [Training](guide/training.md); no `add_param_group`"
    "optimizer.param_groups[0]['lr'] = 0.1": adam.set_lr(0.1), adam.set_lrs(&[0.1]), adam.lrs(), adam.settings().set("weight_decay", &[0.0]); "of one group and of each; any setting by its name"
    "optimizer.step(closure)": lbfgs.step_with(|| loss.backward().map(|()| loss.clone())); "`step` takes nothing"
    "optim.LBFGS(params, line_search_fn='strong_wolfe')": LBFGS::new(model.parameters(), 1.0).strong_wolfe(true); ""
    "lr_scheduler.StepLR(optimizer, 30), scheduler.step()": StepLR::new(&adam, 30).gamma(0.5), schedule.step(&adam); "a step is given the optimiser; `last_epoch` is not here"
    "scheduler.get_last_lr()": adam.lrs(); ""
    "lr_scheduler.LambdaLR(optimizer, f)": LambdaLR::new(&adam, |epoch| 0.95f64.powi(epoch)); ""
    "lr_scheduler.ReduceLROnPlateau(optimizer, mode='max')": ReduceLROnPlateau::new(&adam).mode(PlateauMode::Max), plateau.step(&adam, 0.25); ""
    "nn.utils.clip_grad_norm_(model.parameters(), 1.0)": clip_grad_norm_(model.parameters(), 1.0), clip_grad_norm_with_(model.parameters(), 1.0, 2.0, true), clip_grad_value_(model.parameters(), 0.5); "`_with_` has `norm_type` and `error_if_nonfinite`"
    "optim.swa_utils.AveragedModel(model)": AveragedModel::new(&model).use_buffers(true), AveragedModel::ema(&model, 0.999), averaged.update(&model), averaged.module.forward(&x); "running statistics: `update_bn`, below"
    "torch.autograd.set_detect_anomaly(True)": set_detect_anomaly(true), Fit::new(&mut model.clone(), &adam).gradient_limit(1e3); "`Fit` says where a loss or a gradient that is not finite comes from"
    "lightning.Trainer(max_epochs=9).fit(model, loader)": Fit::new(&mut model.clone(), &adam).epochs(9).early_stopping(3).keep_best(true); "see [Watching a run](guide/watching.md)"
    "torchmetrics.functional.accuracy(scores, labels)": accuracy(&scores, &labels); "`train::metrics` has these and others, whole and by batches"
}

lines! {
    /// Files of weights and of runs.
    SAVING (mut model: Sequential, adam: Adam, state: StateDict, path: &Path);
    "safetensors.torch.save_file(model.state_dict(), path)": model.save(path), save_file(&state, path); "the feature `safetensors`"
    "model.load_state_dict(load_file(path))": model.load(path), model.load_with(path, false), load_file(path); "`load_with` is `strict=False`, and gives the report"
    "torch.save({'model': .., 'optimizer': ..}, path)": Checkpoint::new().put("model", &model).put("optimizer", &adam).save(path); "PyTorch's own format, `.pt`, is not here"
    "torch.load(path)": Checkpoint::open(path).and_then(|c| c.get("model", &mut model)); "numbers, too: `put(\"epoch\", &epoch)`, `get(\"epoch\", &mut epoch)`, of one type"
    "lightning's ModelCheckpoint(save_top_k=3)": Checkpoints::in_folder(path).keep_best(3).keep_last(1); ""
}
