//! The checks and their options.

use foldback_graph::{Grad, Var, no_grad};
use foldback_tensor::{DType, Here, Shape, Tensor, refuse};

use crate::compare::{Precision, Problem};
use crate::error::{Argument, GradcheckFacts, Order, Result};
use crate::random::Random;

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
pub fn gradcheck(f: impl Fn(&[Var]) -> Result<Var>, inputs: &[Tensor]) -> Result<()> {
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
pub fn gradgradcheck(f: impl Fn(&[Var]) -> Result<Var>, inputs: &[Tensor]) -> Result<()> {
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
/// misses it by six orders of magnitude. It is relative to `1 + sum |s f| + sum |grad d|`. Where `f` is rougher, has
/// a kink within `h`, or its gradients are much smaller than 1, choose other inputs or scale `f` rather than another
/// tolerance.
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
        }
    }
}

/// The inputs as variables, and which of them are leaves.
struct CheckedInputs<'a> {
    tensors: &'a [Tensor],
    tracked: Vec<usize>,
}

type Checked<'a> = &'a dyn Fn(&[Var]) -> Result<Var>;

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

    /// Tries this seed, in addition to the random ones. It has the output's shape, in any layout.
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

    /// Which inputs are tracked, and hence checked; the others are constants. All by default.
    pub fn tracked(mut self, flags: &[bool]) -> Check {
        self.tracked = Some(flags.to_vec());
        self
    }

    /// CheckedInputs of up to so many elements are varied element by element, too; 64 by default.
    pub fn elements(mut self, limit: usize) -> Check {
        self.elements = limit;
        self
    }

    /// Compares the gradients of `f` with differences of its values.
    ///
    /// The backward pass sees the inputs in the layout they are given in; the differences are taken at contiguous
    /// copies.
    ///
    /// # Errors
    /// `Gradient` with the worst disagreement; `GradientForm` if a gradient's shape or type is not its input's;
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
    pub fn gradcheck(&self, f: impl Fn(&[Var]) -> Result<Var>, inputs: &[Tensor]) -> Result<()> {
        self.check_first(&f, inputs).or_here()
    }

    fn check_first(&self, f: Checked<'_>, inputs: &[Tensor]) -> Result<()> {
        let inputs = self.inputs(inputs)?;
        let mut random = Random::new(1);
        self.each_seed(f, &inputs, &mut random, |seed, random| self.first(f, &inputs, seed, false, random))
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
    pub fn gradgradcheck(&self, f: impl Fn(&[Var]) -> Result<Var>, inputs: &[Tensor]) -> Result<()> {
        self.check_second(&f, inputs).or_here()
    }

    fn check_second(&self, f: Checked<'_>, inputs: &[Tensor]) -> Result<()> {
        let inputs = self.inputs(inputs)?;
        let mut random = Random::new(2);
        self.each_seed(f, &inputs, &mut random, |seed, random| {
            self.first(f, &inputs, seed, true, random)?;
            self.second(f, &inputs, seed, random)
        })
    }

    /// The inputs, once the options are seen to make sense.
    fn inputs<'a>(&self, tensors: &'a [Tensor]) -> Result<CheckedInputs<'a>> {
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
        let flags = self.tracked.clone().unwrap_or_else(|| vec![true; tensors.len()]);
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
        Ok(CheckedInputs { tensors, tracked })
    }

    fn precision(&self) -> Precision {
        Precision { step: self.step, tolerance: self.tolerance, elements: self.elements }
    }

    fn each_seed(
        &self,
        f: Checked<'_>,
        inputs: &CheckedInputs<'_>,
        random: &mut Random,
        mut check: impl FnMut(&Tensor, &mut Random) -> Result<()>,
    ) -> Result<()> {
        let constants: Vec<Var> = inputs.tensors.iter().map(Var::from).collect();
        let output = no_grad(|| f(&constants))?;
        expect_f64(Argument::Output, output.dtype())?;
        for seed in &self.given {
            expect_f64(Argument::Seed, seed.dtype())?;
            expect_shape(Argument::Seed, output.shape(), seed.shape())?;
            check(seed, random)?;
        }
        for _ in 0..self.seeds {
            check(&noise(output.shape(), random)?, random)?;
        }
        Ok(())
    }

    /// The gradients for one seed against differences of `f`.
    fn first(
        &self,
        f: Checked<'_>,
        inputs: &CheckedInputs<'_>,
        seed: &Tensor,
        create_graph: bool,
        random: &mut Random,
    ) -> Result<()> {
        let gradients = inputs.gradients(f, inputs.tensors, &Var::from(seed), create_graph)?.1;
        let mut arguments = Vec::new();
        for (&i, g) in inputs.tracked.iter().zip(gradients) {
            arguments.push(argument(Order::First, Argument::Input(i), &inputs.tensors[i], g.value())?);
        }
        let values = |points: &[Vec<f64>]| {
            let constants: Vec<Var> = inputs.moved(points)?.into_iter().map(Var::from).collect();
            let output = no_grad(|| f(&constants))?;
            expect_shape(Argument::Output, seed.shape(), output.shape())?;
            numbers(&output.value())
        };
        let problem = Problem { order: Order::First, arguments, values: &values, weights: numbers(seed)? };
        problem.solve(self.precision(), random)
    }

    /// The gradients of the gradients for one seed against differences of the gradients.
    fn second(
        &self,
        f: Checked<'_>,
        inputs: &CheckedInputs<'_>,
        seed: &Tensor,
        random: &mut Random,
    ) -> Result<()> {
        let seed_leaf = Var::leaf(seed.clone()).nowhere()?;
        let (leaves, gradients) = inputs.gradients(f, inputs.tensors, &seed_leaf, true)?;
        let mut noises = Vec::new();
        let mut weights = Vec::new();
        for g in &gradients {
            let v = noise(g.shape(), random)?;
            weights.extend(numbers(&v)?);
            noises.push(Var::from(v));
        }
        let mut by: Vec<&Var> = inputs.tracked.iter().map(|&i| &leaves[i]).collect();
        by.push(&seed_leaf);
        let recorded = gradients.iter().zip(&noises).filter(|(g, _)| g.requires_grad());
        let (roots, seeds): (Vec<&Var>, Vec<&Var>) = recorded.unzip();
        let seconds = gradients_or_zeros(&roots, &by, &seeds, false)?;
        let names = inputs.tracked.iter().map(|&i| (Argument::Input(i), &inputs.tensors[i]));
        let mut arguments = Vec::new();
        for ((name, point), g) in names.chain([(Argument::Seed, seed)]).zip(seconds) {
            arguments.push(argument(Order::Second, name, point, g.value())?);
        }
        let values = |points: &[Vec<f64>]| {
            let (moved_seed, points) = points.split_last().expect("the seed is always varied");
            let moved_seed = from_numbers(moved_seed.clone(), seed.shape())?;
            let gradients = inputs.gradients(f, &inputs.moved(points)?, &Var::from(moved_seed), false)?.1;
            let mut all = Vec::new();
            for g in gradients {
                all.extend(numbers(&g.value())?);
            }
            Ok(all)
        };
        Problem { order: Order::Second, arguments, values: &values, weights }.solve(self.precision(), random)
    }
}

