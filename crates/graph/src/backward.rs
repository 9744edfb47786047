//! Asking for gradients: `backward`, `grad`, and what they can be told.

use std::sync::atomic::{AtomicBool, Ordering};

use foldback_tensor::{Here, Tensor, refuse};

use crate::engine::{GraphTask, Options};
use crate::error::{GraphFacts, Result};
use crate::node::Edge;
use crate::var::Var;

impl Var {
    /// Computes the gradients of all leaves that this single number depends on, and adds them to what is there.
    ///
    /// The graph's saved values are freed. A pass that fails leaves every gradient unchanged.
    ///
    /// # Errors
    /// `NotScalar` if this holds more than one element, `NoGraph` if nothing tracked led to it, `Freed` on a second
    /// pass, `TooDeep` inside so many other passes that the system grants no further thread, and what a gradient
    /// function returns.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 2.0].requires_grad();
    /// x.square().sum(..)?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![2.0, 4.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn backward(&self) -> Result<()> {
        Backward::new(&[self]).run()
    }

    /// [`Var::backward`] from a root of any shape: `seed` is the gradient of the root.
    ///
    /// # Errors
    /// `SeedShape` if the seed has another shape than this; otherwise as [`Var::backward`].
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 2.0].requires_grad();
    /// x.square().backward_with(&tensor![1.0, 10.0])?;
    /// assert_eq!(x.grad(), Some(tensor![2.0, 40.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn backward_with(&self, seed: &Tensor) -> Result<()> {
        Backward::new(&[self]).seeds(&[&Var::from(seed)]).run()
    }
}

/// A backward pass from one or several roots, with options.
///
/// ```
/// use foldback_graph::{Backward, RequiresGrad};
/// use foldback_tensor::tensor;
/// let x = tensor![3.0].requires_grad();
/// let (y, z) = (&x * 2.0, x.square());
/// Backward::new(&[&y, &z]).retain_graph(true).run()?;
/// assert_eq!(x.grad(), Some(tensor![8.0]));
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[must_use = "a pass runs when run() is called"]
pub struct Backward<'a> {
    roots: &'a [&'a Var],
    seeds: Option<&'a [&'a Var]>,
    inputs: Option<&'a [&'a Var]>,
    options: Options,
}

impl<'a> Backward<'a> {
    /// A pass from these roots.
    pub fn new(roots: &'a [&'a Var]) -> Backward<'a> {
        Backward { roots, seeds: None, inputs: None, options: Options::default() }
    }

    /// The gradient of each root. Without seeds every root must hold a single element.
    pub fn seeds(mut self, seeds: &'a [&'a Var]) -> Backward<'a> {
        self.seeds = Some(seeds);
        self
    }

    /// Leaves gradients in these variables only, leaves or not, and in those on the way to them that
    /// [`Var::retain_grad`] was called on; nodes that do not lead to them are not run, nor are their hooks.
    pub fn inputs(mut self, inputs: &'a [&'a Var]) -> Backward<'a> {
        self.inputs = Some(inputs);
        self
    }

    /// Keeps the saved values, so that another pass can follow.
    pub fn retain_graph(mut self, on: bool) -> Backward<'a> {
        self.options.retain_graph = on;
        self
    }

    /// Records the pass itself, so that gradients have gradients. Keeps the graph, too.
    ///
    /// A variable then owns its gradient, whose history mostly owns the variable: neither is ever freed, until
    /// [`Var::zero_grad`] on each such variable breaks the cycle. The first such pass warns through the `log` facade.
    /// [`Grad`] returns gradients instead of leaving them anywhere, and makes no cycle.
    ///
    /// ```
    /// use foldback_graph::{Backward, Grad, RequiresGrad, live_nodes};
    /// use foldback_tensor::tensor;
    /// let x = tensor![2.0].requires_grad();
    /// let (y, handle) = (x.pow(3.0)?, x.downgrade());
    /// Backward::new(&[&y]).create_graph(true).run()?;
    /// drop((x, y));
    /// assert!(live_nodes() > 0);
    /// handle.upgrade().unwrap().zero_grad();
    /// assert_eq!(live_nodes(), 0);
    ///
    /// let x = tensor![2.0].requires_grad();
    /// let y = x.pow(3.0)?;
    /// let first = Grad::new(&[&y], &[&x]).create_graph(true).run()?;
    /// drop((x, y, first));
    /// assert_eq!(live_nodes(), 0);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn create_graph(mut self, on: bool) -> Backward<'a> {
        self.options.create_graph = on;
        self.options.retain_graph |= on;
        self
    }

    /// Runs the pass.
    ///
    /// # Errors
    /// As [`Var::backward`]; `SeedCount` if there is not one seed per root; `Empty` if there are no roots, or if inputs
    /// were given and there are none; `InputWithoutGrad` for an input that requires no gradient.
    #[track_caller]
    pub fn run(self) -> Result<()> {
        self.pass().or_here()
    }

    fn pass(self) -> Result<()> {
        static WARNED: AtomicBool = AtomicBool::new(false);
        if self.options.create_graph && !WARNED.swap(true, Ordering::Relaxed) {
            log::warn!(
                "backward with create_graph makes variables and their gradients own each other, so that neither is freed until zero_grad() is called on them; Grad makes no such cycle"
            );
        }
        let roots = root_edges(self.roots)?;
        let mut task = GraphTask::new(self.options);
        if let Some(inputs) = self.inputs {
            task.limit_to(&roots, &input_edges(inputs)?, true);
        }
        plant(&mut task, &roots, self.roots, self.seeds)?;
        task.run().map(|_| ())
    }
}

