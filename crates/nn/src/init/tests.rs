//! Laws: spreads, bounds, refusals.

use foldback_tensor::Generator;

use super::*;

/// Mean, variance, and largest magnitude of 120,000 values.
fn statistics(init: Init) -> (f64, f64, f64) {
    let t = init.sample_from(&mut Generator::new(11), [400, 300], DType::F64).unwrap();
    let values: Vec<f64> = t.to_vec().unwrap();
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n;
    (mean, variance, values.iter().fold(0.0, |m, v| m.max(v.abs())))
}

#[test]
fn spread_by_fans_and_gain() {
    let (fan_in, fan_out) = (300f64, 400f64);
    let relu = Nonlinearity::ReLU;
    let slope = Nonlinearity::LeakyReLU(5f64.sqrt());
    let cases = [
        (Init::kaiming_uniform(relu), 2.0 / fan_in),
        (Init::kaiming_uniform(relu).fan(Fan::Out), 2.0 / fan_out),
        (Init::kaiming_uniform(slope), 1.0 / 3.0 / fan_in),
        (Init::kaiming_normal(relu), 2.0 / fan_in),
        (Init::kaiming_normal(Nonlinearity::Tanh).fan(Fan::Out), 25.0 / 9.0 / fan_out),
        (Init::xavier_uniform(1.0), 2.0 / (fan_in + fan_out)),
        (Init::xavier_normal(2.0), 8.0 / (fan_in + fan_out)),
        (Init::normal(0.0, 0.5), 0.25),
        (Init::uniform(-1.0, 1.0), 1.0 / 3.0),
    ];
    let n = fan_in * fan_out;
    for (init, expected) in cases {
        let (mean, variance, largest) = statistics(init);
        // 5 standard errors: of a mean, and of the variance of a normal distribution (a uniform one has less).
        assert!(mean.abs() < 5.0 * (expected / n).sqrt(), "{init:?}: mean {mean}");
        let error = (variance / expected - 1.0).abs();
        assert!(error < 5.0 * (2.0 / n).sqrt(), "{init:?}: variance {variance}, expected {expected}");
        if matches!(
            init.0,
            Law::Plain(Distribution::Uniform(..))
                | Law::Kaiming { uniform: true, .. }
                | Law::Xavier { uniform: true, .. }
        ) {
            let bound = (3.0 * expected).sqrt();
            assert!(largest <= bound && largest > 0.999 * bound, "{init:?}: {largest} of {bound}");
        } else {
            assert!(largest > 3.9 * expected.sqrt(), "{init:?}: a normal distribution has tails");
        }
    }
}

#[test]
fn gains() {
    // PyTorch's calculate_gain
    let gains = [
        (Nonlinearity::Linear, 1.0),
        (Nonlinearity::Sigmoid, 1.0),
        (Nonlinearity::Tanh, 1.666_666_666_666_666_7),
        (Nonlinearity::LeakyReLU(0.01), 1.414_142_856_997_835_4),
        (Nonlinearity::LeakyReLU(0.0), Nonlinearity::ReLU.gain()),
        (Nonlinearity::SELU, 0.75),
    ];
    for (nonlinearity, gain) in gains {
        assert!((nonlinearity.gain() - gain).abs() < 1e-15, "{nonlinearity:?}");
    }
}

#[test]
fn refusals() {
    let init = Init::kaiming_uniform(Nonlinearity::Linear);
    let e = init.sample([3], DType::F32).unwrap_err().with_location(None).to_string();
    assert_eq!(
        e,
        "init: fan in and fan out need at least 2 axes, found shape [3]: give [out, in], or another initialisation"
    );
    assert!(Init::xavier_normal(1.0).sample((), DType::F32).is_err());
    assert!(init.sample([3, 3], DType::I64).is_err());
    assert!(Init::xavier_normal(-1.0).sample([3, 3], DType::F32).is_err());
    assert!(Init::uniform(1.0, -1.0).sample([3, 3], DType::F32).is_err());
    assert!(Init::normal(0.0, f64::NAN).sample([3, 3], DType::F32).is_err());
}

#[test]
fn nothing_to_initialise() {
    for init in [
        Init::kaiming_uniform(Nonlinearity::ReLU),
        Init::kaiming_normal(Nonlinearity::ReLU),
        Init::xavier_uniform(1.0),
    ] {
        assert_eq!(init.sample([3, 0], DType::F32).unwrap().dims(), [3, 0]);
    }
    let constant = Init::uniform(2.0, 2.0).sample([2], DType::F32).unwrap();
    assert_eq!(constant, foldback_tensor::tensor![2.0, 2.0]);
}

