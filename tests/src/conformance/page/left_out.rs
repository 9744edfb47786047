//! PyTorch's parameters that no call here has, and why. Those of every operation stand in tests/golden/parameters.txt.

use std::fs;
use std::path::Path;

use crate::conformance::table::find;

/// A parameter, the operations that it is left out of (all that have it, if none is named), and the reason.
struct LeftOut(&'static str, &'static [&'static str], &'static str);

const LEFT_OUT: &[LeftOut] = &[
    LeftOut("inplace", &[], "the form whose name ends in `_`"),
    LeftOut("out", &[], "a result is a new value"),
    LeftOut("size_average", &[], "PyTorch's former `reduction`"),
    LeftOut("reduce", LOSSES, "PyTorch's former `reduction`"),
    LeftOut("dtype", &["norm", "linalg.vector_norm"], "`x.to(dtype)` before it says the same"),
    LeftOut("dtype", &["view"], "the bits of an element are not read as those of another type"),
    LeftOut("out_dtype", &[], "PyTorch has it on graphics cards only"),
    LeftOut("output_size", &["repeat_interleave"], "spares a graphics card a wait; here it is counted"),
    LeftOut("antialias", &[], "another filter, of more than four elements"),
    LeftOut("max_norm", &[], "would write over the weight"),
    LeftOut("norm_type", &[], "belongs to `max_norm`"),
    LeftOut("scale_grad_by_freq", &[], "no gradient of what is computed; a hook can divide by a `bincount`"),
    LeftOut("sparse", &[], "gradients are dense"),
    LeftOut("sparse_grad", &[], "gradients are dense"),
    LeftOut(
        "memory_format",
        &[],
        "a result lies as what fills its shape does, else row-major; `contiguous` makes row-major elements",
    ),
    LeftOut("copy", &["to"], "values share memory unseen"),
    LeftOut("other", &["to"], "`x.to(y.dtype())`"),
    LeftOut("device", &[], "there is one device"),
    LeftOut("layout", &[], "there are dense tensors only"),
    LeftOut("pin_memory", &[], "there is one device"),
    LeftOut("non_blocking", &[], "there is one device"),
];

const LOSSES: &[&str] = &[
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "kl_div",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "nll_loss",
    "cross_entropy",
];

/// Whether an operation is said to lack a parameter.
pub(in crate::conformance) fn is_left_out(operation: &str, parameter: &str) -> bool {
    LEFT_OUT.iter().any(|left| left.is_of(operation, parameter))
}

impl LeftOut {
    fn is_of(&self, operation: &str, parameter: &str) -> bool {
        self.0 == parameter && (self.1.is_empty() || self.1.contains(&operation))
    }
}

/// Operations by PyTorch's names, and their parameters there.
fn parameters() -> Vec<(String, Vec<String>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/parameters.txt");
    let text = fs::read_to_string(path).expect("the list is committed");
    let line = |line: &str| {
        let mut words = line.split(' ').map(str::to_owned);
        (words.next().unwrap_or_default(), words.collect())
    };
    text.lines().map(line).collect()
}

/// The table of the page.
pub(super) fn section() -> String {
    let all = parameters();
    let mut text = "\n## Parameters that are not here\n\n| PyTorch | of | why |\n|---|---|---|\n".to_owned();
    for left in LEFT_OUT {
        let has = |(name, own): &&(String, Vec<String>)| own.iter().any(|p| left.is_of(name, p));
        let names: Vec<String> = all.iter().filter(has).map(|(name, _)| format!("`{name}`")).collect();
        text += &format!("| `{}` | {} | {} |\n", left.0, names.join(", "), left.2);
    }
    text
}

/// Parameters that neither a row nor the list knows, and what the list names in vain.
pub(super) fn faults() -> Vec<String> {
    let mut faults = Vec::new();
    let mut found = vec![false; LEFT_OUT.len()];
    for (name, own) in parameters() {
        let Some(row) = find(&name) else {
            faults.push(format!("`{name}` of tests/golden/parameters.txt has no row"));
            continue;
        };
        for parameter in own {
            let left = LEFT_OUT.iter().position(|left| left.is_of(&name, &parameter));
            match left {
                Some(i) if !row.takes(&parameter) => found[i] = true,
                Some(_) => faults
                    .push(format!("the row of `{name}` has `{parameter}`, which is said to be left out")),
                None if row.takes(&parameter) => {}
                None => faults.push(format!(
                    "`{name}` has `{parameter}` in PyTorch: its row lacks it, or page/left_out.rs the reason"
                )),
            }
        }
    }
    let unused = LEFT_OUT.iter().zip(found).filter(|(_, found)| !found).map(|(left, _)| left.0);
    faults.extend(unused.map(|name| format!("`{name}` is left out of nothing that has it")));
    faults
}
