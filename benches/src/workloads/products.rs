//! W12: matrix products.

use super::{Unit, Work, Workload, backward, bytes, forward, leaf, tensor};
use crate::inputs::{BATCH_A, BATCH_B, factors};

pub(super) fn list() -> Vec<Workload> {
    let sizes = [("W12-64", 64), ("W12-256", 256), ("W12-1024", 1024), ("W12-2048", 2048)];
    let mut list: Vec<_> = sizes.into_iter().map(|(key, n)| square(key, n)).collect();
    // 256 products of 128 x 64 x 128. The gradient of a sum is one number, so its products are sums of the operands; a
    // gradient that differs from element to element takes twice as many products as the result.
    let forward = 256 * 2 * 128 * 64 * 128;
    let [sum, dense] = [forward, 3 * forward].map(|flops| Work { flops, ..Work::default() });
    let unit = Unit::Elements(256 * 128 * 128);
    list.push(Workload::new(
        "W12b",
        "[32, 1, 128, 64] @ [1, 8, 64, 128], its sum, and back",
        unit,
        sum,
        || {
            let (a, b) = (leaf(BATCH_A)?, leaf(BATCH_B)?);
            Ok(backward(vec![a.clone(), b.clone()], move || a.matmul(&b)?.sum(..)))
        },
    ));
    list.push(Workload::new(
        "W12b-dense",
        "the sum of the squares of that product, and back",
        unit,
        dense,
        || {
            let (a, b) = (leaf(BATCH_A)?, leaf(BATCH_B)?);
            Ok(backward(vec![a.clone(), b.clone()], move || a.matmul(&b)?.square().sum(..)))
        },
    ));
    list
}

fn square(key: &'static str, n: usize) -> Workload {
    let work = Work { flops: 2 * n * n * n, ..Work::default() };
    Workload::new(
        key,
        format!("matmul [{n}, {n}] @ [{n}, {n}]"),
        Unit::Elements(bytes(&[n, n]) / 4),
        work,
        move || {
            let [a, b] = factors(n);
            let (a, b) = (tensor(a)?, tensor(b)?);
            Ok(forward(move || a.matmul(&b)))
        },
    )
}
