"""Functions of two numbers: arithmetic with `alpha` and `rounding_mode`, powers, and the larger and smaller of two."""

import torch

from .samples import (
    ANY, BOOL_PAIRS, DTYPE_PAIRS, NONZERO, POSITIVE, Op, T, V, dtype_pairs, grid, inf, long_pairs, method, nan, number_operands, ok,
    refused, two_operands, wandering_pairs,
)  # fmt: skip

I64_EDGES = [0, 1, -1, 7, -7, 2**62, -(2**62)]


def integers(**more):
    """Numbers on the right of integers and bools, whose type they may raise."""
    yield ok(input=T([3], dtype="i64"), other=2, **more)
    yield ok(input=T([2, 2], "transposed", dtype="i64"), other=2.5, **more)
    yield ok(input=T([3], dtype="i64"), other=-1, **more)


def number_first(values=ANY):
    """A number on the left."""
    for number in (1.5, 2, -1):
        yield ok(input=number, other=T([2, 2], values=values))
    yield ok(input=2.5, other=T([], values=values))
    yield ok(input=2.5, other=T([2, 3], "transposed", values))
    yield ok(input=2.5, other=T([0], values=values))
    yield ok(input=0.1, other=T([3], values=values, dtype="f32"))
    yield ok(input=2.5, other=T([3], values=NONZERO, dtype="i64"))
    yield ok(input=7, other=T([3], values=NONZERO, dtype="i64"))


def alpha(numbers=(1.5, -2)):
    yield ok(input=T([2, 3]), other=T([3]), alpha=2.5)
    yield ok(input=T([2, 1], "strided"), other=T([2, 3], "transposed"), alpha=-1)
    yield ok(input=T([3], "expanded"), other=T([2, 1, 1]), alpha=0)
    yield ok(input=T([3]), other=T([]), alpha=-0.5)
    yield ok(input=T([0, 3]), other=T([1, 3]), alpha=2)
    for number, scale in zip(numbers, (2, 0.5)):
        yield ok(input=T([2, 2]), other=number, alpha=scale)
    yield ok(input=T([2], dtype="f32"), other=T([2], dtype="f64"), alpha=2.5)
    yield ok(input=T([3], dtype="i64"), other=T([2, 1], dtype="i64"), alpha=-3)
    yield ok(input=T([3], dtype="i64"), other=T([3], dtype="f64"), alpha=0.5)
    yield ok(input=T([3], dtype="f32"), other=T([3], dtype="f32"), alpha=0.1)
    yield ok(input=V(nan, inf, -inf, 1.0), other=V(1.0, inf, inf, nan), alpha=-1, tags=["special"])
    yield ok(input=V(1.0, 1.0, 1.0), other=V(inf, nan, -0.0), alpha=0, tags=["special"])
    yield refused(input=T([3], dtype="i64"), other=T([3], dtype="i64"), alpha=1.5)
    yield refused(input=T([3], dtype="i64"), other=2, alpha=0.5)
    yield refused(input=T([3]), other=T([3]), alpha=True)
    yield refused(input=T([3], dtype="i64"), other=T([3], dtype="i64"), alpha=True)


def bool_sums():
    """Adding bools is `or`; subtracting them is refused."""
    yield ok(input=V(0, 0, 1, 1, dtype="bool"), other=V(0, 1, 0, 1, dtype="bool"))
    yield ok(input=V(0, 0, 1, 1, dtype="bool"), other=V(0, 1, 0, 1, dtype="bool"), alpha=False)
    yield ok(input=V(0, 1, dtype="bool"), other=True)
    yield ok(input=V(0, 1, dtype="bool"), other=2)
    yield ok(input=V(0, 1, dtype="bool"), other=T([], dtype="i64"), alpha=2)
    yield refused(input=T([3], dtype="bool"), other=T([3], dtype="bool"), alpha=0.5)


def bool_differences():
    yield from dtype_pairs(BOOL_PAIRS, outcome=refused)
    yield refused(input=T([2], dtype="bool"), other=1)
    yield refused(input=T([2]), other=True)


WRAPPING = [ok(input=V(2**63 - 1, -(2**63), 2**62, dtype="i64"), other=V(1, -1, 2**62, dtype="i64"), tags=["special"])]
SUM_EDGES = [ok(input=V(1e308, 1.0, 1e16, 0.1), other=V(1e308, 1e-16, 1.0, 0.2), tags=["special"])]


