//! Products against their definition, in every layout and for any number of threads.

use super::*;
use crate::dtype::DType;
use crate::shape::{Shape, broadcast_two};
use crate::tensor::Layout;
use crate::{ThreadPool, refused, tensor};

/// Whole numbers of both signs, so that every order of additions gives the same sum.
pub(super) fn numbers(shape: &[usize], seed: i64, dtype: DType) -> Tensor {
    let n: usize = shape.iter().product();
    let values: Vec<i64> = (0..n as i64).map(|i| (i * 37 + seed * 11) % 17 - 8).collect();
    Tensor::from_vec(values, shape).unwrap().to(dtype)
}

/// The definition, one element after another.
pub(super) fn naive(a: &Tensor, b: &Tensor) -> Tensor {
    let a2 = if a.rank() == 1 { a.unsqueeze(0).unwrap() } else { a.clone() };
    let b2 = if b.rank() == 1 { b.unsqueeze(1).unwrap() } else { b.clone() };
    let batch = broadcast_two("naive", batch_of(a2.dims()), batch_of(b2.dims())).unwrap();
    let (m, k, n) = (a2.dims()[a2.rank() - 2], a2.dims()[a2.rank() - 1], b2.dims()[b2.rank() - 1]);
    let full = |r: usize, c: usize| -> Vec<usize> { batch.iter().copied().chain([r, c]).collect() };
    let av = a2.expand(full(m, k)).unwrap().to(DType::F64).to_vec::<f64>().unwrap();
    let bv = b2.expand(full(k, n)).unwrap().to(DType::F64).to_vec::<f64>().unwrap();
    let mut out = vec![0.0; batch.numel() * m * n];
    for i in 0..batch.numel() {
        for r in 0..m {
            for c in 0..n {
                let sum: f64 = (0..k).map(|p| av[(i * m + r) * k + p] * bv[(i * k + p) * n + c]).sum();
                out[(i * m + r) * n + c] = sum;
            }
        }
    }
    let mut shape = batch;
    if a.rank() > 1 {
        shape.0.push(m);
    }
    if b.rank() > 1 {
        shape.0.push(n);
    }
    Tensor::from_vec(out, shape).unwrap().to(a.dtype())
}

/// The same values in memory in several ways.
pub(super) fn layouts(t: &Tensor) -> Vec<Tensor> {
    let mut all = vec![t.clone()];
    if t.rank() >= 2 {
        all.push(t.transpose(-1, -2).unwrap().contiguous().transpose(-1, -2).unwrap());
        all.push(t.flip([-1]).unwrap().contiguous().flip([-1]).unwrap());
        all.push(t.flip([-2, -1]).unwrap().contiguous().flip([-2, -1]).unwrap());
    }
    if t.rank() >= 3 {
        all.push(t.transpose(0, -2).unwrap().contiguous().transpose(0, -2).unwrap());
        all.push(t.transpose(0, -1).unwrap().contiguous().transpose(0, -1).unwrap());
        all.push(t.flip([0]).unwrap().contiguous().flip([0]).unwrap());
    }
    // Every second element along the last axis.
    let stacked = Tensor::full_with(t.dims().iter().copied().chain([2]).collect::<Vec<_>>(), 1.0, t.dtype());
    let pairs = stacked.mul(t.unsqueeze(-1).unwrap()).unwrap().contiguous();
    let (mut shape, mut strides) = (pairs.layout.shape.clone(), pairs.layout.strides());
    shape.0.remove(pairs.rank() - 1);
    strides.remove(pairs.rank() - 1);
    let layout = Layout::strided(shape, strides, usize::from(t.numel() > 0), false);
    all.push(pairs.with_layout(layout));
    all
}

