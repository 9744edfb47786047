//! A convolution's value and gradients as rules: which loops compute them, on which operands.

use crate::create::expect_room_for;
use crate::dtype::{Block, BlockMut, Element};
use crate::error::{Here, Result};
use crate::kernels::conv::{
    Convolved, Kernel, SlideProduct, WeightProduct, slide, slide_integers, weight_gradient,
};
use crate::kernels::{BatchAxis, Onto, Product, row_major};
use crate::task::{self, Read, WholeRule};
use crate::tensor::Tensor;

use super::plan::Convolution;

#[doc(hidden)]
impl Convolution {
    /// The output, given input and weight, plus a bias for each of its channels.
    ///
    /// # Errors
    /// `ShapeMismatch`, `MixedDTypes`, `TooLarge`.
    #[track_caller]
    pub fn output(&self, x: &Tensor, w: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        self.expect("input", x, &self.input, x.dtype()).here()?;
        self.make(ConvProduct::Output, [x, w], bias).here()
    }

    /// The gradient of the input, given those of the output and the weight; or a transposed convolution.
    ///
    /// # Errors
    /// As [`Convolution::output`].
    #[track_caller]
    pub fn input(&self, g: &Tensor, w: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        self.expect("gradient", g, &self.output, g.dtype()).here()?;
        self.make(ConvProduct::Input, [g, w], bias).here()
    }

    /// The gradient of the weight, given that of the output and the input.
    ///
    /// # Errors
    /// As [`Convolution::output`].
    #[track_caller]
    pub fn weight(&self, g: &Tensor, x: &Tensor) -> Result<Tensor> {
        self.expect("gradient", g, &self.output, g.dtype()).here()?;
        self.expect("input", x, &self.input, g.dtype()).here()?;
        self.whole(ConvProduct::Weight, &[g, x]).here()
    }

    fn make(&self, way: ConvProduct, [a, w]: [&Tensor; 2], bias: Option<&Tensor>) -> Result<Tensor> {
        self.expect("weight", w, &self.weight, a.dtype())?;
        let Some(bias) = bias else { return self.whole(way, &[a, w]) };
        let rows = if let ConvProduct::Output = way { self.rows } else { self.channels };
        self.expect("bias", bias, &(self.groups * rows).into(), a.dtype())?;
        self.whole(way, &[a, w, bias])
    }

    fn whole(&self, way: ConvProduct, operands: &[&Tensor]) -> Result<Tensor> {
        let dtype = operands[0].dtype();
        let mut laid = Vec::with_capacity(operands.len());
        for t in operands {
            laid.push(t.laid_out(self.op)?);
        }
        // What tasks lay out of a weight takes as much as it.
        expect_room_for(self.op, &self.weight, self.weight.numel().saturating_mul(2), dtype)?;
        let reads: Vec<Read<'_>> = laid.iter().map(|t| Read::Tensor(t, dtype)).collect();
        let shape = match way {
            ConvProduct::Output => &self.output,
            ConvProduct::Input => &self.input,
            ConvProduct::Weight => &self.weight,
        };
        task::whole(self.op, &ConvRule { plan: self, way }, &reads, shape, dtype)
    }
}

/// Which of a convolution's three products.
#[derive(Clone, Copy)]
enum ConvProduct {
    Output,
    Input,
    Weight,
}

struct ConvRule<'a> {
    plan: &'a Convolution,
    way: ConvProduct,
}

impl WholeRule for ConvRule<'_> {
    fn run(&self, _: &'static str, reads: &[&Tensor], out: BlockMut<'_>) -> Result<()> {
        let blocks: Vec<Block<'_>> = reads.iter().map(|t| t.as_block().expect("it is laid out")).collect();
        match out {
            BlockMut::F32(out) => self.typed(&blocks, out),
            BlockMut::F64(out) => self.typed(&blocks, out),
            BlockMut::I64(out) => self.integers(&blocks, out),
            other => unreachable!("the meta step refuses {:?}", other.dtype()),
        }
        Ok(())
    }
}

