"""Softmax and its logarithm along an axis: every axis and layout, infinities, a wanted dtype."""

import torch

from .samples import FLOATS, Op, T, V, inf, layouts, nan, ok, refused

# -inf has no weight; a row of nothing but -inf is NaN, and so is one with +inf; large numbers do not overflow.
ROWS = [
    1.0, -inf, 2.0, -inf, -inf, -inf, inf, 1.0, 2.0, nan, 1.0, 2.0, 1000.0, 1000.0, 999.0, -1000.0, -1001.0, 0.0, 0.0, -0.0, 0.0,
    inf, inf, -inf, 1.0, 40.0, -40.0,
]  # fmt: skip


def softmax():
    for shape, dims in [([], [0, -1]), ([3], [0, -1]), ([1], [0]), ([2, 3], [0, 1, -1, -2]), ([2, 3, 2], [0, 1, 2, -2]), ([2, 1, 2, 1, 2], [1, 2, 4]),
                        ([0], [0]), ([2, 0], [0, 1]), ([0, 3], [0, 1]), ([2, 0, 3], [1, 2]), ([3, 1], [0, 1])]:  # fmt: skip
        for dim in dims:
            yield ok(input=T(shape), dim=dim)
    for tensor in [*layouts(), T([2, 3, 2], "strided"), T([2, 3, 2], "expanded"), T([], "offset")]:
        yield ok(input=tensor, dim=0)
        yield ok(input=tensor, dim=-1)
    for dtype in FLOATS:
        yield ok(input=T([9, 3], values=ROWS, dtype=dtype), dim=1, tags=["special"])
        yield ok(input=T([3, 9], "transposed", ROWS, dtype), dim=0, tags=["special"])
    yield ok(input=V(2.0, 2.0, 2.0), dim=0, tags=["ties"])
    yield ok(input=V(-inf), dim=0, tags=["special"])
    yield ok(input=T([3, 37], dtype="f32"), dim=1)
    yield ok(input=T([3, 2], "transposed", dtype="f32"), dim=0)
    yield ok(input=T([2, 2], grad=False), dim=1)
    for target in FLOATS:
        for source in ("f64", "f32", "i64", "bool"):
            yield ok(input=T([2, 3], dtype=source), dim=1, dtype=target)
            yield ok(input=T([3, 2], "transposed", dtype=source), dim=0, dtype=target)
    yield ok(input=T([2, 3]), dim=1, dtype=None)
    for dtype in ("i64", "bool"):
        yield refused(input=T([2, 3], dtype=dtype), dim=1)
        yield refused(input=T([2, 3]), dim=1, dtype=dtype)
    for shape, dim in [([2, 3], 2), ([2, 3], -3), ([], 1)]:
        yield refused(input=T(shape), dim=dim)


OPS = [
    Op("softmax", torch.softmax, [softmax()]),
    Op("log_softmax", torch.log_softmax, [softmax()]),
]
