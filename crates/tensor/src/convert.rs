//! Values out of tensors, and ndarray arrays in and out.

use std::cmp::Reverse;

use ndarray::{
    ArrayBase, ArrayD, ArrayViewD, Axis, Data, Dimension, IxDyn, OwnedRepr, ShapeBuilder, ViewRepr, s,
};

use crate::create::expect_room;
use crate::datum::Datum;
use crate::dtype::{Element, Scalar, with_block};
use crate::error::{Here, Result, TensorFacts, or_panic, refuse};
use crate::shape::{Dims, Shape};
use crate::tensor::{Layout, Tensor};

/// # Values out
impl Tensor {
    /// The only element, as an `f64`; `true` is 1.
    ///
    /// # Errors
    /// `NotASingleElement` unless there is exactly one.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[2.5]].item()?, 2.5);
    /// assert!(tensor![1.0, 2.0].item().is_err());
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    #[doc(alias = "to_scalar")]
    pub fn item(&self) -> Result<f64> {
        Ok(self.only().here()?.to_f64())
    }

    /// The only element of a tensor that has one, cast to `T`.
    ///
    /// # Errors
    /// `NotASingleElement`; `Unfit` if the number is not in the range of `T`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[2.5]].item_as::<f64>()?, 2.5);
    /// assert!(tensor![1.0, 2.0].item_as::<f32>().is_err());
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn item_as<T: Datum>(&self) -> Result<T> {
        let element = T::Elem::from_scalar(self.only().here()?);
        T::datum("item_as", element).here()
    }

    fn only(&self) -> Result<Scalar> {
        if self.numel() != 1 {
            return refuse(TensorFacts::NotASingleElement { shape: self.shape().clone() });
        }
        Ok(self.scalar_at(self.layout.offset()))
    }

    /// The element at a place of the buffer.
    pub(crate) fn scalar_at(&self, place: usize) -> Scalar {
        with_block!(Block, self.storage.block(), s => s[place].to_scalar())
    }

    /// The elements in row-major order.
    ///
    /// # Errors
    /// `DTypeMismatch` if the elements are not of type `T` (for integers, not `i64`); cast them with [`Tensor::to`]
    /// first. `Unfit` for an integer outside the range of `T`. `TooLarge` if no memory can hold as many elements as this view
    /// has.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let t = tensor![[1.0, 2.0], [3.0, 4.0]].t();
    /// assert_eq!(t.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
    /// assert_eq!(tensor![1, 2; i64].to_vec::<u8>()?, [1, 2]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    #[doc(alias = "to_vec2")]
    pub fn to_vec<T: Datum>(&self) -> Result<Vec<T>> {
        self.values_out("to_vec").here()
    }

    /// [`Tensor::to_vec`] in the name of another operation.
    fn values_out<T: Datum>(&self, op: &'static str) -> Result<Vec<T>> {
        self.expect_dtype(op, "elements", T::Elem::DTYPE)?;
        expect_room(op, self.shape(), T::Elem::DTYPE)?;
        if let Some(s) = self.as_slice::<T::Elem>() {
            return T::data(op, s.to_vec());
        }
        let mut values = vec![T::Elem::default(); self.numel()];
        self.copy_into(op, T::Elem::block_mut(&mut values))?;
        T::data(op, values)
    }

