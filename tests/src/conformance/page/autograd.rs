//! Making and reading tensors, and gradients: what the replayer has no rows for.

use foldback::graph::{
    Operation, checkpoint, register_any_grad_hook, register_multi_grad_hook, set_detect_anomaly,
};
use foldback::ndarray::ArrayD;
use foldback::prelude::*;
use foldback::tensor::Generator;

use super::lines;

lines! {
    /// Constructors, and ways out.
    TENSORS (x: Tensor, array: ArrayD<f32>);
    "torch.tensor([1, 2])": tensor![1, 2], tensor![1, 2; i64], Tensor::from(vec![1.0f64]); "numbers are `f32` unless a type is said; `Tensor::from` keeps Rust's type"
    "torch.from_numpy(a), x.numpy()": Tensor::from(array), x.to_array::<f32>(), x.as_array::<f32>(); "arrays of `foldback::ndarray`"
    "torch.zeros(2, 3)": Tensor::zeros([2, 3]), Tensor::zeros_with([2, 3], DType::F64); "sizes are one argument; no `device`, no `requires_grad`"
    "torch.ones(2, 3)": Tensor::ones([2, 3]), Tensor::ones_with([2, 3], DType::F64); "sizes are one argument; no `device`, no `requires_grad`"
    "torch.rand(2, 3)": Tensor::rand([2, 3]), Tensor::rand_with([2, 3], DType::F64); "sizes are one argument; no `device`, no `requires_grad`"
    "torch.randn(2, 3)": Tensor::randn([2, 3]), Tensor::randn_with([2, 3], DType::F64); "sizes are one argument; no `device`, no `requires_grad`"
    "torch.full(size, 3)": Tensor::full([2, 3], 3), Tensor::full_with([2, 3], 3, DType::I64); "`f32`, or `bool` of a truth value"
    "torch.eye(3)": Tensor::eye(3), Tensor::eye([2, 3]); ""
    "torch.arange(2, 10)": Tensor::arange(2..10), Tensor::arange(0.0..1.0), Tensor::arange_with(0..10, 2, DType::F32); "a range; `i64` of integers"
    "torch.linspace(0, 1, 5)": Tensor::linspace(0, 1, 5); ""
    "torch.randint(0, 10, size)": Tensor::randint(0..10, [3]), Tensor::randint(0..x.numel(), [3]); "a range of `i32`, `i64` or `usize`"
    "torch.randperm(n)": Tensor::randperm(10); ""
    "torch.normal(0, 1, size)": Tensor::normal([3], 0.0, 1.0), Tensor::uniform([3], 0.0, 1.0); "the shape comes first"
    "torch.bernoulli(p)": Tensor::bernoulli([3], 0.5); "one probability for all"
    "torch.zeros_like(x)": x.zeros_like(), x.ones_like(), x.full_like(2), x.rand_like(), x.randn_like(); ""
    "F.dropout(x, 0.5)": x.dropout(0.5); "always drops; the layer `Dropout` knows the mode"
    "torch.manual_seed(0)": manual_seed(0); "other numbers than PyTorch's"
    "torch.set_num_threads(2)": set_num_threads(2), num_threads(); "0 is one thread per core again; the bits of results are the same for any number"
    "torch.get_rng_state()": get_rng_state(), set_rng_state(Generator::new(0)); "of this thread; `set_rng_state` hands out the old one"
    "x.item(), x.tolist()": x.item(), x.item_as::<f32>(), x.to_vec::<f32>(); "`item()` is `f64`; `to_vec` has no axes"
    "x.shape, x.size(0), x.dim()": x.shape(), x.dims(), x.size(0), x.rank(), x.sizes::<2>(); "`let [n, d] = x.sizes()?`"
    "x.numel(), x.dtype": x.numel(), x.dtype(); ""
}

lines! {
    /// Variables and passes.
    GRADIENTS (x: Tensor, y: Tensor, u: Var, w: Var, mut v: Var, seed: Tensor);
    "requires_grad=True": x.requires_grad(); "makes a variable of a tensor; on a variable it is the question"
    "x.requires_grad_()": v.requires_grad_(true); ""
    "loss.backward()": v.backward(), v.backward_with(&seed), v.backward_with(Backward::new().retain_graph(true).create_graph(true)); "options are setters of `Backward`; a second pass goes on where PyTorch refuses because it has kept, and freed, an index, a number or an input that the gradient does not need"
    "x.grad": v.grad(), v.grad_var(); "`grad_var` is the one with a history"
    "x.grad = None": v.zero_grad(), v.set_grad(None); ""
    "torch.autograd.grad(y, x)": grad(&v, &u), grad(&v, [&u, &w]), grad_with(&v, &u, Backward::new().create_graph(true)), grad_with(&v, &u, Backward::new().seed(&seed)); "`grad_outputs` is the seed; one gradient is a `Var`, those of an array an array; `allow_unused` is of `Grad`; a gradient that does not depend on the input, as those of `abs` and `relu`, has no history, where PyTorch's may have one of zeros"
    "torch.autograd.functional.jvp(f, x, v)": jvp(|a| a.square(), &u, &y), vjp(|a| a.square(), &u, &y), hvp(|a| a.square().sum(..), &u, &y), vhp(|a| a.square().sum(..), &u, &y); "several arguments are an array; `torch.func` has the first two as well"
    "torch.autograd.functional.jacobian(f, x)": jacobian(|a| a.square(), &u), hessian(|a| a.square().sum(..), &u); "always vectorised; `torch.func.jacfwd` is `graph::jacfwd`"
    "torch.no_grad()": no_grad(|| v.exp()), enable_grad(|| v.exp()); "takes a closure; one with more than one `?` ends in `Ok::<_, Error>(y)`"
    "x.detach()": v.detach(); ""
    "x.retain_grad()": v.retain_grad(); ""
    "x.register_hook(f)": v.register_hook(|g| g * 2.0); "a hook may return nothing, a gradient, an `Option` or a `Result`"
    "x.register_post_accumulate_grad_hook(f)": v.register_post_accumulate_grad_hook(|v| v.zero_grad()); "a step inside the pass; other leaves stay as they are if the pass fails"
    "x.grad_fn": v.grad_fn(); "`None` for leaves, too; has `register_prehook` and `register_hook`"
    "torch.autograd.graph.register_multi_grad_hook(xs, f)": register_multi_grad_hook([&u, &w], |_| ()), register_any_grad_hook([&u, &w], |_| ()); "the second is `mode=\"any\"`"
    "x.is_leaf": v.is_leaf(); ""
    "torch.autograd.detect_anomaly()": detect_anomaly(|| v.backward()), set_detect_anomaly(false); "takes a closure; stops at infinities, too"
    "torch.utils.checkpoint.checkpoint(f, x)": checkpoint(|x| x.mul(2.0), &v); "several arguments are an array, and `f` is run again in the pass itself"
    "torch.autograd.Function": Operation::new("exp", |[x]| x.exp(), |ctx, [g]| g * ctx.output()); "two closures and what they save, or the trait `Function`; see [Operations of one's own](guide/own-operations.md)"
    "torch.autograd.gradcheck(f, x)": gradcheck(|x| x.square(), y.double()), gradgradcheck(|[y, u]| y.mul(u), [&y.double(), &seed.double()]); "the other checks of PyTorch's are setters of `Check`: `check_forward_ad`, `check_batched_grad`, `fast_mode`; see [Testing your gradients](guide/testing.md)"
}
