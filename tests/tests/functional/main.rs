//! Derivatives of functions: against PyTorch's (`tests/golden/make_functional.py`), against each other, and where they are refused.

mod uses;

use foldback::graph::{Function, FunctionContext, Outputs, Result, jacfwd};
use foldback::prelude::*;
use serde_json::Value;

fn golden() -> Value {
    serde_json::from_str(include_str!("../../golden/functional.json")).expect("a JSON file")
}

fn tensor_of(v: &Value) -> Tensor {
    let list = |v: &Value| -> Vec<f64> {
        v.as_array().expect("a list").iter().map(|x| x.as_f64().expect("a number")).collect()
    };
    let shape: Vec<usize> = list(&v["shape"]).iter().map(|&n| n as usize).collect();
    Tensor::from_vec(list(&v["values"]), shape).expect("as many values as the shape has")
}

fn tensors_of(v: &Value) -> Vec<Tensor> {
    v.as_array().expect("a list").iter().map(tensor_of).collect()
}

/// The functions of the script.
fn function(name: &str, x: &[Var]) -> Result<Vec<Var>> {
    Ok(match name {
        "broadcast" => vec![(&x[0] / (1.0 + &x[1] * &x[1])).sin()],
        "layer" => vec![x[0].matmul(x[1].t())?.tanh().softmax(-1)?],
        "views" => vec![(x[0].t().reshape([2, 3])?.cumsum(1)? * x[0].exp()).flip(0)?],
        "reductions" => vec![x[0].prod(1)? + x[0].logsumexp(0)?.sum(..)? + x[0].amax(..)?],
        "two" => vec![&x[0] * x[1].sum(..)?, x[1].exp() - x[0].select(0, 0)?],
        "number" => {
            let first = x[0].matmul(&x[1])?.log_softmax(-1)?.select(1, 0)?.square().sum(..)?;
            vec![first + (x[0].select(0, 0)? / x[1].select(1, 1)?).pow(3)?.sum(..)?]
        }
        "linear" => vec![(&x[0] * 3.0).sum(..)?],
        "unused" => vec![x[0].square().sum(..)?],
        other => panic!("no function {other}"),
    })
}

#[track_caller]
fn agree(what: &str, name: &str, found: &[Var], expected: &Value) {
    let expected = tensors_of(expected);
    assert_eq!(found.len(), expected.len(), "{what} of {name}");
    for (f, e) in found.iter().zip(&expected) {
        assert_eq!(f.shape(), e.shape(), "{what} of {name}");
        assert_close!(f.value(), e, rtol = 1e-12, atol = 1e-13);
    }
}

#[test]
fn all_agree_with_pytorch() {
    for case in golden().as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let f = |x: &[Var]| function(name, x);
        let [x, v, u] = ["arguments", "tangents", "cotangents"].map(|k| tensors_of(&case[k]));
        let (value, gradients) = vjp(f, x.clone(), u).unwrap();
        agree("value", name, &value, &case["value"]);
        agree("vjp", name, &gradients, &case["vjp"]);
        let (value, tangents) = jvp(f, x.clone(), v.clone()).unwrap();
        agree("value", name, &value, &case["value"]);
        agree("jvp", name, &tangents, &case["jvp"]);
        let (backward, forward) = (jacobian(f, x.clone()).unwrap(), jacfwd(f, x.clone()).unwrap());
        for ((b, f), expected) in backward.iter().zip(&forward).zip(case["jacobian"].as_array().unwrap()) {
            agree("jacobian", name, b, expected);
            agree("jacfwd", name, f, expected);
        }
        if case["hessian"].is_array() {
            let rows = hessian(f, x.clone()).unwrap();
            for (row, expected) in rows.iter().zip(case["hessian"].as_array().unwrap()) {
                agree("hessian", name, row, expected);
            }
            agree("hvp", name, &hvp(f, x.clone(), v.clone()).unwrap().1, &case["hvp"]);
            agree("vhp", name, &vhp(f, x, v).unwrap().1, &case["vhp"]);
        }
    }
}

