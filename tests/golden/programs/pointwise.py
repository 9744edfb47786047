"""Steps of a program that work element by element: functions of one number and of two, comparisons, choices, casts."""

import math

import torch

from tables.case import NAMES

from .draw import anywhere, broadcast, call, divisible, least, most, nearest, partner


UNARY = {
    "neg": anywhere, "abs": anywhere, "sign": anywhere, "square": anywhere, "sin": anywhere, "cos": anywhere, "tanh": anywhere,
    "sigmoid": anywhere, "erf": anywhere, "relu": anywhere, "silu": anywhere, "gelu": anywhere, "softplus": anywhere,
    "exp": lambda v: most(v) < 5, "expm1": lambda v: most(v) < 5,
    "log": lambda v: least(v) > 0.05, "sqrt": lambda v: least(v) > 0.05, "rsqrt": lambda v: least(v) > 0.05,
    "log1p": lambda v: least(v) > -0.9, "reciprocal": lambda v: nearest(v) > 0.1,
}  # fmt: skip


def unary(d):
    name = d.rng.choice(list(UNARY))
    slot = d.slot(UNARY[name] if d.kind == "plain" else anywhere)
    if slot is None:
        return None
    args = {}
    if name == "gelu" and d.kind == "nonfinite" and d.value(slot).dtype == torch.float32:
        return None  # PyTorch's own kernels for gelu in f32 disagree about infinities
    if name == "gelu" and d.chance(0.5):
        args = {"approximate": "tanh"}
    if name == "softplus" and d.chance(0.5):
        args = {"beta": d.rng.choice([0.5, 2.0, -1.0]), "threshold": d.rng.choice([1.0, 20.0])}
    return [call(name, {"input": slot}, **args)]


def positive(d):
    """A positive value, so that roots and logarithms follow."""
    slot = d.slot()
    name = d.rng.choice(["square", "abs", "exp", "sigmoid"])
    if slot is None or name == "exp" and most(d.value(slot)) > 4:
        return None
    return [call(name, {"input": slot}), call("add", {"input": d.next()}, other=d.rng.choice([0.25, 0.5, 1]))]


def right_side(d, slot, suits=anywhere, floating=True):
    """Either a tensor or a number as `other`."""
    if d.chance(0.25):
        return {}, {"other": d.number()}
    other = partner(d, slot, suits, floating)
    return ({}, {"other": d.number()}) if other is None else ({"other": other}, {})


def arithmetic(d):
    name = d.rng.choice(["add", "sub", "mul", "mul", "div"])
    slot = d.slot(floating=not d.chance(0.05))
    if slot is None:
        return None
    inputs, args = right_side(d, slot, divisible(d) if name == "div" else anywhere, not d.chance(0.1))
    if name == "div" and d.chance(0.1):
        args["rounding_mode"] = d.rng.choice(["floor", "trunc"])
    if name in ("add", "sub") and d.chance(0.2):
        args["alpha"] = d.rng.choice([2.5, -0.5, 3, 0])
    if args.get("other") == 0 and name == "div" and d.kind == "plain":
        return None
    return [call(name, {"input": slot} | inputs, **args)]


def reflected(d):
    name = d.rng.choice(["__rsub__", "__rdiv__", "__rpow__"])
    suits = {"__rsub__": anywhere, "__rdiv__": lambda v: nearest(v) > 0.1, "__rpow__": lambda v: most(v) < 4}[name]
    slot = d.slot(suits if d.kind == "plain" else anywhere)
    number = d.rng.choice([1.5, 2, 0.5]) if name == "__rpow__" else d.number()
    return None if slot is None else [call(name, {"input": slot}, other=number)]


def power(d):
    if d.chance(0.5):
        slot = d.slot(lambda v: nearest(v) > 0.1 if d.kind == "plain" else True)
        exponent = d.rng.choice([2, 3, 2.0, -1, 0, 1, 4])
        if d.kind != "plain" and d.chance(0.4):
            exponent = d.rng.choice([0.5, -0.5, 1.5])
        return None if slot is None else [call("pow", {"input": slot}, exponent=exponent)]
    slot = d.slot(lambda v: least(v) > 0.1 if d.kind == "plain" else True)
    if slot is None:
        return None
    other = partner(d, slot, lambda v: -3 < least(v) and most(v) < 3 if d.kind == "plain" else True)
    return None if other is None else [call("pow", {"input": slot, "exponent": other})]


def extreme(d):
    slot = d.slot()
    other = None if slot is None else partner(d, slot)
    return None if other is None else [call(d.rng.choice(["maximum", "minimum"]), {"input": slot, "other": other})]


def clamp(d):
    slot = d.slot()
    if slot is None:
        return None
    inputs, args = {"input": slot}, {}
    for bound in d.rng.choice([["min"], ["max"], ["min", "max"]]):
        other = partner(d, slot)
        if other is None or d.chance(0.5):
            args[bound] = d.number()
        else:
            inputs[bound] = other
    if len(inputs) > 1 and args:  # PyTorch wants both to be numbers or both tensors
        return None
    return [call("clamp", inputs, **args)]


def compare(d):
    slot = d.slot()
    if slot is None:
        return None
    inputs, args = right_side(d, slot)
    return [call(d.rng.choice(["eq", "ne", "lt", "le", "gt", "ge"]), {"input": slot} | inputs, **args)]


def choose(d):
    """A comparison and a choice by it; or a choice by an older one."""
    condition = d.slot(lambda v: v.dtype == torch.bool, floating=False)
    first = []
    if condition is None or d.chance(0.5):
        first = compare(d)
        if first is None:
            return None
        value = d.value(first[0]["inputs"]["input"])
        condition = d.next()
        shape = value.shape if "other" not in first[0]["inputs"] else broadcast(value.shape, d.value(first[0]["inputs"]["other"]).shape)
    else:
        shape = d.value(condition).shape

    def fits(v):
        common = broadcast(shape, v.shape) if shape is not None else None
        return common is not None and math.prod(common) <= 48

    inputs, args = {"condition": condition}, {}
    a, b = d.slot(fits), d.slot(fits)
    if a is None or b is None or broadcast(shape, d.value(a).shape, d.value(b).shape) is None:
        return None
    inputs["input"] = a
    if d.chance(0.3):
        args["other"] = d.number()
    else:
        inputs["other"] = b
    return first + [call("where", inputs, **args)]


def logic(d):
    slot = d.slot(lambda v: v.dtype == torch.bool, floating=False)
    if slot is None:
        return None
    if d.chance(0.3):
        return [call("logical_not", {"input": slot})]
    other = partner(d, slot, lambda v: v.dtype == torch.bool, floating=False)
    name = d.rng.choice(["logical_and", "logical_or", "logical_xor"])
    return None if other is None else [call(name, {"input": slot, "other": other})]


def cast(d):
    slot = d.slot(floating=not d.chance(0.5))
    if slot is None:
        return None
    have = NAMES[d.value(slot).dtype]
    wanted = d.rng.choice(["f64", "f64", "i64", "bool"]) if d.dtypes == ["f64"] else d.rng.choice(["f64", "f32"])
    if have == wanted or wanted == "i64" and not d.value(slot).detach().isfinite().all():
        return None
    return [call("to", {"input": slot}, dtype=wanted)]
