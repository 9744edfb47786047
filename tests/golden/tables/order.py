"""Elements in order: sort, argsort, topk, median; running sums and products; class numbers.

Where PyTorch leaves open which of equal elements it picks, there are no ties.
"""

import torch
from torch.nn import functional as F

from .reductions import bad_dims
from .samples import ANY, FLOATS, NONZERO, Op, T, V, inf, layouts, nan, ok, refused

SHAPES = [([], [0, -1]), ([1], [0]), ([4], [0, -1]), ([2, 3], [0, 1, -2]), ([2, 3, 2], [0, 1, 2, -1]), ([2, 1, 3], [1])]
EMPTY = [([0], 0), ([2, 0], 1), ([2, 0], 0), ([0, 3], 1), ([2, 0, 3], -1)]
ROWS = [1.0, nan, 2.0, inf, nan, nan, inf, -inf, 0.5, -0.0, -1.0, 3.0]


def along(values=ANY, dtypes=("i64",), whole=ok, **args):
    """Every shape, axis and layout; f32 and other types; sizes of 0; axes that there are not."""
    for shape, dims in SHAPES:
        for dim in dims:
            yield ok(input=T(shape, values=values), dim=dim, **args)
    for tensor in layouts(values):
        # What is expanded ties along that axis.
        yield ok(input=tensor, dim=-1, **args)
    yield ok(input=T([2, 3, 2], "transposed", values), dim=0, **args)
    yield ok(input=T([5], values=values, dtype="f32"), dim=0, **args)
    yield ok(input=T([3, 4], "strided", values, "f32"), dim=1, **args)
    yield ok(input=T([2, 2], values=values, grad=False), dim=0, **args)
    for dtype in dtypes:
        yield whole(input=T([5], values=values, dtype=dtype), dim=0, **args)
        yield whole(input=T([2, 3], "transposed", values, dtype), dim=0, **args)
    for shape, dim in EMPTY:
        yield ok(input=T(shape), dim=dim, **args)
    for shape, dim in [([2, 3], 2), ([2, 3], -3), ([], 1)]:
        yield refused(input=T(shape), dim=dim, **args)


def special_rows(rows=ROWS, **args):
    for dtype in FLOATS:
        yield ok(input=T([4, 3], values=rows, dtype=dtype), dim=1, tags=["special"], **args)
        yield ok(input=T([4, 3], values=rows, dtype=dtype), dim=0, tags=["special"], **args)


def sorts(gradient=True):
    yield from along(dtypes=("i64", "bool"))
    yield ok(input=T([2, 3]))
    yield ok(input=T([4]), descending=True)
    for dtype in (*FLOATS, "i64", "bool"):
        values = [1, 3, 3, 2, 1, 1, 0, 0, 2, 1, 0, 0] if dtype == "i64" else [1.0, 3.0, 3.0, 2.0, -1.0, -1.0, 0.0, -0.0, 2.0, -1.0, 0.0, 0.0]
        if dtype == "bool":
            values = [int(v > 1) for v in values]
        for descending in (False, True):
            for dim in (0, 1):
                yield ok(input=T([4, 3], values=values, dtype=dtype), dim=dim, descending=descending, stable=True, tags=["ties"])
    yield ok(input=T([3, 2], "expanded"), dim=0, stable=True, tags=["ties"])
    yield from special_rows(stable=True)
    yield from special_rows(stable=True, descending=True)
    yield ok(input=T([40], dtype="f32"), dim=0, stable=True, tags=["ties"])


