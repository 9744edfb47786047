//! Hooks: on results, operations, leaves and several variables at once; their order is PyTorch's.

mod leaves;
mod several;

use std::sync::{Arc, Mutex};

use foldback::Kind;
use foldback::graph::{
    Function, FunctionContext, GraphFacts, is_grad_enabled, queue_callback, register_any_grad_hook,
    register_multi_grad_hook,
};
use foldback::prelude::*;

/// What hooks have seen, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn note(&self, name: &str, grads: &[Option<Var>]) {
        let of = |g: &Option<Var>| {
            g.as_ref().map_or("-".to_string(), |g| format!("{:?}", g.value().to_vec::<f32>().unwrap()))
        };
        let grads: Vec<String> = grads.iter().map(of).collect();
        self.0.lock().unwrap().push(format!("{name} {}", grads.join(" ")).trim_end().to_string());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn leaf(value: f32) -> Var {
    tensor![value].requires_grad()
}

fn times(grads: &[Option<Var>], factor: f64) -> Vec<Option<Var>> {
    grads.iter().map(|g| g.as_ref().map(|g| g * factor)).collect()
}

/// `y = 3 x` with a hook of every kind; each but the last ones of the leaf multiplies.
fn hooked(log: &Log) -> (Var, Var) {
    let (x, three) = (leaf(2.0), leaf(3.0));
    let y = &x * &three.detach();
    let own = |name: &'static str| {
        let log = log.clone();
        move |grads: &[Option<Var>]| log.note(name, grads)
    };
    let (note, scaled) = (own("tensor"), own("tensor again"));
    y.register_hook(move |g| {
        note(&[Some(g.clone())]);
        g * 2.0
    })
    .unwrap();
    y.retain_grad().unwrap();
    y.register_hook(move |g| scaled(&[Some(g.clone())])).unwrap();
    let operation = y.grad_fn().unwrap();
    let (note, after) = (own("pre"), own("post"));
    operation.register_prehook(move |grads| {
        note(grads);
        times(grads, 10.0)
    });
    operation.register_hook(move |inputs, outputs| {
        after(&[inputs, outputs].concat());
        times(inputs, 100.0)
    });
    let (note, leaf) = (own("leaf"), own("accumulated"));
    x.register_hook(move |g| note(&[Some(g.clone())])).unwrap();
    x.register_post_accumulate_grad_hook(move |x| leaf(&[x.grad_var()])).unwrap();
    (x, y)
}

#[test]
fn hooks_run_in_pytorchs_order_and_see_what_those_before_left() {
    let log = Log::default();
    let (x, y) = hooked(&log);
    y.backward().unwrap();
    assert_eq!(
        log.take(),
        [
            "tensor [1.0]",
            "tensor again [2.0]",
            "pre [2.0]",
            "post [60.0] - [20.0]",
            "leaf [6000.0]",
            "accumulated [6000.0]"
        ]
    );
    assert_eq!(y.grad(), Some(tensor![2.0]), "retain_grad sees what the hooks on the variable left");
    assert_eq!(x.grad(), Some(tensor![6000.0]));
}

#[test]
fn under_grad_the_hooks_run_of_what_is_run() {
    let log = Log::default();
    let (x, y) = hooked(&log);
    let kept = Backward::new().retain_graph(true);
    assert_eq!(grad_with(&y, &x, kept.clone()).unwrap().value(), tensor![6000.0]);
    let names = |log: &Log| -> Vec<String> {
        log.take().iter().map(|line| line[..line.find(['[', '-']).unwrap()].trim().to_string()).collect()
    };
    assert_eq!(names(&log), ["tensor", "tensor again", "pre", "post", "leaf"], "nothing accumulates");
    assert_eq!(grad_with(&y, &y, kept.clone()).unwrap().value(), tensor![2.0]);
    assert_eq!(names(&log), ["tensor", "tensor again"], "the operation itself is not run");
    y.backward_with(kept.inputs([&x])).unwrap();
    assert_eq!(names(&log), ["tensor", "tensor again", "pre", "post", "leaf", "accumulated"]);
    assert_eq!((x.grad(), y.grad()), (Some(tensor![6000.0]), Some(tensor![2.0])));
}

