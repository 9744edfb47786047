//! Rows that the kernel adds, each beside a number of its own, whose last segment is shorter than what it adds: nothing had been laid out for that, and the
//! number was read as a row.

use foldback::fuse;
use foldback::prelude::*;

#[test]
fn a_short_last_segment_of_a_row_beside_a_number() -> Result<()> {
    for cols in [43_690, 43_776, 43_777, 40_960] {
        let (x, w) = (Tensor::ones([3, cols]), tensor![[1.0], [2.0], [3.0]]);
        let sums = no_grad(|| fuse!(|x, w| x * w * 0.5 + x * 0.5).sum((&x, &w), 1))?;
        let n = cols as f64;
        assert_eq!(sums.value().to(DType::F64), tensor![n, 1.5 * n, 2.0 * n; f64]);
        // The gradient of a number for all is made of one for each row.
        let y = Tensor::ones([1, 1]).requires_grad();
        fuse!(|x, y| x * y).sum((&x, &y), 1)?.backward_with(&w.squeeze(1)?)?;
        assert_eq!(y.grad().map(|g| g.to(DType::F64)), Some(tensor![[6.0 * n]; f64]));
    }
    Ok(())
}
