//! Moments, ranges, streams and refusals of random tensors.

use std::ops::Range;

use super::distributions::Unit;
use super::*;
use crate::{ThreadPool, refused};

fn values(t: &Tensor) -> Vec<f64> {
    t.to(DType::F64).to_vec::<f64>().unwrap()
}

/// Mean, variance, and the fourth moment about the mean.
fn moments(t: &Tensor) -> (f64, f64, f64) {
    let v = values(t);
    let n = v.len() as f64;
    let mean = v.iter().sum::<f64>() / n;
    let moment = |p: i32| v.iter().map(|x| (x - mean).powi(p)).sum::<f64>() / n;
    (mean, moment(2), moment(4))
}

const N: usize = 200_000;

/// Asserts a mean and a variance within five standard errors.
fn check(t: &Tensor, mean: f64, variance: f64) {
    let (m, v, fourth) = moments(t);
    let n = t.numel() as f64;
    assert!((m - mean).abs() <= 5.0 * (variance / n).sqrt(), "mean {m} against {mean}");
    let error = ((fourth - v * v) / n).sqrt();
    assert!((v - variance).abs() <= 5.0 * error + 1e-12, "variance {v} against {variance}");
}

#[test]
fn moments_are_those_of_the_distributions() {
    let mut g = Generator::new(12);
    for dtype in [DType::F32, DType::F64] {
        check(&g.rand_with([N], dtype), 0.5, 1.0 / 12.0);
        check(&g.randn_with([N], dtype), 0.0, 1.0);
        check(&g.uniform_with([N], -3.0, 5.0, dtype), 1.0, 64.0 / 12.0);
        check(&g.normal_with([N], 2.0, 3.0, dtype), 2.0, 9.0);
        let fourth = moments(&g.randn_with([N], dtype)).2;
        assert!((fourth - 3.0).abs() < 5.0 * (96.0 / N as f64).sqrt(), "kurtosis {fourth}");
    }
    for dtype in DType::ALL {
        check(&g.bernoulli_with([N], 0.3, dtype), 0.3, 0.21);
    }
    check(&g.randint(-3..8, [N]), 2.0, 10.0);
}

#[test]
fn neighbours_are_not_correlated() {
    let mut g = Generator::new(3);
    for t in [g.randn([N]), g.randn_with([N], DType::F64), g.uniform([N], -1.0, 1.0)] {
        let v = values(&t);
        for lag in [1, 2, 4] {
            let r = v.windows(lag + 1).map(|w| w[0] * w[lag]).sum::<f64>() / v.len() as f64;
            assert!(r.abs() < 5.0 / (N as f64).sqrt(), "lag {lag}: {r}");
        }
    }
}

#[test]
fn ranges_are_half_open() {
    let mut g = Generator::new(5);
    assert!(values(&g.rand([N])).iter().all(|v| (0.0..1.0).contains(v)));
    assert_eq!(f32::units([u32::MAX; 4])[0], 1.0 - f32::EPSILON / 2.0);
    assert_eq!(f64::units([u32::MAX; 4])[0], 1.0 - f64::EPSILON / 2.0);
    // Rounding alone would reach the upper end.
    let (low, high) = (1.0, 1.0 + f64::from(f32::EPSILON));
    assert!(values(&g.uniform([1000], low, high)).iter().all(|&v| v == 1.0));
    assert!(values(&g.uniform([N], 16_777_215.0, 16_777_217.5)).iter().all(|&v| v < 16_777_217.5));
    let ints = g.randint(-2..3, [N]).to_vec::<i64>().unwrap();
    for v in -2..3 {
        let count = ints.iter().filter(|&&x| x == v).count() as f64;
        let expected = N as f64 / 5.0;
        assert!((count - expected).abs() < 5.0 * (expected * 0.8).sqrt(), "{v} came {count} times");
    }
    let all = g.randint(i64::MIN..i64::MAX, [N]).to_vec::<i64>().unwrap();
    assert!(all.iter().any(|&v| v < i64::MIN / 2) && all.iter().any(|&v| v > i64::MAX / 2));
    assert_eq!(g.randint(i64::MIN..i64::MIN + 1, [3]).to_vec::<i64>().unwrap(), [i64::MIN; 3]);
}

#[test]
fn large_ranges_have_no_bias() {
    // Without another try, values below a third of the range would come half as often again.
    let high = 3 * (i64::MAX / 4);
    let v = Generator::new(9).randint(0..high, [N]).to_vec::<i64>().unwrap();
    let third = v.iter().filter(|&&x| x < high / 3).count() as f64;
    assert!((third - N as f64 / 3.0).abs() < 5.0 * (N as f64 * 2.0 / 9.0).sqrt(), "{third}");
}

