//! Tables of vectors.

use foldback_graph::{AsInput, Var, no_grad};
use foldback_tensor::{DType, Here, Tensor, keep, refuse};

use super::making::{Drawing, Drawn, blank, is_blank, making};
use crate::error::{NnFacts, Result};
use crate::init::Init;
use crate::{Module, forward};

/// A table of vectors, looked up by number: `[..]` of `i64` to `[.., width]`. PyTorch's
/// [`Embedding`](https://docs.pytorch.org/docs/stable/generated/torch.nn.Embedding.html).
///
/// The vectors start normal with mean 0 and variance 1, that of padding as zeros. A clone shares the table,
/// [`deep_copy`](Module::deep_copy) does not.
///
/// ```
/// use foldback_nn::Embedding;
/// use foldback_tensor::{Tensor, tensor};
/// let layer = Embedding::new(10, 3).padding_idx(0);
/// let y = layer.forward(&tensor![[4, 0], [2, 9]; i64])?;
/// assert_eq!(y.shape(), [2, 2, 3]);
/// assert_eq!(y.value().select(0, 0)?.select(0, 1)?, Tensor::zeros(3));
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Module)]
pub struct Embedding {
    /// `[count, width]`
    pub weight: Var,
    num_embeddings: usize,
    embedding_dim: usize,
    #[module(skip)]
    padding_idx: Option<i64>,
    #[module(skip)]
    max_norm: Option<f64>,
    norm_type: f64,
    scale_grad_by_freq: bool,
    #[module(skip)]
    dtype: DType,
}

making! {
    Embedding(num_embeddings: usize, embedding_dim: usize) = Embedding {
        weight: blank(),
        num_embeddings,
        embedding_dim,
        padding_idx: None,
        max_norm: None,
        norm_type: 2.0,
        scale_grad_by_freq: false,
        dtype: DType::F32,
    };
    shown { num_embeddings embedding_dim padding_idx dtype }
    keep {
        /// The largest norm of a vector: a longer one is shortened, in the table, when it is looked up. The default, also `None`, is that
        /// there is none.
        max_norm: impl Into<Option<f64>>;
        /// Which norm that is. The default is 2.
        norm_type: f64;
        /// Whether a vector's gradient is divided by how often it is looked up in a call. The default is no.
        scale_grad_by_freq: bool;
    }
    anew {
        /// The number whose vector starts as zeros and gets no gradient; a negative one counts from the end. The default, also
        /// `None`, is that there is none. The table is drawn anew.
        padding_idx: impl Into<Option<i64>>, |layer| {
            layer.padding_idx = padding_idx.into();
            layer.clear();
        };
    }
}

impl Embedding {
    /// A layer with this table, `[count, width]`. A tensor is frozen: no gradient comes to it. A variable is used as it is, so that
    /// layers can share it.
    ///
    /// # Errors
    /// `ParameterShape` if it has another number of axes, `DType` if it is of no floating-point type.
    ///
    /// ```
    /// use foldback_nn::Embedding;
    /// use foldback_tensor::tensor;
    /// let layer = Embedding::from_pretrained(tensor![[1.0, 2.0], [3.0, 4.0]])?;
    /// assert_eq!(layer.forward(&tensor![1; i64])?.value(), tensor![[3.0, 4.0]]);
    /// assert!(!layer.weight.requires_grad());
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    #[track_caller]
    pub fn from_pretrained(weight: impl AsInput) -> Result<Embedding> {
        let mut weight = weight.to_var();
        let [num_embeddings, embedding_dim] = *weight.dims() else {
            let (op, name, expected) = ("embedding", "a weight", "[count, width]".into());
            return refuse(NnFacts::ParameterShape { op, name, expected, found: weight.shape().clone() })
                .here();
        };
        // A tensor has no place of its own that copies and files could find again.
        if !weight.is_same(&weight) {
            weight = Var::leaf(weight.value())?;
            weight.requires_grad_(false)?;
        }
        let dtype = weight.dtype();
        let mut layer = Embedding::builder(num_embeddings, embedding_dim).dtype(dtype).layer;
        layer.weight = weight;
        Ok(layer)
    }
}

impl Drawn for Embedding {
    fn clear(&mut self) {
        self.weight = blank();
    }

