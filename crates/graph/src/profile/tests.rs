use foldback_tensor::{Tensor, tensor};

use super::{Profile, profile};
use crate::{Backward, Function, FunctionContext, RequiresGrad, Result, Var, fuse, grad_with, no_grad, rows};

fn line(p: &Profile, op: &str) -> (usize, usize, usize) {
    let line = p.lines().into_iter().find(|l| l.op == op).unwrap_or_else(|| panic!("no {op} in\n{p}"));
    (line.calls, line.backward_calls, line.bytes)
}

struct Twice;
impl Function for Twice {
    fn name(&self) -> &'static str {
        "twice"
    }
    fn forward(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0] * 2.0])
    }
    fn backward(&self, ctx: &FunctionContext<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![Some(ctx.grad(0) * 2.0)])
    }
}

#[test]
fn calls_and_bytes_of_every_kind_of_operation() {
    let x = Tensor::ones([4, 8]).requires_grad();
    let (done, p) = profile(|| {
        let y = Twice.call([&x])?.matmul(x.t())?.exp().mul(2.0)?.relu();
        fuse!(|y| y * y * y).sum((&y,), ..)?.add(no_grad(|| x.sum(..))?)?.backward()
    });
    done.unwrap();
    assert_eq!(line(&p, "twice"), (1, 1, 128));
    assert_eq!(line(&p, "matmul"), (1, 1, 64));
    assert_eq!(line(&p, "exp"), (1, 1, 64));
    // The backward pass of `twice` has one, too, of 128 bytes.
    assert_eq!(line(&p, "mul"), (2, 1, 64 + 128));
    assert_eq!(line(&p, "relu"), (1, 1, 64));
    assert_eq!(line(&p, "sum"), (1, 0, 4));
    assert_eq!(line(&p, "AccumulateGrad").1, 1);
}

#[test]
fn time_belongs_to_the_innermost() {
    let x = Tensor::ones([64]).requires_grad();
    let (done, p) = profile(|| grad_with(x.exp().sum(..)?, &x, Backward::new().create_graph(true)));
    done.unwrap();
    let total: u64 = p.lines().iter().map(|l| l.forward + l.backward).sum();
    let first = p.events.iter().map(|e| e.start).min().unwrap();
    let last = p.events.iter().map(|e| e.start + e.nanoseconds).max().unwrap();
    assert!(total <= last - first, "{total} of {}", last - first);
}

#[test]
fn the_table_and_the_trace() {
    let x = tensor![1.0].requires_grad();
    let (y, p) = profile(|| x.sigmoid());
    let at = line!() - 1;
    let table = p.to_string();
    assert!(
        table.starts_with("operation  calls  forward us  backward calls  backward us       bytes\nsigmoid"),
        "{table}"
    );
    let trace = p.chrome_trace();
    assert!(
        trace.starts_with("{\"traceEvents\":[{\"name\":\"sigmoid\",\"cat\":\"forward\",\"ph\":\"X\",\"ts\":"),
        "{trace}"
    );
    assert!(trace.contains(&format!("tests.rs:{at}:")), "{trace}");
    drop(y);
}

#[test]
fn only_inside_and_restored_by_a_panic() {
    let x = tensor![1.0].requires_grad();
    let (inner, outer) = profile(|| {
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| profile(|| panic!("no"))));
        assert!(caught.is_err());
        x.exp();
        profile(|| x.sin()).1
    });
    x.cos();
    let names = |p: &Profile| p.lines().iter().map(|l| l.op).collect::<Vec<_>>();
    assert_eq!((names(&inner), names(&outer)), (vec!["sin"], vec!["exp"]));
}

/// No row is left out, and its node runs under the same name.
#[test]
fn every_row_of_the_table() {
    let mut missing = Vec::new();
    for row in rows() {
        let Some(sample) = row.samples().into_iter().next() else { continue };
        let inputs: Vec<Var> =
            sample.inputs.iter().map(|(shape, _)| Tensor::full(&shape[..], 0.5).requires_grad()).collect();
        let (made, p) = profile(|| (sample.run)(&inputs));
        if made.is_ok() && !p.events.iter().any(|e| e.op == row.name) {
            missing.push(row.name);
        }
    }
    assert_eq!(missing, [""; 0]);
}
