"""Taking and adding by index: gather, index_select, scatter_add."""

import torch

from .samples import Op, T, V, below, inf, nan, ok, refused


def index(shape, n, layout="contiguous"):
    """Random indices below n; repeated ones are likely."""
    return T(shape, layout, below(n), "i64")


def gather():
    """The index has the input's rank; along the other axes it may be shorter."""
    for shape, dim, picked in [
        ([3], 0, [5]), ([3], 0, [2]), ([3], -1, [0]), ([2, 3], 0, [4, 3]), ([2, 3], 1, [2, 4]), ([2, 3], -2, [1, 2]), ([2, 3], 1, [1, 1]),
        ([2, 3, 2], 1, [2, 2, 2]), ([2, 3, 2], 2, [1, 3, 4]), ([2, 3, 2], 0, [3, 2, 1]), ([2, 3], 0, [0, 3]), ([2, 3], 1, [2, 0]), ([], 0, []),
        ([3], 0, []), ([], 0, [1]), ([0, 3], 1, [0, 2]), ([0], 0, [0]),
    ]:  # fmt: skip
        yield ok(input=T(shape), dim=dim, index=index(picked, max(shape[dim] if shape else 1, 1)))
    for layout in ("transposed", "strided", "expanded", "offset"):
        yield ok(input=T([2, 3], layout), dim=1, index=index([2, 4], 3))
        yield ok(input=T([2, 3]), dim=0, index=index([2, 3], 2, layout))
        yield ok(input=T([2, 3], layout), dim=0, index=index([3, 2], 2, layout))
    yield ok(input=T([3]), dim=0, index=V(1, 1, 1, 0, dtype="i64"))
    yield ok(input=V(nan, inf, -0.0), dim=0, index=V(0, 1, 2, 0, dtype="i64"), tags=["special"])
    for dtype in ("f32", "i64", "bool"):
        yield ok(input=T([2, 3], dtype=dtype), dim=1, index=index([2, 2], 3))
    yield refused(input=T([3]), dim=0, index=V(3, dtype="i64"))
    yield refused(input=T([3]), dim=0, index=V(-1, dtype="i64"))
    yield refused(input=T([2, 3]), dim=0, index=V(0, 1, dtype="i64"))
    yield refused(input=T([2, 3]), dim=0, index=index([2, 4], 2))
    yield refused(input=T([2, 3]), dim=2, index=index([2, 3], 2))
    yield refused(input=T([3]), dim=0, index=V(1.0, 0.0))
    yield refused(input=T([0]), dim=0, index=V(0, dtype="i64"))


def index_select():
    for shape, dim, picked in [
        ([3], 0, [0, 2, 2]), ([2, 3], 0, [1, 1, 0]), ([2, 3], 1, [2]), ([2, 3], -1, [0, 2, 1, 0]), ([2, 3, 2], 1, [2, 0]), ([3], 0, []),
        ([2, 0], 0, [1, 1]), ([], 0, [0]), ([0, 2], 1, [1, 1, 0]),
    ]:  # fmt: skip
        yield ok(input=T(shape), dim=dim, index=V(*picked, dtype="i64"))
    for layout in ("transposed", "strided", "expanded", "offset"):
        yield ok(input=T([2, 3], layout), dim=1, index=index([4], 3))
        yield ok(input=T([2, 3], layout), dim=0, index=index([3], 2))
    yield ok(input=T([2, 3]), dim=1, index=index([3], 3, "strided"))
    yield ok(input=T([3]), dim=0, index=index([3], 3, "expanded"))
    yield ok(input=T([2, 3]), dim=0, index=T([], values=[1], dtype="i64"))
    yield ok(input=V(nan, inf, -0.0), dim=0, index=V(0, 1, 2, 0, dtype="i64"), tags=["special"])
    for dtype in ("f32", "i64", "bool"):
        yield ok(input=T([2, 3], dtype=dtype), dim=1, index=index([2], 3))
    yield refused(input=T([3]), dim=0, index=V(3, dtype="i64"))
    yield refused(input=T([3]), dim=0, index=V(-1, dtype="i64"))
    yield refused(input=T([3]), dim=1, index=V(0, dtype="i64"))
    yield refused(input=T([3]), dim=0, index=index([1, 2], 3))
    yield refused(input=T([3]), dim=0, index=V(1.0, 0.0))
    yield refused(input=T([3]), dim=0, index=V(1, 0, dtype="bool"))


def scatter_add():
    """Adds the elements of `src` where the index says; repeated indices add up.

    `src` may be longer than the index; PyTorch has a gradient for it only when the two have one shape.
    """
    for shape, dim, picked, source in [
        ([3], 0, [4], [4]), ([3], 0, [2], [5]), ([2, 3], 0, [4, 3], [4, 3]), ([2, 3], 1, [2, 5], [2, 5]), ([2, 3], -1, [1, 2], [2, 4]),
        ([2, 3, 2], 1, [2, 4, 1], [2, 4, 2]), ([2, 3, 2], 0, [3, 1, 2], [3, 1, 2]), ([3], 0, [0], [2]), ([], 0, [], []), ([2, 3], 0, [0, 3], [1, 3]),
        ([0], 0, [0], [0]),
    ]:  # fmt: skip
        yield ok(input=T(shape), dim=dim, index=index(picked, max(shape[dim] if shape else 1, 1)), src=T(source, grad=source == picked))
    for layout in ("transposed", "strided", "expanded", "offset"):
        yield ok(input=T([2, 3], layout), dim=1, index=index([2, 4], 3), src=T([2, 4]))
        yield ok(input=T([2, 3]), dim=0, index=index([3, 2], 2, layout), src=T([3, 3], layout, grad=False))
    yield ok(input=T([3], grad=False), dim=0, index=V(0, 0, 2, dtype="i64"), src=T([3]))
    yield ok(input=T([3]), dim=0, index=V(0, 0, 2, dtype="i64"), src=T([3], grad=False))
    yield ok(input=V(nan, inf, 1.0), dim=0, index=V(0, 1, 2, 2, dtype="i64"), src=V(1.0, -inf, nan, 1.0), tags=["special"])
    yield ok(input=T([2, 3], dtype="f32"), dim=1, index=index([2, 4], 3), src=T([2, 4], dtype="f32"))
    yield ok(input=T([3], dtype="i64"), dim=0, index=index([5], 3), src=T([5], dtype="i64"))
    yield refused(input=T([3]), dim=0, index=V(3, dtype="i64"), src=T([1]))
    yield refused(input=T([3]), dim=0, index=V(-1, dtype="i64"), src=T([1]))
    yield refused(input=T([3]), dim=0, index=index([3], 3), src=T([2]))
    yield refused(input=T([2, 3]), dim=0, index=index([2], 2), src=T([2, 3]))
    yield refused(input=T([2, 3]), dim=0, index=index([2, 4], 2), src=T([2, 4]))
    yield refused(input=T([2, 3]), dim=2, index=index([2, 3], 2), src=T([2, 3]))
    yield refused(input=T([3]), dim=0, index=index([2], 3), src=T([2], dtype="f32"))
    yield refused(input=T([3]), dim=0, index=V(1.0, 0.0), src=T([2]))


OPS = [
    Op("gather", torch.gather, [gather()]),
    Op("index_select", torch.index_select, [index_select()]),
    Op("scatter_add", torch.scatter_add, [scatter_add()]),
]
