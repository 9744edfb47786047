//! Diagonals: taken out as a view, and put into zeros.

use ndarray::{ArrayViewMutD, IxDyn, ShapeBuilder};

use crate::axes::Axis;
use crate::create::checked_len;
use crate::dtype::{BlockMut, Element, with_block};
use crate::error::{Here, Result, TensorFacts, or_panic, refuse};
use crate::shape::{Dims, Shape, axis_index};
use crate::task::{self, Read, WholeRule};
use crate::tensor::Tensor;

/// # Diagonals
impl Tensor {
    /// The main diagonal of each matrix in the first two axes, which becomes the last axis; a view.
    ///
    /// # Panics
    /// For fewer than two axes; [`Tensor::diagonal_with`] returns an error.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[1.0, 2.0], [3.0, 4.0]].diagonal(), tensor![1.0, 4.0]);
    /// ```
    #[track_caller]
    pub fn diagonal(&self) -> Tensor {
        or_panic(self.diagonal_of("diagonal", 0, 0.into(), 1.into()))
    }

    /// A diagonal of the matrices in two axes, which are dropped; it becomes the last axis. An offset of 1 is the diagonal
    /// above the main one, -1 the one below; beyond the matrix it is empty. A view.
    ///
    /// # Errors
    /// `AxisOutOfRange`, `DuplicateAxis` if the two axes are one.
    ///
    /// ```
    /// use foldback_tensor::{Tensor, tensor};
    /// let x = tensor![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
    /// assert_eq!(x.diagonal_with(1, 0, 1)?, tensor![2.0, 6.0]);
    /// assert_eq!(x.diagonal_with(1, 1, 0)?, tensor![4.0]);
    /// assert_eq!(Tensor::zeros([4, 2, 3]).diagonal_with(0, -2, -1)?.dims(), [4, 2]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn diagonal_with(
        &self,
        offset: impl Into<i64>,
        a: impl Into<Axis>,
        b: impl Into<Axis>,
    ) -> Result<Tensor> {
        self.diagonal_of("diagonal_with", offset.into(), a.into(), b.into()).here()
    }

    fn diagonal_of(&self, op: &'static str, offset: i64, a: Axis, b: Axis) -> Result<Tensor> {
        let (shape, strides, start) = diagonal_in(op, self.shape(), &self.strides(), offset, a, b)?;
        Ok(self.relayout(shape, strides, (self.layout.offset() as isize).wrapping_add(start)))
    }

    /// The elements of the last axis on the diagonal of a matrix of zeros, in two new last axes.
    ///
    /// # Panics
    /// For a 0-d tensor, and where no memory holds the result; [`Tensor::diag_embed_with`] returns an error.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].diag_embed(), tensor![[1.0, 0.0], [0.0, 2.0]]);
    /// ```
    #[track_caller]
    pub fn diag_embed(&self) -> Tensor {
        or_panic(self.diag_embed_with(0, -2, -1).map_err(|e| e.named("diag_embed")))
    }

    /// [`Tensor::diag_embed`] on another diagonal, of matrices in other axes of the result: the inverse of
    /// [`diagonal_with`](Self::diagonal_with). The matrices are as large as the diagonal needs.
    ///
    /// # Errors
    /// `AxisOutOfRange`, also for a 0-d tensor, `DuplicateAxis`, `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 2.0].diag_embed_with(1, 0, 1)?;
    /// assert_eq!(x, tensor![[0.0, 1.0, 0.0], [0.0, 0.0, 2.0], [0.0, 0.0, 0.0]]);
    /// assert_eq!(x.diagonal_with(1, 0, 1)?, tensor![1.0, 2.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn diag_embed_with(
        &self,
        offset: impl Into<i64>,
        a: impl Into<Axis>,
        b: impl Into<Axis>,
    ) -> Result<Tensor> {
        let (offset, a, b) = (offset.into(), a.into(), b.into());
        let shape = embedding_shape(self.shape(), offset, a, b).here()?;
        on_diagonal("diag_embed_with", self, &shape, offset, a, b).here()
    }
}

/// The shape, the strides and the start of a diagonal.
fn diagonal_in(
    op: &'static str,
    shape: &Shape,
    strides: &[isize],
    offset: i64,
    a: Axis,
    b: Axis,
) -> Result<(Shape, Dims<isize>, isize)> {
    let (a, b) = (shape.own_axis(op, a)?, shape.own_axis(op, b)?);
    if a == b {
        return refuse(TensorFacts::DuplicateAxis { op, axis: a });
    }
    let skip = |n: i64, size: usize| usize::try_from(n).map_or(0, |n| n.min(size));
    // A positive offset leaves out columns, a negative one rows.
    let (rows, columns) = (skip(offset.saturating_neg(), shape[a]), skip(offset, shape[b]));
    let len = (shape[a] - rows).min(shape[b] - columns);
    let kept = || (0..shape.rank()).filter(|&d| d != a && d != b);
    let sizes = kept().map(|d| shape[d]).chain([len]).collect();
    let steps = kept().map(|d| strides[d]).chain([strides[a].wrapping_add(strides[b])]).collect();
    let at = |n: usize, d: usize| (n as isize).wrapping_mul(strides[d]);
    let start = if len == 0 { 0 } else { at(rows, a).wrapping_add(at(columns, b)) };
    Ok((Shape(sizes), steps, start))
}

