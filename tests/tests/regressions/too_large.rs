//! Functions that return a `Result` ended the process where a result was larger than memory.
//!
//! The operands take a few megabytes and stand for 4 TiB: results that move along both axes have to be stored.

use foldback_graph::{Backward, Function, FunctionContext, Grad, RequiresGrad, Var, fuse, value_and_grad};
use foldback_tensor::kernel::{self, FloatKernel, FloatOps, Formula, Real, Target};
use foldback_tensor::{Attention, DType, Error, Result, Shape, Tensor, TensorFacts, keep, refused, tensor};

const N: usize = 1 << 20;

/// `[N, N]`, overlapping itself: whatever is computed from it element by element is as large.
fn window() -> Tensor {
    Tensor::from_strided(vec![1.0f32; 2 * N], [N, N], &[1, 1], 0).unwrap()
}

/// The same of integers.
fn places() -> Tensor {
    Tensor::from_strided(vec![0i64; 2 * N], [N, N], &[1, 1], 0).unwrap()
}

fn column() -> Tensor {
    Tensor::ones([N, 1])
}

fn row() -> Tensor {
    Tensor::ones([1, N])
}

/// The row seen N times.
fn wide() -> Tensor {
    row().expand([N, N]).unwrap()
}

/// The same as a result of its own, which is stored once.
fn compressed() -> Tensor {
    let own = &wide() * 2.0;
    assert!(!own.overlaps_itself() && own.strides() == [0, 1]);
    own
}

fn indices(shape: &[usize]) -> Tensor {
    Tensor::zeros_with(1, DType::I64).expand(shape).unwrap()
}

/// Panics unless every call is refused as too large, by its name, and with its line.
#[track_caller]
fn all_refused<T>(results: Vec<(&str, Result<T>)>) {
    for (name, result) in results {
        let said = refused!(result, TensorFacts::TooLarge { op, .. } if name.contains(op) || *op == "t");
        let e = result.err();
        assert!(said && e.as_ref().is_some_and(is_ours), "{name}: {e:?}");
    }
}

#[derive(Clone, Copy)]
struct Product;
impl Formula<2> for Product {
    fn eval<R: Real>(&self, [a, b]: [R; 2]) -> R
    where
        f64: FloatOps<R>,
    {
        a * b
    }
}

macro_rules! calls {
    ($($name:ident($($arg:expr),*) of $own:expr;)*) => { vec![$((stringify!($name), $own.$name($($arg),*))),*] };
}

/// The in-place forms, whose result is the reference that they return.
macro_rules! writes {
    ($($name:ident($($arg:expr),*) into $own:expr;)*) => {
        vec![$((stringify!($name), { let mut own = $own; own.$name($($arg),*).map(|_| ()) })),*]
    };
}

