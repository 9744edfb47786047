//! Functions of few elements, which are recorded by themselves, and gradients that are made alike, which are computed once.

use foldback::tensor::{BroadcastWarning, broadcast_warning};

use super::*;

type Of<'f> = &'f dyn Fn([&Var; 3]) -> Var;
type OfTwo<'f> = &'f dyn Fn(&Var, &Var) -> Var;

/// Weights of the result's elements, or none: the incoming gradient is one number then.
fn gradients(of: Of<'_>, values: &[Tensor], tracked: usize, weights: Option<&Tensor>) -> Vec<Option<Tensor>> {
    let x = leaves(values, tracked);
    let y = of([&x[0], &x[1], &x[2]]);
    let y = weights.map_or(y.clone(), |weights| y.mul(weights).unwrap());
    let y = y.sum(..).unwrap();
    // Nothing is tracked that is read.
    if y.requires_grad() {
        y.backward().unwrap();
    }
    x.iter().map(Var::grad).collect()
}

/// Values and gradients of fused formulas are those of operators, whatever is tracked.
fn check(fused: Of<'_>, plain: Of<'_>, shapes: [&[usize]; 3], dtype: DType, what: &str) {
    let values: Vec<Tensor> = shapes
        .iter()
        .enumerate()
        .map(|(i, &s)| fill(s, Domain::Positive, &mut Random::new(i as u64)).to(dtype))
        .collect();
    let bound = if dtype == DType::F64 { 1e-11 } else { 2e-4 };
    let leaves = leaves(&values, 7);
    let [a, b] = [fused, plain].map(|of| of([&leaves[0], &leaves[1], &leaves[2]]).value());
    assert!(close(&a, &b, bound), "{what} of {shapes:?}: the value");
    let dense = fill(a.dims(), Domain::Any, &mut Random::new(9)).to(dtype);
    for weights in [None, Some(&dense)] {
        for tracked in [7, 1, 2, 4, 3, 6] {
            let [found, want] = [fused, plain].map(|of| gradients(of, &values, tracked, weights));
            for (i, (found, want)) in found.iter().zip(&want).enumerate() {
                match (found, want) {
                    (Some(found), Some(want)) => {
                        assert_eq!((found.shape(), found.dtype()), (want.shape(), want.dtype()));
                        assert!(
                            close(found, want, bound),
                            "{what} of {shapes:?}: input {i}, {tracked} tracked"
                        );
                    }
                    _ => assert_eq!(found.is_some(), want.is_some(), "{what}: input {i}, {tracked} tracked"),
                }
            }
        }
    }
}

macro_rules! pairs {
    ($shapes:expr, $dtype:expr; $(|$($x:ident),+| $formula:expr => $plain:expr;)+) => {$(
        let f = fuse!(|$($x),+| $formula);
        let plain = |[$($x),+]: [&Var; 3]| -> Result<Var> { $plain };
        check(&|x| f.call(x).unwrap(), &|x| plain(x).unwrap(), $shapes, $dtype, stringify!($formula));
    )+};
}

