//! What PyTorch's own tests assert of its engine, as it applies here: a test per behaviour, named after it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use foldback_graph::{
    Backward, Error, Function, FunctionContext, Grad, GraphFacts, Kind, RequiresGrad, Result, Var, backward,
    enable_grad, grad, grad_with, is_grad_enabled, no_grad,
};
use foldback_tensor::{DType, Tensor, refused, s, tensor};

fn leaf(values: &[f32]) -> Var {
    Tensor::from_slice(values, [values.len()]).unwrap().requires_grad()
}

/// Runs on a stack of 2 MiB, as tests do, whatever the main thread has.
fn on_a_small_stack(f: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(2 << 20).spawn(f).unwrap().join().unwrap();
}

// Shapes and dtypes of gradients

#[test]
fn empty_broadcast_gives_zeros_not_an_error() {
    let a = Tensor::zeros([4, 0]).requires_grad();
    let b = Tensor::ones([4, 1]).requires_grad();
    (&a + &b).sum(..).unwrap().backward().unwrap();
    assert_eq!(a.grad().unwrap().dims(), [4, 0]);
    assert_eq!(b.grad(), Some(Tensor::zeros([4, 1])));
}

#[test]
fn seed_of_another_shape_is_an_error() {
    let y = leaf(&[1.0, 2.0]) * 2.0;
    let error = y.backward_with(&tensor![1.0]).unwrap_err().with_location(None).to_string();
    let text = "the seed of output 0 has shape [1], the output [2]: a seed has the shape of its output";
    assert_eq!(error, text);
}

#[test]
fn where_broadcasts_three_ways_to_second_order() {
    let cond = Tensor::arange(125).reshape([5, 5, 5]).unwrap().pow(2).unwrap();
    let cond = Var::from(cond.slice((.., 0..1, ..)).unwrap().gt(3000).unwrap());
    let x = Tensor::linspace_with(-1.0, 1.0, 25, DType::F64).reshape([5, 5, 1]).unwrap().requires_grad();
    let number = Tensor::from(2.0).requires_grad();
    let y = cond.where_cond(&(&x * &x * &x), &number).unwrap();
    assert_eq!(y.shape(), [5, 5, 5]);
    let total = y.sum(..).unwrap();
    let first = Grad::new(&[&total], &[&x, &number]).create_graph(true).run().unwrap();
    let (gx, gn) = (first[0].clone().unwrap(), first[1].clone().unwrap());
    assert_eq!((gx.shape(), gn.shape()), (x.shape(), number.shape()));
    let taken = cond.value().to(DType::F64).sum(..).unwrap().item_as::<f64>().unwrap() * 5.0;
    assert_eq!(gn.value().item_as::<f64>().unwrap(), 125.0 - taken);
    let second = grad(gx.sum(..).unwrap(), &x).unwrap();
    let per_row = cond.value().to(DType::F64).sum([1, 2]).unwrap();
    let want = x.value() * 6.0 * per_row.reshape([5, 1, 1]).unwrap();
    foldback_tensor::assert_close!(second.value(), want);
}

#[test]
fn a_value_assigned_into_a_row_gets_a_gradient_of_its_own_shape() {
    let v = leaf(&[1.0, 2.0, 3.0, 4.0]);
    let base = Tensor::zeros([3, 4]).requires_grad();
    let mut x = &base * 1.0;
    x.slice_assign(1, &v).unwrap();
    (&x * &x).sum(..).unwrap().backward().unwrap();
    assert_eq!(v.grad(), Some(tensor![2.0, 4.0, 6.0, 8.0]));
    assert_eq!(base.grad(), Some(Tensor::zeros([3, 4])));
}

#[test]
fn strided_seeds_and_operands_leave_dense_gradients() {
    let base = Tensor::arange_with(0..6, 1, DType::F32).reshape([2, 3]).unwrap();
    for seed in [
        tensor![2.0].expand([3, 2]).unwrap(),
        base.t(),
        Tensor::arange_with(0..24, 1, DType::F32).reshape([6, 4]).unwrap().slice(s![..;2, ..;2]).unwrap(),
    ] {
        let x = base.clone().requires_grad();
        let y = x.t() * 3.0;
        y.backward_with(&seed).unwrap();
        let g = x.grad().unwrap();
        assert!(g.is_contiguous());
        assert_eq!(g, seed.t() * 3.0);
    }
}

