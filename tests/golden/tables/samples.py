"""The vocabulary of the tables, and the kinds of samples that many operations share.

A row of a table is `Op(name, call, samples, ...)`. A sample is `ok(...)` or `refused(...)` with PyTorch's own parameter names:
`T` stands for a tensor, a list of `T` for a list of tensors, anything else is passed as it is.
"""

import math
import random
from dataclasses import dataclass, field
from typing import Callable

import torch

from .case import FLOATS, encode_number, expanded_axis, strides_of

nan, inf = math.nan, math.inf


# What values a tensor is filled with ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Domain:
    """The numbers that a random tensor is drawn from: few digits, so that files stay small and sums stay exact."""

    floats: tuple
    integers: tuple

    def draw(self, rng, count, dtype):
        if dtype == "bool":
            return [rng.randint(0, 1) for _ in range(count)]
        pool = self.floats if dtype in FLOATS else self.integers
        return rng.sample(pool, count) if count <= len(pool) else [rng.choice(pool) for _ in range(count)]


def eighths(low, high, without=()):
    return tuple(k / 8 for k in range(round(low * 8), round(high * 8) + 1) if k / 8 not in without)


ANY = Domain(eighths(-3, 3, without=(0,)), tuple(range(-6, 7)))
POSITIVE = Domain(eighths(0.125, 5), tuple(range(1, 10)))
NONZERO = Domain(eighths(-3, 3, without=(0, 0.125, -0.125)), tuple(n for n in range(-6, 7) if n))
ABOVE_MINUS_ONE = Domain(eighths(-0.875, 4, without=(0,)), tuple(range(0, 7)))
INSIDE = Domain(eighths(-0.875, 0.875, without=(0,)), (0,))
ABOVE_ONE = Domain(eighths(1.125, 5), tuple(range(2, 9)))
PROBABILITY = Domain(eighths(0, 1), (0, 1))
SEED = Domain(eighths(-2, 2, without=(0,)), ())


def below(n):
    """Indices 0 .. n-1."""
    return Domain((), tuple(range(n)))


# A tensor of a sample -------------------------------------------------------------------------------------------------


@dataclass
class T:
    """A tensor argument: its shape, its layout, and a domain or a flat list of values (row-major over the shape)."""

    shape: list
    layout: str = "contiguous"
    values: object = ANY
    dtype: str = "f64"
    grad: bool | None = None  # None: tracked if it can be

    def write(self, name, rng, track):
        data = self.values if isinstance(self.values, list) else self.draw(rng)
        tracked = self.dtype in FLOATS and track if self.grad is None else self.grad
        out = {"name": name, "shape": self.shape, "dtype": self.dtype, "data": [encode_number(v) for v in data]}
        out |= {"layout": self.layout, "requires_grad": tracked}
        if self.layout != "contiguous":
            out["strides"], out["offset"] = strides_of(self.shape, self.layout)
        return out

    def draw(self, rng):
        count = math.prod(self.shape)
        if self.layout != "expanded":
            return self.values.draw(rng, count, self.dtype)
        axis = expanded_axis(self.shape)  # what the axis repeats is drawn once
        base = list(self.shape)
        base[axis] = 1
        numbers = torch.arange(math.prod(base)).reshape(base).expand(self.shape).reshape(-1).tolist()
        drawn = self.values.draw(rng, math.prod(base), self.dtype)
        return [drawn[i] for i in numbers]


def V(*values, dtype="f64", **more):
    """A vector of the given values."""
    return T([len(values)], values=[float(v) if dtype in FLOATS else int(v) for v in values], dtype=dtype, **more)


@dataclass
class Sample:
    inputs: dict
    args: dict
    tags: tuple
    refused: bool


def sample(refused, tags, named):
    inputs, args = {}, {}
    for name, value in named.items():
        if isinstance(value, T):
            inputs[name] = value
        elif isinstance(value, list) and value and isinstance(value[0], T):
            inputs |= {f"{name}[{i}]": member for i, member in enumerate(value)}
        else:
            args[name] = encode_number(value)
    return Sample(inputs, args, tuple(tags), refused)


def ok(*, tags=(), **named):
    """A call that has a result."""
    return sample(False, tags, named)


def refused(*, tags=(), **named):
    """A call that PyTorch refuses."""
    return sample(True, tags, named)


