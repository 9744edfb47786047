//! Comparing whole tensors: `==`, the traits of `approx`, and `assert_close!`.

use approx::{AbsDiffEq, RelativeEq, UlpsEq};

use crate::dtype::{DType, Element, Scalar, with_block};
use crate::mismatch::{Mismatch, MismatchedPair, Worst};
use crate::ops::{Arg, AsArg};
use crate::shape::Dims;
use crate::tensor::Tensor;

/// Two tensors are equal if their shapes, dtypes and all elements are; a NaN differs from everything.
///
/// This is `==`. The method `eq` of a tensor compares element by element. An axis that both are expanded over is looked at
/// once, here and in all comparisons of whole tensors.
impl PartialEq for Tensor {
    fn eq(&self, other: &Tensor) -> bool {
        if self.dtype() == other.dtype() && self.shape() == other.shape() {
            // A block compare where the elements lie in order, else element by element.
            with_block!(Block, self.storage.block(), s => same_slices(s, self, other))
                .unwrap_or_else(|| all_pairs(&once(self, other), &mut |a, b| a == b))
        } else {
            false
        }
    }
}

impl Tensor {
    /// Whether an operand has the same shape and type and all of its elements are equal, as `==` says of tensors: a NaN differs from
    /// everything. PyTorch's `torch.equal`. A number is equal to a 0-d tensor of any type that holds it, as [`Tensor::eq`] says.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 2.0];
    /// assert!(x.equal(tensor![1.0, 2.0]));
    /// assert!(!x.equal(tensor![1.0, 2.0; f64]) && !x.equal(tensor![[1.0, 2.0]]) && !x.equal(1.0));
    /// ```
    pub fn equal(&self, other: impl AsArg) -> bool {
        match other.arg() {
            Arg::Tensor(t) => self == t,
            Arg::Scalar(s) => self.rank() == 0 && self.eq(s).is_ok_and(|same| same == Tensor::from(true)),
        }
    }

    /// Whether two tensors hold the same bits, in one shape and type: a NaN is itself, and -0.0 is not 0.0. Where both are
    /// one view of one buffer, nothing is read.
    #[doc(hidden)]
    pub fn has_bits_of(&self, other: &Tensor) -> bool {
        let in_one_place = self.shares_buffer_with(other)
            && self.layout.offset() == other.layout.offset()
            && self.strides() == other.strides()
            && self.shape() == other.shape();
        in_one_place || close_pairs(self, other, |x, y| x.to_bits() == y.to_bits())
    }
}

/// Equality of contiguous elements, of the type that the first argument only names.
fn same_slices<T: Element>(_: &[T], a: &Tensor, b: &Tensor) -> Option<bool> {
    Some(a.as_slice::<T>()? == b.as_slice::<T>()?)
}

/// Two tensors of one shape, with size 1 on the axes that both are expanded over: the same pairs, each less often.
fn once(a: &Tensor, b: &Tensor) -> [Tensor; 2] {
    let still: Dims<bool> =
        a.strides().iter().zip(b.strides().iter()).map(|(&a, &b)| a == 0 && b == 0).collect();
    [a, b].map(|t| t.once_along(&still))
}

/// Whether a relation holds for every pair of elements, in row-major order, of two tensors of one shape and type.
fn all_pairs([a, b]: &[Tensor; 2], holds: &mut dyn FnMut(Scalar, Scalar) -> bool) -> bool {
    fn run<T: Element>(
        _: &[T],
        a: &Tensor,
        b: &Tensor,
        holds: &mut dyn FnMut(Scalar, Scalar) -> bool,
    ) -> bool {
        let (Ok(a), Ok(b)) = (a.as_array::<T>(), b.as_array::<T>()) else { return false };
        a.iter().zip(b.iter()).all(|(x, y)| holds(x.to_scalar(), y.to_scalar()))
    }
    with_block!(Block, a.storage.block(), s => run(s, a, b, holds))
}

