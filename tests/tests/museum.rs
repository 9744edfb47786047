//! A museum of faults: what went wrong in other libraries for automatic differentiation, a test per fault.
//!
//! Expected values are computed by hand or were taken from PyTorch 2.15. Where another file shows an exhibit already:
//!
//! | exhibit | where |
//! |---|---|
//! | (4,0) + (4,1) | `engine::empty_broadcast_gives_zeros_not_an_error` |
//! | `x * x`, `minimum(x, x)` | `one_variable_on_both_sides` |
//! | one variable three times with two shapes | `one_variable_in_two_shapes` |
//! | a row sliced from a variable times that variable | `a_row_of_itself_times_itself` |
//! | cat with an untracked input in the middle | `cat_with_an_untracked_middle` |
//! | `[1,2] x [2] -> scalar` through a 0-d variable | `a_product_that_meets_a_number` |
//! | (3,1) minus (1,3) into a loss | `a_column_against_a_row_in_a_loss` |
//! | (2,4) by (4) | `division_by_a_row` |
//! | a broadcast across the batch axis, downstream of a slice | `broadcast_across_the_batch` (sub, mul, div, matmul, where) |
//! | one gradient buffer for two leaves, then a step on one | `two_leaves_and_one_buffer`; `engine::buffers_are_summed_without_aliasing` |
//! | accumulating into a stolen buffer that is a view | `accumulating_into_a_view` |
//! | a seed that is not ones | `a_seed_that_is_not_ones` |
//! | a seed that is an expanded view | `an_expanded_seed`; `engine::strided_seeds_and_operands_leave_dense_gradients` |
//! | nodes never run must not block | `untracked_branches_do_not_block`; `engine::nodes_off_the_path_are_not_run`, `one_used_output_of_several` |
//! | a parallel section inside `no_grad` that picks up a tracked task | `a_stolen_task_records`; `regressions::stolen_task` |
//! | 2^40 paths | `as_many_paths_as_two_to_the_forty`; `engine::a_ladder_of_diamonds_takes_linear_time` |
//! | a chain of 1,000,000 nodes, run and dropped | `engine::a_chain_of_a_million_nodes`; limited to inputs: `a_long_chain_to_one_input` |
//! | the same dropped without running | `engine::a_chain_of_a_million_nodes_dropped_without_running`, `a_chain_that_hangs_together_by_closures_is_dropped` |
//! | a second backward | `engine::a_second_backward_adds`, `backward_twice_needs_retain_graph_where_values_were_saved` |
//! | mutation of a leaf between forward and backward | `a_leaf_changed_after_forward`; `engine::mutation_after_saving_never_changes_a_gradient` |
//! | concurrent passes over disjoint graphs that share leaves | `concurrent_passes_share_leaves`; `engine::ten_threads_that_add_to_one_leaf` |
//! | NaN in one branch of `where` | `nan_in_the_other_branch`; `engine::an_untaken_branch_leaks_no_nan` |
//! | max with ties, over all and along an axis | `ties_of_a_maximum`; `engine::edge_gradients_follow_pytorchs_conventions` |
//! | `prod` with one and two zeros, second order | `products_of_zeros` |
//! | `0**0`, `0**p` | `powers_of_zero` |
//! | sqrt and norm at 0 | `roots_of_zero` |
//! | std of equal values | `std_of_equal_values` |
//! | softmax with -inf | `softmax_of_minus_infinity` |
//! | logsumexp of all -inf | `logsumexp_of_nothing_but_minus_infinity` |
//! | empty reductions | `reductions_of_nothing` |
//! | integer mean, bool subtraction refused | `refused_for_the_type`; `seeds::bool_addition_is_or_and_subtraction_is_refused` |

use foldback_graph::{
    Backward, Error, Function, FunctionContext, Grad, RequiresGrad, Result, Var, backward, grad, grad_with,
    is_grad_enabled, no_grad,
};
use foldback_nn::loss::mse_loss;
use foldback_tensor::{DType, Tensor, keep, s, tensor};
use tests::steal;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// The gradients of the sum of `f` with respect to each input.
#[track_caller]
fn grads<const N: usize>(inputs: [Tensor; N], f: impl Fn(&[Var; N]) -> Result<Var>) -> [Tensor; N] {
    let x = inputs.map(|t| t.requires_grad());
    f(&x).unwrap().sum(..).unwrap().backward().unwrap();
    x.map(|x| x.grad().expect("every input takes part"))
}

