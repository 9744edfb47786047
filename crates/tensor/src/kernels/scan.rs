//! Running sums and products along an axis, in blocks of rows that are the same for any number of threads.

use crate::dtype::Element;
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
/// A matrix is cut into blocks of rows. What a row folds to is what all blocks before its own come to, and what the rows
/// of its block do up to it; so a block can start as soon as those before it have been folded, by whatever thread.
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
        (blocks > 1 && num_threads() > 1).then(|| carries::<T, PRODUCT>(source, [matrix, height * len], len));
    let grain = if carries.is_some() { 1 } else { (GRAIN / matrix).max(1) * blocks };
    split_work(
        count * blocks,
        grain,
        (0, out),
        &|(first, out): (usize, &mut [T]), at| {
            let (front, back) = out.split_at_mut(start(first + at) - start(first));
            ((first, front), (first + at, back))
        },
        &|first, pieces, (_, mut out)| {
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

/// What all rows before each block of a matrix come to.
fn carries<T: Running, const PRODUCT: bool>(
    source: &[T],
    [matrix, block]: [usize; 2],
    len: usize,
) -> Vec<T::Wide> {
    let blocks = matrix.div_ceil(block);
    let mut all = vec![T::start::<PRODUCT>(); source.len() / matrix * blocks * len];
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
                total_of_rows::<T, PRODUCT>(&rest[..block.min(rest.len())], total);
            }
        },
    );
    for matrix in all.chunks_exact_mut(blocks * len) {
        let mut before = vec![T::start::<PRODUCT>(); len];
        for block in matrix.chunks_exact_mut(len) {
            for (b, total) in before.iter_mut().zip(block) {
                let next = T::fold::<PRODUCT>(*b, *total);
                *total = std::mem::replace(b, next);
            }
        }
    }
    all
}

/// Folds the rows of a block, which follow what `carry` has come to, and adds them to it.
fn fold_rows<T: Running, const PRODUCT: bool>(source: &[T], carry: &mut [T::Wide], out: &mut [T]) {
    let fold = T::fold::<PRODUCT>;
    if let [carry] = carry {
        let mut own = T::start::<PRODUCT>();
        for (o, &x) in out.iter_mut().zip(source) {
            own = fold(own, x.wide());
            *o = T::narrow(fold(*carry, own));
        }
        *carry = fold(*carry, own);
        return;
    }
    let mut own = vec![T::start::<PRODUCT>(); carry.len()];
    for (line, out) in source.chunks_exact(carry.len()).zip(out.chunks_exact_mut(carry.len())) {
        for (((o, &x), own), &carry) in out.iter_mut().zip(line).zip(&mut own).zip(&*carry) {
            *own = fold(*own, x.wide());
            *o = T::narrow(fold(carry, *own));
        }
    }
    for (carry, own) in carry.iter_mut().zip(own) {
        *carry = fold(*carry, own);
    }
}

/// What the rows of a block come to, in the order of [`fold_rows`].
fn total_of_rows<T: Running, const PRODUCT: bool>(source: &[T], total: &mut [T::Wide]) {
    if let [total] = total {
        *total = source.iter().fold(*total, |t, &x| T::fold::<PRODUCT>(t, x.wide()));
        return;
    }
    for line in source.chunks_exact(total.len()) {
        for (t, &x) in total.iter_mut().zip(line) {
            *t = T::fold::<PRODUCT>(*t, x.wide());
        }
    }
}