/// Whether shapes and dtypes agree, numbers are close, and integers and truth values are equal.
fn close_pairs(a: &Tensor, b: &Tensor, close: impl Fn(f64, f64) -> bool) -> bool {
    a.dtype() == b.dtype()
        && a.shape() == b.shape()
        && all_pairs(&once(a, b), &mut |x, y| match (x, y) {
            (Scalar::F64(x), Scalar::F64(y)) => close(x, y),
            _ => x == y,
        })
}

/// Element by element; false if shapes or dtypes differ. Integers and truth values must be equal.
///
/// ```
/// use approx::assert_abs_diff_eq;
/// use foldback_tensor::tensor;
/// assert_abs_diff_eq!(tensor![1.0, 2.0], tensor![1.0, 2.001], epsilon = 0.01);
/// ```
impl AbsDiffEq for Tensor {
    type Epsilon = f64;

    /// That of `f32`.
    fn default_epsilon() -> f64 {
        f32::EPSILON as f64
    }

    fn abs_diff_eq(&self, other: &Tensor, epsilon: f64) -> bool {
        close_pairs(self, other, |x, y| x.abs_diff_eq(&y, epsilon))
    }
}

/// Element by element; false if shapes or dtypes differ. Integers and truth values must be equal.
///
/// ```
/// use approx::assert_relative_eq;
/// use foldback_tensor::tensor;
/// assert_relative_eq!(tensor![1e6, 2.0], tensor![1.001e6, 2.0], max_relative = 0.01);
/// ```
impl RelativeEq for Tensor {
    /// That of `f32`.
    fn default_max_relative() -> f64 {
        f32::EPSILON as f64
    }

    fn relative_eq(&self, other: &Tensor, epsilon: f64, max_relative: f64) -> bool {
        close_pairs(self, other, |x, y| x.relative_eq(&y, epsilon, max_relative))
    }
}

/// Element by element, in units in the last place of the tensors' dtype; false if shapes or dtypes differ. Integers and
/// truth values must be equal.
///
/// ```
/// use approx::assert_ulps_eq;
/// use foldback_tensor::tensor;
/// assert_ulps_eq!(tensor![1.0], tensor![1.0 + f32::EPSILON], max_ulps = 1, epsilon = 0.0);
/// ```
impl UlpsEq for Tensor {
    fn default_max_ulps() -> u32 {
        f32::default_max_ulps()
    }

    fn ulps_eq(&self, other: &Tensor, epsilon: f64, max_ulps: u32) -> bool {
        let single = self.dtype() == DType::F32;
        close_pairs(self, other, |x, y| {
            if single {
                // f32 widened to f64 and back is unchanged; epsilon is compared in f64, where it is not rounded.
                x.abs_diff_eq(&y, epsilon) || (x as f32).ulps_eq(&(y as f32), 0.0, max_ulps)
            } else {
                x.ulps_eq(&y, epsilon, max_ulps)
            }
        })
    }
}

/// Panics unless two tensors have one shape and dtype and close elements: `|a - b| <= atol + rtol * |b|`.
///
/// The defaults are those of `torch.testing.assert_close`: `rtol` 1.3e-6 and `atol` 1e-5 for `f32`, 1e-7 and 1e-7 for
/// `f64`, and 0 for integers and truth values. Equal infinities are close; NaNs are only with `equal_nan = true`. The
/// message names the worst element, and shows up to eight that are not close in columns.
///
/// The second one is expected. Both may be tensors or variables, by value or by reference.
///
/// ```
/// use foldback_tensor::{assert_close, tensor};
/// let a = tensor![1.0, 2.0];
/// assert_close!(a, tensor![1.0, 2.000001]);
/// assert_close!(&a, tensor![1.01, 2.01], atol = 0.02, rtol = 0.0);
/// assert_close!(tensor![f32::NAN], tensor![f32::NAN], equal_nan = true);
/// ```
///
/// ```should_panic
/// use foldback_tensor::{assert_close, tensor};
/// assert_close!(tensor![[1.0, 2.0]], tensor![[1.0, 2.5]]);
/// ```
#[macro_export]
macro_rules! assert_close {
    ($a:expr, $b:expr $(, $name:ident = $value:expr)* $(,)?) => {{
        #[allow(unused_mut)]
        let mut tolerance = $crate::Tolerance::default();
        $($crate::assert_close!(@set tolerance, $name, $value);)*
        if let ::core::result::Result::Err(mismatch) = $crate::compare_close(
            &$crate::Compared::compared(&$a),
            &$crate::Compared::compared(&$b),
            &tolerance,
        ) {
            ::core::panic!("assert_close!({}, {}): {mismatch}", ::core::stringify!($a), ::core::stringify!($b));
        }
    }};
    (@set $t:ident, equal_nan, $value:expr) => { $t.equal_nan = $value };
    (@set $t:ident, $name:ident, $value:expr) => { $t.$name = ::core::option::Option::Some($value) };
}