#[test]
fn functions_of_few_elements_are_those_of_operators() {
    let shapes: [[&[usize]; 3]; 6] = [
        [&[70, 90], &[90], &[70, 1]],
        [&[20, 11, 30], &[11, 1], &[30]],
        [&[20, 11, 30], &[1], &[]],
        [&[90], &[70, 90], &[70, 1]],
        [&[80, 1], &[1, 80], &[1]],
        // Not few, or of few.
        [&[40, 90], &[90], &[40, 1]],
    ];
    for (shapes, dtype) in shapes.into_iter().flat_map(|s| [DType::F32, DType::F64].map(|dtype| (s, dtype))) {
        pairs! { shapes, dtype;
            |x, w, b| x * w.exp() + b => x.mul(w.exp()).and_then(|y| y.add(b));
            |x, w, b| (x - b) * (w * w + 0.5).rsqrt() => x.sub(b).and_then(|y| y.mul(w.square().add(0.5)?.rsqrt()));
            |x, w, b| x / (w + b).tanh() => x.div(w.add(b)?.tanh());
            |x, w, b| x * b - w.sin() => x.mul(b).and_then(|y| y.sub(w.sin()));
            |x, w, b| x * w.gelu().square() * b => x.mul(w.gelu().square()).and_then(|y| y.mul(b));
            |x, w, b| (x + w.abs().pow(b)).square() => x.add(w.abs().pow(b)?).map(|y| y.square());
            |x, w, b| { let w = w * 2.0; w.ln() * x + b } => w.mul(2.0)?.ln().mul(x).and_then(|y| y.add(b));
            // Several of operands of their own, in any order, and one within another.
            |x, w, b| x.sigmoid() * (w + b).tanh() => x.sigmoid().mul(w.add(b)?.tanh());
            |x, w, b| x * w.exp() + b.sin() => x.mul(w.exp())?.add(b.sin());
            |x, w, b| b.exp() - w.tanh() * x.sqrt() => b.exp().sub(w.tanh().mul(x.sqrt())?);
            |x, w, b| (x - R::tanh(b + R::exp(w))).square() => x.sub(b.add(w.exp())?.tanh()).map(|y| y.square());
            |x, w, b| x.cos() / w.exp().pow(b.tanh()) => x.cos().div(w.exp().pow(b.tanh())?);
            |x, w, b| (x.ln() + w).sin() * b.exp() => x.ln().add(w)?.sin().mul(b.exp());
        }
    }
}

/// A function of a large operand beside others that repeat is an operation of its own, too.
#[test]
fn functions_of_large_operands_are_those_of_operators() {
    let shapes: [[&[usize]; 3]; 3] =
        [[&[400, 90], &[90], &[400, 1]], [&[100, 11, 31], &[11, 1], &[31]], [&[80, 500], &[80, 500], &[1]]];
    for (shapes, dtype) in shapes.into_iter().flat_map(|s| [DType::F32, DType::F64].map(|dtype| (s, dtype))) {
        pairs! { shapes, dtype;
            |x, w, b| x.tanh() * w + b => x.tanh().mul(w).and_then(|y| y.add(b));
            |x, w, b| (x.sin() - w) * b => x.sin().sub(w).and_then(|y| y.mul(b));
        }
    }
}

/// The derivatives of higher order, too.
#[test]
fn differences_of_functions_of_few_elements() {
    let x = fill(&[1100, 4][..], Domain::Any, &mut Random::new(3));
    let w = fill(&[4][..], Domain::Positive, &mut Random::new(4));
    let f = fuse!(|x, w| (x * w.ln() + 0.5).square());
    gradcheck(|[w]| f.mean((&x, w), ..), [&w]).unwrap();
    gradgradcheck(|[w]| f.mean((&x, w), ..), [&w]).unwrap();
    let tangents = |w: &Var| f.mean((&x, w), 0);
    let by_rows = foldback::graph::jacobian(tangents, &w).unwrap().value();
    let plain = |w: &Var| Var::from(&x).mul(w.ln())?.add(0.5)?.square().mean(0);
    assert!(close(&by_rows, &foldback::graph::jacobian(plain, &w).unwrap().value(), 1e-11));
    let gate = fuse!(|x, w, b| x.sigmoid() * (w.exp() + b).tanh());
    let b = fill(&[1][..], Domain::Any, &mut Random::new(5));
    for rows in [100, 1100] {
        let x = fill(&[rows, 4][..], Domain::Any, &mut Random::new(3));
        gradcheck(|[w, b]| gate.mean((&x, w, b), ..), [&w, &b]).unwrap();
        gradgradcheck(|[w, b]| gate.mean((&x, w, b), ..), [&w, &b]).unwrap();
    }
}

