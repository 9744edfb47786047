//! Runs that are stopped and go on.

#[cfg(feature = "safetensors")]
use std::cell::RefCell;

use foldback_data::{DataLoader, TensorDataset};
use foldback_graph::Var;
use foldback_nn::{BatchNorm1d, Dropout, Linear, Sequential, loss, sequential};
use foldback_optim::{Adam, CosineAnnealingLR, SGD};
use foldback_tensor::{StateDict, Tensor, manual_seed, refused};
#[cfg(feature = "safetensors")]
use foldback_tensor::{get_rng_state, set_rng_state};

use super::*;
use crate::TrainFacts;

fn model() -> Sequential {
    sequential![Linear::new(3, 4), BatchNorm1d::new(4), Dropout::new(0.5), Linear::new(4, 1)]
}

fn loader() -> DataLoader<TensorDataset<2>> {
    let x = Tensor::arange(0..90).float().sin().reshape([30, 3]).unwrap();
    let y = x.sum(1).unwrap().unsqueeze(1).unwrap();
    DataLoader::new(TensorDataset::new([x, y]), 8).shuffle(true).seed(1)
}

fn mse(model: &Sequential, [x, y]: &[Tensor; 2]) -> Result<Var> {
    loss::mse_loss(model.forward(x)?, y)
}

/// A history without what a clock said.
fn timeless(history: &History) -> History {
    let mut history = history.clone();
    history.epochs.iter_mut().for_each(|e| e.seconds = 0.0);
    history
}

const VALUES: [f64; 6] = [0.5, 0.3, 0.4, 0.35, 0.1, 0.2];

/// All that a run needs, fresh.
struct Made {
    model: Sequential,
    adam: Adam,
    loader: DataLoader<TensorDataset<2>>,
}

fn made(seed: u64) -> Made {
    manual_seed(seed);
    let model = model();
    Made { adam: Adam::new(model.parameters(), 0.05), model, loader: loader() }
}

impl Made {
    fn fit(&mut self) -> (Fit<'_, Sequential, Adam>, &DataLoader<TensorDataset<2>>) {
        let schedule = CosineAnnealingLR::new(&self.adam, 6);
        let fit = Fit::new(&mut self.model, &self.adam).epochs(6).early_stopping(3).keep_best(true);
        (fit.schedule(schedule).gradient_limit(f64::INFINITY), &self.loader)
    }
}

/// A rate that falls with the measure, and rows of a log, are those of a run in one piece; so are the rates of every batch.
#[cfg(feature = "safetensors")]
#[test]
fn schedules_and_logs_go_on() {
    use foldback_optim::{LinearLR, ReduceLROnPlateau};

    use crate::{CsvLog, JsonLinesLog};
    let folder = std::env::temp_dir();
    let name = |end: &str| folder.join(format!("fit-goes-on-{}.{end}", std::process::id()));
    let run = |by_batch: bool, cuts: &[usize]| {
        let _ = std::fs::remove_file(name("ckpt"));
        let _ = std::fs::remove_file(name("csv"));
        let _ = std::fs::remove_file(name("jsonl"));
        let mut rates = Vec::new();
        for (i, &cut) in cuts.iter().enumerate() {
            let mut made = made(if i == 0 { 1 } else { 9 });
            let sgd = SGD::new(made.model.parameters(), 0.1);
            let plateau = ReduceLROnPlateau::new(&sgd).patience(0).factor(0.5);
            let warm_up = LinearLR::new(&sgd).total_iters(20);
            let fit = Fit::new(&mut made.model, &sgd).epochs(6).checkpoint(name("ckpt"), true);
            let fit = if by_batch { fit.schedule_by_batch(warm_up) } else { fit.schedule_by_value(plateau) };
            let values = RefCell::new(0usize);
            let fit = fit.minimize("value", |_| {
                *values.borrow_mut() += 1;
                value_of((values.borrow().wrapping_sub(1) + if i == 0 { 0 } else { cuts[i - 1] + 1 }) % 6)
            });
            let fit = fit
                .log(CsvLog::append(name("csv")).unwrap())
                .log(JsonLinesLog::append(name("jsonl")).unwrap());
            // Stopped behind the rows of an epoch, and before its checkpoint.
            let stop = |_: &Sequential, report: &EpochReport| match report.epoch == cut {
                true if cut < 5 => Err(foldback_tensor::Error::other("power cut")),
                _ => Ok(()),
            };
            rates.push(
                fit.on_epoch(stop).run(&made.loader, mse).map(|history| (history.losses(), sgd.lr())).ok(),
            );
        }
        let steps = |end: &str| -> Vec<String> {
            let text = std::fs::read_to_string(name(end)).unwrap();
            let step = |row: &str| row.split([',', '}']).next().unwrap_or_default().to_owned();
            text.lines().map(step).collect()
        };
        (rates.pop().flatten().unwrap(), steps("csv"), steps("jsonl"))
    };
    for by_batch in [false, true] {
        let whole = run(by_batch, &[5]);
        assert_eq!((whole.1.len(), whole.2.len()), (7, 6));
        assert!(by_batch || whole.0.1 < 0.1);
        // The epoch that was cut off comes again, and its rows stand once.
        let broken = run(by_batch, &[2, 5]);
        assert_eq!((broken.0.1, &broken.1, &broken.2), (whole.0.1, &whole.1, &whole.2));
    }
    for end in ["ckpt", "csv", "jsonl"] {
        std::fs::remove_file(name(end)).unwrap();
    }
}

