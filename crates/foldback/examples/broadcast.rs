//! A gradient that was broadcast forward is folded back to the shape its input had.

use foldback::prelude::*;

fn main() -> Result<()> {
    let a = tensor![1.0, 2.0, 3.0].requires_grad(); // [3]
    let b = tensor![10.0].requires_grad(); // [1]

    let c = &a + &b; // b is broadcast to [3]
    c.sum(..)?.backward()?;

    for x in [&a, &b] {
        let grad = x.grad().expect("a leaf that was used has a gradient");
        println!("{}", grad.as_array::<f32>()?);
    }
    Ok(())
}
