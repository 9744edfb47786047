//! W18: convolutions of images, and pooling.

use foldback::Result;
use foldback::graph::Var;
use foldback::prelude::*;

use super::{Both, Work, Workload, both, bytes, tensor};
use crate::inputs::{IMAGES, Input};

/// What the first layer of a network reads.
const PHOTOGRAPHS: Input<4> = Input::new([8, 3, 224, 224], 90, -0.5, 1.0);
/// Nothing is a multiple of a vector or of a block.
const ODD: Input<4> = Input::new([7, 24, 37, 41], 90, -0.5, 1.0);

pub(super) fn list() -> Vec<Workload> {
    let middle = Convolution { images: IMAGES, kernel: [64, 64, 3, 3], stride: 1, padding: 1, groups: 1 };
    let list = [
        middle.workloads(["W18-3x3", "W18-3x3-back"]),
        Convolution { kernel: [64, 64, 1, 1], padding: 0, ..middle }.workloads(["W18-1x1", "W18-1x1-back"]),
        Convolution { kernel: [64, 1, 3, 3], groups: 64, ..middle }
            .workloads(["W18-depthwise", "W18-depthwise-back"]),
        Convolution { images: PHOTOGRAPHS, kernel: [64, 3, 7, 7], stride: 2, padding: 3, groups: 1 }
            .workloads(["W18-first", "W18-first-back"]),
        Convolution { images: ODD, kernel: [36, 12, 3, 5], stride: 2, padding: 1, groups: 2 }
            .workloads(["W18-odd", "W18-odd-back"]),
        pool(
            ["W18-pool", "W18-pool-back"],
            "max_pool2d(2)",
            IMAGES,
            |x| x.max_pool2d(2),
            |x| x.max_pool2d(2),
        ),
        pool(
            ["W18-overlap", "W18-overlap-back"],
            "max_pool2d(3), stride 2, padding 1,",
            ODD,
            |x| x.max_pool2d_with(3, Pool::new().stride(2).padding(1)),
            |x| x.max_pool2d_with(3, Pool::new().stride(2).padding(1)),
        ),
        pool(
            ["W18-average", "W18-average-back"],
            "avg_pool2d(2)",
            IMAGES,
            |x| x.avg_pool2d(2),
            |x| x.avg_pool2d(2),
        ),
    ];
    list.into_iter().flatten().collect()
}

/// Images, and how they are convolved.
#[derive(Clone, Copy)]
struct Convolution {
    images: Input<4>,
    kernel: [usize; 4],
    stride: usize,
    padding: usize,
    groups: usize,
}

impl Convolution {
    /// Back, the gradients of the images and of the kernel take as many multiplications each.
    fn workloads(self, keys: [&'static str; 2]) -> [Workload; 2] {
        let Convolution { images, kernel, stride, padding, groups } = self;
        let input = Input::new(kernel, 91, -0.1, 0.1);
        let steps = |axis: usize| (images.shape[axis] + 2 * padding - kernel[axis]) / stride + 1;
        let stepping = if stride > 1 { format!(", stride {stride}") } else { String::new() };
        let flops = 2 * images.shape[0] * steps(2) * steps(3) * kernel.iter().product::<usize>();
        let what = Both {
            keys,
            title: format!("conv2d {:?} by {kernel:?}{stepping}", images.shape),
            elements: images.shape.iter().product(),
            work: [1, 3].map(|n| Work { flops: n * flops, ..Work::default() }),
        };
        let options = Conv::new().stride(stride).padding(padding).groups(groups);
        both(
            what,
            move || Ok([tensor(images)?, tensor(input)?]),
            move |[x, w]| x.conv2d_with(w, options),
            move |[x, w]| x.conv2d_with(w, options),
        )
    }
}

/// Windows that move by two: a quarter as many results as elements.
fn pool(
    keys: [&'static str; 2],
    name: &str,
    images: Input<4>,
    of_tensor: fn(&Tensor) -> Result<Tensor>,
    of_var: fn(&Var) -> Result<Var>,
) -> [Workload; 2] {
    let size = bytes(&images.shape);
    let what = Both {
        keys,
        title: format!("{name} of {:?}", images.shape),
        elements: size / 4,
        work: [size / 4, size].map(|written| Work { read: size, written, ..Work::default() }),
    };
    both(what, move || Ok([tensor(images)?]), move |[x]| of_tensor(x), move |[x]| of_var(x))
}
