//! A recorded gradient of a broadcast input is folded as it is computed; its own derivatives are those of the same
//! gradient where nothing was folded.

use foldback::prelude::*;
use foldback_gradcheck::testing::{Random, fill};
use foldback_graph::{Domain, Row, live_nodes, rows};

/// Large enough for a fold to be worth it.
const N: usize = 182;

type Call = fn(&[Var]) -> Result<Var>;

/// Leaves [1, n], [n, 1], [1, n], ... for a row.
fn crossed(row: &Row) -> (Vec<Var>, Call) {
    let sample = row.samples().remove(0);
    let mut random = Random::new(3);
    let var = |(i, (_, domain)): (usize, &(Vec<usize>, Domain))| {
        let values = fill(if i % 2 == 0 { [1, N] } else { [N, 1] }, *domain, &mut random);
        if *domain == Domain::Truth { values.to(DType::Bool).into() } else { values.requires_grad() }
    };
    (sample.inputs.iter().enumerate().map(var).collect(), sample.run)
}

/// The first, second and third derivatives along fixed directions.
fn derivatives(x: &[Var], f: impl Fn(&[Var]) -> Result<Var>) -> Result<Vec<Tensor>> {
    let mut random = Random::new(8);
    let leaves: Vec<&Var> = x.iter().filter(|v| v.requires_grad()).collect();
    let weights = fill([N, N], Domain::Any, &mut random);
    let (mut root, mut all) = (f(x)?.mul(&weights)?.sum(..)?, Vec::new());
    for _ in 0..3 {
        if !root.requires_grad() {
            break;
        }
        let grads = Grad::new([&root], &leaves).create_graph(true).materialize_grads(true).run()?;
        root = Var::from(tensor![0.0; f64]);
        for g in grads.into_iter().flatten() {
            all.push(g.value());
            root += g.mul(fill(g.dims().to_vec(), Domain::Any, &mut random))?.sum(..)?;
        }
        root = root.sum(..)?;
    }
    Ok(all)
}

#[test]
fn derivatives_of_folded_gradients_are_those_of_unfolded_ones() -> Result<()> {
    let mut compared = 0;
    for row in rows().filter(|r| r.is_pointwise()) {
        let (x, run) = crossed(row);
        if x.len() == 1 {
            continue;
        }
        // Expanded before, every input has the full shape: only the gradient of `expand` is folded.
        let unfolded = |x: &[Var]| run(&x.iter().map(|x| x.expand([N, N])).collect::<Result<Vec<_>>>()?);
        let (folded, plain) = (derivatives(&x, run)?, derivatives(&x, unfolded)?);
        assert_eq!(folded.len(), plain.len(), "{}", row.name);
        for (a, b) in folded.iter().zip(&plain) {
            let scale = b.abs().max(..)?.item()?.max(1.0);
            assert!(a.sub(b)?.abs().max(..)?.item()? <= 1e-10 * scale, "{}", row.name);
            compared += 1;
        }
    }
    assert!(compared > 100, "only {compared} gradients");
    Ok(())
}

/// A value that was read may depend on another one that was: what is asked for is the partial derivative.
#[test]
fn what_a_gradient_reads_may_depend_on_what_else_it_reads() -> Result<()> {
    let x = fill([N, 1], Domain::Positive, &mut Random::new(1)).requires_grad();
    let f = |x: &[Var]| x[0].mul(x[0].transpose(0, 1)?.exp())?.pow(&x[0]);
    let unfolded = |x: &[Var]| {
        let wide = x[0].expand([N, N])?;
        wide.mul(x[0].transpose(0, 1)?.exp().expand([N, N])?)?.pow(&wide)
    };
    for (a, b) in derivatives(std::slice::from_ref(&x), f)?.iter().zip(&derivatives(&[x], unfolded)?) {
        assert_close!(a, b, rtol = 1e-9);
    }
    Ok(())
}

#[test]
fn fused_gradients_are_folded_where_they_are_recorded() -> Result<()> {
    let f = fuse!(|a, b| (a * b).sin() + a * a);
    let x = [[1, N], [N, 1]].map(|s| fill(s, Domain::Any, &mut Random::new(2)).requires_grad());
    let folded = derivatives(&x, |x| f.call([&x[0], &x[1]]))?;
    let plain = derivatives(&x, |x| f.call([&x[0].expand([N, N])?, &x[1].expand([N, N])?]))?;
    for (a, b) in folded.iter().zip(&plain) {
        assert_close!(a, b, rtol = 1e-9, atol = 1e-9);
    }
    Ok(())
}

#[test]
fn a_folded_gradient_names_its_operation_and_leaves_no_cycle() -> Result<()> {
    let before = live_nodes();
    let (x, w) = (Tensor::ones([1, N]).requires_grad(), Tensor::ones([N, 1]).requires_grad());
    let slope = grad_with(x.mul(&w)?.sum(..)?, &x, Backward::new().create_graph(true))?;
    assert!(format!("{slope:?}").contains("mul"), "{slope:?}");
    slope.sum(..)?.backward()?;
    assert_eq!(w.grad(), Some(Tensor::full([N, 1], N as f64)));
    drop((slope, x, w));
    // Other tests of this process may have nodes meanwhile; they end.
    while live_nodes() > before {
        std::thread::yield_now();
    }
    Ok(())
}
