//! W7 and W17: sums, and the softmax's relatives.

use foldback::prelude::*;
use foldback::tensor::{Over, keep};

use super::{Unit, Work, Workload, backward, bytes, forward, leaf, tensor};
use crate::inputs::*;

pub(super) fn list() -> Vec<Workload> {
    let mut list = vec![
        sum("W7-columns", "sum [4096, 1024] to [1024]", X, || 0.into()),
        sum("W7-rows", "sum [4096, 1024] to [4096, 1]", X, || keep(1)),
        sum("W7-all", "sum [4096, 1024] to a number", X, || (..).into()),
        sum("W7-middle", "sum [64, 128, 256] to [1, 128, 1]", CUBE, || keep([0, 2])),
    ];
    let size = bytes(&SCORES.shape);
    let unit = Unit::Elements(size / 4);
    // The result of the forward pass is read again by the backward pass, which writes the gradient.
    let work = Work { copied: 2 * size, ..Work::default() };
    list.push(Workload::new(
        "W17-log_softmax",
        "log_softmax [4096, 1024], its sum, and back",
        unit,
        work,
        || {
            let x = leaf(SCORES)?;
            Ok(backward(vec![x.clone()], move || x.log_softmax(1)?.sum(..)))
        },
    ));
    let work = Work { read: size, copied: size, ..Work::default() };
    list.push(Workload::new("W17-cross_entropy", "cross-entropy [4096, 1024] and back", unit, work, || {
        let x = leaf(SCORES)?;
        let [n, classes] = SCORES.shape;
        let target = Tensor::from_vec(labels(n, SCORE_LABELS, classes as u32), [n])?;
        Ok(backward(vec![x.clone()], move || loss::cross_entropy(&x, &target)))
    }));
    list
}

fn sum<const N: usize>(key: &'static str, title: &str, x: Input<N>, over: fn() -> Over) -> Workload {
    let size = bytes(&x.shape);
    let work = Work { read: size, ..Work::default() };
    Workload::new(key, title, Unit::Elements(size / 4), work, move || {
        let x = tensor(x)?;
        Ok(forward(move || x.sum(over())))
    })
}
