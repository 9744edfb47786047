//! Buffers and seeds.

use foldback_graph::{RequiresGrad, Result, Var, no_grad};
use foldback_tensor::{DType, Tensor, keep, tensor};

use crate::{all, same};

// Two leaves were handed the same buffer, and an optimiser's step on one moved the other.
#[test]
fn two_leaves_and_one_buffer() {
    let (a, b) = (tensor![1.0, 2.0].requires_grad(), tensor![3.0, 4.0].requires_grad());
    let seed = tensor![5.0, 6.0];
    (&a + &b).backward_with(&seed).unwrap();
    // a step that uses the gradient's memory, and one that writes into it
    a.update_value(|v| v.sub_(a.grad().unwrap()).map(|_| ())).unwrap();
    let mut clipped = a.grad().unwrap();
    a.set_grad(None).unwrap();
    clipped.mul_(0.0).unwrap();
    a.set_grad(Some(clipped)).unwrap();
    same(&a.value(), tensor![-4.0, -4.0]);
    same(&b.grad().unwrap(), tensor![5.0, 6.0]);
    same(&b.value(), tensor![3.0, 4.0]);
    same(&seed, tensor![5.0, 6.0]);
    // and the other way round: the seed is written, the gradients stay
    let mut seed = seed;
    seed.fill_(0.0).unwrap();
    same(&b.grad().unwrap(), tensor![5.0, 6.0]);
    // one leaf on two edges
    let x = tensor![1.0, 1.0].requires_grad();
    let y = tensor![1.0, 1.0].requires_grad();
    (&x + &x + &y).backward_with(&tensor![1.0, 2.0]).unwrap();
    assert_eq!((x.grad(), y.grad()), (Some(tensor![2.0, 4.0]), Some(tensor![1.0, 2.0])));
}

// The first gradient's buffer was taken over for the sum although it was a view: of one number, or of a part.
#[test]
fn accumulating_into_a_view() {
    let x = tensor![1.0, 2.0, 3.0].requires_grad();
    // the gradient of a sum is an expanded number; it waits, and others are added to it
    let y = all(&x) + all(&(&x * 2.0)) + all(&(&x * &x));
    y.backward().unwrap();
    same(&x.grad().unwrap(), tensor![5.0, 7.0, 9.0]);
    // the gradient of cat's input is a narrow view of the seed
    let x = tensor![1.0, 2.0].requires_grad();
    let seed = tensor![1.0, 2.0, 3.0, 4.0];
    Var::cat(&[&x, &x], 0).unwrap().backward_with(&seed).unwrap();
    same(&x.grad().unwrap(), tensor![4.0, 6.0]);
    same(&seed, tensor![1.0, 2.0, 3.0, 4.0]);
    // and a transposed view of what another leaf keeps
    let (a, b) = (Tensor::zeros([2, 2]).requires_grad(), Tensor::zeros([2, 2]).requires_grad());
    let y = a.t() + &b;
    y.backward_with(&tensor![[1.0, 2.0], [3.0, 4.0]]).unwrap();
    (a.t() * 1.0).backward_with(&tensor![[10.0, 20.0], [30.0, 40.0]]).unwrap();
    same(&a.grad().unwrap(), tensor![[11.0, 33.0], [22.0, 44.0]]);
    same(&b.grad().unwrap(), tensor![[1.0, 2.0], [3.0, 4.0]]);
    // a kept gradient that is added to in a later pass stays what it was for those who read it
    let before = b.grad().unwrap();
    all(&b).backward().unwrap();
    same(&before, tensor![[1.0, 2.0], [3.0, 4.0]]);
    same(&b.grad().unwrap(), tensor![[2.0, 3.0], [4.0, 5.0]]);
}

// Rules that were only ever tried under a sum took the seed for ones.
#[test]
fn a_seed_that_is_not_ones() {
    let seed = tensor![[1.0, -2.0], [0.0, 3.0]; f64];
    let check = |f: &dyn Fn(&Var) -> Result<Var>, want: Tensor| {
        let x = tensor![[1.0, 2.0], [4.0, 8.0]; f64].requires_grad();
        f(&x).unwrap().backward_with(&seed).unwrap();
        same(&x.grad().unwrap(), want);
    };
    check(&|x| x.mul(x), tensor![[2.0, -8.0], [0.0, 48.0]; f64]);
    check(&|x| x.rdiv(8.0), tensor![[-8.0, 4.0], [0.0, -0.375]; f64]);
    check(&|x| x.try_t(), tensor![[1.0, 0.0], [-2.0, 3.0]; f64]);
    check(&|x| x.matmul(&tensor![[1.0, 1.0], [0.0, 2.0]; f64]), tensor![[-1.0, -4.0], [3.0, 6.0]; f64]);
    check(
        &|x| x.amax(keep(1))?.add(Tensor::zeros_with([2], DType::F64)),
        tensor![[0.0, -1.0], [0.0, 3.0]; f64],
    );
    check(&|x| x.sum(keep(0))?.mul(x), {
        // 5 and 10 are the sums; each column's sum gets 1*1 + 0*4 and -2*2 + 3*8
        tensor![[5.0 + 1.0, -20.0 + 20.0], [0.0 + 1.0, 30.0 + 20.0]; f64]
    });
    check(&|x| x.flip([0, 1]), tensor![[3.0, 0.0], [-2.0, 1.0]; f64]);
}

// A seed with stride 0 was written into, or handed on as it was and read past its single element.
#[test]
fn an_expanded_seed() {
    let number = Tensor::scalar(3.0f32);
    let seed = number.expand([2, 3]).unwrap();
    let (a, b) = (Tensor::zeros([2, 3]).requires_grad(), tensor![1.0, 2.0, 3.0].requires_grad());
    let y = &a + &b * 2.0 + &a;
    y.backward_with(&seed).unwrap();
    assert_eq!((a.grad(), b.grad()), (Some(seed.contiguous() * 2.0), Some(tensor![12.0, 12.0, 12.0])));
    assert!(a.grad().unwrap().is_contiguous());
    // a step on the gradient, and a second pass with the same seed
    let mut g = a.grad().unwrap();
    a.set_grad(None).unwrap();
    g.add_(1.0).unwrap();
    a.set_grad(Some(g)).unwrap();
    (&a * 1.0).backward_with(&seed).unwrap();
    same(&a.grad().unwrap(), seed.contiguous() * 3.0 + 1.0);
    same(&number, Tensor::scalar(3.0f32));
    // expanded along one axis only, straight into leaves
    let (p, q) = (Tensor::zeros([2, 3]).requires_grad(), Tensor::zeros([2, 3]).requires_grad());
    (&p + &q).backward_with(tensor![[1.0], [2.0]].expand([2, 3]).unwrap()).unwrap();
    no_grad(|| p.update_value(|v| v.add_(p.grad().unwrap()).map(|_| ()))).unwrap();
    same(&p.value(), tensor![[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]);
    same(&q.grad().unwrap(), tensor![[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]);
}
