//! Matrix products, cut into tiles: blocks of results, or passes over the matrix where the other operand is a vector or a few
//! of them. Large ones share what their threads lay out.
//!
//! Note [The bits of a product]
//! A tile is computed on one thread. The additions that make an element happen in one order, whichever tile it belongs
//! to, so a product has the same bits for any number of threads, although fewer threads get larger tiles. Products with
//! a vector, or few of them, are cut by their sizes and steps alone. Long inner sizes with few results are cut into parts, by the sizes
//! alone, and added up in order. Of a scaled product the sums are multiplied by the scale as they are written, once for
//! each piece of the inner index that is summed in one go.

mod block;
mod few;
mod float;
mod integers;
mod matrix;
mod out;
mod pack;
mod panels;
mod passes;
mod registers;
mod shared;
mod short;
mod thin;
mod tiles;
mod vector;

use few::{DEEP, DEPTH_OF_EACH, FEW, FEW_IN_ORDER, LAID_FOR, few_columns};
pub(crate) use matrix::{Matrix, row_major};
pub(crate) use out::Onto;
use out::Out;
pub(crate) use panels::{Columns, DEPTH, Form, Lines, Panels, Places};
use short::Dots;
use thin::FEW_ROWS;
use tiles::{PART, TASK, TILES, Tiles};

use std::ops::Range;

use crate::buffer::Room;
use crate::dtype::Element;
use crate::threads::{num_threads, split_work};

/// An axis of a batch: its size, and how far each operand moves along it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BatchAxis {
    pub(crate) size: usize,
    pub(crate) a_step: isize,
    pub(crate) b_step: isize,
}

/// `out[kept, m, n] = scale * sum over summed of a[kept, summed, m, k] @ b[kept, summed, k, n]`
#[derive(Clone, Debug)]
pub(crate) struct Product<'a, T> {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) a: Matrix<'a, T>,
    pub(crate) b: Matrix<'a, T>,
    /// axes of the batch that the result has, outermost first
    pub(crate) kept: &'a [BatchAxis],
    /// axes of the batch that are summed
    pub(crate) summed: &'a [BatchAxis],
    pub(crate) scale: T,
}

/// Element types that matrices can be multiplied in.
pub(crate) trait Multiply: Element {
    /// What `n` equal contributions are multiplied by.
    fn of_count(n: usize) -> Self;
    /// `a + b`; integers wrap.
    fn plus(a: Self, b: Self) -> Self;
    /// Computes one tile.
    fn multiply(tile: Tile<'_, Self>);
    /// Rows of at most so many elements are multiplied with vectors by [`multiply_short`](Self::multiply_short).
    const SHORT: usize = 0;
    /// Numbers in a register of AVX2.
    const LANES: usize = 0;
    /// Computes the dot products of short rows of a batch, one after another.
    fn multiply_short(_: &Dots<'_, Self>, _: Out<'_, Self>, _scale: Self, _: Onto<'_, Self>) {
        unreachable!("no row is short")
    }
    /// Computes a large product whose threads share what they lay out, if it is one that gains by it.
    fn multiply_shared(_: &Product<'_, Self>, _: &mut [Self], _: Onto<'_, Self>) -> bool {
        false
    }
}

/// A rectangle of the result and the operands that it is made of.
pub(crate) struct Tile<'a, T> {
    m: usize,
    n: usize,
    k: usize,
    a: Matrix<'a, T>,
    b: Matrix<'a, T>,
    out: Out<'a, T>,
    scale: T,
    onto: Onto<'a, T>,
    way: ProductWay,
}

/// How a product, and every tile of it, is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ProductWay {
    Blocks,
    /// with a single row or column
    Vector,
    FewColumns,
    FewRows,
    /// few rows and short ones
    Thin,
}

impl<'a, T: Element> Tile<'a, T> {
    /// The same product seen from the other side, for a result of one column, which lies like a row.
    fn transposed(self) -> Tile<'a, T> {
        debug_assert!(self.n == 1 && self.out.stride == 1);
        let mut out = self.out;
        let onto = out.begin(self.onto);
        let out = Out { stride: self.m, rows: 1, cols: self.m, ..out };
        let (a, b) = (self.b.transposed(), self.a.transposed());
        Tile { m: 1, n: self.m, k: self.k, a, b, out, scale: self.scale, onto, way: self.way }
    }
}

