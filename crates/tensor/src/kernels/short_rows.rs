//! Folds of rows that are one leaf each, straight to the elements of their results: short ones several beside each other.

use super::by_length;
use super::folds::{Aligned, FEW_LANES, MEDIUM, Table, fold_into, fold_run, quarter};
use super::lane::fold_lanes;
use super::level::{Level, level};
use super::transpose::{EIGHT, FOUR, WideShuffles};
use crate::dtype::Element;
use crate::task::{LANES, Reducer};

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
            // A sum over an axis of size 1.
            1 => return fold_known::<R, 1>(out, table.run()),
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
            FOUR..FEW_LANES => fold_abreast::<R, 0>(out, table, shuffles),
            FEW_LANES..MEDIUM => fold_together::<R>(out, table, shuffles),
            _ => 0,
        };
    }
    for (k, out) in out[done..].iter_mut().enumerate() {
        *out = fold_run(table.row(done + k), R::IDENTITY, R::combine);
    }
}

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
/// of the time, of 9 to 15 0.28; most of the gain of those below 9 is that no accumulator is written.
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
        *out = fold_eight::<R>(x, step, cols, shuffles);
    }
    table.rows / EIGHT * EIGHT
}

/// Each of eight rows of a few elements, one column after another.
#[inline(always)]
fn fold_eight<R: Reducer>(x: &[R::T], step: usize, cols: usize, shuffles: WideShuffles) -> [R::T; EIGHT] {
    let mut lane = [R::IDENTITY; EIGHT];
    let mut col = 0;
    while col + FOUR <= cols {
        for column in shuffles.four_columns(&x[col..], step) {
            fold_column::<R>(&mut lane, column, shuffles);
        }
        col += FOUR;
    }
    if col < cols {
        let columns = shuffles.four_columns(&x[col..], step);
        for (q, column) in columns.into_iter().enumerate().take(FOUR - 1) {
            if col + q < cols {
                fold_column::<R>(&mut lane, column, shuffles);
            }
        }
    }
    lane
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

/// Eight rows at a time of as many elements as there are lanes, or some more, or the last three to seven: each to its last four lanes, which are folded
/// for all of them at once, by shuffles. Gives how many rows it folded. Longer ones gain nothing.
#[inline(always)]
fn fold_together<R: Reducer>(out: &mut [R::T], table: Table<&[R::T]>, shuffles: WideShuffles) -> usize {
    let rows = out.len();
    for (nr, out) in out.chunks_mut(EIGHT).enumerate() {
        if out.len() < FEWEST {
            return nr * EIGHT;
        }
        let mut last = Aligned([[R::IDENTITY; FOUR]; EIGHT]);
        let row = |k: usize| table.row((nr * EIGHT + k).min(rows - 1));
        for (k, last) in last.0.as_chunks_mut().0.iter_mut().enumerate() {
            last_lanes_of_two::<R>([row(2 * k), row(2 * k + 1)], last, shuffles);
        }
        let last = std::hint::black_box(&last).0.as_flattened();
        let [a, b, c, d] = shuffles.four_columns(last, FOUR);
        let mut folded = [R::IDENTITY; EIGHT];
        for k in 0..EIGHT {
            folded[k] = fold_lanes([a[k], b[k], c[k], d[k]], R::combine);
        }
        match out.as_mut_array() {
            Some(out) => *out = folded,
            None => out.copy_from_slice(&folded[..out.len()]),
        }
    }
    rows
}

/// Rows that are folded together at least.
const FEWEST: usize = 3;

/// [`last_lanes`] of two rows of one length, for which what is asked of that is asked once.
///
/// The compiler is not told what comes of the lanes: it would take them in halves and pairs to suit the pieces behind them, and those of both
/// rows together, by three times as many instructions. Sums of 100,000 elements in rows of 17 to 100 take 0.55 to 0.84 of the time.
#[inline(always)]
fn last_lanes_of_two<R: Reducer>(
    mut rows: [&[R::T]; 2],
    last: &mut [[R::T; FOUR]; 2],
    shuffles: WideShuffles,
) {
    let mut lanes = [[R::IDENTITY; FEW_LANES]; 2];
    while let Some(fours) = next_of_both::<_, LANES>(&mut rows) {
        for (lanes, x) in lanes.iter_mut().zip(fours) {
            let few = hidden_lanes(quarter(x, |v| v, R::combine), shuffles);
            fold_into(lanes, &few, |v| v, R::combine);
        }
    }
    while fold_pieces::<R, FEW_LANES>(&mut lanes, &mut rows) {}
    let [a, b] = lanes;
    let mut lanes = [hidden_lanes(a, shuffles), hidden_lanes(b, shuffles)];
    fold_pieces::<R, 8>(&mut lanes, &mut rows);
    fold_pieces::<R, 4>(&mut lanes, &mut rows);
    fold_pieces::<R, 2>(&mut lanes, &mut rows);
    fold_pieces::<R, 1>(&mut lanes, &mut rows);
    for (last, lanes) in last.iter_mut().zip(&lanes) {
        *last = quarter(lanes, |v| v, R::combine);
        std::hint::black_box(last);
    }
}

#[inline(always)]
fn hidden_lanes<T: Element>(lanes: [T; FEW_LANES], shuffles: WideShuffles) -> [T; FEW_LANES] {
    let mut hidden = lanes;
    for half in hidden.as_chunks_mut::<EIGHT>().0 {
        *half = shuffles.hidden(*half);
    }
    hidden
}

/// Folds the next `N` elements of both rows into their first lanes, if there are as many.
#[inline(always)]
fn fold_pieces<R: Reducer, const N: usize>(
    lanes: &mut [[R::T; FEW_LANES]; 2],
    rows: &mut [&[R::T]; 2],
) -> bool {
    let Some([a, b]) = next_of_both::<_, N>(rows) else { return false };
    fold_into(&mut lanes[0], a, |v| v, R::combine);
    fold_into(&mut lanes[1], b, |v| v, R::combine);
    true
}

/// The next `N` elements of both rows. What is left is cut: with a place in them, there are more pointers than registers.
#[inline(always)]
fn next_of_both<'a, T, const N: usize>(rows: &mut [&'a [T]; 2]) -> Option<[&'a [T; N]; 2]> {
    let ((x, a), (y, b)) = (rows[0].split_first_chunk()?, rows[1].split_first_chunk()?);
    *rows = [a, b];
    Some([x, y])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::folds::fold_lines_body;
    use crate::task::{Max, Min, Sum};

    /// Every length, number of rows and gap against one row after another, to the bit; the last rows end where the data does.
    fn check<R: Reducer>(of: fn(usize) -> R::T, bits: fn(R::T) -> u64) {
        for cols in (1..=70).chain([127, 255, 256, 300, 1024]) {
            for rows in [0, 1, 7, 8, 9, 31, 70] {
                for gap in [0, 1, 5] {
                    let step = cols + gap;
                    let data: Vec<R::T> = (0..3 + (rows * step).max(gap) - gap).map(of).collect();
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
