//! Edges of functions: NaN, ties, zeros, infinities, and reductions of nothing.

use foldback_graph::{Backward, Grad, RequiresGrad, Result, Var, grad, grad_with};
use foldback_tensor::{DType, Tensor, keep, tensor};

use crate::{INF, NAN, all, grads, near, same};

// The gradient was masked by a product, and 0 times NaN is NaN.
#[test]
fn nan_in_the_other_branch() {
    let cond = Var::from(tensor![true, false; bool]);
    let [a, b] = grads([tensor![1.0, NAN; f64], tensor![NAN, 2.0; f64]], |[a, b]| cond.where_cond(a, b));
    same(&a, tensor![1.0, 0.0; f64]);
    same(&b, tensor![0.0, 1.0; f64]);
    // second order through both branches
    let x = tensor![2.0, 0.0; f64].requires_grad();
    let y = x.gt(0.0).unwrap().where_cond(x.pow(3.0).unwrap(), x.square()).unwrap();
    let first = Grad::new([&all(&y)], [&x]).create_graph(true).run().unwrap().remove(0).unwrap();
    same(&first.value(), tensor![12.0, 0.0; f64]);
    same(&grad(all(&first), &[&x]).unwrap()[0].value(), tensor![12.0, 2.0; f64]);
}

// Every largest element got the whole gradient, or the first of all rows did.
#[test]
fn ties_of_a_maximum() {
    let x = || tensor![[3.0, 3.0, 1.0], [2.0, 3.0, 3.0]; f64];
    let [g] = grads([x()], |[x]| x.amax(..));
    same(&g, tensor![[0.25, 0.25, 0.0], [0.0, 0.25, 0.25]; f64]);
    let weights = tensor![1.0, 10.0; f64];
    let [g] = grads([x()], |[x]| x.amax(1)?.mul(&weights));
    same(&g, tensor![[0.5, 0.5, 0.0], [0.0, 5.0, 5.0]; f64]);
    let [g] = grads([x()], |[x]| x.max_with_indices(1)?.0.mul(&weights));
    same(&g, tensor![[1.0, 0.0, 0.0], [0.0, 10.0, 0.0]; f64]);
    let [g] = grads([x()], |[x]| x.neg().min_with_indices(keep(0))?.0.mul(1.0));
    same(&g, tensor![[-1.0, -1.0, 0.0], [0.0, 0.0, -1.0]; f64]);
    let [g] = grads([x()], |[x]| x.amax(keep(0)));
    same(&g, tensor![[1.0, 0.5, 0.0], [0.0, 0.5, 1.0]; f64]);
}

// The product of the others was computed as the product divided by the element.
#[test]
fn products_of_zeros() {
    let second = |x: Tensor, weights: Tensor| {
        let x = x.requires_grad();
        let y = x.prod(..).unwrap();
        let first = grad_with(&y, &x, Backward::new().create_graph(true)).unwrap();
        let second = grad(all(&(&first * &weights)), &x).unwrap();
        (first.value(), second.value())
    };
    let weights = tensor![1.0, 10.0, 100.0; f64];
    // rows of the second derivative: (0 2 3), (2 0 0), (3 0 0)
    let (first, hessian) = second(tensor![0.0, 3.0, 2.0; f64], weights.clone());
    same(&first, tensor![6.0, 0.0, 0.0; f64]);
    same(&hessian, tensor![320.0, 2.0, 3.0; f64]);
    // (0 0 3), (0 0 0), (3 0 0)
    let (first, hessian) = second(tensor![0.0, 3.0, 0.0; f64], weights.clone());
    same(&first, tensor![0.0, 0.0, 0.0; f64]);
    same(&hessian, tensor![300.0, 0.0, 3.0; f64]);
    let (first, hessian) = second(tensor![0.0, 0.0, 0.0; f64], weights.clone());
    same(&first, tensor![0.0, 0.0, 0.0; f64]);
    same(&hessian, tensor![0.0, 0.0, 0.0; f64]);
    // along an axis, one zero in a row and two in the other; expected values from PyTorch
    let x = tensor![[0.0, 3.0, 2.0], [0.0, 5.0, 0.0]; f64].requires_grad();
    let y = all(&x.prod(1).unwrap().mul(&tensor![1.0, 10.0; f64]).unwrap());
    let first = grad_with(&y, &x, Backward::new().create_graph(true)).unwrap();
    same(&first.value(), tensor![[6.0, 0.0, 0.0], [0.0, 0.0, 0.0]; f64]);
    let weighted = all(&first.mul(&tensor![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]; f64]).unwrap());
    same(&grad(&weighted, &[&x]).unwrap()[0].value(), tensor![[13.0, 2.0, 3.0], [300.0, 0.0, 200.0]; f64]);
}

