//! Elements in order: sorted, the largest few, the one in the middle. Places first, and the elements from there.

use crate::axes::{Axes, Axis, Over};
use crate::dtype::{BlockMut, DType};
use crate::error::{Here, Result, TensorFacts, refuse};
use crate::kernels::{Wanted, order};
use crate::ops::reduce::Kept;
use crate::shape::Shape;
use crate::task::{self, Read, WholeRule};
use crate::tensor::Tensor;

/// # Order
impl Tensor {
    /// The elements along an axis from the smallest to the largest, and their indices: `(values, indices)`.
    ///
    /// Equal elements stay in the order in which they stand; NaN counts as largest. Every element type is sorted.
    ///
    /// # Errors
    /// `AxisOutOfRange`; `TooLarge` if no memory can hold the result.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let (values, indices) = tensor![[3.0, 1.0, 2.0], [0.0, 5.0, 0.0]].sort(-1)?;
    /// assert_eq!(values, tensor![[1.0, 2.0, 3.0], [0.0, 0.0, 5.0]]);
    /// assert_eq!(indices, tensor![[1, 2, 0], [0, 2, 1]; i64]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn sort(&self, axis: impl Into<Axis>) -> Result<(Tensor, Tensor)> {
        self.sort_with(axis, false)
    }

    /// [`Self::sort`], from the largest to the smallest if `descending`. Equal elements stay in their order then, too.
    ///
    /// # Errors
    /// As [`Self::sort`].
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let (values, indices) = tensor![3.0, 1.0, 3.0].sort_with(0, true)?;
    /// assert_eq!((values, indices), (tensor![3.0, 3.0, 1.0], tensor![0, 2, 1; i64]));
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn sort_with(&self, axis: impl Into<Axis>, descending: impl Into<bool>) -> Result<(Tensor, Tensor)> {
        let (axis, descending) = (axis.into(), descending.into());
        let places = self.places("sort", axis, None, Wanted::First { descending }).here()?;
        Ok((self.at_places("sort", axis, &places).here()?, places))
    }

    /// The indices that sort an axis: those of [`Self::sort`].
    ///
    /// # Errors
    /// As [`Self::sort`].
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![3.0, 1.0, 2.0].argsort(0)?, tensor![1, 2, 0; i64]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn argsort(&self, axis: impl Into<Axis>) -> Result<Tensor> {
        self.argsort_with(axis, false)
    }

    /// The indices of [`Self::sort_with`].
    ///
    /// # Errors
    /// As [`Self::sort`].
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![3.0, 1.0, 2.0].argsort_with(0, true)?, tensor![0, 2, 1; i64]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn argsort_with(&self, axis: impl Into<Axis>, descending: bool) -> Result<Tensor> {
        self.places("argsort", axis.into(), None, Wanted::First { descending }).here()
    }

    /// The `k` largest elements along an axis, the largest first, and their indices: `(values, indices)`. NaN counts as
    /// largest; of equal elements the first ones are taken, in their order.
    ///
    /// # Errors
    /// `AxisOutOfRange`; `Parameter` if `k` exceeds the size of the axis; `DTypeUnsupported` for `bool`; `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let (values, indices) = tensor![3.0, 1.0, 2.0].topk(2, -1)?;
    /// assert_eq!((values, indices), (tensor![3.0, 2.0], tensor![0, 2; i64]));
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn topk(&self, k: usize, axis: impl Into<Axis>) -> Result<(Tensor, Tensor)> {
        self.topk_with(k, axis, true, true)
    }

    /// [`Self::topk`], of the smallest elements unless `largest`. Unless `sorted` the order of the result is left open;
    /// it is sorted all the same.
    ///
    /// # Errors
    /// As [`Self::topk`].
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![3.0, 1.0, 2.0].topk_with(2, 0, false, true)?.0, tensor![1.0, 2.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn topk_with(
        &self,
        k: usize,
        axis: impl Into<Axis>,
        largest: bool,
        sorted: bool,
    ) -> Result<(Tensor, Tensor)> {
        let (op, axis, _) = ("topk", axis.into(), sorted);
        if self.dtype() == DType::Bool {
            return refuse(TensorFacts::DTypeUnsupported { op, dtype: DType::Bool }).here();
        }
        let places = self.places(op, axis, Some(k), Wanted::First { descending: largest }).here()?;
        Ok((self.at_places(op, axis, &places).here()?, places))
    }

    /// The element in the middle along an axis or of all (`..`): the lower of two, NaN if there is one. The median of no
    /// floats at all is NaN.
    ///
    /// # Errors
    /// `AxisOutOfRange`; `Rank` for several axes; `EmptyReduction` if the axis has size 0, and for no integers at all;
    /// `DTypeUnsupported` for `bool`; `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1.0, 5.0, 3.0], [4.0, 2.0, 9.0]];
    /// assert_eq!(x.median(1)?, tensor![3.0, 4.0]);
    /// assert_eq!(x.median(..)?.item()?, 3.0);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn median(&self, over: impl Into<Over>) -> Result<Tensor> {
        let over = over.into();
        if self.numel() == 0 && *over.axes() == Axes::All && self.dtype().is_float() {
            let kept = Kept::new("median", self, &over).here()?;
            return Ok(Tensor::full_with(&kept.shape, f64::NAN, self.dtype()));
        }
        Ok(self.median_with_indices(over)?.0)
    }

    /// [`Self::median`] and its indices along the axis, or in row-major order of all: `(values, indices)`. Of equal
    /// elements it is the one that stands in the middle of the sorted row; of several NaNs the first.
    ///
    /// # Errors
    /// As [`Self::median`]; `EmptyReduction` for nothing at all.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let (values, indices) = tensor![[1.0, 5.0, 3.0], [4.0, 2.0, 9.0]].median_with_indices(1)?;
    /// assert_eq!((values, indices), (tensor![3.0, 4.0], tensor![2, 0; i64]));
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn median_with_indices(&self, over: impl Into<Over>) -> Result<(Tensor, Tensor)> {
        self.middle(&over.into()).here()
    }

    fn middle(&self, over: &Over) -> Result<(Tensor, Tensor)> {
        let op = "median";
        if self.dtype() == DType::Bool {
            return refuse(TensorFacts::DTypeUnsupported { op, dtype: DType::Bool });
        }
        let kept = Kept::new(op, self, over)?;
        kept.expect_elements(op, self)?;
        let (rows, axis) = match over.axes() {
            Axes::All => (self.reshaped(op, self.numel().into())?, 0),
            Axes::List(list) if list.len() == 1 => (self.clone(), list[0]),
            Axes::List(list) => {
                return refuse(TensorFacts::Rank {
                    op,
                    operand: "",
                    expected: "one or all",
                    found: list.len(),
                });
            }
        };
        let places = rows.places(op, axis.into(), Some(1), Wanted::Middle)?;
        let values = rows.at_places(op, axis.into(), &places)?;
        Ok((kept.shaped(op, values)?, kept.shaped(op, places)?))
    }

    /// The places of the `k` elements wanted along an axis, of all if no number is given.
    fn places(&self, op: &'static str, axis: Axis, k: Option<usize>, wanted: Wanted) -> Result<Tensor> {
        let axis = self.shape().axis(op, axis)?;
        let n = self.dims().get(axis).copied().unwrap_or(1);
        let k = k.unwrap_or(n);
        if k > n {
            let (value, expected) =
                (format!("{k} for axis {axis} of size {n}"), "at most the size of the axis");
            return refuse(TensorFacts::Parameter { op, name: "k", value, expected });
        }
        if self.rank() == 0 {
            return Ok(Tensor::from(0i64));
        }
        let rows = self.movedim(axis, -1)?.laid_out(op)?;
        let mut shape: Shape = rows.shape().clone();
        shape[self.rank() - 1] = k;
        let rule = Order { n, wanted };
        task::whole(op, &rule, &[Read::Tensor(&rows, rows.dtype())], &shape, DType::I64)?.movedim(-1, axis)
    }

    /// The elements at places along an axis.
    fn at_places(&self, op: &'static str, axis: Axis, places: &Tensor) -> Result<Tensor> {
        if self.rank() == 0 {
            return Ok(self.clone());
        }
        self.gather(axis, places).map_err(|e| e.named(op))
    }
}

