//! Products added to a tensor, `addmm` and `baddbmm`, and the product of all pairs.

use super::arg::AsArg;
use super::matmul::StrictProduct;
use crate::dtype::Scalar;
use crate::error::{Here, Result, TensorFacts, refuse};
use crate::shape::expect_expansion;
use crate::task::{Spec, expect_one_dtype};
use crate::tensor::Tensor;

/// # Sums with products
impl Tensor {
    /// `self + a @ b` of matrices `[m, k]` and `[k, n]`; `self` broadcasts to `[m, n]`.
    ///
    /// # Errors
    /// `Rank` unless `a` and `b` are matrices, `Matmul` if their inner sizes differ, `Expand` if `self` does not expand to
    /// the product, `MixedDTypes`; `DTypeUnsupported` for `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let (a, b) = (tensor![[1.0, 2.0]], tensor![[3.0], [4.0]]);
    /// assert_eq!(tensor![0.5].addmm(&a, &b)?, tensor![[11.5]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn addmm(&self, a: impl AsArg, b: impl AsArg) -> Result<Tensor> {
        self.addmm_with(a, b, 1, 1)
    }

    /// `beta * self + alpha * (a @ b)`. Where `beta` is 0, NaN and infinities in `self` are ignored. Beside integers
    /// both scales are integers, too: what they have behind the point is dropped, as in PyTorch.
    ///
    /// # Errors
    /// As [`Self::addmm`].
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let (a, b) = (tensor![[1.0, 2.0]], tensor![[3.0], [4.0]]);
    /// assert_eq!(tensor![f32::NAN].addmm_with(&a, &b, 0, 0.5)?, tensor![[5.5]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn addmm_with(
        &self,
        a: impl AsArg,
        b: impl AsArg,
        beta: impl Into<Scalar>,
        alpha: impl Into<Scalar>,
    ) -> Result<Tensor> {
        let (a, b) = (a.arg().tensor(self.dtype()), b.arg().tensor(self.dtype()));
        self.plus_product("addmm", StrictProduct::MM, [&a, &b], [beta.into(), alpha.into()]).here()
    }

    /// `self + a @ b` of batches of matrices, `[b, m, k]` and `[b, k, n]`; `self` broadcasts to `[b, m, n]`.
    ///
    /// # Errors
    /// As [`Self::addmm`], with three axes.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let (a, b) = (tensor![[[1.0, 2.0]]], tensor![[[3.0], [4.0]]]);
    /// assert_eq!(tensor![0.5].baddbmm(&a, &b)?, tensor![[[11.5]]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn baddbmm(&self, a: impl AsArg, b: impl AsArg) -> Result<Tensor> {
        self.baddbmm_with(a, b, 1, 1)
    }

    /// `beta * self + alpha * (a @ b)` of batches, as [`Self::addmm_with`].
    ///
    /// # Errors
    /// As [`Self::addmm_with`], with three axes.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let (a, b) = (tensor![[[1, 2]]; i64], tensor![[[3], [4]]; i64]);
    /// assert_eq!(tensor![5; i64].baddbmm_with(&a, &b, 2, 3)?, tensor![[[43]]; i64]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn baddbmm_with(
        &self,
        a: impl AsArg,
        b: impl AsArg,
        beta: impl Into<Scalar>,
        alpha: impl Into<Scalar>,
    ) -> Result<Tensor> {
        let (a, b) = (a.arg().tensor(self.dtype()), b.arg().tensor(self.dtype()));
        self.plus_product("baddbmm", StrictProduct::BMM, [&a, &b], [beta.into(), alpha.into()]).here()
    }

    fn plus_product(
        &self,
        op: &'static str,
        product: StrictProduct,
        [a, b]: [&Tensor; 2],
        scales: [Scalar; 2],
    ) -> Result<Tensor> {
        product.check(a, b).map_err(|e| e.named(op))?;
        expect_one_dtype(op, ("input", self), ("first factor", a))?;
        expect_one_dtype(op, ("input", self), ("second factor", b))?;
        let own = |s: Scalar| if self.dtype().is_float() { s } else { Scalar::I64(s.to_i64()) };
        let [beta, alpha] = scales.map(own);
        let shape = Spec::new(op, a, b)?.shape;
        expect_expansion(op, "input", self.shape(), &shape)?;
        if a.rank() == 2 && alpha.to_f64() == 0.0 {
            // No times what may be infinite; of batches PyTorch takes it.
            let rest = if beta.to_f64() == 0.0 { Ok(self.zeros_like()) } else { self.mul(beta) };
            return rest.and_then(|rest| rest.expand(&shape)?.try_contiguous()).map_err(|e| e.named(op));
        }
        let product = a.matmul(b).map_err(|e| e.named(op))?;
        let result = match beta.to_f64() {
            0.0 => product.mul(alpha),
            1.0 => self.add_with(product, alpha),
            _ => self.mul(beta).and_then(|own| own.add_with(product, alpha)),
        };
        result.map_err(|e| e.named(op))
    }

    /// The products of all pairs of elements of two vectors, `[m]` and `[n]`: a matrix `[m, n]`.
    ///
    /// # Errors
    /// `Rank` unless both are vectors, `TooLarge`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].outer(&tensor![3.0, 4.0])?, tensor![[3.0, 4.0], [6.0, 8.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    #[doc(alias = "ger")]
    pub fn outer(&self, other: impl AsArg) -> Result<Tensor> {
        let other = other.arg().tensor(self.dtype());
        expect_vectors("outer", [self, &other]).here()?;
        self.unsqueeze(-1)?.mul(&*other).map_err(|e| e.named("outer")).here()
    }
}

