//! A fold has the same bits whoever walks it: alone, in company, by a kernel, in blocks of any size, on any threads.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use smallvec::SmallVec;

use super::bands::{Bands, pretend_band};
use super::folding::folding;
use super::order::{FirstSums, FoldOrder};
use super::sink::Walk;
use super::stretch::pretend_block;
use super::{Fold, Goal, Operand, Reduce, fold, fold_each};
use crate::dtype::{Block, BlockMut};
use crate::kernel::lies_in_order;
use crate::kernels::folds::Table;
use crate::kernels::{BlockKernel, FloatKernel, FloatOps, Formula, Real};
use crate::shape::Dims;
use crate::{DType, Tensor, ThreadPool};

/// Copies its first operand to every output.
struct Same;
impl BlockKernel for Same {
    fn run(&self, inputs: &[Block<'_>], outputs: &mut [BlockMut<'_>]) {
        for out in outputs {
            let n = out.len();
            inputs[0].copy_to(out.range(0, n));
        }
    }
}

/// A formula whose results are added as they are computed.
#[derive(Clone, Copy)]
struct TimesOne;
impl Formula<2> for TimesOne {
    const SUMS: bool = true;
    #[inline(always)]
    fn eval<R: Real>(&self, [x, one]: [R; 2]) -> R
    where
        f64: FloatOps<R>,
    {
        x * one
    }
}

/// A source of choices that is the same every time.
struct Dice(u64);
impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

/// Numbers of many sizes, so that hardly any two orders give the same sum.
fn numbers(shape: &[usize], dtype: DType, dice: &mut Dice) -> Tensor {
    let n: usize = shape.iter().product();
    let one =
        |_| (dice.below(1 << 30) as f64 / (1 << 30) as f64 - 0.4) * [1.0, 16.0, 0.01, 300.0][dice.below(4)];
    Tensor::from_vec((0..n).map(one).collect::<Vec<f64>>(), shape).unwrap().to(dtype)
}

/// The same numbers lying in another way: as they are, transposed, with gaps, backwards, as a band of columns, with all axes turned around or
/// moved by one.
fn laid_out(t: Tensor, way: usize) -> Tensor {
    match way {
        1 if t.rank() > 1 => t.transpose(0, -1).unwrap().contiguous().transpose(0, -1).unwrap(),
        2 => Tensor::stack(&[&t, &t], -1).unwrap().select(-1, 0).unwrap(),
        4 => {
            let n = t.dims()[t.rank() - 1];
            t.pad([2, 5]).unwrap().narrow(-1, 2, n).unwrap()
        }
        3 => t.flip(-1).unwrap().contiguous().flip(-1).unwrap(),
        5 => {
            let order: Vec<isize> = (0..t.rank() as isize).rev().collect();
            t.permute(&order[..]).unwrap().contiguous().permute(&order[..]).unwrap()
        }
        6 if t.rank() > 1 => t.movedim(0, -1).unwrap().contiguous().movedim(-1, 0).unwrap(),
        _ => t,
    }
}

/// Shapes that are odd, thin, few columns wide, with rows longer and shorter than a run, and large enough for segments.
const SHAPES: [&[usize]; 39] = [
    &[5],
    &[512],
    &[513],
    &[1300],
    &[70_001],
    &[7, 9],
    &[40, 3],
    &[5001, 3],
    &[4100, 7],
    &[3, 4100],
    &[300, 257],
    &[130, 600],
    &[33, 1100],
    &[9, 5000],
    &[12, 9000],
    &[300, 512],
    &[70_001, 2],
    &[2, 41_000],
    &[3, 41_001],
    &[2, 90, 500],
    &[66_000, 4],
    &[5, 6, 7],
    &[100, 2, 3],
    &[31, 40, 65],
    &[2, 300, 200],
    &[400, 3, 100],
    &[1000, 4, 33],
    &[6, 5, 2100],
    &[64, 9, 300],
    &[1, 300, 1, 257],
    &[4, 5, 6, 7],
    &[20, 3, 30, 50],
    &[3, 70, 2, 200],
    &[40, 2, 2, 3],
    &[3, 5, 7, 11, 90],
    &[2, 2, 40, 2, 300],
    // Small pictures, which leaves reach across.
    &[60, 8, 5, 5],
    &[700, 3, 4, 5],
    &[40, 2, 3, 5, 7],
];

