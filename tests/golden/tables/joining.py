"""Joining tensors, and taking them apart again: cat, stack; unbind, split, chunk."""

import torch

from .samples import Op, T, V, inf, nan, ok, refused


def cat():
    for shapes, dims in [
        ([[2, 3], [1, 3]], [0, -2]), ([[2, 1], [2, 3], [2, 2]], [1, -1]), ([[3]], [0]), ([[2], [1], [3]], [0]),
        ([[2, 2, 2], [2, 1, 2]], [1]), ([[1, 2, 1, 2], [1, 2, 3, 2]], [2, -2]), ([[2, 0], [2, 3]], [1]), ([[0, 3], [2, 3]], [0]),
        ([[0], [2]], [0]), ([[0, 2], [0, 2]], [0, 1]), ([[2, 3], [0], [1, 3]], [0]),
    ]:  # fmt: skip
        for dim in dims:
            yield ok(tensors=[T(s) for s in shapes], dim=dim)
    yield ok(tensors=[T([2, 3]), T([1, 3])])
    yield ok(tensors=[T([2, 3], "transposed"), T([2, 3], "expanded"), T([2, 1], "strided")], dim=1)
    yield ok(tensors=[T([2, 3], "offset"), T([1, 3], "transposed")], dim=0)
    yield ok(tensors=[T([2]), T([3], grad=False), T([1])])
    yield ok(tensors=[T([1, 2], grad=False), T([1, 2])], dim=1)
    yield ok(tensors=[V(nan, -0.0), V(inf, 0.0)], tags=["special"])
    for left, right in [("f32", "f64"), ("i64", "f32"), ("bool", "i64"), ("i64", "i64"), ("bool", "bool"), ("f64", "bool"), ("f32", "f32")]:
        yield ok(tensors=[T([2], dtype=left), T([3], dtype=right)])
        yield ok(tensors=[T([2, 2], "transposed", dtype=left), T([2, 1], dtype=right), T([2, 1], "offset", dtype=left)], dim=-1)
    yield refused(tensors=[T([2, 3]), T([2, 2])], dim=0)
    yield refused(tensors=[T([2, 3]), T([3])], dim=0)
    yield refused(tensors=[T([2]), T([])], dim=0)
    yield refused(tensors=[T([]), T([])], dim=0)
    yield refused(tensors=[T([2]), T([2])], dim=1)
    yield refused(tensors=[T([2]), T([2])], dim=-2)
    yield refused(tensors=[], dim=0)


def stack():
    for shape, dims in [([], [0, -1]), ([2], [0, 1, -1, -2]), ([2, 3], [0, 1, 2, -3]), ([0], [0, 1]), ([2, 0, 1], [1, 3])]:
        for dim in dims:
            yield ok(tensors=[T(shape), T(shape), T(shape)], dim=dim)
    yield ok(tensors=[T([2, 2])], dim=1)
    yield ok(tensors=[T([2]), T([2])])
    yield ok(tensors=[T([2, 3], "transposed"), T([2, 3], "expanded"), T([2, 3], "strided")], dim=1)
    yield ok(tensors=[T([3], "offset"), T([3], grad=False), T([3], "strided")], dim=-1)
    yield ok(tensors=[V(nan, -0.0), V(inf, 0.0)], dim=1, tags=["special"])
    for left, right in [("f32", "f64"), ("i64", "f32"), ("bool", "i64"), ("i64", "i64"), ("f32", "f32")]:
        yield ok(tensors=[T([2], dtype=left), T([2], dtype=right)], dim=1)
    yield refused(tensors=[T([2]), T([3])])
    yield refused(tensors=[T([2]), T([2, 1])])
    yield refused(tensors=[T([1]), T([3])])  # no broadcasting
    yield refused(tensors=[T([2]), T([2])], dim=2)
    yield refused(tensors=[T([2]), T([2])], dim=-3)
    yield refused(tensors=[])


def unbind():
    for shape, dims in [([3], [0, -1]), ([2, 3], [0, 1, -2]), ([2, 1, 2], [1, 2]), ([2, 0], [0])]:
        for dim in dims:
            yield ok(input=T(shape), dim=dim)
    for layout in ("transposed", "strided", "expanded"):
        yield ok(input=T([2, 3], layout), dim=1)
    yield ok(input=T([2, 2]))
    yield ok(input=T([3], dtype="i64"))
    yield refused(input=T([]))
    yield refused(input=T([2]), dim=1)


def split():
    """Into parts of one size, the last one shorter, or into parts of given sizes."""
    for shape, size, dim in [([5], 2, 0), ([4], 2, 0), ([3], 5, 0), ([2, 5], 3, 1), ([2, 3], 1, -1), ([0], 2, 0), ([2, 0], 1, 1)]:
        yield ok(tensor=T(shape), split_size_or_sections=size, dim=dim)
    for shape, sizes, dim in [([5], [2, 3], 0), ([5], [1, 0, 4], 0), ([2, 4], [1, 3], 1), ([2, 4], [1, 2, 1], -1), ([3], [3], 0)]:
        yield ok(tensor=T(shape), split_size_or_sections=sizes, dim=dim)
    for layout in ("transposed", "strided", "expanded"):
        yield ok(tensor=T([3, 4], layout), split_size_or_sections=3, dim=1)
        yield ok(tensor=T([3, 4], layout), split_size_or_sections=[2, 1])
    yield ok(tensor=T([5]), split_size_or_sections=2)
    yield refused(tensor=T([5]), split_size_or_sections=[2, 2])
    yield refused(tensor=T([5]), split_size_or_sections=[6, -1])
    yield refused(tensor=T([5]), split_size_or_sections=-1)
    yield refused(tensor=T([5]), split_size_or_sections=0)
    yield refused(tensor=T([5]), split_size_or_sections=2, dim=1)
    yield refused(tensor=T([]), split_size_or_sections=1)


def chunk():
    """Into so many parts of equal size; fewer when they would be empty."""
    for shape, chunks, dim in [([5], 2, 0), ([4], 4, 0), ([3], 5, 0), ([7], 4, 0), ([2, 5], 3, 1), ([0], 2, 0), ([2, 0], 3, 1)]:
        yield ok(input=T(shape), chunks=chunks, dim=dim)
    for layout in ("transposed", "strided", "expanded"):
        yield ok(input=T([3, 4], layout), chunks=2)
    yield refused(input=T([5]), chunks=0)
    yield refused(input=T([5]), chunks=2, dim=1)
    yield refused(input=T([]), chunks=1)


OPS = [
    Op("cat", torch.cat, [cat()]),
    Op("stack", torch.stack, [stack()]),
    Op("unbind", torch.unbind, [unbind()]),
    Op("split", torch.split, [split()]),
    Op("chunk", torch.chunk, [chunk()]),
]
