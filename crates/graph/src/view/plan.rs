//! `BackwardPlan`: what a backward pass will do, and what memory it will need, before it runs.

use std::sync::Arc;

use foldback_tensor::{Here, Tensor, refuse};

use super::GraphView;
use super::collect::{collect, reachable};
use super::memory::{Step, follow};
use super::pass::Pass;
use crate::backward::{Backward, Variables};
use crate::engine::GraphTask;
use crate::error::{GraphFacts, Result};
use crate::node::{Edge, Node, Var};

/// What a backward pass will do: the graph with its nodes in the order in which they run, and the memory that each step
/// takes.
///
/// Nothing is computed for it. `{}` and [`to_text`](BackwardPlan::to_text) show it as text, [`to_html`](BackwardPlan::to_html)
/// as a page.
///
/// The bytes are those of tensors' storages, which are up to an eighth larger than their elements: values of leaves and the
/// gradients they have, what the graph keeps, and gradients on their way. Nodes themselves are counted apart ([`GraphView::node_bytes`]); working memory
/// inside an operation and what the memory pool holds are not counted. Of an
/// operation of one's own the plan supposes that its gradients have the shape of its first output, where the input can
/// broadcast to that, and else that of the input.
///
/// ```
/// use foldback_graph::RequiresGrad;
/// use foldback_tensor::{Tensor, tensor};
/// let a = Tensor::ones([1024, 1]).requires_grad();
/// let b = Tensor::ones([1, 1024]).requires_grad();
/// let loss = (&a * &b).sum(..)?;
/// let plan = loss.backward_plan()?;
/// assert_eq!(plan.graph().folds().count(), 2);
/// // Two leaves and their gradients: the matrix never exists on the way back.
/// assert_eq!(plan.peak_bytes(), 4 * 4096);
/// loss.backward()?;
/// assert!(loss.backward_plan().is_err());
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct BackwardPlan {
    pub(super) graph: GraphView,
    pub(super) steps: Vec<Step>,
    pub(super) leaves: usize,
    peak: usize,
}

/// # Looking at graphs
impl Var {
    /// What [`Var::backward`] would do, without doing it: nodes in their order, folds, what is kept, and the peak in memory.
    ///
    /// A variable of more than one element is planned with a seed of its shape.
    ///
    /// # Errors
    /// `NoGraph` if nothing was recorded, `Freed` if a pass has freed what the graph kept.
    ///
    /// ```
    /// use foldback_graph::RequiresGrad;
    /// use foldback_tensor::tensor;
    /// let (x, w) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![[0.5, 0.5]].requires_grad());
    /// let plan = (&w * &x).sum(..)?.backward_plan()?.named([("w", &w)]);
    /// assert_eq!(plan.to_text(), "\
    /// backward plan: 2 operations, 1 leaf; 1 fold; keeps 16 B; peak 32 B
    /// #0 sum -> f32 []
    ///     input 0: to #1
    /// #1 mul -> f32 [2, 2], keeps 16 B
    ///     input 0: to #2 w, [2, 2] folded to [1, 2] over axis 0
    /// #2 leaf w: f32 [1, 2]
    /// ");
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn backward_plan(&self) -> Result<BackwardPlan> {
        backward_plan(self, Backward::new())
    }

    /// What [`Var::backward_with`] would do with the same options, without doing it, see [`backward_plan`].
    ///
    /// # Errors
    /// As [`backward_plan`].
    ///
    /// ```
    /// use foldback_graph::{Backward, RequiresGrad};
    /// use foldback_tensor::Tensor;
    /// let (x, w) = (Tensor::ones([1024]).requires_grad(), Tensor::ones([1024]).requires_grad());
    /// let y = x.exp().mul(&w)?.sum(..)?;
    /// assert_eq!(y.backward_plan()?.steps().len(), 3);
    /// assert_eq!(y.backward_plan_with(Backward::new().inputs(&w))?.steps().len(), 2);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn backward_plan_with(&self, options: impl Into<Backward>) -> Result<BackwardPlan> {
        backward_plan(self, options)
    }
}

