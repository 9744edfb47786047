//! W1 to W6: operands of different shapes, forward and back.

use foldback::graph::Var;
use foldback::tensor::keep;
use foldback::{Result, fuse};

use super::{Unit, Work, Workload, backward, bytes, forward, leaf, tensor};
use crate::inputs::*;

pub(super) fn list() -> Vec<Workload> {
    let x = bytes(&X.shape);
    let mut list = vec![
        Workload::new(
            "W1",
            "bias add [4096, 1024] + [1024]",
            elements(x),
            Work { copied: x, ..Work::default() },
            || {
                let (x, w) = (tensor(X)?, tensor(ROW)?);
                Ok(forward(move || x.add(&w)))
            },
        ),
        Workload::new(
            "W2",
            "outer [2048, 1] * [1, 2048]",
            Unit::Elements(2048 * 2048),
            Work { written: bytes(&[2048, 2048]), ..Work::default() },
            || {
                let (a, b) = (tensor(OUTER_COLUMN)?, tensor(OUTER_ROW)?);
                Ok(forward(move || a.mul(&b)))
            },
        ),
    ];
    list.extend(product_sum(["W3", "W3-fuse"], "(x * w).sum() and back, w [1024]", X, ROW));
    list.extend(product_sum(["W4", "W4-fuse"], "(x * w).sum() and back, w [4096, 1]", X, COLUMN));
    list.extend(product_sum(["W5", "W5-fuse"], "the same, x [64, 128, 256], w [1, 128, 1]", CUBE, MIDDLE));
    list.push(Workload::new(
        "W5b",
        "((x * w + b)^2).sum() and back",
        elements(x),
        read_then_write(x),
        || {
            let (x, w, b) = (leaf(X)?, leaf(ROW)?, leaf(BIAS)?);
            Ok(backward(vec![x.clone(), w.clone(), b.clone()], move || (&(&x * &w) + &b).square().sum(..)))
        },
    ));
    let mut fused = Workload::new("W5b-fuse", "the same with fuse!", elements(x), read_then_write(x), || {
        let (x, w, b) = (leaf(X)?, leaf(ROW)?, leaf(BIAS)?);
        let loss = fuse!(|x, w, b| (x * w + b).square());
        Ok(backward(vec![x.clone(), w.clone(), b.clone()], move || loss.sum([&x, &w, &b], ..)))
    });
    fused.same_as = "W5b";
    list.push(fused);
    let samples = bytes(&SAMPLES.shape);
    // The mean, the variance and the output each need the samples; so do the gradients, once for their sums and once
    // for the result. The loss's weights are a column.
    let work = Work { read: 3 * samples + samples, copied: samples, ..Work::default() };
    list.push(Workload::new(
        "W6",
        "batch norm of operators, [4096, 256], and back",
        elements(samples),
        work,
        || {
            let (x, gamma, beta) = (leaf(SAMPLES)?, leaf(GAMMA)?, leaf(BETA)?);
            let weight = tensor(SAMPLE_WEIGHT)?;
            Ok(backward(vec![x.clone(), gamma.clone(), beta.clone()], move || {
                let y = batch_norm(&x, &gamma, &beta)?;
                y.mul(&weight)?.sum(..)
            }))
        },
    ));
    let mut fused = Workload::new("W6-fuse", "the same with fuse!", elements(samples), work, || {
        let (x, gamma, beta) = (leaf(SAMPLES)?, leaf(GAMMA)?, leaf(BETA)?);
        let weight = Var::from(tensor(SAMPLE_WEIGHT)?);
        Ok(backward(vec![x.clone(), gamma.clone(), beta.clone()], move || {
            fused_batch_norm(&x, &gamma, &beta, &weight)
        }))
    });
    fused.same_as = "W6";
    list.push(fused);
    list
}

/// `(x * w).sum()` and the gradients of both, plain and fused.
/// So few elements that next to nothing is computed.
pub(super) fn few() -> [Workload; 2] {
    product_sum(["W23", "W23-fuse"], "(x * w).sum() and back, ten elements", TEN, TEN_WEIGHTS)
}

fn product_sum<const N: usize, const M: usize>(
    [plain, fused]: [&'static str; 2],
    title: &str,
    x: Input<N>,
    w: Input<M>,
) -> [Workload; 2] {
    let size = bytes(&x.shape);
    let plain = Workload::new(plain, title, elements(size), read_then_write(size), move || {
        let (x, w) = (leaf(x)?, leaf(w)?);
        Ok(backward(vec![x.clone(), w.clone()], move || (&x * &w).sum(..)))
    });
    let mut fused =
        Workload::new(fused, "the same with fuse!", elements(size), read_then_write(size), move || {
            let (x, w) = (leaf(x)?, leaf(w)?);
            let product = fuse!(|x, w| x * w);
            Ok(backward(vec![x.clone(), w.clone()], move || product.sum([&x, &w], ..)))
        });
    fused.same_as = plain.key;
    [plain, fused]
}

/// Over the first axis, with operations that broadcast, as PyTorch's page on batch norm writes it.
fn batch_norm(x: &Var, gamma: &Var, beta: &Var) -> Result<Var> {
    let centred = x - &x.mean(keep(0))?;
    let variance = centred.square().mean(keep(0))?;
    let deviation = (&variance + EPSILON).sqrt();
    Ok(&(&(&centred / &deviation) * gamma) + beta)
}

/// The same, and its weighted sum, in fused expressions.
fn fused_batch_norm(x: &Var, gamma: &Var, beta: &Var, weight: &Var) -> Result<Var> {
    let mean = x.mean(keep(0))?;
    let variance = fuse!(|x, mean| (x - mean).square()).mean([x, &mean], keep(0))?;
    let eps = EPSILON;
    let scale = fuse!(|v, gamma; eps| gamma * (v + eps).rsqrt()).call([&variance, gamma])?;
    let loss = fuse!(|x, mean, scale, beta, weight| ((x - mean) * scale + beta) * weight);
    loss.sum([x, &mean, &scale, beta, weight], ..)
}

/// The loss reads the operand; the gradients read it once more and write one of its size.
fn read_then_write(size: usize) -> Work {
    Work { read: size, copied: size, ..Work::default() }
}

fn elements(bytes: usize) -> Unit {
    Unit::Elements(bytes / 4)
}