/// The function is an operator's node, that belongs to the line of the fused operation.
#[test]
fn a_function_of_few_elements_has_a_node_of_its_own() {
    let x = Tensor::ones([200, 50]).requires_grad();
    let w = Tensor::ones([50]).requires_grad();
    let f = fuse!(|x, w| (x * w.exp()).square() + 1.0).named("rest");
    let (line, y) = (line!(), f.call((&x, &w)).unwrap());
    let graph = y.graph().unwrap().to_string();
    assert!(graph.contains("exp") && graph.contains("rest"), "{graph}");
    assert_eq!(graph.matches(&format!("parts.rs:{line}")).count(), 2, "{graph}");
    let few = f.call((&x.narrow(0, 0, 9).unwrap(), &w)).unwrap().graph().unwrap().to_string();
    assert!(!few.contains("exp"), "{few}");
}

/// An operation of what functions of operands of their own give has the nodes of operators, where some operands repeat: of fewer elements, if it is not summed.
#[test]
fn an_operation_of_functions_has_the_nodes_of_operators() {
    let gate = fuse!(|x, w, b| x.sigmoid() * (w + b).tanh()).named("gate");
    let w = Tensor::ones([50]).requires_grad();
    for (rows, called, summed) in
        [(4, true, true), (200, true, true), (1000, false, true), (12_000, false, false)]
    {
        let x = Tensor::ones([rows, 50]).requires_grad();
        let line = line!() + 1;
        let both = [gate.call((&x, &w, 0.5)), gate.mean((&x, &w, 0.5), ..)];
        for ((y, by_operators), nodes) in both.into_iter().zip([called, summed]).zip([4, 5]) {
            let graph = y.unwrap().graph().unwrap().to_string();
            for name in ["sigmoid", "add", "tanh", "mul"] {
                assert_eq!(graph.matches(&format!(" {name} -> ")).count(), by_operators as usize, "{graph}");
            }
            assert_eq!(graph.contains("gate"), !by_operators, "{graph}");
            let nodes = if by_operators { nodes } else { 1 };
            assert_eq!(graph.matches(&format!("parts.rs:{line}")).count(), nodes, "{graph}");
        }
    }
    // Of equal shapes, of operands that are read by two functions or beside one, and of more operations it is one node.
    let x = Tensor::ones([20, 50]).requires_grad();
    let graph_of = |y: Result<Var>| y.unwrap().graph().unwrap().to_string();
    for graph in [
        graph_of(gate.call((&x, &x, &x))),
        graph_of(fuse!(|x, w| (x + w).tanh() * w.exp()).named("gate").call((&x, &w))),
        graph_of(fuse!(|x, w, b| x.tanh() * (w.exp() + b * x).sin()).named("gate").call((&x, &w, 0.5))),
        graph_of(fuse!(|x, w| x.tanh() * w.exp() + 1.0).named("gate").call((&x, &w))),
        graph_of(fuse!(|x, w, b| x.sigmoid() * w.tanh() * b).named("gate").call((&x, &w, 0.5))),
    ] {
        assert!(graph.contains("gate"), "{graph}");
    }
}

#[test]
fn an_operation_of_columns_is_that_of_operators() {
    let shapes: [[&[usize]; 3]; 6] = [
        [&[70, 190], &[70, 1], &[190]],
        [&[70, 1], &[90], &[70, 1]],
        [&[5, 30, 80], &[30, 1], &[5, 1, 1]],
        [&[64, 1], &[1, 64], &[1]],
        // What is not read may be larger than the rest.
        [&[90], &[90, 1], &[2, 1, 1]],
        // Of few elements, and of many.
        [&[7, 9], &[7, 1], &[9]],
    ];
    for (shapes, dtype) in shapes.into_iter().flat_map(|s| [DType::F32, DType::F64].map(|dtype| (s, dtype))) {
        let all = |y: Var, b: &Var| y.add(b.zeros_like()).unwrap();
        pairs! { shapes, dtype;
            |x, w, _b| x * w => x.mul(w).map(|y| all(y, _b));
            |x, w, _b| w / x => w.div(x).map(|y| all(y, _b));
            |x, w, _b| x.maximum(w) => x.maximum(w).map(|y| all(y, _b));
            |x, _w, _b| x + 2.0 => x.add(2.0).map(|y| all(all(y, _w), _b));
            |x, w, b| x - (w + b).exp() => x.sub(w.add(b)?.exp());
            |x, w, b| (x - w) * b => x.sub(w)?.mul(b);
            |x, w, _b| (x + w).tanh() => x.add(w).map(|y| all(y.tanh(), _b));
            |x, w, _b| w.sin() - x => w.sin().sub(x).map(|y| all(y, _b));
            |x, w, b| x.sigmoid() * (w + b).tanh() => x.sigmoid().mul(w.add(b)?.tanh());
            |x, w, b| x / (w.abs() + b.square() + 1.0) => x.div(w.abs().add(b.square())?.add(1.0)?);
        }
    }
}

