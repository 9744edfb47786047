//! The checks: of functions of their inputs, and of functions that use parameters.

use foldback_graph::{Arguments, Outputs, Var};
use foldback_tensor::{DType, Here, Tensor, refuse};

use crate::check::Check;
use crate::compare::Precision;
use crate::error::{Argument, GradcheckFacts, Order, Result};
use crate::seeds::CheckPlan;
use crate::target::{Kept, Subject, expect_f64, listed};

/// Compares the gradients of `f` with differences of its values, as [`Check::gradcheck`] without options.
///
/// # Errors
/// As [`Check::gradcheck`].
///
/// ```
/// use foldback_tensor::tensor;
/// foldback_gradcheck::gradcheck(|[x, w]| x.matmul(w), [tensor![[1, 2]; f64], tensor![3, 4; f64]])?;
/// # Ok::<(), foldback_gradcheck::Error>(())
/// ```
#[track_caller]
pub fn gradcheck<I: Arguments, O: Outputs>(f: impl Fn(&I::Seen) -> O, inputs: I) -> Result<()> {
    Check::new().gradcheck(f, inputs)
}

/// Compares the second derivatives of `f` with differences of its gradients, as [`Check::gradgradcheck`] without
/// options.
///
/// # Errors
/// As [`Check::gradgradcheck`].
///
/// ```
/// use foldback_tensor::tensor;
/// foldback_gradcheck::gradgradcheck(|x| x.sin(), &tensor![1, 2; f64])?;
/// # Ok::<(), foldback_gradcheck::Error>(())
/// ```
#[track_caller]
pub fn gradgradcheck<I: Arguments, O: Outputs>(f: impl Fn(&I::Seen) -> O, inputs: I) -> Result<()> {
    Check::new().gradgradcheck(f, inputs)
}

impl Check {
    /// Compares the gradients of `f` with differences of its values.
    ///
    /// `f` gets the inputs as variables, arranged as they are ([`Arguments`]): `|x|` for `&x`, `|[x, w]|` for `[&x, &w]`, `|x|`, a
    /// slice, for a list. It returns a variable, an array or a `Vec` of them, or a `Result` of that; results of integers or truth
    /// values among several are passed over. The backward pass sees the inputs in the layout they are given in; the differences are taken at contiguous
    /// copies.
    ///
    /// # Errors
    /// `Gradient` with the worst disagreement and what it looks like, see [`Diagnosis`](crate::Diagnosis); `Kink` where the
    /// function is not smooth; `GradientForm` if a gradient's shape or type is not its input's;
    /// `DType` if a tracked input or the output is not `f64`; `NoOutputs`, `NothingTracked`, `TrackedCount` and `Shape` if
    /// options, inputs and output do not fit; `NoSeeds` and `Parameter` if nothing would be compared, or in vain;
    /// What `f` and the backward pass return comes as it is.
    ///
    /// ```
    /// use foldback_gradcheck::{Argument, Check, GradcheckFacts};
    /// use foldback_tensor::tensor;
    /// let e = Check::new().gradcheck(|x| x.exp(), &tensor![1.0, 2.0]).unwrap_err();
    /// assert!(matches!(e.facts(), Some(GradcheckFacts::DType { argument: Argument::Input(0), .. })));
    /// ```
    #[track_caller]
    pub fn gradcheck<I: Arguments, O: Outputs>(&self, f: impl Fn(&I::Seen) -> O, inputs: I) -> Result<()> {
        self.check_inputs(Order::First, &listed::<I, O>(f), inputs.into_vars()).or_here()
    }

    /// Compares the gradients of the gradients of `f` with differences of the gradients.
    ///
    /// The gradients as they are when the pass is recorded (`create_graph`) are compared with differences of `f`, too.
    ///
    /// # Errors
    /// As [`Check::gradcheck`].
    ///
    /// ```
    /// use foldback_gradcheck::Check;
    /// use foldback_tensor::tensor;
    /// Check::new().gradgradcheck(|[x, w]| x.softmax(0)?.mul(w), [tensor![1, 2; f64], tensor![3; f64]])?;
    /// # Ok::<(), foldback_gradcheck::Error>(())
    /// ```
    #[track_caller]
    pub fn gradgradcheck<I: Arguments, O: Outputs>(
        &self,
        f: impl Fn(&I::Seen) -> O,
        inputs: I,
    ) -> Result<()> {
        self.check_inputs(Order::Second, &listed::<I, O>(f), inputs.into_vars()).or_here()
    }

    fn check_inputs(
        &self,
        order: Order,
        f: &dyn Fn(&[Var]) -> Result<Vec<Var>>,
        inputs: Vec<Var>,
    ) -> Result<()> {
        let plan = self.plan()?;
        let tensors: Vec<Tensor> = inputs.iter().map(Var::value).collect();
        let tracked = self.varied(&tensors)?;
        let is_single = tracked.iter().any(|&i| tensors[i].dtype() == DType::F32);
        let names = Vec::new();
        plan.check(order, &mut Subject { call: f, leaves: None, tensors, tracked, names, is_single })
    }

