//! Formulas that several tests evaluate.

use foldback_tensor::kernel::{FloatOps, Formula, Real};

/// What the gradient of a product is made of: `g * x`.
#[derive(Clone, Copy, Debug)]
pub struct Product;
impl Formula<2> for Product {
    #[inline(always)]
    fn eval<R: Real>(&self, [g, x]: [R; 2]) -> R
    where
        f64: FloatOps<R>,
    {
        g * x
    }
}
