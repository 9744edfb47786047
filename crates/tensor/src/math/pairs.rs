//! Numbers as sums of two that are not added up: what rounding took off is kept beside the result.

/// The product as a rounded number and what rounding took. Without `FMA` by Dekker's halves, which overflow from 2^970 on.
#[inline(always)]
pub(super) fn product<const FMA: bool>(a: f64, b: f64) -> (f64, f64) {
    let p = a * b;
    if FMA {
        return (p, a.mul_add(b, -p));
    }
    let halves = |v: f64| {
        let big = 134_217_729.0 * v;
        let high = big - (big - v);
        (high, v - high)
    };
    let ((a, a_low), (b, b_low)) = (halves(a), halves(b));
    (p, ((a * b - p) + a * b_low + a_low * b) + a_low * b_low)
}

/// The sum as a rounded number and what rounding took, for `|a| >= |b|` or `a == 0`.
#[inline(always)]
pub(super) fn sum(a: f64, b: f64) -> (f64, f64) {
    let s = a + b;
    (s, b - (s - a))
}

/// The square root of `a + a_low` in two parts, for a positive `a` below 2^970.
#[inline(always)]
pub(super) fn root<const FMA: bool>(a: f64, a_low: f64) -> (f64, f64) {
    let s = a.sqrt();
    let (square, square_low) = product::<FMA>(s, s);
    let rest = (a - square) - square_low + a_low;
    (s, rest / (s + s))
}
