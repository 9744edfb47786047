//! Products with few columns or rows, and many inner positions: the dot products of rows with a few vectors.
//!
//! Note [Few vectors]
//! A strip of blocks (Note [Blocks]) is as wide as a register, most of which a few columns would leave empty, and has to be laid out where
//! inner positions are neighbours, which pays only for many rows; here a register holds inner positions. Four rows meet four vectors at a
//! time, so that each register that is read is used four times. As with a vector, what an element is made of depends on the sizes and
//! steps of the product alone.

use super::block::MulAdd;
use super::passes::{Put, plain_dots};
#[cfg(target_arch = "x86_64")]
use super::passes::{f32_avx2_part, f32_avx512_part, f64_avx2_part, f64_avx512_part};
#[cfg(target_arch = "x86_64")]
use super::short::{tree_f32, tree_f64};
use super::{Matrix, Multiply, Onto, ProductWay, Tile, row_major};
use crate::buffer::Room;
#[cfg(target_arch = "x86_64")]
use crate::kernels::each;
use crate::kernels::folds::Table;
use crate::kernels::lay_out::lay_out;
use crate::kernels::level::Level;

/// Columns or rows that are few, however they lie.
pub(super) const FEW: usize = 4;

/// Rows that are few where inner positions of the right operand are neighbours, as in a layer that is given a small batch: blocks would have to lay
/// that out for them. 8 by 784 with 128 take 0.54 of the time of blocks, 16 by 256 with 64 0.73, 32 by 784 with 128 0.96.
pub(super) const FEW_IN_ORDER: usize = 32;

/// Columns that are few where rows lie in order: blocks would leave a quarter of a register empty. 1000 by 256 with 8 take 0.68 of their time,
/// 129 by 6000 with 6 0.62; in `f64` six columns take 1.07 to 1.24.
pub(super) fn few_columns<T: Multiply>() -> usize {
    if T::LANES > FEW { 3 * FEW } else { FEW }
}

/// Inner positions for each of these rows or columns, at least: the lanes of each result have to be added up.
pub(super) const DEPTH_OF_EACH: usize = 16;

/// Rows of a task, at least: each may have to lay the vectors out.
pub(super) const LAID_FOR: usize = 128;

/// Inner positions from which on it pays.
pub(super) const DEEP: usize = 64;

/// Inner positions that are summed before the next ones: four rows of them stay in the first-level cache for all vectors. 4 by 25,000 with 4 of them transposed take
/// 0.75 of the time that four times as many do, with half as many two rows with two 1.27.
const DEPTH: usize = 1024;

/// Rows that meet vectors at once.
#[cfg(target_arch = "x86_64")]
const AT_ONCE: usize = 4;

/// A tile with all of its product's few columns or rows.
pub(super) fn few<T: MulAdd>(mut tile: Tile<'_, T>, level: Level) {
    // Each of many rows is multiplied with each of few vectors.
    let columns = tile.way == ProductWay::FewColumns;
    let (rows, vectors) = if columns { (tile.a, tile.b.transposed()) } else { (tile.b.transposed(), tile.a) };
    let (many, few) = if columns { (tile.m, tile.n) } else { (tile.n, tile.m) };
    let mut onto = tile.out.begin(tile.onto);
    let mut sums: Room<T> = Room::new(few * many);
    let deepest = tile.k.min(DEPTH);
    let mut laid: Option<Room<T>> = (vectors.col_step != 1).then(|| Room::new(few * deepest));
    let mut laid_rows: Option<Room<T>> = (rows.col_step != 1).then(|| Room::new(many * deepest));
    for from in (0..tile.k).step_by(DEPTH) {
        let depth = (tile.k - from).min(DEPTH);
        let (mut rows, mut vectors) = (rows.moved(0, 0, from), vectors.moved(0, 0, from));
        if let Some(room) = &mut laid {
            lay_out_rows(vectors, depth, &mut room.as_mut_slice()[..few * depth]);
            vectors = row_major(room.as_slice(), depth);
        }
        if let Some(room) = &mut laid_rows {
            lay_out_rows(rows, depth, &mut room.as_mut_slice()[..many * depth]);
            rows = row_major(room.as_slice(), depth);
        }
        let sums = sums.as_mut_slice();
        // SAFETY: the level is this processor's.
        unsafe { T::all_dots(level, sums, table(rows, many, depth), table(vectors, few, depth)) };
        for (v, sums) in sums.chunks_exact(many).enumerate() {
            let put = |o: &mut T, s: T| {
                let s = s * tile.scale;
                *o = if onto == Onto::Result { T::plus(*o, s) } else { s };
            };
            if columns {
                for (i, &s) in sums.iter().enumerate() {
                    put(&mut tile.out.row(i)[v], s);
                }
            } else {
                for (o, &s) in tile.out.row(v).iter_mut().zip(sums) {
                    put(o, s);
                }
            }
        }
        onto = Onto::Result;
    }
}

/// So many rows of `depth` elements.
fn table<T>(rows: Matrix<'_, T>, count: usize, depth: usize) -> Table<&[T]> {
    Table { data: rows.data, start: rows.start as isize, rows: count, step: rows.row_step, cols: depth }
}

