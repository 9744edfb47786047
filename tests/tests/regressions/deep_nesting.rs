//! Depths that overflowed the stack: passes inside passes, hooks that hold the next variable, gradients with a history
//! in a chain, and graphs that a thread-local variable owned.

use std::cell::RefCell;

use foldback_graph::{
    Backward, Function, FunctionContext, HookHandle, RequiresGrad, Result, Var, detect_anomaly, enable_grad,
    grad_with, is_grad_enabled,
};
use foldback_tensor::{Tensor, tensor};

const DEPTH: usize = 100_000;

fn on_a_small_stack(f: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(2 << 20).spawn(f).unwrap().join().unwrap();
}

fn leaf() -> Var {
    tensor![1.0].requires_grad()
}

/// A leaf whose hook goes backward to another, whose hook does; the last one runs `inmost`.
fn nested_hooks(inmost: impl Fn() + Send + Sync + 'static) -> Var {
    let mut x = leaf();
    x.register_hook(move |_| {
        inmost();
        None
    })
    .unwrap();
    for _ in 1..DEPTH {
        let inner = std::mem::replace(&mut x, leaf());
        x.register_hook(move |_| {
            assert!(!is_grad_enabled());
            enable_grad(|| (&inner * 2.0).backward()).unwrap();
            None
        })
        .unwrap();
    }
    x
}

#[test]
fn hooks_that_go_backward() {
    on_a_small_stack(|| {
        let bottom = leaf();
        let seen = bottom.clone();
        let x = nested_hooks(move || enable_grad(|| seen.square().backward()).unwrap());
        (&x * 3.0).backward().unwrap();
        assert_eq!(x.grad(), Some(tensor![3.0]));
        assert_eq!(bottom.grad(), Some(tensor![2.0]));
    });
}

#[test]
fn a_panic_comes_back_from_any_depth() {
    on_a_small_stack(|| {
        let x = nested_hooks(|| panic!("at the bottom"));
        let pass = std::panic::AssertUnwindSafe(|| (&x * 3.0).backward());
        let panic = std::panic::catch_unwind(pass).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"at the bottom"));
        assert_eq!(x.grad(), None);
    });
}

/// Goes backward to a variable of its own on its way back.
struct Nested(Var);
impl Function for Nested {
    fn name(&self) -> &'static str {
        "nested"
    }
    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0].clone()])
    }
    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        self.0.backward()?;
        Ok(vec![Some(ctx.grad(0))])
    }
}

#[test]
fn functions_that_go_backward() {
    on_a_small_stack(|| {
        let x = leaf();
        let mut y = &x * 5.0;
        for _ in 0..DEPTH {
            y = Nested(y).call([&leaf()]).unwrap();
        }
        y.backward().unwrap();
        assert_eq!(x.grad(), Some(tensor![5.0]));
    });
}

/// A variable whose hook holds the variable whose hook holds ...
fn chain_of_hooks() -> Var {
    let mut x = leaf();
    for _ in 0..DEPTH {
        let inner = std::mem::replace(&mut x, leaf());
        x.register_hook(move |_| {
            let _ = &inner;
            None
        })
        .unwrap();
    }
    x
}

#[test]
fn a_chain_of_hooks_is_dropped() {
    on_a_small_stack(|| {
        let x = chain_of_hooks();
        let bottom = leaf();
        let handle = bottom.downgrade();
        let removed = x.register_hook(move |_| Some(&bottom * 1.0)).unwrap();
        removed.remove();
        assert!(handle.upgrade().is_none());
        drop(x);
    });
}

#[test]
fn a_chain_of_recorded_gradients_is_dropped() {
    on_a_small_stack(|| {
        let (mut x, bottom) = (leaf(), leaf().downgrade());
        assert!(bottom.upgrade().is_none());
        let bottom = x.downgrade();
        for _ in 0..DEPTH {
            let inner = std::mem::replace(&mut x, leaf());
            (&x * 1.0).backward_with(Backward::new().seeds(&[&inner]).create_graph(true)).unwrap();
        }
        x.zero_grad();
        assert!(bottom.upgrade().is_none());

        let mut y = leaf() * 1.0;
        let bottom = y.downgrade();
        for _ in 0..DEPTH {
            let inner = std::mem::replace(&mut y, leaf() * 1.0);
            y.retain_grad().unwrap();
            y.backward_with(Backward::new().inputs([&y]).seeds(&[&inner]).create_graph(true)).unwrap();
        }
        drop(y);
        assert!(bottom.upgrade().is_none());
    });
}

/// Holds a variable.
struct Holding(#[expect(dead_code)] Var);
impl Function for Holding {
    fn name(&self) -> &'static str {
        "holding"
    }
    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0].clone()])
    }
    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![Some(ctx.grad(0))])
    }
}

#[test]
fn a_graph_that_a_thread_local_owned_is_dropped() {
    thread_local! {
        static GRAPHS: RefCell<Vec<Var>> = const { RefCell::new(Vec::new()) };
    }
    let (send, handles) = std::sync::mpsc::channel();
    on_a_small_stack(move || {
        // Registered first, so that it is dropped last.
        GRAPHS.with_borrow_mut(|g| g.push(leaf()));
        let x = leaf();
        let (mut y, mut held) = (&x * 1.0, leaf());
        for _ in 0..DEPTH {
            y = &y + 1.0;
            held = Holding(held).call([&leaf()]).unwrap();
        }
        send.send(x.downgrade()).unwrap();
        GRAPHS.with_borrow_mut(|g| g.extend([y, held, chain_of_hooks()]));
    });
    assert!(handles.recv().unwrap().upgrade().is_none());
}

/// Anomaly mode notes of each derivative what it is the derivative of: the list was dropped by recursion.
#[test]
fn derivatives_of_derivatives_end_without_recursion() {
    on_a_small_stack(|| {
        detect_anomaly(|| {
            let w = tensor![1.0].requires_grad();
            let mut s = tensor![1.0].requires_grad();
            let mut g = &w * &s;
            for _ in 0..DEPTH {
                let next = tensor![1.0].requires_grad();
                g = grad_with(&g, &s, Backward::new().seed(&next).create_graph(true)).unwrap();
                s = next;
            }
        });
    });
}

/// A hook that takes another one away when it is dropped, and so on.
#[test]
fn hooks_that_remove_each_other_end_without_recursion() {
    struct Removes(Option<HookHandle>);
    impl Drop for Removes {
        fn drop(&mut self) {
            if let Some(handle) = self.0.take() {
                handle.remove();
            }
        }
    }
    on_a_small_stack(|| {
        let x = tensor![1.0].requires_grad();
        let (mut y, mut last) = (&x * 1.0, None);
        for _ in 0..DEPTH {
            y = &y + 1.0;
            let removes = Removes(last.take());
            let hook = move |_: &Var| {
                let _ = &removes;
                None
            };
            last = Some(y.register_hook(hook).unwrap());
        }
        last.unwrap().remove();
        drop(y);
    });
}