#[test]
fn every_operation_of_a_tensor() {
    let (x, y) = (&column(), &row());
    all_refused(calls! {
        add(y) of x; sub(y) of x; mul(y) of x; div(y) of x; pow(y) of x; maximum(y) of x; minimum(y) of x;
        eq(y) of x; ne(y) of x; lt(y) of x; le(y) of x; gt(y) of x; ge(y) of x;
        logical_and(y) of x; logical_or(y) of x; logical_xor(y) of x; clamp_min(y) of x; clamp_max(y) of x;
        div_floor(y) of x; div_trunc(y) of x; add_with(y, 2) of x; sub_with(y, 2) of x; clamp(y, 3.0) of x;
        add(&wide().t()) of wide().flip(0).unwrap();
        try_neg() of window(); try_abs() of window(); try_relu() of window(); try_gelu() of window(); try_gelu_tanh() of window();
        try_silu() of window(); try_softplus() of window(); softplus_with(2.0, 3.0) of window(); add(1.0) of window();
        rsub(1.0) of window(); rdiv(1.0) of window(); rpow(2.0) of window();
        where_cond(x, y) of x.gt(0.0).unwrap();
        reshape([-1]) of wide(); flatten(0..=1) of wide(); try_contiguous() of wide();
        try_to(DType::F64) of window();
        index_add(0, &indices(&[1]), &row()) of wide(); scatter_add(0, &indices(&[1, 1]), &tensor![[1.0]]) of wide();
        index_select(0, &indices(&[N])) of row();
        gather(0, &places()) of row().t().expand([N, N]).unwrap();
        scatter_add(0, &places(), &window()) of row().t().expand([N, N]).unwrap();
        div_floor(&places()) of places(); div_trunc(&places()) of places();
        gather(0, &Tensor::zeros_with([N, 1], DType::I64).expand([N, N]).unwrap()) of row();
        matmul(y) of x; mm(y) of x; bmm(&y.unsqueeze(0).unwrap()) of x.unsqueeze(0).unwrap();
        argmax(..) of window(); argmin(..) of window(); median(..) of window();
        cumsum(0) of window(); cumprod(1) of window(); cumsum(0) of Tensor::from_strided(vec![true; 2 * N], [N, N], &[1, 1], 0).unwrap();
        argsort(0) of window(); one_hot(N) of indices(&[N]);
        outer(&tensor![1.0].expand([N]).unwrap().add(row().squeeze(0).unwrap()).unwrap()) of x.squeeze(1).unwrap();
        addmm(x, y) of tensor![1.0]; baddbmm(x.unsqueeze(0).unwrap(), y.unsqueeze(0).unwrap()) of tensor![1.0];
    });
    all_refused(vec![
        ("sort", window().sort(0).map(|v| v.0)),
        ("sort", window().sort_with(1, true).map(|v| v.0)),
        ("topk", window().topk(2, 0).map(|v| v.0)),
        ("median", window().median_with_indices(0).map(|v| v.0)),
        ("einsum", Tensor::einsum("i,j", [x.squeeze(1).unwrap(), y.squeeze(0).unwrap()])),
        ("einsum", Tensor::einsum("ik,kj", [x, y])),
        ("cat", Tensor::cat(&[&wide(), &wide()], 0)),
        ("cat", Tensor::cat(&[&wide(), &wide()], 1)),
        ("stack", Tensor::stack(&[&wide(), &wide()], 0)),
        ("to_vec", wide().to_vec::<f32>().map(|_| tensor![])),
        ("to_array", wide().to_array::<f32>().map(|_| tensor![])),
        ("linear", x.linear(x, None)),
        ("linear", x.linear(x, tensor![1.0].expand([N]).unwrap())),
        ("matmul_to", kernel::matmul_to("matmul", x, y, Target::of(&[N, N].into()))),
    ]);
}

#[test]
fn an_expanded_axis_is_searched_once() {
    let huge = Tensor::scalar(2.5f32).expand([1usize << 40]).unwrap();
    assert_eq!(huge.argmax(0).unwrap(), Tensor::from(0i64));
    assert_eq!(huge.argmin(keep(..)).unwrap(), tensor![0; i64]);
    let (values, indices) = huge.max_with_indices(keep(-1)).unwrap();
    assert_eq!((values, indices), (tensor![2.5], tensor![0; i64]));
    assert_eq!(huge.min_with_indices(0).unwrap().0, Tensor::scalar(2.5f32));
    // [3, 2^30, 2], of which the middle is expanded: 4.0 is met first at [1, 0, 1], -1.0 at [2, 0, 0].
    let x = tensor![[[1.0, 2.0]], [[3.0, 4.0]], [[-1.0, 4.0]]].expand([3, 1 << 30, 2]).unwrap();
    assert_eq!(x.argmax(..).unwrap().item_as::<i64>().unwrap(), (1 << 31) + 1);
    assert_eq!(x.argmin(keep(..)).unwrap(), tensor![[[1i64 << 32]]; i64]);
    assert_eq!(x.argmax(1).unwrap(), Tensor::zeros_with([3, 2], DType::I64));
    let small = tensor![[[1.0, 2.0]], [[3.0, 4.0]], [[-1.0, 4.0]]].expand([3, 5, 2]).unwrap();
    for axis in [0, 1, 2] {
        assert_eq!(small.argmax(axis).unwrap(), small.contiguous().argmax(axis).unwrap());
        assert_eq!(small.argmin(keep(axis)).unwrap(), small.contiguous().argmin(keep(axis)).unwrap());
    }
    assert_eq!(small.argmax(..).unwrap(), small.contiguous().argmax(..).unwrap());
    let y = Tensor::from(1.0).expand([1usize << 40]).unwrap().requires_grad();
    assert_eq!(y.max_with_indices(0).unwrap().1.value(), Tensor::from(0i64));
}