    /// The elements as an ndarray view, without a copy, whatever the strides are (negative, or 0 where expanded).
    ///
    /// # Errors
    /// `DTypeMismatch` if the elements are not of type `T`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let t = tensor![[1.0, 2.0], [3.0, 4.0]].flip(1)?;
    /// let view = t.as_array::<f32>()?;
    /// assert_eq!(view[[0, 1]], 1.0);
    /// assert_eq!(view.sum(), 10.0);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn as_array<T: Element>(&self) -> Result<ArrayViewD<'_, T>> {
        self.expect_dtype("as_array", "elements", T::DTYPE).here()?;
        let all = T::slice(self.storage.block()).expect("the type was compared");
        let shape = IxDyn(self.dims());
        if self.numel() == 0 {
            return Ok(ArrayViewD::from_shape(shape, &[]).expect("an empty view needs no elements"));
        }
        // ndarray takes strides as unsigned numbers: view each axis from its low end, then turn it round.
        let (mut low, own) = (self.layout.offset() as isize, self.layout.strides());
        let mut strides: Dims<usize> = Dims::new();
        for (&size, &stride) in self.layout.shape.iter().zip(&own) {
            if size > 1 {
                low += (size as isize - 1) * stride.min(0);
                strides.push(stride.unsigned_abs());
            } else {
                strides.push(0);
            }
        }
        let mut view = ArrayViewD::from_shape(shape.strides(IxDyn(&strides)), &all[low as usize..])
            .expect("a layout stays inside its buffer");
        for (i, (&size, &stride)) in self.layout.shape.iter().zip(&own).enumerate() {
            if size > 1 && stride < 0 {
                view.invert_axis(Axis(i));
            }
        }
        Ok(view)
    }

    /// The elements as an ndarray array of its own, row-major.
    ///
    /// # Errors
    /// As [`Tensor::to_vec`].
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let a = tensor![[1.0, 2.0]].to_array::<f32>()?;
    /// assert_eq!(a.shape(), [1, 2]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn to_array<T: Datum>(&self) -> Result<ArrayD<T>> {
        self.array_out("to_array").here()
    }

    /// The elements as an ndarray array that takes over the memory of this tensor: nothing is copied if nobody else holds
    /// it and the elements fill one stretch of it, in whatever order of axes. Else a row-major copy, as
    /// [`Tensor::to_array`] makes.
    ///
    /// # Errors
    /// `DTypeMismatch` if the elements are not of type `T`; `TooLarge` if no memory can hold a copy that is needed.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let t = tensor![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
    /// let first = t.as_slice::<f32>().map(<[f32]>::as_ptr);
    /// let a = t.into_array::<f32>()?;
    /// assert_eq!(a, ndarray::array![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]].into_dyn());
    /// assert_eq!(Some(a.as_ptr()), first);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn into_array<T: Element>(self) -> Result<ArrayD<T>> {
        const OP: &str = "into_array";
        self.expect_dtype(OP, "elements", T::DTYPE).here()?;
        // From the widest stride to the narrowest: axes that fill a stretch of memory are row-major in that order.
        let mut order: Dims<usize> = (0..self.rank()).collect();
        let own = self.strides();
        order.sort_by_key(|&axis| Reverse(own[axis]));
        let shape = Shape(order.iter().map(|&axis| self.dims()[axis]).collect());
        let strides = order.iter().map(|&axis| own[axis]).collect();
        let sorted = Layout::strided(shape, strides, self.layout.offset(), false);
        if !sorted.is_contiguous() {
            return self.array_out(OP).here();
        }
        match self.storage.into_array::<T>() {
            Ok(all) => {
                let own = all.slice_move(s![sorted.offset()..sorted.offset() + sorted.shape.numel()]);
                let own =
                    own.into_shape_with_order(IxDyn(&sorted.shape)).expect("a stretch of as many elements");
                let mut back: Dims<usize> = Dims::from_elem(0, order.len());
                for (i, &axis) in order.iter().enumerate() {
                    back[axis] = i;
                }
                Ok(own.permuted_axes(IxDyn(&back)))
            }
            Err(storage) => Tensor { storage, layout: self.layout }.array_out(OP).here(),
        }
    }

    fn array_out<T: Datum>(&self, op: &'static str) -> Result<ArrayD<T>> {
        let values = self.values_out(op)?;
        Ok(ArrayD::from_shape_vec(IxDyn(self.dims()), values).expect("as many elements as the shape holds"))
    }
}

