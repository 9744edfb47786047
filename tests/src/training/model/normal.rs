//! Layers that normalise.

use foldback_nn::{BatchNorm1d, BatchNorm2d, GroupNorm, InstanceNorm1d, InstanceNorm2d, LayerNorm, RMSNorm};

use super::basic::size;
use super::{Row, row};
use crate::conformance::args::{Args, Read, Refusal};

macro_rules! statistics {
    ($name:literal, $layer:ident, $default:literal) => {
        row!($name, "num_features eps momentum affine track_running_stats bias", |a, dtype| {
            let layer = $layer::builder(size(a, "num_features")?).eps(a.float("eps", 1e-5)?);
            let layer = layer.momentum(momentum(a)?).affine(a.flag("affine", $default)?).dtype(dtype);
            let layer = layer.bias(a.flag("bias", true)?);
            layer.track_running_stats(a.flag("track_running_stats", $default)?).build()?
        })
    };
}

pub(super) const ROWS: &[Row] = &[
    row!("LayerNorm", "normalized_shape eps elementwise_affine bias", |a, dtype| {
        let layer = LayerNorm::builder(sizes(a)?).eps(a.float("eps", 1e-5)?).bias(a.flag("bias", true)?);
        layer.elementwise_affine(a.flag("elementwise_affine", true)?).dtype(dtype).build()?
    }),
    row!("RMSNorm", "normalized_shape eps elementwise_affine", |a, dtype| {
        let layer = RMSNorm::builder(sizes(a)?).eps(a.scalar("eps")?.map(|eps| eps.to_f64()));
        layer.elementwise_affine(a.flag("elementwise_affine", true)?).dtype(dtype).build()?
    }),
    row!("GroupNorm", "num_groups num_channels eps affine bias", |a, dtype| {
        let layer = GroupNorm::builder(size(a, "num_groups")?, size(a, "num_channels")?);
        let layer = layer.bias(a.flag("bias", true)?);
        layer.eps(a.float("eps", 1e-5)?).affine(a.flag("affine", true)?).dtype(dtype).build()?
    }),
    statistics!("BatchNorm1d", BatchNorm1d, true),
    statistics!("BatchNorm2d", BatchNorm2d, true),
    statistics!("InstanceNorm1d", InstanceNorm1d, false),
    statistics!("InstanceNorm2d", InstanceNorm2d, false),
];

/// A number, or null for the mean over all batches; 0.1 if it is not given.
fn momentum(a: &Args) -> Read<Option<f64>> {
    if a.is_null("momentum") { Ok(None) } else { a.float("momentum", 0.1).map(Some) }
}

fn sizes(a: &Args) -> Read<Vec<usize>> {
    let sizes = a.ints_of("normalized_shape")?.into_iter().map(usize::try_from);
    sizes.collect::<Result<_, _>>().map_err(|_| Refusal::Argument("a negative size".into()))
}
