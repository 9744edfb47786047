//! A file per fault that this library once had, named for what broke.

mod lines;
mod saved_values;
mod stolen_task;
