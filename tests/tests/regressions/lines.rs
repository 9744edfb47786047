//! Operators, `requires_grad` and constructors panicked at a line of the library, from inside a closure, and refused
//! broadcasting named no line at all.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Once;

use foldback::graph::{GraphFacts, RequiresGrad, fuse};
use foldback::prelude::*;
use foldback::tensor::{
    BroadcastWarning, TensorFacts, ThreadPool, broadcast_warning, refused, set_num_threads,
};

thread_local! {
    /// Where this thread last panicked, while it expects to.
    static PLACE: Cell<Option<(bool, u32)>> = const { Cell::new(None) };
    static EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// The line of this file that `f` panics at.
#[track_caller]
fn panics(f: impl FnOnce()) -> u32 {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| match info.location() {
            Some(at) if EXPECTED.get() => PLACE.set(Some((at.file() == file!(), at.line()))),
            _ => others(info),
        }));
    });
    EXPECTED.set(true);
    let panicked = catch_unwind(AssertUnwindSafe(f)).is_err();
    EXPECTED.set(false);
    assert!(panicked, "it does not panic");
    let (here, line) = PLACE.take().expect("the hook has seen the panic");
    assert!(here, "it panics in another file");
    line
}

/// `f` panics at the line that this is called from.
#[track_caller]
fn panics_here<T>(f: impl FnOnce() -> T) {
    assert_eq!(panics(|| drop(f())), Location::caller().line());
}

/// The operation is refused, with the line that this is called from.
#[track_caller]
fn refused_here<T>(result: Result<T>) {
    let message = result.err().expect("it is refused").to_string();
    let place = format!("(at {}:{}:", file!(), Location::caller().line());
    assert!(message.ends_with(')') && message.contains(&place), "{message}");
}

/// Two operands that do not broadcast.
fn pair() -> (Tensor, Tensor) {
    (tensor![1.0, 2.0], tensor![1.0, 2.0, 3.0])
}

macro_rules! pairings {
    ($($test:ident: $op:tt, $assign:tt;)*) => {$(
        #[test]
        fn $test() {
            let (a, b) = pair();
            let (v, w) = (a.clone().requires_grad(), b.clone().requires_grad());
            let here = line!();
            // One macro, one line.
            for line in [
                panics(|| drop(a.clone() $op b.clone())), panics(|| drop(a.clone() $op &b)), panics(|| drop(&a $op b.clone())), panics(|| drop(&a $op &b)),
                panics(|| drop(v.clone() $op w.clone())), panics(|| drop(v.clone() $op &w)), panics(|| drop(&v $op w.clone())), panics(|| drop(&v $op &w)),
                panics(|| drop(v.clone() $op b.clone())), panics(|| drop(v.clone() $op &b)), panics(|| drop(&v $op b.clone())), panics(|| drop(&v $op &b)),
                panics(|| drop(a.clone() $op w.clone())), panics(|| drop(a.clone() $op &w)), panics(|| drop(&a $op w.clone())), panics(|| drop(&a $op &w)),
                panics(|| { let mut c = a.clone(); c $assign b.clone() }), panics(|| { let mut c = a.clone(); c $assign &b }),
                panics(|| { let mut c = Var::from(&a); c $assign w.clone() }), panics(|| { let mut c = Var::from(&a); c $assign &w }),
                panics(|| { let mut c = Var::from(&a); c $assign b.clone() }), panics(|| { let mut c = Var::from(&a); c $assign &b }),
                // A fraction cannot be written into integers.
                panics(|| { let mut c = tensor![1; i64]; c $assign 0.5 }), panics(|| { let mut c = tensor![1; i64]; c $assign 0.5f32 }),
                panics(|| { let mut c = Var::from(tensor![1; i64]); c $assign 0.5 }), panics(|| { let mut c = Var::from(tensor![1; i64]); c $assign 0.5f32 }),
                // A leaf that requires a gradient is not to be written to.
                panics(|| { let mut c = v.clone(); c $assign &a }), panics(|| { let mut c = v.clone(); c $assign 1 }), panics(|| { let mut c = v.clone(); c $assign 1i64 }),
            ] {
                assert_eq!(line, here, "the line of the invocation");
            }
        }
    )*};
}
pairings! {
    sums_panic_at_the_callers_line: +, +=;
    differences_panic_at_the_callers_line: -, -=;
    products_panic_at_the_callers_line: *, *=;
    quotients_panic_at_the_callers_line: /, /=;
}