// p * 0**(p-1) is 0 * inf at p = 0, and y * ln(0) is 0 * -inf.
#[test]
fn powers_of_zero() {
    // exponent, 0**p, derivative by the base, derivative by the exponent; all from PyTorch
    for (p, y, base, exponent) in [
        (0.0, 1.0, 0.0, 0.0),
        (0.5, 0.0, INF, 0.0),
        (1.0, 0.0, 1.0, 0.0),
        (2.0, 0.0, 0.0, 0.0),
        (3.0, 0.0, 0.0, 0.0),
        (-1.0, INF, -INF, -INF),
    ] {
        let x = tensor![0.0; f64].requires_grad();
        let value = x.pow(p).unwrap();
        same(&value.value(), tensor![y; f64]);
        value.backward().unwrap();
        same(&x.grad().unwrap(), tensor![base; f64]);
        let [a, b] = grads([tensor![0.0; f64], tensor![p; f64]], |[a, b]| a.pow(b));
        same(&a, tensor![base; f64]);
        same(&b, tensor![exponent; f64]);
        let [b] = grads([tensor![p; f64]], |[b]| b.rpow(0.0));
        same(&b, tensor![exponent; f64]);
    }
    // a negative base has no derivative by the exponent, even where the power is real
    let [a, b] = grads([tensor![-2.0; f64], tensor![2.0; f64]], |[a, b]| a.pow(b));
    same(&a, tensor![-4.0; f64]);
    same(&b, tensor![NAN; f64]);
}

// A norm at the origin made every weight NaN; PyTorch's composed one does so too, and says how to avoid it.
#[test]
fn roots_of_zero() {
    let [g] = grads([tensor![0.0, 4.0; f64]], |[x]| Ok(x.sqrt()));
    same(&g, tensor![INF, 0.25; f64]);
    let norm = |x: &Var| Ok(x.mul(x)?.sum(..)?.sqrt());
    let [g] = grads([tensor![0.0, 0.0; f64]], |[x]| norm(x));
    same(&g, tensor![NAN, NAN; f64]);
    let [g] = grads([tensor![3.0, 4.0; f64]], |[x]| norm(x));
    near(&g, tensor![0.6, 0.8; f64]);
    // The argument is made safe, not the result.
    let safe = |x: &Var| {
        let squares = x.mul(x)?.sum(..)?;
        let positive = squares.gt(0.0)?;
        positive.where_cond(positive.where_cond(&squares, 1.0)?.sqrt(), 0.0)
    };
    let [g] = grads([tensor![0.0, 0.0; f64]], |[x]| safe(x));
    same(&g, tensor![0.0, 0.0; f64]);
    let [g] = grads([tensor![3.0, 4.0; f64]], |[x]| safe(x));
    near(&g, tensor![0.6, 0.8; f64]);
}

// (x - mean) / std is 0 / 0.
#[test]
fn std_of_equal_values() {
    let [g] = grads([tensor![[2.0, 2.0, 2.0], [1.0, 2.0, 3.0]; f64]], |[x]| x.std(1));
    same(&g, tensor![[0.0, 0.0, 0.0], [-0.5, 0.0, 0.5]; f64]);
    let [g] = grads([tensor![2.0, 2.0; f64]], |[x]| x.var(..));
    same(&g, tensor![0.0, 0.0; f64]);
    // one value has no deviation from the others
    let x = tensor![2.0; f64].requires_grad();
    let y = x.std(..).unwrap();
    same(&y.value(), Tensor::from(NAN));
    y.backward().unwrap();
    same(&x.grad().unwrap(), tensor![NAN; f64]);
}

// Subtracting a maximum of -inf, or multiplying its weight of 0 with infinity, gave NaN in rows that have other entries.
#[test]
fn softmax_of_minus_infinity() {
    let x = || tensor![-INF, 0.0, 0.0; f64];
    near(&x().softmax(0).unwrap(), tensor![0.0, 0.5, 0.5; f64]);
    let [g] = grads([x()], |[x]| x.softmax(0)?.mul(&tensor![1.0, 2.0, 3.0; f64]));
    near(&g, tensor![0.0, -0.25, 0.25; f64]);
    let [g] = grads([x()], |[x]| x.log_softmax(0));
    near(&g, tensor![1.0, -0.5, -0.5; f64]);
    let [g] = grads([x()], |[x]| x.log_softmax(0)?.slice(1..));
    near(&g, tensor![0.0, 0.0, 0.0; f64]);
    // Nothing to distribute over is NaN, in value and gradient, and stays in its row.
    let rows = tensor![[-INF, -INF], [0.0, 0.0]; f64];
    same(&rows.softmax(1).unwrap(), tensor![[NAN, NAN], [0.5, 0.5]; f64]);
    let [g] = grads([rows], |[x]| x.softmax(1)?.mul(&tensor![1.0, 3.0; f64]));
    same(&g, tensor![[NAN, NAN], [-0.5, 0.5]; f64]);
}

