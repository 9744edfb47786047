//! Matrix products: the door to `gemm`, cut into tiles that do not depend on threads, and loops of our own for sizes
//! that are too small for it.
//!
//! Note [The bits of a product]
//! `gemm` is called on one thread per tile, and the tiles follow from the sizes of the product and the layout of its
//! operands alone. Each element is written by one tile, whose additions happen in one order, so a product has the same
//! bits for any number of threads. Long inner sizes with few results are cut into parts, added up in order.

use std::marker::PhantomData;

use super::level::{Level, level};
use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::threads::split_work;

/// A matrix in a slice: the place of its first element and the steps along rows and columns, of any sign or zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix<'a, T> {
    pub(crate) data: &'a [T],
    pub(crate) start: usize,
    /// from one row to the next
    pub(crate) row_step: isize,
    /// from one column to the next
    pub(crate) col_step: isize,
}

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
    /// whether to add to what is there
    add: bool,
}

/// Products of at most this many multiplications are one task.
const TASK: usize = 1 << 21;

/// Rows and columns of a tile of a large product: multiples of what `gemm` keeps in registers at every level.
const TILE_ROWS: usize = 192;
const TILE_COLS: usize = 256;

/// Multiplications per part where the inner size is cut.
const PART: usize = 1 << 22;

/// Parts that an inner size is cut into at most.
const MAX_PARTS: usize = 16;

/// How a result of `m` by `n` is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tiles {
    rows: usize,
    cols: usize,
    /// tiles from left to right
    across: usize,
    count: usize,
}

impl Tiles {
    fn new(m: usize, n: usize, k: usize) -> Tiles {
        let work = |rows: usize, cols: usize| rows.saturating_mul(cols).saturating_mul(k);
        let (mut rows, mut cols) = (m, n);
        if work(m, n) > TASK {
            // Whole columns are kept while the rows alone make enough tiles.
            rows = m.min(TILE_ROWS);
            cols = n.min(TILE_COLS);
            while work(rows, cols) > 2 * PART && (rows > TILE_ROWS / 2 || cols > TILE_COLS / 2) {
                if rows > TILE_ROWS / 2 { rows = TILE_ROWS / 2 } else { cols = TILE_COLS / 2 }
            }
            while work(rows, cols) > 2 * TASK && cols > 64 && rows < TILE_ROWS / 2 {
                cols = (cols / 2).next_multiple_of(64);
            }
            while work(rows, cols) < TASK && (rows < m || cols < n) {
                if cols < n { cols = (2 * cols).min(n) } else { rows = (2 * rows).min(m) }
            }
        }
        let across = n.div_ceil(cols.max(1)).max(1);
        Tiles { rows, cols, across, count: across * m.div_ceil(rows.max(1)).max(1) }
    }
}

impl<T: Multiply> Product<'_, T> {
    /// Computes the result into `out`, or adds it to what is there.
    ///
    /// # Panics
    /// If an operand would be read, or the result written, outside its slice.
    pub(crate) fn run(&self, out: &mut [T], add: bool) {
        let items: usize = self.kept.iter().map(|a| a.size).product();
        let depth: usize = self.summed.iter().map(|a| a.size).product();
        assert_eq!(out.len(), items * self.m * self.n, "the result has the size of its shape");
        if out.is_empty() {
            return;
        }
        if self.k == 0 || depth == 0 {
            if !add {
                out.fill(T::default());
            }
            return;
        }
        self.check();
        let whole = Out {
            start: out.as_mut_ptr(),
            stride: self.n,
            rows: items * self.m,
            cols: self.n,
            life: PhantomData,
        };
        let (m, n, k) = (self.m, self.n, self.k);
        if items == 1 && depth == 1 && m.saturating_mul(n).saturating_mul(k) <= TASK {
            // `out` is not used again, and this is its only part.
            return T::multiply(Tile { m, n, k, a: self.a, b: self.b, out: whole, scale: self.scale, add });
        }
        let tiles = Tiles::new(m, n, k);
        let parts = self.parts(items * tiles.count);
        if parts == 1 {
            return self.tiles(&tiles, items, 0, self.k, out, add);
        }
        self.in_parts(&tiles, items, parts, out, add);
    }

    /// How many parts to cut the inner size into, so that few results of much work make several tasks.
    fn parts(&self, tasks: usize) -> usize {
        let work = self.m.saturating_mul(self.n).saturating_mul(self.k);
        if tasks >= MAX_PARTS {
            1
        } else {
            (work / PART).min(self.k / 256).clamp(1, (MAX_PARTS / tasks).max(1))
        }
    }

    /// Computes every part of the inner size into memory of its own and adds them up in order.
    fn in_parts(&self, tiles: &Tiles, items: usize, parts: usize, out: &mut [T], add: bool) {
        let n = out.len();
        let chunk = self.k.div_ceil(parts).next_multiple_of(16);
        let parts = self.k.div_ceil(chunk);
        let mut partial: Buffer<T> = Buffer::stale((parts - 1) * n);
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
                self.tiles(tiles, items, from, to, piece[0], add && part == 0);
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
    fn tiles(&self, tiles: &Tiles, items: usize, from: usize, to: usize, out: &mut [T], add: bool) {
        let k = to - from;
        let depth: usize = self.summed.iter().map(|a| a.size).product();
        let work = tiles.rows.saturating_mul(tiles.cols).saturating_mul(k).saturating_mul(depth);
        let grain = (TASK / work.max(1)).max(1);
        let whole = Out {
            start: out.as_mut_ptr(),
            stride: self.n,
            rows: items * self.m,
            cols: self.n,
            life: PhantomData,
        };
        split_work(items * tiles.count, grain, (), &|(), _| ((), ()), &|start, len, ()| {
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
                    T::multiply(Tile { m, n, k, a, b, out, scale: self.scale, add: add || position > 0 });
                }
            }
        });
    }

    /// Refuses operands that reach outside their slices.
    fn check(&self) {
        let batch = || self.kept.iter().chain(self.summed);
        self.a.check(batch().map(|x| (x.size, x.a_step)), self.m, self.k);
        self.b.check(batch().map(|x| (x.size, x.b_step)), self.k, self.n);
    }
}

