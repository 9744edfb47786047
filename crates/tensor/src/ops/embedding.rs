//! Rows of a table looked up by number, and their gradients added up again.

use super::arg::AsArg;
use super::index::{own, reads};
use super::indices::{Indices, scan};
use crate::dtype::{BlockMut, DType};
use crate::error::{Here, Result, TensorFacts, refuse};
use crate::kernels::sum_rows;
use crate::ops::reduce::expect_float;
use crate::shape::Shape;
use crate::task::{self, WholeRule};
use crate::tensor::Tensor;

const OP: &str = "embedding";

impl Tensor {
    /// The rows of a table `[n, d]` that numbers `[..]` (`I64`) name: `[.., d]`.
    ///
    /// # Errors
    /// `DTypeMismatch` unless the numbers are `I64`, `Parameter` if table and numbers are exchanged, `Rank` unless the table has
    /// two axes, `IndexOutOfRange` for a number that is negative or too large, `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::{tensor, Tensor};
    /// let table = tensor![[0.0, 0.5], [1.0, 1.5], [2.0, 2.5]];
    /// let rows = Tensor::embedding(tensor![[2, 0]; i64], &table)?;
    /// assert_eq!(rows, tensor![[[2.0, 2.5], [0.0, 0.5]]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn embedding(ids: impl Into<Indices>, weight: impl AsArg) -> Result<Tensor> {
        looked_up(&ids.into(), &weight.arg().tensor(DType::F32)).here()
    }

    /// [`Self::embedding`] in which one row, that of a padding number (negative ones count from the end), has no gradient.
    /// The values are the same.
    ///
    /// # Errors
    /// As [`Self::embedding`], and `IndexOutOfRange` for the padding number.
    ///
    /// ```
    /// use foldback_tensor::{tensor, Tensor};
    /// let table = tensor![[0.0], [1.0]];
    /// assert_eq!(Tensor::embedding_with(tensor![0, 1; i64], &table, 0)?, table);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn embedding_with(
        ids: impl Into<Indices>,
        weight: impl AsArg,
        padding_idx: impl Into<i64>,
    ) -> Result<Tensor> {
        let weight = weight.arg().tensor(DType::F32);
        padding_row(&weight, padding_idx.into()).here()?;
        looked_up(&ids.into(), &weight).here()
    }
}

/// The row that a padding number names.
///
/// # Errors
/// `Rank`, `IndexOutOfRange`.
pub fn padding_row(weight: &Tensor, index: i64) -> Result<i64> {
    let [rows, _] = table(weight)?;
    let row = if index < 0 { index.saturating_add(rows as i64) } else { index };
    if (0..rows as i64).contains(&row) {
        return Ok(row);
    }
    refuse(TensorFacts::IndexOutOfRange { op: OP, index, axis: 0, size: rows })
}

fn table(weight: &Tensor) -> Result<[usize; 2]> {
    match *weight.dims() {
        [rows, width] => Ok([rows, width]),
        _ => refuse(TensorFacts::Rank { op: OP, operand: "table", expected: "2", found: weight.rank() }),
    }
}

fn looked_up(ids: &Tensor, weight: &Tensor) -> Result<Tensor> {
    if ids.dtype() != DType::I64 && weight.dtype() == DType::I64 {
        let (a, b) = (ids.shape(), weight.shape());
        let value = format!("{a} of {} and {b} of {}", ids.dtype(), weight.dtype());
        let expected = "the indices (i64) first, then the table [rows, width]: exchange them";
        return refuse(TensorFacts::Parameter { op: OP, name: "arguments", value, expected });
    }
    ids.expect_dtype(OP, "an index", DType::I64)?;
    let [_, width] = table(weight)?;
    let shape: Shape = [ids.dims(), &[width]].concat().into();
    let rows = weight.index_select(0, ids.reshape(-1).map_err(|e| e.named(OP))?).map_err(|e| e.named(OP))?;
    rows.reshape(shape).map_err(|e| e.named(OP))
}

/// The gradient of a table of so many rows, given that of the rows that were looked up: they are added up in order, where a
/// number occurs again. What belongs to the padding number is left out.
///
/// # Errors
/// `DTypeUnsupported` unless `g` is `F32` or `F64`, `DTypeMismatch` unless the numbers are `I64`, `ShapeMismatch` unless `g` has
/// their shape and one axis more, `IndexOutOfRange`, `TooLarge`.
///
/// ```
/// use foldback_tensor::{kernel, tensor};
/// let (ids, g) = (tensor![2, 2, 0; i64], tensor![[1.0], [2.0], [4.0]]);
/// assert_eq!(kernel::embedding_backward(&g, &ids, 3, None)?, tensor![[4.0], [0.0], [3.0]]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[track_caller]
pub fn embedding_backward(g: &Tensor, ids: &Tensor, rows: usize, padding: Option<i64>) -> Result<Tensor> {
    added_up(g, ids, rows, padding).here()
}

