//! How layers with parameters are made: their settings say what is drawn, and a setter that changes that draws it anew.

use std::fmt;

use foldback_graph::Var;
use foldback_tensor::{DType, Generator, Here, Shape, Tensor, refuse};

use crate::error::{NnFacts, Result};
use crate::init::Init;

/// A layer in the making: for a layer from a generator of one's own, and for what may be refused. It has the setters of the layer,
/// none of which panics.
///
/// ```
/// use foldback_nn::Conv2d;
/// use foldback_tensor::Generator;
/// let mut generator = Generator::new(7);
/// let layer = Conv2d::builder(4, 8, 3).groups(2).generator(&mut generator).build()?;
/// assert_eq!(layer.weight.shape(), [8, 2, 3, 3]);
/// assert!(Conv2d::builder(4, 8, 3).groups(3).build().is_err());
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[must_use = "a layer is made when build() is called"]
pub struct LayerBuilder<'a, L> {
    pub(super) layer: L,
    generator: Option<&'a mut Generator>,
}

impl<'a, L: Drawn> LayerBuilder<'a, L> {
    pub(super) fn new(layer: L) -> Self {
        LayerBuilder { layer, generator: None }
    }

    /// Where random numbers come from. The default is this thread's generator.
    pub fn generator(mut self, generator: &'a mut Generator) -> Self {
        self.generator = Some(generator);
        self
    }

    /// Makes the layer.
    ///
    /// # Errors
    /// What the layer's `try_new` refuses, and settings that do not fit together.
    #[track_caller]
    pub fn build(mut self) -> Result<L> {
        self.layer.draw(&mut Drawing { generator: self.generator }).here()?;
        Ok(self.layer)
    }
}

impl<L: fmt::Debug> fmt::Debug for LayerBuilder<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LayerBuilder").field(&self.layer).finish()
    }
}

/// A layer whose parameters can be drawn. One that is not drawn yet is [`blank`].
#[doc(hidden)]
pub trait Drawn {
    /// Makes all parameters blank; those that are absent stay so.
    fn clear(&mut self);

    /// Checks the settings and draws the parameters that are blank.
    fn draw(&mut self, drawing: &mut Drawing<'_>) -> Result<()>;

    /// Draws all parameters anew from this thread's generator.
    #[track_caller]
    fn redraw(&mut self) -> Result<()> {
        self.clear();
        self.draw(&mut Drawing { generator: None })
    }
}

/// What stands for a parameter that is not drawn yet. No parameter is of this type.
pub(super) fn blank() -> Var {
    Tensor::zeros_with(0, DType::Bool).into()
}

pub(super) fn is_blank(var: &Var) -> bool {
    var.dtype() == DType::Bool
}

/// Makes parameters blank that are there.
pub(super) fn clear<'a>(parameters: impl IntoIterator<Item = &'a mut Option<Var>>) {
    parameters.into_iter().flatten().for_each(|var| *var = blank());
}

/// Where fresh parameters come from.
#[doc(hidden)]
#[derive(Debug)]
pub struct Drawing<'a> {
    generator: Option<&'a mut Generator>,
}

impl Drawing<'_> {
    /// This thread's generator.
    pub(super) fn thread() -> Drawing<'static> {
        Drawing { generator: None }
    }

    /// Draws a parameter, if it is there and blank.
    #[track_caller]
    pub(super) fn fill<'v>(
        &mut self,
        place: impl Into<Option<&'v mut Var>>,
        shape: &[usize],
        init: Init,
        dtype: DType,
    ) -> Result<()> {
        let Some(place) = place.into().filter(|var| is_blank(var)) else { return Ok(()) };
        *place = Var::leaf(self.sample(shape, init, dtype)?)?;
        Ok(())
    }

    /// A tensor of this law.
    #[track_caller]
    pub(super) fn sample(&mut self, shape: &[usize], init: Init, dtype: DType) -> Result<Tensor> {
        match &mut self.generator {
            Some(g) => init.sample_from(g, shape, dtype),
            None => init.sample(shape, dtype),
        }
    }
}

