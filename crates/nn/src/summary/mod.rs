//! A summary of a model: what each layer gives, holds, computes and keeps.

mod flops;
mod table;
mod trace;

use std::collections::HashSet;

use foldback_graph::Var;
use foldback_tensor::{Generator, Shape, get_rng_state, set_rng_state};

use crate::error::Result;
use crate::layer_path::LayerId;
use crate::module::{Module, Seen, Visitor};
use flops::flops;
use trace::{Call, Trace, trace};

#[doc(hidden)]
pub use trace::{HasShapes, NoShapes, Returned, enter, leave};

/// What the layers of a model do in one call: a line for each, and the sums; a table by `{}`, in which a column counts what is frozen
/// if anything is.
///
/// [`Layer::summary`](crate::Layer::summary) makes one for a model of one variable, [`Summary::of`] for any.
///
/// ```
/// use foldback_nn::{Layer, Linear, ReLU, sequential};
/// use foldback_tensor::Tensor;
/// let model = sequential![Linear::new(64, 32), ReLU, Linear::new(32, 10)];
/// let summary = model.summary(&Tensor::zeros([5, 64]))?;
/// println!("{summary}");
/// assert_eq!((summary.parameters, summary.flops), (2410, 2 * 5 * (64 * 32 + 32 * 10)));
/// let last = &summary.layers[3];
/// assert_eq!((last.path.as_str(), last.layer.as_str()), ("2", "Linear"));
/// assert_eq!(last.outputs, [[5, 10]]);
/// // The inputs of both products; what a ReLU keeps is the second one of these.
/// assert_eq!(summary.saved_bytes, 4 * 5 * (64 + 32));
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// the model itself, and all layers in it, in the order of the fields
    pub layers: Vec<LayerSummary>,
    /// how many numbers the parameters hold
    pub parameters: usize,
    /// how many of them require gradients
    pub trainable: usize,
    /// floating-point operations of a call: two for each multiplication in the products of matrices, convolutions and attention, as
    /// PyTorch counts them; nothing for what goes element by element
    pub flops: u64,
    /// bytes that the call keeps for its backward pass, beside the values of parameters and buffers: each storage once
    pub saved_bytes: usize,
}

/// What one layer does, those inside it included.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LayerSummary {
    /// where it stands; empty for the model itself
    pub path: String,
    /// the name of its type
    pub layer: String,
    /// how often it was called; a layer without `#[forward]` is not seen
    pub calls: usize,
    /// the shapes of what it returned last
    pub outputs: Vec<Shape>,
    /// how many numbers its parameters hold
    pub parameters: usize,
    /// how many of them require gradients; the others are frozen
    pub trainable: usize,
    /// see [`Summary::flops`]; of all calls
    pub flops: u64,
    /// see [`Summary::saved_bytes`]; a storage counts where it was kept first
    pub saved_bytes: usize,
}

impl Summary {
    /// The summary of what a function does with a model, for models of several inputs.
    ///
    /// The function runs twice, with a [deep copy](Module::deep_copy) of the model: as it is, for shapes and bytes; and with
    /// gradients everywhere, as products of what requires none leave no trace. This thread's generator is put back
    /// to where it was. What runs without recording is not counted: inside [`no_grad`](foldback_graph::no_grad) or a
    /// [`checkpoint`](foldback_graph::checkpoint), or in other threads.
    ///
    /// # Errors
    /// What the function returns.
    ///
    /// ```
    /// use foldback_nn::{Linear, Module, Result, Summary, Var, forward};
    /// use foldback_tensor::Tensor;
    ///
    /// #[derive(Module)]
    /// struct Scorer { query: Linear, key: Linear }
    ///
    /// #[forward]
    /// impl Scorer {
    ///     fn forward(&self, q: &Var, k: &Var) -> Result<Var> {
    ///         self.query.forward(q)?.matmul(self.key.forward(k)?.t())
    ///     }
    /// }
    ///
    /// let model = Scorer { query: Linear::new(4, 8), key: Linear::new(3, 8) };
    /// let (q, k) = (Tensor::ones([2, 4]), Tensor::ones([5, 3]));
    /// let summary = Summary::of(&model, |model| model.forward(&q, &k))?;
    /// assert_eq!(summary.layers[0].outputs, [[2, 5]]);
    /// assert_eq!(summary.flops, 2 * (2 * 4 * 8 + 5 * 3 * 8 + 2 * 5 * 8));
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    #[track_caller]
    pub fn of<M: Module, V>(model: &M, run: impl Fn(&M) -> Result<V>) -> Result<Summary> {
        Summary::of_two(model, &run, &run)
    }