/// Equal in shape and in every number, where NaN is equal to NaN.
#[track_caller]
fn same(found: &Tensor, expected: Tensor) {
    assert_eq!(found.dims(), expected.dims());
    let numbers = |t: &Tensor| t.to(DType::F64).to_vec::<f64>().unwrap();
    let equal = |(a, b): (&f64, &f64)| a == b || (a.is_nan() && b.is_nan());
    assert!(numbers(found).iter().zip(&numbers(&expected)).all(equal), "{found}\ninstead of\n{expected}");
}

/// As [`same`], to a few units in the last place of values that went through `exp`.
#[track_caller]
fn near(found: &Tensor, expected: Tensor) {
    foldback_tensor::assert_close!(found, expected, rtol = 1e-15, atol = 1e-15);
}

fn all(x: &Var) -> Var {
    x.sum(..).unwrap()
}

// Broadcasting and repeated inputs

// Libraries that store gradients by input kept only the last of two.
#[test]
fn one_variable_on_both_sides() {
    let x = || tensor![-3.0, 2.0; f64];
    let [g] = grads([x()], |[x]| x.mul(x));
    same(&g, tensor![-6.0, 4.0; f64]);
    for f in [|x: &Var| x.minimum(x), |x: &Var| x.maximum(x)] {
        let [g] = grads([x()], |[x]| f(x));
        same(&g, tensor![1.0, 1.0; f64]);
    }
    let [g] = grads([x()], |[x]| x.sub(x));
    same(&g, tensor![0.0, 0.0; f64]);
    let [g] = grads([x()], |[x]| x.div(x));
    same(&g, tensor![0.0, 0.0; f64]);
    let square = tensor![[1.0, 2.0], [3.0, 4.0]; f64];
    let [g] = grads([square], |[x]| x.matmul(x));
    same(&g, tensor![[7.0, 11.0], [9.0, 13.0]; f64]);
}

