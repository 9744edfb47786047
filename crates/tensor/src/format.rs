//! `Display` and `Debug`: PyTorch's layout of values, columns, and the ellipsis in large tensors.
//!
//! Source: `torch/_tensor_str.py`, with its default options and our names of dtypes.

use std::fmt::{self, Write};

use crate::dtype::{DType, Scalar};
use crate::tensor::Tensor;

/// Digits after the point, unless the format string says otherwise.
const PRECISION: usize = 4;
/// Tensors with more elements are summarised.
const THRESHOLD: usize = 1000;
/// How many items a summary shows at either end of an axis.
const EDGE: usize = 3;
const LINE_WIDTH: usize = 80;
const PREFIX: &str = "tensor(";

/// The layout of PyTorch: aligned columns, at most 80 characters, `...` above 1,000 elements, scientific notation where
/// magnitudes differ by more than a factor of 1,000, and the dtype unless it is `f32`, `i64` or `bool`.
///
/// A precision sets the digits after the point.
///
/// ```
/// use foldback_tensor::tensor;
/// let t = tensor![[1.5, 2.0], [-3.25, 4.0]];
/// assert_eq!(t.to_string(), "tensor([[ 1.5000,  2.0000],\n        [-3.2500,  4.0000]])");
/// assert_eq!(format!("{:.1}", tensor![0.25, 1.0; f64]), "tensor([0.2, 1.0], dtype=f64)");
/// ```
impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let printer = Printer::new(self, f.precision().unwrap_or(PRECISION));
        let mut text = String::from(PREFIX);
        if self.numel() == 0 {
            text += "[]";
        } else {
            printer.write(&mut text, 0, self.layout.offset() as isize, PREFIX.len());
        }
        f.write_str(&with_suffixes(text, self))
    }
}

/// As `Display`.
impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Appends the shape of an empty tensor and a dtype that the numbers do not show.
fn with_suffixes(mut text: String, t: &Tensor) -> String {
    let mut suffixes = Vec::new();
    let empty = t.numel() == 0;
    if empty && t.rank() != 1 {
        let sizes: Vec<String> = t.dims().iter().map(usize::to_string).collect();
        suffixes.push(format!("size=({})", sizes.join(", ")));
    }
    if t.dtype() == DType::F64 || (empty && t.dtype() != DType::F32) {
        suffixes.push(format!("dtype={}", t.dtype()));
    }
    let mut line = text.rfind('\n').map_or(text.len() + 2, |at| text.len() - at + 1);
    for s in suffixes {
        if line + s.len() + 2 > LINE_WIDTH {
            text += &format!(",\n{:indent$}", "", indent = PREFIX.len());
            line = PREFIX.len() + s.len();
        } else {
            text += ", ";
            line += s.len() + 2;
        }
        text += &s;
    }
    text + ")"
}

/// How the numbers of one tensor are written.
struct Printer<'a> {
    tensor: &'a Tensor,
    summarize: bool,
    precision: usize,
    /// floating-point numbers, of which all are whole: written without digits after the point
    whole: bool,
    scientific: bool,
    width: usize,
}

