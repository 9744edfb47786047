//! Rows of joining: variables one after another, and side by side.

use foldback_tensor::{Axis, DType, Shape, Tensor};

use super::function_rows::function_of_list;
use super::index::nothing;
use crate::error::Result;
use crate::lead::Lead;
use crate::node::Var;

function_of_list! {
    in rows;

    /// The variables one after another along an axis.
    ///
    /// # Errors
    /// If there are none, or the other axes differ.
    ///
    /// ```
    /// use foldback_graph::{RequiresGrad, Var};
    /// use foldback_tensor::tensor;
    /// let (a, b) = (tensor![1.0].requires_grad(), Var::from(tensor![2.0, 3.0]));
    /// assert_eq!(Var::cat(&[&a, &b], 0)?.value(), tensor![1.0, 2.0, 3.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn cat(values; axis: Axis) { let parts = parts(&values, axis)?; } = Tensor::cat(&values, axis);
        d all: |g| parts.of(g, n);
        t: |t; full| parts.joined(t, full, n);
        over leading axes (n);
        check {
            "rows": [[2, 3] Any, [1, 3] Any, [0, 3] Any] |x| Var::cat(&[&x[0], &x[1], &x[2]], 0);
            "columns": [[2, 3] Any, [2, 1] Any] |x| Var::cat(&[&x[0], &x[1]], -1);
            "an empty vector": [[2, 3] Any, [0] Any] |x| Var::cat(&[&x[0], &x[1], &x[0]], -1);
        }

    /// The variables side by side along a new axis.
    ///
    /// # Errors
    /// If there are none, or the shapes differ.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_graph::Var;
    /// use foldback_tensor::tensor;
    /// let (a, b) = (tensor![1.0].requires_grad(), tensor![2.0].requires_grad());
    /// assert_eq!(Var::stack(&[&a, &b], 0)?.value(), tensor![[1.0], [2.0]]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn stack(values; axis: Axis) = Tensor::stack(&values, axis);
        d all: |g| g.unbind(n.axis(axis));
        t: |t; full| {
            let part = nothing_beside(t, full)?.select(n.axis(axis), 0)?;
            Var::stack(t.iter().map(|t| t.as_ref().unwrap_or(&part)), n.axis(axis))
        };
        over leading axes (n);
        check {
            "middle": [[2, 3] Any, [2, 3] Any] |x| Var::stack(&[&x[0], &x[1]], 1);
            "last": [[2] Any, [2] Any] |x| Var::stack(&[&x[0], &x[1], &x[0]], -1);
        }
}

pub(super) use rows::ALL;

/// Where the operands of a concatenation lie in its result.
struct ConcatParts {
    axis: Axis,
    /// the start and the size of each; none for an empty vector, which is skipped whatever the other shapes are
    places: Vec<Option<(usize, usize)>>,
}

fn parts(values: &[&Tensor], axis: Axis) -> Result<ConcatParts> {
    let skipped = |v: &Tensor| v.rank() == 1 && v.numel() == 0;
    let alone = values.iter().all(|v| skipped(v));
    let mut start = 0;
    let mut place = |v: &&Tensor| {
        if skipped(v) && !alone {
            return Ok(None);
        }
        let size = v.size(axis)?;
        start += size;
        Ok(Some((start - size, size)))
    };
    let places = values.iter().map(&mut place).collect::<Result<_>>();
    // What does not fit together is refused by the operation, in its own words.
    Ok(ConcatParts { axis, places: places.unwrap_or_default() })
}

impl ConcatParts {
    /// The gradients of the operands, given that of the whole.
    fn of(&self, g: &Var, n: Lead) -> Result<Vec<Var>> {
        let sizes: Vec<usize> = self.places.iter().flatten().map(|&(_, size)| size).collect();
        let mut pieces = g.split(sizes, n.axis(self.axis))?.into_iter();
        let of = |place: &Option<_>| match place.and_then(|_| pieces.next()) {
            Some(piece) => Ok(piece),
            None => nothing(g, &[0].into(), n),
        };
        self.places.iter().map(of).collect()
    }

    fn joined(&self, tangents: &[Option<Var>], full: &Shape, n: Lead) -> Result<Var> {
        let (axis, nothing) = (n.axis(self.axis), nothing_beside(tangents, full)?);
        let mut list = Vec::with_capacity(tangents.len());
        for (tangent, place) in tangents.iter().zip(&self.places) {
            let Some((start, size)) = *place else { continue };
            list.push(match tangent {
                Some(tangent) => tangent.clone(),
                None => nothing.narrow(axis, start as isize, size)?,
            });
        }
        Var::cat(list, axis)
    }
}

/// Zeros beside tangents, of which there is one: in one element's memory.
fn nothing_beside(tangents: &[Option<Var>], full: &Shape) -> Result<Var> {
    let dtype = tangents.iter().flatten().next().map_or(DType::F32, Var::dtype);
    Ok(Var::constant(Tensor::zeros_with((), dtype).expand(full)?))
}
