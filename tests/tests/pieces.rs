//! Pieces of a variable, the results of one operation: against PyTorch (`tests/golden/make_pieces.py`), and what hooks, views and
//! passes see of it.

use std::io::{BufRead, BufReader};
use std::sync::{Arc, Mutex};

use flate2::read::GzDecoder;
use foldback::graph::{Grad, Result, Step, jacfwd, jacobian, jvp};
use foldback::prelude::*;
use serde_json::Value;

fn golden() -> impl Iterator<Item = Value> {
    let file = &include_bytes!("../golden/pieces.jsonl.gz")[..];
    let lines = BufReader::new(GzDecoder::new(file)).lines();
    lines.map(|line| serde_json::from_str(&line.expect("a line of text")).expect("a line of JSON"))
}

fn sizes(v: &Value) -> Vec<usize> {
    v.as_array().expect("a list").iter().map(|n| n.as_u64().expect("a size") as usize).collect()
}

fn tensor_of(v: &Value) -> Option<Tensor> {
    let values = v.get("values")?.as_array()?.iter().map(|x| x.as_f64().expect("a number")).collect();
    Some(Tensor::from_vec(values, sizes(&v["shape"])).expect("as many values as the shape has"))
}

fn cut(value: &Var, how: &Value) -> Result<Vec<Var>> {
    let axis = how["axis"].as_i64().expect("an axis");
    let number = |name: &str| how[name].as_u64().expect("a number") as usize;
    match how["do"].as_str() {
        Some("split") => value.split(number("size"), axis),
        Some("sizes") => value.split(sizes(&how["sizes"]), axis),
        Some("chunk") => value.chunk(number("count"), axis),
        Some("unbind") => value.unbind(axis),
        other => panic!("no cut {other:?}"),
    }
}

/// `x` and all pieces that a line cuts of it and of them.
fn pieces(case: &Value, x: &Var) -> Result<Vec<Var>> {
    let mut pieces = vec![x.clone()];
    for how in case["cuts"].as_array().expect("cuts") {
        let new = cut(&pieces[how["of"].as_u64().expect("a piece") as usize], how)?;
        pieces.extend(new);
    }
    Ok(pieces)
}

fn value(case: &Value, x: &Var, w: &Var, pieces: &[Var]) -> Result<Var> {
    let mut sum = Var::from(tensor![0.0; f64]).sum(..)?;
    for term in case["terms"].as_array().expect("terms") {
        let piece = |name: &str| &pieces[term[name].as_u64().expect("a piece") as usize];
        let (a, b) = (piece("i"), piece("j"));
        let y = match term["do"].as_str() {
            Some("cube") => a.pow(3)?,
            Some("beside_w") => a.mul(w)?.sin(),
            Some("pair") => a.sum(..)?.mul(b.square())?,
            Some("beside_x") => x.mul(a.square().sum(..)?)?,
            other => panic!("no term {other:?}"),
        };
        sum = sum.add(y.sum(..)?.mul(term["by"].as_f64().expect("a number"))?)?;
    }
    Ok(sum)
}

#[track_caller]
fn agree(what: &str, line: usize, found: &[Option<Var>], expected: &Value) {
    for (i, (found, expected)) in found.iter().zip(expected.as_array().expect("gradients")).enumerate() {
        match (found, tensor_of(expected)) {
            (Some(found), Some(expected)) => {
                assert_close!(found.value(), expected, rtol = 1e-11, atol = 1e-11);
            }
            (found, expected) => {
                assert!(
                    found.is_none() && expected.is_none(),
                    "{what} {i} of line {line}: {found:?}, {expected:?}"
                )
            }
        }
    }
}

