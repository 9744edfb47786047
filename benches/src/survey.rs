//! The survey: work in random shapes, layouts and types, beside PyTorch, or `fuse!` beside operators. The sweep knows the shapes that somebody thought of; this
//! finds others.

use std::fmt::{self, Display};
use std::hint::black_box;
use std::ops::Range;

use foldback::Result;
use foldback::prelude::*;
use foldback::tensor::{Conv, DType};
use serde_json::{Value, json};

use crate::inputs::hash;
use crate::sweep::Run;

/// What is surveyed. All but the last beside PyTorch; `fused` are formulas of `fuse!`, beside operators.
pub const KINDS: [&str; 5] = ["products", "pointwise", "folds", "windows", "fused"];

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
    /// axes (those that a formula is summed over), or the stride, the padding and the groups of a convolution
    numbers: Vec<usize>,
}

/// An expression as one operation, and by operators.
struct Formula {
    text: &'static str,
    operands: usize,
    fused: fn(&[Var], &[isize]) -> Result<Var>,
    by_operators: fn(&[Var]) -> Result<Var>,
}

macro_rules! formulas {
    ($(|$($x:ident),+| $formula:expr;)*) => {
        const FORMULAS: &[Formula] = &[$(Formula {
            text: stringify!($formula),
            operands: [$(stringify!($x)),+].len(),
            fused: |operands, axes| {
                let [$($x),+] = operands else { unreachable!("as many as the formula has") };
                let operands = [$($x),+];
                let fused = fuse!(|$($x),+| $formula);
                if axes.is_empty() { fused.call(operands) } else { fused.sum(operands, axes) }
            },
            by_operators: |operands| {
                let [$($x),+] = operands else { unreachable!("as many as the formula has") };
                Ok($formula)
            },
        }),*];
    };
}
formulas! {
    |x, y| x * y + y;
    |x, y| (x - y) * (x - y) * 0.5;
    |x, y| (x + y).tanh();
    |x, y| x * y.sigmoid();
    |x, y| x.relu() * y;
    |x, y| (-(x - y) * (x - y)).exp();
    |x, y| x / (y.abs() + 1.0);
    |x, y, z| x * y + z;
    |x, y, z| (x * y + z).tanh();
    |x, y, z| (x + y).gelu() * z;
    |x, y, z| (x - y) / (z.square() + 1e-3).sqrt();
    |x, y, z| x * y * z;
}

