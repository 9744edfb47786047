"""Functions of two numbers that are neither arithmetic nor comparisons, of three numbers, and of bits."""

import torch

from .samples import (
    ANY, BOOL_PAIRS, DTYPE_PAIRS, LAYOUT_PAIRS, NONZERO, POSITIVE, SHAPE_PAIRS, BAD_PAIRS, Op, T, V, dtype_pairs, grid, inf, nan,
    number_operands, ok, refused, two_operands, wandering_pairs,
)  # fmt: skip

FLOAT_PAIRS = [pair for pair in DTYPE_PAIRS if any(dtype[0] == "f" for dtype, _ in pair)]
NO_FLOATS = [(("i64", [2, 2]), ("i64", [2])), (("bool", [4]), ("bool", [4])), (("bool", [3]), ("i64", [3]))]


def larger_or_smaller():
    yield from two_operands()
    yield from dtype_pairs(DTYPE_PAIRS + BOOL_PAIRS)
    yield from grid()
    yield ok(input=V(1.0, 2.0, -3.0, 0.5), other=V(1.0, 2.0, -3.0, 1.5), tags=["ties"])
    yield ok(input=T([2, 3], values=[1.0, 2.0, 3.0, 1.0, 5.0, 3.0]), other=V(1.0, 2.0, 3.0), tags=["ties"])


TINY_AND_HUGE = [1e-200, 1e200, -1e-170, 5e-324, 3.0]


def scales():
    """Numbers whose squares overflow or vanish."""
    yield from grid(numbers=TINY_AND_HUGE, dtypes=["f64"])
    yield from grid(numbers=[1e-30, 1e30, -1e-25, 1e-45, 3.0], dtypes=["f32"])


def floats_only(left=ANY, right=ANY):
    yield from two_operands(left, right)
    yield from dtype_pairs(FLOAT_PAIRS, left, right)
    yield from dtype_pairs(NO_FLOATS, outcome=refused)
    yield from grid()


def remainders():
    yield from two_operands(ANY, NONZERO)
    yield from wandering_pairs(15, ANY, NONZERO)
    yield from number_operands([1.5, 2, -0.75, -4], ANY)
    yield from dtype_pairs(DTYPE_PAIRS, ANY, NONZERO)
    yield from dtype_pairs(BOOL_PAIRS[2:3], POSITIVE, NONZERO)
    yield refused(input=T([4], dtype="bool"), other=T([4], dtype="bool"))
    yield from grid()
    yield ok(input=V(7.0, -7.0, 7.0, -7.0, 1.0, 6.0, -6.0), other=V(2.0, 2.0, -2.0, -2.0, 0.1, 3.0, 3.0), tags=["special"])
    yield ok(input=V(7, -7, 7, -7, 0, 6, -(2**63), dtype="i64"), other=V(2, 2, -2, -2, 5, -3, -1, dtype="i64"))
    yield ok(input=T([5], dtype="i64"), other=-4)
    yield ok(input=T([5], dtype="i64"), other=2.5)
    yield ok(input=T([0], dtype="i64"), other=T([1], values=[0], dtype="i64"))
    yield ok(input=T([2, 2]), other=0, tags=["special"])
    yield refused(input=T([3], dtype="i64"), other=V(1, 0, 2, dtype="i64"))
    yield refused(input=T([3], dtype="i64"), other=0)


def copysign():
    yield from two_operands(ANY, ANY)
    yield from number_operands([1.5, -2, -0.0, 0], ANY)
    yield from dtype_pairs(DTYPE_PAIRS + BOOL_PAIRS)
    yield from grid(numbers=[inf, -inf, 0.0, -0.0, 1.0, -2.5])
    yield ok(input=T([3], dtype="i64"), other=-1)


def xlogy():
    yield from two_operands(ANY, POSITIVE)
    yield from number_operands([1.5, 2, 0], ANY)
    yield from dtype_pairs(DTYPE_PAIRS + BOOL_PAIRS, ANY, POSITIVE)
    yield from grid()


def bits():
    for dtype in ("i64", "bool"):
        for a, b in SHAPE_PAIRS:
            yield ok(input=T(a, dtype=dtype), other=T(b, dtype=dtype))
        for (a, layout_a), (b, layout_b) in LAYOUT_PAIRS:
            yield ok(input=T(a, layout_a, dtype=dtype), other=T(b, layout_b, dtype=dtype))
        for a, b in BAD_PAIRS:
            yield refused(input=T(a, dtype=dtype), other=T(b, dtype=dtype))
    yield ok(input=V(0, -1, 2**62, -(2**63), 6, dtype="i64"), other=V(5, 7, -1, -1, 3, dtype="i64"))
    yield ok(input=T([2, 2], dtype="bool"), other=T([2], dtype="i64"))
    yield ok(input=T([2, 2], dtype="i64"), other=T([2], dtype="bool"))
    for number in (3, -1, 0, True):
        yield ok(input=T([4], dtype="i64"), other=number)
        yield ok(input=T([4], dtype="bool"), other=number)
    for other in (T([2]), T([2], dtype="f32"), T([2], dtype="i64"), 1):
        yield refused(input=T([2]), other=other)
    yield refused(input=T([2], dtype="i64"), other=1.5)


SHAPES = [
    ([2, 3], [2, 3], [2, 3]), ([3], [2, 3], [2, 1]), ([2, 1], [3], []), ([], [3], [2, 1]), ([], [], []), ([2, 1, 1], [2, 1], [2]),
    ([3, 1, 3], [3, 3, 1], []), ([0], [0], [1]), ([2, 0], [2, 1], [1]), ([1], [2, 0], []),
]  # fmt: skip
BAD = [([3], [4], [3]), ([2, 3], [3], [2]), ([3], [3], [2, 2])]
LAYOUTS = [("transposed", "strided", "expanded"), ("strided", "expanded", "offset"), ("offset", "transposed", "contiguous")]