/// How close [`compare_close`] and [`assert_close!`](crate::assert_close) want elements to be.
///
/// ```
/// use foldback_tensor::Tolerance;
/// let t = Tolerance { atol: Some(1e-3), ..Tolerance::default() };
/// assert_eq!(t.rtol, None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tolerance {
    /// the absolute part; `None` is the default of the dtype
    pub atol: Option<f64>,
    /// the part relative to the expected value; `None` is the default of the dtype
    pub rtol: Option<f64>,
    /// whether two NaNs are close
    pub equal_nan: bool,
}

impl Tolerance {
    /// The absolute and the relative tolerance for a dtype.
    fn of(&self, dtype: DType) -> (f64, f64) {
        let (atol, rtol) = match dtype {
            DType::F32 => (1e-5, 1.3e-6),
            DType::F64 => (1e-7, 1e-7),
            DType::I64 | DType::Bool => (0.0, 0.0),
        };
        (self.atol.unwrap_or(atol), self.rtol.unwrap_or(rtol))
    }
}

/// What has a tensor to be compared: a tensor itself, or a variable.
///
/// ```
/// use foldback_tensor::{Compared, tensor};
/// assert_eq!((&tensor![1.0]).compared(), tensor![1.0]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no tensor to be compared",
    label = "expected a tensor or a variable"
)]
pub trait Compared {
    /// The tensor, which shares its elements.
    fn compared(&self) -> Tensor;
}

impl Compared for Tensor {
    fn compared(&self) -> Tensor {
        self.clone()
    }
}

impl<T: Compared + ?Sized> Compared for &T {
    fn compared(&self) -> Tensor {
        (**self).compared()
    }
}

/// What [`assert_close!`](crate::assert_close) asserts.
///
/// # Errors
/// The difference of shapes or dtypes, or the worst element and how many are not close.
///
/// ```
/// use foldback_tensor::{Tolerance, compare_close, tensor};
/// let e = compare_close(&tensor![1.0, 2.0], &tensor![1.0, 2.5], &Tolerance::default()).unwrap_err();
/// assert!(e.to_string().contains("index [1]"));
/// ```
pub fn compare_close(actual: &Tensor, expected: &Tensor, tolerance: &Tolerance) -> Result<(), Mismatch> {
    if actual.shape() != expected.shape() {
        return Err(Mismatch::new(format!("shapes differ: {} and {}", actual.shape(), expected.shape())));
    }
    if actual.dtype() != expected.dtype() {
        return Err(Mismatch::new(format!("dtypes differ: {} and {}", actual.dtype(), expected.dtype())));
    }
    let (atol, rtol) = tolerance.of(actual.dtype());
    let (mut at, mut worst) = (0usize, Worst::default());
    let pairs = once(actual, expected);
    all_pairs(&pairs, &mut |a, b| {
        if let Some(difference) = excess(a, b, atol, rtol, tolerance.equal_nan) {
            worst.add(MismatchedPair { difference, at, actual: a, expected: b });
        }
        at += 1;
        true
    });
    if worst.wrong == 0 {
        return Ok(());
    }
    let total = actual.numel();
    let wrong = worst.wrong * (total / pairs[0].numel());
    let heading = format!("{wrong} of {total} elements are not close (atol = {atol:?}, rtol = {rtol:?})");
    Err(worst.mismatch(heading, pairs[0].dims(), actual.dtype()))
}

