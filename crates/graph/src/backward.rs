//! Asking for gradients: `backward`, `grad`, and what they can be told.

use std::sync::atomic::{AtomicBool, Ordering};

use foldback_tensor::{Here, Tensor, refuse};
use smallvec::SmallVec;

use crate::engine::{GraphTask, Options, in_sum};
use crate::error::{GraphFacts, Result};
use crate::input::{AsInput, variables_of};
use crate::lead::Lead;
use crate::node::Edge;
use crate::var::Var;
use crate::view::BackwardPlan;

impl Var {
    /// Computes the gradients of all leaves that this single number depends on, and adds them to what is there.
    ///
    /// The graph's saved values are freed. A pass that fails leaves every gradient unchanged, but those
    /// of leaves that [`Var::register_post_accumulate_grad_hook`] was called on.
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
        backward([self], Backward::new())
    }

    /// [`Var::backward`] with options, or from a root of any shape with a seed: the gradient of the root.
    ///
    /// # Errors
    /// `SeedShape` if the seed has another shape than this; otherwise as [`backward`](crate::backward).
    ///
    /// ```
    /// use foldback_graph::{Backward, RequiresGrad};
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 2.0].requires_grad();
    /// let y = x.square();
    /// y.backward_with(Backward::new().seed(tensor![1.0, 10.0]).retain_graph(true))?;
    /// y.backward_with(&tensor![1.0, 0.0])?; // a seed alone
    /// assert_eq!(x.grad(), Some(tensor![4.0, 40.0]));
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn backward_with(&self, options: impl Into<Backward>) -> Result<()> {
        backward([self], options)
    }
}

/// Options of a backward pass: for [`Var::backward_with`], [`backward`](crate::backward) and [`grad_with`]. A seed alone is
/// one, too.
///
/// ```
/// use foldback_graph::{Backward, RequiresGrad};
/// use foldback_tensor::tensor;
/// let x = tensor![3.0].requires_grad();
/// let y = x.square();
/// y.backward_with(Backward::new().retain_graph(true))?;
/// y.backward()?;
/// assert_eq!(x.grad(), Some(tensor![12.0]));
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[must_use = "options do nothing by themselves"]
#[derive(Clone, Debug, Default)]
pub struct Backward {
    seeds: Option<Vec<Var>>,
    inputs: Option<Vec<Var>>,
    options: Options,
}

impl Backward {
    /// No seeds and no inputs; the graph is not kept and the pass is not recorded.
    pub fn new() -> Backward {
        Backward::default()
    }

    /// The gradient of the root. Without one, the root must hold a single element.
    pub fn seed(self, seed: impl AsInput) -> Backward {
        self.seeds([seed])
    }

    /// The gradient of each root. Without seeds every root must hold a single element.
    pub fn seeds(mut self, seeds: impl IntoIterator<Item: AsInput>) -> Backward {
        self.seeds = Some(variables_of(seeds));
        self
    }

    /// Leaves gradients in these variables only, leaves or not, and in those on the way to them that
    /// [`Var::retain_grad`] was called on; nodes that do not lead to them are not run, nor are their hooks.
    pub fn inputs(mut self, inputs: impl IntoIterator<Item: AsRef<Var>>) -> Backward {
        self.inputs = Some(inputs.into_iter().map(|v| v.as_ref().clone()).collect());
        self
    }

    /// Keeps the saved values, so that another pass can follow.
    pub fn retain_graph(mut self, on: bool) -> Backward {
        self.options.retain_graph = on;
        self
    }

    /// Records the pass itself, so that gradients have gradients. Keeps the graph, too.
    ///
    /// A variable that is left such a gradient owns it, and its history mostly owns the variable: neither is ever freed,
    /// until [`Var::zero_grad`] on each such variable breaks the cycle. The first such pass warns through the `log` facade.
    /// [`grad_with`] returns gradients instead of leaving them anywhere, and makes no cycle.
    ///
    /// ```
    /// use foldback_graph::{Backward, RequiresGrad, grad_with, live_nodes};
    /// use foldback_tensor::tensor;
    /// let x = tensor![2.0].requires_grad();
    /// let (y, handle) = (x.pow(3.0)?, x.downgrade());
    /// y.backward_with(Backward::new().create_graph(true))?;
    /// drop((x, y));
    /// assert!(live_nodes() > 0);
    /// handle.upgrade().unwrap().zero_grad();
    /// assert_eq!(live_nodes(), 0);
    ///
    /// let x = tensor![2.0].requires_grad();
    /// let y = x.pow(3.0)?;
    /// let first = grad_with(&y, &x, Backward::new().create_graph(true))?;
    /// drop((x, y, first));
    /// assert_eq!(live_nodes(), 0);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn create_graph(mut self, on: bool) -> Backward {
        self.options.create_graph = on;
        self.options.retain_graph |= on;
        self
    }
}

