//! Two tensors that are not close, in columns: the worst elements, in order of their places.

use std::fmt;

use crate::dtype::{DType, Scalar};

/// So many elements are shown.
const SHOWN: usize = 8;

/// Why two tensors are not close; its text is the message of [`assert_close!`](crate::assert_close).
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch(String);

impl Mismatch {
    pub(crate) fn new(text: String) -> Mismatch {
        Mismatch(text)
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Mismatch {}

/// Two elements that are not close.
pub(crate) struct MismatchedPair {
    pub(crate) difference: f64,
    /// the number of the element in row-major order
    pub(crate) at: usize,
    pub(crate) actual: Scalar,
    pub(crate) expected: Scalar,
}

/// The worst of them, the worst first.
#[derive(Default)]
pub(crate) struct Worst {
    /// how many there are in all
    pub(crate) wrong: usize,
    pairs: Vec<MismatchedPair>,
}

impl Worst {
    pub(crate) fn add(&mut self, pair: MismatchedPair) {
        self.wrong += 1;
        let rank = self.pairs.partition_point(|p| p.difference >= pair.difference);
        if rank < SHOWN {
            self.pairs.insert(rank, pair);
            self.pairs.truncate(SHOWN);
        }
    }

    /// The text: a heading, the worst place, and a line for each if there are several.
    pub(crate) fn mismatch(mut self, heading: String, dims: &[usize], dtype: DType) -> Mismatch {
        let Some(worst) = self.pairs.first() else { return Mismatch(heading) };
        let at = worst.at;
        let [index, actual, expected, difference] = cells(worst, dims, dtype);
        let mut text = format!(
            "{heading}\n    worst at index {index}: {actual} against the expected {expected}, difference {difference}"
        );
        if self.pairs.len() > 1 {
            self.pairs.sort_by_key(|p| p.at);
            let title = ["index", "actual", "expected", "difference"].map(String::from);
            let mut rows = vec![title];
            rows.extend(self.pairs.iter().map(|p| cells(p, dims, dtype)));
            let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
            let (w0, w1, w2) = (width(0), width(1), width(2));
            let marks = std::iter::once("").chain(self.pairs.iter().map(|p| mark(p.at == at)));
            for ([index, actual, expected, difference], mark) in rows.iter().zip(marks) {
                text +=
                    &format!("\n        {index:<w0$}  {actual:>w1$}  {expected:>w2$}  {difference}{mark}");
            }
        }
        if self.wrong > self.pairs.len() {
            text += &format!("\n        and {} more", self.wrong - self.pairs.len());
        }
        Mismatch(text)
    }
}

fn mark(is_worst: bool) -> &'static str {
    if is_worst { "  <- worst" } else { "" }
}

fn cells(pair: &MismatchedPair, dims: &[usize], dtype: DType) -> [String; 4] {
    let [actual, expected] = [pair.actual, pair.expected].map(|v| number(v, dtype));
    [format!("{:?}", index_of(pair.at, dims)), actual, expected, format!("{:?}", pair.difference)]
}

/// The index of the element at a row-major position.
fn index_of(mut at: usize, dims: &[usize]) -> Vec<usize> {
    let mut index = vec![0; dims.len()];
    for (i, &size) in index.iter_mut().zip(dims).rev() {
        *i = at % size;
        at /= size;
    }
    index
}

/// With the digits that tell it from its neighbours in its own type.
fn number(v: Scalar, dtype: DType) -> String {
    match v {
        Scalar::F64(v) if dtype == DType::F32 => format!("{:?}", v as f32),
        v => v.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Tensor, Tolerance, compare_close, tensor};

    fn text(a: &Tensor, b: &Tensor) -> String {
        compare_close(a, b, &Tolerance::default()).unwrap_err().to_string()
    }

    #[test]
    fn one_element_needs_no_columns() {
        let e = text(&tensor![1.0, 2.0], &tensor![1.0, 2.5]);
        assert!(e.ends_with("worst at index [1]: 2.0 against the expected 2.5, difference 0.5"), "{e}");
    }

    #[test]
    fn the_worst_are_shown_in_order_and_the_others_counted() {
        let a = Tensor::arange(0..12).to(crate::DType::F64);
        let b = a.mul(&a).unwrap();
        let e = text(&a, &b);
        let lines: Vec<&str> = e.lines().collect();
        assert_eq!(lines[0], "10 of 12 elements are not close (atol = 1e-7, rtol = 1e-7)");
        assert_eq!(lines[2], "        index  actual  expected  difference");
        assert_eq!(lines[3], "        [4]       4.0      16.0  12.0");
        assert_eq!(lines[10], "        [11]     11.0     121.0  110.0  <- worst");
        assert_eq!(lines[11..], ["        and 2 more"]);
    }

    #[test]
    fn nan_is_the_worst() {
        let e = text(&tensor![5.0, f32::NAN], &tensor![1.0, 1.0]);
        assert!(e.contains("worst at index [1]: NaN against the expected 1.0, difference inf"), "{e}");
    }
}
