//! Every equation against its definition: a loop over all values of all labels.

use std::collections::BTreeMap;

use super::equation::{Equation, Label};
use crate::{DType, Tensor, TensorFacts, refused, tensor};

/// The definition, for whole numbers.
fn naive(equation: &str, operands: &[Tensor]) -> Tensor {
    let ranks: Vec<usize> = operands.iter().map(Tensor::rank).collect();
    let parsed = Equation::parse(equation, &ranks).unwrap();
    let mut sizes: BTreeMap<Label, usize> = BTreeMap::new();
    for (t, labels) in operands.iter().zip(&parsed.operands) {
        for (&l, &n) in labels.iter().zip(t.dims()) {
            let size = sizes.entry(l).or_insert(n);
            *size = if *size == 1 { n } else { *size };
        }
    }
    let shape: Vec<usize> = parsed.result.iter().map(|l| sizes[l]).collect();
    let mut out = vec![0.0; shape.iter().product()];
    let values: Vec<Vec<f64>> = operands.iter().map(|t| t.double().to_vec().unwrap()).collect();
    let all: Vec<(Label, usize)> = sizes.into_iter().collect();
    for number in 0..all.iter().map(|(_, n)| n).product() {
        let mut rest = number;
        let at: BTreeMap<Label, usize> = all
            .iter()
            .map(|&(l, n)| {
                let i = rest % n;
                rest /= n;
                (l, i)
            })
            .collect();
        let place = |labels: &[Label], dims: &[usize]| {
            labels.iter().zip(dims).fold(0, |p, (l, &n)| p * n + if n == 1 { 0 } else { at[l] })
        };
        let product: f64 =
            (0..operands.len()).map(|k| values[k][place(&parsed.operands[k], operands[k].dims())]).product();
        out[place(&parsed.result, &shape)] += product;
    }
    Tensor::from_vec(out, shape).unwrap()
}

fn operand(shape: &[usize], seed: i64) -> Tensor {
    let n = shape.iter().product::<usize>() as i64;
    Tensor::from_vec((0..n).map(|i| (i * 5 + seed * 3) % 7 - 3).collect::<Vec<_>>(), shape).unwrap()
}

/// Equations, and the shapes of their operands.
const CASES: &[(&str, &[&[usize]])] = &[
    ("ij,jk->ik", &[&[2, 3], &[3, 4]]),
    ("ij,jk", &[&[2, 3], &[3, 4]]),
    ("ji,kj->ki", &[&[2, 3], &[4, 2]]),
    (" i j , j k -> k i ", &[&[2, 3], &[3, 4]]),
    ("i,j->ij", &[&[2], &[3]]),
    ("i,i", &[&[3], &[3]]),
    ("i,i->i", &[&[3], &[3]]),
    ("ij,ij->", &[&[2, 3], &[2, 3]]),
    ("ij,ij->i", &[&[2, 3], &[2, 3]]),
    ("ij,ji->j", &[&[2, 3], &[3, 2]]),
    ("bij,bjk->bik", &[&[2, 3, 2], &[2, 2, 3]]),
    ("bij,bjk->ikb", &[&[2, 3, 2], &[2, 2, 3]]),
    ("bhqd,bhkd->bhqk", &[&[2, 3, 2, 4], &[2, 3, 5, 4]]),
    ("bhqd,khbd->bqhk", &[&[2, 3, 2, 4], &[5, 3, 2, 4]]),
    ("...ij,...jk->...ik", &[&[2, 1, 2, 3], &[4, 3, 2]]),
    ("...ij,...jk", &[&[2, 3], &[5, 3, 2]]),
    ("i...,...i->...", &[&[3, 2], &[4, 2, 3]]),
    ("...,...", &[&[2, 1], &[3]]),
    ("...i->i...", &[&[2, 3, 4]]),
    ("...ij->ij", &[&[5, 2, 3]]),
    ("...->", &[&[2, 3]]),
    ("i->...", &[&[2]]),
    ("ij->ji", &[&[2, 3]]),
    ("ij->j", &[&[2, 3]]),
    ("ij->", &[&[2, 3]]),
    ("ba", &[&[2, 3]]),
    ("bA", &[&[2, 3]]),
    ("ii", &[&[3, 3]]),
    ("ii->i", &[&[3, 3]]),
    ("iii->i", &[&[2, 2, 2]]),
    ("iij->ji", &[&[2, 2, 3]]),
    ("ijij->ji", &[&[2, 3, 2, 3]]),
    ("ii...->...i", &[&[2, 2, 3]]),
    ("ii,ij->j", &[&[3, 3], &[3, 2]]),
    ("ij,kj->ik", &[&[2, 1], &[4, 3]]),
    ("ij,ij->ij", &[&[2, 1], &[1, 3]]),
    ("ij,ij->j", &[&[2, 1], &[1, 3]]),
    ("bij,bjk->bik", &[&[1, 3, 2], &[4, 2, 1]]),
    ("ij,kl->il", &[&[2, 3], &[4, 2]]),
    ("ij,jk,kl->il", &[&[2, 3], &[3, 4], &[4, 2]]),
    ("i,i,i->", &[&[3], &[3], &[3]]),
    ("ab,bc,ca->abc", &[&[2, 3], &[3, 2], &[2, 2]]),
    ("abc,cd,de,ea->b", &[&[2, 3, 4], &[4, 2], &[2, 5], &[5, 2]]),
    ("ij,i,j->", &[&[2, 3], &[2], &[1]]),
    ("i,j,k,l->lkji", &[&[2], &[3], &[1], &[2]]),
    ("ij,", &[&[2, 3], &[]]),
    (",", &[&[], &[]]),
    ("", &[&[]]),
    ("->", &[&[]]),
    ("i,i->i", &[&[0], &[0]]),
    ("ij,j->i", &[&[2, 0], &[0]]),
    ("ij,jk->ik", &[&[0, 2], &[2, 3]]),
    ("ii->i", &[&[0, 0]]),
];

