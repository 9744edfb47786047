//! Graphs for Graphviz.

use std::fmt::Write;

use super::text::{bytes, line};
use super::{BackwardPlan, GraphView, NodeView};

impl GraphView {
    /// The graph in the language of Graphviz: gradients flow along the arrows, leaves are boxes, and a fold is written on its
    /// arrow. The darker an operation, the more bytes it keeps.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0].requires_grad();
    /// let dot = (&x * tensor![1.0, 2.0]).graph()?.to_dot();
    /// assert!(dot.contains("n0 -> n1 [label=\"[2] folded to [1]\\nover axis 0\""));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn to_dot(&self) -> String {
        let mut dot = String::from(
            "digraph backward {\n  node [fontname=\"sans-serif\", style=filled, fillcolor=white];\n  edge [fontname=\"sans-serif\", fontsize=10];\n",
        );
        let most = self.nodes.iter().map(NodeView::saved_bytes).max().unwrap_or(0);
        for (number, node) in self.nodes.iter().enumerate() {
            writeln!(dot, "  n{number} [{}];", attributes(node, most)).expect("a string takes all");
            for edge in node.edges.iter().flatten() {
                write!(dot, "  n{number} -> n{}", edge.node).expect("a string takes all");
                if edge.is_fold() {
                    let label = format!("{} folded to {}\nover {}", edge.gradient, edge.input, edge.axes());
                    write!(dot, " [label={}, color=\"#c2410c\"]", quoted(&label))
                        .expect("a string takes all");
                }
                dot.push_str(";\n");
            }
        }
        dot.push_str("}\n");
        dot
    }
}

impl BackwardPlan {
    /// The plan's graph in the language of Graphviz, see [`GraphView::to_dot`].
    pub fn to_dot(&self) -> String {
        self.graph.to_dot()
    }
}

fn attributes(node: &NodeView, most: usize) -> String {
    let outputs: Vec<String> = node.outputs.iter().map(ToString::to_string).collect();
    let name = match node.label() {
        "" if node.is_leaf() => "leaf",
        "" => node.name,
        label => label,
    };
    let mut label = format!("{name}\n{}", outputs.join(", "));
    let kept = node.saved_bytes();
    if kept > 0 {
        write!(label, "\nkeeps {}", bytes(kept)).expect("a string takes all");
    }
    if !node.is_leaf() {
        write!(label, "\n{}", line(node.location)).expect("a string takes all");
    }
    let shape = if node.is_leaf() { ", shape=box" } else { "" };
    let fill = match kept {
        0 => String::new(),
        kept => format!(", fillcolor=\"0.6 {:.3} 1.0\"", 0.1 + 0.5 * kept as f64 / most as f64),
    };
    format!("label={}{shape}{fill}", quoted(&label))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
