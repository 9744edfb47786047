//! Updates of many tensors in one go: each is checked when it is put down, and all are done together.

use smallvec::SmallVec;

use super::iter::{self, Job, Operand};
use super::space::expect_expands;
use crate::error::{Here, Result, TensorFacts, refuse};
use crate::kernels::BlockKernel;
use crate::tensor::Tensor;

/// Updates that are done in one go: a kernel each, the tensors of one shape and type that it changes in place, and others that it
/// reads, which broadcast to that shape.
///
/// Threads share the elements of all of them, so that many small tensors are done as one large one is. The result is that of
/// one [`update`](crate::kernel::update) after another, to the bit.
///
/// ```
/// use foldback_tensor::kernel::{FloatOps, Real, Update, UpdateKernel, Updates};
/// use foldback_tensor::tensor;
/// #[derive(Clone, Copy)]
/// struct Step(f64);
/// impl Update<1, 1> for Step {
///     fn eval<R: Real>(&self, [p]: [R; 1], [g]: [R; 1]) -> [R; 1] where f64: FloatOps<R> { [p - g * self.0] }
/// }
/// let (mut w, mut b, g) = (tensor![[1.0, 2.0]], tensor![3.0], tensor![1.0]);
/// let (slow, fast) = (UpdateKernel(Step(0.5)), UpdateKernel(Step(1.0)));
/// let mut both = Updates::new("step");
/// both.push(&slow, [&mut w], [&g])?;
/// both.push(&fast, [&mut b], [&g])?;
/// both.run();
/// assert_eq!((w, b), (tensor![[0.5, 1.5]], tensor![2.0]));
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[must_use = "nothing is changed before they run"]
pub struct Updates<'a> {
    op: &'static str,
    jobs: Vec<Job<'a>>,
}

