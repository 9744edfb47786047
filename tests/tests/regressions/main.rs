//! A file per fault that this library once had, named for what broke.

mod stolen_task;
