//! Several short rows at once: elementwise over all of them, with what belongs to a row beside each of its elements.

use super::{Line, Repeated, RowFloat, RowFormula, larger, largest_within, sum_within, taken};
use crate::kernels::by_length;
use crate::kernels::doors::door;
use crate::kernels::lane::Lane;
use crate::kernels::level::{Level, level};
use crate::task::RUN;

/// Rows up to this long are worked on several at once: what a loop over one of them leaves over of the last vector is
/// most of a short one.
pub(super) const SHORT: usize = RUN / 4;

/// The length of rows, as a constant where it is one.
#[inline(always)]
fn length<const N: usize>(n: usize) -> usize {
    if N == 0 { n } else { N }
}

door! {
    /// Something of each row, beside every element of it.
    pub(super) fn spread[T: RowFloat][T](of_rows: &[T], n: usize, to: &mut [T]);
    body spread_body
}
#[inline(always)]
fn spread_body<const FMA: bool, T: RowFloat>(of_rows: &[T], n: usize, to: &mut [T]) {
    #[inline(always)]
    fn rows<T: RowFloat, const N: usize>(of_rows: &[T], n: usize, to: &mut [T]) {
        for (row, &v) in to.chunks_exact_mut(length::<N>(n)).zip(of_rows) {
            row.fill(v);
        }
    }
    by_length!(n, [2 3 4 5 6 7 8 10 12 16], rows::<T>(of_rows, n, to))
}

door! {
    /// The largest element of each row.
    fn largest_of_rows[T: RowFloat][T](x: &[T], n: usize, out: &mut [T]);
    body largest_of_rows_body
}
#[inline(always)]
fn largest_of_rows_body<const FMA: bool, T: RowFloat>(x: &[T], n: usize, out: &mut [T]) {
    #[inline(always)]
    fn rows<T: RowFloat, const N: usize>(x: &[T], n: usize, out: &mut [T]) {
        for (m, row) in out.iter_mut().zip(x.chunks_exact(length::<N>(n))) {
            *m = if N == 0 {
                largest_within(row)
            } else {
                row.iter().fold(T::of(f64::NEG_INFINITY), |a, &b| larger(a, b))
            };
        }
    }
    by_length!(n, [2 3 4 5 6 7 8 10 12 16], rows::<T>(x, n, out))
}

door! {
    /// The sum of each row.
    fn sums_of_rows[T: RowFloat][T](x: &[T], n: usize, out: &mut [T]);
    body sums_of_rows_body
}
#[inline(always)]
fn sums_of_rows_body<const FMA: bool, T: RowFloat>(x: &[T], n: usize, out: &mut [T]) {
    #[inline(always)]
    fn rows<T: RowFloat, const N: usize>(x: &[T], n: usize, out: &mut [T]) {
        for (sum, row) in out.iter_mut().zip(x.chunks_exact(length::<N>(n))) {
            *sum = sum_within(row);
        }
    }
    by_length!(n, [2 3 4 5 6 7 8 10 12 16], rows::<T>(x, n, out))
}

/// The terms of some short rows, and the sum of each row's as the result takes it.
#[inline(always)]
fn terms_of_short_rows<const FMA: bool, T: RowFloat, F: RowFormula>(
    f: &F,
    [a, b]: [&[T]; 2],
    n: usize,
    terms: &mut [T],
    sums: &mut [T],
) {
    let (a, b) = (&a[..terms.len()], &b[..terms.len()]);
    for i in 0..terms.len() {
        terms[i] = f.term(Lane::<T, FMA>(a[i]), Lane(b[i])).0;
    }
    sums_of_rows(terms, n, sums);
    for sum in sums {
        *sum = taken::<FMA, T, F>(*sum).0;
    }
}

/// [`norms`] of some short rows, each in an array of its own.
#[inline(always)]
pub(super) fn norms_of_short_rows<const FMA: bool, T: RowFloat, F: RowFormula>(
    f: &F,
    x: &[T],
    n: usize,
    [largest_of, sums]: [&mut [T]; 2],
    [shifts, terms]: [&mut [T; RUN]; 2],
) {
    largest_of_rows(x, n, largest_of);
    spread(largest_of, n, shifts);
    terms_of_short_rows::<FMA, T, F>(f, [x, shifts], n, &mut terms[..x.len()], sums);
}

