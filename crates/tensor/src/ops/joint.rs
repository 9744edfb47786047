//! Several outputs of one kernel, each folded to a shape of its own, in one walk that reads every operand once.

use smallvec::SmallVec;

use super::kernel::{expect_arity, float_type, reads, sum_onto};
use crate::dtype::{Block, BlockMut, DType};
use crate::error::{Here, Result};
use crate::kernels::BlockKernel;
use crate::meant::Meant;
use crate::shape::Shape;
use crate::task::{self, Blocks, Does, Space, Task, To};
use crate::tensor::Tensor;

/// What a result is summed down to, and what it is added to.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// a shape that broadcasts to that of what is summed: leading axes and axes of size 1 are
    pub shape: &'a Shape,
    /// the type of the result, `F32` or `F64`; none for the type that it is computed in
    pub dtype: Option<DType>,
    /// a tensor of that shape; its memory is used for the result if nobody else holds it
    pub prior: Option<Tensor>,
}

impl<'a> Target<'a> {
    /// A sum down to a shape, in the type that it is computed in, onto nothing.
    pub fn of(shape: &'a Shape) -> Target<'a> {
        Target { shape, dtype: None, prior: None }
    }

    /// Where a task puts what it computes in type `own`.
    #[inline]
    pub(super) fn place(&mut self, own: DType) -> To<'_> {
        To::Sum { shape: self.shape, dtype: self.dtype.unwrap_or(own), prior: &mut self.prior }
    }
}

/// Evaluates a kernel with several outputs over broadcast operands, and sums each output down to a target of its own.
///
/// The kernel gets one output block per target, of the operands' common floating-point type. The results are those of
/// [`fold_to`](super::kernel::fold_to) for each output, bit for bit; several are dense and row-major. But every operand is
/// read only once where one pass can sum in the order of each, and nothing that does not stay in the cache is stored unreduced, except for a
/// target that has the common shape itself.
///
/// # Errors
/// `Broadcast` if the operands do not fit together, `Expand` if a target does not expand to their common shape,
/// `ShapeMismatch` if a prior has another shape than its target, `Parameter` if the kernel takes another number of
/// operands or has another number of outputs, `TooLarge`. Nothing is evaluated then.
///
/// ```
/// use foldback_tensor::{kernel::{self, FloatKernel, FloatOps, Formula, JointKernel, Real, Target}, tensor};
/// #[derive(Clone, Copy)]
/// struct Product;
/// impl Formula<2> for Product {
///     fn eval<R: Real>(&self, [a, b]: [R; 2]) -> R where f64: FloatOps<R> { a * b }
/// }
/// // The gradients of `x * w` for both factors, in one read of `g`.
/// let (g, x, w) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![[5.0, 6.0], [7.0, 8.0]], tensor![10.0, 20.0]);
/// let product = FloatKernel(Product);
/// let both = JointKernel(&[(&product, &[0, 2]), (&product, &[0, 1])]);
/// let (dx, dw) = ([2, 2].into(), [2].into());
/// let targets = [&dx, &dw].map(Target::of);
/// let gradients = kernel::fold_jointly("mul", &both, &[&g, &x, &w], targets.into_iter().collect())?;
/// assert_eq!(gradients[0], tensor![[10.0, 40.0], [30.0, 80.0]]);
/// assert_eq!(gradients[1], tensor![26.0, 44.0]);
/// # Ok::<(), foldback_tensor::Error>(())
/// ```
#[track_caller]
pub fn fold_jointly(
    op: &'static str,
    kernel: &dyn BlockKernel,
    operands: &[&Tensor],
    mut targets: SmallVec<[Target<'_>; 2]>,
) -> Result<SmallVec<[Tensor; 2]>> {
    expect_arity(op, kernel, operands.len(), targets.len()).here()?;
    let own = float_type(operands);
    if targets.iter().all(|target| target.dtype.is_none_or(|dtype| dtype == own))
        && let are_whole = targets.iter().all(|t| t.prior.is_none() && t.shape == operands[0].shape())
        && let Some(computed) = task::computed(kernel, operands, (targets.len(), are_whole))
    {
        return computed.iter().zip(targets).map(|(t, target)| sum_onto(op, t, target).here()).collect();
    }
    let mut to: SmallVec<[To<'_>; 2]> = targets.iter_mut().map(|target| target.place(own)).collect();
    let (reads, does) = (reads(operands, own), Does::Blocks(kernel));
    task::make_each(Task { op, reads: &reads, space: Space::Common, does, to: &mut to }).here()
}

/// Evaluates a kernel with several outputs over broadcast operands, in their common floating-point type and shape.
#[doc(hidden)]
#[track_caller]
pub fn evaluate_each(
    op: &'static str,
    kernel: &dyn BlockKernel,
    operands: &[&Tensor],
) -> Result<SmallVec<[Tensor; 2]>> {
    let reads = reads(operands, float_type(operands));
    let outputs = kernel.arity().map_or(1, |(_, outputs)| outputs);
    let mut made = match task::computed(kernel, operands, (outputs, true)) {
        Some(made) => made,
        None => {
            let shape = task::common_shape(op, &reads, None).here()?;
            let targets = (0..outputs).map(|_| Target::of(&shape)).collect();
            fold_jointly(op, kernel, operands, targets)?
        }
    };
    let meant = Meant::all_of(&reads);
    made.iter_mut().for_each(|value| value.set_meant(meant));
    Ok(made)
}

/// Single-output kernels run as one: for each output, a kernel and which of the joint operands it reads.
#[derive(Clone, Copy)]
pub struct JointKernel<'a>(pub &'a [(&'a dyn BlockKernel, &'a [usize])]);

impl std::fmt::Debug for JointKernel<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(_, reads)| reads)).finish()
    }
}

