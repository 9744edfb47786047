//! W19: attention by the scaled dot product.

use foldback::prelude::*;

use super::{Both, Work, Workload, both, bytes, tensor};
use crate::inputs::Input;

/// Examples, heads, queries, keys, and the width of each.
#[derive(Clone, Copy)]
struct Heads {
    examples: usize,
    heads: usize,
    queries: usize,
    keys: usize,
    width: usize,
}

const USUAL: Heads = Heads { examples: 8, heads: 8, queries: 256, keys: 256, width: 64 };
/// Nothing is a multiple of a vector or of a block, and there are fewer keys than queries.
const ODD: Heads = Heads { examples: 3, heads: 5, queries: 197, keys: 131, width: 40 };

pub(super) fn list() -> Vec<Workload> {
    let list = [
        attention(["W19-attention", "W19-attention-back"], USUAL, false),
        attention(["W19-causal", "W19-causal-back"], USUAL, true),
        attention(["W19-odd", "W19-odd-back"], ODD, false),
    ];
    list.into_iter().flatten().collect()
}

fn attention(names: [&'static str; 2], sizes: Heads, causal: bool) -> [Workload; 2] {
    let Heads { examples, heads, queries, keys, width } = sizes;
    let input = |rows, salt| Input::new([examples, heads, rows, width], salt, -2.0, 2.0);
    let inputs = [input(queries, 100), input(keys, 101), input(keys, 102)];
    let elements = inputs.iter().map(|i| bytes(&i.shape) / 4).max().unwrap_or(0);
    // Scores and their mixture of values; back, two products for each of the two. Causal ones need half of them.
    let pairs = if causal { queries * (queries + 1) / 2 } else { queries * keys };
    let flops = 2 * 2 * examples * heads * pairs * width;
    let word = if causal { "causal attention" } else { "attention" };
    let what = Both {
        keys: names,
        title: format!("{word} {:?} to {keys} keys", inputs[0].shape),
        elements,
        work: [1, 3].map(|n| Work { flops: n * flops, ..Work::default() }),
    };
    let options = Attention::new().is_causal(causal);
    both(
        what,
        move || Ok([tensor(inputs[0])?, tensor(inputs[1])?, tensor(inputs[2])?]),
        move |[q, k, v]| q.scaled_dot_product_attention_with(k, v, options),
        move |[q, k, v]| q.scaled_dot_product_attention_with(k, v, options),
    )
}
