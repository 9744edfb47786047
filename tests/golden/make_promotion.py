"""The result dtypes of PyTorch, operation by operation, as a table.

Run:     python tests/golden/make_promotion.py
Needs:   PyTorch 2.15.0 on the CPU
Writes:  promotion.json.gz beside this file, the same bytes on every run

The table is a JSON list with one row per line:

    {"op": "add", "operands": [{"kind": "tensor", "dtype": "i64"}, {"kind": "scalar", "dtype": "float"}], "result": "f32"}

- `kind` is "tensor" (shape [2], or [2, 2] for matrix products), "zero_dim" (shape []) or "scalar" (a plain number).
- `dtype` is bool, i64, f32 or f64 for tensors, and bool, int or float for scalars.
- `args`, where present, holds further arguments by PyTorch's parameter name (`min` and `max` of clamp, `alpha`, `dim`).
- `result` is the dtype of the result, or {"error": text} where PyTorch refuses the call.
- For `where` the operands are `input` and `other`; its condition is a bool tensor.
- An operation whose name ends in `_` is the in-place form: the result is the first operand's dtype, or a refusal.
- Every value is a one, so no refusal depends on data.
- `maximum`, `minimum`, `logical_*`, `cat` and the matrix products take no plain numbers in PyTorch, so they have no scalar rows.
"""

import gzip
import itertools
import json
import pathlib

import torch

TORCH_VERSION = "2.15.0"
DTYPES = {"bool": torch.bool, "i64": torch.int64, "f32": torch.float32, "f64": torch.float64}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
SCALARS = {"bool": True, "int": 1, "float": 1.5}

TENSORS = [("tensor", d) for d in DTYPES]
ZERO_DIMS = [("zero_dim", d) for d in DTYPES]
NUMBERS = [("scalar", d) for d in SCALARS]

# A float function turns integers and bools into the default float type, f32.
UNARY = [
    "neg", "abs", "sign", "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "square", "reciprocal", "sin", "cos", "tanh",
    "sigmoid", "relu", "erf", "gelu", "softplus", "silu", "logical_not",
]
IN_NN = {"gelu", "softplus", "silu"}
CLAMP_LIMITS = [{"min": 0}, {"max": 2}, {"min": 0, "max": 2}, {"min": 0.5}, {"max": 1.5}, {"min": 0, "max": 1.5}]
REDUCTIONS = ["sum", "mean", "var", "std", "amax", "amin", "argmax", "argmin", "max", "min", "prod", "logsumexp", "any", "all"]
DIM_REDUCTIONS = ["sum", "mean", "var", "std", "amax", "amin", "argmax", "argmin", "max", "min", "prod", "any", "all"]
NEEDS_DIM = {"logsumexp"}
ALONG_DIM = ["softmax", "log_softmax"]
WITH_NUMBERS = ["add", "sub", "mul", "div", "pow", "eq", "ne", "lt", "le", "gt", "ge"]
TENSORS_ONLY = ["maximum", "minimum", "logical_and", "logical_or", "logical_xor"]
IN_PLACE = ["add_", "sub_", "mul_", "div_", "pow_"]
ALPHAS = [True, 2, 2.5]
MATRIX = ["matmul", "mm", "bmm", "mv", "dot"]
MATRIX_SHAPES = {"matmul": ([2, 2], [2, 2]), "mm": ([2, 2], [2, 2]), "bmm": ([1, 2, 2], [1, 2, 2]), "mv": ([2, 2], [2]), "dot": ([2], [2])}


def make(operand, shape=(2,)):
    kind, dtype = operand
    if kind == "scalar":
        return SCALARS[dtype]
    return torch.ones(shape if kind == "tensor" else (), dtype=DTYPES[dtype])


def describe(value):
    value = value[0] if isinstance(value, tuple) else value  # max with dim: (values, indices)
    return NAMES[value.dtype]


def row(op, operands, call, args=None):
    """One row of the table: runs `call` and writes down the dtype of its result, or PyTorch's refusal."""
    try:
        result = describe(call())
    except (RuntimeError, TypeError, IndexError, ValueError) as refusal:
        result = {"error": str(refusal).split("\n")[0]}
    out = {"op": op, "operands": [{"kind": k, "dtype": d} for k, d in operands]}
    if args:
        out["args"] = args
    return out | {"result": result}