/// Numbers that are the same for the same seed.
struct Choices {
    seed: u32,
    made: u32,
    /// how many elements work has, if not as many as its kind usually does
    elements: Option<Range<usize>>,
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

/// So many pieces of work of a kind, the same for the same seed: of so many elements, if that is said and the kind is not products or windows.
pub fn works(kind: &str, seed: u32, count: usize, elements: Option<Range<usize>>) -> Vec<RandomWork> {
    let mut choices = Choices { seed, made: 0, elements };
    let make = match kind {
        "products" => product,
        "pointwise" => pointwise,
        "folds" => fold,
        "windows" => window,
        _ => fused,
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

/// Sizes that come to as many elements as are wanted, or else to so many.
fn shape(c: &mut Choices, usual: Range<usize>) -> Option<Vec<usize>> {
    let rank = 1 + c.below(4);
    let dims: Vec<usize> = (0..rank).map(|_| c.of(&SIZES)).collect();
    c.elements.as_ref().unwrap_or(&usual).contains(&dims.iter().product()).then_some(dims)
}

fn pointwise(c: &mut Choices) -> Option<RandomWork> {
    let dims = shape(c, 2_000..3_000_000)?;
    let mut other: Vec<usize> = dims.iter().map(|&n| if c.once_in(3) { 1 } else { n }).collect();
    if c.once_in(3) {
        other.drain(..c.below(dims.len()));
    }
    let (turned, double) = ([c.once_in(3), c.once_in(4)], c.once_in(4));
    let operands = vec![c.operand(&dims, turned[0], double), c.operand(&other, turned[1], double)];
    Some(RandomWork { op: c.of(&["add", "mul", "maximum"]), operands, numbers: vec![] })
}

fn fold(c: &mut Choices) -> Option<RandomWork> {
    let dims = shape(c, 2_000..3_000_000)?;
    let (turned, double) = (c.once_in(3), c.once_in(3));
    let op = c.of(&["sum", "sum", "amax", "softmax", "cumsum"]);
    let mut numbers = c.order(dims.len());
    let axes = if matches!(op, "sum" | "amax") { 1 + c.below(dims.len()) } else { 1 };
    numbers.truncate(axes);
    numbers.sort_unstable();
    Some(RandomWork { op, operands: vec![c.operand(&dims, turned, double)], numbers })
}

/// A formula, of which a third is stored, a third summed over some axes, and a third over all.
fn fused(c: &mut Choices) -> Option<RandomWork> {
    let dims = shape(c, 2..1_500_000)?;
    let (double, which) = (c.once_in(4), c.below(FORMULAS.len()));
    let mut operand = |k: usize| {
        let repeats = |c: &mut Choices| k > 0 && c.below(5) < 2;
        let own: Vec<usize> = dims.iter().map(|&n| if repeats(c) { 1 } else { n }).collect();
        let turned = c.once_in(5);
        c.operand(&own, turned, double)
    };
    let operands = (0..FORMULAS[which].operands).map(&mut operand).collect();
    let mut numbers = c.order(dims.len());
    numbers.truncate([0, 1 + c.below(dims.len()), dims.len()][c.below(3)]);
    numbers.sort_unstable();
    Some(RandomWork { op: FORMULAS[which].text, operands, numbers })
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
        let work = self.clone();
        let axes: Vec<isize> = work.numbers.iter().map(|&axis| axis as isize).collect();
        if let Some(formula) = self.formula() {
            return self.ready(passes, move |operands| (formula.fused)(operands, &axes));
        }
        if passes == Passes::Both {
            return self.ready(passes, move |operands| Ok(result_of!(work, axes, operands)));
        }
        let operands = self.operands.iter().map(Operand::tensor).collect::<Result<Vec<_>>>()?;
        Ok(Box::new(move || {
            black_box(result_of!(work, axes, &operands[..]));
            Ok(())
        }))
    }

    /// A formula by operators, ready to run.
    ///
    /// # Errors
    /// Those of the operations.
    ///
    /// # Panics
    /// If it is not of the kind `fused`.
    pub fn prepare_operators(&self, passes: Passes) -> Result<Run> {
        let (formula, axes) = (self.formula().expect("a formula"), self.numbers.clone());
        self.ready(passes, move |operands| {
            let whole = (formula.by_operators)(operands)?;
            if axes.is_empty() { Ok(whole) } else { whole.sum(&axes[..]) }
        })
    }

    fn formula(&self) -> Option<&'static Formula> {
        FORMULAS.iter().find(|formula| formula.text == self.op)
    }

    fn ready(&self, passes: Passes, result: impl Fn(&[Var]) -> Result<Var> + 'static) -> Result<Run> {
        let tensors = self.operands.iter().map(Operand::tensor).collect::<Result<Vec<_>>>()?;
        if passes == Passes::Forward {
            let operands: Vec<Var> = tensors.into_iter().map(Var::from).collect();
            return Ok(Box::new(move || {
                black_box(result(&operands)?);
                Ok(())
            }));
        }
        let operands: Vec<Var> = tensors.into_iter().map(RequiresGrad::requires_grad).collect();
        let seed = Tensor::rand_like(&result(&operands)?.value());
        Ok(Box::new(move || {
            black_box(grad_with(result(&operands)?, &operands, seed.clone())?);
            Ok(())
        }))
    }

    /// A piece of work as it is printed, of any shape: `matmul [4, 10] as [1, 0] [10000, 4], f64`.
    pub fn parse(text: &str) -> Option<RandomWork> {
        let (op, mut rest) = text.split_at(text.find(" [")?);
        let known = ["matmul", "add", "mul", "maximum", "sum", "amax", "softmax", "cumsum", "conv2d"];
        let op =
            known.into_iter().chain(FORMULAS.iter().map(|formula| formula.text)).find(|name| *name == op)?;
        let double = rest.ends_with(", f64");
        let (mut operands, mut numbers) = (Vec::<Operand>::new(), vec![]);
        while let Some(begin) = rest.find('[') {
            let (what, list) = (&rest[..begin], &rest[begin + 1..]);
            let (list, behind) = list.split_once(']')?;
            let list =
                list.split(", ").map(str::parse).collect::<std::result::Result<Vec<usize>, _>>().ok()?;
            match what {
                " " => operands.push(Operand { order: (0..list.len()).collect(), dims: list, double }),
                " as " => operands.last_mut()?.order = list,
                _ => numbers = list,
            }
            rest = behind;
        }
        let work = RandomWork { op, operands, numbers };
        work.is_whole().then_some(work)
    }

    /// Whether it has as many operands and numbers as its operation takes, and the axes of each operand in some order.
    fn is_whole(&self) -> bool {
        let (operands, numbers) = match (self.op, self.formula()) {
            (_, Some(formula)) => (formula.operands, None),
            ("matmul" | "add" | "mul" | "maximum", _) => (2, Some(0)),
            ("conv2d", _) => (2, Some(3)),
            ("softmax" | "cumsum", _) => (1, Some(1)),
            _ => (1, None),
        };
        let in_some_order = |o: &Operand| {
            let mut order = o.order.clone();
            order.sort_unstable();
            order.into_iter().eq(0..o.dims.len())
        };
        self.operands.len() == operands
            && numbers.is_none_or(|n| self.numbers.len() == n)
            && self.operands.iter().all(in_some_order)
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
            let some = works(kind, 7, 6, None);
            assert_eq!(some, works(kind, 7, 6, None));
            assert_ne!(some, works(kind, 8, 6, None));
            for work in works(kind, 9, 60, None) {
                assert_eq!(RandomWork::parse(&work.to_string()).as_ref(), Some(&work), "{work}");
            }
            for (work, passes) in some.iter().zip([Passes::Forward, Passes::Both].into_iter().cycle()) {
                work.prepare(passes).unwrap()().unwrap_or_else(|e| panic!("{work}: {e}"));
            }
        }
    }

    #[test]
    fn work_of_so_many_elements() {
        for kind in ["pointwise", "folds", "fused"] {
            for work in works(kind, 5, 20, Some(40_000..90_000)) {
                let n: usize = work.operands[0].dims.iter().product();
                assert!((40_000..90_000).contains(&n), "{work}");
            }
        }
    }

    #[test]
    fn work_of_too_few_or_too_many_operands_or_numbers_is_none() {
        for text in [
            "matmul [4, 10]",
            "add [3] [3] [3]",
            "x * y + z [9] [9]",
            "x * y + y [9] [9] [9]",
            "softmax [3, 4]",
            "conv2d [1, 2, 9, 9] [3, 2, 3, 3], [1, 0]",
            "sum [3, 4] as [0, 0], [1]",
            "sum [3, 4] as [1], [1]",
            "sum",
        ] {
            assert_eq!(RandomWork::parse(text), None, "{text}");
        }
    }

    #[test]
    fn formulas_run_both_ways() {
        for (work, passes) in
            works("fused", 3, 12, None).iter().zip([Passes::Forward, Passes::Both].into_iter().cycle())
        {
            work.prepare_operators(passes).unwrap()().unwrap_or_else(|e| panic!("{work}: {e}"));
        }
    }
}
