//! Pooling and interpolation against their definitions.

use super::*;
use crate::{ThreadPool, tensor};

fn numbers(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    let values: Vec<f64> = (0..n).map(|i| ((i * 37 + i / 5 + 3) % 29) as f64 - 14.0).collect();
    Tensor::from_vec(values, shape.to_vec()).unwrap()
}

/// Kernel, stride, padding, dilation along an axis.
type Axis = [usize; 4];

const CASES: &[([usize; 4], [Axis; 2])] = &[
    ([2, 3, 4, 6], [[2, 2, 0, 1], [2, 2, 0, 1]]),
    ([2, 1, 5, 7], [[3, 2, 1, 1], [2, 1, 1, 1]]),
    ([1, 2, 6, 9], [[2, 1, 0, 3], [3, 3, 1, 2]]),
    ([1, 1, 1, 1], [[1, 1, 0, 1], [1, 5, 0, 1]]),
    ([3, 1, 7, 3], [[3, 1, 1, 2], [3, 3, 0, 1]]),
    ([0, 1, 7, 3], [[3, 1, 1, 2], [3, 3, 0, 1]]),
];

/// The places of the windows' elements along an axis, by PyTorch's rule for how many there are; `None` is padding.
fn windows(size: usize, [kernel, stride, padding, dilation]: Axis, ceil: bool) -> Vec<Vec<Option<usize>>> {
    let reach = dilation * (kernel - 1) + 1;
    let mut count = (size + 2 * padding - reach + if ceil { stride - 1 } else { 0 }) / stride + 1;
    if ceil && (count - 1) * stride >= size + padding {
        count -= 1;
    }
    let place = |at: usize| at.checked_sub(padding).filter(|&p| p < size);
    let all = |i: usize| (0..kernel).map(move |t| i * stride + t * dilation);
    // Beyond the padding behind there is nothing.
    let inside = |at: &usize| *at < size + 2 * padding;
    (0..count).map(|i| all(i).filter(inside).map(place).collect()).collect()
}

#[test]
fn windows_follow_their_definition() {
    for (shape, axes) in CASES {
        for ceil in [false, true] {
            let x = numbers(shape);
            let pair = |k: usize| (axes[0][k], axes[1][k]);
            let options = Pool::new().stride(pair(1)).padding(pair(2)).ceil_mode(ceil);
            let [down, across] = [0, 1].map(|d| windows(shape[2 + d], axes[d], ceil));
            let (values, places) = x.max_pool2d_with_indices(pair(0), options.dilation(pair(3))).unwrap();
            assert_eq!(values.dims(), [shape[0], shape[1], down.len(), across.len()], "{shape:?}");
            assert_eq!(x.max_pool2d_with(pair(0), options.dilation(pair(3))).unwrap(), values);
            let means = (axes[0][3] * axes[1][3] == 1).then(|| {
                [options, options.count_include_pad(false), options.divisor_override(7)]
                    .map(|o| x.avg_pool2d_with(pair(0), o).unwrap().to_vec::<f64>().unwrap())
            });
            let (xs, values) = (x.to_vec::<f64>().unwrap(), values.to_vec::<f64>().unwrap());
            let places = places.to_vec::<i64>().unwrap();
            let mut at = 0;
            for plane in xs.chunks(shape[2] * shape[3]) {
                for (rows, cols) in down.iter().flat_map(|r| across.iter().map(move |c| (r, c))) {
                    let pairs =
                        rows.iter().flatten().flat_map(|r| cols.iter().flatten().map(move |c| (r, c)));
                    let found: Vec<usize> = pairs.map(|(r, c)| r * shape[3] + c).collect();
                    let largest = found.iter().map(|&p| plane[p]).fold(f64::MIN, f64::max);
                    let first = *found.iter().find(|&&p| plane[p] == largest).unwrap();
                    assert_eq!((values[at], places[at]), (largest, first as i64), "{shape:?}");
                    if let Some([all, inside, seventh]) = &means {
                        let sum: f64 = found.iter().map(|&p| plane[p]).sum();
                        assert_eq!(all[at], sum / (rows.len() * cols.len()) as f64);
                        assert_eq!(inside[at], sum / found.len() as f64);
                        assert_eq!(seventh[at], sum / 7.0);
                    }
                    at += 1;
                }
            }
        }
    }
}

