//! Writes to one leaf from several threads: those between an update's reading and its writing were lost.

use std::panic::{AssertUnwindSafe, catch_unwind};

use foldback_graph::{Error, GraphFacts, Kind, RequiresGrad, Result, no_grad};
use foldback_tensor::{Tensor, refused, tensor};

fn add_one(t: &mut Tensor) -> Result<()> {
    t.add_(1.0).map(|_| ())
}

#[test]
fn every_update_counts() {
    let x = tensor![0.0].requires_grad();
    std::thread::scope(|s| {
        for k in 0..8 {
            let mut x = x.clone();
            s.spawn(move || {
                for _ in 0..2_000 {
                    match k % 3 {
                        0 => x.update_value(add_one).unwrap(),
                        1 => x.update_in_place(add_one).unwrap(),
                        _ => no_grad(|| x.add_(1.0).map(drop)).unwrap(),
                    }
                }
            });
        }
    });
    assert_eq!(x.value(), tensor![16_000.0]);
}

#[test]
fn an_update_may_read_any_leaf_and_write_none_of_its_own() {
    let (x, y) = (tensor![2.0].requires_grad(), tensor![5.0].requires_grad());
    x.update_value(|t| {
        assert_eq!(x.value(), tensor![2.0]);
        (&x * &y).backward()?;
        y.update_value(add_one)?;
        t.add_(x.grad().unwrap()).map(|_| ())
    })
    .unwrap();
    assert_eq!((x.value(), y.value()), (tensor![7.0], tensor![6.0]));
    let mut same = x.clone();
    let inner = [
        x.update_value(|_| x.update_value(add_one)),
        x.update_value(|_| x.update_in_place(add_one)),
        x.update_value(|_| same.set_value(tensor![1.0])),
        x.update_value(|_| no_grad(|| x.clone().add_(1.0).map(drop))),
    ];
    for error in inner {
        assert!(refused!(error, GraphFacts::Updating { .. }), "{error:?}");
    }
    assert_eq!(x.value(), tensor![7.0]);
}

#[test]
fn an_update_that_fails_or_panics_changes_nothing_and_hinders_nobody() {
    let x = tensor![1.0].requires_grad();
    let failed = x.update_value(|t| {
        add_one(t)?;
        Err(Error::other("no"))
    });
    assert_eq!(failed.unwrap_err().kind(), Kind::User);
    let panicking = |t: &mut Tensor| -> Result<()> {
        add_one(t)?;
        panic!("no")
    };
    assert!(catch_unwind(AssertUnwindSafe(|| x.update_value(panicking))).is_err());
    assert_eq!(x.value(), tensor![1.0]);
    assert!(catch_unwind(AssertUnwindSafe(|| x.update_in_place(|_| panic!("no")))).is_err());
    std::thread::scope(|s| s.spawn(|| x.update_value(add_one)).join().unwrap()).unwrap();
    assert_eq!(x.value(), tensor![2.0]);
}
