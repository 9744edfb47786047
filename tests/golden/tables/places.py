"""Places named by index tensors and masks: scatter, take_along_dim, index_add, masks, and what stands between brackets.

`__getitem__` and `__setitem__` have their key written as a list: a number, a slice as [start, stop, step], or the name of a
tensor among `tensors`. `index_put` has its index tensors by position; one that is left out takes the whole axis.
"""

import math

import torch

from .indexing import index
from .samples import ANY, Op, T, V, below, inf, method, nan, ok, refused


def truth(*values, shape=None):
    return T(shape or [len(values)], values=[int(v) for v in values], dtype="bool")


def scatter():
    """No place twice where there is a gradient: which element remains has no promise in PyTorch."""
    for shape, dim, picked, values, source in [
        ([4], 0, [3], [2, 0, 1], [3]), ([4], -1, [2], [3, 0], [4]), ([2, 3], 1, [2, 2], [2, 0, 1, 2], [2, 2]), ([2, 3], 0, [1, 3], [1, 0, 1], [1, 3]),
        ([2, 3], 1, [1, 2], [0, 2], [2, 4]), ([2, 2, 2], 1, [2, 1, 2], [0, 1, 1, 0], [2, 1, 2]), ([3], 0, [0], [], [2]), ([], 0, [], [0], []),
        ([2, 3], 0, [0, 3], [], [1, 3]), ([0], 0, [0], [], [0]),
    ]:  # fmt: skip
        where = T(picked, values=values, dtype="i64")
        yield ok(input=T(shape), dim=dim, index=where, src=T(source, grad=source == picked))
        yield ok(input=T(shape), dim=dim, index=where, value=0.5)
    where = T([2, 2], values=[2, 0, 1, 2], dtype="i64")
    for layout in ("transposed", "strided", "expanded", "offset"):
        yield ok(input=T([2, 3], layout), dim=1, index=where, src=T([2, 2], layout))
        yield ok(input=T([2, 3]), dim=1, index=T([2, 1], layout, [1, 1], "i64") if layout == "expanded" else T([2, 1], layout, below(3), "i64"), value=-1)
    yield ok(input=T([3], grad=False), dim=0, index=V(0, 2, dtype="i64"), src=T([2]))
    yield ok(input=T([3]), dim=0, index=V(0, 2, dtype="i64"), src=T([2], grad=False))
    yield ok(input=T([3], grad=False), dim=0, index=V(1, 1, 1, dtype="i64"), src=T([3], grad=False))
    yield ok(input=V(nan, inf, -0.0), dim=0, index=V(2, 0, dtype="i64"), src=V(-inf, nan), tags=["special"])
    yield ok(input=T([3], dtype="i64"), dim=0, index=V(1, dtype="i64"), value=1.5)
    yield ok(input=T([3], dtype="bool"), dim=0, index=V(1, dtype="i64"), value=2)
    yield ok(input=T([2, 3], dtype="f32"), dim=1, index=where, src=T([2, 2], dtype="f32"))
    yield refused(input=T([3]), dim=0, index=V(3, dtype="i64"), src=T([1]))
    yield refused(input=T([3]), dim=0, index=V(-1, dtype="i64"), value=1.0)
    yield refused(input=T([3]), dim=0, index=index([3], 3), src=T([2]))
    yield refused(input=T([3]), dim=0, index=index([2], 3), src=T([]))
    yield refused(input=T([2, 3]), dim=0, index=index([2], 2), src=T([2, 3]))
    yield refused(input=T([2, 3]), dim=0, index=index([2, 4], 2), src=T([2, 4]))
    yield refused(input=T([2, 3]), dim=2, index=index([2, 3], 2), src=T([2, 3]))
    yield refused(input=T([3]), dim=0, index=index([2], 3), src=T([2], dtype="f32"))
    yield refused(input=T([3]), dim=0, index=V(1.0, 0.0), src=T([2]))
    for dtype in ("f64", "i64"):  # PyTorch has no gradient of these
        added = dict(dim=1, index=index([2, 2], 3), src=T([2, 2], dtype=dtype, grad=False))
        yield ok(input=T([2, 3], dtype=dtype, grad=False), **added, reduce="add")
    yield refused(input=T([2, 3]), **added, reduce="sum")


