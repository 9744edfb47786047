//! Reductions, order, running sums.

use foldback::prelude::*;

use super::lines;

lines! {
    LINES (x: Var, y: Var, weights: Var);
    "sum": x.sum(..), x.sum(1), x.sum([0, -1]), x.sum(keep(1)), x.sum_with(.., DType::F64); "axes are always written, `..` is all; `keepdim` is `keep(axes)`; `dtype` in the name"
    "mean": x.mean(..), x.mean(keep(-1)), x.mean_with(.., DType::F64); "as `sum`"
    "prod": x.prod(..), x.prod(1), x.prod_with(.., DType::F64); "as `sum`; several axes at once, too"
    "amax": x.amax(1), x.amax(keep([0, 1])); "as `sum`"
    "amin": x.amin(1), x.amin(keep([0, 1])); "as `sum`"
    "logsumexp": x.logsumexp(1), x.logsumexp(keep([0, 1])); "as `sum`"
    "var": x.var(1), x.var_with(1, 0); "the second number is `correction`; `unbiased=False` is 0"
    "std": x.std(1), x.std_with(1, 0); "the second number is `correction`; `unbiased=False` is 0"
    "var_mean": x.var_mean(1), x.var_mean_with(1, 0); "as `var`; no `std_mean`"
    "norm": x.norm(..), x.norm_with(1, f64::INFINITY); "the first argument is the axes: `x.norm(1)` is along axis 1, and `p` is behind it; `p` is a number: `'fro'` is 2, there is no `'nuc'`"
    "linalg.vector_norm": x.norm(..), x.norm_with(1, 3); ""
    "count_nonzero": x.count_nonzero(..), x.count_nonzero(keep(1)); ""
    "any": x.any(..), x.any(1); "as `sum`"
    "all": x.all(..), x.all(1); "as `sum`"
    "argmax": x.argmax(..), x.argmax(1); "as `sum`"
    "argmin": x.argmin(..), x.argmin(1); "as `sum`"
    "max": x.max(..), x.max(1), x.max_with_indices(1), x.maximum(&y); "along an axis PyTorch gives the pair: `max_with_indices`; of two tensors: `maximum`"
    "min": x.min(..), x.min(1), x.min_with_indices(1), x.minimum(&y); "along an axis PyTorch gives the pair: `min_with_indices`; of two tensors: `minimum`"
    "softmax": x.softmax(-1), x.softmax_with(-1, DType::F64); ""
    "log_softmax": x.log_softmax(-1), x.log_softmax_with(-1, DType::F64); ""
    "sum_to_size": x.sum_to_size([1, 3]); ""
    "sort": x.sort(-1), x.sort_with(-1, true); "the axis is always written; always stable"
    "argsort": x.argsort(-1), x.argsort_with(-1, true); "as `sort`"
    "topk": x.topk(5, -1), x.topk_with(5, -1, false, true); "the axis is always written"
    "median": x.median(..), x.median(1), x.median_with_indices(1); "along an axis PyTorch gives the pair: `median_with_indices`"
    "cumsum": x.cumsum(0), x.cumsum_with(0, DType::F64); ""
    "cumprod": x.cumprod(0), x.cumprod_with(0, DType::F64); ""
    "one_hot": x.one_hot(10), x.one_hot(-1); "the number of classes is always written"
    "bincount": x.bincount(10), x.bincount_with(10, &weights); "`minlength` is always written"
}
