//! Rows whose results are summed: by which leaves, in the order of the loops that fold what is stored ([`folds`](super::folds)), so that the
//! bits are the same. Results of other outputs are stored meanwhile.

use smallvec::SmallVec;

use super::BlockKernel;
use super::doors::door;
use super::folds::{Aligned, FEW_LANES, Table, fold_rest, fold_run, quarter};
use super::level::{Level, level};
use super::sums::{BlocksTo, Destination, SumOfRows};
use crate::buffer::Storage;
use crate::dtype::{Block, BlockMut, DType, typed_mut};
use crate::task::{FirstSums, LANES, ROWS, Reducer, STRIP, Sum, WideMut};

/// Rows of operands whose results are to be added or stored, and where.
pub(crate) struct RowSums<'s> {
    /// the rows of each operand; of a single column if there is a number for each of them
    pub(crate) operands: SmallVec<[Table<Block<'s>>; 4]>,
    /// whole leaves of them
    pub(crate) rows: usize,
    /// at least [`LANES`]
    pub(crate) cols: usize,
    /// those of all outputs that are added
    pub(crate) leaf: FirstSums,
    /// in the order of the kernel's; a single one where leaves are of several rows, column by column
    pub(crate) outputs: SmallVec<[RowOutput<'s>; 2]>,
}

/// What becomes of the rows of an output.
pub(crate) enum RowOutput<'s> {
    /// added to accumulators, `step` from that of a row to that of the next, by leaves of so many rows: of several, which are whole blocks
    /// then, only if all are added to one
    Added { wide: &'s mut [f64], step: usize, height: usize },
    /// stored, `step` apart
    Stored { out: &'s mut [f32], step: usize },
}

impl<'s> RowOutput<'s> {
    /// Rows of so many columns, added by leaves of so many elements.
    pub(crate) fn added(wide: WideMut<'s>, step: usize, cols: usize, leaf: FirstSums) -> RowOutput<'s> {
        let WideMut::F64(wide) = wide else { unreachable!("there are loops for f32") };
        let height = match leaf {
            FirstSums::Run(leaf) if step == 0 && leaf > cols => leaf / cols,
            _ => 1,
        };
        RowOutput::Added { wide, step, height }
    }

    pub(crate) fn stored(out: BlockMut<'s>, step: usize) -> RowOutput<'s> {
        RowOutput::Stored { out: typed_mut(out), step }
    }

    /// A row as rows of leaves.
    fn leaves(&mut self, row: usize, leaf: usize) -> RowOutput<'_> {
        match self {
            RowOutput::Added { wide, step, .. } => {
                RowOutput::Added { wide: &mut wide[row * *step..], step: 0, height: 1 }
            }
            RowOutput::Stored { out, step } => RowOutput::Stored { out: &mut out[row * *step..], step: leaf },
        }
    }

    /// Blocks from a row and column on: of outputs that are added, to lanes, or to some place behind them.
    fn blocks<'b>(
        &'b mut self,
        (row, col): (usize, usize),
        room: &'b mut [[f32; LANES]],
        place: Option<usize>,
    ) -> BlocksTo<'b> {
        match (self, place) {
            (RowOutput::Stored { out, step }, _) => {
                BlocksTo::Rows { out: &mut out[row * *step + col..], step: *step }
            }
            (RowOutput::Added { height, .. }, None) => {
                BlocksTo::Sums { sums: &mut room[..LEAVES], height: *height }
            }
            (_, Some(place)) => BlocksTo::Sums { sums: &mut room[LEAVES + place..], height: 1 },
        }
    }

    /// Of outputs that are added, how many rows a leaf has.
    fn height(&self) -> Option<usize> {
        if let RowOutput::Added { height, .. } = self { Some(*height) } else { None }
    }

    /// Whether all rows are added to one accumulator.
    fn is_one(&self) -> bool {
        matches!(self, RowOutput::Added { step: 0, .. })
    }
}

impl RowSums<'_> {
    /// Adds or stores what a kernel gives.
    pub(crate) fn add(mut self, kernel: &dyn BlockKernel) {
        let x = &OperandRows { kernel, tables: self.operands.iter().map(Table::typed).collect() };
        let size = (self.rows, self.cols);
        match (self.leaf, &mut self.outputs[..]) {
            (FirstSums::Run(leaf), outputs) => sum_lines(x, size, leaf, outputs),
            (FirstSums::Rows { .. }, [RowOutput::Added { wide, .. }]) => sum_columns(x, size, wide),
            (FirstSums::Rows { .. }, _) => unreachable!("columns of a single output are added"),
        }
    }
}