def rounding():
    """Division rounded down (floor) and towards zero (trunc), on floats and on integers."""
    quotients = [7.0, -7.0, 7.0, -7.0, 1.0, 0.0, -0.0, 6.0, 1.0]
    divisors = [2.0, 2.0, -2.0, -2.0, 0.1, 3.0, 3.0, 3.0, -inf]
    for mode in ("floor", "trunc"):
        yield ok(input=T([2, 3]), other=T([3], values=NONZERO), rounding_mode=mode)
        yield ok(input=T([2, 1], "transposed"), other=T([1, 3], "offset", NONZERO), rounding_mode=mode)
        yield ok(input=T([3], dtype="f32"), other=T([2, 1], values=NONZERO, dtype="f32"), rounding_mode=mode)
        yield ok(input=T([0]), other=T([]), rounding_mode=mode)
        yield ok(input=T([2, 2]), other=0.75, rounding_mode=mode)
        yield ok(input=V(*quotients), other=V(*divisors), rounding_mode=mode, tags=["special"])
        yield ok(input=V(nan, inf, -inf, 1.0, -1.0, 0.0, 5.0), other=V(1.0, 2.0, 2.0, 0.0, 0.0, 0.0, inf), rounding_mode=mode, tags=["special"])
        yield ok(input=V(7, -7, 7, -7, 0, 6, dtype="i64"), other=V(2, 2, -2, -2, 5, -3, dtype="i64"), rounding_mode=mode)
        yield ok(input=T([2, 3], dtype="i64"), other=-4, rounding_mode=mode)
        yield ok(input=T([3], dtype="i64"), other=2.5, rounding_mode=mode)
        yield ok(input=T([3], dtype="i64"), other=T([3], values=NONZERO, dtype="f32"), rounding_mode=mode)
        yield refused(input=T([3], dtype="i64"), other=V(1, 0, 2, dtype="i64"), rounding_mode=mode)
        yield refused(input=T([3], dtype="i64"), other=0, rounding_mode=mode)
        yield refused(input=T([3]), other=T([4]), rounding_mode=mode)
    yield ok(input=T([2, 3]), other=T([3], values=NONZERO), rounding_mode=None)
    yield refused(input=T([3]), other=T([3], values=NONZERO), rounding_mode="nearest")


def division():
    yield from integers()
    yield ok(input=V(7, -7, 0, 1, dtype="i64"), other=V(2, 2, 0, 0, dtype="i64"), tags=["special"])
    yield ok(input=T([2, 2]), other=0, tags=["special"])
    yield ok(input=T([2], dtype="i64"), other=0.0, tags=["special"])
    yield ok(input=V(1e-300, 1e300, 1e-308), other=V(1e300, 1e-300, 10.0), tags=["special"])


POWERS = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, inf, -inf, nan]
BASES = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, inf, -inf, nan]


def powers():
    """A tensor to the power of a tensor, and of a number: 0, 1 and 2 have formulas of their own in PyTorch."""
    yield from two_operands(POSITIVE, ANY, second="exponent")
    yield from wandering_pairs(30, POSITIVE, ANY, second="exponent")
    yield from number_operands([2.5, 2, 3, 1, 0, 0.5, -0.5, -1, -2, 1.0, 2.0, 0.0], POSITIVE, second="exponent")
    yield from number_operands([2, 3, 4, 0, 1, -1, -3], NONZERO, second="exponent")
    yield from dtype_pairs(DTYPE_PAIRS, POSITIVE, POSITIVE, second="exponent")
    yield from grid("exponent", dtypes=["f64"])
    bases = [b for b in BASES for _ in POWERS]
    yield ok(input=V(*bases), exponent=V(*POWERS * len(BASES)), tags=["special"])
    for power in [0, 1, 2, 3, 0.5, -0.5, -1, 1.5, inf, -inf, nan, 0.0]:
        yield ok(input=V(*BASES), exponent=power, tags=["special"])
        yield ok(input=V(0.0, 2.0, -1.0, nan, dtype="f32"), exponent=power, tags=["special"])
    yield ok(input=T([3]), exponent=T([3], values=NONZERO))  # a negative base gives NaN
    yield ok(input=V(0, 1, -1, 2, -3, 3, dtype="i64"), exponent=V(0, 5, 3, 10, 3, 40, dtype="i64"))
    yield ok(input=T([4], dtype="i64"), exponent=3)
    yield ok(input=T([4], values=POSITIVE, dtype="i64"), exponent=-1.5)
    yield ok(input=V(0, 1, dtype="bool"), exponent=V(0, 3, dtype="i64"))
    # Below one, an integer power is cut off to zero; as a plain number, a negative exponent is refused.
    yield ok(input=V(1, -1, -1, 2, -3, 0, dtype="i64"), exponent=V(-1, -1, -2, -1, -2, -1, dtype="i64"), tags=["special"])
    yield refused(input=T([2], values=POSITIVE, dtype="i64"), exponent=-1)
    yield refused(input=T([2], dtype="bool"), exponent=T([2], dtype="bool"))


