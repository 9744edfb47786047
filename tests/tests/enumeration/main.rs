//! Every operation of two operands over all pairs of shapes of rank up to 4 with sizes 0, 1, 2 and 3, in every layout,
//! against plain index loops: results, both gradients, and what is refused.
//!
//! Note [Exact numbers]
//! Operands are small multiples of a half, divisors powers of two, seeds multiples of a half. So every result, every
//! term of a gradient and every sum of terms is a number that even `f32` holds, whatever the order of the additions,
//! and results are compared for equality. Only powers are rounded; their bound is derived where it is used.
//!
//! Debug builds take pairs at a fixed stride, release builds all of them.

mod expected;
mod operands;
mod operations;
mod writes;

use std::collections::HashSet;

use foldback_graph::Var;
use foldback_tensor::{DType, Tensor, TensorFacts};
use tests::oracle::{Layout, Plain, broadcast, for_each_index};

use crate::expected::{Expected, backward, expect_refusal, forward, result_type, slack};
use crate::operands::{FLOATS, Fill, World};
use crate::operations::operations;

/// Debug builds take every so-many-th pair of shapes; a prime, so that no size is favoured.
const STRIDE: usize = if cfg!(debug_assertions) { 31 } else { 1 };

/// What has occurred, so that a sample can be shown to have left nothing out.
#[derive(Default)]
struct Coverage {
    cases: usize,
    refused: usize,
    /// operation, ranks
    ranks: HashSet<(&'static str, usize, usize)>,
    /// operation, layouts
    layouts: HashSet<(&'static str, usize, usize)>,
}

impl Coverage {
    fn accept(&mut self, name: &'static str, ranks: (usize, usize), layouts: (usize, usize)) {
        self.cases += 1;
        self.ranks.insert((name, ranks.0, ranks.1));
        self.layouts.insert((name, layouts.0, layouts.1));
    }

    fn report(&self, what: &str, operations: usize) {
        let layouts = Layout::ALL.len();
        assert_eq!(self.ranks.len(), operations * 25, "{what}: every operation with every pair of ranks");
        assert_eq!(self.layouts.len(), operations * layouts * layouts, "{what}: every pair of layouts");
        println!("{what}: {} cases, and {} refusals", self.cases, self.refused);
    }
}

/// The layouts to try for the `k`-th pair: all combinations; in a debug build every class on both sides, and, over the
/// pairs, every combination.
fn layouts_of(k: usize) -> impl Iterator<Item = (usize, usize)> {
    let n = Layout::ALL.len();
    let turns = if cfg!(debug_assertions) { 1 } else { n };
    (0..turns).flat_map(move |turn| (0..n).map(move |left| (left, (left + k + turn) % n)))
}

/// The element types of two operands, in turn.
fn types_of(k: usize) -> (DType, DType) {
    [(DType::F64, DType::F64), (DType::F32, DType::F32), (DType::F64, DType::F32), (DType::F32, DType::F64)]
        [k % 4]
}

fn name_layouts((left, right): (usize, usize)) -> String {
    format!("{:?} and {:?}", Layout::ALL[left], Layout::ALL[right])
}

#[test]
fn values_and_gradients_of_two_operands() {
    let world = World::get();
    let operations = operations();
    let mut coverage = Coverage::default();
    for (k, (i, j)) in world.pairs().into_iter().enumerate() {
        let (sa, sb) = (&world.shapes[i], &world.shapes[j]);
        let common = broadcast(sa, sb);
        for op in &operations {
            for (turn, layouts) in layouts_of(k).enumerate() {
                let types = types_of(k + turn);
                let (ta, a) = world.operand(0, op.fills[0], types.0, i, layouts.0);
                let (tb, b) = world.operand(1, op.fills[1], types.1, j, layouts.1);
                let what = || format!("{}({sa:?}, {sb:?}), {types:?}, {}", op.name, name_layouts(layouts));
                let common = match &common {
                    Ok(common) => common,
                    Err(axis) => {
                        // One layout is enough where nothing is read.
                        expect_refusal((op.tensor)(ta, tb), (sa, sb), *axis, &what);
                        let vars = [ta, tb].map(|t| Var::leaf(t.clone()).unwrap());
                        expect_refusal((op.var)(&vars[0], &vars[1]), (sa, sb), *axis, &what);
                        coverage.refused += 1;
                        break;
                    }
                };
                let dtype = result_type(ta, tb);
                let slack = slack(op, types.0.min(types.1));
                let expected = forward(op, common, a, b);
                let Some(gradient) = op.gradient else {
                    expected.check(&(op.tensor)(ta, tb).unwrap(), DType::Bool, 0.0, &what);
                    coverage.accept(op.name, (sa.len(), sb.len()), layouts);
                    continue;
                };
                // Both tracked, or one of them, in turn.
                let tracked = [(k + turn) % 5 != 3, (k + turn) % 5 != 4];
                let var = |t: &Tensor, on| if on { Var::leaf(t.clone()).unwrap() } else { Var::from(t) };
                let vars = [var(ta, tracked[0]), var(tb, tracked[1])];
                let y = (op.var)(&vars[0], &vars[1]).unwrap_or_else(|e| panic!("{}: {e}", what()));
                expected.check(&y.value(), dtype, slack, &what);
                let fill = if op.exact { Fill::Halves } else { Fill::Base };
                let (ts, seed) = world.operand(2, fill, dtype, world.number(common), (k + 2 * turn) % 7);
                y.backward_with(ts).unwrap_or_else(|e| panic!("{}: {e}", what()));
                let grads = backward(gradient, common, [seed, a, b]);
                for (side, (expected, t)) in grads.iter().zip([ta, tb]).enumerate() {
                    let what = || {
                        format!(
                            "gradient {side} of {}, seed {}",
                            what(),
                            name_layouts(((k + 2 * turn) % 7, 0))
                        )
                    };
                    match vars[side].grad() {
                        Some(g) if tracked[side] => expected.check(&g, t.dtype(), slack, &what),
                        found => assert!(found.is_none() && !tracked[side], "{}: {found:?}", what()),
                    }
                }
                coverage.accept(op.name, (sa.len(), sb.len()), layouts);
            }
        }
    }
    coverage.report("two operands", operations.len());
}

/// The same variable on both sides: both gradients come together in one leaf, the second folded onto the first.
#[test]
fn one_variable_on_both_sides() {
    let world = World::get();
    let mut cases = 0;
    for op in operations() {
        let Some(gradient) = op.gradient else { continue };
        let fill = if op.fills[0] == op.fills[1] { Fill::Halves } else { Fill::Base };
        // A base divided by itself needs a power of two to be exact.
        let fill = if op.name == "div" { Fill::Divisor } else { fill };
        for (k, shape) in world.shapes.iter().enumerate() {
            for layout in 0..Layout::ALL.len() {
                let dtype = FLOATS[(k + layout) % 2];
                let (t, a) = world.operand(0, fill, dtype, k, layout);
                let what = || format!("{}(x, x) of {shape:?}, {dtype}, {:?}", op.name, Layout::ALL[layout]);
                let x = Var::leaf(t.clone()).unwrap();
                let (ts, seed) = world.operand(2, Fill::Halves, dtype, k, (k + layout) % 7);
                (op.var)(&x, &x)
                    .and_then(|y| y.backward_with(ts))
                    .unwrap_or_else(|e| panic!("{}: {e}", what()));
                let [mut sum, right] = backward(gradient, shape, [seed, a, a]);
                for (at, term) in right.plain.values.iter().enumerate() {
                    sum.add(at, *term);
                }
                sum.check(&x.grad().unwrap(), dtype, slack(&op, dtype), &what);
                cases += 1;
            }
        }
    }
    println!("one variable on both sides: {cases} cases");
}

/// What `where` does with three operands: all triples of shapes of rank up to 1, and with each pair of branches some
/// conditions: of the branches' own shapes, of the common one, and of others in turn.
#[test]
fn a_choice_between_two_operands() {
    let world = World::get();
    let mut coverage = Coverage::default();
    let n = world.shapes.len();
    let small = 5;
    for (k, (i, j)) in world.pairs().into_iter().enumerate() {
        let (sa, sb) = (&world.shapes[i], &world.shapes[j]);
        let branches = broadcast(sa, sb);
        let mut conditions = vec![i, j, (k * 31) % n, (k * 57 + 11) % n, (k * 131 + 5) % n];
        if let Ok(common) = &branches {
            // The common shape, also without its first axis, and with an axis of size 1.
            conditions.push(world.number(common));
            conditions.push(world.number(common.get(1..).unwrap_or(&[])));
            let mut thin = common.clone();
            if let Some(size) = thin.get_mut(k % common.len().max(1)) {
                *size = 1;
            }
            conditions.push(world.number(&thin));
        }
        if i < small && j < small {
            conditions.extend(0..small);
        }
        for (turn, &c) in conditions.iter().enumerate() {
            let sc = &world.shapes[c];
            let k = k + turn;
            let types = types_of(k);
            let layouts = (k % 7, k / 7 % 7);
            let (tc, condition) = world.condition(c, k / 49 % 7);
            let (ta, a) = world.operand(0, Fill::Halves, types.0, i, layouts.0);
            let (tb, b) = world.operand(1, Fill::Halves, types.1, j, layouts.1);
            let what = || {
                let layouts = (Layout::ALL[k / 49 % 7], name_layouts(layouts));
                format!("where({sc:?}, {sa:?}, {sb:?}), {types:?}, {layouts:?}")
            };
            let vars = [ta, tb].map(|t| Var::leaf(t.clone()).unwrap());
            let y = Var::from(tc).where_cond(&vars[0], &vars[1]);
            // Three shapes fit exactly if the sizes of each axis fit, in whatever order they are looked at.
            let common = broadcast(sc, sa).and_then(|first| broadcast(&first, sb));
            let Ok(common) = common else {
                let refusal = y.expect_err(&what());
                assert!(
                    matches!(refusal.facts(), Some(TensorFacts::Broadcast { .. })),
                    "{}: {refusal}",
                    what()
                );
                assert!(tc.where_cond(ta, tb).is_err(), "{}", what());
                coverage.refused += 1;
                continue;
            };
            let y = y.unwrap_or_else(|e| panic!("{}: {e}", what()));
            let dtype = result_type(ta, tb);
            let (ts, seed) = world.operand(2, Fill::Halves, dtype, world.number(&common), (k / 3) % 7);
            y.backward_with(ts).unwrap_or_else(|e| panic!("{}: {e}", what()));
            let mut value = Expected::zero(&common);
            let mut grads = [Expected::zero(sa), Expected::zero(sb)];
            let mut at = 0;
            for_each_index(&common, |index| {
                let place = |p: &Plain| p.place(index, common.len());
                let taken = condition.values[place(condition)] != 0.0;
                value.add(at, if taken { a.values[place(a)] } else { b.values[place(b)] });
                grads[!taken as usize].add(place(if taken { a } else { b }), seed.values[at]);
                at += 1;
            });
            value.check(&y.value(), dtype, 0.0, &what);
            for ((expected, var), t) in grads.iter().zip(&vars).zip([ta, tb]) {
                expected.check(&var.grad().unwrap(), t.dtype(), 0.0, &|| format!("gradients of {}", what()));
            }
            coverage.accept("where", (sa.len(), sb.len()), layouts);
        }
    }
    coverage.report("where", 1);
}