/// A sum of elements of a type.
fn sum(dtype: DType) -> Fold {
    Fold { op: "sum", reduce: Reduce::Sum, dtype }
}

fn goal(kept: &[bool], output: usize) -> Goal {
    Goal { output, kept: Dims::from_slice(kept), prior: None }
}

fn some_axes(rank: usize, dice: &mut Dice) -> Vec<bool> {
    (0..rank).map(|_| dice.below(2) == 0).collect()
}

/// What the first goal comes to with these operands, in company of the other goals.
fn walked(operands: &[Operand<'_>], shape: &[usize], dtype: DType, goals: &[&[bool]]) -> Tensor {
    let wanted: SmallVec<[Goal; 2]> = goals.iter().enumerate().map(|(i, kept)| goal(kept, i)).collect();
    fold_each(sum(dtype), Some((&Same, goals.len())), operands, shape, wanted).unwrap().swap_remove(0)
}

/// The same band by band, if it can be; of what lies in memory where there is no kernel. Onto a prior, if there is one.
fn banded(
    kernel: Option<&dyn BlockKernel>,
    operands: &[Operand<'_>],
    (shape, dtype): (&[usize], DType),
    goals: &[&[bool]],
    prior: Option<Tensor>,
) -> Option<Tensor> {
    let mut wanted: SmallVec<[Goal; 2]> = goals.iter().enumerate().map(|(i, kept)| goal(kept, i)).collect();
    wanted[0].prior = prior;
    let bands = Bands::new(sum(dtype), kernel.map(|k| (k, goals.len())), operands, shape, &wanted)?;
    Some(bands.fold(wanted).unwrap().swap_remove(0))
}

fn expect_same(found: &Tensor, want: &Tensor, about: &str) {
    assert_eq!(found.shape(), want.shape(), "{about}");
    expect_bits(found, &numbers_of(want), about);
}

fn expect_bits(found: &Tensor, want: &[f64], about: &str) {
    let found = numbers_of(found);
    assert_eq!(found.len(), want.len(), "{about}");
    let wrong = found.iter().zip(want).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
    assert_eq!(wrong, 0, "of {} sums: {about}", want.len());
}

fn numbers_of(t: &Tensor) -> Vec<f64> {
    t.to(DType::F64).to_vec().unwrap()
}

/// What a leaf is told apart by, and its elements.
type Elements = (Vec<usize>, Vec<f64>);

/// The sums of a tensor by the letter of the Note: each result's elements one by one, leaf by leaf.
fn by_the_letter(x: &Tensor, kept: &[bool]) -> Vec<f64> {
    let moved: Vec<usize> = (0..x.rank()).filter(|&a| x.dims()[a] != 1).collect();
    let sizes: Vec<usize> = moved.iter().map(|&a| x.dims()[a]).collect();
    let strides: Vec<isize> = moved.iter().map(|&a| x.strides()[a]).collect();
    let kept: Vec<bool> = moved.iter().map(|&a| kept[a]).collect();
    let order = FoldOrder::new(&sizes, &strides, &|a| kept[a]);
    let values = numbers_of(x);
    let n = sizes.len();
    let places = |of: bool| (0..n).filter(|&p| kept[order.axes[p]] == of).collect::<Vec<_>>();
    let (own, reduced) = (places(true), places(false));
    // For each result.
    let mut leaves: BTreeMap<Vec<usize>, Vec<Elements>> = BTreeMap::new();
    for number in 0..values.len() {
        let (mut index, mut rest) = (vec![0; n], number);
        for (place, &axis) in order.axes.iter().enumerate().rev() {
            index[place] = rest % sizes[axis];
            rest /= sizes[axis];
        }
        let segment = |p: usize| index[p] / order.chunks[p];
        let mut leaf: Vec<usize> = reduced.iter().map(|&p| segment(p)).collect();
        // The position among the rows and columns that leaves reach across, from the segment's start on.
        let (length, within): (usize, Vec<usize>) = match order.leaf {
            FirstSums::Run(length) if length > sizes[order.axes[n - 1]] => {
                (length, (order.rows.start..n).collect())
            }
            FirstSums::Run(length) => (length, vec![n - 1]),
            FirstSums::Rows { rows, .. } => (rows, order.rows.clone().collect()),
        };
        leaf.extend(reduced.iter().filter(|p| !within.contains(p)).map(|&p| index[p]));
        let mut position = 0;
        for p in within {
            let len = order.chunks[p].min(sizes[order.axes[p]] - segment(p) * order.chunks[p]);
            position = position * len + index[p] % order.chunks[p];
        }
        leaf.push(position / length);
        let at: usize = (0..n).fold(0, |at, a| {
            at * sizes[a] + index[order.axes.iter().position(|&o| o == a).expect("every axis")]
        });
        let all = leaves.entry(own.iter().map(|&p| index[p]).collect()).or_default();
        match all.last_mut() {
            Some((key, elements)) if *key == leaf => elements.push(values[at]),
            _ => all.push((leaf, vec![values[at]])),
        }
    }
    leaves.values().map(|all| sum_of_leaves(all, reduced.len(), order.leaf, x.dtype())).collect()
}

fn sum_of_leaves(leaves: &[Elements], divided: usize, leaf: FirstSums, dtype: DType) -> f64 {
    let folding = folding(Reduce::Sum, dtype);
    let mut total = folding.start(1);
    for segment in leaves.chunk_by(|a, b| a.0[..divided] == b.0[..divided]) {
        let mut wide = folding.start(1);
        for (_, elements) in segment {
            let elements = Tensor::from_vec(elements.clone(), [elements.len()]).unwrap().to(dtype);
            let (data, len) = (elements.as_block().unwrap(), elements.numel());
            match leaf {
                FirstSums::Run(_) => {
                    let table = Table { data, start: 0, rows: 1, step: 0, cols: len };
                    folding.lines(wide.all(), 0, table, len);
                }
                FirstSums::Rows { rows, abreast } => {
                    let table = Table { data, start: 0, rows: len, step: 1, cols: 1 };
                    folding.columns(wide.all(), table, table.rows, [rows, abreast]);
                }
            }
        }
        folding.merge(total.all(), &wide, 0, 1);
    }
    let mut sum = Tensor::zeros_with((), dtype);
    folding.finish(&total, 1, sum.block_mut(), false);
    numbers_of(&sum)[0]
}

/// Threads are made once: there are many cases.
fn pools() -> &'static [ThreadPool; 4] {
    static POOLS: OnceLock<[ThreadPool; 4]> = OnceLock::new();
    POOLS.get_or_init(|| [1, 2, 3, 8].map(ThreadPool::new))
}

fn check(shape: &[usize], kept: &[bool], way: usize, dtype: DType, dice: &mut Dice) {
    let x = laid_out(numbers(shape, dtype, dice), way);
    let op = Operand::new(&x, dtype);
    let pools = pools();
    let want = pools[0].install(|| fold(sum(dtype), None, &[op], shape, kept, None).unwrap());
    let about = |what: &str| format!("{what}: {shape:?} kept {kept:?}, {dtype}, way {way}");
    expect_bits(&want, &by_the_letter(&x, kept), &about("by the letter"));
    for pool in &pools[1..] {
        let found = pool.install(|| fold(sum(dtype), None, &[op], shape, kept, None).unwrap());
        expect_same(&found, &want, &about("without a kernel"));
    }
    for kernel in [&Same as &dyn BlockKernel, &FloatKernel(TimesOne)] {
        let one = Tensor::ones([1]).to(dtype);
        let operands = [op, Operand::new(&one, dtype)];
        let found = fold(sum(dtype), Some(kernel), &operands, shape, kept, None).unwrap();
        expect_same(&found, &want, &about("by a kernel"));
    }
    // Beside ones that broadcast, of any type and layout, which are laid out for pieces of the result.
    for kernel in [&Same as &dyn BlockKernel, &FloatKernel(TimesOne)] {
        let own = beside(&x, dice);
        let ones = Tensor::ones(own).to([dtype, dtype, DType::I64, DType::Bool][dice.below(4)]);
        let ones = laid_out(ones, dice.below(5));
        let operands = [op, Operand::new(&ones, dtype)];
        let found = |prior| fold(sum(dtype), Some(kernel), &operands, shape, kept, prior).unwrap();
        let about =
            |what: &str| format!("{} {:?} {} {what}", about("beside ones"), ones.shape(), ones.dtype());
        for pool in pools {
            expect_same(&pool.install(|| found(None)), &want, &about("onto nothing"));
        }
        let prior = numbers(want.shape(), dtype, dice);
        expect_same(&found(Some(prior.clone())), &prior.add(&want).unwrap(), &about("onto a prior"));
    }
    // Operands that stop axes from being one, in another layout.
    let narrow: Vec<Tensor> =
        (0..2).map(|_| laid_out(numbers(&beside(&x, dice), dtype, dice), dice.below(4))).collect();
    let company: Vec<Operand<'_>> =
        std::iter::once(&x).chain(&narrow).map(|t| Operand::new(t, dtype)).collect();
    let full = vec![true; shape.len()];
    let (other, third) = (some_axes(shape.len(), dice), some_axes(shape.len(), dice));
    for bytes in [None, Some(16_384), Some(40_000)] {
        pretend_block(bytes);
        let pool = &pools[dice.below(4)];
        let about = |what: &str| format!("{} in {bytes:?}", about(what));
        // Blocks are chosen by the thread that plans.
        let alone = walked(&[op], shape, dtype, &[kept]);
        expect_same(&alone, &want, &about("alone"));
        expect_same(&walked(&company, shape, dtype, &[kept]), &want, &about("beside other operands"));
        for goals in
            [vec![kept, &full], vec![kept, &other], vec![kept, &other, &third, &full], vec![kept, kept]]
        {
            let found = walked(&company, shape, dtype, &goals);
            expect_same(&found, &want, &about(&format!("in company of {:?}", &goals[1..])));
            let found = pool.install(|| walked(&[op], shape, dtype, &goals));
            expect_same(&found, &want, &about(&format!("on threads, in company of {:?}", &goals[1..])));
        }
        pretend_block(None);
    }
    let elements = [30, 500, 9000][dice.below(3)];
    pretend_band(Some(elements));
    let pool = &pools[dice.below(4)];
    let about = |what: &str| format!("{} in bands of {elements}", about(what));
    let prior = numbers(want.shape(), dtype, dice);
    for goals in [vec![kept], vec![kept, &full], vec![kept, &other, &third, &full], vec![kept, kept]] {
        for operands in [&[op][..], &company] {
            let found = |prior| banded(Some(&Same), operands, (shape, dtype), &goals, prior);
            if let Some(found) = found(None) {
                expect_same(&found, &want, &about(&format!("in company of {:?}", &goals[1..])));
            }
            if let Some(found) = pool.install(|| found(Some(prior.clone()))) {
                let want = prior.add(&want).unwrap();
                expect_same(&found, &want, &about(&format!("onto a prior, in company of {:?}", &goals[1..])));
            }
        }
    }
    if let Some(found) = banded(None, &[op], (shape, dtype), &[kept], None) {
        expect_same(&found, &want, &about("without a kernel"));
    }
    pretend_band(None);
}

/// The shape of something that broadcasts with a tensor and does not lead in its place: not whole where that is turned.
fn beside(x: &Tensor, dice: &mut Dice) -> Vec<usize> {
    let mut own: Vec<usize> = x.dims().iter().map(|&n| if dice.below(2) == 0 { n } else { 1 }).collect();
    if lies_in_order(x) != Some(true)
        && own == x.dims()
        && let Some(axis) = own.iter_mut().find(|n| **n != 1)
    {
        *axis = 1;
    }
    own
}

/// Beside something whole that lies in order, what is turned does not lead.
#[test]
fn what_lies_in_order_leads() {
    let dice = &mut Dice(9);
    let shapes: [&[usize]; 6] =
        [&[33, 40], &[300, 257], &[20, 30, 50], &[7, 300, 90], &[5, 6, 7, 200], &[3, 1, 170, 90]];
    for shape in shapes {
        for (way, dtype) in [(1, DType::F32), (4, DType::F32), (5, DType::F64), (6, DType::F64)] {
            let mut kept = some_axes(shape.len(), dice);
            kept[dice.below(shape.len())] = false;
            let x = laid_out(numbers(shape, dtype, dice), way);
            let (straight, ones) = (x.contiguous(), Tensor::ones(shape).to(dtype));
            let want = by_the_letter(&straight, &kept);
            for pool in pools() {
                for others in [&[&x, &ones][..], &[&ones, &x]] {
                    let operands: Vec<Operand<'_>> = others.iter().map(|t| Operand::new(t, dtype)).collect();
                    let kernel = &FloatKernel(TimesOne);
                    let found = |prior| {
                        pool.install(|| {
                            fold(sum(dtype), Some(kernel), &operands, shape, &kept, prior).unwrap()
                        })
                    };
                    let about = format!("{shape:?} kept {kept:?}, {dtype}, way {way}");
                    expect_bits(&found(None), &want, &about);
                    let prior = numbers(found(None).shape(), dtype, dice);
                    expect_same(&found(Some(prior.clone())), &prior.add(found(None)).unwrap(), &about);
                }
            }
        }
    }
}

#[test]
fn a_fold_has_the_same_bits_whoever_walks_it() {
    let dice = &mut Dice(1);
    for shape in SHAPES {
        for dtype in [DType::F32, DType::F64] {
            let mut kept = some_axes(shape.len(), dice);
            kept[dice.below(shape.len())] = false;
            check(shape, &kept, dice.below(7), dtype, dice);
        }
    }
}

/// A part of a kept axis that is one long, between reduced axes.
#[test]
fn a_kept_axis_that_ends_in_a_part_of_one() {
    check(&[70, 5, 200], &[false, true, false], 0, DType::F32, &mut Dice(4));
}

#[test]
fn two_axes_every_way() {
    let dice = &mut Dice(2);
    for shape in [[3000, 40], [40, 3000], [20_000, 5], [65, 2049], [129, 1024]] {
        for kept in [[true, false], [false, true], [false, false]] {
            for (way, dtype) in [(0, DType::F32), (1, DType::F64), (3, DType::F32)] {
                check(&shape, &kept, way, dtype, dice);
            }
        }
    }
}

/// Planes that are folded onto each other, tables that follow each other and bands of columns, of few and many rows and columns.
#[test]
fn layers_and_bands() {
    let dice = &mut Dice(5);
    let shapes =
        [[3, 11, 49], [70, 32, 49], [30, 64, 256], [5, 3, 2100], [9, 40, 12], [3, 700, 64], [40, 70, 33]];
    for shape in shapes {
        for kept in [[false, true, false], [true, false, true], [false, false, true], [true, true, false]] {
            for (way, dtype) in [(0, DType::F32), (4, DType::F32), (4, DType::F64)] {
                check(&shape, &kept, way, dtype, dice);
            }
        }
    }
}

/// Small and middling shapes of up to five axes.
#[test]
fn small_shapes_by_chance() {
    let dice = &mut Dice(3);
    for _ in 0..100 {
        let rank = 1 + dice.below(5);
        let longest = [5000, 200, 30, 9, 6][rank - 1];
        let shape: Vec<usize> = (0..rank).map(|_| 1 + dice.below(longest)).collect();
        let mut kept = some_axes(rank, dice);
        kept[dice.below(rank)] = false;
        check(&shape, &kept, dice.below(7), if dice.below(2) == 0 { DType::F32 } else { DType::F64 }, dice);
    }
}

/// Axes that lie in another order than they are kept in: many and few results beside each other, segments, leaves of rows.
#[test]
fn turned_tensors() {
    let dice = &mut Dice(6);
    let shapes: [&[usize]; 7] = [
        &[300, 25, 5],
        &[8, 500, 10, 7],
        &[10, 500, 4, 4],
        &[7, 3, 11, 5],
        &[40, 3, 50, 2, 9],
        &[3000, 2, 30],
        &[5, 2000, 40],
    ];
    for shape in shapes {
        for axis in 0..shape.len() {
            for way in [1, 5, 6] {
                let mut kept = vec![true; shape.len()];
                kept[axis] = false;
                kept[(axis + 2) % shape.len()] = dice.below(3) > 0;
                check(shape, &kept, way, [DType::F32, DType::F64][dice.below(2)], dice);
            }
        }
    }
}

/// Of what is folded along the outermost axis, too, and of small planes; not where an axis before that one is folded first.
#[test]
fn what_has_bands() {
    let has = |shape: &[usize], goals: &[&[bool]]| {
        let x = Tensor::ones(shape);
        let wanted: Vec<Goal> = goals.iter().enumerate().map(|(i, kept)| goal(kept, i)).collect();
        let (kernel, operands) = (&Same as &dyn BlockKernel, [Operand::new(&x, DType::F32)]);
        Bands::new(sum(DType::F32), Some((kernel, goals.len())), &operands, shape, &wanted).is_some()
    };
    let shape = [500, 6, 8];
    assert!(!has(&shape, &[&[true, true, false]]), "it stays in the cache");
    pretend_band(Some(1000));
    for kept in
        [[true, true, true], [false, true, true], [true, false, false], [false, true, false], [false; 3]]
    {
        assert!(has(&shape, &[&kept]), "{kept:?}");
        assert!(has(&shape, &[&[true, true, true], &kept, &[true, true, false]]), "{kept:?}");
    }
    assert!(!has(&[500, 3, 4, 6], &[&[false, false, true, false]]), "the second axis is folded before");
    assert!(!has(&[3, 20_000], &[&[true, false]]), "one of three has too many");
    pretend_band(None);
}

/// Whether a walk serves sums (and an output as it is) of so many outputs at once.
fn are_one_walk(shape: &[usize], goals: &[&[bool]]) -> bool {
    let x = Tensor::ones(shape);
    let operands = [Operand::new(&x, DType::F32)];
    let goals: Vec<Goal> = goals.iter().enumerate().map(|(i, kept)| goal(kept, i)).collect();
    let kernel = Some((&Same as &dyn BlockKernel, goals.len()));
    Walk::new(sum(DType::F32), kernel, &operands, shape, &goals, &OnceCell::new()).is_some()
}

/// The gradients of usual operations are evaluated in one walk.
#[test]
fn usual_companies_are_one_walk() {
    let cases: [(&[usize], &[&[bool]]); 8] = [
        (&[4096, 1024], &[&[true, true], &[false, true], &[false, true]]),
        (&[4096, 1024], &[&[false, true], &[true, false], &[false, false]]),
        (&[128, 1024], &[&[true, true], &[false, true], &[false, true]]),
        (&[300, 257], &[&[true, true], &[false, true], &[true, false]]),
        (&[100_000, 7], &[&[true, true], &[false, true], &[false, false]]),
        (&[64, 32, 512], &[&[true, true, true], &[false, false, true], &[false, false, true]]),
        (&[64, 32, 512], &[&[true, true, true], &[true, true, false]]),
        (&[32, 16, 1024], &[&[true, true, true], &[false, true, false], &[false, true, false]]),
    ];
    for (shape, goals) in cases {
        for threads in [1, 2] {
            assert!(ThreadPool::new(threads).install(|| are_one_walk(shape, goals)), "{shape:?}");
        }
    }
}

/// One walk that cannot be cut is no gain for many threads, which share those of the single sums.
#[test]
fn many_threads_are_not_left_idle() {
    let goals: [&[bool]; 2] = [&[true, true], &[false, true]];
    for (threads, one) in [(1, true), (2, true), (3, false), (16, false)] {
        assert_eq!(ThreadPool::new(threads).install(|| are_one_walk(&[128, 1024], &goals)), one, "{threads}");
    }
}