/// Refuses operands that are no vectors.
#[doc(hidden)]
pub fn expect_vectors(op: &'static str, operands: [&Tensor; 2]) -> Result<()> {
    match operands.iter().find(|t| t.rank() != 1) {
        Some(t) => refuse(TensorFacts::Rank { op, operand: "two vectors", expected: "1", found: t.rank() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Tensor, TensorFacts, refused, tensor};

    #[test]
    fn sums_with_products_follow_the_definition() {
        let (a, b) =
            (tensor![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], tensor![[1.0, -1.0], [0.5, 2.0], [0.0, 1.0]]);
        let product = a.mm(&b).unwrap();
        for own in
            [tensor![[1.0, 2.0], [3.0, 4.0]], tensor![1.0, 2.0], tensor![[1.0], [2.0]], Tensor::from(2.0f32)]
        {
            assert_eq!(own.addmm(&a, &b).unwrap(), own.add(&product).unwrap());
            for (beta, alpha) in [(2.0, 1.0), (1.0, -0.5), (0.0, 2.0), (0.5, 0.0)] {
                let want = own.mul(beta).unwrap().add(product.mul(alpha).unwrap()).unwrap();
                let found = own.addmm_with(&a, &b, beta, alpha).unwrap();
                assert_eq!(found, want, "{beta} {alpha}");
                let [a, b] = [&a, &b].map(|t| t.unsqueeze(0).unwrap());
                assert_eq!(own.baddbmm_with(a, b, beta, alpha).unwrap(), want.unsqueeze(0).unwrap());
            }
        }
    }

    #[test]
    fn nan_is_ignored_where_beta_is_zero_and_integers_stay() {
        let (nan, one) = (tensor![f32::NAN], tensor![[1.0]]);
        assert_eq!(nan.addmm_with(&one, &one, 0.0, 1.0).unwrap(), one);
        assert_eq!(nan.addmm_with(&one, &one, -0.0, 3).unwrap(), tensor![[3.0]]);
        assert!(nan.addmm(&one, &one).unwrap().item().unwrap().is_nan());
        let (i, big) = (tensor![[2]; i64], (1i64 << 53) + 1);
        assert_eq!(tensor![1; i64].addmm_with(&i, &i, big, 1).unwrap(), tensor![[big + 4]; i64]);
        assert_eq!(tensor![1; i64].addmm_with(&i, &i, 2.0, true).unwrap(), tensor![[6]; i64]);
        assert_eq!(i.addmm_with(&i, &i, 0.9, 1.5).unwrap(), tensor![[4]; i64]);
    }

    #[test]
    fn refusals() {
        let (x, v) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![1.0, 2.0]);
        assert!(refused!(x.addmm(&v, &x), TensorFacts::Rank { op: "addmm", .. }));
        assert!(refused!(x.baddbmm(&x, &x), TensorFacts::Rank { op: "baddbmm", .. }));
        for alpha in [1, 0] {
            let row = x.narrow(0, 0, 1).unwrap();
            assert!(refused!(x.addmm_with(&x, &row, 1, alpha), TensorFacts::Matmul { op: "addmm", .. }));
            let [x, row] = [&x, &row].map(|t| t.unsqueeze(0).unwrap());
            assert!(refused!(x.baddbmm_with(&x, row, 1, alpha), TensorFacts::Matmul { op: "baddbmm", .. }));
        }
        assert!(refused!(tensor![1.0, 2.0, 3.0].addmm(&x, &x), TensorFacts::Expand { op: "addmm", .. }));
        assert!(refused!(x.unsqueeze(0).unwrap().addmm(&x, &x), TensorFacts::Expand { op: "addmm", .. }));
        assert!(refused!(x.addmm(x.double(), &x), TensorFacts::MixedDTypes { op: "addmm", .. }));
        assert!(refused!(x.double().addmm(&x, &x), TensorFacts::MixedDTypes { op: "addmm", .. }));
        assert!(refused!(
            x.bool().addmm(x.bool(), x.bool()),
            TensorFacts::DTypeUnsupported { op: "addmm", .. }
        ));
        assert!(refused!(x.outer(&v), TensorFacts::Rank { op: "outer", found: 2, .. }));
        assert!(refused!(v.outer(2.0), TensorFacts::Rank { op: "outer", found: 0, .. }));
        assert_eq!(v.outer(tensor![3; i64]).unwrap(), tensor![[3.0], [6.0]]);
        assert_eq!(
            v.bool().outer(tensor![true, false; bool]).unwrap(),
            tensor![[true, false], [true, false]]
        );
        assert_eq!(v.narrow(0, 0, 0).unwrap().outer(&v).unwrap().dims(), [0, 2]);
        let huge = tensor![1.0].expand([1usize << 60]).unwrap();
        assert_eq!(huge.outer(v.narrow(0, 0, 0).unwrap()).unwrap().dims(), [1 << 60, 0]);
    }
}
