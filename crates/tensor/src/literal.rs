//! Tensors written out in the source: nested arrays through `From`, and the macro `tensor!`.

use crate::datum::Datum;
use crate::dtype::Element;
use crate::error::{Error, Here, Result, TensorFacts, or_panic, refuse};
use crate::shape::Shape;
use crate::tensor::Tensor;

/// A number or an array of arrays of numbers, at any depth: what `Tensor::from` accepts.
///
/// ```
/// use foldback_tensor::Tensor;
/// let t = Tensor::from([[[1.0f32, 2.0]], [[3.0, 4.0]]]);
/// assert_eq!(t.dims(), [2, 1, 2]);
/// ```
pub trait NestedArray: Copy {
    /// The type at the bottom.
    type Item: Datum;
    #[doc(hidden)]
    fn push_shape(shape: &mut Vec<usize>);
    /// The numbers one after another, in the same memory.
    #[doc(hidden)]
    fn flattened(values: Vec<Self>) -> Vec<Self::Item>;
}

impl<T: Datum> NestedArray for T {
    type Item = T;
    fn push_shape(_: &mut Vec<usize>) {}
    fn flattened(values: Vec<T>) -> Vec<T> {
        values
    }
}

impl<A: NestedArray, const N: usize> NestedArray for [A; N] {
    type Item = A::Item;
    fn push_shape(shape: &mut Vec<usize>) {
        shape.push(N);
        A::push_shape(shape);
    }
    fn flattened(values: Vec<[A; N]>) -> Vec<A::Item> {
        A::flattened(values.into_flattened())
    }
}

/// The numbers of a list of arrays, in a shape whose first sizes are given.
#[track_caller]
fn nested<A: NestedArray>(values: Vec<A>, mut shape: Vec<usize>) -> Tensor {
    A::push_shape(&mut shape);
    let elements = or_panic(A::Item::elements("from", A::flattened(values)));
    Tensor::from_storage(<A::Item as Datum>::Elem::storage(elements), Shape::from(shape))
}

/// A number makes a 0-d tensor, a nested array one of as many axes as it is deep.
///
/// The dtype is that of the elements, `I64` for all integers; `tensor!` is the form that makes `f32` of literals.
///
/// # Panics
/// For an integer that no `i64` holds.
impl<A: NestedArray> From<A> for Tensor {
    #[track_caller]
    fn from(values: A) -> Tensor {
        nested(vec![values], Vec::new())
    }
}

/// The vector as a 1-d tensor, one of arrays as a tensor with more axes, without a copy (integers other than `i64` are
/// converted to it).
///
/// # Panics
/// For an integer that no `i64` holds.
///
/// ```
/// use foldback_tensor::{Tensor, tensor};
/// assert_eq!(Tensor::from(vec![1.0f32, 2.0]), tensor![1.0, 2.0]);
/// assert_eq!(Tensor::from(vec![[1usize, 2], [3, 4]]), tensor![[1, 2], [3, 4]; i64]);
/// ```
impl<A: NestedArray> From<Vec<A>> for Tensor {
    #[track_caller]
    fn from(values: Vec<A>) -> Tensor {
        let shape = vec![values.len()];
        nested(values, shape)
    }
}

/// A copy of the slice, as of a vector.
impl<A: NestedArray> From<&[A]> for Tensor {
    #[track_caller]
    fn from(values: &[A]) -> Tensor {
        Tensor::from(values.to_vec())
    }
}
/// A copy of the array, as of a vector.
impl<A: NestedArray, const N: usize> From<&[A; N]> for Tensor {
    #[track_caller]
    fn from(values: &[A; N]) -> Tensor {
        Tensor::from(values.to_vec())
    }
}
/// A copy of the vector.
impl<A: NestedArray> From<&Vec<A>> for Tensor {
    #[track_caller]
    fn from(values: &Vec<A>) -> Tensor {
        Tensor::from(values.clone())
    }
}

/// The rows of a matrix. No rows make a tensor of shape `[0, 0]`.
///
/// # Errors
/// `Ragged` if the rows are not all of one length; `Unfit` for an integer that no `i64` holds.
///
/// ```
/// use foldback_tensor::{Tensor, tensor};
/// let rows = vec![vec![1.0f32, 2.0], vec![3.0, 4.0]];
/// assert_eq!(Tensor::try_from(rows)?, tensor![[1.0, 2.0], [3.0, 4.0]]);
/// let e = Tensor::try_from(vec![vec![1.0, 2.0], vec![3.0]]).unwrap_err();
/// assert!(e.to_string().starts_with("try_from: row 1 has 1 element, row 0 has 2: all rows must have one length"));
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
impl<T: Datum> TryFrom<Vec<Vec<T>>> for Tensor {
    type Error = Error;
    #[track_caller]
    fn try_from(rows: Vec<Vec<T>>) -> Result<Tensor> {
        matrix(&rows).here()
    }
}
/// The rows of a matrix, as of a vector.
impl<T: Datum> TryFrom<&[Vec<T>]> for Tensor {
    type Error = Error;
    #[track_caller]
    fn try_from(rows: &[Vec<T>]) -> Result<Tensor> {
        matrix(rows).here()
    }
}
/// The rows of a matrix.
impl<T: Datum> TryFrom<&Vec<Vec<T>>> for Tensor {
    type Error = Error;
    #[track_caller]
    fn try_from(rows: &Vec<Vec<T>>) -> Result<Tensor> {
        matrix(rows).here()
    }
}

