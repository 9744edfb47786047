//! The other half of a text: what helps, and what follows from the facts.

use crate::dtype::DType;
use crate::shape::{Shape, can_broadcast, expands_to};

/// What helps an operation that an element type does not have.
pub(super) fn instead(op: &str) -> &'static str {
    match op {
        "rand" | "randn" | "uniform" | "normal" | "bernoulli" | "arange" | "linspace" => "give DType::F32",
        "bitwise_not" => "use to(DType::I64), or a mask: to(DType::Bool)",
        _ if op.starts_with("bitwise_") => "use to(DType::I64)",
        // Only of truth values.
        "neg" | "sub" | "rsub" => "`!` inverts a mask; for numbers use to(DType::F32)",
        _ => "use to(DType::F32)",
    }
}

/// What helps where there are too few axes, or too many.
pub(super) fn ranked(op: &str, operand: &str, expected: &str) -> &'static str {
    match op {
        "t" => "transpose(-2, -1) exchanges the last two",
        "mm" | "bmm" | "mv" | "dot" => "matmul takes any number of them",
        "permute" | "movedim" => "name each axis once, in its new place",
        "embedding" => "the first argument is the indices, the second the table [rows, width]",
        "index_select" | "index_add" => {
            "reshape(-1) makes a list of it; gather and scatter take an index for each element"
        }
        "conv1d" if operand == "weight" => "its axes are [out, in / groups, length]",
        "conv2d" if operand == "weight" => "its axes are [out, in / groups, height, width]",
        "conv_transpose1d" if operand == "weight" => "its axes are [in, out / groups, length]",
        "conv_transpose2d" if operand == "weight" => "its axes are [in, out / groups, height, width]",
        "from_strided" => "give a stride for each axis",
        "repeat" => "tile takes fewer",
        _ if expected == "one or all" => "flatten makes one of several, `..` is all of them",
        "interpolate" => {
            "its axes are [batch, channels, length] or [batch, channels, height, width]; unsqueeze(0) adds one"
        }
        _ if expected.ends_with("or 3") => {
            "its axes are [batch, channels, length]; unsqueeze(0) adds one of the first two"
        }
        _ if expected.ends_with("or 4") => {
            "its axes are [batch, channels, height, width]; unsqueeze(0) adds one of the first two"
        }
        _ if operand.is_empty() && expected.starts_with("at most") => {
            "leave some out, or add them to the tensor by unsqueeze"
        }
        _ => "unsqueeze adds one, squeeze, flatten and reshape take some away",
    }
}

/// Which indices there are: of parts, negative ones count from the end.
pub(super) fn indices(op: &str, size: usize) -> String {
    if op == "from_strided" {
        return ": strides and offset lead beyond the values; give more of those, or a smaller shape".into();
    }
    let Some(last) = size.checked_sub(1) else { return ": it has no elements".into() };
    let first = match op {
        "select" | "slice" | "slice_assign" | "slice_add" | "take_along_dim" => -(size as i64),
        _ => 0,
    };
    format!(": give one from {first} to {last}")
}

/// What is wrong with an axis, in PyTorch's words.
pub(super) fn axes_of(op: &str, axis: isize, limit: usize, rank: usize) -> String {
    let Some(last) = limit.checked_sub(1) else {
        return format!("Dimension specified as {axis} but tensor has no dimensions: unsqueeze adds one");
    };
    // Somebody who means the order of a norm types one of these.
    let cure = if op == "norm" && [1, 2, 3].contains(&axis) {
        ": the order of a norm is an argument of norm_with"
    } else {
        ""
    };
    format!(
        "Dimension out of range (expected to be in range of [-{limit}, {last}], but got {axis}) for a tensor of rank {rank}{cure}"
    )
}

/// `1 axis`, `2 axes`
pub(super) fn axes(n: usize) -> String {
    format!("{n} {}", if n == 1 { "axis" } else { "axes" })
}

/// The sizes of two matrices that should be equal.
pub(super) fn inner_sizes(a: &Shape, b: &Shape) -> String {
    match (a.last(), b.get(b.rank().saturating_sub(2))) {
        (Some(columns), Some(rows)) if columns != rows => {
            format!(
                ": the last axis of the first has size {columns}, the axis of the second that it meets {rows}{}",
                transposed(a, b)
            )
        }
        (Some(_), Some(_)) => ": their first axes must be equal; matmul broadcasts them".into(),
        _ => String::new(),
    }
}

