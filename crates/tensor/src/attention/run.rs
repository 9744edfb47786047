//! Attention as a task: what is refused, where each matrix of a batch begins, and how the batch is shared among threads.

use smallvec::SmallVec;

use super::Attention;
use crate::create::expect_room_for;
use crate::dtype::{BlockMut, DType, Element};
use crate::error::{Result, TensorFacts, refuse};
use crate::kernels::attention::{Heads, MaskRows, queries_at_once};
use crate::kernels::softmax::RowFloat;
use crate::kernels::{Matrix, Multiply};
use crate::ops::reduce::expect_float;
use crate::ops::warning;
use crate::shape::{Shape, broadcast_two, expect_expansion};
use crate::task::{self, Read, SeveralRule, batch_of};
use crate::tensor::Tensor;
use crate::threads::split_work;

const OP: &str = "scaled_dot_product_attention";

/// Multiplications that one thread does at a time, at least.
const TASK: usize = 1 << 19;

/// Attention over operands of given shapes.
#[derive(Clone, Debug)]
pub struct Attending {
    /// the common leading axes
    pub batch: Shape,
    /// queries, keys, their size, and the size of a value
    sizes: [usize; 4],
    /// what products of queries and keys are multiplied by
    pub scale: f64,
    /// whether a query sees the keys up to its own number only
    pub causal: bool,
    /// the probability that a share is dropped
    pub dropout_p: f64,
}

impl Attending {
    /// Refuses what attention refuses.
    ///
    /// # Errors
    /// As [`Tensor::scaled_dot_product_attention_with`].
    pub fn new([q, k, v]: [&Tensor; 3], mask: Option<&Tensor>, options: &Attention) -> Result<Attending> {
        expect_float(OP, q)?;
        for (name, t) in [("key", k), ("value", v)] {
            if t.dtype() != q.dtype() {
                return refuse(TensorFacts::MixedDTypes {
                    op: OP,
                    a: ("query", q.dtype()),
                    b: (name, t.dtype()),
                });
            }
        }
        for (operand, t) in [("query", q), ("key", k), ("value", v)] {
            if t.rank() < 2 {
                let found = t.rank();
                return refuse(TensorFacts::Rank { op: OP, operand, expected: "at least 2", found });
            }
        }
        let last = |t: &Tensor| [t.dims()[t.rank() - 2], t.dims()[t.rank() - 1]];
        let ([l, e], [s, key], [values, width]) = (last(q), last(k), last(v));
        let mismatch = |operand, t: &Tensor, expected: [usize; 2]| {
            let expected = [batch_of(t.dims()), &expected].concat().into();
            refuse(TensorFacts::ShapeMismatch { op: OP, operand, expected, found: t.shape().clone() })
        };
        if e != key {
            return mismatch("key", k, [s, e]);
        }
        if s != values {
            return mismatch("value", v, [s, width]);
        }
        let batches = [q, k, v].map(|t| (batch_of(t.dims()), t.meant().without_last(2)));
        warning::check(OP, warning::Lists::Idiom, || batches.into_iter().collect())?;
        let keyed = broadcast_two(OP, batch_of(q.dims()), batch_of(k.dims()))?;
        let scores = [keyed.dims(), &[l, s]].concat().into();
        let batch = broadcast_two(OP, &keyed, batch_of(v.dims()))?;
        if let Some(mask) = mask {
            // As in PyTorch: `F32` is taken beside `F64`, too.
            if !matches!(mask.dtype(), DType::Bool | DType::F32) && mask.dtype() != q.dtype() {
                let (a, b) = (("query", q.dtype()), ("mask", mask.dtype()));
                return refuse(TensorFacts::MixedDTypes { op: OP, a, b });
            }
            expect_expansion(OP, "mask", mask.shape(), &scores)?;
        }
        let parameter =
            |name, value: String, expected| refuse(TensorFacts::Parameter { op: OP, name, value, expected });
        if mask.is_some() && options.is_causal {
            return parameter("is_causal", "true".into(), "no mask beside it: put both into one mask");
        }
        if !(0.0..=1.0).contains(&options.dropout_p) {
            return parameter("dropout_p", options.dropout_p.to_string(), "between 0 and 1");
        }
        // Without inner positions all scores are 0, whatever they are multiplied by.
        let scale = if e == 0 { 1.0 } else { options.scale.unwrap_or(1.0 / (e as f64).sqrt()) };
        let (causal, dropout_p) = (options.is_causal, options.dropout_p);
        Ok(Attending { batch, sizes: [l, s, e, width], scale, causal, dropout_p })
    }