/// The array's own vector with the array's strides: no element is copied, whatever the layout (integers other than `i64`
/// are converted to it).
///
/// # Panics
/// For an integer that no `i64` holds.
///
/// ```
/// use foldback_tensor::{Tensor, ndarray, tensor};
/// let a = ndarray::array![[1.0f32, 2.0], [3.0, 4.0]];
/// assert_eq!(Tensor::from(a.reversed_axes()), tensor![[1.0, 3.0], [2.0, 4.0]]);
/// ```
impl<T: Datum, D: Dimension> From<ArrayBase<OwnedRepr<T>, D>> for Tensor {
    #[track_caller]
    fn from(array: ArrayBase<OwnedRepr<T>, D>) -> Tensor {
        let shape = Shape::from(array.shape());
        let strides = Dims::from_slice(array.strides());
        let (values, offset) = array.into_raw_vec_and_offset();
        match offset {
            Some(offset) if shape.numel() > 0 => {
                let whole = Tensor::from(values);
                whole.with_layout(Layout::strided(shape, strides, offset, false))
            }
            _ => Tensor::from_storage(T::Elem::storage(Vec::new()), shape),
        }
    }
}

/// A row-major copy of the view.
///
/// # Panics
/// If no memory can hold it, as of a broadcast view; for an integer that no `i64` holds.
impl<T: Datum, D: Dimension> From<ArrayBase<ViewRepr<&T>, D>> for Tensor {
    #[track_caller]
    fn from(view: ArrayBase<ViewRepr<&T>, D>) -> Tensor {
        copied(&view)
    }
}

/// A row-major copy of the array.
///
/// # Panics
/// For an integer that no `i64` holds.
impl<T: Datum, D: Dimension> From<&ArrayBase<OwnedRepr<T>, D>> for Tensor {
    #[track_caller]
    fn from(array: &ArrayBase<OwnedRepr<T>, D>) -> Tensor {
        copied(array)
    }
}

#[track_caller]
fn copied<T: Datum, S: Data<Elem = T>, D: Dimension>(array: &ArrayBase<S, D>) -> Tensor {
    let shape = Shape::from(array.shape());
    or_panic(expect_room("from", &shape, T::Elem::DTYPE));
    let values: Vec<T> = match array.as_slice() {
        Some(s) => s.to_vec(),
        None => array.iter().copied().collect(),
    };
    Tensor::from_storage(T::Elem::storage(or_panic(T::elements("from", values))), shape)
}

#[cfg(test)]
mod tests {
    use ndarray::{Array, Array0, Array1, Array2, ArrayD, IxDyn, ShapeBuilder, arr0, array, s};

    use crate::{DType, Tensor, TensorFacts, refused, tensor};

    #[test]
    fn item_casts() {
        assert_eq!(tensor![2.9].item_as::<i64>().unwrap(), 2);
        assert!(Tensor::from(-1i64).item_as::<bool>().unwrap());
        assert_eq!(Tensor::scalar(0.1f32).item_as::<f64>().unwrap(), 0.1f32 as f64);
        assert_eq!(tensor![i64::MAX; i64].item_as::<i64>().unwrap(), i64::MAX);
        assert_eq!(tensor![1, 2, 3].slice(1).unwrap().item_as::<f32>().unwrap(), 2.0);
        assert!(refused!(tensor![].item_as::<f32>(), TensorFacts::NotASingleElement { .. }));
        assert!(refused!(
            tensor![1].expand([2]).unwrap().item_as::<f32>(),
            TensorFacts::NotASingleElement { .. }
        ));
    }

    #[test]
    fn vectors_are_row_major_and_of_the_right_type() {
        let t = tensor![[1, 2], [3, 4]; i64].t().flip(0).unwrap();
        assert_eq!(t.to_vec::<i64>().unwrap(), [2, 4, 1, 3]);
        assert_eq!(tensor![5].expand([2, 2]).unwrap().to_vec::<f32>().unwrap(), [5.0; 4]);
        assert!(refused!(
            t.to_vec::<f64>(),
            TensorFacts::DTypeMismatch { expected: DType::F64, found: DType::I64, .. }
        ));
        assert!(refused!(
            tensor![1].expand([1usize << 55]).unwrap().to_vec::<f32>(),
            TensorFacts::TooLarge { .. }
        ));
        assert!(refused!(
            tensor![1].expand([1usize << 55]).unwrap().to_array::<f32>(),
            TensorFacts::TooLarge { .. }
        ));
    }