def three(b, c, last=ANY, mixed=(), **more):
    for x, y, z in SHAPES:
        yield ok(**{"input": T(x), b: T(y), c: T(z, values=last)}, **more)
    for x, y, z in LAYOUTS:
        yield ok(**{"input": T([2, 3], x), b: T([2, 3], y), c: T([2, 3], z, values=last)}, **more)
    for x, y, z in BAD:
        yield refused(**{"input": T(x), b: T(y), c: T(z, values=last)}, **more)
    yield ok(**{"input": T([2, 3], dtype="f32"), b: T([3], dtype="f32"), c: T([2, 1], values=last, dtype="f32")}, **more)
    for tracked in [(True, False, False), (False, True, False), (False, False, True)]:
        x, y, z = tracked
        yield ok(**{"input": T([3], grad=x), b: T([3], grad=y), c: T([3], values=last, grad=z)}, **more)
    for x, y, z in mixed:
        yield ok(**{"input": T([3], dtype=x), b: T([2, 1], dtype=y), c: T([3], values=last, dtype=z)}, **more)


MIXED = [("f32", "f64", "f32"), ("i64", "f64", "i64"), ("f64", "bool", "f32"), ("i64", "i64", "f32")]


def lerp():
    yield from three("end", "weight")
    for weight in (0.25, 0.75, 0, 1, -1, 3, 0.5, nan):
        yield ok(input=T([2, 3]), end=T([3]), weight=weight)
        yield ok(input=V(inf, -inf, 1.0, inf, 1e16, nan), end=V(1.0, inf, inf, inf, 1.0, 2.0), weight=weight, tags=["special"])
        yield ok(input=T([4], dtype="f32"), end=T([4], dtype="f32"), weight=weight)
    yield refused(input=T([3]), end=T([3], dtype="f32"), weight=0.5)
    yield refused(input=T([3]), end=T([3]), weight=T([3], dtype="f32"))
    yield refused(input=T([3], dtype="i64"), end=T([3], dtype="i64"), weight=0.5)
    yield refused(input=T([3]), end=T([3], dtype="i64"), weight=0.5)
    yield refused(input=T([3]), end=T([4]), weight=0.5)


def addcmul():
    yield from three("tensor1", "tensor2", mixed=MIXED)
    for value in (2, 0.5, -1, 0):
        yield ok(input=T([2, 3]), tensor1=T([3]), tensor2=T([2, 1]), value=value)
        yield ok(input=T([3], dtype="f32"), tensor1=T([3], dtype="f32"), tensor2=T([3], dtype="f32"), value=value)
        yield ok(input=T([3], dtype="i64"), tensor1=T([3], dtype="i64"), tensor2=T([3], dtype="i64"), value=value)
    yield ok(input=V(1.0, 1.0, nan), tensor1=V(inf, nan, 1.0), tensor2=V(0.0, 1.0, 2.0), value=0, tags=["special"])
    yield ok(input=V(0, 1, dtype="i64"), tensor1=V(1, 2**62, dtype="i64"), tensor2=V(1, 4, dtype="i64"), value=2**53 + 1, tags=["special"])
    yield ok(input=T([3], dtype="i64"), tensor1=T([3], dtype="bool"), tensor2=T([3], dtype="bool"))
    yield refused(input=T([3], dtype="bool"), tensor1=T([3], dtype="bool"), tensor2=T([3], dtype="bool"))


def addcdiv():
    yield from three("tensor1", "tensor2", NONZERO, mixed=[("f32", "f64", "f32"), ("f64", "f32", "f64"), ("i64", "f32", "f64")])
    for value in (2, 0.5, -1, 0):
        yield ok(input=T([2, 3]), tensor1=T([3]), tensor2=T([2, 1], values=NONZERO), value=value)
        yield ok(input=T([3], dtype="f32"), tensor1=T([3], dtype="f32"), tensor2=T([3], values=NONZERO, dtype="f32"), value=value)
    yield ok(input=V(1.0, 1.0, nan, 1.0), tensor1=V(inf, 1.0, 1.0, 0.0), tensor2=V(2.0, 0.0, 2.0, 0.0), value=2, tags=["special"])
    for own in ("f64", "i64"):
        yield refused(input=T([3], dtype=own), tensor1=T([3], dtype="i64"), tensor2=T([3], values=NONZERO, dtype="i64"))
    yield refused(input=T([3]), tensor1=T([3], dtype="bool"), tensor2=T([3], dtype="i64", values=NONZERO))


ROWS = {
    "fmax": [larger_or_smaller()],
    "fmin": [larger_or_smaller()],
    "atan2": [two_operands(), wandering_pairs(15), dtype_pairs(DTYPE_PAIRS + BOOL_PAIRS[:2]), grid(), scales()],
    "hypot": [floats_only(), scales()],
    "logaddexp": [floats_only(), [ok(input=V(1000.0, -1000.0, 40.0, 3.0), other=V(1000.0, -1000.0, -40.0, 3.0), tags=["ties"])]],
    "xlogy": [xlogy()],
    "copysign": [copysign()],
    "remainder": [remainders()],
    "fmod": [remainders()],
    "bitwise_and": [bits()], "bitwise_or": [bits()], "bitwise_xor": [bits()],
    "lerp": [lerp()], "addcmul": [addcmul()], "addcdiv": [addcdiv()],
}  # fmt: skip
OPS = [Op(name, getattr(torch, name), groups, broadcasts=True, operands=("input", "other", "tensor1", "tensor2")) for name, groups in ROWS.items()]
