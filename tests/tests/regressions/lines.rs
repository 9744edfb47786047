//! Operators, `requires_grad` and constructors panicked at a line of the library, from inside a closure, and refused
//! broadcasting named no line at all.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use foldback::graph::{RequiresGrad, fuse};
use foldback::nn::{Dropout, Linear};
use foldback::prelude::*;
use foldback::tensor::{BroadcastWarning, Error, broadcast_warning};

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

/// Each expression panics at its own line.
macro_rules! each_panics {
    ($($e:expr;)*) => {
        $(assert_eq!(panics(|| { let _ = $e; }), line_of!($e), stringify!($e));)*
    };
}
/// The line that its argument stands on: a macro's own line is that of the outermost invocation.
macro_rules! line_of {
    ($e:expr) => {{
        #[track_caller]
        fn at<T>(_: impl FnOnce() -> T) -> u32 {
            std::panic::Location::caller().line()
        }
        at(|| $e)
    }};
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
    each_panics! {
        t.clone() - 1.0;
        &t - 1;
        1.0 - t.clone();
        1 - &t;
        v.clone() - 1.0f32;
        &v - 1i64;
        1.0 - v.clone();
        1 - &v;
        -t.clone();
        -&t;
        -v.clone();
        -&v;
    }
}

#[test]
fn constructors_panic_at_the_callers_line() {
    let huge = 1usize << 62;
    each_panics! {
        tensor![1; i64].requires_grad();
        Tensor::zeros([huge], DType::F64);
        Tensor::ones([huge], DType::F64);
        Tensor::full([huge], 1.0, DType::F64);
        Tensor::eye(huge, DType::F64);
        Tensor::eye_rect(huge, 2, DType::F64);
        Tensor::arange(0.0, 1.0, 0.0, DType::F64);
        Tensor::linspace(0.0, 1.0, huge, DType::F64);
        Tensor::rand([huge], DType::F64);
        Tensor::randn([huge], DType::F64);
        Dropout::new(2.0);
        Linear::new(huge, 2);
    }
}

/// The operation is refused, with the line that called it.
macro_rules! each_refuses {
    ($($e:expr;)*) => {$({
        let refused: Result<_, _> = $e.map(|_| ());
        let message = match refused {
            Ok(()) => panic!("{} is not refused", stringify!($e)),
            Err(e) => e.to_string(),
        };
        let place = format!("(at {}:{}:", file!(), line_of!($e));
        assert!(message.ends_with(')') && message.contains(&place), "{}: {message}", stringify!($e));
    })*};
}

#[test]
fn refused_broadcasting_names_the_line() {
    let (a, b) = (tensor![[1.0], [2.0]], tensor![3.0, 4.0]);
    let (v, w) = (a.clone().requires_grad(), b.clone().requires_grad());
    let t = a.gt(1.5).unwrap();
    let u = Var::from(&t);
    let mut square = Tensor::ones([2, 2], DType::F32);
    let row = tensor![[1.0, 2.0, 3.0, 4.0]];
    let _guard = broadcast_warning(BroadcastWarning::Refuse);
    each_refuses! {
        a.add(&b);
        a.mul(&b);
        a.div_floor(&b);
        a.pow(&b);
        a.maximum(&b);
        a.lt(&b);
        a.add_scaled(&b, 2.0);
        a.clamp(&b, 1.0);
        t.where_cond(&b, 1.0);
        v.add(&w);
        v.sub(&b);
        v.mul(&w);
        v.div(&w);
        v.pow(&w);
        v.maximum(&b);
        v.lt(&b);
        v.add_scaled(&w, 2.0);
        v.clamp(&b, 1.0);
        v.clamp_min(&b);
        u.where_cond(&w, 1.0);
        v.detach().add_(&b);
        fuse!(|x, y| x * y).call([&v, &w]);
        fuse!(|x, y| x * y).call([&a, &b]);
        fuse!(|x, y| x * y).sum([&v, &w], .., false);
        fuse!(|x, y| x * y).mean([&v, &w], 0, true);
    }
    // Into a square, neither is a mistake; a number is none either.
    square.add_(&b).unwrap();
    assert!(fuse!(|x, y| x * y).call((&v, 2.0)).is_ok());
    assert!(fuse!(|x, y| x * y).call((&square, &b)).is_ok());
    assert!(matches!(row.add(&row.t().unwrap()), Err(Error::BroadcastRefused { .. })));
}

#[test]
fn gradients_are_not_refused() {
    let (x, y) = (tensor![[1.0, 2.0]].requires_grad(), tensor![3.0, 4.0].requires_grad());
    let (products, fused) = (x.mul(&y).unwrap(), fuse!(|x, y| x * y).call([&x, &y]).unwrap());
    let _guard = broadcast_warning(BroadcastWarning::Refuse);
    products.sum(.., false).unwrap().backward().unwrap();
    fused.sum(.., false).unwrap().backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![[6.0, 8.0]]));
    assert_eq!(y.grad(), Some(tensor![2.0, 4.0]));
}