#[test]
fn permutations() {
    let mut g = Generator::new(1);
    let mut first = [0; 5];
    for _ in 0..5000 {
        let p = g.randperm(5).to_vec::<i64>().unwrap();
        first[p[0] as usize] += 1;
        let mut sorted = p.clone();
        sorted.sort();
        assert_eq!(sorted, [0, 1, 2, 3, 4]);
    }
    assert!(first.iter().all(|&n| (n - 1000i32).abs() < 150), "{first:?}");
    assert_eq!(g.randperm(0).dims(), [0]);
    assert_eq!(g.randperm(1).to_vec::<i64>().unwrap(), [0]);
}

#[test]
fn the_same_numbers_for_any_number_of_threads() {
    let draw = || {
        let mut g = Generator::new(77);
        [
            g.rand([N + 3]),
            g.randn([N + 1]),
            g.randn_with([3, N], DType::F64),
            g.uniform_with([N], 0.0, 9.0, DType::F64),
            g.randint(0..1i64 << 62, [N + 5]),
            g.bernoulli_with([N], 0.5, DType::Bool),
        ]
    };
    let one = ThreadPool::new(1).install(draw);
    for n in [2, 3, 8] {
        assert_eq!(ThreadPool::new(n).install(draw), one);
    }
}

#[test]
fn calls_go_on_and_seeds_start_again() {
    let mut g = Generator::new(4);
    let (a, b) = (g.rand_with([4], DType::F64), g.rand_with([4], DType::F64));
    assert_ne!(a, b);
    let mut again = g.clone();
    assert_eq!(g.randperm(9), again.randperm(9));
    assert_eq!(Generator::new(4).rand_with([2], DType::F64), a.narrow(0, 0, 2).unwrap());
    assert_ne!(
        Generator::new(1 << 32).rand_with([4], DType::F64),
        Generator::new(0).rand_with([4], DType::F64)
    );
    manual_seed(4);
    assert_eq!(Tensor::rand_with([4], DType::F64), a);
    assert_eq!(Tensor::rand_with([4], DType::F64), b);
    let other = std::thread::spawn(|| Tensor::rand_with([4], DType::F64)).join().unwrap();
    assert_ne!(other, Tensor::rand_with([4], DType::F64));
}

#[test]
fn states_are_kept_and_others_refused() {
    let mut g = Generator { seed: u64::MAX, next: u64::MAX - 5 };
    let mut other = Generator::new(0);
    other.set_state(&g.get_state()).unwrap();
    assert_eq!(other, g);
    assert_eq!(other.rand([3]), g.rand([3]));
    let kept = g.clone();
    for bad in [Tensor::zeros(2), Tensor::zeros_with(3, DType::I64), Tensor::zeros_with((), DType::I64)] {
        assert!(g.set_state(&bad).unwrap_err().to_string().starts_with("set_state: "));
        assert_eq!(g, kept);
    }
}

#[test]
fn bad_arguments_are_refused() {
    let mut g = Generator::new(0);
    let parameter = |r: Result<Tensor>| refused!(r, TensorFacts::Parameter { .. });
    for p in [-0.1, 1.1, f64::NAN] {
        assert!(parameter(g.try_bernoulli([2], p)));
    }
    for (low, high) in [
        (1.0, 1.0),
        (2.0, 1.0),
        (f64::NAN, 1.0),
        (0.0, f64::INFINITY),
        (-1e308, 1e308),
        (f64::NEG_INFINITY, 0.0),
    ] {
        assert!(parameter(g.try_uniform_with([2], low, high, DType::F64)), "{low} {high}");
    }
    assert!(parameter(g.try_uniform([2], 1.0, 1.0 + 1e-12)));
    assert!(parameter(g.try_uniform([2], 0.0, 1e300)));
    assert!(parameter(g.try_normal([2], 0.0, -1.0)));
    assert!(parameter(g.try_normal([2], 0.0, f64::NAN)));
    assert!(parameter(g.try_randint(3..3, [2])));
    assert!(parameter(g.try_randint(0.0..3.0, [2])));
    let (of_sizes, of_a_number) =
        (Generator::new(1).randint(0..3usize, [9]), Generator::new(1).randint(3, [9]));
    assert_eq!(of_sizes, of_a_number);
    assert!(refused!(g.try_rand_with([2], DType::I64), TensorFacts::DTypeUnsupported { op: "rand", .. }));
    assert!(refused!(g.try_randn_with([2], DType::Bool), TensorFacts::DTypeUnsupported { op: "randn", .. }));
    assert!(refused!(g.try_rand([usize::MAX, 2]), TensorFacts::TooLarge { .. }));
    assert!(refused!(Tensor::try_randperm(usize::MAX), TensorFacts::TooLarge { .. }));
    assert_eq!(Tensor::rand([0, 3]).dims(), [0, 3]);
    assert_eq!(Tensor::rand(()).dims(), [0usize; 0]);
}

#[test]
#[should_panic(expected = "range = 3..1 is not valid")]
fn constructors_panic_with_the_error() {
    Tensor::randint(Range { start: 3, end: 1 }, [2]);
}
