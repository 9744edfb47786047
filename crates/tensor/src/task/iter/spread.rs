//! Operands that repeat: one that is the same for all positions of the outer axes, and has to be laid out along the inner ones, is laid
//! out there once and not block by block. What is left for the walk has fewer axes. A bias of channels, added to pictures of 7 by 7,
//! takes 0.5 of the time; with `fuse!`, the sum of a function of both 0.1.
//!
//! So are the elements of one that repeats along any axis and whose own axes are turned: beside [30, 700, 300] that is turned around [30, 1, 300], which is not,
//! takes a tenth of the time; [77, 6, 256] beside [256, 6], transposed, and a row takes a quarter. And those of one that is turned and whole, and lies in order along an axis that is not
//! the one before the innermost: products with [50, 40, 300] that is turned around take a fifth of the time; and one of two that are turned in two ways, of any size.

use smallvec::SmallVec;

use super::block::BLOCK;
use super::order::is_in_order;
use super::plan::{Plan, PlanAxis, Steps};
use super::walk::lay_out_all;
use super::{Operand, squares};
use crate::buffer::{Handle, Storage};

/// Elements that are laid out at most: they stay in the second-level cache, and partly in the first.
const MOST: usize = 4096;

/// How often they repeat at least; fewer repeats are not worth another walk.
const REPEATS: usize = 4;

/// Elements of a walk from which on what is turned is laid out.
const LEAST: usize = 4096;

/// What is walked instead.
pub(super) struct Spread {
    /// the same axes, with the steps of what is laid out
    pub(super) axes: SmallVec<[PlanAxis; 4]>,
    /// what is laid out of each operand, if it is
    laid_out: SmallVec<[Option<Handle>; 4]>,
}

