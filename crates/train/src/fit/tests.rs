//! Runs of small models: what is measured, kept, told and refused.

use std::cell::RefCell;

use foldback_data::{DataLoader, TensorDataset};
use foldback_graph::{RequiresGrad, Var};
use foldback_nn::{Dropout, Linear, loss, sequential};
use foldback_optim::{Adam, SGD};
use foldback_tensor::{Error, Kind, Tensor, manual_seed, refused, tensor};

use super::*;
use crate::TrainFacts;

fn data() -> (Tensor, Tensor) {
    manual_seed(0);
    let x = Tensor::randn([40, 3]);
    let y = x.sum(1).unwrap().unsqueeze(1).unwrap();
    (x, y)
}

fn loader() -> DataLoader<TensorDataset<2>> {
    let (x, y) = data();
    DataLoader::new(TensorDataset::new([x, y]), 16).shuffle(true).seed(1)
}

fn model() -> Linear {
    manual_seed(3);
    Linear::new(3, 1)
}

fn mse(model: &Linear, [x, y]: &[Tensor; 2]) -> Result<Var> {
    loss::mse_loss(model.forward(x)?, y)
}

#[test]
fn a_run_is_the_loop_by_hand() {
    let by_hand = model();
    let sgd = SGD::new(by_hand.parameters(), 0.1);
    let mut means = Vec::new();
    let batches = loader();
    for _ in 0..3 {
        let mut losses = Vec::new();
        for batch in &batches {
            sgd.zero_grad();
            let loss = mse(&by_hand, &batch.unwrap()).unwrap();
            loss.backward().unwrap();
            sgd.step().unwrap();
            losses.push(loss.item().unwrap());
        }
        means.push(losses.iter().sum::<f64>() / 3.0);
    }
    let mut fitted = model();
    let sgd = SGD::new(fitted.parameters(), 0.1);
    let history = Fit::new(&mut fitted, &sgd).epochs(3).gradient_limit(1e9).run(&loader(), mse).unwrap();
    assert_eq!(fitted.state_dict(), by_hand.state_dict());
    for (found, expected) in history.losses().iter().zip(&means) {
        assert!((found - expected).abs() < 1e-12);
    }
    let last = &history.epochs[2];
    assert_eq!((last.epoch, last.batches, last.lr, last.value), (2, 3, 0.1, None));
    assert!(last.gradient_norm.is_some_and(|n| n > 0.0) && history.best == Some(2));
}

#[test]
fn callbacks_run_where_they_should() {
    let (told, mut fitted) = (RefCell::new(Vec::new()), sequential![Linear::new(3, 1), Dropout::new(0.5)]);
    let adam = Adam::new(fitted.parameters(), 0.1);
    let tell = |text: String| told.borrow_mut().push(text);
    let history = Fit::new(&mut fitted, &adam)
        .epochs(9)
        .before_step(|model| {
            assert!(model.parameters()[0].grad().is_some());
            tell("before".into());
            Ok(())
        })
        .on_batch(|b| {
            tell(format!("batch {}.{}", b.epoch, b.batch));
            Ok(())
        })
        .maximize("accuracy", |model| {
            // Evaluation: nothing is dropped, nothing recorded.
            let once = model.forward(&tensor![[1.0, 2.0, 3.0]])?;
            assert!(
                !once.requires_grad() && once.value() == model.forward(&tensor![[1.0, 2.0, 3.0]])?.value()
            );
            tell("evaluate".into());
            Ok(0.25)
        })
        .on_epoch(|_, e| {
            tell(format!("epoch {} {:?} {}", e.epoch, e.value, e.is_best));
            if e.epoch == 1 {
                e.stop();
            }
            Ok(())
        })
        .run(&loader(), |model, [x, y]| loss::mse_loss(model.forward(x)?, y))
        .unwrap();
    let epoch = |e: usize, best: bool| {
        let batches = (0..3).flat_map(|b| ["before".into(), format!("batch {e}.{b}")]);
        batches.chain(["evaluate".into(), format!("epoch {e} Some(0.25) {best}")]).collect::<Vec<String>>()
    };
    assert_eq!(told.into_inner(), [epoch(0, true), epoch(1, false)].concat());
    assert_eq!((history.values(), history.best), (vec![0.25, 0.25], Some(0)));
}

