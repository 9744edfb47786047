//! How many floating-point operations an operation takes, as PyTorch counts them: those of products, two for each
//! multiplication that is added up.

use foldback_graph::Recorded;
use foldback_tensor::Tensor;

/// The multiplications, twice. PyTorch's
/// [`flop_counter`](https://github.com/pytorch/pytorch/blob/v2.15.0/torch/utils/flop_counter.py) counts the same products: of matrices,
/// convolutions and attention, without bias, and nothing for what goes element by element.
pub(super) fn flops(operation: &Recorded) -> u64 {
    let input = |i: usize| operation.inputs.get(i).and_then(Option::as_ref);
    let results = operation.outputs.first().map_or(0, Tensor::numel) as u64;
    let axis = |t: &Tensor, back: usize| t.dims().iter().rev().nth(back).map(|&n| n as u64);
    // An input that is not tracked has no value here; another one tells as much, or what is kept of it for the others' gradients.
    let kept = operation.untracked.first();
    let inner = |a: Option<&Tensor>, b: Option<&Tensor>| {
        let from_right = |b: &Tensor| axis(b, usize::from(b.rank() > 1));
        a.and_then(|a| axis(a, 0)).or_else(|| b.and_then(from_right)).unwrap_or(0)
    };
    let products = match operation.grad_fn.name() {
        "linear" => results * input(1).or_else(|| input(0)).and_then(|t| axis(t, 0)).unwrap_or(0),
        "matmul" => results * inner(input(0), input(1)),
        "addmm_with" | "baddbmm_with" => results * inner(input(1), input(2)),
        "convolution" => results * input(1).map_or(0, per_channel),
        "convolution_input" => {
            input(0).or(kept).map_or(0, Tensor::numel) as u64 * input(1).map_or(0, per_channel)
        }
        "scaled_dot_product_attention" => {
            let width = operation.outputs.first().and_then(|t| axis(t, 0)).unwrap_or(0);
            let size = input(0).or(input(1)).or(kept).and_then(|t| axis(t, 0)).unwrap_or(0);
            let keys = input(1).or(input(2)).or(kept).and_then(|t| axis(t, 1)).unwrap_or(0);
            (results + results.checked_div(width).unwrap_or(0) * size) * keys
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
