//! The survey: work in random shapes, layouts and types, beside PyTorch. The sweep knows the shapes that somebody thought of; this finds others.

use std::fmt::{self, Display};
use std::hint::black_box;

use foldback::Result;
use foldback::prelude::*;
use foldback::tensor::{Conv, DType};
use serde_json::{Value, json};

use crate::inputs::hash;
use crate::sweep::Run;

/// What is surveyed.
pub const KINDS: [&str; 4] = ["products", "pointwise", "folds", "windows"];

/// Whether work is done forward, or forward and back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Passes {
    /// the result
    Forward,
    /// the result, recorded, and the gradients of all operands
    Both,
}

/// An operand as it lies in memory, and the order in which its axes are read.
#[derive(Clone, PartialEq, Debug)]
pub struct Operand {
    dims: Vec<usize>,
    order: Vec<usize>,
    double: bool,
}

/// One piece of work.
#[derive(Clone, PartialEq, Debug)]
pub struct RandomWork {
    op: &'static str,
    operands: Vec<Operand>,
    /// axes, or the stride, the padding and the groups of a convolution
    numbers: Vec<usize>,
}

/// Numbers that are the same for the same seed.
struct Choices {
    seed: u32,
    made: u32,
}

impl Choices {
    fn below(&mut self, n: usize) -> usize {
        self.made += 1;
        hash(self.made, self.seed) as usize % n
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// The first `n` numbers in some order.
    fn order(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in 0..n {
            order.swap(i, i + self.below(n - i));
        }
        order
    }

    fn operand(&mut self, read: &[usize], turned: bool, double: bool) -> Operand {
        let order = if turned { self.order(read.len()) } else { (0..read.len()).collect() };
        let mut dims = vec![0; read.len()];
        order.iter().zip(read).for_each(|(&axis, &n)| dims[axis] = n);
        Operand { dims, order, double }
    }
}

const SIZES: [usize; 26] = [
    1, 2, 3, 4, 5, 7, 8, 9, 10, 16, 17, 25, 32, 33, 50, 64, 77, 100, 128, 200, 256, 300, 500, 1000, 3000,
    10_000,
];

/// So many pieces of work of a kind, the same for the same seed.
pub fn works(kind: &str, seed: u32, count: usize) -> Vec<RandomWork> {
    let mut choices = Choices { seed, made: 0 };
    let make = match kind {
        "products" => product,
        "pointwise" => pointwise,
        "folds" => fold,
        _ => window,
    };
    std::iter::repeat_with(|| make(&mut choices)).flatten().take(count).collect()
}

/// `None` where it would be too much or too little for a measurement.
fn product(c: &mut Choices) -> Option<RandomWork> {
    let [m, k, n] = [c.of(&SIZES), c.of(&SIZES), c.of(&SIZES)];
    let batch = if c.once_in(4) { c.of(&[2, 3, 8, 10, 32, 100]) } else { 1 };
    let double = c.once_in(5);
    let largest = (m * k).max(k * n).max(m * n) * batch;
    let fits = (20_000..300_000_000).contains(&(batch * m * k * n)) && largest < 4_000_000 && m.min(n) > 1;
    let mut matrix = |rows: usize, cols: usize| {
        let turned = c.once_in(2);
        let (dims, order) = if turned { ([cols, rows], [1, 0]) } else { ([rows, cols], [0, 1]) };
        let (mut all, mut axes) = (dims.to_vec(), order.to_vec());
        if batch > 1 {
            all.insert(0, batch);
            axes = vec![0, 1 + order[0], 1 + order[1]];
        }
        Operand { dims: all, order: axes, double }
    };
    fits.then(|| RandomWork { op: "matmul", operands: vec![matrix(m, k), matrix(k, n)], numbers: vec![] })
}

/// Sizes that come to some thousands to some millions of elements.
fn shape(c: &mut Choices) -> Option<Vec<usize>> {
    let rank = 1 + c.below(4);
    let dims: Vec<usize> = (0..rank).map(|_| c.of(&SIZES)).collect();
    (2_000..3_000_000).contains(&dims.iter().product::<usize>()).then_some(dims)
}

fn pointwise(c: &mut Choices) -> Option<RandomWork> {
    let dims = shape(c)?;
    let mut other: Vec<usize> = dims.iter().map(|&n| if c.once_in(3) { 1 } else { n }).collect();
    if c.once_in(3) {
        other.drain(..c.below(dims.len()));
    }
    let (turned, double) = ([c.once_in(3), c.once_in(4)], c.once_in(4));
    let operands = vec![c.operand(&dims, turned[0], double), c.operand(&other, turned[1], double)];
    Some(RandomWork { op: c.of(&["add", "mul", "maximum"]), operands, numbers: vec![] })
}

fn fold(c: &mut Choices) -> Option<RandomWork> {
    let dims = shape(c)?;
    let (turned, double) = (c.once_in(3), c.once_in(3));
    let op = c.of(&["sum", "sum", "amax", "softmax", "cumsum"]);
    let mut numbers = c.order(dims.len());
    let axes = if matches!(op, "sum" | "amax") { 1 + c.below(dims.len()) } else { 1 };
    numbers.truncate(axes);
    numbers.sort_unstable();
    Some(RandomWork { op, operands: vec![c.operand(&dims, turned, double)], numbers })
}

fn window(c: &mut Choices) -> Option<RandomWork> {
    let (items, inputs, outputs) =
        (c.of(&[1, 2, 8, 32]), c.of(&[1, 3, 8, 16, 32, 64]), c.of(&[1, 4, 8, 24, 64, 100]));
    let (height, kernel) = (c.of(&[5, 7, 14, 16, 28, 33, 56]), c.of(&[1, 2, 3, 3, 5, 7]));
    let (width, stride) = (c.of(&[height, height, 17, 40]), c.of(&[1, 1, 2]));
    let padding = c.of(&[0, kernel / 2]);
    let (outputs, groups) = if c.once_in(4) { (inputs, inputs) } else { (outputs, 1) };
    let places = (height / stride) * (width / stride) * outputs * items;
    let work = places * (inputs / groups) * kernel * kernel;
    let fits = height.min(width) + 2 * padding >= kernel && (100_000..200_000_000).contains(&work);
    let x = c.operand(&[items, inputs, height, width], false, false);
    let w = c.operand(&[outputs, inputs / groups, kernel, kernel], false, false);
    fits.then(|| RandomWork { op: "conv2d", operands: vec![x, w], numbers: vec![stride, padding, groups] })
}

impl Operand {
    fn tensor(&self) -> Result<Tensor> {
        let dtype = if self.double { DType::F64 } else { DType::F32 };
        let order: Vec<isize> = self.order.iter().map(|&axis| axis as isize).collect();
        Tensor::rand(&self.dims[..]).to(dtype).permute(order)
    }
}

/// The result of a piece of work for operands of a type.
macro_rules! result_of {
    ($work:expr, $axes:expr, $operands:expr) => {
        match ($work.op, $operands) {
            ("matmul", [a, b]) => a.matmul(b)?,
            ("add", [a, b]) => a.add(b)?,
            ("mul", [a, b]) => a.mul(b)?,
            ("maximum", [a, b]) => a.maximum(b)?,
            ("sum", [a]) => a.sum(&$axes[..])?,
            ("amax", [a]) => a.amax(&$axes[..])?,
            ("softmax", [a]) => a.softmax($axes[0])?,
            ("cumsum", [a]) => a.cumsum($axes[0])?,
            (_, operands) => {
                let [stride, padding, groups] = $work.numbers[..] else { unreachable!("of a convolution") };
                let how = Conv::new().stride(stride).padding(padding).groups(groups);
                operands[0].conv2d_with(&operands[1], how)?
            }
        }
    };
}

impl RandomWork {
    /// Ours, ready to run: the result, or the gradients of all operands, too, for a dense gradient of the result.
    ///
    /// # Errors
    /// Those of the operation.
    pub fn prepare(&self, passes: Passes) -> Result<Run> {
        let operands = self.operands.iter().map(Operand::tensor).collect::<Result<Vec<_>>>()?;
        let work = self.clone();
        let axes: Vec<isize> = work.numbers.iter().map(|&axis| axis as isize).collect();
        if passes == Passes::Forward {
            return Ok(Box::new(move || {
                black_box(result_of!(work, axes, &operands[..]));
                Ok(())
            }));
        }
        let operands: Vec<Var> = operands.into_iter().map(RequiresGrad::requires_grad).collect();
        let seed = Tensor::rand_like(&result_of!(work, axes, &operands[..]).value());
        Ok(Box::new(move || {
            black_box(grad_with(result_of!(work, axes, &operands[..]), &operands, seed.clone())?);
            Ok(())
        }))
    }

    /// For `python/survey.py`.
    pub fn to_json(&self) -> Value {
        let operand = |o: &Operand| json!({"dims": o.dims, "order": o.order, "double": o.double});
        json!({
            "op": self.op,
            "operands": self.operands.iter().map(operand).collect::<Vec<_>>(),
            "numbers": self.numbers,
        })
    }
}

impl Display for RandomWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.op)?;
        for operand in &self.operands {
            write!(f, " {:?}", operand.dims)?;
            if !operand.order.is_sorted() {
                write!(f, " as {:?}", operand.order)?;
            }
        }
        if !self.numbers.is_empty() {
            write!(f, ", {:?}", self.numbers)?;
        }
        if self.operands[0].double { write!(f, ", f64") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_is_the_same_work_which_runs() {
        for kind in KINDS {
            let some = works(kind, 7, 6);
            assert_eq!(some, works(kind, 7, 6));
            assert_ne!(some, works(kind, 8, 6));
            for (work, passes) in some.iter().zip([Passes::Forward, Passes::Both].into_iter().cycle()) {
                work.prepare(passes).unwrap()().unwrap_or_else(|e| panic!("{work}: {e}"));
            }
        }
    }
}
