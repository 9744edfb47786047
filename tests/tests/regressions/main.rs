//! A file per fault that this library once had, named for what broke.

mod empty_axes;
mod lost_digits;
mod stolen_task;
mod too_large;
