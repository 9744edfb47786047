"""Reductions by adding, multiplying and asking: sum, mean, prod, logsumexp, var, std, var_mean, any, all, and sum_to_size."""

import torch

from .samples import ANY, FLOATS, NONZERO, Op, T, V, inf, layouts, nan, ok, refused

# (shape, what `dim` may be): no axis, each axis, several, all, an axis of one element, axes of none.
AXES = [
    ([], [0, -1]),
    ([3], [0, -1, [0]]),
    ([2, 3], [0, 1, -1, [0, 1], [-2]]),
    ([2, 3, 2], [1, [0, 2], [0, -1], [0, 1, 2], [1, 2]]),
    ([3, 1], [1, 0]),
    ([1, 1], [0, [0, 1]]),
    ([2, 1, 3, 1, 2], [[1, 3], [0, 2, 4], 2]),
]  # fmt: skip
EMPTY = [([0], [0]), ([2, 0, 3], [0, 1, [0, 2], [1, 2]]), ([0, 3], [0, 1])]
BAD_DIMS = [([2, 3], 2), ([2, 3], -3), ([], 1), ([3], [0, 1])]


def over_axes(values=ANY, axes=AXES, several=True):
    """Every shape with every `dim`, with the axes kept and dropped; `several` is whether `dim` may be a list."""
    for shape, dims in axes:
        yield ok(input=T(shape, values=values))
        for dim in dims:
            if several or not isinstance(dim, list):
                yield ok(input=T(shape, values=values), dim=dim)
                yield ok(input=T(shape, values=values), dim=dim, keepdim=True)
    for tensor in layouts(values):
        yield ok(input=tensor)
        yield ok(input=tensor, dim=0)
        yield ok(input=tensor, dim=-1, keepdim=True)


def several_layouts(values=ANY):
    """Pairs of axes, in layouts that the reduction has to walk in another order."""
    for layout in ("transposed", "strided", "expanded", "offset"):
        yield ok(input=T([2, 3, 2], layout, values), dim=[0, 2])
        yield ok(input=T([2, 3, 2], layout, values), dim=[0, 1], keepdim=True)


def kinds_of_numbers(values=ANY, whole=ok, dtypes=("i64", "bool")):
    """f32, and integers and bools, which `whole` takes or refuses."""
    yield ok(input=T([2, 3], values=values, dtype="f32"))
    yield ok(input=T([3, 2], "transposed", values, "f32"), dim=0)
    yield ok(input=T([40], values=values, dtype="f32"))
    yield ok(input=T([2, 2], values=values, grad=False), dim=0)
    for dtype in dtypes:
        yield whole(input=T([5], values=values, dtype=dtype))
        yield whole(input=T([2, 3], "transposed", values, dtype), dim=0)
        yield whole(input=T([2, 3], "strided", values, dtype), dim=1, keepdim=True)


def long_axes(several=True):
    """More elements than a block holds, along the reduced axis and across it. Few digits: the sums are exact in any order."""
    for shape, layout in [([2, 1300], "contiguous"), ([1300, 2], "contiguous"), ([40, 60], "transposed"), ([3, 500, 2], "strided")]:
        yield ok(input=T(shape, layout))
        for dim in range(len(shape)):
            yield ok(input=T(shape, layout), dim=dim)
    yield ok(input=T([5000], dtype="f32"))
    if several:
        yield ok(input=T([3, 300, 4], "transposed"), dim=[0, 2])
        yield ok(input=T([3, 300, 4], "strided"), dim=[1, 2], keepdim=True)


def bad_dims(several=True):
    for shape, dim in BAD_DIMS:
        if several or not isinstance(dim, list):
            yield refused(input=T(shape), dim=dim)
    if several:
        yield refused(input=T([2, 3]), dim=[0, 0])
        yield refused(input=T([2, 3]), dim=[1, -1])


