//! Products of matrices: one or a batch, summed down to a shape where they arise, added to what is there.

use smallvec::SmallVec;

use super::{Does, Read, Space, Task, To, expect_expands};
use crate::create::{checked_len, room_for};
use crate::dtype::{DType, Element, typed_mut};
use crate::error::{Result, TensorFacts, refuse};
use crate::kernels::{BatchAxis, Matrix, Multiply, Onto, Product};
use crate::shape::{Dims, Shape, broadcast_two, expands_to};
use crate::tensor::{Layout, Tensor, stride_of};

/// What the meta step of a product decides: the sizes of one, and the common batch.
pub(crate) struct Spec {
    pub(crate) batch: Shape,
    /// of the product
    pub(crate) shape: Shape,
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
}

impl Spec {
    /// # Errors
    /// `Rank` for a 0-d operand, `MixedDTypes`, `DTypeUnsupported` for `Bool`, `Matmul` if the inner sizes differ,
    /// `Broadcast`, `TooLarge`.
    pub(crate) fn new(op: &'static str, a: &Tensor, b: &Tensor) -> Result<Spec> {
        for t in [a, b] {
            if t.rank() == 0 {
                return refuse(TensorFacts::Rank { op, operand: "", expected: "at least 1", found: 0 });
            }
        }
        expect_one_dtype(op, ("left", a), ("right", b))?;
        if a.dtype() == DType::Bool {
            return refuse(TensorFacts::DTypeUnsupported { op, dtype: DType::Bool });
        }
        let (ad, bd) = (a.dims(), b.dims());
        let k = ad[ad.len() - 1];
        let inner = bd[bd.len().saturating_sub(2)];
        if k != inner {
            return refuse(TensorFacts::Matmul { op, a: a.shape().clone(), b: b.shape().clone() });
        }
        let m = if ad.len() > 1 { ad[ad.len() - 2] } else { 1 };
        let n = if bd.len() > 1 { bd[bd.len() - 1] } else { 1 };
        let batch = broadcast_two(op, batch_of(ad), batch_of(bd))?;
        let mut shape = batch.clone();
        if ad.len() > 1 {
            shape.0.push(m);
        }
        if bd.len() > 1 {
            shape.0.push(n);
        }
        checked_len(op, &shape, a.dtype())?;
        Ok(Spec { batch, shape, m, n, k })
    }
}

