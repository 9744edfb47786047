"""Choosing and comparing: clamp, where, the comparisons, and the logical functions of two truth values."""

import torch

from .samples import (
    BOOL_PAIRS, DTYPE_PAIRS, GRID, Op, T, V, dtype_pairs, grid, inf, layouts, nan, number_operands, ok, refused, two_operands,
    wandering_pairs,
)  # fmt: skip

EDGES = [nan, inf, -inf, -0.0, 0.0, -1.0, 1.0, -1.5, 1.5, 2.0]


def clamp_numbers():
    """Numbers as bounds; None leaves a side open. At a bound the gradient is zero."""
    for low, high in [(-1, 1), (-1.0, None), (None, 1.0), (1, -1), (0, 0), (nan, 1.0), (-inf, inf), (-1.5, nan), (0.0, inf)]:
        yield ok(input=V(*EDGES), min=low, max=high, tags=["special", "ties"])
        yield ok(input=T([2, 3], "transposed"), min=low, max=high)
    for tensor in [T([]), T([0, 2]), T([2, 1, 2, 1, 2]), T([2, 2], grad=False), T([21], dtype="f32"), *layouts()]:
        yield ok(input=tensor, min=-0.75, max=1)
    yield ok(input=T([4], dtype="f32"), min=-0.1, max=0.1)
    for low, high in [(-2, 3), (-2, None), (None, 0.5), (-1.5, 1)]:
        yield ok(input=T([5], dtype="i64"), min=low, max=high)
    yield ok(input=T([3], dtype="bool"), min=0)
    yield refused(input=T([3]), min=None, max=None)
    yield refused(input=T([3]))


def clamp_tensors():
    """Tensors as bounds broadcast against the input and have gradients of their own; at a bound the two share it."""
    for x, low, high in [([2, 3], [2, 3], [2, 3]), ([2, 3], [3], [2, 1]), ([3], [2, 1], []), ([], [3], [3]), ([2, 2], [], []),
                         ([1], [2], [3, 1]), ([0, 2], [2], [1, 1]), ([2, 1, 2], [2, 1], [1])]:  # fmt: skip
        yield ok(input=T(x), min=T(low), max=T(high))
        yield ok(input=T(x), min=T(low))
        yield ok(input=T(x), max=T(high))
    yield ok(input=T([2, 3], "transposed"), min=T([2, 3], "strided"), max=T([2, 3], "expanded"))
    yield ok(input=T([3]), min=T([3], grad=False), max=T([3]))
    yield ok(input=T([3], grad=False), min=T([3]), max=T([3], grad=False))
    low, high = [-1.0, nan, -1.0, -1.0, -1.0, 2.0, 1.0], [1.0, 1.0, nan, 1.0, 1.0, 1.0, 1.0]
    yield ok(input=V(0.5, 0.5, 0.5, nan, 1.0, 0.5, 1.0), min=V(*low), max=V(*high), tags=["special", "ties"])
    yield ok(input=V(1.0, -1.0, 2.0), min=V(1.0, -1.0, 2.0), max=V(1.0, 3.0, 2.0), tags=["ties"])
    yield ok(input=V(1.0, -1.0, 2.0), max=V(1.0, -1.0, 1.0), tags=["ties"])
    yield ok(input=T([3], dtype="f32"), min=T([3], dtype="f64"), max=T([2, 1], dtype="f32"))
    yield ok(input=T([3], dtype="i64"), min=T([3], dtype="f64"))
    yield ok(input=T([3], dtype="i64"), min=T([3], dtype="i64"), max=T([], dtype="i64"))
    yield refused(input=T([3]), min=T([2]))
    yield refused(input=T([3]), min=T([3]), max=T([2, 2]))


def one_bound(name, bounds):
    """The forms with one bound, a number or a tensor; `clamp` has their values at length."""
    for bound in bounds:
        yield ok(input=V(*EDGES), **{name: bound}, tags=["special", "ties"])
    yield ok(input=T([2, 3], "transposed"), **{name: T([3])})
    yield ok(input=T([], "offset"), **{name: T([2], "strided")})
    yield ok(input=T([4], dtype="f32"), **{name: 0.1})
    yield ok(input=T([3], dtype="i64"), **{name: 0.5})
    yield refused(input=T([3]), **{name: T([2])})


