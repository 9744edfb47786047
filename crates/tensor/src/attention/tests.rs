//! Attention against its definition, at sizes that are cut into blocks, and what it does where nothing is seen.

use super::*;
use crate::dtype::DType;
use crate::{TensorFacts, ThreadPool, assert_close, keep, refused, s, tensor};

fn wave(shape: &[usize], k: f64, dtype: DType) -> Tensor {
    let n = shape.iter().product::<usize>() as i64;
    let t = Tensor::arange_with(0..n, 1, DType::F64).mul(k).unwrap().sin();
    t.reshape(shape).unwrap().to(dtype)
}

/// The result and the gradients for queries, keys and values, with the matrix of scores.
fn defined(g: &Tensor, [q, k, v]: [&Tensor; 3], added: &Tensor, scale: f64) -> [Tensor; 4] {
    let scores = q.matmul(k.transpose(-2, -1).unwrap()).unwrap() * scale + added;
    let unseen = scores.eq(f64::NEG_INFINITY).unwrap().all(keep(-1)).unwrap();
    let p = unseen.where_cond(0.0, scores.softmax(-1).unwrap()).unwrap();
    let d = g.matmul(v.transpose(-2, -1).unwrap()).unwrap();
    let slopes = &p * (&d - (&d * &p).sum(keep(-1)).unwrap()) * scale;
    [
        p.matmul(v).unwrap(),
        slopes.matmul(k).unwrap(),
        slopes.transpose(-2, -1).unwrap().matmul(q).unwrap(),
        p.transpose(-2, -1).unwrap().matmul(g).unwrap(),
    ]
}

fn all(g: &Tensor, qkv: [&Tensor; 3], options: Attention<Option<&Tensor>>) -> [Tensor; 4] {
    let how = Attending::new(qkv, options.mask, &options.mask(())).unwrap();
    let forward = how.forward(qkv, options.mask).unwrap();
    let [dq, dk, dv] = how.backward(g, qkv, options.mask, &forward).unwrap();
    let [y, _] = forward;
    [y, dq, dk, dv]
}

#[test]
fn blocks_follow_the_definition_for_any_number_of_threads() {
    for (dtype, tolerance) in [(DType::F64, 1e-12), (DType::F32, 1e-4)] {
        for (l, s, e, v) in
            [(1, 1, 1, 1), (5, 7, 3, 2), (40, 33, 3, 2), (150, 141, 2, 1), (300, 513, 5, 3), (9, 2000, 2, 1)]
        {
            let [q, k, value, g] =
                [[l, e], [s, e], [s, v], [l, v]].map(|[a, b]| wave(&[2, a, b], 0.7, dtype));
            let added = wave(&[l, s], 0.3, dtype);
            let truth = added.gt(-0.5).unwrap();
            let seen = |mask: &Tensor| mask.where_cond(0.0, f64::NEG_INFINITY).unwrap().to(dtype);
            let causal = Tensor::ones_with([l, s], DType::Bool).tril();
            let plain = Attention::new().scale(0.4).mask(None);
            for (options, added) in [
                (plain, Tensor::zeros_with((), dtype)),
                (plain.is_causal(true), seen(&causal)),
                (plain.mask(Some(&added)), added.clone()),
                (plain.mask(Some(&truth)), seen(&truth)),
            ] {
                let found = all(&g, [&q, &k, &value], options);
                for threads in [1, 3] {
                    let again = ThreadPool::new(threads).install(|| all(&g, [&q, &k, &value], options));
                    assert_eq!(again, found);
                }
                for (found, want) in found.iter().zip(defined(&g, [&q, &k, &value], &added, 0.4)) {
                    assert_close!(found, want, atol = tolerance, rtol = tolerance);
                }
            }
        }
    }
}