#[test]
fn the_best_model_is_kept_and_the_run_ends_early() {
    let values = [0.5, 0.4, 0.7, 0.6, 0.65, 0.9];
    for keep in [false, true] {
        let mut seen = Vec::new();
        let mut fitted = model();
        let sgd = SGD::new(fitted.parameters(), 0.05);
        let mut next = values.iter();
        let history = Fit::new(&mut fitted, &sgd)
            .epochs(6)
            .maximize("accuracy", |model: &Linear| {
                seen.push(model.weight.value());
                Ok(*next.next().unwrap())
            })
            .early_stopping(2)
            .min_delta(0.01)
            .keep_best(keep)
            .run(&loader(), mse)
            .unwrap();
        assert_eq!((history.values(), history.best), (values[..5].to_vec(), Some(2)));
        assert_eq!(fitted.weight.value(), seen[if keep { 2 } else { 4 }]);
    }
}

#[derive(Default)]
struct Kept(Vec<(usize, Vec<String>)>);

impl Log for &RefCell<Kept> {
    fn log(&mut self, step: usize, values: &[(&str, f64)]) -> Result<()> {
        self.borrow_mut().0.push((step, values.iter().map(|v| v.0.to_owned()).collect()));
        Ok(())
    }
}

#[test]
fn every_epoch_is_logged() {
    let (kept, mut fitted) = (RefCell::new(Kept::default()), model());
    let sgd = SGD::new(fitted.parameters(), 0.05);
    let fit =
        Fit::new(&mut fitted, &sgd).epochs(2).gradient_limit(f64::INFINITY).minimize("error", |_| Ok(1.0));
    fit.log(&kept).log(&kept).run(&loader(), mse).unwrap();
    let names: Vec<String> = ["loss", "lr", "seconds", "gradient_norm", "error"].map(str::to_owned).into();
    let expected = [0, 0, 1, 1].map(|epoch| (epoch, names.clone()));
    assert_eq!(kept.into_inner().0, expected);
}

#[test]
fn a_log_that_refuses_names_the_line_of_the_run() {
    let path = std::env::temp_dir().join(format!("fit-columns-{}.csv", std::process::id()));
    std::fs::write(&path, "step,other\n").unwrap();
    let mut fitted = model();
    let sgd = SGD::new(fitted.parameters(), 0.05);
    let log = crate::CsvLog::append(&path).unwrap();
    let e = Fit::new(&mut fitted, &sgd).log(log).run(&loader(), mse).unwrap_err();
    assert!(e.location().is_some_and(|at| at.file() == file!()), "{e}");
    std::fs::remove_file(&path).unwrap();
}

fn alarm(result: Result<History>) -> (String, Error) {
    let e = result.unwrap_err();
    assert_eq!(e.kind(), Kind::Graph, "{e}");
    assert!(e.location().is_some_and(|at| at.file() == file!()), "{e}");
    let Some(TrainFacts::Alarm { cause, .. }) = e.facts() else { panic!("{e}") };
    (cause.clone(), e)
}

#[test]
fn a_loss_that_is_not_finite_is_traced_to_its_operation() {
    let mut fitted = model();
    let before = fitted.state_dict();
    let sgd = SGD::new(fitted.parameters(), 0.1);
    let (mut line, mut batch) = (0, 0);
    let result = Fit::new(&mut fitted, &sgd).run(&loader(), |model, [x, _]| {
        batch += 1;
        line = line!() + 1;
        let y = model.forward(x)?.square().neg().log();
        y.relu().mean(..)
    });
    let (cause, e) = alarm(result);
    assert_eq!(cause, format!("it comes from the result of ln, recorded at {}:{line}:50", file!()));
    assert!(e.to_string().starts_with("fit: the loss is NaN in batch 0 of epoch 0: "), "{e}");
    assert_eq!((fitted.state_dict(), batch), (before, 2));
    assert!(fitted.parameters().iter().all(|p| p.grad().is_none()));
}

