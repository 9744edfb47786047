//! What a user's `Drop` broke: a panic left a thread that leaked every later graph, or a leaf whose gradient could never
//! be read again; a `Drop` that looked at a gradient waited for ever.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use foldback_graph::{Backward, Function, FunctionContext, RequiresGrad, Result, Var, WeakVar};
use foldback_tensor::{Tensor, tensor};

fn leaf() -> Var {
    tensor![1.0].requires_grad()
}

/// Does something when dropped.
struct Dropping<F: Fn() + Send + Sync + 'static>(F);
impl<F: Fn() + Send + Sync + 'static> Drop for Dropping<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Owns something.
struct Owning<T>(T);
impl<T: Send + Sync + 'static> Function for Owning<T> {
    fn name(&self) -> &'static str {
        "owning"
    }
    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0].clone()])
    }
    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        let _ = &self.0;
        Ok(vec![Some(ctx.grad(0))])
    }
}

fn owning<T: Send + Sync + 'static>(owned: T, x: &Var) -> Var {
    Owning(owned).call([x]).unwrap()
}

fn explode() {
    panic!("dropped");
}

/// A graph of functions, of which some own the token and one in three panics when it is dropped.
fn mined(token: &Arc<()>) -> Var {
    let mut y = leaf();
    for i in 0..9 {
        y = if i % 3 == 1 { owning(Dropping(explode), &y) } else { owning(token.clone(), &y) };
        let token = token.clone();
        y.register_hook(move |_| {
            let _ = &token;
            None
        })
        .unwrap();
    }
    y
}

#[test]
fn functions_that_panic_when_dropped_take_nothing_with_them() {
    let token = Arc::new(());
    let y = mined(&token);
    let panic = catch_unwind(AssertUnwindSafe(|| drop(y))).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"dropped"));
    assert_eq!(Arc::strong_count(&token), 1, "the rest of the graph is dropped");
    drop(owning(token.clone(), &(leaf() * 1.0)) + 1.0);
    assert_eq!(Arc::strong_count(&token), 1, "and so are later graphs");
}

#[test]
fn a_graph_dropped_by_a_panic_does_not_abort() {
    let token = Arc::new(());
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let _y = mined(&token);
        panic!("first");
    }));
    assert_eq!(panic.unwrap_err().downcast_ref::<&str>(), Some(&"first"));
    assert_eq!(Arc::strong_count(&token), 1);
}

/// A leaf and a result that each keep a gradient whose history, theirs alone, owns something.
struct Kept {
    leaf: Var,
    result: Var,
}

impl Kept {
    fn new(dropped: impl Fn() + Send + Sync + Clone + 'static) -> Kept {
        let x = leaf();
        let y = &x * 1.0;
        y.retain_grad().unwrap();
        let seed = owning(Dropping(dropped), &leaf());
        y.backward_with(Backward::new().seeds(&[&seed]).create_graph(true)).unwrap();
        Kept { leaf: x, result: y }
    }
}

type Action = (&'static str, fn(&Kept));

/// Everything that lets go of gradients. Each forgets both gradients.
const ACTIONS: [Action; 3] = [
    ("zero_grad", |kept| {
        kept.leaf.zero_grad();
        kept.result.zero_grad();
    }),
    ("set_grad", |kept| {
        kept.result.zero_grad();
        kept.leaf.set_grad(None).unwrap();
    }),
    ("a pass without history", |kept| {
        kept.result.backward().unwrap();
        kept.leaf.zero_grad();
        kept.result.zero_grad();
    }),
];

#[test]
fn gradients_that_panic_when_dropped_leave_their_places_usable() {
    for (name, action) in ACTIONS {
        let kept = Kept::new(explode);
        // The leaf's gradient and the result's have one history.
        let panics = (0..4).filter(|_| catch_unwind(AssertUnwindSafe(|| action(&kept))).is_err()).count();
        assert_eq!(panics, 1, "{name}");
        for v in [&kept.leaf, &kept.result] {
            v.zero_grad();
            assert_eq!(v.grad(), None, "{name}");
        }
        kept.result.backward_with(Backward::new().retain_graph(true)).unwrap();
        assert_eq!(kept.leaf.grad(), Some(tensor![1.0]), "{name}");
        assert_eq!(kept.result.grad(), Some(tensor![1.0]), "{name}");
    }
}

/// Looks at a variable in every way that takes a lock.
fn look_at(handle: &WeakVar) {
    if let Some(v) = handle.upgrade() {
        let _ = (v.grad(), v.value());
        v.register_hook(|_| None).unwrap().remove();
        v.zero_grad();
    }
}

#[test]
fn gradients_may_look_at_their_variable_when_dropped() {
    for (name, action) in ACTIONS {
        let x = leaf();
        let seen = Arc::new(std::sync::Mutex::new(Vec::<WeakVar>::new()));
        let watched = seen.clone();
        let kept = Kept::new(move || watched.lock().unwrap().iter().for_each(look_at));
        seen.lock().unwrap().extend([x.downgrade(), kept.leaf.downgrade(), kept.result.downgrade()]);
        action(&kept);
        assert_eq!((kept.leaf.grad(), kept.result.grad()), (None, None), "{name}");
    }
}

#[test]
fn hooks_may_panic_or_look_at_their_variable_when_removed() {
    for v in [leaf(), leaf() * 2.0] {
        let bomb = Dropping(explode);
        let hook = move |_: &Var| {
            let _ = &bomb;
            None
        };
        let handle = v.register_hook(hook).unwrap();
        assert!(catch_unwind(AssertUnwindSafe(|| handle.remove())).is_err());
        let (weak, curious) = (v.downgrade(), v.downgrade());
        let captive = Dropping(move || look_at(&curious));
        let hook = move |_: &Var| {
            let _ = (&captive, &weak);
            None
        };
        v.register_hook(hook).unwrap().remove();
        v.backward().unwrap();
    }
}
