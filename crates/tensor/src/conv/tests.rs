//! Convolutions against their definition.

use super::*;
use crate::{DType, Kind, ThreadPool};

/// Whole numbers, so that sums are exact in any order.
fn numbers(shape: &[usize], dtype: DType) -> Tensor {
    let n: usize = shape.iter().product();
    let values: Vec<f64> = (0..n).map(|i| ((i * 37 + i / 7 + 5) % 13) as f64 - 6.0).collect();
    Tensor::from_vec(values, shape.to_vec()).unwrap().to(dtype)
}

struct Case {
    x: [usize; 4],
    w: [usize; 4],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
    groups: usize,
}

const fn case(
    x: [usize; 4],
    w: [usize; 4],
    s: [usize; 2],
    p: [usize; 2],
    d: [usize; 2],
    groups: usize,
) -> Case {
    Case { x, w, stride: s, padding: p, dilation: d, groups }
}

const CASES: &[Case] = &[
    case([1, 1, 1, 1], [1, 1, 1, 1], [1, 1], [0, 0], [1, 1], 1),
    case([2, 3, 7, 8], [4, 3, 3, 3], [1, 1], [1, 1], [1, 1], 1),
    case([2, 3, 7, 8], [4, 3, 2, 3], [2, 3], [0, 1], [1, 1], 1),
    case([3, 4, 9, 40], [6, 2, 3, 5], [1, 1], [2, 2], [2, 1], 2),
    case([2, 6, 9, 11], [6, 1, 3, 3], [1, 1], [1, 1], [1, 1], 6),
    case([2, 6, 9, 11], [6, 1, 3, 3], [2, 2], [1, 1], [1, 2], 6),
    case([2, 3, 5, 5], [6, 1, 2, 2], [2, 1], [0, 1], [1, 1], 3),
    case([2, 20, 6, 6], [30, 20, 1, 1], [1, 1], [0, 0], [1, 1], 1),
    case([2, 4, 6, 6], [6, 2, 1, 1], [1, 1], [0, 0], [1, 1], 2),
    case([2, 20, 6, 7], [5, 20, 1, 1], [2, 2], [0, 0], [1, 1], 1),
    case([2, 5, 6, 7], [5, 5, 1, 1], [1, 2], [2, 1], [1, 1], 1),
    case([5, 40, 7, 7], [33, 40, 3, 3], [1, 1], [1, 1], [1, 1], 1),
    case([1, 2, 3, 300], [17, 2, 3, 7], [1, 2], [1, 3], [1, 1], 1),
    case([1, 1, 2, 2], [2, 1, 3, 3], [1, 1], [3, 3], [3, 3], 1),
    case([1, 2, 4, 4], [2, 2, 2, 2], [5, 5], [1, 1], [1, 1], 1),
    case([0, 2, 4, 4], [2, 2, 2, 2], [1, 1], [1, 1], [1, 1], 1),
    // Several images of a tile, and several such tiles.
    case([70, 6, 5, 5], [6, 1, 3, 3], [1, 1], [1, 1], [1, 1], 6),
    case([150, 2, 9, 8], [2, 1, 3, 3], [2, 2], [1, 1], [1, 1], 2),
    case([61, 2, 11, 7], [3, 2, 2, 3], [2, 3], [1, 0], [1, 2], 1),
    case([40, 3, 14, 13], [4, 3, 1, 1], [1, 1], [0, 0], [1, 1], 1),
    // Many images and groups side by side.
    case([9, 17, 4, 5], [34, 1, 2, 3], [1, 1], [1, 2], [1, 2], 17),
    case([70, 3, 7, 6], [3, 3, 3, 3], [2, 2], [1, 1], [1, 1], 1),
    case([33, 4, 7, 7], [4, 1, 2, 2], [3, 4], [0, 1], [1, 1], 4),
    // The same, of many channels.
    case([35, 8, 5, 6], [9, 8, 3, 3], [1, 1], [0, 0], [1, 1], 1),
    case([64, 9, 4, 3], [14, 9, 3, 2], [1, 1], [2, 1], [1, 2], 1),
    case([33, 16, 4, 5], [18, 8, 2, 3], [2, 1], [1, 1], [1, 1], 2),
    case([32, 8, 1, 3], [8, 8, 1, 5], [1, 1], [3, 2], [1, 1], 1),
];

impl Case {
    fn options(&self) -> Conv {
        Conv::new().stride(self.stride).padding(self.padding).dilation(self.dilation).groups(self.groups)
    }

    fn output(&self) -> [usize; 4] {
        let size = |d: usize| {
            let reach = self.dilation[d] * (self.w[2 + d] - 1) + 1;
            (self.x[2 + d] + 2 * self.padding[d] - reach) / self.stride[d] + 1
        };
        [self.x[0], self.w[0], size(0), size(1)]
    }