fn value_of(epoch: usize) -> Result<f64> {
    Ok(VALUES[epoch])
}

/// The run in one piece: its history, the model and the optimiser in the end.
fn unbroken() -> (History, StateDict, StateDict) {
    let mut made = made(3);
    let mut epoch = 0..;
    let (fit, loader) = made.fit();
    let fit = fit.minimize("value", |_| value_of(epoch.next().unwrap()));
    let history = fit.run(loader, mse).unwrap();
    (timeless(&history), made.model.state_dict(), made.adam.state_dict())
}

#[test]
fn a_state_goes_on_with_the_same_bits() {
    let whole = unbroken();
    assert_eq!((whole.0.epochs.len(), whole.0.best), (6, Some(4)));
    for cut in 1..6 {
        let mut first = made(3);
        let state = FitState::new();
        let mut epoch = 0..;
        let (fit, loader) = first.fit();
        let fit = fit.epochs(cut).keep_best(true).state(&state);
        fit.minimize("value", |_| value_of(epoch.next().unwrap())).run(loader, mse).unwrap();
        assert_eq!(state.epochs(), cut);
        // `keep_best` has put the best weights back: the last ones come from a run in one piece.
        let mut again = FitState::new();
        again.load_state_dict(&state.state_dict()).unwrap();
        assert_eq!(timeless(&again.history()), timeless(&state.history()));
        assert_eq!(again.state_dict(), state.state_dict());
        assert_eq!(timeless(&again.history()).epochs, whole.0.epochs[..cut]);
    }
}

#[test]
fn a_state_of_another_form_is_refused_and_changes_nothing() {
    let (mut fitted, sgd) = {
        let m = made(1).model;
        let sgd = SGD::new(m.parameters(), 0.1);
        (m, sgd)
    };
    let state = FitState::new();
    Fit::new(&mut fitted, &sgd).epochs(2).state(&state).run(&loader(), mse).unwrap();
    let (mut loaded, good) = (state.clone(), state.state_dict());
    for (name, value) in [
        ("loss", None),
        ("loss", Some(Tensor::from(vec![1.0f64]))),
        ("batches", Some(Tensor::from(vec![1.0f64, 2.0]))),
        ("more", Some(Tensor::from(1i64))),
        ("stopping.waited", Some(Tensor::from(1.0f64))),
    ] {
        let mut bad = good.clone();
        match value {
            Some(value) => drop(bad.insert(name, value)),
            None => drop(bad.remove(name)),
        }
        let e = loaded.load_state_dict(&bad).unwrap_err();
        assert!(
            e.location().unwrap().file() == file!() && e.to_string().starts_with("load_state_dict: "),
            "{e}"
        );
        assert_eq!(loaded.history(), state.history());
    }
    // The weights of its best epoch are gone.
    let r = Fit::new(&mut fitted, &sgd).epochs(3).keep_best(true).state(&state).run(&loader(), mse);
    assert!(refused!(r, TrainFacts::Parameter { name: "keep_best", .. }));
    // A run that has ended stays as it is.
    let before = fitted.state_dict();
    let history = Fit::new(&mut fitted, &sgd).epochs(2).state(&state).run(&loader(), mse).unwrap();
    assert_eq!((history.epochs.len(), fitted.state_dict()), (2, before));
}

