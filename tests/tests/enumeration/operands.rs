//! The operands: every shape in every layout, with numbers that are exact.

use std::sync::OnceLock;

use foldback_tensor::{DType, Tensor};
use tests::oracle::{Layout, Plain, Random, shapes};

use crate::STRIDE;

/// The numbers an operand is filled with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fill {
    /// -2, -1.5, ..., 2: with zeros, and with ties between the operands
    Halves,
    /// plus or minus a power of two
    Divisor,
    /// 0.5, 1, ..., 3
    Base,
}

impl Fill {
    const ALL: [Fill; 3] = [Fill::Halves, Fill::Divisor, Fill::Base];

    pub(crate) fn next(self, random: &mut Random) -> f64 {
        match self {
            Fill::Halves => random.below(9) as f64 / 2.0 - 2.0,
            Fill::Divisor => [0.5, 1.0, 2.0, 4.0, -0.5, -1.0, -2.0, -4.0][random.below(8)],
            Fill::Base => (random.below(6) + 1) as f64 / 2.0,
        }
    }
}

pub(crate) const FLOATS: [DType; 2] = [DType::F32, DType::F64];

/// A tensor, and the numbers it was made of.
type Operand = (Tensor, Plain);

/// All shapes, and every operand that the cases are put together from.
pub(crate) struct World {
    pub(crate) shapes: Vec<Vec<usize>>,
    /// by side, fill, element type, shape and layout
    pub(crate) operands: Vec<Operand>,
    /// truth values, by shape and layout
    pub(crate) conditions: Vec<Operand>,
}

const SIDES: usize = 3;

impl World {
    pub(crate) fn get() -> &'static World {
        static WORLD: OnceLock<World> = OnceLock::new();
        WORLD.get_or_init(World::new)
    }

    pub(crate) fn new() -> World {
        let shapes = shapes(4, &[0, 1, 2, 3]);
        let mut random = Random(1);
        let mut operands = Vec::new();
        for _side in 0..SIDES {
            for fill in Fill::ALL {
                for dtype in FLOATS {
                    for shape in &shapes {
                        for layout in Layout::ALL {
                            let next = || fill.next(&mut random);
                            operands.push(layout.strided(shape).fill(dtype, f64::NAN, next));
                        }
                    }
                }
            }
        }
        let mut conditions = Vec::new();
        for shape in &shapes {
            for layout in Layout::ALL {
                conditions.push(layout.strided(shape).fill(DType::Bool, 1.0, || random.below(2) as f64));
            }
        }
        World { shapes, operands, conditions }
    }

    /// An operand: side 0 and 1 are left and right, side 2 are seeds.
    pub(crate) fn operand(
        &self,
        side: usize,
        fill: Fill,
        dtype: DType,
        shape: usize,
        layout: usize,
    ) -> &Operand {
        let kind = (side * Fill::ALL.len() + fill as usize) * FLOATS.len() + (dtype == DType::F64) as usize;
        &self.operands[(kind * self.shapes.len() + shape) * Layout::ALL.len() + layout]
    }

    pub(crate) fn condition(&self, shape: usize, layout: usize) -> &Operand {
        &self.conditions[shape * Layout::ALL.len() + layout]
    }

    /// The number of a shape. Shapes are listed by rank, and in a rank as numbers to the base 4.
    pub(crate) fn number(&self, shape: &[usize]) -> usize {
        let first = (4usize.pow(shape.len() as u32) - 1) / 3;
        let number = first + shape.iter().fold(0, |n, &size| 4 * n + size);
        debug_assert_eq!(self.shapes[number], shape);
        number
    }

    /// The pairs of shapes to go through: all, or, in a debug build, within each pair of ranks the first few and then
    /// those at the stride.
    pub(crate) fn pairs(&self) -> Vec<(usize, usize)> {
        let n = self.shapes.len();
        let mut seen = [[0usize; 5]; 5];
        let mut pairs = Vec::new();
        for (i, j) in (0..n * n).map(|k| (k / n, k % n)) {
            let seen = &mut seen[self.shapes[i].len()][self.shapes[j].len()];
            *seen += 1;
            if *seen <= 16 || seen.is_multiple_of(STRIDE) {
                pairs.push((i, j));
            }
        }
        pairs
    }
}

pub(crate) const HALVES: [Fill; 2] = [Fill::Halves; 2];
