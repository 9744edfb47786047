//! Views of graphs and plans of backward passes: what they say is what happens.

use std::sync::{Arc, Mutex};

use foldback::graph::{Function, FunctionContext, GraphFacts, Kept, backward_plan, saved_budget};
use foldback::prelude::*;

#[test]
fn a_plan_lists_nodes_in_the_order_in_which_they_run() -> Result<()> {
    let x = Tensor::rand([4, 3]).requires_grad();
    let order = Arc::new(Mutex::new(Vec::new()));
    let seen = |v: Var, name: &'static str| -> Result<Var> {
        let order = order.clone();
        v.register_hook(move |_| order.lock().unwrap().push(name))?;
        Ok(v)
    };
    let a = seen(x.exp(), "exp")?;
    let b = seen(x.sin(), "sin")?;
    let c = seen(&a * &b, "mul")?;
    let d = seen(a.tanh(), "tanh")?;
    let loss = seen((c + d).sum(..)?, "sum")?;
    let plan = loss.backward_plan()?;
    let nodes = plan.graph().nodes();
    let planned: Vec<&str> =
        plan.steps().iter().map(|s| nodes[s.node].name).filter(|n| *n != "add").collect();
    loss.backward()?;
    assert_eq!(planned, *order.lock().unwrap());
    Ok(())
}

#[test]
fn texts_of_equal_graphs_are_equal() -> Result<()> {
    let text = || -> Result<String> {
        let (a, b) = (Tensor::ones([8, 1]).requires_grad(), Tensor::ones([1, 4]).requires_grad());
        let y = &a * &b;
        let loss = (&y + y.exp()).mean(..)?;
        Ok(loss.backward_plan()?.named([("a", &a), ("b", &b)]).to_text())
    };
    let first = text()?;
    assert_eq!(first, text()?);
    assert_eq!(
        first,
        "\
backward plan: 4 operations, 2 leaves; 2 folds; keeps 128 B; peak 304 B
#0 mean -> f32 []
    input 0: to #1
#1 add -> f32 [8, 4]
    input 0: to #3
    input 1: to #2
#2 exp -> f32 [8, 4], keeps 128 B
    input 0: to #3
#3 mul -> f32 [8, 4]
    input 0: to #5 a, [8, 4] folded to [8, 1] over axis 1
    input 1: to #4 b, [8, 4] folded to [1, 4] over axis 0
#4 leaf b: f32 [1, 4]
#5 leaf a: f32 [8, 1]
"
    );
    Ok(())
}

#[test]
fn lines_are_those_of_the_program() -> Result<()> {
    let x = tensor![1.0, 2.0].requires_grad();
    let (y, line) = (x.exp(), line!());
    assert!(y.graph()?.to_string().contains(&format!("(at tests/tests/plans.rs:{line})")));
    Ok(())
}

#[test]
fn a_storage_is_counted_once() -> Result<()> {
    let x = Tensor::ones([8]).requires_grad();
    let y = x.exp(); // keeps its result
    let z = (&y * &y.sin()).sum(..)?; // keeps it, too, and so does sin
    let graph = z.graph()?;
    assert_eq!(graph.saved_bytes(), 2 * 32);
    let [_, mul, sin, exp, _] = graph.nodes() else { panic!("{graph}") };
    assert_eq!((exp.saved[0].kept, sin.saved[0].kept), (Kept::Here, Kept::At(3)));
    assert!(exp.saved[0].is_held && !mul.saved[1].is_held);
    assert_eq!(x.square().graph()?.nodes()[0].saved[0].kept, Kept::InLeaf(1));
    // One node keeps it as two of its operands.
    let y = &x + 1.0;
    let z = (&y * &y).sum(..)?;
    drop(y);
    let plan = z.backward_plan()?;
    assert_eq!(plan.graph().saved_bytes(), 32);
    assert_eq!(plan.steps().iter().map(|s| s.saved).collect::<Vec<_>>(), [32, 32, 0]);
    let mul = &plan.graph().nodes()[1];
    assert_eq!((mul.saved[0].kept, mul.saved[1].kept), (Kept::Here, Kept::At(1)));
    Ok(())
}

/// What values are made of again is often what their gradients read.
#[test]
fn what_a_graph_keeps_is_what_a_budget_reports() -> Result<()> {
    let (x, w) = (Tensor::ones([100]), Tensor::rand([100]).requires_grad());
    for budget in [0, 1 << 20] {
        let (loss, report) = saved_budget(budget, || (&w.exp() * &x).sin().sum(..));
        assert_eq!(loss?.graph()?.saved_bytes(), report.kept, "{budget}");
    }
    Ok(())
}

#[test]
fn views_keep_no_graph_alive() -> Result<()> {
    let y = Tensor::ones([8]).requires_grad().exp();
    let (plan, graph, weak) = (y.backward_plan()?, y.graph()?, y.downgrade());
    drop(y);
    assert!(weak.upgrade().is_none());
    assert_eq!((plan.steps().len(), graph.nodes().len()), (1, 2));
    Ok(())
}

#[test]
fn what_cannot_run_has_no_plan() -> Result<()> {
    let x = tensor![1.0, 2.0].requires_grad();
    let e = x.detach().backward_plan().unwrap_err();
    assert!(matches!(e.facts(), Some(GraphFacts::NoGraph { index: 0, .. })));
    let y = x.exp().sum(..)?;
    y.backward()?;
    let e = y.backward_plan().unwrap_err();
    assert!(matches!(e.facts(), Some(GraphFacts::Freed { op: "exp", .. })), "{e}");
    assert_eq!(e.location().map(|l| l.file()), Some(file!()));
    assert!(y.graph()?.to_text().contains("#1 exp -> f32 [2], freed"));
    Ok(())
}