#[test]
fn a_schedule_steps_after_each_epoch() {
    let mut made = made(5);
    let mut rates = Vec::new();
    let (fit, loader) = made.fit();
    fit.on_epoch(|_, e| {
        rates.push(e.lr);
        Ok(())
    })
    .early_stopping(9)
    .run(loader, mse)
    .unwrap();
    let expected = |k: usize| 0.025 * (1.0 + (std::f64::consts::PI * k as f64 / 6.0).cos());
    assert!(rates.iter().enumerate().all(|(k, lr)| (lr - expected(k)).abs() < 1e-12), "{rates:?}");
    assert!(rates.len() == 6 && made.adam.lr().abs() < 1e-12);
}

/// A log that knows no way back.
#[cfg(feature = "safetensors")]
struct Refuses;

#[cfg(feature = "safetensors")]
impl crate::Log for Refuses {
    fn log(&mut self, _: usize, _: &[(&str, f64)]) -> Result<()> {
        Ok(())
    }
    fn go_on_at(&mut self, _: usize) -> Result<()> {
        Err(foldback_tensor::Error::other("no way back"))
    }
}

#[cfg(feature = "safetensors")]
#[test]
fn an_average_goes_on_with_the_same_bits() {
    let path = std::env::temp_dir().join(format!("foldback-fit-average-{}.ckpt", std::process::id()));
    let run = |seed: u64, last: usize| {
        let mut made = made(seed);
        let averaged = AveragedModel::ema(&made.model, 0.9);
        let (fit, loader) = made.fit();
        let stop = |_: &Sequential, e: &EpochReport| {
            if e.epoch == last {
                e.stop();
            }
            Ok(())
        };
        let fit = fit.early_stopping(9).keep_best(false).accumulate(3).average(&averaged);
        fit.checkpoint(&path, true).on_epoch(stop).run(loader, mse).unwrap();
        (averaged.num_averaged(), averaged.state_dict(), made.model.state_dict())
    };
    let whole = run(3, 5);
    // Four batches make two steps.
    assert_eq!(whole.0, 12);
    for cut in [0, 3] {
        std::fs::remove_file(&path).unwrap();
        assert_eq!(run(3, cut).0, 2 * (cut + 1));
        assert_eq!(run(77, 5), whole, "{cut}");
    }
    // What stands in the file is of its kind, for whoever takes it out.
    let (file, mut other) = (crate::Checkpoint::open(&path).unwrap(), made(8));
    let mut taken = AveragedModel::ema(&other.model, 0.9);
    file.get("average", &mut taken).unwrap();
    file.get("optimizer", &mut other.adam).unwrap();
    file.get("loader", &mut other.loader).unwrap();
    assert_eq!((taken.num_averaged(), taken.state_dict()), (whole.0, whole.1.clone()));
    let mut raw = StateDict::new();
    file.get("model", &mut raw).unwrap();
    assert!(raw.get("0.weight").is_some());
    // A resume that is refused leaves it as it was, whether behind it or at it.
    let mut again = made(5);
    drop(again.fit());
    let averaged = AveragedModel::new(&again.model);
    averaged.update(&again.model).unwrap();
    let kept = (averaged.state_dict(), again.model.state_dict(), again.adam.state_dict());
    let (fit, loader) = again.fit();
    let fit = fit.keep_best(false).average(&averaged).checkpoint(&path, true);
    let rng = get_rng_state();
    let e = fit.epochs(9).early_stopping(9).log(Refuses).run(loader, mse).unwrap_err();
    assert_eq!((e.to_string().as_str(), get_rng_state()), ("no way back", rng));
    assert_eq!((averaged.state_dict(), again.model.state_dict(), again.adam.state_dict()), kept);
    let (fit, loader) = again.fit();
    fit.early_stopping(9).keep_best(false).checkpoint(&path, false).run(loader, mse).unwrap();
    let (fit, loader) = again.fit();
    let e = fit.keep_best(false).average(&averaged).checkpoint(&path, true).run(loader, mse).unwrap_err();
    assert!(e.to_string().contains("fit: average = one") && e.to_string().contains("leave it out"), "{e}");
    assert_eq!(averaged.state_dict(), kept.0);
    std::fs::remove_file(&path).unwrap();
}

