//! Losses of margins: what is alike must be closer, or come before, by some distance.

use foldback_graph::Var;
use foldback_tensor::refuse;

use super::options::losses;
use super::{expect_float, expect_same_shape};
use crate::PairwiseDistance;
use crate::error::NnFacts;

losses! {
    /// Whether pairs of vectors point the same way. PyTorch's
    /// [`CosineEmbeddingLoss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.CosineEmbeddingLoss.html).
    ///
    /// ```
    /// use foldback_nn::loss::CosineEmbeddingLoss;
    /// use foldback_tensor::{assert_close, tensor};
    /// let (a, b) = (tensor![[1.0, 0.0], [1.0, 0.0]], tensor![[0.0, 1.0], [2.0, 0.0]]);
    /// let loss = CosineEmbeddingLoss::new().margin(0.5).forward(&a, &b, &tensor![1.0, -1.0])?;
    /// assert_close!(loss.value(), foldback_tensor::Tensor::scalar(0.75f32));
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    CosineEmbeddingLoss {
        /// The cosine up to which vectors count as different. The default is 0.
        margin: f64 = 0.0;
    }
    /// `1 - cos(input1, input2)` for pairs with target 1, `max(0, cos(input1, input2) - margin)` for those with target -1, reduced:
    /// inputs `[n, d]` and targets `[n]`, or `[d]` and `[]`.
    ///
    /// # Errors
    /// `LossShapes` or `TargetShape` if the shapes do not fit, `DType` if the inputs are not of a floating-point type.
    fn cosine_embedding_loss(input1, input2, target) |own| {
        let loss = "cosine_embedding_loss";
        expect_float(loss, "the input", input1)?;
        expect_same_shape(loss, input1, input2)?;
        let dims = input1.dims();
        if !matches!(dims.len(), 1 | 2) || target.dims() != &dims[..dims.len() - 1] {
            let (input, target) = (input1.shape().clone(), target.shape().clone());
            return refuse(NnFacts::LossShapes { loss, input, target });
        }
        let lengths = |x: &Var| x.square().sum(-1)?.add(1e-12);
        let lengths = lengths(input1)?.mul(&lengths(input2)?)?.sqrt();
        let cosine = input1.mul(input2)?.sum(-1)?.div(&lengths)?;
        let alike = Var::where_cond(&target.eq(1)?, &cosine.rsub(1)?, 0.0)?;
        let apart = cosine.sub(own.margin)?.clamp_min(0)?;
        alike.add(&Var::where_cond(&target.eq(-1)?, &apart, 0.0)?)
    };
    /// Whether one of two numbers is larger. PyTorch's
    /// [`MarginRankingLoss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.MarginRankingLoss.html).
    ///
    /// ```
    /// use foldback_nn::loss::MarginRankingLoss;
    /// use foldback_tensor::tensor;
    /// let loss = MarginRankingLoss::new().margin(1.0);
    /// assert_eq!(loss.forward(&tensor![3.0], &tensor![2.5], &tensor![1.0])?.item()?, 0.5);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    MarginRankingLoss {
        /// By how much it must be larger. The default is 0.
        margin: f64 = 0.0;
    }
    /// `max(0, -target (input1 - input2) + margin)`, reduced; with a target of 1 the first is to be larger, with -1 the second. Any shape,
    /// the same for all.
    ///
    /// # Errors
    /// `LossShapes` if the shapes differ.
    fn margin_ranking_loss(input1, input2, target) |own| {
        expect_same_shape("margin_ranking_loss", input1, input2)?;
        expect_same_shape("margin_ranking_loss", input1, target)?;
        target.try_neg()?.mul(&input1.sub(input2)?)?.add(own.margin)?.clamp_min(0)
    };
    /// Whether distances are small for what is alike. PyTorch's
    /// [`HingeEmbeddingLoss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.HingeEmbeddingLoss.html).
    ///
    /// ```
    /// use foldback_nn::loss::{HingeEmbeddingLoss, Reduction};
    /// use foldback_tensor::tensor;
    /// let loss = HingeEmbeddingLoss::new().reduction(Reduction::None);
    /// assert_eq!(loss.forward(&tensor![0.5, 0.25], &tensor![1.0, -1.0])?.value(), tensor![0.5, 0.75]);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    HingeEmbeddingLoss {
        /// The distance of what is different. The default is 1.
        margin: f64 = 1.0;
    }
    /// The input where the target is 1, `max(0, margin - input)` where it is -1, reduced. Any shape, the same for both.
    ///
    /// # Errors
    /// `LossShapes` if the shapes differ, `DType` if the input is not of a floating-point type.
    fn hinge_embedding_loss(input, target) |own| {
        expect_float("hinge_embedding_loss", "the input", input)?;
        expect_same_shape("hinge_embedding_loss", input, target)?;
        let apart = input.rsub(own.margin)?.clamp_min(0)?;
        let apart = Var::where_cond(&target.ne(1)?, &apart, 0.0)?;
        apart.add(&Var::where_cond(&target.ne(-1)?, input, 0.0)?)
    };
    /// Whether vectors are closer to one than to another. PyTorch's
    /// [`TripletMarginLoss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.TripletMarginLoss.html).
    ///
    /// ```
    /// use foldback_nn::loss::TripletMarginLoss;
    /// use foldback_tensor::tensor;
    /// let (anchor, positive, negative) = (tensor![[0.0]], tensor![[1.0]], tensor![[1.5]]);
    /// let loss = TripletMarginLoss::new().eps(0.0).forward(&anchor, &positive, &negative)?;
    /// assert_eq!(loss.item()?, 0.5);
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    TripletMarginLoss {
        /// By how much it must be closer, above 0. The default is 1.
        margin: f64 = 1.0;
        /// The norm of the distance. The default is 2.
        p: f64 = 2.0;
        /// What is added to differences. The default is 1e-6.
        eps: f64 = 1e-6;
        /// Whether the distance of the other two counts if it is the smaller one. The default is no.
        swap: bool = false;
    }
    /// `max(0, |anchor - positive| - |anchor - negative| + margin)`, distances along the last axis, reduced: `[n, d]` or `[d]`, the same
    /// for all.
    ///
    /// # Errors
    /// `LossShapes` if the shapes differ, `Parameter` unless the margin is above 0.
    fn triplet_margin_loss(anchor, positive, negative) |own| {
        let (op, name, value) = ("triplet_margin_loss", "margin", own.margin);
        expect_same_shape(op, anchor, positive)?;
        expect_same_shape(op, anchor, negative)?;
        if value.is_nan() || value <= 0.0 {
            return refuse(NnFacts::Parameter { op, name, value, expected: "a number above zero" });
        }
        let distance = PairwiseDistance::new().p(own.p).eps(own.eps);
        let mut away = distance.forward(anchor, negative)?;
        if own.swap {
            away = away.minimum(&distance.forward(positive, negative)?)?;
        }
        distance.forward(anchor, positive)?.sub(&away)?.add(own.margin)?.clamp_min(0)
    };
    /// The logistic loss of two classes, 1 and -1. PyTorch's
    /// [`SoftMarginLoss`](https://docs.pytorch.org/docs/stable/generated/torch.nn.SoftMarginLoss.html).
    ///
    /// ```
    /// use foldback_nn::loss::SoftMarginLoss;
    /// use foldback_tensor::{Tensor, assert_close, tensor};
    /// let loss = SoftMarginLoss::new().forward(&tensor![0.0], &tensor![-1.0])?.value();
    /// assert_close!(loss, Tensor::scalar(2f32.ln()));
    /// # Ok::<(), foldback_nn::Error>(())
    /// ```
    SoftMarginLoss {}
    /// `ln(1 + exp(-target input))`, reduced. Any shape, the same for both.
    ///
    /// # Errors
    /// `LossShapes` if the shapes differ, `DType` if the input is not of a floating-point type.
    fn soft_margin_loss(input, target) |_own| {
        expect_float("soft_margin_loss", "the input", input)?;
        expect_same_shape("soft_margin_loss", input, target)?;
        // Above 40 the softplus is its argument in `f64`, as in `f32`.
        target.try_neg()?.mul(input)?.softplus_with(1.0, 40.0)
    };
}
