//! Functions of networks, and losses.

use foldback::prelude::*;

use super::lines;

lines! {
    LINES (x: Var, y: Var, w: Var, b: Var, labels: Tensor, weight: Tensor);
    "linear": x.linear(&w, &b), x.linear(&w, None); "the bias is always written; the types must agree"
    "mse_loss": loss::mse_loss(&x, &y), loss::MSELoss::new().weight(w.clone()).reduction(loss::Reduction::Sum).forward(&x, &y); "no broadcasting: the shapes must be equal; options are setters of the struct"
    "binary_cross_entropy_with_logits": loss::binary_cross_entropy_with_logits(&x, &y), loss::BCEWithLogitsLoss::new().pos_weight(weight.clone()).forward(&x, &y); "no broadcasting: the shapes must be equal; options are setters of the struct; the weights have no gradient"
    "nll_loss": loss::nll_loss(&x, &labels), loss::NLLLoss::new().ignore_index(0).forward(&x, &labels); "options are setters of the struct; the weights have no gradient"
    "cross_entropy": loss::cross_entropy(&x, &labels), loss::CrossEntropyLoss::new().weight(weight.clone()).label_smoothing(0.1).forward(&x, &labels); "as `nll_loss`; class numbers are `i64`"
}