#[test]
fn padding_never_wins_and_the_first_of_equals_does() {
    let x = Tensor::full([1, 3, 3], -5);
    let (y, places) = x.max_pool2d_with_indices(3, Pool::new().padding(1).stride(2)).unwrap();
    assert_eq!(y, Tensor::full([1, 2, 2], -5));
    assert_eq!(places.flatten(..).unwrap(), tensor![0, 1, 3, 4; i64]);
    let x = Tensor::full([1, 2, 2], f32::NEG_INFINITY);
    assert_eq!(x.max_pool2d(2).unwrap(), Tensor::full([1, 1, 1], f32::NEG_INFINITY));
    let x = tensor![[1.0, f32::NAN, 9.0, f32::NAN, 3.0]];
    let (y, places) = x.max_pool1d_with_indices(5, Pool::new()).unwrap();
    assert!(y.item().unwrap().is_nan());
    assert_eq!(places, tensor![[3]; i64]);
    assert_eq!(tensor![[3, 7, 7]; i64].max_pool1d(3).unwrap(), tensor![[7]; i64]);
    let x = tensor![[-3, -2, 9, 8]; i64];
    assert_eq!(x.avg_pool1d(2).unwrap(), tensor![[-2, 8]; i64]);
    assert_eq!(x.avg_pool1d_with(4, Pool::new().divisor_override(5)).unwrap(), tensor![[2]; i64]);
}

/// The largest elements alone, with their places, and taken from these: in every type, of equals, of what is no number, for any number of threads.
#[test]
fn the_largest_are_those_at_their_places() {
    let close =
        |a: &Tensor, b: &Tensor| a.eq(b).unwrap().logical_or(a.isnan().logical_and(b.isnan()).unwrap());
    for (k, shape) in [[3, 2, 9, 40], [70, 3, 14, 14], [1, 1, 70, 301]].into_iter().enumerate() {
        let x = numbers(&shape);
        let mut special = x.to_vec::<f64>().unwrap();
        special
            .iter_mut()
            .skip(k)
            .step_by(7)
            .for_each(|v| *v = [f64::NAN, f64::INFINITY, -0.0][*v as i64 as usize % 3]);
        let special = Tensor::from_vec(special, shape).unwrap();
        for x in [x.clone(), x.float(), x.long(), special.clone(), special.float()] {
            for pool in [Pool::new(), Pool::new().stride(1).padding(1), Pool::new().ceil_mode(true)] {
                let both = || x.max_pool2d_with_indices(3, pool).unwrap();
                let (values, places) = both();
                let alone = x.max_pool2d_with(3, pool).unwrap();
                let found = ThreadPool::new(3).install(both);
                let (_, picked) = Picked::largest("max_pool2d", &x, 2, 3.into(), &pool).unwrap();
                assert_eq!((found.1, picked.places()), (places.clone(), places));
                for other in [&alone, &found.0, &picked.output(&x).unwrap()] {
                    assert!(close(other, &values).unwrap().all(..).unwrap().item_as::<bool>().unwrap());
                }
            }
        }
    }
}

/// Whatever memory held before, a gradient is a sum over zeros: no part of it is overwritten, none left as it was.
#[test]
fn gradients_add_up_on_fresh_zeros() {
    for _ in 0..3 {
        let stale = Tensor::full_with([4, 20, 20], 1e30, DType::F64);
        drop(stale);
        let x = numbers(&[4, 20, 20]);
        let (_, picked) = Picked::largest("t", &x, 2, 3.into(), &Pool::new().stride(1)).unwrap();
        let g = Tensor::ones_with([4, 18, 18], DType::F64);
        let sum = picked.input(&g).unwrap().sum(..).unwrap();
        assert_eq!(sum.item().unwrap(), 4.0 * 18.0 * 18.0);
        let up = Blended::interpolation("t", &x.unsqueeze(0).unwrap(), &Interpolate::scale(3)).unwrap();
        let back = up.input(&Tensor::ones_with([1, 4, 60, 60], DType::F64)).unwrap();
        assert_eq!(back, Tensor::full_with([1, 4, 20, 20], 9, DType::F64));
    }
}

