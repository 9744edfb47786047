//! Property tests in a line: right operations pass, planted errors are found and made small; strategies keep their promises.

use std::cell::RefCell;

use foldback_gradcheck::check_broadcast_op;
use foldback_gradcheck::strategies::domains::{ANY, DISTINCT, NONZERO, UNIT};
use foldback_gradcheck::strategies::proptest::prelude::*;
use foldback_gradcheck::strategies::proptest::test_runner::{Config, TestRng, TestRunner};
use foldback_gradcheck::strategies::{
    broadcastable_shapes, broadcastable_to, broadcasting_inputs, check_broadcast_op as check, layouts,
    shapes, tensors,
};
use foldback_graph::{Operation, Result, Var, fuse};
use foldback_tensor::{BroadcastWarning, Error, Shape, Tensor, broadcast_warning};

#[test]
fn right_operations_pass() {
    check_broadcast_op!(|a: &Var, b: &Var| a.mul(b), |a, b| a * b, a in ANY, b in ANY);
    check_broadcast_op!(|x: &Var| x.log(), |x| x.ln(), x in POSITIVE);
    check_broadcast_op!(|x: &Var| x.asin(), |x| x.asin(), x in UNIT);
    check_broadcast_op!(|a: &Var, b: &Var| a.maximum(b), |a, b| a.max(b), a in NONZERO, b in NON_INTEGER);
    check_broadcast_op!(
        |c: &Var, a: &Var, b: &Var| Var::from(c.value().ne(0.0)?).where_cond(a, b),
        |c, a, b| if c != 0.0 { a } else { b },
        c in TRUTH, a in ANY, b in DISTINCT
    );
    check_broadcast_op!(|a: &Var, b: &Var| fuse!(|a, b| (a - b).square() / b).call((a, b)), |a, b| (a - b).powi(2) / b, a in ANY, b in ABOVE_ONE);
}

/// Operands that happen to tie have values, and no gradient; operands that are chosen are not varied.
#[test]
fn kinks_are_passed_over() {
    check_broadcast_op!(|a: &Var, b: &Var| a.maximum(b), |a, b| a.max(b), a in ANY, b in ANY);
    check_broadcast_op!(|a: &Var, b: &Var| Ok::<Var, Error>(a.sub(b)?.abs()), |a, b| (a - b).abs(), a in ANY, b in ANY);
    check_broadcast_op!(|a: &Var, b: &Var| a.mul(b), |a, b| a * b, a in TRUTH, b in TRUTH);
    let text =
        check(|[a, b]| a.maximum(b), |[a, b]| if a == b { 0.0 } else { a.max(b) }, [ANY, ANY]).unwrap_err();
    assert!(text.to_string().contains("its values are wrong"), "{text}");
    let text = check(|[x]| Ok::<Var, Error>(x.log()), |[x]| x.ln(), [ANY]).unwrap_err().to_string();
    assert!(text.contains("the function's value is not finite there or close by"), "{text}");
}

/// Each broadcast is meant there, `[4, 1]` with `[4]` among them.
#[test]
fn a_scope_that_refuses_broadcasts_does_not_reach_it() {
    let _guard = broadcast_warning(BroadcastWarning::Refuse);
    let list = || Tensor::zeros([4, 1]).mul(Tensor::zeros([4]));
    let product = |a: &Var, b: &Var| list().and_then(|_| a.mul(b));
    check_broadcast_op!(product, |a, b| a * b, a in ANY, b in ANY);
    assert!(list().is_err());
    proptest!(|(x in broadcasting_inputs(2, ANY))| prop_assert!(x[0].mul(&x[1]).is_ok()));
}

/// What is said of an operation of two operands whose gradients, or values, have an error.
fn said(op: impl Fn(&Var, &Var) -> Result<Var>) -> String {
    check(|[a, b]| op(a, b), |[a, b]| a * b, [ANY, NONZERO]).expect_err("an error was planted").to_string()
}

