//! Groups of parameters with settings of their own: what a program says of them.

use foldback_graph::Var;

use crate::setting::Number;

/// PyTorch's keywords, for a group of parameters (`.group("*.bias", ..)`) or for all (`try_with`).
///
/// A setting that the optimiser does not have is refused where the group is given to it.
///
/// ```
/// use foldback_graph::RequiresGrad;
/// use foldback_optim::{AdamW, Group, Optimizer};
/// use foldback_tensor::tensor;
/// let (w, b) = (tensor![[1.0]].requires_grad(), tensor![0.0].requires_grad());
/// let adam = AdamW::new([("weight", &w), ("bias", &b)], 1e-3)
///     .group("bias", Group::new().lr(1e-2).weight_decay(0.0));
/// assert_eq!(adam.lrs(), [1e-3, 1e-2]);
/// assert!(AdamW::try_new([&w], 1e-3)?.try_with(Group::new().nesterov(true)).is_err());
/// # Ok::<(), foldback_optim::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use = "a group does nothing until an optimiser has it"]
pub struct Group {
    pub(crate) settings: Vec<(&'static str, f64)>,
}

macro_rules! keywords {
    ($($(#[$doc:meta])* $name:ident($($field:ident: $ty:ty),+);)*) => {
        impl Group {
            $(
                $(#[$doc])*
                pub fn $name(mut self, $($field: $ty),+) -> Group {
                    $(self.settings.push((stringify!($field), Number::number($field)));)+
                    self
                }
            )*
        }
    };
}

impl Group {
    /// Without settings of its own.
    pub fn new() -> Group {
        Group::default()
    }
}

keywords! {
    /// The learning rate.
    lr(lr: f64);
    /// How much of the last step is kept.
    momentum(momentum: f64);
    /// How much of a gradient is kept out of the momentum.
    dampening(dampening: f64);
    /// How strongly parameters are drawn to 0.
    weight_decay(weight_decay: f64);
    /// Whether steps look ahead along the momentum.
    nesterov(nesterov: bool);
    /// Whether steps go up instead of down.
    maximize(maximize: bool);
    /// How much of the first and of the second moment is kept.
    betas(beta1: f64, beta2: f64);
    /// What is added to the divisor.
    eps(eps: f64);
    /// Whether the largest second moment so far is used.
    amsgrad(amsgrad: bool);
    /// How fast the momentum of `NAdam` rises.
    momentum_decay(momentum_decay: f64);
    /// Whether weight decay passes the gradient by.
    decoupled_weight_decay(decoupled_weight_decay: bool);
    /// How fast the learning rate of `Adagrad` falls.
    lr_decay(lr_decay: f64);
    /// What the sums of `Adagrad` start with.
    initial_accumulator_value(initial_accumulator_value: f64);
    /// How much of the mean of squares `RMSprop` keeps; the power by which the rate of `ASGD` falls.
    alpha(alpha: f64);
    /// Whether `RMSprop` divides by the deviation.
    centered(centered: bool);
    /// How much of the means of squares `Adadelta` keeps.
    rho(rho: f64);
    /// How steps of `Rprop` shrink and grow.
    etas(etaminus: f64, etaplus: f64);
    /// The shortest and the longest step of `Rprop`.
    step_sizes(step_size_min: f64, step_size_max: f64);
    /// The decay term of `ASGD`.
    lambd(lambd: f64);
    /// The step after which `ASGD` averages.
    t0(t0: f64);
    /// How many iterations a step of `LBFGS` has at most.
    max_iter(max_iter: usize);
    /// How many times a step of `LBFGS` computes the loss at most.
    max_eval(max_eval: usize);
    /// The largest gradient with which `LBFGS` is content.
    tolerance_grad(tolerance_grad: f64);
    /// The least progress with which `LBFGS` goes on.
    tolerance_change(tolerance_change: f64);
    /// How many steps `LBFGS` remembers.
    history_size(history_size: usize);
    /// Whether `LBFGS` searches along each direction.
    strong_wolfe(strong_wolfe: bool);
}

/// A parameter as an optimiser is given it: a variable (`model.parameters()`), or one with its name
/// (`model.named_parameters()`).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a variable nor a pair of a name and a variable",
    note = "a group is a pattern of names or a list of variables; several patterns are several groups"
)]
pub trait AsParameter {
    /// The variable.
    fn var(&self) -> &Var;
    /// Its name, if it has one.
    fn name(&self) -> Option<&str> {
        None
    }
}

impl AsParameter for Var {
    fn var(&self) -> &Var {
        self
    }
}

impl<N: AsRef<str>, V: AsParameter> AsParameter for (N, V) {
    fn var(&self) -> &Var {
        self.1.var()
    }
    fn name(&self) -> Option<&str> {
        Some(self.0.as_ref())
    }
}

impl<T: AsParameter + ?Sized> AsParameter for &T {
    fn var(&self) -> &Var {
        (**self).var()
    }
    fn name(&self) -> Option<&str> {
        (**self).name()
    }
}

/// Which parameters are a group: those whose names match a pattern (`*` stands for any run of characters, dots too), or
/// a list.
#[derive(Clone, Debug)]
pub enum Members {
    /// by their names
    Matching(String),
    /// one by one
    These(Vec<Var>),
}

impl From<&str> for Members {
    fn from(pattern: &str) -> Members {
        Members::Matching(pattern.to_owned())
    }
}

impl From<&String> for Members {
    fn from(pattern: &String) -> Members {
        Members::Matching(pattern.clone())
    }
}

impl From<String> for Members {
    fn from(pattern: String) -> Members {
        Members::Matching(pattern)
    }
}

impl<P: AsParameter> From<&[P]> for Members {
    fn from(list: &[P]) -> Members {
        Members::These(list.iter().map(|p| p.var().clone()).collect())
    }
}

impl<P: AsParameter> From<&Vec<P>> for Members {
    fn from(list: &Vec<P>) -> Members {
        list.as_slice().into()
    }
}

impl<P: AsParameter> From<Vec<P>> for Members {
    fn from(list: Vec<P>) -> Members {
        list.as_slice().into()
    }
}

impl<P: AsParameter, const N: usize> From<[P; N]> for Members {
    fn from(list: [P; N]) -> Members {
        list.as_slice().into()
    }
}
