//! Every operation of two operands over all pairs of shapes of rank up to 4 with sizes 0, 1, 2 and 3, in every layout,
//! against plain index loops: results, both gradients, and what is refused.
//!
//! Note [Exact numbers]
//! Operands are small multiples of a half, divisors powers of two, seeds multiples of a half. So every result, every
//! term of a gradient and every sum of terms is a number that even `f32` holds, whatever the order of the additions,
//! and results are compared for equality. Only powers are rounded; their bound is derived where it is used.
//!
//! Debug builds take pairs at a fixed stride, release builds all of them.

use std::collections::HashSet;
use std::sync::OnceLock;

use foldback_graph::Var;
use foldback_tensor::{DType, Error, Tensor, TensorFacts, refused};
use tests::oracle::{Layout, Plain, Random, broadcast, count, expands, for_each_index, shapes};

/// Debug builds take every so-many-th pair of shapes; a prime, so that no size is favoured.
const STRIDE: usize = if cfg!(debug_assertions) { 31 } else { 1 };

/// The numbers an operand is filled with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fill {
    /// -2, -1.5, ..., 2: with zeros, and with ties between the operands
    Halves,
    /// plus or minus a power of two
    Divisor,
    /// 0.5, 1, ..., 3
    Base,
}

impl Fill {
    const ALL: [Fill; 3] = [Fill::Halves, Fill::Divisor, Fill::Base];

    fn next(self, random: &mut Random) -> f64 {
        match self {
            Fill::Halves => random.below(9) as f64 / 2.0 - 2.0,
            Fill::Divisor => [0.5, 1.0, 2.0, 4.0, -0.5, -1.0, -2.0, -4.0][random.below(8)],
            Fill::Base => (random.below(6) + 1) as f64 / 2.0,
        }
    }
}

const FLOATS: [DType; 2] = [DType::F32, DType::F64];

/// A tensor, and the numbers it was made of.
type Operand = (Tensor, Plain);

/// All shapes, and every operand that the cases are put together from.
struct World {
    shapes: Vec<Vec<usize>>,
    /// by side, fill, element type, shape and layout
    operands: Vec<Operand>,
    /// truth values, by shape and layout
    conditions: Vec<Operand>,
}

const SIDES: usize = 3;

impl World {
    fn get() -> &'static World {
        static WORLD: OnceLock<World> = OnceLock::new();
        WORLD.get_or_init(World::new)
    }

    fn new() -> World {
        let shapes = shapes(4, &[0, 1, 2, 3]);
        let mut random = Random(1);
        let mut operands = Vec::new();
        for _side in 0..SIDES {
            for fill in Fill::ALL {
                for dtype in FLOATS {
                    for shape in &shapes {
                        for layout in Layout::ALL {
                            let next = || fill.next(&mut random);
                            operands.push(layout.strided(shape).fill(dtype, f64::NAN, next));
                        }
                    }
                }
            }
        }
        let mut conditions = Vec::new();
        for shape in &shapes {
            for layout in Layout::ALL {
                conditions.push(layout.strided(shape).fill(DType::Bool, 1.0, || random.below(2) as f64));
            }
        }
        World { shapes, operands, conditions }
    }

    /// An operand: side 0 and 1 are left and right, side 2 are seeds.
    fn operand(&self, side: usize, fill: Fill, dtype: DType, shape: usize, layout: usize) -> &Operand {
        let kind = (side * Fill::ALL.len() + fill as usize) * FLOATS.len() + (dtype == DType::F64) as usize;
        &self.operands[(kind * self.shapes.len() + shape) * Layout::ALL.len() + layout]
    }

    fn condition(&self, shape: usize, layout: usize) -> &Operand {
        &self.conditions[shape * Layout::ALL.len() + layout]
    }

    /// The number of a shape. Shapes are listed by rank, and in a rank as numbers to the base 4.
    fn number(&self, shape: &[usize]) -> usize {
        let first = (4usize.pow(shape.len() as u32) - 1) / 3;
        let number = first + shape.iter().fold(0, |n, &size| 4 * n + size);
        debug_assert_eq!(self.shapes[number], shape);
        number
    }

    /// The pairs of shapes to go through: all, or, in a debug build, within each pair of ranks the first few and then
    /// those at the stride.
    fn pairs(&self) -> Vec<(usize, usize)> {
        let n = self.shapes.len();
        let mut seen = [[0usize; 5]; 5];
        let mut pairs = Vec::new();
        for (i, j) in (0..n * n).map(|k| (k / n, k % n)) {
            let seen = &mut seen[self.shapes[i].len()][self.shapes[j].len()];
            *seen += 1;
            if *seen <= 16 || seen.is_multiple_of(STRIDE) {
                pairs.push((i, j));
            }
        }
        pairs
    }
}

