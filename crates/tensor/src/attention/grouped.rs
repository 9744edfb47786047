//! Heads of queries that share heads of keys and values.

use crate::error::{Result, TensorFacts, refuse};
use crate::shape::Shape;

/// The shapes in which each head of keys and values stands beside the group of queries that share it.
#[derive(Clone, Debug)]
pub struct GroupedHeads {
    /// that of the queries, `[.., heads of keys, queries per head, l, e]`
    pub query: Shape,
    /// that of the keys, with an axis of size 1 for the group
    pub key: Shape,
    /// the same of the values
    pub value: Shape,
    /// that of the mask
    pub mask: Option<Shape>,
}

impl GroupedHeads {
    /// The shapes for operands of these.
    ///
    /// # Errors
    /// `Rank` below 3, `Parameter` unless the heads of keys and values divide those of queries.
    pub fn of([q, k, v]: [&Shape; 3], mask: Option<&Shape>) -> Result<GroupedHeads> {
        let op = "scaled_dot_product_attention";
        for (operand, shape) in [("query", q), ("key", k), ("value", v)] {
            if shape.rank() < 3 {
                let (expected, found) = ("at least 3", shape.rank());
                return refuse(TensorFacts::Rank { op, operand, expected, found });
            }
        }
        let heads = |s: &Shape| s[s.rank() - 3];
        let (queries, shared) = (heads(q), heads(k));
        if heads(v) != shared || shared == 0 || !queries.is_multiple_of(shared) {
            let (name, value) = (
                "enable_gqa",
                format!("true of {queries} heads of queries, {shared} of keys and {} of values", heads(v)),
            );
            let expected = "as many heads of keys as of values, which divide those of queries; they are the third axis from the end";
            return refuse(TensorFacts::Parameter { op, name, value, expected });
        }
        let group = queries / shared;
        let split = |s: &Shape, heads: [usize; 2]| -> Shape {
            let at = s.rank() - 3;
            [&s.dims()[..at], &heads[..], &s.dims()[at + 1..]].concat().into()
        };
        let of_mask = |m: &Shape| match m.rank() {
            0..=2 => m.clone(),
            _ if heads(m) == queries && queries > 1 => split(m, [shared, group]),
            _ => split(m, [heads(m), 1]),
        };
        Ok(GroupedHeads {
            query: split(q, [shared, group]),
            key: split(k, [shared, 1]),
            value: split(v, [shared, 1]),
            mask: mask.map(of_mask),
        })
    }

    /// The shape of the result, given that of the grouped one.
    pub fn result(&self, grouped: &Shape) -> Shape {
        let at = grouped.rank() - 4;
        let heads = grouped[at] * grouped[at + 1];
        [&grouped.dims()[..at], &[heads], &grouped.dims()[at + 2..]].concat().into()
    }
}