    /// With another function for the second run.
    #[track_caller]
    pub(crate) fn of_two<M: Module, V>(
        model: &M,
        run: impl Fn(&M) -> Result<V>,
        tracked: impl Fn(&M) -> Result<V>,
    ) -> Result<Summary> {
        let _generator = GeneratorKept(get_rng_state());
        let copy = model.deep_copy();
        let kept = trace(|| run(&copy))?;
        let mut places = Places::of(&copy);
        let bytes = saved_bytes(&kept, &copy);
        let calls = places.calls(&kept.calls);
        for (call, place) in kept.calls.iter().zip(&calls) {
            let Some(place) = *place else { continue };
            let line = &mut places.layers[place].line;
            line.calls += 1;
            line.outputs.clone_from(&call.outputs);
        }
        places.add(&kept.calls, &calls, &bytes, |line, bytes| line.saved_bytes += bytes);
        drop(kept);

        let mut free = model.deep_copy();
        free.requires_grad_(true)?;
        let all = trace(|| tracked(&free))?;
        let counts: Vec<u64> = all.operations.iter().map(flops).collect();
        let freely = Places::of(&free).calls(&all.calls);
        places.add(&all.calls, &freely, &counts, |line, flops| line.flops += flops);
        let parameters = copy.parameters();
        let trainable = parameters.iter().filter(|p| p.requires_grad());
        Ok(Summary {
            parameters: copy.num_parameters(),
            trainable: trainable.map(Var::numel).sum(),
            flops: counts.iter().sum(),
            saved_bytes: bytes.iter().sum(),
            layers: places.layers.into_iter().map(|layer| layer.line).collect(),
        })
    }
}

/// Puts this thread's generator back to where it was.
struct GeneratorKept(Generator);

impl Drop for GeneratorKept {
    fn drop(&mut self) {
        set_rng_state(self.0.clone());
    }
}

/// Per operation, the bytes of the storages that it is the first to keep, but for those of parameters and buffers.
fn saved_bytes(trace: &Trace, model: &impl Module) -> Vec<usize> {
    let own = model.state_dict();
    let parameters = model.parameters();
    let values = parameters.iter().map(Var::value).chain(own.into_iter().map(|(_, value)| value));
    let mut seen: HashSet<usize> = values.filter_map(|t| Some(t.holding()?.storage)).collect();
    let kept = trace.operations.iter().map(|operation| {
        let new = operation.saved.iter().filter(|held| seen.insert(held.storage));
        new.map(|held| held.bytes).sum()
    });
    kept.collect()
}

/// The layers of a model where they lie.
struct Places {
    layers: Vec<Place>,
}

struct Place {
    id: LayerId,
    line: LayerSummary,
}

impl Places {
    fn of(model: &impl Module) -> Places {
        let (mut layers, mut parameters): (Vec<Place>, Vec<(String, Var)>) = (Vec::new(), Vec::new());
        model.visit(&mut Visitor::new(&mut |path, seen| match seen {
            Seen::Layer(id) => {
                let (path, layer) = (path.to_owned(), table::short(id.1));
                let line = LayerSummary {
                    path,
                    layer,
                    calls: 0,
                    outputs: Vec::new(),
                    parameters: 0,
                    trainable: 0,
                    flops: 0,
                    saved_bytes: 0,
                };
                layers.push(Place { id, line });
            }
            // A constant is no parameter, see `Module::named_parameters`.
            Seen::Parameter(var) if var.is_same(var) => parameters.push((path.to_owned(), var.clone())),
            _ => {}
        }));
        for Place { line, .. } in &mut layers {
            let mut own: Vec<&Var> = Vec::new();
            for (path, var) in &parameters {
                if is_below(path, &line.path) && !own.iter().any(|other| other.is_same(var)) {
                    own.push(var);
                }
            }
            line.parameters = own.iter().map(|var| var.numel()).sum();
            line.trainable = own.iter().filter(|var| var.requires_grad()).map(|var| var.numel()).sum();
        }
        Places { layers }
    }

    /// Which layer each call was of. Layers without fields lie at one address: of several that may be meant, it is
    /// the one that was called least so far, the first of these.
    fn calls(&self, calls: &[Call]) -> Vec<Option<usize>> {
        let mut found: Vec<Option<usize>> = Vec::new();
        let mut counts = vec![0; self.layers.len()];
        for call in calls {
            let outer = call.inside.and_then(|outer| found[outer]);
            let above = outer.map_or("", |outer| &self.layers[outer].line.path);
            let meant = |place: &usize| {
                let Place { id, line } = &self.layers[*place];
                *id == call.layer && is_below(&line.path, above)
            };
            let place = (0..self.layers.len()).filter(meant).min_by_key(|&place| counts[place]);
            if let Some(place) = place {
                counts[place] += 1;
            }
            found.push(place);
        }
        found
    }

    /// Adds a number for each operation to the layers it was made in; a layer that calls itself counts it once.
    fn add<N: Copy + std::iter::Sum>(
        &mut self,
        calls: &[Call],
        places: &[Option<usize>],
        numbers: &[N],
        mut add: impl FnMut(&mut LayerSummary, N),
    ) {
        for (call, place) in calls.iter().zip(places) {
            let Some(place) = *place else { continue };
            let outer = std::iter::successors(call.inside, |&outer| calls[outer].inside);
            if outer.into_iter().all(|outer| places[outer] != Some(place)) {
                let (first, end) = call.operations;
                add(&mut self.layers[place].line, numbers[first..end].iter().copied().sum());
            }
        }
    }
}

/// Whether a path is this one, or of something inside it.
fn is_below(path: &str, above: &str) -> bool {
    above.is_empty() || path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests;
