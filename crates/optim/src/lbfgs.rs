//! L-BFGS: steps from a memory of gradients, with a search along each direction.

use foldback_graph::{Var, enable_grad};
use foldback_tensor::{Here, Tensor, refuse};

use crate::error::{OptimFacts, Result};
use crate::line_search::{Point, strong_wolfe};
use crate::optimizer::optimizer;
use crate::shared::Kept;
use crate::step::Before;

optimizer! {
    /// The limited-memory method of Broyden, Fletcher, Goldfarb and Shanno (Nocedal and Wright, "Numerical optimization",
    /// algorithm 7.5), by the steps of PyTorch's [`LBFGS`](https://docs.pytorch.org/docs/stable/generated/torch.optim.LBFGS.html),
    /// where the learning rate is 1 unless said otherwise.
    ///
    /// A step computes the loss several times: [`LBFGS::step_with`] takes a function for it, `step` refuses. All parameters are
    /// one group, and of one type. A clone is a handle on the same optimiser, and what a setter sets holds for all of them.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_optim::{LBFGS, Optimizer};
    /// use foldback_tensor::{assert_close, tensor};
    /// let w = tensor![3.0, -4.0; f64].requires_grad();
    /// let lbfgs = LBFGS::new([&w], 1.0).strong_wolfe(true);
    /// for _ in 0..3 {
    ///     lbfgs.step_with(|| {
    ///         lbfgs.zero_grad();
    ///         let loss = (&w - 1.0).square().mul(&tensor![1.0, 10.0; f64])?.sum(..)?;
    ///         loss.backward()?;
    ///         Ok(loss)
    ///     })?;
    /// }
    /// assert_close!(w.value(), tensor![1.0, 1.0; f64]);
    /// # Ok::<(), foldback_optim::Error>(())
    /// ```
    LBFGS, "LBFGS", Options;
    settings {
        "How many iterations a step has at most. The default is 20."
        max_iter(max_iter: usize = 20 in Count);
        "How many times a step computes the loss at most. The default is 0, which stands for 5/4 of `max_iter`."
        max_eval(max_eval: usize = 0 in CountOrNone);
        "A step ends where no gradient is larger. The default is 1e-7."
        tolerance_grad(tolerance_grad: f64 = 1e-7 in NotNegative);
        "A step ends where loss or parameters change by less. The default is 1e-9."
        tolerance_change(tolerance_change: f64 = 1e-9 in NotNegative);
        "How many iterations are remembered. The default is 100."
        history_size(history_size: usize = 100 in Count);
        "Whether each iteration searches for a point that satisfies the strong Wolfe conditions. The default is no."
        strong_wolfe(strong_wolfe: bool = false in Flag);
        "Whether steps go up instead of down. The default is no."
        maximize(maximize: bool = false in Flag);
    }
    keeps [; "d", "prev_flat_grad", "old_dirs", "old_stps"] ["t" = 0.0, "H_diag" = 1.0, "prev_loss" = 0.0, "func_evals" = 0.0];
    by_parameter: false;
    check: |_| Ok(());
    step: |_, _: &Before| unreachable!("it has a step of its own");
}

impl LBFGS {
    /// A step: `closure` forgets the gradients, computes the loss, and calls `backward()`. It is called several times, at
    /// different parameters. Returns the loss of its first call.
    ///
    /// # Errors
    /// What the closure returns; `Gradient` if a gradient does not fit its parameter; `Refused` if parameters are of
    /// several types. Parameters and state are as before then.
    #[track_caller]
    pub fn step_with(&self, closure: impl FnMut() -> Result<Var>) -> Result<Var> {
        self.take_step(closure).or_here()
    }

    fn take_step(&self, closure: impl FnMut() -> Result<Var>) -> Result<Var> {
        self.shared.expect_not_updating()?;
        let vars = self.shared.vars();
        if let Some(other) = vars.iter().find(|v| v.dtype() != vars[0].dtype()) {
            let problem =
                format!("parameters are {} and {}: give them one type", vars[0].dtype(), other.dtype());
            return refuse(OptimFacts::Refused { of: "LBFGS", problem });
        }
        let groups = self.shared.settings.read();
        let options = Options::of(&groups.each[0].numbers);
        let mut undo = Undo { lbfgs: self, before: vars.iter().map(Var::value).collect() };
        let mut run = Run { lbfgs: self, options, closure, evaluations: 0 };
        let mut memory = Memory::of(&self.shared.states.read()[0])?;
        let loss = run.step(&mut memory)?;
        let kept = memory.kept()?;
        drop(self.shared.states.update(|states| std::mem::replace(&mut states[0], kept)));
        undo.before.clear();
        Ok(loss)
    }

