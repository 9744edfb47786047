//! Rows of pieces: views of one variable, one behind another, as the results of one operation. The gradient of the whole is written
//! in one pass, of what arrived and zeros for the rest.

use foldback_tensor::{Axis, Here, SplitSizes, Tensor};

use super::Row;
use super::function_rows::function;
use super::slices::from_front;
use crate::arrival::apart;
use crate::error::Result;
use crate::node::{Able, Context, Flow, Take, Var, Work};
use crate::record::{Reads, record_function};

// What becomes of several pieces is among the composed operations that are checked as rows are (`tests/tests/table/composed.rs`).
function! { @rows rows
    split {
        "the first": [[2, 5] Any] |x| x[0].split(2, -1).map(|mut pieces| pieces.swap_remove(0));
        "the last, which is smaller": [[5, 2] Any] |x| x[0].split(3, 0).map(|mut pieces| pieces.swap_remove(1));
        "of a list of sizes": [[2, 6, 2] Any] |x| x[0].split([1, 0, 3, 2], 1).map(|mut pieces| pieces.swap_remove(2));
        "without elements": [[3] Any] |x| x[0].split([1, 0, 2], 0).map(|mut pieces| pieces.swap_remove(1));
        "of a few": [[2, 4] Any] |x| x[0].chunk(2, 1).map(|mut pieces| pieces.swap_remove(1));
        "of an array": [[4, 2] Any] |x| x[0].chunks::<2>(0).map(|[_, piece]| piece);
    }
    unbind {
        "a row": [[3, 2] Any] |x| x[0].unbind(0).map(|mut rows| rows.swap_remove(1));
        "a column": [[2, 3, 2] Any] |x| x[0].unbind(-2).map(|mut columns| columns.swap_remove(2));
        "a number": [[3] Any] |x| x[0].unbind(0).map(|mut numbers| numbers.swap_remove(0));
    }
}

pub(super) use rows::ALL;

/// How a variable is cut along an axis.
#[derive(Clone, Copy)]
enum Cut {
    /// into pieces that have the axis
    Split,
    /// into its elements, which do not
    Unbind,
}

impl Cut {
    fn row(self) -> &'static Row {
        match self {
            Cut::Split => &rows::split,
            Cut::Unbind => &rows::unbind,
        }
    }
}

/// The gradient of the whole; or the tangents of its pieces, which are pieces of its tangent.
fn describe(by: Cut, own: usize, ctx: &Context<'_>, take: &mut Take<'_>) -> Result<()> {
    let (shapes, axis) = (ctx.node.metadata.iter().map(|piece| &piece.shape), ctx.lead.axis(own.into()));
    if ctx.tangents.is_some() {
        let t = ctx.tangent(0);
        let pieces = match by {
            Cut::Split => t.split(shapes.map(|shape| shape[own]).collect::<Vec<usize>>(), axis)?,
            Cut::Unbind => t.unbind(axis)?,
        };
        return pieces.into_iter().enumerate().try_for_each(|(k, piece)| take(Flow::to(k, piece)));
    }
    let pieces: Vec<Var> = (0..shapes.len()).map(|k| ctx.grad(k)).collect();
    let now = move |pieces: &Vec<Var>| {
        let pieces = pieces.iter().map(Var::value);
        match by {
            Cut::Split => Tensor::cat(pieces, axis),
            Cut::Unbind => Tensor::stack(pieces, axis),
        }
    };
    let recorded = move |pieces: &Vec<Var>| match by {
        Cut::Split => Var::cat(pieces, axis),
        Cut::Unbind => Var::stack(pieces, axis),
    };
    take(Flow::to(0, Work::either(pieces, now, recorded)))
}

/// # Pieces
impl Var {
    /// Pieces of one size along an axis, or of the sizes in a list. See [`Tensor::split`].
    ///
    /// # Errors
    /// As [`Tensor::split`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 2.0, 3.0].requires_grad();
    /// let parts = x.split(2, 0)?;
    /// parts[1].sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![0.0, 0.0, 1.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn split(&self, sizes: impl Into<SplitSizes>, axis: impl Into<Axis>) -> Result<Vec<Var>> {
        let axis = axis.into();
        let pieces = self.value_ref().split(sizes, axis).here()?;
        Ok(self.cut(pieces, axis, Cut::Split))
    }

    /// At most `n` pieces of equal size along an axis, of which the last may be smaller. See [`Tensor::chunk`].
    ///
    /// # Errors
    /// As [`Tensor::chunk`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let parts = tensor![1.0, 2.0, 3.0].requires_grad().chunk(2, 0)?;
    /// assert_eq!(parts[0].value(), tensor![1.0, 2.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn chunk(&self, n: usize, axis: impl Into<Axis>) -> Result<Vec<Var>> {
        let axis = axis.into();
        let pieces = self.value_ref().chunk(n, axis).here()?;
        Ok(self.cut(pieces, axis, Cut::Split))
    }

    /// Exactly `N` pieces of equal size along an axis: `let [q, k, v] = x.chunks(-1)?`. See [`Tensor::chunks`].
    ///
    /// # Errors
    /// As [`Tensor::chunks`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let [a, b] = tensor![1.0, 2.0].requires_grad().chunks(0)?;
    /// assert_eq!((a.value(), b.value()), (tensor![1.0], tensor![2.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn chunks<const N: usize>(&self, axis: impl Into<Axis>) -> Result<[Var; N]> {
        let axis = axis.into();
        let pieces: [Tensor; N] = self.value_ref().chunks(axis).here()?;
        let pieces = self.cut(pieces.into(), axis, Cut::Split);
        Ok(pieces.try_into().expect("a variable for each piece"))
    }

    /// Every element of an axis as a variable without that axis.
    ///
    /// # Errors
    /// As [`Tensor::unbind`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let columns = tensor![[1.0, 2.0], [3.0, 4.0]].requires_grad().unbind(1)?;
    /// assert_eq!(columns[1].value(), tensor![2.0, 4.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn unbind(&self, axis: impl Into<Axis>) -> Result<Vec<Var>> {
        let axis = axis.into();
        let pieces = self.value_ref().unbind(axis).here()?;
        Ok(self.cut(pieces, axis, Cut::Unbind))
    }

    /// Records one operation that has all the pieces for results.
    #[track_caller]
    fn cut(&self, pieces: Vec<Tensor>, axis: Axis, by: Cut) -> Vec<Var> {
        let (row, reads, axis) = (by.row(), Reads::All(&[]), from_front(axis, self.rank()));
        let _span = crate::profile::forward(row.name);
        let pieces = record_function(row.name, &[self], pieces.into(), reads, move || {
            let function = move |ctx: &Context<'_>, take: &mut Take<'_>| describe(by, axis, ctx, take);
            Box::new(Able { leads: true, pushes: true, arrival: apart, function })
        });
        pieces.into_vec()
    }
}