#[test]
fn every_write() {
    let (x, y) = (&column(), &row());
    all_refused(writes! {
        add_(x) into compressed(); sub_(x) into compressed(); mul_(2.0) into compressed(); div_(x) into compressed();
        pow_(2.0) into compressed(); maximum_(x) into compressed(); minimum_(x) into compressed();
        eq_(x) into compressed(); add_with_(x, 2) into compressed(); sub_with_(x, 2) into compressed();
        clamp_(0.0, 1.0) into compressed(); clamp_min_(0.0) into compressed(); clamp_max_(0.0) into compressed();
        div_floor_(2.0) into compressed(); div_trunc_(2.0) into compressed();
        neg_() into compressed(); abs_() into compressed(); exp_() into compressed(); ln_() into compressed();
        sqrt_() into compressed(); tanh_() into compressed(); sigmoid_() into compressed(); relu_() into compressed();
        gelu_() into compressed(); gelu_tanh_() into compressed(); silu_() into compressed();
        softplus_() into compressed(); sign_() into compressed(); square_() into compressed();
        fill_(1.0) into compressed(); copy_(x) into compressed(); slice_assign(0, &tensor![1.0]) into compressed();
    });
    let mut out = compressed();
    all_refused(vec![
        ("add_out", x.add_out(y, 1, &mut out)),
        ("mul_out", x.mul_out(y, &mut out)),
        ("div_out", x.div_out(y, &mut out)),
    ]);
    assert_eq!(out.strides(), [0, 1], "nothing was written");
}

/// The refusal comes before any of the 2^40 elements is folded: else this would take hours.
#[test]
fn every_function_of_rows() {
    let (w, y) = (&window(), &window());
    all_refused(vec![
        ("softmax", w.softmax(0)),
        ("softmax", w.softmax(1)),
        ("log_softmax", w.log_softmax(0)),
        ("log_softmax", w.log_softmax(-1)),
        ("softmax_backward", kernel::softmax_backward(&wide(), y, 0.into())),
        ("softmax_backward", kernel::softmax_backward(w, &wide(), 1.into())),
        ("log_softmax_backward", kernel::log_softmax_backward(&wide(), y, 1.into())),
        ("log_softmax_backward", kernel::log_softmax_backward(w, &wide(), 0.into())),
        ("cross_entropy", kernel::cross_entropy(w, &indices(&[N])).map(|v| v.0)),
        (
            "cross_entropy_backward",
            kernel::cross_entropy_backward(
                &tensor![1.0].expand([N]).unwrap(),
                w,
                &indices(&[N]),
                &tensor![1.0].expand([N, 2]).unwrap(),
            ),
        ),
    ]);
    let v = window().requires_grad();
    assert!(v.softmax(0).is_err_and(|e| is_too_large(&e)));
    assert!(v.cross_entropy(indices(&[N])).is_err_and(|e| is_too_large(&e)));
}

/// What is the same along an axis is computed once, and the result is the same there, too.
#[test]
fn rows_that_repeat_are_functions_of_one() {
    let rows = tensor![0.0, 0.0].expand([1usize << 40, 2]).unwrap();
    let y = rows.softmax(1).unwrap();
    assert_eq!(y.strides(), [0, 1]);
    assert_eq!(y.narrow(0, 0, 1).unwrap(), tensor![[0.5, 0.5]]);
    let line = Tensor::scalar(1f32).expand([1usize << 40]).unwrap();
    assert_eq!(line.softmax(0).unwrap().select(0, 7).unwrap(), Tensor::scalar(2f32.powi(-40)));
    assert_eq!(line.logsumexp(0).unwrap(), Tensor::from(1.0 + 40.0 * 2f32.ln()));
    let g = kernel::log_softmax_backward(&line, &line.log_softmax(0).unwrap(), 0.into()).unwrap();
    assert!(g.select(0, 3).unwrap().item_as::<f32>().unwrap().abs() < 1e-5);
}

