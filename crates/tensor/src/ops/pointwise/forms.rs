//! Forms with more arguments: scales, bounds, conditions, and given outputs.

use super::super::arg::{Arg, AsArg, Meta, metas_of, result_type};
use super::super::formulas as f;
use super::super::warning;
use super::binary::{rdiv, rpow, rsub};
use super::elementwise::{
    AND, Elementwise, apply, apply_in_place, expect_castable, expect_no_overlap, plan_add, plan_float_only,
    plan_num, plan_real, reads_of, unsupported,
};
use crate::dtype::{DType, Scalar};
use crate::error::{Here, Result, TensorFacts, refuse};
use crate::kernels::{FloatKernel, NumKernel, WhereKernel};
use crate::task::{self, Does, Read, Space, Task, To, common_shape};
use crate::tensor::Tensor;

impl Tensor {
    /// `self + alpha * other`.
    ///
    /// # Errors
    /// As [`Self::add`]; `Alpha` if the scale does not suit the type of the result (a fraction for integers, a truth
    /// value for numbers).
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].add_with(&tensor![10.0, 20.0], 0.5)?, tensor![6.0, 12.0]);
    /// assert!(tensor![1; i64].add_with(&tensor![1; i64], 0.5).is_err());
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn add_with(&self, other: impl AsArg, alpha: impl Into<Scalar>) -> Result<Tensor> {
        scaled("add_with", self, other.arg(), alpha.into(), 1.0).here()
    }

    /// `self - alpha * other`.
    ///
    /// # Errors
    /// As [`Self::sub`] and [`Self::add_with`].
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0].sub_with(&tensor![10.0], 2)?, tensor![-19.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn sub_with(&self, other: impl AsArg, alpha: impl Into<Scalar>) -> Result<Tensor> {
        scaled("sub_with", self, other.arg(), alpha.into(), -1.0).here()
    }

    /// `number - self`.
    ///
    /// # Errors
    /// `DTypeUnsupported` for `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].rsub(3.0)?, tensor![2.0, 1.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn rsub(&self, number: impl Into<Scalar>) -> Result<Tensor> {
        rsub(number.into(), self).here()
    }

    /// `number / self`.
    ///
    /// # Errors
    /// None today; the signature is that of its relatives.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].rdiv(3.0)?, tensor![3.0, 1.5]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn rdiv(&self, number: impl Into<Scalar>) -> Result<Tensor> {
        rdiv(number.into(), self).here()
    }

    /// `number` to the power `self`.
    ///
    /// # Errors
    /// `DTypeUnsupported` for a `bool` to the power of `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].rpow(3.0)?, tensor![3.0, 9.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn rpow(&self, number: impl Into<Scalar>) -> Result<Tensor> {
        rpow(number.into(), self).here()
    }

    /// [`Self::add_with`] into this tensor.
    ///
    /// # Errors
    /// As [`Self::add_`] and [`Self::add_with`]. Nothing is changed then.
    #[track_caller]
    pub fn add_with_(&mut self, other: impl AsArg, alpha: impl Into<Scalar>) -> Result<&mut Tensor> {
        scaled_("add_with_", self, other.arg(), alpha.into(), 1.0).here()?;
        Ok(self)
    }

    /// [`Self::sub_with`] into this tensor.
    ///
    /// # Errors
    /// As [`Self::sub_`] and [`Self::add_with`]. Nothing is changed then.
    #[track_caller]
    pub fn sub_with_(&mut self, other: impl AsArg, alpha: impl Into<Scalar>) -> Result<&mut Tensor> {
        scaled_("sub_with_", self, other.arg(), alpha.into(), -1.0).here()?;
        Ok(self)
    }

    /// `ln(1 + exp(beta x)) / beta`, and `x` itself where `beta x` exceeds `threshold`.
    ///
    /// # Errors
    /// `DTypeUnsupported` for integers and `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![3.0].softplus_with(2.0, 5.0)?, tensor![3.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn softplus_with(&self, beta: impl Into<f64>, threshold: impl Into<f64>) -> Result<Tensor> {
        softplus(self, beta.into(), threshold.into()).here()
    }

    /// `min(max(self, lo), hi)`, with broadcasting; where `lo > hi` the result is `hi`.
    ///
    /// # Errors
    /// `Broadcast` if the shapes do not fit together; `DTypeUnsupported` if all are `bool`.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// assert_eq!(tensor![-1.0, 0.5, 2.0].clamp(0.0, 1.0)?, tensor![0.0, 0.5, 1.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn clamp(&self, lo: impl AsArg, hi: impl AsArg) -> Result<Tensor> {
        let args = [Arg::Tensor(self), lo.arg(), hi.arg()];
        match plan_between(&args) {
            Some(plan) => apply("clamp", Ok(plan), &[args[0]]).here(),
            None => apply("clamp", plan_clamp("clamp", &args), &args).here(),
        }
    }

    /// [`Self::clamp`] into this tensor.
    ///
    /// # Errors
    /// As [`Self::clamp`]; `Expand` or `ResultCast` if the result does not fit this tensor. Nothing is changed then.
    #[track_caller]
    pub fn clamp_(&mut self, lo: impl AsArg, hi: impl AsArg) -> Result<&mut Tensor> {
        let others = [lo.arg(), hi.arg()];
        let plan = plan_clamp("clamp_", &[Arg::Tensor(self), others[0], others[1]]);
        apply_in_place("clamp_", plan, self, &others).here()?;
        Ok(self)
    }

    /// `yes` where this `bool` tensor is true, else `no`; all three broadcast (PyTorch's `where`).
    ///
    /// # Errors
    /// `DTypeMismatch` if this is not `bool`; `Broadcast` if the shapes do not fit together.
    ///
    /// ```
    /// use foldback_tensor::tensor;
    /// let x = tensor![-1.0, 2.0];
    /// assert_eq!(x.gt(0.0)?.where_cond(&x, 0.0)?, tensor![0.0, 2.0]);
    /// # Ok::<(), foldback_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn where_cond(&self, yes: impl AsArg, no: impl AsArg) -> Result<Tensor> {
        choose(self, yes.arg(), no.arg()).here()
    }
}