impl<'a, T: Copy> Matrix<'a, T> {
    /// The matrix that starts `by` elements further and then at this row and column.
    fn moved(&self, by: isize, row: usize, col: usize) -> Matrix<'a, T> {
        let start = self.start as isize + by + row as isize * self.row_step + col as isize * self.col_step;
        Matrix { start: start as usize, ..*self }
    }

    /// The same elements with rows and columns exchanged.
    pub(crate) fn transposed(self) -> Matrix<'a, T> {
        Matrix { row_step: self.col_step, col_step: self.row_step, ..self }
    }

    /// Panics unless all elements of a batch of these matrices lie in the slice.
    fn check(&self, batch: impl Iterator<Item = (usize, isize)>, rows: usize, cols: usize) {
        let (mut low, mut high) = (self.start as i128, self.start as i128);
        for (size, step) in batch.chain([(rows, self.row_step), (cols, self.col_step)]) {
            let reach = (size as i128 - 1) * step as i128;
            if reach < 0 { low += reach } else { high += reach }
        }
        assert!(
            0 <= low && high < self.data.len() as i128,
            "an operand of a product reaches outside its buffer"
        );
    }

    /// The element at a row and a column.
    ///
    /// # Safety
    /// It lies in the slice.
    #[inline(always)]
    unsafe fn at(&self, row: usize, col: usize) -> T {
        let i = self.start as isize + row as isize * self.row_step + col as isize * self.col_step;
        debug_assert!((i as usize) < self.data.len());
        // SAFETY: as promised by the caller.
        unsafe { *self.data.get_unchecked(i as usize) }
    }

    /// Where the matrix begins.
    fn pointer(&self) -> *const T {
        self.data[self.start..].as_ptr()
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

/// A rectangle of a row-major result that one task writes.
struct Out<'a, T> {
    start: *mut T,
    /// from one row to the next
    stride: usize,
    rows: usize,
    cols: usize,
    life: PhantomData<&'a mut [T]>,
}

// SAFETY: it stands for an exclusive borrow of its elements, and shared it only hands out parts through `part`, whose
// callers see to it that they are apart.
unsafe impl<T: Send> Sync for Out<'_, T> {}

impl<T> Out<'_, T> {
    /// The rectangle of `rows` by `cols` from this row and column on.
    ///
    /// # Safety
    /// No two rectangles that are used at the same time overlap.
    unsafe fn part(&self, row: usize, col: usize, rows: usize, cols: usize) -> Out<'_, T> {
        assert!(row + rows <= self.rows && col + cols <= self.cols);
        // SAFETY: the first element is inside the rectangle, by the assertion (rows and columns are not zero).
        let start = unsafe { self.start.add(row * self.stride + col) };
        Out { start, stride: self.stride, rows, cols, life: PhantomData }
    }

    /// One row.
    #[inline(always)]
    fn row(&mut self, i: usize) -> &mut [T] {
        assert!(i < self.rows);
        // SAFETY: a row of the rectangle is `cols` neighbouring elements of the result, which this task alone writes.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(i * self.stride), self.cols) }
    }
}

