//! Products computed strip by strip, whatever the layout of the operands.
//!
//! Note [Blocks]
//! A tile is computed strip by strip: `W` columns of the right operand, a few hundred inner positions deep, stay in the
//! first-level cache while all rows of the left operand pass by. Where such a strip does not lie side by side it is laid
//! out first, by shuffles if the operand is transposed; so all layouts run at one speed. Of a strip's results a few rows
//! are kept in registers while the inner index runs, two registers of each where there are enough of them: one alone
//! would wait for its loads. With enough columns it pays to lay out the rows of the left operand too, in groups as high
//! as such a block: one pointer leads to all of them, and blocks can be higher. Then the first block copies the strip as it reads
//! it, and each inner position asks for a line of the next strip, if the matrix is large: products of 32 by 784 with 784 by 512
//! take 0.8 of the time that they take where all strips are laid out before, which waits for memory and computes in turn, of
//! 128 rows 0.92. Where sums are so short that a strip of four registers stays in the first-level cache, or rows are few, rows are read where they lie,
//! a few at a time. A bias is added as the sums of a block are written. A strip with fewer columns than its registers hold is read with what lies behind
//! them, and the columns that there are are written through a mask: 8 by 6000 with 12 take half of the time that they take where strips are laid out and blocks
//! computed aside, 6000 by 3 with 6 0.4, 64 by 784 with 10 0.85. Where sums are short, most of the time goes to the result: a strip is many blocks wide then, which
//! one call computes for a few rows, so that the result is written along them.

use super::pack::{pack, pack_groups};
use super::passes::Put;
use super::registers::{HIGH, LOW, POINTERS, Panel, WIDE, height};
use super::short::Dots;
use super::thin::ThinSums;
use super::{Matrix, Multiply, Onto, Out, Tile, row_major};
use crate::buffer::Room;
use crate::kernels::folds::Table;
use crate::kernels::lane::Float;
use crate::kernels::level::{Level, level};
use crate::kernels::transpose::{EIGHT, SIDE};
use crate::kernels::{Ahead, LINE};

