//! The page "From PyTorch": what is written for each row of the table, and the checks that hold the two together.
//!
//! A line reads `"row": call, call; "difference"`. The row is named by its first name; its other names and its parameters
//! come from the table. The calls are compiled; those of operations must be the ones that the row makes, all of them and no
//! others, so that neither the page nor the replayer can say or do more than one call.

mod autograd;
mod images;
mod left_out;
mod linalg;
mod nn;
mod pointwise;
mod reduce;
mod source;
mod training;
mod views;

use std::collections::BTreeSet;

pub(super) use self::left_out::is_left_out;
use self::source::{calls, key};
use super::table::{Operation, find, rows};

/// A line of a table on the page.
pub(super) struct Line {
    /// the first name of a row, or PyTorch's own text in a section without rows
    of: &'static str,
    /// our calls
    here: &'static [&'static str],
    difference: &'static str,
}

/// A table of the page under a title.
struct Section {
    title: &'static str,
    lines: &'static [Line],
}

/// The families of operations, in the order of the page.
const SECTIONS: &[Section] = &[
    Section { title: "Element by element", lines: pointwise::LINES },
    Section { title: "Reductions, order and running sums", lines: reduce::LINES },
    Section { title: "Linear algebra", lines: linalg::LINES },
    Section { title: "Shapes, parts and places", lines: views::LINES },
    Section { title: "Convolution, pooling and images", lines: images::LINES },
    Section { title: "Networks and losses", lines: nn::LINES },
];

/// Tables of what is no operation on given tensors, so that the replayer has no rows for it.
const OTHERS: &[Section] = &[
    Section { title: "Making and reading tensors", lines: autograd::TENSORS },
    Section { title: "Gradients", lines: autograd::GRADIENTS },
    Section { title: "Models", lines: training::MODELS },
    Section { title: "Data", lines: training::DATA },
    Section { title: "Training", lines: training::TRAINING },
    Section { title: "Saving", lines: training::SAVING },
];

/// What stands around the tables.
const START: &str = "<!-- tables: written by `UPDATE_PAGES=1 cargo test -p tests --test from_pytorch` -->\n";
const END: &str = "<!-- end of the tables -->\n";