/// The distance between two elements that are not close. Beside a NaN or an infinity it is infinite.
fn excess(a: Scalar, b: Scalar, atol: f64, rtol: f64, equal_nan: bool) -> Option<f64> {
    let (x, y) = (a.to_f64(), b.to_f64());
    if a == b || (equal_nan && x.is_nan() && y.is_nan()) {
        return None;
    }
    let difference = match (a, b) {
        (Scalar::I64(a), Scalar::I64(b)) => a.abs_diff(b) as f64,
        _ => (x - y).abs(),
    };
    if x.is_finite() && y.is_finite() {
        (difference > atol + rtol * y.abs() || rtol.is_nan() || atol.is_nan()).then_some(difference)
    } else {
        Some(f64::INFINITY)
    }
}

#[cfg(test)]
mod tests {
    use approx::{AbsDiffEq, RelativeEq, UlpsEq};

    use super::{Tolerance, compare_close};
    use crate::{DType, Tensor, tensor};

    #[test]
    fn equality_of_bits() {
        let t = tensor![0.0, f32::NAN, 0.0, -0.0, 1.0];
        let part = |start: isize, len: usize| t.narrow(0, start, len).unwrap();
        assert!(part(1, 1).has_bits_of(&tensor![f32::NAN]) && part(0, 2).has_bits_of(&part(0, 2)));
        assert!(part(0, 1).has_bits_of(&part(2, 1)) && !part(2, 1).has_bits_of(&part(3, 1)));
        assert!(!part(0, 2).has_bits_of(&part(3, 2)) && !part(0, 2).has_bits_of(&part(0, 1)));
        assert!(
            !tensor![1.0].has_bits_of(&tensor![1.0; f64]) && !tensor![1; i64].has_bits_of(&tensor![2; i64])
        );
        let number = |v: f64| Tensor::full((), v);
        assert!(number(f64::NAN).has_bits_of(&number(f64::NAN)) && !number(0.0).has_bits_of(&number(-0.0)));
    }

    #[test]
    fn equality_of_whole_tensors() {
        let t = tensor![[1, 2], [3, 4]];
        assert!(t == t.clone());
        assert!(t.t() == tensor![[1, 3], [2, 4]]);
        assert!(t.t() != t);
        assert!(t != tensor![1, 2, 3, 4]);
        assert!(t != t.to(DType::F64));
        assert!(tensor![f32::NAN] != tensor![f32::NAN]);
        assert!(tensor![f32::NAN].expand([2]).unwrap() != tensor![f32::NAN].expand([2]).unwrap());
        assert!(tensor![0.0] == tensor![-0.0]);
        assert!(tensor![i64::MAX; i64].expand([2]).unwrap() != tensor![i64::MAX - 1, i64::MAX; i64]);
        assert!(tensor![] == tensor![] && tensor![] != tensor![[]]);
        assert!(Tensor::scalar(true) == Tensor::scalar(true));
    }

    #[test]
    fn what_both_repeat_is_compared_once() {
        let huge = |row: Tensor| row.expand([1usize << 40, 2]).unwrap();
        let (a, b) = (huge(tensor![1.0, 2.0]), huge(tensor![1.0, 2.5]));
        assert!(a == huge(tensor![1.0, 2.0]) && a != b && a.abs_diff_eq(&b, 0.5));
        assert_close!(a, a);
        let e = compare_close(&a, &b, &Tolerance::default()).unwrap_err().to_string();
        assert!(
            e.starts_with("1099511627776 of 2199023255552 elements") && e.contains("index [0, 1]"),
            "{e}"
        );
        let stored = tensor![[1.0, 2.0], [1.0, 3.0]];
        assert!(tensor![1.0, 2.0].expand([2, 2]).unwrap() != stored);
        assert!(tensor![1.0].expand([0, 2]).unwrap() == tensor![2.0].expand([0, 2]).unwrap());
    }