#[test]
fn a_cast_and_back_keeps_the_leafs_dtype() {
    let x = leaf(&[1.0, 2.0]);
    let y = x.to(DType::F64).square().to(DType::F32);
    y.sum(..).unwrap().backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![2.0, 4.0]));
}

#[test]
fn only_floats_require_gradients() {
    assert!(Var::leaf(tensor![1; i64]).is_err());
    assert!(Var::leaf(tensor![true; bool]).is_err());
    let x = leaf(&[1.0, 2.0]);
    assert!(!x.gt(1.5).unwrap().requires_grad());
    assert!(!x.to(DType::I64).requires_grad());
    assert_eq!(x.argmax(0).unwrap().dtype(), DType::I64);
}

#[test]
fn setting_a_gradient_of_another_shape_or_dtype_is_an_error() {
    let x = leaf(&[1.0, 2.0]);
    assert!(x.set_grad(Some(tensor![1.0])).is_err());
    assert!(x.set_grad(Some(tensor![1.0, 2.0; f64])).is_err());
    x.set_grad(Some(tensor![1.0, 2.0])).unwrap();
    assert_eq!(x.grad(), Some(tensor![1.0, 2.0]));
    assert!((&x * 2.0).set_grad(None).is_err());
}

// Leaves and tracking

#[test]
fn an_output_requires_a_gradient_iff_some_input_does() {
    let (x, c) = (leaf(&[1.0]), Var::from(tensor![1.0]));
    assert!((&x * &c).requires_grad());
    assert!(!(&c * &c).requires_grad());
    let ran = Arc::new(AtomicUsize::new(0));
    let counter = ran.clone();
    assert!(
        c.register_hook(move |_| {
            counter.fetch_add(1, Ordering::SeqCst);
        })
        .is_err()
    );
    (&x * &c).backward().unwrap();
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

#[test]
fn requires_grad_can_be_turned_off_on_leaves_only() {
    let mut x = leaf(&[1.0]);
    assert!((&x * 2.0).requires_grad_(false).is_err());
    x.requires_grad_(false).unwrap();
    assert!(!(&x * 2.0).requires_grad());
}

#[test]
fn a_deep_copy_of_a_leaf_is_another() {
    let mut x = leaf(&[1.0, 2.0]);
    x.set_grad(Some(tensor![1.0, 1.0])).unwrap();
    let copy = x.deep_copy();
    assert!(!copy.is_same(&x) && copy.is_leaf() && copy.requires_grad() && copy.grad().is_none());
    no_grad(|| x.add_(1.0)).unwrap();
    assert_eq!((x.value(), copy.value()), (tensor![2.0, 3.0], tensor![1.0, 2.0]));
    x.requires_grad_(false).unwrap();
    let frozen = x.deep_copy();
    assert!(!frozen.requires_grad() && copy.requires_grad());
    let y = &copy * 2.0;
    assert!(y.deep_copy().is_same(&y));
    assert!(!Var::from(tensor![1, 2; i64]).deep_copy().requires_grad());
}

#[test]
fn in_place_on_a_tracked_leaf_needs_no_grad() {
    let mut x = leaf(&[1.0, 2.0]);
    assert!(refused!(x.add_(1.0), GraphFacts::LeafInPlace { .. }));
    assert_eq!(x.value(), tensor![1.0, 2.0]);
    no_grad(|| x.add_(1.0)).unwrap();
    assert_eq!(x.value(), tensor![2.0, 3.0]);
    assert!(x.is_leaf() && x.requires_grad());
}

#[test]
fn in_place_on_a_result_records_and_rebinds_the_handle() {
    let x = leaf(&[3.0]);
    let mut y = &x * 2.0;
    let old = y.clone();
    y.retain_grad().unwrap();
    y.mul_(&x).unwrap();
    y.sum(..).unwrap().backward().unwrap();
    assert_eq!(y.value(), tensor![18.0]);
    assert_eq!(old.value(), tensor![6.0]);
    assert_eq!(x.grad(), Some(tensor![12.0]));
    assert_eq!(old.grad(), Some(tensor![3.0]), "the older value keeps its own");
    assert_eq!(y.grad(), Some(tensor![1.0]), "retain_grad holds for the new value, too");
}

#[test]
fn writing_tracked_values_into_an_untracked_tensor_makes_it_tracked() {
    let v = leaf(&[2.0, 3.0]);
    let mut x = Var::from(tensor![1.0, 1.0]);
    x.add_(&v).unwrap();
    assert!(x.requires_grad());
    x.square().sum(..).unwrap().backward().unwrap();
    assert_eq!(v.grad(), Some(tensor![6.0, 8.0]));
}

#[test]
fn in_place_results_keep_shape_and_category() {
    let mut y = leaf(&[1.0]) * 1.0;
    let before = y.value();
    assert!(y.add_(&tensor![1.0, 2.0]).is_err());
    let mut i = Var::from(tensor![1; i64]);
    assert!(i.add_(0.5).is_err());
    assert_eq!((y.value(), i.value()), (before, tensor![1; i64]));
}

#[test]
fn mutation_after_saving_never_changes_a_gradient() {
    let mut x = leaf(&[3.0]);
    let y = x.square();
    no_grad(|| x.mul_(100.0)).unwrap();
    y.backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![6.0]));
}

