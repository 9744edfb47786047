//! The checks and their options.

use foldback_graph::{Outputs, Var};
use foldback_tensor::{Here, Tensor, refuse};

use crate::compare::Precision;
use crate::error::{Argument, GradcheckFacts, Order, Result};
use crate::seeds::Plan;
use crate::target::{Subject, expect_f64, listed};

/// Compares the gradients of `f` with differences of its values, as [`Check::gradcheck`] without options.
///
/// # Errors
/// As [`Check::gradcheck`].
///
/// ```
/// use foldback_tensor::tensor;
/// foldback_gradcheck::gradcheck(|x| x[0].matmul(&x[1]), &[tensor![[1, 2]; f64], tensor![3, 4; f64]])?;
/// # Ok::<(), foldback_gradcheck::Error>(())
/// ```
#[track_caller]
pub fn gradcheck<O: Outputs>(f: impl Fn(&[Var]) -> Result<O>, inputs: &[Tensor]) -> Result<()> {
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
/// foldback_gradcheck::gradgradcheck(|x| Ok(x[0].sin()), &[tensor![1, 2; f64]])?;
/// # Ok::<(), foldback_gradcheck::Error>(())
/// ```
#[track_caller]
pub fn gradgradcheck<O: Outputs>(f: impl Fn(&[Var]) -> Result<O>, inputs: &[Tensor]) -> Result<()> {
    Check::new().gradgradcheck(f, inputs)
}

/// The options of a check.
///
/// # What is compared
///
/// With a seed `s` of the output's shape (random, of either sign, never all ones), `L(x) = sum(s * f(x))` is a single
/// number. Its derivative along a direction `d` is `sum(grad * d)` by the backward pass, and
/// `(L(x + h d) - L(x - h d)) / 2h` by differences. Every tracked input is varied along a random direction, then in
/// every single element if it is small, then all inputs together. The second order does the same with
/// `sum(v * grad(f; s))` in place of `L`, as a function of the inputs and of the seed, with random `v`.
///
/// # The tolerance
///
/// A central difference is wrong by two things: what the Taylor series leaves out, `h^2 / 6` times the third
/// derivative, and the rounding of `f`, about `eps / h` times the size of `f`. Their sum is smallest where they are
/// equal, near `h = cbrt(eps)`, which is 6e-6 for `f64`; both are then about 4e-11, times the size of `f` and of its
/// third derivative. The default tolerance of 1e-7 therefore leaves room for a third derivative that is some
/// thousand times larger than `f`, and for a few hundred roundings in its computation; a wrong factor or sign
/// misses it by six orders of magnitude. It is relative to `1 + sum |s f| + sum |grad d|`. Where `f` is rougher or
/// its gradients are much smaller than 1, choose other inputs or scale `f` rather than another tolerance.
///
/// # Kinks
///
/// Where the differences to either side do not agree, as those of `relu` at 0 or of a maximum with ties, a central difference
/// is no derivative. Such a point is neither passed nor accused: the check fails with `Kink`, unless something else is wrong with
/// the gradient. [`Check::resample`] goes on at other values instead. A kink that changes the slope by less than 1e-4, relative
/// as above, is not seen.
///
/// ```
/// use foldback_gradcheck::Check;
/// use foldback_tensor::tensor;
/// let inputs = [tensor![1, 2, 3; f64], tensor![0, 1, 0; f64]];
/// Check::new().seeds(3).tolerance(1e-8).tracked(&[true, false]).gradcheck(|x| Ok(&x[0] / (&x[1] + 1.0)), &inputs)?;
/// # Ok::<(), foldback_gradcheck::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a check runs when gradcheck() or gradgradcheck() is called"]
pub struct Check {
    step: f64,
    tolerance: f64,
    elements: usize,
    seeds: usize,
    given: Vec<Tensor>,
    tracked: Option<Vec<bool>>,
    resample: bool,
}

impl Default for Check {
    fn default() -> Check {
        Check {
            step: f64::EPSILON.cbrt(),
            tolerance: 1e-7,
            elements: 64,
            seeds: 2,
            given: Vec::new(),
            tracked: None,
            resample: false,
        }
    }
}

impl Check {
    /// The options as described above.
    pub fn new() -> Check {
        Check::default()
    }

    /// The step of the differences, for elements up to 1; larger ones are moved in proportion. Positive and finite.
    pub fn step(mut self, step: f64) -> Check {
        self.step = step;
        self
    }

    /// How far gradient and difference may be apart, relative to `1 + sum |s f| + sum |grad d|`. Finite, or
    /// every gradient would pass.
    pub fn tolerance(mut self, tolerance: f64) -> Check {
        self.tolerance = tolerance;
        self
    }

    /// How many random seeds are tried; 2 by default. None only if [`Check::seed`] gives one.
    pub fn seeds(mut self, count: usize) -> Check {
        self.seeds = count;
        self
    }

    /// Tries this seed, in addition to the random ones. It has the output's shape, in any layout; of several outputs, the first
    /// one's.
    ///
    /// ```
    /// use foldback_gradcheck::Check;
    /// use foldback_tensor::tensor;
    /// let seed = tensor![2; f64].expand([3])?;
    /// Check::new().seeds(0).seed(seed).gradcheck(|x| Ok(x[0].exp()), &[tensor![1, 2, 3; f64]])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn seed(mut self, seed: Tensor) -> Check {
        self.given.push(seed);
        self
    }

    /// Which inputs are tracked, and hence checked; the others are constants. By default all that hold numbers with a
    /// fraction; integers and truth values are constants.
    pub fn tracked(mut self, flags: &[bool]) -> Check {
        self.tracked = Some(flags.to_vec());
        self
    }

    /// Inputs of up to so many elements are varied element by element, too; 64 by default.
    pub fn elements(mut self, limit: usize) -> Check {
        self.elements = limit;
        self
    }

    /// Goes on at other values near the given ones where the function has a kink or a jump: up to eight times, each element
    /// another one of its sign, at least 0.02 away from zero. What is found is then a fault at these values; if there is
    /// a kink in each try, that is reported.
    ///
    /// ```
    /// use foldback_gradcheck::{Check, GradcheckFacts};
    /// use foldback_tensor::tensor;
    /// let x = [tensor![-1.0, 0.0, 1.0; f64]];
    /// let e = Check::new().gradcheck(|x| Ok(x[0].relu()), &x).unwrap_err();
    /// assert!(matches!(e.facts(), Some(GradcheckFacts::Kink { before: 0.0, .. })));
    /// Check::new().resample(true).gradcheck(|x| Ok(x[0].relu()), &x)?;
    /// # Ok::<(), foldback_gradcheck::Error>(())
    /// ```
    pub fn resample(mut self, on: bool) -> Check {
        self.resample = on;
        self
    }

    /// Compares the gradients of `f` with differences of its values.
    ///
    /// `f` returns a variable, an array or a `Vec` of them; results of integers or truth values among several are passed over.
    /// The backward pass sees the inputs in the layout they are given in; the differences are taken at contiguous
    /// copies.
    ///
    /// # Errors
    /// `Gradient` with the worst disagreement and what it looks like, see [`Diagnosis`](crate::Diagnosis); `Kink` where the
    /// function is not smooth; `GradientForm` if a gradient's shape or type is not its input's;
    /// `DType` if a tracked input or the output is not `f64`; `NothingTracked`, `TrackedCount` and `Shape` if
    /// options, inputs and output do not fit; `NoSeeds` and `Parameter` if nothing would be compared, or in vain;
    /// What `f` and the backward pass return comes as it is.
    ///
    /// ```
    /// use foldback_gradcheck::{Argument, Check, GradcheckFacts};
    /// use foldback_tensor::tensor;
    /// let e = Check::new().gradcheck(|x| Ok(x[0].exp()), &[tensor![1.0, 2.0]]).unwrap_err();
    /// assert!(matches!(e.facts(), Some(GradcheckFacts::DType { argument: Argument::Input(0), .. })));
    /// ```
    #[track_caller]
    pub fn gradcheck<O: Outputs>(&self, f: impl Fn(&[Var]) -> Result<O>, inputs: &[Tensor]) -> Result<()> {
        self.check_inputs(Order::First, &listed(f), inputs).or_here()
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
    /// Check::new().gradgradcheck(|x| x[0].softmax(0)?.mul(&x[1]), &[tensor![1, 2; f64], tensor![3; f64]])?;
    /// # Ok::<(), foldback_gradcheck::Error>(())
    /// ```
    #[track_caller]
    pub fn gradgradcheck<O: Outputs>(
        &self,
        f: impl Fn(&[Var]) -> Result<O>,
        inputs: &[Tensor],
    ) -> Result<()> {
        self.check_inputs(Order::Second, &listed(f), inputs).or_here()
    }

    fn check_inputs(
        &self,
        order: Order,
        f: &dyn Fn(&[Var]) -> Result<Vec<Var>>,
        inputs: &[Tensor],
    ) -> Result<()> {
        let plan = self.plan()?;
        let tracked = self.varied(inputs)?;
        let mut subject = Subject { call: f, leaves: None, tensors: inputs.to_vec(), tracked };
        plan.check(order, &mut subject)
    }

    /// What is to be tried, once the options are seen to make sense.
    fn plan(&self) -> Result<Plan<'_>> {
        if self.seeds == 0 && self.given.is_empty() {
            return refuse(GradcheckFacts::NoSeeds);
        }
        let option = |name, value, expected| refuse(GradcheckFacts::Parameter { name, value, expected });
        if !(self.tolerance >= 0.0 && self.tolerance.is_finite()) {
            return option("tolerance", self.tolerance, "finite and not negative");
        }
        if !(self.step > 0.0 && self.step.is_finite()) {
            return option("step", self.step, "finite and positive");
        }
        let precision = Precision { step: self.step, tolerance: self.tolerance, elements: self.elements };
        Ok(Plan { precision, seeds: self.seeds, given: &self.given, resample: self.resample })
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
            expect_f64(Argument::Input(i), tensors[i].dtype())?;
        }
        Ok(tracked)
    }
}