#[test]
fn every_kernel() {
    let (x, y, full) = (&column(), &row(), Shape::from([N, N]));
    let onto = || Target { prior: Some(wide()), ..Target::of(&full) };
    let product = FloatKernel(Product);
    let joint = kernel::JointKernel(&[(&product, &[0, 1]), (&product, &[1, 0])]);
    let targets = || [&full, &full].map(Target::of).into_iter().collect();
    all_refused(vec![
        ("evaluate", kernel::evaluate("t", &product, &[x, y])),
        ("fold_to", kernel::fold_to("t", &product, &[x, y], Target::of(&full))),
        ("sum_onto", kernel::sum_onto("t", &x.expand([N, N]).unwrap(), onto())),
        ("fold_jointly", kernel::fold_jointly("t", &joint, &[x, y], targets()).map(|_| tensor![])),
    ]);
    assert!(refused!(fuse!(|x, y| x * y).call([x, y]), TensorFacts::TooLarge { .. }));
    assert!(fuse!(|x, y| x * y).call([x, &tensor![1.0].expand([N]).unwrap()]).is_ok());
}

/// Whether an error has a line of this file.
fn is_ours(e: &Error) -> bool {
    e.location().is_some_and(|at| at.file() == file!())
}

/// Whether an error says that something is too large, in whatever was being computed.
fn is_too_large(e: &Error) -> bool {
    e.to_string().contains("too large")
}

#[test]
fn every_operation_of_a_variable() {
    let (x, y) = (&column().requires_grad(), &row().requires_grad());
    let w = &Var::from(window());
    let wide = &Var::from(wide());
    let results: Vec<(&str, foldback_graph::Result<Var>)> = calls! {
        add(y) of x; sub(y) of x; mul(y) of x; div(y) of x; pow(y) of x; maximum(y) of x; minimum(y) of x;
        clamp_min(y) of x; clamp_max(y) of x; add_with(y, 2) of x; sub_with(y, 2) of x; clamp(y, 3.0) of x;
        try_neg() of w; try_abs() of w; try_relu() of w; try_gelu() of w; try_gelu_tanh() of w; try_silu() of w; try_softplus() of w;
        reshape([-1]) of wide; flatten(0..=1) of wide; matmul(y) of x; linear(x, None) of x;
        index_select(0, &indices(&[N])) of y;
        scatter_add(0, &indices(&[1, 1]), &Var::from(tensor![[1.0]])) of wide;
        index_add(0, &indices(&[1]), &Var::from(row())) of wide;
    };
    for (name, result) in results {
        assert!(result.as_ref().is_err_and(is_too_large), "{name}: {:?}", result.err());
    }
    let mut own = Var::from(compressed());
    assert!(own.mul_(x).is_err_and(|e| is_too_large(&e)));
    assert!(Var::cat(&[wide, wide], 0).is_err() && Var::stack(&[wide, wide], 0).is_err());
}

#[test]
fn a_pass_whose_gradient_is_too_large_changes_nothing() {
    let huge = Tensor::from(1.0).expand([1usize << 40]).unwrap().requires_grad();
    let small = tensor![2.0; f64].requires_grad();
    small.set_grad(Some(tensor![5.0; f64])).unwrap();
    let loss = || &huge.sum(..).unwrap() * &small.sum(..).unwrap();
    assert!(loss().backward().is_err_and(|e| is_too_large(&e)));
    assert!(loss().backward_with(Backward::new().inputs([&small, &huge])).is_err_and(|e| is_too_large(&e)));
    assert_eq!((small.grad(), huge.grad()), (Some(tensor![5.0; f64]), None));
    let expanded = tensor![1.0; f64].expand([1usize << 40]).unwrap();
    assert!(huge.set_grad(Some(expanded.clone())).is_err_and(|e| is_too_large(&e)));
    let materialised = Grad::new([&small.square()], [&huge]).materialize_grads(true).run();
    assert!(materialised.is_err_and(|e| is_too_large(&e)));
    assert!(value_and_grad(|_| Var::from(tensor![1.0]), &[&expanded]).is_err_and(|e| is_too_large(&e)));
    let (_, ones) = value_and_grad(|v| v.sum(..), &expanded).unwrap();
    assert_eq!(ones.select(0, -1).unwrap().value(), tensor![1.0; f64].select(0, 0).unwrap());
    assert!(huge.select(0, 0).unwrap().backward().is_err_and(|e| is_too_large(&e)));
    // The locks are as usable as before.
    small.square().backward().unwrap();
    assert_eq!(small.grad(), Some(tensor![9.0; f64]));
}