def unary_function(name):
    return getattr(torch.nn.functional if name in IN_NN else torch, name)


def unary_rows():
    for name, operand in itertools.product(UNARY, TENSORS + ZERO_DIMS):
        yield row(name, [operand], lambda: unary_function(name)(make(operand)))
    for limits, operand in itertools.product(CLAMP_LIMITS, TENSORS + ZERO_DIMS):
        yield row("clamp", [operand], lambda: torch.clamp(make(operand), **limits), limits)
    for target, operand in itertools.product(DTYPES, TENSORS):
        yield row("to", [operand], lambda: make(operand).to(DTYPES[target]), {"dtype": target})


def reduction_rows():
    for name, operand in itertools.product(REDUCTIONS, TENSORS):
        args = {"dim": 0} if name in NEEDS_DIM else {}
        yield row(name, [operand], lambda: getattr(torch, name)(make(operand), **args), args)
    for name, operand in itertools.product(DIM_REDUCTIONS + ALONG_DIM, TENSORS):
        args = {"dim": 0}
        yield row(name, [operand], lambda: getattr(torch, name)(make(operand), **args), args)
    for name, target, operand in itertools.product(["sum", "mean", "prod", *ALONG_DIM], DTYPES, TENSORS):
        args = {"dim": 0, "dtype": target}
        yield row(name, [operand], lambda: getattr(torch, name)(make(operand), dim=0, dtype=DTYPES[target]), args)


def pairs(with_numbers):
    kinds = TENSORS + ZERO_DIMS + (NUMBERS if with_numbers else [])
    return [p for p in itertools.product(kinds, kinds) if not (p[0][0] == "scalar" and p[1][0] == "scalar")]


OPERATORS = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
    "pow": lambda a, b: a**b, "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}


def binary_rows():
    for name, (a, b) in itertools.product(WITH_NUMBERS, pairs(with_numbers=True)):
        yield row(name, [a, b], lambda: OPERATORS[name](make(a), make(b)))
    for name, (a, b) in itertools.product(TENSORS_ONLY, pairs(with_numbers=False)):
        yield row(name, [a, b], lambda: getattr(torch, name)(make(a), make(b)))
    for a, b in itertools.product(TENSORS + ZERO_DIMS + NUMBERS, repeat=2):
        condition = torch.ones(2, dtype=torch.bool)
        yield row("where", [a, b], lambda: torch.where(condition, make(a), make(b)))
    for name, alpha, (a, b) in itertools.product(["add", "sub"], ALPHAS, itertools.product(TENSORS, TENSORS)):
        yield row(name, [a, b], lambda: getattr(torch, name)(make(a), make(b), alpha=alpha), {"alpha": alpha})
    for name, a, b in itertools.product(IN_PLACE, TENSORS, TENSORS + ZERO_DIMS + NUMBERS):
        yield row(name, [a, b], lambda: getattr(make(a), name)(make(b)))


def many_rows():
    for name, (a, b) in itertools.product(["cat", "stack"], itertools.product(TENSORS, repeat=2)):
        yield row(name, [a, b], lambda: getattr(torch, name)([make(a), make(b)]))
    yield row("cat", [ZERO_DIMS[0], TENSORS[0]], lambda: torch.cat([make(ZERO_DIMS[0]), make(TENSORS[0])]))
    for name, (a, b) in itertools.product(MATRIX, itertools.product(TENSORS, repeat=2)):
        left, right = MATRIX_SHAPES[name]
        yield row(name, [a, b], lambda: getattr(torch, name)(make(a, left), make(b, right)))


def main():
    version = torch.__version__.split("+")[0]
    if version != TORCH_VERSION:
        raise SystemExit(f"this table is PyTorch {TORCH_VERSION}'s; here is {version}")
    rows = [*unary_rows(), *reduction_rows(), *binary_rows(), *many_rows()]
    lines = [json.dumps(r) for r in rows]
    target = pathlib.Path(__file__).with_name("promotion.json.gz")
    text = "[\n" + ",\n".join(lines) + "\n]\n"
    target.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))
    refused = sum(isinstance(r["result"], dict) for r in rows)
    print(f"{target.name}: {len(rows)} rows, {refused} of them refusals, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
