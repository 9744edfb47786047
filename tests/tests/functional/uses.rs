//! What functional derivatives are used for, and functions that are deep or checkpointed.

use foldback::graph::{Result, checkpoint, jacfwd};
use foldback::prelude::*;

#[test]
fn per_sample_gradients_come_in_one_batched_pass() {
    let (x, t) = (tensor![[1.0, 2.0], [3.0, -1.0], [0.5, 0.5]; f64], tensor![1.0, 0.0, 2.0; f64]);
    let w = tensor![0.3, -0.2; f64];
    let losses = |w: &Var| Var::from(&x).matmul(w)?.sub(&t).map(|r| r.square());
    let each = jacobian(losses, &w).unwrap();
    let residual = x.matmul(&w).unwrap() - &t;
    assert_close!(each.value(), 2.0 * residual.unsqueeze(1).unwrap() * &x, atol = 1e-14);
    // Of a model, whose parameters are what they are: seeds that are an identity over the examples.
    let model = sequential![Linear::new(2, 3), Tanh, Linear::new(3, 2)];
    let x = x.to(DType::F32);
    let losses = loss::CrossEntropyLoss::new().reduction(loss::Reduction::None);
    let labels = tensor![0, 1, 1; i64];
    let all = losses.forward(model.forward(&x).unwrap(), &labels).unwrap();
    let parameters = model.parameters();
    let pass = Grad::new(&all, &parameters).seed(Tensor::eye(3)).is_grads_batched(true);
    let found = pass.retain_graph(true).run().unwrap();
    for i in 0..3 {
        let one = all.select(0, i).unwrap();
        let one = grad_with(&one, &parameters, Backward::new().retain_graph(true)).unwrap();
        for (found, one) in found.iter().flatten().zip(&one) {
            assert_close!(found.value().select(0, i).unwrap(), one.value(), rtol = 1e-5, atol = 1e-7);
        }
    }
}

/// The critic of a Wasserstein GAN: its slope at each example is to have length one (Gulrajani et al., 2017).
#[test]
fn a_gradient_penalty_trains_through_a_gradient() {
    let (x, w) = (tensor![[0.5, -1.0], [2.0, 0.3]; f64], tensor![[0.4, -0.2, 0.7], [0.1, 0.9, -0.5]; f64]);
    let v = tensor![0.3, -0.8, 0.6; f64];
    let penalty = |w: &Var| -> Result<Var> {
        let critic = |x: &Var| x.matmul(w)?.tanh().matmul(&v)?.sum(..);
        let (_, slopes) = vjp(critic, &x, 1.0)?;
        (slopes.norm(1)? - 1.0).square().mean(..)
    };
    let leaf = w.requires_grad_(true);
    penalty(&leaf).unwrap().backward().unwrap();
    Check::new().gradcheck(|w: &[Var]| penalty(&w[0]), std::slice::from_ref(&w)).unwrap();
    // The same by a recorded pass.
    let x = x.requires_grad_(true);
    let other = w.requires_grad_(true);
    let out = x.matmul(&other).unwrap().tanh().matmul(&v).unwrap().sum(..).unwrap();
    let slopes = grad_with(&out, &x, Backward::new().create_graph(true)).unwrap();
    let loss = (slopes.norm(1).unwrap() - 1.0).square().mean(..).unwrap();
    assert_close!(leaf.grad().unwrap(), grad(&loss, &other).unwrap().value(), rtol = 1e-12);
}