    #[test]
    fn traits_of_approx() {
        let (a, b) = (tensor![1.0, 100.0], tensor![1.0, 100.5]);
        assert!(a.abs_diff_eq(&b, 0.5) && !a.abs_diff_eq(&b, 0.49));
        assert!(a.relative_eq(&b, 0.0, 0.005) && !a.relative_eq(&b, 0.0, 0.004));
        let next = tensor![1.0 + 2.0 * f32::EPSILON];
        assert!(tensor![1.0].ulps_eq(&next, 0.0, 2) && !tensor![1.0].ulps_eq(&next, 0.0, 1));
        let next = tensor![1.0 + 2.0 * f64::EPSILON; f64];
        assert!(tensor![1; f64].ulps_eq(&next, 0.0, 2) && !tensor![1; f64].ulps_eq(&next, 0.0, 1));
        assert!(!a.abs_diff_eq(&a.to(DType::F64), 1.0));
        assert!(!a.abs_diff_eq(&a.unsqueeze(0).unwrap(), 1.0));
        assert!(!tensor![1; i64].abs_diff_eq(&tensor![2; i64], 5.0));
        assert!(!tensor![f32::NAN].abs_diff_eq(&tensor![f32::NAN], 1.0));
        assert!(tensor![f32::INFINITY].relative_eq(&tensor![f32::INFINITY], 0.0, 0.0));
        assert!(a.t().relative_eq(&a, 0.0, 0.0) && tensor![].abs_diff_eq(&tensor![], 0.0));
    }

    #[test]
    fn close_by_the_defaults_of_the_dtype() {
        assert_close!(tensor![1.0], tensor![1.00001]);
        assert_close!(tensor![1.0; f64], &tensor![1.0000001; f64],);
        assert_close!(tensor![f32::INFINITY], tensor![f32::INFINITY]);
        assert_close!(tensor![[], []], tensor![[], []]);
        let fails =
            |a: &Tensor, b: &Tensor| compare_close(a, b, &Tolerance::default()).unwrap_err().to_string();
        fails(&tensor![1.0], &tensor![1.00002]);
        fails(&tensor![1.0; f64], &tensor![1.000001; f64]);
        fails(&tensor![i64::MAX; i64], &tensor![i64::MAX - 1; i64]);
        fails(&tensor![true; bool], &tensor![false; bool]);
        fails(&tensor![f32::NAN], &tensor![f32::NAN]);
        fails(&tensor![f32::INFINITY], &tensor![f32::NEG_INFINITY]);
        fails(&tensor![f32::INFINITY], &tensor![1.0]);
        assert!(fails(&tensor![1.0], &tensor![[1.0]]).contains("shapes differ: [1] and [1, 1]"));
        assert!(fails(&tensor![1.0], &tensor![1.0; f64]).contains("dtypes differ: f32 and f64"));
    }

    #[test]
    fn given_tolerances() {
        let (a, b) = (tensor![1.0, 10.0], tensor![1.01, 10.1]);
        assert_close!(a, b, rtol = 0.01);
        assert_close!(a, b, atol = 0.11, rtol = 0.0);
        assert_close!(tensor![3; i64], tensor![5; i64], atol = 2.0);
        assert_close!(tensor![f32::NAN, 1.0], tensor![f32::NAN, 1.0], equal_nan = true);
        let none = Tolerance { atol: Some(f64::NAN), ..Tolerance::default() };
        assert!(compare_close(&a, &b, &none).is_err());
    }

    #[test]
    #[should_panic(
        expected = "assert_close!(a, b): 2 of 4 elements are not close (atol = 1e-5, rtol = 1.3e-6)\n    \
                               worst at index [1, 0]: 3.0 against the expected 3.7, difference 0.7000000476837158\n        \
                               index   actual  expected  difference\n        \
                               [0, 1]     2.0       2.1  0.09999990463256836\n        \
                               [1, 0]     3.0       3.7  0.7000000476837158  <- worst"
    )]
    fn the_message_names_the_worst_element() {
        let (a, b) = (tensor![[1, 2], [3, 4]], tensor![[1.0, 2.1], [3.7, 4.0]]);
        assert_close!(a, b);
    }
}
