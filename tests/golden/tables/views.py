"""Views and casts: the same elements under another shape, in another order, in another dtype.

A row lists, for each shape, the arguments to try; every argument is tried in the layouts of `LAYOUTS` for the first shape.
"""

import torch

from .samples import Op, T, V, inf, method, nan, ok, refused

LAYOUTS = ["offset", "transposed", "strided", "expanded"]


def views(names, rows, bad):
    """`names` are the arguments of the operation; a row is (shape, arguments, arguments, ...)."""
    names = names.split()
    for shape, *arguments in rows:
        for values in arguments:
            named = dict(zip(names, values))
            yield ok(input=T(shape), **named)
            for layout in LAYOUTS if shape == rows[0][0] else ["transposed"] if len(shape) > 1 and 0 not in shape else []:
                yield ok(input=T(shape, layout), **named)
    shape, values = rows[0][0], rows[0][1]
    for dtype in ("f32", "i64", "bool"):
        yield ok(input=T(shape, dtype=dtype), **dict(zip(names, values)))
    for shape, values in bad:
        yield refused(input=T(shape), **dict(zip(names, values)))


EXPAND = [
    ([2, 1, 3], ([2, 2, 3],), ([4, 2, 1, 3],), ([-1, 3, -1],), ([2, 1, 3],), ([1, 2, 1, 3],), ([3, -1, 2, 3],)),
    ([1], ([3],), ([0],), ([2, 2],), ([1],)),
    ([], ([],), ([2],), ([2, 1],), ([0],)),
    ([3, 1], ([3, 0],), ([-1, 2],)),
    ([0, 1], ([0, 2],), ([2, 0, 3],)),
]
BAD_EXPAND = [([3], ([2],)), ([2, 3], ([3],)), ([2, 3], ([2, 4],)), ([3], ([-1, 3],)), ([3], ([-2],)), ([0], ([1],)), ([2], ([0],))]
BROADCAST = [
    ([2, 1, 3], ([2, 2, 3],), ([4, 2, 1, 3],), ([2, 1, 3],)),
    ([1], ([3],), ([0],), ([2, 2],)),
    ([], ([],), ([2, 1],), ([0],)),
    ([0, 1], ([0, 2],)),
]
PERMUTE = [
    ([2, 3, 2], ([0, 1, 2],), ([2, 1, 0],), ([1, 2, 0],), ([0, 2, 1],), ([-1, 0, 1],), ([-2, -1, 0],)),
    ([2, 3], ([1, 0],), ([-1, -2],)),
    ([], ([],)),
    ([3], ([0],), ([-1],)),
    ([2, 0, 3], ([2, 0, 1],)),
    ([2, 1, 3, 1, 2], ([4, 2, 0, 1, 3],), ([3, 1, 4, 0, 2],)),
]
BAD_PERMUTE = [([2, 3], ([0],)), ([2, 3], ([0, 0],)), ([2, 3], ([0, 2],)), ([2, 3], ([0, 1, 2],)), ([2, 3], ([1, -1],)), ([], ([0],))]
TRANSPOSE = [
    ([2, 3, 2], (0, 1), (1, 2), (0, -1), (-1, -2), (1, 1), (2, 0)),
    ([], (0, 0), (-1, 0)),
    ([3], (0, -1)),
    ([2, 0], (0, 1)),
    ([2, 1, 2, 3], (1, 3)),
]
NARROW = [
    ([3, 4], (0, 0, 2), (1, 1, 3), (-1, 2, 2), (0, 1, 0), (0, 3, 0), (1, -2, 2), (0, 0, 3), (-2, -1, 1)),
    ([5], (0, 1, 3), (0, -5, 5)),
    ([2, 0], (0, 1, 1), (1, 0, 0)),
    ([2, 3, 2], (1, 1, 2)),
]
BAD_NARROW = [([3], (0, 2, 2)), ([3], (0, 4, 0)), ([3], (0, 0, -1)), ([3], (0, -4, 1)), ([3], (1, 0, 1)), ([], (0, 0, 1)), ([3], (0, 0, 4))]
SELECT = [
    ([2, 3], (0, 0), (0, 1), (1, 2), (-1, 0), (0, -1), (-2, -2)),
    ([3], (0, 1), (-1, -3)),
    ([2, 3, 2], (1, 2), (2, -1)),
    ([0, 2], (1, 1)),
]
BAD_SELECT = [([2, 3], (0, 2)), ([2, 3], (0, -3)), ([2, 3], (2, 0)), ([], (0, 0)), ([0], (0, 0))]
# dim, start, end, step: as Python slices along one axis, without negative steps.
SLICE = [
    ([3, 5], (0, 0, 2), (), (1,), (1, 2), (-1, 1, 5, 2), (1, 1, 4), (1, 0, 5, 2), (1, 1, 5, 3), (-1, -3, -1), (0, 2, 1), (1, 0, 99),
     (0, -99, 2), (1, None, 3), (1, 2, None, 2), (1, 4, 5, 7)),
    ([6], (0, 0, 6, 2), (0, 1, 6, 2), (0, 5, 6, 9), (0, 6, 9), (0, 0, -1, 4)),
    ([0, 2], (0, 0, 2), (1, 0, 2, 2)),
    ([2, 3, 2], (1, 0, 3, 2)),
]  # fmt: skip
BAD_SLICE = [([3], (0, 0, 3, 0)), ([3], (0, 0, 3, -1)), ([3], (1, 0, 1)), ([], (0, 0, 1))]
UNSQUEEZE = [([2, 3], (0,), (1,), (2,), (-1,), (-3,)), ([], (0,), (-1,)), ([0, 2], (1,)), ([3], (1,), (-2,))]
SQUEEZE = [
    ([2, 1, 3, 1], (), (1,), (-1,), (0,), ([1, 3],), ([0, 1],), ([],), ([-1],)),
    ([], (), (0,), (-1,), ([],)),
    ([1, 1], (), (0,), ([0, 1],)),
    ([1, 0], (), (0,), (1,)),
    ([3], (), (0,)),
]
BAD_SQUEEZE = [([2, 1], (2,)), ([2, 1], (-3,)), ([2, 1], ([1, 1],)), ([], (1,)), ([2, 1], ([0, 2],))]
RESHAPE = [
    ([2, 3, 2], ([6, 2],), ([12],), ([2, -1],), ([-1],), ([3, 4],), ([2, 3, 2],), ([1, 2, 3, 2, 1],), ([2, 6],), ([3, -1, 2],), ([2, 3, 1, 2],)),
    ([1], ([],), ([1, 1],), ([-1],)),
    ([], ([],), ([1],), ([-1],), ([1, 1, 1],)),
    ([0, 3], ([3, 0],), ([0],), ([-1, 3],), ([0, 7],), ([2, 0, 5],)),
    ([4], ([2, 2],)),
    ([2, 1, 3], ([2, 3],), ([3, 2],)),
]  # fmt: skip
BAD_RESHAPE = [([2, 3], ([5],)), ([2, 3], ([4, -1],)), ([2, 3], ([-1, -1],)), ([2, 3], ([-2, 3],)), ([0, 3], ([0, -1],)), ([3], ([],)), ([2], ([0],)),
               ([0], ([1],))]  # fmt: skip
