//! `Collate`: how the items of a batch become one.

use foldback_tensor::{Datum, Here, Tensor};

use crate::error::Result;

/// What a loader can make batches of: tensors are stacked along a new first axis, numbers become a tensor of their type,
/// arrays and tuples are taken part by part, texts become a list.
///
/// These are the rules of PyTorch's
/// [`default_collate`](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.default_collate). A type of one's
/// own says by itself what a batch of it is.
///
/// ```
/// use foldback_data::Collate;
/// use foldback_tensor::tensor;
/// let (x, y) = Collate::collate(vec![(tensor![1.0, 2.0], 7i64), (tensor![3.0, 4.0], 9)])?;
/// assert_eq!(x, tensor![[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(y, tensor![7, 9; i64]);
/// # Ok::<(), foldback_data::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a loader cannot make a batch of items of type `{Self}`",
    note = "items are tensors, numbers, texts, arrays and tuples of them, or types that implement `Collate`"
)]
pub trait Collate: Sized {
    /// What a batch is.
    type Batch;

    /// The items as one.
    ///
    /// # Errors
    /// Whatever stacking refuses: no items, or tensors whose shapes differ.
    fn collate(items: Vec<Self>) -> Result<Self::Batch>;
}

impl Collate for Tensor {
    type Batch = Tensor;

    #[track_caller]
    fn collate(items: Vec<Tensor>) -> Result<Tensor> {
        Tensor::stack(&items, 0).here()
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Collate for $number {
            type Batch = Tensor;

            #[track_caller]
            fn collate(items: Vec<$number>) -> Result<Tensor> {
                number_tensor(items).here()
            }
        }
    )*};
}
numbers!(f32, f64, i64, i32, u8, usize, bool);

fn number_tensor<T: Datum>(items: Vec<T>) -> Result<Tensor> {
    let count = items.len();
    Tensor::from_vec(items, [count])
}

impl Collate for String {
    type Batch = Vec<String>;

    fn collate(items: Vec<String>) -> Result<Vec<String>> {
        Ok(items)
    }
}

impl<T: Collate, const N: usize> Collate for [T; N] {
    type Batch = [T::Batch; N];

    #[track_caller]
    fn collate(items: Vec<[T; N]>) -> Result<[T::Batch; N]> {
        let mut parts: [Vec<T>; N] = std::array::from_fn(|_| Vec::with_capacity(items.len()));
        for item in items {
            parts.iter_mut().zip(item).for_each(|(part, value)| part.push(value));
        }
        let mut batches = Vec::with_capacity(N);
        for part in parts {
            batches.push(T::collate(part)?);
        }
        Ok(batches.try_into().unwrap_or_else(|_| unreachable!("one batch for each of the {N} parts")))
    }
}

macro_rules! tuples {
    ($(($($T:ident $part:ident),*))*) => {$(
        impl<$($T: Collate),*> Collate for ($($T,)*) {
            type Batch = ($($T::Batch,)*);

            #[track_caller]
            fn collate(items: Vec<Self>) -> Result<Self::Batch> {
                $(let mut $part = Vec::with_capacity(items.len());)*
                for item in items {
                    #[allow(non_snake_case)]
                    let ($($T,)*) = item;
                    $($part.push($T);)*
                }
                Ok(($($T::collate($part)?,)*))
            }
        }
    )*};
}
tuples! {
    (A a)
    (A a, B b)
    (A a, B b, C c)
    (A a, B b, C c, D d)
    (A a, B b, C c, D d, E e)
}

#[cfg(test)]
mod tests {
    use foldback_tensor::{DType, tensor};

    use super::*;

    #[test]
    fn tensors_numbers_texts_and_what_is_made_of_them() {
        let (x, y) = (tensor![1.0, 2.0], tensor![3.0, 4.0]);
        let items = vec![
            ([x.clone(), y.clone()], 1.5f32, true, "a".to_owned(), (1usize,)),
            ([y.clone(), x.clone()], 2.5, false, "b".to_owned(), (2,)),
        ];
        let ([first, second], number, truth, text, (count,)) = Collate::collate(items).unwrap();
        assert_eq!(first, tensor![[1.0, 2.0], [3.0, 4.0]]);
        assert_eq!(second, tensor![[3.0, 4.0], [1.0, 2.0]]);
        assert_eq!(number, tensor![1.5, 2.5]);
        assert_eq!(truth, tensor![true, false]);
        assert_eq!(text, ["a", "b"]);
        assert_eq!(count, tensor![1, 2; i64]);
        assert_eq!(Collate::collate(vec![1.0f64]).unwrap().dtype(), DType::F64);
        assert_eq!(Collate::collate(vec![7u8]).unwrap(), Collate::collate(vec![7i32]).unwrap());
        assert_eq!(Collate::collate(vec![7i64]).unwrap(), tensor![7; i64]);
    }

    #[test]
    fn ragged_items_are_refused() {
        let e = Collate::collate(vec![tensor![1.0], tensor![1.0, 2.0]]).unwrap_err();
        assert!(e.to_string().starts_with("stack: tensor 1 has shape [2]"), "{e}");
        assert!(Collate::collate(Vec::<Tensor>::new()).is_err());
        assert_eq!(Collate::collate(Vec::<f32>::new()).unwrap().dims(), [0]);
    }
}
