"""One golden case: build its inputs, run it in PyTorch, write it down. The format is that of the conformance replayer.

Inputs are described by plain dictionaries, as they stand in the file, and everything is built from those, so that a case read
back from its file takes exactly the same path as when it was made.
"""

import json
import math
import re

import numpy
import torch

DTYPES = {"f64": torch.float64, "f32": torch.float32, "i64": torch.int64, "bool": torch.bool}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
FLOATS = ("f64", "f32")
# What stands between the elements of a strided input. A kernel that reads there shows it.
FILLERS = {"f64": math.nan, "f32": math.nan, "i64": -987654321, "bool": True}


# Numbers as JSON ------------------------------------------------------------------------------------------------------


def encode_number(value):
    """NaN and the infinities have no JSON number and are written as words."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def encode_data(tensor):
    """The elements in row-major order, each as the shortest text that gives the same number in the tensor's dtype."""
    if tensor._is_zerotensor():  # PyTorch's zeros without storage, which some second derivatives are
        tensor = torch.zeros(tensor.shape, dtype=tensor.dtype)
    flat = tensor.detach().reshape(-1)
    if tensor.dtype == torch.bool:
        return [int(v) for v in flat]
    if tensor.dtype == torch.float32:
        return [encode_number(float(str(v))) for v in flat.numpy().astype(numpy.float32)]
    return [encode_number(v) for v in flat.tolist()]


def decode_data(data, shape, dtype):
    values = [float(v) if dtype in FLOATS else v for v in data]
    return torch.tensor(values, dtype=DTYPES[dtype]).reshape(shape)


def encode(tensor):
    if tensor is None:
        return None
    return {"shape": list(tensor.shape), "dtype": NAMES[tensor.dtype], "data": encode_data(tensor)}


def decode(written):
    return None if written is None else decode_data(written["data"], written["shape"], written["dtype"])


# Layouts --------------------------------------------------------------------------------------------------------------


def row_major(shape):
    strides, step = [0] * len(shape), 1
    for axis in reversed(range(len(shape))):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return strides


def strides_of(shape, layout):
    """(strides, offset) that give the layout its name."""
    if layout == "offset":
        return row_major(shape), 2
    if layout == "transposed":  # the axes stand in storage in rotated order: for a matrix, column by column
        rotated = list(shape[1:]) + list(shape[:1])
        strides = row_major(rotated)
        return strides[-1:] + strides[:-1], 0
    if layout == "strided":  # every second element of rows that are one longer than needed
        padded = [n + 1 for n in shape]
        return [2 * s for s in row_major(padded)], 1
    if layout == "expanded":
        axis = expanded_axis(shape)
        base = list(shape)
        base[axis] = 1
        strides = row_major(base)
        strides[axis] = 0
        return strides, 0
    raise ValueError(layout)


def expanded_axis(shape):
    """The axis that an expanded input repeats: its first of more than one element."""
    return next(axis for axis, n in enumerate(shape) if n > 1)


def build(written):
    """The input as a leaf tensor with the strides and the offset that were written down."""
    dtype, shape = written["dtype"], written["shape"]
    values = decode_data(written["data"], shape, dtype)
    if written["layout"] != "contiguous":
        strides, offset = written["strides"], written["offset"]
        size = offset + 1 + sum((n - 1) * s for n, s in zip(shape, strides))
        storage = torch.full((max(size, offset + 1),), FILLERS[dtype], dtype=DTYPES[dtype])
        view = storage.as_strided(shape, strides, offset)
        for index in numpy.ndindex(*shape):  # element by element, for an expanded view cannot be assigned as a whole
            view[index] = values[index]
        values = view
    return values.detach().requires_grad_(written["requires_grad"])


# Calling --------------------------------------------------------------------------------------------------------------


def decode_argument(name, value):
    if name == "dtype" and value is not None:
        return DTYPES[value]
    return float(value) if value in ("nan", "inf", "-inf") else value


def call(op, inputs, args):
    """Calls the operation with everything by PyTorch's parameter name; tensors[0], tensors[1], ... become one list."""
    named = {name: decode_argument(name, value) for name, value in args.items()}
    for name, tensor in inputs.items():
        member = re.fullmatch(r"(\w+)\[\d+\]", name)
        if member:
            named.setdefault(member[1], []).append(tensor)
        else:
            named[name] = tensor
    result = op.call(**named)
    return [result] if isinstance(result, torch.Tensor) else list(result)