impl Spread {
    /// A walk of axes of which fewer are left when they are merged, if there is one. They may be gone through in another order.
    pub(super) fn of(axes: &[PlanAxis], operands: &[Operand<'_>]) -> Option<Spread> {
        Spread::with(axes, operands, false)
    }

    /// The same, or one along which nothing is turned that repeats, or that squares would hand out row by row.
    pub(super) fn in_order(axes: &[PlanAxis], operands: &[Operand<'_>]) -> Option<Spread> {
        Spread::with(axes, operands, true)
    }

    fn with(axes: &[PlanAxis], operands: &[Operand<'_>], straightens: bool) -> Option<Spread> {
        if axes.len() < 3 {
            return None;
        }
        let size = |axes: &[PlanAxis]| axes.iter().map(|a| a.size).product::<usize>();
        let n = size(axes);
        // Of long rows a block holds one, which is kept.
        let has_short_rows = axes[axes.len() - 1].size * 2 <= BLOCK;
        let spread_from = |k: usize| {
            let first = axes.iter().position(|a| a.steps[k] != 0)?;
            let in_order = |i: usize| axes[i].steps[k] == size(&axes[i + 1..]) as isize;
            let fits = |&first: &usize| {
                let own = size(&axes[first..]);
                own <= MOST && own.saturating_mul(REPEATS) <= n
            };
            // Along as many axes as may be: the more of them are one.
            let repeats = has_short_rows && first > 0 && !(first..axes.len()).all(in_order);
            (1..=first).find(|first| repeats && fits(first))
        };
        let inner: SmallVec<[Option<usize>; 4]> = (0..operands.len()).map(spread_from).collect();
        let across = if straightens { squares::across(axes, operands) } else { None };
        let is_turned = |k: usize| {
            let own = || axes.iter().map(|a| (a.size, a.steps[k])).filter(|a| a.1 != 0);
            let len = own().map(|a| a.0).product::<usize>();
            is_in_order(own()) == Some(false)
                && (len.saturating_mul(REPEATS) <= n || squares::are_awkward(axes, k, across, has_short_rows))
        };
        let turned: SmallVec<[bool; 4]> =
            (0..operands.len()).map(|k| straightens && n >= LEAST && is_turned(k)).collect();
        let is_straightened = turned.contains(&true);
        if !is_straightened && inner.iter().all(Option::is_none) {
            return None;
        }
        let has = |k: usize, i: usize| match inner[k] {
            Some(first) => i >= first,
            None => turned[k] && axes[i].steps[k] != 0,
        };
        let mut spread: SmallVec<[PlanAxis; 4]> = axes.into();
        for k in 0..operands.len() {
            (0..axes.len()).rev().filter(|&i| has(k, i)).fold(1, |len, i| {
                spread[i].steps[k] = len as isize;
                len * axes[i].size
            });
        }
        if !is_straightened && Plan::merged(&spread).len() >= Plan::merged(axes).len() {
            return None;
        }
        let lay_out = |k: usize| {
            let only =
                |i: usize| PlanAxis { size: axes[i].size, steps: Steps::from_elem(axes[i].steps[k], 1) };
            let own: SmallVec<[PlanAxis; 4]> = (0..axes.len()).filter(|&i| has(k, i)).map(only).collect();
            if own.is_empty() {
                return Some(None);
            }
            let mut storage = Storage::stale(operands[k].want, size(&own))?;
            lay_out_all(&Plan::merged(&own), &operands[k..=k], storage.block_mut());
            Some(Some(storage))
        };
        let laid_out = (0..operands.len()).map(lay_out).collect::<Option<_>>()?;
        Some(Spread { axes: spread, laid_out })
    }

    /// The operands as they lie now.
    pub(super) fn operands<'a>(&'a self, operands: &[Operand<'a>]) -> SmallVec<[Operand<'a>; 4]> {
        let as_it_lies = |(op, laid_out): (&Operand<'a>, &'a Option<Handle>)| match laid_out {
            Some(handle) => Operand { data: handle.block(), offset: 0, ..*op },
            None => *op,
        };
        operands.iter().zip(&self.laid_out).map(as_it_lies).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::kernel::{FloatKernel, FloatOps, Formula, JointKernel, Real, Target, fold_jointly, fold_to};
    use crate::{DType, Tensor, ThreadPool};

    fn numbers(shape: &[usize], dtype: DType) -> Tensor {
        let n = shape.iter().product::<usize>() as i64;
        Tensor::arange(0..n).mul(37).unwrap().remainder(101).unwrap().to(dtype).reshape(shape).unwrap()
    }

    #[test]
    fn what_repeats_gives_the_bits_of_what_is_laid_out() {
        let cases: [(&[usize], &[usize]); 7] = [
            (&[40, 32, 7, 7], &[32, 1, 1]),
            (&[4, 3, 5], &[3, 1]),
            (&[9, 2, 3, 4], &[2, 1, 4]),
            (&[3, 5, 2, 3, 4], &[5, 1, 3, 1]),
            (&[1000, 4, 6], &[4, 1]),
            (&[50, 20, 30, 10], &[20, 1, 10]),
            (&[6, 5, 4, 3], &[6, 1, 4, 1]),
        ];
        for (shape, own) in cases {
            for (dtype, with) in
                [(DType::F32, DType::F32), (DType::F64, DType::I64), (DType::I64, DType::I64)]
            {
                let (x, b) = (numbers(shape, dtype), numbers(own, with));
                let last = own.len() as i32 - 1;
                let views = [b.clone(), b.flip(last).unwrap(), b.flip(0).unwrap()];
                for b in &views {
                    let laid = b.expand(shape).unwrap().contiguous();
                    for threads in [1, 3] {
                        let found = ThreadPool::new(threads).install(|| {
                            let mut own = x.clone();
                            own.sub_(b).unwrap();
                            [x.add(b), b.sub(&x), x.lt(b), x.addcmul(b, b), Ok(own)].map(Result::unwrap)
                        });
                        let want =
                            [x.add(&laid), laid.sub(&x), x.lt(&laid), x.addcmul(&laid, &laid), x.sub(&laid)];
                        assert!(found == want.map(Result::unwrap), "{shape:?} {own:?} {dtype} {with}");
                    }
                    // Of what does not lie in order, nothing is merged.
                    let turned = x.transpose(0, 1).unwrap();
                    if let Ok(found) = turned.add(b) {
                        let laid = b.expand(found.shape()).unwrap().contiguous();
                        assert_eq!(found, turned.contiguous().add(&laid).unwrap());
                    }
                }
            }
        }
    }

    /// Two operands, each in every order of its axes, of short rows and of long ones.
    #[test]
    fn what_is_turned_in_two_ways_gives_what_lies_in_order_gives() {
        let orders: [[isize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        for shape in [[10, 12, 600], [9, 70, 80], [16, 9, 3]] {
            let x = numbers(&shape, DType::F32);
            let y = x.mul(3).unwrap();
            // The same elements, as they lie in another order of axes.
            let lain = |t: &Tensor, order: [isize; 3]| {
                let back = [0, 1, 2].map(|axis| order.iter().position(|&a| a == axis).unwrap() as isize);
                t.permute(order).unwrap().contiguous().permute(back).unwrap()
            };
            let want = [x.sub(&y), y.addcmul(&x, &y)].map(Result::unwrap);
            for (a, b) in orders.iter().flat_map(|&a| orders.map(|b| (a, b))) {
                let (x, y) = (lain(&x, a), lain(&y, b));
                for threads in [1, 3] {
                    let run = || [x.sub(&y), y.addcmul(&x, &y)].map(Result::unwrap);
                    assert!(ThreadPool::new(threads).install(run) == want, "{shape:?} {a:?} {b:?}");
                }
            }
        }
    }

    /// Of enough elements and of few, along inner, middle and outer axes, of any type, and in a walk of turned axes.
    #[test]
    fn what_is_turned_gives_what_lies_in_order_gives() {
        let cases: [([usize; 3], [usize; 3]); 8] = [
            ([30, 40, 50], [30, 40, 50]),
            ([600, 4, 10], [600, 4, 10]),
            ([30, 40, 50], [30, 1, 50]),
            ([30, 40, 50], [1, 40, 50]),
            ([9, 90, 11], [9, 90, 1]),
            ([7, 600, 2], [7, 1, 2]),
            ([3, 4, 2000], [3, 1, 2000]),
            ([3, 4, 5], [3, 1, 5]),
        ];
        for (shape, own) in cases {
            for (dtype, with) in [(DType::F32, DType::F32), (DType::F64, DType::I64)] {
                let (x, b) = (numbers(&shape, dtype), numbers(&own, with));
                // Beside it no axes merge.
                let row = numbers(&shape[2..], dtype);
                let turned =
                    |t: &Tensor| t.permute([2, 1, 0]).unwrap().contiguous().permute([2, 1, 0]).unwrap();
                for threads in [1, 3] {
                    let results = |x: &Tensor, b: &Tensor| {
                        let changed = || x.clone().sub_(b).cloned();
                        let run =
                            || [x.add(b), b.sub(x), x.lt(b), x.addcmul(b, b), x.addcmul(b, &row), changed()];
                        ThreadPool::new(threads).install(run).map(Result::unwrap)
                    };
                    let want = results(&x, &b);
                    for (x, b) in [(&x, &turned(&b)), (&turned(&x), &b), (&turned(&x), &turned(&b))] {
                        assert!(results(x, b) == want, "{shape:?} {own:?} {dtype} {with}");
                    }
                }
            }
        }
    }

    #[derive(Clone, Copy)]
    struct Squared;
    impl Formula<2> for Squared {
        #[inline(always)]
        fn eval<R: Real>(&self, [x, b]: [R; 2]) -> R
        where
            f64: FloatOps<R>,
        {
            (x * b + b) * (x - b)
        }
    }

    /// Sums of a function of what repeats have the bits that they have if it is laid out, also beside other results.
    #[test]
    fn sums_of_what_repeats_have_their_bits() {
        let random = |shape: &[usize], seed: f64| {
            let n = shape.iter().product::<usize>() as i64;
            Tensor::arange(0..n)
                .float()
                .add(seed)
                .unwrap()
                .mul(12.9898)
                .unwrap()
                .sin()
                .reshape(shape)
                .unwrap()
        };
        let cases: [(&[usize], &[usize]); 8] = [
            (&[40, 32, 7, 7], &[32, 1, 1]),
            (&[40, 32, 7, 7], &[7, 1]),
            (&[40, 32, 7, 7], &[32, 7, 1]),
            (&[40, 32, 7, 7], &[40, 1, 1, 1]),
            (&[12, 8, 28, 28], &[8, 1, 1]),
            (&[9, 2, 3, 4], &[2, 1, 4]),
            (&[6, 7, 8, 9, 10], &[7, 1, 9, 1]),
            (&[1000, 4, 6], &[4, 1]),
        ];
        for (shape, own) in cases {
            let (x, b) = (random(shape, 0.5), random(own, 0.25));
            let laid = b.expand(shape).unwrap().contiguous();
            let rows = [&shape[..shape.len() - 1], &[1]].concat();
            let (all, kept, rows, full) = ([].into(), own.into(), rows.into(), shape.into());
            let kernel = FloatKernel(Squared);
            let both = JointKernel(&[(&kernel, &[0, 1]), (&kernel, &[0, 1])]);
            for threads in [1, 3] {
                let found = |b: &Tensor| {
                    let mut sums: Vec<Tensor> = [&all, &kept, &rows]
                        .map(|to| fold_to("sum", &kernel, &[&x, b], Target::of(to)).unwrap())
                        .to_vec();
                    let targets = [&full, &kept].map(Target::of).into_iter().collect();
                    sums.extend(fold_jointly("sum", &both, &[&x, b], targets).unwrap());
                    sums
                };
                let (found, want) = ThreadPool::new(threads).install(|| (found(&b), found(&laid)));
                assert!(found == want, "{shape:?} {own:?}");
            }
        }
    }
}