@dataclass
class Op:
    """A row of a table: an operation, how PyTorch calls it, and groups of samples."""

    name: str
    call: Callable
    groups: list = field(default_factory=list)
    broadcasts: bool = False  # its tensors are broadcast against each other
    mutates: bool = False  # it changes its `input`
    orders: int = 2  # how often PyTorch can differentiate it
    operands: tuple = ("input", "other", "exponent", "src", "min", "max")  # inputs that take part in type promotion

    def samples(self):
        for group in self.groups:
            yield from group


def method(name):
    """A method of `torch.Tensor`, called with its tensor by the name `input`."""
    return lambda input, **named: getattr(input, name)(**named)


# Kinds of samples -----------------------------------------------------------------------------------------------------

# Where most conventions live: not-a-number, infinities, signed zeros, and numbers far out. Not the very largest: twice
# that is infinite, and then a derivative depends on the order in which a formula multiplies.
SPECIAL = {
    "f64": [nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 5e-324, -1e-308, 1e300, -1e300],
    "f32": [nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 1e-45, -1e-38, 1e30, -1e30],
}


def special(values=(), dtypes=FLOATS):
    """A sample of the special numbers, and of values that are special to one operation, in each float type."""
    for dtype in dtypes:
        numbers = SPECIAL[dtype] + list(values)
        yield ok(input=V(*numbers, dtype=dtype), tags=["special"])


def layouts(values=ANY, dtype="f64"):
    """Tensors of every layout class."""
    return [
        T([5], "offset", values, dtype),
        T([2, 3], "transposed", values, dtype),
        T([2, 3, 2], "transposed", values, dtype),
        T([3, 2], "expanded", values, dtype),
        T([4], "strided", values, dtype),
        T([2, 2, 2], "strided", values, dtype),
    ]


def one_operand(values=ANY, refuses=()):
    """Samples of a function of one number: shapes, layouts, dtypes; `refuses` names the dtypes it does not take."""
    for shape in [[], [3], [2, 3], [1], [2, 1, 2, 1, 2], [0], [2, 0, 3]]:
        yield ok(input=T(shape, values=values))
    for tensor in layouts(values):
        yield ok(input=tensor)
    yield ok(input=T([], "offset", values))
    yield ok(input=T([37], values=values, dtype="f32"))  # longer than a vector register
    yield ok(input=T([2, 3], "strided", values, "f32"))
    yield ok(input=T([2, 2], values=values, grad=False))
    for dtype in ("i64", "bool"):
        outcome = refused if dtype in refuses else ok
        yield outcome(input=T([5], values=values, dtype=dtype))
        yield outcome(input=T([2, 3], "transposed", values, dtype))


# Every way in which two shapes broadcast: none, a missing axis, crossed ones, 0-d, one element, empty, high rank.
SHAPE_PAIRS = [
    ([2, 3], [2, 3]), ([2, 3], [3]), ([3], [2, 3]), ([3, 1], [1, 4]), ([2, 1, 3], [4, 1]), ([], [3]), ([2, 2], []), ([], []),
    ([1], [2, 2]), ([1, 1, 1], [2]), ([2, 1, 1, 2], [3, 1, 1]), ([2, 1, 2, 1, 2], [2, 1]),
    ([0, 3], [1, 3]), ([4, 0], [4, 1]), ([0], [1]), ([], [0]), ([2, 0, 1], [3]), ([0, 1], [1, 0]),
]  # fmt: skip
LAYOUT_PAIRS = [
    (([2, 3], "transposed"), ([2, 3], "contiguous")),
    (([3, 2], "expanded"), ([3, 2], "strided")),
    (([2], "offset"), ([3, 2], "transposed")),
    (([3, 1], "strided"), ([1, 4], "expanded")),
    (([2, 3, 2], "transposed"), ([3, 1], "offset")),
    (([2, 2], "expanded"), ([2, 2], "expanded")),
    (([], "offset"), ([2, 2], "strided")),
]
BAD_PAIRS = [([3], [4]), ([5, 2, 4, 1], [3, 1, 1]), ([0], [2, 2]), ([2, 3], [3, 2])]


