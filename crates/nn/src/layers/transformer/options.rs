//! The options that layers of encoders and decoders share, and the setters of both.

use std::fmt;
use std::marker::PhantomData;

use foldback_tensor::DType;

use crate::error::Result;
use crate::{Dropout, Layer, LayerNorm, Linear, MultiheadAttention, ReLU};

/// The options of a [`TransformerEncoderLayer`](crate::TransformerEncoderLayer) or a
/// [`TransformerDecoderLayer`](crate::TransformerDecoderLayer), see their `builder`.
#[must_use = "a layer is made when build() is called"]
pub struct TransformerLayerBuilder<L> {
    pub(super) d_model: usize,
    pub(super) nhead: usize,
    pub(super) dim_feedforward: usize,
    pub(super) dropout: f64,
    pub(super) activation: Box<dyn Layer>,
    pub(super) layer_norm_eps: f64,
    pub(super) batch_first: bool,
    pub(super) norm_first: bool,
    pub(super) bias: bool,
    pub(super) dtype: DType,
    layer: PhantomData<fn() -> L>,
}

impl<L> Clone for TransformerLayerBuilder<L> {
    fn clone(&self) -> Self {
        TransformerLayerBuilder { activation: self.activation.clone(), ..*self }
    }
}

impl<L> fmt::Debug for TransformerLayerBuilder<L> {
    /// The sizes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransformerLayerBuilder")
            .field("d_model", &self.d_model)
            .field("nhead", &self.nhead)
            .field("dim_feedforward", &self.dim_feedforward)
            .finish()
    }
}

/// A setter for each field.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $t:ty;)*) => {$(
        $(#[$doc])*
        pub fn $name(mut self, $name: $t) -> Self {
            self.$name = $name;
            self
        }
    )*};
}

impl<L> TransformerLayerBuilder<L> {
    pub(super) fn new(d_model: usize, nhead: usize) -> Self {
        TransformerLayerBuilder {
            d_model,
            nhead,
            dim_feedforward: 2048,
            dropout: 0.1,
            activation: Box::new(ReLU),
            layer_norm_eps: 1e-5,
            batch_first: false,
            norm_first: false,
            bias: true,
            dtype: DType::F32,
            layer: PhantomData,
        }
    }

    setters! {
        /// The width inside the network that each step goes through alone. The default is 2048.
        dim_feedforward: usize;
        /// The probability of being dropped in training, for the shares of attention and behind each part. The default is 0.1.
        dropout: f64;
        /// What is added to variances. The default is 1e-5.
        layer_norm_eps: f64;
        /// Whether inputs and outputs are `[n, l, ..]` and not `[l, n, ..]`. The default is no.
        batch_first: bool;
        /// Whether each part is normalised before it, and not behind its sum with the input. The default is no.
        norm_first: bool;
        /// Whether there are biases. The default is yes.
        bias: bool;
        /// The type of the parameters. The default is `f32`.
        dtype: DType;
    }

    /// The function between the two products. The default is [`ReLU`](crate::ReLU).
    pub fn activation(mut self, activation: impl Layer + 'static) -> Self {
        self.activation = Box::new(activation);
        self
    }

    #[track_caller]
    pub(super) fn attention(&self) -> Result<MultiheadAttention> {
        MultiheadAttention::builder(self.d_model, self.nhead)
            .dropout(self.dropout)
            .bias(self.bias)
            .batch_first(self.batch_first)
            .dtype(self.dtype)
            .build()
    }

    #[track_caller]
    pub(super) fn linear(&self, from: usize, to: usize) -> Result<Linear> {
        Linear::builder(from, to).bias(self.bias).dtype(self.dtype).build()
    }

    #[track_caller]
    pub(super) fn norm(&self) -> Result<LayerNorm> {
        LayerNorm::builder(self.d_model).eps(self.layer_norm_eps).bias(self.bias).dtype(self.dtype).build()
    }

    #[track_caller]
    pub(super) fn drop(&self) -> Result<Dropout> {
        Dropout::try_new(self.dropout)
    }
}