def index_add():
    for shape, dim, picked in [([3], 0, [0, 2, 2]), ([2, 3], 0, [1, 1, 0]), ([2, 3], 1, [2]), ([2, 3], -1, [0, 2, 0]), ([2, 3, 2], 1, [2, 0]), ([3], 0, []), ([2, 0], 0, [1])]:
        source = list(shape)
        source[dim] = len(picked)
        yield ok(input=T(shape), dim=dim, index=V(*picked, dtype="i64"), source=T(source))
    for layout in ("transposed", "strided", "expanded", "offset"):
        yield ok(input=T([2, 3], layout), dim=1, index=index([4], 3), source=T([2, 4], layout))
    yield ok(input=T([]), dim=0, index=V(0, dtype="i64"), source=T([]))
    yield ok(input=T([3], grad=False), dim=0, index=V(0, 0, dtype="i64"), source=T([2]))
    yield ok(input=T([3]), dim=0, index=V(0, 0, dtype="i64"), source=T([2], grad=False))
    for dtype in ("f32", "i64"):
        yield ok(input=T([2, 3], dtype=dtype), dim=1, index=index([4], 3), source=T([2, 4], dtype=dtype))
    yield ok(input=T([2, 3]), dim=0, index=V(1, 1, dtype="i64"), source=T([2, 3]), alpha=-0.5)
    yield ok(input=T([2, 3], "transposed"), dim=1, index=V(1, 0, dtype="i64"), source=T([2, 2], "strided"), alpha=2)
    yield ok(input=T([3], dtype="i64"), dim=0, index=V(1, 1, dtype="i64"), source=T([2], dtype="i64"), alpha=3)
    yield refused(input=T([3]), dim=0, index=V(3, dtype="i64"), source=T([1]))
    yield refused(input=T([3]), dim=0, index=V(-1, dtype="i64"), source=T([1]))
    yield refused(input=T([3]), dim=1, index=V(0, dtype="i64"), source=T([1]))
    yield refused(input=T([3]), dim=0, index=index([1, 2], 3), source=T([2]))
    yield refused(input=T([3]), dim=0, index=index([2], 3), source=T([3]))
    yield refused(input=T([3]), dim=0, index=V(1.0), source=T([1]))
    yield refused(input=T([3]), dim=0, index=V(1, dtype="i64"), source=T([1], dtype="f32"))


def take_along_dim():
    for shape, picked, dim in [
        ([3], [5], 0), ([2, 3], [2, 1], 1), ([2, 3], [1, 3], 0), ([2, 3], [1, 2], 1), ([2, 3], [4, 1], 0), ([1, 3], [4, 2], -1), ([2, 3, 2], [1, 2, 1], 1),
        ([2, 3], [2, 0], 1), ([0, 3], [1, 2], 1), ([2, 1, 3], [1, 2, 2], 2),
    ]:  # fmt: skip
        yield ok(input=T(shape), indices=index(picked, shape[dim]), dim=dim)
    for layout in ("transposed", "strided", "expanded", "offset"):
        yield ok(input=T([2, 3], layout), indices=index([2, 4], 3, layout), dim=1)
    yield ok(input=T([3]), indices=V(-1, -3, 0, dtype="i64"), dim=0)
    yield ok(input=V(nan, -0.0, inf), indices=V(0, 1, 2, dtype="i64"), dim=0, tags=["special"])
    for dtype in ("f32", "i64", "bool"):
        yield ok(input=T([2, 3], dtype=dtype), indices=index([2, 2], 3), dim=1)
    for shape, picked in [([2, 3], [2, 2]), ([2, 3], [4]), ([], []), ([4], [0, 3])]:
        yield ok(input=T(shape), indices=index(picked, math.prod(shape)))
    yield ok(input=T([2, 3], "offset"), indices=index([3, 2], 6, "offset"), dim=None)
    yield refused(input=T([2, 3]), indices=V(0, dtype="i64"), dim=1)
    yield refused(input=T([2, 3]), indices=index([3, 1], 3), dim=1)
    yield refused(input=T([2, 3]), indices=index([2, 1], 2), dim=2)
    yield refused(input=T([]), indices=T([], values=[0], dtype="i64"), dim=0)
    yield refused(input=T([2]), indices=V(0.0), dim=0)


MASKS = [([2, 3], [2, 3]), ([2, 3], [3]), ([3], [2, 3]), ([2, 1], [1, 3]), ([], []), ([], [2]), ([2], []), ([0, 2], [2]), ([2, 2], [1]), ([0], [1])]


