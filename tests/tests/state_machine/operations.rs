//! Operations: chosen at random to fit their operands, run by the library, computed on the model.

use foldback_tensor::{Slice, SliceItem, Slices};
use tests::model::{Array, Id, Refusal, Tape, Term, count};

use crate::random::Random;

/// A part of an axis: one element, which drops the axis, or a range.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    At(usize),
    Range { start: usize, end: usize, step: usize },
}

impl Part {
    pub(crate) fn random(random: &mut Random, size: usize) -> Part {
        if size > 0 && random.one_in(4) {
            return Part::At(random.below(size));
        }
        let start = random.below(size + 1);
        let end = if random.one_in(2) { size } else { start + random.below(size - start + 1) };
        let start = if random.one_in(2) { 0 } else { start };
        Part::Range { start, end, step: 1 + random.below(3) }
    }
    pub(crate) fn all(random: &mut Random, shape: &[usize]) -> Vec<Part> {
        let axes = if random.one_in(3) { random.below(shape.len() + 1) } else { shape.len() };
        shape[..axes].iter().map(|&size| Part::random(random, size)).collect()
    }
    pub(crate) fn size(self) -> Option<usize> {
        match self {
            Part::At(_) => None,
            Part::Range { start, end, step } => Some((end - start).div_ceil(step)),
        }
    }
    pub(crate) fn item(self) -> SliceItem {
        match self {
            Part::At(i) => i.into(),
            Part::Range { start, end, step } => Slice::new(start, end, step as isize).into(),
        }
    }
}

pub(crate) fn slices(parts: &[Part]) -> Slices {
    parts.iter().map(|p| p.item()).collect::<Vec<_>>().into()
}

/// The shape that parts of a shape have.
pub(crate) fn part_shape(parts: &[Part], shape: &[usize]) -> Vec<usize> {
    let named = parts.iter().filter_map(|p| p.size());
    named.chain(shape[parts.len()..].iter().copied()).collect()
}

/// The index in the whole of an index in the part.
pub(crate) fn whole_index(parts: &[Part], index: &[usize]) -> Vec<usize> {
    let mut rest = index.iter().copied();
    let mut whole: Vec<usize> = parts
        .iter()
        .map(|p| match *p {
            Part::At(i) => i,
            Part::Range { start, step, .. } => start + step * rest.next().unwrap(),
        })
        .collect();
    whole.extend(rest);
    whole
}

/// An operation on one or two operands, with its parameters.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Expand(Vec<usize>),
    Permute(Vec<usize>),
    Slice(Vec<Part>),
    Narrow(usize, usize, usize),
    Select(usize, usize),
    Flip(Vec<usize>),
    Reshape(Vec<usize>),
    Squeeze(usize),
    Unsqueeze(usize),
    IndexSelect(usize, Vec<usize>),
    Sum(Vec<usize>, bool),
    SumTo(Vec<usize>),
    MaxAlong(usize, bool),
    Neg,
    Relu,
    AddNumber(f64),
    MulNumber(f64),
    FromNumber(f64),
    Add,
    Sub,
    Mul,
    AddScaled(f64),
    Maximum,
    Minimum,
    WherePositive,
    Matmul,
    Cat(usize),
}

/// What tensors and variables have in common, so that an operation is written once for both.
macro_rules! apply {
    ($op:expr, $type:ty, $a:expr, $b:expr) => {{
        let (a, b): (&$type, &$type) = ($a, $b);
        match $op.clone() {
            Op::Expand(to) => a.expand(to),
            Op::Permute(axes) => a.permute(axes),
            Op::Slice(parts) => a.slice(slices(&parts)),
            Op::Narrow(axis, start, len) => a.narrow(axis as isize, start, len),
            Op::Select(axis, at) => a.select(axis as isize, at),
            Op::Flip(axes) => a.flip(axes),
            Op::Reshape(to) => a.reshape(&to[..]),
            Op::Squeeze(axis) => a.squeeze(axis),
            Op::Unsqueeze(axis) => a.unsqueeze(axis as isize),
            Op::IndexSelect(axis, at) => {
                let at: Vec<i64> = at.iter().map(|&i| i as i64).collect();
                a.index_select(axis as isize, &Tensor::from(at))
            }
            Op::Sum(axes, keepdim) => a.sum(Over::from(axes).with_keepdim(keepdim)),
            Op::SumTo(to) => a.sum_to_size(to),
            Op::MaxAlong(axis, keepdim) => {
                a.max_with_indices(Over::from(axis as isize).with_keepdim(keepdim)).map(|m| m.0)
            }
            Op::Neg => a.try_neg(),
            Op::Relu => a.try_relu(),
            Op::AddNumber(c) => a.add(c),
            Op::MulNumber(c) => a.mul(c),
            Op::FromNumber(c) => a.rsub(c),
            Op::Add => a.add(b),
            Op::Sub => a.sub(b),
            Op::Mul => a.mul(b),
            Op::AddScaled(c) => a.add_with(b, c),
            Op::Maximum => a.maximum(b),
            Op::Minimum => a.minimum(b),
            Op::WherePositive => a.gt(0.0).and_then(|positive| positive.where_cond(a, b)),
            Op::Matmul => a.matmul(b),
            Op::Cat(axis) => <$type>::cat(&[a, b], axis as isize),
        }
    }};
}

