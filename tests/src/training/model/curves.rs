//! Activations.

use foldback_nn::{
    CELU, ELU, GELU, GELUTanh, GLU, Hardshrink, Hardsigmoid, Hardswish, Hardtanh, LeakyReLU, LogSigmoid,
    LogSoftmax, Mish, PReLU, RReLU, ReLU, ReLU6, SELU, SiLU, Sigmoid, Softmax, Softmax2d, Softmin, Softplus,
    Softshrink, Softsign, Tanh, Tanhshrink, Threshold,
};

use super::basic::size;
use super::{Model, Row, row};
use crate::conformance::args::{Args, Read, Refusal};

pub(super) const ROWS: &[Row] = &[
    row!("ReLU", "", |_, _| ReLU),
    row!("ReLU6", "", |_, _| ReLU6),
    row!("SELU", "", |_, _| SELU),
    row!("SiLU", "", |_, _| SiLU),
    row!("Mish", "", |_, _| Mish),
    row!("Hardsigmoid", "", |_, _| Hardsigmoid),
    row!("Hardswish", "", |_, _| Hardswish),
    row!("Tanh", "", |_, _| Tanh),
    row!("Sigmoid", "", |_, _| Sigmoid),
    row!("LogSigmoid", "", |_, _| LogSigmoid),
    row!("Softsign", "", |_, _| Softsign),
    row!("Tanhshrink", "", |_, _| Tanhshrink),
    Row {
        name: "GELU",
        keywords: "approximate",
        new: |a, _| match a.word("approximate", "none")?.as_str() {
            "none" => Ok(Model::Layer(Box::new(GELU))),
            "tanh" => Ok(Model::Layer(Box::new(GELUTanh))),
            other => Err(Refusal::Argument(format!("`approximate` = {other}"))),
        },
    },
    row!("Softplus", "beta threshold", |a, _| {
        Softplus::new().beta(a.float("beta", 1.0)?).threshold(a.float("threshold", 20.0)?)
    }),
    row!("ELU", "alpha", |a, _| ELU::new().alpha(a.float("alpha", 1.0)?)),
    row!("CELU", "alpha", |a, _| CELU::new().alpha(a.float("alpha", 1.0)?)),
    row!("LeakyReLU", "negative_slope", |a, _| {
        LeakyReLU::new().negative_slope(a.float("negative_slope", 0.01)?)
    }),
    row!("Hardtanh", "min_val max_val", |a, _| {
        Hardtanh::new().min_val(a.float("min_val", -1.0)?).max_val(a.float("max_val", 1.0)?)
    }),
    row!("Hardshrink", "lambd", |a, _| Hardshrink::new().lambd(a.float("lambd", 0.5)?)),
    row!("Softshrink", "lambd", |a, _| Softshrink::new().lambd(a.float("lambd", 0.5)?)),
    row!("Threshold", "threshold value", |a, _| {
        Threshold::new(a.float("threshold", 0.0)?, a.float("value", 0.0)?)
    }),
    row!("GLU", "dim", |a, _| GLU::new().dim(a.int("dim")?.unwrap_or(-1))),
    row!("Softmax", "dim", |a, _| Softmax::new(axis(a)?)),
    row!("Softmin", "dim", |a, _| Softmin::new(axis(a)?)),
    row!("LogSoftmax", "dim", |a, _| LogSoftmax::new(axis(a)?)),
    row!("Softmax2d", "", |_, _| Softmax2d::new()),
    row!("RReLU", "lower upper", |a, _| {
        RReLU::new().lower(a.float("lower", 1.0 / 8.0)?).upper(a.float("upper", 1.0 / 3.0)?)
    }),
    row!("PReLU", "num_parameters init", |a, dtype| {
        let count = if a.has("num_parameters") { size(a, "num_parameters")? } else { 1 };
        PReLU::builder().num_parameters(count).init(a.float("init", 0.25)?).dtype(dtype).build()?
    }),
];

/// PyTorch guesses an axis that is not given, and warns.
fn axis(a: &Args) -> Read<isize> {
    a.int("dim")?.ok_or_else(|| Refusal::Unsupported("softmax(dim=None)".into()))
}