/// Products with a vector, or few of them, of at most this many multiplications are one task.
const VECTOR_TASK: usize = 1 << 16;

/// Results that lie side by side and make one task of a product with a vector, at least.
const VECTOR_COLS: usize = 1024;

/// Tiles per thread otherwise: few, since each lays out its own operands.
const TILES_PER_THREAD: usize = 2;

/// Parts that an inner size is cut into at most.
const MAX_PARTS: usize = 16;

impl<T: Multiply> Product<'_, T> {
    /// Computes the result into `out`.
    ///
    /// # Panics
    /// If an operand would be read, or the result written, outside its slice.
    pub(crate) fn run(&self, out: &mut [T], onto: Onto<'_, T>) {
        let items: usize = self.kept.iter().map(|a| a.size).product();
        let depth: usize = self.summed.iter().map(|a| a.size).product();
        assert_eq!(out.len(), items * self.m * self.n, "the result has the size of its shape");
        if let Onto::Row(row) = onto {
            assert_eq!(row.len(), self.n, "a row is as long as the result is wide");
        }
        if out.is_empty() {
            return;
        }
        if self.k == 0 || depth == 0 {
            let rows = items * self.m;
            return Out::of(out, rows, self.n).hold(onto);
        }
        self.check();
        let (m, n, k) = (self.m, self.n, self.k);
        let by_vectors = self.way() != ProductWay::Blocks;
        let task = if by_vectors { VECTOR_TASK } else { TASK };
        if items == 1 && depth == 1 && m.saturating_mul(n).saturating_mul(k) <= task {
            return self.as_one_tile(out, onto);
        }
        let mut tiles = if by_vectors { self.vector_tiles() } else { Tiles::new(m, n, k, TILES) };
        let tasks = items * tiles.count;
        let parts = self.parts(tasks, if by_vectors { VECTOR_TASK.saturating_mul(tasks) } else { PART });
        if !by_vectors {
            let threads = num_threads();
            let least = if threads == 1 { 1 } else { threads * TILES_PER_THREAD };
            tiles = Tiles::new(m, n, k, least.div_ceil(items * parts));
        }
        if parts == 1 {
            let is_single = !by_vectors && items * depth == 1;
            if is_single
                && self.a.col_step == 1
                && let Some(columns) = Tiles::columns(m, n, k).filter(|columns| columns.count >= tiles.count)
            {
                return self.tiles(&columns, 1, 0, k, out, onto);
            }
            if is_single && T::multiply_shared(self, out, onto) {
                return;
            }
            return self.tiles(&tiles, items, 0, self.k, out, onto);
        }
        self.in_parts(&tiles, items, parts, out, onto);
    }

    /// Computes a single product on this thread, however large it is: what a task does that has more to do with the result.
    ///
    /// # Panics
    /// As [`Product::run`], and for a batch.
    pub(crate) fn run_here(&self, out: &mut [T], onto: Onto<'_, T>) {
        assert!(self.kept.is_empty() && self.summed.is_empty() && out.len() == self.m * self.n);
        if self.k > 0 && !out.is_empty() {
            self.check();
            self.as_one_tile(out, onto);
        } else {
            Out::of(out, self.m, self.n).hold(onto);
        }
    }

    /// The product of operands that have been checked.
    fn as_one_tile(&self, out: &mut [T], onto: Onto<'_, T>) {
        let &Product { m, n, k, a, b, scale, .. } = self;
        T::multiply(Tile { m, n, k, a, b, out: Out::of(out, m, n), scale, onto, way: self.way() });
    }

    /// Told by the sizes and steps of the whole product, not by those of a tile.
    fn way(&self) -> ProductWay {
        let is_few = |n: usize| n <= FEW && self.k >= DEEP;
        let are_deep = |n: usize, most: usize| n <= most.min(self.k / DEPTH_OF_EACH) && self.k >= DEEP;
        let (a_rows, b_columns) = (self.a.col_step == 1, self.b.row_step == 1);
        // What is laid out has to be read often enough.
        let columns =
            is_few(self.n) || are_deep(self.n, few_columns::<T>()) && (b_columns || self.m >= LAID_FOR / 2);
        let rows = is_few(self.m) || are_deep(self.m, FEW_IN_ORDER) && (a_rows || self.n >= self.m);
        if self.m.min(self.n) == 1 {
            ProductWay::Vector
        } else if self.k >= DEEP && self.m <= FEW_ROWS && self.n <= T::LANES && self.b.col_step == 1 {
            ProductWay::Thin
        } else if columns && a_rows || is_few(self.m.max(self.n)) {
            ProductWay::FewColumns
        } else if rows && b_columns {
            ProductWay::FewRows
        } else {
            ProductWay::Blocks
        }
    }

    /// How a product with a vector, or few of them, is cut: so that the tasks read neighbouring memory.
    fn vector_tiles(&self) -> Tiles {
        let way = self.way();
        let wide = way == ProductWay::FewRows || way == ProductWay::Vector && self.m == 1;
        let (size, step) = if wide { (self.n, self.b.col_step) } else { (self.m, self.a.row_step) };
        let least = if step == 1 { VECTOR_COLS } else { 1 };
        let least = if way == ProductWay::Vector { least } else { LAID_FOR.max(least) };
        // Sixteen rows at least, for which a stretch of the vector is read from the nearest cache.
        let piece = (VECTOR_TASK / self.k).max(least).next_multiple_of(16).min(size);
        // Pieces of like sizes.
        let piece = size.div_ceil(size / piece).next_multiple_of(16).min(size);
        let (rows, cols) = if wide { (self.m, piece) } else { (piece, self.n) };
        let count = size.div_ceil(piece);
        Tiles { rows, cols, across: if wide { count } else { 1 }, count }
    }

    /// How many parts of so many multiplications to cut the inner size into, so that few results of much work make
    /// several tasks.
    fn parts(&self, tasks: usize, part: usize) -> usize {
        let work = self.m.saturating_mul(self.n).saturating_mul(self.k);
        if tasks >= TILES { 1 } else { (work / part).min(self.k / 256).clamp(1, (MAX_PARTS / tasks).max(1)) }
    }

    /// Computes every part of the inner size into memory of its own and adds them up in order.
    fn in_parts(&self, tiles: &Tiles, items: usize, parts: usize, out: &mut [T], onto: Onto<'_, T>) {
        let n = out.len();
        let chunk = self.k.div_ceil(parts).next_multiple_of(16);
        let parts = self.k.div_ceil(chunk);
        let mut partial: Room<T> = Room::new((parts - 1) * n);
        let rest = partial.as_mut_slice();
        let mut pieces: Vec<&mut [T]> = Vec::with_capacity(parts);
        pieces.push(&mut *out);
        pieces.extend(rest.chunks_exact_mut(n));
        split_work(
            parts,
            1,
            &mut pieces[..],
            &|p: &mut [&mut [T]], at| p.split_at_mut(at),
            &|part, _, piece| {
                let (from, to) = (part * chunk, ((part + 1) * chunk).min(self.k));
                let onto = if part == 0 { onto } else { Onto::Nothing };
                self.tiles(tiles, items, from, to, piece[0], onto);
            },
        );
        drop(pieces);
        for part in rest.chunks_exact(n) {
            for (o, &p) in out.iter_mut().zip(part) {
                *o = T::plus(*o, p);
            }
        }
    }

    /// Computes all tiles over the inner positions `from .. to`, in parallel where there is enough to do.
    fn tiles(&self, tiles: &Tiles, items: usize, from: usize, to: usize, out: &mut [T], onto: Onto<'_, T>) {
        let k = to - from;
        let depth: usize = self.summed.iter().map(|a| a.size).product();
        let work = tiles.rows.saturating_mul(tiles.cols).saturating_mul(k).saturating_mul(depth);
        let way = self.way();
        let grain = (if way != ProductWay::Blocks { VECTOR_TASK } else { TASK } / work.max(1)).max(1);
        let whole = Out::of(out, items * self.m, self.n);
        let short = if tiles.count == 1 { self.short_rows() } else { None };
        split_work(items * tiles.count, grain, (), &|(), _| ((), ()), &|start, len, ()| {
            if let Some(rows) = &short {
                return self.short(rows, start..start + len, &whole, onto);
            }
            for task in start..start + len {
                let (item, tile) = (task / tiles.count, task % tiles.count);
                let (row, col) = (tile / tiles.across * tiles.rows, tile % tiles.across * tiles.cols);
                let (m, n) = (tiles.rows.min(self.m - row), tiles.cols.min(self.n - col));
                let (a_item, b_item) = offsets(self.kept, item);
                for position in 0..depth {
                    let (a_more, b_more) = offsets(self.summed, position);
                    let a = self.a.moved(a_item + a_more, row, from);
                    let b = self.b.moved(b_item + b_more, from, col);
                    // SAFETY: every task is handed out once, and its item, row and column give it a rectangle of the
                    // result that no other task has.
                    let out = unsafe { whole.part(item * self.m + row, col, m, n) };
                    let onto = if position > 0 { Onto::Result } else { onto.at_column(col) };
                    T::multiply(Tile { m, n, k, a, b, out, scale: self.scale, onto, way });
                }
            }
        });
    }

    /// All products of a batch along its innermost axis, where they are those of short rows with vectors.
    fn short_rows(&self) -> Option<Dots<'_, T>> {
        let (&batch, none) = (self.kept.last()?, self.summed.is_empty());
        let (rows, x, count, batch) = if self.m == 1 {
            let batch = BatchAxis { a_step: batch.b_step, b_step: batch.a_step, ..batch };
            (self.b.transposed(), self.a, self.n, batch)
        } else {
            (self.a, self.b.transposed(), self.m, batch)
        };
        // The choice of `vector` for a single one.
        let dots = rows.col_step == 1 && (rows.row_step != 1 || count <= self.k);
        let scaled = !dots && rows.row_step == 1 && count <= 2 * T::LANES;
        let short = none && self.m.min(self.n) == 1 && self.k <= T::SHORT;
        let rows = if scaled { rows.transposed() } else { rows };
        let way = scaled || dots && x.col_step == 1;
        (short && way).then_some(Dots { rows, x, count, k: self.k, scaled, batch })
    }

    /// Some products of such a batch: those that follow each other along the innermost axis at once.
    fn short(&self, all: &Dots<'_, T>, mut items: Range<usize>, whole: &Out<'_, T>, onto: Onto<'_, T>) {
        let axis = all.batch.size;
        while !items.is_empty() {
            let size = items.len().min(axis - items.start % axis);
            let (a, b) = offsets(self.kept, items.start);
            let (rows, x) = if self.m == 1 { (b, a) } else { (a, b) };
            let (rows, x) = (all.rows.moved(rows, 0, 0), all.x.moved(x, 0, 0));
            let dots = Dots { rows, x, batch: BatchAxis { size, ..all.batch }, ..*all };
            // SAFETY: every item is handed out once, and its rows of the result are its own.
            let out = unsafe { whole.part(items.start * self.m, 0, size * self.m, self.n) };
            T::multiply_short(&dots, out, self.scale, onto);
            items.start += size;
        }
    }

    /// Refuses operands that reach outside their slices.
    fn check(&self) {
        let batch = || self.kept.iter().chain(self.summed);
        self.a.check(batch().map(|x| (x.size, x.a_step)), self.m, self.k);
        self.b.check(batch().map(|x| (x.size, x.b_step)), self.k, self.n);
    }
}

