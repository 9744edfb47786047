//! How many floating-point operations an operation takes, as PyTorch counts them: those of products, two for each
//! multiplication that is added up.

use foldback_graph::Recorded;
use foldback_tensor::Tensor;

/// The multiplications, twice. PyTorch's
/// [`flop_counter`](https://github.com/pytorch/pytorch/blob/v2.15.0/torch/utils/flop_counter.py) counts the same products: of matrices,
/// convolutions and attention, without bias, and nothing for what goes element by element. (Products with a vector, and `Bilinear`, count
/// here and not there.)
pub(super) fn flops(operation: &Recorded) -> u64 {
    // An input that is not tracked has a value here if it is kept for the others' gradients.
    let input = |i: usize| {
        let kept = || operation.untracked.iter().find(|(place, _)| *place == i).map(|(_, t)| t);
        operation.inputs.get(i).and_then(Option::as_ref).or_else(kept)
    };
    let results = operation.outputs.first().map_or(0, Tensor::numel) as u64;
    let axis = |t: &Tensor, back: usize| t.dims().iter().rev().nth(back).map(|&n| n as u64);
    // Where one has none, another tells as much.
    let inner = |a: Option<&Tensor>, b: Option<&Tensor>| {
        let from_right = |b: &Tensor| axis(b, usize::from(b.rank() > 1));
        a.and_then(|a| axis(a, 0)).or_else(|| b.and_then(from_right)).unwrap_or(0)
    };
    let products = match operation.grad_fn.name() {
        "linear" => results * input(1).or_else(|| input(0)).and_then(|t| axis(t, 0)).unwrap_or(0),
        "matmul" => results * inner(input(0), input(1)),
        "addmm_with" | "baddbmm_with" => results * inner(input(1), input(2)),
        "convolution" => results * input(1).map_or(0, per_channel),
        "convolution_input" => input(0).map_or(0, Tensor::numel) as u64 * input(1).map_or(0, per_channel),
        "scaled_dot_product_attention" => {
            let keys = input(1).or(input(2)).and_then(|k| axis(k, 1)).unwrap_or(0);
            let scores = match (input(0), input(1)) {
                // For each pair of a query and a key, of which there may be a batch for one of the other.
                (Some(q), Some(k)) => {
                    let batches = q.rank().max(k.rank()).saturating_sub(2);
                    let count = |t: &Tensor, back: usize| axis(t, back).unwrap_or(1);
                    let of_batches = (2..2 + batches).map(|back| count(q, back).max(count(k, back)));
                    of_batches.product::<u64>() * count(q, 1) * count(q, 0)
                }
                _ => 0,
            };
            (scores + results) * keys
        }
        _ => 0,
    };
    2 * products
}

/// The multiplications for one number, by the weight of a convolution.
fn per_channel(weight: &Tensor) -> u64 {
    let channels = weight.dims().first().copied().unwrap_or(1).max(1);
    (weight.numel() / channels) as u64
}