def topks():
    for shape, dims in SHAPES:
        for dim in dims:
            most = shape[dim] if shape else 1
            for k in sorted({0 if shape else 1, 1, most}):
                yield ok(input=T(shape), k=k, dim=dim)
    for largest in (True, False):
        yield ok(input=T([7]), k=3, largest=largest)
        yield ok(input=T([2, 5], "transposed"), k=2, dim=1, largest=largest, sorted=True)
        yield ok(input=T([5, 2], "strided", dtype="f32"), k=4, dim=0, largest=largest)
        yield ok(input=V(1.0, nan, 2.0, inf, -inf), k=3, dim=0, largest=largest, tags=["special"])
        yield ok(input=V(5, 3, 4, 1, dtype="i64"), k=2, largest=largest)
    yield ok(input=T([2, 0]), k=0)
    yield ok(input=T([0, 3]), k=2, dim=1)
    for shape, k, dim in [([3], 4, 0), ([2, 3], 3, 0), ([3], -1, 0), ([3], 1, 1), ([], 2, 0), ([2, 0], 1, 1)]:
        yield refused(input=T(shape), k=k, dim=dim)
    yield refused(input=T([3], dtype="bool"), k=1, dim=0)


def medians():
    for shape, dims in SHAPES:
        yield ok(input=T(shape))
        for dim in dims:
            yield ok(input=T(shape), dim=dim)
            yield ok(input=T(shape), dim=dim, keepdim=True)
    for tensor in layouts():
        yield ok(input=tensor)
        if tensor.layout != "expanded":
            yield ok(input=tensor, dim=0)
            yield ok(input=tensor, dim=-1, keepdim=True)
    yield ok(input=T([7], dtype="f32"), dim=0)
    yield ok(input=V(4, 2, 7, 1, dtype="i64"))
    yield ok(input=V(4, 2, 7, 1, dtype="i64"), dim=0)
    for dtype in FLOATS:
        for values in ([1.0, 3.0, 3.0, 2.0, 3.0], [2.0, 2.0], [1.0, 1.0, 2.0, 2.0], [nan, 1.0, nan], [inf, -inf, inf], [0.0, -0.0, 1.0]):
            yield ok(input=V(*values, dtype=dtype), tags=["ties", "special"])
        yield ok(input=T([4, 3], values=ROWS, dtype=dtype), dim=1, tags=["special"])
    for values in ([1.0, 1.0, 2.0], [2.0, 1.0, 1.0], [2.0, 2.0, 1.0], [1.0, 2.0, 1.0], [3.0, 3.0]):
        yield ok(input=V(*values), dim=0, tags=["ties"])
    yield ok(input=T([0]), tags=["special"])
    yield ok(input=T([2, 0]), tags=["special"])
    yield ok(input=T([2, 0]), dim=0)
    yield ok(input=T([0, 3]), dim=1, keepdim=True)
    for shape, dim in [([0], 0), ([2, 0], 1)]:
        yield refused(input=T(shape), dim=dim)
    yield refused(input=T([3], dtype="bool"))
    yield from bad_dims(several=False)


def running(values=ANY):
    yield from along(values, dtypes=("i64", "bool"))
    for dtype in ("f64", "f32", "i64"):
        yield ok(input=T([2, 3], values=values, grad=dtype in FLOATS), dim=1, dtype=dtype)
        yield ok(input=T([4], values=values, dtype="bool"), dim=0, dtype=dtype)
        yield ok(input=T([4], values=values, dtype="i64"), dim=0, dtype=dtype)


def sums():
    yield from running()
    yield from special_rows()
    yield ok(input=T([3, 2], "expanded"), dim=0)
    for shape, layout in [([2, 700], "contiguous"), ([700, 2], "contiguous"), ([30, 40], "transposed")]:
        yield ok(input=T(shape, layout, grad=False), dim=0)
        yield ok(input=T(shape, layout, grad=False), dim=1)
    yield ok(input=T([300]), dim=0)