// The fold of one use went to the accumulated gradient of all uses.
#[test]
fn one_variable_in_two_shapes() {
    let wide = tensor![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
    // x + x[:, None] * wide, and x once more as it is
    let [x, wide] = grads([tensor![10.0, 20.0], wide], |[x, wide]| {
        let column = x.unsqueeze(1)?;
        all(&x.mul(x)?).add(&column.mul(wide)?.add(&column)?)
    });
    // x * x is broadcast to all six elements
    same(&x, tensor![120.0 + 6.0 + 3.0, 240.0 + 15.0 + 3.0]);
    same(&wide, tensor![[10.0, 10.0, 10.0], [20.0, 20.0, 20.0]]);
}

// A gradient written into the slice's place overwrote that of the whole.
#[test]
fn a_row_of_itself_times_itself() {
    let [g] = grads([tensor![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]], |[x]| x.select(0, 1)?.mul(x));
    // every row gets row 1; row 1 gets the sum of all rows besides
    same(&g, tensor![[3.0, 4.0], [3.0 + 9.0, 4.0 + 12.0], [3.0, 4.0]]);
    let [g] = grads([tensor![[1.0, 2.0], [3.0, 4.0]]], |[x]| x.mul(&x.slice(s![.., 1..2])?));
    same(&g, tensor![[2.0, 2.0 + 1.0 + 2.0], [4.0, 4.0 + 3.0 + 4.0]]);
}

// Offsets counted the tracked inputs only, so the last gradient was cut from the wrong place.
#[test]
fn cat_with_an_untracked_middle() {
    for axis in [0, 1, -1] {
        let (a, c) = (tensor![[1.0, 2.0]].requires_grad(), tensor![[3.0, 4.0]].requires_grad());
        let middle = Var::from(if axis == 0 { tensor![[8.0, 9.0], [8.0, 9.0]] } else { tensor![[8.0]] });
        let y = Var::cat(&[&a, &middle, &c], axis).unwrap();
        let seed = Tensor::arange_with(1..(1 + y.numel() as i64), 1, DType::F32).reshape(y.shape()).unwrap();
        y.backward_with(&seed).unwrap();
        same(&a.grad().unwrap(), tensor![[1.0, 2.0]]);
        same(&c.grad().unwrap(), if axis == 0 { tensor![[7.0, 8.0]] } else { tensor![[4.0, 5.0]] });
    }
    let (a, c) = (tensor![1.0].requires_grad(), tensor![2.0].requires_grad());
    let y = Var::stack(&[&a, &Var::from(tensor![0.0]), &c], 1).unwrap();
    y.backward_with(&tensor![[5.0, 6.0, 7.0]]).unwrap();
    assert_eq!((a.grad(), c.grad()), (Some(tensor![5.0]), Some(tensor![7.0])));
}

// A vector on the right lost an axis on its way back; a 0-d factor got the gradient of a whole matrix.
#[test]
fn a_product_that_meets_a_number() {
    let (row, column) = (tensor![[1.0, 2.0]], tensor![3.0, 4.0]);
    let [a, b, n] = grads([row, column, Tensor::scalar(5.0f32)], |[a, b, n]| {
        let y = a.matmul(b)?;
        assert_eq!(y.shape(), [1]);
        y.mul(n)?.reshape(())
    });
    same(&a, tensor![[15.0, 20.0]]);
    same(&b, tensor![5.0, 10.0]);
    same(&n, Tensor::scalar(11.0f32));
    // the number first, and a number that is also a leaf of the result
    let [a, n] = grads([tensor![[1.0, 2.0]], Tensor::scalar(5.0f32)], |[a, n]| {
        n.mul(a)?.matmul(&tensor![3.0, 4.0])?.mul(n)
    });
    same(&a, tensor![[75.0, 100.0]]);
    same(&n, Tensor::scalar(110.0f32));
}

// Predictions (n, 1) against targets (n) became (n, n) without a word, and the model learned the mean.
#[test]
fn a_column_against_a_row_in_a_loss() {
    let prediction = tensor![[1.0], [2.0], [3.0]].requires_grad();
    for target in [tensor![[1.0, 2.0, 3.0]], tensor![1.0, 2.0, 3.0]] {
        let error = mse_loss(&prediction, &target).unwrap_err().to_string();
        for part in ["mse_loss", "[3, 1]", &format!("{}", target.shape())] {
            assert!(error.contains(part), "{part:?} is missing from {error:?}");
        }
    }
    assert_eq!(prediction.grad(), None);
    // Asked for in so many words, it is a broadcast like any other.
    let d = prediction.sub(&tensor![[1.0, 2.0, 3.0]]).unwrap();
    all(&d.square()).backward().unwrap();
    same(&prediction.grad().unwrap(), tensor![[-6.0], [0.0], [6.0]]);
}

// The divisor's gradient kept the numerator's shape.
#[test]
fn division_by_a_row() {
    let a = tensor![[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]; f64];
    let b = tensor![1.0, 2.0, 4.0, 8.0; f64];
    let [a, b] = grads([a, b], |[a, b]| a.div(b));
    same(&a, tensor![[1.0, 0.5, 0.25, 0.125], [1.0, 0.5, 0.25, 0.125]; f64]);
    same(&b, tensor![-6.0, -2.0, -0.625, -0.1875; f64]);
}

/// The gradients of `f(x[1:], w)`, summed with a seed that differs everywhere, against those with `w` spelt out per batch.
#[track_caller]
fn check_across_batch(f: impl Fn(&Var, &Var) -> Result<Var>, w: Tensor) {
    let count = |shape: &[usize]| {
        let n = shape.iter().product::<usize>() as i64;
        Tensor::arange_with(1..(1 + n), 1, DType::F64).reshape(shape).unwrap()
    };
    let x = count(&[4, 2, 2]).requires_grad();
    let batch = x.slice(1..).unwrap();
    let w = w.requires_grad();
    let y = f(&batch, &w).unwrap();
    let seed = count(y.shape().dims());
    y.backward_with(&seed).unwrap();
    let (mut want_x, mut want_w) = (Tensor::zeros_with([4, 2, 2], DType::F64), w.value().zeros_like());
    for i in 0..3usize {
        let item = x.value().select(0, i + 1).unwrap().requires_grad();
        let alone = w.value().reshape(w.value().dims()[1..].to_vec()).unwrap().requires_grad();
        f(&item, &alone).unwrap().backward_with(seed.select(0, i).unwrap()).unwrap();
        want_x.slice_assign(i + 1, item.grad().unwrap()).unwrap();
        want_w.add_(alone.grad().unwrap()).unwrap();
    }
    same(&x.grad().unwrap(), want_x);
    same(&w.grad().unwrap(), want_w);
}

// Some operations folded the batch axis and others did not; behind a slice the wrong batch was folded.
#[test]
fn broadcast_across_the_batch() {
    // powers of two, so that quotients are exact
    let weights =
        [tensor![[[1.0, 2.0], [4.0, 8.0]]; f64], tensor![[[2.0, 4.0]]; f64], tensor![[[2.0], [8.0]]; f64]];
    for w in weights {
        check_across_batch(|x, w| x.sub(w), w.clone());
        check_across_batch(|x, w| w.sub(x), w.clone());
        check_across_batch(|x, w| x.mul(w), w.clone());
        check_across_batch(|x, w| x.div(w), w.clone());
        check_across_batch(|x, w| x.gt(8.0)?.where_cond(x, w), w.clone());
        check_across_batch(|x, w| x.gt(8.0)?.where_cond(w, x), w.clone());
    }
    check_across_batch(|x, w| x.matmul(w), tensor![[[1.0, 2.0], [4.0, 8.0]]; f64]);
    check_across_batch(|x, w| w.matmul(x), tensor![[[1.0, 2.0], [4.0, 8.0]]; f64]);
    check_across_batch(|x, w| x.matmul(w), tensor![[[3.0], [5.0]]; f64]);
}

// Buffers and seeds

// Two leaves were handed the same buffer, and an optimiser's step on one moved the other.
#[test]
fn two_leaves_and_one_buffer() {
    let (a, b) = (tensor![1.0, 2.0].requires_grad(), tensor![3.0, 4.0].requires_grad());
    let seed = tensor![5.0, 6.0];
    (&a + &b).backward_with(&seed).unwrap();
    // a step that uses the gradient's memory, and one that writes into it
    a.update_value(|v| v.sub_(a.grad().unwrap()).map(|_| ())).unwrap();
    let mut clipped = a.grad().unwrap();
    a.set_grad(None).unwrap();
    clipped.mul_(0.0).unwrap();
    a.set_grad(Some(clipped)).unwrap();
    same(&a.value(), tensor![-4.0, -4.0]);
    same(&b.grad().unwrap(), tensor![5.0, 6.0]);
    same(&b.value(), tensor![3.0, 4.0]);
    same(&seed, tensor![5.0, 6.0]);
    // and the other way round: the seed is written, the gradients stay
    let mut seed = seed;
    seed.fill_(0.0).unwrap();
    same(&b.grad().unwrap(), tensor![5.0, 6.0]);
    // one leaf on two edges
    let x = tensor![1.0, 1.0].requires_grad();
    let y = tensor![1.0, 1.0].requires_grad();
    (&x + &x + &y).backward_with(&tensor![1.0, 2.0]).unwrap();
    assert_eq!((x.grad(), y.grad()), (Some(tensor![2.0, 4.0]), Some(tensor![1.0, 2.0])));
}

// The first gradient's buffer was taken over for the sum although it was a view: of one number, or of a part.
#[test]
fn accumulating_into_a_view() {
    let x = tensor![1.0, 2.0, 3.0].requires_grad();
    // the gradient of a sum is an expanded number; it waits, and others are added to it
    let y = all(&x) + all(&(&x * 2.0)) + all(&(&x * &x));
    y.backward().unwrap();
    same(&x.grad().unwrap(), tensor![5.0, 7.0, 9.0]);
    // the gradient of cat's input is a narrow view of the seed
    let x = tensor![1.0, 2.0].requires_grad();
    let seed = tensor![1.0, 2.0, 3.0, 4.0];
    Var::cat(&[&x, &x], 0).unwrap().backward_with(&seed).unwrap();
    same(&x.grad().unwrap(), tensor![4.0, 6.0]);
    same(&seed, tensor![1.0, 2.0, 3.0, 4.0]);
    // and a transposed view of what another leaf keeps
    let (a, b) = (Tensor::zeros([2, 2]).requires_grad(), Tensor::zeros([2, 2]).requires_grad());
    let y = a.t() + &b;
    y.backward_with(&tensor![[1.0, 2.0], [3.0, 4.0]]).unwrap();
    (a.t() * 1.0).backward_with(&tensor![[10.0, 20.0], [30.0, 40.0]]).unwrap();
    same(&a.grad().unwrap(), tensor![[11.0, 33.0], [22.0, 44.0]]);
    same(&b.grad().unwrap(), tensor![[1.0, 2.0], [3.0, 4.0]]);
    // a kept gradient that is added to in a later pass stays what it was for those who read it
    let before = b.grad().unwrap();
    all(&b).backward().unwrap();
    same(&before, tensor![[1.0, 2.0], [3.0, 4.0]]);
    same(&b.grad().unwrap(), tensor![[2.0, 3.0], [4.0, 5.0]]);
}

// Rules that were only ever tried under a sum took the seed for ones.
#[test]
fn a_seed_that_is_not_ones() {
    let seed = tensor![[1.0, -2.0], [0.0, 3.0]; f64];
    let check = |f: &dyn Fn(&Var) -> Result<Var>, want: Tensor| {
        let x = tensor![[1.0, 2.0], [4.0, 8.0]; f64].requires_grad();
        f(&x).unwrap().backward_with(&seed).unwrap();
        same(&x.grad().unwrap(), want);
    };
    check(&|x| x.mul(x), tensor![[2.0, -8.0], [0.0, 48.0]; f64]);
    check(&|x| x.rdiv(8.0), tensor![[-8.0, 4.0], [0.0, -0.375]; f64]);
    check(&|x| x.try_t(), tensor![[1.0, 0.0], [-2.0, 3.0]; f64]);
    check(&|x| x.matmul(&tensor![[1.0, 1.0], [0.0, 2.0]; f64]), tensor![[-1.0, -4.0], [3.0, 6.0]; f64]);
    check(
        &|x| x.amax(keep(1))?.add(Tensor::zeros_with([2], DType::F64)),
        tensor![[0.0, -1.0], [0.0, 3.0]; f64],
    );
    check(&|x| x.sum(keep(0))?.mul(x), {
        // 5 and 10 are the sums; each column's sum gets 1*1 + 0*4 and -2*2 + 3*8
        tensor![[5.0 + 1.0, -20.0 + 20.0], [0.0 + 1.0, 30.0 + 20.0]; f64]
    });
    check(&|x| x.flip([0, 1]), tensor![[3.0, 0.0], [-2.0, 1.0]; f64]);
}

// A seed with stride 0 was written into, or handed on as it was and read past its single element.
#[test]
fn an_expanded_seed() {
    let number = Tensor::scalar(3.0f32);
    let seed = number.expand([2, 3]).unwrap();
    let (a, b) = (Tensor::zeros([2, 3]).requires_grad(), tensor![1.0, 2.0, 3.0].requires_grad());
    let y = &a + &b * 2.0 + &a;
    y.backward_with(&seed).unwrap();
    assert_eq!((a.grad(), b.grad()), (Some(seed.contiguous() * 2.0), Some(tensor![12.0, 12.0, 12.0])));
    assert!(a.grad().unwrap().is_contiguous());
    // a step on the gradient, and a second pass with the same seed
    let mut g = a.grad().unwrap();
    a.set_grad(None).unwrap();
    g.add_(1.0).unwrap();
    a.set_grad(Some(g)).unwrap();
    (&a * 1.0).backward_with(&seed).unwrap();
    same(&a.grad().unwrap(), seed.contiguous() * 3.0 + 1.0);
    same(&number, Tensor::scalar(3.0f32));
    // expanded along one axis only, straight into leaves
    let (p, q) = (Tensor::zeros([2, 3]).requires_grad(), Tensor::zeros([2, 3]).requires_grad());
    (&p + &q).backward_with(tensor![[1.0], [2.0]].expand([2, 3]).unwrap()).unwrap();
    no_grad(|| p.update_value(|v| v.add_(p.grad().unwrap()).map(|_| ()))).unwrap();
    same(&p.value(), tensor![[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]);
    same(&q.grad().unwrap(), tensor![[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]);
}

// The walk over the graph

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
    let g = Grad::new(&[&y], &[&mid]).run().unwrap();
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
            Grad::new(&[&y], &[&w]).retain_graph(true).run().unwrap()[0].as_ref().unwrap().value(),
            tensor![3e5; f64]
        );
        y.backward_with(Backward::new().inputs(&[&x])).unwrap();
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
                    backward(&[&all(&y)], Backward::new().retain_graph(true)).unwrap();
                }
            });
        }
    });
    // 100 passes each of weight 1 + 2 + 3 + 4
    same(&x.grad().unwrap(), tensor![[1.0, 2.0], [1.0, 2.0]; f64] * 1000.0);
    same(&w.grad().unwrap(), tensor![4.0 + 4.0, 6.0 + 8.0; f64] * 1000.0);
}