/// What went along with the run that a file is of, and is not given now.
#[cfg(feature = "safetensors")]
#[test]
fn what_is_in_the_file_and_not_in_the_run_is_refused() {
    let path = std::env::temp_dir().join(format!("foldback-fit-without-{}.ckpt", std::process::id()));
    let mut of_file = made(3);
    let averaged = AveragedModel::new(&of_file.model);
    let (fit, loader) = of_file.fit();
    fit.epochs(1).average(&averaged).checkpoint(&path, true).run(loader, mse).unwrap();
    let mut other = made(4);
    let before = other.model.state_dict();
    for (has_schedule, expected) in [(false, "fit: schedule = none"), (true, "fit: average = none")] {
        let schedule = has_schedule.then(|| CosineAnnealingLR::new(&other.adam, 6));
        let fit = Fit::new(&mut other.model, &other.adam).epochs(2).checkpoint(&path, true);
        let fit = if let Some(schedule) = schedule { fit.schedule(schedule) } else { fit };
        let line = line!() + 1;
        let e = fit.run(&other.loader, mse).unwrap_err();
        let text = e.to_string();
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains(&format!("the one that {} has: give it by ", path.display())), "{text}");
        assert!(e.location().is_some_and(|at| (at.file(), at.line()) == (file!(), line)), "{e:?}");
        assert_eq!(other.model.state_dict(), before);
    }
    std::fs::remove_file(&path).unwrap();
}

