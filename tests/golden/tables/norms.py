"""Norms of any order, and how many elements are not zero."""

import torch

from .reductions import AXES, bad_dims, empties, kinds_of_numbers, no_axes, not_numbers, over_axes, several_layouts
from .samples import ANY, FLOATS, NONZERO, Op, T, V, inf, layouts, nan, ok, refused

ORDERS = [0, 0.5, 1, 1.5, 2, 2.5, 3, inf, -inf, -1, -1.5]


def orders():
    for p in ORDERS:
        grad = None if p else False  # PyTorch's norm of order 0 has no gradient
        yield ok(input=T([3], values=NONZERO, grad=grad), p=p)
        yield ok(input=T([2, 3], "transposed", NONZERO, grad=grad), p=p, dim=0)
        yield ok(input=T([2, 3, 2], values=NONZERO, grad=grad), p=p, dim=[0, -1], keepdim=True)
        yield ok(input=T([2, 2], "strided", NONZERO, "f32", grad), p=p, dim=1)
        yield ok(input=T([], values=[-2.0], grad=grad), p=p)
        empty = refused if p < 0 or p == inf else ok
        yield empty(input=T([0], grad=grad), p=p)
        yield empty(input=T([2, 0], grad=grad), p=p, dim=1)
        yield ok(input=T([2, 0], grad=grad), p=p, dim=0)
    for tensor in layouts():
        yield ok(input=tensor, p=3, dim=0)


def kinks():
    """At 0, among ties, and with what is no number. (Fractions have an infinite or undefined slope at 0.)"""
    for p in ORDERS:
        for values in ([0.0, 0.0], [0.0, 2.0], [3.0, -3.0], [nan, 1.0], [inf, 1.0], [-inf, inf], [-0.0, 0.0, -1.0]):
            yield ok(input=V(*values, grad=None if p else False), p=p, tags=["special", "ties"])
        yield ok(input=T([2, 2], values=[0.0, 0.0, 3.0, 4.0], grad=None if p else False), p=p, dim=1, tags=["special"])
    yield ok(input=V(0.0, 0.0, dtype="f32"), tags=["special"])
    yield ok(input=T([], values=[0.0]), tags=["special"])


def norms():
    yield from over_axes()
    yield from several_layouts()
    yield from kinds_of_numbers(whole=refused)
    yield from orders()
    yield from kinks()
    yield from bad_dims()


def counts():
    for shape, dims in AXES:
        yield ok(input=T(shape, dtype="bool"))
        for dim in dims:
            yield ok(input=T(shape, dtype="bool"), dim=dim)
    rows = [0.0, -0.0, 1.0, nan, 0.0, inf]
    for dtype in FLOATS:
        yield ok(input=T([2, 3], values=rows, dtype=dtype), dim=1, tags=["special"])
        yield ok(input=T([3, 2], "transposed", rows, dtype), tags=["special"])
    yield ok(input=V(0, 3, 0, dtype="i64"))
    yield ok(input=T([2, 3], "strided", [0, 1, 2, 0, 0, 1], "i64"), dim=[0])
    for shape, dim in [([0], 0), ([2, 0], 1), ([2, 0], 0)]:
        yield ok(input=T(shape), dim=dim)
    yield ok(input=T([0]))
    yield ok(input=T([2, 3]), dim=[])
    yield from bad_dims()


OPS = [
    Op("norm", lambda input, p=2.0, dim=None, keepdim=False: torch.norm(input, p, dim, keepdim), [norms()]),
    Op("count_nonzero", torch.count_nonzero, [counts()]),
]