#[test]
fn infinities_that_are_meant_are_not_accused() {
    // Masked scores are infinite and well; the logarithm of their shares of 0 is not.
    let mut fitted = model();
    let sgd = SGD::new(fitted.parameters(), 0.1);
    let mask = tensor![true, false, false];
    let mut line = 0;
    let result = Fit::new(&mut fitted, &sgd).run(&loader(), |model, [x, _]| {
        let scores = model.forward(x)?.mul(tensor![1.0, 2.0, 3.0])?.masked_fill(&mask, f64::NEG_INFINITY)?;
        line = line!() + 1;
        scores.softmax(-1)?.log().mean(..)
    });
    let (cause, _) = alarm(result);
    assert_eq!(cause, format!("it comes from the result of ln, recorded at {}:{line}:29", file!()));
    // Nor is a frozen parameter that is meant to be infinite.
    let mut far = Linear::from_parameters(tensor![[f64::INFINITY]].requires_grad(), None).unwrap();
    far.requires_grad_(false).unwrap();
    let mut both = sequential![model(), far];
    let sgd_of_one = SGD::new(both.parameters()[..1].to_vec(), 0.1);
    let result = Fit::new(&mut both, &sgd_of_one).run(&loader(), |both, [x, _]| both.forward(x)?.mean(..));
    let (cause, _) = alarm(result);
    assert!(cause.contains(", which reads the infinity of the result of linear, recorded at "), "{cause}");
    // Of a NaN the first that is one, and the infinity that it was made of.
    let result = Fit::new(&mut fitted, &sgd).run(&loader(), |model, [x, _]| {
        let far = (model.forward(x)? * 0.0 + 1000.0).exp();
        (&far - &far).relu().mean(..)
    });
    let (cause, _) = alarm(result);
    assert!(cause.starts_with("it comes from the result of sub, recorded at "), "{cause}");
    assert!(cause.contains(", which reads the infinity of the result of exp, recorded at "), "{cause}");
}

#[test]
fn what_is_given_is_accused_where_it_is_not_finite() {
    let mut fitted = model();
    let sgd = SGD::new(fitted.parameters(), 0.1);
    let x = Tensor::full([4, 3], f64::NAN);
    let loader = DataLoader::new(TensorDataset::new([x.clone(), x.narrow(1, 0, 1).unwrap()]), 4);
    let (cause, _) = alarm(Fit::new(&mut fitted, &sgd).run(&loader, mse));
    assert!(
        cause.starts_with("it is in what linear is given that has no history, such as a batch, "),
        "{cause}"
    );
    let (cause, _) = alarm(Fit::new(&mut fitted, &sgd).run(&loader, |_, [x, _]| x.mean(..).map(Var::from)));
    assert!(cause.starts_with("nothing that the parameters have a part in: "), "{cause}");
}

#[test]
fn a_batch_among_several_is_accused_and_measured() {
    let mut fitted = model();
    let sgd = SGD::new(fitted.parameters(), 0.0);
    // Of the second of three batches the slope is infinite, and its loss is not.
    let mut batch = 0;
    let fit = Fit::new(&mut fitted, &sgd).accumulate(3).gradient_limit(f64::INFINITY);
    let result = fit.run(&loader(), |m, [x, _]| {
        batch += 1;
        let y = m.forward(x)?;
        if batch == 1 { y.mean(..) } else { (y * 0.0).sqrt().mean(..) }
    });
    let (cause, e) = alarm(result);
    assert!(e.to_string().contains(" in batch 1 of epoch 0: sqrt: "), "{e}");
    assert!(cause.starts_with("sqrt: the gradient of input 0 holds inf"), "{cause}");
    // The largest norm of an epoch, by steps.
    let x = tensor![[100.0], [100.0], [1.0], [1.0]];
    let loader = DataLoader::new(TensorDataset::new([x.clone(), x]), 1);
    let mut fitted = Linear::from_parameters(tensor![[0.0]].requires_grad(), None).unwrap();
    let sgd = SGD::new(fitted.parameters(), 0.0);
    let fit = Fit::new(&mut fitted, &sgd).accumulate(2).gradient_limit(f64::INFINITY);
    let history = fit.run(&loader, mse).unwrap();
    assert_eq!(history.epochs[0].gradient_norm, Some(20_000.0));
    // Far gradients are no infinite ones.
    let mut fitted = Linear::from_parameters(tensor![[1.0]; f64].requires_grad(), None).unwrap();
    let sgd = SGD::new(fitted.parameters(), 0.0);
    let fit = Fit::new(&mut fitted, &sgd).gradient_limit(f64::INFINITY);
    let x = tensor![[1e200]; f64];
    let loader = DataLoader::new(TensorDataset::new([x.clone(), x]), 1);
    let history = fit.run(&loader, |m, [x, _]| m.forward(x)?.mean(..)).unwrap();
    assert_eq!(history.epochs[0].gradient_norm, Some(1e200));
}

