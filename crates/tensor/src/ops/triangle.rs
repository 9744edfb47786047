//! The triangles of a matrix.

use crate::error::{Here, Result, TensorFacts, or_panic, refuse};
use crate::tensor::Tensor;

/// # Triangles
impl Tensor {
    /// The lower triangle of each matrix in the last two axes; zero above the main diagonal.
    ///
    /// # Panics
    /// For fewer than two axes; [`Tensor::tril_with`] returns an error.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[1.0, 2.0], [3.0, 4.0]].tril(), tensor![[1.0, 0.0], [3.0, 4.0]]);
    /// ```
    #[track_caller]
    pub fn tril(&self) -> Tensor {
        or_panic(self.triangle("tril", 0, true))
    }

    /// [`Tensor::tril`] up to another diagonal: 1 is the one above the main one, -1 the one below.
    ///
    /// # Errors
    /// `Rank` for fewer than two axes; `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[1.0, 2.0], [3.0, 4.0]].tril_with(-1)?, tensor![[0.0, 0.0], [3.0, 0.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn tril_with(&self, diagonal: impl Into<i64>) -> Result<Tensor> {
        self.triangle("tril_with", diagonal.into(), true).here()
    }

    /// The upper triangle of each matrix in the last two axes; zero below the main diagonal.
    ///
    /// # Panics
    /// For fewer than two axes; [`Tensor::triu_with`] returns an error.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[1.0, 2.0], [3.0, 4.0]].triu(), tensor![[1.0, 2.0], [0.0, 4.0]]);
    /// ```
    #[track_caller]
    pub fn triu(&self) -> Tensor {
        or_panic(self.triangle("triu", 0, false))
    }

    /// [`Tensor::triu`] from another diagonal on: 1 is the one above the main one, -1 the one below.
    ///
    /// # Errors
    /// `Rank` for fewer than two axes; `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![[1.0, 2.0], [3.0, 4.0]].triu_with(1)?, tensor![[0.0, 2.0], [0.0, 0.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn triu_with(&self, diagonal: impl Into<i64>) -> Result<Tensor> {
        self.triangle("triu_with", diagonal.into(), false).here()
    }

    /// What lies on one side of a diagonal. Selected, not multiplied: NaN and infinities on the other side are gone.
    fn triangle(&self, op: &'static str, diagonal: i64, lower: bool) -> Result<Tensor> {
        let &[.., rows, cols] = self.dims() else {
            return refuse(TensorFacts::Rank { op, operand: "", expected: "at least 2", found: self.rank() });
        };
        let diagonal =
            diagonal.clamp(-i64::try_from(rows).unwrap_or(i64::MAX), i64::try_from(cols).unwrap_or(i64::MAX));
        let row = Tensor::try_arange(0..rows)?.unsqueeze(-1)?.add(diagonal)?;
        let col = Tensor::try_arange(0..cols)?;
        let inside = if lower { col.le(row)? } else { col.ge(row)? };
        inside.where_cond(self, Tensor::try_zeros_with((), self.dtype())?).map_err(|e| e.named(op))
    }
}

#[cfg(test)]
mod tests {
    use crate::{DType, Tensor, refused, tensor};

    #[test]
    fn every_diagonal_of_every_shape() {
        for shape in [[3, 4], [4, 3], [1, 1], [0, 2], [2, 0]] {
            let t = Tensor::ones([2, shape[0], shape[1]]);
            for k in -5..=5 {
                let (lower, upper) = (t.tril_with(k).unwrap(), t.triu_with(k).unwrap());
                for b in 0..2 {
                    for i in 0..shape[0] {
                        for j in 0..shape[1] {
                            let at = |t: &Tensor| t.slice((b, i, j)).unwrap().item().unwrap() != 0.0;
                            assert_eq!(at(&lower), j as i64 - i as i64 <= k);
                            assert_eq!(at(&upper), j as i64 - i as i64 >= k);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn types_edges_and_refusals() {
        let t = tensor![[f32::NAN, f32::INFINITY], [1.0, 2.0]];
        assert_eq!(t.tril().slice((0, 1)).unwrap(), tensor![0.0].reshape(()).unwrap());
        assert_eq!(
            tensor![[true, true], [true, true]; bool].tril(),
            tensor![[true, false], [true, true]; bool]
        );
        assert_eq!(tensor![[1, 2], [3, 4]; i64].triu().dtype(), DType::I64);
        let whole = tensor![[1.0, 2.0], [3.0, 4.0]];
        assert_eq!(whole.tril_with(i64::MAX).unwrap(), whole);
        assert_eq!(whole.triu_with(i64::MIN).unwrap(), whole);
        assert_eq!(whole.triu_with(i64::MAX).unwrap(), whole.zeros_like());
        assert!(refused!(tensor![1.0].tril_with(0), super::TensorFacts::Rank { op: "tril_with", .. }));
    }
}