/// The shape of [`Tensor::diag_embed_with`].
#[doc(hidden)]
pub fn embedding_shape(diagonal: &Shape, offset: i64, a: Axis, b: Axis) -> Result<Shape> {
    let op = "diag_embed_with";
    let rank = diagonal.rank() + 1;
    // A 0-d tensor has no diagonal: two different axes are one too many for it.
    let (a, b) = (axis_index(op, a, rank, rank)?, axis_index(op, b, rank, rank)?);
    if a == b {
        return refuse(TensorFacts::DuplicateAxis { op, axis: a });
    }
    let (outer, len) = diagonal.split_at(diagonal.rank() - 1);
    let skipped = usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX);
    let size = len[0].saturating_add(skipped);
    let mut outer = outer.iter();
    let sizes = (0..rank).map(|d| if d == a || d == b { size } else { outer.next().copied().unwrap_or(1) });
    Ok(Shape(sizes.collect()))
}

/// Zeros of a shape with a diagonal of these elements: the gradient of [`Tensor::diagonal_with`].
#[doc(hidden)]
#[track_caller]
pub fn on_diagonal(
    op: &'static str,
    diagonal: &Tensor,
    shape: &Shape,
    offset: i64,
    a: Axis,
    b: Axis,
) -> Result<Tensor> {
    checked_len(op, shape, diagonal.dtype())?;
    let strides = shape.row_major();
    let (part, strides, start) = diagonal_in(op, shape, &strides, offset, a, b)?;
    if part != *diagonal.shape() {
        return refuse(TensorFacts::ShapeMismatch {
            op,
            operand: "diagonal",
            expected: part,
            found: diagonal.shape().clone(),
        });
    }
    let rule = OnDiagonal { strides, start: start as usize };
    task::whole(op, &rule, &[Read::Tensor(diagonal, diagonal.dtype())], shape, diagonal.dtype())
}

/// Zeros but for the places of a diagonal, which has these strides in the result.
struct OnDiagonal {
    strides: Dims<isize>,
    start: usize,
}

impl WholeRule for OnDiagonal {
    fn run(&self, _: &'static str, reads: &[&Tensor], out: BlockMut<'_>) -> Result<()> {
        with_block!(BlockMut, out, out => self.write(out, reads[0]));
        Ok(())
    }
}

impl OnDiagonal {
    fn write<T: Element>(&self, out: &mut [T], diagonal: &Tensor) {
        out.fill(T::default());
        if diagonal.numel() == 0 {
            return;
        }
        let strides: Vec<usize> = self.strides.iter().map(|&s| s as usize).collect();
        let part = IxDyn(diagonal.dims()).strides(IxDyn(&strides));
        let mut part =
            ArrayViewMutD::from_shape(part, &mut out[self.start..]).expect("a diagonal lies inside");
        part.assign(&diagonal.as_array::<T>().expect("the types agree"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{refused, tensor};

    #[test]
    fn every_diagonal_there_and_back() {
        let x = Tensor::arange(24).reshape([2, 3, 4]).unwrap();
        for (a, b) in [(0, 1), (1, 0), (1, 2), (-1, 0), (0, 2), (-1, -2)] {
            for offset in -5..=5 {
                let d = x.diagonal_with(offset, a, b).unwrap();
                let (i, j) = (x.shape().axis("", a).unwrap(), x.shape().axis("", b).unwrap());
                let kept = 3 - i - j;
                assert_eq!(d.dims()[0], x.dims()[kept]);
                let mut n = 0;
                for r in 0..x.dims()[i] {
                    for c in 0..x.dims()[j] {
                        if c as i64 - r as i64 == offset {
                            for k in 0..x.dims()[kept] {
                                let mut at = [k; 3];
                                (at[i], at[j]) = (r, c);
                                assert_eq!(d.slice((k, n)).unwrap(), x.slice((at[0], at[1], at[2])).unwrap());
                            }
                            n += 1;
                        }
                    }
                }
                assert_eq!(d.dims()[1], n);
                let embedded = d.diag_embed_with(offset, a, b).unwrap();
                assert_eq!(embedded.diagonal_with(offset, a, b).unwrap(), d);
                assert_eq!(embedded.sum(..).unwrap(), d.sum(..).unwrap());
            }
        }
        assert!(x.diagonal().shares_buffer_with(&x));
    }

    #[test]
    fn edges_and_refusals() {
        let x = tensor![[1.0, 2.0], [3.0, 4.0]];
        for offset in [i64::MAX, i64::MIN, 2, -2, 1 << 62] {
            assert_eq!(x.diagonal_with(offset, 0, 1).unwrap().dims(), [0]);
        }
        assert_eq!(tensor![].diag_embed_with(1, 0, 1).unwrap(), tensor![[0.0]]);
        assert_eq!(tensor![true, true].diag_embed().to_vec::<bool>().unwrap(), [true, false, false, true]);
        let turned = tensor![[1, 2], [3, 4], [5, 6]; i64].t();
        assert_eq!(turned.diag_embed().diagonal_with(0, 1, 2).unwrap(), turned);
        assert!(refused!(x.diagonal_with(0, 1, -1), TensorFacts::DuplicateAxis { axis: 1, .. }));
        assert!(refused!(x.diagonal_with(0, 0, 2), TensorFacts::AxisOutOfRange { .. }));
        assert!(refused!(
            x.diag_embed_with(0, 1, 1),
            TensorFacts::DuplicateAxis { op: "diag_embed_with", .. }
        ));
        assert!(refused!(x.diag_embed_with(0, 3, 1), TensorFacts::AxisOutOfRange { .. }));
        assert!(refused!(Tensor::scalar(1.0).diag_embed_with(0, -2, -1), TensorFacts::AxisOutOfRange { .. }));
        assert!(refused!(Tensor::scalar(1.0).diag_embed_with(0, 0, 0), TensorFacts::DuplicateAxis { .. }));
        for offset in [i64::MAX, i64::MIN, 1 << 40] {
            assert!(refused!(x.diag_embed_with(offset, 0, 1), TensorFacts::TooLarge { .. }));
        }
    }
}
