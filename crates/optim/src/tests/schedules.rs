//! What schedules refuse, and how their setters, their states and their optimisers go together.

use foldback_graph::RequiresGrad;
use foldback_tensor::{Error, StateDict, Tensor, tensor};

use crate::*;

fn text(e: Error) -> String {
    e.with_location(None).to_string()
}

fn sgd(lr: f64) -> SGD {
    SGD::new([tensor![1.0].requires_grad()], lr)
}

/// What a setter changes holds from the start, as if it had been given to `new`, and the optimiser sees nothing else.
#[test]
fn setters_begin_again() {
    let opt = sgd(1.0);
    let schedule = LinearLR::new(&opt).start_factor(0.5).total_iters(2);
    assert_eq!(opt.lr(), 0.5);
    let mut schedule = schedule.start_factor(0.25);
    assert_eq!(opt.lr(), 0.25);
    (0..2).try_for_each(|_| schedule.step(&opt)).unwrap();
    assert_eq!(opt.lr(), 1.0);
    assert!(text(schedule.try_total_iters(7).unwrap_err()).contains("LinearLR: is under way"));
    // One that cycles the momentum, and then does not.
    let opt = sgd(1.0).momentum(0.125);
    let cycle = OneCycleLR::new(&opt, 1.0, 10);
    assert_eq!(opt.settings().get("momentum"), Some(vec![0.95]));
    let _cycle = cycle.cycle_momentum(false);
    assert_eq!(opt.settings().get("momentum"), Some(vec![0.125]));
}

#[test]
fn what_is_refused_leaves_the_optimiser_alone() {
    let opt = sgd(0.5);
    let refused = |e: Error| {
        assert_eq!(opt.lrs(), [0.5]);
        text(e)
    };
    assert_eq!(
        refused(StepLR::try_new(&opt, 0).unwrap_err()),
        "StepLR: step_size = 0 is not valid: expected a whole number from 1"
    );
    assert!(refused(CosineAnnealingLR::try_new(&opt, 0).unwrap_err()).contains("t_max"));
    assert!(refused(ExponentialLR::try_new(&opt, f64::NAN).unwrap_err()).contains("gamma = NaN"));
    assert!(
        refused(OneCycleLR::try_new(&opt, [1.0, 2.0], 9).unwrap_err()).contains("each of 1 groups, found 2")
    );
    assert!(refused(OneCycleLR::try_new(&opt, -1.0, 9).unwrap_err()).contains("max_lr = -1"));
    assert!(refused(CyclicLR::try_new(&opt, 0.1, f64::INFINITY).unwrap_err()).contains("max_lr = inf"));
    assert!(refused(LambdaLR::try_new(&opt, |_| -1.0).unwrap_err()).contains("lr_lambda = -1"));
    assert!(refused(SequentialLR::try_new(&opt, [], []).unwrap_err_()).contains("is empty"));
    let plateau = ReduceLROnPlateau::new(&opt);
    assert!(refused(plateau.try_factor(1.0).unwrap_err()).contains("factor = 1"));
    assert!(tests::panic_text(|| StepLR::new(&opt, 0)).starts_with("StepLR: step_size = 0"));
    let linear = LinearLR::new(&sgd(0.5));
    assert!(tests::panic_text(|| linear.end_factor(2.0)).contains("end_factor = 2"));
}

/// [`Result::unwrap_err`] of what has no `Debug`.
trait UnwrapErr {
    fn unwrap_err_(self) -> Error;
}

impl<T> UnwrapErr for Result<T> {
    fn unwrap_err_(self) -> Error {
        self.err().expect("is refused")
    }
}

#[test]
fn another_optimiser_is_refused() {
    let (own, other) = (sgd(1.0), sgd(1.0));
    let mut schedule = StepLR::new(&own, 1);
    schedule.step(&own.clone()).unwrap();
    let e = text(schedule.step(&other).unwrap_err());
    assert!(e.starts_with("StepLR: this is not the optimiser that the schedule was made of"), "{e}");
    assert_eq!((own.lr(), other.lr()), (0.1, 1.0));
    let part: Box<dyn Schedule> = Box::new(schedule);
    assert!(ChainedScheduler::try_new(&other, [part]).is_err());
    assert!(ReduceLROnPlateau::new(&own).step(&other, 1.0).is_err());
    assert!(CosineAnnealingWarmRestarts::new(&own, 1).step_at(&own, -1.0).is_err());
}

/// The rates that a course starts from are those before the first schedule of an optimiser, for all of its schedules.
#[test]
fn the_first_schedule_notes_the_rates() {
    let opt = sgd(1.0);
    let _first = ConstantLR::new(&opt).factor(0.5);
    let mut second = LambdaLR::new(&opt, |_| 2.0);
    assert_eq!(opt.lr(), 2.0);
    second.step(&opt).unwrap();
    assert_eq!(opt.lr(), 2.0);
}

/// An optimiser without momentum has none to cycle, which the step says.
#[test]
fn momentum_that_is_not_there() {
    let opt = Adagrad::new([tensor![1.0].requires_grad()], 0.1);
    let mut cycle = OneCycleLR::new(&opt, 1.0, 9);
    assert!(text(cycle.step(&opt).unwrap_err()).contains("add .cycle_momentum(false)"));
    cycle.cycle_momentum(false).step(&opt).unwrap();
}