    #[test]
    fn an_array_takes_over_the_memory_that_nobody_else_holds() {
        let own = |t: Tensor| {
            let (want, address) = (t.to_array::<f32>().unwrap(), t.as_array::<f32>().unwrap().as_ptr());
            let a = t.into_array::<f32>().unwrap();
            assert_eq!(a, want);
            a.as_ptr() == address
        };
        for n in [4, 4000] {
            // From a shelf or the pool, and from a vector.
            let made = || [Tensor::randn((n, 6)), Tensor::from_vec(vec![1.5f32; n * 6], (n, 6)).unwrap()];
            let stays = |view: &dyn Fn(Tensor) -> Tensor| made().into_iter().all(|t| own(view(t)));
            let copied = |view: &dyn Fn(Tensor) -> Tensor| made().into_iter().all(|t| !own(view(t)));
            assert!(stays(&|t| t));
            assert!(stays(&|t| t.reshape((2, n / 2, 6)).unwrap().permute([2, 0, 1]).unwrap()));
            assert!(stays(&|t| t.narrow(0, 1, 2).unwrap()));
            assert!(copied(&|t| t.narrow(1, 1, 2).unwrap()));
            assert!(copied(&|t| t.flip(0).unwrap()));
            assert!(copied(&|t| t.select(0, 0).unwrap().expand([2, 6]).unwrap()));
            for t in made() {
                let held = t.clone();
                assert!(!own(t) && own(held));
            }
        }
        assert_eq!(Tensor::scalar(2.5).into_array::<f32>().unwrap(), arr0(2.5).into_dyn());
        assert_eq!(Tensor::zeros([2, 0]).into_array::<f32>().unwrap().shape(), [2, 0]);
        assert!(refused!(
            tensor![1.0].into_array::<f64>(),
            TensorFacts::DTypeMismatch { op: "into_array", .. }
        ));
        assert!(refused!(
            tensor![1].expand([1usize << 55]).unwrap().into_array::<f32>(),
            TensorFacts::TooLarge { op: "into_array", .. }
        ));
    }

    #[test]
    fn views_for_any_strides() {
        let t = Tensor::arange(24).reshape([2, 3, 4]).unwrap();
        let views = [
            t.clone(),
            t.permute([2, 0, 1]).unwrap(),
            t.flip([0, 2]).unwrap(),
            t.flip(..).unwrap().transpose(0, 2).unwrap().slice((1..3, 1)).unwrap(),
            t.unsqueeze(1).unwrap().expand([2, 5, 3, 4]).unwrap().flip([0, 1]).unwrap(),
            t.slice((1, -1, 2)).unwrap(),
            t.narrow(1, 3, 0).unwrap(),
            Tensor::from_strided(vec![1i64, 2, 3, 4], [2, 3], &[1, 1], 0).unwrap(),
            Tensor::from_strided(vec![1i64, 2], [1, 2], &[isize::MIN, -1], 1).unwrap(),
        ];
        for v in views {
            let a = v.as_array::<i64>().unwrap();
            assert_eq!(a.shape(), v.dims());
            assert_eq!(a.iter().copied().collect::<Vec<_>>(), v.to_vec::<i64>().unwrap());
            assert_eq!(v.to_array::<i64>().unwrap(), a);
        }
        assert!(refused!(t.as_array::<f32>(), TensorFacts::DTypeMismatch { .. }));
    }

