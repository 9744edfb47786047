//! Every row of the table says what a tangent adds, and describes many gradients at once; where it does not stands here.

use foldback_tensor::{Attention, Conv, DType, Norm, Tensor, assert_close, keep, tensor};

use crate::engine::VISITED;
use crate::engine::trace::take_long_ways;
use crate::{
    Domain, RequiresGrad, Result, Var, hessian, jacfwd, jacobian, jvp, no_grad, rows, value_and_grad,
};

/// A name, the fewest axes of an input, the inputs that can be differentiated, and the operation as a function of these.
type Case<F> = (String, usize, Vec<Tensor>, F);

/// Every sample of every row.
fn samples() -> Vec<Case<impl Fn(&[Var]) -> Result<Var>>> {
    let all = rows().flat_map(|row| row.samples().into_iter().map(move |sample| (row, sample)));
    all.map(|(row, sample)| {
        let condition = |d: &Domain| row.is_pointwise() && *d == Domain::Truth;
        let inputs = sample.inputs.iter().map(|(shape, domain)| {
            let count: usize = shape.iter().product();
            let steps =
                Tensor::arange_with(0..count as i64, 1, DType::F64).reshape(shape.as_slice()).unwrap();
            match domain {
                Domain::Truth if condition(domain) => steps.gt(0.5).unwrap(),
                Domain::AboveOne => steps * 0.01 + 1.2,
                _ => steps * 0.01 + 0.2,
            }
        });
        let inputs: Vec<Tensor> = inputs.collect();
        let (run, rank) = (sample.run, inputs.iter().map(Tensor::rank).min().unwrap_or(0));
        let floats: Vec<Tensor> = inputs.iter().filter(|t| t.dtype().is_float()).cloned().collect();
        let f = move |x: &[Var]| {
            let mut x = x.iter();
            let all: Vec<Var> = inputs
                .iter()
                .map(|t| if t.dtype().is_float() { x.next().unwrap().clone() } else { t.into() })
                .collect();
            run(&all)
        };
        (format!("{} ({})", row.name, sample.label), rank, floats, f)
    })
    .collect()
}

