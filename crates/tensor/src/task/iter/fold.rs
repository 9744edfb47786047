//! The fold: a walk whose blocks are folded into accumulators, so that nothing unreduced is ever stored.

use smallvec::smallvec;

use super::folding::folding;
use super::order::FirstSums;
use super::sink::{Goal, fold_each};
use super::{Operand, flat};
use crate::buffer::Storage;
use crate::dtype::{Block, DType};
use crate::error::Result;
use crate::kernels::BlockKernel;
use crate::kernels::folds::Table;
use crate::shape::{Dims, Shape};
use crate::tensor::Tensor;
use crate::threads::GRAIN;

/// The foldings there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reduce {
    Sum,
    Prod,
    Max,
    Min,
}

/// A folding in the name of an operation.
#[derive(Clone, Copy)]
pub(crate) struct Fold {
    pub(crate) op: &'static str,
    pub(crate) reduce: Reduce,
    /// the type of the operands, the kernel and the result
    pub(crate) dtype: DType,
}

/// Folds a kernel's results over the axes of `shape` that are not `kept`. Without a kernel, the only operand itself.
///
/// The result has the kept axes, row-major; with stride 0 where no operand moves. A sum is added to `prior`, a tensor of
/// the result's shape (without the reduced axes) whose memory is used again if nobody else holds it.
pub(crate) fn fold(
    fold: Fold,
    kernel: Option<&dyn BlockKernel>,
    operands: &[Operand<'_>],
    shape: &[usize],
    kept: &[bool],
    mut prior: Option<Tensor>,
) -> Result<Tensor> {
    if let Some(prior) = &mut prior {
        prior.make_writable(fold.op)?;
    }
    let result = Shape(shape.iter().zip(kept).filter(|k| *k.1).map(|k| *k.0).collect());
    if let Some(table) = SmallTable::new(shape, kept, if kernel.is_some() { SMALL_COMPUTED } else { GRAIN })
        && operands_fit(kernel, operands, shape)
    {
        return Ok(table.fold(fold, kernel, operands, result, prior));
    }
    let goal = Goal { output: 0, kept: Dims::from_slice(kept), prior };
    let kernel = kernel.map(|kernel| (kernel, 1));
    let mut results = fold_each(fold, kernel, operands, shape, smallvec![goal])?;
    Ok(results.pop().expect("a result for the goal"))
}

/// A small shape seen as a table of rows and columns, one of which is reduced: no plan, no parts. If nothing is, a column. W9 takes
/// 0.76 of the time, W10 0.94.
struct SmallTable {
    rows: usize,
    cols: usize,
    /// whether each row is summed, or each column
    by_row: bool,
    leaf: FirstSums,
}

/// Elements of a table that is computed in one go and folded while it is in the first-level cache.
const SMALL_COMPUTED: usize = 4096;

impl SmallTable {
    fn new(shape: &[usize], kept: &[bool], most: usize) -> Option<SmallTable> {
        let (mut outer, mut inner, mut innermost) = (1, 1, 1);
        let (mut first, mut last) = (None, None);
        for (&size, &kept) in shape.iter().zip(kept).filter(|s| *s.0 != 1) {
            innermost = size;
            match (first, last) {
                (None, _) => (first, outer) = (Some(kept), size),
                (Some(f), None) if f == kept => outer *= size,
                (_, None) => (last, inner) = (Some(kept), size),
                (_, Some(l)) if l == kept => inner *= size,
                _ => return None,
            }
        }
        let n = outer * inner;
        if n == 0 || n > most {
            return None;
        }
        let (rows, cols, by_row) = match (first?, last) {
            (true, None) => (outer, 1, true),
            (true, _) => (outer, inner, true),
            (false, None) => (1, outer, true),
            (false, _) => (outer, inner, false),
        };
        let leaf = if by_row { FirstSums::of_lines(innermost) } else { FirstSums::of_columns(cols) };
        // The rows of leaves that are parts of rows would have to be told apart.
        let parts_of_rows = matches!(leaf, FirstSums::Run(leaf) if innermost % leaf != 0 && leaf < innermost);
        (!parts_of_rows || innermost == cols).then_some(SmallTable { rows, cols, by_row, leaf })
    }

    /// The results, onto `prior`, which is writable, if there is one. The operands fit, see [`operands_fit`].
    fn fold(
        &self,
        Fold { reduce, dtype, .. }: Fold,
        kernel: Option<&dyn BlockKernel>,
        operands: &[Operand<'_>],
        result: Shape,
        prior: Option<Tensor>,
    ) -> Tensor {
        let n = self.rows * self.cols;
        let mut computed = Storage::scratch(dtype, if kernel.is_some() { n } else { 0 });
        let data: Block<'_> = match kernel {
            Some(kernel) => {
                flat::run(kernel, operands, 0, &mut [computed.block_mut()]);
                computed.block()
            }
            None => operands[0].data.range(operands[0].offset, n),
        };
        let onto = prior.is_some();
        let count = if self.by_row { self.rows } else { self.cols };
        let mut folded =
            prior.unwrap_or_else(|| Tensor::from_storage(Storage::scratch(dtype, count), result));
        let folding = folding(reduce, dtype);
        let mut wide = folding.start(count);
        let table = Table { data, start: 0, rows: self.rows, step: self.cols as isize, cols: self.cols };
        match self.leaf {
            FirstSums::Run(leaf) => folding.lines(wide.all(), 1, table, leaf),
            FirstSums::Rows { rows, abreast } => folding.columns(wide.all(), table, rows, abreast),
        }
        folding.finish(&wide, 1, folded.block_mut(), onto);
        folded
    }
}

/// Whether the elements of a small table lie in order, or can be computed in order.
fn operands_fit(kernel: Option<&dyn BlockKernel>, operands: &[Operand<'_>], shape: &[usize]) -> bool {
    match kernel {
        Some(_) => flat::applies(operands, shape),
        None => operands[0].is_direct(shape),
    }
}
