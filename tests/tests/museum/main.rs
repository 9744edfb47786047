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

mod buffers;
mod edges;
mod repeated;
mod walk;

use foldback_graph::{RequiresGrad, Result, Var};
use foldback_tensor::{DType, Tensor};

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