/// What [`backward`](crate::backward) would do with the same roots and options, without doing it.
///
/// Without seeds, a root of more than one element is planned with one of its shape. A pass that is limited to inputs runs what leads to them;
/// the rest of the graph is kept, and counted. With `retain_graph` nothing is freed; what a pass with `create_graph` records is
/// not counted. A leaf with hooks that follow its gradient gets it as soon as the last operation that uses the leaf has run; the plan supposes
/// that the hooks let it go, as a step of an optimiser with `zero_grad` does.
///
/// # Errors
/// As [`backward`](crate::backward), as far as it can be known before: `NoGraph`, `Freed`, `SeedShape`, `Empty` and the like.
///
/// ```
/// use foldback_graph::{Backward, RequiresGrad, backward_plan};
/// use foldback_tensor::Tensor;
/// let x = Tensor::ones([1024]).requires_grad();
/// let plan = backward_plan([x.exp(), x.square()], Backward::new().retain_graph(true))?;
/// assert_eq!((plan.steps().len(), plan.leaf_bytes()), (2, 4096));
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[track_caller]
pub fn backward_plan(roots: impl Variables, options: impl Into<Backward>) -> Result<BackwardPlan> {
    let (roots, options) = (roots.variables(), options.into());
    let plan = || {
        let any = |y: &Var| Tensor::zeros_with((), y.dtype()).expand(y.shape());
        let (task, edges) = match options.seeds {
            Some(_) => options.task(&roots)?,
            None => {
                let any = roots.iter().map(any).collect::<Result<Vec<_>>>()?;
                options.clone().seeds(any).task(&roots)?
            }
        };
        BackwardPlan::of(&task, &edges, options.seeds.as_deref())
    };
    plan().or_here()
}

impl BackwardPlan {
    /// The plan of a pass from some roots, with the seeds that were given.
    pub(crate) fn of(task: &GraphTask, roots: &[Edge], seeds: Option<&[Var]>) -> Result<BackwardPlan> {
        let all = reachable(roots);
        let on_way = |node: &&Arc<Node>| task.path.as_ref().is_none_or(|path| path.contains(&node.sequence));
        let nodes: Vec<Arc<Node>> = all.iter().filter(on_way).cloned().collect();
        let graph = collect(&nodes);
        if let Some(node) = graph.nodes.iter().find(|n| n.is_freed) {
            return refuse(GraphFacts::Freed { op: node.name, location: node.location });
        }
        let whole = if nodes.len() == all.len() { None } else { Some(collect(&all)) };
        let whole = whole.as_ref().unwrap_or(&graph);
        let (leaves, saved) = (whole.leaf_bytes(), whole.saved_bytes());
        let course = follow(&graph, &Pass::of(task, &nodes, roots, seeds), saved);
        Ok(BackwardPlan { graph, steps: course.steps, leaves, peak: leaves + course.peak })
    }

    /// Gives leaves names, such as those of [`named_parameters`](https://docs.rs/foldback-nn): texts and pages show them, and
    /// the page folds operations together by the layers that the names tell of. Others than leaves of this graph are passed over.
    #[must_use = "a plan is returned"]
    pub fn named<V: AsRef<Var>>(
        mut self,
        names: impl IntoIterator<Item = (impl Into<String>, V)>,
    ) -> BackwardPlan {
        self.graph = self.graph.named(names);
        self
    }

    /// The graph, as far as it runs: nodes in their order, with shapes, folds, lines and what they keep.
    pub fn graph(&self) -> &GraphView {
        &self.graph
    }

    /// The operations that run, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The bytes of leaves: of their values, and of the gradients that they already have.
    pub fn leaf_bytes(&self) -> usize {
        self.leaves
    }

    /// The most bytes of tensors held at once: of leaves, of what the graph keeps, and of gradients.
    pub fn peak_bytes(&self) -> usize {
        self.peak
    }
}