/// Writes what layers of encoders and of decoders have alike: constructors, setters, copies, and the network that each step
/// goes through alone.
macro_rules! transformer_layer {
    ($layer:ident, attentions $attentions:tt, dropouts $dropouts:tt, norms $norms:tt) => {
        impl $layer {
            /// A layer over vectors of width `d_model` with `nhead` heads, PyTorch's defaults, and `f32` parameters from this thread's
            /// generator. Setters follow it; what they change is drawn anew.
            ///
            /// # Panics
            /// If the heads do not divide the width; `try_new` returns an error instead.
            #[track_caller]
            pub fn new(d_model: usize, nhead: usize) -> $layer {
                or_panic($layer::try_new(d_model, nhead))
            }

            /// `new` that returns an error instead of panicking.
            ///
            /// # Errors
            /// `Parameter` if the heads do not divide the width, `TooLarge` if a weight would be too large to address.
            #[track_caller]
            pub fn try_new(d_model: usize, nhead: usize) -> Result<$layer> {
                $layer::builder(d_model, nhead).build().here()
            }

            /// For what may be refused: the setters of a layer, and [`TransformerLayerBuilder::build`].
            pub fn builder(d_model: usize, nhead: usize) -> TransformerLayerBuilder<$layer> {
                TransformerLayerBuilder::new(d_model, nhead)
            }

            /// The width inside the network that each step goes through alone. The default is 2048; parameters are drawn anew.
            ///
            /// # Panics
            /// If a weight would be too large to address; [`TransformerLayerBuilder::build`] returns an error instead.
            #[must_use]
            #[track_caller]
            pub fn dim_feedforward(self, dim_feedforward: usize) -> Self {
                or_panic(self.options.dim_feedforward(dim_feedforward).build())
            }

            /// The probability of being dropped in training, for the shares of attention and behind each part. The default is 0.1.
            ///
            /// # Panics
            /// If it is not between 0 and 1; [`TransformerLayerBuilder::build`] returns an error instead.
            #[must_use]
            #[track_caller]
            pub fn dropout(mut self, dropout: f64) -> Self {
                let mut layer = Dropout::new(dropout);
                layer.set_training(self.dropout.is_training());
                transformer_layer!(@each self, $attentions, |part| part.dropout(dropout));
                transformer_layer!(@each self, $dropouts, |_part| layer.clone());
                self.options.dropout = dropout;
                self
            }

            /// The function between the two products. The default is [`ReLU`](crate::ReLU).
            #[must_use]
            pub fn activation(mut self, activation: impl Layer + 'static) -> Self {
                self.options = self.options.activation(activation);
                self.activation = self.options.activation.clone();
                self
            }

            /// What is added to variances. The default is 1e-5.
            #[must_use]
            pub fn layer_norm_eps(mut self, layer_norm_eps: f64) -> Self {
                transformer_layer!(@each self, $norms, |part| part.eps(layer_norm_eps));
                self.options.layer_norm_eps = layer_norm_eps;
                self
            }

            /// Whether inputs and outputs are `[n, l, ..]` and not `[l, n, ..]`. The default is no.
            #[must_use]
            pub fn batch_first(mut self, batch_first: bool) -> Self {
                transformer_layer!(@each self, $attentions, |part| part.batch_first(batch_first));
                self.options.batch_first = batch_first;
                self
            }

            /// Whether each part is normalised before it, and not behind its sum with the input. The default is no. (Xiong and
            /// others, "On Layer Normalization in the Transformer Architecture", 2020.)
            #[must_use]
            pub fn norm_first(mut self, norm_first: bool) -> Self {
                self.options.norm_first = norm_first;
                self
            }

            /// Whether there are biases. The default is yes; parameters are drawn anew.
            #[must_use]
            #[track_caller]
            pub fn bias(self, bias: bool) -> Self {
                or_panic(self.options.bias(bias).build())
            }

            /// With parameters of this type, drawn anew. The default is `f32`.
            ///
            /// # Panics
            /// If it is not a floating-point type; [`TransformerLayerBuilder::build`] returns an error instead.
            #[must_use]
            #[track_caller]
            pub fn dtype(self, dtype: DType) -> Self {
                or_panic(self.options.dtype(dtype).build())
            }

            /// The network that each step goes through alone.
            #[track_caller]
            fn feed_forward(&self, x: &Var) -> Result<Var> {
                let inside = self.activation.forward(&self.linear1.forward(x)?)?;
                self.linear2.forward(&self.dropout.forward(&inside)?)
            }
        }

        impl Clone for $layer {
            /// A layer that shares these weights; [`deep_copy`](Module::deep_copy) gives it its own.
            fn clone(&self) -> $layer {
                self.copy_parts(&mut Copies::shared())
            }
        }

        impl fmt::Debug for $layer {
            /// The sizes, not the numbers.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($layer))
                    .field("d_model", &self.options.d_model)
                    .field("nhead", &self.options.nhead)
                    .field("dim_feedforward", &self.options.dim_feedforward)
                    .finish()
            }
        }
    };
    (@each $self:ident, [$($field:ident)*], |$part:ident| $change:expr) => {
        $({
            let $part = $self.$field.clone();
            $self.$field = $change;
        })*
    };
}
pub(super) use transformer_layer;
