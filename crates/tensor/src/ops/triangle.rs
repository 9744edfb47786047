//! The triangles of a matrix.

use crate::dtype::{BlockMut, Element, with_block};
use crate::error::{Here, Result, TensorFacts, or_panic, refuse};
use crate::kernels::typed;
use crate::task::{self, Read, WholeRule};
use crate::tensor::Tensor;
use crate::threads::{GRAIN, split_work};

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
        let most = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let rule = Triangle { size: [rows, cols], diagonal: diagonal.clamp(-most(rows), most(cols)), lower };
        let (x, dtype) = (self.laid_out(op)?, self.dtype());
        task::whole(op, &rule, &[Read::Tensor(&x, dtype)], self.shape(), dtype)
    }
}

/// The elements of each matrix on one side of a diagonal, zeros on the other.
struct Triangle {
    size: [usize; 2],
    diagonal: i64,
    lower: bool,
}

impl WholeRule for Triangle {
    fn run(&self, _: &'static str, reads: &[&Tensor], out: BlockMut<'_>) -> Result<()> {
        let x = reads[0].as_block().expect("it is laid out");
        with_block!(BlockMut, out, out => self.write(out, typed::<_, 1>(&[x])[0]));
        Ok(())
    }
}

impl Triangle {
    fn write<T: Element>(&self, out: &mut [T], x: &[T]) {
        let [rows, cols] = self.size;
        let width = cols.max(1);
        let (count, grain) = (out.len() / width, GRAIN.div_ceil(width));
        split_work(
            count,
            grain,
            out,
            &|out: &mut [T], at| out.split_at_mut(at * width),
            &|first, count, out| {
                let x = &x[first * width..][..count * width];
                for (i, (out, x)) in out.chunks_exact_mut(width).zip(x.chunks_exact(width)).enumerate() {
                    let along = ((first + i) % rows) as i64 + self.diagonal + i64::from(self.lower);
                    let middle = usize::try_from(along).map_or(0, |n| n.min(cols));
                    let kept = if self.lower { 0..middle } else { middle..cols };
                    let zeros = if self.lower { middle..cols } else { 0..middle };
                    out[kept.clone()].copy_from_slice(&x[kept]);
                    out[zeros].fill(T::default());
                }
            },
        );
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

    /// In several parts, laid out otherwise, against choices one by one.
    #[test]
    fn large_matrices_and_transposed_ones() {
        let x = Tensor::rand([3, 200, 170]).sub(0.5).unwrap();
        let (i, j) = (Tensor::arange(200).unsqueeze(-1).unwrap(), Tensor::arange(170));
        let across = x.transpose(1, 2).unwrap().contiguous().transpose(1, 2).unwrap();
        for k in [-200, -3, 0, 5, 169] {
            let below = j.le(i.add(k).unwrap()).unwrap();
            assert_eq!(x.tril_with(k).unwrap(), below.where_cond(&x, 0.0).unwrap());
            assert_eq!(across.tril_with(k).unwrap(), x.tril_with(k).unwrap());
            let above = j.ge(i.add(k).unwrap()).unwrap();
            assert_eq!(across.triu_with(k).unwrap(), above.where_cond(&x, 0.0).unwrap());
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