#[test]
fn post_hooks_see_what_each_input_gets_and_untracked_inputs_get_nothing() {
    let log = Log::default();
    let (x, rows) = (leaf(3.0), tensor![[1.0], [2.0]].requires_grad());
    let note = |v: &Var, name: &'static str| {
        let log = log.clone();
        v.grad_fn().unwrap().register_hook(move |inputs, _| log.note(name, inputs));
    };
    let twice = &x * &x;
    note(&twice, "twice");
    let fused = fuse!(|a, b| a * b.exp() + a).call([&x, &x]).unwrap();
    note(&fused, "fused");
    let wide = rows.mul(tensor![[1.0, 10.0, 100.0]]).unwrap();
    note(&wide, "wide");
    (twice + fused * 0.0 + wide.sum(..).unwrap()).backward().unwrap();
    assert_eq!(log.take(), ["wide [111.0, 111.0] -", "fused [0.0] [0.0]", "twice [3.0] [3.0]"]);
    assert_eq!((x.grad(), rows.grad()), (Some(tensor![6.0]), Some(tensor![[111.0], [111.0]])));
}

/// One and ten times its input.
struct Both;
impl Function for Both {
    fn name(&self) -> &'static str {
        "both"
    }
    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0].clone(), inputs[0] * 10.0])
    }
    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![Some(ctx.grad(0) + ctx.grad(1) * 10.0)])
    }
}

#[test]
fn node_hooks_take_gradients_away_and_put_some_where_there_were_none() {
    let x = leaf(1.0);
    let [one, two] = Both.apply([&x]).unwrap();
    one.grad_fn().unwrap().register_prehook(|grads| {
        assert!(grads[0].is_some() && grads[1].is_none());
        vec![None, grads[0].clone()]
    });
    (one * 5.0).backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![50.0]));
    assert_eq!(two.grad_fn().unwrap().name(), "both");

    let (x, b) = (leaf(2.0), leaf(5.0));
    let y = &x * &b;
    let operation = y.grad_fn().unwrap();
    let hook = operation.register_prehook(|_| vec![None]);
    y.backward_with(Backward::new().retain_graph(true)).unwrap();
    assert_eq!((x.grad(), b.grad()), (None, None), "nothing goes on from here");
    hook.remove();
    let hook = operation.register_hook(|inputs, _| vec![None, inputs[1].clone()]);
    y.backward_with(Backward::new().retain_graph(true)).unwrap();
    assert_eq!((x.grad(), b.grad()), (None, Some(tensor![2.0])));
    hook.remove();
    y.backward().unwrap();
    assert_eq!((x.grad(), b.grad()), (Some(tensor![5.0]), Some(tensor![4.0])));
}

#[test]
fn what_node_hooks_return_must_fit() {
    let x = leaf(2.0);
    let y = &x * 3.0;
    let operation = y.grad_fn().unwrap();
    let pass = || y.backward_with(Backward::new().retain_graph(true)).unwrap_err();
    let two = |grads: &[Option<Var>]| vec![grads[0].clone(), grads[0].clone()];
    let wrong = |_: &[Option<Var>]| vec![Some(Var::from(tensor![1.0, 2.0]))];
    for e in [
        (operation.register_prehook(two), pass()),
        (operation.register_hook(move |inputs, _| two(inputs)), pass()),
    ]
    .map(|(hook, e)| {
        hook.remove();
        e
    }) {
        let text = e.to_string();
        assert!(
            text.starts_with("mul: the p") && text.contains(" returned 2 gradients, and saw 1"),
            "{text}"
        );
        assert!(text.contains(file!()) && e.kind() == Kind::Graph, "{text}");
    }
    for (hook, e) in [
        (operation.register_prehook(wrong), pass()),
        (operation.register_hook(move |inputs, _| wrong(inputs)), pass()),
    ] {
        hook.remove();
        assert!(matches!(e.facts(), Some(GraphFacts::Assigned { .. })), "{e}");
        let of_this = format!("what the hook registered at {}:", file!());
        assert!(e.to_string().starts_with(&of_this), "{e}");
    }
    let hook = operation.register_prehook(|_| -> Result<()> { Err(Error::other("enough")) });
    assert_eq!(pass().to_string(), "enough");
    hook.remove();
    assert_eq!(x.grad(), None);
    y.backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![3.0]), "what failed with retain_graph can be run again");
}