def products():
    """Zeros at the start, in the middle, at the end, two, all: at first and second order."""
    yield from running(NONZERO)
    # Without a zero: where one meets an infinity, PyTorch multiplies in an order that depends on whether it records.
    yield from special_rows([v or 1.5 for v in ROWS])
    zeros = [[0.0, 2.0, -3.0, 0.5], [2.0, 0.0, -3.0, 0.5], [2.0, -3.0, 0.5, 0.0], [0.0, 2.0, 0.0, 0.5], [2.0, 0.0, 3.0, 0.0], [0.0] * 4]
    for values in zeros:
        for dtype in FLOATS:
            yield ok(input=V(*values, dtype=dtype), dim=0, tags=["special"])
    rows = sum(zeros, [])
    yield ok(input=T([6, 4], values=rows), dim=1, tags=["special"])
    yield ok(input=T([6, 4], values=rows), dim=0, tags=["special"])
    yield ok(input=T([4, 6], "transposed", rows), dim=0, tags=["special"])
    yield ok(input=T([2, 2, 2], "strided", [1.0, 0.0, 2.0, 0.0, 0.0, 3.0, 4.0, 5.0]), dim=1, tags=["special"])
    yield ok(input=V(0.0), dim=0, tags=["special"])
    yield ok(input=T([], values=[0.0]), dim=0, tags=["special"])
    yield ok(input=V(2.0, 0.0, -0.0, 1.0, 3.0, 0.0, 2.0), dim=0, tags=["special"])
    yield ok(input=T([3, 2], "expanded"), dim=0)
    yield ok(input=T([3, 400], values=[1.0, -1.0, 0.5, 2.0] * 300, grad=False), dim=1)


def classes():
    for shape, n in [([3], 4), ([2, 2], 7), ([], 9), ([0], 3), ([0, 2], 2)]:
        yield ok(input=T(shape, values=[1, 0, 3, 2][: len(shape) * 2 if shape == [2, 2] else max(sum(shape), 1) if 0 not in shape else 0], dtype="i64"), num_classes=n)
    yield ok(input=T([2, 3], "transposed", [0, 1, 2, 2, 1, 0], "i64"), num_classes=3)
    yield ok(input=V(0, 0, dtype="i64"), num_classes=1)
    yield ok(input=T([2, 2], values=[1, 0, 3, 2], dtype="i64"), num_classes=-1)
    yield ok(input=V(0, 2, dtype="i64"))
    yield refused(input=T([0], dtype="i64"), num_classes=-1)
    yield refused(input=V(-1, dtype="i64"))
    for value, n in [(3, 3), (-1, 3), (0, 0), (1, -2)]:
        yield refused(input=V(value, dtype="i64"), num_classes=n)
    yield refused(input=V(1.0), num_classes=3)
    yield refused(input=V(1, dtype="bool"), num_classes=3)


def bins():
    numbers = V(1, 4, 1, 0, 4, 4, dtype="i64")
    for minlength in (0, 3, 5, 8):
        yield ok(input=numbers, minlength=minlength)
        for dtype in ("f64", "f32", "i64", "bool"):
            yield ok(input=numbers, weights=T([6], dtype=dtype, grad=False), minlength=minlength)
    yield ok(input=numbers)
    yield ok(input=T([0], dtype="i64"), minlength=2)
    yield ok(input=T([0], dtype="i64"))
    yield ok(input=T([3], "strided", [2, 0, 2], "i64"), weights=T([3], "strided", grad=False))
    yield refused(input=V(1, -2, dtype="i64"))
    yield refused(input=T([2, 2], values=[1, 2, 1, 2], dtype="i64"))
    yield refused(input=T([], values=[1], dtype="i64"))
    yield refused(input=V(1.0, 2.0))
    yield refused(input=numbers, weights=T([5], grad=False))
    yield refused(input=numbers, minlength=-1)


OPS = [
    Op("sort", torch.sort, [sorts()]),
    Op("argsort", torch.argsort, [sorts()]),
    Op("topk", torch.topk, [topks()]),
    Op("median", torch.median, [medians()]),
    Op("cumsum", torch.cumsum, [sums()]),
    Op("cumprod", torch.cumprod, [products()]),
    Op("one_hot", lambda input, num_classes=-1: F.one_hot(input, num_classes), [classes()]),
    Op("bincount", torch.bincount, [bins()]),
]
