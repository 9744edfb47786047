//! Layers, losses and initialisers.
//!
//! A model is a struct that derives [`Module`](macro@Module), and a function under [`#[forward]`](macro@forward) that says
//! what it computes:
//!
//! ```
//! use foldback_nn::{Linear, Module, Result, Var, forward, loss};
//! use foldback_tensor::tensor;
//!
//! #[derive(Module)]
//! struct Mlp {
//!     l1: Linear, // [n, 2] -> [n, 8]
//!     l2: Linear, // [n, 8] -> [n, 3]
//! }
//!
//! #[forward]
//! impl Mlp {
//!     fn forward(&self, x: &Var) -> Result<Var> {
//!         let h = self.l1.forward(x)?.relu();
//!         self.l2.forward(&h)
//!     }
//! }
//!
//! let model = Mlp { l1: Linear::new(2, 8), l2: Linear::new(8, 3) };
//! let scores = model.forward(&tensor![[0.5, -1.0], [2.0, 0.0]])?;
//! loss::cross_entropy(&scores, &tensor![0, 2; i64])?.backward()?;
//! let names: Vec<String> = model.named_parameters().into_iter().map(|(name, _)| name).collect();
//! assert_eq!(names, ["l1.weight", "l1.bias", "l2.weight", "l2.bias"]);
//! # Ok::<(), foldback_nn::Error>(())
//! ```
//!
//! Nothing here has a derivative rule of its own: layers and losses are composed of operations of [`Var`].

#![forbid(unsafe_code)]

// The macros' paths, for this crate's own layers.
extern crate self as foldback_nn;

mod buffer;
mod copies;
mod error;
#[cfg(feature = "safetensors")]
mod files;
pub mod init;
mod layer;
mod layer_path;
mod layers;
pub mod loss;
mod module;
mod state;
mod summary;

pub use buffer::Buffer;
pub use copies::Copies;
pub use error::NnFacts;
#[cfg(feature = "safetensors")]
pub use files::{FileFacts, safetensors, write_atomically};
#[cfg(feature = "safetensors")]
#[doc(hidden)]
pub use files::{create_folder, read_bytes, remove_leftovers, write_named};
pub use foldback_tensor::{Error, Facts, Kind, Result};
pub use init::Init;
pub use layer::Layer;
pub use layers::*;
pub use module::{Module, Visitor};
pub use state::{LoadReport, Mismatched};
pub use summary::{LayerSummary, Summary};