    #[track_caller]
    fn draw(&mut self, drawing: &mut Drawing<'_>) -> Result<()> {
        let row = match self.padding_idx {
            None => None,
            Some(row) => Some(row_of(row, self.num_embeddings)?),
        };
        if !is_blank(&self.weight) {
            return Ok(());
        }
        let shape = [self.num_embeddings, self.embedding_dim];
        let mut table = drawing.sample(&shape, Init::normal(0.0, 1.0), self.dtype)?;
        if let Some(row) = row {
            table.slice_assign(row, 0)?;
        }
        self.weight = Var::leaf(table)?;
        Ok(())
    }
}

/// A row by its number, which may be negative.
fn row_of(row: i64, count: usize) -> Result<i64> {
    let n = i64::try_from(count).unwrap_or(i64::MAX);
    if (-n..n).contains(&row) {
        return Ok(row);
    }
    let (op, name, expected) = ("embedding", "padding_idx", "the number of a row");
    refuse(NnFacts::Parameter { op, name, value: row as f64, expected })
}

#[forward]
impl Embedding {
    /// The vector of each number: `[..]` of `i64` to `[.., width]`.
    ///
    /// # Errors
    /// If the numbers are not `i64`, or one of them has no vector; with `max_norm` also if the table is the result of an operation.
    #[track_caller]
    pub fn forward(&self, ids: &Var) -> Result<Var> {
        if let Some(max_norm) = self.max_norm {
            self.shorten(&ids.value(), max_norm)?;
        }
        let rows = match self.padding_idx {
            None => Var::embedding(ids, &self.weight)?,
            Some(padding) => Var::embedding_with(ids, &self.weight, padding)?,
        };
        if !self.scale_grad_by_freq {
            return Ok(rows);
        }
        let flat = ids.value().reshape(-1)?;
        let shares =
            flat.bincount(self.num_embeddings)?.index_select(0, &flat)?.to(rows.dtype()).reciprocal();
        let (fixed, shares) = (rows.detach(), shares.reshape(ids.shape())?.unsqueeze(-1)?);
        // The value as it is, with a share of the gradient.
        fixed.add(&rows.sub(&fixed)?.mul(&shares)?)
    }
}

impl Embedding {
    /// Shortens the vectors of these numbers in the table, as PyTorch does: to the norm times `|v| / (|v| + 1e-7)`.
    #[track_caller]
    fn shorten(&self, ids: &Tensor, max_norm: f64) -> Result<()> {
        let (flat, mut table) = (ids.reshape(-1)?, self.weight.value());
        let rows = Tensor::embedding(&flat, &table)?;
        let norms = rows.norm_with(keep(1), self.norm_type)?;
        let long = norms.gt(max_norm)?;
        if !long.any(..)?.item_as::<bool>()? {
            return Ok(());
        }
        let factors = long.where_cond(norms.add(1e-7)?.rdiv(max_norm)?, 1.0)?;
        table.slice_assign(&flat, rows.mul(&factors)?)?;
        no_grad(|| self.weight.clone().set_value(table))
    }
}

#[cfg(test)]
mod tests {
    use foldback_graph::RequiresGrad;
    use foldback_tensor::tensor;

    use super::*;
    use crate::Module;

    #[test]
    fn padding_has_no_gradient() {
        let layer = Embedding::new(3, 2).padding_idx(-1).dtype(DType::F64);
        layer.forward(&tensor![2, 0, 2; i64]).unwrap().sum(..).unwrap().backward().unwrap();
        assert_eq!(layer.weight.grad().unwrap(), tensor![[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]; f64]);
        assert_eq!(layer.weight.value().select(0, 2).unwrap(), tensor![0.0, 0.0; f64]);
        assert!(layer.padding_idx(None).weight.value().select(0, 2).unwrap() != tensor![0.0, 0.0; f64]);
    }

    /// A frozen table is found by name, saved and copied as any other.
    #[test]
    fn a_pretrained_table() {
        let table = tensor![[1.0], [2.0]];
        let frozen = Embedding::from_pretrained(&table).unwrap();
        assert_eq!(frozen.state_dict().get("weight"), Some(&table));
        let mut thawed = frozen.clone();
        thawed.requires_grad_(true).unwrap();
        assert!(frozen.weight.requires_grad());
        let shared = table.requires_grad();
        assert!(Embedding::from_pretrained(&shared).unwrap().weight.is_same(&shared));
        assert!(Embedding::from_pretrained(tensor![1.0]).is_err());
    }

    #[test]
    fn numbers_are_whole_and_in_the_table() {
        let layer = Embedding::new(3, 2);
        assert!(layer.forward(&tensor![3; i64]).is_err());
        assert!(layer.forward(&tensor![-1; i64]).is_err());
        assert!(layer.forward(&tensor![1.0]).is_err());
    }
}
