//! Elements and rows picked by an index tensor.

use smallvec::SmallVec;

use super::indices::{Indices, expect_list, expect_places, expect_within, scan, wrapped};
use super::pick::pick;
use crate::axes::{Along, Axis};
use crate::create::checked_len;
use crate::dtype::{BlockMut, DType, Element, with_block};
use crate::error::{Here, Result, TensorFacts, refuse};
use crate::kernels::take_rows;
use crate::shape::{Dims, Shape, broadcast_two};
use crate::task::{self, Read, WholeRule};
use crate::tensor::{Layout, Tensor};

impl Tensor {
    /// Picks an element per element of `index`: `out[i][j] = self[index[i][j]][j]` along axis 0, and so on.
    ///
    /// `index` is `I64` and of the same rank; it may be shorter than `self` on the other axes. The result has its shape
    /// and the element type of `self`. A 0-d tensor counts as one of shape `[1]`.
    ///
    /// # Errors
    /// `DTypeMismatch` unless the index is `I64`, `AxisOutOfRange`, `ShapeMismatch` if the ranks differ or the index is
    /// longer on another axis, `IndexOutOfRange` for an index that is negative or too large.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1.0, 2.0], [3.0, 4.0]];
    /// assert_eq!(x.gather(1, &tensor![[0, 0], [1, 0]; i64])?, tensor![[1.0, 1.0], [4.0, 3.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn gather(&self, axis: impl Into<Axis>, index: impl Into<Indices>) -> Result<Tensor> {
        self.gather_along(axis.into(), &index.into().0).here()
    }

    fn gather_along(&self, axis: Axis, index: &Tensor) -> Result<Tensor> {
        let op = "gather";
        let axis = self.shape().axis(op, axis)?;
        index.expect_dtype(op, "an index", DType::I64)?;
        if index.numel() == 0 {
            return Tensor::try_zeros_with(index.shape(), self.dtype());
        }
        expect_within(op, index, self, Some(axis))?;
        expect_places(op, index, self.dtype())?;
        picked(op, self, axis, index, index.shape())
    }

    /// Picks elements along one axis, where index and tensor broadcast against each other on all others: what
    /// `argmax` with `keep` gives is such an index. Negative indices count from the end. [`gather`](Self::gather) does neither.
    /// Along `..` both are taken as rows of all their elements, and as in PyTorch no index is negative.
    ///
    /// # Errors
    /// `DTypeMismatch` unless the index is `I64`, `ShapeMismatch` if the ranks differ, `AxisOutOfRange`, also for a 0-d tensor,
    /// `Broadcast`, `IndexOutOfRange`, `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::{keep, tensor};
    /// let x = tensor![[1.0, 5.0], [4.0, 3.0]];
    /// assert_eq!(x.take_along_dim(x.argmax(keep(1))?, 1)?, tensor![[5.0], [4.0]]);
    /// assert_eq!(x.take_along_dim(tensor![[-1]; i64], 1)?, tensor![[5.0], [3.0]]);
    /// assert_eq!(x.take_along_dim(x.argmax(..)?, ..)?, tensor![5.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    #[doc(alias = "take_along_axis")]
    pub fn take_along_dim(&self, index: impl Into<Indices>, along: impl Into<Along>) -> Result<Tensor> {
        let index = index.into();
        let Along::One(axis) = along.into() else {
            let row = self.flatten(..).and_then(|row| row.gather(0, index.flatten(..)?));
            return row.map_err(|e| e.named(TAKE_FROM_ALL)).here();
        };
        let (shape, index) = aligned(self.shape(), &index, axis).here()?;
        let wide = self.expanded(TAKE, shape).here()?;
        wide.gather_along(axis, &index).map_err(|e| e.named(TAKE)).here()
    }

    /// Picks whole slices along an axis, in the order of `index`: `[n, d]` and `[k]` make `[k, d]` along axis 0.
    ///
    /// `index` is `I64` with one axis, or a single number. Slices may be picked more than once.
    ///
    /// # Errors
    /// `DTypeMismatch` unless the index is `I64`, `Rank` if it has several axes, `AxisOutOfRange`, `IndexOutOfRange` for
    /// an index that is negative or too large, `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]];
    /// assert_eq!(x.index_select(0, &tensor![2, 0, 2; i64])?, tensor![[5.0, 6.0], [1.0, 2.0], [5.0, 6.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn index_select(&self, axis: impl Into<Axis>, index: impl Into<Indices>) -> Result<Tensor> {
        self.select_along(axis.into(), &index.into().0).here()
    }

    fn select_along(&self, axis: Axis, index: &Tensor) -> Result<Tensor> {
        let op = "index_select";
        let axis = self.shape().axis(op, axis)?;
        expect_list(op, index)?;
        if self.rank() == 0 && index.numel() != 1 {
            return refuse(TensorFacts::ShapeMismatch {
                op,
                operand: "single index",
                expected: Shape::from(1),
                found: index.shape().clone(),
            });
        }
        let mut shape = self.shape().clone();
        if let Some(size) = shape.get_mut(axis) {
            *size = index.numel();
        }
        if shape.contains(&0) {
            scan(op, index, axis, size_of(self, axis))?;
            return Tensor::try_zeros_with(shape, self.dtype());
        }
        let rows: usize = shape.iter().skip(axis + 1).product();
        if self.is_contiguous() && rows > 1 {
            return task::whole(op, &TakeRows(axis), &reads(&[self, index]), &shape, self.dtype());
        }
        let mut along: Shape = Shape(Dims::from_elem(1, shape.rank()));
        if let Some(size) = along.get_mut(axis) {
            *size = index.numel();
        }
        picked(op, self, axis, &index.reshaped(op, along)?, &shape)
    }
}

