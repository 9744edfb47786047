//! A gradient that was broadcast forward is folded back to the shape its input had.

use foldback::prelude::*;

fn main() -> Result<()> {
    let a = tensor![1.0, 2.0, 3.0].requires_grad(); // [3]
    let b = tensor![10.0].requires_grad(); // [1]

    let c = &a + &b; // b is broadcast: [3]
    c.sum(.., false)?.backward()?;

    for (name, x) in [("a", &a), ("b", &b)] {
        println!("the gradient of {name} is {:?}", x.grad().unwrap_or(tensor![]).to_vec::<f32>()?);
    }
    Ok(())
}
