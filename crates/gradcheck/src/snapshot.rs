//! Tensors as text that is the same on every machine.

use std::fmt::Write;

use foldback_tensor::{Category, Compared, DType, Tensor};

/// All elements of a tensor or a variable as text, to be compared with what a test has stored: type and shape, then a line for each
/// row of the last axis.
///
/// Numbers have six digits, so that the last bits of a machine's own arithmetic do not show, and zero has no sign. For graphs there is
/// [`GraphView::to_text`](foldback_graph::GraphView::to_text).
///
/// ```
/// use foldback_gradcheck::testing::snapshot;
/// use foldback_tensor::tensor;
/// assert_eq!(snapshot(&tensor![[1, 2], [3, 4]].div(3.0)?), "\
/// f32 [2, 2]
/// 0.333333 0.666667
/// 1.00000 1.33333
/// ");
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
pub fn snapshot(x: &impl Compared) -> String {
    let t = x.compared();
    let mut text = format!("{} {}\n", t.dtype(), t.shape());
    let elements = elements(&t);
    for row in elements.chunks(t.dims().last().map_or(1, |&n| n.max(1))) {
        writeln!(text, "{}", row.join(" ")).expect("a string takes all");
    }
    text
}

fn elements(t: &Tensor) -> Vec<String> {
    let read = "an element has the type that its tensor says";
    match t.dtype().category() {
        Category::Float => t.to(DType::F64).to_vec::<f64>().expect(read).into_iter().map(number).collect(),
        Category::Bool => t.to_vec::<bool>().expect(read).iter().map(bool::to_string).collect(),
        _ => t.to_vec::<i64>().expect(read).iter().map(i64::to_string).collect(),
    }
}

/// Six digits; with an exponent where a number is small or large.
fn number(v: f64) -> String {
    if v == 0.0 || !v.is_finite() {
        return if v == 0.0 { "0".into() } else { v.to_string() };
    }
    let scientific = format!("{v:.5e}");
    let exponent: i32 = scientific.split('e').nth(1).and_then(|e| e.parse().ok()).unwrap_or(0);
    if (-4..6).contains(&exponent) { format!("{v:.*}", (5 - exponent) as usize) } else { scientific }
}

#[cfg(test)]
mod tests {
    use foldback_tensor::tensor;

    use super::*;

    #[test]
    fn the_text_is_whole_and_stable() {
        let numbers = tensor![-0.0, 1.0, 12345.678, 999999.7, 1e-5, 0.00012, f32::NAN, f32::INFINITY];
        let text = "f32 [8]\n0 1.00000 12345.7 1.00000e6 1.00000e-5 0.000120000 NaN inf\n";
        assert_eq!(snapshot(&numbers), text);
        assert_eq!(snapshot(&tensor![[1, -2], [3, 4]; i64].t()), "i64 [2, 2]\n1 3\n-2 4\n");
        assert_eq!(snapshot(&tensor![true, false; bool]), "bool [2]\ntrue false\n");
        assert_eq!(snapshot(&Tensor::from(2.5)), "f64 []\n2.50000\n");
        assert_eq!(snapshot(&Tensor::zeros([2, 0])), "f32 [2, 0]\n");
        assert_eq!(snapshot(&Tensor::zeros([2000])).lines().nth(1).map(str::len), Some(3999));
        // A last bit that differs does not show.
        assert_eq!(snapshot(&tensor![0.1 + 0.2; f64]), snapshot(&tensor![0.3; f64]));
    }
}
