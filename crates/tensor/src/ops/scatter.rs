//! Elements and rows put to the places that an index tensor names, or added there in order.

use crate::axes::Axis;
use crate::dtype::{BlockMut, DType, Scalar};
use crate::error::{Here, Result, TensorFacts, refuse};
use crate::kernels::{Accumulate, add_rows, scatter};
use crate::task::{self, WholeRule};
use crate::tensor::Tensor;

use super::arg::{Arg, AsArg};
use super::index::{own, reads, size_of};
use super::indices::{Indices, expect_list, expect_places, expect_within, ranked, scan};
use super::pointwise::check_alpha;

impl Tensor {
    /// This tensor with each element of `src` written to the place that `index` names along an axis:
    /// `out[index[i][j]][j] = src[i][j]` along axis 0. A number is written to all of the places.
    ///
    /// Of several elements for one place the last in row-major order of the index remains, and only that has a gradient.
    /// `index` is `I64`; it may be shorter than `src` on every axis and than `self` on the others.
    ///
    /// # Errors
    /// `DTypeMismatch` unless the index is `I64` and `src` of this element type, `AxisOutOfRange`, `ShapeMismatch` if the
    /// ranks differ or the index is too long, `IndexOutOfRange` for an index that is negative or too large, `Parameter` for a number
    /// that no integer is (NaN, infinite, beyond `i64`) if this holds integers, `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![[0.0, 0.0], [0.0, 0.0]];
    /// let y = x.scatter(1, &tensor![[1], [0]; i64], &tensor![[1.0], [2.0]])?;
    /// assert_eq!(y, tensor![[0.0, 1.0], [2.0, 0.0]]);
    /// assert_eq!(x.scatter(0, &tensor![[1, 1]; i64], 7)?, tensor![[0.0, 0.0], [7.0, 7.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn scatter(
        &self,
        axis: impl Into<Axis>,
        index: impl Into<Indices>,
        src: impl AsArg,
    ) -> Result<Tensor> {
        let index = index.into().0;
        let src = match src.arg() {
            Arg::Scalar(s) => Tensor::try_full_with((), s, self.dtype())
                .and_then(|number| number.expanded("scatter", index.shape().clone()))
                .map_err(|e| e.named("scatter"))
                .here()?,
            Arg::Tensor(t) => t.clone(),
        };
        self.scatter_along("scatter", axis.into(), &index, &src, false).here()
    }

    /// This tensor with each element of `src` added at the place that `index` names along an axis:
    /// `out[index[i][j]][j] += src[i][j]` along axis 0. The transpose of [`gather`](Self::gather).
    ///
    /// Places named several times receive several terms, added in row-major order of the index. `index` is `I64`; it may
    /// be shorter than `src` on every axis and than `self` on the others. Integers wrap, truth values are or-ed.
    ///
    /// # Errors
    /// `DTypeMismatch` unless the index is `I64` and `src` of this element type, `AxisOutOfRange`, `ShapeMismatch` if the
    /// ranks differ or the index is too long, `IndexOutOfRange` for an index that is negative or too large, `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![[0.0, 0.0], [0.0, 0.0]];
    /// let y = x.scatter_add(1, &tensor![[0, 0], [1, 0]; i64], &tensor![[1.0, 2.0], [3.0, 4.0]])?;
    /// assert_eq!(y, tensor![[3.0, 0.0], [4.0, 3.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn scatter_add(
        &self,
        axis: impl Into<Axis>,
        index: impl Into<Indices>,
        src: impl AsArg,
    ) -> Result<Tensor> {
        let src = src.arg().tensor(self.dtype());
        self.scatter_along("scatter_add", axis.into(), &index.into().0, &src, true).here()
    }

    fn scatter_along(
        &self,
        op: &'static str,
        axis: Axis,
        index: &Tensor,
        src: &Tensor,
        add: bool,
    ) -> Result<Tensor> {
        let axis = self.shape().axis(op, axis)?;
        index.expect_dtype(op, "an index", DType::I64)?;
        src.expect_dtype(op, "a source", self.dtype())?;
        if index.numel() == 0 {
            return Ok(self.clone());
        }
        expect_within(op, index, self, Some(axis))?;
        expect_within(op, index, src, None)?;
        expect_places(op, index, DType::I64)?;
        task::whole(op, &Scatter { axis, add }, &reads(&[self, index, src]), self.shape(), self.dtype())
    }

    /// This tensor with the slices of `src` added to the slices that `index` names along an axis. The transpose of
    /// [`index_select`](Self::index_select).
    ///
    /// Slices named several times receive several terms, added in the order of the index. `index` is `I64` with one axis
    /// or a single number; `src` has the shape of `self` with as many slices as there are indices. A single number
    /// counts as `[1]` where it is added to; as `src` it is added to single numbers only, as in PyTorch.
    ///
    /// # Errors
    /// `DTypeMismatch` unless the index is `I64` and `src` of this element type, `Rank` if the index has several axes,
    /// `AxisOutOfRange`, `ShapeMismatch`, `IndexOutOfRange` for an index that is negative or too large, `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1.0, 1.0], [1.0, 1.0]];
    /// let y = x.index_add(0, &tensor![1, 1; i64], &tensor![[1.0, 2.0], [10.0, 20.0]])?;
    /// assert_eq!(y, tensor![[1.0, 1.0], [12.0, 23.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn index_add(
        &self,
        axis: impl Into<Axis>,
        index: impl Into<Indices>,
        src: impl AsArg,
    ) -> Result<Tensor> {
        self.add_along(axis.into(), &index.into().0, &src.arg().tensor(self.dtype())).here()
    }

    /// [`Tensor::index_add`] of `src * alpha`.
    ///
    /// # Errors
    /// As there; `Alpha` for a fraction where the elements are integers.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 1.0];
    /// assert_eq!(x.index_add_with(0, &tensor![1, 1; i64], &tensor![2.0, 4.0], 0.5)?, tensor![1.0, 4.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn index_add_with(
        &self,
        axis: impl Into<Axis>,
        index: impl Into<Indices>,
        src: impl AsArg,
        alpha: impl Into<Scalar>,
    ) -> Result<Tensor> {
        let (op, alpha, src) = ("index_add_with", alpha.into(), src.arg().tensor(self.dtype()));
        check_alpha(op, alpha, self.dtype()).here()?;
        src.expect_dtype(op, "a source", self.dtype()).here()?;
        let scaled = src.mul(alpha).and_then(|scaled| scaled.cast(op, self.dtype()));
        let sum = scaled.and_then(|scaled| self.add_along(axis.into(), &index.into().0, &scaled));
        sum.map_err(|e| e.named(op)).here()
    }

    fn add_along(&self, axis: Axis, index: &Tensor, src: &Tensor) -> Result<Tensor> {
        let op = "index_add";
        let axis = self.shape().axis(op, axis)?;
        expect_list(op, index)?;
        src.expect_dtype(op, "a source", self.dtype())?;
        let mut expected = ranked(self);
        expected[axis] = index.numel();
        if ranked(src) != expected || (src.rank() == 0 && self.rank() > 0) {
            return refuse(TensorFacts::ShapeMismatch {
                op,
                operand: "source",
                expected,
                found: src.shape().clone(),
            });
        }
        task::whole(op, &IndexAdd(axis), &reads(&[self, index, src]), self.shape(), self.dtype())
    }
}