    fn set(&self, values: &[Tensor]) -> Result<()> {
        self.shared.vars().iter().zip(values).try_for_each(|(var, value)| {
            var.update_in_place(|own| {
                *own = value.clone();
                Ok(())
            })
        })
    }

    /// Goes along a direction.
    fn go(&self, length: f64, direction: &Tensor) -> Result<()> {
        let mut at = 0;
        for var in self.shared.vars() {
            let part = direction.narrow(0, at, var.numel())?.reshape(var.shape())?;
            at += var.numel();
            var.update_in_place(|own| own.add_with_(&part, length).map(|_| ()))?;
        }
        Ok(())
    }

    /// All gradients as one row.
    fn gradient(&self, maximize: bool) -> Result<Tensor> {
        let grads: Vec<Option<Tensor>> = self.shared.vars().iter().map(Var::grad).collect();
        self.shared.check(&grads)?;
        if !grads.is_empty() && grads.iter().all(Option::is_none) {
            let problem =
                "no parameter has a gradient when the closure returns: call backward() of the loss in it";
            return refuse(OptimFacts::Refused { of: "LBFGS", problem: problem.into() });
        }
        let rows = self.shared.vars().iter().zip(grads).map(|(var, grad)| match grad {
            Some(g) => g.reshape([var.numel()]),
            None => Ok(Tensor::zeros_with([var.numel()], var.dtype())),
        });
        let row = Tensor::cat(rows.collect::<Result<Vec<_>>>()?, 0)?;
        Ok(if maximize { -row } else { row })
    }
}

/// Takes a step back that has failed, or in which the closure has panicked.
struct Undo<'a> {
    lbfgs: &'a LBFGS,
    /// the values to go back to; none when the step was taken
    before: Vec<Tensor>,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        // Only a parameter that this very thread is writing refuses, and none was when the step began.
        let _ = self.lbfgs.set(&self.before);
    }
}

/// What is remembered from step to step.
struct Memory {
    iterations: i64,
    evaluations: f64,
    direction: Option<Tensor>,
    length: f64,
    gradient: Option<Tensor>,
    loss: f64,
    /// the scale of the first guess of the inverse Hessian
    scale: f64,
    /// differences of gradients and steps, and one over their product
    pairs: Vec<(Tensor, Tensor, f64)>,
}

impl Memory {
    fn of(kept: &Kept) -> Result<Memory> {
        let [direction, gradient, changes, steps] = kept.tensors.clone();
        let [length, scale, loss, evaluations] = kept.numbers;
        let mut pairs = Vec::new();
        if let (Some(changes), Some(steps)) = (changes, steps) {
            for (y, s) in changes.unbind(0)?.into_iter().zip(steps.unbind(0)?) {
                let product = dot(&y, &s)?;
                pairs.push((y, s, 1.0 / product));
            }
        }
        Ok(Memory { iterations: kept.steps, evaluations, direction, length, gradient, loss, scale, pairs })
    }

    fn kept(self) -> Result<Kept> {
        let mut kept = Kept { steps: self.iterations, ..Kept::default() };
        kept.numbers = [self.length, self.scale, self.loss, self.evaluations];
        let (mut changes, mut steps) = (Vec::new(), Vec::new());
        for (y, s, _) in self.pairs {
            changes.push(y);
            steps.push(s);
        }
        let stacked = |rows: Vec<Tensor>| {
            if rows.is_empty() { Ok(None) } else { Tensor::stack(rows, 0).map(Some) }
        };
        kept.tensors = [self.direction, self.gradient, stacked(changes)?, stacked(steps)?];
        Ok(kept)
    }