/// First and second derivatives, by passes and forward.
#[test]
fn random_functions_of_pieces_agree_with_pytorch() -> Result<()> {
    let mut count = 0;
    for (line, case) in golden().enumerate() {
        count += 1;
        let [x, w, v] = ["x", "w", "v"].map(|name| tensor_of(&case[name]).expect("a tensor"));
        let (x, w) = (x.requires_grad(), w.requires_grad());
        let parts = pieces(&case, &x)?;
        let shapes: Vec<Vec<usize>> = case["shapes"].as_array().expect("shapes").iter().map(sizes).collect();
        assert_eq!(parts.iter().map(|p| p.dims().to_vec()).collect::<Vec<_>>(), shapes, "line {line}");
        let y = value(&case, &x, &w, &parts)?;
        let expected = Tensor::from(case["value"].as_f64().expect("a number"));
        assert_close!(y.value(), expected, rtol = 1e-12, atol = 1e-12);
        let piece = &parts[case["piece"].as_u64().expect("a piece") as usize];
        let plain = Grad::new([&y], [&x, &w, piece]).allow_unused(true).retain_graph(true).run()?;
        agree("the gradient", line, &plain, &case["first"]);
        let first = Grad::new([&y], [&x, &w, piece]).allow_unused(true).create_graph(true).run()?;
        agree("the recorded gradient", line, &first, &case["first"]);
        let Some(slope) = &first[0] else { continue };
        let along = |x: &Var| value(&case, x, &w.detach(), &pieces(&case, x)?);
        let (_, tangent) = jvp(along, x.value(), &v)?;
        assert_close!(tangent.value(), slope.mul(&v)?.sum(..)?.value(), rtol = 1e-11, atol = 1e-11);
        if slope.requires_grad() {
            let second = Grad::new([&slope.mul(&v)?.sum(..)?], [&x, &w]).allow_unused(true).run()?;
            agree("the second gradient", line, &second, &case["second"]);
        }
    }
    assert_eq!(count, 120);
    Ok(())
}

#[test]
fn all_pieces_are_one_operation() -> Result<()> {
    let x = Tensor::ones([6, 4]).requires_grad();
    for (name, pieces) in [
        ("split", x.split(1, 0)?),
        ("split", x.split([1, 0, 5], 0)?),
        ("split", x.chunk(3, -1)?),
        ("split", x.chunks::<2>(1)?.into()),
        ("unbind", x.unbind(0)?),
    ] {
        let y = pieces.iter().try_fold(Var::from(Tensor::zeros(())), |sum, piece| sum.add(piece.sum(..)?))?;
        let graph = y.graph()?;
        let cuts: Vec<_> = graph.nodes().iter().filter(|node| node.name == name).collect();
        assert_eq!((cuts.len(), cuts[0].saved_bytes()), (1, 0), "{name}");
        assert_eq!(graph.to_dot().matches(&format!("label=\"{name}\\n")).count(), 1, "{name}");
        let plan = y.backward_plan()?;
        let of_cut = |step: &&Step| plan.graph().nodes()[step.node].name == name;
        assert_eq!(plan.steps().iter().filter(of_cut).count(), 1, "{name}");
        assert!(pieces.iter().all(|p| p.value().shares_buffer_with(&x.value())), "{name}");
    }
    assert!(Tensor::ones([0, 2]).requires_grad().unbind(0)?.is_empty());
    assert!(x.detach().unbind(0)?.iter().all(|row| !row.requires_grad()));
    Ok(())
}

