//! Gradients as values: `grad`, and what it can be told.

use foldback_tensor::{Here, Tensor, refuse};
use smallvec::SmallVec;

use crate::backward::{Backward, Variables, input_edges, plant, root_edges};
use crate::engine::{GraphTask, Options};
use crate::error::{GraphFacts, Result};
use crate::input::{AsInput, variables_of};
use crate::lead::Lead;
use crate::node::{Edge, Var};
use crate::view::BackwardPlan;

/// The gradients of `roots` with respect to `inputs`, as [`grad_with`], for several roots and for inputs that they may not depend
/// on; no variable's `grad` changes, not even where [`Var::retain_grad`] was called.
///
/// ```
/// use foldback_graph::{Grad, RequiresGrad};
/// use foldback_tensor::tensor;
/// let x = tensor![3.0].requires_grad();
/// let y = x.square() * &x;
/// let other = tensor![1.0].requires_grad();
/// let grads = Grad::new(&y, [&x, &other]).allow_unused(true).run()?;
/// assert_eq!(grads[0].as_ref().unwrap().value(), tensor![27.0]);
/// assert!(grads[1].is_none());
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[must_use = "gradients are computed when run() is called"]
pub struct Grad {
    roots: SmallVec<[Var; 1]>,
    inputs: SmallVec<[Var; 1]>,
    seeds: Option<Vec<Var>>,
    options: Options,
    allow_unused: bool,
    materialize: bool,
    batched: bool,
}

impl Grad {
    /// The gradients of these roots with respect to these inputs.
    pub fn new(roots: impl Variables, inputs: impl Variables) -> Grad {
        Grad {
            roots: roots.variables(),
            inputs: inputs.variables(),
            seeds: None,
            options: Options::default(),
            allow_unused: false,
            materialize: false,
            batched: false,
        }
    }

    /// The gradient of the root. Without one, the root must hold a single element.
    pub fn seed(self, seed: impl AsInput) -> Grad {
        self.seeds([seed])
    }

    /// The gradient of each root. Without seeds every root must hold a single element.
    pub fn seeds(mut self, seeds: impl IntoIterator<Item: AsInput>) -> Grad {
        self.seeds = Some(variables_of(seeds));
        self
    }

    /// Keeps the saved values, so that another pass can follow.
    pub fn retain_graph(mut self, on: bool) -> Grad {
        self.options.retain_graph = on;
        self
    }

    /// Records the pass itself, so that gradients have gradients. Keeps the graph, too.
    pub fn create_graph(mut self, on: bool) -> Grad {
        self.options.create_graph = on;
        self.options.retain_graph |= on;
        self
    }

    /// Returns `None` for an input that the roots do not depend on, instead of an error.
    pub fn allow_unused(mut self, on: bool) -> Grad {
        self.allow_unused = on;
        self
    }

    /// Returns zeros for an input that the roots do not depend on.
    pub fn materialize_grads(mut self, on: bool) -> Grad {
        self.materialize = on;
        self
    }

    /// Takes seeds with a leading axis, of shape `[n, ..]` for a root of shape `[..]`, and returns gradients with one: `n` passes
    /// in one, which visits every node once. Operations of the library compute all `n` gradients at once, a user's own one
    /// after another. A hook sees one gradient after another.
    ///
    /// ```
    /// use foldback_graph::{Grad, RequiresGrad};
    /// use foldback_tensor::tensor;
    /// let x = tensor![1.0, 2.0, 3.0].requires_grad();
    /// let y = x.square();
    /// let seeds = tensor![[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]];
    /// let grads = Grad::new(&y, &x).seed(seeds).is_grads_batched(true).run()?;
    /// assert_eq!(grads[0].as_ref().unwrap().value(), tensor![[2.0, 0.0, 0.0], [2.0, 4.0, 6.0]]);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    pub fn is_grads_batched(mut self, on: bool) -> Grad {
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
                let like = &self.inputs[index];
                let zeros = Tensor::try_zeros_with(Lead(batch).shape(like.shape()), like.dtype());
                *g = Some(Var::constant(zeros.nowhere()?));
            } else if !self.allow_unused {
                return refuse(GraphFacts::Unused { index });
            }
        }
        Ok(grads)
    }

    /// What [`Grad::run`] would do, without doing it.
    ///
    /// # Errors
    /// As [`Grad::run`], as far as it can be known before.
    ///
    /// ```
    /// use foldback_graph::{Grad, RequiresGrad};
    /// use foldback_tensor::Tensor;
    /// let (x, w) = (Tensor::ones([1024]).requires_grad(), Tensor::ones([1024]).requires_grad());
    /// let y = x.exp().mul(&w)?.sum(..)?;
    /// // `exp` is not on the way to `w`.
    /// assert_eq!(Grad::new(&y, &w).plan()?.steps().len(), 2);
    /// # Ok::<(), foldback_graph::Error>(())
    /// ```
    #[track_caller]
    pub fn plan(self) -> Result<BackwardPlan> {
        let plan =
            self.task().and_then(|(task, roots)| BackwardPlan::of(&task, &roots, self.seeds.as_deref()));
        plan.or_here()
    }

    fn task(&self) -> Result<(GraphTask, Vec<Edge>)> {
        let (roots, inputs) = (root_edges("grad", &self.roots)?, input_edges("grad", &self.inputs)?);
        let mut task = GraphTask::new(self.options);
        task.limit_to(&roots, &inputs, false);
        task.batch = if self.batched { Some(self.count()?) } else { None };
        plant("grad", &mut task, &roots, &self.roots, self.seeds.as_deref())?;
        Ok((task, roots))
    }

    /// How many gradients come along the leading axis of the seeds.
    fn count(&self) -> Result<usize> {
        match self.seeds.as_deref() {
            Some([seed, ..]) if seed.rank() > 0 => Ok(seed.shape().dims()[0]),
            _ => refuse(GraphFacts::SeedsNotBatched),
        }
    }
}

/// What gradients are asked for with respect to: `&x` gives a `Var`, `[&a, &b]` a `[Var; 2]`, and `&parameters` a `Vec<Var>`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a variable nor an array or `Vec` of variables",
    label = "expected `&x`, `[&a, &b]` or `&list`"
)]
pub trait GradInputs: Variables {
    /// One gradient for each.
    type Grads;
    /// As many gradients, in the same order, as the caller wants to have them.
    fn gather(grads: Vec<Var>) -> Self::Grads;
}

impl GradInputs for &Var {
    type Grads = Var;
    fn gather(mut grads: Vec<Var>) -> Var {
        grads.pop().expect("a gradient for each input")
    }
}
macro_rules! several_inputs {
    ($([$($generics:tt)*] $t:ty => $grads:ty, $gather:expr;)*) => {$(
        impl<$($generics)*> GradInputs for $t {
            type Grads = $grads;
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
    let mut grad = Grad::new(root.as_ref(), inputs);
    (grad.seeds, grad.options) = (how.seeds, how.options);
    Ok(I::gather(grad.run()?.into_iter().flatten().collect()))
}
