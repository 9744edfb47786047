//! Functions of networks, and losses.

use foldback::prelude::*;
use foldback::tensor::{Attention, Norm};

use super::lines;

lines! {
    LINES (x: Var, y: Var, q: Var, k: Var, v: Var, mask: Tensor, ids: Tensor, w: Var, b: Var, labels: Tensor, weight: Tensor);
    "linear": x.linear(&w, &b), x.linear(&w, None); "the bias is always written; the types must agree"
    "layer_norm": x.layer_norm([8]), x.layer_norm_with([8], Norm::new().weight(&w).bias(&b).eps(1e-6)); "settings are setters of `foldback::tensor::Norm`"
    "rms_norm": x.rms_norm([8]), x.rms_norm_with([8], Norm::new().weight(&w)); "as `layer_norm`"
    "group_norm": x.group_norm(4), x.group_norm_with(4, Norm::new().weight(&w).bias(&b)); "as `layer_norm`"
    "instance_norm": x.instance_norm(), x.instance_norm_with(Norm::new().weight(&w).bias(&b)), x.instance_norm_train_with(&q, &v, 0.1, Norm::new()), x.batch_norm_with(&q, &v, Norm::new()); "as `layer_norm`; running statistics as in `batch_norm`, `use_input_stats=False` is `batch_norm_with`"
    "batch_norm": x.batch_norm(&q, &v), x.batch_norm_with(&q, &v, Norm::new().weight(&w)), x.batch_norm_train(Norm::new().weight(&w)), x.batch_norm_train_with(&q, &v, 0.1, Norm::new()); "as `layer_norm`, after the running mean and variance; in training a triple comes back, with the batch's mean and unbiased variance, or with the running ones as they go on (the number is `momentum`), and no argument is changed"
    "embedding": Var::embedding(&ids, &w), Var::embedding_with(&ids, &w, 0); "the last number is `padding_idx`"
    "scaled_dot_product_attention": q.scaled_dot_product_attention(&k, &v), q.scaled_dot_product_attention_with(&k, &v, Attention::new().mask(&mask).scale(0.5)); "settings are setters of `Attention`; `attn_mask` is `mask`, `enable_gqa` among them"
    "normalize": x.normalize(1), x.normalize_with([0, 1], 2, 1e-12); "the axes are always written; then `p` and `eps`"
    "cosine_similarity": x.cosine_similarity(&y, 1), x.cosine_similarity_with(&y, 1, 1e-8); "the axis is always written; then `eps`"
    "glu": x.glu(-1); "the axis is always written"
    "mse_loss": loss::mse_loss(&x, &y), loss::MSELoss::new().weight(w.clone()).reduction(loss::Reduction::Sum).forward(&x, &y); "no broadcasting: the shapes must be equal; options are setters of the struct"
    "l1_loss": loss::l1_loss(&x, &y), loss::L1Loss::new().weight(w.clone()).forward(&x, &y); "as `mse_loss`"
    "smooth_l1_loss": loss::smooth_l1_loss(&x, &y), loss::SmoothL1Loss::new().beta(0.5).forward(&x, &y); "as `mse_loss`"
    "huber_loss": loss::huber_loss(&x, &y), loss::HuberLoss::new().delta(0.5).forward(&x, &y); "as `mse_loss`"
    "kl_div": loss::kl_div(&x, &y), loss::KLDivLoss::new().log_target(true).forward(&x, &y); "as `mse_loss`; `batchmean` is `Reduction::BatchMean`"
    "binary_cross_entropy": loss::binary_cross_entropy(&x, &y), loss::BCELoss::new().weight(weight.clone()).forward(&x, &y); "as `mse_loss`; the weight has no gradient"
    "binary_cross_entropy_with_logits": loss::binary_cross_entropy_with_logits(&x, &y), loss::BCEWithLogitsLoss::new().pos_weight(weight.clone()).forward(&x, &y); "as `mse_loss`; the weights have no gradient"
    "nll_loss": loss::nll_loss(&x, &labels), loss::NLLLoss::new().ignore_index(0).forward(&x, &labels); "options are setters of the struct; the weights have no gradient"
    "cross_entropy": loss::cross_entropy(&x, &labels), loss::CrossEntropyLoss::new().weight(weight.clone()).label_smoothing(0.1).forward(&x, &labels); "as `nll_loss`; class numbers are `i64`"
}
