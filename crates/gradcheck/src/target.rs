//! What is differentiated: a user's function, or its gradients, as a function of some arguments.

use foldback_graph::{Arguments, Grad, Outputs, Var, enable_grad};
use foldback_tensor::{DType, Here, Shape, Tensor, refuse};

use crate::error::{Argument, GradcheckFacts, Order, Result};
use crate::random::Random;

/// A user's function with where it is to be checked.
pub(crate) struct Subject<'a> {
    pub(crate) call: &'a dyn Fn(&[Var]) -> Result<Vec<Var>>,
    /// the caller's own leaves, written to in the place of variables made anew
    pub(crate) leaves: Option<&'a [Var]>,
    pub(crate) tensors: Vec<Tensor>,
    /// which of them are varied
    pub(crate) tracked: Vec<usize>,
    /// what they are called, if anything
    pub(crate) names: Vec<String>,
    /// whether gradients are those of `f32` inputs; differences are taken in `f64` all the same
    pub(crate) is_single: bool,
}

/// Variables, and what was computed of them.
pub(crate) struct Run {
    pub(crate) leaves: Vec<Var>,
    pub(crate) outputs: Vec<Var>,
}

/// The values of leaves, which have them again when this is dropped, whatever happened in between.
pub(crate) struct Kept<'a> {
    leaves: &'a [Var],
    pub(crate) values: Vec<Tensor>,
}

impl Kept<'_> {
    pub(crate) fn of(leaves: &[Var]) -> Kept<'_> {
        Kept { leaves, values: leaves.iter().map(Var::value).collect() }
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        for (leaf, value) in self.leaves.iter().zip(&self.values) {
            // What is no leaf was not written to.
            let _ = write(leaf, value);
        }
    }
}

fn write(leaf: &Var, value: &Tensor) -> Result<()> {
    leaf.update_value(|old| {
        *old = value.clone();
        Ok(())
    })
    .nowhere()
}

/// A function of arguments at a point, with a gradient that is said to be its.
pub(crate) trait CheckedFunction {
    fn order(&self) -> Order;
    /// The arguments, as they were given.
    fn arguments(&self) -> Vec<(Argument, Tensor)>;
    /// Computes the outputs at other values of the arguments, recorded or not.
    fn run(&self, points: &[Tensor], is_recorded: bool) -> Result<Run>;
    /// Whether gradients are taken by passes that are recorded.
    fn creates_graph(&self) -> bool;
    /// The function that it is made of.
    fn subject(&self) -> &Subject<'_>;
}

/// The function itself, by the inputs that are tracked.
pub(crate) struct First<'a> {
    pub(crate) subject: &'a Subject<'a>,
    pub(crate) creates_graph: bool,
}

/// Its gradients, by the inputs and by the seeds.
pub(crate) struct Second<'a> {
    pub(crate) subject: &'a Subject<'a>,
    pub(crate) seeds: &'a [Tensor],
}

