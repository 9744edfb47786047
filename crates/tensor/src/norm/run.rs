//! How elements are normalised: in rows where they lie so, one after another and each while it is in the cache, channel by channel
//! in a batch, else by folds.

use smallvec::SmallVec;

use super::formulas::*;
use super::over::Normalisation;
use super::rules::{InChannels, InChannelsBackward, Rows, RowsBackward};
use crate::axes::{Axes, Over, keep};
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::kernels::FloatKernel;
use crate::kernels::norm::Channels;
use crate::ops::kernel::{JointKernel, Target, fold_jointly};
use crate::shape::Shape;
use crate::task::{self, Read, SeveralRule};
use crate::tensor::Tensor;
use crate::threads::GRAIN;

/// Pieces of a batch whose gradients of weights are summed apart, at most: by sizes alone, so that the sums are the same for
/// any number of threads.
const PIECES: usize = 32;

/// A batch goes channel by channel where channels are enough for several threads, their pieces longer than a few vectors, and one
/// with its gradient fits in a second-level cache. Of 64 channels of 56 by 56 in 32 examples that takes 0.34 of the time that
/// folds do, and the backward step 0.53 (W20).
const CHANNELS: usize = 8;
const POSITIONS: usize = 64;
const CHANNEL: usize = 1 << 17;

/// How elements that belong together are gone through.
enum Traversal {
    /// as rows of so many, which lie one after another
    Rows(usize),
    /// as the channels of a batch
    Channels(Channels),
    /// in passes over all of them
    Folds,
}

/// What is known of each group: its mean, the reciprocal of its standard deviation, and its variance.
pub(super) const STATISTICS: usize = 3;

impl Normalisation {
    /// The result, and the mean, the reciprocal of the standard deviation and the variance of each group, `[groups, 3]`.
    ///
    /// # Errors
    /// `MixedDTypes` and `ShapeMismatch` for the parameters, `TooLarge`.
    pub fn forward(
        &self,
        x: &Tensor,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
    ) -> Result<(Tensor, Tensor)> {
        let rule: &dyn SeveralRule = match self.way() {
            Traversal::Rows(n) => &Rows(self, n),
            Traversal::Channels(at) => &InChannels(self, at),
            Traversal::Folds => {
                let statistics = self.statistics(x)?;
                return Ok((self.apply(x, weight, bias, &statistics)?, statistics));
            }
        };
        let own = self.laid_out(x)?;
        let parameter = |name, p: Option<&Tensor>| self.flat(name, &own, p);
        let (weight, bias) = (parameter("weight", weight)?, parameter("bias", bias)?);
        let dtype = x.dtype();
        let reads = [&own, &weight, &bias].map(|t| Read::Tensor(t, dtype));
        let moments = [own.numel() / self.count(), STATISTICS].into();
        let [y, statistics] =
            task::several(self.op, rule, &reads, [(own.shape(), dtype), (&moments, dtype)])?;
        Ok((y.reshape(x.shape())?, statistics))
    }

    /// The gradients of [`Normalisation::forward`] for the elements, the weight and the bias. Those of the parameters are
    /// empty unless they are wanted.
    ///
    /// # Errors
    /// `ShapeMismatch`, `MixedDTypes`, `TooLarge`.
    pub fn backward(
        &self,
        g: &Tensor,
        x: &Tensor,
        weight: Option<&Tensor>,
        statistics: &Tensor,
        parameters: bool,
    ) -> Result<[Tensor; 3]> {
        let count = self.parameter.numel();
        let (rule, sums): (&dyn SeveralRule, [usize; 2]) = match self.way() {
            Traversal::Folds => return self.backward_by_folds(g, x, weight, statistics),
            Traversal::Channels(at) => (&InChannelsBackward(self, at), [1, 2 * count]),
            Traversal::Rows(n) => {
                let rows = self.view.numel() / n;
                let piece = (GRAIN / n).max(1).max(rows.div_ceil(PIECES));
                let sums = [rows.div_ceil(piece), if parameters { 2 * count } else { 0 }];
                (&RowsBackward { how: self, n, piece }, sums)
            }
        };
        let (own, dtype) = (self.laid_out(x)?, x.dtype());
        let (g, weight) = (self.laid_out(&g.cast(self.op, dtype)?)?, self.flat("weight", &own, weight)?);
        let reads = [&g, &own, &weight, statistics].map(|t| Read::Tensor(t, dtype));
        let [dx, sums] = task::several(self.op, rule, &reads, [(own.shape(), dtype), (&sums.into(), dtype)])?;
        let (dx, sums) = (dx.reshape(x.shape())?, sums.sum(0)?);
        let of = |start: usize| sums.narrow(0, start as isize, count)?.reshape(&self.parameter);
        Ok(if parameters { [dx, of(0)?, of(count)?] } else { [dx, sums.clone(), sums] })
    }

