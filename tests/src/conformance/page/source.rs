//! What a row of the table calls, read from its text.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The methods and functions that a row calls, without `try_`: those of the arguments (`a.var(..)`) left out, those of the
/// helpers in the row's file included.
pub(super) fn calls([text, file]: [&str; 2]) -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the workspace");
    let file = fs::read_to_string(root.join(file)).expect("the table is read where it was compiled");
    let mut found = BTreeSet::new();
    let mut helpers = BTreeSet::new();
    let mut todo = vec![text.to_owned()];
    while let Some(text) = todo.pop() {
        for (call, is_free) in names(&text) {
            if !is_free {
                found.insert(call.strip_prefix("try_").unwrap_or(&call).to_owned());
            } else if let Some(body) = body(&file, &call)
                && helpers.insert(call)
            {
                todo.push(body.to_owned());
            }
        }
    }
    found
}

/// The first method or function of a call on the page, or the type whose setters it goes through.
pub(super) fn key(call: &str) -> Option<&str> {
    let call = call.strip_prefix("loss::").unwrap_or(call);
    let call = call.strip_prefix("Var::").unwrap_or(call);
    let first = |text: &str| text.find(|c: char| !is_name(c)).unwrap_or(text.len());
    let name = match call[first(call)..].strip_prefix('.') {
        Some(method) => &method[..first(method)],
        None => &call[..first(call)],
    };
    name.starts_with(char::is_alphabetic).then_some(name)
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The names of methods, functions and types with constructors in a text, and of free functions, which are told apart. A
/// row may be the name of one.
fn names(text: &str) -> Vec<(String, bool)> {
    // A chain may be broken into lines.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ").replace(" .", ".");
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = text[at..].find(is_name).map(|i| at + i) {
        let end = text[start..].find(|c| !is_name(c)).map_or(text.len(), |i| start + i);
        let (before, name, after) = (&text[..start], &text[start..end], &text[end..]);
        let owner = |dots: usize| {
            let before = &before[..before.len() - dots];
            &before[before.rfind(|c| !is_name(c)).map_or(0, |i| i + 1)..]
        };
        if before.ends_with("::") {
            if ["Var", "loss"].contains(&owner(2)) {
                found.push((name.to_owned(), false));
            }
        } else if before.ends_with('.') && !before.ends_with("..") {
            if owner(1) != "a" {
                found.push((name.to_owned(), false));
            }
        } else if after.starts_with("::new") {
            found.push((name.to_owned(), false));
        } else if after.is_empty() || after.starts_with(['(', ',', ')']) {
            found.push((name.to_owned(), true));
        }
        at = end;
    }
    found
}

/// The text of a function in a file.
fn body<'a>(file: &'a str, name: &str) -> Option<&'a str> {
    let start = [format!("fn {name}("), format!("fn {name}<")].iter().find_map(|head| file.find(head))?;
    let body = &file[start..];
    Some(&body[body.find('{')?..body.find("\n}\n").unwrap_or(body.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names in the text of a row, free functions left out.
    fn called(text: &str) -> Vec<String> {
        names(text).into_iter().filter(|(_, is_free)| !is_free).map(|(name, _)| name).collect()
    }

    #[test]
    fn the_calls_of_a_row_are_all_found() {
        assert_eq!(
            called("|a| one(a.var(\"input\")?.neg().softmax(a.int_of(\"dim\")?))"),
            ["neg", "softmax"]
        );
        assert_eq!(called("|a| x\n    .to(dtype)\n    .sum(..)"), ["to", "sum"]);
        assert_eq!(called("joined(a, Var::cat, |x| isize::max(0, x..y))"), ["cat"]);
        assert_eq!(called("MSELoss::new().forward(&a.var(\"input\")?, t)"), ["MSELoss", "forward"]);
        let here = concat!("tests/src/conformance/page/", "source.rs");
        assert!(calls(["names", here]).contains("split_whitespace"));
    }

    #[test]
    fn the_key_of_a_call_is_its_first_name() {
        let calls = [
            "x.sum(..)",
            "Var::cat([&x, &y], 0)",
            "loss::MSELoss::new().weight(w)",
            "q.dot(&k)",
            "loss::nll_loss(&x, &y)",
            "&x + &y",
            "1.0 - &x",
        ];
        assert_eq!(
            calls.map(|c| key(c).unwrap_or("-")),
            ["sum", "cat", "MSELoss", "dot", "nll_loss", "-", "-"]
        );
    }
}