// Edges of functions

// The gradient was masked by a product, and 0 times NaN is NaN.
#[test]
fn nan_in_the_other_branch() {
    let cond = Var::from(tensor![true, false; bool]);
    let [a, b] = grads([tensor![1.0, NAN; f64], tensor![NAN, 2.0; f64]], |[a, b]| cond.where_cond(a, b));
    same(&a, tensor![1.0, 0.0; f64]);
    same(&b, tensor![0.0, 1.0; f64]);
    // second order through both branches
    let x = tensor![2.0, 0.0; f64].requires_grad();
    let y = x.gt(0.0).unwrap().where_cond(x.pow(3.0).unwrap(), x.square()).unwrap();
    let first = Grad::new(&[&all(&y)], &[&x]).create_graph(true).run().unwrap().remove(0).unwrap();
    same(&first.value(), tensor![12.0, 0.0; f64]);
    same(&grad(all(&first), &[&x]).unwrap()[0].value(), tensor![12.0, 2.0; f64]);
}

// Every largest element got the whole gradient, or the first of all rows did.
#[test]
fn ties_of_a_maximum() {
    let x = || tensor![[3.0, 3.0, 1.0], [2.0, 3.0, 3.0]; f64];
    let [g] = grads([x()], |[x]| x.amax(..));
    same(&g, tensor![[0.25, 0.25, 0.0], [0.0, 0.25, 0.25]; f64]);
    let weights = tensor![1.0, 10.0; f64];
    let [g] = grads([x()], |[x]| x.amax(1)?.mul(&weights));
    same(&g, tensor![[0.5, 0.5, 0.0], [0.0, 5.0, 5.0]; f64]);
    let [g] = grads([x()], |[x]| x.max_with_indices(1)?.0.mul(&weights));
    same(&g, tensor![[1.0, 0.0, 0.0], [0.0, 10.0, 0.0]; f64]);
    let [g] = grads([x()], |[x]| x.neg().min_with_indices(keep(0))?.0.mul(1.0));
    same(&g, tensor![[-1.0, -1.0, 0.0], [0.0, 0.0, -1.0]; f64]);
    let [g] = grads([x()], |[x]| x.amax(keep(0)));
    same(&g, tensor![[1.0, 0.5, 0.0], [0.0, 0.5, 1.0]; f64]);
}

