//! `Datum`: the Rust types whose values come into a tensor and go out of it.

use crate::dtype::Element;
use crate::error::{Result, TensorFacts, refuse};

/// A Rust type whose values come into a tensor and go out of it: the four [`Element`] types as they are, and all other
/// integers up to 64 bits, which a tensor holds as `i64`.
///
/// A number that does not fit, on either way, is refused.
///
/// ```
/// use foldback_tensor::{DType, Tensor};
/// let t = Tensor::from(vec![1u8, 255]);
/// assert_eq!(t.dtype(), DType::I64);
/// assert_eq!(t.to_vec::<usize>()?, [1, 255]);
/// assert!(t.to_vec::<i8>().is_err());
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
pub trait Datum: sealed::Sealed + Copy + Send + Sync + 'static {
    /// What a tensor holds it as.
    type Elem: Element;
    #[doc(hidden)]
    fn element(self, op: &'static str) -> Result<Self::Elem>;
    #[doc(hidden)]
    fn datum(op: &'static str, element: Self::Elem) -> Result<Self>;

    /// A vector of them as a tensor holds it.
    #[doc(hidden)]
    fn elements(op: &'static str, values: Vec<Self>) -> Result<Vec<Self::Elem>> {
        values.into_iter().map(|v| v.element(op)).collect()
    }

    /// What a tensor holds as a vector of them.
    #[doc(hidden)]
    fn data(op: &'static str, elements: Vec<Self::Elem>) -> Result<Vec<Self>> {
        elements.into_iter().map(|e| Self::datum(op, e)).collect()
    }

    /// Copies them to where a tensor holds as many.
    #[doc(hidden)]
    fn copy(op: &'static str, values: &[Self], out: &mut [Self::Elem]) -> Result<()> {
        for (o, v) in out.iter_mut().zip(values) {
            *o = v.element(op)?;
        }
        Ok(())
    }
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($t:ty),*) => {$(
        impl sealed::Sealed for $t {}
        impl Datum for $t {
            type Elem = $t;
            #[inline]
            fn element(self, _: &'static str) -> Result<$t> {
                Ok(self)
            }
            #[inline]
            fn datum(_: &'static str, element: $t) -> Result<$t> {
                Ok(element)
            }
            fn elements(_: &'static str, values: Vec<$t>) -> Result<Vec<$t>> {
                Ok(values)
            }
            fn data(_: &'static str, elements: Vec<$t>) -> Result<Vec<$t>> {
                Ok(elements)
            }
            fn copy(_: &'static str, values: &[$t], out: &mut [$t]) -> Result<()> {
                out.copy_from_slice(values);
                Ok(())
            }
        }
    )*};
}
elements!(bool, i64, f32, f64);

macro_rules! integers {
    ($($t:ident),*) => {$(
        impl sealed::Sealed for $t {}
        impl Datum for $t {
            type Elem = i64;
            #[inline]
            fn element(self, op: &'static str) -> Result<i64> {
                i64::try_from(self).or_else(|_| unfit(op, self as i128, "i64"))
            }
            #[inline]
            fn datum(op: &'static str, element: i64) -> Result<$t> {
                $t::try_from(element).or_else(|_| unfit(op, element as i128, stringify!($t)))
            }
        }
    )*};
}
integers!(i8, i16, i32, isize, u8, u16, u32, u64, usize);

#[cold]
fn unfit<T>(op: &'static str, value: i128, to: &'static str) -> Result<T> {
    refuse(TensorFacts::Unfit { op, value, to })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Tensor, refused, tensor};

    #[test]
    fn integers_of_every_width_go_in_and_out() {
        macro_rules! both_ways {
            ($($t:ty),*) => {$(
                let values: Vec<$t> = vec![<$t>::MIN, 0, 7, <$t>::MAX];
                let t = Tensor::from(values.clone());
                assert_eq!(t.dtype(), DType::I64);
                assert_eq!(t.select(0, -1).unwrap().item_as::<i64>().unwrap(), <$t>::MAX as i64);
                assert_eq!(Tensor::from_vec(values.clone(), (2, -1)).unwrap().flatten(..).unwrap(), t);
                assert_eq!(Tensor::from_slice(&values, 4).unwrap(), t);
                assert_eq!(t.to_vec::<$t>().unwrap(), values);
                assert_eq!(t.select(0, 2).unwrap().item_as::<$t>().unwrap(), 7);
            )*};
        }
        both_ways!(i8, i16, i32, isize, u8, u16, u32);
        assert_eq!(Tensor::from(vec![3usize, 4]), tensor![3, 4; i64]);
        assert_eq!(Tensor::from([3u64, 4]).to_vec::<u64>().unwrap(), [3, 4]);
        assert_eq!(Tensor::from(-3isize).item_as::<isize>().unwrap(), -3);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let t = tensor![1, 300; i64];
        assert!(refused!(t.to_vec::<u8>(), TensorFacts::Unfit { op: "to_vec", value: 300, to: "u8" }));
        let e = tensor![-1; i64].item_as::<usize>().unwrap_err().to_string();
        assert!(e.starts_with("item_as: -1 does not fit usize: use i64 (at "), "{e}");
        let big = i64::MAX as u64 + 1;
        let e = Tensor::from_vec(vec![big], 1).unwrap_err().to_string();
        assert!(e.starts_with("from_vec: 9223372036854775808 does not fit i64: use f64 (at "), "{e}");
        assert!(refused!(Tensor::from_slice(&[0, big], 2), TensorFacts::Unfit { op: "from_slice", .. }));
        assert!(refused!(
            tensor![1.0].to_vec::<i32>(),
            TensorFacts::DTypeMismatch { expected: DType::I64, .. }
        ));
    }

    #[test]
    #[should_panic(expected = "from: 18446744073709551615 does not fit i64: use f64")]
    fn from_panics_with_the_same_text() {
        let _ = Tensor::from(vec![u64::MAX]);
    }
}
