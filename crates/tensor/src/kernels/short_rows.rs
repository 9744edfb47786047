//! Folds of rows that are one leaf each, straight to the elements of their results: short ones several beside each other.

use super::folds::{FEW_LANES, Table, fold_run};
use super::lane::fold_lanes;
use super::level::{Level, level};
use super::transpose::{EIGHT, FOUR, WideShuffles};
use super::{by_length, each};
use crate::task::Reducer;

super::doors::door! {
    /// Folds each row of a table, in one leaf, to the element of its own.
    pub(crate) fn fold_rows[R: Reducer][R](out: &mut [R::T], table: Table<&[R::T]>);
    body fold_rows_body narrow
}
#[inline(always)]
pub(crate) fn fold_rows_body<const FMA: bool, R: Reducer>(out: &mut [R::T], table: Table<&[R::T]>) {
    let out = &mut out[..table.rows];
    if table.is_run() {
        match table.cols {
            2 => return fold_known::<R, 2>(out, table.run()),
            3 => return fold_known::<R, 3>(out, table.run()),
            4 if !FMA => return fold_known::<R, 4>(out, table.run()),
            5 if !FMA => return fold_known::<R, 5>(out, table.run()),
            6 if !FMA => return fold_known::<R, 6>(out, table.run()),
            7 if !FMA => return fold_known::<R, 7>(out, table.run()),
            8 if !FMA => return fold_known::<R, 8>(out, table.run()),
            _ => {}
        }
    }
    let mut done = 0;
    if FMA && let Some(shuffles) = WideShuffles::of_processor() {
        done = match table.cols {
            FOUR..=EIGHT if table.is_run() => {
                by_length!(table.cols, [4 5 6 7 8], fold_abreast::<R>(out, table, shuffles))
            }
            cols if FOUR <= cols && cols * size_of::<R::T>() < SHORT => {
                fold_abreast::<R, 0>(out, table, shuffles)
            }
            _ => 0,
        };
    }
    for (k, out) in out[done..].iter_mut().enumerate() {
        *out = fold_run(table.row(done + k), R::IDENTITY, R::combine);
    }
}

/// Bytes of a row from which its own lanes are worth their tree.
const SHORT: usize = 192;

/// Rows of a few elements that lie together: the compiler makes vectors of this itself.
#[inline(always)]
fn fold_known<R: Reducer, const N: usize>(out: &mut [R::T], run: &[R::T]) {
    for (out, row) in out.iter_mut().zip(run.as_chunks::<N>().0) {
        *out = fold_run(row, R::IDENTITY, R::combine);
    }
}

/// Eight rows at a time, each of `N` elements in a run, or of some number: less than lanes. Gives how many rows it folded: four columns of
/// the last ones may reach beyond the data.
///
/// Four columns are eight loads and as many shuffles, and a column is folded like a number. Sums of 100,000 elements in rows of 4 to 8 take 0.35 to 0.42
/// of the time, of 9 to 15 0.28, of 16 to 33 0.42 to 0.72; most of the gain of those below 9 is that no accumulator is written.
#[inline(always)]
fn fold_abreast<R: Reducer, const N: usize>(
    out: &mut [R::T],
    table: Table<&[R::T]>,
    shuffles: WideShuffles,
) -> usize {
    let (Ok(start), Ok(step)) = (usize::try_from(table.start), usize::try_from(table.step)) else { return 0 };
    let (cols, step) = if N == 0 { (table.cols, step) } else { (N, N) };
    let reach = (EIGHT - 1) * step + cols.next_multiple_of(FOUR);
    for (nr, out) in out.as_chunks_mut::<EIGHT>().0.iter_mut().enumerate() {
        let first = start + nr * EIGHT * step;
        let Some(x) = table.data.get(first..first + reach) else { return nr * EIGHT };
        if cols < FEW_LANES {
            [*out] = fold_eight::<R, 1>(x, step, cols, shuffles);
            continue;
        }
        let lanes = fold_eight::<R, FEW_LANES>(x, step, cols, shuffles);
        for k in 0..EIGHT {
            let few: [R::T; 4] = each(R::IDENTITY, |q| {
                fold_lanes([lanes[q][k], lanes[q + 4][k], lanes[q + 8][k], lanes[q + 12][k]], R::combine)
            });
            out[k] = fold_lanes(few, R::combine);
        }
    }
    table.rows / EIGHT * EIGHT
}

