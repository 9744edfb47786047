//! What can stand in a checkpoint.

use foldback_data::{Collate, DataLoader, Dataset};
use foldback_nn::{FileFacts, Module};
use foldback_optim::{Optimizer, ReduceLROnPlateau, Schedule};
use foldback_tensor::{Generator, Result, StateDict, Tensor, refuse};

use crate::early_stopping::EarlyStopping;
use crate::fit::FitState;

/// What has a state that can be saved and loaded again, all or nothing.
///
/// `K` says by what it has one, and is never written: modules, optimisers, schedules, loaders and plain values each have an
/// implementation for all of their kind, and these could overlap without it. A type of one's own implements
/// `Stateful<()>`:
///
/// ```
/// use foldback_tensor::{Result, StateDict};
/// use foldback_train::{Checkpoint, Stateful};
///
/// #[derive(Default)]
/// struct Patience { waited: usize, best: f64 }
///
/// impl Stateful<()> for Patience {
///     fn kind(&self) -> &'static str { "patience" }
///     fn state(&self) -> StateDict {
///         let mut state = StateDict::new();
///         state.insert_all("waited", self.waited.state());
///         state.insert_all("best", self.best.state());
///         state
///     }
///     fn load_state(&mut self, state: &StateDict) -> Result<()> {
///         let mut loaded = Patience::default();
///         loaded.waited.load_state(&state.part("waited"))?;
///         loaded.best.load_state(&state.part("best"))?;
///         *self = loaded;
///         Ok(())
///     }
/// }
///
/// let c = Checkpoint::new().put("patience", &Patience { waited: 3, best: 0.5 });
/// let mut again = Patience::default();
/// c.get("patience", &mut again)?;
/// assert_eq!((again.waited, again.best), (3, 0.5));
/// # Ok::<(), foldback_train::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no state that a checkpoint can hold",
    note = "modules, optimisers, schedules, loaders, `FitState`, `EarlyStopping`, generators, tensors, numbers, `Vec<f64>`, `bool` and `String` have; implement `Stateful<()>` for a type of your own"
)]
pub trait Stateful<K> {
    /// What it is, for errors: an entry of one kind is not loaded into another.
    fn kind(&self) -> &'static str;

    /// Everything that it needs to go on.
    fn state(&self) -> StateDict;

    /// Goes on from a state.
    ///
    /// # Errors
    /// If the state is not one of its own; nothing has been changed then.
    fn load_state(&mut self, state: &StateDict) -> Result<()>;
}

/// Of modules: parameters, persistent buffers, and where the layers' own generators stand.
#[derive(Debug)]
pub enum ByModule {}

/// Of optimisers: settings, moments, steps.
#[derive(Debug)]
pub enum ByOptimizer {}

/// Of schedules: the step, and the rates of the optimiser.
#[derive(Debug)]
pub enum BySchedule {}

/// Of loaders: the position in an epoch.
#[derive(Debug)]
pub enum ByLoader {}

/// Of numbers, `Vec<f64>`, `bool`, `String`, tensors, state dicts and generators of random numbers: themselves. Of [`EarlyStopping`],
/// [`FitState`] and [`ReduceLROnPlateau`]: what they have seen.
#[derive(Debug)]
pub enum ByValue {}

impl<M: Module> Stateful<ByModule> for M {
    fn kind(&self) -> &'static str {
        "module"
    }

    fn state(&self) -> StateDict {
        self.state_dict().into_iter().chain(self.generator_states()).collect()
    }

    fn load_state(&mut self, state: &StateDict) -> Result<()> {
        let (mut weights, mut generators, own) = (Vec::new(), Vec::new(), self.generator_states());
        for (name, tensor) in state.iter() {
            let part = if own.get(name).is_some() { &mut generators } else { &mut weights };
            part.push((name.to_owned(), tensor.clone()));
        }
        // Each is all or nothing; the first goes back if the second is refused.
        self.load_generator_states(&generators.into_iter().collect())?;
        let loaded = self.load_state_dict(&weights.into_iter().collect());
        if loaded.is_err() {
            self.load_generator_states(&own)?;
        }
        loaded
    }
}

impl<O: Optimizer + ?Sized> Stateful<ByOptimizer> for O {
    fn kind(&self) -> &'static str {
        "optimizer"
    }

    fn state(&self) -> StateDict {
        self.state_dict()
    }

    fn load_state(&mut self, state: &StateDict) -> Result<()> {
        self.load_state_dict(state)
    }
}

