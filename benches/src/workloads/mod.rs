//! What is measured: every workload by its key, with the work it stands for, and its job with Foldback.

mod attention;
mod broadcasting;
mod elementary;
mod lookups;
mod loops;
mod networks;
mod normalisation;
mod products;
mod reductions;
mod scans;
mod small_graphs;
mod training;
mod windows;

use foldback::Result;
use foldback::graph::Var;
use foldback::prelude::*;

use crate::checksum::Checksum;
use crate::inputs::Input;
use crate::measure::Job;
pub use training::{Activation, Goal, MLPS, Mlp, RESET_AFTER, STEPS_CHECKED};

/// What a workload's time is divided by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unit {
    /// elements of the largest operand
    Elements(usize),
    /// recorded operations
    Nodes(usize),
    /// a training step as a whole
    Step,
}

/// The least work that any way of computing the result has to do; the limit of a workload follows from it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// bytes that are only read
    pub read: usize,
    /// bytes that are read while as many are written
    pub copied: usize,
    /// bytes that are only written
    pub written: usize,
    /// floating-point operations of matrix products
    pub flops: usize,
}

impl Work {
    /// Bytes that move, each direction counted.
    pub fn bytes(&self) -> usize {
        self.read + 2 * self.copied + self.written
    }
}

/// One row of the table.
pub struct Workload {
    /// short and unique: `W3`, `W7-rows`
    pub key: &'static str,
    /// the workload whose peers this one is compared with: itself, unless it is another form of the same work
    pub same_as: &'static str,
    /// in words, with shapes
    pub title: String,
    /// what the time is divided by
    pub unit: Unit,
    /// what the limit is made of
    pub work: Work,
    job: Box<dyn Fn() -> Result<Box<dyn Job>> + Send + Sync>,
}

impl Workload {
    fn new<J: Job + 'static>(
        key: &'static str,
        title: impl Into<String>,
        unit: Unit,
        work: Work,
        job: impl Fn() -> Result<J> + Send + Sync + 'static,
    ) -> Workload {
        let job = move || Ok(Box::new(job()?) as Box<dyn Job>);
        Workload { key, same_as: key, title: title.into(), unit, work, job: Box::new(job) }
    }

    /// Makes the inputs, and the job on them.
    ///
    /// # Errors
    /// If an operation is refused.
    pub fn job(&self) -> Result<Box<dyn Job>> {
        (self.job)()
    }

    /// Whether `--only` means this one: `W12` stands for `W12-64` and `W12b`, but `W1` does not stand for `W12`.
    pub fn is_meant_by(&self, name: &str) -> bool {
        let rest = match (self.key.get(..name.len()), self.key.get(name.len()..)) {
            (Some(start), Some(rest)) if start.eq_ignore_ascii_case(name) => rest,
            _ => return false,
        };
        !name.is_empty() && !rest.starts_with(|c: char| c.is_ascii_digit())
    }
}

/// All workloads, in the order of the table.
///
/// Another form of the same work, such as one written with `fuse!`, is a further entry behind its plain form with a key
/// of its own (`W5b-fuse`, `W6-fuse`) and `same_as` set to the plain one's key, whose peers and checksums it shares.
pub fn all() -> Vec<Workload> {
    let mut list = broadcasting::list();
    list.extend(reductions::list());
    list.extend(small_graphs::chains());
    list.extend(training::list());
    list.extend(loops::list());
    list.extend(networks::list());
    list.extend(products::list());
    list.extend(small_graphs::additions());
    list.extend(elementary::list());
    list.extend(windows::list());
    list.extend(attention::list());
    list.extend(normalisation::list());
    list.extend(scans::list());
    list.extend(lookups::list());
    list.extend(broadcasting::few());
    list.sort_by_key(|w| number(w.key));
    list
}

/// The number in a key, for the order of the table.
fn number(key: &str) -> u32 {
    key.chars().filter_map(|c| c.to_digit(10)).take(2).fold(0, |n, d| n * 10 + d)
}

/// A function of nothing as a job, with what it returned for the check.
struct Timed<T, F: FnMut() -> Result<T>, C: FnMut(&T) -> Result<Vec<Checksum>>> {
    run: F,
    check: C,
}

impl<T, F: FnMut() -> Result<T>, C: FnMut(&T) -> Result<Vec<Checksum>>> Job for Timed<T, F, C> {
    fn run(&mut self) -> Result<()> {
        std::hint::black_box((self.run)()?);
        Ok(())
    }
    fn checksums(&mut self) -> Result<Vec<Checksum>> {
        let out = (self.run)()?;
        (self.check)(&out)
    }
}

/// A job whose result is a tensor.
fn forward(mut f: impl FnMut() -> Result<Tensor>) -> impl Job {
    Timed { run: move || f(), check: |t: &Tensor| Ok(vec![Checksum::of_tensor(t)?]) }
}