/// Products of at most this many multiplications go to the loops of this file instead of `gemm`.
const SMALL: usize = 32 * 32 * 32;

/// The longest inner size that those loops take.
const SMALL_DEPTH: usize = 1024;

/// Rows up to which `gemm` had better make the transposed result than read a right operand across its columns.
const FEW_ROWS: usize = 16;

/// Inner positions that are laid out at once where the right operand is transposed.
const PACK: usize = 256;

macro_rules! float_multiply {
    ($t:ident, $width:literal) => {
        impl Multiply for $t {
            fn of_count(n: usize) -> $t {
                n as $t
            }
            #[inline(always)]
            fn plus(a: $t, b: $t) -> $t {
                a + b
            }
            #[inline]
            fn multiply(tile: Tile<'_, $t>) {
                multiply_float::<$t, $width>(tile, 1.0);
            }
        }
        impl Fused for $t {
            #[inline(always)]
            fn fused<const FMA: bool>(a: $t, b: $t, c: $t) -> $t {
                if FMA { a.mul_add(b, c) } else { a * b + c }
            }
        }
    };
}
float_multiply!(f32, 16);
float_multiply!(f64, 8);

/// Picks the way to compute a tile from its sizes and the layout of its operands.
fn multiply_float<T: Fused, const W: usize>(tile: Tile<'_, T>, one: T) {
    let (m, n, k) = (tile.m, tile.n, tile.k);
    let tiny = m * n * k <= SMALL && k <= SMALL_DEPTH && tile.scale == one;
    let across = tile.b.row_step == 1 && tile.b.col_step != 1;
    if n == 1 || m == 1 || k <= 2 {
        if tiny && m == 1 && tile.b.col_step == 1 { small::<T, W>(tile) } else { gemm_tile(tile, one) }
    } else if tile.b.col_step == 1 {
        if tiny { small::<T, W>(tile) } else { gemm_tile(tile, one) }
    } else if across && tiny && m >= 4 {
        let mut packed = Buffer::stale(k * n);
        pack(&tile.b, k, n, packed.as_mut_slice());
        small::<T, W>(Tile { b: row_major(packed.as_slice(), n), ..tile });
    } else if across && !tiny && m <= FEW_ROWS {
        transposed_result(tile, one);
    } else if across && !tiny {
        packed_right(tile, one);
    } else {
        gemm_tile(tile, one);
    }
}

/// A row-major matrix of `cols` columns.
fn row_major<T>(data: &[T], cols: usize) -> Matrix<'_, T> {
    Matrix { data, start: 0, row_step: cols as isize, col_step: 1 }
}

/// A product whose right operand is transposed, laid out a few hundred rows at a time: `gemm` would read it across.
fn packed_right<T: Fused>(mut tile: Tile<'_, T>, one: T) {
    let (n, k) = (tile.n, tile.k);
    let mut packed = Buffer::stale(k.min(PACK) * n);
    let mut from = 0;
    while from < k {
        let depth = (k - from).min(PACK);
        pack(&tile.b.moved(0, from, 0), depth, n, packed.as_mut_slice());
        let out = Out { life: PhantomData, ..tile.out };
        let (a, b) = (tile.a.moved(0, 0, from), row_major(packed.as_slice(), n));
        gemm_tile(Tile { m: tile.m, n, k: depth, a, b, out, scale: tile.scale, add: tile.add }, one);
        tile.add = true;
        from += depth;
    }
}

/// A product of few rows whose right operand is transposed: its transpose, whose columns are then written as rows.
fn transposed_result<T: Fused>(mut tile: Tile<'_, T>, one: T) {
    let (m, n) = (tile.m, tile.n);
    let mut columns: Buffer<T> = Buffer::stale(m * n);
    let out =
        Out { start: columns.as_mut_slice().as_mut_ptr(), stride: m, rows: n, cols: m, life: PhantomData };
    let (a, b) = (tile.b.transposed(), tile.a.transposed());
    gemm_tile(Tile { m: n, n: m, k: tile.k, a, b, out, scale: tile.scale, add: false }, one);
    let columns = columns.as_slice();
    for i in 0..m {
        let add = tile.add;
        for (o, c) in tile.out.row(i).iter_mut().zip(columns[i..].iter().step_by(m)) {
            *o = if add { T::plus(*o, *c) } else { *c };
        }
    }
}