impl Subject<'_> {
    /// Variables for the inputs with other values for those that are tracked, and what the function makes of them: recorded even where
    /// values alone are wanted, as it may ask for gradients itself.
    fn run(&self, points: &[Tensor]) -> Result<Run> {
        let in_f64 = points.iter().all(|t| t.dtype() == DType::F64);
        let mut vars = self.constants(in_f64);
        for (&i, point) in self.tracked.iter().zip(points) {
            match self.leaves {
                Some(leaves) => {
                    write(&leaves[i], point)?;
                    vars[i] = leaves[i].clone();
                }
                None => vars[i] = Var::leaf(point.clone()).nowhere()?,
            }
        }
        let outputs = enable_grad(|| (self.call)(&vars))?;
        let leaves = self.tracked.iter().map(|&i| vars[i].clone()).collect();
        Ok(Run { leaves, outputs: self.differentiable(outputs, in_f64)? })
    }

    /// The inputs as constants: all numbers in `f64` where differences of `f32` functions are taken.
    pub(crate) fn constants(&self, in_f64: bool) -> Vec<Var> {
        let widened = |t: &Tensor| match self.is_single && in_f64 && t.dtype().is_float() {
            true => Var::from(t.to(DType::F64)),
            false => Var::from(t),
        };
        self.tensors.iter().map(widened).collect()
    }

    /// The outputs that have a gradient; integers and truth values beside them have none.
    pub(crate) fn differentiable(&self, outputs: Vec<Var>, in_f64: bool) -> Result<Vec<Var>> {
        if outputs.is_empty() {
            return refuse(GradcheckFacts::NoOutputs);
        }
        let floats: Vec<Var> = outputs.iter().filter(|y| y.dtype().is_float()).cloned().collect();
        let looked_at = if floats.is_empty() { &outputs } else { &floats };
        for y in looked_at {
            if in_f64 || !y.dtype().is_float() {
                expect_f64(Argument::Output, y.dtype())?;
            }
        }
        Ok(floats)
    }

    pub(crate) fn points(&self) -> Vec<Tensor> {
        self.tracked.iter().map(|&i| self.tensors[i].clone()).collect()
    }

    /// The shapes and types of the outputs.
    pub(crate) fn outputs(&self) -> Result<Vec<(Shape, DType)>> {
        let outputs = self.run(&self.points())?.outputs;
        Ok(outputs.iter().map(|y| (y.shape().clone(), y.dtype())).collect())
    }

    fn arguments(&self) -> Vec<(Argument, Tensor)> {
        self.tracked.iter().map(|&i| (Argument::Input(i), self.tensors[i].clone())).collect()
    }
}

impl CheckedFunction for First<'_> {
    fn order(&self) -> Order {
        Order::First
    }

    fn arguments(&self) -> Vec<(Argument, Tensor)> {
        self.subject.arguments()
    }

    fn run(&self, points: &[Tensor], _: bool) -> Result<Run> {
        self.subject.run(points)
    }

    fn creates_graph(&self) -> bool {
        self.creates_graph
    }

    fn subject(&self) -> &Subject<'_> {
        self.subject
    }
}

impl CheckedFunction for Second<'_> {
    fn order(&self) -> Order {
        Order::Second
    }

    fn arguments(&self) -> Vec<(Argument, Tensor)> {
        let seeds = self.seeds.iter().map(|s| (Argument::Seed, s.clone()));
        self.subject.arguments().into_iter().chain(seeds).collect()
    }

    fn run(&self, points: &[Tensor], is_recorded: bool) -> Result<Run> {
        let (points, seeds) = points.split_at(self.subject.tracked.len());
        let Run { mut leaves, outputs } = self.subject.run(points)?;
        expect_shapes(self.seeds.iter().map(Tensor::shape), &outputs)?;
        let mut seed_vars: Vec<Var> = seeds.iter().map(Var::from).collect();
        if is_recorded {
            seed_vars = seeds.iter().map(|s| Var::leaf(s.clone()).nowhere()).collect::<Result<_>>()?;
        }
        let gradients = gradients_or_zeros(&outputs, &leaves, &seed_vars, is_recorded)?;
        leaves.append(&mut seed_vars);
        Ok(Run { leaves, outputs: gradients })
    }

    fn creates_graph(&self) -> bool {
        false
    }

    fn subject(&self) -> &Subject<'_> {
        self.subject
    }
}

/// The elements of all outputs at other values of the arguments.
pub(crate) fn values(
    target: &dyn CheckedFunction,
    points: &[Vec<f64>],
    shapes: &[&Shape],
) -> Result<Vec<f64>> {
    let shaped = points.iter().zip(target.arguments());
    let points: Vec<Tensor> =
        shaped.map(|(p, (_, like))| from_numbers(p.clone(), like.shape())).collect::<Result<_>>()?;
    let run = target.run(&points, false)?;
    expect_shapes(shapes.iter().copied(), &run.outputs)?;
    let mut all = Vec::new();
    for y in &run.outputs {
        all.extend(numbers(&y.value())?);
    }
    Ok(all)
}

