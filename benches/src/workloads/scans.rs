//! W21: running sums and products, along rows, across them, and along one long vector.

use super::{Both, Work, Workload, both, bytes, tensor};
use crate::inputs::{Input, X};

/// Nothing is a multiple of a vector, and what is summed lies 33 elements apart.
const ODD: Input<3> = Input::new([129, 1023, 33], 120, -0.5, 1.0);
/// Near one, so that their products stay so.
const FACTORS: Input<2> = Input::new([4096, 1024], 121, 0.99, 1.01);

pub(super) fn list() -> Vec<Workload> {
    let list = [
        cumsum(["W21-rows", "W21-rows-back"], X, 1),
        cumsum(["W21-columns", "W21-columns-back"], X, 0),
        cumsum(["W21-vector", "W21-vector-back"], X.with_shape([4096 * 1024]), 0),
        cumsum(["W21-odd", "W21-odd-back"], ODD, 1),
        both(
            what(["W21-cumprod", "W21-cumprod-back"], "cumprod", &FACTORS.shape, 1),
            || Ok([tensor(FACTORS)?]),
            |[x]| x.cumprod(1),
            |[x]| x.cumprod(1),
        ),
    ];
    list.into_iter().flatten().collect()
}

fn cumsum<const N: usize>(keys: [&'static str; 2], x: Input<N>, axis: isize) -> [Workload; 2] {
    both(
        what(keys, "cumsum", &x.shape, axis),
        move || Ok([tensor(x)?]),
        move |[x]| x.cumsum(axis),
        move |[x]| x.cumsum(axis),
    )
}

/// Forward, the elements are read and as many written; the loss and the gradient each read them once more.
fn what(keys: [&'static str; 2], name: &str, shape: &[usize], axis: isize) -> Both {
    let size = bytes(shape);
    let once = Work { copied: size, ..Work::default() };
    Both {
        keys,
        title: format!("{name} {shape:?} along axis {axis}"),
        elements: size / 4,
        work: [once, Work { read: size, ..once }],
    }
}