    /// Calls `f` with the places of an input, a weight and an output, wherever the three meet.
    fn each(&self, mut f: impl FnMut(usize, usize, usize)) {
        let [n, o, h, w] = self.output();
        let ([_, c, xh, xw], [_, each, kh, kw]) = (self.x, self.w);
        let place = |d: usize, i: usize, t: usize| {
            (i * self.stride[d] + t * self.dilation[d])
                .checked_sub(self.padding[d])
                .filter(|&p| p < [xh, xw][d])
        };
        let all = |sizes: &[usize]| sizes.iter().product::<usize>();
        for at in 0..all(&[n, o, h, w, each, kh, kw]) {
            let mut rest = at;
            let mut next = |size: usize| {
                let i = rest % size;
                rest /= size;
                i
            };
            let (t, s, k, j, i, row, item) =
                (next(kw), next(kh), next(each), next(w), next(h), next(o), next(n));
            if let (Some(y), Some(x)) = (place(0, i, s), place(1, j, t)) {
                let channel = row / (o / self.groups) * each + k;
                f(
                    ((item * c + channel) * xh + y) * xw + x,
                    ((row * each + k) * kh + s) * kw + t,
                    ((item * o + row) * h + i) * w + j,
                );
            }
        }
    }
}

#[test]
fn the_three_products_follow_their_definition() {
    for (number, case) in CASES.iter().enumerate() {
        for dtype in [DType::F64, DType::F32] {
            let [x, w, g] = [&case.x, &case.w, &case.output()].map(|s| numbers(s, dtype));
            let bias = numbers(&[case.w[0]], dtype);
            let [xs, ws, gs, bs] = [&x, &w, &g, &bias].map(|t| t.to(DType::F64).to_vec::<f64>().unwrap());
            let plane: usize = case.output()[2..].iter().product();
            let mut y: Vec<f64> = (0..gs.len()).map(|i| bs[i / plane % case.w[0]]).collect();
            let (mut dx, mut dw) = (vec![0.0; xs.len()], vec![0.0; ws.len()]);
            case.each(|i, k, o| {
                y[o] += xs[i] * ws[k];
                dx[i] += gs[o] * ws[k];
                dw[k] += gs[o] * xs[i];
            });
            let same = |found: Tensor, want: Vec<f64>, what: &str| {
                let found = found.to(DType::F64).to_vec::<f64>().unwrap();
                assert_eq!(found, want, "{what} of case {number} in {dtype}");
            };
            let plan = Convolution::new("t", &x, &w, 2, &case.options()).unwrap();
            let all = || {
                let y = x.conv2d_with(&w, case.options().bias(&bias)).unwrap();
                [y, plan.input(&g, &w, None).unwrap(), plan.weight(&g, &x).unwrap()]
            };
            let [fy, fx, fw] = all();
            same(fy, y, "the output");
            same(fx, dx, "the gradient of the input");
            same(fw, dw, "the gradient of the weight");
            let [x, w, g, bias] = [&x, &w, &g, &bias].map(Tensor::long);
            let whole = x.conv2d_with(&w, case.options().bias(&bias)).unwrap();
            assert_eq!([whole, plan.input(&g, &w, None).unwrap()], all_but_last(all()).map(|t| t.long()));
        }
    }
}

fn all_but_last([y, x, _]: [Tensor; 3]) -> [Tensor; 2] {
    [y, x]
}

#[test]
fn same_bits_for_any_number_of_threads() {
    for shape in [
        ([2, 16, 20, 20], [24, 16, 3, 3], 1),
        ([6, 40, 7, 7], [70, 40, 3, 3], 1),
        ([3, 8, 33, 9], [8, 1, 3, 3], 8),
        ([90, 8, 9, 9], [8, 1, 3, 3], 8),
        ([70, 8, 6, 6], [12, 8, 3, 3], 1),
    ] {
        let (x, w, groups) = shape;
        let x = numbers(&x, DType::F32).mul(0.1).unwrap().sin();
        let w = numbers(&w, DType::F32).mul(0.3).unwrap().sin();
        let plan = Convolution::new("t", &x, &w, 2, &Conv::new().padding(1).groups(groups)).unwrap();
        let all = || {
            let y = plan.output(&x, &w, None).unwrap();
            [plan.input(&y, &w, None).unwrap(), plan.weight(&y, &x).unwrap(), y]
        };
        let one = ThreadPool::new(1).install(all);
        for threads in [2, 3, 7] {
            assert_eq!(one, ThreadPool::new(threads).install(all));
        }
    }
}

