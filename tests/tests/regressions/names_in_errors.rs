//! Errors named another operation than the one called: in-place forms the plain one, compositions a part of theirs.

use foldback_graph::{Backward, Function, FunctionContext, Input, RequiresGrad, Result, Var, no_grad};
use foldback_tensor::{DType, Scalar, Tensor, tensor};

/// A refused call says its own name, and the line of the call.
fn expect_name<T>(name: &str, result: Result<T>) -> bool {
    let Err(e) = result else { return false };
    assert!(e.location().is_some_and(|at| at.file() == file!()), "{name} has another line: {e}");
    let text = e.to_string();
    assert!(text.starts_with(&format!("{name}: ")), "{name} says {text:?}");
    true
}

/// What in-place operations refuse: truth values, results of a higher category, elements that share one place, results
/// that no memory holds.
fn owns() -> Vec<Tensor> {
    let huge = &tensor![1.0].expand([1 << 21, 1 << 21]).unwrap() * 2.0;
    vec![
        tensor![true, false; bool],
        tensor![1, 2; i64],
        tensor![1.0, 2.0],
        tensor![1.0].expand([2]).unwrap(),
        huge,
    ]
}

/// Operands that do not fit: another shape, a larger one, numbers of a higher category, a negative one, zero.
fn others() -> (Vec<Tensor>, Vec<Scalar>) {
    let tensors = vec![
        tensor![1.0, 2.0, 3.0],
        Tensor::ones_with([2, 2], DType::I64),
        tensor![true, true; bool],
        Tensor::ones([1 << 21, 1]),
    ];
    (tensors, vec![Scalar::F64(0.5), Scalar::I64(-1), Scalar::I64(0), Scalar::Bool(true)])
}

/// Calls a form with every pair of operands; each refusal names it, and there is one.
macro_rules! named {
    ($make:expr, $as:expr; $($name:ident $args:tt;)*) => {$(
        let mut refused = 0;
        for own in owns() {
            named!(@calls refused, ($make)(own), $name, $as, $args);
        }
        assert!(refused > 0, "{} was never refused", stringify!($name));
    )*};
    (@calls $refused:ident, $own:expr, $name:ident, $as:expr, ()) => {
        let mut own = $own;
        $refused += usize::from(expect_name(stringify!($name), own.$name()));
    };
    (@calls $refused:ident, $own:expr, $name:ident, $as:expr, (x $(, $more:expr)*)) => {
        let (own, (tensors, numbers)) = ($own, others());
        for t in &tensors {
            let mut own = own.clone();
            $refused += usize::from(expect_name(stringify!($name), own.$name(t $(, $more)*)));
        }
        for &n in &numbers {
            let mut own = own.clone();
            $refused += usize::from(expect_name(stringify!($name), own.$name($as(n) $(, $more)*)));
        }
    };
}

#[test]
fn in_place_forms_of_tensors() {
    named! { |t: Tensor| t, |n: Scalar| n;
        add_(x); sub_(x); mul_(x); div_(x); pow_(x); maximum_(x); minimum_(x); eq_(x); ne_(x); lt_(x); le_(x); gt_(x); ge_(x);
        logical_and_(x); logical_or_(x); logical_xor_(x); clamp_min_(x); clamp_max_(x); div_floor_(x); div_trunc_(x);
        add_with_(x, 0.5); sub_with_(x, true); clamp_(x, true); clamp_(x, 0.5);
        neg_(); abs_(); sign_(); square_(); relu_(); gelu_(); gelu_tanh_(); softplus_(); silu_(); logical_not_();
        exp_(); expm1_(); ln_(); log1p_(); sqrt_(); rsqrt_(); reciprocal_(); sin_(); cos_(); tan_(); tanh_(); sigmoid_(); erf_();
    }
    assert!(expect_name("copy_", tensor![1.0, 2.0].copy_(&tensor![1.0, 2.0, 3.0])));
    for part in [5, 0] {
        assert!(expect_name("slice_assign", tensor![1.0].slice_assign(part, &tensor![1.0, 2.0, 3.0])));
    }
}

#[test]
fn in_place_forms_of_variables() {
    let number = |n: Scalar| Input::Scalar(n);
    named! { Var::from, number;
        add_(x); sub_(x); mul_(x); div_(x); pow_(x); div_floor_(x); div_trunc_(x); clamp_min_(x); clamp_max_(x);
        add_with_(x, 0.5); sub_with_(x, true); clamp_(x, true); clamp_(x, 0.5);
    }
    for own in [Var::from(tensor![1.0]), tensor![1.0].requires_grad(), tensor![1.0].requires_grad() * 2.0] {
        for (part, value) in [(5, tensor![1.0]), (0, tensor![1.0, 2.0, 3.0])] {
            assert!(expect_name("slice_assign", own.clone().slice_assign(part, &value)));
        }
    }
    assert!(expect_name("mul_", tensor![1.0].requires_grad().mul_(2.0)));
}

