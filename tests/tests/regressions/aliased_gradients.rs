//! A gradient that a hook, a function or a seed handed in was a leaf itself, so that writing the leaf changed it.

use foldback_graph::{Backward, Function, FunctionContext, RequiresGrad, Result, Var, grad_with};
use foldback_tensor::{Tensor, tensor};

/// Gives a variable of its own as the gradient.
struct Giving(Var);
impl Function for Giving {
    fn name(&self) -> &'static str {
        "giving"
    }
    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0].clone()])
    }
    fn backward(&self, _: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![Some(self.0.clone())])
    }
}

/// Three ways to the gradient `w` of `x`, and of a result that retains it.
fn passes(x: &Var, w: &Var, create: bool) -> [Var; 3] {
    let seeded = x * 1.0;
    seeded.retain_grad().unwrap();
    seeded.backward_with(Backward::new().seeds(&[w]).create_graph(create)).unwrap();
    let hooked = x * 1.0;
    hooked.retain_grad().unwrap();
    let given = w.clone();
    hooked.register_hook(move |_| Some(given.clone())).unwrap();
    hooked.backward_with(Backward::new().create_graph(create)).unwrap();
    let between = x * 1.0;
    between.retain_grad().unwrap();
    let given = Giving(w.clone()).call([&between]).unwrap();
    given.backward_with(Backward::new().create_graph(create)).unwrap();
    [seeded, hooked, between]
}

#[test]
fn a_leaf_handed_in_is_its_value() {
    for create in [false, true] {
        let (x, mut w) = (tensor![1.0].requires_grad(), tensor![7.0].requires_grad());
        x.register_hook({
            let w = w.clone();
            move |g| Some(g * 0.0 + &w)
        })
        .unwrap();
        let results = passes(&x, &w, create);
        let direct = tensor![1.0].requires_grad();
        let given = w.clone();
        direct.register_hook(move |_| Some(given.clone())).unwrap();
        (&direct * 1.0).backward_with(Backward::new().create_graph(create)).unwrap();
        let by = &direct * 1.0;
        let caught = grad_with(&by, &direct, Backward::new().create_graph(create)).unwrap();
        w.set_value(tensor![99.0]).unwrap();
        assert_eq!(x.grad(), Some(tensor![21.0]));
        assert_eq!(direct.grad(), Some(tensor![7.0]));
        assert_eq!(caught.value(), tensor![7.0]);
        // With a history the gradient of the gradient goes to the leaf.
        assert_eq!(caught.requires_grad(), create);
        assert_eq!(direct.grad_var().unwrap().requires_grad(), create);
        for y in results {
            assert_eq!(y.grad(), Some(tensor![7.0]));
            y.zero_grad();
        }
        x.zero_grad();
        direct.zero_grad();
    }
}

#[test]
fn a_leaf_that_is_its_own_gradient_is_dropped() {
    let x = tensor![3.0].requires_grad();
    let handle = x.downgrade();
    let own = x.downgrade();
    x.register_hook(move |_| own.upgrade()).unwrap();
    (&x * 1.0).backward().unwrap();
    assert_eq!(x.grad(), Some(tensor![3.0]));
    drop(x);
    assert!(handle.upgrade().is_none());
}
