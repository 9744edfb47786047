//! A plan as a page for a browser: one file, which loads nothing.

use std::fmt::Write;

use super::layers::paths;
use super::text::{bytes, line};
use super::{BackwardPlan, EdgeView, Kept, NodeView, SavedView, Slot};

/// The page with a place for the plan.
const PAGE: &str = include_str!("page.html");

impl BackwardPlan {
    /// The plan as a page: operations in the order in which they run, shapes, folds, what is kept, lines, and the memory along
    /// the pass. Operations of a line or of a layer can be folded together; name the layers by [`named`](BackwardPlan::named).
    ///
    /// It is one file, loads nothing and asks no network.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let plan = tensor![1.0, 2.0].requires_grad().square().sum(..)?.backward_plan()?;
    /// let file = std::env::temp_dir().join("foldback-plan.html");
    /// std::fs::write(&file, plan.to_html())?;
    /// # std::fs::remove_file(&file)?;
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn to_html(&self) -> String {
        PAGE.replace("\"the plan\"", &self.to_json())
    }

    /// What the page shows, as an object of JavaScript.
    fn to_json(&self) -> String {
        let paths = paths(&self.graph);
        let operations: Vec<String> = self
            .steps
            .iter()
            .map(|step| {
                let node = &self.graph.nodes[step.node];
                let edges = node.edges.iter().enumerate();
                let edges = edges.filter_map(|(i, e)| Some(self.edge(i, e.as_ref()?)));
                object(&[
                    ("id", step.node.to_string()),
                    ("name", string(node.name)),
                    ("out", list(node.outputs.iter().map(|o| string(&o.to_string())))),
                    ("line", string(&line(node.location))),
                    ("path", list(paths[step.node].iter().map(|part| string(part)))),
                    ("kept", node.saved_bytes().to_string()),
                    ("saved", list(node.saved.iter().map(|s| self.saved(s)))),
                    ("edges", list(edges)),
                    ("live", list([step.saved, step.gradients].map(|n| n.to_string()))),
                ])
            })
            .collect();
        object(&[
            ("heading", string(&self.heading())),
            ("leaves", self.leaves.to_string()),
            ("peak", self.peak_bytes().to_string()),
            ("operations", list(operations)),
        ])
    }

    fn edge(&self, input: usize, edge: &EdgeView) -> String {
        let to = &self.graph.nodes[edge.node];
        let axes = edge.folded_axes();
        object(&[
            ("input", input.to_string()),
            ("to", edge.node.to_string()),
            ("leaf", if to.is_leaf() { string(&leaf_name(to, edge.node)) } else { "null".to_owned() }),
            ("gradient", string(&edge.gradient.to_string())),
            ("shape", string(&edge.input.to_string())),
            ("axes", list(axes.iter().map(usize::to_string))),
        ])
    }

    fn saved(&self, saved: &SavedView) -> String {
        let what = match saved.slot {
            Slot::Input(n) => format!("input {n}"),
            Slot::Output(_) => "the result".to_owned(),
        };
        let kept = match saved.kept {
            Kept::Here if saved.is_held => format!("{}, held outside the graph, too", bytes(saved.bytes)),
            Kept::Here => bytes(saved.bytes),
            Kept::At(node) => format!("counted at #{node}"),
            Kept::InLeaf(node) => leaf_name(&self.graph.nodes[node], node),
        };
        string(&format!("{what}: {}, {kept}", saved.value))
    }
}

fn leaf_name(node: &NodeView, number: usize) -> String {
    node.label.clone().unwrap_or_else(|| format!("leaf #{number}"))
}

fn object(fields: &[(&str, String)]) -> String {
    let fields: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", fields.join(","))
}

fn list(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(","))
}

/// A string in quotes. No `<`, so that no text ends the script that it stands in.
fn string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '<' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                write!(quoted, "\\u{:04x}", u32::from(c)).expect("a string takes all");
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
