//! Convolutions, pooling, interpolation, pixels.

use foldback::prelude::*;

use super::lines;

lines! {
    LINES (x: Var, w: Var, b: Var);
    "conv1d": x.conv1d(&w), x.conv1d_with(&w, Conv::new().bias(&b).stride(2).padding(1).dilation(1).groups(1)); "bias and settings are setters of `Conv`; `padding='same'` is `Padding::Same`"
    "conv2d": x.conv2d(&w), x.conv2d_with(&w, Conv::new().bias(&b).stride(2).padding(1).dilation(1).groups(1)); "bias and settings are setters of `Conv`; `padding='same'` is `Padding::Same`"
    "conv_transpose1d": x.conv_transpose1d(&w), x.conv_transpose1d_with(&w, Conv::new().bias(&b).stride(2).output_padding(1)); "as `conv2d`"
    "conv_transpose2d": x.conv_transpose2d(&w), x.conv_transpose2d_with(&w, Conv::new().bias(&b).stride(2).output_padding(1)); "as `conv2d`"
    "max_pool1d": x.max_pool1d(2), x.max_pool1d_with(2, Pool::new().stride(1).padding(1)), x.max_pool1d_with_indices(2, Pool::new()); "settings are setters of `Pool`; `return_indices` is in the name"
    "max_pool2d": x.max_pool2d(2), x.max_pool2d_with(2, Pool::new().stride(1).padding(1)), x.max_pool2d_with_indices(2, Pool::new()); "settings are setters of `Pool`; `return_indices` is in the name"
    "avg_pool1d": x.avg_pool1d(2), x.avg_pool1d_with(2, Pool::new().count_include_pad(false)); "as `max_pool2d`"
    "avg_pool2d": x.avg_pool2d(2), x.avg_pool2d_with(2, Pool::new().count_include_pad(false)); "as `max_pool2d`"
    "adaptive_avg_pool1d": x.adaptive_avg_pool1d(1); ""
    "adaptive_avg_pool2d": x.adaptive_avg_pool2d([1, 1]), x.adaptive_avg_pool2d((None, 1)); ""
    "interpolate": x.interpolate([8, 8]), x.interpolate_with(Interpolate::scale(2).mode(InterpolateMode::Bilinear).align_corners(true)); "images `[n, c, h, w]` and lines `[n, c, l]`; no volumes, so no `trilinear`, and no `area`, which is `adaptive_avg_pool2d`; a factor that leaves both sizes as they are makes PyTorch's gradient by `bicubic` another one than its result's"
    "pixel_shuffle": x.pixel_shuffle(2); ""
    "pixel_unshuffle": x.pixel_unshuffle(2); ""
}
