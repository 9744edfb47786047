//! Values that a pass computes again because they were given up.
//!
//! Note [Computed again]
//! A pass goes from the last value to the first, and needs each only until the node that made it has run. A value that is
//! asked for is computed from the nearest ones that are there, without recursion, in the order in which they were recorded. Of
//! many in a row, n, only those stay that are read across one of the square root of n cuts, and those behind the last cut;
//! the stretch between two cuts is computed a second time, and stays, when the pass comes to it. So a pass
//! computes each value at most twice, and has some 2 sqrt(n) of them at a time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use foldback_tensor::Tensor;

use super::made::{Made, MadeOf};
use crate::error::Result;

/// So many in a row simply stay.
const FEW: usize = 8;

/// What values are computed as: tensors, or what is known of them.
pub(crate) trait Material {
    type Value: Clone;
    fn kept(&self, t: Tensor) -> Self::Value;
    fn make(&self, made: &Made, sources: &[Self::Value]) -> Result<Self::Value>;
}

/// The values themselves.
#[derive(Default)]
pub(crate) struct Elements;

impl Material for Elements {
    type Value = Tensor;

    fn kept(&self, t: Tensor) -> Tensor {
        t
    }

    fn make(&self, made: &Made, sources: &[Tensor]) -> Result<Tensor> {
        let recipe = made.recipe();
        let sources: Vec<&Tensor> = sources.iter().collect();
        (recipe.value)(&sources, &recipe.numbers)
    }
}

/// What one pass has computed again, by number; none for what it has let go.
pub(crate) struct Recomputed<M: Material = Elements> {
    material: M,
    values: BTreeMap<u64, Option<M::Value>>,
}

impl<M: Material + Default> Default for Recomputed<M> {
    fn default() -> Self {
        Recomputed { material: M::default(), values: BTreeMap::new() }
    }
}

impl<M: Material> Recomputed<M> {
    pub(crate) fn material(&self) -> &M {
        &self.material
    }

    /// Lets go of what is not needed when the pass has come to a value's node.
    pub(crate) fn come_to(&mut self, made: &Made) {
        while let Some(last) = self.values.last_entry()
            && *last.key() > made.number
        {
            last.remove();
        }
    }

    /// A value: the one that is kept, or one that has the same bits.
    pub(crate) fn value(&mut self, wanted: &Arc<Made>) -> Result<M::Value> {
        if let Some(value) = self.at_hand(wanted) {
            return Ok(value);
        }
        let (row, mut there) = self.missing(wanted);
        let stays = self.stays(&row);
        for (at, made) in row.values().enumerate() {
            let source = |source: &MadeOf| match source {
                MadeOf::Base(deposit) => self.material.kept(deposit.tensor.clone()),
                MadeOf::Made(made) => there[&made.number].clone(),
            };
            let sources: Vec<M::Value> = made.recipe().sources.iter().map(source).collect();
            let value = self.material.make(made, &sources)?;
            drop(sources);
            let stay = stays[&made.number];
            self.values.insert(made.number, stay.is_kept.then(|| value.clone()));
            there.insert(made.number, value);
            for source in made.made_of() {
                if stays.get(&source.number).is_some_and(|s| s.last_read == at) {
                    there.remove(&source.number);
                }
            }
        }
        Ok(there.remove(&wanted.number).expect("it is the last one"))
    }

    fn at_hand(&self, made: &Made) -> Option<M::Value> {
        let computed = || self.values.get(&made.number).cloned().flatten();
        made.kept().map(|t| self.material.kept(t)).or_else(computed)
    }

    /// What is to be computed for a value, in order, and what is there to begin with.
    fn missing(&self, wanted: &Arc<Made>) -> (BTreeMap<u64, Arc<Made>>, HashMap<u64, M::Value>) {
        let (mut row, mut there) = (BTreeMap::new(), HashMap::new());
        let mut stack = vec![wanted];
        while let Some(made) = stack.pop() {
            if row.contains_key(&made.number) || there.contains_key(&made.number) {
                continue;
            }
            match self.at_hand(made) {
                Some(value) => drop(there.insert(made.number, value)),
                None => {
                    row.insert(made.number, made.clone());
                    stack.extend(made.made_of());
                }
            }
        }
        (row, there)
    }