fn smooth(x: &Var, w: &Var) -> Result<Var> {
    x.matmul(w)?.tanh().square().sum(..)
}

fn samples() -> [Tensor; 2] {
    [tensor![[0.3, -0.7], [1.1, 0.4]; f64], tensor![[0.5, -1.0], [0.2, 0.9]; f64]]
}

#[test]
fn they_agree_with_grad() {
    let [x, w] = samples();
    let (leaf, other) = (x.requires_grad_(true), w.requires_grad_(true));
    let [gx, gw] = grad(smooth(&leaf, &other).unwrap(), [&leaf, &other]).unwrap();
    let f = |[x, w]: &[Var; 2]| smooth(x, w);
    let (_, [vx, vw]) = vjp(f, [&x, &w], 1.0).unwrap();
    assert_eq!((vx.value(), vw.value()), (gx.value(), gw.value()));
    let [jx, jw] = jacobian(f, [&x, &w]).unwrap();
    assert_eq!((jx.value(), jw.value()), (gx.value(), gw.value()));
    let (_, dy) = jvp(f, [&x, &w], [&w, &x]).unwrap();
    let expected = (gx.value() * &w).sum(..).unwrap() + (gw.value() * &x).sum(..).unwrap();
    assert_close!(dy.value(), expected, rtol = 1e-14);
}

#[test]
fn jvp_is_exact_with_no_finite_difference_behind_it() {
    let (_, dy) = jvp(|x| x.pow(3), &tensor![3.0; f64], &tensor![1.0; f64]).unwrap();
    assert_eq!(dy.value(), tensor![27.0; f64]);
    // Differences would see neither: the value is far larger than the change, or there is a corner.
    let (_, dy) = jvp(|x| x + 1e18, &tensor![1.0; f64], &tensor![1e-30; f64]).unwrap();
    assert_eq!(dy.value(), tensor![1e-30; f64]);
    let (_, dy) = jvp(|x| x.relu(), &tensor![0.0, 1.0, -1.0], &tensor![5.0, 5.0, 5.0]).unwrap();
    assert_eq!(dy.value(), tensor![0.0, 5.0, 0.0]);
}

#[test]
fn a_hessian_is_symmetric_and_its_products_agree() {
    let [x, w] = samples();
    let f = |[x, w]: &[Var; 2]| smooth(x, w);
    let h = hessian(f, [&x, &w]).unwrap();
    let flat = |v: &Var| v.value().reshape([4, 4]).unwrap();
    assert_close!(flat(&h[0][1]), flat(&h[1][0]).t(), atol = 1e-14);
    let (_, forward) = hvp(f, [&x, &w], [&w, &x]).unwrap();
    let (_, backward) = vhp(f, [&x, &w], [&w, &x]).unwrap();
    for i in 0..2 {
        let part = |j: usize, v: &Tensor| flat(&h[i][j]).matmul(v.flatten(..).unwrap()).unwrap();
        let product = (part(0, &w) + part(1, &x)).reshape([2, 2]).unwrap();
        assert_close!(forward[i].value(), product, atol = 1e-13);
        assert_close!(backward[i].value(), product, atol = 1e-13);
    }
}

