//! Forms that write: in place, and into a given tensor.

use foldback_graph::Var;
use foldback_tensor::{Error, Tensor, TensorFacts, refused};
use tests::oracle::{Layout, Plain, broadcast, expands};

use crate::expected::{backward, expect_refusal, forward};
use crate::operands::{FLOATS, Fill, World};
use crate::operations::operations;
use crate::{Coverage, layouts_of, name_layouts, types_of};

/// Whether elements of an operand share a place in memory, so that it cannot be written to. An empty one has none.
fn overlaps(t: &Tensor) -> bool {
    t.numel() > 0 && t.strides().iter().zip(t.dims()).any(|(&s, &n)| s == 0 && n > 1)
}

type InPlace =
    (&'static str, fn(&mut Tensor, &Tensor) -> Result<(), Error>, fn(&mut Var, &Var) -> Result<(), Error>);

const IN_PLACE: [InPlace; 4] = [
    ("add", |a, b| a.add_(b).map(|_| ()), |a, b| a.add_(b).map(drop)),
    ("sub", |a, b| a.sub_(b).map(|_| ()), |a, b| a.sub_(b).map(drop)),
    ("mul", |a, b| a.mul_(b).map(|_| ()), |a, b| a.mul_(b).map(drop)),
    ("div", |a, b| a.div_(b).map(|_| ()), |a, b| a.div_(b).map(drop)),
];

#[test]
fn in_place_forms() {
    let world = World::get();
    let mut coverage = Coverage::default();
    let operations = operations();
    for (name, tensor_form, var_form) in IN_PLACE {
        let op = operations.iter().find(|o| o.name == name).expect("the new form is listed");
        let gradient = op.gradient.expect("arithmetic has gradients");
        for (k, (i, j)) in world.pairs().into_iter().enumerate() {
            let (sa, sb) = (&world.shapes[i], &world.shapes[j]);
            let fits = expands(sb, sa);
            for (turn, layouts) in layouts_of(k).enumerate() {
                let types = types_of(k + turn);
                let (ta, a) = world.operand(0, op.fills[0], types.0, i, layouts.0);
                let (tb, b) = world.operand(1, op.fills[1], types.1, j, layouts.1);
                let what = || format!("{name}_({sa:?}, {sb:?}), {types:?}, {}", name_layouts(layouts));
                // A clone, or a dense tensor, which is one of its own unless it was dense before.
                let mut x = if (k + turn) % 2 == 0 { ta.clone() } else { ta.contiguous() };
                let mut h = Var::leaf(ta.clone()).unwrap();
                let leaf = h.clone();
                h = h.mul(1.0).unwrap();
                let y = Var::leaf(tb.clone()).unwrap();
                if !fits {
                    assert!(tensor_form(&mut x, tb).is_err(), "{}", what());
                    assert!(var_form(&mut h, &y).is_err(), "{}", what());
                    for left in [&x, &h.value()] {
                        assert_eq!((left.dims(), left.dtype()), (&sa[..], types.0), "{}", what());
                        assert_eq!(Plain::of(left).values, a.values, "{} was changed", what());
                    }
                    coverage.refused += 1;
                    break;
                }
                let expected = forward(op, sa, a, b);
                if overlaps(&x) {
                    let result = tensor_form(&mut x, tb);
                    assert!(refused!(result, TensorFacts::Overlap { .. }), "{}: {result:?}", what());
                    assert_eq!(Plain::of(&x), *a, "{} was changed", what());
                    coverage.refused += 1;
                    continue;
                }
                tensor_form(&mut x, tb).unwrap_or_else(|e| panic!("{}: {e}", what()));
                expected.check(&x, types.0, 0.0, &what);
                assert_eq!(Plain::of(ta).values, a.values, "{}: another tensor saw the write", what());
                coverage.accept(name, (sa.len().max(sb.len()), sb.len()), layouts);
                if turn % 7 != k % 7 {
                    continue;
                }
                var_form(&mut h, &y).unwrap_or_else(|e| panic!("{}: {e}", what()));
                expected.check(&h.value(), types.0, 0.0, &what);
                let (ts, seed) = world.operand(2, Fill::Halves, types.0, i, (k / 7) % 7);
                h.backward_with(ts).unwrap_or_else(|e| panic!("{}: {e}", what()));
                let grads = backward(gradient, sa, [seed, a, b]);
                for (expected, (var, dtype)) in grads.iter().zip([(leaf, types.0), (y, types.1)]) {
                    expected.check(&var.grad().unwrap(), dtype, 0.0, &what);
                }
            }
        }
    }
    let fitting_ranks = 15;
    assert_eq!(coverage.ranks.len(), IN_PLACE.len() * fitting_ranks);
    assert_eq!(coverage.layouts.len(), IN_PLACE.len() * 49);
    println!("in place: {} cases, and {} refusals", coverage.cases, coverage.refused);
}

type Out = (&'static str, fn(&Tensor, &Tensor, &mut Tensor) -> Result<(), Error>);

const OUT: [Out; 4] = [
    ("add_with", |a, b, out| a.add_out(b, 0.5, out)),
    ("sub_with", |a, b, out| a.sub_out(b, 1.5, out)),
    ("mul", |a, b, out| a.mul_out(b, out)),
    ("div", |a, b, out| a.div_out(b, out)),
];

#[test]
fn forms_that_write_into_a_given_tensor() {
    let world = World::get();
    let mut coverage = Coverage::default();
    let operations = operations();
    for (name, form) in OUT {
        let op = operations.iter().find(|o| o.name == name).expect("the new form is listed");
        for (k, (i, j)) in world.pairs().into_iter().enumerate() {
            let (sa, sb) = (&world.shapes[i], &world.shapes[j]);
            for (turn, layouts) in layouts_of(k).enumerate() {
                let types = types_of(k + turn);
                let (ta, a) = world.operand(0, op.fills[0], types.0, i, layouts.0);
                let (tb, b) = world.operand(1, op.fills[1], types.1, j, layouts.1);
                let (out_layout, out_type) = ((k / 7 + turn) % 7, FLOATS[(k + turn / 2) % 2]);
                let what = || {
                    let layouts = (name_layouts(layouts), Layout::ALL[out_layout]);
                    format!("{name} into {out_type}, ({sa:?}, {sb:?}), {types:?}, {layouts:?}")
                };
                let common = match broadcast(sa, sb) {
                    Ok(common) => common,
                    Err(axis) => {
                        let (mut out, before) =
                            world.operand(2, Fill::Halves, out_type, i, out_layout).clone();
                        let result = form(ta, tb, &mut out);
                        expect_refusal(result, (sa, sb), axis, &what);
                        assert_eq!(Plain::of(&out), before, "{} was changed", what());
                        coverage.refused += 1;
                        break;
                    }
                };
                let number = world.number(&common);
                let (witness, before) = world.operand(2, Fill::Halves, out_type, number, out_layout);
                // An `out` that others hold, or one of its own.
                let mut out = if turn % 2 == 0 { witness.clone() } else { witness.contiguous() };
                let refused = overlaps(&out);
                let result = form(ta, tb, &mut out);
                if refused {
                    assert!(refused!(result, TensorFacts::Overlap { .. }), "{}: {result:?}", what());
                    assert_eq!(Plain::of(&out), *before, "{} was changed", what());
                    coverage.refused += 1;
                } else {
                    result.unwrap_or_else(|e| panic!("{}: {e}", what()));
                    forward(op, &common, a, b).check(&out, out_type, 0.0, &what);
                    coverage.accept(name, (sa.len(), sb.len()), layouts);
                }
                assert_eq!(
                    Plain::of(witness).values,
                    before.values,
                    "{}: another tensor saw the write",
                    what()
                );
                if turn == 0 {
                    // Another shape, even one that the result could be broadcast to, is refused.
                    let other = (number * 7 + k) % world.shapes.len();
                    let (mut out, before) = world.operand(2, Fill::Halves, out_type, other, 0).clone();
                    let result = form(ta, tb, &mut out);
                    if other != number {
                        assert!(
                            refused!(result, TensorFacts::ShapeMismatch { .. }),
                            "{}: {result:?}",
                            what()
                        );
                        assert_eq!(Plain::of(&out), before, "{} was changed", what());
                        coverage.refused += 1;
                    }
                }
            }
        }
    }
    coverage.report("out", OUT.len());
}