#[test]
fn a_schedule_by_value_looks_the_way_of_the_value() {
    use foldback_optim::{PlateauMode, ReduceLROnPlateau};
    let run = |maximize: bool, mode: PlateauMode| {
        let mut fitted = model();
        let sgd = SGD::new(fitted.parameters(), 0.1);
        let schedule = ReduceLROnPlateau::new(&sgd).mode(mode).patience(0);
        let fit = Fit::new(&mut fitted, &sgd).epochs(4).schedule_by_value(schedule);
        let mut value = 0.0;
        let fit = match maximize {
            true => fit.maximize("value", move |_| {
                value += 0.25;
                Ok(value)
            }),
            false => fit,
        };
        fit.run(&loader(), mse).map(|_| sgd.lr())
    };
    assert_eq!(run(true, PlateauMode::Max).unwrap(), 0.1);
    assert_eq!(run(false, PlateauMode::Min).unwrap(), 0.1);
    for (maximize, mode) in [(true, PlateauMode::Min), (false, PlateauMode::Max)] {
        let e = run(maximize, mode).unwrap_err();
        assert!(e.to_string().contains("expected PlateauMode::M"), "{e}");
    }
}

/// A layer with a generator of its own draws again what it drew.
#[test]
fn a_step_is_repeated_with_what_layers_drew() {
    let mut fitted = sequential![Dropout::new(0.5).seed(4), Linear::new(3, 1)];
    let sgd = SGD::new(fitted.parameters(), 0.1);
    let mut sums = Vec::new();
    let result = Fit::new(&mut fitted, &sgd).run(&loader(), |model, [x, _]| {
        let y = model.forward(x)?;
        sums.push(y.value().sum(..)?.item()?);
        y.abs().neg().log().mean(..)
    });
    let (cause, _) = alarm(result);
    assert!(cause.starts_with("it comes from the result of ln, "), "{cause}");
    assert_eq!(sums[0].to_bits(), sums[1].to_bits());
}

#[test]
fn a_gradient_that_is_not_finite_is_traced_to_its_operation() {
    // The square root of 0 has an infinite slope, and the loss is finite.
    let of_zero = |model: &Linear, [x, _]: &[Tensor; 2]| (model.forward(x)? * 0.0).sqrt().mean(..);
    let mut fitted = model();
    let sgd = SGD::new(fitted.parameters(), 0.1);
    let (cause, e) = alarm(Fit::new(&mut fitted, &sgd).gradient_limit(f64::INFINITY).run(&loader(), of_zero));
    assert!(cause.starts_with("sqrt: the gradient of input 0 holds inf"), "{cause}");
    assert!(e.to_string().starts_with("fit: the norm of the gradients is NaN in batch 0"), "{e}");
    // Without the limit it is found in the next step, in the parameters.
    let (cause, _) = alarm(Fit::new(&mut fitted, &sgd).run(&loader(), of_zero));
    assert!(cause.starts_with("the parameter weight is not finite already"), "{cause}");
}

#[test]
fn gradients_above_the_limit_end_the_run_before_the_step() {
    let mut fitted = model();
    let before = fitted.state_dict();
    let sgd = SGD::new(fitted.parameters(), 0.1);
    let (cause, _) = alarm(Fit::new(&mut fitted, &sgd).gradient_limit(1e-6).run(&loader(), mse));
    assert!(cause.starts_with("the limit is 0.000001: clip"), "{cause}");
    assert_eq!(fitted.state_dict(), before);
}