    /// The gradient for the elements where the statistics are known.
    ///
    /// # Errors
    /// `ShapeMismatch`, `MixedDTypes`, `TooLarge`.
    pub fn backward_known(
        &self,
        g: &Tensor,
        x: &Tensor,
        weight: Option<&Tensor>,
        statistics: &Tensor,
    ) -> Result<[Tensor; 3]> {
        let [_, r] = self.moments(statistics)?;
        let (view, dtype) = (g.reshape(&self.view)?, x.dtype());
        let w = weight.map(|w| self.parameter("weight", x, w)).transpose()?;
        let reads = [Read::Tensor(&view, dtype), or(w.as_ref(), 1, dtype), Read::Tensor(&r, dtype)];
        let dx = task::map(self.op, &FloatKernel(FixedSlope), &reads, &self.view, dtype)?;
        let [dw, db] = self.slopes_of_parameters(g, x, statistics)?;
        Ok([dx.reshape(x.shape())?, dw, db])
    }

    /// Statistics that are known, as [`Normalisation::forward`] gives them.
    ///
    /// # Errors
    /// `ShapeMismatch`, `MixedDTypes`.
    pub fn known(&self, mean: &Tensor, var: &Tensor) -> Result<Tensor> {
        let dtype = mean.dtype();
        task::expect_one_dtype(self.op, ("mean", mean), ("var", var))?;
        let [mean, var] = [("mean", mean), ("var", var)].map(|(name, t)| self.parameter(name, mean, t));
        self.side_by_side(&mean?, &var?, dtype)
    }

    /// The elements normalised with given statistics.
    ///
    /// # Errors
    /// As [`Normalisation::forward`].
    pub fn apply(
        &self,
        x: &Tensor,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        statistics: &Tensor,
    ) -> Result<Tensor> {
        if statistics.dtype() != x.dtype() {
            let (a, b) = (("input", x.dtype()), ("mean", statistics.dtype()));
            return crate::error::refuse(crate::TensorFacts::MixedDTypes { op: self.op, a, b });
        }
        let w = weight.map(|w| self.parameter("weight", x, w)).transpose()?;
        let b = bias.map(|b| self.parameter("bias", x, b)).transpose()?;
        let ([m, r], view, dtype) = (self.moments(statistics)?, x.reshape(&self.view)?, x.dtype());
        let [x_, m, r] = [&view, &m, &r].map(|t| Read::Tensor(t, dtype));
        let reads = [x_, m, r, or(w.as_ref(), 1, dtype), or(b.as_ref(), 0, dtype)];
        task::map(self.op, &FloatKernel(Normalised), &reads, &self.view, dtype)?.reshape(x.shape())
    }

