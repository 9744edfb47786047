//! What functions to be differentiated take and return: one variable, an array of them or a list.

use crate::error::Result;
use crate::input::{AsInput, variables_of};
use crate::node::Var;

/// Where a function is to be differentiated, or in which direction: `&t` is one value, for which the function gets a `&Var`;
/// `[&a, &b]` are several, for which it gets a `&[Var; 2]`; with a `Vec` or a slice it gets a `&[Var]`. Values are variables, tensors
/// or numbers.
///
/// ```
/// use foldback_graph::jacobian;
/// use foldback_tensor::tensor;
/// let (a, b) = (tensor![1.0, 2.0], tensor![3.0]);
/// let of_one = jacobian(|x| x.square(), &a)?;
/// let [of_a, of_b] = jacobian(|[x, y]| x.mul(y), [&a, &b])?;
/// assert_eq!(of_one.value(), tensor![[2.0, 0.0], [0.0, 4.0]]);
/// assert_eq!((of_a.value(), of_b.value()), (tensor![[3.0, 0.0], [0.0, 3.0]], tensor![[1.0], [2.0]]));
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a value nor an array, `Vec` or slice of values",
    label = "expected a variable, a tensor or a number, or an array, `Vec` or slice of them"
)]
pub trait Arguments {
    /// One thing for each value, in the same arrangement.
    type Of<T>;
    /// What the function gets a reference to.
    type Seen: ?Sized;
    /// The values as variables.
    fn into_vars(self) -> Vec<Var>;
    /// As many things as there are values, in order, arranged as they are.
    fn gather<T>(things: Vec<T>) -> Self::Of<T>;
    /// As many variables as there are values, as the function gets them.
    fn see(vars: &[Var]) -> &Self::Seen;
}

/// What a function to be differentiated returns: a variable, an array or a `Vec` of them, or a `Result` of any of these.
///
/// ```
/// use foldback_graph::jvp;
/// use foldback_tensor::tensor;
/// let (values, tangents) = jvp(|x| [x.square(), x.exp()], &tensor![0.0], &tensor![1.0])?;
/// assert_eq!(values.map(|y| y.value()), [tensor![0.0], tensor![1.0]]);
/// assert_eq!(tangents.map(|t| t.value()), [tensor![0.0], tensor![1.0]]);
/// # Ok::<(), foldback_graph::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a variable nor an array or `Vec` of variables",
    label = "the function must return variables, or a `Result` of them"
)]
pub trait Outputs {
    /// One thing for each variable, in the same arrangement.
    type Of<T>;
    /// The variables.
    ///
    /// # Errors
    /// What the function returned.
    fn into_vars(self) -> Result<Vec<Var>>;
    /// As many things as there are variables, in order, arranged as they are.
    fn gather<T>(things: Vec<T>) -> Self::Of<T>;
}

fn the_one<T>(mut things: Vec<T>) -> T {
    things.pop().expect("one thing for each value")
}

fn array<T, const N: usize>(things: Vec<T>) -> [T; N] {
    things.try_into().ok().expect("one thing for each value")
}

impl<A: AsInput> Arguments for A {
    type Of<T> = T;
    type Seen = Var;
    fn into_vars(self) -> Vec<Var> {
        vec![self.to_var()]
    }
    fn gather<T>(things: Vec<T>) -> T {
        the_one(things)
    }
    fn see(vars: &[Var]) -> &Var {
        &vars[0]
    }
}

impl<A: AsInput, const N: usize> Arguments for [A; N] {
    type Of<T> = [T; N];
    type Seen = [Var; N];
    fn into_vars(self) -> Vec<Var> {
        variables_of(self)
    }
    fn gather<T>(things: Vec<T>) -> [T; N] {
        array(things)
    }
    fn see(vars: &[Var]) -> &[Var; N] {
        vars.try_into().expect("a variable for each value")
    }
}

macro_rules! lists {
    ($([$($generics:tt)*] $list:ty),*) => {$(
        impl<$($generics)*> Arguments for $list {
            type Of<T> = Vec<T>;
            type Seen = [Var];
            fn into_vars(self) -> Vec<Var> {
                variables_of(self)
            }
            fn gather<T>(things: Vec<T>) -> Vec<T> {
                things
            }
            fn see(vars: &[Var]) -> &[Var] {
                vars
            }
        }
    )*};
}
lists!([A: AsInput] Vec<A>, [A: AsInput] &Vec<A>, [A: AsInput] &[A], [A: AsInput, const N: usize] &[A; N]);

impl Outputs for Var {
    type Of<T> = T;
    fn into_vars(self) -> Result<Vec<Var>> {
        Ok(vec![self])
    }
    fn gather<T>(things: Vec<T>) -> T {
        the_one(things)
    }
}

impl<const N: usize> Outputs for [Var; N] {
    type Of<T> = [T; N];
    fn into_vars(self) -> Result<Vec<Var>> {
        Ok(self.into())
    }
    fn gather<T>(things: Vec<T>) -> [T; N] {
        array(things)
    }
}

impl Outputs for Vec<Var> {
    type Of<T> = Vec<T>;
    fn into_vars(self) -> Result<Vec<Var>> {
        Ok(self)
    }
    fn gather<T>(things: Vec<T>) -> Vec<T> {
        things
    }
}

impl<O: Outputs> Outputs for Result<O> {
    type Of<T> = O::Of<T>;
    fn into_vars(self) -> Result<Vec<Var>> {
        self?.into_vars()
    }
    fn gather<T>(things: Vec<T>) -> O::Of<T> {
        O::gather(things)
    }
}