impl Op {
    /// An operation that fits the first operand, and perhaps the second.
    pub(crate) fn random(random: &mut Random, a: &[usize], b: &[usize], sizes: &[usize]) -> Op {
        let rank = a.len();
        let axis = |random: &mut Random| random.below(rank);
        match random.below(if rank == 0 { 18 } else { 27 }) {
            0 => {
                let mut to: Vec<usize> =
                    a.iter().map(|&n| if n == 1 { random.pick(sizes) } else { n }).collect();
                if rank < 4 && random.one_in(2) {
                    to.insert(0, random.pick(sizes));
                }
                Op::Expand(to)
            }
            1 => Op::Unsqueeze(random.below(rank + 1)),
            2 => Op::Neg,
            3 => Op::Relu,
            4 => Op::AddNumber(random.small()),
            5 => Op::MulNumber(random.small()),
            6 => Op::FromNumber(random.small()),
            7 | 8 => Op::Add,
            9 => Op::Sub,
            10 | 11 => Op::Mul,
            12 => Op::AddScaled(random.small()),
            13 => Op::Maximum,
            14 => Op::Minimum,
            15 => Op::WherePositive,
            16 => {
                let keep = random.one_in(2);
                Op::Sum(random.some_of(rank), keep)
            }
            17 => {
                let kept = random.below(rank + 1);
                Op::SumTo(a[rank - kept..].iter().map(|&n| if random.one_in(2) { 1 } else { n }).collect())
            }
            18 => Op::Permute(random.shuffled(rank)),
            19 | 20 => Op::Slice(Part::all(random, a)),
            21 => {
                let axis = axis(random);
                let start = random.below(a[axis] + 1);
                if a[axis] > 0 && random.one_in(2) {
                    return Op::Select(axis, start.min(a[axis] - 1));
                }
                Op::Narrow(axis, start, random.below(a[axis] - start + 1))
            }
            22 => Op::Flip(random.some_of(rank)),
            23 => Op::Reshape(reshaped(random, a)),
            24 => {
                let axis = axis(random);
                if random.one_in(2) {
                    return Op::Squeeze(axis);
                }
                if a[axis] == 0 || random.one_in(2) {
                    return Op::MaxAlong(axis, random.one_in(2));
                }
                let len = random.below(5);
                Op::IndexSelect(axis, (0..len).map(|_| random.below(a[axis])).collect())
            }
            25 if rank >= 2 && b.len() >= 2 => Op::Matmul,
            _ => Op::Cat(axis(random)),
        }
    }

