//! `safe_where`: what a branch does where it is not taken never reaches a gradient, of any order.

use foldback::gradcheck::{gradcheck, gradgradcheck};
use foldback::prelude::*;
use foldback::tensor::{BroadcastWarning, TensorFacts, broadcast_warning};
use foldback_tensor::refused;

/// The root, which has no slope at 0 and no value below, or the square.
fn root_or_square(x: &Var) -> Result<Var> {
    Var::safe_where(x.gt(0.0)?, [x], |[x]| Ok(x.sqrt()), |[x]| Ok(x.square()))
}

fn third(x: &Var, f: fn(&Var) -> Result<Var>) -> [Tensor; 3] {
    let once = |y: &Var| grad_with(y.sum(..).unwrap(), x, Backward::new().create_graph(true)).unwrap();
    let first = once(&f(x).unwrap());
    let second = once(&first);
    [first.value(), second.value(), once(&second).value()]
}

#[test]
fn derivatives_of_three_orders_come_from_the_branch_that_is_taken() {
    let x = tensor![0.0, -3.0, 4.0; f64].requires_grad();
    let [first, second, third] = third(&x, root_or_square);
    assert_close!(first, tensor![0.0, -6.0, 0.25; f64]);
    assert_close!(second, tensor![2.0, 2.0, -1.0 / 32.0; f64]);
    assert_close!(third, tensor![0.0, 0.0, 3.0 / 256.0; f64]);
}

#[test]
fn either_branch_may_be_the_wild_one() {
    let x = tensor![0.0, -3.0, 4.0; f64].requires_grad();
    let swapped = |x: &Var| Var::safe_where(x.le(0.0)?, [x], |[x]| Ok(x.square()), |[x]| Ok(x.sqrt()));
    assert_eq!(third(&x, swapped), third(&x, root_or_square));
    let logarithms = |x: &Var| Var::safe_where(x.gt(0.0)?, [x], |[x]| Ok(x.ln()), |[x]| Ok(-(-x).ln()));
    let x = tensor![2.0, -4.0; f64].requires_grad();
    // d(-ln(-x)) = -1 / x
    assert_close!(third(&x, logarithms)[0], tensor![0.5, 0.25; f64]);
}

#[test]
fn inputs_broadcast_and_fold_back() -> Result<()> {
    let (x, w) = (tensor![[0.0], [4.0]].requires_grad(), tensor![1.0, 2.0, 3.0].requires_grad());
    let y = Var::safe_where(x.gt(0.0)?, [&x, &w], |[x, w]| w.div(x.sqrt()), |[_, w]| Ok(w * 10.0))?;
    assert_eq!(y.value(), tensor![[10.0, 20.0, 30.0], [0.5, 1.0, 1.5]]);
    y.sum(..)?.backward()?;
    assert_eq!(w.grad(), Some(tensor![10.5, 10.5, 10.5]));
    assert_eq!(x.grad(), Some(tensor![[0.0], [-0.375]]));
    Ok(())
}

#[test]
fn checked_by_differences_away_from_the_seam() -> Result<()> {
    let x = tensor![-1.5, 0.7, 2.0; f64];
    gradcheck(|x| root_or_square(&x[0]), std::slice::from_ref(&x))?;
    gradgradcheck(|x| root_or_square(&x[0]), std::slice::from_ref(&x))?;
    Ok(())
}

/// What a branch captures is as safe; where nothing is taken, nothing comes back.
#[test]
fn captured_variables_and_branches_that_nothing_takes() -> Result<()> {
    let (x, w) = (tensor![-1.0, 0.0].requires_grad(), tensor![2.0, 3.0].requires_grad());
    for (least, of_w, of_x) in [(-0.5, [0.0, 1.0], [4.0, 3.0]), (9.0, [0.0, 0.0], [4.0, 4.0])] {
        let y =
            Var::safe_where(x.gt(least)?, [&x], |[x]| (x + 1.0).sqrt().mul(&w)?.mul(2.0), |[x]| Ok(x * 4.0))?;
        y.sum(..)?.backward()?;
        assert_eq!(
            (w.grad(), x.grad()),
            (Some(tensor![of_w[0], of_w[1] * 2.0]), Some(tensor![of_x[0], of_x[1]]))
        );
        w.zero_grad();
        x.zero_grad();
    }
    let none: [&Var; 0] = [];
    let y = Var::safe_where(tensor![true, false; bool], none, |[]| Ok(w.clone()), |[]| Ok(&w * 2.0))?;
    assert_eq!(y.value(), tensor![2.0, 6.0]);
    let empty = Tensor::zeros([0, 2]).requires_grad();
    assert_eq!(root_or_square(&empty)?.dims(), [0, 2]);
    Ok(())
}

#[test]
fn a_plain_choice_leaks() {
    let x = tensor![0.0, 4.0].requires_grad();
    x.gt(0.0).unwrap().where_cond(x.sqrt(), 0.0).unwrap().sum(..).unwrap().backward().unwrap();
    assert!(x.grad().unwrap().to_vec::<f32>().unwrap()[0].is_nan());
}

#[test]
fn refusals() {
    let x = tensor![1.0, 2.0].requires_grad();
    let same = |c: Tensor| Var::safe_where(c, [&x], |[x]| Ok(x.clone()), |[x]| Ok(x.clone()));
    assert!(refused!(same(tensor![1.0, 0.0]), TensorFacts::DTypeMismatch { op: "safe_where", .. }));
    assert!(refused!(same(tensor![true, true, false; bool]), TensorFacts::Broadcast { .. }));
    let inner = Var::safe_where(tensor![true, false; bool], [&x], |[x]| x.reshape(3), |[x]| Ok(x.clone()));
    assert!(refused!(inner, TensorFacts::ElementCount { op: "reshape", .. }));
    let _guard = broadcast_warning(BroadcastWarning::Refuse);
    let column = same(tensor![[true], [false]; bool]);
    assert!(refused!(&column, TensorFacts::BroadcastRefused { op: "safe_where", .. }));
    assert_eq!(column.unwrap_err().location().map(|at| at.file()), Some(file!()));
}