#[test]
fn they_nest_and_do_not_confuse_what_belongs_to_whom() {
    let (x, one) = (tensor![3.0; f64], tensor![1.0; f64]);
    // d/dx of x * (d/dy of x * y) = x * x
    let (_, d) =
        jvp(|x| x.mul(jvp(|y| x.mul(y), &tensor![7.0; f64], &tensor![1.0; f64])?.1), &x, &one).unwrap();
    assert_eq!(d.value(), tensor![6.0; f64]);
    // The inner one is taken at the outer argument: d/dx of x * (d/dy of x * y^2 at y = x) = d/dx of 2 x^3
    let (_, d) = jvp(|x| x.mul(jvp(|y| x.mul(y.square()), x, &tensor![1.0; f64])?.1), &x, &one).unwrap();
    assert_eq!(d.value(), tensor![54.0; f64]);
    // Any order, in any mixture: d4/dx4 of x^5 = 120 x
    let second = |x: &Var| jacobian(|y| jvp(|z| z.pow(5), y, &tensor![1.0; f64]).map(|r| r.1), x);
    let fourth = jacfwd(|x| jacobian(|y| second(y)?.sum(..), x), &x).unwrap();
    assert_eq!(fourth.value(), tensor![360.0; f64].reshape(fourth.shape()).unwrap());
    let (_, h) = hvp(|x| jvp(|y| y.pow(5), x, &tensor![1.0; f64]).map(|r| r.1), &x, &one).unwrap();
    assert_eq!(h.value(), tensor![5.0 * 4.0 * 3.0 * 9.0; f64]);
}

#[test]
fn derivatives_have_a_history_where_something_beyond_requires_a_gradient() {
    let w = tensor![2.0; f64].requires_grad();
    let x = tensor![3.0; f64];
    // A penalty on a slope: d/dw of (d/dx of w x^2)^2 = 8 w x^2
    let (_, slope) = jvp(|x| w.mul(x.square()), &x, &tensor![1.0; f64]).unwrap();
    slope.square().sum(..).unwrap().backward().unwrap();
    assert_eq!(w.grad(), Some(tensor![144.0; f64]));
    w.zero_grad();
    let (_, slope) = vjp(|x| w.mul(x.square()), &x, &tensor![1.0; f64]).unwrap();
    slope.square().sum(..).unwrap().backward().unwrap();
    assert_eq!(w.grad(), Some(tensor![144.0; f64]));
    // An argument that requires one is such a thing.
    let leaf = x.requires_grad_(true);
    let h = hessian(|x| x.pow(3)?.sum(..), &leaf).unwrap();
    assert_eq!(grad(h.sum(..).unwrap(), &leaf).unwrap().value(), tensor![6.0; f64]);
    let j = jacobian(|x| x.pow(3), &leaf).unwrap();
    assert_eq!(grad(j.sum(..).unwrap(), &leaf).unwrap().value(), tensor![18.0; f64]);
    let f = |x: &Var| x.pow(3)?.sum(..);
    for (_, product) in [hvp(f, &leaf, &x).unwrap(), vhp(f, &leaf, &x).unwrap()] {
        assert_eq!(grad(product.sum(..).unwrap(), &leaf).unwrap().value(), tensor![18.0; f64]);
    }
    // Otherwise nothing has.
    let (y, dy) = jvp(|x| x.square(), &x, &x).unwrap();
    assert!(!y.requires_grad() && !dy.requires_grad());
    let (y, g) = no_grad(|| vjp(|x| w.mul(x), &leaf, &x)).unwrap();
    assert_eq!(g.value(), tensor![6.0; f64]);
    assert!(!y.requires_grad() && !g.requires_grad());
    assert_eq!((leaf.grad(), no_grad(|| hessian(f, &leaf)).unwrap().requires_grad()), (None, false));
}

