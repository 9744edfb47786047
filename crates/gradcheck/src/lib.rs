//! Numerical checks of gradients, for the derivative table and for operations of one's own.
//!
//! [`gradcheck`] compares the gradients that a backward pass computes with differences of the function's values;
//! [`gradgradcheck`] does the same for the gradients of the gradients. [`Check`] has the options, and says in its
//! documentation what the tolerance is made of.
//!
//! ```
//! use foldback_gradcheck::{gradcheck, gradgradcheck};
//! use foldback_tensor::tensor;
//!
//! let (x, w) = (tensor![[0.3], [-1.2]; f64], tensor![0.5, 2.0, -0.7; f64]);
//! gradcheck(|[x, w]| (x * w).tanh(), [&x, &w])?;
//! gradgradcheck(|[x, w]| (x * w).tanh(), [&x, &w])?;
//! # Ok::<(), foldback_gradcheck::Error>(())
//! ```
//!
//! An operation of one's own is checked like any other, here one whose backward forgets a factor:
//!
//! ```
//! use foldback_gradcheck::{GradcheckFacts, gradcheck};
//! use foldback_graph::{Function, FunctionContext, Result, Var};
//! use foldback_tensor::{Tensor, tensor};
//!
//! struct Square;
//! impl Function for Square {
//!     fn name(&self) -> &'static str { "square" }
//!     fn forward(&self, x: &[&Tensor]) -> Result<Vec<Tensor>> { Ok(vec![x[0].square()]) }
//!     fn saves_inputs(&self) -> bool { true }
//!     fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
//!         Ok(vec![Some(ctx.grad(0) * ctx.input(0))])
//!     }
//! }
//! let wrong = gradcheck(|x| Square.call([x]), &tensor![1.0, 2.0; f64]);
//! let e = wrong.unwrap_err();
//! assert!(e.to_string().contains("it is 1/2 of what it should be"));
//! assert!(matches!(e.facts(), Some(GradcheckFacts::Gradient { .. })));
//! ```
//!
//! What is wrong is said in words ([`Diagnosis`]), with the elements ([`Region`]) and the recorded operation
//! ([`WrongOperation`]). For gradients that a test states there is [`assert_grads!`].

#![forbid(unsafe_code)]

mod bisect;
mod check;
mod compare;
mod diagnosis;
mod doors;
mod error;
mod evidence;
mod expected;
mod explain;
mod hypotheses;
mod modes;
mod random;
mod region;
mod seeds;
mod snapshot;
#[cfg(feature = "proptest")]
pub mod strategies;
mod target;
pub mod testing;

pub use check::Check;
pub use diagnosis::{Diagnosis, Explanation, Region, Size, WrongOperation};
pub use doors::{gradcheck, gradgradcheck};
pub use error::{Argument, GradcheckFacts, Mode, Order, Place};
pub use foldback_tensor::{Error, Facts, Kind, Result};