// -inf minus the maximum of -inf made the sum NaN.
#[test]
fn logsumexp_of_nothing_but_minus_infinity() {
    let ln2 = std::f64::consts::LN_2;
    let rows = || tensor![[-INF, -INF], [0.0, 0.0], [-INF, 0.0]; f64];
    near(&rows().logsumexp(1).unwrap(), tensor![-INF, ln2, 0.0; f64]);
    // PyTorch's gradient there is NaN: exp(-inf - -inf)
    let [g] = grads([rows()], |[x]| x.logsumexp(1));
    near(&g.slice(1..).unwrap(), tensor![[0.5, 0.5], [0.0, 1.0]; f64]);
    same(&g.slice(0).unwrap(), tensor![NAN, NAN; f64]);
    near(&tensor![INF, 0.0; f64].logsumexp(0).unwrap(), Tensor::from(INF));
}

// Reductions of nothing read past the end, divided by zero or lost their identity.
#[test]
fn reductions_of_nothing() {
    let none = || Tensor::zeros_with([0], DType::F64).requires_grad();
    let shape = || Tensor::zeros_with([0, 3], DType::F64).requires_grad();
    type Reduce = fn(&Var, foldback_tensor::Axes) -> Result<Var>;
    let reductions: [(Reduce, f64); 6] = [
        (|x, a| x.sum(a), 0.0),
        (|x, a| x.prod(a), 1.0),
        (|x, a| x.mean(a), NAN),
        (|x, a| x.var(a), NAN),
        (|x, a| x.std(a), NAN),
        (|x, a| x.logsumexp(a), -INF),
    ];
    for (reduce, identity) in reductions {
        let x = none();
        let y = reduce(&x, (..).into()).unwrap();
        same(&y.value(), Tensor::from(identity));
        y.backward().unwrap();
        assert_eq!(x.grad().unwrap().dims(), [0]);
        let x = shape();
        let y = reduce(&x, 0.into()).unwrap();
        same(&y.value(), tensor![identity, identity, identity; f64]);
        all(&y).backward().unwrap();
        assert_eq!(x.grad().unwrap().dims(), [0, 3]);
        let y = reduce(&x, 1.into()).unwrap();
        assert_eq!(y.shape(), [0]);
        all(&y).backward().unwrap();
        assert_eq!(x.grad().unwrap().dims(), [0, 3]);
    }
    // A maximum of nothing does not exist; one per row of no rows does.
    assert!(none().amax(..).is_err());
    assert!(shape().amax(0).is_err() && shape().max_with_indices(0).is_err());
    assert!(none().argmax(..).is_err());
    assert_eq!(shape().amax(1).unwrap().shape(), [0]);
    assert_eq!(shape().max_with_indices(keep(1)).unwrap().0.shape(), [0, 1]);
    assert_eq!(shape().softmax(0).unwrap().shape(), [0, 3]);
    let empty = none().value();
    assert!(empty.all(..).unwrap().item_as::<bool>().unwrap());
    assert!(!empty.any(..).unwrap().item_as::<bool>().unwrap());
}

// An integer mean was cut to an integer, and a difference of truth values was whatever the bytes said.
#[test]
fn refused_for_the_type() {
    for t in [tensor![1, 2; i64], tensor![true, false; bool]] {
        for error in [t.mean(..).unwrap_err(), t.var(..).unwrap_err(), t.std(..).unwrap_err()] {
            assert!(error.to_string().contains(t.dtype().name()), "{error}");
        }
        assert!(Var::from(t).mean(..).is_err());
    }
    let (p, q) = (tensor![true, false; bool], tensor![true, true; bool]);
    let mut target = p.clone();
    assert!(p.sub(&q).is_err() && p.sub(true).is_err() && p.try_neg().is_err());
    assert!(target.sub_(&q).is_err());
    assert_eq!(target, p);
    assert!(Var::from(p.clone()).sub(&q).is_err());
    assert!(tensor![1.0].sub(&p).is_err(), "one truth value is enough");
    let x = tensor![1.0, 2.0].requires_grad();
    assert!(x.sub(&p).is_err());
}