/// Rows behind a checkpoint come once. Without a checkpoint, and where no epoch is left, none are taken: they may be another run's.
/// A log that refuses, the last of several, leaves the rows of the others.
#[cfg(feature = "safetensors")]
#[test]
fn rows_come_once_and_go_together() {
    use crate::{CsvLog, JsonLinesLog};
    let folder = std::env::temp_dir().join(format!("foldback-fit-rows-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let (path, csv, json) = (folder.join("run.ckpt"), folder.join("log.csv"), folder.join("log.jsonl"));
    let run = |stop_at: usize, gone: bool| {
        let mut made = made(3);
        let logs = (CsvLog::append(&csv).unwrap(), JsonLinesLog::append(&json).unwrap());
        if gone {
            std::fs::remove_file(&json).unwrap();
        }
        let stop = |_: &Sequential, e: &EpochReport| match e.epoch == stop_at {
            true => Err(foldback_tensor::Error::other("power cut")),
            false => Ok(()),
        };
        let (fit, loader) = made.fit();
        let fit = fit.early_stopping(9).keep_best(false).log(logs.0).log(logs.1);
        let ended = fit.checkpoint(&path, true).on_epoch(stop).run(loader, mse);
        ended.map(drop).map_err(|e| e.to_string())
    };
    let steps = || -> Vec<String> {
        let text = std::fs::read_to_string(&csv).unwrap();
        text.lines().map(|row| row.split(',').next().unwrap().to_owned()).collect()
    };
    std::fs::write(&csv, "step,loss,lr,seconds,gradient_norm\n0,9.5,1.0,0.0,1.0\n").unwrap();
    for stop_at in [0, 2, 2] {
        assert_eq!(run(stop_at, false), Err("power cut".into()));
    }
    assert_eq!(steps(), ["step", "0", "0", "0", "1", "2"]);
    let e = run(9, true).unwrap_err();
    assert!(e.starts_with("log: ") && e.contains("log.jsonl"), "{e}");
    assert_eq!(steps(), ["step", "0", "0", "0", "1", "2"]);
    assert_eq!(run(9, false), Ok(()));
    let all = ["step", "0", "0", "0", "1", "2", "3", "4", "5"];
    assert_eq!(steps(), all);
    // A second stage in the same log, and the finished program begun anew.
    CsvLog::append(&csv)
        .unwrap()
        .log(7, &["loss", "lr", "seconds", "gradient_norm"].map(|name| (name, 1.0)))
        .unwrap();
    assert_eq!(run(9, false), Ok(()));
    assert_eq!(steps(), [&all[..], &["7"]].concat());
    std::fs::remove_dir_all(folder).unwrap();
}

#[cfg(feature = "safetensors")]
#[test]
fn a_damaged_checkpoint_names_the_one_before_it() {
    use crate::Checkpoints;
    let folder = std::env::temp_dir().join(format!("foldback-fit-damaged-{}", std::process::id()));
    let kept = Checkpoints::in_folder(&folder).keep_last(2);
    let run = || {
        let mut made = made(3);
        let (fit, loader) = made.fit();
        fit.epochs(3).checkpoints(kept.clone(), true).run(loader, mse).map(drop).map_err(|e| e.to_string())
    };
    run().unwrap();
    let [before, last] = kept.list().unwrap().try_into().unwrap();
    let mut bytes = std::fs::read(&last.path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&last.path, bytes).unwrap();
    let text = run().unwrap_err();
    assert!(text.starts_with("fit: the last checkpoint: open: "), "{text}");
    assert!(text.contains(&format!("or delete it, and the run goes on from {}", before.path.display())));
    std::fs::remove_file(&last.path).unwrap();
    run().unwrap();
    std::fs::remove_dir_all(folder).unwrap();
}

/// Another schedule would go on from a place in a course that it does not have.
#[cfg(feature = "safetensors")]
#[test]
fn a_schedule_of_another_kind_is_refused() {
    use foldback_optim::StepLR;
    let path = std::env::temp_dir().join(format!("foldback-fit-kind-{}.ckpt", std::process::id()));
    let mut made = made(3);
    let (fit, of_run) = made.fit();
    fit.epochs(1).checkpoint(&path, true).run(of_run, mse).unwrap();
    let mut model = model();
    let adam = Adam::new(model.parameters(), 0.05);
    let before = model.state_dict();
    let fit = Fit::new(&mut model, &adam).schedule(StepLR::new(&adam, 2)).epochs(2).checkpoint(&path, true);
    let text = fit.run(&loader(), mse).unwrap_err().to_string();
    let found = "entry `schedule`: what is there is the state of CosineAnnealingLR (StepLR is asked for)";
    assert!(text.contains(found), "{text}");
    // Nor does it go on at another pace.
    let schedule = CosineAnnealingLR::new(&adam, 6);
    let fit = Fit::new(&mut model, &adam).schedule_by_batch(schedule).epochs(2).checkpoint(&path, true);
    let text = fit.run(&loader(), mse).unwrap_err().to_string();
    let start = "fit: schedule = none is not valid: expected the one that ";
    assert!(text.starts_with(start) && text.contains("by schedule or schedule_by_value"), "{text}");
    assert_eq!(model.state_dict(), before);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn an_optimiser_of_another_model_is_refused_before_the_first_step() {
    let (mut model, other) = (model(), model());
    let sgd = SGD::new(other.parameters(), 0.1);
    let before = model.state_dict();
    let e = Fit::new(&mut model, &sgd).run(&loader(), mse).unwrap_err();
    assert!(e.to_string().starts_with("fit: the optimiser's parameters = those of something else"), "{e}");
    assert!(e.location().is_some_and(|at| at.file() == file!()), "{e}");
    assert_eq!(model.state_dict(), before);
    // Where the model's are frozen, others may learn.
    model.requires_grad_(false).unwrap();
    let shift = foldback_graph::RequiresGrad::requires_grad(Tensor::zeros(1));
    let sgd = SGD::new([&shift], 0.1);
    let shifted = |m: &Sequential, [x, y]: &[Tensor; 2]| loss::mse_loss(m.forward(x)?.add(&shift)?, y);
    Fit::new(&mut model, &sgd).epochs(1).run(&loader(), shifted).unwrap();
    assert!(shift.value() != Tensor::zeros(1));
}

#[test]
fn an_average_of_another_model_is_refused_before_the_first_step() {
    let mut made = made(5);
    let other = AveragedModel::new(&sequential![Linear::new(2, 1)]);
    let before = made.model.state_dict();
    let (fit, loader) = made.fit();
    let e = fit.average(&other).run(loader, mse).unwrap_err();
    assert!(e.location().is_some_and(|at| at.file() == file!()), "{e}");
    assert!(matches!(e.facts(), Some(crate::AverageFacts::Unlike { .. })), "{e}");
    assert_eq!(made.model.state_dict(), before);
}

#[cfg(feature = "safetensors")]
#[test]
fn a_checkpoint_goes_on_with_the_same_bits() {
    let whole = unbroken();
    let path = std::env::temp_dir().join(format!("foldback-fit-resumed-{}.ckpt", std::process::id()));
    for cut in 1..6 {
        drop(std::fs::remove_file(&path));
        // The second half knows nothing but the file: other weights, another generator.
        for (seed, from) in [(3, 0), (77, cut)] {
            let mut made = made(seed);
            let mut epoch = from..;
            let (fit, loader) = made.fit();
            let fit = fit.minimize("value", |_| value_of(epoch.next().unwrap())).checkpoint(&path, true);
            let stop = move |_: &Sequential, e: &EpochReport| {
                if seed == 3 && e.epoch + 1 == cut {
                    e.stop();
                }
                Ok(())
            };
            let history = fit.on_epoch(stop).run(loader, mse).unwrap();
            if seed == 77 {
                assert_eq!(timeless(&history), whole.0, "{cut}");
                assert_eq!(made.model.state_dict(), whole.1, "{cut}");
                assert_eq!(made.adam.state_dict(), whole.2, "{cut}");
            }
        }
    }
    // Without `resume` it begins anew, and another model's file is refused.
    let mut other = sequential![Linear::new(3, 1)];
    let adam = Adam::new(other.parameters(), 0.1);
    let rng = get_rng_state();
    let before = other.state_dict();
    let schedule = CosineAnnealingLR::new(&adam, 6);
    let fit = Fit::new(&mut other, &adam).schedule(schedule).checkpoint(&path, true);
    let e = fit.run(&loader(), mse).unwrap_err();
    assert!(e.to_string().contains("entry `model`: "), "{e}");
    // Another optimiser is refused behind the model, which goes back; the line is that of `run`.
    let mut like = model();
    let sgd = SGD::new(like.parameters(), 0.1);
    let kept = like.state_dict();
    let fit = Fit::new(&mut like, &sgd).schedule(CosineAnnealingLR::new(&sgd, 6)).checkpoint(&path, true);
    let line = line!() + 1;
    let e = fit.run(&loader(), mse).unwrap_err();
    assert!(e.location().is_some_and(|at| (at.file(), at.line()) == (file!(), line)), "{e:?}");
    let text = e.to_string();
    assert!(
        text.contains(&path.display().to_string()) && text.contains("entry `optimizer`: SGD: "),
        "{text}"
    );
    assert_eq!((like.state_dict(), other.state_dict()), (kept, before));
    // So does all the rest where a log refuses, which comes last; an epoch that was left early begins anew.
    let mut again = made(5);
    drop(again.fit()); // the schedule notes the rates that it begins with
    let kept = (again.model.state_dict(), again.adam.state_dict());
    let (fit, of_run) = again.fit();
    let e = fit.epochs(9).checkpoint(&path, true).log(Refuses).run(of_run, mse).unwrap_err();
    assert_eq!(e.to_string(), "no way back");
    assert_eq!((again.model.state_dict(), again.adam.state_dict()), kept);
    let left = loader();
    assert!(left.iter().next().is_some());
    let fit = Fit::new(&mut like, &sgd).schedule(CosineAnnealingLR::new(&sgd, 6)).checkpoint(&path, true);
    fit.run(&left, mse).unwrap_err();
    assert_eq!(left.iter().count(), 4);
    set_rng_state(rng);
    let history = Fit::new(&mut other, &adam).checkpoint(&path, false).run(&loader(), mse).unwrap();
    assert_eq!(history.epochs.len(), 1);
    std::fs::remove_file(&path).unwrap();
}
