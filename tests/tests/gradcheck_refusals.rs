//! What a check of gradients refuses to compare, and what it leaves as it was.

use foldback_gradcheck::{Argument, Check, GradcheckFacts, gradcheck, gradgradcheck};
use foldback_graph::{Operation, RequiresGrad, Var, no_grad};
use foldback_tensor::{DType, Tensor, refused, tensor};

fn matrix() -> Tensor {
    tensor![[0.3, -1.2, 0.7], [1.9, 0.4, -0.6]; f64]
}

#[test]
fn what_cannot_be_checked_is_refused() {
    let f = |x: &[Var]| Ok(x[0].exp());
    let found = gradcheck(f, &[tensor![1.0, 2.0]]).unwrap_err();
    assert_eq!(
        found.with_location(None).to_string(),
        "gradcheck: input 0 has dtype f32; differences are meaningful in f64 only: convert it with to(DType::F64) (tensor![..; \
         f64] makes one), or, for a function that takes either type, ask for Check::single_precision"
    );
    assert!(refused!(gradgradcheck(f, &[tensor![1; i64]]), GradcheckFacts::DType { dtype: DType::I64, .. }));
    let narrowed = gradcheck(|x| Ok(x[0].to(DType::F32)), &[matrix()]);
    assert!(refused!(narrowed, GradcheckFacts::DType { argument: Argument::Output, dtype: DType::F32 }));
    assert!(refused!(
        Check::new().tracked(&[false]).gradcheck(f, &[matrix()]),
        GradcheckFacts::NothingTracked
    ));
    assert!(refused!(gradcheck(f, &[] as &[Tensor]), GradcheckFacts::NothingTracked));
    let flags = Check::new().tracked(&[true, true]).gradcheck(f, &[matrix()]);
    assert!(refused!(flags, GradcheckFacts::TrackedCount { flags: 2, inputs: 1 }));
    let seed = Check::new().seed(tensor![0.5, 2.0, -0.7; f64]).gradcheck(f, &[matrix()]);
    assert!(refused!(seed, GradcheckFacts::Shape { argument: Argument::Seed, .. }));
    assert!(refused!(gradcheck(|_| Vec::<Var>::new(), matrix()), GradcheckFacts::NoOutputs));
    no_grad(|| gradgradcheck(|x| x.exp(), matrix())).expect("a check records by itself");
    // Inputs that are not tracked may have any type.
    let condition = matrix().gt(0.0).unwrap();
    Check::new()
        .tracked(&[false, true])
        .gradcheck(|x| x[0].where_cond(&x[1], 0.0), &[condition, matrix()])
        .expect("a condition is no obstacle");
}

#[test]
fn a_check_that_compares_nothing_or_in_vain_is_refused() {
    let planted = Operation::new("planted", |[x]| x.exp(), |_, [g]| g);
    let wrong = |x: &[Var]| planted.call([&x[0]]);
    let x = [matrix()];
    let refused = |check: Check| {
        let text = |e: foldback_gradcheck::Error| e.with_location(None).to_string();
        let first = text(check.gradcheck(wrong, &x).expect_err("it cannot pass"));
        assert_eq!(text(check.gradgradcheck(wrong, &x).expect_err("nor can it")), first);
        first
    };
    let none = refused(Check::new().seeds(0));
    assert!(none.contains("seeds(0)") && none.contains("compares nothing"), "{none}");
    for (name, check) in [
        ("tolerance", Check::new().tolerance(f64::INFINITY)),
        ("tolerance", Check::new().tolerance(f64::NAN)),
        ("tolerance", Check::new().tolerance(-1e-7)),
        ("step", Check::new().step(0.0)),
        ("step", Check::new().step(f64::INFINITY)),
        ("step", Check::new().step(f64::NAN)),
    ] {
        let message = refused(check);
        assert!(message.starts_with(&format!("gradcheck: {name} must be finite")), "{message}");
    }
    // A seed that is given is enough.
    let seed = Tensor::ones_with([2, 3], DType::F64);
    assert!(refused!(Check::new().seeds(0).seed(seed).gradcheck(wrong, &x), GradcheckFacts::Gradient { .. }));
}

/// Gradients that are there, or that a check has computed before, are none of its business.
#[test]
fn a_check_leaves_captured_leaves_as_they_are_and_may_be_repeated() {
    let w = tensor![2.0, 3.0, 4.0; f64].requires_grad();
    w.set_grad(Some(tensor![7.0, 8.0, 9.0; f64])).unwrap();
    let product = |x: &[Var]| x[0].mul(&w).unwrap();
    for _ in 0..2 {
        gradcheck(|x| Ok(product(x).sin()), &[matrix()]).unwrap();
        gradgradcheck(|x| Ok(product(x).sin()), &[matrix()]).unwrap();
        assert_eq!(w.grad(), Some(tensor![7.0, 8.0, 9.0; f64]));
    }
}