#[test]
fn detach_blocks_the_gradient() {
    let x = leaf(&[3.0]);
    let y = x.square().detach() * &x;
    y.backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![9.0]));
}

#[test]
fn the_grad_of_a_result_needs_retain_grad() {
    let x = leaf(&[1.0]);
    let y = &x * 2.0;
    let z = &y * 3.0;
    z.retain_grad().unwrap();
    (&z * 4.0).backward().unwrap();
    assert_eq!(y.grad(), None);
    assert_eq!(z.grad(), Some(tensor![4.0]));
}

#[test]
fn debug_output_shows_where_a_variable_comes_from() {
    let x = leaf(&[1.0]);
    assert!(format!("{x:?}").ends_with(", requires_grad=true)"));
    assert!(format!("{:?}", &x * &x).contains("grad_fn=<mul"));
    assert!(!format!("{:?}", x.detach()).contains("grad"));
}

// backward

#[test]
fn a_root_that_is_no_number_needs_a_seed() {
    assert!(refused!((leaf(&[1.0, 2.0]) * 1.0).backward(), GraphFacts::NotScalar { .. }));
}

#[test]
fn a_root_without_history_is_an_error() {
    assert!(refused!(Var::from(tensor![1.0]).backward(), GraphFacts::NoGraph { index: 0 }));
}

#[test]
fn several_roots_all_count() {
    let x = leaf(&[2.0]);
    let y = x.square();
    backward(&[&y, &y], Backward::new()).unwrap();
    assert_eq!(x.grad(), Some(tensor![8.0]), "the same root twice doubles");
    x.zero_grad();
    let y = x.square();
    let z = &y * 3.0;
    backward(&[&y, &z], Backward::new().seeds(&[&Var::from(tensor![10.0]), &Var::from(tensor![1.0])]))
        .unwrap();
    assert_eq!(x.grad(), Some(tensor![52.0]), "a root that another depends on");
    assert!(refused!(z.backward_with(Backward::new().seeds([] as [Var; 0])), GraphFacts::SeedCount { .. }));
    assert!(refused!(backward([] as [Var; 0], Backward::new()), GraphFacts::Empty { .. }));
}

#[test]
fn backward_limited_to_inputs() {
    let (x, w, unused) = (leaf(&[2.0]), leaf(&[5.0]), leaf(&[1.0]));
    let y = &x * &w;
    let z = y.square();
    z.backward_with(Backward::new().inputs(&[&x, &y, &unused])).unwrap();
    assert_eq!(x.grad(), Some(tensor![100.0]));
    assert_eq!(y.grad(), Some(tensor![20.0]), "results get a gradient, too");
    assert_eq!(w.grad(), None);
    assert_eq!(unused.grad(), None);
    assert!(refused!(z.backward_with(Backward::new().inputs([] as [Var; 0])), GraphFacts::Empty { .. }));
}