#[test]
fn every_row_has_a_forward_rule() {
    take_long_ways();
    for (name, _, inputs, f) in samples() {
        jvp(&f, inputs.clone(), inputs.clone()).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    assert_eq!(take_long_ways(), [].into());
}

/// A number has no axes that one could stand in front of; places that stand apart come first in a result.
fn is_described_for_each(name: &str, rank: usize) -> bool {
    rank == 0 || name.contains("apart")
}

#[test]
fn many_gradients_of_a_row_are_described_once() {
    let mut wrong = Vec::new();
    for (name, rank, inputs, f) in samples() {
        take_long_ways();
        jacobian(&f, inputs).unwrap_or_else(|e| panic!("{name}: {e}"));
        if !take_long_ways().is_empty() && !is_described_for_each(&name, rank) {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Layers of the usual kinds: images, words, normalisation, attention, a loss for each example.
fn layers(x: &Var) -> Result<Var> {
    let rand = |seed: u64, shape: &[usize]| -> Tensor {
        let count: usize = shape.iter().product();
        let steps = Tensor::arange_with(0..count as i64, 1, DType::F64).reshape(shape).unwrap();
        (steps * 0.37 + seed as f64).sin() * 0.5
    };
    let image = x.reshape([2, 1, 4, 4])?;
    let conv = image.conv2d_with(rand(1, &[2, 1, 3, 3]), Conv::new().bias(rand(2, &[2])).padding(1))?;
    let normal = conv.batch_norm_train(Norm::new().weight(rand(3, &[2])))?.0.relu();
    let small = normal.max_pool2d(2)? + normal.avg_pool2d(2)?;
    let words = small.flatten(2..)?.transpose(1, 2)?.linear(rand(4, &[4, 2]), rand(5, &[4]))?;
    let [q, k, v] = [6, 7, 8].map(|seed| words.matmul(rand(seed, &[4, 4])));
    let seen = q?.scaled_dot_product_attention_with(k?, v?, Attention::new().is_causal(true))?;
    let seen = (seen + &words).layer_norm_with(4, Norm::new().bias(rand(9, &[4])))?.gelu();
    let table = Var::embedding(tensor![0, 1, 1; i64], seen.mean(1)?)?;
    let both = Var::cat([&table, &table.narrow(0, 0, 2)?.softmax(-1)?], 0)?;
    let scaled = both.sub(both.amax(keep(1))?)?.div(both.norm(keep(1))?)?;
    scaled.cross_entropy(tensor![0, 1, 2, 3, 0; i64])
}

#[test]
fn a_jacobian_of_the_usual_layers_is_one_pass_that_describes_each_node_once() {
    let x = (Tensor::arange_with(0..32, 1, DType::F64) * 0.7).cos().requires_grad();
    let nodes = layers(&x).unwrap().graph().unwrap().nodes().len();
    take_long_ways();
    let before = VISITED.get();
    let backward = jacobian(layers, &x.value()).unwrap();
    assert_eq!((VISITED.get() - before, take_long_ways().len()), (nodes, 0));
    let before = VISITED.get();
    let forward = jacfwd(layers, &x.value()).unwrap();
    assert_eq!((VISITED.get() - before, take_long_ways().len()), (0, 0));
    assert_eq!(backward.shape(), [5, 32]);
    assert_close!(backward.value(), forward.value(), atol = 1e-12);
}

#[test]
fn fused_operations_have_both() {
    let (a, b) = (tensor![[0.3], [1.2]; f64], tensor![0.5, -1.0, 0.2; f64]);
    let fused = |[a, b]: &[Var; 2]| -> Result<[Var; 3]> {
        let f = crate::fuse!(|x, y| (x * y + y).sin() * x);
        Ok([f.call([a, b])?, f.sum([a, b], 1)?, f.mean([a, b], keep(0))?])
    };
    let plain = |[a, b]: &[Var; 2]| -> Result<[Var; 3]> {
        let y = (a * b + b).sin() * a;
        Ok([y.clone(), y.sum(1)?, y.mean(keep(0))?])
    };
    take_long_ways();
    let found = [jacobian(fused, [&a, &b]).unwrap(), jacfwd(fused, [&a, &b]).unwrap()];
    assert!(take_long_ways().is_empty());
    let expected = jacobian(plain, [&a, &b]).unwrap();
    for found in found.iter().flatten().flatten().zip(expected.iter().chain(&expected).flatten()) {
        assert_close!(found.0.value(), found.1.value(), atol = 1e-14);
    }
    let number = |f: &dyn Fn(&[Var; 2]) -> Result<[Var; 3]>, x: &[Var; 2]| -> Result<Var> {
        let [y, sum, mean] = f(x)?;
        y.square().sum(..)?.add(sum.exp().sum(..)?)?.mul(mean.sum(..)?)
    };
    let [fused, plain] = [&fused as &dyn Fn(&[Var; 2]) -> Result<[Var; 3]>, &plain]
        .map(|f| hessian(|x: &[Var; 2]| number(f, x), [&a, &b]).unwrap());
    for (found, expected) in fused.iter().flatten().zip(plain.iter().flatten()) {
        assert_close!(found.value(), expected.value(), atol = 1e-12);
    }
}

/// The slope of `x^3`, by [`value_and_grad`].
fn slope(x: &Var) -> Result<Var> {
    Ok(value_and_grad(|x| x.pow(3.0)?.sum(..), x)?.1)
}

#[test]
fn gradients_of_gradients() -> Result<()> {
    let x = tensor![0.5, -1.0; f64];
    let (_, g) = value_and_grad(|x| x.mul(slope(x)?)?.sum(..), &x)?;
    assert_close!(g, tensor![2.25, 9.0; f64]);
    assert_close!(jacobian(slope, &x)?, tensor![[3.0, 0.0], [0.0, -6.0]; f64]);
    assert!(!slope(&x.clone().into())?.requires_grad());
    let w = tensor![2.0; f64].requires_grad();
    let (y, g) = value_and_grad(|x| x.mul(&w)?.sum(..), &x)?;
    assert_eq!((y.item()?, g.value(), w.grad()), (-1.0, tensor![2.0, 2.0; f64], None));
    g.sum(..)?.backward()?;
    assert_eq!(w.grad(), Some(tensor![2.0; f64]));
    Ok(())
}

#[test]
fn gradients_of_what_has_none_and_where_nothing_is_recorded() -> Result<()> {
    let x = tensor![1.0, 2.0];
    assert_eq!(no_grad(|| value_and_grad(|x| x.square().sum(..), &x))?.1.value(), tensor![2.0, 4.0]);
    let (y, g) = value_and_grad(|_| Var::from(tensor![3.0]), &x)?;
    assert_eq!((y.value(), g.value()), (tensor![3.0], tensor![0.0, 0.0]));
    let (_, g) = value_and_grad(|x| no_grad(|| x.sum(..)), &x)?;
    assert_eq!(g.value(), tensor![0.0, 0.0]);
    let e = value_and_grad(|[x, i]| x.index_select(0, i)?.sum(..), [&x, &tensor![0; i64]]).unwrap_err();
    assert!(e.to_string().starts_with("value_and_grad: argument 1 is of type i64"), "{e}");
    let e = value_and_grad(|x: &[Var]| x[0].sum(..), Vec::<Tensor>::new()).unwrap_err();
    assert!(e.to_string().starts_with("value_and_grad: the list of arguments must not be empty"), "{e}");
    let e = value_and_grad(|x| x.square(), &x).unwrap_err();
    assert!(e.to_string().starts_with("value_and_grad: ") && e.to_string().contains("shape [2]"), "{e}");
    Ok(())
}
