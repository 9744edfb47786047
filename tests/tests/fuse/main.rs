//! `fuse!` beside the same expression in plain operators: values and gradients over shapes, layouts, types, tracked
//! subsets, repeated operands and reductions; differences at first and second order; what is saved; errors; threads.

mod bits;
mod few;
mod parts;
mod saved_results;
mod waiting;

use foldback::gradcheck::testing::{Layout, Random, fill};
use foldback::gradcheck::{Check, gradcheck, gradgradcheck};
use foldback::graph::{Domain, Fused, Grad, GraphFacts, Operands, Result, grad, grad_with};
use foldback::prelude::*;
use foldback::tensor::kernel::{FloatOps, Formula, Real};
use foldback::tensor::{Axes, Over, Shape};

/// Shapes of three operands that broadcast.
const SHAPES: &[[&[usize]; 3]] = &[
    [&[2, 3], &[2, 3], &[2, 3]],
    [&[4, 5], &[5], &[4, 1]],
    [&[5, 1], &[1, 70], &[]],
    [&[3, 1, 4], &[2, 1], &[1, 1, 1]],
    [&[], &[], &[]],
    [&[1], &[], &[1, 1]],
    [&[0, 3], &[3], &[1, 1]],
    [&[2, 0], &[1, 1], &[2, 1]],
    [&[40, 130], &[130], &[40, 130]],
];

type Plain = fn(&Var, &Var, &Var) -> Result<Var>;

/// An operation of three operands, fused and plain.
trait Both {
    fn fused(&self, x: [&Var; 3], reduce: Option<(&Axes, bool, bool)>) -> Result<Var>;
    fn plain(&self, x: [&Var; 3]) -> Result<Var>;
}

impl<F: Formula<3> + 'static> Both for (Fused<F, 3>, Plain) {
    fn fused(&self, x: [&Var; 3], reduce: Option<(&Axes, bool, bool)>) -> Result<Var> {
        match reduce {
            None => self.0.call(x),
            Some((axes, keepdim, false)) => self.0.sum(x, Over::from(axes).with_keepdim(keepdim)),
            Some((axes, keepdim, true)) => self.0.mean(x, Over::from(axes).with_keepdim(keepdim)),
        }
    }
    fn plain(&self, [x, y, z]: [&Var; 3]) -> Result<Var> {
        (self.1)(x, y, z)
    }
}

fn reduced(y: Var, reduce: Option<(&Axes, bool, bool)>) -> Result<Var> {
    match reduce {
        None => Ok(y),
        Some((axes, keepdim, false)) => y.sum(Over::from(axes).with_keepdim(keepdim)),
        Some((axes, keepdim, true)) => y.mean(Over::from(axes).with_keepdim(keepdim)),
    }
}

fn operations() -> Vec<(&'static str, Box<dyn Both>)> {
    let square: Plain = |x, w, b| Ok(x.mul(w)?.add(b)?.square());
    let normal: Plain = |x, m, s| x.sub(m)?.mul(s.abs().add(0.5)?.rsqrt());
    let chosen: Plain = |x, y, z| x.gt(y)?.where_cond(&x.mul(z)?, y.sigmoid());
    let linear: Plain = |x, y, z| x.sub(y)?.rsub(1.0)?.add(&z.mul(3.0)?);
    vec![
        ("square", Box::new((fuse!(|x, w, b| (x * w + b).square()), square))),
        ("normal", Box::new((fuse!(|x, m, s| (x - m) * (s.abs() + 0.5).rsqrt()), normal))),
        ("chosen", Box::new((fuse!(|x, y, z| R::select(x.gt(y), x * z, y.sigmoid())), chosen))),
        ("linear", Box::new((fuse!(|x, y, z| 1.0 - (x - y) + z * 3.0), linear))),
    ]
}