/// Makes a module of a struct: finds the parameters in its fields.
///
/// The fields are
/// - parameters: a [`Var`];
/// - buffers: a [`Buffer`];
/// - modules: [`Linear`], another struct that derives this, `Box<dyn Layer>`, ...;
/// - `Vec`, `Option`, arrays and boxes of these, whose elements are named `layers.0`, `layers.1`, ...;
/// - `training: bool`, which [`Module::train`] and [`Module::eval`] switch;
/// - settings: numbers, `bool`, `char`, strings, `DType`, `PhantomData`, and tuples, arrays, `Vec` and `Option` of these are left alone; a field of any other type that holds no
///   parameters is marked `#[module(skip)]`. Copies of a model have clones of its settings.
///
/// It writes the trait [`Module`]: the names of the parameters are the fields', joined by dots. What the model computes is
/// written under [`#[forward]`](macro@forward). Derive `Clone` beside it for clones, which share the weights.
///
/// `#[module(crate = "path")]` on the struct names this crate where it was imported under another name.
///
/// ```
/// use foldback_nn::{Layer, Linear, Module, Result, Var, forward};
/// use foldback_tensor::{DType, tensor};
///
/// #[derive(Clone, Debug)]
/// enum Mode { Plain }
///
/// #[derive(Clone, Module)]
/// struct Repeat<M> {
///     layers: Vec<M>,
///     scale: f64,
///     sizes: (usize, Vec<usize>),
///     dtype: Option<DType>,
///     #[module(skip)]
///     mode: Mode,
/// }
///
/// #[forward]
/// impl<M: Layer> Repeat<M> {
///     fn forward(&self, x: &Var) -> Result<Var> {
///         let y = self.layers.iter().try_fold(x.clone(), |x, layer| layer.forward(&x))?;
///         y.mul(self.scale)
///     }
/// }
///
/// let layers = vec![Linear::new(2, 2), Linear::new(2, 2)];
/// let model = Repeat { layers, scale: 2.0, sizes: (2, vec![2]), dtype: None, mode: Mode::Plain };
/// assert_eq!(model.named_parameters()[2].0, "layers.1.weight");
/// assert!(model.clone().layers[0].weight.is_same(&model.layers[0].weight));
/// assert!(!model.deep_copy().layers[0].weight.is_same(&model.layers[0].weight));
/// assert!(model.forward(&tensor![1.0, 2.0, 3.0]).unwrap_err().to_string().starts_with("layers.0: linear: "));
/// # let _ = model.mode;
/// ```
///
/// A field that holds no parameters is a compile error at the field:
///
/// ```compile_fail
/// #[derive(foldback_nn::Module)]
/// struct Model { values: std::collections::HashSet<usize> }
/// ```
pub use foldback_nn_derive::Module;
/// Makes the function of a module take tensors as well as variables, and its errors name the layer.
///
/// It stands over an `impl` block with a function `forward`, of any number of inputs and any `Result`, or with other methods that
/// take variables:
/// - Each parameter of type `&Var` becomes `impl Value`: a variable or a tensor, by value or by reference; inside the function it
///   is a `&Var` still. Parameters of other types stay as they are.
/// - An error says where in the model it happened: `decoder.0: linear: ...`.
/// - A function of one variable, `fn forward(&self, x: &Var) -> Result<Var>`, makes the struct a [`Layer`], too.
///
/// Other methods in the block take such values, too, and else stay as they are; with a lifetime, `&'_ Var`, a parameter is what it
/// says. `#[forward(crate = "path")]` names this crate where it was imported under
/// another name.
///
/// ```
/// use foldback_nn::{Linear, Module, Result, Var, forward};
/// use foldback_tensor::{Tensor, tensor};
///
/// #[derive(Module)]
/// struct Gated { left: Linear, right: Linear }
///
/// #[forward]
/// impl Gated {
///     fn forward(&self, a: &Var, b: &Var, mask: Option<&Tensor>) -> Result<(Var, Var)> {
///         let gate = self.right.forward(b)?.sigmoid();
///         let gate = if let Some(mask) = mask { gate.mul(mask)? } else { gate };
///         Ok((self.left.forward(a)?.mul(&gate)?, gate))
///     }
/// }
///
/// let model = Gated { left: Linear::new(3, 2), right: Linear::new(4, 2) };
/// let (y, _) = model.forward(&Tensor::ones([1, 3]), &Tensor::ones([1, 4]), Some(&tensor![0.0, 1.0]))?;
/// assert_eq!(y.shape(), [1, 2]);
/// let e = model.forward(&y, &Tensor::ones([1, 4]), None).unwrap_err();
/// assert!(e.to_string().starts_with("left: linear: expected an input of shape [.., 3], found [1, 2]: "));
/// # Ok::<(), foldback_nn::Error>(())
/// ```
///
/// A struct without it is no layer:
///
/// ```compile_fail,E0277
/// #[derive(foldback_nn::Module)]
/// struct Model;
/// foldback_nn::sequential![Model];
/// ```
///
/// And without `#[derive(Module)]` there is nothing to find layers in:
///
/// ```compile_fail,E0277
/// struct Model;
/// #[foldback_nn::forward]
/// impl Model {
///     fn forward(&self, a: &foldback_nn::Var, b: &foldback_nn::Var) -> foldback_nn::Result<foldback_nn::Var> {
///         Ok(a.add(b)?)
///     }
/// }
/// ```
pub use foldback_nn_derive::forward;

// What the macros write.
pub use foldback_graph::{Value, Var};
#[doc(hidden)]
pub use foldback_nn_derive::{FacadeModule, facade_forward};
#[doc(hidden)]
pub use layer_path::in_layer;
#[doc(hidden)]
pub use summary::{HasShapes, NoShapes, Returned, enter, leave};
