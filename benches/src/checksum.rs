//! A few numbers that stand for a result, by which runners are compared.

use foldback::Result;
use foldback::tensor::{DType, Tensor};

/// How far the checksums of two runners may lie apart, as a share of the sum of absolute values.
///
/// The runners sum millions of `f32` values in different orders, and training steps carry the differences on. Another
/// computation, a wrong axis or a missing gradient is off by far more.
pub const TOLERANCE: f64 = 1e-3;

/// Three sums over the elements of one tensor, in `f64`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Checksum {
    /// the plain sum
    pub sum: f64,
    /// the sum with weights by position, which tells apart what is only permuted
    pub weighted: f64,
    /// the sum of absolute values, against which differences are judged
    pub magnitude: f64,
}

impl Checksum {
    /// Of values in row-major order.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Checksum {
        let mut c = Checksum { sum: 0.0, weighted: 0.0, magnitude: 0.0 };
        for (i, v) in values.into_iter().enumerate() {
            c.sum += v;
            c.weighted += v * ((i * 7919 % 101) as f64 / 101.0);
            c.magnitude += v.abs();
        }
        c
    }

    /// Of `f32` values in row-major order.
    pub fn of_f32(values: &[f32]) -> Checksum {
        Checksum::of(values.iter().map(|&v| f64::from(v)))
    }

    /// Of a tensor.
    ///
    /// # Errors
    /// Never for tensors of numbers.
    pub fn of_tensor(t: &Tensor) -> Result<Checksum> {
        Ok(Checksum::of(t.to(DType::F64).to_vec::<f64>()?))
    }

    /// Whether the other one can be the same result, rounded differently. Never if a number is not finite.
    pub fn agrees(&self, other: &Checksum) -> bool {
        let room = TOLERANCE * self.magnitude.max(other.magnitude);
        let pairs =
            [(self.sum, other.sum), (self.weighted, other.weighted), (self.magnitude, other.magnitude)];
        pairs.iter().all(|(a, b)| (a - b).abs() <= room)
    }
}

/// Whether two runners computed the same list of results.
pub fn agree(ours: &[Checksum], theirs: &[Checksum]) -> bool {
    ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| a.agrees(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_apart_what_differs() {
        let a = Checksum::of([1.0, 2.0, 3.0]);
        assert!(a.agrees(&Checksum::of([1.0, 2.0, 3.0001])));
        assert!(!a.agrees(&Checksum::of([1.0, 3.0, 2.0])));
        assert!(!a.agrees(&Checksum::of([1.0, 2.0, 3.1])));
        assert!(!a.agrees(&Checksum::of([1.0, 2.0, f64::NAN])));
        assert!(!agree(&[a], &[a, a]));
    }

    #[test]
    fn zeros_agree_with_zeros_only() {
        let zero = Checksum::of([0.0, 0.0]);
        assert!(zero.agrees(&zero));
        assert!(!zero.agrees(&Checksum::of([0.1, 0.0])));
    }
}