def number_to_a_power():
    """A number to the power of a tensor."""
    for base in [2.0, 0.5, 1, 3, 0, -2.0, 0.0, inf, nan]:
        yield ok(self=base, exponent=T([2, 3], "transposed"))
        yield ok(self=base, exponent=V(*POWERS), tags=["special"])
    yield ok(self=2, exponent=V(0, 1, 10, dtype="i64"))
    yield ok(self=0, exponent=V(0, 1, 10, dtype="i64"))
    yield ok(self=2.5, exponent=V(0, 1, 10, dtype="i64"))
    yield ok(self=2.5, exponent=T([]))
    yield ok(self=2.5, exponent=T([0]))
    yield ok(self=3, exponent=T([3], dtype="f32"))


def larger_or_smaller():
    yield from two_operands()
    yield from wandering_pairs(30)
    yield from long_pairs()
    yield from dtype_pairs(DTYPE_PAIRS + BOOL_PAIRS)
    yield from grid()
    yield ok(input=V(1.0, 2.0, -3.0, 0.5), other=V(1.0, 2.0, -3.0, 1.5), tags=["ties"])
    yield ok(input=T([2, 3], values=[1.0, 2.0, 3.0, 1.0, 5.0, 3.0]), other=V(1.0, 2.0, 3.0), tags=["ties"])
    yield ok(input=V(1.0, 2.0, dtype="f32"), other=T([2, 1], values=[1.0, 2.0], dtype="f32"), tags=["ties"])
    yield ok(input=T([2, 2], values=[1.0] * 4), other=T([], values=[1.0]), tags=["ties"])


def reflected(numbers, values=ANY):
    """A number on the left of an operator: the method's `other` is the left operand."""
    yield from number_operands(numbers, values)
    yield ok(input=V(nan, inf, -inf, 0.0, -0.0, 1.0), other=numbers[0], tags=["special"])
    yield ok(input=T([3], values=POSITIVE, dtype="i64"), other=2)
    yield ok(input=T([3], values=POSITIVE, dtype="i64"), other=2.5)


ROWS = {
    "add": [two_operands(), number_first(), wandering_pairs(40), long_pairs(), number_operands([1.5, 2, -0.1, inf]),
            dtype_pairs(DTYPE_PAIRS + BOOL_PAIRS), grid(), alpha(), integers(), bool_sums(), WRAPPING, SUM_EDGES],
    "sub": [two_operands(), number_first(), wandering_pairs(40), number_operands([1.5, 2, -0.1, inf]),
            dtype_pairs(DTYPE_PAIRS), grid(), alpha(), integers(), bool_differences(), WRAPPING, SUM_EDGES],
    "rsub": [two_operands(), number_operands([1.5, 2]), dtype_pairs(DTYPE_PAIRS), alpha(numbers=()), integers(), bool_differences()],
    "mul": [two_operands(), number_first(), wandering_pairs(40), long_pairs(), number_operands([1.5, 2, -1, 0, inf, nan]),
            dtype_pairs(DTYPE_PAIRS + BOOL_PAIRS), grid(), integers(), WRAPPING],
    "div": [two_operands(ANY, NONZERO), number_first(NONZERO),
            wandering_pairs(40, ANY, NONZERO), number_operands([1.5, 2, -4]), dtype_pairs(DTYPE_PAIRS, NONZERO, NONZERO),
            dtype_pairs(BOOL_PAIRS[1:3], NONZERO, NONZERO), grid(), division(), rounding()],
    "maximum": [larger_or_smaller()],
    "minimum": [larger_or_smaller()],
}  # fmt: skip

OPS = [Op(name, getattr(torch, name), groups, broadcasts=True) for name, groups in ROWS.items()]
OPS += [
    Op("pow", torch.pow, [powers(), number_to_a_power()], broadcasts=True),
    Op("__rsub__", method("__rsub__"), [reflected([1.5, 2, -1])]),
    Op("__rdiv__", method("__rdiv__"), [reflected([1.5, 2, 0], NONZERO)]),
    Op("__rpow__", method("__rpow__"), [reflected([1.5, 2])]),
]