    /// The mean of each channel of a batch, and the variance with divisor `n - 1`; of instances the means of theirs. They are
    /// added to running statistics, if there are any, with the weight `momentum`, unless nothing was found.
    ///
    /// # Errors
    /// `ShapeMismatch` and `MixedDTypes` for the running statistics, `TooLarge`.
    pub fn found(
        &self,
        x: &Tensor,
        statistics: &Tensor,
        running: Option<([&Tensor; 2], f64)>,
    ) -> Result<[Tensor; 2]> {
        let n = self.count() as f64;
        let groups: Vec<usize> =
            (0..self.view.rank()).filter(|&axis| !self.takes(axis)).map(|axis| self.view[axis]).collect();
        let column = |i: isize| statistics.select(1, i)?.reshape(groups.as_slice());
        let per_channel =
            |t: Tensor| if t.rank() > 1 { t.mean(0)?.reshape(&self.parameter) } else { Ok(t.contiguous()) };
        let found = [per_channel(column(0)?)?, per_channel(column(2)?.mul(n / (n - 1.0))?)?];
        let Some(([mean, var], momentum)) = running else { return Ok(found) };
        let [new_mean, new_var] = found;
        let nothing = self.count() == 0;
        let goes_on = |name, old: &Tensor, new: Tensor| {
            self.parameter(name, x, old)?;
            if nothing {
                return Ok(old.clone());
            }
            old.mul(1.0 - momentum)?.add(new.mul(momentum)?)
        };
        Ok([goes_on("mean", mean, new_mean)?, goes_on("var", var, new_var)?])
    }

    /// How the elements that belong together are gone through.
    fn way(&self) -> Traversal {
        let (n, first) = (self.count(), self.axes[0] as usize);
        if n == 0 || self.view.numel() == 0 {
            return Traversal::Folds;
        }
        let are_last = first + self.axes.len() == self.view.rank();
        match *self.view.dims() {
            _ if are_last && n <= GRAIN => Traversal::Rows(n),
            [examples, channels, positions]
                if self.takes(0) && channels >= CHANNELS && positions >= POSITIONS && n <= CHANNEL =>
            {
                Traversal::Channels(Channels { examples, channels, positions })
            }
            _ => Traversal::Folds,
        }
    }

    fn laid_out(&self, x: &Tensor) -> Result<Tensor> {
        x.reshape(&self.view)?.laid_out(self.op)
    }

    /// A parameter in row-major order; an empty one if it is absent.
    fn flat(&self, name: &'static str, x: &Tensor, p: Option<&Tensor>) -> Result<Tensor> {
        match p {
            Some(p) => self.parameter(name, x, p)?.laid_out(self.op),
            None => Ok(Tensor::zeros_with(0, x.dtype())),
        }
    }

    fn over(&self) -> Over {
        keep(Axes::from(self.axes))
    }

    /// Whether an axis of the view is normalised over.
    fn takes(&self, axis: usize) -> bool {
        self.axes.contains(&(axis as isize))
    }

    /// How many elements are normalised together.
    pub(super) fn count(&self) -> usize {
        self.axes.iter().map(|&axis| self.view[axis as usize]).product()
    }

    /// The statistics by folds.
    fn statistics(&self, x: &Tensor) -> Result<Tensor> {
        let (x, dtype) = (x.reshape(&self.view)?, x.dtype());
        let zero = Read::Number(Scalar::I64(0), dtype);
        if self.centred {
            let (var, mean) = x.var_mean_with(self.over(), 0.0)?;
            return self.side_by_side(&mean, &var, dtype);
        }
        let square = task::map(self.op, &FloatKernel(Square), &[Read::Tensor(&x, dtype)], x.shape(), dtype)?;
        let var = square.mean(self.over())?;
        let mean = task::map(self.op, &FloatKernel(BiasSlope), &[zero], var.shape(), dtype)?;
        self.side_by_side(&mean, &var, dtype)
    }

    /// The statistics of given means and variances.
    fn side_by_side(&self, mean: &Tensor, var: &Tensor, dtype: DType) -> Result<Tensor> {
        let reads = [Read::Tensor(var, dtype), Read::Number(Scalar::F64(self.eps), dtype)];
        let inverse = task::map(self.op, &FloatKernel(Inverse), &reads, var.shape(), dtype)?;
        Tensor::stack([mean.flatten(..)?, inverse.flatten(..)?, var.flatten(..)?], 1)
    }

