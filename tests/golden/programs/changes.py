"""Steps of a program that write, stop or watch: in-place operations, assigned parts, `detach`, hooks, new leaves."""

from .draw import anywhere, broadcast, divisible, partner, slices
from .machine import overlaps, selection


def write(d):
    """An in-place operation on a result or on a value without history."""
    untouched = lambda v: not (v.is_leaf and v.requires_grad)
    slot = d.slot(anywhere if d.chance(0.05) else untouched)
    if slot is None:
        return None
    v, name = d.value(slot), d.rng.choice(["add_", "sub_", "mul_", "div_", "pow_", "clamp_"])
    into = {"do": "write", "into": slot, "op": name}
    small = lambda w: broadcast(v.shape, w.shape) == list(v.shape) and (name != "div_" or divisible(d)(w))
    if name == "pow_":
        return [into | {"inputs": {"input": slot}, "args": {"exponent": d.rng.choice([2, 3])}}]
    if name == "clamp_":
        return [into | {"inputs": {"input": slot}, "args": {"min": -1, "max": d.rng.choice([1, 1.5])}}]
    other = partner(d, slot) if d.chance(0.03) else d.slot(small)
    if other is None or d.chance(0.3):
        number = d.number()
        if number == 0 and name == "div_" and d.kind == "plain":
            return None
        return [into | {"inputs": {"input": slot}, "args": {"other": number}}]
    return [into | {"inputs": {"input": slot, "other": other}, "args": {}}]


def assign(d):
    untouched = lambda v: not (v.is_leaf and v.requires_grad) and not overlaps(v)
    slot = d.slot((lambda v: not overlaps(v)) if d.chance(0.05) else untouched)
    if slot is None:
        return None
    items = slices(d, d.value(slot))
    shape = list(d.value(slot).detach()[selection(items)].shape)
    value = d.slot(lambda w: len(w.shape) <= len(shape) and broadcast(shape, w.shape) == shape)
    return None if value is None else [{"do": "assign", "into": slot, "slices": items, "value": value}]


def detach(d):
    slot = d.slot()
    return None if slot is None else [{"do": "detach", "input": slot}]


def watch(d):
    """A hook, or a gradient to keep."""
    slot = d.slot(lambda v: v.requires_grad)
    if slot is None:
        return None
    if d.chance(0.5):
        return [{"do": "retain_grad", "input": slot}]
    return [{"do": "hook", "input": slot, "factor": d.rng.choice([2.0, -0.5, 10.0])}]


def new_leaf(d):
    return [d.leaf()]