const SHAPES: &[(&[usize], &[usize])] = &[
    (&[3], &[3]),
    (&[1], &[1]),
    (&[0], &[0]),
    (&[4, 3], &[3]),
    (&[3], &[3, 5]),
    (&[2, 3], &[3, 4]),
    (&[1, 1], &[1, 1]),
    (&[7, 1], &[1, 9]),
    (&[1, 16], &[16, 16]),
    (&[2, 16], &[16, 16]),
    (&[5, 7], &[7, 21]),
    (&[17, 33], &[33, 19]),
    (&[33, 40], &[40, 35]),
    (&[4, 0], &[0, 3]),
    (&[0, 4], &[4, 3]),
    (&[4, 3], &[3, 0]),
    (&[2, 3, 4], &[4, 5]),
    (&[2, 3, 4], &[4]),
    (&[4], &[2, 4, 3]),
    (&[3, 4], &[2, 4, 5]),
    (&[6, 4], &[2, 3, 4, 1]),
    (&[2, 3, 4], &[2, 4, 5]),
    (&[1, 3, 4], &[2, 4, 5]),
    (&[5, 1, 3, 4], &[2, 4, 2]),
    (&[2, 1, 3, 4], &[1, 3, 4, 2]),
    (&[0, 3, 4], &[1, 4, 2]),
    (&[3, 1, 3, 0], &[2, 0, 2]),
];

#[test]
fn products_follow_the_definition_in_every_layout() {
    for &(sa, sb) in SHAPES {
        for dtype in [DType::F32, DType::F64, DType::I64] {
            let (a, b) = (numbers(sa, 1, dtype), numbers(sb, 2, dtype));
            let want = naive(&a, &b);
            for (i, x) in layouts(&a).iter().enumerate() {
                for (j, y) in layouts(&b).iter().enumerate() {
                    let got = x.matmul(y).unwrap();
                    assert_eq!(got, want, "{sa:?} @ {sb:?} in {dtype}, layouts {i} and {j}");
                }
            }
        }
    }
}

#[test]
fn large_products_follow_the_definition() {
    let sizes =
        [(70, 65, 130), (200, 300, 64), (130, 500, 257), (3, 2000, 700), (700, 3, 2000), (64, 9, 40_000)];
    for (m, n, k) in sizes {
        let (a, b) = (numbers(&[m, k], 3, DType::F32), numbers(&[k, n], 4, DType::F32));
        let want = naive(&a, &b);
        for x in &layouts(&a)[..3] {
            for y in &layouts(&b)[..3] {
                assert_eq!(x.matmul(y).unwrap(), want, "{m} x {n} x {k}");
            }
        }
    }
}

#[test]
fn expanded_axes_are_neither_copied_nor_computed_twice() {
    let a = numbers(&[3, 4], 1, DType::F64);
    let b = numbers(&[4, 2], 2, DType::F64);
    let wide = a.expand([5, 3, 4]).unwrap().matmul(b.expand([5, 4, 2]).unwrap()).unwrap();
    assert_eq!(wide.strides(), [0, 2, 1]);
    assert_eq!(wide, a.matmul(&b).unwrap().expand([5, 3, 2]).unwrap());
    let a = numbers(&[3, 1], 1, DType::F32).expand([3, 40]).unwrap();
    let b = numbers(&[1, 50], 1, DType::F32).expand([40, 50]).unwrap();
    assert_eq!(a.matmul(&b).unwrap(), naive(&a, &b));
}

#[test]
fn an_inner_axis_that_both_are_expanded_over_is_a_factor() {
    const K: usize = 1 << 40;
    for dtype in [DType::F32, DType::F64, DType::I64] {
        let long = |v: f64| Tensor::full_with([1], v, dtype).expand([K]).unwrap();
        let want = Tensor::full_with((), 6.0 * K as f64, dtype);
        assert_eq!(long(2.0).dot(long(3.0)).unwrap(), want);
        let (row, column) = (long(2.0).unsqueeze(0).unwrap(), long(3.0).unsqueeze(1).unwrap());
        assert_eq!(row.matmul(&column).unwrap(), want.reshape([1, 1]).unwrap());
        let batch = numbers(&[3, 2, 1], 1, dtype);
        let wide = batch.expand([3, 2, K]).unwrap().matmul(&column).unwrap();
        assert_eq!(wide, batch.mul(&want).unwrap().div_trunc(2).unwrap());
        let summed = Shape::from([1, 2, 1]);
        let sum = matmul_to("t", &batch.expand([3, 2, K]).unwrap(), &column, Target::of(&summed)).unwrap();
        assert_eq!(sum, wide.sum(crate::keep(0)).unwrap());
    }
    let bias = tensor![1.0];
    let long = tensor![2.0].expand([1, K]).unwrap();
    assert_eq!(long.linear(&long, &bias).unwrap(), tensor![[1.0 + 4.0 * K as f32]]);
}