/// Where all others are of few elements, an expression of one operation of many has the nodes of operators: of many more, if it is not summed.
#[test]
fn one_operation_of_many_elements_has_the_nodes_of_operators() {
    let quotient = fuse!(|x, w, b| x / (w.abs() * b + 1.0)).named("quotient");
    let row = Tensor::ones([50]).requires_grad();
    for (rows, b, called, summed) in [
        (200, &[50][..], true, true),
        (200, &[], true, true),
        (70, &[50], false, false),
        // Together they are as large as the result.
        (200, &[200, 1], false, false),
        (4200, &[50], true, true),
        (21_000, &[50], true, false),
    ] {
        let (x, b) = (Tensor::ones([rows, 50]).requires_grad(), Tensor::ones(b));
        for (y, by_operators) in
            [(quotient.call((&x, &row, &b)), called), (quotient.sum((&x, &row, &b), 0), summed)]
        {
            let graph = y.unwrap().graph().unwrap().to_string();
            assert_eq!(graph.contains("quotient"), !by_operators, "{rows} rows: {graph}");
            assert_eq!(graph.contains("div") && graph.contains("abs"), by_operators, "{graph}");
        }
    }
}

/// The operator's node belongs to the line of the fused operation, and errors are those of the formula.
#[test]
fn an_operation_of_columns_is_an_operators_node() {
    let x = Tensor::ones([100, 50]).requires_grad();
    let w = Tensor::full([100, 1], 2.0).requires_grad();
    let f = fuse!(|x, w| x * w).named("scaled");
    let (line, y) = (line!(), f.mean((&x, &w), -1).unwrap());
    let graph = y.graph().unwrap().to_string();
    assert!(graph.contains("mul") && graph.contains("mean") && !graph.contains("scaled"), "{graph}");
    assert_eq!(graph.matches(&format!("parts.rs:{line}")).count(), 2, "{graph}");
    assert_eq!(y.value(), Tensor::full([100], 2.0));
    let kept = f.sum((&x, &w), foldback::tensor::keep(0)).unwrap().value();
    assert_eq!(kept, Tensor::full([1, 50], 200.0));
    for refused in
        [f.sum((&x, &w), 2), f.mean((&x, &w), [0, 0]), f.call((&x, &w.value().squeeze(1).unwrap()))]
    {
        let e = refused.unwrap_err().to_string();
        assert!(e.starts_with("scaled: "), "{e}");
    }
    let shifted = fuse!(|x, w| (x - w).exp()).named("shifted");
    let x = Tensor::ones([170, 50]);
    let graph =
        shifted.call((&x, &Tensor::ones([170, 1]).requires_grad())).unwrap().graph().unwrap().to_string();
    assert!(graph.contains("sub") && graph.contains("exp") && !graph.contains("shifted"), "{graph}");
    // Rows, and many elements, are one node.
    for (n, shape) in [(170, vec![50]), (4200, vec![4200, 1])] {
        let x = Tensor::ones([n, 50]).requires_grad();
        let graph = f.sum((&x, &Tensor::ones(&shape[..])), 0).unwrap().graph().unwrap().to_string();
        assert!(graph.contains("scaled"), "{graph}");
    }
    // Of many elements one operation takes no more memory as an operator's, and what is between two of short rows stays in the cache.
    for (n, cols, is_one) in [(800, 256, true), (4200, 50, false)] {
        let [x, w] = [[n, cols], [n, 1]].map(|shape| Tensor::ones(shape).requires_grad());
        let graph_of = |y: Result<Var>| y.unwrap().graph().unwrap().to_string();
        let [one, two] = [f.call((&x, &w)), shifted.call((&x, &w))].map(graph_of);
        assert!(one.contains("mul") && !one.contains("scaled"), "{one}");
        assert_eq!(two.contains("shifted"), is_one, "{two}");
    }
}