/// The places of the elements wanted in rows of `n`.
struct Order {
    n: usize,
    wanted: Wanted,
}

impl WholeRule for Order {
    fn run(&self, _: &'static str, reads: &[&Tensor], out: BlockMut<'_>) -> Result<()> {
        let BlockMut::I64(out) = out else { unreachable!("places are i64") };
        macro_rules! run {
            ($t:ty) => {
                order(reads[0].as_slice::<$t>().expect("laid out"), self.n, self.wanted, out)
            };
        }
        match reads[0].dtype() {
            DType::Bool => run!(bool),
            DType::I64 => run!(i64),
            DType::F32 => run!(f32),
            DType::F64 => run!(f64),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{DType, Tensor, TensorFacts, ThreadPool, keep, refused, tensor};

    #[test]
    fn every_axis_and_layout_follows_the_definition() {
        let t = tensor![[[3.0, 1.0], [1.0, 1.0], [2.0, -1.0]], [[0.0, -0.0], [-2.0, 5.0], [0.0, 0.5]]];
        let turned = t.transpose(0, -1).unwrap().contiguous().transpose(0, -1).unwrap();
        for (x, axis) in [&t, &turned].into_iter().flat_map(|x| (-3..3).map(move |a| (x, a))) {
            for dtype in DType::ALL {
                let x = x.to(dtype);
                for descending in [false, true] {
                    let (values, indices) = x.sort_with(axis, descending).unwrap();
                    assert_eq!(x.argsort_with(axis, descending).unwrap(), indices);
                    assert_eq!(x.gather(axis, &indices).unwrap(), values);
                    let rows =
                        |t: &Tensor| t.movedim(axis, -1).unwrap().flatten(0..2).unwrap().unbind(0).unwrap();
                    for ((row, values), places) in
                        rows(&x.double()).iter().zip(rows(&values.double())).zip(rows(&indices))
                    {
                        let mut want: Vec<(f64, i64)> =
                            row.to_vec::<f64>().unwrap().into_iter().zip(0..).collect();
                        let number = |v: f64| v + 0.0;
                        match descending {
                            true => want.sort_by(|a, b| number(b.0).total_cmp(&number(a.0))),
                            false => want.sort_by(|a, b| number(a.0).total_cmp(&number(b.0))),
                        }
                        let (v, i): (Vec<f64>, Vec<i64>) = want.into_iter().unzip();
                        assert_eq!(values.to_vec::<f64>().unwrap(), v);
                        assert_eq!(places.to_vec::<i64>().unwrap(), i);
                    }
                }
            }
        }
    }

    #[test]
    fn sorting_is_stable_both_ways_and_nan_is_largest() {
        let nan = f32::NAN;
        let x = tensor![1.0, nan, -0.0, 1.0, 0.0, nan, f32::INFINITY, f32::NEG_INFINITY];
        assert_eq!(x.argsort(0).unwrap(), tensor![7, 2, 4, 0, 3, 6, 1, 5; i64]);
        assert_eq!(x.argsort_with(0, true).unwrap(), tensor![1, 5, 6, 0, 3, 2, 4, 7; i64]);
        assert_eq!(x.topk(4, 0).unwrap().1, tensor![1, 5, 6, 0; i64]);
        assert_eq!(x.topk_with(4, 0, false, false).unwrap().1, tensor![7, 2, 4, 0; i64]);
        assert_eq!(x.median_with_indices(0).unwrap().1, tensor![1; i64].squeeze(0).unwrap());
        let i = tensor![i64::MAX, i64::MIN, 0, -1; i64];
        assert_eq!(i.sort(0).unwrap().0, tensor![i64::MIN, -1, 0, i64::MAX; i64]);
        assert_eq!(tensor![true, false, true; bool].sort(0).unwrap().1, tensor![1, 0, 2; i64]);
    }

    #[test]
    fn the_first_k_are_those_of_the_sorted_axis() {
        let x = Tensor::randint(0..50, [3, 400, 2]);
        for (k, largest) in [0, 1, 7, 399, 400].into_iter().flat_map(|k| [(k, true), (k, false)]) {
            let (values, indices) = x.topk_with(k, 1, largest, true).unwrap();
            let all = x.sort_with(1, largest).unwrap();
            assert_eq!(values, all.0.narrow(1, 0, k).unwrap());
            assert_eq!(indices, all.1.narrow(1, 0, k).unwrap());
        }
        let (values, indices) = x.median_with_indices(keep(1)).unwrap();
        let all = x.sort(1).unwrap();
        assert_eq!((values, indices), (all.0.narrow(1, 199, 1).unwrap(), all.1.narrow(1, 199, 1).unwrap()));
    }

    #[test]
    fn threads_change_nothing() {
        let x = Tensor::randint(0..100, [40, 1000]);
        let run = || {
            [x.sort(0).unwrap(), x.sort(1).unwrap(), x.topk(9, 1).unwrap(), x.median_with_indices(1).unwrap()]
        };
        assert!(ThreadPool::new(1).install(run) == ThreadPool::new(4).install(run));
    }

    #[test]
    fn medians_of_one_of_all_and_of_nothing() {
        let x = tensor![[4.0, 1.0], [3.0, 2.0]];
        assert_eq!(x.median(..).unwrap().item().unwrap(), 2.0);
        assert_eq!(x.median(keep(..)).unwrap(), tensor![[2.0]]);
        assert_eq!(x.median_with_indices(..).unwrap().1.item().unwrap(), 3.0);
        assert_eq!(x.t().median_with_indices(..).unwrap().1.item().unwrap(), 3.0);
        assert_eq!(x.median(0).unwrap(), tensor![3.0, 1.0]);
        let one = tensor![7.0].squeeze(0).unwrap();
        assert_eq!(one.median_with_indices(-1).unwrap(), (one.clone(), Tensor::from(0i64)));
        assert!(Tensor::zeros([2, 0]).median(..).unwrap().item().unwrap().is_nan());
        assert_eq!(Tensor::zeros([2, 0]).median(keep(..)).unwrap().dims(), [1, 1]);
        assert_eq!(Tensor::zeros([2, 0]).median(0).unwrap().dims(), [0]);
        assert!(refused!(Tensor::zeros([2, 0]).median(1), TensorFacts::EmptyReduction { op: "median", .. }));
        let none = Tensor::zeros_with([0], DType::I64);
        assert!(refused!(none.median(..), TensorFacts::EmptyReduction { .. }));
        assert!(refused!(tensor![true; bool].median(..), TensorFacts::DTypeUnsupported { .. }));
        assert!(refused!(x.median([0, 1]), TensorFacts::Rank { op: "median", .. }));
    }

    #[test]
    fn edges_and_refusals() {
        let one = tensor![7.0].squeeze(0).unwrap();
        assert_eq!(one.sort(-1).unwrap(), (one.clone(), Tensor::from(0i64)));
        assert_eq!(one.topk(1, 0).unwrap(), (one.clone(), Tensor::from(0i64)));
        assert!(refused!(one.topk(2, 0), TensorFacts::Parameter { op: "topk", name: "k", .. }));
        for shape in [&[0][..], &[2, 0, 3], &[0, 2]] {
            let x = Tensor::zeros(shape);
            assert_eq!(x.sort(1.min(shape.len() as isize - 1)).unwrap().0.dims(), shape);
        }
        assert_eq!(Tensor::zeros([2, 3]).topk(0, 0).unwrap().1.dims(), [0, 3]);
        assert_eq!(Tensor::zeros([0, 3]).topk(2, 1).unwrap().0.dims(), [0, 2]);
        let x = tensor![1.0, 2.0];
        assert!(refused!(x.sort(1), TensorFacts::AxisOutOfRange { op: "sort", .. }));
        assert!(refused!(x.argsort(-2), TensorFacts::AxisOutOfRange { op: "argsort", .. }));
        assert!(refused!(x.topk(3, 0), TensorFacts::Parameter { .. }));
        assert!(refused!(x.bool().topk(1, 0), TensorFacts::DTypeUnsupported { op: "topk", .. }));
        let huge = tensor![1.0].expand([1usize << 60]).unwrap();
        assert!(refused!(huge.sort(0), TensorFacts::TooLarge { op: "sort", .. }));
        assert!(refused!(huge.median(..), TensorFacts::TooLarge { op: "median", .. }));
    }
}
