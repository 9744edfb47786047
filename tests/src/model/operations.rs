//! The operations, each as the terms of every element of its result.

use super::{Id, Refusal, Result, Tape, Term, broadcast, count, indices, narrowed, place};

/// No result has more elements than this.
const ROOM: usize = 4096;

impl Tape {
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
}

fn check_room(shape: &[usize]) -> Result<()> {
    if count(shape) > ROOM { Err(Refusal::Limit) } else { Ok(()) }
}
