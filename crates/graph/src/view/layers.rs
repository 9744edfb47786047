//! Which operations a page folds together: those of a layer, and those of a line.
//!
//! A graph records no layers, but its leaves can be given the names of a model's parameters (`blocks.0.fc.weight`). An
//! operation that reads one belongs to its layer (`blocks.0.fc`), and so do operations of the same line beside it. What is left
//! stands between two layers, and belongs to the module that contains both.

use super::GraphView;
use super::text::line;

/// For each node, the path of its layer; empty where nothing is known.
pub(super) fn paths(graph: &GraphView) -> Vec<Vec<String>> {
    let operations: Vec<usize> = (0..graph.nodes.len()).filter(|&n| !graph.nodes[n].is_leaf()).collect();
    let mut known: Vec<Option<Vec<String>>> = operations.iter().map(|&n| read(graph, n)).collect();
    let lines: Vec<String> = operations.iter().map(|&n| line(graph.nodes[n].location)).collect();
    // Forward in the program is backward here: relu(linear(x)) on one line has its linear behind it.
    for i in (0..known.len().saturating_sub(1)).rev() {
        if known[i].is_none() && lines[i] == lines[i + 1] {
            known[i] = known[i + 1].clone();
        }
    }
    for i in 1..known.len() {
        if known[i].is_none() && lines[i] == lines[i - 1] {
            known[i] = known[i - 1].clone();
        }
    }
    // What is left is between the nearest that are known.
    let (mut after, mut next) = (vec![None; known.len()], None);
    for i in (0..known.len()).rev() {
        next = known[i].as_ref().or(next);
        after[i] = next;
    }
    let (mut paths, mut before) = (vec![Vec::new(); graph.nodes.len()], None);
    for (i, &node) in operations.iter().enumerate() {
        before = known[i].as_ref().or(before);
        paths[node] = before.zip(after[i]).map_or_else(Vec::new, |(a, b)| common(a, b));
    }
    paths
}

/// The layer of the named leaves that an operation reads.
fn read(graph: &GraphView, node: usize) -> Option<Vec<String>> {
    let edges = graph.nodes[node].edges.iter().flatten();
    let layers = edges.filter_map(|e| graph.nodes[e.node].label.as_ref()).map(|label| {
        let parts: Vec<String> = label.split('.').map(str::to_owned).collect();
        parts[..parts.len() - 1].to_vec()
    });
    layers.reduce(|a, b| common(&a, &b))
}

fn common(a: &[String], b: &[String]) -> Vec<String> {
    a.iter().zip(b).take_while(|(a, b)| a == b).map(|(a, _)| a.clone()).collect()
}

#[cfg(test)]
mod tests {
    use foldback_tensor::tensor;

    use super::*;
    use crate::{RequiresGrad, Var};

    #[test]
    fn operations_belong_to_the_layers_of_their_leaves() {
        let leaf = || tensor![1.0, 2.0].requires_grad();
        let (a, b, c) = (leaf(), leaf(), leaf());
        let x = Var::from(tensor![1.0, 1.0]);
        let y = (&x * &a).relu();
        let y = y.exp();
        let y = &y * &b;
        let y = y.tanh();
        let y = &y * &c;
        let names = [("net.0.fc.weight", &a), ("net.0.out.weight", &b), ("net.1.fc.weight", &c)];
        let graph = y.graph().unwrap().named(names);
        let found: Vec<(&str, String)> =
            graph.nodes.iter().zip(paths(&graph)).map(|(n, p)| (n.name, p.join("."))).collect();
        let expected = [
            ("mul", "net.1.fc"),
            ("tanh", "net"),
            ("mul", "net.0.out"),
            ("exp", "net.0"),
            ("relu", "net.0.fc"),
            ("mul", "net.0.fc"),
        ];
        let found: Vec<(&str, &str)> = found.iter().map(|(n, p)| (*n, p.as_str())).collect();
        assert_eq!(found[..6], expected);
    }
}
