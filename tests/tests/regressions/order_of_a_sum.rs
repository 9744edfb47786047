//! The bits of a gradient that is summed down to its input's shape depended on who summed: for a bias in
//! `((x * w + b)^2).sum()`, `fuse!` and operators gave other bits in some columns.

use foldback::prelude::*;

/// Numbers of many sizes, the same every time.
fn numbers(shape: &[usize], dtype: DType, seed: u64) -> Var {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as f64 / (1u64 << 31) as f64 - 0.4
    };
    let n: usize = shape.iter().product();
    let values: Vec<f64> = (0..n).map(|_| next()).collect();
    Tensor::from_vec(values, shape).unwrap().to(dtype).requires_grad()
}

#[test]
fn a_bias_has_the_same_gradient_with_fuse_and_with_operators() {
    let shapes: [(&[usize], &[usize]); 6] = [
        (&[4096, 1024], &[1024]),
        (&[1027, 515], &[515]),
        (&[4099, 7], &[7]),
        (&[513, 2100], &[513, 1]),
        (&[33, 40, 65], &[65]),
        (&[64, 10], &[10]),
    ];
    for (case, (full, narrow)) in shapes.into_iter().enumerate() {
        for dtype in [DType::F32, DType::F64] {
            let (x, w, b) = (numbers(full, dtype, 1), numbers(narrow, dtype, 2), numbers(narrow, dtype, 3));
            let gradient = |fused: bool| {
                b.zero_grad();
                let loss = if fused {
                    fuse!(|x, w, b| (x * w + b).square()).sum([&x, &w, &b], ..).unwrap()
                } else {
                    (&(&x * &w) + &b).square().sum(..).unwrap()
                };
                loss.backward().unwrap();
                b.grad().unwrap().to(DType::F64).to_vec::<f64>().unwrap()
            };
            let (fused, plain) = (gradient(true), gradient(false));
            let wrong = fused.iter().zip(&plain).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
            assert_eq!(wrong, 0, "of {} gradients, case {case}, {dtype}", plain.len());
        }
    }
}
