//! Tensors written out in the source: nested arrays through `From`, and the macro `tensor!`.

use crate::dtype::Element;
use crate::shape::{Dims, Shape};
use crate::tensor::Tensor;

/// An element or an array of arrays of elements, at any depth: what `Tensor::from` accepts.
///
/// ```
/// use foldback_tensor::Tensor;
/// let t = Tensor::from([[[1.0f32, 2.0]], [[3.0, 4.0]]]);
/// assert_eq!(t.dims(), [2, 1, 2]);
/// ```
pub trait NestedArray {
    /// The type at the bottom.
    type Elem: Element;
    #[doc(hidden)]
    fn push_shape(shape: &mut Vec<usize>);
    #[doc(hidden)]
    fn push_elements(self, out: &mut Vec<Self::Elem>);
}

impl<T: Element> NestedArray for T {
    type Elem = T;
    fn push_shape(_: &mut Vec<usize>) {}
    fn push_elements(self, out: &mut Vec<T>) {
        out.push(self);
    }
}

impl<A: NestedArray, const N: usize> NestedArray for [A; N] {
    type Elem = A::Elem;
    fn push_shape(shape: &mut Vec<usize>) {
        shape.push(N);
        A::push_shape(shape);
    }
    fn push_elements(self, out: &mut Vec<A::Elem>) {
        for a in self {
            a.push_elements(out);
        }
    }
}

/// A number makes a 0-d tensor, a nested array one of as many axes as it is deep.
///
/// The dtype is that of the elements; `tensor!` is the form that makes `f32` of literals.
impl<A: NestedArray> From<A> for Tensor {
    fn from(values: A) -> Tensor {
        let mut dims = Vec::new();
        A::push_shape(&mut dims);
        let shape = Shape(Dims::from_vec(dims));
        let mut elements = Vec::with_capacity(shape.numel());
        values.push_elements(&mut elements);
        Tensor::from_storage(A::Elem::storage(elements), shape)
    }
}

/// The vector as a 1-d tensor, without a copy.
impl<T: Element> From<Vec<T>> for Tensor {
    fn from(values: Vec<T>) -> Tensor {
        let shape = Shape::from(values.len());
        Tensor::from_storage(T::storage(values), shape)
    }
}

/// A copy of the slice as a 1-d tensor.
impl<T: Element> From<&[T]> for Tensor {
    fn from(values: &[T]) -> Tensor {
        Tensor::from(values.to_vec())
    }
}

/// A tensor from numbers written out, nested as deep as it has axes.
///
/// The elements are `f32`, also if they are written as integers; after a semicolon stands another type: `bool`, `i64`
/// or `f64`. An element may be any expression that `as` casts to the type.
///
/// One number is a list of one, of shape `[1]` (Rust gives a macro no way to tell `tensor!(3.5)` from `tensor![3.5]`);
/// a 0-d tensor is `Tensor::scalar(3.5f32)`. `tensor![]` has shape `[0]`. Rows of unequal lengths do not compile.
///
/// ```
/// use foldback_tensor::{DType, tensor};
/// let a = tensor![[1, 2, 3], [4, 5, -6]];
/// assert_eq!((a.dims(), a.dtype()), (&[2, 3][..], DType::F32));
/// assert_eq!(tensor![[1, 2]; i64].dtype(), DType::I64);
/// assert_eq!(tensor![true, false; bool].dtype(), DType::Bool);
/// assert_eq!(tensor![1.0].dims(), [1]);
/// assert_eq!(tensor![].dims(), [0]);
/// ```
#[macro_export]
macro_rules! tensor {
    (@nest $t:ident;) => {
        [] as [$t; 0]
    };
    (@nest $t:ident; $([$($x:tt)*]),+ $(,)?) => {
        [$($crate::tensor!(@nest $t; $($x)*)),+]
    };
    (@nest $t:ident; $($x:expr),+ $(,)?) => {
        [$(($x) as $t),+]
    };
    () => {
        $crate::tensor![; f32]
    };
    (; $t:ident) => {
        $crate::tensor!(@make $t;)
    };
    ($([$($x:tt)*]),+ $(,)? ; $t:ident) => {
        $crate::tensor!(@make $t; $([$($x)*]),+)
    };
    ($([$($x:tt)*]),+ $(,)?) => {
        $crate::tensor!(@make f32; $([$($x)*]),+)
    };
    ($($x:expr),+ $(,)? ; $t:ident) => {
        $crate::tensor!(@make $t; $($x),+)
    };
    (@make $t:ident; $($x:tt)*) => {{
        #[allow(clippy::unnecessary_cast, unused_parens)]
        let values = $crate::tensor!(@nest $t; $($x)*);
        <$crate::Tensor as ::core::convert::From<_>>::from(values)
    }};
    ($($x:expr),+ $(,)?) => {
        $crate::tensor!(@make f32; $($x),+)
    };
}

#[cfg(test)]
mod tests {
    use crate::{DType, Tensor};

    #[test]
    fn shapes_and_types_of_literals() {
        assert_eq!(tensor![1, 2, 3].to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0]);
        assert_eq!(tensor![1.5, -2.0,].dims(), [2]);
        assert_eq!(tensor![[1, 2], [3, 4], [5, 6],].dims(), [3, 2]);
        assert_eq!(tensor![[[1.0], [2.0]]].dims(), [1, 2, 1]);
        assert_eq!(tensor![[[[[[1, -2]]]]]; i64].dims(), [1, 1, 1, 1, 1, 2]);
        assert_eq!(tensor![[1, 2]; f64].to_vec::<f64>().unwrap(), [1.0, 2.0]);
        assert_eq!(tensor![true, false; bool].to_vec::<bool>().unwrap(), [true, false]);
        assert_eq!(tensor![[true], [false]; bool].dims(), [2, 1]);
        assert_eq!(tensor![3.5].dims(), [1]);
    }

    #[test]
    fn empty_literals() {
        assert_eq!((tensor![].dims(), tensor![].dtype()), (&[0][..], DType::F32));
        assert_eq!(tensor![; i64].dtype(), DType::I64);
        assert_eq!(tensor![[], []].dims(), [2, 0]);
        assert_eq!(tensor![[], []; f64].dtype(), DType::F64);
    }

    #[test]
    fn elements_may_be_expressions() {
        let (x, n) = (0.5f64, [4usize, 5]);
        let t = tensor![x + 1.0, -x, n[1], if n[0] > 3 { 1 } else { 2 }, f32::NEG_INFINITY];
        assert_eq!(t.to_vec::<f32>().unwrap(), [1.5, -0.5, 5.0, 1.0, f32::NEG_INFINITY]);
        assert_eq!(tensor![9007199254740993i64; i64].item_as::<i64>().unwrap(), 9007199254740993);
    }

    #[test]
    fn from_arrays_vectors_and_numbers() {
        assert_eq!(Tensor::from([[1i64, 2], [3, 4]]), tensor![[1, 2], [3, 4]; i64]);
        assert_eq!(Tensor::from([[0.0f32; 0]; 3]).dims(), [3, 0]);
        assert_eq!(Tensor::from(2.5f64).rank(), 0);
        assert_eq!(Tensor::from(vec![true, false]), tensor![true, false; bool]);
        assert_eq!(Tensor::from(&[1.0f32, 2.0][..]), tensor![1, 2]);
        assert_eq!(Tensor::from([[[[[[1.0f32; 2]; 1]; 2]; 1]; 2]; 1]).dims(), [1, 2, 1, 2, 1, 2]);
    }
}
