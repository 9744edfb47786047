//! `Strides`: how a tensor lies in its buffer, for those who ask.

use std::fmt;
use std::ops::Deref;

use super::Dims;

/// Steps per axis through a buffer, in elements, outermost axis first: a list that is read as a slice.
///
/// ```
/// use foldback_tensor::tensor;
/// let t = tensor![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
/// assert_eq!(t.strides(), [3, 1]);
/// assert_eq!(t.t().strides()[0], 1);
/// assert!(t.strides() == &[3, 1] && t.strides() == &[3, 1][..]);
/// assert!(t.strides().into_iter().zip(t.dims()).all(|(&step, _)| step > 0));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Strides(pub(crate) Dims<isize>);

impl Deref for Strides {
    type Target = [isize];
    #[inline]
    fn deref(&self) -> &[isize] {
        &self.0
    }
}

impl fmt::Debug for Strides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<const N: usize> PartialEq<[isize; N]> for Strides {
    fn eq(&self, other: &[isize; N]) -> bool {
        self[..] == other[..]
    }
}

impl<const N: usize> PartialEq<&[isize; N]> for Strides {
    fn eq(&self, other: &&[isize; N]) -> bool {
        self[..] == other[..]
    }
}

impl<'a> IntoIterator for &'a Strides {
    type Item = &'a isize;
    type IntoIter = std::slice::Iter<'a, isize>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl PartialEq<&[isize]> for Strides {
    fn eq(&self, other: &&[isize]) -> bool {
        self[..] == other[..]
    }
}