def two_operands(left=ANY, right=ANY, second="other"):
    """Float samples of a function of two numbers: broadcast shapes, layouts, one side tracked; and shapes that do not fit."""
    for a, b in SHAPE_PAIRS:
        yield ok(**{"input": T(a, values=left), second: T(b, values=right)})
    for (a, layout_a), (b, layout_b) in LAYOUT_PAIRS:
        yield ok(**{"input": T(a, layout_a, left), second: T(b, layout_b, right)})
    yield ok(**{"input": T([2, 3], values=left), second: T([3], values=right, grad=False)})
    yield ok(**{"input": T([2, 1], values=left, grad=False), second: T([1, 3], values=right)})
    yield ok(**{"input": T([2, 3], values=left, dtype="f32"), second: T([3], values=right, dtype="f32")})
    yield ok(**{"input": T([2, 1, 3], "strided", left, "f32"), second: T([2, 1], "transposed", right, "f32")})
    for a, b in BAD_PAIRS:
        yield refused(**{"input": T(a, values=left), second: T(b, values=right)})


def wandering_pairs(count, left=ANY, right=ANY, second="other"):
    """Random pairs of shapes that broadcast, of rank up to 4, each side in a random layout that its shape allows."""
    rng = random.Random(f"pairs of {second}")

    def thinned(shape):
        dropped = shape[rng.choice([0, 0, 0, 1, 2]) :]
        return [rng.choice([n, n, 1]) for n in dropped]

    def layout(shape):
        possible = ["contiguous", "offset", "strided"]
        possible += ["transposed"] * 2 if len(shape) > 1 else []
        possible += ["expanded"] * 2 if max(shape, default=0) > 1 else []
        return rng.choice(possible)

    for _ in range(count):
        full = [rng.choice([1, 2, 2, 3, 3, 0] if axis < 2 else [1, 2, 3]) for axis in range(rng.randint(1, 4))]
        a, b = thinned(full), thinned(full)
        yield ok(**{"input": T(a, layout(a), left), second: T(b, layout(b), right)})


def long_pairs(second="other"):
    """More elements than a block holds, of an inner axis and of an outer one."""
    yield ok(**{"input": T([40, 1]), second: T([1, 41])})
    yield ok(**{"input": T([41, 30], "transposed"), second: T([30])})
    yield ok(**{"input": T([1500], "strided"), second: T([])})
    yield ok(**{"input": T([3, 1, 500], dtype="f32"), second: T([2, 1], dtype="f32")})


# (dtype and shape of the left, of the right): categories and widths, with 0-d tensors, which do not widen.
DTYPE_PAIRS = [
    (("f32", [2, 3]), ("f64", [3])), (("f64", [2]), ("f32", [2, 2])), (("i64", [2, 2]), ("f64", [2])),
    (("f32", [2]), ("i64", [3, 2])), (("i64", [2, 2]), ("i64", [2])), (("f64", []), ("f32", [3])),
    (("f32", [3]), ("f64", [])), (("i64", [3]), ("f32", [])), (("f64", []), ("i64", [2])), (("i64", []), ("i64", [3])),
]  # fmt: skip
BOOL_PAIRS = [
    (("bool", [4]), ("bool", [4])), (("bool", [2, 1]), ("i64", [3])), (("bool", [3]), ("f32", [3])),
    (("f64", [2, 2]), ("bool", [2])), (("i64", [2]), ("bool", [])),
]  # fmt: skip


def dtype_pairs(pairs, left=ANY, right=ANY, second="other", outcome=ok):
    for (dtype_a, a), (dtype_b, b) in pairs:
        yield outcome(**{"input": T(a, values=left, dtype=dtype_a), second: T(b, values=right, dtype=dtype_b)})


def number_operands(numbers, values=ANY, second="other"):
    """Samples with a plain number on the right."""
    for number in numbers:
        yield ok(**{"input": T([2, 2], values=values), second: number})
    number = numbers[0]
    yield ok(**{"input": T([], values=values), second: number})
    yield ok(**{"input": T([0, 2], values=values), second: number})
    yield ok(**{"input": T([2, 3], "transposed", values), second: number})
    yield ok(**{"input": T([3], values=values, dtype="f32"), second: number})


GRID = [nan, inf, -inf, 0.0, -0.0, 1.0, -2.5]


def grid(second="other", numbers=GRID, dtypes=FLOATS, tags=("special",)):
    """Every pair of special numbers, element by element, so that each pair has its own gradients."""
    for dtype in dtypes:
        left = [a for a in numbers for _ in numbers]
        right = [b for _ in numbers for b in numbers]
        yield ok(**{"input": V(*left, dtype=dtype), second: V(*right, dtype=dtype)}, tags=tags)