    /// The result `[.., l, v]`, and its norms, which [`Attending::backward`] reads; none where shares are dropped.
    ///
    /// # Errors
    /// `TooLarge`.
    pub fn forward(&self, operands: [&Tensor; 3], mask: Option<&Tensor>) -> Result<[Tensor; 2]> {
        if self.dropout_p > 0.0 {
            let y = self.with_dropout(operands, mask).map_err(|e| e.named(OP))?;
            return Ok([y, Tensor::zeros_with(0, operands[0].dtype())]);
        }
        let ([l, _, _, v], dtype) = (self.sizes, operands[0].dtype());
        let shape = self.shape(l, v);
        let is_empty = shape.contains(&0);
        if !is_empty {
            self.expect_shares(dtype)?;
        }
        // A largest score and a share each.
        let norms = if is_empty { Shape::from(0) } else { self.shape(l, 2) };
        let mask = mask.map(|m| self.with_rows(m, dtype)).transpose()?;
        let reads: SmallVec<[Read<'_>; 4]> =
            operands.into_iter().chain(&mask).map(|t| Read::Tensor(t, t.dtype())).collect();
        task::several(OP, &Forward(self), &reads, [(&shape, dtype), (&norms, dtype)])
    }

    /// The gradients for queries, keys and values, with the common leading axes, given that of the result, and what
    /// [`Attending::forward`] gave.
    ///
    /// # Errors
    /// `TooLarge`.
    pub fn backward(
        &self,
        g: &Tensor,
        [q, k, v]: [&Tensor; 3],
        mask: Option<&Tensor>,
        [y, norms]: &[Tensor; 2],
    ) -> Result<[Tensor; 3]> {
        let ([l, s, e, width], dtype) = (self.sizes, q.dtype());
        self.expect_shares(dtype)?;
        let mask = mask.map(|m| self.with_rows(m, dtype)).transpose()?;
        let g = g.cast(OP, dtype)?;
        let reads: SmallVec<[Read<'_>; 7]> =
            [&g, y, norms, q, k, v].into_iter().chain(&mask).map(|t| Read::Tensor(t, t.dtype())).collect();
        let shapes = [self.shape(l, e), self.shape(s, e), self.shape(s, width)];
        task::several(OP, &Backward(self), &reads, shapes.each_ref().map(|shape| (shape, dtype)))
    }

    /// Refuses so many shares of a query as no memory holds: keys that are expanded views are read one by one all the same.
    fn expect_shares(&self, dtype: DType) -> Result<()> {
        let [l, s, ..] = self.sizes;
        let rows = queries_at_once(self.causal).min(l);
        expect_room_for(OP, &[rows, s].into(), rows.saturating_mul(s), dtype)
    }

    /// The mask that shares of a causal query have; true where a key is seen.
    ///
    /// # Errors
    /// `TooLarge`.
    pub fn causal_mask(&self) -> Result<Tensor> {
        let [l, s, ..] = self.sizes;
        Ok(Tensor::try_ones_with([l, s], DType::Bool)?.tril())
    }

    /// With shares that are dropped, operation by operation.
    fn with_dropout(&self, [q, k, v]: [&Tensor; 3], mask: Option<&Tensor>) -> Result<Tensor> {
        let mut scores = q.matmul(k.transpose(-2, -1)?)?.mul(self.scale)?;
        let seen = if self.causal { Some(self.causal_mask()?) } else { None };
        if let Some(mask) = seen.as_ref().or(mask) {
            scores = match mask.dtype() {
                DType::Bool => mask.where_cond(&scores, f64::NEG_INFINITY)?,
                _ => scores.add(mask)?,
            };
        }
        let unseen = scores.eq(f64::NEG_INFINITY)?.all(crate::keep(-1))?;
        let shares = unseen.where_cond(0.0, scores.softmax(-1)?)?;
        shares.dropout(self.dropout_p)?.matmul(v)
    }

    fn shape(&self, rows: usize, cols: usize) -> Shape {
        [self.batch.dims(), &[rows, cols]].concat().into()
    }

    /// The mask with rows that lie one behind the other and whose elements lie side by side, of truth values or of this type.
    fn with_rows(&self, mask: &Tensor, dtype: DType) -> Result<Tensor> {
        let s = self.sizes[1];
        let mut shape = mask.shape().to_vec();
        while shape.len() < 2 {
            shape.insert(0, 1);
        }
        let last = shape.len() - 1;
        let mut mask = mask.reshape(shape.as_slice())?;
        if mask.dtype() != DType::Bool {
            mask = mask.cast(OP, dtype)?;
        }
        let forwards = mask.strides()[last - 1] >= 0;
        if shape[last] == s && (mask.strides()[last] == 1 || s == 1) && forwards {
            return Ok(mask);
        }
        shape[last] = s;
        mask.expand(shape)?.laid_out(OP)
    }
}

/// The matrices of a batch.
struct Stack<'a, T> {
    data: &'a [T],
    offset: usize,
    steps: SmallVec<[(usize, isize); 4]>,
    row_step: isize,
    col_step: isize,
}

impl<'a, T: Element> Stack<'a, T> {
    /// Those of a tensor, seen in a batch that its leading axes broadcast to.
    fn of(t: &'a Tensor, batch: &Shape) -> Stack<'a, T> {
        let data = T::slice(t.storage.block()).expect("the meta step compares the types");
        let (own, missing) = (batch_of(t.dims()), batch.rank() + 2 - t.rank());
        let strides = t.strides();
        let step = |axis: usize| match axis.checked_sub(missing) {
            Some(axis) if own[axis] != 1 => strides[axis],
            _ => 0,
        };
        let steps = batch.iter().enumerate().map(|(axis, &size)| (size, step(axis))).collect();
        let [.., row, col] = *strides else { unreachable!("matrices have two axes") };
        let rows = t.dims()[t.rank() - 2];
        let row_step = if rows == 1 { 0 } else { row };
        Stack { data, offset: t.layout.offset(), steps, row_step, col_step: col }
    }

    /// Where matrix number `item` begins.
    fn start(&self, mut item: usize) -> usize {
        let mut start = self.offset as isize;
        for &(size, step) in self.steps.iter().rev() {
            start += (item % size) as isize * step;
            item /= size;
        }
        start as usize
    }

    fn matrix(&self, item: usize) -> Matrix<'a, T> {
        let (row_step, col_step) = (self.row_step, self.col_step);
        Matrix { data: self.data, start: self.start(item), row_step, col_step }
    }
}

/// Everything that is read, as matrices.
struct Stacks<'a, T> {
    q: Stack<'a, T>,
    k: Stack<'a, T>,
    v: Stack<'a, T>,
    truth: Option<Stack<'a, bool>>,
    added: Option<Stack<'a, T>>,
}