impl<'a> Printer<'a> {
    fn new(tensor: &'a Tensor, precision: usize) -> Printer<'a> {
        let summarize = tensor.numel() > THRESHOLD;
        let mut p = Printer { tensor, summarize, precision, whole: true, scientific: false, width: 1 };
        if tensor.numel() == 0 {
            return p;
        }
        let mut shown = Vec::new();
        p.collect(&mut shown, 0, tensor.layout.offset() as isize);
        if tensor.dtype().is_float() {
            shown.retain(|v| v.to_f64().is_finite() && v.to_f64() != 0.0);
            let magnitudes = shown.iter().map(|v| v.to_f64().abs());
            let (low, high) = magnitudes.fold((f64::INFINITY, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
            p.whole = shown.iter().all(|v| v.to_f64().fract() == 0.0);
            p.scientific = !shown.is_empty() && (high / low > 1000.0 || high > 1e8 || low < 1e-4);
        }
        p.width = shown.iter().map(|&v| p.number(v).len()).max().unwrap_or(1);
        p
    }

    /// The items of an axis that are shown; `None` stands for those left out.
    fn items(&self, axis: usize) -> Vec<Option<usize>> {
        let n = self.tensor.dims()[axis];
        if self.summarize && n > 2 * EDGE {
            (0..EDGE).map(Some).chain([None]).chain((n - EDGE..n).map(Some)).collect()
        } else {
            (0..n).map(Some).collect()
        }
    }

    fn place(&self, axis: usize, start: isize, item: usize) -> isize {
        start + item as isize * self.tensor.strides()[axis]
    }

    fn collect(&self, out: &mut Vec<Scalar>, axis: usize, start: isize) {
        if axis == self.tensor.rank() {
            return out.push(self.tensor.scalar_at(start as usize));
        }
        for item in self.items(axis).into_iter().flatten() {
            self.collect(out, axis + 1, self.place(axis, start, item));
        }
    }

    /// A number without its padding.
    fn number(&self, value: Scalar) -> String {
        let v = match value {
            Scalar::Bool(v) => return if v { "True".into() } else { "False".into() },
            Scalar::I64(v) => return v.to_string(),
            Scalar::F64(v) => v,
        };
        if v.is_nan() {
            "nan".into()
        } else if v.is_infinite() {
            v.to_string()
        } else if self.scientific {
            scientific(v, self.precision)
        } else if self.whole {
            format!("{v:.0}.")
        } else {
            format!("{v:.*}", self.precision)
        }
    }

    fn cell(&self, place: isize) -> String {
        format!("{:>width$}", self.number(self.tensor.scalar_at(place as usize)), width = self.width)
    }

    fn write(&self, out: &mut String, axis: usize, start: isize, indent: usize) {
        let rank = self.tensor.rank();
        if axis == rank {
            return *out += &self.cell(start);
        }
        let items = self.items(axis);
        out.push('[');
        if axis + 1 == rank {
            let per_line = (LINE_WIDTH.saturating_sub(indent) / (self.width + 2)).max(1);
            for (i, item) in items.into_iter().enumerate() {
                match i {
                    0 => {}
                    _ if i % per_line == 0 => new_line(out, 1, indent + 1),
                    _ => *out += ", ",
                }
                match item {
                    Some(item) => *out += &self.cell(self.place(axis, start, item)),
                    None => *out += " ...",
                }
            }
        } else {
            for (i, item) in items.into_iter().enumerate() {
                if i > 0 {
                    new_line(out, rank - axis - 1, indent + 1);
                }
                match item {
                    Some(item) => self.write(out, axis + 1, self.place(axis, start, item), indent + 1),
                    None => *out += "...",
                }
            }
        }
        out.push(']');
    }
}

fn new_line(out: &mut String, lines: usize, indent: usize) {
    let _ = write!(out, ",{:\n<lines$}{:indent$}", "", "");
}

/// As C prints it: a sign and at least two digits in the exponent.
fn scientific(v: f64, precision: usize) -> String {
    let text = format!("{v:.precision$e}");
    let (digits, exponent) = text.split_once('e').expect("the form of a number in scientific notation");
    let exponent: i32 = exponent.parse().expect("the exponent is an integer");
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use crate::DType::*;
    use crate::{Tensor, tensor};

    /// What PyTorch 2.15 prints, but for the names of dtypes, which leave more room on a line.
    #[test]
    fn the_text_is_pytorchs() {
        let cases = [
            (Tensor::scalar(3.5f32), "tensor(3.5000)"),
            (Tensor::from(3i64), "tensor(3)"),
            (Tensor::scalar(true), "tensor(True)"),
            (Tensor::from(-2.0f64), "tensor(-2., dtype=f64)"),
            (
                tensor![[1, 2], [3, 4]],
                "tensor([[1., 2.],\n\
             \x20       [3., 4.]])",
            ),
            (
                tensor![[1.5, -2.0], [3.25, 4.0]],
                "tensor([[ 1.5000, -2.0000],\n\
             \x20       [ 3.2500,  4.0000]])",
            ),
            (tensor![1e-5, 1.0], "tensor([1.0000e-05, 1.0000e+00])"),
            (tensor![1000.0, 0.5], "tensor([1.0000e+03, 5.0000e-01])"),
            (tensor![1001, 1], "tensor([1.0010e+03, 1.0000e+00])"),
            (tensor![1e9, -2e9], "tensor([ 1.0000e+09, -2.0000e+09])"),
            (tensor![1e-40, 3e38], "tensor([9.9999e-41, 3.0000e+38])"),
            (tensor![1e-300, 3e300; f64], "tensor([1.0000e-300, 3.0000e+300], dtype=f64)"),
            (tensor![f32::NAN, 1.0, f32::INFINITY], "tensor([nan, 1., inf])"),
            (tensor![f32::NAN, 1.25, f32::NEG_INFINITY], "tensor([   nan, 1.2500,   -inf])"),
            (tensor![f32::NAN, 1e-6, f32::NEG_INFINITY], "tensor([       nan, 1.0000e-06,       -inf])"),
            (tensor![f32::NAN, f32::NEG_INFINITY], "tensor([nan, -inf])"),
            (tensor![0.0, -0.0], "tensor([0., -0.])"),
            (
                tensor![0.00005, 0.15, 2.34565, 0.12345],
                "tensor([5.0000e-05, 1.5000e-01, 2.3456e+00, 1.2345e-01])",
            ),
            (tensor![1, -20, 300; i64], "tensor([  1, -20, 300])"),
            (tensor![[true, false]; bool], "tensor([[ True, False]])"),
            (tensor![1.0, 2.5; f64], "tensor([1.0000, 2.5000], dtype=f64)"),
            (tensor![], "tensor([])"),
            (tensor![; i64], "tensor([], dtype=i64)"),
            (Tensor::zeros([0, 2]), "tensor([], size=(0, 2))"),
            (Tensor::zeros_with([2, 0, 3], F64), "tensor([], size=(2, 0, 3), dtype=f64)"),
            (Tensor::zeros_with([1, 0], Bool), "tensor([], size=(1, 0), dtype=bool)"),
            (
                Tensor::arange_with(0..30, 1, F32),
                "tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,\n\
             \x20       14., 15., 16., 17., 18., 19., 20., 21., 22., 23., 24., 25., 26., 27.,\n\
             \x20       28., 29.])",
            ),
            (Tensor::arange(1001), "tensor([   0,    1,    2,  ...,  998,  999, 1000])"),
            (
                Tensor::arange_with(0..1000, 1, F32).narrow(0, 0, 18).unwrap(),
                "tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,\n\
             \x20       14., 15., 16., 17.])",
            ),
            (
                Tensor::arange_with(0..8, 1, F64).reshape([2, 2, 2]).unwrap(),
                "tensor([[[0., 1.],\n\
             \x20        [2., 3.]],\n\
             \n\
             \x20       [[4., 5.],\n\
             \x20        [6., 7.]]], dtype=f64)",
            ),
            (
                Tensor::arange(16).reshape([2, 2, 2, 2]).unwrap(),
                "tensor([[[[ 0,  1],\n\
             \x20         [ 2,  3]],\n\
             \n\
             \x20        [[ 4,  5],\n\
             \x20         [ 6,  7]]],\n\
             \n\
             \n\
             \x20       [[[ 8,  9],\n\
             \x20         [10, 11]],\n\
             \n\
             \x20        [[12, 13],\n\
             \x20         [14, 15]]]])",
            ),
            (
                Tensor::arange_with(0..2000, 1, F32).reshape([40, 50]).unwrap(),
                "tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 4.7000e+01, 4.8000e+01,\n\
             \x20        4.9000e+01],\n\
             \x20       [5.0000e+01, 5.1000e+01, 5.2000e+01,  ..., 9.7000e+01, 9.8000e+01,\n\
             \x20        9.9000e+01],\n\
             \x20       [1.0000e+02, 1.0100e+02, 1.0200e+02,  ..., 1.4700e+02, 1.4800e+02,\n\
             \x20        1.4900e+02],\n\
             \x20       ...,\n\
             \x20       [1.8500e+03, 1.8510e+03, 1.8520e+03,  ..., 1.8970e+03, 1.8980e+03,\n\
             \x20        1.8990e+03],\n\
             \x20       [1.9000e+03, 1.9010e+03, 1.9020e+03,  ..., 1.9470e+03, 1.9480e+03,\n\
             \x20        1.9490e+03],\n\
             \x20       [1.9500e+03, 1.9510e+03, 1.9520e+03,  ..., 1.9970e+03, 1.9980e+03,\n\
             \x20        1.9990e+03]])",
            ),
            (
                Tensor::arange_with(0..1800, 1, F32).reshape([9, 10, 20]).unwrap(),
                "tensor([[[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 1.7000e+01,\n\
             \x20         1.8000e+01, 1.9000e+01],\n\
             \x20        [2.0000e+01, 2.1000e+01, 2.2000e+01,  ..., 3.7000e+01,\n\
             \x20         3.8000e+01, 3.9000e+01],\n\
             \x20        [4.0000e+01, 4.1000e+01, 4.2000e+01,  ..., 5.7000e+01,\n\
             \x20         5.8000e+01, 5.9000e+01],\n\
             \x20        ...,\n\
             \x20        [1.4000e+02, 1.4100e+02, 1.4200e+02,  ..., 1.5700e+02,\n\
             \x20         1.5800e+02, 1.5900e+02],\n\
             \x20        [1.6000e+02, 1.6100e+02, 1.6200e+02,  ..., 1.7700e+02,\n\
             \x20         1.7800e+02, 1.7900e+02],\n\
             \x20        [1.8000e+02, 1.8100e+02, 1.8200e+02,  ..., 1.9700e+02,\n\
             \x20         1.9800e+02, 1.9900e+02]],\n\
             \n\
             \x20       [[2.0000e+02, 2.0100e+02, 2.0200e+02,  ..., 2.1700e+02,\n\
             \x20         2.1800e+02, 2.1900e+02],\n\
             \x20        [2.2000e+02, 2.2100e+02, 2.2200e+02,  ..., 2.3700e+02,\n\
             \x20         2.3800e+02, 2.3900e+02],\n\
             \x20        [2.4000e+02, 2.4100e+02, 2.4200e+02,  ..., 2.5700e+02,\n\
             \x20         2.5800e+02, 2.5900e+02],\n\
             \x20        ...,\n\
             \x20        [3.4000e+02, 3.4100e+02, 3.4200e+02,  ..., 3.5700e+02,\n\
             \x20         3.5800e+02, 3.5900e+02],\n\
             \x20        [3.6000e+02, 3.6100e+02, 3.6200e+02,  ..., 3.7700e+02,\n\
             \x20         3.7800e+02, 3.7900e+02],\n\
             \x20        [3.8000e+02, 3.8100e+02, 3.8200e+02,  ..., 3.9700e+02,\n\
             \x20         3.9800e+02, 3.9900e+02]],\n\
             \n\
             \x20       [[4.0000e+02, 4.0100e+02, 4.0200e+02,  ..., 4.1700e+02,\n\
             \x20         4.1800e+02, 4.1900e+02],\n\
             \x20        [4.2000e+02, 4.2100e+02, 4.2200e+02,  ..., 4.3700e+02,\n\
             \x20         4.3800e+02, 4.3900e+02],\n\
             \x20        [4.4000e+02, 4.4100e+02, 4.4200e+02,  ..., 4.5700e+02,\n\
             \x20         4.5800e+02, 4.5900e+02],\n\
             \x20        ...,\n\
             \x20        [5.4000e+02, 5.4100e+02, 5.4200e+02,  ..., 5.5700e+02,\n\
             \x20         5.5800e+02, 5.5900e+02],\n\
             \x20        [5.6000e+02, 5.6100e+02, 5.6200e+02,  ..., 5.7700e+02,\n\
             \x20         5.7800e+02, 5.7900e+02],\n\
             \x20        [5.8000e+02, 5.8100e+02, 5.8200e+02,  ..., 5.9700e+02,\n\
             \x20         5.9800e+02, 5.9900e+02]],\n\
             \n\
             \x20       ...,\n\
             \n\
             \x20       [[1.2000e+03, 1.2010e+03, 1.2020e+03,  ..., 1.2170e+03,\n\
             \x20         1.2180e+03, 1.2190e+03],\n\
             \x20        [1.2200e+03, 1.2210e+03, 1.2220e+03,  ..., 1.2370e+03,\n\
             \x20         1.2380e+03, 1.2390e+03],\n\
             \x20        [1.2400e+03, 1.2410e+03, 1.2420e+03,  ..., 1.2570e+03,\n\
             \x20         1.2580e+03, 1.2590e+03],\n\
             \x20        ...,\n\
             \x20        [1.3400e+03, 1.3410e+03, 1.3420e+03,  ..., 1.3570e+03,\n\
             \x20         1.3580e+03, 1.3590e+03],\n\
             \x20        [1.3600e+03, 1.3610e+03, 1.3620e+03,  ..., 1.3770e+03,\n\
             \x20         1.3780e+03, 1.3790e+03],\n\
             \x20        [1.3800e+03, 1.3810e+03, 1.3820e+03,  ..., 1.3970e+03,\n\
             \x20         1.3980e+03, 1.3990e+03]],\n\
             \n\
             \x20       [[1.4000e+03, 1.4010e+03, 1.4020e+03,  ..., 1.4170e+03,\n\
             \x20         1.4180e+03, 1.4190e+03],\n\
             \x20        [1.4200e+03, 1.4210e+03, 1.4220e+03,  ..., 1.4370e+03,\n\
             \x20         1.4380e+03, 1.4390e+03],\n\
             \x20        [1.4400e+03, 1.4410e+03, 1.4420e+03,  ..., 1.4570e+03,\n\
             \x20         1.4580e+03, 1.4590e+03],\n\
             \x20        ...,\n\
             \x20        [1.5400e+03, 1.5410e+03, 1.5420e+03,  ..., 1.5570e+03,\n\
             \x20         1.5580e+03, 1.5590e+03],\n\
             \x20        [1.5600e+03, 1.5610e+03, 1.5620e+03,  ..., 1.5770e+03,\n\
             \x20         1.5780e+03, 1.5790e+03],\n\
             \x20        [1.5800e+03, 1.5810e+03, 1.5820e+03,  ..., 1.5970e+03,\n\
             \x20         1.5980e+03, 1.5990e+03]],\n\
             \n\
             \x20       [[1.6000e+03, 1.6010e+03, 1.6020e+03,  ..., 1.6170e+03,\n\
             \x20         1.6180e+03, 1.6190e+03],\n\
             \x20        [1.6200e+03, 1.6210e+03, 1.6220e+03,  ..., 1.6370e+03,\n\
             \x20         1.6380e+03, 1.6390e+03],\n\
             \x20        [1.6400e+03, 1.6410e+03, 1.6420e+03,  ..., 1.6570e+03,\n\
             \x20         1.6580e+03, 1.6590e+03],\n\
             \x20        ...,\n\
             \x20        [1.7400e+03, 1.7410e+03, 1.7420e+03,  ..., 1.7570e+03,\n\
             \x20         1.7580e+03, 1.7590e+03],\n\
             \x20        [1.7600e+03, 1.7610e+03, 1.7620e+03,  ..., 1.7770e+03,\n\
             \x20         1.7780e+03, 1.7790e+03],\n\
             \x20        [1.7800e+03, 1.7810e+03, 1.7820e+03,  ..., 1.7970e+03,\n\
             \x20         1.7980e+03, 1.7990e+03]]])",
            ),
            (
                Tensor::arange(1200).reshape([4, 300]).unwrap(),
                "tensor([[   0,    1,    2,  ...,  297,  298,  299],\n\
             \x20       [ 300,  301,  302,  ...,  597,  598,  599],\n\
             \x20       [ 600,  601,  602,  ...,  897,  898,  899],\n\
             \x20       [ 900,  901,  902,  ..., 1197, 1198, 1199]])",
            ),
            (
                Tensor::arange(1206).reshape([201, 6]).unwrap(),
                "tensor([[   0,    1,    2,    3,    4,    5],\n\
             \x20       [   6,    7,    8,    9,   10,   11],\n\
             \x20       [  12,   13,   14,   15,   16,   17],\n\
             \x20       ...,\n\
             \x20       [1188, 1189, 1190, 1191, 1192, 1193],\n\
             \x20       [1194, 1195, 1196, 1197, 1198, 1199],\n\
             \x20       [1200, 1201, 1202, 1203, 1204, 1205]])",
            ),
            (
                Tensor::linspace_with(0, 1, 16, F64),
                "tensor([0.0000, 0.0667, 0.1333, 0.2000, 0.2667, 0.3333, 0.4000, 0.4667, 0.5333,\n\
             \x20       0.6000, 0.6667, 0.7333, 0.8000, 0.8667, 0.9333, 1.0000], dtype=f64)",
            ),
            (
                Tensor::linspace_with(0, 1, 9, F64),
                "tensor([0.0000, 0.1250, 0.2500, 0.3750, 0.5000, 0.6250, 0.7500, 0.8750, 1.0000],\n\
             \x20      dtype=f64)",
            ),
            (
                Tensor::linspace_with(0, 1, 7, F64),
                "tensor([0.0000, 0.1667, 0.3333, 0.5000, 0.6667, 0.8333, 1.0000], dtype=f64)",
            ),
            (
                Tensor::linspace_with(0, 1, 8, F64).flip(0).unwrap(),
                "tensor([1.0000, 0.8571, 0.7143, 0.5714, 0.4286, 0.2857, 0.1429, 0.0000],\n\
             \x20      dtype=f64)",
            ),
            (
                Tensor::arange_with(0..6, 1, F32).reshape([2, 3]).unwrap().t(),
                "tensor([[0., 3.],\n\
             \x20       [1., 4.],\n\
             \x20       [2., 5.]])",
            ),
            (
                tensor![[1e-3], [10.0]],
                "tensor([[1.0000e-03],\n\
             \x20       [1.0000e+01]])",
            ),
            (tensor![1e8, 1.0], "tensor([1.0000e+08, 1.0000e+00])"),
            (tensor![123456792.0], "tensor([1.2346e+08])"),
            (tensor![99999.5, 100.0], "tensor([99999.5000,   100.0000])"),
        ];
        for (t, want) in cases {
            assert_eq!(t.to_string(), want);
            assert_eq!(format!("{t:?}"), want);
        }
    }

    #[test]
    fn a_precision_is_taken_from_the_format() {
        assert_eq!(format!("{:.2}", tensor![0.5, 1.0]), "tensor([0.50, 1.00])");
        assert_eq!(format!("{:.1?}", tensor![1e-9, 1.0]), "tensor([1.0e-09, 1.0e+00])");
    }

    #[test]
    fn an_expanded_tensor_of_any_size_is_summarised() {
        let t = tensor![1.0].expand([1usize << 50, 1]).unwrap();
        assert!(t.to_string().starts_with("tensor([[1.],\n        [1.],\n        [1.],\n        ...,\n"));
    }
}