fn added_up(g: &Tensor, ids: &Tensor, rows: usize, padding: Option<i64>) -> Result<Tensor> {
    expect_float(OP, g)?;
    ids.expect_dtype(OP, "an index", DType::I64)?;
    let Some((&width, outer)) = g.dims().split_last().filter(|(_, outer)| **outer == *ids.dims()) else {
        let (expected, found) = (ids.shape().clone(), g.shape().clone());
        return refuse(TensorFacts::ShapeMismatch { op: OP, operand: "gradient", expected, found });
    };
    debug_assert_eq!(outer.len(), ids.rank());
    let (g, ids) = (g.laid_out(OP)?, ids.laid_out(OP)?);
    let shape = [rows, width].into();
    task::whole(OP, &AddUp { rows, padding: padding.unwrap_or(-1) }, &reads(&[&g, &ids]), &shape, g.dtype())
}

struct AddUp {
    rows: usize,
    /// a number whose rows do not count, -1 if all do
    padding: i64,
}

impl WholeRule for AddUp {
    fn run(&self, op: &'static str, reads: &[&Tensor], out: BlockMut<'_>) -> Result<()> {
        let &[g, ids] = reads else { unreachable!("two tensors are read") };
        scan(op, ids, 0, self.rows)?;
        let width = out.len().checked_div(self.rows).unwrap_or(0);
        match out {
            BlockMut::F64(out) => sum_rows(out, width, own(ids), self.padding, own(g)),
            BlockMut::F32(out) => sum_rows(out, width, own(ids), self.padding, own(g)),
            _ => unreachable!("gradients are real numbers"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ThreadPool, refused, tensor};

    #[test]
    fn rows_are_added_up_in_order_for_any_number_of_threads() {
        let (count, rows, width) = (3000, 700, 130);
        let ids =
            Tensor::from_vec((0..count as i64).map(|i| i * i * 7 % rows as i64).collect(), count).unwrap();
        let g = Tensor::arange_with(0..(count * width) as i64, 1, DType::F32).sin();
        let g = g.reshape([count, width]).unwrap();
        let want = Tensor::zeros([rows, width]).index_add(0, &ids, &g).unwrap();
        for threads in [1, 2, 5] {
            let found =
                ThreadPool::new(threads).install(|| embedding_backward(&g, &ids, rows, None).unwrap());
            assert_eq!(found, want);
        }
        let padded = embedding_backward(&g, &ids, rows, Some(7)).unwrap();
        assert_eq!(padded.select(0, 7).unwrap(), Tensor::zeros(width));
        assert_eq!(padded.select(0, 0).unwrap(), want.select(0, 0).unwrap());
    }

    #[test]
    fn what_is_no_table_or_no_number_is_refused() {
        let table = tensor![[0.0], [1.0]];
        assert!(refused!(Tensor::embedding(tensor![0.0], &table), TensorFacts::DTypeMismatch { .. }));
        assert!(refused!(Tensor::embedding(tensor![0; i64], tensor![1.0]), TensorFacts::Rank { .. }));
        for outside in [-1i64, 2, i64::MAX, i64::MIN] {
            let ids = Tensor::from(vec![outside]);
            let e = Tensor::embedding(&ids, &table).unwrap_err();
            assert!(e.to_string().starts_with("embedding: index"), "{e}");
            assert!(refused!(
                embedding_backward(&tensor![[1.0]], &ids, 2, None),
                TensorFacts::IndexOutOfRange { .. }
            ));
        }
        for padding in [-3i64, 2, i64::MIN] {
            assert!(Tensor::embedding_with(tensor![0; i64], &table, padding).is_err());
        }
        let none = Tensor::zeros_with([0, 3], DType::I64);
        assert_eq!(Tensor::embedding(&none, &table).unwrap().dims(), [0, 3, 1]);
        assert_eq!(Tensor::embedding(&none, Tensor::zeros([0, 2])).unwrap().dims(), [0, 3, 2]);
        assert_eq!(
            embedding_backward(&Tensor::zeros([0, 2]), &Tensor::zeros_with(0, DType::I64), 3, None).unwrap(),
            Tensor::zeros([3, 2])
        );
    }
}