/// [`Tensor::scatter`] or [`Tensor::scatter_add`] of a tensor, an index and what is written or added, along an axis.
struct Scatter {
    axis: usize,
    add: bool,
}

impl WholeRule for Scatter {
    fn run(&self, op: &'static str, reads: &[&Tensor], mut out: BlockMut<'_>) -> Result<()> {
        let (&[t, index, src], axis) = (reads, self.axis) else { unreachable!("three tensors are read") };
        scan(op, index, axis, size_of(t, axis))?;
        let mut used = src.reshaped(op, ranked(src))?;
        for (d, &size) in ranked(index).iter().enumerate() {
            used = used.narrow(d as isize, 0, size)?;
        }
        let strides = ranked(t).row_major();
        let (index, used) = (index.laid_out(op)?, used.laid_out(op)?);
        let places = index.as_slice::<i64>().expect("checked and row-major");
        let n = out.len();
        t.copy_into(op, out.range(0, n))?;
        macro_rules! add {
            ($($v:ident: $t:ty),*) => {
                match out {
                    $(BlockMut::$v(o) => {
                        let put = if self.add { <$t>::plus } else { |_, new| new };
                        scatter(o, &strides, axis, used.dims(), places, own::<$t>(&used), put)
                    })*
                }
            };
        }
        add!(Bool: bool, I64: i64, F32: f32, F64: f64);
        Ok(())
    }
}

/// [`Tensor::index_add`] of a tensor, an index and what is added, along an axis.
struct IndexAdd(usize);

