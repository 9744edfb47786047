//! Passes that leave gradients in variables, what all passes can be told, and where they start.

use std::sync::atomic::{AtomicBool, Ordering};

use foldback_tensor::{Here, Tensor, refuse};
use smallvec::{SmallVec, smallvec};

use crate::engine::{GraphTask, Options};
use crate::error::{Error, GraphFacts, Result};
use crate::input::{AsInput, variables_of};
use crate::lead::Lead;
use crate::mode::is_grad_enabled;
use crate::node::{Edge, Var, VarKind};

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
        backward(self, Backward::new())
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
        backward(self, options)
    }
}

/// Options of a backward pass: for [`Var::backward_with`], [`backward`](crate::backward) and [`grad_with`](crate::grad_with). A seed alone is
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
    pub(crate) seeds: Option<Vec<Var>>,
    pub(crate) inputs: Option<Vec<Var>>,
    pub(crate) options: Options,
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
    pub fn inputs(mut self, inputs: impl Variables) -> Backward {
        self.inputs = Some(inputs.variables().into_vec());
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
    /// [`grad_with`](crate::grad_with) returns gradients instead of leaving them anywhere, and makes no cycle.
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
pub fn backward(roots: impl Variables, options: impl Into<Backward>) -> Result<()> {
    run(&roots.variables(), options.into()).or_here()
}

/// The variables that a pass is asked about: one, or an array, a list or an iterator of them.
///
/// ```
/// use foldback_graph::{Backward, RequiresGrad, backward};
/// use foldback_tensor::tensor;
/// let (x, y) = (tensor![2.0].requires_grad(), tensor![3.0].requires_grad());
/// backward(&x * &y, Backward::new().inputs(&x))?;
/// backward([x.square(), &x * &y], Backward::new().inputs([&x, &y]))?;
/// assert_eq!((x.grad(), y.grad()), (Some(tensor![10.0]), Some(tensor![2.0])));
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a variable nor a list of variables",
    label = "expected `&x`, `[&a, &b]`, `&list` or an iterator"
)]
pub trait Variables {
    /// Handles on them.
    fn variables(self) -> SmallVec<[Var; 1]>;
}

impl Variables for &Var {
    fn variables(self) -> SmallVec<[Var; 1]> {
        smallvec![self.clone()]
    }
}
impl Variables for Var {
    fn variables(self) -> SmallVec<[Var; 1]> {
        smallvec![self]
    }
}
impl<I: IntoIterator<Item: AsRef<Var>>> Variables for I {
    fn variables(self) -> SmallVec<[Var; 1]> {
        self.into_iter().map(|v| v.as_ref().clone()).collect()
    }
}

fn run(roots: &[Var], how: Backward) -> Result<()> {
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
    pub(crate) fn task(&self, roots: &[Var]) -> Result<(GraphTask, Vec<Edge>)> {
        let edges = root_edges("backward", roots)?;
        let mut task = GraphTask::new(self.options);
        if let Some(inputs) = &self.inputs {
            task.limit_to(&edges, &input_edges("backward", inputs)?, true);
        }
        plant("backward", &mut task, &edges, roots, self.seeds.as_deref())?;
        Ok((task, edges))
    }
}

pub(crate) fn root_edges(op: &'static str, roots: &[Var]) -> Result<Vec<Edge>> {
    if roots.is_empty() {
        return refuse(GraphFacts::Empty { op, what: "roots" });
    }
    roots.iter().enumerate().map(|(index, r)| r.edge().ok_or_else(|| no_graph(op, index, r))).collect()
}

/// Why no gradient leaves a root, as far as it shows; what it was made of it does not know.
#[cold]
pub(crate) fn no_graph(op: &'static str, index: usize, root: &Var) -> Error {
    let cause = if !root.dtype().is_float() {
        format!(
            "it is of type {}; comparisons, places (argmax) and casts to integers have no derivative: go back from floating-point numbers",
            root.dtype()
        )
    } else if matches!(root.kind, VarKind::Leaf(_)) {
        "it is a leaf that was frozen by requires_grad_(false): turn it on again by requires_grad_(true)"
            .into()
    } else {
        let others = "detached, made of tensors without requires_grad() or of frozen parameters (requires_grad_(false)), by way of a comparison, a place (argmax) or a cast to integers, which have no derivative";
        let gradient = "it is a gradient, which has a history only with create_graph(true)";
        let elsewhere = "no_grad, a hook or a Function's backward";
        match is_grad_enabled() {
            true => format!(
                "it was {others}, or made inside {elsewhere} (enable_grad records there); or {gradient}"
            ),
            false => format!(
                "it may have been made here, inside {elsewhere}, where operations are not recorded: compute it before, or inside enable_grad(|| ..); or it was {others}; or {gradient}"
            ),
        }
    };
    GraphFacts::NoGraph { op, index, cause }.into()
}

pub(crate) fn input_edges(op: &'static str, inputs: &[Var]) -> Result<Vec<Edge>> {
    if inputs.is_empty() {
        return refuse(GraphFacts::Empty { op, what: "inputs" });
    }
    inputs
        .iter()
        .enumerate()
        .map(|(index, v)| v.edge().ok_or_else(|| GraphFacts::InputWithoutGrad { op, index }.into()))
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
pub(crate) fn plant(
    op: &'static str,
    task: &mut GraphTask,
    edges: &[Edge],
    roots: &[Var],
    seeds: Option<&[Var]>,
) -> Result<()> {
    if let Some(seeds) = seeds
        && seeds.len() != roots.len()
    {
        return refuse(GraphFacts::SeedCount { op, expected: roots.len(), found: seeds.len() });
    }
    let mut planted = Vec::with_capacity(roots.len());
    for (index, root) in roots.iter().enumerate() {
        let seed = match seeds {
            Some(seeds) if !has_shape(&seeds[index], task.batch, root) => {
                return refuse(GraphFacts::SeedShape {
                    op,
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
                return refuse(GraphFacts::NotScalar { op, shape: root.shape().clone() });
            }
            None => Var::constant(Tensor::ones_with(root.shape(), root.dtype())),
        };
        planted.push(seed);
    }
    for (edge, seed) in edges.iter().zip(planted) {
        task.wait(edge, seed);
    }
    Ok(())
}
