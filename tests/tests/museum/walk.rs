//! The walk over the graph, and what happens beside it.

use foldback_graph::{
    Backward, Error, Function, FunctionContext, Grad, RequiresGrad, Result, Var, backward, grad, grad_with,
    is_grad_enabled, no_grad,
};
use foldback_tensor::{Tensor, tensor};
use tests::steal;

use crate::{all, same};

/// Must not be asked for a gradient.
struct NeverBack;

impl Function for NeverBack {
    fn name(&self) -> &'static str {
        "never_back"
    }
    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0].clone(), inputs[0] * 2.0])
    }
    fn backward(&self, _: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        Err(Error::other("was run"))
    }
}

// The count of dependencies included consumers that the pass never reaches, and the node waited for ever.
#[test]
fn untracked_branches_do_not_block() {
    let x = tensor![2.0].requires_grad();
    let shared = x.square();
    // consumers of `shared` that the root does not see: a dead branch, a detached one, one in no_grad
    let dead: [Var; 2] = NeverBack.apply([&shared]).unwrap();
    let detached = shared.detach() * 3.0;
    let unrecorded = no_grad(|| &shared * 5.0);
    let y = &shared * &detached + unrecorded;
    y.backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![48.0]));
    drop(dead);
    // the same under grad() from the middle, past an unused output of several
    let x = tensor![2.0].requires_grad();
    let mid = x.square();
    let [_, out] = NeverBack.apply([&mid]).unwrap();
    let y = &mid * 3.0 + &out * 1.0;
    assert_eq!(grad(&y, &[&y]).unwrap()[0].value(), tensor![1.0]);
    let y = (&mid * 3.0) * &x;
    let g = Grad::new([&y], [&mid]).run().unwrap();
    assert_eq!(g[0].as_ref().unwrap().value(), tensor![6.0]);
    assert_eq!(x.grad(), None);
}

// The flag "do not record" of a thread that waited in a parallel section fell on the task that it ran meanwhile.
#[test]
fn a_stolen_task_records() {
    let x = tensor![1.0, 2.0].requires_grad();
    let leaf = x.clone();
    let (enabled, recorded, gradient) = steal::run_inside(
        move |section| {
            no_grad(|| {
                section.enter();
                assert!(!is_grad_enabled(), "the mode is back behind the section");
                assert!(!(&x * 2.0).requires_grad());
            });
            assert!(is_grad_enabled());
        },
        move || {
            let y = &leaf * &leaf;
            let recorded = y.requires_grad();
            (is_grad_enabled(), recorded, y.backward_with(&tensor![1.0, 10.0]).map(|()| leaf.grad().unwrap()))
        },
    );
    assert!(enabled && recorded);
    assert_eq!(gradient.unwrap(), tensor![2.0, 40.0]);
}

// The other way round: a task that steps in a no_grad of its own must leave the section's owner recording.
#[test]
fn a_stolen_task_leaves_the_mode_as_it_was() {
    let x = tensor![3.0].requires_grad();
    steal::run_inside(
        move |section| {
            section.enter();
            assert!(is_grad_enabled() && (&x * 2.0).requires_grad());
        },
        || no_grad(|| assert!(!is_grad_enabled())),
    );
}

// Libraries that walked paths instead of nodes did not come back.
#[test]
fn as_many_paths_as_two_to_the_forty() {
    let x = tensor![1.0; f64].requires_grad();
    let mut y = &x * 1.0;
    for _ in 0..40 {
        y = &y + &y;
    }
    let paths = tensor![(1u64 << 40) as f64; f64];
    y.backward().unwrap();
    assert_eq!(x.grad(), Some(paths.clone()));
    // different nodes on the two sides of a diamond, a pass limited to one input, and one that records itself
    let mut y = &x * 1.0;
    for _ in 0..40 {
        y = y.neg().rsub(0.0).unwrap() + y.relu();
    }
    let first = grad_with(&y, &x, Backward::new().create_graph(true)).unwrap();
    assert_eq!(first.value(), paths);
}

// Limiting a pass to some inputs searched the graph by recursion.
#[test]
fn a_long_chain_to_one_input() {
    let run = || {
        let (x, w) = (tensor![1.0; f64].requires_grad(), tensor![1.0; f64].requires_grad());
        let mut y = &x * 1.0;
        for _ in 0..300_000 {
            y = &y + &w;
        }
        assert_eq!(
            Grad::new([&y], [&w]).retain_graph(true).run().unwrap()[0].as_ref().unwrap().value(),
            tensor![3e5; f64]
        );
        y.backward_with(Backward::new().inputs([&x])).unwrap();
        assert_eq!((x.grad(), w.grad()), (Some(tensor![1.0; f64]), None));
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
}

// What was saved was the buffer itself, so a step before the backward pass changed its result.
#[test]
fn a_leaf_changed_after_forward() {
    let change: [fn(&mut Var); 5] = [
        |x| no_grad(|| x.mul_(100.0).map(drop)).unwrap(),
        |x| no_grad(|| x.slice_assign((.., 0), tensor![7.0, 7.0]).map(drop)).unwrap(),
        |x| x.set_value(Tensor::zeros([2, 2])).unwrap(),
        |x| x.update_value(|v| v.add_(1.0).map(|_| ())).unwrap(),
        |x| {
            let other = x.clone();
            other
                .update_value(|v| {
                    v.fill_(-1.0).unwrap();
                    Ok(())
                })
                .unwrap()
        },
    ];
    for change in change {
        let mut x = tensor![[1.0, 2.0], [3.0, 4.0]].requires_grad();
        // values saved as they are, as a view, and as the operand of a product
        let y = x.square() + x.t().matmul(&x).unwrap() + x.slice(0).unwrap() * &x;
        change(&mut x);
        assert_ne!(x.value(), tensor![[1.0, 2.0], [3.0, 4.0]]);
        all(&y).backward().unwrap();
        // 2x; twice the row sums; row 0, and for row 0 the column sums besides
        let want =
            tensor![[2.0 + 6.0 + 1.0 + 4.0, 4.0 + 6.0 + 2.0 + 6.0], [6.0 + 14.0 + 1.0, 8.0 + 14.0 + 2.0]];
        same(&x.grad().unwrap(), want);
    }
}

// The gradients of shared leaves were added up without a lock.
#[test]
fn concurrent_passes_share_leaves() {
    let x = tensor![[1.0, 2.0], [3.0, 4.0]; f64].requires_grad();
    let w = tensor![1.0, 2.0; f64].requires_grad();
    std::thread::scope(|scope| {
        for k in 1..=4 {
            let (x, w) = (&x, &w);
            scope.spawn(move || {
                for _ in 0..100 {
                    let y = (x * w + w * w) * k;
                    backward([&all(&y)], Backward::new().retain_graph(true)).unwrap();
                }
            });
        }
    });
    // 100 passes each of weight 1 + 2 + 3 + 4
    same(&x.grad().unwrap(), tensor![[1.0, 2.0], [1.0, 2.0]; f64] * 1000.0);
    same(&w.grad().unwrap(), tensor![4.0 + 4.0, 6.0 + 8.0; f64] * 1000.0);
}