/// What a gradient `g` of the result adds to those of `a` and `b`.
type Gradient = fn(g: f64, a: f64, b: f64) -> [f64; 2];

/// An operation of two operands, and what the oracle knows of it.
struct Operation {
    name: &'static str,
    fills: [Fill; 2],
    value: fn(f64, f64) -> f64,
    /// none for operations with truth values
    gradient: Option<Gradient>,
    tensor: fn(&Tensor, &Tensor) -> foldback_tensor::Result<Tensor>,
    var: fn(&Var, &Var) -> foldback_graph::Result<Var>,
    /// whether everything is computed without rounding
    exact: bool,
}

/// The gradient of the larger one; equal ones share it by halves, as in PyTorch.
fn larger(g: f64, a: f64, b: f64) -> [f64; 2] {
    if a == b {
        [g / 2.0; 2]
    } else if a > b {
        [g, 0.0]
    } else {
        [0.0, g]
    }
}

const HALVES: [Fill; 2] = [Fill::Halves; 2];

macro_rules! operation {
    ($name:ident($($alpha:expr)?), $fills:expr, $exact:expr, |$a:ident, $b:ident| $value:expr, $gradient:expr) => {
        Operation {
            name: stringify!($name),
            fills: $fills,
            value: |$a, $b| $value,
            gradient: $gradient,
            tensor: |a, b| a.$name(b $(, $alpha)?),
            var: |a, b| a.$name(b $(, $alpha)?),
            exact: $exact,
        }
    };
}

fn operations() -> Vec<Operation> {
    vec![
        operation!(add(), HALVES, true, |a, b| a + b, Some(|g, _, _| [g, g])),
        operation!(sub(), HALVES, true, |a, b| a - b, Some(|g, _, _| [g, -g])),
        operation!(mul(), HALVES, true, |a, b| a * b, Some(|g, a, b| [g * b, g * a])),
        operation!(
            div(),
            [Fill::Halves, Fill::Divisor],
            true,
            |a, b| a / b,
            Some(|g, a, b| [g / b, -g * a / (b * b)])
        ),
        operation!(
            pow(),
            [Fill::Base, Fill::Halves],
            false,
            |a, b| a.powf(b),
            Some(|g, a, b| [g * b * a.powf(b - 1.0), g * a.powf(b) * a.ln()])
        ),
        operation!(maximum(), HALVES, true, |a, b| if a > b { a } else { b }, Some(larger)),
        operation!(
            minimum(),
            HALVES,
            true,
            |a, b| if a < b { a } else { b },
            Some(|g, a, b| larger(g, -a, -b))
        ),
        operation!(clamp_min(), HALVES, true, |a, b| if a < b { b } else { a }, Some(larger)),
        operation!(
            clamp_max(),
            HALVES,
            true,
            |a, b| if a > b { b } else { a },
            Some(|g, a, b| larger(g, -a, -b))
        ),
        operation!(add_with(0.5), HALVES, true, |a, b| a + 0.5 * b, Some(|g, _, _| [g, 0.5 * g])),
        operation!(sub_with(1.5), HALVES, true, |a, b| a - 1.5 * b, Some(|g, _, _| [g, -1.5 * g])),
        operation!(eq(), HALVES, true, |a, b| (a == b) as u8 as f64, None),
        operation!(ne(), HALVES, true, |a, b| (a != b) as u8 as f64, None),
        operation!(lt(), HALVES, true, |a, b| (a < b) as u8 as f64, None),
        operation!(le(), HALVES, true, |a, b| (a <= b) as u8 as f64, None),
        operation!(gt(), HALVES, true, |a, b| (a > b) as u8 as f64, None),
        operation!(ge(), HALVES, true, |a, b| (a >= b) as u8 as f64, None),
        operation!(logical_and(), HALVES, true, |a, b| (a != 0.0 && b != 0.0) as u8 as f64, None),
        operation!(logical_or(), HALVES, true, |a, b| (a != 0.0 || b != 0.0) as u8 as f64, None),
        operation!(logical_xor(), HALVES, true, |a, b| ((a != 0.0) != (b != 0.0)) as u8 as f64, None),
    ]
}

