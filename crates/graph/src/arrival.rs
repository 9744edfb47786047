//! In what shape and memory gradients arrive, for plans: the shape is that before the engine folds it.
//!
//! A row of formulas says it all: its gradients have the output's shape and are folded as they are computed. Other rows
//! say which of these functions is theirs; a test compares them with what the engine meets when it runs every sample of
//! every row.

use foldback_tensor::{Shape, broadcast_shapes};

use crate::node::{Arrival, Node, NodeKind, Way};
use crate::slot::RuleSlot;

/// How the gradient of an input arrives. None for an input that has no gradient.
pub(crate) fn arrival(node: &Node, input: usize) -> Option<Arrival> {
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
            Some(in_full(node, way))
        }
        NodeKind::Function(_, function) => {
            node.input_shape(input)?;
            Some(function.arrival(node, input))
        }
    }
}

/// In the input's shape, in memory of its own.
pub(crate) fn apart(node: &Node, input: usize) -> Arrival {
    Arrival { shape: node.own_shape(input), way: Way::Apart }
}

/// In the input's shape, in the memory of what came in.
pub(crate) fn shared(node: &Node, input: usize) -> Arrival {
    Arrival { shape: node.own_shape(input), way: Way::Shared }
}

/// In the input's shape, in as much memory as what came in.
pub(crate) fn alike(node: &Node, input: usize) -> Arrival {
    Arrival { shape: node.own_shape(input), way: Way::Alike }
}

/// What came in, as it is.
pub(crate) fn unfolded(node: &Node, _input: usize) -> Arrival {
    in_full(node, Way::Shared)
}

/// Of an operation of a user's own: what it returns is not known, but it may leave the fold to the engine.
pub(crate) fn perhaps_unfolded(node: &Node, input: usize) -> Arrival {
    let (own, output) = (node.own_shape(input), &node.metadata[0].shape);
    match broadcast_shapes(&[&own, output]) {
        Ok(shape) if shape == *output => in_full(node, Way::Apart),
        _ => apart(node, input),
    }
}

/// Of a factor of a product: its matrix, or its vector, for each batch of the result.
pub(crate) fn factor(node: &Node, input: usize) -> Arrival {
    let (own, output) = (node.own_shape(input), &node.metadata[0].shape);
    let behind = |axes: usize| &output.dims()[..output.rank().saturating_sub(axes)];
    let shape = match own.rank() {
        1 => joined(behind(1), &own),
        // The other one is a vector.
        rank if rank > output.rank() => own,
        rank => joined(behind(2), &own.dims()[rank - 2..]),
    };
    Arrival { shape, way: Way::Straight }
}

fn in_full(node: &Node, way: Way) -> Arrival {
    Arrival { shape: node.metadata[0].shape.clone(), way }
}

/// These axes, and behind them those.
pub(crate) fn joined(leading: &[usize], own: &[usize]) -> Shape {
    Shape::from([leading, own].concat())
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

    /// Every sample of every row: what a row says of its gradients is what arrives.
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
