//! Running sums and products along an axis, in blocks of rows that are the same for any number of threads.

use std::ops::Range;

use crate::dtype::Element;
use crate::kernels::by_length;
use crate::kernels::doors::door;
use crate::kernels::level::{Level, level};
use crate::threads::{GRAIN, num_threads, split_work};

/// Numbers that are folded as they come, in a wider type: that of the accumulators of a sum.
pub(crate) trait Running: Element {
    type Wide: Copy + Send + Sync;
    fn wide(self) -> Self::Wide;
    fn narrow(wide: Self::Wide) -> Self;
    fn fold<const PRODUCT: bool>(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    /// What a fold starts from.
    fn start<const PRODUCT: bool>() -> Self::Wide;
}
macro_rules! running {
    ($($t:ty => $wide:ty, |$a:ident, $b:ident| $sum:expr, $product:expr;)*) => {$(
        impl Running for $t {
            type Wide = $wide;
            #[inline(always)]
            fn wide(self) -> $wide {
                self as $wide
            }
            #[inline(always)]
            fn narrow(wide: $wide) -> $t {
                wide as $t
            }
            #[inline(always)]
            fn fold<const PRODUCT: bool>($a: $wide, $b: $wide) -> $wide {
                if PRODUCT { $product } else { $sum }
            }
            #[inline(always)]
            fn start<const PRODUCT: bool>() -> $wide {
                PRODUCT as u8 as $wide
            }
        }
    )*};
}
running! {
    i64 => i64, |a, b| a.wrapping_add(b), a.wrapping_mul(b);
    f32 => f64, |a, b| a + b, a * b;
    f64 => f64, |a, b| a + b, a * b;
}

/// A block has at least so many rows, so that what the blocks of wide rows come to is little.
const LEAST_ROWS: usize = 64;

/// Folds the rows of matrices of `rows` rows of `len` elements: `out[o, i] = source[o, 0] + .. + source[o, i]`, or the
/// product.
///
/// A matrix is cut into blocks of rows. What a row sums to is what all blocks before its own come to, and what the rows
/// of its block do up to it; so a block can start as soon as those before it have been summed, by whatever thread.
/// Products are taken one by one: that of a block alone could overflow where those before it are 0.
pub(crate) fn scan<T: Running, const PRODUCT: bool>(source: &[T], rows: usize, len: usize, out: &mut [T]) {
    if out.is_empty() {
        return;
    }
    let (matrix, count) = (rows * len, out.len() / (rows * len));
    let height = (GRAIN / len).max(LEAST_ROWS).min(rows);
    let blocks = rows.div_ceil(height);
    // Pieces are blocks of all matrices, of which the last one of a matrix may be lower.
    let start = |piece: usize| piece / blocks * matrix + piece % blocks * height * len;
    let carries =
        (!PRODUCT && blocks > 1 && num_threads() > 1).then(|| carries(source, [matrix, height * len], len));
    let grain = if carries.is_some() { 1 } else { (GRAIN / matrix).max(1) * blocks };
    split_work(
        count * blocks,
        grain,
        (0, out),
        &|(first, out): (usize, &mut [T]), at| {
            let (front, back) = out.split_at_mut(start(first + at) - start(first));
            ((first, front), (first + at, back))
        },
        &|mut first, mut pieces, (_, mut out)| {
            if !PRODUCT && matrix == rows && blocks == 1 {
                return sum_lines(&source[start(first)..], rows, out);
            }
            if PRODUCT && matrix == rows && blocks == 1 {
                let abreast = pieces / LINES * LINES;
                let (own, rest) = out.split_at_mut(abreast * rows);
                multiply_lines(&source[start(first)..], rows, own);
                (first, pieces, out) = (first + abreast, pieces - abreast, rest);
            }
            let mut carry = vec![T::start::<PRODUCT>(); len];
            for piece in first..first + pieces {
                let (from, to) = (start(piece), start(piece + 1));
                let (own, rest) = out.split_at_mut(to - from);
                out = rest;
                match &carries {
                    Some(all) => carry.copy_from_slice(&all[piece * len..][..len]),
                    None if piece % blocks == 0 => carry.fill(T::start::<PRODUCT>()),
                    None => {}
                }
                fold_rows::<T, PRODUCT>(&source[from..to], &mut carry, own);
            }
        },
    );
}

/// Lines whose products are taken abreast, as each waits for the one before it in its line: 4096 lines of 1024 take 0.37 of the time
/// (W21).
const LINES: usize = 4;

/// The running products of lines of `rows` elements, [`LINES`] at a time.
fn multiply_lines<T: Running>(source: &[T], rows: usize, out: &mut [T]) {
    for (lines, outs) in source.chunks_exact(LINES * rows).zip(out.chunks_exact_mut(LINES * rows)) {
        let mut carry = [T::start::<true>(); LINES];
        for i in 0..rows {
            for k in 0..LINES {
                carry[k] = T::fold::<true>(carry[k], lines[k * rows + i].wide());
                outs[k * rows + i] = T::narrow(carry[k]);
            }
        }
    }
}

/// What all rows before each block of a matrix add up to.
fn carries<T: Running>(source: &[T], [matrix, block]: [usize; 2], len: usize) -> Vec<T::Wide> {
    let blocks = matrix.div_ceil(block);
    let mut all = vec![T::start::<false>(); source.len() / matrix * blocks * len];
    let pieces = all.len() / len;
    split_work(
        pieces,
        1,
        &mut all[..],
        &|s: &mut [T::Wide], at| s.split_at_mut(at * len),
        &|first, _, totals| {
            for (piece, total) in (first..).zip(totals.chunks_exact_mut(len)) {
                let from = piece / blocks * matrix + piece % blocks * block;
                let rest = &source[from..piece / blocks * matrix + matrix];
                sum_of_rows(&rest[..block.min(rest.len())], total);
            }
        },
    );
    for matrix in all.chunks_exact_mut(blocks * len) {
        let mut before = vec![T::start::<false>(); len];
        for block in matrix.chunks_exact_mut(len) {
            for (b, total) in before.iter_mut().zip(block) {
                let next = T::fold::<false>(*b, *total);
                *total = std::mem::replace(b, next);
            }
        }
    }
    all
}

/// Folds the rows of a block, which follow what `carry` has come to, and adds them to it.
fn fold_rows<T: Running, const PRODUCT: bool>(source: &[T], carry: &mut [T::Wide], out: &mut [T]) {
    let fold = T::fold::<PRODUCT>;
    match carry {
        [carry] if PRODUCT => {
            for (o, &x) in out.iter_mut().zip(source) {
                *carry = fold(*carry, x.wide());
                *o = T::narrow(*carry);
            }
        }
        [carry] => *carry = fold(*carry, sum_line(source, *carry, out)),
        _ => fold_columns::<T, PRODUCT>(source, carry, out),
    }
}

/// Columns that are folded together: what they have come to stays in the first-level cache. 3 rows of 528,000 take a quarter of the time that whole rows do.
const COLUMNS: usize = 256;

/// Columns of which a loop knows how many they are: what they have come to stays in registers.
const FEW: usize = 8;

door! {
    /// [`fold_rows`] for rows of more than one element.
    fn fold_columns[T: Running, const PRODUCT: bool][T, PRODUCT](source: &[T], carry: &mut [T::Wide], out: &mut [T]);
    body fold_columns_body narrow
}
#[inline(always)]
fn fold_columns_body<const FMA: bool, T: Running, const PRODUCT: bool>(
    source: &[T],
    carry: &mut [T::Wide],
    out: &mut [T],
) {
    let len = carry.len();
    let mut from = 0;
    while from < len {
        let most = if len - from < 2 * FEW { FEW } else { COLUMNS };
        let columns = from..len.min(from + most);
        from = columns.end;
        by_length!(columns.len(), [1 2 3 4 5 6 7 8], fold_few::<T, PRODUCT>(source, columns, carry, out));
    }
}

/// Folds some columns, `W` of them unless that is 0. Two to seven columns take 0.35 to 0.55 of the time that a loop of any number takes, ten 0.7.
#[inline(always)]
fn fold_few<T: Running, const PRODUCT: bool, const W: usize>(
    source: &[T],
    columns: Range<usize>,
    carry: &mut [T::Wide],
    out: &mut [T],
) {
    let (start, len) = (T::start::<PRODUCT>(), carry.len());
    let lines = source.chunks_exact(len).zip(out.chunks_exact_mut(len));
    let carry = &mut carry[columns.clone()];
    if W == 0 {
        let own = &mut [start; COLUMNS][..columns.len()];
        for (line, out) in lines {
            let outs = out[columns.clone()].iter_mut().zip(&line[columns.clone()]);
            for (((o, &x), own), carry) in outs.zip(&mut *own).zip(&mut *carry) {
                *o = fold_next::<T, PRODUCT>(carry, own, x);
            }
        }
        carry.iter_mut().zip(own).for_each(|(carry, own)| *carry = T::fold::<PRODUCT>(*carry, *own));
        return;
    }
    let (mut all, mut own) = ([start; W], [start; W]);
    all.copy_from_slice(carry);
    for (line, out) in lines {
        let (line, out) = (&line[columns.start..][..W], &mut out[columns.start..][..W]);
        for k in 0..W {
            out[k] = fold_next::<T, PRODUCT>(&mut all[k], &mut own[k], line[k]);
        }
    }
    for k in 0..W {
        carry[k] = T::fold::<PRODUCT>(all[k], own[k]);
    }
}

/// The next element of a column, of which a block's own sum follows what comes before the block.
#[inline(always)]
fn fold_next<T: Running, const PRODUCT: bool>(carry: &mut T::Wide, own: &mut T::Wide, x: T) -> T {
    if PRODUCT {
        *carry = T::fold::<PRODUCT>(*carry, x.wide());
        T::narrow(*carry)
    } else {
        *own = T::fold::<PRODUCT>(*own, x.wide());
        T::narrow(T::fold::<PRODUCT>(*carry, *own))
    }
}

/// What the rows of a block add up to, in the order of [`fold_rows`].
fn sum_of_rows<T: Running>(source: &[T], total: &mut [T::Wide]) {
    let fold = T::fold::<false>;
    if let [total] = total {
        let (groups, rest) = source.as_chunks::<GROUP>();
        for group in groups {
            *total = fold(*total, group.iter().fold(T::start::<false>(), |sum, &x| fold(sum, x.wide())));
        }
        *total = rest.iter().fold(*total, |t, &x| fold(t, x.wide()));
        return;
    }
    for line in source.chunks_exact(total.len()) {
        for (t, &x) in total.iter_mut().zip(line) {
            *t = fold(*t, x.wide());
        }
    }
}

/// Elements that are summed among themselves before they are added to what comes before them: the next ones need not wait for
/// each of them.
const GROUP: usize = 8;

/// Groups that are summed abreast: a loop over vectors, with a number of each in it.
const ABREAST: usize = 8;

door! {
    /// The running sums of lines, each as [`sum_line`] gives them where nothing comes before it: short ones are many. Lines of two take a tenth of the time of one
    /// call for each.
    fn sum_lines[T: Running][T](source: &[T], rows: usize, out: &mut [T]);
    body sum_lines_body narrow
}
#[inline(always)]
fn sum_lines_body<const FMA: bool, T: Running>(source: &[T], rows: usize, out: &mut [T]) {
    let start = T::start::<false>();
    for (line, out) in source.chunks_exact(rows).zip(out.chunks_exact_mut(rows)) {
        if rows < GROUP {
            let mut sum = start;
            for (o, &x) in out.iter_mut().zip(line) {
                sum = T::fold::<false>(sum, x.wide());
                *o = T::narrow(sum);
            }
        } else {
            sum_line_body::<FMA, T>(line, start, out);
        }
    }
}

door! {
    /// The running sums of a line, which follows what `carry` has come to; what the line adds up to.
    fn sum_line[T: Running][T](source: &[T], carry: T::Wide, out: &mut [T]) -> T::Wide;
    body sum_line_body narrow
}
#[inline(always)]
fn sum_line_body<const FMA: bool, T: Running>(source: &[T], carry: T::Wide, out: &mut [T]) -> T::Wide {
    let fold = T::fold::<false>;
    let mut own = T::start::<false>();
    let (groups, rest) = source.as_chunks::<GROUP>();
    let (outs, last) = out.as_chunks_mut::<GROUP>();
    let (many, few) = groups.as_chunks::<ABREAST>();
    let (many_outs, few_outs) = outs.as_chunks_mut::<ABREAST>();
    for (groups, outs) in many.iter().zip(many_outs) {
        let (mut sums, mut sum) = ([[T::start::<false>(); ABREAST]; GROUP], [T::start::<false>(); ABREAST]);
        for i in 0..GROUP {
            for k in 0..ABREAST {
                sum[k] = fold(sum[k], groups[k][i].wide());
            }
            sums[i] = sum;
        }
        for k in 0..ABREAST {
            let before = fold(carry, own);
            for i in 0..GROUP {
                outs[k][i] = T::narrow(fold(before, sums[i][k]));
            }
            own = fold(own, sum[k]);
        }
    }
    for (group, out) in few.iter().zip(few_outs) {
        let (before, mut sum) = (fold(carry, own), T::start::<false>());
        for i in 0..GROUP {
            sum = fold(sum, group[i].wide());
            out[i] = T::narrow(fold(before, sum));
        }
        own = fold(own, sum);
    }
    for (o, &x) in last.iter_mut().zip(rest) {
        own = fold(own, x.wide());
        *o = T::narrow(fold(carry, own));
    }
    own
}