    /// The direction at this gradient: minus the remembered inverse Hessian times it.
    fn direction(&mut self, g: &Tensor, history: usize) -> Result<Tensor> {
        let (Some(last), Some(before)) = (&self.direction, &self.gradient) else { return Ok(-g) };
        let (y, s) = (g.sub(before)?, last.mul(self.length)?);
        let product = dot(&y, &s)?;
        if product > 1e-10 {
            if self.pairs.len() >= history {
                self.pairs.remove(0);
            }
            self.scale = product / dot(&y, &y)?;
            self.pairs.push((y, s, 1.0 / product));
        }
        let mut q = -g;
        let mut shares = vec![0.0; self.pairs.len()];
        for (share, (y, s, inverse)) in shares.iter_mut().zip(&self.pairs).rev() {
            *share = dot(s, &q)? * inverse;
            q.add_with_(y, -*share)?;
        }
        let mut r = q.mul(self.scale)?;
        for (share, (y, s, inverse)) in shares.iter().zip(&self.pairs) {
            let back = dot(y, &r)? * inverse;
            r.add_with_(s, share - back)?;
        }
        Ok(r)
    }
}

/// A step under way.
struct Run<'a, F> {
    lbfgs: &'a LBFGS,
    options: Options,
    closure: F,
    evaluations: usize,
}

impl<F: FnMut() -> Result<Var>> Run<'_, F> {
    fn evaluate(&mut self) -> Result<(Var, Point)> {
        let Options { maximize, .. } = self.options;
        let loss = enable_grad(|| (self.closure)())?;
        self.evaluations += 1;
        let value = if maximize { -loss.item()? } else { loss.item()? };
        Ok((loss, Point { loss: value, gradient: self.lbfgs.gradient(maximize)? }))
    }

    fn step(&mut self, memory: &mut Memory) -> Result<Var> {
        let o = self.options;
        let most = if o.max_eval == 0 { o.max_iter * 5 / 4 } else { o.max_eval };
        let (first, mut at) = self.evaluate()?;
        for iteration in 1..=o.max_iter {
            // Where the gradient is small enough at the start, nothing is done.
            if at.gradient.numel() == 0 || (iteration == 1 && largest(&at.gradient)? <= o.tolerance_grad) {
                break;
            }
            memory.iterations += 1;
            let direction = memory.direction(&at.gradient, o.history_size)?;
            memory.length = match &memory.direction {
                None => (1.0 / at.gradient.abs().sum(..)?.item()?).min(1.0) * o.lr,
                Some(_) => o.lr,
            };
            (memory.gradient, memory.loss) = (Some(at.gradient.clone()), at.loss);
            let slope = dot(&at.gradient, &direction)?;
            memory.direction = Some(direction.clone());
            if slope > -o.tolerance_change {
                break;
            }
            if o.strong_wolfe {
                (memory.length, at) =
                    self.search(&direction, memory.length, at, slope, most.saturating_sub(self.evaluations))?;
                self.lbfgs.go(memory.length, &direction)?;
            } else {
                self.lbfgs.go(memory.length, &direction)?;
                if iteration != o.max_iter {
                    at = self.evaluate()?.1;
                }
            }
            let moved = largest(&direction.mul(memory.length)?)?;
            if self.evaluations >= most
                || largest(&at.gradient)? <= o.tolerance_grad
                || moved <= o.tolerance_change
                || (at.loss - memory.loss).abs() < o.tolerance_change
            {
                break;
            }
        }
        memory.evaluations += self.evaluations as f64;
        Ok(first)
    }

    /// The length of the step along a direction, and what is there. The parameters stay where they are.
    fn search(
        &mut self,
        direction: &Tensor,
        length: f64,
        start: Point,
        slope: f64,
        most: usize,
    ) -> Result<(f64, Point)> {
        let tolerance = self.options.tolerance_change;
        let here: Vec<Tensor> = self.lbfgs.shared.vars().iter().map(Var::value).collect();
        let along = |length: f64| {
            self.lbfgs.go(length, direction)?;
            let (_, point) = self.evaluate()?;
            self.lbfgs.set(&here)?;
            let slope = dot(&point.gradient, direction)?;
            Ok((point, slope))
        };
        strong_wolfe(along, length, start, slope, largest(direction)?, tolerance, most)
    }
}

fn dot(a: &Tensor, b: &Tensor) -> Result<f64> {
    a.dot(b)?.item()
}

fn largest(t: &Tensor) -> Result<f64> {
    t.abs().amax(..)?.item()
}