#[test]
fn what_does_not_depend_has_derivatives_of_zero() {
    let (x, y) = (tensor![1.0, 2.0], tensor![[3.0]]);
    let f = |[x, _]: &[Var; 2]| [x.clone(), Var::from(tensor![5.0])];
    let (_, [a, b]) = vjp(f, [&x, &y], [&tensor![1.0, 10.0], &tensor![1.0]]).unwrap();
    assert_eq!((a.value(), b.value()), (tensor![1.0, 10.0], tensor![[0.0]]));
    let (_, [a, b]) = jvp(f, [&x, &y], [&x, &y]).unwrap();
    assert_eq!((a.value(), b.value()), (x.clone(), tensor![0.0]));
    for [[xx, xy], [cx, cy]] in [jacobian(f, [&x, &y]).unwrap(), jacfwd(f, [&x, &y]).unwrap()] {
        assert_eq!((xx.value(), xy.value()), (tensor![[1.0, 0.0], [0.0, 1.0]], Tensor::zeros([2, 1, 1])));
        assert_eq!((cx.value(), cy.value()), (Tensor::zeros([1, 2]), Tensor::zeros([1, 1, 1])));
    }
    let [[aa, ab], [ba, bb]] = hessian(|_| Var::from(tensor![1.0]), [&x, &y]).unwrap();
    assert_eq!((aa.value(), bb.value()), (Tensor::zeros([2, 2]), Tensor::zeros([1, 1, 1, 1])));
    assert_eq!((ab.value(), ba.value()), (Tensor::zeros([2, 1, 1]), Tensor::zeros([1, 1, 2])));
    // Integers, which have no derivative, either.
    let (largest, d) = jvp(|x| x.value().argmax(..).map(Var::from), &x, &x).unwrap();
    assert_eq!(
        (largest.value(), d.value()),
        (tensor![1; i64].squeeze(0).unwrap(), tensor![0; i64].squeeze(0).unwrap())
    );
}

#[test]
fn empty_arguments_have_empty_derivatives() {
    let none = Tensor::zeros([0, 2]);
    assert_eq!(jacobian(|x| x.sum(0), &none).unwrap().shape(), [2, 0, 2]);
    assert_eq!(jacfwd(|x| x.sum(0), &none).unwrap().shape(), [2, 0, 2]);
    assert_eq!(jacobian(|x| x.exp(), &none).unwrap().shape(), [0, 2, 0, 2]);
    assert_eq!(jacfwd(|x| x.softmax(1), &none).unwrap().shape(), [0, 2, 0, 2]);
    assert_eq!(hessian(|x| x.exp().sum(..), &none).unwrap().shape(), [0, 2, 0, 2]);
}

#[test]
fn types_are_mixed_as_in_a_backward_pass() {
    let (x, w) = (tensor![1.0, 2.0], tensor![3.0; f64]);
    let f = |[x, w]: &[Var; 2]| x.mul(w)?.to(DType::F64).mul(x);
    let (_, [gx, gw]) = vjp(f, [&x, &w], &tensor![1.0, 1.0; f64]).unwrap();
    assert_eq!((gx.dtype(), gw.dtype()), (DType::F32, DType::F64));
    let (_, dy) = jvp(f, [&x, &w], [&tensor![1.0, 0.0], &tensor![1.0]]).unwrap();
    assert_eq!(dy.value(), tensor![7.0, 4.0; f64]);
    for [jx, jw] in [jacobian(f, [&x, &w]).unwrap(), jacfwd(f, [&x, &w]).unwrap()] {
        assert_eq!(jx.value().to(DType::F32), tensor![[6.0, 0.0], [0.0, 12.0]]);
        assert_eq!(jw.value().to(DType::F64), tensor![[1.0], [4.0]; f64]);
    }
}

/// `x^2 y`, and a second output; its backward is written with variables, or with tensors.
struct Own {
    once: bool,
}

impl Function for Own {
    fn name(&self) -> &'static str {
        "own"
    }
    fn forward(&self, x: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![x[0] * x[0] * x[1], x[1].clone()])
    }
    fn saves_inputs(&self) -> bool {
        true
    }
    fn once_differentiable(&self) -> bool {
        self.once
    }
    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        let (g, h, x, y) = (ctx.grad(0), ctx.grad(1), ctx.input(0), ctx.input(1));
        Ok(vec![Some(&g * &x * y * 2.0), Some(g * x.square() + h)])
    }
}

fn own(once: bool) -> impl Fn(&[Var; 2]) -> Result<[Var; 2]> {
    move |[x, y]| Own { once }.apply([x, y])
}