    /// The means and the reciprocals of the standard deviations, in the view.
    ///
    /// # Errors
    /// `TooLarge`.
    pub fn moments(&self, statistics: &Tensor) -> Result<[Tensor; 2]> {
        let kept: Vec<usize> =
            (0..self.view.rank()).map(|axis| if self.takes(axis) { 1 } else { self.view[axis] }).collect();
        Ok([
            statistics.select(1, 0)?.reshape(kept.as_slice())?,
            statistics.select(1, 1)?.reshape(kept.as_slice())?,
        ])
    }

    /// The gradients of weight and bias alone.
    ///
    /// # Errors
    /// `TooLarge`.
    pub fn slopes_of_parameters(&self, g: &Tensor, x: &Tensor, statistics: &Tensor) -> Result<[Tensor; 2]> {
        let [m, r] = self.moments(statistics)?;
        let (g, x) = (g.reshape(&self.view)?, x.reshape(&self.view)?);
        let both =
            JointKernel(&[(&FloatKernel(WeightSlope), &[0, 1, 2, 3]), (&FloatKernel(BiasSlope), &[0])]);
        let targets = [Target::of(&self.affine), Target::of(&self.affine)];
        let sums = fold_jointly(self.op, &both, &[&g, &x, &m, &r], targets.into_iter().collect())?;
        let [dw, db] = pair(sums);
        Ok([dw.reshape(&self.parameter)?, db.reshape(&self.parameter)?])
    }

    fn backward_by_folds(
        &self,
        g: &Tensor,
        x: &Tensor,
        weight: Option<&Tensor>,
        statistics: &Tensor,
    ) -> Result<[Tensor; 3]> {
        let (dtype, op) = (x.dtype(), self.op);
        let [dw, db] = self.slopes_of_parameters(g, x, statistics)?;
        let [m, r] = self.moments(statistics)?;
        let (g, view) = (g.reshape(&self.view)?, x.reshape(&self.view)?);
        let w = match weight {
            Some(w) => self.parameter("weight", x, w)?,
            None => Tensor::ones_with((), dtype),
        };
        let count = self.count() as f64;
        let behind_ones =
            |shape: &Shape| shape.dims().iter().copied().skip_while(|&n| n == 1).collect::<Vec<_>>();
        let [s, t] = if behind_ones(&self.affine) == behind_ones(m.shape()) {
            // The elements of a group have one weight.
            [db.reshape(m.shape())?.mul(&w)?, dw.reshape(m.shape())?.mul(&w)?]
        } else {
            let sums = JointKernel(&[
                (&FloatKernel(Weighted), &[0, 1]),
                (&FloatKernel(WeightedAlong), &[0, 1, 2, 3, 4]),
            ]);
            let targets = [Target::of(m.shape()), Target::of(m.shape())];
            let operands = [&g, &w, &view, &m, &r];
            pair(fold_jointly(op, &sums, &operands, targets.into_iter().collect())?)
        };
        let s = if self.centred { s.div(count)? } else { s.zeros_like() };
        let t = t.div(count)?;
        let reads = [&g, &w, &view, &m, &r, &s, &t].map(|t| Read::Tensor(t, dtype));
        let dx = task::map(op, &FloatKernel(Slope), &reads, &self.view, dtype)?;
        Ok([dx.reshape(x.shape())?, dw, db])
    }
}

fn pair(mut list: SmallVec<[Tensor; 2]>) -> [Tensor; 2] {
    let second = list.remove(1);
    [list.remove(0), second]
}

/// A tensor, or a number in its place.
fn or(t: Option<&Tensor>, number: i64, dtype: DType) -> Read<'_> {
    t.map_or(Read::Number(Scalar::I64(number), dtype), |t| Read::Tensor(t, dtype))
}
