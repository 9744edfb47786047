//! The methods of tensors and of variables, as the documentation lists them: the same, with the same arguments.
//!
//! The lists are rustdoc's, which sees what macros write; it is run here for the two crates.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Methods that only a tensor has, with the reason.
const TENSORS_ONLY: &[(&str, &[&str])] = &[
    (
        "constructors: a variable is made of a tensor",
        &[
            "arange",
            "bernoulli",
            "eye",
            "from_slice",
            "from_strided",
            "from_vec",
            "full",
            "linspace",
            "normal",
            "ones",
            "rand",
            "randint",
            "randn",
            "randperm",
            "scalar",
            "uniform",
            "zeros",
        ],
    ),
    ("its elements as arrays and slices", &["as_array", "as_slice", "into_array", "to_array"]),
    ("its place in memory", &["is_contiguous", "overlaps_itself", "shares_buffer_with", "strides"]),
    ("results into a tensor that there is", &["add_out", "div_out", "mul_out", "sub_out"]),
];

/// Methods that only a variable has, with the reason.
const VARIABLES_ONLY: &[(&str, &[&str])] = &[
    (
        "what it is in the graph",
        &[
            "constant",
            "deep_copy",
            "detach",
            "downgrade",
            "is_leaf",
            "is_same",
            "leaf",
            "requires_grad",
            "requires_grad_",
        ],
    ),
    (
        "gradients",
        &[
            "backward",
            "backward_with",
            "grad",
            "grad_fn",
            "grad_var",
            "register_hook",
            "register_post_accumulate_grad_hook",
            "retain_grad",
            "safe_where",
            "set_grad",
            "zero_grad",
        ],
    ),
    ("looking at graphs", &["backward_plan", "graph"]),
    ("the value behind it", &["set_value", "update_value", "value"]),
];

/// Each public method that a page of rustdoc lists, and its signature with `Self` for the type.
fn methods(page: &Path, own: &str) -> BTreeMap<String, String> {
    let html = std::fs::read_to_string(page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
    let start = html.find("id=\"implementations-list\"").expect("a type has methods of its own");
    let end = html.find("id=\"trait-implementations\"").expect("and implements traits");
    let mut found = BTreeMap::new();
    for head in html[start..end].split("<h4 class=\"code-header\">").skip(1) {
        let head = &head[..head.find("</h4>").expect("a heading ends")];
        let mut text = String::new();
        let mut inside = false;
        for c in head.chars() {
            match c {
                '<' => inside = true,
                '>' => inside = false,
                c if !inside => text.push(c),
                _ => {}
            }
        }
        let text =
            text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").replace("&nbsp;", " ");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let Some(name) = words.split("fn ").nth(1).and_then(|s| s.split(['(', '<']).next()) else { continue };
        found.insert(name.to_owned(), kinds(&words, own));
    }
    found
}

/// A signature without the names of its arguments, in which both kinds of operands are one.
fn kinds(signature: &str, own: &str) -> String {
    let both = signature.replace("AsOptionalInput", "AsOptionalArg").replace("AsInput", "AsArg");
    let mut out = String::new();
    // A name stands before a colon; `::` does not occur, rustdoc shows the last parts of paths.
    for part in both.split(", ") {
        let part = part.trim().trim_end_matches(',');
        let (before, kind) = part.split_once(": ").unwrap_or(("", part));
        let head = before.rfind('(').map_or("", |at| &before[..=at]);
        out.push_str(head);
        out.push_str(kind);
        out.push(';');
    }
    out.replace("( ", "(").replace(";)", ")").replace(" )", ")").replace(own, "Self").replace(' ', "")
}

#[test]
fn tensors_and_variables_have_the_same_methods() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the workspace");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it lies in the target folder");
    // With the features that all packages together have, and the flags of `.ci/run`, which has made these pages before it runs tests.
    let packages = ["foldback-tensor", "foldback-graph", "tests", "benches"].map(|name| ["-p", name]);
    let made = Command::new(env!("CARGO"))
        .args(["doc", "--offline", "--no-deps", "--quiet"])
        .args(packages.as_flattened())
        .arg("--target-dir")
        .arg(target)
        .env("RUSTDOCFLAGS", "-D warnings")
        .current_dir(root)
        .status()
        .expect("cargo runs");
    assert!(made.success(), "the documentation cannot be made");
    let tensors = methods(&target.join("doc/foldback_tensor/struct.Tensor.html"), "Tensor");
    let variables = methods(&target.join("doc/foldback_graph/struct.Var.html"), "Var");
    assert!(tensors.len() > 250 && variables.len() > 200, "{} and {}", tensors.len(), variables.len());
    let is_in = |list: &[(&str, &[&str])], name: &str| {
        // `try_zeros`, `zeros_with` and `try_zeros_with` are forms of `zeros`.
        let plain = name.strip_prefix("try_").unwrap_or(name);
        let plain = plain.strip_suffix("_with").unwrap_or(plain);
        list.iter().any(|(_, names)| names.contains(&name) || names.contains(&plain))
    };
    let mut wrong = Vec::new();
    for (name, kinds) in &tensors {
        match variables.get(name) {
            None if is_in(TENSORS_ONLY, name) => {}
            None => wrong.push(format!("only a tensor has `{name}`")),
            Some(_) if is_in(TENSORS_ONLY, name) => wrong.push(format!("variables have `{name}`, too")),
            Some(other) if other != kinds => wrong.push(format!("`{name}` differs:\n  {kinds}\n  {other}")),
            Some(_) => {}
        }
    }
    for name in variables.keys().filter(|name| !tensors.contains_key(*name)) {
        if !is_in(VARIABLES_ONLY, name) {
            wrong.push(format!("only a variable has `{name}`"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
