//! What the broadcast warning says: both shapes, the lines of the operands and of the operation, the cure. Alone in its process,
//! which has one logger.

use std::cell::RefCell;

use foldback::graph::no_grad;
use foldback::prelude::*;
use foldback::tensor::{BroadcastWarning, broadcast_warning, set_broadcast_warning};
use foldback::{fuse, nn};

thread_local! {
    static SAID: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Notes what each thread says.
struct Log;
impl log::Log for Log {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &log::Record<'_>) {
        SAID.with_borrow_mut(|said| said.push(record.args().to_string()));
    }
    fn flush(&self) {}
}

fn said() -> Vec<String> {
    SAID.take()
}

fn listening() {
    let _ = log::set_logger(&Log);
    log::set_max_level(log::LevelFilter::Warn);
}

fn at(line: u32) -> String {
    format!("{}:{line}:", file!())
}

#[test]
fn values_are_warned_of_with_their_line() {
    listening();
    let _guard = broadcast_warning(BroadcastWarning::Warn);
    let (column, list) = (Tensor::zeros([4, 1]), Tensor::zeros([4]));
    let line = line!() + 1;
    let _ = &column - &list;
    let [text] = &said()[..] else { panic!("one warning") };
    assert!(text.starts_with("sub: [4, 1] and [4] hold the same number of elements"), "{text}");
    for part in ["squeeze(1) the first", "unsqueeze or a 1 in reshape", &at(line)] {
        assert!(text.contains(part), "{part:?} is missing from {text}");
    }
    let meant = &list.unsqueeze(1).unwrap() - &list;
    assert_eq!((meant.dims(), said().len()), (&[4, 4][..], 0));
}

#[test]
fn variables_are_warned_of_with_the_lines_of_their_operands() {
    listening();
    let _guard = broadcast_warning(BroadcastWarning::Warn);
    let (x, first) = (Tensor::zeros([4, 3]).requires_grad(), line!());
    let (column, second) = (x.matmul(Tensor::zeros([3, 1])).unwrap(), line!());
    let (list, third) = (Tensor::zeros([4]).requires_grad(), line!());
    assert!(first < second && said().is_empty());
    for (op, program) in [
        ("sub", &(|| column.sub(&list)) as &dyn Fn() -> Result<Var>),
        ("fused", &|| fuse!(|a, b| a * b).call([&column, &list])),
        ("masked_select", &|| column.masked_select(list.gt(-1.0)?)),
        ("where_cond", &|| column.gt(0.0)?.where_cond(&list, 0.0)),
    ] {
        program().unwrap();
        let texts = said();
        assert!(texts[0].contains("[4, 1] and [4] hold the same"), "{op}: {texts:?}");
        if ["sub", "fused"].contains(&op) {
            let lines = [at(second), at(third)];
            assert!(lines.iter().all(|line| texts[1].contains(line)), "{op}: {texts:?}");
        }
    }
    // Without a graph nothing is known of the operands, and a warning of values says nothing of a later operation's.
    no_grad(|| column.detach().sub(list.detach())).unwrap();
    assert_eq!(said().len(), 1);
    column.value().sub(list.value()).unwrap();
    column.mul(list.unsqueeze(0).unwrap()).unwrap();
    assert_eq!(said().len(), 1);
}

#[test]
fn refusals_name_the_lines_of_the_operands() {
    let _guard = broadcast_warning(BroadcastWarning::Refuse);
    let (column, first) = (Tensor::zeros([4, 1]).requires_grad(), line!());
    let (list, second) = (column.squeeze(1).unwrap(), line!());
    for (result, third) in [
        (column.sub(&list), line!()),
        (fuse!(|a, b| a * b).call([&column, &list]), line!()),
        (fuse!(|a, b| a * b).sum([&column, &list], ..), line!()),
        (list.lerp(&column, 0.5), line!()),
        (column.unsqueeze(1).unwrap().squeeze(1).unwrap().sub(&list).map(|_| column.clone()), line!()),
    ] {
        let text = result.unwrap_err().to_string();
        for line in [second, third] {
            assert!(text.contains(&at(line)), "{line} is missing from {text}");
        }
        assert!(text.contains(&at(first)) || text.contains(&at(third)), "{text}");
    }
}