def masks(take):
    """Pairs of shapes, layouts and dtypes; `take` says what else the operation wants."""
    for shape, mask in MASKS:
        yield from take(T(shape), T(mask, dtype="bool"))
    for layout in ("transposed", "strided", "expanded", "offset"):
        yield from take(T([3, 2], layout), T([3, 2], dtype="bool"))
        yield from take(T([3, 2]), T([3, 2], layout, dtype="bool"))
    for dtype in ("f32", "i64", "bool"):
        yield from take(T([2, 3], dtype=dtype), T([3], dtype="bool"))
    yield from take(V(nan, inf, -0.0, 1.0), truth(1, 1, 1, 0))
    yield from take(T([4]), truth(0, 0, 0, 0))
    yield from take(T([4]), truth(1, 1, 1, 1))


def masked_fill():
    yield from masks(lambda t, m: [ok(input=t, mask=m, value=T([], dtype=t.dtype)), ok(input=t, mask=m, value=1)])
    for value in (nan, inf, -inf, -0.0):
        yield ok(input=V(1.0, nan), mask=truth(1, 0), value=value, tags=["special"])
    yield ok(input=T([2], dtype="i64"), mask=truth(1, 0), value=1.5)
    yield ok(input=T([2], dtype="f32"), mask=truth(1, 0), value=T([], dtype="f64"))
    yield ok(input=T([2], dtype="i64"), mask=truth(1, 0), value=T([], dtype="f64", grad=False))
    yield ok(input=T([2], grad=False), mask=truth(1, 0), value=T([]))
    yield refused(input=T([2]), mask=V(1, 0, dtype="i64"), value=1)
    yield refused(input=T([2]), mask=truth(1, 0), value=T([1]))
    yield refused(input=T([2]), mask=truth(1, 0, 1), value=1)


def masked_fill_in_place():
    for shape, mask in [([2, 3], [2, 3]), ([2, 3], [3]), ([2, 3], []), ([], []), ([0, 2], [2])]:
        yield ok(input=T(shape, grad=False), mask=T(mask, dtype="bool"), value=2)
    yield ok(input=T([3], dtype="i64"), mask=truth(1, 0, 1), value=1.5)
    yield ok(input=T([3, 2], "transposed", grad=False), mask=T([2], dtype="bool"), value=T([], grad=False))
    yield refused(input=T([3]), mask=T([2, 3], dtype="bool"), value=1)
    yield refused(input=T([3]), mask=V(1, 0, 1, dtype="i64"), value=1)
    yield refused(input=T([3]), mask=truth(1, 0, 1), value=T([2]))


def masked_select():
    yield from masks(lambda t, m: [ok(input=t, mask=m)])
    yield refused(input=T([2]), mask=V(1, 0, dtype="i64"))
    yield refused(input=T([2]), mask=truth(1, 0, 1))


def nonzero():
    for shape in [[4], [2, 3], [], [0], [2, 0], [2, 2, 2]]:
        yield ok(input=T(shape, values=below(2), dtype="i64"))
        yield ok(input=T(shape, dtype="bool"))
    yield ok(input=T([], values=[0], dtype="i64"))
    for layout in ("transposed", "strided", "expanded", "offset"):
        yield ok(input=T([3, 2], layout, below(2), "i64"))
    for dtype in ("f32", "f64"):
        yield ok(input=V(nan, 0.0, -0.0, inf, 1e-45, dtype=dtype, grad=False), tags=["special"])


