//! Reverse-mode automatic differentiation on the CPU, with PyTorch's broadcasting and autograd semantics.
//!
//! The name is the central act: a gradient that was broadcast forward is *folded back* to the shape its input had.
//!
//! Names are PyTorch's; `docs/src/from-pytorch.md` in the repository lists them all, with ours and what differs.
//!
//! ```
//! use foldback::prelude::*;
//!
//! let a = tensor![1.0, 2.0, 3.0].requires_grad(); // [3]
//! let b = tensor![10.0].requires_grad();          // [1], broadcast to [3]
//! (&a + &b).sum(..)?.backward()?;
//! assert_eq!(a.grad(), Some(tensor![1.0, 1.0, 1.0]));
//! assert_eq!(b.grad(), Some(tensor![3.0]));       // folded back to [1]
//! # Ok::<(), foldback::Error>(())
//! ```
//!
//! What programs use most is in the [`prelude`], and the same names stand here: `use foldback::{Tensor, Var};`. The rest is in
//! the modules of the crates.
//!
//! # Values and variables
//!
//! A [`Tensor`] is a value: numbers of one [`DType`] in a shape. `tensor!` writes one
//! out (`f32` unless said otherwise), and operations are methods; those that can fail return a `Result`.
//!
//! ```
//! use foldback::prelude::*;
//! let x = tensor![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];  // [2, 3], f32
//! let means = x.mean(keep(1))?;                       // [2, 1]
//! assert_eq!(&x - &means, tensor![[-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0]]);
//! assert!(x.add(&tensor![1.0, 2.0; f64]).is_err());   // [2, 3] + [2]
//! # Ok::<(), foldback::Error>(())
//! ```
//!
//! A [`Var`] is a value in a graph. `requires_grad()` makes a *leaf* of a tensor; the same operations on it
//! are recorded, and `backward()` on a single number adds up gradients in the leaves. A gradient always has the shape
//! and type of its variable. Nothing is recorded inside `no_grad(|| ...)`.
//!
//! ```
//! use foldback::prelude::*;
//! let x = tensor![[0.5, -1.0], [2.0, 0.0]].requires_grad();
//! let y = x.tanh().matmul(&x.t())?.sum(..)?;
//! y.backward()?;
//! assert_eq!(x.grad().unwrap().dims(), [2, 2]);
//! # Ok::<(), foldback::Error>(())
//! ```
//!
//! Gradients of gradients, gradients without touching `.grad`, seeds and hooks are in [`graph`].
//!
//! # Models
//!
//! A model is a struct that derives `Module`, and a function under `#[forward]` that says what it computes. It takes tensors
//! as well as variables. An optimiser holds handles on its parameters.
//!
//! ```
//! use foldback::prelude::*;
//!
//! #[derive(Module)]
//! struct Xor {
//!     hidden: Linear, // [n, 2] -> [n, 8]
//!     out: Linear,    // [n, 8] -> [n, 1]
//! }
//!
//! #[forward]
//! impl Xor {
//!     fn forward(&self, x: &Var) -> Result<Var> {
//!         let h = self.hidden.forward(x)?.tanh();
//!         self.out.forward(&h)
//!     }
//! }
//!
//! manual_seed(0);
//! let x = tensor![[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]];
//! let y = tensor![[0.0], [1.0], [1.0], [0.0]];
//! let model = Xor { hidden: Linear::new(2, 8), out: Linear::new(8, 1) };
//! let adam = Adam::new(model.parameters(), 0.05);
//! for _ in 0..200 {
//!     adam.zero_grad();
//!     loss::binary_cross_entropy_with_logits(model.forward(&x)?, &y)?.backward()?;
//!     adam.step()?;
//! }
//! let answers = no_grad(|| model.forward(&x))?.sigmoid().value();
//! assert_close!(answers, y, atol = 0.2);
//! # Ok::<(), foldback::Error>(())
//! ```
//!
//! Layers and initialisers are in [`nn`], losses in [`nn::loss`], optimisers in [`optim`]. Losses refuse shapes that
//! differ, and an error inside a layer says where the layer stands:
//!
//! ```
//! # use foldback::prelude::*;
//! let model = sequential![Linear::new(2, 8), ReLU, Linear::new(4, 1)];
//! let e = model.forward(&tensor![[1.0, 2.0]]).unwrap_err();
//! assert_eq!(e.path(), "2");
//! assert!(e.to_string().starts_with("2: linear: expected an input of shape [.., 4], found [1, 8]: "));
//! ```
//!
//! # Checking gradients
//!
//! [`gradcheck`](fn@gradcheck::gradcheck) compares gradients with differences of the function's values, for operations, layers and losses alike:
//!
//! ```
//! use foldback::gradcheck::gradcheck;
//! use foldback::prelude::*;
//! let (x, target) = (tensor![[0.5, -1.0, 2.0]; f64], tensor![1; i64]);
//! gradcheck(|x| loss::cross_entropy(x, &target), &x)?;
//! # Ok::<(), foldback::Error>(())
//! ```
//!
//! # Errors
//!
//! There is one [`Error`], and one [`Result`]. An error says which operation was refused, what was found, what to do, and
//! on which line of the program; [`Error::kind`] and [`Error::facts`] are for programs that look at it. Operators
//! (`+ - * /`) and methods of empty parentheses (`relu()`) panic with the same text, at the caller's line; `try_relu()` does not.
//!
//! ```
//! use foldback::prelude::*;
//! fn run() -> Result<f32> {
//!     let x = tensor![1.0, 2.0].requires_grad();
//!     let sgd = SGD::new([&x], 0.1);
//!     loss::mse_loss(&x, tensor![0.0, 0.0])?.backward()?;
//!     sgd.step()?;
//!     let rate: f32 = "0.1".parse().map_err(Error::other)?;
//!     Ok(x.value().reshape([3])?.item_as::<f32>()? * rate)
//! }
//! let e = run().unwrap_err();
//! assert_eq!(e.kind(), foldback::Kind::Shape);
//! assert!(e.to_string().starts_with("reshape: shape [3] is invalid for 2 elements: "));
//! ```
//!
//! # Speed
//!
//! Numeric code without optimisation is slow. In a debug build, optimise the dependencies:
//!
//! ```toml
//! [profile.dev.package."*"]
//! opt-level = 3
//! ```