#[test]
fn equations_follow_the_definition() {
    for &(equation, shapes) in CASES {
        let operands: Vec<Tensor> = shapes.iter().zip(1..).map(|(s, k)| operand(s, k)).collect();
        let want = naive(equation, &operands);
        for dtype in [DType::F64, DType::F32, DType::I64] {
            let cast: Vec<Tensor> = operands.iter().map(|t| t.to(dtype)).collect();
            assert_eq!(Tensor::einsum(equation, &cast).unwrap(), want.to(dtype), "{equation} {shapes:?}");
            let turned: Vec<Tensor> = cast
                .iter()
                .map(|t| {
                    if t.rank() < 2 {
                        t.clone()
                    } else {
                        t.transpose(0, -1).unwrap().contiguous().transpose(0, -1).unwrap()
                    }
                })
                .collect();
            assert_eq!(Tensor::einsum(equation, &turned).unwrap(), want.to(dtype), "{equation} turned");
        }
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let refusals: &[(&str, &[&[usize]], &str)] = &[
        ("ij,jk->ik", &[&[2, 3], &[4, 2]], "label 'j' has size 3 in operand 0 and 4 in operand 1"),
        ("ii", &[&[1, 3]], "label 'i' has size 1 in operand 0 and 3 in operand 0"),
        (
            "...i,...i",
            &[&[2, 3], &[4, 3]],
            "axis 0 from the right under the ellipsis has size 2 in operand 0 and 4",
        ),
        ("ij,jk", &[&[2, 3]], "it names 2 operands, 1 are given"),
        ("ij", &[&[2, 3], &[2, 3]], "it names 1 operands, 2 are given"),
        ("ij->ik", &[&[2, 3]], "label 'k' of the result is in no operand"),
        ("ij->ii", &[&[2, 3]], "label 'i' stands twice in the result"),
        ("ijk", &[&[2, 3]], "operand 0 has rank 2 and 3 labels"),
        ("i", &[&[2, 3]], "operand 0 has rank 2 and 1 labels"),
        ("...ijk", &[&[2, 3]], "operand 0 has rank 2 and 3 labels"),
        ("i1", &[&[2, 3]], "'1' is no label"),
        ("iß", &[&[2, 3]], "'ß' is no label"),
        ("i..j", &[&[2, 3]], "'.' is no label"),
        ("ij-k", &[&[2, 3]], "'-' is no label"),
        ("ij->i->j", &[&[2, 3]], "'-' is no label"),
        ("...i...", &[&[2, 3]], "two ellipses in \"...i...\""),
        ("i...->...i...", &[&[2, 3]], "two ellipses"),
    ];
    for &(equation, shapes, problem) in refusals {
        let operands: Vec<Tensor> = shapes.iter().map(|s| Tensor::zeros(*s)).collect();
        let e = Tensor::einsum(equation, &operands).unwrap_err();
        assert!(e.to_string().starts_with(&format!("einsum: {equation:?}: {problem}")), "{e}");
    }
    assert!(refused!(Tensor::einsum("", [] as [Tensor; 0]), TensorFacts::NoTensors { op: "einsum" }));
    let (x, d) = (Tensor::ones([2, 2]), Tensor::ones_with([2, 2], DType::F64));
    assert!(refused!(Tensor::einsum("ij,jk", [&x, &d]), TensorFacts::MixedDTypes { op: "einsum", .. }));
    assert!(refused!(
        Tensor::einsum("ij,jk", [x.bool(), x.bool()]),
        TensorFacts::DTypeUnsupported { op: "einsum", .. }
    ));
    assert_eq!(Tensor::einsum("ij,ij->ij", [&x, &d]).unwrap().dtype(), DType::F64);
    let huge = tensor![1.0].expand([1usize << 40]).unwrap();
    if let Ok(square) = huge.expand([1usize << 40, 1 << 40]) {
        for equation in ["ii", "ii->i", "ij,ij->", "ij,jk->ik", "ij,ji->i"] {
            let operands = vec![square.clone(); equation.matches(',').count() + 1];
            let e = Tensor::einsum(equation, operands).unwrap_err();
            assert!(e.to_string().starts_with("einsum: "), "{e}");
        }
    }
    assert!(refused!(Tensor::einsum("i,j->ji", [&huge, &huge]), TensorFacts::TooLarge { op: "einsum", .. }));
}
