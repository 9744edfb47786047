//! Which elements are normalised together, and which share a weight: all that the operations differ in.

use crate::dtype::DType;
use crate::error::{Result, TensorFacts, refuse};
use crate::ops::AsOptionalArg;
use crate::ops::reduce::expect_float;
use crate::shape::Shape;
use crate::tensor::Tensor;

use super::Norm;

/// PyTorch's default for all but `rms_norm`.
const EPS: f64 = 1e-5;

/// A normalisation of tensors of one shape: a view of it, the axes of that view that are normalised over, and how weights
/// lie in it.
#[derive(Clone, Debug)]
pub struct Normalisation {
    pub(super) op: &'static str,
    /// the shape in which groups are whole axes
    pub view: Shape,
    /// the axes of the view that are normalised over
    pub axes: &'static [isize],
    /// the shape of weights in the view
    pub affine: Shape,
    /// the shape of weights as they are given
    pub parameter: Shape,
    /// what is added to the variance
    pub eps: f64,
    /// whether the mean is taken off
    pub centred: bool,
}

impl Normalisation {
    /// Over the last axes.
    ///
    /// # Errors
    /// `DTypeUnsupported`, `Parameter` for a shape without axes, `ShapeMismatch`.
    pub fn layer(op: &'static str, x: &Tensor, shape: Shape, eps: Option<f64>) -> Result<Normalisation> {
        expect_float(op, x)?;
        if shape.rank() == 0 {
            let value = shape.to_string();
            return refuse(TensorFacts::Parameter {
                op,
                name: "shape",
                value,
                expected: "one axis at least",
            });
        }
        let outer = x.rank().saturating_sub(shape.rank());
        if x.dims()[outer..] != *shape.dims() {
            let found = x.dims()[outer..].into();
            return refuse(TensorFacts::ShapeMismatch { op, operand: "input's end", expected: shape, found });
        }
        let (rows, n) = (Shape::from(&x.dims()[..outer]).numel(), shape.numel());
        let (view, affine, eps) = ([rows, n].into(), n.into(), eps.unwrap_or(EPS));
        Ok(Normalisation { op, view, axes: &[1], affine, parameter: shape, eps, centred: true })
    }

