//! Pooling by random steps takes memory by the sides of its windows, not by their elements.

use foldback::prelude::*;
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

#[test]
fn windows_are_never_laid_out_whole() {
    let (channels, side, kernel, results) = (2, 160, 20, 120);
    let x = Tensor::randn([1, channels, side, side]);
    let layer = FractionalMaxPool2d::size(kernel, results);
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let y = layer.forward(&x).unwrap();
    let peak = MEMORY.peak_usage() - before;
    assert_eq!(y.shape(), [1, channels, results, results]);
    // The windows of all rows, and then those down the columns: of each element the value, and room for as much as three others.
    let by_sides = channels * side * results * kernel * 4 * 4;
    let by_elements = channels * results * results * kernel * kernel * 4;
    assert!(
        peak < by_sides && by_sides < by_elements / 3,
        "{peak} bytes, by sides {by_sides}, by elements {by_elements}"
    );
}