impl<'a, T: RowFloat + Multiply> Stacks<'a, T> {
    fn of(how: &Attending, reads: &[&'a Tensor]) -> Stacks<'a, T> {
        let batch = &how.batch;
        let mask = reads.get(3);
        Stacks {
            q: Stack::of(reads[0], batch),
            k: Stack::of(reads[1], batch),
            v: Stack::of(reads[2], batch),
            truth: mask.filter(|m| m.dtype() == DType::Bool).map(|m| Stack::of(m, batch)),
            added: mask.filter(|m| m.dtype() != DType::Bool).map(|m| Stack::of(m, batch)),
        }
    }

    fn heads(&self, how: &Attending, item: usize) -> Heads<'a, T> {
        let [_, s, e, v] = how.sizes;
        let (mask, mask_step) = match (&self.truth, &self.added) {
            (Some(m), _) => (MaskRows::Truth(&m.data[m.start(item)..]), m.row_step),
            (_, Some(m)) => (MaskRows::Added(&m.data[m.start(item)..]), m.row_step),
            _ => (MaskRows::None, 0),
        };
        let (queries, keys, values) = (self.q.matrix(item), self.k.matrix(item), self.v.matrix(item));
        let (scale, causal, mask_step) = (how.scale, how.causal, mask_step as usize);
        Heads { queries, keys, values, mask, mask_step, s, e, v, scale, causal }
    }
}

/// What a rule writes, of one type.
fn slices<'a, T: Element, const N: usize>(outs: SmallVec<[BlockMut<'a>; 2]>) -> [&'a mut [T]; N] {
    let mut outs = outs.into_iter().map(|o| T::slice_mut(o).expect("made for this type"));
    [(); N].map(|()| outs.next().expect("as many as were asked for"))
}

