//! W16: elementary functions, forward, and forward with the gradient of the sum, plain and fused.

use foldback::graph::Var;
use foldback::prelude::*;
use foldback::{Result, fuse};

use super::{Unit, Work, Workload, backward, bytes, forward, leaf, tensor};
use crate::inputs::ELEMENTS;

type OfTensor = fn(&Tensor) -> Result<Tensor>;
type OfVar = fn(&Var) -> Result<Var>;

/// Name, key forward, key with backward, and the function on both.
const FUNCTIONS: [(&str, &str, &str, OfTensor, OfVar); 4] = [
    ("exp", "W16-exp", "W16-exp-back", |t| Ok(t.exp()), |v| Ok(v.exp())),
    ("tanh", "W16-tanh", "W16-tanh-back", |t| Ok(t.tanh()), |v| Ok(v.tanh())),
    ("gelu", "W16-gelu", "W16-gelu-back", |t| Ok(t.gelu()), |v| Ok(v.gelu())),
    ("sigmoid", "W16-sigmoid", "W16-sigmoid-back", |t| Ok(t.sigmoid()), |v| Ok(v.sigmoid())),
];

/// The key of the plain form, that of the fused one, and the sum.
const FUSED: [(&str, &str, OfVar); 4] = [
    ("W16-exp-back", "W16-exp-back-fuse", |x| fuse!(|x| x.exp()).sum([x], ..)),
    ("W16-tanh-back", "W16-tanh-back-fuse", |x| fuse!(|x| x.tanh()).sum([x], ..)),
    ("W16-gelu-back", "W16-gelu-back-fuse", |x| fuse!(|x| x.gelu()).sum([x], ..)),
    ("W16-sigmoid-back", "W16-sigmoid-back-fuse", |x| fuse!(|x| x.sigmoid()).sum([x], ..)),
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
            Ok(backward(vec![x.clone()], move || f(&x)?.sum(..)))
        })
    });
    let fused = FUSED.map(|(plain, key, f)| {
        let mut fused = Workload::new(key, "the same with fuse!", unit, both, move || {
            let x = leaf(ELEMENTS)?;
            Ok(backward(vec![x.clone()], move || f(&x)))
        });
        fused.same_as = plain;
        fused
    });
    forward_only
        .into_iter()
        .chain(and_back.into_iter().zip(fused).flat_map(|(plain, fused)| [plain, fused]))
        .collect()
}
