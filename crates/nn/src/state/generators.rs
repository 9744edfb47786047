//! The states of layers' own generators, by name.

use foldback_tensor::{DType, Generator, Shape, StateDict, refuse};

use super::report::{LoadReport, Mismatched};
use crate::error::{NnFacts, Result};
use crate::module::{Seen, Visitor, Walk};

/// Calls `see` with every generator and its name.
fn each(walk: Walk<'_>, see: &mut dyn FnMut(String, &foldback_tensor::StateCell<Generator>)) {
    walk.accept(&mut Visitor::new(&mut |path, seen| {
        if let Seen::Generator(cell) = seen {
            let dot = if path.is_empty() { "" } else { "." };
            see(format!("{path}{dot}generator"), cell);
        }
    }));
}

pub(crate) fn generator_states(walk: Walk<'_>) -> StateDict {
    let mut all = Vec::new();
    each(walk, &mut |name, cell| all.push((name, cell.read().get_state())));
    all.into_iter().collect()
}

pub(crate) fn load_generator_states(walk: Walk<'_>, states: &StateDict) -> Result<()> {
    let (mut report, mut ready) = (LoadReport::default(), StateDict::new());
    each(walk, &mut |name, _| match states.get(&name) {
        None => report.missing.push(name),
        Some(state) if Generator::new(0).set_state(state).is_ok() => drop(ready.insert(name, state.clone())),
        Some(state) => report.mismatched.push(Mismatched {
            name,
            expected: (DType::I64, Shape::from(2)),
            found: (state.dtype(), state.shape().clone()),
        }),
    });
    let known = generator_states(walk);
    report.unexpected = states.names().filter(|&name| known.get(name).is_none()).map(str::to_owned).collect();
    if report != LoadReport::default() {
        return refuse(NnFacts::StateDict { op: "load_generator_states", report });
    }
    let mut done = Ok(());
    each(walk, &mut |name, cell| {
        if let (Some(state), Ok(())) = (ready.get(&name), &done) {
            done = cell.update(|generator| generator.set_state(state));
        }
    });
    done
}

#[cfg(test)]
mod tests {
    use foldback_tensor::{Tensor, tensor};

    use super::*;
    use crate::{Dropout, Linear, Module, sequential};

    #[test]
    fn generators_of_a_model_are_found_and_moved() {
        let make = |seed| sequential![Linear::new(2, 2), Dropout::new(0.5).seed(seed), Dropout::new(0.5)];
        let (model, mut other) = (make(1), make(2));
        let x = Tensor::ones([8, 2]);
        model.forward(&x).unwrap();
        let states = model.generator_states();
        assert_eq!(states.names().collect::<Vec<_>>(), ["1.generator"]);
        assert!(model.state_dict().get("1.generator").is_none());
        let before = other.generator_states();
        for bad in [
            StateDict::new(),
            StateDict::from_iter([("1.generator", tensor![1, 2, 3; i64])]),
            StateDict::from_iter([("1.generator", tensor![1.0, 2.0])]),
            states
                .iter()
                .chain([("2.generator", &tensor![1, 2; i64])])
                .map(|(n, t)| (n, t.clone()))
                .collect(),
        ] {
            let text = other.load_generator_states(&bad).unwrap_err().to_string();
            assert!(text.starts_with("load_generator_states: "), "{text}");
            assert_eq!(other.generator_states(), before);
        }
        other.load_generator_states(&states).unwrap();
        assert_eq!(other.generator_states(), states);
    }
}