/// `z = tanh(z w + x)`: the gradient at the solution needs none of the steps that led there.
#[test]
fn a_fixed_point_has_an_implicit_gradient() {
    let (w, x) = (tensor![[0.2, -0.1], [0.3, 0.1]; f64], tensor![0.5, -0.4; f64]);
    let step = |z: &Var, w: &Var, x: &Var| -> Result<Var> { Ok((z.matmul(w)? + x).tanh()) };
    let solve = |w: &Var, x: &Var| -> Result<Var> {
        let mut z = Var::from(Tensor::zeros_with([2], DType::F64));
        for _ in 0..200 {
            z = step(&z, w, x)?;
        }
        Ok(z)
    };
    // The result as a value; one more step for the slopes at it, with a gradient that solves g = v + g dz'/dz.
    let implicit = |w: &Var, x: &Var| -> Result<Var> {
        let fixed = no_grad(|| solve(w, x))?;
        let z = step(&fixed, w, x)?;
        let (w, x) = (w.detach(), x.detach());
        z.register_hook(move |v: &Var| -> Result<Var> {
            let mut g = v.clone();
            for _ in 0..200 {
                g = vjp(|z: &Var| step(z, &w, &x), &fixed, &g)?.1 + v;
            }
            Ok(g)
        })?;
        Ok(z)
    };
    let weights = tensor![1.0, -2.0; f64];
    let gradients = |f: &dyn Fn(&Var, &Var) -> Result<Var>| {
        let (w, x) = (w.requires_grad_(true), x.requires_grad_(true));
        let loss = f(&w, &x).unwrap().mul(&weights).unwrap().sum(..).unwrap();
        grad(&loss, [&w, &x]).unwrap().map(|g| g.value())
    };
    for (found, expected) in gradients(&implicit).iter().zip(&gradients(&solve)) {
        assert_close!(found, expected, rtol = 1e-12, atol = 1e-13);
    }
}

/// A function is called once, so that what else it computes can be taken out of it.
#[test]
fn what_a_function_computes_beside_its_result_is_taken_out_of_it() {
    let (mut logits, x) = (None, tensor![1.0, 2.0; f64]);
    let loss = |x: &Var| -> Result<Var> {
        let y = x.square();
        logits = Some(y.detach());
        y.sum(..)
    };
    let (_, slope) = vjp(loss, &x, 1.0).unwrap();
    assert_eq!(logits.unwrap().value(), tensor![1.0, 4.0; f64]);
    assert_eq!(slope.value(), tensor![2.0, 4.0; f64]);
}

#[test]
fn a_deep_graph_has_forward_derivatives_too() {
    let deep = |x: &Var| {
        let mut y = x.clone();
        for _ in 0..100_000 {
            y = &y + x;
        }
        y
    };
    let run = move || jvp(deep, &tensor![1.0; f64], &tensor![2.0; f64]).unwrap().1.value();
    let small = std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap();
    assert_eq!(small.join().unwrap(), tensor![200_002.0; f64]);
}

#[test]
fn checkpoints_have_forward_and_batched_derivatives_too() {
    let (x, w) = (tensor![0.3, -0.7, 1.1; f64], tensor![0.5, -1.0, 0.2; f64].requires_grad());
    let plain = |x: &Var| -> Result<Var> { (x.square().mul(&w)?.softmax(0)? * x.exp()).cumsum(0) };
    let captured = w.clone();
    let kept = move |x: &Var| -> Result<Var> {
        let inner = captured.clone();
        // Nested, the same variable twice, an output that is an operand, and one that is saved downstream.
        let [a, b] = checkpoint(
            move |[x, same]| {
                let w = inner.clone();
                let product = checkpoint(move |[x, same]| x.mul(same)?.mul(&w), [x, same])?;
                Ok([product.softmax(0)?, x.clone()])
            },
            [x, x],
        )?;
        (a * b.exp()).cumsum(0)
    };
    let v = tensor![1.0, 0.5, -2.0; f64];
    let number = |f: &dyn Fn(&Var) -> Result<Var>, x: &Var| f(x)?.square().sum(..);
    let close = |a: Var, b: Var| assert_close!(a.value(), b.value(), rtol = 1e-12, atol = 1e-14);
    close(jvp(&kept, &x, &v).unwrap().1, jvp(plain, &x, &v).unwrap().1);
    close(jacobian(&kept, &x).unwrap(), jacobian(plain, &x).unwrap());
    close(jacfwd(&kept, &x).unwrap(), jacfwd(plain, &x).unwrap());
    let (h, expected) = (hessian(|x| number(&kept, x), &x), hessian(|x| number(&plain, x), &x));
    close(h.unwrap(), expected.unwrap());
    close(hvp(|x| number(&kept, x), &x, &v).unwrap().1, vhp(|x| number(&plain, x), &x, &v).unwrap().1);
    let slope =
        |f: &dyn Fn(&Var) -> Result<Var>| grad(jvp(f, &x, &v).unwrap().1.sum(..).unwrap(), &w).unwrap();
    close(slope(&kept), slope(&plain));
}
