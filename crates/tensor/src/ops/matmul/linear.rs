//! Linear maps: a matrix product with a transposed weight, onto a bias.

use super::multiply;
use crate::error::{Here, Result, TensorFacts, refuse};
use crate::ops::arg::{AsArg, AsOptionalArg};
use crate::shape::{Dims, Shape};
use crate::task::{Spec, expect_one_dtype};
use crate::tensor::Tensor;

impl Tensor {
    /// `self @ weight^T + bias` over the last axis: an input of shape `[.., in]`, a weight of shape `[out, in]` and a bias of
    /// shape `[out]` (`[]` and `[1]`: the same number for all outputs) give `[.., out]`. A weight of shape `[in]` and a bias of
    /// shape `[]` give `[..]`.
    ///
    /// The bias is added to each block of the product while it is in registers: no second pass. The weight is read as it lies.
    ///
    /// # Errors
    /// As [`Tensor::matmul`]; `Rank` unless the weight has one or two axes, `ShapeMismatch` if the bias has another
    /// shape, `MixedDTypes` if the type of the weight or the bias is not that of the input.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let (x, w, b) = (tensor![[1.0, 2.0]], tensor![[1.0, 1.0], [0.0, 1.0]], tensor![0.5, -0.5]);
    /// assert_eq!(x.linear(&w, &b)?, tensor![[3.5, 1.5]]);
    /// assert_eq!(x.linear(&w, None)?, tensor![[3.0, 2.0]]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn linear(&self, weight: impl AsArg, bias: impl AsOptionalArg) -> Result<Tensor> {
        affine("linear", self, &weight.arg().tensor(self.dtype()), bias.optional_arg()).here()
    }
}

#[track_caller]
fn affine(op: &'static str, x: &Tensor, w: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    expect_one_dtype(op, ("input", x), ("weight", w))?;
    let w = match w.rank() {
        1 => return vector_linear(op, x, w, bias),
        2 if x.rank() > 0 && x.dims().last() != w.dims().last() => {
            return refuse(TensorFacts::Features { op, input: x.shape().clone(), weight: w.shape().clone() });
        }
        2 => w.t(),
        found => return refuse(TensorFacts::Rank { op, operand: "weight", expected: "1 or 2", found }),
    };
    let spec = Spec::new(op, x, &w)?;
    let Some(bias) = bias else { return multiply(op, &spec, &[x, &w], None) };
    expect_one_dtype(op, ("input", x), ("bias", bias))?;
    let expanded;
    let bias = match *bias.dims() {
        [n] if n == spec.n => bias,
        [] | [1] => {
            expanded = bias.expand([spec.n])?;
            &expanded
        }
        _ => {
            return refuse(TensorFacts::ShapeMismatch {
                op,
                operand: "bias",
                expected: [spec.n].into(),
                found: bias.shape().clone(),
            });
        }
    };
    multiply(op, &spec, &[x, &w, bias], None)
}

