//! A slow model of tensors and gradients: dense `f64` vectors, loops over indices, and a tape of sums of products.
//!
//! It shares nothing with the library but the meaning of the operations. Every value is a small multiple of 1/64, so
//! that whoever computes it, in whatever order, gets the same number; what would leave that range is refused.

use std::collections::BTreeMap;

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

/// A value's place on the tape.
pub type Id = usize;

/// `out += factor * inputs[input][at]`
#[derive(Clone, Copy, Debug)]
pub struct Term {
    /// which element of the result
    pub out: usize,
    /// which input
    pub input: usize,
    /// which of its elements
    pub at: usize,
    /// times what
    pub factor: f64,
}

#[derive(Clone, Debug)]
enum Origin {
    /// a constant, or the value that a leaf of this number has for now
    Given(Option<usize>),
    Sum(Vec<Id>, Vec<Term>),
    /// `out += a[i] * b[j]` for each triple
    Products(Id, Id, Vec<[usize; 3]>),
}

impl Origin {
    /// How many terms.
    fn terms(&self) -> usize {
        match self {
            Origin::Given(_) => 0,
            Origin::Sum(_, terms) => terms.len(),
            Origin::Products(_, _, triples) => triples.len(),
        }
    }
}

#[derive(Clone, Debug)]
struct Node {
    array: Array,
    origin: Origin,
    tracked: bool,
}

impl Node {
    fn size(&self) -> usize {
        1 + self.array.values.len() + self.origin.terms()
    }
}

/// Everything that was computed.
#[derive(Debug)]
pub struct Tape {
    nodes: Vec<Node>,
    /// sums of absolute values stay below this
    limit: f64,
    /// how many terms and elements there are, and one for each value
    held: usize,
}

/// No result has more elements than this.
const ROOM: usize = 4096;

/// No tape holds more terms and elements than this: gradients of gradients grow like powers.
const MEMORY: usize = 300_000;