macro_rules! a_seed_alone {
    ($($t:ty),*) => {$(
        impl From<$t> for Backward {
            fn from(seed: $t) -> Backward {
                Backward::new().seed(seed)
            }
        }
    )*};
}
a_seed_alone!(&Tensor, Tensor, &Var, Var);

/// A backward pass from one or several roots.
///
/// # Errors
/// As [`Var::backward`]; `SeedCount` if there is not one seed per root; `Empty` if there are no roots, or if inputs
/// were given and there are none; `InputWithoutGrad` for an input that requires no gradient.
///
/// ```
/// use foldback_graph::{Backward, RequiresGrad, backward};
/// use foldback_tensor::tensor;
/// let x = tensor![3.0].requires_grad();
/// backward([&x * 2.0, x.square()], Backward::new())?;
/// assert_eq!(x.grad(), Some(tensor![8.0]));
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[track_caller]
pub fn backward(roots: impl IntoIterator<Item: AsRef<Var>>, options: impl Into<Backward>) -> Result<()> {
    let roots: Vec<_> = roots.into_iter().collect();
    let roots: SmallVec<[&Var; 1]> = roots.iter().map(AsRef::as_ref).collect();
    run(&roots, options.into()).or_here()
}

fn run(roots: &[&Var], how: Backward) -> Result<()> {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if how.options.create_graph && !WARNED.swap(true, Ordering::Relaxed) {
        log::warn!(
            "backward with create_graph makes variables and their gradients own each other, so that neither is freed until zero_grad() is called on them; grad_with makes no such cycle"
        );
    }
    let (task, edges) = how.task(roots)?;
    task.run(&edges).map(|_| ())
}

impl Backward {
    /// The pass that these options ask for, and where it starts.
    pub(crate) fn task(&self, roots: &[&Var]) -> Result<(GraphTask, Vec<Edge>)> {
        let edges = root_edges(roots)?;
        let mut task = GraphTask::new(self.options);
        if let Some(inputs) = &self.inputs {
            let inputs: Vec<&Var> = inputs.iter().collect();
            task.limit_to(&edges, &input_edges(&inputs)?, true);
        }
        let seeds: Option<SmallVec<[&Var; 1]>> = self.seeds.as_ref().map(|seeds| seeds.iter().collect());
        plant(&mut task, &edges, roots, seeds.as_deref())?;
        Ok((task, edges))
    }

    /// The seeds that were given.
    pub(crate) fn given_seeds(&self) -> Option<&[Var]> {
        self.seeds.as_deref()
    }
}