/// The dot products for processors without wide registers.
fn plain<T: MulAdd>(out: &mut [T], rows: Table<&[T]>, vectors: Table<&[T]>) {
    for (v, out) in out.chunks_exact_mut(rows.rows).enumerate() {
        plain_dots(out, rows, vectors.row(v), Put { scale: T::of_count(1), add: false });
    }
}

macro_rules! all_dots {
    ($t:ty, $name:ident: $($level:ident: $features:literal, $lanes:literal, $vectors:literal,
     $all:ident, $some:ident, $zero:ident, $load:ident, $part:ident, $fused:ident, $sum:ident;)*) => {
        /// The dot products of all vectors with all rows, those of the first vector first.
        ///
        /// # Safety
        /// `level` is this processor's.
        pub(super) unsafe fn $name(level: Level, out: &mut [$t], rows: Table<&[$t]>, vectors: Table<&[$t]>) {
            assert!(out.len() == rows.rows * vectors.rows);
            match level {
                $(
                    // SAFETY: this processor has the level, by the caller's promise, and so its features.
                    #[cfg(target_arch = "x86_64")]
                    Level::$level => unsafe { $all(out, rows, vectors) },
                )*
                _ => plain(out, rows, vectors),
            }
        }
        $(
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = $features)]
            fn $all(out: &mut [$t], rows: Table<&[$t]>, vectors: Table<&[$t]>) {
                for row in (0..rows.rows).step_by(AT_ONCE) {
                    let four = each(&[][..], |r| rows.row((row + r).min(rows.rows - 1)));
                    let live = (rows.rows - row).min(AT_ONCE);
                    let mut v = 0;
                    while v < vectors.rows {
                        let vector = |i: usize| vectors.row((v + i).min(vectors.rows - 1));
                        let place = &mut out[v * rows.rows + row..];
                        // Those beyond the last one repeat it.
                        v += if $vectors == 2 || vectors.rows - v <= 2 {
                            write(&$some::<2>(four, each(&[][..], vector)), place, rows.rows, live)
                        } else {
                            write(&$some::<$vectors>(four, each(&[][..], vector)), place, rows.rows, live)
                        };
                    }
                }
            }

            /// The dot products of four rows with each of some vectors.
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = $features)]
            #[inline]
            fn $some<const V: usize>(rows: [&[$t]; AT_ONCE], vectors: [&[$t]; V]) -> [[$t; AT_ONCE]; V] {
                use std::arch::x86_64::*;
                let n = rows[0].len();
                assert!(rows.iter().chain(&vectors).all(|row| row.len() == n));
                let mut sums = [[$zero(); AT_ONCE]; V];
                let whole = n - n % $lanes;
                for at in (0..whole).step_by($lanes) {
                    let mut four = [$zero(); AT_ONCE];
                    for r in 0..AT_ONCE {
                        // SAFETY: all rows and vectors have `whole` elements, and a register from `at` on ends there at most.
                        four[r] = unsafe { $load(rows[r].as_ptr().add(at)) };
                    }
                    for v in 0..V {
                        // SAFETY: as above.
                        let x = unsafe { $load(vectors[v].as_ptr().add(at)) };
                        for r in 0..AT_ONCE {
                            sums[v][r] = $fused(four[r], x, sums[v][r]);
                        }
                    }
                }
                if whole < n {
                    for v in 0..V {
                        let x = $part(&vectors[v][whole..]);
                        for r in 0..AT_ONCE {
                            sums[v][r] = $fused($part(&rows[r][whole..]), x, sums[v][r]);
                        }
                    }
                }
                $sum(sums)
            }
        )*
    };
}
#[rustfmt::skip]
all_dots!(f32, all_dots_f32:
    Avx512: "avx512f,avx512vl,avx512dq,avx2,fma", 16, 4, all_f32_avx512, some_f32_avx512,
        _mm512_setzero_ps, _mm512_loadu_ps, f32_avx512_part, _mm512_fmadd_ps, sum_f32_avx512;
    Avx2: "avx2,fma", 8, 2, all_f32_avx2, some_f32_avx2,
        _mm256_setzero_ps, _mm256_loadu_ps, f32_avx2_part, _mm256_fmadd_ps, sum_f32_avx2;
);
#[rustfmt::skip]
all_dots!(f64, all_dots_f64:
    Avx512: "avx512f,avx512vl,avx512dq,avx2,fma", 8, 4, all_f64_avx512, some_f64_avx512,
        _mm512_setzero_pd, _mm512_loadu_pd, f64_avx512_part, _mm512_fmadd_pd, sum_f64_avx512;
    Avx2: "avx2,fma", 4, 2, all_f64_avx2, some_f64_avx2,
        _mm256_setzero_pd, _mm256_loadu_pd, f64_avx2_part, _mm256_fmadd_pd, sum_f64_avx2;
);