    /// Compares the gradients of leaves that `f` uses, such as a model's parameters, with differences of its values.
    ///
    /// The leaves are given with their names, as by a model's `named_parameters()`, and are of type `f64`. Other values are written to
    /// them while the check runs; when it ends, they have their own again. Their `.grad` is not touched. [`Check::tracked`] says which
    /// are checked, the others stay as they are.
    ///
    /// # Errors
    /// As [`Check::gradcheck`], with the name of the parameter; `NotALeaf` for a variable that is no leaf; `ForwardOfParameters`
    /// with [`Check::check_forward_ad`].
    ///
    /// ```
    /// use foldback_gradcheck::Check;
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let (w, b) = (tensor![[0.5, -1.0]; f64].requires_grad(), tensor![0.1; f64].requires_grad());
    /// let x = tensor![[1.0], [2.0]; f64];
    /// Check::new().gradcheck_parameters(|| (w.matmul(&x)? + &b).tanh().sum(..), [("w", &w), ("b", &b)])?;
    /// # Ok::<(), foldback_gradcheck::Error>(())
    /// ```
    #[track_caller]
    pub fn gradcheck_parameters<O: Outputs, N: Into<String>, V: AsRef<Var>>(
        &self,
        f: impl Fn() -> O,
        parameters: impl IntoIterator<Item = (N, V)>,
    ) -> Result<()> {
        self.check_parameters(Order::First, &listed::<Vec<Var>, O>(|_| f()), &mut named(parameters)).or_here()
    }

    /// Compares the second derivatives by leaves that `f` uses with differences of the gradients, see
    /// [`Check::gradcheck_parameters`] and [`Check::gradgradcheck`].
    ///
    /// # Errors
    /// As [`Check::gradcheck_parameters`].
    ///
    /// ```
    /// use foldback_gradcheck::Check;
    /// use foldback_graph::RequiresGrad;
    /// let w = foldback_tensor::tensor![0.5, -1.0; f64].requires_grad();
    /// Check::new().gradgradcheck_parameters(|| w.exp(), [("w", &w)])?;
    /// # Ok::<(), foldback_gradcheck::Error>(())
    /// ```
    #[track_caller]
    pub fn gradgradcheck_parameters<O: Outputs, N: Into<String>, V: AsRef<Var>>(
        &self,
        f: impl Fn() -> O,
        parameters: impl IntoIterator<Item = (N, V)>,
    ) -> Result<()> {
        self.check_parameters(Order::Second, &listed::<Vec<Var>, O>(|_| f()), &mut named(parameters))
            .or_here()
    }

    fn check_parameters(
        &self,
        order: Order,
        f: &dyn Fn(&[Var]) -> Result<Vec<Var>>,
        parameters: &mut dyn Iterator<Item = (String, Var)>,
    ) -> Result<()> {
        let plan = self.plan()?;
        let (names, leaves): (Vec<String>, Vec<Var>) = parameters.unzip();
        let kept = Kept::of(&leaves);
        let tracked = self.varied(&kept.values)?;
        for &i in &tracked {
            expect_f64(Argument::Input(i), leaves[i].dtype())?;
        }
        if self.modes.forward {
            return refuse(GradcheckFacts::ForwardOfParameters);
        }
        let (tensors, leaves) = (kept.values.clone(), Some(&leaves[..]));
        plan.check(order, &mut Subject { call: f, leaves, tensors, tracked, names, is_single: false })
    }

    /// What is to be tried, once the options are seen to make sense.
    fn plan(&self) -> Result<CheckPlan<'_>> {
        if self.seeds == 0 && self.given.is_empty() {
            return refuse(GradcheckFacts::NoSeeds);
        }
        let option = |name, value, expected| refuse(GradcheckFacts::Parameter { name, value, expected });
        let tolerance = self.tolerance.unwrap_or(if self.single { 1e-4 } else { 1e-7 });
        if !(tolerance >= 0.0 && tolerance.is_finite()) {
            return option("tolerance", tolerance, "finite and not negative");
        }
        if !(self.step > 0.0 && self.step.is_finite()) {
            return option("step", self.step, "finite and positive");
        }
        let precision = Precision { step: self.step, tolerance, elements: self.elements };
        let (given, modes) = (&self.given, self.modes);
        Ok(CheckPlan { precision, seeds: self.seeds, given, resample: self.resample, modes })
    }

    /// The numbers of the inputs that are varied.
    fn varied(&self, tensors: &[Tensor]) -> Result<Vec<usize>> {
        let has_floats = tensors.iter().any(|t| t.dtype().is_float());
        let by_type = || tensors.iter().map(|t| t.dtype().is_float() || !has_floats).collect();
        let flags: Vec<bool> = self.tracked.clone().unwrap_or_else(by_type);
        if flags.len() != tensors.len() {
            return refuse(GradcheckFacts::TrackedCount { flags: flags.len(), inputs: tensors.len() });
        }
        let tracked: Vec<usize> = (0..tensors.len()).filter(|&i| flags[i]).collect();
        if tracked.is_empty() {
            return refuse(GradcheckFacts::NothingTracked);
        }
        for &i in &tracked {
            if !(self.single && tensors[i].dtype() == DType::F32) {
                expect_f64(Argument::Input(i), tensors[i].dtype())?;
            }
        }
        Ok(tracked)
    }
}

/// Owned names and variables.
fn named<N: Into<String>, V: AsRef<Var>>(
    parameters: impl IntoIterator<Item = (N, V)>,
) -> impl Iterator<Item = (String, Var)> {
    parameters.into_iter().map(|(name, var)| (name.into(), var.as_ref().clone()))
}