fn leaves(values: &[Tensor], tracked: usize) -> Vec<Var> {
    let var = |(k, t): (usize, &Tensor)| {
        if tracked & (1 << k) != 0 { t.clone().requires_grad() } else { Var::from(t.clone()) }
    };
    values.iter().enumerate().map(var).collect()
}

fn close(a: &Tensor, b: &Tensor, rtol: f64) -> bool {
    let numbers = |t: &Tensor| t.to(DType::F64).to_vec::<f64>().expect("cast to it");
    a.shape() == b.shape()
        && a.dtype() == b.dtype()
        && numbers(a).iter().zip(numbers(b)).all(|(&a, b)| {
            a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= rtol * (1.0 + a.abs().max(b.abs()))
        })
}

/// Compares value and gradients; returns how many gradients there were.
fn compare(
    label: &str,
    op: &dyn Both,
    values: &[Tensor],
    tracked: usize,
    reduce: Option<(&Axes, bool, bool)>,
) -> usize {
    let rtol = if values.iter().any(|v| v.dtype() == DType::F32) { 3e-5 } else { 1e-12 };
    let (ours, theirs) = (leaves(values, tracked), leaves(values, tracked));
    let y = op.fused([&ours[0], &ours[1], &ours[2]], reduce).unwrap_or_else(|e| panic!("{label}: {e}"));
    let plain = op.plain([&theirs[0], &theirs[1], &theirs[2]]).expect("the plain one runs");
    let plain = reduced(plain, reduce).expect("the axes exist");
    assert!(close(&y.value(), &plain.value(), rtol), "{label}: {} and {}", y.value(), plain.value());
    assert_eq!(y.requires_grad(), tracked != 0, "{label}");
    if tracked == 0 {
        return 0;
    }
    let seed = fill(y.shape(), Domain::Any, &mut Random::new(9)).to(y.dtype());
    y.backward_with(&seed).unwrap_or_else(|e| panic!("{label}: {e}"));
    plain.backward_with(&seed).expect("the plain one has gradients");
    let mut compared = 0;
    for (k, (a, b)) in ours.iter().zip(&theirs).enumerate() {
        match (a.grad(), b.grad()) {
            (None, None) => continue,
            (Some(a), Some(b)) => assert!(close(&a, &b, rtol), "{label}: gradient {k}: {a} and {b}"),
            (a, b) => panic!("{label}: gradient {k}: {a:?} and {b:?}"),
        }
        compared += 1;
    }
    compared
}

#[test]
fn values_and_gradients_are_those_of_plain_operators() {
    use DType::{F32, F64};
    let types = [[F64; 3], [F32; 3], [F32, F64, F32], [F64, F32, F32]];
    let mut compared = 0;
    for (name, op) in operations() {
        for shapes in SHAPES {
            for types in types {
                let mut random = Random::new(4);
                let fill = |k: usize, random: &mut Random| fill(shapes[k], Domain::Any, random).to(types[k]);
                let values: Vec<Tensor> = (0..3).map(|k| fill(k, &mut random)).collect();
                for tracked in 0..8 {
                    let label = format!("{name} {shapes:?} {types:?} tracked {tracked:03b}");
                    compared += compare(&label, &*op, &values, tracked, None);
                }
            }
        }
    }
    println!("{compared} gradients");
}

#[test]
fn layouts_make_no_difference() {
    let mut compared = 0;
    for (name, op) in operations() {
        for shapes in SHAPES {
            for layout in Layout::ALL {
                let mut random = Random::new(7);
                let values: Vec<Tensor> = (0..3).map(|k| fill(shapes[k], Domain::Any, &mut random)).collect();
                let laid: Vec<Tensor> =
                    values.iter().map(|t| layout.apply(t).unwrap_or_else(|| t.clone())).collect();
                compared += compare(&format!("{name} {shapes:?} {layout:?}"), &*op, &laid, 7, None);
            }
        }
    }
    println!("{compared} gradients");
}