def where():
    def truth(shape, layout="contiguous"):
        return T(shape, layout, dtype="bool")

    shapes = [
        ([2, 3], [2, 3], [2, 3]), ([3], [2, 3], [2, 1]), ([2, 1], [3], [3]), ([], [3], [2, 1]), ([3], [], []), ([2, 2], [], [2, 2]),
        ([], [], []), ([2, 1, 1], [2, 1], [2]), ([5, 1, 5], [5, 5, 1], []), ([0], [0], [1]), ([2, 0], [2, 1], [1]), ([1], [2, 0], []),
    ]  # fmt: skip
    for condition, a, b in shapes:
        yield ok(condition=truth(condition), input=T(a), other=T(b))
    yield ok(condition=truth([2, 3], "transposed"), input=T([2, 3], "strided"), other=T([2, 3], "expanded"))
    yield ok(condition=truth([2, 3], "expanded"), input=T([3], "offset"), other=T([2, 3], "transposed"))
    yield ok(condition=truth([3], "strided"), input=T([2, 1], "strided"), other=T([], "offset"))
    yield ok(condition=truth([3]), input=T([3], grad=False), other=T([3]))
    yield ok(condition=truth([3]), input=T([2, 3]), other=T([3], grad=False))
    yield ok(condition=V(1, 0, 1, 0, dtype="bool"), input=V(1.0, nan, inf, -inf), other=V(nan, 2.0, -inf, -0.0), tags=["special"])
    for number in (1.5, 2, -inf, nan):
        yield ok(condition=truth([2, 3]), input=T([3]), other=number)
        yield ok(condition=truth([3]), input=number, other=T([2, 1]))
    yield ok(condition=truth([3]), input=T([3], dtype="f32"), other=0.1)
    yield ok(condition=truth([3]), input=T([3], dtype="i64"), other=0.5)
    yield ok(condition=truth([3]), input=T([3], dtype="i64"), other=7)
    yield ok(condition=truth([3]), input=T([3], dtype="bool"), other=True)
    yield ok(condition=truth([4]), input=1.5, other=2)
    yield ok(condition=truth([4]), input=True, other=2)
    yield ok(condition=truth([]), input=False, other=True)
    for number in (0, 1):
        yield ok(condition=T([], values=[number], dtype="bool"), input=T([2, 1]), other=T([3]))
    for (dtype_a, a), (dtype_b, b) in DTYPE_PAIRS + BOOL_PAIRS:
        yield ok(condition=truth([2, 1, 1]), input=T(a, dtype=dtype_a), other=T(b, dtype=dtype_b))
    yield ok(condition=truth([2, 2]), input=T([2], dtype="f32"), other=T([2, 1], dtype="f32"))
    yield refused(condition=truth([3]), input=T([2]), other=T([3]))
    yield refused(condition=truth([2, 3]), input=T([2]), other=T([]))
    yield refused(condition=T([3], dtype="i64"), input=T([3]), other=T([3]))
    yield refused(condition=T([3]), input=T([3]), other=T([3]))


def comparison():
    yield from two_operands()
    yield from wandering_pairs(20)
    yield from number_operands([0.5, 1, nan, -inf])
    yield from dtype_pairs(DTYPE_PAIRS + BOOL_PAIRS)
    yield from grid(tags=("special", "ties"))
    yield ok(input=V(1, 2, 3, 1, dtype="i64"), other=V(1, 3, 2, 1, dtype="i64"), tags=["ties"])
    yield ok(input=V(1, 2, 3, dtype="i64"), other=2, tags=["ties"])
    yield ok(input=V(1, 2, 3, dtype="i64"), other=2.5)
    yield ok(input=V(0, 1, dtype="bool"), other=True, tags=["ties"])
    yield ok(input=V(0, 1, dtype="bool"), other=1, tags=["ties"])
    # Compared in the common type: the integers below have no f32 or f64 of their own.
    yield ok(input=V(16777217, dtype="i64"), other=V(16777216.0, dtype="f32"), tags=["special", "ties"])
    yield ok(input=V(2**53 + 1, dtype="i64"), other=V(2.0**53), tags=["special", "ties"])
    yield ok(input=V(2**62, 2**62, dtype="i64"), other=V(2**62, 2**62 + 1, dtype="i64"), tags=["special", "ties"])
    yield ok(input=V(0.1, dtype="f32"), other=V(0.1), tags=["special"])


def logical():
    yield from two_operands()
    yield from dtype_pairs(DTYPE_PAIRS + BOOL_PAIRS)
    yield from grid(numbers=GRID + [0.25])
    yield ok(input=V(0, 0, 1, 1, dtype="bool"), other=V(0, 1, 0, 1, dtype="bool"))
    yield ok(input=V(0, 0, -1, 2, dtype="i64"), other=V(0, 3, 0, 1, dtype="i64"))
    yield ok(input=T([2, 3], "expanded", dtype="bool"), other=T([3], "strided", dtype="bool"))


OPS = [
    Op("clamp", torch.clamp, [clamp_numbers(), clamp_tensors()], broadcasts=True),
    Op("clamp_min", torch.clamp_min, [one_bound("min", [-1, 0.5, nan])], broadcasts=True),
    Op("clamp_max", torch.clamp_max, [one_bound("max", [1, -0.5, nan])], broadcasts=True),
    Op("where", lambda condition, input, other: torch.where(condition, input, other), [where()], broadcasts=True),
]
OPS += [Op(name, getattr(torch, name), [comparison()], broadcasts=True) for name in ("eq", "ne", "lt", "le", "gt", "ge")]
OPS += [Op(name, getattr(torch, name), [logical()], broadcasts=True) for name in ("logical_and", "logical_or", "logical_xor")]