/// A fresh schedule of the same optimiser goes on, too: loading gives the optimiser the rates of then.
#[test]
fn loading_restores_rates() {
    let opt = sgd(1.0);
    let fresh = || LinearLR::new(&opt).start_factor(0.25).total_iters(3);
    let mut schedule = fresh();
    schedule.step(&opt).unwrap();
    let state = schedule.state_dict();
    let mut again = fresh();
    again.load_state_dict(&state).unwrap();
    assert_eq!(opt.lr(), 0.5);
    again.step(&opt).unwrap();
    assert_eq!(opt.lr(), 0.75);
    for (name, plant, expected) in [
        ("last_epoch", Tensor::from(0.5), "last_epoch is 0.5"),
        ("base_lrs", tensor![1.0, 2.0; f64], "base_lrs is f64 [2], expected f64 [1]"),
        ("T_cur", Tensor::from(1.0), "T_cur belongs to nothing here"),
    ] {
        let mut planted = state.clone();
        planted.insert(name, plant);
        let e = text(again.load_state_dict(&planted).unwrap_err());
        assert!(e.starts_with("LinearLR: load_state_dict: ") && e.contains(expected), "{e}");
        assert_eq!(opt.lr(), 0.75);
    }
    assert!(again.load_state_dict(&StateDict::new()).is_err());
}

/// All parts of a chain step, or none.
#[test]
fn a_chain_steps_as_a_whole() {
    let opt = sgd(1.0);
    let parts: [Box<dyn Schedule>; 2] = [
        Box::new(ExponentialLR::new(&opt, 0.5)),
        Box::new(OneCycleLR::new(&opt, 1.0, 1).cycle_momentum(false)),
    ];
    let mut chain = ChainedScheduler::new(&opt, parts);
    chain.step(&opt).unwrap();
    let (state, lr) = (chain.state_dict(), opt.lr());
    assert!(text(chain.step(&opt).unwrap_err()).contains("this would be step 2: the cycle has 1 steps"));
    assert_eq!((chain.state_dict(), opt.lr()), (state, lr));
}

/// Counts that no run comes to stand for "never", up to the largest there is.
#[test]
fn counts_that_are_never_reached() {
    for never in [usize::MAX, usize::MAX / 2, usize::MAX / 2 + 1] {
        let opt = sgd(1.0);
        let mut schedules: Vec<Box<dyn Schedule>> = vec![
            Box::new(StepLR::new(&opt, never)),
            Box::new(MultiStepLR::new(&opt, [never])),
            Box::new(CosineAnnealingLR::new(&opt, never)),
            Box::new(CosineAnnealingWarmRestarts::new(&opt, never).t_mult(never)),
            Box::new(PolynomialLR::new(&opt).total_iters(never)),
            Box::new(LinearLR::new(&opt).start_factor(1.0).total_iters(never)),
            Box::new(ConstantLR::new(&opt).factor(1.0).total_iters(never)),
        ];
        let both: [Box<dyn Schedule>; 2] =
            [Box::new(ExponentialLR::new(&opt, 1.0)), Box::new(ExponentialLR::new(&opt, 0.5))];
        schedules.push(Box::new(SequentialLR::new(&opt, both, [never])));
        for schedule in &mut schedules {
            (0..3).try_for_each(|_| schedule.step(&opt)).unwrap();
            assert_eq!(opt.lr(), 1.0, "{never} {:?}", schedule.state_dict());
        }
        let mut cycle = OneCycleLR::new(&opt, 25.0, never).cycle_momentum(false);
        cycle.step(&opt).unwrap();
        assert!((opt.lr() - 1.0).abs() < 1e-12);
    }
}

/// A state of more parts, or with numbers that no step leads to, is refused, and nothing is changed.
#[test]
fn states_of_other_schedules() {
    let opt = sgd(1.0);
    let parts = |n| (0..n).map(|_| Box::new(ExponentialLR::new(&opt, 0.5)) as Box<dyn Schedule>);
    let chain = |n| ChainedScheduler::new(&opt, parts(n).collect::<Vec<_>>());
    let mut two = chain(2);
    let e = text(two.load_state_dict(&chain(3).state_dict()).unwrap_err());
    assert!(
        e.starts_with("ChainedScheduler: load_state_dict: 2.") && e.contains("belongs to nothing here"),
        "{e}"
    );
    let sequence = |n| SequentialLR::new(&opt, parts(n).collect::<Vec<_>>(), (1..n).collect::<Vec<_>>());
    let e = text(sequence(2).load_state_dict(&sequence(3).state_dict()).unwrap_err());
    assert!(e.starts_with("SequentialLR: load_state_dict: 2."), "{e}");
    two.load_state_dict(&chain(2).state_dict()).unwrap();
    let mut warm = CosineAnnealingWarmRestarts::new(&opt, 3);
    let state = warm.state_dict();
    for (name, number) in
        [("T_i", 0.0), ("T_i", -1.0), ("T_i", f64::NAN), ("T_cur", f64::INFINITY), ("T_cur", -1.0)]
    {
        let mut planted = state.clone();
        planted.insert(name, Tensor::from(number));
        let e = text(warm.load_state_dict(&planted).unwrap_err());
        assert!(e.contains("T_cur, T_i are ["), "{e}");
        assert_eq!(warm.state_dict(), state);
    }
}