#[test]
fn a_plan_is_refused_where_the_pass_would_be() -> Result<()> {
    let (x, w) = (tensor![1.0, 2.0].requires_grad(), tensor![3.0].requires_grad());
    let y = x.exp();
    let refused = |options: Backward| {
        let planned = y.backward_plan_with(options.clone()).unwrap_err();
        let run = y.backward_with(options).unwrap_err();
        assert_eq!(planned.to_string().split(" (at ").next(), run.to_string().split(" (at ").next());
        assert_eq!(planned.location().map(|l| l.file()), Some(file!()));
        planned
    };
    let e = refused(Backward::new().seed(tensor![1.0]));
    assert!(matches!(e.facts(), Some(GraphFacts::SeedShape { index: 0, .. })), "{e}");
    refused(Backward::new().seeds([&x, &x]));
    refused(Backward::new().seed(&x).inputs(Vec::<&Var>::new()));
    refused(Backward::new().seed(&x).inputs(Var::from(tensor![1.0])));
    assert!(backward_plan(Vec::<&Var>::new(), Backward::new()).is_err());
    // What the roots do not depend on is known when the pass has run.
    assert_eq!(y.backward_plan_with(Backward::new().inputs(&w))?.steps().len(), 0);
    Ok(())
}

#[test]
fn a_limited_plan_shows_what_runs_and_counts_what_is_kept() -> Result<()> {
    let (x, w) = (Tensor::ones([8, 1]).requires_grad(), Tensor::ones([8, 4]).requires_grad());
    let y = x.exp();
    let loss = (&y * &w).sum(..)?;
    let plan = loss.backward_plan_with(Backward::new().inputs(&w))?.named([("w", &w), ("x", &x)]);
    assert_eq!(
        plan.to_text(),
        "\
backward plan: 2 operations, 1 leaf; 0 folds; keeps 32 B; peak 320 B
#0 sum -> f32 []
    input 0: to #1
#1 mul -> f32 [8, 4], keeps 32 B
    input 1: to #2 w
#2 leaf w: f32 [8, 4]
"
    );
    // Both leaves, what `exp` and `mul` keep, and the gradient.
    assert_eq!((plan.leaf_bytes(), plan.steps()[1].saved), (32 + 128, 32));
    // A result may be what the gradient is for, and then nothing behind it runs.
    let plan = loss.backward_plan_with(Backward::new().inputs(&y))?;
    assert_eq!(plan.steps().len(), 2);
    loss.backward_with(Backward::new().inputs(&y))?;
    assert!(y.grad().is_some() && x.grad().is_none());
    Ok(())
}

#[test]
fn a_plan_of_several_roots_lists_what_each_needs_once() -> Result<()> {
    let x = Tensor::ones([8]).requires_grad();
    let h = x.exp();
    let roots = [h.square().sum(..)?, h.sin().sum(..)?, h.tanh().sum(..)?];
    let plan = backward_plan(&roots, Backward::new().retain_graph(true))?;
    assert_eq!(plan.steps().len(), 7);
    assert!(plan.steps().iter().all(|s| s.saved == plan.graph().saved_bytes()));
    let freed = backward_plan(&roots, Backward::new())?;
    assert!(freed.steps()[6].saved < freed.graph().saved_bytes());
    Ok(())
}

/// A name that would end a string, a script and a line.
struct Hostile;

impl Function for Hostile {
    fn name(&self) -> &'static str {
        "\"</script><b>\\\n\u{2028}"
    }
    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0].clone()])
    }
    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![Some(ctx.grad(0))])
    }
}

#[test]
fn a_page_is_whole_and_loads_nothing() -> Result<()> {
    let x = tensor![[1.0], [2.0]].requires_grad();
    let y = Hostile.call([&x])?;
    let plan = (&y * tensor![1.0, 2.0, 3.0]).sum(..)?.backward_plan()?.named([("</style>\"x", &x)]);
    let page = plan.to_html();
    let start = page.find("const plan = ").unwrap() + "const plan = ".len();
    let data = page[start..].lines().next().unwrap().strip_suffix(';').unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["peak"], plan.peak_bytes());
    assert_eq!(data["operations"][1]["edges"][0]["axes"], serde_json::json!([1]));
    assert_eq!(data["operations"][2]["name"], Hostile.name());
    assert_eq!(data["operations"][2]["edges"][0]["leaf"], "</style>\"x");
    assert_eq!(page.matches("</script>").count(), 1);
    // The one address is the name of a language.
    assert_eq!(page.matches("http").count(), page.matches("http://www.w3.org/2000/svg").count());
    assert!(!page.contains(" src=") && !page.contains("<link") && !page.contains("@import"));
    assert!(!plan.to_dot().contains("\"\"</script>"));
    Ok(())
}

/// In linear time, and without recursion.
#[test]
fn a_chain_of_100_000_nodes_has_a_plan() -> Result<()> {
    let small = std::thread::Builder::new().stack_size(256 << 10);
    let run = || -> Result<usize> {
        let x = tensor![1.0].requires_grad();
        let mut y = x.exp();
        for _ in 0..50_000 {
            y = y * 1.5 + &x;
        }
        let plan = y.backward_plan()?;
        assert!(plan.to_text().lines().count() > 100_000);
        // Of no operation the layer is known, and nobody looks for it in all the others.
        assert!(plan.to_html().len() > 10_000_000);
        Ok(plan.steps().len())
    };
    assert_eq!(small.spawn(run)?.join().unwrap()?, 100_001);
    Ok(())
}