/// Numbers whose products run in blocks.
pub(super) trait MulAdd: Multiply + Float {
    /// Computes a block of at most [`height`] rows.
    ///
    /// # Safety
    /// Every element that the block names may be read, and its results written; `level` is this processor's.
    unsafe fn compute(level: Level, block: &Panel<Self>);
    /// The dot product of each row with `x`.
    ///
    /// # Safety
    /// `level` is this processor's.
    unsafe fn dots(level: Level, out: &mut [Self], rows: Table<&[Self]>, x: &[Self], put: Put<Self>);
    /// The dot products of all vectors with all rows, those of the first vector first.
    ///
    /// # Safety
    /// `level` is this processor's.
    unsafe fn all_dots(level: Level, out: &mut [Self], rows: Table<&[Self]>, vectors: Table<&[Self]>);
    /// The dot products of rows of at most [`Multiply::SHORT`] elements, each with the vector of its matrix.
    ///
    /// # Safety
    /// `level` is this processor's.
    unsafe fn short_dots(level: Level, out: &mut [Self], dots: &Dots<'_, Self>, put: Put<Self>);
    /// The sums of rows of at most [`Multiply::LANES`] elements, each times an element of every row of `a`, of which there are so many.
    ///
    /// # Safety
    /// `level` is this processor's.
    unsafe fn thin_sums(level: Level, a: Matrix<'_, Self>, rows: usize, b: Table<&[Self]>) -> ThinSums<Self>;
    /// The sum of all rows, each times its element of `x`.
    ///
    /// # Safety
    /// `level` is this processor's.
    unsafe fn scaled_rows(level: Level, out: &mut [Self], rows: Table<&[Self]>, x: &[Self], put: Put<Self>);
    /// Writes sixteen rows of sixteen as columns: row `r` of the result starts at `out[r * stride]`. Rows are written in
    /// order, so that with a smaller stride each overwrites the end of the one before.
    fn transpose(rows: [&[Self; SIDE]; SIDE], out: &mut [Self], stride: usize);
}

/// Inner positions that are computed before the next ones: a strip of so many fits in the first-level cache.
pub(crate) const DEPTH: usize = 256;

/// An operand whose inner positions spread over at most so many elements is read where it lies.
const NEAR: usize = 16_384;

/// The same of a left operand whose rows lie beside each other: of each line of memory that is read, blocks of several rows need
/// their part soon. Gradients of a layer's weights, 64 by 64 of 1024 inner positions, take 0.85 of the time. Where one strip is all, it may spread three times as far: 256
/// by 300, transposed, with 32 take 0.75, 640 by 640 0.92.
const NEAR_LEFT: usize = 65_536;

/// Bytes of a right operand that the second-level cache may have: nothing is asked for then, which costs a twentieth of 7 by 300 with 300 by 300.
const NEAR_BYTES: usize = 1 << 19;

/// Inner positions up to which a strip of [`WIDE`] registers fits in the first-level cache. Rows of the left operand, few at a time, are read where
/// they lie: products of 1024 by 64 with 64 by 192 take 0.89 of the time that groups do, which have to be laid out. Of at most [`LOW`] rows a strip is
/// read once, however deep it is, and of two or three blocks of so many, the last of which has three at least, a few times, which takes 0.67 to 0.9 of
/// the time of strips half as wide: more of each row of the right operand lies side by side.
const SHALLOW: usize = 128;

/// Inner positions up to which a strip is many blocks wide, so that the result is written along its rows, and the elements of such a strip at most,
/// which stay in the second-level cache. With AVX2 (Zen 3) products of up to 32 inner positions take 0.2 to 0.8 of the time that strips of one block take,
/// of 33 to 128 0.35 to 1. With AVX-512 a strip of four registers is reason enough from 17 on; more was not measured.
fn along(level: Level) -> usize {
    if level == Level::Avx512 { 16 } else { 128 }
}
const ALONG_ROOM: usize = 1 << 16;

/// Rows from which on such a strip is laid out where nothing lies behind its last columns, and not cut in two.
const MANY_ROWS: usize = 32;

/// Strips and inner positions from which on laying out the rows of the left operand pays for higher blocks, and strips where its rows
/// would be read as they lie.
pub(super) const LARGE: (usize, usize) = (3, 32);
const MANY_STRIPS: usize = 9;

/// The product of a tile, at the level of this processor. `W` is the number of columns of a strip.
pub(super) fn blocked<T: MulAdd, const W: usize>(tile: Tile<'_, T>) {
    blocked_at::<T, W>(tile, level());
}

/// [`blocked`] at a level that this processor has.
pub(super) fn blocked_at<T: MulAdd, const W: usize>(mut tile: Tile<'_, T>, level: Level) {
    let (m, n, k) = (tile.m, tile.n, tile.k);
    let deepest = k.min(DEPTH);
    let spread = |step: isize| deepest.saturating_mul(step.unsigned_abs());
    let is_low = m <= LOW || m <= 3 * LOW && (m - 1) % LOW >= 2;
    let is_near = tile.a.col_step == 1 || spread(tile.a.col_step) <= NEAR;
    let is_wide = level == Level::Avx512 && (k <= SHALLOW || is_low) && n >= WIDE * W && is_near;
    let strips = if tile.a.col_step == 1 { MANY_STRIPS } else { LARGE.0 };
    let large =
        !is_wide && level == Level::Avx512 && m > height(level) && n >= strips * 2 * W && k >= LARGE.1;
    let height = if large { HIGH } else { height(level) };
    let span = if is_wide {
        WIDE * W
    } else if level == Level::Avx512 {
        2 * W
    } else {
        W
    };
    let most = if k <= along(level) { (ALONG_ROOM / k / span * span).max(span) } else { span };
    let near = m <= 2 * height || spread(tile.b.row_step) <= NEAR || most > span;
    let as_it_lies = tile.b.col_step == 1 && near;
    let far = tile.b.col_step == 1 && spread(tile.b.row_step) > NEAR;
    let asks = far && k.saturating_mul(tile.b.row_step.unsigned_abs() * size_of::<T>()) > NEAR_BYTES;
    let beside = tile.a.row_step == 1 && tile.a.col_step != 1;
    let near_left = if n <= span { 3 * NEAR_LEFT } else { NEAR_LEFT };
    let grouped = large || beside && n > W && spread(tile.a.col_step) > near_left;
    let mut groups: Option<Room<T>> = grouped.then(|| Room::new(m.div_ceil(height) * apart(height, deepest)));
    let panel_room = n.min(most).div_ceil(span) * apart(span, deepest) + span * EIGHT;
    let (mut panel, mut copy): (Option<Room<T>>, Option<Room<T>>) = (None, None);
    for from in (0..k).step_by(DEPTH) {
        let depth = (k - from).min(DEPTH);
        let mut a = tile.a.moved(0, 0, from);
        if let Some(groups) = &mut groups {
            pack_groups(&a, m, depth, groups.as_mut_slice(), (height, apart(height, depth)));
            a = row_major(groups.as_slice(), height).transposed();
        }
        let mut col = 0;
        while col < n {
            let registers = match n - col {
                rest if is_wide && rest >= WIDE * W => WIDE,
                rest if level == Level::Avx512 && rest > W => 2,
                _ => 1,
            };
            let width = registers * W;
            let rest = (n - col).min(most);
            let mut b = tile.b.moved(0, from, col);
            // Behind the columns of a row there may be anything, if it is there: these sums are not written.
            let is_whole = |width| b.rest().len().min(b.moved(0, depth - 1, 0).rest().len()) >= width;
            let is_cut =
                registers > 1 || as_it_lies && m < MANY_ROWS && !is_whole(rest.next_multiple_of(width));
            let wide = if is_cut { (rest / width * width).max(rest.min(width)) } else { rest };
            let height = if registers == WIDE { LOW } else { height };
            let next = col + wide;
            let next = (asks && next < n).then(|| tile.b.moved(0, from, next));
            // The first block copies it.
            let is_copied =
                (large || level == Level::Avx512 && !grouped) && far && !as_it_lies && wide == 2 * W;
            let mut b_apart = width;
            if !(is_copied || as_it_lies && is_whole(wide.next_multiple_of(width))) {
                let panel = panel.get_or_insert_with(|| Room::new(panel_room));
                b_apart = apart(width, depth);
                for (number, c) in (0..wide).step_by(width).enumerate() {
                    let out = &mut panel.as_mut_slice()[number * b_apart..];
                    pack(&b.moved(0, 0, c), depth, (wide - c).min(width), out, width);
                }
                b = row_major(panel.as_slice(), width);
            }
            let scale = tile.scale;
            let strip = Strip {
                m,
                depth,
                a,
                grouped,
                height,
                b,
                places: None,
                width,
                b_apart,
                cols: wide,
                registers,
                scale,
                level,
                next,
            };
            if is_copied {
                let copy = copy.get_or_insert_with(|| Room::new(panel_room));
                strip.run_with(&mut tile.out, col, tile.onto, None, Some(copy.as_mut_slice()));
            } else {
                strip.run(&mut tile.out, col, tile.onto);
            }
            col += wide;
        }
        tile.onto = Onto::Result;
    }
}

/// How far groups of `height` rows are laid out from one another: not a power of two, which would send all of them to
/// the same few lines of the cache.
pub(super) fn apart(height: usize, depth: usize) -> usize {
    height * depth + 16
}

/// Where the lines of a strip begin, counted from its first element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places<'a> {
    starts: &'a [usize],
    /// the one that is furthest
    last: usize,
}

impl<'a> Places<'a> {
    pub(crate) fn new(starts: &'a [usize]) -> Places<'a> {
        Places { starts, last: starts.iter().copied().max().unwrap_or(0) }
    }

    pub(crate) fn starts(self) -> &'a [usize] {
        self.starts
    }
}

/// A strip of some columns of the right operand, and the rows that are multiplied with it.
pub(super) struct Strip<'a, T> {
    pub(super) m: usize,
    pub(super) depth: usize,
    pub(super) a: Matrix<'a, T>,
    /// whether the rows of `a` were laid out in groups, one per block
    pub(super) grouped: bool,
    /// rows of a block
    pub(super) height: usize,
    pub(super) b: Matrix<'a, T>,
    /// where its lines begin, if that is not a step apart; its rows are in groups then
    pub(super) places: Option<Places<'a>>,
    /// columns of a block
    pub(super) width: usize,
    /// from one block's lines to the next one's
    pub(super) b_apart: usize,
    /// columns that the result has, the first ones
    pub(super) cols: usize,
    /// of 64 bytes, side by side in a block
    pub(super) registers: usize,
    pub(super) scale: T,
    pub(super) level: Level,
    /// the next strip, as it lies, whose lines are asked for meanwhile, if this one is two registers wide
    pub(super) next: Option<Matrix<'a, T>>,
}