/// Slices of so many elements each per item, and how many.
type Outs<'a, T, const N: usize> = [(&'a mut [T], usize); N];

/// Slices for the first `at` items, and for the rest.
fn cut<T, const N: usize>(outs: Outs<'_, T, N>, at: usize) -> (Outs<'_, T, N>, Outs<'_, T, N>) {
    let mut parts = outs.map(|(o, each)| {
        let (own, rest) = o.split_at_mut(at * each);
        [(own, each), (rest, each)]
    });
    (parts.each_mut().map(|[own, _]| std::mem::take(own)), parts.map(|[_, rest]| rest))
}

struct Forward<'a>(&'a Attending);

impl SeveralRule for Forward<'_> {
    fn run(&self, _: &'static str, reads: &[&Tensor], outs: SmallVec<[BlockMut<'_>; 2]>) -> Result<()> {
        fn run<T: RowFloat + Multiply>(
            how: &Attending,
            reads: &[&Tensor],
            outs: SmallVec<[BlockMut<'_>; 2]>,
        ) {
            let [l, s, e, v] = how.sizes;
            let [out, norms] = slices::<T, 2>(outs);
            if s == 0 || out.is_empty() {
                out.fill(T::of(0.0));
                return norms.fill(T::of(0.0));
            }
            let stacks = Stacks::of(how, reads);
            // Blocks of queries are those of the backward step: their scores have the same bits there.
            let step = queries_at_once(how.causal).min(l);
            let blocks = l.div_ceil(step);
            let row_of = |block: usize| block / blocks * l + block % blocks * step;
            let work = step.saturating_mul(s).saturating_mul(e + v);
            split_work(
                how.batch.numel() * blocks,
                (TASK / work.max(1)).max(1),
                (0, [(out, v), (norms, 2)]),
                &|(first, outs), at| {
                    let (own, rest) = cut(outs, row_of(first + at) - row_of(first));
                    ((first, own), (first + at, rest))
                },
                &|start, count, (_, mut outs)| {
                    for block in start..start + count {
                        let (item, first) = (block / blocks, block % blocks * step);
                        let rows = step.min(l - first);
                        let ([(out, _), (norms, _)], rest) = cut(outs, rows);
                        stacks.heads(how, item).forward(first, rows, out, norms);
                        outs = rest;
                    }
                },
            );
        }
        match reads[0].dtype() {
            DType::F64 => run::<f64>(self.0, reads, outs),
            _ => run::<f32>(self.0, reads, outs),
        }
        Ok(())
    }
}

struct Backward<'a>(&'a Attending);

impl SeveralRule for Backward<'_> {
    fn run(&self, _: &'static str, reads: &[&Tensor], outs: SmallVec<[BlockMut<'_>; 2]>) -> Result<()> {
        fn run<T: RowFloat + Multiply>(
            how: &Attending,
            reads: &[&Tensor],
            outs: SmallVec<[BlockMut<'_>; 2]>,
        ) {
            let [l, s, e, v] = how.sizes;
            let items = how.batch.numel();
            let outs = slices::<T, 3>(outs);
            if [l, s, v, items].contains(&0) {
                return outs.into_iter().for_each(|o| o.fill(T::of(0.0)));
            }
            let [g, y] = [reads[0], reads[1]].map(|t| Stack::<T>::of(t, &how.batch));
            let norms =
                &T::slice(reads[2].storage.block()).expect("made for this type")[reads[2].layout.offset()..];
            let stacks = Stacks::of(how, &reads[3..]);
            let [dq, dk, dv] = outs;
            let grain = (TASK / l.saturating_mul(s).saturating_mul(e + v).max(1)).max(1);
            split_work(
                items,
                grain,
                [(dq, l * e), (dk, s * e), (dv, s * v)],
                &|outs, at| cut(outs, at),
                &|first, count, mut outs| {
                    for item in first..first + count {
                        let (own, rest) = cut(outs, 1);
                        let results = [&g, &y].map(|t| t.matrix(item));
                        let norms = &norms[2 * item * l..];
                        stacks.heads(how, item).backward(results, norms, l, own.map(|(o, _)| o));
                        outs = rest;
                    }
                },
            );
        }
        match reads[1].dtype() {
            DType::F64 => run::<f64>(self.0, reads, outs),
            _ => run::<f32>(self.0, reads, outs),
        }
        Ok(())
    }
}
