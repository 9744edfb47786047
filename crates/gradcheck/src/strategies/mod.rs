//! Strategies for property tests with `proptest`: shapes that broadcast, tensors over them in every layout, and
//! [`check_broadcast_op!`](crate::check_broadcast_op), which tests a whole operation in a line. Behind the feature `proptest`.
//!
//! What fails is made smaller: axes go, sizes become 1, operands stop to broadcast, layouts become row-major and numbers round,
//! as far as the test still fails.
//!
//! ```
//! use foldback_gradcheck::strategies::{broadcasting_inputs, domains::NONZERO, proptest::prelude::*};
//!
//! proptest!(|(x in broadcasting_inputs(2, NONZERO))| {
//!     let [a, b] = &x[..] else { unreachable!() };
//!     prop_assert_eq!(a.add(b).unwrap(), b.add(a).unwrap());
//! });
//! ```

mod inputs;
mod property;
mod shapes;

pub use inputs::{broadcasting_inputs, layouts, tensors};
pub use property::check_broadcast_op;
pub use proptest;
pub use shapes::{broadcastable_shapes, broadcastable_to, shapes};

/// What [`check_broadcast_op!`](crate::check_broadcast_op) calls the kinds of numbers that operands are made of.
pub mod domains {
    use foldback_graph::Domain;

    /// any number
    pub const ANY: Domain = Domain::Any;
    /// away from zero, either sign
    pub const NONZERO: Domain = Domain::NonZero;
    /// above zero
    pub const POSITIVE: Domain = Domain::Positive;
    /// strictly between -1 and 1
    pub const UNIT: Domain = Domain::Unit;
    /// above one
    pub const ABOVE_ONE: Domain = Domain::AboveOne;
    /// away from whole numbers and from halves
    pub const NON_INTEGER: Domain = Domain::NonInteger;
    /// all different within a tensor
    pub const DISTINCT: Domain = Domain::Distinct;
    /// 0 or 1, of which no derivative is taken
    pub const TRUTH: Domain = Domain::Truth;
}
