//! What a result and its gradients have to be.

use foldback_tensor::{DType, Error, Tensor, TensorFacts};
use tests::oracle::{Plain, count, for_each_index};

use crate::operations::{Gradient, Operation};

/// The type of a result: the wider of two, but an operand without axes does not widen one that has some.
pub(crate) fn result_type(a: &Tensor, b: &Tensor) -> DType {
    match (a.rank() == 0, b.rank() == 0) {
        (false, true) => a.dtype(),
        (true, false) => b.dtype(),
        _ => a.dtype().max(b.dtype()),
    }
}

/// A result by plain loops, and what rounding may cost it: `slack` units in the last place of its terms.
pub(crate) struct Expected {
    pub(crate) plain: Plain,
    /// the sum of the magnitudes of the terms, per element
    pub(crate) weight: Vec<f64>,
}

impl Expected {
    pub(crate) fn zero(shape: &[usize]) -> Expected {
        Expected { plain: Plain::full(shape, 0.0), weight: vec![0.0; count(shape)] }
    }

    pub(crate) fn add(&mut self, at: usize, term: f64) {
        self.plain.values[at] += term;
        self.weight[at] += term.abs();
    }

    pub(crate) fn check(&self, found: &Tensor, dtype: DType, slack: f64, what: &dyn Fn() -> String) {
        assert_eq!(found.dtype(), dtype, "{}", what());
        let found = Plain::of(found);
        assert_eq!(found.shape, self.plain.shape, "{}", what());
        let both = found.values.iter().zip(&self.plain.values).zip(&self.weight);
        let fits = both.clone().all(|((f, e), w)| f == e || (f - e).abs() <= slack * w);
        assert!(fits, "{}: {:?}, not {:?}", what(), found.values, self.plain.values);
    }
}

/// `value` over a pair that broadcasts.
pub(crate) fn forward(op: &Operation, common: &[usize], a: &Plain, b: &Plain) -> Expected {
    let mut y = Expected::zero(common);
    let mut at = 0;
    for_each_index(common, |i| {
        let rank = common.len();
        y.add(at, (op.value)(a.values[a.place(i, rank)], b.values[b.place(i, rank)]));
        at += 1;
    });
    y
}

/// Both gradients, each added up in the shape of its operand.
pub(crate) fn backward(gradient: Gradient, common: &[usize], [seed, a, b]: [&Plain; 3]) -> [Expected; 2] {
    let mut grads = [Expected::zero(&a.shape), Expected::zero(&b.shape)];
    let mut at = 0;
    for_each_index(common, |i| {
        let (pa, pb) = (a.place(i, common.len()), b.place(i, common.len()));
        let [ga, gb] = gradient(seed.values[at], a.values[pa], b.values[pb]);
        grads[0].add(pa, ga);
        grads[1].add(pb, gb);
        at += 1;
    });
    grads
}

/// What rounding may cost a power or its gradients, in terms of the magnitudes of the terms.
///
/// With the unit roundoff u, `pow` is documented with 1.5 ulp, at most 3u, and `ln` with 0.9 ulp, at most 1.8u. The
/// longest formula, `g * (y * ln a)`, has both and two products more: 6.8u. Up to 81 terms, that is 80 additions, are
/// added up in less than 80u. The oracle's own functions are off by less than 4u of a double. Together under 91u.
pub(crate) fn slack(op: &Operation, dtype: DType) -> f64 {
    let unit = if dtype == DType::F32 { f32::EPSILON as f64 } else { f64::EPSILON } / 2.0;
    if op.exact { 0.0 } else { 91.0 * unit }
}

/// A refusal must name the operands' shapes, and the axis on which they disagree.
pub(crate) fn expect_refusal<T: std::fmt::Debug>(
    result: Result<T, Error>,
    (sa, sb): (&[usize], &[usize]),
    axis: usize,
    what: &dyn Fn() -> String,
) {
    let error = result.expect_err("a refusal");
    match error.facts() {
        Some(TensorFacts::Broadcast { a, b, dim, .. }) => {
            assert_eq!((&a[..], &b[..], *dim), (sa, sb, axis), "{}", what())
        }
        _ => panic!("{}: {error} instead of a refusal", what()),
    }
}
