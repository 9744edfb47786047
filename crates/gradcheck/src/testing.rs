//! For tests: values by domain and in other layouts, gradients against stated ones, text for snapshots.

use foldback_graph::Domain;
use foldback_tensor::{Category, DType, Result, Shape, Slice, SliceItem, Slices, Tensor, or_panic};

pub use crate::expected::check_grads;
#[doc(hidden)]
pub use crate::expected::variable;
pub use crate::random::Random;
pub use crate::snapshot::snapshot;
pub use foldback_tensor::Tolerance;

/// Fills a tensor with `f64` numbers of a domain.
///
/// The numbers lie on a grid of thousandths (tenths for [`Domain::Distinct`]) that is a little off the round ones. So
/// no two of them, and no number and a round bound, are closer than a difference step without being equal.
///
/// # Panics
/// If the shape is too large for memory.
///
/// ```
/// use foldback_gradcheck::testing::{Random, fill};
/// use foldback_graph::Domain;
/// let t = fill([2, 3], Domain::Positive, &mut Random::new(1));
/// assert!(t.to_vec::<f64>()?.iter().all(|&v| v > 0.0));
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
pub fn fill(shape: impl Into<Shape>, domain: Domain, random: &mut Random) -> Tensor {
    let shape = shape.into();
    let n = shape.numel();
    let grid = |v: f64| (v * 1000.0).round() / 1000.0 + 0.00037;
    let values = match domain {
        Domain::Any => (0..n).map(|_| grid(random.uniform(-2.0, 2.0))).collect(),
        Domain::NonZero => (0..n).map(|_| grid(random.signed(0.5, 2.0))).collect(),
        Domain::Positive => (0..n).map(|_| grid(random.uniform(0.5, 2.0))).collect(),
        Domain::NonInteger => {
            (0..n).map(|_| (random.uniform(-9.0, 9.0)).floor() + random.uniform(0.1, 0.4)).collect()
        }
        Domain::AboveOne => (0..n).map(|_| grid(random.uniform(1.2, 3.0))).collect(),
        Domain::Unit => (0..n).map(|_| grid(random.uniform(-0.9, 0.9))).collect(),
        Domain::Truth => (0..n).map(|_| (random.next_u64() & 1) as f64).collect(),
        Domain::Distinct => {
            let mut values: Vec<f64> = (0..n).map(|i| i as f64 * 0.1 - 0.7003).collect();
            for i in (1..n).rev() {
                values.swap(i, (random.next_u64() % (i as u64 + 1)) as usize);
            }
            values
        }
    };
    or_panic(Tensor::from_vec(values, &shape))
}

/// How a tensor lies in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Layout {
    /// row-major
    Contiguous,
    /// column-major: all axes reversed twice
    Transposed,
    /// every other element of a larger buffer, from an offset on; what lies between is NaN
    Sliced,
    /// negative strides
    Flipped,
    /// stride 0 along the first axis that is longer than 1, so that its values repeat
    Expanded,
}

impl Layout {
    /// All of them.
    pub const ALL: [Layout; 5] =
        [Layout::Contiguous, Layout::Transposed, Layout::Sliced, Layout::Flipped, Layout::Expanded];

    /// The same values in this layout; `None` where there is no such layout of this shape.
    ///
    /// [`Layout::Expanded`] repeats the first values along its axis.
    ///
    /// ```
    /// use foldback_gradcheck::testing::Layout;
    /// use foldback_tensor::tensor;
    /// let t = tensor![[1, 2], [3, 4]; f64];
    /// assert_eq!(Layout::Transposed.apply(&t).unwrap().strides(), [1, 2]);
    /// assert_eq!(Layout::Sliced.apply(&t).unwrap(), t);
    /// assert_eq!(Layout::Expanded.apply(&t).unwrap(), tensor![[1, 2], [1, 2]; f64]);
    /// ```
    pub fn apply(self, t: &Tensor) -> Option<Tensor> {
        let made = match self {
            Layout::Contiguous => Ok(t.contiguous()),
            Layout::Transposed if t.rank() < 2 => return None,
            Layout::Transposed => reversed(t).and_then(|r| reversed(&r.contiguous())),
            Layout::Sliced => sliced(t),
            Layout::Flipped if t.rank() == 0 => return None,
            Layout::Flipped => t.flip(..).and_then(|r| r.contiguous().flip(..)),
            Layout::Expanded => {
                let axis = t.dims().iter().position(|&n| n > 1)? as isize;
                t.narrow(axis, 0, 1).and_then(|one| one.contiguous().expand(t.shape()))
            }
        };
        Some(made.expect("every tensor has these views"))
    }
}

fn reversed(t: &Tensor) -> Result<Tensor> {
    t.permute((0..t.rank()).rev().collect::<Vec<usize>>())
}

fn sliced(t: &Tensor) -> Result<Tensor> {
    let between = if t.dtype().category() == Category::Float { f64::NAN } else { 1.0 };
    let whole = |shape: Vec<usize>, dtype: DType| Tensor::full_with(shape, between, dtype);
    if t.rank() == 0 {
        let mut buffer = whole(vec![3], t.dtype());
        buffer.slice_assign(1, t)?;
        return buffer.select(0, 1);
    }
    let mut buffer = whole(t.dims().iter().map(|n| 2 * n + 3).collect(), t.dtype());
    let part: Vec<SliceItem> =
        t.dims().iter().map(|&n| SliceItem::from(Slice::new(1, 1 + 2 * n as isize, 2))).collect();
    buffer.slice_assign(Slices::from(part.clone()), t)?;
    buffer.slice(Slices::from(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_keep_values_and_change_strides() {
        let mut random = Random::new(3);
        for shape in [&[][..], &[3], &[2, 3], &[2, 1, 3], &[0], &[2, 0, 3]] {
            let t = fill(shape, Domain::Any, &mut random);
            for layout in Layout::ALL {
                let Some(made) = layout.apply(&t) else { continue };
                assert_eq!(made.shape(), t.shape());
                if layout != Layout::Expanded {
                    assert_eq!(made, t, "{layout:?} {shape:?}");
                }
                if t.numel() > 3 && layout != Layout::Contiguous {
                    assert!(!made.is_contiguous(), "{layout:?} {shape:?}");
                }
            }
        }
    }

    #[test]
    fn values_keep_to_their_domain() {
        let values = |d| fill([1000], d, &mut Random::new(5)).to_vec::<f64>().unwrap();
        assert!(values(Domain::NonZero).iter().all(|v| v.abs() > 0.4));
        assert!(values(Domain::Positive).iter().all(|&v| v > 0.4));
        assert!(values(Domain::Unit).iter().all(|v| v.abs() < 1.0));
        assert!(values(Domain::Truth).iter().all(|&v| v == 0.0 || v == 1.0));
        let mut distinct = values(Domain::Distinct);
        distinct.sort_by(f64::total_cmp);
        assert!(distinct.windows(2).all(|w| w[1] - w[0] > 0.05));
    }
}
