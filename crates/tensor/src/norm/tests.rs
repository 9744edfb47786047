//! Normalisation against its definition, whichever way it is computed, and what it refuses.

use super::*;
use crate::axes::{Axes, keep};
use crate::dtype::DType;
use crate::threads::GRAIN;
use crate::{TensorFacts, ThreadPool, assert_close, refused, tensor};

fn wave(shape: &[usize], k: f64, dtype: DType) -> Tensor {
    let n = shape.iter().product::<usize>() as i64;
    let t = Tensor::arange_with(0..n, 1, DType::F64).mul(k).unwrap().sin().add(k).unwrap();
    t.reshape(shape).unwrap().to(dtype)
}

/// The result and the gradients for elements, weight and bias, operation by operation.
fn defined(
    how: &Normalisation,
    g: &Tensor,
    x: &Tensor,
    w: Option<&Tensor>,
    b: Option<&Tensor>,
) -> [Tensor; 4] {
    let over = keep(Axes::from(how.axes));
    let view = x.reshape(&how.view).unwrap();
    let g = g.reshape(&how.view).unwrap();
    let spread = |p: Option<&Tensor>, number: f64| match p {
        Some(p) => p.reshape(&how.affine).unwrap(),
        None => Tensor::full_with((), number, x.dtype()),
    };
    let (w, b) = (spread(w, 1.0), spread(b, 0.0));
    let c = if how.centred { &view - view.mean(&over).unwrap() } else { view };
    let r = c.square().mean(&over).unwrap().add(how.eps).unwrap().rsqrt();
    let normal = &c * &r;
    let y = &normal * &w + &b;
    let gw = &g * &w;
    let along = &normal * (&gw * &normal).mean(&over).unwrap();
    let mean = if how.centred { gw.mean(&over).unwrap() } else { tensor![0.0].to(x.dtype()) };
    let dx = (&gw - &along - &mean) * &r;
    let sum = |t: Tensor| t.sum_to_size(&how.affine).unwrap().reshape(&how.parameter).unwrap();
    [y.reshape(x.shape()).unwrap(), dx.reshape(x.shape()).unwrap(), sum(&g * &normal), sum(g)]
}

/// Rows shorter and longer than lanes and runs, rows too long for the cache, lines of every length.
fn ways(dtype: DType) -> Vec<(Tensor, Normalisation)> {
    let mut all = Vec::new();
    for (rows, n) in [(7, 1), (70, 3), (3, 64), (5, 1025), (2, 3000), (2, GRAIN + 1)] {
        let x = wave(&[rows, n], 0.37, dtype);
        all.push((x.clone(), Normalisation::layer("layer_norm", &x, n.into(), Some(0.1)).unwrap()));
        all.push((x.clone(), Normalisation::rms("rms_norm", &x, n.into(), Some(0.1)).unwrap()));
    }
    for (shape, groups) in [([3, 4, 5], 2), ([2, 6, 700], 3), ([40, 4, 1], 2), ([2, 2, 20_000], 1)] {
        let x = wave(&shape, 0.37, dtype);
        all.push((x.clone(), Normalisation::group("group_norm", &x, groups, Some(0.1)).unwrap()));
    }
    let x = wave(&[4, 3, 50], 0.37, dtype);
    all.push((x.clone(), Normalisation::instance("instance_norm", &x, None).unwrap()));
    all.push((x.clone(), Normalisation::batch_train("batch_norm_train", &x, None).unwrap()));
    // Channel by channel, and too few positions, channels, or too long for that.
    for shape in [[3, 16, 64], [5, 9, 1100], [2, 9, 63], [3, 7, 64], [2, 8, 70_000]] {
        let x = wave(&shape, 0.37, dtype);
        all.push((x.clone(), Normalisation::batch_train("batch_norm_train", &x, Some(0.1)).unwrap()));
    }
    all
}

#[test]
fn every_way_follows_the_definition_for_any_number_of_threads() {
    for dtype in [DType::F64, DType::F32] {
        for (x, how) in ways(dtype) {
            let g = wave(x.dims(), 0.71, dtype);
            let w = wave(how.parameter.dims(), 1.3, dtype);
            let b = wave(how.parameter.dims(), 0.9, dtype);
            for (w, b) in [(None, None), (Some(&w), None), (None, Some(&b)), (Some(&w), Some(&b))] {
                let run = || {
                    let (y, statistics) = how.forward(&x, w, b).unwrap();
                    let [dx, dw, db] = how.backward(&g, &x, w, &statistics, true).unwrap();
                    [y, dx, dw, db]
                };
                let found = run();
                for threads in [1, 3] {
                    assert_eq!(ThreadPool::new(threads).install(run), found, "{how:?}");
                }
                let tolerance = if dtype == DType::F64 { 1e-10 } else { 2e-3 };
                for (found, want) in found.iter().zip(defined(&how, &g, &x, w, b)) {
                    assert_close!(found, want, atol = tolerance, rtol = tolerance);
                }
            }
        }
    }
}