// The product of the others was computed as the product divided by the element.
#[test]
fn products_of_zeros() {
    let second = |x: Tensor, weights: Tensor| {
        let x = x.requires_grad();
        let y = x.prod(..).unwrap();
        let first = grad_with(&y, &x, Backward::new().create_graph(true)).unwrap();
        let second = grad(all(&(&first * &weights)), &x).unwrap();
        (first.value(), second.value())
    };
    let weights = tensor![1.0, 10.0, 100.0; f64];
    // rows of the second derivative: (0 2 3), (2 0 0), (3 0 0)
    let (first, hessian) = second(tensor![0.0, 3.0, 2.0; f64], weights.clone());
    same(&first, tensor![6.0, 0.0, 0.0; f64]);
    same(&hessian, tensor![320.0, 2.0, 3.0; f64]);
    // (0 0 3), (0 0 0), (3 0 0)
    let (first, hessian) = second(tensor![0.0, 3.0, 0.0; f64], weights.clone());
    same(&first, tensor![0.0, 0.0, 0.0; f64]);
    same(&hessian, tensor![300.0, 0.0, 3.0; f64]);
    let (first, hessian) = second(tensor![0.0, 0.0, 0.0; f64], weights.clone());
    same(&first, tensor![0.0, 0.0, 0.0; f64]);
    same(&hessian, tensor![0.0, 0.0, 0.0; f64]);
    // along an axis, one zero in a row and two in the other; expected values from PyTorch
    let x = tensor![[0.0, 3.0, 2.0], [0.0, 5.0, 0.0]; f64].requires_grad();
    let y = all(&x.prod(1).unwrap().mul(&tensor![1.0, 10.0; f64]).unwrap());
    let first = grad_with(&y, &x, Backward::new().create_graph(true)).unwrap();
    same(&first.value(), tensor![[6.0, 0.0, 0.0], [0.0, 0.0, 0.0]; f64]);
    let weighted = all(&first.mul(&tensor![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]; f64]).unwrap());
    same(&grad(&weighted, &[&x]).unwrap()[0].value(), tensor![[13.0, 2.0, 3.0], [300.0, 0.0, 200.0]; f64]);
}

