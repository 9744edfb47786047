//! A file per fault that this library once had, named for what broke.

mod deep_nesting;
mod stolen_task;