    /// Over the last axes, about zero.
    ///
    /// # Errors
    /// As [`Normalisation::layer`].
    pub fn rms(op: &'static str, x: &Tensor, shape: Shape, eps: Option<f64>) -> Result<Normalisation> {
        let own = if x.dtype() == DType::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON };
        let how = Normalisation::layer(op, x, shape, Some(eps.unwrap_or(own)))?;
        Ok(Normalisation { centred: false, ..how })
    }

    /// Over groups of channels.
    ///
    /// # Errors
    /// `DTypeUnsupported`, `Rank`, `Parameter`.
    pub fn group(op: &'static str, x: &Tensor, groups: usize, eps: Option<f64>) -> Result<Normalisation> {
        let [n, c, s] = channels(op, x)?;
        if groups == 0 || !c.is_multiple_of(groups) {
            let (name, value) = ("groups", format!("{groups} for {c} channels"));
            let expected = "a number that divides the channels, the size of axis 1";
            return refuse(TensorFacts::Parameter { op, name, value, expected });
        }
        if c == 0 || s == 0 {
            return too_few(op, x, "at least one channel and one position");
        }
        if [n, c / groups, s] == [1, 1, 1] {
            return too_few(op, x, "more than one value per group in all");
        }
        Ok(grouped(op, [n, groups, c / groups, s], eps))
    }

    /// Over the positions of each channel.
    ///
    /// # Errors
    /// `DTypeUnsupported`, `Rank`, `Parameter`.
    pub fn instance(op: &'static str, x: &Tensor, eps: Option<f64>) -> Result<Normalisation> {
        let [n, c, s] = channels(op, x)?;
        if x.rank() < 3 {
            return refuse(TensorFacts::Rank { op, operand: "", expected: "at least 3", found: x.rank() });
        }
        if s == 1 {
            return too_few(op, x, "more than one position");
        }
        Ok(grouped(op, [n, c, 1, s], eps))
    }

    /// Over the batch and its positions, with statistics that are known. A list of nothing is a batch of nothing without
    /// channels, as in PyTorch.
    ///
    /// # Errors
    /// `DTypeUnsupported`, `Rank`, `Parameter`.
    pub fn batch(op: &'static str, x: &Tensor, eps: Option<f64>) -> Result<Normalisation> {
        expect_float(op, x)?;
        let [n, c, s] = if *x.dims() == [0] { [0, 0, 1] } else { channels(op, x)? };
        let eps = eps.unwrap_or(EPS);
        if eps < 0.0 {
            let value = eps.to_string();
            return refuse(TensorFacts::Parameter { op, name: "eps", value, expected: "zero or more" });
        }
        let (view, affine) = ([n, c, s].into(), [c, 1].into());
        Ok(Normalisation { op, view, axes: &[0, 2], affine, parameter: c.into(), eps, centred: true })
    }

    /// The same with the statistics of the batch.
    ///
    /// # Errors
    /// As [`Normalisation::batch`], and `Parameter` for a single value per channel.
    pub fn batch_train(op: &'static str, x: &Tensor, eps: Option<f64>) -> Result<Normalisation> {
        let how = Normalisation::batch(op, x, eps)?;
        if how.eps == 0.0 {
            let (value, expected) = ("0".into(), "above zero in training");
            return refuse(TensorFacts::Parameter { op, name: "eps", value, expected });
        }
        if (how.view[0], how.view[2]) == (1, 1) {
            return too_few(
                op,
                x,
                "more than one value per channel in training: a larger batch, or a model after eval()",
            );
        }
        Ok(how)
    }

    /// The result alone.
    pub(super) fn of(
        &self,
        x: &Tensor,
        options: &Norm<impl AsOptionalArg, impl AsOptionalArg>,
    ) -> Result<Tensor> {
        Ok(self.forward(x, options.weight.optional_arg(), options.bias.optional_arg())?.0)
    }

    /// The result, and the statistics found, or those that go on with running ones.
    pub(super) fn train(
        &self,
        x: &Tensor,
        options: &Norm<impl AsOptionalArg, impl AsOptionalArg>,
        running: Option<([&Tensor; 2], f64)>,
    ) -> Result<(Tensor, Tensor, Tensor)> {
        let (y, statistics) = self.forward(x, options.weight.optional_arg(), options.bias.optional_arg())?;
        let [mean, var] = self.found(x, &statistics, running)?;
        Ok((y, mean, var))
    }

    /// A parameter in the view, unless its shape or type is another one than it must be.
    pub(super) fn parameter(&self, name: &'static str, x: &Tensor, parameter: &Tensor) -> Result<Tensor> {
        let op = self.op;
        if parameter.dtype() != x.dtype() {
            let (a, b) = (("input", x.dtype()), (name, parameter.dtype()));
            return refuse(TensorFacts::MixedDTypes { op, a, b });
        }
        if *parameter.shape() != self.parameter {
            let (expected, found) = (self.parameter.clone(), parameter.shape().clone());
            return refuse(TensorFacts::ShapeMismatch { op, operand: name, expected, found });
        }
        parameter.reshape(&self.affine)
    }
}

/// Sizes of a batch, its channels and the positions of each.
fn channels(op: &'static str, x: &Tensor) -> Result<[usize; 3]> {
    expect_float(op, x)?;
    match *x.dims() {
        [n, c, ref positions @ ..] => Ok([n, c, Shape::from(positions).numel()]),
        _ => refuse(TensorFacts::Rank { op, operand: "", expected: "at least 2", found: x.rank() }),
    }
}

fn grouped(op: &'static str, [n, groups, each, s]: [usize; 4], eps: Option<f64>) -> Normalisation {
    let (view, affine) = ([n, groups, each, s].into(), [groups, each, 1].into());
    let (parameter, eps) = ((groups * each).into(), eps.unwrap_or(EPS));
    Normalisation { op, view, axes: &[2, 3], affine, parameter, eps, centred: true }
}

fn too_few<T>(op: &'static str, x: &Tensor, expected: &'static str) -> Result<T> {
    refuse(TensorFacts::Parameter { op, name: "the input's shape", value: x.shape().to_string(), expected })
}