// p * 0**(p-1) is 0 * inf at p = 0, and y * ln(0) is 0 * -inf.
#[test]
fn powers_of_zero() {
    // exponent, 0**p, derivative by the base, derivative by the exponent; all from PyTorch
    for (p, y, base, exponent) in [
        (0.0, 1.0, 0.0, 0.0),
        (0.5, 0.0, INF, 0.0),
        (1.0, 0.0, 1.0, 0.0),
        (2.0, 0.0, 0.0, 0.0),
        (3.0, 0.0, 0.0, 0.0),
        (-1.0, INF, -INF, -INF),
    ] {
        let x = tensor![0.0; f64].requires_grad();
        let value = x.pow(p).unwrap();
        same(&value.value(), tensor![y; f64]);
        value.backward().unwrap();
        same(&x.grad().unwrap(), tensor![base; f64]);
        let [a, b] = grads([tensor![0.0; f64], tensor![p; f64]], |[a, b]| a.pow(b));
        same(&a, tensor![base; f64]);
        same(&b, tensor![exponent; f64]);
        let [b] = grads([tensor![p; f64]], |[b]| b.rpow(0.0));
        same(&b, tensor![exponent; f64]);
    }
    // a negative base has no derivative by the exponent, even where the power is real
    let [a, b] = grads([tensor![-2.0; f64], tensor![2.0; f64]], |[a, b]| a.pow(b));
    same(&a, tensor![-4.0; f64]);
    same(&b, tensor![NAN; f64]);
}