/// Of few elements one operation, a function and another one, and up to three that are not summed and have no name have the nodes of operators; any
/// other formula has its own.
#[test]
fn few_elements_have_the_nodes_of_operators() {
    let [x, w] = [[40, 50], [1, 50]].map(|shape| Tensor::full(shape, 0.5).requires_grad());
    let both = (&x, &w);
    let graph_of = |y: Result<Var>| y.unwrap().graph().unwrap().to_string();
    let f = fuse!(|x, w| (x + w).tanh()).named("bent");
    let (line, graph) = (line!(), graph_of(f.call(both)));
    assert!(graph.contains("add") && graph.contains("tanh") && !graph.contains("bent"), "{graph}");
    assert_eq!(graph.matches(&format!("parts.rs:{line}")).count(), 2, "{graph}");
    let graph = graph_of(fuse!(|x, w| x / w).named("bent").mean(both, ..));
    assert!(graph.contains("div") && graph.contains("mean") && !graph.contains("bent"), "{graph}");
    let many = x.value().expand([5, 40, 50]).unwrap().contiguous();
    let (square, three) = (fuse!(|x, w| (x * w).square()), fuse!(|x, w| x.tanh() * w.exp()));
    for graph in [graph_of(square.call(both)), graph_of(three.call(both)), graph_of(three.call((&x, &x)))] {
        assert!(graph.contains("mul") && !graph.contains("fuse ("), "{graph}");
    }
    let (square, three) = (square.named("bent"), three.named("bent"));
    for graph in [
        graph_of(square.call(both)),
        graph_of(square.sum(both, ..)),
        graph_of(three.mean((&x, &x), 0)),
        graph_of(square.call((&many, &w))),
        graph_of(fuse!(|x, w| x.tanh() * w.exp() + 1.0).named("bent").call(both)),
        graph_of(fuse!(|x| x.relu().tanh()).named("bent").call((&x,))),
        graph_of(f.call((&many, &w))),
        // What is not read is the only one tracked, or widens the shape.
        graph_of(fuse!(|x, _w| x + 1.0).named("bent").call((&x.value(), &w))),
        graph_of(fuse!(|_x, w| w + 1.0).named("bent").call(both)),
    ] {
        assert!(graph.contains("bent"), "{graph}");
    }
    let refused = f.call((&x, &Tensor::ones(7))).unwrap_err().to_string();
    assert!(refused.starts_with("bent: "), "{refused}");
}

/// A formula that is written as a type is one node, whatever its size: its gradients are what is made of it.
#[test]
fn a_formula_of_ones_own_is_one_node() {
    #[derive(Clone, Copy)]
    struct Distance;
    impl Formula<2> for Distance {
        #[inline(always)]
        fn eval<R: Real>(&self, [x, y]: [R; 2]) -> R
        where
            f64: FloatOps<R>,
        {
            (x - y).square()
        }
    }
    let (x, y) = (Tensor::ones([4, 3]).requires_grad(), Tensor::zeros([3]).requires_grad());
    let graph = Fused::new("distance", Distance).call([&x, &y]).unwrap().graph().unwrap().to_string();
    assert!(graph.contains("distance") && !graph.contains("sub"), "{graph}");
}

