//! `Module`: what holds parameters, and what one can do with all of them.

#[cfg(feature = "safetensors")]
use std::path::Path;

use foldback_graph::{AsInput, Var};
use foldback_tensor::{DType, Here, StateDict, refuse};

use crate::buffer::Buffer;
use crate::copies::Copies;
use crate::error::{NnFacts, Result};
use crate::state::{self, LoadReport};

/// Something that holds parameters: a variable, a layer, a model, or a collection of these.
///
/// Derived for the fields of a struct, see [`derive(Module)`](macro@crate::Module). What a module computes is a method
/// `forward` beside it, see [`forward`](macro@crate::forward). A `clone()` shares the weights of a module,
/// [`deep_copy`](Module::deep_copy) has its own.
///
/// ```
/// use foldback_nn::{Linear, Module};
/// let layer = Linear::new(3, 2);
/// assert_eq!(layer.num_parameters(), 8);
/// assert_eq!(layer.named_parameters()[1].0, "bias");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` holds no parameters",
    label = "neither a `Var`, nor a module, nor a `Vec`, `Option`, array or `Box` of these",
    note = "derive `Module` for a struct of your own, and make one, or a `Vec`, of a tuple or a map of modules; make a parameter of a `Tensor` with `requires_grad()`, or keep it beside them with `Buffer::new`; mark a field that holds no parameters with `#[module(skip)]`"
)]
pub trait Module {
    /// Shows every part to the visitor, in the order of the fields.
    fn visit(&self, visitor: &mut Visitor<'_>);

    /// Switches layers that differ between training and use, such as [`Dropout`](crate::Dropout).
    fn set_training(&mut self, training: bool);

    /// The same module with other parts, as `copies` says: what [`Module::deep_copy`] is made of.
    fn copy_parts(&self, copies: &mut Copies) -> Self
    where
        Self: Sized;

    /// A copy with weights of its own; `clone()` shares them.
    ///
    /// Its parameters are leaves with the same values, which require gradients where these do and have none yet; a variable
    /// that the program has computed from others is not a leaf, and stays what it is. A variable that stands in several places is
    /// one variable in the copy, too. Fields that hold no parameters are cloned.
    ///
    /// ```
    /// use foldback_nn::{Linear, Module};
    /// let layer = Linear::new(3, 2);
    /// assert!(layer.clone().weight.is_same(&layer.weight));
    /// let copy = layer.deep_copy();
    /// assert!(!copy.weight.is_same(&layer.weight));
    /// assert_eq!(copy.weight.value(), layer.weight.value());
    /// ```
    #[must_use]
    fn deep_copy(&self) -> Self
    where
        Self: Sized,
    {
        self.copy_parts(&mut Copies::deep())
    }

    /// A copy with weights of its own, in `f64`: what a gradient check takes. [`Module::to`] has the details.
    ///
    /// ```
    /// use foldback_nn::{Linear, Module};
    /// use foldback_tensor::DType;
    /// let model = Linear::new(3, 2).double();
    /// assert_eq!(model.weight.dtype(), DType::F64);
    /// ```
    #[must_use = "the module stays as it is: write `let model = model.double()`"]
    fn double(&self) -> Self
    where
        Self: Sized,
    {
        self.copy_parts(&mut Copies::converted(DType::F64))
    }

    /// A copy with weights of its own, in `f32`. [`Module::to`] has the details.
    #[must_use = "the module stays as it is: write `let model = model.float()`"]
    fn float(&self) -> Self
    where
        Self: Sized,
    {
        self.copy_parts(&mut Copies::converted(DType::F32))
    }

    /// A [`Module::deep_copy`] whose parameters and buffers are of this floating-point type. Those that hold integers or truth
    /// values keep theirs. An optimiser is made for the copy, as its parameters are others.
    ///
    /// # Errors
    /// `DType` for a type that is not one of floating-point numbers.
    ///
    /// ```
    /// use foldback_nn::{BatchNorm1d, Linear, Module, sequential};
    /// use foldback_tensor::DType;
    /// let model = sequential![Linear::new(3, 2), BatchNorm1d::new(2)];
    /// let precise = model.to(DType::F64)?;
    /// let types: Vec<DType> = precise.state_dict().iter().map(|(_, t)| t.dtype()).collect();
    /// assert_eq!(types[..6], [DType::F64; 6]);
    /// assert_eq!(types[6], DType::I64); // num_batches_tracked
    /// assert!(model.to(DType::I64).is_err());
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    #[track_caller]
    fn to(&self, dtype: DType) -> Result<Self>
    where
        Self: Sized,
    {
        if !dtype.is_float() {
            let (op, name, expected) = ("to", "the type of a module", "f32 or f64");
            return refuse(NnFacts::DType { op, name, found: dtype, expected }).here();
        }
        Ok(self.copy_parts(&mut Copies::converted(dtype)))
    }

    /// The same module with other variables for the parameters of these names, which may be results of operations: what PyTorch
    /// calls `functional_call`.
    ///
    /// Gradients flow through them to what they were made of; a tensor becomes a frozen parameter. A name may be that of a buffer; the
    /// module has one of its own then, with this value. Parameters and buffers that are not named are shared with the old module, which
    /// stays as it is; layers' own generators are copied. A parameter with several names is replaced at each place, by the last of them.
    ///
    /// # Errors
    /// `StateDict`, with the report, for names that the module does not have, and for shapes and types that differ: parameters are
    /// floating-point numbers of either type.
    ///
    /// ```
    /// use foldback_graph::{Backward, grad_with};
    /// use foldback_nn::{Linear, Module};
    /// use foldback_tensor::tensor;
    /// // One step of gradient descent that can be differentiated, as meta-learning does.
    /// let (model, x) = (Linear::new(1, 1), tensor![[2.0]]);
    /// let inner = model.forward(&x)?.square().sum(..)?;
    /// let slopes = grad_with(&inner, &model.parameters(), Backward::new().create_graph(true))?;
    /// let stepped = model.named_parameters().into_iter().zip(&slopes).map(|((name, p), g)| (name, p - g * 0.1));
    /// let fast = model.with_parameters(stepped)?;
    /// fast.forward(&x)?.square().sum(..)?.backward()?;
    /// assert!(model.weight.grad().is_some());
    /// // With the weights of another model: a state dict is a list of names and tensors.
    /// let other = Linear::new(1, 1);
    /// assert_eq!(model.with_parameters(other.state_dict())?.forward(&x)?.value(), other.forward(&x)?.value());
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    #[track_caller]
    fn with_parameters<N: AsRef<str>, V: AsInput>(
        &self,
        parameters: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self>
    where
        Self: Sized,
    {
        let given =
            parameters.into_iter().map(|(name, var)| (name.as_ref().to_owned(), var.to_var())).collect();
        Ok(self.copy_parts(&mut Copies::given(state::pairs(&Through(self), given).here()?)))
    }

    /// The parameters with their paths, such as `l1.weight` and `layers.0.bias`, in the order of the fields.
    ///
    /// A variable that stands in several places is listed once, at the first.
    fn named_parameters(&self) -> Vec<(String, Var)> {
        self.named_parameters_matching("*")
    }

    /// Those of [`Module::named_parameters`] whose names match a pattern, in which `*` stands for any run of characters,
    /// dots too ([`name_matches`](foldback_tensor::name_matches)).
    ///
    /// A variable that stands in several places is listed at the first of its names that matches. Where none matches the list is
    /// empty, which an optimiser refuses for all its parameters as for a group of them; [`Module::requires_grad_matching`] refuses
    /// such a pattern itself.
    ///
    /// ```
    /// use foldback_nn::{Linear, Module, sequential};
    /// let model = sequential![Linear::new(3, 2), Linear::new(2, 1)];
    /// let biases = model.named_parameters_matching("*.bias");
    /// assert_eq!(biases.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["0.bias", "1.bias"]);
    /// ```
    fn named_parameters_matching(&self, pattern: &str) -> Vec<(String, Var)> {
        whole::named_parameters_matching(&Through(self), pattern)
    }

    /// The parameters, in the order of the fields; one that stands in several places once.
    ///
    /// The variables are handles on the model's own: what an optimiser writes there, the model sees.
    fn parameters(&self) -> Vec<Var> {
        whole::parameters(&Through(self))
    }

    /// The buffers with their paths, such as `norm.running_mean`, in the order of the fields; one that stands in several
    /// places once.
    ///
    /// They are handles on the model's own.
    fn named_buffers(&self) -> Vec<(String, Buffer)> {
        whole::named_buffers(&Through(self))
    }

    /// How many numbers the parameters hold together.
    fn num_parameters(&self) -> usize {
        whole::num_parameters(&Through(self))
    }

    /// The parameters and the persistent buffers by their paths, in the order of the fields: what is saved of a module.
    ///
    /// What stands in several places stands under each of its names, as in PyTorch. Only leaves are parameters here; what
    /// a program computes, or fixes without history, it makes again by itself. The tensors are the values of now: what is
    /// written to the module later does not change them, and nothing is copied before that.
    ///
    /// ```
    /// use foldback_nn::{Linear, Module};
    /// let (layer, other) = (Linear::new(3, 2), &mut Linear::new(3, 2));
    /// let state = layer.state_dict();
    /// assert_eq!(state.names().collect::<Vec<_>>(), ["weight", "bias"]);
    /// other.load_state_dict(&state)?;
    /// assert_eq!(other.weight.value(), layer.weight.value());
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    fn state_dict(&self) -> StateDict {
        state::state_dict(&Through(self))
    }

    /// Writes the tensors of a state dict into the parameters and buffers of these names: all of them, or none if they do
    /// not fit. [`Module::load_state_dict_with`] and `strict`.
    ///
    /// # Errors
    /// As [`Module::load_state_dict_with`].
    #[track_caller]
    fn load_state_dict(&mut self, state: &StateDict) -> Result<()> {
        self.load_state_dict_with(state, true).map(drop)
    }

    /// Writes the tensors of a state dict into the parameters and buffers of these names. If not strict, names that only
    /// one of both has are left out, and reported.
    ///
    /// Whoever shares the variables sees the new values: clones, optimisers. Gradients and moments stay as they are.
    /// Numbers are converted to the type that the module has: floating-point ones are rounded, others must be kept by
    /// it. A tensor of shape `[1]` fits a parameter without axes. Of the tensors for one variable with several names the last is kept.
    ///
    /// # Errors
    /// `StateDict`, with the report, if a shape differs or a number cannot be converted, and if strict also for names
    /// that are missing or unexpected; `Updating` inside [`Var::update_value`] on a parameter. Nothing is changed then.
    ///
    /// ```
    /// use foldback_nn::{Linear, Module};
    /// use foldback_tensor::{StateDict, Tensor};
    /// let mut layer = Linear::new(3, 2);
    /// let state = StateDict::from_iter([("weight", Tensor::ones([2, 3])), ("scale", Tensor::ones(()))]);
    /// let e = layer.load_state_dict(&state).unwrap_err();
    /// assert!(e.to_string().starts_with("load_state_dict: missing: bias; unexpected: scale: "));
    /// let report = layer.load_state_dict_with(&state, false)?;
    /// assert_eq!((report.missing, report.unexpected), (vec!["bias".into()], vec!["scale".into()]));
    /// assert_eq!(layer.weight.value(), Tensor::ones([2, 3]));
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    #[track_caller]
    fn load_state_dict_with(&mut self, state: &StateDict, strict: bool) -> Result<LoadReport> {
        state::load(&Through(self), state, strict).here()
    }

    /// Writes [`Module::state_dict`] to a safetensors file, which PyTorch reads: whole or not at all, see
    /// [`safetensors::save_file`](crate::safetensors::save_file). Behind the feature `safetensors`.
    ///
    /// # Errors
    /// As [`safetensors::save_file`](crate::safetensors::save_file).
    ///
    /// ```
    /// use foldback_nn::{Linear, Module};
    /// let path = std::env::temp_dir().join(format!("foldback-linear-{}.safetensors", std::process::id()));
    /// let layer = Linear::new(3, 2);
    /// layer.save(&path)?;
    /// let mut other = Linear::new(3, 2);
    /// other.load(&path)?;
    /// assert_eq!(other.weight.value(), layer.weight.value());
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    #[cfg(feature = "safetensors")]
    #[track_caller]
    fn save(&self, path: impl AsRef<Path>) -> Result<()>
    where
        Self: Sized,
    {
        crate::files::save_module(path.as_ref(), &self.state_dict()).here()
    }

    /// Writes the tensors of a safetensors file into the parameters and buffers of these names: all of them, or none if
    /// they do not fit. Behind the feature `safetensors`.
    ///
    /// # Errors
    /// As [`Module::load_with`], strict.
    #[cfg(feature = "safetensors")]
    #[track_caller]
    fn load(&mut self, path: impl AsRef<Path>) -> Result<()>
    where
        Self: Sized,
    {
        self.load_with(path, true).here().map(drop)
    }

    /// [`Module::load`] that, if not strict, leaves out names that only one of both has, and reports them. Behind the feature
    /// `safetensors`.
    ///
    /// # Errors
    /// As [`safetensors::load_file`](crate::safetensors::load_file); [`FileFacts::Contents`](crate::FileFacts::Contents), with
    /// the words of [`Module::load_state_dict_with`], if it refuses the tensors. Nothing is changed then.
    ///
    /// ```
    /// use foldback_nn::{Linear, Module};
    /// let path = std::env::temp_dir().join(format!("foldback-part-{}.safetensors", std::process::id()));
    /// Linear::new(3, 2).bias(false).save(&path)?;
    /// let mut layer = Linear::new(3, 2);
    /// assert!(layer.load(&path).unwrap_err().to_string().contains("missing: bias"));
    /// assert_eq!(layer.load_with(&path, false)?.missing, ["bias"]);
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    #[cfg(feature = "safetensors")]
    #[track_caller]
    fn load_with(&mut self, path: impl AsRef<Path>, strict: bool) -> Result<LoadReport>
    where
        Self: Sized,
    {
        crate::files::load_module(path.as_ref(), &mut |state| self.load_state_dict_with(state, strict)).here()
    }

    /// Where the layers' own generators of random numbers stand, such as those of [`Dropout::seed`](crate::Dropout::seed): for
    /// a layer at `drop` the tensor `drop.generator`, see [`Generator::get_state`](foldback_tensor::Generator::get_state). Not among the weights: a checkpoint of a run keeps it.
    ///
    /// ```
    /// use foldback_nn::{Dropout, Module};
    /// use foldback_tensor::Tensor;
    /// let (a, mut b) = (Dropout::new(0.5).seed(1), Dropout::new(0.5).seed(2));
    /// let x = Tensor::ones([64]);
    /// a.forward(&x)?;
    /// b.load_generator_states(&a.generator_states())?;
    /// assert_eq!(a.forward(&x)?.value(), b.forward(&x)?.value());
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    fn generator_states(&self) -> StateDict {
        state::generator_states(&Through(self))
    }

    /// Lets the layers' own generators go on where [`Module::generator_states`] says.
    ///
    /// # Errors
    /// `StateDict`, with the report, for names that are missing or unexpected and for what is no state of a generator. Nothing
    /// is changed then.
    #[track_caller]
    fn load_generator_states(&mut self, states: &StateDict) -> Result<()> {
        state::load_generator_states(&Through(self), states).here()
    }

    /// Forgets the gradients of all parameters.
    fn zero_grad(&self) {
        whole::zero_grad(&Through(self));
    }

    /// Turns gradients of all parameters on or off: without them a module is frozen, as backward passes
    /// leave none in it.
    ///
    /// Clones that share the parameters see it, too. Variables without history, which are no leaves, stay as they are.
    ///
    /// # Errors
    /// `NotALeaf` when turning off the result of an operation; nothing is changed then.
    ///
    /// ```
    /// use foldback_nn::{Linear, Module};
    /// let mut layer = Linear::new(3, 2);
    /// layer.requires_grad_(false)?;
    /// assert!(!layer.weight.requires_grad());
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    #[track_caller]
    fn requires_grad_(&mut self, on: bool) -> Result<()> {
        whole::require_grad(&Through(self), on)
    }

    /// [`Module::requires_grad_`] for the parameters whose names match a pattern, in which `*` stands for any run of
    /// characters, dots too.
    ///
    /// A variable with several names is meant by each of them.
    ///
    /// # Errors
    /// `NoSuchName`, which lists the names, if there is none that matches; else as [`Module::requires_grad_`].
    ///
    /// ```
    /// use foldback_nn::{Linear, Module, sequential};
    /// let mut model = sequential![Linear::new(3, 2), Linear::new(2, 1)];
    /// model.requires_grad_matching("0.*", false)?;
    /// let learning: Vec<bool> = model.parameters().iter().map(|p| p.requires_grad()).collect();
    /// assert_eq!(learning, [false, false, true, true]);
    /// assert!(model.requires_grad_matching("encoder.*", false).is_err());
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    #[track_caller]
    fn requires_grad_matching(&mut self, pattern: &str, on: bool) -> Result<()> {
        whole::require_grad_matching(&Through(self), pattern, on)
    }

    /// Switches to training: `set_training(true)`. Layers are made in this state.
    fn train(&mut self) {
        self.set_training(true);
    }

    /// Switches to use: `set_training(false)`.
    fn eval(&mut self) {
        self.set_training(false);
    }
}

mod parts;
#[cfg(test)]
mod tests;
mod visitor;
mod whole;

pub(crate) use visitor::Seen;
pub use visitor::Visitor;
use whole::Through;
pub(crate) use whole::Walk;