impl<'a> Updates<'a> {
    /// None yet; `op` is what errors name.
    pub fn new(op: &'static str) -> Updates<'a> {
        Updates { op, jobs: Vec::new() }
    }

    /// None yet, and room for `n`.
    pub fn with_capacity(op: &'static str, n: usize) -> Updates<'a> {
        Updates { op, jobs: Vec::with_capacity(n) }
    }

    /// One more. Nothing is changed before [`Updates::run`]; what cannot be done is refused here.
    ///
    /// # Errors
    /// `ShapeMismatch`, `DTypeMismatch` or `DTypeUnsupported` if the state is not of one shape and one floating-point
    /// type; `Broadcast` or `Expand` if an operand does not broadcast to it; `Parameter` if the kernel changes or reads another number of
    /// tensors; `TooLarge` if there is no memory for the copy of a state that somebody else holds, too.
    #[track_caller]
    pub fn push(
        &mut self,
        kernel: &'a dyn BlockKernel,
        state: impl IntoIterator<Item = &'a mut Tensor>,
        operands: impl IntoIterator<Item = &'a Tensor>,
    ) -> Result<()> {
        // Pushed one by one, which for so few is shorter than `extend`.
        let (mut states, mut reads) = (SmallVec::new(), SmallVec::new());
        state.into_iter().for_each(|t| states.push(t));
        operands.into_iter().for_each(|t| reads.push(Operand::new(t, t.dtype())));
        self.push_all(kernel, states, reads).here()
    }

    fn push_all(
        &mut self,
        kernel: &'a dyn BlockKernel,
        mut states: SmallVec<[&'a mut Tensor; 4]>,
        mut operands: SmallVec<[Operand<'a>; 1]>,
    ) -> Result<()> {
        let op = self.op;
        crate::ops::kernel::expect_arity(op, kernel, operands.len(), states.len())?;
        let Some(first) = states.first() else { return Ok(()) };
        let (shape, dtype) = (first.shape().clone(), first.dtype());
        if !dtype.is_float() {
            return refuse(TensorFacts::DTypeUnsupported { op, dtype });
        }
        for s in &states {
            s.expect_dtype(op, "a state", dtype)?;
            if *s.shape() != shape {
                let found = s.shape().clone();
                return refuse(TensorFacts::ShapeMismatch { op, operand: "state", expected: shape, found });
            }
        }
        for operand in &mut operands {
            expect_expands(op, operand.shape, &shape)?;
            operand.want = dtype;
        }
        states.iter_mut().try_for_each(|s| s.make_writable(op))?;
        self.jobs.push(Job::new(kernel, states, operands, &shape));
        Ok(())
    }

    /// Does all of them.
    pub fn run(mut self) {
        iter::update_all(&mut self.jobs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{FloatOps, Real, Update, UpdateKernel};
    use crate::shape::Shape;
    use crate::threads::GRAIN;
    use crate::{DType, ThreadPool, kernel, refused, tensor};

    /// A step with momentum, of which every bit shows.
    #[derive(Clone, Copy)]
    struct Momentum(f64);
    impl Update<2, 1> for Momentum {
        fn eval<R: Real>(&self, [p, v]: [R; 2], [g]: [R; 1]) -> [R; 2]
        where
            f64: FloatOps<R>,
        {
            let v = v * self.0 + g / (g * g + 0.3).sqrt();
            [p - v * 0.1, v]
        }
    }

    #[derive(Clone, Copy)]
    struct Twice;
    impl Update<1, 0> for Twice {
        fn eval<R: Real>(&self, [a]: [R; 1], []: [R; 0]) -> [R; 1]
        where
            f64: FloatOps<R>,
        {
            [a * 2.0]
        }
    }

    fn waves(shape: Shape, k: f64, dtype: DType) -> Tensor {
        Tensor::arange_with(0..shape.numel() as i64, 1, DType::F64)
            .mul(k)
            .unwrap()
            .sin()
            .to(dtype)
            .reshape(shape)
            .unwrap()
    }

    /// Value, momentum and gradient of tensors of all sizes, types and layouts, also with cuts of work in them.
    fn parameters() -> Vec<[Tensor; 3]> {
        let sizes = [5, 0, 1, 17, GRAIN - 30, 1, 1000, 3 * GRAIN + 7, 64, 64, GRAIN, 2 * GRAIN];
        let mut all: Vec<[Tensor; 3]> = Vec::new();
        for (i, n) in sizes.into_iter().enumerate() {
            let dtype = if i % 3 == 1 { DType::F64 } else { DType::F32 };
            all.push([0.1, 0.37, 1.3].map(|k| waves(n.into(), k, dtype)));
        }
        let at = |shape: &[usize], k| waves(shape.into(), k, DType::F32);
        // A column, one number and another type for a gradient; a value that is a view.
        all.push([at(&[300, 200], 0.1), at(&[300, 200], 0.3), at(&[300, 1], 0.7)]);
        all.push([at(&[3, 2], 0.1), at(&[3, 2], 0.3), at(&[], 0.7).to(DType::F64)]);
        all.push([at(&[GRAIN + 9], 0.1), at(&[GRAIN + 9], 0.3), at(&[1], 0.7)]);
        all.push([at(&[70, 500], 0.1).t(), at(&[500, 70], 0.3), at(&[70, 500], 0.7).t()]);
        // Read by squares, in pieces that are no whole rows of them.
        all.push([at(&[301, 333], 0.1), at(&[301, 333], 0.3), at(&[333, 301], 0.7).t()]);
        all
    }

    #[test]
    fn many_are_one_after_another() {
        let (fast, slow) = (UpdateKernel(Momentum(0.9)), UpdateKernel(Momentum(0.5)));
        let mut expected = parameters();
        for (i, [p, v, g]) in expected.iter_mut().enumerate() {
            let formula = if i % 2 == 0 { Momentum(0.9) } else { Momentum(0.5) };
            kernel::update("t", formula, [p, v], [g]).unwrap();
        }
        for threads in [1, 2, 8] {
            let mut together = parameters();
            let held: Vec<Tensor> = together.iter().map(|[p, ..]| p.clone()).collect();
            let mut updates = Updates::new("t");
            for (i, [p, v, g]) in together.iter_mut().enumerate() {
                updates.push(if i % 2 == 0 { &fast } else { &slow }, [p, v], [&*g]).unwrap();
            }
            ThreadPool::new(threads).install(|| updates.run());
            assert_eq!(together, expected, "{threads} threads");
            // What somebody holds is not written.
            assert!(held.iter().zip(parameters()).all(|(held, [p, ..])| *held == p));
        }
    }

    #[test]
    fn what_is_held_by_nobody_stays_where_it_is() {
        let mut all = [3usize, 2 * GRAIN, 5].map(Tensor::ones);
        let address = |t: &Tensor| t.as_slice::<f32>().unwrap().as_ptr().addr();
        let before = all.each_ref().map(address);
        let (kernel, mut updates) = (UpdateKernel(Twice), Updates::with_capacity("t", 3));
        all.iter_mut().for_each(|t| updates.push(&kernel, [t], []).unwrap());
        updates.run();
        assert_eq!((all.each_ref().map(address), &all[2]), (before, &Tensor::full(5, 2.0)));
    }

    #[test]
    fn what_cannot_be_done_is_refused_before_anything_is_changed() {
        let (kernel, twice) = (UpdateKernel(Momentum(0.5)), UpdateKernel(Twice));
        let [mut p, mut v, mut a, mut b] = [1.0, 2.0, 3.0, 4.0].map(|x| Tensor::full(2, x));
        let (mut long, mut double, mut whole) = (tensor![1.0], tensor![1.0, 2.0; f64], tensor![1, 2; i64]);
        let (g, larger) = (tensor![1.0], Tensor::ones([3, 2]));
        {
            let mut updates = Updates::new("t");
            updates.push(&kernel, [&mut p, &mut v], [&g]).unwrap();
            // A place for each refusal: what is put down borrows it as long as there are updates.
            let [mut a2, mut b2] = [a.clone(), b.clone()];
            let mut refused = Updates::new("t");
            let e = refused.push(&kernel, [&mut a, &mut long], [&g]);
            assert!(refused!(e, TensorFacts::ShapeMismatch { op: "t", operand: "state", .. }));
            let e = refused.push(&kernel, [&mut b, &mut double], [&g]);
            assert!(refused!(e, TensorFacts::DTypeMismatch { .. }));
            let e = refused.push(&kernel, [&mut a2, &mut b2], [&larger]);
            assert!(refused!(e, TensorFacts::Expand { .. }));
            assert!(refused!(refused.push(&kernel, [], [&g]), TensorFacts::Parameter { .. }));
            assert!(refused!(refused.push(&twice, [&mut whole], []), TensorFacts::DTypeUnsupported { .. }));
            refused.run();
        }
        assert_eq!([p, v, a, b], [1.0, 2.0, 3.0, 4.0].map(|x| Tensor::full(2, x)));
    }
}