#![forbid(unsafe_code)]

// The macros' paths, for this crate's own tests.
#[cfg(test)]
extern crate self as foldback;

pub mod prelude;

#[doc(no_inline)]
pub use prelude::*;

// Not in the prelude: a `Vec` is a dataset, and `get` of it would no longer be the slice's there.
pub use data::Dataset;

pub use foldback_gradcheck::assert_grads;
#[cfg(feature = "proptest")]
pub use foldback_gradcheck::check_broadcast_op;
pub use foldback_graph::fuse;
pub use foldback_tensor::{Error, Facts, Kind, Result, assert_close, ndarray, tensor};

// Modules, and no renamed crates: a compiler that suggests an import says `foldback::train::Log` then.

/// Datasets, loaders of batches, samplers, readers of files.
pub mod data {
    pub use foldback_data::*;
}

/// Numerical checks of gradients.
pub mod gradcheck {
    pub use foldback_gradcheck::*;
}

/// Variables, the derivative table, the backward engine.
pub mod graph {
    pub use foldback_graph::*;
}

/// Optimisers, schedules, clipping of gradients.
pub mod optim {
    pub use foldback_optim::*;
}

/// Strided values, their operations, errors.
pub mod tensor {
    pub use foldback_tensor::*;
}

/// Checkpoints of runs, averages, training loops, metrics, logs.
pub mod train {
    pub use foldback_train::*;
}

/// Layers, losses and initialisers.
pub mod nn {
    /// Makes a module of a struct: its parameters, buffers and modules are found in its fields, and named as they are.
    ///
    /// Fields may be a `Var` (a parameter), a `Buffer`, a module, a `Vec`, `Option`, array or `Box` of these,
    /// `training: bool`, and settings (numbers, `bool`, `char`, strings, `DType`, and tuples, arrays, `Vec` and `Option` of these); any other field that holds no parameters is marked
    /// `#[module(skip)]`. Copies of a model have clones of its settings. A crate that is imported under another name says so:
    /// `#[module(crate = "path")]`.
    ///
    /// ```
    /// use foldback::prelude::*;
    ///
    /// #[derive(Clone, Module)]
    /// struct Net { layers: Vec<Linear>, scale: Var, steps: usize }
    ///
    /// let net = Net { layers: vec![Linear::new(3, 2)], scale: tensor![1.0].requires_grad(), steps: 4 };
    /// let names: Vec<String> = net.named_parameters().into_iter().map(|p| p.0).collect();
    /// assert_eq!(names, ["layers.0.weight", "layers.0.bias", "scale"]);
    /// assert_eq!(net.deep_copy().steps, 4);
    /// ```
    pub use foldback_nn::FacadeModule as Module;
    /// Makes the function of a module take tensors as well as variables, and its errors name the layer.
    ///
    /// It stands over an `impl` block with a function `forward`, of any number of inputs and any `Result`. Each parameter of
    /// type `&Var` becomes `impl Value`: a variable or a tensor, by value or by reference; so do those of other methods of the
    /// block. Parameters of other types (`Option<&Var>` too) stay as they are. A function of one variable makes the struct a `Layer`.
    /// A crate that is imported under another name says so: `#[forward(crate = "path")]`.
    ///
    /// ```
    /// use foldback::prelude::*;
    ///
    /// #[derive(Module)]
    /// struct Gated { left: Linear, right: Linear }
    ///
    /// #[forward]
    /// impl Gated {
    ///     fn forward(&self, a: &Var, b: &Var) -> Result<Var> {
    ///         self.left.forward(a)?.mul(self.right.forward(b)?.sigmoid())
    ///     }
    /// }
    ///
    /// let model = Gated { left: Linear::new(3, 2), right: Linear::new(4, 2) };
    /// let y = model.forward(&Tensor::ones([1, 3]), &Tensor::ones([1, 4]))?;
    /// let e = model.forward(&y, &Tensor::ones([1, 4])).unwrap_err();
    /// assert!(e.to_string().starts_with("left: linear: "));
    /// # Ok::<(), Error>(())
    /// ```
    pub use foldback_nn::facade_forward as forward;
    pub use foldback_nn::*;
}