// A norm at the origin made every weight NaN; PyTorch's composed one does so too, and says how to avoid it.
#[test]
fn roots_of_zero() {
    let [g] = grads([tensor![0.0, 4.0; f64]], |[x]| Ok(x.sqrt()));
    same(&g, tensor![INF, 0.25; f64]);
    let norm = |x: &Var| Ok(x.mul(x)?.sum(..)?.sqrt());
    let [g] = grads([tensor![0.0, 0.0; f64]], |[x]| norm(x));
    same(&g, tensor![NAN, NAN; f64]);
    let [g] = grads([tensor![3.0, 4.0; f64]], |[x]| norm(x));
    near(&g, tensor![0.6, 0.8; f64]);
    // The argument is made safe, not the result.
    let safe = |x: &Var| {
        let squares = x.mul(x)?.sum(..)?;
        let positive = squares.gt(0.0)?;
        positive.where_cond(positive.where_cond(&squares, 1.0)?.sqrt(), 0.0)
    };
    let [g] = grads([tensor![0.0, 0.0; f64]], |[x]| safe(x));
    same(&g, tensor![0.0, 0.0; f64]);
    let [g] = grads([tensor![3.0, 4.0; f64]], |[x]| safe(x));
    near(&g, tensor![0.6, 0.8; f64]);
}

// (x - mean) / std is 0 / 0.
#[test]
fn std_of_equal_values() {
    let [g] = grads([tensor![[2.0, 2.0, 2.0], [1.0, 2.0, 3.0]; f64]], |[x]| x.std(1));
    same(&g, tensor![[0.0, 0.0, 0.0], [-0.5, 0.0, 0.5]; f64]);
    let [g] = grads([tensor![2.0, 2.0; f64]], |[x]| x.var(..));
    same(&g, tensor![0.0, 0.0; f64]);
    // one value has no deviation from the others
    let x = tensor![2.0; f64].requires_grad();
    let y = x.std(..).unwrap();
    same(&y.value(), Tensor::from(NAN));
    y.backward().unwrap();
    same(&x.grad().unwrap(), tensor![NAN; f64]);
}

// Subtracting a maximum of -inf, or multiplying its weight of 0 with infinity, gave NaN in rows that have other entries.
#[test]
fn softmax_of_minus_infinity() {
    let x = || tensor![-INF, 0.0, 0.0; f64];
    near(&x().softmax(0).unwrap(), tensor![0.0, 0.5, 0.5; f64]);
    let [g] = grads([x()], |[x]| x.softmax(0)?.mul(&tensor![1.0, 2.0, 3.0; f64]));
    near(&g, tensor![0.0, -0.25, 0.25; f64]);
    let [g] = grads([x()], |[x]| x.log_softmax(0));
    near(&g, tensor![1.0, -0.5, -0.5; f64]);
    let [g] = grads([x()], |[x]| x.log_softmax(0)?.slice(1..));
    near(&g, tensor![0.0, 0.0, 0.0; f64]);
    // Nothing to distribute over is NaN, in value and gradient, and stays in its row.
    let rows = tensor![[-INF, -INF], [0.0, 0.0]; f64];
    same(&rows.softmax(1).unwrap(), tensor![[NAN, NAN], [0.5, 0.5]; f64]);
    let [g] = grads([rows], |[x]| x.softmax(1)?.mul(&tensor![1.0, 3.0; f64]));
    same(&g, tensor![[NAN, NAN], [-0.5, 0.5]; f64]);
}