impl<S: Schedule + ?Sized> Stateful<BySchedule> for S {
    fn kind(&self) -> &'static str {
        self.name()
    }

    fn state(&self) -> StateDict {
        self.state_dict()
    }

    fn load_state(&mut self, state: &StateDict) -> Result<()> {
        self.load_state_dict(state)
    }
}

impl<D: Dataset<Item: Collate>> Stateful<ByLoader> for DataLoader<D> {
    fn kind(&self) -> &'static str {
        "loader"
    }

    fn state(&self) -> StateDict {
        self.state_dict()
    }

    fn load_state(&mut self, state: &StateDict) -> Result<()> {
        self.load_state_dict(state)
    }
}

/// Defines states of types that have them under PyTorch's names.
macro_rules! dicts {
    ($($type:ty: $kind:literal;)*) => {$(
        impl Stateful<ByValue> for $type {
            fn kind(&self) -> &'static str {
                $kind
            }

            fn state(&self) -> StateDict {
                self.state_dict()
            }

            fn load_state(&mut self, state: &StateDict) -> Result<()> {
                self.load_state_dict(state)
            }
        }
    )*};
}

dicts! {
    EarlyStopping: "early stopping";
    FitState: "fit";
    ReduceLROnPlateau: "ReduceLROnPlateau";
}

/// The kind of a [`StateDict`], which may be the state of anything.
pub(crate) const RAW: &str = "StateDict";

/// The name of a value in its state.
const VALUE: &str = "value";

/// The one tensor of a value's state.
fn only(state: &StateDict) -> Result<&Tensor> {
    match (state.len(), state.get(VALUE)) {
        (1, Some(tensor)) => Ok(tensor),
        _ => unfit("its state has to be one tensor"),
    }
}

fn unfit<T>(problem: &str) -> Result<T> {
    refuse(FileFacts::Malformed {
        op: "load_state",
        path: String::new(),
        problem: problem.to_owned(),
        cure: "give what this type has saved",
    })
}

/// Defines states of one tensor: how it is made of the value, and the value of it.
macro_rules! values {
    ($($type:ty: |$value:ident| $to:expr, |$tensor:ident| $from:expr;)*) => {$(
        impl Stateful<ByValue> for $type {
            fn kind(&self) -> &'static str {
                stringify!($type)
            }

            fn state(&self) -> StateDict {
                let $value = self;
                StateDict::from_iter([(VALUE, $to)])
            }

            fn load_state(&mut self, state: &StateDict) -> Result<()> {
                let $tensor = only(state)?;
                *self = $from;
                Ok(())
            }
        }
    )*};
}

values! {
    f64: |v| one(*v), |t| t.reshape(())?.item_as()?;
    f32: |v| one(*v), |t| t.reshape(())?.item_as()?;
    bool: |v| one(*v), |t| t.reshape(())?.item_as()?;
    i64: |v| one(*v), |t| t.reshape(())?.item_as()?;
    i32: |v| one(*v), |t| t.reshape(())?.item_as()?;
    u32: |v| one(*v), |t| t.reshape(())?.item_as()?;
    // The bits: i64 is what integers are in a file.
    u64: |v| one(*v as i64), |t| t.reshape(())?.item_as::<i64>()? as u64;
    usize: |v| one(*v as u64 as i64), |t| match usize::try_from(t.reshape(())?.item_as::<i64>()? as u64) {
        Ok(v) => v,
        Err(_) => return unfit("the number is larger than a usize here"),
    };
    String: |v| Tensor::from(v.as_bytes()), |t| match String::from_utf8(t.to_vec()?) {
        Ok(v) => v,
        Err(_) => return unfit("these bytes are no UTF-8"),
    };
    Vec<f64>: |v| Tensor::from(v), |t| t.to_vec()?;
    Tensor: |v| v.clone(), |t| t.clone();
    Generator: |v| v.get_state(), |t| {
        let mut loaded = Generator::new(0);
        loaded.set_state(t)?;
        loaded
    };
}

fn one<T: foldback_tensor::Datum>(value: T) -> Tensor {
    Tensor::from_vec(vec![value], ()).expect("one element, within an i64")
}

impl Stateful<ByValue> for StateDict {
    fn kind(&self) -> &'static str {
        "StateDict"
    }

    fn state(&self) -> StateDict {
        self.clone()
    }

    fn load_state(&mut self, state: &StateDict) -> Result<()> {
        *self = state.clone();
        Ok(())
    }
}