#[test]
fn same_bits_for_any_number_of_threads() {
    let wave = |shape: &[usize], dtype| {
        let n: usize = shape.iter().product();
        let values: Vec<f64> = (0..n).map(|i| (i as f64 * 0.7).sin()).collect();
        Tensor::from_vec(values, shape).unwrap().to(dtype)
    };
    let cases: [(&[usize], &[usize]); 16] = [
        (&[300, 200], &[200, 310]),
        // last tiles of a single row or column
        (&[257, 300], &[300, 97]),
        (&[97, 300], &[300, 513]),
        (&[1025, 300], &[300, 129]),
        (&[128, 784], &[784, 512]),
        (&[5, 1500], &[1500, 900]),
        (&[20, 30_000], &[30_000, 30]),
        (&[64, 40, 50], &[64, 50, 60]),
        (&[1, 70_000], &[70_000, 33]),
        (&[900, 40, 50], &[50, 60]),
        // with a vector
        (&[701, 903], &[903]),
        (&[903], &[903, 701]),
        (&[3, 50_001], &[50_001]),
        (&[50_001], &[50_001, 3]),
        (&[100_001], &[100_001]),
        (&[50, 70, 33], &[50, 33, 1]),
    ];
    let equal = |what: &str, f: &(dyn Fn() -> Tensor + Sync)| {
        let one = ThreadPool::new(1).install(f);
        for threads in [2, 3, 8] {
            assert_eq!(ThreadPool::new(threads).install(f), one, "{what} with {threads} threads");
        }
    };
    for (sa, sb) in cases {
        for dtype in [DType::F32, DType::F64] {
            let (a, b) = (wave(sa, dtype), wave(sb, dtype));
            equal(&format!("{sa:?} @ {sb:?}"), &|| a.matmul(&b).unwrap());
        }
    }
    let (a, b) = (wave(&[400, 300], DType::F32).expand([7, 400, 300]).unwrap(), wave(&[300, 90], DType::F32));
    equal("scaled", &|| matmul_to("t", &a, &b, Target::of(&[400, 90].into())).unwrap());
}

#[test]
fn sums_over_the_batch_and_priors() {
    type Case = (&'static [usize], &'static [usize], &'static [&'static [usize]]);
    let cases: [Case; 5] = [
        (&[5, 3, 4], &[5, 4, 2], &[&[3, 2], &[1, 3, 2], &[5, 3, 2]]),
        (&[2, 5, 3, 4], &[5, 4, 2], &[&[3, 2], &[5, 3, 2], &[2, 1, 3, 2], &[1, 5, 3, 2], &[1, 1, 3, 2]]),
        (&[2, 5, 3, 4], &[4], &[&[3], &[5, 3], &[2, 1, 3], &[1], &[2, 5, 1]]),
        (&[6, 4], &[6, 4, 1], &[&[6, 1], &[1, 6, 1], &[1, 1]]),
        (&[0, 3, 4], &[4, 2], &[&[3, 2], &[1, 3, 2], &[0, 3, 2]]),
    ];
    for (sa, sb, targets) in cases {
        for dtype in [DType::F32, DType::I64] {
            let (a, b) = (numbers(sa, 1, dtype), numbers(sb, 2, dtype));
            let full = naive(&a, &b);
            for &target in targets {
                let target = Shape::from(target);
                let want = full.sum_to_size(&target).unwrap();
                for x in layouts(&a) {
                    let got = matmul_to("t", &x, &b, Target::of(&target)).unwrap();
                    assert_eq!(got, want, "{sa:?} @ {sb:?} to {target}");
                    let prior = numbers(&target, 7, dtype);
                    let sum =
                        matmul_to("t", &x, &b, Target { prior: Some(prior.clone()), ..Target::of(&target) })
                            .unwrap();
                    assert_eq!(sum, want.add(&prior).unwrap(), "{sa:?} @ {sb:?} to {target} with a prior");
                    assert_eq!(prior, numbers(&target, 7, dtype), "a shared prior is left alone");
                }
            }
        }
    }
    let a = numbers(&[3, 4], 1, DType::F32).expand([7, 3, 4]).unwrap();
    let b = numbers(&[4, 2], 2, DType::F32);
    let sum = matmul_to("t", &a, &b, Target::of(&[3, 2].into())).unwrap();
    assert_eq!(sum, naive(&a, &b).sum_to_size([3, 2]).unwrap());
}