#[test]
fn the_level_for_debugging_looks_at_places_too() {
    listening();
    let (stack, norms) = (Tensor::zeros([6, 8, 6]), Tensor::zeros([6]));
    let program = || {
        let mut changed = stack.clone();
        changed.add_(&norms)?;
        stack.div(&norms)
    };
    let _guard = broadcast_warning(BroadcastWarning::Warn);
    program().unwrap();
    assert!(said().is_empty());
    let _guard = broadcast_warning(BroadcastWarning::Refuse);
    program().unwrap();
    let _guard = broadcast_warning(BroadcastWarning::Debug);
    program().unwrap();
    let texts = said();
    assert_eq!(texts.len(), 2);
    assert!(texts[1].starts_with("div: [6] fits more than one place in [6, 8, 6]"), "{texts:?}");
    Tensor::zeros([4, 1]).add(Tensor::zeros([4])).unwrap();
    assert!(said()[0].contains("both grow"), "what is refused elsewhere is warned of");
    stack.div(norms.reshape([6, 1, 1]).unwrap()).unwrap();
    assert!(said().is_empty());
}

/// Whether what a function gives is saved beside the value, or computed before, or not.
#[test]
fn fused_operations_are_looked_at_once() {
    listening();
    let _guard = broadcast_warning(BroadcastWarning::Debug);
    for size in [3, 40, 90] {
        let (x, list) = (Tensor::zeros([size, size]), Tensor::zeros([size]));
        for x in [Var::from(x.clone()), x.requires_grad()] {
            for y in [
                fuse!(|x, w| x.tanh() * w).call((&x, &list)),
                fuse!(|x, w| x * w.tanh()).call((&x, &list)),
                fuse!(|x, w| x.tanh() * w).sum((&x, &list), 0),
            ] {
                y.unwrap();
            }
            let texts = said();
            let looked_at = |text: &&String| text.contains("fits more than one place");
            assert_eq!(texts.iter().filter(looked_at).count(), 3, "{size}: {texts:?}");
        }
    }
}

#[test]
fn the_setting_of_the_process_reaches_every_thread() {
    listening();
    set_broadcast_warning(BroadcastWarning::Debug);
    let texts = std::thread::spawn(|| {
        Tensor::zeros([4, 4]).add(Tensor::zeros([4])).unwrap();
        said()
    });
    let texts = texts.join().unwrap();
    set_broadcast_warning(BroadcastWarning::Off);
    assert_eq!(texts.len(), 1);
}

/// The weight of a loss is spread over it: no mistake where sizes differ.
#[test]
fn weights_of_losses_are_looked_at_for_debugging() {
    listening();
    let loss = nn::loss::BCEWithLogitsLoss::new().weight(Tensor::ones([2]));
    let run =
        |shape: &[usize]| loss.forward(Tensor::zeros(shape), Tensor::zeros(shape)).map(|_| said().len());
    let _guard = broadcast_warning(BroadcastWarning::Debug);
    assert_eq!((run(&[4, 2]).unwrap(), run(&[4, 2, 2]).unwrap()), (0, 1));
    let _guard = broadcast_warning(BroadcastWarning::Warn);
    assert_eq!(run(&[4, 2, 2]).unwrap(), 0);
}

/// A kept axis beside a list is an idiom of sums, `|x|^2 + |y|^2` for all pairs, and none of what takes elements together.
#[test]
fn operations_say_what_a_kept_axis_beside_a_list_is_to_them() {
    let _refused = broadcast_warning(BroadcastWarning::Refuse);
    let rows = Tensor::ones([3, 2]);
    let (kept, list) = (rows.sum(keep(1)).unwrap(), tensor![1.0, 2.0, 3.0]);
    let out = || Tensor::zeros([3, 3]);
    for (name, holds) in [
        ("sub", kept.sub(&list).is_err()),
        ("rounded", kept.div_floor(&list).is_err() && kept.div_trunc(&list).is_err()),
        ("remainder", kept.remainder(&list).is_err() && list.fmod(&kept).is_err()),
        ("mul", kept.mul(&list).is_err() && list.mul(&kept).is_err()),
        ("div", kept.div(&list).is_err()),
        ("with a factor", kept.sub_with(&list, 2.0).is_err() && kept.add_with(&list, -1.0).is_err()),
        ("out", kept.mul_out(&list, &mut out()).is_err() && kept.sub_out(&list, 1.0, &mut out()).is_err()),
        ("variables", (Var::leaf(kept.clone()).unwrap().mul(&list)).is_err()),
        ("sums", kept.add(&list).is_ok() && kept.sub_with(&list, -1.0).is_ok()),
        ("the larger", kept.maximum(&list).is_ok() && kept.le(&list).is_ok()),
        ("as many axes", kept.sub(kept.t()).is_ok()),
    ] {
        assert!(holds, "{name}");
    }
}