/// [`Tensor::index_select`] of a row-major tensor whose slices are runs of several elements.
struct TakeRows(usize);

impl WholeRule for TakeRows {
    fn run(&self, op: &'static str, reads: &[&Tensor], out: BlockMut<'_>) -> Result<()> {
        let (&[t, index], axis) = (reads, self.0) else { unreachable!("two tensors are read") };
        let size = t.dims()[axis];
        scan(op, index, axis, size)?;
        let index = index.laid_out(op)?;
        let places = index.as_slice::<i64>().expect("checked and row-major");
        let len = t.dims()[axis + 1..].iter().product();
        with_block!(BlockMut, out, out => take_rows(own(t), size, len, places, out));
        Ok(())
    }
}

/// Elements of a tensor at the places that an index names along an axis; the index broadcasts to this shape.
struct Gather<'a>(usize, &'a Shape);

impl WholeRule for Gather<'_> {
    fn run(&self, op: &'static str, reads: &[&Tensor], out: BlockMut<'_>) -> Result<()> {
        let &[t, index] = reads else { unreachable!("two tensors are read") };
        scan(op, index, self.0, size_of(t, self.0))?;
        pick(op, t, self.0, index, self.1, out)
    }
}

/// [`Gather`], which picks one element for those that neither the index nor the tensor tells apart.
fn picked(op: &'static str, t: &Tensor, axis: usize, index: &Tensor, shape: &Shape) -> Result<Tensor> {
    checked_len(op, shape, t.dtype())?;
    let (steps, places) = (t.strides(), index.strides());
    let rests = |d: usize| index.dims()[d] == 1 || places[d] == 0;
    let is_still = |d: usize| rests(d) && (d == axis || steps.get(d).is_none_or(|&step| step == 0));
    let still: Dims<bool> = (0..shape.rank()).map(|d| shape[d] > 1 && is_still(d)).collect();
    let once =
        |sizes: &Shape| Shape((0..sizes.rank()).map(|d| if still[d] { 1 } else { sizes[d] }).collect());
    let own = &index.layout;
    let index =
        index.with_layout(Layout::strided(once(&own.shape), own.strides(), own.offset(), own.is_expanded()));
    let once = once(shape);
    let elements = task::whole(op, &Gather(axis, &once), &reads(&[t, &index]), &once, t.dtype())?;
    Ok(elements.with_layout(Layout::with_still_axes(shape.clone(), &still)))
}

