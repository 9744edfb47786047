"""Products of matrices and vectors: matmul in every combination of ranks, and its strict relatives; sums with products; linear."""

import torch
from torch.nn import functional as F

from .samples import Op, T, V, inf, nan, ok, refused

# matmul: vectors, matrices, batches; a batch axis broadcasts, a missing one too; empty rows, columns, inner axes and batches.
MATMUL = [
    ([3], [3]), ([1], [1]), ([2, 3], [3]), ([3], [3, 2]), ([2, 3], [3, 2]), ([2, 3], [3, 1]), ([1, 3], [3, 4]), ([1, 1], [1, 1]),
    ([2, 2, 3], [3]), ([3], [2, 3, 2]), ([2, 2, 3], [3, 2]), ([2, 3], [2, 3, 2]), ([2, 2, 3], [2, 3, 2]), ([1, 2, 3], [2, 3, 1]),
    ([2, 2, 3], [1, 3, 2]), ([2, 1, 2, 2], [3, 2, 1]), ([3, 1, 2], [2, 1, 2, 2]), ([2, 1, 2, 2], [1, 2, 2, 2]), ([2, 3, 1, 2], [2]),
    ([2], [2, 2, 2, 1]), ([2, 2, 2, 2], [2, 2]), ([1, 1, 2, 3], [3]),
]  # fmt: skip
EMPTY_MATMUL = [
    ([0], [0]), ([2, 0], [0]), ([0], [0, 2]), ([2, 0], [0, 3]), ([0, 2], [2, 3]), ([2, 3], [3, 0]), ([0, 0], [0, 0]), ([0, 2, 3], [3]),
    ([0, 2, 3], [3, 2]), ([2, 2, 0], [0, 2]), ([2, 3], [0, 3, 2]), ([0, 2, 3], [1, 3, 2]), ([1, 0, 2, 2], [3, 1, 2, 1]), ([2, 0, 3], [2, 3, 2]),
]  # fmt: skip
BAD_MATMUL = [
    ([], [3]), ([3], []), ([], []), ([3], [4]), ([2, 3], [2]), ([2, 3], [2, 3]), ([3], [2, 3]), ([2, 2, 3], [3, 3, 2]),
    ([2, 2, 3], [2, 2, 3]), ([2, 1, 2, 2], [3, 1, 3, 2]), ([1], [0]), ([0, 2, 2], [2, 2, 2]),
]  # fmt: skip
LAYOUTS = [("transposed", "contiguous"), ("contiguous", "transposed"), ("transposed", "transposed"), ("strided", "offset"),
           ("expanded", "strided"), ("offset", "expanded")]  # fmt: skip


def layouts(shapes, second):
    for a, b in shapes:
        for layout_a, layout_b in LAYOUTS:
            if len(a) == 1 and layout_a == "transposed":
                layout_a = "strided"
            if len(b) == 1 and layout_b == "transposed":
                layout_b = "strided"
            yield ok(**{"input": T(a, layout_a), second: T(b, layout_b)})


def both_tracked_or_one(a, b, second):
    yield ok(**{"input": T(a), second: T(b, grad=False)})
    yield ok(**{"input": T(a, grad=False), second: T(b)})


def kinds_of_numbers(a, b, second):
    yield ok(**{"input": T(a, dtype="f32"), second: T(b, dtype="f32")})
    yield ok(**{"input": T(a, "strided", dtype="f32"), second: T(b, "strided", dtype="f32")})
    yield ok(**{"input": T(a, dtype="i64"), second: T(b, dtype="i64")})
    for left, right in [("f64", "f32"), ("f32", "i64"), ("i64", "f64"), ("bool", "bool")]:
        yield refused(**{"input": T(a, dtype=left), second: T(b, dtype=right)})


def samples(second, shapes, empty, bad):
    for a, b in shapes + empty:
        yield ok(**{"input": T(a), second: T(b)})
    for a, b in bad:
        yield refused(**{"input": T(a), second: T(b)})
    yield from layouts(shapes[-2:], second)
    yield from both_tracked_or_one(*shapes[0], second)
    yield from kinds_of_numbers(*shapes[-1], second)


