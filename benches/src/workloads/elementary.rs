//! W16: elementary functions, forward, and forward with the gradient of the sum.

use foldback::Result;
use foldback::graph::Var;
use foldback::prelude::*;

use super::{Unit, Work, Workload, backward, bytes, forward, leaf, tensor};
use crate::inputs::ELEMENTS;

type OfTensor = fn(&Tensor) -> Result<Tensor>;
type OfVar = fn(&Var) -> Result<Var>;

/// Name, key forward, key with backward, and the function on both.
const FUNCTIONS: [(&str, &str, &str, OfTensor, OfVar); 4] = [
    ("exp", "W16-exp", "W16-exp-back", |t| Ok(t.exp()), |v| Ok(v.exp())),
    ("tanh", "W16-tanh", "W16-tanh-back", |t| Ok(t.tanh()), |v| Ok(v.tanh())),
    ("gelu", "W16-gelu", "W16-gelu-back", |t| Ok(t.gelu()?), |v| Ok(v.gelu()?)),
    ("sigmoid", "W16-sigmoid", "W16-sigmoid-back", |t| Ok(t.sigmoid()), |v| Ok(v.sigmoid())),
];

pub(super) fn list() -> Vec<Workload> {
    let size = bytes(&ELEMENTS.shape);
    let unit = Unit::Elements(size / 4);
    let once = Work { copied: size, ..Work::default() };
    let forward_only = FUNCTIONS.map(|(name, key, _, f, _)| {
        Workload::new(key, format!("{name} [4096, 1024]"), unit, once, move || {
            let x = tensor(ELEMENTS)?;
            Ok(forward(move || f(&x)))
        })
    });
    // The loss can be had by reading; the gradient reads once more and writes.
    let both = Work { read: size, copied: size, ..Work::default() };
    let and_back = FUNCTIONS.map(|(name, _, key, _, f)| {
        Workload::new(key, format!("{name} [4096, 1024], its sum, and back"), unit, both, move || {
            let x = leaf(ELEMENTS)?;
            Ok(backward(vec![x.clone()], move || Ok(f(&x)?.sum(.., false)?)))
        })
    });
    forward_only.into_iter().chain(and_back).collect()
}