/// Computes the gradients of `roots` with respect to `inputs` and returns them; no variable's `grad` changes, not even
/// where [`Var::retain_grad`] was called.
///
/// ```
/// use foldback_graph::{Grad, RequiresGrad};
/// use foldback_tensor::tensor;
/// let x = tensor![3.0].requires_grad();
/// let y = x.square() * &x;
/// let first = Grad::new(&[&y], &[&x]).create_graph(true).run()?.remove(0).unwrap();
/// let second = Grad::new(&[&first], &[&x]).run()?.remove(0).unwrap();
/// assert_eq!(first.value(), tensor![27.0]);
/// assert_eq!(second.value(), tensor![18.0]);
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[must_use = "gradients are computed when run() is called"]
pub struct Grad<'a> {
    roots: &'a [&'a Var],
    inputs: &'a [&'a Var],
    seeds: Option<&'a [&'a Var]>,
    options: Options,
    allow_unused: bool,
    materialize: bool,
}

impl<'a> Grad<'a> {
    /// The gradients of these roots with respect to these inputs.
    pub fn new(roots: &'a [&'a Var], inputs: &'a [&'a Var]) -> Grad<'a> {
        Grad {
            roots,
            inputs,
            seeds: None,
            options: Options::default(),
            allow_unused: false,
            materialize: false,
        }
    }

    /// The gradient of each root. Without seeds every root must hold a single element.
    pub fn seeds(mut self, seeds: &'a [&'a Var]) -> Grad<'a> {
        self.seeds = Some(seeds);
        self
    }

    /// Keeps the saved values, so that another pass can follow.
    pub fn retain_graph(mut self, on: bool) -> Grad<'a> {
        self.options.retain_graph = on;
        self
    }

    /// Records the pass itself, so that gradients have gradients. Keeps the graph, too.
    pub fn create_graph(mut self, on: bool) -> Grad<'a> {
        self.options.create_graph = on;
        self.options.retain_graph |= on;
        self
    }

    /// Returns `None` for an input that the roots do not depend on, instead of an error.
    pub fn allow_unused(mut self, on: bool) -> Grad<'a> {
        self.allow_unused = on;
        self
    }

    /// Returns zeros for an input that the roots do not depend on.
    pub fn materialize_grads(mut self, on: bool) -> Grad<'a> {
        self.materialize = on;
        self
    }

    /// Computes the gradients, one per input in order.
    ///
    /// # Errors
    /// As [`Backward::run`]; `Unused` for an input that the roots do not depend on, unless allowed.
    #[track_caller]
    pub fn run(self) -> Result<Vec<Option<Var>>> {
        self.pass().or_here()
    }

    /// [`Grad::run`] for those who put a line of their own on what is refused.
    #[doc(hidden)]
    pub fn pass(self) -> Result<Vec<Option<Var>>> {
        let roots = root_edges(self.roots)?;
        let inputs = input_edges(self.inputs)?;
        let mut task = GraphTask::new(self.options);
        task.limit_to(&roots, &inputs, false);
        plant(&mut task, &roots, self.roots, self.seeds)?;
        let mut grads = task.run()?;
        for (index, g) in grads.iter_mut().enumerate().filter(|g| g.1.is_none()) {
            if self.materialize {
                let like = self.inputs[index];
                *g = Some(Var::constant(Tensor::try_zeros_with(like.shape(), like.dtype()).nowhere()?));
            } else if !self.allow_unused {
                return refuse(GraphFacts::Unused { index });
            }
        }
        Ok(grads)
    }
}