FLATTEN = [
    ([2, 3, 2], (), (1,), (0, 1), (1, 2), (-2, -1), (1, 1), (0, -1), (2,)),
    ([], (), (0, 0), (0, -1)),
    ([3], (), (0,)),
    ([2, 0, 3], (), (1,), (0, 1)),
    ([2, 1, 2, 2], (1, 2), (2,)),
]
BAD_FLATTEN = [([2, 3], (1, 0)), ([2, 3], (0, 2)), ([2, 3], (-3,)), ([], (1,)), ([2, 3], (2,))]
FLIP = [
    ([2, 3, 2], ([0],), ([1],), ([-1],), ([0, 2],), ([0, 1, 2],), ([],)),
    ([3], ([0],), ([-1],)),
    ([], ([],)),
    ([2, 0], ([0],), ([1],)),
]
BAD_FLIP = [([2, 3], ([2],)), ([2, 3], ([0, 0],)), ([2, 3], ([-3],)), ([2, 3], ([1, -1],))]
MOVEDIM = [
    ([2, 3, 2], (0, 2), (2, 0), (-1, 0), ([0, 1], [2, 0]), ([0, 2], [1, 0]), ([0, 1, 2], [2, 1, 0]), (1, 1), ([], [])),
    ([3], (0, 0)),
    ([2, 0, 1], (0, 2)),
    ([2, 1, 2, 3], ([0, -1], [-1, 0])),
]
BAD_MOVEDIM = [([2, 3], (2, 0)), ([2, 3], ([0, 0], [0, 1])), ([2, 3], ([0, 1], [0])), ([2, 3], ([0, 1], [1, 1])), ([2, 3], (0, -3))]


def view_without_copy():
    """`view` refuses where a copy would be needed; `reshape` copies."""
    for shape, layout, size in [
        ([2, 3], "contiguous", [6]), ([2, 3], "offset", [3, 2]), ([2, 3, 2], "transposed", [2, 6]), ([4], "strided", [2, 2]),
        ([2, 3], "transposed", [2, 1, 3]), ([2, 3], "strided", [2, 3]), ([3, 2], "expanded", [3, 2, 1]), ([4, 2], "expanded", [2, 2, 2]),
        ([4], "expanded", [2, 2]),
    ]:  # fmt: skip
        yield ok(input=T(shape, layout), size=size)
    for shape, layout, size in [([2, 3], "transposed", [6]), ([2, 3], "strided", [6]), ([3, 2], "expanded", [6]), ([2, 3, 2], "transposed", [6, 2]),
                                ([3, 2], "transposed", [2, 3])]:  # fmt: skip
        yield refused(input=T(shape, layout), size=size)
    for shape, *arguments in RESHAPE:
        for (size,) in arguments:
            yield ok(input=T(shape), size=size)
    for shape, (size,) in BAD_RESHAPE:
        yield refused(input=T(shape), size=size)