#[test]
fn scores_may_grow_and_be_unseen_from_block_to_block() {
    let (l, n) = (70, 600);
    let grows = Tensor::arange_with(0..n, 1, DType::F64).mul(0.02).unwrap().unsqueeze(1).unwrap();
    let [q, v, g] = [[l, 2], [n, 3], [l, 3]].map(|[a, b]| wave(&[a, b], 0.7, DType::F64));
    let [up, down] = [1.0, -1.0].map(|sign| {
        let k = wave(&[n, 2], 1.3, DType::F64);
        &k * (&grows * sign).exp()
    });
    // Query number i sees keys from 9 i on, so that some see nothing of the first blocks, and the last one nothing at all.
    let from = Tensor::arange(0..l).mul(9).unwrap().unsqueeze(1).unwrap();
    let truth = Tensor::arange(0..n).ge(&from).unwrap();
    let added = truth.where_cond(0.0, f64::NEG_INFINITY).unwrap().double();
    assert!(!truth.narrow(0, l - 1, 1).unwrap().any(..).unwrap().item_as::<bool>().unwrap());
    for k in [up, down] {
        let found = all(&g, [&q, &k, &v], Attention::new().scale(0.4).mask(Some(&truth)));
        for (found, want) in found.iter().zip(defined(&g, [&q, &k, &v], &added, 0.4)) {
            assert_close!(found, want, atol = 1e-9, rtol = 1e-9);
        }
    }
    // What is no number in one block is none in the whole row, and in no other.
    let k = wave(&[n, 2], 1.3, DType::F64);
    let mut nan = Tensor::zeros_with([l, n], DType::F64);
    nan.slice_assign(s![3, 500], f64::NAN).unwrap();
    let y = q.scaled_dot_product_attention_with(&k, &v, Attention::new().mask(&nan)).unwrap();
    let is_nan = y.isnan().any(1).unwrap();
    assert_eq!(is_nan, Tensor::arange(0..l).eq(3).unwrap());
}

/// Shares of the backward step are those of the forward step to the last bit, however large the scores are and wherever threads
/// meet: what a query gives its keys sums up to its gradient.
#[test]
fn shares_sum_up_to_one_in_the_backward_step_too() {
    for (l, s, e) in [(257, 257, 16), (258, 40, 64), (65, 65, 16), (129, 300, 3)] {
        for (dtype, scale) in [(DType::F32, 1e3), (DType::F32, 1e4), (DType::F64, 1e8)] {
            let [q, k, v, g] = [([l, e], 0.7), ([s, e], 1.3), ([s, 3], 0.2), ([l, 3], 0.9)]
                .map(|([a, b], step)| wave(&[7, a, b], step, dtype));
            let (q, k) = (q * scale, k * scale);
            for causal in [false, true] {
                let options = Attention::new().mask(None).is_causal(causal);
                let [y, _, _, dv] = all(&g, [&q, &k, &v], options);
                assert_close!(dv.sum(1).unwrap(), g.sum(1).unwrap(), atol = 1e-3, rtol = 1e-4);
                assert!(y.abs().max(..).unwrap().item().unwrap() < 1.001);
            }
        }
    }
}

#[test]
fn masks_may_lie_backwards() {
    let [q, k, v] = [[3, 2], [4, 2], [4, 2]].map(|shape| wave(&shape, 0.9, DType::F64));
    let added = wave(&[3, 4], 0.4, DType::F64);
    for mask in [added.clone(), added.gt(0).unwrap()] {
        for axes in [vec![0], vec![1], vec![0, 1]] {
            let flipped = mask.flip(axes.as_slice()).unwrap();
            let (with, want) = [flipped.clone(), flipped.contiguous()]
                .map(|mask| {
                    q.scaled_dot_product_attention_with(&k, &v, Attention::new().mask(&mask)).unwrap()
                })
                .into();
            assert_eq!(with, want);
        }
    }
    let one = tensor![[1.0], [2.0]].flip([0, 1]).unwrap();
    let (x, k) = (tensor![[1.0], [1.0]], tensor![[1.0]]);
    let y = x.scaled_dot_product_attention_with(&k, &k, Attention::new().mask(&one)).unwrap();
    assert_eq!(y, tensor![[1.0], [1.0]]);
}

#[test]
fn heads_are_read_where_they_lie() {
    // As a layer of several heads cuts them: [b, l, h, e] seen as [b, h, l, e].
    let x = wave(&[2, 9, 3, 4], 0.6, DType::F64);
    let heads = x.transpose(1, 2).unwrap();
    let (own, mask) =
        (heads.contiguous(), wave(&[9, 3], 1.1, DType::F64).matmul(wave(&[3, 9], 0.2, DType::F64)).unwrap());
    let options = Attention::new().mask(mask.t());
    let found = heads.scaled_dot_product_attention_with(&heads, &heads, options.clone()).unwrap();
    assert_eq!(found, own.scaled_dot_product_attention_with(&own, &own, options).unwrap());
    // Shared by all: nothing is copied for it.
    let one = own.narrow(1, 0, 1).unwrap();
    let spread = one.expand([2, 3, 9, 4]).unwrap().contiguous();
    assert_eq!(
        own.scaled_dot_product_attention(&one, &one).unwrap(),
        own.scaled_dot_product_attention(&spread, &spread).unwrap()
    );
}

