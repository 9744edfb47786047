//! The numbers that every runner starts from: a small hash of the index, so that Python makes the same without a file.

/// A tensor's shape and the formula of its values, uniform between `low` and `high`.
#[derive(Clone, Copy, Debug)]
pub struct Input<const N: usize> {
    /// the sizes of the axes
    pub shape: [usize; N],
    salt: u32,
    low: f32,
    high: f32,
}

impl<const N: usize> Input<N> {
    /// Values that depend on the salt and the index alone.
    pub const fn new(shape: [usize; N], salt: u32, low: f32, high: f32) -> Input<N> {
        Input { shape, salt, low, high }
    }

    /// The same values in another shape.
    pub const fn with_shape<const M: usize>(&self, shape: [usize; M]) -> Input<M> {
        Input { shape, salt: self.salt, low: self.low, high: self.high }
    }

    /// The values in row-major order.
    pub fn values(&self) -> Vec<f32> {
        let n: usize = self.shape.iter().product();
        let (low, width) = (self.low, self.high - self.low);
        // 24 bits fit an f32, so the product and the sum are rounded once each, here and in numpy.
        let at = |i| low + width * ((hash(i, self.salt) >> 8) as f32 / (1u32 << 24) as f32);
        (0..n as u32).map(at).collect()
    }
}

/// Class numbers from 0 to `classes`, exclusive.
pub fn labels(n: usize, salt: u32, classes: u32) -> Vec<i64> {
    (0..n as u32).map(|i| i64::from(hash(i, salt) % classes)).collect()
}

/// Mixes the bits of the index. The constants are those of well-known 32-bit mixers; any would do.
pub(crate) fn hash(i: u32, salt: u32) -> u32 {
    let mut h = i.wrapping_mul(2_654_435_761).wrapping_add(salt.wrapping_mul(40_503));
    h ^= h >> 15;
    h = h.wrapping_mul(2_246_822_519);
    h ^ (h >> 13)
}

/// `x` of the broadcasts and sums.
pub const X: Input<2> = Input::new([4096, 1024], 1, -0.5, 1.0);
/// A row beside `X`.
pub const ROW: Input<1> = Input::new([1024], 2, 0.5, 1.5);
/// A column beside `X`.
pub const COLUMN: Input<2> = Input::new([4096, 1], 3, 0.5, 1.5);
/// A bias beside `X`.
pub const BIAS: Input<1> = Input::new([1024], 4, -0.5, 1.0);
/// The column of the outer product.
pub const OUTER_COLUMN: Input<2> = Input::new([2048, 1], 5, -0.5, 1.0);
/// The row of the outer product.
pub const OUTER_ROW: Input<2> = Input::new([1, 2048], 6, -0.5, 1.0);
/// Three axes.
pub const CUBE: Input<3> = Input::new([64, 128, 256], 7, -0.5, 1.0);
/// One number per middle index of `CUBE`.
pub const MIDDLE: Input<3> = Input::new([1, 128, 1], 8, 0.5, 1.5);
/// What batch norm normalises.
pub const SAMPLES: Input<2> = Input::new([4096, 256], 9, -0.5, 1.0);
/// Batch norm's scale.
pub const GAMMA: Input<1> = Input::new([256], 10, 0.5, 1.5);
/// Batch norm's shift.
pub const BETA: Input<1> = Input::new([256], 11, -0.5, 1.0);
/// Weights of batch norm's outputs in the loss; without them every gradient would be zero.
pub const SAMPLE_WEIGHT: Input<2> = Input::new([4096, 1], 12, -0.5, 1.0);
/// What is added to batch norm's variance.
pub const EPSILON: f32 = 1e-5;
/// The batched product's left factor.
pub const BATCH_A: Input<4> = Input::new([32, 1, 128, 64], 15, -0.5, 1.0);
/// The batched product's right factor.
pub const BATCH_B: Input<4> = Input::new([1, 8, 64, 128], 16, -0.5, 1.0);
/// Scores of the softmax.
pub const SCORES: Input<2> = Input::new([4096, 1024], 17, -3.0, 3.0);
/// The salt of the labels beside `SCORES`.
pub const SCORE_LABELS: u32 = 18;
/// What elementary functions are applied to.
pub const ELEMENTS: Input<2> = Input::new([4096, 1024], 19, -3.0, 3.0);
/// Images that a network of convolutions has in its middle.
pub const IMAGES: Input<4> = Input::new([32, 64, 56, 56], 90, -0.5, 1.0);
/// Ten elements.
pub const TEN: Input<1> = Input::new([10], 92, -0.5, 1.0);
/// What they are weighed with.
pub const TEN_WEIGHTS: Input<1> = Input::new([10], 93, 0.5, 1.5);
/// The one-element tensor of the chains: `y * x + x` stays between 0.5 and 1.
pub const CHAIN_START: f32 = 0.5;
/// Operations of the chain of W8.
pub const CHAIN_NODES: usize = 20_000;
/// Additions of W15.
pub const ADDITIONS: usize = 1_000_000;

/// The factors of an `n` by `n` product.
pub const fn factors(n: usize) -> [Input<2>; 2] {
    [Input::new([n, n], 13, -0.5, 1.0), Input::new([n, n], 14, -0.5, 1.0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_over_the_range() {
        let values = X.values();
        assert_eq!(values.len(), 4096 * 1024);
        assert!(values.iter().all(|v| (-0.5..1.0).contains(v)));
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / values.len() as f64;
        assert!((mean - 0.25).abs() < 1e-3, "{mean}");
    }

    #[test]
    fn salts_tell_inputs_apart() {
        let [a, b] = factors(64);
        assert_ne!(a.values(), b.values());
    }

    /// What the Python script makes; runners disagree if this changes on one side alone.
    #[test]
    fn known_values() {
        assert_eq!(ROW.values()[..3], [1.052_248_2, 0.675_617_34, 1.211_209_8]);
        assert_eq!(labels(4, SCORE_LABELS, 1024), [836, 362, 428, 49]);
    }
}