#[test]
fn truth_values_have_no_difference_and_no_negative() {
    let t = tensor![true; bool];
    let v = Var::from(&t);
    panics_here(|| t.clone() - 1.0);
    panics_here(|| &t - 1);
    panics_here(|| 1.0 - t.clone());
    panics_here(|| 1 - &t);
    panics_here(|| v.clone() - 1.0f32);
    panics_here(|| &v - 1i64);
    panics_here(|| 1.0 - v.clone());
    panics_here(|| 1 - &v);
    panics_here(|| -t.clone());
    panics_here(|| -&t);
    panics_here(|| -v.clone());
    panics_here(|| -&v);
}

/// Methods of empty parentheses are values; what they refuse, they refuse at the caller's line. Their twins do not panic.
#[test]
fn values_panic_at_the_callers_line() {
    let (b, cube) = (tensor![true, false], Tensor::zeros([1, 2, 3]));
    let (vb, vcube) = (Var::from(&b), Var::from(&cube));
    panics_here(|| b.neg());
    panics_here(|| b.abs());
    panics_here(|| b.relu());
    panics_here(|| b.gelu());
    panics_here(|| b.gelu_tanh());
    panics_here(|| b.silu());
    panics_here(|| b.softplus());
    panics_here(|| cube.t());
    panics_here(|| b.tril());
    panics_here(|| b.triu());
    panics_here(|| tensor![2; i64].powi(-1));
    panics_here(|| vb.neg());
    panics_here(|| vb.abs());
    panics_here(|| vb.relu());
    panics_here(|| vb.gelu());
    panics_here(|| vb.gelu_tanh());
    panics_here(|| vb.silu());
    panics_here(|| vb.softplus());
    panics_here(|| vcube.t());
    panics_here(|| vb.tril());
    panics_here(|| vb.triu());
    panics_here(|| Var::from(tensor![2; i64]).powi(-1));
    panics_here(|| b.requires_grad_(true));
    refused_here(b.try_relu());
    refused_here(cube.try_t());
    refused_here(vb.try_softplus());
    refused_here(vcube.try_t());
}

#[test]
fn constructors_panic_at_the_callers_line() {
    let huge = 1usize << 62;
    panics_here(|| tensor![1; i64].requires_grad());
    panics_here(|| Tensor::zeros_with([huge], DType::F64));
    panics_here(|| Tensor::ones_with([huge], DType::F64));
    panics_here(|| Tensor::full_with([huge], 1.0, DType::F64));
    panics_here(|| Tensor::eye_with(huge, DType::F64));
    panics_here(|| Tensor::eye_with((huge, 2), DType::F64));
    panics_here(|| Tensor::arange_with(0.0..1.0, 0.0, DType::F64));
    panics_here(|| Tensor::linspace_with(0.0, 1.0, huge, DType::F64));
    panics_here(|| Tensor::rand_with([huge], DType::F64));
    panics_here(|| Tensor::randn_with([huge], DType::F64));
    panics_here(|| ThreadPool::new(usize::MAX));
    panics_here(|| set_num_threads(usize::MAX));
    panics_here(|| Dropout::new(2.0));
    let w = tensor![1.0].requires_grad();
    panics_here(|| SGD::new([&w, &w], 0.1));
    panics_here(|| SGD::new([&w], 0.1).momentum(-1.0));
    panics_here(|| SGD::new([&w], 0.1).dampening(-1.0));
    panics_here(|| SGD::new([&w], 0.1).weight_decay(-1.0));
    panics_here(|| AdamW::new([&w], -1.0));
    panics_here(|| Adam::new([&w], 0.1).betas(0.9, 1.0));
    panics_here(|| Adam::new([&w], 0.1).eps(-1.0));
    panics_here(|| Adam::new([&w], 0.1).weight_decay(-1.0));
    panics_here(|| Linear::new(huge, 2));
    panics_here(|| Linear::new(2, 2).dtype(DType::I64));
    panics_here(|| Linear::new(2, 2).init(nn::Init::normal(0.0, -1.0)));
}