#[test]
fn a_query_that_sees_nothing_gives_zeros() {
    let (q, k, v) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![[1.0, 0.0], [0.0, 1.0]], tensor![[5.0], [7.0]]);
    for mask in [
        tensor![[true, false], [false, false]],
        tensor![[0.0, f32::NEG_INFINITY], [f32::NEG_INFINITY, f32::NEG_INFINITY]],
    ] {
        let [y, dq, dk, dv] = all(&tensor![[1.0], [1.0]], [&q, &k, &v], Attention::new().mask(Some(&mask)));
        assert_eq!(y, tensor![[5.0], [0.0]]);
        assert_eq!((dq, dk), (q.zeros_like(), k.zeros_like()));
        assert_eq!(dv, tensor![[1.0], [0.0]]);
    }
    // A row that is no number stays one, and alone.
    let y = tensor![[f32::NAN, 0.0], [0.0, 0.0]].scaled_dot_product_attention(&k, &v).unwrap();
    assert!(y.select(0, 0).unwrap().item().unwrap().is_nan());
    assert_eq!(y.select(0, 1).unwrap(), tensor![6.0]);
    let none = Tensor::zeros([0, 2]);
    assert_eq!(q.scaled_dot_product_attention(&none, Tensor::zeros([0, 1])).unwrap(), Tensor::zeros([2, 1]));
    assert_eq!(none.scaled_dot_product_attention(&k, &v).unwrap().dims(), [0, 1]);
}

#[test]
fn heads_of_queries_share_heads_of_keys() {
    let [q, k, v] = [[4, 3, 2], [2, 5, 2], [2, 5, 2]].map(|shape| wave(&shape, 0.9, DType::F64));
    let twice =
        |t: &Tensor| t.unsqueeze(1).unwrap().expand([2, 2, 5, 2]).unwrap().reshape([4, 5, 2]).unwrap();
    let grouped = q.scaled_dot_product_attention_with(&k, &v, Attention::new().enable_gqa(true)).unwrap();
    assert_eq!(grouped, q.scaled_dot_product_attention(twice(&k), twice(&v)).unwrap());
    let e = q.scaled_dot_product_attention_with(
        wave(&[3, 5, 2], 1.0, DType::F64),
        &v,
        Attention::new().enable_gqa(true),
    );
    assert!(e.unwrap_err().to_string().contains("which divide those of queries"));
}

#[test]
fn what_does_not_fit_is_refused() {
    let (x, mask) = (Tensor::ones([2, 3]), Tensor::ones_with([2, 2], DType::Bool));
    let with = |options: Attention<&Tensor>| x.scaled_dot_product_attention_with(&x, &x, options);
    let e = with(Attention::new().is_causal(true).mask(&mask)).unwrap_err().to_string();
    assert!(e.contains("put both into one mask"), "{e}");
    assert!(refused!(with(Attention::new().dropout_p(1.5).mask(&mask)), TensorFacts::Parameter { .. }));
    assert!(refused!(with(Attention::new().mask(&mask.long())), TensorFacts::MixedDTypes { .. }));
    assert!(refused!(with(Attention::new().mask(&Tensor::ones([3, 2]))), TensorFacts::Expand { .. }));
    assert!(refused!(x.long().scaled_dot_product_attention(&x, &x), TensorFacts::DTypeUnsupported { .. }));
    assert!(refused!(x.scaled_dot_product_attention(x.double(), &x), TensorFacts::MixedDTypes { .. }));
    assert!(refused!(
        x.scaled_dot_product_attention(Tensor::ones([2, 4]), &x),
        TensorFacts::ShapeMismatch { .. }
    ));
    assert!(refused!(
        x.scaled_dot_product_attention(&x, Tensor::ones([4, 3])),
        TensorFacts::ShapeMismatch { .. }
    ));
    assert!(refused!(x.scaled_dot_product_attention(2.0, &x), TensorFacts::Rank { .. }));
    let dropped = x.scaled_dot_product_attention_with(&x, &x, Attention::new().dropout_p(1)).unwrap();
    assert_eq!(dropped, Tensor::zeros([2, 3]));
}

/// A query that sees one key has no slope by it, and no key has one by its queries: exactly, as its share is 1 whatever it is.
#[test]
fn the_only_key_that_is_seen_has_no_slope() {
    for (s, mask) in [(1, None), (9, Some(Tensor::arange(9).eq(4).unwrap()))] {
        let [q, k, v, g] = [[7, 5], [s, 5], [s, 3], [7, 3]].map(|d| wave(&[2, d[0], d[1]], 0.7, DType::F32));
        let found = all(&g, [&q, &k, &v], Attention::new().mask(mask.as_ref()));
        assert_eq!([&found[1], &found[2]], [&q.zeros_like(), &k.zeros_like()]);
    }
}