/// The type of a result: the wider of two, but an operand without axes does not widen one that has some.
fn result_type(a: &Tensor, b: &Tensor) -> DType {
    match (a.rank() == 0, b.rank() == 0) {
        (false, true) => a.dtype(),
        (true, false) => b.dtype(),
        _ => a.dtype().max(b.dtype()),
    }
}

/// A result by plain loops, and what rounding may cost it: `slack` units in the last place of its terms.
struct Expected {
    plain: Plain,
    /// the sum of the magnitudes of the terms, per element
    weight: Vec<f64>,
}

impl Expected {
    fn zero(shape: &[usize]) -> Expected {
        Expected { plain: Plain::full(shape, 0.0), weight: vec![0.0; count(shape)] }
    }

    fn add(&mut self, at: usize, term: f64) {
        self.plain.values[at] += term;
        self.weight[at] += term.abs();
    }

    fn check(&self, found: &Tensor, dtype: DType, slack: f64, what: &dyn Fn() -> String) {
        assert_eq!(found.dtype(), dtype, "{}", what());
        let found = Plain::of(found);
        assert_eq!(found.shape, self.plain.shape, "{}", what());
        let both = found.values.iter().zip(&self.plain.values).zip(&self.weight);
        let fits = both.clone().all(|((f, e), w)| f == e || (f - e).abs() <= slack * w);
        assert!(fits, "{}: {:?}, not {:?}", what(), found.values, self.plain.values);
    }
}

/// `value` over a pair that broadcasts.
fn forward(op: &Operation, common: &[usize], a: &Plain, b: &Plain) -> Expected {
    let mut y = Expected::zero(common);
    let mut at = 0;
    for_each_index(common, |i| {
        let rank = common.len();
        y.add(at, (op.value)(a.values[a.place(i, rank)], b.values[b.place(i, rank)]));
        at += 1;
    });
    y
}

/// Both gradients, each added up in the shape of its operand.
fn backward(gradient: Gradient, common: &[usize], [seed, a, b]: [&Plain; 3]) -> [Expected; 2] {
    let mut grads = [Expected::zero(&a.shape), Expected::zero(&b.shape)];
    let mut at = 0;
    for_each_index(common, |i| {
        let (pa, pb) = (a.place(i, common.len()), b.place(i, common.len()));
        let [ga, gb] = gradient(seed.values[at], a.values[pa], b.values[pb]);
        grads[0].add(pa, ga);
        grads[1].add(pb, gb);
        at += 1;
    });
    grads
}

/// What rounding may cost a power or its gradients, in terms of the magnitudes of the terms.
///
/// With the unit roundoff u, `pow` is documented with 1.5 ulp, at most 3u, and `ln` with 0.9 ulp, at most 1.8u. The
/// longest formula, `g * (y * ln a)`, has both and two products more: 6.8u. Up to 81 terms, that is 80 additions, are
/// added up in less than 80u. The oracle's own functions are off by less than 4u of a double. Together under 91u.
fn slack(op: &Operation, dtype: DType) -> f64 {
    let unit = if dtype == DType::F32 { f32::EPSILON as f64 } else { f64::EPSILON } / 2.0;
    if op.exact { 0.0 } else { 91.0 * unit }
}

/// A refusal must name the operands' shapes, and the axis on which they disagree.
fn expect_refusal<T: std::fmt::Debug>(
    result: Result<T, Error>,
    (sa, sb): (&[usize], &[usize]),
    axis: usize,
    what: &dyn Fn() -> String,
) {
    let error = result.expect_err("a refusal");
    match error.facts() {
        Some(TensorFacts::Broadcast { a, b, dim, .. }) => {
            assert_eq!((&a[..], &b[..], *dim), (sa, sb, axis), "{}", what())
        }
        _ => panic!("{}: {error} instead of a refusal", what()),
    }
}

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
