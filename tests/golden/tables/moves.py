"""Elements moved and repeated: roll, diagonal, diag_embed, pad, repeat, tile, repeat_interleave, unfold, meshgrid."""

import torch

from .samples import Op, T, V, inf, method, nan, ok, refused
from .views import views

ROLL = [
    ([2, 3, 2], (1, 1), (-1, 0), ([1, 2], [0, 1]), ([1, -1], [-1, 0]), ([1, 1], [1, 1]), (7, 1), (0, 2), (1,), (-5,), ([2], [1]), (4611686018427387904, 1)),
    ([3], (1, 0), (4,)),
    ([], (1,)),
    ([0, 2], (1, 0), (1,)),
    ([1, 4], (-3, 1)),
]  # fmt: skip
BAD_ROLL = [([2, 3], ([1, 2], [0])), ([2, 3], ([1, 2],)), ([2, 3], (1, 2)), ([], (1, 0)), ([2], ([], []))]
DIAGONAL = [
    ([2, 3, 4], (), (1,), (-1,), (0, 1, 2), (1, 2, 0), (-2, -1, -2), (9,), (-9,), (2, 0, -1)),
    ([3, 3], (), (1,), (-2,), (4611686018427387904,)),
    ([0, 2], (), (1,)),
    ([2, 0, 2], (0, 0, 2), (0, 1, 2)),
    ([1, 1], (),),
]
BAD_DIAGONAL = [([3], ()), ([], ()), ([2, 3], (0, 1, 1)), ([2, 3], (0, 0, 2)), ([2, 3], (0, 1, -1))]
EMBED = [
    ([2, 3], (), (1,), (-2,), (0, 0, 1), (1, 2, 0), (-1, -3, -1)),
    ([3], (), (1,), (-1,), (1, 1, 0)),
    ([0], (), (1,)),
    ([2, 0], (0, 0, 2)),
]
BAD_EMBED = [([], ()), ([2], (0, 1, 1)), ([2], (0, 0, 2)), ([2, 3], (0, 2, -1))]
REPEAT = [
    ([2, 3], ([2, 1],), ([1, 2],), ([2, 3],), ([2, 1, 2],), ([0, 1],), ([1, 1],)),
    ([], ([],), ([2],), ([2, 1],)),
    ([2, 1, 2], ([1, 3, 2],)),
    ([0, 2], ([2, 2],)),
]
TILE = [
    ([2, 3], ([2],), ([2, 1],), ([2, 1, 2],), ([],), ([0],)),
    ([], ([2],), ([],)),
    ([2], ([2, 2],)),
]
UNFOLD = [
    ([2, 5], (1, 2, 1), (1, 3, 2), (-1, 1, 1), (0, 2, 1), (1, 0, 1), (1, 5, 3), (1, 2, 4)),
    ([6], (0, 3, 1), (0, 2, 3), (0, 6, 9)),
    ([], (0, 1, 1), (-1, 0, 1)),
    ([2, 4, 2], (1, 2, 1), (1, 3, 1)),
    ([0], (0, 0, 1)),
    ([0, 3], (1, 2, 1)),
]
BAD_UNFOLD = [([3], (0, 4, 1)), ([3], (0, 1, 0)), ([3], (0, -1, 1)), ([3], (1, 1, 1)), ([], (0, 2, 1)), ([3], (0, 1, -1))]


def pad():
    """Constants around any number of axes; the other modes around the last one to three of a batch with channels."""
    for shape, widths in [
        ([2, 3], [1, 2]), ([2, 3], [1, 0, 0, 1]), ([2, 3], [-1, 1]), ([2, 3], [0, -1, -1, 2]), ([2, 3], [-1, -2]), ([3], [2, 1]), ([], []),
        ([2, 3], []), ([0, 2], [1, 0]), ([0], [1, 2]), ([2, 1, 2], [1, 1, 0, 0, 1, 0]), ([2, 3], [0, 0]),
    ]:  # fmt: skip
        yield ok(input=T(shape), pad=widths)
        yield ok(input=T(shape), pad=widths, mode="constant", value=0.5)
    for layout in ("offset", "transposed", "strided", "expanded"):
        yield ok(input=T([2, 3], layout), pad=[1, 1, -1, 1])
    for value in (inf, nan, -0.0, -2):
        yield ok(input=T([2]), pad=[1, 0], value=value, tags=["special"])
    yield ok(input=V(nan, inf, -0.0), pad=[1, -1], tags=["special"])
    for dtype in ("f32", "i64", "bool"):
        yield ok(input=T([2, 2], dtype=dtype), pad=[1, 1], value=1)
    yield ok(input=T([2], dtype="i64"), pad=[1, 1], value=1.5)
    for mode in ("reflect", "replicate", "circular"):
        for shape, widths in [
            ([2, 3], [1, 2]), ([2, 3], [2, 0]), ([1, 2, 3], [1, 1]), ([1, 2, 3], [2, 1, 1, 0]), ([1, 2, 3, 2], [1, 0, 2, 1]), ([2, 3], [-1, 1]),
            ([2, 4], [-1, 2]), ([0, 2, 3], [1, 1]), ([1, 2, 2, 3], [2, 1, 1, 1, 1, 0]), ([1, 1, 2, 2, 3], [0, 2, 1, 0, 1, 1]), ([2, 3], [0, 0]),
        ]:  # fmt: skip
            yield ok(input=T(shape), pad=widths, mode=mode)
        for layout in ("offset", "transposed", "strided", "expanded"):
            yield ok(input=T([2, 3], layout), pad=[2, 1], mode=mode)
        yield ok(input=T([2, 3], dtype="f32"), pad=[2, 2], mode=mode)
        yield ok(input=T([2, 3], dtype="i64"), pad=[1, 1], mode=mode)
        yield refused(input=T([3]), pad=[1, 1], mode=mode)
        yield refused(input=T([2, 3]), pad=[1, 1, 1, 1], mode=mode)
        yield refused(input=T([1, 1, 2, 3]), pad=[1, 1], mode=mode)
        yield refused(input=T([2, 3]), pad=[], mode=mode)
        yield refused(input=T([2, 0]), pad=[1, 1], mode=mode)
    yield ok(input=T([2, 3]), pad=[4, 5], mode="replicate")
    yield ok(input=T([2, 3]), pad=[3, 1], mode="circular")
    yield ok(input=T([2, 3], dtype="bool"), pad=[1, 1], mode="circular")
    yield ok(input=T([2, 3]), pad=[1, 1], mode="reflect", value=0)
    yield refused(input=T([2, 3]), pad=[1, 1], mode="reflect", value=1)
    yield refused(input=T([2, 3], dtype="bool"), pad=[1, 1], mode="reflect")
    yield refused(input=T([2, 3], dtype="bool"), pad=[1, 1], mode="replicate")
    yield refused(input=T([2, 3]), pad=[3, 0], mode="reflect")
    yield refused(input=T([2, 3]), pad=[4, 0], mode="circular")
    yield refused(input=T([2, 3]), pad=[-1, -2], mode="replicate")
    yield refused(input=T([2, 3]), pad=[1])
    yield refused(input=T([2, 3]), pad=[1, 1, 1, 1, 1, 1])
    yield refused(input=T([2, 3]), pad=[-2, -2])
    yield refused(input=T([2, 3]), pad=[-4, 2])