// -inf minus the maximum of -inf made the sum NaN.
#[test]
fn logsumexp_of_nothing_but_minus_infinity() {
    let ln2 = std::f64::consts::LN_2;
    let rows = || tensor![[-INF, -INF], [0.0, 0.0], [-INF, 0.0]; f64];
    near(&rows().logsumexp(1).unwrap(), tensor![-INF, ln2, 0.0; f64]);
    // PyTorch's gradient there is NaN: exp(-inf - -inf)
    let [g] = grads([rows()], |[x]| x.logsumexp(1));
    near(&g.slice(1..).unwrap(), tensor![[0.5, 0.5], [0.0, 1.0]; f64]);
    same(&g.slice(0).unwrap(), tensor![NAN, NAN; f64]);
    near(&tensor![INF, 0.0; f64].logsumexp(0).unwrap(), Tensor::from(INF));
}

// Reductions of nothing read past the end, divided by zero or lost their identity.
#[test]
fn reductions_of_nothing() {
    let none = || Tensor::zeros_with([0], DType::F64).requires_grad();
    let shape = || Tensor::zeros_with([0, 3], DType::F64).requires_grad();
    type Reduce = fn(&Var, foldback_tensor::Axes) -> Result<Var>;
    let reductions: [(Reduce, f64); 6] = [
        (|x, a| x.sum(a), 0.0),
        (|x, a| x.prod(a), 1.0),
        (|x, a| x.mean(a), NAN),
        (|x, a| x.var(a), NAN),
        (|x, a| x.std(a), NAN),
        (|x, a| x.logsumexp(a), -INF),
    ];
    for (reduce, identity) in reductions {
        let x = none();
        let y = reduce(&x, (..).into()).unwrap();
        same(&y.value(), Tensor::from(identity));
        y.backward().unwrap();
        assert_eq!(x.grad().unwrap().dims(), [0]);
        let x = shape();
        let y = reduce(&x, 0.into()).unwrap();
        same(&y.value(), tensor![identity, identity, identity; f64]);
        all(&y).backward().unwrap();
        assert_eq!(x.grad().unwrap().dims(), [0, 3]);
        let y = reduce(&x, 1.into()).unwrap();
        assert_eq!(y.shape(), [0]);
        all(&y).backward().unwrap();
        assert_eq!(x.grad().unwrap().dims(), [0, 3]);
    }
    // A maximum of nothing does not exist; one per row of no rows does.
    assert!(none().amax(..).is_err());
    assert!(shape().amax(0).is_err() && shape().max_with_indices(0).is_err());
    assert!(none().argmax(..).is_err());
    assert_eq!(shape().amax(1).unwrap().shape(), [0]);
    assert_eq!(shape().max_with_indices(keep(1)).unwrap().0.shape(), [0, 1]);
    assert_eq!(shape().softmax(0).unwrap().shape(), [0, 3]);
    let empty = none().value();
    assert!(empty.all(..).unwrap().item_as::<bool>().unwrap());
    assert!(!empty.any(..).unwrap().item_as::<bool>().unwrap());
}

// An integer mean was cut to an integer, and a difference of truth values was whatever the bytes said.
#[test]
fn refused_for_the_type() {
    for t in [tensor![1, 2; i64], tensor![true, false; bool]] {
        for error in [t.mean(..).unwrap_err(), t.var(..).unwrap_err(), t.std(..).unwrap_err()] {
            assert!(error.to_string().contains(t.dtype().name()), "{error}");
        }
        assert!(Var::from(t).mean(..).is_err());
    }
    let (p, q) = (tensor![true, false; bool], tensor![true, true; bool]);
    let mut target = p.clone();
    assert!(p.sub(&q).is_err() && p.sub(true).is_err() && p.try_neg().is_err());
    assert!(target.sub_(&q).is_err());
    assert_eq!(target, p);
    assert!(Var::from(p.clone()).sub(&q).is_err());
    assert!(tensor![1.0].sub(&p).is_err(), "one truth value is enough");
    let x = tensor![1.0, 2.0].requires_grad();
    assert!(x.sub(&p).is_err());
}
