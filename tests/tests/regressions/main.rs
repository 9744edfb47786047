//! A file per fault that this library once had, named for what broke.

mod lent_too_long;
mod stolen_task;
