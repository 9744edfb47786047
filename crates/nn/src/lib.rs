//! Layers, losses and initialisers.
//!
//! A model is a struct that derives [`Module`](macro@Module), and a [`Forward`] that says what it computes:
//!
//! ```
//! use foldback_nn::{Forward, Linear, Module, Parameters, Result, Var, loss};
//! use foldback_tensor::tensor;
//!
//! #[derive(Module)]
//! struct Mlp {
//!     l1: Linear, // [n, 2] -> [n, 8]
//!     l2: Linear, // [n, 8] -> [n, 3]
//! }
//!
//! impl Forward for Mlp {
//!     fn forward(&self, x: &Var) -> Result<Var> {
//!         let h = self.l1.forward(x)?.relu()?;
//!         self.l2.forward(&h)
//!     }
//! }
//!
//! let model = Mlp { l1: Linear::new(2, 8), l2: Linear::new(8, 3) };
//! let scores = model.forward(&tensor![[0.5, -1.0], [2.0, 0.0]].into())?;
//! loss::cross_entropy(&scores, &tensor![0, 2; i64])?.backward()?;
//! let names: Vec<String> = model.named_parameters().into_iter().map(|(name, _)| name).collect();
//! assert_eq!(names, ["l1.weight", "l1.bias", "l2.weight", "l2.bias"]);
//! # Ok::<(), foldback_nn::Error>(())
//! ```
//!
//! Nothing here has a derivative rule of its own: layers and losses are composed of operations of [`Var`].

#![forbid(unsafe_code)]

// The derive's paths, for this crate's own tests.
#[cfg(test)]
extern crate self as foldback_nn;

mod activation;
mod dropout;
mod error;
pub mod init;
mod layer_path;
mod linear;
pub mod loss;
mod module;
mod parameters;
mod sequential;

pub use activation::{GELU, ReLU, SiLU, Sigmoid, Softplus, Tanh};
pub use dropout::Dropout;
pub use error::NnFacts;
pub use foldback_tensor::{Error, Facts, Kind, Result};
pub use init::Init;
pub use linear::{Linear, LinearBuilder, linear};
pub use module::{Forward, Module};
pub use parameters::{Parameters, Visitor};
pub use sequential::Sequential;

/// Makes a module of a struct: with it a model is its fields and a [`Forward`].
///
/// The fields are
/// - parameters: a [`Var`];
/// - modules: [`Linear`], another struct that derives this, `Box<dyn Module>`, ...;
/// - `Vec`, `Option`, arrays and boxes of these, whose elements are named `layers.0`, `layers.1`, ...;
/// - settings: numbers, `bool`, `char`, strings and `PhantomData` are left alone; a field of any other type that holds no
///   parameters is marked `#[module(skip)]`.
///
/// It writes [`Parameters`] (the names of the parameters are the fields', joined by dots), [`Module`], and a method
/// `forward` that the struct's own [`Forward`] is called through, so that an error names its layer. A model whose
/// function takes something else than one variable derives [`Parameters`](macro@Parameters) only.
///
/// `#[module(crate = "path")]` on the struct names this crate where it was imported under another name.
///
/// ```
/// use foldback_nn::{Forward, Module, Parameters, Result, Var};
///
/// #[derive(Debug)]
/// enum Mode { Plain }
///
/// #[derive(Module)]
/// struct Repeat<M> {
///     layers: Vec<M>,
///     scale: f64,
///     #[module(skip)]
///     mode: Mode,
/// }
///
/// impl<M: Module> Forward for Repeat<M> {
///     fn forward(&self, x: &Var) -> Result<Var> {
///         let y = self.layers.iter().try_fold(x.clone(), |x, layer| layer.forward(&x))?;
///         y.mul(self.scale)
///     }
/// }
///
/// let layers = vec![foldback_nn::Linear::new(2, 2), foldback_nn::Linear::new(2, 2)];
/// let model = Repeat { layers, scale: 2.0, mode: Mode::Plain };
/// assert_eq!(model.named_parameters()[2].0, "layers.1.weight");
/// let x = foldback_tensor::tensor![1.0, 2.0, 3.0].into();
/// assert!(model.forward(&x).unwrap_err().to_string().starts_with("layers.0: linear: "));
/// # let _ = model.mode;
/// ```
///
/// A field that holds no parameters is a compile error at the field:
///
/// ```compile_fail
/// #[derive(foldback_nn::Parameters)]
/// struct Model { values: std::collections::HashSet<usize> }
/// ```
pub use foldback_nn_derive::Module;
/// Finds the parameters of a struct, for models whose forward function takes something else than one variable.
///
/// As [`Module`](macro@Module), but without [`Module`] and `forward`.
///
/// ```
/// use foldback_nn::{Linear, Parameters, Result, Var};
///
/// #[derive(Parameters)]
/// struct Bilinear { left: Linear, right: Linear }
///
/// impl Bilinear {
///     fn forward(&self, a: &Var, b: &Var) -> Result<Var> {
///         use foldback_nn::Module;
///         self.left.forward(a)?.mul(&self.right.forward(b)?)
///     }
/// }
///
/// let model = Bilinear { left: Linear::new(3, 2), right: Linear::new(4, 2) };
/// assert_eq!(model.num_parameters(), 3 * 2 + 2 + 4 * 2 + 2);
/// # let x = foldback_tensor::Tensor::zeros_with([1, 3], foldback_tensor::DType::F32).into();
/// # let y = foldback_tensor::Tensor::zeros_with([1, 4], foldback_tensor::DType::F32).into();
/// # model.forward(&x, &y)?;
/// # Ok::<(), foldback_nn::Error>(())
/// ```
pub use foldback_nn_derive::Parameters;

// What the derives write.
pub use foldback_graph::Var;
#[doc(hidden)]
pub use foldback_nn_derive::{FacadeModule, FacadeParameters};
#[doc(hidden)]
pub use layer_path::in_layer;