impl CheckedInputs<'_> {
    /// The tensors with other values for those that are tracked.
    fn moved(&self, points: &[Vec<f64>]) -> Result<Vec<Tensor>> {
        let mut moved = self.tensors.to_vec();
        for (&i, point) in self.tracked.iter().zip(points) {
            moved[i] = from_numbers(point.clone(), self.tensors[i].shape())?;
        }
        Ok(moved)
    }

    /// Variables for `tensors`, and the gradients of those that are tracked.
    fn gradients(
        &self,
        f: Checked<'_>,
        tensors: &[Tensor],
        seed: &Var,
        create_graph: bool,
    ) -> Result<(Vec<Var>, Vec<Var>)> {
        let mut vars: Vec<Var> = tensors.iter().map(Var::from).collect();
        for &i in &self.tracked {
            vars[i] = Var::leaf(tensors[i].clone()).nowhere()?;
        }
        let output = f(&vars)?;
        expect_f64(Argument::Output, output.dtype())?;
        expect_shape(Argument::Output, seed.shape(), output.shape())?;
        let roots: &[&Var] = if output.requires_grad() { &[&output] } else { &[] };
        let by: Vec<&Var> = self.tracked.iter().map(|&i| &vars[i]).collect();
        let gradients = gradients_or_zeros(roots, &by, &[seed][..roots.len()], create_graph)?;
        Ok((vars, gradients))
    }
}

/// The gradients of what was recorded; zeros where nothing was.
fn gradients_or_zeros(roots: &[&Var], by: &[&Var], seeds: &[&Var], create_graph: bool) -> Result<Vec<Var>> {
    if roots.is_empty() {
        return Ok(by.iter().map(|v| Var::from(Tensor::zeros_with(v.shape(), v.dtype()))).collect());
    }
    let grads =
        Grad::new(roots, by).seeds(seeds).create_graph(create_graph).materialize_grads(true).pass()?;
    Ok(grads.into_iter().flatten().collect())
}

/// An argument of a problem, after a look at its gradient's form.
fn argument(
    order: Order,
    argument: Argument,
    point: &Tensor,
    gradient: Tensor,
) -> Result<(Argument, Vec<f64>, Tensor)> {
    if gradient.shape() != point.shape() || gradient.dtype() != point.dtype() {
        return refuse(GradcheckFacts::GradientForm {
            order,
            argument,
            expected: point.shape().clone(),
            expected_dtype: point.dtype(),
            found: gradient.shape().clone(),
            found_dtype: gradient.dtype(),
        });
    }
    Ok((argument, numbers(point)?, gradient))
}

/// Numbers of either sign, away from zero.
fn noise(shape: &Shape, random: &mut Random) -> Result<Tensor> {
    from_numbers((0..shape.numel()).map(|_| random.signed(0.5, 1.5)).collect(), shape)
}

fn numbers(t: &Tensor) -> Result<Vec<f64>> {
    t.to_vec::<f64>().nowhere()
}

fn from_numbers(values: Vec<f64>, shape: &Shape) -> Result<Tensor> {
    Tensor::from_vec(values, shape).nowhere()
}

fn expect_f64(argument: Argument, dtype: DType) -> Result<()> {
    if dtype == DType::F64 { Ok(()) } else { refuse(GradcheckFacts::DType { argument, dtype }) }
}

fn expect_shape(argument: Argument, expected: &Shape, found: &Shape) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    refuse(GradcheckFacts::Shape { argument, expected: expected.clone(), found: found.clone() })
}