#[test]
fn axes_and_batches_may_be_missing() {
    let (x, w) = (numbers(&[2, 3, 9], DType::F32), numbers(&[4, 3, 2], DType::F32));
    let y = x.conv1d_with(&w, Conv::new().stride(2).padding(1)).unwrap();
    let wide =
        x.unsqueeze(2).unwrap().conv2d_with(w.unsqueeze(2).unwrap(), Conv::new().stride(2).padding((0, 1)));
    assert_eq!(y, wide.unwrap().squeeze(2).unwrap());
    let alone = x.select(0, 1).unwrap().conv1d_with(&w, Conv::new().stride(2).padding(1)).unwrap();
    assert_eq!(alone, y.select(0, 1).unwrap());
    let back = y.conv_transpose1d_with(&w, Conv::new().stride(2).padding(1).output_padding(1)).unwrap();
    assert_eq!(back.dims(), x.dims());
    let alone = y.select(0, 0).unwrap().conv_transpose1d_with(&w, Conv::new().stride(2).padding(1)).unwrap();
    assert_eq!(alone, back.select(0, 0).unwrap().narrow(-1, 0, 8).unwrap());
}

#[test]
fn padding_by_name() {
    let (x, w) = (numbers(&[1, 1, 6], DType::F32), numbers(&[1, 1, 4], DType::F32));
    let same = x.conv1d_with(&w, Conv::new().padding(Padding::Same)).unwrap();
    let padded = Tensor::cat([&Tensor::zeros([1, 1, 1]), &x, &Tensor::zeros([1, 1, 2])], -1).unwrap();
    assert_eq!(same, padded.conv1d(&w).unwrap());
    assert_eq!(x.conv1d_with(&w, Conv::new().padding(Padding::Valid)).unwrap(), x.conv1d(&w).unwrap());
    assert!(x.conv1d_with(&w, Conv::new().padding(Padding::Same).stride(2)).is_err());
    assert!(x.conv_transpose1d_with(&w, Conv::new().padding(Padding::Same)).is_err());
}

#[test]
fn operands_of_any_layout() {
    let (x, w) = (numbers(&[2, 3, 6, 5], DType::F32), numbers(&[4, 3, 3, 2], DType::F32));
    let turned = |t: &Tensor| t.permute([3, 0, 2, 1]).unwrap().contiguous().permute([1, 3, 2, 0]).unwrap();
    let y = x.conv2d(&w).unwrap();
    assert_eq!(turned(&x).conv2d(turned(&w)).unwrap(), y);
    let wide = x.select(0, 0).unwrap().expand([2, 3, 6, 5]).unwrap().conv2d(&w).unwrap();
    assert_eq!(wide.select(0, 1).unwrap(), y.select(0, 0).unwrap());
}

#[test]
fn what_does_not_fit_is_refused_with_a_cure() {
    let (x, w) = (Tensor::ones([1, 4, 5, 5]), Tensor::ones([6, 4, 3, 3]));
    let says = |r: Result<Tensor>, words: &[&str]| {
        let e = r.unwrap_err().to_string();
        assert!(words.iter().all(|word| e.contains(word)), "{e}");
    };
    says(
        x.conv2d_with(&w, Conv::new().groups(4)),
        &["conv2d", "divide the 6 channels of the output, and 4 does not"],
    );
    says(x.conv2d_with(Tensor::ones([6, 1, 3, 3]), Conv::new().groups(3)), &["divide the 4 channels, and 3"]);
    says(x.conv2d(Tensor::ones([6, 4, 6, 3])), &["reaches over 6", "smaller kernel"]);
    says(x.conv2d_with(&w, Conv::new().dilation(3)), &["reaches over 7"]);
    says(x.conv2d(w.double()), &["input is f32", "weight f64", "convert"]);
    says(x.bool().conv2d(w.bool()), &["not defined for bool", "to(DType::F32)"]);
    says(x.conv2d_with(&w, Conv::new().stride(0)), &["stride", "at least 1"]);
    says(x.conv2d_with(&w, Conv::new().dilation((1, 0))), &["dilation"]);
    says(x.conv2d_with(&w, Conv::new().groups(0)), &["groups"]);
    says(x.conv2d_with(&w, Conv::new().output_padding(1)), &["output_padding", "transposed"]);
    says(x.conv2d_with(&w, Conv::new().bias(&x)), &["the bias must have shape [6], found [1, 4, 5, 5]"]);
    says(
        x.conv2d(Tensor::ones([6, 4, 3])),
        &["4 axes of the weight, got 3", "[out, in / groups, height, width]"],
    );
    says(
        x.select(0, 0).unwrap().select(0, 0).unwrap().conv2d(&w),
        &["3 (without a batch) or 4 axes of the input, got 2", "unsqueeze(0)"],
    );
    says(x.conv2d(Tensor::ones([6, 4, 0, 3])), &["without elements"]);
    says(
        x.select(0, 0).unwrap().conv1d_with(w.select(3, 0).unwrap(), Conv::new().stride((1, 2))),
        &["one axis"],
    );
    let t = Tensor::ones([4, 2, 3, 3]);
    says(x.conv_transpose2d_with(&t, Conv::new().output_padding(1)), &["less than the stride"]);
    says(x.conv_transpose2d_with(&t, Conv::new().padding(9)), &["must be 1 at least"]);
    says(x.conv_transpose2d_with(&t, Conv::new().groups(3)), &["divide the 4 channels, and 3"]);
    says(
        x.conv2d(Tensor::ones([6, 3, 3, 3])),
        &["has 4 channels", "takes 3: axis 1 of a weight for this input has size 4"],
    );
    says(x.conv_transpose2d(&w), &["takes 6: transpose(0, 1) of the weight would fit"]);
    says(x.conv_transpose2d_with(Tensor::ones([4, 0, 3, 3]), Conv::new()), &["no channels in its axis 1"]);
    for huge in [usize::MAX, 1 << 62, 1 << 61, 1 << 58] {
        for conv in [Conv::new().padding(huge), Conv::new().dilation(huge)] {
            assert!(x.conv2d_with(&w, conv).is_err());
            assert!(x.conv_transpose2d_with(&t, conv).is_err());
        }
        assert!(x.conv2d_with(&w, Conv::new().padding(huge).dilation(huge)).is_ok() == (huge < 1 << 60));
        assert_eq!(x.conv2d_with(&w, Conv::new().stride(huge)).is_err(), huge > 1 << 60);
        assert!(x.conv_transpose2d_with(&t, Conv::new().stride(huge)).is_err());
        let far = Conv::new().stride(huge).padding(huge / 4);
        assert!(x.conv2d_with(&w, far).is_ok_and(|y| y.dims() == [1, 6, 1, 1]) || huge > 1 << 60);
    }
    assert_eq!(x.conv2d(w.double()).unwrap_err().kind(), Kind::DType);
}