/// The gradients by a backward pass from some weights of the outputs.
pub(crate) fn gradients(
    target: &dyn CheckedFunction,
    points: &[Tensor],
    weights: &[Tensor],
) -> Result<Vec<Tensor>> {
    let Run { leaves, outputs } = target.run(points, true)?;
    expect_shapes(weights.iter().map(Tensor::shape), &outputs)?;
    let weights: Vec<Var> = weights.iter().map(Var::from).collect();
    let found = gradients_or_zeros(&outputs, &leaves, &weights, target.creates_graph())?;
    for ((argument, point), g) in target.arguments().iter().zip(&found) {
        if g.shape() != point.shape() || g.dtype() != point.dtype() {
            return refuse(GradcheckFacts::GradientForm {
                order: target.order(),
                argument: *argument,
                expected: point.shape().clone(),
                expected_dtype: point.dtype(),
                found: g.shape().clone(),
                found_dtype: g.dtype(),
            });
        }
    }
    Ok(found.iter().map(Var::value).collect())
}

/// The gradients of what was recorded; zeros where nothing was.
pub(crate) fn gradients_or_zeros(
    roots: &[Var],
    by: &[Var],
    seeds: &[Var],
    create_graph: bool,
) -> Result<Vec<Var>> {
    let recorded = roots.iter().zip(seeds).filter(|(root, _)| root.requires_grad());
    let (roots, seeds): (Vec<&Var>, Vec<Var>) = recorded.map(|(r, s)| (r, s.to(r.dtype()))).unzip();
    let seeds: Vec<&Var> = seeds.iter().collect();
    if roots.is_empty() {
        return Ok(by.iter().map(|v| Var::from(Tensor::zeros_with(v.shape(), v.dtype()))).collect());
    }
    let by: Vec<&Var> = by.iter().collect();
    let pass = Grad::new(&roots, &by).seeds(&seeds).create_graph(create_graph).materialize_grads(true);
    Ok(pass.pass()?.into_iter().flatten().collect())
}

/// A user's function with all outputs in a list.
pub(crate) fn listed<I: Arguments, O: Outputs>(
    f: impl Fn(&I::Seen) -> O,
) -> impl Fn(&[Var]) -> Result<Vec<Var>> {
    move |x| f(I::see(x)).into_vars()
}

/// Numbers of either sign, away from zero.
pub(crate) fn noise(shape: &Shape, random: &mut Random) -> Result<Tensor> {
    from_numbers((0..shape.numel()).map(|_| random.signed(0.5, 1.5)).collect(), shape)
}

pub(crate) fn numbers(t: &Tensor) -> Result<Vec<f64>> {
    t.to(DType::F64).to_vec::<f64>().nowhere()
}

pub(crate) fn from_numbers(values: Vec<f64>, shape: &Shape) -> Result<Tensor> {
    Tensor::from_vec(values, shape).nowhere()
}

pub(crate) fn expect_f64(argument: Argument, dtype: DType) -> Result<()> {
    expect_dtype(argument, DType::F64, dtype)
}

pub(crate) fn expect_dtype(argument: Argument, expected: DType, dtype: DType) -> Result<()> {
    if dtype == expected { Ok(()) } else { refuse(GradcheckFacts::DType { argument, dtype }) }
}

pub(crate) fn expect_shape(argument: Argument, expected: &Shape, found: &Shape) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    refuse(GradcheckFacts::Shape { argument, expected: expected.clone(), found: found.clone() })
}

fn expect_shapes<'a>(expected: impl Iterator<Item = &'a Shape>, outputs: &[Var]) -> Result<()> {
    expected.zip(outputs).try_for_each(|(e, y)| expect_shape(Argument::Output, e, y.shape()))
}
