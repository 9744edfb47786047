//! A task that a waiting thread ran saw two more settings of that thread than the one for recording: the scoped
//! broadcast warning, and the line that a backward pass attributes its operations to.

use foldback_graph::{Function, FunctionContext, GraphFacts, RequiresGrad, Result, Var};
use foldback_tensor::{BroadcastWarning, Tensor, broadcast_warning, tensor};
use tests::steal::{Section, run_inside};

fn column_plus_row() -> foldback_tensor::Result<Tensor> {
    tensor![[1.0], [2.0]].add(&tensor![1.0, 2.0])
}

#[test]
fn it_obeyed_the_broadcast_warning_of_another() {
    let stolen = run_inside(
        |section| {
            let _guard = broadcast_warning(BroadcastWarning::Refuse);
            section.enter();
            assert!(column_plus_row().is_err(), "the setting is back behind the section");
        },
        || column_plus_row().is_ok(),
    );
    assert!(stolen);
}

/// Enters a parallel section on its way back.
struct Entering(Section);
impl Function for Entering {
    fn name(&self) -> &'static str {
        "entering"
    }
    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0].clone()])
    }
    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        self.0.enter();
        Ok(vec![Some(ctx.grad(0))])
    }
}

#[test]
fn it_recorded_under_the_line_of_another() {
    let (line, error) = run_inside(
        |section| {
            let x = tensor![1.0].requires_grad();
            Entering(section.clone()).call([&x]).unwrap().backward().unwrap();
        },
        || {
            let (y, line) = (tensor![3.0].requires_grad().square(), line!());
            y.backward().unwrap();
            (line, y.backward().unwrap_err())
        },
    );
    let Some(GraphFacts::Freed { location, .. }) = error.facts() else { panic!("{error}") };
    assert_eq!((location.file(), location.line()), (file!(), line));
}