/// Refuses operands of different element types, by their names.
pub(crate) fn expect_one_dtype(
    op: &'static str,
    (a_name, a): (&'static str, &Tensor),
    (b_name, b): (&'static str, &Tensor),
) -> Result<()> {
    let (a, b) = ((a_name, a.dtype()), (b_name, b.dtype()));
    if a.1 == b.1 { Ok(()) } else { refuse(TensorFacts::MixedDTypes { op, a, b }) }
}

/// The product of the first two that are read, whose rows are added to the third if there is one.
#[track_caller]
pub(super) fn make(op: &'static str, spec: &Spec, reads: &[Read<'_>], to: &mut [To<'_>]) -> Result<Tensor> {
    let ([Read::Tensor(a, _), Read::Tensor(b, _), row @ ..], [To::Sum { shape, dtype, prior }]) = (reads, to)
    else {
        unreachable!("a product has two factors and goes to a sum")
    };
    let laid_out;
    let row = match row {
        [Read::Tensor(row, _)] if row.is_contiguous() => Some(*row),
        [Read::Tensor(row, _)] => {
            laid_out = row.laid_out(op)?;
            Some(&laid_out)
        }
        _ => None,
    };
    MatrixProduct { op, spec, a, b, row }.sum_to(shape, prior.take())?.into_type(op, *dtype)
}

/// A product that is to be computed.
struct MatrixProduct<'a> {
    op: &'static str,
    spec: &'a Spec,
    a: &'a Tensor,
    b: &'a Tensor,
    /// what each row is added to, row-major, if the product is not summed
    row: Option<&'a Tensor>,
}

/// An axis of the batch, and whether the result has it.
#[derive(Clone, Copy)]
struct ProductAxis {
    axis: BatchAxis,
    kept: bool,
}

impl MatrixProduct<'_> {
    /// Computes the product, summed down to `target` and added to `prior`.
    #[track_caller]
    fn sum_to(&self, target: &Shape, prior: Option<Tensor>) -> Result<Tensor> {
        let (op, dtype, shape) = (self.op, self.a.dtype(), &self.spec.shape);
        if target != shape && !expands_to(target, shape) {
            return Err(expect_expands(op, target, shape).expect_err("it does not expand"));
        }
        if let Some(p) = &prior
            && p.shape() != target
        {
            return refuse(TensorFacts::ShapeMismatch {
                op,
                operand: "prior",
                expected: target.clone(),
                found: p.shape().clone(),
            });
        }
        let matrix = &shape[self.spec.batch.rank()..];
        if !target.ends_with(matrix) {
            // An axis of the matrices themselves is summed: no gradient asks for it, so nothing is saved.
            let (product, mut prior) = (self.sum_to(shape, None)?, prior);
            let reads = &[Read::Tensor(&product, dtype)];
            let to = &mut [To::Sum { shape: target, dtype, prior: &mut prior }];
            return super::make(Task { op, reads, space: Space::Of(shape), does: Does::Same, to });
        }
        let missing = shape.rank() - target.rank();
        let kept = |i: usize| i >= missing && !(target[i - missing] == 1 && self.spec.batch[i] != 1);
        let own = |mut p: Tensor| -> Result<Tensor> {
            p = p.into_type(op, dtype)?;
            p.make_writable(op)?;
            Ok(p)
        };
        let prior = prior.map(own).transpose()?;
        match dtype {
            DType::F32 => self.typed::<f32>(target, &kept, prior),
            DType::F64 => self.typed::<f64>(target, &kept, prior),
            DType::I64 => self.typed::<i64>(target, &kept, prior),
            DType::Bool => unreachable!("the meta step refuses bool"),
        }
    }

    fn typed<T: Multiply>(
        &self,
        target: &Shape,
        kept: &dyn Fn(usize) -> bool,
        prior: Option<Tensor>,
    ) -> Result<Tensor> {
        let onto = match self.row {
            Some(row) => Onto::Row(&slice::<T>(row)[row.layout.offset()..][..self.spec.n]),
            None => Onto::Nothing,
        };
        if self.spec.batch.rank() == 0 {
            let (a, b) = (matrix(self.a, true), matrix(self.b, false));
            let (k, times) = inner(self.spec.k, &a, &b);
            let (m, n, scale) = (self.spec.m, self.spec.n, T::of_count(times));
            return self.single(Product { m, n, k, a, b, kept: &[], summed: &[], scale }, onto, prior);
        }
        let mut all = Batches::<T>::new(self, kept, prior.is_none());
        all.simplify();
        let kept: SmallVec<[BatchAxis; 4]> = all.axes.iter().filter(|a| a.kept).map(|a| a.axis).collect();
        let summed: SmallVec<[BatchAxis; 4]> = all.axes.iter().filter(|a| !a.kept).map(|a| a.axis).collect();
        let (m, n, k, a, b) = (all.m, all.n, all.k, all.a, all.b);
        let product =
            Product { m, n, k, a, b, kept: &kept, summed: &summed, scale: T::of_count(all.repeats) };
        if let Some(mut prior) = prior {
            product.run(typed_mut(prior.block_mut()), Onto::Result);
            return Ok(prior);
        }
        let len = kept.iter().map(|a| a.size).product::<usize>() * m * n;
        let mut storage = room_for(self.op, target, len, T::DTYPE)?;
        product.run(typed_mut(storage.block_mut()), onto);
        let missing = self.spec.shape.rank() - target.rank();
        let still = |i: usize| all.still.get(i + missing).copied().unwrap_or(false);
        Ok(Tensor { storage, layout: layout(target, &still) })
    }

    /// A product without a batch, into fresh memory or added to the prior.
    fn single<T: Multiply>(
        &self,
        product: Product<'_, T>,
        onto: Onto<'_, T>,
        prior: Option<Tensor>,
    ) -> Result<Tensor> {
        if let Some(mut prior) = prior {
            product.run(typed_mut(prior.block_mut()), Onto::Result);
            return Ok(prior);
        }
        let mut storage = room_for(self.op, &self.spec.shape, product.m * product.n, T::DTYPE)?;
        product.run(typed_mut(storage.block_mut()), onto);
        Ok(Tensor::from_storage(storage, self.spec.shape.clone()))
    }
}

fn slice<T: Element>(t: &Tensor) -> &[T] {
    T::slice(t.storage.block()).expect("the meta step compares the types")
}

/// Row-major, with stride 0 on the axes that were not computed again and again.
fn layout(shape: &Shape, still: &dyn Fn(usize) -> bool) -> Layout {
    let still: Dims<bool> = (0..shape.rank()).map(still).collect();
    Layout::with_still_axes(shape.clone(), &still)
}

/// The leading axes.
pub(crate) fn batch_of(dims: &[usize]) -> &[usize] {
    &dims[..dims.len().saturating_sub(2)]
}

/// A product with its batch axes, as few as the strides allow.
struct Batches<'a, T> {
    m: usize,
    n: usize,
    k: usize,
    a: Matrix<'a, T>,
    b: Matrix<'a, T>,
    /// outermost first
    axes: SmallVec<[ProductAxis; 4]>,
    /// how often each product counts, because of axes that are summed and that no operand moves along
    repeats: usize,
    /// per axis of the batch, whether it was set aside because no operand moves along it
    still: Dims<bool>,
}

