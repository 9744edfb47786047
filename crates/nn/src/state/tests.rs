//! Names of state, and loading: what fits, what is refused, who sees it.

use foldback_graph::{RequiresGrad, Var};
use foldback_tensor::{DType, Kind, StateDict, Tensor, tensor};

use crate::{Buffer, Linear, LoadReport, Mismatched, Module, NnFacts, Sequential, sequential};

/// A tied weight, buffers of both kinds, and what is no state.
#[derive(Clone, Module)]
struct Model {
    wte: Var,
    body: Sequential,
    steps: Buffer,
    cache: Buffer,
    head: Linear,
    constant: Var,
    computed: Var,
}

fn model() -> Model {
    let wte = Tensor::ones([2, 3]).requires_grad();
    Model {
        head: Linear::from_parameters(wte.clone(), None).unwrap(),
        body: sequential![Linear::new(3, 3)],
        steps: Buffer::new(tensor![7; i64]),
        cache: Buffer::new(tensor![1.0]).persistent(false),
        constant: tensor![1.0].into(),
        computed: &wte * 2.0,
        wte,
    }
}

const NAMES: [&str; 5] = ["wte", "body.0.weight", "body.0.bias", "steps", "head.weight"];

fn text(model: &mut Model, state: &StateDict) -> String {
    model.load_state_dict(state).unwrap_err().with_location(None).to_string()
}

#[test]
fn a_state_dict_holds_what_is_saved() {
    let model = model();
    let state = model.state_dict();
    assert_eq!(state.names().collect::<Vec<_>>(), NAMES);
    assert_eq!(state.get("steps"), Some(&tensor![7; i64]));
    assert_eq!(state.get("head.weight"), Some(&model.wte.value()));
    // It is of now.
    model.wte.update_value(|v| v.fill_(5.0).map(drop)).unwrap();
    model.steps.set(tensor![8; i64]);
    assert_eq!(state.get("wte"), Some(&Tensor::ones([2, 3])));
    assert_eq!(state.get("steps"), Some(&tensor![7; i64]));
    assert_eq!(Linear::new(2, 1).weight.state_dict().names().collect::<Vec<_>>(), [""]);
}

#[test]
fn what_is_loaded_is_seen_by_all_handles() {
    let (from, mut to) = (model(), model());
    let shared = to.clone();
    from.steps.set(tensor![9; i64]);
    to.load_state_dict(&from.state_dict()).unwrap();
    assert_eq!(to.state_dict(), from.state_dict());
    assert_eq!(shared.state_dict(), from.state_dict());
    assert!(to.wte.requires_grad() && to.wte.is_same(&to.head.weight) && !to.wte.is_same(&from.wte));
    // What one learns afterwards the other does not.
    to.wte.update_value(|v| v.fill_(5.0).map(drop)).unwrap();
    assert_eq!(from.wte.value(), Tensor::ones([2, 3]));
    // A frozen one is loaded and stays frozen.
    to.requires_grad_matching("wte", false).unwrap();
    to.load_state_dict(&from.state_dict()).unwrap();
    assert_eq!((to.wte.value(), to.wte.requires_grad()), (Tensor::ones([2, 3]), false));
}

#[test]
fn strict_names_everything_and_changes_nothing() {
    let mut model = model();
    let before = model.state_dict();
    let mut state = before.clone();
    state.remove("body.0.bias");
    state.remove("steps");
    state.insert("extra", tensor![1.0]);
    state.insert("wte", Tensor::zeros([2, 3]));
    assert_eq!(
        text(&mut model, &state),
        "load_state_dict: missing: body.0.bias, steps; unexpected: extra: rename the entries that are called otherwise, by state.map_names(|name| ..) (load_file gives the state of a file), or use load_state_dict_with(&state, false), or load_with of a file, to leave these out"
    );
    // Where one side alone has names that the other lacks, no other name would help.
    let mut more = before.clone();
    more.insert("extra", tensor![1.0]);
    assert_eq!(
        text(&mut model, &more),
        "load_state_dict: unexpected: extra: use load_state_dict_with(&state, false), or load_with of a file, to leave these out"
    );
    assert_eq!(model.state_dict(), before);
    state.insert("head.weight", Tensor::zeros([3, 2]));
    for strict in [true, false] {
        let e = model.load_state_dict_with(&state, strict).unwrap_err();
        assert_eq!(e.kind(), Kind::Argument);
        let Some(NnFacts::StateDict { report, .. }) = e.facts() else { panic!("{e}") };
        let mismatched = Mismatched {
            name: "head.weight".into(),
            expected: (DType::F32, [2, 3].into()),
            found: (DType::F32, [3, 2].into()),
        };
        let expected = LoadReport {
            missing: vec!["body.0.bias".into(), "steps".into()],
            unexpected: vec!["extra".into()],
            mismatched: vec![mismatched],
        };
        assert_eq!(report, &expected);
        let text = e.with_location(None).to_string();
        assert!(text.contains("; not fitting: head.weight (expected [2, 3], found [3, 2]): "), "{text}");
        assert_eq!(model.state_dict(), before);
    }
    // The last of a variable's names is the one that is kept.
    state.insert("head.weight", Tensor::full([2, 3], 2.0));
    let report = model.load_state_dict_with(&state, false).unwrap();
    // Without a cure, as nothing was refused.
    assert_eq!(report.to_string(), "missing: body.0.bias, steps; unexpected: extra");
    assert_eq!(
        (report.missing.len(), report.unexpected, report.mismatched),
        (2, vec!["extra".into()], vec![])
    );
    assert_eq!(model.wte.value(), Tensor::full([2, 3], 2.0));
    assert_eq!(model.steps.value(), tensor![7; i64]);
}

