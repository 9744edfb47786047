"""Whether a program says the same when its values are a little different: rounding must not decide what it computes.

Every value that two correct libraries may round differently is moved by far more than a rounding, in several runs. What only
moves elements, or rounds once by the rules of IEEE 754, is left alone, and so are small dyadic fractions made of small dyadic
fractions: those are exact everywhere, and it is from them that ties and kinks are made.
"""

import torch

from .machine import Machine, Refused, overlaps

EXACT = {
    "neg", "abs", "sign", "square", "relu", "add", "sub", "mul", "maximum", "minimum", "clamp", "where", "to", "eq", "ne", "lt", "le",
    "gt", "ge", "amax", "amin", "max", "min", "cat", "stack", "index_select", "gather", "expand", "reshape", "permute", "unsqueeze",
    "squeeze", "flatten", "flip", "movedim", "transpose", "t", "narrow", "select", "slice", "contiguous", "__rsub__", "add_", "sub_",
    "mul_", "clamp_", "logical_and", "logical_or", "logical_xor", "logical_not", "any", "all", "argmax", "argmin",
}  # fmt: skip
# Sums of terms that may cancel: what they are off by depends on the terms.
SUMS = {"sum", "mean", "prod", "var", "std", "matmul", "linear", "sum_to_size", "scatter_add", "index_add", "logsumexp"}
NOISE = {torch.float64: 1e-12, torch.float32: 5e-7}
RUNS = 4
BIGGEST = 1e100


def dyadic(v):
    """Which elements are small multiples of 1/1024."""
    return (v * 1024 == (v * 1024).round()) & (v.abs() < 2**12)


def shaken(seed):
    """Moves what a statement has made, see above."""
    generator = torch.Generator().manual_seed(seed)

    def shake(machine, statement, made):
        passes = statement["do"] in ("backward", "grad")
        if not passes and (statement["do"] not in ("call", "write") or statement["op"] in EXACT and "alpha" not in statement["args"]):
            return
        inputs = [machine.slots[i] for i in statement.get("inputs", {}).values()] if not passes else []
        inputs = [v.detach() for v in inputs if v is not None and v.dtype.is_floating_point]
        simple = all(bool(dyadic(v).all()) for v in inputs)
        for slot in made:
            v = machine.slots[slot]
            if v is None or not v.dtype.is_floating_point or v.numel() == 0 or v._is_zerotensor():
                continue
            data = v.data  # what autograd has saved moves with it
            terms = max([w[w.isfinite()].abs().max().item() for w in inputs if w.isfinite().any()], default=0.0)
            size = data.abs() + terms if statement.get("op") in SUMS else data.abs()
            noise = NOISE[v.dtype] * size * (2 * torch.rand(v.shape, generator=generator, dtype=torch.float64) - 1)
            moved = data + noise.to(v.dtype)
            if not overlaps(data):
                data.copy_(torch.where(data.isfinite() & ~(dyadic(data) & simple), moved, data))

    return shake


def agree(a, b, coarse):
    """Whether two runs have the same value, or the same gradient, or both none."""
    if (a is None) != (b is None):
        return False
    if a is None:
        return True
    a, b = a.detach(), b.detach()
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not a.dtype.is_floating_point:
        return torch.equal(a, b)
    a, b = a.double(), b.double()
    if not torch.equal(a.isnan(), b.isnan()) or not torch.equal(a.isinf(), b.isinf()):
        return False
    finite = a.isfinite()
    if not torch.equal(a[~finite & ~a.isnan()], b[~finite & ~a.isnan()]):
        return False
    a, b = a[finite], b[finite]
    if a.numel() == 0:
        return True
    absolute, relative = (3e-7, 8e-6) if coarse else (1e-11, 1e-10)
    scale = a.abs().max().item()
    return scale < BIGGEST and bool(((a - b).abs() <= absolute + relative * scale).all())


def steady(program, machine):
    """Whether every slot stays what it is, within a tenth of what the replayer allows."""
    coarse = any(v is not None and v.dtype == torch.float32 for v in machine.slots)
    for seed in range(RUNS):
        try:
            again = Machine().run(program, shaken(seed))
        except (Refused, AssertionError):  # refused, or no longer refused
            return False
        if not all(agree(a, b, coarse) for a, b in zip(machine.slots, again.slots)):
            return False
    return True