def not_numbers():
    """NaN and infinities in a row each."""
    rows = [1.0, nan, 2.0, inf, 1.0, 3.0, inf, -inf, 1.0, -inf, 2.0, 0.5, -0.0, -0.0, 0.0]
    for dtype in FLOATS:
        yield ok(input=T([5, 3], values=rows, dtype=dtype), dim=1, tags=["special"])
    yield ok(input=V(1.0, nan, 2.0), tags=["special"])


def wanted_dtype(dtypes=("f64", "f32", "i64", "bool")):
    """A `dtype` converts before reducing; only a float one has a gradient."""
    for dtype in dtypes:
        grad = dtype in FLOATS
        yield ok(input=T([2, 3], grad=grad), dtype=dtype)
        yield ok(input=T([2, 3], "transposed", dtype="f32", grad=grad), dim=0, dtype=dtype)
        yield ok(input=T([2, 3], dtype="i64"), dim=1, keepdim=True, dtype=dtype)
        yield ok(input=T([4], dtype="bool"), dim=0, dtype=dtype)
        yield ok(input=T([0, 2], grad=grad), dim=0, dtype=dtype)


def empties(outcome=ok, axes=EMPTY):
    for shape, dims in axes:
        yield outcome(input=T(shape))
        for dim in dims:
            yield outcome(input=T(shape), dim=dim)
            yield outcome(input=T(shape), dim=dim, keepdim=True)


def no_axes():
    """An empty `dim` means all axes; for any and all it means none."""
    yield ok(input=T([2, 3]), dim=[])
    yield ok(input=T([2, 3]), dim=[], keepdim=True)
    yield ok(input=T([2, 3]), dim=None, keepdim=True)
    yield ok(input=T([]), dim=[])
    yield ok(input=T([]), dim=None)


def factors():
    """The gradient of a product where factors are zero, to second order: none, one, two, and all."""
    zeros = [[0.0, 2.0, -3.0, 0.5], [0.0, 2.0, 0.0, 0.5], [0.0] * 4, [-0.0, 1.0, 2.0, 4.0], [1.5, 2.0, -3.0, 0.5]]
    for values in zeros:
        yield ok(input=T([4], values=values), tags=["special"])
        yield ok(input=T([2, 2], values=values), dim=0, tags=["special"])
        yield ok(input=T([2, 2], "transposed", values), dim=1, tags=["special"])
    rows = sum(zeros, [])
    yield ok(input=T([5, 4], values=rows), dim=1, tags=["special"])
    yield ok(input=T([5, 4], values=rows), dim=0, keepdim=True, tags=["special"])
    yield ok(input=T([4, 5], "strided", rows), dim=0, tags=["special"])
    yield ok(input=T([2, 2], values=[0.0, 2.0, 0.0, 3.0], dtype="f32"), dim=0, tags=["special"])
    yield ok(input=T([1], values=[0.0]), tags=["special"])
    yield ok(input=T([], values=[0.0]), tags=["special"])
    yield ok(input=V(0.0, inf, 2.0), tags=["special"])
    yield ok(input=V(0.0, nan, 2.0), tags=["special"])
    yield ok(input=V(1.0, -inf, 2.0), tags=["special"])