/// Copies a matrix whose rows are neighbours in memory (a transposed one) into row-major order, in squares that fit in
/// the first-level cache.
fn pack<T: Element>(b: &Matrix<'_, T>, rows: usize, cols: usize, out: &mut [T]) {
    debug_assert_eq!(b.row_step, 1);
    const SIDE: usize = 16;
    let column = |c: usize, row: usize, len: usize| {
        let at = (b.start as isize + c as isize * b.col_step) as usize + row;
        &b.data[at..at + len]
    };
    let mut square = [[T::default(); SIDE]; SIDE];
    for row in (0..rows).step_by(SIDE) {
        let high = (rows - row).min(SIDE);
        for col in (0..cols).step_by(SIDE) {
            let wide = (cols - col).min(SIDE);
            if high == SIDE && wide == SIDE {
                for c in 0..SIDE {
                    let from: &[T; SIDE] =
                        column(col + c, row, SIDE).try_into().expect("a slice of that length");
                    for (line, &v) in square.iter_mut().zip(from) {
                        line[c] = v;
                    }
                }
                for (r, line) in square.iter().enumerate() {
                    out[(row + r) * cols + col..][..SIDE].copy_from_slice(line);
                }
            } else {
                for c in col..col + wide {
                    for (r, &v) in column(c, row, high).iter().enumerate() {
                        out[(row + r) * cols + c] = v;
                    }
                }
            }
        }
    }
}