/// Clears the gradient of a leaf when it is dropped.
struct Clears(Var);
impl Drop for Clears {
    fn drop(&mut self) {
        self.0.zero_grad();
    }
}
impl Function for Clears {
    fn name(&self) -> &'static str {
        "clears"
    }
    fn forward(&self, inputs: &[&Tensor]) -> foldback_graph::Result<Vec<Tensor>> {
        Ok(vec![inputs[0].clone()])
    }
    fn backward(&self, ctx: &FunctionContext<'_>) -> foldback_graph::Result<Vec<Option<Var>>> {
        Ok(vec![Some(ctx.grad(0))])
    }
}

/// What is dropped while gradients are written may be anyone's. A leaf that had a gradient when the pass looked, and has
/// none when its turn comes, must store what the pass has for it.
#[test]
fn a_gradient_that_is_cleared_while_others_are_written() {
    let huge = Tensor::from(1.0).expand([1usize << 40]).unwrap().requires_grad();
    let small = tensor![2.0].requires_grad();
    let seed = Tensor::from(1.0).requires_grad();
    let recorded =
        |root: Var, seed: Var| root.backward_with(Backward::new().seeds(&[&seed]).create_graph(true));
    // Gradients with a history stay as they are: one is huge, and the other one's clears it.
    recorded(huge.sum(..).unwrap(), seed.clone()).unwrap();
    recorded(small.sum(..).unwrap(), Clears(huge.clone()).call([&seed]).unwrap()).unwrap();
    let loss = &huge.sum(..).unwrap() * &small.sum(..).unwrap();
    assert!(loss.backward().is_err_and(|e| is_too_large(&e)));
    assert_eq!((small.grad(), huge.grad().map(|g| g.numel())), (Some(tensor![1.0]), Some(1 << 40)));
}

#[test]
fn forms_that_cannot_fail_panic_with_the_text_of_the_error() {
    let text = |f: fn()| {
        let payload = std::panic::catch_unwind(f).expect_err("too large");
        payload.downcast_ref::<String>().expect("a text").clone()
    };
    for (name, f) in [
        ("contiguous", (|| drop(wide().contiguous())) as fn()),
        ("exp", || drop(window().exp())),
        ("to", || drop(window().to(DType::F64))),
        ("zeros", || drop(wide().zeros_like())),
        ("contiguous", || drop(Var::from(wide()).contiguous())),
        ("to", || drop(Var::from(window()).to(DType::F64))),
    ] {
        assert_eq!(
            text(f),
            format!(
                "{name}: a tensor of shape [1048576, 1048576] is too large: no memory holds it; check its sizes, or work on parts of it"
            )
        );
    }
}

/// A single element seen 2^40 times.
#[test]
fn the_gradient_of_a_count_too_long_to_store() {
    let x = Tensor::ones(1).expand([1usize << 40]).unwrap().requires_grad();
    assert!(x.norm_with(0, 0).unwrap().backward().is_err_and(|e| is_too_large(&e)));
}

/// Values of no width: nothing is computed, yet a row of shares has more elements than memory could ever hold.
#[test]
fn attention_over_keys_beyond_memory() {
    let x = Tensor::ones([1, 1]).expand([1usize << 62, 0]).unwrap().requires_grad();
    let y = x.scaled_dot_product_attention(&x, &x).unwrap().sum(..).unwrap();
    assert!(y.backward().is_err_and(|e| is_too_large(&e)));
}

/// A row of shares that no memory holds is refused before any is computed.
#[test]
fn attention_whose_shares_no_memory_holds() {
    let of = |shape: [usize; 2]| Tensor::ones([1, 1]).expand(shape).unwrap().requires_grad();
    for (l, s, e) in [(1, 1 << 40, 1), (3, 1 << 45, 0), (1, 1 << 60, 1), (1 << 60, 1 << 60, 1)] {
        let (q, k, v) =
            (of([l, 1]).narrow(1, 0, e).unwrap(), of([s, 1]).narrow(1, 0, e).unwrap(), of([s, 1]));
        for options in [Attention::new(), Attention::new().is_causal(true), Attention::new().dropout_p(0.5)] {
            let refused = q.scaled_dot_product_attention_with(&k, &v, options).unwrap_err();
            assert!(is_too_large(&refused), "{refused}");
            assert!(refused.to_string().starts_with("scaled_dot_product_attention: "), "{refused}");
        }
    }
}
