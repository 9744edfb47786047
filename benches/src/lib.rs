//! The workloads that decide what Foldback feels like, how they are measured, and the same work in other libraries.
//!
//! `cargo bench -p benches` runs the workloads alone; the program `compare` puts them beside the machine's limits and
//! beside other libraries, `sweep` and `survey` ask for awkward shapes. See the package's README.

pub mod arguments;
pub mod checksum;
pub mod inputs;
pub mod limits;
pub mod machine;
pub mod measure;
pub mod peers;
pub mod python;
pub mod record;
pub mod results;
pub mod survey;
pub mod sweep;
pub mod table;
pub mod worker;
pub mod workloads;
