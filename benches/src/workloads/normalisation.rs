//! W20: normalisation of rows, and of images by channel.

use foldback::Result;
use foldback::prelude::*;

use super::{Both, Work, Workload, both, bytes, tensor};
use crate::inputs::{EPSILON, IMAGES, Input};

/// What a language model normalises: eight examples of 512 tokens.
const TOKENS: Input<2> = Input::new([4096, 768], 110, -0.5, 1.0);
/// No multiple of a vector, and short rows.
const ODD: Input<2> = Input::new([10_007, 77], 110, -0.5, 1.0);

pub(super) fn list() -> Vec<Workload> {
    let list = [
        layer_norm(["W20-layer_norm", "W20-layer_norm-back"], TOKENS),
        layer_norm(["W20-odd", "W20-odd-back"], ODD),
        both(
            what(["W20-rms_norm", "W20-rms_norm-back"], "rms_norm", &TOKENS.shape),
            || {
                let [x, weight, _] = with_affine(TOKENS, TOKENS.shape[1])?;
                Ok([x, weight])
            },
            |[x, w]| x.rms_norm_with(w.shape(), Norm::new().weight(w).eps(EPSILON)),
            |[x, w]| x.rms_norm_with(w.shape(), Norm::new().weight(w).eps(EPSILON)),
        ),
        both(
            // After ReLU, because the squares of what has a given mean and variance add up to a constant.
            what(["W20-batch_norm", "W20-batch_norm-back"], "batch_norm in training and ReLU", &IMAGES.shape),
            || with_affine(IMAGES, IMAGES.shape[1]),
            |[x, w, b]| Ok(x.batch_norm_train(Norm::new().weight(w).bias(b))?.0.relu()),
            |[x, w, b]| Ok(x.batch_norm_train(Norm::new().weight(w).bias(b))?.0.relu()),
        ),
        both(
            what(["W20-group_norm", "W20-group_norm-back"], "group_norm of 8 groups", &IMAGES.shape),
            || with_affine(IMAGES, IMAGES.shape[1]),
            |[x, w, b]| x.group_norm_with(8, Norm::new().weight(w).bias(b)),
            |[x, w, b]| x.group_norm_with(8, Norm::new().weight(w).bias(b)),
        ),
    ];
    list.into_iter().flatten().collect()
}

fn layer_norm(keys: [&'static str; 2], x: Input<2>) -> [Workload; 2] {
    both(
        what(keys, "layer_norm", &x.shape),
        move || with_affine(x, x.shape[1]),
        |[x, w, b]| x.layer_norm_with(w.shape(), Norm::new().weight(w).bias(b)),
        |[x, w, b]| x.layer_norm_with(w.shape(), Norm::new().weight(w).bias(b)),
    )
}

/// Forward, the elements are read and as many written; the loss and the gradient each read them once more.
fn what(keys: [&'static str; 2], name: &str, shape: &[usize]) -> Both {
    let size = bytes(shape);
    let once = Work { copied: size, ..Work::default() };
    Both {
        keys,
        title: format!("{name} {shape:?}"),
        elements: size / 4,
        work: [once, Work { read: size, ..once }],
    }
}

/// The elements, with a weight and a bias for `n` of them.
fn with_affine<const N: usize>(x: Input<N>, n: usize) -> Result<[Tensor; 3]> {
    Ok([tensor(x)?, tensor(Input::new([n], 111, 0.5, 1.5))?, tensor(Input::new([n], 112, -0.5, 1.0))?])
}
