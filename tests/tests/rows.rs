//! Functions of rows take several short ones at once, and long ones in pieces: a row in company has the value and the gradient that
//! it has alone, at every length at which a loop changes.

use foldback::prelude::*;

type Function = (&'static str, fn(&Var) -> foldback::Result<Var>);

/// Functions along axis 1.
const FUNCTIONS: [Function; 13] = [
    ("softmax", |x| x.softmax(1)),
    ("log_softmax", |x| x.log_softmax(1)),
    ("logsumexp", |x| x.logsumexp(keep(1))),
    ("sum", |x| Ok(x.sum(keep(1))?.square())),
    ("mean", |x| Ok(x.mean(keep(1))?.square())),
    ("var", |x| x.var(keep(1))),
    ("prod", |x| x.mul(0.1)?.add(1.0)?.prod(keep(1))),
    ("amax", |x| x.amax(keep(1))),
    ("norm", |x| x.norm(keep(1))),
    ("normalize", |x| x.normalize(1)),
    ("cumsum", |x| x.cumsum(1)),
    ("cumprod", |x| x.mul(0.1)?.add(1.0)?.cumprod(1)),
    ("sort", |x| Ok(x.sort(1)?.0)),
];

/// Functions of the last axis of a matrix.
const LAST: [Function; 3] = [
    ("layer_norm", |x| x.layer_norm([x.dims()[1]])),
    ("rms_norm", |x| x.rms_norm([x.dims()[1]])),
    ("cross_entropy", |x| {
        let class = x.dims()[1] as i64 / 3;
        x.cross_entropy(Tensor::full_with([x.dims()[0]], class, DType::I64))
    }),
];

/// Around the lengths of vectors, lanes, leaves and blocks, and their halves and thirds.
const LENGTHS: [usize; 26] = [
    2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 341, 342, 512, 513, 1023,
    1024, 1025,
];

fn wave(shape: &[usize], step: f64, dtype: DType) -> Tensor {
    let n: usize = shape.iter().product();
    let values = (0..n).map(|i| 2.0 * (i as f64 * step).sin()).collect::<Vec<_>>();
    Tensor::from_vec(values, shape).unwrap().to(dtype)
}

/// The value, and the gradient of its product with a weight that differs from element to element.
fn both(f: &Function, x: &Tensor, weight: impl Fn(&Tensor) -> Tensor) -> [Tensor; 2] {
    let x = x.clone().requires_grad();
    let y = f.1(&x).unwrap_or_else(|e| panic!("{}: {e}", f.0));
    y.mul(weight(&y.value())).unwrap().sum(..).unwrap().backward().unwrap();
    [y.value(), x.grad().unwrap()]
}

/// Checks parts of `x` along axis 0 against the whole.
fn check(f: &Function, x: &Tensor) {
    let weight = |from: usize| {
        move |y: &Tensor| {
            let own: usize = y.dims()[1..].iter().product();
            let steps = Tensor::arange(y.numel() as i64).add((from * own) as i64).unwrap().to(y.dtype());
            steps.mul(0.37).unwrap().cos().reshape(y.dims()).unwrap()
        }
    };
    let whole = both(f, x, weight(0));
    for i in 0..x.dims()[0] {
        let part = x.narrow(0, i as isize, 1).unwrap();
        for (whole, alone) in whole.iter().zip(both(f, &part, weight(i))) {
            // Seen where the next line fails.
            println!("row {i} of {} for {:?}, {}", f.0, x.dims(), x.dtype());
            let in_company = whole.narrow(0, i as isize, 1).unwrap();
            let within = if x.dtype() == DType::F64 { 1e-12 } else { 1e-5 };
            assert_close!(in_company, alone, atol = within, rtol = within);
        }
    }
}

#[test]
fn rows_in_company_are_those_that_they_are_alone() {
    for (n, dtype) in LENGTHS.iter().flat_map(|&n| [(n, DType::F32), (n, DType::F64)]) {
        for f in FUNCTIONS.iter().chain(&LAST) {
            check(f, &wave(&[5, n], 0.7, dtype));
        }
        // Beside each other.
        for f in &FUNCTIONS {
            check(f, &wave(&[3, n, 3], 0.7, dtype));
        }
    }
}
