//! What lives: nodes and saved bytes that tests and users can read, and graphs that grow from step to step.

use std::sync::{Mutex, MutexGuard};

use foldback::prelude::*;
use foldback_graph::{GraphFacts, GraphWatch};

/// One test at a time: a watch sees every thread.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(|e| e.into_inner())
}

#[test]
fn what_operations_save() {
    let _turn = alone();
    let (x, c) = (Tensor::ones(256).requires_grad(), Tensor::ones(256));
    let watch = GraphWatch::new();
    let saved = |f: &dyn Fn() -> Result<Var>, bytes: usize| {
        let y = f().unwrap();
        assert_eq!(watch.saved_bytes(), bytes, "{y}");
        drop(y);
        assert_eq!((watch.live_nodes(), watch.saved_bytes()), (0, 0));
    };
    saved(&|| x.add(&x), 0);
    saved(&|| x.sum(..), 0);
    saved(&|| x.mul(2.0), 0);
    saved(&|| x.slice(s![..7]), 0);
    saved(&|| x.mul(&c), 1024);
    saved(&|| x.mul(&x), 1024); // one storage, twice
    saved(&|| x.exp().mul(x.sin()), 3 * 1024); // exp(x) once, for exp and for the product
    saved(&|| x.exp().mul(Tensor::ones(1)), 1024); // a single number is in the node
}

#[test]
fn a_pass_frees_what_was_saved_and_nodes_go_with_their_variables() {
    let _turn = alone();
    let x = Tensor::ones(256).requires_grad();
    let watch = GraphWatch::new();
    let y = x.exp().sum(..).unwrap();
    y.backward_with(Backward::new().retain_graph(true)).unwrap();
    assert_eq!((watch.live_nodes(), watch.saved_bytes()), (2, 1024));
    y.backward().unwrap();
    assert_eq!((watch.live_nodes(), watch.saved_bytes()), (2, 0));
    drop(y);
    assert_eq!(watch.live_nodes(), 0);
}

#[test]
fn what_was_recorded_before_and_what_is_gone_does_not_count() {
    let _turn = alone();
    let x = tensor![1.0].requires_grad();
    let old = x.exp();
    let watch = GraphWatch::new();
    (0..10_000).for_each(|_| drop(x.exp()));
    assert_eq!(watch.live_nodes(), 0);
    let new = &old + 1.0;
    let second = GraphWatch::new();
    assert_eq!((watch.live_nodes(), second.live_nodes()), (1, 0));
    drop(watch);
    let newest = &new + 1.0;
    assert_eq!(second.live_nodes(), 1);
    drop(newest);
}

/// Steps until growth is found, and whose it is.
fn found(mut step: impl FnMut() -> Result<()>) -> (usize, &'static str, u32) {
    for i in 0..10 {
        if let Err(e) = step() {
            match e.facts() {
                Some(GraphFacts::Growing { op, location, .. }) => return (i, op, location.line()),
                _ => panic!("{e}"),
            }
        }
    }
    (10, "nothing", 0)
}

#[test]
fn a_stored_loss_is_found_with_its_line() {
    let _turn = alone();
    let w = tensor![1.0, 2.0].requires_grad();
    let (mut watch, mut losses, line) = (GraphWatch::new(), Vec::new(), line!() + 3);
    let step = || {
        let y = w.exp();
        let loss = y.sum(..)?;
        loss.backward()?;
        losses.push(loss);
        watch.step()
    };
    assert_eq!(found(step), (3, "sum", line));
}

#[test]
fn a_loss_added_up_with_its_history_is_found_with_its_line() {
    let _turn = alone();
    let w = tensor![1.0, 2.0].requires_grad();
    let (mut watch, mut total, line) = (GraphWatch::new(), Var::from(tensor![0.0]), line!() + 4);
    let step = || {
        let loss = w.square().sum(..)?;
        loss.backward()?;
        total = &total + &loss;
        watch.step()
    };
    assert_eq!(found(step), (3, "add", line));
}

#[test]
fn a_state_carried_on_without_detach_is_found() {
    let _turn = alone();
    let w = tensor![0.5].requires_grad();
    let (mut watch, mut state, line) = (GraphWatch::new(), Var::from(tensor![1.0]), line!() + 2);
    let step = || {
        state = (&state * &w).tanh();
        state.backward_with(Backward::new().retain_graph(true))?;
        watch.step()
    };
    assert_eq!(found(step), (3, "tanh", line));
}

#[test]
fn programs_that_keep_values_are_not_accused() {
    let _turn = alone();
    let w = tensor![1.0, 2.0].requires_grad();
    let (mut watch, mut losses, mut state) = (GraphWatch::new(), Vec::new(), Var::from(tensor![1.0]));
    let (sgd, mut last) = (SGD::new([&w], 0.1).momentum(0.9), None);
    let mut window = std::collections::VecDeque::new();
    let step = || {
        sgd.zero_grad();
        let loss = (w.square().sum(..)? * &state).square();
        loss.backward()?;
        sgd.step()?;
        losses.push(loss.item_as::<f32>()?);
        state = (&state * 0.5).detach();
        window.push_back(loss.clone());
        if window.len() > 2 {
            window.pop_front();
        }
        last = Some(loss);
        watch.step()
    };
    assert_eq!(found(step), (10, "nothing", 0));
    assert!(last.is_some());
}