#[test]
fn reductions_are_those_of_the_unreduced_result() {
    let mut compared = 0;
    for (name, op) in operations() {
        for shapes in SHAPES {
            let mut random = Random::new(8);
            let values: Vec<Tensor> = (0..3).map(|k| fill(shapes[k], Domain::Any, &mut random)).collect();
            let rank = shapes.iter().map(|s| s.len()).max().expect("three shapes");
            let mut choices = vec![Axes::All, Axes::List(Default::default())];
            choices.extend((0..rank).map(Axes::from));
            if rank > 1 {
                choices.push([-1, 0].into());
            }
            for axes in &choices {
                for (keepdim, mean) in [(false, false), (true, false), (false, true), (true, true)] {
                    for tracked in [7, 5, 2] {
                        let label = format!("{name} {shapes:?} {axes:?} {keepdim} {mean} {tracked:03b}");
                        compared += compare(&label, &*op, &values, tracked, Some((axes, keepdim, mean)));
                    }
                }
            }
        }
    }
    println!("{compared} gradients");
}

#[test]
fn one_variable_may_stand_in_several_places() {
    let x = tensor![1.5, -2.0, 0.25; f64].requires_grad();
    let y = fuse!(|a, b, c| a * b + c.square()).call([&x, &x, &x]).unwrap();
    y.sum(..).unwrap().backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![6.0, -8.0, 1.0; f64]));
}

#[test]
fn differences_agree_at_first_and_second_order() {
    let random = &mut Random::new(11);
    let mut inputs = |shapes: [&[usize]; 3]| shapes.map(|s| fill(s, Domain::NonZero, random));
    let eps = 0.5;
    for shapes in [[&[2, 3][..], &[3], &[2, 1]], [&[2, 1, 2], &[3, 1], &[]], [&[], &[], &[]]] {
        let values = inputs(shapes);
        let f = fuse!(|x, w, b| (x * w + b).tanh() / (w.square() + 1.0));
        gradcheck(|x| f.call([&x[0], &x[1], &x[2]]), &values).unwrap();
        gradgradcheck(|x| f.call([&x[0], &x[1], &x[2]]), &values).unwrap();
        gradgradcheck(|x| f.sum([&x[0], &x[1], &x[2]], ..), &values).unwrap();
        gradgradcheck(|x| f.mean([&x[0], &x[1], &x[2]], keep(Axes::List(Default::default()))), &values)
            .unwrap();
        if !shapes[0].is_empty() {
            gradgradcheck(|x| f.sum([&x[0], &x[1], &x[2]], 0), &values).unwrap();
            gradgradcheck(|x| f.mean([&x[0], &x[1], &x[2]], keep(-1)), &values).unwrap();
        }
        let g = fuse!(|x, v, m; eps| (x - m) * (v.square() + eps).rsqrt() * x.sigmoid() + v.exp() * m.pow_number(3.0));
        gradgradcheck(|x| g.call([&x[0], &x[1], &x[2]]), &values).unwrap();
        Check::new()
            .tracked(&[false, true, false])
            .gradgradcheck(|x| g.call([&x[0], &x[1], &x[2]]), &values)
            .unwrap();
    }
}

/// A third derivative: recorded duals of what was recorded before.
#[test]
fn derivatives_of_any_order() {
    let x = tensor![0.3, -1.2; f64].requires_grad();
    let mut y = fuse!(|x| x.sin() * x).call([&x]).unwrap();
    for _ in 0..3 {
        let sum = y.sum(..).unwrap();
        y = grad_with(&sum, &x, Backward::new().create_graph(true)).unwrap();
    }
    // (x sin x)''' = -3 sin x - x cos x
    let expected = (x.sin() * -3.0 - &x * x.cos()).value();
    assert_close!(y.value(), expected, rtol = 1e-14, atol = 1e-14);
}