/// A branch that is not taken has no influence, however steep it is.
#[test]
fn what_is_not_chosen_has_no_influence() {
    let x = Tensor::ones([100, 50]);
    let w = Tensor::zeros([50]).requires_grad();
    let chosen = fuse!(|x, w| R::select(x.lt(R::lit(0.0)), w.sqrt(), x));
    chosen.sum((&x, &w), ..).unwrap().backward().unwrap();
    assert_eq!(w.grad(), Some(Tensor::zeros([50])));
    w.zero_grad();
    fuse!(|x, w| x.maximum(w.sqrt())).sum((&x, &w), ..).unwrap().backward().unwrap();
    assert_eq!(w.grad(), Some(Tensor::zeros([50])));
    // Two operations of a column.
    let (x, w) = (Tensor::ones([200, 50]), Tensor::zeros([200, 1]).requires_grad());
    for chosen in [
        fuse!(|x, w| w.sqrt().maximum(x)).sum((&x, &w), ..),
        fuse!(|x, w| x.maximum(w.sqrt())).sum((&x, &w), ..),
    ] {
        chosen.unwrap().backward().unwrap();
        assert_eq!(w.grad(), Some(Tensor::zeros([200, 1])));
    }
}

/// All operands are looked at together: of several that one holds no pair is doubtful.
#[test]
fn warnings_are_those_of_the_whole_expression() {
    let f = fuse!(|x, w, b| x * (w + b).tanh());
    let (row, column) = (Tensor::ones([20]), Tensor::ones([20, 1]));
    let _guard = broadcast_warning(BroadcastWarning::Refuse);
    for layers in [1, 30] {
        f.call((&Tensor::ones([layers, 20, 20]), &row, &column)).unwrap();
        let e = f.call((&Tensor::ones([layers, 1, 20]), &row, &column)).unwrap_err();
        assert!(e.to_string().contains("both grow"), "{layers}: {e}");
    }
    let (row, column) = (Tensor::ones([100]), Tensor::ones([100, 1]));
    let e = fuse!(|x, w| x * w.exp()).call((&row, &column)).unwrap_err();
    assert!(e.to_string().contains("[100] and [100, 1]"), "{e}");
}

#[test]
fn gradients_that_are_alike_are_those_of_operators() {
    let shapes: [[&[usize]; 3]; 5] = [
        [&[70, 90], &[70, 90], &[90]],
        [&[70, 90], &[70, 1], &[90]],
        [&[7, 9], &[], &[7, 9]],
        [&[2, 300], &[2, 300], &[2, 300]],
        [&[90], &[1, 1], &[70, 1]],
    ];
    for (shapes, dtype) in shapes.into_iter().flat_map(|s| [DType::F32, DType::F64].map(|dtype| (s, dtype))) {
        pairs! { shapes, dtype;
            |x, h, b| (x + h + b).tanh() => x.add(h).and_then(|y| y.add(b)).map(|y| y.tanh());
            |x, h, b| x + h - b => x.add(h).and_then(|y| y.sub(b));
            |x, h, b| x * h + b => x.mul(h).and_then(|y| y.add(b));
            |x, h, b| (x + h) * b => x.add(h).and_then(|y| y.mul(b));
            |x, h, b| (x + h + b).relu() => x.add(h).and_then(|y| y.add(b)).map(|y| y.relu());
        }
    }
}

/// One variable may be several operands.
#[test]
fn alike_gradients_of_one_variable_are_added() {
    let x = tensor![0.5, -1.0].requires_grad();
    let b = tensor![0.25].requires_grad();
    fuse!(|x, h, b| (x + h + b).square()).sum([&x, &x, &b], ..).unwrap().backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![5.0, -7.0]));
    assert_eq!(b.grad(), Some(tensor![-1.0]));
    // What is shared is not changed in place.
    fuse!(|x, h, b| (x + h + b).square()).sum([&x, &x, &b], ..).unwrap().backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![10.0, -14.0]));
}

