//! How far apart two inputs are.

use foldback_graph::Var;
use foldback_tensor::keep;

use crate::error::Result;
use crate::{Module, forward};

/// The cosine of the angle between two inputs along an axis, see [`Var::cosine_similarity_with`]. PyTorch's
/// [`CosineSimilarity`](https://docs.pytorch.org/docs/stable/generated/torch.nn.CosineSimilarity.html).
///
/// ```
/// use foldback_nn::CosineSimilarity;
/// use foldback_tensor::tensor;
/// let (a, b) = (tensor![[3.0, 0.0]], tensor![[0.0, 2.0]]);
/// assert_eq!(CosineSimilarity::new().forward(&a, &b)?.value(), tensor![0.0]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Module)]
pub struct CosineSimilarity {
    dim: isize,
    eps: f64,
}

impl CosineSimilarity {
    /// Along axis 1.
    pub fn new() -> CosineSimilarity {
        CosineSimilarity { dim: 1, eps: 1e-8 }
    }

    /// The axis. The default is 1.
    #[must_use]
    pub fn dim(mut self, dim: isize) -> CosineSimilarity {
        self.dim = dim;
        self
    }

    /// The least length that is divided by. The default is 1e-8.
    #[must_use]
    pub fn eps(mut self, eps: f64) -> CosineSimilarity {
        self.eps = eps;
        self
    }
}

impl Default for CosineSimilarity {
    fn default() -> CosineSimilarity {
        CosineSimilarity::new()
    }
}

#[forward]
impl CosineSimilarity {
    /// One number for each pair of vectors: the inputs' shape, broadcast, without the axis.
    ///
    /// # Errors
    /// As [`Var::cosine_similarity_with`].
    #[track_caller]
    pub fn forward(&self, x1: &Var, x2: &Var) -> Result<Var> {
        x1.cosine_similarity_with(x2, self.dim, self.eps)
    }
}

/// The norm of `x1 - x2 + eps` along the last axis. PyTorch's
/// [`PairwiseDistance`](https://docs.pytorch.org/docs/stable/generated/torch.nn.PairwiseDistance.html).
///
/// ```
/// use foldback_nn::PairwiseDistance;
/// use foldback_tensor::{assert_close, tensor};
/// let (a, b) = (tensor![[3.0, 0.0]], tensor![[0.0, 4.0]]);
/// assert_close!(PairwiseDistance::new().forward(&a, &b)?.value(), tensor![5.0]);
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Module)]
pub struct PairwiseDistance {
    p: f64,
    eps: f64,
    keepdim: bool,
}

impl PairwiseDistance {
    /// The Euclidean distance.
    pub fn new() -> PairwiseDistance {
        PairwiseDistance { p: 2.0, eps: 1e-6, keepdim: false }
    }

    /// Which norm. The default is 2.
    #[must_use]
    pub fn p(mut self, p: f64) -> PairwiseDistance {
        self.p = p;
        self
    }

    /// What is added to the difference. The default is 1e-6.
    #[must_use]
    pub fn eps(mut self, eps: f64) -> PairwiseDistance {
        self.eps = eps;
        self
    }

    /// Whether the axis stays, with size 1. The default is no.
    #[must_use]
    pub fn keepdim(mut self, keepdim: bool) -> PairwiseDistance {
        self.keepdim = keepdim;
        self
    }
}

impl Default for PairwiseDistance {
    fn default() -> PairwiseDistance {
        PairwiseDistance::new()
    }
}

#[forward]
impl PairwiseDistance {
    /// One number for each pair of vectors: the inputs' shape, broadcast, without the last axis.
    ///
    /// # Errors
    /// If the shapes do not broadcast, or there is no axis.
    #[track_caller]
    pub fn forward(&self, x1: &Var, x2: &Var) -> Result<Var> {
        let difference = x1.sub(x2)?.add(self.eps)?;
        if self.keepdim { difference.norm_with(keep(-1), self.p) } else { difference.norm_with(-1, self.p) }
    }
}