def cast():
    """To a dtype: floats are cut off towards zero as integers; all but zero is true, NaN too; i64 rounds to the nearest float."""
    for source in ("f64", "f32", "i64", "bool"):
        for target in ("f64", "f32", "i64", "bool"):
            yield ok(input=T([2, 3], dtype=source), dtype=target)
            yield ok(input=T([3, 2], "transposed", dtype=source), dtype=target)
            yield ok(input=T([3], "expanded", dtype=source), dtype=target)
            yield ok(input=T([], dtype=source), dtype=target)
            yield ok(input=T([0, 2], dtype=source), dtype=target)
    values = [1.9, -1.9, 0.5, -0.5, -0.0, 0.0, 1e15 + 0.5, 2.0**53]
    for source in ("f64", "f32"):
        for target in ("i64", "bool"):
            yield ok(input=V(*values[:6], dtype=source), dtype=target, tags=["special"])
        yield ok(input=V(nan, inf, -inf, 0.0, -0.0, 1e-30, dtype=source), dtype="bool", tags=["special"])
    yield ok(input=V(*values), dtype="i64", tags=["special"])
    rounded = [nan, inf, -inf, 0.1, 1e300, -1e300, 1e-300, -1e-300, 3.4028235e38, 3.5e38, 1e-45, -0.0, 16777217.0]
    yield ok(input=V(*rounded), dtype="f32", tags=["special"])
    yield ok(input=V(nan, inf, -inf, 0.1, 3.4e38, 1e-45, -0.0, dtype="f32"), dtype="f64", tags=["special"])
    for target in ("f64", "f32", "bool"):
        yield ok(input=V(2**53 + 1, -(2**53) - 1, 16777217, 2**62 + 1, 2**63 - 1, 0, -1, dtype="i64"), dtype=target, tags=["special"])


TRIANGLE = [
    ([2, 3, 4], (0,), (1,), (-1,), (5,), (-5,)),
    ([4, 3], (0,), (2,), (-2,)),
    ([0, 2], (0,)),
    ([2, 0], (1,)),
    ([1, 1], (0,), (1,), (-1,)),
]
T_ROWS = [([2, 3], ()), ([3], ()), ([], ()), ([0, 2], ()), ([1, 1], ())]
OPS = [
    Op("expand", method("expand"), [views("size", EXPAND, BAD_EXPAND)]),
    Op("broadcast_to", torch.broadcast_to, [views("size", BROADCAST, [r for r in BAD_EXPAND if -1 not in r[1][0]])]),
    Op("permute", torch.permute, [views("dims", PERMUTE, BAD_PERMUTE)]),
    Op("transpose", torch.transpose, [views("dim0 dim1", TRANSPOSE, [([2, 3], (0, 2)), ([2, 3], (-3, 0)), ([], (0, 1))])]),
    Op("t", torch.t, [views("", T_ROWS, [([2, 2, 2], ())])]),
    Op("narrow", torch.narrow, [views("dim start length", NARROW, BAD_NARROW)]),
    Op("select", torch.select, [views("dim index", SELECT, BAD_SELECT)]),
    Op("slice", lambda input, **named: torch.ops.aten.slice(input, **named), [views("dim start end step", SLICE, BAD_SLICE)]),
    Op("unsqueeze", torch.unsqueeze, [views("dim", UNSQUEEZE, [([2, 3], (3,)), ([2, 3], (-4,)), ([], (1,))])]),
    Op("squeeze", torch.squeeze, [views("dim", SQUEEZE, BAD_SQUEEZE)]),
    Op("reshape", torch.reshape, [views("shape", RESHAPE, BAD_RESHAPE)]),
    Op("view", method("view"), [view_without_copy()]),
    Op("flatten", torch.flatten, [views("start_dim end_dim", FLATTEN, BAD_FLATTEN)]),
    Op("flip", torch.flip, [views("dims", FLIP, BAD_FLIP)]),
    Op("tril", torch.tril, [views("diagonal", TRIANGLE, [([3], (0,)), ([], (0,))])]),
    Op("triu", torch.triu, [views("diagonal", TRIANGLE, [([3], (0,)), ([], (0,))])]),
    Op("movedim", torch.movedim, [views("source destination", MOVEDIM, BAD_MOVEDIM)]),
    Op("to", method("to"), [cast()]),
]