#[test]
fn refused_broadcasting_names_the_line() {
    let (a, b) = (tensor![[1.0], [2.0]], tensor![3.0, 4.0]);
    let (v, w) = (a.clone().requires_grad(), b.clone().requires_grad());
    let t = a.gt(1.5).unwrap();
    let u = Var::from(&t);
    let mut square = Tensor::ones([2, 2]);
    let row = tensor![[1.0, 2.0, 3.0, 4.0]];
    let _guard = broadcast_warning(BroadcastWarning::Refuse);
    refused_here(a.add(&b));
    refused_here(a.mul(&b));
    refused_here(a.div_floor(&b));
    refused_here(a.pow(&b));
    refused_here(a.maximum(&b));
    refused_here(a.lt(&b));
    refused_here(a.add_with(&b, 2.0));
    refused_here(a.clamp(&b, 1.0));
    refused_here(t.where_cond(&b, 1.0));
    refused_here(v.add(&w));
    refused_here(v.sub(&b));
    refused_here(v.mul(&w));
    refused_here(v.div(&w));
    refused_here(v.pow(&w));
    refused_here(v.maximum(&b));
    refused_here(v.lt(&b));
    refused_here(v.add_with(&w, 2.0));
    refused_here(v.clamp(&b, 1.0));
    refused_here(v.clamp_min(&b));
    refused_here(u.where_cond(&w, 1.0));
    refused_here(v.detach().add_(&b));
    refused_here(fuse!(|x, y| x * y).call([&v, &w]));
    refused_here(fuse!(|x, y| x * y).call([&a, &b]));
    refused_here(fuse!(|x, y| x * y).sum([&v, &w], ..));
    refused_here(fuse!(|x, y| x * y).mean([&v, &w], keep(0)));
    // Into a square, neither is a mistake; a number is none either.
    square.add_(&b).unwrap();
    assert!(fuse!(|x, y| x * y).call((&v, 2.0)).is_ok());
    assert!(fuse!(|x, y| x * y).call((&square, &b)).is_ok());
    assert!(refused!(row.add(row.t()), TensorFacts::BroadcastRefused { .. }));
}

#[test]
fn gradients_are_not_refused() {
    let (x, y) = (tensor![[1.0, 2.0]].requires_grad(), tensor![3.0, 4.0].requires_grad());
    let (products, fused) = (x.mul(&y).unwrap(), fuse!(|x, y| x * y).call([&x, &y]).unwrap());
    let _guard = broadcast_warning(BroadcastWarning::Refuse);
    products.sum(..).unwrap().backward().unwrap();
    fused.sum(..).unwrap().backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![[6.0, 8.0]]));
    assert_eq!(y.grad(), Some(tensor![2.0, 4.0]));
}

#[derive(Module)]
struct Twice {
    inner: Sequential,
}
#[forward]
impl Twice {
    fn forward(&self, x: &Var) -> Result<Var> {
        self.inner.forward(x)?.mul(&self.inner.forward(x)?) // the line of a model
    }
}

fn layers() -> Vec<Box<dyn Layer>> {
    vec![
        Box::new(Linear::new(3, 3)),
        Box::new(ReLU),
        Box::new(GELU),
        Box::new(GELUTanh),
        Box::new(SiLU),
        Box::new(Sigmoid),
        Box::new(Softplus::new()),
        Box::new(Tanh),
        Box::new(Dropout::new(0.5)),
    ]
}

/// Where the last operation was recorded that saves something: a second backward pass says so.
fn recorded_at(y: Var) -> (&'static str, u32) {
    let root = y.sum(..).unwrap();
    root.backward().unwrap();
    let e = root.backward().unwrap_err();
    let Some(GraphFacts::Freed { location, .. }) = e.facts() else { panic!("{e}") };
    (location.file(), location.line())
}

/// The methods of traits keep the attribute of their declaration, behind `dyn` as well.
#[test]
fn layers_belong_to_the_line_that_calls_them() {
    let x = Tensor::ones([2, 3]).requires_grad();
    for (i, layer) in layers().into_iter().enumerate() {
        let bare: &dyn Layer = &*layer;
        assert_eq!(recorded_at(bare.forward(&x).unwrap()), (file!(), line!()), "layer {i}");
        assert_eq!(recorded_at(layer.forward(&x).unwrap()), (file!(), line!()), "layer {i}");
        let model = Sequential::new().then(layer);
        assert_eq!(recorded_at(model.forward(&x).unwrap()), (file!(), line!()), "layer {i}");
    }
}

/// The operations that a model is made of belong to its own lines, as everything that is called from them.
#[test]
fn operations_belong_to_the_lines_of_the_model() {
    let x = Tensor::ones([2, 3]).requires_grad();
    let here = include_str!("lines.rs").lines().position(|l| l.ends_with("// the line of a model")).unwrap();
    let twice = || Twice { inner: Sequential::new().then(Tanh) };
    let boxed: Box<dyn Layer> = Box::new(twice());
    let nested = Sequential::new().then(Sequential::new().then(twice()));
    for y in [twice().forward(&x), boxed.forward(&x), nested.forward(&x)] {
        assert_eq!(recorded_at(y.unwrap()), (file!(), here as u32 + 1));
    }
}
