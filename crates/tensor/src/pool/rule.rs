//! Pooling and interpolation as rules: the planned operations, each with its transpose.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::dtype::{BlockMut, DType, Element};
use crate::error::{Here, Result, TensorFacts, refuse};
use crate::kernels::planes::{
    Blend, Windows, add_places, blend, blend_integers, largest, spread, take_places,
};
use crate::shape::Shape;
use crate::task::{self, Read, SeveralRule, WholeRule};
use crate::tensor::Tensor;

use super::plan::Images;

/// Weighted sums along both axes of images, and their transpose: means and interpolations.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Blended {
    images: Images,
    blends: Arc<[Blend; 2]>,
}

/// The largest elements of windows, and their transpose, given their places.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Picked {
    images: Images,
    axes: usize,
    places: Tensor,
}

#[doc(hidden)]
impl Blended {
    pub(super) fn new(images: Images, blends: [Blend; 2]) -> Blended {
        Blended { images, blends: Arc::new(blends) }
    }

    /// The same of `count` times as many images, along an axis in front.
    #[must_use]
    pub fn behind(&self, count: usize) -> Blended {
        Blended { images: self.images.behind(count), blends: self.blends.clone() }
    }

    /// The images that become of these.
    ///
    /// # Errors
    /// `ShapeMismatch`, `DTypeUnsupported`, `TooLarge`.
    #[track_caller]
    pub fn output(&self, x: &Tensor) -> Result<Tensor> {
        self.images
            .whole(&BlendSums(&self.blends, false), &[x], &self.images.input, &self.images.output)
            .here()
    }

    /// The gradient of the images, given that of what becomes of them.
    ///
    /// # Errors
    /// As [`Blended::output`].
    #[track_caller]
    pub fn input(&self, g: &Tensor) -> Result<Tensor> {
        self.images
            .whole(&BlendSums(&self.blends, true), &[g], &self.images.output, &self.images.input)
            .here()
    }
}

#[doc(hidden)]
impl Picked {
    /// The largest elements, and where they lie.
    pub(super) fn of(
        images: Images,
        windows: [Windows; 2],
        axes: usize,
        x: &Tensor,
    ) -> Result<(Tensor, Picked)> {
        let (op, laid) = (images.op, x.laid_out(images.op)?);
        let results = [(&images.output, x.dtype()), (&images.output, DType::I64)];
        let [y, places] = task::several(op, &Largest(&windows), &[Read::Tensor(&laid, x.dtype())], results)?;
        Ok((y, Picked { images, axes, places }))
    }

    /// The same places in `count` times as many images, along an axis in front.
    ///
    /// # Errors
    /// `TooLarge`.
    #[track_caller]
    pub fn behind(&self, count: usize) -> Result<Picked> {
        let images = self.images.behind(count);
        let places = self.places.expand(&images.output).and_then(|places| places.try_contiguous()).here()?;
        Ok(Picked { images, axes: self.axes, places })
    }

    /// Where the largest elements lie: their places in the flat image.
    pub fn places(&self) -> Tensor {
        self.places.clone()
    }

    /// The largest elements.
    ///
    /// # Errors
    /// `ShapeMismatch`, `DTypeUnsupported`, `TooLarge`.
    #[track_caller]
    pub fn output(&self, x: &Tensor) -> Result<Tensor> {
        let (from, to) = (&self.images.input, &self.images.output);
        self.images.whole(&Moved(self.axes, false), &[x, &self.places], from, to).here()
    }

    /// The gradient of the images, given that of their largest elements.
    ///
    /// # Errors
    /// As [`Picked::output`].
    #[track_caller]
    pub fn input(&self, g: &Tensor) -> Result<Tensor> {
        let (from, to) = (&self.images.output, &self.images.input);
        self.images.whole(&Moved(self.axes, true), &[g, &self.places], from, to).here()
    }
}