/// One call of `gemm` on this thread.
fn gemm_tile<T: Element>(t: Tile<'_, T>, one: T) {
    assert!(t.out.rows == t.m && t.out.cols == t.n);
    // SAFETY: `out` is a rectangle of m by n elements that this task alone writes; `Product::run` has checked that all
    // elements of the operands lie in their slices, and shared slices do not overlap an exclusive one. `gemm` takes
    // steps of any sign, or zero, for its operands, and `T` is f32 or f64.
    unsafe {
        gemm::gemm(
            t.m,
            t.n,
            t.k,
            t.out.start,
            1,
            t.out.stride as isize,
            t.add,
            t.a.pointer(),
            t.a.col_step,
            t.a.row_step,
            t.b.pointer(),
            t.b.col_step,
            t.b.row_step,
            one,
            t.scale,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

/// Numbers with a multiply-add that is fused where the loop is compiled for it.
trait Fused: Multiply {
    fn fused<const FMA: bool>(a: Self, b: Self, c: Self) -> Self;
}

/// A small product, at the level of this processor. `W` is the number of columns kept in one wide register.
fn small<T: Fused, const W: usize>(tile: Tile<'_, T>) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        fn avx2<T: Fused, const W: usize>(tile: Tile<'_, T>) {
            small_body::<true, T, W>(tile)
        }
        #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
        fn avx512<T: Fused, const W: usize>(tile: Tile<'_, T>) {
            small_body::<true, T, W>(tile)
        }
        match level() {
            // SAFETY: `level` never exceeds what was detected on this processor, and `Avx512` is only detected where
            // every feature named above is present.
            Level::Avx512 => return unsafe { avx512::<T, W>(tile) },
            // SAFETY: as above, for AVX2 and FMA.
            Level::Avx2 => return unsafe { avx2::<T, W>(tile) },
            Level::Baseline => {}
        }
    }
    small_body::<false, T, W>(tile)
}

#[inline(always)]
fn small_body<const FMA: bool, T: Fused, const W: usize>(mut tile: Tile<'_, T>) {
    debug_assert_eq!(tile.b.col_step, 1);
    let (n, mut col) = (tile.n, 0);
    while n - col >= W {
        let b = tile.b.moved(0, 0, col);
        columns::<FMA, T, W>(&mut tile, b, col);
        col += W;
    }
    if col < n {
        last_columns::<FMA, T, W>(&mut tile, col);
    }
}

/// The columns from `col` on, fewer than `W`: filled up to a whole register, and cut off again.
#[inline(always)]
fn last_columns<const FMA: bool, T: Fused, const W: usize>(tile: &mut Tile<'_, T>, col: usize) {
    let (m, k, rest) = (tile.m, tile.k, tile.n - col);
    let mut wide: Buffer<T> = Buffer::stale(k * W);
    for (p, line) in wide.as_mut_slice().chunks_exact_mut(W).enumerate() {
        let at = (tile.b.start as isize + p as isize * tile.b.row_step) as usize + col;
        for (c, v) in line.iter_mut().enumerate() {
            *v = if c < rest { tile.b.data[at + c] } else { T::default() };
        }
    }
    let mut results: Buffer<T> = Buffer::stale(m * W);
    let out =
        Out { start: results.as_mut_slice().as_mut_ptr(), stride: W, rows: m, cols: W, life: PhantomData };
    let b = row_major(wide.as_slice(), W);
    columns::<FMA, T, W>(&mut Tile { m, n: W, k, a: tile.a, b, out, scale: tile.scale, add: false }, b, 0);
    for (i, line) in results.as_slice().chunks_exact(W).enumerate() {
        for (o, &s) in tile.out.row(i)[col..].iter_mut().zip(line) {
            *o = if tile.add { T::plus(*o, s) } else { s };
        }
    }
}

/// Rows that are computed together: with two sums of `W` columns in flight per multiplier, they hide its latency.
const ROWS: usize = 6;

/// All rows of `W` columns of the result from `col` on, where `b` starts.
///
/// The last rows are computed as often as it takes to make six: one shape of loop, which the compiler vectorises, is
/// faster than several.
#[inline(always)]
fn columns<const FMA: bool, T: Fused, const W: usize>(tile: &mut Tile<'_, T>, b: Matrix<'_, T>, col: usize) {
    let mut row = 0;
    while row < tile.m {
        block::<FMA, T, W>(tile, b, row, col);
        row += ROWS;
    }
}

/// Six rows of `W` results, kept in registers while the inner index runs. Six arrays rather than one of six, because
/// the compiler keeps what is indexed by a loop it does not unroll in memory.
#[inline(always)]
fn block<const FMA: bool, T: Fused, const W: usize>(tile: &mut Tile<'_, T>, b: Matrix<'_, T>, row: usize, col: usize) {
    let (a, last) = (tile.a, tile.m - 1);
    let none = [T::default(); W];
    let (mut s0, mut s1, mut s2, mut s3, mut s4, mut s5) = (none, none, none, none, none, none);
    for p in 0..tile.k {
        let at = (b.start as isize + p as isize * b.row_step) as usize;
        let line: [T; W] = b.data[at..at + W].try_into().expect("a slice of that length");
        // SAFETY: `Product::run` has checked the rows 0..m and the columns 0..k of the left operand.
        let left = |r: usize| unsafe { a.at((row + r).min(last), p) };
        s0 = step::<FMA, T, W>(left(0), &line, s0);
        s1 = step::<FMA, T, W>(left(1), &line, s1);
        s2 = step::<FMA, T, W>(left(2), &line, s2);
        s3 = step::<FMA, T, W>(left(3), &line, s3);
        s4 = step::<FMA, T, W>(left(4), &line, s4);
        s5 = step::<FMA, T, W>(left(5), &line, s5);
    }
    put(tile, row, col, s0);
    put(tile, row + 1, col, s1);
    put(tile, row + 2, col, s2);
    put(tile, row + 3, col, s3);
    put(tile, row + 4, col, s4);
    put(tile, row + 5, col, s5);
}

/// Writes or adds a piece of a row, if there is such a row.
#[inline(always)]
fn put<T: Fused, const W: usize>(tile: &mut Tile<'_, T>, row: usize, col: usize, sums: [T; W]) {
    if row < tile.m {
        let add = tile.add;
        let out: &mut [T; W] = (&mut tile.out.row(row)[col..col + W]).try_into().expect("a slice of that length");
        *out = if add { std::array::from_fn(|c| T::plus(out[c], sums[c])) } else { sums };
    }
}

/// `a * line + sums`
#[inline(always)]
fn step<const FMA: bool, T: Fused, const W: usize>(a: T, line: &[T; W], sums: [T; W]) -> [T; W] {
    std::array::from_fn(|c| T::fused::<FMA>(a, line[c], sums[c]))
}

impl Multiply for i64 {
    fn of_count(n: usize) -> i64 {
        n as i64
    }
    #[inline(always)]
    fn plus(a: i64, b: i64) -> i64 {
        a.wrapping_add(b)
    }
    /// Row by row; integer products have no order to keep, so the compiler may vectorise along the columns.
    fn multiply(mut tile: Tile<'_, i64>) {
        for i in 0..tile.m {
            let (a, b) = (tile.a, tile.b);
            let row = tile.out.row(i);
            if !tile.add {
                row.fill(0);
            }
            for p in 0..tile.k {
                // SAFETY: `Product::run` has checked all rows and columns of the operands.
                let left = unsafe { a.at(i, p) }.wrapping_mul(tile.scale);
                if b.col_step == 1 {
                    let start = (b.start as isize + p as isize * b.row_step) as usize;
                    for (o, &v) in row.iter_mut().zip(&b.data[start..start + tile.n]) {
                        *o = o.wrapping_add(left.wrapping_mul(v));
                    }
                } else {
                    for (j, o) in row.iter_mut().enumerate() {
                        // SAFETY: as above.
                        *o = o.wrapping_add(left.wrapping_mul(unsafe { b.at(p, j) }));
                    }
                }
            }
        }
    }
}