impl BlockKernel for JointKernel<'_> {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        for ((kernel, reads), output) in self.0.iter().zip(outputs) {
            let mut blocks = Blocks::new();
            reads.iter().for_each(|&k| blocks.push(inputs[k]));
            kernel.run(&blocks, std::slice::from_mut(output));
        }
    }

    fn arity(&self) -> Option<(usize, usize)> {
        let read = self.0.iter().flat_map(|(_, reads)| reads.iter()).max();
        Some((read.map_or(0, |&k| k + 1), self.0.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::kernel::fold_to;
    use super::*;
    use crate::kernels::{FloatKernel, FloatOps, Formula, Real};
    use crate::{TensorFacts, ThreadPool, refused, tensor};

    #[derive(Clone, Copy)]
    struct Product;
    impl Formula<2> for Product {
        #[inline(always)]
        fn eval<R: Real>(&self, [a, b]: [R; 2]) -> R
        where
            f64: FloatOps<R>,
        {
            a * b
        }
    }
    #[derive(Clone, Copy)]
    struct Same;
    impl Formula<1> for Same {
        #[inline(always)]
        fn eval<R: Real>(&self, [a]: [R; 1]) -> R
        where
            f64: FloatOps<R>,
        {
            a
        }
    }

    /// What `(x * w) + b` needs: g w, g x, g of the operands g, x, w.
    const PARTS: [(&dyn BlockKernel, &[usize]); 3] =
        [(&FloatKernel(Product), &[0, 2]), (&FloatKernel(Product), &[0, 1]), (&FloatKernel(Same), &[0])];

    /// Small whole numbers: every sum of their products here is exact in `f32`.
    fn whole(shape: &[usize], dtype: DType, seed: usize) -> Tensor {
        let n: usize = shape.iter().product();
        let values = (0..n).map(|i| ((i * 7 + i / 11 + seed) % 9) as f64 - 4.0).collect::<Vec<_>>();
        Tensor::from_vec(values, shape).unwrap().to(dtype)
    }

    /// The same numbers lying in another way: as they are, transposed, with gaps, backwards, one type narrower.
    fn laid_out(t: Tensor, way: usize) -> Tensor {
        let n = t.rank() as isize;
        match way {
            1 if n > 1 => t.transpose(0, -1).unwrap().contiguous().transpose(0, -1).unwrap(),
            2 if n > 0 => Tensor::stack(&[&t, &t.mul(100.0).unwrap()], -1).unwrap().select(-1, 0).unwrap(),
            3 if n > 0 => t.flip(-1).unwrap().contiguous().flip(-1).unwrap(),
            4 if t.dtype() == DType::F64 => t.to(DType::F32),
            _ => t,
        }
    }

    fn jointly(operands: &[&Tensor], targets: &[Shape], priors: &[Option<Tensor>]) -> Vec<Tensor> {
        let targets = targets
            .iter()
            .zip(priors)
            .map(|(shape, prior)| Target { prior: prior.clone(), ..Target::of(shape) });
        let parts = &PARTS[..priors.len()];
        let results = fold_jointly("test", &JointKernel(parts), operands, targets.collect());
        results.unwrap().into_vec()
    }

    fn one_by_one(operands: &[&Tensor], targets: &[Shape], priors: &[Option<Tensor>]) -> Vec<Tensor> {
        let one = |((kernel, reads), (shape, prior)): (&(&dyn BlockKernel, &[usize]), _)| {
            // The operands that this output does not read take part in the common shape.
            let mut all = vec![operands[0], operands[1], operands[2]];
            all.sort_by_key(|t| reads.iter().position(|&k| std::ptr::eq(operands[k], *t)).unwrap_or(9));
            struct First<'a>(&'a dyn BlockKernel, usize);
            impl BlockKernel for First<'_> {
                fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
                    self.0.run(&inputs[..self.1], outputs);
                }
            }
            let prior: &Option<Tensor> = prior;
            fold_to(
                "test",
                &First(*kernel, reads.len()),
                &all,
                Target { prior: prior.clone(), ..Target::of(shape) },
            )
            .unwrap()
        };
        PARTS.iter().zip(targets.iter().zip(priors)).map(one).collect()
    }

    /// Shapes of the operands g, x, w, and of the targets.
    type Case = ([&'static [usize]; 3], [&'static [usize]; 3]);

    const CASES: [Case; 13] = [
        ([&[], &[], &[]], [&[], &[], &[]]),
        ([&[5], &[5], &[1]], [&[5], &[1], &[]]),
        ([&[3, 0], &[3, 0], &[3, 1]], [&[3, 0], &[3, 1], &[]]),
        ([&[7, 9], &[7, 9], &[9]], [&[7, 9], &[9], &[7, 1]]),
        ([&[1, 30], &[40, 1], &[30]], [&[40, 1], &[30], &[]]),
        ([&[4, 3, 5], &[3, 1], &[4, 1, 1]], [&[3, 1], &[4, 1, 1], &[1, 3, 5]]),
        ([&[6, 7], &[], &[]], [&[], &[6, 7], &[1, 7]]),
        ([&[300, 257], &[300, 257], &[257]], [&[300, 257], &[257], &[300, 1]]),
        ([&[300, 257], &[300, 257], &[]], [&[300, 257], &[300, 257], &[300, 257]]),
        ([&[31, 40, 65], &[31, 40, 65], &[40, 1]], [&[31, 40, 65], &[40, 1], &[]]),
        ([&[2, 41_000], &[2, 1], &[41_000]], [&[2, 1], &[41_000], &[2, 41_000]]),
        ([&[41_000, 3], &[41_000, 1], &[3]], [&[41_000, 1], &[3], &[]]),
        ([&[3, 5, 7, 11, 90], &[5, 1, 11, 1], &[7, 1, 90]], [&[7, 11, 1], &[5, 1, 1, 90], &[90]]),
    ];

    #[test]
    fn every_output_is_what_it_is_alone() {
        for (case, (operands, targets)) in CASES.iter().enumerate() {
            for (dtype, way) in [DType::F32, DType::F64].into_iter().flat_map(|d| (0..5).map(move |w| (d, w)))
            {
                let make = |k: usize| laid_out(whole(operands[k], dtype, k + case), (way + k) % 5);
                let (g, x, w) = (make(0), make(1), make(2));
                let all = [&g, &x, &w];
                let targets = targets.map(Shape::from);
                let prior = |k: usize| Some(laid_out(whole(&targets[k], dtype, 3 * k), way));
                for priors in [[None, None, None], [prior(0), prior(1), prior(2)], [None, prior(1), None]] {
                    let found = jointly(&all, &targets, &priors);
                    let want = one_by_one(&all, &targets, &priors);
                    for (k, (found, want)) in found.iter().zip(&want).enumerate() {
                        assert_eq!(found.dtype(), want.dtype());
                        assert_eq!(found, want, "output {k} of {operands:?} to {targets:?}, {dtype}, {way}");
                        let repeats = !found.is_contiguous() && found.strides().contains(&0);
                        assert!(!repeats, "every element has a place of its own");
                    }
                }
                let first = jointly(&all, &targets[..1], &[None]);
                assert_eq!(first, one_by_one(&all, &targets[..1], &[None]));
            }
        }
    }

    #[test]
    fn bits_do_not_depend_on_threads_and_errors_keep_their_bound() {
        for (operands, targets) in &CASES[7..] {
            let [g, x, w] = operands.map(|shape| Tensor::rand(shape).sub(0.25).unwrap());
            let targets = targets.map(Shape::from);
            let run = || jointly(&[&g, &x, &w], &targets, &[None, None, None]);
            let serial = ThreadPool::new(1).install(run);
            for threads in [2, 3, 8] {
                assert!(ThreadPool::new(threads).install(run) == serial, "{threads} threads, {operands:?}");
            }
            let wide = [&g, &x, &w].map(|t| t.to(DType::F64));
            let exact = one_by_one(&wide.each_ref()[..], &targets, &[None, None, None]);
            let sizes = wide.each_ref().map(|t| t.abs());
            let sizes = one_by_one(&sizes.each_ref()[..], &targets, &[None, None, None]);
            for (found, (exact, size)) in serial.iter().zip(exact.iter().zip(&sizes)) {
                let error = found.to(DType::F64).sub(exact).unwrap().abs();
                let bound = size.mul(67.0 * f32::EPSILON as f64 / 2.0).unwrap();
                assert!(error.le(&bound).unwrap().to_vec::<bool>().unwrap().iter().all(|&b| b));
            }
        }
    }

    /// Whether they are computed at once or walked, whatever repeats: the sums have the bits of those of the products themselves.
    #[test]
    fn sums_have_the_bits_of_what_is_computed_whole() {
        let cases: [[&[usize]; 3]; 11] = [
            [&[8, 100], &[8, 100], &[100]],
            [&[64, 10], &[64, 10], &[64, 1]],
            [&[], &[4, 5, 6], &[5, 1]],
            [&[3, 700], &[3, 700], &[700]],
            [&[700, 9], &[], &[700, 9]],
            [&[20, 300], &[20, 300], &[300]],
            [&[5, 2, 41, 40], &[5, 2, 41, 40], &[2, 1, 40]],
            // Small planes, of few elements and of some that are stored only where a walk has them.
            [&[433, 7, 33], &[433, 7, 33], &[7, 1]],
            [&[2903, 10, 10], &[2903, 10, 10], &[2903, 1, 10]],
            [&[1100, 4, 5, 5], &[4, 1, 1], &[5, 5]],
            [&[701, 5, 6, 13], &[701, 5, 6, 13], &[5, 1, 13]],
        ];
        let pools = [1, 3].map(ThreadPool::new);
        for (operands, dtype) in cases.iter().flat_map(|c| [(c, DType::F32), (c, DType::F64)]) {
            let [g, x, w] = operands.map(|shape| Tensor::randn_with(shape, dtype));
            let full = crate::broadcast_shapes(operands).unwrap();
            let rank = full.rank();
            let sizes = |kept: &dyn Fn(usize) -> bool| -> Shape {
                (0..rank).map(|i| if kept(i) { full[i] } else { 1 }).collect::<Vec<_>>().into()
            };
            let targets = [
                sizes(&|_| true),
                sizes(&|i| i + 1 == rank),
                sizes(&|i| i == 0),
                sizes(&|i| i % 2 == 1),
                sizes(&|_| false),
            ];
            let products = [g.mul(&w).unwrap(), g.mul(&x).unwrap(), g.clone()]
                .map(|t| t.broadcast_to(&full).unwrap().contiguous());
            for first in &targets {
                for second in &targets {
                    for priors in [[None, None, None], [None, Some(Tensor::ones_with(second, dtype)), None]] {
                        let shapes = [first.clone(), second.clone(), full.clone()];
                        let pool = &pools[usize::from(priors[1].is_some())];
                        let found = pool.install(|| jointly(&[&g, &x, &w], &shapes, &priors));
                        for ((found, product), (shape, prior)) in
                            found.iter().zip(&products).zip(shapes.iter().zip(&priors))
                        {
                            let sum = product.sum_to_size(shape).unwrap();
                            let sum = prior.as_ref().map_or(sum.clone(), |p| p.add(&sum).unwrap());
                            assert!(*found == sum, "{operands:?} to {shape}, {dtype}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_zero_that_is_written_whole_keeps_its_sign() {
        let (g, x) = (tensor![[0.0], [1.0]], tensor![-0.0, 2.0]);
        let targets = [Shape::from([2, 2]), Shape::from([2])];
        let negative = |t: &Tensor| -> Vec<bool> {
            t.to_vec::<f32>().unwrap().iter().map(|v| v.is_sign_negative()).collect()
        };
        let found = jointly(&[&g, &g, &x], &targets, &[None, None]);
        assert_eq!(negative(&found[0]), [true, false, true, false]);
        // Onto another one, too, alone and beside others, by operands that broadcast or do not.
        let prior = || Some(Tensor::full([2, 2], -0.0).to(DType::F32));
        let found = jointly(&[&g, &g, &x], &targets, &[prior(), None]);
        assert_eq!(negative(&found[0]), [true, false, true, false]);
        for g in [g.clone(), g.broadcast_to([2, 2]).unwrap().contiguous()] {
            let target = Target { prior: prior(), ..Target::of(&targets[0]) };
            let alone = fold_to("test", &FloatKernel(Product), &[&g, &x], target).unwrap();
            assert_eq!(negative(&alone), [true, false, true, false]);
        }
    }

    /// One output is folded by segments along an axis that the other one folds in one piece.
    #[test]
    fn segments_of_one_output_where_another_has_none() {
        for sizes in [[3, 5000, 16], [7, 3000, 8], [2, 20_000, 16]] {
            let x = whole(&sizes, DType::F32, 1);
            let (a, b) = (whole(&[sizes[2]], DType::F32, 2), whole(&[sizes[1], 1], DType::F32, 3));
            let targets = [Shape::from([1, sizes[2]]), Shape::from([sizes[1], 1])];
            for threads in [1, 2, 3, 8] {
                let run = || jointly(&[&x, &a, &b], &targets, &[None, None]);
                let found = ThreadPool::new(threads).install(run);
                let expected = one_by_one(&[&x, &a, &b], &targets, &[None, None]);
                assert_eq!(found, expected, "{sizes:?}, {threads} threads");
            }
        }
    }

    #[test]
    fn a_result_that_is_streamed() {
        crate::kernels::pretend_cache(32 << 20);
        let (g, x) = (whole(&[1025, 2049], DType::F64, 1), whole(&[1025, 2049], DType::F64, 2));
        let w = whole(&[2049], DType::F64, 3);
        let targets = [Shape::from([1025, 2049]), Shape::from([2049]), Shape::from([1025, 1])];
        let found = jointly(&[&g, &x, &w], &targets, &[None, None, None]);
        assert_eq!(found, one_by_one(&[&g, &x, &w], &targets, &[None, None, None]));
    }

    #[test]
    fn refuses_before_anything_is_written() {
        let (g, x) = (Tensor::ones([2, 3]), Tensor::ones([4]));
        let run = |operands: [&Tensor; 3], shape: &Shape, prior: Option<Tensor>| {
            let full: Shape = [2, 3].into();
            let targets = [Target::of(&full), Target { prior, ..Target::of(shape) }];
            fold_jointly("test", &JointKernel(&PARTS[..2]), &operands, targets.into_iter().collect())
        };
        assert!(refused!(run([&g, &g, &x], &[3].into(), None), TensorFacts::Broadcast { .. }));
        assert!(refused!(run([&g, &g, &g], &[2].into(), None), TensorFacts::Expand { .. }));
        let prior = Tensor::ones([1, 3]);
        let refused = run([&g, &g, &g], &[3].into(), Some(prior.clone()));
        assert!(refused!(refused, TensorFacts::ShapeMismatch { .. }));
        assert_eq!(prior, tensor![[1.0, 1.0, 1.0]]);
    }

    #[test]
    fn a_prior_that_somebody_holds_stays_as_it_is() {
        let (g, prior) = (Tensor::ones([2, 3]), Tensor::ones([3]));
        let targets = [Shape::from([2, 3]), Shape::from([3])];
        let found = jointly(&[&g, &g, &g], &targets, &[None, Some(prior.clone())]);
        assert_eq!(found[1], tensor![3.0, 3.0, 3.0]);
        assert_eq!(prior, tensor![1.0, 1.0, 1.0]);
    }
}