#[test]
fn a_piece_without_a_gradient_counts_as_zeros() -> Result<()> {
    let x = Tensor::ones([3, 2]).requires_grad();
    let rows = x.unbind(0)?;
    rows[1].sum(..)?.backward()?;
    assert_eq!(x.grad(), Some(tensor![[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]));
    rows[0].mul(3.0)?.add(&rows[1])?.sum(..)?.backward()?;
    assert_eq!(x.grad(), Some(tensor![[3.0, 3.0], [2.0, 2.0], [0.0, 0.0]]));
    Ok(())
}

#[test]
fn hooks_see_pieces_one_by_one_and_the_operation_all_of_them() -> Result<()> {
    let x = tensor![1.0, 2.0, 3.0].requires_grad();
    let numbers = x.unbind(0)?;
    numbers[2].register_hook(|g| g * 10.0)?;
    numbers[0].retain_grad()?;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    numbers[0].grad_fn().expect("an operation").register_prehook(move |grads| {
        *log.lock().unwrap() = grads.iter().map(|g| g.as_ref().map(|g| g.item().unwrap())).collect();
    });
    numbers[0].mul(&numbers[2])?.backward()?;
    assert_eq!(*seen.lock().unwrap(), [Some(3.0), None, Some(10.0)]);
    assert_eq!((numbers[0].grad(), x.grad()), (Some(Tensor::from(3.0f32)), Some(tensor![3.0, 0.0, 10.0])));
    Ok(())
}

/// The handle of a piece is rebound; the whole and the other pieces keep their values.
#[test]
fn a_piece_is_written_without_the_knowledge_of_the_whole() -> Result<()> {
    let x = tensor![[1.0, 2.0], [3.0, 4.0]].requires_grad();
    let mut rows = x.mul(2.0)?.unbind(0)?;
    rows[0].mul_(5.0)?;
    assert_eq!(rows[1].value(), tensor![6.0, 8.0]);
    rows[0].add(&rows[1])?.sum(..)?.backward()?;
    assert_eq!(x.grad(), Some(tensor![[10.0, 10.0], [2.0, 2.0]]));
    Ok(())
}

/// Parts that are taken one by one add up in place: hooks of the whole see the sum, and a value that somebody else has is
/// not written to.
#[test]
fn parts_add_up_in_what_waits() -> Result<()> {
    let x = Tensor::ones([4, 2]).requires_grad();
    let y = x.mul(1.0)?;
    let kept = Arc::new(Mutex::new(Vec::new()));
    let log = kept.clone();
    let whole = y.mul(2.0)?;
    whole.register_hook(move |g| log.lock().unwrap().push(g.value()))?;
    let parts = y.select(0, 0)?.sum(..)?.add(y.narrow(0, 0, 2)?.sum(..)?)?;
    let picked = y.slice(tensor![3, 3; i64])?.sum(..)?;
    // The seed of `whole` is kept by the hook, and is what waits for `y` when the parts arrive.
    whole.sum(..)?.add(parts)?.add(picked)?.backward()?;
    assert_eq!(x.grad(), Some(tensor![[4.0, 4.0], [3.0, 3.0], [2.0, 2.0], [4.0, 4.0]]));
    assert_eq!(*kept.lock().unwrap(), [Tensor::ones([4, 2])]);

    let z = Tensor::ones([3]).requires_grad();
    let seed = tensor![1.0, 2.0, 3.0];
    let root = z.mul(1.0)?;
    let all = root.reshape([3, 1])?.reshape(3)?;
    let sum = Grad::new([&all, &root.select(0, 1)?], [&z]).seeds([&seed, &Tensor::from(10.0f32)]).run()?;
    assert_eq!(sum[0].as_ref().map(Var::value), Some(tensor![1.0, 12.0, 3.0]));
    assert_eq!(seed, tensor![1.0, 2.0, 3.0]);
    Ok(())
}

/// Many gradients at once, and tangents: pieces of the whole's, behind the leading axis.
#[test]
fn jacobians_of_pieces() -> Result<()> {
    let x = Tensor::arange_with(0..12, 1, DType::F64).reshape([3, 4])? * 0.1;
    let f = |x: &Var| {
        let [a, b] = x.chunks(1)?;
        let rows = a.mul(b.exp())?.unbind(0)?;
        rows[0].mul(&rows[2])?.add(x.select(1, 1)?.narrow(0, 1, 2)?)?.add(x.select(1, -1)?.narrow(0, 0, 2)?)
    };
    let g = |x: &Var| {
        let (a, b) = (x.slice((.., ..2))?, x.slice((.., 2..))?);
        let y = a.mul(b.exp())?;
        y.slice(0)?.mul(y.slice(2)?)?.add(x.slice((1.., 1))?)?.add(x.slice((..2, 3))?)
    };
    let expected = jacobian(g, &x)?;
    assert_close!(jacobian(f, &x)?.value(), expected.value(), atol = 1e-14);
    assert_close!(jacfwd(f, &x)?.value(), expected.value(), atol = 1e-14);
    Ok(())
}
