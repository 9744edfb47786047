//! Long chains and many paths: time is linear, and the stack small.

use foldback_graph::{Function, FunctionContext, GraphWatch, Result, Var};
use foldback_tensor::{Tensor, tensor};

use crate::leaf;

/// A million; a debug build goes a fifth of the way.
const COUNT: usize = if cfg!(debug_assertions) { 200_000 } else { 1_000_000 };

/// Runs on a stack of 2 MiB, as tests do, whatever the main thread has.
fn on_a_small_stack(f: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(2 << 20).spawn(f).unwrap().join().unwrap();
}

/// Passes its input on, as an operation of the user's own.
struct Same;
impl Function for Same {
    fn name(&self) -> &'static str {
        "same"
    }
    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0].clone()])
    }
    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![Some(ctx.grad(0))])
    }
}

#[test]
fn a_chain_of_a_million_nodes() {
    on_a_small_stack(|| {
        let x = leaf(&[1.0]);
        let mut y = &x * 1.0;
        for _ in 0..1_000_000 {
            y = &y + 1.0;
        }
        y.backward().unwrap();
        assert_eq!(x.grad(), Some(tensor![1.0]));
    });
}

#[test]
fn a_chain_of_a_million_nodes_dropped_without_running() {
    on_a_small_stack(|| {
        let x = leaf(&[1.0]);
        let mut y = &x * 1.0;
        for _ in 0..1_000_000 {
            y = &y * 1.0;
        }
        drop(y);
    });
}

/// An operand that is there twice, rows, functions, and both in turn; with weak references to the nodes, too.
#[test]
fn a_chain_of_all_kinds_is_dropped_without_running() {
    on_a_small_stack(|| {
        for watched in [false, true] {
            let _watch = watched.then(GraphWatch::new);
            let x = leaf(&[1.0]);
            let mut y = &x * 1.0;
            for i in 0..COUNT {
                y = match (4 * i / COUNT, i % 2) {
                    (0, _) => &y - &y,
                    (1, _) | (3, 0) => &y + 1.0,
                    _ => Same.call([&y]).unwrap(),
                };
            }
            drop(y);
        }
    });
}

#[test]
fn a_chain_with_skip_links() {
    on_a_small_stack(|| {
        let x = leaf(&[0.0]);
        let (mut old, mut y) = (&x * 1.0, &x * 1.0);
        for i in 0..COUNT {
            let next = if i % 2 == 0 { &y + 1.0 } else { (&y + &old) * 0.5 };
            (old, y) = (y, next);
        }
        y.backward().unwrap();
        assert_eq!(x.grad(), Some(tensor![1.0]));
    });
}

#[test]
fn a_chain_of_user_functions() {
    on_a_small_stack(|| {
        let x = leaf(&[1.0]);
        let mut y = &x * 1.0;
        for _ in 0..COUNT {
            y = Same.call([&y]).unwrap();
        }
        y.backward().unwrap();
        assert_eq!(x.grad(), Some(tensor![1.0]));
    });
}

/// Its backward function captures a variable, so that the graph hangs together by closures.
struct Capturing(Var);
impl Function for Capturing {
    fn name(&self) -> &'static str {
        "capturing"
    }
    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0].clone()])
    }
    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![Some(ctx.grad(0) + self.0.detach() * 0.0)])
    }
}

#[test]
fn a_chain_that_hangs_together_by_closures_is_dropped() {
    on_a_small_stack(|| {
        let x = leaf(&[1.0]);
        let mut y = &x * 1.0;
        for _ in 0..COUNT {
            y = Capturing(y.clone()).call([&y]).unwrap();
        }
        drop(y);
    });
}

#[test]
fn a_ladder_of_diamonds_takes_linear_time() {
    let x = leaf(&[1.0]);
    let mut y = &x * 1.0;
    for _ in 0..40 {
        y = (&y + &y) * 0.5;
    }
    y.backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![1.0]));
}
