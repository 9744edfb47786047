//! Normalisation as formulas, for elements that do not lie in rows.

use crate::kernels::{FloatOps, Formula, Real};
use crate::ops::formulas::real;

real! {
    pub(super) formulas;
    /// The normalised element, weighted.
    Normalised(x, m, r, w, b) = (x - m) * r * w + b;
    /// What the gradient of a weight sums.
    WeightSlope(g, x, m, r) = g * ((x - m) * r);
    /// What the gradient of a bias sums.
    BiasSlope(g) = g;
    /// What the gradient's mean is taken of.
    Weighted(g, w) = g * w;
    /// What its part along the normalised elements is.
    WeightedAlong(g, w, x, m, r) = g * w * ((x - m) * r);
    /// The gradient of an element whose statistics are known.
    FixedSlope(g, w, r) = g * w * r;
    /// The gradient of an element, given the means of [`Weighted`] and of [`WeightedAlong`].
    Slope(g, w, x, m, r, s, t) = (g * w - s - (x - m) * r * t) * r;
    /// The reciprocal of the standard deviation.
    Inverse(variance, eps) = (variance + eps).rsqrt();
    Square(x) = x * x;
}
