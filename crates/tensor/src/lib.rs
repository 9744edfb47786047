//! Strided n-dimensional values and block kernels, those of gradients among them, with PyTorch's broadcasting; no graph.

mod attention;
mod axes;
mod buffer;
mod close;
mod conv;
mod convert;
mod create;
mod datum;
mod dims;
mod dtype;
mod error;
mod format;
mod kernels;
mod literal;
mod math;
mod meant;
mod mismatch;
mod named_axes;
mod names;
mod norm;
mod ops;
mod packed;
mod pool;
mod random;
mod shape;
mod softmax;
mod stack;
mod state;
mod state_dict;
mod task;
mod tensor;
mod threads;
mod views;

pub use attention::Attention;
pub use mismatch::Mismatch;
pub use ndarray;

pub use axes::{Along, Axes, Axis, Over, Span, keep};
#[doc(hidden)]
pub use buffer::{Holding, shelf_epoch, storage_bytes};
pub use buffer::{release_memory, set_pool_limit};
pub use close::{Compared, Tolerance, compare_close};
pub use conv::{Conv, Padding};
pub use create::Interval;
pub use datum::Datum;
pub use dtype::{Block, BlockMut, Category, DType, Element, Scalar};
pub use error::{Error, Facts, IoFacts, Kind, Result, TensorFacts};
#[doc(hidden)]
pub use error::{Here, Place, counted, or_panic, refuse};
pub use kernels::{Level, detected_level, force_level, level};
#[doc(hidden)]
pub use literal::Literal;
pub use literal::NestedArray;
pub use named_axes::NamedAxes;
pub use names::name_matches;
pub use norm::Norm;
pub use ops::{
    Arg, AsArg, AsOptionalArg, BroadcastWarning, BroadcastWarningGuard, Indices, Number, Pad, Repeats,
    broadcast_warning, kernel, set_broadcast_warning,
};
#[doc(hidden)]
pub use ops::{Contract, DOUBTED, einsum, expect_vectors, take_doubted};
pub use packed::Packed;
pub use pool::{AdaptiveSize, Factors, Interpolate, InterpolateMode, Pool};
pub use random::{Generator, get_rng_state, manual_seed, set_rng_state};
pub use shape::{Pair, Shape, Strides, broadcast_shapes, can_broadcast};
pub use stack::on_fresh_stack;
pub use state::StateCell;
pub use state_dict::StateDict;
pub use tensor::Tensor;
pub use threads::{GRAIN, ThreadPool, num_threads, set_num_threads, try_set_num_threads};
#[doc(hidden)]
pub use threads::{set_thread_modes, thread_modes};
pub use views::{
    Amounts, NewShape, NewSize, Position, Slice, SliceItem, Slices, SplitSizes, broadcast_tensors,
};