#[test]
fn errors_of_all_who_take_part_end_the_run() {
    fn refuse<T>() -> Result<T> {
        Err(Error::other("no more"))
    }
    let mut fitted = model();
    let sgd = SGD::new(fitted.parameters(), 0.1);
    let text = |r: Result<History>| assert_eq!(r.unwrap_err().to_string(), "no more");
    text(Fit::new(&mut fitted, &sgd).run(&loader(), |_, _| refuse()));
    text(Fit::new(&mut fitted, &sgd).before_step(|_| refuse()).run(&loader(), mse));
    text(Fit::new(&mut fitted, &sgd).on_batch(|_| refuse()).run(&loader(), mse));
    text(Fit::new(&mut fitted, &sgd).on_epoch(|_, _| refuse()).run(&loader(), mse));
    text(Fit::new(&mut fitted, &sgd).minimize("x", |_| refuse()).run(&loader(), mse));
    // What the loop calls by itself is refused at the line of `run`.
    let line = line!() + 2;
    let refused_here = [
        Fit::new(&mut fitted, &sgd).run(&loader(), |model, [x, _]| model.forward(x)),
        Fit::new(&mut fitted, &sgd).run(&loader(), |_, _| Ok(Tensor::scalar(1.0).into())),
    ];
    for (i, refused) in refused_here.into_iter().enumerate() {
        let e = refused.unwrap_err();
        assert!(e.location().is_some_and(|at| (at.file(), at.line()) == (file!(), line + i as u32)), "{e:?}");
        assert!(
            i == 1
                || e.to_string()
                    .starts_with("fit: the loss's shape = [16, 1] is not valid: expected one number"),
            "{e}"
        );
    }
    let broken = DataLoader::new(vec![1.0f32], 1).sampler(foldback_data::StratifiedSampler::new([0, 0]));
    let r = Fit::new(&mut fitted, &sgd).run(&broken, |_, _| panic!("there is no batch"));
    assert!(refused!(r, foldback_data::DataFacts::Parameter { .. }));
    let history = Fit::new(&mut fitted, &sgd).epochs(0).run(&loader(), mse).unwrap();
    assert_eq!(history, History::default());
}

/// The loss of an epoch without batches would be NaN, and be given as one.
#[test]
fn an_epoch_without_batches_is_refused() {
    let items = |n: usize| TensorDataset::new([Tensor::ones([n, 3]), Tensor::ones([n, 1])]);
    let mut fitted = model();
    fitted.eval();
    let before = fitted.state_dict();
    let sgd = SGD::new(fitted.parameters(), 0.1);
    let few = DataLoader::new(items(3), 4).drop_last(true);
    let unpicked = DataLoader::new(items(3), 4).sampler(foldback_data::SubsetRandomSampler::new([]));
    for (loader, cure) in [
        (DataLoader::new(items(0), 4), "its dataset has no items"),
        (
            few,
            "its dataset has 3 items, but its sampler leaves none, or drop_last those that fill no batch of 4",
        ),
        (unpicked, "its dataset has 3 items, but its sampler leaves none"),
    ] {
        let e = Fit::new(&mut fitted, &sgd).run(&loader, mse).unwrap_err();
        let start = format!("fit: the loader's batches = 0 is not valid: expected at least one: {cure}");
        assert!(e.to_string().starts_with(&start), "{e}");
        assert!(e.location().is_some_and(|at| (at.file(), at.line()) == (file!(), line!() - 3)), "{e:?}");
    }
    assert_eq!(fitted.state_dict(), before);
}

/// What is left of a pass may be nothing, and then the loader is not empty.
#[test]
fn a_loader_behind_its_last_batch_begins_the_next_pass() {
    let (saved, resumed) = (loader(), loader());
    let mut pass = saved.iter();
    assert!(pass.by_ref().take(3).all(|batch| batch.is_ok()));
    resumed.load_state_dict(&saved.state_dict()).unwrap();
    assert!(pass.next().is_none());
    let run = |loader: &DataLoader<TensorDataset<2>>| {
        let mut fitted = model();
        let sgd = SGD::new(fitted.parameters(), 0.1);
        let history = Fit::new(&mut fitted, &sgd).run(loader, mse).unwrap();
        (history.epochs[0].batches, history.losses())
    };
    let expected = run(&saved);
    assert_eq!((run(&resumed), expected.0), (expected.clone(), 3));
}

#[test]
fn an_epoch_that_is_not_measured_is_not_the_best() {
    let mut fitted = model();
    let sgd = SGD::new(fitted.parameters(), 0.1);
    let mut values = [f64::NAN, 0.5, f64::NAN, 0.25].into_iter();
    let fit = Fit::new(&mut fitted, &sgd).epochs(4).minimize("error", move |_| Ok(values.next().unwrap()));
    assert_eq!(fit.run(&loader(), mse).unwrap().best, Some(3));
    // What is never measured has no best epoch, and ends with its last weights.
    let fit = Fit::new(&mut fitted, &sgd).epochs(2).keep_best(true).minimize("error", |_| Ok(f64::NAN));
    let mut last = None;
    let history = fit
        .on_epoch(|model, _| {
            last = Some(model.state_dict());
            Ok(())
        })
        .run(&loader(), mse)
        .unwrap();
    assert_eq!((history.best, Some(fitted.state_dict())), (None, last));
}
