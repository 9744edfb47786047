//! The operations, with their gradients by hand.

use foldback_graph::Var;
use foldback_tensor::Tensor;

use crate::operands::{Fill, HALVES};

/// What a gradient `g` of the result adds to those of `a` and `b`.
pub(crate) type Gradient = fn(g: f64, a: f64, b: f64) -> [f64; 2];

/// An operation of two operands, and what the oracle knows of it.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    pub(crate) fills: [Fill; 2],
    pub(crate) value: fn(f64, f64) -> f64,
    /// none for operations with truth values
    pub(crate) gradient: Option<Gradient>,
    pub(crate) tensor: fn(&Tensor, &Tensor) -> foldback_tensor::Result<Tensor>,
    pub(crate) var: fn(&Var, &Var) -> foldback_graph::Result<Var>,
    /// whether everything is computed without rounding
    pub(crate) exact: bool,
}

/// The gradient of the larger one; equal ones share it by halves, as in PyTorch.
fn larger(g: f64, a: f64, b: f64) -> [f64; 2] {
    if a == b {
        [g / 2.0; 2]
    } else if a > b {
        [g, 0.0]
    } else {
        [0.0, g]
    }
}

macro_rules! operation {
    ($name:ident($($alpha:expr)?), $fills:expr, $exact:expr, |$a:ident, $b:ident| $value:expr, $gradient:expr) => {
        Operation {
            name: stringify!($name),
            fills: $fills,
            value: |$a, $b| $value,
            gradient: $gradient,
            tensor: |a, b| a.$name(b $(, $alpha)?),
            var: |a, b| a.$name(b $(, $alpha)?),
            exact: $exact,
        }
    };
}

pub(crate) fn operations() -> Vec<Operation> {
    vec![
        operation!(add(), HALVES, true, |a, b| a + b, Some(|g, _, _| [g, g])),
        operation!(sub(), HALVES, true, |a, b| a - b, Some(|g, _, _| [g, -g])),
        operation!(mul(), HALVES, true, |a, b| a * b, Some(|g, a, b| [g * b, g * a])),
        operation!(
            div(),
            [Fill::Halves, Fill::Divisor],
            true,
            |a, b| a / b,
            Some(|g, a, b| [g / b, -g * a / (b * b)])
        ),
        operation!(
            pow(),
            [Fill::Base, Fill::Halves],
            false,
            |a, b| a.powf(b),
            Some(|g, a, b| [g * b * a.powf(b - 1.0), g * a.powf(b) * a.ln()])
        ),
        operation!(maximum(), HALVES, true, |a, b| if a > b { a } else { b }, Some(larger)),
        operation!(
            minimum(),
            HALVES,
            true,
            |a, b| if a < b { a } else { b },
            Some(|g, a, b| larger(g, -a, -b))
        ),
        operation!(clamp_min(), HALVES, true, |a, b| if a < b { b } else { a }, Some(larger)),
        operation!(
            clamp_max(),
            HALVES,
            true,
            |a, b| if a > b { b } else { a },
            Some(|g, a, b| larger(g, -a, -b))
        ),
        operation!(add_with(0.5), HALVES, true, |a, b| a + 0.5 * b, Some(|g, _, _| [g, 0.5 * g])),
        operation!(sub_with(1.5), HALVES, true, |a, b| a - 1.5 * b, Some(|g, _, _| [g, -1.5 * g])),
        operation!(eq(), HALVES, true, |a, b| (a == b) as u8 as f64, None),
        operation!(ne(), HALVES, true, |a, b| (a != b) as u8 as f64, None),
        operation!(lt(), HALVES, true, |a, b| (a < b) as u8 as f64, None),
        operation!(le(), HALVES, true, |a, b| (a <= b) as u8 as f64, None),
        operation!(gt(), HALVES, true, |a, b| (a > b) as u8 as f64, None),
        operation!(ge(), HALVES, true, |a, b| (a >= b) as u8 as f64, None),
        operation!(logical_and(), HALVES, true, |a, b| (a != 0.0 && b != 0.0) as u8 as f64, None),
        operation!(logical_or(), HALVES, true, |a, b| (a != 0.0 || b != 0.0) as u8 as f64, None),
        operation!(logical_xor(), HALVES, true, |a, b| ((a != 0.0) != (b != 0.0)) as u8 as f64, None),
    ]
}