/// All ways of drawing: much and little of the normal distribution between the bounds.
#[test]
fn truncated_normal() {
    // Mean and variance of the standard normal distribution between two bounds, by its density and its distribution function.
    for (low, high, mean, variance) in [
        (-2.0, 2.0, 0.0, 0.773_741_303_549_923_2),
        (0.5, 1.0, 0.734_540_458_841_298_9, 0.020_517_995_256_375_543),
        (2.0, 4.0, 2.370_633_159_683_17, 0.109_583_113_631_732_23),
        (-4.0, -2.0, -2.370_633_159_683_17, 0.109_583_113_631_732_23),
        // As far out as here the distance from the bound is exponential.
        (1e5, 2e5, 1e5 + 1e-5, 1e-10),
    ] {
        let (centre, spread) = (3.0, 0.5);
        let init = Init::trunc_normal(centre, spread, centre + spread * low, centre + spread * high);
        let n = 100_000;
        let values: Vec<f64> =
            init.sample_from(&mut Generator::new(5), [n], DType::F64).unwrap().to_vec().unwrap();
        let values: Vec<f64> = values.iter().map(|v| (v - centre) / spread).collect();
        let rounding = 1e-12 * low.abs().max(high.abs()).max(1.0);
        assert!(values.iter().all(|v| (low - rounding..=high + rounding).contains(v)));
        let found = values.iter().sum::<f64>() / n as f64;
        assert!((found - mean).abs() < 5.0 * (variance / n as f64).sqrt(), "{found} {mean}");
        let found = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n as f64;
        assert!((found / variance - 1.0).abs() < 5.0 * (2.0 / n as f64).sqrt(), "{found} {variance}");
    }
    // Nothing but the nearer bound is left where the mean is out of sight.
    for (centre, spread, bound) in [(1e300, 1.0, 2.0), (-1e308, 1e-300, -2.0), (3.0, 1e-300, 2.0)] {
        let values = Init::trunc_normal(centre, spread, -2.0, 2.0).sample([9], DType::F64).unwrap();
        assert_eq!(values, Tensor::full_with([9], bound, DType::F64));
    }
    let e = Init::trunc_normal(0.0, 1.0, 2.0, -2.0).sample([3], DType::F32).unwrap_err().with_location(None);
    assert_eq!(
        e.to_string(),
        "trunc_normal: the upper bound = -2 is not valid: expected finite, with the first bound below the second and a spread above 0"
    );
    assert!(Init::trunc_normal(0.0, 0.0, -2.0, 2.0).sample([3], DType::F32).is_err());
    assert!(Init::trunc_normal(0.0, 1.0, f64::NAN, 2.0).sample([3], DType::F32).is_err());
    assert!(Init::trunc_normal(0.0, 1.0, -2.0, 2.0).sample([1 << 40, 1 << 40], DType::F32).is_err());
    assert_eq!(Init::trunc_normal(0.0, 1.0, -2.0, 2.0).sample([0, 3], DType::F32).unwrap().dims(), [0, 3]);
}

#[test]
fn orthogonal_rows_or_columns() {
    for shape in [vec![5, 5], vec![3, 7], vec![7, 3], vec![4, 2, 3], vec![9, 2, 2], vec![1, 1]] {
        let init = Init::orthogonal(1.5);
        let t = init.sample_from(&mut Generator::new(3), &shape[..], DType::F64).unwrap();
        assert_eq!(t.dims(), shape);
        let m = t.reshape((shape[0], -1)).unwrap();
        let m = if m.dims()[0] <= m.dims()[1] { m } else { m.t() };
        let product = m.matmul(m.t()).unwrap();
        let expected = Tensor::eye(m.dims()[0]).double() * 2.25;
        assert!((product - expected).abs().max(..).unwrap().item().unwrap() < 1e-12, "{shape:?}");
    }
    // No direction is preferred: the first element of a 2x2 rotation or reflection is the cosine of an even angle.
    let mut g = Generator::new(4);
    let mut first =
        || Init::orthogonal(1.0).sample_from(&mut g, [2, 2], DType::F64).unwrap().to_vec::<f64>().unwrap();
    let n = 4000;
    let (mut mean, mut square, mut turns) = (0.0, 0.0, 0.0);
    for _ in 0..n {
        let m = first();
        mean += m[0] / n as f64;
        square += m[0] * m[0] / n as f64;
        turns += (m[0] * m[3] - m[1] * m[2]) / n as f64;
    }
    let limit = 5.0 / (n as f64).sqrt();
    assert!(
        mean.abs() < limit && (square - 0.5).abs() < limit && turns.abs() < limit,
        "{mean} {square} {turns}"
    );
    assert_eq!(Init::orthogonal(1.0).sample([0, 3], DType::F32).unwrap().dims(), [0, 3]);
    let e = Init::orthogonal(1.0).sample([3], DType::F32).unwrap_err().with_location(None).to_string();
    assert_eq!(e, "orthogonal: a matrix has at least 2 axes, found shape [3]: use another initialisation");
}

#[test]
fn numbers_and_the_identity() {
    let sample = |init: Init, shape: &[usize]| init.sample(shape, DType::F64).unwrap();
    assert_eq!(sample(Init::constant(-1.5), &[2]), Tensor::full_with([2], -1.5, DType::F64));
    assert_eq!(sample(Init::eye(), &[3, 2]), Tensor::eye((3, 2)).double());
    assert!(Init::eye().sample([2, 2, 2], DType::F32).is_err());
    assert!(Init::constant(1.0).sample([2], DType::I64).is_err());
}