def repeat_interleave():
    for shape, repeats, dim in [([2, 3], 2, 1), ([2, 3], 3, 0), ([3], 1, 0), ([2, 3], 0, -1), ([2, 1, 2], 2, 1), ([0, 2], 2, 0), ([0, 2], 2, 1)]:
        yield ok(input=T(shape), repeats=repeats, dim=dim)
    for layout in ("offset", "transposed", "strided", "expanded"):
        yield ok(input=T([2, 3], layout), repeats=V(2, 0, 3, dtype="i64"), dim=1)
        yield ok(input=T([2, 3], layout), repeats=2, dim=0)
    yield ok(input=T([2, 3]), repeats=V(1, 2, dtype="i64"), dim=-2)
    yield ok(input=T([2, 3]), repeats=V(0, 0, dtype="i64"), dim=0)
    yield ok(input=T([2, 3]), repeats=V(2, dtype="i64"), dim=0)
    yield ok(input=T([2, 3]), repeats=T([], values=[2], dtype="i64"), dim=1)
    for dtype in ("f32", "i64", "bool"):
        yield ok(input=T([2, 2], dtype=dtype), repeats=V(1, 2, dtype="i64"), dim=0)
    for shape, repeats in [([2, 3], 2), ([], 3), ([0, 2], 2)]:
        yield ok(input=T(shape), repeats=repeats)
    yield ok(input=T([2, 2], "transposed"), repeats=V(1, 0, 2, 3, dtype="i64"), dim=None)
    yield refused(input=T([2, 2]), repeats=V(1, 0, dtype="i64"))
    yield refused(input=T([2, 3]), repeats=-1, dim=0)
    yield refused(input=T([2, 3]), repeats=V(1, -2, dtype="i64"), dim=0)
    yield refused(input=T([2, 3]), repeats=V(1, 1, 1, dtype="i64"), dim=0)
    yield refused(input=T([2, 3]), repeats=T([1, 2], values=[1, 1], dtype="i64"), dim=0)
    yield refused(input=T([2, 3]), repeats=V(1.0, 1.0), dim=0)
    yield refused(input=T([2, 3]), repeats=2, dim=2)


def meshgrid():
    for indexing in ("ij", "xy"):
        for shapes in [[[2], [3]], [[3]], [[2], [1], [3]], [[], [2]], [[0], [2]], [[]]]:
            yield ok(tensors=[T(s) for s in shapes], indexing=indexing)
        yield ok(tensors=[T([2], "strided"), T([3], "expanded")], indexing=indexing)
        yield ok(tensors=[T([2], grad=False), T([2])], indexing=indexing)
        yield ok(tensors=[T([2], dtype="i64"), T([2], dtype="i64")], indexing=indexing)
        yield refused(tensors=[T([2, 2]), T([2])], indexing=indexing)
        yield refused(tensors=[T([2]), T([2], dtype="f32")], indexing=indexing)
        yield refused(tensors=[], indexing=indexing)


OPS = [
    Op("roll", torch.roll, [views("shifts dims", ROLL, BAD_ROLL)]),
    Op("diagonal", torch.diagonal, [views("offset dim1 dim2", DIAGONAL, BAD_DIAGONAL)]),
    Op("diag_embed", torch.diag_embed, [views("offset dim1 dim2", EMBED, BAD_EMBED)]),
    Op("pad", torch.nn.functional.pad, [pad()]),
    Op("repeat", method("repeat"), [views("repeats", REPEAT, [([2, 3], ([2],)), ([2], ([-1],))])]),
    Op("tile", torch.tile, [views("dims", TILE, [([2], ([-1],))])]),
    Op("repeat_interleave", torch.repeat_interleave, [repeat_interleave()]),
    Op("unfold", method("unfold"), [views("dimension size step", UNFOLD, BAD_UNFOLD)]),
    Op("meshgrid", lambda tensors, indexing: torch.meshgrid(*tensors, indexing=indexing), [meshgrid()]),
]
