//! The shape that a gradient has on arrival, and the memory it is in, without computing it.
//!
//! A row of formulas says it all: its gradients have the output's shape and are folded as they are computed. Of a function
//! row only its name is known to a node, so those whose gradients are folded, or lie in the memory of what came in, stand
//! here by their names; a test compares this with what the engine meets when it runs every sample of every row.

use foldback_tensor::{Shape, broadcast_shapes};

use crate::node::{Node, NodeKind};
use crate::rule::RuleSlot;
use crate::table::rows;

/// Where a gradient is when it arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// in the memory of the gradient that came in
    Shared,
    /// in as much memory as the gradient that came in, which may be the same along an axis
    Alike,
    /// computed where it is to be, together with what waits there
    Straight,
    /// in memory of its own
    Apart,
}

/// The shape of an input's gradient before it is folded, and where it is. None for an input that has no gradient.
pub(super) fn arrival(node: &Node, input: usize) -> Option<(Shape, Way)> {
    let output = &node.metadata[0].shape;
    let shape =
        |input: usize| node.next_edges.get(input)?.as_ref().map(|e| &e.node.metadata[e.nr as usize].shape);
    match &node.kind {
        NodeKind::AccumulateGrad(_) => None,
        NodeKind::Rule(rule, _) => {
            let gradient = rule.gradients.get(input)?.as_ref()?;
            let own = |slot: &RuleSlot| matches!(slot, RuleSlot::Grad(_) | RuleSlot::Number(_));
            let way = match gradient.formula {
                None => Way::Shared,
                Some(_) if gradient.reads.iter().all(own) => Way::Alike,
                Some(_) => Way::Straight,
            };
            Some((output.clone(), way))
        }
        NodeKind::Function(name, function) => Some(match function.unfolded(output) {
            Some(unfolded) => (unfolded.clone(), Way::Straight),
            // Of attention's operands, keys and values have one row each for a key.
            None if *name == "scaled_dot_product_attention" && input == 3 => {
                (mask(output, shape(3)?, shape(1).or(shape(2))), Way::Apart)
            }
            None => of_function(name, input, output, shape(input)?),
        }),
    }
}

fn of_function(name: &str, input: usize, output: &Shape, own: &Shape) -> (Shape, Way) {
    match (name, input) {
        ("expand", _) | ("linear", 2) => (output.clone(), Way::Shared),
        ("addmm_with" | "baddbmm_with", 0) => (output.clone(), Way::Alike),
        ("matmul", _) => (factor(output, own), Way::Straight),
        ("scaled_dot_product_attention", _) => (factor(output, own), Way::Apart),
        ("linear", 1) if own.rank() == 2 => {
            (joined(&output.dims()[..output.rank().saturating_sub(2)], own, 0), Way::Straight)
        }
        ("linear", 1) => (joined(&output.dims()[..output.rank().saturating_sub(1)], own, 0), Way::Apart),
        ("linear", 0) if own.rank() > 0 => (own.clone(), Way::Straight),
        ("sum" | "sum_to_size" | "permute" | "transpose" | "reshape" | "squeeze" | "unsqueeze", _) => {
            (own.clone(), Way::Shared)
        }
        ("mean", _) => (own.clone(), Way::Alike),
        _ if rows().any(|row| row.name == name) => (own.clone(), Way::Apart),
        // An operation of a user's own: what it returns is not known, but it may leave the fold to the engine.
        _ if broadcast_shapes(&[own, output]).is_ok_and(|shape| shape == *output) => {
            (output.clone(), Way::Apart)
        }
        _ => (own.clone(), Way::Apart),
    }
}

/// These axes, and behind them those of a shape from one on.
fn joined(leading: &[usize], own: &Shape, from: usize) -> Shape {
    Shape::from([leading, &own.dims()[from..]].concat())
}

/// The gradient of a factor of a product: its matrix, or its vector, for each batch of the result.
fn factor(output: &Shape, own: &Shape) -> Shape {
    let behind = |axes: usize| &output.dims()[..output.rank().saturating_sub(axes)];
    match own.rank() {
        1 => joined(behind(1), own, 0),
        // The other one is a vector.
        rank if rank > output.rank() => own.clone(),
        rank => joined(behind(2), own, rank - 2),
    }
}

/// The gradient of a mask of attention: for every row of the result, a number for each key.
fn mask(output: &Shape, own: &Shape, keys: Option<&Shape>) -> Shape {
    let count = keys.map(|k| k[k.rank() - 2]).or(own.last().copied());
    let rows = &output.dims()[..output.rank() - 1];
    Shape::from([rows, &count.into_iter().collect::<Vec<_>>()].concat())
}

#[cfg(test)]
mod tests {
    use foldback_tensor::{DType, Tensor};

    use crate::engine::trace;
    use crate::{Backward, Domain, RequiresGrad, Var, rows};

    /// Numbers that every row takes: inside the domain, and all different.
    fn input((shape, domain): &(Vec<usize>, Domain)) -> Var {
        let count: usize = shape.iter().product();
        let steps = Tensor::arange_with(0..count as i64, 1, DType::F64).reshape(shape.as_slice()).unwrap();
        match domain {
            Domain::Truth => Var::constant(steps.gt(0.5).unwrap()),
            Domain::AboveOne => (steps * 0.01 + 1.2).requires_grad(),
            _ => (steps * 0.01 + 0.2).requires_grad(),
        }
    }

    /// Of what is written into a part, the shape of the part is known to the function alone.
    const UNKNOWN: [(&str, usize); 2] = [("with_part", 1), ("with_sum", 1)];

    /// Every sample of every row: what the view says of a gradient is what arrives.
    #[test]
    fn gradients_arrive_as_the_view_says() {
        let (mut wrong, mut seen) = (Vec::new(), 0);
        for row in rows() {
            for sample in row.samples() {
                let inputs: Vec<Var> = sample.inputs.iter().map(input).collect();
                let y = (sample.run)(&inputs).unwrap();
                // Of a sample of constants there is nothing to see.
                let Ok(graph) = y.graph() else { continue };
                trace::take();
                y.backward_with(Backward::new().seed(y.value().ones_like())).unwrap();
                for (sequence, input, shape) in trace::take() {
                    let node = graph.nodes().iter().find(|n| n.sequence == sequence).unwrap();
                    let Some(edge) = &node.edges[input] else { continue };
                    seen += 1;
                    if edge.gradient != shape && !UNKNOWN.contains(&(node.name, input)) {
                        wrong.push(format!(
                            "{} ({}), input {input}: {} in the view, {shape} on arrival",
                            node.name, sample.label, edge.gradient
                        ));
                    }
                }
            }
        }
        assert!(seen > 1000, "{seen}");
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