/// A gradient without the graph and one with it are of the same formula.
#[test]
fn recorded_gradients_have_the_same_values() {
    for (name, op) in operations() {
        for shapes in SHAPES {
            let mut random = Random::new(5);
            let values: Vec<Tensor> = (0..3).map(|k| fill(shapes[k], Domain::Any, &mut random)).collect();
            let vars = leaves(&values, 7);
            let y = op.fused([&vars[0], &vars[1], &vars[2]], None).unwrap().sum(..).unwrap();
            let inputs: Vec<&Var> = vars.iter().collect();
            let recorded = Grad::new([&y], &inputs).create_graph(true).run().unwrap();
            for (k, (a, b)) in recorded.iter().zip(grad(&y, &inputs).unwrap()).enumerate() {
                let (a, b) = (a.as_ref().expect("tracked").value(), b.value());
                assert!(close(&a, &b, 1e-12), "{name} {shapes:?}: gradient {k}: {a} and {b}");
            }
        }
    }
}

/// What a gradient does not read is not kept; a second pass is refused only where something was.
#[test]
fn only_what_the_gradients_read_is_saved() {
    let pass_twice = |y: Var| {
        let y = y.sum(..).unwrap();
        y.backward().unwrap();
        y.backward()
    };
    let [x, w] = [1.0, 2.0].map(|v| tensor![v, v].requires_grad());
    let constant = tensor![3.0, 4.0];
    pass_twice(fuse!(|x, w| x - 2.0 * w).call([&x, &w]).unwrap()).unwrap();
    pass_twice(fuse!(|x, c| x + c.exp()).call((&x, &constant)).unwrap()).unwrap();
    let freed = pass_twice(fuse!(|x, c| x * c * c * c * c).call((&x, &constant)).unwrap()).unwrap_err();
    assert!(matches!(freed.facts(), Some(GraphFacts::Freed { .. })), "{freed}");
    assert!(freed.to_string().contains(concat!("fuse (", file!(), ":")), "{freed}");
}

#[test]
fn an_operand_without_influence_has_no_gradient() {
    let (x, y) = (tensor![1.0, 2.0].requires_grad(), tensor![1.0, 2.0].requires_grad());
    let z = fuse!(|x, y| {
        let _ = y;
        x * 2.0
    })
    .call([&x, &y])
    .unwrap();
    z.sum(..).unwrap().backward().unwrap();
    assert_eq!((x.grad(), y.grad()), (Some(tensor![2.0, 2.0]), None));
}

#[test]
fn numbers_and_integers_take_the_type_of_the_others() {
    let f = fuse!(|x, y| x * y);
    let (x, i) = (tensor![1.0, 2.0; f64], tensor![2, 3; i64]);
    assert_eq!(f.call((&x, 0.5f32)).unwrap().value(), tensor![0.5, 1.0; f64]);
    assert_eq!(f.call((&i, 0.5)).unwrap().value(), tensor![1.0, 1.5]);
    assert_eq!(f.call((&i, &x.gt(1.0).unwrap())).unwrap().value(), tensor![0.0, 3.0]);
    assert_eq!(f.call([2.0, 3.0]).unwrap().value(), Tensor::scalar(6.0f32));
    // A 0-d tensor does not widen one with axes.
    let scale = Tensor::from(0.5f64).requires_grad();
    let y = f.sum((&tensor![1.0, 2.0], &scale), ..).unwrap();
    assert_eq!(y.dtype(), DType::F32);
    y.backward().unwrap();
    assert_eq!(scale.grad(), Some(Tensor::from(3.0f64)));
    assert_eq!(f.call((&i, &scale)).unwrap().dtype(), DType::F64);
    let w = tensor![1.0, 2.0].requires_grad();
    f.sum((&w, &x), ..).unwrap().backward().unwrap();
    assert_eq!(w.grad(), Some(tensor![1.0, 2.0]));
}

/// A helper that a formula calls.
fn mish<R: Real>(x: R) -> R
where
    f64: FloatOps<R>,
{
    x * x.exp().log1p().tanh()
}