#[test]
fn buffers_are_summed_without_aliasing() {
    let (a, b) = (leaf(&[1.0, 1.0]), leaf(&[1.0, 1.0]));
    let seed = tensor![1.0, 2.0];
    let y = &a + &b;
    y.backward_with(&seed).unwrap();
    assert_eq!(seed, tensor![1.0, 2.0]);
    let mut first = a.grad().unwrap();
    first.mul_(100.0).unwrap();
    assert_eq!(b.grad(), Some(tensor![1.0, 2.0]));
    assert_eq!(a.grad(), Some(tensor![1.0, 2.0]));
    // and a second pass adds to one without touching the other
    (&a * 1.0).backward_with(&seed).unwrap();
    assert_eq!(a.grad(), Some(tensor![2.0, 4.0]));
    assert_eq!(b.grad(), Some(tensor![1.0, 2.0]));
    assert_eq!(seed, tensor![1.0, 2.0]);
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

#[test]
fn a_chain_with_skip_links() {
    on_a_small_stack(|| {
        let x = leaf(&[0.0]);
        let (mut old, mut y) = (&x * 1.0, &x * 1.0);
        for i in 0..200_000 {
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
        for _ in 0..200_000 {
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
        for _ in 0..200_000 {
            y = Capturing(y.clone()).call([&y]).unwrap();
        }
        drop(y);
    });
}

#[test]
fn one_used_output_of_several() {
    let x = tensor![[1.0, 5.0], [7.0, 2.0]].requires_grad();
    let (values, _) = x.max_with_indices(1).unwrap();
    values.slice(0).unwrap().backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![[0.0, 1.0], [0.0, 0.0]]));
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

/// Fails on its way back.
struct Failing;
impl Function for Failing {
    fn name(&self) -> &'static str {
        "failing"
    }
    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0].clone()])
    }
    fn backward(&self, _: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        Err(Error::other("no way back"))
    }
}

#[test]
fn a_failed_pass_leaves_gradients_unchanged_and_the_users_error_as_it_was() {
    let (x, w) = (leaf(&[1.0]), leaf(&[2.0]));
    w.set_grad(Some(tensor![7.0])).unwrap();
    let y = Failing.call([&x]).unwrap();
    let z = &y + &(&w * 3.0);
    let error = z.backward().unwrap_err();
    assert_eq!(error.kind(), Kind::User);
    assert_eq!(error.to_string(), "no way back");
    assert_eq!(x.grad(), None);
    assert_eq!(w.grad(), Some(tensor![7.0]));
}

// Accumulation and lifetime

#[test]
fn a_second_backward_adds() {
    let x = leaf(&[2.0]);
    x.square().backward().unwrap();
    let first = x.grad().unwrap();
    x.square().backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![8.0]));
    assert_eq!(first, tensor![4.0], "what was read before is a value");
}

#[test]
fn backward_twice_needs_retain_graph_where_values_were_saved() {
    let x = leaf(&[2.0]);
    let y = x.square();
    y.backward().unwrap();
    let error = y.backward().unwrap_err();
    assert!(matches!(error.facts(), Some(GraphFacts::Freed { .. })));
    assert!(error.to_string().contains("retain_graph"), "{error}");
    let z = &x + 1.0;
    z.backward().unwrap();
    z.backward().unwrap();
    let y = x.square();
    y.backward_with(Backward::new().retain_graph(true)).unwrap();
    y.backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![14.0]));
}

#[test]
fn no_cycle_keeps_a_graph_alive() {
    let x = leaf(&[0.5]);
    let y = x.tanh();
    let weak = y.downgrade();
    let z = y.exp();
    let first = grad_with(&z, &x, Backward::new().create_graph(true)).unwrap();
    let weak_first = first.downgrade();
    let handle = x.downgrade();
    x.register_hook(move |g| handle.upgrade().map(|x| g + x.detach() * 0.0)).unwrap();
    drop((y, z));
    assert!(weak.upgrade().is_some(), "the gradient's graph still needs it");
    drop(first);
    assert!(weak.upgrade().is_none() && weak_first.upgrade().is_none());
    let weak_leaf = x.downgrade();
    drop(x);
    assert!(weak_leaf.upgrade().is_none());
}