#[test]
fn transposes_are_transposes() {
    let x = numbers(&[2, 3, 5, 7]);
    let bilinear = |o: Interpolate| o.mode(InterpolateMode::Bilinear);
    let plans = [
        Blended::means("t", &x, 2, 3.into(), &Pool::new().stride(2).padding(1)).unwrap(),
        Blended::adaptive("t", &x, 2, (3, 9).into()).unwrap(),
        Blended::interpolation("t", &x, &Interpolate::size((9, 3))).unwrap(),
        Blended::interpolation("t", &x, &bilinear(Interpolate::scale((2.5, 0.5)))).unwrap(),
        Blended::interpolation("t", &x, &bilinear(Interpolate::size((9, 1))).align_corners(true)).unwrap(),
        Blended::interpolation("t", &x, &Interpolate::scale(1.9).mode(InterpolateMode::NearestExact))
            .unwrap(),
        Blended::interpolation("t", &x, &Interpolate::scale((1.9, 0.6)).mode(InterpolateMode::Bicubic))
            .unwrap(),
    ];
    for plan in plans {
        let y = plan.output(&x).unwrap();
        let g = numbers(y.dims());
        let dot = |a: &Tensor, b: &Tensor| a.mul(b).unwrap().sum(..).unwrap();
        crate::assert_close!(dot(&y, &g), dot(&x, &plan.input(&g).unwrap()));
    }
}

#[test]
fn images_between_their_elements() {
    let x = tensor![[[[0.0, 1.0], [2.0, 3.0]]]];
    assert_eq!(x.interpolate(4).unwrap(), x.interpolate_with(Interpolate::scale(2)).unwrap());
    assert_eq!(x.interpolate((2, 3)).unwrap(), tensor![[[[0.0, 0.0, 1.0], [2.0, 2.0, 3.0]]]]);
    let options = Interpolate::size((2, 4)).mode(InterpolateMode::Bilinear);
    let y = x.interpolate_with(options).unwrap();
    assert_eq!(y, tensor![[[[0.0, 0.25, 0.75, 1.0], [2.0, 2.25, 2.75, 3.0]]]]);
    let y = x.interpolate_with(Interpolate::size((3, 3)).mode(InterpolateMode::Bilinear).align_corners(true));
    assert_eq!(y.unwrap(), tensor![[[[0.0, 0.5, 1.0], [1.0, 1.5, 2.0], [2.0, 2.5, 3.0]]]]);
    // An axis that keeps its size is copied, whatever the factor, and nothing of a neighbour comes in.
    let bilinear = |o: Interpolate| o.mode(InterpolateMode::Bilinear);
    let line = tensor![[[[0.0, 1.0, 2.0, 3.0, 4.0]]]];
    assert_eq!(line.interpolate_with(bilinear(Interpolate::scale((1.0, 1.1)))).unwrap(), line);
    // Neighbours of an axis that keeps or doubles its size are those of the sizes; not so along a line.
    for (factor, size) in [(1.1, 5), (2.1, 10), (2.19, 10)] {
        let near = line.interpolate_with(Interpolate::scale((1.0, factor))).unwrap();
        assert_eq!(near, line.interpolate_with(Interpolate::size((1, size))).unwrap());
    }
    let shifted = line.squeeze(2).unwrap().interpolate_with(Interpolate::scale(1.1)).unwrap();
    assert_eq!(shifted, tensor![[[0.0, 0.0, 1.0, 2.0, 3.0]]]);
    let x = tensor![[[[0.0, f32::NAN, 2.0], [3.0, 4.0, 5.0]]]];
    let y = x.interpolate_with(bilinear(Interpolate::size((4, 3)))).unwrap();
    assert_eq!(y.narrow(3, 0, 1).unwrap(), tensor![[[[0.0], [0.75], [2.25], [3.0]]]]);
    assert_eq!(y.narrow(3, 2, 1).unwrap(), tensor![[[[2.0], [2.75], [4.25], [5.0]]]]);
    let x = Tensor::ones([1, 1, 1, 3]).cumsum(-1).unwrap();
    let wide = Interpolate::scale((1.0, 1.8)).mode(InterpolateMode::Bilinear);
    let y = x.interpolate_with(wide).unwrap();
    assert_eq!(y.dims(), [1, 1, 1, 5]);
    assert_eq!(
        x.interpolate_with(wide.recompute_scale_factor(true)).unwrap(),
        x.interpolate_with(Interpolate::size((1, 5)).mode(InterpolateMode::Bilinear)).unwrap()
    );
    assert_ne!(x.interpolate_with(wide.recompute_scale_factor(true)).unwrap(), y);
    assert_eq!(tensor![[[1.0, 2.0]]].interpolate(4).unwrap(), tensor![[[1.0, 1.0, 2.0, 2.0]]]);
    let signed = tensor![[[[-0.0, f32::INFINITY]]]].interpolate((2, 4)).unwrap().to_vec::<f32>().unwrap();
    assert!(signed[0].is_sign_negative() && signed[7] == f32::INFINITY);
}