/// The rows of all operands.
struct OperandRows<'k, 's> {
    kernel: &'k dyn BlockKernel,
    tables: SmallVec<[Table<&'s [f32]>; 4]>,
}

impl OperandRows<'_, '_> {
    /// Has the kernel go through so many rows of so many columns, from a row and column on.
    fn run<'r>(&'r self, (row, col): (usize, usize), (rows, cols): (usize, usize), to: Destination<'r>) {
        let some = |table: &Table<_>| {
            let (col, cols) = if table.cols == 1 { (0, 1) } else { (col, cols) };
            let start = table.start + row as isize * table.step + col as isize;
            Table { data: table.data, start, rows, step: table.step, cols }
        };
        let operands = self.tables.iter().map(some).collect();
        self.kernel.sum_rows(SumOfRows { operands, rows, to });
    }

    /// A row as rows of so many leaves.
    fn leaves(&self, row: usize, count: usize, leaf: usize) -> OperandRows<'_, '_> {
        let leaves = |table: &Table<_>| {
            let (step, cols) = if table.cols == 1 { (0, 1) } else { (leaf as isize, leaf) };
            let start = table.start + row as isize * table.step;
            Table { data: table.data, start, rows: count, step, cols }
        };
        OperandRows { kernel: self.kernel, tables: self.tables.iter().map(leaves).collect() }
    }
}

/// Leaves of an output that are added by one call, at most.
const LEAVES: usize = 16;