def matmul():
    yield from samples("other", MATMUL, EMPTY_MATMUL, BAD_MATMUL)
    yield from layouts([([2, 3], [3, 2]), ([2, 2, 3], [3, 2]), ([2, 3], [2, 3, 2]), ([2, 1, 2, 3], [2, 3, 2]), ([3], [3, 2]), ([2, 3], [3])], "other")
    yield from kinds_of_numbers([2, 3], [3, 2], "other")
    yield from kinds_of_numbers([2, 2, 3], [2, 3, 2], "other")
    for a, b in [([2, 2, 3], [3, 2]), ([2, 3], [2, 3, 2]), ([3], [3]), ([2, 1, 2, 2], [3, 2, 1])]:
        yield from both_tracked_or_one(a, b, "other")
    yield ok(input=T([2, 2], values=[nan, 1.0, inf, 2.0]), other=T([2, 2], values=[1.0, 0.0, 2.0, -inf]), tags=["special"])
    yield ok(input=T([1, 2], values=[0.0, 1.0]), other=T([2, 1], values=[inf, 1.0]), tags=["special"])
    yield ok(input=V(0.0, 1.0), other=V(nan, 1.0), tags=["special"])
    # Wider than a tile or a vector register. Values of few digits: the sums are exact in any order.
    yield ok(input=T([13, 17]), other=T([17, 9]))
    yield ok(input=T([9, 33], dtype="f32"), other=T([33, 7], "transposed", dtype="f32"))
    yield ok(input=T([3, 5, 8], "strided"), other=T([8, 9]))


MM = [([2, 3], [3, 2]), ([1, 3], [3, 1]), ([3, 1], [1, 2]), ([2, 2], [2, 2]), ([3, 2], [2, 4])]
EMPTY_MM = [([0, 3], [3, 2]), ([2, 0], [0, 3]), ([2, 3], [3, 0]), ([0, 0], [0, 0])]
BAD_MM = [([2, 3], [2, 3]), ([3], [3, 2]), ([2, 3], [3]), ([1, 2, 3], [3, 2]), ([2, 3], [1, 3, 2]), ([], [2, 2])]
BMM = [([2, 2, 3], [2, 3, 2]), ([1, 2, 2], [1, 2, 1]), ([3, 1, 2], [3, 2, 1]), ([2, 2, 2], [2, 2, 3])]
EMPTY_BMM = [([0, 2, 3], [0, 3, 2]), ([2, 0, 3], [2, 3, 2]), ([2, 2, 0], [2, 0, 2])]
BAD_BMM = [([2, 2, 3], [3, 3, 2]), ([1, 2, 3], [2, 3, 2]), ([2, 3], [3, 2]), ([2, 2, 3], [2, 2, 3]), ([1, 2, 2, 2], [1, 2, 2, 2])]
MV = [([1, 2], [2]), ([3, 1], [1]), ([2, 3], [3]), ([4, 3], [3])]
EMPTY_MV = [([0, 3], [3]), ([2, 0], [0])]
BAD_MV = [([2, 3], [2]), ([3], [3]), ([2, 3], [3, 1]), ([2, 2, 3], [3]), ([2, 1], [])]
DOT = [([1], [1]), ([3], [3]), ([5], [5])]
BAD_DOT = [([2], [3]), ([1], [3]), ([2, 2], [2, 2]), ([], []), ([3], [])]


def linear():
    for x, weight, bias in [
        ([2, 3], [4, 3], [4]), ([3], [2, 3], [2]), ([2, 2, 3], [2, 3], [2]), ([2, 1, 2, 3], [1, 3], [1]), ([1, 1], [1, 1], [1]),
        ([0, 3], [2, 3], [2]), ([2, 0], [3, 0], [3]), ([2, 3], [0, 3], [0]), ([0, 2, 3], [2, 3], [2]),
    ]:  # fmt: skip
        yield ok(input=T(x), weight=T(weight), bias=T(bias))
        yield ok(input=T(x), weight=T(weight))
        yield ok(input=T(x), weight=T(weight), bias=None)
    for layout_x, layout_w in LAYOUTS:
        yield ok(input=T([2, 3], layout_x), weight=T([4, 3], layout_w), bias=T([4], "strided"))
        yield ok(input=T([2, 2, 3], layout_x), weight=T([2, 3], layout_w), bias=T([2], "expanded"))
        yield ok(input=T([2, 2, 3], layout_x), weight=T([2, 3], layout_w))
    yield ok(input=T([2, 3], grad=False), weight=T([4, 3]), bias=T([4]))
    yield ok(input=T([2, 3]), weight=T([4, 3], grad=False), bias=T([4]))
    yield ok(input=T([2, 3]), weight=T([4, 3]), bias=T([4], grad=False))
    yield ok(input=T([5, 4], dtype="f32"), weight=T([3, 4], dtype="f32"), bias=T([3], dtype="f32"))
    yield ok(input=T([2, 2], values=[nan, 1.0, 0.0, inf]), weight=T([2, 2], values=[1.0, 0.0, -1.0, 2.0]), bias=T([2]), tags=["special"])
    for x, weight, bias in [([2, 3], [4, 2], [4]), ([2, 3], [4, 3], [3]), ([], [2, 3], [2]), ([2, 3], [3, 4], [4]), ([2, 3], [2, 4, 3], [4])]:
        yield refused(input=T(x), weight=T(weight), bias=T(bias))
    yield refused(input=T([2, 3]), weight=T([4, 3], dtype="f32"))
    # A weight without an axis of outputs. For a matrix as input PyTorch refuses the bias, by accident.
    for x in ([3], [2, 2, 3], [2, 1, 2, 3]):
        yield ok(input=T(x), weight=T([3]), bias=T([]))
    for x in ([3], [2, 3], [2, 2, 3], [0, 3]):
        yield ok(input=T(x), weight=T([3]))
    yield ok(input=T([2, 2, 3], "transposed"), weight=T([3], "strided"), bias=T([]))
    yield refused(input=T([2, 3]), weight=T([2]))
    yield refused(input=T([2, 2, 3]), weight=T([3]), bias=T([2]))


