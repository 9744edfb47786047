//! What a function records, with the values it went through: for those who look at derivatives one operation at a time.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use foldback_tensor::{Holding, Tensor};

use crate::hooks::GradFn;
use crate::node::{Edge, Node};
use crate::watching::Watching;

type RecordedNodes = Vec<(Arc<Node>, Vec<Tensor>)>;

thread_local! {
    /// What was recorded in this thread since somebody asked; none if nobody did.
    static KEPT: RefCell<Option<RecordedNodes>> = const { RefCell::new(None) };
}

/// Notes an operation, if this thread's are asked for.
pub(crate) fn keep(node: &Arc<Node>, values: &[Tensor]) {
    KEPT.with_borrow_mut(|kept| kept.iter_mut().for_each(|kept| kept.push((node.clone(), values.to_vec()))));
}

/// An operation that [`recorded`] saw, with the values it was recorded with.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// the operation: its name, its line, its hooks
    pub grad_fn: GradFn,
    /// the values of its inputs; none for one that is not tracked, or that was recorded earlier
    pub inputs: Vec<Option<Tensor>>,
    /// its results
    pub outputs: Vec<Tensor>,
    /// which of the operations in the list made each input
    #[doc(hidden)]
    pub made_by: Vec<Option<usize>>,
    /// what it keeps of inputs that are not tracked, and which inputs these are
    #[doc(hidden)]
    pub untracked: Vec<(usize, Tensor)>,
    /// the storages that it keeps for a backward pass, each as often as it does
    #[doc(hidden)]
    pub saved: Vec<Holding>,
}

/// How many operations [`recorded`] has seen so far in this thread; none while nobody asks.
#[doc(hidden)]
pub fn recorded_so_far() -> usize {
    KEPT.with_borrow(|kept| kept.as_ref().map_or(0, Vec::len))
}

/// Runs `f`, and returns every operation that it recorded in this thread, in order, with the values of inputs and results.
///
/// What `f` computes from constants is not recorded, and so not among them. The list keeps graph and values alive. Calls may be nested:
/// what an inner one returns is not in the outer one's list.
///
/// ```
/// use foldback_graph::{RequiresGrad, recorded};
/// use foldback_tensor::tensor;
/// let x = tensor![1.0, 2.0].requires_grad();
/// let (_, operations) = recorded(|| (&x * 3.0).square());
/// let [mul, square] = &operations[..] else { panic!() };
/// assert_eq!((mul.grad_fn.name(), square.grad_fn.name()), ("mul", "square"));
/// assert_eq!(square.inputs, [Some(tensor![3.0, 6.0])]);
/// assert_eq!(square.outputs, [tensor![9.0, 36.0]]);
/// ```
pub fn recorded<R>(f: impl FnOnce() -> R) -> (R, Vec<Recorded>) {
    let _watching = Watching::start();
    let outer = OuterRecording(KEPT.replace(Some(RecordedNodes::new())));
    let result = f();
    let kept = KEPT.replace(None).unwrap_or_default();
    drop(outer);
    let numbers: HashMap<u64, usize> = kept.iter().enumerate().map(|(i, k)| (k.0.sequence, i)).collect();
    let made_by = |edge: &Edge| numbers.get(&edge.node.sequence).copied();
    let value = |edge: &Edge| match edge.node.as_leaf() {
        Some(leaf) => Some(leaf.value.read()),
        None => Some(kept[made_by(edge)?].1[edge.nr].clone()),
    };
    let untracked = |node: &Node| {
        let is_untracked = |place: usize| node.next_edges.get(place).is_some_and(Option::is_none);
        let kept = node.kept().into_iter().filter(|kept| is_untracked(kept.place));
        kept.map(|kept| (kept.place, kept.tensor)).collect()
    };
    let operations = kept.iter().map(|(node, outputs)| Recorded {
        grad_fn: GradFn { node: node.clone() },
        inputs: node.next_edges.iter().map(|e| value(e.as_ref()?)).collect(),
        outputs: outputs.clone(),
        made_by: node.next_edges.iter().map(|e| made_by(e.as_ref()?)).collect(),
        untracked: untracked(node),
        saved: node.saved_storages(),
    });
    (result, operations.collect())
}

/// Puts the list of whoever asked before back in its place, even after a panic.
struct OuterRecording(Option<RecordedNodes>);

impl Drop for OuterRecording {
    fn drop(&mut self) {
        drop(KEPT.replace(self.0.take()));
    }
}

#[cfg(test)]
mod tests {
    use foldback_tensor::tensor;

    use super::*;
    use crate::RequiresGrad;

    #[test]
    fn an_inner_list_is_apart_and_a_panic_leaves_none() {
        let x = tensor![1.0].requires_grad();
        let ((_, inner), outer) = recorded(|| {
            let y = x.exp();
            assert_eq!(recorded_so_far(), 1);
            recorded(|| (y * 2.0).sqrt())
        });
        assert_eq!(recorded_so_far(), 0);
        // A product with a number keeps nothing, a root its result, of which a single number lies in the node.
        assert_eq!(recorded(|| (tensor![1.0, 2.0].requires_grad() * 2.0).sqrt()).1[1].saved.len(), 1);
        let names = |list: &[Recorded]| list.iter().map(|r| r.grad_fn.name()).collect::<Vec<_>>();
        assert_eq!((names(&outer), names(&inner)), (vec!["exp"], vec!["mul", "sqrt"]));
        // The product's input was recorded before.
        assert_eq!(inner[0].inputs[0], None);
        let fails = || recorded(|| panic!("on purpose"));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(fails)).is_err());
        assert!(KEPT.with_borrow(Option::is_none));
        let _ = x.exp();
        assert!(KEPT.with_borrow(Option::is_none));
    }
}