/// Seven operands, captured numbers, blocks, functions; and a copy of the operation is the operation.
#[test]
fn formulas_may_be_long() {
    fn sum_of<F: Formula<7> + 'static>(f: Fused<F, 7>, x: impl Operands<7>) -> Var {
        f.sum(x, ..).unwrap()
    }
    let (p, q) = (2.0, 0.5f32);
    let f = fuse!(|a, b, c, d, e, x, y; p, q| {
        let first = a * b + c * p;
        let second = mish(d - e) * q;
        first.maximum(second) + 0.1 * x.abs() - y
    });
    let x: Vec<Var> = (0..7).map(|k| tensor![0.3 * k as f64, 1.0; f64].requires_grad()).collect();
    let operands = || [&x[0], &x[1], &x[2], &x[3], &x[4], &x[5], &x[6]];
    sum_of(f, operands()).backward().unwrap();
    let y = f.call(operands()).unwrap();
    assert_eq!(y.shape(), Shape::from([2]));
    assert_eq!(x[6].grad(), Some(tensor![-1.0, -1.0; f64]));
    assert_eq!(x[2].grad(), Some(tensor![2.0, 2.0; f64]));
    assert_eq!(x[3].grad(), Some(tensor![0.0, 0.0; f64]));
}

#[test]
fn errors_name_the_formula_and_the_call() {
    let f = fuse!(|x, y| x / y);
    let line = line!() - 1;
    let (x, y) = (tensor![[1.0, 2.0]].requires_grad(), tensor![1.0, 2.0, 3.0]);
    for e in [f.call((&x, &y)), f.sum((&x, &y), ..), f.mean((&x, &y), keep(0))] {
        let text = e.unwrap_err().to_string();
        let start = format!("fuse ({}:{line}): cannot broadcast [1, 2] with [3]", file!());
        assert!(text.starts_with(&start), "{text}");
    }
    assert!(f.sum((&x, 2.0), 2).unwrap_err().to_string().starts_with(concat!("fuse (", file!())));
    assert!(f.mean((&x, 2.0), [0, 0]).is_err());
    // The node belongs to the line of the call.
    let y = f.call((&x, 2.0)).unwrap();
    let here = format!("{}:{}:", file!(), line!() - 1);
    y.backward_with(&tensor![[1.0, 1.0]]).unwrap();
    let e = y.backward_with(&tensor![[1.0, 1.0]]).unwrap_err().to_string();
    assert!(e.contains(&here), "{e}");
}

#[test]
fn nothing_is_recorded_where_nothing_is_tracked() {
    let f = fuse!(|x, y| x * y);
    let x = tensor![1.0].requires_grad();
    assert!(!f.call((&tensor![1.0], 2.0)).unwrap().requires_grad());
    assert!(!no_grad(|| f.call([&x, &x])).unwrap().requires_grad());
    assert!(!f.sum([&x.detach(), &x.detach()], ..).unwrap().requires_grad());
}

/// A sum begins with 0, also that of one element: 0 + -0 is 0.
#[test]
fn sums_of_one_negative_zero_are_those_of_operators() -> Result<()> {
    let x = Var::from(tensor![[-0.0], [-0.0]]);
    let same = fuse!(|x| x * 1.0);
    for (fused, plain) in [
        (same.sum([&x], 1)?, x.mul(1.0)?.sum(1)?),
        (same.mean([&x], keep(1))?, x.mul(1.0)?.mean(keep(1))?),
        (same.sum([&x], ..)?, x.mul(1.0)?.sum(..)?),
    ] {
        let signs =
            |v: &Var| v.value().to_vec::<f32>().map(|v| v.iter().map(|e| e.to_bits()).collect::<Vec<_>>());
        assert_eq!(signs(&fused)?, signs(&plain)?);
    }
    Ok(())
}