impl WholeRule for IndexAdd {
    fn run(&self, op: &'static str, reads: &[&Tensor], mut out: BlockMut<'_>) -> Result<()> {
        let (&[t, index, src], axis) = (reads, self.0) else { unreachable!("three tensors are read") };
        let shape = ranked(t);
        scan(op, index, axis, shape[axis])?;
        let (index, src) = (index.laid_out(op)?, src.laid_out(op)?);
        let places = index.as_slice::<i64>().expect("checked and row-major");
        let (n, len) = (out.len(), shape[axis + 1..].iter().product());
        t.copy_into(op, out.range(0, n))?;
        macro_rules! add {
            ($($v:ident: $t:ty),*) => {
                match out {
                    $(BlockMut::$v(o) => add_rows(o, shape[axis], len, places, own::<$t>(&src)),)*
                }
            };
        }
        add!(Bool: bool, I64: i64, F32: f32, F64: f64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{refused, tensor};

    #[test]
    fn scatter_writes_in_order_and_the_last_remains() {
        let x = tensor![[0, 0, 0], [0, 0, 0]; i64];
        let (index, src) = (tensor![[2, 2, 0], [1, 1, 1]; i64], tensor![[1, 2, 3], [4, 5, 6]; i64]);
        assert_eq!(x.scatter(1, &index, &src).unwrap(), tensor![[3, 0, 2], [0, 6, 0]; i64]);
        let rows = tensor![[1, 0]; i64];
        assert_eq!(x.scatter(0, &rows, &src).unwrap(), tensor![[0, 2, 0], [1, 0, 0]; i64]);
        assert_eq!(x.scatter(0, &rows, 1.9).unwrap(), tensor![[0, 1, 0], [1, 0, 0]; i64]);
        assert_eq!(tensor![false, false].scatter(-1, &tensor![1; i64], true).unwrap(), tensor![false, true]);
        assert_eq!(x.t().scatter(0, index.t(), src.t()).unwrap(), x.scatter(1, &index, &src).unwrap().t());
        assert_eq!(
            Tensor::from(1.5).scatter(0, &tensor![0; i64], &tensor![2.5; f64]).unwrap(),
            Tensor::from(2.5)
        );
        let none = Tensor::zeros_with([0, 9], DType::I64);
        assert_eq!(x.scatter(1, &none, 7).unwrap(), x);
    }

    #[test]
    fn scaled_sources() {
        let (x, i) = (tensor![1, 1; i64], tensor![0, 0; i64]);
        assert_eq!(x.index_add_with(0, &i, tensor![2, 3; i64], -2).unwrap(), tensor![-9, 1; i64]);
        let refused = x.index_add_with(0, &i, tensor![2, 3; i64], 0.5);
        assert!(refused!(refused, TensorFacts::Alpha { op: "index_add_with", .. }));
        let refused = x.index_add_with(0, &i, tensor![2.0, 3.0], 2);
        assert!(refused!(refused, TensorFacts::DTypeMismatch { op: "index_add_with", .. }));
        let truth = tensor![false, false].index_add_with(0, &i, tensor![true, true], true).unwrap();
        assert_eq!(truth, tensor![true, false]);
    }

    #[test]
    fn scatter_refuses() {
        let x = tensor![[1.0, 2.0], [3.0, 4.0]];
        let i = tensor![[0, 1]; i64];
        assert!(refused!(x.scatter(2, &i, 0), TensorFacts::AxisOutOfRange { op: "scatter", .. }));
        assert!(refused!(x.scatter(0, &i, x.double()), TensorFacts::DTypeMismatch { op: "scatter", .. }));
        assert!(refused!(x.scatter(0, &x, 0), TensorFacts::DTypeMismatch { operand: "an index", .. }));
        assert!(refused!(x.scatter(0, &i, Tensor::scalar(0.0)), TensorFacts::ShapeMismatch { .. }));
        assert!(refused!(x.scatter(0, tensor![0; i64], 0), TensorFacts::ShapeMismatch { .. }));
        for bad in [-1, 2] {
            let e = x.scatter(0, Tensor::full_with([1, 1], bad, DType::I64), 0).unwrap_err();
            assert_eq!(e, TensorFacts::IndexOutOfRange { op: "scatter", index: bad, axis: 0, size: 2 });
        }
    }

    #[test]
    fn the_original_is_left_alone() {
        let x = tensor![1.0, 2.0];
        let y = x.scatter_add(0, &tensor![0, 0; i64], &tensor![5.0, 6.0]).unwrap();
        assert_eq!((x, y), (tensor![1.0, 2.0], tensor![12.0, 2.0]));
        let x = tensor![false, false; bool];
        let y = x.scatter_add(0, &tensor![1, 1; i64], &tensor![true, false; bool]).unwrap();
        assert_eq!(y, tensor![false, true; bool]);
    }
}
