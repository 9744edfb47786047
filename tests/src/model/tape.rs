//! The tape: values that are sums of products of earlier ones, and the gradients that follow from that alone.

use std::collections::BTreeMap;

use super::{Array, Refusal, Result, count};

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

    pub(super) fn products_of(
        &mut self,
        shape: Vec<usize>,
        a: Id,
        b: Id,
        triples: Vec<[usize; 3]>,
    ) -> Result<Id> {
        let (x, y) = (&self.array(a).values, &self.array(b).values);
        let values: Vec<(usize, f64)> = triples.iter().map(|&[out, i, j]| (out, x[i] * y[j])).collect();
        self.push(shape, Origin::Products(a, b, triples), values.into_iter())
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
