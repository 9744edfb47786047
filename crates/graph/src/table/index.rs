//! Rows of joining and indexing.

use foldback_tensor::Tensor;
use smallvec::SmallVec;

use super::macros::function;
use crate::error::Result;
use crate::gradient::{Context, Flow};
use crate::record::{Reads, record_one};
use crate::var::Var;

function! {
    /// The elements that `index` (an `i64` tensor) names along an axis; see [`Tensor::gather`].
    ///
    /// # Errors
    /// `Tensor` if the index does not fit.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 2.0].requires_grad();
    /// x.gather(0, &tensor![1, 1; i64])?.sum(.., false)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![0.0, 2.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn gather(a; axis: isize, index: &Tensor) {
        let index = index.clone();
        let shape = a.shape().clone();
    } = a.gather(axis, &index);
        d a: |g| Var::constant(Tensor::try_zeros(&shape, g.dtype())?).scatter_add(g, axis, &index);
        check {
            "rows": [[3, 2] Any] |x| x[0].gather(0, &foldback_tensor::tensor![[2, 0], [2, 1]; i64]);
            "columns, repeated": [[2, 3] Any] |x| x[0].gather(1, &foldback_tensor::tensor![[1, 1], [0, 2]; i64]);
        }

    /// Adds the elements of `source` to the places that `index` names along an axis; duplicates add up.
    ///
    /// # Errors
    /// `Tensor` if index or source do not fit.
    ///
    /// ```
    /// use foldback_graph::{RequiresGrad, Var};
    /// use foldback_tensor::tensor;
    /// let source = tensor![1.0, 2.0].requires_grad();
    /// let sum = Var::from(tensor![0.0, 0.0]).scatter_add(&source, 0, &tensor![1, 1; i64])?;
    /// assert_eq!(sum.value(), tensor![0.0, 3.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn scatter_add(a, source; axis: isize, index: &Tensor) {
        let index = index.clone();
        let shape = source.shape().clone();
    } = a.scatter_add(axis, &index, source);
        d a: |g| Ok::<Var, crate::Error>(g.clone());
        d source: |g| padded(&g.gather(axis, &index)?, &shape);
        check {
            "repeated": [[2, 3] Any, [2, 2] Any]
                |x| x[0].scatter_add(&x[1], 1, &foldback_tensor::tensor![[1, 1], [0, 2]; i64]);
            "longer source": [[3] Any, [4] Any] |x| x[0].scatter_add(&x[1], 0, &foldback_tensor::tensor![2, 0; i64]);
        }

    /// The slices of an axis that `index` (1-d, `i64`) names, in its order; see [`Tensor::index_select`].
    ///
    /// # Errors
    /// `Tensor` if the index does not fit.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![[1.0, 2.0], [3.0, 4.0]].requires_grad();
    /// assert_eq!(x.index_select(0, &tensor![1, 1; i64])?.value(), tensor![[3.0, 4.0], [3.0, 4.0]]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn index_select(a; axis: isize, index: &Tensor) {
        let index = index.clone();
        let shape = a.shape().clone();
    } = a.index_select(axis, &index);
        d a: |g| Var::constant(Tensor::try_zeros(&shape, g.dtype())?).index_add(g, axis, &index);
        check {
            "rows": [[3, 2] Any] |x| x[0].index_select(0, &foldback_tensor::tensor![2, 0, 2; i64]);
            "columns": [[2, 3] Any] |x| x[0].index_select(-1, &foldback_tensor::tensor![1; i64]);
        }

    /// Adds the slices of `source` to those slices of an axis that `index` names; duplicates add up.
    ///
    /// # Errors
    /// `Tensor` if index or source do not fit.
    ///
    /// ```
    /// use foldback_graph::{RequiresGrad, Var};
    /// use foldback_tensor::tensor;
    /// let source = tensor![1.0, 2.0].requires_grad();
    /// let sum = Var::from(tensor![0.0, 0.0]).index_add(&source, 0, &tensor![1, 1; i64])?;
    /// assert_eq!(sum.value(), tensor![0.0, 3.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn index_add(a, source; axis: isize, index: &Tensor) {
        let index = index.clone();
    } = a.index_add(axis, &index, source);
        d a: |g| Ok::<Var, crate::Error>(g.clone());
        d source: |g| g.index_select(axis, &index);
        check {
            "repeated rows": [[3, 2] Any, [3, 2] Any]
                |x| x[0].index_add(&x[1], 0, &foldback_tensor::tensor![2, 0, 2; i64]);
        }
}

