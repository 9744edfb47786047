"""Functions of one number: each row has the function, the shared samples over its domain, and the numbers special to it."""

import torch
from torch.nn import functional as F

from .samples import (
    ABOVE_MINUS_ONE, ABOVE_ONE, INSIDE, NONZERO, POSITIVE, Op, T, V, inf, nan, ok, one_operand, refused, special,
)  # fmt: skip

KINK = [3.0, 3.5, -3.0, 2.0000000000000004]  # around the places where a function has a kink or changes its formula
HUGE = [1e6, -1e6, 1e16, 1e22]  # far from zero, where sin and cos have to reduce their argument with care
TAILS = [-800.0, -700.0, -40.0, -20.0, -9.0, 9.0, 20.0, 40.0, 700.0, 800.0]
TAILS_F32 = [-110.0, -87.0, -20.0, -9.0, -5.0, 5.0, 9.0, 17.0, 20.0, 88.0, 95.0]
TINY = [1e-3, -1e-3, 1e-9, -1e-9, 1e-16, -1e-16]


def edges(f64=(), f32=()):
    """The special numbers in both float types, with more for each."""
    yield from special(f64, ["f64"])
    yield from special(f32, ["f32"])


INTEGERS = [ok(input=V(0, 1, -1, 2**62, -(2**62), 2**53 + 1, dtype="i64"), tags=["special"])]
BOOL, BOTH = ("bool",), ("bool", "i64")


def gelu():
    for approximate in ("none", "tanh"):
        for tensor in (T([]), T([3]), T([2, 3], "transposed"), T([3, 2], "expanded"), T([0, 2]), T([21], dtype="f32")):
            yield ok(input=tensor, approximate=approximate)
        yield ok(input=V(nan, inf, -inf, 0.0, -0.0, *TINY, *TAILS), approximate=approximate, tags=["special"])
        # No +inf here: PyTorch's f32 kernel has inf for one element and NaN for more.
        yield ok(input=V(nan, -inf, 0.0, -0.0, *TAILS_F32, dtype="f32"), approximate=approximate, tags=["special"])
    yield refused(input=T([3]), approximate="sigmoid")


def softplus():
    values = [nan, inf, -inf, 0.0, -0.0, 19.5, 20.0, 20.5, *TAILS]
    for beta, threshold in [(2, 20), (0.5, 20), (1, 0.5), (2.5, 1), (-1, 20), (1, -1), (3, 0)]:
        yield ok(input=T([2, 3], "transposed"), beta=beta, threshold=threshold)
        yield ok(input=V(*values), beta=beta, threshold=threshold, tags=["special"])
    yield ok(input=V(-1.0, 0.5, 1.0, 1.5), threshold=1, tags=["special"])  # at the threshold itself
    yield ok(input=V(-1.0, 0.25, 0.5, 0.75), beta=2, threshold=1, tags=["special"])
    yield ok(input=T([5], dtype="f32"), beta=2, threshold=1)