// grad()

#[test]
fn grad_of_first_and_second_order_leaves_grad_untouched() {
    let x = Tensor::from(0.7).requires_grad();
    let y = x.sin() * &x;
    let first = grad_with(&y, &x, Backward::new().create_graph(true)).unwrap();
    let second = grad_with(&first, &x, Backward::new().create_graph(true)).unwrap();
    let third = grad(&second, &x).unwrap();
    let (s, c) = (0.7f64.sin(), 0.7f64.cos());
    for (got, want) in [(first, c * 0.7 + s), (second, 2.0 * c - s * 0.7), (third, -3.0 * s - 0.7 * c)] {
        assert!((got.value().item_as::<f64>().unwrap() - want).abs() < 1e-12);
    }
    assert_eq!(x.grad(), None);
}

#[test]
fn grad_of_results_repeatedly() {
    let x = leaf(&[2.0]);
    let y = x.square();
    let z = y.square();
    for _ in 0..2 {
        let g = Grad::new(&[&z], &[&y, &x]).retain_graph(true).run().unwrap();
        assert_eq!(g[0].as_ref().unwrap().value(), tensor![8.0]);
        assert_eq!(g[1].as_ref().unwrap().value(), tensor![32.0]);
    }
    let g = grad(&z, &z).unwrap();
    assert_eq!(g.value(), tensor![1.0], "the gradient of a root is its seed");
}

#[test]
fn an_unused_input_is_an_error_none_or_zeros() {
    let (x, unused) = (leaf(&[2.0]), leaf(&[1.0, 1.0]));
    let y = x.square();
    let run = |g: Grad| g.retain_graph(true).run();
    assert!(refused!(run(Grad::new(&[&y], &[&x, &unused])), GraphFacts::Unused { index: 1 }));
    let g = run(Grad::new(&[&y], &[&x, &unused]).allow_unused(true)).unwrap();
    assert!(g[1].is_none());
    let g = run(Grad::new(&[&y], &[&x, &unused]).materialize_grads(true)).unwrap();
    assert_eq!(g[1].as_ref().unwrap().value(), tensor![0.0, 0.0]);
    assert!(refused!(Grad::new(&y, [&x; 0]).run(), GraphFacts::Empty { .. }));
    assert!(refused!(Grad::new(&[&y], &[&x.detach()]).run(), GraphFacts::InputWithoutGrad { .. }));
}

#[test]
fn nodes_off_the_path_are_not_run() {
    let (x, w) = (leaf(&[1.0]), leaf(&[1.0]));
    let y = Failing.call([&w]).unwrap() + &x;
    assert_eq!(grad(&y, &[&x]).unwrap()[0].value(), tensor![1.0]);
}

// Hooks

#[test]
fn hooks_see_replace_and_can_be_removed_in_order() {
    let x = leaf(&[1.0]);
    let y = &x * 2.0;
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |name: &'static str| {
        let order = order.clone();
        move |g: &Var| {
            order.lock().unwrap().push((name, g.value().item_as::<f32>().unwrap()));
            Some(g * 10.0)
        }
    };
    let first = y.register_hook(note("first")).unwrap();
    y.register_hook(note("second")).unwrap();
    y.retain_grad().unwrap();
    (&y * 3.0).backward().unwrap();
    assert_eq!(*order.lock().unwrap(), [("first", 3.0), ("second", 30.0)]);
    assert_eq!(y.grad(), Some(tensor![300.0]), "retain_grad sees what the hooks left");
    assert_eq!(x.grad(), Some(tensor![600.0]));
    first.remove();
    order.lock().unwrap().clear();
    let caught = grad(&(&y * 1.0), &x).unwrap();
    assert_eq!(*order.lock().unwrap(), [("second", 1.0)]);
    assert_eq!(caught.value(), tensor![20.0], "also under grad()");
}