#[test]
fn forms_of_other_operations() {
    let (x, truth) = (tensor![1.0, 2.0], tensor![true, false; bool]);
    let v = Var::from(&x);
    assert!(
        expect_name("where_cond", x.where_cond(1.0, 2.0))
            && expect_name("where_cond", v.where_cond(1.0, 2.0))
    );
    assert!(expect_name("where_cond", truth.where_cond(&tensor![1.0, 2.0, 3.0], 0.0)));
    assert!(
        expect_name("add_with", x.add_with(&truth, true)) && expect_name("sub_with", truth.sub_with(1, 1))
    );
    assert!(expect_name("rsub", truth.rsub(1)) && expect_name("rsub", Var::from(&truth).rsub(1)));
    let window = Tensor::from_strided(vec![1.0f32; 1 << 22], [1 << 21, 1 << 21], &[1, 1], 0).unwrap();
    for t in [window.rpow(2.0), window.rdiv(2.0)].into_iter().zip(["rpow", "rdiv"]) {
        assert!(expect_name(t.1, t.0));
    }
    let column = window.unsqueeze(-1).unwrap();
    let w = Var::from(&column);
    assert!(expect_name("var", column.var(-1)) && expect_name("std", column.std(-1)));
    assert!(expect_name("var_mean", column.var_mean(-1)) && expect_name("var_mean", w.var_mean(-1)));
    assert!(expect_name("norm", column.norm(-1)) && expect_name("norm", w.norm_with(-1, 3)));
    assert!(expect_name("mean", column.mean(-1)) && expect_name("mean", w.mean(-1)));
    assert!(expect_name("var", w.var(-1)) && expect_name("std", w.std(-1)));
    assert!(
        expect_name("broadcast_to", v.broadcast_to([3])) && expect_name("broadcast_to", x.broadcast_to([3]))
    );
}

/// Returns so many outputs, and so many gradients for its one input.
struct Returning {
    outputs: usize,
    gradients: usize,
}

impl Function for Returning {
    fn name(&self) -> &'static str {
        "returning"
    }
    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0].clone(); self.outputs])
    }
    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![Some(ctx.grad(0)); self.gradients])
    }
}

#[test]
fn what_a_function_returns_is_counted_under_its_name() {
    let x = tensor![1.0].requires_grad();
    let none = Returning { outputs: 0, gradients: 1 }.call([&x]).unwrap_err();
    let text = none.with_location(None).to_string();
    assert!(text.starts_with("returning: its forward returned 0 outputs, the call takes 1: "), "{text}");
    for (gradients, text) in
        [(0, "returned 0 gradients for 1 input ("), (2, "returned 2 gradients for 1 input (")]
    {
        let y = Returning { outputs: 1, gradients }.call([&x]).unwrap();
        let e = y.backward().unwrap_err().to_string();
        assert!(e.starts_with(&format!("returning: {text}")), "{e}");
    }
    let seeds = (&x * 2.0).backward_with(Backward::new().seeds(&[&x, &x])).unwrap_err();
    assert_eq!(seeds.with_location(None).to_string(), "backward: expected 1 seed, one per output, got 2");
}

#[test]
fn what_a_root_without_a_graph_lacks_is_said() {
    let x = tensor![1.0].requires_grad();
    let e = no_grad(|| &x * 2.0).backward().unwrap_err().to_string();
    assert!(e.contains("made inside no_grad, a hook") && e.contains("enable_grad"), "{e}");
    let first = foldback::grad(x.square().sum(..).unwrap(), &x).unwrap();
    let e = foldback::grad(first.sum(..).unwrap(), &x).unwrap_err().to_string();
    assert!(e.contains("it is a gradient, which has a history only with create_graph(true)"), "{e}");
}

#[test]
fn the_advice_of_an_overlap_can_be_followed() {
    let mut huge = tensor![1.0].expand([1usize << 40]).unwrap();
    let e = huge.add_(1.0).unwrap_err().to_string();
    assert!(e.contains("use the form that makes a new tensor") && e.contains("try_contiguous()"), "{e}");
    assert!(huge.add(1.0).is_ok() && huge.try_contiguous().is_err());
}

/// It spoke of `requires_grad`, whatever was asked.
#[test]
fn what_only_leaves_can_be_asked_for_names_what_was_asked() {
    let mut y = tensor![1.0].requires_grad().exp();
    for (op, e) in [
        ("set_grad", y.set_grad(Some(tensor![1.0])).unwrap_err()),
        ("set_value", y.set_value(tensor![1.0]).unwrap_err()),
        ("update_value", y.update_value(|_| Ok(())).unwrap_err()),
        ("requires_grad_", y.requires_grad_(false).unwrap_err()),
    ] {
        let text = e.to_string();
        assert!(text.starts_with(&format!("{op}: only for leaf variables")), "{text}");
        assert_eq!(e.location().map(|l| l.file()), Some(file!()));
    }
}
