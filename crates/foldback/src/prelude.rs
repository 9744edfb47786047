//! What most programs and the pages of the guide use: `use foldback::prelude::*;`.

#[cfg(feature = "csv")]
pub use crate::data::Csv;
pub use crate::data::{
    Collate, DataLoader, Normaliser, StratifiedSampler, TensorDataset, WeightedRandomSampler, pad_sequence,
    pad_sequence_with, random_split,
};
pub use crate::gradcheck::{Check, gradcheck, gradgradcheck};
pub use crate::graph::{
    Backward, Grad, RequiresGrad, Var, detect_anomaly, enable_grad, grad, grad_with, hessian, hvp, jacobian,
    jvp, no_grad, value_and_grad, vhp, vjp,
};
pub use crate::nn::loss::{
    BCELoss, BCEWithLogitsLoss, CTCLoss, CosineEmbeddingLoss, CrossEntropyLoss, GaussianNLLLoss,
    HingeEmbeddingLoss, HuberLoss, KLDivLoss, L1Loss, MSELoss, MarginRankingLoss, MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss, MultiMarginLoss, NLLLoss, PoissonNLLLoss, Reduction, SmoothL1Loss,
    SoftMarginLoss, TripletMarginLoss, TripletMarginWithDistanceLoss,
};
pub use crate::nn::{
    self, AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveLogSoftmaxWithLoss, AdaptiveMaxPool1d,
    AdaptiveMaxPool2d, AlphaDropout, AttentionMasks, AvgPool1d, AvgPool2d, BatchNorm1d, BatchNorm2d,
    Bilinear, Buffer, CELU, ChannelShuffle, CircularPad1d, CircularPad2d, ConstantPad1d, ConstantPad2d,
    Conv1d, Conv2d, ConvTranspose1d, ConvTranspose2d, CosineSimilarity, Dropout, Dropout1d, Dropout2d, ELU,
    Embedding, FeatureAlphaDropout, Flatten, Fold, FractionalMaxPool2d, GELU, GELUTanh, GLU, GRU, GRUCell,
    GroupNorm, Hardshrink, Hardsigmoid, Hardswish, Hardtanh, Identity, InstanceNorm1d, InstanceNorm2d,
    LPPool1d, LPPool2d, LSTM, LSTMCell, Layer, LayerNorm, LeakyReLU, Linear, LinearCrossEntropyLoss,
    LogSigmoid, LogSoftmax, MaxPool1d, MaxPool2d, MaxUnpool1d, MaxUnpool2d, Mish, Module, MultiheadAttention,
    PReLU, PairwiseDistance, PixelShuffle, PixelUnshuffle, RMSNorm, RNN, RNNCell, RReLU, ReLU, ReLU6,
    ReflectionPad1d, ReflectionPad2d, ReplicationPad1d, ReplicationPad2d, SELU, Sequential, SiLU, Sigmoid,
    Softmax, Softmax2d, Softmin, Softplus, Softshrink, Softsign, Tanh, Tanhshrink, Threshold,
    TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer, Unflatten,
    Unfold, Upsample, ZeroPad1d, ZeroPad2d, forward, loss, sequential,
};
pub use crate::optim::{
    ASGD, Adadelta, Adagrad, Adam, AdamW, Adamax, ChainedScheduler, ConstantLR, CosineAnnealingLR,
    CosineAnnealingWarmRestarts, CyclicLR, ExponentialLR, Group, LBFGS, LambdaLR, LinearLR, Lion,
    MultiStepLR, MultiplicativeLR, NAdam, OneCycleLR, Optimizer, PolynomialLR, RAdam, RMSprop,
    ReduceLROnPlateau, Rprop, SGD, Schedule, SequentialLR, StepLR, clip_grad_norm_, clip_grad_norm_with_,
    clip_grad_value_,
};
pub use crate::tensor::{Attention, Conv, Interpolate, InterpolateMode, Norm, Pad, Padding, Pool};
pub use crate::tensor::{
    DType, StateDict, Tensor, get_rng_state, keep, manual_seed, num_threads, s, set_num_threads,
    set_rng_state,
};
#[cfg(feature = "progress")]
pub use crate::train::Progress;
pub use crate::train::{AveragedModel, CsvLog, EarlyStopping, Fit, JsonLinesLog, Log};
#[cfg(feature = "safetensors")]
pub use crate::train::{Checkpoint, Checkpoints};
#[cfg(feature = "plots")]
pub use crate::train::{plot_curves, plot_decision_boundary};
pub use crate::{Error, Result, assert_close, assert_grads, fuse, tensor};
