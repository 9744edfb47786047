"""Steps of a program that change shapes: reductions and views."""

import math

import torch

from .draw import call, slices
from .machine import overlaps


def reduction(d):
    name = d.rng.choice(["sum", "sum", "mean", "amax", "amin", "logsumexp", "var", "std", "prod", "max", "min"])
    slot = d.slot()
    if slot is None:
        return None
    v = d.value(slot)
    axes, args = d.axes(v), {}
    if name in ("max", "min"):
        if d.chance(0.4):
            return [call(name, {"input": slot})]
        return [call(name, {"input": slot}, dim=d.axis(v), keepdim=d.chance(0.4))]
    if name == "prod":
        args = {"dim": d.axis(v), "keepdim": d.chance(0.4)} if d.chance(0.6) else {}
        return [call(name, {"input": slot}, **args)]
    if axes is None and name == "logsumexp":
        axes = list(range(v.dim()))
    if axes is not None:
        args = {"dim": axes, "keepdim": d.chance(0.4)}
    if name in ("var", "std"):
        args["correction"] = d.rng.choice([0, 1, 1])
        if axes is None:
            args["dim"] = None
    return [call(name, {"input": slot}, **args)]


def truth(d):
    slot = d.slot(floating=d.chance(0.5))
    if slot is None:
        return None
    v, name = d.value(slot), d.rng.choice(["any", "all", "argmax", "argmin"])
    if v.dtype == torch.bool and name.startswith("arg"):
        return None
    return [call(name, {"input": slot}, **({"dim": d.axis(v), "keepdim": d.chance(0.4)} if d.chance(0.7) else {}))]


def softmax(d):
    slot = d.slot()
    return None if slot is None else [call(d.rng.choice(["softmax", "log_softmax"]), {"input": slot}, dim=d.axis(d.value(slot)))]


def folded(d):
    slot = d.slot()
    if slot is None:
        return None
    shape = [n if d.chance(0.6) else 1 for n in d.value(slot).shape][d.rng.choice([0, 0, 1]) :]
    if shape == list(d.value(slot).shape):  # nothing to do, which PyTorch records and this library does not
        return None
    return [call("sum_to_size", {"input": slot}, size=shape)]


def view(d):
    slot = d.slot(floating=not d.chance(0.05))
    if slot is None:
        return None
    v, name = d.value(slot), d.rng.choice(list(VIEWS))
    args = VIEWS[name](d, v)
    return None if args is None else [call(name, {"input": slot}, **args)]


def expand(d, v):
    size = [d.size() if n == 1 else d.rng.choice([n, -1]) for n in v.shape]
    size = [d.size() for _ in range(d.rng.choice([0, 0, 1]))] + size
    full = [n if n >= 0 else m for n, m in zip(reversed(size), list(reversed(v.shape)) + [1] * 9)]
    return {"size": size} if math.prod(full) <= 48 and len(size) <= 5 else None


def reshape(d, v):
    rest, shape = v.numel(), []
    while rest > 1 and len(shape) < 4 and d.chance(0.8):
        n = d.rng.choice([n for n in range(1, rest + 1) if rest % n == 0])
        shape.append(n)
        rest //= n
    shape.append(rest)
    if d.chance(0.3) and v.numel():
        shape[d.rng.randrange(len(shape))] = -1
    return {"shape": shape}


def permute(d, v):
    return {"dims": d.rng.sample(range(v.dim()), v.dim())}


def unsqueeze(d, v):
    return {"dim": d.rng.randint(-v.dim() - 1, v.dim())} if v.dim() < 5 else None


def squeeze(d, v):
    return {} if d.chance(0.4) else {"dim": d.axis(v)}


def flatten(d, v):
    a, b = sorted([d.rng.randrange(max(v.dim(), 1)), d.rng.randrange(max(v.dim(), 1))])
    return {"start_dim": a, "end_dim": b}


def flip(d, v):
    if overlaps(v):  # a flip of nothing is a view here, and stays one that cannot be written
        return None
    return {"dims": d.rng.sample(range(v.dim()), d.rng.randint(0, v.dim()))}


def movedim(d, v):
    return {"source": d.axis(v), "destination": d.axis(v)} if v.dim() else None


def transpose(d, v):
    return {"dim0": d.axis(v), "dim1": d.axis(v)}


def t(d, v):
    return {} if v.dim() <= 2 else None


def narrow(d, v):
    if v.dim() == 0:
        return None
    axis = d.rng.randrange(v.dim())
    start = d.rng.randint(0, v.shape[axis])
    return {"dim": axis, "start": start, "length": d.rng.randint(0 if d.chance(0.1) else min(1, v.shape[axis] - start), v.shape[axis] - start)}


def select(d, v):
    if v.dim() == 0:
        return None
    axis = d.rng.randrange(v.dim())
    if not v.shape[axis] and not d.chance(0.1):
        return None
    return {"dim": axis, "index": d.rng.randrange(-v.shape[axis], v.shape[axis]) if v.shape[axis] else 0}


def steps(d, v):
    if v.dim() == 0:
        return None
    axis = d.axis(v)
    return {"dim": axis, "start": d.rng.randint(-2, 1), "end": d.rng.randint(1, 5), "step": d.rng.choice([1, 1, 2, 3])}


def contiguous(d, v):
    return {}


VIEWS = {
    "expand": expand, "reshape": reshape, "permute": permute, "unsqueeze": unsqueeze, "squeeze": squeeze, "flatten": flatten,
    "flip": flip, "movedim": movedim, "transpose": transpose, "t": t, "narrow": narrow, "select": select, "slice": steps,
    "contiguous": contiguous,
}  # fmt: skip


def part(d):
    slot = d.slot()
    return None if slot is None else [{"do": "part", "input": slot, "slices": slices(d, d.value(slot))}]