def spread():
    """var and std: `correction` and the older `unbiased`, one element, equal elements."""
    for correction in (0, 1, 2, -1, 0.5, 3):
        yield ok(input=T([4]), correction=correction)
        yield ok(input=T([2, 3], "transposed"), dim=1, correction=correction)
        yield ok(input=T([3, 2, 2]), dim=[0, 2], correction=correction, keepdim=True)
    for unbiased in (True, False):
        yield ok(input=T([4]), unbiased=unbiased)
        yield ok(input=T([2, 3]), dim=1, unbiased=unbiased)
        yield ok(input=T([2, 3], "strided"), dim=[0, 1], unbiased=unbiased, keepdim=True)
        yield ok(input=T([1, 3]), dim=0, unbiased=unbiased, tags=["special"])
    yield ok(input=T([2, 3]), dim=None, correction=0, keepdim=True)
    yield ok(input=T([2, 3]), dim=None, correction=None)
    yield ok(input=T([2, 3]), dim=[1], correction=1.3)
    yield ok(input=T([2, 3]), correction=1.0, keepdim=True)
    yield ok(input=T([2, 3]), dim=[])
    yield ok(input=T([3], dtype="f32"), correction=0)
    for values in ([2.5], [1.5, 1.5, 1.5], [-0.0, 0.0]):
        yield ok(input=V(*values), correction=0, tags=["special"])
        yield ok(input=V(*values), correction=1, tags=["special"])
    yield ok(input=T([2, 3], values=[1.0, 1.0, 1.0, 1.0, 2.0, 4.0]), dim=1, tags=["special"])
    yield ok(input=T([], values=[2.5]), correction=0, tags=["special"])
    yield ok(input=V(1e8, 1e8 + 1, 1e8 + 2), tags=["special"])
    yield ok(input=V(1e4, 1e4 + 1, 1e4 + 2, dtype="f32"), tags=["special"])
    yield ok(input=T([3, 2]), dim=0, correction=5, tags=["special"])


def log_sums():
    """logsumexp needs `dim`; the largest element is taken out first, unless it is infinite."""
    for shape, dims in AXES[1:]:
        for dim in dims:
            yield ok(input=T(shape), dim=dim)
            yield ok(input=T(shape), dim=dim, keepdim=True)
    yield ok(input=T([]), dim=0)
    yield ok(input=T([]), dim=-1, keepdim=True)
    for tensor in layouts():
        yield ok(input=tensor, dim=0)
        yield ok(input=tensor, dim=[-1], keepdim=True)
    rows = [1.0, nan, 2.0, inf, 1.0, 3.0, inf, -inf, inf, -inf, 2.0, 0.5, -inf, -inf, -inf]
    # exp overflows in the last two rows; farther out, an f32 result would be too coarse for exp(x - result) in the gradient.
    far = {"f64": [1000.0, 1000.0, 999.0, -1000.0, -1001.0, -1e5], "f32": [100.0, 100.0, 99.0, -100.0, -101.0, -1e4]}
    for dtype in FLOATS:
        yield ok(input=T([7, 3], values=rows + far[dtype], dtype=dtype), dim=1, tags=["special"])
    yield ok(input=V(-inf, -inf), dim=0, keepdim=True, tags=["special"])
    yield ok(input=V(2.0, 2.0, 2.0), dim=0, tags=["ties"])
    for shape, dim in [([0], 0), ([2, 0], 1), ([2, 0], 0), ([0, 3], 0), ([2, 0, 3], [0, 1])]:
        yield ok(input=T(shape), dim=dim)
    for dtype in ("i64", "bool"):
        yield ok(input=T([2, 3], dtype=dtype), dim=1)
    yield ok(input=T([2, 3], "strided", dtype="f32"), dim=0)
    yield from bad_dims()


def questions():
    """any and all: every number but zero is true, NaN too."""
    rows = [0.0, -0.0, 0.0, nan, 0.0, 0.0, inf, -1.0, 0.25, 0.0, 1.0, 2.0]
    for dtype in FLOATS:
        yield ok(input=T([4, 3], values=rows, dtype=dtype), dim=1, tags=["special"])
        yield ok(input=T([4, 3], values=rows, dtype=dtype), dim=[0, 1], tags=["special"])
    for values in ([0, 0, 0], [1, 1, 1], [0, 1, 0]):
        yield ok(input=V(*values, dtype="bool"))
        yield ok(input=V(*values, dtype="i64"))
    yield ok(input=T([2, 3], values=[0, 1, 0, 0, 0, 0], dtype="bool"), dim=1)
    yield ok(input=T([3, 2], "expanded", dtype="bool"), dim=[0])