# A tensor of [2, 3, 4]: what stands between the brackets, and the tensors that it names.
ids, column, mask, wide = V(1, 0, dtype="i64"), T([3, 1], values=[0, -1, 1], dtype="i64"), truth(1, 0, 1), truth(1, 1, 0, 0, 0, 1, shape=[2, 3])
KEYS = [
    ([1],), ([-1, [1, None, None]],), ([[None, None, None], [0, 3, 2], -1],), ([[None, None, 2]],), ([],),
    (["tensors[0]"], ids), (["tensors[0]"], column), ([[None, None, None], "tensors[0]"], ids), ([[None, None, None], [None, None, None], "tensors[0]"], column),
    (["tensors[0]", "tensors[1]"], ids, column), ([[None, None, None], "tensors[0]", "tensors[1]"], ids, column),
    (["tensors[0]", [None, None, None], "tensors[1]"], ids, ids), (["tensors[0]", [1, None, None], "tensors[1]"], column, ids),
    ([1, [None, None, None], "tensors[0]"], ids), ([1, "tensors[0]", "tensors[1]"], ids, ids), (["tensors[0]", 1, "tensors[1]"], ids, ids),
    (["tensors[0]", [None, None, None], 2], ids), ([[0, 1, None], "tensors[0]", [None, None, 3]], ids),
    (["tensors[0]", "tensors[1]", "tensors[2]"], ids, ids, ids), ([[None, None, None], "tensors[0]"], mask), (["tensors[0]"], wide),
    (["tensors[0]", "tensors[1]"], ids, mask), (["tensors[0]", "tensors[1]"], wide, T([3], values=[3, 0, -2], dtype="i64")),
    (["tensors[0]"], T([0], dtype="i64")), ([[None, None, None], "tensors[0]"], T([2, 0], dtype="i64")), ([[None, None, None], "tensors[0]"], truth(0, 0, 0)),
    (["tensors[0]"], T([], values=[1], dtype="i64")), (["tensors[0]", [None, None, None], "tensors[1]"], T([], values=[1], dtype="i64"), ids),
    ([[None, None, None], "tensors[0]"], T([2, 2], values=[2, 2, 2, 0], dtype="i64")), ([[2, 2, None], "tensors[0]"], ids),
]  # fmt: skip
BAD_KEYS = [
    (["tensors[0]"], V(2, dtype="i64")), (["tensors[0]"], V(-3, dtype="i64")), (["tensors[0]"], truth(1, 0, 1)), (["tensors[0]"], V(1.0)),
    (["tensors[0]", "tensors[1]"], ids, T([3], values=[0, 0, 0], dtype="i64")), (["tensors[0]", "tensors[1]"], wide, wide), (["tensors[0]"], T([0])),
    ([[None, None, None], "tensors[0]"], truth(1, 0)), ([0, 0, 0, 0],), ([0, "tensors[0]", 5], ids),
]  # fmt: skip


def key_of(key, tensors):
    def item(k):
        if isinstance(k, list):
            return slice(*k)
        return tensors[int(k[8:-1])] if isinstance(k, str) else k

    return tuple(item(k) for k in key)


def getitem(input, key, tensors=()):
    return input[key_of(key, tensors)]


def setitem(input, key, value, tensors=(), accumulate=False):
    """Into a copy, so that the input may be tracked."""
    out = input.clone()
    if accumulate:
        out[key_of(key, tensors)] += value
    else:
        out[key_of(key, tensors)] = value
    return out


def indices_of(indices_at, indices):
    """Index tensors by the axes that they stand for."""
    return [indices[indices_at.index(axis)] if axis in indices_at else None for axis in range(max(indices_at) + 1)]


def key_samples():
    for key, *tensors in KEYS:
        yield ok(input=T([2, 3, 4]), key=key, **named(tensors))
    for layout in ("transposed", "strided", "expanded", "offset"):
        for key, *tensors in KEYS[5:14]:
            yield ok(input=T([2, 3, 4], layout), key=key, **named(tensors))
        yield ok(input=T([2, 3]), key=["tensors[0]", "tensors[1]"], tensors=[index([2, 2], 2, layout), index([2, 1], 3)])
    for dtype in ("f32", "i64", "bool"):
        yield ok(input=T([2, 3, 4], dtype=dtype), key=["tensors[0]", [None, None, None], "tensors[1]"], tensors=[ids, ids])
    yield ok(input=T([0, 3]), key=[[None, None, None], "tensors[0]"], tensors=[ids])
    yield ok(input=T([0]), key=["tensors[0]"], tensors=[T([0], dtype="i64")])
    for key, *tensors in BAD_KEYS:
        yield refused(input=T([2, 3, 4]), key=key, **named(tensors))
    yield refused(input=T([0]), key=["tensors[0]"], tensors=[V(0, dtype="i64")])


def named(tensors):
    return {"tensors": tensors} if tensors else {}


def part_of(key, tensors):
    return list(getitem(torch.zeros(2, 3, 4), key, [torch.tensor(t.values).reshape(t.shape).to({"i64": torch.int64, "bool": torch.bool}[t.dtype]) for t in tensors]).shape)


