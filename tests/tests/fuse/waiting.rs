//! Gradients of fused operations beside those that wait, and after a pass that fails.

use super::*;

/// Several operations read one variable: what the later ones have found is in the slot when the earlier ones add to it.
#[test]
fn gradients_are_added_to_what_waits() {
    let f = fuse!(|x, w| (x * w).tanh());
    let g = fuse!(|x, m, w| (x - m).square() * w);
    let h = fuse!(|x| x.exp());
    for (rows, cols) in [(3, 5), (70, 700)] {
        let shapes = [vec![rows, cols], vec![cols], vec![rows, 1]];
        for wide in [DType::F32, DType::F64] {
            let dtypes = [DType::F64, DType::F64, wide];
            let value =
                |i: usize| fill(&shapes[i][..], Domain::Any, &mut Random::new(i as u64)).to(dtypes[i]);
            let gradients = |fused: bool| -> Result<Vec<Tensor>> {
                let [x, w, m] = [0, 1, 2].map(|i| value(i).requires_grad());
                // A variable that is no leaf, and whose gradient is looked at.
                let y = x.mul(0.5)?;
                y.retain_grad().unwrap();
                let loss = if fused {
                    let all = [f.sum([&y, &w], ..)?, g.sum((&y, &m, &w), ..)?];
                    all[0].add(&all[1])?.add(&h.call([&y])?.mean(..)?)?.add(&y.sum(..)?)?
                } else {
                    let all = [y.mul(&w)?.tanh(), y.sub(&m)?.square().mul(&w)?];
                    let sums = all[0].sum(..)?.add(&all[1].sum(..)?)?;
                    sums.add(&y.exp().mean(..)?)?.add(&y.sum(..)?)?
                };
                // Twice, so that the leaves add up as well.
                loss.backward_with(foldback::graph::Backward::new().retain_graph(true))?;
                loss.backward()?;
                Ok([&x, &w, &m, &y].map(|v| v.grad().expect("all are reached")).into())
            };
            let (fused, plain) = (gradients(true).unwrap(), gradients(false).unwrap());
            for (i, (a, b)) in fused.iter().zip(&plain).enumerate() {
                assert_eq!((a.shape(), a.dtype()), (b.shape(), b.dtype()), "input {i}");
                let rtol = if a.dtype() == DType::F32 { 1e-5 } else { 1e-11 };
                assert!(close(a, b, rtol), "input {i} of {rows} x {cols}: {a} instead of {b}");
            }
        }
    }
}

/// One that fails has taken what waited; the pass fails, and no gradient is left behind or lost.
#[test]
fn a_failed_pass_leaves_the_gradients_as_they_were() {
    let f = fuse!(|x, w| x * w);
    let (x, w) = (tensor![1.0, 2.0].requires_grad(), tensor![3.0, 4.0].requires_grad());
    f.sum([&x, &w], ..).unwrap().backward().unwrap();
    let y = f.call([&x, &w]).unwrap();
    y.register_hook(|_| Some(Var::from(tensor![1.0, 2.0, 3.0]))).unwrap();
    let loss = y.sum(..).unwrap().add(f.sum([&x, &w], ..).unwrap()).unwrap();
    assert!(loss.backward().is_err());
    assert_eq!((x.grad(), w.grad()), (Some(tensor![3.0, 4.0]), Some(tensor![1.0, 2.0])));
}