    /// It has no elements, so whatever can hold its shape holds it, in any type.
    #[test]
    fn an_empty_tensor_of_huge_sizes() {
        for dtype in [DType::Bool, DType::F64] {
            for shape in [[0, isize::MAX as usize], [isize::MAX as usize, 0]] {
                let t = Tensor::zeros_with([0], dtype).reshape(&shape[..]).unwrap();
                assert_eq!(Tensor::zeros_with(shape, dtype).dims(), shape);
                for cast in [DType::Bool, DType::I64, DType::F32, DType::F64] {
                    assert_eq!(t.to(cast).dims(), shape);
                }
                let (t, turned) = (t.to(DType::F64), t.to(DType::F64).t());
                assert_eq!((t.to_vec::<f64>().unwrap(), turned.to_vec::<f64>().unwrap()), (vec![], vec![]));
                assert_eq!(t.contiguous().dims(), shape);
                assert_eq!((&t + 1.0).exp().sum(..).unwrap(), tensor![0.0; f64].sum(..).unwrap());
                assert_eq!(
                    (t.as_array::<f64>().unwrap().shape(), t.to_array::<f64>().unwrap().shape()),
                    (t.dims(), t.dims())
                );
                assert!(format!("{t:?}{t}").len() < 1000);
            }
        }
    }

    #[test]
    fn a_view_is_no_copy() {
        let t = tensor![[1, 2], [3, 4]];
        let a = t.as_array::<f32>().unwrap();
        assert_eq!(a.as_ptr(), t.as_slice::<f32>().unwrap().as_ptr());
        let huge = tensor![1].expand([1usize << 40, 3]).unwrap();
        assert_eq!(huge.as_array::<f32>().unwrap()[[1 << 39, 2]], 1.0);
    }

    #[test]
    fn owned_arrays_come_in_without_a_copy() {
        let a: Array2<f64> = array![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
        let first = a.as_ptr();
        let t = Tensor::from(a);
        assert_eq!(t.as_slice::<f64>().unwrap().as_ptr(), first);
        assert_eq!(t, tensor![[1, 2, 3], [4, 5, 6]; f64]);

        let fortran = Array::from_shape_vec((2, 3).f(), vec![1i64, 2, 3, 4, 5, 6]).unwrap();
        let first = fortran.as_ptr();
        let t = Tensor::from(fortran);
        assert_eq!(t.strides(), [1, 2]);
        assert_eq!(t.as_array::<i64>().unwrap().as_ptr(), first);
        assert_eq!(t, tensor![[1, 3, 5], [2, 4, 6]; i64]);

        let mut cut = Array1::from_vec(vec![0.0f32, 1.0, 2.0, 3.0, 4.0]);
        cut.slice_collapse(s![1..;2]);
        cut.invert_axis(ndarray::Axis(0));
        let t = Tensor::from(cut);
        assert_eq!((&t.strides()[..], t.clone()), (&[-2][..], tensor![3, 1]));
    }

    #[test]
    #[should_panic(expected = "from: a tensor of shape [1099511627776] is too large")]
    fn a_broadcast_array_that_no_memory_holds() {
        let _ = Tensor::from(array![1.0f32].broadcast(1 << 40).unwrap());
    }

    #[test]
    fn arrays_of_any_dimension_type() {
        assert_eq!(Tensor::from(arr0(true)), Tensor::scalar(true));
        assert_eq!(Tensor::from(&Array0::from_elem((), 1i64)).rank(), 0);
        let dynamic = ArrayD::from_elem(IxDyn(&[1, 2, 1, 2, 1, 2, 1]), 1.0f32);
        assert_eq!(Tensor::from(dynamic.view()).dims(), [1, 2, 1, 2, 1, 2, 1]);
        assert_eq!(Tensor::from(dynamic).numel(), 8);
        assert_eq!(Tensor::from(Array2::<f32>::zeros((3, 0))).dims(), [3, 0]);
        let a = array![[1i64, 2], [3, 4]];
        assert_eq!(Tensor::from(a.t()), tensor![[1, 3], [2, 4]; i64]);
        assert_eq!(Tensor::from(a.slice(s![.., ..;-1])), tensor![[2, 1], [4, 3]; i64]);
        assert_eq!(Tensor::from(a.broadcast((2, 2, 2)).unwrap()).numel(), 8);
    }
}