/// What lies between the lines of a window is multiplied by zero, which must not make NaN of an infinity.
#[test]
fn infinities_stay_with_the_taps_that_meet_them() {
    let cases = [(1, 1, 1), (2, 3, 1), (3, 3, 3), (8, 20, 1)];
    for ((channels, rows, groups), items) in cases.into_iter().flat_map(|case| [(case, 1), (case, 3)]) {
        let mut x = numbers(&[items, channels, 3, 5], DType::F32);
        x.slice_assign(crate::s![items as isize - 1, 0, 0, 0], f32::INFINITY).unwrap();
        let g = Tensor::ones([items, rows, 3, 3]);
        let w = Tensor::zeros([rows, channels / groups, 1, 3]);
        let plan = Convolution::new("t", &x, &w, 2, &Conv::new().groups(groups)).unwrap();
        let finite = plan.weight(&g, &x).unwrap().isfinite().to_vec::<bool>().unwrap();
        // The first tap of the first channel, and no other.
        let each = channels / groups * 3;
        let meets = |i: usize| i.is_multiple_of(each) && (groups == 1 || i == 0);
        assert_eq!(finite, (0..rows * each).map(|i| !meets(i)).collect::<Vec<_>>(), "{channels} to {rows}");
    }
    // The next channel begins right behind the last result of this one.
    let mut x = numbers(&[2, 2, 3, 3], DType::F32);
    x.slice_assign(crate::s![0, 1, 0, 0], f32::INFINITY).unwrap();
    let plan = Convolution::new("t", &x, &Tensor::zeros([1, 2, 1, 1]), 2, &Conv::new()).unwrap();
    let gradient = plan.weight(&Tensor::ones([2, 1, 3, 3]), &x).unwrap();
    assert_eq!(gradient.isfinite().to_vec::<bool>().unwrap(), [true, false]);
}

/// The page of conventions says so.
#[test]
fn zeros_around_are_multiplied_by_weights_that_are_no_numbers() {
    let w = crate::tensor![[[1.0, 2.0, f32::INFINITY]]];
    let y = Tensor::ones([1, 1, 3]).conv_transpose1d(&w).unwrap().to_vec::<f32>().unwrap();
    assert!(y[..2].iter().all(|v| v.is_nan()) && y[2..] == [f32::INFINITY; 3], "{y:?}");
    // Of any number of images.
    let mut w = numbers(&[8, 8, 1, 3], DType::F32);
    w.slice_assign(crate::s![0, 0, 0, 2], f32::INFINITY).unwrap();
    let all = Tensor::ones([64, 8, 1, 4]).conv_transpose2d(&w).unwrap();
    let one = Tensor::ones([1, 8, 1, 4]).conv_transpose2d(&w).unwrap();
    let [one, all] = [one, all].map(|y| y.isnan().to_vec::<bool>().unwrap());
    assert!(one.contains(&true) && one.contains(&false));
    assert!(all.chunks_exact(one.len()).all(|image| image == one));
}