def outers():
    for a, b in [([2], [3]), ([1], [1]), ([3], [1]), ([0], [3]), ([2], [0])]:
        yield ok(input=T(a), vec2=T(b))
    yield ok(input=T([4], "strided"), vec2=T([3], "expanded"))
    yield ok(input=T([2], "offset", dtype="f32"), vec2=T([3], dtype="f32"))
    for a, b in [("i64", "i64"), ("bool", "bool"), ("i64", "f64"), ("f32", "f64"), ("bool", "f32")]:
        yield ok(input=T([2], dtype=a), vec2=T([3], dtype=b))
    yield ok(input=T([2]), vec2=T([3], grad=False))
    yield ok(input=V(0.0, nan, inf), vec2=V(1.0, 0.0), tags=["special"])
    for a, b in [([], [3]), ([3], []), ([2, 2], [2]), ([2], [2, 1])]:
        yield refused(input=T(a), vec2=T(b))


def sums_with(first, second, batch):
    """addmm and baddbmm: what is added broadcasts; `beta` and `alpha`, of which a `beta` of 0 ignores NaN."""

    def case(own, a, b, outcome=ok, tags=(), **args):
        return outcome(input=own, **{first: a, second: b}, **args, tags=tags)

    a, b, shape = batch + [2, 3], batch + [3, 2], batch + [2, 2]
    for own in [shape, [2, 2], [1, 2], [2, 1], [2], [1], []]:
        yield case(T(own), T(a), T(b))
        yield case(T(own), T(a), T(b), beta=0.5, alpha=-2)
    for beta, alpha in [(0, 1), (2, 0.25), (1, 3), (-1, 1), (0, 0), (0.0, 1.5)]:
        yield case(T(shape), T(a), T(b), beta=beta, alpha=alpha)
    for layout in ("transposed", "strided", "expanded", "offset"):
        yield case(T(shape, layout), T(a, layout), T(b, layout))
        yield case(T([2], "strided"), T(a, layout), T(b), beta=2)
    for m, k, n in [(0, 2, 3), (2, 0, 3), (2, 3, 0)]:
        yield case(T([n]), T(batch + [m, k]), T(batch + [k, n]))
        yield case(T(batch + [m, n]), T(batch + [m, k]), T(batch + [k, n]), beta=0.5)
    yield case(T(shape, dtype="f32"), T(a, dtype="f32"), T(b, dtype="f32"), alpha=0.5)
    for beta, alpha in [(1, 1), (2, 3), (0, -1), (0.6, 0.2), (1.5, -1.5)]:
        yield case(T(shape, dtype="i64"), T(a, dtype="i64"), T(b, dtype="i64"), beta=beta, alpha=alpha)
    for tracked in [(True, False, False), (False, True, False), (False, False, True)]:
        yield case(*(T(s, grad=g) for s, g in zip((shape, a, b), tracked)))
    unusual = T([2, 2], values=[nan, inf, -inf, 1.0])
    yield case(unusual, T(a), T(b), beta=0, tags=["special"])
    yield case(unusual, T(a), T(b), tags=["special"])
    for own, x, y in [(shape, a, batch + [2, 2]), ([3], a, b), ([1] + shape, a, b), (shape, [3], b), (shape, [1] + a, b), (shape, a, [1] + b)]:
        yield case(T(own), T(x), T(y), refused)
    yield case(T(shape, dtype="f32"), T(a), T(b), refused)
    yield case(T(shape), T(a), T(b, dtype="f32"), refused)
    yield case(T(shape, dtype="bool"), T(a, dtype="bool"), T(b, dtype="bool"), refused)


OPS = [
    Op("outer", torch.outer, [outers()], operands=("input", "vec2")),
    Op("addmm", torch.addmm, [sums_with("mat1", "mat2", [])]),
    Op("baddbmm", torch.baddbmm, [sums_with("batch1", "batch2", [2])]),
    Op("matmul", torch.matmul, [matmul()]),
    Op("mm", torch.mm, [samples("mat2", MM, EMPTY_MM, BAD_MM)]),
    Op("bmm", torch.bmm, [samples("mat2", BMM, EMPTY_BMM, BAD_BMM)]),
    Op("mv", torch.mv, [samples("vec", MV, EMPTY_MV, BAD_MV)]),
    Op("dot", torch.dot, [samples("tensor", DOT, [([0], [0])], BAD_DOT)]),
    Op("linear", F.linear, [linear()]),
]
