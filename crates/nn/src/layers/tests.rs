//! Layers with senseless settings.

use foldback_tensor::{InterpolateMode, Pad, Padding, Tensor};

use super::*;
use crate::Layer;

const MAX: usize = usize::MAX;

/// Settings that no program means: an error, no panic and no overflow.
#[test]
fn senseless_settings_are_refused() {
    assert!(Conv1d::try_new(1, 1, MAX).is_err() && Conv1d::try_new(MAX, MAX, 1).is_err());
    assert!(
        Conv2d::try_new(1, 1, (MAX, MAX)).is_err() && Conv2d::builder(2, 2, 1).groups(MAX).build().is_err()
    );
    assert!(ConvTranspose1d::try_new(MAX, 2, 2).is_err() && ConvTranspose2d::try_new(2, 2, MAX).is_err());
    assert!(Bilinear::try_new(MAX, MAX, MAX).is_err() && Embedding::try_new(MAX, MAX).is_err());
    assert!(GroupNorm::try_new(1, MAX).is_err() && BatchNorm1d::try_new(MAX).is_err());
    assert!(LayerNorm::try_new([MAX, MAX]).is_err() && RMSNorm::try_new(MAX).is_err());
    assert!(PReLU::builder().num_parameters(MAX).build().is_err());
    assert!(LinearCrossEntropyLoss::builder(MAX, MAX).out_features(MAX).build().is_err());
    assert!(AdaptiveLogSoftmaxWithLoss::try_new(MAX, MAX, [MAX - 1]).is_err());
    assert!(InstanceNorm2d::builder(MAX).track_running_stats(true).build().is_err());
}

#[test]
fn senseless_calls_are_refused() {
    let image = Tensor::ones([1, 2, 4, 4]);
    let conv = || Conv2d::new(2, 2, 3);
    let backwards = std::ops::Range { start: 3, end: 1 };
    let mirrored = || conv().padding_mode(Pad::Reflect);
    let layers: Vec<Box<dyn Layer>> = vec![
        Box::new(conv().stride(0)),
        Box::new(conv().dilation(MAX)),
        Box::new(conv().padding(MAX)),
        Box::new(mirrored().padding(MAX)),
        Box::new(mirrored().padding(Padding::Same).dilation(MAX)),
        Box::new(mirrored().padding(Padding::Same).stride(2)),
        Box::new(ConvTranspose2d::new(2, 2, 3).stride(MAX)),
        Box::new(ConvTranspose2d::new(2, 2, 3).output_padding(MAX)),
        Box::new(MaxPool2d::new(0)),
        Box::new(MaxPool2d::new(2).dilation(MAX)),
        Box::new(AvgPool2d::new(MAX)),
        Box::new(AvgPool2d::new(2).divisor_override(0)),
        Box::new(AdaptiveAvgPool2d::new(MAX)),
        Box::new(FractionalMaxPool2d::size(MAX, MAX)),
        Box::new(FractionalMaxPool2d::size(1, MAX)),
        Box::new(FractionalMaxPool2d::ratio(1, 1e300)),
        Box::new(Upsample::size(MAX)),
        Box::new(Upsample::size(9).mode(InterpolateMode::Linear)),
        Box::new(Upsample::scale(1e300)),
        Box::new(Upsample::scale(-1.0)),
        Box::new(PixelShuffle::new(MAX)),
        Box::new(PixelShuffle::new(0)),
        Box::new(PixelUnshuffle::new(0)),
        Box::new(Flatten::over(backwards)),
        Box::new(Flatten::over(9..)),
        Box::new(Unflatten::new(isize::MIN, [1])),
        Box::new(Unflatten::new(1, [i64::MIN, 2])),
        Box::new(ZeroPad2d::new(i64::MAX)),
        Box::new(ZeroPad2d::new(i64::MIN)),
        Box::new(ReflectionPad2d::new([1, 1, 1])),
        Box::new(CircularPad2d::new(5)),
        Box::new(Softmax::new(isize::MAX)),
        Box::new(GLU::new().dim(isize::MIN)),
        Box::new(RReLU::new().lower(f64::NAN)),
        Box::new(LayerNorm::new([3, 3])),
        Box::new(GroupNorm::new(1, 3)),
        Box::new(Embedding::new(3, 2)),
    ];
    for (number, layer) in layers.iter().enumerate() {
        let e = layer.forward(&image).expect_err(&format!("layer {number}"));
        assert!(e.to_string().contains(": "), "{e}");
    }
}

#[test]
fn groups_without_a_weight_take_other_numbers_of_channels() {
    let layer = GroupNorm::new(2, 4);
    assert!(layer.forward(Tensor::ones([2, 6, 3])).is_err());
    let plain = layer.affine(false);
    assert_eq!(plain.forward(Tensor::ones([2, 6, 3])).unwrap().dims(), [2, 6, 3]);
    assert!(plain.forward(Tensor::ones([2, 5, 3])).is_err());
    assert!(plain.forward(Tensor::ones([2])).is_err());
}