/// [`write_row`] for short rows, of `n`. Of `a` there may be one element for each of them.
#[inline(always)]
pub(super) fn write_short_rows<const FMA: bool, T: RowFloat, F: RowFormula>(
    f: &F,
    a: &[T],
    b: &[T],
    n: usize,
    out: &mut [T],
) {
    let [spread_out, sums, spread_sums] = &mut [[T::of(0.0); RUN]; 3];
    let (at_once, is_each) = (RUN / n * n, a.len() == b.len());
    for (block, out) in out.chunks_mut(at_once).enumerate() {
        let (start, rows) = (block * at_once, out.len() / n);
        let own = start..start + out.len();
        let sums = &mut sums[..rows];
        let (x, y): (&[T], &[T]) = if F::TRAITS.shifted {
            largest_of_rows(&a[own.clone()], n, sums);
            spread(sums, n, spread_out);
            (&a[own], spread_out)
        } else if is_each {
            (&a[own.clone()], &b[own])
        } else {
            spread(&a[start / n..][..rows], n, spread_out);
            (spread_out, &b[own])
        };
        if !F::TRAITS.plain {
            terms_of_short_rows::<FMA, T, F>(f, [x, y], n, out, sums);
        } else {
            if is_each {
                sums_of_rows(&x[..out.len()], n, sums);
            } else {
                for (sum, x) in sums.iter_mut().zip(x.chunks_exact(n)) {
                    *sum = Repeated(x[0]).sum(n);
                }
            }
            for sum in &mut *sums {
                *sum = taken::<FMA, T, F>(*sum).0;
            }
        }
        spread(sums, n, spread_sums);
        let (x, y, s) = (&x[..out.len()], &y[..out.len()], &spread_sums[..out.len()]);
        for i in 0..out.len() {
            out[i] = f.result(Lane::<T, FMA>(x[i]), Lane(y[i]), Lane(out[i]), Lane(s[i])).0;
        }
    }
}

#[cfg(test)]
mod tests {
    /// Rows beside each other have the bits that they have alone, and the values of plain loops in f64.
    #[test]
    fn short_rows_are_those_that_they_are_alone() {
        use crate::{DType, Tensor};
        for n in [1, 2, 3, 5, 7, 8, 9, 10, 16, 17, 33, 63, 64, 65, 200, 256, 257, 300] {
            let rows = 2500 / n + 3;
            let value = |i: usize| (i * 7919 % 997) as f64 / 100.0 - 5.0;
            let x = Tensor::from_vec((0..rows * n).map(value).collect::<Vec<_>>(), [rows, n]).unwrap();
            let g = x.mul(0.3).unwrap().sin();
            for dtype in [DType::F32, DType::F64] {
                let (x, g) = (x.to(dtype), g.to(dtype));
                let all = |x: &Tensor, g: &Tensor| {
                    let (soft, log) = (x.softmax(1).unwrap(), x.log_softmax(1).unwrap());
                    let own = [
                        crate::kernel::softmax_backward(g, &soft, 1.into()).unwrap(),
                        crate::kernel::log_softmax_backward(g, &log, 1.into()).unwrap(),
                    ];
                    [soft, log, x.logsumexp(1).unwrap(), own[0].clone(), own[1].clone()]
                };
                let together = all(&x, &g);
                for row in [0, 1, rows / 2, rows - 1] {
                    let [x, g] = [&x, &g].map(|t| t.narrow(0, row as isize, 1).unwrap().contiguous());
                    for (alone, together) in all(&x, &g).iter().zip(&together) {
                        assert!(*alone == together.narrow(0, row as isize, 1).unwrap(), "{n} {dtype}");
                    }
                }
                let line: Vec<f64> = (0..n).map(|i| value((rows - 1) * n + i)).collect();
                let (m, e) = (
                    line.iter().copied().fold(f64::MIN, f64::max),
                    if dtype == DType::F64 { 1e-12 } else { 2e-5 },
                );
                let sum: f64 = line.iter().map(|v| (v - m).exp()).sum();
                let last = |t: &Tensor| {
                    t.narrow(0, rows as isize - 1, 1).unwrap().to(DType::F64).to_vec::<f64>().unwrap()
                };
                for (i, v) in line.iter().enumerate() {
                    assert!((last(&together[0])[i] - (v - m).exp() / sum).abs() < e, "{n}");
                    assert!((last(&together[1])[i] - (v - m - sum.ln())).abs() < e, "{n}");
                }
                assert!((last(&together[2])[0] - (m + sum.ln())).abs() < e, "{n}");
            }
        }
    }
}
