//! Groups, settings by name, and saved states of all optimisers.

use foldback_graph::{RequiresGrad, Var};
use foldback_tensor::{DType, Error, StateDict, Tensor, tensor};

use crate::*;

fn text(e: Error) -> String {
    e.with_location(None).to_string()
}

fn parameters() -> [(&'static str, Var); 3] {
    [("a.weight", [2, 2].as_slice()), ("a.bias", &[2]), ("b.bias", &[])]
        .map(|(name, shape)| (name, Tensor::ones(shape).requires_grad()))
}

#[test]
fn a_pattern_takes_what_no_other_has() {
    let [a, ab, bb] = parameters();
    let sgd = SGD::new([&a, &ab, &bb], 0.5)
        .group("b.*", Group::new().lr(0.25))
        .momentum(0.5)
        .group("*.bias", Group::new().momentum(0.0))
        .weight_decay(1.0);
    // The rest, b.bias, a.bias.
    assert_eq!(sgd.lrs(), [0.5, 0.25, 0.5]);
    assert_eq!(sgd.settings().get("momentum"), Some(vec![0.5, 0.5, 0.0]));
    assert_eq!(sgd.settings().get("weight_decay"), Some(vec![1.0; 3]));
    for (_, var) in [&a, &ab, &bb] {
        var.set_grad(Some(Tensor::zeros(var.shape()))).unwrap();
    }
    sgd.step().unwrap();
    assert_eq!(ab.1.value(), tensor![0.5, 0.5]);
    assert_eq!(bb.1.value().item().unwrap(), 0.75);
    // Where all are taken, the rest is no group.
    let sgd = sgd.group([&a.1], Group::new().lr(0.125));
    assert_eq!(sgd.lrs(), [0.25, 0.5, 0.125]);
    sgd.set_lr(1.0).unwrap();
    sgd.clone().set_lrs(&[1.0, 2.0, 3.0]).unwrap();
    assert_eq!((sgd.lr(), sgd.lrs()), (1.0, vec![1.0, 2.0, 3.0]));
}

#[test]
fn a_group_starts_from_its_own_sum() {
    let [(_, a), (_, b), _] = parameters();
    let group = Group::new().initial_accumulator_value(3.0);
    let adagrad = Adagrad::new([&a, &b], 0.5).eps(0.0).group([&b], group);
    for var in [&a, &b] {
        var.set_grad(Some(Tensor::ones(var.shape()))).unwrap();
    }
    adagrad.step().unwrap();
    // 1 - 0.5 / sqrt(0 + 1) and 1 - 0.5 / sqrt(3 + 1).
    assert_eq!((a.value(), b.value()), (Tensor::full([2, 2], 0.5), tensor![0.75, 0.75]));
}

#[test]
fn an_optimiser_shows_its_settings() {
    let shown = format!("{:?}", SGD::new(&parameters(), 0.5).group("*.bias", Group::new().lr(0.25)));
    assert!(shown.starts_with("SGD { parameters: 3, groups: [Group { lr: 0.5, "), "{shown}");
    assert!(shown.contains("}, Group { lr: 0.25, ") && !shown.contains("tensor("), "{shown}");
}

#[test]
fn groups_that_are_refused() {
    let all = parameters();
    let vars: Vec<Var> = all.iter().map(|(_, var)| var.clone()).collect();
    let refused = |e: Result<SGD>| text(e.unwrap_err());
    let sgd = || SGD::new(&all, 0.5);
    assert_eq!(
        refused(sgd().try_group("c.*", Group::new())),
        "SGD: a group of parameters: no parameter that is in no group yet matches \"c.*\": the names are a.weight, a.bias, b.bias"
    );
    assert!(
        refused(SGD::new(&vars, 0.5).try_group("*", Group::new())).contains("give model.named_parameters()")
    );
    // What `named_parameters_matching` gives where nothing matches, with the names there are.
    let none = Vec::<(String, Var)>::new();
    let empty = "SGD: a group of parameters: the list is empty, as that of named_parameters_matching is where nothing matches:";
    assert_eq!(
        refused(sgd().try_group(&none, Group::new())),
        format!("{empty} the names are a.weight, a.bias, b.bias")
    );
    assert_eq!(
        refused(SGD::new(&vars, 0.5).try_group(&none, Group::new())),
        format!("{empty} give some of those that `new` was given")
    );
    assert!(
        refused(sgd().try_group([tensor![1.0].requires_grad()], Group::new())).contains("not a parameter")
    );
    let twice = sgd().group("a.*", Group::new()).try_group(&vars[..1], Group::new());
    assert!(refused(twice).contains("number 0 is in a group already"));
    assert!(
        refused(sgd().try_group([&vars[0], &vars[0]], Group::new()))
            .contains("number 1 is in a group already")
    );
    assert_eq!(
        refused(sgd().try_group("a.*", Group::new().rho(0.5))),
        "SGD: there is no setting rho: it has lr, momentum, dampening, weight_decay, nesterov, maximize"
    );
    assert!(refused(sgd().try_with(Group::new().lr(-1.0))).contains("the learning rate = -1"));
    assert!(refused(sgd().try_with(Group::new().nesterov(true))).contains("nesterov needs momentum"));
    assert!(sgd().try_with(Group::new().nesterov(true).momentum(0.5)).is_ok());
    assert!(tests::panic_text(|| sgd().group("c", Group::new())).contains("matches \"c\""));
    let lbfgs = LBFGS::new(&all, 1.0);
    assert!(text(lbfgs.clone().try_group("a.*", Group::new()).unwrap_err()).contains("one group"));
    assert!(text(lbfgs.step().unwrap_err()).contains("use step_with"));
    let sgd = sgd();
    assert!(text(sgd.set_lrs(&[1.0, 2.0]).unwrap_err()).contains("one number for each of 1 groups, found 2"));
    assert!(sgd.settings().set("rho", &[1.0]).is_err() && sgd.settings().set("momentum", &[-1.0]).is_err());
}

/// Every optimiser with every setter: the same settings as by `try_with`, and another state from the default one.
#[test]
fn setters_set_what_they_are_called() {
    let w = tensor![1.0].requires_grad();
    macro_rules! check {
        ($($name:ident: $($setter:ident($($v:expr),+)),+;)*) => {$($(
            let by_setter = $name::new([&w], 0.1).$setter($($v),+).state_dict();
            let by_group = $name::try_new([&w], 0.1).unwrap().try_with(Group::new().$setter($($v),+)).unwrap();
            assert_eq!(by_setter, by_group.state_dict());
            assert_ne!(by_setter, $name::new([&w], 0.1).state_dict(), "{}", stringify!($name.$setter));
        )+)*};
    }
    check! {
        SGD: momentum(0.5), dampening(0.5), weight_decay(0.5), maximize(true);
        Adam: betas(0.1, 0.2), eps(0.5), weight_decay(0.5), amsgrad(true), maximize(true), decoupled_weight_decay(true);
        AdamW: betas(0.1, 0.2), eps(0.5), weight_decay(0.5), amsgrad(true), maximize(true);
        NAdam: betas(0.1, 0.2), eps(0.5), weight_decay(0.5), momentum_decay(0.5), maximize(true), decoupled_weight_decay(true);
        RAdam: betas(0.1, 0.2), eps(0.5), weight_decay(0.5), maximize(true), decoupled_weight_decay(true);
        Adagrad: lr_decay(0.5), weight_decay(0.5), initial_accumulator_value(0.5), eps(0.5), maximize(true);
        RMSprop: alpha(0.5), eps(0.5), weight_decay(0.5), momentum(0.5), centered(true), maximize(true);
        Lion: betas(0.1, 0.2), weight_decay(0.5), maximize(true);
        Adadelta: rho(0.5), eps(0.5), weight_decay(0.5), maximize(true);
        Adamax: betas(0.1, 0.2), eps(0.5), weight_decay(0.5), maximize(true);
        Rprop: etas(0.25, 1.5), step_sizes(0.5, 1.5), maximize(true);
        ASGD: lambd(0.5), alpha(0.5), t0(0.5), weight_decay(0.5), maximize(true);
        LBFGS: max_iter(3), max_eval(3), tolerance_grad(0.5), tolerance_change(0.5), history_size(3), strong_wolfe(true), maximize(true);
    }
    assert!(tests::panic_text(|| Rprop::new([&w], 0.1).etas(0.5, 0.5)).contains("etaplus = 0.5"));
    assert!(tests::panic_text(|| LBFGS::new([&w], 0.1).max_iter(0)).contains("max_iter = 0"));
}

#[test]
fn settings_are_shown_as_what_they_are() {
    let adam = Adam::new([&tensor![1.0].requires_grad()], 0.1).amsgrad(true);
    let shown = format!("{:?}", adam.settings());
    let lbfgs = LBFGS::new([&tensor![1.0].requires_grad()], 0.1);
    let shown = format!("{shown}{:?}", lbfgs.settings());
    for part in ["lr: 0.1", "amsgrad: true", "maximize: false", "max_iter: 20,"] {
        assert!(shown.contains(part), "{part} is missing from {shown}");
    }
}

/// A state that does not fit is refused with its reason, and changes nothing.
#[test]
fn loading_is_all_or_nothing() {
    let [a, ab, bb] = parameters();
    let adam = Adam::new([&a, &ab, &bb], 0.1).group("*.bias", Group::new().lr(0.5));
    for (_, var) in [&a, &ab] {
        var.set_grad(Some(Tensor::ones(var.shape()))).unwrap();
    }
    adam.step().unwrap();
    let saved = adam.state_dict();
    assert_eq!(saved.get("groups.1.params"), Some(&tensor![1, 2; i64]));
    assert_eq!(saved.get("groups.1.lr"), Some(&Tensor::from(0.5)));
    assert_eq!(saved.get("groups.0.amsgrad"), Some(&Tensor::from(0i64)));
    assert_eq!(saved.get("state.1.step"), Some(&Tensor::from(1i64)));
    assert!(saved.get("state.2.step").is_none(), "it has seen no step");
    let fresh = || Adam::new([&a, &ab, &bb], 1.0).group("*.bias", Group::new());
    let plants: [(&str, Option<Tensor>, &str); 10] = [
        ("groups.0.lr", None, "groups.0.lr is missing"),
        (
            "groups.0.beta1",
            Some(Tensor::from(1.0)),
            "groups.0.beta1 is 1, expected a number from 0 to less than 1",
        ),
        ("groups.0.lr", Some(Tensor::from(f64::NAN)), "groups.0.lr is NaN"),
        ("groups.0.lr", Some(tensor![1.0]), "groups.0.lr is f32 [1], expected a number"),
        ("groups.1.params", Some(tensor![2, 1; i64]), "other groups of them"),
        ("groups.2.lr", Some(Tensor::from(1.0)), "groups.2.lr belongs to nothing here"),
        ("state.0.exp_avg", Some(tensor![1.0]), "state.0.exp_avg is f32 [1], its parameter f32 [2, 2]"),
        ("state.1.exp_avg", Some(Tensor::zeros_with([2], DType::F64)), "state.1.exp_avg is f64 [2]"),
        ("state.1.step", Some(Tensor::from(0.5)), "state.1.step is 0.5, expected a whole number from 1"),
        ("state.2.exp_avg", Some(Tensor::from(0.5)), "state.2.exp_avg belongs to nothing here"),
    ];
    for (name, plant, expected) in plants {
        let mut state = saved.clone();
        state.remove(name);
        if let Some(plant) = plant {
            state.insert(name, plant);
        }
        let other = fresh();
        let before = other.state_dict();
        let e = text(other.load_state_dict(&state).unwrap_err());
        assert!(e.starts_with("Adam: load_state_dict: ") && e.contains(expected), "{e}");
        assert_eq!(other.state_dict(), before);
    }
    assert!(SGD::new([&a, &ab, &bb], 1.0).load_state_dict(&saved).is_err());
    assert!(fresh().load_state_dict(&StateDict::new()).is_err());
    let other = fresh();
    other.load_state_dict(&saved).unwrap();
    assert_eq!((other.state_dict(), other.lrs()), (saved, vec![0.1, 0.5]));
}

/// What a state holds stays as it was when it was taken.
#[test]
fn later_steps_leave_a_state_alone() {
    let w = tensor![1.0].requires_grad();
    let sgd = SGD::new([&w], 0.5).momentum(0.5);
    w.set_grad(Some(tensor![1.0])).unwrap();
    sgd.step().unwrap();
    let state = sgd.state_dict();
    sgd.step().unwrap();
    assert_eq!(state.get("state.0.momentum_buffer"), Some(&tensor![1.0]));
    assert_eq!(sgd.state_dict().get("state.0.momentum_buffer"), Some(&tensor![1.5]));
}

/// A closure that fails leaves parameters and memory as they were.
#[test]
fn a_step_of_lbfgs_is_all_or_nothing() {
    let w = tensor![3.0, -2.0; f64].requires_grad();
    let lbfgs = LBFGS::new([&w], 0.01).max_iter(4);
    let step = |fails_at: usize| {
        let mut calls = 0;
        lbfgs.step_with(|| {
            calls += 1;
            if calls == fails_at {
                return Err(Error::other("no more"));
            }
            lbfgs.zero_grad();
            let loss = w.square().mul(&tensor![1.0, 3.0; f64])?.sum(..)?;
            loss.backward()?;
            Ok(loss)
        })
    };
    let first = step(0).unwrap();
    assert_eq!(first.item().unwrap(), 21.0);
    let (value, state) = (w.value(), lbfgs.state_dict());
    assert!(step(3).unwrap_err().to_string().contains("no more"));
    assert_eq!((w.value(), lbfgs.state_dict()), (value, state));
    // Nor does a closure that panics leave the parameters somewhere along a line.
    for lbfgs in [lbfgs.clone(), lbfgs.strong_wolfe(true)] {
        let (value, mut calls) = (w.value(), 0);
        tests::panic_text(|| {
            lbfgs.step_with(|| {
                calls += 1;
                assert!(calls < 3, "enough after {calls}");
                lbfgs.zero_grad();
                let loss = w.square().sum(..)?;
                loss.backward().map(|()| loss)
            })
        });
        assert_eq!(w.value(), value);
    }
    let idle = LBFGS::new([&w], 1.0);
    idle.zero_grad();
    assert!(
        text(idle.step_with(|| w.square().sum(..)).unwrap_err())
            .contains("call backward() of the loss in it")
    );
    let mixed = LBFGS::new([&w, &tensor![1.0].requires_grad()], 1.0);
    assert!(text(mixed.step_with(|| w.square().sum(..)).unwrap_err()).contains("give them one type"));
}

/// What a parameter has since its first step cannot be absent from its state; what only some settings need can.
#[test]
fn a_state_without_its_tensors_is_refused() {
    let w = || tensor![1.0, 2.0].requires_grad();
    macro_rules! check {
        ($($name:ident: $($tensor:literal)*;)*) => {$({
            let (own, other) = (w(), w());
            let optimizer = $name::new([&own], 0.1);
            own.set_grad(Some(tensor![0.5, 0.5])).unwrap();
            optimizer.step().unwrap();
            for tensor in [$($tensor),*] as [&str; _] {
                let (name, mut state) = (format!("state.0.{tensor}"), optimizer.state_dict());
                assert!(state.remove(&name).is_some(), "{name}");
                let e = text($name::new([&other], 0.1).load_state_dict(&state).unwrap_err());
                assert!(e.contains(&format!("{name} is missing")), "{e}");
            }
            $name::new([&other], 0.1).load_state_dict(&optimizer.state_dict()).unwrap();
        })*};
    }
    check! {
        SGD:;
        Adam: "exp_avg" "exp_avg_sq";
        AdamW: "exp_avg" "exp_avg_sq";
        NAdam: "exp_avg" "exp_avg_sq";
        RAdam: "exp_avg" "exp_avg_sq";
        Adagrad: "sum";
        RMSprop: "square_avg";
        Lion: "exp_avg";
        Adadelta: "square_avg" "acc_delta";
        Adamax: "exp_avg" "exp_inf";
        Rprop: "prev" "step_size";
        ASGD: "ax";
    }
}

/// A list where a row belongs is refused when it is loaded, not at the next step.
#[test]
fn a_state_of_lbfgs_in_other_shapes_is_refused() {
    let w = tensor![1.0, 2.0].requires_grad();
    let lbfgs = LBFGS::new([&w], 0.1);
    let closure = || {
        w.zero_grad();
        let loss = w.square().square().sum(..)?;
        loss.backward().map(|()| loss)
    };
    lbfgs.step_with(closure).unwrap();
    let state = lbfgs.state_dict();
    for (name, bad) in
        [("d", Tensor::ones([5, 2])), ("prev_flat_grad", Tensor::ones([1, 2])), ("old_dirs", Tensor::ones(2))]
    {
        let mut planted = state.clone();
        planted.insert(format!("state.0.{name}"), bad);
        let e = text(lbfgs.load_state_dict(&planted).unwrap_err());
        assert!(e.contains(&format!("state.0.{name} is f32")), "{e}");
    }
    lbfgs.load_state_dict(&state).unwrap();
}
