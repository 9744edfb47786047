//! Gradients against numbers that a test states: `assert_grads!`.

use foldback_graph::{Arguments, Grad, Outputs, Var};
use foldback_tensor::{Compared, Error, Here, Tensor, Tolerance, compare_close, counted};

use crate::error::Result;

/// Panics unless the gradients of a function are the expected ones, as close as [`assert_close!`](foldback_tensor::assert_close)
/// wants them: those of the sum of all that it returns, at the inputs left of each `=>`.
///
/// The function takes a variable, or an array of them for several inputs, and returns a variable, several, or a `Result`. Inputs are
/// tensors, variables or numbers, and expected gradients tensors or variables. Tolerances (`atol`, `rtol`) come last. The
/// message names the input, and shows the elements that differ in columns.
///
/// ```
/// use foldback_gradcheck::assert_grads;
/// use foldback_tensor::tensor;
/// let (a, b) = (tensor![1.0, 2.0, 3.0], tensor![10.0]);
/// assert_grads!(|x| x.square(), &a => tensor![2.0, 4.0, 6.0]);
/// assert_grads!(|[a, b]| a.mul(b), &a => tensor![10.0, 10.0, 10.0], &b => tensor![6.0]);
/// assert_grads!(|x| x.sigmoid(), &b => tensor![4.5e-5], atol = 1e-6);
/// ```
///
/// ```should_panic
/// use foldback_gradcheck::assert_grads;
/// use foldback_tensor::tensor;
/// assert_grads!(|x| x.square(), tensor![1.0] => tensor![1.0]);
/// ```
#[macro_export]
macro_rules! assert_grads {
    // The pairs, one after another, up to the tolerances.
    (@read $f:expr, [$($pairs:tt)*] $name:ident = $($options:tt)*) => {
        $crate::assert_grads!(@check $f, [$($pairs)*] $name = $($options)*)
    };
    (@read $f:expr, [$($pairs:tt)*] $x:expr => $expected:expr, $($rest:tt)*) => {
        $crate::assert_grads!(@read $f, [$($pairs)* ($x => $expected)] $($rest)*)
    };
    (@read $f:expr, [$($pairs:tt)*] $x:expr => $expected:expr $(; $($options:tt)*)?) => {
        $crate::assert_grads!(@check $f, [$($pairs)* ($x => $expected)] $($($options)*)?)
    };
    (@read $f:expr, [$($pairs:tt)*] $(; $($options:tt)*)?) => {
        $crate::assert_grads!(@check $f, [$($pairs)*] $($($options)*)?)
    };
    (@check $f:expr, [($x:expr => $expected:expr)] $($name:ident = $value:expr),* $(,)?) => {
        $crate::assert_grads!(@run $f, &$x, [$x => $expected], $($name = $value),*)
    };
    (@check $f:expr, [$(($x:expr => $expected:expr))+] $($name:ident = $value:expr),* $(,)?) => {
        $crate::assert_grads!(
            @run $f, [$($crate::testing::variable(&$x)),+], [$($x => $expected),+], $($name = $value),*
        )
    };
    (@run $f:expr, $inputs:expr, [$($x:expr => $expected:expr),+], $($name:ident = $value:expr),*) => {{
        #[allow(unused_mut)]
        let mut tolerance = $crate::testing::Tolerance::default();
        $(tolerance.$name = ::core::option::Option::Some($value);)*
        let checked = $crate::testing::check_grads($f, $inputs, &[$((::core::stringify!($x), &$expected)),+], &tolerance);
        if let ::core::result::Result::Err(e) = checked {
            ::core::panic!("assert_grads!: {e}");
        }
    }};
    ($f:expr, $($pairs:tt)+) => {
        $crate::assert_grads!(@read $f, [] $($pairs)+)
    };
}

/// A variable for an input, so that those of an array have one type.
#[doc(hidden)]
pub fn variable(x: &impl foldback_graph::AsInput) -> Var {
    x.to_var()
}

/// What [`assert_grads!`](crate::assert_grads) asserts: the gradients of the sum of all outputs of `f`, one per input in order, each with
/// what the input is called.
///
/// # Errors
/// The first gradient that differs, another number of expected gradients than of inputs, what `f` returns, and what a backward pass refuses.
///
/// ```
/// use foldback_gradcheck::testing::{Tolerance, check_grads};
/// use foldback_tensor::tensor;
/// let (x, expected) = (tensor![1.0, 2.0], tensor![2.0, 4.5]);
/// let e = check_grads(|x| x.square(), &x, &[("x", &expected)], &Tolerance::default()).unwrap_err();
/// assert!(e.to_string().starts_with("the gradient of x: 1 of 2 elements are not close"));
/// ```
pub fn check_grads<I: Arguments, O: Outputs>(
    f: impl FnOnce(&I::Seen) -> O,
    inputs: I,
    expected: &[(&str, &dyn Compared)],
    tolerance: &Tolerance,
) -> Result<()> {
    let inputs = inputs.into_vars();
    if inputs.len() != expected.len() {
        let counts = (counted(expected.len(), "expected gradient"), counted(inputs.len(), "input"));
        return Err(Error::other(format!("{} for {}: give one for each", counts.0, counts.1)));
    }
    let leaves: Vec<Var> = inputs.iter().map(|x| Var::leaf(x.value()).nowhere()).collect::<Result<_>>()?;
    let outputs = f(I::see(&leaves)).into_vars()?;
    let roots: Vec<&Var> = outputs.iter().filter(|y| y.requires_grad()).collect();
    let seeds: Vec<Var> = roots.iter().map(|y| Var::from(Tensor::ones_with(y.shape(), y.dtype()))).collect();
    let by: Vec<&Var> = leaves.iter().collect();
    let found: Vec<Tensor> = if roots.is_empty() {
        leaves.iter().map(|x| Tensor::zeros_with(x.shape(), x.dtype())).collect()
    } else {
        let seeds: Vec<&Var> = seeds.iter().collect();
        let found = Grad::new(&roots, &by).seeds(&seeds).materialize_grads(true).run()?;
        found.iter().flatten().map(Var::value).collect()
    };
    for ((name, expected), found) in expected.iter().zip(&found) {
        compare_close(found, &expected.compared(), tolerance)
            .map_err(|mismatch| Error::other(format!("the gradient of {name}: {mismatch}")))?;
    }
    Ok(())
}