/// Halfway between two elements the weights are -3/32, 19/32, 19/32, -3/32; they sum to one everywhere, also where an end stands for
/// those beyond it.
#[test]
fn curves_through_elements() {
    let cubic = |x: &Tensor, options: Interpolate| {
        x.interpolate_with(options.mode(InterpolateMode::Bicubic)).unwrap()
    };
    let step = tensor![[[[0.0, 0.0, 0.0, 1.0, 1.0]]]; f64];
    let y = cubic(&step, Interpolate::size((1, 9)).align_corners(true));
    let expected = [0.0, 0.0, 0.0, -3.0 / 32.0, 0.0, 0.5, 1.0, 35.0 / 32.0, 1.0];
    crate::assert_close!(y.flatten(..).unwrap(), Tensor::from(expected));
    let one = Tensor::ones_with([1, 1, 3, 3], DType::F64);
    for options in
        [Interpolate::size((7, 2)), Interpolate::scale(1.3), Interpolate::size((7, 2)).align_corners(true)]
    {
        let y = cubic(&one, options);
        crate::assert_close!(y, Tensor::ones_with(y.dims(), DType::F64));
    }
}

#[test]
fn the_element_that_a_centre_is_in() {
    let line = tensor![[[0.0, 1.0, 2.0]]];
    let exact =
        |options: Interpolate| line.interpolate_with(options.mode(InterpolateMode::NearestExact)).unwrap();
    assert_eq!(exact(Interpolate::size(2)), tensor![[[0.0, 2.0]]]);
    assert_eq!(line.interpolate(2).unwrap(), tensor![[[0.0, 1.0]]]);
    assert_eq!(exact(Interpolate::size(5)), tensor![[[0.0, 0.0, 1.0, 2.0, 2.0]]]);
}

#[test]
fn lines_between_their_elements() {
    let line = tensor![[[0.0, 1.0, 4.0]]];
    let between =
        |options: Interpolate| line.interpolate_with(options.mode(InterpolateMode::Linear)).unwrap();
    assert_eq!(between(Interpolate::size(6)), tensor![[[0.0, 0.25, 0.75, 1.75, 3.25, 4.0]]]);
    assert_eq!(between(Interpolate::size(5).align_corners(true)), tensor![[[0.0, 0.5, 1.0, 2.5, 4.0]]]);
}

#[test]
fn same_bits_for_any_number_of_threads() {
    let x = numbers(&[8, 16, 33, 35]).sin().float();
    let all = || {
        let (y, places) = x.max_pool2d_with_indices(3, Pool::new().stride(2)).unwrap();
        let bilinear = Interpolate::scale(1.7).mode(InterpolateMode::Bilinear);
        [y, places, x.avg_pool2d(3).unwrap(), x.interpolate_with(bilinear).unwrap()]
    };
    let one = ThreadPool::new(1).install(all);
    assert_eq!(one, ThreadPool::new(3).install(all));
}

#[test]
fn pixels_are_shuffled_back() {
    let x = numbers(&[2, 12, 3, 2]);
    let y = x.pixel_shuffle(2).unwrap();
    assert_eq!(y.dims(), [2, 3, 6, 4]);
    assert_eq!(y.slice(crate::s![0, 0, 1, 2]).unwrap(), x.slice(crate::s![0, 2, 0, 1]).unwrap());
    assert_eq!(y.pixel_unshuffle(2).unwrap(), x);
    assert_eq!(Tensor::ones([4, 0, 2]).pixel_shuffle(2).unwrap().dims(), [1, 0, 4]);
}