impl Tape {
    /// A tape for numbers whose sums stay exact below `limit` with six more bits behind the point.
    pub fn new(limit: f64) -> Tape {
        Tape { nodes: Vec::new(), limit, held: 0 }
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Forgets all but the first `len` values.
    pub fn truncate(&mut self, len: usize) {
        self.held -= self.nodes[len..].iter().map(Node::size).sum::<usize>();
        self.nodes.truncate(len);
    }

    /// A value.
    pub fn array(&self, id: Id) -> &Array {
        &self.nodes[id].array
    }

    /// The shape of a value.
    pub fn shape(&self, id: Id) -> &[usize] {
        &self.nodes[id].array.shape
    }

    /// Whether a leaf led to it.
    pub fn tracked(&self, id: Id) -> bool {
        self.nodes[id].tracked
    }

    /// A given value: a constant, or what a leaf holds from now on.
    pub fn given(&mut self, array: Array, leaf: Option<usize>) -> Id {
        self.keep(Node { array, origin: Origin::Given(leaf), tracked: leaf.is_some() });
        self.nodes.len() - 1
    }

    /// The same value without its history.
    pub fn detached(&mut self, id: Id) -> Id {
        self.given(self.array(id).clone(), None)
    }

    fn keep(&mut self, node: Node) {
        self.held += node.size();
        self.nodes.push(node);
    }

    fn push(
        &mut self,
        shape: Vec<usize>,
        origin: Origin,
        terms: impl Iterator<Item = (usize, f64)>,
    ) -> Result<Id> {
        if self.held + count(&shape) + origin.terms() > MEMORY {
            return Err(Refusal::Limit);
        }
        let mut values = vec![0.0; count(&shape)];
        let mut sizes = vec![0.0; count(&shape)];
        for (out, term) in terms {
            values[out] += term;
            sizes[out] += term.abs();
            if sizes[out] > self.limit || (term * 64.0).fract() != 0.0 {
                return Err(Refusal::Limit);
            }
        }
        let tracked = match &origin {
            Origin::Given(_) => false,
            Origin::Sum(inputs, _) => inputs.iter().any(|&i| self.tracked(i)),
            Origin::Products(a, b, _) => self.tracked(*a) || self.tracked(*b),
        };
        self.keep(Node { array: Array { shape, values }, origin, tracked });
        Ok(self.nodes.len() - 1)
    }

    /// Sums of multiples of the inputs' elements.
    pub fn sum_of(&mut self, shape: Vec<usize>, inputs: Vec<Id>, terms: Vec<Term>) -> Result<Id> {
        let values: Vec<(usize, f64)> =
            terms.iter().map(|t| (t.out, t.factor * self.array(inputs[t.input]).values[t.at])).collect();
        self.push(shape, Origin::Sum(inputs, terms), values.into_iter())
    }

    fn products_of(&mut self, shape: Vec<usize>, a: Id, b: Id, triples: Vec<[usize; 3]>) -> Result<Id> {
        let (x, y) = (&self.array(a).values, &self.array(b).values);
        let values: Vec<(usize, f64)> = triples.iter().map(|&[out, i, j]| (out, x[i] * y[j])).collect();
        self.push(shape, Origin::Products(a, b, triples), values.into_iter())
    }

    /// Element `i` of the result is the input's element `from(i)`.
    pub fn view(&mut self, a: Id, shape: Vec<usize>, from: impl Fn(&[usize]) -> Vec<usize>) -> Result<Id> {
        check_room(&shape)?;
        let own = self.shape(a).to_vec();
        let term = |(out, index): (usize, Vec<usize>)| Term {
            out,
            input: 0,
            at: place(&own, &from(&index)),
            factor: 1.0,
        };
        let terms = indices(&shape).into_iter().enumerate().map(term).collect();
        self.sum_of(shape, vec![a], terms)
    }

    /// The elements in the same order in another shape of the same size.
    pub fn reshape(&mut self, a: Id, shape: Vec<usize>) -> Result<Id> {
        let own = self.shape(a).to_vec();
        if count(&own) != count(&shape) {
            return Err(Refusal::Invalid);
        }
        let terms = (0..count(&shape)).map(|i| Term { out: i, input: 0, at: i, factor: 1.0 }).collect();
        self.sum_of(shape, vec![a], terms)
    }

    /// Expands to a larger shape.
    pub fn expand(&mut self, a: Id, shape: &[usize]) -> Result<Id> {
        let own = self.shape(a).to_vec();
        if own.len() > shape.len() || broadcast(&own, shape)? != shape {
            return Err(Refusal::Invalid);
        }
        self.view(a, shape.to_vec(), |index| narrowed(&own, index))
    }

    /// The sum down to a shape that expands to this one.
    pub fn sum_to(&mut self, a: Id, shape: &[usize]) -> Result<Id> {
        let own = self.shape(a).to_vec();
        if shape.len() > own.len() || broadcast(&own, shape)? != own {
            return Err(Refusal::Invalid);
        }
        let term = |(at, index): (usize, Vec<usize>)| Term {
            out: place(shape, &narrowed(shape, &index)),
            input: 0,
            at,
            factor: 1.0,
        };
        let terms = indices(&own).into_iter().enumerate().map(term).collect();
        self.sum_of(shape.to_vec(), vec![a], terms)
    }

    /// An element of each operand, times factors that may depend on the two.
    pub fn weigh(&mut self, a: Id, b: Id, factors: impl Fn(f64, f64) -> [f64; 2]) -> Result<Id> {
        let (left, right) = (self.shape(a).to_vec(), self.shape(b).to_vec());
        let shape = broadcast(&left, &right)?;
        check_room(&shape)?;
        let mut terms = Vec::new();
        for (out, index) in indices(&shape).into_iter().enumerate() {
            let (i, j) = (place(&left, &narrowed(&left, &index)), place(&right, &narrowed(&right, &index)));
            let [p, q] = factors(self.array(a).values[i], self.array(b).values[j]);
            terms.push(Term { out, input: 0, at: i, factor: p });
            terms.push(Term { out, input: 1, at: j, factor: q });
        }
        self.sum_of(shape, vec![a, b], terms)
    }

    /// The elementwise product.
    pub fn mul(&mut self, a: Id, b: Id) -> Result<Id> {
        let (left, right) = (self.shape(a).to_vec(), self.shape(b).to_vec());
        let shape = broadcast(&left, &right)?;
        check_room(&shape)?;
        let triple = |(out, index): (usize, Vec<usize>)| {
            [out, place(&left, &narrowed(&left, &index)), place(&right, &narrowed(&right, &index))]
        };
        let triples = indices(&shape).into_iter().enumerate().map(triple).collect();
        self.products_of(shape, a, b, triples)
    }

    /// The matrix product of operands of at least two axes; the others broadcast.
    pub fn matmul(&mut self, a: Id, b: Id) -> Result<Id> {
        let (left, right) = (self.shape(a).to_vec(), self.shape(b).to_vec());
        if left.len() < 2 || right.len() < 2 {
            return Err(Refusal::Limit);
        }
        let (batch_left, left_matrix) = left.split_at(left.len() - 2);
        let (batch_right, right_matrix) = right.split_at(right.len() - 2);
        let batch = broadcast(batch_left, batch_right)?;
        let (m, k, n) = (left_matrix[0], left_matrix[1], right_matrix[1]);
        if right_matrix[0] != k {
            return Err(Refusal::Invalid);
        }
        let shape = [&batch[..], &[m, n]].concat();
        if count(&shape) * k > 4 * ROOM || count(&shape) > ROOM {
            return Err(Refusal::Limit);
        }
        let mut triples = Vec::new();
        for (out, index) in indices(&shape).into_iter().enumerate() {
            let (head, tail) = index.split_at(batch.len());
            for p in 0..k {
                let i = [&narrowed(batch_left, head)[..], &[tail[0], p]].concat();
                let j = [&narrowed(batch_right, head)[..], &[p, tail[1]]].concat();
                triples.push([out, place(&left, &i), place(&right, &j)]);
            }
        }
        self.products_of(shape, a, b, triples)
    }

    /// One after another along an axis.
    pub fn cat(&mut self, a: Id, b: Id, axis: usize) -> Result<Id> {
        let (left, right) = (self.shape(a).to_vec(), self.shape(b).to_vec());
        let others_differ = || (0..left.len()).any(|i| i != axis && left[i] != right[i]);
        if left.len() != right.len() || others_differ() {
            // An empty vector fits everything, which is not modelled.
            return Err(if left == [0] || right == [0] { Refusal::Limit } else { Refusal::Invalid });
        }
        let mut shape = left.clone();
        shape[axis] += right[axis];
        check_room(&shape)?;
        let term = |(out, mut index): (usize, Vec<usize>)| {
            let input = usize::from(index[axis] >= left[axis]);
            index[axis] -= input * left[axis];
            Term { out, input, at: place([&left, &right][input], &index), factor: 1.0 }
        };
        let terms = indices(&shape).into_iter().enumerate().map(term).collect();
        self.sum_of(shape, vec![a, b], terms)
    }

    /// The base with some of its elements replaced: `to` says which element of the base an index of the part is.
    pub fn assign(
        &mut self,
        base: Id,
        part: &[usize],
        value: Id,
        to: impl Fn(&[usize]) -> Vec<usize>,
    ) -> Result<Id> {
        let (own, small) = (self.shape(base).to_vec(), self.shape(value).to_vec());
        // As PyTorch: leading axes of size 1 that the part does not have are dropped, which moves no element.
        let (surplus, small) = small.split_at(small.len().saturating_sub(part.len()));
        if surplus.iter().any(|&size| size != 1) || broadcast(small, part)? != part {
            return Err(Refusal::Invalid);
        }
        let mut terms: Vec<Term> =
            (0..count(&own)).map(|i| Term { out: i, input: 0, at: i, factor: 1.0 }).collect();
        for index in indices(part) {
            let out = place(&own, &to(&index));
            terms[out] = Term { out, input: 1, at: place(small, &narrowed(small, &index)), factor: 1.0 };
        }
        self.sum_of(own, vec![base, value], terms)
    }

    /// The gradients of everything that leads to the roots, themselves on the tape; `(root, seed)` in pairs.
    pub fn backward(&mut self, roots: &[(Id, Id)]) -> Result<BTreeMap<Id, Id>> {
        let (mut waiting, mut done) = (BTreeMap::new(), BTreeMap::new());
        for &(root, seed) in roots {
            self.accumulate(&mut waiting, root, seed)?;
        }
        while let Some((id, g)) = waiting.pop_last() {
            done.insert(id, g);
            match self.nodes[id].origin.clone() {
                Origin::Given(_) => {}
                Origin::Sum(inputs, terms) => {
                    for (k, &input) in inputs
                        .iter()
                        .enumerate()
                        .filter(|&(_, &input)| self.nodes[input].tracked)
                        .collect::<Vec<_>>()
                    {
                        let back = |t: &Term| Term { out: t.at, input: 0, at: t.out, factor: t.factor };
                        let terms = terms.iter().filter(|t| t.input == k).map(back).collect();
                        let part = self.sum_of(self.shape(input).to_vec(), vec![g], terms)?;
                        self.accumulate(&mut waiting, input, part)?;
                    }
                }
                Origin::Products(a, b, triples) => {
                    if self.tracked(a) {
                        let back = triples.iter().map(|&[out, i, j]| [i, out, j]).collect();
                        let part = self.products_of(self.shape(a).to_vec(), g, b, back)?;
                        self.accumulate(&mut waiting, a, part)?;
                    }
                    if self.tracked(b) {
                        let back = triples.iter().map(|&[out, i, j]| [j, out, i]).collect();
                        let part = self.products_of(self.shape(b).to_vec(), g, a, back)?;
                        self.accumulate(&mut waiting, b, part)?;
                    }
                }
            }
        }
        Ok(done)
    }

    fn accumulate(&mut self, waiting: &mut BTreeMap<Id, Id>, id: Id, part: Id) -> Result<()> {
        let sum = match waiting.get(&id) {
            Some(&other) => self.weigh(other, part, |_, _| [1.0, 1.0])?,
            None => part,
        };
        waiting.insert(id, sum);
        Ok(())
    }

    /// The gradient of a leaf: of all the values that it has had.
    pub fn of_leaf(&mut self, grads: &BTreeMap<Id, Id>, leaf: usize) -> Result<Option<Id>> {
        let mut total = None;
        for (&id, &g) in grads {
            if matches!(self.nodes[id].origin, Origin::Given(Some(n)) if n == leaf) {
                total = Some(match total {
                    None => g,
                    Some(t) => self.weigh(t, g, |_, _| [1.0, 1.0])?,
                });
            }
        }
        Ok(total)
    }
}

fn check_room(shape: &[usize]) -> Result<()> {
    if count(shape) > ROOM { Err(Refusal::Limit) } else { Ok(()) }
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