fn matrix<T: Datum>(rows: &[Vec<T>]) -> Result<Tensor> {
    let op = "try_from";
    let columns = rows.first().map_or(0, Vec::len);
    if let Some(row) = rows.iter().position(|r| r.len() != columns) {
        return refuse(TensorFacts::Ragged { op, row, found: rows[row].len(), expected: columns });
    }
    let elements = T::elements(op, rows.concat())?;
    Ok(Tensor::from_storage(T::Elem::storage(elements), Shape::from([rows.len(), columns])))
}

/// What a number or truth value in `tensor!` becomes where no type is given.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no element of a tensor: a number or a truth value is expected",
    note = "a `Vec`, a slice or an array becomes a tensor with `Tensor::from`, several tensors with `Tensor::stack`"
)]
pub trait Literal {
    /// `bool` or `f32`.
    type Elem: Element;
    /// As that.
    fn element(self) -> Self::Elem;
}

impl Literal for bool {
    type Elem = bool;
    fn element(self) -> bool {
        self
    }
}
macro_rules! numbers {
    ($($t:ty),*) => {$(
        impl Literal for $t {
            type Elem = f32;
            #[inline]
            fn element(self) -> f32 {
                self as f32
            }
        }
    )*};
}
numbers!(i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, f32, f64);

/// A tensor from numbers written out, nested as deep as it has axes.
///
/// Truth values make a `bool` tensor, numbers one of `f32`, also if they are written as integers. After a semicolon stands
/// another type, to which `as` casts each element: `i64`, `f64`, or any integer, which is held as `i64`. An element may be
/// any expression.
///
/// One number is a list of one, of shape `[1]` (Rust gives a macro no way to tell `tensor!(3.5)` from `tensor![3.5]`);
/// a 0-d tensor is `Tensor::scalar(3.5)`. `tensor![]` has shape `[0]`. Rows of unequal lengths do not compile.
///
/// ```
/// use foldback_tensor::{DType, tensor};
/// let a = tensor![[1, 2, 3], [4, 5, -6]];
/// assert_eq!((a.dims(), a.dtype()), (&[2, 3][..], DType::F32));
/// assert_eq!(tensor![[1, 2]; i64].dtype(), DType::I64);
/// assert_eq!(tensor![[true], [2 > 3]].dtype(), DType::Bool);
/// assert_eq!(tensor![1.0].dims(), [1]);
/// assert_eq!(tensor![].dims(), [0]);
/// ```
#[macro_export]
macro_rules! tensor {
    (@nest default;) => {
        [] as [f32; 0]
    };
    (@nest $t:ident;) => {
        [] as [$t; 0]
    };
    (@nest $t:ident; $([$($x:tt)*]),+ $(,)?) => {
        [$($crate::tensor!(@nest $t; $($x)*)),+]
    };
    (@nest default; $($x:expr),+ $(,)?) => {
        [$($crate::Literal::element($x)),+]
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
        $crate::tensor!(@make default; $([$($x)*]),+)
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
        $crate::tensor!(@make default; $($x),+)
    };
}

#[cfg(test)]
mod tests {
    use crate::{DType, Tensor, TensorFacts, refused};

    #[test]
    fn truth_values_are_bool_and_numbers_f32() {
        let flag = 2 > 3;
        assert_eq!(tensor![true, flag].to_vec::<bool>().unwrap(), [true, false]);
        assert_eq!(tensor![[[true]], [[!flag]]].dims(), [2, 1, 1]);
        assert_eq!(tensor![1, 2.5, 3u8, 4usize, -5i64, 0.5f32].to_vec::<f32>().unwrap()[3..5], [4.0, -5.0]);
        assert_eq!(tensor![1, 2; u8].dtype(), DType::I64);
        assert_eq!(tensor![[7usize, 8]; usize], tensor![[7, 8]; i64]);
    }

    #[test]
    fn rows_make_a_matrix_unless_they_are_ragged() {
        let rows = vec![vec![1u8, 2], vec![3, 4], vec![5, 6]];
        let want = tensor![[1, 2], [3, 4], [5, 6]; i64];
        assert_eq!(Tensor::try_from(&rows).unwrap(), want);
        assert_eq!(Tensor::try_from(&rows[..]).unwrap(), want);
        assert_eq!(Tensor::try_from(rows).unwrap(), want);
        let ragged = vec![vec![true; 3], vec![true; 3], vec![], vec![true]];
        assert!(refused!(
            Tensor::try_from(ragged),
            TensorFacts::Ragged { op: "try_from", row: 2, found: 0, expected: 3 }
        ));
        assert_eq!(Tensor::try_from(Vec::<Vec<f64>>::new()).unwrap().dims(), [0, 0]);
        assert_eq!(Tensor::try_from(vec![Vec::<f64>::new(); 2]).unwrap().dims(), [2, 0]);
        assert!(refused!(Tensor::try_from(vec![vec![u64::MAX]]), TensorFacts::Unfit { op: "try_from", .. }));
    }

    #[test]
    fn a_vector_keeps_its_memory() {
        let values = vec![[1.0f32, 2.0], [3.0, 4.0]];
        let address = values.as_ptr().cast::<f32>();
        let t = Tensor::from(values);
        assert_eq!((t.as_slice::<f32>().unwrap().as_ptr(), t.dims()), (address, &[2, 2][..]));
    }

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
        assert_eq!(Tensor::from(&[1.0f32, 2.0]), tensor![1, 2]);
        assert_eq!(Tensor::from(&vec![[1.0f32], [2.0]]), tensor![[1], [2]]);
        assert_eq!(Tensor::from([[1, 2], [3, 4]]), tensor![[1, 2], [3, 4]; i64]);
        assert_eq!(Tensor::from([[[[[[1.0f32; 2]; 1]; 2]; 1]; 2]; 1]).dims(), [1, 2, 1, 2, 1, 2]);
    }
}
