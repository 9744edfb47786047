"""Reductions that pick: amax, amin, max, min, argmax, argmin.

Ties are where they differ: amax and amin, and max and min over everything, share the gradient among the largest; max and min
along an axis give it to the one element whose index they return. A NaN wins, and then amax and amin have NaN for gradient.
"""

import torch

from .reductions import bad_dims, kinds_of_numbers, long_axes, over_axes, several_layouts
from .samples import FLOATS, Op, T, V, inf, nan, ok, refused

TIED = [1.0, 3.0, 3.0, 2.0, 2.0, 2.0, -1.0, -1.0, -4.0, 0.0, -0.0, 0.0]
UNUSUAL = [nan, 1.0, 2.0, 1.0, nan, nan, inf, 2.0, inf, -inf, 1.0, -inf, -inf, -inf, -inf, -0.0, 0.0, -0.0, 5.0, inf, nan]


def ties(several=True):
    for dtype in (*FLOATS, "i64"):
        values = [int(v) for v in TIED] if dtype == "i64" else TIED
        yield ok(input=T([12], values=values, dtype=dtype), tags=["ties"])
        for dim in (0, 1, -1):
            yield ok(input=T([4, 3], values=values, dtype=dtype), dim=dim, tags=["ties"])
        yield ok(input=T([2, 3, 2], values=values, dtype=dtype), dim=1, keepdim=True, tags=["ties"])
        yield ok(input=T([4, 3], "transposed", values, dtype), dim=1, tags=["ties"])
    if several:
        yield ok(input=T([2, 3, 2], values=TIED), dim=[0, 1], tags=["ties"])
        yield ok(input=T([2, 3, 2], values=TIED), dim=[0, 2], keepdim=True, tags=["ties"])
    yield ok(input=V(2.5, 2.5, 2.5), tags=["ties"])
    yield ok(input=T([3, 2], "expanded"), dim=0, tags=["ties"])
    yield ok(input=T([3, 2], "expanded"), tags=["ties"])


def unusual(several=True):
    for dtype in FLOATS:
        yield ok(input=T([7, 3], values=UNUSUAL, dtype=dtype), dim=1, tags=["special", "ties"])
        yield ok(input=T([7, 3], values=UNUSUAL, dtype=dtype), dim=0, tags=["special", "ties"])
        yield ok(input=T([7, 3], values=UNUSUAL, dtype=dtype), tags=["special", "ties"])
    for values in ([nan, 1.0], [1.0, nan, 3.0, nan], [inf, inf, 1.0], [-inf, -inf], [0.0, -0.0], [-0.0, 0.0]):
        yield ok(input=V(*values), tags=["special", "ties"])
        yield ok(input=V(*values), dim=0, tags=["special", "ties"])
    if several:
        yield ok(input=T([7, 3], values=UNUSUAL), dim=[0, 1], tags=["special", "ties"])


def empty_axes():
    """The largest of no elements does not exist; an empty result does."""
    yield ok(input=T([0, 3]), dim=1)
    yield ok(input=T([2, 0, 3]), dim=0)
    yield ok(input=T([2, 0, 3]), dim=-1, keepdim=True)
    yield refused(input=T([0, 3]), dim=0)
    yield refused(input=T([2, 0, 3]), dim=1)
    yield refused(input=T([0]))
    yield refused(input=T([2, 0]))


def all_axes():
    yield ok(input=T([2, 3]), dim=[])
    yield ok(input=T([2, 3]), dim=[], keepdim=True)
    yield ok(input=T([2, 3], "transposed"), dim=[-1, -2], keepdim=True)


def indices():
    yield ok(input=T([2, 3]), dim=None, keepdim=True)
    yield ok(input=T([2, 3], "transposed"), dim=None)
    yield ok(input=T([]), dim=None)


def pairs():
    """`max` of two tensors is `maximum`."""
    for a, b in [([2, 3], [2, 3]), ([2, 1], [3]), ([], [2]), ([0, 3], [1, 3])]:
        yield ok(input=T(a), other=T(b))
    yield ok(input=V(1.0, nan, 2.0, 0.0), other=V(1.0, 2.0, nan, -0.0), tags=["ties", "special"])
    yield ok(input=T([3], dtype="i64"), other=T([3], dtype="f32"))
    yield refused(input=T([2]), other=T([3]))


def amax():
    yield from over_axes()
    yield from long_axes()
    yield from several_layouts()
    yield from kinds_of_numbers()
    yield from ties()
    yield from unusual()
    yield from empty_axes()
    yield from all_axes()
    yield from bad_dims()


def max():
    yield from over_axes(several=False)
    yield from kinds_of_numbers()
    yield from ties(several=False)
    yield from unusual(several=False)
    yield from empty_axes()
    yield from pairs()
    yield from bad_dims(several=False)


def argmax():
    yield from over_axes(several=False)
    yield from long_axes(several=False)
    yield from kinds_of_numbers(dtypes=["i64"])
    yield from kinds_of_numbers(dtypes=["bool"], whole=refused)
    yield from ties(several=False)
    yield from unusual(several=False)
    yield from empty_axes()
    yield from indices()
    yield from bad_dims(several=False)


OPS = [
    Op("amax", torch.amax, [amax()]),
    Op("amin", torch.amin, [amax()]),
    Op("max", torch.max, [max()]),
    Op("min", torch.min, [max()]),
    Op("argmax", torch.argmax, [argmax()]),
    Op("argmin", torch.argmin, [argmax()]),
]