/// Adds or stores the results of each row, by leaves of so many elements.
fn sum_lines(
    x: &OperandRows<'_, '_>,
    (rows, cols): (usize, usize),
    leaf: usize,
    outputs: &mut [RowOutput<'_>],
) {
    let mut room = Storage::scratch(DType::F32, outputs.len() * 2 * LEAVES * LANES);
    let room = typed_mut::<f32>(room.block_mut()).as_chunks_mut().0;
    let (whole, is_one) = (cols / leaf, outputs.iter().any(RowOutput::is_one));
    if whole > 1 && (is_one || rows < whole) {
        // The leaves of a row are rows themselves, which one call adds.
        for row in 0..rows {
            let mut leaves: SmallVec<[_; 2]> = outputs.iter_mut().map(|o| o.leaves(row, leaf)).collect();
            sum_lines(&x.leaves(row, whole, leaf), (whole, leaf), leaf, &mut leaves);
            drop(leaves);
            if whole * leaf < cols {
                sum_leaves(x, (row, whole * leaf), (1, cols - whole * leaf), outputs, room);
            }
        }
        return;
    }
    let heights = || outputs.iter().filter_map(RowOutput::height);
    let (least, height) = (heights().min().unwrap_or(1), heights().max().unwrap_or(1));
    // Several leaves of one row each, or one below the other, are added by one call, which takes as long as some hundred elements. Those
    // of a short run are stored, and taken one by one.
    let is_short = (cols % leaf) * height < 4 * LANES && !cols.is_multiple_of(leaf) && leaf < cols;
    let abreast = if is_short || is_one && leaf < cols { 1 } else { LEAVES };
    let mut row = 0;
    while row < rows {
        let left = rows - row;
        let some = if left < height { left } else { left.min(abreast * least) / height * height };
        for col in (0..cols).step_by(leaf) {
            sum_leaves(x, (row, col), (some, leaf.min(cols - col)), outputs, room);
        }
        row += some;
    }
}

/// Adds leaves that lie one below the other, of `n` elements of each of so many rows, in the order of [`fold_run`], or stores them.
fn sum_leaves(
    x: &OperandRows<'_, '_>,
    (row, col): (usize, usize),
    (rows, n): (usize, usize),
    outputs: &mut [RowOutput<'_>],
    room: &mut [[f32; LANES]],
) {
    let height = outputs.iter().filter_map(RowOutput::height).max().unwrap_or(1).min(rows);
    // Short runs are folded in another order.
    let in_lanes = if height * n < 4 * LANES { 0 } else { n / LANES };
    let whole = n / LANES - in_lanes;
    let left = n % LANES;
    debug_assert!(
        rows == height || whole == 0,
        "what is stored of several leaves is a block of each at most"
    );
    debug_assert!(left == 0 || height == 1, "blocks of several rows are whole");
    // Whole blocks that are stored: to a -0, a result is added as it is.
    let end = whole * height;
    for (output, room) in outputs.iter().zip(room.chunks_exact_mut(2 * LEAVES)) {
        let RowOutput::Added { height, .. } = output else { continue };
        let (lanes, rest) = room.split_at_mut(LEAVES);
        lanes[..rows.div_ceil(*height)].fill([0.0; LANES]);
        if whole + left > 0 {
            rest[..rows.max(end + 1)].fill([-0.0; LANES]);
        }
    }
    let mut run = |(row, col): (usize, usize), (rows, blocks): (usize, usize), place: Option<usize>| {
        let rooms = outputs.iter_mut().zip(room.chunks_exact_mut(2 * LEAVES));
        let outputs = rooms.map(|(output, room)| output.blocks((row, col), room, place)).collect();
        x.run((row, col), (rows, blocks * LANES), Destination::Blocks { blocks, outputs });
    };
    if in_lanes > 0 {
        run((row, col), (rows, in_lanes), None);
    }
    for nr in 0..end {
        run((row + nr / whole, col + nr % whole * LANES), (1, 1), Some(nr));
    }
    if left > 0 {
        // A block that reaches back, of which the end is taken.
        run((row, col + n - LANES), (rows, 1), Some(end));
    }
    for (output, room) in outputs.iter_mut().zip(room.chunks_exact_mut(2 * LEAVES)) {
        let RowOutput::Added { wide, step, height } = output else { continue };
        let (lanes, rest) = room.split_at_mut(LEAVES);
        for nr in 0..rows.div_ceil(*height) {
            let rest = rest[nr..].as_flattened_mut();
            let (end, n) = (end * LANES, end * LANES + left);
            rest.copy_within(end + (LANES - left) % LANES..n.next_multiple_of(LANES), end);
            let sum = if in_lanes == 0 {
                fold_run(&rest[..n], 0.0, <Sum<f32>>::combine)
            } else {
                let mut few: [f32; FEW_LANES] = quarter(&lanes[nr], |v| v, <Sum<f32>>::combine);
                fold_rest(&mut few, &rest[..n], |v| v, <Sum<f32>>::combine)
            };
            wide[(row + nr) * *step] += sum as f64;
        }
    }
}

/// Adds the results of each column to the accumulator of its own, by leaves of [`ROWS`] rows.
fn sum_columns(x: &OperandRows<'_, '_>, (rows, cols): (usize, usize), wide: &mut [f64]) {
    let mut sums = Aligned([[-0.0; LANES]; 2 * STRIP / LANES]);
    let mut left = 0;
    while left < cols {
        // The last strip takes what would be too few columns for another.
        let cols = if cols - left < STRIP + LANES { cols - left } else { STRIP };
        let blocks = cols.div_ceil(LANES);
        let gap = blocks * LANES - cols;
        let several = sums.0.len() / blocks * ROWS;
        for row in (0..rows).step_by(several) {
            let rows = several.min(rows - row);
            x.run((row, left), (rows, cols), Destination::Columns { cols, sums: &mut sums.0 });
            for sums in sums.0.chunks_mut(blocks).take(rows / ROWS) {
                let sums = sums.as_flattened_mut();
                let (whole, rest) = wide[left..left + cols].split_at_mut((blocks - 1) * LANES);
                widen(&mut sums[..whole.len()], whole);
                widen(&mut sums[whole.len() + gap..], rest);
                sums[whole.len()..].fill(-0.0);
            }
        }
        left += cols;
    }
}

door! {
    /// Adds sums to wide ones, and sets them back to what results are added to.
    fn widen[][](sums: &mut [f32], wide: &mut [f64]);
    body widen_body narrow
}
#[inline(always)]
fn widen_body<const FMA: bool>(sums: &mut [f32], wide: &mut [f64]) {
    let n = wide.len();
    let sums = &mut sums[..n];
    for k in 0..n {
        wide[k] += sums[k] as f64;
        sums[k] = -0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BlockKernel, FloatKernel, FloatOps, Formula, GradientKernel, Real};
    use super::*;
    use crate::kernel::{Target, evaluate, fold_jointly, fold_to};
    use crate::{DType, Shape, Tensor, ThreadPool};

    /// The same formula with loops that add its results and without.
    #[derive(Clone, Copy)]
    struct Squares<const SUMS: bool>;
    impl<const SUMS: bool> Formula<3> for Squares<SUMS> {
        const SUMS: bool = SUMS;
        #[inline(always)]
        fn eval<R: Real>(&self, [x, w, b]: [R; 3]) -> R
        where
            f64: FloatOps<R>,
        {
            let y = x * w + b;
            R::select(y.gt(R::lit(0.0)), y.square(), y * 0.1)
        }
    }

    fn bits(t: &Tensor) -> Vec<u64> {
        match t.dtype() {
            DType::F32 => t.to_vec::<f32>().unwrap().iter().map(|v| v.to_bits() as u64).collect(),
            _ => t.to_vec::<f64>().unwrap().iter().map(|v| v.to_bits()).collect(),
        }
    }

    /// Sums of values, and of the gradient of each input alone, where what comes in is of this shape or that.
    fn check(x: &Tensor, w: &Tensor, b: &Tensor, target: &Shape) {
        let same = |added: &dyn BlockKernel, stored: &dyn BlockKernel, operands: &[&Tensor], what: &str| {
            let sum = |kernel| bits(&fold_to("test", kernel, operands, Target::of(target)).unwrap());
            let stored = sum(stored);
            for threads in [1, 3] {
                let added = ThreadPool::new(threads).install(|| sum(added));
                assert!(added == stored, "{what}: {x:?} {} {} to {target}", w.shape(), b.shape());
            }
        };
        same(&FloatKernel(Squares::<true>), &FloatKernel(Squares::<false>), &[x, w, b], "the value");
        let g = Tensor::randn_with(target.dims(), x.dtype());
        for g in [&g, w, x] {
            for input in 0..3 {
                let added = GradientKernel::new(Squares::<true>, &[input]);
                let stored = GradientKernel::new(Squares::<false>, &[input]);
                assert!(added.sums() && !stored.sums());
                same(&added, &stored, &[g, x, w, b], "a gradient");
            }
        }
    }

    /// Whole blocks and what is left of them, leaves within rows and of several, numbers for rows, for columns and for all.
    #[test]
    fn bits_are_those_of_results_that_are_stored() {
        for rows in [1, 2, 3, 7, 20] {
            for cols in [40, 255, 256, 257, 320, 512, 513, 700, 1024, 1025, 2500] {
                for dtype in [DType::F32, DType::F64] {
                    let x = Tensor::randn_with([rows, cols], dtype);
                    let other = |shape: [usize; 2]| Tensor::randn_with(shape, dtype);
                    for w in [[rows, cols], [1, cols], [rows, 1], [1, 1]] {
                        for target in [[1, 1], [rows, 1], [1, cols]] {
                            check(&x, &other(w), &other([1, cols]), &target.into());
                            check(&x, &other(w), &other([rows, 1]), &target.into());
                        }
                    }
                }
            }
        }
    }

    /// Operands that lie like the result, or are one number, need no plan however many they are.
    #[test]
    fn many_results_of_operands_that_lie_alike() {
        let shapes: [&[usize]; 8] = [
            &[40_000],
            &[100_003],
            &[7, 5001],
            &[400, 300],
            &[33, 1024],
            &[3, 40_000],
            &[5, 3, 4099],
            &[30_011, 3],
        ];
        for (shape, dtype) in shapes.into_iter().flat_map(|s| [(s, DType::F32), (s, DType::F64)]) {
            let of = |shape: &[usize]| Tensor::randn_with(shape, dtype);
            let (x, w, number) = (of(shape), of(shape), of(&[]));
            let kept = |axes: &dyn Fn(usize) -> bool| -> Shape {
                (0..shape.len()).map(|i| if axes(i) { shape[i] } else { 1 }).collect::<Vec<_>>().into()
            };
            for target in [kept(&|_| false), kept(&|i| i + 1 < shape.len()), kept(&|i| i == 0)] {
                check(&x, &w, &number, &target);
                check(&number, &x, &w, &target);
                let stored = evaluate("test", &FloatKernel(Squares::<false>), &[&x, &w, &number]).unwrap();
                let sum = |kernel: &dyn BlockKernel| {
                    fold_to("test", kernel, &[&x, &w, &number], Target::of(&target)).unwrap()
                };
                let expected = bits(&stored.sum_to_size(&target).unwrap());
                assert!(bits(&sum(&FloatKernel(Squares::<false>))) == expected, "{shape:?} to {target}");
                assert!(bits(&sum(&FloatKernel(Squares::<true>))) == expected, "{shape:?} to {target}");
            }
        }
    }

    #[test]
    fn several_axes_of_rows_and_other_layouts() {
        let of = |shape: &[usize]| Tensor::randn(shape);
        for shape in [[3, 8, 512], [3, 6, 256], [5, 16, 256], [40, 3, 300], [2, 5, 1024], [70, 64, 256]] {
            let [a, b, c] = shape;
            let x = of(&shape);
            let turned = of(&[b, a, c]).transpose(0, 1).unwrap();
            for target in [[1, 1, 1], [a, 1, 1], [1, b, 1], [1, 1, c], [a, 1, c], [a, b, 1], [1, b, c]] {
                check(&x, &of(&[1, b, 1]), &of(&[c]), &target.into());
                check(&x, &of(&[a, 1, 1]), &of(&[1, b, c]), &target.into());
                check(&turned, &of(&[a, 1, c]), &of(&[]), &target.into());
                check(&x.flip(1).unwrap(), &of(&[b, 1]), &turned, &target.into());
                check(&x, &of(&[1, b, 1]).double(), &of(&[c]), &target.into());
            }
        }
    }

    /// Several gradients in one pass, of which some are summed and others stored, onto nothing and onto what waits: beside blocks that are
    /// stored before they are summed.
    #[test]
    fn gradients_that_are_summed_beside_others_that_are_not() {
        let check = |shapes: [&[usize]; 3], dtype: DType| {
            let [x, w, b] = shapes.map(|shape| Tensor::randn_with(shape, dtype));
            let g = Tensor::randn_with([], dtype);
            let wanted: [&[usize]; 6] = [&[0, 1], &[1, 0], &[0, 2], &[1, 2], &[0, 1, 2], &[2, 1, 0]];
            for (wanted, waits) in wanted.into_iter().flat_map(|wanted| [(wanted, false), (wanted, true)]) {
                let gradients = |kernel: &dyn BlockKernel| -> Vec<Vec<u64>> {
                    let shapes: Vec<Shape> = wanted.iter().map(|&k| shapes[k].into()).collect();
                    let target = |(&k, shape): (&usize, _)| {
                        let prior = waits.then(|| [&x, &w, &b][k].copied("test", dtype).unwrap());
                        Target { prior, ..Target::of(shape) }
                    };
                    let targets = wanted.iter().zip(&shapes).map(target).collect();
                    let all = fold_jointly("test", kernel, &[&g, &x, &w, &b], targets).unwrap();
                    all.iter().map(bits).collect()
                };
                let stored = gradients(&GradientKernel::new(Squares::<false>, wanted));
                for threads in [1, 3] {
                    let added = ThreadPool::new(threads)
                        .install(|| gradients(&GradientKernel::new(Squares::<true>, wanted)));
                    assert!(added == stored, "{wanted:?} of {shapes:?}, {dtype}");
                }
            }
        };
        let around = [1, 2, 3, 4, 5, 16].into_iter().flat_map(|n| (0..3).map(move |off| n * LANES + off - 1));
        for cols in around.chain([1500, 2047, 2048, 2049, 3100]) {
            for (dtype, [a, b]) in [(DType::F32, [1, 5]), (DType::F32, [7, 18]), (DType::F64, [3, 5])] {
                let x: &[usize] = &[a, b, cols];
                check([x, &[b, 1], &[b, 1]], dtype);
                check([x, &[a, 1, 1], &[]], dtype);
                check([x, &[b, 1], &[]], dtype);
                check([x, x, &[a, b, 1]], dtype);
                check([x, &[], x], dtype);
                check([x, &[b, 1], &[cols]], dtype);
            }
        }
    }
}
