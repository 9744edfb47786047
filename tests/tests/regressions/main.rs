//! A file per fault that this library once had, named for what broke.

mod aliased_gradients;
mod deep_nesting;
mod drops;
mod empty_axes;
mod half_steps;
mod infinite_gradients;
mod lent_too_long;
mod lines;
mod lost_digits;
mod lost_updates;
mod names_in_errors;
mod numbers_beyond_f32;
mod numbers_beyond_i64;
mod order_of_a_sum;
mod pointwise_conventions;
mod retained_gradients;
mod run_again;
mod saved_values;
mod scattered_numbers;
mod short_segments;
mod stolen_task;
mod too_large;