/// Puts the sums of the first rows with each vector into its row of `out`. Returns how many vectors there were.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn write<T: Copy, const V: usize>(
    sums: &[[T; AT_ONCE]; V],
    out: &mut [T],
    step: usize,
    live: usize,
) -> usize {
    for (sums, out) in sums.iter().zip(out.chunks_mut(step)) {
        match out.first_chunk_mut() {
            Some(out) if live == AT_ONCE => *out = *sums,
            _ => out[..live].copy_from_slice(&sums[..live]),
        }
    }
    V
}

/// Sums over the lanes of registers.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{AT_ONCE, tree_f32, tree_f64};
    use std::arch::x86_64::*;

    /// Of an even number of vectors.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn sum_f32_avx2<const V: usize>(sums: [[__m256; AT_ONCE]; V]) -> [[f32; AT_ONCE]; V] {
        let mut all = [[0.0; AT_ONCE]; V];
        for v in (0..V).step_by(2) {
            let ([a, b, c, d], [e, f, g, h]) = (sums[v], sums[v + 1]);
            let two = all[v..v + 2].as_flattened_mut();
            // SAFETY: eight elements are written.
            unsafe { _mm256_storeu_ps(two.as_mut_ptr(), tree_f32([a, b, c, d, e, f, g, h])) };
        }
        all
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn sum_f64_avx2<const V: usize>(sums: [[__m256d; AT_ONCE]; V]) -> [[f64; AT_ONCE]; V] {
        let mut all = [[0.0; AT_ONCE]; V];
        for v in 0..V {
            // SAFETY: four elements are written.
            unsafe { _mm256_storeu_pd(all[v].as_mut_ptr(), tree_f64(sums[v])) };
        }
        all
    }

    /// The upper half of the lanes is added to the lower one. Loops and not `map`, whose closures may become calls.
    #[target_feature(enable = "avx512f,avx512dq,avx2")]
    #[inline]
    pub(super) fn sum_f32_avx512<const V: usize>(sums: [[__m512; AT_ONCE]; V]) -> [[f32; AT_ONCE]; V] {
        let mut halves = [[_mm256_setzero_ps(); AT_ONCE]; V];
        for v in 0..V {
            for r in 0..AT_ONCE {
                let sum = sums[v][r];
                halves[v][r] = _mm256_add_ps(_mm512_castps512_ps256(sum), _mm512_extractf32x8_ps::<1>(sum));
            }
        }
        sum_f32_avx2(halves)
    }

    #[target_feature(enable = "avx512f,avx2")]
    #[inline]
    pub(super) fn sum_f64_avx512<const V: usize>(sums: [[__m512d; AT_ONCE]; V]) -> [[f64; AT_ONCE]; V] {
        let mut halves = [[_mm256_setzero_pd(); AT_ONCE]; V];
        for v in 0..V {
            for r in 0..AT_ONCE {
                let sum = sums[v][r];
                halves[v][r] = _mm256_add_pd(_mm512_castpd512_pd256(sum), _mm512_extractf64x4_pd::<1>(sum));
            }
        }
        sum_f64_avx2(halves)
    }
}
#[cfg(target_arch = "x86_64")]
use x86::{sum_f32_avx2, sum_f32_avx512, sum_f64_avx2, sum_f64_avx512};

/// Rows of `depth` elements, one after another.
fn lay_out_rows<T: MulAdd>(rows: Matrix<'_, T>, depth: usize, out: &mut [T]) {
    lay_out(rows.data, rows.start as isize, [rows.row_step, rows.col_step], depth, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::level::detected_level;

    /// Whole numbers, whose sums are exact in any order.
    fn dots_are_those_of_loops<T: MulAdd>() {
        let of = |i: usize| T::of(((i * 37 + 5) % 17) as f64 - 8.0);
        let data: Vec<T> = (0..4000).map(of).collect();
        for (rows, vectors) in [(1, 1), (2, 3), (4, 4), (5, 2), (7, 9), (11, 6)] {
            for depth in [1, 7, 16, 33, 100] {
                for step in [depth as isize, 0, -3] {
                    let rows = Table { data: &data[..], start: 50, rows, step, cols: depth };
                    let vectors =
                        Table { data: &data[..], start: 900, rows: vectors, step: 130, cols: depth };
                    for level in [Level::Baseline, Level::Avx2, Level::Avx512] {
                        if level > detected_level() {
                            continue;
                        }
                        let mut found = vec![T::of(5.0); rows.rows * vectors.rows];
                        // SAFETY: the processor has the level.
                        unsafe { T::all_dots(level, &mut found, rows, vectors) };
                        for (i, &found) in found.iter().enumerate() {
                            let (v, r) = (i / rows.rows, i % rows.rows);
                            let products = rows.row(r).iter().zip(vectors.row(v));
                            let want = products.fold(T::of(0.0), |sum, (&x, &y)| sum + x * y);
                            assert!(
                                found == want,
                                "{} with {} of {depth} at {level:?}",
                                rows.rows,
                                vectors.rows
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn dots_of_few_vectors_are_those_of_loops() {
        dots_are_those_of_loops::<f32>();
        dots_are_those_of_loops::<f64>();
    }
}