/// Whether a parameter is to be there: one that is not there yet is blank.
pub(super) fn has(place: &mut Option<Var>, wanted: bool) {
    *place = wanted.then(|| place.take().unwrap_or_else(blank));
}

/// Fills a parameter with one number, if it is there and blank.
#[track_caller]
pub(super) fn fill_with(place: &mut Option<Var>, shape: &Shape, number: f64, dtype: DType) -> Result<()> {
    if let Some(var) = place.as_mut().filter(|var| is_blank(var)) {
        *var = Var::leaf(Tensor::try_full_with(shape.clone(), number, dtype)?)?;
    }
    Ok(())
}

/// More layers than any network has, and few enough to be made.
const MOST_LAYERS: usize = 1 << 16;

/// Refuses a number of layers that makes no network.
pub(super) fn expect_layers(op: &'static str, num_layers: usize) -> Result<()> {
    let expected = match num_layers {
        0 => "at least 1",
        1..=MOST_LAYERS => return Ok(()),
        _ => "at most 65536",
    };
    refuse(NnFacts::Parameter { op, name: "num_layers", value: num_layers as f64, expected })
}

/// Refuses a type that parameters cannot have.
pub(super) fn expect_float(op: &'static str, dtype: DType) -> Result<()> {
    if dtype.is_float() {
        return Ok(());
    }
    let (name, expected) = ("the type of the parameters", "a floating-point type");
    refuse(NnFacts::DType { op, name, found: dtype, expected })
}

/// `1 / sqrt(fan)`, or 0 without inputs: the bound of uniform parameters in PyTorch's layers.
pub(super) fn bound(fan: usize) -> Init {
    let bound = if fan == 0 { 0.0 } else { 1.0 / (fan as f64).sqrt() };
    Init::uniform(-bound, bound)
}