/// A gradient for the leading part of a larger source: zero for the rest.
fn padded(g: &Var, shape: &foldback_tensor::Shape) -> Result<Var> {
    if g.shape() == *shape {
        return Ok(g.clone());
    }
    let whole: Vec<foldback_tensor::SliceItem> =
        g.shape().iter().map(|&n| foldback_tensor::SliceItem::from(0..n as isize)).collect();
    let mut zeros = Var::constant(Tensor::try_zeros(shape, g.dtype())?);
    zeros.slice_assign(foldback_tensor::Slices::from(whole), g)?;
    Ok(zeros)
}

impl Var {
    /// The variables one after another along an axis.
    ///
    /// # Errors
    /// `Tensor` if there are none, or the other axes differ.
    ///
    /// ```
    /// use foldback_graph::{RequiresGrad, Var};
    /// use foldback_tensor::tensor;
    /// let (a, b) = (tensor![1.0].requires_grad(), Var::from(tensor![2.0, 3.0]));
    /// assert_eq!(Var::cat(&[&a, &b], 0)?.value(), tensor![1.0, 2.0, 3.0]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn cat(vars: &[&Var], axis: isize) -> Result<Var> {
        let values: Vec<Tensor> = vars.iter().map(|v| v.value()).collect();
        let value = Tensor::cat(&values.iter().collect::<Vec<_>>(), axis)?;
        let rank = value.rank() as isize;
        let axis = if axis < 0 { axis + rank } else { axis };
        // An empty vector is skipped whatever the other shapes are; its gradient is empty, too.
        let skipped = |v: &Tensor| v.rank() == 1 && v.numel() == 0 && rank != 1;
        let sizes: Vec<Option<usize>> =
            values.iter().map(|v| if skipped(v) { None } else { Some(v.dims()[axis as usize]) }).collect();
        Ok(record_one("cat", vars, value, Reads::All(&[]), move || {
            Box::new(move |ctx: &Context<'_>| {
                let g = ctx.value(super::Slot::Grad);
                let mut start = 0;
                let mut gradients = SmallVec::new();
                for (input, size) in sizes.iter().enumerate() {
                    let part = match size {
                        _ if !ctx.needs(input) => None,
                        Some(size) => Some(Flow::Value(g.narrow(axis, start as isize, *size)?)),
                        None => Some(Flow::Value(Var::constant(Tensor::zeros([0], g.dtype())))),
                    };
                    gradients.push(part);
                    start += size.unwrap_or(0);
                }
                Ok(gradients)
            })
        }))
    }

    /// The variables side by side along a new axis.
    ///
    /// # Errors
    /// `Tensor` if there are none, or the shapes differ.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_graph::Var;
    /// use foldback_tensor::tensor;
    /// let (a, b) = (tensor![1.0].requires_grad(), tensor![2.0].requires_grad());
    /// assert_eq!(Var::stack(&[&a, &b], 0)?.value(), tensor![[1.0], [2.0]]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn stack(vars: &[&Var], axis: isize) -> Result<Var> {
        let values: Vec<Tensor> = vars.iter().map(|v| v.value()).collect();
        let value = Tensor::stack(&values.iter().collect::<Vec<_>>(), axis)?;
        let count = vars.len();
        Ok(record_one("stack", vars, value, Reads::All(&[]), move || {
            Box::new(move |ctx: &Context<'_>| {
                let g = ctx.value(super::Slot::Grad);
                let part = |input: usize| -> Result<Option<Flow>> {
                    if ctx.needs(input) { Ok(Some(g.select(axis, input as isize)?.into())) } else { Ok(None) }
                };
                (0..count).map(part).collect()
            })
        }))
    }
}