/// A job that computes a number and the gradients of leaves by it. Gradients are cleared before, so that nothing is
/// added up.
fn backward(leaves: Vec<Var>, f: impl Fn() -> Result<Var>) -> impl Job {
    let again = leaves.clone();
    let run = move || {
        leaves.iter().for_each(Var::zero_grad);
        let loss = f()?;
        loss.backward()?;
        Ok(loss)
    };
    let check = move |loss: &Var| {
        let mut sums = vec![Checksum::of_tensor(&loss.value())?];
        for leaf in &again {
            let gradient = leaf.grad().ok_or_else(|| Error::other("a leaf has no gradient"))?;
            sums.push(Checksum::of_tensor(&gradient)?);
        }
        Ok(sums)
    };
    Timed { run, check }
}

/// What [`both`] makes two workloads of: their keys, what is computed, and the least work of each.
struct Both {
    keys: [&'static str; 2],
    title: String,
    elements: usize,
    work: [Work; 2],
}

/// A function of some tensors alone, and the sum of its squares with the gradients of all that are no integers: a plain
/// sum would ask for gradients that all start from the same number.
fn both<const N: usize>(
    Both { keys: [key, back], title, elements, work: [once, with_gradients] }: Both,
    inputs: impl Fn() -> Result<[Tensor; N]> + Copy + Send + Sync + 'static,
    of_tensors: impl Fn(&[Tensor; N]) -> Result<Tensor> + Copy + Send + Sync + 'static,
    of_vars: impl Fn(&[Var; N]) -> Result<Var> + Copy + Send + Sync + 'static,
) -> [Workload; 2] {
    let unit = Unit::Elements(elements);
    let in_words = format!("{title}, the sum of its squares, and back");
    [
        Workload::new(key, title, unit, once, move || {
            let inputs = inputs()?;
            Ok(forward(move || of_tensors(&inputs)))
        }),
        Workload::new(back, in_words, unit, with_gradients, move || {
            let inputs = inputs()?.map(|t| if t.dtype().is_float() { t.requires_grad() } else { t.into() });
            let leaves = inputs.iter().filter(|v| v.requires_grad()).cloned().collect();
            Ok(backward(leaves, move || of_vars(&inputs)?.square().sum(..)))
        }),
    ]
}

fn tensor<const N: usize>(input: Input<N>) -> Result<Tensor> {
    Tensor::from_vec(input.values(), input.shape)
}

fn leaf<const N: usize>(input: Input<N>) -> Result<Var> {
    Ok(tensor(input)?.requires_grad())
}

/// Bytes of an `f32` tensor of this shape.
fn bytes(shape: &[usize]) -> usize {
    4 * shape.iter().product::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_unique_and_in_order() {
        let keys: Vec<_> = all().iter().map(|w| w.key).collect();
        let mut sorted = keys.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), keys.len());
        assert!(keys.is_sorted_by_key(|k| number(k)), "{keys:?}");
        for n in 1..=23 {
            assert!(keys.iter().any(|k| number(k) == n), "W{n}");
        }
    }

    /// Operations of layers are measured with and without gradients.
    #[test]
    fn layers_run_forward_and_back() {
        let list = all();
        let is_back = |w: &&Workload| w.key.ends_with("-back");
        let (back, once): (Vec<_>, Vec<_>) =
            list.iter().filter(|w| (18..=22).contains(&number(w.key))).partition(is_back);
        assert_eq!(back.len(), once.len());
        for (back, once) in back.into_iter().zip(once) {
            assert_eq!(back.key.strip_suffix("-back"), Some(once.key));
        }
    }

    #[test]
    fn integers_are_no_leaves() {
        let list = all();
        let sums = |key| list.iter().find(|w| w.key == key).unwrap().job().unwrap().checksums().unwrap();
        assert_eq!(sums("W22-odd").len(), 1);
        // The loss, and the gradient of the table.
        assert_eq!(sums("W22-odd-back").len(), 2);
    }

    #[test]
    fn names_mean_whole_numbers() {
        let list = all();
        let meant = |name| list.iter().filter(|w| w.is_meant_by(name)).map(|w| w.key).collect::<Vec<_>>();
        assert_eq!(meant("W1"), ["W1"]);
        assert_eq!(meant("w5b"), ["W5b", "W5b-fuse"]);
        assert_eq!(meant("W5"), ["W5", "W5-fuse", "W5b", "W5b-fuse"]);
        assert!(meant("W12").contains(&"W12-64") && meant("W12").contains(&"W12b"));
        assert_eq!(meant("W12b"), ["W12b", "W12b-dense"]);
        assert!(meant("").is_empty() && meant("W").is_empty() && meant("W99").is_empty());
    }
}