#[test]
fn a_users_function_has_forward_and_batched_derivatives() {
    let at = [tensor![2.0, 3.0; f64], tensor![5.0, 7.0; f64]];
    let (_, [a, b]) = jvp(own(false), at.each_ref(), [tensor![1.0, 0.0], tensor![0.0, 1.0]]).unwrap();
    assert_eq!((a.value(), b.value()), (tensor![20.0, 9.0; f64], tensor![0.0, 1.0; f64]));
    for [[ax, ay], [bx, by]] in
        [jacobian(own(false), at.each_ref()).unwrap(), jacfwd(own(false), at.each_ref()).unwrap()]
    {
        assert_eq!(ax.value(), tensor![[20.0, 0.0], [0.0, 42.0]; f64]);
        assert_eq!(ay.value(), tensor![[4.0, 0.0], [0.0, 9.0]; f64]);
        assert_eq!(bx.value(), Tensor::zeros_with([2, 2], DType::F64));
        assert_eq!(by.value(), tensor![[1.0, 0.0], [0.0, 1.0]; f64]);
    }
}

#[track_caller]
fn refused<T>(result: Result<T>, text: &str) {
    let e = result.map(|_| ()).unwrap_err();
    let found = e.to_string();
    assert!(found.contains(text), "{found}");
    assert!(found.contains(file!()), "{found}");
}

#[test]
fn an_operation_that_cannot_be_recorded_refuses_and_has_no_hessian_of_zeros() {
    let at = [tensor![2.0], tensor![5.0]];
    refused(
        jvp(own(true), at.each_ref(), at.each_ref()),
        "own: marked once-differentiable, so it has no forward derivative",
    );
    refused(
        hessian(|x: &[Var; 2]| own(true)(x).map(|[a, _]| a), at.each_ref()),
        "own: marked once-differentiable",
    );
    let [[ax, _], _] = jacobian(own(true), at.each_ref()).unwrap();
    assert_eq!(ax.value(), tensor![[20.0]]);
}

#[test]
fn bad_input_is_refused_with_the_operation_and_the_cure() {
    let (x, n) = (tensor![1.0, 2.0], tensor![1, 2; i64]);
    let f = |x: &Var| x.square();
    refused(
        jacobian(f, &n),
        "jacobian: argument 0 is of type i64, which has no derivative: use to(DType::F32)",
    );
    refused(jvp(f, &x, &tensor![1.0]), "jvp: the direction of argument 0 has shape [1]");
    refused(jvp(f, &x, &n), "jvp: the direction of argument 0 has shape [2] and type i64");
    refused(vjp(f, &x, 1.0), "vjp: the direction of output 0 has shape []");
    refused(jvp(f, &x, [&x, &x]), "jvp: expected 1 direction, one for each argument, got 2");
    refused(vjp(|x| [x.exp(), x.exp()], &x, &x), "vjp: expected 2 directions, one for each output, got 1");
    refused(hessian(f, &x), "hessian: the function must return a single number, found shape [2]: reduce it");
    refused(
        hvp(|x| [x.exp(), x.exp()], &x, &x),
        "hvp: the function must return a single number, found 2 outputs",
    );
    refused(vhp(f, &x, &x), "vhp: the function must return a single number");
    refused(
        jacobian(|x: &[Var]| x.to_vec(), Vec::<Tensor>::new()),
        "jacobian: the list of arguments must not be empty",
    );
    refused(jacobian(|x| x.reshape([3]), &x), "reshape: shape [3] is invalid");
    let vast = Tensor::zeros([1]).expand([1usize << 40]).unwrap();
    refused(jacobian(|x| x.clone(), &vast), "jacobian: a tensor of shape [1099511627776] is too large");
    refused(jacfwd(|x| x.narrow(0, 0, 1), &vast), "jacfwd: a tensor of shape [1099511627776] is too large");
    refused(hessian(|x| x.narrow(0, 0, 1), &vast), "hessian: a tensor of shape [1099511627776] is too large");
    let vast = Tensor::zeros([1]).expand([1usize << 60]).unwrap();
    refused(jacfwd(|x: &[Var; 17]| x[0].narrow(0, 0, 1), [&vast; 17]), "is too large");
    fn own_error<O: Outputs>(f: impl FnOnce(&Var) -> O) -> String {
        jacfwd(f, &tensor![1.0]).map(|_| ()).unwrap_err().to_string()
    }
    assert_eq!(own_error(|_| Err::<Var, _>(Error::other("mine"))), "mine");
    let (v, y) = (x.requires_grad_(true), &x.requires_grad_(true).exp());
    let seeds = Var::from(tensor![1.0, 1.0]);
    refused(Grad::new([y], [&v]).is_grads_batched(true).run(), "is_grads_batched: every output needs a seed");
    let (roots, inputs, seeds) = ([y], [&v], [&seeds]);
    refused(
        Grad::new(roots, inputs).seeds(&seeds).is_grads_batched(true).run(),
        "the seed of output 0 has shape [2], the output [2, 2]",
    );
}

