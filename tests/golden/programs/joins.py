"""Steps of a program that join, pick and scatter elements, multiply matrices, or compute a loss."""

import math

from tables.case import NAMES

from .draw import broadcast, call


def join(d):
    slot = d.slot()
    if slot is None:
        return None
    v, name = d.value(slot), d.rng.choice(["cat", "stack"])
    axis = d.axis(v)

    def fits(w):
        if w.dim() != v.dim() or w.numel() > 12:
            return False
        other = list(w.shape)
        if name == "cat" and v.dim() and -v.dim() <= axis < v.dim():
            other[axis] = v.shape[axis]
        return other == list(v.shape)

    members = [slot] + [d.slot(fits) for _ in range(d.rng.randint(0, 2))]
    if None in members:
        return None
    d.rng.shuffle(members)
    return [call(name, {f"tensors[{i}]": m for i, m in enumerate(members)}, dim=axis)]


def pick(d):
    slot = d.slot(lambda v: v.dim() > 0)
    if slot is None:
        return None
    v, name = d.value(slot), d.rng.choice(["index_select", "gather"])
    axis = d.rng.randrange(v.dim())
    shape = [d.rng.randint(1, 4)] if name == "index_select" else [d.rng.randint(1, n) if n else 0 for n in v.shape]
    if name == "gather":
        shape[axis] = d.rng.randint(1, 3)
    index = d.index(shape, v.shape[axis])
    return None if index is None else [index, call(name, {"input": slot, "index": d.next()}, dim=axis)]


def scatter(d):
    slot = d.slot(lambda v: v.dim() > 0 and v.numel() > 0)
    if slot is None:
        return None
    v = d.value(slot)
    axis, name = d.rng.randrange(v.dim()), d.rng.choice(["scatter_add", "index_add"])

    def fits(w):
        others = [n == m or i == axis for i, (n, m) in enumerate(zip(v.shape, w.shape))]
        return w.dim() == v.dim() and all(others) and w.dtype == v.dtype

    source = d.slot(fits)
    if source is None:
        return None
    shape = list(d.value(source).shape)
    index = d.index(shape if name == "scatter_add" else [shape[axis]], v.shape[axis])
    if index is None:
        return None
    given = {"src" if name == "scatter_add" else "source": source}
    return [index, call(name, {"input": slot, "index": d.next()} | given, dim=axis)]


def product(d):
    slot = d.slot(lambda v: v.dim() > 0)
    if slot is None:
        return None
    v = d.value(slot)
    inner = v.shape[-1]
    if d.chance(0.3) or v.dim() == 1:
        weight = d.slot(lambda w: w.dim() == 2 and w.shape[1] == inner and w.dtype == v.dtype)
        if weight is not None:
            bias = d.slot(lambda b: list(b.shape) == [d.value(weight).shape[0]] and b.dtype == v.dtype)
            given = {"input": slot, "weight": weight}
            return [call("linear", given if bias is None or d.chance(0.3) else given | {"bias": bias})]

    def fits(w):
        rows = w.shape[-2] if w.dim() > 1 else w.shape[0] if w.dim() else None
        batch = broadcast(v.shape[:-2], w.shape[:-2])
        return rows == inner and w.dtype == v.dtype and batch is not None and math.prod(batch) <= 6

    other = d.slot(fits)
    if other is None:
        fresh = [inner, d.rng.randint(1, 3)] if d.chance(0.8) else [inner]
        return [d.leaf(fresh, dtype=NAMES[v.dtype]), call("matmul", {"input": slot, "other": d.next()})]
    return [call("matmul", {"input": slot, "other": other})]


def loss(d):
    slot = d.slot(lambda v: v.dim() > 0 and v.numel() > 0)
    if slot is None:
        return None
    v = d.value(slot)
    reduction = d.rng.choice(["mean", "sum", "none"])
    name = d.rng.choice(["mse_loss", "binary_cross_entropy_with_logits", "cross_entropy"])
    if name == "cross_entropy":
        if v.dim() != 2:
            return None
        classes = d.index([v.shape[0]], v.shape[1])
        return [classes, call(name, {"input": slot, "target": d.next()}, reduction=reduction)]
    target = d.slot(lambda w: w.shape == v.shape and w.dtype == v.dtype)
    return None if target is None else [call(name, {"input": slot, "target": target}, reduction=reduction)]
