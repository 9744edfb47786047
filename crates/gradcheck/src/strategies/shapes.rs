//! Shapes, and shapes that broadcast with each other.

use foldback_tensor::Shape;
use proptest::collection::vec;
use proptest::prelude::*;

/// Axes of a shape, at most.
const RANK: usize = 4;

/// A size: now and then 0, else small.
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![12 => 1..=4usize, 1 => Just(0)]
}

/// What an operand makes of the common shape: how many of its first axes it does not have, and which of the rest have size 1.
fn parts() -> impl Strategy<Value = (usize, [bool; RANK])> {
    (0..=RANK, any::<[bool; RANK]>())
}

fn part_of(whole: &[usize], (missing, ones): (usize, [bool; RANK])) -> Shape {
    let one_or_all = |(axis, &size): (usize, &usize)| if ones[axis % RANK] { 1 } else { size };
    let sizes: Vec<usize> = whole.iter().enumerate().map(one_or_all).skip(missing).collect();
    Shape::from(sizes)
}

/// Shapes of up to four axes of up to four elements, seldom of none.
///
/// ```
/// use foldback_gradcheck::strategies::{proptest::prelude::*, shapes};
/// proptest!(|(shape in shapes())| prop_assert!(shape.rank() <= 4));
/// ```
pub fn shapes() -> impl Strategy<Value = Shape> {
    vec(size(), 0..=RANK).prop_map(Shape::from)
}

/// `n` shapes that broadcast with each other.
///
/// ```
/// use foldback_gradcheck::strategies::{broadcastable_shapes, proptest::prelude::*};
/// use foldback_tensor::Tensor;
/// proptest!(|(shapes in broadcastable_shapes(2))| {
///     let [a, b] = [0, 1].map(|i| Tensor::ones(&shapes[i]));
///     prop_assert!(a.add(&b).is_ok());
/// });
/// ```
pub fn broadcastable_shapes(n: usize) -> impl Strategy<Value = Vec<Shape>> {
    (vec(size(), 0..=RANK), vec(parts(), n))
        .prop_map(|(whole, parts)| parts.into_iter().map(|part| part_of(&whole, part)).collect())
}

/// Shapes that can be expanded to this one, itself among them.
///
/// ```
/// use foldback_gradcheck::strategies::{broadcastable_to, proptest::prelude::*};
/// use foldback_tensor::Tensor;
/// proptest!(|(shape in broadcastable_to([2, 3]))| prop_assert!(Tensor::ones(shape).expand([2, 3]).is_ok()));
/// ```
pub fn broadcastable_to(shape: impl Into<Shape>) -> impl Strategy<Value = Shape> {
    let whole = shape.into().to_vec();
    (0..=whole.len(), vec(any::<bool>(), whole.len())).prop_map(move |(missing, ones)| {
        let sizes: Vec<usize> = whole.iter().zip(ones).map(|(&n, one)| if one { 1 } else { n }).collect();
        Shape::from(&sizes[missing..])
    })
}