#[test]
fn a_panic_in_a_function_poisons_nothing() {
    let x = tensor![1.0];
    let caught = std::panic::catch_unwind(|| jvp(|_| -> Var { panic!("mine") }, &x, &x).map(|_| ()));
    assert!(caught.is_err() && foldback::graph::is_grad_enabled());
    let caught =
        std::panic::catch_unwind(|| no_grad(|| jvp(|_| -> Var { panic!("mine") }, &x, &x).map(|_| ())));
    assert!(caught.is_err() && foldback::graph::is_grad_enabled());
    assert_eq!(jvp(|x| x.exp(), &x, &tensor![0.0]).unwrap().1.value(), tensor![0.0]);
}

#[test]
fn batched_seeds_give_what_each_gives_and_hooks_see_one_at_a_time() {
    let [x, w] = samples().map(|t| t.requires_grad());
    let y = x.linear(&w, None).unwrap();
    let z = (y.softmax(-1).unwrap() * x.exp()).sum(0).unwrap();
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = seen.clone();
    y.register_hook(move |g| {
        kept.lock().unwrap().push(g.shape().clone());
        g * 2.0
    })
    .unwrap();
    let seeds = tensor![[1.0, 0.0], [0.5, -3.0], [0.0, 0.0]; f64];
    let (roots, inputs, batch) = ([&z], [&x, &w], [&Var::from(&seeds)]);
    let pass = || Grad::new(roots, inputs).retain_graph(true);
    let together = pass().seeds(&batch).is_grads_batched(true).run().unwrap();
    assert_eq!(seen.lock().unwrap()[..], [[2, 2], [2, 2], [2, 2]]);
    for i in 0..3 {
        let seed = Var::from(seeds.select(0, i).unwrap());
        let apart = pass().seeds(&[&seed]).run().unwrap();
        for (t, a) in together.iter().zip(&apart) {
            let t = t.as_ref().unwrap().value().select(0, i).unwrap();
            assert_close!(t, a.as_ref().unwrap().value(), atol = 1e-15);
        }
    }
    assert_eq!((x.grad(), w.grad()), (None, None));
    let other = tensor![1.0].requires_grad();
    let unused = Grad::new(roots, [&other])
        .seeds(&batch)
        .is_grads_batched(true)
        .materialize_grads(true)
        .run()
        .unwrap();
    assert_eq!(unused[0].as_ref().unwrap().shape(), [3, 1]);
}

#[test]
fn nothing_is_kept_alive_and_no_gradient_is_left() {
    let leaf = tensor![1.0, 2.0].requires_grad();
    let h = hessian(|x| x.mul(&leaf)?.exp().sum(..), &tensor![1.0, 2.0]).unwrap();
    let (y, dy) = jvp(|x| x.mul(&leaf)?.softmax(0), &leaf, &tensor![1.0, 0.0]).unwrap();
    assert!(h.requires_grad() && y.requires_grad() && dy.requires_grad());
    assert_eq!(leaf.grad(), None);
    let (weak, handle) = ([&h, &y, &dy].map(Var::downgrade), leaf.downgrade());
    drop((h, y, dy, leaf));
    assert!(weak.iter().all(|v| v.upgrade().is_none()) && handle.upgrade().is_none());
}
