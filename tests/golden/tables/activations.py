"""Activations with kinks or settings, rounding, and what is done about numbers that are none."""

import torch
from torch.nn import functional as F

from .samples import FLOATS, SPECIAL, Op, T, V, inf, nan, ok, one_operand, refused

BOOL, BOTH = ("bool",), ("bool", "i64")
KINKS = [-3.0, 3.0, -2.9999, 2.9999, 6.0, -0.5, 0.5, 20.5, -20.0, 1e-9, -1e-9]
HALVES = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, 3.7, -3.7, 4503599627370497.5, 8388609.0]


def edges(values=KINKS, **more):
    """The special numbers in both float types; so many that PyTorch takes the NaN in its vectors, which treat it in their own way."""
    for dtype in FLOATS:
        yield ok(input=V(*SPECIAL[dtype], *values, dtype=dtype), tags=["special"], **more)


def settings(refuses=(), **each):
    """An activation with settings, each value of which is tried."""
    for name, values in each.items():
        for value in values:
            yield ok(input=T([2, 3], "transposed"), **{name: value})
            yield ok(input=T([5], dtype="f32"), **{name: value})
            yield from edges(**{name: value})
            for dtype in refuses:
                yield refused(input=T([3], dtype=dtype), **{name: value})


def hardtanh():
    for low, high in [(-2, 2), (0, 0.5), (-0.125, inf), (1, 1), (-inf, 0)]:
        yield ok(input=T([2, 3], "strided"), min_val=low, max_val=high)
        yield ok(input=T([4], dtype="f32"), min_val=low, max_val=high)
        yield from edges(min_val=low, max_val=high)
    for low, high in [(-2, 2), (-1.5, 2.5), (0, 0)]:
        yield ok(input=V(-7, -2, -1, 0, 1, 2, 7, dtype="i64"), min_val=low, max_val=high)
    yield refused(input=T([3]), min_val=1, max_val=-1)
    yield refused(input=T([3], dtype="bool"), min_val=0, max_val=1)


def decimals():
    values = [1.25, -1.35, 125.0, 15.0, 25.0, -150.0, 0.125, 2.675, 1e300, -0.0, 0.0, inf, -inf, nan]
    for places in (0, 1, 2, -1, -2, 5, -5, 20, 400):
        yield ok(input=V(*values), decimals=places, tags=["special"])
        yield ok(input=V(1.25, -0.75, 15.0, 2.5, -124.0, dtype="f32"), decimals=places)
    yield ok(input=T([2, 3], "transposed"), decimals=1)
    yield ok(input=T([0, 3]), decimals=1)
    for places in (0, 1, -1):
        yield refused(input=T([3], dtype="i64"), decimals=places)


def replaced():
    values = [nan, inf, -inf, 0.0, -0.0, 1.5]
    for nan_, posinf, neginf in [(None, None, None), (1, 2, 3), (nan, inf, -inf), (inf, nan, 0.0)]:
        more = {"nan": nan_, "posinf": posinf, "neginf": neginf}
        yield ok(input=V(*values), tags=["special"], **more)
        yield ok(input=V(*values, dtype="f32"), tags=["special"], **more)
        yield ok(input=T([2, 3], "strided"), **more)
        yield ok(input=T([3], dtype="i64"), **more)
        yield ok(input=T([3], dtype="bool"), **more)
    yield ok(input=V(*values, dtype="f32"), nan=1e300, posinf=1e300, neginf=-1e300, tags=["special"])


def prelu():
    for shape, layout in [([2, 3], "contiguous"), ([2, 3, 2], "transposed"), ([2, 3, 1, 2], "strided"), ([3, 3], "expanded"), ([2, 3, 0], "contiguous")]:
        yield ok(input=T(shape, layout), weight=T([3]))
        yield ok(input=T(shape, layout), weight=T([1]))
        yield ok(input=T(shape, layout), weight=T([]))
    yield ok(input=T([5]), weight=T([1]))
    yield ok(input=T([]), weight=T([1]))
    yield ok(input=T([]), weight=T([]))
    yield ok(input=T([0]), weight=T([1]))
    yield ok(input=T([2, 3], dtype="f32"), weight=T([3], dtype="f32"))
    yield ok(input=T([2, 3]), weight=T([3], grad=False))
    yield ok(input=T([2, 3], grad=False), weight=T([3], "strided"))
    yield ok(input=V(0.0, -0.0, 1.0, -1.0), weight=V(0.25), tags=["special", "ties"])
    yield ok(input=V(inf, -inf, nan, 2.0), weight=V(0.25), tags=["special"])
    yield refused(input=T([2, 3]), weight=T([2]))
    yield refused(input=T([3]), weight=T([3]))
    yield refused(input=T([]), weight=T([2]))
    yield refused(input=T([2, 3]), weight=T([1, 3]))
    yield refused(input=T([2, 3]), weight=T([3], dtype="f32"))
    yield refused(input=T([2, 3], dtype="i64"), weight=T([3], dtype="i64"))


INTEGERS = [ok(input=V(0, 1, -1, 2**62, -(2**63), 2**63 - 1, dtype="i64"), tags=["special"])]


def whole():
    return [one_operand(refuses=BOOL), edges(HALVES), INTEGERS]


OPS = [
    Op("elu", F.elu, [one_operand(refuses=BOTH), edges(), settings(BOTH, alpha=[0.5, 2, -1, 0])]),
    Op("selu", F.selu, [one_operand(refuses=BOTH), edges()]),
    Op("celu", F.celu, [one_operand(refuses=BOTH), edges(), settings(BOTH, alpha=[0.5, 2, -1]), [refused(input=T([3]), alpha=0)]]),
    Op("leaky_relu", F.leaky_relu, [one_operand(refuses=BOTH), edges(), settings(BOTH, negative_slope=[0.5, 0, -1, 2])]),
    Op("hardtanh", F.hardtanh, [one_operand(refuses=BOOL), edges(), hardtanh()]),
    Op("hardsigmoid", F.hardsigmoid, [one_operand(refuses=BOTH), edges()], orders=1),
    Op("hardswish", F.hardswish, [one_operand(refuses=BOTH), edges()]),
    Op("mish", F.mish, [one_operand(refuses=BOTH), edges(KINKS + [-40.0, 40.0])]),
    Op("logsigmoid", F.logsigmoid, [one_operand(refuses=BOTH), edges(KINKS + [-800.0, 800.0])]),
    Op("softsign", F.softsign, [one_operand(refuses=BOOL), edges()]),
    Op("prelu", F.prelu, [prelu()]),
    Op("floor", torch.floor, whole()),
    Op("ceil", torch.ceil, whole()),
    Op("round", torch.round, [*whole(), decimals()]),
    Op("trunc", torch.trunc, whole()),
    Op("frac", torch.frac, [one_operand(refuses=BOTH), edges(HALVES)]),
    Op("nan_to_num", torch.nan_to_num, [one_operand(), replaced()]),
    Op("isnan", torch.isnan, [one_operand(), edges([])]),
    Op("isinf", torch.isinf, [one_operand(), edges([])]),
    Op("isfinite", torch.isfinite, [one_operand(), edges([])]),
    Op("bitwise_not", torch.bitwise_not, [
        [ok(input=T(shape, layout, dtype=dtype)) for dtype in BOTH for shape, layout in [([], "contiguous"), ([2, 3], "transposed"), ([3, 2], "expanded"), ([0], "contiguous"), ([5], "strided")]],
        INTEGERS, [refused(input=T([3])), refused(input=T([3], dtype="f32"))],
    ]),
]  # fmt: skip
