//! `Amounts`: signed numbers, one per axis or end, as callers write them.

use std::fmt;

use smallvec::SmallVec;

/// Signed numbers: how far `roll` moves each axis, how much `pad` adds to each end. Made from a number, an array, a slice or
/// a `Vec` of `i32`, `i64`, `isize` or `usize`.
///
/// ```
/// use foldback_tensor::tensor;
/// let x = tensor![[1, 2, 3], [4, 5, 6]];
/// assert_eq!(x.roll(1, 1)?, tensor![[3, 1, 2], [6, 4, 5]]);
/// assert_eq!(x.roll([1, -1], [0, 1])?, tensor![[5, 6, 4], [2, 3, 1]]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Amounts(SmallVec<[i64; 4]>);

impl Amounts {
    /// The numbers as they were given. What no `i64` holds is the largest.
    pub fn as_slice(&self) -> &[i64] {
        &self.0
    }
}

impl fmt::Debug for Amounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_slice(), f)
    }
}

impl From<&Amounts> for Amounts {
    fn from(amounts: &Amounts) -> Amounts {
        amounts.clone()
    }
}
macro_rules! amounts {
    ($($t:ty),*) => {$(
        impl From<&[$t]> for Amounts {
            fn from(list: &[$t]) -> Amounts {
                Amounts(list.iter().map(|&n| i64::try_from(n).unwrap_or(i64::MAX)).collect())
            }
        }
        impl From<$t> for Amounts {
            fn from(n: $t) -> Amounts {
                Amounts::from(&[n][..])
            }
        }
        impl<const N: usize> From<[$t; N]> for Amounts {
            fn from(list: [$t; N]) -> Amounts {
                Amounts::from(&list[..])
            }
        }
        impl From<Vec<$t>> for Amounts {
            fn from(list: Vec<$t>) -> Amounts {
                Amounts::from(&list[..])
            }
        }
    )*};
}
amounts!(i32, i64, isize, usize);