#[test]
fn what_a_hook_on_a_variable_returns_must_fit_and_the_error_names_its_line() {
    let x = tensor![1.0, 2.0].requires_grad();
    let fits = x.register_hook(|g| g * 2.0).unwrap();
    let (wrong, line) = (x.register_hook(|g| g.narrow(0, 0, 1)).unwrap(), line!());
    let seen = Log::default();
    let behind = seen.clone();
    x.register_hook(move |g| behind.note("behind", &[Some(g.clone())])).unwrap();
    let e = x.sum(..).unwrap().backward().unwrap_err();
    let expected = format!(
        "what the hook registered at {}:{line}:28 returned must have shape [2] and dtype f32, found [1] and f32: ",
        file!()
    );
    assert!(e.to_string().starts_with(&expected), "{e}");
    assert!(seen.take().is_empty(), "nobody sees what does not fit");
    wrong.remove();
    x.sum(..).unwrap().backward().unwrap();
    assert_eq!((x.grad(), seen.take()), (Some(tensor![2.0, 2.0]), vec!["behind [2.0, 2.0]".to_string()]));
    fits.remove();
}

#[test]
fn hooks_for_leaves_refuse_what_is_none() {
    let x = leaf(1.0);
    let refused = |v: &Var| v.register_post_accumulate_grad_hook(|_| ()).unwrap_err();
    assert!(matches!(refused(&(&x * 2.0)).facts(), Some(GraphFacts::HookOnResult { .. })));
    let e = refused(&x.detach());
    assert!(matches!(e.facts(), Some(GraphFacts::HookWithoutGrad { .. })), "{e}");
    assert!(e.to_string().starts_with("register_post_accumulate_grad_hook: "), "{e}");
    assert!(e.location().unwrap().file() == file!());
    let mut off = leaf(1.0);
    off.requires_grad_(false).unwrap();
    assert!(matches!(refused(&off).facts(), Some(GraphFacts::HookWithoutGrad { .. })));
    let e = register_multi_grad_hook([&x, &x.detach()], |_| ()).unwrap_err();
    assert!(e.to_string().starts_with("register_multi_grad_hook: "), "{e}");
    let e = register_any_grad_hook([&x.detach()], |_| ()).unwrap_err();
    assert!(e.to_string().starts_with("register_any_grad_hook: "), "{e}");
    let none: [Var; 0] = [];
    let e = register_multi_grad_hook(none, |_| ()).unwrap_err();
    assert!(matches!(e.facts(), Some(GraphFacts::Empty { .. })), "{e}");
    assert!(x.grad_fn().is_none() && x.detach().grad_fn().is_none());
    let operation = format!("{:?}", (&x * 2.0).grad_fn().unwrap());
    assert!(operation.starts_with("<mul at ") && operation.contains(file!()), "{operation}");
}

/// Hooks of every kind record where the pass does, and what they return has a derivative then.
#[test]
fn hooks_record_where_the_pass_does() {
    let (x, w) = (tensor![2.0; f64].requires_grad(), tensor![3.0; f64].requires_grad());
    let y = x.square();
    let (before, after) = (w.clone(), w.clone());
    y.grad_fn().unwrap().register_prehook(move |grads| vec![grads[0].as_ref().map(|g| g * &before)]);
    y.grad_fn().unwrap().register_hook(move |inputs, _| vec![inputs[0].as_ref().map(|g| g * after.exp())]);
    let first = grad_with(&y, &x, Backward::new().create_graph(true)).unwrap();
    assert_close!(first.value(), tensor![12.0 * 3f64.exp(); f64]);
    let [to_x, to_w] = grad(&first, [&x, &w]).unwrap();
    assert_close!(to_x.value(), tensor![6.0 * 3f64.exp(); f64]);
    assert_close!(to_w.value(), tensor![16.0 * 3f64.exp(); f64]);
    let modes = Arc::new(Mutex::new(Vec::new()));
    for create_graph in [false, true] {
        let x = leaf(2.0);
        let note = modes.clone();
        x.register_post_accumulate_grad_hook(move |x| {
            let recorded = x.grad_var().unwrap().requires_grad();
            note.lock().unwrap().push((is_grad_enabled(), recorded));
            x.zero_grad();
        })
        .unwrap();
        x.square().backward_with(Backward::new().create_graph(create_graph)).unwrap();
    }
    assert_eq!(*modes.lock().unwrap(), [(false, false), (true, true)]);
}

