//! The row of embeddings.

use foldback_tensor::{Here, Indices, Shape, Tensor, kernel};

use super::function_rows::function;
use crate::arrival::apart;
use crate::error::Result;
use crate::input::AsInput;
use crate::lead::Lead;
use crate::node::{Able, Context, Flow, Take, Var, Work};
use crate::record::{Reads, record_one};

function! { @rows rows
    embedding {
        "repeated": [[4, 3] Any] |x| Var::embedding(foldback_tensor::tensor![[1, 3], [1, 0]; i64], &x[0]);
        "a number": [[4, 3] Any] |x| Var::embedding(Tensor::from(2i64), &x[0]);
        // A row that is looked up as padding has no gradient, whatever differences say: the golden cases have those.
        "a padding number": [[4, 3] Any]
            |x| Var::embedding_with(foldback_tensor::tensor![1, 2, 2; i64], &x[0], -1);
        "nothing": [[4, 0] Any] |x| Var::embedding(foldback_tensor::tensor![1; i64], &x[0]);
    }
}

pub(super) use rows::ALL;

/// # Embedding
impl Var {
    /// The rows of a table `[n, d]` that numbers `[..]` (`i64`) name; see [`Tensor::embedding`].
    ///
    /// # Errors
    /// As [`Tensor::embedding`].
    ///
    /// ```
    /// use foldback_graph::{RequiresGrad, Var};
    /// use foldback_tensor::tensor;
    /// let table = tensor![[0.0], [1.0], [2.0]].requires_grad();
    /// Var::embedding(tensor![2, 2; i64], &table)?.sum(..)?.backward()?;
    /// assert_eq!(table.grad(), Some(tensor![[0.0], [0.0], [2.0]]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn embedding(ids: impl Into<Indices>, weight: impl AsInput) -> Result<Var> {
        let (ids, weight) = (ids.into(), weight.to_var());
        let _span = crate::profile::forward("embedding");
        let rows = Tensor::embedding(&ids, &*weight.value_ref()).here()?;
        Ok(looked_up(ids, &weight, rows, None))
    }

    /// [`Var::embedding`] in which one row, that of a padding number (negative ones count from the end), has no gradient.
    ///
    /// # Errors
    /// As [`Tensor::embedding_with`].
    ///
    /// ```
    /// use foldback_graph::{RequiresGrad, Var};
    /// use foldback_tensor::tensor;
    /// let table = tensor![[0.0], [1.0], [2.0]].requires_grad();
    /// Var::embedding_with(tensor![2, 0; i64], &table, 0)?.sum(..)?.backward()?;
    /// assert_eq!(table.grad(), Some(tensor![[0.0], [0.0], [1.0]]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn embedding_with(
        ids: impl Into<Indices>,
        weight: impl AsInput,
        padding_idx: impl Into<i64>,
    ) -> Result<Var> {
        let (ids, weight) = (ids.into(), weight.to_var());
        let padding = kernel::padding_row(&weight.value_ref(), padding_idx.into()).here()?;
        let _span = crate::profile::forward("embedding");
        let rows = Tensor::embedding(&ids, &*weight.value_ref()).here()?;
        Ok(looked_up(ids, &weight, rows, Some(padding)))
    }
}

#[track_caller]
fn looked_up(ids: Indices, weight: &Var, rows: Tensor, padding: Option<i64>) -> Var {
    let count = weight.shape().dims()[0];
    record_one(rows::embedding.name, &[weight], rows, Reads::All(&[]), move || {
        let function = move |ctx: &Context<'_>, take: &mut Take<'_>| {
            let n = ctx.lead;
            if ctx.tangents.is_some() {
                return take(Flow::to(0, tangent(&ctx.tangent(0), &ids, padding, &ctx.full(), n)?));
            }
            let work = Work::either(
                (ctx.grad(0), ids.clone()),
                move |(g, ids)| match n.0 {
                    None => kernel::embedding_backward(&g.value_ref(), ids, count, padding),
                    Some(_) => recorded(g, ids, count, padding, n).map(|g| g.value()),
                },
                move |(g, ids)| recorded(g, ids, count, padding, n),
            );
            take(Flow::to(0, work))
        };
        Box::new(Able { leads: true, pushes: true, arrival: apart, function })
    })
}

fn recorded(g: &Var, ids: &Indices, count: usize, padding: Option<i64>, n: Lead) -> Result<Var> {
    let width = g.size(-1)?;
    let (flat, g) = (ids.reshape(-1)?, g.reshape(n.shape(&[ids.numel(), width].into()))?);
    let whole = Tensor::try_zeros_with(n.shape(&[count, width].into()), g.dtype())?;
    Var::constant(whole).index_add(n.axes(), &flat, without_padding(&g, &flat, padding)?)
}

/// The tangent of the table's rows that are looked up: a row of padding has none.
fn tangent(t: &Var, ids: &Indices, padding: Option<i64>, full: &Shape, n: Lead) -> Result<Var> {
    let flat = ids.reshape(-1)?;
    without_padding(&t.index_select(n.axes(), &flat)?, &flat, padding)?.reshape(full)
}

fn without_padding(rows: &Var, ids: &Tensor, padding: Option<i64>) -> Result<Var> {
    match padding {
        Some(padding) => Var::constant(ids.eq(padding)?.unsqueeze(-1)?).where_cond(0.0, rows),
        None => Ok(rows.clone()),
    }
}