const TAKE: &str = "take_along_dim";
/// Negative indices are those of an axis, not of all elements.
const TAKE_FROM_ALL: &str = "take_along_dim(.., ..)";

/// What [`Tensor::take_along_dim`] gathers: the shape that the tensor expands to, and an index that fits it.
#[doc(hidden)]
pub fn aligned(shape: &Shape, index: &Indices, axis: Axis) -> Result<(Shape, Tensor)> {
    let index = &index.0;
    let axis = shape.own_axis(TAKE, axis)?;
    index.expect_dtype(TAKE, "an index", DType::I64)?;
    if index.rank() != shape.rank() {
        let (expected, found) = (shape.clone(), index.shape().clone());
        return refuse(TensorFacts::ShapeMismatch { op: TAKE, operand: "index", expected, found });
    }
    let with = |s: &Shape, size: usize| {
        let mut s = s.clone();
        s[axis] = size;
        s
    };
    let common = broadcast_two(TAKE, &with(shape, 1), &with(index.shape(), 1))?;
    let index = wrapped(TAKE, index, axis, shape[axis])?;
    let count = index.dims()[axis];
    Ok((with(&common, shape[axis]), index.expanded(TAKE, with(&common, count))?))
}

/// Tensors that are read as they are.
pub(super) fn reads<'a>(tensors: &[&'a Tensor]) -> SmallVec<[Read<'a>; 4]> {
    tensors.iter().map(|t| Read::Tensor(t, t.dtype())).collect()
}

/// The size of an axis, where a single number counts as `[1]`.
pub(super) fn size_of(t: &Tensor, axis: usize) -> usize {
    t.dims().get(axis).copied().unwrap_or(1)
}