/// Why a tensor of shape `from` does not expand to `to`: it has an axis too many, or one of another size.
pub(super) fn why_not_expanded(operand: &str, from: &Shape, to: &Shape, dim: usize) -> String {
    let the = if operand.is_empty() { String::new() } else { format!("the {operand} ") };
    if dim < from.rank().saturating_sub(to.rank()) {
        return format!(
            "{the}{from} has more axes than {to}, to which it should expand: squeeze takes one of size 1 away"
        );
    }
    format!(
        "The expanded size of the tensor ({}) must match the existing size ({}) at non-singleton dimension {dim}: {the}{from} does not expand to {to}; only axes of size 1 grow, and unsqueeze adds one",
        size_at(to, from, dim),
        size_at(from, to, dim)
    )
}

/// The size of `s` on axis `dim`, counted in the longer of the two shapes.
pub(super) fn size_at(s: &[usize], other: &[usize], dim: usize) -> usize {
    let missing = other.len().saturating_sub(s.len());
    if dim < missing { 1 } else { s[dim - missing] }
}

/// ` of the weight`, or nothing.
pub(super) fn of(operand: &str) -> String {
    if operand.is_empty() { String::new() } else { format!(" of the {operand}") }
}

/// How two shapes come to broadcast.
pub(super) fn broadcasting(op: &str, a: &[usize], b: &[usize]) -> String {
    let (longer, shorter) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let behind: Vec<usize> = shorter.iter().copied().chain([1]).collect();
    match op {
        "scaled_dot_product_attention" => {
            "sizes are equal, or 1; heads of queries share those of keys with Attention::new().enable_gqa(true)".into()
        }
        _ if longer.len() > shorter.len() && expands_to(&behind, longer) => {
            format!("shapes are aligned at the right; {behind:?} would fit, which unsqueeze(-1) makes")
        }
        _ => "sizes are equal, or 1, from the last axis on; unsqueeze, transpose and reshape make them so".into(),
    }
}

/// How an operand comes to have its shape.
pub(super) fn fitting(operand: &str, expected: &Shape, found: &Shape) -> &'static str {
    match operand {
        "index"
            if found.rank() + 1 == expected.rank()
                && found.numel() == expected.numel()
                && expected.contains(&1) =>
        {
            "unsqueeze adds the axis that it goes along"
        }
        "index" => {
            "it has as many axes as the tensor, none longer but the one it goes along; unsqueeze, narrow and expand make it so"
        }
        "source" => "there is a part of it for each index; unsqueeze and expand make it so",
        "output" => "make it by Tensor::zeros of that shape, or use the form that makes a new tensor",
        "input's end" => "name the sizes that the input ends in",
        "key" => "keys and queries have one size in their last axis",
        "value" => "there is one for each key",
        _ if expected.numel() == found.numel() => "reshape it",
        "weight" | "bias" | "mean" | "var" => {
            "there is a number for each channel or feature; make it, or its layer, for as many"
        }
        "weights" | "repeats" => "there is one for each element",
        _ => "no other shape fits",
    }
}

/// How to give two operands one element type: whole numbers become those with a fraction.
pub(super) fn one_dtype(a: (&str, DType), b: (&str, DType)) -> String {
    let converted = |of: (&str, DType), to: DType| format!("convert the {} with to(DType::{to:?})", of.0);
    match (a.1.is_float(), b.1.is_float()) {
        (false, true) => converted(a, b.1),
        (true, false) => converted(b, a.1),
        _ => format!("{}, or {}", converted(a, b.1), converted(b, a.1).replacen("convert ", "", 1)),
    }
}

/// Which of two matrices might be meant with its axes exchanged.
fn transposed(a: &Shape, b: &Shape) -> &'static str {
    let inner = |s: &Shape, back: usize| s.rank().checked_sub(back).map(|i| s[i]);
    let batch = |s: &Shape| s.rank().saturating_sub(2);
    if !can_broadcast(&a[..batch(a)], &b[..batch(b)]) {
        ""
    } else if b.rank() > 1 && inner(a, 1) == inner(b, 1) {
        "; transpose(-2, -1) of the second would fit"
    } else if a.rank() > 1 && inner(a, 2) == inner(b, b.rank().min(2)) {
        "; transpose(-2, -1) of the first would fit"
    } else {
        ""
    }
}