    /// For how long each of a row is there.
    fn stays(&self, row: &BTreeMap<u64, Arc<Made>>) -> HashMap<u64, Stay> {
        let again = row.keys().filter(|number| self.values.contains_key(number)).count();
        let stretch = if row.len() <= FEW || 2 * again >= row.len() { row.len() } else { row.len().isqrt() };
        let last = (row.len() - 1) / stretch;
        let first =
            |(at, number): (usize, &u64)| (*number, Stay { last_read: at, is_kept: at / stretch == last });
        let mut stays: HashMap<u64, Stay> = row.keys().enumerate().map(first).collect();
        let mut starts: HashMap<u64, usize> = HashMap::new();
        for (at, made) in row.values().enumerate() {
            starts.insert(made.number, at / stretch);
            for source in made.made_of() {
                if let Some(stay) = stays.get_mut(&source.number) {
                    stay.last_read = at;
                    stay.is_kept |= starts[&source.number] != at / stretch;
                }
            }
        }
        stays
    }
}

#[derive(Clone, Copy)]
struct Stay {
    /// where in the row it is read last
    last_read: usize,
    /// whether it is there afterwards
    is_kept: bool,
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;
    use crate::{RequiresGrad, Var, saved_budget};

    /// Counts what is computed, and how much of it is there at a time.
    #[derive(Default)]
    struct Counts {
        computed: Cell<usize>,
        there: Rc<Cell<usize>>,
        most: Cell<usize>,
    }

    struct One(Rc<Cell<usize>>);
    impl Drop for One {
        fn drop(&mut self) {
            self.0.set(self.0.get() - 1);
        }
    }

    impl Material for Counts {
        type Value = Option<Rc<One>>;

        fn kept(&self, _: Tensor) -> Self::Value {
            None
        }

        fn make(&self, _: &Made, _: &[Self::Value]) -> Result<Self::Value> {
            self.computed.set(self.computed.get() + 1);
            self.there.set(self.there.get() + 1);
            self.most.set(self.most.get().max(self.there.get()));
            Ok(Some(Rc::new(One(self.there.clone()))))
        }
    }

    /// How many values a pass computes, and has at a time, that takes the nodes from the last one to the first.
    fn pass(root: &Var) -> (usize, usize) {
        let mut again: Recomputed<Counts> = Recomputed::default();
        let (mut nodes, mut stack) = (BTreeMap::new(), vec![root.edge().unwrap().node]);
        while let Some(node) = stack.pop() {
            if nodes.insert(node.sequence, node.clone()).is_none() {
                stack.extend(node.next_edges.iter().flatten().map(|e| e.node.clone()));
            }
        }
        for budgeted in nodes.values().rev().filter_map(|n| n.budgeted()) {
            budgeted.come_to(&mut again);
            budgeted.given_up().for_each(|made| drop(again.value(made).unwrap()));
        }
        (again.material.computed.get(), again.material.most.get())
    }

    #[test]
    fn a_row_is_computed_twice_and_has_the_square_root_at_a_time() {
        for n in [1, 5, 8, 9, 50, 1000] {
            let x = Tensor::ones([4]).requires_grad();
            let (y, report) = saved_budget(0, || (0..n).fold(x.clone(), |y, _| y.exp()));
            assert_eq!((report.kept, report.operations), (0, n));
            let (computed, most) = pass(&y);
            assert!(computed <= 2 * n && most <= 2 * n.isqrt() + FEW, "{n}: {computed}, {most} at a time");
        }
    }

    /// Each value is made of two others, so that there are very many ways to the first one.
    #[test]
    fn a_value_that_many_need_is_computed_for_all() {
        const N: usize = 200;
        let x = Tensor::ones([4]).requires_grad();
        let (y, report) = saved_budget(0, || {
            (0..N).fold((x.sin(), x.cos()), |(a, b), _| ((&a * &b).tanh(), (&a + &b).exp())).0
        });
        assert!(report.operations >= 2 * N - 1, "{report}");
        let (computed, most) = pass(&y);
        assert!(computed <= 2 * 4 * N + 2 && most <= 4 * (4 * N).isqrt(), "{computed}, {most} at a time");
    }
}