#[test]
fn a_hook_that_changes_shape_or_dtype_is_an_error() {
    for wrong in [tensor![1.0, 2.0], tensor![1.0; f64]] {
        let x = leaf(&[1.0]);
        x.set_grad(Some(tensor![5.0])).unwrap();
        x.register_hook(move |_| Some(Var::from(&wrong))).unwrap();
        assert!(refused!((&x * 2.0).backward(), GraphFacts::Assigned { .. }));
        assert_eq!(x.grad(), Some(tensor![5.0]));
    }
}

#[test]
fn a_hook_may_itself_go_backward() {
    let x = leaf(&[3.0]);
    let y = &x * 2.0;
    let inner = leaf(&[5.0]);
    let seen = inner.clone();
    y.register_hook(move |_| {
        enable_grad(|| seen.square().backward()).unwrap();
        None
    })
    .unwrap();
    y.backward().unwrap();
    assert_eq!(inner.grad(), Some(tensor![10.0]));
    assert_eq!(x.grad(), Some(tensor![2.0]));
}

// Modes

#[test]
fn modes_nest_restore_and_belong_to_their_thread() {
    assert!(is_grad_enabled());
    no_grad(|| {
        assert!(!is_grad_enabled());
        enable_grad(|| assert!(is_grad_enabled()));
        assert!(!is_grad_enabled());
        std::thread::scope(|s| s.spawn(|| assert!(is_grad_enabled())).join().unwrap());
    });
    assert!(is_grad_enabled());
    let panicked = std::panic::catch_unwind(|| no_grad(|| panic!("inside")));
    assert!(panicked.is_err() && is_grad_enabled());
}

// User functions

/// Two outputs; the gradient of the second input is None, and there is a surplus None.
struct SumAndProduct;
impl Function for SumAndProduct {
    fn name(&self) -> &'static str {
        "sum_and_product"
    }
    fn saves_inputs(&self) -> bool {
        true
    }
    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0] + inputs[1], inputs[0] * inputs[1]])
    }
    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        let (sum, product) = (ctx.grad(0), ctx.grad(1));
        Ok(vec![Some(sum + product * ctx.input(1)), None, None])
    }
}

#[test]
fn user_functions_with_several_outputs_and_missing_gradients() {
    let (a, b) = (leaf(&[2.0]), leaf(&[5.0]));
    let [_, product] = SumAndProduct.apply([&a, &b]).unwrap();
    product.backward().unwrap();
    assert_eq!(a.grad(), Some(tensor![5.0]), "the unused output's gradient is zeros");
    assert_eq!(b.grad(), None);
}

/// Has no second derivative.
struct Once;
impl Function for Once {
    fn name(&self) -> &'static str {
        "once"
    }
    fn once_differentiable(&self) -> bool {
        true
    }
    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0] * 2.0])
    }
    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![Some(ctx.grad(0) * 2.0)])
    }
}

#[test]
fn a_once_differentiable_function_refuses_a_second_derivative() {
    let x = leaf(&[1.0]);
    let y = Once.call([&x]).unwrap();
    let second = Grad::new(&[&y], &[&x]).create_graph(true).run();
    assert!(refused!(second, GraphFacts::OnceDifferentiable { .. }));
    Once.call([&x]).unwrap().backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![2.0]));
}

// Edge gradients