def gradients(of, inputs, seeds, create_graph=False):
    """Gradients of the non-null outputs for the inputs, null where an input has none."""
    tracked = [t for t in inputs if t is not None and t.requires_grad]
    roots = [(y, g) for y, g in zip(of, seeds) if g is not None and y.requires_grad]
    if not roots or not tracked:
        return [None] * len(inputs)
    outputs, grads = zip(*roots)
    found = iter(torch.autograd.grad(outputs, tracked, grads, create_graph=create_graph, allow_unused=True, retain_graph=True))
    return [next(found) if t is not None and t.requires_grad else None for t in inputs]


def run(op, written_inputs, args, draw_like=None, seeds=None, directions=None):
    """The results of a case. Seeds and directions are given, or drawn for each tensor that needs one by `draw_like`."""
    names = [w["name"] for w in written_inputs]
    tensors = [build(w) for w in written_inputs]
    before = [encode_data(t) for t in tensors]
    outputs = call(op, dict(zip(names, tensors)), args)
    result = {"outputs": [encode(y) for y in outputs]}
    changed = {n: encode_data(t) for n, t, old in zip(names, tensors, before) if json.dumps(encode_data(t)) != json.dumps(old)}
    if op.mutates:
        changed = {"input": encode_data(tensors[names.index("input")])}
    if changed:
        assert op.mutates or set(changed) <= {"running_mean", "running_var"}, f"{op.name} changed {list(changed)}"
        result["inputs_after"] = changed
    leaves = [t if w["requires_grad"] else None for t, w in zip(tensors, written_inputs)]

    if not any(y.requires_grad for y in outputs):
        return result | {"grad_outputs": [None] * len(outputs), "grads": None}
    if seeds is None:
        seeds = [draw_like(y) if y.requires_grad else None for y in outputs]
    seeds = [g if g is None else g.requires_grad_() for g in seeds]
    grads = gradients(outputs, leaves, seeds, create_graph=op.orders > 1)
    result |= {"grad_outputs": [encode(g) for g in seeds], "grads": [encode(g) for g in grads]}
    if op.orders == 1:
        return result
    if directions is None:
        directions = [draw_like(g) if g is not None else None for g in grads]
    s = sum((g * v).sum() for g, v in zip(grads, directions) if g is not None)
    second = gradients([s], leaves + seeds, [torch.ones_like(s)])
    return result | {
        "grad2": {
            "v": [encode(v) for v in directions],
            "grad_inputs": [encode(g) for g in second[: len(leaves)]],
            "grad_grad_outputs": [encode(g) for g in second[len(leaves) :]],
        },
    }


def rerun(op, case):
    """Runs a case that was read back. Gives it as it should stand in the file."""
    if "error" in case:
        return case | refusal(op, case["inputs"], case["args"])
    seeds = [decode(g) for g in case["grad_outputs"]]
    directions = [decode(v) for v in case["grad2"]["v"]] if "grad2" in case else None
    return case | run(op, case["inputs"], case["args"], seeds=seeds, directions=directions)


def refusal(op, written_inputs, args):
    """PyTorch's message for a call that it refuses; a call that succeeds is a mistake in the table."""
    tensors = {w["name"]: build(w) for w in written_inputs}
    try:
        call(op, tensors, args)
    except Exception as error:  # whatever PyTorch raises is the expected result here
        return {"error": str(error).split("\n")[0], "error_type": type(error).__name__}
    raise AssertionError(f"{op.name}: PyTorch accepts {written_inputs} {args}")


# Tags -----------------------------------------------------------------------------------------------------------------


def automatic_tags(op, written_inputs, args):
    """The tags that can be read off the inputs. `ties`, `special` and `overlap` are said in the table."""
    shapes = [w["shape"] for w in written_inputs]
    values = {v for w in written_inputs for v in w["data"]} | {v for v in args.values() if isinstance(v, str)}
    return {
        "broadcast": op.broadcasts and any(s != shapes[0] for s in shapes),
        "layout": any(w["layout"] != "contiguous" for w in written_inputs),
        "size0": any(0 in s for s in shapes),
        "0d": [] in shapes,
        "scalar": any(name in ("other", "exponent", "self", "input") for name in args),
        "mixed_dtype": len({w["dtype"] for w in written_inputs if w["name"] in op.operands or w["name"].startswith("tensors")}) > 1,
        "nan": "nan" in values,
        "nonfinite": bool({"nan", "inf", "-inf"} & values),
        "mutates": op.mutates,
    }

