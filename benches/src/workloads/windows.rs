//! W18: convolutions of images, and pooling.

use foldback::prelude::*;

use super::{Unit, Work, Workload, backward, forward, leaf, tensor};
use crate::inputs::Input;

/// Images that a network of convolutions has in its middle.
const IMAGES: Input<4> = Input::new([32, 64, 56, 56], 90, -0.5, 1.0);

/// A key, its form with gradients, and the kernel.
const KERNELS: [(&str, &str, [usize; 4]); 3] = [
    ("W18-3x3", "W18-3x3-back", [64, 64, 3, 3]),
    ("W18-1x1", "W18-1x1-back", [64, 64, 1, 1]),
    ("W18-depthwise", "W18-depthwise-back", [64, 1, 3, 3]),
];

pub(super) fn list() -> Vec<Workload> {
    let mut list: Vec<_> = KERNELS.into_iter().flat_map(convolution).collect();
    let unit = Unit::Elements(IMAGES.shape.iter().product());
    let work = Work { read: super::bytes(&IMAGES.shape), ..Work::default() };
    list.push(Workload::new("W18-pool", "max_pool2d(2) of [32, 64, 56, 56]", unit, work, || {
        let x = tensor(IMAGES)?;
        Ok(forward(move || x.max_pool2d(2)))
    }));
    list
}

fn convolution((key, back, shape): (&'static str, &'static str, [usize; 4])) -> [Workload; 2] {
    let kernel = Input::new(shape, 91, -0.1, 0.1);
    let options = Conv::new().padding(shape[2] / 2).groups(64 / shape[1]);
    let places: usize = IMAGES.shape.iter().product();
    let flops = 2 * places * shape[1] * shape[2] * shape[3];
    let unit = Unit::Elements(places);
    let title = format!("conv2d [32, 64, 56, 56] by {shape:?}");
    let [once, thrice] = [1, 3].map(|n| Work { flops: n * flops, ..Work::default() });
    [
        Workload::new(key, title.clone(), unit, once, move || {
            let (x, w) = (tensor(IMAGES)?, tensor(kernel)?);
            Ok(forward(move || x.conv2d_with(&w, options)))
        }),
        Workload::new(back, format!("{title}, the sum of its squares, and back"), unit, thrice, move || {
            let (x, w) = (leaf(IMAGES)?, leaf(kernel)?);
            Ok(backward(vec![x.clone(), w.clone()], move || x.conv2d_with(&w, options)?.square().sum(..)))
        }),
    ]
}