#[test]
fn edge_gradients_follow_pytorchs_conventions() {
    let check = |x: &[f32], want: &[f32], f: &dyn Fn(&Var) -> Result<Var>| {
        let x = leaf(x);
        f(&x).unwrap().sum(..).unwrap().backward().unwrap();
        assert_eq!(x.grad().unwrap(), Tensor::from_slice(want, [want.len()]).unwrap());
    };
    check(&[1.0, 3.0, 3.0], &[0.0, 0.5, 0.5], &|x| x.amax(..));
    check(&[1.0, 3.0, 3.0], &[0.0, 1.0, 0.0], &|x| Ok(x.max_with_indices(0)?.0));
    check(&[0.0, -0.0], &[0.0, 0.0], &|x| x.try_relu());
    check(&[0.0], &[0.0], &|x| x.try_abs());
    check(&[2.0], &[0.5], &|x| x.maximum(2.0));
    check(&[0.0, 3.0, 0.0], &[0.0, 0.0, 0.0], &|x| x.prod(..));
    check(&[0.0, 3.0, 2.0], &[6.0, 0.0, 0.0], &|x| x.prod(..));
    check(&[0.0], &[f32::INFINITY], &|x| Ok(x.sqrt()));
    check(&[2.0, 2.0], &[0.0, 0.0], &|x| x.std(..));
    check(&[0.0], &[0.0], &|x| x.pow(0.0));
    check(&[0.0], &[0.0], &|x| Var::from(tensor![0.0]).pow(x));
    check(&[0.0], &[1.0], &|x| x.pow(1.0));
    check(&[-1.0, 0.0, 1.0], &[0.0, 1.0, 0.0], &|x| x.clamp(-1.0, 1.0));
}

#[test]
fn duplicated_indices_add_up() {
    let x = leaf(&[1.0, 2.0]);
    x.index_select(0, &tensor![1, 1, 1; i64]).unwrap().sum(..).unwrap().backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![0.0, 3.0]));
}

#[test]
fn an_untaken_branch_leaks_no_nan() {
    let x = leaf(&[-1.0, 4.0]);
    let y = x.gt(0.0).unwrap().where_cond(x.sqrt(), 0.0).unwrap();
    y.sum(..).unwrap().backward().unwrap();
    let g = x.grad().unwrap().to_vec::<f32>().unwrap();
    assert_eq!(g[1], 0.25);
    // The branch itself is NaN there, and 0 times its NaN derivative is NaN, as in PyTorch; a safe argument helps.
    let x = leaf(&[-1.0, 4.0]);
    let positive = x.gt(0.0).unwrap();
    let safe = positive.where_cond(&x, 1.0).unwrap();
    let y = positive.where_cond(safe.sqrt(), 0.0).unwrap();
    y.sum(..).unwrap().backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![0.0, 0.25]));
}

// Operators

#[test]
fn operators_between_variables_tensors_and_numbers() {
    let (t, v) = (tensor![2.0], leaf(&[8.0]));
    let all = |x: &Var, y: &Tensor| {
        [
            (x + y, 10.0),
            (x.clone() + y.clone(), 10.0),
            (y + x, 10.0),
            (y.clone() + x.clone(), 10.0),
            (x - y, 6.0),
            (y - x.clone(), -6.0),
            (x * x, 64.0),
            (x.clone() * y, 16.0),
            (x / y, 4.0),
            (y / x, 0.25),
            (x + 1, 9.0),
            (1 + x, 9.0),
            (x - 1.0f32, 7.0),
            (1.0 - x, -7.0),
            (x * 3i64, 24.0),
            (3.0 * x.clone(), 24.0),
            (x / 4.0, 2.0),
            (4.0 / x, 0.5),
            (-x, -8.0),
            (-x.clone(), -8.0),
        ]
    };
    for (i, (y, want)) in all(&v, &t).into_iter().enumerate() {
        assert!(y.requires_grad(), "combination {i}");
        assert_eq!(y.value(), tensor![want], "combination {i}");
    }
    let mut y = &v * 1.0;
    y += &v;
    y -= 1.0;
    y *= &t;
    y /= t.clone();
    y += t.clone();
    assert_eq!(y.value(), tensor![17.0]);
    y.backward().unwrap();
    assert_eq!(v.grad(), Some(tensor![2.0]));
}

#[test]
#[should_panic(expected = "cannot broadcast [2] with [3]")]
fn operators_panic_with_the_text_of_the_error() {
    let _ = leaf(&[1.0, 2.0]) * tensor![1.0, 2.0, 3.0];
}

/// A value's panic has the words of its twin's error, under the name that was called.
#[test]
#[should_panic(expected = "powi: integers to negative integer powers are not allowed")]
fn values_panic_under_their_own_name() {
    let _ = Var::from(tensor![2; i64]).powi(-1);
}