impl<T: MulAdd> Strip<'_, T> {
    /// All rows of the result's columns from `col` on.
    pub(super) fn run(&self, out: &mut Out<'_, T>, col: usize, onto: Onto<'_, T>) {
        self.run_with(out, col, onto, None, None);
    }

    /// [`Strip::run`] with a step of `ahead` for each block, and a place that the first block, two registers wide, copies the
    /// strip to as it reads it: the others read it there.
    pub(super) fn run_with(
        &self,
        out: &mut Out<'_, T>,
        col: usize,
        onto: Onto<'_, T>,
        ahead: Option<&Ahead>,
        copy: Option<&mut [T]>,
    ) {
        let height = self.height;
        assert!(out.rows == self.m && col + self.cols <= out.cols);
        let is_one = self.cols <= self.width;
        let b = self.b.moved(((self.cols - 1) / self.width * self.b_apart) as isize, 0, 0);
        let last = match self.places {
            None => b.moved(0, self.depth - 1, 0).rest(),
            Some(places) => {
                let have_places = places.starts.len() >= self.depth && self.grouped && is_one;
                assert!(have_places, "each line has its place");
                &b.rest()[places.last..]
            }
        };
        assert!(b.rest().len().min(last.len()) >= self.width, "a block is as wide as its registers");
        if self.grouped {
            let last = self.a.moved(((self.m - 1) / height * apart(height, self.depth)) as isize, 0, 0);
            assert!(last.rest().len() >= height * self.depth, "groups are whole");
        }
        if let Onto::Row(row) = onto {
            assert!(row.len() >= col + self.cols, "a row is as long as the result is wide");
        }
        if let Some(copy) = &copy {
            assert!(copy.len() >= self.depth * self.width && is_one, "a copy has room for the strip");
            let height = if self.grouped { HIGH } else { POINTERS };
            assert!(self.height == height && self.registers == 2 && self.level == Level::Avx512);
        }
        let row = |r: usize| self.a.moved(0, if self.grouped { 0 } else { r.min(self.m - 1) }, 0).pointer();
        let mut block = Panel {
            depth: self.depth,
            live: height,
            grouped: self.grouped,
            rows: std::array::from_fn(row),
            a_step: self.a.col_step,
            b: self.b.pointer(),
            b_step: self.b.row_step,
            b_apart: self.b_apart,
            copy: copy.map_or(std::ptr::null_mut(), |copy| copy.as_mut_ptr()),
            places: self.places.map_or(std::ptr::null(), |places| places.starts.as_ptr()),
            registers: self.registers,
            cols: self.cols,
            out: out.place(0, col),
            stride: out.stride,
            onto: match onto {
                Onto::Nothing => std::ptr::null(),
                Onto::Result => out.place(0, col),
                Onto::Row(row) => row[col..].as_ptr(),
            },
            onto_stride: if onto == Onto::Result { out.stride } else { 0 },
            scale: self.scale,
            ahead: self.b.pointer(),
            ahead_step: 0,
        };
        // Where the next block begins is told by steps alone: blocks of short sums are many.
        let a_apart = match self.grouped {
            true => apart(height, self.depth) as isize,
            false => height as isize * self.a.row_step,
        };
        for (number, row) in (0..self.m).step_by(height).enumerate() {
            (block.ahead, block.ahead_step) = self.asked_by(number);
            if let Some(ahead) = ahead {
                ahead.step();
            }
            block.live = (self.m - row).min(height);
            if block.live < height && !self.grouped {
                let last = block.rows[block.live - 1];
                block.rows[block.live..].fill(last);
            }
            // SAFETY: `Product::run` has checked the rows and columns of the operands, and what was laid out has room
            // for whole groups of them; the result has these rows and columns, and a row that they are added to these columns,
            // by the assertions, and so has the copy room; `level` is this processor's.
            unsafe { T::compute(self.level, &block) };
            if !block.copy.is_null() {
                (block.b, block.b_step) = (block.copy, self.width as isize);
                block.copy = std::ptr::null_mut();
            }
            block.rows = block.rows.map(|row| row.wrapping_offset(a_apart));
            block.out = block.out.wrapping_add(height * block.stride);
            block.onto = block.onto.wrapping_add(height * block.onto_stride);
        }
    }

    /// What the block of this number asks for: a line of each row of the next strip, as long as there are some, else what it reads anyway.
    fn asked_by(&self, number: usize) -> (*const T, isize) {
        match self.next {
            // One more than a strip is wide, as it may begin within one.
            Some(next) if number <= self.registers => {
                (next.pointer().wrapping_add(number * (LINE / size_of::<T>())), next.row_step)
            }
            _ => (self.b.pointer(), 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::marker::PhantomData;

    use super::super::ProductWay;
    use super::*;
    use crate::kernels::level::detected_level;

    /// Whole numbers, whose sums are exact in any order, among numbers that are none: what lies behind rows is neither summed nor written.
    fn columns_are_those_there_are<T: MulAdd, const W: usize>() {
        let of = |i: usize| T::of(((i * 37 + 5) % 17) as f64 - 8.0);
        // Rows of `cols` elements, and as many others behind each but the last.
        let among = |rows: usize, cols: usize, more: usize, seed: usize| -> Vec<T> {
            let line = |r: usize| {
                (0..cols + more)
                    .map(move |c| if c < cols { of(seed + r * cols + c) } else { T::of(f64::NAN) })
            };
            (0..rows).flat_map(line).take(rows * (cols + more) - more).collect()
        };
        for n in [1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 40, 63, 530] {
            for (m, k, more) in [(1, 1, 0), (3, 5, 1), (9, 128, 0), (35, 16, 0), (13, 300, 40)] {
                let (a, b, row) = (among(m, k, 2, 3), among(k, n, more, 11), among(1, n, 0, 29));
                let a = Matrix { row_step: (k + 2) as isize, ..row_major(&a, k) };
                let b = row_major(&b, n + more);
                for level in [Level::Baseline, Level::Avx2, Level::Avx512] {
                    for onto in [Onto::Nothing, Onto::Result, Onto::Row(&row)] {
                        if level > detected_level() {
                            continue;
                        }
                        let (stride, scale) = (n + 3, T::of(2.0));
                        let mut all = vec![T::of(5.0); m * stride];
                        let out =
                            Out { start: all.as_mut_ptr(), stride, rows: m, cols: n, life: PhantomData };
                        let way = ProductWay::Blocks;
                        blocked_at::<T, W>(Tile { m, n, k, a, b, out, scale, onto, way }, level);
                        for (i, &found) in all.iter().enumerate() {
                            let (r, c) = (i / stride, i % stride);
                            let mut want = match onto {
                                Onto::Nothing => T::of(0.0),
                                Onto::Row(row) if c < n => row[c],
                                _ => T::of(5.0),
                            };
                            for p in 0..if c < n { k } else { 0 } {
                                want = want + scale * a.moved(0, r, p).rest()[0] * b.moved(0, p, c).rest()[0];
                            }
                            let want = if c < n { want } else { T::of(5.0) };
                            assert!(
                                found == want,
                                "{m} x {n} x {k} at {r}, {c}, {level:?}: {found:?}, not {want:?}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn odd_columns_are_computed_and_nothing_else() {
        columns_are_those_there_are::<f32, 16>();
        columns_are_those_there_are::<f64, 8>();
    }
}
