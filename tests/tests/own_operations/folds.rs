//! Gradients that are described, and folded as they are computed.

use foldback::fuse;
use foldback::gradcheck::{gradcheck, gradgradcheck};
use foldback::graph::{Function, FunctionContext, Operation, Result};
use foldback::prelude::*;

use crate::{crossed, folding_mul, mul};

#[test]
fn described_gradients_are_those_that_are_given() -> Result<()> {
    let scalar = |x: &[Var], op: &Operation<2>| op.call([&x[0], &x[1]])?.sin().sum(..);
    let x = crossed().map(|t| t.requires_grad());
    let results = [mul(), folding_mul()].map(|op| {
        let first = grad_with(scalar(&x, &op).unwrap(), &x, Backward::new().create_graph(true)).unwrap();
        let second = grad(first[0].square().sum(..).unwrap() + first[1].sum(..).unwrap(), &x).unwrap();
        (grad(scalar(&x, &op).unwrap(), &x).unwrap(), first, second)
    });
    for (k, x) in x.iter().enumerate() {
        let [a, b] = [&results[0], &results[1]].map(|r| [r.0[k].value(), r.1[k].value(), r.2[k].value()]);
        for (a, b) in a.iter().zip(&b) {
            assert_eq!(a.dims(), x.dims());
            assert_close!(a, b);
        }
    }
    for op in [mul(), folding_mul()] {
        gradcheck(|x| op.call([&x[0], &x[1]]), &crossed())?;
        gradgradcheck(|x| op.call([&x[0], &x[1]]), &crossed())?;
    }
    Ok(())
}

#[test]
fn a_described_gradient_is_folded_from_every_shape() -> Result<()> {
    let shapes: [[&[usize]; 2]; 7] = [
        [&[], &[2, 3]],
        [&[3], &[2, 3]],
        [&[1], &[1, 3]],
        [&[1, 1], &[]],
        [&[2, 1, 3], &[4, 1]],
        [&[0], &[2, 1]],
        [&[1], &[0]],
    ];
    for shapes in shapes {
        let x = shapes.map(|s| Tensor::full_with(s, 0.5, DType::F64));
        gradcheck(|x| folding_mul().call([&x[0], &x[1]]), &x)?;
        gradgradcheck(|x| folding_mul().call([&x[0], &x[1]]), &x)?;
    }
    Ok(())
}

#[test]
fn a_described_gradient_is_cast_and_added_to_what_waits() -> Result<()> {
    let (x, w) = (tensor![1.0, 2.0].requires_grad(), tensor![[3.0], [4.0]; f64].requires_grad());
    for recorded in [false, true] {
        let y = folding_mul().call([&x, &w])?.sum(..)? + folding_mul().call([&x, &x])?.sum(..)?;
        let [dx, dw] = grad_with(&y, [&x, &w], Backward::new().create_graph(recorded))?;
        assert_eq!((dx.value(), dw.value()), (tensor![9.0, 11.0], tensor![[3.0], [3.0]; f64]));
    }
    Ok(())
}

#[test]
fn a_function_describes_its_gradients_as_well() -> Result<()> {
    struct Mul;
    impl Function for Mul {
        fn name(&self) -> &'static str {
            "mul"
        }
        fn saves_inputs(&self) -> bool {
            true
        }
        fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
            Ok(vec![inputs[0].mul(inputs[1])?])
        }
        fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
            let g = ctx.grad(0);
            ctx.fold(0, fuse!(|g, b| g * b), [&g, &ctx.input(1)])?;
            ctx.fold(1, fuse!(|g, a| g * a), [&g, &ctx.input(0)])?;
            Ok(vec![None, None])
        }
    }
    gradcheck(|x| Mul.call([&x[0], &x[1]]), &crossed())?;
    gradgradcheck(|x| Mul.call([&x[0], &x[1]]), &crossed())
}
