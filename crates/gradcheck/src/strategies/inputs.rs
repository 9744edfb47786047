//! Tensors: their numbers and how they lie in memory.

use foldback_graph::Domain;
use foldback_tensor::{Shape, Tensor, or_panic};
use proptest::collection::vec;
use proptest::prelude::*;

use super::shapes::broadcastable_shapes;
use crate::testing::Layout;

/// Elements of the largest tensor that [`broadcasting_inputs`] makes.
const MOST: usize = 256;

/// Numbers that such a tensor is made of. Few, so that making a failure smaller takes few steps; a prime, so that rows differ.
const NUMBERS: usize = 31;

/// A number of a domain, on a grid of eighths that is a little off the round numbers.
fn number(domain: Domain) -> BoxedStrategy<f64> {
    let eighths = |k: i32| f64::from(k) / 8.0 + 0.00037;
    let signed =
        (4..=16, any::<bool>()).prop_map(move |(k, minus)| eighths(k) * if minus { -1.0 } else { 1.0 });
    match domain {
        Domain::NonZero => signed.boxed(),
        Domain::Positive => (4..=16).prop_map(eighths).boxed(),
        Domain::Unit => (-7..=7).prop_map(eighths).boxed(),
        Domain::AboveOne => (10..=24).prop_map(eighths).boxed(),
        Domain::NonInteger => (-9..=8).prop_map(|k| f64::from(k) + 0.25).boxed(),
        Domain::Truth => any::<bool>().prop_map(|b| f64::from(u8::from(b))).boxed(),
        Domain::Any | Domain::Distinct => (-16..=16).prop_map(eighths).boxed(),
    }
}

/// `count` numbers, all of them different where the domain asks for it.
fn numbers(domain: Domain, count: usize, most: usize) -> BoxedStrategy<Vec<f64>> {
    match domain {
        Domain::Distinct => {
            Just((0..most).map(|i| i as f64 * 0.1 - 0.7003).collect::<Vec<f64>>()).prop_shuffle().boxed()
        }
        _ => vec(number(domain), count).boxed(),
    }
}

/// Tensors of a shape whose elements, in `f64`, are numbers of a domain.
///
/// # Panics
/// If the shape is too large for memory.
///
/// ```
/// use foldback_gradcheck::strategies::{domains::POSITIVE, proptest::prelude::*, tensors};
/// proptest!(|(x in tensors([2, 3], POSITIVE))| prop_assert!(x.min(..)?.item_as::<f64>()? > 0.0));
/// ```
pub fn tensors(shape: impl Into<Shape>, domain: Domain) -> impl Strategy<Value = Tensor> {
    let shape = shape.into();
    let count = shape.numel();
    numbers(domain, count, count).prop_map(move |values| or_panic(Tensor::from_vec(values, &shape)))
}

/// How a tensor lies in memory; row-major if it need not be another.
///
/// ```
/// use foldback_gradcheck::strategies::{layouts, proptest::prelude::*};
/// use foldback_tensor::tensor;
/// let x = tensor![[1.0, 2.0], [3.0, 4.0]];
/// proptest!(|(layout in layouts())| prop_assert!(layout.apply(&x).is_some()));
/// ```
pub fn layouts() -> impl Strategy<Value = Layout> {
    proptest::sample::select(&Layout::ALL[..])
}

/// `n` tensors of numbers of a domain, in any layouts, whose shapes broadcast with each other. Their axes of size 1 count as made on
/// purpose, so that [`BroadcastWarning`](foldback_tensor::BroadcastWarning) says nothing.
///
/// ```
/// use foldback_gradcheck::strategies::{broadcasting_inputs, domains::ANY, proptest::prelude::*};
/// proptest!(|(x in broadcasting_inputs(3, ANY))| {
///     prop_assert!(x[0].mul(&x[1]).and_then(|y| y.add(&x[2])).is_ok());
/// });
/// ```
pub fn broadcasting_inputs(n: usize, domain: Domain) -> impl Strategy<Value = Vec<Tensor>> {
    inputs_in(&vec![domain; n])
}

/// Tensors of these domains, as [`broadcasting_inputs`]. Shapes, layouts and numbers do not depend on each other, so that each
/// becomes as small as it can.
pub(super) fn inputs_in(domains: &[Domain]) -> impl Strategy<Value = Vec<Tensor>> + use<> {
    let values: Vec<_> = domains.iter().map(|&d| numbers(d, NUMBERS, MOST)).collect();
    let n = domains.len();
    (broadcastable_shapes(n), vec(layouts(), n), values).prop_map(|(shapes, layouts, values)| {
        let each = shapes.iter().zip(layouts).zip(&values);
        each.map(|((shape, layout), values)| made(shape, layout, values)).collect()
    })
}

/// A tensor of numbers that begin again when there are no more; row-major where it has no such layout. Its axes of size 1 are
/// made on purpose: to broadcast.
fn made(shape: &Shape, layout: Layout, values: &[f64]) -> Tensor {
    let elements = values.iter().copied().cycle().take(shape.numel()).collect::<Vec<f64>>();
    let x = or_panic(Tensor::from_vec(elements, shape));
    let x = layout.apply(&x).unwrap_or(x);
    let ones = (0..x.rank() as isize).filter(|&axis| x.dims()[axis as usize] == 1);
    ones.fold(x.clone(), |x, axis| or_panic(x.squeeze(axis).and_then(|x| x.unsqueeze(axis))))
}