def repeats_a_place(key, tensors):
    built = [torch.tensor(t.values).reshape(t.shape).to({"i64": torch.int64, "bool": torch.bool}[t.dtype]) for t in tensors]
    places = getitem(torch.arange(24).reshape(2, 3, 4), key, built).flatten()
    return len(set(places.tolist())) < places.numel()


def assignments():
    """A value of the part's shape, one that broadcasts, and one with axes too many. Which element remains of several for one
    place has no promise in PyTorch, and their gradients neither: no place twice."""
    for key, *tensors in KEYS:
        tensors = [t if isinstance(t.values, list) else T(t.shape, values=[], dtype=t.dtype) for t in tensors]
        shape = part_of(key, tensors)
        if repeats_a_place(key, tensors):
            continue
        yield ok(input=T([2, 3, 4]), key=key, value=T(shape), **named(tensors))
        yield ok(input=T([2, 3, 4], "transposed"), key=key, value=T([1, 1, *shape[:-2], *[1 for _ in shape[-2:]]]), **named(tensors))
        yield ok(input=T([2, 3, 4], grad=False), key=key, value=T([]), **named(tensors))
    yield ok(input=T([2, 3], dtype="i64"), key=["tensors[0]"], value=T([3], dtype="i64"), tensors=[ids])
    yield ok(input=T([2, 3], dtype="bool"), key=["tensors[0]"], value=T([3], dtype="bool"), tensors=[ids])
    yield refused(input=T([2, 3, 4]), key=["tensors[0]"], value=T([3, 3, 4]), tensors=[ids])
    yield refused(input=T([2, 3, 4]), key=["tensors[0]"], value=T([2, 2, 3, 4]), tensors=[ids])
    yield refused(input=T([2, 3, 4]), key=["tensors[0]"], value=T([]), tensors=[V(2, dtype="i64")])
    yield refused(input=T([2, 3, 4]), key=["tensors[0]"], value=T([]), tensors=[truth(1, 0, 1)])


def index_put():
    """Added up, places named several times count several times."""
    for at, *tensors in [([0], ids), ([1], column), ([0, 1], ids, column), ([0, 2], ids, ids), ([1, 2], ids, ids), ([0, 1, 2], ids, ids, ids), ([1], mask), ([2], T([5], values=[0, 3, 3, -1, 0], dtype="i64"))]:
        key = [f"tensors[{at.index(axis)}]" if axis in at else [None, None, None] for axis in range(max(at) + 1)]
        shape = part_of(key, tensors)
        yield ok(input=T([2, 3, 4]), indices_at=at, indices=tensors, values=T(shape), accumulate=True)
        yield ok(input=T([2, 3, 4], "transposed"), indices_at=at, indices=tensors, values=T(shape[-1:], "strided" if shape else "contiguous"), accumulate=True)
        if not repeats_a_place(key, tensors):
            yield ok(input=T([2, 3, 4]), indices_at=at, indices=tensors, values=T([]))
    yield ok(input=T([3], dtype="i64"), indices_at=[0], indices=[V(1, 1, dtype="i64")], values=V(5, 7, dtype="i64"), accumulate=True)
    yield ok(input=T([3], dtype="f32"), indices_at=[0], indices=[V(1, 1, 1, dtype="i64")], values=V(0.5, 0.25, 2.0, dtype="f32"), accumulate=True)
    yield refused(input=T([3]), indices_at=[0], indices=[V(3, dtype="i64")], values=T([1]), accumulate=True)
    yield refused(input=T([3]), indices_at=[0], indices=[V(1, 0, dtype="i64")], values=T([3]), accumulate=True)


OPS = [
    Op("scatter", torch.scatter, [scatter()]),
    Op("index_add", torch.index_add, [index_add()]),
    Op("take_along_dim", torch.take_along_dim, [take_along_dim()]),
    Op("masked_fill", torch.masked_fill, [masked_fill()], broadcasts=True),
    Op("masked_fill_", method("masked_fill_"), [masked_fill_in_place()], mutates=True),
    Op("masked_select", torch.masked_select, [masked_select()], broadcasts=True),
    Op("nonzero", torch.nonzero, [nonzero()]),
    Op("__getitem__", getitem, [key_samples()]),
    Op("__setitem__", setitem, [assignments()]),
    Op("index_put", lambda indices_at, indices, **named: torch.ops.aten.index_put(indices=indices_of(indices_at, indices), self=named.pop("input"), **named), [index_put()]),
]