#[test]
fn what_does_not_fit_is_refused_with_a_cure() {
    let x = Tensor::ones([1, 2, 4, 4]);
    let says = |r: Result<Tensor>, words: &[&str]| {
        let e = r.unwrap_err().to_string();
        assert!(words.iter().all(|word| e.contains(word)), "{e}");
    };
    says(x.max_pool2d(5), &["max_pool2d", "reaches over 5", "smaller window"]);
    says(x.max_pool2d_with(2, Pool::new().padding(2)), &["padding", "at most half"]);
    says(x.avg_pool2d_with(3, Pool::new().padding((1, 2))), &["padding", "at most half"]);
    // Half of the kernel, however far its elements stand from each other.
    let wide = Pool::new().stride(1).padding(2).dilation(2);
    says(x.max_pool2d_with(3, wide), &["padding", "at most half of the kernel size"]);
    says(Tensor::ones([1, 1, 9]).max_pool1d_with(3, wide), &["padding"]);
    assert!(Tensor::ones([1, 1, 9]).max_pool1d_with(3, wide.padding(1)).is_ok());
    says(x.max_pool2d(0), &["kernel", "at least 1"]);
    says(x.max_pool2d_with(2, Pool::new().stride(0)), &["stride", "at least 1"]);
    says(x.max_pool2d_with(2, Pool::new().dilation(0)), &["dilation", "at least 1"]);
    says(x.avg_pool2d_with(2, Pool::new().dilation(2)), &["dilation", "a mean has no"]);
    says(x.avg_pool2d_with(2, Pool::new().divisor_override(0)), &["divisor_override"]);
    says(x.bool().avg_pool2d(2), &["avg_pool2d", "not defined for bool", "to(DType::F32)"]);
    says(x.bool().max_pool2d(2), &["max_pool2d", "not defined for bool"]);
    says(x.select(0, 0).unwrap().select(0, 0).unwrap().max_pool2d(2), &["3 (without a batch) or 4"]);
    says(Tensor::ones([1, 0, 4, 4]).max_pool2d(2), &["only a batch may be empty"]);
    says(Tensor::ones([1, 1, 4, 0]).adaptive_avg_pool2d(2), &["only a batch may be empty"]);
    says(
        Tensor::ones([1, 1, 2]).max_pool1d_with(2, Pool::new().dilation(3).padding(1)),
        &["nothing but padding"],
    );
    says(Tensor::ones([1, 1, 2]).max_pool1d_with(2, Pool::new().stride((1, 2))), &["one axis"]);
    says(x.interpolate(0), &["interpolate", "size"]);
    says(x.interpolate_with(Interpolate::scale(f64::NAN)), &["size"]);
    says(x.interpolate_with(Interpolate::scale(-1)), &["size"]);
    says(x.interpolate_with(Interpolate::scale(1e30)), &["too large"]);
    says(x.interpolate_with(Interpolate::size(8).align_corners(true)), &["align_corners", "Bilinear"]);
    says(x.select(0, 0).unwrap().select(0, 0).unwrap().interpolate(2), &["interpolate", "3 or 4"]);
    says(x.select(0, 0).unwrap().interpolate((2, 3)), &["interpolate", "one axis"]);
    says(
        x.select(0, 0).unwrap().interpolate_with(Interpolate::size(2).mode(InterpolateMode::Bilinear)),
        &["Nearest", "Linear"],
    );
    says(
        x.interpolate_with(Interpolate::size(2).mode(InterpolateMode::Linear)),
        &["mode = Linear", "Bicubic"],
    );
    let exact = Interpolate::size(2).mode(InterpolateMode::NearestExact);
    says(x.interpolate_with(exact.align_corners(true)), &["align_corners", "Bilinear"]);
    says(x.pixel_shuffle(2), &["2 channels", "does not divide"]);
    says(x.pixel_shuffle(0), &["factor"]);
    says(x.pixel_shuffle(usize::MAX), &["does not divide"]);
    says(x.pixel_unshuffle(3), &["4 * 4", "3 does not divide both"]);
    for huge in [usize::MAX, 1 << 63, 1 << 62, 1 << 42] {
        says(x.max_pool2d(huge), &["max_pool2d"]);
        says(x.max_pool2d_with(2, Pool::new().dilation(huge)), &["max_pool2d"]);
        says(x.avg_pool2d_with(2, Pool::new().padding(huge)), &["avg_pool2d"]);
        says(x.adaptive_avg_pool2d(huge), &["too large"]);
        says(x.interpolate(huge), &["too large"]);
        assert_eq!(x.max_pool2d_with(2, Pool::new().stride(huge)).unwrap().dims(), [1, 2, 1, 1]);
        let far = Pool::new().stride(huge).ceil_mode(true);
        assert_eq!(x.max_pool2d_with(2, far).unwrap().dims(), [1, 2, 1, 1]);
    }
}

#[test]
fn windows_that_step_over_everything_are_refused() {
    let huge = 1usize << 63;
    let pool = Pool::new().stride(huge).padding(1).dilation(huge).ceil_mode(true);
    let refused = Tensor::ones([1, 2, 5]).max_pool1d_with(2, pool);
    assert!(refused.unwrap_err().to_string().contains("nothing but padding"));
}
