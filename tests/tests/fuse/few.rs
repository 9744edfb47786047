//! Gradients that read few elements for those of the result, which are computed by themselves.

use super::*;

/// An operation of three operands.
type Of<'f> = &'f dyn Fn([&Var; 3]) -> Var;

/// Where the incoming gradient is one number, or the same along an axis, or differs everywhere.
fn loss(y: Var, weights: &Option<Tensor>) -> Var {
    match weights {
        None => y.sum(..).unwrap(),
        Some(weights) => y.mul(weights).unwrap().sum(..).unwrap(),
    }
}

#[test]
fn they_are_those_of_operators() {
    let f = fuse!(|x, w, b| (x - w) * b);
    let g = fuse!(|x, w, b| x * w.exp() + b * 0.5);
    let plain: [Plain; 2] = [|x, w, b| x.sub(w)?.mul(b), |x, w, b| x.mul(w.exp())?.add(b.mul(0.5)?)];
    let shapes: [[&[usize]; 3]; 6] = [
        [&[220, 90], &[220, 1], &[220, 1]],
        [&[220, 90], &[90], &[220, 1]],
        [&[200, 11, 9], &[11, 1], &[11, 1]],
        [&[11, 1], &[200, 11, 9], &[200, 1, 9]],
        [&[20_000], &[], &[1]],
        [&[5, 60, 61], &[1, 60, 1], &[61]],
    ];
    for (case, own) in shapes.iter().enumerate() {
        let full = if case == 3 { own[1] } else { own[0] };
        let last = full.len() as i32 - 1;
        let dense = fill(full, Domain::Any, &mut Random::new(9));
        let weights = [
            None,
            Some(dense.narrow(last, 0, 1).unwrap()),
            Some(dense.narrow(0, 0, 1).unwrap()),
            Some(dense),
        ];
        for wide in [DType::F32, DType::F64] {
            let values: Vec<Tensor> = (0..3)
                .map(|i| {
                    fill(own[i], Domain::Any, &mut Random::new(i as u64))
                        .to([DType::F32, DType::F32, wide][i])
                })
                .collect();
            for (weights, tracked) in weights.iter().flat_map(|w| [7, 1, 2, 6].map(|tracked| (w, tracked))) {
                let gradients = |of: Of<'_>| -> Vec<Option<Tensor>> {
                    let x = leaves(&values, tracked);
                    loss(of([&x[0], &x[1], &x[2]]), weights).backward().unwrap();
                    x.iter().map(Var::grad).collect()
                };
                let fused: [Of<'_>; 2] = [&|x| f.call(x).unwrap(), &|x| g.call(x).unwrap()];
                for (fused, plain) in fused.iter().zip(plain) {
                    let (found, want) = (gradients(fused), gradients(&|[x, w, b]| plain(x, w, b).unwrap()));
                    for (i, (found, want)) in found.iter().zip(&want).enumerate() {
                        let (Some(found), Some(want)) = (found, want) else {
                            assert_eq!(found.is_some(), want.is_some());
                            continue;
                        };
                        assert_eq!((found.shape(), found.dtype()), (want.shape(), want.dtype()));
                        assert!(close(found, want, 1e-4), "input {i} of case {case}, {tracked} tracked");
                    }
                }
            }
        }
    }
}

/// What is passed on takes as little memory as it is made of.
#[test]
fn they_are_expanded() {
    let f = fuse!(|x, w| x * w);
    for (own, strides) in [(&[1, 170][..], [0, 1]), (&[120, 1], [1, 0]), (&[], [0, 0])] {
        let x = Tensor::ones([120, 170]).requires_grad().mul(2.0).unwrap();
        let w = fill(own, Domain::Any, &mut Random::new(1)).to(DType::F32).requires_grad();
        x.retain_grad().unwrap();
        f.sum([&x, &w], ..).unwrap().backward().unwrap();
        let found = x.grad().unwrap();
        assert_eq!(&found.strides()[..], strides);
        assert_eq!(found, w.value().expand([120, 170]).unwrap());
    }
}

/// Behind a leading axis, too.
#[test]
fn matrices_of_derivatives_are_those_of_operators() {
    let f = fuse!(|x, w| x * w);
    let x = fill(&[3, 60, 100][..], Domain::Any, &mut Random::new(1));
    let w = fill(&[60, 1][..], Domain::Any, &mut Random::new(2));
    let of_x = foldback::graph::jacobian(|x| f.sum((x, &w), [1, 2]), &x).unwrap();
    let plain = foldback::graph::jacobian(|x| x.mul(&w)?.sum([1, 2]), &x).unwrap();
    assert_eq!(of_x.value(), plain.value());
    let of_w = foldback::graph::jacobian(|w| f.sum((&x, w), [1, 2]), &w).unwrap();
    let plain = foldback::graph::jacobian(|w| w.mul(&x)?.sum([1, 2]), &w).unwrap();
    assert!(close(&of_w.value(), &plain.value(), 1e-5));
}

/// To a function of few of them, integers and masks are the numbers that they are to the whole.
#[test]
fn a_function_of_few_integers_or_masks_is_one_of_numbers() {
    let f = fuse!(|x, w, m| x + (w * m - m - w).sigmoid());
    let g = fuse!(|x, w, m| x + (w + m).sigmoid());
    for (dtype, value) in [(DType::I64, (1i64 << 40) as f64), (DType::I64, 3.0), (DType::Bool, 1.0)] {
        let operands = [&[90, 50][..], &[50], &[50]].map(|shape| Tensor::full(shape, value).to(dtype));
        let [x, w, m] = operands.each_ref();
        let numbers = operands.each_ref().map(|t| t.to(DType::F32));
        let [a, b, c] = numbers.each_ref();
        assert_eq!(f.call([x, w, m]).unwrap().value(), f.call([a, b, c]).unwrap().value(), "{dtype}");
        assert_eq!(g.call([x, w, m]).unwrap().value(), g.call([a, b, c]).unwrap().value(), "{dtype}");
    }
}

/// As by operators: zero, and not none.
#[test]
fn a_function_of_few_steps_has_a_gradient() {
    let f = fuse!(|x, w| x * w.floor().exp());
    let g = fuse!(|x, w, b| x * (w.sign() + b).exp());
    for rows in [10, 200] {
        let x = Tensor::ones([rows, 50]);
        let w = Tensor::full([50], 0.5).requires_grad();
        let b = Tensor::zeros([50]).requires_grad();
        for y in [f.sum((&x, &w), ..), g.sum((&x, &w, &b), ..)] {
            y.unwrap().backward().unwrap();
            assert_eq!(w.grad(), Some(Tensor::zeros([50])), "{rows} rows");
            w.zero_grad();
        }
    }
}