#[test]
fn planted_errors_are_found() {
    let unfolded =
        Operation::new("twice", |[a, b]| a.mul(b), |ctx, [g]| [&g * ctx.input(1), &g * ctx.input(0) * 2.0]);
    let unfolded = unfolded.saves_inputs();
    let text = said(|a, b| unfolded.call([a, b]));
    assert!(text.contains("for inputs of shapes") && text.contains("2 times"), "{text}");

    let text = said(|a, b| a.mul(b)?.add(0.5));
    assert!(text.contains("its values are wrong"), "{text}");

    // Wrong only where the first operand is transposed in memory.
    let text = said(|a, b| {
        let y = a.mul(b)?;
        if a.value().is_contiguous() { Ok(y) } else { y.neg().add(0.0) }
    });
    assert!(text.contains("strides"), "{text}");

    // Right at first order only.
    let text = said(|a, b| {
        let own = Operation::new(
            "once",
            |[a, b]| a.mul(b),
            |ctx, [g]| [&g * ctx.input(1).detach(), &g * ctx.input(0).detach()],
        );
        own.saves_inputs().call([a, b])
    });
    assert!(text.contains("second-order"), "{text}");

    let text = said(|_, _| Err(Error::other("not today")));
    assert!(text.ends_with("not today"), "{text}");
}

/// An operation that is wrong only beyond what is enumerated: the smallest inputs that show it are found.
#[test]
fn random_failures_are_made_small() {
    let text = said(|a, b| if a.rank() >= 3 { a.mul(b)?.mul(2.0) } else { a.mul(b) });
    assert!(text.contains("inputs of shapes [1, 1, 1]"), "{text}");
}

/// The smallest value that fails.
fn smallest<S: Strategy>(strategy: S, fails: impl Fn(&S::Value) -> bool) -> S::Value
where
    S::Value: Clone,
{
    let last = RefCell::new(None);
    let config = Config { failure_persistence: None, cases: 2000, ..Config::default() };
    // What is smallest depends on where the search begins: sizes of 0 are as small as those of 1.
    let rng = TestRng::deterministic_rng(config.rng_algorithm);
    let found = TestRunner::new_with_rng(config, rng).run(&strategy, |value| {
        if fails(&value) {
            last.replace(Some(value));
            return Err(TestCaseError::fail("wanted"));
        }
        Ok(())
    });
    assert!(found.is_err(), "nothing fails");
    last.into_inner().expect("something failed")
}

#[test]
fn failures_become_the_smallest() {
    assert_eq!(smallest(shapes(), |s| s.rank() == 2 && s[1] >= 2), Shape::from([1, 2]));
    assert_eq!(smallest(shapes(), |s| s.contains(&0)).numel(), 0);
    let two = smallest(broadcastable_shapes(2), |s| s[0] != s[1] && s[0].rank() == s[1].rank());
    assert_eq!(two.iter().map(|s| s.numel()).max(), Some(2), "{two:?}");
    let x = smallest(tensors([2], ANY), |x| x.to_vec::<f64>().unwrap()[1] > 0.3);
    assert_eq!(x.to_vec::<f64>().unwrap(), [0.00037, 0.37537]);
}

proptest! {
    #[test]
    fn shapes_that_broadcast(all in broadcastable_shapes(3), one in broadcastable_to([2, 3, 4]), layout in layouts()) {
        let [a, b, c] = [0, 1, 2].map(|i| Tensor::ones(&all[i]));
        prop_assert!(a.add(&b).and_then(|y| y.add(&c)).is_ok());
        prop_assert!(Tensor::ones(&one).expand([2, 3, 4]).is_ok());
        prop_assert!(layout.apply(&Tensor::ones([2, 2])).is_some());
    }

    #[test]
    fn numbers_keep_to_their_domain(x in broadcasting_inputs(2, DISTINCT), unit in tensors([5], UNIT)) {
        prop_assert!(unit.abs().max(..)?.item_as::<f64>()? < 1.0);
        for x in &x {
            let layout_repeats = x.strides().iter().zip(x.dims()).any(|(&s, &n)| s == 0 && n > 1);
            let mut values = x.to_vec::<f64>()?;
            values.sort_by(f64::total_cmp);
            prop_assert!(layout_repeats || values.windows(2).all(|w| w[1] - w[0] > 0.05));
        }
    }
}