impl Images {
    /// The result of a rule, of what has the shape `from` and is real.
    pub(super) fn whole(
        &self,
        rule: &dyn WholeRule,
        operands: &[&Tensor],
        from: &Shape,
        to: &Shape,
    ) -> Result<Tensor> {
        let (op, x) = (self.op, operands[0]);
        if x.shape() != from {
            let (expected, found) = (from.clone(), x.shape().clone());
            return refuse(TensorFacts::ShapeMismatch { op, operand: "operand", expected, found });
        }
        let laid = x.laid_out(op)?;
        let mut reads = vec![Read::Tensor(&laid, x.dtype())];
        reads.extend(operands[1..].iter().map(|t| Read::Tensor(t, t.dtype())));
        task::whole(op, rule, &reads, to, x.dtype())
    }
}

fn own<T: Element>(t: &Tensor) -> &[T] {
    t.as_slice().expect("it is laid out, in the type of the result")
}

/// Sums, or their transpose.
struct BlendSums<'a>(&'a [Blend; 2], bool);

impl WholeRule for BlendSums<'_> {
    fn run(&self, _: &'static str, reads: &[&Tensor], out: BlockMut<'_>) -> Result<()> {
        let blends = [&self.0[0], &self.0[1]];
        match (out, self.1) {
            (BlockMut::F32(out), false) => blend::<f32>(own(reads[0]), blends, out),
            (BlockMut::F64(out), false) => blend::<f64>(own(reads[0]), blends, out),
            (BlockMut::I64(out), false) => blend_integers(own(reads[0]), blends, out),
            (BlockMut::F32(out), true) => spread::<f32>(own(reads[0]), blends, out),
            (BlockMut::F64(out), true) => spread::<f64>(own(reads[0]), blends, out),
            (other, _) => unreachable!("the meta step refuses {:?}", other.dtype()),
        }
        Ok(())
    }
}

/// The largest elements, alone or with their places.
pub(super) struct Largest<'a>(pub(super) &'a [Windows; 2]);

impl Largest<'_> {
    fn write(&self, x: &Tensor, values: BlockMut<'_>, places: &mut [i64]) {
        let windows = self.0.each_ref();
        match values {
            BlockMut::F32(values) => largest::<f32>(own(x), windows, values, places),
            BlockMut::F64(values) => largest::<f64>(own(x), windows, values, places),
            BlockMut::I64(values) => largest::<i64>(own(x), windows, values, places),
            BlockMut::Bool(_) => unreachable!("the meta step refuses bool"),
        }
    }
}

impl WholeRule for Largest<'_> {
    fn run(&self, _: &'static str, reads: &[&Tensor], out: BlockMut<'_>) -> Result<()> {
        self.write(reads[0], out, &mut []);
        Ok(())
    }
}

impl SeveralRule for Largest<'_> {
    fn run(&self, _: &'static str, reads: &[&Tensor], outs: SmallVec<[BlockMut<'_>; 2]>) -> Result<()> {
        let Ok([values, BlockMut::I64(places)]) = <[BlockMut<'_>; 2]>::try_from(outs.into_vec()) else {
            unreachable!("places are integers")
        };
        self.write(reads[0], values, places);
        Ok(())
    }
}

/// Elements from their places, or to them, in images of so many axes.
struct Moved(usize, bool);

impl WholeRule for Moved {
    fn run(&self, _: &'static str, reads: &[&Tensor], out: BlockMut<'_>) -> Result<()> {
        let &[x, places] = reads else { unreachable!("two tensors are read") };
        let plane = |shape: &[usize]| shape[shape.len() - self.0..].iter().product::<usize>();
        let results = plane(places.dims());
        // Of a batch without images no size is known, and none needed.
        let size = match self.1 {
            false => plane(x.dims()),
            true => out.len() / (places.numel() / results.max(1)).max(1),
        };
        let places = own::<i64>(places);
        match (out, self.1) {
            (BlockMut::F32(out), false) => take_places::<f32>(own(x), size, places, results, out),
            (BlockMut::F64(out), false) => take_places::<f64>(own(x), size, places, results, out),
            (BlockMut::I64(out), false) => take_places::<i64>(own(x), size, places, results, out),
            (BlockMut::F32(out), true) => add_places::<f32>(own(x), results, places, size, out),
            (BlockMut::F64(out), true) => add_places::<f64>(own(x), results, places, size, out),
            (other, _) => unreachable!("there is no such gradient: {:?}", other.dtype()),
        }
        Ok(())
    }
}