impl<'a, T: Multiply> Batches<'a, T> {
    fn new(product: &MatrixProduct<'a>, kept: &dyn Fn(usize) -> bool, set_aside: bool) -> Batches<'a, T> {
        let (spec, rank) = (product.spec, product.spec.batch.rank());
        let (a_steps, b_steps) = (batch_steps(product.a, rank), batch_steps(product.b, rank));
        let (a, b) = (matrix(product.a, true), matrix(product.b, false));
        let (k, repeats) = inner(spec.k, &a, &b);
        let mut all = Batches {
            m: spec.m,
            n: spec.n,
            k,
            a,
            b,
            axes: SmallVec::new(),
            repeats,
            still: Dims::from_elem(false, rank),
        };
        for (i, &size) in spec.batch.iter().enumerate() {
            let axis = BatchAxis { size, a_step: a_steps[i], b_step: b_steps[i] };
            let moves = axis.a_step != 0 || axis.b_step != 0;
            if size == 1 {
                continue;
            }
            if !moves && !kept(i) && size != 0 {
                all.repeats *= size;
            } else if !moves && set_aside && size != 0 {
                all.still[i] = true;
            } else {
                all.push(ProductAxis { axis, kept: kept(i) });
            }
        }
        all
    }

    /// Adds an inner axis, merging it into its neighbour where both operands step over both alike.
    fn push(&mut self, inner: ProductAxis) {
        if let Some(outer) = self.axes.last_mut() {
            let size = inner.axis.size as isize;
            let alike = outer.axis.a_step == inner.axis.a_step * size
                && outer.axis.b_step == inner.axis.b_step * size;
            if alike && outer.kept == inner.kept {
                outer.axis = BatchAxis { size: outer.axis.size * inner.axis.size, ..inner.axis };
                return;
            }
        }
        self.axes.push(inner);
    }

    /// Makes batch axes part of the matrices: kept ones of their rows, summed ones of the inner axis.
    fn simplify(&mut self) {
        if self.m == 0 || self.n == 0 || self.k == 0 {
            return;
        }
        self.axes.retain(|s| {
            let folds = !s.kept
                && fold(
                    &mut self.k,
                    [(&mut self.a.col_step, s.axis.a_step), (&mut self.b.row_step, s.axis.b_step)],
                    s.axis.size,
                );
            !folds
        });
        let last = self.axes.iter().rposition(|x| x.kept);
        if let Some(i) = last
            && self.n == 1
            && self.m > 1
            && self.axes[i].axis.a_step == 0
        {
            self.transpose();
        }
        while let Some(i) = self.axes.iter().rposition(|x| x.kept) {
            let axis = self.axes[i].axis;
            if axis.b_step != 0 || !fold(&mut self.m, [(&mut self.a.row_step, axis.a_step)], axis.size) {
                return;
            }
            self.axes.remove(i);
        }
    }

    /// With one column, the result lies like its transpose, whose left operand is the right one.
    fn transpose(&mut self) {
        (self.a, self.b) = (self.b.transposed(), self.a.transposed());
        (self.m, self.n) = (self.n, self.m);
        for x in &mut self.axes {
            x.axis = BatchAxis { size: x.axis.size, a_step: x.axis.b_step, b_step: x.axis.a_step };
        }
    }
}

/// Lets an axis of a matrix take in an outer axis of `size`, if every operand steps over both alike.
fn fold<const N: usize>(own: &mut usize, steps: [(&mut isize, isize); N], size: usize) -> bool {
    let alike = *own == 1 || steps.iter().all(|(inner, outer)| *outer == **inner * *own as isize);
    if alike {
        for (inner, outer) in steps {
            if *own == 1 {
                *inner = outer;
            }
        }
        *own *= size;
    }
    alike
}

/// The matrices in the last two axes; a vector is a row on the left and a column on the right.
fn matrix<T: Element>(t: &Tensor, left: bool) -> Matrix<'_, T> {
    let data = slice(t);
    let step = |back: usize| stride_of(t.dims(), t.layout.own_strides(), t.rank() - back);
    let (row_step, col_step) = match t.rank() {
        0 => unreachable!("the meta step refuses 0-d operands"),
        1 if left => (0, step(1)),
        1 => (step(1), 0),
        _ => (step(2), step(1)),
    };
    Matrix { data, start: t.layout.offset(), row_step, col_step }
}

/// The size of the inner axis, and how often each product counts: an inner axis that no operand moves along is a factor.
fn inner<T>(k: usize, a: &Matrix<'_, T>, b: &Matrix<'_, T>) -> (usize, usize) {
    if k > 1 && a.col_step == 0 && b.row_step == 0 { (1, k) } else { (k, 1) }
}

/// Strides over the common batch of `rank` axes: 0 where the tensor broadcasts.
fn batch_steps(t: &Tensor, rank: usize) -> Dims<isize> {
    let own = batch_of(t.dims());
    let (mut steps, strides): (Dims<isize>, _) = (Dims::from_elem(0, rank), t.strides());
    for (i, &size) in own.iter().enumerate() {
        if size != 1 {
            steps[rank - own.len() + i] = strides[i];
        }
    }
    steps
}