#[track_caller]
fn scaled(op: &'static str, own: &Tensor, other: Arg<'_>, alpha: Scalar, sign: f64) -> Result<Tensor> {
    let args = [Arg::Tensor(own), other];
    apply(op, plan_add(op, &metas_of(&args), alpha, sign), &args)
}

#[track_caller]
fn scaled_(op: &'static str, own: &mut Tensor, other: Arg<'_>, alpha: Scalar, sign: f64) -> Result<()> {
    let plan = plan_add(op, &metas_of(&[Arg::Tensor(own), other]), alpha, sign);
    apply_in_place(op, plan, own, &[other])
}

#[track_caller]
fn softplus(x: &Tensor, beta: f64, threshold: f64) -> Result<Tensor> {
    let (x, kernel) = (Arg::Tensor(x), FloatKernel(f::Softplus { beta, threshold }));
    apply("softplus", plan_float_only("softplus", x.meta(), kernel), &[x])
}

fn plan_clamp(op: &'static str, args: &[Arg<'_>; 3]) -> Result<Elementwise> {
    match result_type(&metas_of(args)) {
        DType::Bool => unsupported(op, DType::Bool),
        dtype => Elementwise::same(NumKernel(f::Clamp), dtype),
    }
}

/// Floating-point numbers between two others, which are not read for each element: 100,000 take 0.53 of the time, a thousand 0.24.
fn plan_between(args: &[Arg<'_>; 3]) -> Option<Elementwise> {
    let [_, Arg::Scalar(lo), Arg::Scalar(hi)] = args else { return None };
    let dtype = result_type(&metas_of(args));
    let kernel = || NumKernel(f::HardTanh { lo: lo.to_f64(), hi: hi.to_f64() });
    dtype.is_float().then(|| Elementwise::same(kernel(), dtype).ok()).flatten()
}

#[track_caller]
fn choose(condition: &Tensor, yes: Arg<'_>, no: Arg<'_>) -> Result<Tensor> {
    const OP: &str = "where_cond";
    condition.expect_dtype(OP, "a condition", DType::Bool)?;
    let dtype = result_type(&metas_of(&[yes, no]));
    task::make(Task {
        op: OP,
        reads: &[Read::Tensor(condition, DType::Bool), yes.read(dtype), no.read(dtype)],
        space: Space::Asked(warning::Lists::Idiom),
        does: Does::Blocks(&WhereKernel),
        to: &mut [To::New(dtype)],
    })
}

/// Defines the form that writes into a given tensor.
macro_rules! out_forms {
    ($($name:ident, $name_out:ident $(, $alpha:ident)? = |$args:ident| $plan:expr;)*) => {
        impl Tensor {$(
            #[doc = concat!("[`Self::", stringify!($name), "`] written into `out`, which must have the result's shape.")]
            ///
            /// The result is cast to the type of `out`. An `out` whose buffer is shared is detached first: no other
            /// tensor sees the write.
            ///
            /// # Errors
            #[doc = concat!("As [`Self::", stringify!($name), "`]; `ShapeMismatch` if `out` has another shape,")]
            /// `Overlap` if it is expanded (stride 0), `ResultCast` if it is of a lower category than the result.
            /// Nothing is written then.
            #[track_caller]
            pub fn $name_out(
                &self,
                other: impl AsArg,
                $($alpha: impl Into<Scalar>,)?
                out: &mut Tensor,
            ) -> Result<()> {
                fn plan($args: &[Meta] $(, $alpha: Scalar)?) -> Result<Elementwise> {
                    $plan
                }
                let args = [Arg::Tensor(self), other.arg()];
                apply_out(stringify!($name_out), plan(&metas_of(&args) $(, $alpha.into())?), &args, out).here()
            }
        )*}
    };
}

out_forms! {
    add_with, add_out, alpha = |a| plan_add("add_out", a, alpha, 1.0);
    sub_with, sub_out, alpha = |a| plan_add("sub_out", a, alpha, -1.0);
    mul, mul_out = |a| plan_num(a, NumKernel(f::Mul), AND).map(Elementwise::of_pairs);
    div, div_out = |a| plan_real(a, FloatKernel(f::Div)).map(Elementwise::of_pairs);
}

/// Runs a planned operation into a tensor of the result's shape.
#[track_caller]
fn apply_out(
    op: &'static str,
    plan: Result<Elementwise>,
    args: &[Arg<'_>; 2],
    out: &mut Tensor,
) -> Result<()> {
    let plan = plan?;
    let reads = reads_of(args, plan.compute);
    let shape = common_shape(op, &reads, Some(plan.lists))?;
    expect_castable(op, plan.out, out.dtype())?;
    if *out.shape() != shape {
        return refuse(TensorFacts::ShapeMismatch {
            op,
            operand: "output",
            expected: shape,
            found: out.shape().clone(),
        });
    }
    expect_no_overlap(op, out)?;
    if plan.out != out.dtype() {
        let dtype = out.dtype();
        *out = apply(op, Ok(plan), args)?.cast(op, dtype)?;
        return Ok(());
    }
    let (space, does) = (Space::Of(&shape), Does::Blocks(&*plan.kernel));
    task::change(Task { op, reads: &reads, space, does, to: &mut [To::Over(out)] })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::tensor;

    #[test]
    fn a_scale_of_integers_is_exact() {
        let (big, one, zero) = (9_007_199_254_740_993i64, tensor![1; i64], tensor![0; i64]);
        assert_eq!(zero.add_with(&one, big).unwrap(), tensor![big; i64]);
        assert_eq!(zero.sub_with(&one, big).unwrap(), tensor![-big; i64]);
        assert_eq!(zero.sub_with(&one, i64::MIN).unwrap(), tensor![i64::MIN; i64]);
        assert_eq!(one.add_with(&one, -1).unwrap(), zero);
        assert_eq!(*zero.clone().add_with_(&one, big).unwrap(), tensor![big; i64]);
        assert_eq!(*zero.clone().sub_with_(&one, big).unwrap(), tensor![-big; i64]);
        let mut out = zero.clone();
        zero.sub_out(&one, big, &mut out).unwrap();
        assert_eq!(out, tensor![-big; i64]);
        assert_eq!(tensor![5; i64].add_with(&tensor![true; bool], 3).unwrap(), tensor![8; i64]);
    }
}