/// The gradients of `roots` with respect to `inputs`, as [`grad_with`], for several roots and for inputs that they may not depend
/// on; no variable's `grad` changes, not even where [`Var::retain_grad`] was called.
///
/// ```
/// use foldback_graph::{Grad, RequiresGrad};
/// use foldback_tensor::tensor;
/// let x = tensor![3.0].requires_grad();
/// let y = x.square() * &x;
/// let other = tensor![1.0].requires_grad();
/// let grads = Grad::new(&[&y], &[&x, &other]).allow_unused(true).run()?;
/// assert_eq!(grads[0].as_ref().unwrap().value(), tensor![27.0]);
/// assert!(grads[1].is_none());
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
    batched: bool,
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
            batched: false,
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

    /// Takes seeds with a leading axis, of shape `[n, ..]` for a root of shape `[..]`, and returns gradients with one: `n` passes
    /// in one, which visits every node once. Operations of the library compute all `n` gradients at once, a user's own one
    /// after another. A hook sees one gradient after another.
    ///
    /// ```
    /// use foldback_graph::{Grad, RequiresGrad, Var};
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 2.0, 3.0].requires_grad();
    /// let y = x.square();
    /// let seeds = Var::from(tensor![[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]]);
    /// let grads = Grad::new(&[&y], &[&x]).seeds(&[&seeds]).is_grads_batched(true).run()?;
    /// assert_eq!(grads[0].as_ref().unwrap().value(), tensor![[2.0, 0.0, 0.0], [2.0, 4.0, 6.0]]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn is_grads_batched(mut self, on: bool) -> Grad<'a> {
        self.batched = on;
        self
    }

    /// Computes the gradients, one per input in order.
    ///
    /// # Errors
    /// As [`backward`](crate::backward); `Unused` for an input that the roots do not depend on, unless allowed.
    #[track_caller]
    pub fn run(self) -> Result<Vec<Option<Var>>> {
        self.pass().or_here()
    }

    /// [`Grad::run`] for those who put a line of their own on what is refused.
    #[doc(hidden)]
    pub fn pass(self) -> Result<Vec<Option<Var>>> {
        let (task, roots) = self.task()?;
        let batch = task.batch;
        let mut grads = task.run(&roots)?;
        for (index, g) in grads.iter_mut().enumerate().filter(|g| g.1.is_none()) {
            if self.materialize {
                let like = self.inputs[index];
                let zeros = Tensor::try_zeros_with(Lead(batch).shape(like.shape()), like.dtype());
                *g = Some(Var::constant(zeros.nowhere()?));
            } else if !self.allow_unused {
                return refuse(GraphFacts::Unused { index });
            }
        }
        Ok(grads)
    }

    /// What [`Grad::run`] would do, without doing it, see [`BackwardPlan`](crate::BackwardPlan).
    ///
    /// # Errors
    /// As [`Grad::run`], as far as it can be known before.
    ///
    /// ```
    /// use foldback_graph::{Grad, RequiresGrad};
    /// use foldback_tensor::{Tensor, tensor};
    /// let (x, w) = (Tensor::ones([1024]).requires_grad(), Tensor::ones([1024]).requires_grad());
    /// let y = x.exp().mul(&w)?.sum(..)?;
    /// let plan = Grad::new(&[&y], &[&w]).plan()?;
    /// // `exp` is not on the way to `w`.
    /// assert_eq!(plan.steps().len(), 2);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn plan(self) -> Result<BackwardPlan> {
        let (task, roots) = self.task().or_here()?;
        let seeds = self.seeds.map(|seeds| seeds.iter().map(|&seed| seed.clone()).collect::<Vec<_>>());
        BackwardPlan::of(&task, &roots, seeds.as_deref()).or_here()
    }

    fn task(&self) -> Result<(GraphTask, Vec<Edge>)> {
        let (roots, inputs) = (root_edges(self.roots)?, input_edges(self.inputs)?);
        let mut task = GraphTask::new(self.options);
        task.limit_to(&roots, &inputs, false);
        task.batch = if self.batched { Some(self.count()?) } else { None };
        plant(&mut task, &roots, self.roots, self.seeds)?;
        Ok((task, roots))
    }

    /// How many gradients come along the leading axis of the seeds.
    fn count(&self) -> Result<usize> {
        match self.seeds {
            Some([seed, ..]) if seed.rank() > 0 => Ok(seed.shape().dims()[0]),
            _ => refuse(GraphFacts::SeedsNotBatched),
        }
    }
}

/// What gradients are asked for with respect to: `&x` gives a `Var`, `[&a, &b]` a `[Var; 2]`, and `&parameters` a `Vec<Var>`.
pub trait GradInputs {
    /// One gradient for each.
    type Grads;
    /// The variables.
    fn variables(&self) -> Vec<&Var>;
    /// As many gradients, in the same order, as the caller wants to have them.
    fn gather(grads: Vec<Var>) -> Self::Grads;
}