/// Writes the constructors of a layer and its setters, each on the layer and on its builder: `keep` only changes how the
/// layer computes, `anew` draws the parameters anew. Each layer has a field of the name of each setter of `keep`, and a
/// field `dtype`.
macro_rules! making {
    (
        $layer:ident($($arg:ident: $arg_ty:ty),*) = $blank:expr;
        shown { $($shown:ident)* }
        keep { $($(#[$keep_doc:meta])* $keep:ident: $keep_ty:ty;)* }
        anew { $($(#[$anew_doc:meta])* $anew:ident: $anew_ty:ty, |$this:ident| $change:expr;)* }
    ) => {
        impl $layer {
            /// A layer with PyTorch's defaults and `f32` parameters. Setters follow it; what they change is drawn anew.
            ///
            /// # Panics
            /// Where `try_new` returns an error.
            #[track_caller]
            pub fn new($($arg: $arg_ty),*) -> $layer {
                foldback_tensor::or_panic(Self::try_new($($arg),*))
            }

            /// `new` that returns an error instead of panicking.
            ///
            /// # Errors
            /// If the sizes do not fit together, or a parameter would be too large to address.
            #[track_caller]
            pub fn try_new($($arg: $arg_ty),*) -> $crate::error::Result<$layer> {
                Self::builder($($arg),*).build()
            }

            /// A layer in the making, for a generator of one's own and for settings that may be refused.
            pub fn builder<'a>($($arg: $arg_ty),*) -> $crate::layers::making::LayerBuilder<'a, $layer> {
                $crate::layers::making::LayerBuilder::new($blank)
            }

            $(
                $(#[$keep_doc])*
                #[must_use]
                pub fn $keep(mut self, $keep: $keep_ty) -> $layer {
                    self.$keep = $keep.into();
                    self
                }
            )*
            $(
                $(#[$anew_doc])*
                ///
                /// # Panics
                /// Where `build` of the layer's builder returns an error.
                #[must_use]
                #[track_caller]
                pub fn $anew(mut self, $anew: $anew_ty) -> $layer {
                    let $this = &mut self;
                    $change;
                    let drawing = &mut $crate::layers::making::Drawing::thread();
                    foldback_tensor::or_panic($crate::layers::making::Drawn::draw(&mut self, drawing));
                    self
                }
            )*

            /// With parameters of this type, made anew. The default is `f32`.
            ///
            /// # Panics
            /// If it is not a floating-point type; `build` of the layer's builder returns an error instead.
            #[must_use]
            #[track_caller]
            pub fn dtype(mut self, dtype: foldback_tensor::DType) -> $layer {
                self.dtype = dtype;
                foldback_tensor::or_panic($crate::layers::making::Drawn::redraw(&mut self));
                self
            }
        }

        impl $crate::layers::making::LayerBuilder<'_, $layer> {
            $(
                $(#[$keep_doc])*
                pub fn $keep(mut self, $keep: $keep_ty) -> Self {
                    self.layer.$keep = $keep.into();
                    self
                }
            )*
            $(
                $(#[$anew_doc])*
                pub fn $anew(mut self, $anew: $anew_ty) -> Self {
                    let $this = &mut self.layer;
                    $change;
                    self
                }
            )*

            /// The type of the parameters. The default is `f32`.
            pub fn dtype(mut self, dtype: foldback_tensor::DType) -> Self {
                self.layer.dtype = dtype;
                self
            }
        }

        impl std::fmt::Debug for $layer {
            /// The settings, not the numbers.
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut shown = f.debug_struct(stringify!($layer));
                $(shown.field(stringify!($shown), &self.$shown);)*
                $(shown.field(stringify!($keep), &self.$keep);)*
                shown.finish()
            }
        }
    };
}
pub(super) use making;

#[cfg(test)]
mod tests {
    use foldback_tensor::manual_seed;

    use super::*;
    use crate::{BatchNorm1d, Bilinear, Conv2d, Embedding, GroupNorm, LayerNorm, Module, PReLU, RMSNorm};

    /// What a setter changes is drawn anew, the rest is kept.
    #[test]
    fn setters_draw_what_they_change() {
        let layer = Conv2d::new(4, 6, 3);
        let first = layer.clone();
        let layer = layer.stride(2).padding(1).bias(false);
        assert!(layer.weight.is_same(&first.weight) && layer.bias.is_none());
        let layer = layer.bias(true);
        assert!(layer.weight.is_same(&first.weight));
        assert!(!layer.bias.as_ref().unwrap().is_same(first.bias.as_ref().unwrap()));
        let layer = layer.groups(2);
        assert_eq!(layer.weight.shape(), [6, 2, 3, 3]);
        let layer = layer.dtype(DType::F64);
        assert_eq!((layer.weight.dtype(), layer.bias.unwrap().dtype()), (DType::F64, DType::F64));
        // A layer that others hold keeps its own.
        assert_eq!((first.weight.shape().dims(), first.weight.dtype()), (&[6, 4, 3, 3][..], DType::F32));
    }

    #[test]
    fn a_builder_makes_what_the_setters_make() {
        manual_seed(5);
        let by_setters = Conv2d::new(4, 6, 3).groups(2);
        manual_seed(5);
        let _ = Conv2d::new(4, 6, 3);
        let built = Conv2d::builder(4, 6, 3).groups(2).build().unwrap();
        assert_eq!(built.weight.value(), by_setters.weight.value());
        assert_eq!(format!("{built:?}"), format!("{by_setters:?}"));
        let from = |seed| {
            let mut generator = Generator::new(seed);
            Embedding::builder(3, 2).generator(&mut generator).build().unwrap().weight.value()
        };
        assert_eq!(from(1), from(1));
        assert_ne!(from(1), from(2));
    }

    #[test]
    fn what_a_builder_refuses() {
        let text = |e: crate::Error| e.with_location(None).to_string();
        let e = Conv2d::builder(4, 6, 3).groups(5).build().unwrap_err();
        assert_eq!(
            text(e),
            "conv2d: groups = 5 is not valid: expected a divisor of in_channels = 4 and of out_channels = 6"
        );
        let e = GroupNorm::try_new(0, 6).unwrap_err();
        assert_eq!(
            text(e),
            "group_norm: num_groups = 0 is not valid: expected a divisor of num_channels = 6"
        );
        let e = Embedding::builder(3, 2).padding_idx(3).build().unwrap_err();
        assert_eq!(text(e), "embedding: padding_idx = 3 is not valid: expected the number of a row");
        assert!(Embedding::builder(3, 2).padding_idx(-3).build().is_ok());
        assert!(Conv2d::try_new(usize::MAX, 2, 3).is_err());
        assert!(LayerNorm::try_new([usize::MAX, 2]).is_err());
        assert!(Bilinear::try_new(0, 2, 2).is_err());
        let whole = DType::I64;
        assert!(LayerNorm::builder(2).dtype(whole).build().is_err());
        assert!(RMSNorm::builder(2).elementwise_affine(false).dtype(whole).build().is_err());
        assert!(BatchNorm1d::builder(2).affine(false).dtype(whole).build().is_err());
        assert!(Embedding::builder(2, 2).dtype(whole).build().is_err());
        assert!(PReLU::builder().dtype(DType::Bool).build().is_err());
    }

    #[test]
    #[should_panic(expected = "conv2d: groups = 3 is not valid")]
    fn a_setter_panics_with_the_words_of_the_error() {
        let _ = Conv2d::new(4, 6, 3).groups(3);
    }

    #[test]
    fn parameters_that_are_switched_off_and_on() {
        let names = |m: &dyn Module| -> Vec<String> {
            let parameters = m.named_parameters().into_iter().map(|(name, _)| name);
            parameters.chain(m.named_buffers().into_iter().map(|(name, _)| name)).collect()
        };
        let layer = LayerNorm::new(2).bias(false);
        assert_eq!(names(&layer), ["weight"]);
        assert!(names(&layer.clone().elementwise_affine(false)).is_empty());
        assert_eq!(names(&layer.elementwise_affine(false).elementwise_affine(true)), ["weight"]);
        let layer = BatchNorm1d::new(2).affine(false);
        assert_eq!(names(&layer), ["running_mean", "running_var", "num_batches_tracked"]);
        let layer = layer.track_running_stats(false);
        assert!(names(&layer).is_empty());
        let layer = layer.affine(true).track_running_stats(true).dtype(DType::F64);
        assert_eq!(names(&layer).len(), 5);
        assert_eq!(layer.running_var.unwrap().value(), Tensor::ones_with(2, DType::F64));
    }

    #[test]
    fn clones_share_and_copies_do_not() {
        let layer = BatchNorm1d::new(2);
        let (clone, mut copy) = (layer.clone(), layer.deep_copy());
        layer.forward(&foldback_tensor::tensor![[1.0, 2.0], [3.0, 6.0]]).unwrap();
        let mean = |layer: &BatchNorm1d| layer.running_mean.as_ref().unwrap().value();
        assert_eq!(mean(&clone), mean(&layer));
        assert_eq!(mean(&copy), Tensor::zeros(2));
        copy.eval();
        assert_eq!(copy.forward(Tensor::ones([1, 2])).unwrap().shape(), [1, 2]);
        // The others are in training, where one example has no variance.
        assert!(clone.forward(Tensor::ones([1, 2])).is_err());
    }

    #[test]
    fn shown_by_settings() {
        assert_eq!(format!("{:?}", PReLU::new()), "PReLU { num_parameters: 1, init: 0.25, dtype: F32 }");
    }
}