/// [`Tensor::linear`] of a weight with one axis: that of a matrix of one row, without the axis of its results.
#[track_caller]
fn vector_linear(op: &'static str, x: &Tensor, w: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    if let Some(bias) = bias
        && bias.rank() != 0
    {
        return refuse(TensorFacts::ShapeMismatch {
            op,
            operand: "bias",
            expected: Shape::scalar(),
            found: bias.shape().clone(),
        });
    }
    let bias = bias.map(|b| b.unsqueeze(0)).transpose()?;
    let columns = affine(op, x, &w.unsqueeze(0)?, bias.as_ref())?;
    let kept: Dims<bool> = (0..columns.rank()).map(|i| i + 1 < columns.rank()).collect();
    Ok(columns.keep_axes(&kept))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{layouts, naive, numbers};
    use super::*;
    use crate::dtype::DType;
    use crate::{refused, tensor};

    #[test]
    fn a_linear_map_is_a_product_and_a_sum() {
        let shapes: [(&[usize], usize); 7] = [
            (&[3], 2),
            (&[4, 3], 2),
            (&[2, 5, 3], 1),
            (&[0, 3], 2),
            (&[4, 0], 2),
            (&[4, 3], 0),
            (&[70, 33], 40),
        ];
        for (shape, out) in shapes {
            for dtype in [DType::F32, DType::F64, DType::I64] {
                let inner = shape[shape.len() - 1];
                let (x, w) = (numbers(shape, 1, dtype), numbers(&[out, inner], 2, dtype));
                let bias = numbers(&[out], 3, dtype);
                let product = naive(&x, &w.t());
                let want = product.add(&bias).unwrap();
                for x in layouts(&x) {
                    for w in layouts(&w) {
                        assert_eq!(x.linear(&w, None).unwrap(), product, "{shape:?} to {out}");
                        for bias in layouts(&bias) {
                            let got = x.linear(&w, &bias).unwrap();
                            assert_eq!(got, want, "{shape:?} to {out} in {dtype}");
                        }
                    }
                }
            }
        }
        // One number is the bias of all outputs, and of none.
        let (x, w) = (numbers(&[4, 3], 1, DType::F64), numbers(&[2, 3], 2, DType::F64));
        for bias in [numbers(&[1], 3, DType::F64), numbers(&[], 3, DType::F64)] {
            assert_eq!(x.linear(&w, &bias).unwrap(), naive(&x, &w.t()).add(&bias).unwrap());
            assert_eq!(x.linear(w.narrow(0, 0, 0).unwrap(), &bias).unwrap().dims(), [4, 0]);
        }
        // An axis that the input is expanded over is computed once.
        let (x, w, bias) = (numbers(&[4, 3], 1, DType::F32), numbers(&[2, 3], 2, DType::F32), [1.0f32, 2.0]);
        let bias = Tensor::from_vec(bias.to_vec(), [2]).unwrap();
        let wide = x.expand([5, 4, 3]).unwrap().linear(&w, &bias).unwrap();
        assert_eq!(wide.strides(), [0, 2, 1]);
        assert_eq!(wide, x.linear(&w, &bias).unwrap().expand([5, 4, 2]).unwrap());
        let t = |shape: &[usize]| Tensor::ones(shape);
        let refused = |x: &[usize], w: &[usize], b: &[usize]| t(x).linear(t(w), t(b)).unwrap_err();
        assert!(matches!(
            refused(&[4, 3], &[1, 2, 3], &[2]).facts(),
            Some(TensorFacts::Rank { expected: "1 or 2", found: 3, .. })
        ));
        assert!(matches!(refused(&[], &[2, 3], &[2]).facts(), Some(TensorFacts::Rank { found: 0, .. })));
        assert!(matches!(refused(&[4, 3], &[2, 4], &[2]).facts(), Some(TensorFacts::Features { .. })));
        let e = refused(&[4, 10], &[10, 5], &[5]).to_string();
        assert!(
            e.starts_with(
                "linear: a weight of shape [10, 5] takes inputs of 5 in their last axis, found [4, 10]"
            ),
            "{e}"
        );
        assert!(matches!(refused(&[4, 3], &[2, 3], &[3]).facts(), Some(TensorFacts::ShapeMismatch { .. })));
        assert!(matches!(
            refused(&[4, 3], &[2, 3], &[1, 2]).facts(),
            Some(TensorFacts::ShapeMismatch { .. })
        ));
        let double = t(&[2]).to(DType::F64);
        assert_eq!(
            x.linear(&w, &double).unwrap_err(),
            TensorFacts::MixedDTypes { op: "linear", a: ("input", DType::F32), b: ("bias", DType::F64) }
        );
        for w in [w.to(DType::F64), Tensor::ones_with([3], DType::F64)] {
            let text = x.linear(&w, None).unwrap_err().with_location(None).to_string();
            let cure = "they must have one dtype; convert the input with to(DType::F64), or the weight with to(DType::F32)";
            assert_eq!(text, format!("linear: the input is f32, the weight f64: {cure}"));
        }
    }

    #[test]
    fn a_linear_map_of_one_output_without_an_axis() {
        let (x, w) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![10.0, 1.0]);
        assert_eq!(x.linear(&w, None).unwrap(), tensor![12.0, 34.0]);
        assert_eq!(x.linear(&w, Tensor::scalar(0.5f32)).unwrap(), tensor![12.5, 34.5]);
        let row = tensor![1.0, 2.0].linear(&w, Tensor::scalar(0.5f32)).unwrap();
        assert_eq!(row, Tensor::scalar(12.5f32));
        assert_eq!(Tensor::zeros([0, 5, 2]).linear(&w, None).unwrap().dims(), [0, 5]);
        assert!(refused!(x.linear(&w, tensor![0.5]), TensorFacts::ShapeMismatch { .. }));
        assert!(refused!(x.linear(Tensor::scalar(1.0f32), None), TensorFacts::Rank { .. }));
    }
}