#[test]
fn numbers_are_converted_or_refused() {
    let mut parts = vec![Buffer::new(tensor![1; i64]), Buffer::new(tensor![1.0])];
    let mut load = |first: Tensor, second: Tensor| {
        let result = parts.load_state_dict(&StateDict::from_iter([("0", first), ("1", second)]));
        result.map(|()| parts.iter().map(Buffer::value).collect::<Vec<_>>())
    };
    let loaded = load(tensor![3.0; f64], tensor![0.1; f64]).unwrap();
    assert_eq!(loaded, [tensor![3; i64], tensor![0.1]]);
    let loaded = load(tensor![true], tensor![5; i64]).unwrap();
    assert_eq!(loaded, [tensor![1; i64], tensor![5.0]]);
    // A list of one number stands for the number, and nothing else does.
    let mut number = Buffer::new(Tensor::scalar(2.0));
    number.load_state_dict(&StateDict::from_iter([("", tensor![3.0])])).unwrap();
    assert_eq!(number.value(), Tensor::scalar(3.0));
    for other in [tensor![1.0, 2.0], tensor![[1.0]]] {
        assert!(number.load_state_dict(&StateDict::from_iter([("", other)])).is_err());
    }
    for (first, second) in [
        (tensor![0.5], tensor![1.0]),
        (tensor![f32::NAN], tensor![1.0]),
        (tensor![f64::INFINITY; f64], tensor![1.0]),
        (tensor![1; i64], tensor![16_777_217; i64]),
    ] {
        assert!(load(first.clone(), second.clone()).is_err(), "{first:?} {second:?}");
    }
    let e = load(tensor![0.5], tensor![1.0]).unwrap_err().with_location(None).to_string();
    assert!(
        e.starts_with(
            "load_state_dict: not fitting: 0 (expected i64, found f32 with numbers it cannot hold): "
        ),
        "{e}"
    );
}

/// Values that share elements, or repeat them, are written to later.
#[test]
fn what_is_loaded_is_compact() {
    let mut layer = Linear::new(3, 2).bias(false);
    let large = Tensor::ones([4, 3]);
    for value in [
        large.narrow(0, 1, 2).unwrap(),
        Tensor::ones([1, 1]).expand([2, 3]).unwrap(),
        Tensor::ones([3, 2]).t(),
    ] {
        layer.load_state_dict(&StateDict::from_iter([("weight", value)])).unwrap();
        layer.weight.update_value(|v| v.add_(1.0).map(drop)).unwrap();
        assert_eq!(layer.weight.value(), Tensor::full([2, 3], 2.0));
    }
    assert_eq!(large, Tensor::ones([4, 3]));
}

#[test]
fn a_parameter_that_is_being_updated_is_refused_before_anything_is_written() {
    let mut model = model();
    let mut state = model.state_dict();
    state.insert("steps", tensor![0; i64]);
    let weight = model.head.weight.clone();
    let result = weight.update_value(|_| model.load_state_dict(&state));
    assert!(result.unwrap_err().to_string().contains("load_state_dict"));
    assert_eq!(model.steps.value(), tensor![7; i64]);
}

#[test]
fn cures() {
    let mut model = sequential![Linear::new(3, 3)];
    let state = model.state_dict();
    let mut load =
        |state: &StateDict| model.load_state_dict(state).unwrap_err().with_location(None).to_string();
    let mut whole = StateDict::new();
    whole.insert_all("module", state.clone());
    assert!(
        load(&whole).ends_with(r#"unexpected: module.0.weight, module.0.bias: load state.part("module")"#)
    );
    whole.insert("steps", tensor![1; i64]);
    assert!(load(&whole).ends_with(r#"load state.part("module")"#));
    assert!(load(&state.part("0")).ends_with(r#"put "0" before the names by insert_all"#));
    let many = (0..300).map(|i| (format!("p{i}"), tensor![0.0])).collect();
    let text = load(&many);
    assert!(text.contains("p0, p1, ") && text.contains(", p99, and 200 more: "), "{text}");
    assert_eq!(LoadReport::default().to_string(), "all names fit");
}