#[test]
fn a_prior_that_nobody_shares_is_written_in_place() {
    let (a, b) = (numbers(&[30, 4], 1, DType::F32), numbers(&[4, 40], 2, DType::F32));
    let prior = Tensor::zeros([30, 40]);
    let place = prior.as_slice::<f32>().unwrap().as_ptr();
    let sum = matmul_to("t", &a, &b, Target { prior: Some(prior), ..Target::of(&[30, 40].into()) }).unwrap();
    assert_eq!(sum.as_slice::<f32>().unwrap().as_ptr(), place);
    assert_eq!(sum, naive(&a, &b));
}

#[test]
fn infinities_and_nan_do_not_leak_between_elements() {
    for n in [3, 40] {
        let mut values = vec![1.0f32; n * n];
        values[n + 1] = f32::INFINITY;
        values[2 * n + 2] = f32::NAN;
        let a = Tensor::from_vec(values, [n, n]).unwrap();
        let r = a.matmul(Tensor::ones([n, 2])).unwrap().to_vec::<f32>().unwrap();
        assert!(
            r[0] == n as f32
                && r[2] == f32::INFINITY
                && r[4].is_nan()
                && r[6..].iter().all(|&v| v == n as f32)
        );
    }
}

#[test]
fn bad_operands_are_refused() {
    let t = |shape: &[usize]| Tensor::ones(shape);
    let refused = |a: &Tensor, b: &Tensor| a.matmul(b).unwrap_err();
    assert!(matches!(refused(&t(&[]), &t(&[2])).facts(), Some(TensorFacts::Rank { found: 0, .. })));
    assert!(matches!(refused(&t(&[2]), &t(&[])).facts(), Some(TensorFacts::Rank { found: 0, .. })));
    assert!(matches!(refused(&t(&[2, 3]), &t(&[2, 3])).facts(), Some(TensorFacts::Matmul { .. })));
    assert!(matches!(refused(&t(&[3]), &t(&[2])).facts(), Some(TensorFacts::Matmul { .. })));
    assert!(matches!(refused(&t(&[2, 2, 3]), &t(&[3, 3, 2])).facts(), Some(TensorFacts::Broadcast { .. })));
    let double = t(&[3, 2]).to(DType::F64);
    let (a, b) = (("left", DType::F32), ("right", DType::F64));
    assert_eq!(refused(&t(&[2, 3]), &double), TensorFacts::MixedDTypes { op: "matmul", a, b });
    let truth = Tensor::ones_with([2, 2], DType::Bool);
    assert!(matches!(refused(&truth, &truth).facts(), Some(TensorFacts::DTypeUnsupported { .. })));
    let tall = t(&[1, 1]).expand([1usize << 40, 1]).unwrap();
    assert!(matches!(
        refused(&tall, &tall.transpose(0, 1).unwrap()).facts(),
        Some(TensorFacts::TooLarge { .. })
    ));
    assert!(refused!(t(&[3]).mm(t(&[3, 2])), TensorFacts::Rank { expected: "2", found: 1, .. }));
    assert!(refused!(t(&[2, 3, 1]).bmm(t(&[1, 1, 2])), TensorFacts::Matmul { .. }));
    assert!(refused!(t(&[2, 3]).bmm(t(&[3, 2])), TensorFacts::Rank { expected: "3", .. }));
    assert!(refused!(t(&[2, 3]).mv(t(&[3, 1])), TensorFacts::Rank { expected: "1", .. }));
    assert!(refused!(t(&[2, 3]).dot(t(&[3])), TensorFacts::Rank { expected: "1", .. }));
    assert!(refused!(t(&[2]).dot(t(&[3])), TensorFacts::Matmul { .. }));
    let prior = Some(t(&[2, 2]));
    assert!(refused!(
        matmul_to("t", &t(&[2, 3]), &t(&[3, 4]), Target { prior, ..Target::of(&[2, 4].into()) }),
        TensorFacts::ShapeMismatch { .. }
    ));
    assert!(refused!(
        matmul_to("t", &t(&[2, 3]), &t(&[3, 4]), Target::of(&[3, 4].into())),
        TensorFacts::Expand { .. } | TensorFacts::Broadcast { .. }
    ));
}