/// Lines whose text is also compiled, as the body of a function of these variables.
macro_rules! lines {
    ($(#[$doc:meta])* $name:ident $variables:tt; $($of:literal: $($here:expr),+; $difference:literal)*) => {
        $(#[$doc])*
        pub(super) const $name: &[$crate::conformance::page::Line] = &[$(
            $crate::conformance::page::Line { of: $of, here: &[$(stringify!($here)),+], difference: $difference }
        ),*];

        const _: () = {
            #[allow(unused_variables, unused_mut, dead_code, clippy::too_many_arguments, clippy::too_many_lines)]
            fn compiled $variables {
                $($(let _ = $here;)+)*
            }
        };
    };
}
use lines;

/// The page with its tables written anew.
///
/// # Panics
/// If the comments that stand around the tables are missing.
pub fn renewed(page: &str) -> String {
    let (head, rest) = page.split_once(START).expect("the page has the comment before the tables");
    let (_, tail) = rest.split_once(END).expect("the page has the comment after the tables");
    let mut text = format!("{head}{START}");
    for section in SECTIONS {
        text += &table(section, |line| find(line.of).map_or(line.of.into(), signature));
    }
    text += &in_place();
    text += &left_out::section();
    for section in OTHERS {
        text += &table(section, |line| format!("`{}`", line.of));
    }
    text + "\n" + END + tail
}

fn table(section: &Section, first: impl Fn(&Line) -> String) -> String {
    let mut text = format!("\n## {}\n\n| PyTorch | here | difference |\n|---|---|---|\n", section.title);
    for line in section.lines {
        let calls: Vec<String> = line.here.iter().map(|call| format!("`{}`", one_line(call))).collect();
        let cells = [first(line), calls.join(", "), line.difference.to_owned()];
        text += &format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
    }
    text
}

/// PyTorch's names for a row, the first one with its parameters.
fn signature(row: &Operation) -> String {
    let mut names = row.names.split(' ');
    let first = names.next().unwrap_or_default();
    let mut text = format!("`{first}({})`", row.parameters.replace(' ', ", "));
    for name in names {
        text += &format!(", `{name}`");
    }
    text
}

/// A call, which `stringify!` breaks into lines if it is long.
fn one_line(call: &str) -> String {
    let mut text = String::new();
    for line in call.lines().map(str::trim) {
        if !(text.is_empty() || text.ends_with('(') || line.starts_with(['.', ')'])) {
            text.push(' ');
        }
        text += line;
    }
    text
}

fn is_in_place(row: &Operation) -> bool {
    row.names.split(' ').all(|name| name.ends_with('_') && !name.starts_with('_'))
}

/// The section of in-place forms: a list.
fn in_place() -> String {
    let mut items = Vec::new();
    for row in rows().filter(|row| is_in_place(row)) {
        let names: Vec<String> = row.names.split(' ').map(|name| format!("`{name}`")).collect();
        let calls = calls(row.source).into_iter().filter(|call| call.ends_with('_'));
        let calls: Vec<String> = calls.map(|call| format!("`{call}`")).collect();
        let same = names == calls;
        items.push(if same {
            names.join(" ")
        } else {
            format!("{} → {}", names.join(" "), calls.join(" "))
        });
    }
    items.sort();
    format!(
        "\n## In place\n\nEach returns `Result<&mut Self>`, so that `m.mul_(0.9)?.add_(&g)?` is one line. A `Var` that \
         is a result stands for the new value then, and its other handles for the old one. A leaf is written inside `no_grad`, and all its \
         handles see it; outside it refuses. After an arrow stand the names that they have \
         here.\n\n{}.\n",
        items.join(", ")
    )
}

/// What is wrong between the table and the page's lines: nothing.
pub fn faults() -> Vec<String> {
    let lines: Vec<&Line> = SECTIONS.iter().flat_map(|s| s.lines).collect();
    let keys = |line: &Line| line.here.iter().filter_map(|call| key(call)).collect::<BTreeSet<&str>>();
    let operations: BTreeSet<&str> = lines.iter().flat_map(|line| keys(line)).collect();
    let mut faults = left_out::faults();
    let mut seen = BTreeSet::new();
    for row in rows() {
        for name in row.names.split(' ') {
            if !seen.insert(name) {
                faults.push(format!("`{name}` stands in two rows of tests/src/conformance/table"));
            }
        }
        if is_in_place(row) {
            continue;
        }
        let first = row.names.split(' ').next().unwrap_or_default();
        let Some(line) = lines.iter().find(|line| line.of == first) else {
            faults.push(format!("`{first}` lacks a line in tests/src/conformance/page: \"{first}\": its call; \"what differs, or nothing\""));
            continue;
        };
        let made: BTreeSet<String> =
            calls(row.source).into_iter().filter(|c| operations.contains(c.as_str())).collect();
        let told: BTreeSet<String> = keys(line).into_iter().map(str::to_owned).collect();
        if made.is_empty() {
            faults.push(format!("the row of `{first}` makes no call that a line of the page tells"));
        }
        for call in made.difference(&told) {
            faults.push(format!("the row of `{first}` calls `{call}`, which its line does not tell: the line lacks it, or the row composes"));
        }
    }
    let mut told = BTreeSet::new();
    for line in lines {
        if find(line.of).is_none_or(|row| row.names.split(' ').next() != Some(line.of)) {
            faults.push(format!(
                "the line of `{}` has no row of that first name in tests/src/conformance/table",
                line.of
            ));
        }
        if !told.insert(line.of) {
            faults.push(format!("`{}` has two lines", line.of));
        }
    }
    faults
}

/// The names, between backticks, that a page's last section claims to be missing and that the table has.
pub fn found_after_all(page: &str) -> Vec<&str> {
    let missing = page.split_once("## What is not here\n").map_or("", |(_, rest)| rest);
    missing.split('`').skip(1).step_by(2).filter(|name| find(name).is_some()).collect()
}