impl GradInputs for &Var {
    type Grads = Var;
    fn variables(&self) -> Vec<&Var> {
        vec![self]
    }
    fn gather(mut grads: Vec<Var>) -> Var {
        grads.pop().expect("a gradient for each input")
    }
}
macro_rules! several_inputs {
    ($([$($generics:tt)*] $t:ty => $grads:ty, $gather:expr;)*) => {$(
        impl<$($generics)*> GradInputs for $t {
            type Grads = $grads;
            fn variables(&self) -> Vec<&Var> {
                self.iter().map(AsRef::as_ref).collect()
            }
            fn gather(grads: Vec<Var>) -> $grads {
                $gather(grads)
            }
        }
    )*};
}
fn gather_array<const N: usize>(grads: Vec<Var>) -> [Var; N] {
    grads.try_into().expect("a gradient for each input")
}
several_inputs! {
    [V: AsRef<Var>, const N: usize] [V; N] => [Var; N], gather_array;
    [V: AsRef<Var>, const N: usize] &[V; N] => [Var; N], gather_array;
    [V: AsRef<Var>] &[V] => Vec<Var>, std::convert::identity;
    [V: AsRef<Var>] &Vec<V> => Vec<Var>, std::convert::identity;
    [V: AsRef<Var>] Vec<V> => Vec<Var>, std::convert::identity;
}

/// The gradients of a single number with respect to `inputs`; no variable's `grad` changes.
///
/// # Errors
/// As [`Grad::run`].
///
/// ```
/// use foldback_graph::{RequiresGrad, grad};
/// use foldback_tensor::tensor;
/// let (a, b) = (tensor![2.0].requires_grad(), tensor![5.0].requires_grad());
/// let [da, db] = grad(&a * &b, [&a, &b])?;
/// assert_eq!((da.value(), db.value()), (tensor![5.0], tensor![2.0]));
/// assert_eq!(grad(&a.square(), &a)?.value(), tensor![4.0]);
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[track_caller]
pub fn grad<I: GradInputs>(root: impl AsRef<Var>, inputs: I) -> Result<I::Grads> {
    grad_with(root, inputs, Backward::new())
}

/// [`grad`] with options: a seed for a root of any shape, `create_graph` for gradients that have gradients. An input that the
/// root does not depend on is an error; [`Grad`] allows it.
///
/// # Errors
/// As [`Grad::run`]; `InputsTwice` if the options name inputs, too.
///
/// ```
/// use foldback_graph::{Backward, RequiresGrad, grad, grad_with};
/// use foldback_tensor::tensor;
/// let x = tensor![3.0].requires_grad();
/// let slope = grad_with(&x.pow(3)?, &x, Backward::new().create_graph(true))?;
/// assert_eq!(slope.value(), tensor![27.0]);
/// assert_eq!(grad(&slope, &x)?.value(), tensor![18.0]);
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[track_caller]
pub fn grad_with<I: GradInputs>(
    root: impl AsRef<Var>,
    inputs: I,
    options: impl Into<Backward>,
) -> Result<I::Grads> {
    let how = options.into();
    if how.inputs.is_some() {
        return refuse(GraphFacts::InputsTwice).here();
    }
    let vars = inputs.variables();
    let seeds: Option<Vec<&Var>> = how.seeds.as_ref().map(|seeds| seeds.iter().collect());
    let roots = [root.as_ref()];
    let mut grad = Grad::new(&roots, &vars);
    (grad.seeds, grad.options) = (seeds.as_deref(), how.options);
    Ok(I::gather(grad.run()?.into_iter().flatten().collect()))
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
    let (roots, edges) = (root_edges(&[&value])?, input_edges(&inputs)?);
    let dense =
        |(g, edge): (Var, &Edge)| g.value().try_contiguous().map_err(|e| in_sum(&roots, &edge.node, e));
    Ok((value.value(), grads.into_iter().flatten().zip(&edges).map(dense).collect::<Result<_>>().here()?))
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

/// Whether a seed has the shape of its root, behind the axis that all seeds share.
fn has_shape(seed: &Var, batch: Option<usize>, root: &Var) -> bool {
    match batch {
        None => seed.shape() == root.shape(),
        Some(_) => *seed.shape() == Lead(batch).shape(root.shape()),
    }
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
            Some(seeds) if !has_shape(seeds[index], task.batch, root) => {
                return refuse(GraphFacts::SeedShape {
                    index,
                    seed: seeds[index].shape().clone(),
                    output: Lead(task.batch).shape(root.shape()),
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
