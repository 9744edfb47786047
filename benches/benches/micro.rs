//! Single operations on tensors so small that what surrounds the arithmetic is what costs:
//! `cargo bench -p benches --bench micro`.

use divan::{Bencher, black_box};
use foldback::prelude::*;
use foldback::tensor::set_num_threads;

const SIZES: [usize; 4] = [1, 16, 256, 4096];

fn main() {
    set_num_threads(1);
    divan::main();
}

fn values(n: usize) -> Tensor {
    Tensor::full([n], 0.5)
}

/// Equal shapes: no plan is needed.
#[divan::bench(args = SIZES)]
fn add(bencher: Bencher<'_, '_>, n: usize) {
    let (a, b) = (values(n), values(n));
    bencher.bench_local(|| black_box(&a).add(&b));
}

/// A row against a column.
#[divan::bench(args = [1, 4, 16, 64])]
fn add_crossed(bencher: Bencher<'_, '_>, n: usize) {
    let (a, b) = (Tensor::ones([n, 1]), Tensor::ones([1, n]));
    bencher.bench_local(|| black_box(&a).add(&b));
}

#[divan::bench(args = SIZES)]
fn add_number(bencher: Bencher<'_, '_>, n: usize) {
    let a = values(n);
    bencher.bench_local(|| black_box(&a).add(1.5));
}

#[divan::bench(args = SIZES)]
fn sum(bencher: Bencher<'_, '_>, n: usize) {
    let a = values(n);
    bencher.bench_local(|| black_box(&a).sum(..));
}

#[divan::bench(args = [1, 4, 16, 64])]
fn transposed_copy(bencher: Bencher<'_, '_>, n: usize) {
    let a = Tensor::ones([n, n]).t();
    bencher.bench_local(|| black_box(&a).contiguous());
}

#[divan::bench(args = [1, 4, 8, 16, 32])]
fn matmul(bencher: Bencher<'_, '_>, n: usize) {
    let (a, b) = (Tensor::ones([n, n]), Tensor::ones([n, n]));
    bencher.bench_local(|| black_box(&a).matmul(&b));
}

/// A matrix whose rows the sums run along, and one whose rows are added up.
#[divan::bench(args = [16, 64, 256, 1024])]
fn matrix_vector(bencher: Bencher<'_, '_>, n: usize) {
    let (a, x) = (Tensor::ones([n, n]), values(n));
    bencher.bench_local(|| black_box(&a).matmul(&x));
}

#[divan::bench(args = [16, 64, 256, 1024])]
fn vector_matrix(bencher: Bencher<'_, '_>, n: usize) {
    let (x, a) = (values(n), Tensor::ones([n, n]));
    bencher.bench_local(|| black_box(&x).matmul(&a));
}

/// Records a node and drops it.
#[divan::bench(args = SIZES)]
fn record_mul(bencher: Bencher<'_, '_>, n: usize) {
    let (a, b) = (values(n).requires_grad(), values(n).requires_grad());
    bencher.bench_local(|| black_box(&a).mul(&b));
}

/// The smallest whole pass: one product, one sum.
#[divan::bench(args = SIZES)]
fn backward(bencher: Bencher<'_, '_>, n: usize) {
    let (a, b) = (values(n).requires_grad(), values(n).requires_grad());
    bencher.bench_local(|| {
        a.zero_grad();
        b.zero_grad();
        black_box(&a * &b).sum(..)?.backward()
    });
}