/// The gradients of a single number with respect to `inputs`, as [`Grad`] without options.
///
/// # Errors
/// As [`Grad::run`].
///
/// ```
/// use foldback_graph::{RequiresGrad, grad};
/// use foldback_tensor::tensor;
/// let (a, b) = (tensor![2.0].requires_grad(), tensor![5.0].requires_grad());
/// let grads = grad(&(&a * &b), &[&a, &b])?;
/// assert_eq!(grads[0].value(), tensor![5.0]);
/// assert_eq!(grads[1].value(), tensor![2.0]);
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[track_caller]
pub fn grad(root: &Var, inputs: &[&Var]) -> Result<Vec<Var>> {
    let grads = Grad::new(&[root], inputs).run()?;
    Ok(grads.into_iter().flatten().collect())
}

/// A function's value and its gradients at some tensors: `f` gets a leaf for each, and returns a single number.
///
/// # Errors
/// What `f` returns, and as [`Var::backward`].
///
/// ```
/// use foldback_graph::value_and_grad;
/// use foldback_tensor::tensor;
/// let (value, grads) = value_and_grad(|v| v[0].square().sum(..), &[&tensor![1.0, 2.0]])?;
/// assert_eq!(value.item_as::<f32>()?, 5.0);
/// assert_eq!(grads, [tensor![2.0, 4.0]]);
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[track_caller]
pub fn value_and_grad(
    f: impl FnOnce(&[Var]) -> Result<Var>,
    inputs: &[&Tensor],
) -> Result<(Tensor, Vec<Tensor>)> {
    let mut leaves = Vec::with_capacity(inputs.len());
    for &t in inputs {
        leaves.push(Var::leaf(t.clone())?);
    }
    let value = f(&leaves)?;
    let inputs: Vec<&Var> = leaves.iter().collect();
    let grads = Grad::new(&[&value], &inputs).materialize_grads(true).run()?;
    let dense = |g: Var| g.value().try_contiguous();
    Ok((value.value(), grads.into_iter().flatten().map(dense).collect::<Result<_>>().here()?))
}

fn root_edges(roots: &[&Var]) -> Result<Vec<Edge>> {
    if roots.is_empty() {
        return refuse(GraphFacts::Empty { what: "the list of roots" });
    }
    roots
        .iter()
        .enumerate()
        .map(|(index, r)| r.edge().ok_or_else(|| GraphFacts::NoGraph { index }.into()))
        .collect()
}

fn input_edges(inputs: &[&Var]) -> Result<Vec<Edge>> {
    if inputs.is_empty() {
        return refuse(GraphFacts::Empty { what: "the list of inputs" });
    }
    inputs
        .iter()
        .enumerate()
        .map(|(index, v)| v.edge().ok_or_else(|| GraphFacts::InputWithoutGrad { index }.into()))
        .collect()
}

/// Checks the seeds, makes the missing ones, and hands them to the task.
fn plant(task: &mut GraphTask, edges: &[Edge], roots: &[&Var], seeds: Option<&[&Var]>) -> Result<()> {
    if let Some(seeds) = seeds
        && seeds.len() != roots.len()
    {
        return refuse(GraphFacts::SeedCount { expected: roots.len(), found: seeds.len() });
    }
    let mut planted = Vec::with_capacity(roots.len());
    for (index, root) in roots.iter().enumerate() {
        let seed = match seeds {
            Some(seeds) if seeds[index].shape() != root.shape() => {
                return refuse(GraphFacts::SeedShape {
                    index,
                    seed: seeds[index].shape().clone(),
                    output: root.shape().clone(),
                });
            }
            Some(seeds) if !seeds[index].dtype().is_float() => {
                return refuse(GraphFacts::DTypeWithoutGrad { dtype: seeds[index].dtype() });
            }
            Some(seeds) if seeds[index].dtype() != root.dtype() => {
                seeds[index].cast(root.dtype()).nowhere()?
            }
            Some(seeds) => seeds[index].clone(),
            None if root.numel() != 1 => {
                return refuse(GraphFacts::NotScalar { shape: root.shape().clone() });
            }
            None => Var::constant(Tensor::ones_with(root.shape(), root.dtype())),
        };
        planted.push(seed);
    }
    for (edge, seed) in edges.iter().zip(planted) {
        task.add(edge, seed);
    }
    Ok(())
}