def sum_to_size():
    for shape, sizes in [
        ([2, 3], [[2, 3], [1, 3], [2, 1], [1, 1], [3], [1], []]),
        ([2, 3, 2], [[3, 2], [1, 3, 2], [2, 1, 2], [2, 1, 1], [3, 1], [1, 2], [2], [1, 1, 1], []]),
        ([3], [[3], [1], []]),
        ([], [[]]),
        ([1, 1], [[1], [], [1, 1]]),
        ([2, 0, 3], [[1, 0, 3], [3], [1], [2, 1, 1], [1, 1, 1], []]),
        ([0], [[1], [0], []]),
        ([2, 1, 3, 1, 2], [[1, 1, 3, 1, 1], [3, 1, 1], [1, 2]]),
    ]:  # fmt: skip
        for size in sizes:
            yield ok(input=T(shape), size=size)
    for layout in ("transposed", "strided", "expanded", "offset"):
        for size in ([3, 1], [1, 3, 2], [2], [2, 1, 2]):
            yield ok(input=T([2, 3, 2], layout), size=size)
    yield ok(input=T([2, 3], dtype="f32"), size=[3])
    yield ok(input=T([2, 3], dtype="i64"), size=[2, 1])
    yield ok(input=V(1.0, nan, inf), size=[1], tags=["special"])
    for shape, size in [([2, 3], [3, 3]), ([3], [2]), ([3], [1, 3]), ([2, 3], [2]), ([1], [3]), ([2, 3], [0])]:
        yield refused(input=T(shape), size=size)


def sums():
    yield from over_axes()
    yield from long_axes()
    yield from several_layouts()
    yield from empties()
    yield from kinds_of_numbers()
    yield from no_axes()
    yield from not_numbers()
    yield from wanted_dtype()
    yield from bad_dims()


def means():
    yield from over_axes()
    yield from several_layouts()
    yield from empties()
    yield from kinds_of_numbers(whole=refused)
    yield from no_axes()
    yield from not_numbers()
    yield from wanted_dtype(FLOATS)
    yield refused(input=T([2, 3]), dtype="i64")
    yield from bad_dims()


def products():
    yield from over_axes(NONZERO, several=False)
    yield from empties(axes=[([0], [0]), ([2, 0, 3], [0, 1]), ([0, 3], [0, 1])])
    yield from kinds_of_numbers(NONZERO)
    yield from factors()
    yield from wanted_dtype()
    yield from bad_dims(several=False)


def variances():
    yield ok(input=T([2, 3], grad=False), dim=[])
    yield from over_axes()
    yield from several_layouts()
    yield from empties()
    yield from kinds_of_numbers(whole=refused)
    yield from not_numbers()
    yield from spread()
    yield from bad_dims()


def both():
    yield from over_axes(axes=AXES[:4])
    yield from empties()
    yield from spread()
    yield from bad_dims()


def truths():
    yield from over_axes()
    yield ok(input=T([40, 60], "transposed", dtype="bool"), dim=0)
    yield ok(input=T([2000], values=[0] * 1999 + [1], dtype="bool"))
    yield from several_layouts()
    yield from empties()
    yield from kinds_of_numbers()
    yield from no_axes()
    yield from questions()
    yield from bad_dims()


OPS = [
    Op("sum", torch.sum, [sums()]),
    Op("mean", torch.mean, [means()]),
    Op("prod", torch.prod, [products()]),
    Op("logsumexp", torch.logsumexp, [log_sums()]),
    Op("var", torch.var, [variances()]),
    Op("std", torch.std, [variances()]),
    Op("var_mean", torch.var_mean, [both()]),
    Op("any", torch.any, [truths()]),
    Op("all", torch.all, [truths()]),
    Op("sum_to_size", lambda input, size: input.sum_to_size(size), [sum_to_size()]),
]
