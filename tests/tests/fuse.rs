//! smoke
use foldback::prelude::*;
#[test]
fn smoke() {
    let f = fuse!(|x, w, b| (x * w + b).square());
    let x = tensor![[1.0, 2.0], [3.0, 4.0]].requires_grad();
    let w = tensor![0.5, -1.0].requires_grad();
    let y = f.sum((&x, &w, 1.0), .., false).unwrap();
    y.backward().unwrap();
    println!("{:?} {:?} {f:?} {}", x.grad(), w.grad(), f.call((&x, &tensor![1.0, 2.0, 3.0], 1.0)).unwrap_err());
}