/// The elements of a row-major tensor whose type has been checked.
pub(super) fn own<T: Element>(t: &Tensor) -> &[T] {
    t.as_slice().expect("the meta step compares the types")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{refused, tensor};

    fn numbers(shape: &[usize]) -> Tensor {
        let n: usize = shape.iter().product();
        Tensor::from_vec((0..n as i64).collect::<Vec<_>>(), shape).unwrap()
    }

    fn index(shape: &[usize], below: i64) -> Tensor {
        let n: usize = shape.iter().product();
        Tensor::from_vec((0..n as i64).map(|i| (i * 7 + i / 3) % below).collect::<Vec<_>>(), shape).unwrap()
    }

    /// Row-major positions of a shape.
    fn positions(shape: &[usize]) -> Vec<Vec<usize>> {
        let n: usize = shape.iter().product();
        let at = |mut i: usize| {
            let mut p = vec![0; shape.len()];
            for d in (0..shape.len()).rev() {
                p[d] = i % shape[d];
                i /= shape[d];
            }
            p
        };
        (0..n).map(at).collect()
    }

    fn place(shape: &[usize], p: &[usize]) -> usize {
        p.iter().zip(shape).fold(0, |i, (&p, &s)| i * s + p)
    }

    const CASES: &[(&[usize], &[usize], usize)] = &[
        (&[5], &[9], 0),
        (&[4, 3], &[6, 3], 0),
        (&[4, 3], &[2, 2], 0),
        (&[4, 3], &[4, 5], 1),
        (&[4, 3, 2], &[3, 7, 2], 1),
        (&[4, 3, 2], &[4, 3, 5], 2),
        (&[4, 3, 2, 3], &[9, 2, 1, 3], 0),
        (&[], &[3], 0),
        (&[2], &[], 0),
    ];

    #[test]
    fn gathering_and_scattering_follow_the_definition() {
        for &(shape, picked, axis) in CASES {
            let x = numbers(shape);
            let ranked = if shape.is_empty() { &[1][..] } else { shape };
            let wide = if picked.is_empty() { &[1][..] } else { picked };
            let i = index(picked, ranked[axis] as i64);
            let (xs, is) = (x.to_vec::<i64>().unwrap(), i.to_vec::<i64>().unwrap());
            let at: Vec<usize> = positions(wide)
                .into_iter()
                .zip(&is)
                .map(|(mut p, &i)| {
                    p[axis] = i as usize;
                    place(ranked, &p)
                })
                .collect();
            let want: Vec<i64> = at.iter().map(|&p| xs[p]).collect();
            let got = x.gather(axis as isize, &i).unwrap();
            assert_eq!(got.dims(), picked);
            assert_eq!(got.to_vec::<i64>().unwrap(), want, "{shape:?} by {picked:?} along {axis}");
            let turned = if shape.len() > 1 {
                x.transpose(0, -1)
                    .unwrap()
                    .contiguous()
                    .transpose(0, -1)
                    .unwrap()
                    .flip([0])
                    .unwrap()
                    .contiguous()
                    .flip([0])
                    .unwrap()
            } else {
                x.clone()
            };
            assert_eq!(turned.gather(axis as isize, &i).unwrap(), got);

            let bigger: Vec<usize> = picked.iter().map(|s| s + 1).collect();
            let src = numbers(&bigger);
            let mut sums = xs.clone();
            for (p, &to) in positions(wide).iter().zip(&at) {
                let from = if picked.is_empty() { 0 } else { place(&bigger, p) };
                sums[to] += src.to_vec::<i64>().unwrap()[from];
            }
            for dtype in [DType::I64, DType::F32, DType::F64] {
                let out = x.to(dtype).scatter_add(axis as isize, &i, src.to(dtype)).unwrap();
                assert_eq!(out.dims(), shape);
                assert_eq!(out.to(DType::I64).to_vec::<i64>().unwrap(), sums);
            }
        }
    }

    #[test]
    fn slices_are_selected_and_added() {
        for (shape, axis) in
            [(&[5][..], 0), (&[4, 3], 0), (&[4, 3], 1), (&[2, 5, 3], 1), (&[2, 5, 3], 2), (&[7, 1], 0)]
        {
            let x = numbers(shape);
            let i = index(&[8], shape[axis] as i64);
            let parts: Vec<Tensor> = i
                .to_vec::<i64>()
                .unwrap()
                .iter()
                .map(|&i| x.narrow(axis as isize, i as usize, 1).unwrap())
                .collect();
            let want = Tensor::cat(&parts.iter().collect::<Vec<_>>(), axis as isize).unwrap();
            assert_eq!(x.index_select(axis as isize, &i).unwrap(), want);
            let flipped = x.flip([0]).unwrap().contiguous().flip([0]).unwrap();
            assert_eq!(flipped.index_select(axis as isize - shape.len() as isize, &i).unwrap(), want);
            let mut along = vec![1; shape.len()];
            along[axis] = 8;
            let wide = i.reshape(Shape::from(along)).unwrap().expand(want.shape()).unwrap();
            let zeros = x.zeros_like();
            let sums = zeros.scatter_add(axis as isize, &wide, &want).unwrap();
            assert_eq!(zeros.index_add(axis as isize, &i, &want).unwrap(), sums);
        }
        let x = numbers(&[3, 2]);
        assert_eq!(x.index_select(0, Tensor::from(1i64)).unwrap(), tensor![[2, 3]; i64]);
        assert_eq!(x.index_select(1, Tensor::zeros_with([0], DType::I64)).unwrap().dims(), [3, 0]);
        let truth = tensor![true, false; bool].index_select(0, &tensor![1, 0; i64]).unwrap();
        assert_eq!(truth, tensor![false, true; bool]);
        assert_eq!(Tensor::from(5i64).index_select(0, &tensor![0; i64]).unwrap(), Tensor::from(5i64));
    }

    #[test]
    fn expanded_tensors_and_large_ones() {
        let x = tensor![[1.0], [2.0]].expand([2, 3]).unwrap();
        assert_eq!(x.gather(0, &tensor![[1, 0, 1]; i64]).unwrap(), tensor![[2.0, 1.0, 2.0]]);
        assert_eq!(x.gather(1, &tensor![[2], [0]; i64]).unwrap(), tensor![[1.0], [2.0]]);
        let x = numbers(&[1000, 70]);
        let i = index(&[1000, 70], 70);
        let picked = x.gather(1, &i).unwrap();
        let (xs, is, ps) =
            (x.to_vec::<i64>().unwrap(), i.to_vec::<i64>().unwrap(), picked.to_vec::<i64>().unwrap());
        assert!((0..70_000).all(|k| ps[k] == xs[k / 70 * 70 + is[k] as usize]));
        let rows = x.index_select(0, index(&[3000], 1000)).unwrap();
        assert_eq!(rows.dims(), [3000, 70]);
        assert_eq!(rows.select(0, 2999).unwrap(), x.select(0, (2999 * 7 + 999) % 1000).unwrap());
    }

    #[test]
    fn bad_indices_are_refused() {
        let x = numbers(&[3, 4]);
        let i = |shape: &[usize]| Tensor::zeros_with(shape, DType::I64);
        let outside = |v: i64| Tensor::full_with([1, 1], v, DType::I64);
        for v in [-1, 3, i64::MAX, i64::MIN] {
            let e = x.gather(0, outside(v)).unwrap_err();
            assert_eq!(e, TensorFacts::IndexOutOfRange { op: "gather", index: v, axis: 0, size: 3 });
            let list = Tensor::full_with([2], v, DType::I64);
            assert!(refused!(x.index_select(0, &list), TensorFacts::IndexOutOfRange { .. }));
            assert!(refused!(x.scatter_add(0, outside(v), i(&[1, 1])), TensorFacts::IndexOutOfRange { .. }));
            assert!(refused!(x.index_add(0, &list, i(&[2, 4])), TensorFacts::IndexOutOfRange { .. }));
        }
        assert!(refused!(x.gather(2, i(&[1, 1])), TensorFacts::AxisOutOfRange { .. }));
        assert!(refused!(x.gather(0, i(&[1])), TensorFacts::ShapeMismatch { .. }));
        assert!(refused!(x.gather(0, i(&[9, 5])), TensorFacts::ShapeMismatch { .. }));
        let e = x.gather(0, Tensor::zeros([1, 1])).unwrap_err();
        assert!(
            e.to_string()
                .starts_with("gather: expected an index of dtype i64, found f32: use to(DType::I64)")
        );
        assert!(refused!(x.index_select(0, i(&[1, 1])), TensorFacts::Rank { .. }));
        assert!(refused!(
            x.index_select(0, Tensor::zeros_with([1], DType::Bool)),
            TensorFacts::DTypeMismatch { .. }
        ));
        assert!(refused!(i(&[0, 4]).index_select(0, i(&[1])), TensorFacts::IndexOutOfRange { size: 0, .. }));
        assert!(refused!(x.scatter_add(0, i(&[2, 2]), i(&[1, 2])), TensorFacts::ShapeMismatch { .. }));
        let float = Tensor::zeros([2, 2]);
        assert!(refused!(x.scatter_add(0, i(&[2, 2]), &float), TensorFacts::DTypeMismatch { .. }));
        assert!(refused!(x.index_add(0, i(&[2]), i(&[3, 4])), TensorFacts::ShapeMismatch { .. }));
        assert!(refused!(x.index_add(0, i(&[2]), i(&[2])), TensorFacts::ShapeMismatch { .. }));
        let (number, one) = (i(&[]), i(&[1]));
        for (index, src) in [(&one, &number), (&number, &number), (&one, &one)] {
            assert_eq!(number.index_add(0, index, src).unwrap(), number);
            let added = one.index_add(0, index, src);
            assert!(added.is_ok() == (src.rank() == 1), "a number is not added to a list");
        }
        assert!(x.gather(0, i(&[0, 9])).unwrap().dims() == [0, 9]);
        assert_eq!(x.scatter_add(1, i(&[0, 1]), i(&[0, 1])).unwrap(), x);
    }
}