/// Gradients of several types.
#[test]
fn gradients_of_operands_of_several_types() {
    for (kinds, seed) in [[DType::I64, DType::F32, DType::F64], [DType::F32, DType::F64, DType::F32]]
        .into_iter()
        .flat_map(|kinds| [1, 2, 3].map(|seed| (kinds, seed)))
    {
        let shapes: [&[usize]; 3] = [&[1, 100, 1], &[2, 1, 70], &[1]];
        let values: Vec<Tensor> = (0..3)
            .map(|k| {
                fill(shapes[k], Domain::Any, &mut Random::new(seed + k as u64)).mul(5.0).unwrap().to(kinds[k])
            })
            .collect();
        let dense = fill(&[2, 100, 70][..], Domain::Any, &mut Random::new(9));
        let tracked = if kinds[0] == DType::I64 { 6 } else { 7 };
        for weights in [None, Some(&dense)] {
            let f = fuse!(|x, w, b| (x + b) * w);
            let fused: Of<'_> = &|x| f.call(x).unwrap();
            let plain: Of<'_> = &|[x, w, b]| x.add(b).unwrap().mul(w).unwrap();
            let [found, want] = [fused, plain].map(|of| gradients(of, &values, tracked, weights));
            for (found, want) in found.iter().zip(&want) {
                match (found, want) {
                    (Some(found), Some(want)) => {
                        assert!(close(found, want, 1e-5), "{kinds:?} {found} {want}")
                    }
                    _ => assert_eq!(found.is_some(), want.is_some()),
                }
            }
        }
    }
}

/// What is changed between the passes gives no other gradients than by operators, or is refused.
#[test]
fn operands_that_change_are_those_of_operators() {
    let x = Tensor::ones([100, 50]);
    let run = |of: OfTwo<'_>, changes: bool| -> Result<Option<Tensor>> {
        let leaf = Tensor::full([50], 0.5).requires_grad();
        let mut w = leaf.mul(2.0)?;
        let y = of(&x.clone().into(), &w);
        if changes {
            w.add_(1.0)?;
        }
        y.sum(..)?.backward()?;
        Ok(leaf.grad())
    };
    let sine = fuse!(|x, w| x * w.sin());
    let exp = fuse!(|x, w| x * w.exp());
    let pairs: [[OfTwo<'_>; 2]; 2] = [
        [&|x, w| sine.call((x, w)).unwrap(), &|x, w| x.mul(w.sin()).unwrap()],
        [&|x, w| exp.call((x, w)).unwrap(), &|x, w| x.mul(w.exp()).unwrap()],
    ];
    for [fused, plain] in pairs {
        for changes in [false, true] {
            let [found, want] = [run(fused, changes), run(plain, changes)];
            assert_eq!(found.is_err(), want.is_err());
            if let (Ok(found), Ok(want)) = (found, want) {
                assert_eq!(found, want);
            }
        }
    }
}

/// Hooks see the gradients, and what is computed again has the same ones.
#[test]
fn hooks_and_checkpoints_go_by_the_nodes() {
    let x = Tensor::ones([100, 50]).requires_grad();
    let f = fuse!(|x, w| x * w.exp());
    let run = |again: bool| {
        let w = Tensor::full([50], 0.5).requires_grad();
        let doubled = w.mul(2.0).unwrap();
        doubled.register_hook(|g| g.mul(3.0)).unwrap();
        let y = match again {
            true => {
                foldback::graph::checkpoint(move |[x, w]: &[Var; 2]| f.call([x, w]), [&x, &doubled]).unwrap()
            }
            false => f.call([&x, &doubled]).unwrap(),
        };
        y.sum(..).unwrap().backward().unwrap();
        w.grad().unwrap()
    };
    assert!(close(&run(false), &Tensor::full([50], 600.0 * 1f64.exp()), 1e-5));
    assert_eq!(run(true), run(false));
}
