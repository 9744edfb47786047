//! The function of a fully connected layer, and what shapes it takes.

use foldback_graph::Var;
use foldback_tensor::{Here, refuse};

use crate::error::{NnFacts, Result};

/// `input W^T + b` over the last axis: an input `[.., in]`, a weight `[out, in]` and a bias `[out]` give `[.., out]`.
/// A weight `[in]` and a bias `[]` give `[..]`.
/// PyTorch's [`linear`](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.linear.html).
///
/// # Errors
/// `Features` and `ParameterShape` if the shapes do not fit; `MixedDTypes` if the types differ.
///
/// ```
/// use foldback_graph::RequiresGrad;
/// use foldback_nn::linear;
/// use foldback_tensor::tensor;
/// let (x, w) = (tensor![[1.0, 2.0]].requires_grad(), tensor![[3.0, 4.0]].requires_grad());
/// assert_eq!(linear(&x, &w, None)?.value(), tensor![[11.0]]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[track_caller]
pub fn linear(input: &Var, weight: &Var, bias: Option<&Var>) -> Result<Var> {
    let value = match bias {
        // As a sum its type is the common one.
        Some(b) if b.dtype() != weight.dtype() => {
            check(input, weight, bias).here()?;
            return input.linear(weight, None)?.add(b);
        }
        _ => input.linear(weight, bias),
    };
    // What is wrong is looked up when something is.
    value.map_err(|e| check(input, weight, bias).err().unwrap_or(e)).here()
}

/// Refuses shapes that do not fit, in this crate's words.
fn check(input: &Var, weight: &Var, bias: Option<&Var>) -> Result<()> {
    // A weight without an axis of outputs is no layer's, but PyTorch's function takes it, too.
    match bias.map(Var::shape) {
        Some(found) if weight.rank() == 1 && found.rank() != 0 => {
            let expected = "[]".to_owned();
            return refuse(NnFacts::ParameterShape {
                op: "linear",
                name: "a bias",
                expected,
                found: found.clone(),
            });
        }
        _ if weight.rank() == 1 => {}
        _ => check_parameters(weight, bias)?,
    }
    let (shape, expected) = (input.shape(), weight.shape()[weight.rank() - 1]);
    if shape.last() != Some(&expected) {
        return refuse(NnFacts::Features { op: "linear", expected, found: shape.clone() });
    }
    Ok(())
}

pub(super) fn check_parameters(weight: &Var, bias: Option<&Var>) -> Result<()> {
    let found = weight.shape();
    if found.rank() != 2 {
        let expected = "[out, in]".to_owned();
        return refuse(NnFacts::ParameterShape {
            op: "linear",
            name: "a weight",
            expected,
            found: found.clone(),
        });
    }
    match bias.map(Var::shape) {
        Some(shape) if *shape != [found[0]] => {
            let expected = format!("[{}]", found[0]);
            refuse(NnFacts::ParameterShape { op: "linear", name: "a bias", expected, found: shape.clone() })
        }
        _ => Ok(()),
    }
}