/// Each column of eight rows into one of `L` lanes of rows: the lane that an element of the column has in [`fold_run`], where pieces of eight, four,
/// two and one behind whole lanes begin with the first.
#[inline(always)]
fn fold_eight<R: Reducer, const L: usize>(
    x: &[R::T],
    step: usize,
    cols: usize,
    shuffles: WideShuffles,
) -> [[R::T; EIGHT]; L] {
    let mut lanes = [[R::IDENTITY; EIGHT]; L];
    let whole = cols / FEW_LANES * FEW_LANES;
    let mut col = 0;
    while col + FOUR <= cols {
        let columns = shuffles.four_columns(&x[col..], step);
        let is_in_order = col < whole || cols - whole >= EIGHT && col < whole + EIGHT;
        let first = if is_in_order { col } else { 0 };
        for q in 0..FOUR {
            fold_column::<R>(&mut lanes[(first + q) % L], columns[q], shuffles);
        }
        col += FOUR;
    }
    if col < cols {
        let columns = shuffles.four_columns(&x[col..], step);
        for (q, lane) in [0, 1, 0].into_iter().enumerate() {
            if col + q < cols {
                fold_column::<R>(&mut lanes[lane % L], columns[q], shuffles);
            }
        }
    }
    lanes
}

/// A number for each of eight rows. The compiler would store the larger of two where it is, element by element: so it is not told.
#[inline(always)]
fn fold_column<R: Reducer>(lane: &mut [R::T; EIGHT], column: [R::T; EIGHT], shuffles: WideShuffles) {
    let mut folded = *lane;
    for k in 0..EIGHT {
        folded[k] = R::combine(folded[k], column[k]);
    }
    *lane = shuffles.hidden(folded);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::folds::fold_lines_body;
    use crate::task::{Max, Min, Sum};

    /// Every length, number of rows and gap against one row after another, to the bit; the last rows end where the data does.
    fn check<R: Reducer>(of: impl Fn(usize) -> R::T, bits: impl Fn(R::T) -> u64) {
        for cols in (1..=70).chain([127, 255, 256, 300, 1024]) {
            for rows in [0, 1, 7, 8, 9, 31, 70] {
                for gap in [0, 1, 5] {
                    let step = cols + gap;
                    let data: Vec<R::T> = (0..3 + (rows * step).max(gap) - gap).map(&of).collect();
                    let forth = Table { data: &data[..], start: 3, rows, step: step as isize, cols };
                    let back = Table {
                        start: 3 + (rows.max(1) - 1) as isize * step as isize,
                        step: -forth.step,
                        ..forth
                    };
                    for table in [forth, back] {
                        let one = |i| bits(fold_run(table.row(i), R::IDENTITY, R::combine));
                        let want: Vec<u64> = (0..rows).map(one).collect();
                        for fold in [fold_rows::<R>, fold_rows_body::<true, R>, fold_rows_body::<false, R>] {
                            let mut out = vec![R::IDENTITY; rows];
                            fold(&mut out, table);
                            let found: Vec<u64> = out.iter().map(|&v| bits(v)).collect();
                            assert_eq!(found, want, "{rows} rows of {cols}, {step} apart");
                        }
                        let mut wide = vec![R::START; rows];
                        fold_lines_body::<false, R>(&mut wide, 1, table, 1024);
                        let lifted: Vec<u64> = wide.iter().map(|&acc| bits(R::finish(acc))).collect();
                        assert_eq!(lifted, want, "lifted: {rows} rows of {cols}");
                    }
                }
            }
        }
    }

    /// Numbers of many sizes, both zeros, infinities and NaN.
    fn number(i: usize) -> f64 {
        match i.wrapping_mul(2_654_435_761) >> 7 & 63 {
            0 if i.is_multiple_of(5) => f64::NAN,
            1 if i.is_multiple_of(7) => f64::INFINITY,
            2..8 => -0.0,
            8..12 => 0.0,
            k => (k as f64 - 30.0) * 1.1f64.powi((i % 40) as i32),
        }
    }

    #[test]
    fn rows_beside_each_other_are_folded_like_one_alone() {
        let f32_bits = |v: f32| if v.is_nan() { 1 } else { u64::from(v.to_bits()) };
        let f64_bits = |v: f64| if v.is_nan() { 1 } else { v.to_bits() };
        check::<Sum<f32>>(|i| number(i) as f32, f32_bits);
        check::<Sum<f64>>(number, f64_bits);
        check::<Max<f32>>(|i| number(i) as f32, f32_bits);
        check::<Min<f64>>(number, f64_bits);
        check::<Sum<f32>>(|_| -0.0, f32_bits);
        check::<Max<f64>>(|_| f64::NEG_INFINITY, f64_bits);
    }
}
