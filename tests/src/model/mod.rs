//! A slow model of tensors and gradients: dense `f64` vectors, loops over indices, and a tape of sums of products.
//!
//! It shares nothing with the library but the meaning of the operations. Every value is a small multiple of 1/64, so
//! that whoever computes it, in whatever order, gets the same number; what would leave that range is refused.

mod operations;
mod tape;

pub use tape::{Id, Tape, Term};

/// Why the model does not do something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// the library must refuse it, too
    Invalid,
    /// it would be inexact, or too large for a slow model
    Limit,
}

/// The model's results.
pub type Result<T> = std::result::Result<T, Refusal>;

/// Values in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// the sizes
    pub shape: Vec<usize>,
    /// the values
    pub values: Vec<f64>,
}

/// All indices of a shape in row-major order.
pub fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    if shape.contains(&0) {
        return Vec::new();
    }
    let mut all = vec![vec![]];
    for &size in shape {
        all = all.iter().flat_map(|head| (0..size).map(move |i| [&head[..], &[i]].concat())).collect();
    }
    all
}

/// Where an index lies in row-major order.
pub fn place(shape: &[usize], index: &[usize]) -> usize {
    shape.iter().zip(index).fold(0, |at, (&size, &i)| at * size + i)
}

/// How many elements.
pub fn count(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// The shape that two shapes broadcast to.
pub fn broadcast(a: &[usize], b: &[usize]) -> Result<Vec<usize>> {
    let rank = a.len().max(b.len());
    let size = |s: &[usize], axis: usize| if axis + s.len() < rank { 1 } else { s[axis + s.len() - rank] };
    (0..rank)
        .map(|axis| match (size(a, axis), size(b, axis)) {
            (m, n) if m == n => Ok(m),
            (1, n) => Ok(n),
            (m, 1) => Ok(m),
            _ => Err(Refusal::Invalid),
        })
        .collect()
}

/// The index in a smaller shape that broadcasts to this index.
fn narrowed(shape: &[usize], index: &[usize]) -> Vec<usize> {
    let missing = index.len() - shape.len();
    shape.iter().zip(&index[missing..]).map(|(&size, &i)| if size == 1 { 0 } else { i }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(shape: &[usize], values: &[f64]) -> Array {
        Array { shape: shape.to_vec(), values: values.to_vec() }
    }

    #[test]
    fn indices_of_no_axes_and_of_none() {
        assert_eq!(indices(&[]), [Vec::<usize>::new()]);
        assert!(indices(&[1 << 40, 0]).is_empty());
        assert_eq!(indices(&[2, 2]), [[0, 0], [0, 1], [1, 0], [1, 1]]);
    }

    #[test]
    fn gradient_by_hand_to_second_order() {
        let mut tape = Tape::new(1e6);
        let x = tape.given(array(&[2, 1], &[2.0, 3.0]), Some(0));
        let w = tape.given(array(&[2], &[5.0, 7.0]), Some(1));
        let square = tape.mul(x, x).unwrap();
        let y = tape.mul(square, w).unwrap();
        let seed = tape.given(array(&[2, 2], &[1.0, 1.0, 0.0, 10.0]), None);
        let grads = tape.backward(&[(y, seed)]).unwrap();
        let gx = tape.of_leaf(&grads, 0).unwrap().unwrap();
        assert_eq!(tape.array(gx).values, [48.0, 420.0]);
        let gw = tape.of_leaf(&grads, 1).unwrap().unwrap();
        assert_eq!(tape.array(gw).values, [4.0, 94.0]);
        let ones = tape.given(array(&[2, 1], &[1.0, 1.0]), None);
        let second = tape.backward(&[(gx, ones)]).unwrap();
        let gxx = tape.of_leaf(&second, 0).unwrap().unwrap();
        assert_eq!(tape.array(gxx).values, [24.0, 140.0]);
    }

    #[test]
    fn what_is_not_exact_is_refused() {
        let mut tape = Tape::new(100.0);
        let x = tape.given(array(&[1], &[60.0]), None);
        assert_eq!(tape.weigh(x, x, |_, _| [1.0, 1.0]), Err(Refusal::Limit));
        assert_eq!(tape.weigh(x, x, |_, _| [1.0 / 512.0, 0.0]), Err(Refusal::Limit));
        assert_eq!(tape.expand(x, &[]), Err(Refusal::Invalid));
    }
}