OPS = [
    Op("neg", torch.neg, [one_operand(refuses=BOOL), edges(), INTEGERS]),
    Op("abs", torch.abs, [one_operand(refuses=BOOL), edges(), INTEGERS]),
    Op("sign", torch.sign, [one_operand(), edges(KINK), INTEGERS]),
    Op("exp", torch.exp, [one_operand(), edges(TINY + TAILS + [709.75, 710.0, -745.0, -746.0], TAILS_F32)]),
    Op("expm1", torch.expm1, [one_operand(), edges(TINY + TAILS, TINY + TAILS_F32)]),
    Op("log", torch.log, [one_operand(POSITIVE), edges([2.0, 0.5, 1.0000000001, -3.0, 1e-300], [2.0, 0.5, 1.0001])]),
    Op("log1p", torch.log1p, [one_operand(ABOVE_MINUS_ONE), edges(TINY + [-0.9999999, -1.5, 1e300], TINY + [-0.9999, -1.5])]),
    Op("sqrt", torch.sqrt, [one_operand(POSITIVE), edges([2.0, 4.0, 1e-300], [2.0, 4.0])]),
    Op("rsqrt", torch.rsqrt, [one_operand(POSITIVE), edges([2.0, 4.0, 1e-300], [2.0, 4.0])]),
    Op("square", torch.square, [one_operand(), edges(TINY), [ok(input=V(0, -3, 2**31, 3 * 10**9, dtype="i64"))]]),
    Op("reciprocal", torch.reciprocal, [one_operand(NONZERO), edges(TINY)]),
    Op("sin", torch.sin, [one_operand(), edges(TINY + HUGE, [1e-3, 100.0, 1e6, -1e10])]),
    Op("cos", torch.cos, [one_operand(), edges(TINY + HUGE, [1e-3, 100.0, 1e6, -1e10])]),
    Op("tan", torch.tan, [one_operand(), edges(TINY + HUGE, [1e-3, 100.0, 1e6, -1e10])]),
    Op("exp2", torch.exp2, [one_operand(), edges(TINY + [1023.5, 1024.5, -1074.0, -1076.0, 3.0, 0.5], [127.5, 128.5, -149.0, 3.0])]),
    Op("log2", torch.log2, [one_operand(POSITIVE), edges([2.0, 0.5, 8.0, 1.0000000001, -3.0, 1e-300], [2.0, 0.5, 8.0, 1.0001])]),
    Op("log10", torch.log10, [one_operand(POSITIVE), edges([2.0, 10.0, 1e22, 1.0000000001, -3.0, 1e-300], [2.0, 10.0, 1000.0, 1.0001])]),
    Op("asin", torch.asin, [one_operand(INSIDE), edges(TINY + [0.5, 0.5000001, 0.999999, 1.5, -2.0], [0.5, 0.999, 1.5])]),
    Op("acos", torch.acos, [one_operand(INSIDE), edges(TINY + [0.5, -0.5000001, -0.999999, 1.5, -2.0], [0.5, -0.999, 1.5])]),
    Op("atan", torch.atan, [one_operand(), edges(TINY + [0.4142, 0.4143, 2.414, 2.415, 1e16], [0.4142, 2.415, 1e6])]),
    Op("sinh", torch.sinh, [one_operand(), edges(TINY + TAILS + [710.25, 711.0], TINY + TAILS_F32)]),
    Op("cosh", torch.cosh, [one_operand(), edges(TINY + TAILS + [710.25, 711.0], TINY + TAILS_F32)]),
    Op("asinh", torch.asinh, [one_operand(), edges(TINY + [0.5, -0.5000001, 1e9], [0.5, 1e9])]),
    Op("acosh", torch.acosh, [one_operand(ABOVE_ONE), edges([1.0000001, 1.5, 0.5, 1e9], [1.0001, 1.5, 0.5, 1e9])]),
    Op("atanh", torch.atanh, [one_operand(INSIDE), edges(TINY + [0.5, -0.5000001, 0.999999, 1.5, -2.0], [0.5, 0.999, 1.5])]),
    Op("erfc", torch.erfc, [one_operand(), edges(TINY + [0.46875, 0.5, -6.5, 2.0, 6.0, 26.5], TINY + [-4.5, 0.5, 2.0, 9.5])]),
    Op("tanh", torch.tanh, [one_operand(), edges(TINY + TAILS, TINY + TAILS_F32)]),
    Op("sigmoid", torch.sigmoid, [one_operand(), edges(TINY + TAILS, TAILS_F32)]),
    Op("relu", torch.relu, [one_operand(refuses=BOOL), edges(), INTEGERS]),
    Op("erf", torch.erf, [one_operand(), edges(TINY + [-6.5, -4.0, 0.5, 0.875, 4.0, 6.5], TINY + [-4.5, -2.0, 2.0, 4.5])]),
    Op("gelu", F.gelu, [one_operand(refuses=BOTH), gelu()]),
    Op("softplus", F.softplus, [one_operand(refuses=BOTH), softplus(), edges()]),
    Op("silu", F.silu, [one_operand(refuses=BOTH), edges(TINY + TAILS, TAILS_F32)]),
    Op("logical_not", torch.logical_not, [one_operand(), edges([0.25]), INTEGERS]),
]