impl ConvRule<'_> {
    fn typed<T: Convolved>(&self, blocks: &[Block<'_>], out: &mut [T]) {
        let (a, b, bias) = operands(blocks);
        if self.plan.is_plain() {
            self.product(a, b, bias, out);
        } else if let ConvProduct::Weight = self.way {
            self.weight(a, b, out);
        } else {
            slide(&self.job(a, b, bias), out);
        }
    }

    /// Integers have no gradients, so that there is no weight's.
    fn integers(&self, blocks: &[Block<'_>], out: &mut [i64]) {
        let (a, b, bias) = operands(blocks);
        slide_integers(&self.job(a, b, bias), out);
    }

    fn job<'a, T>(&self, source: &'a [T], weight: &'a [T], bias: Option<&'a [T]>) -> SlideProduct<'a, T> {
        let p = self.plan;
        let kernel = p.axes.map(|a| a.kernel);
        let taps = kernel[0] * kernel[1];
        let [row, channel] = [p.channels * taps, taps];
        let (rows, channels, sizes, sweeps, [row_step, channel_step]) = match self.way {
            ConvProduct::Output => {
                let sweeps = p.axes.each_ref().map(|a| vec![a.forward()]);
                (p.rows, p.channels, p.axes.map(|a| a.output), sweeps, [row, channel])
            }
            _ => {
                let sweeps = p.axes.each_ref().map(|a| a.backward());
                (p.channels, p.rows, p.axes.map(|a| a.input), sweeps, [channel, row])
            }
        };
        let group_step = p.rows * row;
        let weight = Kernel { data: weight, group_step, row_step, channel_step, sizes: kernel };
        let (items, groups) = (p.items, p.groups);
        SlideProduct { items, groups, rows, channels, source, weight, bias, sizes, sweeps }
    }

    fn weight<T: Convolved>(&self, gradient: &[T], source: &[T], out: &mut [T]) {
        let p = self.plan;
        let (sweeps, kernel) = (p.axes.each_ref().map(|a| a.forward()), p.axes.map(|a| a.kernel));
        let (items, groups, rows, channels) = (p.items, p.groups, p.rows, p.channels);
        weight_gradient(
            &WeightProduct { items, groups, rows, channels, gradient, source, sweeps, kernel },
            out,
        );
    }

    /// Where every output meets one element of each channel: a product of matrices as they lie.
    fn product<T: Convolved>(&self, a: &[T], b: &[T], bias: Option<&[T]>, out: &mut [T]) {
        let p = self.plan;
        let places = p.axes[0].input * p.axes[1].input;
        let (inner, outer) = (p.channels * places, p.rows * places);
        let weight = p.rows * p.channels;
        let batch =
            |size: usize, a: usize, b: usize| BatchAxis { size, a_step: a as isize, b_step: b as isize };
        let scale = T::of_count(1);
        if let ConvProduct::Weight = self.way {
            let kept = [batch(p.groups, outer, inner)];
            let summed = [batch(p.items, p.groups * outer, p.groups * inner)];
            let (m, n, k) = (p.rows, p.channels, places);
            let (a, b) = (row_major(a, places), row_major(b, places).transposed());
            return Product { m, n, k, a, b, kept: &kept, summed: &summed, scale }.run(out, Onto::Nothing);
        }
        let (m, k, step, w) = match self.way {
            ConvProduct::Output => (p.rows, p.channels, inner, row_major(b, p.channels)),
            _ => (p.channels, p.rows, outer, row_major(b, p.channels).transposed()),
        };
        let kept = [batch(p.items, 0, p.groups * step), batch(p.groups, weight, step)];
        let mut onto = Onto::Nothing;
        if let Some(bias) = bias
            && places > 0
        {
            out.chunks_exact_mut(places).zip(bias.iter().cycle()).for_each(|(o, &b)| o.fill(b));
            onto = Onto::Result;
        }
        Product { m, n: places, k, a: w, b: row_major(a, places), kept: &kept, summed: &[], scale }
            .run(out, onto);
    }
}

/// Two operands and perhaps a bias.
fn operands<'a, T: Element>(blocks: &[Block<'a>]) -> (&'a [T], &'a [T], Option<&'a [T]>) {
    let slice = |i: usize| T::slice(blocks[i]).expect("the meta step compares the types");
    (slice(0), slice(1), (blocks.len() > 2).then(|| slice(2)))
}