/// Every kind of hook may go backward itself, to a depth that a stack alone would not hold.
#[test]
fn hooks_of_every_kind_go_backward_to_a_depth_of_2000() {
    let bottom = leaf(3.0);
    let mut x = bottom.clone();
    for level in 0..2000 {
        let inner = std::mem::replace(&mut x, leaf(1.0));
        let pass = move || enable_grad(|| (&inner * 2.0).backward());
        match level % 4 {
            0 => drop(x.register_post_accumulate_grad_hook(move |_| pass()).unwrap()),
            1 => drop(register_multi_grad_hook([&x], move |_| pass()).unwrap()),
            2 => drop(x.register_hook(move |_| pass()).unwrap()),
            _ => {
                let pass = Arc::new(pass);
                let hook = move |_: &Var| {
                    let pass = pass.clone();
                    queue_callback(move || pass())
                };
                drop(x.register_hook(hook).unwrap());
            }
        }
    }
    (&x * 2.0).backward().unwrap();
    assert_eq!((x.grad(), bottom.grad()), (Some(tensor![2.0]), Some(tensor![2.0])));
    let y = leaf(1.0) * 2.0;
    let mut operation = y;
    for level in 0..2000 {
        let inner = std::mem::replace(&mut operation, leaf(1.0) * 2.0);
        let own = operation.grad_fn().unwrap();
        let pass = move || inner.backward();
        if level % 2 == 0 {
            own.register_prehook(move |_| pass());
        } else {
            own.register_hook(move |_, _| pass());
        }
    }
    operation.backward().unwrap();
}

/// Each is found by its number.
#[test]
fn a_hundred_thousand_hooks_on_one_variable_are_taken_away_again() {
    let y = leaf(1.0) * 2.0;
    let calls = Arc::new(Mutex::new(0));
    let hook = |_| {
        let calls = calls.clone();
        y.register_hook(move |_| *calls.lock().unwrap() += 1).unwrap()
    };
    let mut handles: Vec<_> = (0..100_000).map(hook).collect();
    let late = handles.split_off(50_000);
    late.into_iter().rev().chain(handles.drain(1..)).for_each(|handle| handle.remove());
    y.backward().unwrap();
    assert_eq!(*calls.lock().unwrap(), 1);
}

#[test]
fn hooks_keep_no_graph_alive() {
    let (x, w) = (leaf(1.0), leaf(2.0));
    let y = &x * &w;
    let operation = y.grad_fn().unwrap();
    let weak = [x.downgrade(), w.downgrade(), y.downgrade()];
    let own = weak.clone();
    operation.register_prehook(move |_| assert!(own[2].upgrade().is_some()));
    operation.register_hook(|_, _| ());
    let own = weak.clone();
    x.register_post_accumulate_grad_hook(move |_| assert!(own[0].upgrade().is_some())).unwrap();
    let handle = register_multi_grad_hook([&x, &w, &y], |_| ()).unwrap();
    register_any_grad_hook([&x, &w], |_| ()).unwrap();
    y.backward().unwrap();
    drop((x, w, y));
    assert!(weak.iter().all(|v| v.upgrade().is_some()), "a handle on an operation keeps it");
    drop(operation);
    assert!(weak.iter().all(|v| v.upgrade().is_none()));
    handle.remove();
}
