//! What loading by name found, and how an error says it.

use std::collections::HashSet;
use std::fmt;

use foldback_tensor::{DType, Shape, Tensor};

/// The names that a model and a state dict do not share; see
/// [`load_state_dict_with`](crate::Module::load_state_dict_with).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// the model's names that the state dict lacks, which keep their values
    pub missing: Vec<String>,
    /// the state dict's names that the model lacks
    pub unexpected: Vec<String>,
    /// tensors that do not fit where they belong, for which loading is always refused
    pub mismatched: Vec<Mismatched>,
}

/// A tensor that does not fit the parameter or buffer of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatched {
    /// the name
    pub name: String,
    /// type and shape in the model
    pub expected: (DType, Shape),
    /// type and shape in the state dict
    pub found: (DType, Shape),
}

impl Mismatched {
    pub(super) fn new(name: String, own: &Tensor, given: &Tensor) -> Mismatched {
        let metadata = |t: &Tensor| (t.dtype(), t.shape().clone());
        Mismatched { name, expected: metadata(own), found: metadata(given) }
    }
}

/// A list shows so many names.
const SHOWN: usize = 100;

impl fmt::Display for LoadReport {
    /// The lists that are not empty.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LoadReport { missing, unexpected, mismatched } = self;
        let mut lists = Vec::new();
        for (what, names) in [("missing", missing), ("unexpected", unexpected)] {
            if !names.is_empty() {
                lists.push(format!("{what}: {}", Listed(names)));
            }
        }
        if !mismatched.is_empty() {
            lists.push(format!("not fitting: {}", Listed(mismatched)));
        }
        if lists.is_empty() {
            return f.write_str("all names fit");
        }
        f.write_str(&lists.join("; "))
    }
}

/// The report of what was refused: with what to do about it.
pub(crate) struct Refused<'a>(pub(crate) &'static str, pub(crate) &'a LoadReport);

impl fmt::Display for Refused<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.1)?;
        match self.0 {
            "with_parameters" => {
                f.write_str("name them as named_parameters() does, each in the shape that it has there")
            }
            "load_generator_states" => {
                f.write_str("give the generator_states() of a module of the same layers")
            }
            _ => Cure(self.1).fmt(f),
        }
    }
}

impl fmt::Display for Mismatched {
    /// The types only where they differ.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((dtype, shape), (found_dtype, found)) = (&self.expected, &self.found);
        if shape == found {
            write!(f, "{} (expected {dtype}, found {found_dtype} with numbers it cannot hold)", self.name)
        } else {
            write!(f, "{} (expected {shape}, found {found})", self.name)
        }
    }
}

/// A list with commas, which ends early if it is long.
pub(crate) struct Listed<'a, T>(pub(crate) &'a [T]);

impl<T: fmt::Display> fmt::Display for Listed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, item) in self.0.iter().take(SHOWN).enumerate() {
            write!(f, "{}{item}", if i > 0 { ", " } else { "" })?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, ", and {more} more"),
        }
    }
}

/// What makes the names fit.
struct Cure<'a>(&'a LoadReport);

impl fmt::Display for Cure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LoadReport { missing, unexpected, mismatched } = self.0;
        if !mismatched.is_empty() {
            return f.write_str("make the model of the sizes that were saved, or take those entries out of the state dict with remove() and use load_state_dict_with(&state, false)");
        }
        match prefix(unexpected, missing) {
            Some(prefix) => write!(f, "load state.part({prefix:?})"),
            None => match prefix(missing, unexpected) {
                Some(prefix) => write!(
                    f,
                    "load into the model's {prefix}, or put {prefix:?} before the names by insert_all"
                ),
                None => {
                    // Names that only one of both has cannot be meant for one another.
                    if !missing.is_empty() && !unexpected.is_empty() {
                        f.write_str(
                            "rename the entries that are called otherwise, by state.map_names(|name| ..) (load_file gives the state of a file), or ",
                        )?;
                    }
                    f.write_str(
                        "use load_state_dict_with(&state, false), or load_with of a file, to leave these out",
                    )
                }
            },
        }
    }
}

/// What stands, with a dot, before each of the inner names to give one of the outer names.
fn prefix<'a>(outer: &'a [String], inner: &[String]) -> Option<&'a str> {
    let first = inner.first()?;
    let outer_names: HashSet<&str> = outer.iter().map(String::as_str).collect();
    let mut prefixes = outer.iter().filter_map(|name| name.strip_suffix(first)?.strip_suffix('.'));
    prefixes.find(|prefix| inner.iter().all(|name| outer_names.contains(format!("{prefix}.{name}").as_str())))
}