#[test]
fn other_layouts_are_the_same_elements() {
    let x = wave(&[6, 4, 5], 0.4, DType::F64);
    let turned = x.transpose(0, 2).unwrap().contiguous().transpose(0, 2).unwrap();
    assert_eq!(turned.layer_norm([4, 5]).unwrap(), x.layer_norm([4, 5]).unwrap());
    assert_eq!(turned.group_norm(2).unwrap(), x.group_norm(2).unwrap());
    assert_eq!(turned.instance_norm(), x.instance_norm());
}

#[test]
fn a_variance_of_large_numbers_keeps_its_digits() {
    // The difference of the mean of squares and the square of the mean would be 0 here.
    let y = tensor![[10_000.0, 10_001.0]].layer_norm_with(2, Norm::new().eps(0)).unwrap();
    assert_eq!(y, tensor![[-1.0, 1.0]]);
}

#[test]
fn a_row_without_numbers_spoils_no_other() {
    let x = tensor![[f64::NAN, 1.0], [1.0, 3.0], [f64::INFINITY, 0.0]];
    let how = Normalisation::layer("layer_norm", &x, 2.into(), Some(0.0)).unwrap();
    let (y, statistics) = how.forward(&x, None, None).unwrap();
    let [dx, ..] =
        how.backward(&tensor![[1.0, 0.0]].expand([3, 2]).unwrap(), &x, None, &statistics, false).unwrap();
    for t in [y.clone(), dx] {
        assert!(t.isnan().to_vec::<bool>().unwrap().chunks(2).map(|row| row[0]).eq([true, false, true]));
    }
    assert_eq!(y.select(0, 1).unwrap(), tensor![-1.0, 1.0]);
    // A single element is its own mean.
    assert_eq!(tensor![[5.0], [7.0]].layer_norm(1).unwrap(), tensor![[0.0], [0.0]]);
}

#[test]
fn batches_of_nothing() {
    let (c, none) = (Tensor::ones(2), Tensor::zeros([0, 2, 3]));
    assert_eq!(none.layer_norm(3).unwrap(), none);
    assert_eq!(none.rms_norm([2, 3]).unwrap(), none);
    assert_eq!(none.group_norm(2).unwrap(), none);
    assert_eq!(none.instance_norm(), none);
    assert_eq!(none.batch_norm(&c, &c).unwrap(), none);
    let (y, mean, var) = none.batch_norm_train(Norm::new()).unwrap();
    assert_eq!((y, mean.dims(), var.dims()), (none, &[2][..], &[2][..]));
    assert_eq!(Tensor::zeros([3, 0]).layer_norm(0).unwrap().dims(), [3, 0]);
}

#[test]
fn what_cannot_be_normalised_is_refused() {
    let (x, whole) = (Tensor::ones([2, 4, 3]), tensor![[[1, 2]]; i64]);
    let parameter = |r: Result<Tensor>, text: &str| {
        let e = r.unwrap_err().to_string();
        assert!(e.contains(text), "{e}");
    };
    let none = || Norm::new().eps(0);
    parameter(
        x.batch_norm_train(none()).map(|r| r.0),
        "eps = 0 is not valid: expected above zero in training",
    );
    assert!(x.instance_norm_with(none()).is_ok() && x.layer_norm_with(3, none()).is_ok());
    assert!(x.batch_norm_with(Tensor::zeros(4), Tensor::ones(4), none()).is_ok());
    for groups in [0, 3, 5, usize::MAX] {
        parameter(x.group_norm(groups), "a number that divides the channels");
    }
    parameter(Tensor::ones([1, 4]).group_norm(4), "more than one value per group");
    parameter(Tensor::ones([2, 4, 1]).try_instance_norm(), "more than one position");
    parameter(
        Tensor::ones([1, 4]).batch_norm_train(Norm::new()).map(|r| r.0),
        "more than one value per channel",
    );
    parameter(x.layer_norm(()), "one axis at least");
    parameter(x.batch_norm_with(Tensor::ones(4), Tensor::ones(4), Norm::new().eps(-1)), "eps = -1");
    for r in [whole.layer_norm(2), whole.rms_norm(2), whole.group_norm(1), whole.try_instance_norm()] {
        assert!(refused!(r, TensorFacts::DTypeUnsupported { .. }));
    }
    assert!(refused!(x.layer_norm(4), TensorFacts::ShapeMismatch { .. }));
    assert!(refused!(x.layer_norm([1, 2, 4, 3]), TensorFacts::ShapeMismatch { .. }));
    let (short, double) = (Norm::new().weight(Tensor::ones(1)), Norm::new().bias(Tensor::ones(3).double()));
    assert!(refused!(x.layer_norm_with(3, short), TensorFacts::ShapeMismatch { .. }));
    assert!(refused!(x.layer_norm_with(3, double), TensorFacts::MixedDTypes { .. }));
    assert!(refused!(x.batch_norm(Tensor::ones(3), Tensor::ones(3)), TensorFacts::ShapeMismatch { .. }));
    assert!(refused!(Tensor::ones(3).batch_norm(1.0, 1.0), TensorFacts::Rank { .. }));
}