/// How far both operands are moved at one position of a batch.
#[inline]
fn offsets(axes: &[BatchAxis], mut position: usize) -> (isize, isize) {
    let (mut a, mut b) = (0, 0);
    for axis in axes.iter().rev() {
        let i = (position % axis.size) as isize;
        position /= axis.size;
        a += i * axis.a_step;
        b += i * axis.b_step;
    }
    (a, b)
}

#[cfg(test)]
mod tests {
    use super::block::{blocked, blocked_at};
    use super::shared::shared;
    use super::vector::vector_at;
    use super::*;
    use crate::kernels::level::{Level, detected_level};

    fn numbers(n: usize) -> Vec<f64> {
        (0..n).map(|i| ((i * 37 + 5) % 17) as f64 - 8.0).collect()
    }

    fn product<'a>(m: usize, n: usize, k: usize, a: &'a [f64], b: &'a [f64]) -> Product<'a, f64> {
        Product { m, n, k, a: row_major(a, k), b: row_major(b, n), kept: &[], summed: &[], scale: 1.0 }
    }

    /// One tile of this product onto threes.
    fn tile_of(p: &Product<'_, f64>, onto: Onto<'_, f64>, run: impl Fn(Tile<'_, f64>)) -> Vec<f64> {
        let &Product { m, n, k, a, b, scale, .. } = p;
        let mut out = vec![3.0; m * n];
        p.check();
        run(Tile { m, n, k, a, b, out: Out::of(&mut out, m, n), scale, onto, way: p.way() });
        out
    }

    /// The definition.
    fn defined(p: &Product<'_, f64>, onto: Onto<'_, f64>) -> Vec<f64> {
        let at = |x: &Matrix<'_, f64>, row, col| x.moved(0, row, col).rest()[0];
        let sum = |i, j| (0..p.k).map(|l| at(&p.a, i, l) * at(&p.b, l, j)).sum::<f64>();
        let before = |j: usize| match onto {
            Onto::Nothing => 0.0,
            Onto::Result => 3.0,
            Onto::Row(row) => row[j],
        };
        (0..p.m * p.n).map(|i| before(i % p.n) + p.scale * sum(i / p.n, i % p.n)).collect()
    }

    #[test]
    fn blocks_follow_the_definition_at_every_level() {
        for (m, n, k) in [
            (1, 2, 3),
            (7, 21, 33),
            (6, 8, 1),
            (13, 5, 40),
            (2, 16, 7),
            (40, 70, 600),
            (23, 75, 128),
            (8, 32, 9),
        ] {
            let (a, b, row) = (numbers(m * k), numbers(k * n), numbers(n));
            for (onto, scale) in [(Onto::Nothing, 1.0), (Onto::Result, 3.0), (Onto::Row(&row), 3.0)] {
                let p = Product { scale, ..product(m, n, k, &a, &b) };
                let want = defined(&p, onto);
                assert_eq!(tile_of(&p, onto, blocked::<f64, 8>), want, "{m} x {n} x {k}");
                for level in [Level::Baseline, Level::Avx2, Level::Avx512] {
                    if level <= detected_level() {
                        let found = tile_of(&p, onto, |t| blocked_at::<f64, 8>(t, level));
                        assert_eq!(found, want, "{m} x {n} x {k} at {level:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn few_columns_or_rows_follow_the_definition_however_operands_lie() {
        let sizes = [
            (4, 4, 70),
            (8, 3, 2049),
            (40, 3, 64),
            (3, 2, 9000),
            (700, 2, 130),
            (2, 30, 65),
            (9, 13, 150),
            (32, 6, 512),
        ];
        for (m, n, k) in sizes {
            let (a, b, row) = (numbers(2 * m * k), numbers(2 * k * n), numbers(n));
            for (onto, scale) in [(Onto::Nothing, 1.0), (Onto::Result, 3.0), (Onto::Row(&row), 3.0)] {
                let [a_rows, a_cols] = [row_major(&a, k), row_major(&a, m).transposed()];
                let a_every_second = Matrix { row_step: 2 * k as isize, col_step: 2, ..a_rows };
                let [b_rows, b_cols] = [row_major(&b, n), row_major(&b, k).transposed()];
                let b_every_second = Matrix { row_step: 2, col_step: 2 * k as isize, ..b_rows };
                for (a_matrix, b_matrix) in [
                    (a_rows, b_rows),
                    (a_rows, b_cols),
                    (a_cols, b_rows),
                    (a_cols, b_cols),
                    (a_every_second, b_every_second),
                ] {
                    let p = Product { scale, a: a_matrix, b: b_matrix, ..product(m, n, k, &a, &b) };
                    let mut out = vec![3.0; m * n];
                    p.run(&mut out, onto);
                    assert_eq!(out, defined(&p, onto), "{m} x {n} x {k}, {:?}", p.way());
                    for level in [Level::Baseline, Level::Avx2, Level::Avx512] {
                        let found = |t: Tile<'_, f64>| match t.way {
                            ProductWay::Thin => thin::thin(t, level),
                            _ => few::few(t, level),
                        };
                        if level <= detected_level() && p.way() != ProductWay::Blocks {
                            assert_eq!(tile_of(&p, onto, found), out, "at {level:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn shared_products_follow_the_definition_at_every_level() {
        for (m, n, k) in [(1, 1, 1), (7, 21, 33), (25, 600, 3), (100, 40, 530), (4100, 7, 2)] {
            let (a, b, row) = (numbers(m * k), numbers(k * n), numbers(n));
            for (transposed, onto, scale) in
                [(false, Onto::Nothing, 1.0), (true, Onto::Result, 3.0), (true, Onto::Row(&row), 3.0)]
            {
                let mut p = Product { scale, ..product(m, n, k, &a, &b) };
                if transposed {
                    (p.a, p.b) = (row_major(&a, m).transposed(), row_major(&b, k).transposed());
                }
                for level in [Level::Baseline, Level::Avx2, Level::Avx512] {
                    if level <= detected_level() {
                        let mut out = vec![3.0; m * n];
                        shared(&p, Form::new(8, m, level), &mut out, onto);
                        assert_eq!(out, defined(&p, onto), "{m} x {n} x {k} at {level:?}");
                    }
                }
            }
        }
    }

    /// Strips that the first block copies, and the last one that is narrower; an inner size of two depths.
    #[test]
    fn shared_products_and_columns_have_the_bits_of_tiles() {
        let some =
            |n: usize| (0..n).map(|i| ((i * 7919 + 13) % 1009) as f64 / 1009.0 - 0.5).collect::<Vec<_>>();
        for (m, n, k) in [
            (300, 600, 700),
            (40, 230, 260),
            (150, 200, 300),
            (384, 340, 385),
            (25, 100, 1000),
            (2, 100, 300),
            (3, 64, 300),
            (4, 70, 400),
            (5, 150, 200),
            (6, 33, 129),
        ] {
            let (a, b, row) = (some(m * k), some(k * n), some(n));
            let mut p = Product { scale: 0.75, ..product(m, n, k, &a, &b) };
            for (is_transposed, onto) in [
                (false, Onto::Nothing),
                (false, Onto::Result),
                (false, Onto::Row(&row)),
                (true, Onto::Nothing),
            ] {
                if is_transposed {
                    p.a = row_major(&a, m).transposed();
                }
                let tile = tile_of(&p, onto, |t| blocked_at::<f64, 8>(t, detected_level()));
                let (mut out, mut run) = (vec![3.0; m * n], vec![3.0; m * n]);
                shared(&p, Form::new(8, m, detected_level()), &mut out, onto);
                assert_eq!(out, tile, "{m} x {n} x {k}");
                p.run(&mut run, onto);
                assert_eq!(run, tile, "{m} x {n} x {k}");
                let defined = defined(&p, onto);
                let off = tile.iter().zip(&defined).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
                assert!(off < 1e-12, "{m} x {n} x {k}: {off}");
            }
        }
    }

    #[test]
    fn products_with_a_vector_follow_the_definition_however_the_matrix_lies() {
        for (n, k) in [(1, 1), (1, 9000), (3, 4097), (5, 7), (37, 100), (1030, 19), (2100, 1), (20, 5000)] {
            let (x, matrix, row) = (numbers(2 * k), numbers(2 * n * k), numbers(n));
            let (ni, ki) = (n as isize, k as isize);
            // How far apart inner positions and results are: rows, columns, backwards, every second one, all the same.
            let steps = [
                (ni, 1),
                (1, ki),
                (-ni, 1),
                (1, -ki),
                (-1, ki),
                (2 * ni, 2),
                (2, 2 * ki),
                (0, 1),
                (1, 0),
                (0, 0),
            ];
            for (row_step, col_step) in steps {
                let back =
                    |size: usize, step: isize| if step < 0 { (size - 1) * step.unsigned_abs() } else { 0 };
                let start = back(k, row_step) + back(n, col_step);
                let b = Matrix { data: &matrix, start, row_step, col_step };
                for x_step in [1, 2] {
                    let a = Matrix { data: &x, start: 0, row_step: 0, col_step: x_step };
                    for (onto, scale) in [(Onto::Nothing, 1.0), (Onto::Result, 3.0), (Onto::Row(&row), 3.0)] {
                        let p = Product { m: 1, n, k, a, b, kept: &[], summed: &[], scale };
                        let want = defined(&p, onto);
                        let what = format!("{n} results of {k}, steps {row_step}, {col_step} and {x_step}");
                        for level in [Level::Baseline, Level::Avx2, Level::Avx512] {
                            if level <= detected_level() {
                                let found = tile_of(&p, onto, |t| vector_at(t, level));
                                assert_eq!(found, want, "{what} at {level:?}");
                            }
                        }
                        let mut out = vec![3.0; n];
                        p.run(&mut out, onto);
                        assert_eq!(out, want, "{what}, cut");
                        let (a, b) = (b.transposed(), a.transposed());
                        let p = Product { m: n, n: 1, a, b, ..p };
                        let onto = if let Onto::Row(row) = onto { Onto::Row(&row[..1]) } else { onto };
                        let mut out = vec![3.0; n];
                        p.run(&mut out, onto);
                        assert_eq!(out, defined(&p, onto), "{what}, cut and transposed");
                    }
                }
            }
        }
    }

    /// Batches whose axes do not merge, from either side, with the bits of each product alone.
    #[test]
    fn products_of_a_batch_with_vectors_are_those_alone() {
        let data: Vec<f64> = (0..20_000).map(|i| ((i * 7919 + 13) % 1009) as f64 / 1009.0 - 0.5).collect();
        for (m, k) in [(8, 8), (3, 3), (1, 5), (5, 2), (9, 7), (4, 9)] {
            let (mi, ki) = (m as isize, k as isize);
            for (outer, inner, along) in
                [(1, 1, true), (3, 5, true), (20, 13, true), (3, 5, false), (20, 13, false)]
            {
                let axis = |size, a_step, b_step| BatchAxis { size, a_step, b_step };
                let kept = [axis(outer, 7, 0), axis(inner, mi * ki, ki)];
                let a = if along { row_major(&data, k) } else { row_major(&data, m).transposed() };
                let b = row_major(&data[100..], 1);
                let p = Product { m, n: 1, k, a, b, kept: &kept, summed: &[], scale: 2.0 };
                let turned = kept.map(|x| axis(x.size, x.b_step, x.a_step));
                let q = Product { m: 1, n: m, a: b.transposed(), b: a.transposed(), kept: &turned, ..p };
                for onto in [Onto::Nothing, Onto::Result] {
                    let (mut out, mut other) = (vec![3.0; outer * inner * m], vec![3.0; outer * inner * m]);
                    p.run(&mut out, onto);
                    q.run(&mut other, onto);
                    let mut alone = vec![3.0; out.len()];
                    for (i, alone) in alone.chunks_exact_mut(m).enumerate() {
                        let (from, to) = offsets(&kept, i);
                        let p = Product { a: a.moved(from, 0, 0), b: b.moved(to, 0, 0), kept: &[], ..p };
                        p.run(alone, onto);
                        let near = defined(&p, onto).iter().zip(&*alone).all(|(a, b)| (a - b).abs() < 1e-12);
                        assert!(near, "{m} by {k}");
                    }
                    assert!(out == alone && other == alone, "{outer} by {inner} of {m} by {k}, {along}");
                }
            }
        }
    }

    #[test]
    fn tiles_cover_the_result_and_large_ones_are_cut() {
        for (m, n, k) in [
            (1, 1, 1),
            (1000, 1, 9),
            (512, 512, 512),
            (3, 100_000, 64),
            (1 << 20, 64, 64),
            (64, 64, 1 << 20),
            (384, 300, 400),
        ] {
            for least in [1, 4, 8, 100] {
                let t = Tiles::new(m, n, k, least);
                assert_eq!(t.count, m.div_ceil(t.rows) * n.div_ceil(t.cols));
                assert!(t.rows <= m && t.cols <= n && t.rows * t.cols > 0);
            }
            if let Some(t) = Tiles::columns(m, n, k) {
                assert!(t.rows == m && t.cols < n && t.count == n.div_ceil(t.cols) && t.across == t.count);
            }
            let t = Tiles::new(m, n, k, TILES);
            assert!(m * n * k < 1 << 24 || k > 1 << 16 || t.count >= 4, "{m} x {n} x {k}: {t:?}");
        }
    }

    #[test]
    #[should_panic(expected = "reaches outside its buffer")]
    fn operands_outside_their_slices_are_refused() {
        let (a, b) = (numbers(6), numbers(5));
        product(2, 2, 3, &a, &b).run(&mut [0.0; 4], Onto::Nothing);
    }
}