    pub(crate) fn on_model(&self, tape: &mut Tape, a: Id, b: Id) -> Result<Id, Refusal> {
        let own = tape.shape(a).to_vec();
        let without = |axes: &[usize], keepdim: bool| -> Vec<usize> {
            let kept = |(i, &n): (usize, &usize)| match (axes.contains(&i), keepdim) {
                (false, _) => Some(n),
                (true, keep) => keep.then_some(1),
            };
            own.iter().enumerate().filter_map(kept).collect()
        };
        match self {
            Op::Expand(to) => tape.expand(a, to),
            Op::Permute(axes) => {
                let shape = axes.iter().map(|&i| own[i]).collect();
                tape.view(a, shape, |index| {
                    let mut from = vec![0; index.len()];
                    axes.iter().zip(index).for_each(|(&axis, &i)| from[axis] = i);
                    from
                })
            }
            Op::Slice(parts) => tape.view(a, part_shape(parts, &own), |index| whole_index(parts, index)),
            &Op::Narrow(axis, start, len) => {
                let mut shape = own.clone();
                shape[axis] = len;
                tape.view(a, shape, |index| {
                    let mut from = index.to_vec();
                    from[axis] += start;
                    from
                })
            }
            &Op::Select(axis, at) => {
                let mut shape = own.clone();
                shape.remove(axis);
                tape.view(a, shape, |index| {
                    let mut from = index.to_vec();
                    from.insert(axis, at);
                    from
                })
            }
            Op::Flip(axes) => tape.view(a, own.clone(), |index| {
                let turned = |(i, &at): (usize, &usize)| if axes.contains(&i) { own[i] - 1 - at } else { at };
                index.iter().enumerate().map(turned).collect()
            }),
            Op::Reshape(to) => tape.reshape(a, to.clone()),
            &Op::Squeeze(axis) => {
                let mut shape = own.clone();
                if shape[axis] == 1 {
                    shape.remove(axis);
                }
                tape.reshape(a, shape)
            }
            &Op::Unsqueeze(axis) => {
                let mut shape = own.clone();
                shape.insert(axis, 1);
                tape.reshape(a, shape)
            }
            Op::IndexSelect(axis, at) => {
                let mut shape = own.clone();
                shape[*axis] = at.len();
                tape.view(a, shape, |index| {
                    let mut from = index.to_vec();
                    from[*axis] = at[from[*axis]];
                    from
                })
            }
            Op::Sum(axes, keepdim) => {
                // An empty list is all of them.
                let all: Vec<usize> = (0..own.len()).collect();
                let axes = if axes.is_empty() { &all } else { axes };
                let kept = tape.sum_to(a, &padded(&own, axes))?;
                tape.reshape(kept, without(axes, *keepdim))
            }
            // Nothing to do: the same variable.
            Op::SumTo(to) if *to == own => Ok(a),
            Op::SumTo(to) => tape.sum_to(a, to),
            &Op::MaxAlong(axis, keepdim) => {
                let shape = without(&[axis], true);
                if own[axis] == 0 {
                    return Err(if count(&shape) == 0 { Refusal::Limit } else { Refusal::Invalid });
                }
                let mut terms = Vec::new();
                for (out, index) in tests::model::indices(&shape).into_iter().enumerate() {
                    let at = |i: usize| {
                        let mut from = index.clone();
                        from[axis] = i;
                        tests::model::place(&own, &from)
                    };
                    let values = &tape.array(a).values;
                    // the first of the largest
                    let best = (0..own[axis]).rev().max_by(|&i, &j| values[at(i)].total_cmp(&values[at(j)]));
                    terms.push(Term { out, input: 0, at: at(best.unwrap()), factor: 1.0 });
                }
                let kept = tape.sum_of(shape, vec![a], terms)?;
                tape.reshape(kept, without(&[axis], keepdim))
            }
            Op::Neg => tape.weigh(a, a, |_, _| [-1.0, 0.0]),
            Op::Relu => tape.weigh(a, a, |x, _| [if x > 0.0 { 1.0 } else { 0.0 }, 0.0]),
            &Op::AddNumber(c) => with_number(tape, a, 1.0, c),
            &Op::MulNumber(c) => tape.weigh(a, a, |_, _| [c, 0.0]),
            &Op::FromNumber(c) => with_number(tape, a, -1.0, c),
            Op::Add => tape.weigh(a, b, |_, _| [1.0, 1.0]),
            Op::Sub => tape.weigh(a, b, |_, _| [1.0, -1.0]),
            Op::Mul => tape.mul(a, b),
            &Op::AddScaled(c) => tape.weigh(a, b, |_, _| [1.0, c]),
            Op::Maximum => tape.weigh(a, b, |x, y| shares(x > y, x < y)),
            Op::Minimum => tape.weigh(a, b, |x, y| shares(x < y, x > y)),
            Op::WherePositive => tape.weigh(a, b, |x, _| shares(x > 0.0, x <= 0.0)),
            Op::Matmul => tape.matmul(a, b),
            &Op::Cat(axis) => tape.cat(a, b, axis),
        }
    }
}

/// The whole to one side, or halves.
fn shares(first: bool, second: bool) -> [f64; 2] {
    match (first, second) {
        (true, _) => [1.0, 0.0],
        (_, true) => [0.0, 1.0],
        _ => [0.5, 0.5],
    }
}

fn with_number(tape: &mut Tape, a: Id, factor: f64, number: f64) -> Result<Id, Refusal> {
    let number = tape.given(Array { shape: vec![], values: vec![number] }, None);
    tape.weigh(a, number, |_, _| [factor, 1.0])
}

fn padded(shape: &[usize], axes: &[usize]) -> Vec<usize> {
    shape.iter().enumerate().map(|(i, &n)| if axes.contains(&i) { 1 } else { n }).collect()
}

/// Another shape of the same size: an axis split, two merged, all in one, or the sizes in another order.
fn reshaped(random: &mut Random, shape: &[usize]) -> Vec<usize> {
    let mut to = shape.to_vec();
    let axis = random.below(shape.len());
    match random.below(4) {
        0 if axis + 1 < shape.len() => to[axis] *= to.remove(axis + 1),
        1 if to[axis] > 1 && shape.len() < 4 => {
            let divisors: Vec<usize> = (1..=to[axis]).filter(|&d| to[axis].is_multiple_of(d)).collect();
            let d = random.pick(&divisors);
            to[axis] /= d;
            to.insert(axis, d);
        }
        2 => to = vec![count(shape)],
        _ => to = random.shuffled(shape.len()).into_iter().map(|i| shape[i]).collect(),
    }
    to
}

pub(crate) use apply;
